/* What events consist of: for each type a table of its fields, in the order in which they are written. event_json.c
 * walks them to write and to read; a field is named here and nowhere else. Its kind follows from its C type. */
#include "internal.h"

#define REQUIRED .required = true
#define OPTIONAL .required = false

/* A field of another type than these does not compile. */
#define KIND(member) \
    _Generic((member), const char *: FIELD_STRING, uint32_t: FIELD_U32, int32_t: FIELD_I32, uint64_t: FIELD_U64, \
             bool: FIELD_BOOL)
#define COUNT(type, member) _Generic(((type *)0)->member, uint32_t : offsetof(type, member))

#define OF(type, key, member, ...)                                                          \
    {                                                                                       \
        key, sizeof key - 1, KIND(((type *)0)->member), offsetof(type, member), __VA_ARGS__ \
    }
#define FIELD(key, member, ...) OF(struct event, key, member, __VA_ARGS__)
#define NAME(key, member, of_names, ...)                                                                \
    {                                                                                                   \
        key, sizeof key - 1, FIELD_NAME, offsetof(struct event, member), .names = of_names, __VA_ARGS__ \
    }
#define FLAGS(key, member, of_names, ...)                                                                \
    {                                                                                                    \
        key, sizeof key - 1, FIELD_FLAGS, offsetof(struct event, member), .names = of_names, __VA_ARGS__ \
    }
#define STRINGS(key, member, count, ...)                                    \
    {                                                                       \
        key, sizeof key - 1, FIELD_STRINGS, offsetof(struct event, member), \
            .count_offset = COUNT(struct event, count), __VA_ARGS__         \
    }
#define OBJECTS(key, member, count, of_fields, ...)                                     \
    {                                                                                   \
        key, sizeof key - 1, FIELD_OBJECTS, offsetof(struct event, member),             \
            .count_offset = COUNT(struct event, count), .items = of_fields, __VA_ARGS__ \
    }
#define NODE .max = EVENT_NODE_MAX - 1

#define TYPE NAME("type", type, event_type_names, REQUIRED, .min = EVENT_RUN_OPENED)
#define HEAD TYPE, FIELD("seq", seq, OPTIONAL), FIELD("time_ms", time_ms, REQUIRED), FIELD("run", run, REQUIRED)

const char *const event_type_names[] = {"",        "run_opened", "node_bound", "started",      "finished",
                                        "settled", "restart",    "reissue",    "cancelling",   "run_closed",
                                        "note",    "rule",       "metrics",    "run_reopened", NULL};
static const char *const outcome_names[] = {"none",      "ok",      "failed",      "stopped",
                                            "timed_out", "unknown", "not_started", NULL};
static const char *const run_status_names[] = {"open", "done", "failed", "cancelled", "infra", "superseded", NULL};
static const char *const run_flag_names[] = {"again", "fresh", "from", "detach", "replace", NULL};

_Static_assert(ARRAY_LEN(event_type_names) == EVENT_LAST + 2, "a name for each type");
_Static_assert(ARRAY_LEN(outcome_names) == OUTCOME_NOT_STARTED + 2, "a name for each outcome");
_Static_assert(ARRAY_LEN(run_status_names) == RUN_SUPERSEDED + 2, "a name for each status");
_Static_assert(sizeof(enum event_type) == sizeof(uint32_t) && sizeof(enum outcome) == sizeof(uint32_t) &&
                   sizeof(enum run_status) == sizeof(uint32_t) && sizeof(enum spec_action) == sizeof(uint32_t),
               "FIELD_NAME is one of these");

