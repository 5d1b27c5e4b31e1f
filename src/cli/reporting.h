/* What `rhrun report` gathers of a run: report_run.c its events, report_logs.c its logs, report_curves.c its metrics.
 */
#ifndef RHRUN_CLI_REPORTING_H
#define RHRUN_CLI_REPORTING_H

#include "internal.h"
#include "rhrun/report.h"

enum { REPORT_ATTEMPTS_MAX = 20000, REPORT_RANKS_MAX = 5000, REPORT_EVENTS_MAX = 2000, REPORT_SPEC_MAX = 256 << 10,
       REPORT_PROVENANCE_MAX = 64 };

struct gathering {
    struct cli *c;
    struct arena *arena;
    struct journal *journal;
    const struct state_run *run;
    struct report_run *ret;
    struct report_attempt *attempts;
    struct report_part { /* by attempt, of a launch */
        uint32_t procs;  /* workers on each of its nodes; 0: not known */
        uint32_t before; /* nodes of the same launch before its own */
        uint64_t launch; /* equal for attempts that began together */
    } *parts;
    size_t attempt_cap, latest;
    struct report_point *points; /* of a sweep; NULL: the run has none */
    size_t point_cap, point_latest;
    struct report_pair *params; /* of the job: a point's params override them */
    size_t param_count;
    struct report_event *events;
    size_t event_cap;
    const char **hosts; /* by node */
    struct cli_roles roles; /* of the generation that began last */
    const char *spec_hash, *owner, *version;
    struct report_pair *provenance;
    size_t provenance_count;
    const struct doc_node *placed; /* the lock's `ranks`; NULL: unknown */
};

/* The run as a report shows it, without logs and curves; in the arena. */
int report_gather_run(struct cli *c, struct journal *j, const struct state_run *run, struct gathering *g,
                      struct report_run *ret, struct error *err);
/* An address without the part before its "@", because a page is shown to others. Text may be NULL. */
const char *report_without_login(struct arena *arena, const char *text);
/* report_lock.c: the origin of its files and packages. */
void report_gather_lock(struct gathering *g);
/* Each rank and its node, from the lock: at most REPORT_RANKS_MAX. */
void report_each_placed(const struct gathering *g, void (*placed)(void *arg, uint32_t rank, uint32_t node), void *arg);
/* The index of the point with that name in the sweep; REPORT_NO_RANK: there is none, or name is NULL. */
uint32_t report_point_find(struct gathering *g, const char *name);
/* Excerpts of its logs, in at most *budget bytes of the page (the bytes used are subtracted), and its ranks. Free them
 * with report_free_logs. */
void report_gather_logs(struct gathering *g, size_t *budget);
void report_free_logs(struct report_run *run);
/* The values of its metrics as curves of at most max_groups groups in all; none for a spec without metrics. Free them
 * with report_free_curves. */
int report_gather_curves(struct gathering *g, size_t max_groups, struct error *err);
void report_free_curves(struct report_run *run);

#endif
