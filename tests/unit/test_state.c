/* state: the result of replaying events. */
#include "rhrun/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define A1 "a1000000000000000000000000000000"
#define A2 "a2000000000000000000000000000000"

/* ---- building events ---- */

static void opened(struct state *s, const char *run, const char *const *voids, uint32_t void_count)
{
    struct event e = {.type = EVENT_RUN_OPENED,
                      .time_ms = 10,
                      .run = run,
                      .opened = {.variant = "v", .node_count = 2, .voids = voids, .void_count = void_count}};
    state_apply(s, &e);
}

static void bound(struct state *s, uint32_t node, const char *install, const char *boot_id)
{
    struct event e = {.type = EVENT_NODE_BOUND,
                      .time_ms = 20,
                      .run = "r1",
                      .bound = {.node = node, .host = "h", .install = install, .boot_id = boot_id, .facts_json = "{}"}};
    state_apply(s, &e);
}

static void started(struct state *s, const char *step, uint32_t node, const char *attempt, uint32_t generation)
{
    struct event_attempt a = {"", step, attempt, "key", "{\"a\":\"1\"}", node, 0, NULL, NULL, 0, 0, 0};
    struct event e = {.type = EVENT_STARTED,
                      .seq = s->last_seq + 1,
                      .time_ms = 30,
                      .run = "r1",
                      .started = {.attempts = &a, .attempt_count = 1, .generation = generation}};
    state_apply(s, &e);
}

static void finished(struct state *s, const char *step, uint32_t node, const char *attempt, enum outcome outcome,
                     bool adopted)
{
    struct event e = {.type = EVENT_FINISHED,
                      .seq = s->last_seq + 1,
                      .time_ms = 1000,
                      .run = "r1",
                      .finished = {.node = node,
                                   .scope = "",
                                   .step = step,
                                   .attempt = attempt,
                                   .key = adopted ? "key2" : NULL,
                                   .outcome = outcome,
                                   .adopted = adopted,
                                   .duration_ms = 400,
                                   .tail = "last"}};
    state_apply(s, &e);
}

static void settled(struct state *s, uint32_t node, const char *boot_id)
{
    struct event e = {.type = EVENT_SETTLED, .time_ms = 50, .run = "r1", .settled = {.node = node, .boot_id = boot_id}};
    state_apply(s, &e);
}

static enum outcome outcome_of(const struct state *s, const char *step, uint32_t node)
{
    const struct state_cell *c = state_cell_find(s, "", step, node);
    assert_non_null(c);
    return c->outcome;
}

/* ---- apply ---- */

static void test_step_from_start_to_settled(void **unused)
{
    (void)unused;
    struct state *s = state_create();
    assert_null(state_cell_find(s, "", "a", 0));
    opened(s, "r1", NULL, 0);
    bound(s, 0, "i1", "b1");
    started(s, "a", 0, A1, 0);
    const struct state_cell *c = state_cell_by_attempt(s, A1);
    assert_non_null(c);
    assert_ptr_equal(c, state_cell_find(s, "", "a", 0));
    assert_null(state_cell_find(s, "", "a", 1));
    assert_null(state_cell_find(s, "v", "a", 0));
    assert_int_equal(c->outcome, OUTCOME_NONE);
    assert_string_equal(c->install, "i1");
    assert_string_equal(c->boot_id, "b1");
    assert_string_equal(c->run, "r1");
    assert_int_equal(c->started_ms, 30);
    settled(s, 0, "b1"); /* an attempt that has not ended is not settled */
    assert_false(state_cell_find(s, "", "a", 0)->settled);
    finished(s, "a", 0, A1, OUTCOME_OK, false);
    c = state_cell_find(s, "", "a", 0);
    assert_int_equal(c->outcome, OUTCOME_OK);
    assert_string_equal(c->tail, "last");
    assert_string_equal(c->key, "key");
    assert_false(c->settled);
    settled(s, 1, "b1"); /* another node */
    assert_false(state_cell_find(s, "", "a", 0)->settled);
    settled(s, 0, "b0"); /* another boot */
    assert_false(state_cell_find(s, "", "a", 0)->settled);
    settled(s, 0, "b1");
    assert_true(state_cell_find(s, "", "a", 0)->settled);
    state_destroy(s);
}

