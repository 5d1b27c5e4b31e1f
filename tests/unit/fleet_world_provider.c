/* The providers of a world: how they handle a request, what they list, and the fate of machines. */
#include "fleet_world.h"

#include <stdlib.h>
#include <string.h>

enum { COMMIT_MS = 3000 /* the longest time that a request may still be done after its answer was given up */ };

static uint32_t provider_of(const char *name)
{
    return name[0] == 'a' ? 0 : name[0] == 'b' ? 1 : 2;
}

static uint32_t region_of(const char *name)
{
    return name[0] == 'e' ? 0 : 1;
}

static const struct fleet_offer *offer_of(const struct world *w, uint32_t provider)
{
    for (uint32_t i = 0; i < w->wanted.offer_count; i++)
        if (provider_of(w->offers[i].provider) == provider)
            return &w->offers[i];
    return NULL;
}

static struct happening *answer(struct world *w, const struct happening *to, enum fleet_input_kind kind,
                                uint64_t after_ms)
{
    struct happening *h = world_happens(w, HAPPENS_ANSWER, after_ms);
    h->input = (struct fleet_input){.kind = kind, .number = to->number, .text = "in the provider's words"};
    h->input.provider = world_string(h, 0, to->strings[0]);
    h->input.name = h->input.id = world_string(h, 1, to->strings[1]);
    return h;
}

/* ---- machines ---- */

static void give_address(struct world *w, struct world_instance *made)
{
    for (unsigned tries = 0; tries < 50; tries++) {
        bool taken = false;
        snprintf(made->address, sizeof made->address, "10.0.0.%u", (unsigned)world_random(w, WORLD_ADDRESSES));
        for (uint32_t i = 0; i < w->instance_count; i++)
            taken = taken || (&w->instances[i] != made && !w->instances[i].dead_ms &&
                              str_eq(w->instances[i].address, made->address));
        if (!taken)
            return;
    }
    snprintf(made->address, sizeof made->address, "10.0.1.%u", w->instance_count % 250);
}

static struct world_instance *make(struct world *w, uint32_t provider, uint32_t region)
{
    if (w->instance_count == w->instance_cap) {
        w->instance_cap = w->instance_cap ? 2 * w->instance_cap : 16;
        w->instances = xreallocarray(w->instances, w->instance_cap, sizeof *w->instances);
    }
    struct world_instance *i = &w->instances[w->instance_count++];
    memset(i, 0, sizeof *i);
    snprintf(i->id, sizeof i->id, "i-%u", w->instance_count);
    snprintf(i->key, sizeof i->key, "key-%u", w->instance_count);
    i->provider = provider;
    i->region = region;
    i->born_ms = w->now_ms;
    give_address(w, i);
    return i;
}

static void make_ours(struct world *w, const struct happening *h)
{
    const struct fleet_offer *o = &w->offers[h->offer];
    struct world_instance *i = make(w, provider_of(o->provider), region_of(o->region));
    snprintf(i->name, sizeof i->name, "%s", h->strings[1]);
    snprintf(i->token, sizeof i->token, "%s", h->strings[2]);
    snprintf(i->run, sizeof i->run, "%s", w->wanted.id);
    i->zone = o->zone[0] == 'a' ? 0 : 1;
    i->offer = h->offer;
    i->hidden_ms = o->settle_ms ? world_random(w, o->settle_ms - 50) : 0;
    i->boot_ms = world_delay(w, 120000);
    i->stuck = world_faulty(w, 3);
    w->capacity[i->provider][i->region][i->zone]--;
    w->quota[i->provider][i->region]--;
    world_say(w, "%s (%s) is made", i->id, i->name);
    const uint64_t life_ms = world_random(w, 3 * WORLD_HOUR_MS / 2);
    if (w->deaths > 0 && !w->quiet && world_chance(w, 40)) {
        w->deaths--;
        world_happens(w, HAPPENS_DEATH, world_chance(w, 50) ? life_ms : life_ms / 50)->instance = w->instance_count - 1;
    }
}

