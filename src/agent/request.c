/*
 * Requests. Every change to the job on this node is checked against the epoch under the job's lock, in the same
 * critical section as the change, so the agent of an outdated controller can do nothing any more.
 */
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SIGNAL_ROUNDS = 200, SIGNAL_PAUSE_NS = 2000000 };

/* ---- RUN ---- */

/* Claims and starts, and reports that before anything else can fail. Under the lock; the attempt is new and its slot is
 * free. */
static int run_start(struct server *s, const struct wire_run *request, struct arena *scratch, struct error *err)
{
    struct ledger *l = &s->ledger;
    struct wire_run resolved = *request;
    const struct wire_run *run = &resolved;
    if (*resolved.creates)
        resolved.creates = ledger_node_path(l, resolved.creates, scratch);
    CLEANUP(cleanup_close) int dir_fd = -1;
    CLEANUP(cleanup_close) int status_fd = -1;
    if (ledger_work_dir(l, err) < 0)
        return -1;
    int rc = status_create(l->a_fd, run, l->variant, l->place, ++s->sequence, &dir_fd, &status_fd, err);
    if (rc == 0) {
        struct supervise supervise = {.run = run,
                                      .dir_fd = dir_fd,
                                      .status_fd = status_fd,
                                      .work_dir = l->work_dir,
                                      .own_dir = !l->in_place,
                                      .env_dir = l->env_dir,
                                      .boot_id = l->boot_id,
                                      .shell = l->shell,
                                      .note = patch_note,
                                      .ledger = l};
        rc = supervise_start(&supervise, err);
    }
    if (rc < 0) {
        struct error ignored;
        ledger_forget(l, run->attempt, &ignored); /* nothing was started under it */
        return -1;
    }
    server_claimed(s, run->attempt, run->slot);
    size_t frame = wire_begin(&s->out.control, WIRE_STARTED);
    wire_put_string(&s->out.control, run->attempt);
    wire_end(&s->out.control, frame);
    return stream_attach(&s->streams, l, run->attempt, 0, err);
}

static void run(struct server *s, const struct wire_run *r, struct arena *scratch)
{
    struct error err = ERROR_INIT;
    if (!server_begin(s, r->attempt))
        return;
    if (server_claimable(s, r->attempt, r->slot, scratch) && run_start(s, r, scratch, &err) < 0)
        out_fault(&s->out, r->attempt, "%s", ledger_reason(&s->ledger, &err, scratch));
    ledger_unlock(&s->ledger);
}

/* ---- LIST, ACK, SIGNAL, FORGET, CHECK ---- */

static void put_record(struct server *s, enum wire_type type, const char *attempt, int dir_fd)
{
    struct error err = ERROR_INIT;
    struct wire_record record;
    struct arena *arena = arena_create();
    if (stream_record(&s->ledger, attempt, dir_fd, arena, &record, &err) < 0)
        out_fault(&s->out, attempt, "%s", err.text);
    else
        wire_put_record(&s->out.control, type, &record);
    arena_destroy(arena);
}

static bool list_one(void *context, const char *attempt, int dir_fd)
{
    static struct status status;
    struct server *s = context;
    if (ledger_status(dir_fd, &status) && !server_never_started(&s->ledger, dir_fd, &status))
        put_record(s, WIRE_RECORD, attempt, dir_fd); /* otherwise nothing ran under it */
    return true;
}

static void list(struct server *s, uint64_t token)
{
    ledger_each(&s->ledger, list_one, s);
    patch_put(&s->ledger, NULL, &s->out.control);
    size_t frame = wire_begin(&s->out.control, WIRE_LISTED);
    wire_put_u64(&s->out.control, token);
    wire_end(&s->out.control, frame);
}

static void acknowledge(struct server *s, const char *attempt, uint64_t offset)
{
    CLEANUP(cleanup_close) int dir_fd = ledger_attempt(&s->ledger, attempt);
    if (dir_fd >= 0 && !server_fenced(s))
        spool_ack(dir_fd, offset);
}

static void judge(struct server *s, const char *attempt, uint8_t verdict)
{
    static struct status status;
    if (!server_begin(s, attempt))
        return;
    CLEANUP(cleanup_close) int dir_fd = ledger_attempt(&s->ledger, attempt);
    if (!ledger_status(dir_fd, &status) || status.state <= WIRE_STATE_CLAIMED || status_judge(dir_fd, verdict) < 0)
        out_fault(&s->out, attempt, "not judged");
    else
        put_record(s, WIRE_EXIT, attempt, dir_fd);
    ledger_unlock(&s->ledger);
}

