/*
 * Frames to the controller: one queue for answers, one for output. A frame is never interrupted by another, but between
 * frames answers go first, so a PONG waits for at most one output frame.
 */
#include "internal.h"

#include <errno.h>
#include <unistd.h>

static size_t control_left(const struct out *o)
{
    return o->control.len - o->control_sent;
}

static size_t output_left(const struct out *o)
{
    return o->output.len - o->output_sent;
}

bool out_pending(const struct out *o)
{
    return control_left(o) > 0 || output_left(o) > 0;
}

bool out_full(const struct out *o)
{
    return output_left(o) >= OUT_QUEUE_MAX;
}

static size_t frame_size(const char *head)
{
    const uint8_t *p = (const uint8_t *)head;
    return WIRE_HEADER_SIZE + (size_t)(p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
}

/* Bytes leave a queue by moving an index; the memory moves when that is cheap. */
static void drop(struct buf *b, size_t *sent, size_t n)
{
    *sent += n;
    if (*sent == b->len) {
        buf_clear(b);
        *sent = 0;
    } else if (*sent >= OUT_QUEUE_MAX) {
        buf_consume(b, *sent);
        *sent = 0;
    }
}

int out_write(struct out *o, int fd)
{
    while (out_pending(o)) {
        bool control = o->frame_left == 0 && control_left(o) > 0;
        if (!control && o->frame_left == 0)
            o->frame_left = frame_size(o->output.data + o->output_sent);
        const char *p = control ? o->control.data + o->control_sent : o->output.data + o->output_sent;
        ssize_t n = write(fd, p, control ? control_left(o) : o->frame_left);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
        }
        if (control) {
            drop(&o->control, &o->control_sent, (size_t)n);
        } else {
            o->frame_left -= (size_t)n;
            drop(&o->output, &o->output_sent, (size_t)n);
        }
    }
    return 0;
}

void out_fault(struct out *o, const char *attempt, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *text = xvasprintf(fmt, ap);
    va_end(ap);
    size_t frame = wire_begin(&o->control, WIRE_FAULT);
    wire_put_string(&o->control, attempt);
    wire_put_string(&o->control, text);
    wire_end(&o->control, frame);
}
