/*
 * run under random faults: controllers that are killed and started again over nodes that lose connections, frames,
 * supervisors, power and disks, until the job is done. Whatever happens:
 *   - a program that ended well is never started again, unless its node lost power before what it did was settled, or
 *     is another machine;
 *   - a launch is started again only after one of its ranks did not end well or its run was given up;
 *   - of a launch on MIN:MAX nodes a node starts again only after its part did not end well, at least MIN have ended well in
 *     the end, the first among them, and none has failed;
 *   - a tree that was brought is whole and right on every node; what the job made is here in the end, as it was;
 *   - an item of set-up starts nowhere before the earlier ones with `on: first` have ended well on the first node;
 *   - an attempt is started at most once; no two attempts of a slot live at a time (the simulated ledger refuses);
 *   - it comes to an end, done, and verifying it starts nothing.
 */
#include "dice.h"
#include "sim_made_up.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { SEEDS = 150, NODES_MAX = 4, CONTROLLERS_MAX = 150, SLOTS_MAX = SIM_STEPS_MAX + 1, SYNC = SIM_STEPS_MAX };

struct world {
    struct sim_job *job;
    struct dice dice;
    uint32_t nodes;
    struct made_up_track setup[SLOTS_MAX][NODES_MAX];
    char generation[32];       /* of the latest launch: run and number */
    bool disturbed[NODES_MAX]; /* an event there may cost an outcome */
    bool launch_excused, epilog_failed, launch_ok[NODES_MAX], launch_live[NODES_MAX];
    bool launch_lost[NODES_MAX];             /* its node lost power, or was replaced, since it started there */
    char last[NODES_MAX][32];                /* the generation of the node's part */
    bool part[NODES_MAX], failed[NODES_MAX]; /* in the end, by the journal: it ended well; not as one that leaves */
    bool voided[NODES_MAX];                  /* it ended well, and its node lost power when all had ended */
    bool elastic, unfetched[NODES_MAX];
    uint32_t away[NODES_MAX]; /* turns until it can be reached again */
    bool forgot; /* a state directory was lost: a launch found done ends the run, even before set-up is over */
    bool syncs, fetches, shares; /* shares: nodes 1 and 2 have one home */
};

#define WORK "work-0123456789abcdef" /* the working directory's tree */

/* ---- what the nodes see ---- */

static struct made_up_track *track_of(struct world *w, uint32_t node, const char *slot)
{
    for (size_t i = 0; i < w->job->spec.setup_count; i++)
        if (str_starts(slot, "setup:") && strcmp(slot + 6, w->job->setup[i].name) == 0)
            return &w->setup[i][node];
    return strcmp(slot, "setup:sync") == 0 ? &w->setup[SYNC][node] : NULL;
}

/* Has all of the launch that began last ended well? */
static bool launch_is_whole(const struct world *w)
{
    const struct spec_distributed *d = &w->job->spec.distributed;
    uint32_t ok = 0, wanted = !d->present ? 1 : w->elastic ? d->min_nodes : w->nodes;
    for (uint32_t n = 0; n < w->nodes; n++) {
        bool of_it = w->generation[0] && strcmp(w->last[n], w->generation) == 0;
        if (of_it && (w->launch_live[n] || !w->launch_ok[n]))
            return false;
        ok += of_it;
    }
    return ok >= wanted && strcmp(w->last[0], w->generation) == 0;
}

/* Of two nodes with one home the second repeats the work of the first while that is left out: it may be cut off. */
static bool shares_with_absent(const struct world *w, uint32_t node)
{
    return w->elastic && w->shares && (node == 1 || node == 2);
}

static void check_order(struct world *w, uint32_t node, const struct made_up_track *t)
{
    for (size_t i = 0; i < w->job->spec.setup_count && t != &w->setup[i][node]; i++)
        if (w->job->setup[i].on == ON_FIRST && t != &w->setup[SYNC][node] && !w->setup[i][0].ever)
            dice_violated(&w->dice, "an item starts on node %u, but \"%s\" before it is not done on the first", node,
                          w->job->setup[i].name);
}

