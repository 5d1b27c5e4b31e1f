/* run: the launch on simulated nodes: generations and restarts, prolog and epilog, interrupts, detaching, lost nodes,
 * and a spec that is edited during the launch. */
#include "sim_play.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PROGRAM(...) ((struct sim_program){__VA_ARGS__})
#define ENDLESS PROGRAM(.endless = true)

static struct sim_play play;

static struct sim_job *begin(uint32_t nodes)
{
    const struct sim_script script = play_script(&play);
    struct sim_job *job = sim_job_create(nodes, &script);
    sim_job_step(job, "deps");
    return job;
}

static bool all_live(struct sim_job *job)
{
    return sim_live(job->net) == job->spec.nnodes;
}

/* A controller whose launch runs everywhere. */
static void start_until_live(struct sim_job *job)
{
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    assert_true(sim_job_turns(job, all_live));
}

static uint32_t launches(const struct sim_job *job, uint32_t node)
{
    return sim_started(job->net, node, "launch");
}

/* ---- failing workers ---- */

static void test_failing_worker_stops_the_others(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(3);
    play_does(&play, ANY, "launch", 0, ENDLESS);
    play_does(&play, 1, "launch", 0, PROGRAM(.status = 7, .turns = 3));
    assert_int_equal(sim_job_run(job, 0), 1);
    assert_error(job, "on node \"n1\": exit status 7");
    assert_string_equal(job->result.cause_node, "n1");
    assert_int_equal(job->result.cause_value, 7);
    assert_int_equal(sim_live(job->net), 0);
    assert_said(job, "finished launch@0 stopped");
    assert_said(job, "finished launch@2 stopped");
    sim_job_destroy(job);
}

static bool is_cut_off(struct sim_job *job)
{
    return sim_is_cut(job->net);
}

/* Only the results of two generations are left, each on one node: together they are no launch. */
static void test_parts_of_two_generations_are_no_launch(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    job->spec.distributed.max_restarts = 1;
    play_does(&play, 0, "launch", 1, PROGRAM(.status = 7, .turns = 3));
    play_does(&play, 0, "launch", 2, PROGRAM(.turns = 2));
    play_trap(&play, 1, WIRE_RUN, "launch", 1, SIM_CUT_BEFORE);
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    assert_true(sim_job_turns(job, is_cut_off));
    sim_job_kill(job, 0);
    sim_turn(job->net);
    sim_turn(job->net);
    assert_int_equal(sim_live(job->net), 0);
    sim_job_forget(job);
    job->take_over = true;
    sim_job_quiet(job);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_said(job, "reissue generation 3");
    assert_int_equal(launches(job, 0), 3);
    assert_int_equal(launches(job, 1), 2);
    sim_job_destroy(job);
}

/* torchrun on MIN:MAX nodes: the remaining ones continue. */
static void test_enough_nodes_are_left(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(3);
    job->spec.distributed.min_nodes = 2;
    play_does(&play, ANY, "launch", 0, PROGRAM(.turns = 9));
    play_does(&play, 1, "launch", 0, PROGRAM(.signal = 7, .turns = 3));
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_said(job, "finished launch@1 failed");
    assert_said(job, "finished launch@2 ok");
    assert_true(sim_job_is_done(job));
    sim_job_destroy(job);

    job = begin(3);
    job->spec.distributed.min_nodes = 2;
    play_does(&play, ANY, "launch", 0, PROGRAM(.status = 7, .turns = 3));
    play_does(&play, 2, "launch", 0, ENDLESS);
    assert_int_equal(sim_job_run(job, 0), 1);
    assert_said(job, "finished launch@2 stopped");
    sim_job_destroy(job);
}

static void test_restarts_are_counted(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    job->spec.distributed.max_restarts = 2;
    play_does(&play, 0, "launch", 1, PROGRAM(.status = 1));
    play_does(&play, 1, "launch", 2, PROGRAM(.lost = true, .turns = 1));
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(sim_job_events(job, EVENT_RESTART), 2);
    assert_said(job, "started launch@0 generation 3");
    assert_int_equal(launches(job, 0), 3);
    assert_int_equal(launches(job, 1), 3);
    assert_int_equal(sim_started(job->net, 0, "setup:deps"), 1);
    assert_int_equal(sim_frames(job->net, WIRE_PING), 3 + 2); /* a port for each generation; each clock once */
    sim_job_destroy(job);
}

static void test_max_restarts(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(1);
    job->spec.distributed.max_restarts = 2;
    play_does(&play, 0, "launch", 0, PROGRAM(.status = 9));
    assert_int_equal(sim_job_run(job, 0), 1);
    assert_error(job, "after 2 restarts");
    assert_error(job, "exit status 9");
    assert_int_equal(launches(job, 0), 3);
    sim_job_destroy(job);
}