static void end_instance(struct world *w, struct world_instance *i)
{
    const struct fleet_offer *o = offer_of(w, i->provider);
    i->dead_ms = w->now_ms;
    i->lag_ms = o && o->settle_ms ? world_delay(w, o->settle_ms) : 0;
    i->linger_ms = world_chance(w, 50) ? world_random(w, WORLD_HOUR_MS) : 0;
    w->capacity[i->provider][i->region][i->zone]++;
    w->quota[i->provider][i->region]++;
    world_say(w, "%s has ended", i->id);
}

void world_die(struct world *w, uint32_t instance)
{
    struct world_instance *i = &w->instances[instance];
    w->end_ms = w->now_ms;
    if (i->dead_ms)
        return;
    if (world_chance(w, 20)) {
        i->stopped = true;
        world_say(w, "%s stops", i->id);
        return;
    }
    if (world_chance(w, 40))
        world_tell(w, &(struct fleet_input){.kind = FLEET_INPUT_NOTICE,
                                            .provider = w->offers[i->offer].provider,
                                            .id = i->id,
                                            .at_ms = w->now_ms + w->skew_ms});
    end_instance(w, i);
}

/* ---- create ---- */

static uint32_t same_token(const struct world *w, const struct happening *h)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < w->instance_count; i++)
        count += !w->instances[i].foreign && str_eq(w->instances[i].token, h->strings[2]);
    return count;
}

static bool is_name_taken(const struct world *w, const struct happening *h)
{
    for (uint32_t i = 0; i < w->instance_count; i++)
        if (!w->instances[i].dead_ms && str_eq(w->instances[i].name, h->strings[1]))
            return true;
    return false;
}

/* The provider's result; count: the number of machines for it then. */
static enum provider_class commit(struct world *w, const struct happening *h, uint32_t want,
                                  enum provider_scope *ret_scope)
{
    const struct fleet_offer *o = &w->offers[h->offer];
    const uint32_t p = provider_of(o->provider), r = region_of(o->region), z = o->zone[0] == 'a' ? 0 : 1;
    *ret_scope = PROVIDER_SCOPE_PROVIDER;
    if (w->refuses[p])
        return PROVIDER_CLASS_AUTH;
    if (o->idem == PROVIDER_IDEM_TOKEN && same_token(w, h) > 0)
        return PROVIDER_CLASS_NONE;
    if (o->idem == PROVIDER_IDEM_NAME && is_name_taken(w, h))
        return PROVIDER_CLASS_EXISTS;
    *ret_scope = PROVIDER_SCOPE_REGION;
    if (w->quota[p][r] < h->count)
        return PROVIDER_CLASS_QUOTA;
    *ret_scope = PROVIDER_SCOPE_ZONE;
    if (w->capacity[p][r][z] < h->count)
        return PROVIDER_CLASS_CAPACITY;
    for (uint32_t n = 0; n < want; n++)
        make_ours(w, h);
    return PROVIDER_CLASS_NONE;
}

static void put_ids(struct world *w, const struct happening *h, struct happening *to)
{
    const bool again = w->offers[h->offer].idem == PROVIDER_IDEM_TOKEN; /* of an earlier request */
    for (uint32_t i = 0; i < w->instance_count; i++)
        if (!w->instances[i].foreign && str_eq(w->instances[i].token, h->strings[2]) && to->input.id_count < h->count &&
            (again || w->instances[i].born_ms == w->now_ms))
            to->ids[to->input.id_count++] = xstrdup(w->instances[i].id);
    to->input.ids = (const char *const *)to->ids;
}

static void answer_create(struct world *w, struct happening *h, enum provider_class fault, enum provider_scope scope,
                          bool unsure, uint64_t after_ms)
{
    if (h->answered)
        return;
    struct happening *a = answer(w, h, FLEET_INPUT_CREATED, after_ms);
    a->input.fault = fault;
    a->input.scope = scope;
    a->input.unsure = unsure;
    if (fault == PROVIDER_CLASS_THROTTLED && world_chance(w, 50))
        a->input.retry_after_ms = world_random(w, 100000);
    if (!unsure)
        put_ids(w, h, a);
}