static void program(void *arg, uint32_t node, const struct wire_run *run, uint32_t nth, struct sim_program *ret)
{
    struct world *w = arg;
    struct made_up_track *t = track_of(w, node, run->slot);
    (void)nth;
    dice_say(&w->dice, "  node %u starts %s %.6s", node, run->slot, run->attempt);
    if (t) {
        if (t->started && t->ok && !t->excused && !w->shares)
            dice_violated(&w->dice, "%s on node %u was started again though it had ended well", run->slot, node);
        check_order(w, node, t);
        *t = (struct made_up_track){
            .started = true, .live = true, .unsettled = true, .ever = t->ever, .launched = t->launched};
    } else if (strcmp(run->slot, "launch") == 0) {
        char generation[32]; /* from its name on the nodes: a node that joins an adopted launch is in it too */
        snprintf(generation, sizeof generation, "%s", run->launch);
        if (w->generation[0] && strcmp(generation, w->generation) != 0) {
            bool lost = false;
            for (uint32_t n = 0; n < w->nodes; n++)
                lost = lost || w->launch_lost[n];
            if (!w->launch_excused && !lost)
                dice_violated(&w->dice, "the launch on node %u was started again without a reason", node);
            w->launch_excused = w->epilog_failed = false;
        } else if (strcmp(generation, w->last[node]) == 0 && w->launch_ok[node] && !w->launch_lost[node]) {
            dice_violated(&w->dice, "the part of node %u was started again though it had ended well", node);
        }
        memcpy(w->generation, generation, sizeof generation);
        memcpy(w->last[node], generation, sizeof generation);
        const char *fault = w->syncs ? sim_tree_fault(w->job->net, node, WORK, w->job->kinds.syncs[0].tree) : "";
        if (*fault && !shares_with_absent(w, node))
            dice_violated(&w->dice, "the launch begins on node %u, but its tree: %s", node, fault);
        w->launch_lost[node] = false;
        w->launch_ok[node] = false;
        for (size_t i = 0; i < SLOTS_MAX; i++)
            for (uint32_t n = 0; n < w->nodes; n++)
                w->setup[i][n].launched = false;
        w->launch_live[node] = true;
    }
    if (!run->kind) /* files are brought */
        return;
    ret->turns = dice_chance(&w->dice, 40) ? 0 : (uint32_t)(dice_next(&w->dice) % 6);
    ret->output = dice_chance(&w->dice, 30) ? "a line\n" : NULL;
    if (w->elastic && strcmp(run->slot, "launch") == 0) {
        ret->turns = (uint32_t)(dice_next(&w->dice) % 60); /* so that others come and go meanwhile */
        if (dice_fault(&w->dice, 15))
            ret->signal = 9;
        else if (dice_fault(&w->dice, 10))
            ret->tail = "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: x";
        ret->status = ret->tail ? 1 : 0;
    }
    if (ret->status == 0 && dice_fault(&w->dice, 6))
        ret->status = 3;
    else if (dice_fault(&w->dice, 2))
        ret->lost = w->disturbed[node] = true;
}

static void ended(void *arg, uint32_t node, const struct wire_record *r)
{
    struct world *w = arg;
    struct made_up_track *t = track_of(w, node, r->slot);
    bool ok = wire_record_success(r);
    dice_say(&w->dice, "  node %u: %s %.6s ended %s", node, r->slot, r->attempt,
             ok                            ? "well"
             : r->state == WIRE_STATE_LOST ? "lost"
                                           : "badly");
    if (t) {
        t->live = false;
        t->ok = ok;
        t->ever = t->ever || ok;
        if (!ok && t != &w->setup[SYNC][node]) /* files that it changed are put back before it is done again */
            w->setup[SYNC][node].excused = true;
    } else {
        w->launch_excused = w->launch_excused || !ok;
        w->epilog_failed = w->epilog_failed || (!ok && strcmp(r->slot, "epilog") == 0);
        if (strcmp(r->slot, "launch") != 0)
            return;
        w->launch_ok[node] = ok;
        w->launch_live[node] = false;
        if (launch_is_whole(w)) { /* a reason for another launch comes later */
            w->launch_excused = w->epilog_failed;
            for (size_t i = 0; i < SLOTS_MAX; i++)
                for (uint32_t n = 0; n < w->nodes; n++)
                    w->setup[i][n].launched = w->setup[i][n].ok;
        }
    }
}

