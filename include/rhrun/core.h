/*
 * core: decides what a run does next. This header has the state of a run, with one struct each for run, lane (node),
 * task (step on a node) and launch; the inputs that the hands (src/run) give to the core; and the functions with which
 * they read its state. effects.h has what the core asks of its hands.
 *
 * No file of src/core can name a node, a loop, a journal or a transport, or read a clock: the module links without
 * them. A function that a hand calls takes its input, changes the state that the input touches, says which passes are
 * due (run_due, run_touch) and returns. It does not call the next decision itself: once in a turn of the loop run_turn
 * runs the passes, in the order of enum due, until none is due. The order goes from set-up to the end of the run, so
 * that later passes see, in the same turn, the changes of an earlier pass.
 */
#ifndef RHRUN_CORE_H
#define RHRUN_CORE_H

#include "rhrun/options.h"
#include "rhrun/step.h"

enum {
    STOP_GRACE_MS = 3000,    /* a worker failed: TERM, this pause, KILL; all workers are stopped within 5 s */
    CANCEL_GRACE_MS = 10000, /* the same, if the user asked for the stop */
    STOP_REACH_MS = 20000,   /* how long a stop waits for nodes that are away */
    RECONNECT_MS = 300000,   /* a node that is away for longer is lost */
    BOOT_MS = 20000,         /* sshd of a rented machine may refuse connections for this long after it has answered */
    UNDONE_MAX = 20,         /* a set-up step whose result has been lost this often has failed */
    IDLE_TRIES_MAX = 20,     /* a transfer that is cut off this often before anything was sent has failed */
    LATE_MS = 30000,         /* MIN:MAX nodes: how long a launch waits for a node that was lost before it */
    LATE_AGAIN_MS = 1000,
    /* MIN:MAX nodes: a node that is left out is tried again after this pause, then after longer pauses, up to 6 times
     * as long */
    JOIN_MS = 5000,
    LANE_SAID_MAX = 256 << 20, /* bytes of one node's messages that are kept in memory at a time */
    LANE_RECORDS_MAX = 100000,
    LANE_CLAIMED_MAX = 10100, /* live attempts of a node: one for each of 10,000 set-up steps, and some more */
    LANE_FAULTS_MAX = 100,
    ACK_BYTES = 1 << 20, /* output is made durable and acknowledged in such portions */
};

/* The controller's copy of one attempt's spool, in a file. The file's size says up to which offset of the spool it
 * goes. */
struct run_log {
    struct run *run;
    const struct plan_step *step;
    uint32_t node;
    char attempt[WIRE_ID_LEN + 1];
    char *path;
    int fd;         /* -1 until the first byte */
    uint64_t base;  /* offset of the file's first byte; not 0 if the node had freed bytes that this file never got */
    uint64_t size;  /* offset up to which the file goes */
    uint64_t acked; /* durable, or being synced, up to here */
    uint64_t durable; /* acknowledged up to here: the node may have freed the bytes before */
    uint32_t gaps;
    bool syncing, failed; /* failed: a write failed, so nothing may follow it */
    int sync_errno;
    struct watch *watch;
    bool quiet;          /* lines that are read again are not shown */
    bool past;           /* the rules do not see such lines either */
    struct watch *ready; /* sees the same lines from the log's beginning if a step waits for one; else NULL */
};

/* Marks of one attempt of a task: the next attempt begins with all of them unset. */
struct attempt_marks {
    uint32_t sent_over;    /* RUN or ATTACH went out over the lane's connection with this number; 0 = over none */
    bool may_have_started; /* the node has said something of the attempt */
    bool stop_wanted;
};

