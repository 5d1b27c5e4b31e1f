/* Two nodes of a plan must not be one machine: they would share a ledger and a working directory, and the second HELLO
 * would fence the first. A table leads from an install id to its lane, because each of up to 10,000 nodes is looked up
 * once. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static size_t hash_of(const char *install)
{
    size_t h = 0xcbf29ce4;
    for (; *install; install++)
        h = (h ^ (unsigned char)*install) * 0x01000193;
    return h;
}

static const char *install_of(const struct run *r, uint32_t node)
{
    const struct wire_facts *f = r->lanes[node].facts;
    return f && f->install ? f->install : "";
}

/* The entry of the lane that has this install id now, or the free entry for the id. If a node came back as another
 * machine, the entry for its old id stays in the table and no longer matches anything. */
static uint32_t *place_of(struct run *r, const char *install)
{
    size_t i = hash_of(install) & (r->machines_size - 1);
    while (r->machines[i] && strcmp(install_of(r, r->machines[i] - 1), install) != 0)
        i = (i + 1) & (r->machines_size - 1);
    return &r->machines[i];
}

static void renew(struct run *r, uint32_t but)
{
    free(r->machines);
    r->machines_size = 64;
    while (r->machines_size < 4 * (size_t)r->plan->node_count)
        r->machines_size *= 2;
    r->machines = xcalloc(r->machines_size, sizeof *r->machines);
    r->machines_used = 0;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (n != but && install_of(r, n)[0]) {
            *place_of(r, install_of(r, n)) = n + 1;
            r->machines_used++;
        }
}

bool machines_add(struct run *r, uint32_t node, struct error *err)
{
    if (r->machines_used >= r->machines_size / 2)
        renew(r, node);
    const char *install = install_of(r, node);
    uint32_t *place = place_of(r, install);
    if (*place && *place != node + 1) {
        uint32_t other = *place - 1, first = other < node ? other : node, second = other < node ? node : other;
        error_set(err, ERROR_INFRA, "nodes \"%s\" and \"%s\" are the same machine", r->lanes[first].name,
                  r->lanes[second].name);
        error_hint(err, "name each host once; more workers on one: nproc_per_node");
        return false;
    }
    if (!*place)
        r->machines_used++;
    *place = node + 1;
    return true;
}
