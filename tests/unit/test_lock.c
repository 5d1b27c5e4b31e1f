/* Locks: valid ones, versions, faults; and a written lock can be read again. */
#include "rhrun/lock.h"
#include "rhrun/spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char good[] = "lock: 1\n"
                           "run: {id: 0123456789abcdef, status: done, opened: '2026-11-23T16:40:11Z'}\n"
                           "job: {name: a, id: '0123456789abcdef'}\n"
                           "spec: {text: 'entrypoint: {run: \"true\"}'}\n"
                           "points: [{params: {lr: 1e-3}, args: []}]\n"
                           "trees: [{name: workdir, id: 4b825dc642cb6eb9a060e54bf8d69288fbee4904}]\n"
                           "installs: [{nodes: [0], python: 3.11.2, packages: [{name: few, version: '1.0'}]}]\n"
                           "hosts: [{node: 0}]\n";

/* "" for a good lock, else the error's text. */
static const char *check(const char *text, struct arena *arena, struct buf *ret_faults)
{
    struct diagnostics d = {0};
    struct error err = ERROR_INIT;
    struct doc *doc;
    if (doc_load_text("x.lock.yaml", text, strlen(text), DOC_FORMAT_YAML, arena, &doc, &d, &err) == 0)
        spec_check_lock(doc, arena, &d, &err);
    buf_clear(ret_faults);
    diagnostics_format(&d, false, ret_faults);
    diagnostics_free(&d);
    return arena_strdup(arena, err.text);
}

static const char *with(const char *old, const char *new, struct arena *arena)
{
    const char *at = strstr(good, old);
    assert_non_null(at);
    return arena_printf(arena, "%.*s%s%s", (int)(at - good), good, new, at + strlen(old));
}

static void test_faults(void **unused)
{
    static const struct {
        const char *old, *new, *says;
    } faults[] = {
        {"lock: 1", "lock: 2", "this is a lock of version 2"},
        {"lock: 1", "lock: old", "this is a lock of version"},
        {"id: 4b825dc", "id: ../../x", "id"},
        {"name: few", "name: --index-url=x", "name"},
        {"version: '1.0'", "version: '1.0 --pre'", "version"},
        {"version: '1.0'", "version: '1.0', url: '-e x'", "url"},
        {"version: '1.0'", "version: '1.0', folder: /etc", "folder"},
        {"nodes: [0]", "nodes: [65536]", "nodes"},
        {"points: [{params: {lr: 1e-3}, args: []}]", "points: []", "points"},
        {"hosts:", "hots:", "hots"},
    };
    struct arena *arena = arena_create();
    struct buf text = {0};
    (void)unused;
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        const char *said = check(with(faults[i].old, faults[i].new, arena), arena, &text);
        if (!*said || !text.data || !strstr(text.data, faults[i].says))
            fail_msg("%s: \"%s\", %s", faults[i].new, said, text.data ? text.data : "no fault");
    }
    buf_free(&text);
    arena_destroy(arena);
}

static void test_written_and_read(void **unused)
{
    struct arena *arena = arena_create();
    struct buf text = {0}, faults = {0};
    struct error err = ERROR_INIT;
    struct diagnostics d = {0};
    struct doc *doc, *again;
    (void)unused;
    const char *quoted = with("lr: 1e-3", "lr: '1e-3'", arena);
    assert_int_equal(doc_load_text("x", quoted, strlen(quoted), DOC_FORMAT_YAML, arena, &doc, &d, &err), 0);
    assert_true(spec_is_lock(doc->root));
    for (int json = 0; json < 2; json++) {
        buf_clear(&text);
        lock_write(doc->root, json, &text);
        assert_int_equal(
            doc_load_text("y", text.data, text.len, json ? DOC_FORMAT_JSON : DOC_FORMAT_YAML, arena, &again, &d, &err),
            0);
        assert_true(doc_equal(doc->root, again->root));
        assert_string_equal(check(text.data, arena, &faults), "");
    }
    buf_free(&text);
    buf_free(&faults);
    arena_destroy(arena);
}

static void test_specs_are_no_locks(void **unused)
{
    static const char spec[] = "lock: 1\nentrypoint: {run: x}\npoints: []\n";
    struct arena *arena = arena_create();
    struct diagnostics d = {0};
    struct error err = ERROR_INIT;
    struct doc *doc;
    (void)unused;
    assert_int_equal(doc_load_text("x", spec, strlen(spec), DOC_FORMAT_YAML, arena, &doc, &d, &err), 0);
    assert_false(spec_is_lock(doc->root));
    arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_written_and_read),
        cmocka_unit_test(test_specs_are_no_locks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
