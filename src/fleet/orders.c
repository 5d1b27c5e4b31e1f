/* The pass over creates: a create goes out once its intent is durable; if its outcome is unknown, its machines are
 * looked for in the list; it is closed when it can yield nothing more. */
#include "internal.h"

static void send(struct fleet *f, uint32_t number)
{
    const struct fleet_order *o = &f->ledger->orders[number];
    order_set(f, number, ORDER_SENT);
    f->orders[number].tries++;
    f->orders[number].awaited++;
    fleet_want(f, (struct fleet_effect){.kind = FLEET_EFFECT_CREATE, .order = o, .offer = order_offer(f->ledger, o)});
}

static void close_order(struct fleet *f, uint32_t number)
{
    const struct order_view *v = &f->orders[number];
    const bool none = v->fault == PROVIDER_CLASS_NONE;
    fleet_append(f, (struct fleet_event){
                        .type = FLEET_VOID,
                        .end = {.intent = f->ledger->orders[number].name,
                                .fault = none ? PROVIDER_CLASS_TRANSIENT : v->fault,
                                .scope = none ? PROVIDER_SCOPE_ZONE : v->scope,
                                .text = v->text ? v->text : "its outcome is not known, and nothing of it exists"}});
}

/* Nothing was sent, or it yielded nothing, through no fault of the offer. */
static void drop_order(struct fleet *f, uint32_t number)
{
    fleet_append(f, (struct fleet_event){.type = FLEET_VOID, .end = {.intent = f->ledger->orders[number].name}});
}

/* The request may have gone out, and its outcome is not known. */
static void doubt(struct fleet *f, uint32_t number, bool wanted)
{
    const struct fleet_order *o = &f->ledger->orders[number];
    const struct fleet_offer *offer = order_offer(f->ledger, o);
    struct order_view *v = &f->orders[number];
    const bool nothing = v->absences >= offer_looks(offer); /* it certainly made no more machines than the ledger has */
    const bool name = offer->idem == PROVIDER_IDEM_NAME, same = offer->idem == PROVIDER_IDEM_TOKEN || name;
    const bool again = wanted && !v->spent && o->machines == 0 && offer->idem != PROVIDER_IDEM_NONE;
    /* a create by an earlier process is looked for first; the provider may have forgotten its token, but not its
     * name */
    if (again && (nothing || (same && v->tries > 0) || (name && v->looked))) {
        if (!has_come(f, v->retry_ms))
            return;
        v->unsure = v->unsure && !nothing;
        send(f, number);
    } else if (nothing && wanted) {
        close_order(f, number);
    } else if (nothing) {
        drop_order(f, number);
    }
}

static void order_pass_one(struct fleet *f, uint32_t number)
{
    const struct fleet_order *o = &f->ledger->orders[number];
    struct order_view *v = &f->orders[number];
    const bool wanted = order_is_wanted(f->ledger, number);
    v->spent = v->spent || v->tries >= FLEET_TRIES_MAX ||
               f->now.mono_ms >= v->begun_ms + offer_ready_ms(order_offer(f->ledger, o));
    switch (v->state) {
    case ORDER_INTENDED:
        if (!wanted)
            drop_order(f, number);
        else if (is_durable(f, o->seq))
            send(f, number);
        break;
    case ORDER_WAITING:
        if (!wanted)
            drop_order(f, number);
        else if (v->spent)
            close_order(f, number);
        else if (has_come(f, v->retry_ms))
            send(f, number);
        break;
    case ORDER_SENT:
        if (!has_come(f, v->since_ms + FLEET_CREATE_MS))
            break;
        v->late_ms = f->now.mono_ms + offer_late_ms(order_offer(f->ledger, o));
        v->proof_ms = v->late_ms + order_offer(f->ledger, o)->settle_ms;
        v->retry_ms = f->now.mono_ms;
        v->unsure = true;
        order_set(f, number, ORDER_DOUBT);
        break;
    case ORDER_DOUBT:
        doubt(f, number, wanted);
        break;
    case ORDER_CLOSED:
        break;
    }
}

/* One request makes its machines once; an unknown second request might make them again. */
bool order_is_whole(const struct fleet *f, uint32_t number)
{
    const struct fleet_order *o = &f->ledger->orders[number];
    const struct order_view *v = &f->orders[number];
    return o->machines == o->count && v->tries == 1 && !v->inherited;
}

bool orders_are_settled(struct fleet *f)
{
    bool all = true;
    for (uint32_t i = 0; i < f->order_count; i++) {
        const struct order_view *v = &f->orders[i];
        if (!f->ledger->orders[i].closed || (v->awaited > 0 && !order_is_whole(f, i)))
            return false;
        all = (order_is_whole(f, i) || has_come(f, v->late_ms)) && all;
    }
    return all;
}

void orders_pass(struct fleet *f)
{
    for (uint32_t i = 0; i < f->order_count; i++)
        order_pass_one(f, i);
}
