/*
 * options: the options of a run, and what a run reports. The core (src/core), its hands (src/run) and the code that
 * only looks at a run (src/cli) share these declarations.
 */
#ifndef RHRUN_OPTIONS_H
#define RHRUN_OPTIONS_H

#include "rhrun/plan.h"
#include "rhrun/state.h"
#include "rhrun/watch.h"

struct run;

enum run_mode {
    RUN_EXECUTE, /* runs the job until it is done */
    RUN_VERIFY,  /* for a job that is done: compares set-up with the nodes' ledgers, starts nothing */
    RUN_CANCEL,  /* stops what an unfinished run left on the nodes, and closes that run as cancelled */
    RUN_LOOK,    /* read-only HELLO: collects records and facts for `plan` and `doctor` */
};

/* A reason not to launch that preflight has found. */
struct run_finding {
    const char *what;      /* a key of `preflight` ("ports", "clocks", "disk", "gpus", "versions"), or "machines" */
    enum error_code code;  /* the code with which the run ends; ERROR_NONE: the finding is only a note */
    const uint32_t *nodes; /* the nodes that cause the finding, ascending: without them there would be no finding */
    uint32_t node_count;
    const char *text, *cure; /* text names the nodes */
};

/* A line of output of a step or worker. */
struct run_line {
    const struct plan_step *step;
    uint32_t node;
    const char *node_name;
    const struct watch_line *line;
};

/* A port of `ports`. */
struct run_port {
    const char *name, *role; /* or NULL */
    uint32_t node;
    const char *node_name;
    uint32_t port;       /* there */
    /* where it can be reached from here: "127.0.0.1:6006"; NULL: nowhere, for example because no launch runs */
    const char *address;
    bool forwarded;      /* by rhrun; else the address is the node's own */
    uint32_t taken;      /* the local port that was wanted, if it is not available; else 0 */
    const char *trouble; /* why it cannot be forwarded, and a way to do it by hand; NULL: no fault is known */
};

struct run_observer {
    void (*event)(void *arg, const struct event *e); /* e is durable */
    void (*line)(void *arg, const struct run_line *line);
    void (*changed)(void *arg); /* something that the live view shows has changed */
    /* All lines of the attempt's log file up to byte `to` were given out, except lines that have no end yet. The
     * earliest of these begins in the record at `from`; from == to: there is none. */
    void (*place)(void *arg, const struct plan_step *step, const char *attempt, uint64_t from, uint64_t to);
    void (*port)(void *arg, const struct run_port *port); /* the port's state has changed; may be NULL */
    void *arg;
};

/* The side that rents machines. It answers in a later turn. */
struct run_machines {
    /* its connection was lost; answer: run_machine_gone, if its machine is gone */
    void (*lost)(void *arg, uint32_t node);
    /* A rule gives the node's machine up, and another one must be rented; answer: run_machine_new or
     * run_machine_none. */
    void (*replace)(void *arg, uint32_t node);
    void *arg;
};

struct run_options {
    enum run_mode mode;
    bool preflight; /* RUN_LOOK: with preflight; see run_findings */
    struct plan *plan;
    bool recorded;          /* the session has a journal; run_create sets this */
    const char *owner_name; /* user@host */
    uint32_t flags;         /* enum run_flag, for a newly opened run */
    const char *from_step;
    const char *made_of; /* of a newly opened run: event_opened.made_of; or NULL */
    bool take_over, replace;
    uint32_t liveness_ms;  /* 0 = default */
    uint64_t reconnect_ms; /* 0 = default */
    uint64_t late_ms;      /* MIN:MAX nodes: how long a launch waits for a node that was lost before it; 0 = 30 s */
    uint64_t join_ms;      /* MIN:MAX nodes: the first pause before a node that is left out is tried again; 0 = 5 s */
    uint32_t hello_ms, backoff_ms; /* of struct node_options; 0 = default */
    const char *test_boot_id;      /* test hook */
    struct tree_store *store;      /* has the files that steps bring to nodes; NULL if no step brings any */
    struct run_observer observer;
    struct run_machines machines; /* functions NULL: no machine is rented */
};