static void test_new_attempt_replaces(void **unused)
{
    (void)unused;
    struct state *s = state_create();
    opened(s, "r1", NULL, 0);
    bound(s, 0, "i1", "b1");
    started(s, "a", 0, A1, 0);
    started(s, "a", 0, A2, 3);
    assert_int_equal(s->cell_count, 1);
    assert_null(state_cell_by_attempt(s, A1));
    assert_true(state_knows_attempt(s, A1) && state_knows_attempt(s, A2)); /* though A1 was replaced */
    assert_int_equal(state_cell_by_attempt(s, A2)->generation, 3);
    assert_int_equal(state_run_open(s)->generation, 3);
    finished(s, "a", 0, A1, OUTCOME_OK, false); /* an end of an attempt that the cell no longer holds */
    assert_int_equal(outcome_of(s, "a", 0), OUTCOME_NONE);
    finished(s, "b", 0, A1, OUTCOME_OK, false); /* an end of an attempt that was never started */
    assert_null(state_cell_find(s, "", "b", 0));
    state_destroy(s);
}

static void test_boot_id_voids_what_is_not_settled(void **unused)
{
    (void)unused;
    struct state *s = state_create();
    opened(s, "r1", NULL, 0);
    bound(s, 0, "i1", "b1");
    bound(s, 1, "i2", "b1");
    started(s, "settled", 0, "1", 0);
    finished(s, "settled", 0, "1", OUTCOME_OK, false);
    settled(s, 0, "b1");
    started(s, "ok", 0, "2", 0);
    finished(s, "ok", 0, "2", OUTCOME_OK, false);
    started(s, "none", 0, "3", 0);
    started(s, "failed", 0, "4", 0);
    finished(s, "failed", 0, "4", OUTCOME_FAILED, false);
    started(s, "ok", 1, "5", 0);
    finished(s, "ok", 1, "5", OUTCOME_OK, false);
    bound(s, 0, "i1", "b1"); /* the same boot: nothing */
    assert_int_equal(outcome_of(s, "ok", 0), OUTCOME_OK);
    bound(s, 0, "i1", "b2");
    assert_int_equal(outcome_of(s, "settled", 0), OUTCOME_OK);
    assert_int_equal(outcome_of(s, "ok", 0), OUTCOME_UNKNOWN);
    assert_int_equal(outcome_of(s, "none", 0), OUTCOME_UNKNOWN);
    assert_int_equal(outcome_of(s, "failed", 0), OUTCOME_FAILED);
    assert_int_equal(outcome_of(s, "ok", 1), OUTCOME_OK);
    /* Its record did survive: known again, and settled in the new boot. */
    finished(s, "ok", 0, "2", OUTCOME_OK, false);
    settled(s, 0, "b2");
    assert_true(state_cell_find(s, "", "ok", 0)->settled);
    state_destroy(s);
}

static void test_another_machine_keeps_the_old_install(void **unused)
{
    (void)unused;
    struct state *s = state_create();
    opened(s, "r1", NULL, 0);
    bound(s, 0, "i1", "b1");
    started(s, "a", 0, A1, 0);
    finished(s, "a", 0, A1, OUTCOME_OK, false);
    settled(s, 0, "b1");
    started(s, "b", 0, A2, 0);
    bound(s, 0, "i2", "b9");
    assert_string_equal(s->nodes[0].install, "i2");
    assert_string_equal(state_cell_find(s, "", "a", 0)->install, "i1");
    assert_int_equal(outcome_of(s, "a", 0), OUTCOME_OK);
    assert_int_equal(outcome_of(s, "b", 0), OUTCOME_UNKNOWN);
    started(s, "a", 0, "3", 0);
    assert_string_equal(state_cell_find(s, "", "a", 0)->install, "i2");
    state_destroy(s);
}

