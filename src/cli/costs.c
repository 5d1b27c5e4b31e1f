/*
 * The cost of runs that rent: each run pays for the time in which its rhrun held the cluster, from the first requested
 * machine until the last one is gone or kept. If a hold had two runs, the opening of the second divides the time.
 */
#include "renting.h"

#include <stdlib.h>
#include <string.h>

/* The cost of run `at` in this hold: from the beginning of the hold or, if an earlier run is in it too, from the run's
 * own opening. */
static uint64_t cost_in(const struct state *s, size_t at, const struct rent_hold *h, const struct fleet_ledger *l,
                        uint64_t now)
{
    const struct state_run *r = &s->runs[at];
    uint64_t from = h->from_ms, until = h->until_ms < now ? h->until_ms : now;
    if (r->opened_ms < h->from_ms || r->opened_ms > h->until_ms)
        return 0;
    if (at > 0 && s->runs[at - 1].opened_ms >= h->from_ms)
        from = r->opened_ms;
    if (at + 1 < s->run_count && s->runs[at + 1].opened_ms < until)
        until = s->runs[at + 1].opened_ms;
    return fleet_cost_between(l, from, until);
}

bool cli_run_costs(struct cli *c, const char *job_id, const struct state *s, uint64_t *costs)
{
    const char *const *ids;
    bool any = false;
    const uint64_t now = wall_ms();
    memset(costs, 0, s->run_count * sizeof *costs);
    if (journal_clusters(c->arena, &ids, NULL) < 0)
        return false;
    for (; *ids; ids++) {
        struct fleet_ledger *l;
        struct rent_hold *holds;
        size_t count;
        if (strncmp(*ids, job_id, RENT_JOB_PREFIX) != 0 || rent_read_holds(*ids, &l, &holds, &count, NULL) < 0)
            continue;
        for (size_t i = 0; i < s->run_count; i++)
            for (size_t k = 0; k < count; k++)
                costs[i] += cost_in(s, i, &holds[k], l, now);
        any = any || l->machine_count > 0;
        fleet_ledger_destroy(l);
        free(holds);
    }
    return any;
}