struct run_task {
    enum task_state state;
    bool decided; /* set-up: this process has compared the step with the node's ledger */
    struct attempt_marks marks;
    bool tallied;             /* sync: the step's tally has it */
    bool coming;              /* of an output: a fetch is under way, the final one or a periodic one */
    const char *trusted_boot; /* sync: boot in which the node's index of its files can be trusted; NULL = none */
    uint64_t files_done, files_total, bytes_done, bytes_total; /* of a transfer or fetch */
    uint64_t removed;
    uint32_t undone;     /* how often the step was kept or done, and its result did not hold later: patches.c */
    uint32_t idle_tries; /* sync: how often in a row the transfer was cut off without having sent anything */
    /* attempts that failed in this run; retries + 1: an earlier controller saw the last failure, and died before it
     * could fail the run */
    uint32_t tries;
    char attempt[WIRE_ID_LEN + 1];
    struct run_log *log;
    struct ready *ready; /* of a step that waits for a line: see ready.c */
    struct alarm *retry;
    uint64_t started_ms, ended_ms;
    const char *reason; /* why the step runs (again); NULL = it never ran */
    bool general;       /* the reason holds for every node */
};

/* What a node said in its last greeting about a path that a step creates, or about a tree that a step brings. */
enum check {
    CHECK_UNASKED, /* the node was not asked */
    CHECK_YES,     /* it is there as the step left it */
    CHECK_NO,      /* it is not there, or not as the step left it */
    CHECK_DOUBT    /* it was as the step left it; a set-up step that failed may have changed it since */
};

/* How far a node is on its way to the launch. */
enum lane_state {
    LANE_CONNECTING, /* the node has not listed its records yet */
    LANE_LISTED,     /* it has listed them: journal and ledger are compared, and unwanted attempts are stopped */
    LANE_SETUP,      /* the steps of set-up are decided and done, one after the other */
    LANE_SETTLING,   /* all steps are done: the node is syncing their files to its disk */
    LANE_BARRIER,    /* the node waits for the others, or the launch runs */
    LANE_FAILED      /* the node takes no part in the run, for good or for now */
};

/* Outputs with `every` of a node whose machine is to be given up. */
enum saving {
    SAVING_NOT,
    SAVING_WAITS, /* a fetch is under way that began before the workers ended */
    SAVING_ASKED  /* the last fetches were asked for; when none of them is under way any more, all files are here */
};

/* A live attempt on the node that does not belong to this run: it is stopped before the lane goes on. */
struct lane_orphan {
    char attempt[WIRE_ID_LEN + 1];
};

struct lane {
    struct run *run;
    uint32_t index;
    enum lane_state state;
    enum presence presence;
    const char *name;               /* as messages call the node */
    const struct wire_facts *facts; /* NULL until the node has answered a greeting */
    struct arena *arena;            /* of the records of the last LIST */
    struct wire_record *records;
    size_t record_count, record_cap, claimed_count;
    uint64_t said_bytes;        /* bytes of its records, entries and states that are kept here; at most LANE_SAID_MAX */
    uint32_t connections;       /* over which the node has answered the greeting */
    uint32_t listed_over;       /* the number of the connection over which it last listed its records; 0 = none */
    uint32_t fault_notes;       /* on the present connection */
    uint8_t *creates, *trees;   /* per step: enum check, of what it creates and of its tree */
    struct lane_patch *patches; /* see patches.c; their texts lie in `arena` */
    size_t patch_count, patch_cap;
    /* per step: why the files that it changed do not hold, or NULL; the array is NULL while no step has changed
     * files */
    const char **stale;
    uint32_t home_first, home_next; /* see homes.c */
    struct lane_orphan *orphans;
    size_t orphan_count;
    bool in_turn;            /* in run.touched */
    bool dirty;              /* a step ran since the last settle */
    bool doubtful;           /* its set-up must be checked before the next part of a launch begins there */
    bool heard;              /* the node was listed, or has failed */
    bool replacing;          /* its rented machine is given up, and another one was asked for: see replaced.c */
    enum saving saving;      /* outputs are fetched once more before its machine is given up: see outputs.c */
    bool left_out;           /* the launch goes on without this node, for now: see elastic.c */
    bool holds_points;       /* points that an earlier controller began there wait for its set-up: see points.c */
    struct joining *joining; /* how a node that was left out joins again; else NULL */
    int64_t clock_ns;        /* controller's monotonic clock minus the node's, at most: see failed_at */
    struct alarm *away;      /* when this alarm goes off the node counts as lost; NULL if no rule decides that */
    struct error error;
};

