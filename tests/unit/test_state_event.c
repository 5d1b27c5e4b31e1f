/* state: events through JSON and back. */
#include "rhrun/state.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define A1 "a1000000000000000000000000000000"
#define A2 "a2000000000000000000000000000000"

static const char *const voids_sample[] = {"\tsetup:a", "v\tlaunch"};
static const char *const sets_sample[] = {"env.A=it's \"x\"\n \xc3\xa4", "a.0="};
static const struct event_attempt attempts_sample[] = {
    {"", "setup:a", A1, "k1", "{\"x\":\"\\u00e4\"}", 0, 0, NULL, NULL, 0, 0, 0},
    {"0123456789abcdef", "launch", A2, NULL, NULL, 65535, UINT64_C(1) << 40, "lr=1e-3,m=\xc3\xa4", "{\"lr\":0.001}", 7,
     2, 1},
};
static const struct event_metric metrics_sample[] = {{"loss", "0.25", 0, 17},
                                                     {"loss", "nan", UINT32_MAX, UINT64_C(1) << 40}};

static const struct event samples[] = {
    {.type = EVENT_RUN_OPENED,
     .seq = 1,
     .time_ms = 1700000000000,
     .run = "r",
     .opened = {.asked = {.spec_path = "/a b/\"c\"",
                          .spec_hash = "h",
                          .spec_text = "name: x\n\ttab \\ \"q\" \x01 \xc3\xa4 \xf0\x9f\x98\x80\x7f",
                          .plan_hash = "p",
                          .owner_name = "me@here",
                          .version = "0.1.0",
                          .on = "a@h,b",
                          .sets = sets_sample,
                          .set_count = 2},
                .variant = "v",
                .job_hash = "j",
                .made_of = "{\"format\": 1}",
                .args_json = "[\"--x\"]",
                .params_json = "{\"p\":1e-3}",
                .from_step = "launch",
                .work = "00ff00ff00ff00ff",
                .flags = RUN_FLAG_AGAIN | RUN_FLAG_REPLACE,
                .node_count = 65536,
                .voids = voids_sample,
                .void_count = 2,
                .point_count = 10000,
                .kept = voids_sample,
                .kept_count = 2}},
    {.type = EVENT_RUN_OPENED, .seq = 1, .time_ms = 1, .run = ""},
    {.type = EVENT_RUN_OPENED, .seq = 1, .time_ms = 1, .run = "r", .opened = {.asked = {.sets = sets_sample}}},
    {.type = EVENT_NODE_BOUND,
     .seq = 2,
     .time_ms = 2,
     .run = "r",
     .bound = {.node = 3,
               .host = "h",
               .install = "i",
               .boot_id = "b",
               .work = "00ff00ff00ff00ff",
               .facts_json = "{\"cpus\":4}"}},
    {.type = EVENT_STARTED,
     .seq = 3,
     .time_ms = 3,
     .run = "r",
     .started = {.attempts = attempts_sample, .attempt_count = 2, .generation = 7, .bind_json = "{}", .joins = true}},
    {.type = EVENT_STARTED,
     .seq = 3,
     .time_ms = 3,
     .run = "r",
     .started = {.attempts = attempts_sample, .attempt_count = 1, .generation = 2, .joins = true, .adopted = true}},
    {.type = EVENT_FINISHED,
     .seq = INT64_MAX,
     .time_ms = INT64_MAX,
     .run = "r",
     .finished = {.scope = "",
                  .step = "s",
                  .attempt = A1,
                  .key = "k",
                  .inputs = "{}",
                  .node = 0,
                  .outcome = OUTCOME_TIMED_OUT,
                  .adopted = true,
                  .cause = 3,
                  .cause_value = INT32_MIN,
                  .cause_rank = UINT32_MAX,
                  .tail = "Traceback\n",
                  .metrics = "{\"loss\":0.25}",
                  .duration_ms = 5,
                  .log_bytes = 6,
                  .dropped_bytes = 7,
                  .dropped_by = "limit and disk"}},
    {.type = EVENT_SETTLED, .seq = 5, .time_ms = 4, .run = "r", .settled = {.node = 1, .boot_id = "b"}},
    {.type = EVENT_RESTART,
     .seq = 6,
     .time_ms = 4,
     .run = "r",
     .restart = {.generation = 2, .reason = "why", .rule = 2, .uncounted = true, .backoff_ms = 30000}},
    {.type = EVENT_REISSUE, .seq = 7, .time_ms = 4, .run = "r", .reissue = {.generation = 3, .reason = "why"}},
    {.type = EVENT_CANCELLING, .seq = 8, .time_ms = 4, .run = "r", .cancelling = {.reason = "interrupted"}},
    {.type = EVENT_RUN_CLOSED,
     .seq = 9,
     .time_ms = 4,
     .run = "r",
     .closed = {.status = RUN_CANCELLED, .exit_status = -1, .reason = "cancelled"}},
    {.type = EVENT_NOTE, .seq = 10, .time_ms = 4, .run = "r", .note = {.node = EVENT_NODE_NONE, .reason = "hello"}},
    {.type = EVENT_NOTE, .seq = 10, .time_ms = 4, .note = {.node = 4, .reason = "node lost"}},
    {.type = EVENT_RULE,
     .seq = 11,
     .time_ms = 5,
     .run = "r",
     .rule = {.generation = 3,
              .rule = 1,
              .rule_id = "0123456789ab-2",
              .action = RULE_RESTART,
              .node = 2,
              .cause_rank = 5,
              .reason = "a line",
              .line = "CUDA error \"x\"",
              .left = 4,
              .backoff_ms = 1}},
    {.type = EVENT_RULE,
     .seq = 11,
     .time_ms = 5,
     .run = "r",
     .rule = {.rule = 100, .rule_id = "x", .action = RULE_IGNORE, .node = EVENT_NODE_NONE, .left = EVENT_UNBOUNDED}},
    {.type = EVENT_METRICS, .seq = 12, .time_ms = 6, .run = "r", .metrics = {.items = metrics_sample, .count = 2}},
    {.type = EVENT_RUN_REOPENED,
     .seq = 13,
     .time_ms = 7,
     .run = "r",
     .reopened = {.spec_path = "/a",
                  .spec_hash = "h",
                  .spec_text = "name: x\n",
                  .plan_hash = "p",
                  .owner_name = "me@here",
                  .version = "0.1.0",
                  .on = "a",
                  .sets = sets_sample,
                  .set_count = 2}},
    {.type = EVENT_INSTALLED,
     .seq = 14,
     .time_ms = 8,
     .run = "r",
     .installed = {.node = 3, .role = "data", .digest = "d", .found_json = "{\"python\": \"3.11.2\"}"}},
};

