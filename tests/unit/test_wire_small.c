/* The agent's own parts of libc against the real ones. */
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#include "rhrun/wire.h"

#include <limits.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* under names of their own, whatever libc this is */
int small_vsnprintf(char *out, size_t max, const char *fmt, va_list ap);
int small_snprintf(char *out, size_t max, const char *fmt, ...);
int small_vasprintf(char **ret, const char *fmt, va_list ap);
void *small_memmem(const void *text, size_t len, const void *needle, size_t n);
char *small_strstr(const char *text, const char *needle);
void small_qsort(void *base, size_t count, size_t size, int (*compare)(const void *, const void *));
#undef __GLIBC__
#define vsnprintf small_vsnprintf
#define snprintf small_snprintf
#define vasprintf small_vasprintf
#define memmem small_memmem
#undef strstr
#define strstr small_strstr
#define qsort small_qsort
#include "../../src/agent/small.c"
#undef vsnprintf
#undef snprintf
#undef vasprintf
#undef memmem
#undef strstr
#undef qsort

#define SAME(...)                                                                                 \
    do {                                                                                          \
        char a[64], b[64];                                                                        \
        for (size_t max = 0; max <= sizeof a; max++) {                                            \
            memset(a, 'x', sizeof a);                                                             \
            memset(b, 'x', sizeof b);                                                             \
            assert_int_equal(small_snprintf(a, max, __VA_ARGS__), snprintf(b, max, __VA_ARGS__)); \
            assert_memory_equal(a, b, sizeof a);                                                  \
        }                                                                                         \
    } while (0)

#pragma GCC diagnostic ignored "-Wformat-truncation"
static void test_formats(void **state)
{
    (void)state;
    const char *nothing = "";
    SAME("%s", nothing);
    SAME("plain %% text");
    SAME("%s/%s:%c", "a", "bc", 'd');
    SAME("%.*s|%.3s|%.0s|%.200s", 2, "abcdef", "abcdef", "abc", "xyz");
    SAME("%d %d %d %d", 0, -1, INT_MAX, INT_MIN);
    SAME("%ld %ld", LONG_MIN, LONG_MAX);
    SAME("%u %lu %zu", UINT_MAX, ULONG_MAX, (size_t)12345);
    SAME("%llu %020llu", ULLONG_MAX, 42ull);
    SAME("%016llx %x %04x", 0xabcdefull, 0u, 0x1fu);
}

static char *print(const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = small_vasprintf(&text, fmt, ap);
    va_end(ap);
    assert_int_equal(n, strlen(text));
    return text;
}

static void test_allocated(void **state)
{
    (void)state;
    char *text = print("%s-%d", "0123456789012345678901234567890123456789", 7);
    assert_string_equal(text, "0123456789012345678901234567890123456789-7");
    free(text);
}

static void test_search(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "a", "ab", "aab", "aaab", "abab", "xaabaab", "b"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        for (size_t j = 0; j < ARRAY_LEN(texts); j++) {
            const char *want = strstr(texts[i], texts[j]);
            assert_ptr_equal(small_strstr(texts[i], texts[j]), want);
        }
    assert_ptr_equal(small_memmem("a\0b", 3, "\0b", 2), memmem("a\0b", 3, "\0b", 2));
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void test_sort(void **state)
{
    (void)state;
    uint32_t a[300], b[300], seed = 1;
    for (size_t count = 0; count <= ARRAY_LEN(a); count++) {
        for (size_t i = 0; i < count; i++)
            a[i] = b[i] = (seed = seed * 1664525 + 1013904223) % (count % 7 ? 1u << 31 : 5);
        small_qsort(a, count, sizeof *a, by_value);
        qsort(b, count, sizeof *b, by_value);
        assert_memory_equal(a, b, count * sizeof *a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_allocated),
        cmocka_unit_test(test_search),
        cmocka_unit_test(test_sort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
