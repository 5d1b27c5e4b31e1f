/*
 * core: what a run does next. Its state, one struct per run, lane (node), task (step on a node) and launch; and what
 * its hands (src/run) tell it, and read of it. What it wants of them is in effects.h.
 *
 * No file of src/core can name a node, a loop, a journal or a transport, nor read a clock: it links without them. A
 * hand takes in what it was told, changes what that touches, says what is due (run_due, run_touch), and returns. Nobody
 * calls the next one: run_turn runs the passes, once in a turn of the loop, in the order of enum due, until nothing new
 * comes out. The order is from set-up to the end of the run, so that what a pass makes so is seen by those behind it in
 * the same turn.
 */
#ifndef RHRUN_CORE_H
#define RHRUN_CORE_H

#include "rhrun/options.h"
#include "rhrun/step.h"

enum {
    STOP_GRACE_MS = 3000,    /* when a worker failed: TERM, this long, KILL; all stopped within 5 s */
    CANCEL_GRACE_MS = 10000, /* when the user asked */
    STOP_REACH_MS = 20000,   /* how long a stop waits for nodes that are away */
    RECONNECT_MS = 300000,   /* a node that is away for longer is lost */
    UNDONE_MAX = 20,         /* a set-up step whose result is gone so often has failed */
    IDLE_TRIES_MAX = 20,     /* a transfer that is cut off so often before anything was sent has failed */
    LATE_MS = 30000,         /* MIN:MAX nodes: a launch waits so long for one that was lost before it */
    LATE_AGAIN_MS = 1000,
    /* MIN:MAX nodes: a node that is left out is tried again after this, then after up to 6 times as long */
    JOIN_MS = 5000,
    LANE_SAID_MAX = 256 << 20, /* bytes of what a node says that are kept in memory at a time */
    LANE_RECORDS_MAX = 100000,
    LANE_CLAIMED_MAX = 10100, /* live attempts: one for each step that there can be */
    LANE_FAULTS_MAX = 100,
    ACK_BYTES = 1 << 20, /* output is made durable and acknowledged in such portions */
};

/* The controller's file of one attempt's spool; its size is the offset. */
struct run_log {
    struct run *run;
    const struct plan_step *step;
    uint32_t node;
    char attempt[WIRE_ID_LEN + 1];
    char *path;
    int fd;        /* -1 until the first byte */
    uint64_t base; /* offset of the file's first byte: 0 but where the node had freed what this file never got */
    uint64_t size; /* offset reached */
    uint64_t acked;
    uint64_t durable; /* acknowledged: the node keeps nothing below it */
    uint32_t gaps;
    bool syncing, failed; /* failed: a write did, so nothing may follow it */
    int sync_errno;
    struct watch *watch;
    bool quiet;          /* what is read again is shown to nobody */
    bool past;           /* nor does it go by the rules */
    struct watch *ready; /* the same lines from the log's beginning, where a step looks at them; else NULL */
};

/* What is so of the present attempt alone: nothing of it outlives the next one. */
struct attempt_marks {
    uint32_t sent_over; /* RUN or ATTACH went out over that connection of the lane's; 0 = over none */
    bool may_have_started; /* the node has said something of it */
    bool stop_wanted;
};

struct run_task {
    enum task_state state;
    bool decided; /* set-up: reconciled with the node's ledger in this process */
    struct attempt_marks marks;
    bool tallied;             /* sync: counted in its step's tally */
    bool coming;              /* of outputs: a fetch is under way, at the end or a periodic one */
    const char *trusted_boot; /* sync: in this boot the node's index of earlier transfers holds; NULL = in none */
    uint64_t files_done, files_total, bytes_done, bytes_total; /* of a transfer */
    uint64_t removed;
    uint32_t undone;     /* how often it was kept or done, and then did not hold: patches.c */
    uint32_t idle_tries; /* sync: cut off so often in a row without anything sent */
    uint32_t tries; /* attempts that failed in this run; more than its retries: no earlier controller could say so */
    char attempt[WIRE_ID_LEN + 1];
    struct run_log *log;
    struct ready *ready; /* of a step that looks at lines: see ready.c */
    struct alarm *retry;
    uint64_t started_ms, ended_ms;
    const char *reason; /* why it runs (again); NULL = never ran */
    bool general;       /* the reason holds for every node */
};

/* What a node has said, with its last greeting, of a path that a step creates, or of a tree. */
enum check {
    CHECK_UNASKED, /* nothing */
    CHECK_YES,     /* it is there, as the step left it */
    CHECK_NO,      /* it is not */
    CHECK_DOUBT    /* it was, and a set-up step that did not end well may have changed it since */
};

