/* What the points of a sweep do next: see points.h. */
#include "points.h"

#include <stdlib.h>
#include <string.h>

enum {
    POINT_TOKEN = 1 << 20, /* of the question for a port; the number of the point is added */
    POINT_UNDONE_MAX = 20, /* how often a point may leave no outcome in a run */
};

const struct plan_step *point_launch(const struct run *r, uint32_t i)
{
    return &r->plan->steps[r->plan->points[i].launch];
}

static const char *name_of(const struct run *r, uint32_t i)
{
    return r->plan->points[i].point->name;
}

void point_fill(const struct run *r, const struct plan_step *step, struct event_attempt *ret)
{
    if (step->kind->phase != PHASE_POINT)
        return;
    const struct spec_point *p = r->plan->points[step->point].point;
    ret->point = p->name;
    ret->params = p->params_json;
    if (step->id != r->plan->points[step->point].launch)
        return;
    ret->place = (uint64_t)r->points->items[step->point].place + 1;
    ret->parts = r->points->parts > 1 ? r->points->parts : 0;
    ret->tries = r->points->items[step->point].tries;
}

uint32_t point_part(const struct run *r, uint32_t i, uint32_t node)
{
    const struct point *point = &r->points->items[i];
    uint32_t k = 0;
    while (k < r->points->parts && point->nodes[k] != node)
        k++;
    return k < r->points->parts ? k : POINT_NO_NODE;
}

void point_fill_end(const struct run *r, const struct plan_step *step, uint32_t node, struct arena *arena,
                    struct event_finished *ret)
{
    if (step->kind->phase == PHASE_POINT && step->id == r->plan->points[step->point].launch)
        ret->metrics = point_metrics_json(r, step->point, node, arena);
}

bool points_have_metrics(const struct run *r)
{
    return r->points && r->points->metrics;
}

/* ---- places ---- */

/* How many points the node takes at a time; 0: that is not known yet, or the node cannot take any. */
static uint32_t places_of(const struct run *r, uint32_t node)
{
    const struct spec_sweep *sweep = r->plan->spec->sweep;
    const struct wire_facts *facts = r->lanes[node].facts;
    const struct spec_devices *devices = spec_devices(r->plan->spec, node);
    uint32_t n = sweep->per_node ? sweep->per_node : 1;
    if (sweep->place == SWEEP_GPUS)
        n = (devices->list ? devices->count : facts ? facts->gpu_count : 0) / n;
    return n > PLACES_MAX ? PLACES_MAX : n;
}

static bool is_taken(const struct points *p, uint32_t node, uint32_t place)
{
    return p->taken[node] && p->taken[node][place / 8] >> place % 8 & 1;
}

void point_take_place(struct run *r, uint32_t node, uint32_t place)
{
    struct points *p = r->points;
    if (!p->taken[node])
        p->taken[node] = arena_array(r->arena, PLACES_MAX / 8, 1);
    p->taken[node][place / 8] |= (uint8_t)(1u << place % 8);
    p->used[node]++;
}

static void leave_place(struct run *r, uint32_t i, uint32_t node)
{
    struct points *p = r->points;
    const uint32_t place = p->items[i].place;
    p->taken[node][place / 8] &= (uint8_t) ~(1u << place % 8);
    p->used[node]--;
}

/* Whether the node may begin a point. */
static bool is_open(struct run *r, uint32_t node)
{
    const struct lane *lane = &r->lanes[node];
    return lane->state == LANE_BARRIER && lane_is_ready(lane) && lane->orphan_count == 0 && !lane->doubtful;
}

/* Of the nodes from `after` on, the one with the most room; POINT_NO_NODE: there is none. */
static uint32_t free_node(struct run *r, uint32_t after)
{
    const struct points *p = r->points;
    uint32_t best = POINT_NO_NODE;
    uint32_t most = 0;
    for (uint32_t n = after; n < r->plan->node_count; n++) {
        const uint32_t places = is_open(r, n) ? places_of(r, n) : 0;
        if (places > p->used[n] && places - p->used[n] > most) {
            most = places - p->used[n];
            best = n;
        }
    }
    return best;
}

