/* run: torchrun on MIN:MAX nodes: what the launch goes on without, and what it does not. */
#include "sim_play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define PROGRAM(...) ((struct sim_program){__VA_ARGS__})
#define ENDLESS PROGRAM(.endless = true)
enum { ALWAYS = 1000000 };

static struct sim_play play;
static uint32_t connects;

static int probe(void *arg, uint32_t node, uint8_t what, uint32_t port)
{
    (void)arg;
    (void)node;
    (void)port;
    connects += what == WIRE_PROBE_CONNECT;
    return 0;
}

/* Two of three are enough. */
static struct sim_job *begin(void)
{
    struct sim_script script = play_script(&play);
    script.probe = probe;
    connects = 0;
    struct sim_job *job = sim_job_create(3, &script);
    job->spec.distributed.min_nodes = 2;
    for (uint32_t i = 0; i < 3; i++)
        job->hosts[i].address = "10.0.0.7";
    sim_job_step(job, "deps");
    return job;
}

static void assert_said(const struct sim_job *job, const char *text)
{
    if (!sim_job_said(job, text))
        fail_msg("not said: %s; but:\n%s", text, job->said.data ? job->said.data : "");
}

static uint32_t launches(const struct sim_job *job, uint32_t node)
{
    return sim_started(job->net, node, "launch");
}

static bool two_live(struct sim_job *job)
{
    return sim_live(job->net) == 2;
}

static bool three_live(struct sim_job *job)
{
    return sim_live(job->net) == 3;
}

static bool is_left_out(struct sim_job *job)
{
    return sim_job_said(job, "it is left out: 2 of 2:3 nodes are left");
}

static void start_until(struct sim_job *job, bool (*until)(struct sim_job *job))
{
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    if (!sim_job_turns(job, until))
        fail_msg("it ended: %s\n%s", job->result.error.text, job->said.data ? job->said.data : "");
}

static int finish(struct sim_job *job)
{
    sim_job_wait(job);
    sim_job_close(job);
    return job->result.exit_status;
}

static void end_two(struct sim_job *job)
{
    sim_end(job->net, 0, "launch", 0);
    sim_end(job->net, 1, "launch", 0);
}

/* ---- before the launch ---- */

static void assert_two_ran(struct sim_job *job)
{
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_true(is_left_out(job));
    assert_int_equal(launches(job, 0), 1);
    assert_int_equal(launches(job, 1), 1);
    assert_int_equal(launches(job, 2), 0);
    assert_int_equal(connects, 2);
    assert_true(sim_job_is_done(job));
}

static void test_a_node_that_cannot_be_reached(void **unused)
{
    (void)unused;
    struct sim_job *job = begin();
    job->spec.entrypoint.prolog.text = "before";
    job->spec.entrypoint.epilog.text = "after";
    play.refusals[2] = ALWAYS;
    assert_two_ran(job);
    assert_said(job, "finished epilog@1 ok");
    sim_job_destroy(job);
}

static void test_a_set_up_that_fails(void **unused)
{
    (void)unused;
    struct sim_job *job = begin();
    job->spec.entrypoint.prolog.text = "before";
    job->spec.entrypoint.epilog.text = "after";
    play_does(&play, 2, "setup:deps", 0, PROGRAM(.status = 5, .turns = 3));
    assert_two_ran(job);
    assert_said(job, "step \"deps\": exit status 5; it is left out");
    sim_job_destroy(job);
}

static void test_too_few_are_left(void **unused)
{
    (void)unused;
    struct sim_job *job = begin();
    play.refusals[2] = ALWAYS;
    play_does(&play, 1, "setup:deps", 0, PROGRAM(.status = 5, .turns = 3));
    assert_int_not_equal(sim_job_run(job, 0), 0);
    assert_int_equal(launches(job, 0), 0);
    play.refusals[2] = 0; /* the same command */
    play.rule_count = 0;
    assert_int_equal(sim_job_run(job, 0), 0);
    for (uint32_t n = 0; n < 3; n++)
        assert_int_equal(launches(job, n), 1);
    sim_job_destroy(job);
}

/* The others would meet there. */
static void test_the_first_node_is_needed(void **unused)
{
    (void)unused;
    struct sim_job *job = begin();
    play.refusals[0] = ALWAYS;
    assert_int_equal(sim_job_run(job, 0), 3);
    assert_int_equal(launches(job, 1), 0);
    sim_job_destroy(job);
}

