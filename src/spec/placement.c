/* Placing roles on nodes: see struct spec_place. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

struct room {
    struct load *l;
    uint32_t *free;    /* per node: workers that still fit */
    bool *limited;     /* `free` is a real limit */
    uint32_t *spread;  /* workers of roles that are spread over it */
    bool *taken;       /* by a role with nnodes */
    uint32_t **counts; /* per role: workers on each node */
    bool **on;
};

static bool may_use(const struct spec *spec, const struct spec_role *r, uint32_t node)
{
    size_t low = 0, high = r->node_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->nodes[middle] < node)
            low = middle + 1;
        else
            high = middle;
    }
    return r->nodes ? low < r->node_count && r->nodes[low] == node : node < spec->distributed.nnodes;
}

/* The room on a node is counted in ranks: a role without them takes none. */
static uint32_t room_on(const struct room *m, size_t role, uint32_t node)
{
    return m->l->spec->roles[role].world == WORLD_NONE ? SPEC_NPROC_MAX - m->counts[role][node] : m->free[node];
}

static bool is_limited(const struct room *m, size_t role, uint32_t node)
{
    return m->limited[node] && m->l->spec->roles[role].world != WORLD_NONE;
}

static void put(struct room *m, size_t role, uint32_t node, uint32_t count)
{
    m->on[role][node] = true;
    m->counts[role][node] += count;
    if (m->l->spec->roles[role].world != WORLD_NONE)
        m->free[node] -= count;
}

static const char *nodes_of_role(const struct room *m, const struct spec_role *r)
{
    uint32_t nodes = r->node_count ? (uint32_t)r->node_count : m->l->spec->distributed.nnodes;
    const char *whose = r->own_hosts && r->node_count == r->host_count ? " of its cluster"
                        : r->node_count                                ? " that `nodes` allows"
                                                                       : "";
    return arena_printf(m->l->arena, "%u node%s%s", nodes, nodes == 1 ? "" : "s", whose);
}

/* ---- nnodes ---- */

static bool take(struct room *m, size_t role, bool empty_only, uint32_t *left)
{
    const struct spec_role *r = &m->l->spec->roles[role];
    uint32_t each = r->nproc.kind == NPROC_COUNT ? r->nproc.count : 0;
    for (uint32_t n = 0; n<m->l->spec->nnodes && * left> 0; n++) {
        if (m->on[role][n] || !may_use(m->l->spec, r, n) || (empty_only && m->taken[n]) ||
            room_on(m, role, n) < (each ? each : 1))
            continue;
        put(m, role, n, each ? each : is_limited(m, role, n) ? m->free[n] : 0);
        m->taken[n] = true;
        --*left;
    }
    return *left == 0;
}

static void place_nodes(struct room *m, size_t role)
{
    const struct spec_role *r = &m->l->spec->roles[role];
    uint32_t left = r->nnodes;
    if (take(m, role, true, &left) || take(m, role, false, &left))
        return;
    uint32_t each = r->nproc.kind == NPROC_COUNT ? r->nproc.count : 1;
    diagnostic_hint(fault(m->l, r->place, "role \"%s\" needs %u nodes with room for %u worker%s each, but %u of %s %s",
                          r->name, r->nnodes, each, each == 1 ? "" : "s", r->nnodes - left, nodes_of_role(m, r),
                          r->nnodes - left == 1 ? "has it" : "have it"),
                    "more nodes, fewer workers, or a larger nproc_per_node, which is the room on a node");
}

/* ---- count ---- */

/* At most `most` workers on a node, for all roles together that share the nodes. */
static void fill(struct room *m, size_t role, const bool *use, uint32_t most, uint32_t *left)
{
    const struct spec_role *r = &m->l->spec->roles[role];
    for (uint32_t n = 0; n<m->l->spec->nnodes && * left> 0; n++) {
        uint32_t there = r->node_count ? m->counts[role][n] : m->spread[n];
        uint32_t some = use[n] && there < most ? most - there : 0;
        some = some < room_on(m, role, n) ? some : room_on(m, role, n);
        some = some < *left ? some : *left;
        if (some == 0)
            continue;
        put(m, role, n, some);
        m->spread[n] += r->node_count ? 0 : some;
        *left -= some;
    }
}

