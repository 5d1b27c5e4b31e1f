/* Machines that a spec rents: faults of the request, and the offers as a plan shows them. */
#include "renting.h"

#include <stdlib.h>

int cli_offers(struct cli *c, const struct spec *spec, struct rent_offers *ret)
{
    struct diagnostics d = {0};
    struct error err = ERROR_INIT;
    int rc = rent_offers(spec->rent, spec->nnodes, c->arena, ret, &d, &err);
    if (d.count > 0 && (rc < 0 || (!c->given[OPT_QUIET] && !c->given[OPT_JSON])))
        cli_print_diagnostics(c, &d);
    diagnostics_free(&d);
    return rc < 0 ? cli_fail(c, &err) : 0;
}

static const char *source_of(struct cli *c, const struct catalog_row *row)
{
    const char *file = row->file ? row->file : "built in";
    return *row->source ? arena_printf(c->arena, "%s (%s)", row->source, file) : file;
}

static void put_offer(struct cli *c, const struct rent_offers *o, size_t i, struct plan_offer *ret)
{
    const struct fleet_offer *f = &o->items[i];
    const struct catalog_row *row = o->rows[i];
    *ret = (struct plan_offer){.provider = f->provider,
                               .region = f->region,
                               .zone = f->zone,
                               .type = f->type,
                               .spot = f->spot,
                               .nodes = f->nodes,
                               .alternative = f->alternative,
                               .at_most = o->at_most[i],
                               .unpriced = f->unpriced,
                               .free = !row,
                               .as_of_day = row ? row->as_of_day : 0,
                               .source = row ? source_of(c, row) : ""};
    if (__builtin_mul_overflow(f->price, (uint64_t)f->nodes, &ret->price))
        ret->price = UINT64_MAX;
}

const struct plan_rent *cli_plan_rent(struct cli *c, struct rent_offers *o)
{
    struct error err = ERROR_INIT;
    struct plan_rent *r = arena_alloc(c->arena, sizeof *r);
    *r = (struct plan_rent){.cut = o->cut, .today = (uint32_t)(wall_ms() / 86400000)};
    if (rent_credentials_check(o, c->arena, &err) < 0)
        r->missing = arena_strdup(c->arena, err.text);
    struct plan_offer *offers = arena_array(c->arena, o->count + 1, sizeof *offers);
    struct plan_lessor *providers = arena_array(c->arena, o->provider_count + 1, sizeof *providers);
    for (size_t i = 0; i < o->count; i++)
        put_offer(c, o, i, &offers[i]);
    for (size_t i = 0; i < o->provider_count; i++) {
        const struct rent_provider *p = &o->providers[i];
        providers[i] = (struct plan_lessor){p->name, p->facts.title, p->facts.risk, p->left_out, p->missing};
    }
    r->offers = offers;
    r->offer_count = o->count;
    r->providers = providers;
    r->provider_count = o->provider_count;
    return r;
}

/* The run did not end: the connection to the machines was lost, and their processes continue. */
void renting_say_kept(const struct renting *r)
{
    const struct fleet_ledger *l = rent_ledger(r->cluster);
    struct buf b = {0};
    char until[32];
    cli_time(l->wanted.deadline_ms, until);
    renting_put_usd(&b, fleet_rate(l));
    fprintf(
        stderr,
        "rhrun: warning: the machines stay rented, at %s an hour%s%s: the same command continues the run, rhrun down "
        "%s gives them back\n",
        b.data, l->wanted.deadline_ms ? ", until " : "", l->wanted.deadline_ms ? until : "", l->wanted.id);
    buf_free(&b);
}

/* The run is over, and `down` keeps the machines. Only the next rhrun, and max_hours, look after them. */
void renting_say_stay(const struct renting *r, const struct cli *c)
{
    const struct fleet_ledger *l = rent_ledger(r->cluster);
    const struct fleet_wanted *w = &l->wanted;
    struct buf b = {0};
    char when[32], idle[32];
    if (c->given[OPT_QUIET] || c->given[OPT_JSON])
        return;
    buf_puts(&b, "rhrun: the machines stay rented");
    if (w->down == FLEET_DOWN_IDLE) {
        cli_duration(w->idle_ms, idle);
        cli_time(l->freed_ms + w->idle_ms, when);
        buf_printf(&b, " for %s, until %s", idle, when);
    }
    if (fleet_rate(l) > 0) {
        buf_puts(&b, ", at ");
        renting_put_usd(&b, fleet_rate(l));
        buf_puts(&b, " an hour");
    }
    buf_printf(&b, ": rhrun down %s gives them back\n", w->id);
    if (w->down == FLEET_DOWN_IDLE)
        buf_puts(&b, "  after that time the next rhrun on this machine does it, or rhrun gc --yes");
    cli_time(w->deadline_ms, when);
    if (w->deadline_ms)
        buf_printf(&b, "%s max_hours end at %s", w->down == FLEET_DOWN_IDLE ? ";" : " ", when);
    fprintf(stderr, "%s\n", b.data);
    buf_free(&b);
}