static enum sim_fault frame(void *arg, uint32_t node, enum wire_type type, const char *slot)
{
    struct world *w = arg;
    (void)slot;
    return dice_frame(&w->dice, node, type, 5, 6);
}

static bool refuse(void *arg, uint32_t node)
{
    struct world *w = arg;
    (void)node;
    return dice_fault(&w->dice, 3);
}

/* ---- what happens by itself ---- */

static void make_outputs(struct world *w, uint32_t node)
{
    sim_make(w->job->net, node, "/home/me/out/small", node, 10 + node, 0100644);
    sim_make(w->job->net, node, "/home/me/out/d/big", node, 200000 + node, 0100755);
    sim_make_folder(w->job->net, node, "/home/me/out/e");
}

static void power_cut(struct world *w, uint32_t node)
{
    dice_say(&w->dice, "  node %u reboots", node);
    for (size_t i = 0; i < SLOTS_MAX; i++) {
        w->setup[i][node].rebooted = true;
        if (w->setup[i][node].unsettled)
            w->setup[i][node].excused = true;
    }
    w->launch_excused = w->launch_lost[node] = true;
    sim_reboot(w->job->net, node, dice_next(&w->dice));
}

static void accident(struct world *w)
{
    uint32_t node = (uint32_t)(dice_next(&w->dice) % w->nodes);
    bool harmless = w->dice.faults == 0 || dice_chance(&w->dice, 47);
    w->disturbed[node] = w->disturbed[node] || !harmless;
    if (w->elastic && dice_chance(&w->dice, 40)) {
        w->away[node] = 1 + (uint32_t)(dice_next(&w->dice) % 80);
        dice_say(&w->dice, "  node %u is away for %u turns", node, w->away[node]);
        sim_away(w->job->net, node, true);
    } else if (harmless) {
        sim_drop(w->job->net, node);
    } else if (dice_fault(&w->dice, 50)) {
        power_cut(w, node);
    } else if (dice_fault(&w->dice, 25)) {
        dice_say(&w->dice, "  node %u is replaced", node);
        for (size_t i = 0; i < SLOTS_MAX; i++)
            w->setup[i][node].excused = true;
        w->launch_excused = w->launch_lost[node] = true;
        sim_reinstall(w->job->net, node);
        make_outputs(w, node);
    } else {
        dice_say(&w->dice, "  the supervisors on node %u are killed", node);
        for (size_t i = 0; i < w->job->spec.setup_count; i++) {
            CLEANUP(cleanup_free) char *slot = xasprintf("setup:%s", w->job->setup[i].name);
            sim_lose(w->job->net, node, slot);
        }
        sim_lose(w->job->net, node, "setup:sync");
        sim_lose(w->job->net, node, "launch");
    }
}

static void on_event(struct sim_job *job, const struct event *e)
{
    struct world *w = job->arg;
    dice_say_event(&w->dice, e);
    if (e->type == EVENT_SETTLED)
        for (size_t i = 0; i < SLOTS_MAX; i++)
            w->setup[i][e->settled.node].unsettled = w->setup[i][e->settled.node].live;
    if (e->type == EVENT_RUN_CLOSED && e->closed.status != RUN_DONE)
        w->launch_excused = true;
    if (e->type == EVENT_NOTE && e->note.reason && strstr(e->note.reason, "not fetched, the node is away"))
        w->unfetched[e->note.node] = true;
    const struct event_finished *end = &e->finished;
    if (e->type == EVENT_FINISHED && end->outcome == OUTCOME_UNKNOWN && strcmp(end->step, "sync") != 0) {
        bool lost = w->elastic && str_eq(end->tail, "the node is lost"); /* and the others continued */
        if (!w->disturbed[end->node] && !lost)
            dice_violated(&w->dice, "the outcome of %s on node %u is called unknown, and nothing happened there",
                          end->step, end->node);
        w->launch_excused = true;
    }
    if (dice_fault(&w->dice, 5)) {
        dice_say(&w->dice, "  killed at this event");
        sim_cut(job->net);
    }
}