static void create(struct world *w, struct happening *h)
{
    enum provider_scope scope = PROVIDER_SCOPE_NONE;
    const bool fault = !h->answered && world_faulty(w, 35);
    const uint64_t kind = fault ? world_random(w, 7) : 99, soon = world_delay(w, 800);
    switch (kind) {
    case 0: /* it never arrives */
        answer_create(w, h, PROVIDER_CLASS_TRANSIENT, 0, true, soon);
        break;
    case 1: /* it is done, and the answer is lost, or a 500 */
        commit(w, h, h->count, &scope);
        answer_create(w, h, PROVIDER_CLASS_TRANSIENT, 0, true, world_chance(w, 50) ? soon : 30000);
        break;
    case 2: /* the answer is given up, then it is done */
        answer_create(w, h, PROVIDER_CLASS_TRANSIENT, 0, true, 0);
        struct happening *late = world_happens(w, HAPPENS_REQUEST, 1 + world_random(w, COMMIT_MS - 1));
        const uint64_t at_ms = late->at_ms, order = late->order;
        *late = *h;
        memset(late->ids, 0, sizeof late->ids);
        late->at_ms = at_ms;
        late->order = order;
        late->answered = true;
        break;
    case 3:
        answer_create(w, h, PROVIDER_CLASS_THROTTLED, 0, false, soon);
        break;
    case 4: /* half of them are made, with or without an error */
        commit(w, h, h->count / 2, &scope);
        answer_create(w, h, world_chance(w, 50) ? PROVIDER_CLASS_NONE : PROVIDER_CLASS_CAPACITY, PROVIDER_SCOPE_ZONE,
                      world_chance(w, 30) || h->count < 2, soon);
        break;
    case 5: /* not done, for sure */
        answer_create(w, h, PROVIDER_CLASS_TRANSIENT, 0, false, soon);
        break;
    case 6: /* it is done, and no answer ever comes */
        commit(w, h, h->count, &scope);
        break;
    default: {
        const enum provider_class f = commit(w, h, h->count, &scope);
        answer_create(w, h, f, scope, false, soon);
    }
    }
}

/* ---- list ---- */

static bool is_shown(struct world *w, const struct world_instance *i, enum provider_state *ret)
{
    const struct fleet_offer *o = offer_of(w, i->provider);
    const uint64_t age = w->now_ms - i->born_ms;
    if (age < i->hidden_ms ||
        (o && age < o->settle_ms && world_chance(w, 20))) /* one replica has it, another does not */
        return false;
    *ret = i->stopped                     ? PROVIDER_STATE_FAILED
           : i->stuck || age < i->boot_ms ? PROVIDER_STATE_COMING
                                          : PROVIDER_STATE_READY;
    if (!i->dead_ms || w->now_ms < i->dead_ms + i->lag_ms)
        return true;
    *ret = w->now_ms < i->dead_ms + i->lag_ms + i->linger_ms / 20 ? PROVIDER_STATE_FAILED : PROVIDER_STATE_GONE;
    return w->now_ms < i->dead_ms + i->lag_ms + i->linger_ms;
}

static void put_items(struct world *w, const struct happening *h, struct happening *to)
{
    const uint32_t p = provider_of(h->strings[0]), r = region_of(h->strings[2]);
    to->items = xcalloc(w->instance_count + 1u, sizeof *to->items);
    to->item_texts = xcalloc(w->instance_count + 1u, sizeof *to->item_texts);
    for (uint32_t n = 0; n < w->instance_count; n++) {
        const struct world_instance *i = &w->instances[n];
        enum provider_state shown;
        if (i->provider != p || i->region != r || !is_shown(w, i, &shown))
            continue;
        const size_t at = to->input.item_count++;
        char(*texts)[96] = to->item_texts[at];
        snprintf(texts[0], sizeof texts[0], "%s", i->id);
        snprintf(texts[1], sizeof texts[1], "%s", i->name);
        snprintf(texts[2], sizeof texts[2], "%s", i->run);
        snprintf(texts[3], sizeof texts[3], "%s", i->address);
        to->items[at] =
            (struct fleet_item){.run = i->run[0] ? texts[2] : NULL,
                                .id = texts[0],
                                .name = texts[1],
                                .state = shown,
                                .address = shown == PROVIDER_STATE_READY ? texts[3] : NULL,
                                .price = i->id[strlen(i->id) - 1] == '2' ? 2500000 : 0}; /* above all offers */
    }
    to->input.items = to->items;
}

