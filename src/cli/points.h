/*
 * The points of a sweep, from the journal: of one run, and of the spec file if the command names one. The points of a
 * run are in the text of the spec that it was opened with; the cells say how each point stands.
 */
#ifndef RHRUN_CLI_POINTS_H
#define RHRUN_CLI_POINTS_H

#include "internal.h"

enum cli_point_state { /* in the order of the list */
    POINT_HAS_FAILED,
    POINT_IS_RUNNING,
    POINT_IS_WAITING, /* for a place, or for a run */
    POINT_IS_DONE,
    POINT_IS_KEPT,    /* done by an earlier run; this one need not repeat it */
    POINT_STATES
};
/* A launch of a point: its parts, one on each of the point's nodes, and one cell for the whole. With a single part
 * `whole` is the part's cell. */
struct cli_launch {
    const struct state_cell *whole; /* rank 0's cell, with the outcome, times, cause and metrics of all */
    const struct state_cell *const *parts;
    uint32_t count;
};
/* The launch that the cell is a part of; in the arena. */
struct cli_launch cli_launch_of(const struct state *s, const struct state_cell *cell, struct arena *arena);

struct cli_point {
    const char *name, *id, *params; /* params: the swept ones, as JSON */
    const char *step;               /* of its launch: "point:ID" */
    const struct state_cell *cell;  /* of the latest launch as a whole; NULL: none yet */
    struct cli_launch launch;       /* its parts */
    enum cli_point_state state;
    bool of_run;                    /* it is one of the run's points */
};
struct cli_points {
    struct cli_point *items;
    size_t count;
    size_t counts[POINT_STATES];
    bool chosen; /* by --point or -p; else all points */
    const char *metric, *best, *value; /* of sweep.best: the best point's name, and its last value; NULL: none */
};
/* The points of the run that --point and -p choose. If the command's first word is a spec file (so the run was found by
 * it), also the file's present points. count 0: the run has no sweep. -1 and err (ERROR_USAGE): the options choose
 * none. Points are in c->arena; cells belong to the journal's state. */
int cli_points(struct cli *c, struct journal *j, const struct state_run *run, struct cli_points *ret,
               struct error *err);
/* Turns --point into -p of all swept params, for a spec that is not loaded yet. -1 and err: there is no such point. */
int cli_narrow_to_point(struct cli *c, const char *path, struct error *err);
const char *cli_point_state_name(enum cli_point_state s); /* "done", ... */
bool cli_is_point_cell(const struct state_cell *cell); /* of a point, not of a step for all points */
/* Failed and running ones first, then in the spec's order. */
void cli_points_sort(struct cli_points *p);

/* ---- points_show.c ---- */
void cli_points_counts(const struct cli_points *p, struct buf *b); /* "57 of 60 points done, 3 failed", no line end */
/* At most `most` rows, one for each point: state, node, time, why it failed, last metrics. */
void cli_points_table(const struct state *s, const struct state_run *run, const struct cli_points *p, size_t most,
                      struct buf *b);
void cli_points_list(const struct state *s, const struct cli_points *p, struct buf *b); /* with run and params */
void cli_points_json(const struct state *s, const struct cli_points *p, struct buf *b); /* an array */

#endif
