/* run: failure rules and metrics on simulated nodes: the effects of a line, an end, a lost node; budgets, backoffs and
 * verdicts after the controller's death. */
#include "sim_play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PROGRAM(...) ((struct sim_program){__VA_ARGS__})
#define ENDLESS PROGRAM(.endless = true)
#define ANY_WORKER .role = SPEC_NO_ROLE, .streams = RULE_STDOUT | RULE_STDERR, .backoff_factor = 1
#define LINE(what) .pattern = {.text = (what)}
#define TIMES(n) .has_times = true, .times = (n)

static struct sim_play play;
static uint32_t three[] = {3};

/* Two nodes of two workers each. */
static struct sim_job *begin(const struct spec_rule *rules, size_t count, uint32_t max_restarts)
{
    const struct sim_script script = play_script(&play);
    struct sim_job *job = sim_job_create(2, &script);
    job->spec.distributed.nproc.count = 2;
    job->spec.distributed.max_restarts = max_restarts;
    job->spec.rules = arena_array(job->arena, count + 1, sizeof *rules);
    if (count > 0)
        memcpy(job->spec.rules, rules, count * sizeof *rules);
    job->spec.rule_count = count;
    for (size_t i = 0; i < count; i++)
        job->spec.rules[i].text = arena_printf(job->arena, "rule %zu", i + 1);
    return job;
}

static uint32_t launches(const struct sim_job *job)
{
    assert_int_equal(sim_started(job->net, 0, "launch"), sim_started(job->net, 1, "launch"));
    return sim_started(job->net, 0, "launch");
}

static const struct spec_rule restart_on_line[] = {
    {.id = "a", ANY_WORKER, LINE("CUDA error"), .action = RULE_RESTART, TIMES(1)}};

/* ---- lines ---- */

static void test_a_line_restarts_while_all_run(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(restart_on_line, 1, 0);
    play_does(&play, ANY, "launch", 1, ENDLESS);
    play_does(&play, 1, "launch", 1, PROGRAM(.endless = true, .output = "ok\nCUDA error: 7\n"));
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(launches(job), 2);
    assert_said(job, "rule generation 1: rank 2 on node \"n1\" printed \"CUDA error: 7\"");
    assert_said(job, "restart generation 2: rank 2 on node \"n1\" printed \"CUDA error: 7\" (rule 1: restart)");
    assert_int_equal(sim_job_events(job, EVENT_RULE), 1);
    sim_job_destroy(job);
}

static void test_a_spent_budget(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(restart_on_line, 1, 0);
    play_does(&play, ANY, "launch", 0, PROGRAM(.status = 7, .output = "CUDA error\n"));
    assert_int_equal(sim_job_run(job, 0), 1);
    assert_int_equal(launches(job), 2);
    assert_error(job, "after 1 restart");
    assert_error(job, "exit status 7");
    assert_int_equal(sim_job_events(job, EVENT_RULE), 1);
    sim_job_destroy(job);
}

static void test_a_line_fails_the_job(void **unused)
{
    (void)unused;
    const struct spec_rule rules[] = {{.id = "a", ANY_WORKER, LINE("harmless"), .action = RULE_IGNORE},
                                      {.id = "b", ANY_WORKER, LINE("bad config|harmless"), .action = RULE_FAIL}};
    struct sim_job *job = begin(rules, 2, 5);
    play_does(&play, 0, "launch", 0, PROGRAM(.endless = true, .output = "harmless\nbad config \033[31mx\033[0m\n"));
    play_does(&play, 1, "launch", 0, ENDLESS);
    assert_int_equal(sim_job_run(job, 0), 1);
    assert_int_equal(launches(job), 1);
    assert_error(job, "rank 0 on node \"n0\" printed \"bad config x\" (rule 2: fail)");
    assert_int_equal(sim_live(job->net), 0);
    sim_job_destroy(job);
}

/* Lines that a worker printed before it ended count for it, even if others fail afterwards; later lines of others do
 * not. */
static void test_the_first_cause_counts(void **unused)
{
    (void)unused;
    const struct spec_rule rules[] = {{.id = "b", ANY_WORKER, LINE("bad config"), .action = RULE_FAIL}};
    struct sim_job *job = begin(rules, 1, 1);
    play_does(&play, 0, "launch", 1, PROGRAM(.status = 1));
    play_does(&play, 1, "launch", 1, PROGRAM(.turns = 200, .output = "waiting\n"));
    play_does(&play, 0, "launch", 2, PROGRAM(.status = 1, .output = "bad config\n"));
    play_does(&play, 1, "launch", 2, ENDLESS);
    assert_int_equal(sim_job_run(job, 0), 1);
    assert_int_equal(launches(job), 2);
    assert_error(job, "printed \"bad config\"");
    sim_job_destroy(job);
}

