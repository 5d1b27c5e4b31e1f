/* watch: lines from a spool, the same ones however its bytes are cut. */
#include "rhrun/watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void record(struct buf *spool, uint32_t rank, uint8_t stream, uint64_t wall, const char *text, size_t len)
{
    uint8_t header[WIRE_SPOOL_HEADER];
    struct wire_spool h = {.len = (uint32_t)len, .rank = rank, .stream = stream, .wall_ms = wall};
    wire_spool_put(header, &h);
    buf_append(spool, header, sizeof header);
    buf_append(spool, text, len);
}

static void put(struct buf *spool, uint32_t rank, uint8_t stream, const char *text)
{
    record(spool, rank, stream, 7, text, strlen(text));
}

static void on_line(void *arg, const struct watch_line *l)
{
    struct buf *out = arg;
    buf_printf(out, "%u.%u%s%s %zu ", l->rank, l->stream, l->returned ? " returned" : "", l->open ? " open" : "",
               l->len);
    buf_append(out, l->text, l->len < 40 ? l->len : 40);
    buf_putc(out, '\n');
}

/* All lines, the spool fed in pieces of `piece` bytes after a first one of `first`. */
static char *lines(const struct buf *spool, size_t first, size_t piece)
{
    struct buf out = {0};
    struct watch *w = watch_create(on_line, &out);
    for (size_t at = 0; at < spool->len;) {
        size_t want = at == 0 && first ? first : piece, n = spool->len - at < want ? spool->len - at : want;
        assert_true(watch_feed(w, (const uint8_t *)spool->data + at, n));
        at += n;
    }
    watch_end(w);
    watch_destroy(w);
    if (!out.data)
        buf_puts(&out, "");
    return buf_steal(&out);
}

static void check(struct buf *spool, const char *want)
{
    for (size_t first = 0; first <= spool->len; first++) {
        CLEANUP(cleanup_free) char *got = lines(spool, first, spool->len);
        assert_string_equal(got, want);
    }
    for (size_t piece = 1; piece < 9; piece++) {
        CLEANUP(cleanup_free) char *got = lines(spool, 0, piece);
        assert_string_equal(got, want);
    }
    buf_free(spool);
}

static void test_lines_in_all_cuts(void **unused)
{
    (void)unused;
    struct buf s = {0};
    put(&s, 0, WIRE_STREAM_OUT, "one\ntwo");
    put(&s, 1, WIRE_STREAM_OUT, "other\n");
    put(&s, 0, WIRE_STREAM_ERR, "err\n\n");
    put(&s, 0, WIRE_STREAM_OUT, " goes on\n");
    put(&s, 0, WIRE_STREAM_NOTE, "marker");
    put(&s, 0, WIRE_STREAM_OUT, "no end");
    check(&s, "0.1 3 one\n1.1 5 other\n0.2 3 err\n0.2 0 \n0.1 11 two goes on\n0.1 open 6 no end\n0.3 open 6 marker\n");
}

static void test_carriage_returns(void **unused)
{
    (void)unused;
    struct buf s = {0};
    put(&s, 0, WIRE_STREAM_OUT, "10%\r20%\r");
    put(&s, 0, WIRE_STREAM_OUT, "30%\r\nwindows\r\n\r\n");
    put(&s, 0, WIRE_STREAM_OUT, "a\r");
    put(&s, 0, WIRE_STREAM_OUT, "\nb\r");
    put(&s, 1, WIRE_STREAM_OUT, "x\n");
    put(&s, 0, WIRE_STREAM_OUT, "\r\rend\r");
    check(&s, "0.1 returned 3 10%\n0.1 returned 3 20%\n0.1 3 30%\n0.1 7 windows\n0.1 0 \n0.1 1 a\n1.1 1 x\n"
              "0.1 returned 1 b\n0.1 returned 0 \n0.1 returned 0 \n0.1 open 3 end\n");
}

static void test_any_bytes(void **unused)
{
    (void)unused;
    struct buf s = {0}, out = {0};
    record(&s, 0, WIRE_STREAM_OUT, 7, "a\0b\xff\n", 5);
    CLEANUP(cleanup_free) char *got = lines(&s, 0, s.len);
    assert_memory_equal(got, "0.1 4 a\0b\xff\n", 11);
    buf_free(&s);
    buf_free(&out);
}

/* A line without an end is cut at the same places however it came. */
static void test_long_lines(void **unused)
{
    (void)unused;
    struct buf s = {0};
    size_t total = 2 * WATCH_LINE_MAX + 100;
    CLEANUP(cleanup_free) char *text = xmalloc(total + 1);
    memset(text, 'x', total);
    text[total] = '\n';
    for (size_t at = 0; at <= total;) {
        size_t n = total + 1 - at < 50000 ? total + 1 - at : 50000;
        record(&s, 0, WIRE_STREAM_OUT, 7, text + at, n);
        at += n;
    }
    record(&s, 0, WIRE_STREAM_OUT, 7, text + 100, WATCH_LINE_MAX); /* exactly so many, then the end */
    put(&s, 0, WIRE_STREAM_OUT, "\nshort\n");
    const char *want = "0.1 open 65536 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n0.1 open 65536 "
                       "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n"
                       "0.1 100 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n0.1 65536 "
                       "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n0.1 5 short\n";
    static const size_t pieces[] = {1 << 30, 1, 7, 4096, 65536, 65537, 100000};
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        CLEANUP(cleanup_free) char *got = lines(&s, 0, pieces[i]);
        assert_string_equal(got, want);
    }
    buf_free(&s);
}

