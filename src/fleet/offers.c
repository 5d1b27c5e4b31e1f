/* Which offer is tried next: in the order of the wish, never twice in one attempt at a cluster, and none that an
 * earlier failure excludes. */
#include "internal.h"

#include <string.h>

bool fault_is_final(enum provider_class fault, enum provider_scope scope)
{
    return fault == PROVIDER_CLASS_AUTH || fault == PROVIDER_CLASS_INVALID || fault == PROVIDER_CLASS_BUDGET ||
           scope == PROVIDER_SCOPE_RUN;
}

const struct fleet_offer *order_offer(const struct fleet_ledger *l, const struct fleet_order *o)
{
    return &l->wanted.offers[o->offer];
}

uint64_t offer_poll_ms(const struct fleet_offer *o)
{
    return o && o->poll_ms ? o->poll_ms : FLEET_POLL_MS;
}

uint64_t offer_ready_ms(const struct fleet_offer *o)
{
    return o && o->ready_ms ? o->ready_ms : FLEET_READY_MS;
}

uint64_t offer_late_ms(const struct fleet_offer *o)
{
    return o->late_ms ? o->late_ms : FLEET_LATE_MS;
}

uint32_t offer_looks(const struct fleet_offer *o)
{
    return o && o->settle_ms == 0 ? 1 : 2;
}

/* A shortage of one type of machine says nothing about another type; the same holds for spot. */
static bool is_alike(const struct fleet_offer *a, const struct fleet_offer *b, enum provider_class fault)
{
    if (fault != PROVIDER_CLASS_CAPACITY && fault != PROVIDER_CLASS_QUOTA)
        return true;
    return a->spot == b->spot && (fault != PROVIDER_CLASS_CAPACITY || str_eq(a->type, b->type));
}

static bool is_within(const struct fleet_offer *a, const struct fleet_offer *failed, const struct fleet_block *b)
{
    const bool region = str_eq(a->region, failed->region);
    /* A smaller number of machines may be available when the larger was not. */
    if (a->nodes < failed->nodes && (b->fault == PROVIDER_CLASS_CAPACITY || b->fault == PROVIDER_CLASS_QUOTA))
        return false;
    if (b->scope == PROVIDER_SCOPE_RUN)
        return true;
    if (!str_eq(a->provider, failed->provider))
        return false;
    switch (b->scope) {
    case PROVIDER_SCOPE_NONE:
        return false;
    case PROVIDER_SCOPE_ZONE:
        return region && str_eq(a->zone, failed->zone) && is_alike(a, failed, b->fault);
    case PROVIDER_SCOPE_REGION:
        return region && is_alike(a, failed, b->fault);
    case PROVIDER_SCOPE_TYPE:
        return str_eq(a->type, failed->type) && a->spot == failed->spot;
    case PROVIDER_SCOPE_PROVIDER:
    case PROVIDER_SCOPE_RUN:
        return true;
    }
    return false;
}

/* first, since_ms: earlier failures do not count. */
static bool is_blocked(const struct fleet_ledger *l, const struct fleet_offer *o, uint32_t first, uint64_t since_ms)
{
    for (uint32_t i = first; i < l->block_count; i++) {
        const struct fleet_block *b = &l->blocks[i];
        if (b->time_ms >= since_ms && is_within(o, &l->wanted.offers[b->offer], b))
            return true;
    }
    return false;
}

static bool is_payable(const struct fleet_ledger *l, const struct fleet_offer *o, uint32_t nodes)
{
    return l->wanted.max_price == 0 || (!o->unpriced && fleet_rate(l) + o->price * nodes <= l->wanted.max_price);
}

uint32_t offer_next(const struct fleet_ledger *l, enum provider_class *ret_fault, const char **ret_text)
{
    for (uint32_t i = l->offer == FLEET_NONE ? 0 : l->offer + 1; i < l->wanted.offer_count; i++) {
        const struct fleet_offer *o = &l->wanted.offers[i];
        if (is_blocked(l, o, 0, 0))
            continue;
        if (is_payable(l, o, o->nodes))
            return i;
        *ret_fault = PROVIDER_CLASS_BUDGET;
        *ret_text = "no remaining offer is known to cost at most max_price";
    }
    const bool again = l->stage == FLEET_STAGE_RETREATING && l->again;
    return again && is_payable(l, &l->wanted.offers[l->offer], l->wanted.offers[l->offer].nodes) ? l->offer
                                                                                                 : FLEET_NONE;
}

bool offer_suits_slot(const struct fleet_ledger *l, uint32_t offer)
{
    const struct fleet_offer *a = &l->wanted.offers[offer], *own = &l->wanted.offers[l->offer];
    return str_eq(a->provider, own->provider) && str_eq(a->region, own->region) && str_eq(a->type, own->type);
}

static uint32_t next_for_slot(const struct fleet_ledger *l, uint32_t slot, uint32_t first, uint64_t since_ms)
{
    uint32_t place = 0; /* among the suitable ones: the cluster's own first, then the others in order */
    for (uint32_t n = 0; n <= l->wanted.offer_count; n++) {
        const uint32_t i = n == 0 ? l->offer : n - 1;
        if ((n > 0 && i == l->offer) || !offer_suits_slot(l, i) || place++ < l->slots[slot].tried)
            continue;
        const struct fleet_offer *o = &l->wanted.offers[i];
        if (!is_blocked(l, o, first, since_ms) && is_payable(l, o, 1))
            return i;
    }
    return FLEET_NONE;
}

/* If nothing else is left, offers are retried that failed before the replacement was requested. */
uint32_t offer_for_slot(const struct fleet_ledger *l, uint32_t slot, uint64_t wall_ms)
{
    const uint32_t offer = next_for_slot(l, slot, 0, wall_ms > FLEET_BLOCK_MS ? wall_ms - FLEET_BLOCK_MS : 0);
    return offer != FLEET_NONE ? offer : next_for_slot(l, slot, l->slots[slot].blocks, 0);
}
