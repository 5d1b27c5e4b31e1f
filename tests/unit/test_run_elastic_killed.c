/* run: torchrun on MIN:MAX nodes: the controller is killed. */
#include "elastic_scene.h"

static bool is_attached_to_one(struct sim_job *job)
{
    return sim_frames(job->net, WIRE_ATTACH) >= 1;
}

static void test_killed_while_one_is_left_out(void **unused)
{
    (void)unused;
    for (int back = 0; back < 2; back++) {
        struct sim_job *job = begin_without_one();
        start_until(job, two_live);
        sim_job_kill(job, 0);
        play.refusals[2] = back ? 0 : ALWAYS;
        sim_job_quiet(job);
        assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
        if (back)
            turn_until(job, is_stable);
        end_three(job);
        assert_int_equal(finish(job), 0);
        assert_int_equal(launches(job, 0), 1);
        assert_int_equal(launches(job, 2), (uint32_t)back);
        assert_int_equal(sim_live(job->net), 0);
        sim_job_destroy(job);
    }
}

/* The torchrun of a node that was given up may live: it continues if the node is back in time. */
static void test_killed_after_one_was_lost(void **unused)
{
    (void)unused;
    for (int back = 0; back < 2; back++) {
        struct sim_job *job = begin_and_lose();
        sim_job_kill(job, 0);
        sim_away(job->net, 2, !back);
        job->reconnect_ms = 20000;
        assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
        if (back)
            end_three(job);
        else
            end_two(job);
        assert_int_equal(finish(job), 0);
        assert_int_equal(launches(job, 0), 1);
        assert_int_equal(launches(job, 2), 1);
        assert_int_equal(sim_live(job->net), back ? 0 : 1);
        sim_job_destroy(job);
    }
}

static bool first_began_again(struct sim_job *job)
{
    return launches(job, 0) == 2;
}

/* Only the nodes' ledgers are left: on two nodes the last launch is a failed one. It is no part of the live launch, in
 * no event. */
static void test_lost_when_others_had_an_earlier_launch(void **unused)
{
    (void)unused;
    struct sim_job *job = begin();
    job->spec.distributed.min_nodes = 1;
    play_does(&play, 0, "launch", 1, PROGRAM(.status = 5, .turns = 9));
    play_does(&play, 0, "launch", 2, ENDLESS);
    assert_int_equal(sim_job_run(job, 0), 1);
    for (uint32_t n = 1; n < 3; n++)
        play_trap(&play, n, WIRE_RUN, "launch", 0, SIM_FREEZE);
    start_until(job, first_began_again);
    sim_job_kill(job, 0);
    sim_job_forget(job);
    sim_job_quiet(job);
    job->take_over = true;
    start_until(job, is_attached_to_one);
    sim_end(job->net, 0, "launch", 0);
    assert_int_equal(finish(job), 0);
    assert_true(sim_job_said(job, "finished launch@0 ok"));
    assert_false(sim_job_said(job, "finished launch@1 ok"));
    assert_false(sim_job_said(job, "finished launch@2 ok"));
    assert_int_equal(launches(job, 0), 2);
    assert_int_equal(launches(job, 1), 1);
    sim_job_destroy(job);
}

static uint32_t events_left;

static void cut_at(struct sim_job *job, const struct event *e)
{
    (void)e;
    if (events_left > 0 && --events_left == 0)
        sim_cut(job->net);
}

static bool cut_or_joined(struct sim_job *job)
{
    return sim_is_cut(job->net) || (joined_again(job) && sim_job_said(job, "started launch@2"));
}

static bool cut_or_late(struct sim_job *job)
{
    return sim_is_cut(job->net) || three_live(job);
}

/* Between any two events of a node that comes late, and of one that leaves and comes back. */
static void test_killed_at_every_event(void **unused)
{
    (void)unused;
    for (int late = 0; late < 2; late++)
        for (uint32_t at = 1, more = 1; more; at++) {
            struct sim_job *job = late ? begin_without_one() : begin();
            job->spec.entrypoint.prolog.text = "before";
            play_does(&play, ANY, "launch", 0, ENDLESS);
            start_until(job, late ? two_live : is_stable_at_first);
            job->on_event = cut_at;
            events_left = at;
            play.refusals[2] = 0;
            if (!late)
                sim_signal(job->net, 2, "launch", 9);
            turn_until(job, late ? cut_or_late : cut_or_joined);
            more = sim_is_cut(job->net);
            events_left = 0;
            sim_job_kill(job, at);
            assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
            turn_until(job, late ? three_live : joined_again);
            end_three(job);
            assert_int_equal(finish(job), 0);
            assert_int_equal(launches(job, 0), 1);
            assert_int_equal(launches(job, 2), late ? 1 : 2);
            assert_int_equal(sim_started(job->net, 2, "prolog"), 1);
            assert_int_equal(sim_live(job->net), 0);
            sim_job_destroy(job);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_while_one_is_left_out),
        cmocka_unit_test(test_killed_after_one_was_lost),
        cmocka_unit_test(test_lost_when_others_had_an_earlier_launch),
        cmocka_unit_test(test_killed_at_every_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
