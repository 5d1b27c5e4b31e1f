/* run: a node that is told to end, but not by rhrun: the consequences for the launch, with rules and without; and a
 * node that goes away before the launch starts again. */
#include "sim_play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PROGRAM(...) ((struct sim_program){__VA_ARGS__})
#define ENDLESS PROGRAM(.endless = true)
#define RULE(...) ((struct spec_rule){.role = SPEC_NO_ROLE, .backoff_factor = 1, __VA_ARGS__})
#define TIMES(n) .has_times = true, .times = (n)
#define PREEMPTED(...) RULE(.id = "p", .subject = RULE_PREEMPTED, __VA_ARGS__)
#define LOST(...) RULE(.id = "l", .subject = RULE_NODE_LOST, __VA_ARGS__)
#define WORDS "preempted: told to end by signal 15 (Terminated), not by rhrun"

static struct sim_play play;
static uint64_t under_way_ns; /* how long n0's answer to HELLO appears to have taken */

static void add_rule(struct sim_job *job, struct spec_rule rule)
{
    size_t n = job->spec.rule_count++;
    if (!job->spec.rules)
        job->spec.rules = arena_array(job->arena, 8, sizeof rule);
    rule.text = arena_printf(job->arena, "rule %zu", n + 1);
    job->spec.rules[n] = rule;
}

static void late_answer(void *arg, uint32_t node, struct wire_facts *facts)
{
    (void)arg;
    if (node == 0)
        facts->mono_ns -= under_way_ns;
}

/* Two nodes of two workers each, which run until they are ended; the second generation ends well by itself. */
static struct sim_job *begin(uint32_t max_restarts)
{
    struct sim_script script = play_script(&play);
    script.facts = late_answer;
    struct sim_job *job = sim_job_create(2, &script);
    job->spec.distributed.nproc.count = 2;
    job->spec.distributed.max_restarts = max_restarts;
    job->reconnect_ms = 30;
    play_does(&play, ANY, "launch", 1, ENDLESS);
    return job;
}

static bool all_live(struct sim_job *job)
{
    return sim_live(job->net) == 2;
}

static void start(struct sim_job *job)
{
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    assert_true(sim_job_turns(job, all_live));
}

static uint32_t launches(const struct sim_job *job)
{
    assert_int_equal(sim_started(job->net, 0, "launch"), sim_started(job->net, 1, "launch"));
    return sim_started(job->net, 0, "launch");
}

/* ---- while all are there ---- */

/* max_restarts is for failing workers: a machine that shuts down would use them up at once. */
static void test_without_a_rule(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(5);
    start(job);
    sim_preempt(job->net, 1, "launch", true);
    assert_int_equal(finish(job), 3);
    assert_int_equal(job->result.status, RUN_FAILED);
    assert_error(job, "launch on node \"n1\": " WORDS);
    assert_int_equal(launches(job), 1);
    assert_int_equal(sim_live(job->net), 0);
    assert_int_equal(sim_job_run(job, 0), 0); /* all of it again */
    assert_int_equal(launches(job), 2);
    sim_job_destroy(job);
}

static void test_a_rule_about_workers_is_not_asked(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(5);
    add_rule(job, RULE(.id = "any", .action = RULE_RESTART));
    add_rule(job, RULE(.id = "all", .action = RULE_IGNORE));
    start(job);
    sim_preempt(job->net, 1, "launch", true);
    assert_int_equal(finish(job), 3);
    assert_error(job, WORDS);
    sim_job_destroy(job);
}

static void test_restart(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(0);
    add_rule(job, PREEMPTED(.action = RULE_RESTART, TIMES(1)));
    start(job);
    sim_preempt(job->net, 1, "launch", true);
    assert_int_equal(finish(job), 0);
    assert_int_equal(launches(job), 2);
    assert_said(job, "rule generation 1: node \"n1\": " WORDS);
    assert_said(job, "restart generation 2: node \"n1\": " WORDS " (rule 1: restart)");
    assert_int_equal(sim_job_events(job, EVENT_RULE), 1);
    sim_job_destroy(job);
}

