/*
 * provider: the built-in files against the documents of their providers. tests/fixtures/provider/NAME.yaml has, for
 * each operation, the canonical request, and replies with their meaning. Each file, each step and each rule for errors
 * has a case.
 */
#include "provider_words.h"

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
    size_t len;
    const char *builtin = provider_builtin(name, &len);
    int rc = builtin ? provider_load_text(name, builtin, len, arena, &provider, &d, &err)
                     : provider_load(name, arena, &provider, &d, &err);
    if (rc < 0) {
        struct buf text = {0};
        diagnostics_format(&d, false, &text);
        fail_msg("%s\n%s", err.text, text.data ? text.data : "");
    }
    assert_int_equal(d.count, 0);
    provider_destroy(provider);
    assert_int_equal(provider_load(name, arena, &provider, &d, &err), 0);
    diagnostics_free(&d);
    return provider;
}

/* ---- requests ---- */

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

/* Everything that the case expects is there; with `all`, nothing else. */
static void compare(struct playing *p, const struct doc_node *c, const struct doc_node *expected,
                    const struct doc_node *got, bool all)
{
    static const char *const usual[] = {"group", "interval_ms", "socket", "repeatable"};
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
    struct doc_node *got = request_doc(p->arena, &request, doc_get(c, "json") != NULL);
    struct doc_node *expected = doc_clone(p->arena, c);
    static const char *const own[] = {"operation", "step", "inputs", "page", "due", "access_token", "comment"};
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        doc_remove(expected, own[i]);
    if (!doc_get(expected, "auth"))
        doc_remove(got, "auth");
    compare(p, c, expected, got, true);
}

/* ---- replies ---- */

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
                                   .unsent = doc_get_bool(c, "unsent", false),
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
    /* free offers differ from offers with an unknown price */
    const char *type = provider_facts(p.provider)->free_type, *region = provider_facts(p.provider)->free_region;
    assert_true(str_eq(type, str_eq(name, "docker") ? "container" : NULL) && !type == !region);
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

/* docs/adding-a-provider.md is enough: this file was written from it, and says "search, then take". */
static void test_a_file_of_the_users_own(void **state)
{
    (void)state;
    setenv("XDG_CONFIG_HOME", FIXTURES "/provider/config", 1);
    play("vast");
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
}

/* A file has at least as many error replies in its fixture as rules for errors: each rule is there for a real reply. */
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
        cmocka_unit_test(test_a_file_of_the_users_own),
        cmocka_unit_test(test_there_is_an_error_for_each_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
