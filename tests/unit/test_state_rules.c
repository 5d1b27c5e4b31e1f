/* state: which failure rule counts, by tables; and that replaying keeps budgets, verdicts, backoffs and metrics. */
#include "rhrun/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NUMBERS(name, ...) (uint32_t[]){__VA_ARGS__}, .name = sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)
#define STATUS(...) .statuses = NUMBERS(status_count, __VA_ARGS__)
#define SIGNAL(...) .signals = NUMBERS(signal_count, __VA_ARGS__)
#define PATTERN .pattern = {.text = "x"}
#define ANY_ROLE .role = SPEC_NO_ROLE
#define DEFAULT UINT32_MAX

static const struct spec_rule rules[] = {
    {.id = "a", ANY_ROLE, STATUS(3, 4), .action = RULE_FAIL},
    {.id = "b", .role = 1, SIGNAL(9), .action = RULE_IGNORE, .has_times = true, .times = 2},
    {.id = "c", ANY_ROLE, PATTERN, .action = RULE_IGNORE},
    {.id = "d", ANY_ROLE, PATTERN, .action = RULE_FAIL},
    {.id = "e",
     ANY_ROLE,
     SIGNAL(9, 7),
     .action = RULE_RESTART,
     .has_times = true,
     .times = 3,
     .backoff_ms = 1000,
     .backoff_max_ms = 3000,
     .backoff_factor = 2},
    {.id = "f",
     ANY_ROLE,
     STATUS(5),
     PATTERN,
     .action = RULE_RESTART,
     .backoff_ms = 500,
     .backoff_max_ms = 500,
     .backoff_factor = 1},
    {.id = "g", .subject = RULE_NODE_LOST, ANY_ROLE, .action = RULE_RESTART},
    {.id = "h", ANY_ROLE, STATUS(6, 5), .action = RULE_RESTART},
};
enum { COUNT = ARRAY_LEN(rules) };

#define SEEN(...)               \
    .seen = (const bool[COUNT]) \
    {                           \
        __VA_ARGS__             \
    }
#define USED(...)   \
    {               \
        __VA_ARGS__ \
    }

