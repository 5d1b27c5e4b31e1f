/* Events of a cluster's ledger: for each type a table of its fields (fields.h), in the order in which they are written. */
#include "internal.h"

#include "rhrun/fields.h"

#include <string.h>

/* A byte that is not UTF-8 is written as three. */
#define TEXT .max = 3 * FLEET_TEXT_MAX
#define REQUIRED .required = true
#define OPTIONAL .none = true /* 0 and false are left out, and NULL is */
#define FIELD(key, member, ...) FIELD_OF(struct fleet_event, key, member, __VA_ARGS__)
#define NAME(key, member, of_names, ...) FIELD_NAME_OF(struct fleet_event, key, member, of_names, __VA_ARGS__)
#define OFFER(key, member, ...) FIELD_OF(struct fleet_offer, key, member, __VA_ARGS__)
#define HEAD                                                                                    \
    NAME("type", type, type_names, REQUIRED, .min = FLEET_WANTED), FIELD("seq", seq, REQUIRED), \
        FIELD("time_ms", time_ms, REQUIRED)

static const char *const type_names[] = {"",      "wanted",  "intent",   "created", "ready",      "returning", "gone",
                                         "void",  "retreat", "complete", "replace", "unreplaced", "noticed",   "held",
                                         "freed", "ending",  "over",     "settled", NULL};
static const char *const fault_names[] = {"none",     "auth",      "quota",     "capacity", "invalid", "exists",
                                          "notfound", "throttled", "transient", "budget",   NULL};
static const char *const scope_names[] = {"none", "zone", "region", "type", "provider", "run", NULL};
static const char *const idem_names[] = {"token", "name", "list", "none", NULL};
static const char *const deadline_names[] = {"none", "server", "shutdown", "self_delete", "kill_pid1", NULL};
static const char *const down_names[] = {"always", "never", "idle", NULL};
static const char *const how_names[] = {"asked", "freed", "idle", "deadline", "failed", NULL};

_Static_assert(ARRAY_LEN(type_names) == FLEET_EVENT_LAST + 2, "a name for each type");
_Static_assert(ARRAY_LEN(fault_names) == PROVIDER_CLASS_BUDGET + 2, "a name for each fault");
_Static_assert(ARRAY_LEN(scope_names) == PROVIDER_SCOPE_RUN + 2, "a name for each scope");
_Static_assert(ARRAY_LEN(idem_names) == PROVIDER_IDEM_NONE + 2, "a name for each");
_Static_assert(ARRAY_LEN(deadline_names) == PROVIDER_DEADLINE_KILL_PID1 + 2, "a name for each");
_Static_assert(ARRAY_LEN(how_names) == FLEET_HOW_FAILED + 2, "a name for each");
_Static_assert(sizeof(enum provider_class) == sizeof(uint32_t) && sizeof(enum fleet_how) == sizeof(uint32_t),
               "FIELD_NAME is one of these");

static const struct field offer_fields[] = {
    OFFER("provider", provider, REQUIRED, TEXT),
    OFFER("region", region, REQUIRED, TEXT),
    OFFER("zone", zone, REQUIRED, TEXT),
    OFFER("type", type, REQUIRED, TEXT),
    OFFER("gpu", gpu, OPTIONAL, TEXT),
    OFFER("gpu_count", gpu_count, OPTIONAL),
    OFFER("spot", spot, OPTIONAL),
    OFFER("nodes", nodes, REQUIRED, .max = FLEET_NODES_MAX),
    OFFER("alternative", alternative, OPTIONAL),
    OFFER("gang_max", gang_max, REQUIRED, .max = FLEET_NODES_MAX),
    OFFER("price", price, OPTIONAL),
    OFFER("unpriced", unpriced, OPTIONAL),
    FIELD_NAME_OF(struct fleet_offer, "idem", idem, idem_names, REQUIRED),
    FIELD_NAME_OF(struct fleet_offer, "deadline", deadline, deadline_names, OPTIONAL),
    OFFER("settle_ms", settle_ms, OPTIONAL),
    OFFER("late_ms", late_ms, OPTIONAL),
    OFFER("poll_ms", poll_ms, OPTIONAL),
    OFFER("ready_ms", ready_ms, OPTIONAL),
};
static const struct fields offers = {offer_fields, ARRAY_LEN(offer_fields), sizeof(struct fleet_offer)};

