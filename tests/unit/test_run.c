/* run: set-up on simulated nodes: which steps are kept, which run again and why, and the cost of a lost connection,
 * node, supervisor or state directory. The launch is in test_run_launch.c. */
#include "sim_play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PROGRAM(...) ((struct sim_program){__VA_ARGS__})

static struct sim_play play;

static struct sim_job *begin(uint32_t nodes)
{
    const struct sim_script script = play_script(&play);
    struct sim_job *job = sim_job_create(nodes, &script);
    sim_job_step(job, "deps");
    return job;
}

/* ---- success, and the run after it ---- */

static void test_plain_success(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    sim_job_step(job, "data")->on = ON_FIRST;
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(job->result.status, RUN_DONE);
    assert_false(job->result.has_cause);
    for (uint32_t n = 0; n < 2; n++) {
        assert_int_equal(sim_started(job->net, n, "setup:deps"), 1);
        assert_int_equal(sim_started(job->net, n, "setup:data"), n == 0);
        assert_int_equal(sim_started(job->net, n, "launch"), 1);
    }
    assert_int_equal(sim_job_events(job, EVENT_SETTLED), 2);
    assert_int_equal(sim_job_mode(job, RUN_VERIFY, 0), 0);
    assert_true(job->result.nothing_to_do);
    assert_int_equal(job->result.verified_nodes, 2);
    sim_job_destroy(job);
}

static void test_flags(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(1);
    sim_job_step(job, "data");
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(sim_job_run(job, RUN_FLAG_AGAIN), 0);
    assert_int_equal(sim_started(job->net, 0, "setup:deps"), 1);
    assert_int_equal(sim_started(job->net, 0, "launch"), 2);
    job->from_step = "data";
    sim_job_quiet(job);
    assert_int_equal(sim_job_run(job, RUN_FLAG_FROM), 0);
    assert_int_equal(sim_started(job->net, 0, "setup:deps"), 1);
    assert_int_equal(sim_started(job->net, 0, "setup:data"), 2);
    assert_int_equal(sim_started(job->net, 0, "launch"), 3);
    assert_said(job, "step \"data\" runs again: --fresh or --from asks for it");
    assert_int_equal(sim_job_run(job, RUN_FLAG_FRESH), 0);
    assert_int_equal(sim_started(job->net, 0, "setup:deps"), 2);
    assert_int_equal(sim_started(job->net, 0, "setup:data"), 3);
    job->from_step = "dtaa";
    assert_int_equal(sim_job_run(job, RUN_FLAG_FROM), -1);
    assert_error(job, "there is no step \"dtaa\"");
    assert_non_null(strstr(job->result.error.hint, "data"));
    sim_job_destroy(job);
}

static bool is_cut(struct sim_job *job)
{
    return sim_is_cut(job->net);
}

/* A run that was opened with a flag and killed continues under it: finished steps are not done a second time. */
static void test_resume_keeps_flags(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(1);
    sim_job_step(job, "data");
    assert_int_equal(sim_job_run(job, 0), 0);
    play_trap(&play, 0, WIRE_RUN, "setup:data", 0, SIM_CUT_BEFORE);
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, RUN_FLAG_FRESH), 0);
    assert_true(sim_job_turns(job, is_cut));
    sim_job_kill(job, 0);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(sim_started(job->net, 0, "setup:deps"), 2);
    assert_int_equal(sim_started(job->net, 0, "setup:data"), 2);
    assert_int_equal(sim_started(job->net, 0, "launch"), 2);
    assert_int_equal(sim_job_events(job, EVENT_RUN_OPENED), 2);
    sim_job_destroy(job);
}

static bool deps_started(struct sim_job *job)
{
    return sim_started(job->net, 0, "setup:deps") == 1;
}

/* Programs of an earlier run are being stopped, and end while their node is away: nobody waits for their end. */
static void test_leftover_ends_unheard(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(1);
    play_does(&play, 0, "setup:deps", 1, PROGRAM(.endless = true));
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    assert_true(sim_job_turns(job, deps_started));
    sim_job_kill(job, 0);
    job->setup[0].run.text = "make other";
    play_trap(&play, 0, WIRE_SIGNAL, NULL, 0, SIM_DROP_AFTER);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_said(job, "stopping an attempt of \"setup:deps\"");
    assert_int_equal(sim_started(job->net, 0, "setup:deps"), 2);
    sim_job_destroy(job);
}

