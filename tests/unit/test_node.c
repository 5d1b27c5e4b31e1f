/* node: the life of a connection against a simulated agent: noise, bad frames, silence, reconnecting, giving up. The
 * peer here writes arbitrary bytes; a well-behaved peer is in sim_node.c. */
#include "rhrun/node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum answer { ANSWER_WELL, ANSWER_NOTHING, ANSWER_HELD, ANSWER_OTHER_VERSION };

static struct scene {
    struct loop *loop;
    struct transport_pool *pool;
    struct node *node;
    struct transport *peer; /* the newest connection */
    struct buf got;         /* from it */
    /* how the peer behaves */
    enum answer answer;
    const char *before;    /* written before the magic */
    size_t noise;          /* bytes of noise before the magic */
    uint32_t refuse, drop; /* that many connections are refused; dropped at their HELLO */
    const void *after;     /* written after HELLO_OK */
    size_t after_len;
    bool frozen;
    void (*when_lost)(void); /* called at once: the next connection may be there after the next turn of the loop */
    /* what happened */
    uint32_t opened, pings, hellos;
    struct buf said;
    bool ended;
    uint32_t liveness_ms, reconnect_ms; /* 0: long enough that a busy machine is no silent node */
} scene;

/* ---- the peer ---- */

static void put_facts(struct buf *out)
{
    static char id[] = "0123456789abcdef0123456789abcdef", text[] = "x";
    struct wire_facts f = {.version = scene.answer == ANSWER_OTHER_VERSION ? WIRE_VERSION + 1 : WIRE_VERSION,
                           .epoch = 1,
                           .install = id,
                           .boot_id = id,
                           .machine_id = text,
                           .home_id = text,
                           .hostname = text,
                           .user = text,
                           .home = text,
                           .base_dir = text,
                           .work_dir = text,
                           .arch = text,
                           .kernel = text,
                           .os = text,
                           .cpu = text,
                           .image = text,
                           .image_digest = text,
                           .shell = text,
                           .python = text,
                           .python_version = text,
                           .gpus = text,
                           .address = text,
                           .cpus = 3};
    wire_put_facts(out, &f);
}

static void *peer_open(void *script, uint32_t index, const char *name, struct transport *t, struct error *err,
                       enum transport_phase *ret_phase)
{
    (void)script;
    (void)index;
    (void)name;
    scene.opened++;
    if (scene.refuse > 0) {
        scene.refuse--;
        *ret_phase = TRANSPORT_CONNECT;
        error_set(err, ERROR_INFRA, "connection refused");
        return NULL;
    }
    scene.peer = t;
    buf_clear(&scene.got);
    if (scene.before)
        transport_sim_send(t, scene.before, strlen(scene.before));
    if (scene.noise) {
        CLEANUP(cleanup_free) char *noise = xmalloc(scene.noise);
        memset(noise, 'n', scene.noise);
        transport_sim_send(t, noise, scene.noise);
    }
    transport_sim_send(t, WIRE_MAGIC, sizeof WIRE_MAGIC - 1);
    return &scene;
}

static void on_hello(void)
{
    struct buf out = {0};
    struct error err = ERROR_INIT;
    scene.hellos++;
    if (scene.drop > 0) {
        scene.drop--;
        error_set(&err, ERROR_INFRA, "connection reset");
        transport_sim_fail(scene.peer, &err);
        return;
    }
    if (scene.answer == ANSWER_HELD) {
        size_t at = wire_begin(&out, WIRE_HELD);
        wire_put_string(&out, "you@there");
        wire_put_string(&out, "launch");
        wire_put_u64(&out, 4);
        wire_end(&out, at);
    } else if (scene.answer != ANSWER_NOTHING) {
        put_facts(&out);
        buf_append(&out, scene.after ? scene.after : "", scene.after_len);
    }
    if (out.len)
        transport_sim_send(scene.peer, out.data, out.len);
    buf_free(&out);
}

static void on_ping(const uint8_t *payload, uint32_t len)
{
    struct wire_in in = {payload, payload + len, NULL, false};
    struct buf out = {0};
    scene.pings++;
    size_t at = wire_begin(&out, WIRE_PONG);
    wire_put_u64(&out, wire_get_u64(&in));
    wire_put_u64(&out, 1);
    wire_put_u64(&out, 2);
    wire_put_u32(&out, 4711);
    wire_end(&out, at);
    transport_sim_send(scene.peer, out.data, out.len);
    buf_free(&out);
}

