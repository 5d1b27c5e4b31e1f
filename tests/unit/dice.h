/*
 * Shared by the tests under random faults: numbers that a seed decides, a limited number of faults, and a record of the
 * faults, which a violated invariant prints.
 */
#ifndef RHRUN_TEST_DICE_H
#define RHRUN_TEST_DICE_H

#include "sim_job.h"

struct dice {
    uint64_t seed, rng;
    uint32_t faults; /* faults left */
    uint32_t controllers;
    bool verbose;
    struct buf log;
};

/* Calls fn for each seed, with fresh dice; `count` seeds unless the environment says otherwise. */
void dice_seeds(uint64_t count, void (*one)(const struct dice *dice));

uint64_t dice_next(struct dice *d);
bool dice_chance(struct dice *d, unsigned percent);
bool dice_fault(struct dice *d, unsigned percent); /* uses one of the faults that are left */
/* The fault that meets this frame, if any. freeze: the percentage of faults that freeze the connection for good. */
enum sim_fault dice_frame(struct dice *d, uint32_t node, enum wire_type type, unsigned percent, unsigned freeze);
void dice_say(struct dice *d, const char *fmt, ...) FORMAT(2, 3);
void dice_say_event(struct dice *d, const struct event *e);
void dice_violated(const struct dice *d, const char *fmt, ...) FORMAT(2, 3); /* fails the test */

#endif
