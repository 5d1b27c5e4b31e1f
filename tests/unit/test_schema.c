/* schema: golden cases from tests/fixtures/schema (schema.json, input.yaml, expected.txt), and hostile input. */
#include "rhrun/schema.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
    struct arena *arena;
    struct diagnostics diagnostics;
    struct error err;
    struct schema *schema;
};

static int setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof *f);
    f->arena = arena_create();
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    schema_destroy(f->schema);
    diagnostics_free(&f->diagnostics);
    arena_destroy(f->arena);
    free(f);
    return 0;
}

static struct doc_node *load(struct fixture *f, const char *name, const char *text)
{
    struct doc *doc = NULL;
    assert_int_equal(doc_load_text(name, text, strlen(text), DOC_FORMAT_AUTO, f->arena, &doc, &f->diagnostics, &f->err),
                     0);
    return doc->root;
}

static void compile(struct fixture *f, const char *text)
{
    schema_destroy(f->schema);
    f->schema = NULL;
    assert_int_equal(schema_compile(load(f, "schema.yaml", text), f->arena, &f->schema, &f->diagnostics, &f->err), 0);
}

static bool valid(struct fixture *f, const char *text)
{
    diagnostics_free(&f->diagnostics);
    struct doc_node *node = load(f, "input.yaml", text);
    bool good = schema_validate(f->schema, node, &f->diagnostics);
    assert_int_equal(good, schema_validate(f->schema, node, NULL));
    assert_int_equal(good, f->diagnostics.errors == 0);
    return good;
}

/* ---- golden cases ---- */

static struct doc_node *load_case(struct fixture *f, const char *dir, const char *name, const char *file)
{
    char *path = xasprintf("%s/%s/%s", dir, name, file);
    struct buf text = {0};
    assert_int_equal(file_read(path, 1 << 20, &text, &f->err), 0);
    struct doc *doc = NULL;
    assert_int_equal(
        doc_load_text(file, text.data, text.len, DOC_FORMAT_AUTO, f->arena, &doc, &f->diagnostics, &f->err), 0);
    buf_free(&text);
    free(path);
    return doc->root;
}

static void run_case(struct fixture *f, const char *dir, const char *name, size_t *failures)
{
    char *expected_path = xasprintf("%s/%s/expected.txt", dir, name);
    struct buf expected = {0}, got = {0};
    struct schema *schema = NULL;
    diagnostics_free(&f->diagnostics);
    if (schema_compile(load_case(f, dir, name, "schema.json"), f->arena, &schema, &f->diagnostics, &f->err) < 0)
        buf_printf(&got, "%s\n", f->err.text);
    else if (schema_validate(schema, load_case(f, dir, name, "input.yaml"), &f->diagnostics))
        buf_puts(&got, "valid\n");
    diagnostics_format(&f->diagnostics, false, &got);
    schema_destroy(schema);
    if (file_read(expected_path, 1 << 20, &expected, &f->err) < 0)
        buf_puts(&expected, "(no expected.txt)\n");
    if (strcmp(got.data, expected.data) != 0) {
        print_error("case %s:\n--- expected\n%s--- got\n%s", name, expected.data, got.data);
        ++*failures;
        if (getenv("RHRUN_UPDATE_FIXTURES"))
            file_write_atomic(expected_path, got.data, got.len, 0644, &f->err);
    }
    buf_free(&expected);
    buf_free(&got);
    free(expected_path);
}

static void test_fixtures(void **state)
{
    const char *dir = FIXTURES "/schema";
    DIR *d = opendir(dir);
    size_t cases = 0, failures = 0;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.') {
            run_case(*state, dir, e->d_name, &failures);
            cases++;
        }
    closedir(d);
    assert_true(cases >= 15);
    assert_int_equal(failures, 0);
}

/* ---- cases without a fixture ---- */

static void test_pointers(void **state)
{
    struct fixture *f = *state;
    compile(f, "{properties: {'a/b': {items: {type: integer}}, c: {additionalProperties: false}}}");
    assert_false(valid(f, "a/b: [1, x]\nc: {d: 1}\n"));
    assert_int_equal(f->diagnostics.count, 2);
    assert_string_equal(f->diagnostics.items[0].path, "/a~1b/1");
    assert_string_equal(f->diagnostics.items[1].path, "/c/d");
}

