/* fleet_apply: an event changes the ledger, or is refused because it cannot follow. Each function first checks
 * everything and then changes, so a refused event leaves the ledger unchanged. */
#include "internal.h"

#include <string.h>

static int refuse(const struct fleet_event *e, struct error *err, const char *why)
{
    return error_set(err, ERROR_IO,
                     "event %llu of the cluster's ledger, \"%s\", does not follow from those before it: %s",
                     (unsigned long long)e->seq, fleet_event_name(e->type), why);
}

static void *grown(void *items, uint32_t count, uint32_t *cap, size_t size)
{
    if (count < *cap)
        return items;
    *cap = *cap ? 2 * *cap : 16;
    return xreallocarray(items, *cap, size);
}

static void set_stage(struct fleet_ledger *l, enum fleet_stage to, const struct fleet_event *e)
{
    l->stage = to;
    l->stage_seq = e->seq;
}

static void slot_lost(struct fleet_slot *s, enum provider_class fault, enum provider_scope scope, const char *text)
{
    s->state = FLEET_SLOT_LOST;
    s->fault = fault;
    s->scope = scope;
    s->text = text;
}

static void block(struct fleet_ledger *l, const struct fleet_event *e, uint32_t offer, enum provider_class fault,
                  enum provider_scope scope)
{
    if (scope == PROVIDER_SCOPE_NONE || offer == FLEET_NONE)
        return;
    l->blocks = grown(l->blocks, l->block_count, &l->block_cap, sizeof *l->blocks);
    l->blocks[l->block_count++] = (struct fleet_block){offer, fault, scope, e->time_ms};
}

static int wanted(struct fleet_ledger *l, const struct fleet_event *e, struct error *err)
{
    const struct fleet_wanted *w = &e->wanted;
    if (!stage_may(l->stage, FLEET_STAGE_RENTING) || fleet_wanted_check(w, err) < 0)
        return refuse(e, err, "there is a wish already, or this one is invalid");
    struct fleet_offer *offers = arena_array(l->arena, w->offer_count, sizeof *offers);
    for (uint32_t i = 0; i < w->offer_count; i++) {
        offers[i] = w->offers[i];
        offers[i].provider = arena_strdup(l->arena, offers[i].provider);
        offers[i].region = arena_strdup(l->arena, offers[i].region);
        offers[i].zone = arena_strdup(l->arena, offers[i].zone);
        offers[i].type = arena_strdup(l->arena, offers[i].type);
        offers[i].gpu = arena_strdup(l->arena, offers[i].gpu);
    }
    l->wanted = *w;
    l->wanted.offers = offers;
    l->wanted.id = arena_strdup(l->arena, w->id);
    l->wanted.name = arena_strdup(l->arena, w->name);
    l->wanted.owner = arena_strdup(l->arena, w->owner);
    l->wanted.what = arena_strdup(l->arena, w->what);
    l->wanted.image = arena_strdup(l->arena, w->image);
    l->wanted.user = arena_strdup(l->arena, w->user);
    set_stage(l, FLEET_STAGE_RENTING, e);
    return 0;
}

/* ---- intents ---- */

static void begin_attempt(struct fleet_ledger *l, uint32_t offer, const struct fleet_event *e)
{
    l->repeated = l->repeated || offer == l->offer;
    l->offer = offer;
    l->slot_count = l->wanted.offers[offer].nodes;
    l->slots = arena_array(l->arena, l->slot_count, sizeof *l->slots);
    for (uint32_t i = 0; i < l->slot_count; i++)
        l->slots[i].machine = l->slots[i].order = FLEET_NONE;
    if (l->stage != FLEET_STAGE_RENTING)
        set_stage(l, FLEET_STAGE_RENTING, e);
}

/* Whether this intent begins an attempt. */
static bool begins(const struct fleet_ledger *l, uint32_t offer)
{
    return l->stage == FLEET_STAGE_RETREATING ? offer > l->offer || (l->again && offer == l->offer)
                                              : l->stage == FLEET_STAGE_RENTING && l->offer == FLEET_NONE;
}