/* Both nodes at once, as when a whole reservation ends: one verdict, one of the budget. */
static void test_both_nodes(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(0);
    add_rule(job, PREEMPTED(.action = RULE_RESTART, TIMES(1)));
    start(job);
    sim_preempt(job->net, 1, "launch", true);
    sim_preempt(job->net, 0, "launch", true);
    assert_int_equal(finish(job), 0);
    assert_int_equal(launches(job), 2);
    assert_int_equal(sim_job_events(job, EVENT_RULE), 1);
    sim_job_destroy(job);
}

static void test_a_spent_budget(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(5);
    add_rule(job, PREEMPTED(.action = RULE_RESTART, TIMES(1)));
    play_does(&play, ANY, "launch", 2, ENDLESS);
    start(job);
    sim_preempt(job->net, 1, "launch", true);
    assert_true(sim_job_turns(job, all_live));
    while (sim_started(job->net, 1, "launch") < 2)
        loop_turn(job->loop, true);
    sim_preempt(job->net, 0, "launch", true);
    assert_int_equal(finish(job), 3);
    assert_error(job, "after 1 restart: launch on node \"n0\": " WORDS);
    sim_job_destroy(job);
}

static void test_fail(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(5);
    add_rule(job, PREEMPTED(.action = RULE_FAIL));
    start(job);
    sim_preempt(job->net, 0, "launch", true);
    assert_int_equal(finish(job), 3);
    assert_error(job, WORDS " (rule 1: fail)");
    assert_int_equal(sim_live(job->net), 0);
    sim_job_destroy(job);
}

/* A worker had failed before: the rules are asked about that failure. */
static void check_after_a_failure(void)
{
    struct sim_job *job = begin(0);
    static uint32_t seven[] = {7};
    add_rule(job, PREEMPTED(.action = RULE_FAIL));
    add_rule(job, RULE(.id = "w", .statuses = seven, .status_count = 1, .action = RULE_RESTART, TIMES(1)));
    play.rule_count = 0;
    play_does(&play, 0, "launch", 1, PROGRAM(.endless = true, .worker_status = 7));
    play_does(&play, 1, "launch", 1, PROGRAM(.endless = true, .ignores_stop = true));
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    while (!sim_started(job->net, 1, "launch") || sim_frames(job->net, WIRE_SIGNAL) == 0)
        loop_turn(job->loop, true);
    sim_preempt(job->net, 1, "launch", true);
    assert_int_equal(finish(job), 0);
    assert_int_equal(launches(job), 2);
    assert_said(job, "exit status 7 (rule 2: restart)");
    sim_job_destroy(job);
}

static void test_after_a_failure(void **unused)
{
    (void)unused;
    check_after_a_failure();
}

/* By its clock, as this machine takes it, the worker failed ten seconds from now. */
static void test_after_a_failure_of_a_slow_node(void **unused)
{
    (void)unused;
    under_way_ns = UINT64_C(10000000000);
    check_after_a_failure();
    under_way_ns = 0;
}

static void test_in_set_up(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(5);
    add_rule(job, PREEMPTED(.action = RULE_RESTART, TIMES(1)));
    sim_job_step(job, "deps");
    play_does(&play, 0, "setup:deps", 1, ENDLESS);
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    while (!sim_started(job->net, 0, "setup:deps"))
        loop_turn(job->loop, true);
    sim_preempt(job->net, 0, "setup:deps", true);
    assert_int_equal(finish(job), 3);
    assert_error(job, "node \"n0\": step \"deps\": " WORDS);
    sim_job_destroy(job);
}

/* ---- the machine goes down with it ---- */

static bool first_ended(struct sim_job *job)
{
    return sim_job_said(job, "finished launch@0");
}