/* Killed between the decision to restart and the next generation: the restart counts, and happens once. */
static void cut_at_restart(struct sim_job *job, const struct event *e)
{
    if (e->type == EVENT_RESTART)
        sim_cut(job->net);
}

static bool is_cut(struct sim_job *job)
{
    return sim_is_cut(job->net);
}

static void test_killed_between_generations(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(1);
    job->spec.distributed.max_restarts = 1;
    play_does(&play, 0, "launch", 1, PROGRAM(.status = 9));
    play_does(&play, 0, "launch", 2, PROGRAM(.status = 9));
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    job->on_event = cut_at_restart;
    assert_true(sim_job_turns(job, is_cut));
    sim_job_kill(job, 0);
    job->on_event = NULL;
    assert_int_equal(sim_job_run(job, 0), 1);
    assert_int_equal(launches(job, 0), 2);
    assert_error(job, "after 1 restart:");
    sim_job_destroy(job);
}

/* A success and a failure that become durable in one commit: in no order do they make the launch a success. */
static void test_ends_that_come_together(void **unused)
{
    (void)unused;
    for (uint32_t bad = 0; bad < 3; bad++) {
        struct sim_job *job = begin(3);
        play_does(&play, ANY, "launch", 1, ENDLESS);
        start_until_live(job);
        for (uint32_t n = 0; n < 3; n++)
            sim_end(job->net, n, "launch", n == bad ? 6 : 0);
        assert_int_equal(finish(job), 1);
        assert_int_equal(job->result.status, RUN_FAILED);
        assert_error(job, "exit status 6");
        sim_job_destroy(job);
    }
}

/* ---- nodes that are lost ---- */

static void test_node_lost_and_back(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    play_does(&play, ANY, "launch", 0, ENDLESS);
    start_until_live(job);
    sim_away(job->net, 1, true);
    sim_end(job->net, 1, "launch", 0); /* while nobody looks */
    sim_end(job->net, 0, "launch", 0);
    sim_away(job->net, 1, false);
    assert_int_equal(finish(job), 0);
    assert_int_equal(launches(job, 0), 1);
    assert_int_equal(launches(job, 1), 1);
    sim_job_destroy(job);
}

static void test_node_lost_for_good(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    job->spec.entrypoint.epilog.text = "after";
    job->reconnect_ms = 40;
    play_does(&play, ANY, "launch", 1, ENDLESS);
    start_until_live(job);
    sim_away(job->net, 1, true);
    assert_int_equal(finish(job), 3);
    assert_error(job, "host1");
    /* after every result of the run: once the node is back, the same command finishes the job */
    sim_away(job->net, 1, false);
    job->reconnect_ms = 20000;
    for (uint32_t n = 0; n < 2; n++)
        sim_end(job->net, n, "launch", 0);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(sim_live(job->net), 0);
    sim_job_destroy(job);
}

static void test_replaced_during_the_launch(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    job->spec.distributed.max_restarts = 1;
    play_does(&play, ANY, "launch", 1, ENDLESS);
    start_until_live(job);
    sim_reinstall(job->net, 1);
    assert_int_equal(finish(job), 0);
    assert_int_equal(sim_started(job->net, 0, "setup:deps"), 1);
    assert_int_equal(sim_started(job->net, 1, "setup:deps"), 2); /* before the second generation */
    assert_int_equal(launches(job, 0), 2);
    assert_int_equal(launches(job, 1), 2);
    size_t count;
    const struct sim_start *starts = sim_starts(job->net, &count);
    assert_string_equal(starts[count - 3].slot, "setup:deps");
    sim_job_destroy(job);
}

static void test_rebooted_without_restarts(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    play_does(&play, ANY, "launch", 1, ENDLESS);
    start_until_live(job);
    sim_reboot(job->net, 1, 0);
    assert_int_equal(finish(job), 1);
    assert_error(job, "node \"n1\": its outcome is unknown");
    assert_int_equal(sim_live(job->net), 0);
    sim_job_destroy(job);
}

/* ---- controllers that end ---- */

static uint32_t attached;
static bool is_attached(struct sim_job *job)
{
    return sim_frames(job->net, WIRE_ATTACH) > attached;
}

static void test_killed_during_the_launch(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    play_does(&play, ANY, "launch", 0, PROGRAM(.endless = true, .output = "hello\n"));
    start_until_live(job);
    sim_job_kill(job, 0);
    sim_end(job->net, 0, "launch", 0);
    attached = sim_frames(job->net, WIRE_ATTACH) + 1;
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    assert_true(sim_job_turns(job, is_attached));
    sim_end(job->net, 1, "launch", 0);
    assert_int_equal(finish(job), 0);
    assert_int_equal(launches(job, 0), 1);
    assert_int_equal(launches(job, 1), 1);
    assert_int_equal(sim_job_events(job, EVENT_RUN_OPENED), 1);
    sim_job_destroy(job);
}