/* How far the set-up of a node is. */
enum lane_state {
    LANE_CONNECTING, /* it has not said yet what it holds */
    LANE_LISTED,     /* it has: journal and ledger are compared, and what nobody wants there is stopped */
    LANE_SETUP,      /* its steps are decided and done, one after the other */
    LANE_SETTLING,   /* all are done: what they wrote is being brought to its disk */
    LANE_BARRIER,    /* it waits for the others, or the launch runs */
    LANE_FAILED      /* it has no part in this run any more */
};

/* A live attempt on the node that is none of ours: it is stopped before the lane goes on. */
struct lane_orphan {
    char attempt[WIRE_ID_LEN + 1];
};

struct lane {
    struct run *run;
    uint32_t index;
    enum lane_state state;
    enum presence presence;
    const char *name;               /* what messages call it */
    const struct wire_facts *facts; /* NULL before it was here once */
    struct arena *arena; /* records of the last LIST */
    struct wire_record *records;
    size_t record_count, record_cap, claimed_count;
    uint64_t said_bytes;        /* of records, entries and states that are kept here: LANE_SAID_MAX at most */
    uint32_t connections;       /* that it has greeted over */
    uint32_t fault_notes;       /* on the present connection */
    uint8_t *creates, *trees;   /* per step: enum check */
    struct lane_patch *patches; /* see patches.c; their texts lie in `arena` */
    size_t patch_count, patch_cap;
    const char **stale;             /* per step: why what it changed does not hold; NULL = none has changed anything */
    uint32_t home_first, home_next; /* see homes.c */
    struct lane_orphan *orphans;
    size_t orphan_count;
    bool in_turn;            /* in run.touched */
    bool dirty;              /* something ran since the last settle */
    bool doubtful;           /* it came back during the launch: its set-up is looked at before the next generation */
    bool heard;              /* it was listed, or it failed */
    bool left_out;           /* the launch goes on without it, for now: see elastic.c */
    struct joining *joining; /* of one that was left out; else NULL */
    int64_t clock_ns;        /* controller's monotonic clock minus the node's, at most: see failed_at */
    struct alarm *away; /* until it counts as lost, where a rule asks for that; else NULL */
    struct error error;
};

/* What a turn looks at (turn.c), in its order. Whoever makes something so says it with run_due, and calls nothing of
 * it. */
enum due {
    DUE_STOP = 1 << 0,    /* the run has failed: what may not go on is stopped */
    DUE_ORDER = 1 << 1,   /* what was held back by an item on other nodes may go on */
    DUE_BARRIER = 1 << 2, /* a node has reached the barrier, or is not awaited there any more */
    DUE_PORT = 1 << 3,    /* the launch needs another port: preflight found that one taken */
    DUE_PROLOG = 1 << 4,  /* nothing keeps the launch back: the prolog, or the generation */
    DUE_LAUNCH = 1 << 5,  /* a part of prolog, launch or epilog has ended, durably, or is not awaited any more */
    DUE_PARTED = 1 << 6,  /* the launch is over, or something that was on its way to it has ended */
    DUE_RANK0 = 1 << 7,   /* a node has said whether rank 0 was there, or an output of its node is here */
    DUE_OUTPUTS = 1 << 8, /* an output is here, or is not to be had */
    DUE_END = 1 << 9     /* something has ended: perhaps it was the last that the end of the run waits for */
};

/* Where the run is. */
enum stage {
    STAGE_SETUP,      /* nodes are connected to and set up, until all stand at the barrier */
    STAGE_RESTARTING, /* a generation has failed: the pause before the next one */
    STAGE_AGAIN,      /* the barrier once more, for that one */
    STAGE_PORT,       /* the node of rank 0 is asked for free ports */
    STAGE_PREFLIGHT,  /* what may speak against the launch is looked at */
    STAGE_PROLOG,
    STAGE_LAUNCH,  /* a generation of workers */
    STAGE_EPILOG,
    STAGE_OUTPUTS, /* files come home */
    STAGE_CLOSING, /* RUN_CLOSED is on its way to the disk */
    STAGE_CLOSED
};

/* What failed first: a value. Whoever knows of a failure offers it; the earliest stays. */
struct cause {
    const struct plan_step *step; /* NULL: nothing failed */
    uint32_t node;
    uint64_t at_ns; /* on this machine's monotonic clock; 0: before all others; UINT64_MAX: behind them */
    enum outcome outcome;
    uint32_t cause; /* enum wire_cause */
    int32_t value;
    uint32_t rank, generation;
    bool has_rank;
    const char *tail;  /* what it wrote last; in the run's arena */
    const char *words; /* what happened, where no record tells it; else NULL */
};