static void test_yaml_numbers(void **state)
{
    struct fixture *f = *state;
    compile(f, "{type: integer, multipleOf: 4}");
    assert_true(valid(f, "0x10"));
    assert_true(valid(f, "8.0"));
    assert_true(valid(f, "100000000000000000000000000000000004"));
    assert_false(valid(f, "100000000000000000000000000000000006"));
    assert_false(valid(f, "'8'"));
    compile(f, "{multipleOf: 1e-8}");
    assert_true(valid(f, "12391239123"));
    assert_false(valid(f, "1.5e-8"));
    assert_false(valid(f, ".inf"));
    compile(f, "{maximum: 9007199254740992}");
    assert_true(valid(f, "9007199254740992.0"));
    assert_false(valid(f, "9007199254740993"));
}

static void test_references(void **state)
{
    struct fixture *f = *state;
    struct schema_document remote = {"https://example.com/lib.json",
                                     load(f, "r.yaml", "{$defs: {n: {$anchor: n, type: integer}}}")};
    struct doc_node *root = load(f, "s.yaml", "{items: {$ref: 'https://example.com/lib.json#n'}}");
    assert_int_equal(schema_compile(root, f->arena, &f->schema, &f->diagnostics, &f->err), -1);
    assert_int_equal(f->err.code, ERROR_SPEC);
    assert_null(f->schema);
    assert_int_equal(schema_compile_with(root, &remote, 1, f->arena, &f->schema, NULL, &f->err), 0);
    assert_true(valid(f, "[1]"));
    assert_false(valid(f, "[x]"));
}

static void test_hostile_patterns(void **state)
{
    struct fixture *f = *state;
    struct buf text = {0};
    compile(f, "{type: string, pattern: '^(a+)+$'}");
    for (int i = 0; i < 5000; i++)
        buf_putc(&text, 'a');
    assert_true(valid(f, text.data));
    buf_putc(&text, 'b');
    assert_false(valid(f, text.data));
    compile(f, "{items: {pattern: '^(([a-z])+.)+[A-Z]([a-z])+$'}}");
    buf_clear(&text);
    buf_putc(&text, '[');
    for (int i = 0; i < 2000; i++)
        buf_puts(&text, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, ");
    buf_putc(&text, ']');
    assert_false(valid(f, text.data));
    buf_free(&text);
}

/* As ECMA-262 spells them; the first five are cases of the official suite's optional/ecmascript-regex.json. */
static void test_unicode_properties(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *pattern, *good, *bad;
    } cases[] = {
        {"\\p{Letter}cole", "\u00c9cole", "3cole"},
        {"^\\p{digit}+$", "42", "-%#"},
        {"^\\p{digit}+$", "\u09ea\u09e8", "x"},
        {"^\\p{Script=Greek}+$", "\u03b1\u03b2", "ab"},
        {"^\\p{sc=Grek}+$", "\u03b1", "a"},
        {"^\\p{Script_Extensions=Greek}+$", "\u03b1", "a"},
        {"^\\P{Script=Greek}+$", "a", "\u03b1"},
        {"^[\\p{Uppercase_Letter}\\p{Nd}_]+$", "A_1", "a"},
        {"^\\p{General_Category=Lowercase_Letter}$", "a", "A"},
        {"^\\p{gc=L}$", "a", "1"},
        {"^\\p{Cased_Letter}$", "A", "1"},
        {"^\\p{Assigned}$", "a", "\u0378"},
        {"^\\P{Letter}$", "1", "a"},
        {"^\\p{L}\\p{Lu}$", "aB", "ab"},
        {"^\\\\p{2}$", "\\pp", "\\p{2}"}, /* a backslash and letters */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(cleanup_free) char *schema = xasprintf("{pattern: '%s'}", cases[i].pattern);
        CLEANUP(cleanup_free) char *good = xasprintf("'%s'", cases[i].good);
        CLEANUP(cleanup_free) char *bad = xasprintf("'%s'", cases[i].bad);
        compile(f, schema);
        if (!valid(f, good) || valid(f, bad))
            fail_msg("case %zu: %s", i, cases[i].pattern);
    }
    static const char *const unknown[] = {"\\p{Lettre}", "\\p{Script=Greeek}", "\\p{gc=X}", "\\p{Foo=Bar}"};
    for (size_t i = 0; i < ARRAY_LEN(unknown); i++) {
        struct schema *none = NULL;
        CLEANUP(cleanup_free) char *schema = xasprintf("{pattern: '%s'}", unknown[i]);
        diagnostics_free(&f->diagnostics);
        assert_int_equal(schema_compile(load(f, "schema.yaml", schema), f->arena, &none, &f->diagnostics, &f->err), -1);
        if (!strstr(f->diagnostics.items[0].message, "names a Unicode property that is not known"))
            fail_msg("%s: %s", unknown[i], f->diagnostics.items[0].message);
    }
}