/* The notice came, then the connection was lost: the record is found after the next boot. */
static void test_told_and_gone(void **unused)
{
    (void)unused;
    for (int word = 0; word < 2; word++) { /* word 0: not even the notice came */
        struct sim_job *job = begin(0);
        job->reconnect_ms = 60000;
        add_rule(job, PREEMPTED(.action = RULE_RESTART, TIMES(1)));
        start(job);
        if (word)
            sim_preempt(job->net, 1, "launch", false);
        sim_away(job->net, 1, true);
        sim_preempt(job->net, 1, "launch", true);
        sim_reboot(job->net, 1, 0);
        if (word)
            assert_true(sim_job_turns(job, first_ended)); /* it is stopped before the other is back */
        sim_away(job->net, 1, false);
        assert_int_equal(finish(job), 0);
        assert_int_equal(launches(job), 2);
        assert_said(job, "restart generation 2: node \"n1\": " WORDS " (rule 1: restart)");
        sim_job_destroy(job);
    }
}

/* Nothing is left of the record: the notice still gives the cause. */
static void test_told_and_forgotten(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(3);
    job->reconnect_ms = 60000;
    start(job);
    sim_preempt(job->net, 1, "launch", false);
    assert_true(sim_job_turns(job, first_ended));
    sim_away(job->net, 1, true);
    sim_reboot(job->net, 1, UINT64_MAX);
    sim_away(job->net, 1, false);
    assert_int_equal(finish(job), 3);
    assert_error(job, WORDS);
    sim_job_destroy(job);
}

/* Away for too long, and no rule is about that: like any lost node. */
static void test_told_and_lost(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(0);
    add_rule(job, PREEMPTED(.action = RULE_RESTART, TIMES(1)));
    start(job);
    sim_preempt(job->net, 1, "launch", false);
    sim_away(job->net, 1, true);
    assert_int_equal(finish(job), 3);
    assert_int_equal(job->result.status, RUN_OPEN);
    sim_preempt(job->net, 1, "launch", true);
    sim_reboot(job->net, 1, 0);
    sim_away(job->net, 1, false);
    assert_int_equal(sim_job_run(job, 0), 0); /* the same command continues */
    assert_int_equal(launches(job), 2);
    assert_int_equal(sim_job_events(job, EVENT_RULE), 1);
    sim_job_destroy(job);
}

/* ---- lost before the next generation ---- */

static bool in_pause(struct sim_job *job)
{
    return sim_job_events(job, EVENT_RESTART) == 1;
}

static struct sim_job *lose_in_the_pause(void)
{
    struct sim_job *job = begin(0);
    add_rule(job, PREEMPTED(.action = RULE_RESTART, TIMES(1), .backoff_ms = 200, .backoff_max_ms = 200));
    return job;
}

static void preempt_and_lose(struct sim_job *job)
{
    start(job);
    sim_preempt(job->net, 1, "launch", true);
    assert_true(sim_job_turns(job, in_pause));
    sim_away(job->net, 1, true);
}

static bool said_lost(struct sim_job *job)
{
    return sim_job_said(job, "start again once the node is back");
}

static void test_lost_in_the_pause(void **unused)
{
    (void)unused;
    struct sim_job *job = lose_in_the_pause();
    add_rule(job, LOST(.action = RULE_RESTART, TIMES(1)));
    preempt_and_lose(job);
    assert_true(sim_job_turns(job, said_lost));
    sim_away(job->net, 1, false);
    assert_int_equal(finish(job), 0);
    assert_int_equal(launches(job), 2);
    assert_int_equal(sim_job_events(job, EVENT_RULE), 2);
    assert_int_equal(sim_job_events(job, EVENT_RESTART), 1); /* a restart was already decided */
    sim_job_destroy(job);
}