static uint32_t ceil_div(uint64_t a, uint32_t b)
{
    uint64_t n = b ? (a + b - 1) / b : 0;
    return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

static void place_count(struct room *m, size_t role, uint64_t together)
{
    const struct spec *spec = m->l->spec;
    const struct spec_role *r = &spec->roles[role];
    bool *use = arena_array(m->l->arena, spec->nnodes, sizeof *use), limited = true, any = false;
    uint32_t left = r->count, nodes = 0, room = 0;
    for (uint32_t n = 0; n < spec->nnodes; n++) {
        use[n] = may_use(spec, r, n) && (r->node_count || !m->taken[n] || is_limited(m, role, n));
        any = any || use[n];
    }
    for (uint32_t n = 0; n < spec->nnodes; n++) {
        use[n] = any ? use[n] : may_use(spec, r, n);
        nodes += use[n];
        limited = limited && (!use[n] || is_limited(m, role, n));
        room += use[n] && room < UINT32_MAX - SPEC_NPROC_MAX ? room_on(m, role, n) : 0;
    }
    if (!limited)
        fill(m, role, use, ceil_div(r->node_count ? r->count : together, nodes), &left);
    fill(m, role, use, UINT32_MAX, &left);
    if (left == 0)
        return;
    struct diagnostic *d = fault(m->l, r->place, "role \"%s\" has %u worker%s, but there is room for %u on %s", r->name,
                                 r->count, r->count == 1 ? "" : "s", room, nodes_of_role(m, r));
    diagnostic_hint(d,
                    limited ? "nproc_per_node, of a host or of distributed, is the room on a node for all roles "
                              "together"
                            : "a node takes at most %d workers",
                    SPEC_NPROC_MAX);
}

/* ---- the whole ---- */

static void find_room(struct room *m)
{
    const struct spec *spec = m->l->spec;
    const struct spec_distributed *d = &spec->distributed;
    for (uint32_t n = 0; n < spec->nnodes; n++) {
        const struct spec_node *own = &spec->nodes[n];
        const struct spec_nproc *np = own->has_nproc ? &own->nproc : d->has_nproc ? &d->nproc : NULL;
        m->limited[n] = np && np->kind == NPROC_COUNT;
        m->free[n] = m->limited[n] ? np->count : SPEC_NPROC_MAX;
    }
}

static void list_places(struct room *m)
{
    struct spec *spec = m->l->spec;
    size_t count = 0;
    for (size_t i = 0; i < spec->role_count; i++)
        for (uint32_t n = 0; n < spec->nnodes; n++)
            count += m->on[i][n];
    spec->places = arena_array(m->l->arena, count + 1, sizeof *spec->places);
    for (uint32_t i = 0; i < spec->role_count; i++)
        for (uint32_t n = 0; n < spec->nnodes; n++)
            if (m->on[i][n])
                spec->places[spec->place_count++] =
                    (struct spec_place){i, n, spec->roles[i].counted ? m->counts[i][n] : 0};
}

void roles_place(struct load *l)
{
    struct spec *spec = l->spec;
    struct arena *a = l->arena;
    uint64_t together = 0;
    struct room m = {.l = l,
                     .free = arena_array(a, spec->nnodes, sizeof *m.free),
                     .limited = arena_array(a, spec->nnodes, sizeof *m.limited),
                     .spread = arena_array(a, spec->nnodes, sizeof *m.spread),
                     .taken = arena_array(a, spec->nnodes, sizeof *m.taken),
                     .counts = arena_array(a, spec->role_count, sizeof *m.counts),
                     .on = arena_array(a, spec->role_count, sizeof *m.on)};
    find_room(&m);
    for (size_t i = 0; i < spec->role_count; i++) {
        const struct spec_role *r = &spec->roles[i];
        m.counts[i] = arena_array(a, spec->nnodes, sizeof *m.counts[i]);
        m.on[i] = arena_array(a, spec->nnodes, sizeof *m.on[i]);
        together += r->nnodes || r->node_count ? 0 : r->count;
    }
    for (size_t i = 0; i < spec->role_count; i++)
        if (spec->roles[i].nnodes)
            place_nodes(&m, i);
    for (size_t i = 0; i < spec->role_count; i++)
        if (!spec->roles[i].nnodes)
            place_count(&m, i, together);
    list_places(&m);
}

uint32_t spec_peer_of(enum spec_by by, uint32_t role_rank, uint32_t count, uint32_t peers)
{
    if (by == BY_STRIDE)
        return role_rank % peers;
    return (uint32_t)((uint64_t)role_rank * peers / (count ? count : 1));
}

/* ---- nodes that take part ---- */

/* own: whether the role has its own part (set-up or files). */
static uint32_t nodes_taking_part(const struct spec *spec, const struct spec_role *role,
                                  bool (*own)(const struct spec_role *), bool *ret_on)
{
    uint32_t count = 0;
    memset(ret_on, !role, spec->nnodes * sizeof *ret_on);
    for (size_t i = 0; !role && i < spec->place_count; i++)
        ret_on[spec->places[i].node] = false;
    for (size_t i = 0; i < spec->place_count; i++) {
        const struct spec_role *there = &spec->roles[spec->places[i].role];
        if (role ? there == role : !own(there))
            ret_on[spec->places[i].node] = true;
    }
    for (uint32_t n = 0; n < spec->nnodes; n++)
        count += ret_on[n];
    return count;
}

static bool has_setup(const struct spec_role *r)
{
    return r->own_setup;
}

static bool has_files(const struct spec_role *r)
{
    return r->own_files;
}

uint32_t spec_setup_nodes(const struct spec *spec, const struct spec_role *role, bool *ret_on)
{
    return nodes_taking_part(spec, role, has_setup, ret_on);
}

uint32_t spec_file_nodes(const struct spec *spec, const struct spec_role *role, bool *ret_on)
{
    return nodes_taking_part(spec, role, has_files, ret_on);
}