static void same_string(const char *a, const char *b)
{
    if (!str_eq(a, b))
        fail_msg("\"%s\" is not \"%s\"", a ? a : "(null)", b ? b : "(null)");
}

static void same_strings(const char *const *a, uint32_t a_count, const char *const *b, uint32_t b_count)
{
    assert_int_equal(a != NULL, b != NULL);
    assert_int_equal(a_count, b_count);
    for (uint32_t i = 0; i < a_count; i++)
        same_string(a[i], b[i]);
}

static void same_asked(const struct event_asked *a, const struct event_asked *b)
{
    same_string(a->spec_path, b->spec_path);
    same_string(a->spec_hash, b->spec_hash);
    same_string(a->spec_text, b->spec_text);
    same_string(a->plan_hash, b->plan_hash);
    same_string(a->owner_name, b->owner_name);
    same_string(a->version, b->version);
    same_string(a->on, b->on);
    same_strings(a->sets, a->set_count, b->sets, b->set_count);
}

static void same_opened(const struct event_opened *a, const struct event_opened *b)
{
    same_asked(&a->asked, &b->asked);
    same_string(a->variant, b->variant);
    same_string(a->args_json, b->args_json);
    same_string(a->params_json, b->params_json);
    same_string(a->from_step, b->from_step);
    same_string(a->work, b->work);
    same_string(a->job_hash, b->job_hash);
    same_string(a->made_of, b->made_of);
    same_strings(a->voids, a->void_count, b->voids, b->void_count);
    same_strings(a->kept, a->kept_count, b->kept, b->kept_count);
    assert_true(a->flags == b->flags && a->node_count == b->node_count && a->point_count == b->point_count);
}

static void same_bound(const struct event_bound *a, const struct event_bound *b)
{
    assert_int_equal(a->node, b->node);
    same_string(a->host, b->host);
    same_string(a->install, b->install);
    same_string(a->boot_id, b->boot_id);
    same_string(a->work, b->work);
    same_string(a->facts_json, b->facts_json);
}

