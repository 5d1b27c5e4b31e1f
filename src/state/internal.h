/* What event.c and event_parse.c share: the one table of an event's JSON keys. */
#ifndef RHRUN_STATE_INTERNAL_H
#define RHRUN_STATE_INTERNAL_H

#include "rhrun/state.h"

enum field_kind {
    FIELD_STRING, /* const char *; NULL is left out */
    FIELD_U32,
    FIELD_NODE,   /* uint32_t below EVENT_NODE_MAX; EVENT_NODE_NONE is left out */
    FIELD_I32,
    FIELD_U64,    /* at most INT64_MAX: what every JSON reader takes */
    FIELD_BOOL,
    FIELD_OUTCOME,
    FIELD_STATUS,
    FIELD_FLAGS,    /* array of names */
    FIELD_VOIDS,    /* array of strings, into voids and void_count */
    FIELD_SETS,     /* the same into sets and set_count; NULL is left out */
    FIELD_ATTEMPTS, /* array of objects, into attempts and attempt_count */
    FIELD_LEFT,     /* uint32_t; EVENT_UNBOUNDED is left out */
    FIELD_METRICS,  /* array of objects, into metrics and metric_count */
};
struct field {
    const char *key;
    enum field_kind kind;
    unsigned types;    /* bits 1 << event_type: who has it */
    unsigned required; /* of those, who must have it in JSON */
    size_t offset;     /* in struct event, or in struct event_attempt */
};
extern const struct field event_fields[];
extern const size_t event_field_count; /* below 64: seen ones are a bit mask */
extern const struct field attempt_fields[];
extern const size_t attempt_field_count;
extern const struct field metric_fields[];
extern const size_t metric_field_count;

/* Names of enumerators; NULL behind the last. Index 0 of event_type_names is unused. */
extern const char *const event_type_names[], *const outcome_names[], *const run_status_names[], *const run_flag_names[];

#endif
