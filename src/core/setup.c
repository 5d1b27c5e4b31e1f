/* The set-up of a node: one step after another, then one settle, then the barrier. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

void lane_settle(struct lane *lane)
{
    lane_set_state(lane, LANE_SETTLING);
    run_effect(lane->run, &(struct effect){.kind = EFFECT_SETTLE, .node = lane->index});
}

/* Notes why a step runs again: once for the whole run if the reason holds for every node, else with the node's name. */
static void note_reason(struct lane *lane, const struct plan_step *step, const struct run_task *t)
{
    struct run *r = lane->run;
    if (!t->reason || (t->general && r->noted[step->id]))
        return;
    run_note(r, t->general ? EVENT_NODE_NONE : lane->index, "step \"%s\" runs again: %s", step->name, t->reason);
    r->noted[step->id] = r->noted[step->id] || t->general;
}

/* The first node of a shared home does a shared step for all nodes of that home. True: this lane must wait for that
 * node, or until all nodes were listed or have failed, because that node is not known before. */
static bool awaits_leader(struct lane *lane, const struct plan_step *step, struct run_task *t)
{
    struct run *r = lane->run;
    if (!step->shared || t->state != TASK_PENDING || r->plan->node_count == 1)
        return false;
    if (r->unheard > 0)
        return true;
    uint32_t leader = homes_leader(r, step, lane->index);
    if (leader == lane->index)
        return false;
    if (!task_is_done(run_task(r, step, leader)))
        return true;
    task_set_state(r, t, TASK_KEPT);
    task_look(t, true);
    transfer_tally(r, step, lane->index);
    order_changed(r, step); /* this node may be the last one for which other nodes wait, and no attempt will end here */
    return false;
}

/* True: a later set-up step, to which this controller has attached, still runs. The node reports which files of a tree
 * a step has changed only when the step ends; a step that began now would restore those files. */
static bool later_runs(const struct lane *lane, const struct plan_step *step)
{
    struct run *r = lane->run;
    for (size_t i = step->id + 1; i < r->plan->step_count; i++)
        if (r->plan->steps[i].kind->phase == PHASE_SETUP &&
            task_in_flight(run_task(r, &r->plan->steps[i], lane->index)))
            return true;
    return false;
}

/* Checks the first step that is missing, and starts it if it must run. True: no step is missing. */
static bool next_step(struct lane *lane, bool *ret_kept)
{
    struct run *r = lane->run;
    patches_reset(lane);
    if (r->ending != ENDING_NOT)
        return false;
    for (size_t i = 0; i < r->plan->step_count; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        if (step->kind->phase != PHASE_SETUP || !step->on[lane->index])
            continue;
        struct run_task *t = run_task(r, step, lane->index);
        if (awaits_leader(lane, step, t))
            return false;
        if (t->state == TASK_PENDING && !t->decided) {
            lane_decide(lane, step);
            if (r->ending != ENDING_NOT)
                return false;
            if (t->state == TASK_KEPT) {
                transfer_tally(r, step, lane->index);
                *ret_kept = *ret_kept || step->shared;
                order_changed(r, step);
            }
        }
        if (task_is_done(t))
            continue;
        if (t->state == TASK_PENDING && presence_is_here(lane->presence) && /* else once the node is back */
            !order_holds(r, step, lane->index) && !later_runs(lane, step)) {
            note_reason(lane, step, t);
            lane_verify_after(lane, step);
            task_start(r, step, lane->index);
        }
        return false;
    }
    return true;
}

static void setup_pass(struct lane *lane)
{
    struct run *r = lane->run;
    bool kept = false;
    if (lane->state != LANE_SETUP || r->ending != ENDING_NOT || r->stage >= STAGE_CLOSING ||
        r->options.mode != RUN_EXECUTE || lane->orphan_count > 0 || (lane->left_out && run_is_launched(r))) {
        run_due(r, DUE_END);
        return;
    }
    bool complete = next_step(lane, &kept);
    if (kept)
        homes_touch(r, lane->index);
    if (!complete)
        return;
    if (lane->dirty && presence_is_here(lane->presence))
        lane_settle(lane);
    else if (!lane->dirty)
        lane_set_state(lane, LANE_BARRIER);
    run_changed(r);
    run_due(r, DUE_BARRIER);
}

void lane_pass(struct lane *lane)
{
    setup_pass(lane);
    elastic_advance(lane);
}

void lane_doubt(struct lane *lane)
{
    struct run *r = lane->run;
    lane_set_doubtful(lane, false);
    if (r->fetch_only)
        return;
    patches_judge(lane);
    for (size_t i = 0; i < r->plan->step_count; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        struct run_task *t = run_task(r, step, lane->index);
        if (step->kind->phase != PHASE_SETUP || !step->on[lane->index] || !task_is_done(t))
            continue;
        const struct state_cell *cell = state_cell_find(r->state, step->scope, step->name, lane->index);
        if (cell && cell->outcome == OUTCOME_OK && !lane_contradiction(lane, step, cell))
            continue;
        task_set_state(r, t, TASK_PENDING);
        task_look(t, false);
        lane_set_state(lane, LANE_SETUP);
        preflight_setup_changed(run_launch(r));
    }
}

static bool set_heard(struct lane *lane, bool heard)
{
    bool changes = lane->heard != heard;
    lane->run->unheard += (uint32_t)lane->heard - (uint32_t)heard;
    lane->heard = heard;
    return changes;
}

bool lane_first_heard(struct lane *lane)
{
    return set_heard(lane, true);
}

void lane_ask_anew(struct lane *lane)
{
    lane_set_state(lane, LANE_CONNECTING);
    set_heard(lane, false);
}

void lane_pass_by(struct lane *lane)
{
    lane_set_state(lane, LANE_BARRIER);
    lane_first_heard(lane);
}

void lane_bind(struct lane *lane)
{
    const struct wire_facts *facts = lane->facts;
    struct buf json = {0};
    run_facts_json(facts, &json);
    struct event e = {
        .type = EVENT_NODE_BOUND,
        .bound = {.node = lane->index,
                  .host = lane->name,
                  .install = facts->install,
                  .boot_id = facts->boot_id,
                  .work = str_eq(lane->run->work, lane->run->plan->spec->variant) ? NULL : lane->run->work,
                  .facts_json = json.data}};
    run_append(lane->run, &e);
    buf_free(&json);
}
