/* What fetch.c (one step, one node) and outputs.c (all of them) ask of each other. */
#ifndef RHRUN_RUN_FETCH_H
#define RHRUN_RUN_FETCH_H

#include "rhrun/core.h"
#include "landing.h"

enum { FETCHES_MAX = 32 /* nodes at a time: each has files open */ };

enum fetch_end {
    FETCH_DONE,    /* all files are here */
    FETCH_EMPTY,   /* there was no file */
    FETCH_NOTHING, /* there was no file, and one had to be there */
    FETCH_BROKEN,  /* err says why */
};

/* Begins a fetch, or lets it wait for its turn; it replaces a live fetch of the same step. 0, or -1: it cannot be said
 * what is to be fetched, or where to. */
int fetch_start(struct run *r, const struct plan_step *step, uint32_t node, bool periodic, struct error *err);
/* In outputs.c: the fetch has ended. err: ERROR_NONE with FETCH_DONE. */
void outputs_fetched(struct run *r, const struct plan_step *step, uint32_t node, enum fetch_end how,
                     const struct error *err, bool periodic);
const char *outputs_result_dir(struct run *r, struct arena *arena, struct error *err); /* NULL and err */
bool fetch_lives(const struct lane *lane, const struct plan_step *step);

#endif
