/*
 * Any bytes as a reply: the first byte says which operation of a provider in JSON, in XML, or of docker's lines, the second
 * the status. Judging ends, every machine has an id, and what is told is bounded and printable.
 */
#include "rhrun/provider.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char xml[] =
    "provider: small\n"
    "title: Small\n"
    "base: https://example.com\n"
    "auth: {kind: none}\n"
    "reply: xml\n"
    "machine: {extract: {id: instanceId, status: instanceState/name, private_ip: privateIpAddress,\n"
    "  run: \"tagSet/item[key='rhrun-run']/value\"}, ready: [running]}\n"
    "idem: list\n"
    "deadline: none\n"
    "billing_when_stopped: true\n"
    "risk: it bills until it is deleted\n"
    "error: {code: //Error/Code, message: //Error/Message}\n"
    "errors: [{code: \".*Capacity\", class: capacity}, {text: \"slow (down)?\", class: throttled}]\n"
    "operations:\n"
    "  create: {post: /, machines: //instancesSet/item, extract: {id: //instanceId}}\n"
    "  get: {get: /, machine: //instancesSet/item}\n"
    "  list: {get: /, machines: //instancesSet/item, page: {kind: token, at: //nextToken, param: n}}\n"
    "  delete: {delete: /, accept: [notfound]}\n";

static struct provider *providers[8];
static size_t provider_count;

static void load_all(struct arena *arena)
{
    struct diagnostics d = {0};
    const char *const *names = provider_list(arena);
    if (provider_load_text("xml.yaml", xml, strlen(xml), arena, &providers[provider_count++], &d, NULL) < 0)
        abort();
    for (; *names && provider_count < 8; names++)
        if (provider_load(*names, arena, &providers[provider_count++], &d, NULL) < 0)
            abort();
}

static void check(const struct provider_result *r)
{
    for (size_t i = 0; i < r->machine_count; i++)
        if (!r->machines[i].id && r->machines[i].state != PROVIDER_STATE_GONE)
            abort();
    if (r->message && (strlen(r->message) > PROVIDER_TEXT_MAX || !str_is_printable(r->message)))
        abort();
    if (r->outcome == PROVIDER_FAILED && r->class == PROVIDER_CLASS_NONE)
        abort();
    if (!r->values || r->machine_count > PROVIDER_ITEMS_MAX || r->offer_count > PROVIDER_ITEMS_MAX)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int statuses[] = {200, 201, 204, 0, 400, 401, 403, 404, 409, 412, 422, 429, 500, 502, 503};
    static struct arena *forever;
    if (!forever) {
        forever = arena_create();
        load_all(forever);
    }
    if (size < 2)
        return 0;
    const struct provider *p = providers[data[0] % provider_count];
    struct provider_ask ask = {.operation = (enum provider_operation)(data[0] / 8 % PROVIDER_OPERATIONS)};
    if (!provider_has(p, ask.operation))
        ask.operation = PROVIDER_LIST;
    ask.step = data[1] / 16 % provider_steps(p, ask.operation);
    struct provider_reply reply = {
        .status = statuses[data[1] % ARRAY_LEN(statuses)], .body = (const char *)data + 2, .body_len = size - 2};
    struct arena *arena = arena_create();
    struct provider_result result;
    provider_reply(p, &ask, &reply, arena, &result);
    check(&result);
    arena_destroy(arena);
    return 0;
}
