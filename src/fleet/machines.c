/* The pass over machines: belief.c judges each by the ledger and the last list. */
#include "internal.h"

static enum entry entry_of(enum fleet_machine_state state)
{
    switch (state) {
    case FLEET_MACHINE_CREATED:
        return ENTRY_CREATED;
    case FLEET_MACHINE_READY:
        return ENTRY_READY;
    case FLEET_MACHINE_RETURNING:
        return ENTRY_RETURNING;
    case FLEET_MACHINE_GONE:
        return ENTRY_GONE;
    }
    return ENTRY_NONE;
}

/* Whether another machine that is not proven gone has, or last had, this address: then it is not known who answers
 * there. */
static bool is_shared(const struct fleet *f, uint32_t number, const char *address)
{
    const struct fleet_ledger *l = f->ledger;
    for (uint32_t i = 0; i < l->machine_count; i++)
        if (i != number && l->machines[i].state != FLEET_MACHINE_GONE &&
            (str_eq(l->machines[i].address, address) || str_eq(f->machines[i].address, address)))
            return true;
    return false;
}

static void meet(struct fleet *f, uint32_t number)
{
    const struct fleet_machine *m = &f->ledger->machines[number];
    struct machine_view *v = &f->machines[number];
    if (!v->address || is_shared(f, number, v->address) || !ask_may(f, &v->meet))
        return;
    ask_sent(f, &v->meet);
    v->meets = v->address;
    fleet_want(f, (struct fleet_effect){.kind = FLEET_EFFECT_MEET,
                                        .machine = m,
                                        .provider = m->provider,
                                        .region = m->region,
                                        .address = v->address,
                                        .slot = m->slot});
}

/* It is reported once this process has seen it, and its host key is durable in the ledger. */
static void keep(struct fleet *f, uint32_t number)
{
    const struct fleet_machine *m = &f->ledger->machines[number];
    struct machine_view *v = &f->machines[number];
    if (v->seen != SEEN_READY)
        return;
    if (v->address && !str_eq(v->address, m->address)) {
        meet(f, number);
        return;
    }
    if (v->told_seq == m->ready_seq || !is_durable(f, m->ready_seq))
        return;
    v->told_seq = m->ready_seq;
    fleet_want(
        f,
        (struct fleet_effect){
            .kind = FLEET_EFFECT_TELL, .tell = FLEET_TELL_READY, .machine = m, .slot = m->slot, .address = m->address});
}

static void give_back(struct fleet *f, uint32_t number)
{
    const struct fleet_machine *m = &f->ledger->machines[number];
    struct machine_view *v = &f->machines[number];
    if (!is_durable(f, m->returning_seq) || !ask_may(f, &v->delete))
        return;
    ask_sent(f, &v->delete);
    fleet_want(
        f,
        (struct fleet_effect){
            .kind = FLEET_EFFECT_DELETE, .machine = m, .provider = m->provider, .region = m->region, .slot = m->slot});
}

static void record(struct fleet *f, uint32_t number, enum fleet_event_type type, const char *text)
{
    const struct fleet_machine *m = &f->ledger->machines[number];
    const struct machine_view *v = &f->machines[number];
    fleet_append(
        f, (struct fleet_event){
               .type = type,
               .machine = {.provider = m->provider, .id = m->id, .fault = v->fault, .scope = v->scope, .text = text}});
}

/* Whether the provider reports a price with which the cluster costs more than max_price; then the machine is given
 * back. A machine in use stays, because a spot machine's price may change by then. */
static bool is_too_dear(struct fleet *f, uint32_t number)
{
    const struct fleet_ledger *l = f->ledger;
    const struct fleet_machine *m = &l->machines[number];
    struct machine_view *v = &f->machines[number];
    const uint64_t known = machine_price(l, m), price = v->price ? v->price : known;
    if (m->state != FLEET_MACHINE_CREATED || m->order == FLEET_NONE || price <= l->orders[m->order].price)
        return false;
    const bool over = l->wanted.max_price && fleet_rate(l) - known + price > l->wanted.max_price;
    if (over) {
        struct buf text = {0};
        buf_puts(&text, "the provider asks ");
        put_hourly(&text, price);
        buf_printf(&text, " for %.100s, which is more than max_price allows", m->id);
        v->fault = PROVIDER_CLASS_CAPACITY; /* there is none at the offer's price */
        v->scope = PROVIDER_SCOPE_REGION;
        record(f, number, FLEET_RETURNING, text.data);
        buf_free(&text);
    } else if (!v->told_dearer && price / 101 > l->orders[m->order].price / 100) { /* not merely rounded */
        fleet_want(f, (struct fleet_effect){.kind = FLEET_EFFECT_TELL,
                                            .tell = FLEET_TELL_DEARER,
                                            .machine = m,
                                            .offer = order_offer(l, &l->orders[m->order]),
                                            .price = price,
                                            .slot = m->slot});
    }
    v->told_dearer = true;
    return over;
}

static const char *why_gone(const struct fleet *f, uint32_t number)
{
    const struct fleet_machine *m = &f->ledger->machines[number];
    if (m->state == FLEET_MACHINE_RETURNING)
        return NULL;
    if (m->state == FLEET_MACHINE_CREATED && m->order != FLEET_NONE && f->orders[m->order].text)
        return f->orders[m->order].text; /* the fault of a later step of its create */
    return m->notice_ms ? "the provider took it back" : "it ended by itself";
}

static void machine_pass_one(struct fleet *f, uint32_t number)
{
    const struct fleet_machine *m = &f->ledger->machines[number];
    const bool wanted = machine_is_wanted(f->ledger, number);
    const struct machine_view *v = &f->machines[number];
    const uint32_t facts = (v->stranger ? 0u : (uint32_t)OF_OURS) | (wanted ? (uint32_t)OF_WANTED : 0u);
    if (wanted && is_too_dear(f, number))
        return;
    switch (machine_belief(entry_of(m->state), v->seen, facts)) {
    case BELIEF_LEAVE:
    case BELIEF_ADOPT:
    case BELIEF_WAIT:
        break;
    case BELIEF_MEET:
        meet(f, number);
        break;
    case BELIEF_KEEP:
        keep(f, number);
        break;
    case BELIEF_RETURN:
        record(f, number, FLEET_RETURNING, wanted ? "it does not run any more" : NULL);
        break;
    case BELIEF_DELETE:
        give_back(f, number);
        break;
    case BELIEF_GONE:
        record(f, number, FLEET_GONE, why_gone(f, number));
        break;
    }
}

void machines_pass(struct fleet *f)
{
    for (uint32_t i = 0; i < f->machine_count; i++)
        machine_pass_one(f, i);
}
