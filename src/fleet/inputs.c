/* Handles inputs: an input changes what this process has seen, and becomes an event if it matters later. The passes
 * decide what follows. */
#include "internal.h"

#include <string.h>

enum { ITEMS_MAX = 10000 /* of one list */ };

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- creates ---- */

static void take_ids(struct fleet *f, uint32_t number, const struct fleet_input *in)
{
    const struct fleet_order *o = &f->ledger->orders[number];
    const struct fleet_offer *offer = order_offer(f->ledger, o);
    const char *name = o->name; /* the array may move when it grows */
    for (uint32_t i = 0; i < in->id_count; i++) {
        if (!text_is_plain(in->ids[i]) || ledger_machine(f->ledger, offer->provider, in->ids[i]) != FLEET_NONE)
            continue;
        fleet_append(f, (struct fleet_event){.type = FLEET_CREATED,
                                             .created = {.provider = offer->provider,
                                                         .region = offer->region,
                                                         .id = in->ids[i],
                                                         .intent = name,
                                                         .price = in->prices ? in->prices[i] : 0}});
    }
}

/* The answer names fewer machines than were ordered. A certain fault closes the order, or makes it be sent again; in
 * all other cases the list decides. */
static void take_refusal(struct fleet *f, uint32_t number, const struct fleet_input *in)
{
    struct order_view *v = &f->orders[number];
    const bool sure = !v->unsure && in->id_count == 0;
    const uint64_t pause = pause_ms(v->tries, in->retry_after_ms);
    v->retry_ms = f->now.mono_ms + pause;
    if (sure && (in->fault == PROVIDER_CLASS_THROTTLED || in->fault == PROVIDER_CLASS_TRANSIENT)) {
        order_set(f, number, ORDER_WAITING);
        if (v->tries < FLEET_TRIES_MAX)
            fleet_want(f, (struct fleet_effect){.kind = FLEET_EFFECT_TELL,
                                                .tell = FLEET_TELL_WAITING,
                                                .order = &f->ledger->orders[number],
                                                .fault = v->fault,
                                                .text = v->text,
                                                .wait_ms = pause});
        else
            v->spent = true;
    } else if (sure && in->fault != PROVIDER_CLASS_NONE && in->fault != PROVIDER_CLASS_EXISTS) {
        fleet_append(f, (struct fleet_event){.type = FLEET_VOID,
                                             .end = {.intent = f->ledger->orders[number].name,
                                                     .fault = v->fault,
                                                     .scope = v->scope,
                                                     .text = v->text}});
    } else {
        v->spent = (in->fault != PROVIDER_CLASS_TRANSIENT && in->fault != PROVIDER_CLASS_THROTTLED) || in->id_count > 0;
        order_set(f, number, ORDER_DOUBT);
    }
}

/* All machines exist, but a later step of the create was refused for good: they will never be usable. A fault that may
 * be temporary is retried with each list (rent). */
static void give_up_made(struct fleet *f, uint32_t number, const struct fleet_input *in)
{
    const bool passes = in->fault == PROVIDER_CLASS_NONE || in->fault == PROVIDER_CLASS_TRANSIENT ||
                        in->fault == PROVIDER_CLASS_THROTTLED || in->fault == PROVIDER_CLASS_EXISTS ||
                        in->fault == PROVIDER_CLASS_NOTFOUND;
    for (uint32_t i = 0; i < f->ledger->machine_count && !passes; i++) {
        const struct fleet_machine *m = &f->ledger->machines[i];
        if (m->order != number || m->state != FLEET_MACHINE_CREATED)
            continue;
        fleet_append(
            f,
            (struct fleet_event){
                .type = FLEET_RETURNING,
                .machine = {
                    .provider = m->provider, .id = m->id, .fault = in->fault, .scope = in->scope, .text = in->text}});
    }
}

static void take_created(struct fleet *f, const struct fleet_input *in)
{
    const uint32_t number = ledger_order(f->ledger, in->name);
    if (number == FLEET_NONE)
        return;
    const struct fleet_offer *offer = order_offer(f->ledger, &f->ledger->orders[number]);
    const bool awaited = f->orders[number].state == ORDER_SENT;
    take_ids(f, number, in);
    struct order_view *v = &f->orders[number];
    site_of_order(f, number)->changed = true;
    v->awaited -= v->awaited > 0;
    v->text = arena_strdup(f->ledger->arena, in->text);
    v->unsure = v->unsure || in->unsure;
    v->left = v->left || !in->unsent;
    v->late_ms = later(v->late_ms, f->now.mono_ms + (in->unsure ? offer_late_ms(offer) : 0));
    v->proof_ms = later(v->proof_ms, v->late_ms + offer->settle_ms);
    if (f->ledger->orders[number].machines == f->ledger->orders[number].count)
        give_up_made(f, number, in);
    if (!awaited || v->state != ORDER_SENT)
        return;
    v->fault = in->fault == PROVIDER_CLASS_NONE ? PROVIDER_CLASS_CAPACITY : in->fault;
    v->scope = in->scope == PROVIDER_SCOPE_NONE ? PROVIDER_SCOPE_REGION : in->scope;
    take_refusal(f, number, in);
}

