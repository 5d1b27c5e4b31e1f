/*
 * report: runs as one HTML page that needs no network: the command gathers data, and the page shows it.
 *
 * The page holds its own program (src/report/page), the plotting library uPlot (third_party/uplot) and the data, as
 * JSON in an element that no browser executes. A content security policy allows these two programs by digest, and
 * nothing else: no other script, no address, no form. The program inserts text as text only, so a log, a name or a
 * parameter is never read as HTML.
 *
 * The page's size is bounded, whatever the size of the runs. A log is cut to its head, its tail and the lines before a
 * failure, by lines and bytes (report_excerpt). A metric is at most REPORT_GROUPS_MAX groups of values, each shown by
 * its lowest and its highest value (report_curve). Omissions are counted, and the page shows the counts.
 *
 * The caller owns the strings and arrays of these structs, and keeps them until the page is written. NULL means "not
 * known" unless a field says otherwise. Times are milliseconds since the epoch; 0: not yet, or not known.
 */
#ifndef RHRUN_REPORT_H
#define RHRUN_REPORT_H

#include "rhrun/base.h"

#define REPORT_NO_RANK UINT32_MAX
enum {
    REPORT_RUNS_MAX = 200,
    REPORT_LINE_MAX = 1000,        /* bytes of a line that are kept */
    REPORT_HEAD = 60, REPORT_TAIL = 140, REPORT_BEFORE = 60, /* lines of an excerpt, where there is room */
    REPORT_LOGS_MAX = 1500 << 10,  /* bytes of the page for the lines of all logs */
    REPORT_GROUPS_MAX = 512,       /* of a curve; a power of two */
    REPORT_CURVES_MAX = 20000,     /* groups of all curves together, about 1.4 MB */
};

/* ---- a log in a few lines ---- */
struct report_line {
    uint64_t number;      /* of the line in its log, from 0 */
    uint64_t whole_bytes; /* of the line, of which at most REPORT_LINE_MAX are in text */
    uint64_t time_ms;
    uint32_t rank;        /* or REPORT_NO_RANK */
    bool error;           /* stderr */
    char *text;           /* any bytes, not NUL-terminated */
    size_t len;
};
struct report_worker { /* who wrote lines, or failed */
    uint32_t rank;
    uint64_t lines, error_lines, bytes, last_ms;
    bool failed;
    uint8_t cause; /* enum wire_cause */
    int32_t value;
};
struct report_excerpt;
/* Keeps at most this many lines of the log's head, of its tail, and before a failure. */
struct report_excerpt *report_excerpt_create(size_t head, size_t tail, size_t before);
void report_excerpt_destroy(struct report_excerpt *x); /* takes NULL */
/* The next line. Its text is copied; `number` is set here. */
void report_excerpt_add(struct report_excerpt *x, const struct report_line *line);
/* The rest of a line that was too long: only its bytes are counted. */
void report_excerpt_more(struct report_excerpt *x, uint32_t rank, uint64_t bytes);
/* This worker has failed: its last lines are kept. */
void report_excerpt_failed(struct report_excerpt *x, uint32_t rank, uint8_t cause, int32_t value);
/* Keeps the last lines of this worker, when it is not known when it failed. */
void report_excerpt_keep(struct report_excerpt *x, uint32_t rank);
/* The kept lines, in order, owned by the excerpt; call it after the last line. *ret_total: lines in the whole log. */
const struct report_line *report_excerpt_lines(struct report_excerpt *x, size_t *ret_count, uint64_t *ret_total);
/* By rank; owned by the excerpt. */
const struct report_worker *report_excerpt_workers(struct report_excerpt *x, size_t *ret_count);
size_t report_excerpt_cost(struct report_excerpt *x); /* upper bound of the bytes that the lines take in the page */

