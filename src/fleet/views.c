/* What this process has seen: a struct for each struct of the ledger. After a replay nothing was seen yet, and requests
 * of an earlier process may still be carried out. */
#include "internal.h"

#include <string.h>

static void *grown(void *items, uint32_t count, uint32_t *cap, size_t size)
{
    if (count < *cap)
        return items;
    *cap = *cap ? 2 * *cap : 16;
    return xreallocarray(items, *cap, size);
}

struct site *site_of(struct fleet *f, const char *provider, const char *region)
{
    for (uint32_t i = 0; i < f->site_count; i++)
        if (str_eq(f->sites[i].provider, provider) && str_eq(f->sites[i].region, region))
            return &f->sites[i];
    f->sites = grown(f->sites, f->site_count, &f->site_cap, sizeof *f->sites);
    f->sites[f->site_count++] = (struct site){.provider = provider, .region = region};
    return &f->sites[f->site_count - 1];
}

struct site *site_of_order(struct fleet *f, uint32_t order)
{
    const struct fleet_offer *offer = order_offer(f->ledger, &f->ledger->orders[order]);
    struct site *p = site_of(f, offer->provider, offer->region);
    if (!p->offer || p->offer->settle_ms < offer->settle_ms)
        p->offer = offer;
    return p;
}

uint64_t site_quiet_ms(const struct fleet *f, const struct site *p)
{
    uint64_t at = p->quiet_ms;
    for (uint32_t i = 0; i < f->order_count; i++) {
        const struct fleet_offer *o = order_offer(f->ledger, &f->ledger->orders[i]);
        if (str_eq(o->provider, p->provider) && str_eq(o->region, p->region) && f->orders[i].proof_ms > at &&
            !order_is_whole(f, i))
            at = f->orders[i].proof_ms;
    }
    return at;
}

/* How much of `ms` is left, on this process's clock, since the ledger recorded that a create was closed or settled. For
 * an open create an earlier process may have sent a request just now. */
static uint64_t left_of(const struct fleet *f, const struct fleet_order *o, uint64_t since_ms, uint64_t ms)
{
    const uint64_t past = f->now.wall_ms > since_ms && o->closed ? f->now.wall_ms - since_ms : 0;
    return f->now.mono_ms + (past < ms ? ms - past : 0);
}

static void inherit(struct fleet *f, const struct fleet_order *o, struct order_view *v)
{
    const struct fleet_ledger *l = f->ledger;
    const struct fleet_offer *offer = order_offer(l, o);
    const bool settled = o->closed && o->seq < l->settled_seq;
    const uint64_t since_ms = settled ? l->settled_ms : o->closed_ms, late = settled ? 0 : offer_late_ms(offer);
    v->late_ms = left_of(f, o, since_ms, late);
    v->proof_ms = left_of(f, o, since_ms, late + offer->settle_ms);
    v->left = v->inherited = true;
    v->unsure = !o->closed;
}

static void follow_order(struct fleet *f, uint32_t number, bool replayed)
{
    const struct fleet_order *o = &f->ledger->orders[number];
    const uint64_t now = f->now.mono_ms;
    f->orders = grown(f->orders, number, &f->order_cap, sizeof *f->orders);
    f->orders[number] = (struct order_view){.state = ORDER_INTENDED, .begun_ms = now, .since_ms = now, .retry_ms = now};
    f->order_count = number + 1;
    site_of_order(f, number);
    if (!replayed)
        return;
    inherit(f, o, &f->orders[number]);
    order_set(f, number, o->closed ? ORDER_CLOSED : ORDER_DOUBT);
}

static void follow_machine(struct fleet *f, uint32_t number, bool replayed)
{
    const struct fleet_machine *m = &f->ledger->machines[number];
    struct site *p = site_of(f, m->provider, m->region);
    const uint64_t settle = p->offer ? p->offer->settle_ms : FLEET_LATE_MS;
    f->machines = grown(f->machines, number, &f->machine_cap, sizeof *f->machines);
    f->machines[number] = (struct machine_view){.seen = SEEN_UNKNOWN, .proof_ms = f->now.mono_ms + settle};
    f->machine_count = number + 1;
    p->changed = true;
    if (!replayed && p->quiet_ms < f->machines[number].proof_ms)
        p->quiet_ms = f->machines[number].proof_ms;
}

void views_begin(struct fleet *f)
{
    f->started = true;
    for (uint32_t i = 0; i < f->ledger->order_count; i++)
        follow_order(f, i, true);
    for (uint32_t i = 0; i < f->ledger->machine_count; i++)
        follow_machine(f, i, true);
}

/* Closes the views of orders that the ledger has closed because it has their last machine. */
static void follow_closed(struct fleet *f)
{
    for (uint32_t i = 0; i < f->order_count; i++)
        if (f->ledger->orders[i].closed && f->orders[i].state != ORDER_CLOSED)
            order_set(f, i, ORDER_CLOSED);
}

void views_follow(struct fleet *f, const struct fleet_event *e)
{
    if (e->type == FLEET_INTENT)
        follow_order(f, f->ledger->order_count - 1, false);
    if (e->type == FLEET_CREATED)
        follow_machine(f, f->ledger->machine_count - 1, false);
    if (e->type == FLEET_CREATED || e->type == FLEET_VOID)
        follow_closed(f);
}