/* Finds as many nodes with room as a point takes, ascending. A point on several nodes has each of them to itself, so
 * all nodes with room have the same room. False: there are not enough, and none is taken. */
static bool find_free(struct run *r, uint32_t *ret)
{
    uint32_t count = 0;
    while (count < r->points->parts) {
        ret[count] = free_node(r, count ? ret[count - 1] + 1 : 0);
        if (ret[count++] == POINT_NO_NODE)
            return false;
    }
    return true;
}

uint32_t point_free_place(const struct points *p, uint32_t node)
{
    uint32_t place = 0;
    while (is_taken(p, node, place))
        place++;
    return place;
}

/* ---- states ---- */

uint32_t point_most_tries(const struct run *r)
{
    const struct spec_distributed *d = &r->plan->spec->distributed;
    return d->present ? d->max_restarts : 0;
}

void point_set_state(struct run *r, uint32_t i, enum point_state to)
{
    struct points *p = r->points;
    struct point *point = &p->items[i];
    const bool over = point->state == POINT_DONE || point->state == POINT_FAILED;
    p->running += (uint32_t)(to == POINT_ASKS || to == POINT_RUNS) -
                  (uint32_t)(point->state == POINT_ASKS || point->state == POINT_RUNS);
    p->over += (uint32_t)(to == POINT_DONE || to == POINT_FAILED) - (uint32_t)over;
    p->failed += (uint32_t)(to == POINT_FAILED) - (uint32_t)(point->state == POINT_FAILED);
    point->state = to;
    if (to == POINT_WAITS && i < p->next)
        p->next = i;
    run_due(r, DUE_BARRIER);
}

void point_put_on(struct run *r, uint32_t i)
{
    const struct point *point = &r->points->items[i];
    for (uint32_t s = r->plan->points[i].launch; s < r->plan->points[i].end; s++) {
        struct plan_step *step = &r->plan->steps[s];
        memset(step->on, 0, r->plan->node_count);
        step->on_count = 0;
        for (uint32_t k = 0; k < r->points->parts; k++) {
            step->on[point->nodes[k]] = step->of_point[k];
            step->on_count += step->of_point[k];
        }
    }
}

void point_reset(struct run *r, const struct plan_step *step, uint32_t node)
{
    struct run_task *t = run_task(r, step, node);
    if (t->state != TASK_PENDING)
        task_set_state(r, t, TASK_PENDING);
}

/* ---- how points go on ---- */

static void begin(struct run *r, uint32_t i)
{
    const struct point *point = &r->points->items[i];
    const struct plan_step *step = point_launch(r, i);
    point_set_state(r, i, POINT_RUNS);
    for (uint32_t k = 0; k < r->points->parts; k++)
        for (uint32_t s = step->id; s < r->plan->points[i].end; s++) /* results of an earlier launch do not count */
            point_reset(r, &r->plan->steps[s], point->nodes[k]);
    point_metrics_begin(r->points->metrics, i);
    r->points->items[i].cause = (struct cause){0};
    task_start_many(r, step, point->nodes, r->points->parts, 0);
}

/* A point that has asked for a port does not begin yet: it waits again, and other points may have its nodes. */
static void withdraw(struct run *r, uint32_t i)
{
    for (uint32_t k = 0; k < r->points->parts; k++)
        leave_place(r, i, r->points->items[i].nodes[k]);
    point_set_state(r, i, POINT_WAITS);
}

static void ask_port(struct run *r, uint32_t i)
{
    run_effect(
        r, &(struct effect){.kind = EFFECT_ASK_PORT, .node = r->points->items[i].nodes[0], .token = POINT_TOKEN + i});
}

