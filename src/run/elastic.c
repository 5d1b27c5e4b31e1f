/* torchrun on MIN:MAX nodes: a node that cannot be had, or whose set-up fails, is left out while MIN are left. The first
 * one never is: there the others meet. */
#include "internal.h"

bool elastic_wanted(const struct run *r)
{
    const struct spec_distributed *d = &r->plan->spec->distributed;
    return d->present && d->min_nodes > 0 && d->min_nodes < d->nnodes && r->plan->spec->role_count == 0;
}

static const struct plan_step *launch_step(const struct run *r)
{
    for (size_t i = 0; i < r->plan->step_count; i++)
        if (r->plan->steps[i].kind->phase == PHASE_LAUNCH)
            return &r->plan->steps[i];
    return NULL;
}

/* Nodes that take part, or still can, without this one. */
static uint32_t left_without(struct run *r, const struct plan_step *launch, uint32_t node)
{
    uint32_t left = 0;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        left += n != node && launch->on[n] && !r->lanes[n].left_out && run_task(r, launch, n)->state != TASK_FAILED;
    return left;
}

/* What ran on the node cannot be known: for a launch the journal says so, of the rest the next contact tells. */
static void end_tasks(struct run *r, uint32_t node)
{
    for (size_t i = 0; i < r->plan->step_count; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        struct run_task *t = run_task(r, step, node);
        if (!step->on[node] || (!task_in_flight(t) && t->state != TASK_WAITING))
            continue;
        if (step->kind->phase == PHASE_LAUNCH) {
            task_finish_as(r, step, node, OUTCOME_UNKNOWN, "the node is lost");
            continue;
        }
        t->state = TASK_FAILED;
        if (step->kind->phase == PHASE_PROLOG)
            launch_task_ended(r, step);
    }
}

bool elastic_spare(struct run *r, uint32_t node, const struct error *err)
{
    const struct plan_step *launch = launch_step(r);
    const struct spec_distributed *d = &r->plan->spec->distributed;
    struct lane *lane = &r->lanes[node];
    if (lane->left_out)
        return true;
    bool held = err->code == ERROR_HELD; /* another rhrun is at work on this job: not beside it */
    if (!elastic_wanted(r) || !launch || held || node == r->plan->master || r->options.mode != RUN_EXECUTE ||
        !r->opened || r->probing || r->cancelling || r->failing || r->detached || r->stage > STAGE_LAUNCH)
        return false;
    uint32_t left = left_without(r, launch, node);
    if (left < d->min_nodes)
        return false;
    lane->left_out = true;
    lane->state = LANE_FAILED;
    lane->orphan_count = 0;
    run_note(r, node, "%s; it is left out: %u of %u:%u nodes are left", err->text, left, d->min_nodes, d->nnodes);
    end_tasks(r, node);
    preflight_lost(r);
    homes_advance(r, node); /* what it was to do for others, another one does */
    run_changed(r);
    launch_check_barrier(r);
    return true;
}

void elastic_skip_late(struct run *r)
{
    const struct plan_step *launch = launch_step(r);
    for (uint32_t n = 0; elastic_wanted(r) && launch && n < r->plan->node_count; n++) {
        struct run_task *t = run_task(r, launch, n);
        if (!launch->on[n] || t->state != TASK_PENDING)
            continue;
        t->state = TASK_FAILED;
        if (!r->lanes[n].left_out)
            run_note(r, n, "it takes no part: the launch began without it");
    }
}

/* ---- nodes that are lost before the launch ---- */

void elastic_await(struct run *r)
{
    if (elastic_wanted(r) && r->stage <= STAGE_PREFLIGHT && !loop_timer_active(r->late))
        loop_timer_start(r->late, r->options.late_ms ? r->options.late_ms : LATE_MS);
}

void elastic_on_late(void *arg)
{
    struct run *r = arg;
    bool away = false;
    uint32_t there = 0;
    if (r->stage > STAGE_PREFLIGHT || r->failing || r->cancelling || r->detached)
        return;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        there += r->lanes[n].state == LANE_BARRIER && node_state(r->lanes[n].node) == NODE_READY;
    bool enough = there >= r->plan->spec->distributed.min_nodes;
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        struct lane *lane = &r->lanes[n];
        if (lane->closed_node || lane->left_out || !node_facts(lane->node) || node_state(lane->node) == NODE_READY)
            continue;
        if (enough && n != r->plan->master && node_state(lane->node) == NODE_WAITING)
            node_give_up(lane->node);
        else
            away = true;
    }
    if (away) /* not enough are set up yet, or this very moment it is being tried */
        loop_timer_start(r->late, LATE_AGAIN_MS);
}
