/* Text to stdout and stderr: collected until the loop's next turn or 64 KiB, written in the order in which it came. */
#include "internal.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OUT_MAX = 64 << 10 };

struct out {
    struct loop_timer *timer;
    struct buf text;
    int fd;        /* where text goes */
    int open_fd;   /* whose last line has no end; 0 = none */
    bool together; /* both descriptors are one file or terminal */
};

static void on_timer(void *arg)
{
    out_flush(arg);
}

struct out *out_create(struct loop *loop)
{
    struct out *o = xcalloc(1, sizeof *o);
    struct stat a, b;
    o->timer = loop ? loop_timer_create(loop, on_timer, o) : NULL;
    o->together = fstat(1, &a) == 0 && fstat(2, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
    return o;
}

/* A reader that is gone or a full disk loses this text, not the job: the logs have it. */
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

void out_flush(struct out *o)
{
    if (o->timer)
        loop_timer_stop(o->timer);
    if (o->text.len)
        write_out(o->fd, o->text.data, o->text.len);
    buf_clear(&o->text);
}

static void append(struct out *o, int fd, const char *text, size_t len)
{
    if (o->text.len && fd != o->fd)
        out_flush(o);
    o->fd = fd;
    buf_append(&o->text, text, len);
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
    out_flush(o);
    loop_timer_destroy(o->timer);
    buf_free(&o->text);
    free(o);
}