static void same_started(const struct event_started *a, const struct event_started *b)
{
    assert_true(a->generation == b->generation && a->joins == b->joins && a->adopted == b->adopted);
    same_string(a->bind_json, b->bind_json);
    assert_int_equal(a->attempt_count, b->attempt_count);
    for (uint32_t i = 0; i < a->attempt_count; i++) {
        const struct event_attempt *x = &a->attempts[i], *y = &b->attempts[i];
        same_string(x->scope, y->scope);
        same_string(x->step, y->step);
        same_string(x->attempt, y->attempt);
        same_string(x->key, y->key);
        same_string(x->inputs, y->inputs);
        assert_int_equal(x->node, y->node);
        assert_int_equal(x->seen, y->seen);
        same_string(x->point, y->point);
        same_string(x->params, y->params);
        assert_int_equal(x->place, y->place);
    }
}

static void same_finished(const struct event_finished *a, const struct event_finished *b)
{
    assert_true(a->node == b->node && a->generation == b->generation);
    same_string(a->scope, b->scope);
    same_string(a->step, b->step);
    same_string(a->attempt, b->attempt);
    same_string(a->key, b->key);
    same_string(a->inputs, b->inputs);
    assert_true(a->outcome == b->outcome && a->adopted == b->adopted);
    assert_true(a->cause == b->cause && a->cause_value == b->cause_value && a->cause_rank == b->cause_rank);
    assert_true(a->duration_ms == b->duration_ms && a->log_bytes == b->log_bytes);
    assert_true(a->dropped_bytes == b->dropped_bytes);
    same_string(a->dropped_by, b->dropped_by);
    same_string(a->tail, b->tail);
    same_string(a->metrics, b->metrics);
}

static void same_rule(const struct event_rule *a, const struct event_rule *b)
{
    assert_true(a->node == b->node && a->generation == b->generation && a->rule == b->rule);
    assert_true(a->action == b->action && a->left == b->left && a->backoff_ms == b->backoff_ms);
    assert_int_equal(a->cause_rank, b->cause_rank);
    same_string(a->rule_id, b->rule_id);
    same_string(a->line, b->line);
    same_string(a->reason, b->reason);
}

static void same_metrics(const struct event_metrics *a, const struct event_metrics *b)
{
    assert_int_equal(a->count, b->count);
    for (uint32_t i = 0; i < a->count; i++) {
        same_string(a->items[i].name, b->items[i].name);
        same_string(a->items[i].value, b->items[i].value);
        assert_int_equal(a->items[i].rank, b->items[i].rank);
        assert_true(a->items[i].count == b->items[i].count);
    }
}

static void assert_same_event(const struct event *a, const struct event *b)
{
    assert_int_equal(a->type, b->type);
    assert_true(a->seq == b->seq && a->time_ms == b->time_ms);
    same_string(a->run, b->run);
    switch (a->type) {
    case EVENT_RUN_OPENED:
        same_opened(&a->opened, &b->opened);
        break;
    case EVENT_RUN_REOPENED:
        same_asked(&a->reopened, &b->reopened);
        break;
    case EVENT_NODE_BOUND:
        same_bound(&a->bound, &b->bound);
        break;
    case EVENT_STARTED:
        same_started(&a->started, &b->started);
        break;
    case EVENT_FINISHED:
        same_finished(&a->finished, &b->finished);
        break;
    case EVENT_SETTLED:
        assert_int_equal(a->settled.node, b->settled.node);
        same_string(a->settled.boot_id, b->settled.boot_id);
        break;
    case EVENT_RESTART:
        assert_true(a->restart.generation == b->restart.generation && a->restart.rule == b->restart.rule);
        assert_true(a->restart.uncounted == b->restart.uncounted && a->restart.backoff_ms == b->restart.backoff_ms);
        same_string(a->restart.reason, b->restart.reason);
        break;
    case EVENT_REISSUE:
        assert_int_equal(a->reissue.generation, b->reissue.generation);
        same_string(a->reissue.reason, b->reissue.reason);
        break;
    case EVENT_CANCELLING:
        same_string(a->cancelling.reason, b->cancelling.reason);
        break;
    case EVENT_RUN_CLOSED:
        assert_true(a->closed.status == b->closed.status && a->closed.exit_status == b->closed.exit_status);
        same_string(a->closed.reason, b->closed.reason);
        break;
    case EVENT_NOTE:
        assert_int_equal(a->note.node, b->note.node);
        same_string(a->note.reason, b->note.reason);
        break;
    case EVENT_RULE:
        same_rule(&a->rule, &b->rule);
        break;
    case EVENT_METRICS:
        same_metrics(&a->metrics, &b->metrics);
        break;
    case EVENT_INSTALLED:
        assert_int_equal(a->installed.node, b->installed.node);
        same_string(a->installed.role, b->installed.role);
        same_string(a->installed.digest, b->installed.digest);
        same_string(a->installed.found_json, b->installed.found_json);
        break;
    }
}

