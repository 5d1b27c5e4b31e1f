/* report: the kept part of a log and of a curve, and that the page's data is valid in a page. */
#include "rhrun/report.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void add(struct report_excerpt *x, uint32_t rank, const char *text)
{
    char *copy = xstrdup(text);
    const struct report_line l = {
        .rank = rank, .text = copy, .len = strlen(copy), .whole_bytes = strlen(copy), .time_ms = 1000};
    report_excerpt_add(x, &l);
    free(copy);
}

static void add_many(struct report_excerpt *x, uint32_t rank, unsigned count)
{
    char text[32];
    for (unsigned i = 0; i < count; i++) {
        snprintf(text, sizeof text, "%u says %u", rank, i);
        add(x, rank, text);
    }
}

static void test_a_short_log_is_whole(void **arg)
{
    (void)arg;
    size_t count;
    uint64_t total;
    struct report_excerpt *x = report_excerpt_create(REPORT_HEAD, REPORT_TAIL, REPORT_BEFORE);
    add_many(x, 0, 150);
    const struct report_line *lines = report_excerpt_lines(x, &count, &total);
    assert_int_equal(count, 150);
    assert_int_equal(total, 150);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(lines[i].number, i);
    report_excerpt_destroy(x);
}

static void test_of_a_long_log_head_tail_and_failures_are_kept(void **arg)
{
    (void)arg;
    size_t count, workers;
    uint64_t total;
    unsigned of_failed = 0;
    struct report_excerpt *x = report_excerpt_create(REPORT_HEAD, REPORT_TAIL, REPORT_BEFORE);
    add_many(x, 1, 1000);
    add(x, 7, "it went wrong");
    report_excerpt_failed(x, 7, 1, 3);
    add_many(x, 1, 100000);
    const struct report_line *lines = report_excerpt_lines(x, &count, &total);
    assert_int_equal(total, 101001);
    assert_true(count < 300);
    assert_int_equal(lines[0].number, 0);
    assert_int_equal(lines[count - 1].number, total - 1);
    for (size_t i = 0; i < count; i++) {
        assert_true(i == 0 || lines[i].number > lines[i - 1].number);
        of_failed += lines[i].rank == 7;
        if (lines[i].rank == 7)
            assert_memory_equal(lines[i].text, "it went wrong", lines[i].len);
    }
    assert_int_equal(of_failed, 1);
    const struct report_worker *w = report_excerpt_workers(x, &workers);
    assert_int_equal(workers, 2);
    assert_int_equal(w[0].rank, 1);
    assert_int_equal(w[0].lines, 101000);
    assert_true(w[1].failed && w[1].value == 3 && !w[0].failed);
    report_excerpt_destroy(x);
}

static void test_a_line_has_a_bound_and_tells_its_length(void **arg)
{
    (void)arg;
    size_t count;
    uint64_t total;
    char *text = xcalloc(70001, 1);
    memset(text, 'x', 70000);
    struct report_excerpt *x = report_excerpt_create(REPORT_HEAD, REPORT_TAIL, REPORT_BEFORE);
    add(x, 0, text);
    report_excerpt_more(x, 0, 10 << 20);
    const struct report_line *lines = report_excerpt_lines(x, &count, &total);
    assert_int_equal(count, 1);
    assert_int_equal(lines[0].len, REPORT_LINE_MAX);
    assert_int_equal(lines[0].whole_bytes, 70000 + (10 << 20));
    report_excerpt_destroy(x);
    free(text);
}

static void test_a_curve_is_bounded_and_loses_no_spike(void **arg)
{
    (void)arg;
    struct report_curve c = {0};
    double low = 1e9, high = -1e9;
    uint64_t count = 0;
    for (uint64_t i = 0; i < 1000000; i++)
        report_curve_add(&c, i, i, i == 314159 ? 1000 : i == 271828 ? -1000 : i == 5 ? NAN : (double)(i % 1000) / 1000);
    assert_true(c.group_count <= REPORT_GROUPS_MAX && c.group_count > REPORT_GROUPS_MAX / 4);
    for (size_t i = 0; i < c.group_count; i++) {
        low = c.groups[i].low < low ? c.groups[i].low : low;
        high = c.groups[i].high > high ? c.groups[i].high : high;
        count += c.groups[i].count;
        if (c.groups[i].high > 999)
            assert_int_equal(c.groups[i].high_step, 314159);
    }
    assert_true(low < -999 && high > 999);
    assert_int_equal(count, 1000000);
    assert_int_equal(c.count, 1000000);
    assert_int_equal(c.odd, 1);
    report_curve_free(&c);
}

static void test_values_that_are_no_numbers_are_a_gap(void **arg)
{
    (void)arg;
    struct report_curve c = {0};
    report_curve_add(&c, 1, 1, NAN);
    report_curve_add(&c, 2, 2, INFINITY);
    report_curve_add(&c, 3, 3, 4);
    assert_int_equal(c.odd, 2);
    assert_true(isnan(c.groups[0].low) && isnan(c.groups[1].high));
    report_curve_halve(&c);
    report_curve_halve(&c);
    assert_int_equal(c.group_count, 1);
    assert_true(c.groups[0].low >= 4 && c.groups[0].high <= 4);
    report_curve_free(&c);
}

static void test_text_of_a_run_stays_text(void **arg)
{
    (void)arg;
    const char *bad = "</script><img src=x onerror=alert(1)>\x1b[31m\xff\"\\";
    struct report_excerpt *x = report_excerpt_create(REPORT_HEAD, REPORT_TAIL, REPORT_BEFORE);
    add(x, 0, bad);
    const struct report_pair pair = {bad, bad};
    const struct report_attempt attempt = {.step = bad, .outcome = "failed", .cause = bad, .attempt = "a", .log = x};
    const struct report_point point = {.name = bad, .state = bad, .params = &pair, .param_count = 1};
    const struct report_event event = {1, bad, bad, bad};
    const struct report_node node = {bad, NULL};
    const struct report_run run = {.id = bad,
                                   .job = bad,
                                   .status = bad,
                                   .provenance = &pair,
                                   .provenance_count = 1,
                                   .nodes = &node,
                                   .node_count = 1,
                                   .attempts = &attempt,
                                   .attempt_count = 1,
                                   .points = &point,
                                   .point_count = 1,
                                   .events = &event,
                                   .event_count = 1};
    const struct report report = {"1", 1, &run, 1};
    struct buf data = {0}, page = {0};
    report_json(&report, &data);
    assert_null(memchr(data.data, '<', data.len));
    report_page(&report, &page);
    assert_non_null(strstr(page.data, "default-src 'none'"));
    assert_null(strstr(page.data, "<img"));
    buf_free(&data);
    buf_free(&page);
    report_excerpt_destroy(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_short_log_is_whole),
        cmocka_unit_test(test_of_a_long_log_head_tail_and_failures_are_kept),
        cmocka_unit_test(test_a_line_has_a_bound_and_tells_its_length),
        cmocka_unit_test(test_a_curve_is_bounded_and_loses_no_spike),
        cmocka_unit_test(test_values_that_are_no_numbers_are_a_gap),
        cmocka_unit_test(test_text_of_a_run_stays_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
