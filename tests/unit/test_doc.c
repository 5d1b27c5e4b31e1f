/* doc: golden cases from tests/fixtures/doc, and cases that no fixture can express. */
#include "rhrun/doc.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

struct fixture {
    struct arena *arena;
    struct diagnostics diagnostics;
    struct error err;
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
    diagnostics_free(&f->diagnostics);
    arena_destroy(f->arena);
    free(f);
    return 0;
}

static struct doc_node *load(struct fixture *f, const char *text, enum doc_format format)
{
    struct doc *doc = NULL;
    int rc = doc_load_text("t", text, strlen(text), format, f->arena, &doc, &f->diagnostics, &f->err);
    if (rc < 0) {
        struct buf out = {0};
        diagnostics_format(&f->diagnostics, false, &out);
        print_error("%s\n%s", f->err.text, out.len ? out.data : "");
        buf_free(&out);
    }
    assert_int_equal(rc, 0);
    return doc->root;
}

static struct doc_node *yaml(struct fixture *f, const char *text)
{
    return load(f, text, DOC_FORMAT_YAML);
}

/* The first fault's message, after checking that there is one. */
static const char *fault(struct fixture *f, const char *text, size_t len, enum doc_format format)
{
    struct doc *doc = NULL;
    diagnostics_free(&f->diagnostics);
    assert_int_equal(doc_load_text("t", text, len, format, f->arena, &doc, &f->diagnostics, &f->err), -1);
    assert_null(doc);
    assert_int_equal(f->err.code, ERROR_SPEC);
    assert_true(f->diagnostics.count > 0);
    return f->diagnostics.items[0].message;
}

/* ---- golden cases: input.yaml or input.json, and expected.txt ---- */

static void run_case(struct fixture *f, const char *dir, const char *name, size_t *failures)
{
    struct stat st;
    char *json = xasprintf("%s/%s/input.json", dir, name), *path = xasprintf("%s/%s/input.yaml", dir, name);
    char *expected_path = xasprintf("%s/%s/expected.txt", dir, name);
    const char *base = stat(json, &st) == 0 ? "input.json" : "input.yaml";
    struct buf text = {0}, expected = {0}, got = {0};
    struct doc *doc = NULL;
    assert_int_equal(file_read(base[6] == 'j' ? json : path, 1 << 20, &text, &f->err), 0);
    if (file_read(expected_path, 1 << 20, &expected, &f->err) < 0)
        buf_puts(&expected, "(no expected.txt)");
    diagnostics_free(&f->diagnostics);
    if (doc_load_text(base, text.data, text.len, DOC_FORMAT_AUTO, f->arena, &doc, &f->diagnostics, &f->err) == 0) {
        doc_to_json(doc->root, DOC_JSON_PLAIN, &got);
        buf_putc(&got, '\n');
    } else {
        diagnostics_format(&f->diagnostics, false, &got);
    }
    if (got.len != expected.len || memcmp(got.data, expected.data, got.len) != 0) {
        print_error("case %s:\n--- expected\n%s--- got\n%s", name, expected.data, got.data);
        ++*failures;
        if (getenv("RHRUN_UPDATE_FIXTURES"))
            file_write_atomic(expected_path, got.data, got.len, 0644, &f->err);
    }
    buf_free(&text);
    buf_free(&expected);
    buf_free(&got);
    free(json);
    free(path);
    free(expected_path);
}

static void test_fixtures(void **state)
{
    const char *dir = FIXTURES "/doc";
    DIR *d = opendir(dir);
    size_t cases = 0, failures = 0;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.') {
            run_case(*state, dir, e->d_name, &failures);
            cases++;
        }
    closedir(d);
    assert_true(cases >= 20);
    assert_int_equal(failures, 0);
}

/* ---- scalars ---- */

