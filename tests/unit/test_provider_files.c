/*
 * provider: the built-in files against what their providers document. tests/fixtures/provider/NAME.yaml has, for each operation, the
 * canonical request, and replies with what they mean. Each file, each step and each rule for errors has a case.
 */
#include "rhrun/provider.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct playing {
    struct arena *arena;
    struct provider *provider;
    struct provider_credentials *credentials;
    const char *name;
    size_t bad;
    bool seen[PROVIDER_OPERATIONS][PROVIDER_STEPS_MAX];
};

static struct doc_node *load_fixture(struct arena *arena, const char *name)
{
    struct diagnostics d = {0};
    struct error err = ERROR_INIT;
    struct doc *doc;
    char *path = arena_printf(arena, "%s/provider/%s.yaml", FIXTURES, name);
    if (doc_load_file(path, DOC_FORMAT_YAML, arena, &doc, &d, &err) < 0) {
        struct buf text = {0};
        diagnostics_format(&d, false, &text);
        fail_msg("%s\n%s", err.text, text.data ? text.data : "");
    }
    diagnostics_free(&d);
    return doc->root;
}

static struct provider *load_provider(struct arena *arena, const char *name)
{
    struct diagnostics d = {0};
    struct error err = ERROR_INIT;
    struct provider *provider = NULL;
    if (provider_load(name, arena, &provider, &d, &err) < 0) {
        struct buf text = {0};
        diagnostics_format(&d, false, &text);
        fail_msg("%s\n%s", err.text, text.data ? text.data : "");
    }
    assert_int_equal(d.count, 0);
    diagnostics_free(&d);
    return provider;
}

static void put(struct arena *a, struct doc_node *object, const char *key, const char *text)
{
    if (text)
        doc_set(a, object, key, doc_new_string(a, text));
}

/* ---- requests ---- */

static const char *auth_text(const struct playing *p, const struct provider_auth *auth)
{
    static const char *const kinds[] = {"none", "bearer", "basic", "header", "sigv4", "mtls"};
    struct buf text = {0};
    buf_puts(&text, kinds[auth->kind]);
    const char *parts[] = {auth->header, auth->user, auth->value, auth->service, auth->region, auth->session};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (parts[i])
            buf_printf(&text, " %s", parts[i]);
    char *ret = arena_strdup(p->arena, text.data);
    buf_free(&text);
    return ret;
}

static struct doc_node *request_doc(const struct playing *p, const struct provider_request *r, bool json)
{
    struct arena *a = p->arena;
    struct doc_node *ret = doc_new_object(a);
    struct doc *body;
    struct diagnostics d = {0};
    put(a, ret, "method", r->method);
    put(a, ret, "url", r->url);
    put(a, ret, "socket", r->socket);
    put(a, ret, "auth", auth_text(p, &r->auth));
    put(a, ret, "group", r->group);
    doc_set(a, ret, "interval_ms", doc_new_int(a, (int64_t)r->interval_ms));
    if (r->body && json) {
        assert_int_equal(doc_load_text("body", r->body, r->body_len, DOC_FORMAT_JSON, a, &body, &d, NULL), 0);
        doc_set(a, ret, "json", body->root);
    } else if (r->body) {
        put(a, ret, "form", r->body);
    }
    return ret;
}

static enum provider_operation operation_of(const char *name)
{
    for (int i = 0; i < PROVIDER_OPERATIONS; i++)
        if (str_eq(provider_operation_name((enum provider_operation)i), name))
            return (enum provider_operation)i;
    fail_msg("no operation %s", name);
    return PROVIDER_OPERATIONS;
}

static void complain(struct playing *p, const struct doc_node *c, const char *key, const struct doc_node *got)
{
    struct buf text = {0};
    if (got)
        doc_to_json(got, DOC_JSON_PLAIN, &text);
    print_error("tests/fixtures/provider/%s.yaml:%u: %s is %s\n", p->name, c->place.line, key,
                got ? text.data : "not there");
    buf_free(&text);
    p->bad++;
}

/* All that the case expects is there as it expects it; with `all`, nothing else. */
static void compare(struct playing *p, const struct doc_node *c, const struct doc_node *expected,
                    const struct doc_node *got, bool all)
{
    static const char *const usual[] = {"group", "interval_ms", "socket"};
    for (size_t i = 0; i < expected->count; i++) {
        const char *key = expected->members[i].key;
        const struct doc_node *wanted = expected->members[i].value, *there = doc_get(got, key);
        if (wanted->type == DOC_NULL ? there != NULL : !there || !doc_equal(wanted, there))
            complain(p, c, key, there);
    }
    for (size_t i = 0; all && i < got->count; i++) {
        bool optional = false;
        for (size_t k = 0; k < ARRAY_LEN(usual); k++)
            optional |= str_eq(usual[k], got->members[i].key);
        if (!optional && !doc_get(expected, got->members[i].key))
            complain(p, c, got->members[i].key, got->members[i].value);
    }
}

