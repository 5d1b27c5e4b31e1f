/* run: files to simulated nodes: which are sent, which are kept, the cost of a cut, nodes that share a home,
 * installations that are checked again. */
#include "sim_play.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FILES(...) ((const struct sim_file_spec[]){__VA_ARGS__, {0}})
#define WORK "work-0123456789abcdef"

static struct sim_play play;

static struct sim_job *begin(uint32_t nodes)
{
    const struct sim_script script = play_script(&play);
    return sim_job_create(nodes, &script);
}

static void bring(struct sim_job *job, const struct sim_file_spec *files)
{
    job->kinds.syncs[0] =
        (struct sim_sync_step){.name = "sync", .tree_name = "work", .root = "", .tree = sim_tree(job->arena, files)};
}

static void assert_tree(const struct sim_job *job, uint32_t node)
{
    const char *fault = sim_tree_fault(job->net, node, WORK, job->kinds.syncs[0].tree);
    if (*fault)
        fail_msg("node %u: %s", node, fault);
}

static const struct sim_file_spec three[] = {
    {"a.txt", 1, 10, 0}, {"bin/run", 1, 0, TREE_MODE_EXEC}, {"sub/deep/b", 1, 3000, 0}, {0}};

/* ---- sent files ---- */

static void test_first_and_nothing_changed(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    bring(job, three);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_tree(job, 0);
    assert_tree(job, 1);
    assert_said(job, "note: sync: 3 files, 3.0 kB sent to 2 nodes");
    assert_int_equal(sim_file_bytes(job->net), 2 * 3010);
    sim_job_quiet(job);
    assert_int_equal(sim_job_run(job, RUN_FLAG_AGAIN), 0);
    assert_int_equal(sim_frames(job->net, WIRE_SYNC), 2);
    assert_false(sim_job_said(job, "sync@"));
    assert_int_equal(sim_job_mode(job, RUN_VERIFY, 0), 0);
    assert_int_equal(job->result.verified_nodes, 2);
    sim_job_destroy(job);
}

static void test_only_the_difference(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    bring(job, three);
    assert_int_equal(sim_job_run(job, 0), 0);
    uint64_t before = sim_file_bytes(job->net);
    sim_job_quiet(job);
    /* one with another content, one with another mode, one gone, one new */
    bring(job, FILES({"a.txt", 2, 20, 0}, {"bin/run", 1, 0, TREE_MODE_FILE}, {"new", 1, 5, 0}));
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_tree(job, 0);
    assert_tree(job, 1);
    assert_int_equal(sim_file_bytes(job->net) - before, 2 * 25);
    assert_said(job, "step \"sync\" runs again: files changed");
    assert_said(job, "note: sync: 3 files, 25 bytes sent to 2 nodes, 1 removed");
    sim_job_destroy(job);
}

static void test_changed_on_the_node(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    bring(job, three);
    assert_int_equal(sim_job_run(job, 0), 0);
    uint64_t before = sim_file_bytes(job->net);
    sim_touch(job->net, 1, WORK, "a.txt");
    assert_int_equal(sim_job_mode(job, RUN_VERIFY, 0), 0);
    assert_int_equal(job->result.unverified_nodes, 1);
    assert_string_equal(job->unverified, "node \"n1\": step \"sync\": its files changed on the node");
    sim_job_quiet(job);
    assert_int_equal(sim_job_run(job, RUN_FLAG_AGAIN), 0);
    assert_said(job, "step \"sync\" runs again: its files changed on the node");
    assert_said(job, "note: sync: 1 of 3 files, 10 bytes sent to n1");
    assert_tree(job, 1);
    assert_int_equal(sim_file_bytes(job->net) - before, 10);
    assert_int_equal(sim_started(job->net, 0, "setup:sync"), 1);
    sim_job_destroy(job);
}

/* The store does not know the node's files: every file is announced, and equal ones are not sent. */
static void test_unknown_base(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(1);
    bring(job, three);
    assert_int_equal(sim_job_run(job, 0), 0);
    uint64_t before = sim_file_bytes(job->net);
    sim_trees_forget();
    bring(job, FILES({"a.txt", 1, 10, 0}, {"bin/run", 1, 0, TREE_MODE_EXEC}, {"other", 1, 7, 0}));
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(sim_frames(job->net, WIRE_SYNC_ALL), 1);
    assert_tree(job, 0);
    assert_int_equal(sim_file_bytes(job->net) - before, 7);
    sim_job_destroy(job);
}