static const struct field wanted_fields[] = {
    HEAD,
    FIELD("id", wanted.id, REQUIRED, TEXT),
    FIELD("name", wanted.name, REQUIRED, TEXT),
    FIELD("owner", wanted.owner, REQUIRED, TEXT),
    FIELD("what", wanted.what, OPTIONAL, TEXT),
    FIELD("image", wanted.image, OPTIONAL, TEXT),
    FIELD("user", wanted.user, OPTIONAL, TEXT),
    FIELD("disk_gb", wanted.disk_gb, OPTIONAL),
    FIELD("deadline_ms", wanted.deadline_ms, OPTIONAL),
    FIELD("max_price", wanted.max_price, OPTIONAL),
    NAME("down", wanted.down, down_names, REQUIRED),
    FIELD("idle_ms", wanted.idle_ms, OPTIONAL),
    FIELD_OBJECTS_OF(struct fleet_event, "offers", wanted.offers, wanted.offer_count, &offers, REQUIRED, .min = 1,
                     .max = FLEET_OFFERS_MAX),
};
static const struct field intent_fields[] = {
    HEAD,
    FIELD("name", intent.name, REQUIRED, TEXT),
    FIELD("token", intent.token, REQUIRED, TEXT),
    FIELD("offer", intent.offer, REQUIRED, .max = FLEET_OFFERS_MAX - 1),
    FIELD("slot", intent.slot, REQUIRED, .max = FLEET_NODES_MAX - 1),
    FIELD("count", intent.count, REQUIRED, .max = FLEET_NODES_MAX),
    FIELD("price", intent.price, REQUIRED),
    FIELD("deadline_ms", intent.deadline_ms, OPTIONAL),
};
static const struct field created_fields[] = {
    HEAD,
    FIELD("provider", created.provider, REQUIRED, TEXT),
    FIELD("region", created.region, REQUIRED, TEXT),
    FIELD("id", created.id, REQUIRED, TEXT),
    FIELD("intent", created.intent, REQUIRED, TEXT),
    FIELD("found", created.found, OPTIONAL),
    FIELD("price", created.price, OPTIONAL, .max = FLEET_TOLD_PRICE_MAX),
};
static const struct field ready_fields[] = {
    HEAD,
    FIELD("provider", machine.provider, REQUIRED, TEXT),
    FIELD("id", machine.id, REQUIRED, TEXT),
    FIELD("address", machine.address, REQUIRED, TEXT),
    FIELD("host_key", machine.host_key, REQUIRED, TEXT),
    FIELD("price", machine.price, OPTIONAL, .max = FLEET_TOLD_PRICE_MAX),
};
static const struct field machine_fields[] = {
    HEAD,
    FIELD("provider", machine.provider, REQUIRED, TEXT),
    FIELD("id", machine.id, REQUIRED, TEXT),
    NAME("fault", machine.fault, fault_names, OPTIONAL),
    NAME("scope", machine.scope, scope_names, OPTIONAL),
    FIELD("text", machine.text, OPTIONAL, TEXT),
};
static const struct field noticed_fields[] = {
    HEAD,
    FIELD("provider", machine.provider, REQUIRED, TEXT),
    FIELD("id", machine.id, REQUIRED, TEXT),
    FIELD("at_ms", machine.at_ms, REQUIRED),
};
static const struct field void_fields[] = {
    HEAD,
    FIELD("intent", end.intent, REQUIRED, TEXT),
    NAME("fault", end.fault, fault_names, OPTIONAL),
    NAME("scope", end.scope, scope_names, OPTIONAL),
    FIELD("text", end.text, OPTIONAL, TEXT),
};
static const struct field retreat_fields[] = {
    HEAD,
    NAME("fault", end.fault, fault_names, REQUIRED),
    NAME("scope", end.scope, scope_names, REQUIRED),
    FIELD("text", end.text, OPTIONAL, TEXT),
};
static const struct field replace_fields[] = {
    HEAD,
    FIELD("slot", replace.slot, REQUIRED, .max = FLEET_NODES_MAX - 1),
    FIELD("text", replace.text, OPTIONAL, TEXT),
};
static const struct field unreplaced_fields[] = {
    HEAD,
    FIELD("slot", end.slot, REQUIRED, .max = FLEET_NODES_MAX - 1),
    NAME("fault", end.fault, fault_names, OPTIONAL),
    NAME("scope", end.scope, scope_names, OPTIONAL),
    FIELD("text", end.text, OPTIONAL, TEXT),
};
static const struct field held_fields[] = {HEAD, FIELD("by", held.by, REQUIRED, TEXT)};
static const struct field ending_fields[] = {
    HEAD,
    NAME("how", end.how, how_names, REQUIRED),
    NAME("fault", end.fault, fault_names, OPTIONAL),
    FIELD("text", end.text, OPTIONAL, TEXT),
};

