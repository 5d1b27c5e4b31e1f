/* run: the checks before the first launch over several nodes, and what they prevent. */
#include "sim_play.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct sim_play play;
static struct {
    uint32_t deaf;     /* this node reaches nobody; UINT32_MAX = none */
    uint32_t taken;    /* that many more ports are taken */
    uint32_t asked[3]; /* by enum wire_probe */
    uint32_t port;     /* the last that was asked for */
    int64_t clocks[4];
    uint32_t gpus[4];
    const char *drivers[4], *pythons[4];
    uint64_t disks[4]; /* 0 = enough */
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

static int64_t clock_of(void *arg, uint32_t node)
{
    (void)arg;
    return node < ARRAY_LEN(net.clocks) ? net.clocks[node] : 0;
}

static void facts_of(void *arg, uint32_t node, struct wire_facts *f)
{
    (void)arg;
    if (node >= ARRAY_LEN(net.gpus))
        return;
    f->gpu_count = net.gpus[node];
    f->disk_free_bytes = net.disks[node] ? net.disks[node] : f->disk_free_bytes;
    if (net.drivers[node])
        f->gpu_driver = (char *)(uintptr_t)net.drivers[node];
    if (net.pythons[node]) {
        f->python = (char *)(uintptr_t) "/usr/bin/python3";
        f->python_version = (char *)(uintptr_t)net.pythons[node];
    }
}

static struct sim_job *begin(uint32_t nodes)
{
    struct sim_script script = play_script(&play);
    script.probe = probe;
    script.facts = facts_of;
    script.clock = clock_of;
    memset(&net, 0, sizeof net);
    net.deaf = UINT32_MAX;
    struct sim_job *job = sim_job_create(nodes, &script);
    for (uint32_t i = 0; i < nodes; i++)
        job->hosts[i].address = "10.0.0.7";
    return job;
}

static bool both_live(struct sim_job *job)
{
    return sim_live(job->net) == 2;
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
        job->spec.placement = i == 3 ? PLACEMENT_HERE : PLACEMENT_HOSTS;
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
    net.taken = 2; /* a free one is requested again */
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(net.asked[WIRE_PROBE_LISTEN], 3);
    assert_int_equal(net.asked[WIRE_PROBE_CONNECT], 2);
    sim_job_destroy(job);
    job = begin(2);
    job->spec.distributed.master_port = 29500;
    net.taken = 1;
    assert_int_equal(sim_job_run(job, 0), 3);
    assert_int_equal(net.port, 29500);
    assert_non_null(strstr(job->result.error.text, "port 29500 on node \"n0\""));
    assert_non_null(strstr(job->result.error.text, "by process 12 (sleep)"));
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

/* Whichever question a lost connection interrupts, on either node: all questions are asked again. */
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

/* A machine that restarted under the launch may have other ports and another clock than before. */
static void test_again_where_a_node_restarted(void **state)
{
    (void)state;
    struct sim_job *job = begin(2);
    job->spec.distributed.max_restarts = 1;
    job->backoff_ms = 1;
    play_does(&play, 0, "launch", 1, (struct sim_program){.endless = true});
    play_does(&play, 1, "launch", 1, (struct sim_program){.endless = true});
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    assert_true(sim_job_turns(job, both_live));
    assert_int_equal(net.asked[WIRE_PROBE_CONNECT], 2);
    net.clocks[1] = -60000;
    sim_reboot(job->net, 1, 0);
    sim_job_wait(job);
    sim_job_close(job);
    assert_int_equal(job->result.exit_status, 0);
    assert_int_equal(sim_started(job->net, 0, "launch"), 2);
    assert_int_equal(net.asked[WIRE_PROBE_CONNECT], 4);
    assert_said(job, "the clock of node \"n1\" is 60.0 s behind that of node \"n0\"; set them");
    sim_job_destroy(job);
}

/* Its findings then end the run as before the first launch, and started steps end in order. */
static void test_a_restarted_node_that_is_cut_off(void **state)
{
    (void)state;
    struct sim_job *job = begin(2);
    job->spec.distributed.max_restarts = 1;
    job->spec.entrypoint.epilog.text = "after";
    job->backoff_ms = 1;
    play_does(&play, 0, "launch", 1, (struct sim_program){.endless = true});
    play_does(&play, 1, "launch", 1, (struct sim_program){.endless = true});
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    assert_true(sim_job_turns(job, both_live));
    net.deaf = 1;
    sim_reboot(job->net, 1, 0);
    sim_job_wait(job);
    sim_job_close(job);
    assert_int_equal(job->result.exit_status, 3);
    assert_non_null(strstr(job->result.error.text, "node \"n1\" cannot reach port"));
    assert_int_equal(sim_started(job->net, 0, "launch"), 1);
    assert_int_equal(sim_started(job->net, 0, "epilog"), 1);
    sim_job_destroy(job);
}

/* MIN:MAX: a node that cannot take part does not stop the others, while enough are left. */
static void test_some_are_enough(void **state)
{
    (void)state;
    struct sim_job *job = begin(3);
    job->spec.distributed.min_nodes = 2;
    net.deaf = 2;
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_said(job, "cannot reach port");
    assert_said(job, "it is left out for good: 2 of 2:3 nodes are left");
    assert_int_equal(sim_started(job->net, 1, "launch"), 1);
    assert_int_equal(sim_started(job->net, 2, "launch"), 0);
    sim_job_destroy(job);
    job = begin(3);
    job->spec.distributed.min_nodes = 2;
    net.deaf = 0; /* the others meet there */
    assert_int_equal(sim_job_run(job, 0), 3);
    assert_int_equal(sim_started(job->net, 1, "launch"), 0);
    sim_job_destroy(job);
}

/* Each world has a port of its own, which only its own nodes need to reach. */
static void test_worlds_of_roles(void **state)
{
    (void)state;
    static const struct spec_entrypoint run = {.kind = ENTRY_RUN, .target = {.text = "work"}};
    struct spec_role roles[] = {{.name = "actor", .counted = true, .count = 2, .peer = SPEC_NO_ROLE, .entrypoint = run},
                                {.name = "judge",
                                 .counted = true,
                                 .count = 2,
                                 .peer = SPEC_NO_ROLE,
                                 .world = WORLD_OWN,
                                 .master_port = 29501,
                                 .entrypoint = run}};
    struct spec_place places[] = {{0, 0, 1}, {0, 1, 1}, {1, 2, 1}, {1, 3, 1}};
    struct sim_job *job = begin(4);
    job->spec.roles = roles;
    job->spec.role_count = 2;
    job->spec.places = places;
    job->spec.place_count = 4;
    net.deaf = 1;
    assert_int_equal(sim_job_run(job, 0), 3);
    assert_non_null(strstr(job->result.error.text, "node \"n1\" cannot reach port"));
    assert_int_equal(net.asked[WIRE_PROBE_CONNECT], 4);
    net.deaf = 3;
    assert_int_equal(sim_job_run(job, 0), 3);
    assert_non_null(strstr(job->result.error.text, "node \"n3\" cannot reach port 29501 of node \"n2\" at 10.0.0.7, "
                                                   "where the workers of role judge are to meet"));
    net.deaf = UINT32_MAX;
    assert_int_equal(sim_job_run(job, 0), 0);
    sim_job_destroy(job);
}

static void set_endpoint(struct sim_job *job, const char *backend, const char *endpoint)
{
    static struct spec_flag flags[2];
    flags[0] = (struct spec_flag){torchrun_flag_find("rdzv_backend", 12), {.text = backend}};
    flags[1] = (struct spec_flag){torchrun_flag_find("rdzv_endpoint", 13), {.text = endpoint}};
    job->spec.distributed.launcher = LAUNCHER_TORCHRUN;
    job->spec.distributed.flags = flags;
    job->spec.distributed.flag_count = 2;
    job->spec.entrypoint.kind = ENTRY_MODULE;
}

/* etcd runs before the launch, and no node listens for it; a c10d endpoint elsewhere does not run before it. */
static void test_endpoints(void **state)
{
    (void)state;
    struct sim_job *job = begin(2);
    set_endpoint(job, "etcd", "[fd00::7]:2379");
    net.deaf = 1;
    assert_int_equal(sim_job_run(job, 0), 3);
    assert_string_equal(job->result.error.text,
                        "node \"n1\" cannot reach port 2379 at fd00::7, where the workers are to "
                        "meet: No route to host");
    assert_int_equal(net.asked[WIRE_PROBE_LISTEN] + net.asked[WIRE_PROBE_END], 0);
    assert_int_equal(net.port, 2379);
    net.deaf = UINT32_MAX;
    assert_int_equal(sim_job_run(job, 0), 0);
    sim_job_destroy(job);
    job = begin(2);
    set_endpoint(job, "c10d", ":29400");
    net.taken = 1;
    assert_int_equal(sim_job_run(job, 0), 3);
    assert_int_equal(net.port, 29400);
    assert_non_null(strstr(job->result.error.hint, "leave rdzv_endpoint out"));
    set_endpoint(job, "c10d", "elsewhere:29400");
    memset(net.asked, 0, sizeof net.asked);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(net.asked[WIRE_PROBE_LISTEN] + net.asked[WIRE_PROBE_CONNECT], 0);
    sim_job_destroy(job);
}

static void test_clocks(void **state)
{
    (void)state;
    struct sim_job *job = begin(3);
    net.clocks[2] = 7000;
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_said(job, "is 7.0 s behind that of node \"n2\"; set them: timedatectl set-ntp true");
    sim_job_destroy(job);
    job = begin(3); /* a given bound must hold */
    job->spec.distributed.preflight.clocks_ms = 500;
    net.clocks[2] = 2000;
    assert_int_equal(sim_job_run(job, 0), 3);
    assert_non_null(strstr(job->result.error.text, "is 2.0 s behind that of node \"n2\""));
    assert_int_equal(sim_started(job->net, 0, "launch"), 0);
    job->spec.distributed.preflight.no_clocks = true;
    assert_int_equal(sim_job_run(job, 0), 0);
    sim_job_destroy(job);
}

static void test_disks(void **state)
{
    (void)state;
    struct sim_job *job = begin(3);
    net.disks[0] = 5 << 20;
    net.disks[2] = 3 << 20;
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_said(job, "only 0.00 GB are free at /home/me on nodes \"n0\" and \"n2\"; make room there");
    sim_job_destroy(job);
    job = begin(1);
    job->spec.distributed.preflight.disk_bytes = UINT64_C(1) << 40;
    assert_int_equal(sim_job_run(job, 0), 3);
    assert_non_null(strstr(job->result.error.text, "only 1.07 GB are free"));
    sim_job_destroy(job);
}

static void test_gpus(void **state)
{
    (void)state;
    static const char old[] =
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023";
    static const char new[] = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build";
    struct sim_job *job = begin(4);
    net.gpus[0] = net.gpus[1] = net.gpus[3] = 4;
    net.gpus[2] = 2;
    net.drivers[0] = net.drivers[1] = net.drivers[2] = old;
    net.drivers[3] = new;
    job->spec.distributed.nproc = (struct spec_nproc){.kind = NPROC_AUTO};
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_said(job, "the number of GPUs is 4 on node \"n0\" and 2 on node \"n2\"");
    assert_said(job, "the GPU driver is 535.129.03 on node \"n0\" and 570.86.15 on node \"n3\"; install one");
    sim_job_destroy(job);
    job = begin(2);
    net.gpus[0] = 2;
    job->spec.distributed.nproc = (struct spec_nproc){.kind = NPROC_COUNT, .count = 3};
    job->spec.distributed.devices = (struct spec_devices){.list = "0,1", .count = 2, .highest = 2};
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_said(job, "3 workers are to start where they see 2 GPUs: node \"n0\"");
    assert_said(job, "devices names GPUs, and no NVIDIA GPU was found on node \"n1\"");
    sim_job_destroy(job);
}

/* A missing device, or gpu on a node without one: found before any set-up. */
static void test_too_few_gpus(void **state)
{
    (void)state;
    struct sim_job *job = begin(2);
    sim_job_step(job, "deps");
    net.gpus[0] = 8;
    net.gpus[1] = 2;
    job->spec.distributed.devices = (struct spec_devices){.list = "0,7", .count = 2, .highest = 8};
    assert_int_equal(sim_job_run(job, 0), 1);
    assert_non_null(strstr(job->result.error.text, "\"n1\": devices has GPU 7, but there are 2"));
    assert_int_equal(sim_started(job->net, 0, "launch"), 0);
    sim_job_destroy(job);
}

static void test_pythons(void **state)
{
    (void)state;
    struct sim_job *job = begin(3);
    job->spec.entrypoint.kind = ENTRY_MODULE;
    net.pythons[0] = net.pythons[1] = "3.11";
    net.pythons[2] = "3.12";
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_said(job, "Python is 3.11 on node \"n0\" and 3.12 on node \"n2\"");
    job->spec.distributed.preflight.no_versions = true;
    sim_job_quiet(job);
    assert_int_equal(sim_job_run(job, RUN_FLAG_AGAIN), 0);
    assert_false(sim_job_said(job, "Python is"));
    sim_job_destroy(job);
}

/* A single node has no other to reach; but a port that the user chose may be taken. */
static void test_one_node(void **state)
{
    (void)state;
    struct sim_job *job = begin(1);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(net.asked[WIRE_PROBE_LISTEN], 0);
    sim_job_destroy(job);
    job = begin(1);
    job->spec.distributed.master_port = 29500;
    net.taken = 1;
    assert_int_equal(sim_job_run(job, 0), 3);
    assert_non_null(strstr(job->result.error.text, "port 29500 on node \"n0\""));
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(net.asked[WIRE_PROBE_CONNECT], 0);
    sim_job_destroy(job);
}

/* doctor: all faults of every node; it starts and records nothing. */
static void test_looking_only(void **state)
{
    (void)state;
    struct sim_job *job = begin(4);
    job->preflight = true;
    job->spec.distributed.nproc = (struct spec_nproc){.kind = NPROC_GPU};
    net.gpus[0] = 1;
    net.clocks[3] = 9000;
    net.deaf = 2;
    play.refusals[3] = 1;
    sim_job_step(job, "deps");
    assert_int_equal(sim_job_start(job, RUN_LOOK, 0), 0);
    sim_job_wait(job);
    size_t count;
    const struct run_finding *found = run_findings(job->run, &count);
    assert_int_equal(count, 4); /* n3 is missing: its clock is unknown */
    assert_string_equal(found[0].what, "ports");
    assert_int_equal(found[0].node_count, 1);
    assert_int_equal(found[0].nodes[0], 2);
    assert_int_equal(found[1].nodes[0], 1);
    assert_non_null(strstr(found[2].text, "\"n2\": nproc_per_node is gpu, and no GPU was found there"));
    assert_string_equal(found[3].text, "the number of GPUs is 1 on node \"n0\" and 0 on nodes \"n1\" and \"n2\"");
    sim_job_close(job);
    assert_int_equal(sim_frames(job->net, WIRE_RUN), 0);
    sim_job_destroy(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_are_reached),
        cmocka_unit_test(test_what_has_no_nodes_to_reach),
        cmocka_unit_test(test_a_node_that_is_cut_off),
        cmocka_unit_test(test_a_port_that_is_taken),
        cmocka_unit_test(test_not_before_a_restart),
        cmocka_unit_test(test_a_connection_that_is_lost_meanwhile),
        cmocka_unit_test(test_again_where_a_node_restarted),
        cmocka_unit_test(test_a_restarted_node_that_is_cut_off),
        cmocka_unit_test(test_some_are_enough),
        cmocka_unit_test(test_worlds_of_roles),
        cmocka_unit_test(test_endpoints),
        cmocka_unit_test(test_clocks),
        cmocka_unit_test(test_disks),
        cmocka_unit_test(test_gpus),
        cmocka_unit_test(test_too_few_gpus),
        cmocka_unit_test(test_pythons),
        cmocka_unit_test(test_one_node),
        cmocka_unit_test(test_looking_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
