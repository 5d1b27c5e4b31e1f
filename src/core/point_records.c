/* The records of the points of a sweep, in the journal and on the nodes: which points are done, and which run
 * somewhere. The parts of a launch on several nodes have begun with one STARTED: the number of that event (cell.seq)
 * distinguishes them from the parts of another launch of the point; on the nodes the name of the launch does. */
#include "points.h"

#include <stdlib.h>
#include <string.h>

/* ---- what is recorded ---- */

/* Whether the attempt ended well, with the key that the step has now. */
static bool is_good(const struct state_cell *c, const struct plan_step *step)
{
    return (c->outcome == OUTCOME_OK || c->was_ok) && str_eq(c->key, step->key);
}

/* The attempt's place in the journal. otherwise: the result if there is none, or an impossible one. */
static uint32_t recorded_place(const struct state_cell *c, uint32_t otherwise)
{
    return c && c->place && c->place <= PLACES_MAX ? (uint32_t)c->place - 1 : otherwise;
}

static const struct state_cell *cell_at(const struct state *s, const struct plan_step *step, uint32_t node)
{
    return state_cell_find(s, step->scope, step->name, node);
}

static uint32_t parts_of(const struct plan *plan, uint32_t i)
{
    return plan->points[i].own->node_count;
}

/* Whether all parts of the launch that began with this event are recorded and ended well. */
static bool is_whole(const struct state *s, const struct plan *plan, uint32_t i, uint64_t seq)
{
    const struct plan_step *step = &plan->steps[plan->points[i].launch];
    uint32_t count = 0;
    for (uint32_t n = 0; n < plan->node_count; n++) {
        const struct state_cell *c = cell_at(s, step, n);
        count += c && c->seq == seq && is_good(c, step);
    }
    return count == parts_of(plan, i);
}

struct good_want {
    const char *run; /* only launches of this run; NULL: of any run */
    bool believed;   /* only launches that no flag of the open run voids */
};

/* The first part of the latest launch of the point that ended well; NULL: there is none, or a launch has failed
 * since. */
static const struct state_cell *good_launch(const struct state *s, const struct plan *plan, uint32_t i,
                                            const struct good_want *want)
{
    const struct plan_step *step = &plan->steps[plan->points[i].launch];
    const struct state_cell *best = NULL;
    uint64_t broken = 0, failed_ms = 0; /* broken: number of the latest launch that is not complete */
    for (uint32_t n = 0; n < plan->node_count; n++) {
        const struct state_cell *c = cell_at(s, step, n);
        if (!c || !str_eq(c->key, step->key))
            continue;
        if (!is_good(c, step)) {
            const bool failed = c->outcome == OUTCOME_FAILED || c->outcome == OUTCOME_TIMED_OUT;
            failed_ms = failed && c->finished_ms > failed_ms ? c->finished_ms : failed_ms;
            continue;
        }
        if ((best && c->seq <= best->seq) || c->seq == broken || (want->run && !str_eq(c->run, want->run)) ||
            (want->believed && c->voided))
            continue;
        if (parts_of(plan, i) == 1 || is_whole(s, plan, i, c->seq))
            best = c;
        else
            broken = c->seq;
    }
    return best && best->finished_ms >= failed_ms ? best : NULL;
}

bool run_point_launched(const struct state *s, const struct plan *plan, uint32_t i)
{
    return good_launch(s, plan, i, &(struct good_want){.believed = true}) != NULL;
}

/* The nodes of the launch that began with this event, in the order of its ranks. False: not all of it is known. */
static bool find_nodes(const struct state *s, const struct plan *plan, uint32_t i, uint64_t seq, uint32_t *ret)
{
    const struct plan_step *step = &plan->steps[plan->points[i].launch];
    const uint32_t parts = parts_of(plan, i);
    uint32_t count = 0;
    for (uint32_t n = 0; n < plan->node_count && count < parts; n++) {
        const struct state_cell *c = cell_at(s, step, n);
        if (c && c->seq == seq)
            ret[count++] = n;
    }
    return count == parts;
}

/* Whether this output of the launch that began with this event was fetched from the node. */
static bool came_home(const struct state *s, const struct plan_step *step, uint32_t node, uint64_t seq)
{
    const struct state_cell *c = cell_at(s, step, node);
    return c && is_good(c, step) && c->seq > seq;
}