static void test_work_is_bounded(void **state)
{
    struct fixture *f = *state;
    compile(f, "{$defs: {a: {anyOf: [{$ref: '#/$defs/b'}, {$ref: '#/$defs/b'}, {$ref: '#/$defs/b'}]}, b: {allOf: "
               "[{$ref: '#/$defs/a'}, {type: 'null'}]}}, $ref: '#/$defs/a'}");
    assert_false(valid(f, "1"));
    assert_string_equal(f->diagnostics.items[0].message, "the schema refers to itself without end");
    struct buf text = {0};
    buf_puts(&text, "$defs:\n  l0: {type: integer}\n");
    for (int i = 1; i < 60; i++)
        buf_printf(&text, "  l%d: {anyOf: [{$ref: '#/$defs/l%d'}, {$ref: '#/$defs/l%d'}]}\n", i, i - 1, i - 1);
    buf_puts(&text, "$ref: '#/$defs/l59'\n");
    compile(f, text.data);
    assert_false(valid(f, "x"));
    assert_string_equal(f->diagnostics.items[0].message, "the check takes too long and was given up");
    assert_true(valid(f, "1"));
    buf_free(&text);
}

static void test_deep_recursion_over_a_document(void **state)
{
    struct fixture *f = *state;
    struct buf text = {0};
    compile(f, "{type: [array, integer], items: {allOf: [{$ref: '#'}, {$ref: '#/$defs/x'}]}, $defs: {x: {not: {type: "
               "string}}}}");
    for (int i = 0; i < 60; i++)
        buf_putc(&text, '[');
    buf_puts(&text, "1");
    for (int i = 0; i < 60; i++)
        buf_putc(&text, ']');
    assert_true(valid(f, text.data));
    buf_free(&text);
}

static void test_many_faults_are_capped(void **state)
{
    struct fixture *f = *state;
    struct buf text = {0};
    compile(f, "{items: {type: integer}}");
    for (int i = 0; i < 1000; i++)
        buf_puts(&text, "- x\n");
    assert_false(valid(f, text.data));
    assert_int_equal(f->diagnostics.count, DIAGNOSTICS_MAX);
    assert_int_equal(f->diagnostics.errors, 1000);
    buf_free(&text);
}

static void test_unique_items_with_equal_hashes(void **state)
{
    struct fixture *f = *state;
    compile(f, "{uniqueItems: true}");
    assert_true(valid(f, "[1, true, '1', null, [], {}, [1], {a: 1}]"));
    assert_false(valid(f, "[{a: 1, b: 2}, {b: 2.0, a: 1.0}]"));
    assert_false(valid(f, "[-0.0, 0]"));
    assert_true(valid(f, "[9007199254740993, 9007199254740992.0]"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(test_fixtures),
        TEST(test_pointers),
        TEST(test_yaml_numbers),
        TEST(test_references),
        TEST(test_hostile_patterns),
        TEST(test_unicode_properties),
        TEST(test_work_is_bounded),
        TEST(test_deep_recursion_over_a_document),
        TEST(test_many_faults_are_capped),
        TEST(test_unique_items_with_equal_hashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
