/* Spool bytes to lines. One small buffer per (rank, stream) holds a line that has no end yet. */
#include "rhrun/watch.h"

#include <stdlib.h>
#include <string.h>

struct partial {
    uint32_t rank;
    uint8_t stream;
    bool pending_return; /* the last byte was \r: a line unless \n follows */
    struct buf text;
    uint64_t wall_ms;
    uint64_t record; /* offset of the record with the line's beginning */
};

enum { PARTIALS_MAX = 3 * (WIRE_WORKERS_MAX + 1) }; /* streams of one RUN's workers, and its own */

struct watch {
    void (*line)(void *arg, const struct watch_line *line);
    void (*end)(void *arg, const struct wire_worker_end *end); /* or NULL */
    void (*block)(void *arg, const struct watch_line *lines);  /* or NULL */
    void *arg;
    uint8_t end_data[WIRE_END_SIZE];
    size_t end_len;
    uint8_t header[WIRE_SPOOL_HEADER];
    size_t header_len;
    struct wire_spool record; /* valid while left > 0 */
    uint32_t left;
    uint64_t fed, record_at; /* bytes; where the present record begins */
    uint64_t ended;          /* number of lines that ended, without cut ones */
    bool bad;
    struct partial *partials;
    size_t partial_count;
};

struct watch *watch_create(void (*line)(void *arg, const struct watch_line *line), void *arg)
{
    struct watch *w = xcalloc(1, sizeof *w);
    w->line = line;
    w->arg = arg;
    return w;
}

void watch_on_end(struct watch *w, void (*end)(void *arg, const struct wire_worker_end *end))
{
    w->end = end;
}

void watch_on_block(struct watch *w, void (*block)(void *arg, const struct watch_line *lines))
{
    w->block = block;
}

void watch_destroy(struct watch *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->partial_count; i++)
        buf_free(&w->partials[i].text);
    free(w->partials);
    free(w);
}

static struct partial *partial_of(struct watch *w, uint32_t rank, uint8_t stream)
{
    for (size_t i = 0; i < w->partial_count; i++)
        if (w->partials[i].rank == rank && w->partials[i].stream == stream)
            return &w->partials[i];
    if (w->partial_count == PARTIALS_MAX) /* no supervisor writes so many */
        return NULL;
    w->partials = xreallocarray(w->partials, w->partial_count + 1, sizeof *w->partials);
    struct partial *p = &w->partials[w->partial_count++];
    *p = (struct partial){.rank = rank, .stream = stream};
    return p;
}

static void emit(struct watch *w, const struct partial *p, const char *text, size_t len, bool returned, bool open)
{
    struct watch_line line = {p->rank, p->stream, text, len, p->wall_ms, returned, open};
    w->ended += !open;
    w->line(w->arg, &line);
}

static void emit_partial(struct watch *w, struct partial *p, bool returned, bool open)
{
    emit(w, p, p->text.data ? p->text.data : "", p->text.len, returned, open);
    buf_clear(&p->text);
}

/* The length up to the end of data, a line end or a carriage return. */
static size_t line_length(const char *data, size_t len)
{
    const char *newline = memchr(data, '\n', len);
    size_t n = newline ? (size_t)(newline - data) : len;
    const char *returned = memchr(data, '\r', n);
    return returned ? (size_t)(returned - data) : n;
}

static bool has_begun(const struct partial *p)
{
    return p->text.len > 0 || p->pending_return;
}

/* Gives out the whole lines at the beginning of data as a block, if possible. Returns their length in bytes. */
static size_t feed_block(struct watch *w, const struct partial *p, const char *data, size_t len)
{
    const char *last =
        w->block && !has_begun(p) ? memrchr(data, '\n', len < WATCH_LINE_MAX ? len : WATCH_LINE_MAX) : NULL;
    const size_t n = last ? (size_t)(last - data) + 1 : 0;
    if (n == 0 || memchr(data, '\r', n))
        return 0;
    struct watch_line lines = {p->rank, p->stream, data, n, p->wall_ms, false, false};
    w->ended++;
    w->block(w->arg, &lines);
    return n;
}

