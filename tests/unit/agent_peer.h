/*
 * A controller for tests: starts the built agent on a socketpair, sends frames, waits for answers with a deadline.
 * RHRUN_TEST_AGENT names another program (an agent for aarch64 under qemu).
 */
#ifndef TESTS_AGENT_PEER_H
#define TESTS_AGENT_PEER_H

#include "rhrun/wire.h"

#include <ftw.h>
#include <glob.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { DEADLINE_MS = 60000 };

#define JOB "00112233445566aa"
#define OWNER_A "aaaaaaaaaaaaaaaa"
#define OWNER_B "bbbbbbbbbbbbbbbb"
#define ID(n) attempt_id(n) /* of an attempt; n is one hex digit */

static char folder[256]; /* of the current test; HOME of its agents */

/* Ids belong to this process alone: an agent that finds an attempt lost kills every process on the machine that carries
 * its id. */
static inline const char *attempt_id(const char *digit)
{
    static char ids[16][WIRE_ID_LEN + 1], prefix[WIRE_ID_LEN + 1];
    size_t which = strcspn("0123456789abcdef", digit);
    assert_true(which < ARRAY_LEN(ids) && strlen(digit) == 1);
    if (!*prefix)
        random_hex(prefix, WIRE_ID_LEN / 2);
    snprintf(ids[which], sizeof ids[which], "%.*s%s", WIRE_ID_LEN - 1, prefix, digit);
    return ids[which];
}

/* ---- the folder of a test ---- */

static inline int folder_make(const char *word)
{
    snprintf(folder, sizeof folder, "%s/rhrun-%s-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", word);
    return mkdtemp(folder) ? 0 : -1;
}

static inline int folder_remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static inline int folder_remove(void **state) /* as a test's teardown */
{
    (void)state;
    nftw(folder, folder_remove_one, 32, FTW_DEPTH | FTW_PHYS);
    return 0;
}

/* ---- an agent and its frames ---- */

struct peer {
    pid_t pid;
    int fd;
    struct buf in;
    struct buf output; /* received spool bytes, from offset output_from */
    uint64_t output_from;
    struct arena *arena;
    struct wire_facts facts;
    const uint8_t *payload; /* of the last frame */
    uint32_t len;
    bool eof;
};

static inline const char *agent_program(void)
{
    const char *other = getenv("RHRUN_TEST_AGENT");
    return other ? other : BINARY_ROOT "/agent/rhrun-agent";
}

