/* The pass over the cluster as a whole: which offer is tried, when an attempt has failed, when the cluster is complete,
 * and when it ends. */
#include "internal.h"

#include <string.h>

void append_intent(struct fleet *f, uint32_t offer, uint32_t slot, uint32_t count)
{
    const struct fleet_ledger *l = f->ledger;
    char name[80], seed[100], token[65];
    snprintf(name, sizeof name, "rhrun-%s-%u", l->wanted.id, l->order_count + 1);
    snprintf(seed, sizeof seed, "%s:%u", l->wanted.id, l->order_count + 1);
    digest_sha256_hex(seed, strlen(seed), token);
    token[32] = 0;
    fleet_append(f, (struct fleet_event){.type = FLEET_INTENT,
                                         .intent = {.name = name,
                                                    .token = token,
                                                    .offer = offer,
                                                    .slot = slot,
                                                    .count = count,
                                                    .price = l->wanted.offers[offer].price,
                                                    .deadline_ms = l->wanted.deadline_ms}});
}

static void end(struct fleet *f, enum fleet_how how, enum provider_class fault, const char *text)
{
    fleet_append(f, (struct fleet_event){.type = FLEET_ENDING, .end = {.how = how, .fault = fault, .text = text}});
}

static void try_next(struct fleet *f)
{
    const struct fleet_ledger *l = f->ledger;
    enum provider_class fault = l->fault;
    const char *text = l->text;
    const uint32_t offer = offer_next(l, &fault, &text);
    if (offer == FLEET_NONE) {
        end(f, FLEET_HOW_FAILED, fault ? fault : PROVIDER_CLASS_CAPACITY, text);
        return;
    }
    const struct fleet_offer *o = &l->wanted.offers[offer];
    for (uint32_t slot = 0; slot < o->nodes; slot += o->gang_max)
        append_intent(f, offer, slot, o->nodes - slot < o->gang_max ? o->nodes - slot : o->gang_max);
    fleet_want(f, (struct fleet_effect){.kind = FLEET_EFFECT_TELL, .tell = FLEET_TELL_TRYING, .offer = o});
}

/* The attempt has failed: with a fault that fails the next ones too, or one that only excludes this offer. */
static void fail_attempt(struct fleet *f, enum provider_class fault, enum provider_scope scope, const char *text)
{
    const struct fleet_offer *o = &f->ledger->wanted.offers[f->ledger->offer];
    if (fault_is_final(fault, scope)) {
        end(f, FLEET_HOW_FAILED, fault, text);
        return;
    }
    const bool ended = fault == PROVIDER_CLASS_NONE && scope == PROVIDER_SCOPE_NONE && !f->ledger->repeated;
    fleet_append(f, (struct fleet_event){.type = FLEET_RETREAT,
                                         .end = {.fault = fault ? fault : PROVIDER_CLASS_CAPACITY,
                                                 .scope = ended   ? PROVIDER_SCOPE_NONE
                                                          : scope ? scope
                                                                  : PROVIDER_SCOPE_ZONE,
                                                 .text = text}});
    fleet_want(f, (struct fleet_effect){.kind = FLEET_EFFECT_TELL,
                                        .tell = FLEET_TELL_RETREAT,
                                        .offer = o,
                                        .fault = f->ledger->fault,
                                        .scope = scope ? scope : PROVIDER_SCOPE_ZONE,
                                        .text = f->ledger->text});
}

/* Ends the cluster if its own rules say so. */
static bool ends_by_rule(struct fleet *f)
{
    const struct fleet_ledger *l = f->ledger;
    const struct fleet_wanted *w = &l->wanted;
    const uint64_t wall = f->now.wall_ms, mono = f->now.mono_ms;
    if (w->deadline_ms && wall >= w->deadline_ms) {
        end(f, FLEET_HOW_DEADLINE, PROVIDER_CLASS_NONE, NULL);
        return true;
    }
    if (w->deadline_ms)
        wake_at(f, mono + (w->deadline_ms - wall));
    if (l->freed_ms == 0 || w->down == FLEET_DOWN_NEVER)
        return false;
    const uint64_t at = l->freed_ms + (w->down == FLEET_DOWN_IDLE ? w->idle_ms : 0);
    if (wall < at) {
        wake_at(f, mono + (at - wall));
        return false;
    }
    end(f, w->down == FLEET_DOWN_IDLE ? FLEET_HOW_IDLE : FLEET_HOW_FREED, PROVIDER_CLASS_NONE, NULL);
    return true;
}

