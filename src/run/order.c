/* The order of set-up between nodes: an item with `on: first` or a list holds back the later items of its list on the other
 * nodes until it is done, or kept, on all of its own. A step waits for earlier ones only, so nothing waits for itself. A node
 * that is left out of a launch on MIN:MAX nodes holds up nobody. What is kept anyway waits for nothing. */
#include "internal.h"

#include <stdlib.h>

struct order {
    struct loop_timer *timer; /* what was held back is looked at again */
    struct holder {           /* per step */
        uint32_t *nodes;      /* where it runs; NULL: it holds back nothing, or was not looked at yet */
        bool told;
        uint32_t held_by, held_on; /* that holds this one back (its id + 1; 0 = none did), on which node */
    } * holders;
};

static void on_timer(void *arg)
{
    struct run *r = arg;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (r->lanes[n].state == LANE_SETUP)
            run_touch(r, n);
}

static struct order *order_of(struct run *r)
{
    if (!r->order) {
        r->order = xcalloc(1, sizeof *r->order);
        r->order->timer = loop_timer_create(r->loop, on_timer, r);
        r->order->holders = xcalloc(r->plan->step_count + 1, sizeof *r->order->holders);
    }
    return r->order;
}

static const uint32_t *nodes_of(struct run *r, const struct plan_step *step)
{
    struct holder *h = &order_of(r)->holders[step->id];
    if (h->nodes)
        return h->nodes;
    h->nodes = arena_array(r->arena, (size_t)step->on_count + 1, sizeof *h->nodes);
    for (uint32_t n = 0, count = 0; n < r->plan->node_count && count < step->on_count; n++)
        if (step->on[n])
            h->nodes[count++] = n;
    return h->nodes;
}

/* A node, other than this one, on which the step is neither done nor kept; -1: there is none. */
static int64_t missing_on(struct run *r, const struct plan_step *step, uint32_t node)
{
    const uint32_t *nodes = nodes_of(r, step);
    for (uint32_t i = 0; i < step->on_count; i++) {
        enum task_state s = run_task(r, step, nodes[i])->state;
        if (nodes[i] != node && !r->lanes[nodes[i]].left_out && s != TASK_KEPT && s != TASK_DONE)
            return nodes[i];
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
        struct holder *h = &r->order->holders[before->id], *mine = &r->order->holders[step->id];
        mine->held_by = before->id + 1;
        mine->held_on = node;
        if (!h->told && task_in_flight(run_task(r, before, (uint32_t)there))) {
            h->told = true;
            run_note(r, node, "step \"%s\" waits for \"%s\" on node \"%s\"", step->name, before->name,
                     node_name(r->lanes[there].node));
        }
        return true;
    }
    return false;
}

const struct plan_step *run_step_held(struct run *r, const struct plan_step *step, const char **ret_node)
{
    const struct holder *h = r->order ? &r->order->holders[step->id] : NULL;
    const struct plan_step *before = h && h->held_by ? &r->plan->steps[h->held_by - 1] : NULL;
    int64_t there = before ? missing_on(r, before, h->held_on) : -1;
    if (there < 0)
        return NULL;
    *ret_node = r->plan->spec->hosts[there].name;
    return before;
}

void order_changed(struct run *r, const struct plan_step *step)
{
    bool any = false;
    for (size_t i = 0; !step && i < r->plan->step_count; i++)
        any = any || r->plan->steps[i].holds_back;
    if (r->plan->node_count > 1 && (step ? step->holds_back : any))
        loop_timer_start(order_of(r)->timer, 0);
}

void order_free(struct run *r)
{
    if (!r->order)
        return;
    loop_timer_destroy(r->order->timer);
    free(r->order->holders);
    free(r->order);
}