static void send_signal(struct server *s, const char *attempt, uint8_t signal, uint32_t grace_ms)
{
    struct error err = ERROR_INIT;
    if (!server_begin(s, attempt))
        return;
    if (sync_signal(s, attempt)) {
        ledger_unlock(&s->ledger);
        return;
    }
    CLEANUP(cleanup_close) int dir_fd = ledger_attempt(&s->ledger, attempt);
    if (dir_fd < 0)
        out_fault(&s->out, attempt, "attempt %s is not known on this node", attempt);
    /* A supervisor that is just starting has not recorded its pid yet; one that has ended needs no signal. */
    int rc = dir_fd < 0 ? 0 : -1;
    for (int i = 0; rc < 0 && i < SIGNAL_ROUNDS && status_alive(dir_fd); i++) {
        if (i > 0)
            nanosleep(&(struct timespec){.tv_nsec = SIGNAL_PAUSE_NS}, NULL);
        rc = status_signal(dir_fd, (enum wire_signal)signal, grace_ms, &err);
    }
    if (rc < 0 && status_alive(dir_fd))
        out_fault(&s->out, attempt, "%s", err.text);
    ledger_unlock(&s->ledger);
}

static void forget(struct server *s, const struct wire_strings *attempts)
{
    static struct status status;
    struct error err = ERROR_INIT;
    if (!server_begin(s, ""))
        return;
    for (uint32_t i = 0; i < attempts->count; i++) {
        const char *attempt = attempts->items[i];
        CLEANUP(cleanup_close) int dir_fd = ledger_attempt(&s->ledger, attempt);
        if (dir_fd < 0)
            continue;
        /* with an outcome, the lock means nothing: the supervisor releases it a moment later */
        bool ended = ledger_status(dir_fd, &status) && status.state > WIRE_STATE_CLAIMED;
        if (!ended && (server_live(s, attempt) || status_alive(dir_fd))) {
            out_fault(&s->out, attempt, "attempt %s is live and cannot be forgotten", attempt);
            continue;
        }
        struct stream *stream = stream_find(&s->streams, attempt);
        if (stream)
            stream_detach(&s->streams, stream);
        if (ledger_forget(&s->ledger, attempt, &err) < 0)
            out_fault(&s->out, attempt, "%s", err.text);
    }
    ledger_unlock(&s->ledger);
}

static void check(struct server *s, const struct wire_check *m, struct arena *scratch)
{
    uint32_t count = m->paths.count, trees = m->trees.count / 3;
    uint8_t *found = arena_alloc(scratch, (size_t)count + trees + 1);
    struct stat st;
    for (uint32_t i = 0; i < count; i++)
        found[i] = stat(ledger_node_path(&s->ledger, m->paths.items[i], scratch), &st) == 0;
    for (uint32_t i = 0; i < trees; i++) {
        char **tree = &m->trees.items[3 * i];
        found[count + i] = tree_there(&s->ledger, tree[0], tree[1], tree[2]);
    }
    size_t frame = wire_begin(&s->out.control, WIRE_CHECKED);
    wire_put_u64(&s->out.control, m->token);
    wire_put_bytes(&s->out.control, found, count + trees);
    wire_end(&s->out.control, frame);
}

/* A TCP port that is free in IPv4 and IPv6; 0 = not known. */
static uint32_t free_port(void)
{
    for (int v6 = 1; v6 >= 0; v6--) {
        CLEANUP(cleanup_close) int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct sockaddr_in6 address = {.sin6_family = v6 ? AF_INET6 : AF_INET}; /* any address, any port */
        socklen_t len = v6 ? sizeof address : sizeof(struct sockaddr_in);
        int off = 0;
        if (fd >= 0 && v6)
            setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        if (fd >= 0 && bind(fd, (struct sockaddr *)&address, len) == 0 &&
            getsockname(fd, (struct sockaddr *)&address, &len) == 0)
            return ntohs(address.sin6_port); /* at the same place in both */
    }
    return 0;
}

static void pong(struct server *s, uint64_t token)
{
    size_t frame = wire_begin(&s->out.control, WIRE_PONG);
    wire_put_u64(&s->out.control, token);
    wire_put_u64(&s->out.control, mono_ns());
    wire_put_u64(&s->out.control, wall_ms());
    wire_put_u32(&s->out.control, free_port());
    wire_end(&s->out.control, frame);
}

/* ---- which request ---- */