static void place(struct run *r, uint32_t i, const uint32_t *nodes)
{
    struct point *point = &r->points->items[i];
    memcpy(point->nodes, nodes, r->points->parts * sizeof *nodes);
    point->place = r->points->parts == 1 ? point_free_place(r->points, nodes[0]) : 0;
    for (uint32_t k = 0; k < r->points->parts; k++) {
        point_take_place(r, nodes[k], point->place);
        r->points->at[nodes[k]] = i;
    }
    point_put_on(r, i);
    if (!r->plan->points[i].own->spec->distributed.present) {
        begin(r, i);
        return;
    }
    point_set_state(r, i, POINT_ASKS);
    ask_port(r, i);
}

static bool are_open(struct run *r, uint32_t i)
{
    for (uint32_t k = 0; k < r->points->parts; k++)
        if (!is_open(r, r->points->items[i].nodes[k]))
            return false;
    return true;
}

bool points_port(struct run *r, uint64_t token, uint32_t node, uint32_t port)
{
    const uint64_t i = token - POINT_TOKEN;
    if (!r->points || token < POINT_TOKEN)
        return false;
    if (i >= r->plan->point_count || r->points->items[i].state != POINT_ASKS || r->points->items[i].nodes[0] != node)
        return true;
    r->points->items[i].port = port;
    if (r->ending == ENDING_NOT && (r->points->parts == 1 || are_open(r, (uint32_t)i)))
        begin(r, (uint32_t)i);
    else if (r->ending == ENDING_NOT)
        withdraw(r, (uint32_t)i);
    return true;
}

/* Starts the fetches that are due after the point's launch, from nodes that are connected. True: there are fetches, now
 * or when their node is back. */
static bool fetch_begin(struct run *r, uint32_t i)
{
    const struct plan_point *p = &r->plan->points[i];
    const struct point *point = &r->points->items[i];
    bool any = false;
    for (uint32_t k = 0; k < r->points->parts; k++)
        for (uint32_t s = p->launch + 1; s < p->end; s++) {
            const struct plan_step *step = &r->plan->steps[s];
            const uint32_t node = point->nodes[k];
            struct run_task *t = run_task(r, step, node);
            const bool due = step->on[node] && r->lanes[node].presence != PRESENCE_GONE && !task_is_done(t);
            if (!due || task_in_flight(t) || task_has_failed(t) || !lane_is_ready(&r->lanes[node])) {
                any = any || (due && !task_has_failed(t));
                continue;
            }
            if (!outputs_due(r, step, node, point->good))
                continue;
            point_reset(r, step, node);
            task_start(r, step, node);
            any = true;
        }
    return any;
}

/* No fetch is left. The files of a lost node are lost with it: the point is then done again elsewhere. */
static void close_point(struct run *r, uint32_t i)
{
    const struct point *point = &r->points->items[i];
    bool good = point->good, lost = false;
    for (uint32_t k = 0; k < r->points->parts && point->good; k++)
        for (uint32_t s = r->plan->points[i].launch + 1; s < r->plan->points[i].end; s++) {
            const struct plan_step *step = &r->plan->steps[s];
            if (!step->on[point->nodes[k]] || task_is_done(run_task(r, step, point->nodes[k])))
                continue;
            good = false;
            lost = lost || r->lanes[point->nodes[k]].presence == PRESENCE_GONE;
        }
    point_set_state(r, i, good ? POINT_DONE : lost ? POINT_WAITS : POINT_FAILED);
}

static void fetch_on(struct run *r, uint32_t i)
{
    if (!fetch_begin(r, i))
        close_point(r, i);
}

static void fail_all(struct run *r, uint32_t i, const char *what)
{
    struct error err = ERROR_INIT;
    error_set(&err, ERROR_JOB, "point %s: %s", name_of(r, i), what);
    point_hint_logs(r, i, "its output", "", &err);
    run_fail(r, RUN_FAILED, &err);
}

bool point_has_failed(const struct run *r, uint32_t i, enum outcome outcome)
{
    if (outcome == OUTCOME_UNKNOWN)
        return r->points->items[i].undone > POINT_UNDONE_MAX || r->plan->points[i].own->spec->entrypoint.always;
    return outcome == OUTCOME_FAILED || outcome == OUTCOME_TIMED_OUT;
}

