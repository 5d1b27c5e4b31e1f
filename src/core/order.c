/* The order of set-up between nodes. An item with `on: first` or a list of nodes holds back the later items of its list
 * on the other nodes, until the item is done or kept on all of its own nodes. A step waits only for earlier steps, so
 * no two steps wait for each other. A node that is left out of a launch on MIN:MAX nodes holds up no other node. A step
 * that is kept anyway waits for nothing. */
#include "internal.h"

#include <stdlib.h>

struct holder {       /* one per step */
    uint32_t *nodes;  /* all nodes of the step; NULL: not computed yet */
    uint32_t at;      /* index in nodes: where missing_on last found the step undone */
    bool began, told; /* the step began on some node; a note has said that a node waits for it */
    /* the step that last held this one back (its id + 1; 0 = none did), and the node that had to wait */
    uint32_t held_by, held_on;
};

void order_pass(struct run *r)
{
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (r->lanes[n].state == LANE_SETUP)
            run_touch(r, n);
}

static struct holder *holder_of(struct run *r, const struct plan_step *step)
{
    if (!r->holders)
        r->holders = xcalloc(r->plan->step_count + 1, sizeof *r->holders);
    return &r->holders[step->id];
}

static void find_nodes(struct run *r, const struct plan_step *step, struct holder *h)
{
    if (h->nodes)
        return;
    h->nodes = arena_array(r->arena, (size_t)step->on_count + 1, sizeof *h->nodes);
    for (uint32_t n = 0, count = 0; n < r->plan->node_count && count < step->on_count; n++)
        if (step->on[n])
            h->nodes[count++] = n;
}

/* A node other than this one, not left out, on which the step is neither done nor kept. -1: there is none. */
static int64_t missing_on(struct run *r, const struct plan_step *step, uint32_t node)
{
    struct holder *h = holder_of(r, step);
    bool mine = step->on[node] && !task_is_done(run_task(r, step, node));
    if (r->done[step->id] + mine >= step->on_count)
        return -1;
    find_nodes(r, step, h);
    for (uint32_t i = 0; i < step->on_count; i++) {
        uint32_t at = (h->at + i) % step->on_count, n = h->nodes[at];
        if (n == node || r->lanes[n].left_out || task_is_done(run_task(r, step, n)))
            continue;
        h->at = at;
        return n;
    }
    return -1;
}

bool order_holds(struct run *r, const struct plan_step *step, uint32_t node)
{
    for (size_t i = 0; step->item_of_setup && i < step->id; i++) {
        const struct plan_step *before = &r->plan->steps[i];
        if (!before->holds_back || before->role != step->role)
            continue;
        int64_t there = missing_on(r, before, node);
        if (there < 0)
            continue;
        struct holder *h = holder_of(r, before), *mine = holder_of(r, step);
        mine->held_by = before->id + 1;
        mine->held_on = node;
        if (!h->told && task_in_flight(run_task(r, before, (uint32_t)there))) {
            h->told = true;
            run_note(r, node, "step \"%s\" waits for \"%s\" on node \"%s\"", step->name, before->name,
                     r->lanes[there].name);
        }
        return true;
    }
    return false;
}

const struct plan_step *run_step_held(struct run *r, const struct plan_step *step, const char **ret_node)
{
    const struct holder *h = r->holders ? &r->holders[step->id] : NULL;
    const struct plan_step *before = h && h->held_by ? &r->plan->steps[h->held_by - 1] : NULL;
    int64_t there = before ? missing_on(r, before, h->held_on) : -1;
    if (there < 0)
        return NULL;
    *ret_node = roster_name(r->plan->roster, (uint32_t)there);
    return before;
}

/* Whether a change of the step's state concerns waiting steps. Only two changes do: the step begins, because waiting
 * steps can now name it, and the step ends on its last node. So a step costs the number of its nodes, not the square of
 * that number. */
static bool is_of_interest(struct run *r, const struct plan_step *step)
{
    struct holder *h = holder_of(r, step);
    bool began = h->began;
    h->began = true;
    return !began || r->left_out_count > 0 || r->done[step->id] == step->on_count;
}

void order_changed(struct run *r, const struct plan_step *step)
{
    bool any = false;
    for (size_t i = 0; !step && i < r->plan->step_count; i++)
        any = any || r->plan->steps[i].holds_back;
    if (r->plan->node_count > 1 && (step ? step->holds_back && is_of_interest(r, step) : any))
        run_due(r, DUE_ORDER);
}