static void test_malformed(void **unused)
{
    (void)unused;
    struct buf s = {0}, out = {0};
    put(&s, 0, WIRE_STREAM_OUT, "good\n");
    size_t good = s.len;
    put(&s, 0, WIRE_STREAM_OUT, "never\n");
    s.data[good + 8] = 9; /* no such stream */
    struct watch *w = watch_create(on_line, &out);
    assert_false(watch_feed(w, (const uint8_t *)s.data, s.len));
    assert_false(watch_feed(w, (const uint8_t *)s.data, good));
    assert_string_equal(out.data, "0.1 4 good\n");
    watch_destroy(w);
    watch_destroy(NULL);
    buf_free(&s);
    buf_free(&out);
}

/* A reader that begins at watch_open_from, wherever the first one stopped, continues with the same lines. */
static void test_open_from(void **unused)
{
    (void)unused;
    struct buf s = {0};
    char *most = xmalloc(WATCH_LINE_MAX - 3);
    memset(most, 'x', WATCH_LINE_MAX - 3);
    put(&s, 0, WIRE_STREAM_OUT, "one\ntw");
    put(&s, 1, WIRE_STREAM_OUT, "other\nbegun");
    put(&s, 0, WIRE_STREAM_OUT, "o\n");
    put(&s, 2, WIRE_STREAM_ERR, "7%\r");
    put(&s, 1, WIRE_STREAM_OUT, " and\nended\n");
    put(&s, 2, WIRE_STREAM_ERR, "8%\r\n");
    record(&s, 0, WIRE_STREAM_OUT, 7, most, WATCH_LINE_MAX - 3);
    put(&s, 0, WIRE_STREAM_OUT, "yyyyyy");
    put(&s, 0, WIRE_STREAM_OUT, "zz\n");
    put(&s, 1, WIRE_STREAM_OUT, "no end");
    CLEANUP(cleanup_free) char *all = lines(&s, 0, s.len);
    for (size_t stop = 0; stop <= s.len; stop++) {
        if (stop > 300 && stop + 300 < s.len)
            continue; /* within the long line */
        struct buf out = {0}, quiet = {0};
        struct watch *first = watch_create(on_line, &out), *second = watch_create(on_line, &quiet);
        watch_feed(first, (const uint8_t *)s.data, stop);
        uint64_t from = watch_open_from(first);
        assert_true(from <= stop);
        watch_feed(second, (const uint8_t *)s.data + from, stop - from);
        buf_clear(&quiet);
        watch_feed(second, (const uint8_t *)s.data + stop, s.len - stop);
        watch_end(second);
        buf_append(&out, quiet.data ? quiet.data : "", quiet.len);
        assert_string_equal(out.data, all);
        assert_true(watch_open_from(second) + from == s.len);
        watch_destroy(first);
        watch_destroy(second);
        buf_free(&out);
        buf_free(&quiet);
    }
    free(most);
    buf_free(&s);
}

static void on_end(void *arg, const struct wire_worker_end *end)
{
    buf_printf(arg, "%u ended: %u %d %llu\n", end->rank, end->cause, end->value, (unsigned long long)end->end_mono_ns);
}

/* A worker's end comes after its last words, however they are cut; one that a limit cut is skipped. */
static void test_ends(void **unused)
{
    (void)unused;
    struct buf s = {0};
    uint8_t raw[WIRE_END_SIZE];
    const struct wire_worker_end end = {0, WIRE_CAUSE_SIGNAL, 9, 77};
    wire_spool_end_put(raw, &end);
    put(&s, 1, WIRE_STREAM_ERR, "no line end");
    put(&s, 2, WIRE_STREAM_OUT, "of another");
    struct wire_spool h = {WIRE_END_SIZE, 1, WIRE_STREAM_END, 5};
    uint8_t header[WIRE_SPOOL_HEADER];
    for (int i = 0; i < 2; i++) {
        wire_spool_put(header, &h);
        buf_append(&s, header, sizeof header);
        buf_append(&s, raw, h.len);
        h.len = WIRE_END_SIZE - 1;
    }
    put(&s, 2, WIRE_STREAM_OUT, " rank\n");
    for (size_t cut = 0; cut <= s.len; cut++) {
        struct buf out = {0};
        struct watch *w = watch_create(on_line, &out);
        watch_on_end(w, on_end);
        assert_true(watch_feed(w, (const uint8_t *)s.data, cut));
        assert_true(watch_feed(w, (const uint8_t *)s.data + cut, s.len - cut));
        watch_end(w);
        assert_non_null(strstr(out.data, "no line end"));
        assert_non_null(strstr(strstr(out.data, "no line end"), "1 ended: 2 9 77\n"));
        assert_non_null(strstr(strstr(out.data, "1 ended"), "of another rank\n"));
        assert_null(strstr(strstr(out.data, "1 ended") + 7, "ended"));
        watch_destroy(w);
        buf_free(&out);
    }
    buf_free(&s);
}

/* Streams that no supervisor has: the memory for unfinished lines is bounded. */
static void test_ranks_without_end(void **state)
{
    (void)state;
    struct buf out = {0}, spool = {0};
    struct watch *w = watch_create(on_line, &out);
    uint32_t rank = 0;
    bool good = true;
    while (good && rank < 1000000) {
        buf_clear(&spool);
        put(&spool, rank++, WIRE_STREAM_OUT, "no end");
        good = watch_feed(w, (const uint8_t *)spool.data, spool.len);
    }
    assert_false(good);
    assert_true(rank > WIRE_WORKERS_MAX && rank <= 3 * (WIRE_WORKERS_MAX + 1) + 1);
    watch_destroy(w);
    buf_free(&out);
    buf_free(&spool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_in_all_cuts),
        cmocka_unit_test(test_carriage_returns),
        cmocka_unit_test(test_any_bytes),
        cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_open_from),
        cmocka_unit_test(test_ranks_without_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
