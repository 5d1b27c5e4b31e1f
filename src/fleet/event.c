/* Events of a cluster's ledger as JSON. For each type there is a table of its fields; one function walks the table to
 * write, one to read, so a field is named here and nowhere else. */
#include "internal.h"

#include <jansson.h>
#include <string.h>

enum kind { FIELD_STRING, FIELD_U32, FIELD_U64, FIELD_BOOL, FIELD_NAME, FIELD_OFFERS };

struct field {
    const char *key;
    enum kind kind;
    size_t offset;
    bool required; /* else 0, false and NULL are left out */
    uint64_t max;  /* of a number; 0: what its type has */
    const char *const *names;
};

#define KIND(member) \
    _Generic((member), const char * : FIELD_STRING, uint32_t : FIELD_U32, uint64_t : FIELD_U64, bool : FIELD_BOOL)
#define OF(type, key, member, ...)                                          \
    {                                                                       \
        key, KIND(((type *)0)->member), offsetof(type, member), __VA_ARGS__ \
    }
#define NAMED(type, key, member, of_names, ...)                                 \
    {                                                                           \
        key, FIELD_NAME, offsetof(type, member), __VA_ARGS__, .names = of_names \
    }
#define FIELD(key, member, ...) OF(struct fleet_event, key, member, __VA_ARGS__)
#define NAME(key, member, of_names, ...) NAMED(struct fleet_event, key, member, of_names, __VA_ARGS__)
#define REQUIRED .required = true
#define OPTIONAL .required = false

static const char *const type_names[] = {"",        "wanted", "intent",  "created",  "ready",   "returning",
                                         "gone",    "void",   "retreat", "complete", "replace", "unreplaced",
                                         "noticed", "held",   "freed",   "ending",   "over",    NULL};
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
    OF(struct fleet_offer, "provider", provider, REQUIRED),
    OF(struct fleet_offer, "region", region, REQUIRED),
    OF(struct fleet_offer, "zone", zone, REQUIRED),
    OF(struct fleet_offer, "type", type, REQUIRED),
    OF(struct fleet_offer, "spot", spot, OPTIONAL),
    OF(struct fleet_offer, "nodes", nodes, REQUIRED, .max = FLEET_NODES_MAX),
    OF(struct fleet_offer, "gang_max", gang_max, REQUIRED, .max = FLEET_NODES_MAX),
    OF(struct fleet_offer, "price", price, OPTIONAL),
    OF(struct fleet_offer, "unpriced", unpriced, OPTIONAL),
    NAMED(struct fleet_offer, "idem", idem, idem_names, REQUIRED),
    NAMED(struct fleet_offer, "deadline", deadline, deadline_names, OPTIONAL),
    OF(struct fleet_offer, "settle_ms", settle_ms, OPTIONAL),
    OF(struct fleet_offer, "poll_ms", poll_ms, OPTIONAL),
    OF(struct fleet_offer, "ready_ms", ready_ms, OPTIONAL),
};

