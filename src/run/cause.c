/* The first cause of a failure. */
#include "core.h"

#include <string.h>

bool cause_offer(struct cause *best, const struct cause *c)
{
    if (best->step && c->at_ns > best->at_ns)
        return false; /* of the same instant is the same failure: its record knows more than its END */
    *best = *c;
    return true;
}

bool cause_has_rank(const struct run *r, const struct plan_step *step, uint32_t rank, enum outcome outcome)
{
    return step->kind->ranked && r->plan->spec->distributed.present && rank != WIRE_NO_RANK &&
           outcome != OUTCOME_UNKNOWN;
}

void cause_tell(struct run *r)
{
    const struct cause *c = &run_launch(r)->cause;
    struct run_result *res = &r->result;
    if (!c->step)
        return;
    res->has_cause = true;
    res->cause_step = c->step->name;
    res->cause_node = arena_strdup(r->arena, r->lanes[c->node].name);
    res->cause = c->cause;
    res->cause_value = c->value;
    res->cause_rank = c->rank;
    res->cause_has_rank = c->has_rank;
    res->cause_generation = c->generation;
    res->cause_tail = c->tail;
}