/* Why the point failed; for a point on several nodes, also where. */
static const char *words_of(struct run *r, uint32_t i, const struct event_finished *end)
{
    const struct cause *seen = &r->points->items[i].cause;
    const struct state_cell *c = r->points->parts > 1 ? point_failure(r, i) : NULL;
    char what[160];
    if (!c) {
        run_cause_text(end->outcome, end->cause, end->cause_value, what, sizeof what);
        return arena_strdup(r->arena, what);
    }
    struct cause first = {
        .node = c->node, .outcome = c->outcome, .cause = c->cause, .value = c->cause_value, .rank = c->cause_rank};
    first.has_rank = cause_has_rank(r, point_launch(r, i), c->cause_rank, c->outcome);
    if (seen->step)
        first = *seen;
    run_cause_text(first.outcome, first.cause, first.value, what, sizeof what);
    return first.has_rank
               ? arena_printf(r->arena, "%s (rank %u on node %s)", what, first.rank, r->lanes[first.node].name)
               : arena_printf(r->arena, "%s (on node %s)", what, r->lanes[first.node].name);
}

static void launch_failed(struct run *r, uint32_t i, const struct event_finished *end)
{
    struct point *point = &r->points->items[i];
    const uint32_t most = point_most_tries(r), about = r->points->parts == 1 ? point->nodes[0] : EVENT_NODE_NONE;
    const char *what = words_of(r, i, end);
    if (++point->tries <= most) {
        run_note(r, about, "point %s: %s; attempt %u of %u", name_of(r, i), what, point->tries + 1, most + 1);
        point_set_state(r, i, POINT_WAITS);
        return;
    }
    run_note(r, about, "point %s failed: %s", name_of(r, i), what);
    point->good = false;
    point_set_state(r, i, POINT_FETCHES);
    if (r->plan->spec->sweep->stop)
        fail_all(r, i, what);
}

/* All parts of the point have ended. */
static void launch_ended(struct run *r, uint32_t i, const struct event_finished *end)
{
    struct point *point = &r->points->items[i];
    const enum outcome outcome = point_outcome(r, i);
    point->undone += outcome == OUTCOME_UNKNOWN;
    if (outcome == OUTCOME_OK) {
        point->good = true;
        point->kept = false;
        point_set_state(r, i, POINT_FETCHES);
    } else if (point_has_failed(r, i, outcome)) {
        launch_failed(r, i, end);
    } else {
        if (outcome == OUTCOME_UNKNOWN)
            run_note(r, r->points->parts == 1 ? point->nodes[0] : EVENT_NODE_NONE,
                     "point %s: its outcome is unknown; it is done again", name_of(r, i));
        point_set_state(r, i, POINT_WAITS);
    }
    if (point->state == POINT_FETCHES && r->ending == ENDING_NOT)
        fetch_on(r, i);
}

static void stop_parts(struct run *r, uint32_t i)
{
    for (uint32_t k = 0; k < r->points->parts; k++) {
        const uint32_t node = r->points->items[i].nodes[k];
        struct run_task *t = run_task(r, point_launch(r, i), node);
        if (task_in_flight(t) && !t->marks.stop_wanted)
            task_stop(r, point_launch(r, i), node, WIRE_STOP, launch_grace_ms(r, STOP_GRACE_MS));
    }
}

static bool is_broken(struct run *r, uint32_t i)
{
    const struct plan_step *launch = point_launch(r, i);
    for (uint32_t k = 0; k < r->points->parts; k++) {
        const struct state_cell *c =
            state_cell_find(r->state, launch->scope, launch->name, r->points->items[i].nodes[k]);
        if (c && c->outcome != OUTCOME_NONE && c->outcome != OUTCOME_OK)
            return true;
    }
    return false;
}

