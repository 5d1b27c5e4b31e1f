/*
 * state: the decisions and known facts of a job, rebuilt by replaying its journal.
 *
 * An event is a tagged union with a JSON form (one object; the journal stores it, `--json` prints it). state_apply is
 * pure: same events in the same order, same state; it never fails on an event that state_event_from_json accepted. The
 * journal is the authority on decisions; a node's ledger is the authority on what happened there. A cell is believed
 * only if both agree (see run).
 *
 * Cells: (scope, step, node). scope is "" for steps in a folder that all variants share (this machine, in place), and
 * the variant's id otherwise. node is the plan's slot number, from 0.
 */
#ifndef RHRUN_STATE_H
#define RHRUN_STATE_H

#include "rhrun/base.h"
#include "rhrun/spec.h"

enum {
    EVENT_METRICS_MAX = 65536,   /* values in one event, and in a run */
    EVENT_NODE_MAX = 65536,      /* slots of a plan, and attempts in one event */
    EVENT_JSON_MAX = 256 << 20,  /* bytes of one event's JSON */
};
#define EVENT_NODE_NONE UINT32_MAX /* a NOTE about no node: the key is left out */

enum event_type {
    EVENT_RUN_OPENED = 1,
    EVENT_NODE_BOUND,
    EVENT_STARTED,
    EVENT_FINISHED,
    EVENT_SETTLED,
    EVENT_RESTART,
    EVENT_REISSUE,
    EVENT_CANCELLING,
    EVENT_RUN_CLOSED,
    EVENT_NOTE,
    EVENT_RULE,
    EVENT_METRICS,
    EVENT_RUN_REOPENED,
    EVENT_INSTALLED,
    EVENT_LAST = EVENT_INSTALLED,
};

enum outcome {
    OUTCOME_NONE = 0,  /* started, no end known yet */
    OUTCOME_OK,
    OUTCOME_FAILED,    /* cause says why */
    OUTCOME_STOPPED,   /* ended by a requested stop */
    OUTCOME_TIMED_OUT,
    OUTCOME_UNKNOWN,   /* started and left no outcome */
    OUTCOME_NOT_STARTED, /* certainly never started: may be started as a new attempt */
};
const char *outcome_name(enum outcome o); /* "ok", "failed", ... */

enum run_status { RUN_OPEN = 0, RUN_DONE, RUN_FAILED, RUN_CANCELLED, RUN_INFRA, RUN_SUPERSEDED };
const char *run_status_name(enum run_status s);

enum run_flag {
    RUN_FLAG_AGAIN = 1,
    RUN_FLAG_FRESH = 2,
    RUN_FLAG_FROM = 4,
    RUN_FLAGS_ANEW = 7, /* the flags that ask for a new launch, whatever is recorded */
    RUN_FLAG_DETACH = 8,
    RUN_FLAG_REPLACE = 16
};

#define EVENT_UNBOUNDED UINT32_MAX /* in `left`: the rule has no budget of its own; the key is left out */

/* What a run was started with; all strings may be NULL. RUN_REOPENED has these fields again, because they may differ by
 * then. */
struct event_asked {
    const char *spec_path, *spec_hash, *spec_text;
    const char *plan_hash;
    const char *owner_name; /* who: user@host */
    const char *version;    /* of rhrun */
    /* --on and --set as given: without them the spec is not the one that ran. sets NULL: not recorded (an older
     * journal). A value is kept as typed, even if it is the value of an `env`; a journal's mode is 0600. */
    const char *on, *const *sets;
    uint32_t set_count; /* at most SPEC_SETS_MAX */
};

/* RUN_OPENED: a run of the job begins; it supersedes an open one. */
struct event_opened {
    struct event_asked asked;
    const char *variant;
    const char *args_json, *params_json; /* an array of strings; an object: name -> value */
    const char *from_step;               /* argument of --from */
    const char *work;                    /* name of the working directory that --fresh makes */
    const char *job_hash;                /* plan.job_hash; NULL: an older journal */
    const char *made_of;                 /* an object: the files' trees, the commit, ... (lock.h); NULL: not known */
    const char *const *voids;            /* "scope\tstep": cells that this run redoes in any case */
    uint32_t void_count;
    uint32_t flags;                      /* enum run_flag */
    uint32_t node_count;                 /* at most EVENT_NODE_MAX */
    uint64_t point_count;                /* of its sweep; 0: it has none */
    const char *const *kept;             /* ids of the points that earlier runs did */
    uint32_t kept_count;                 /* at most SPEC_POINTS_MAX */
};