/* ---- a metric's values as a curve ---- */
struct report_group { /* a group of consecutive values, with step and time of its lowest and its highest */
    uint64_t count, low_step, low_ms, high_step, high_ms, low_at, high_at; /* low_at, high_at: indices in the curve */
    double low, high; /* nan: the group has no finite value */
};
struct report_curve {
    const char *metric, *role;
    uint32_t rank, generation, point; /* point: index in report_run.points */
    uint64_t count, odd;  /* number of values, and of those that are not finite */
    uint64_t group_size;  /* values in a full group: a power of two */
    struct report_group *groups; /* owned by the curve */
    size_t group_count;
    double first, last;
};
void report_curve_add(struct report_curve *c, uint64_t step, uint64_t time_ms, double value); /* c is zero-filled at
                                                                                                 first */
void report_curve_halve(struct report_curve *c); /* doubles group_size, halves the number of groups */
void report_curve_free(struct report_curve *c);

/* ---- a run ---- */
struct report_pair {
    const char *name, *value;
};
struct report_attempt {
    const char *step, *outcome;  /* "ok", "failed", "running", ... */
    uint32_t node, generation; /* generation 0: no launch */
    uint32_t point;            /* index in report_run.points; REPORT_NO_RANK: none, or the run has no sweep */
    const char *cause;           /* in words */
    uint32_t cause_rank;
    uint64_t started_ms, finished_ms, log_bytes, dropped_bytes;
    const char *dropped_by;
    const char *of_run;          /* the run that did the attempt, if this run kept its result; NULL: this run */
    const char *attempt;
    bool launch, failed;         /* failed: failed by itself, not stopped because of another failure */
    struct report_excerpt *log;  /* NULL: there is none, or it was left out */
    bool log_left_out;
};
struct report_rank {
    const char *role, *end; /* end: "ok", "running", or the reason for the failure */
    uint32_t rank, role_rank, node, generation, point; /* node: REPORT_NO_RANK when nobody knows it */
    uint64_t lines, error_lines, bytes, last_ms;
    bool failed;
};
struct report_metric { /* the latest value */
    const char *name, *value;
    uint32_t rank;
    uint64_t count;
};
struct report_package {
    const char *name, *version, *from; /* from: its origin, if it is not from an index */
    const char *where;                 /* on which nodes; NULL: all nodes have the same Python */
    bool system;                       /* installed before the job */
};
/* One launch with its own parameters. A run without a sweep has one. */
struct report_point {
    const char *name, *state, *place, *message;
    const char *step; /* name of its launch, for rhrun logs --step */
    const struct report_pair *params;
    size_t param_count;
    const struct report_metric *metrics; /* each metric from the lowest rank that has it */
    size_t metric_count;
    uint64_t started_ms, finished_ms;
};
struct report_event { /* a decision or a note, in words */
    uint64_t time_ms;
    const char *kind, *host, *text;
};
struct report_node {
    const char *host, *facts_json; /* facts_json: a valid JSON object */
};
struct report_run {
    const char *id, *job, *status, *message, *command, *spec_text;
    bool open;
    int32_t exit_status;
    uint64_t opened_ms, closed_ms;
    uint32_t restarts;
    const struct report_pair *provenance;
    size_t provenance_count;
    const struct report_package *packages;
    size_t package_count;
    uint64_t packages_left_out;
    const struct report_node *nodes;
    size_t node_count;
    const struct report_attempt *attempts;
    size_t attempt_count;
    uint64_t attempts_left_out;
    const struct report_rank *ranks;
    size_t rank_count;
    uint64_t ranks_left_out;
    const struct report_point *points;
    size_t point_count;
    const char *best_metric; /* of a sweep: the metric that chooses the best point; NULL: none */
    bool best_max;
    const struct report_event *events;
    size_t event_count;
    uint64_t events_left_out;
    const struct report_curve *curves;
    size_t curve_count;
    uint64_t curves_left_out;
    const char *curves_of; /* the run that the values are from, if this run kept the launch */
};
struct report {
    const char *version; /* of rhrun */
    uint64_t made_ms;
    const struct report_run *runs;
    size_t run_count;
};

/* The data alone, as JSON without "<", so that it can be put into an element of a page. */
void report_json(const struct report *r, struct buf *ret);
/* The whole page. */
void report_page(const struct report *r, struct buf *ret);

#endif
