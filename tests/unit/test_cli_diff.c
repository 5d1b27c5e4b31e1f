/* Compares two trees of values: each case is two documents and the rows with their differences. */
#include "../../src/cli/diffing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct arena *arena;

static const struct doc_node *value(const char *text)
{
    struct diagnostics d = {0};
    struct doc *doc;
    assert_int_equal(doc_load_text("value", text, strlen(text), DOC_FORMAT_YAML, arena, &doc, &d, NULL), 0);
    diagnostics_free(&d);
    return doc->root;
}

/* "PATH A B" a line; "-" for a missing side. */
static void check(const char *a, const char *b, const char *expected)
{
    struct diff_rows rows = {.arena = arena};
    struct buf text = {0};
    diff_docs(&rows, "", a ? value(a) : NULL, b ? value(b) : NULL);
    buf_puts(&text, "");
    for (size_t i = 0; i < rows.count; i++) {
        const struct doc_node *sides[] = {rows.items[i].a, rows.items[i].b};
        buf_puts(&text, rows.items[i].path);
        for (size_t k = 0; k < 2; k++) {
            buf_putc(&text, ' ');
            if (sides[k])
                doc_to_json(sides[k], DOC_JSON_PLAIN, &text);
            else
                buf_putc(&text, '-');
        }
        buf_putc(&text, '\n');
    }
    assert_string_equal(text.data, expected);
    buf_free(&text);
}

static void test_values(void **state)
{
    (void)state;
    check(NULL, NULL, "");
    check("1", "1.0", "");
    check("1", "'1'", " 1 \"1\"\n");
    check("{a: 1}", NULL, " {\"a\":1} -\n");
    check("{a: 1, b: {c: 2, d: 3}}", "{b: {d: 3, c: 2}, a: 1}", "");
    check("{a: 1, b: {c: 2, d: 3}}", "{b: {d: 4}, e: [1]}", "a 1 -\nb.c 2 -\nb.d 3 4\ne - [1]\n");
    check("{a.b: 1, 'x\"': 1, \"n\\n\": 1}", "{a.b: 2, 'x\"': 2, \"n\\n\": 2}",
          "\"a.b\" 1 2\n\"x\\\"\" 1 2\n\"n\\n\" 1 2\n");
    check("{a: [1]}", "{a: {b: 1}}", "a [1] {\"b\":1}\n");
}

static void test_lists(void **state)
{
    (void)state;
    check("{a: [--lr, 1, --n, 2]}", "{a: [--lr, 3, --n, 2]}", "a[1] 1 3\n");
    check("{a: [x, y, z]}", "{a: [x, new, y, z]}", "a[1] - \"new\"\n");
    check("{a: [x, y, z]}", "{a: [x, z]}", "a[1] \"y\" -\n");
    check("{a: [1, 2, 3, 4, 5, 6]}", "{a: [0, 2, 9, 3, 5, 7]}", "a[0] 1 0\na[2] - 9\na[3] 4 -\na[5] 6 7\n");
    check("{a: []}", "{a: [1, 2]}", "a[0] - 1\na[1] - 2\n");
    check("{a: [[1, 2], [3]]}", "{a: [[1, 4], [3]]}", "a[0][1] 2 4\n");
}

static void test_by_key(void **state)
{
    (void)state;
    check("[{name: a, run: x}, {name: b, run: y}]", "[{name: b, run: z}, {name: c, run: y}]",
          "[a] {\"name\":\"a\",\"run\":\"x\"} -\n[b].run \"y\" \"z\"\n[c] - {\"name\":\"c\",\"run\":\"y\"}\n");
    check("{s: [{name: a, v: 1}, {name: b}]}", "{s: [{name: b}, {name: a, v: 2}]}",
          "s (order) [\"a\",\"b\"] [\"b\",\"a\"]\ns[a].v 1 2\n");
    check("[{node: 1, name: x}]", "[{node: 1, name: y}]", "[1].name \"x\" \"y\"\n");
    /* two with one name: by position */
    check("[{name: a, v: 1}, {name: a, v: 2}]", "[{name: a, v: 1}, {name: a, v: 3}]", "[1].v 2 3\n");
    check("[{name: \"a\\nb\", v: 1}]", "[{name: \"a\\nb\", v: 2}]", "[\"a\\nb\"].v 1 2\n");
}

static void test_large(void **state)
{
    (void)state;
    struct buf a = {0}, b = {0};
    buf_putc(&a, '[');
    buf_putc(&b, '[');
    for (int i = 0; i < 5000; i++) {
        buf_printf(&a, "%d,", i);
        buf_printf(&b, "%d,", i + 1);
    }
    buf_puts(&a, "end]");
    buf_puts(&b, "end]");
    struct diff_rows rows = {.arena = arena};
    diff_docs(&rows, "", value(a.data), value(b.data));
    assert_int_equal(rows.count, 5000); /* too many to be aligned by equality */
    buf_free(&a);
    buf_free(&b);
}

static int setup(void **state)
{
    (void)state;
    arena = arena_create();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_destroy(arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_by_key),
        cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