static const struct {
    const char *name;
    struct state_happening what;
    uint32_t used[COUNT];
    uint32_t restarts_left;
    struct state_decision wanted;
} cases[] = {
    {"the first that matches", {.status = 4}, USED(0), 9, {0, RULE_FAIL, false, 1, EVENT_UNBOUNDED, 0}},
    {"no rule: restart while there are any",
     {.status = 1},
     USED(0),
     1,
     {DEFAULT, RULE_RESTART, false, 0, EVENT_UNBOUNDED, 0}},
    {"no rule: fail", {.status = 1}, USED(0), 0, {DEFAULT, RULE_FAIL, false, 0, EVENT_UNBOUNDED, 0}},
    {"a status is no signal", {.status = 9}, USED(0), 0, {DEFAULT, RULE_FAIL, false, 0, EVENT_UNBOUNDED, 0}},
    {"of another role", {.role = 0, .signal = 9}, USED(0), 0, {4, RULE_RESTART, true, 1, 2, 1000}},
    {"of the role", {.role = 1, .signal = 9}, USED(0), 0, {1, RULE_IGNORE, true, 1, 1, 0}},
    {"the last of a budget", {.role = 1, .signal = 9}, USED(0, 1), 0, {1, RULE_IGNORE, true, 2, 0, 0}},
    {"a spent budget: the next", {.role = 1, .signal = 9}, USED(0, 2), 0, {4, RULE_RESTART, true, 1, 2, 1000}},
    {"a pause grows", {.signal = 7}, USED(0, 0, 0, 0, 1), 0, {4, RULE_RESTART, true, 2, 1, 2000}},
    {"up to its bound", {.signal = 7}, USED(0, 0, 0, 0, 2), 0, {4, RULE_RESTART, true, 3, 0, 3000}},
    {"all spent", {.signal = 7}, USED(0, 0, 0, 0, 3), 1, {DEFAULT, RULE_RESTART, false, 0, EVENT_UNBOUNDED, 0}},
    {"a line: the first of its patterns",
     {.is_line = true, SEEN(0, 0, true, true)},
     USED(0),
     0,
     {2, RULE_IGNORE, false, 1, EVENT_UNBOUNDED, 0}},
    {"a line: a later one",
     {.is_line = true, SEEN(0, 0, false, true)},
     USED(0),
     0,
     {3, RULE_FAIL, false, 1, EVENT_UNBOUNDED, 0}},
    {"a line: a pattern for ends alone",
     {.is_line = true, SEEN(0, 0, 0, 0, 0, true)},
     USED(0),
     5,
     {DEFAULT, RULE_IGNORE, false, 0, EVENT_UNBOUNDED, 0}},
    {"a line of no pattern", {.is_line = true}, USED(0), 5, {DEFAULT, RULE_IGNORE, false, 0, EVENT_UNBOUNDED, 0}},
    {"an end after such a line",
     {.status = 5, SEEN(0, 0, 0, 0, 0, true)},
     USED(0),
     5,
     {5, RULE_RESTART, false, 1, EVENT_UNBOUNDED, 500}},
    {"an end without such a line", {.status = 5}, USED(0), 5, {7, RULE_RESTART, false, 1, EVENT_UNBOUNDED, 0}},
    {"max_restarts are spent: no restart without times",
     {.status = 6},
     USED(0),
     0,
     {DEFAULT, RULE_FAIL, false, 0, EVENT_UNBOUNDED, 0}},
    {"patterns alone are not about ends",
     {.status = 1, SEEN(0, 0, true, true)},
     USED(0),
     0,
     {DEFAULT, RULE_FAIL, false, 0, EVENT_UNBOUNDED, 0}},
    {"a node", {.subject = RULE_NODE_LOST}, USED(0), 1, {6, RULE_RESTART, false, 1, EVENT_UNBOUNDED, 0}},
    {"another event", {.subject = RULE_PREEMPTED}, USED(0), 1, {DEFAULT, RULE_FAIL, false, 0, EVENT_UNBOUNDED, 0}},
};

static void test_decide(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct state_decision got;
        const struct state_decision *w = &cases[i].wanted;
        state_decide(rules, COUNT, cases[i].used, cases[i].restarts_left, &cases[i].what, &got);
        if (got.rule != w->rule || got.action != w->action || got.own != w->own || got.left != w->left ||
            got.backoff_ms != w->backoff_ms || (w->rule != DEFAULT && got.used != w->used))
            fail_msg("%s: rule %d %s, own %d, used %u, left %u, %llu ms", cases[i].name, (int)got.rule,
                     spec_actions[got.action], got.own, got.used, got.left, (unsigned long long)got.backoff_ms);
    }
}

static void test_a_rule_without_conditions(void **unused)
{
    (void)unused;
    const struct spec_rule any[] = {{.id = "x", ANY_ROLE, .action = RULE_IGNORE}};
    const struct state_happening ended = {.status = 0}, line = {.is_line = true}, lost = {.subject = RULE_NODE_LOST};
    uint32_t used[1] = {0};
    struct state_decision d;
    state_decide(any, 1, used, 0, &ended, &d); /* could not be started, outcome unknown */
    assert_int_equal(d.rule, 0);
    const struct state_happening unknown = {.must_count = true};
    state_decide(any, 1, used, 0, &unknown, &d);
    assert_int_equal(d.action, RULE_FAIL);
    state_decide(any, 1, used, 0, &line, &d);
    assert_int_equal(d.rule, DEFAULT);
    state_decide(any, 1, used, 0, &lost, &d);
    assert_int_equal(d.rule, DEFAULT);
}

/* ---- replaying ---- */

static void apply(struct state *s, struct event e)
{
    e.run = "r1";
    e.time_ms = e.time_ms ? e.time_ms : 1000;
    state_apply(s, &e);
}

static struct event rule(uint32_t number, const char *id, enum spec_action action, uint32_t generation)
{
    return (struct event){.type = EVENT_RULE,
                          .rule = {.rule = number,
                                   .rule_id = id,
                                   .action = action,
                                   .generation = generation,
                                   .node = EVENT_NODE_NONE,
                                   .reason = id,
                                   .left = EVENT_UNBOUNDED}};
}

