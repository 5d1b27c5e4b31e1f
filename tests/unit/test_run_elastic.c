/* run: torchrun on MIN:MAX nodes: the nodes that the launch does not begin without. */
#include "elastic_scene.h"

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

/* Reachable once, then away for longer than a launch waits, but shorter than reconnect_ms. */
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

/* The available node does the work that two nodes with one home share. */
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

/* ---- findings before the launch ---- */

static void assert_two_without(struct sim_job *job, const char *why)
{
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_said(job, why);
    assert_said(job, "; it is left out for good: 2 of 2:3 nodes are left");
    assert_int_equal(launches(job, 1), 1);
    assert_int_equal(launches(job, 2), 0);
    assert_true(sim_job_is_done(job));
    sim_job_destroy(job);
}

static void test_a_node_that_cannot_take_part(void **unused)
{
    (void)unused;
    struct sim_job *job = begin();
    deaf = 2;
    assert_two_without(job, "node \"n2\" cannot reach port");
    job = begin_torchrun();
    job->spec.distributed.nproc = (struct spec_nproc){NPROC_GPU, 0};
    assert_two_without(job, "nproc_per_node is gpu, and no GPU was found there");
    job = begin_torchrun();
    install_torch(job, 2, "2.9.1");
    assert_two_without(job, "torch is 2.13.0 on node \"n0\" and 2.9.1 on node \"n2\"");
}

/* If two cannot take part, too few are left. */
static void test_too_few_can_take_part(void **unused)
{
    (void)unused;
    struct sim_job *job = begin_torchrun();
    deaf = 2;
    sim_reinstall(job->net, 1);
    install_torch(job, 1, "2.9.1");
    assert_int_not_equal(sim_job_run(job, 0), 0);
    assert_int_equal(launches(job, 0), 0);
    sim_job_destroy(job);
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
        cmocka_unit_test(test_a_node_that_cannot_take_part),
        cmocka_unit_test(test_too_few_can_take_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
