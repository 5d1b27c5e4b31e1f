/* Nodes that share a home directory share what is below rhrun's folder there: a step that acts only there is done by the
 * first of them for all. The groups are found anew when a node's facts change, not for each question: there may be 10,000
 * nodes. Who is the first is known once every node was heard of. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static bool same_home(const struct run *r, uint32_t a, uint32_t b)
{
    const struct wire_facts *x = node_facts(r->lanes[a].node), *y = node_facts(r->lanes[b].node);
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

/* Chains the lanes of each home in their order: home_first is the head, home_next the one behind. */
static void renew(struct run *r)
{
    size_t size = 64;
    while (size < 2 * (size_t)r->plan->node_count)
        size *= 2;
    struct place {
        uint32_t first, last; /* lane + 1 */
    } *table = xcalloc(size, sizeof *table);
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        const struct wire_facts *f = node_facts(r->lanes[n].node);
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
    r->homes_known = true;
}

static bool is_done(const struct run *r, const struct plan_step *step, uint32_t node)
{
    const struct state_cell *c = state_cell_find(r->state, step->scope, step->name, node);
    return c && c->outcome == OUTCOME_OK && !c->voided && str_eq(c->key, step->key);
}

/* Of MIN:MAX nodes the first may be left out, now or when another one did it. The best of a home: one that takes part
 * and has done it, then the first that takes part, then the first that is being set up to join. */
static uint32_t best(const struct run *r, const struct plan_step *step, uint32_t node)
{
    uint32_t part = UINT32_MAX, joins = UINT32_MAX;
    for (uint32_t n = r->lanes[node].home_first;; n = r->lanes[n].home_next) {
        const struct lane *lane = &r->lanes[n];
        bool there = lane->state != LANE_CONNECTING && lane->state != LANE_FAILED;
        if (step->on[n] && !lane->left_out && is_done(r, step, n))
            return n;
        if (step->on[n] && !lane->left_out && part == UINT32_MAX)
            part = n;
        if (step->on[n] && lane->left_out && there && joins == UINT32_MAX)
            joins = n;
        if (lane->home_next == n)
            return part != UINT32_MAX ? part : joins != UINT32_MAX ? joins : node;
    }
}

uint32_t homes_leader(struct run *r, const struct plan_step *step, uint32_t node)
{
    if (!r->homes_known)
        renew(r);
    if (elastic_wanted(r))
        return best(r, step, node);
    for (uint32_t n = r->lanes[node].home_first;; n = r->lanes[n].home_next)
        if (step->on[n])
            return n;
        else if (n == node || r->lanes[n].home_next == n)
            return node;
}

uint32_t homes_first(struct run *r, uint32_t node)
{
    if (!r->homes_known)
        renew(r);
    return r->lanes[node].home_first;
}

bool homes_busy(struct run *r, uint32_t node)
{
    if (!r->homes_known)
        renew(r);
    for (uint32_t n = r->lanes[node].home_first;; n = r->lanes[n].home_next) {
        for (size_t i = 0; n != node && i < r->plan->step_count; i++)
            if (r->plan->steps[i].shared && task_in_flight(run_task(r, &r->plan->steps[i], n)))
                return true;
        if (r->lanes[n].home_next == n)
            return false;
    }
}

void homes_advance(struct run *r, uint32_t node)
{
    if (!r->homes_known)
        renew(r);
    for (uint32_t n = r->lanes[node].home_first;; n = r->lanes[n].home_next) {
        if (n != node && r->lanes[n].state == LANE_SETUP)
            lane_advance(&r->lanes[n]);
        else if (n != node)
            elastic_advance(&r->lanes[n]);
        if (r->lanes[n].home_next == n)
            return;
    }
}