static void feed_text(struct watch *w, struct partial *p, const char *data, size_t len)
{
    bool tried = false; /* once is enough: if it is no block now, it is none a line later */
    while (len > 0) {
        if (!tried && !has_begun(p)) {
            const size_t block = feed_block(w, p, data, len);
            tried = true;
            data += block;
            len -= block;
            continue;
        }
        if (p->pending_return) {
            p->pending_return = false;
            bool newline = *data == '\n';
            emit_partial(w, p, !newline, false);
            if (newline) {
                data++;
                len--;
                continue;
            }
        }
        size_t room = WATCH_LINE_MAX - p->text.len, n = line_length(data, len < room ? len : room);
        if (n == room && n < len && data[n] != '\n' &&
            data[n] != '\r') { /* so that the cuts of the input do not matter */
            buf_append(&p->text, data, n);
            emit_partial(w, p, false, true);
            data += n;
            len -= n;
            continue;
        }
        if (n < len && data[n] == '\n' && p->text.len == 0) {
            emit(w, p, data, n, false, false); /* the common case copies nothing */
            data += n + 1;
            len -= n + 1;
            continue;
        }
        buf_append(&p->text, data, n);
        if (n < len && data[n] == '\n')
            emit_partial(w, p, false, false);
        else if (n < len)
            p->pending_return = true;
        size_t used = n < len ? n + 1 : n;
        data += used;
        len -= used;
    }
}

static void feed_record(struct watch *w, const char *data, size_t len)
{
    struct partial *p = partial_of(w, w->record.rank, w->record.stream);
    uint64_t ended = w->ended;
    w->bad = !p;
    if (!p)
        return;
    bool begun = has_begun(p);
    p->wall_ms = w->record.wall_ms;
    feed_text(w, p, data, len);
    if (!begun || w->ended != ended)
        p->record = w->record_at;
}

static void flush_partial(struct watch *w, struct partial *p)
{
    if (has_begun(p))
        emit_partial(w, p, false, true);
    p->pending_return = false;
}

/* The next bytes of an END; a malformed one (a log limit may have cut it) is skipped. */
static void feed_end(struct watch *w, const uint8_t *data, size_t len, bool last)
{
    struct wire_worker_end end;
    size_t room = sizeof w->end_data - w->end_len, n = len < room ? len : room;
    memcpy(w->end_data + w->end_len, data, n);
    w->end_len += n;
    if (!last)
        return;
    bool whole = w->record.len == WIRE_END_SIZE && wire_spool_end_get(w->end_data, w->end_len, &end);
    w->end_len = 0;
    if (!whole)
        return;
    for (size_t i = 0; i < w->partial_count; i++)
        if (w->partials[i].rank == w->record.rank)
            flush_partial(w, &w->partials[i]);
    end.rank = w->record.rank;
    if (w->end)
        w->end(w->arg, &end);
}

bool watch_feed(struct watch *w, const uint8_t *data, size_t len)
{
    while (len > 0 && !w->bad) {
        size_t n;
        if (w->left == 0) {
            size_t want = WIRE_SPOOL_HEADER - w->header_len;
            n = len < want ? len : want;
            if (w->header_len == 0)
                w->record_at = w->fed;
            memcpy(w->header + w->header_len, data, n);
            w->header_len += n;
            if (w->header_len == WIRE_SPOOL_HEADER) {
                w->header_len = 0;
                w->bad = !wire_spool_get(w->header, &w->record);
                w->left = w->bad ? 0 : w->record.len;
            }
        } else {
            n = len < w->left ? len : w->left;
            if (w->record.stream == WIRE_STREAM_END)
                feed_end(w, data, n, n == w->left);
            else
                feed_record(w, (const char *)data, n);
            w->left -= (uint32_t)n;
        }
        w->fed += n;
        data += n;
        len -= n;
    }
    return !w->bad;
}

uint64_t watch_open_from(const struct watch *w)
{
    uint64_t from = w->left > 0 || w->header_len > 0 ? w->record_at : w->fed;
    for (size_t i = 0; i < w->partial_count; i++)
        if (has_begun(&w->partials[i]) && w->partials[i].record < from)
            from = w->partials[i].record;
    return from;
}

void watch_end(struct watch *w)
{
    for (size_t i = 0; i < w->partial_count; i++)
        flush_partial(w, &w->partials[i]);
}