static inline void peer_start_at(struct peer *p, const char *home)
{
    int ends[2];
    *p = (struct peer){.arena = arena_create()};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    p->pid = fork();
    assert_true(p->pid >= 0);
    if (p->pid == 0) {
        dup2(ends[1], 0);
        dup2(ends[1], 1);
        setenv("HOME", home, 1);
        execl(agent_program(), "rhrun-agent", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    p->fd = ends[0];
}

static inline void peer_start(struct peer *p)
{
    peer_start_at(p, folder);
}

/* Reads more bytes, or eof; fails the test if nothing comes. */
static inline void peer_read(struct peer *p)
{
    struct pollfd one = {.fd = p->fd, .events = POLLIN};
    assert_int_equal(poll(&one, 1, DEADLINE_MS), 1);
    buf_reserve(&p->in, 65536);
    ssize_t n = read(p->fd, p->in.data + p->in.len, 65536);
    if (n <= 0)
        p->eof = true;
    else
        p->in.len += (size_t)n;
}

static inline void peer_magic(struct peer *p)
{
    while (p->in.len < sizeof WIRE_MAGIC - 1 && !p->eof)
        peer_read(p);
    assert_true(p->in.len >= sizeof WIRE_MAGIC - 1);
    assert_memory_equal(p->in.data, WIRE_MAGIC, sizeof WIRE_MAGIC - 1);
    buf_consume(&p->in, sizeof WIRE_MAGIC - 1);
}

/* The next frame's type, 0 at the end of the stream. */
static inline int peer_frame(struct peer *p)
{
    for (;;) {
        enum wire_type type;
        const uint8_t *payload;
        int rc = p->in.len ? wire_peek(&p->in, &type, &payload, &p->len) : 0;
        assert_int_not_equal(rc, -1);
        if (rc == 1) {
            uint8_t *copy = arena_alloc(p->arena, p->len + 1);
            memcpy(copy, payload, p->len);
            p->payload = copy;
            buf_consume(&p->in, WIRE_HEADER_SIZE + p->len);
            return (int)type;
        }
        if (p->eof)
            return 0;
        peer_read(p);
    }
}

static inline struct wire_in peer_in(const struct peer *p)
{
    return (struct wire_in){.p = p->payload, .end = p->payload + p->len, .arena = p->arena};
}

static inline void take_output(struct peer *p)
{
    struct wire_in in = peer_in(p);
    wire_get_string(&in);
    uint64_t offset = wire_get_u64(&in);
    uint32_t len;
    const uint8_t *data = wire_get_bytes(&in, &len);
    assert_true(wire_in_done(&in));
    assert_int_equal(offset, p->output_from + p->output.len);
    buf_append(&p->output, data, len);
}

/* Waits for a frame of that type; collects output on the way, fails on anything else. */
static inline struct wire_in expect(struct peer *p, enum wire_type want)
{
    for (;;) {
        int type = peer_frame(p);
        if (type == (int)want)
            return peer_in(p);
        if (type == WIRE_FAULT) {
            struct wire_in in = peer_in(p);
            wire_get_string(&in);
            fail_msg("wanted frame %d, got FAULT: %s", want, wire_get_string(&in));
        }
        if (type != WIRE_OUTPUT)
            fail_msg("wanted frame %d, got %d", want, type);
        take_output(p);
    }
}

static inline char *expect_fault(struct peer *p)
{
    struct wire_in in = expect(p, WIRE_FAULT);
    wire_get_string(&in);
    return wire_get_string(&in);
}

static inline struct wire_record expect_record(struct peer *p, enum wire_type type)
{
    struct wire_in in = expect(p, type);
    struct wire_record r;
    assert_true(wire_get_record(&in, &r) && wire_in_done(&in));
    return r;
}

static inline void send_buf(struct peer *p, struct buf *b)
{
    assert_int_equal(write_all(p->fd, b->data, b->len), 0);
    buf_free(b);
}

static inline void send_token(struct peer *p, enum wire_type type, uint64_t token)
{
    struct buf b = {0};
    size_t frame = wire_begin(&b, type);
    wire_put_u64(&b, token);
    wire_end(&b, frame);
    send_buf(p, &b);
}

static inline void send_attempt(struct peer *p, enum wire_type type, const char *attempt, uint64_t offset)
{
    struct buf b = {0};
    size_t frame = wire_begin(&b, type);
    wire_put_string(&b, attempt);
    wire_put_u64(&b, offset);
    wire_end(&b, frame);
    send_buf(p, &b);
}

static inline void send_signal(struct peer *p, const char *attempt, enum wire_signal signal, uint32_t grace_ms)
{
    struct buf b = {0};
    size_t frame = wire_begin(&b, WIRE_SIGNAL);
    wire_put_string(&b, attempt);
    wire_put_u8(&b, (uint8_t)signal);
    wire_put_u32(&b, grace_ms);
    wire_end(&b, frame);
    send_buf(p, &b);
}

static inline void send_strings(struct peer *p, enum wire_type type, const uint64_t *token, uint32_t count, ...)
{
    struct buf b = {0};
    char *items[8];
    va_list ap;
    va_start(ap, count);
    for (uint32_t i = 0; i < count; i++)
        items[i] = va_arg(ap, char *);
    va_end(ap);
    size_t frame = wire_begin(&b, type);
    if (token)
        wire_put_u64(&b, *token);
    wire_put_strings(&b, &(struct wire_strings){items, count});
    wire_end(&b, frame);
    send_buf(p, &b);
}

static inline void send_hello(struct peer *p, enum wire_hello_mode mode, const char *owner)
{
    struct buf b = {0};
    char name[64];
    snprintf(name, sizeof name, "user@%.8s", owner);
    struct wire_hello h = {.version = WIRE_VERSION,
                           .mode = (uint8_t)mode,
                           .job = (char *)JOB,
                           .job_name = (char *)"test",
                           .origin = (char *)"/test.yaml",
                           .owner = (char *)owner,
                           .owner_name = name,
                           .variant = (char *)"0123456789abcdef",
                           .work_dir = (char *)"",
                           .base_dir = (char *)"",
                           .host_digest = (char *)"local:0",
                           .test_boot_id = (char *)""};
    wire_put_hello(&b, &h);
    send_buf(p, &b);
}

static inline void expect_hello_ok(struct peer *p)
{
    struct wire_in in = expect(p, WIRE_HELLO_OK);
    assert_true(wire_get_facts(&in, &p->facts) && wire_in_done(&in));
}

static inline void peer_open(struct peer *p, enum wire_hello_mode mode, const char *owner)
{
    peer_start(p);
    peer_magic(p);
    send_hello(p, mode, owner);
    expect_hello_ok(p);
}

#define PEER_LAUNCH "0123456789abcdef-2"

/* Runs a shell script as one worker. */
static inline void send_run_kind(struct peer *p, const char *attempt, const char *slot, const char *script,
                                 enum wire_kind kind)
{
    struct buf b = {0};
    char *argv[] = {(char *)script};
    struct wire_worker worker = {.shell = 1, .argv = {argv, 1}};
    struct wire_run r = {.attempt = (char *)attempt,
                         .slot = (char *)slot,
                         .key = (char *)"k",
                         .launch = (char *)(kind == WIRE_KIND_LAUNCH ? PEER_LAUNCH : ""),
                         .kind = (uint8_t)kind,
                         .cwd = (char *)"",
                         .env_in = (char *)"",
                         .env_out = (char *)"",
                         .creates = (char *)"",
                         .workers = &worker,
                         .worker_count = 1,
                         .grace_ms = 2000,
                         .log_limit_bytes = 1u << 30};
    wire_put_run(&b, &r);
    send_buf(p, &b);
}

static inline void send_run(struct peer *p, const char *attempt, const char *slot, const char *script)
{
    send_run_kind(p, attempt, slot, script, WIRE_KIND_STEP);
}

static inline void expect_started(struct peer *p, const char *attempt)
{
    struct wire_in in = expect(p, WIRE_STARTED);
    assert_string_equal(wire_get_string(&in), attempt);
}

/* The workers' stdout, from the collected spool bytes. */
static inline char *output_text(struct peer *p)
{
    struct buf text = {0};
    for (size_t at = 0; at + WIRE_SPOOL_HEADER <= p->output.len;) {
        struct wire_spool h;
        assert_true(wire_spool_get((const uint8_t *)p->output.data + at, &h));
        at += WIRE_SPOOL_HEADER;
        assert_true(at + h.len <= p->output.len);
        if (h.stream == WIRE_STREAM_OUT)
            buf_append(&text, p->output.data + at, h.len);
        at += h.len;
    }
    char *copy = arena_strndup(p->arena, text.data ? text.data : "", text.len);
    buf_free(&text);
    return copy;
}

/* The only path that matches below the base folder. */
static inline char *base_path(struct peer *p, const char *pattern)
{
    glob_t found;
    assert_int_equal(glob(arena_printf(p->arena, "%s/%s", p->facts.base_dir, pattern), 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    char *path = arena_strdup(p->arena, found.gl_pathv[0]);
    globfree(&found);
    return path;
}

/* A file of the node's record of an attempt. */
static inline char *attempt_path(struct peer *p, const char *attempt, const char *file)
{
    return base_path(p, arena_printf(p->arena, "m/*/jobs/" JOB "/a/%s/%s", attempt, file));
}

static inline int peer_wait(struct peer *p)
{
    int status = -1;
    assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
    p->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline void peer_free(struct peer *p)
{
    close(p->fd);
    buf_free(&p->in);
    buf_free(&p->output);
    arena_destroy(p->arena);
}

/* The usual end: the connection closes, then the agent ends. */
static inline void peer_close(struct peer *p)
{
    shutdown(p->fd, SHUT_RDWR);
    assert_int_equal(peer_wait(p), 0);
    peer_free(p);
}

static inline void peer_kill(struct peer *p)
{
    kill(p->pid, SIGKILL);
    assert_int_equal(peer_wait(p), 128 + SIGKILL);
    peer_free(p);
}

#endif
