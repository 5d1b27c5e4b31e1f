/*
 * run: a launch of several roles on simulated nodes, under random faults: controllers that are killed and started again
 * over nodes that lose connections, supervisors and power, until the job is done. Whatever happens:
 *   - a role starts only once what it waits for holds, in the same generation;
 *   - within a generation a role is started at most once on a node, and another generation needs a reason;
 *   - a sidecar is stopped only when all others have ended well, or the generation has failed;
 *   - it comes to an end, done, and nothing runs any more.
 */
#include "dice.h"
#include "sim_play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEEDS = 150, NODES = 3, CONTROLLERS_MAX = 150 };
enum slot { DATA, SERVER, SIDE, TRAINER, TOGETHER, READY_PROBE, SLOTS };

static const char *const slots[SLOTS] = {"launch:data",    "launch:server", "launch:side",
                                         "launch:trainer", "launch",        "ready:side"};
static const bool on[SLOTS][NODES] = {
    [DATA] = {true},     [SERVER] = {true, true},     [SIDE] = {[2] = true}, [TRAINER] = {[1] = true, [2] = true},
    [TOGETHER] = {true}, [READY_PROBE] = {[2] = true}};

struct track {
    bool started, live, ok;
};
struct world {
    struct sim_job *job;
    struct dice dice;
    char run[17];
    uint32_t generation;
    struct track tracks[SLOTS][NODES]; /* in this generation */
    bool excused;                      /* another generation is no surprise */
    bool excused_early;                /* nor one after that: the event came when nobody had looked */
};

/* ---- what the nodes see ---- */

static enum slot slot_of(const struct world *w, const char *name)
{
    for (enum slot s = 0; s < SLOTS; s++)
        if (strcmp(slots[s], name) == 0)
            return s;
    dice_violated(&w->dice, "no slot \"%s\"", name);
    return SLOTS;
}

static bool all_ok(const struct world *w, enum slot s)
{
    for (uint32_t n = 0; n < NODES; n++)
        if (on[s][n] && !w->tracks[s][n].ok)
            return false;
    return true;
}

static bool all_started(const struct world *w, enum slot s)
{
    for (uint32_t n = 0; n < NODES; n++)
        if (on[s][n] && !w->tracks[s][n].started)
            return false;
    return true;
}

/* A start belongs to the present generation of the journal. */
static void look_at_generation(struct world *w)
{
    const struct state_run *run = state_run_open(journal_state(w->job->journal));
    if (!run)
        dice_violated(&w->dice, "a program is started, and no run is open");
    if (strcmp(run->id, w->run) == 0 && run->generation == w->generation)
        return;
    if (strcmp(run->id, w->run) == 0 && !w->excused)
        dice_violated(&w->dice, "generation %u without a reason", run->generation);
    snprintf(w->run, sizeof w->run, "%s", run->id);
    w->generation = run->generation;
    w->excused = w->excused_early;
    w->excused_early = false;
    memset(w->tracks, 0, sizeof w->tracks);
}

static void program(void *arg, uint32_t node, const struct wire_run *run, uint32_t nth, struct sim_program *ret)
{
    struct world *w = arg;
    enum slot s = slot_of(w, run->slot);
    struct track *t = &w->tracks[s][node];
    (void)nth;
    look_at_generation(w);
    dice_say(&w->dice, "  node %u starts %s %.6s", node, run->slot, run->attempt);
    if (!on[s][node])
        dice_violated(&w->dice, "%s is started on node %u", run->slot, node);
    if (t->started)
        dice_violated(&w->dice, "%s is started twice on node %u in generation %u", run->slot, node, w->generation);
    if (s == TRAINER && (!all_ok(w, DATA) || !all_ok(w, READY_PROBE) || !all_started(w, SERVER)))
        dice_violated(&w->dice, "the trainers start too early");
    *t = (struct track){.started = true, .live = true};
    ret->turns = (uint32_t)(dice_next(&w->dice) % 5);
    ret->endless = s == SERVER || s == SIDE; /* the servers until the trainers have ended: see tend */
    ret->output = s == SERVER ? "server is up\n" : NULL;
    if (dice_fault(&w->dice, 6) && s != READY_PROBE)
        *ret = (struct sim_program){.turns = ret->turns, .status = 3, .output = ret->output};
    else if (dice_fault(&w->dice, 2))
        *ret = (struct sim_program){.turns = ret->turns, .lost = true};
}

static void ended(void *arg, uint32_t node, const struct wire_record *r)
{
    struct world *w = arg;
    enum slot s = slot_of(w, r->slot);
    bool ok = wire_record_success(r),
         rest = all_ok(w, DATA) && all_ok(w, SERVER) && all_ok(w, TRAINER) && all_ok(w, TOGETHER);
    dice_say(&w->dice, "  node %u: %s %.6s ended %s", node, r->slot, r->attempt,
             ok                            ? "well"
             : r->state == WIRE_STATE_LOST ? "lost"
             : r->stop_requested           ? "stopped"
                                           : "badly");
    if (s == SIDE && r->stop_requested && !rest && !w->excused)
        dice_violated(&w->dice, "the sidecar is stopped, and others have not ended");
    w->tracks[s][node].live = false;
    w->tracks[s][node].ok = ok;
    /* the end of a dying sidecar may be seen before the good ends of the others */
    w->excused = w->excused || (!ok && !(s == SIDE && rest && r->stop_requested));
}

