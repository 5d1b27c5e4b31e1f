/* Requests as frames, answers as callbacks. A frame that breaks the protocol ends the connection. */
#include "internal.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

void node_send(struct node *n, struct buf *frame)
{
    node_flush(n);
    if (n->state == NODE_READY)
        node_write(n, frame);
    buf_free(frame);
}

static void send_token(struct node *n, enum wire_type type, uint64_t token)
{
    struct buf b = {0};
    size_t at = wire_begin(&b, type);
    wire_put_u64(&b, token);
    wire_end(&b, at);
    node_send(n, &b);
}

void node_ping(struct node *n, uint64_t token)
{
    send_token(n, WIRE_PING, token);
}

void node_settle(struct node *n, uint64_t token)
{
    send_token(n, WIRE_SETTLE, token);
}

void node_run(struct node *n, const struct wire_run *run)
{
    struct buf b = {0};
    wire_put_run(&b, run);
    node_send(n, &b);
}

static void send_attempt_offset(struct node *n, enum wire_type type, const char *attempt, uint64_t offset)
{
    struct buf b = {0};
    size_t at = wire_begin(&b, type);
    wire_put_string(&b, attempt);
    wire_put_u64(&b, offset);
    wire_end(&b, at);
    node_send(n, &b);
}

void node_attach(struct node *n, const char *attempt, uint64_t offset)
{
    send_attempt_offset(n, WIRE_ATTACH, attempt, offset);
}

void node_ack(struct node *n, const char *attempt, uint64_t offset)
{
    send_attempt_offset(n, WIRE_ACK, attempt, offset);
}

void node_signal(struct node *n, const char *attempt, enum wire_signal signal, uint32_t grace_ms)
{
    struct buf b = {0};
    size_t at = wire_begin(&b, WIRE_SIGNAL);
    wire_put_string(&b, attempt);
    wire_put_u8(&b, (uint8_t)signal);
    wire_put_u32(&b, grace_ms);
    wire_end(&b, at);
    node_send(n, &b);
}

void node_judge(struct node *n, const char *attempt, enum wire_verdict verdict)
{
    struct buf b = {0};
    size_t at = wire_begin(&b, WIRE_JUDGE);
    wire_put_string(&b, attempt);
    wire_put_u8(&b, (uint8_t)verdict);
    wire_end(&b, at);
    node_send(n, &b);
}

void node_forget(struct node *n, const struct wire_strings *attempts)
{
    struct buf b = {0};
    size_t at = wire_begin(&b, WIRE_FORGET);
    wire_put_strings(&b, attempts);
    wire_end(&b, at);
    node_send(n, &b);
}

void node_probe(struct node *n, uint64_t token, enum wire_probe what, const struct node_endpoint *to,
                uint32_t timeout_ms)
{
    struct buf b = {0};
    size_t at = wire_begin(&b, WIRE_PROBE);
    wire_put_u64(&b, token);
    wire_put_u8(&b, (uint8_t)what);
    wire_put_bytes(&b, to->address, to->len);
    wire_put_u32(&b, to->port);
    wire_put_u32(&b, timeout_ms);
    wire_end(&b, at);
    node_send(n, &b);
}

/* ---- answers ---- */

/* The address becomes part of other nodes' commands, and of paths on this machine (`to: ${{ node.address }}`), so it
 * must be a valid address. */