static void test_adopted(void **unused)
{
    (void)unused;
    struct state *s = state_create();
    opened(s, "r1", NULL, 0);
    bound(s, 1, "i1", "b1");
    finished(s, "a", 1, A1, OUTCOME_OK, true);
    const struct state_cell *c = state_cell_by_attempt(s, A1);
    assert_non_null(c);
    assert_int_equal(c->outcome, OUTCOME_OK);
    assert_string_equal(c->key, "key2");
    assert_string_equal(c->install, "i1");
    assert_int_equal(c->started_ms, 600);
    assert_int_equal(c->finished_ms, 1000);
    assert_false(c->voided);
    finished(s, "a", 1, A2, OUTCOME_OK, true); /* the node knows a later one */
    assert_null(state_cell_by_attempt(s, A1));
    assert_false(state_knows_attempt(s, A1) || state_knows_attempt(s, A2)); /* they belong to another controller */
    assert_non_null(state_cell_by_attempt(s, A2));
    started(s, "b", 1, A1, 0);
    finished(s, "b", 1, A1, OUTCOME_OK, false);
    const struct state_cell *own = state_cell_by_attempt(s, A1);
    assert_true(state_cell_by_attempt(s, A2)->adopted && !own->adopted);
    assert_int_equal(state_cell_by_attempt(s, A2)->seq, 2); /* of the event that brought the attempt, not of its end */
    assert_int_equal(own->seq, 3);
    state_destroy(s);
}

static void test_voids(void **unused)
{
    (void)unused;
    static const char *const voids[] = {"\ta", "v\tlaunch"};
    struct state *s = state_create();
    opened(s, "r1", NULL, 0);
    bound(s, 0, "i1", "b1");
    started(s, "a", 0, "1", 0);
    finished(s, "a", 0, "1", OUTCOME_OK, false);
    started(s, "a", 1, "2", 0);
    started(s, "b", 0, "3", 0);
    opened(s, "r2", voids, 2);
    assert_true(state_cell_find(s, "", "a", 0)->voided);
    assert_true(state_cell_find(s, "", "a", 1)->voided);
    assert_false(state_cell_find(s, "", "b", 0)->voided);
    finished(s, "a", 1, "2", OUTCOME_OK, false); /* its end does not make it believed */
    assert_true(state_cell_find(s, "", "a", 1)->voided);
    finished(s, "a", 1, "9", OUTCOME_OK, true);
    assert_true(state_cell_find(s, "", "a", 1)->voided);
    finished(s, "a", 5, "8", OUTCOME_OK, true); /* nor does finding it only now */
    assert_true(state_cell_find(s, "", "a", 5)->voided);
    started(s, "a", 0, "4", 0);
    assert_false(state_cell_find(s, "", "a", 0)->voided);
    opened(s, "r3", NULL, 0);
    assert_false(state_cell_find(s, "", "a", 1)->voided);
    state_destroy(s);
}

/* A part that was found on a node has its generation; later launches come after that one. */
static void test_adopted_generation(void **unused)
{
    (void)unused;
    struct state *s = state_create();
    opened(s, "r1", NULL, 0);
    bound(s, 0, "i0", "b0");
    struct event e = {
        .type = EVENT_FINISHED,
        .run = "r1",
        .finished = {
            .scope = "", .step = "launch", .attempt = "a1", .outcome = OUTCOME_OK, .adopted = true, .generation = 3}};
    state_apply(s, &e);
    assert_int_equal(state_cell_find(s, "", "launch", 0)->generation, 3);
    assert_int_equal(state_run_open(s)->generation, 3);
    assert_int_equal(state_run_open(s)->own_generation, 0);
    const struct event_attempt other = {"", "launch:other", "a0", "k", NULL, 0, 0, NULL, NULL, 0, 0, 0};
    const struct event part = {.type = EVENT_STARTED,
                               .run = "r1",
                               .started = {.attempts = &other, .attempt_count = 1, .generation = 3, .joins = true}};
    state_apply(s, &part);
    assert_int_equal(state_run_open(s)->own_generation, 0);
    const struct event_attempt live = {"", "launch", "a3", "k", NULL, 1, 5, NULL, NULL, 0, 0, 0};
    const struct event found = {
        .type = EVENT_STARTED,
        .run = "r1",
        .time_ms = 900,
        .started = {.attempts = &live, .attempt_count = 1, .generation = 3, .joins = true, .adopted = true}};
    state_apply(s, &found);
    assert_true(state_cell_by_attempt(s, "a3")->adopted);
    assert_int_equal(state_run_open(s)->own_generation, 0);
    finished(s, "launch", 1, "a3", OUTCOME_OK, true);
    assert_int_equal(state_cell_by_attempt(s, "a3")->generation, 3);
    assert_int_equal(state_cell_by_attempt(s, "a3")->started_ms, 600); /* by its node, not when it was found */
    e.finished.step = "epilog";
    e.finished.attempt = "a2";
    e.finished.generation = 0;
    state_apply(s, &e);
    assert_int_equal(state_cell_find(s, "", "epilog", 0)->after, 3);
    e = (struct event){.type = EVENT_REISSUE, .run = "r1", .reissue = {.generation = 4}};
    state_apply(s, &e);
    assert_int_equal(state_run_open(s)->generation, 4);
    assert_int_equal(state_run_open(s)->own_generation, 4);
    assert_int_equal(state_run_open(s)->restarts, 0);
    state_destroy(s);
}

