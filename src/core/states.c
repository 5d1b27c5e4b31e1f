/* All changes of the state of the run, its launch, a node's lane, or a task. Each of these machines has a table of its
 * legal changes. Any other change is a fault of rhrun itself and ends the program here, before anything can follow from
 * the fault. */
#include "internal.h"

#include <stdlib.h>

#define BIT(x) (1u << (x))

static void check(unsigned legal, unsigned to)
{
    if (!(legal & BIT(to)))
        abort();
}

void run_set_stage(struct run *r, enum stage to)
{
    static const unsigned ends = BIT(STAGE_EPILOG) | BIT(STAGE_OUTPUTS) | BIT(STAGE_CLOSING) | BIT(STAGE_CLOSED);
    static const unsigned legal[] = {
        /* PREFLIGHT: RUN_LOOK goes there at once if no node can be asked for a port */
        [STAGE_SETUP] = BIT(STAGE_RESTARTING) | BIT(STAGE_PORT) | BIT(STAGE_PREFLIGHT) | BIT(STAGE_PROLOG) |
                        BIT(STAGE_LAUNCH) | ends,
        [STAGE_RESTARTING] = BIT(STAGE_PORT) | ends,
        [STAGE_AGAIN] =
            BIT(STAGE_AGAIN) | BIT(STAGE_PORT) | BIT(STAGE_PREFLIGHT) | BIT(STAGE_PROLOG) | BIT(STAGE_LAUNCH) | ends,
        [STAGE_PORT] = BIT(STAGE_AGAIN) | BIT(STAGE_PREFLIGHT) | ends,
        [STAGE_PREFLIGHT] = BIT(STAGE_AGAIN) | BIT(STAGE_PORT) | BIT(STAGE_PREFLIGHT) | ends,
        [STAGE_PROLOG] = BIT(STAGE_AGAIN) | ends,
        [STAGE_LAUNCH] = BIT(STAGE_RESTARTING) | ends,
        [STAGE_EPILOG] = ends,
        [STAGE_OUTPUTS] = BIT(STAGE_CLOSING) | BIT(STAGE_CLOSED),
        [STAGE_CLOSING] = BIT(STAGE_CLOSED),
        [STAGE_CLOSED] = BIT(STAGE_CLOSED),
    };
    check(legal[r->stage], to);
    r->stage = to;
}

void run_set_ending(struct run *r, enum ending to)
{
    if (to > r->ending)
        r->ending = to;
}

void launch_set(struct launch *l, enum launch_state to)
{
    static const unsigned legal[] = {
        [LAUNCH_GOES_ON] = BIT(LAUNCH_GOES_ON) | BIT(LAUNCH_CONDEMNED) | BIT(LAUNCH_OVER),
        [LAUNCH_CONDEMNED] = BIT(LAUNCH_GOES_ON) | BIT(LAUNCH_OVER),
        [LAUNCH_OVER] = BIT(LAUNCH_OVER),
    };
    check(legal[l->state], to);
    l->state = to;
}

void lane_set_presence(struct lane *lane, enum presence to)
{
    static const unsigned legal[] = {
        [PRESENCE_ABSENT] = BIT(PRESENCE_COMING),
        [PRESENCE_COMING] = BIT(PRESENCE_HERE) | BIT(PRESENCE_GONE) | BIT(PRESENCE_LOST) /* given up: replaced.c */,
        [PRESENCE_HERE] = BIT(PRESENCE_LISTED) | BIT(PRESENCE_LOST) | BIT(PRESENCE_GONE) |
                          BIT(PRESENCE_COMING) /* greeted anew: see work.c */,
        [PRESENCE_LISTED] = BIT(PRESENCE_LOST) | BIT(PRESENCE_GONE) | BIT(PRESENCE_COMING),
        [PRESENCE_LOST] = BIT(PRESENCE_HERE) | BIT(PRESENCE_GONE) | BIT(PRESENCE_COMING) /* as another machine */,
        [PRESENCE_GONE] = BIT(PRESENCE_COMING), /* a node of MIN:MAX nodes is tried again: elastic.c */
    };
    check(legal[lane->presence], to);
    lane->presence = to;
}

