/*
 * The numbers that the workers of a run printed, one by one. They are read from the run's logs, with the metrics of the
 * spec that it was opened with. So nothing is recorded twice, and after a kill the values are those in the logs.
 */
#ifndef RHRUN_CLI_SERIES_H
#define RHRUN_CLI_SERIES_H

#include "internal.h"

struct series_point {
    uint32_t metric;     /* index in series.metrics */
    uint32_t generation; /* of the launch, from 1; of a point: its attempt within the run */
    const char *point;   /* the name of a point of a sweep; NULL: none */
    uint32_t node;
    uint32_t rank;       /* of the worker; WIRE_NO_RANK: a launcher printed it */
    const char *role;
    uint64_t step;       /* the match of (?<step>...); else the number of the value, from 1, by worker and generation */
    uint64_t time_ms;    /* of the node's clock */
    double value;
};

struct series {
    const struct spec_metric *metrics;
    size_t count;
    const char *run;       /* whose logs they are: for a kept launch, the run that did it */
    const char *path;      /* folder of the job */
    struct series_log *logs;
    size_t log_count;
    struct arena *arena;
};
/* Finds the series of a run in the journal. Everything that they point to is in the arena. */
int series_open(struct journal *j, const struct state_run *run, struct arena *arena, struct series *ret,
                struct error *err);
/* Only these points of the sweep, by name. */
void series_choose(struct series *s, const char *const *points, size_t count);
/* Gives out all values of the wanted metrics (wanted[metric]; NULL: all), in the order of generations, nodes and
 * printing; in a sweep by point, of the attempt that the run kept last. -1 and err: a log cannot be read. A missing log
 * has no values. */
int series_read(const struct series *s, const bool *wanted, void (*point)(void *arg, const struct series_point *p),
                void *arg, struct error *err);

#endif