static void test_core_scalars(void **state)
{
    static const struct {
        const char *text;
        enum doc_type type;
        double number;
    } cases[] = {
        {"", DOC_NULL, 0},          {"~", DOC_NULL, 0},
        {"NULL", DOC_NULL, 0},      {"nUll", DOC_STRING, 0},
        {"true", DOC_BOOL, 0},      {"TRUE", DOC_BOOL, 0},
        {"tRue", DOC_STRING, 0},    {"no", DOC_STRING, 0},
        {"on", DOC_STRING, 0},      {"yes", DOC_STRING, 0},
        {"12", DOC_INT, 12},        {"-12", DOC_INT, -12},
        {"+3", DOC_INT, 3},         {"010", DOC_INT, 10},
        {"0o17", DOC_INT, 15},      {"0x1F", DOC_INT, 31},
        {"0o8", DOC_STRING, 0},     {"0x", DOC_STRING, 0},
        {"-0x1", DOC_STRING, 0},    {"1_000", DOC_STRING, 0},
        {"0b1", DOC_STRING, 0},     {"1:30", DOC_STRING, 0},
        {".5", DOC_FLOAT, 0.5},     {"1.", DOC_FLOAT, 1},
        {"1e-3", DOC_FLOAT, 0.001}, {"-1.5E+2", DOC_FLOAT, -150},
        {".", DOC_STRING, 0},       {"e3", DOC_STRING, 0},
        {"1e", DOC_STRING, 0},      {"-", DOC_STRING, 0},
        {"+.", DOC_STRING, 0},      {"2001-01-01", DOC_STRING, 0},
        {"1.2.3", DOC_STRING, 0},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct doc_node *node = doc_new_plain(f->arena, cases[i].text);
        assert_int_equal(node->type, cases[i].type);
        assert_string_equal(node->text, cases[i].text);
        if (node->type == DOC_INT || node->type == DOC_FLOAT)
            assert_true(!(node->number < cases[i].number) && !(node->number > cases[i].number));
    }
    const struct doc_node *inf = doc_new_plain(f->arena, "-.inf"), *nan = doc_new_plain(f->arena, ".NaN");
    assert_int_equal(inf->type, DOC_FLOAT);
    assert_true(inf->number < -1e308);
    assert_int_equal(nan->type, DOC_FLOAT);
    assert_false(doc_equal(nan, nan));
}

static void test_big_integers(void **state)
{
    struct fixture *f = *state;
    const struct doc_node *max = doc_new_plain(f->arena, "9223372036854775807"),
                          *over = doc_new_plain(f->arena, "9223372036854775808");
    const struct doc_node *min = doc_new_plain(f->arena, "-9223372036854775808");
    assert_false(max->big);
    assert_true(over->big);
    assert_false(min->big);
    assert_true(min->integer == INT64_MIN);
    assert_int_equal(over->type, DOC_INT);
    assert_false(doc_equal(max, over));
    assert_true(doc_equal(over, doc_new_plain(f->arena, "09223372036854775808")));
    assert_false(doc_equal(over, doc_new_plain(f->arena, "9223372036854775809")));
}

static void test_equal_and_hash_agree(void **state)
{
    struct fixture *f = *state;
    const struct doc_node *a = yaml(f, "{a: 1, b: [1.0, x], c: {d: -0.0}}"),
                          *b = yaml(f, "{c: {d: 0}, b: [1, 'x'], a: 1.0}");
    assert_true(doc_equal(a, b));
    assert_true(doc_hash(a) == doc_hash(b));
    const struct doc_node *c = yaml(f, "{a: 1, b: [x, 1.0], c: {d: 0}}");
    assert_false(doc_equal(a, c));
    assert_false(doc_equal(doc_new_bool(f->arena, true), doc_new_int(f->arena, 1)));
}

/* ---- trees ---- */

static void test_places(void **state)
{
    struct fixture *f = *state;
    const struct doc_node *root = yaml(f, "a: é\nlist:\n  - one\n  - {k: [1, 2]}\nb: \"x\"\n");
    const struct doc_node *list = doc_get(root, "list"), *inner = doc_get_path(root, "/list/1/k");
    assert_int_equal(list->place.line, 3);
    assert_int_equal(list->place.column, 3);
    assert_int_equal(list->place.end_line, 4);
    assert_int_equal(list->place.end_column, 16);
    assert_int_equal(inner->place.column, 9);
    assert_int_equal(inner->place.end_column, 15);
    assert_int_equal(doc_get(root, "a")->place.end_column, 5);
    assert_int_equal(root->members[2].key_place.line, 5);
    assert_int_equal(root->members[2].key_place.end_column, 2);
    assert_string_equal(root->place.source->name, "t");
}