static void test_ignored_lines_are_counted(void **unused)
{
    (void)unused;
    const struct spec_rule rules[] = {{.id = "a", ANY_WORKER, LINE("ECC"), .action = RULE_IGNORE, TIMES(3)},
                                      {.id = "b", ANY_WORKER, LINE("ECC"), .action = RULE_FAIL}};
    struct sim_job *job = begin(rules, 2, 0);
    play_does(&play, 0, "launch", 0, PROGRAM(.turns = 2, .output = "ECC\n")); /* three of them */
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(sim_job_events(job, EVENT_RULE), 3);
    play_does(&play, 0, "launch", 0, PROGRAM(.turns = 3, .output = "ECC\n"));
    assert_int_equal(sim_job_run(job, RUN_FLAG_AGAIN), 1);
    assert_error(job, "(rule 2: fail)");
    sim_job_destroy(job);
}

/* ---- ends ---- */

static void test_a_status_fails_the_job(void **unused)
{
    (void)unused;
    const struct spec_rule rules[] = {
        {.id = "a", ANY_WORKER, .statuses = three, .status_count = 1, .action = RULE_FAIL}};
    struct sim_job *job = begin(rules, 1, 5);
    play_does(&play, 0, "launch", 1, PROGRAM(.status = 4));
    play_does(&play, 0, "launch", 2, PROGRAM(.status = 3, .turns = 2));
    assert_int_equal(sim_job_run(job, 0), 1);
    assert_int_equal(launches(job), 2); /* the first by max_restarts */
    assert_error(job, "rank 0 on node \"n0\": exit status 3 (rule 1: fail)");
    sim_job_destroy(job);
}

static void test_an_end_after_a_line(void **unused)
{
    (void)unused;
    const struct spec_rule rules[] = {
        {.id = "a", ANY_WORKER, .statuses = three, .status_count = 1, LINE("quota"), .action = RULE_FAIL}};
    struct sim_job *job = begin(rules, 1, 1);
    play_does(&play, 0, "launch", 1, PROGRAM(.status = 3));
    play_does(&play, 1, "launch", 1, PROGRAM(.turns = 100, .output = "quota\n")); /* of another worker */
    play_does(&play, 0, "launch", 2, PROGRAM(.turns = 2, .status = 3, .output = "quota\n"));
    assert_int_equal(sim_job_run(job, 0), 1);
    assert_int_equal(launches(job), 2);
    assert_error(job, "exit status 3 (rule 1: fail)");
    sim_job_destroy(job);
}

static const struct spec_rule ignore_three[] = {
    {.id = "a", ANY_WORKER, .statuses = three, .status_count = 1, .action = RULE_IGNORE}};

static void test_an_ignored_worker(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(ignore_three, 1, 0);
    play_does(&play, ANY, "launch", 0, PROGRAM(.turns = 3, .worker_status = 3));
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(launches(job), 1);
    assert_said(job, "rule generation 1: rank 1 on node \"n0\": exit status 3");
    assert_said(job, "rule generation 1: rank 3 on node \"n1\": exit status 3");
    assert_said(job, "finished launch@0 ok");
    assert_true(sim_job_is_done(job));
    sim_job_destroy(job);
}

static bool is_cut(struct sim_job *job);

/* Only the nodes' ledgers are left, and they say it too; either controller may die, at any time. */
static void test_an_ignored_worker_and_a_lost_journal(void **unused)
{
    (void)unused;
    static const enum sim_fault faults[] = {SIM_DROP_BEFORE, SIM_DROP_AFTER, SIM_CUT_BEFORE, SIM_CUT_AFTER};
    for (size_t i = 0; i < 3 * ARRAY_LEN(faults); i++) {
        struct sim_job *job = begin(ignore_three, 1, 0);
        play_does(&play, ANY, "launch", 0, PROGRAM(.turns = 3, .worker_status = 3));
        if (i / ARRAY_LEN(faults) < 2) /* the last times without a fault */
            play_trap(&play, (uint32_t)(i / ARRAY_LEN(faults)), WIRE_JUDGE, NULL, 0, faults[i % ARRAY_LEN(faults)]);
        assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
        bool died = sim_job_turns(job, is_cut);
        if (died) {
            sim_job_kill(job, i);
            assert_int_equal(sim_job_run(job, 0), 0);
        } else {
            sim_job_close(job);
            assert_int_equal(job->result.exit_status, 0);
        }
        sim_job_forget(job);
        job->take_over = true;
        assert_int_equal(sim_job_run(job, 0), 0);
        assert_int_equal(launches(job), 1);
        sim_job_destroy(job);
    }
}