static void peer_received(void *peer, const uint8_t *data, size_t len)
{
    enum wire_type type;
    const uint8_t *payload;
    uint32_t size;
    (void)peer;
    if (scene.frozen)
        return;
    buf_append(&scene.got, data, len);
    while (scene.got.len && wire_peek(&scene.got, &type, &payload, &size) > 0) {
        if (type == WIRE_HELLO)
            on_hello();
        else if (type == WIRE_PING)
            on_ping(payload, size);
        buf_consume(&scene.got, WIRE_HEADER_SIZE + size);
    }
}

static void peer_close(void *peer)
{
    (void)peer;
    scene.peer = NULL;
}

/* ---- the owner ---- */

static void ready(void *arg, struct node *n, bool again)
{
    (void)arg;
    assert_int_equal(node_facts(n)->cpus, 3);
    buf_puts(&scene.said, again ? "back\n" : "ready\n");
}

static void lost(void *arg, struct node *n, const struct error *err)
{
    (void)arg;
    assert_int_equal(node_state(n), NODE_WAITING);
    assert_true(node_lost_since_ms(n) > 0);
    buf_printf(&scene.said, "lost: %s\n", err->text);
    if (scene.when_lost)
        scene.when_lost();
}

static void failed(void *arg, struct node *n, const struct error *err)
{
    (void)arg;
    assert_int_equal(node_state(n), NODE_FAILED);
    buf_printf(&scene.said, "failed %d: %s\n", (int)err->code, err->text);
    if (err->hint[0])
        buf_printf(&scene.said, "hint: %s\n", err->hint);
    scene.ended = true;
}

static void ponged(void *arg, struct node *n, uint64_t token, uint32_t port, uint64_t wall)
{
    (void)arg;
    (void)n;
    assert_true(wall > 0);
    buf_printf(&scene.said, "pong %u %u\n", (unsigned)token, port);
}

static void record(void *arg, struct node *n, const struct wire_record *r)
{
    (void)arg;
    (void)n;
    buf_printf(&scene.said, "record %s\n", r->attempt);
}

static void text(void *arg, struct node *n, const char *attempt, const char *what)
{
    (void)arg;
    (void)n;
    buf_printf(&scene.said, "fault %s: %s\n", attempt, what);
}

static int begin(void **unused)
{
    static const struct transport_sim_script script = {peer_open, peer_received, peer_close, NULL};
    (void)unused;
    memset(&scene, 0, sizeof scene);
    scene.loop = loop_create();
    scene.pool = transport_pool_create(scene.loop, NULL);
    transport_pool_set_sim(scene.pool, &script);
    return 0;
}

static int end(void **unused)
{
    (void)unused;
    node_destroy(scene.node);
    node_destroy(NULL);
    transport_pool_destroy(scene.pool);
    loop_destroy(scene.loop);
    buf_free(&scene.got);
    buf_free(&scene.said);
    return 0;
}

static void start(void)
{
    static char job[] = "0123456789abcdef", owner[] = "o", empty[] = "";
    static const struct node_callbacks callbacks = {
        .ready = ready, .lost = lost, .failed = failed, .ponged = ponged, .record = record, .fault = text};
    struct node_options o = {.host = {.name = "gpu1", .kind = TRANSPORT_SIM},
                             .liveness_ms = scene.liveness_ms ? scene.liveness_ms : 10000,
                             .hello_ms = scene.answer == ANSWER_NOTHING ? 40 : 10000,
                             .reconnect_ms = scene.reconnect_ms ? scene.reconnect_ms : 20000,
                             .backoff_ms = 1};
    o.hello = (struct wire_hello){.job = job,
                                  .job_name = owner,
                                  .origin = owner,
                                  .owner = owner,
                                  .owner_name = owner,
                                  .variant = job,
                                  .work_dir = empty,
                                  .base_dir = empty,
                                  .test_boot_id = empty};
    scene.node = node_create(scene.loop, scene.pool, &o, &callbacks, NULL);
    assert_int_equal(node_state(scene.node), NODE_IDLE);
    node_connect(scene.node);
}

