/*
 * watch: the workers' output as lines. It parses the spool of one attempt (wire.h) as its bytes arrive, in pieces of
 * any size, and gives out whole lines per rank and stream. A carriage return without a newline after it ends a line too
 * (progress bars), and so do WATCH_LINE_MAX bytes without a line end.
 *
 * Lines are matched only here, in the controller: a node never decides anything by its workers' output.
 */
#ifndef RHRUN_WATCH_H
#define RHRUN_WATCH_H

#include "rhrun/base.h"
#include "rhrun/wire.h"

enum { WATCH_LINE_MAX = 64 << 10 };

struct watch_line {
    uint32_t rank;
    uint8_t stream;    /* enum wire_stream */
    const char *text;  /* without the line end; may hold any byte; not NUL-terminated */
    size_t len;
    uint64_t wall_ms;  /* the node's clock when it read the last bytes of the line */
    bool returned;     /* ended by a carriage return: the next line of this stream replaces it */
    bool open;         /* cut off without a line end (end of the stream, or WATCH_LINE_MAX) */
};

struct watch;
struct watch *watch_create(void (*line)(void *arg, const struct watch_line *line), void *arg);
void watch_destroy(struct watch *w); /* takes NULL */
/* Called when a worker has failed (WIRE_STREAM_END), after its last line, complete or not, was given out. */
void watch_on_end(struct watch *w, void (*end)(void *arg, const struct wire_worker_end *end));
/* Consecutive whole lines of one stream, each with its line end and none with a carriage return, go to `block` instead
 * of `line`, because searching them together is faster. `lines` has the values that they share, and the text of all. */
void watch_on_block(struct watch *w, void (*block)(void *arg, const struct watch_line *lines));
/* False when the bytes are no spool; from then on nothing is read. */
bool watch_feed(struct watch *w, const uint8_t *data, size_t len);
/* Offset, in the bytes fed so far, of the record where the earliest unfinished line begins; the number of bytes fed if
 * no line is unfinished. Another watch that is fed from this offset on gives the same lines from here on, whole. */
uint64_t watch_open_from(const struct watch *w);
void watch_end(struct watch *w); /* gives out the unfinished lines */

/* ---- patterns over lines ---- */
/* Patterns of failure_rules and metrics. Each line is searched once for all of them, up to MATCH_LINE_MAX bytes. A
 * pattern that reaches its limit (REGEX_LIMIT) does not match that line; `limit` is called once for it. */
enum { MATCH_LINE_MAX = 16 << 10, MATCH_OUT = 1 << WIRE_STREAM_OUT, MATCH_ERR = 1 << WIRE_STREAM_ERR };
struct match_pattern {
    const char *pattern; /* outlives the matcher */
    uint8_t streams;   /* MATCH_OUT, MATCH_ERR, or both */
    bool value;        /* report the text of (?<value>...), which must be a number, and of (?<step>...) */
    bool has_rank;     /* match only lines of `rank` */
    uint32_t rank;
};
struct match_hit {
    uint32_t pattern;  /* its index */
    const struct watch_line *line;
    double value;      /* of a pattern with `value` */
    bool has_step;     /* (?<step>...) matched a whole number */
    uint64_t step;
};
struct matcher;
/* The patterns were checked when the spec was loaded; one that cannot be compiled here matches nothing. */
struct matcher *matcher_create(const struct match_pattern *patterns, size_t count,
                               void (*hit)(void *arg, const struct match_hit *hit),
                               void (*limit)(void *arg, uint32_t pattern, const struct watch_line *line), void *arg);
void matcher_destroy(struct matcher *m); /* takes NULL */
/* wanted[pattern], or NULL: all are. */
void matcher_line(struct matcher *m, const struct watch_line *line, const bool *wanted);
/* The same as matcher_line for each of these whole lines, with the hits in the same order. */
void matcher_block(struct matcher *m, const struct watch_line *lines, const bool *wanted);
/* Reads a number as programs print it: decimal, with exponent, "nan", "inf"; false for anything else. */
bool match_number(const char *text, size_t len, double *ret);
/* The reverse: the shortest text that match_number reads as the same number. */
enum { MATCH_NUMBER_MAX = 32 };
void match_number_text(double v, char ret[MATCH_NUMBER_MAX]);

#endif
