/*
 * The rank table of roles. The workers' nodes were decided when the spec was loaded (spec->places); here the workers
 * get their numbers, once counts that depend on the nodes are known.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

void ranks_of_roles_place(struct plan *plan, struct arena *arena)
{
    const struct spec *spec = plan->spec;
    struct expr_role *placed = arena_array(arena, spec->role_count + 1, sizeof *placed);
    uint32_t *nodes = arena_array(arena, spec->place_count + 1, sizeof *nodes);
    plan->placed = placed;
    for (size_t i = 0; i < spec->role_count; i++) {
        placed[i].counted = spec->roles[i].counted;
        placed[i].count = spec->roles[i].count;
    }
    for (size_t i = 0; i < spec->place_count; i++) {
        struct expr_role *r = &placed[spec->places[i].role];
        nodes[i] = spec->places[i].node;
        if (r->node_count++ == 0)
            r->nodes = &nodes[i];
    }
}

const struct plan_place *plan_place_of(const struct plan *plan, uint32_t role, uint32_t node)
{
    uint32_t low = 0, high = plan->place_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct plan_place *p = &plan->places[middle];
        if (p->role < role || (p->role == role && p->node < node))
            low = middle + 1;
        else
            high = middle;
    }
    const struct plan_place *found = &plan->places[low];
    return low < plan->place_count && found->role == role && found->node == node ? found : NULL;
}

static int count_of(const struct plan *plan, const struct spec_place *p, const struct plan_facts *facts, uint32_t *ret,
                    struct error *err)
{
    const struct spec_role *role = &plan->spec->roles[p->role];
    *ret = p->count;
    if (p->count > 0 || nproc_count(plan, p->node, &role->nproc, facts, ret, err) == 0)
        return 0;
    error_prefix(err, "role \"%s\"", role->name);
    return -1;
}

/* ---- the room on a node ---- */

/* nproc_per_node limits the ranks on a node: a number, or what the node itself has, once that is known. */
static int check_room(const struct plan *plan, uint32_t node, uint64_t ranks, const struct plan_facts *facts,
                      struct error *err)
{
    static const char *const words[] = {"", "CPUs", "GPUs", "", "GPUs or CPUs"};
    const struct spec_node *own = &plan->spec->nodes[node];
    const struct spec_distributed *d = &plan->spec->distributed;
    const struct spec_nproc *np = own->has_nproc ? &own->nproc : d->has_nproc ? &d->nproc : NULL;
    uint32_t room = 0;
    if (np && ranks > 0 && nproc_count(plan, node, np, facts, &room, err) < 0)
        return -1;
    bool told = room > 0;
    room = told ? room : PLAN_NPROC_MAX;
    if (ranks <= room)
        return 0;
    error_set(err, ERROR_SPEC, "node \"%s\": the roles place %llu workers there, but the node has room for %u",
              roster_name(plan->roster, node), (unsigned long long)ranks, room);
    if (!told)
        error_hint(err, "a node takes no more workers");
    else if (np->kind == NPROC_COUNT)
        error_hint(err, "nproc_per_node is the room on a node for all roles together");
    else
        error_hint(err,
                   "nproc_per_node is the room on a node for all roles together: here its %s; as a number it also "
                   "says where workers are placed",
                   words[np->kind]);
    return -1;
}

int ranks_of_roles_check(const struct plan *plan, uint32_t node, const struct plan_facts *facts, struct error *err)
{
    const struct spec *spec = plan->spec;
    uint64_t ranks = 0;
    for (size_t i = 0; i < spec->place_count; i++) {
        uint32_t count;
        if (spec->places[i].node != node)
            continue;
        if (count_of(plan, &spec->places[i], facts, &count, err) < 0)
            return -1;
        ranks += spec->roles[spec->places[i].role].world == WORLD_NONE ? 0 : count;
    }
    return check_room(plan, node, ranks, facts, err);
}

/* ---- numbers ---- */

/* Counts of all places; false: some are not known. */
static int bind_counts(struct plan *plan, const struct plan_facts *facts, bool *ret_known, struct error *err)
{
    const struct spec *spec = plan->spec;
    uint64_t total = 0;
    *ret_known = true;
    for (uint32_t i = 0; i < plan->place_count; i++) {
        const struct spec_place *from = &spec->places[i];
        struct plan_place *p = &plan->places[i];
        *p = (struct plan_place){.role = from->role, .node = from->node};
        if (count_of(plan, from, facts ? &facts[from->node] : NULL, &p->count, err) < 0)
            return -1;
        *ret_known = *ret_known && p->count > 0;
        total += p->count;
        if (spec->roles[p->role].world != WORLD_NONE)
            plan->nproc[p->node] += p->count;
    }
    if (total > PLAN_RANKS_MAX)
        return error_set(err, ERROR_SPEC, "%llu workers, but at most %d are possible in a launch",
                         (unsigned long long)total, PLAN_RANKS_MAX);
    for (uint32_t n = 0; n < plan->node_count; n++)
        if (check_room(plan, n, plan->nproc[n], facts ? &facts[n] : NULL, err) < 0)
            return -1;
    return 0;
}