static struct provider_ask ask_of(struct playing *p, const struct doc_node *c, const struct doc_node *common)
{
    struct doc_node *inputs = common ? doc_clone(p->arena, common) : doc_new_object(p->arena);
    const struct doc_node *own = doc_get(c, "inputs");
    for (size_t i = 0; own && i < own->count; i++)
        doc_set(p->arena, inputs, own->members[i].key, own->members[i].value);
    return (struct provider_ask){.operation = operation_of(doc_get_string(c, "operation", "")),
                                 .step = (size_t)doc_get_int(c, "step", 0),
                                 .inputs = inputs,
                                 .credentials = p->credentials,
                                 .page = doc_get_text(c, "page", NULL),
                                 .access_token = doc_get_string(c, "access_token", NULL)};
}

static void play_request(struct playing *p, const struct doc_node *c, const struct doc_node *common)
{
    struct provider_ask ask = ask_of(p, c, common);
    struct provider_request request;
    struct error err = ERROR_INIT;
    const char *refused = doc_get_string(c, "refused", NULL);
    const struct doc_node *due = doc_get(c, "due");
    assert_true(ask.step < provider_steps(p->provider, ask.operation));
    p->seen[ask.operation][ask.step] = true;
    if (provider_step_due(p->provider, &ask) != (!due || due->boolean))
        complain(p, c, "due", due);
    if (due && !due->boolean)
        return;
    int rc = provider_request(p->provider, &ask, p->arena, &request, &err);
    if (rc < 0 || refused) {
        if (rc == 0 || !refused || !strstr(err.text, refused))
            complain(p, c, "refused", doc_new_string(p->arena, err.text));
        return;
    }
    assert_true(strlen(request.url) < 8193);
    struct doc_node *got = request_doc(p, &request, doc_get(c, "json") != NULL);
    struct doc_node *expected = doc_clone(p->arena, c);
    static const char *const own[] = {"operation", "step", "inputs", "page", "due", "access_token", "comment"};
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        doc_remove(expected, own[i]);
    if (!doc_get(expected, "auth"))
        doc_remove(got, "auth");
    compare(p, c, expected, got, true);
}

/* ---- replies ---- */

static struct doc_node *machine_doc(struct arena *a, const struct provider_machine *m)
{
    static const char *const states[] = {"coming", "ready", "failed", "gone"};
    struct doc_node *ret = doc_new_object(a);
    put(a, ret, "id", m->id);
    put(a, ret, "name", m->name);
    put(a, ret, "status", m->status);
    put(a, ret, "reason", m->reason);
    put(a, ret, "public_ip", m->public_ip);
    put(a, ret, "private_ip", m->private_ip);
    put(a, ret, "port", m->port);
    put(a, ret, "zone", m->zone);
    put(a, ret, "type", m->type);
    put(a, ret, "run", m->run);
    put(a, ret, "node", m->node);
    put(a, ret, "owner", m->owner);
    put(a, ret, "expires", m->expires);
    put(a, ret, "price", m->price);
    put(a, ret, "state", states[m->state]);
    return ret;
}

static struct doc_node *result_doc(struct arena *a, const struct provider_result *r)
{
    static const char *const outcomes[] = {"done", "pending", "failed"};
    struct doc_node *ret = doc_new_object(a), *machines = doc_new_array(a), *offers = doc_new_array(a);
    put(a, ret, "outcome", outcomes[r->outcome]);
    if (r->outcome == PROVIDER_FAILED) {
        put(a, ret, "class", provider_class_name(r->class));
        put(a, ret, "scope", provider_scope_name(r->scope));
    }
    put(a, ret, "code", r->code);
    put(a, ret, "message", r->message);
    put(a, ret, "next", r->next);
    doc_set(a, ret, "values", r->values);
    doc_set(a, ret, "unsure", doc_new_bool(a, r->unsure));
    doc_set(a, ret, "retry_after_ms", doc_new_int(a, (int64_t)r->retry_after_ms));
    for (size_t i = 0; i < r->machine_count; i++)
        doc_append(a, machines, machine_doc(a, &r->machines[i]));
    for (size_t i = 0; i < r->offer_count; i++) {
        struct doc_node *offer = doc_new_object(a);
        put(a, offer, "type", r->offers[i].type);
        put(a, offer, "region", r->offers[i].region);
        doc_set(a, offer, "price", doc_new_float(a, r->offers[i].price_usd_hour));
        doc_append(a, offers, offer);
    }
    doc_set(a, ret, "machines", machines);
    doc_set(a, ret, "offers", offers);
    return ret;
}

