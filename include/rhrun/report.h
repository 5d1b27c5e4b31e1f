/*
 * report: runs as one HTML page that needs no network: data that the command gathers, and a page that shows it.
 *
 * The page holds a program of its own (src/report/page), the plotting library uPlot (third_party/uplot) and the data,
 * as JSON in an element that no browser executes. A content security policy names each of these programs by its digest,
 * and allows nothing else: no other script, no address, no form. The program puts text in as text alone, so nothing of
 * a log, a name or a parameter is ever read as HTML.
 *
 * All of it is bounded, whatever the runs had: of a log its head, its tail and what stands before a failure, by
 * lines and bytes (report_excerpt); of a metric at most REPORT_GROUPS_MAX groups of values, each as its lowest and its
 * highest (report_curve). What is left out is counted, and the page says so.
 *
 * Strings and arrays of these structs belong to whoever made them, and outlive the writing. NULL is "not known" where a
 * field does not say otherwise. Times are milliseconds since the epoch, 0: not yet, or not known.
 */
#ifndef RHRUN_REPORT_H
#define RHRUN_REPORT_H

#include "rhrun/base.h"

#define REPORT_NO_RANK UINT32_MAX
enum {
    REPORT_RUNS_MAX = 200,
    REPORT_LINE_MAX = 1000,        /* bytes of a line that are kept */
    REPORT_HEAD = 60, REPORT_TAIL = 140, REPORT_BEFORE = 60, /* lines of an excerpt, where there is room */
    REPORT_LOGS_MAX = 1500 << 10,  /* bytes that the lines of all logs take in the page */
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
    char *text;           /* no NUL-terminated text: any bytes */
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
/* At most so many lines of its head, of its tail, and before a failure. */
struct report_excerpt *report_excerpt_create(size_t head, size_t tail, size_t before);
void report_excerpt_destroy(struct report_excerpt *x); /* takes NULL */
/* The next line. Its text is copied; `number` is set here. */
void report_excerpt_add(struct report_excerpt *x, const struct report_line *line);
/* More of the line before, which was too long for one: only its bytes are counted. */
void report_excerpt_more(struct report_excerpt *x, uint32_t rank, uint64_t bytes);
/* That worker has failed: what it wrote last is kept. */
void report_excerpt_failed(struct report_excerpt *x, uint32_t rank, uint8_t cause, int32_t value);
/* What that worker wrote last is kept: nobody has said when it failed. */
void report_excerpt_keep(struct report_excerpt *x, uint32_t rank);
/* After the last line. In their order, owned by the excerpt; *ret_total: how many there were. */
const struct report_line *report_excerpt_lines(struct report_excerpt *x, size_t *ret_count, uint64_t *ret_total);
/* By rank; owned by the excerpt. */
const struct report_worker *report_excerpt_workers(struct report_excerpt *x, size_t *ret_count);
size_t report_excerpt_cost(struct report_excerpt *x); /* bytes that the lines take in the page, at most */

/* ---- a metric's values as a curve ---- */
struct report_group { /* of values that came one after the other; steps and times of its lowest and highest */
    uint64_t count, low_step, low_ms, high_step, high_ms, low_at, high_at /* numbers of the values */;
    double low, high; /* nan: none of them is a finite number */
};
struct report_curve {
    const char *metric, *role;
    uint32_t rank, generation, point; /* point: index in report_run.points */
    uint64_t count, odd;  /* values; those that are no finite number */
    uint64_t group_size;  /* values of a full group: a power of two */
    struct report_group *groups; /* owned by the curve */
    size_t group_count;
    double first, last;
};
void report_curve_add(struct report_curve *c, uint64_t step, uint64_t time_ms, double value); /* zero-filled at first */
void report_curve_halve(struct report_curve *c); /* groups of twice the size */
void report_curve_free(struct report_curve *c);

/* ---- a run ---- */
struct report_pair {
    const char *name, *value;
};
struct report_attempt {
    const char *step, *outcome;  /* "ok", "failed", "running", ... */
    uint32_t node, generation; /* generation 0: no launch */
    uint32_t point;            /* index in report_run.points; REPORT_NO_RANK: of none, or the run has no sweep */
    const char *cause;           /* in words */
    uint32_t cause_rank;
    uint64_t started_ms, finished_ms, log_bytes, dropped_bytes;
    const char *dropped_by;
    const char *of_run;          /* the run that did it, which this one kept; NULL: this one */
    const char *attempt;
    bool launch, failed;         /* failed: by itself, not stopped because another one did */
    struct report_excerpt *log;  /* NULL: there is none, or it was left out */
    bool log_left_out;
};
struct report_rank {
    const char *role, *end; /* end: "ok", "running", or why it failed */
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
    const char *name, *version, *from; /* from: where it came from, if not from an index */
    const char *where;                 /* on which nodes; NULL: there is one Python, on all alike */
    bool system;                       /* it was there before */
};
/* One launch with its own parameters. A run without a sweep has one. */
struct report_point {
    const char *name, *state, *place, *message;
    const char *step; /* what its launch is called: rhrun logs --step */
    const struct report_pair *params;
    size_t param_count;
    const struct report_metric *metrics; /* of each the lowest rank that has it */
    size_t metric_count;
    uint64_t started_ms, finished_ms;
};
struct report_event { /* what was decided or noted, in words */
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
    const char *best_metric; /* of a sweep: by which the best point is chosen; NULL: by none */
    bool best_max;
    const struct report_event *events;
    size_t event_count;
    uint64_t events_left_out;
    const struct report_curve *curves;
    size_t curve_count;
    uint64_t curves_left_out;
    const char *curves_of; /* the run whose values they are, where this one kept the launch */
};
struct report {
    const char *version; /* of rhrun */
    uint64_t made_ms;
    const struct report_run *runs;
    size_t run_count;
};

/* The data alone, as JSON without "<": it may stand in an element of a page. */
void report_json(const struct report *r, struct buf *ret);
/* The whole page. */
void report_page(const struct report *r, struct buf *ret);

#endif
