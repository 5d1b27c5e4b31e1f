/* watch: lines in blocks are the same lines, and patterns find the same in a block as in each line. */
#include "rhrun/watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BOTH = MATCH_OUT | MATCH_ERR };

static uint32_t drawn;
static uint32_t draw(uint32_t below)
{
    drawn = drawn * 1664525u + 1013904223u;
    return (drawn >> 8) % below;
}

static void put_line(struct buf *out, const struct watch_line *line)
{
    buf_printf(out, "%u %u %zu %d%d ", line->rank, line->stream, line->len, line->returned, line->open);
    buf_append(out, line->text, line->len);
    buf_putc(out, '\n');
}

static void on_line(void *arg, const struct watch_line *line)
{
    put_line(arg, line);
}

static void on_block(void *arg, const struct watch_line *lines)
{
    for (size_t at = 0; at < lines->len;) {
        struct watch_line line = *lines;
        const char *end = memchr(lines->text + at, '\n', lines->len - at);
        assert_non_null(end); /* each has its end */
        line.text = lines->text + at;
        line.len = (size_t)(end - line.text);
        assert_null(memchr(line.text, '\r', line.len));
        put_line(arg, &line);
        at += line.len + 1;
    }
}

static void put_record(struct buf *spool, uint32_t rank, const char *text, size_t len)
{
    uint8_t header[WIRE_SPOOL_HEADER];
    const struct wire_spool record = {.len = (uint32_t)len, .rank = rank, .stream = WIRE_STREAM_OUT, .wall_ms = 1};
    wire_spool_put(header, &record);
    buf_append(spool, header, sizeof header);
    buf_append(spool, text, len);
}

static void test_the_same_lines(void **unused)
{
    (void)unused;
    static const char letters[] = "ab\n\n\r";
    for (uint32_t seed = 0; seed < 3000; seed++) {
        struct buf spool = {0}, lines = {0}, blocks = {0};
        drawn = seed;
        for (uint32_t i = draw(12); i > 0; i--) {
            char text[64];
            const size_t len = 1 + draw(sizeof text - 1);
            const uint32_t kinds = seed % 2 ? 5 : 4; /* every other time without carriage returns */
            for (size_t k = 0; k < len; k++)
                text[k] = letters[draw(kinds)];
            put_record(&spool, draw(3), text, len);
        }
        struct watch *a = watch_create(on_line, &lines), *b = watch_create(on_line, &blocks);
        watch_on_block(b, on_block);
        for (size_t at = 0; at < spool.len;) {
            size_t n = 1 + draw(80);
            n = n < spool.len - at ? n : spool.len - at;
            assert_true(watch_feed(a, (uint8_t *)spool.data + at, n));
            assert_true(watch_feed(b, (uint8_t *)spool.data + at, n));
            assert_int_equal(watch_open_from(a), watch_open_from(b));
            at += n;
        }
        watch_end(a);
        watch_end(b);
        assert_int_equal(lines.len, blocks.len);
        assert_true(lines.len == 0 || memcmp(lines.data, blocks.data, lines.len) == 0);
        watch_destroy(a);
        watch_destroy(b);
        buf_free(&spool);
        buf_free(&lines);
        buf_free(&blocks);
    }
}

/* ---- patterns ---- */

static void on_hit(void *arg, const struct match_hit *hit)
{
    buf_printf(arg, "%u:%.*s:%g:%d:%llu\n", hit->pattern, (int)hit->line->len, hit->line->text, hit->value,
               hit->has_step, (unsigned long long)hit->step);
}

static void on_limit(void *arg, uint32_t pattern, const struct watch_line *line)
{
    (void)line;
    buf_printf(arg, "limit %u\n", pattern);
}