/* The passes of a turn (turn.c), in this order. A function that causes something says so with run_due, and does not
 * call the code that follows from it. */
enum due {
    DUE_STOP = 1 << 0,    /* the run has failed: everything that must not go on is stopped */
    DUE_ORDER = 1 << 1,   /* steps that an item on other nodes held back may go on now */
    DUE_BARRIER = 1 << 2, /* a node has reached the barrier, or is not awaited there any more */
    DUE_PORT = 1 << 3,    /* the launch needs another port: preflight found its port taken */
    DUE_PROLOG = 1 << 4,  /* preflight found nothing that prevents the launch: prolog or generation may start */
    DUE_LAUNCH = 1 << 5,  /* a part of prolog, launch or epilog has durably ended, or is not awaited any more */
    DUE_PARTED = 1 << 6,  /* the launch is over, or a step that led to it has ended */
    DUE_RANK0 = 1 << 7,   /* a node has said whether it had rank 0, or an output of rank 0's node has been fetched */
    DUE_OUTPUTS = 1 << 8, /* an output has been fetched, or cannot be fetched */
    DUE_END = 1 << 9      /* something has ended, perhaps the last thing for which the end of the run waits */
};

/* How far the run is. */
enum stage {
    STAGE_SETUP,      /* nodes are being connected and set up, until all of them are at the barrier */
    STAGE_RESTARTING, /* a generation has failed: the pause before the next one */
    STAGE_AGAIN,      /* the barrier once more, before the next generation */
    STAGE_PORT,       /* the node of rank 0, and those of roles with a world of their own, are asked for free ports */
    STAGE_PREFLIGHT,  /* the nodes are checked for reasons not to launch */
    STAGE_PROLOG,
    STAGE_LAUNCH, /* a generation of workers */
    STAGE_EPILOG,
    STAGE_OUTPUTS, /* files are fetched */
    STAGE_CLOSING, /* RUN_CLOSED is on its way to the disk */
    STAGE_CLOSED
};

/* What failed first. Code that learns of a failure offers a value (cause_offer); the earliest value stays. */
struct cause {
    const struct plan_step *step; /* NULL: nothing failed */
    uint32_t node;
    uint64_t at_ns; /* on this machine's monotonic clock; 0: before all others; UINT64_MAX: after all others */
    enum outcome outcome;
    uint32_t cause; /* enum wire_cause */
    int32_t value;
    uint32_t rank, generation;
    bool has_rank;
    const char *tail;  /* what the failed worker or step wrote last; in the run's arena */
    const char *words; /* what happened, if no record says it; else NULL */
};

/* Whether the journal has the run. */
enum opening {
    OPENING_NOT,    /* the run only looks at the nodes, or has not begun */
    OPENING_PROBES, /* another run is unfinished, with another plan: nodes are asked about it first */
    OPENING_DONE    /* RUN_OPENED is in the journal, by this controller or an earlier one */
};

/* How the run ends. Each member is stronger than the one before, and the run never goes back to a weaker one. */
enum ending {
    ENDING_NOT,       /* the run goes on */
    ENDING_FAILED,    /* nothing new is started; the run closes when nothing is in flight */
    ENDING_CANCELLED, /* the user asked for it: everything that runs is stopped, except epilog and outputs */
    ENDING_KILLED,    /* the user asked twice: everything is killed */
    ENDING_LET_GO     /* this controller ends, and the run stays open: attempts on the nodes go on */
};

/* The state of the launch's present generation. */
enum launch_state {
    LAUNCH_GOES_ON,   /* the generation runs, or none has begun */
    LAUNCH_CONDEMNED, /* a part of it failed, or a rule failed it: all parts are stopped, and perhaps start again */
    LAUNCH_OVER       /* there will be no further generation, and no node joins this one */
};

/* A launch is a group of steps that start together, end together and begin again together: prolog, a generation of
 * workers, epilog, and the fetches after them. The struct has the state that belongs to the launch and not to the run.
 * A run has a list of launches, which today has one item. */