static void test_missing_only(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(1);
    struct sim_sync_step *s = &job->kinds.syncs[0];
    bring(job, three);
    s->missing = true;
    assert_int_equal(sim_job_run(job, 0), 0);
    bring(job, FILES({"a.txt", 2, 11, 0}, {"more", 1, 5, 0}));
    s->missing = true;
    uint64_t before = sim_file_bytes(job->net);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(sim_file_bytes(job->net) - before, 5);
    assert_int_equal(sim_frames(job->net, WIRE_REMOVE), 0);
    sim_job_destroy(job);
}

/* Files larger than the limit of one turn and than the store's memory, several nodes at once. */
static void test_big_files(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(3);
    bring(job, FILES({"big", 1, 5 << 20, 0}, {"medium", 1, 700000, 0}, {"small", 1, 1, 0}));
    sim_tree_opens = 0;
    assert_int_equal(sim_job_run(job, 0), 0);
    for (uint32_t n = 0; n < 3; n++)
        assert_tree(job, n);
    assert_true(sim_tree_opens >= 3 && sim_tree_opens <= 9);
    sim_job_destroy(job);
}

static void test_contents_are_shared(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(4);
    struct sim_file_spec files[301] = {{0}};
    for (size_t i = 0; i < 300; i++)
        files[i] = (struct sim_file_spec){arena_printf(job->arena, "f%03zu", i), 1, 100, 0};
    bring(job, files);
    sim_tree_opens = 0;
    assert_int_equal(sim_job_run(job, 0), 0);
    for (uint32_t n = 0; n < 4; n++)
        assert_tree(job, n);
    assert_true(sim_tree_opens < 4 * 300);
    sim_job_destroy(job);
}

/* ---- failures ---- */

static void test_disk_full(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(3);
    bring(job, three);
    sim_disk(job->net, 1, 100);
    assert_int_equal(sim_job_run(job, 0), 3);
    assert_string_equal(job->result.error.text,
                        "node \"n1\": step \"sync\": could not write \"sub/deep/b\": No space left on device");
    assert_tree(job, 0);
    assert_tree(job, 2);
    uint64_t before = sim_file_bytes(job->net);
    sim_disk(job->net, 1, UINT64_MAX);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_tree(job, 1);
    assert_int_equal(sim_file_bytes(job->net) - before, 3000); /* what had arrived was kept */
    assert_int_equal(sim_started(job->net, 0, "setup:sync"), 1);
    sim_job_destroy(job);
}

static void test_store_is_damaged(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    bring(job, three);
    sim_tree_broken("sub/deep/b");
    assert_int_equal(sim_job_run(job, 0), 3);
    assert_non_null(strstr(job->result.error.text, "\"sub/deep/b\" is not in the store"));
    assert_int_equal(sim_live(job->net), 0);
    sim_tree_broken(NULL);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_tree(job, 0);
    sim_job_destroy(job);
}

static const enum wire_type transfer_frames[] = {WIRE_SYNC, WIRE_FILE, WIRE_FILE_DATA, WIRE_REMOVE, WIRE_SYNC_END};

