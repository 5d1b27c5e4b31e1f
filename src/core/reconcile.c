/* The records of a node, when it has listed them: journal and ledger are compared after every HELLO. The core attaches
 * to an attempt that lives, or stops it if no run needs it. It takes the end of an attempt that has ended. It sends RUN
 * again for an attempt that never began. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static void attach(struct lane *lane, const char *attempt, uint64_t from)
{
    run_effect(lane->run,
               &(struct effect){.kind = EFFECT_ATTACH, .node = lane->index, .attempt = attempt, .offset = from});
}

bool lane_has_orphan(const struct lane *lane, const char *attempt)
{
    for (size_t i = 0; i < lane->orphan_count; i++)
        if (strcmp(lane->orphans[i].attempt, attempt) == 0)
            return true;
    return false;
}

void lane_orphan(struct lane *lane, const char *attempt)
{
    if (!lane_has_orphan(lane, attempt)) {
        lane->orphans = xreallocarray(lane->orphans, lane->orphan_count + 1, sizeof *lane->orphans);
        memcpy(lane->orphans[lane->orphan_count++].attempt, attempt, WIRE_ID_LEN + 1);
    }
    attach(lane, attempt, UINT64_MAX); /* only its end is needed, not its output */
    run_signal(lane->run, lane->index, attempt, WIRE_STOP, STOP_GRACE_MS);
}

/* The node's record of a step after the barrier that this run may take over, if is_held agrees: the node may have lost
 * power since. */
static const struct wire_record *found(struct lane *lane, const struct plan_step *step)
{
    const struct wire_record *latest = lane_latest(lane, step);
    bool wanted =
        !step->kind->cached && step->on[lane->index] && run_task(lane->run, step, lane->index)->state == TASK_PENDING;
    return wanted && latest && wire_record_success(latest) && str_eq(latest->key, step->key) &&
                   lane_may_adopt(lane, step, latest) &&
                   (step->kind->phase != PHASE_EPILOG || lane_follows_launch(lane, latest))
               ? latest
               : NULL;
}

static bool is_held(const struct wire_record *rec)
{
    const uint32_t so = FACT_KEY | FACT_HOLDS | FACT_ADOPT | (rec->same_boot ? FACT_BOOT : 0u);
    return belief_of(CELL_NOTHING, RECORD_GOOD, so) == BELIEF_ADOPT;
}

const struct wire_record *lane_found(struct lane *lane, const struct plan_step *step)
{
    const struct wire_record *rec = found(lane, step);
    return rec && is_held(rec) ? rec : NULL;
}

bool lane_resumes(struct lane *lane)
{
    struct run *r = lane->run;
    bool begun = run_launch(r)->generation > 0;
    for (size_t i = 0; i < r->plan->step_count && !begun; i++)
        begun = r->plan->steps[i].kind->phase == PHASE_LAUNCH && lane_found(lane, &r->plan->steps[i]);
    return begun && r->stage == STAGE_SETUP;
}

/* The state directory was lost, or is an old copy: the ledger's records of prolog, launch and epilog are taken over.
 * Which launch they belong to, and so which epilog counts, is known when all nodes have listed their records: see
 * parts_adopted. */
static void adopt_launch(struct lane *lane)
{
    struct run *r = lane->run;
    for (size_t i = 0; i < r->plan->step_count; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        const struct wire_record *rec = found(lane, step);
        if (!rec)
            continue;
        if (!is_held(rec))
            run_note(
                r, lane->index,
                "an earlier %s ended well, but the node restarted since: how much of it reached the disk is unknown",
                step->name);
        else if (step->kind->phase == PHASE_PROLOG || r->stage != STAGE_SETUP)
            task_finish(r, step, lane->index, rec, true);
    }
}

/* The step whose task has this attempt, or would adopt it: same slot, same key, no attempt of its own in flight. NULL:
 * there is none. */
static const struct plan_step *owner_of(struct lane *lane, const struct wire_record *rec)
{
    struct run *r = lane->run;
    for (size_t i = 0; i < r->plan->step_count; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        if (!step->on[lane->index] || strcmp(step->slot, rec->slot) != 0)
            continue;
        struct run_task *t = run_task(r, step, lane->index);
        if (task_in_flight(t))
            return strcmp(t->attempt, rec->attempt) == 0 ? step : NULL;
        const uint32_t so = (str_eq(step->key, rec->key) ? FACT_KEY : 0u) |
                            (t->state == TASK_PENDING && lane_may_adopt(lane, step, rec) ? FACT_ADOPT : 0u);
        if (belief_of(CELL_NOTHING, RECORD_LIVE, so) == BELIEF_ATTACH) {
            task_take_over(r, step, lane->index, rec);
            return step;
        }
        return NULL;
    }
    return points_owner(lane, rec);
}