static void test_pointer(void **state)
{
    struct fixture *f = *state;
    const struct doc_node *root = load(f, "{\"a/b\":{\"~\":[10,20]},\"\":1,\"0\":2}", DOC_FORMAT_JSON);
    assert_ptr_equal(doc_get_path(root, ""), root);
    assert_int_equal(doc_get_path(root, "/a~1b/~0/1")->integer, 20);
    assert_int_equal(doc_get_path(root, "/")->integer, 1);
    assert_int_equal(doc_get_path(root, "/0")->integer, 2);
    assert_null(doc_get_path(root, "/a~1b/~0/2"));
    assert_null(doc_get_path(root, "/a~1b/~0/01"));
    assert_null(doc_get_path(root, "/a~2b"));
    assert_null(doc_get_path(root, "a"));
    struct buf pointer = {0};
    doc_pointer_append(&pointer, "a/~b", 4);
    assert_string_equal(pointer.data, "/a~1~0b");
    buf_free(&pointer);
}

static void test_alias_keeps_both_places(void **state)
{
    struct fixture *f = *state;
    const struct doc_node *root = yaml(f, "base: &b {x: 1}\nuse: *b\nmerged:\n  <<: *b\n  y: 2\n");
    const struct doc_node *use = doc_get(root, "use"), *merged = doc_get(root, "merged");
    assert_int_equal(use->place.line, 1);
    assert_int_equal(use->alias.line, 2);
    assert_int_equal(merged->count, 2);
    assert_string_equal(merged->members[0].key, "y");
    assert_string_equal(merged->members[1].key, "x");
    assert_int_equal(merged->members[1].key_place.line, 1);
}

static void test_large_objects(void **state)
{
    struct fixture *f = *state;
    struct doc_node *object = doc_new_object(f->arena);
    char key[32];
    for (int i = 0; i < 5000; i++) {
        snprintf(key, sizeof key, "key%d", i);
        doc_set(f->arena, object, key, doc_new_int(f->arena, i));
    }
    for (int i = 0; i < 5000; i++) {
        snprintf(key, sizeof key, "key%d", i);
        assert_int_equal(doc_get_int(object, key, -1), i);
    }
    assert_null(doc_get(object, "key5000"));
    doc_set(f->arena, object, "key7", doc_new_int(f->arena, 70));
    assert_int_equal(object->count, 5000);
    assert_true(doc_remove(object, "key3"));
    assert_false(doc_remove(object, "key3"));
    doc_set(f->arena, object, "new", doc_new_null(f->arena));
    assert_null(doc_get(object, "key3"));
    assert_int_equal(doc_get_int(object, "key4999", -1), 4999);
    assert_int_equal(doc_get_int(object, "key7", -1), 70);
    assert_non_null(doc_get(object, "new"));
}

static void test_clone_shares_nothing(void **state)
{
    struct fixture *f = *state;
    struct doc_node *root = yaml(f, "a: &x {n: 1}\nb: *x\n"), *copy = doc_clone(f->arena, root);
    assert_true(doc_equal(root, copy));
    doc_set(f->arena, doc_get(copy, "a"), "n", doc_new_int(f->arena, 2));
    assert_int_equal(doc_get_path(copy, "/b/n")->integer, 1);
    assert_int_equal(doc_get_path(root, "/a/n")->integer, 1);
}

static void test_accessors(void **state)
{
    struct fixture *f = *state;
    const struct doc_node *root = yaml(f, "s: text\ni: 2.0\nb: true\nn: null\nx: 1e-3\n");
    assert_string_equal(doc_get_string(root, "s", "no"), "text");
    assert_string_equal(doc_get_string(root, "i", "no"), "no");
    assert_string_equal(doc_get_text(root, "x", "no"), "1e-3");
    assert_string_equal(doc_get_text(root, "n", "no"), "no");
    assert_int_equal(doc_get_int(root, "i", 7), 2);
    assert_int_equal(doc_get_int(root, "x", 7), 7);
    assert_true(doc_get_bool(root, "b", false));
    assert_null(doc_get(NULL, "x"));
    assert_null(doc_get(doc_get(root, "s"), "x"));
}

/* ---- limits ---- */