/* NODE_BOUND: the slot's machine, with its install id and boot id. Comes before the node's first STARTED. */
struct event_bound {
    uint32_t node;
    const char *host;
    const char *install, *boot_id; /* never NULL */
    const char *work;              /* the working directory of an earlier --fresh, found on the nodes and unknown to
                                      this journal; else NULL */
    const char *facts_json;        /* an object */
};

struct event_attempt {
    const char *scope, *step, *attempt, *key;
    const char *inputs; /* JSON object: name of input -> digest or value; shows why a key changed */
    uint32_t node;
    uint64_t seen; /* sequence of the node's latest known record of the step at that time; 0 = none */
    const char *point, *params; /* of a sweep: the point's name, and its swept params as a JSON object; else NULL */
    uint64_t place;             /* of a point: its place on the node, from 1; 0: none */
    uint64_t parts;             /* of a point on several nodes: their number, all in this event; else 0 */
    uint64_t tries;             /* of a point: how many of its launches had failed in this run before this one */
};

/* STARTED: all attempts of one decision (for a launch generation one per node). */
struct event_started {
    uint32_t generation; /* of the launch, from 1; 0: no launch */
    bool joins;          /* they join the running generation: a node that comes late or again, or a part of a launch
                            that another run began */
    bool adopted;        /* the attempts were found alive on their nodes: this journal never started them */
    const char *bind_json; /* of a launch: {"master_addr", "master_port", "nonce", "roles": [{"name", "first", "count",
                              "master_port"}],
                              "places": [[role, node, first role_rank, count]]}; needed to send RUNs again, to
                              find each worker's role in logs, and for locks */
    const struct event_attempt *attempts;
    uint32_t attempt_count;
};

/* FINISHED: an attempt ended, or its end was found in a node's ledger. */
struct event_finished {
    uint32_t node;
    uint32_t generation; /* of an adopted part of a launch; else 0 */
    const char *scope, *step, *attempt;
    const char *key, *inputs; /* as in event_attempt */
    enum outcome outcome;     /* never NONE */
    bool adopted;             /* the record was found on the node under `attempt`; this journal never started it */
    uint32_t cause;           /* enum wire_cause */
    int32_t cause_value;
    uint32_t cause_rank;
    uint64_t duration_ms;
    uint64_t log_bytes;
    uint64_t dropped_bytes; /* of its output; if not 0, dropped_by says why: "limit", "disk", "limit and disk"; else it
                               is NULL */
    const char *dropped_by;
    const char *tail;       /* last lines */
    const char *metrics;    /* of a point: JSON object with the last value of each metric, from the lowest rank; NULL:
                               none */
};

/* SETTLED: the node's ledger and files are synced to its disk. */
struct event_settled {
    uint32_t node;
    const char *boot_id; /* at that time; NULL: as bound */
};

/* RESTART: the launch starts again, counted in state_run.restarts. */
struct event_restart {
    uint32_t generation; /* the generation that begins; 0: the next */
    uint32_t rule;       /* its number in failure_rules, from 1; 0: none matched */
    bool uncounted;      /* counts against the rule's own budget, not against max_restarts */
    uint64_t backoff_ms; /* before it begins */
    const char *reason;
};

/* REISSUE: the launch starts again, not counted as a restart. */
struct event_reissue {
    uint32_t generation; /* as in event_restart */
    const char *reason;
};

/* CANCELLING: the run is being stopped. */
struct event_cancelling {
    const char *reason;
};

/* RUN_CLOSED: the run is over. */
struct event_closed {
    enum run_status status; /* never OPEN */
    int32_t exit_status;
    const char *reason;     /* why it is not DONE */
};

/* NOTE: for people (a node is lost, is back, ...); changes no state. */
struct event_note {
    uint32_t node; /* or EVENT_NODE_NONE */
    const char *reason;
};

/* RULE: a failure rule applied; comes before the events that it causes. Any action but ignore is the verdict on the
 * generation. */
struct event_rule {
    uint32_t node; /* or EVENT_NODE_NONE */
    uint32_t generation; /* 0: about a node alone, and no verdict */
    uint32_t rule;       /* its number in failure_rules, from 1 */
    const char *rule_id; /* spec_rule.id; never NULL */
    enum spec_action action;
    uint32_t left;       /* left of its budget; or EVENT_UNBOUNDED */
    uint64_t backoff_ms; /* before the next generation */
    const char *line;    /* the printed line, cut, or NULL */
    uint32_t cause_rank;
    const char *reason;
};

struct event_metric {
    const char *name, *value; /* value: "0.25", "nan", "-inf" */
    uint32_t rank;            /* UINT32_MAX: a launcher */
    uint64_t count;           /* values so far */
};

