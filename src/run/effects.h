/*
 * effects: what a run wants done to the world. Files that decide (they include decide.h) say it as data and know
 * neither connection nor loop nor journal; effects.c is the one place that does it: at once, in the order in which they
 * are said.
 *
 * Alarms are the run's timers: one shot each, their functions take in that it is time and say what is due, as any
 * input.
 */
#ifndef RHRUN_RUN_EFFECTS_H
#define RHRUN_RUN_EFFECTS_H

#include "rhrun/wire.h"

struct run;
struct lane;
struct alarm;

enum effect_kind {
    EFFECT_CONNECT,    /* the node is tried anew, as if it had never been here; it is coming */
    EFFECT_GREET,      /* it is greeted again for another working directory (work, trees), as if it were new */
    EFFECT_GIVE_UP,    /* it is awaited no longer: it is gone at its next loss, or at once where it is lost */
    EFFECT_REFUSE,     /* it says what no agent says (error): it is gone for good */
    EFFECT_ATTACH,     /* the attempt's output from `offset` on, and its end, are asked for */
    EFFECT_SIGNAL,     /* the attempt gets `signal`, and KILL after grace_ms */
    EFFECT_JUDGE_GOOD, /* its record there says that it counts as a good end; then the end comes again */
    EFFECT_SETTLE,     /* what set-up wrote there is brought to the disk */
    EFFECT_FORGET,     /* records of `attempts` are not needed any more */
    EFFECT_ASK_PORT    /* a free port there; the answer has the `token` */
};

struct effect { /* strings and lists are borrowed for the call; those of GREET must live as long as the run */
    enum effect_kind kind;
    uint32_t node;
    const char *attempt;
    uint64_t offset, token;
    enum wire_signal signal;
    uint32_t grace_ms;
    const struct wire_strings *attempts, *trees;
    char *work;
    const struct error *error;
};

void run_effect(struct run *r, const struct effect *e);
void run_signal(struct run *r, uint32_t node, const char *attempt, enum wire_signal signal, uint32_t grace_ms);
void run_refuse(struct lane *lane, const struct error *err);

struct alarm *alarm_create(struct run *r, void (*fn)(void *arg), void *arg);
void alarm_destroy(struct alarm *a); /* takes NULL; also inside its own function */
void alarm_set(struct alarm *a, uint64_t after_ms); /* again: moves it; 0 = in the next turn of the loop */
void alarm_clear(struct alarm *a);
bool alarm_is_set(const struct alarm *a);
uint64_t alarm_left_ms(const struct alarm *a); /* 0: it is not set, or time */

#endif
