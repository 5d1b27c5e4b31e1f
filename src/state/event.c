/* Events as JSON: the table of keys, the names, and the writer. One table serves writer and reader (event_parse.c),
 * so that a field cannot be written and not read. */
#include "internal.h"

#include <assert.h>
#include <string.h>

#define T(name) (1u << EVENT_##name)
#define ALL ((T(LAST) << 1) - 2)
#define EVENT(field, kind, types, required)                          \
    {                                                                \
#field, kind, types, required, offsetof(struct event, field) \
    }
#define ATTEMPT(field, kind, required)                                     \
    {                                                                      \
#field, kind, ALL, required, offsetof(struct event_attempt, field) \
    }
#define METRIC(field, kind)                                          \
    {                                                                \
#field, kind, ALL, ALL, offsetof(struct event_metric, field) \
    }

/* In the order in which they are written. */
const struct field event_fields[] = {
    EVENT(seq, FIELD_U64, ALL, 0),
    EVENT(time_ms, FIELD_U64, ALL, ALL),
    EVENT(run, FIELD_STRING, ALL, ALL & ~T(NOTE)),
    EVENT(variant, FIELD_STRING, T(RUN_OPENED), 0),
    EVENT(flags, FIELD_FLAGS, T(RUN_OPENED), 0),
    EVENT(node_count, FIELD_U32, T(RUN_OPENED), 0),
    EVENT(voids, FIELD_VOIDS, T(RUN_OPENED), 0),
    EVENT(spec_path, FIELD_STRING, T(RUN_OPENED) | T(RUN_REOPENED), 0),
    EVENT(spec_hash, FIELD_STRING, T(RUN_OPENED) | T(RUN_REOPENED), 0),
    EVENT(plan_hash, FIELD_STRING, T(RUN_OPENED) | T(RUN_REOPENED), 0),
    EVENT(owner_name, FIELD_STRING, T(RUN_OPENED) | T(RUN_REOPENED), 0),
    EVENT(version, FIELD_STRING, T(RUN_OPENED) | T(RUN_REOPENED), 0),
    EVENT(args_json, FIELD_STRING, T(RUN_OPENED), 0),
    EVENT(params_json, FIELD_STRING, T(RUN_OPENED), 0),
    EVENT(on, FIELD_STRING, T(RUN_OPENED) | T(RUN_REOPENED), 0),
    EVENT(sets, FIELD_SETS, T(RUN_OPENED) | T(RUN_REOPENED), 0),
    EVENT(from_step, FIELD_STRING, T(RUN_OPENED), 0),
    EVENT(work, FIELD_STRING, T(RUN_OPENED) | T(NODE_BOUND), 0),
    EVENT(job_hash, FIELD_STRING, T(RUN_OPENED), 0),
    EVENT(spec_text, FIELD_STRING, T(RUN_OPENED) | T(RUN_REOPENED), 0),
    EVENT(node, FIELD_NODE, T(NODE_BOUND) | T(FINISHED) | T(SETTLED) | T(NOTE) | T(RULE),
          T(NODE_BOUND) | T(FINISHED) | T(SETTLED)),
    EVENT(host, FIELD_STRING, T(NODE_BOUND), 0),
    EVENT(install, FIELD_STRING, T(NODE_BOUND), T(NODE_BOUND)),
    EVENT(boot_id, FIELD_STRING, T(NODE_BOUND) | T(SETTLED), T(NODE_BOUND)),
    EVENT(facts_json, FIELD_STRING, T(NODE_BOUND), 0),
    EVENT(generation, FIELD_U32, T(STARTED) | T(FINISHED) | T(RESTART) | T(REISSUE) | T(RULE), 0),
    EVENT(rule, FIELD_U32, T(RULE) | T(RESTART), T(RULE)),
    EVENT(rule_id, FIELD_STRING, T(RULE), T(RULE)),
    EVENT(action, FIELD_STRING, T(RULE), T(RULE)),
    EVENT(left, FIELD_LEFT, T(RULE), 0),
    EVENT(uncounted, FIELD_BOOL, T(RESTART), 0),
    EVENT(backoff_ms, FIELD_U64, T(RULE) | T(RESTART), 0),
    EVENT(line, FIELD_STRING, T(RULE), 0),
    EVENT(metrics, FIELD_METRICS, T(METRICS), T(METRICS)),
    EVENT(bind_json, FIELD_STRING, T(STARTED), 0),
    EVENT(joins, FIELD_BOOL, T(STARTED), 0),
    EVENT(attempts, FIELD_ATTEMPTS, T(STARTED), T(STARTED)),
    EVENT(scope, FIELD_STRING, T(FINISHED), T(FINISHED)),
    EVENT(step, FIELD_STRING, T(FINISHED), T(FINISHED)),
    EVENT(attempt, FIELD_STRING, T(FINISHED), T(FINISHED)),
    EVENT(key, FIELD_STRING, T(FINISHED), 0),
    EVENT(inputs, FIELD_STRING, T(FINISHED), 0),
    EVENT(outcome, FIELD_OUTCOME, T(FINISHED), T(FINISHED)),
    EVENT(adopted, FIELD_BOOL, T(FINISHED), 0),
    EVENT(cause, FIELD_U32, T(FINISHED), 0),
    EVENT(cause_value, FIELD_I32, T(FINISHED), 0),
    EVENT(cause_rank, FIELD_U32, T(FINISHED) | T(RULE), 0),
    EVENT(duration_ms, FIELD_U64, T(FINISHED), 0),
    EVENT(log_bytes, FIELD_U64, T(FINISHED), 0),
    EVENT(dropped_bytes, FIELD_U64, T(FINISHED), 0),
    EVENT(dropped_by, FIELD_STRING, T(FINISHED), 0),
    EVENT(tail, FIELD_STRING, T(FINISHED), 0),
    EVENT(status, FIELD_STATUS, T(RUN_CLOSED), T(RUN_CLOSED)),
    EVENT(exit_status, FIELD_I32, T(RUN_CLOSED), 0),
    EVENT(reason, FIELD_STRING,
          T(RESTART) | T(REISSUE) | T(CANCELLING) | T(RUN_CLOSED) | T(NOTE) | T(RULE) | T(RUN_REOPENED), 0),
};
const size_t event_field_count = ARRAY_LEN(event_fields);

