/* run: the current working directory when the journal that made it is lost: the nodes show it. */
#include "sim_play.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NODES = 3, EVENTS_MAX = 40 };

static const struct sim_file_spec files[] = {{"a.txt", 1, 10, 0}, {"b", 1, 3000, 0}, {0}};
static struct sim_play play;

static struct sim_job *begin(uint32_t nodes)
{
    const struct sim_script script = play_script(&play);
    struct sim_job *job = sim_job_create(nodes, &script);
    sim_job_step(job, "deps");
    job->spec.entrypoint.epilog.text = "after";
    job->kinds.syncs[0] =
        (struct sim_sync_step){.name = "sync", .tree_name = "work", .root = "", .tree = sim_tree(job->arena, files)};
    job->take_over = true;
    return job;
}

/* How often something was started on the node since `from`. */
static uint32_t started_since(const struct sim_job *job, size_t from, const char *slot)
{
    size_t count;
    uint32_t ret = 0;
    const struct sim_start *starts = sim_starts(job->net, &count);
    for (size_t i = from; i < count; i++)
        ret += strcmp(starts[i].slot, slot) == 0;
    return ret;
}

static size_t starts(const struct sim_job *job)
{
    size_t count;
    sim_starts(job->net, &count);
    return count;
}

/* The directory of --fresh is adopted, and the next --again continues in it. */
static void test_lost(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(NODES);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(sim_job_run(job, RUN_FLAG_FRESH), 0);
    size_t before = starts(job);
    for (int i = 0; i < 2; i++) {
        sim_job_forget(job);
        assert_int_equal(sim_job_mode(job, RUN_VERIFY, 0), 0);
        assert_int_equal(job->result.verified_nodes, NODES);
        assert_int_equal(sim_job_run(job, 0), 0);
        assert_int_equal(starts(job), before);
    }
    assert_int_equal(sim_job_run(job, RUN_FLAG_AGAIN), 0);
    assert_int_equal(started_since(job, before, "setup:deps") + started_since(job, before, "setup:sync"), 0);
    assert_int_equal(started_since(job, before, "launch"), NODES);
    sim_job_destroy(job);
}

/* The first --fresh after a loss is a new one. */
static void test_fresh_when_lost(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(1);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(sim_job_run(job, RUN_FLAG_FRESH), 0);
        assert_int_equal(sim_started(job->net, 0, "setup:sync"), i + 1);
        sim_job_forget(job);
    }
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(sim_started(job->net, 0, "setup:sync"), 3);
    sim_job_destroy(job);
}

/* Killed while some nodes only have claimed an attempt in the new directory, then lost: all continue there. */
static void test_half_made(void **unused)
{
    (void)unused;
    for (uint32_t n = 0; n < NODES; n++) {
        struct sim_job *job = begin(NODES);
        assert_int_equal(sim_job_run(job, 0), 0);
        play.trap_count = 0;
        play_trap(&play, n, WIRE_SYNC, "", 0, SIM_CUT_AFTER);
        assert_int_equal(sim_job_start(job, RUN_EXECUTE, RUN_FLAG_FRESH), 0);
        while (!sim_is_cut(job->net))
            loop_turn(job->loop, true);
        sim_job_kill(job, 0);
        sim_job_forget(job);
        size_t before = starts(job);
        assert_int_equal(sim_job_run(job, 0), 0);
        assert_int_equal(started_since(job, before, "launch"), NODES);
        assert_int_equal(started_since(job, before, "setup:deps"), NODES);
        before = starts(job);
        sim_job_forget(job);
        assert_int_equal(sim_job_run(job, 0), 0);
        assert_int_equal(starts(job), before);
        sim_job_destroy(job);
    }
}

/* Nodes that share a home are asked again for the directory that was found: nothing is decided before all have listed
 * their records in it, as before the first answers. */
static void test_a_shared_home_is_seen_whole(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    uint32_t greetings = 0;
    sim_share_home(job->net, 1, 0);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(sim_job_run(job, RUN_FLAG_FRESH), 0);
    sim_job_forget(job);
    sim_job_quiet(job);
    play_trap(&play, 1, WIRE_LIST, NULL, 1, SIM_DROP_BEFORE); /* the answer for the second directory comes late */
    assert_int_equal(sim_job_run(job, 0), 0);
    const char *taken = strstr(job->said.data, "finished sync@0 ok adopted");
    assert_non_null(taken);
    for (const char *at = job->said.data; (at = strstr(at, "node_bound")) && at < taken; at++)
        greetings++;
    assert_int_equal(greetings, 5); /* twice, and once more of the one that was away */
    sim_job_destroy(job);
}

static uint32_t kill_at;

static void count_events(struct sim_job *job, const struct event *e)
{
    (void)e;
    if (kill_at && --kill_at == 0)
        sim_cut(job->net);
}

/* The controller that finds it is killed after each of its events: the next one finds it too. */
static void test_killed_while_it_is_found(void **unused)
{
    (void)unused;
    for (uint32_t at = 1; at < EVENTS_MAX; at++) {
        struct sim_job *job = begin(2);
        assert_int_equal(sim_job_run(job, 0), 0);
        assert_int_equal(sim_job_run(job, RUN_FLAG_FRESH), 0);
        size_t before = starts(job);
        sim_job_forget(job);
        kill_at = at;
        job->on_event = count_events;
        assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
        while (!sim_is_cut(job->net) && !job->finished)
            loop_turn(job->loop, true);
        bool cut = sim_is_cut(job->net);
        if (cut)
            sim_job_kill(job, 0);
        else
            sim_job_close(job);
        kill_at = 0;
        assert_true(sim_job_is_done(job) || sim_job_run(job, 0) == 0);
        if (starts(job) != before)
            fail_msg("killed after event %u: %zu starts more\n%s", at, starts(job) - before, job->said.data);
        sim_job_destroy(job);
        if (!cut)
            return;
    }
    fail_msg("it has no end");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lost), cmocka_unit_test(test_fresh_when_lost), cmocka_unit_test(test_half_made),
        cmocka_unit_test(test_a_shared_home_is_seen_whole), cmocka_unit_test(test_killed_while_it_is_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