static void attach_task(struct lane *lane, const struct plan_step *step)
{
    struct run *r = lane->run;
    struct run_task *t = run_task(r, step, lane->index);
    if (!t->log) {
        t->log = log_open(r, step, lane->index, t->attempt);
        if (step->kind->phase == PHASE_POINT && points_have_metrics(r))
            log_again(t->log);
    }
    task_mark_sent(lane, t);
    task_may_have_started(t);
    attach(lane, t->attempt, t->log->size);
    if (task_is_to_stop(r, step, t))
        run_signal(r, lane->index, t->attempt, r->ending == ENDING_KILLED ? WIRE_KILL : WIRE_STOP,
                   launch_grace_ms(r, CANCEL_GRACE_MS));
}

/* Decides about an attempt that is under way according to the journal. *ret_record: the record that stands for the
 * attempt, or NULL. */
static enum belief belief_under_way(struct lane *lane, const struct plan_step *step,
                                    const struct wire_record **ret_record)
{
    struct run *r = lane->run;
    const struct run_task *t = run_task(r, step, lane->index);
    const struct wire_record *rec = *ret_record = lane_record(lane, t->attempt);
    const struct state_cell *cell = state_cell_by_attempt(r->state, t->attempt);
    const struct wire_facts *facts = lane->facts;
    bool same = cell && cell->outcome == OUTCOME_NONE && !cell->adopted /* an adopted attempt was in the ledger */ &&
                str_eq(cell->boot_id, facts->boot_id) && str_eq(cell->install, facts->install);
    bool stopped = task_is_to_stop(r, step, t);
    uint32_t so = rec ? FACT_OWN : 0;
    so |= (rec ? rec->same_boot : same) ? FACT_BOOT : 0;
    so |= step->kind->cached ? FACT_CACHED : 0;
    so |= step->kind->fetch ? FACT_HERE : 0;
    so |= stopped ? FACT_STOPPED : 0;
    if (!rec && same && !stopped && !step->kind->fetch && (rec = lane_done_by_another(lane, step))) {
        *ret_record = rec;
        so |= FACT_STRANGER | FACT_KEY | FACT_ADOPT | FACT_HOLDS;
    }
    return belief_of(CELL_STARTED, record_says(rec), so);
}

static bool is_before_barrier(const struct run *r)
{
    return r->stage == STAGE_SETUP && r->options.mode == RUN_EXECUTE;
}

static void hold_point(struct lane *lane, struct run_task *t)
{
    task_set_state(lane->run, t, TASK_HELD);
    lane_hold_points(lane, true);
}

/* The node was away: finds out what has happened to the task's attempt meanwhile. */
static void reconcile_task(struct lane *lane, const struct plan_step *step)
{
    struct run *r = lane->run;
    const struct wire_record *rec;
    struct run_task *t = run_task(r, step, lane->index);
    if (t->state == TASK_HELD)
        task_set_state(r, t, TASK_RUNNING);
    switch (belief_under_way(lane, step, &rec)) {
    case BELIEF_ATTACH:
        attach_task(lane, step);
        break;
    case BELIEF_TAKE: /* its machine went down in an orderly way: the record says why the attempt ended */
        task_finish(r, step, lane->index, rec, false);
        break;
    case BELIEF_ADOPT: /* of a launch, all parts or none are adopted: parts_done_by_another */
        if (is_before_barrier(r) && step->kind->phase == PHASE_LAUNCH)
            task_set_state(r, t, TASK_HELD);
        else
            task_finish(r, step, lane->index, rec, true);
        break;
    case BELIEF_RESEND:
        /* RUN goes out only after the barrier: the launch's set-up is checked first, and may have to be done again. */
        if (is_before_barrier(r) && !step->watch &&
            (step->kind->phase == PHASE_PROLOG || step->kind->phase == PHASE_LAUNCH))
            task_set_state(r, t, TASK_HELD);
        else if (step->kind->phase == PHASE_POINT && !step->kind->fetch &&
                 (lane->state != LANE_BARRIER || !point_may_go_out(r, step)))
            hold_point(lane, t);
        else
            task_go_out(r, step, lane->index);
        break;
    case BELIEF_NEVER:
        task_finish_as(r, step, lane->index, OUTCOME_NOT_STARTED, "stopped before it began");
        break;
    case BELIEF_UNKNOWN: /* it may have ended, or died in a power cut: perhaps not all of its result is on the disk */
        task_finish_as(r, step, lane->index, OUTCOME_UNKNOWN,
                       rec ? "the node restarted meanwhile" : "the node restarted or was replaced meanwhile");
        break;
    case BELIEF_RUN:
    case BELIEF_KEEP:
    case BELIEF_ORPHAN: /* the table never gives one of these for an attempt that is under way */
        abort();
    }
}

