/* The agent's own parts of libc against the real ones. */
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#include "rhrun/wire.h"

#include <limits.h>
#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

/* under names of their own, whatever libc this is */
int small_vsnprintf(char *out, size_t max, const char *fmt, va_list ap);
int small_snprintf(char *out, size_t max, const char *fmt, ...);
int small_vasprintf(char **ret, const char *fmt, va_list ap);
void *small_memmem(const void *text, size_t len, const void *needle, size_t n);
char *small_strstr(const char *text, const char *needle);
void small_qsort(void *base, size_t count, size_t size, int (*compare)(const void *, const void *));
void *small_malloc(size_t size);
void *small_calloc(size_t count, size_t size);
void *small_realloc(void *p, size_t size);
void small_free(void *p);
pid_t small_fork(void);
#undef __GLIBC__
#define malloc small_malloc
#define calloc small_calloc
#define realloc small_realloc
#define free small_free
#define fork small_fork
#define _Fork getpid /* not every libc has it */
#define vsnprintf small_vsnprintf
#define snprintf small_snprintf
#define vasprintf small_vasprintf
#define memmem small_memmem
#undef strstr
#define strstr small_strstr
#define qsort small_qsort
#include "../../src/agent/small.c"
#undef malloc
#undef calloc
#undef realloc
#undef free
#undef fork
#undef vsnprintf
#undef snprintf
#undef vasprintf
#undef memmem
#undef strstr
#undef qsort

/* through a pointer: texts that are cut off are meant */
static int (*volatile real)(char *out, size_t max, const char *fmt, ...) = snprintf;

#define SAME(...)                                                                             \
    do {                                                                                      \
        char a[64], b[64];                                                                    \
        for (size_t max = 0; max <= sizeof a; max++) {                                        \
            memset(a, 'x', sizeof a);                                                         \
            memset(b, 'x', sizeof b);                                                         \
            assert_int_equal(small_snprintf(a, max, __VA_ARGS__), real(b, max, __VA_ARGS__)); \
            assert_memory_equal(a, b, sizeof a);                                              \
        }                                                                                     \
    } while (0)

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

/* Random sizes of all classes: blocks keep their contents, and do not overlap. */
static void test_memory(void **state)
{
    (void)state;
    enum { BLOCKS = 64, ROUNDS = 20000 };
    struct {
        uint8_t *p, fill;
        size_t size;
    } blocks[BLOCKS] = {0};
    uint32_t seed = 7;
    for (int round = 0; round < ROUNDS; round++) {
        seed = seed * 1664525 + 1013904223;
        size_t at = (seed >> 8) % BLOCKS, size = (seed >> 4) % ((size_t)1 << (seed >> 28) % 15 * 5 / 4);
        if (round % 512 == 0)
            size += 200000;
        uint8_t *p = blocks[at].p;
        for (size_t i = 0; i < blocks[at].size; i++)
            if (p[i] != blocks[at].fill)
                fail_msg("round %d: byte %zu of %zu", round, i, blocks[at].size);
        size_t kept = size < blocks[at].size ? size : blocks[at].size;
        if (seed & 1 << 20) {
            p = small_realloc(p, size);
            for (size_t i = 0; i < kept; i++)
                if (p[i] != blocks[at].fill)
                    fail_msg("round %d: byte %zu of %zu was not kept", round, i, size);
        } else {
            small_free(p);
            p = small_calloc(1, size);
            for (size_t i = 0; i < size; i++)
                if (p[i])
                    fail_msg("round %d: byte %zu of %zu is not zero", round, i, size);
        }
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        memset(p, round, size);
        blocks[at].p = p;
        blocks[at].size = size;
        blocks[at].fill = (uint8_t)round;
    }
    for (size_t i = 0; i < BLOCKS; i++)
        small_free(blocks[i].p);
    errno = 0;
    volatile size_t most = SIZE_MAX;
    assert_null(small_malloc(most));
    assert_int_equal(errno, ENOMEM);
    assert_null(small_calloc(most / 2, 3));
    assert_null(small_realloc(NULL, most - 8));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats), cmocka_unit_test(test_allocated), cmocka_unit_test(test_memory),
        cmocka_unit_test(test_search),  cmocka_unit_test(test_sort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
