/* Transfers of files: outgoing frames are collected until there is enough for a packet. */
#include "internal.h"

enum { HELD_BYTES = 64 << 10 };

bool node_room(const struct node *n)
{
    return n->state == NODE_READY && transport_queued(n->transport) + n->held.len < TRANSPORT_QUEUE_HIGH;
}

void node_write(struct node *n, const struct buf *frames)
{
    n->written += frames->len;
    transport_write(n->transport, frames->data, frames->len);
}

void node_flush(struct node *n)
{
    if (n->held.len == 0)
        return;
    struct buf held = n->held; /* writing may call back */
    n->held = (struct buf){0};
    if (n->state == NODE_READY)
        node_write(n, &held);
    buf_clear(&held);
    if (n->held.cap == 0) /* its memory is reused */
        n->held = held;
    else
        buf_free(&held);
}

static void held(struct node *n)
{
    if (n->held.len >= HELD_BYTES)
        node_flush(n);
}

void node_sync(struct node *n, const struct wire_sync *sync)
{
    struct buf b = {0};
    wire_put_sync(&b, sync);
    node_send(n, &b);
}

static void send_attempt(struct node *n, enum wire_type type, const char *attempt)
{
    struct buf b = {0};
    size_t at = wire_begin(&b, type);
    wire_put_string(&b, attempt);
    wire_end(&b, at);
    node_send(n, &b);
}

void node_sync_all(struct node *n, const char *attempt)
{
    send_attempt(n, WIRE_SYNC_ALL, attempt);
}

void node_sync_end(struct node *n, const char *attempt)
{
    send_attempt(n, WIRE_SYNC_END, attempt);
}

void node_file(struct node *n, const struct wire_file *file)
{
    if (n->state != NODE_READY)
        return;
    wire_put_file(&n->held, file);
    held(n);
}

void node_file_data(struct node *n, const char *attempt, const void *data, size_t len)
{
    if (n->state != NODE_READY)
        return;
    size_t at = wire_begin(&n->held, WIRE_FILE_DATA);
    wire_put_string(&n->held, attempt);
    wire_put_bytes(&n->held, data, len);
    wire_end(&n->held, at);
    held(n);
}

void node_remove(struct node *n, const char *attempt, const struct wire_strings *paths)
{
    struct buf b = {0};
    size_t at = wire_begin(&b, WIRE_REMOVE);
    wire_put_string(&b, attempt);
    wire_put_strings(&b, paths);
    wire_end(&b, at);
    node_send(n, &b);
}

void node_glob(struct node *n, uint64_t token, const char *pattern)
{
    struct buf b = {0};
    size_t at = wire_begin(&b, WIRE_GLOB);
    wire_put_u64(&b, token);
    wire_put_string(&b, pattern);
    wire_end(&b, at);
    node_send(n, &b);
}

void node_get(struct node *n, uint64_t token, const char *path, uint64_t offset, uint64_t size, uint64_t mtime_ns)
{
    struct buf b = {0};
    size_t at = wire_begin(&b, WIRE_GET);
    wire_put_u64(&b, token);
    wire_put_string(&b, path);
    wire_put_u64(&b, offset);
    wire_put_u64(&b, size);
    wire_put_u64(&b, mtime_ns);
    wire_end(&b, at);
    node_send(n, &b);
}

/* ---- answers ---- */

static bool on_data(struct node *n, struct wire_in *in)
{
    uint64_t token = wire_get_u64(in), offset = wire_get_u64(in);
    uint8_t last = wire_get_u8(in);
    const char *error = wire_get_string(in);
    uint32_t len;
    const uint8_t *data = wire_get_bytes(in, &len);
    if (!wire_in_done(in) || last > 1 || !n->callbacks.file_data)
        return false;
    n->callbacks.file_data(n->arg, n, token, offset, last, error, data, len);
    return true;
}

bool node_on_transfer(struct node *n, enum wire_type type, struct wire_in *in)
{
    if (type == WIRE_SYNC_STATE) {
        struct wire_sync_state s;
        if (!wire_get_sync_state(in, &s) || !n->callbacks.sync_state)
            return false;
        n->callbacks.sync_state(n->arg, n, &s);
        return true;
    }
    if (type == WIRE_PATCHED) {
        struct wire_sync_state s;
        if (!wire_get_patched(in, &s))
            return false;
        if (n->callbacks.patched)
            n->callbacks.patched(n->arg, n, &s);
        return true;
    }
    if (type == WIRE_ENTRIES) {
        struct wire_entries e;
        if (!wire_get_entries(in, &e) || !n->callbacks.entries)
            return false;
        n->callbacks.entries(n->arg, n, &e);
        return true;
    }
    return on_data(n, in);
}
