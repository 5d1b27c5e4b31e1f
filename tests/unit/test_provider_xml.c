/* provider on a machine without libxml2: no request is sent whose reply could not be read. */
#include "provider_scene.h"

static const char xml_body[] = "<m><i>7</i></m>";
static bool installed;

void *__real_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags)
{
    return __real_dlopen(installed ? name : "libxml2.so.none", flags);
}

/* Before any other test that reads XML: a loaded library stays. */
static void test_xml_without_its_library(void **state)
{
    struct fixture *f = *state;
    const struct provider_ask ask = {.operation = PROVIDER_STOCK, .inputs = doc_new_object(f->arena)};
    const struct provider_reply reply = {.status = 200, .body = xml_body, .body_len = strlen(xml_body)};
    struct provider_request request;
    struct provider_result result;
    doc_set(f->arena, (struct doc_node *)ask.inputs, "region", doc_new_string(f->arena, "eu-1"));
    installed = false;
    const char *xml = "{get: /m, reply: xml, done_when: {present: //i}, extract: {operation: //i}}";
    char *file = replaced(f, replaced(f, small, "{get: /m}", xml), "  stock:", "  poll: {get: /p}\n  stock:");
    assert_int_equal(load(f, file), 0);
    assert_int_equal(f->diagnostics.count, 1); /* once for all paths */
    assert_int_equal(f->diagnostics.errors, 0);
    assert_non_null(
        strstr(f->diagnostics.items[0].message, "XPaths are not checked: replies in XML are read by libxml2"));
    assert_non_null(strstr(f->diagnostics.items[0].hint, "apt-get install libxml2"));
    assert_int_equal(provider_request(f->provider, &ask, f->arena, &request, &f->err), -1);
    assert_int_equal(f->err.code, ERROR_IO);
    assert_non_null(strstr(f->err.text, "libxml2, which cannot be loaded: libxml2.so.none"));
    assert_non_null(strstr(f->err.hint, "apt-get install libxml2"));
    provider_reply(f->provider, &ask, &reply, f->arena, &result);
    assert_int_equal(result.outcome, PROVIDER_FAILED);
    assert_true(result.unsure);

    installed = true; /* meanwhile: the same process goes on */
    assert_int_equal(provider_request(f->provider, &ask, f->arena, &request, &f->err), 0);
    provider_reply(f->provider, &ask, &reply, f->arena, &result);
    assert_int_equal(result.outcome, PROVIDER_DONE);
    assert_string_equal(doc_get_string(result.values, "operation", ""), "7");
}

/* A provider with JSON never loads it. */
static void test_json_needs_no_library(void **state)
{
    struct fixture *f = *state;
    struct provider_ask ask = {.operation = PROVIDER_STOCK, .inputs = doc_new_object(f->arena)};
    struct provider_request request;
    doc_set(f->arena, (struct doc_node *)ask.inputs, "region", doc_new_string(f->arena, "eu-1"));
    installed = false;
    assert_int_equal(load(f, small), 0);
    assert_int_equal(f->diagnostics.count, 0);
    assert_int_equal(provider_request(f->provider, &ask, f->arena, &request, &f->err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_json_needs_no_library, setup, teardown),
        cmocka_unit_test_setup_teardown(test_xml_without_its_library, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