static const struct field wanted_fields[] = {
    FIELD("id", wanted.id, REQUIRED),
    FIELD("name", wanted.name, REQUIRED),
    FIELD("owner", wanted.owner, REQUIRED),
    FIELD("deadline_ms", wanted.deadline_ms, OPTIONAL),
    FIELD("max_price", wanted.max_price, OPTIONAL),
    NAME("down", wanted.down, down_names, REQUIRED),
    FIELD("idle_ms", wanted.idle_ms, OPTIONAL),
    {"offers", FIELD_OFFERS, offsetof(struct fleet_event, wanted.offers), REQUIRED},
};
static const struct field intent_fields[] = {
    FIELD("name", intent.name, REQUIRED),
    FIELD("token", intent.token, REQUIRED),
    FIELD("offer", intent.offer, REQUIRED, .max = FLEET_OFFERS_MAX - 1),
    FIELD("slot", intent.slot, REQUIRED, .max = FLEET_NODES_MAX - 1),
    FIELD("count", intent.count, REQUIRED, .max = FLEET_NODES_MAX),
    FIELD("price", intent.price, REQUIRED),
    FIELD("deadline_ms", intent.deadline_ms, OPTIONAL),
};
static const struct field created_fields[] = {
    FIELD("provider", created.provider, REQUIRED),
    FIELD("region", created.region, REQUIRED),
    FIELD("id", created.id, REQUIRED),
    FIELD("intent", created.intent, REQUIRED),
    FIELD("found", created.found, OPTIONAL),
};
static const struct field ready_fields[] = {
    FIELD("provider", machine.provider, REQUIRED),
    FIELD("id", machine.id, REQUIRED),
    FIELD("address", machine.address, REQUIRED),
    FIELD("host_key", machine.host_key, REQUIRED),
};
static const struct field machine_fields[] = {
    FIELD("provider", machine.provider, REQUIRED),
    FIELD("id", machine.id, REQUIRED),
    NAME("fault", machine.fault, fault_names, OPTIONAL),
    NAME("scope", machine.scope, scope_names, OPTIONAL),
    FIELD("text", machine.text, OPTIONAL),
};
static const struct field noticed_fields[] = {
    FIELD("provider", machine.provider, REQUIRED),
    FIELD("id", machine.id, REQUIRED),
    FIELD("at_ms", machine.at_ms, REQUIRED),
};
static const struct field void_fields[] = {
    FIELD("intent", end.intent, REQUIRED),
    NAME("fault", end.fault, fault_names, OPTIONAL),
    NAME("scope", end.scope, scope_names, OPTIONAL),
    FIELD("text", end.text, OPTIONAL),
};
static const struct field retreat_fields[] = {
    NAME("fault", end.fault, fault_names, REQUIRED),
    NAME("scope", end.scope, scope_names, REQUIRED),
    FIELD("text", end.text, OPTIONAL),
};
static const struct field replace_fields[] = {
    FIELD("slot", replace.slot, REQUIRED, .max = FLEET_NODES_MAX - 1),
    FIELD("text", replace.text, OPTIONAL),
};
static const struct field unreplaced_fields[] = {
    FIELD("slot", end.slot, REQUIRED, .max = FLEET_NODES_MAX - 1),
    NAME("fault", end.fault, fault_names, OPTIONAL),
    NAME("scope", end.scope, scope_names, OPTIONAL),
    FIELD("text", end.text, OPTIONAL),
};
static const struct field held_fields[] = {FIELD("by", held.by, REQUIRED)};
static const struct field ending_fields[] = {
    NAME("how", end.how, how_names, REQUIRED),
    NAME("fault", end.fault, fault_names, OPTIONAL),
    FIELD("text", end.text, OPTIONAL),
};

static const struct fields {
    const struct field *at;
    size_t count;
} fields_of[] = {
    [FLEET_WANTED] = {wanted_fields, ARRAY_LEN(wanted_fields)},
    [FLEET_INTENT] = {intent_fields, ARRAY_LEN(intent_fields)},
    [FLEET_CREATED] = {created_fields, ARRAY_LEN(created_fields)},
    [FLEET_READY] = {ready_fields, ARRAY_LEN(ready_fields)},
    [FLEET_RETURNING] = {machine_fields, ARRAY_LEN(machine_fields)},
    [FLEET_GONE] = {machine_fields, ARRAY_LEN(machine_fields)},
    [FLEET_VOID] = {void_fields, ARRAY_LEN(void_fields)},
    [FLEET_RETREAT] = {retreat_fields, ARRAY_LEN(retreat_fields)},
    [FLEET_COMPLETE] = {NULL, 0},
    [FLEET_REPLACE] = {replace_fields, ARRAY_LEN(replace_fields)},
    [FLEET_UNREPLACED] = {unreplaced_fields, ARRAY_LEN(unreplaced_fields)},
    [FLEET_NOTICED] = {noticed_fields, ARRAY_LEN(noticed_fields)},
    [FLEET_HELD] = {held_fields, ARRAY_LEN(held_fields)},
    [FLEET_FREED] = {NULL, 0},
    [FLEET_ENDING] = {ending_fields, ARRAY_LEN(ending_fields)},
    [FLEET_OVER] = {NULL, 0},
};
static const struct field head_fields[] = {FIELD("seq", seq, REQUIRED), FIELD("time_ms", time_ms, REQUIRED)};
static const struct fields head = {head_fields, ARRAY_LEN(head_fields)};
static const struct fields offers = {offer_fields, ARRAY_LEN(offer_fields)};

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
    const struct fields *fields = &fields_of[e->type];
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