static void test_json_round_trip(void **unused)
{
    (void)unused;
    struct arena *arena = arena_create();
    for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
        struct buf text = {0}, again = {0};
        struct event e;
        struct error err = ERROR_INIT;
        event_to_json(&samples[i], &text);
        if (event_from_json(text.data, text.len, arena, &e, &err) < 0)
            fail_msg("%s: %s", err.text, text.data);
        assert_same_event(&samples[i], &e);
        event_to_json(&e, &again);
        assert_string_equal(text.data, again.data);
        buf_free(&text);
        buf_free(&again);
    }
    arena_destroy(arena);
}

/* Lines of earlier versions: each is read, and would be written the same today. */
static void test_json_of_before(void **unused)
{
    (void)unused;
    struct arena *arena = arena_create();
    struct buf journal = {0};
    struct error err = ERROR_INIT;
    bool seen[EVENT_LAST + 1] = {false};
    assert_int_equal(file_read(FIXTURES "/state/journal.ndjson", 1 << 20, &journal, &err), 0);
    for (char *line = strtok(journal.data, "\n"); line; line = strtok(NULL, "\n")) {
        struct buf again = {0};
        struct event e;
        if (event_from_json(line, strlen(line), arena, &e, &err) < 0)
            fail_msg("%s: %s", err.text, line);
        seen[e.type] = true;
        event_to_json(&e, &again);
        assert_string_equal(again.data, line);
        buf_free(&again);
    }
    for (enum event_type t = EVENT_RUN_OPENED; t <= EVENT_LAST; t++)
        assert_true(seen[t]);
    buf_free(&journal);
    arena_destroy(arena);
}

/* Another implementation reads our lines, and we read its lines, in another order and with all escapes. */
static void test_json_against_jansson(void **unused)
{
    (void)unused;
    struct arena *arena = arena_create();
    for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
        struct buf text = {0};
        event_to_json(&samples[i], &text);
        json_t *json = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(json);
        assert_string_equal(json_string_value(json_object_get(json, "type")), event_type_name(samples[i].type));
        assert_int_equal(json_integer_value(json_object_get(json, "seq")), samples[i].seq);
        if (samples[i].type == EVENT_RUN_OPENED && samples[i].opened.asked.spec_text)
            assert_string_equal(json_string_value(json_object_get(json, "spec_text")),
                                samples[i].opened.asked.spec_text);
        size_t flags[] = {JSON_COMPACT, JSON_INDENT(2) | JSON_SORT_KEYS, JSON_ENSURE_ASCII | JSON_ESCAPE_SLASH};
        for (size_t f = 0; f < ARRAY_LEN(flags); f++) {
            char *theirs = json_dumps(json, flags[f]);
            struct event e;
            struct error err = ERROR_INIT;
            if (event_from_json(theirs, strlen(theirs), arena, &e, &err) < 0)
                fail_msg("%s: %s", err.text, theirs);
            assert_same_event(&samples[i], &e);
            free(theirs);
        }
        json_decref(json);
        buf_free(&text);
    }
    arena_destroy(arena);
}

/* schema/events.schema.json has exactly the keys that are written: each key of a sample is among the type's properties,
 * each required one is in each sample, and each property is in some sample. */
static void expect_described(const json_t *properties, const char *of, const char *key)
{
    if (!json_string_value(json_object_get(json_object_get(properties, key), "description")))
        fail_msg("%s: \"%s\" has no description in the schema", of, key);
}