static const struct field opened_fields[] = {
    HEAD,
    FIELD("variant", variant, OPTIONAL),
    FLAGS("flags", flags, run_flag_names, OPTIONAL),
    FIELD("node_count", node_count, OPTIONAL, .max = EVENT_NODE_MAX),
    STRINGS("voids", voids, void_count, OPTIONAL, .max = EVENT_NODE_MAX),
    FIELD("spec_path", spec_path, OPTIONAL),
    FIELD("spec_hash", spec_hash, OPTIONAL),
    FIELD("plan_hash", plan_hash, OPTIONAL),
    FIELD("owner_name", owner_name, OPTIONAL),
    FIELD("version", version, OPTIONAL),
    FIELD("args_json", args_json, OPTIONAL),
    FIELD("params_json", params_json, OPTIONAL),
    FIELD("on", on, OPTIONAL),
    STRINGS("sets", sets, set_count, OPTIONAL, .max = SPEC_SETS_MAX),
    FIELD("from_step", from_step, OPTIONAL),
    FIELD("work", work, OPTIONAL),
    FIELD("job_hash", job_hash, OPTIONAL),
    FIELD("spec_text", spec_text, OPTIONAL),
};

static const struct field reopened_fields[] = {
    HEAD,
    FIELD("spec_path", spec_path, OPTIONAL),
    FIELD("spec_hash", spec_hash, OPTIONAL),
    FIELD("plan_hash", plan_hash, OPTIONAL),
    FIELD("owner_name", owner_name, OPTIONAL),
    FIELD("version", version, OPTIONAL),
    FIELD("on", on, OPTIONAL),
    STRINGS("sets", sets, set_count, OPTIONAL, .max = SPEC_SETS_MAX),
    FIELD("spec_text", spec_text, OPTIONAL),
};

static const struct field bound_fields[] = {
    HEAD,
    FIELD("work", work, OPTIONAL),
    FIELD("node", node, REQUIRED, NODE),
    FIELD("host", host, OPTIONAL),
    FIELD("install", install, REQUIRED),
    FIELD("boot_id", boot_id, REQUIRED),
    FIELD("facts_json", facts_json, OPTIONAL),
};

static const struct field attempt_fields[] = {
    OF(struct event_attempt, "scope", scope, REQUIRED),
    OF(struct event_attempt, "step", step, REQUIRED),
    OF(struct event_attempt, "node", node, REQUIRED, NODE),
    OF(struct event_attempt, "attempt", attempt, REQUIRED),
    OF(struct event_attempt, "key", key, OPTIONAL),
    OF(struct event_attempt, "inputs", inputs, OPTIONAL),
    OF(struct event_attempt, "seen", seen, OPTIONAL, .none = true),
};
static const struct fields attempts = {attempt_fields, ARRAY_LEN(attempt_fields), sizeof(struct event_attempt)};

static const struct field started_fields[] = {
    HEAD,
    FIELD("generation", generation, OPTIONAL),
    FIELD("bind_json", bind_json, OPTIONAL),
    FIELD("joins", joins, OPTIONAL),
    OBJECTS("attempts", attempts, attempt_count, &attempts, REQUIRED, .max = EVENT_NODE_MAX),
};

static const struct field finished_fields[] = {
    HEAD,
    FIELD("node", node, REQUIRED, NODE),
    FIELD("generation", generation, OPTIONAL),
    FIELD("scope", scope, REQUIRED),
    FIELD("step", step, REQUIRED),
    FIELD("attempt", attempt, REQUIRED),
    FIELD("key", key, OPTIONAL),
    FIELD("inputs", inputs, OPTIONAL),
    NAME("outcome", outcome, outcome_names, REQUIRED, .min = OUTCOME_OK),
    FIELD("adopted", adopted, OPTIONAL),
    FIELD("cause", cause, OPTIONAL),
    FIELD("cause_value", cause_value, OPTIONAL),
    FIELD("cause_rank", cause_rank, OPTIONAL),
    FIELD("duration_ms", duration_ms, OPTIONAL),
    FIELD("log_bytes", log_bytes, OPTIONAL),
    FIELD("dropped_bytes", dropped_bytes, OPTIONAL),
    FIELD("dropped_by", dropped_by, OPTIONAL),
    FIELD("tail", tail, OPTIONAL),
};