/* Turns the loop until the record ends with this; every wait here is bounded by the node itself. */
static void until(const char *tail)
{
    uint64_t limit = mono_ns() + UINT64_C(20000000000);
    while (!scene.said.data || !str_ends(scene.said.data, tail)) {
        if ((!loop_turn(scene.loop, true) && !str_ends(scene.said.data ? scene.said.data : "", tail)) ||
            mono_ns() > limit)
            fail_msg("waiting for \"%s\"; said: %s", tail, scene.said.data ? scene.said.data : "nothing");
    }
}

static void until_failed(void)
{
    uint64_t limit = mono_ns() + UINT64_C(20000000000);
    while (!scene.ended)
        if ((!loop_turn(scene.loop, true) && !scene.ended) || mono_ns() > limit)
            fail_msg("waiting for the end; said: %s", scene.said.data ? scene.said.data : "nothing");
}

static void assert_said(const char *what)
{
    if (!scene.said.data || !strstr(scene.said.data, what))
        fail_msg("not said: \"%s\", but: %s", what, scene.said.data ? scene.said.data : "nothing");
}

static void drop(const char *why)
{
    struct error err = ERROR_INIT;
    error_set(&err, ERROR_INFRA, "%s", why);
    transport_sim_fail(scene.peer, &err);
}

/* ---- greeting ---- */

static void test_noise_before_the_magic(void **unused)
{
    (void)unused;
    scene.before = "Welcome!\nRHRUN-AGENT-\n\nRHRUN-AGENT-2";
    start();
    until("ready\n");
    assert_int_equal(node_state(scene.node), NODE_READY);
    assert_string_equal(node_name(scene.node), "gpu1");
    assert_int_equal(scene.hellos, 1);
}

static void test_endless_noise(void **unused)
{
    (void)unused;
    scene.noise = 2 * WIRE_NOISE_MAX;
    start();
    until_failed();
    assert_int_equal(scene.opened, 1);
    assert_null(strstr(scene.said.data, "ready"));
}

static void test_refused(void **unused)
{
    (void)unused;
    scene.refuse = 1;
    start();
    until_failed();
    assert_said("connection refused");
    assert_int_equal(scene.opened, 1); /* the first connection is not tried again */
}

static void test_no_answer_to_hello(void **unused)
{
    (void)unused;
    scene.answer = ANSWER_NOTHING;
    start();
    until_failed();
    assert_said("no answer to HELLO");
    assert_int_equal(scene.hellos, 1);
}

static void test_held(void **unused)
{
    (void)unused;
    scene.answer = ANSWER_HELD;
    start();
    until_failed();
    CLEANUP(cleanup_free)
    char *want = xasprintf("failed %d: node \"gpu1\": the job is held by you@there (launch)\n", (int)ERROR_HELD);
    assert_said(want);
    assert_said("--take-over");
}

static void test_other_version(void **unused)
{
    (void)unused;
    scene.answer = ANSWER_OTHER_VERSION;
    start();
    until_failed();
    CLEANUP(cleanup_free) char *said = xasprintf("speaks version %u, not %u", WIRE_VERSION + 1, WIRE_VERSION);
    assert_said(said);
}

/* ---- bad frames ---- */

static void bad_frame(const struct buf *frame)
{
    void *state = NULL;
    begin(&state);
    scene.after = frame->data;
    scene.after_len = frame->len;
    start();
    until_failed();
    assert_said("ready\nfailed ");
    assert_said("malformed frame");
    assert_int_equal(scene.opened, 1); /* a peer that breaks the protocol is not tried again */
    end(&state);
}

static void test_bad_frames(void **state)
{
    struct buf b = {0};
    end(state);                                      /* each has its own scene */
    buf_append(&b, "\xff\xff\xff\xff\x40\0\0\0", 8); /* longer than any */
    bad_frame(&b);
    buf_clear(&b);
    buf_append(&b, "\0\0\0\0\x3f\0\0\0", 8); /* no such type */
    bad_frame(&b);
    buf_clear(&b);
    size_t at = wire_begin(&b, WIRE_HELLO); /* the controller's own */
    wire_end(&b, at);
    bad_frame(&b);
    buf_clear(&b);
    put_facts(&b); /* a second HELLO_OK */
    bad_frame(&b);
    buf_clear(&b);
    at = wire_begin(&b, WIRE_LISTED); /* cut short */
    wire_put_u32(&b, 1);
    wire_end(&b, at);
    bad_frame(&b);
    buf_clear(&b);
    at = wire_begin(&b, WIRE_PONG); /* with extra bytes */
    for (int i = 0; i < 4; i++)
        wire_put_u64(&b, 1);
    wire_end(&b, at);
    bad_frame(&b);
    buf_clear(&b);
    at = wire_begin(&b, WIRE_STARTED); /* a length beyond the payload */
    wire_put_u32(&b, 1000);
    wire_end(&b, at);
    bad_frame(&b);
    buf_free(&b);
    begin(state);
}

