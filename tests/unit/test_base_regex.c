/* base: patterns: which match, which are refused and where, and that no pattern costs more than its bound. */
#include "rhrun/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct regex *make(const char *pattern)
{
    struct regex_fault fault;
    struct regex *re = regex_create(pattern, strlen(pattern), &fault);
    if (!re)
        fail_msg("\"%s\": %s at %zu", pattern, fault.text, fault.at);
    return re;
}

static enum regex_result matches(const char *pattern, const char *text)
{
    struct regex *re = make(pattern);
    enum regex_result ret = regex_match(re, text, strlen(text));
    regex_destroy(re);
    return ret;
}

static void test_matches(void **unused)
{
    (void)unused;
    assert_int_equal(matches("CUDA error", "RuntimeError: CUDA error: out of memory"), REGEX_YES);
    assert_int_equal(matches("CUDA error", "cuda error"), REGEX_NO);
    assert_int_equal(matches("(?i)CUDA error", "cuda error"), REGEX_YES);
    assert_int_equal(matches("^loss$", "loss"), REGEX_YES);
    assert_int_equal(matches("größe", "die größe 3"), REGEX_YES);
    assert_int_equal(matches("^.$", "ö"), REGEX_YES);
}

static void test_bytes_that_are_no_utf8(void **unused)
{
    (void)unused;
    assert_int_equal(matches("loss", "\xff\xfe loss \x80"), REGEX_YES);
    assert_int_equal(matches("^.*loss", "\xff loss"), REGEX_NO); /* nothing matches the byte */
    struct regex *re = make("a.c");
    assert_int_equal(regex_match(re, "a\0c", 3), REGEX_YES);
    regex_destroy(re);
}

static void test_groups(void **unused)
{
    (void)unused;
    struct regex *re = make("loss[=:]\\s*(?<value>[-+.\\deE]+)(x)?");
    const char *text = "step 3 loss: 1.25e-3";
    size_t at, len;
    int group = regex_group(re, "value");
    assert_true(group > 0);
    assert_int_equal(regex_group(re, "other"), -1);
    assert_int_equal(regex_match(re, text, strlen(text)), REGEX_YES);
    assert_true(regex_span(re, group, &at, &len));
    assert_memory_equal(text + at, "1.25e-3", len);
    assert_int_equal(len, 7);
    assert_false(regex_span(re, 2, &at, &len));
    assert_false(regex_span(re, 7, &at, &len));
    regex_destroy(re);
}

static void test_faults(void **unused)
{
    (void)unused;
    struct regex_fault fault;
    char *large = malloc(REGEX_PATTERN_MAX + 1);
    assert_null(regex_create("loss (=", 7, &fault));
    assert_string_equal(fault.text, "missing closing parenthesis");
    assert_int_equal(fault.at, 7);
    assert_null(regex_create("a[z-b]", 6, &fault));
    assert_int_equal(fault.at, 4);
    assert_null(regex_create("\\C", 2, &fault)); /* could split a character */
    memset(large, 'a', REGEX_PATTERN_MAX + 1);
    assert_null(regex_create(large, REGEX_PATTERN_MAX + 1, &fault));
    free(large);
}

/* Without a bound on steps each of these takes ages: the first, longer than a lifetime. */
static void test_catastrophic_patterns_end(void **unused)
{
    (void)unused;
    static const char *const patterns[] = {"^(([a-z])+.)+[A-Z]([a-z])+$", "(?:a|aa)+[bc]", "a.*a.*a.*a.*[bc]",
                                           "[ab]*[ac]*[ad]*[zx]", "(?:.*a){9}[bc]"};
    size_t len = 64 << 10;
    char *text = malloc(len);
    memset(text, 'a', len);
    for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
        struct regex *re = make(patterns[i]);
        assert_int_equal(regex_match(re, text, 1000), REGEX_LIMIT);
        assert_int_equal(regex_match(re, text, len), REGEX_LIMIT);
        regex_destroy(re);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matches), cmocka_unit_test(test_bytes_that_are_no_utf8),    cmocka_unit_test(test_groups),
        cmocka_unit_test(test_faults),  cmocka_unit_test(test_catastrophic_patterns_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