static const struct field bare_fields[] = {HEAD};

#define EVENT(fields)                                         \
    {                                                         \
        fields, ARRAY_LEN(fields), sizeof(struct fleet_event) \
    }
static const struct fields event_fields[FLEET_EVENT_LAST + 1] = {
    [FLEET_WANTED] = EVENT(wanted_fields),
    [FLEET_INTENT] = EVENT(intent_fields),
    [FLEET_CREATED] = EVENT(created_fields),
    [FLEET_READY] = EVENT(ready_fields),
    [FLEET_RETURNING] = EVENT(machine_fields),
    [FLEET_GONE] = EVENT(machine_fields),
    [FLEET_VOID] = EVENT(void_fields),
    [FLEET_RETREAT] = EVENT(retreat_fields),
    [FLEET_COMPLETE] = EVENT(bare_fields),
    [FLEET_REPLACE] = EVENT(replace_fields),
    [FLEET_UNREPLACED] = EVENT(unreplaced_fields),
    [FLEET_NOTICED] = EVENT(noticed_fields),
    [FLEET_HELD] = EVENT(held_fields),
    [FLEET_FREED] = EVENT(bare_fields),
    [FLEET_ENDING] = EVENT(ending_fields),
    [FLEET_OVER] = EVENT(bare_fields),
    [FLEET_SETTLED] = EVENT(bare_fields),
};
static const struct fields_types types = {"an event of a cluster", event_fields, FLEET_WANTED, FLEET_JSON_MAX};

const char *fleet_event_name(enum fleet_event_type type)
{
    return type_names[type];
}

/* ---- copies ---- */

bool text_is_plain(const char *s)
{
    const size_t len = s ? strnlen(s, FLEET_TEXT_MAX + 1) : 0;
    if (len == 0 || len > FLEET_TEXT_MAX || !str_is_printable(s))
        return false;
    for (size_t at = 0; at < len;) {
        const size_t n = utf8_length((const unsigned char *)s + at, len - at);
        if (n == 0)
            return false;
        at += n;
    }
    return true;
}

void event_copy(struct arena *arena, struct fleet_event *e)
{
    const struct fields *fields = &event_fields[e->type];
    for (const struct field *f = fields->at; f < fields->at + fields->count; f++) {
        if (f->kind != FIELD_STRING)
            continue;
        const char **at = (const char **)(void *)((char *)e + f->offset);
        if (!*at)
            continue;
        char *copy = arena_strndup(arena, *at, strnlen(*at, FLEET_TEXT_MAX));
        str_printable(copy);
        *at = copy;
    }
}

/* ---- JSON ---- */

void fleet_event_to_json(const struct fleet_event *e, struct buf *ret)
{
    fields_to_json(&event_fields[e->type], e, ret);
}

int fleet_event_from_json(const char *text, size_t len, struct arena *arena, struct fleet_event *ret, struct error *err)
{
    struct fleet_event e;
    memset(&e, 0, sizeof e); /* = {0} need not clear more than the union's first member */
    if (fields_from_json(&types, text, len, arena, &e, err) < 0)
        return -1;
    *ret = e;
    return 0;
}
