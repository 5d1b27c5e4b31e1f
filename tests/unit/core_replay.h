/*
 * Plays a trace (src/run/trace.h) on a core alone: builds plan and state from its first lines, gives the core the
 * recorded inputs in order, and compares its requests with the recorded ones, line by line. Clocks, chance and answers
 * come from the trace.
 *
 * A file has a part for each traced run. A part without `end` was killed: requests after its last line are not
 * compared.
 */
#ifndef RHRUN_TEST_CORE_REPLAY_H
#define RHRUN_TEST_CORE_REPLAY_H

#include "rhrun/core.h"
#include "rhrun/effects.h"

#include <string.h>

struct replay_log {
    struct run_log log;
    struct replay_log *next;
};
struct hands { /* of the present part */
    struct replay *replay;
    struct run *run;
    struct state *state;
    struct alarm **alarms; /* by number; NULL: destroyed */
    size_t alarm_count, alarm_cap;
    struct replay_log *logs;
};
enum { REPLAY_FINDINGS_MAX = 64 };
struct replay {
    const char *name;
    const char **lines;
    size_t count, at;    /* at: the next one, from 0 */
    size_t parts, ended; /* parts that were begun; parts that reached `end` */
    struct arena *arena; /* as long as the replay */
    struct buf fault;    /* expected and actual line; empty: no difference */
    bool cut;            /* the part is over, without `end` */
    struct run_finding findings[REPLAY_FINDINGS_MAX]; /* of the next input */
    size_t finding_count;
    struct hands *hands; /* NULL: between parts */
};

/* Plays the text. False: ret has the difference. */
bool replay_text(const char *name, const char *text, struct replay *ret);
void replay_free(struct replay *p);

/* ---- core_replay.c ---- */
bool replay_stands(const struct replay *p); /* playing has stopped: there is a difference, or the part is cut */
const char *replay_peek(struct replay *p);  /* the next line of the part; NULL: there is none, or playing has stopped */
void replay_differs(struct replay *p, const char *came); /* from the next line */
/* A request of the core: compares it with the next line. Returns the answer in that line, or "". NULL: playing has
 * stopped. */
const char *replay_ask(struct replay *p, const char *fmt, ...) FORMAT(2, 3);
/* An input that the hands gave during a request; returns the answer, or NULL. */
const char *replay_told(struct replay *p);
struct event *replay_event(struct replay *p, const char *line); /* "> event {...}" */
void replay_quote(struct buf *b, const char *text); /* a blank and the text, as in a trace */
/* ---- core_replay_hands.c ---- */
void replay_own_event(struct replay *p, const struct event *e); /* one that the hands appended */
/* "fire"; "set", "clear": by the hands */
void replay_alarm(struct replay *p, const char *verb, uint64_t number);
void replay_hands_free(struct hands *h);

#endif
