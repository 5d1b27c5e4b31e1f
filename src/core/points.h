/*
 * The points of a sweep. Each point is a launch on as many nodes as distributed.nnodes says, in most cases one. Its key
 * is made of its inputs, so its record counts in any later run. The nodes, and the place on a node, are chosen when the
 * point begins, and are in no key. Between set-up and the end of such a run there are no stages: a node at the barrier
 * takes points, one for each of its places, and each point goes on independently.
 *
 * The launch of a point has a part on each of its nodes. All parts are in one STARTED event, so the journal has all of
 * them or none. If a part does not end well, the others are stopped. When all parts have ended, their cells together
 * say how the launch has ended (point_outcome), to this process and to a later one. A part's place is free when the
 * part has ended. A point begins only if there is a place for each part, so no point holds a place while it waits for
 * another.
 */
#ifndef RHRUN_CORE_POINTS_H
#define RHRUN_CORE_POINTS_H

#include "internal.h"

#define POINT_NO_NODE UINT32_MAX

enum { PLACES_MAX = 65536 }; /* of a node */

enum point_state {
    POINT_WAITS,   /* for a place */
    POINT_ASKS,    /* it has a place; its node is asked for a free port */
    POINT_RUNS,    /* its launch is in flight on `node` */
    POINT_FETCHES, /* the launch has ended, and files are being fetched */
    POINT_DONE,
    POINT_FAILED, /* in this run; the next one tries again */
};

struct point {
    enum point_state state;
    bool kept;       /* DONE: an earlier run did it */
    bool good;       /* FETCHES: the launch ended well */
    uint32_t *nodes; /* one for each part, ascending: rank 0 is on the first. Not set while the point WAITS */
    /* the place on its node, from 0, while it has one. A point on several nodes has each node to itself */
    uint32_t place;
    uint32_t port;   /* 0: none */
    uint32_t tries;  /* launches that failed in this run */
    uint32_t undone; /* launches in this run that left no outcome */
    struct cause cause; /* what failed first in the latest launch, as far as this process has seen it */
};

struct points {
    uint32_t parts;      /* of a launch: the number of nodes of each point */
    struct point *items; /* as plan->points */
    uint32_t next;       /* no point before this one waits */
    uint32_t running, over, failed;
    uint32_t broken;     /* parts that did not end well since the others of their launches were last stopped */
    uint8_t **taken;     /* per node, a bit for each place that is taken. NULL: none was taken yet */
    uint32_t *used;      /* per node: how many places are taken */
    uint32_t *at;        /* per node: the point that was placed there last */
    uint32_t *room;      /* of find_free */
    bool met;            /* points_meet has run, and has nothing left to do */
    bool taken_over;     /* points_meet has taken over launches that still run */
    struct point_slot *slots;      /* sorted: see point_records.c */
    struct point_metrics *metrics; /* NULL: the spec has none */
};

/* ---- points.c ---- */
const struct plan_step *point_launch(const struct run *r, uint32_t i);
uint32_t point_most_tries(const struct run *r); /* how many launches may fail before the last one */
/* The number of the node's part of the point, from 0; POINT_NO_NODE: it has none. */
uint32_t point_part(const struct run *r, uint32_t i, uint32_t node);
/* The place may be beyond the existing ones: a point stays where an earlier controller put it. */
void point_take_place(struct run *r, uint32_t node, uint32_t place);
uint32_t point_free_place(const struct points *p, uint32_t node);
void point_set_state(struct run *r, uint32_t i, enum point_state to);
void point_put_on(struct run *r, uint32_t i); /* from now on its steps run on its nodes */
/* A step of the point begins again, after it was on another node. */
void point_reset(struct run *r, const struct plan_step *step, uint32_t node);
/* Whether a launch that ended in this way counts as a failure. */
bool point_has_failed(const struct run *r, uint32_t i, enum outcome outcome);

/* ---- point_records.c ---- */
/* How the point's latest launch has ended, by the cells of all parts. NONE: not all have ended. STOPPED: it was only
 * stopped, or never began. UNKNOWN: a part has no outcome, and others may have failed because of that. */
enum outcome point_outcome(const struct run *r, uint32_t i);
/* Of the parts that failed, the one that ended first, by the journal's clock; NULL: none failed. */
const struct state_cell *point_failure(const struct run *r, uint32_t i);
struct point_slot *point_slots_create(const struct run *r);

/* ---- point_metrics.c; all take NULL ---- */
struct point_metrics *point_metrics_create(struct run *r);
void point_metrics_destroy(struct point_metrics *m);
void point_metrics_begin(struct point_metrics *m, uint32_t point); /* a launch begins: there are no values yet */
/* The metrics of the workers on that node of the point; NULL: there are none. */
const char *point_metrics_json(const struct run *r, uint32_t point, uint32_t node, struct arena *arena);

/* ---- point_text.c ---- */
/* The names of points that failed, as many as there is room for. At least one has failed; returns the first. */
uint32_t points_put_failed(struct run *r, struct buf *b);
/* The hint is a command, ready to paste, that prints the point's output; a name that is long or cannot be printed is
 * replaced by the point's id. */
void point_hint_logs(const struct run *r, uint32_t i, const char *what, const char *more, struct error *err);

#endif
