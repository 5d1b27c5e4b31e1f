/* Words of provider files, and their plain values. */
#include "internal.h"

#include <string.h>

const char *const class_names[] = {"none",     "auth",      "quota",     "capacity", "invalid", "exists",
                                   "notfound", "throttled", "transient", "budget",   NULL};
const char *const scope_names[] = {"none", "zone", "region", "type", "provider", "run", NULL};
static const char *const operation_names[] = {"prepare", "create",  "get",        "list",     "sweep",
                                              "delete",  "poll",    "key_create", "key_list", "key_delete",
                                              "stock",   "cleanup", NULL};
static const char *const idem_names[] = {"token", "name", "list", "none", NULL};
static const char *const deadline_names[] = {"none", "server", "shutdown", "self_delete", "kill_pid1", NULL};

#define EVERYWHERE "run", "owner", "cluster", "region", "zone"
static const char *const create_inputs[] = {
    EVERYWHERE,  "node",     "name",       "names", "count",     "type",  "image",   "disk_gb",     "spot",
    "key",       "key_name", "public_key", "user",  "user_data", "token", "expires", "max_seconds", "gpu",
    "gpu_count", "cpus",     "memory_gib", "id",    "env",       "ports", "cloud",   "max_price",   NULL};
static const char *const machine_inputs[] = {EVERYWHERE, "id", "name", "token", NULL};
static const char *const poll_inputs[] = {EVERYWHERE, "operation", NULL};
static const char *const list_inputs[] = {EVERYWHERE, NULL};
static const char *const key_inputs[] = {EVERYWHERE, "key", "key_name", "public_key", NULL};
static const char *const prepare_inputs[] = {EVERYWHERE, "image", "pull", "user", "expires", "unique", NULL};

int word_index(const char *const *words, const char *word)
{
    for (int i = 0; words[i]; i++)
        if (str_eq(words[i], word))
            return i;
    return -1;
}

const char *provider_operation_name(enum provider_operation operation)
{
    return operation < PROVIDER_OPERATIONS ? operation_names[operation] : "none";
}

const char *provider_class_name(enum provider_class class)
{
    return class_names[class];
}

const char *provider_scope_name(enum provider_scope scope)
{
    return scope_names[scope];
}

const char *const *provider_inputs(enum provider_operation operation)
{
    switch (operation) {
    case PROVIDER_CREATE:
        return create_inputs;
    case PROVIDER_GET:
    case PROVIDER_DELETE:
        return machine_inputs;
    case PROVIDER_POLL:
        return poll_inputs;
    case PROVIDER_KEY_CREATE:
    case PROVIDER_KEY_LIST:
    case PROVIDER_KEY_DELETE:
        return key_inputs;
    case PROVIDER_PREPARE:
    case PROVIDER_CLEANUP:
        return prepare_inputs;
    case PROVIDER_LIST:
    case PROVIDER_SWEEP:
    case PROVIDER_STOCK:
    case PROVIDER_OPERATIONS:
        break;
    }
    return list_inputs;
}

uint64_t duration_ms(const struct doc_node *node, uint64_t otherwise)
{
    uint64_t ms;
    return node && parse_duration_ms(node->text, &ms) ? ms : otherwise;
}

void facts_read(struct provider *p)
{
    const struct doc_node *r = p->root, *billing = doc_get(r, "billing_when_stopped"), *poll = doc_get(r, "poll");
    const struct doc_node *zones = doc_get(r, "zones");
    p->facts = (struct provider_facts){
        .name = doc_get_string(r, "provider", ""),
        .title = doc_get_string(r, "title", ""),
        .user = doc_get_string(r, "user", "root"),
        .connect = doc_get_string(r, "connect", "ssh"),
        .idem = (enum provider_idem)word_index(idem_names, doc_get_string(r, "idem", "none")),
        .deadline = (enum provider_deadline)word_index(deadline_names, doc_get_string(r, "deadline", "none")),
        .billing_when_stopped = billing->type == DOC_STRING ? PROVIDER_BILLS_DISK
                                : billing->boolean          ? PROVIDER_BILLS_FULLY
                                                            : PROVIDER_BILLS_NOTHING,
        .spot = doc_get_bool(r, "spot", false),
        .stoppable = doc_get_bool(r, "stoppable", false),
        .gang_max = (uint32_t)doc_get_int(r, "gang_max", 1),
        .settle_ms = duration_ms(doc_get(r, "settle"), 10000),
        .late_ms = duration_ms(doc_get(r, "late"), 0),
        .poll_ms = duration_ms(doc_get(poll, "every"), 3000),
        .ready_ms = duration_ms(doc_get(poll, "within"), 600000),
        .user_data_max = (uint64_t)doc_get_int(r, "user_data_max", 0),
        .name_max = (uint32_t)doc_get_int(r, "name_max", 63),
        .image = doc_get_string(r, "image", NULL),
        .image_gpu = doc_get_string(r, "image_gpu", NULL),
        .free_type = doc_get_string(doc_get(r, "free"), "type", NULL),
        .free_region = doc_get_string(doc_get(r, "free"), "region", NULL),
        .console = doc_get_string(r, "console", NULL),
        .risk = doc_get_string(r, "risk", ""),
    };
    for (size_t i = 0; zones && i < zones->count && i < PROVIDER_ZONES_MAX; i++)
        p->facts.zones[p->facts.zone_count++] = zones->items[i]->text;
}

const struct provider_facts *provider_facts(const struct provider *provider)
{
    return &provider->facts;
}

size_t provider_steps(const struct provider *provider, enum provider_operation operation)
{
    return operation < PROVIDER_OPERATIONS ? provider->operations[operation].count : 0;
}

bool provider_has(const struct provider *provider, enum provider_operation operation)
{
    return provider_steps(provider, operation) > 0;
}

size_t many_count(const struct doc_node *node)
{
    return !node ? 0 : node->type == DOC_ARRAY ? node->count : 1;
}

const struct doc_node *one_of_many(const struct doc_node *node, size_t at)
{
    return node->type == DOC_ARRAY ? node->items[at] : node;
}
