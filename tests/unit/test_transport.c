/* transport: the kinds that need no server: local (with the embedded agent and with fakes) and sim. */
#include "rhrun/transport.h"
#include "rhrun/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct peer {
    struct loop *loop;
    struct transport *t;
    struct buf in;
    size_t stop_at; /* ends the loop at that many bytes */
    bool opened, closed, drained, close_on_data;
    struct error err;
    enum transport_phase phase;
};

static void opened(void *arg)
{
    ((struct peer *)arg)->opened = true;
}

static void data(void *arg, const uint8_t *bytes, size_t len)
{
    struct peer *p = arg;
    assert_true(p->opened);
    assert_true(len > 0);
    buf_append(&p->in, bytes, len);
    if (p->close_on_data) {
        transport_close(p->t);
        p->t = NULL;
    }
    if (p->stop_at && p->in.len >= p->stop_at)
        loop_stop(p->loop);
}

static void drained(void *arg)
{
    struct peer *p = arg;
    p->drained = true;
    assert_true(transport_queued(p->t) < TRANSPORT_QUEUE_HIGH / 2);
}

static void closed(void *arg, const struct error *err, enum transport_phase phase)
{
    struct peer *p = arg;
    assert_false(p->closed);
    p->closed = true;
    p->err = *err;
    p->phase = phase;
    loop_stop(p->loop);
}

static const struct transport_callbacks callbacks = {opened, data, drained, closed};

static void peer_end(struct peer *p)
{
    transport_close(p->t);
    buf_free(&p->in);
}

static void set_agent(struct transport_pool *pool, const char *script)
{
    transport_pool_set_agent(pool, "x86_64", script, strlen(script));
    transport_pool_set_agent(pool, "aarch64", script, strlen(script));
}

static void test_local_agent(void **state)
{
    (void)state;
    struct loop *loop = loop_create();
    struct transport_pool *pool = transport_pool_create(loop, NULL);
    struct peer p = {.loop = loop, .stop_at = strlen(WIRE_MAGIC)};
    struct transport_host host = {.kind = TRANSPORT_LOCAL, .local_index = 3};
    p.t = transport_open(pool, &host, &callbacks, &p);
    assert_int_equal(transport_phase(p.t), TRANSPORT_CONFIG); /* nothing happens inside the call */
    loop_run(loop);
    assert_string_equal(p.err.text, "");
    assert_memory_equal(p.in.data, WIRE_MAGIC, strlen(WIRE_MAGIC));
    assert_string_equal(transport_host_digest(p.t), "local:3");
    assert_int_equal(transport_phase(p.t), TRANSPORT_OPEN);
    assert_int_equal(transport_kind(p.t), TRANSPORT_LOCAL);
    p.stop_at = 0;
    transport_write(p.t, "\xff\xff\xff\xff\xff\xff\xff\xff", 8); /* no frame: the agent must end */
    loop_run(loop);
    assert_true(p.closed);
    assert_int_equal(p.phase, TRANSPORT_OPEN);
    assert_int_equal(p.err.code, ERROR_INFRA);
    peer_end(&p);
    transport_pool_destroy(pool);
    loop_destroy(loop);
}

static void test_local_command(void **state)
{
    (void)state;
    struct loop *loop = loop_create();
    struct transport_pool *pool = transport_pool_create(loop, NULL);
    struct peer p = {.loop = loop, .stop_at = 8u << 20};
    struct transport_host host = {.kind = TRANSPORT_LOCAL, .command = "cat"};
    p.t = transport_open(pool, &host, &callbacks, &p);
    char *block = xmalloc(1u << 20);
    for (int i = 0; i < 8; i++) {
        memset(block, 'a' + i, 1u << 20);
        transport_write(p.t, block, 1u << 20);
    }
    assert_int_equal(transport_queued(p.t), 8u << 20);
    transport_pause(p.t);
    transport_resume(p.t);
    loop_run(loop);
    assert_int_equal(p.in.len, 8u << 20);
    for (int i = 0; i < 8; i++) {
        memset(block, 'a' + i, 1u << 20);
        assert_memory_equal(p.in.data + ((size_t)i << 20), block, 1u << 20);
    }
    assert_true(p.drained);
    free(block);
    peer_end(&p);
    transport_pool_destroy(pool);
    loop_destroy(loop);
}

