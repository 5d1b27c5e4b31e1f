/* Controllers of a fleet in a world: their hands, their ledger, their user, and their end. */
#include "fleet_world.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char *const providers[] = {"alpha", "beta", "gamma"};
static const char *const regions[] = {"east", "west"};
static const char *const zones[] = {"a", "b"};

uint64_t world_random(struct world *w, uint64_t below)
{
    uint64_t z = w->rng += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return below ? (z ^ (z >> 31)) % below : 0;
}

uint64_t world_delay(struct world *w, uint64_t below)
{
    const uint64_t any = world_random(w, below);
    return w->quiet ? below / 2 : any;
}

bool world_chance(struct world *w, unsigned percent)
{
    return world_random(w, 100) < percent;
}

bool world_faulty(struct world *w, unsigned percent)
{
    const bool hit = world_chance(w, percent);
    if (w->quiet || w->faults == 0 || !hit)
        return false;
    w->faults--;
    w->end_ms = w->now_ms;
    return true;
}

void world_say(struct world *w, const char *fmt, ...)
{
    if (!w->verbose)
        return;
    va_list ap;
    va_start(ap, fmt);
    buf_printf(&w->log, "%10.3f ", (double)w->now_ms / 1000);
    buf_vprintf(&w->log, fmt, ap);
    buf_putc(&w->log, '\n');
    va_end(ap);
}

void world_violated(struct world *w, const char *fmt, ...)
{
    if (w->violation[0])
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(w->violation, sizeof w->violation, fmt, ap);
    va_end(ap);
    world_say(w, "VIOLATED: %s", w->violation);
}

bool world_is_out(const struct world *w, uint32_t provider)
{
    return !w->quiet && w->now_ms >= w->outage_ms[provider] && w->now_ms < w->outage_end_ms[provider];
}

/* ---- pending events ---- */

struct happening *world_happens(struct world *w, enum world_kind kind, uint64_t after_ms)
{
    struct happening *h = xcalloc(1, sizeof *h);
    h->kind = kind;
    h->at_ms = w->now_ms + after_ms;
    h->order = w->order++;
    if (w->heap_count == w->heap_cap) {
        w->heap_cap = w->heap_cap ? 2 * w->heap_cap : 32;
        w->heap = xreallocarray(w->heap, w->heap_cap, sizeof *w->heap);
    }
    w->heap[w->heap_count++] = h;
    return h;
}

void world_drop(struct happening *h)
{
    for (uint32_t i = 0; i < WORLD_IDS && h->ids[i]; i++)
        free(h->ids[i]);
    free(h->items);
    free(h->item_texts);
    free(h);
}

const char *world_string(struct happening *h, unsigned slot, const char *text)
{
    snprintf(h->strings[slot], sizeof h->strings[slot], "%s", text);
    return h->strings[slot];
}

static size_t first(const struct world *w)
{
    size_t best = 0;
    for (size_t i = 1; i < w->heap_count; i++)
        if (w->heap[i]->at_ms < w->heap[best]->at_ms ||
            (w->heap[i]->at_ms == w->heap[best]->at_ms && w->heap[i]->order < w->heap[best]->order))
            best = i;
    return best;
}

uint64_t world_next_ms(const struct world *w)
{
    return w->heap_count ? w->heap[first(w)]->at_ms : UINT64_MAX;
}

static struct happening *take_out(struct world *w, size_t at)
{
    struct happening *h = w->heap[at];
    w->heap[at] = w->heap[--w->heap_count];
    return h;
}

static bool is_provider_kind(const struct happening *h)
{
    return h->kind == HAPPENS_REQUEST || h->kind == HAPPENS_DEATH;
}

/* ---- the world ---- */

