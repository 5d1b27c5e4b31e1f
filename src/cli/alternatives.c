/*
 * cluster.any_of: the alternative that a spec is read with. A rented alternative is in the cluster's ledger; a run's
 * alternative is found by the hash of its plan.
 */
#include "renting.h"

#include <stdlib.h>

uint32_t renting_alternative(const struct fleet_ledger *l)
{
    return l->stage == FLEET_STAGE_COMPLETE && l->offer < l->wanted.offer_count ? l->wanted.offers[l->offer].alternative
                                                                                : 0;
}

uint32_t alternative_of_cluster(struct cli *c, const struct spec *spec)
{
    struct fleet_ledger *l;
    const char *id;
    char job[17];
    if (!spec->rent || spec->rent->alternative_count == 0)
        return 0;
    journal_job_id(spec_id_name(spec), spec_id_origin(spec), job);
    /* The code that opens the ledger reports a read error. */
    if (renting_find(job, c->arena, &id, NULL) < 0 || !id || rent_read(id, &l, NULL) < 0)
        return 0;
    const uint32_t alternative = renting_alternative(l);
    fleet_ledger_destroy(l);
    return alternative <= spec->rent->alternative_count ? alternative : 0;
}

static bool is_planned_so(struct cli *c, const char *path, uint32_t alternative, const struct state_run *run)
{
    struct spec_overrides o = cli_overrides(c);
    struct diagnostics d = {0};
    struct spec *spec;
    struct plan *plan;
    struct sources *sources = NULL;
    struct error err = ERROR_INIT;
    o.alternative = alternative;
    bool same = spec_load(path, &o, c->arena, &spec, &d, &err) == 0;
    diagnostics_free(&d);
    if (!same)
        return false;
    const struct roster *roster = roster_create(spec, c->arena);
    same = cli_sources(c, spec, roster, false, &sources) == 0 &&
           plan_compile(spec, roster, step_kinds, &sources->plan, NULL, c->arena, &plan, &err) == 0 &&
           str_eq(plan->hash, run->plan_hash);
    cli_sources_close(sources);
    return same;
}

uint32_t alternative_of_run(struct cli *c, const char *path, const struct spec *spec)
{
    struct journal *journal;
    struct error err = ERROR_INIT;
    char job[17];
    uint32_t found = 0;
    if (!spec->rent || spec->rent->alternative_count < 2)
        return 0;
    journal_job_id(spec_id_name(spec), spec_id_origin(spec), job);
    if (journal_open_read(job, &journal, &err) < 0)
        return 0;
    const struct state *state = journal_state(journal);
    const struct state_run *run = state_run_open(state);
    if (!run)
        run = state_run_latest(state, spec->variant);
    for (uint32_t k = 1; run && str_eq(run->variant, spec->variant) && !found && k <= spec->rent->alternative_count;
         k++)
        found = is_planned_so(c, path, k, run) ? k : 0;
    journal_close(journal);
    return found;
}