static void run_script(const char *script, struct peer *p, struct transport_host *host)
{
    p->loop = loop_create();
    struct transport_pool *pool = transport_pool_create(p->loop, NULL);
    set_agent(pool, script);
    host->kind = TRANSPORT_LOCAL;
    p->t = transport_open(pool, host, &callbacks, p);
    loop_run(p->loop);
    transport_close(p->t);
    p->t = NULL;
    transport_pool_destroy(pool);
    loop_destroy(p->loop);
}

static void test_local_faults(void **state)
{
    (void)state;
    struct peer noisy = {.stop_at = 21};
    struct transport_host host = {.name = NULL};
    run_script("#!/bin/sh\nprintf 'noise'; printf '\\nRHRUN-AGENT-1\\nx'; read end\n", &noisy, &host);
    assert_true(noisy.opened);
    assert_string_equal(noisy.in.data, "noise\nRHRUN-AGENT-1\nx");
    buf_free(&noisy.in);

    struct peer dies = {.stop_at = 0};
    run_script("#!/bin/sh\necho first >&2\necho it is broken >&2\nexit 3\n", &dies, &host);
    assert_string_equal(dies.err.text, "host \"this machine\": agent: it ended before it spoke: it is broken");
    assert_int_equal(dies.phase, TRANSPORT_AGENT);

    struct peer silent = {.stop_at = 0};
    host.timeout_ms = 50;
    run_script("#!/bin/sh\nread x\n", &silent, &host);
    assert_string_equal(silent.err.text, "host \"this machine\": agent: no answer within 0.05 s");
    assert_int_equal(silent.err.code, ERROR_TIMEOUT);

    struct peer killed = {.stop_at = 0};
    host.timeout_ms = 0;
    run_script("#!/bin/sh\nprintf '\\nRHRUN-AGENT-1\\n'; kill -9 $$\n", &killed, &host);
    buf_free(&killed.in);
    assert_string_equal(killed.err.text, "host \"this machine\": the agent was killed by signal 9");

    struct peer endless = {.stop_at = 0};
    run_script("#!/bin/sh\nexec yes\n", &endless, &host);
    assert_int_equal(endless.err.code, ERROR_PROTOCOL);

    struct peer gone = {.close_on_data = true};
    gone.stop_at = 1;
    run_script("#!/bin/sh\nprintf '\\nRHRUN-AGENT-1\\nmore'; read end\n", &gone, &host);
    assert_false(gone.closed);
    buf_free(&gone.in);
}

/* ---- many of this machine's nodes ---- */

enum { MANY = 40, AT_A_TIME = 8 };
struct crowd {
    struct loop *loop;
    int starting, most, answered;
};
struct one {
    struct crowd *crowd;
    struct transport *t;
    bool answered;
};

static void one_opened(void *arg)
{
    struct one *o = arg;
    if (++o->crowd->starting > o->crowd->most)
        o->crowd->most = o->crowd->starting;
}

static void one_data(void *arg, const uint8_t *data, size_t len)
{
    struct one *o = arg;
    if (o->answered || data[len - 1] != 'x')
        return;
    o->answered = true;
    o->crowd->starting--;
    if (++o->crowd->answered == MANY)
        loop_stop(o->crowd->loop);
}

static void one_closed(void *arg, const struct error *err, enum transport_phase phase)
{
    (void)arg;
    fail_msg("%s: %s", transport_phase_name(phase), err->text);
}