/* METRICS: the latest values of the metrics that changed. */
struct event_metrics {
    const struct event_metric *items;
    uint32_t count; /* at most EVENT_METRICS_MAX */
};

/* INSTALLED: the packages of a Python on the node, after an installation or when a launch begins. Only if the list
 * differs from the last one. */
struct event_installed {
    uint32_t node;
    const char *role;       /* whose Python; NULL: the job's */
    const char *digest;     /* SHA-256 of the list, hex; never NULL */
    const char *found_json; /* the list, as step/install.py makes it; NULL: it is in an earlier event with this
                               digest */
};

/* The maker of an event owns its strings and arrays. A pointer may be NULL unless a comment says "never NULL". */
struct event {
    enum event_type type;
    uint64_t seq;     /* given by the journal */
    uint64_t time_ms; /* wall clock */
    const char *run;  /* id of the run; only a NOTE may have none */
    union {           /* by type */
        struct event_opened opened;
        struct event_asked reopened; /* RUN_REOPENED: the run's launch ended well and is kept; the files of the present
                                        `outputs` are fetched */
        struct event_bound bound;
        struct event_started started;
        struct event_finished finished;
        struct event_settled settled;
        struct event_restart restart;
        struct event_reissue reissue;
        struct event_cancelling cancelling;
        struct event_closed closed;
        struct event_note note;
        struct event_rule rule;
        struct event_metrics metrics;
        struct event_installed installed;
    };
};

struct state_cell {
    const char *scope, *step;
    uint32_t node;
    const char *run, *attempt, *key, *inputs, *install, *boot_id;
    const char *point, *params; /* as in event_attempt */
    const char *metrics;        /* as in event_finished */
    uint64_t place, parts, tries;
    enum outcome outcome;
    bool settled;     /* synced to the node's disk: survives a power loss */
    bool was_ok;      /* it ended well, but is unknown because its node restarted, or was replaced, before it was
                         settled */
    bool voided;      /* by a flag of the open run: the record does not count */
    uint32_t generation;
    uint32_t after;    /* the run's `begun` when the attempt began: an epilog or outputs of an earlier generation do not
                          count for this one */
    uint64_t seq;      /* seq of the attempt's first event: STARTED, or the FINISHED of an adopted one */
    bool adopted;      /* this journal never started the attempt */
    uint32_t failures; /* attempts in this run that failed or timed out */
    uint64_t seen;     /* as in event_attempt: a record with a later number began after this decision */
    uint64_t started_ms, finished_ms, log_bytes, dropped_bytes;
    const char *dropped_by;
    uint32_t cause, cause_rank;
    int32_t cause_value;
    const char *tail;
};
struct state_installed {
    const char *role, *digest; /* from the latest INSTALLED of that Python */
    struct state_installed *next;
};
struct state_node {
    struct state_installed *installed; /* on the node's present machine; NULL: nothing is known */
    const char *host, *install, *boot_id, *facts_json; /* as last bound; NULL = never */
    uint64_t bound_ms;
};
struct state_rule { /* a rule of failure_rules that applied in a run */
    const char *id;
    uint32_t number, times;
    const char *action, *reason; /* when it last applied */
};
struct state_verdict { /* a rule's verdict (fail, restart or replace_node) on a generation; generation 0 = none yet */
    uint32_t generation, rule, left, node, rank;
    enum spec_action action;
    const char *reason, *line;
    uint64_t backoff_ms;
};
struct state_ignored { /* a worker whose end counts as good */
    uint32_t node, rank;
};
struct state_metric {
    const char *name;
    char value[32]; /* in place, because strings in the arena are never freed, and values change all the time */
    uint32_t rank;
    uint64_t count, time_ms;
};
struct state_run {
    const char *id, *variant, *spec_path, *spec_hash, *plan_hash, *params_json, *args_json, *from_step, *work, *message;
    const char *on, *const *sets; /* as in the event */
    uint32_t set_count;
    const char *const *kept; /* as in the event, in the order of the points */
    uint32_t point_count, kept_count, points_ok; /* points_ok: launches of points that ended well in this run */
    const char *job_hash;  /* as in the event */
    bool fetching;         /* it was reopened only to fetch outputs */
    const char *bind_json; /* of the latest launch generation */
    uint32_t flags, node_count, generation;
    uint32_t own_generation; /* the latest generation that the run started, or decided to start; earlier ones were found
                                on the nodes */
    uint32_t begun;          /* the latest generation of which a part was started or found; `generation` is higher
                                between a RESTART or REISSUE and the next STARTED */
    uint32_t restarts;      /* all of them */
    uint32_t own_restarts;  /* of these, the ones by rules with their own budget, which do not count against
                               max_restarts */
    uint64_t resume_ms;     /* end of a backoff: the next generation does not start before */
    struct state_rule *rules;
    struct state_verdict verdict; /* the latest */
    struct state_ignored *ignored; /* of ignored_generation, the latest generation that has any */
    uint32_t ignored_count, ignored_generation;
    struct state_metric *metrics;
    uint32_t rule_count, metric_count;
    enum run_status status;
    int32_t exit_status;
    bool cancelling;
    uint64_t opened_ms, closed_ms;
};
struct state {
    struct arena *arena;
    struct state_cell *cells;
    size_t cell_count, cell_cap;
    struct state_node *nodes;
    size_t node_count;
    struct state_run *runs; /* oldest first */
    size_t run_count, run_cap;
    uint64_t last_seq;
    /* private: hash index of cells */
    void *index;
};