/* ---- contradictions: journal and ledger must agree ---- */

static void test_contradictions(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    job->setup[0].creates.text = "deps.ok";
    assert_int_equal(sim_job_run(job, 0), 0);

    sim_wipe(job->net, 1, "setup:deps");
    assert_int_equal(sim_job_run(job, RUN_FLAG_AGAIN), 0);
    assert_said(job, "step \"deps\" runs again: the node's ledger has no record of it");
    assert_int_equal(sim_started(job->net, 0, "setup:deps"), 1);
    assert_int_equal(sim_started(job->net, 1, "setup:deps"), 2);

    sim_job_quiet(job);
    sim_path_gone(job->net, 0, "deps.ok");
    assert_int_equal(sim_job_mode(job, RUN_VERIFY, 0), 0);
    assert_int_equal(job->result.unverified_nodes, 1);
    assert_string_equal(job->unverified, "node \"n0\": step \"deps\": what it creates is gone");
    assert_int_equal(sim_job_run(job, RUN_FLAG_AGAIN), 0);
    assert_said(job, "step \"deps\" runs again: what it creates is gone");
    assert_int_equal(sim_started(job->net, 0, "setup:deps"), 2);
    assert_int_equal(sim_started(job->net, 1, "setup:deps"), 2);
    sim_path_gone(job->net, 0, NULL);

    sim_job_quiet(job);
    sim_reinstall(job->net, 0);
    assert_int_equal(sim_job_run(job, RUN_FLAG_AGAIN), 0);
    assert_said(job, "step \"deps\" runs again: the node is another machine now");
    assert_int_equal(sim_started(job->net, 0, "setup:deps"), 3);

    sim_job_quiet(job);
    job->setup[0].run.text = "make other deps";
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_said(job, "step \"deps\" runs again: run changed");
    assert_int_equal(sim_started(job->net, 0, "setup:deps"), 4);
    assert_int_equal(sim_started(job->net, 1, "setup:deps"), 3);
    sim_job_destroy(job);
}

/* Settled work survives a reboot; other work is unknown, whatever the ledger still shows. */
static void test_reboot_between_runs(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(1);
    assert_int_equal(sim_job_run(job, 0), 0);
    sim_reboot(job->net, 0, 0);
    assert_int_equal(sim_job_run(job, RUN_FLAG_AGAIN), 0);
    assert_int_equal(sim_started(job->net, 0, "setup:deps"), 1);

    job->from_step = "deps";
    play_trap(&play, 0, WIRE_SETTLE, NULL, 0, SIM_CUT_BEFORE);
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, RUN_FLAG_FROM), 0);
    assert_true(sim_job_turns(job, is_cut));
    sim_job_kill(job, 1);
    sim_reboot(job->net, 0, 0);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_said(job, "step \"deps\" runs again: its outcome is unknown");
    assert_int_equal(sim_started(job->net, 0, "setup:deps"), 3);
    sim_job_destroy(job);
}

static bool port_is_asked(struct sim_job *job)
{
    return sim_frames(job->net, WIRE_SETTLE) > 0;
}

static struct sim_job *rebooted;

/* At exactly that frame: a turn later the node may be back, and its set-up settled. */
static enum sim_fault reboot_at_settle(void *arg, uint32_t node, enum wire_type type, const char *slot)
{
    if (node == 1 && type == WIRE_SETTLE && sim_frames(rebooted->net, WIRE_SETTLE) == 1)
        sim_reboot(rebooted->net, 1, UINT64_MAX);
    return play_frame(arg, node, type, slot);
}