static void test_json_against_schema(void **unused)
{
    (void)unused;
    json_t *schema = json_load_file(SOURCE_ROOT "/schema/events.schema.json", JSON_REJECT_DUPLICATES, NULL);
    json_t *defs = json_object_get(schema, "$defs");
    assert_non_null(defs);
    assert_int_equal(json_array_size(json_object_get(schema, "oneOf")), json_object_size(defs));
    for (enum event_type t = EVENT_RUN_OPENED; t <= EVENT_LAST; t++) {
        json_t *def = json_object_get(defs, event_type_name(t)), *written = json_object(), *value;
        json_t *properties = json_object_get(def, "properties");
        const char *key;
        size_t n;
        assert_non_null(properties);
        for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
            struct buf text = {0};
            if (samples[i].type != t)
                continue;
            event_to_json(&samples[i], &text);
            json_t *json = json_loadb(text.data, text.len, 0, NULL);
            json_array_foreach(json_object_get(def, "required"), n, value)
            {
                if (!json_object_get(json, json_string_value(value)))
                    fail_msg("%s: \"%s\" is required", text.data, json_string_value(value));
            }
            json_object_update(written, json);
            json_decref(json);
            buf_free(&text);
        }
        json_object_foreach(written, key, value)
        {
            expect_described(properties, event_type_name(t), key);
            json_t *items = json_object_get(json_object_get(json_object_get(properties, key), "items"), "properties"),
                   *item;
            const char *of_item;
            json_array_foreach(value, n, item)
            {
                json_t *member;
                json_object_foreach(item, of_item, member) expect_described(items, key, of_item);
            }
        }
        json_object_foreach(properties, key, value)
        {
            if (!json_object_get(written, key))
                fail_msg("%s: nothing writes \"%s\"", event_type_name(t), key);
        }
        json_decref(written);
    }
    json_decref(schema);
}

static void test_json_invalid_utf8_is_replaced(void **unused)
{
    (void)unused;
    struct arena *arena = arena_create();
    struct event e = {.type = EVENT_NOTE,
                      .time_ms = 1,
                      .note = {.node = EVENT_NODE_NONE,
                               .reason = "a\xff"
                                         "b"}},
                 back;
    struct buf text = {0};
    event_to_json(&e, &text);
    assert_int_equal(event_from_json(text.data, text.len, arena, &back, NULL), 0);
    assert_string_equal(back.note.reason, "a\xEF\xBF\xBD"
                                          "b");
    buf_free(&text);
    arena_destroy(arena);
}

static void test_json_refused(void **unused)
{
    (void)unused;
    static const struct {
        const char *json, *says;
    } cases[] = {
        {"", "expected \"{\""},
        {"[]", "expected \"{\""},
        {"{", "expected a key"},
        {"{}", "\"type\" is missing"},
        {"{\"type\":\"nonsense\",\"time_ms\":1}", "unknown name \"nonsense\""},
        {"{\"type\":\"\",\"time_ms\":1}", "unknown name \"\""},
        {"{\"type\":\"note\"}", "\"time_ms\" is missing"},
        {"{\"type\":\"restart\",\"time_ms\":1}", "\"run\" is missing"},
        {"{\"type\":\"note\",\"time_ms\":1}x", "something follows its end"},
        {"{\"type\":\"note\",\"time_ms\":1,}", "expected a key"},
        {"{\"type\":\"note\",\"time_ms\":1,\"time_ms\":1}", "twice"},
        {"{\"type\":\"note\",\"type\":\"note\",\"time_ms\":1}", "twice"},
        {"{\"type\":\"note\",\"time_ms\":-1}", "out of range"},
        {"{\"type\":\"note\",\"time_ms\":9223372036854775808}", "out of range"},
        {"{\"type\":\"note\",\"time_ms\":1.5}", "expected an integer"},
        {"{\"type\":\"note\",\"time_ms\":01}", "expected an integer"},
        {"{\"type\":\"note\",\"time_ms\":\"1\"}", "expected an integer"},
        {"{\"type\":\"note\",\"time_ms\":1,\"reason\":null}", "expected \"\"\""},
        {"{\"type\":\"note\",\"time_ms\":1,\"reason\":\"a\\u0000b\"}", "bad escape"},
        {"{\"type\":\"note\",\"time_ms\":1,\"reason\":\"\\ud800\"}", "bad escape"},
        {"{\"type\":\"note\",\"time_ms\":1,\"reason\":\"\\x\"}", "bad escape"},
        {"{\"type\":\"note\",\"time_ms\":1,\"reason\":\"a\nb\"}", "control character"},
        {"{\"type\":\"note\",\"time_ms\":1,\"reason\":\"a", "string without end"},
        {"{\"type\":\"note\",\"time_ms\":1,\"reason\":\"a\\", "string without end"},
        {"{\"type\":\"settled\",\"time_ms\":1,\"run\":\"r\",\"node\":65536}", "out of range"},
        {"{\"type\":\"settled\",\"time_ms\":1,\"run\":\"r\"}", "\"node\" is missing"},
        {"{\"type\":\"run_opened\",\"time_ms\":1,\"run\":\"r\",\"node_count\":65537}", "out of range"},
        {"{\"type\":\"run_closed\",\"time_ms\":1,\"run\":\"r\",\"status\":\"open\"}", "\"status\" cannot be \"open\""},
        {"{\"type\":\"started\",\"time_ms\":1,\"run\":\"r\",\"attempts\":[{\"scope\":\"\"}]}", "\"step\" is missing"},
        {"{\"type\":\"finished\",\"time_ms\":1,\"run\":\"r\",\"node\":0,\"scope\":\"\",\"step\":\"s\",\"attempt\":"
         "\"a\","
         "\"outcome\":\"none\"}",
         "\"outcome\" cannot be \"none\""},
        {"{\"type\":\"note\",\"time_ms\":1,\"x\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[0]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"
         "]]]]]]]]]]]}",
         "too deep"},
    };
    struct arena *arena = arena_create();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct event e = {.seq = 77};
        struct error err = ERROR_INIT;
        assert_int_equal(event_from_json(cases[i].json, strlen(cases[i].json), arena, &e, &err), -1);
        if (!strstr(err.text, cases[i].says))
            fail_msg("%s: said \"%s\"", cases[i].json, err.text);
        assert_int_equal(err.code, ERROR_IO);
        assert_int_equal(e.seq, 77);
    }
    arena_destroy(arena);
}

