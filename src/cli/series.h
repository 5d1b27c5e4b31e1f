/*
 * The numbers that the workers of a run printed, one by one. They are read from the logs that are kept of the run, with
 * the metrics of the spec that it was opened with: so nothing is recorded twice, and what a kill left in a log is all
 * there is.
 */
#ifndef RHRUN_CLI_SERIES_H
#define RHRUN_CLI_SERIES_H

#include "internal.h"

struct series_point {
    uint32_t metric;     /* index in series.metrics */
    uint32_t generation; /* of the launch, from 1; of a point: which of its attempts in the run */
    const char *point;   /* of a sweep: its name; NULL: there is none */
    uint32_t node;
    uint32_t rank;       /* of the worker; WIRE_NO_RANK: a launcher printed it */
    const char *role;
    uint64_t step;       /* what (?<step>...) found; else the number of the value, from 1, by worker and generation */
    uint64_t time_ms;    /* of the node's clock */
    double value;
};

struct series {
    const struct spec_metric *metrics;
    size_t count;
    const char *run;       /* whose logs they are: of a launch that was kept, the run that did it */
    const char *path;      /* folder of the job */
    struct series_log *logs;
    size_t log_count;
    struct arena *arena;
};
/* Of a run in the journal. What it points to lies in the arena. */
int series_open(struct journal *j, const struct state_run *run, struct arena *arena, struct series *ret,
                struct error *err);
/* Only these points of the sweep, by their names. */
void series_choose(struct series *s, const char *const *points, size_t count);
/* Gives out all values of the wanted metrics (wanted[metric]; NULL: all): generation by generation, in it node by node,
 * as they were printed; of a sweep point by point, those that the run kept last. -1 and err: a log cannot be read. One
 * that is not there holds none. */
int series_read(const struct series *s, const bool *wanted, void (*point)(void *arg, const struct series_point *p),
                void *arg, struct error *err);

#endif