/* Work of an earlier run that this one found on the node belongs to this run: a later controller asks for it in this
 * run's name. */
static void test_adopted_from_a_run(void **unused)
{
    (void)unused;
    struct state *s = state_create();
    opened(s, "r1", NULL, 0);
    bound(s, 0, "i0", "b0");
    started(s, "launch", 0, A1, 1);
    finished(s, "launch", 0, A1, OUTCOME_OK, false);
    uint64_t began = state_cell_by_attempt(s, A1)->started_ms;
    opened(s, "r2", NULL, 0);
    struct event e = {
        .type = EVENT_FINISHED,
        .run = "r2",
        .time_ms = 5000,
        .finished = {
            .scope = "", .step = "launch", .attempt = A1, .outcome = OUTCOME_OK, .adopted = true, .generation = 2}};
    state_apply(s, &e);
    const struct state_cell *c = state_cell_by_attempt(s, A1);
    assert_string_equal(c->run, "r2");
    assert_int_equal(c->generation, 2);
    assert_int_equal(c->started_ms, began);
    assert_int_equal(state_run_open(s)->generation, 2);
    assert_int_equal(state_run_open(s)->own_generation, 0);
    state_destroy(s);
}

static void test_runs(void **unused)
{
    (void)unused;
    struct state *s = state_create();
    assert_null(state_run_open(s));
    assert_null(state_run_latest(s, NULL));
    opened(s, "r1", NULL, 0);
    assert_string_equal(state_run_open(s)->id, "r1");
    assert_int_equal(s->node_count, 2);
    struct event e = {.type = EVENT_RESTART, .run = "r1", .time_ms = 5, .seq = 9, .restart = {.generation = 2}};
    state_apply(s, &e);
    e = (struct event){.type = EVENT_REISSUE, .run = "r1", .time_ms = 5, .seq = 9};
    state_apply(s, &e);
    assert_int_equal(state_run_open(s)->restarts, 1);
    assert_int_equal(state_run_open(s)->generation, 3);
    assert_int_equal(s->last_seq, 9);
    opened(s, "r2", NULL, 0);
    assert_int_equal(state_run_find(s, "r1")->status, RUN_SUPERSEDED);
    e = (struct event){.type = EVENT_CANCELLING, .run = "r2", .time_ms = 5};
    state_apply(s, &e);
    assert_true(state_run_open(s)->cancelling);
    e = (struct event){.type = EVENT_RUN_CLOSED,
                       .run = "r2",
                       .time_ms = 6,
                       .closed = {.status = RUN_CANCELLED, .exit_status = 130, .reason = "cancelled"}};
    state_apply(s, &e);
    assert_null(state_run_open(s));
    e.closed.status = RUN_DONE; /* a second end has no effect */
    state_apply(s, &e);
    const struct state_run *r = state_run_latest(s, "v");
    assert_string_equal(r->id, "r2");
    assert_int_equal(r->status, RUN_CANCELLED);
    assert_int_equal(r->exit_status, 130);
    assert_string_equal(r->message, "cancelled");
    assert_int_equal(r->closed_ms, 6);
    e = (struct event){.type = EVENT_RUN_CLOSED,
                       .run = "r2",
                       .time_ms = 9,
                       .closed = {.status = RUN_CANCELLED, .reason = "the rest, too"}};
    state_apply(s, &e); /* except for one that was cancelled further */
    assert_string_equal(r->message, "the rest, too");
    assert_int_equal(r->exit_status, 130);
    assert_int_equal(r->closed_ms, 6);
    assert_null(state_run_latest(s, "other"));
    assert_null(state_run_find(s, "r3"));
    state_destroy(s);
}