static void number_role(struct plan *plan, uint32_t role, uint32_t worker, uint32_t rank)
{
    struct plan_role *r = &plan->roles[role];
    r->worker = worker;
    r->rank = rank;
    for (uint32_t i = 0, role_rank = 0; i < plan->place_count; i++) {
        struct plan_place *p = &plan->places[i];
        if (p->role > role)
            break;
        if (p->role != role)
            continue;
        p->worker = worker + role_rank;
        p->rank = rank + role_rank;
        p->role_rank = role_rank;
        role_rank += p->count;
    }
}

/* Workers in the job's world first: their number is their rank. */
static void number_workers(struct plan *plan)
{
    const struct spec *spec = plan->spec;
    uint32_t worker = 0;
    for (uint32_t i = 0; i < plan->place_count; i++)
        plan->roles[plan->places[i].role].count += plan->places[i].count;
    for (int outside = 0; outside < 2; outside++) {
        for (uint32_t i = 0; i < spec->role_count; i++) {
            struct plan_role *r = &plan->roles[i];
            if ((spec->roles[i].world != WORLD_JOB) != outside)
                continue;
            number_role(plan, i, worker, outside ? 0 : worker);
            r->world_size = r->count;
            worker += r->count;
        }
        if (!outside)
            plan->world_size = worker;
    }
    plan->worker_count = worker;
}

/* Values shared by the workers of a world: the node of rank 0, the number of workers on each node, and each node's
 * number among how many. */
static void bind_worlds(struct plan *plan)
{
    const struct spec *spec = plan->spec;
    uint32_t *local = xcalloc(plan->node_count, sizeof *local), *group = xcalloc(plan->node_count, sizeof *group);
    uint32_t groups = 0;
    for (uint32_t i = 0; i < plan->place_count; i++) { /* in the order of ranks */
        struct plan_place *p = &plan->places[i];
        if (spec->roles[p->role].world != WORLD_JOB)
            continue;
        if (p->rank == 0)
            plan->master = p->node;
        p->local_rank = local[p->node];
        local[p->node] += p->count;
    }
    for (uint32_t n = 0; n < plan->node_count; n++)
        group[n] = local[n] ? groups++ : 0;
    for (uint32_t i = 0, index = 0; i < plan->place_count; i++) {
        struct plan_place *p = &plan->places[i];
        struct plan_role *r = &plan->roles[p->role];
        bool job = spec->roles[p->role].world == WORLD_JOB;
        index = i > 0 && plan->places[i - 1].role == p->role ? index + 1 : 0;
        p->local_world_size = job ? local[p->node] : p->count;
        p->group = job ? group[p->node] : index;
        p->group_count = job ? groups : plan->placed[p->role].node_count;
        if (job)
            r->world_size = plan->world_size;
        r->master = job ? plan->master : plan->placed[p->role].nodes[0];
    }
    memcpy(plan->nproc, local, plan->node_count * sizeof *local);
    free(local);
    free(group);
}

static void list_ranks(struct plan *plan, struct arena *arena)
{
    plan->ranks = arena_array(arena, (size_t)plan->worker_count + 1, sizeof *plan->ranks);
    for (uint32_t i = 0; i < plan->place_count; i++)
        for (uint32_t k = 0; k < plan->places[i].count; k++) {
            const struct plan_place *p = &plan->places[i];
            plan->ranks[p->worker + k] =
                (struct plan_rank){p->rank + k, p->node, p->local_rank + k, p->role, p->role_rank + k};
        }
}

static int check_required(const struct plan *plan, struct arena *arena, struct error *err)
{
    for (size_t i = 0; i < plan->spec->require_count; i++) {
        const struct place *p = &plan->spec->require[i].place;
        if (spec_require(plan->spec, i, plan->placed, arena, err) != EXPR_FAILED)
            continue;
        if (p->source)
            error_prefix(err, "%s:%u:%u", p->source->name, p->line, p->column);
        return -1;
    }
    return 0;
}

int ranks_of_roles_bind(struct plan *plan, const struct plan_facts *facts, struct arena *arena, struct error *err)
{
    const struct spec *spec = plan->spec;
    struct expr_role *placed = arena_array(arena, spec->role_count, sizeof *placed);
    bool known;
    plan->ranks = NULL;
    plan->ranks_known = false;
    plan->world_size = plan->worker_count = 0;
    plan->place_count = (uint32_t)spec->place_count;
    plan->places = arena_array(arena, spec->place_count + 1, sizeof *plan->places);
    plan->roles = NULL;
    memset(plan->nproc, 0, plan->node_count * sizeof *plan->nproc);
    if (bind_counts(plan, facts, &known, err) < 0)
        return -1;
    if (!known)
        return 0;
    plan->roles = arena_array(arena, spec->role_count, sizeof *plan->roles);
    number_workers(plan);
    bind_worlds(plan);
    list_ranks(plan, arena);
    memcpy(placed, plan->placed, spec->role_count * sizeof *placed);
    for (size_t i = 0; i < spec->role_count; i++) {
        plan->roles[i].name = spec->roles[i].name;
        placed[i].counted = true;
        placed[i].count = plan->roles[i].count;
    }
    plan->placed = placed;
    plan->ranks_known = true;
    return check_required(plan, arena, err);
}
