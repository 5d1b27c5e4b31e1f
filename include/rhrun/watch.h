/*
 * watch: the workers' output as lines. It parses the spool of one attempt (wire.h) as its bytes arrive,
 * in any cuts, and gives out whole lines per rank and stream; a carriage return that is not followed by a
 * newline ends a line too (progress bars), and so do WATCH_LINE_MAX bytes without any end.
 *
 * Lines are matched here, in the controller only: a node never decides by what its workers print.
 */
#ifndef RHRUN_WATCH_H
#define RHRUN_WATCH_H

#include "rhrun/base.h"
#include "rhrun/wire.h"

enum { WATCH_LINE_MAX = 64 << 10 };

struct watch_line {
    uint32_t rank;
    uint8_t stream;    /* enum wire_stream */
    const char *text;  /* without its end; may hold any byte; not NUL-terminated */
    size_t len;
    uint64_t wall_ms;  /* of the node, when its last bytes were read */
    bool returned;     /* ended by a carriage return: the next line of this stream replaces it */
    bool open;         /* cut: no line end was there (end of the stream, or WATCH_LINE_MAX) */
};

struct watch;
struct watch *watch_create(void (*line)(void *arg, const struct watch_line *line), void *arg);
void watch_destroy(struct watch *w); /* takes NULL */
/* A worker has failed (WIRE_STREAM_END); what it left without a line end was given out before. */
void watch_on_end(struct watch *w, void (*end)(void *arg, const struct wire_worker_end *end));
/* Whole lines of one stream, one behind the other, each with its line end and none with a carriage return, go to
 * `block` instead of to `line`: much is looked at faster at once. `lines` has what they share, and all of the text. */
void watch_on_block(struct watch *w, void (*block)(void *arg, const struct watch_line *lines));
/* False when the bytes are no spool; nothing is read from then on. */
bool watch_feed(struct watch *w, const uint8_t *data, size_t len);
/* Of the bytes fed: where the record lies with the beginning of the earliest line that has no end yet; behind them all,
 * where there is none. Who feeds another watch from there on gets the same lines from here on, whole. */
uint64_t watch_open_from(const struct watch *w);
void watch_end(struct watch *w); /* gives out what has no line end yet */

/* ---- patterns over lines ---- */
/* What failure_rules and metrics look for. Each line is looked at once for all of them, as far as MATCH_LINE_MAX bytes.
 * A pattern that hits its bound (regex_match) does not match that line, and says so once. */
enum { MATCH_LINE_MAX = 16 << 10, MATCH_OUT = 1 << WIRE_STREAM_OUT, MATCH_ERR = 1 << WIRE_STREAM_ERR };
struct match_pattern {
    const char *pattern; /* outlives the matcher */
    uint8_t streams;   /* MATCH_OUT, MATCH_ERR, or both */
    bool value;        /* what (?<value>...) found is wanted, which must be a number; and what (?<step>...) found */
    bool has_rank;     /* only lines of this one */
    uint32_t rank;
};
struct match_hit {
    uint32_t pattern;  /* its index */
    const struct watch_line *line;
    double value;      /* of a pattern with `value` */
    bool has_step;     /* (?<step>...) found a whole number */
    uint64_t step;
};
struct matcher;
/* The patterns were compiled before, when the spec was loaded, so that one that fails here matches nothing. */
struct matcher *matcher_create(const struct match_pattern *patterns, size_t count,
                               void (*hit)(void *arg, const struct match_hit *hit),
                               void (*limit)(void *arg, uint32_t pattern, const struct watch_line *line), void *arg);
void matcher_destroy(struct matcher *m); /* takes NULL */
/* wanted[pattern], or NULL: all are. */
void matcher_line(struct matcher *m, const struct watch_line *line, const bool *wanted);
/* As matcher_line would be for each of these whole lines, with the hits in the same order. */
void matcher_block(struct matcher *m, const struct watch_line *lines, const bool *wanted);
/* A number as programs print it: decimal with exponent, "nan", "inf"; false for anything else. */
bool match_number(const char *text, size_t len, double *ret);
/* The other way: the shortest text that match_number reads as the same number. */
enum { MATCH_NUMBER_MAX = 32 };
void match_number_text(double v, char ret[MATCH_NUMBER_MAX]);

#endif
