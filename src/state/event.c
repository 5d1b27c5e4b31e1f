/* The fields of events: for each type a table, in the order in which the fields are written (fields.h). */
#include "rhrun/fields.h"
#include "rhrun/state.h"

#include <assert.h>
#include <string.h>

#define REQUIRED .required = true
#define OPTIONAL .required = false

#define FIELD(key, member, ...) FIELD_OF(struct event, key, member, __VA_ARGS__)
#define NAME(key, member, of_names, ...) FIELD_NAME_OF(struct event, key, member, of_names, __VA_ARGS__)
#define FLAGS(key, member, of_names, ...) FIELD_FLAGS_OF(struct event, key, member, of_names, __VA_ARGS__)
#define STRINGS(key, member, count, ...) FIELD_STRINGS_OF(struct event, key, member, count, __VA_ARGS__)
#define OBJECTS(key, member, count, of, ...) FIELD_OBJECTS_OF(struct event, key, member, count, of, __VA_ARGS__)
#define NODE .max = EVENT_NODE_MAX - 1

#define TYPE NAME("type", type, event_type_names, REQUIRED, .min = EVENT_RUN_OPENED)
#define HEAD TYPE, FIELD("seq", seq, OPTIONAL), FIELD("time_ms", time_ms, REQUIRED), FIELD("run", run, REQUIRED)

static const char *const event_type_names[] = {
    "",           "run_opened", "node_bound", "started", "finished", "settled",      "restart",   "reissue",
    "cancelling", "run_closed", "note",       "rule",    "metrics",  "run_reopened", "installed", NULL};
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
    FIELD("variant", opened.variant, OPTIONAL),
    FLAGS("flags", opened.flags, run_flag_names, OPTIONAL),
    FIELD("node_count", opened.node_count, OPTIONAL, .max = EVENT_NODE_MAX),
    STRINGS("voids", opened.voids, opened.void_count, OPTIONAL, .max = EVENT_NODE_MAX),
    FIELD("spec_path", opened.asked.spec_path, OPTIONAL),
    FIELD("spec_hash", opened.asked.spec_hash, OPTIONAL),
    FIELD("plan_hash", opened.asked.plan_hash, OPTIONAL),
    FIELD("owner_name", opened.asked.owner_name, OPTIONAL),
    FIELD("version", opened.asked.version, OPTIONAL),
    FIELD("args_json", opened.args_json, OPTIONAL),
    FIELD("params_json", opened.params_json, OPTIONAL),
    FIELD("on", opened.asked.on, OPTIONAL),
    STRINGS("sets", opened.asked.sets, opened.asked.set_count, OPTIONAL, .max = SPEC_SETS_MAX),
    FIELD("from_step", opened.from_step, OPTIONAL),
    FIELD("work", opened.work, OPTIONAL),
    FIELD("job_hash", opened.job_hash, OPTIONAL),
    FIELD("made_of", opened.made_of, OPTIONAL),
    FIELD("points", opened.point_count, OPTIONAL, .none = true),
    STRINGS("kept", opened.kept, opened.kept_count, OPTIONAL, .max = SPEC_POINTS_MAX),
    FIELD("spec_text", opened.asked.spec_text, OPTIONAL),
};

static const struct field reopened_fields[] = {
    HEAD,
    FIELD("spec_path", reopened.spec_path, OPTIONAL),
    FIELD("spec_hash", reopened.spec_hash, OPTIONAL),
    FIELD("plan_hash", reopened.plan_hash, OPTIONAL),
    FIELD("owner_name", reopened.owner_name, OPTIONAL),
    FIELD("version", reopened.version, OPTIONAL),
    FIELD("on", reopened.on, OPTIONAL),
    STRINGS("sets", reopened.sets, reopened.set_count, OPTIONAL, .max = SPEC_SETS_MAX),
    FIELD("spec_text", reopened.spec_text, OPTIONAL),
};

