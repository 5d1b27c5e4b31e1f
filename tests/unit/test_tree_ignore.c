/* Ignore patterns: the meaning of each, and that none takes forever. tests/e2e/test_tree_git.py compares with git. */
#include "../../src/tree/scan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_wildcards(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text;
        bool path, fold, matches;
    } cases[] = {
        {"foo", "foo", true, false, true},
        {"foo", "fo", true, false, false},
        {"foo", "fooo", true, false, false},
        {"", "", true, false, true},
        {"?", "a", true, false, true},
        {"?", "", true, false, false},
        {"?", "/", true, false, false},
        {"?", "/", false, false, true},
        {"*", "", true, false, true},
        {"*", "abc", true, false, true},
        {"*", "a/b", true, false, false},
        {"*", "a/b", false, false, true},
        {"*f", "foof", true, false, true},
        {"*/x", "a/x", true, false, true},
        {"*/x", "a/b/x", true, false, false},
        {"a*b*c", "aXbYbZc", true, false, true},
        {"**/foo", "foo", true, false, true},
        {"**/foo", "a/b/foo", true, false, true},
        {"**/foo", "a/bfoo", true, false, false},
        {"a/**", "a/b/c", true, false, true},
        {"a/**", "a", true, false, false},
        {"a/**/b", "a/b", true, false, true},
        {"a/**/b", "a/x/y/b", true, false, true},
        {"a/**/b", "a/xb", true, false, false},
        {"a**/b", "ax/b", true, false, true},
        {"a**/b", "a/x/b", true, false, false},
        {"a/**b", "a/x/b", true, false, false},
        {"**", "a/b", true, false, true},
        {"***", "a/b", true, false, true},
        {"a/**\\/b", "a/x/b", true, false, true},
        {"[abc]", "b", true, false, true},
        {"[abc]", "d", true, false, false},
        {"[!abc]", "d", true, false, true},
        {"[^abc]", "a", true, false, false},
        {"[a-c]x", "bx", true, false, true},
        {"[a-c]", "d", true, false, false},
        {"[]a]", "]", true, false, true},
        {"[!]a]", "]", true, false, false},
        {"[a-]", "-", true, false, true},
        {"[\\]]", "]", true, false, true},
        {"[a\\-c]", "b", true, false, false},
        {"[a\\-c]", "-", true, false, true},
        {"[--0]", ".", true, false, true},
        {"[!a]", "/", true, false, false},
        {"a[/]b", "a/b", true, false, false},
        {"[", "[", true, false, false},
        {"[a", "a", true, false, false},
        {"[[:alpha:]][[:digit:]]", "a1", true, false, true},
        {"[[:alpha:]]", "1", true, false, false},
        {"[[:nothing:]]", "a", true, false, false},
        {"[[:alpha:]-z]", "-", true, false, true},
        {"[[:alpha]", ":", true, false, true},
        {"[[:upper:]]", "a", true, false, false},
        {"[[:upper:]]", "a", true, true, true},
        {"[[:space:]]", "\v", true, false, false},
        {"[[:punct:]]", "!", true, false, true},
        {"\\*", "*", true, false, true},
        {"\\*", "a", true, false, false},
        {"\\\\", "\\", true, false, true},
        {"a\\", "a\\", true, false, false},
        {"FoO", "foo", true, true, true},
        {"foo", "FOO", true, false, false},
        {"[A-Z]x", "bX", true, true, true},
        {"[A]", "a", true, true, false}, /* as git: sets are not folded */
        {"*\xff", "a\xff", true, false, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (ignore_wild(cases[i].pattern, cases[i].text, cases[i].path, cases[i].fold) != cases[i].matches)
            fail_msg("\"%s\" and \"%s\": %smatches", cases[i].pattern, cases[i].text, cases[i].matches ? "no " : "");
}

/* Backtracking is bounded. */
static void test_wildcards_are_bounded(void **state)
{
    (void)state;
    struct buf pattern = {0}, text = {0};
    for (int i = 0; i < 40; i++)
        buf_puts(&pattern, "**/a*/");
    buf_puts(&pattern, "x");
    for (int i = 0; i < 400; i++)
        buf_puts(&text, "ab/");
    buf_puts(&text, "y");
    assert_false(ignore_wild(pattern.data, text.data, true, false));
    buf_free(&pattern);
    buf_free(&text);
}

static enum ignore_verdict verdict(const char *text, const char *path, bool folder, size_t base)
{
    struct arena *a = arena_create();
    const struct ignore_list *l;
    struct error err = ERROR_INIT;
    assert_int_equal(ignore_parse(a, text, strlen(text), "file", base, false, NULL, &l, &err), 0);
    const char *slash = strrchr(path, '/');
    size_t name = slash ? (size_t)(slash + 1 - path) : 0;
    enum ignore_verdict v = ignore_match_chain(l, path, strlen(path), name, folder);
    arena_destroy(a);
    return v;
}

static void test_patterns(void **state)
{
    (void)state;
    static const struct {
        const char *text, *path;
        bool folder;
        enum ignore_verdict want;
    } cases[] = {
        {"foo", "foo", false, IGNORE_OUT},
        {"foo", "a/b/foo", false, IGNORE_OUT},
        {"foo", "foobar", false, IGNORE_UNDECIDED},
        {"/foo", "foo", false, IGNORE_OUT},
        {"/foo", "a/foo", false, IGNORE_UNDECIDED},
        {"foo/", "foo", false, IGNORE_UNDECIDED},
        {"foo/", "a/foo", true, IGNORE_OUT},
        {"a/foo", "a/foo", false, IGNORE_OUT},
        {"a/foo", "b/a/foo", false, IGNORE_UNDECIDED},
        {"a/foo/", "a/foo", true, IGNORE_OUT},
        {"*.o", "a/x.o", false, IGNORE_OUT},
        {"*.o", "x.oo", false, IGNORE_UNDECIDED},
        {"/*.o", "a/x.o", false, IGNORE_UNDECIDED},
        {"a/*", "a/b", false, IGNORE_OUT},
        {"a/*", "a/b/c", false, IGNORE_UNDECIDED},
        {"a/**", "a/b/c", false, IGNORE_OUT},
        {"foo\n!foo", "foo", false, IGNORE_IN},
        {"!foo\nfoo", "foo", false, IGNORE_OUT},
        {"*\n!*/\n!*.c", "x.c", false, IGNORE_IN},
        {"*\n!*/\n!*.c", "x.o", false, IGNORE_OUT},
        {"*\n!*/\n!*.c", "x.o", true, IGNORE_IN},
        {"# foo", "# foo", false, IGNORE_UNDECIDED},
        {"\\# foo", "# foo", false, IGNORE_OUT},
        {"\\!foo", "!foo", false, IGNORE_OUT},
        {"foo  ", "foo", false, IGNORE_OUT},
        {"foo\\ ", "foo ", false, IGNORE_OUT},
        {"foo\\  ", "foo ", false, IGNORE_OUT},
        {"foo\t", "foo", false, IGNORE_UNDECIDED},
        {"foo\r\nbar\r\n", "foo", false, IGNORE_OUT},
        {"\xef\xbb\xbf"
         "foo",
         "foo", false, IGNORE_OUT},
        {"\n\n  \n/\n!\n//\nfoo", "foo", false, IGNORE_OUT},
        {"/\n//\n!", "x", true, IGNORE_UNDECIDED},
        {"a/foo**", "a/foobar/baz", false, IGNORE_OUT}, /* as git: behind a literal part it stands alone */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (verdict(cases[i].text, cases[i].path, cases[i].folder, 0) != cases[i].want)
            fail_msg("\"%s\" and \"%s\": not %d", cases[i].text, cases[i].path, (int)cases[i].want);
    assert_int_equal(verdict("/foo", "sub/foo", false, 4), IGNORE_OUT);
    assert_int_equal(verdict("a/foo", "sub/a/foo", false, 4), IGNORE_OUT);
    assert_int_equal(verdict("sub/foo", "sub/foo", false, 4), IGNORE_UNDECIDED);
}

static void test_a_pattern_has_a_limit(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    struct buf text = {0};
    struct error err = ERROR_INIT;
    const struct ignore_list *l;
    buf_puts(&text, "first\n");
    for (int i = 0; i <= IGNORE_PATTERN_MAX; i++)
        buf_putc(&text, 'x');
    assert_int_equal(ignore_parse(a, text.data, text.len, "DIR/.gitignore", 0, false, NULL, &l, &err), -1);
    assert_string_equal(err.text, "\"DIR/.gitignore\", line 2: a pattern of more than 4096 bytes");
    buf_free(&text);
    arena_destroy(a);
}

static void test_what_may_match_below(void **state)
{
    (void)state;
    static const struct {
        const char *text, *folder;
        bool may;
    } cases[] = {
        {"*.so", "a/b", true},   {"/a/b/c", "a", true},  {"/a/b/c", "a/b", true}, {"/a/b/c", "a/b/c", false},
        {"/a/b/c", "x", false},  {"a/*/c", "a/x", true}, {"a/**", "a/x/y", true}, {"!a/b", "a", false},
        {"b/c\na/c", "a", true}, {"a/c/", "a", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct arena *a = arena_create();
        const struct ignore_list *l;
        assert_int_equal(ignore_parse(a, cases[i].text, strlen(cases[i].text), "f", 0, false, NULL, &l, NULL), 0);
        if (ignore_may_match_below(l, cases[i].folder, strlen(cases[i].folder)) != cases[i].may)
            fail_msg("\"%s\" below \"%s\"", cases[i].text, cases[i].folder);
        arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wildcards),
        cmocka_unit_test(test_wildcards_are_bounded),
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_a_pattern_has_a_limit),
        cmocka_unit_test(test_what_may_match_below),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