/* A NUL in a key does not end it: the part before it is not taken for the key, however long the rest is. */
static void test_json_key_with_a_nul(void **unused)
{
    (void)unused;
    static const char before[] = "{\"type\":\"note\",\"time_ms\0", behind[] = "\":1}";
    struct arena *arena = arena_create();
    for (size_t n = 0; n < 400; n++) {
        struct buf text = {0};
        struct event e;
        struct error err = ERROR_INIT;
        buf_append(&text, before, sizeof before - 1);
        for (size_t i = 0; i < n; i++)
            buf_putc(&text, 'x');
        buf_puts(&text, behind);
        assert_int_equal(event_from_json(text.data, text.len, arena, &e, &err), -1);
        assert_non_null(strstr(err.text, "control character"));
        buf_free(&text);
    }
    arena_destroy(arena);
}

static void test_json_ignores_what_it_does_not_know(void **unused)
{
    (void)unused;
    static const char json[] =
        " { \"later\" : {\"a\":[1,-2.5e+3,true,null,\"}\"],\"b\":{}}, \"time_ms\":5,\"tail\":\"not "
        "of a note\",\"type\":\"note\", \"reason\":\"x\" } ";
    struct arena *arena = arena_create();
    struct event e;
    struct error err = ERROR_INIT;
    assert_int_equal(event_from_json(json, strlen(json), arena, &e, &err), 0);
    assert_int_equal(e.time_ms, 5);
    assert_string_equal(e.note.reason, "x");
    assert_int_equal(e.note.node, EVENT_NODE_NONE);
    arena_destroy(arena);
}

/* Each prefix is refused, and each single-byte change is refused or gives an event that state accepts. */
static void test_json_damaged(void **unused)
{
    (void)unused;
    struct arena *arena = arena_create();
    struct state *s = state_create();
    size_t accepted = 0, refused = 0;
    for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
        struct buf text = {0};
        struct event e;
        event_to_json(&samples[i], &text);
        for (size_t n = 0; n < text.len; n++) {
            char *exact = malloc(n ? n : 1); /* a read past the end shows under ASan */
            memcpy(exact, text.data, n);
            assert_int_equal(event_from_json(exact, n, arena, &e, NULL), -1);
            free(exact);
            static const char changes[] = "\"\\{}[]:,0-x";
            for (size_t c = 0; changes[c]; c++) {
                char was = text.data[n];
                text.data[n] = changes[c];
                if (event_from_json(text.data, text.len, arena, &e, NULL) == 0) {
                    accepted++;
                    state_apply(s, &e);
                } else {
                    refused++;
                }
                text.data[n] = was;
            }
        }
        buf_free(&text);
        arena_reset(arena);
    }
    assert_true(accepted > 100 && refused > 100);
    state_destroy(s);
    arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_round_trip),
        cmocka_unit_test(test_json_of_before),
        cmocka_unit_test(test_json_against_jansson),
        cmocka_unit_test(test_json_against_schema),
        cmocka_unit_test(test_json_invalid_utf8_is_replaced),
        cmocka_unit_test(test_json_refused),
        cmocka_unit_test(test_json_key_with_a_nul),
        cmocka_unit_test(test_json_ignores_what_it_does_not_know),
        cmocka_unit_test(test_json_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