static const struct field bound_fields[] = {
    HEAD,
    FIELD("work", bound.work, OPTIONAL),
    FIELD("node", bound.node, REQUIRED, NODE),
    FIELD("host", bound.host, OPTIONAL),
    FIELD("install", bound.install, REQUIRED),
    FIELD("boot_id", bound.boot_id, REQUIRED),
    FIELD("facts_json", bound.facts_json, OPTIONAL),
};

static const struct field attempt_fields[] = {
    FIELD_OF(struct event_attempt, "scope", scope, REQUIRED),
    FIELD_OF(struct event_attempt, "step", step, REQUIRED),
    FIELD_OF(struct event_attempt, "node", node, REQUIRED, NODE),
    FIELD_OF(struct event_attempt, "attempt", attempt, REQUIRED),
    FIELD_OF(struct event_attempt, "key", key, OPTIONAL),
    FIELD_OF(struct event_attempt, "inputs", inputs, OPTIONAL),
    FIELD_OF(struct event_attempt, "seen", seen, OPTIONAL, .none = true),
    FIELD_OF(struct event_attempt, "point", point, OPTIONAL),
    FIELD_OF(struct event_attempt, "params", params, OPTIONAL),
    FIELD_OF(struct event_attempt, "place", place, OPTIONAL, .none = true),
    FIELD_OF(struct event_attempt, "parts", parts, OPTIONAL, .none = true),
    FIELD_OF(struct event_attempt, "tries", tries, OPTIONAL, .none = true),
};
static const struct fields attempts = {attempt_fields, ARRAY_LEN(attempt_fields), sizeof(struct event_attempt)};

static const struct field started_fields[] = {
    HEAD,
    FIELD("generation", started.generation, OPTIONAL),
    FIELD("bind_json", started.bind_json, OPTIONAL),
    FIELD("joins", started.joins, OPTIONAL),
    FIELD("adopted", started.adopted, OPTIONAL, .none = true),
    OBJECTS("attempts", started.attempts, started.attempt_count, &attempts, REQUIRED, .max = EVENT_NODE_MAX),
};

static const struct field finished_fields[] = {
    HEAD,
    FIELD("node", finished.node, REQUIRED, NODE),
    FIELD("generation", finished.generation, OPTIONAL),
    FIELD("scope", finished.scope, REQUIRED),
    FIELD("step", finished.step, REQUIRED),
    FIELD("attempt", finished.attempt, REQUIRED),
    FIELD("key", finished.key, OPTIONAL),
    FIELD("inputs", finished.inputs, OPTIONAL),
    NAME("outcome", finished.outcome, outcome_names, REQUIRED, .min = OUTCOME_OK),
    FIELD("adopted", finished.adopted, OPTIONAL),
    FIELD("cause", finished.cause, OPTIONAL),
    FIELD("cause_value", finished.cause_value, OPTIONAL),
    FIELD("cause_rank", finished.cause_rank, OPTIONAL),
    FIELD("duration_ms", finished.duration_ms, OPTIONAL),
    FIELD("log_bytes", finished.log_bytes, OPTIONAL),
    FIELD("dropped_bytes", finished.dropped_bytes, OPTIONAL),
    FIELD("dropped_by", finished.dropped_by, OPTIONAL),
    FIELD("tail", finished.tail, OPTIONAL),
    FIELD("metrics", finished.metrics, OPTIONAL),
};

static const struct field settled_fields[] = {
    HEAD,
    FIELD("node", settled.node, REQUIRED, NODE),
    FIELD("boot_id", settled.boot_id, OPTIONAL),
};

static const struct field restart_fields[] = {
    HEAD,
    FIELD("generation", restart.generation, OPTIONAL),
    FIELD("rule", restart.rule, OPTIONAL),
    FIELD("uncounted", restart.uncounted, OPTIONAL),
    FIELD("backoff_ms", restart.backoff_ms, OPTIONAL),
    FIELD("reason", restart.reason, OPTIONAL),
};