static enum sim_fault frame(void *arg, uint32_t node, enum wire_type type, const char *slot)
{
    struct world *w = arg;
    (void)slot;
    return dice_frame(&w->dice, node, type, 4, 0);
}

/* ---- what happens by itself ---- */

/* The servers serve as long as there are trainers. */
static void tend(struct world *w)
{
    for (uint32_t n = 0; all_ok(w, TRAINER) && n < NODES; n++)
        if (w->tracks[SERVER][n].live)
            sim_end(w->job->net, n, slots[SERVER], 0);
}

static void accident(struct world *w)
{
    uint32_t node = (uint32_t)(dice_next(&w->dice) % NODES);
    if (dice_fault(&w->dice, 30)) {
        dice_say(&w->dice, "  node %u reboots", node);
        w->excused = w->excused_early = true; /* the next generation may have begun for the boot before */
        sim_reboot(w->job->net, node, dice_next(&w->dice));
    } else if (dice_fault(&w->dice, 30)) {
        dice_say(&w->dice, "  the supervisors on node %u are killed", node);
        for (enum slot s = 0; s < SLOTS; s++)
            sim_lose(w->job->net, node, slots[s]);
    } else {
        sim_drop(w->job->net, node);
    }
}

static void on_event(struct sim_job *job, const struct event *e)
{
    struct world *w = job->arg;
    dice_say_event(&w->dice, e);
    if (e->type == EVENT_STARTED)
        look_at_generation(w);
    if (e->type == EVENT_FINISHED && e->finished.outcome != OUTCOME_OK)
        w->excused = true;
    if (dice_fault(&w->dice, 6)) {
        dice_say(&w->dice, "  killed at this event");
        sim_cut(job->net);
    }
}

static bool cut(struct sim_job *job)
{
    struct world *w = job->arg;
    tend(w);
    if (!sim_is_cut(job->net) && dice_fault(&w->dice, 1))
        accident(w);
    return sim_is_cut(job->net);
}

/* ---- one seed ---- */

static struct spec_entrypoint runs(const char *text)
{
    return (struct spec_entrypoint){.kind = ENTRY_RUN, .target = {.text = text}};
}

static struct sim_job *make_job(const struct sim_script *script)
{
    static struct spec_after after[] = {{DATA, false}, {SERVER, true}, {SIDE, true}};
    static struct spec_role roles[] = {
        [DATA] = {.name = "data", .world = WORLD_NONE},
        [SERVER] = {.name = "server", .ready = {.kind = READY_LOG, .what = {.text = "is up$"}}},
        [SIDE] = {.name = "side",
                  .world = WORLD_NONE,
                  .sidecar = true,
                  .ready = {READY_COMMAND, {.text = "true"}, 0, {0}}},
        [TRAINER] = {.name = "trainer", .after = after, .after_count = ARRAY_LEN(after)},
        [TOGETHER] = {.name = "together"},
    };
    static struct spec_place places[8];
    size_t count = 0;
    struct sim_job *job = sim_job_create(NODES, script);
    for (uint32_t r = 0; r < ARRAY_LEN(roles); r++) {
        roles[r].counted = true;
        roles[r].count = 0;
        roles[r].peer = r == TRAINER ? SERVER : SPEC_NO_ROLE;
        roles[r].entrypoint = runs(roles[r].name);
        for (uint32_t n = 0; n < NODES; n++)
            if (on[r][n]) {
                places[count++] = (struct spec_place){r, n, 1};
                roles[r].count++;
            }
    }
    job->spec.roles = roles;
    job->spec.role_count = ARRAY_LEN(roles);
    job->spec.places = places;
    job->spec.place_count = count;
    job->spec.distributed.max_restarts = 1000;
    job->liveness_ms = job->hello_ms = 200;
    return job;
}

static bool one_controller(struct world *w)
{
    struct sim_job *job = w->job;
    dice_say(&w->dice, "controller %u", ++w->dice.controllers);
    if (sim_job_is_done(job))
        return true;
    if (sim_job_start(job, RUN_EXECUTE, 0) < 0)
        dice_violated(&w->dice, "could not start: %s", job->result.error.text);
    if (sim_job_turns(job, cut)) {
        sim_job_kill(job, dice_next(&w->dice));
        for (uint64_t turns = dice_next(&w->dice) % 8; turns > 0; turns--) { /* programs continue meanwhile */
            sim_turn(job->net);
            tend(w);
        }
        if (dice_fault(&w->dice, 20)) {
            accident(w);
            w->excused_early = true;
        }
        return false;
    }
    sim_job_close(job);
    dice_say(&w->dice, "exit status %d: %s", job->result.exit_status, job->result.error.text);
    if (job->result.exit_status == 3) /* a node was away before anything began */
        return false;
    if (job->result.exit_status != 0)
        dice_violated(&w->dice, "exit status %d: %s", job->result.exit_status, job->result.error.text);
    return true;
}