/* Is the run in the journal? */
enum opening {
    OPENING_NOT,    /* it only looks, or has not begun */
    OPENING_PROBES, /* an unfinished run with another plan: nodes are asked before anything is opened */
    OPENING_DONE    /* RUN_OPENED is in the journal, now or before */
};

/* How the run ends, each stronger than the one before: it never goes back. */
enum ending {
    ENDING_NOT,       /* it goes on */
    ENDING_FAILED,    /* nothing new is started; it closes when nothing is in flight */
    ENDING_CANCELLED, /* asked for: what runs is stopped, epilog and outputs are not */
    ENDING_KILLED,    /* asked for twice: all is killed */
    ENDING_LET_GO     /* this controller goes, the run stays open: what runs runs on */
};

/* The generation of the launch at hand. */
enum launch_state {
    LAUNCH_GOES_ON,   /* or none has begun */
    LAUNCH_CONDEMNED, /* a part of it failed, or a rule said so: all of it is stopped, and perhaps starts again */
    LAUNCH_OVER       /* there will be no further one, and nobody joins this one */
};

/* What is started together, ends together and begins again together: prolog, a generation of workers, epilog, and what
 * is fetched behind them. What is of a launch and not of the run stands here; a run has a list of them, one today. */
struct launch {
    struct run *run;
    size_t first_step, end_step; /* its steps in the plan: all behind set-up; end_step is none of them */
    enum launch_state state;     /* of the generation at hand */
    uint32_t generation;         /* counted from 1; 0 = none has begun */
    const char *adopted;         /* the generation that was found on the nodes, by its name in their records; or NULL */
    char nonce[33];              /* random, of this generation; "" = of an older rhrun's */
    const char *master_addr;     /* where the workers meet, as all nodes reach it; NULL = not decided yet */
    uint32_t master_port;        /* on the plan's master; 0 = not known */
    uint32_t next_port;          /* asked for while a failed generation is being stopped; 0 = not known */
    uint32_t *role_ports;        /* by role, of those with a world of their own; 0 = not known */
    const char **role_addrs;     /* by role: its nodes' addresses, as RUN messages have them; heap; NULL = to be made */
    struct cause cause;          /* what failed first, of the generation at hand or of the prolog before it */
    struct rules *rules;         /* what they have counted, and the verdict: see rules.h; NULL = none */
    struct preflight *preflight; /* what was looked at before it: see preflight.c; NULL = nothing yet */
    struct rank0 *rank0;         /* see rank0.c; NULL = nothing was asked for yet */
    struct output_watch *watches; /* what comes home while it runs: see outputs.c; NULL = it has not run yet */
    size_t watch_count;
    struct error outputs_error; /* the first that keeps outputs from being here */
    uint32_t awaited;    /* a node that the barrier waited for when it was last looked at */
    struct alarm *pause; /* before a restart */
    struct alarm *late;  /* of MIN:MAX nodes, until it no longer waits for one that was lost: see elastic.c */
};

struct run {
    struct hands *hands; /* theirs alone: see src/run/internal.h */
    struct run_options options;
    struct plan *plan;
    const struct state *state;
    struct arena *arena;
    struct lane *lanes;
    struct run_task *tasks; /* [step * node_count + node] */
    uint32_t *done;         /* per step: nodes on which it is done or kept */
    bool *noted;            /* per step: a general reason was told */
    bool *voids;            /* per step: redone whatever is recorded, by this run's flags */
    char id[17];
    const char *work; /* names the working directory on the nodes */
    enum stage stage;
    uint32_t due;      /* enum due */
    uint32_t *touched; /* nodes that the next turn looks at: a ring of node_count */
    uint32_t touched_first, touched_count;
    struct alarm *turn;
    uint32_t connections;       /* that nodes have greeted over, in all */
    uint32_t homes_of;          /* homes.c knows them as of so many, less one; 0 = not yet */
    uint32_t unheard;           /* nodes that were never listed nor failed */
    uint32_t left_out_count;    /* lanes that are left out */
    struct holder *holders;     /* per step: see order.c; NULL until something may be held back */
    bool fetch_only; /* see reopen.c */
    bool patched;    /* a set-up step has changed files of a tree, or may have: patches.c has something to do */
    bool seeking; /* which working directory is current is not known yet: work.c sees it once all nodes have answered */
    enum opening opening;
    enum ending ending;
    int interrupt_signal;
    enum run_status fail_status;
    struct launch *launches; /* launch_count of them: one */
    size_t launch_count;
    struct alarm *stop_deadline;
    struct alarm *finisher;
    struct run_result result;
    struct cause cause; /* what failed first in set-up, perhaps only once: of no account once a generation begins */
    uint32_t failed_nodes;
    uint32_t *machines;      /* see machines.c */
    size_t machines_size, machines_used;
    struct plan_record *records; /* for run_records */
    struct awaited *awaited;     /* what waits for the journal: durable.c; a queue */
    size_t awaited_first, awaited_end, awaited_cap;
    void (*finished)(void *arg);
    void *arg;
};

