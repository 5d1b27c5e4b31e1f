/*
 * Text to stdout and stderr: collected until the loop's next turn or 64 KiB, written in the order in which it came.
 * With a loop a thread writes it, so that a stopped reader (less, Ctrl-S) does not stop the loop, and with it the job.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    OUT_MAX = 64 << 10,
    MEMORY_MAX = 4 << 20, /* bytes in memory that wait for the reader; more of them go to a file */
    STUCK_MS = 2000,      /* a reader that takes nothing for that long has stopped */
};

struct chunk {
    struct chunk *next;
    int fd;
    bool filed; /* it is in the file, at `at` */
    off_t at;
    size_t len;
    char text[];
};

struct out {
    struct loop_timer *timer;
    struct buf text;
    int fd;                    /* the destination of `text` */
    int open_fd;               /* the descriptor whose last line has no end; 0 = none */
    bool together;             /* both descriptors are one file or terminal */
    struct screen *screens[3]; /* of 1 and 2, if they are terminals; NULL = every byte is written */
    uint64_t put;              /* bytes */

    bool threaded;
    pthread_t thread;
    pthread_mutex_t lock; /* of the fields below */
    pthread_cond_t more, taken;
    struct chunk *first, **last;
    uint64_t waiting; /* bytes that are not written yet */
    size_t in_memory; /* of them */
    int file;         /* unnamed; -1 = not made */
    off_t filed;      /* where the next bytes go; 0 again once nothing waits */
    bool ended;

    uint64_t dropped; /* bytes for which there was no room in the file */
};

static void on_timer(void *arg)
{
    out_flush(arg);
}

/* If the reader is gone or the disk is full, this text is lost, not the job: the logs have it. */
static void write_out(int fd, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, text, len);
        if (n < 0 && errno == EAGAIN) {
            struct pollfd p = {fd, POLLOUT, 0};
            poll(&p, 1, -1);
        } else if (n < 0 && errno != EINTR) {
            return;
        } else if (n > 0) {
            text += n;
            len -= (size_t)n;
        }
    }
}

/* ---- the thread ---- */

static void write_filed(const struct out *o, const struct chunk *c)
{
    char part[16384];
    for (size_t done = 0; done < c->len;) {
        size_t want = c->len - done < sizeof part ? c->len - done : sizeof part;
        ssize_t n = pread(o->file, part, want, c->at + (off_t)done);
        if (n <= 0)
            return;
        write_out(c->fd, part, (size_t)n);
        done += (size_t)n;
    }
}

static void *write_chunks(void *arg)
{
    struct out *o = arg;
    pthread_mutex_lock(&o->lock);
    for (;;) {
        while (!o->first && !o->ended)
            pthread_cond_wait(&o->more, &o->lock);
        struct chunk *c = o->first;
        if (!c)
            break;
        o->first = c->next;
        if (!o->first)
            o->last = &o->first;
        pthread_mutex_unlock(&o->lock);
        if (c->filed)
            write_filed(o, c);
        else
            write_out(c->fd, c->text, c->len);
        pthread_mutex_lock(&o->lock);
        o->waiting -= c->len;
        o->in_memory -= c->filed ? 0 : c->len;
        free(c);
        if (!o->first && o->filed > 0 && ftruncate(o->file, 0) == 0)
            o->filed = 0;
        pthread_cond_signal(&o->taken);
    }
    pthread_mutex_unlock(&o->lock);
    return NULL;
}

