/*
 * Data that the controller fetches: lists of files and their contents, one request after the other, in turn with the
 * output of attempts.
 */
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { QUEUE_MAX = 65536 };

struct fetch_item {
    bool glob;
    uint64_t token, offset, size, mtime_ns;
    char *path;
};

bool fetch_ready(const struct server *s)
{
    return s->fetch.head < s->fetch.count && !out_full(&s->out);
}

static void put_data(struct server *s, const struct fetch_item *item, const char *error, const void *data, size_t len,
                     bool last)
{
    size_t frame = wire_begin(&s->out.output, WIRE_DATA);
    wire_put_u64(&s->out.output, item->token);
    wire_put_u64(&s->out.output, item->offset);
    wire_put_u8(&s->out.output, last);
    wire_put_string(&s->out.output, error);
    wire_put_bytes(&s->out.output, data, len);
    wire_end(&s->out.output, frame);
}

bool fetch_request(struct server *s, enum wire_type type, struct wire_in *in)
{
    struct fetch *f = &s->fetch;
    struct fetch_item item = {.glob = type == WIRE_GLOB};
    item.token = wire_get_u64(in);
    const char *path = wire_get_string(in);
    if (!item.glob) {
        item.offset = wire_get_u64(in);
        item.size = wire_get_u64(in);
        item.mtime_ns = wire_get_u64(in);
    }
    if (!wire_in_done(in) || strlen(path) > 2 * WIRE_PATH_MAX)
        return false;
    if (f->count - f->head == QUEUE_MAX) {
        out_fault(&s->out, "", "more than %d requests for files wait", QUEUE_MAX);
        s->closing = true;
        return true;
    }
    if (f->count == f->cap && f->head > f->cap / 2) { /* room at the beginning */
        memmove(f->items, f->items + f->head, (f->count - f->head) * sizeof *f->items);
        f->count -= f->head;
        f->head = 0;
    }
    if (f->count == f->cap) {
        f->cap = f->cap ? 2 * f->cap : 16;
        f->items = xreallocarray(f->items, f->cap, sizeof *f->items);
    }
    item.path = xstrdup(path);
    f->items[f->count++] = item;
    return true;
}

/* ---- a file ---- */

static bool is_same(int fd, const struct fetch_item *item)
{
    struct stat st;
    struct tree_entry e = {0};
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return false;
    tree_entry_stat(&e, &st);
    return e.size == item->size && e.mtime_ns == item->mtime_ns;
}

/* The next frame; true when it was the last. */
static bool step_file(struct server *s, struct fetch_item *item)
{
    static uint8_t data[WIRE_OUTPUT_MAX];
    struct fetch *f = &s->fetch;
    if (f->fd < 0) {
        struct arena *arena = arena_create();
        /* never follows a link that took the file's place, and never waits for the other end of a FIFO */
        f->fd = open(ledger_node_path(&s->ledger, item->path, arena),
                     O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        arena_destroy(arena);
        if (f->fd < 0 && errno != ENOENT && errno != ELOOP) {
            put_data(s, item, strerror(errno), NULL, 0, true);
            return true;
        }
        if (!is_same(f->fd, item) || item->offset > item->size) {
            put_data(s, item, "changed", NULL, 0, true);
            return true;
        }
    }
    uint64_t left = item->size - item->offset;
    ssize_t n = left ? pread(f->fd, data, left < sizeof data ? (size_t)left : sizeof data, (off_t)item->offset) : 0;
    bool last = n < 0 || (uint64_t)n == left || !n;
    const char *error = n < 0                                                    ? strerror(errno)
                        : last && ((uint64_t)n != left || !is_same(f->fd, item)) ? "changed"
                                                                                 : "";
    put_data(s, item, error, data, *error ? 0 : (size_t)n, last);
    item->offset += n > 0 ? (uint64_t)n : 0;
    return last;
}

/* ---- a list ---- */

static bool step_glob(struct server *s, const struct fetch_item *item)
{
    struct fetch *f = &s->fetch;
    struct error err = ERROR_INIT;
    if (!f->glob) {
        f->arena = arena_create();
        f->glob = glob_open(&s->ledger, item->token, item->path, f->arena, &err);
    }
    if (!f->glob)
        wire_put_entries(&s->out.output, &(struct wire_entries){.token = item->token, .error = err.text, .last = 1});
    bool last = !f->glob || glob_step(f->glob, &s->out.output);
    if (last) {
        if (f->glob)
            glob_close(f->glob);
        arena_destroy(f->arena);
        f->glob = NULL;
        f->arena = NULL;
    }
    return last;
}

bool fetch_turn(struct server *s)
{
    struct fetch *f = &s->fetch;
    if (f->head == f->count)
        return false;
    struct fetch_item *item = &f->items[f->head];
    size_t before = s->out.output.len;
    if (item->glob ? step_glob(s, item) : step_file(s, item)) {
        free(item->path);
        cleanup_close(&f->fd);
        f->fd = -1;
        f->head++;
    }
    return s->out.output.len > before; /* otherwise the search goes on, but not in this turn of the loop */
}