/* NULL, or why the intent does not fit. */
static const char *misfit(const struct fleet_ledger *l, const struct fleet_event *e)
{
    const uint32_t offer = e->intent.offer, slot = e->intent.slot, count = e->intent.count;
    if (offer >= l->wanted.offer_count || l->order_count >= FLEET_ORDERS_MAX ||
        ledger_order(l, e->intent.name) != FLEET_NONE)
        return "there is no such offer, or its name is taken";
    const bool new = begins(l, offer), replaces = l->stage == FLEET_STAGE_COMPLETE;
    if (!new && !replaces && (l->stage != FLEET_STAGE_RENTING || offer != l->offer))
        return "it is not the offer's turn";
    const uint32_t slots = new ? l->wanted.offers[offer].nodes : l->slot_count;
    if (count == 0 || count > slots || slot > slots - count || (replaces && count != 1))
        return "there are no such nodes";
    for (uint32_t s = slot; s < slot + count && !new; s++)
        if (!slot_may(l->slots[s].state, FLEET_SLOT_ORDERED) || (replaces && l->slots[s].state != FLEET_SLOT_ANEW))
            return "a node of it has a machine";
    return NULL;
}

/* How many of the slot's offers have been tried once this one has. */
static uint32_t position(const struct fleet_ledger *l, uint32_t offer)
{
    uint32_t before = 1;
    for (uint32_t i = 0; i <= offer && offer != l->offer; i++)
        before += i != l->offer && offer_suits_slot(l, i);
    return before;
}

static int intent(struct fleet_ledger *l, const struct fleet_event *e, struct error *err)
{
    const char *why = misfit(l, e);
    if (why)
        return refuse(e, err, why);
    const uint32_t number = l->order_count;
    const bool replaces = l->stage == FLEET_STAGE_COMPLETE;
    if (begins(l, e->intent.offer))
        begin_attempt(l, e->intent.offer, e);
    l->orders = grown(l->orders, number, &l->order_cap, sizeof *l->orders);
    l->orders[l->order_count++] = (struct fleet_order){
        .name = arena_strdup(l->arena, e->intent.name),
        .token = arena_strdup(l->arena, e->intent.token),
        .offer = e->intent.offer,
        .slot = e->intent.slot,
        .count = e->intent.count,
        .attempt = l->attempt,
        .price = e->intent.price,
        .deadline_ms = e->intent.deadline_ms,
        .seq = e->seq,
        .time_ms = e->time_ms,
        .replaces = replaces,
    };
    for (uint32_t s = e->intent.slot; s < e->intent.slot + e->intent.count; s++) {
        l->slots[s].tried = replaces ? position(l, e->intent.offer) : 0;
        l->slots[s].state = FLEET_SLOT_ORDERED;
        l->slots[s].order = number;
        l->slots[s].machine = FLEET_NONE;
    }
    return 0;
}

/* Whether another offer may succeed after this fault. */
static bool is_worth_another(enum provider_class fault, enum provider_scope scope)
{
    return fault != PROVIDER_CLASS_NONE && !fault_is_final(fault, scope);
}

static int voided(struct fleet_ledger *l, const struct fleet_event *e, struct error *err)
{
    const uint32_t number = ledger_order(l, e->end.intent);
    if (number == FLEET_NONE || l->orders[number].closed)
        return refuse(e, err, "there is no such intent, or it is closed");
    struct fleet_order *o = &l->orders[number];
    const char *text = arena_strdup(l->arena, e->end.text);
    o->closed = true;
    o->closed_ms = e->time_ms;
    o->fault = e->end.fault;
    o->scope = e->end.scope;
    block(l, e, o->offer, o->fault, o->scope);
    for (uint32_t s = o->slot; s < o->slot + o->count && o->attempt == l->attempt; s++) {
        struct fleet_slot *slot = &l->slots[s];
        if (slot->order != number || slot->state != FLEET_SLOT_ORDERED)
            continue;
        slot_lost(slot, o->fault, o->scope, text);
        if (o->replaces && is_worth_another(o->fault, o->scope))
            slot->state = FLEET_SLOT_ANEW;
    }
    return 0;
}

/* ---- machines ---- */

