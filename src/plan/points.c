/* The steps of a sweep's points: for each point the steps that the spec would have with the point's params and number
 * of nodes, after the set-up that all points share. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum { POINT_STEPS_MAX = 100000 }; /* steps of all points: a journal has a cell for each, per node */

struct room { /* plan->steps grows */
    struct plan *plan;
    size_t cap;
};

static struct plan_step *add(struct room *room, struct arena *arena)
{
    struct plan *plan = room->plan;
    if (plan->step_count == room->cap) {
        room->cap = 2 * room->cap + 64;
        struct plan_step *wider = arena_array(arena, room->cap, sizeof *wider);
        memcpy(wider, plan->steps, plan->step_count * sizeof *wider);
        plan->steps = wider;
    }
    return &plan->steps[plan->step_count++];
}

/* The builder of a point begins with the steps of set-up, to which the point's steps chain. */
static struct plan_builder begin(const struct plan_builder *setup, struct plan *own)
{
    struct plan_builder b = *setup;
    b.plan = own;
    b.part = PART_POINT;
    b.cap = setup->count + 4;
    b.steps = xcalloc(b.cap, sizeof *b.steps);
    b.input_caps = xcalloc(b.cap, sizeof *b.input_caps);
    b.reach = xcalloc(b.cap, sizeof *b.reach);
    for (size_t i = 0; i < setup->count; i++) {
        b.steps[i] = setup->steps[i];
        b.input_caps[i] = setup->input_caps[i];
        b.reach[i] = setup->reach[i];
    }
    return b;
}

static void take_step(struct room *room, struct plan_builder *b, struct plan_step *s, uint32_t point, uint32_t nodes)
{
    const struct plan_point *p = &room->plan->points[point];
    struct arena *arena = b->arena;
    if (!s->on)
        plan_on_all(b, s);
    builder_seal(b, s); /* under its kind's own name, so that the key is that of a job with the point's params */
    struct plan_step *taken = add(room, arena);
    *taken = *s;
    taken->id = (uint32_t)room->plan->step_count - 1;
    taken->kind = s->kind->of_point;
    taken->name = s->kind->phase == PHASE_LAUNCH ? arena_printf(arena, "point:%s", p->point->id)
                                                 : arena_printf(arena, "%s:%s", s->name, p->point->id);
    taken->label =
        s->kind->phase == PHASE_LAUNCH ? p->point->name : arena_printf(arena, "%s: %s", p->point->name, s->name);
    taken->slot = taken->name;
    taken->scope = room->plan->spec->variant;
    taken->point = point;
    taken->of_point = s->on;
    taken->on = arena_array(arena, (size_t)nodes + 1, sizeof *taken->on);
    taken->on_count = 0;
}

static int compile_point(struct room *room, const struct plan_builder *setup, const struct step_kind *const *kinds,
                         uint32_t i, struct error *err)
{
    struct plan *plan = room->plan;
    struct plan_point *p = &plan->points[i];
    struct spec *spec = arena_alloc(plan->arena, sizeof *spec);
    struct plan *own = arena_alloc(plan->arena, sizeof *own);
    p->point = &plan->spec->sweep->points[i];
    *spec = spec_at_point(plan->spec, p->point);
    spec->nnodes = spec->distributed.min_nodes = spec->distributed.nnodes = spec_point_nodes(plan->spec);
    spec->sweep = NULL;
    *own = (struct plan){.spec = spec,
                         .roster = plan->roster,
                         .arena = plan->arena,
                         .sources = plan->sources,
                         .node_count = spec->nnodes,
                         .placed = plan->placed,
                         .nproc = arena_array(plan->arena, spec->nnodes, sizeof *own->nproc)};
    p->own = own;
    struct plan_builder b = begin(setup, own);
    int rc = builder_ask(&b, kinds, err);
    p->launch = p->end = (uint32_t)plan->step_count;
    for (size_t k = setup->count; k < b.count && rc == 0; k++) /* in the kinds' order: the launch is the first */
        if (!b.steps[k]->kind->of_point)
            rc = error_set(err, ERROR_SPEC, "a sweep cannot have the step \"%s\"", b.steps[k]->name);
        else
            take_step(room, &b, b.steps[k], i, plan->node_count);
    p->end = (uint32_t)plan->step_count;
    builder_free(&b);
    if (rc == 0 && plan->step_count > POINT_STEPS_MAX)
        rc = error_set(err, ERROR_SPEC, "%s: the sweep has more than %d steps", plan->spec->path, POINT_STEPS_MAX);
    return rc;
}

int points_compile(struct plan_builder *setup, const struct step_kind *const *kinds, struct error *err)
{
    struct plan *plan = setup->plan;
    struct room room = {plan, setup->count};
    plan->point_count = (uint32_t)plan->spec->sweep->point_count;
    plan->points = arena_array(plan->arena, (size_t)plan->point_count + 1, sizeof *plan->points);
    for (uint32_t i = 0; i < plan->point_count; i++)
        if (compile_point(&room, setup, kinds, i, err) < 0)
            return -1;
    for (uint32_t i = 0; i < plan->point_count; i++) { /* steps have their final place now */
        struct plan *own = (struct plan *)(uintptr_t)plan->points[i].own;
        own->steps = plan->steps;
        own->step_count = setup->count;
    }
    return 0;
}

int plan_at_nodes(const struct plan *own, const uint32_t *nodes, const struct plan_facts *facts, struct arena *arena,
                  struct plan **ret, struct error *err)
{
    struct plan *there = arena_alloc(arena, sizeof *there);
    struct spec *spec = arena_alloc(arena, sizeof *spec);
    struct spec_node *wishes = arena_array(arena, own->node_count, sizeof *wishes);
    for (uint32_t i = 0; i < own->node_count; i++)
        wishes[i] = own->spec->nodes[nodes[i]];
    *spec = *own->spec;
    spec->nodes = wishes;
    spec->node_count = own->node_count;
    *there = *own;
    there->spec = spec;
    there->arena = arena;
    there->roster = roster_of(own->roster, nodes, own->node_count, arena);
    there->nproc = arena_array(arena, own->node_count, sizeof *there->nproc);
    if (plan_bind_ranks(there, facts, arena, err) < 0)
        return -1;
    *ret = there;
    return 0;
}
