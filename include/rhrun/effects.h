/*
 * effects: everything that the core (rhrun/core.h) asks of the world. The functions are declared here and implemented
 * in src/run. A test that implements this header can step a run without nodes, loop and journal.
 *
 * An action on a node is data, struct effect; it is done at once, in the order in which the core asks for it. An event
 * (run_append) is applied to the state at once, so that the next pass sees it; whatever must not happen before the
 * event is durable waits in the core for INPUT_DURABLE.
 *
 * Alarms are the run's timers, one shot each. An alarm's function changes the state and says which passes are due, as
 * any input does.
 */
#ifndef RHRUN_EFFECTS_H
#define RHRUN_EFFECTS_H

#include "rhrun/state.h"
#include "rhrun/wire.h"

struct alarm;
struct lane;
struct launch;
struct plan_step;
struct run;
struct run_log;

enum effect_kind {
    EFFECT_CONNECT,    /* connects to the node as if for the first time; it is COMING */
    EFFECT_GREET,      /* greets the node again for another working directory (work, trees), as if it were new */
    /* the run no longer waits for the node: it is GONE after its next loss, or soon if it is lost now */
    EFFECT_GIVE_UP,
    EFFECT_REPLACE,    /* gives up the node's machine and rents another one: the connection is dropped, and not tried
                        * again. INPUT_MACHINE comes when the new machine is ready; INPUT_GONE if there is none */
    EFFECT_REFUSE,     /* the node sent something that no agent sends (error): it is GONE for good */
    EFFECT_ATTACH,     /* asks for the attempt's output from `offset` on, and for its end */
    EFFECT_SIGNAL,     /* sends the attempt `signal`, and KILL after grace_ms */
    EFFECT_JUDGE_GOOD, /* makes the attempt's record say that its end counts as a good one; then the end comes again */
    EFFECT_SETTLE,     /* syncs the files of set-up to the node's disk */
    EFFECT_FORGET,     /* the records of `attempts` are not needed any more */
    EFFECT_ASK_PORT,   /* asks for a free port; the answer (INPUT_PORT) has the `token` */
    /* checks all nodes that take part for reasons not to launch; replaces an older check. The answer (INPUT_FINDINGS,
     * with the `token`) comes later; if a connection is lost meanwhile, it may never come */
    EFFECT_PREFLIGHT,
    EFFECT_PREFLIGHT_JOIN, /* the same for `node`, which should join the launch in which `member` takes part */
    /* fetches the files of `step` from the node; replaces an older fetch of the step. INPUT_FETCHED reports the end,
     * later. A fetch ends with its connection, and then no input reports that */
    EFFECT_FETCH,
    EFFECT_FETCH_STOP, /* drops the fetch of `step` without an input; files that were fetched are kept */
    EFFECT_ASK_RANK0,  /* asks for the file that marks the node of rank 0; INPUT_RANK0 has the `token` */
    EFFECT_LOOK        /* asks which files `step` would fetch from the node; INPUT_LOOKED has the `token` */
};

struct effect { /* strings and lists are borrowed for the call; those of GREET must live as long as the run */
    enum effect_kind kind;
    uint32_t node, member; /* node: 0 for PREFLIGHT; member: of PREFLIGHT_JOIN */
    bool periodic;         /* FETCH: while the launch runs */
    const struct plan_step *step;
    const char *attempt;
    uint64_t offset, token;
    enum wire_signal signal;
    uint32_t grace_ms;
    const struct wire_strings *attempts, *trees;
    char *work;
    const struct error *error;
};

void run_effect(struct run *r, const struct effect *e);
/* "0 attach \"9f...\" 120": the effect in the form of traces (src/run/trace.h). The core itself has this function. */
void effect_text(const struct effect *e, struct buf *ret);
void run_signal(struct run *r, uint32_t node, const char *attempt, enum wire_signal signal, uint32_t grace_ms);
void run_refuse(struct lane *lane, const struct error *err);

struct alarm *alarm_create(struct run *r, void (*fn)(void *arg), void *arg);
void alarm_destroy(struct alarm *a); /* takes NULL; also inside the alarm's own function */
/* If the alarm is already set, its time changes. after_ms: 0 = in the next turn of the loop. */
void alarm_set(struct alarm *a, uint64_t after_ms);
void alarm_clear(struct alarm *a);
bool alarm_is_set(const struct alarm *a);
uint64_t alarm_left_ms(const struct alarm *a); /* 0: it is not set, or its time has come */

/* ---- effects.c ---- */
uint64_t run_wall_ms(const struct run *r);               /* the wall clock: since 1970 */
uint64_t run_mono_ns(const struct run *r);               /* the monotonic clock, which nobody sets */
void run_chance(struct run *r, char *ret, size_t bytes); /* this many random bytes, as hex digits and a NUL */
/* Appends the event, and fills in its run, time and number. INPUT_DURABLE comes once the event is durable; the observer
 * hears of the event just before. */
void run_append(struct run *r, struct event *e);

/* ---- view.c ---- */
void run_facts_json(const struct wire_facts *facts, struct buf *ret);

/* ---- room.c: how much of this machine one node may use ---- */
/* `bytes` more of the node's messages are kept in memory. -1 and err: that is too much. */
int room_say(struct lane *lane, uint64_t bytes, struct error *err);

/* ---- transfer.c ---- */
void transfer_stop(struct lane *lane); /* nothing more is sent: the transfer has ended, or its connection has */
/* trust: whether the node's index of its files can be trusted in its present boot. */
void transfer_trust(struct lane *lane, const struct plan_step *step, bool trust);
/* The step is kept or done on the node. When it is so on all its nodes, the user is told how much was sent. */
void transfer_tally(struct run *r, const struct plan_step *step, uint32_t node);

/* ---- overrides.c ---- */
/* "it was started with --on a, not with --set x=1": how the options with which the run was started differ from those
 * with which the spec was loaded now. NULL: they do not differ, or the journal does not have them. */
const char *overrides_difference(const struct spec *spec, const struct state_run *run, struct arena *arena);
/* Gives err a hint: how to continue an unfinished run that differs from this one. */
void overrides_hint(const struct spec *spec, const struct state_run *run, struct arena *arena, struct error *err);

/* ---- send.c ---- */
/* Sends the task's attempt to the node. If the node is not ready, reconcile.c sends it later. */
void task_send(struct run *r, const struct plan_step *step, uint32_t node);

/* ---- strangers.c ---- */
/* True: the attempt is not in this journal. False also if the journal cannot be read. */
bool run_is_stranger(struct run *r, const char *attempt);

/* ---- log.c ---- */
/* The controller's copy of the attempt's output; lines that the copy already has are not given out again. */
struct run_log *log_open(struct run *r, const struct plan_step *step, uint32_t node, const char *attempt);
void log_close(struct run_log *log); /* takes NULL */
void log_end(struct run_log *log);   /* the attempt has ended: gives out a last line that has no end, too */
void log_again(struct run_log *log); /* gives all lines to the rules once more */

/* ---- metrics.c ---- */
struct metrics;
struct metrics *metrics_create(struct run *r);
void metrics_destroy(struct metrics *m);
void metrics_begin(struct metrics *m); /* a generation begins: all values are forgotten */
void metrics_add(struct metrics *m, uint32_t metric, uint32_t rank, double value);
void metrics_flush(struct metrics *m); /* values that have changed go to the journal */

#endif