bool run_point_recorded(const struct state *s, const struct plan *plan, uint32_t i)
{
    const struct plan_point *p = &plan->points[i];
    const struct state_cell *launch = good_launch(s, plan, i, &(struct good_want){.believed = true});
    CLEANUP(cleanup_free) uint32_t *nodes = xcalloc((size_t)parts_of(plan, i) + 1, sizeof *nodes);
    if (!launch || !find_nodes(s, plan, i, launch->seq, nodes))
        return false;
    for (uint32_t id = p->launch + 1; id < p->end; id++)
        for (uint32_t k = 0; k < parts_of(plan, i); k++) {
            const struct plan_step *step = &plan->steps[id];
            if (step->of_point[k] && (!came_home(s, step, nodes[k], launch->seq) || cell_at(s, step, nodes[k])->voided))
                return false;
        }
    return true;
}

enum outcome point_outcome(const struct run *r, uint32_t i)
{
    bool good = true, failed = false, unknown = false;
    for (uint32_t k = 0; k < r->points->parts; k++) {
        const struct plan_step *step = point_launch(r, i);
        const uint32_t node = r->points->items[i].nodes[k];
        const struct state_cell *c = cell_at(r->state, step, node);
        /* a restart of the node makes its cell unknown, but the attempt's outcome may still be found on the node */
        if (!c || c->outcome == OUTCOME_NONE ||
            task_in_flight(&r->tasks[(size_t)step->id * r->plan->node_count + node]))
            return OUTCOME_NONE;
        good = good && (c->outcome == OUTCOME_OK || c->was_ok);
        failed = failed || c->outcome == OUTCOME_FAILED || c->outcome == OUTCOME_TIMED_OUT;
        unknown = unknown || (c->outcome == OUTCOME_UNKNOWN && !c->was_ok);
    }
    return good ? OUTCOME_OK : unknown ? OUTCOME_UNKNOWN : failed ? OUTCOME_FAILED : OUTCOME_STOPPED;
}

const struct state_cell *point_failure(const struct run *r, uint32_t i)
{
    const struct state_cell *first = NULL;
    for (uint32_t k = 0; k < r->points->parts; k++) {
        const struct state_cell *c = cell_at(r->state, point_launch(r, i), r->points->items[i].nodes[k]);
        if (c && (c->outcome == OUTCOME_FAILED || c->outcome == OUTCOME_TIMED_OUT) &&
            (!first || c->finished_ms < first->finished_ms))
            first = c;
    }
    return first;
}

/* ---- what this run did before this process ---- */

struct found {
    const struct state_cell *latest; /* a part of the latest launch in this run; NULL: there was none */
    uint32_t unknown;                /* launches in this run that left no outcome */
};

static struct found look(const struct run *r, const struct plan_step *step)
{
    struct found f = {0};
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        const struct state_cell *c = r->id[0] ? cell_at(r->state, step, n) : NULL;
        if (!c || !str_eq(c->run, r->id))
            continue;
        if (!f.latest || c->seq > f.latest->seq)
            f.latest = c;
        bool counts = c->outcome == OUTCOME_UNKNOWN && !c->was_ok;
        for (uint32_t m = 0; m < n && counts; m++) { /* each launch once */
            const struct state_cell *other = cell_at(r->state, step, m);
            counts = !other || other->seq != c->seq || other->outcome != OUTCOME_UNKNOWN;
        }
        f.unknown += counts;
    }
    return f;
}

static void replay_live(struct run *r, const struct plan_step *step, const struct state_cell *c)
{
    struct run_task *t = run_task(r, step, c->node);
    task_set_state(r, t, TASK_RUNNING);
    task_look(t, true);
    memcpy(t->attempt, c->attempt, sizeof t->attempt);
    t->started_ms = c->started_ms;
}