static void test_lost_in_the_pause_for_good(void **unused)
{
    (void)unused;
    for (int rule = 0; rule < 2; rule++) {
        struct sim_job *job = lose_in_the_pause();
        if (rule)
            add_rule(job, LOST(.action = RULE_FAIL));
        preempt_and_lose(job);
        assert_int_equal(finish(job), 3);
        if (rule)
            assert_error(job, "node \"n1\" is lost (rule 2: fail)");
        sim_away(job->net, 1, false);
        assert_int_equal(sim_job_run(job, 0), 0);
        assert_int_equal(launches(job), 2);
        sim_job_destroy(job);
    }
}

/* ---- the controller dies ---- */

static void cut_at_verdict(struct sim_job *job, const struct event *e)
{
    if (e->type == *(const enum event_type *)job->arg)
        sim_cut(job->net);
}

static bool is_cut(struct sim_job *job)
{
    return sim_is_cut(job->net);
}

static void test_killed_about_it(void **unused)
{
    (void)unused;
    static enum event_type at[] = {EVENT_FINISHED, EVENT_RULE, EVENT_RESTART};
    for (size_t i = 0; i < ARRAY_LEN(at); i++)
        for (int fails = 0; fails < 2; fails++) {
            struct sim_job *job = begin(0);
            if (fails && at[i] == EVENT_RESTART) {
                sim_job_destroy(job);
                continue;
            }
            add_rule(job, PREEMPTED(.action = fails ? RULE_FAIL : RULE_RESTART, .has_times = !fails, .times = 1));
            job->on_event = cut_at_verdict;
            job->arg = &at[i];
            start(job);
            sim_preempt(job->net, 1, "launch", true);
            assert_true(sim_job_turns(job, is_cut));
            sim_job_kill(job, 0);
            job->on_event = NULL;
            assert_int_equal(sim_job_run(job, 0), fails ? 3 : 0);
            assert_int_equal(launches(job), fails ? 1 : 2);
            assert_int_equal(sim_job_events(job, EVENT_RULE), 1);
            if (fails)
                assert_error(job, WORDS);
            sim_job_destroy(job);
        }
}

/* ---- torchrun on MIN:MAX nodes ---- */

static struct sim_job *begin_elastic(void)
{
    struct sim_job *job = begin(0);
    job->spec.distributed.nproc.count = 1;
    job->spec.distributed.min_nodes = 1;
    return job;
}

static bool second_ended(struct sim_job *job)
{
    return sim_job_said(job, "finished launch@1");
}

static void test_one_that_can_be_spared(void **unused)
{
    (void)unused;
    struct sim_job *job = begin_elastic();
    start(job);
    sim_preempt(job->net, 1, "launch", true);
    assert_true(sim_job_turns(job, second_ended));
    sim_end(job->net, 0, "launch", 0);
    assert_int_equal(finish(job), 0);
    sim_job_destroy(job);
}

static void test_a_rule_for_one_that_could_be_spared(void **unused)
{
    (void)unused;
    struct sim_job *job = begin_elastic();
    add_rule(job, PREEMPTED(.action = RULE_RESTART, TIMES(1)));
    start(job);
    sim_preempt(job->net, 1, "launch", true);
    assert_int_equal(finish(job), 0);
    assert_int_equal(launches(job), 2);
    assert_said(job, "(rule 1: restart)");
    sim_job_destroy(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_a_rule),
        cmocka_unit_test(test_a_rule_about_workers_is_not_asked),
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_both_nodes),
        cmocka_unit_test(test_a_spent_budget),
        cmocka_unit_test(test_fail),
        cmocka_unit_test(test_after_a_failure),
        cmocka_unit_test(test_after_a_failure_of_a_slow_node),
        cmocka_unit_test(test_in_set_up),
        cmocka_unit_test(test_told_and_gone),
        cmocka_unit_test(test_told_and_forgotten),
        cmocka_unit_test(test_told_and_lost),
        cmocka_unit_test(test_lost_in_the_pause),
        cmocka_unit_test(test_lost_in_the_pause_for_good),
        cmocka_unit_test(test_killed_about_it),
        cmocka_unit_test(test_one_that_can_be_spared),
        cmocka_unit_test(test_a_rule_for_one_that_could_be_spared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
