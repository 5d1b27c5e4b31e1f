/*
 * A separate thread copies a big file into the store, and the copy is hashed right behind it: both together take as
 * long as the slower one, and the hash is that of the stored copy, whatever happens to the source meanwhile.
 */
#include "scan.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { PIECE = 4 << 20, PLAIN = 256 << 10, OUT_EACH = 32 << 20 /* write-back after this many bytes */ };

struct scan_copy {
    int from, to;
    uint64_t size;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    uint64_t done; /* bytes that are in the copy */
    bool threaded, ended, stopped;
    int errnum;
};

/* Copies a limited number of bytes, in the kernel if the file systems can: 0 at the end, -1 with errno. */
static ssize_t copy_some(struct scan_copy *c, char **plain)
{
    size_t len = PIECE;
    if (c->size + 1 - c->done < len) /* one byte more than expected, to detect a growing file */
        len = (size_t)(c->size + 1 - c->done);
    if (!*plain) {
        ssize_t n = copy_file_range(c->from, NULL, c->to, NULL, len, 0);
        if (n > 0 || (n < 0 && errno == EINTR) || (n == 0 && c->done > 0))
            return n;
        if (n < 0 && errno != EXDEV && errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)
            return -1;
        *plain = xmalloc(PLAIN); /* also for 0 at the very beginning: some file systems wrongly report an empty file */
    }
    ssize_t n = read(c->from, *plain, len < PLAIN ? len : PLAIN);
    return n > 0 && write_all(c->to, *plain, (size_t)n) ? -1 : n;
}

static void *copy_all(void *arg)
{
    struct scan_copy *c = arg;
    char *plain = NULL;
    uint64_t out = 0;
    for (bool going = true; going;) {
        ssize_t n = copy_some(c, &plain);
        if (c->done - out >= OUT_EACH) /* writing everything at the end would delay the waiting caller */
            tree_write_back(c->to, out = c->done);
        int errnum = n < 0 ? errno : 0;
        pthread_mutex_lock(&c->lock);
        if (n > 0)
            c->done += (uint64_t)n;
        c->ended = n == 0 || c->done > c->size || (n < 0 && errnum != EINTR);
        c->errnum = c->ended ? errnum : 0;
        going = !c->ended && !c->stopped;
        pthread_cond_signal(&c->more);
        pthread_mutex_unlock(&c->lock);
    }
    free(plain);
    return NULL;
}

struct scan_copy *scan_copy_begin(int from, int to, uint64_t size)
{
    struct scan_copy *c = xcalloc(1, sizeof *c);
    *c = (struct scan_copy){.from = from, .to = to, .size = size};
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->more, NULL);
    c->threaded = pthread_create(&c->thread, NULL, copy_all, c) == 0;
    if (!c->threaded) /* no thread available: copy everything now */
        copy_all(c);
    return c;
}

uint64_t scan_copy_wait(struct scan_copy *c, uint64_t seen, bool *ret_ended)
{
    pthread_mutex_lock(&c->lock);
    while (c->done == seen && !c->ended)
        pthread_cond_wait(&c->more, &c->lock);
    uint64_t done = c->done;
    *ret_ended = c->ended;
    pthread_mutex_unlock(&c->lock);
    return done;
}

int scan_copy_end(struct scan_copy *c)
{
    pthread_mutex_lock(&c->lock);
    c->stopped = true;
    pthread_mutex_unlock(&c->lock);
    if (c->threaded)
        pthread_join(c->thread, NULL);
    int errnum = c->errnum;
    pthread_cond_destroy(&c->more);
    pthread_mutex_destroy(&c->lock);
    free(c);
    return errnum;
}