/* The same within one controller: node 1 loses power while node 0 still works. */
static void test_reboot_before_the_barrier(void **unused)
{
    (void)unused;
    struct sim_script script = play_script(&play);
    script.frame = reboot_at_settle;
    struct sim_job *job = rebooted = sim_job_create(2, &script);
    sim_job_step(job, "deps");
    play_does(&play, 0, "setup:deps", 1, PROGRAM(.endless = true));
    play_trap(&play, 1, WIRE_SETTLE, NULL, 0, SIM_DROP_BEFORE);
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    assert_true(sim_job_turns(job, port_is_asked));
    sim_end(job->net, 0, "setup:deps", 0);
    sim_job_wait(job);
    sim_job_close(job);
    assert_int_equal(job->result.exit_status, 0);
    assert_int_equal(sim_started(job->net, 0, "setup:deps"), 1);
    assert_int_equal(sim_started(job->net, 1, "setup:deps"), 2);
    assert_int_equal(sim_started(job->net, 1, "launch"), 1);
    sim_job_destroy(job);
}

/* ---- the order between nodes ---- */

static bool first_runs(struct sim_job *job)
{
    return sim_started(job->net, 0, "setup:shared") == 1 &&
           sim_job_said(job, "step \"use\" waits for \"shared\" on node \"n0\"");
}

/* The other nodes' later items wait for an item that only the first node does; their earlier items do not wait, nor
 * does kept work. */
static void test_an_item_of_the_first_node_holds_back(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(3);
    sim_job_step(job, "shared")->on = ON_FIRST;
    sim_job_step(job, "use");
    play_does(&play, 0, "setup:shared", 1, PROGRAM(.endless = true));
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    assert_true(sim_job_turns(job, first_runs));
    for (uint32_t n = 1; n < 3; n++) {
        assert_int_equal(sim_started(job->net, n, "setup:deps"), 1);
        assert_int_equal(sim_started(job->net, n, "setup:use"), 0);
    }
    sim_job_kill(job, 0); /* the next controller knows it too */
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    assert_true(sim_job_turns(job, first_runs));
    assert_int_equal(sim_started(job->net, 1, "setup:use"), 0);
    sim_end(job->net, 0, "setup:shared", 0);
    assert_int_equal(finish(job), 0);
    for (uint32_t n = 0; n < 3; n++)
        assert_int_equal(sim_started(job->net, n, "setup:use"), 1);
    assert_int_equal(sim_job_run(job, RUN_FLAG_AGAIN), 0);
    assert_int_equal(sim_started(job->net, 0, "setup:shared"), 1);
    assert_int_equal(sim_started(job->net, 2, "setup:use"), 1);
    sim_job_destroy(job);
}

static void test_an_item_that_fails_holds_back_nobody(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    sim_job_step(job, "shared")->on = ON_FIRST;
    sim_job_step(job, "use");
    play_does(&play, 0, "setup:shared", 1, PROGRAM(.status = 4, .turns = 5));
    assert_int_equal(sim_job_run(job, 0), 1);
    assert_error(job, "node \"n0\": step \"shared\": exit status 4");
    assert_int_equal(sim_started(job->net, 1, "setup:use"), 0);
    sim_job_destroy(job);
}

/* ---- steps that fail ---- */

static void test_retry(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    job->setup[0].retry_times = 2;
    play_does(&play, 1, "setup:deps", 1, PROGRAM(.status = 2));
    play_does(&play, 1, "setup:deps", 2, PROGRAM(.status = 2, .turns = 2));
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(sim_started(job->net, 0, "setup:deps"), 1);
    assert_int_equal(sim_started(job->net, 1, "setup:deps"), 3);
    assert_said(job, "step \"deps\" failed; attempt 2 of 3");
    assert_said(job, "step \"deps\" failed; attempt 3 of 3");
    sim_job_destroy(job);
}

static void cut_at_failure(struct sim_job *job, const struct event *e)
{
    if (e->type == EVENT_FINISHED && e->finished.outcome == OUTCOME_FAILED)
        sim_cut(job->net);
}