static void test_billion_laughs(void **state)
{
    struct fixture *f = *state;
    struct buf text = {0};
    buf_puts(&text, "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i < 30; i++) {
        buf_printf(&text, "a%d: &a%d [", i, i);
        for (int j = 0; j < 10; j++)
            buf_printf(&text, "%s*a%d", j ? ", " : "", i - 1);
        buf_puts(&text, "]\n");
    }
    assert_string_equal(fault(f, text.data, text.len, DOC_FORMAT_YAML),
                        "aliases add more than 100000 values when they are written out");
    assert_int_equal(f->diagnostics.items[0].place.line, 5);
    assert_true(arena_used(f->arena) < 1 << 20);
    buf_free(&text);
}

static void test_merge_bomb(void **state)
{
    struct fixture *f = *state;
    struct buf text = {0};
    buf_puts(&text, "a: &a {");
    for (int i = 0; i < 2000; i++)
        buf_printf(&text, "k%d: 1, ", i);
    buf_puts(&text, "}\n");
    for (int i = 0; i < 2000; i++)
        buf_printf(&text, "m%d: {<<: *a}\n", i);
    assert_string_equal(fault(f, text.data, text.len, DOC_FORMAT_YAML),
                        "aliases add more than 100000 values when they are written out");
    buf_free(&text);
}

static void test_depth(void **state)
{
    struct fixture *f = *state;
    struct buf text = {0};
    for (int i = 0; i < 100000; i++)
        buf_putc(&text, '[');
    assert_string_equal(fault(f, text.data, text.len, DOC_FORMAT_YAML), "values are nested deeper than 64 levels");
    assert_string_equal(fault(f, text.data, text.len, DOC_FORMAT_JSON), "values are nested deeper than 64 levels");
    buf_clear(&text);
    buf_puts(&text, "a: &l0 [[[[[[[[x]]]]]]]]\n");
    for (int i = 1; i < 10; i++)
        buf_printf(&text, "b%d: &l%d [[[[[[[[*l%d]]]]]]]]\n", i, i, i - 1);
    assert_string_equal(fault(f, text.data, text.len, DOC_FORMAT_YAML), "values are nested deeper than 64 levels");
    buf_free(&text);
    assert_string_equal(fault(f, "&a [*a]", 7, DOC_FORMAT_YAML), "alias \"a\" is inside its own anchor");
}

static void test_size_and_encoding(void **state)
{
    struct fixture *f = *state;
    char *large = xcalloc(1, DOC_MAX_BYTES + 1);
    struct doc *doc;
    memset(large, ' ', DOC_MAX_BYTES + 1);
    assert_int_equal(
        doc_load_text("t", large, DOC_MAX_BYTES + 1, DOC_FORMAT_YAML, f->arena, &doc, &f->diagnostics, &f->err), -1);
    assert_non_null(strstr(f->err.text, "larger than"));
    free(large);
    assert_string_equal(fault(f, "a: \xff", 4, DOC_FORMAT_YAML), "byte 0xff is not valid UTF-8");
    assert_int_equal(f->diagnostics.items[0].place.column, 4);
    assert_string_equal(fault(f, "a:\n \0", 5, DOC_FORMAT_YAML), "character U+0000 cannot be used in a document");
    assert_int_equal(f->diagnostics.items[0].place.line, 2);
    assert_string_equal(fault(f, "[\xed\xa0\x80]", 5, DOC_FORMAT_JSON), "byte 0xed is not valid UTF-8");
    assert_int_equal(load(f,
                          "\xef\xbb\xbf"
                          "5",
                          DOC_FORMAT_JSON)
                         ->integer,
                     5);
    assert_int_equal(doc_load_file("/nonexistent/x.yaml", DOC_FORMAT_AUTO, f->arena, &doc, &f->diagnostics, &f->err),
                     -1);
    assert_int_equal(f->err.code, ERROR_SPEC);
}

static void test_refuse_nul(void **state)
{
    struct fixture *f = *state;
    assert_true(doc_refuse_nul(yaml(f, "a: [x, {b: c}]"), &f->diagnostics));
    assert_false(doc_refuse_nul(yaml(f, "a: [\"x\\0y\"]\n\"k\\0\": 1\n"), &f->diagnostics));
    assert_int_equal(f->diagnostics.errors, 2);
}

