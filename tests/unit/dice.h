/*
 * What the tests under random faults share: numbers that a seed decides, a number of faults that may happen, and an account
 * of what did, which a violated invariant prints.
 */
#ifndef RHRUN_TEST_DICE_H
#define RHRUN_TEST_DICE_H

#include "sim_job.h"

struct dice {
    uint64_t seed, rng;
    uint32_t faults; /* that are left */
    uint32_t controllers;
    bool verbose;
    struct buf log;
};

/* Calls one for each seed, with dice that have not been thrown yet; `count` of them unless the environment says otherwise. */
void dice_seeds(uint64_t count, void (*one)(const struct dice *dice));

uint64_t dice_next(struct dice *d);
bool dice_chance(struct dice *d, unsigned percent);
bool dice_fault(struct dice *d, unsigned percent); /* one of the faults that are left */
/* Does one of them meet this frame? freeze: how many of 100 stop the connection for good without a word. */
enum sim_fault dice_frame(struct dice *d, uint32_t node, enum wire_type type, unsigned percent, unsigned freeze);
void dice_say(struct dice *d, const char *fmt, ...) FORMAT(2, 3);
void dice_say_event(struct dice *d, const struct event *e);
void dice_violated(const struct dice *d, const char *fmt, ...) FORMAT(2, 3); /* fails the test */

#endif