void lane_set_state(struct lane *lane, enum lane_state to)
{
    static const unsigned legal[] = {
        [LANE_CONNECTING] = BIT(LANE_LISTED) | BIT(LANE_BARRIER) /* the run needs nothing from the node */,
        [LANE_LISTED] = BIT(LANE_SETUP) | BIT(LANE_CONNECTING) /* greeted anew: see work.c */,
        [LANE_SETUP] = BIT(LANE_SETUP) | BIT(LANE_SETTLING) | BIT(LANE_BARRIER),
        [LANE_SETTLING] = BIT(LANE_SETTLING) | BIT(LANE_SETUP) | BIT(LANE_BARRIER),
        [LANE_BARRIER] = BIT(LANE_SETUP),
        [LANE_FAILED] = BIT(LANE_CONNECTING) | BIT(LANE_SETUP), /* a node of MIN:MAX nodes is tried again */
    };
    check(legal[lane->state] | BIT(LANE_FAILED), to);
    lane->state = to;
}

static bool is_done(enum task_state s)
{
    return s == TASK_KEPT || s == TASK_DONE;
}

bool task_has_failed(const struct run_task *t)
{
    return t->state == TASK_FAILED || t->state == TASK_LEFT;
}

void task_look(struct run_task *t, bool looked_at)
{
    t->decided = looked_at;
}

void task_may_have_started(struct run_task *t)
{
    t->marks.may_have_started = true;
}

void task_want_stop(struct run_task *t)
{
    t->marks.stop_wanted = true;
}

void task_mark_sent(const struct lane *lane, struct run_task *t)
{
    t->marks.sent_over = lane->connections;
}

bool task_is_sent(const struct lane *lane, const struct run_task *t)
{
    return t->marks.sent_over && t->marks.sent_over == lane->connections;
}

void task_set_coming(struct run_task *t, bool coming)
{
    t->coming = coming;
}

void lane_set_replacing(struct lane *lane, bool replacing)
{
    lane->replacing = replacing;
}

void lane_set_saving(struct lane *lane, enum saving saving)
{
    lane->saving = saving;
}

void lane_hold_points(struct lane *lane, bool hold)
{
    lane->holds_points = hold;
}

void lane_set_dirty(struct lane *lane, bool dirty)
{
    lane->dirty = dirty;
}

void lane_set_doubtful(struct lane *lane, bool doubtful)
{
    lane->doubtful = doubtful;
}

void run_has_patches(struct run *r)
{
    r->patched = true;
}

bool task_is_done(const struct run_task *t)
{
    return is_done(t->state);
}

void task_set_state(struct run *r, struct run_task *t, enum task_state to)
{
    static const unsigned legal[] = {
        /* RUNNING and DONE: the task was found in this state, in the journal or on the node */
        [TASK_PENDING] = BIT(TASK_PENDING) | BIT(TASK_STARTING) | BIT(TASK_KEPT) | BIT(TASK_RUNNING) | BIT(TASK_DONE) |
                         BIT(TASK_FAILED),
        [TASK_KEPT] = BIT(TASK_PENDING),
        [TASK_STARTING] = BIT(TASK_RUNNING) | BIT(TASK_DONE) | BIT(TASK_FAILED) | BIT(TASK_LEFT),
        [TASK_HELD] = BIT(TASK_RUNNING) | BIT(TASK_PENDING) | BIT(TASK_FAILED) | BIT(TASK_LEFT),
        [TASK_RUNNING] = BIT(TASK_PENDING) /* its attempt belongs to an earlier launch: an orphan */ | BIT(TASK_HELD) |
                         BIT(TASK_STOPPING) | BIT(TASK_DONE) | BIT(TASK_FAILED) | BIT(TASK_LEFT),
        [TASK_STOPPING] = BIT(TASK_STOPPING) | BIT(TASK_DONE) | BIT(TASK_FAILED) | BIT(TASK_LEFT),
        [TASK_WAITING] = BIT(TASK_PENDING) | BIT(TASK_FAILED),
        [TASK_DONE] = BIT(TASK_PENDING) | BIT(TASK_FAILED) | BIT(TASK_LEFT) /* the node has restarted */,
        [TASK_FAILED] =
            BIT(TASK_PENDING) | BIT(TASK_WAITING) | BIT(TASK_STARTING) | BIT(TASK_LEFT) /* by its end in the journal */,
        [TASK_LEFT] = BIT(TASK_PENDING) | BIT(TASK_STARTING) /* the node joins again */ | BIT(TASK_FAILED),
    };
    const size_t step = (size_t)(t - r->tasks) / r->plan->node_count;
    check(legal[t->state], to);
    r->done[step] += (uint32_t)is_done(to) - (uint32_t)is_done(t->state);
    t->state = to;
}