static void test_the_others_can_still_fail(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(ignore_three, 1, 0);
    play_does(&play, 0, "launch", 0, PROGRAM(.turns = 3, .worker_status = 3, .status = 5));
    play_does(&play, 1, "launch", 0, ENDLESS);
    assert_int_equal(sim_job_run(job, 0), 1);
    assert_error(job, "rank 0 on node \"n0\": exit status 5");
    sim_job_destroy(job);
}

/* Another status than those that the RUN spares: the node stops its workers by itself. */
static void test_a_worker_that_is_not_spared(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(ignore_three, 1, 0);
    play_does(&play, 0, "launch", 0, PROGRAM(.turns = 3, .worker_status = 4));
    play_does(&play, 1, "launch", 0, ENDLESS);
    assert_int_equal(sim_job_run(job, 0), 1);
    assert_error(job, "rank 1 on node \"n0\": exit status 4");
    assert_int_equal(sim_live(job->net), 0);
    sim_job_destroy(job);
}

/* One may fail so, not two: the controller stops those that the node spared. */
static void test_the_budget_of_ignore(void **unused)
{
    (void)unused;
    const struct spec_rule rules[] = {
        {.id = "a", ANY_WORKER, .statuses = three, .status_count = 1, .action = RULE_IGNORE, TIMES(1)}};
    struct sim_job *job = begin(rules, 1, 0);
    play_does(&play, ANY, "launch", 0, PROGRAM(.endless = true, .worker_status = 3));
    assert_int_equal(sim_job_run(job, 0), 1);
    assert_error(job, "exit status 3");
    assert_int_equal(sim_live(job->net), 0);
    assert_int_equal(sim_job_events(job, EVENT_RULE), 1);
    sim_job_destroy(job);
}

/* An unknown outcome is never a success. */
static void test_an_unknown_outcome_is_not_ignored(void **unused)
{
    (void)unused;
    const struct spec_rule rules[] = {{.id = "a", ANY_WORKER, .action = RULE_IGNORE}};
    struct sim_job *job = begin(rules, 1, 0);
    play_does(&play, 1, "launch", 0, PROGRAM(.turns = 2, .lost = true));
    assert_int_equal(sim_job_run(job, 0), 1);
    assert_error(job, "unknown");
    sim_job_destroy(job);
}

/* ---- the controller dies ---- */

static void cut_at_rule(struct sim_job *job, const struct event *e)
{
    if (e->type == EVENT_RULE)
        sim_cut(job->net);
}

static bool is_cut(struct sim_job *job)
{
    return sim_is_cut(job->net);
}

static void test_killed_once_the_rule_counted(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(restart_on_line, 1, 0);
    job->spec.rules[0].text = "rule 1 (a line of a worker)";
    play_does(&play, 0, "launch", 0, ENDLESS);
    play_does(&play, 1, "launch", 0, PROGRAM(.endless = true, .output = "CUDA error\n"));
    job->on_event = cut_at_rule;
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    assert_true(sim_job_turns(job, is_cut));
    sim_job_kill(job, 0);
    job->on_event = NULL;
    play.rule_count = 1; /* the second generation runs until it is stopped */
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    while (sim_started(job->net, 1, "launch") < 2)
        loop_turn(job->loop, true);
    assert_int_equal(sim_job_events(job, EVENT_RULE), 1);
    assert_int_equal(sim_job_events(job, EVENT_RESTART), 1);
    assert_said(job, "(rule 1 (a line of a worker): restart)"); /* in the words of the verdict's controller */
    sim_end(job->net, 0, "launch", 0);
    sim_end(job->net, 1, "launch", 0);
    assert_int_equal(finish(job), 0);
    sim_job_destroy(job);
}

static bool line_shown(struct sim_job *job)
{
    return job->lines.data && strstr(job->lines.data, "CUDA");
}

