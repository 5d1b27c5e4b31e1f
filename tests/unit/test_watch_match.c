/* watch: patterns over lines: streams, ranks, values, bounds. */
#include "rhrun/watch.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BOTH = MATCH_OUT | MATCH_ERR };

static void on_hit(void *arg, const struct match_hit *hit)
{
    buf_printf(arg, "%u:%u:%.*s:%g\n", hit->pattern, hit->line->rank, (int)hit->line->len, hit->line->text, hit->value);
}

static void on_limit(void *arg, uint32_t pattern, const struct watch_line *line)
{
    buf_printf(arg, "limit %u, rank %u\n", pattern, line->rank);
}

static void give(struct matcher *m, uint32_t rank, enum wire_stream stream, const char *text, const bool *wanted)
{
    const struct watch_line line = {.rank = rank, .stream = (uint8_t)stream, .text = text, .len = strlen(text)};
    matcher_line(m, &line, wanted);
}

static void expect(struct buf *out, const char *text)
{
    assert_string_equal(out->len ? out->data : "", text);
    buf_clear(out);
}

static void test_streams_and_ranks(void **unused)
{
    (void)unused;
    const struct match_pattern patterns[] = {{.pattern = "error", .streams = BOTH},
                                             {.pattern = "error", .streams = MATCH_ERR},
                                             {.pattern = "^step", .streams = MATCH_OUT, .has_rank = true, .rank = 2}};
    struct buf out = {0};
    struct matcher *m = matcher_create(patterns, ARRAY_LEN(patterns), on_hit, on_limit, &out);
    give(m, 0, WIRE_STREAM_OUT, "an error", NULL);
    expect(&out, "0:0:an error:0\n");
    give(m, 0, WIRE_STREAM_ERR, "an error", NULL);
    expect(&out, "0:0:an error:0\n1:0:an error:0\n");
    give(m, 0, WIRE_STREAM_NOTE, "an error", NULL); /* rhrun's own words */
    give(m, 1, WIRE_STREAM_OUT, "step 1", NULL);
    give(m, 2, WIRE_STREAM_ERR, "step 1", NULL);
    expect(&out, "");
    give(m, 2, WIRE_STREAM_OUT, "step 1", NULL);
    expect(&out, "2:2:step 1:0\n");
    give(m, 0, WIRE_STREAM_ERR, "an error", (const bool[]){false, true, true});
    expect(&out, "1:0:an error:0\n");
    matcher_destroy(m);
    buf_free(&out);
}

static void test_values(void **unused)
{
    (void)unused;
    const struct match_pattern patterns[] = {{.pattern = "loss[=:]\\s*(?<value>\\S+)", .streams = BOTH, .value = true}};
    struct buf out = {0};
    struct matcher *m = matcher_create(patterns, 1, on_hit, on_limit, &out);
    give(m, 3, WIRE_STREAM_OUT, "loss= 1.5e-1", NULL);
    expect(&out, "0:3:loss= 1.5e-1:0.15\n");
    give(m, 3, WIRE_STREAM_OUT, "loss: nan", NULL);
    expect(&out, "0:3:loss: nan:nan\n");
    give(m, 3, WIRE_STREAM_OUT, "loss: unknown", NULL);
    expect(&out, "");
    matcher_destroy(m);
    buf_free(&out);
}

static void on_step(void *arg, const struct match_hit *hit)
{
    if (hit->has_step)
        buf_printf(arg, "%g at %llu\n", hit->value, (unsigned long long)hit->step);
    else
        buf_printf(arg, "%g\n", hit->value);
}

static void test_steps(void **unused)
{
    (void)unused;
    const struct match_pattern patterns[] = {
        {.pattern = "(step (?<step>\\S+) )?loss=(?<value>\\S+)", .streams = BOTH, .value = true}};
    struct buf out = {0};
    struct matcher *m = matcher_create(patterns, 1, on_step, on_limit, &out);
    give(m, 0, WIRE_STREAM_OUT, "step 120 loss=0.5", NULL);
    give(m, 0, WIRE_STREAM_OUT, "loss=0.5", NULL);
    give(m, 0, WIRE_STREAM_OUT, "step -1 loss=0.5", NULL); /* not a whole number: the value still counts */
    give(m, 0, WIRE_STREAM_OUT, "step 99999999999999999999999 loss=0.5", NULL);
    expect(&out, "0.5 at 120\n0.5\n0.5\n0.5\n");
    matcher_destroy(m);
    buf_free(&out);
}

static void test_numbers_as_text(void **unused)
{
    (void)unused;
    static const struct {
        double v;
        const char *text;
    } cases[] = {{0.25, "0.25"}, {0.1, "0.1"},         {1.0 / 3, "0.3333333333333333"}, {-1e300, "-1e+300"},
                 {1e6, "1e+06"}, {(double)NAN, "nan"}, {-(double)INFINITY, "-inf"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[MATCH_NUMBER_MAX];
        double back;
        match_number_text(cases[i].v, text);
        assert_string_equal(text, cases[i].text);
        assert_true(match_number(text, strlen(text), &back));
        assert_true(isnan(back) ? isnan(cases[i].v) : back >= cases[i].v && back <= cases[i].v);
    }
}

static void test_numbers(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        double value;
    } good[] = {{"0", 0},  {"-1.5", -1.5},  {"+2", 2},    {".5", 0.5},
                {"3.", 3}, {"1e-3", 0.001}, {"1E5", 1e5}, {"-inf", -INFINITY}};
    static const char *const bad[] = {"",
                                      "x",
                                      "1x",
                                      "0x10",
                                      " 1",
                                      "1 ",
                                      "1,5",
                                      "1.2.3",
                                      "nan(3)",
                                      "-",
                                      "e5",
                                      "none",
                                      "1111111111111111111111111111111111111111111111111111111111111111"};
    double v;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_true(match_number(good[i].text, strlen(good[i].text), &v));
        assert_true(v <= good[i].value && v >= good[i].value);
    }
    assert_true(match_number("NaN", 3, &v) && isnan(v));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(match_number(bad[i], strlen(bad[i]), &v));
}