/* Other people rent there too; some of their machines have names like ours. */
static void make_foreign(struct world *w, const struct happening *h)
{
    struct world_instance *i = make(w, provider_of(h->strings[0]), region_of(h->strings[2]));
    i->foreign = true;
    snprintf(i->name, sizeof i->name, "rhrun-%s-%u", w->wanted.id, (unsigned)(1 + world_random(w, 4)));
    if (world_chance(w, 50))
        snprintf(i->run, sizeof i->run, "feedbeef0001");
}

static void list(struct world *w, struct happening *h)
{
    if (h->answered)
        return;
    if (!w->quiet && w->instance_count < 30 && world_chance(w, 3))
        make_foreign(w, h);
    if (world_faulty(w, 6)) {
        if (world_chance(w, 70))
            answer(w, h, FLEET_INPUT_LISTED, world_random(w, 30000))->input.fault =
                world_chance(w, 50) ? PROVIDER_CLASS_TRANSIENT : PROVIDER_CLASS_THROTTLED;
        return;
    }
    put_items(w, h, answer(w, h, FLEET_INPUT_LISTED, world_delay(w, 1000)));
}

/* ---- delete, meet ---- */

static void delete_instance(struct world *w, struct happening *h)
{
    const bool fault = !h->answered && world_faulty(w, 15);
    enum provider_state shown;
    struct world_instance *i = NULL;
    for (uint32_t n = 0; n < w->instance_count; n++)
        if (str_eq(w->instances[n].id, h->strings[1]))
            i = &w->instances[n];
    if (fault && world_chance(w, 50)) { /* not done */
        answer(w, h, FLEET_INPUT_DELETED, 100)->input.fault = PROVIDER_CLASS_THROTTLED;
        return;
    }
    const bool there = i && is_shown(w, i, &shown);
    if (there && !i->dead_ms)
        end_instance(w, i);
    if (h->answered || (fault && world_chance(w, 30)))
        return;
    answer(w, h, FLEET_INPUT_DELETED, world_delay(w, 2000))->input.fault = fault   ? PROVIDER_CLASS_TRANSIENT
                                                                           : there ? PROVIDER_CLASS_NONE
                                                                                   : PROVIDER_CLASS_NOTFOUND;
}

/* The hands look for the intent's token on the machine that answers. */
static void meet(struct world *w, struct happening *h)
{
    const char *name = "";
    const struct world_instance *there = NULL;
    if (h->answered)
        return;
    for (uint32_t n = 0; n < w->instance_count; n++) {
        const struct world_instance *i = &w->instances[n];
        if (str_eq(i->id, h->strings[1]))
            name = i->token;
        if (!i->dead_ms && !i->stopped && str_eq(i->address, h->strings[3]) && w->now_ms >= i->born_ms + i->boot_ms)
            there = i;
    }
    struct happening *a = answer(w, h, FLEET_INPUT_MET, world_delay(w, 3000));
    if (world_faulty(w, 5) || !there || !str_eq(there->token, name) || there->foreign)
        a->input.fault = PROVIDER_CLASS_TRANSIENT;
    else
        a->input.host_key = world_string(a, 2, there->key);
}

/* An outage: nothing is done, and nothing can be read. */
static void fail_request(struct world *w, const struct happening *h)
{
    const enum fleet_input_kind kinds[] = {[FLEET_EFFECT_CREATE] = FLEET_INPUT_CREATED,
                                           [FLEET_EFFECT_LIST] = FLEET_INPUT_LISTED,
                                           [FLEET_EFFECT_DELETE] = FLEET_INPUT_DELETED};
    if (h->answered)
        return;
    struct happening *a = answer(w, h, kinds[h->ask], world_delay(w, 30000));
    a->input.fault = PROVIDER_CLASS_TRANSIENT;
    a->input.unsure = h->ask == FLEET_EFFECT_CREATE;
}

void world_request(struct world *w, struct happening *h)
{
    if (h->ask != FLEET_EFFECT_MEET && world_is_out(w, provider_of(h->strings[0])))
        fail_request(w, h);
    else if (h->ask == FLEET_EFFECT_CREATE)
        create(w, h);
    else if (h->ask == FLEET_EFFECT_LIST)
        list(w, h);
    else if (h->ask == FLEET_EFFECT_DELETE)
        delete_instance(w, h);
    else
        meet(w, h);
}