static bool request_run(struct server *s, struct wire_in *in, struct arena *scratch)
{
    struct wire_run r;
    if (!wire_get_run(in, &r) || !wire_in_done(in))
        return false;
    if (s->ledger.read_only)
        out_fault(&s->out, r.attempt, "this connection only reads: RUN is refused");
    else
        run(s, &r, scratch);
    return true;
}

static bool request_attempt(struct server *s, enum wire_type type, struct wire_in *in)
{
    struct error err = ERROR_INIT;
    const char *attempt = wire_get_string(in);
    uint8_t signal = type == WIRE_SIGNAL || type == WIRE_JUDGE ? wire_get_u8(in) : 0;
    uint32_t grace_ms = type == WIRE_SIGNAL ? wire_get_u32(in) : 0;
    uint64_t offset = type == WIRE_ATTACH || type == WIRE_ACK ? wire_get_u64(in) : 0;
    if (!wire_in_done(in) || !wire_id_valid(attempt) ||
        (type == WIRE_SIGNAL && signal != WIRE_STOP && signal != WIRE_KILL) ||
        (type == WIRE_JUDGE && signal > WIRE_VERDICT_GOOD))
        return false;
    if (type == WIRE_ATTACH) {
        if (stream_attach(&s->streams, &s->ledger, attempt, offset, &err) < 0)
            out_fault(&s->out, attempt, "%s", err.text);
    } else if (s->ledger.read_only) {
        out_fault(&s->out, attempt, "this connection only reads: %s is refused", type == WIRE_ACK ? "ACK" : "SIGNAL");
    } else if (type == WIRE_JUDGE) {
        judge(s, attempt, signal);
    } else if (type == WIRE_ACK) {
        acknowledge(s, attempt, offset);
    } else {
        send_signal(s, attempt, signal, grace_ms);
    }
    return true;
}

static bool request_token(struct server *s, enum wire_type type, struct wire_in *in)
{
    uint64_t token = wire_get_u64(in);
    if (!wire_in_done(in))
        return false;
    if (type == WIRE_LIST)
        list(s, token);
    else if (type == WIRE_PING)
        pong(s, token);
    else if (s->ledger.read_only)
        out_fault(&s->out, "", "this connection only reads: SETTLE is refused");
    else
        server_settle(s, token);
    return true;
}

static bool request_check(struct server *s, struct wire_in *in, struct arena *scratch)
{
    struct wire_check m;
    if (!wire_get_check(in, &m))
        return false;
    check(s, &m, scratch);
    return true;
}

static bool request_forget(struct server *s, struct wire_in *in)
{
    struct wire_strings attempts = wire_get_strings(in);
    if (!wire_in_done(in))
        return false;
    if (s->ledger.read_only)
        out_fault(&s->out, "", "this connection only reads: FORGET is refused");
    else
        forget(s, &attempts);
    return true;
}

bool server_request(struct server *s, enum wire_type type, struct wire_in *in, struct arena *scratch)
{
    switch (type) {
    case WIRE_RUN:
        return request_run(s, in, scratch);
    case WIRE_ATTACH:
    case WIRE_ACK:
    case WIRE_SIGNAL:
    case WIRE_JUDGE:
        return request_attempt(s, type, in);
    case WIRE_LIST:
    case WIRE_PING:
    case WIRE_SETTLE:
        return request_token(s, type, in);
    case WIRE_CHECK:
        return request_check(s, in, scratch);
    case WIRE_FORGET:
        return request_forget(s, in);
    case WIRE_SYNC:
    case WIRE_SYNC_ALL:
    case WIRE_FILE:
    case WIRE_FILE_DATA:
    case WIRE_REMOVE:
    case WIRE_SYNC_END:
        return sync_request(s, type, in, scratch);
    case WIRE_GLOB:
    case WIRE_GET:
        return fetch_request(s, type, in);
    case WIRE_PROBE:
        return probe_request(s, in);
    case WIRE_HELLO:
    case WIRE_HELLO_OK:
    case WIRE_HELD:
    case WIRE_RECORD:
    case WIRE_LISTED:
    case WIRE_STARTED:
    case WIRE_BUSY:
    case WIRE_OUTPUT:
    case WIRE_EXIT:
    case WIRE_PONG:
    case WIRE_SETTLED:
    case WIRE_CHECKED:
    case WIRE_FAULT:
    case WIRE_FENCED:
    case WIRE_SYNC_STATE:
    case WIRE_ENTRIES:
    case WIRE_DATA:
    case WIRE_PROBED:
    case WIRE_PATCHED:
        break;
    }
    return false;
}