static void make_offers(struct world *w)
{
    static const uint64_t settles[] = {0, 3000, 20000};
    enum provider_idem idem[WORLD_PROVIDERS];
    uint64_t settle[WORLD_PROVIDERS], late[WORLD_PROVIDERS];
    uint32_t gang[WORLD_PROVIDERS];
    for (uint32_t p = 0; p < WORLD_PROVIDERS; p++) {
        idem[p] = (enum provider_idem)world_random(w, 4);
        settle[p] = settles[world_random(w, 3)];
        late[p] = world_chance(w, 50) ? 4000 : 0;
        gang[p] = idem[p] == PROVIDER_IDEM_NAME ? 1 : (uint32_t)(world_chance(w, 50) ? 1 : 1 + world_random(w, 4));
        w->refuses[p] = world_chance(w, 4);
        w->outage_ms[p] = world_random(w, 2 * WORLD_HOUR_MS);
        w->outage_end_ms[p] = w->outage_ms[p] + (world_chance(w, 20) ? world_random(w, WORLD_HOUR_MS) : 0);
    }
    w->wanted.offer_count = (uint32_t)(1 + world_random(w, WORLD_OFFERS));
    for (uint32_t i = 0; i < w->wanted.offer_count; i++) {
        const uint32_t p = (uint32_t)world_random(w, WORLD_PROVIDERS), r = (uint32_t)world_random(w, WORLD_REGIONS);
        w->offers[i] = (struct fleet_offer){
            .provider = providers[p],
            .region = regions[r],
            .zone = zones[world_random(w, WORLD_ZONES)],
            .type = world_chance(w, 70) ? "big" : "small",
            .spot = world_chance(w, 40),
            .nodes = w->nodes,
            .gang_max = gang[p],
            .price = 1000000 + world_random(w, 9) * 100000,
            .idem = idem[p],
            .settle_ms = settle[p],
            .late_ms = late[p],
            .poll_ms = world_chance(w, 30) ? 500 : 0,
            .ready_ms = 10 * WORLD_MINUTE_MS,
        };
    }
}

struct world *world_create(uint64_t seed, bool verbose)
{
    struct world *w = xcalloc(1, sizeof *w);
    w->seed = seed;
    w->rng = seed * 0x2545F4914F6CDD1Du + 77;
    w->verbose = verbose;
    w->arena = arena_create();
    w->now_ms = 1;
    w->skew_ms = 1790000000000u;
    w->nodes = (uint32_t)(1 + world_random(w, 4));
    w->faults = (uint32_t)world_random(w, 12);
    w->kills = (uint32_t)world_random(w, 5);
    w->deaths = world_chance(w, 50) ? (uint32_t)world_random(w, 4) : 0;
    w->wanted = (struct fleet_wanted){.id = "c0ffee00d00d", .name = "train", .owner = "me", .offers = w->offers};
    make_offers(w);
    for (uint32_t p = 0; p < WORLD_PROVIDERS; p++)
        for (uint32_t r = 0; r < WORLD_REGIONS; r++) {
            w->quota[p][r] = world_chance(w, 15) ? (uint32_t)world_random(w, 4) : 100;
            for (uint32_t z = 0; z < WORLD_ZONES; z++)
                w->capacity[p][r][z] = world_chance(w, 40) ? (uint32_t)world_random(w, 4) : 100;
        }
    w->wanted.down = (enum fleet_down)world_random(w, 3);
    w->wanted.idle_ms = world_random(w, 20) * WORLD_MINUTE_MS;
    if (world_chance(w, 40))
        w->wanted.deadline_ms = w->skew_ms + WORLD_HOUR_MS / 2 + world_random(w, 4) * WORLD_HOUR_MS;
    if (world_chance(w, 20))
        w->wanted.max_price = w->nodes * 1400000;
    return w;
}

void world_destroy(struct world *w)
{
    fleet_destroy(w->fleet);
    for (size_t i = 0; i < w->heap_count; i++)
        world_drop(w->heap[i]);
    free(w->heap);
    free(w->instances);
    free(w->ledger);
    arena_destroy(w->arena);
    buf_free(&w->log);
    free(w);
}

void world_calm(struct world *w)
{
    w->quiet = true;
    for (size_t i = w->heap_count; i-- > 0;)
        if (w->heap[i]->kind == HAPPENS_USER || w->heap[i]->kind == HAPPENS_DEATH)
            world_drop(take_out(w, i));
}

uint32_t world_live(const struct world *w)
{
    uint32_t live = 0;
    for (uint32_t i = 0; i < w->instance_count; i++)
        live += !w->instances[i].foreign && !w->instances[i].dead_ms;
    return live;
}

/* ---- the ledger ---- */

static bool is_known(const struct world *w, const char *id)
{
    const struct fleet_ledger *l = fleet_ledger_of(w->fleet);
    for (uint32_t m = 0; m < l->machine_count; m++)
        if (str_eq(l->machines[m].id, id))
            return true;
    return false;
}