/* Hundreds that start at once would only slow each other until their deadlines pass. */
static void test_local_nodes_start_a_few_at_a_time(void **state)
{
    (void)state;
    static const struct transport_callbacks of_one = {one_opened, one_data, NULL, one_closed};
    struct crowd crowd = {.loop = loop_create()};
    struct one ones[MANY];
    struct transport_pool *pool = transport_pool_create(crowd.loop, NULL);
    struct transport_host host = {.kind = TRANSPORT_LOCAL};
    set_agent(pool, "#!/bin/sh\nprintf '\\nRHRUN-AGENT-1\\n'\nprintf x\nread end\n");
    for (uint32_t i = 0; i < MANY; i++) {
        ones[i] = (struct one){.crowd = &crowd};
        host.local_index = i;
        ones[i].t = transport_open(pool, &host, &of_one, &ones[i]);
    }
    loop_run(crowd.loop);
    assert_int_equal(crowd.answered, MANY);
    assert_in_range(crowd.most, 1, AT_A_TIME + 1); /* the next is admitted just before the answer is reported */
    for (uint32_t i = 0; i < MANY; i++)
        transport_close(ones[i].t);
    transport_pool_destroy(pool);
    loop_destroy(crowd.loop);
}

struct sim_peer {
    struct transport *t;
    int received, closed;
};

static void *sim_open(void *script, uint32_t index, const char *name, struct transport *t, struct error *err,
                      enum transport_phase *ret_phase)
{
    struct sim_peer *s = script;
    if (index == 9) {
        *ret_phase = TRANSPORT_RESOLVE;
        error_set(err, ERROR_INFRA, "no such host: %s", name);
        return NULL;
    }
    s->t = t;
    transport_sim_send(t, WIRE_MAGIC, strlen(WIRE_MAGIC));
    return s;
}

static void sim_received(void *peer, const uint8_t *bytes, size_t len)
{
    struct sim_peer *s = peer;
    s->received += (int)len;
    transport_sim_send(s->t, bytes, len);
    struct error err = ERROR_INIT;
    error_set(&err, ERROR_INFRA, "power loss");
    transport_sim_fail(s->t, &err);
}

static void sim_close(void *peer)
{
    ((struct sim_peer *)peer)->closed++;
}

static void test_sim(void **state)
{
    (void)state;
    struct loop *loop = loop_create();
    struct transport_pool *pool = transport_pool_create(loop, NULL);
    struct sim_peer s = {0};
    transport_pool_set_sim(pool, &(struct transport_sim_script){sim_open, sim_received, sim_close, &s});
    struct peer p = {.loop = loop};
    struct transport_host host = {.name = "s1", .kind = TRANSPORT_SIM, .sim_index = 1};
    p.t = transport_open(pool, &host, &callbacks, &p);
    transport_write(p.t, "hello", 5); /* waits for the agent, then goes out */
    loop_run(loop);
    assert_int_equal(s.received, 5);
    assert_string_equal(p.in.data, WIRE_MAGIC "hello");
    assert_string_equal(p.err.text, "host \"s1\": power loss");
    assert_int_equal(s.closed, 1);
    peer_end(&p);

    struct peer q = {.loop = loop};
    host.sim_index = 9;
    q.t = transport_open(pool, &host, &callbacks, &q);
    loop_run(loop);
    assert_string_equal(q.err.text, "host \"s1\": resolve: no such host: s1");
    assert_int_equal(q.phase, TRANSPORT_RESOLVE);
    peer_end(&q);
    transport_pool_destroy(pool);
    loop_destroy(loop);
}

static void test_names(void **state)
{
    (void)state;
    enum transport_kind kind = TRANSPORT_SIM;
    for (enum transport_kind k = TRANSPORT_AUTO; k <= TRANSPORT_SIM; k++) {
        assert_true(transport_kind_parse(transport_kind_name(k), &kind));
        assert_int_equal(kind, k);
    }
    assert_false(transport_kind_parse("telnet", &kind));
    assert_string_equal(transport_phase_name(TRANSPORT_HOST_KEY), "host key");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_local_agent),  cmocka_unit_test(test_local_command),
        cmocka_unit_test(test_local_faults), cmocka_unit_test(test_local_nodes_start_a_few_at_a_time),
        cmocka_unit_test(test_sim),          cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