/* If a part of a launch did not end well, stops the launch's other parts. */
static void stop_broken(struct run *r)
{
    struct points *p = r->points;
    for (uint32_t i = 0; p->broken > 0 && i < r->plan->point_count; i++)
        if (p->items[i].state == POINT_RUNS && is_broken(r, i))
            stop_parts(r, i);
    p->broken = 0;
}

/* A part of the launch has ended: if it did not end well, the others are stopped by the next pass. */
static void part_ended(struct run *r, uint32_t i, uint32_t node, const struct event_finished *end)
{
    leave_place(r, i, node);
    if (end->outcome != OUTCOME_OK && r->points->parts > 1) {
        r->points->broken++;
        run_due(r, DUE_BARRIER);
    }
    if (r->points->items[i].state == POINT_RUNS && point_outcome(r, i) != OUTCOME_NONE)
        launch_ended(r, i, end);
}

void point_ended(struct run *r, const struct plan_step *step, uint32_t node, const struct event_finished *end)
{
    const uint32_t i = step->point;
    const struct point *point = &r->points->items[i];
    if (point_part(r, i, node) == POINT_NO_NODE)
        return;
    if (step->id == r->plan->points[i].launch && point->state == POINT_RUNS)
        part_ended(r, i, node, end);
    else if (step->id != r->plan->points[i].launch && point->state == POINT_FETCHES && r->ending == ENDING_NOT)
        fetch_on(r, i);
}

/* ---- the end ---- */

static void all_over(struct run *r)
{
    struct points *p = r->points;
    bool busy = false;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        for (size_t s = 0; s < r->plan->step_count && r->plan->steps[s].kind->phase == PHASE_SETUP; s++) {
            if (!task_in_flight(run_task(r, &r->plan->steps[s], n)) || !presence_is_here(r->lanes[n].presence))
                continue;                                                  /* the node's next contact tells */
            task_stop(r, &r->plan->steps[s], n, WIRE_STOP, STOP_GRACE_MS); /* the node came too late */
            busy = true;
        }
    if (busy)
        return;
    if (p->failed) {
        struct buf names = {0};
        const uint32_t first = points_put_failed(r, &names);
        error_set(&r->result.error, ERROR_JOB, "%u of %u points failed: %s", p->failed, r->plan->point_count,
                  names.data);
        point_hint_logs(r, first, p->failed > 1 ? "the output of the first" : "its output",
                        "; the same command tries again", &r->result.error);
        buf_free(&names);
    }
    r->fail_status = p->failed ? RUN_FAILED : RUN_OPEN;
    run_close(r, p->failed ? RUN_FAILED : RUN_DONE, p->failed ? 1 : 0);
}

/* Fails the run if nothing runs and too few nodes, of those that are connected or may still come, have a place for a
 * point. */
static void check_places(struct run *r)
{
    const struct points *p = r->points;
    struct error err = ERROR_INIT;
    uint32_t count = 0;
    for (uint32_t n = 0; n < r->plan->node_count && count < p->parts; n++)
        count += r->lanes[n].presence != PRESENCE_GONE && (!r->lanes[n].facts || places_of(r, n) > 0);
    if (count == p->parts || p->running || p->over == r->plan->point_count)
        return;
    error_set(&err, ERROR_JOB, "no node has %u GPU%s for a point", r->plan->spec->sweep->per_node,
              r->plan->spec->sweep->per_node == 1 ? "" : "s");
    run_fail(r, RUN_FAILED, &err);
}

/* The RUN names all nodes of the point, so each must have answered a greeting. */
static bool are_known(const struct run *r, uint32_t i)
{
    for (uint32_t k = 0; k < r->points->parts; k++)
        if (!r->lanes[r->points->items[i].nodes[k]].facts)
            return false;
    return true;
}

