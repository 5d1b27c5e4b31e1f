/* The programs that a fetch uses: ssh and git, each as a child that cannot ask anything on the terminal. */
#include "remote.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { SAID_MAX = 4096 };

static int unnamed_file(void)
{
    const char *folder = getenv("TMPDIR");
    CLEANUP(cleanup_free) char *path = xasprintf("%s/rhrun-XXXXXX", folder && *folder ? folder : "/tmp");
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        (void)unlink(path);
    return fd;
}

int remote_child_start(struct remote_job *job, char *const argv[], struct remote_child *ret)
{
    int pair[2];
    CLEANUP(cleanup_close) int errors = unnamed_file();
    /* One socket for both directions: written with MSG_NOSIGNAL, so that its end causes no SIGPIPE. */
    if (errors < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attr);
    (void)posix_spawn_file_actions_adddup2(&actions, pair[1], STDIN_FILENO);
    (void)posix_spawn_file_actions_adddup2(&actions, pair[1], STDOUT_FILENO);
    (void)posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
    (void)posix_spawnattr_setsigmask(&attr, &none);
    (void)posix_spawnattr_setsigdefault(&attr, &all);
    (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
    pid_t pid = 0;
    (void)pthread_mutex_lock(&job->lock);
    int rc = job->abandoned ? ECANCELED : posix_spawnp(&pid, argv[0], &actions, &attr, argv, environ);
    if (rc == 0)
        job->child = pid;
    (void)pthread_mutex_unlock(&job->lock);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attr);
    close(pair[1]);
    if (rc) {
        close(pair[0]);
        errno = rc;
        return -1;
    }
    *ret = (struct remote_child){.pid = pid, .fd = pair[0], .errors = STEAL_FD(errors)};
    return 0;
}

/* The last text in the file, as one printable line. */
static void last_said(int fd, char *ret, size_t size)
{
    char text[SAID_MAX];
    off_t end = lseek(fd, 0, SEEK_END);
    ssize_t n = end < 0 ? -1 : pread(fd, text, sizeof text, end > SAID_MAX ? end - SAID_MAX : 0);
    size_t len = 0, from = 0;
    for (ssize_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        bool blank = c <= ' ' || c == 0x7f;
        if (!blank)
            text[len++] = (char)c;
        else if (len && text[len - 1] != ' ')
            text[len++] = ' ';
    }
    while (len && (text[len - 1] == ' ' || text[len - 1] == '.'))
        len--;
    if (len >= size)
        from = len - size + 1;
    memcpy(ret, text + from, len - from);
    ret[len - from] = 0;
}

int remote_child_end(struct remote_job *job, struct remote_child *c, bool stop, char *ret_said, size_t size)
{
    int status = -1;
    close(c->fd);
    (void)pthread_mutex_lock(&job->lock);
    job->child = 0; /* nobody else must kill it from here on: its pid may soon be reused */
    (void)pthread_mutex_unlock(&job->lock);
    if (stop)
        (void)kill(-c->pid, SIGTERM);
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (ret_said)
        last_said(c->errors, ret_said, size);
    close(c->errors);
    *c = (struct remote_child){.fd = -1, .errors = -1};
    return status;
}