static const struct field reissue_fields[] = {
    HEAD,
    FIELD("generation", reissue.generation, OPTIONAL),
    FIELD("reason", reissue.reason, OPTIONAL),
};

static const struct field cancelling_fields[] = {
    HEAD,
    FIELD("reason", cancelling.reason, OPTIONAL),
};

static const struct field closed_fields[] = {
    HEAD,
    NAME("status", closed.status, run_status_names, REQUIRED, .min = RUN_DONE),
    FIELD("exit_status", closed.exit_status, OPTIONAL),
    FIELD("reason", closed.reason, OPTIONAL),
};

static const struct field note_fields[] = {
    TYPE,
    FIELD("seq", seq, OPTIONAL),
    FIELD("time_ms", time_ms, REQUIRED),
    FIELD("run", run, OPTIONAL),
    FIELD("node", note.node, OPTIONAL, NODE, .none = true),
    FIELD("reason", note.reason, OPTIONAL),
};

static const struct field rule_fields[] = {
    HEAD,
    FIELD("node", rule.node, OPTIONAL, NODE, .none = true),
    FIELD("generation", rule.generation, OPTIONAL),
    FIELD("rule", rule.rule, REQUIRED, .min = 1),
    FIELD("rule_id", rule.rule_id, REQUIRED),
    NAME("action", rule.action, spec_actions, REQUIRED),
    FIELD("left", rule.left, OPTIONAL, .none = true),
    FIELD("backoff_ms", rule.backoff_ms, OPTIONAL),
    FIELD("line", rule.line, OPTIONAL),
    FIELD("cause_rank", rule.cause_rank, OPTIONAL),
    FIELD("reason", rule.reason, OPTIONAL),
};

static const struct field metric_fields[] = {
    FIELD_OF(struct event_metric, "name", name, REQUIRED),
    FIELD_OF(struct event_metric, "rank", rank, REQUIRED),
    FIELD_OF(struct event_metric, "value", value, REQUIRED),
    FIELD_OF(struct event_metric, "count", count, REQUIRED),
};
static const struct fields values = {metric_fields, ARRAY_LEN(metric_fields), sizeof(struct event_metric)};

static const struct field metrics_fields[] = {
    HEAD,
    OBJECTS("metrics", metrics.items, metrics.count, &values, REQUIRED, .max = EVENT_METRICS_MAX),
};

static const struct field installed_fields[] = {
    HEAD,
    FIELD("node", installed.node, REQUIRED, NODE),
    FIELD("role", installed.role, OPTIONAL),
    FIELD("digest", installed.digest, REQUIRED),
    FIELD("found_json", installed.found_json, OPTIONAL),
};

#define EVENT(fields)                                   \
    {                                                   \
        fields, ARRAY_LEN(fields), sizeof(struct event) \
    }
static const struct fields event_fields[EVENT_LAST + 1] = {
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
    [EVENT_INSTALLED] = EVENT(installed_fields),
};
_Static_assert(ARRAY_LEN(finished_fields) <= FIELDS_MAX && ARRAY_LEN(opened_fields) <= FIELDS_MAX, "of a table");
static const struct fields_types types = {"event", event_fields, EVENT_RUN_OPENED, EVENT_JSON_MAX};

void event_to_json(const struct event *e, struct buf *ret)
{
    assert(e->type >= EVENT_RUN_OPENED && e->type <= EVENT_LAST);
    fields_to_json(&event_fields[e->type], e, ret);
}

int event_from_json(const char *text, size_t len, struct arena *arena, struct event *ret, struct error *err)
{
    struct event e;
    memset(&e, 0, sizeof e); /* = {0} need not clear more than the union's first member */
    if (fields_from_json(&types, text, len, arena, &e, err) < 0)
        return -1;
    *ret = e;
    return 0;
}

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
