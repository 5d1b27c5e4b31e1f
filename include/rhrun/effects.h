/*
 * effects: all that the core (rhrun/core.h) wants of the world, declared here and done in src/run. Whoever fills this
 * header steps a run without nodes, loop and journal.
 *
 * What is to be done to a node is data, struct effect: it is done at once, in the order in which it is said. An event
 * (run_append) is applied to the state at once, so that the next pass sees it; what must not happen before it is
 * durable waits in the core for INPUT_DURABLE.
 *
 * Alarms are the run's timers: one shot each, their functions take in that it is time and say what is due, as any
 * input.
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
    EFFECT_CONNECT,    /* the node is tried anew, as if it had never been here; it is coming */
    EFFECT_GREET,      /* it is greeted again for another working directory (work, trees), as if it were new */
    EFFECT_GIVE_UP,    /* it is awaited no longer: it is gone at its next loss; where it is lost, soon */
    EFFECT_REFUSE,     /* it says what no agent says (error): it is gone for good */
    EFFECT_ATTACH,     /* the attempt's output from `offset` on, and its end, are asked for */
    EFFECT_SIGNAL,     /* the attempt gets `signal`, and KILL after grace_ms */
    EFFECT_JUDGE_GOOD, /* its record there says that it counts as a good end; then the end comes again */
    EFFECT_SETTLE,     /* what set-up wrote there is brought to the disk */
    EFFECT_FORGET,     /* records of `attempts` are not needed any more */
    EFFECT_ASK_PORT,   /* a free port there; the answer has the `token` */
    EFFECT_FETCH,      /* what `step` brings home from there is fetched, in place of an older fetch of the step; its end
                          is INPUT_FETCHED, later. A fetch ends with its connection, without a word */
    EFFECT_FETCH_STOP, /* the fetch of `step` is dropped, without a word; what is here is kept */
    EFFECT_ASK_RANK0,  /* is the file there that the launcher leaves where rank 0 is? INPUT_RANK0 has the `token` */
    EFFECT_LOOK        /* what would `step` bring from there? INPUT_LOOKED has the `token` */
};

struct effect { /* strings and lists are borrowed for the call; those of GREET must live as long as the run */
    enum effect_kind kind;
    uint32_t node;
    bool periodic; /* of FETCH: while the launch runs */
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
/* "0 attach \"9f...\" 120", as traces have it (src/run/trace.h). Of the core itself. */
void effect_text(const struct effect *e, struct buf *ret);
void run_signal(struct run *r, uint32_t node, const char *attempt, enum wire_signal signal, uint32_t grace_ms);
void run_refuse(struct lane *lane, const struct error *err);

struct alarm *alarm_create(struct run *r, void (*fn)(void *arg), void *arg);
void alarm_destroy(struct alarm *a); /* takes NULL; also inside its own function */
void alarm_set(struct alarm *a, uint64_t after_ms); /* again: moves it; 0 = in the next turn of the loop */
void alarm_clear(struct alarm *a);
bool alarm_is_set(const struct alarm *a);
uint64_t alarm_left_ms(const struct alarm *a); /* 0: it is not set, or time */

/* ---- effects.c ---- */
uint64_t run_wall_ms(const struct run *r); /* what time it is: since 1970 */
uint64_t run_mono_ns(const struct run *r); /* on a clock that nobody sets */
void run_chance(struct run *r, char *ret, size_t bytes); /* so many random bytes, as hex and a NUL */
/* Appends the event, and fills in its run, time and number. INPUT_DURABLE comes once it is durable; the observer hears
 * of it just before. */
void run_append(struct run *r, struct event *e);

/* ---- view.c ---- */
void run_facts_json(const struct wire_facts *facts, struct buf *ret);

/* ---- room.c: what one node may take of this machine ---- */
/* More is kept in memory of what it says. -1 and err: too much. */
int room_say(struct lane *lane, uint64_t bytes, struct error *err);

/* ---- transfer.c ---- */
void transfer_stop(struct lane *lane); /* nothing more is sent: it ended, or its connection did */
void transfer_trust(struct lane *lane, const struct plan_step *step,
                    bool trust); /* the node's index holds, in its present boot */
void transfer_tally(struct run *r, const struct plan_step *step, uint32_t node); /* kept or done there */

/* ---- overrides.c ---- */
/* "it was started with --on a, not with --set x=1": how what the run was started with differs from what the spec was
 * loaded with; NULL: in nothing, or the journal does not say. */
const char *overrides_difference(const struct spec *spec, const struct state_run *run, struct arena *arena);
/* The ways to go on with an unfinished run that this is not. */
void overrides_hint(const struct spec *spec, const struct state_run *run, struct arena *arena, struct error *err);

/* ---- send.c ---- */
void task_send(struct run *r, const struct plan_step *step, uint32_t node);

/* ---- strangers.c ---- */
/* Has this journal never heard of the attempt? False too where it cannot be read. */
bool run_is_stranger(struct run *r, const char *attempt);

/* ---- preflight.c ---- */
bool preflight_begin(struct launch *l); /* asks the nodes; false: there is nothing to ask before this launch */
bool preflight_joins(struct launch *l,
                     uint32_t node); /* before a node joins a launch that runs: true: it is asked first, or must wait */
void preflight_lost(struct launch *l); /* a connection was */
void preflight_again(struct launch *l); /* all nodes are there: what was lost is asked again */
void preflight_setup_changed(struct launch *l); /* on some node; it is looked at again before the next generation */

/* ---- log.c ---- */
struct run_log *log_open(struct run *r, const struct plan_step *step, uint32_t node, const char *attempt);
void log_close(struct run_log *log); /* takes NULL */
void log_end(struct run_log *log);
void log_again(struct run_log *log); /* all of it goes by the rules once more */

/* ---- metrics.c ---- */
struct metrics;
struct metrics *metrics_create(struct run *r);
void metrics_destroy(struct metrics *m);
void metrics_begin(struct metrics *m); /* counts begin anew */
void metrics_add(struct metrics *m, uint32_t metric, uint32_t rank, double value);
void metrics_flush(struct metrics *m); /* what changed goes to the journal */

#endif