static void test_detach(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(1);
    play_does(&play, 0, "launch", 0, ENDLESS);
    start_until_live(job);
    run_detach(job->run);
    assert_int_equal(finish(job), 0);
    assert_int_equal(job->result.status, RUN_OPEN);
    assert_int_equal(sim_live(job->net), 1);
    sim_end(job->net, 0, "launch", 0);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(launches(job, 0), 1);
    sim_job_destroy(job);
}

static void test_interrupted_once(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    job->spec.entrypoint.epilog.text = "after";
    play_does(&play, ANY, "launch", 1, ENDLESS);
    start_until_live(job);
    run_interrupt(job->run, SIGINT);
    assert_int_equal(finish(job), 130);
    assert_int_equal(job->result.status, RUN_CANCELLED);
    assert_int_equal(sim_live(job->net), 0);
    assert_int_equal(sim_started(job->net, 0, "epilog"), 1);
    assert_int_equal(sim_started(job->net, 1, "epilog"), 1);
    assert_int_equal(sim_job_run(job, 0), 0); /* a new run */
    assert_int_equal(launches(job, 0), 2);
    sim_job_destroy(job);
}

static bool signalled(struct sim_job *job)
{
    return sim_frames(job->net, WIRE_SIGNAL) >= 1;
}

static void test_interrupted_twice(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(1);
    job->spec.entrypoint.epilog.text = "after";
    play_does(&play, 0, "launch", 0, PROGRAM(.endless = true, .ignores_stop = true));
    start_until_live(job);
    run_interrupt(job->run, SIGTERM);
    assert_true(sim_job_turns(job, signalled));
    assert_int_equal(sim_live(job->net), 1);
    run_interrupt(job->run, SIGTERM);
    assert_int_equal(finish(job), 143);
    assert_int_equal(sim_live(job->net), 0);
    assert_int_equal(sim_started(job->net, 0, "epilog"), 0);
    sim_job_destroy(job);
}

/* Twice, with an unreachable node: it ends at once and names the node, and the next contact stops the programs
 * there. */
static void test_interrupted_with_a_node_away(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    play_does(&play, ANY, "launch", 1, ENDLESS);
    start_until_live(job);
    sim_away(job->net, 1, true);
    run_interrupt(job->run, SIGINT);
    assert_true(sim_job_turns(job, signalled));
    run_interrupt(job->run, SIGINT);
    assert_int_equal(finish(job), 130);
    assert_error(job, "not reached: n1");
    assert_int_equal(sim_live(job->net), 1);
    sim_away(job->net, 1, false);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_said(job, "stopping an attempt of \"launch\" that an earlier run left");
    assert_int_equal(launches(job, 1), 2);
    assert_int_equal(sim_live(job->net), 0);
    sim_job_destroy(job);
}

/* The epilog does not wait for the missing node. */
static void test_interrupted_with_an_epilog_and_a_node_lost(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    job->spec.entrypoint.epilog.text = "after";
    job->reconnect_ms = 40;
    play_does(&play, ANY, "launch", 1, ENDLESS);
    start_until_live(job);
    sim_away(job->net, 1, true);
    run_interrupt(job->run, SIGINT);
    assert_int_equal(finish(job), 130);
    assert_int_equal(sim_started(job->net, 0, "epilog"), 1);
    assert_int_equal(sim_started(job->net, 1, "epilog"), 0);
    sim_job_destroy(job);
}

static void test_cancel_from_another_process(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    play_does(&play, ANY, "launch", 1, ENDLESS);
    start_until_live(job);
    sim_job_kill(job, 0);
    assert_int_equal(sim_live(job->net), 2);
    sim_job_mode(job, RUN_CANCEL, 0);
    assert_int_equal(job->result.status, RUN_CANCELLED);
    assert_int_equal(sim_live(job->net), 0);
    sim_job_destroy(job);
}

/* ---- an edited spec ---- */

static void test_edited_while_live(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    play_does(&play, ANY, "launch", 1, ENDLESS);
    start_until_live(job);
    sim_job_kill(job, 0);
    job->spec.entrypoint.target.text = "train better";
    size_t before, after;
    sim_starts(job->net, &before);
    assert_int_equal(sim_job_run(job, 0), 4);
    assert_error(job, "live on node");
    sim_starts(job->net, &after);
    assert_int_equal(before, after);
    assert_int_equal(sim_live(job->net), 2);
    job->replace = true;
    assert_int_equal(sim_job_run(job, RUN_FLAG_REPLACE), 0);
    assert_int_equal(launches(job, 0), 2);
    assert_int_equal(sim_started(job->net, 0, "setup:deps"), 1);
    assert_int_equal(sim_live(job->net), 0);
    sim_job_destroy(job);
}