static void run_seed(const struct dice *dice)
{
    struct world w = {.dice = *dice};
    w.dice.faults = (uint32_t)(dice_next(&w.dice) % 20);
    dice_say(&w.dice, "seed %llu: %u faults", (unsigned long long)dice->seed, w.dice.faults);
    const struct sim_script script = {.program = program, .frame = frame, .ended = ended, .arg = &w};
    w.job = make_job(&script);
    w.job->on_event = on_event;
    w.job->arg = &w;
    while (!one_controller(&w))
        if (w.dice.controllers > CONTROLLERS_MAX)
            dice_violated(&w.dice, "not done after %u controllers", w.dice.controllers);
    for (enum slot s = 0; s < SLOTS; s++)
        if (s != SIDE && s != READY_PROBE && !all_ok(&w, s))
            dice_violated(&w.dice, "done, but %s has not ended well everywhere", slots[s]);
    if (sim_live(w.job->net) > 0)
        dice_violated(&w.dice, "done, but %zu program(s) run", sim_live(w.job->net));
    w.dice.faults = 0;
    if (sim_job_start(w.job, RUN_VERIFY, 0) < 0)
        dice_violated(&w.dice, "verifying: %s", w.job->result.error.text);
    sim_job_wait(w.job);
    sim_job_close(w.job);
    sim_job_destroy(w.job);
    buf_free(&w.dice.log);
}

static void test_random(void **state)
{
    (void)state;
    dice_seeds(SEEDS, run_seed);
}

/* ---- a case that is rare in the rounds ---- */

static bool is_cut(struct sim_job *job)
{
    return sim_is_cut(job->net);
}

static bool all_asked(struct sim_job *job)
{
    return sim_started(job->net, 2, slots[READY_PROBE]) > 0 && sim_started(job->net, 1, slots[SERVER]) > 0 &&
           sim_job_said(job, "finished launch:data@0 ok") && sim_job_said(job, "finished launch@0 ok");
}

/* A generation fails during a sidecar's readiness check, and the controller dies while it stops that check. The next
 * one hears of the check's end before it hears of the failure: this end is no answer, and nothing that waited for one
 * starts. */
static void test_a_stopped_question_is_no_answer(void **state)
{
    (void)state;
    static struct sim_play play;
    const struct sim_script script = play_script(&play);
    struct sim_job *job = make_job(&script);
    const struct sim_program endless = {.endless = true, .output = "server is up\n"};
    play_does(&play, ANY, slots[SERVER], 0, endless);
    play_does(&play, 2, slots[SIDE], 0, endless);
    play_does(&play, 2, slots[READY_PROBE], 0, endless);
    play_trap(&play, 2, WIRE_SIGNAL, NULL, 1, SIM_CUT_AFTER); /* the first stops the sidecar */
    play_trap(&play, 1, WIRE_LIST, NULL, 1, SIM_DROP_BEFORE); /* the second controller's */
    assert_int_equal(sim_job_start(job, RUN_EXECUTE, 0), 0);
    assert_true(sim_job_turns(job, all_asked));
    sim_away(job->net, 0, true); /* its server is not stopped */
    sim_preempt(job->net, 1, slots[SERVER], false);
    assert_true(sim_job_turns(job, is_cut));
    sim_job_kill(job, 0);
    sim_turn(job->net);
    sim_away(job->net, 0, false);
    assert_int_equal(sim_live(job->net), 1);
    assert_int_equal(sim_job_run(job, 0), 3);
    assert_int_equal(sim_started(job->net, 1, slots[TRAINER]) + sim_started(job->net, 2, slots[TRAINER]), 0);
    sim_job_destroy(job);
}

/* From the nodes' ledgers alone, too, the end of a sidecar is known, and that a role was ready by its output. */
static void test_done_and_the_journal_is_lost(void **state)
{
    (void)state;
    static struct sim_play play;
    const struct sim_script script = play_script(&play);
    struct sim_job *job = make_job(&script);
    play_does(&play, ANY, slots[SERVER], 0, (struct sim_program){.turns = 20, .output = "server is up\n"});
    play_does(&play, 2, slots[SIDE], 0, (struct sim_program){.endless = true});
    assert_int_equal(sim_job_run(job, 0), 0);
    size_t before, after;
    sim_starts(job->net, &before);
    for (int i = 0; i < 2; i++) {
        sim_job_forget(job);
        job->take_over = true;
        assert_int_equal(sim_job_run(job, 0), 0);
        sim_starts(job->net, &after);
        if (after != before)
            fail_msg("%zu programs were started again:\n%s", after - before, job->said.data);
    }
    sim_job_destroy(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_stopped_question_is_no_answer),
                                       cmocka_unit_test(test_done_and_the_journal_is_lost),
                                       cmocka_unit_test(test_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
