/* What fetch.c (one step, one node) and outputs.c (all of them) say to each other. */
#ifndef RHRUN_RUN_FETCH_H
#define RHRUN_RUN_FETCH_H

#include "rhrun/core.h"
#include "landing.h"

enum { FETCHES_MAX = 32 /* nodes at a time: each has files open */ };

enum fetch_end {
    FETCH_DONE,    /* all of it is here */
    FETCH_EMPTY,   /* there was nothing */
    FETCH_NOTHING, /* there was nothing, and something had to be */
    FETCH_BROKEN,  /* err says why */
};

/* Begins, or waits for its turn; replaces one of the same step that lives. 0, or -1: what and where to cannot be
 * told. */
int fetch_start(struct run *r, const struct plan_step *step, uint32_t node, bool periodic, struct error *err);
/* outputs.c: it has ended. err: NONE with FETCH_DONE */
void outputs_fetched(struct run *r, const struct plan_step *step, uint32_t node, enum fetch_end how,
                     const struct error *err, bool periodic);
const char *outputs_result_dir(struct run *r, struct arena *arena, struct error *err); /* NULL and err */
bool fetch_lives(const struct lane *lane, const struct plan_step *step);

#endif
