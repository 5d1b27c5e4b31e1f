/*
 * cluster: NAME: a job on the machines of a cluster that another job rented and keeps. The cluster is opened and held
 * as by its own job, one job at a time. Nothing is rented for the borrower; what is given back, and when, is decided by
 * the cluster's own spec.
 *
 * The ledger names the last holder. If that rhrun was killed, its work may continue there: then only the same job may
 * use the cluster, until gc, or the rhrun of the cluster's own job, has freed it.
 */
#include "renting.h"

#include <string.h>

/* How the ledger names a borrower: "job NAME: WHO". */
static const char borrower[] = "job ";

static const char *holder_name(const struct spec *spec, const char *by, struct arena *arena)
{
    return arena_printf(arena, "%s%s: %s", borrower, spec->name, by);
}

static bool is_of(const char *held_by, const struct spec *spec, struct arena *arena)
{
    return str_starts(held_by, holder_name(spec, "", arena));
}

int renting_check_holder(const struct fleet_ledger *l, const struct spec *spec, struct arena *arena, struct error *err)
{
    const bool borrows = spec->rent->cluster != NULL;
    if (!l->held_by || (borrows ? is_of(l->held_by, spec, arena) : !str_starts(l->held_by, borrower)))
        return 0;
    error_set(err, ERROR_HELD, "cluster %s was held by %s, which ended without releasing it: its work may go on there",
              l->wanted.id, l->held_by);
    error_hint(err, "the same command continues it; rhrun gc --yes frees the cluster");
    return -1;
}

static const char *kept_ones(struct cli *c)
{
    const char *const *ids, *text = "";
    if (journal_clusters(c->arena, &ids, NULL) < 0)
        return text;
    for (; *ids; ids++) {
        struct fleet_ledger *l;
        if (rent_is_over(*ids) || rent_read(*ids, &l, NULL) < 0)
            continue;
        if (l->stage == FLEET_STAGE_COMPLETE && l->wanted.down != FLEET_DOWN_ALWAYS)
            text = arena_printf(c->arena, "%s%s%s (%s)", text, *text ? ", " : "", l->wanted.name, *ids);
        fleet_ledger_destroy(l);
    }
    return text;
}

int renting_find_borrowed(struct cli *c, const struct spec *spec, const char **ret_id, struct error *err)
{
    const char *name = spec->rent->cluster;
    if (renting_named(c, name, ret_id, err) < 0)
        return -1;
    if (*ret_id && !rent_is_over(*ret_id))
        return 0;
    const char *kept = kept_ones(c);
    error_set(err, ERROR_SPEC, "there is no cluster \"%s\": neither clusters/%s.yaml nor a rented cluster", name, name);
    if (*kept)
        error_hint(err, "there are %s; rhrun up SPEC rents one", kept);
    else
        error_hint(err, "rhrun up SPEC rents one, of a spec with cluster.instance and down: never");
    return -1;
}

/* The cluster must be kept (down: never), unless the job is its own, and must have a machine for each node. */
static int check(const struct fleet_ledger *l, const struct spec *spec, struct error *err)
{
    const struct fleet_wanted *w = &l->wanted;
    if (l->stage != FLEET_STAGE_COMPLETE || (w->deadline_ms && wall_ms() >= w->deadline_ms)) {
        error_set(err, ERROR_SPEC, "cluster %s (%s) cannot be used: it is %s", w->id, w->name,
                  l->stage == FLEET_STAGE_COMPLETE ? "past its max_hours" : fleet_stage_name(l->stage));
        error_hint(err, "rhrun clusters lists the clusters");
        return -1;
    }
    if (w->down == FLEET_DOWN_ALWAYS) {
        error_set(err, ERROR_SPEC, "cluster %s (%s) belongs to a single run, which gives it back", w->id, w->name);
        error_hint(err, "down: never, or {idle: 30m}, in the spec that rents it keeps it for others");
        return -1;
    }
    if (l->slot_count < spec->nnodes) {
        error_set(err, ERROR_SPEC, "the job has %u nodes, but cluster %s (%s) has %u machine%s", spec->nnodes, w->id,
                  w->name, l->slot_count, l->slot_count == 1 ? "" : "s");
        error_hint(err, "distributed.nnodes says how many nodes the job has");
        return -1;
    }
    return 0;
}

static int check_machines(const struct fleet_ledger *l, const struct spec *spec, struct error *err)
{
    for (uint32_t i = 0; i < spec->nnodes; i++)
        if (l->slots[i].state != FLEET_SLOT_READY) {
            error_set(err, ERROR_INFRA, "the machine of node %u of cluster %s (%s) is gone", i, l->wanted.id,
                      l->wanted.name);
            error_hint(err, "rhrun up with the spec that rented it rents another one");
            return -1;
        }
    return 0;
}

int renting_borrow(struct renting *r, const struct spec *spec, struct roster *roster, const char *by, struct error *err)
{
    struct cli *c = r->c;
    struct fleet_ledger *l;
    const char *id;
    if (renting_find_borrowed(c, spec, &id, err) < 0 || rent_read(id, &l, err) < 0)
        return -1;
    const char *name = arena_strdup(c->arena, l->wanted.name), *holder = arena_strdup(c->arena, l->held_by);
    int rc = check(l, spec, err);
    fleet_ledger_destroy(l);
    if (rc < 0)
        return -1;
    if (renting_open(r, id, name, err) < 0) {
        if (err->code == ERROR_HELD) {
            error_set(err, ERROR_HELD, "cluster %s (%s) is in use%s%s", id, name, holder ? ": it is held by " : "",
                      holder ? holder : "");
            error_hint(err, "wait until that run is over, or end it: rhrun cancel");
        }
        return -1;
    }
    if (check(rent_ledger(r->cluster), spec, err) < 0 ||
        renting_check_holder(rent_ledger(r->cluster), spec, c->arena, err) < 0) {
        renting_close(r);
        return -1;
    }
    r->held = r->borrowed = true;
    rent_hold(r->cluster, holder_name(spec, by, c->arena));
    rc = renting_wait(r, err);
    if (rc == 0)
        rc = renting_wait_machines(r, err);
    if (rc == 0)
        rc = check_machines(rent_ledger(r->cluster), spec, err);
    return rc < 0 ? -1 : renting_roster(rent_ledger(r->cluster), c->arena, roster, err);
}

int renting_look_of(struct cli *c, const struct spec *spec, const char *job_id, struct roster *roster,
                    const char **ret_id, struct error *err)
{
    struct fleet_ledger *l;
    if (!spec->rent->cluster)
        return renting_look(c, job_id, roster, ret_id, err);
    if (renting_find_borrowed(c, spec, ret_id, err) < 0 || rent_read(*ret_id, &l, err) < 0)
        return -1;
    const int rc = renting_roster(l, c->arena, roster, err);
    fleet_ledger_destroy(l);
    return rc;
}
