/* The meaning of a reply: reads it, judges it, and takes its values. */
#include "internal.h"

#include <string.h>

static bool status_good(const struct doc_node *ok, int status)
{
    for (size_t i = 0; ok && i < ok->count; i++)
        if (ok->items[i]->integer == status)
            return true;
    return !ok && status >= 200 && status <= 299;
}

static bool accepted(const struct doc_node *accept, enum provider_class class)
{
    for (size_t i = 0; accept && i < accept->count; i++)
        if (str_eq(accept->items[i]->text, provider_class_name(class)))
            return true;
    return false;
}

static bool says_good(const struct answer *a, const struct step *step)
{
    const struct doc_node *ok = doc_get(step->node, "ok_when"), *fail = doc_get(step->node, "fail_when");
    return (!ok || predicate_holds(a, ok)) && (!fail || !predicate_holds(a, fail));
}

static void extract_values(const struct answer *a, const struct step *step, struct provider_result *result)
{
    const struct doc_node *extract = doc_get(step->node, "extract");
    for (size_t i = 0; extract && i < extract->count; i++) {
        const struct doc_node *value = extract_node(a, extract->members[i].value, answer_top(a));
        if (value && value->text_len <= TEXT_MAX)
            doc_set(a->arena, result->values, extract->members[i].key, doc_clone(a->arena, value));
    }
}

static void dirty(const struct answer *a, const char *why, struct provider_result *result)
{
    result->outcome = PROVIDER_FAILED;
    result->class = PROVIDER_CLASS_TRANSIENT;
    result->scope = PROVIDER_SCOPE_REGION;
    result->unsure = true;
    result->code = NULL;
    result->message = arena_printf(a->arena, "%s", why);
    result->machine_count = result->offer_count = 0;
    result->next = NULL;
}

/* A deleted machine that the provider no longer knows has this state, and no other field. */
static void gone_machine(const struct answer *a, struct provider_result *result)
{
    const struct doc_node *id = input_find(a->fill, "id");
    result->machines = arena_array(a->arena, 1, sizeof *result->machines);
    result->machines[0] = (struct provider_machine){.id = id ? id->text : NULL, .state = PROVIDER_STATE_GONE};
    result->machine_count = 1;
}

static void take_good(const struct answer *a, const struct step *step, struct provider_result *result)
{
    const struct doc_node *done = doc_get(step->node, "done_when");
    result->outcome = done && !predicate_holds(a, done) ? PROVIDER_PENDING : PROVIDER_DONE;
    const char *fault = machines_read(a, step, result);
    if (!fault)
        fault = offers_read(a, step, result);
    if (fault) {
        dirty(a, fault, result);
        return;
    }
    if (!page_read(a, doc_get(step->node, "page"), result))
        dirty(a, "the next page of the reply is at another host, or is this one again", result);
    else if (result->outcome == PROVIDER_PENDING && !doc_get(result->values, "operation"))
        dirty(a, "the reply names no operation to ask for", result);
}

/* A reply from which nothing is extracted may have any body, or none. */
static bool needs_body(const struct step *step)
{
    static const char *const keys[] = {"ok_when", "fail_when", "done_when", "extract",
                                       "machine", "machines",  "page",      "offers"};
    bool needs = false;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        needs |= doc_get(step->node, keys[i]) != NULL;
    return needs;
}

static void judge(struct answer *a, const struct step *step, struct provider_result *result)
{
    bool good = status_good(doc_get(step->node, "ok"), a->reply->status);
    bool read = answer_read(a);
    if (read)
        extract_values(a, step, result);
    if (good && !read && needs_body(step)) {
        dirty(a, a->reply->body_len > PROVIDER_REPLY_MAX ? "the reply is too large" : "the reply cannot be read",
              result);
        return;
    }
    if (good && says_good(a, step)) {
        take_good(a, step, result);
        return;
    }
    error_judge(a, step, result);
    if (!accepted(doc_get(step->node, "accept"), result->class))
        return;
    result->outcome = PROVIDER_DONE;
    result->unsure = false;
    if (result->class == PROVIDER_CLASS_NOTFOUND && a->fill->ask->operation == PROVIDER_DELETE)
        gone_machine(a, result);
}

void provider_reply(const struct provider *provider, const struct provider_ask *ask, const struct provider_reply *reply,
                    struct arena *arena, struct provider_result *ret_result)
{
    struct error unused = ERROR_INIT;
    const struct filling fill = {provider, ask, arena, &unused};
    const struct step *step = &provider->operations[ask->operation].steps[ask->step];
    struct answer a = {.fill = &fill, .reply = reply, .arena = arena, .kind = step->reply};
    memset(ret_result, 0, sizeof *ret_result);
    ret_result->values = doc_new_object(arena);
    judge(&a, step, ret_result);
    answer_free(&a);
}