/* Checks that the ledger is right. */
static void check_event(struct world *w, const struct fleet_event *e)
{
    if (e->type == FLEET_OVER && world_live(w) > 0)
        world_violated(w, "it is over, and %u machines live", world_live(w));
    for (size_t i = 0; i < w->heap_count && e->type == FLEET_SETTLED; i++)
        if (w->heap[i]->kind == HAPPENS_REQUEST && w->heap[i]->ask == FLEET_EFFECT_CREATE)
            world_violated(w, "it is settled, and %s is under way", w->heap[i]->strings[0]);
    for (uint32_t i = 0; i < w->instance_count; i++) {
        const struct world_instance *in = &w->instances[i];
        if (in->foreign && e->type == FLEET_CREATED && str_eq(in->id, e->created.id))
            world_violated(w, "somebody else's %s is adopted", in->id);
        if (in->foreign || in->dead_ms)
            continue;
        if (e->type == FLEET_GONE && str_eq(in->id, e->machine.id))
            world_violated(w, "%s is gone, and lives", in->id);
        if (e->type == FLEET_VOID && str_eq(in->name, e->end.intent) && !is_known(w, in->id))
            world_violated(w, "nothing came of %s, but %s lives", in->name, in->id);
    }
}

static void append(struct world *w, const struct fleet_event *e)
{
    check_event(w, e);
    struct buf json = {0};
    struct error err = ERROR_INIT;
    struct fleet_event kept;
    fleet_event_to_json(e, &json);
    world_say(w, "  %s", json.data);
    if (fleet_event_from_json(json.data, json.len, w->arena, &kept, &err) < 0)
        world_violated(w, "an event that was written cannot be read: %s", err.text);
    else {
        if (w->ledger_count == w->ledger_cap) {
            w->ledger_cap = w->ledger_cap ? 2 * w->ledger_cap : 32;
            w->ledger = xreallocarray(w->ledger, w->ledger_cap, sizeof *w->ledger);
        }
        w->ledger[w->ledger_count++] = kept;
        if (!w->committing)
            world_happens(w, HAPPENS_COMMIT, 1 + world_delay(w, 40));
        w->committing = true;
    }
    buf_free(&json);
}

/* ---- the user ---- */

static void user_does(struct world *w, enum fleet_input_kind kind, uint32_t slot, uint64_t after_ms)
{
    struct happening *h = world_happens(w, HAPPENS_USER, after_ms);
    h->input = (struct fleet_input){.kind = kind, .slot = slot, .text = "as it was asked for"};
}

static void check_gang(struct world *w)
{
    const struct fleet_ledger *l = fleet_ledger_of(w->fleet);
    if (w->completed)
        return;
    w->completed = true;
    for (uint32_t s = 0; s < l->slot_count; s++)
        for (uint32_t t = 0; t < s; t++)
            if (l->slots[s].machine == l->slots[t].machine)
                world_violated(w, "nodes %u and %u have the same machine", s, t);
    if (l->slot_count != w->nodes)
        world_violated(w, "%u nodes, not %u", l->slot_count, w->nodes);
}

static void check_ready(struct world *w, const struct fleet_machine *m)
{
    for (uint32_t i = 0; i < w->instance_count; i++)
        if (str_eq(w->instances[i].id, m->id) && !str_eq(w->instances[i].key, m->host_key))
            world_violated(w, "machine %s is told with the host key of another one", m->id);
}

static void told(struct world *w, const struct fleet_effect *e)
{
    static const char *const names[] = {"trying",     "waiting", "retreat", "ready",  "complete", "lost",
                                        "unreplaced", "notice",  "refused", "dearer", "left",     "finished"};
    _Static_assert(ARRAY_LEN(names) == FLEET_TELL_FINISHED + 1, "a word for each");
    world_say(w, "  tells %s, slot %u, %s %s: %s", names[e->tell], e->slot, provider_class_name(e->fault),
              provider_scope_name(e->scope), e->text ? e->text : "");
    if (e->tell == FLEET_TELL_READY)
        check_ready(w, e->machine);
    if (e->tell == FLEET_TELL_COMPLETE) {
        check_gang(w);
        if (!w->quiet && !w->released)
            user_does(w, world_chance(w, 50) ? FLEET_INPUT_FREE : FLEET_INPUT_DOWN, 0,
                      world_random(w, 90) * WORLD_MINUTE_MS);
    }
    if (e->tell == FLEET_TELL_LOST && !w->quiet)
        user_does(w, world_chance(w, 80) ? FLEET_INPUT_REPLACE : FLEET_INPUT_DOWN, e->slot, 1000);
    if (e->tell == FLEET_TELL_UNREPLACED && !w->quiet)
        user_does(w, FLEET_INPUT_DOWN, 0, 1000);
    if (e->tell == FLEET_TELL_FINISHED) {
        w->finished = true;
        w->left = e->left;
        if (e->left == 0 && world_live(w) > 0)
            world_violated(w, "it is finished, %u machines live, and nobody says so", world_live(w));
    }
}