static void start_thread(struct out *o)
{
    pthread_condattr_t monotonic;
    sigset_t all, before;
    o->last = &o->first;
    o->file = -1;
    pthread_mutex_init(&o->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&o->more, &monotonic);
    pthread_cond_init(&o->taken, &monotonic);
    pthread_condattr_destroy(&monotonic);
    sigfillset(&all); /* the loop handles the signals */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    o->threaded = pthread_create(&o->thread, NULL, write_chunks, o) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

struct out *out_create(struct loop *loop)
{
    struct out *o = xcalloc(1, sizeof *o);
    struct stat a, b;
    o->timer = loop ? loop_timer_create(loop, on_timer, o) : NULL;
    o->together = fstat(1, &a) == 0 && fstat(2, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
    for (int fd = 1; fd <= 2; fd++)
        if (isatty(fd)) {
            o->screens[fd] = xcalloc(1, sizeof *o->screens[fd]);
            o->screens[fd]->color = o->screens[fd]->returns = true;
        }
    if (loop)
        start_thread(o);
    return o;
}

/* A new file that no other process can open. */
static int open_file(void)
{
    const char *dir = getenv("TMPDIR");
    CLEANUP(cleanup_free) char *path = xasprintf("%s/rhrun-XXXXXX", dir && *dir == '/' ? dir : "/var/tmp");
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

/* False: there is no room. */
static bool put_into_file(struct out *o, const char *text, size_t len)
{
    if (o->file < 0)
        o->file = open_file();
    for (size_t done = 0; done < len;) {
        ssize_t n = o->file < 0 ? -1 : pwrite(o->file, text + done, len - done, o->filed + (off_t)done);
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    o->filed += (off_t)len;
    return true;
}

static void enqueue(struct out *o, int fd, const char *text, size_t len)
{
    bool filed = o->in_memory + len > MEMORY_MAX;
    off_t at = o->filed;
    if (filed && !put_into_file(o, text, len)) {
        o->dropped += len;
        return;
    }
    struct chunk *c = xmalloc(sizeof *c + (filed ? 0 : len));
    *c = (struct chunk){.fd = fd, .filed = filed, .at = at, .len = len};
    if (!filed) {
        memcpy(c->text, text, len);
        o->in_memory += len;
    }
    *o->last = c;
    o->last = &c->next;
    o->waiting += len;
    pthread_cond_signal(&o->more);
}

static void hand_over(struct out *o, int fd, const char *text, size_t len)
{
    pthread_mutex_lock(&o->lock);
    if (o->dropped && o->in_memory < MEMORY_MAX / 2) {
        CLEANUP(cleanup_free)
        char *said =
            xasprintf("rhrun: %" PRIu64
                      " bytes were not shown: the reader stood still and the disk is full; rhrun logs has them\n",
                      o->dropped);
        o->dropped = 0;
        enqueue(o, 2, said, strlen(said));
    }
    if (o->dropped)
        o->dropped += len;
    else
        enqueue(o, fd, text, len);
    pthread_mutex_unlock(&o->lock);
}

/* False: the reader takes nothing. */
static bool wait_for_reader(struct out *o)
{
    struct timespec until;
    bool goes_on = true;
    pthread_mutex_lock(&o->lock);
    while (o->waiting > 0 && goes_on) {
        uint64_t before = o->waiting;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += STUCK_MS / 1000;
        while (o->waiting == before && goes_on)
            goes_on = pthread_cond_timedwait(&o->taken, &o->lock, &until) != ETIMEDOUT;
    }
    pthread_mutex_unlock(&o->lock);
    return goes_on;
}

void out_flush(struct out *o)
{
    if (o->timer)
        loop_timer_stop(o->timer);
    if (o->text.len && o->threaded)
        hand_over(o, o->fd, o->text.data, o->text.len);
    else if (o->text.len)
        write_out(o->fd, o->text.data, o->text.len);
    buf_clear(&o->text);
}

bool out_drain(struct out *o)
{
    out_flush(o);
    return !o->threaded || wait_for_reader(o);
}

void out_finish(struct out *o)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction plain = {.sa_handler = SIG_DFL}, before[ARRAY_LEN(signals)];
    if (out_drain(o))
        return;
    for (size_t i = 0; i < ARRAY_LEN(signals); i++)
        sigaction(signals[i], &plain, &before[i]);
    while (!out_drain(o))
        ;
    for (size_t i = 0; i < ARRAY_LEN(signals); i++)
        sigaction(signals[i], &before[i], NULL);
}

uint64_t out_mark(const struct out *o)
{
    return o->put;
}

bool out_passed(struct out *o, uint64_t mark)
{
    uint64_t waiting = 0;
    if (o->threaded) {
        pthread_mutex_lock(&o->lock);
        waiting = o->waiting;
        pthread_mutex_unlock(&o->lock);
    }
    return o->put - o->text.len - waiting >= mark;
}

static void append(struct out *o, int fd, const char *text, size_t len)
{
    if (o->text.len && fd != o->fd)
        out_flush(o);
    size_t before = o->text.len;
    o->fd = fd;
    if (o->screens[fd])
        screen_put(o->screens[fd], &o->text, text, len);
    else
        buf_append(&o->text, text, len);
    o->put += o->text.len - before;
    if (o->text.len >= OUT_MAX)
        out_flush(o);
    else if (o->timer && !loop_timer_active(o->timer))
        loop_timer_start(o->timer, 0);
}

void out_put(struct out *o, int fd, const char *text, size_t len)
{
    int open_fd = o->open_fd;
    o->open_fd = 0;
    if (open_fd && open_fd != fd && o->together)
        append(o, open_fd, "\n", 1);
    append(o, fd, text, len);
}

void out_put_open(struct out *o, int fd, const char *text, size_t len)
{
    out_put(o, fd, text, len);
    o->open_fd = fd;
}

void out_printf(struct out *o, int fd, const char *fmt, ...)
{
    struct buf b = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&b, fmt, ap);
    va_end(ap);
    out_put(o, fd, b.data, b.len);
    buf_free(&b);
}

void out_destroy(struct out *o)
{
    if (!o)
        return;
    out_finish(o);
    if (o->threaded) {
        pthread_mutex_lock(&o->lock);
        o->ended = true;
        pthread_cond_signal(&o->more);
        pthread_mutex_unlock(&o->lock);
        pthread_join(o->thread, NULL);
        pthread_cond_destroy(&o->more);
        pthread_cond_destroy(&o->taken);
        pthread_mutex_destroy(&o->lock);
        if (o->file >= 0)
            close(o->file);
    }
    loop_timer_destroy(o->timer);
    buf_free(&o->text);
    free(o->screens[1]);
    free(o->screens[2]);
    free(o);
}
