/* The pass over the nodes of a cluster that was complete: a lost machine is reported, and replaced if that is
 * requested. The other nodes stay as they are. */
#include "internal.h"

static bool has_machine(const struct fleet_ledger *l, uint32_t slot)
{
    for (uint32_t i = 0; i < l->machine_count; i++) {
        const struct fleet_machine *m = &l->machines[i];
        if (m->slot == slot && m->state != FLEET_MACHINE_GONE && m->order != FLEET_NONE &&
            l->orders[m->order].attempt == l->attempt)
            return true;
    }
    return false;
}

static bool has_order(const struct fleet_ledger *l, uint32_t slot)
{
    const uint32_t order = l->slots[slot].order;
    return order != FLEET_NONE && !l->orders[order].closed;
}

static void tell(struct fleet *f, uint32_t slot, enum fleet_tell what)
{
    const struct fleet_slot *s = &f->ledger->slots[slot];
    fleet_want(f, (struct fleet_effect){.kind = FLEET_EFFECT_TELL,
                                        .tell = what,
                                        .slot = slot,
                                        .machine = s->machine == FLEET_NONE ? NULL : &f->ledger->machines[s->machine],
                                        .fault = s->fault,
                                        .scope = s->scope,
                                        .text = s->text});
}

/* The slot's old machine must be proven gone before a new one is rented. */
static void rent_anew(struct fleet *f, uint32_t slot)
{
    const struct fleet_slot *s = &f->ledger->slots[slot];
    if (has_machine(f->ledger, slot) || has_order(f->ledger, slot))
        return;
    const uint32_t offer = offer_for_slot(f->ledger, slot, f->now.wall_ms);
    if (offer != FLEET_NONE) {
        append_intent(f, offer, slot, 1);
        return;
    }
    fleet_append(f, (struct fleet_event){
                        .type = FLEET_UNREPLACED,
                        .end = {.slot = slot,
                                .fault = s->fault ? s->fault : PROVIDER_CLASS_BUDGET,
                                .scope = s->scope,
                                .text = s->fault ? s->text : "another machine would cost more than max_price"}});
    tell(f, slot, FLEET_TELL_UNREPLACED);
    f->slots[slot].told = FLEET_SLOT_LOST;
}

/* Limits how long a replacement may take to become ready. */
static void check_replacement(struct fleet *f, uint32_t slot)
{
    const struct fleet_slot *s = &f->ledger->slots[slot];
    const struct fleet_order *o = &f->ledger->orders[s->order];
    const struct fleet_machine *m = &f->ledger->machines[s->machine];
    if (!has_come(f, f->orders[s->order].begun_ms + offer_ready_ms(order_offer(f->ledger, o))))
        return;
    fleet_append(f, (struct fleet_event){.type = FLEET_RETURNING,
                                         .machine = {.provider = m->provider,
                                                     .id = m->id,
                                                     .fault = PROVIDER_CLASS_TRANSIENT,
                                                     .text = "it was not ready in time"}});
}

static void notice(struct fleet *f, uint32_t slot)
{
    const uint32_t machine = f->ledger->slots[slot].machine;
    const uint64_t at_ms = machine == FLEET_NONE ? 0 : f->ledger->machines[machine].notice_ms;
    if (at_ms == f->slots[slot].told_notice_ms)
        return;
    f->slots[slot].told_notice_ms = at_ms;
    if (at_ms)
        fleet_want(f, (struct fleet_effect){.kind = FLEET_EFFECT_TELL,
                                            .tell = FLEET_TELL_NOTICE,
                                            .slot = slot,
                                            .machine = &f->ledger->machines[machine],
                                            .at_ms = at_ms});
}

static void slot_pass(struct fleet *f, uint32_t slot)
{
    const enum fleet_slot_state state = f->ledger->slots[slot].state;
    notice(f, slot);
    switch (state) {
    case FLEET_SLOT_OPEN:
    case FLEET_SLOT_ORDERED:
    case FLEET_SLOT_READY:
        break;
    case FLEET_SLOT_MADE:
        check_replacement(f, slot);
        break;
    case FLEET_SLOT_LOST:
        if (f->slots[slot].told != FLEET_SLOT_LOST)
            tell(f, slot, FLEET_TELL_LOST);
        break;
    case FLEET_SLOT_ANEW:
        rent_anew(f, slot);
        break;
    }
    f->slots[slot].told = f->ledger->slots[slot].state == state ? state : f->slots[slot].told;
}

void slots_pass(struct fleet *f)
{
    for (uint32_t i = 0; i < f->ledger->slot_count && f->ledger->stage == FLEET_STAGE_COMPLETE; i++)
        slot_pass(f, i);
}