/* A node that cannot have the workers that the spec asks for (for example because it has no GPU) fails the run before
 * its set-up, not after it. */
static void check_workers(struct lane *lane)
{
    const struct wire_facts *f = lane->facts;
    const struct plan_facts facts = {true, f->cpus, f->gpu_count};
    struct error err = ERROR_INIT;
    if (plan_check_node(lane->run->plan, lane->index, &facts, &err) < 0 &&
        !elastic_bar(run_launch(lane->run), lane->index, &err))
        run_fail(lane->run, RUN_FAILED, &err);
}

/* This node's part of a prolog or launch had ended well while others went on; then the node lost its power. lane_bind
 * has just made the journal say that the outcome of the part is unknown. */
static void finished_part_lost(struct lane *lane)
{
    struct run *r = lane->run;
    for (size_t i = 0; i < r->plan->step_count; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        const struct state_cell *cell = state_cell_find(r->state, step->scope, step->name, lane->index);
        if (!step->on[lane->index] || run_task(r, step, lane->index)->state != TASK_DONE || !cell ||
            cell->outcome == OUTCOME_OK)
            continue;
        if ((step->kind->phase == PHASE_LAUNCH && !launch_over(launch_of(r, step))) ||
            (step->kind->phase == PHASE_PROLOG && r->stage == STAGE_PROLOG))
            task_finish_as(r, step, lane->index, OUTCOME_UNKNOWN, "the node restarted or was replaced meanwhile");
        else if (step->kind->phase == PHASE_PROLOG &&
                 (!launch_over(launch_of(r, step)) || launch_starts_again(launch_of(r, step))))
            task_set_state(r, run_task(r, step, lane->index),
                           TASK_PENDING); /* it runs again before the next generation, if there is one */
    }
}

/* Forgets the orphans that ended while the node was away: no node will report their ends any more. */
static void drop_ended_orphans(struct lane *lane)
{
    for (size_t i = lane->orphan_count; i-- > 0;) {
        const struct wire_record *rec = lane_record(lane, lane->orphans[i].attempt);
        if (rec && rec->state == WIRE_STATE_CLAIMED)
            continue;
        if (rec)
            run_orphan_ended(lane->run, lane, rec);
        lane->orphans[i] = lane->orphans[--lane->orphan_count];
    }
}

void lane_reconcile(struct lane *lane)
{
    struct run *r = lane->run;
    bool first = lane->state == LANE_LISTED;
    if (lane->left_out && !elastic_back(lane))
        return;
    drop_ended_orphans(lane);
    points_meet(r);
    for (size_t i = 0; i < lane->record_count; i++) {
        const struct wire_record *rec = &lane->records[i];
        if (rec->state == WIRE_STATE_CLAIMED && !owner_of(lane, rec) && r->options.mode != RUN_LOOK &&
            r->options.mode != RUN_VERIFY) {
            run_note(r, lane->index, "stopping an attempt of \"%s\" that an earlier run left", rec->slot);
            lane_orphan(lane, rec->attempt);
        }
    }
    /* must come before any step goes on, because that step may depend on a step that is in doubt */
    if (elastic_is_outside(run_launch(r), lane) || (!first && r->stage <= STAGE_PREFLIGHT))
        lane_doubt(lane);
    else if (!first || lane->left_out)
        lane_set_doubtful(lane, true);
    if (r->options.mode == RUN_EXECUTE)
        finished_part_lost(lane);
    for (size_t i = 0; i < r->plan->step_count; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        struct run_task *t = run_task(r, step, lane->index);
        if (!step->on[lane->index] || (t->state != TASK_HELD && t->state != TASK_RUNNING && t->state != TASK_STOPPING))
            continue;
        reconcile_task(lane, step);
    }
    if (lane->doubtful && elastic_is_outside(run_launch(r), lane)) /* no part of the launch runs there any more */
        lane_doubt(lane);
    if (lane->state == LANE_SETTLING)
        lane_settle(lane);
    if (first && r->options.mode == RUN_EXECUTE) {
        check_workers(lane);
        adopt_launch(lane);
        points_adopt(lane);
    }
    points_listed(lane);
    if (lane->state == LANE_LISTED)
        lane_set_state(lane, LANE_SETUP);
    run_touch(r, lane->index);
    if (lane->state == LANE_BARRIER) /* the question for a port may have been lost with node 0's connection */
        run_due(r, DUE_BARRIER);
}