static bool cut(struct sim_job *job)
{
    struct world *w = job->arg;
    for (uint32_t n = 0; n < w->nodes; n++)
        if (w->away[n] > 0 && --w->away[n] == 0)
            sim_away(job->net, n, false);
    if (!sim_is_cut(job->net) && dice_fault(&w->dice, 1))
        accident(w);
    if (!sim_is_cut(job->net) && dice_chance(&w->dice, 15) && dice_fault(&w->dice, 1)) {
        dice_say(&w->dice, "  interrupted");
        w->launch_excused = true;
        run_interrupt(job->run, SIGINT);
    }
    return sim_is_cut(job->net);
}

/* ---- one seed ---- */

static void make_job(struct world *w)
{
    static const struct sim_file_spec few[] = {{"a", 1, 10, 0}, {"b/c", 1, 5, TREE_MODE_EXEC}, {0}};
    static const struct sim_file_spec many[] = {{"a", 1, 1, 0},    {"b/1", 1, 0, 0},       {"b/2", 1, 99999, 0},
                                                {"b/3", 1, 7, 0},  {"big", 1, 1500000, 0}, {"c/d/e/f", 1, 300000, 0},
                                                {"c/x", 1, 50, 0}, {"z", 1, 3000, 0},      {0}};
    static const char *const names[SLOTS_MAX] = {"one", "two", "three", "four"};
    const struct sim_script script = {.program = program, .frame = frame, .refuse = refuse, .ended = ended, .arg = w};
    struct sim_job *job = w->job = sim_job_create(w->nodes, &script);
    size_t steps = 1 + dice_next(&w->dice) % 4;
    for (size_t i = 0; i < steps; i++) {
        struct spec_step *s = sim_job_step(job, names[i]);
        s->on = dice_chance(&w->dice, 25) ? ON_FIRST : ON_ALL;
        s->retry_times = (uint32_t)(dice_next(&w->dice) % 3);
        s->creates.text = dice_chance(&w->dice, 30) ? arena_printf(job->arena, "made/%s", names[i]) : NULL;
    }
    w->syncs = dice_chance(&w->dice, 60);
    w->fetches = dice_chance(&w->dice, 60);
    w->shares = w->nodes > 2 && w->syncs && dice_chance(&w->dice, 20);
    if (w->syncs)
        job->kinds.syncs[0] =
            (struct sim_sync_step){.name = "sync",
                                   .tree_name = "work",
                                   .root = "",
                                   .tree = sim_tree(job->arena, dice_chance(&w->dice, 50) ? few : many)};
    if (w->shares)
        sim_share_home(job->net, 2, 1);
    if (w->fetches)
        job->kinds.fetches[0] = (struct sim_fetch_step){.name = "outputs-1",
                                                        .from = "out/",
                                                        .to = arena_printf(job->arena, "%s/results", job->home),
                                                        .every_ms = dice_chance(&w->dice, 30) ? 2 : 0};
    for (uint32_t n = 0; n < w->nodes; n++)
        make_outputs(w, n);
    job->spec.distributed.present = dice_chance(&w->dice, 80);
    job->spec.distributed.max_restarts = (uint32_t)(dice_next(&w->dice) % 3);
    w->elastic = job->spec.distributed.present && w->nodes > 1 && dice_chance(&w->dice, 50);
    if (w->elastic)
        job->spec.distributed.min_nodes = 1 + (uint32_t)(dice_next(&w->dice) % (w->nodes - 1));
    job->join_ms = 1 + dice_next(&w->dice) % 5;
    job->late_ms = 20;
    job->spec.entrypoint.prolog.text = dice_chance(&w->dice, 30) ? "before" : NULL;
    job->spec.entrypoint.epilog.text = dice_chance(&w->dice, 30) ? "after" : NULL;
    job->liveness_ms = job->hello_ms = 100;
    job->reconnect_ms = w->elastic ? 30 : 400;
    job->on_event = on_event;
    job->arg = w;
}