/* ---- writing ---- */

static void write_fields(struct buf *b, const struct fields *fields, const void *object);

static void write_string(struct buf *b, const char *s)
{
    buf_json_string(b, s, strlen(s));
}

static void write_offers(struct buf *b, const struct fleet_wanted *w)
{
    buf_putc(b, '[');
    for (uint32_t i = 0; i < w->offer_count; i++) {
        buf_puts(b, i ? ",{" : "{");
        const size_t begin = b->len;
        write_fields(b, &offers, &w->offers[i]);
        memmove(b->data + begin, b->data + begin + 1, b->len - begin); /* the comma in front, and the NUL with it */
        b->len--;
        buf_putc(b, '}');
    }
    buf_putc(b, ']');
}

static bool is_none(const struct field *f, const void *at)
{
    switch (f->kind) {
    case FIELD_STRING:
        return !*(const char *const *)at;
    case FIELD_U32:
    case FIELD_NAME:
        return !*(const uint32_t *)at;
    case FIELD_U64:
        return !*(const uint64_t *)at;
    case FIELD_BOOL:
        return !*(const bool *)at;
    case FIELD_OFFERS:
        return false;
    }
    return false;
}

/* Each with a comma in front. */
static void write_fields(struct buf *b, const struct fields *fields, const void *object)
{
    for (const struct field *f = fields->at; f < fields->at + fields->count; f++) {
        const void *at = (const char *)object + f->offset;
        if (!f->required && is_none(f, at))
            continue;
        buf_printf(b, ",\"%s\":", f->key);
        switch (f->kind) {
        case FIELD_STRING:
            write_string(b, *(const char *const *)at);
            break;
        case FIELD_U32:
            buf_printf(b, "%u", *(const uint32_t *)at);
            break;
        case FIELD_U64:
            buf_printf(b, "%llu", (unsigned long long)*(const uint64_t *)at);
            break;
        case FIELD_BOOL:
            buf_puts(b, *(const bool *)at ? "true" : "false");
            break;
        case FIELD_NAME:
            write_string(b, f->names[*(const uint32_t *)at]);
            break;
        case FIELD_OFFERS:
            write_offers(b, &((const struct fleet_event *)object)->wanted);
            break;
        }
    }
}

void fleet_event_to_json(const struct fleet_event *e, struct buf *ret)
{
    buf_printf(ret, "{\"type\":\"%s\"", type_names[e->type]);
    write_fields(ret, &head, e);
    write_fields(ret, &fields_of[e->type], e);
    buf_putc(ret, '}');
}

/* ---- reading ---- */

struct reader {
    struct arena *arena;
    struct error *err;
};

static int bad(const struct reader *r, const char *key)
{
    return error_set(r->err, ERROR_IO, "cannot read an event of a cluster: \"%s\" is missing, or has no such value",
                     key);
}

static int read_fields(const struct reader *r, const struct fields *fields, const json_t *from, void *object);

static int read_string(const struct reader *r, const struct field *f, const json_t *v, const char **ret)
{
    const char *s = json_string_value(v);
    if (!s || json_string_length(v) > 3 * FLEET_TEXT_MAX) /* a byte that is no UTF-8 was written as three */
        return bad(r, f->key);
    *ret = arena_strdup(r->arena, s);
    return 0;
}