/* At every point after the line was seen: the budget of one is spent once, and not forgotten. */
static void test_killed_about_the_verdict(void **unused)
{
    (void)unused;
    for (uint64_t random = 0; random < 12; random++) {
        struct sim_job *job = begin(restart_on_line, 1, 0);
        play_does(&play, 0, "launch", 0, ENDLESS);
        play_does(&play, 1, "launch", 0, PROGRAM(.endless = true, .output = "CUDA error\n"));
        assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
        assert_true(sim_job_turns(job, line_shown));
        for (uint64_t i = 0; i < random && sim_started(job->net, 1, "launch") < 2; i++) /* then nothing happens */
            loop_turn(job->loop, true);
        sim_job_kill(job, random);
        assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
        while (sim_started(job->net, 1, "launch") < 2)
            loop_turn(job->loop, true);
        sim_job_kill(job, random);
        assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0); /* the line is there again, the budget is not */
        sim_end(job->net, 0, "launch", 0);
        sim_end(job->net, 1, "launch", 0);
        assert_int_equal(finish(job), 0);
        assert_int_equal(launches(job), 2);
        assert_int_equal(sim_job_events(job, EVENT_RESTART), 1);
        sim_job_destroy(job);
    }
}

static bool ignored(struct sim_job *job)
{
    return sim_job_said(job, "rule generation 1");
}

static void test_killed_after_an_ignored_worker(void **unused)
{
    (void)unused;
    const struct spec_rule rules[] = {
        {.id = "a", ANY_WORKER, .statuses = three, .status_count = 1, .action = RULE_IGNORE, TIMES(1)}};
    struct sim_job *job = begin(rules, 1, 0);
    play_does(&play, 0, "launch", 0, PROGRAM(.endless = true, .worker_status = 3));
    play_does(&play, 1, "launch", 0, ENDLESS);
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    assert_true(sim_job_turns(job, ignored));
    sim_job_kill(job, 0);
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    sim_turn(job->net);
    sim_end(job->net, 1, "launch", 0);
    sim_end(job->net, 0, "launch", 0);
    assert_int_equal(finish(job), 0);
    assert_int_equal(sim_job_events(job, EVENT_RULE), 1);
    sim_job_destroy(job);
}

static bool all_live(struct sim_job *job)
{
    return sim_live(job->net) == 2;
}

/* All have ended when the next controller comes: the log, or the journal, says which end was ignored. */
static void test_ended_without_a_controller(void **unused)
{
    (void)unused;
    for (uint64_t told = 0; told < 2; told++) {
        struct sim_job *job = begin(ignore_three, 1, 0);
        play_does(&play, ANY, "launch", 0, PROGRAM(.endless = true, .worker_status = 3));
        assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
        assert_true(sim_job_turns(job, told ? ignored : all_live));
        sim_job_kill(job, told);
        sim_end(job->net, 0, "launch", 0);
        sim_end(job->net, 1, "launch", 0);
        assert_int_equal(sim_job_run(job, 0), 0);
        assert_int_equal(launches(job), 1);
        assert_int_equal(sim_job_events(job, EVENT_RULE), 2);
        sim_job_destroy(job);
    }
}

static void cut_at_restart(struct sim_job *job, const struct event *e)
{
    if (e->type == EVENT_RESTART)
        sim_cut(job->net);
}

static void test_killed_within_a_backoff(void **unused)
{
    (void)unused;
    const struct spec_rule rules[] = {
        {.id = "a", ANY_WORKER, .action = RULE_RESTART, TIMES(2), .backoff_ms = 60, .backoff_max_ms = 60}};
    struct sim_job *job = begin(rules, 1, 0);
    play_does(&play, 0, "launch", 1, PROGRAM(.status = 1));
    play_does(&play, 1, "launch", 2, PROGRAM(.status = 1, .turns = 1));
    job->on_event = cut_at_restart;
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    assert_true(sim_job_turns(job, is_cut));
    sim_job_kill(job, 0);
    job->on_event = NULL;
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(launches(job), 3);
    assert_int_equal(sim_job_events(job, EVENT_RESTART), 2);
    assert_int_equal(sim_job_events(job, EVENT_RULE), 2);
    sim_job_destroy(job);
}

/* ---- lost nodes ---- */

static bool one_live(struct sim_job *job)
{
    return sim_live(job->net) == 1 && sim_job_said(job, "rule generation 1");
}

static void test_a_lost_node_is_waited_for(void **unused)
{
    (void)unused;
    const struct spec_rule rules[] = {
        {.id = "a", ANY_WORKER, .subject = RULE_NODE_LOST, .action = RULE_RESTART, TIMES(1)}};
    struct sim_job *job = begin(rules, 1, 0);
    job->reconnect_ms = 30;
    play_does(&play, ANY, "launch", 1, ENDLESS);
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    assert_true(sim_job_turns(job, all_live));
    sim_away(job->net, 1, true);
    assert_true(sim_job_turns(job, one_live)); /* the other node's workers do not wait for it */
    sim_away(job->net, 1, false);
    assert_int_equal(finish(job), 0);
    assert_int_equal(launches(job), 2);
    assert_said(job, "node \"n1\" is lost");
    sim_job_destroy(job);
}