/* The latest launch is in flight, or a part of it is. */
static void replay_launch(struct run *r, uint32_t i)
{
    struct point *point = &r->points->items[i];
    const struct plan_step *step = point_launch(r, i);
    bool bad = false;
    point_put_on(r, i);
    point->place = recorded_place(cell_at(r->state, step, point->nodes[0]), 0);
    for (uint32_t k = 0; k < r->points->parts; k++) {
        const struct state_cell *c = cell_at(r->state, step, point->nodes[k]);
        struct run_task *t = run_task(r, step, c->node);
        if (c->outcome == OUTCOME_NONE) {
            replay_live(r, step, c);
            point_take_place(r, c->node, point->place);
            continue;
        }
        memcpy(t->attempt, c->attempt, sizeof t->attempt);
        task_set_state(r, t, c->outcome == OUTCOME_OK || c->was_ok ? TASK_DONE : TASK_FAILED);
        bad = bad || t->state == TASK_FAILED;
    }
    point_set_state(r, i, POINT_RUNS);
    for (uint32_t k = 0; k < r->points->parts && bad; k++) /* the parts are stopped when their nodes are connected */
        task_want_stop(run_task(r, step, point->nodes[k]));
}

/* The point's launch has ended well: finds out which of its files have been fetched. */
static void replay_files(struct run *r, uint32_t i, const struct state_cell *good)
{
    const struct plan_point *p = &r->plan->points[i];
    struct point *point = &r->points->items[i];
    bool missing = false;
    point_put_on(r, i);
    point->good = true;
    point->kept = !str_eq(good->run, r->id);
    const enum task_state here = point->kept ? TASK_KEPT : TASK_DONE;
    for (uint32_t k = 0; k < r->points->parts; k++) {
        const uint32_t n = point->nodes[k];
        const struct state_cell *part = cell_at(r->state, point_launch(r, i), n);
        struct run_task *t = run_task(r, point_launch(r, i), n);
        task_set_state(r, t, here);
        memcpy(t->attempt, part->attempt, sizeof t->attempt);
        for (uint32_t id = p->launch + 1; id < p->end; id++) {
            const struct plan_step *step = &r->plan->steps[id];
            const struct state_cell *c = step->on[n] ? cell_at(r->state, step, n) : NULL;
            if (!step->on[n])
                continue;
            if (came_home(r->state, step, n, good->seq))
                task_set_state(r, run_task(r, step, n), here);
            else if (c && c->outcome == OUTCOME_NONE && str_eq(c->run, r->id) && str_eq(c->key, step->key))
                replay_live(r, step, c);
            missing = missing || !task_is_done(run_task(r, step, n));
        }
    }
    point_set_state(r, i, missing ? POINT_FETCHES : POINT_DONE);
}

static void replay_one(struct run *r, uint32_t i, bool anew)
{
    const struct plan_step *launch = point_launch(r, i);
    struct point *point = &r->points->items[i];
    const struct found f = look(r, launch);
    const bool known = f.latest && find_nodes(r->state, r->plan, i, f.latest->seq, point->nodes);
    point->tries = f.latest ? (uint32_t)f.latest->tries : 0;
    point->undone = f.unknown;
    if (known && str_eq(f.latest->key, launch->key) && point_outcome(r, i) == OUTCOME_NONE) {
        replay_launch(r, i);
        return;
    }
    const bool failed = known && point_has_failed(r, i, point_outcome(r, i));
    point->tries += failed;
    const struct state_cell *good = good_launch(r->state, r->plan, i, &(struct good_want){.run = anew ? r->id : NULL});
    if (good && find_nodes(r->state, r->plan, i, good->seq, point->nodes))
        replay_files(r, i, good);
    else
        point_set_state(r, i, failed && point->tries > point_most_tries(r) ? POINT_FAILED : POINT_WAITS);
}

void points_replay(struct run *r)
{
    const struct state_run *run = run_recorded(r);
    const bool anew = run && (run->flags & RUN_FLAGS_ANEW) != 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; r->points && i < r->plan->point_count; i++) {
        replay_one(r, i, anew || r->plan->spec->entrypoint.always);
        kept += r->points->items[i].kept;
    }
    if (kept && r->points->over < r->plan->point_count)
        run_note(r, EVENT_NODE_NONE, "%u of %u points are done already%s", kept, r->plan->point_count,
                 kept < r->plan->point_count ? "" : "; the changed `outputs` are fetched");
}

/* ---- the nodes' records of points ---- */

struct point_slot {
    const char *slot; /* of its launch */
    uint32_t point;
};