static void test_budgets_and_verdicts(void **unused)
{
    (void)unused;
    struct state *s = state_create();
    uint32_t used[COUNT];
    apply(s, (struct event){.type = EVENT_RUN_OPENED, .opened = {.variant = "v"}});
    apply(s, rule(2, "b", RULE_IGNORE, 1));
    assert_int_equal(state_run_open(s)->verdict.generation, 0);
    assert_int_equal(state_run_open(s)->ignored_count, 1);
    assert_int_equal(state_run_open(s)->ignored_generation, 1);
    apply(s, rule(5, "e", RULE_RESTART, 1));
    apply(s, rule(1, "a", RULE_FAIL, 1)); /* the second one */
    const struct state_run *r = state_run_open(s);
    assert_int_equal(r->verdict.generation, 1);
    assert_int_equal(r->verdict.rule, 5);
    assert_int_equal(r->verdict.action, RULE_RESTART);
    apply(s, (struct event){.type = EVENT_RESTART,
                            .time_ms = 7000,
                            .restart = {.generation = 2, .rule = 5, .uncounted = true, .backoff_ms = 30}});
    r = state_run_open(s);
    assert_int_equal(r->restarts, 1);
    assert_int_equal(r->own_restarts, 1);
    assert_int_equal(r->resume_ms, 7030);
    apply(s, rule(4, "e", RULE_RESTART, 2)); /* the list was edited: its number is another one now */
    apply(s, (struct event){.type = EVENT_RESTART, .restart = {.generation = 3}});
    r = state_run_open(s);
    assert_int_equal(r->verdict.generation, 2);
    assert_int_equal(r->restarts, 2);
    assert_int_equal(r->own_restarts, 1);
    assert_int_equal(r->resume_ms, 0);
    state_rules_used(r, rules, COUNT, used);
    assert_int_equal(used[0], 1);
    assert_int_equal(used[1], 1);
    assert_int_equal(used[2], 0);
    assert_int_equal(used[4], 2);
    state_rules_used(NULL, rules, COUNT, used);
    assert_int_equal(used[4], 0);
    state_destroy(s);
}

static void test_metrics(void **unused)
{
    (void)unused;
    enum { RANKS = 300 };
    struct state *s = state_create();
    apply(s, (struct event){.type = EVENT_RUN_OPENED, .opened = {.variant = "v"}});
    struct event_metric *m = calloc(2 * RANKS, sizeof *m);
    for (uint32_t i = 0; i < 2 * RANKS; i++)
        m[i] = (struct event_metric){i % 2 ? "loss" : "speed", "1.5", i / 2, 1};
    apply(s, (struct event){.type = EVENT_METRICS, .metrics = {.items = m, .count = 2 * RANKS}});
    size_t used = arena_used(s->arena);
    for (uint32_t round = 2; round < 100; round++) {
        char text[32];
        snprintf(text, sizeof text, "%u.25", round);
        for (uint32_t i = 0; i < 2 * RANKS; i++) {
            m[i].value = text;
            m[i].count = round;
        }
        apply(s, (struct event){.type = EVENT_METRICS, .metrics = {.items = m + round, .count = 2 * RANKS - round}});
    }
    const struct state_run *r = state_run_open(s);
    assert_int_equal(r->metric_count, 2 * RANKS);
    assert_int_equal(arena_used(s->arena), used);
    for (uint32_t i = 0; i < r->metric_count; i++) {
        assert_string_equal(r->metrics[i].name, i % 2 ? "loss" : "speed");
        assert_int_equal(r->metrics[i].rank, i / 2);
    }
    assert_string_equal(r->metrics[2 * RANKS - 1].value, "99.25");
    assert_int_equal(r->metrics[2 * RANKS - 1].count, 99);
    assert_string_equal(r->metrics[0].value, "1.5");
    free(m);
    state_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decide),
        cmocka_unit_test(test_a_rule_without_conditions),
        cmocka_unit_test(test_budgets_and_verdicts),
        cmocka_unit_test(test_metrics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