static void renting(struct fleet *f)
{
    const struct fleet_ledger *l = f->ledger;
    uint32_t ready = 0;
    if (l->offer == FLEET_NONE) {
        try_next(f);
        return;
    }
    for (uint32_t i = 0; i < l->slot_count; i++) {
        const struct fleet_slot *s = &l->slots[i];
        ready += s->state == FLEET_SLOT_READY;
        if (s->state != FLEET_SLOT_LOST)
            continue;
        fail_attempt(f, s->fault, s->scope, s->text);
        return;
    }
    if (ready == l->slot_count)
        fleet_append(f, (struct fleet_event){.type = FLEET_COMPLETE});
    else if (has_come(f, f->stage_ms + offer_ready_ms(&l->wanted.offers[l->offer])))
        fail_attempt(f, PROVIDER_CLASS_TRANSIENT, PROVIDER_SCOPE_ZONE, "its machines were not ready in time");
}

static bool was_refused(struct fleet *f, const struct refusal *r)
{
    return r->times >= FLEET_REFUSALS && has_come(f, r->since_ms + FLEET_REFUSED_MS);
}

/* Whether all remaining machines are at providers that refuse the credentials, and have done so for a while. */
static bool is_refused(struct fleet *f)
{
    const struct fleet_ledger *l = f->ledger;
    bool any = false;
    for (uint32_t i = 0; i < f->machine_count; i++) {
        const struct fleet_machine *m = &l->machines[i];
        if (m->state == FLEET_MACHINE_GONE)
            continue;
        any = was_refused(f, &f->machines[i].refusal) || was_refused(f, &site_of(f, m->provider, m->region)->refusal);
        if (!any)
            return false;
    }
    for (uint32_t i = 0; i < f->order_count; i++) {
        const struct fleet_offer *o = order_offer(l, &l->orders[i]);
        if (l->orders[i].closed)
            continue;
        any = was_refused(f, &site_of(f, o->provider, o->region)->refusal);
        if (!any)
            return false;
    }
    for (uint32_t i = 0; !any && i < f->site_count; i++)
        any = !site_is_swept(f, &f->sites[i]) && was_refused(f, &f->sites[i].refusal);
    return any;
}

static void retreating(struct fleet *f)
{
    if (ledger_is_settled(f->ledger))
        try_next(f);
    else if (is_refused(f))
        end(f, FLEET_HOW_FAILED, PROVIDER_CLASS_TRANSIENT,
            "a machine of a failed attempt may still be there: the credentials are refused");
    else if (has_come(f, f->stage_ms + FLEET_RETURN_MS))
        end(f, FLEET_HOW_FAILED, PROVIDER_CLASS_TRANSIENT, "a machine of a failed attempt may still be there");
}

/* In time for the run to fetch its outputs. */
static void tell_deadline(struct fleet *f)
{
    const uint64_t at_ms = f->ledger->wanted.deadline_ms, wall = f->now.wall_ms;
    if (at_ms == 0 || f->told_deadline)
        return;
    if (at_ms > wall + FLEET_GRACE_MS) {
        wake_at(f, f->now.mono_ms + (at_ms - wall - FLEET_GRACE_MS));
        return;
    }
    f->told_deadline = true;
    fleet_want(f, (struct fleet_effect){
                      .kind = FLEET_EFFECT_TELL, .tell = FLEET_TELL_NOTICE, .slot = FLEET_NONE, .at_ms = at_ms});
}

/* Settles all intents so far at once. */
static void settle(struct fleet *f)
{
    const struct fleet_ledger *l = f->ledger;
    if (l->orders[l->order_count - 1].seq > l->settled_seq && orders_are_settled(f))
        fleet_append(f, (struct fleet_event){.type = FLEET_SETTLED});
}

static void complete(struct fleet *f)
{
    const struct fleet_ledger *l = f->ledger;
    tell_deadline(f);
    settle(f);
    if (f->told_complete || !is_durable(f, l->stage_seq))
        return;
    f->told_complete = true;
    fleet_want(f, (struct fleet_effect){
                      .kind = FLEET_EFFECT_TELL, .tell = FLEET_TELL_COMPLETE, .offer = &l->wanted.offers[l->offer]});
}