/* ---- the hands ---- */

static void check_create(struct world *w, const struct fleet_effect *e)
{
    bool durable = false;
    for (size_t i = 0; i < w->durable; i++)
        durable = durable || (w->ledger[i].type == FLEET_INTENT && str_eq(w->ledger[i].intent.name, e->order->name));
    if (!durable)
        world_violated(w, "%s goes out, and its intent is not durable", e->order->name);
    if (e->order->price != w->ledger[0].wanted.offers[e->order->offer].price || e->order->price != e->offer->price)
        world_violated(w, "the price of %s is not that of the wish", e->order->name);
}

static void check_delete(struct world *w, const struct fleet_machine *m)
{
    bool durable = false;
    for (size_t i = 0; i < w->durable; i++)
        durable = durable || (w->ledger[i].type == FLEET_RETURNING && str_eq(w->ledger[i].machine.id, m->id));
    if (!durable)
        world_violated(w, "%s is deleted, and that is not durable", m->id);
    for (uint32_t i = 0; i < w->instance_count; i++)
        if (w->instances[i].foreign && str_eq(w->instances[i].id, m->id))
            world_violated(w, "somebody else's %s is deleted", m->id);
}

static void ask(struct world *w, const struct fleet_effect *e)
{
    struct happening *h = world_happens(w, HAPPENS_REQUEST, 10 + world_delay(w, 1000));
    h->ask = e->kind;
    h->number = e->number;
    world_string(h, 0, e->kind == FLEET_EFFECT_CREATE ? e->offer->provider : e->provider);
    world_string(h, 1, e->kind == FLEET_EFFECT_CREATE ? e->order->name : e->machine ? e->machine->id : "");
    world_string(h, 2, e->kind == FLEET_EFFECT_CREATE ? e->order->token : e->region);
    world_string(h, 3, e->address ? e->address : e->kind == FLEET_EFFECT_CREATE ? e->offer->region : "");
    if (e->kind != FLEET_EFFECT_CREATE)
        return;
    h->offer = e->order->offer;
    h->count = e->order->count;
    check_create(w, e);
}

static void perform(struct world *w, const struct fleet_effect *e)
{
    static const char *const names[] = {"append", "create", "list", "delete", "meet", "tell"};
    if (e->kind != FLEET_EFFECT_APPEND && e->kind != FLEET_EFFECT_TELL)
        world_say(w, "  %s %s %s %llu", names[e->kind], e->order ? e->order->name : e->provider,
                  e->machine  ? e->machine->id
                  : e->region ? e->region
                              : "",
                  (unsigned long long)e->number);
    if (e->kind == FLEET_EFFECT_APPEND)
        append(w, e->event);
    else if (e->kind == FLEET_EFFECT_TELL)
        told(w, e);
    else
        ask(w, e);
    if (e->kind == FLEET_EFFECT_DELETE)
        check_delete(w, e->machine);
}

static void set_wake(struct world *w)
{
    const uint64_t at = fleet_wake_ms(w->fleet);
    for (size_t i = w->heap_count; i-- > 0;)
        if (w->heap[i]->kind == HAPPENS_WAKE)
            world_drop(take_out(w, i));
    if (at != UINT64_MAX)
        world_happens(w, HAPPENS_WAKE, at > w->now_ms ? at - w->now_ms : 0);
}

void world_tell(struct world *w, const struct fleet_input *in)
{
    size_t count;
    if (!w->fleet)
        return;
    fleet_take(w->fleet, in, (struct fleet_clock){.wall_ms = w->now_ms + w->skew_ms, .mono_ms = w->now_ms});
    const struct fleet_effect *effects = fleet_effects(w->fleet, &count);
    for (size_t i = 0; i < count; i++)
        perform(w, &effects[i]);
    if (fleet_ledger_of(w->fleet)->seq != w->ledger_count)
        world_violated(w, "the ledger and what was appended differ");
    set_wake(w);
}

