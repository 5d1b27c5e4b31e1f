/* The state that a cluster's ledger adds up to, and questions about it: the wish, the costs. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum { HOUR_MS = 3600000 };

static const char *const stage_names[] = {"none", "renting", "retreating", "complete", "ending", "over"};

const char *fleet_stage_name(enum fleet_stage stage)
{
    return stage_names[stage];
}

struct fleet_ledger *fleet_ledger_create(void)
{
    struct fleet_ledger *l = xcalloc(1, sizeof *l);
    l->arena = arena_create();
    l->offer = FLEET_NONE;
    return l;
}

void fleet_ledger_destroy(struct fleet_ledger *l)
{
    if (!l)
        return;
    arena_destroy(l->arena);
    free(l->orders);
    free(l->machines);
    free(l->blocks);
    free(l);
}

uint32_t ledger_order(const struct fleet_ledger *l, const char *name)
{
    for (uint32_t i = l->order_count; i-- > 0;)
        if (str_eq(l->orders[i].name, name))
            return i;
    return FLEET_NONE;
}

uint32_t ledger_machine(const struct fleet_ledger *l, const char *provider, const char *id)
{
    for (uint32_t i = l->machine_count; i-- > 0;)
        if (str_eq(l->machines[i].id, id) && str_eq(l->machines[i].provider, provider))
            return i;
    return FLEET_NONE;
}

static bool is_wanted(const struct fleet_ledger *l)
{
    return l->stage == FLEET_STAGE_RENTING || l->stage == FLEET_STAGE_COMPLETE;
}

bool order_is_wanted(const struct fleet_ledger *l, uint32_t order)
{
    const struct fleet_order *o = &l->orders[order];
    if (!is_wanted(l) || o->closed || o->attempt != l->attempt)
        return false;
    for (uint32_t s = o->slot; s < o->slot + o->count; s++)
        if (l->slots[s].order == order && l->slots[s].state == FLEET_SLOT_ORDERED)
            return true;
    return false;
}

bool machine_is_wanted(const struct fleet_ledger *l, uint32_t machine)
{
    const struct fleet_machine *m = &l->machines[machine];
    if (!is_wanted(l) || m->slot == FLEET_NONE || m->slot >= l->slot_count)
        return false;
    const struct fleet_slot *s = &l->slots[m->slot];
    return s->machine == machine && (s->state == FLEET_SLOT_MADE || s->state == FLEET_SLOT_READY);
}

uint64_t machine_price(const struct fleet_ledger *l, const struct fleet_machine *m)
{
    return m->price ? m->price : m->order == FLEET_NONE ? 0 : l->orders[m->order].price;
}

uint64_t fleet_cost_between(const struct fleet_ledger *l, uint64_t from_ms, uint64_t until_ms)
{
    uint64_t cost = 0;
    for (uint32_t i = 0; i < l->machine_count; i++) {
        const struct fleet_machine *m = &l->machines[i];
        const uint64_t begin = m->created_ms > from_ms ? m->created_ms : from_ms;
        const uint64_t end = m->state == FLEET_MACHINE_GONE && m->gone_ms < until_ms ? m->gone_ms : until_ms;
        const uint64_t ms = end > begin ? end - begin : 0, price = machine_price(l, m);
        cost += ms / HOUR_MS * price + ms % HOUR_MS * price / HOUR_MS;
    }
    return cost;
}

uint64_t fleet_cost(const struct fleet_ledger *l, uint64_t now_ms)
{
    return fleet_cost_between(l, 0, now_ms);
}

uint64_t fleet_rate(const struct fleet_ledger *l)
{
    uint64_t rate = 0;
    for (uint32_t i = 0; i < l->machine_count; i++)
        if (l->machines[i].state != FLEET_MACHINE_GONE)
            rate += machine_price(l, &l->machines[i]);
    for (uint32_t i = 0; i < l->order_count; i++)
        if (!l->orders[i].closed)
            rate += l->orders[i].price * (l->orders[i].count - l->orders[i].machines);
    return rate;
}

bool ledger_is_settled(const struct fleet_ledger *l)
{
    for (uint32_t i = 0; i < l->order_count; i++)
        if (!l->orders[i].closed)
            return false;
    for (uint32_t i = 0; i < l->machine_count; i++)
        if (l->machines[i].state != FLEET_MACHINE_GONE)
            return false;
    return true;
}

/* ---- the wish ---- */

static bool is_id(const char *s)
{
    const size_t len = s ? strlen(s) : 0;
    return len >= 8 && len <= 40 && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789") == len;
}

static bool is_text(const char *s, bool may_be_empty)
{
    return s && strlen(s) <= FLEET_TEXT_MAX && (s[0] || may_be_empty) && str_is_printable(s);
}

static int check_offer(const struct fleet_offer *o, uint32_t number, struct error *err)
{
    enum { PRICE_MAX = 2000000000 };
    if (!is_text(o->provider, false) || !is_text(o->region, true) || !is_text(o->zone, true) ||
        !is_text(o->type, false) || (o->gpu && !is_text(o->gpu, false)))
        return error_set(err, ERROR_SPEC, "offer %u lacks a provider or type, or has an invalid text", number);
    if (o->nodes == 0 || o->nodes > FLEET_NODES_MAX || o->gang_max == 0)
        return error_set(err, ERROR_SPEC, "offer %u is for %u nodes; a cluster has 1 to %d", number, o->nodes,
                         (int)FLEET_NODES_MAX);
    if (o->price > PRICE_MAX)
        return error_set(err, ERROR_SPEC, "offer %u costs more than anything", number);
    return 0;
}

int fleet_wanted_check(const struct fleet_wanted *w, struct error *err)
{
    if (!is_id(w->id))
        return error_set(err, ERROR_SPEC, "a cluster's id is 8 to 40 of a-z and 0-9");
    if (!is_text(w->name, false) || !is_text(w->owner, false))
        return error_set(err, ERROR_SPEC, "a cluster has a name and an owner, of at most %d bytes",
                         (int)FLEET_TEXT_MAX);
    if (w->what && !is_text(w->what, false))
        return error_set(err, ERROR_SPEC, "the wish of a cluster is a text of at most %d bytes", (int)FLEET_TEXT_MAX);
    if ((w->image && !is_text(w->image, false)) || (w->user && !is_text(w->user, false)))
        return error_set(err, ERROR_SPEC, "an image and a user have names of at most %d bytes", (int)FLEET_TEXT_MAX);
    if (w->offer_count == 0 || w->offer_count > FLEET_OFFERS_MAX)
        return error_set(err, ERROR_SPEC, "%u offers; there must be 1 to %d", w->offer_count, (int)FLEET_OFFERS_MAX);
    for (uint32_t i = 0; i < w->offer_count; i++)
        if (check_offer(&w->offers[i], i + 1, err) < 0)
            return -1;
    return 0;
}