struct run_result {
    enum run_status status; /* RUN_OPEN: rhrun ended without closing the run */
    int exit_status;
    bool nothing_to_do;
    char run_id[17];
    struct error error; /* if exit_status is not 0: what to tell the user */
    /* the first cause of a failed job */
    bool has_cause;
    const char *cause_step;
    const char *cause_node;
    uint32_t cause_rank, cause, cause_generation;
    int32_t cause_value;
    bool cause_has_rank;
    const char *cause_tail;
    uint32_t verified_nodes, unverified_nodes; /* RUN_VERIFY */
    const char *unverified_reason;
};

/* ---- the state of a run ---- */
/* A step on one node. */
enum task_state {
    /* the step has not begun: its turn has not come, or it is not decided yet whether it must be done */
    TASK_PENDING,
    TASK_KEPT,     /* an earlier run did it, and that still holds */
    TASK_STARTING, /* an attempt was drawn, and its STARTED is not durable yet: nothing was sent */
    /* prolog or launch: an earlier controller started the attempt, which never began; it awaits the barrier */
    TASK_HELD,
    TASK_RUNNING,  /* the attempt is being sent, or is on the node; of a fetch: files are under way */
    TASK_STOPPING, /* the same, and the attempt was asked to end */
    TASK_WAITING,  /* the attempt failed, and the step is tried again after a pause */
    TASK_DONE,     /* this run did the step, or adopted another controller's attempt */
    TASK_FAILED,   /* the step did not end well, and is not tried again; or its outcome is not known */
    TASK_LEFT      /* launch on MIN:MAX nodes: the node's part has ended, and the others go on */
};
/* Whether there is a connection to the node. */
enum presence {
    PRESENCE_ABSENT, /* the core has not asked to connect to the node */
    PRESENCE_COMING, /* rhrun connects to it, or greets it, for the first time */
    PRESENCE_LOST,   /* it was here; its connection has ended, and rhrun tries to connect again */
    PRESENCE_GONE,   /* it has failed (it could not be reached, was refused, or was given up) */
    PRESENCE_HERE,   /* it has answered the greeting: requests go out */
    PRESENCE_LISTED  /* the same, and it has listed its records */
};
static inline bool presence_is_here(enum presence p)
{
    return p >= PRESENCE_HERE;
}

/* Why an attempt did not end well: "exit status 3", "killed by signal 9 (Killed)", "timed out", ... cause: enum
 * wire_cause */
void run_cause_text(enum outcome outcome, uint32_t cause, int32_t value, char *ret, size_t size);
/* The set-up item with `on` that holds the step back, and a node on which that item is still to be done. NULL: no item
 * does. */
const struct plan_step *run_step_held(struct run *r, const struct plan_step *step, const char **ret_node);

/* ---- requests to a run ---- */
/* Stops the run in an orderly way (TERM, grace, KILL) and closes it as cancelled. A second call kills at once. signum
 * gives the exit status. */
void run_interrupt(struct run *r, int signum);
/* Leaves the run as it is: nothing is stopped; `finished` is called with status RUN_OPEN. */
void run_detach(struct run *r);

/* The latest run of the plan's variant, if its prolog, launch and epilog ended well and are those of the plan, and only
 * fetches are missing: a run with this plan opens that run again (RUN_REOPENED) and launches nothing. Else NULL. The
 * caller must check flags that ask for a new launch. */
const struct state_run *run_fetchable(const struct state *s, const struct plan *plan);
/* The state of point i of the plan in the run. */
struct run_point {
    bool running, over, failed, kept; /* failed and kept points are over */
    const uint32_t *nodes;            /* if it runs; the node of rank 0 comes first */
    uint32_t node_count;
    uint64_t started_ms;              /* of its launch on the first node; 0: not known */
};
void run_point(const struct run *r, uint32_t i, struct run_point *ret);
/* The latest value of a metric (its index in the spec) that the point has printed; false: there is none yet. */
bool run_point_metric(const struct run *r, uint32_t i, uint32_t metric, double *ret);
/* Whether the journal says that point i of the plan is done and its outputs were fetched. */
bool run_point_recorded(const struct state *s, const struct plan *plan, uint32_t i);
bool run_point_launched(const struct state *s, const struct plan *plan, uint32_t i); /* whether its launch is done */
/* The unfinished run that RUN_EXECUTE continues with this plan. NULL: there is none, or it cannot be continued, because
 * its plan differs, or because it may be at work on other nodes. */
const struct state_run *run_unfinished(const struct state *s, const struct plan *plan);

#endif