/* 1,000 nodes x 20 steps, twice (every attempt replaced): each cell and attempt is found, memory stays small. */
/* As given, none given, and a journal of before they were recorded. */
static void test_overrides_of_a_run(void **unused)
{
    (void)unused;
    static const char *const journal[] = {
        "{\"type\":\"run_opened\",\"time_ms\":1,\"run\":\"a\",\"on\":\"me@h\",\"sets\":[\"env.A=1\",\"b=\"]}",
        "{\"type\":\"run_opened\",\"time_ms\":2,\"run\":\"b\",\"sets\":[]}",
        "{\"type\":\"run_opened\",\"time_ms\":3,\"run\":\"c\",\"params_json\":\"{}\"}",
    };
    struct state *s = state_create();
    for (size_t i = 0; i < ARRAY_LEN(journal); i++) {
        struct arena *arena = arena_create();
        struct event e;
        assert_int_equal(event_from_json(journal[i], strlen(journal[i]), arena, &e, NULL), 0);
        state_apply(s, &e);
        arena_destroy(arena);
    }
    const struct state_run *a = state_run_find(s, "a"), *b = state_run_find(s, "b"), *c = state_run_find(s, "c");
    assert_string_equal(a->on, "me@h");
    assert_int_equal(a->set_count, 2);
    assert_string_equal(a->sets[0], "env.A=1");
    assert_string_equal(a->sets[1], "b=");
    assert_true(!b->on && b->sets && b->set_count == 0);
    assert_true(!c->on && !c->sets && c->set_count == 0);
    state_destroy(s);
}

static void test_too_many_overrides(void **unused)
{
    (void)unused;
    struct arena *arena = arena_create();
    for (size_t count = SPEC_SETS_MAX; count <= SPEC_SETS_MAX + 1; count++) {
        struct buf text = {0};
        struct event e;
        struct error err = ERROR_INIT;
        buf_puts(&text, "{\"type\":\"run_opened\",\"time_ms\":1,\"run\":\"r\",\"sets\":[");
        for (size_t i = 0; i < count; i++)
            buf_puts(&text, i ? ",\"a=1\"" : "\"a=1\"");
        buf_puts(&text, "]}");
        int rc = event_from_json(text.data, text.len, arena, &e, &err);
        assert_int_equal(rc, count > SPEC_SETS_MAX ? -1 : 0);
        if (rc < 0)
            assert_non_null(strstr(err.text, "too many"));
        buf_free(&text);
    }
    arena_destroy(arena);
}

static void test_many_cells(void **unused)
{
    (void)unused;
    enum { NODES = 1000, STEPS = 20 };
    struct state *s = state_create();
    char inputs[600], attempt[33], step[16];
    memset(inputs, 'x', sizeof inputs);
    inputs[sizeof inputs - 1] = 0;
    opened(s, "r1", NULL, 0);
    for (uint32_t n = 0; n < NODES; n++)
        bound(s, n, "i", "b");
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t n = 0; n < NODES; n++) {
            for (uint32_t k = 0; k < STEPS; k++) {
                snprintf(step, sizeof step, "step:%u", k);
                snprintf(attempt, sizeof attempt, "%032u", round * NODES * STEPS + n * STEPS + k);
                struct event_attempt a = {"", step, attempt, "key", inputs, n, 0, NULL, NULL, 0, 0, 0};
                struct event e = {.type = EVENT_STARTED, .run = "r1", .started = {.attempts = &a, .attempt_count = 1}};
                state_apply(s, &e);
                finished(s, step, n, attempt, OUTCOME_OK, false);
            }
            settled(s, n, "b");
        }
    }
    assert_int_equal(s->cell_count, NODES * STEPS);
    for (uint32_t i = 0; i < 2 * NODES * STEPS; i++) {
        snprintf(attempt, sizeof attempt, "%032u", i);
        const struct state_cell *c = state_cell_by_attempt(s, attempt);
        if (i < NODES * STEPS) {
            assert_null(c);
            continue;
        }
        uint32_t k = i - NODES * STEPS;
        snprintf(step, sizeof step, "step:%u", k % STEPS);
        assert_non_null(c);
        assert_ptr_equal(c, state_cell_find(s, "", step, k / STEPS));
        assert_true(c->settled);
    }
    assert_true(arena_used(s->arena) < 8u << 20);
    state_destroy(s);
}

