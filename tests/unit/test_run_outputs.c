/* run: outputs of simulated nodes come home: unchanged, never outside their folder, once, whatever is cut or killed. */
#include "sim_play.h"

#include "../../src/run/landing.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static struct sim_play play;

static struct sim_job *begin(uint32_t nodes)
{
    const struct sim_script script = play_script(&play);
    struct sim_job *job = sim_job_create(nodes, &script);
    job->liveness_ms = job->hello_ms = 300;
    job->kinds.fetches[0] = (struct sim_fetch_step){
        .name = "outputs-1", .from = "out/", .to = arena_printf(job->arena, "%s/results", job->home)};
    return job;
}

static const char *local(const struct sim_job *job, uint32_t node, const char *path)
{
    return arena_printf(job->arena, "%s/results/n%u/%s", job->home, node, path);
}

static const char *content(struct sim_job *job, const char *path, unsigned version, uint64_t size)
{
    uint8_t oid[TREE_OID_SIZE];
    char *text = arena_alloc(job->arena, size + 1);
    sim_oid(path, version, size, oid);
    sim_content(oid, 0, text, size);
    return text;
}

static void assert_file(struct sim_job *job, uint32_t node, const char *path, unsigned version, uint64_t size,
                        mode_t mode)
{
    struct buf text = {0};
    struct stat st;
    struct error err = ERROR_INIT;
    const char *here = local(job, node, path);
    CLEANUP(cleanup_free) char *there = xasprintf("/home/me/out/%s", path);
    if (file_read(here, 64 << 20, &text, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(text.len, size);
    if (size)
        assert_memory_equal(text.data, content(job, there, version, size), size);
    assert_int_equal(lstat(here, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(st.st_mode & 0777, mode);
    buf_free(&text);
}

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

/* ---- unchanged ---- */

static void test_plain(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    for (uint32_t n = 0; n < 2; n++) {
        sim_make(job->net, n, "/home/me/out/a", 1, 10, 0100644);
        sim_make(job->net, n, "/home/me/out/bin/tool", 1, 100000, 0100755);
        sim_make(job->net, n, "/home/me/out/empty", 1, 0, 0100600);
        sim_make_folder(job->net, n, "/home/me/out/d/e");
        sim_make_link(job->net, n, "/home/me/out/d/good", "../a");
        sim_make_link(job->net, n, "/home/me/out/d/bad", "../../../../etc/passwd");
        sim_make(job->net, n, "/home/me/other", 1, 10, 0100644);
    }
    assert_int_equal(sim_job_run(job, 0), 0);
    for (uint32_t n = 0; n < 2; n++) {
        char target[32] = {0};
        assert_file(job, n, "a", 1, 10, 0644);
        assert_file(job, n, "bin/tool", 1, 100000, 0755);
        assert_file(job, n, "empty", 1, 0, 0600);
        assert_true(exists(local(job, n, "d/e")));
        assert_int_equal(readlink(local(job, n, "d/good"), target, sizeof target - 1), 4);
        assert_string_equal(target, "../a");
        assert_false(exists(local(job, n, "d/bad")));
    }
    assert_said(job, "the link \"d/bad\" is left out");
    assert_said(job, "note: outputs-1: 6 files, 200.0 kB fetched");
    assert_said(job, "finished outputs-1@1 ok");
    assert_int_equal(job->result.status, RUN_DONE);
    CLEANUP(cleanup_free) char *listing = xasprintf("ls -A %s/results/n0 | grep -q rhrun", job->home);
    assert_int_not_equal(system(listing), 0); /* no parts are left */
    sim_job_destroy(job);
}

/* A file that is here and unchanged on both sides is not sent again. */
static void test_again(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(1);
    sim_make(job->net, 0, "/home/me/out/a", 1, 10, 0100644);
    sim_make(job->net, 0, "/home/me/out/b", 1, 20, 0100644);
    sim_make(job->net, 0, "/home/me/out/c", 1, 30, 0100644);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(sim_frames(job->net, WIRE_GET), 3);
    assert_int_equal(sim_job_run(job, RUN_FLAG_AGAIN), 0);
    assert_int_equal(sim_frames(job->net, WIRE_GET), 3);
    sim_make(job->net, 0, "/home/me/out/a", 2, 11, 0100644);
    assert_int_equal(unlink(local(job, 0, "b")), 0);
    struct error err = ERROR_INIT;
    assert_int_equal(file_write_atomic(local(job, 0, "c"), "mine", 4, 0644, &err), 0);
    assert_int_equal(sim_job_run(job, RUN_FLAG_AGAIN), 0);
    assert_int_equal(sim_frames(job->net, WIRE_GET), 6);
    assert_file(job, 0, "a", 2, 11, 0644);
    assert_file(job, 0, "b", 1, 20, 0644);
    assert_file(job, 0, "c", 1, 30, 0644);
    assert_int_equal(sim_job_run(job, RUN_FLAG_AGAIN), 0);
    assert_int_equal(sim_frames(job->net, WIRE_GET), 6);
    sim_job_destroy(job);
}

static void test_many(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    for (unsigned i = 0; i < 700; i++) {
        char path[64];
        snprintf(path, sizeof path, "/home/me/out/d%u/f%u", i % 7, i);
        sim_make(job->net, 0, path, 1, i * 37 % 5000, 0100644);
    }
    sim_make(job->net, 1, "/home/me/out/big", 1, 9 << 20, 0100644);
    assert_int_equal(sim_job_run(job, 0), 0);
    for (unsigned i = 0; i < 700; i++) {
        char path[64];
        snprintf(path, sizeof path, "d%u/f%u", i % 7, i);
        assert_file(job, 0, path, 1, i * 37 % 5000, 0644);
    }
    assert_file(job, 1, "big", 1, 9 << 20, 0644);
    sim_job_destroy(job);
}

static void test_one_file_and_when(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(1);
    job->kinds.fetches[0].from = "out/a";
    job->kinds.fetches[1] = job->kinds.fetches[0];
    job->kinds.fetches[1].name = "outputs-2";
    job->kinds.fetches[1].from = "out/b";
    job->kinds.fetches[1].when = WHEN_SUCCESS;
    sim_make(job->net, 0, "/home/me/out/a", 1, 10, 0100644);
    sim_make(job->net, 0, "/home/me/out/b", 1, 10, 0100644);
    play_does(&play, 0, "launch", 1, (struct sim_program){.status = 3});
    assert_int_equal(sim_job_run(job, 0), 1);
    assert_non_null(strstr(job->result.error.text, "exit status 3"));
    assert_file(job, 0, "a", 1, 10, 0644);
    assert_false(exists(local(job, 0, "b")));
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_file(job, 0, "b", 1, 10, 0644);
    sim_job_destroy(job);
}

static void test_nothing_there(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(1);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_said(job, "step \"outputs-1\": no file is there: \"out/\"");
    job->kinds.fetches[0].required = true;
    assert_int_equal(sim_job_run(job, RUN_FLAG_AGAIN), 1);
    assert_string_equal(job->result.error.text, "node \"n0\": step \"outputs-1\": no file is there: \"out/\"");
    assert_int_equal(job->result.status, RUN_FAILED);
    sim_job_destroy(job);
}

/* ---- never outside ---- */

static void test_paths(void **unused)
{
    static const char *const bad[] = {"", "/a", "../a", "a/../b", "a//b", "a/", "./a", "a/.", ".."};
    static const char *const good[] = {"a", "a/b", "..a", "a..b/c...", ".hidden"};
    static const struct {
        const char *path, *target;
        bool inside;
    } links[] = {{"a", "b", true},          {"d/a", "../b", true}, {"d/e/a", "../../b/c", true},
                 {"a", "./b", true},        {"a", "..", false},    {"a", "../b", false},
                 {"d/a", "../../b", false}, {"a", "/etc", false},  {"d/a", "e/../../x", false},
                 {"d/a", "e/..", false},    {"a", "", false},      {"d/a", "..", true}};
    (void)unused;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(landing_path_valid(bad[i]));
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_true(landing_path_valid(good[i]));
    for (size_t i = 0; i < ARRAY_LEN(links); i++)
        assert_int_equal(landing_link_inside(links[i].path, links[i].target), links[i].inside);
}

/* A folder here is a link to elsewhere: nothing is written through it, the run stays open, and goes on once it is gone. */
static void test_link_in_the_way(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(1);
    const char *outside = arena_printf(job->arena, "%s/outside", job->home);
    struct error err = ERROR_INIT;
    sim_make(job->net, 0, "/home/me/out/aaa", 1, 10, 0100644);
    sim_make(job->net, 0, "/home/me/out/sub/file", 1, 10, 0100644);
    assert_int_equal(mkdir_p(local(job, 0, ""), 0755, &err), 0);
    assert_int_equal(mkdir_p(outside, 0755, &err), 0);
    assert_int_equal(symlink(outside, local(job, 0, "sub")), 0);
    assert_int_equal(sim_job_run(job, 0), 3);
    assert_int_equal(job->result.status, RUN_OPEN);
    assert_non_null(strstr(job->result.error.text, "a link or a file is in the way of a folder"));
    assert_false(exists(arena_printf(job->arena, "%s/file", outside)));
    assert_int_equal(unlink(local(job, 0, "sub")), 0);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_file(job, 0, "sub/file", 1, 10, 0644);
    assert_int_equal(sim_started(job->net, 0, "launch"), 1);
    sim_job_destroy(job);
}

/* ---- failures ---- */

static void cut_at(enum wire_type type, uint32_t skip, enum sim_fault fault)
{
    struct sim_job *job = begin(2);
    sim_make(job->net, 0, "/home/me/out/a", 1, 10, 0100644);
    sim_make(job->net, 1, "/home/me/out/b", 1, 3 << 20, 0100644);
    sim_make(job->net, 1, "/home/me/out/c", 1, 5, 0100644);
    play_trap(&play, ANY, type, NULL, skip, fault);
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    while (!job->finished && !sim_is_cut(job->net))
        loop_turn(job->loop, true);
    if (sim_is_cut(job->net)) {
        sim_job_kill(job, 3);
        assert_int_equal(sim_job_run(job, 0), 0);
    } else {
        sim_job_close(job);
        assert_int_equal(job->result.exit_status, 0);
    }
    assert_file(job, 0, "a", 1, 10, 0644);
    assert_file(job, 1, "b", 1, 3 << 20, 0644);
    assert_file(job, 1, "c", 1, 5, 0644);
    assert_int_equal(sim_started(job->net, 0, "launch"), 1);
    assert_int_equal(sim_started(job->net, 1, "launch"), 1);
    assert_true(sim_job_is_done(job));
    sim_job_destroy(job);
}

static void test_cut(void **unused)
{
    static const enum sim_fault faults[] = {SIM_DROP_BEFORE, SIM_DROP_AFTER, SIM_CUT_BEFORE, SIM_CUT_AFTER};
    (void)unused;
    for (size_t k = 0; k < ARRAY_LEN(faults); k++) {
        for (uint32_t skip = 0; skip < 2; skip++)
            cut_at(WIRE_GLOB, skip, faults[k]);
        for (uint32_t skip = 0; skip < 3; skip++)
            cut_at(WIRE_GET, skip, faults[k]);
    }
}

static bool part_is_here(struct sim_job *job)
{
    return job->run && sim_got_bytes(job->net) > 0;
}

static bool rename_pending(struct sim_job *job)
{
    CLEANUP(cleanup_free)
    char *command = xasprintf("ls -A %s/results/n0/.rhrun-*/* >/dev/null 2>&1", job->home);
    return part_is_here(job) && system(command) == 0;
}

static void test_killed_within_a_file(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(1);
    sim_make(job->net, 0, "/home/me/out/big", 1, 20 << 20, 0100644);
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    assert_true(sim_job_turns(job, rename_pending));
    sim_job_kill(job, 0);
    assert_false(exists(local(job, 0, "big"))); /* never half of it under its name */
    uint64_t before = sim_got_bytes(job->net);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_file(job, 0, "big", 1, 20 << 20, 0644);
    assert_true(sim_got_bytes(job->net) - before <= 20 << 20);
    assert_int_equal(sim_started(job->net, 0, "launch"), 1);
    sim_job_destroy(job);
}

struct changing {
    struct sim_job *job;
    unsigned version, last;
};

static enum sim_fault change_on_get(void *arg, uint32_t node, enum wire_type type, const char *slot)
{
    struct changing *c = arg;
    (void)slot;
    if (type == WIRE_GET && c->version < c->last)
        c->version++, sim_make(c->job->net, node, "/home/me/out/a", c->version, 10 + c->version, 0100644);
    return SIM_PASS;
}

static void test_changes_while_fetched(void **unused)
{
    (void)unused;
    for (unsigned last = 3; last < 10; last += 6) { /* it stops changing in time, or does not */
        struct changing c = {NULL, 1, last};
        const struct sim_script script = {.frame = change_on_get, .arg = &c};
        struct sim_job *job = c.job = sim_job_create(1, &script);
        job->kinds.fetches[0] = (struct sim_fetch_step){
            .name = "outputs-1", .from = "out/", .to = arena_printf(job->arena, "%s/results", job->home)};
        sim_make(job->net, 0, "/home/me/out/a", 1, 11, 0100644);
        assert_int_equal(sim_job_run(job, 0), 0);
        if (last == 3)
            assert_file(job, 0, "a", 3, 13, 0644);
        else
            assert_said(job, "\"a\" changes while it is fetched");
        assert_int_equal(sim_frames(job->net, WIRE_GET), 3);
        sim_job_destroy(job);
    }
}

static bool in_launch(struct sim_job *job)
{
    return sim_started(job->net, 0, "launch") == 1 && sim_started(job->net, 1, "launch") == 1;
}

/* A node is lost for good before its files came: the run stays open and fetches them when it is back. */
static void test_node_lost(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    job->reconnect_ms = 20;
    sim_make(job->net, 0, "/home/me/out/a", 1, 10, 0100644);
    sim_make(job->net, 1, "/home/me/out/a", 1, 10, 0100644);
    play_trap(&play, 1, WIRE_GLOB, NULL, 0, SIM_DROP_BEFORE);
    play.refusals[1] = 0;
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    while (!job->finished) {
        if (sim_frames(job->net, WIRE_GLOB) >= 2)
            sim_away(job->net, 1, true);
        loop_turn(job->loop, true);
    }
    sim_job_close(job);
    assert_int_equal(job->result.exit_status, 3);
    assert_int_equal(job->result.status, RUN_OPEN);
    sim_away(job->net, 1, false);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_file(job, 1, "a", 1, 10, 0644);
    assert_int_equal(sim_started(job->net, 1, "launch"), 1);
    sim_job_destroy(job);
}

static bool fetching(struct sim_job *job)
{
    return sim_frames(job->net, WIRE_GET) > 0;
}

static void test_interrupted_while_fetching(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(1);
    sim_make(job->net, 0, "/home/me/out/a", 1, 1 << 20, 0100644);
    play_trap(&play, 0, WIRE_GET, NULL, 0, SIM_IGNORE);
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    assert_true(sim_job_turns(job, fetching));
    run_interrupt(job->run, SIGINT);
    sim_job_wait(job);
    sim_job_close(job);
    assert_int_equal(job->result.exit_status, 130);
    assert_int_equal(job->result.status, RUN_OPEN);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_file(job, 0, "a", 1, 1 << 20, 0644);
    assert_int_equal(sim_started(job->net, 0, "launch"), 1);
    sim_job_destroy(job);
}

static bool said_launched(struct sim_job *job)
{
    return sim_job_said(job, "finished launch@1 ok") && sim_job_said(job, "finished launch@0 ok");
}

/* Only outputs are left to do: another machine in a node's place needs no set-up, and none of it can fail. */
static void test_replaced_while_only_outputs_are_left(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    sim_job_step(job, "deps");
    for (uint32_t n = 0; n < 2; n++)
        sim_make(job->net, n, "/home/me/out/a", n, 10, 0100644);
    play_trap(&play, ANY, WIRE_GET, NULL, 0, SIM_IGNORE);
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    assert_true(sim_job_turns(job, fetching));
    assert_true(said_launched(job));
    sim_job_kill(job, 0);
    sim_reinstall(job->net, 1);
    sim_make(job->net, 1, "/home/me/out/a", 1, 10, 0100644);
    play_does(&play, 1, "setup:deps", 0, (struct sim_program){.status = 5});
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_file(job, 1, "a", 1, 10, 0644);
    assert_int_equal(sim_started(job->net, 1, "setup:deps"), 1);
    assert_int_equal(sim_started(job->net, 1, "launch"), 1);
    sim_job_destroy(job);
}

static void test_cancelled_run(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    sim_make(job->net, 0, "/home/me/out/a", 1, 10, 0100644);
    sim_make(job->net, 1, "/home/me/out/a", 1, 10, 0100644);
    play_does(&play, ANY, "launch", 1, (struct sim_program){.endless = true});
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    assert_true(sim_job_turns(job, in_launch));
    run_interrupt(job->run, SIGINT);
    sim_job_wait(job);
    sim_job_close(job);
    assert_int_equal(job->result.exit_status, 130);
    assert_int_equal(job->result.status, RUN_CANCELLED);
    assert_file(job, 0, "a", 1, 10, 0644);
    assert_file(job, 1, "a", 1, 10, 0644);
    sim_job_destroy(job);
}

static bool second_version(struct sim_job *job)
{
    struct stat st;
    return stat(local(job, 0, "a"), &st) == 0 && st.st_size == 12;
}

static bool first_version(struct sim_job *job)
{
    struct stat st;
    return stat(local(job, 0, "a"), &st) == 0 && st.st_size == 11;
}

static void test_periodic(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    job->kinds.fetches[0].every_ms = 5;
    job->kinds.fetches[0].first = true;
    sim_make(job->net, 0, "/home/me/out/a", 1, 11, 0100644);
    play_does(&play, ANY, "launch", 1, (struct sim_program){.endless = true});
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    assert_true(sim_job_turns(job, in_launch));
    assert_true(sim_job_turns(job, first_version));
    sim_make(job->net, 0, "/home/me/out/a", 2, 12, 0100644);
    assert_true(sim_job_turns(job, second_version));
    sim_make(job->net, 0, "/home/me/out/a", 3, 13, 0100644);
    sim_end(job->net, 0, "launch", 0);
    sim_end(job->net, 1, "launch", 0);
    sim_job_wait(job);
    sim_job_close(job);
    assert_int_equal(job->result.exit_status, 0);
    assert_file(job, 0, "a", 3, 13, 0644);
    sim_job_destroy(job);
}

/* Nothing can be written here: the error names the file, the run stays open. */
static void test_no_room_here(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    struct error err = ERROR_INIT;
    const char *in_the_way = arena_printf(job->arena, "%s/results/n1", job->home);
    sim_make(job->net, 0, "/home/me/out/a", 1, 10, 0100644);
    sim_make(job->net, 1, "/home/me/out/a", 1, 10, 0100644);
    assert_int_equal(mkdir_p(arena_printf(job->arena, "%s/results", job->home), 0755, &err), 0);
    assert_int_equal(file_write_atomic(in_the_way, "x", 1, 0644, &err), 0);
    assert_int_equal(sim_job_run(job, 0), 3);
    assert_int_equal(job->result.status, RUN_OPEN);
    assert_non_null(strstr(job->result.error.text, "node \"n1\": step \"outputs-1\":"));
    assert_file(job, 0, "a", 1, 10, 0644);
    assert_int_equal(unlink(in_the_way), 0);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_file(job, 1, "a", 1, 10, 0644);
    assert_int_equal(sim_started(job->net, 0, "launch"), 1);
    sim_job_destroy(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_one_file_and_when),
        cmocka_unit_test(test_nothing_there),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_link_in_the_way),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_killed_within_a_file),
        cmocka_unit_test(test_changes_while_fetched),
        cmocka_unit_test(test_node_lost),
        cmocka_unit_test(test_interrupted_while_fetching),
        cmocka_unit_test(test_replaced_while_only_outputs_are_left),
        cmocka_unit_test(test_cancelled_run),
        cmocka_unit_test(test_periodic),
        cmocka_unit_test(test_no_room_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
