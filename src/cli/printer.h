/* How a run is shown while it runs. Every way to show it is a struct printer_kind, one file each:
 *   printer_plain.c   lines, where nothing can be redrawn
 *   printer_live.c    the view on a terminal (live.c), with the same lines above it
 *   printer_quiet.c   the workers' lines alone (--quiet)
 *   printer_json.c    NDJSON (--json)
 * printer.c has the shared code. It receives the run's events and lines (struct run_observer) and decides which lines
 * are printed, and when: it holds back progress bars and tracebacks, and records how far a person has seen the output.
 * The kind decides how. It is chosen when the printer is created, and becomes plain or quiet when the terminal goes
 * away; no other code asks for the kind: each difference between kinds is a field of struct printer_kind. */
#ifndef RHRUN_CLI_PRINTER_H
#define RHRUN_CLI_PRINTER_H

#include "internal.h"

struct printer_kind {
    bool people; /* for people: set-up output only with --verbose, and how far it was seen is recorded */
    /* All but `output` may be NULL: then nothing is done. */
    void *(*create)(struct cli_printer *p); /* returns p->own */
    void (*destroy)(void *own);
    void (*run)(struct cli_printer *p); /* p->run has changed, or is NULL now */
    void (*heard)(struct cli_printer *p, const struct run_line *line); /* each line, before its effects */
    /* Prints a worker's line. For people s->prefix goes before it; empty: the line is bare. */
    void (*output)(struct cli_printer *p, struct progress *s, const struct run_line *line);
    /* A bar: a line that a carriage return ended. True: the kind draws it while it lasts, and its last line is printed
     * when it ends. Else one line a second is printed. */
    bool (*bar)(struct cli_printer *p, const struct progress *s);
    /* Prints a line of rhrun's own. NULL: the kind prints none, so each traceback is printed at once, and a later
     * command that shows the rest of the run shows its events. */
    void (*note)(struct cli_printer *p, const struct buf *line);
    void (*event)(struct cli_printer *p, const struct event *e);
    void (*port)(struct cli_printer *p, const struct run_port *port); /* NULL: `note` prints it */
    void (*changed)(struct cli_printer *p); /* a moment after a step has changed */
    bool (*moved)(struct cli_printer *p);   /* repeated while it returns true: files are on their way */
    void (*stopping)(struct cli_printer *p); /* a signal came; p->stops counts them */
    bool (*flush)(struct cli_printer *p);    /* writes text outside p->out; false: not all of it */
    void (*finished)(struct cli_printer *p, enum cli_printer_end how);
};
extern const struct printer_kind printer_plain, printer_live, printer_quiet, printer_json;

struct cli_printer {
    const struct printer_kind *kind;
    void *own; /* the kind's data */
    struct cli *c;
    struct loop *loop;
    const struct plan *plan;
    struct run *run;  /* NULL: there is none */
    char run_id[17];  /* of the last event */
    struct out *out;
    struct progress_table progress;
    uint8_t *outcomes; /* [step * node_count + node]: enum outcome of the last attempt */
    unsigned stops;
    void (*detach)(void *arg); /* the key d */
    void *detach_arg;

    /* printer.c's own */
    uint64_t began_ms;
    enum run_status closed;
    bool ended;
    bool quiet_output; /* workers' lines are not printed: there is no terminal, and the logs have them */
    struct shown_metrics *metrics;
    struct buf dropped; /* lines for the end: output that is in no log */
    struct buf away;    /* notes that a node is unreachable; the run's error tells of them, if it has one */
    struct traces *traces;
    struct loop_timer *traces_timer;
    struct loop_timer *progress_timer; /* prints lines that wait */
    struct loop_timer *changed_timer;
    struct loop_timer *moved_timer;    /* because no event says that bytes have arrived */
    struct journal *journal; /* of the run whose output people see; NULL = nobody sees it */
    struct shown *shown;     /* how far, once something was shown */
    struct loop_timer *shown_timer;
    bool shown_frozen; /* to be saved once all text before the mark is written */
    uint64_t shown_mark;
    bool shown_more;   /* more text has come since */
};

/* `changed` is called again after that time, unless a call is due earlier. */
void printer_look_again(struct cli_printer *p, uint64_t after_ms);

/* ---- what kinds for people share ---- */
int printer_line_fd(const struct run_line *line); /* its descriptor: 1 or 2 */
void printer_put_line(struct cli_printer *p, struct progress *s, const struct run_line *line); /* to p->out */
void printer_event_text(struct cli_printer *p, const struct event *e, struct buf *b); /* plain_event */
void printer_put_dropped(struct cli_printer *p); /* missing output; also with --quiet */
void printer_put_done(struct cli_printer *p);    /* that the run is done, if it is */

#endif