/* ---- lists ---- */

static enum seen seen_of(enum provider_state shown)
{
    switch (shown) {
    case PROVIDER_STATE_COMING:
        return SEEN_COMING;
    case PROVIDER_STATE_READY:
        return SEEN_READY;
    case PROVIDER_STATE_FAILED:
        return SEEN_FAILED;
    case PROVIDER_STATE_GONE:
        return SEEN_ENDED;
    }
    return SEEN_UNKNOWN;
}

static bool is_whole(const struct fleet_input *in)
{
    if (in->item_count > ITEMS_MAX)
        return false;
    for (size_t i = 0; i < in->item_count; i++)
        if (!text_is_plain(in->items[i].id))
            return false;
    return true;
}

/* Its number in the ledger, which may be new; FLEET_NONE: it is not ours. */
static uint32_t adopted(struct fleet *f, const struct site *p, const struct fleet_item *item)
{
    const char *provider = p->provider;
    const bool ours = str_eq(item->run, f->ledger->wanted.id);
    const uint32_t known = ledger_machine(f->ledger, provider, item->id);
    const enum belief b = machine_belief(ENTRY_NONE, seen_of(item->state), ours ? OF_OURS : 0);
    if (known != FLEET_NONE || b != BELIEF_ADOPT || f->ledger->machine_count >= FLEET_ORDERS_MAX)
        return known;
    const char *name = item->name ? item->name : "";
    const uint32_t order = ledger_order(f->ledger, name);
    const char *region = order != FLEET_NONE ? order_offer(f->ledger, &f->ledger->orders[order])->region
                         : item->region      ? item->region
                                             : p->region;
    if (order != FLEET_NONE)
        f->orders[order].absences = 0;
    fleet_append(f, (struct fleet_event){.type = FLEET_CREATED,
                                         .created = {.provider = provider,
                                                     .region = region,
                                                     .id = item->id,
                                                     .intent = name,
                                                     .found = true,
                                                     .price = item->price}});
    return f->ledger->machine_count - 1;
}

static void see_item(struct fleet *f, uint32_t machine, const struct fleet_item *item, uint64_t number)
{
    struct machine_view *v = &f->machines[machine];
    const bool ours = str_eq(item->run, f->ledger->wanted.id);
    v->seen = ours ? seen_of(item->state) : SEEN_UNKNOWN;
    v->stranger = !ours;
    v->absences = 0;
    v->listed = number;
    v->fault = item->fault;
    v->scope = item->scope;
    v->price = item->price;
    if (!str_eq(v->address, item->address))
        v->address = arena_strdup(f->ledger->arena, item->address);
}

static void see_absent(struct fleet *f, const struct site *p)
{
    for (uint32_t i = 0; i < f->machine_count; i++) {
        const struct fleet_machine *m = &f->ledger->machines[i];
        struct machine_view *v = &f->machines[i];
        if (v->listed == p->number || v->stranger || !str_eq(m->provider, p->provider) || !str_eq(m->region, p->region))
            continue;
        v->absences = p->look.sent_ms >= v->proof_ms ? v->absences + 1 : 0;
        v->seen = v->absences >= offer_looks(p->offer) ? SEEN_ABSENT : SEEN_UNKNOWN;
    }
}

/* For orders in doubt: this list would have shown more of their machines, if there were any. */
static void see_nothing_more(struct fleet *f, const struct site *p, const uint32_t *machines_before)
{
    for (uint32_t i = 0; i < f->order_count; i++) {
        const struct fleet_order *o = &f->ledger->orders[i];
        const struct fleet_offer *offer = order_offer(f->ledger, o);
        struct order_view *v = &f->orders[i];
        if (v->state != ORDER_DOUBT || !str_eq(offer->provider, p->provider) || !str_eq(offer->region, p->region))
            continue;
        v->looked = true;
        v->absences = o->machines == machines_before[i] && p->look.sent_ms >= v->proof_ms ? v->absences + 1 : 0;
        f->decided++;
    }
}

static uint32_t *count_machines(struct fleet *f)
{
    uint32_t *counts = xcalloc(f->order_count + 1u, sizeof *counts);
    for (uint32_t i = 0; i < f->order_count; i++)
        counts[i] = f->ledger->orders[i].machines;
    return counts;
}

