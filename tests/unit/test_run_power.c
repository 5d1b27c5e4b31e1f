/*
 * run: a node that loses power, or is replaced, while a controller watches and while none does. Settled work is kept;
 * other work is unknown, is done again before anything depends on it, and never counts as success.
 */
#include "sim_job.h"

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Programs whose first start on their node runs until it is ended; all others end at once. */
struct endless {
    struct {
        uint32_t node;
        const char *slot;
    } items[4];
};

static void program(void *arg, uint32_t node, const struct wire_run *run, uint32_t nth, struct sim_program *ret)
{
    const struct endless *e = arg;
    for (size_t i = 0; i < ARRAY_LEN(e->items); i++)
        if (e->items[i].slot && e->items[i].node == node && strcmp(run->slot, e->items[i].slot) == 0 && nth == 1)
            ret->endless = true;
}

static struct sim_job *job_create(uint32_t nodes, struct endless *e)
{
    struct sim_script script = {.program = program, .arg = e};
    return sim_job_create(nodes, &script);
}

static bool at_step_two(struct sim_job *job)
{
    return sim_started(job->net, 0, "setup:two") == 1;
}

/* Node 0's part of the launch is done and recorded, node 1's still runs. */
static bool half_launched(struct sim_job *job)
{
    return sim_started(job->net, 1, "launch") == 1 && sim_job_said(job, "finished launch@0 ok");
}

static bool launched(struct sim_job *job)
{
    return sim_started(job->net, 0, "launch") == 1 && sim_started(job->net, 1, "launch") == 1;
}

/* ---- set-up ---- */

/* vanish: which unsettled records are gone; 0 = by luck all were written. */
static void reboot_within_setup(uint64_t vanish, bool controller_dies)
{
    struct endless e = {{{0, "setup:two"}}};
    struct sim_job *job = job_create(1, &e);
    sim_job_step(job, "one");
    sim_job_step(job, "two");
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    assert_true(sim_job_turns(job, at_step_two));
    if (controller_dies)
        sim_job_kill(job, 0);
    sim_reboot(job->net, 0, vanish);
    if (controller_dies) {
        assert_int_equal(sim_job_run(job, 0), 0);
    } else {
        sim_job_wait(job);
        sim_job_close(job);
        assert_int_equal(job->result.exit_status, 0);
    }
    assert_int_equal(sim_started(job->net, 0, "setup:one"), 2);
    assert_int_equal(sim_started(job->net, 0, "setup:two"), 2);
    assert_int_equal(sim_started(job->net, 0, "launch"), 1);
    /* The order: "one" again before "two" again before the launch. */
    static const char *const order[] = {"setup:one", "setup:two", "setup:one", "setup:two", "launch"};
    size_t count;
    const struct sim_start *starts = sim_starts(job->net, &count);
    assert_int_equal(count, ARRAY_LEN(order));
    for (size_t i = 0; i < count; i++)
        assert_string_equal(starts[i].slot, order[i]);
    assert_true(sim_job_said(job, "unknown"));
    sim_job_destroy(job);
}

static void test_reboot_within_setup(void **state)
{
    (void)state;
    for (int dies = 0; dies < 2; dies++) {
        reboot_within_setup(UINT64_MAX, dies);
        reboot_within_setup(0, dies);
        reboot_within_setup(1, dies);
        reboot_within_setup(2, dies);
    }
}

static bool is_decided(struct sim_job *job)
{
    return journal_state(job->journal)->cell_count > 0;
}

static bool is_back(struct sim_job *job)
{
    return sim_frames(job->net, WIRE_LIST) == 2 && journal_state(job->journal)->cells[0].outcome == OUTCOME_UNKNOWN;
}

/* A slow disk delays the start event, and meanwhile the node restarts: the step has not begun. */
static void test_reboot_before_it_is_durable(void **unused)
{
    (void)unused;
    struct endless e = {0};
    struct sim_job *job = job_create(1, &e);
    sqlite3 *db;
    sim_job_step(job, "one");
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    CLEANUP(cleanup_free) char *path = xasprintf("%s/journal.db", journal_path(job->journal));
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    assert_true(sim_job_turns(job, is_decided));
    sim_reboot(job->net, 0, 0);
    assert_true(sim_job_turns(job, is_back));
    assert_int_equal(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    sim_job_wait(job);
    sim_job_close(job);
    assert_int_equal(job->result.exit_status, 0);
    assert_said(job, "finished one@0 not_started");
    assert_int_equal(sim_started(job->net, 0, "setup:one"), 1);
    sim_job_destroy(job);
}

/* `on_unknown: fail` holds until the user asks for the step by name. */
static void test_unknown_that_fails(void **state)
{
    (void)state;
    struct endless e = {{{0, "setup:two"}}};
    struct sim_job *job = job_create(1, &e);
    sim_job_step(job, "one");
    sim_job_step(job, "two")->on_unknown_fail = true;
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    assert_true(sim_job_turns(job, at_step_two));
    sim_job_kill(job, 0);
    sim_reboot(job->net, 0, UINT64_MAX);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sim_job_run(job, 0), 1);
        assert_non_null(strstr(job->result.error.text, "step \"two\": its outcome is unknown"));
        assert_non_null(strstr(job->result.error.hint, "--from two"));
        assert_int_equal(sim_started(job->net, 0, "setup:two"), 1);
        assert_int_equal(sim_started(job->net, 0, "launch"), 0);
    }
    job->from_step = "two";
    assert_int_equal(sim_job_run(job, RUN_FLAG_FROM), 0);
    assert_int_equal(sim_started(job->net, 0, "setup:two"), 2);
    assert_int_equal(sim_started(job->net, 0, "launch"), 1);
    sim_job_destroy(job);
}