/* True: all attempts that were held on the node have gone out. */
static bool release_held(struct run *r, uint32_t node)
{
    struct points *p = r->points;
    bool all = true;
    for (uint32_t i = 0; i < r->plan->point_count && p->used[node]; i++) {
        struct run_task *t = p->items[i].state == POINT_RUNS && point_part(r, i, node) != POINT_NO_NODE
                                 ? run_task(r, point_launch(r, i), node)
                                 : NULL;
        if (!t || t->state != TASK_HELD)
            continue;
        if (!are_known(r, i)) {
            all = false;
            continue;
        }
        task_set_state(r, t, TASK_RUNNING);
        task_go_out(r, point_launch(r, i), node);
    }
    return all;
}

static void look_at_nodes(struct run *r)
{
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        struct lane *lane = &r->lanes[n];
        if (lane->state != LANE_BARRIER || !lane_is_ready(lane))
            continue;
        if (lane->doubtful) {
            lane_doubt(lane);
            run_touch(r, n);
        }
        if (is_open(r, n) && lane->holds_points)
            lane_hold_points(lane, !release_held(r, n));
    }
}

/* A point on several nodes that has not begun keeps none of its nodes while one of them is away. */
static void withdraw_asking(struct run *r)
{
    for (uint32_t n = 0; n < r->plan->node_count && r->points->parts > 1; n++) {
        const uint32_t i = r->points->used[n] ? r->points->at[n] : POINT_NO_NODE;
        if (i != POINT_NO_NODE && r->points->items[i].state == POINT_ASKS && !are_open(r, i))
            withdraw(r, i);
    }
}

void points_pass(struct run *r)
{
    struct points *p = r->points;
    const uint32_t most = r->plan->spec->sweep->max_parallel;
    if (r->options.mode == RUN_EXECUTE && r->stage < STAGE_CLOSING)
        stop_broken(r);
    if (r->options.mode != RUN_EXECUTE || r->ending != ENDING_NOT || r->opening != OPENING_DONE ||
        r->stage >= STAGE_CLOSING)
        return;
    points_meet(r);
    look_at_nodes(r);
    if (p->over == r->plan->point_count) {
        all_over(r);
        return;
    }
    withdraw_asking(r);
    /* in the first run of a journal: an older journal may have been lost, and a node that was not listed may have
     * points that are done */
    if (r->state->run_count <= 1 && (r->unheard > 0 || (p->parts > 1 && !p->met)))
        return;
    for (; p->next < r->plan->point_count && (!most || p->running < most); p->next++) {
        if (p->items[p->next].state != POINT_WAITS)
            continue;
        if (!find_free(r, p->room))
            break;
        if (r->stage == STAGE_SETUP)
            run_set_stage(r, STAGE_LAUNCH);
        place(r, p->next, p->room);
    }
    check_places(r);
}

/* The node has listed its records: asks again for fetches from it, and for a port, because the answer may be lost. */
void points_listed(struct lane *lane)
{
    struct run *r = lane->run;
    for (uint32_t i = 0; r->points && i < r->plan->point_count; i++) {
        const struct point *point = &r->points->items[i];
        if (point->state == POINT_WAITS || r->ending != ENDING_NOT || point_part(r, i, lane->index) == POINT_NO_NODE)
            continue;
        if (point->state == POINT_FETCHES)
            fetch_on(r, i);
        else if (point->state == POINT_ASKS && point->nodes[0] == lane->index)
            ask_port(r, i);
    }
}

static void lose_node(struct run *r, uint32_t i, uint32_t node)
{
    const struct point *point = &r->points->items[i];
    const struct plan_step *step = point_launch(r, i);
    if (point->state == POINT_RUNS && task_in_flight(run_task(r, step, node)))
        task_finish_as(r, step, node, OUTCOME_UNKNOWN, "its node is lost");
    else if (point->state == POINT_ASKS)
        withdraw(r, i);
}

