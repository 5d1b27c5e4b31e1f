/*
 * The serving loop: one thread, poll. Frames come in, requests are done at once (settle in a child, so that PING is
 * answered meanwhile), and output goes out only as fast as the controller takes it.
 */
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TICK_MS = 1000, FLUSH_MS = 2000, READ_SIZE = 64 << 10, READ_SIZE_SYNC = 1 << 20 };

/* A fault of the whole connection: reports it, then ends. */
static void fail(struct server *s, const char *text)
{
    out_fault(&s->out, "", "%s", text);
    s->closing = true;
    s->exit_status = 1;
}

static void handle_hello(struct server *s, struct wire_in *in, struct arena *scratch)
{
    struct error err = ERROR_INIT;
    struct wire_hello hello;
    struct wire_in version = *in;
    uint32_t v = wire_get_u32(&version);
    if (s->open) {
        fail(s, "a second HELLO on one connection");
    } else if (v != WIRE_VERSION) {
        error_set(&err, ERROR_PROTOCOL, "protocol version %u is not supported: this agent speaks %u", v, WIRE_VERSION);
        fail(s, err.text);
    } else if (!wire_get_hello(in, &hello) || !wire_in_done(in)) {
        fail(s, "malformed HELLO");
    } else {
        int rc = hello_answer(&s->ledger, &hello, s->arena, &s->out.control, &err);
        if (rc < 0)
            fail(s, ledger_reason(&s->ledger, &err, scratch));
        s->open = rc > 0;
    }
}

static void dispatch(struct server *s, enum wire_type type, struct wire_in *in, struct arena *scratch)
{
    if (type == WIRE_HELLO) {
        handle_hello(s, in, scratch);
        return;
    }
    if (!s->open) {
        fail(s, "a request before HELLO was answered");
        return;
    }
    if (!server_request(s, type, in, scratch))
        fail(s, "malformed request");
}

/* All complete frames that came in. */
static void take_frames(struct server *s)
{
    size_t taken = 0;
    bool secret = false;
    s->backlog = false;
    while (!s->closing) {
        struct buf rest = {s->in.data + taken, s->in.len - taken, 0};
        enum wire_type type;
        const uint8_t *payload;
        uint32_t len;
        int rc = rest.len ? wire_peek(&rest, &type, &payload, &len) : 0;
        if (rc < 0)
            fail(s, "malformed frame");
        if (rc <= 0)
            break;
        if (s->out.control.len >= OUT_CONTROL_MAX) {
            s->backlog = true;
            break;
        }
        secret |= type == WIRE_RUN;
        struct arena *scratch = arena_create();
        struct wire_in in = {.p = payload, .end = payload + len, .arena = scratch};
        dispatch(s, type, &in, scratch);
        arena_destroy(scratch);
        taken += WIRE_HEADER_SIZE + len;
    }
    if (taken) {
        if (secret)
            explicit_bzero(s->in.data, taken);
        buf_consume(&s->in, taken);
    }
}

/* Reads from the peer; false when it is gone. */
static bool read_peer(struct server *s)
{
    size_t most = s->sync.phase == SYNC_OPEN ? READ_SIZE_SYNC : READ_SIZE;
    buf_reserve(&s->in, most);
    ssize_t n = read(s->in_fd, s->in.data + s->in.len, most);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK;
    s->in.len += (size_t)n;
    return n > 0;
}

/* Checks for events without a signal: a newer controller, an attempt whose supervisor is gone. */
static void tick(struct server *s)
{
    if (!s->open)
        return;
    if (!s->ledger.read_only)
        server_fenced(s);
    for (size_t i = 0; i < s->streams.count; i++)
        s->streams.items[i].ready = s->streams.items[i].check = true;
}

static void flush_and_close(struct server *s)
{
    uint64_t end = mono_ns() + FLUSH_MS * UINT64_C(1000000);
    while (out_write(&s->out, s->out_fd) == 0 && out_pending(&s->out) && mono_ns() < end) {
        struct pollfd p = {.fd = s->out_fd, .events = POLLOUT};
        if (poll(&p, 1, FLUSH_MS) <= 0)
            break;
    }
}

/* Queues output of attempts and requested files, in turn, until enough is queued. */
static void fill(struct server *s)
{
    bool more = true;
    while (more && !out_full(&s->out)) {
        more = stream_turn(&s->streams, &s->ledger, &s->out);
        more |= fetch_turn(s);
    }
}

/* One turn: waits, then handles everything that is ready. False at the end. */
static bool turn(struct server *s)
{
    size_t n = 3 + s->streams.count;
    if (n > s->poll_cap) {
        s->poll_cap = 2 * n;
        s->poll = xreallocarray(s->poll, s->poll_cap, sizeof *s->poll);
    }
    bool listen = s->out.control.len < OUT_CONTROL_MAX;
    s->poll[0] = (struct pollfd){.fd = listen ? s->in_fd : -1, .events = POLLIN};
    s->poll[1] = (struct pollfd){.fd = out_pending(&s->out) ? s->out_fd : -1, .events = POLLOUT};
    s->poll[2] = (struct pollfd){.fd = s->settle.fd, .events = POLLIN};
    for (size_t i = 0; i < s->streams.count; i++)
        s->poll[3 + i] = (struct pollfd){.fd = s->streams.items[i].bell_fd, .events = POLLIN};
    int wait = s->open ? stream_wait_ms(&s->streams, &s->ledger, &s->out) : -1;
    wait = sync_wait_ms(s, wait);
    if (fetch_ready(s))
        wait = 0;
    if (s->backlog && listen)
        wait = 0;
    int rc = poll(s->poll, (nfds_t)n, wait);
    if (rc < 0 && errno != EINTR)
        return false;
    uint64_t now = mono_ns();
    if (rc <= 0 || now - s->last_tick_ns >= TICK_MS * UINT64_C(1000000)) {
        s->last_tick_ns = now;
        tick(s);
    }
    if (rc > 0) {
        /* bells first: requests may attach and detach */
        for (size_t i = 0; i < s->streams.count; i++)
            if (s->poll[3 + i].revents)
                stream_bell(&s->streams.items[i], s->poll[3 + i].revents);
        if (s->poll[2].revents)
            server_settled(s);
        if (s->poll[0].revents && !read_peer(s))
            return false;
    }
    take_frames(s);
    if (s->open && !s->closing)
        sync_turn(s);
    if (s->open)
        fill(s);
    return out_write(&s->out, s->out_fd) == 0 && !s->closing;
}

int serve(int in_fd, int out_fd)
{
    struct server s = {
        .in_fd = in_fd, .out_fd = out_fd, .settle = {.fd = -1}, .fetch = {.fd = -1}, .last_tick_ns = mono_ns()};
    s.arena = arena_create();
    if (write_all(out_fd, WIRE_MAGIC, sizeof WIRE_MAGIC - 1) < 0)
        return 1;
    int fds[] = {in_fd, out_fd};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        fcntl(fds[i], F_SETFL, fcntl(fds[i], F_GETFL) | O_NONBLOCK);
    while (turn(&s))
        ;
    if (s.closing)
        flush_and_close(&s);
    return s.exit_status;
}