/* The controller is dead: programs continue meanwhile. */
static void between(struct world *w)
{
    for (uint64_t turns = dice_next(&w->dice) % 8; turns > 0; turns--)
        sim_turn(w->job->net);
    if (dice_fault(&w->dice, 20))
        accident(w);
    if (dice_fault(&w->dice, 4)) {
        dice_say(&w->dice, "  the state directory is lost");
        sim_job_forget(w->job);
        w->forgot = true;
        for (size_t i = 0; i < SLOTS_MAX; i++)
            for (uint32_t n = 0; n < w->nodes; n++) { /* the records of settling are lost too */
                w->setup[i][n].unsettled = true;
                w->setup[i][n].excused = w->setup[i][n].excused || w->setup[i][n].rebooted;
            }
        w->launch_excused = w->launch_excused || !launch_is_whole(w);
        w->job->take_over = true;
    }
}

static void reach_all(struct world *w)
{
    for (uint32_t n = 0; n < w->nodes; n++) {
        sim_away(w->job->net, n, false);
        w->away[n] = 0;
    }
}

static bool one_controller(struct world *w)
{
    struct sim_job *job = w->job;
    w->dice.controllers++;
    dice_say(&w->dice, "controller %u", w->dice.controllers);
    if (sim_job_is_done(job))
        return true;
    if (sim_job_start(job, RUN_EXECUTE, 0) < 0)
        dice_violated(&w->dice, "could not start: %s", job->result.error.text);
    if (sim_job_turns(job, cut)) {
        dice_say(&w->dice, "  killed");
        sim_job_kill(job, dice_next(&w->dice));
        between(w);
        return false;
    }
    sim_job_close(job);
    reach_all(w); /* the next start waits for that */
    int rc = job->result.exit_status;
    if (rc != 3 && !w->elastic) /* else a node that was away, or left out, may be the lost journal's still */
        job->take_over = false;
    dice_say(&w->dice, "exit status %d: %s", rc, job->result.error.text);
    if (rc != 0 && rc != 1 && rc != 3 && rc != 130)
        dice_violated(&w->dice, "exit status %d: %s", rc, job->result.error.text);
    if ((rc == 0) != (job->result.status == RUN_DONE) || (rc != 0 && !job->result.error.text[0]))
        dice_violated(&w->dice, "exit status %d does not fit run status %d", rc, job->result.status);
    return rc == 0;
}

static void check_files(struct world *w)
{
    struct sim_job *job = w->job;
    for (uint32_t n = 0; n < w->nodes; n++) {
        bool excused = w->setup[SYNC][n].excused ||
                       (w->shares && (n == 1 || n == 2) && w->setup[SYNC][3 - n].excused) || shares_with_absent(w, n);
        const char *fault = w->syncs ? sim_tree_fault(job->net, n, WORK, job->kinds.syncs[0].tree) : "";
        if (*fault && !excused && w->setup[SYNC][n].ok)
            dice_violated(&w->dice, "done, but the tree on node %u: %s", n, fault);
        struct stat small, big;
        CLEANUP(cleanup_free) char *a = xasprintf("%s/results/n%u/small", job->home, n);
        CLEANUP(cleanup_free) char *b = xasprintf("%s/results/n%u/d/big", job->home, n);
        if (w->fetches && w->part[n] && !w->unfetched[n] &&
            (stat(a, &small) < 0 || stat(b, &big) < 0 || small.st_size != 10 + n || big.st_size != 200000 + n ||
             (big.st_mode & 0777) != 0755))
            dice_violated(&w->dice, "done, but what node %u made is not here", n);
    }
}