/* The connection is lost at each kind of frame, before and after it; the controller lives, or dies with it. */
static void cut_at(enum wire_type type, enum sim_fault fault, bool update)
{
    struct sim_job *job = begin(2);
    job->liveness_ms = job->hello_ms = 600;
    if (update) {
        bring(job, three);
        assert_int_equal(sim_job_run(job, 0), 0);
    }
    bring(job, FILES({"a.txt", 2, 20, 0}, {"big", 1, 3 << 20, 0}, {"c", 1, 5, 0}));
    play_trap(&play, 0, type, NULL, type == WIRE_FILE_DATA ? 6 : 0, fault);
    int rc = sim_job_start(job, RUN_EXECUTE, 0);
    assert_int_equal(rc, 0);
    while (!job->finished && !sim_is_cut(job->net))
        loop_turn(job->loop, true);
    bool dies = sim_is_cut(job->net);
    if (dies) {
        sim_job_kill(job, 1);
        assert_int_equal(sim_job_run(job, 0), 0);
    } else {
        sim_job_close(job);
        assert_int_equal(job->result.exit_status, 0);
    }
    assert_tree(job, 0);
    assert_tree(job, 1);
    if (!dies) /* else the other node's was cut off too */
        assert_int_equal(sim_started(job->net, 1, "setup:sync"), update ? 2 : 1);
    assert_int_equal(sim_started(job->net, 0, "launch"), update ? 2 : 1);
    if (type == WIRE_FILE_DATA) /* the part that had arrived did not travel again */
        assert_true(sim_file_bytes(job->net) < 2 * (3 << 20) + (2 << 20) + 10000);
    sim_job_destroy(job);
}

static void test_cut_at_every_frame(void **unused)
{
    static const enum sim_fault faults[] = {SIM_DROP_BEFORE, SIM_DROP_AFTER, SIM_CUT_BEFORE, SIM_CUT_AFTER};
    (void)unused;
    for (size_t i = 0; i < ARRAY_LEN(transfer_frames); i++)
        for (size_t k = 0; k < ARRAY_LEN(faults); k++)
            for (int update = 0; update < 2; update++)
                cut_at(transfer_frames[i], faults[k], update);
}

static bool sending(struct sim_job *job)
{
    return sim_frames(job->net, WIRE_FILE_DATA) > 3;
}

static void test_interrupt(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    bring(job, FILES({"big", 1, 30 << 20, 0}));
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    assert_true(sim_job_turns(job, sending));
    run_interrupt(job->run, SIGINT);
    sim_job_wait(job);
    sim_job_close(job);
    assert_int_equal(job->result.exit_status, 130);
    assert_int_equal(sim_live(job->net), 0);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_tree(job, 0);
    sim_job_destroy(job);
}

/* Power lost before received files are settled: the index is not believed, so that a torn file is sent again. */
static void test_power_lost(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(1);
    bring(job, three);
    sim_job_step(job, "deps");
    play_trap(&play, 0, WIRE_RUN, "setup:deps", 0, SIM_CUT_BEFORE);
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    while (!sim_is_cut(job->net))
        loop_turn(job->loop, true);
    sim_job_kill(job, 0);
    sim_reboot(job->net, 0, UINT64_MAX);
    assert_string_not_equal(sim_tree_fault(job->net, 0, WORK, job->kinds.syncs[0].tree), "");
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_tree(job, 0);
    /* settled now: after a reboot only the next difference is sent */
    sim_reboot(job->net, 0, UINT64_MAX);
    uint64_t before = sim_file_bytes(job->net);
    bring(job, FILES({"a.txt", 2, 12, 0}, {"bin/run", 1, 0, TREE_MODE_EXEC}, {"sub/deep/b", 1, 3000, 0}));
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_tree(job, 0);
    assert_int_equal(sim_file_bytes(job->net) - before, 12);
    sim_job_destroy(job);
}

/* A launch that changes its own files is not disturbed when a controller comes back; the next run restores them. */
static void test_not_under_a_running_launch(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(1);
    bring(job, three);
    play_does(&play, 0, "launch", 1, (struct sim_program){.endless = true});
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    while (sim_started(job->net, 0, "launch") == 0)
        loop_turn(job->loop, true);
    sim_job_kill(job, 0);
    sim_touch(job->net, 0, WORK, "a.txt");
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    while (sim_frames(job->net, WIRE_ATTACH) == 0)
        loop_turn(job->loop, true);
    sim_end(job->net, 0, "launch", 0);
    sim_job_wait(job);
    sim_job_close(job);
    assert_int_equal(job->result.exit_status, 0);
    assert_int_equal(sim_started(job->net, 0, "setup:sync"), 1);
    assert_int_equal(sim_job_run(job, RUN_FLAG_AGAIN), 0);
    assert_int_equal(sim_started(job->net, 0, "setup:sync"), 2);
    assert_tree(job, 0);
    sim_job_destroy(job);
}

