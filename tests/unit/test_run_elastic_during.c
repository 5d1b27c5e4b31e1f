/* run: torchrun on MIN:MAX nodes: nodes that leave a running launch, and join it. */
#include "elastic_scene.h"

#include <signal.h>

static bool has_left(struct sim_job *job)
{
    return sim_job_said(job, "its torchrun has left the others");
}

static bool is_given_up(struct sim_job *job)
{
    return sim_job_said(job, "it is not tried again");
}

static bool is_attached(struct sim_job *job)
{
    return sim_frames(job->net, WIRE_ATTACH) >= 3;
}

static bool two_attached(struct sim_job *job)
{
    return sim_frames(job->net, WIRE_ATTACH) >= 2;
}

static bool first_joined_again(struct sim_job *job)
{
    return launches(job, 0) == 2 && sim_live(job->net) == 3;
}

/* ---- during the launch ---- */

static bool is_back(struct sim_job *job)
{
    return sim_job_said(job, "it takes part again");
}

/* Its work until then is unknown. */
static void test_lost_during_the_launch(void **unused)
{
    (void)unused;
    struct sim_job *job = begin_and_lose();
    end_two(job);
    assert_int_equal(finish(job), 0);
    assert_true(sim_job_is_done(job));
    assert_int_equal(launches(job, 0), 1);
    assert_said(job, "finished launch@2 unknown");
    sim_job_destroy(job);
}

/* Its torchrun continued meanwhile, and may have ended. */
static void test_lost_and_back(void **unused)
{
    (void)unused;
    for (int how = 0; how < 3; how++) {
        struct sim_job *job = begin_and_lose();
        if (how == 1)
            sim_end(job->net, 2, "launch", 0);
        if (how == 2)
            sim_end(job->net, 2, "launch", 7);
        sim_away(job->net, 2, false);
        if (how < 2) {
            turn_until(job, is_back);
            end_three(job);
        }
        assert_int_equal(finish(job), how == 2);
        assert_int_equal(launches(job, 2), 1);
        assert_int_equal(sim_job_events(job, EVENT_RESTART), 0);
        assert_int_equal(sim_live(job->net), 0);
        sim_job_destroy(job);
    }
}

/* Nothing runs there any more: its set-up is checked, and its torchrun starts again. */
static void test_lost_and_back_otherwise(void **unused)
{
    (void)unused;
    for (int how = 0; how < 3; how++) {
        struct sim_job *job = begin_and_lose();
        if (how == 0)
            sim_lose(job->net, 2, "launch");
        else if (how == 1)
            sim_reboot(job->net, 2, 0);
        else
            sim_reinstall(job->net, 2);
        sim_away(job->net, 2, false);
        turn_until(job, joined_again);
        end_three(job);
        assert_int_equal(finish(job), 0);
        assert_int_equal(launches(job, 0), 1);
        assert_int_equal(launches(job, 2), 2);
        assert_int_equal(sim_started(job->net, 2, "setup:deps"), how == 2 ? 2 : 1);
        assert_said(job, "it joins the launch: 3 of 2:3 nodes take part");
        assert_said(job, "finished launch@2 ok");
        assert_int_equal(sim_job_events(job, EVENT_RESTART), 0);
        sim_job_destroy(job);
    }
}

/* Without the second one too few are left: programs continue, as always. */
static void test_lost_one_after_the_other(void **unused)
{
    (void)unused;
    struct sim_job *job = begin_and_lose();
    sim_away(job->net, 1, true);
    assert_int_not_equal(finish(job), 0);
    assert_false(sim_job_is_done(job));
    sim_job_destroy(job);
}

static void test_cancelled_while_one_is_away(void **unused)
{
    (void)unused;
    struct sim_job *job = begin_and_lose();
    run_interrupt(job->run, SIGINT);
    assert_int_equal(finish(job), 130);
    assert_int_equal(sim_live(job->net), 1);
    sim_away(job->net, 2, false);
    play.rule_count = 0;
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(sim_live(job->net), 0);
    sim_job_destroy(job);
}

/* ---- joining late ---- */