static const struct field settled_fields[] = {
    HEAD,
    FIELD("node", node, REQUIRED, NODE),
    FIELD("boot_id", boot_id, OPTIONAL),
};

static const struct field restart_fields[] = {
    HEAD,
    FIELD("generation", generation, OPTIONAL),
    FIELD("rule", rule, OPTIONAL),
    FIELD("uncounted", uncounted, OPTIONAL),
    FIELD("backoff_ms", backoff_ms, OPTIONAL),
    FIELD("reason", reason, OPTIONAL),
};

static const struct field reissue_fields[] = {
    HEAD,
    FIELD("generation", generation, OPTIONAL),
    FIELD("reason", reason, OPTIONAL),
};

static const struct field cancelling_fields[] = {
    HEAD,
    FIELD("reason", reason, OPTIONAL),
};

static const struct field closed_fields[] = {
    HEAD,
    NAME("status", status, run_status_names, REQUIRED, .min = RUN_DONE),
    FIELD("exit_status", exit_status, OPTIONAL),
    FIELD("reason", reason, OPTIONAL),
};

static const struct field note_fields[] = {
    TYPE,
    FIELD("seq", seq, OPTIONAL),
    FIELD("time_ms", time_ms, REQUIRED),
    FIELD("run", run, OPTIONAL),
    FIELD("node", node, OPTIONAL, NODE, .none = true),
    FIELD("reason", reason, OPTIONAL),
};

static const struct field rule_fields[] = {
    HEAD,
    FIELD("node", node, OPTIONAL, NODE, .none = true),
    FIELD("generation", generation, OPTIONAL),
    FIELD("rule", rule, REQUIRED, .min = 1),
    FIELD("rule_id", rule_id, REQUIRED),
    NAME("action", action, spec_actions, REQUIRED),
    FIELD("left", left, OPTIONAL, .none = true),
    FIELD("backoff_ms", backoff_ms, OPTIONAL),
    FIELD("line", line, OPTIONAL),
    FIELD("cause_rank", cause_rank, OPTIONAL),
    FIELD("reason", reason, OPTIONAL),
};

static const struct field metric_fields[] = {
    OF(struct event_metric, "name", name, REQUIRED),
    OF(struct event_metric, "rank", rank, REQUIRED),
    OF(struct event_metric, "value", value, REQUIRED),
    OF(struct event_metric, "count", count, REQUIRED),
};
static const struct fields values = {metric_fields, ARRAY_LEN(metric_fields), sizeof(struct event_metric)};

static const struct field metrics_fields[] = {
    HEAD,
    OBJECTS("metrics", metrics, metric_count, &values, REQUIRED, .max = EVENT_METRICS_MAX),
};

#define EVENT(fields)                                   \
    {                                                   \
        fields, ARRAY_LEN(fields), sizeof(struct event) \
    }
const struct fields event_fields[EVENT_LAST + 1] = {
    [EVENT_RUN_OPENED] = EVENT(opened_fields),
    [EVENT_NODE_BOUND] = EVENT(bound_fields),
    [EVENT_STARTED] = EVENT(started_fields),
    [EVENT_FINISHED] = EVENT(finished_fields),
    [EVENT_SETTLED] = EVENT(settled_fields),
    [EVENT_RESTART] = EVENT(restart_fields),
    [EVENT_REISSUE] = EVENT(reissue_fields),
    [EVENT_CANCELLING] = EVENT(cancelling_fields),
    [EVENT_RUN_CLOSED] = EVENT(closed_fields),
    [EVENT_NOTE] = EVENT(note_fields),
    [EVENT_RULE] = EVENT(rule_fields),
    [EVENT_METRICS] = EVENT(metrics_fields),
    [EVENT_RUN_REOPENED] = EVENT(reopened_fields),
};
_Static_assert(ARRAY_LEN(finished_fields) < 64 && ARRAY_LEN(opened_fields) < 64, "seen fields are a 64-bit mask");

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
