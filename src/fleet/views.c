/* What this process has seen: a struct beside each of the ledger's. After a replay nothing was seen yet, and what an
 * earlier process sent may be done still. */
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

/* From when on a look shows what came of a create that an earlier process sent. Of one that is closed all answers were
 * there then; the ledger tells when that was. */
static uint64_t proof_of_replayed(const struct fleet *f, const struct fleet_order *o)
{
    const uint64_t hidden = FLEET_SETTLE_MS + order_offer(f->ledger, o)->settle_ms;
    const uint64_t past = f->now.wall_ms > o->closed_ms ? f->now.wall_ms - o->closed_ms : 0;
    if (!o->closed)
        return f->now.mono_ms + hidden;
    return f->now.mono_ms + (past < hidden ? hidden - past : 0);
}

static void follow_order(struct fleet *f, uint32_t number, bool replayed)
{
    const struct fleet_order *o = &f->ledger->orders[number];
    const uint64_t now = f->now.mono_ms;
    f->orders = grown(f->orders, number, &f->order_cap, sizeof *f->orders);
    f->orders[number] = (struct order_view){.state = ORDER_INTENDED, .begun_ms = now, .since_ms = now, .retry_ms = now};
    f->order_count = number + 1;
    struct site *p = site_of_order(f, number);
    if (!replayed)
        return;
    const uint64_t proof_ms = proof_of_replayed(f, o);
    f->orders[number].proof_ms = proof_ms;
    f->orders[number].left = true;
    order_set(f, number, o->closed ? ORDER_CLOSED : ORDER_DOUBT);
    if (p->quiet_ms < proof_ms)
        p->quiet_ms = proof_ms;
}

static void follow_machine(struct fleet *f, uint32_t number, bool replayed)
{
    const struct fleet_machine *m = &f->ledger->machines[number];
    struct site *p = site_of(f, m->provider, m->region);
    const uint64_t settle = p->offer ? p->offer->settle_ms : FLEET_SETTLE_MS;
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

/* Orders whose last machine the ledger has now are closed there, and so here. */
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