static void test_one_that_comes_late(void **unused)
{
    (void)unused;
    struct sim_job *job = begin_without_one();
    job->spec.entrypoint.prolog.text = "before";
    job->spec.entrypoint.epilog.text = "after";
    start_until(job, two_live);
    play.refusals[2] = 0;
    turn_until(job, is_stable);
    end_three(job);
    assert_int_equal(finish(job), 0);
    assert_int_equal(sim_started(job->net, 2, "setup:deps"), 1);
    assert_int_equal(sim_started(job->net, 2, "prolog"), 1);
    assert_int_equal(sim_started(job->net, 2, "epilog"), 1);
    assert_int_equal(launches(job, 2), 1);
    assert_int_equal(launches(job, 0), 1);
    assert_said(job, "started launch@2 generation 1 joins");
    assert_said(job, "finished launch@2 ok");
    assert_true(sim_job_is_done(job));
    sim_job_destroy(job);
}

/* It must not disturb the running ones. */
static void test_one_that_comes_late_and_cannot_take_part(void **unused)
{
    (void)unused;
    for (int fits = 0; fits < 2; fits++) {
        struct sim_job *job = begin_torchrun();
        install_torch(job, 2, fits ? "2.13.0" : "2.9.1");
        play_does(&play, ANY, "launch", 0, ENDLESS);
        play.refusals[2] = ALWAYS;
        start_until(job, two_live);
        play.refusals[2] = 0;
        turn_until(job, fits ? three_live : is_given_up);
        end_three(job);
        assert_int_equal(finish(job), 0);
        assert_int_equal(launches(job, 2), fits);
        sim_job_destroy(job);
    }
}

/* A failed step there is done again; after too many failures no more. */
static void test_a_set_up_that_fails_at_first(void **unused)
{
    (void)unused;
    for (int how = 0; how < 3; how++) {
        static const char *const slots[] = {"setup:deps", "prolog", "setup:deps"};
        struct sim_job *job = begin();
        job->spec.entrypoint.prolog.text = "before";
        play_does(&play, ANY, "launch", 0, ENDLESS);
        play_does(&play, 2, "setup:deps", 1, PROGRAM(.status = 5));
        play_does(&play, 2, slots[how], how == 2 ? 0 : how + 1 == 2 ? 1 : 2, PROGRAM(.status = 6));
        if (how == 2) {
            start_until(job, two_live);
            turn_until(job, is_given_up);
        } else {
            start_until(job, is_stable);
        }
        end_three(job);
        assert_int_equal(finish(job), 0);
        assert_int_equal(launches(job, 2), how < 2);
        sim_job_destroy(job);
    }
}

static bool late_installs(struct sim_job *job)
{
    return sim_started(job->net, 2, "setup:deps") == 1 && sim_live(job->net) == 3;
}

static bool late_prepares(struct sim_job *job)
{
    return sim_started(job->net, 2, "prolog") == 1 && sim_live(job->net) == 3;
}

/* The launch is over before the late one is there. */
static void test_one_that_comes_too_late(void **unused)
{
    (void)unused;
    for (int how = 0; how < 4; how++) {
        struct sim_job *job = begin_without_one();
        job->spec.entrypoint.prolog.text = "before";
        job->spec.entrypoint.epilog.text = "after";
        play_does(&play, 2, how % 2 ? "prolog" : "setup:deps", 0, ENDLESS);
        start_until(job, two_live);
        play.refusals[2] = 0;
        turn_until(job, how % 2 ? late_prepares : late_installs);
        if (how >= 2)
            sim_away(job->net, 2, true);
        end_two(job);
        assert_int_equal(finish(job), 0);
        assert_int_equal(sim_live(job->net), how >= 2);
        assert_int_equal(launches(job, 2), 0);
        assert_int_equal(sim_started(job->net, 2, "epilog"), 0);
        assert_int_equal(sim_started(job->net, 1, "epilog"), 1);
        assert_true(sim_job_is_done(job));
        sim_job_destroy(job);
    }
}

/* ---- a torchrun that ends ---- */

static void assert_joins_again(struct sim_job *job)
{
    turn_until(job, joined_again);
    end_three(job);
    assert_int_equal(finish(job), 0);
    assert_said(job, "its torchrun has left the others (");
    assert_said(job, "2 of 2:3 nodes are left; it is tried again in 0.0 s");
    assert_int_equal(launches(job, 0), 1);
    assert_int_equal(launches(job, 2), 2);
    assert_int_equal(sim_job_events(job, EVENT_RESTART), 0);
    assert_int_equal(sim_job_events(job, EVENT_RULE), 0);
    assert_true(sim_job_is_done(job));
    sim_job_destroy(job);
}