void world_start(struct world *w)
{
    struct error err = ERROR_INIT;
    struct fleet_offer changed[WORLD_OFFERS];
    struct fleet_wanted wanted = w->wanted;
    w->fleet = fleet_create();
    w->finished = w->committing = false;
    w->controllers++;
    world_say(w, "controller %u starts, %zu events", w->controllers, w->ledger_count);
    for (size_t i = 0; i < w->ledger_count; i++)
        if (fleet_replay(w->fleet, &w->ledger[i], &err) < 0)
            world_violated(w, "the ledger cannot be replayed: %s", err.text);
    memcpy(changed, w->offers, sizeof changed);
    for (uint32_t i = 0; i < w->wanted.offer_count && w->ledger_count > 0; i++)
        changed[i].price += 777; /* a newer catalog */
    wanted.offers = changed;
    world_tell(w, &(struct fleet_input){.kind = FLEET_INPUT_START});
    if (w->gc) {
        world_tell(w, &(struct fleet_input){.kind = FLEET_INPUT_DOWN, .text = "gc"});
        return;
    }
    world_tell(w, &(struct fleet_input){.kind = FLEET_INPUT_WANT, .wanted = &wanted});
    world_tell(w, &(struct fleet_input){.kind = w->released ? FLEET_INPUT_FREE : FLEET_INPUT_HOLD, .text = "a run"});
    if (w->released && w->wanted.down == FLEET_DOWN_NEVER && !w->quiet)
        world_tell(w, &(struct fleet_input){.kind = FLEET_INPUT_DOWN, .text = "as it was asked for"});
}

void world_kill(struct world *w, bool all_arrives)
{
    const size_t kept = all_arrives ? w->ledger_count : w->durable + world_random(w, w->ledger_count - w->durable + 1);
    world_say(w, "the controller is killed; %zu of %zu events are kept, %zu were durable", kept, w->ledger_count,
              w->durable);
    w->ledger_count = w->durable = kept;
    for (size_t i = w->heap_count; i-- > 0;)
        if (!is_provider_kind(w->heap[i]) ||
            (w->heap[i]->kind == HAPPENS_REQUEST && !all_arrives && world_chance(w, 30)))
            world_drop(take_out(w, i));
        else
            w->heap[i]->answered = true;
    fleet_destroy(w->fleet);
    w->fleet = NULL;
    w->committing = false;
}

/* ---- one event ---- */

static void user(struct world *w, const struct happening *h)
{
    world_say(w, "the user: %d", (int)h->input.kind);
    if (h->input.kind != FLEET_INPUT_REPLACE)
        w->released = true;
    if (h->input.kind == FLEET_INPUT_FREE && w->wanted.down == FLEET_DOWN_NEVER)
        user_does(w, FLEET_INPUT_DOWN, 0, WORLD_HOUR_MS);
    w->end_ms = w->now_ms;
    world_tell(w, &h->input);
}

static void happen(struct world *w, struct happening *h)
{
    switch (h->kind) {
    case HAPPENS_COMMIT:
        w->committing = false;
        w->durable = w->ledger_count;
        world_tell(w, &(struct fleet_input){.kind = FLEET_INPUT_DURABLE, .seq = w->durable});
        break;
    case HAPPENS_REQUEST:
        world_request(w, h);
        break;
    case HAPPENS_ANSWER:
        world_tell(w, &h->input);
        break;
    case HAPPENS_WAKE:
        world_tell(w, &(struct fleet_input){.kind = FLEET_INPUT_TICK});
        break;
    case HAPPENS_USER:
        user(w, h);
        break;
    case HAPPENS_DEATH:
        world_die(w, h->instance);
        break;
    }
}

bool world_step(struct world *w)
{
    if (w->violation[0] || w->heap_count == 0)
        return false;
    struct happening *h = take_out(w, first(w));
    w->steps++;
    if (h->at_ms > w->now_ms)
        w->now_ms = h->at_ms;
    happen(w, h);
    world_drop(h);
    if (world_live(w) > w->nodes)
        world_violated(w, "%u machines live, for %u nodes", world_live(w), w->nodes);
    return !w->violation[0];
}