/* A controller that is killed after each of the failures, the last one too: three attempts, and the same end. */
static void test_retries_over_controllers(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    job->setup[0].retry_times = 2;
    play_does(&play, 1, "setup:deps", 0, PROGRAM(.status = 2));
    job->on_event = cut_at_failure;
    for (uint32_t attempt = 1; attempt <= 3; attempt++) {
        assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
        assert_true(sim_job_turns(job, is_cut));
        sim_job_kill(job, 0);
        assert_int_equal(sim_started(job->net, 1, "setup:deps"), attempt);
    }
    assert_int_equal(sim_job_run(job, 0), 1);
    assert_error(job, "node \"n1\": step \"deps\": exit status 2");
    assert_int_equal(sim_started(job->net, 1, "setup:deps"), 3);
    assert_int_equal(sim_job_events(job, EVENT_RUN_OPENED), 1);
    job->on_event = NULL;
    assert_int_equal(sim_job_run(job, 0), 1); /* another run may try just as often */
    assert_int_equal(sim_started(job->net, 1, "setup:deps"), 6);
    sim_job_destroy(job);
}

static uint32_t failures;

/* The other node continues until the last failure is known, however slow the machine is. */
static void end_other_at_last_failure(struct sim_job *job, const struct event *e)
{
    if (e->type == EVENT_FINISHED && e->finished.outcome == OUTCOME_FAILED && ++failures == 2)
        sim_end(job->net, 0, "setup:deps", 0);
}

static void test_failing_step(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    sim_job_step(job, "data");
    job->setup[0].retry_times = 1;
    play_does(&play, 1, "setup:deps", 0, PROGRAM(.status = 2));
    play_does(&play, 0, "setup:deps", 0, PROGRAM(.endless = true));
    failures = 0;
    job->on_event = end_other_at_last_failure;
    assert_int_equal(sim_job_run(job, 0), 1);
    job->on_event = NULL;
    assert_int_equal(job->result.status, RUN_FAILED);
    assert_error(job, "node \"n1\": step \"deps\": exit status 2");
    assert_int_equal(sim_started(job->net, 1, "setup:deps"), 2);
    assert_int_equal(sim_started(job->net, 0, "setup:deps"), 1); /* finished, and kept */
    assert_int_equal(sim_started(job->net, 0, "setup:data"), 0);
    assert_int_equal(sim_started(job->net, 0, "launch"), 0);
    assert_int_equal(sim_live(job->net), 0);
    play.rule_count = 0;
    sim_job_quiet(job);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_said(job, "step \"deps\" runs again: it failed before");
    assert_int_equal(sim_started(job->net, 0, "setup:deps"), 1);
    assert_int_equal(sim_started(job->net, 1, "setup:deps"), 3);
    sim_job_destroy(job);
}

/* Only the nodes' ledgers are left: half a launch is no launch. */
static void test_half_a_launch_is_not_adopted(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    job->spec.entrypoint.epilog.text = "after";
    play_does(&play, 1, "launch", 1, PROGRAM(.status = 2));
    assert_int_equal(sim_job_run(job, 0), 1);
    assert_said(job, "finished launch@0 ok");
    sim_job_forget(job);
    job->take_over = true;
    assert_int_equal(sim_job_run(job, 0), 0);
    for (uint32_t n = 0; n < 2; n++) {
        assert_int_equal(sim_started(job->net, n, "setup:deps"), 1);
        assert_int_equal(sim_started(job->net, n, "launch"), 2);
        assert_int_equal(sim_started(job->net, n, "epilog"), 2);
    }
    sim_job_destroy(job);
}

static void test_lost_supervisor(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(1);
    play_does(&play, 0, "setup:deps", 1, PROGRAM(.lost = true, .turns = 1));
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_said(job, "finished deps@0 unknown");
    assert_said(job, "step \"deps\": its outcome is unknown; it is done again");
    assert_int_equal(sim_started(job->net, 0, "setup:deps"), 2);
    sim_job_destroy(job);
}

static void test_on_unknown_fail(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(1);
    job->setup[0].on_unknown_fail = true;
    play_does(&play, 0, "setup:deps", 1, PROGRAM(.lost = true));
    assert_int_equal(sim_job_run(job, 0), 1);
    assert_error(job, "node \"n0\": step \"deps\": its outcome is unknown");
    assert_int_equal(sim_job_run(job, 0), 1); /* not only the first time */
    assert_error(job, "its outcome is unknown");
    assert_non_null(strstr(job->result.error.hint, "--from deps"));
    assert_int_equal(sim_started(job->net, 0, "setup:deps"), 1);
    job->from_step = "deps";
    assert_int_equal(sim_job_run(job, RUN_FLAG_FROM), 0);
    assert_int_equal(sim_started(job->net, 0, "setup:deps"), 2);
    sim_job_destroy(job);
}