static struct sim_job *begin_three(void)
{
    struct sim_job *job = begin();
    play_does(&play, ANY, "launch", 0, ENDLESS);
    start_until(job, is_stable_at_first);
    return job;
}

static void test_a_torchrun_that_is_killed(void **unused)
{
    (void)unused;
    struct sim_job *job = begin_three();
    sim_signal(job->net, 2, "launch", 9);
    assert_joins_again(job);
    job = begin_three();
    sim_lose(job->net, 2, "launch");
    assert_joins_again(job);
    job = begin_three();
    sim_preempt(job->net, 2, "launch", true);
    assert_joins_again(job);
}

/* Torch says why it ended; only these reasons leave the rendezvous intact. */
static void test_what_torch_says(void **unused)
{
    (void)unused;
    static const struct {
        const char *tail;
        bool leaves;
    } all[] = {
        {"torch.distributed.elastic.multiprocessing.api.SignalException: Process 7 got signal: 15\n", true},
        {"x\ntorch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection: failed\nbye\n", true},
        {"torch.distributed.elastic.rendezvous.api.RendezvousClosedError", true},
        {"torch.distributed.elastic.rendezvous.api.RendezvousClosedError\n"
         "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n",
         false},
        {" torch.distributed.elastic.rendezvous.api.RendezvousClosedError\n", false},
        {"RendezvousClosedError\n", false},
        {"torch.distributed.elastic.", false},
        {"", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        struct sim_job *job = begin();
        play_does(&play, ANY, "launch", 0, ENDLESS);
        play_does(&play, 2, "launch", 1, PROGRAM(.status = 1, .turns = 5, .tail = all[i].tail));
        assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
        if (all[i].leaves) {
            assert_joins_again(job);
            continue;
        }
        assert_int_equal(finish(job), 1); /* torch has ended the rendezvous for all, and with it the launch */
        assert_string_equal(job->cause_node, "n2");
        assert_int_equal(launches(job, 2), 1);
        assert_int_equal(sim_live(job->net), 0);
        sim_job_destroy(job);
    }
}

static void test_a_torchrun_that_is_killed_again_and_again(void **unused)
{
    (void)unused;
    struct sim_job *job = begin();
    play_does(&play, ANY, "launch", 0, ENDLESS);
    play_does(&play, 2, "launch", 0, PROGRAM(.signal = 11, .turns = 1));
    start_until(job, is_given_up);
    assert_int_equal(launches(job, 2), 11);
    end_two(job);
    assert_int_equal(finish(job), 0);
    assert_int_equal(launches(job, 2), 11);
    sim_job_destroy(job);
}

static void test_who_may_not_leave(void **unused)
{
    (void)unused;
    struct sim_job *job = begin_three(); /* the first node, where the others meet */
    sim_signal(job->net, 0, "launch", 9);
    assert_int_equal(finish(job), 1);
    assert_string_equal(job->cause_node, "n0");
    sim_job_destroy(job);

    job = begin_three(); /* too few are left */
    job->join_ms = 100000;
    sim_job_kill(job, 0);
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    turn_until(job, is_attached);
    sim_signal(job->net, 2, "launch", 9);
    sim_signal(job->net, 1, "launch", 9);
    assert_int_equal(finish(job), 1);
    assert_string_equal(job->cause_node, "n1");
    assert_int_equal(launches(job, 1), 1);
    assert_int_equal(sim_live(job->net), 0);
    sim_job_destroy(job);
}

/* With etcd all nodes are equal once the launch runs. */
static void test_the_first_of_etcd(void **unused)
{
    (void)unused;
    struct spec_flag flags[] = {{torchrun_flag_find("rdzv_backend", 12), {.text = "etcd-v2"}},
                                {torchrun_flag_find("rdzv_endpoint", 13), {.text = "10.0.0.9:2379"}}};
    for (int how = 0; how < 2; how++) {
        struct sim_job *job = begin_torchrun();
        install_torch(job, 2, "2.13.0");
        job->spec.distributed.flags = flags;
        job->spec.distributed.flag_count = 2;
        job->reconnect_ms = 40;
        play_does(&play, ANY, "launch", 0, ENDLESS);
        start_until(job, is_stable_at_first);
        if (how) {
            sim_away(job->net, 0, true);
            turn_until(job, is_left_out);
            sim_job_kill(job, 0);
            job->reconnect_ms = 20000;
            assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
            turn_until(job, two_attached);
            sim_away(job->net, 0, false);
            turn_until(job, is_back);
        } else {
            sim_signal(job->net, 0, "launch", 9);
            turn_until(job, first_joined_again);
        }
        end_three(job);
        assert_int_equal(finish(job), 0);
        assert_int_equal(launches(job, 0), how ? 1 : 2);
        assert_int_equal(launches(job, 1), 1);
        sim_job_destroy(job);
    }
}

/* A rule about it decides. */
static void test_a_rule_for_it(void **unused)
{
    (void)unused;
    static uint32_t nine = 9;
    static const char text[] = "rule 1 (signal 9)";
    struct spec_rule rule = {.id = "1", .text = text, .role = SPEC_NO_ROLE, .signals = &nine, .signal_count = 1};
    rule.action = RULE_RESTART;
    rule.has_times = true;
    rule.times = 1;
    for (int which = 0; which < 2; which++) {
        nine = which ? 10 : 9;
        struct sim_job *job = begin();
        job->spec.rules = &rule;
        job->spec.rule_count = 1;
        play_does(&play, ANY, "launch", 0, ENDLESS);
        start_until(job, is_stable_at_first);
        sim_signal(job->net, 2, "launch", 9);
        turn_until(job, joined_again);
        end_three(job);
        assert_int_equal(finish(job), 0);
        assert_int_equal(launches(job, 0), which ? 1 : 2);
        assert_int_equal(sim_job_events(job, EVENT_RESTART), !which);
        sim_job_destroy(job);
    }
}

static bool is_lost(struct sim_job *job)
{
    struct run_node_view v;
    run_node(job->run, 2, &v);
    return v.presence == PRESENCE_GONE;
}

/* Nor does a node that has left count as lost to the launch. */
static void test_a_rule_for_lost_nodes(void **unused)
{
    (void)unused;
    struct spec_rule rule = {.id = "1", .text = "rule 1 (node_lost)", .role = SPEC_NO_ROLE, .subject = RULE_NODE_LOST};
    rule.action = RULE_RESTART;
    rule.has_times = true;
    rule.times = 1;
    struct sim_job *job = begin();
    job->spec.rules = &rule;
    job->spec.rule_count = 1;
    job->join_ms = 100000;
    job->reconnect_ms = 20;
    play_does(&play, ANY, "launch", 0, ENDLESS);
    start_until(job, is_stable_at_first);
    sim_signal(job->net, 2, "launch", 9);
    turn_until(job, has_left);
    sim_away(job->net, 2, true);
    turn_until(job, is_lost);
    end_two(job);
    assert_int_equal(finish(job), 0);
    assert_int_equal(launches(job, 0), 1);
    sim_job_destroy(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lost_during_the_launch),
        cmocka_unit_test(test_lost_and_back),
        cmocka_unit_test(test_lost_and_back_otherwise),
        cmocka_unit_test(test_lost_one_after_the_other),
        cmocka_unit_test(test_cancelled_while_one_is_away),
        cmocka_unit_test(test_one_that_comes_late),
        cmocka_unit_test(test_one_that_comes_late_and_cannot_take_part),
        cmocka_unit_test(test_a_set_up_that_fails_at_first),
        cmocka_unit_test(test_one_that_comes_too_late),
        cmocka_unit_test(test_a_torchrun_that_is_killed),
        cmocka_unit_test(test_what_torch_says),
        cmocka_unit_test(test_a_torchrun_that_is_killed_again_and_again),
        cmocka_unit_test(test_who_may_not_leave),
        cmocka_unit_test(test_the_first_of_etcd),
        cmocka_unit_test(test_a_rule_for_it),
        cmocka_unit_test(test_a_rule_for_lost_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