static void test_a_lost_node_fails_the_job(void **unused)
{
    (void)unused;
    const struct spec_rule rules[] = {{.id = "a", ANY_WORKER, .subject = RULE_NODE_LOST, .action = RULE_FAIL}};
    struct sim_job *job = begin(rules, 1, 0);
    job->reconnect_ms = 30;
    play_does(&play, ANY, "launch", 1, ENDLESS);
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    assert_true(sim_job_turns(job, all_live));
    sim_away(job->net, 1, true);
    assert_int_equal(finish(job), 3); /* it is not waited for any longer */
    assert_int_equal(job->result.status, RUN_FAILED);
    assert_error(job, "node \"n1\" is lost (rule 1: fail)");
    assert_int_equal(sim_live(job->net), 1);
    sim_away(job->net, 1, false);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(launches(job), 2);
    sim_job_destroy(job);
}

/* A good end elsewhere is no part of another launch. */
static void test_a_half_of_a_failed_launch_is_not_kept(void **unused)
{
    (void)unused;
    const struct spec_rule rules[] = {{.id = "a", ANY_WORKER, .subject = RULE_NODE_LOST, .action = RULE_FAIL}};
    struct sim_job *job = begin(rules, 1, 0);
    job->reconnect_ms = 30;
    play_does(&play, ANY, "launch", 1, ENDLESS);
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    assert_true(sim_job_turns(job, all_live));
    sim_away(job->net, 1, true);
    sim_end(job->net, 0, "launch", 0);
    assert_int_equal(finish(job), 3);
    assert_said(job, "finished launch@0 ok");
    sim_away(job->net, 1, false);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(launches(job), 2);
    sim_job_destroy(job);
}

/* ---- metrics ---- */

static void test_metrics(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(NULL, 0, 0);
    struct spec_metric metrics[] = {{.name = "loss", .pattern = {.text = "loss=(?<value>\\S+)"}, .role = SPEC_NO_ROLE},
                                    {.name = "speed",
                                     .pattern = {.text = "speed=(?<value>\\S+)"},
                                     .role = SPEC_NO_ROLE,
                                     .has_rank = true,
                                     .rank = 2}};
    job->spec.metrics = metrics;
    job->spec.metric_count = 2;
    play_does(&play, ANY, "launch", 1, PROGRAM(.turns = 2, .output = "loss=0.25 speed=7\nloss=nothing\n"));
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    sim_job_wait(job);
    const struct state_run *run = state_run_latest(journal_state(job->journal), NULL);
    assert_int_equal(run->metric_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const struct state_metric *m = &run->metrics[i];
        bool speed = strcmp(m->name, "speed") == 0;
        assert_string_equal(m->value, speed ? "7" : "0.25");
        assert_true(speed ? m->rank == 2 : m->rank == 0 || m->rank == 2);
        assert_int_equal(m->count, 3);
    }
    sim_job_close(job);
    sim_job_destroy(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_line_restarts_while_all_run),
        cmocka_unit_test(test_a_spent_budget),
        cmocka_unit_test(test_a_line_fails_the_job),
        cmocka_unit_test(test_the_first_cause_counts),
        cmocka_unit_test(test_ignored_lines_are_counted),
        cmocka_unit_test(test_a_status_fails_the_job),
        cmocka_unit_test(test_an_end_after_a_line),
        cmocka_unit_test(test_an_ignored_worker),
        cmocka_unit_test(test_an_ignored_worker_and_a_lost_journal),
        cmocka_unit_test(test_the_others_can_still_fail),
        cmocka_unit_test(test_a_worker_that_is_not_spared),
        cmocka_unit_test(test_the_budget_of_ignore),
        cmocka_unit_test(test_an_unknown_outcome_is_not_ignored),
        cmocka_unit_test(test_killed_once_the_rule_counted),
        cmocka_unit_test(test_killed_about_the_verdict),
        cmocka_unit_test(test_killed_after_an_ignored_worker),
        cmocka_unit_test(test_ended_without_a_controller),
        cmocka_unit_test(test_killed_within_a_backoff),
        cmocka_unit_test(test_a_lost_node_is_waited_for),
        cmocka_unit_test(test_a_lost_node_fails_the_job),
        cmocka_unit_test(test_a_half_of_a_failed_launch_is_not_kept),
        cmocka_unit_test(test_metrics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