/* Waiting helps against temporary faults, but not against refused credentials. */
static void note_refusal(const struct fleet *f, enum provider_class fault, struct refusal *r)
{
    if (fault != PROVIDER_CLASS_AUTH)
        *r = (struct refusal){0};
    else if (r->times++ == 0)
        r->since_ms = f->now.mono_ms;
}

static void take_listed(struct fleet *f, const struct fleet_input *in)
{
    uint32_t at = 0, live = 0;
    while (at < f->site_count && (f->sites[at].look.state != ASK_SENT || f->sites[at].number != in->number))
        at++;
    if (at == f->site_count)
        return;
    note_refusal(f, in->fault, &f->sites[at].refusal);
    if (in->fault != PROVIDER_CLASS_NONE || !is_whole(in)) {
        f->sites[at].clean = 0;
        ask_answered(f, &f->sites[at].look, false, in->retry_after_ms);
        return;
    }
    CLEANUP(cleanup_free) uint32_t *before = count_machines(f);
    for (size_t i = 0; i < in->item_count; i++) {
        const struct fleet_item *item = &in->items[i];
        const uint32_t machine = adopted(f, &f->sites[at], item);
        live += str_eq(item->run, f->ledger->wanted.id) && item->state != PROVIDER_STATE_GONE;
        if (machine != FLEET_NONE)
            see_item(f, machine, item, in->number);
    }
    struct site *p = &f->sites[at];
    see_absent(f, p);
    see_nothing_more(f, p, before);
    p->clean = live == 0 && p->look.sent_ms >= site_quiet_ms(f, p) ? p->clean + 1 : 0;
    ask_answered(f, &p->look, true, 0);
}

/* ---- machines ---- */

static void take_deleted(struct fleet *f, const struct fleet_input *in)
{
    const uint32_t number = ledger_machine(f->ledger, in->provider, in->id);
    if (number == FLEET_NONE || f->machines[number].delete.state != ASK_SENT)
        return;
    const struct fleet_machine *m = &f->ledger->machines[number];
    struct machine_view *v = &f->machines[number];
    struct site *p = site_of(f, m->provider, m->region);
    p->changed = true;
    note_refusal(f, in->fault, &v->refusal);
    if (in->fault == PROVIDER_CLASS_NONE) {
        ask_answered(f, &v->delete, true, FLEET_DELETE_MS);
    } else if (in->fault == PROVIDER_CLASS_NOTFOUND) {
        v->absences += v->delete.sent_ms >= v->proof_ms;
        if (v->absences >= offer_looks(p->offer))
            v->seen = SEEN_ABSENT;
        ask_answered(f, &v->delete, true, offer_poll_ms(p->offer));
    } else {
        ask_answered(f, &v->delete, false, in->retry_after_ms);
    }
}

/* Whether a machine of another create has this key; machines of one create may share a key. */
static bool is_anothers_key(const struct fleet_ledger *l, uint32_t machine, const char *key)
{
    const struct fleet_machine *m = &l->machines[machine];
    if (m->host_key && !str_eq(m->host_key, key))
        return true;
    for (uint32_t i = 0; i < l->machine_count && key[0]; i++)
        if (i != machine && str_eq(l->machines[i].host_key, key) &&
            (m->order == FLEET_NONE || l->machines[i].order != m->order))
            return true;
    return false;
}

static void take_met(struct fleet *f, const struct fleet_input *in)
{
    const uint32_t number = ledger_machine(f->ledger, in->provider, in->id);
    if (number == FLEET_NONE || f->machines[number].meet.state != ASK_SENT)
        return;
    const struct fleet_machine *m = &f->ledger->machines[number];
    struct machine_view *v = &f->machines[number];
    struct site *p = site_of(f, m->provider, m->region);
    ask_answered(f, &v->meet, true, offer_poll_ms(p->offer));
    if (in->fault != PROVIDER_CLASS_NONE || !in->host_key || strlen(in->host_key) > FLEET_TEXT_MAX ||
        !machine_may(m->state, FLEET_MACHINE_READY))
        return;
    if (!is_anothers_key(f->ledger, number, in->host_key)) {
        fleet_append(f, (struct fleet_event){.type = FLEET_READY,
                                             .machine = {.provider = m->provider,
                                                         .id = m->id,
                                                         .address = v->meets,
                                                         .host_key = in->host_key,
                                                         .price = m->state == FLEET_MACHINE_CREATED ? v->price : 0}});
        return;
    }
    fleet_want(
        f,
        (struct fleet_effect){
            .kind = FLEET_EFFECT_TELL, .tell = FLEET_TELL_REFUSED, .machine = m, .slot = m->slot, .address = v->meets});
    if (m->state == FLEET_MACHINE_READY)
        fleet_append(f, (struct fleet_event){.type = FLEET_RETURNING,
                                             .machine = {.provider = m->provider,
                                                         .id = m->id,
                                                         .text = "another machine answers at its address"}});
}

