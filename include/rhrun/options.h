/*
 * options: how a run is asked for, and what it says of itself: the words that its decisions (src/core), its hands
 * (src/run) and those who only look at it (src/cli) share.
 */
#ifndef RHRUN_OPTIONS_H
#define RHRUN_OPTIONS_H

#include "rhrun/plan.h"
#include "rhrun/state.h"
#include "rhrun/watch.h"

struct run;

enum run_mode {
    RUN_EXECUTE, /* bring the job to done */
    RUN_VERIFY,  /* the job is done: compare set-up with the nodes' ledgers, start nothing */
    RUN_CANCEL,  /* stop what an unfinished run left on the nodes, close it as cancelled */
    RUN_LOOK,    /* read-only HELLO: collect records and facts for `plan` and `doctor` */
};

/* What speaks against a launch: found by what is looked at before it. */
struct run_finding {
    const char *what;      /* "ports", "clocks", "disk", "gpus", "versions": the key of `preflight`; "machines" */
    enum error_code code;  /* what it ends the run with; ERROR_NONE: it is only noted */
    const uint32_t *nodes; /* that it is about: without them it would not be. Ascending */
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

struct run_observer {
    void (*event)(void *arg, const struct event *e);       /* durable */
    void (*line)(void *arg, const struct run_line *line);
    void (*changed)(void *arg);                            /* something the live view shows has changed */
    /* All lines of the attempt's log file up to byte `to` were given out, but those without an end yet: the earliest of
     * them begins in the record at `from` (`to`: there is none). */
    void (*place)(void *arg, const struct plan_step *step, const char *attempt, uint64_t from, uint64_t to);
    void *arg;
};

struct run_options {
    enum run_mode mode;
    bool preflight; /* RUN_LOOK: what is looked at before a launch is looked at too, see run_findings */
    struct plan *plan;
    bool recorded;           /* the session has a journal: run_create says so */
    const char *owner_name;  /* user@host */
    uint32_t flags;          /* enum run_flag, for a newly opened run */
    const char *from_step;
    bool take_over, replace;
    uint32_t liveness_ms;    /* 0 = default */
    uint64_t reconnect_ms;   /* 0 = default */
    uint64_t late_ms;        /* how long a launch on MIN:MAX nodes waits for one that was lost before it; 0 = 30 s */
    uint64_t join_ms;        /* until one that is left out of such a launch is tried again, at first; 0 = 5 s */
    uint32_t hello_ms, backoff_ms; /* of struct node_options; 0 = default */
    const char *test_boot_id; /* test hook */
    struct tree_store *store; /* of the files that steps bring to nodes; NULL where none does */
    struct run_observer observer;
};

struct run_result {
    enum run_status status;  /* RUN_OPEN: interrupted without being closed (detach) */
    int exit_status;
    bool nothing_to_do;
    char run_id[17];
    struct error error;      /* when exit_status is not 0: what to say */
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

/* ---- how it stands ---- */
/* A step on one node. */
enum task_state {
    TASK_PENDING,  /* it is not begun: it is not its turn, or nobody has looked yet whether it is to be done */
    TASK_KEPT,     /* an earlier run did it, and it holds */
    TASK_STARTING, /* an attempt is decided, its STARTED is not durable yet: nothing went out */
    TASK_HELD,     /* of prolog or launch: an earlier controller decided it, it never began, and awaits the barrier */
    TASK_RUNNING,  /* its attempt goes out, or is on the node; for a fetch: files are under way */
    TASK_STOPPING, /* as running, and it was asked to end */
    TASK_WAITING,  /* it failed, and is tried again after a pause */
    TASK_DONE,     /* this run did it, or adopted it */
    TASK_FAILED,   /* it ended otherwise, for good; or nobody knows how */
    TASK_LEFT      /* of a launch on MIN:MAX nodes: it has ended, and the others go on */
};
/* Is its node to be talked to? */
enum presence {
    PRESENCE_ABSENT, /* nobody has asked for it */
    PRESENCE_COMING, /* it is connected to, or greeted, and was not here before */
    PRESENCE_LOST,   /* it was here, its connection has ended, and it is tried again */
    PRESENCE_GONE,   /* it could not be had, or is awaited no longer */
    PRESENCE_HERE,   /* it has answered the greeting: requests go out */
    PRESENCE_LISTED  /* and has said what it holds */
};
static inline bool presence_is_here(enum presence p)
{
    return p >= PRESENCE_HERE;
}

/* The item of set-up with `on` that holds the step back, and a node on which it is still to be done; NULL: none
 * does. */
const struct plan_step *run_step_held(struct run *r, const struct plan_step *step, const char **ret_node);

/* ---- what is asked of it ---- */
/* Stops in order (TERM, grace, KILL), closes the run as cancelled. Again: KILL at once. signum gives the exit
 * status. */
void run_interrupt(struct run *r, int signum);
/* Lets go: journal synced, nothing stopped; finished is called with status RUN_OPEN. */
void run_detach(struct run *r);

/* The latest run of the plan's variant, where its launch and what is around it have ended well as the plan means them,
 * and what is missing of the plan is only to be fetched: a run with this plan opens it again (RUN_REOPENED) and
 * launches nothing. Or NULL. Not where a flag asks for a new launch. */
const struct state_run *run_fetchable(const struct state *s, const struct plan *plan);
/* The unfinished run that RUN_EXECUTE takes up with this plan. NULL: there is none, or it is another one, as its plan
 * is another, or as it may be at work on other nodes. */
const struct state_run *run_unfinished(const struct state *s, const struct plan *plan);

#endif