static int by_slot(const void *a, const void *b)
{
    return strcmp(((const struct point_slot *)a)->slot, ((const struct point_slot *)b)->slot);
}

struct point_slot *point_slots_create(const struct run *r)
{
    struct point_slot *slots = arena_array(r->arena, (size_t)r->plan->point_count + 1, sizeof *slots);
    for (uint32_t i = 0; i < r->plan->point_count; i++)
        slots[i] = (struct point_slot){point_launch(r, i)->slot, i};
    qsort(slots, r->plan->point_count, sizeof *slots, by_slot);
    return slots;
}

/* The point whose launch has this slot and key. POINT_NO_NODE: none. */
static uint32_t point_of(const struct run *r, const struct wire_record *rec)
{
    const struct point_slot key = {.slot = rec->slot};
    const struct point_slot *at =
        str_starts(rec->slot, "point:")
            ? bsearch(&key, r->points->slots, r->plan->point_count, sizeof *r->points->slots, by_slot)
            : NULL;
    return at && str_eq(point_launch(r, at->point)->key, rec->key) ? at->point : POINT_NO_NODE;
}

bool points_want(const struct run *r, const struct wire_record *rec)
{
    return r->points && !(r->options.flags & RUN_FLAGS_ANEW) && point_of(r, rec) != POINT_NO_NODE;
}

/* Whether the record may stand for the point, which must wait for a place. The record of the latest attempt may,
 * whichever run began the attempt: a run of another plan may have replaced that run before it learned of the end. */
static bool may_take(const struct lane *lane, uint32_t i, const struct wire_record *rec)
{
    const struct run *r = lane->run;
    const struct plan_step *step = point_launch(r, i);
    const struct state_run *own = run_recorded(r);
    const struct state_cell *c = cell_at(r->state, step, lane->index);
    const bool anew = (own && own->flags & RUN_FLAGS_ANEW) || r->plan->spec->entrypoint.always;
    if (r->points->items[i].state != POINT_WAITS)
        return false;
    if (c && str_eq(c->attempt, rec->attempt) && (c->outcome == OUTCOME_NONE || c->outcome == OUTCOME_UNKNOWN))
        return !anew;
    return lane_may_adopt(lane, step, rec);
}

static bool is_done_there(const struct run *r, const struct wire_record *rec)
{
    return wire_record_success(rec) && str_eq(rec->variant, r->work) && rec->same_boot;
}

/* Puts the point on the nodes that have its records; the caller finds out how far the point is. Returns its launch. */
static const struct plan_step *take(struct run *r, uint32_t i, uint32_t place)
{
    struct point *point = &r->points->items[i];
    point->place = place;
    point_put_on(r, i);
    for (uint32_t k = 0; k < r->points->parts; k++) {
        point_take_place(r, point->nodes[k], place);
        point_reset(r, point_launch(r, i), point->nodes[k]);
    }
    point_set_state(r, i, POINT_RUNS);
    return point_launch(r, i);
}

const struct plan_step *points_owner(struct lane *lane, const struct wire_record *rec)
{
    struct run *r = lane->run;
    const uint32_t i = r->points && r->points->parts == 1 ? point_of(r, rec) : POINT_NO_NODE;
    if (i == POINT_NO_NODE || !may_take(lane, i, rec))
        return NULL;
    const struct state_cell *c = state_cell_by_attempt(r->state, rec->attempt);
    r->points->items[i].nodes[0] = lane->index;
    const struct plan_step *step = take(r, i, recorded_place(c, point_free_place(r->points, lane->index)));
    task_take_over(r, step, lane->index, rec);
    return step;
}

void points_adopt(struct lane *lane)
{
    struct run *r = lane->run;
    for (size_t k = 0; r->points && r->points->parts == 1 && k < lane->record_count; k++) {
        const struct wire_record *rec = &lane->records[k];
        const uint32_t i = is_done_there(r, rec) ? point_of(r, rec) : POINT_NO_NODE;
        if (i == POINT_NO_NODE || !may_take(lane, i, rec))
            continue;
        r->points->items[i].nodes[0] = lane->index;
        task_finish(r, take(r, i, 0), lane->index, rec, true);
    }
}