const struct field attempt_fields[] = {
    ATTEMPT(scope, FIELD_STRING, ALL),   ATTEMPT(step, FIELD_STRING, ALL), ATTEMPT(node, FIELD_NODE, ALL),
    ATTEMPT(attempt, FIELD_STRING, ALL), ATTEMPT(key, FIELD_STRING, 0),    ATTEMPT(inputs, FIELD_STRING, 0),
};
const size_t attempt_field_count = ARRAY_LEN(attempt_fields);

const struct field metric_fields[] = {
    METRIC(name, FIELD_STRING),
    METRIC(rank, FIELD_U32),
    METRIC(value, FIELD_STRING),
    METRIC(count, FIELD_U64),
};
const size_t metric_field_count = ARRAY_LEN(metric_fields);

const char *const event_type_names[] = {"",        "run_opened", "node_bound", "started",      "finished",
                                        "settled", "restart",    "reissue",    "cancelling",   "run_closed",
                                        "note",    "rule",       "metrics",    "run_reopened", NULL};
const char *const outcome_names[] = {"none", "ok", "failed", "stopped", "timed_out", "unknown", "not_started", NULL};
const char *const run_status_names[] = {"open", "done", "failed", "cancelled", "infra", "superseded", NULL};
const char *const run_flag_names[] = {"again", "fresh", "from", "detach", "replace", NULL};

_Static_assert(ARRAY_LEN(event_fields) < 64, "seen fields are a 64-bit mask");
_Static_assert(ARRAY_LEN(event_type_names) == EVENT_LAST + 2, "a name for each type");
_Static_assert(ARRAY_LEN(outcome_names) == OUTCOME_NOT_STARTED + 2, "a name for each outcome");
_Static_assert(ARRAY_LEN(run_status_names) == RUN_SUPERSEDED + 2, "a name for each status");

const char *event_type_name(enum event_type t)
{
    return event_type_names[t];
}

const char *outcome_name(enum outcome o)
{
    return outcome_names[o];
}

const char *run_status_name(enum run_status s)
{
    return run_status_names[s];
}

static void write_unsigned(struct buf *b, uint64_t v)
{
    char digits[20];
    size_t n = sizeof digits;
    do
        digits[--n] = (char)('0' + v % 10);
    while (v /= 10);
    buf_append(b, digits + n, sizeof digits - n);
}

static void write_signed(struct buf *b, int64_t v)
{
    if (v < 0)
        buf_putc(b, '-');
    write_unsigned(b, v < 0 ? (uint64_t)-v : (uint64_t)v);
}