static void test_the_same_hits(void **unused)
{
    (void)unused;
    static const char *const texts[] = {"a",         "^a",
                                        "a$",        "^$",
                                        "a\\s*b",    "(?i)A=(?<value>\\S*)",
                                        "a[^b]*=",   "\\ba\\b",
                                        "(a|b)+=",   "(?:a|ab)(?:=|b1)",
                                        "b*",        "(?<=a)b",
                                        "a(?!b)",    "a\\s*+$",
                                        "(?>a|ab)=", "\\Aa",
                                        "b\\z",      "a\\n?b",
                                        "(?s)a.*1",  "(?s:a.*1)",
                                        "\\Bb",      "=\\s+1",
                                        "(?m)^b",    "[ab]{2,}?1",
                                        "(a)\\1",    "x|",
                                        "a\\R?b",    "a\\K=",
                                        "\\D\\d\\s"};
    static const char letters[] = "ab=1 \nAB";
    struct match_pattern patterns[ARRAY_LEN(texts) + 2];
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        patterns[i] = (struct match_pattern){.pattern = texts[i], .streams = BOTH};
    patterns[ARRAY_LEN(texts)] =
        (struct match_pattern){.pattern = "(a(?<step>\\d+))?\\s*=(?<value>\\S+)", .streams = BOTH, .value = true};
    patterns[ARRAY_LEN(texts) + 1] =
        (struct match_pattern){.pattern = "=(?<value>[^a]+)", .streams = MATCH_OUT, .value = true};
    for (size_t i = 0; i < ARRAY_LEN(patterns); i++) { /* one by one: a failure names the pattern */
        struct buf each = {0}, all = {0};
        struct matcher *a = matcher_create(&patterns[i], 1, on_hit, on_limit, &each),
                       *b = matcher_create(&patterns[i], 1, on_hit, on_limit, &all);
        for (uint32_t seed = 0; seed < 4000; seed++) {
            char text[120];
            size_t len = 1 + draw(sizeof text - 2);
            drawn = seed + 1;
            for (size_t k = 0; k < len; k++)
                text[k] = letters[draw(sizeof letters - 1)];
            text[len++] = '\n';
            const struct watch_line lines = {.text = text, .len = len, .stream = WIRE_STREAM_OUT};
            for (size_t at = 0; at < len;) {
                struct watch_line line = lines;
                line.text = text + at;
                line.len = (size_t)((const char *)memchr(line.text, '\n', len - at) - line.text);
                matcher_line(a, &line, NULL);
                at += line.len + 1;
            }
            matcher_block(b, &lines, NULL);
            if (each.len != all.len || (each.len && memcmp(each.data, all.data, each.len) != 0))
                fail_msg("pattern %s, seed %u, text %.*s\nline by line:\n%s\nat once:\n%s", patterns[i].pattern, seed,
                         (int)len, text, each.len ? each.data : "", all.len ? all.data : "");
            buf_clear(&each);
            buf_clear(&all);
        }
        matcher_destroy(a);
        matcher_destroy(b);
        buf_free(&each);
        buf_free(&all);
    }
}

static void test_hits_are_in_order(void **unused)
{
    (void)unused;
    const struct match_pattern patterns[] = {{.pattern = "b", .streams = BOTH}, {.pattern = "a", .streams = BOTH}};
    const char *text = "a\nb\nab\n";
    const struct watch_line lines = {.text = text, .len = strlen(text), .stream = WIRE_STREAM_OUT};
    struct buf out = {0};
    struct matcher *m = matcher_create(patterns, ARRAY_LEN(patterns), on_hit, on_limit, &out);
    matcher_block(m, &lines, NULL);
    assert_string_equal(out.data, "1:a:0:0:0\n0:b:0:0:0\n0:ab:0:0:0\n1:ab:0:0:0\n");
    matcher_destroy(m);
    buf_free(&out);
}

/* The text after the first MATCH_LINE_MAX bytes of a line is not matched. */
static void test_long_lines(void **unused)
{
    (void)unused;
    const struct match_pattern patterns[] = {{.pattern = "x", .streams = BOTH}};
    struct buf out = {0}, text = {0};
    struct matcher *m = matcher_create(patterns, 1, on_hit, on_limit, &out);
    buf_puts(&text, "short\n");
    for (size_t i = 0; i < MATCH_LINE_MAX; i++)
        buf_putc(&text, 'a');
    buf_puts(&text, "x\n");
    const struct watch_line lines = {.text = text.data, .len = text.len, .stream = WIRE_STREAM_OUT};
    matcher_block(m, &lines, NULL);
    assert_int_equal(out.len, 0);
    matcher_destroy(m);
    buf_free(&out);
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_lines),
        cmocka_unit_test(test_the_same_hits),
        cmocka_unit_test(test_hits_are_in_order),
        cmocka_unit_test(test_long_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
