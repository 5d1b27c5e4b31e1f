/* Nodes that share a home directory share everything below rhrun's folder there. If a step acts only there, the first
 * of these nodes does it for all of them. There may be 10,000 nodes, so the groups are computed when a node's facts
 * change, not for each call. The first node is known only when every node was listed or has failed. Nodes of this
 * machine have base folders of their own; they share all folders that are not below these (one_place). */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static bool same_home(const struct run *r, uint32_t a, uint32_t b)
{
    const struct wire_facts *x = r->lanes[a].facts, *y = r->lanes[b].facts;
    return x && y && x->home_id[0] && strcmp(x->home_id, y->home_id) == 0 && strcmp(x->base_dir, y->base_dir) == 0 &&
           strcmp(x->work_dir, y->work_dir) == 0;
}

static size_t hash_of(const char *s)
{
    size_t h = 0xcbf29ce4;
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 0x01000193;
    return h;
}

/* Chains the lanes of each home in their order: home_first is the first lane; home_next is the next one, or the lane
 * itself if it is the last. */
static void renew(struct run *r)
{
    size_t size = 64;
    while (size < 2 * (size_t)r->plan->node_count)
        size *= 2;
    struct place {
        uint32_t first, last; /* lane index + 1; 0 = none */
    } *table = xcalloc(size, sizeof *table);
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        const struct wire_facts *f = r->lanes[n].facts;
        struct lane *lane = &r->lanes[n];
        lane->home_first = lane->home_next = n;
        if (!f || !f->home_id[0])
            continue;
        size_t i = hash_of(f->home_id) & (size - 1);
        while (table[i].first && !same_home(r, table[i].first - 1, n))
            i = (i + 1) & (size - 1);
        if (table[i].first) {
            lane->home_first = table[i].first - 1;
            r->lanes[table[i].last - 1].home_next = n;
        } else {
            table[i].first = n + 1;
        }
        table[i].last = n + 1;
    }
    free(table);
    r->homes_of = r->connections + 1;
}

/* The nodes that share the files on which the step acts: group_first is the first of them, group_next the one after
 * `n`, or `n` itself if it is the last. */
static uint32_t group_first(const struct run *r, const struct plan_step *step, uint32_t node)
{
    return step->one_place ? 0 : r->lanes[node].home_first;
}

static uint32_t group_next(const struct run *r, const struct plan_step *step, uint32_t n)
{
    if (!step->one_place)
        return r->lanes[n].home_next;
    return n + 1 < r->plan->node_count ? n + 1 : n;
}

static bool has_one_place(const struct run *r)
{
    for (size_t i = 0; i < r->plan->step_count; i++)
        if (r->plan->steps[i].one_place)
            return true;
    return false;
}

static bool is_done(const struct run *r, const struct plan_step *step, uint32_t node)
{
    const struct state_cell *c = state_cell_find(r->state, step->scope, step->name, node);
    return c && c->outcome == OUTCOME_OK && !c->voided && str_eq(c->key, step->key);
}

/* With MIN:MAX nodes the first node may be left out, now or at the time when another node did the step. So the best
 * node of a group is a node that takes part and has done the step, then the first that takes part, then the first that
 * is being set up to join. */
static uint32_t best(const struct run *r, const struct plan_step *step, uint32_t node)
{
    uint32_t part = UINT32_MAX, joins = UINT32_MAX;
    for (uint32_t n = group_first(r, step, node);; n = group_next(r, step, n)) {
        const struct lane *lane = &r->lanes[n];
        bool there = lane->state != LANE_CONNECTING && lane->state != LANE_FAILED;
        if (step->on[n] && !lane->left_out && is_done(r, step, n))
            return n;
        if (step->on[n] && !lane->left_out && part == UINT32_MAX)
            part = n;
        if (step->on[n] && lane->left_out && there && joins == UINT32_MAX)
            joins = n;
        if (group_next(r, step, n) == n)
            return part != UINT32_MAX ? part : joins != UINT32_MAX ? joins : node;
    }
}

uint32_t homes_leader(struct run *r, const struct plan_step *step, uint32_t node)
{
    if (r->homes_of != r->connections + 1)
        renew(r);
    if (elastic_wanted(r))
        return best(r, step, node);
    for (uint32_t n = group_first(r, step, node);; n = group_next(r, step, n))
        if (step->on[n])
            return n;
        else if (n == node || group_next(r, step, n) == n)
            return node;
}

uint32_t homes_first(struct run *r, uint32_t node)
{
    if (r->homes_of != r->connections + 1)
        renew(r);
    return r->lanes[node].home_first;
}

bool homes_busy(struct run *r, uint32_t node)
{
    if (r->homes_of != r->connections + 1)
        renew(r);
    for (size_t i = 0; i < r->plan->step_count; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        if (!step->shared)
            continue;
        for (uint32_t n = group_first(r, step, node);; n = group_next(r, step, n)) {
            if (n != node && task_in_flight(run_task(r, step, n)))
                return true;
            if (group_next(r, step, n) == n)
                break;
        }
    }
    return false;
}

void homes_touch(struct run *r, uint32_t node)
{
    bool all = has_one_place(r);
    if (r->homes_of != r->connections + 1)
        renew(r);
    for (uint32_t n = all ? 0 : r->lanes[node].home_first;;) {
        uint32_t next = all ? n + 1 : r->lanes[n].home_next;
        if (n != node)
            run_touch(r, n);
        if (next == n || next == r->plan->node_count)
            return;
        n = next;
    }
}