struct launch {
    struct run *run;
    size_t first_step, end_step; /* its steps in the plan, all after set-up; end_step is the first beyond */
    enum launch_state state;     /* of the present generation */
    uint32_t generation;         /* the present one, counted from 1; 0 = none has begun */
    const char *adopted;         /* name, in the nodes' records, of a generation that was found there; else NULL */
    char nonce[33];              /* random, of this generation; "" = a generation of an older rhrun */
    const char *master_addr;     /* where the workers meet, as all nodes reach it; NULL = not decided yet */
    uint32_t master_port;        /* on the node that the plan calls master; 0 = not known */
    uint32_t next_port;          /* of the next generation, asked for while this one is being stopped; 0 = not known */
    uint32_t *role_ports;        /* by role, for roles with a world of their own; 0 = not known */
    /* by role: its nodes' addresses, as RUN messages have them; heap; NULL = not made yet */
    const char **role_addrs;
    struct cause cause;          /* what failed first in the present generation, or in the prolog before it */
    struct rules *rules;         /* what failure rules have counted, and their verdict: rules.h; NULL = none */
    struct preflight_state *preflight; /* what was checked before the launch: preflight.c; NULL = nothing yet */
    struct rank0 *rank0;               /* see rank0.c; NULL = no node was asked yet */
    /* outputs that are fetched while it runs: outputs.c; NULL = it has not run yet */
    struct output_watch *watches;
    size_t watch_count;
    struct error outputs_error; /* the first error that prevented a fetch of outputs */
    uint32_t awaited;           /* the node for which the barrier waited when it was last checked */
    struct alarm *pause;        /* before a restart */
    struct alarm *late; /* MIN:MAX nodes: ends the wait for a node that was lost before the launch: elastic.c */
};

struct run {
    struct hands *hands; /* the core never looks inside: see src/run/internal.h */
    struct run_options options;
    struct plan *plan;
    const struct state *state;
    struct arena *arena;
    struct lane *lanes;
    struct run_task *tasks; /* [step * node_count + node] */
    uint32_t *done;         /* per step: number of nodes on which it is done or kept */
    bool *noted;            /* per step: the user was told of a reason that holds for all nodes */
    bool *voids;            /* per step: this run's flags ask for it to be done again, whatever is recorded */
    char id[17];
    const char *work; /* the name of the working directory on the nodes */
    enum stage stage;
    uint32_t due;      /* enum due */
    uint32_t *touched; /* nodes that the next turn looks at: a ring of node_count entries */
    uint32_t touched_first, touched_count;
    struct alarm *turn;
    uint32_t connections;    /* over which a node has answered the greeting, of all nodes */
    uint32_t homes_of;       /* homes.c has the groups of homes_of - 1 connections; 0 = none yet */
    uint32_t unheard;        /* number of nodes that were not listed and have not failed yet */
    uint32_t left_out_count; /* number of lanes that are left out */
    struct holder *holders;  /* per step: see order.c; NULL until a step may be held back */
    bool fetch_only;         /* the run only fetches: see reopen.c */
    bool patched;            /* a set-up step has changed files of a tree, or may have: patches.c must check */
    bool seeking;            /* the current working directory is known only once all nodes have answered: work.c */
    enum opening opening;
    enum ending ending;
    int interrupt_signal;
    enum run_status fail_status;
    struct points *points;   /* of a sweep: see points.c; NULL: there is none */
    struct launch *launches; /* an array of launch_count, which is one; in a sweep it has no steps */
    size_t launch_count;
    struct alarm *stop_deadline;
    struct alarm *finisher;
    struct run_result result;
    struct cause cause; /* of set-up, even if it went well later: counts only until a generation begins */
    uint32_t failed_nodes;
    uint32_t *machines; /* see machines.c */
    size_t machines_size, machines_used;
    struct plan_record *records; /* for run_records */
    struct awaited *awaited;     /* queue of actions that wait until an event is durable: durable.c */
    size_t awaited_first, awaited_end, awaited_cap;
    void (*finished)(void *arg);
    void *arg;
};