bool points_node_failed(struct run *r, uint32_t node, const struct error *err)
{
    uint32_t left = 0;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        left += r->lanes[n].presence != PRESENCE_GONE;
    if (r->ending != ENDING_NOT || r->opening != OPENING_DONE || err->code == ERROR_HELD)
        return false;
    if (left < r->points->parts) {
        if (left > 0)
            run_note(r, EVENT_NODE_NONE, "a point takes %u nodes, and %u %s left", r->points->parts, left,
                     left == 1 ? "is" : "are");
        return false;
    }
    run_note(r, node, "%s; its points go to other nodes", err->text);
    for (uint32_t i = 0; i < r->plan->point_count; i++)
        if (r->points->items[i].state != POINT_WAITS && point_part(r, i, node) != POINT_NO_NODE)
            lose_node(r, i, node);
    for (size_t s = 0; s < r->plan->step_count; s++) {
        struct run_task *t = run_task(r, &r->plan->steps[s], node);
        if (task_in_flight(t))
            task_set_state(r, t, TASK_FAILED);
    }
    for (uint32_t i = 0; i < r->plan->point_count; i++) /* outputs of its points cannot be fetched from there */
        if (r->points->items[i].state == POINT_FETCHES && point_part(r, i, node) != POINT_NO_NODE)
            fetch_on(r, i);
    r->lanes[node].orphan_count = 0;
    run_due(r, DUE_BARRIER);
    return true;
}

struct point_bind point_bind(const struct run *r, const struct plan_step *step)
{
    const struct point *point = &r->points->items[step->point];
    return (struct point_bind){point->tries, point->port, point->place, point->nodes, r->points->parts};
}

uint32_t point_bind_part(const struct run *r, const struct plan_step *step, uint32_t node)
{
    const uint32_t part = point_part(r, step->point, node);
    return part == POINT_NO_NODE ? 0 : part;
}

const char *point_launch_name(const struct run *r, const struct plan_step *step)
{
    if (step->kind->phase != PHASE_POINT || r->points->parts == 1)
        return NULL;
    return r->tasks[(size_t)step->id * r->plan->node_count + r->points->items[step->point].nodes[0]].attempt;
}

void point_cause(const struct run *r, const struct plan_step *step, const struct cause *c)
{
    if (step->kind->phase == PHASE_POINT)
        cause_offer(&r->points->items[step->point].cause, c);
}

bool point_may_go_out(const struct run *r, const struct plan_step *step)
{
    return step->kind->phase != PHASE_POINT || step->kind->fetch || are_known(r, step->point);
}

bool points_all_over(const struct run *r)
{
    return r->points && r->points->over == r->plan->point_count;
}

void points_create(struct run *r)
{
    if (!r->plan->points)
        return;
    struct points *p = arena_alloc(r->arena, sizeof *p);
    const uint32_t parts = r->plan->points[0].own->node_count;
    *p = (struct points){.parts = parts,
                         .items = arena_array(r->arena, (size_t)r->plan->point_count + 1, sizeof *p->items),
                         .taken = arena_array(r->arena, r->plan->node_count, sizeof *p->taken),
                         .used = arena_array(r->arena, r->plan->node_count, sizeof *p->used),
                         .room = arena_array(r->arena, (size_t)parts + 1, sizeof *p->room),
                         .at = arena_array(r->arena, r->plan->node_count, sizeof *p->at)};
    uint32_t *nodes = arena_array(r->arena, (size_t)r->plan->point_count * parts + 1, sizeof *nodes);
    for (uint32_t i = 0; i < r->plan->point_count; i++) { /* the plan may have served another run before this one */
        for (uint32_t s = r->plan->points[i].launch; s < r->plan->points[i].end; s++)
            memset(r->plan->steps[s].on, 0, r->plan->node_count);
        p->items[i].nodes = nodes + (size_t)i * parts;
        memset(p->items[i].nodes, 0xff, parts * sizeof *nodes); /* POINT_NO_NODE */
    }
    r->points = p;
    p->slots = point_slots_create(r);
    if (r->options.mode == RUN_EXECUTE)
        p->metrics = point_metrics_create(r);
}

void points_destroy(struct run *r)
{
    if (r->points)
        point_metrics_destroy(r->points->metrics);
}