static void test_a_node_that_another_rhrun_holds(void **unused)
{
    (void)unused;
    struct sim_job *job = begin();
    play_does(&play, ANY, "launch", 0, ENDLESS);
    start_until(job, three_live);
    sim_job_kill(job, 0);
    sim_own(job->net, 2, "you@there");
    assert_int_equal(sim_job_run(job, 0), 4);
    assert_int_equal(sim_live(job->net), 3);
    sim_job_destroy(job);
}

static bool installs(struct sim_job *job)
{
    return sim_started(job->net, 2, "setup:deps") == 1;
}

/* Reachable once, and then for longer than a launch waits, though for shorter than reconnect_ms. */
static void test_a_node_that_is_late(void **unused)
{
    (void)unused;
    struct sim_job *job = begin();
    job->late_ms = 1;
    play_does(&play, 2, "setup:deps", 0, ENDLESS);
    start_until(job, installs);
    sim_away(job->net, 2, true);
    assert_int_equal(finish(job), 0);
    assert_true(is_left_out(job));
    assert_int_equal(launches(job, 1), 1);
    assert_int_equal(launches(job, 2), 0);
    sim_job_destroy(job);
}

/* What two nodes with one home need is done by the one that is there. */
static void test_the_first_of_a_home_is_left_out(void **unused)
{
    (void)unused;
    struct sim_job *job = begin();
    sim_share_home(job->net, 2, 1);
    play_does(&play, 1, "setup:deps", 0, PROGRAM(.status = 5, .turns = 3));
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_true(is_left_out(job));
    assert_int_equal(launches(job, 1), 0);
    assert_int_equal(launches(job, 2), 1);
    sim_job_destroy(job);
}

/* ---- during the launch ---- */

static struct sim_job *begin_and_lose(void)
{
    struct sim_job *job = begin();
    job->reconnect_ms = 40;
    play_does(&play, ANY, "launch", 1, ENDLESS);
    start_until(job, three_live);
    sim_away(job->net, 2, true);
    assert_true(sim_job_turns(job, is_left_out));
    return job;
}

static void test_lost_during_the_launch(void **unused)
{
    (void)unused;
    struct sim_job *job = begin_and_lose();
    end_two(job);
    assert_int_equal(finish(job), 0);
    assert_true(sim_job_is_done(job));
    assert_int_equal(launches(job, 0), 1);
    sim_job_destroy(job);
}

/* With the second, too few are left: what runs goes on, as ever. */
static void test_lost_one_after_the_other(void **unused)
{
    (void)unused;
    struct sim_job *job = begin_and_lose();
    sim_away(job->net, 1, true);
    assert_int_not_equal(finish(job), 0);
    assert_false(sim_job_is_done(job));
    sim_job_destroy(job);
}

/* ---- kill -9 ---- */

static void test_killed_while_one_is_left_out(void **unused)
{
    (void)unused;
    for (int back = 0; back < 2; back++) {
        struct sim_job *job = begin();
        play_does(&play, ANY, "launch", 0, ENDLESS);
        play.refusals[2] = ALWAYS;
        start_until(job, two_live);
        sim_job_kill(job, 0);
        play.refusals[2] = back ? 0 : ALWAYS;
        sim_job_quiet(job);
        assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
        end_two(job);
        assert_int_equal(finish(job), 0);
        assert_int_equal(launches(job, 0), 1);
        assert_int_equal(launches(job, 2), 0);
        assert_int_equal(sim_live(job->net), 0);
        sim_job_destroy(job);
    }
}

/* The torchrun of a node that was given up may live: it is stopped when the node is back. */
static void test_killed_after_one_was_lost(void **unused)
{
    (void)unused;
    for (int back = 0; back < 2; back++) {
        struct sim_job *job = begin_and_lose();
        sim_job_kill(job, 0);
        sim_away(job->net, 2, !back);
        job->reconnect_ms = 20000;
        assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
        end_two(job);
        assert_int_equal(finish(job), 0);
        assert_int_equal(launches(job, 0), 1);
        assert_int_equal(launches(job, 2), 1);
        assert_int_equal(sim_live(job->net), back ? 0 : 1);
        sim_job_destroy(job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_node_that_cannot_be_reached),
        cmocka_unit_test(test_a_set_up_that_fails),
        cmocka_unit_test(test_too_few_are_left),
        cmocka_unit_test(test_the_first_node_is_needed),
        cmocka_unit_test(test_a_node_that_another_rhrun_holds),
        cmocka_unit_test(test_a_node_that_is_late),
        cmocka_unit_test(test_the_first_of_a_home_is_left_out),
        cmocka_unit_test(test_lost_during_the_launch),
        cmocka_unit_test(test_lost_one_after_the_other),
        cmocka_unit_test(test_killed_while_one_is_left_out),
        cmocka_unit_test(test_killed_after_one_was_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