static int read_number(const struct reader *r, const struct field *f, const json_t *v, uint64_t most, uint64_t *ret)
{
    const json_int_t n = json_integer_value(v);
    if (!json_is_integer(v) || n < 0 || (uint64_t)n > (f->max ? f->max : most))
        return bad(r, f->key);
    *ret = (uint64_t)n;
    return 0;
}

static int read_name(const struct reader *r, const char *key, const char *const *names, const json_t *v, uint32_t *ret)
{
    const char *s = json_string_value(v);
    for (uint32_t i = 0; s && names[i]; i++)
        if (names[i][0] && str_eq(names[i], s)) {
            *ret = i;
            return 0;
        }
    return bad(r, key);
}

static int read_offers(const struct reader *r, const struct field *f, const json_t *v, struct fleet_wanted *ret)
{
    const size_t count = json_array_size(v);
    if (count == 0 || count > FLEET_OFFERS_MAX)
        return bad(r, f->key);
    struct fleet_offer *items = arena_array(r->arena, count, sizeof *items);
    for (size_t i = 0; i < count; i++)
        if (read_fields(r, &offers, json_array_get(v, i), &items[i]) < 0)
            return -1;
    ret->offers = items;
    ret->offer_count = (uint32_t)count;
    return 0;
}

static int read_value(const struct reader *r, const struct field *f, const json_t *v, void *object)
{
    void *at = (char *)object + f->offset;
    uint64_t n = 0;
    switch (f->kind) {
    case FIELD_STRING:
        return read_string(r, f, v, at);
    case FIELD_U32:
        if (read_number(r, f, v, UINT32_MAX, &n) < 0)
            return -1;
        *(uint32_t *)at = (uint32_t)n;
        return 0;
    case FIELD_U64:
        return read_number(r, f, v, INT64_MAX, at);
    case FIELD_BOOL:
        if (!json_is_boolean(v))
            return bad(r, f->key);
        *(bool *)at = json_is_true(v);
        return 0;
    case FIELD_NAME:
        return read_name(r, f->key, f->names, v, at);
    case FIELD_OFFERS:
        return read_offers(r, f, v, &((struct fleet_event *)object)->wanted);
    }
    return bad(r, f->key);
}

/* Into a struct of zeros. */
static int read_fields(const struct reader *r, const struct fields *fields, const json_t *from, void *object)
{
    for (const struct field *f = fields->at; f < fields->at + fields->count; f++) {
        const json_t *v = json_object_get(from, f->key);
        if (!v && !f->required)
            continue;
        if (!v || read_value(r, f, v, object) < 0)
            return bad(r, f->key);
    }
    return 0;
}

static int read_event(const struct reader *r, const json_t *from, struct fleet_event *ret)
{
    uint32_t type = 0;
    if (read_name(r, "type", type_names, json_object_get(from, "type"), &type) < 0)
        return -1;
    ret->type = type;
    return read_fields(r, &head, from, ret) < 0 ? -1 : read_fields(r, &fields_of[type], from, ret);
}

int fleet_event_from_json(const char *text, size_t len, struct arena *arena, struct fleet_event *ret, struct error *err)
{
    const struct reader r = {arena, err};
    struct fleet_event e;
    json_error_t why;
    memset(&e, 0, sizeof e); /* = {0} need not reach behind the first member of the union */
    if (len > FLEET_JSON_MAX)
        return error_set(err, ERROR_IO, "cannot read an event of a cluster: larger than %d bytes", (int)FLEET_JSON_MAX);
    json_t *from = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (!from)
        return error_set(err, ERROR_IO, "cannot read an event of a cluster: %s", why.text);
    const int rc = read_event(&r, from, &e);
    json_decref(from);
    if (rc == 0)
        *ret = e;
    return rc;
}
