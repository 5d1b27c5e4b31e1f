/*
 * The points of a sweep, as the journal has them: of one run, and of the spec file where that is what was named. Which
 * points a run is about is in the text of the spec that it was opened with; what became of them is in the cells.
 */
#ifndef RHRUN_CLI_POINTS_H
#define RHRUN_CLI_POINTS_H

#include "internal.h"

enum cli_point_state { /* in the order in which they are listed */
    POINT_HAS_FAILED,
    POINT_IS_RUNNING,
    POINT_IS_WAITING, /* for a place, or for a run that does it */
    POINT_IS_DONE,
    POINT_IS_KEPT,    /* done by an earlier run, and this one need not do it */
    POINT_STATES
};
/* A launch of a point: its parts, one on each of the point's nodes, and what they come to as one cell, which is that of
 * the only part where there is one. */
struct cli_launch {
    const struct state_cell *whole; /* that of rank 0 with the outcome, times, cause and metrics of all */
    const struct state_cell *const *parts;
    uint32_t count;
};
/* Of the launch that the cell is a part of. Lies in the arena. */
struct cli_launch cli_launch_of(const struct state *s, const struct state_cell *cell, struct arena *arena);

struct cli_point {
    const char *name, *id, *params; /* params: the swept ones, as JSON */
    const char *step;               /* of its launch: "point:ID" */
    const struct state_cell *cell;  /* of the latest launch as a whole; NULL: there was none */
    struct cli_launch launch;       /* its parts */
    enum cli_point_state state;
    bool of_run;                    /* the run is about it */
};
struct cli_points {
    struct cli_point *items;
    size_t count;
    size_t counts[POINT_STATES];
    bool chosen; /* by --point or -p; else all */
    const char *metric, *best, *value; /* of sweep.best: the best point's name, and its last value; NULL: none */
};
/* Those of the run, and with a spec file as the first word (that word is how the run was found) also those that the
 * file has now; of them what --point and -p choose. count 0: the run has no sweep. -1 and err (ERROR_USAGE): they
 * choose none. Lies in c->arena; cells are the journal's state's. */
int cli_points(struct cli *c, struct journal *j, const struct state_run *run, struct cli_points *ret,
               struct error *err);
/* --point of a spec that is not loaded yet becomes -p of all that is swept. -1 and err: there is no such point. */
int cli_narrow_to_point(struct cli *c, const char *path, struct error *err);
const char *cli_point_state_name(enum cli_point_state s); /* "done", ... */
bool cli_is_point_cell(const struct state_cell *cell); /* is it of a point, not of a step of all? */
/* Failed and running ones first, then in the spec's order. */
void cli_points_sort(struct cli_points *p);

/* ---- points_show.c ---- */
void cli_points_counts(const struct cli_points *p, struct buf *b); /* "57 of 60 points done, 3 failed", no line end */
/* At most so many rows; a row for each with its state, node, time, why it failed, last metrics. */
void cli_points_table(const struct state *s, const struct state_run *run, const struct cli_points *p, size_t most,
                      struct buf *b);
void cli_points_list(const struct state *s, const struct cli_points *p, struct buf *b); /* with run and params */
void cli_points_json(const struct state *s, const struct cli_points *p, struct buf *b); /* an array */

#endif