static void play_reply(struct playing *p, const struct doc_node *c, const struct doc_node *common)
{
    struct provider_ask ask = ask_of(p, c, common);
    const struct doc_node *body = doc_get(c, "body"), *headers = doc_get(c, "headers");
    struct provider_header list[8];
    struct buf text = {0};
    if (body && body->type == DOC_STRING)
        buf_append(&text, body->text, body->text_len);
    else if (body)
        doc_to_json(body, DOC_JSON_PLAIN, &text);
    for (size_t i = 0; headers && i < headers->count; i++)
        list[i] = (struct provider_header){headers->members[i].key, headers->members[i].value->text};
    struct provider_reply reply = {.status = (int)doc_get_int(c, "status", 200),
                                   .headers = list,
                                   .header_count = headers ? headers->count : 0,
                                   .body = text.data,
                                   .body_len = text.len,
                                   .now_s = 1700000000};
    struct provider_result result;
    provider_reply(p->provider, &ask, &reply, p->arena, &result);
    buf_free(&text);
    compare(p, c, doc_get(c, "expect"), result_doc(p->arena, &result), false);
}

/* ---- all of a file ---- */

static void steps_covered(const struct playing *p)
{
    for (int o = 0; o < PROVIDER_OPERATIONS; o++)
        for (size_t s = 0; s < provider_steps(p->provider, (enum provider_operation)o); s++)
            if (!p->seen[o][s])
                fail_msg("%s: no request of %s, step %zu, in tests/fixtures/provider", p->name,
                         provider_operation_name((enum provider_operation)o), s);
}

static void find_credentials(struct playing *p, const struct doc_node *root)
{
    const struct doc_node *env = doc_get(root, "env");
    const char *const *exec;
    struct error err = ERROR_INIT;
    const char *home = doc_get_string(root, "home", NULL);
    setenv("HOME", home ? arena_printf(p->arena, "%s/provider/%s", FIXTURES, home) : "/nonexistent", 1);
    for (size_t i = 0; env && i < env->count; i++)
        setenv(env->members[i].key, env->members[i].value->text, 1);
    if (provider_credentials_find(p->provider, p->arena, &p->credentials, &exec, &err) != PROVIDER_FOUND)
        fail_msg("%s: %s", err.text, err.hint);
}

static void play(const char *name)
{
    struct playing p = {.arena = arena_create(), .name = name};
    const struct doc_node *root = load_fixture(p.arena, name);
    const struct doc_node *requests = doc_get(root, "requests"), *replies = doc_get(root, "replies");
    const struct doc_node *inputs = doc_get(root, "inputs");
    p.provider = load_provider(p.arena, name);
    assert_string_equal(provider_facts(p.provider)->name, name);
    find_credentials(&p, root);
    for (size_t i = 0; i < requests->count; i++)
        play_request(&p, requests->items[i], inputs);
    for (size_t i = 0; i < replies->count; i++)
        play_reply(&p, replies->items[i], inputs);
    assert_int_equal(p.bad, 0);
    steps_covered(&p);
    provider_credentials_destroy(p.credentials);
    provider_destroy(p.provider);
    arena_destroy(p.arena);
}

static void test_every_builtin_file_keeps_to_its_facts(void **state)
{
    (void)state;
    struct arena *arena = arena_create();
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    const char *const *names = provider_list(arena);
    assert_non_null(names[0]);
    for (; *names; names++)
        play(*names);
    arena_destroy(arena);
}

/* What no machine has told does not pass: each rule of a file is there for a reply that is in the fixtures. */
static size_t count_rules(const struct doc_node *node)
{
    const struct doc_node *errors = doc_get(node, "errors");
    size_t count = errors ? errors->count : 0;
    for (size_t i = 0; node->type == DOC_OBJECT && i < node->count; i++)
        if (node->members[i].value != errors)
            count += count_rules(node->members[i].value);
    for (size_t i = 0; node->type == DOC_ARRAY && i < node->count; i++)
        count += count_rules(node->items[i]);
    return count;
}

static void test_there_is_an_error_for_each_rule(void **state)
{
    (void)state;
    struct arena *arena = arena_create();
    for (const char *const *name = provider_list(arena); *name; name++) {
        struct diagnostics d = {0};
        struct doc *doc;
        size_t len, errors = 0;
        const char *text = provider_builtin(*name, &len);
        assert_int_equal(doc_load_text(*name, text, len, DOC_FORMAT_YAML, arena, &doc, &d, NULL), 0);
        const struct doc_node *replies = doc_get(load_fixture(arena, *name), "replies");
        for (size_t i = 0; i < replies->count; i++)
            errors += doc_get(doc_get(replies->items[i], "expect"), "class") != NULL;
        if (errors < count_rules(doc->root))
            fail_msg("%s has %zu rules for errors, and %zu replies that are errors", *name, count_rules(doc->root),
                     errors);
    }
    arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_builtin_file_keeps_to_its_facts),
        cmocka_unit_test(test_there_is_an_error_for_each_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