static void finish(struct fleet *f, uint32_t left)
{
    const struct fleet_ledger *l = f->ledger;
    f->finished = true;
    fleet_want(f, (struct fleet_effect){.kind = FLEET_EFFECT_TELL,
                                        .tell = FLEET_TELL_FINISHED,
                                        .how = l->how,
                                        .fault = l->fault,
                                        .text = l->text,
                                        .left = left});
}

static bool is_reached(const struct fleet *f, const struct site *p)
{
    for (uint32_t i = 0; i < f->order_count; i++) {
        const struct fleet_offer *o = order_offer(f->ledger, &f->ledger->orders[i]);
        const struct order_view *v = &f->orders[i];
        if ((v->left || v->state == ORDER_SENT || v->state == ORDER_DOUBT) && str_eq(o->provider, p->provider) &&
            str_eq(o->region, p->region))
            return true;
    }
    for (uint32_t i = 0; i < f->machine_count; i++)
        if (str_eq(f->ledger->machines[i].provider, p->provider) && str_eq(f->ledger->machines[i].region, p->region))
            return true;
    return false;
}

bool site_is_swept(const struct fleet *f, const struct site *p)
{
    return p->clean >= offer_looks(p->offer) || !is_reached(f, p);
}

static void tell_left(struct fleet *f, struct fleet_effect e)
{
    e.kind = FLEET_EFFECT_TELL;
    e.tell = FLEET_TELL_LEFT;
    e.text = f->ledger->wanted.id;
    fleet_want(f, e);
}

/* Time is up: machines that are not proven gone are reported, and stay in the ledger. */
static void give_up(struct fleet *f)
{
    const struct fleet_ledger *l = f->ledger;
    uint32_t left = 0;
    for (uint32_t i = 0; i < l->machine_count; i++) {
        const struct fleet_machine *m = &l->machines[i];
        const struct fleet_order *o = m->order == FLEET_NONE ? NULL : &l->orders[m->order];
        if (m->state == FLEET_MACHINE_GONE)
            continue;
        left++;
        tell_left(f, (struct fleet_effect){.machine = m,
                                           .order = o,
                                           .offer = o ? order_offer(l, o) : NULL,
                                           .provider = m->provider,
                                           .region = m->region});
    }
    for (uint32_t i = 0; i < l->order_count; i++) {
        const struct fleet_order *o = &l->orders[i];
        const struct fleet_offer *offer = order_offer(l, o);
        if (o->closed)
            continue;
        left++;
        tell_left(
            f, (struct fleet_effect){.order = o, .offer = offer, .provider = offer->provider, .region = offer->region});
    }
    for (uint32_t i = 0; left == 0 && i < f->site_count; i++)
        if (!site_is_swept(f, &f->sites[i]))
            tell_left(f, (struct fleet_effect){.provider = f->sites[i].provider, .region = f->sites[i].region});
    finish(f, left ? left : 1);
}

static void ending(struct fleet *f)
{
    bool over = ledger_is_settled(f->ledger);
    for (uint32_t i = 0; over && i < f->site_count; i++)
        over = site_is_swept(f, &f->sites[i]);
    if (over)
        fleet_append(f, (struct fleet_event){.type = FLEET_OVER});
    else if (has_come(f, f->stage_ms + FLEET_RETURN_MS) || is_refused(f))
        give_up(f);
}

void cluster_pass(struct fleet *f)
{
    const enum fleet_stage stage = f->ledger->stage;
    if ((stage == FLEET_STAGE_RENTING || stage == FLEET_STAGE_RETREATING || stage == FLEET_STAGE_COMPLETE) &&
        ends_by_rule(f))
        return;
    switch (stage) {
    case FLEET_STAGE_NONE:
        break;
    case FLEET_STAGE_RENTING:
        renting(f);
        break;
    case FLEET_STAGE_RETREATING:
        retreating(f);
        break;
    case FLEET_STAGE_COMPLETE:
        complete(f);
        break;
    case FLEET_STAGE_ENDING:
        ending(f);
        break;
    case FLEET_STAGE_OVER:
        if (is_durable(f, f->ledger->stage_seq))
            finish(f, 0);
        break;
    }
}
