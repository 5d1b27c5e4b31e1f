/* Which host each node has: those of the spec, in its order. See roster.h. */
#include "rhrun/roster.h"

#include <string.h>

struct roster {
    struct arena *arena;
    const struct spec_host *hosts; /* the spec's, until roster_put replaces one */
    struct spec_host *own;
    uint32_t count;
};

struct roster *roster_create(const struct spec *spec, struct arena *arena)
{
    struct roster *r = arena_alloc(arena, sizeof *r);
    *r = (struct roster){.arena = arena, .hosts = spec->hosts, .count = (uint32_t)spec->host_count};
    return r;
}

uint32_t roster_count(const struct roster *r)
{
    return r->count;
}

void roster_put(struct roster *r, uint32_t node, const struct spec_host *host)
{
    if (!r->own) {
        r->own = arena_array(r->arena, r->count, sizeof *r->own);
        memcpy(r->own, r->hosts, r->count * sizeof *r->own);
        r->hosts = r->own;
    }
    r->own[node] = *host;
}

const struct spec_host *roster_host(const struct roster *r, uint32_t node)
{
    return &r->hosts[node];
}

struct roster *roster_of(const struct roster *r, const uint32_t *nodes, uint32_t count, struct arena *arena)
{
    struct roster *some = arena_alloc(arena, sizeof *some);
    struct spec_host *hosts = arena_array(arena, (size_t)count + 1, sizeof *hosts);
    for (uint32_t i = 0; i < count; i++)
        hosts[i] = r->hosts[nodes[i]];
    *some = (struct roster){.arena = arena, .hosts = hosts, .count = count};
    return some;
}

const char *roster_name(const struct roster *r, uint32_t node)
{
    return roster_host(r, node)->name;
}