/* ---- how it stands ---- */
/* The only one. With more of them each caller of this is to say which it means, or to ask all. */
static inline struct launch *run_launch(const struct run *r)
{
    return r->launches;
}
/* What the journal has of it, with all that was appended so far; NULL: nothing. */
static inline const struct state_run *run_recorded(const struct run *r)
{
    return state_run_find(r->state, r->id);
}
static inline struct launch *launch_of(const struct run *r, const struct plan_step *step) /* NULL: it is of set-up */
{
    for (size_t i = 0; i < r->launch_count; i++)
        if (step->id >= r->launches[i].first_step && step->id < r->launches[i].end_step)
            return &r->launches[i];
    return NULL;
}
/* There will be no further generation of any launch: set-up is for nothing now. */
static inline bool run_is_launched(const struct run *r)
{
    for (size_t i = 0; i < r->launch_count; i++)
        if (r->launches[i].state != LAUNCH_OVER)
            return false;
    return true;
}
/* Is it there, and has it said what it holds? */
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
/* Does it go on while a run is being cancelled? */
static inline bool step_outlives_stop(const struct plan_step *step)
{
    return step->kind->phase >= PHASE_EPILOG;
}
/* Is its tree asked for with each HELLO of this node? */
static inline bool step_checks_tree(const struct plan_step *step, uint32_t node)
{
    return step->kind->sync && step->tree && step->tree_name && step->tree_root && step->on[node];
}

/* ---- create.c ---- */
/* A run that has not begun. hands: whoever does what it wants has what it likes there. state: of the journal, or an
 * empty one; it is changed by run_append alone, and outlives the run. `finished` is called once. */
struct run *core_create(struct hands *hands, const struct run_options *options, const struct state *state,
                        void (*finished)(void *arg), void *arg);
void core_begin(struct run *r);   /* it was opened (run_open), and its nodes can be connected to */
void core_destroy(struct run *r); /* no connection may speak any more */

/* ---- inputs.c: what a node says, and the journal. Strings, records and lists are borrowed for the call; facts live
 * until the next READY or GONE of the node ---- */
