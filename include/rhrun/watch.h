/*
 * watch: the workers' output as lines. It parses the spool of one attempt (wire.h) as its bytes arrive,
 * in any cuts, and gives out whole lines per rank and stream; a carriage return that is not followed by a
 * newline ends a line too (progress bars), and so do WATCH_LINE_MAX bytes without any end.
 */
#ifndef RHRUN_WATCH_H
#define RHRUN_WATCH_H

#include "rhrun/base.h"
#include "rhrun/wire.h"

enum { WATCH_LINE_MAX = 64 << 10 };

struct watch_line {
    uint32_t rank;
    uint8_t stream;    /* enum wire_stream */
    const char *text;  /* without its end; may hold any byte; not NUL-terminated */
    size_t len;
    uint64_t wall_ms;  /* of the node, when its last bytes were read */
    bool returned;     /* ended by a carriage return: the next line of this stream replaces it */
    bool open;         /* cut: no line end was there (end of the stream, or WATCH_LINE_MAX) */
};

struct watch;
struct watch *watch_create(void (*line)(void *arg, const struct watch_line *line), void *arg);
void watch_destroy(struct watch *w); /* takes NULL */
/* False when the bytes are no spool; nothing is read from then on. */
bool watch_feed(struct watch *w, const uint8_t *data, size_t len);
/* Only follows the record boundaries, no lines: to catch up with what was shown before. */
bool watch_skip(struct watch *w, const uint8_t *data, size_t len);
void watch_end(struct watch *w); /* gives out what has no line end yet */

#endif