static bool is_address(const char *text)
{
    char address[64];
    struct in6_addr ignored;
    size_t len = strcspn(text, "%");
    if (len >= sizeof address ||
        strspn(text + len, "%abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != strlen(text + len))
        return false;
    memcpy(address, text, len);
    address[len] = 0;
    return inet_pton(AF_INET, address, &ignored) == 1 || inet_pton(AF_INET6, address, &ignored) == 1;
}

static bool on_hello_ok(struct node *n, struct wire_in *in, struct error *err)
{
    arena_reset(n->facts_arena);
    in->arena = n->facts_arena;
    n->facts = (struct wire_facts){0};
    if (!wire_get_facts(in, &n->facts))
        return false;
    if (n->facts.version != WIRE_VERSION) {
        error_set(err, ERROR_PROTOCOL, "node \"%s\": agent: speaks version %u, not %u", node_name(n), n->facts.version,
                  WIRE_VERSION);
        return false;
    }
    if (!is_address(n->facts.address))
        n->facts.address = n->facts.address + strlen(n->facts.address);
    node_greeted(n);
    return true;
}

static bool on_held(struct node *n, struct wire_in *in, struct error *err)
{
    const char *owner = wire_get_string(in), *reason = wire_get_string(in);
    wire_get_u64(in);
    if (!wire_in_done(in))
        return false;
    error_set(err, ERROR_HELD, "node \"%s\": the job is held by %s (%s)", node_name(n), owner, reason);
    error_hint(err, "wait for it, or take the job over with --take-over");
    return false;
}

static bool on_fenced(struct node *n, struct wire_in *in, struct error *err)
{
    wire_get_u64(in);
    const char *owner = wire_get_string(in);
    if (!wire_in_done(in))
        return false;
    error_set(err, ERROR_HELD, "node \"%s\": the job was taken over by %s", node_name(n), owner);
    return false;
}

static bool on_output(struct node *n, struct wire_in *in)
{
    const char *attempt = wire_get_string(in);
    uint64_t offset = wire_get_u64(in);
    uint32_t len;
    const uint8_t *data = wire_get_bytes(in, &len);
    if (!wire_in_done(in))
        return false;
    n->callbacks.output(n->arg, n, attempt, offset, data, len);
    return true;
}

static bool on_record(struct node *n, struct wire_in *in, bool ended)
{
    struct wire_record r = {0};
    if (!wire_get_record(in, &r) || !wire_id_valid(r.attempt))
        return false;
    if (ended)
        n->callbacks.ended(n->arg, n, &r);
    else
        n->callbacks.record(n->arg, n, &r);
    return true;
}

static bool on_token(struct node *n, struct wire_in *in, enum wire_type type)
{
    uint64_t token = wire_get_u64(in);
    if (type == WIRE_LISTED) {
        if (!wire_in_done(in))
            return false;
        n->callbacks.listed(n->arg, n, token);
    } else if (type == WIRE_SETTLED) {
        const char *text = wire_get_string(in);
        if (!wire_in_done(in))
            return false;
        n->callbacks.settled(n->arg, n, token, text);
    } else if (type == WIRE_CHECKED) {
        uint32_t count;
        const uint8_t *exists = wire_get_bytes(in, &count);
        if (!wire_in_done(in))
            return false;
        n->callbacks.checked(n->arg, n, token, exists, count);
    } else if (type == WIRE_PROBED) {
        uint32_t errnum = wire_get_u32(in);
        const char *who = wire_get_string(in);
        if (!wire_in_done(in))
            return false;
        if (n->callbacks.probed)
            n->callbacks.probed(n->arg, n, token, errnum, who);
    } else {              /* PONG */
        wire_get_u64(in); /* its monotonic clock */
        uint64_t wall = wire_get_u64(in);
        uint32_t port = wire_get_u32(in);
        if (!wire_in_done(in))
            return false;
        if (token)
            n->callbacks.ponged(n->arg, n, token, port, wall);
    }
    return true;
}

static bool on_strings(struct node *n, struct wire_in *in, enum wire_type type)
{
    const char *attempt = wire_get_string(in);
    if (type == WIRE_STARTED) {
        if (!wire_in_done(in))
            return false;
        n->callbacks.started(n->arg, n, attempt);
        return true;
    }
    const char *second = wire_get_string(in);
    if (type == WIRE_FAULT) {
        if (!wire_in_done(in))
            return false;
        n->callbacks.fault(n->arg, n, attempt, second);
        return true;
    }
    const char *slot = wire_get_string(in);
    if (!wire_in_done(in))
        return false;
    n->callbacks.busy(n->arg, n, attempt, second, slot);
    return true;
}

/* False: the connection must end; err says why, unless the frame broke the protocol. */
static bool handle(struct node *n, enum wire_type type, struct wire_in *in, struct error *err)
{
    bool greeting = n->state == NODE_GREETING;
    switch (type) {
    case WIRE_HELLO_OK:
        return greeting && on_hello_ok(n, in, err);
    case WIRE_HELD:
        return greeting && on_held(n, in, err);
    case WIRE_FENCED:
        return on_fenced(n, in, err);
    case WIRE_OUTPUT:
        return !greeting && on_output(n, in);
    case WIRE_RECORD:
        return !greeting && on_record(n, in, false);
    case WIRE_EXIT:
        return !greeting && on_record(n, in, true);
    case WIRE_LISTED:
    case WIRE_SETTLED:
    case WIRE_CHECKED:
    case WIRE_PONG:
    case WIRE_PROBED:
        return !greeting && on_token(n, in, type);
    case WIRE_STARTED:
    case WIRE_BUSY:
        return !greeting && on_strings(n, in, type);
    case WIRE_FAULT:
        if (greeting) {
            wire_get_string(in);
            const char *text = wire_get_string(in);
            error_set(err, ERROR_INFRA, "node \"%s\": agent: %s", node_name(n), text);
            return false;
        }
        return on_strings(n, in, type);
    case WIRE_SYNC_STATE:
    case WIRE_PATCHED:
    case WIRE_ENTRIES:
    case WIRE_DATA:
        return !greeting && node_on_transfer(n, type, in);
    case WIRE_HELLO:
    case WIRE_LIST:
    case WIRE_RUN:
    case WIRE_ATTACH:
    case WIRE_ACK:
    case WIRE_SIGNAL:
    case WIRE_PING:
    case WIRE_SETTLE:
    case WIRE_CHECK:
    case WIRE_FORGET:
    case WIRE_SYNC:
    case WIRE_SYNC_ALL:
    case WIRE_FILE:
    case WIRE_FILE_DATA:
    case WIRE_REMOVE:
    case WIRE_SYNC_END:
    case WIRE_GLOB:
    case WIRE_GET:
    case WIRE_PROBE:
    case WIRE_JUDGE:
        break;
    }
    return false;
}

void node_handle_frames(struct node *n)
{
    /* A callback may end this connection: then n->transport changes, and the remaining frames are dropped. */
    struct transport *connection = n->transport;
    size_t done = 0;
    for (;;) {
        struct buf view = {n->in.data + done, n->in.len - done, 0};
        enum wire_type type;
        const uint8_t *payload;
        uint32_t len;
        int have = n->in.len > done ? wire_peek(&view, &type, &payload, &len) : 0;
        if (have == 0)
            break;
        struct error err = ERROR_INIT;
        arena_reset(n->frame_arena);
        struct wire_in in = {NULL, NULL, n->frame_arena, false};
        if (have > 0) {
            in.p = payload;
            in.end = payload + len;
        }
        bool good = have > 0 && handle(n, type, &in, &err);
        if (n->transport != connection)
            return;
        if (!good) {
            if (err.code == ERROR_NONE)
                error_set(&err, ERROR_PROTOCOL, "node \"%s\": agent: malformed frame", node_name(n));
            node_connection_lost(n, &err);
            return;
        }
        done += WIRE_HEADER_SIZE + len;
    }
    buf_consume(&n->in, done);
}