enum input_kind {
    INPUT_READY,   /* it has answered the greeting: facts; again: it was here before, in this process */
    INPUT_LOST,    /* its connection has ended, and it is tried again: error */
    INPUT_GONE,    /* it could not be had, or is awaited no longer: error */
    INPUT_RECORD,  /* it has this record, of LIST, or of an attempt that it was asked to run and knows already */
    INPUT_LISTED,  /* that was all */
    INPUT_CHECKED, /* exists: of each path and tree that was asked for with the greeting, whether it is there */
    INPUT_PATCHED, /* state: what a set-up step left of a tree's files */
    INPUT_STARTED, /* the attempt runs */
    INPUT_BUSY,    /* the attempt was not begun: `live` runs in its slot */
    INPUT_ENDED,   /* an attempt has ended so: record */
    INPUT_SETTLED, /* what set-up wrote is on its disk; text: why it is not, or "" */
    INPUT_FAULT,   /* something is wrong with the attempt, or its record: text */
    INPUT_PORT,    /* this port was free: the answer to EFFECT_ASK_PORT with the token */
    INPUT_FETCHED, /* a fetch of step (EFFECT_FETCH) has ended: how, error, files and bytes that came; periodic */
    INPUT_RANK0,   /* the file of rank 0 is there, last changed at_ns; 0: it is not. The answer to EFFECT_ASK_RANK0 */
    INPUT_LOOKED,  /* step would bring so many files; sum is of what tells them from others. To EFFECT_LOOK */
    INPUT_DURABLE  /* of no node: the journal is on the disk up to the event with the number `seq` */
};
/* How a fetch ends. */
enum fetch_end {
    FETCH_DONE,      /* all files are here */
    FETCH_EMPTY,     /* there was no file */
    FETCH_NOTHING,   /* there was no file, and one had to be there */
    FETCH_BROKEN,    /* error says why; what is here is kept */
    FETCH_IMPOSSIBLE /* it has not begun: it cannot be said what is to be fetched, or where to; error says why */
};
struct input {
    enum input_kind kind;
    uint32_t node;
    bool again, periodic;
    enum fetch_end how;
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
const struct plan_step *lane_in_flight(const struct lane *lane, const char *attempt); /* NULL: it is none of ours */

/* ---- machines.c ---- */
/* False: another node of the plan is the same machine. */
bool machines_add(struct run *r, uint32_t node, struct error *err);

/* ---- turn.c: the order in which what has happened is looked at ---- */
void run_due(struct run *r, enum due due);
void run_turn(void *run);

/* ---- states.c: all that changes a state; what is no step in its table there ends the program ---- */
void run_set_stage(struct run *r, enum stage to);
void run_set_ending(struct run *r, enum ending to); /* a weaker one changes nothing */
void lane_set_presence(struct lane *lane, enum presence to);
void task_mark_sent(const struct lane *lane, struct run_task *t);
void task_set_state(struct run *r, struct run_task *t, enum task_state to);

/* ---- ending.c ---- */
struct run_task *run_task(struct run *r, const struct plan_step *step, uint32_t node);
bool task_in_flight(const struct run_task *t);
/* Nothing new is started; it closes when nothing is in flight. */
void run_fail(struct run *r, enum run_status status, const struct error *err);
void run_changed(struct run *r); /* something that the live view shows */
/* Ends rhrun, not the run: status 3, or 4 when it is held. */
void run_leave_open(struct run *r, const struct error *err);
void run_close(struct run *r, enum run_status status, int exit_status);
int run_exit_status(const struct run *r); /* by fail_status and the error */
void run_note(struct run *r, uint32_t node, const char *fmt, ...) FORMAT(3, 4);

/* ---- open.c ---- */
int run_open(struct run *r, struct error *err);
void run_look_end(struct run *r); /* of RUN_LOOK: what is looked at before a launch was looked at */

/* ---- decide.c ---- */
/* The launch, as the node's record of it names it; NULL: no record is here. */
const char *lane_launch(const struct lane *lane);

/* ---- patches.c: files of trees that set-up steps changed; they are expected as they were left ---- */
/* The files of a tree that are to be put back though they are as a step left them, in the arena. */
struct wire_strings patches_to_put_back(const struct lane *lane, const char *tree, struct arena *arena);
void patches_sent(struct lane *lane, const char *tree, const char *path); /* it is, or goes */

/* ---- work.c: which working directory ---- */
struct wire_strings work_trees(struct run *r, uint32_t node); /* of its CHECK, in the run's arena */

/* ---- attempts.c ---- */
void task_start_many(struct run *r, const struct plan_step *step, const uint32_t *nodes, size_t count,
                     uint32_t generation);
void task_stop(struct run *r, const struct plan_step *step, uint32_t node, enum wire_signal signal, uint32_t grace_ms);
void task_finish_as(struct run *r, const struct plan_step *step, uint32_t node, enum outcome outcome, const char *why);

/* ---- outputs.c ---- */
/* "1 of 9,001 files, 98.0 MB"; all: 0 = not told. */
void run_put_files(struct buf *b, uint64_t files, uint64_t all, uint64_t bytes);

/* ---- ready.c ---- */
bool ready_wanted(const struct run *r, const struct plan_step *launch, uint32_t node);
void ready_line(struct run *r, const struct plan_step *launch, uint32_t node, const struct watch_line *line);
void ready_begin(struct run *r, const struct plan_step *step, uint32_t node);

/* ---- parts.c: one step of the launch; then all that belong to it ---- */
/* Every node's part of the generation ended well; of MIN:MAX nodes, enough of them. */
bool launch_over(struct launch *l);

/* ---- launch.c ---- */
/* The generation at hand was found on the nodes: this run has started none. */
bool launch_is_adopted(const struct launch *l);
bool launch_has_begun(struct launch *l); /* anything of it was started, or adopted */

/* ---- elastic.c: MIN:MAX nodes ---- */
/* Something speaks against the node: is it left out, because enough others are left? This process does not try it
 * again. */
bool elastic_bar(struct launch *l, uint32_t node, const struct error *err);
void elastic_join(struct launch *l); /* all of them: the run came a step further */
void elastic_checked(struct launch *l, uint32_t node); /* nothing speaks against that it joins */
void elastic_wait(struct launch *l, uint32_t node); /* it was not to be told: a little later */

/* ---- rules.c: failure rules and metrics ---- */
void rules_line(struct launch *l, const struct plan_step *step, uint32_t node, const struct watch_line *line);
void rules_end(struct launch *l, const struct plan_step *step, uint32_t node, const struct wire_worker_end *end);

#endif