/* ---- the state of a run ---- */
/* The run's launch. If there were several, each caller would have to say which one it means, or ask all. */
static inline struct launch *run_launch(const struct run *r)
{
    return r->launches;
}
/* The journal's record of the run, with all events that were appended so far. NULL: there is none. */
static inline const struct state_run *run_recorded(const struct run *r)
{
    return state_run_find(r->state, r->id);
}
/* The launch that the step belongs to. NULL: it is a step of set-up. */
static inline struct launch *launch_of(const struct run *r, const struct plan_step *step)
{
    for (size_t i = 0; i < r->launch_count; i++)
        if (step->id >= r->launches[i].first_step && step->id < r->launches[i].end_step)
            return &r->launches[i];
    return NULL;
}
/* Whether no launch will have a further generation. Then set-up is of no use any more. */
static inline bool run_is_launched(const struct run *r)
{
    for (size_t i = 0; i < r->launch_count; i++)
        if (r->launches[i].state != LAUNCH_OVER)
            return false;
    return true;
}
/* Whether the lane has the records that the node listed over its latest connection. The next greeting drops them. */
static inline bool lane_has_listed(const struct lane *lane)
{
    return lane->listed_over == lane->connections;
}
/* Whether the node is connected and has listed its records. */
static inline bool lane_is_ready(const struct lane *lane)
{
    return lane->presence == PRESENCE_LISTED;
}
static inline bool run_is_cancelled(const struct run *r)
{
    return r->ending == ENDING_CANCELLED || r->ending == ENDING_KILLED;
}
static inline bool run_is_stopping(const struct run *r)
{
    return r->ending == ENDING_FAILED || run_is_cancelled(r);
}
/* Whether the step goes on while the run is being cancelled. */
static inline bool step_outlives_stop(const struct plan_step *step)
{
    return step->kind->phase >= PHASE_EPILOG;
}
/* Whether each HELLO asks this node for the step's tree. */
static inline bool step_checks_tree(const struct plan_step *step, uint32_t node)
{
    return step->kind->sync && step->tree && step->tree_name && step->tree_root && step->on[node];
}

/* ---- create.c ---- */
/* Creates a run that has not begun. hands: the core keeps the pointer for them. state: the journal's, or an empty one;
 * only run_append changes it, and it must outlive the run. `finished` is called once. */
struct run *core_create(struct hands *hands, const struct run_options *options, const struct state *state,
                        void (*finished)(void *arg), void *arg);
void core_begin(struct run *r);   /* after run_open, and once effects can reach the nodes */
void core_destroy(struct run *r); /* after the hands have ended all connections */