static void read_parts(struct world *w)
{
    struct journal *j = NULL;
    char id[17];
    journal_job_id(w->job->spec.name, w->job->spec.origin, id);
    assert_int_equal(journal_open_read(id, &j, NULL), 0);
    const struct state *state = journal_state(j);
    const struct state_run *run = state_run_latest(state, NULL);
    for (size_t i = 0; i < state->cell_count; i++) {
        const struct state_cell *c = &state->cells[i];
        bool of_it = str_eq(c->run, run->id) && c->generation == run->generation;
        if (strcmp(c->step, "launch") != 0 || !of_it)
            continue;
        w->part[c->node] = c->outcome == OUTCOME_OK;
        w->voided[c->node] = c->outcome == OUTCOME_UNKNOWN && w->launch_lost[c->node] && w->launch_ok[c->node] &&
                             strcmp(w->last[c->node], w->generation) == 0;
        w->failed[c->node] =
            c->outcome == OUTCOME_FAILED && c->cause == WIRE_CAUSE_EXIT && !strstr(c->tail, "Rendezvous");
    }
    journal_close(j);
}

/* Of the launch that ended well: how many had no part in its end. */
static uint32_t check_parts(struct world *w)
{
    const struct spec_distributed *d = &w->job->spec.distributed;
    uint32_t missing = 0;
    for (uint32_t n = 0; n < w->nodes; n++) {
        bool ok = w->launch_ok[n] && strcmp(w->last[n], w->generation) == 0;
        if (n > 0 && !d->present)
            continue;
        if (!ok && (n == 0 || !w->elastic || w->part[n] || w->failed[n]))
            dice_violated(&w->dice, "done, but the launch has not ended well on node %u", n);
        missing += w->elastic && !w->part[n] && !w->voided[n];
    }
    if (missing > d->nnodes - d->min_nodes)
        dice_violated(&w->dice, "done, but the launch has ended well on %u of %u:%u nodes", w->nodes - missing,
                      d->min_nodes, d->nnodes);
    return missing;
}

static void check_done(struct world *w)
{
    struct sim_job *job = w->job;
    size_t before, after;
    reach_all(w);
    read_parts(w);
    check_files(w);
    for (size_t i = 0; i < job->spec.setup_count; i++)
        for (uint32_t n = 0; n < w->nodes; n++)
            if ((n == 0 || job->setup[i].on == ON_ALL) && !w->setup[i][n].ok && !w->setup[i][n].launched &&
                !(w->forgot && w->setup[i][n].live) && !(w->elastic && !w->part[n]))
                dice_violated(&w->dice, "done, but step %s has not ended well on node %u", job->setup[i].name, n);
    uint32_t missing = check_parts(w);
    w->dice.faults = 0;
    sim_starts(job->net, &before);
    assert_int_equal(sim_job_mode(job, RUN_VERIFY, 0), 0);
    sim_starts(job->net, &after);
    uint32_t replaced = 0; /* since their set-up: during the last launch */
    for (uint32_t n = 0; n < w->nodes; n++) {
        bool excused = false;
        for (size_t i = 0; i < SLOTS_MAX; i++)
            excused = excused || w->setup[i][n].excused;
        replaced += excused || (w->shares && n == 2 && w->setup[SYNC][1].excused);
    }
    missing += shares_with_absent(w, 1);
    if (before != after || (!w->forgot && job->result.unverified_nodes > replaced + missing) ||
        job->result.verified_nodes + job->result.unverified_nodes != w->nodes)
        dice_violated(&w->dice, "verifying the finished job: %zu starts, %u nodes unverified: %s", after - before,
                      job->result.unverified_nodes, job->unverified);
}

static void run_seed(const struct dice *dice)
{
    struct world w = {.dice = *dice};
    w.nodes = 1 + (uint32_t)(dice_next(&w.dice) % NODES_MAX);
    w.dice.faults = (uint32_t)(dice_next(&w.dice) % 25);
    dice_say(&w.dice, "seed %llu: %u nodes, %u faults", (unsigned long long)dice->seed, w.nodes, w.dice.faults);
    make_job(&w);
    while (!one_controller(&w))
        if (w.dice.controllers > CONTROLLERS_MAX)
            dice_violated(&w.dice, "not done after %u controllers", w.dice.controllers);
    check_done(&w);
    sim_job_destroy(w.job);
    buf_free(&w.dice.log);
}

static void test_random_faults(void **unused)
{
    (void)unused;
    dice_seeds(SEEDS, run_seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