static int created(struct fleet_ledger *l, const struct fleet_event *e, struct error *err)
{
    if (l->stage == FLEET_STAGE_NONE || l->machine_count >= FLEET_ORDERS_MAX ||
        ledger_machine(l, e->created.provider, e->created.id) != FLEET_NONE)
        return refuse(e, err, "the machine is there already");
    const uint32_t number = l->machine_count, order = ledger_order(l, e->created.intent);
    struct fleet_machine m = {
        .provider = arena_strdup(l->arena, e->created.provider),
        .region = arena_strdup(l->arena, e->created.region),
        .id = arena_strdup(l->arena, e->created.id),
        .name = arena_strdup(l->arena, e->created.intent),
        .order = order,
        .slot = FLEET_NONE,
        .price = e->created.price,
        .created_ms = e->time_ms,
    };
    struct fleet_order *o = order == FLEET_NONE ? NULL : &l->orders[order];
    if (o && !o->closed) {
        const uint32_t slot = o->slot + o->machines++;
        o->closed = o->machines == o->count;
        o->closed_ms = e->time_ms;
        if (o->attempt == l->attempt && l->slots[slot].order == order && l->slots[slot].state == FLEET_SLOT_ORDERED) {
            m.slot = slot;
            l->slots[slot].machine = number;
            l->slots[slot].state = FLEET_SLOT_MADE;
        }
    }
    l->machines = grown(l->machines, number, &l->machine_cap, sizeof *l->machines);
    l->machines[l->machine_count++] = m;
    return 0;
}

static struct fleet_slot *slot_of(struct fleet_ledger *l, uint32_t machine)
{
    const uint32_t slot = l->machines[machine].slot;
    return slot < l->slot_count && l->slots[slot].machine == machine ? &l->slots[slot] : NULL;
}

static int ready(struct fleet_ledger *l, struct fleet_machine *m, const struct fleet_event *e, struct error *err)
{
    struct fleet_slot *slot = slot_of(l, (uint32_t)(m - l->machines));
    if (!machine_may(m->state, FLEET_MACHINE_READY))
        return refuse(e, err, "the machine is being given back");
    if (m->state != FLEET_MACHINE_READY)
        m->ready_ms = e->time_ms;
    m->state = FLEET_MACHINE_READY;
    m->ready_seq = e->seq;
    m->price = e->machine.price ? e->machine.price : m->price;
    m->address = arena_strdup(l->arena, e->machine.address);
    m->host_key = arena_strdup(l->arena, e->machine.host_key);
    if (slot && slot->state == FLEET_SLOT_MADE)
        slot->state = FLEET_SLOT_READY;
    return 0;
}

static int leaves(struct fleet_ledger *l, struct fleet_machine *m, const struct fleet_event *e, struct error *err)
{
    const enum fleet_machine_state to = e->type == FLEET_GONE ? FLEET_MACHINE_GONE : FLEET_MACHINE_RETURNING;
    struct fleet_slot *slot = slot_of(l, (uint32_t)(m - l->machines));
    if (!machine_may(m->state, to))
        return refuse(e, err, "the machine is on its way already");
    m->state = to;
    if (!m->text || e->machine.text)
        m->text = arena_strdup(l->arena, e->machine.text);
    m->gone_ms = to == FLEET_MACHINE_GONE ? e->time_ms : 0;
    if (to == FLEET_MACHINE_RETURNING)
        m->returning_seq = e->seq;
    if (slot && (slot->state == FLEET_SLOT_MADE || slot->state == FLEET_SLOT_READY))
        slot_lost(slot, e->machine.fault, e->machine.scope, m->text);
    return 0;
}

static int machine(struct fleet_ledger *l, const struct fleet_event *e, struct error *err)
{
    const uint32_t number = ledger_machine(l, e->machine.provider, e->machine.id);
    if (number == FLEET_NONE)
        return refuse(e, err, "there is no such machine");
    struct fleet_machine *m = &l->machines[number];
    if (e->type == FLEET_READY)
        return ready(l, m, e, err);
    if (e->type != FLEET_NOTICED)
        return leaves(l, m, e, err);
    m->notice_ms = e->machine.at_ms;
    return 0;
}

/* ---- the cluster ---- */

static int retreat(struct fleet_ledger *l, const struct fleet_event *e, struct error *err)
{
    if (!stage_may(l->stage, FLEET_STAGE_RETREATING) || l->offer == FLEET_NONE)
        return refuse(e, err, "nothing was tried");
    block(l, e, l->offer, e->end.fault, e->end.scope);
    l->attempt++;
    l->again = e->end.scope == PROVIDER_SCOPE_NONE && !l->repeated;
    l->fault = e->end.fault;
    l->text = arena_strdup(l->arena, e->end.text);
    l->slot_count = 0;
    set_stage(l, FLEET_STAGE_RETREATING, e);
    return 0;
}