/* ---- the same for a launch with parts on several nodes ---- */

struct part {
    uint32_t point, node;
    const struct wire_record *rec;
};

static int by_launch(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    const int order = strcmp(x->rec->launch, y->rec->launch);
    return x->point != y->point ? (x->point < y->point ? -1 : 1)
           : order              ? order
           : x->node != y->node ? (x->node < y->node ? -1 : 1)
                                : 0;
}

/* The parts on all nodes that have listed their records; heap. */
static struct part *find_parts(const struct run *r, size_t *ret_count)
{
    struct part *list = NULL;
    size_t count = 0, cap = 0;
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        const struct lane *lane = &r->lanes[n];
        const bool said = lane_has_listed(lane) && lane->state != LANE_FAILED; /* the node may be away again by now */
        for (size_t k = 0; said && k < lane->record_count; k++) {
            const struct wire_record *rec = &lane->records[k];
            const bool lives = rec->state == WIRE_STATE_CLAIMED && !lane_has_orphan(lane, rec->attempt);
            const uint32_t i = lives || is_done_there(r, rec) ? point_of(r, rec) : POINT_NO_NODE;
            if (i == POINT_NO_NODE || !rec->launch[0] || !may_take(lane, i, rec))
                continue;
            if (count == cap) {
                cap = cap ? 2 * cap : 64;
                list = xreallocarray(list, cap, sizeof *list);
            }
            list[count++] = (struct part){i, n, rec};
        }
    }
    if (count)
        qsort(list, count, sizeof *list, by_launch);
    *ret_count = count;
    return list;
}

/* Whether the point waits for a place and each of its parts is on a different node. */
static bool is_wanted(const struct run *r, const struct part *parts)
{
    for (uint32_t k = 1; k < r->points->parts; k++)
        if (parts[k].node <= parts[k - 1].node)
            return false;
    return r->points->items[parts->point].state == POINT_WAITS;
}

static bool are_free(const struct run *r, const struct part *parts)
{
    for (uint32_t k = 0; k < r->points->parts; k++)
        if (r->points->used[parts[k].node] > 0)
            return false;
    return true;
}

static void take_all(struct run *r, const struct part *parts)
{
    const struct wire_record **recs = xcalloc(r->points->parts, sizeof *recs);
    struct point *point = &r->points->items[parts->point];
    for (uint32_t k = 0; k < r->points->parts; k++) {
        point->nodes[k] = parts[k].node;
        recs[k] = parts[k].rec;
    }
    const struct plan_step *step = take(r, parts->point, 0);
    task_take_over_many(r, step, point->nodes, recs, r->points->parts);
    for (uint32_t k = 0; k < r->points->parts; k++)
        if (is_done_there(r, recs[k]))
            task_finish(r, step, parts[k].node, recs[k], true);
    free(recs);
}

static bool all_done(const struct run *r, const struct part *parts)
{
    for (uint32_t k = 0; k < r->points->parts; k++)
        if (!is_done_there(r, parts[k].rec))
            return false;
    return true;
}

/* Takes over launches: those that are done before those that run, because a running launch holds its nodes from then
 * on. True: a launch that is done must wait, because one of its nodes has a point whose own end is not recorded yet. */
static bool meet(struct run *r, const struct part *list, size_t count, bool done)
{
    bool waits = false;
    for (size_t at = 0, end; at < count; at = end) {
        end = at + 1;
        while (end < count && list[end].point == list[at].point && str_eq(list[end].rec->launch, list[at].rec->launch))
            end++;
        if (end - at != r->points->parts || all_done(r, &list[at]) != done || !is_wanted(r, &list[at]))
            continue;
        if (are_free(r, &list[at]))
            take_all(r, &list[at]);
        else
            waits |= done;
    }
    return waits;
}

void points_meet(struct run *r)
{
    struct points *p = r->points;
    size_t count;
    if (!p || p->parts == 1 || p->met || r->options.mode != RUN_EXECUTE || !run_all_answered(r))
        return;
    struct part *list = find_parts(r, &count);
    const bool waits = meet(r, list, count, true);
    if (!p->taken_over)
        meet(r, list, count, false);
    p->taken_over = true;
    p->met = !waits;
    free(list);
}