/* ---- inputs.c: what a node says, and the journal ---- */
/* Strings, records and lists are borrowed for the call; facts live until the next READY or GONE of the node. */
enum input_kind {
    INPUT_READY,   /* the node has answered the greeting: facts; again: it had done so before, in this process */
    INPUT_LOST,    /* the node's connection has ended, and is tried again: error */
    INPUT_GONE,    /* the node has failed (it could not be reached, was refused, or was given up): error */
    INPUT_VANISHED, /* the renting side says that the node's machine is gone; inputs of its connection may still come */
    INPUT_MACHINE,  /* the node has another machine, to which the core must connect */
    INPUT_RECORD,  /* the node has this record: from LIST, or of an attempt that it was asked to run and already knew */
    INPUT_LISTED,  /* all records have come */
    INPUT_CHECKED, /* exists: for each path and tree that the greeting asked for, whether it is there */
    INPUT_PATCHED, /* state: the files of a tree as a set-up step left them */
    INPUT_STARTED, /* the attempt runs */
    INPUT_BUSY,    /* the attempt was not begun: `live` runs in its slot */
    INPUT_ENDED,   /* an attempt has ended as its record says: record */
    INPUT_SETTLED, /* the files of set-up are on the node's disk; text: why they are not, or "" */
    INPUT_FAULT,   /* something is wrong with the attempt, or with its record: text */
    INPUT_PORT,    /* this port was free: the answer to the EFFECT_ASK_PORT with this token */
    INPUT_FETCHED, /* a fetch of `step` (EFFECT_FETCH) has ended: how, error, number of files and bytes; periodic */
    INPUT_RANK0,   /* EFFECT_ASK_RANK0 is answered: at_ns: when the file of rank 0 was last changed; 0: there is none */
    INPUT_LOOKED,  /* EFFECT_LOOK is answered: `step` would fetch `files` files; sum: a digest of them */
    /* EFFECT_PREFLIGHT or EFFECT_PREFLIGHT_JOIN is answered: findings, which are reasons not to launch, or not to let
     * the node join. port_taken: the port where the workers should meet is taken, so the core must ask for another one;
     * there are then no findings */
    INPUT_FINDINGS,
    INPUT_INSTALLED, /* the packages of the role's Python (slot; NULL: the job's) on the node: text, a JSON object */
    INPUT_DURABLE /* not from a node: the journal is durable up to the event with the number `seq` */
};
/* How a fetch ends. */
enum fetch_end {
    FETCH_DONE,      /* all files are here */
    FETCH_EMPTY,     /* there was no file */
    FETCH_NOTHING,   /* there was no file, and one had to be there */
    FETCH_BROKEN,    /* error says why; files that were fetched are kept */
    FETCH_IMPOSSIBLE /* the fetch did not begin, because its source or target is not known; error says why */
};
struct input {
    enum input_kind kind;
    uint32_t node;
    bool again, periodic, port_taken;
    enum fetch_end how;
    const struct run_finding *findings;
    size_t finding_count;
    const struct plan_step *step;
    const struct wire_facts *facts;
    const struct error *error;
    const struct wire_record *record;
    const struct wire_sync_state *state;
    const uint8_t *exists;
    uint32_t count, port;
    uint64_t token, seq, files, bytes, sum, at_ns;
    const char *attempt, *live, *slot, *text;
};
void core_take(struct run *r, const struct input *in);
/* The step of this attempt, which is in flight on the node. NULL: no task of ours has it. */
const struct plan_step *lane_in_flight(const struct lane *lane, const char *attempt);

/* ---- machines.c ---- */
/* The node has sent its facts. False: another node of the plan is the same machine. */
bool machines_add(struct run *r, uint32_t node, struct error *err);

/* ---- turn.c: the order of the passes ---- */
void run_due(struct run *r, enum due due); /* the pass runs in this turn, or soon */
void run_turn(void *run);                  /* an alarm's function: runs all passes that are due */

/* ---- states.c: all changes of states; a change that is not in the table there ends the program ---- */
void run_set_stage(struct run *r, enum stage to);
void run_set_ending(struct run *r, enum ending to); /* does nothing if the run's ending is stronger already */
void lane_set_presence(struct lane *lane, enum presence to);
void task_mark_sent(const struct lane *lane, struct run_task *t); /* over the lane's present connection */
void task_set_state(struct run *r, struct run_task *t, enum task_state to);

/* ---- ending.c ---- */
struct run_task *run_task(struct run *r, const struct plan_step *step, uint32_t node);
bool task_in_flight(const struct run_task *t); /* STARTING, HELD, RUNNING or STOPPING */
/* Nothing new is started; the run closes when nothing is in flight. */
void run_fail(struct run *r, enum run_status status, const struct error *err);
void run_changed(struct run *r); /* to be called when something has changed that the live view shows */
/* Ends rhrun with exit status 3, or 4 for ERROR_HELD, but does not end the run. */
void run_leave_open(struct run *r, const struct error *err);
void run_close(struct run *r, enum run_status status, int exit_status); /* `finished` comes once that is durable */
int run_exit_status(const struct run *r);                               /* by fail_status and the error of `result` */
/* Journals a line for the user. node: the node that the line is about, or EVENT_NODE_NONE. */
void run_note(struct run *r, uint32_t node, const char *fmt, ...) FORMAT(3, 4);

/* ---- open.c ---- */
/* Opens the run in the journal, or resumes one. -1 and err: the run must not be opened; the journal is unchanged. */
int run_open(struct run *r, struct error *err);
void run_look_end(struct run *r); /* RUN_LOOK: its preflight is over */