static int complete(struct fleet_ledger *l, const struct fleet_event *e, struct error *err)
{
    bool all = stage_may(l->stage, FLEET_STAGE_COMPLETE) && l->slot_count > 0;
    for (uint32_t i = 0; all && i < l->slot_count; i++)
        all = l->slots[i].state == FLEET_SLOT_READY;
    if (!all)
        return refuse(e, err, "a node is not ready");
    set_stage(l, FLEET_STAGE_COMPLETE, e);
    return 0;
}

static int replace(struct fleet_ledger *l, const struct fleet_event *e, struct error *err)
{
    const bool gives_up = e->type == FLEET_UNREPLACED;
    const uint32_t number = gives_up ? e->end.slot : e->replace.slot;
    const enum fleet_slot_state to = gives_up ? FLEET_SLOT_LOST : FLEET_SLOT_ANEW;
    if (l->stage != FLEET_STAGE_COMPLETE || number >= l->slot_count || !slot_may(l->slots[number].state, to))
        return refuse(e, err, "no machine of that node can be replaced");
    struct fleet_slot *slot = &l->slots[number];
    if (gives_up) {
        slot_lost(slot, e->end.fault, e->end.scope, arena_strdup(l->arena, e->end.text));
        return 0;
    }
    slot->state = to;
    slot->tried = 0;
    slot->blocks = l->block_count;
    slot->fault = PROVIDER_CLASS_NONE;
    slot->text = arena_strdup(l->arena, e->replace.text);
    return 0;
}

static int ends(struct fleet_ledger *l, const struct fleet_event *e, struct error *err)
{
    const enum fleet_stage to = e->type == FLEET_OVER ? FLEET_STAGE_OVER : FLEET_STAGE_ENDING;
    if (!stage_may(l->stage, to))
        return refuse(e, err, "it is not due now");
    if (to == FLEET_STAGE_ENDING) {
        l->how = e->end.how;
        l->fault = e->end.fault;
        l->text = arena_strdup(l->arena, e->end.text);
    }
    set_stage(l, to, e);
    return 0;
}

static int settled(struct fleet_ledger *l, const struct fleet_event *e, struct error *err)
{
    bool all = l->stage == FLEET_STAGE_COMPLETE;
    for (uint32_t i = 0; all && i < l->order_count; i++)
        all = l->orders[i].closed;
    if (!all)
        return refuse(e, err, "the cluster is not complete, or something may come of an intent");
    l->settled_seq = e->seq;
    l->settled_ms = e->time_ms;
    return 0;
}

static int held(struct fleet_ledger *l, const struct fleet_event *e, struct error *err)
{
    if (l->stage == FLEET_STAGE_NONE)
        return refuse(e, err, "nothing is wanted");
    l->held_by = e->type == FLEET_HELD ? arena_strdup(l->arena, e->held.by) : NULL;
    l->freed_ms = e->type == FLEET_HELD ? 0 : e->time_ms;
    return 0;
}

static int apply(struct fleet_ledger *l, const struct fleet_event *e, struct error *err)
{
    switch (e->type) {
    case FLEET_WANTED:
        return wanted(l, e, err);
    case FLEET_INTENT:
        return intent(l, e, err);
    case FLEET_VOID:
        return voided(l, e, err);
    case FLEET_CREATED:
        return created(l, e, err);
    case FLEET_READY:
    case FLEET_RETURNING:
    case FLEET_GONE:
    case FLEET_NOTICED:
        return machine(l, e, err);
    case FLEET_RETREAT:
        return retreat(l, e, err);
    case FLEET_COMPLETE:
        return complete(l, e, err);
    case FLEET_REPLACE:
    case FLEET_UNREPLACED:
        return replace(l, e, err);
    case FLEET_HELD:
    case FLEET_FREED:
        return held(l, e, err);
    case FLEET_ENDING:
    case FLEET_OVER:
        return ends(l, e, err);
    case FLEET_SETTLED:
        return settled(l, e, err);
    }
    return refuse(e, err, "there is no such event");
}

int fleet_apply(struct fleet_ledger *l, const struct fleet_event *e, struct error *err)
{
    if (e->seq != l->seq + 1)
        return refuse(e, err, "one is missing before it, or it is there twice");
    if (apply(l, e, err) < 0)
        return -1;
    l->seq = e->seq;
    return 0;
}
