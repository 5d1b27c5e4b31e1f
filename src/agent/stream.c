/*
 * Attached attempts: their spools go out as they grow, in turn, one frame at a time.
 *
 * The attempt's bell announces news. The supervisor holds its write end, so a hang-up shows at once that the supervisor
 * ended, for whatever reason; a slow timer checks attempts whose bell stays silent. A bell has one reader: a read-only
 * agent leaves the bell to the owner's agent and polls at short intervals instead.
 */
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum { SLOW_MS = 1000, READER_MS = 100, HUNG_MS = 20 };

struct stream *stream_find(struct streams *all, const char *attempt)
{
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->items[i].attempt, attempt) == 0)
            return &all->items[i];
    return NULL;
}

void stream_detach(struct streams *all, struct stream *s)
{
    size_t i = (size_t)(s - all->items);
    int fds[] = {s->dir_fd, s->status_fd, s->bell_fd};
    for (size_t k = 0; k < ARRAY_LEN(fds); k++)
        if (fds[k] >= 0)
            close(fds[k]);
    all->count--;
    memmove(s, s + 1, (all->count - i) * sizeof *s);
    if (all->next > i)
        all->next--;
}

int stream_attach(struct streams *all, struct ledger *l, const char *attempt, uint64_t offset, struct error *err)
{
    struct stream *old = stream_find(all, attempt);
    if (old)
        stream_detach(all, old);
    CLEANUP(cleanup_close) int dir_fd = ledger_attempt(l, attempt);
    if (dir_fd < 0)
        return error_set(err, ERROR_INFRA, "attempt %s is not known on this node", attempt);
    CLEANUP(cleanup_close) int status_fd = openat(dir_fd, "status", O_RDONLY | O_CLOEXEC);
    if (status_fd < 0)
        return error_errno(err, ERROR_INFRA, errno, "cannot read the status of attempt %s", attempt);
    if (all->count == all->cap) {
        all->cap = all->cap ? all->cap * 2 : 8;
        all->items = xreallocarray(all->items, all->cap, sizeof *all->items);
    }
    uint64_t kept_from = spool_kept_from(dir_fd);
    struct stream *s = &all->items[all->count++];
    *s = (struct stream){.offset = offset > kept_from ? offset : kept_from, .ready = true, .check = true};
    snprintf(s->attempt, sizeof s->attempt, "%s", attempt);
    s->bell_fd = l->read_only ? -1 : openat(dir_fd, "bell", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    s->dir_fd = STEAL_FD(dir_fd);
    s->status_fd = STEAL_FD(status_fd);
    return 0;
}

void stream_bell(struct stream *s, short revents)
{
    char bytes[4096];
    if (revents & POLLIN) {
        ssize_t n = read(s->bell_fd, bytes, sizeof bytes);
        (void)n; /* how often it rang does not matter */
        s->ready = true;
    }
    if ((revents & (POLLHUP | POLLERR | POLLNVAL)) && !(revents & POLLIN)) {
        close(s->bell_fd);
        s->bell_fd = -1;
        s->ready = s->check = s->hung = true;
    }
}

int stream_record(struct ledger *l, const char *attempt, int dir_fd, struct arena *arena, struct wire_record *ret,
                  struct error *err)
{
    if (status_read(dir_fd, l->boot_id, arena, ret, err) < 0)
        return -1;
    if (ret->state != WIRE_STATE_CLAIMED || status_alive(dir_fd))
        return 0;
    /* It may have ended since the first check: status_mark_lost decides under the lock. */
    if (!l->read_only && status_mark_lost(dir_fd, attempt, err) < 0)
        return -1;
    if (status_read(dir_fd, l->boot_id, arena, ret, err) < 0)
        return -1;
    if (ret->state == WIRE_STATE_CLAIMED && l->read_only)
        ret->state = WIRE_STATE_LOST;
    return 0;
}

/* State and published size. The state is read first, because it promises that the rest is complete. */
static uint32_t look(const struct stream *s, uint64_t *ret_size)
{
    uint32_t state = 0;
    uint64_t size = 0;
    if (pread(s->status_fd, &state, sizeof state, offsetof(struct status, state)) != (ssize_t)sizeof state ||
        pread(s->status_fd, &size, sizeof size, offsetof(struct status, spool_bytes)) != (ssize_t)sizeof size)
        state = 0;
    *ret_size = size;
    return state;
}

/* Called when all output is queued: if the attempt is over, queues EXIT and returns true. */
static bool finish(struct stream *s, struct ledger *l, uint32_t state, struct out *out)
{
    if (state == WIRE_STATE_CLAIMED) {
        if (!s->check)
            return false;
        s->check = false;
        if (status_alive(s->dir_fd))
            return false;
        /* The last bytes and the outcome may have come since this turn began: take another turn first. */
        uint64_t size;
        if (look(s, &size) != WIRE_STATE_CLAIMED || (size > s->offset && !s->broken)) {
            s->ready = s->check = true;
            return false;
        }
    }
    struct arena *arena = arena_create();
    struct wire_record record;
    struct error err = ERROR_INIT;
    bool over = true;
    if (stream_record(l, s->attempt, s->dir_fd, arena, &record, &err) < 0)
        out_fault(out, s->attempt, "%s", err.text);
    else if (record.state == WIRE_STATE_CLAIMED) /* another agent is checking it: ask again later */
        over = false;
    else {
        if (record.patched)
            patch_put(l, s->attempt, &out->output);
        wire_put_record(&out->output, WIRE_EXIT, &record);
    }
    arena_destroy(arena);
    return over;
}

/* One frame of one attempt. */
static void step(struct streams *all, struct stream *s, struct ledger *l, struct out *out)
{
    static uint8_t data[WIRE_OUTPUT_MAX];
    struct error err = ERROR_INIT;
    uint64_t size;
    uint32_t state = look(s, &size);
    /* The controller may have more than the spool: after a power loss, the node lacks data that was not synced. */
    ssize_t n = s->broken || s->offset >= size ? 0 : spool_read(s->dir_fd, s->offset, data, sizeof data, &err);
    uint64_t kept_from = n < 0 ? spool_kept_from(s->dir_fd) : 0;
    if (n < 0 && kept_from > s->offset) { /* acknowledged over another connection meanwhile: the offsets show the gap */
        s->offset = kept_from;
        s->ready = true;
        return;
    }
    if (n < 0) { /* the outcome still matters */
        out_fault(out, s->attempt, "%s", err.text);
        s->broken = true;
    } else if (n > 0) {
        size_t frame = wire_begin(&out->output, WIRE_OUTPUT);
        wire_put_string(&out->output, s->attempt);
        wire_put_u64(&out->output, s->offset);
        wire_put_bytes(&out->output, data, (size_t)n);
        wire_end(&out->output, frame);
        s->offset += (uint64_t)n;
        s->ready = true;
        return;
    }
    s->ready = false;
    if (finish(s, l, state, out))
        stream_detach(all, s);
}

bool stream_turn(struct streams *all, struct ledger *l, struct out *out)
{
    for (size_t idle = 0; idle < all->count; idle++) {
        if (all->next >= all->count)
            all->next = 0;
        struct stream *s = &all->items[all->next++];
        if (s->ready) {
            step(all, s, l, out);
            return true;
        }
    }
    return false;
}

int stream_wait_ms(const struct streams *all, const struct ledger *l, const struct out *out)
{
    int wait = l->read_only && all->count == 0 ? -1 : l->read_only ? READER_MS : SLOW_MS;
    for (size_t i = 0; i < all->count; i++) {
        if (all->items[i].ready && !out_full(out))
            return 0;
        if (all->items[i].hung)
            wait = HUNG_MS;
    }
    return wait;
}