/* ---- launch ---- */

static void reboot_within_launch(bool (*when)(struct sim_job *), uint32_t restarts, uint64_t vanish,
                                 bool controller_dies)
{
    struct endless e = {{{1, "launch"}, {when == launched ? 0u : 9u, "launch"}}};
    struct sim_job *job = job_create(2, &e);
    sim_job_step(job, "one");
    job->spec.distributed.max_restarts = restarts;
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    assert_true(sim_job_turns(job, when));
    if (controller_dies)
        sim_job_kill(job, 0);
    sim_reboot(job->net, 0, vanish);
    if (controller_dies) {
        sim_job_run(job, 0);
    } else {
        sim_job_wait(job);
        sim_job_close(job);
    }
    assert_int_equal(job->result.exit_status, restarts ? 0 : 1);
    for (uint32_t n = 0; n < 2; n++) {
        assert_int_equal(sim_started(job->net, n, "setup:one"), 1); /* settled */
        assert_int_equal(sim_started(job->net, n, "launch"), restarts ? 2 : 1);
    }
    if (!restarts) {
        assert_non_null(strstr(job->result.error.text, "unknown"));
        assert_non_null(strstr(job->result.error.text, "n0"));
        assert_int_equal(sim_job_run(job, 0), 0);
        assert_int_equal(sim_started(job->net, 0, "launch"), 2);
        assert_int_equal(sim_started(job->net, 1, "launch"), 2);
        assert_int_equal(sim_started(job->net, 0, "setup:one"), 1);
    }
    sim_job_destroy(job);
}

static void test_reboot_within_launch(void **state)
{
    (void)state;
    for (int dies = 0; dies < 2; dies++)
        for (uint32_t restarts = 0; restarts < 2; restarts++) {
            reboot_within_launch(launched, restarts, UINT64_MAX, dies);
            reboot_within_launch(launched, restarts, 0, dies);
        }
}

/* One node's workers had ended well; their files were lost with the power while the other node still ran. */
static void test_reboot_of_a_finished_part(void **state)
{
    (void)state;
    for (int dies = 0; dies < 2; dies++)
        for (uint32_t restarts = 0; restarts < 2; restarts++) {
            reboot_within_launch(half_launched, restarts, UINT64_MAX, dies);
            reboot_within_launch(half_launched, restarts, 0, dies);
        }
}

/* Another machine answers in the middle of a launch: its set-up comes first. */
static void test_replaced_within_launch(void **state)
{
    (void)state;
    struct endless e = {{{0, "launch"}, {1, "launch"}}};
    struct sim_job *job = job_create(2, &e);
    sim_job_step(job, "one");
    job->spec.distributed.max_restarts = 1;
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    assert_true(sim_job_turns(job, launched));
    sim_reinstall(job->net, 0);
    sim_job_wait(job);
    sim_job_close(job);
    assert_int_equal(job->result.exit_status, 0);
    assert_int_equal(sim_started(job->net, 0, "setup:one"), 2);
    assert_int_equal(sim_started(job->net, 1, "setup:one"), 1);
    assert_int_equal(sim_started(job->net, 0, "launch"), 2);
    size_t count;
    const struct sim_start *starts = sim_starts(job->net, &count);
    size_t second_setup = 0, second_launch = 0;
    for (size_t i = 4; i < count; i++) {
        if (strcmp(starts[i].slot, "setup:one") == 0)
            second_setup = i;
        else if (!second_launch && strcmp(starts[i].slot, "launch") == 0)
            second_launch = i;
    }
    assert_true(second_setup > 0 && second_launch > second_setup);
    sim_job_destroy(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reboot_within_setup),       cmocka_unit_test(test_reboot_before_it_is_durable),
        cmocka_unit_test(test_unknown_that_fails),        cmocka_unit_test(test_reboot_within_launch),
        cmocka_unit_test(test_reboot_of_a_finished_part), cmocka_unit_test(test_replaced_within_launch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