/* ---- connections ---- */

/* Wherever the connection breaks, before or after a frame was seen: everything starts once. */
static void test_connection_lost_at_every_frame(void **unused)
{
    (void)unused;
    static const enum wire_type types[] = {WIRE_HELLO,  WIRE_LIST, WIRE_CHECK, WIRE_RUN,
                                           WIRE_SETTLE, WIRE_PING, WIRE_ATTACH};
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        for (uint32_t skip = 0; skip < 3; skip++)
            for (int after = 0; after < 2; after++) {
                struct sim_job *job = begin(2);
                job->setup[0].creates.text = "deps.ok";
                play_does(&play, ANY, "setup:deps", 0, PROGRAM(.turns = 2, .output = "a\n"));
                play_trap(&play, 0, types[i], NULL, skip, after ? SIM_DROP_AFTER : SIM_DROP_BEFORE);
                bool first = skip == 0 &&
                             (types[i] == WIRE_HELLO || ((types[i] == WIRE_LIST || types[i] == WIRE_CHECK) && !after));
                int rc = sim_job_run(job, 0);
                if (rc == 3 && play.traps[0].sprung &&
                    first) /* a first connection is not tried again: its answer was lost */
                    rc = sim_job_run(job, 0);
                if (rc != 0)
                    fail_msg("frame %d, %u before it, %s: exit status %d: %s", types[i], skip,
                             after ? "after" : "before", rc, job->result.error.text);
                for (uint32_t n = 0; n < 2; n++) {
                    assert_int_equal(sim_started(job->net, n, "setup:deps"), 1);
                    assert_int_equal(sim_started(job->net, n, "launch"), 1);
                }
                sim_job_destroy(job);
            }
}

static const char *attempt_of(const struct sim_job *job, uint32_t node, const char *slot)
{
    size_t count;
    const struct sim_start *s = sim_starts(job->net, &count);
    for (size_t i = 0; i < count; i++)
        if (s[i].node == node && strcmp(s[i].slot, slot) == 0)
            return s[i].attempt;
    return "";
}

static void test_lost_run_is_sent_again(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(1);
    play_trap(&play, 0, WIRE_RUN, "setup:deps", 0, SIM_DROP_BEFORE);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(sim_job_events(job, EVENT_STARTED), 2); /* set-up and launch: the attempt stayed the same */
    assert_int_equal(sim_frames(job->net, WIRE_RUN), 3);
    assert_int_equal(strlen(attempt_of(job, 0, "setup:deps")), WIRE_ID_LEN);
    sim_job_destroy(job);
}

static void test_frozen_node(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(1);
    job->liveness_ms = 60;
    play_trap(&play, 0, WIRE_RUN, "setup:deps", 0, SIM_FREEZE);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_said(job, "nothing heard for");
    assert_said(job, "the node is back");
    assert_int_equal(sim_started(job->net, 0, "setup:deps"), 1);
    sim_job_destroy(job);
}

/* A program that the node could not start never ran; the end of a started one is unknown. */
static void test_fault(void **unused)
{
    (void)unused;
    for (int started = 0; started <= 1; started++) {
        struct sim_job *job = begin(2);
        play_does(&play, 1, "setup:deps", 1, PROGRAM(.endless = true));
        play_trap(&play, 1, WIRE_RUN, "setup:deps", 0, started ? SIM_FAULT_AFTER : SIM_REFUSE);
        assert_int_equal(sim_job_run(job, 0), 3);
        assert_int_equal(job->result.status, RUN_INFRA);
        assert_error(job, "disk trouble");
        assert_int_equal(sim_started(job->net, 1, "setup:deps"), started);
        assert_said(job, started ? "deps@1 unknown" : "deps@1 not_started");
        sim_job_destroy(job);
    }
}

static void test_first_connection_refused(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    play.refusals[1] = 1;
    assert_int_equal(sim_job_run(job, 0), 3);
    assert_int_equal(job->result.status, RUN_INFRA);
    assert_error(job, "host1");
    assert_error(job, "connection refused");
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(sim_started(job->net, 0, "setup:deps"), 1);
    sim_job_destroy(job);
}