static void test_json_is_strict(void **state)
{
    static const char *const bad[] = {"",
                                      "[1,]",
                                      "{\"a\":1,}",
                                      "[1 2]",
                                      "{a:1}",
                                      "{'a':1}",
                                      "01",
                                      "+1",
                                      ".5",
                                      "1.",
                                      "1e",
                                      "0x1",
                                      "NaN",
                                      "nul",
                                      "True",
                                      "\"a",
                                      "\"\t\"",
                                      "\"\\x\"",
                                      "\"\\u12g4\"",
                                      "\"\\ud800\"",
                                      "\"\\ud800\\u0041\"",
                                      "\"\\udc00\"",
                                      "[1]x",
                                      "// c\n1",
                                      "1 # c",
                                      "[",
                                      "{\"a\"",
                                      "{\"a\":",
                                      "{\"a\" 1}",
                                      "{\"a\":1,\"a\":2}",
                                      ",",
                                      "-",
                                      "[,1]",
                                      "/* */ 1",
                                      "tru e"};
    static const char *const good[] = {"0",     "-0",        "1.5e+3",  "\"\\ud83d\\ude00\\u0000\"",
                                       " [ ] ", "{\"\":{}}", "\"\\/\"", "[true,false,null]"};
    struct fixture *f = *state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        fault(f, bad[i], strlen(bad[i]), DOC_FORMAT_JSON);
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        load(f, good[i], DOC_FORMAT_JSON);
    const struct doc_node *s = load(f, "\"\\ud83d\\ude00\\u0000\\u00e9\"", DOC_FORMAT_JSON);
    assert_int_equal(s->text_len, 7);
    assert_memory_equal(s->text, "\xf0\x9f\x98\x80\0\xc3\xa9", 7);
}

/* ---- writing ---- */

static void check_json(struct fixture *f, const char *text, enum doc_json style, const char *expected)
{
    struct buf out = {0};
    doc_to_json(yaml(f, text), style, &out);
    assert_string_equal(out.data, expected);
    buf_free(&out);
}

static void test_to_json(void **state)
{
    struct fixture *f = *state;
    check_json(f, "{b: 1.50, a: [0x1f, 1e3, .5, ~, +7], z: .inf}", DOC_JSON_PLAIN,
               "{\"b\":1.50,\"a\":[31,1e3,0.5,null,7],\"z\":\".inf\"}");
    check_json(f, "{b: 1.50, a: [0x1f, 1e3, .5, 2.0, 1e400]}", DOC_JSON_CANONICAL,
               "{\"a\":[31,1000,0.5,2,\".inf\"],\"b\":1.5}");
    check_json(f, "{ab: 1, a: 2, b: 3}", DOC_JSON_CANONICAL, "{\"a\":2,\"ab\":1,\"b\":3}");
    check_json(f, "+00100000000000000000000", DOC_JSON_CANONICAL, "100000000000000000000");
    check_json(f, "{a: [1], b: {}}", DOC_JSON_PRETTY, "{\n  \"a\": [\n    1\n  ],\n  \"b\": {}\n}");
}

/* Strings that must come back as they were, as keys and as values. */
static const char *const texts[] = {"",
                                    "x",
                                    "no",
                                    "yes",
                                    "null",
                                    "~",
                                    "12",
                                    "1e3",
                                    "0x1f",
                                    "- a",
                                    "a: b",
                                    "a #b",
                                    "#a",
                                    "a#b",
                                    " a",
                                    "a ",
                                    "a\nb",
                                    "a\nb\n",
                                    "a\n\nb\n",
                                    "a\n\n",
                                    "\na",
                                    " a\nb",
                                    "\ta",
                                    "a\tb",
                                    "a\tb\nc",
                                    "'",
                                    "\"",
                                    "\\",
                                    "*a",
                                    "&a",
                                    "!a",
                                    "%a",
                                    "@a",
                                    "`a",
                                    "[a]",
                                    "{a}",
                                    "a,b",
                                    "?",
                                    "-",
                                    "--- a",
                                    "...",
                                    "a:",
                                    ":a",
                                    "<<",
                                    "=",
                                    "\x01",
                                    "\x7f",
                                    "\xc2\x85",
                                    "\xe2\x80\xa8",
                                    "\xef\xbb\xbf",
                                    "\xf0\x9f\x98\x80",
                                    "é",
                                    "${{ params.x }}",
                                    "./run.sh",
                                    "../x",
                                    "1:30",
                                    "1_0",
                                    "key: |",
                                    "a\r\nb",
                                    "\r",
                                    ".5",
                                    "-1",
                                    "true",
                                    "on",
                                    "a\n  indented\nb",
                                    "x\n \n",
                                    "trailing \nline",
                                    "C:\\x",
                                    "2001-01-01",
                                    "..",
                                    ".",
                                    "a: b\nc",
                                    "--flag=x"};

