/* Checks the limits of this process before it starts an event loop: some libraries end the process without a message if
 * they get no descriptor or thread. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum {
    FILES_MIN = 18,  /* loop, journal, logs, and one node on this machine */
    THREADS_MIN = 7, /* the loop's pool of four, the journal's, one for output, and one in reserve */
};

static int check_files(struct error *err)
{
    int fds[FILES_MIN], count = 0;
    while (count < FILES_MIN && (fds[count] = fcntl(0, F_DUPFD_CLOEXEC, 3)) >= 0)
        count++;
    for (int i = 0; i < count; i++)
        close(fds[i]);
    if (count == FILES_MIN)
        return 0;
    error_set(err, ERROR_INFRA, "this process may open %d more files, and rhrun needs %d for one node", count,
              FILES_MIN);
    error_hint(err, "raise the limit: ulimit -n 1024, or LimitNOFILE= of a systemd unit");
    return -1;
}

static void *wait_for_all(void *arg)
{
    pthread_mutex_t *hold = arg;
    pthread_mutex_lock(hold); /* until all have started */
    pthread_mutex_unlock(hold);
    return NULL;
}

static int check_threads(struct error *err)
{
    pthread_t threads[THREADS_MIN];
    pthread_mutex_t hold = PTHREAD_MUTEX_INITIALIZER;
    int count = 0, errnum = 0;
    pthread_mutex_lock(&hold);
    while (count < THREADS_MIN && (errnum = pthread_create(&threads[count], NULL, wait_for_all, &hold)) == 0)
        count++;
    pthread_mutex_unlock(&hold);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    if (errnum == 0)
        return 0;
    error_set(err, ERROR_INFRA, "this process may start %d threads, and rhrun needs %d: %s", count, THREADS_MIN,
              strerror(errnum));
    error_hint(err, "raise the limit of processes (ulimit -u, TasksMax= of a systemd unit) or of memory (ulimit -v)");
    return -1;
}

int cli_check_limits(struct error *err)
{
    return check_files(err) < 0 ? -1 : check_threads(err);
}