static void take_notice(struct fleet *f, const struct fleet_input *in)
{
    const uint32_t number = ledger_machine(f->ledger, in->provider, in->id);
    if (number == FLEET_NONE || f->ledger->machines[number].notice_ms == in->at_ms || in->at_ms == 0)
        return;
    fleet_append(f, (struct fleet_event){.type = FLEET_NOTICED,
                                         .machine = {.provider = in->provider, .id = in->id, .at_ms = in->at_ms}});
}

/* ---- the cluster ---- */

static void finish_unwanted(struct fleet *f, const char *text)
{
    f->finished = true;
    fleet_want(f, (struct fleet_effect){.kind = FLEET_EFFECT_TELL,
                                        .tell = FLEET_TELL_FINISHED,
                                        .how = text ? FLEET_HOW_FAILED : FLEET_HOW_ASKED,
                                        .fault = text ? PROVIDER_CLASS_INVALID : PROVIDER_CLASS_NONE,
                                        .text = text});
}

static void take_wanted(struct fleet *f, const struct fleet_input *in)
{
    struct error err = ERROR_INIT;
    if (f->ledger->stage != FLEET_STAGE_NONE)
        return;
    if (fleet_wanted_check(in->wanted, &err) < 0)
        finish_unwanted(f, arena_strdup(f->ledger->arena, err.text));
    else
        fleet_append(f, (struct fleet_event){.type = FLEET_WANTED, .wanted = *in->wanted});
}

static bool has_ended(const struct fleet *f)
{
    return f->ledger->stage == FLEET_STAGE_ENDING || f->ledger->stage == FLEET_STAGE_OVER;
}

static void take_holder(struct fleet *f, const struct fleet_input *in)
{
    const struct fleet_ledger *l = f->ledger;
    const bool holds = in->kind == FLEET_INPUT_HOLD;
    if (l->stage == FLEET_STAGE_NONE || has_ended(f))
        return;
    if (holds ? !str_eq(l->held_by, in->text) : l->held_by || l->freed_ms == 0)
        fleet_append(f, (struct fleet_event){.type = holds ? FLEET_HELD : FLEET_FREED, .held = {.by = in->text}});
}

static void take_replace(struct fleet *f, const struct fleet_input *in)
{
    const struct fleet_ledger *l = f->ledger;
    if (l->stage != FLEET_STAGE_COMPLETE || in->slot >= l->slot_count ||
        l->slots[in->slot].state == FLEET_SLOT_ORDERED || !slot_may(l->slots[in->slot].state, FLEET_SLOT_ANEW))
        return;
    fleet_append(f, (struct fleet_event){.type = FLEET_REPLACE, .replace = {.slot = in->slot, .text = in->text}});
}

static void take_look(struct fleet *f, const struct fleet_input *in)
{
    const struct fleet_ledger *l = f->ledger;
    if (in->slot >= l->slot_count || l->slots[in->slot].machine == FLEET_NONE)
        return;
    const struct fleet_machine *m = &l->machines[l->slots[in->slot].machine];
    site_of(f, m->provider, m->region)->doubts = FLEET_DOUBTS;
}

static void take_down(struct fleet *f, const struct fleet_input *in)
{
    if (f->ledger->stage == FLEET_STAGE_NONE)
        finish_unwanted(f, NULL);
    else if (!has_ended(f))
        fleet_append(f, (struct fleet_event){.type = FLEET_ENDING, .end = {.how = FLEET_HOW_ASKED, .text = in->text}});
}

void inputs_take(struct fleet *f, const struct fleet_input *in)
{
    switch (in->kind) {
    case FLEET_INPUT_START:
    case FLEET_INPUT_TICK:
        break;
    case FLEET_INPUT_WANT:
        take_wanted(f, in);
        break;
    case FLEET_INPUT_DURABLE:
        f->durable = later(f->durable, in->seq);
        break;
    case FLEET_INPUT_CREATED:
        take_created(f, in);
        break;
    case FLEET_INPUT_LISTED:
        take_listed(f, in);
        break;
    case FLEET_INPUT_DELETED:
        take_deleted(f, in);
        break;
    case FLEET_INPUT_MET:
        take_met(f, in);
        break;
    case FLEET_INPUT_NOTICE:
        take_notice(f, in);
        break;
    case FLEET_INPUT_HOLD:
    case FLEET_INPUT_FREE:
        take_holder(f, in);
        break;
    case FLEET_INPUT_REPLACE:
        take_replace(f, in);
        break;
    case FLEET_INPUT_LOOK:
        take_look(f, in);
        break;
    case FLEET_INPUT_DOWN:
        take_down(f, in);
        break;
    }
}