/* With the probe's nodes partly away nothing is opened and nothing crashes. */
static void test_edited_with_a_node_away(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(3);
    play_does(&play, ANY, "launch", 1, ENDLESS);
    start_until_live(job);
    sim_job_kill(job, 0);
    job->spec.entrypoint.target.text = "train better";
    sim_away(job->net, 0, true);
    int rc = sim_job_run(job, 0); /* the missing node, or the live one that answered first */
    assert_true(rc == 3 || rc == 4);
    assert_int_equal(sim_live(job->net), 3);
    assert_int_equal(sim_job_events(job, EVENT_RUN_OPENED), 1);
    sim_job_destroy(job);
}

/* ---- prolog, epilog, output ---- */

static const char *slot_at(const struct sim_job *job, size_t i)
{
    size_t count;
    const struct sim_start *s = sim_starts(job->net, &count);
    return i < count ? s[i].slot : "";
}

static void test_order(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(1);
    job->spec.entrypoint.prolog.text = "before";
    job->spec.entrypoint.epilog.text = "after";
    play_does(&play, 0, "prolog", 0, PROGRAM(.turns = 2));
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_string_equal(slot_at(job, 0), "setup:deps");
    assert_string_equal(slot_at(job, 1), "prolog");
    assert_string_equal(slot_at(job, 2), "launch");
    assert_string_equal(slot_at(job, 3), "epilog");
    sim_job_destroy(job);
}

static void test_epilog_after_a_failure(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    job->spec.entrypoint.prolog.text = "before";
    job->spec.entrypoint.epilog.text = "after";
    play_does(&play, 1, "launch", 0, PROGRAM(.status = 5));
    assert_int_equal(sim_job_run(job, 0), 1);
    assert_error(job, "exit status 5");
    assert_int_equal(sim_started(job->net, 0, "epilog"), 1);
    assert_int_equal(sim_started(job->net, 1, "epilog"), 1);
    assert_string_equal(slot_at(job, 6 + 1), "epilog"); /* 2 of each, the epilogs last */
    sim_job_destroy(job);
}

static void test_failing_prolog(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    job->spec.entrypoint.prolog.text = "before";
    play_does(&play, 0, "prolog", 0, ENDLESS);
    play_does(&play, 1, "prolog", 0, PROGRAM(.status = 5, .turns = 2));
    assert_int_equal(sim_job_run(job, 0), 1);
    assert_error(job, "prolog on node \"n1\": exit status 5");
    assert_int_equal(launches(job, 0), 0);
    assert_int_equal(sim_live(job->net), 0);
    sim_job_destroy(job);
}

/* Each line once, wherever a connection broke. */
static void test_output_once(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(1);
    play_does(&play, 0, "launch", 0, PROGRAM(.turns = 30, .output = "line\n"));
    play_trap(&play, 0, WIRE_ATTACH, NULL, 0, SIM_DROP_AFTER);
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    sim_job_turns(job, all_live);
    sim_drop(job->net, 0);
    sim_job_turns(job, is_attached);
    assert_int_equal(finish(job), 0);
    size_t lines = 0;
    for (const char *p = job->lines.data; p && (p = strstr(p, "line\n")); p++)
        lines++;
    assert_int_equal(lines, 31);
    sim_job_destroy(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failing_worker_stops_the_others),
        cmocka_unit_test(test_parts_of_two_generations_are_no_launch),
        cmocka_unit_test(test_enough_nodes_are_left),
        cmocka_unit_test(test_restarts_are_counted),
        cmocka_unit_test(test_max_restarts),
        cmocka_unit_test(test_killed_between_generations),
        cmocka_unit_test(test_node_lost_and_back),
        cmocka_unit_test(test_node_lost_for_good),
        cmocka_unit_test(test_interrupted_with_an_epilog_and_a_node_lost),
        cmocka_unit_test(test_ends_that_come_together),
        cmocka_unit_test(test_replaced_during_the_launch),
        cmocka_unit_test(test_rebooted_without_restarts),
        cmocka_unit_test(test_killed_during_the_launch),
        cmocka_unit_test(test_detach),
        cmocka_unit_test(test_interrupted_once),
        cmocka_unit_test(test_interrupted_twice),
        cmocka_unit_test(test_interrupted_with_a_node_away),
        cmocka_unit_test(test_cancel_from_another_process),
        cmocka_unit_test(test_edited_while_live),
        cmocka_unit_test(test_edited_with_a_node_away),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_epilog_after_a_failure),
        cmocka_unit_test(test_failing_prolog),
        cmocka_unit_test(test_output_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
