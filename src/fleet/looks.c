/* The pass that decides which regions are listed, and when: often while machines change, now and then when all are
 * ready, and never when nothing is left. */
#include "internal.h"

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static bool is_at(const struct site *p, const char *provider, const char *region)
{
    return str_eq(p->provider, provider) && str_eq(p->region, region);
}

/* A machine that is being deleted matters once the provider has answered the delete. */
static bool is_changing(const struct fleet_machine *m, const struct machine_view *v)
{
    switch (m->state) {
    case FLEET_MACHINE_CREATED:
        return true;
    case FLEET_MACHINE_READY:
        return v->seen != SEEN_READY;
    case FLEET_MACHINE_RETURNING:
        return v->delete.state == ASK_IDLE && v->delete.next_ms > 0;
    case FLEET_MACHINE_GONE:
        return false;
    }
    return false;
}

/* Whether a list there would show something that is waited for. */
static bool is_waited_for(const struct fleet *f, const struct site *p)
{
    for (uint32_t i = 0; i < f->order_count; i++) {
        const struct fleet_offer *offer = order_offer(f->ledger, &f->ledger->orders[i]);
        if (f->orders[i].state == ORDER_DOUBT && is_at(p, offer->provider, offer->region))
            return true;
    }
    for (uint32_t i = 0; i < f->machine_count; i++) {
        const struct fleet_machine *m = &f->ledger->machines[i];
        if (is_at(p, m->provider, m->region) && is_changing(m, &f->machines[i]))
            return true;
    }
    return false;
}

static bool has_ready(const struct fleet *f, const struct site *p)
{
    for (uint32_t i = 0; i < f->machine_count; i++) {
        const struct fleet_machine *m = &f->ledger->machines[i];
        if (m->state == FLEET_MACHINE_READY && is_at(p, m->provider, m->region))
            return true;
    }
    return false;
}

/* When the next list is due; UINT64_MAX: there is nothing to watch. */
static uint64_t next_look(const struct fleet *f, const struct site *p)
{
    const uint64_t last = p->look.sent_ms, soon = last ? last + offer_poll_ms(p->offer) : 0;
    uint64_t at = UINT64_MAX;
    if (has_ready(f, p))
        at = last ? last + FLEET_WATCH_MS : 0;
    if (f->ledger->stage == FLEET_STAGE_ENDING && !site_is_swept(f, p) && ledger_is_settled(f->ledger))
        at = later(soon, site_quiet_ms(f, p));
    if (at != UINT64_MAX && f->ledger->stage != FLEET_STAGE_ENDING) {
        const uint64_t doubt = last ? last + (offer_poll_ms(p->offer) << (FLEET_DOUBTS - p->doubts)) : 0;
        at = p->doubts > 0 && doubt < at ? doubt : at;
        at = p->changed && soon < at ? soon : at;
    }
    if (is_waited_for(f, p))
        at = soon;
    return at;
}

static void look(struct fleet *f, struct site *p)
{
    const uint64_t at = next_look(f, p);
    if (at == UINT64_MAX || !has_come(f, at) || !ask_may(f, &p->look))
        return;
    ask_sent(f, &p->look);
    p->changed = false;
    p->doubts -= p->doubts > 0;
    p->number = ++f->numbers;
    fleet_want(f, (struct fleet_effect){
                      .kind = FLEET_EFFECT_LIST, .provider = p->provider, .region = p->region, .number = p->number});
}

void looks_pass(struct fleet *f)
{
    for (uint32_t i = 0; i < f->site_count; i++)
        look(f, &f->sites[i]);
}
