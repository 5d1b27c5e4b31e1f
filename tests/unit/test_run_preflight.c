/* run: what is looked at before the first launch over several nodes, and what it keeps from being started. */
#include "sim_play.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct sim_play play;
static struct {
    uint32_t deaf;     /* this node reaches nobody; UINT32_MAX = none */
    uint32_t taken;    /* so many ports more are taken */
    uint32_t asked[3]; /* by enum wire_probe */
    uint32_t port;     /* the last that was asked for */
} net;

static int probe(void *arg, uint32_t node, uint8_t what, uint32_t port)
{
    (void)arg;
    net.asked[what]++;
    if (what == WIRE_PROBE_END)
        return 0;
    net.port = port;
    if (what == WIRE_PROBE_LISTEN && net.taken > 0) {
        net.taken--;
        return EADDRINUSE;
    }
    return what == WIRE_PROBE_CONNECT && node == net.deaf ? EHOSTUNREACH : 0;
}

static struct sim_job *begin(uint32_t nodes)
{
    struct sim_script script = play_script(&play);
    script.probe = probe;
    memset(&net, 0, sizeof net);
    net.deaf = UINT32_MAX;
    struct sim_job *job = sim_job_create(nodes, &script);
    for (uint32_t i = 0; i < nodes; i++)
        job->hosts[i].address = "10.0.0.7";
    return job;
}

static void test_all_are_reached(void **state)
{
    (void)state;
    struct sim_job *job = begin(250);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(net.asked[WIRE_PROBE_CONNECT], 250);
    assert_int_equal(net.asked[WIRE_PROBE_LISTEN], 3); /* a hundred nodes at a time */
    assert_int_equal(net.asked[WIRE_PROBE_END], 1);
    sim_job_destroy(job);
}

static void test_what_has_no_nodes_to_reach(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct sim_job *job = begin(i == 0 ? 1 : 2);
        job->spec.distributed.present = i != 1;
        if (i == 2)
            job->spec.distributed.preflight = (struct spec_preflight){true, true, true, true, true, 0, 0, 0};
        job->spec.this_machine = i == 3;
        assert_int_equal(sim_job_run(job, 0), 0);
        assert_int_equal(net.asked[WIRE_PROBE_CONNECT], 0);
        sim_job_destroy(job);
    }
}

static void test_a_node_that_is_cut_off(void **state)
{
    (void)state;
    struct sim_job *job = begin(3);
    net.deaf = 2;
    assert_int_equal(sim_job_run(job, 0), 3);
    assert_non_null(strstr(job->result.error.text, "cannot reach port"));
    assert_non_null(strstr(job->result.error.text, "at 10.0.0.7"));
    assert_non_null(strstr(job->result.error.text, strerror(EHOSTUNREACH)));
    assert_int_equal(sim_started(job->net, 0, "launch"), 0);
    net.deaf = UINT32_MAX; /* somebody opened the ports: the same command */
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(sim_started(job->net, 2, "launch"), 1);
    sim_job_destroy(job);
}

static void test_a_port_that_is_taken(void **state)
{
    (void)state;
    struct sim_job *job = begin(2);
    net.taken = 2; /* a free one is asked for again */
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(net.asked[WIRE_PROBE_LISTEN], 3);
    assert_int_equal(net.asked[WIRE_PROBE_CONNECT], 2);
    sim_job_destroy(job);
    job = begin(2);
    job->spec.distributed.master_port = 29500;
    net.taken = 1;
    assert_int_equal(sim_job_run(job, 0), 3);
    assert_int_equal(net.port, 29500);
    assert_non_null(strstr(job->result.error.text, "port 29500 on node"));
    assert_non_null(strstr(job->result.error.hint, "master_port: 0"));
    assert_int_equal(net.asked[WIRE_PROBE_CONNECT], 0);
    assert_int_equal(sim_started(job->net, 0, "launch"), 0);
    sim_job_destroy(job);
}

static void test_not_before_a_restart(void **state)
{
    (void)state;
    struct sim_job *job = begin(2);
    job->spec.distributed.max_restarts = 1;
    play_does(&play, 1, "launch", 1, (struct sim_program){.status = 7});
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(sim_started(job->net, 0, "launch"), 2);
    assert_int_equal(net.asked[WIRE_PROBE_CONNECT], 2);
    sim_job_destroy(job);
}

/* Whatever question its connection is lost with, of either node: all is asked again. */
static void test_a_connection_that_is_lost_meanwhile(void **state)
{
    (void)state;
    static const enum sim_fault faults[] = {SIM_DROP_BEFORE, SIM_DROP_AFTER};
    for (uint32_t i = 0; i < 12; i++) {
        struct sim_job *job = begin(2);
        job->backoff_ms = 1;
        play_trap(&play, i % 2, WIRE_PROBE, NULL, i / 4, faults[i / 2 % 2]);
        assert_int_equal(sim_job_run(job, 0), 0);
        assert_int_equal(sim_started(job->net, 0, "launch"), 1);
        assert_int_equal(sim_started(job->net, 1, "launch"), 1);
        sim_job_destroy(job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_are_reached),        cmocka_unit_test(test_what_has_no_nodes_to_reach),
        cmocka_unit_test(test_a_node_that_is_cut_off), cmocka_unit_test(test_a_port_that_is_taken),
        cmocka_unit_test(test_not_before_a_restart),   cmocka_unit_test(test_a_connection_that_is_lost_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