struct state *state_create(void);
void state_destroy(struct state *s); /* takes NULL */
/* Pure: copies what it keeps. Asserts that the event has the fields of its type. An event that does not fit the state
 * (the end of an attempt that the cell does not hold, or a second end of a run) changes nothing but last_seq; except
 * that a second end of a cancelled run updates which nodes were not reached. Strings found through the state live as
 * long as the state; cells, nodes and runs may move at the next apply. */
void state_apply(struct state *s, const struct event *e);
const struct state_cell *state_cell_find(const struct state *s, const char *scope, const char *step, uint32_t node);
const struct state_cell *state_cell_by_attempt(const struct state *s, const char *attempt);
/* Whether this journal started the attempt, even if another has replaced it since. An attempt that was only adopted
 * from a node does not count: the controller that started it may still ask the node for it. For a digest instead of an
 * attempt: whether there was an INSTALLED with it. */
bool state_knows_attempt(const struct state *s, const char *attempt);
/* NULL: nothing is known. role NULL: the job's Python. */
const struct state_installed *state_installed_on(const struct state *s, uint32_t node, const char *role);
const struct state_run *state_run_find(const struct state *s, const char *id);
const struct state_run *state_run_open(const struct state *s);                        /* the unfinished one, or NULL */
bool state_run_left(const struct state *s, const char *id); /* whether the journal lacks the end of something that this
                                                               run started */
const struct state_run *state_run_latest(const struct state *s, const char *variant); /* NULL variant = any */

/* ---- failure rules ---- */
/* What happened, in the terms that rules match. */
struct state_happening {
    enum spec_subject subject;
    uint32_t role;          /* of the worker: index in spec.roles */
    bool is_line;           /* of a worker: true: it printed a line; false: it ended, and not well */
    bool must_count;        /* its end cannot be ignored: the end is unknown, or the worker never began */
    uint32_t status, signal; /* of an end; both 0: neither */
    const bool *seen;       /* [rule]: the line matches the rule's pattern; for an end: the worker printed such a line
                               in this generation. NULL: none */
};
struct state_decision {
    uint32_t rule;          /* index; UINT32_MAX: none matched */
    enum spec_action action; /* without a rule: for an end RESTART while max_restarts allows, else FAIL; for a node
                                FAIL; for a line IGNORE */
    bool own;               /* it counts against the rule's own budget */
    uint32_t used, left;    /* how often the rule applied, this time included, and what is left of its budget or
                               EVENT_UNBOUNDED */
    uint64_t backoff_ms;
};
/* Pure: takes the first rule that matches and has some budget left. A rule with only a pattern matches lines; with
 * exit_status or signal as well, it matches ends. used[rule]: how often each rule applied in this run. restarts_left:
 * of max_restarts. */
void state_decide(const struct spec_rule *rules, size_t count, const uint32_t *used, uint32_t restarts_left,
                  const struct state_happening *what, struct state_decision *ret);
/* Fills used[] from the run's record of its rules. */
void state_rules_used(const struct state_run *run, const struct spec_rule *rules, size_t count, uint32_t *ret);

/* JSON: one object; keys are named as the members above (src/state/event.c lists them); "type" is the lower-case name
 * (run_opened, ...); NULL strings are left out; outcome, status and flags are written by name; a field that is itself
 * JSON (inputs, params_json, ...) is written as a string, so that it comes back byte for byte. Reading ignores unknown
 * keys and refuses unknown types, missing keys, duplicate keys and numbers out of range (ERROR_IO); its strings are in
 * arena. The same text is an NDJSON line of `rhrun --json` (schema/events.schema.json). */
const char *event_type_name(enum event_type t);
void event_to_json(const struct event *e, struct buf *ret);
int event_from_json(const char *text, size_t len, struct arena *arena, struct event *ret, struct error *err);

#endif