static void test_frames_in_pieces(void **unused)
{
    (void)unused;
    struct buf b = {0};
    size_t at = wire_begin(&b, WIRE_FAULT);
    wire_put_string(&b, "abc");
    wire_put_string(&b, "disk full");
    wire_end(&b, at);
    start();
    until("ready\n");
    for (size_t i = 0; i < b.len; i++) {
        transport_sim_send(scene.peer, b.data + i, 1);
        loop_turn(scene.loop, false); /* not waiting, so no PONG comes between */
    }
    until("fault abc: disk full\n");
    buf_free(&b);
}

/* ---- afterwards ---- */

static void test_ping(void **unused)
{
    (void)unused;
    scene.liveness_ms = 300;
    start();
    until("ready\n");
    node_ping(scene.node, 5);
    until("pong 5 4711\n");
    uint32_t before = scene.pings;
    while (scene.pings < before + 3) /* by itself, in silence */
        loop_turn(scene.loop, true);
    assert_null(strstr(scene.said.data, "lost"));
}

static void test_silence_is_a_loss(void **unused)
{
    (void)unused;
    scene.liveness_ms = 300;
    start();
    until("ready\n");
    scene.frozen = true;
    while (!strstr(scene.said.data, "lost"))
        loop_turn(scene.loop, true);
    assert_said("node \"gpu1\": nothing heard for");
    scene.frozen = false;
    until("back\n");
    assert_int_equal(node_lost_since_ms(scene.node), 0);
}

static void test_reconnects(void **unused)
{
    (void)unused;
    start();
    until("ready\n");
    scene.refuse = 2;
    scene.drop = 2;
    drop("connection reset");
    until("back\n");
    assert_int_equal(scene.opened, 6);
    assert_int_equal(scene.hellos, 4);
    char *first = strstr(scene.said.data, "lost");
    assert_null(strstr(first + 1, "lost")); /* reported once for all of it */
    drop("again");
    until("back\nlost: host \"gpu1\": again\nback\n");
}

static void test_gives_up_in_time(void **unused)
{
    (void)unused;
    scene.reconnect_ms = 150;
    start();
    until("ready\n");
    scene.refuse = UINT32_MAX;
    uint64_t since = loop_now_ms(scene.loop);
    drop("connection reset");
    until_failed();
    assert_true(loop_now_ms(scene.loop) - since >= 150);
    assert_true(scene.opened > 3 && scene.opened < 20); /* the pauses grow */
    assert_said("connection refused");
}

static void test_told_to_give_up(void **unused)
{
    (void)unused;
    start();
    until("ready\n");
    scene.refuse = UINT32_MAX;
    drop("connection reset");
    while (node_state(scene.node) != NODE_WAITING)
        loop_turn(scene.loop, true);
    node_give_up(scene.node);
    assert_false(scene.ended); /* not reported within the call */
    until_failed();
    assert_said("lost, and not tried again");
}

static void ping(void)
{
    node_ping(scene.node, 9);
}

/* A request while it is away is dropped, not kept for later. */
static void test_requests_while_away(void **unused)
{
    (void)unused;
    scene.when_lost = ping;
    start();
    until("ready\n");
    uint32_t before = scene.pings;
    drop("connection reset");
    until("back\n");
    assert_said("lost: host \"gpu1\": connection reset");
    assert_int_equal(scene.pings, before);
    node_destroy(scene.node); /* while it is connected: the peer sees the end, nothing is reported */
    scene.node = NULL;
    assert_null(scene.peer);
    assert_false(scene.ended);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_noise_before_the_magic),
        CASE(test_endless_noise),
        CASE(test_refused),
        CASE(test_no_answer_to_hello),
        CASE(test_held),
        CASE(test_other_version),
        CASE(test_bad_frames),
        CASE(test_frames_in_pieces),
        CASE(test_ping),
        CASE(test_silence_is_a_loss),
        CASE(test_reconnects),
        CASE(test_gives_up_in_time),
        CASE(test_told_to_give_up),
        CASE(test_requests_while_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