/* Each text is the number that strtod reads, to the last bit, on both sides of the limit of the faster way. */
static void test_numbers_to_the_last_bit(void **unused)
{
    (void)unused;
    static const char *const texts[] = {"0.1",
                                        "-0",
                                        "-0.0",
                                        "123456789012345",
                                        "1234567890123456",
                                        "12345678901234567890",
                                        "999999999999999e22",
                                        "999999999999999e23",
                                        "1e22",
                                        "1e23",
                                        "1e-22",
                                        "1e-23",
                                        "0.000000000000001",
                                        "0.0000000000000001",
                                        "000000000000000000001",
                                        "1e+22",
                                        "1.e3",
                                        ".5e-3",
                                        "1e308",
                                        "1e309",
                                        "4.9e-324",
                                        "1e-400",
                                        "9007199254740993",
                                        "0.00000000000000000000000000000001",
                                        "1e0005",
                                        "1e00005",
                                        "8.5e-07"};
    uint64_t drawn = 1;
    for (size_t i = 0; i < ARRAY_LEN(texts) + 200000; i++) {
        char text[64];
        double v, wanted;
        if (i < ARRAY_LEN(texts)) {
            snprintf(text, sizeof text, "%s", texts[i]);
        } else {
            drawn = drawn * 6364136223846793005u + 1442695040888963407u;
            const int digits = 1 + (int)(drawn >> 33) % 17, tens = (int)(drawn >> 40) % 60 - 30;
            drawn = drawn * 6364136223846793005u + 1442695040888963407u;
            const double of = (double)(drawn >> 11) * (i & 1 ? 1e-19 : -1e-5);
            snprintf(text, sizeof text, i & 2 ? "%.*ge%d" : "%.*g", digits, of, tens);
            if (strchr(text, 'e') != strrchr(text, 'e'))
                *strrchr(text, 'e') = 0;
        }
        wanted = strtod(text, NULL);
        assert_true(match_number(text, strlen(text), &v));
        if (memcmp(&v, &wanted, sizeof v) != 0)
            fail_msg("%s: %.17g instead of %.17g", text, v, wanted);
    }
    static const char *const bad[] = {"1e",   "1e+",  "1e-",   "--1",  "+-1",  ".",  "+.",
                                      "-.e5", "1e5.", "1e5e5", "1e5x", "1ee5", ".e", "1 e5"};
    double v;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(match_number(bad[i], strlen(bad[i]), &v));
}

static void test_a_pattern_at_its_bound_says_so_once(void **unused)
{
    (void)unused;
    const struct match_pattern patterns[] = {{.pattern = "^(([a-z])+.)+[A-Z]([a-z])+$", .streams = BOTH},
                                             {.pattern = "b$", .streams = BOTH}};
    struct buf out = {0};
    struct matcher *m = matcher_create(patterns, 2, on_hit, on_limit, &out);
    char line[200];
    memset(line, 'a', sizeof line);
    line[sizeof line - 1] = 0;
    give(m, 5, WIRE_STREAM_OUT, line, NULL);
    expect(&out, "limit 0, rank 5\n");
    give(m, 6, WIRE_STREAM_OUT, line, NULL);
    expect(&out, "");
    give(m, 6, WIRE_STREAM_OUT, "aB", NULL);
    give(m, 6, WIRE_STREAM_OUT, "a b", NULL); /* the others continue */
    expect(&out, "1:6:a b:0\n");
    matcher_destroy(m);
    buf_free(&out);
}

static void test_long_lines_are_looked_at_up_to_a_bound(void **unused)
{
    (void)unused;
    const struct match_pattern patterns[] = {{.pattern = "needle", .streams = BOTH}};
    struct buf out = {0};
    struct matcher *m = matcher_create(patterns, 1, on_hit, on_limit, &out);
    char *line = malloc(WATCH_LINE_MAX);
    struct watch_line l = {.stream = WIRE_STREAM_OUT, .text = line, .len = WATCH_LINE_MAX};
    memset(line, '.', WATCH_LINE_MAX);
    memcpy(line + MATCH_LINE_MAX, "needle", 6);
    matcher_line(m, &l, NULL);
    expect(&out, "");
    memcpy(line + MATCH_LINE_MAX - 6, "needle", 6);
    l.len = MATCH_LINE_MAX;
    matcher_line(m, &l, NULL);
    assert_true(out.len > MATCH_LINE_MAX);
    matcher_destroy(m);
    buf_free(&out);
    free(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams_and_ranks),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_numbers_as_text),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_numbers_to_the_last_bit),
        cmocka_unit_test(test_a_pattern_at_its_bound_says_so_once),
        cmocka_unit_test(test_long_lines_are_looked_at_up_to_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