/* A closed run is opened again for its outputs: its work stays, and it can be closed once more. */
static void test_reopened(void **unused)
{
    (void)unused;
    struct state *s = state_create();
    opened(s, "r1", NULL, 0);
    started(s, "launch", 0, A1, 1);
    finished(s, "launch", 0, A1, OUTCOME_OK, false);
    struct event closed = {.type = EVENT_RUN_CLOSED,
                           .time_ms = 2000,
                           .run = "r1",
                           .closed = {.status = RUN_FAILED, .exit_status = 1, .reason = "x"}};
    state_apply(s, &closed);
    struct event again = {
        .type = EVENT_RUN_REOPENED, .time_ms = 3000, .run = "r1", .reopened = {.plan_hash = "p2", .on = "b"}};
    state_apply(s, &again);
    const struct state_run *run = state_run_open(s);
    assert_non_null(run);
    assert_true(run->fetching && !run->message && run->exit_status == 0 && run->closed_ms == 0 && run->generation == 1);
    assert_string_equal(run->plan_hash, "p2");
    assert_string_equal(run->on, "b");
    assert_int_equal(state_cell_find(s, "", "launch", 0)->outcome, OUTCOME_OK);
    closed.closed.status = RUN_DONE;
    closed.time_ms = 4000;
    state_apply(s, &closed);
    assert_null(state_run_open(s));
    assert_true(state_run_find(s, "r1")->status == RUN_DONE && state_run_find(s, "r1")->closed_ms == 4000);
    opened(s, "r2", NULL, 0);
    state_apply(s, &again); /* while another one is open: no effect */
    assert_string_equal(state_run_open(s)->id, "r2");
    assert_int_equal(state_run_find(s, "r1")->status, RUN_DONE);
    state_destroy(s);
}

static void test_points(void **unused)
{
    (void)unused;
    static const char *const kept[] = {"aaaaaaaaaaaa"};
    const struct event e = {
        .type = EVENT_RUN_OPENED,
        .time_ms = 1,
        .run = "r1",
        .opened = {.variant = "v", .node_count = 1, .point_count = 3, .kept = kept, .kept_count = 1}};
    struct state *s = state_create();
    state_apply(s, &e);
    bound(s, 0, "i", "b");
    started(s, "point:bbbbbbbbbbbb", 0, A1, 0);
    finished(s, "point:bbbbbbbbbbbb", 0, A1, OUTCOME_OK, false);
    finished(s, "point:bbbbbbbbbbbb", 0, A1, OUTCOME_OK, false); /* counts once */
    started(s, "point:cccccccccccc", 0, A2, 0);
    finished(s, "point:cccccccccccc", 0, A2, OUTCOME_FAILED, false);
    const struct state_run *run = state_run_find(s, "r1");
    assert_true(run->point_count == 3 && run->kept_count == 1 && run->points_ok == 1);
    assert_string_equal(run->kept[0], "aaaaaaaaaaaa");
    state_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step_from_start_to_settled),
        cmocka_unit_test(test_new_attempt_replaces),
        cmocka_unit_test(test_boot_id_voids_what_is_not_settled),
        cmocka_unit_test(test_another_machine_keeps_the_old_install),
        cmocka_unit_test(test_adopted),
        cmocka_unit_test(test_voids),
        cmocka_unit_test(test_adopted_generation),
        cmocka_unit_test(test_adopted_from_a_run),
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_reopened),
        cmocka_unit_test(test_points),
        cmocka_unit_test(test_overrides_of_a_run),
        cmocka_unit_test(test_too_many_overrides),
        cmocka_unit_test(test_many_cells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