/* ---- points.c ---- */
/* The values with which the point of this step was started: its restarts so far, its port, place (from 0) and nodes. */
struct point_bind {
    uint32_t tries, port, place;
    const uint32_t *nodes; /* the node of rank 0 comes first */
    uint32_t node_count;
};
struct point_bind point_bind(const struct run *r, const struct plan_step *step);
uint32_t point_bind_part(const struct run *r, const struct plan_step *step, uint32_t node); /* index of node in nodes */
/* The name that the nodes' records have for the launch of the step's point on several nodes: the attempt of its first
 * part. NULL: the step has no such launch. */
const char *point_launch_name(const struct run *r, const struct plan_step *step);
void point_line(struct run *r, const struct plan_step *step, uint32_t node,
                const struct watch_line *line); /* a worker there printed it */
/* The latest value of a metric of the spec that a point of the plan has printed, as far as this process has seen it. */
bool point_metric(const struct run *r, uint32_t point, uint32_t metric, double *ret);

/* ---- decide.c ---- */
/* The name of the launch in the node's record of it; NULL: there is no record here. */
const char *lane_launch(const struct lane *lane);

/* ---- patches.c: files of trees that set-up steps changed ---- */
/* The files of a tree that must be sent again, although the node has them as a step left them; in the arena. */
struct wire_strings patches_to_put_back(const struct lane *lane, const char *tree, struct arena *arena);
void patches_sent(struct lane *lane, const char *tree, const char *path); /* the file was sent, or removed */

/* ---- work.c: which working directory ---- */
struct wire_strings work_trees(struct run *r, uint32_t node); /* the trees in CHECK for this node; in the run's arena */

/* ---- attempts.c ---- */
/* Draws an attempt for each of these nodes and appends STARTED; RUN goes out once that is durable. generation: of
 * workers; 0 for all other steps. */
void task_start_many(struct run *r, const struct plan_step *step, const uint32_t *nodes, size_t count,
                     uint32_t generation);
/* Asks the attempt on the node to end: `signal`, then KILL after grace_ms. An attempt not sent yet ends at once. */
void task_stop(struct run *r, const struct plan_step *step, uint32_t node, enum wire_signal signal, uint32_t grace_ms);
/* The attempt has ended, and this controller decides how, because there is no record. why: for the journal, or NULL. */
void task_finish_as(struct run *r, const struct plan_step *step, uint32_t node, enum outcome outcome, const char *why);

/* ---- outputs.c ---- */
/* Appends "1 of 9,001 files, 98.0 MB". all: 0 = the total is left out. */
void run_put_files(struct buf *b, uint64_t files, uint64_t all, uint64_t bytes);

/* ---- ready.c: roles that are ready when their output says so ---- */
/* Whether a step waits for a line that this part of the launch prints on the node. */
bool ready_wanted(const struct run *r, const struct plan_step *launch, uint32_t node);
void ready_line(struct run *r, const struct plan_step *launch, uint32_t node, const struct watch_line *line);
void ready_begin(struct run *r, const struct plan_step *step, uint32_t node);

/* ---- parts.c: the steps of a launch ---- */
/* Whether every node's part of the generation has ended well; with MIN:MAX nodes: whether enough parts have. */
bool launch_over(struct launch *l);

/* ---- launch.c ---- */
/* The present generation was found on the nodes: this run has started none. */
bool launch_is_adopted(const struct launch *l);
bool launch_has_begun(struct launch *l); /* some part of the launch was started, or adopted */

/* ---- elastic.c: MIN:MAX nodes ---- */
/* err says why the node cannot take part. True: the launch goes on without the node, because enough others are left,
 * and this process does not try the node again. */
bool elastic_bar(struct launch *l, uint32_t node, const struct error *err);
void elastic_join(struct launch *l); /* the run made progress: nodes that were left out join if they can */

/* ---- rules.c: failure rules and metrics ---- */
/* A worker of this part of the launch printed a line, or has ended: the rules decide what follows. */
void rules_line(struct launch *l, const struct plan_step *step, uint32_t node, const struct watch_line *line);
void rules_end(struct launch *l, const struct plan_step *step, uint32_t node, const struct wire_worker_end *end);

#endif
