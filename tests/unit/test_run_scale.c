/*
 * run at scale: a plan over many simulated nodes is done, verified, and resumed after a kill. It prints the time and
 * memory of each. The number of nodes: RHRUN_SCALE_NODES (10,000 takes some seconds).
 */
#include "sim_job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

static uint32_t nodes = 1000;

static void report(const char *what, uint64_t since_ns)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    print_message("%s of %u nodes: %.3f s, %.2f s of CPU so far, peak memory %ld MiB\n", what, nodes,
                  (double)(mono_ns() - since_ns) / 1e9,
                  (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
                      (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6,
                  use.ru_maxrss / 1024);
}

static bool half_started(struct sim_job *job)
{
    size_t count;
    sim_starts(job->net, &count);
    return count >= 3 * (size_t)nodes - nodes / 2; /* two steps of set-up everywhere, half of the launch */
}

static void test_many_nodes(void **unused)
{
    (void)unused;
    struct sim_job *job = sim_job_create(nodes, NULL);
    sim_job_step(job, "deps");
    sim_job_step(job, "data");
    uint64_t at = mono_ns();
    assert_int_equal(sim_job_run(job, 0), 0);
    report("a job", at);
    size_t count;
    sim_starts(job->net, &count);
    assert_int_equal(count, 3 * (size_t)nodes);
    at = mono_ns();
    assert_int_equal(sim_job_mode(job, RUN_VERIFY, 0), 0);
    assert_int_equal(job->result.verified_nodes, nodes);
    report("verifying", at);
    sim_job_destroy(job);
}

static void test_many_nodes_resumed(void **unused)
{
    (void)unused;
    struct sim_job *job = sim_job_create(nodes, NULL);
    sim_job_step(job, "deps");
    sim_job_step(job, "data");
    uint64_t at = mono_ns();
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    assert_true(sim_job_turns(job, half_started));
    sim_job_kill(job, 0);
    report("half of a job", at);
    at = mono_ns();
    assert_int_equal(sim_job_run(job, 0), 0);
    report("the other half", at);
    size_t count;
    sim_starts(job->net, &count);
    assert_int_equal(count, 3 * (size_t)nodes);
    sim_job_destroy(job);
}

/* All fail at once: stopping, recording and printing is still linear. */
static void all_fail(void *arg, uint32_t node, const struct wire_run *run, uint32_t nth, struct sim_program *ret)
{
    (void)arg;
    (void)node;
    (void)nth;
    ret->status = strcmp(run->slot, "setup:deps") == 0 ? 3 : 0;
}

static void test_many_failures(void **unused)
{
    (void)unused;
    const struct sim_script script = {.program = all_fail};
    struct sim_job *job = sim_job_create(nodes, &script);
    sim_job_step(job, "deps");
    uint64_t at = mono_ns();
    assert_int_equal(sim_job_run(job, 0), 1);
    report("a failing job", at);
    sim_job_destroy(job);
}

/* Each item holds back the later ones of the other nodes until it is done on all. */
static void test_many_held_back(void **unused)
{
    (void)unused;
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    struct sim_job *job = sim_job_create(nodes, NULL);
    uint32_t *all = arena_array(job->arena, nodes, sizeof *all);
    for (uint32_t n = 0; n < nodes; n++)
        all[n] = n;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct spec_step *s = sim_job_step(job, names[i]);
        s->on = ON_LIST;
        s->on_nodes = all;
        s->on_count = nodes;
    }
    uint64_t at = mono_ns();
    assert_int_equal(sim_job_run(job, 0), 0);
    report("items that wait for all", at);
    size_t count;
    sim_starts(job->net, &count);
    assert_int_equal(count, 7 * (size_t)nodes);
    sim_job_destroy(job);
}

int main(void)
{
    const char *text = getenv("RHRUN_SCALE_NODES");
    if (text && !parse_u32(text, &nodes))
        return 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_nodes),
        cmocka_unit_test(test_many_nodes_resumed),
        cmocka_unit_test(test_many_failures),
        cmocka_unit_test(test_many_held_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