static bool setup_runs(struct sim_job *job)
{
    return sim_live(job->net) > 0;
}

static void test_node_lost_for_good(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    job->reconnect_ms = 50;
    play_does(&play, 1, "setup:deps", 1, PROGRAM(.endless = true));
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    sim_job_turns(job, setup_runs);
    sim_away(job->net, 1, true);
    sim_job_wait(job);
    sim_job_close(job);
    assert_int_equal(job->result.exit_status, 3);
    assert_error(job, "host1");
    sim_away(job->net, 1, false);
    sim_end(job->net, 1, "setup:deps", 0);
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(sim_started(job->net, 1, "setup:deps"), 1); /* it ended well meanwhile */
    sim_job_destroy(job);
}

/* ---- other controllers, other machines ---- */

static void test_held(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(1);
    play_does(&play, 0, "launch", 1, PROGRAM(.endless = true));
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    sim_job_turns(job, setup_runs);
    sim_job_kill(job, 0);
    sim_own(job->net, 0, "you@there");
    assert_int_equal(sim_job_run(job, 0), 4);
    assert_error(job, "held by you@there");
    assert_non_null(strstr(job->result.error.hint, "--take-over"));
    job->take_over = true;
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    sim_job_turns(job, port_is_asked);
    sim_end(job->net, 0, "launch", 0);
    sim_job_wait(job);
    sim_job_close(job);
    assert_int_equal(job->result.exit_status, 0);
    sim_job_destroy(job);
}

static void test_lost_journal(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(2);
    play_does(&play, ANY, "launch", 1, PROGRAM(.endless = true));
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    sim_job_turns(job, setup_runs);
    sim_job_kill(job, 0);
    sim_job_forget(job);
    sim_job_quiet(job);
    job->take_over = true;
    sim_end(job->net, 0, "launch", 0); /* one is over, the other one lives */
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    sim_job_turns(job, port_is_asked);
    sim_end(job->net, 1, "launch", 0);
    sim_job_wait(job);
    sim_job_close(job);
    assert_int_equal(job->result.exit_status, 0);
    assert_said(job, "finished deps@0 ok adopted");
    assert_said(job, "finished launch@0 ok adopted");
    for (uint32_t n = 0; n < 2; n++) {
        assert_int_equal(sim_started(job->net, n, "setup:deps"), 1);
        assert_int_equal(sim_started(job->net, n, "launch"), 1);
    }
    sim_job_destroy(job);
}

static void test_two_nodes_one_machine(void **unused)
{
    (void)unused;
    struct sim_job *job = begin(3);
    sim_same_machine(job->net, 2, 0);
    int rc = sim_job_run(job, 0);
    assert_int_equal(rc, 3);
    assert_error(job, "\"n0\" and \"n2\" are the same machine");
    assert_int_equal(sim_started(job->net, 0, "launch"), 0);
    sim_job_destroy(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_success),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_resume_keeps_flags),
        cmocka_unit_test(test_leftover_ends_unheard),
        cmocka_unit_test(test_contradictions),
        cmocka_unit_test(test_reboot_between_runs),
        cmocka_unit_test(test_reboot_before_the_barrier),
        cmocka_unit_test(test_retry),
        cmocka_unit_test(test_retries_over_controllers),
        cmocka_unit_test(test_failing_step),
        cmocka_unit_test(test_half_a_launch_is_not_adopted),
        cmocka_unit_test(test_an_item_of_the_first_node_holds_back),
        cmocka_unit_test(test_an_item_that_fails_holds_back_nobody),
        cmocka_unit_test(test_lost_supervisor),
        cmocka_unit_test(test_on_unknown_fail),
        cmocka_unit_test(test_connection_lost_at_every_frame),
        cmocka_unit_test(test_lost_run_is_sent_again),
        cmocka_unit_test(test_frozen_node),
        cmocka_unit_test(test_fault),
        cmocka_unit_test(test_first_connection_refused),
        cmocka_unit_test(test_node_lost_for_good),
        cmocka_unit_test(test_held),
        cmocka_unit_test(test_lost_journal),
        cmocka_unit_test(test_two_nodes_one_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
