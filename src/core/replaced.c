/* Rented machines that are lost and replaced. If a machine was lost between two controllers, its attempts have no
 * outcome, which is not a failure of the job. While a run goes on, a rule with replace_node gives a machine up: from
 * then on its node is lost, until it is another machine. Set-up there, the ends of attempts there and the next
 * generation follow as for any node that comes back as another machine. All of this is on disk: a controller that
 * continues the run finds either the lost machine replaced, or the rule's verdict and the old machine. */
#include "internal.h"
#include "rules.h"

bool lane_is_elsewhere(const struct lane *lane, const struct state_cell *c)
{
    return c && c->install && lane->facts && !str_eq(c->install, lane->facts->install);
}

/* Whether the task has failed only because its node's machine is gone. */
static bool is_lost(struct run *r, const struct plan_step *step, uint32_t node)
{
    const struct state_cell *c = step->on[node] ? state_cell_find(r->state, step->scope, step->name, node) : NULL;
    return c && run_task(r, step, node)->state == TASK_FAILED && c->outcome == OUTCOME_UNKNOWN &&
           str_eq(c->run, r->id) && lane_is_elsewhere(&r->lanes[node], c);
}

const char *replaced_part(struct launch *l)
{
    struct run *r = l->run;
    const char *name = NULL;
    for (size_t i = l->first_step; i < l->end_step && r->plan->spec->rent; i++)
        for (uint32_t n = 0; n < r->plan->node_count; n++) {
            const struct plan_step *step = &r->plan->steps[i];
            if (step->kind->phase > PHASE_LAUNCH || !is_lost(r, step, n))
                continue;
            if (step->kind->phase == PHASE_PROLOG) /* the prolog is done on the new machine */
                task_set_state(r, run_task(r, step, n), TASK_PENDING);
            else if (!rules_condemned(l)) /* otherwise the launch has failed, and its restart or end is decided */
                name = r->lanes[n].name;
        }
    return name;
}

void lane_replace(struct lane *lane)
{
    struct run *r = lane->run;
    if (lane->replacing || r->ending != ENDING_NOT)
        return;
    lane_set_replacing(lane, true);
    if (lane->away)
        alarm_clear(lane->away);
    outputs_lost(lane);
    preflight_lost(run_launch(r));
    if (lane->state == LANE_LISTED) /* its records do not matter any more */
        lane_ask_anew(lane);
    if (lane->presence != PRESENCE_LOST && lane->presence != PRESENCE_GONE)
        lane_set_presence(lane, PRESENCE_LOST);
    run_note(r, lane->index, "another machine is rented for it");
    run_effect(r, &(struct effect){.kind = EFFECT_REPLACE, .node = lane->index});
    run_changed(r);
}

void lane_replaced(struct lane *lane)
{
    struct run *r = lane->run;
    lane_set_replacing(lane, false);
    if (lane->state == LANE_FAILED)
        lane_set_state(lane, LANE_CONNECTING);
    run_effect(r, &(struct effect){.kind = EFFECT_CONNECT, .node = lane->index});
    run_changed(r);
}