/* buf_json_string goes byte by byte; most values here are hex digits and names. */
static void write_string(struct buf *b, const char *s)
{
    size_t n = 0;
    while (s[n] >= ' ' && s[n] < 0x7F && s[n] != '"' && s[n] != '\\')
        n++;
    if (s[n]) {
        buf_json_string(b, s, n + strlen(s + n));
        return;
    }
    buf_reserve(b, n + 2);
    buf_putc(b, '"');
    buf_append(b, s, n);
    buf_putc(b, '"');
}

static void write_flags(struct buf *b, uint32_t flags)
{
    bool first = true;
    buf_putc(b, '[');
    for (size_t i = 0; run_flag_names[i]; i++) {
        if (!(flags & 1u << i))
            continue;
        if (!first)
            buf_putc(b, ',');
        first = false;
        write_string(b, run_flag_names[i]);
    }
    buf_putc(b, ']');
}

static void write_strings(struct buf *b, const char *const *items, uint32_t count)
{
    buf_putc(b, '[');
    for (uint32_t i = 0; i < count; i++) {
        if (i)
            buf_putc(b, ',');
        write_string(b, items[i]);
    }
    buf_putc(b, ']');
}

static void write_fields(struct buf *b, const struct field *fields, size_t count, unsigned types, const void *object);

static void write_value(struct buf *b, const struct field *f, const void *object)
{
    const void *at = (const char *)object + f->offset;
    const struct event *e = object; /* only where the kind is one of an event's */
    switch (f->kind) {
    case FIELD_STRING:
        write_string(b, *(const char *const *)at);
        break;
    case FIELD_U32:
    case FIELD_NODE:
    case FIELD_LEFT:
        write_unsigned(b, *(const uint32_t *)at);
        break;
    case FIELD_I32:
        write_signed(b, *(const int32_t *)at);
        break;
    case FIELD_U64:
        write_unsigned(b, *(const uint64_t *)at);
        break;
    case FIELD_BOOL:
        buf_puts(b, *(const bool *)at ? "true" : "false");
        break;
    case FIELD_OUTCOME:
        write_string(b, outcome_name(e->outcome));
        break;
    case FIELD_STATUS:
        write_string(b, run_status_name(e->status));
        break;
    case FIELD_FLAGS:
        write_flags(b, e->flags);
        break;
    case FIELD_VOIDS:
        write_strings(b, e->voids, e->void_count);
        break;
    case FIELD_SETS:
        write_strings(b, e->sets, e->set_count);
        break;
    case FIELD_ATTEMPTS:
        buf_putc(b, '[');
        for (uint32_t i = 0; i < e->attempt_count; i++) {
            buf_puts(b, i ? ",{" : "{");
            write_fields(b, attempt_fields, attempt_field_count, ALL, &e->attempts[i]);
            buf_putc(b, '}');
        }
        buf_putc(b, ']');
        break;
    case FIELD_METRICS:
        buf_putc(b, '[');
        for (uint32_t i = 0; i < e->metric_count; i++) {
            buf_puts(b, i ? ",{" : "{");
            write_fields(b, metric_fields, metric_field_count, ALL, &e->metrics[i]);
            buf_putc(b, '}');
        }
        buf_putc(b, ']');
        break;
    }
}

/* The members, without braces; goes on behind what an object already has. */
static void write_fields(struct buf *b, const struct field *fields, size_t count, unsigned types, const void *object)
{
    for (size_t i = 0; i < count; i++) {
        const struct field *f = &fields[i];
        const void *at = (const char *)object + f->offset;
        if (!(f->types & types))
            continue;
        if ((f->kind == FIELD_STRING || f->kind == FIELD_SETS) && !*(const void *const *)at)
            continue;
        if ((f->kind == FIELD_NODE || f->kind == FIELD_LEFT) && *(const uint32_t *)at == UINT32_MAX)
            continue; /* EVENT_NODE_NONE, EVENT_UNBOUNDED */
        if (b->data[b->len - 1] != '{')
            buf_putc(b, ',');
        write_string(b, f->key);
        buf_putc(b, ':');
        write_value(b, f, object);
    }
}

void event_to_json(const struct event *e, struct buf *ret)
{
    assert(e->type >= EVENT_RUN_OPENED && e->type <= EVENT_LAST);
    buf_puts(ret, "{\"type\":");
    write_string(ret, event_type_name(e->type));
    write_fields(ret, event_fields, event_field_count, 1u << e->type, e);
    buf_putc(ret, '}');
}