static void test_yaml_round_trip(void **state)
{
    struct fixture *f = *state;
    struct doc_node *root = doc_new_object(f->arena), *list = doc_new_array(f->arena),
                    *nested = doc_new_array(f->arena);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct doc_node *one = doc_new_object(f->arena);
        doc_set(f->arena, one, texts[i], doc_new_string(f->arena, texts[i]));
        doc_append(f->arena, list, one);
        doc_append(f->arena, nested, doc_new_string(f->arena, texts[i]));
    }
    char long_key[1500];
    memset(long_key, 'k', sizeof long_key - 1);
    long_key[sizeof long_key - 1] = 0;
    doc_set(f->arena, root, long_key, nested);
    doc_append(f->arena, list, nested);
    doc_append(f->arena, list, doc_new_array(f->arena));
    doc_append(f->arena, list, doc_new_object(f->arena));
    doc_append(f->arena, list, doc_new_float(f->arena, 2));
    doc_append(f->arena, list, doc_new_float(f->arena, 0.1));
    doc_append(f->arena, list, doc_new_float(f->arena, 1e300));
    doc_append(f->arena, list, doc_new_int(f->arena, INT64_MIN));
    doc_append(f->arena, list, doc_new_null(f->arena));
    doc_set(f->arena, root, "list", list);
    struct buf out = {0};
    doc_to_yaml(root, &out);
    const struct doc_node *back = yaml(f, out.data);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        const struct doc_node *string = doc_get(doc_get(back, "list")->items[i], texts[i]);
        if (!string || !str_eq(string->text, texts[i]) || string->type != DOC_STRING)
            print_error("not read back: %s\n", texts[i]);
    }
    assert_true(doc_equal(root, back));
    assert_int_equal(doc_get(back, "list")->items[list->count - 5]->type, DOC_FLOAT);
    buf_free(&out);
}

static void test_to_yaml_reads_well(void **state)
{
    struct fixture *f = *state;
    struct buf out = {0};
    doc_to_yaml(yaml(f, "{name: hello, list: [{a: 1, b: [x, 'no']}, []], run: \"a\\nb\\n\", lr: 1e-3, n: ''}"), &out);
    assert_string_equal(out.data, "name: hello\nlist:\n  - a: 1\n    b:\n      - x\n      - \"no\"\n  - []\nrun: |\n  "
                                  "a\n  b\nlr: 1e-3\nn: \"\"\n");
    buf_free(&out);
}

static void test_describe(void **state)
{
    struct fixture *f = *state;
    struct buf out = {0};
    doc_describe(doc_new_string(f->arena, "a\"b"), &out);
    buf_putc(&out, ' ');
    doc_describe(doc_new_int(f->arena, 5), &out);
    buf_putc(&out, ' ');
    doc_describe(doc_new_array(f->arena), &out);
    assert_string_equal(out.data, "\"a\\\"b\" 5 a list");
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(test_fixtures),
        TEST(test_core_scalars),
        TEST(test_big_integers),
        TEST(test_equal_and_hash_agree),
        TEST(test_places),
        TEST(test_pointer),
        TEST(test_alias_keeps_both_places),
        TEST(test_large_objects),
        TEST(test_clone_shares_nothing),
        TEST(test_accessors),
        TEST(test_billion_laughs),
        TEST(test_merge_bomb),
        TEST(test_depth),
        TEST(test_size_and_encoding),
        TEST(test_refuse_nul),
        TEST(test_json_is_strict),
        TEST(test_to_json),
        TEST(test_yaml_round_trip),
        TEST(test_to_yaml_reads_well),
        TEST(test_describe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
