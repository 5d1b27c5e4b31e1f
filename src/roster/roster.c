/* Which host each node has: those of the spec, in its order. See roster.h. */
#include "rhrun/roster.h"

struct roster {
    const struct spec_host *hosts;
    uint32_t count;
};

struct roster *roster_create(const struct spec *spec, struct arena *arena)
{
    struct roster *r = arena_alloc(arena, sizeof *r);
    *r = (struct roster){.hosts = spec->hosts, .count = (uint32_t)spec->host_count};
    return r;
}

uint32_t roster_count(const struct roster *r)
{
    return r->count;
}

const struct spec_host *roster_host(const struct roster *r, uint32_t node)
{
    return &r->hosts[node];
}

const char *roster_name(const struct roster *r, uint32_t node)
{
    return roster_host(r, node)->name;
}