/* ---- shared homes ---- */

static void test_shared_home(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(4);
    bring(job, three);
    job->kinds.syncs[1] = (struct sim_sync_step){
        .name = "data", .tree_name = "data", .root = "/data", .tree = job->kinds.syncs[0].tree, .own = true};
    sim_share_home(job->net, 2, 1);
    sim_share_home(job->net, 3, 1);
    assert_int_equal(sim_job_run(job, 0), 0);
    for (uint32_t n = 0; n < 4; n++) {
        assert_int_equal(sim_started(job->net, n, "setup:sync"), n < 2);
        assert_int_equal(sim_started(job->net, n, "setup:data"), 1);
        assert_int_equal(sim_started(job->net, n, "launch"), 1);
    }
    assert_int_equal(sim_job_mode(job, RUN_VERIFY, 0), 0);
    assert_int_equal(job->result.verified_nodes, 4);
    /* the first of them is asked for all */
    sim_wipe(job->net, 1, "setup:sync");
    assert_int_equal(sim_job_mode(job, RUN_VERIFY, 0), 0);
    assert_int_equal(job->result.unverified_nodes, 3);
    assert_int_equal(sim_job_run(job, RUN_FLAG_AGAIN), 0);
    for (uint32_t n = 0; n < 4; n++)
        assert_int_equal(sim_started(job->net, n, "setup:sync"), n == 1 ? 2 : n < 2);
    sim_job_destroy(job);
}

static void test_shared_home_fails(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(3);
    bring(job, three);
    sim_share_home(job->net, 2, 1);
    sim_disk(job->net, 1, 100);
    assert_int_equal(sim_job_run(job, 0), 3);
    assert_int_equal(sim_started(job->net, 2, "setup:sync"), 0);
    sim_disk(job->net, 1, UINT64_MAX);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(sim_started(job->net, 2, "setup:sync"), 0);
    assert_tree(job, 2);
    sim_job_destroy(job);
}

/* ---- installations ---- */

static void test_verify(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    job->kinds.installs[0] = (struct sim_install_step){"torch", 1};
    job->kinds.installs[1] = (struct sim_install_step){"numpy", 1};
    job->kinds.installs[2] = (struct sim_install_step){"mine", 1};
    assert_int_equal(sim_job_run(job, 0), 0);
    sim_job_quiet(job);
    job->kinds.installs[1].version = 2;
    /* killed when the last is about to be checked: the next controller checks it */
    play_trap(&play, 1, WIRE_RUN, "setup:mine", 0, SIM_CUT_BEFORE);
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    while (!sim_is_cut(job->net))
        loop_turn(job->loop, true);
    sim_job_kill(job, 0);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_said(job, "step \"mine\" runs again: to see whether numpy changed it");
    for (uint32_t n = 0; n < 2; n++) {
        assert_int_equal(sim_started(job->net, n, "setup:torch"), 1);
        assert_int_equal(sim_started(job->net, n, "setup:numpy"), 2);
        assert_int_equal(sim_started(job->net, n, "setup:mine"), 2);
    }
    /* only after a program ran */
    assert_int_equal(sim_job_run(job, RUN_FLAG_AGAIN), 0);
    assert_int_equal(sim_started(job->net, 0, "setup:mine"), 2);
    sim_job_destroy(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_and_nothing_changed),
        cmocka_unit_test(test_only_the_difference),
        cmocka_unit_test(test_changed_on_the_node),
        cmocka_unit_test(test_unknown_base),
        cmocka_unit_test(test_missing_only),
        cmocka_unit_test(test_big_files),
        cmocka_unit_test(test_contents_are_shared),
        cmocka_unit_test(test_disk_full),
        cmocka_unit_test(test_store_is_damaged),
        cmocka_unit_test(test_cut_at_every_frame),
        cmocka_unit_test(test_interrupt),
        cmocka_unit_test(test_power_lost),
        cmocka_unit_test(test_not_under_a_running_launch),
        cmocka_unit_test(test_shared_home),
        cmocka_unit_test(test_shared_home_fails),
        cmocka_unit_test(test_verify),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
