/* The turn: everything that follows from inputs is decided here, in one place. A callback takes its input, says which
 * passes are due (run_due, run_touch) and returns. Once in a turn of the event loop run_turn runs the passes below, in
 * their order, until none is due. A pass may make an earlier pass due; no pass calls another.  The order is the course
 * of a run: nodes come to the barrier, the barrier opens the launch, the launch ends in outputs, and outputs end the
 * run. Attempts of something that failed are stopped before anything new begins. */
#include "internal.h"

#include <stdlib.h>

enum { PASSES_MAX = 100000 /* in one turn; then the loop serves others before the remaining passes run */ };

static void wake(struct run *r)
{
    if (!alarm_is_set(r->turn))
        alarm_set(r->turn, 0);
}

void run_due(struct run *r, enum due due)
{
    r->due |= due;
    wake(r);
}

/* Returns whether the lane was in the turn before. */
static bool set_in_turn(struct lane *lane, bool in_turn)
{
    bool was = lane->in_turn;
    lane->in_turn = in_turn;
    return was;
}

void run_touch(struct run *r, uint32_t node)
{
    if (set_in_turn(&r->lanes[node], true))
        return;
    r->touched[(r->touched_first + r->touched_count++) % r->plan->node_count] = node;
    wake(r);
}

static bool take_node(struct run *r, uint32_t *ret)
{
    if (r->touched_count == 0)
        return false;
    *ret = r->touched[r->touched_first];
    r->touched_first = (r->touched_first + 1) % r->plan->node_count;
    r->touched_count--;
    set_in_turn(&r->lanes[*ret], false);
    return true;
}

static bool take(struct run *r, enum due due)
{
    bool is_due = r->due & due;
    r->due &= ~(uint32_t)due;
    return is_due;
}

static void each_launch(struct run *r, void (*pass)(struct launch *l))
{
    for (size_t i = 0; i < r->launch_count && !r->points; i++)
        pass(&r->launches[i]);
}

/* Runs the first pass that is due. False: none is due. */
static bool one_pass(struct run *r)
{
    uint32_t node;
    if (take(r, DUE_STOP))
        run_stop(r);
    else if (take(r, DUE_ORDER))
        order_pass(r);
    else if (take_node(r, &node))
        lane_pass(&r->lanes[node]);
    else if (r->points && take(r, DUE_BARRIER))
        points_pass(r);
    else if (take(r, DUE_BARRIER))
        each_launch(r, launch_barrier);
    else if (take(r, DUE_PORT))
        each_launch(r, launch_meet_elsewhere);
    else if (take(r, DUE_PROLOG))
        each_launch(r, launch_go_on);
    else if (take(r, DUE_LAUNCH))
        each_launch(r, launch_pass);
    else if (take(r, DUE_PARTED))
        each_launch(r, launch_parted);
    else if (take(r, DUE_RANK0))
        each_launch(r, rank0_pass);
    else if (take(r, DUE_OUTPUTS))
        each_launch(r, outputs_pass);
    else if (take(r, DUE_END))
        run_check_end(r);
    else
        return false;
    return true;
}

void run_turn(void *arg)
{
    struct run *r = arg;
    unsigned passes = 0;
    while (passes < PASSES_MAX && one_pass(r))
        passes++;
    if (passes < PASSES_MAX)
        alarm_clear(r->turn);
    else
        alarm_set(r->turn, 0);
}
