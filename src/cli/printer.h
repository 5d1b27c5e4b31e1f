/* How a run is shown while it runs. Every way to show it is a struct printer_kind, one file each:
 *   printer_plain.c   lines, where nothing can be redrawn
 *   printer_live.c    the view on a terminal (live.c), with the same lines above it
 *   printer_quiet.c   the workers' lines alone (--quiet)
 *   printer_json.c    NDJSON (--json)
 * printer.c has what they share. It takes what the run tells (struct run_observer) and decides which lines are printed,
 * and when: it holds back progress bars and tracebacks, and keeps how far people have seen the output. The kind says
 * how. It is chosen when the printer is made, and made plain or quiet when the terminal goes away; nothing else asks
 * which kind it is: what differs between two kinds is a field of struct printer_kind. */
#ifndef RHRUN_CLI_PRINTER_H
#define RHRUN_CLI_PRINTER_H

#include "internal.h"

struct printer_kind {
    bool people; /* it prints for them: of set-up only with --verbose, and how far they have seen the output is kept */
    /* All but `output` may be NULL: then there is nothing to do. */
    void *(*create)(struct cli_printer *p); /* what becomes p->own */
    void (*destroy)(void *own);
    void (*run)(struct cli_printer *p); /* p->run is another one, or none any more */
    void (*heard)(struct cli_printer *p, const struct run_line *line); /* each line, before all that follows of it */
    /* A worker's line is printed. For people s->prefix stands before it; empty: the line is bare. */
    void (*output)(struct cli_printer *p, struct progress *s, const struct run_line *line);
    /* A bar, whose line a carriage return ended. True: it is drawn while it stands, and its last line is printed when
     * it ends. Else one line a second is printed. */
    bool (*bar)(struct cli_printer *p, const struct progress *s);
    /* A line of rhrun's own is printed. NULL: it says nothing of its own, so each traceback is printed as it comes, and
     * whoever shows the rest of the run tells its events. */
    void (*note)(struct cli_printer *p, const struct buf *line);
    void (*event)(struct cli_printer *p, const struct event *e);
    void (*port)(struct cli_printer *p, const struct run_port *port); /* NULL: `note` says it */
    void (*changed)(struct cli_printer *p); /* a moment after something about a step has changed */
    bool (*moved)(struct cli_printer *p);   /* then now and then, as long as it returns true: files are on their way */
    void (*stopping)(struct cli_printer *p); /* a signal came, the p->stops-th */
    bool (*flush)(struct cli_printer *p);    /* what waits outside of p->out is written; false: it could not all be */
    void (*finished)(struct cli_printer *p, enum cli_printer_end how);
};
extern const struct printer_kind printer_plain, printer_live, printer_quiet, printer_json;

struct cli_printer {
    const struct printer_kind *kind;
    void *own; /* the kind's */
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
    bool quiet_output; /* workers' lines go nowhere: there is no terminal, the logs have them */
    struct shown_metrics *metrics;
    struct buf dropped; /* lines of the end: output that is in no log */
    struct buf away;    /* notes that a node could not be reached: the error of the run tells of them, if it has one */
    struct traces *traces;
    struct loop_timer *traces_timer;
    struct loop_timer *progress_timer; /* prints what waits */
    struct loop_timer *changed_timer;
    struct loop_timer *moved_timer;    /* nobody says that bytes have come */
    struct journal *journal; /* of the run whose output people see; NULL = they do not */
    struct shown *shown;     /* how far, once there was any */
    struct loop_timer *shown_timer;
    bool shown_frozen; /* it is to be saved once all is written that stands before the mark */
    uint64_t shown_mark;
    bool shown_more;   /* something was put since */
};

/* `changed` is called once more after that time, where it would not be earlier. */
void printer_look_again(struct cli_printer *p, uint64_t after_ms);

/* ---- what kinds for people share ---- */
int printer_line_fd(const struct run_line *line); /* where it goes: 1 or 2 */
void printer_put_line(struct cli_printer *p, struct progress *s, const struct run_line *line); /* to p->out */
void printer_event_text(struct cli_printer *p, const struct event *e, struct buf *b); /* plain_event */
void printer_put_dropped(struct cli_printer *p); /* what is missing; with --quiet, too */
void printer_put_done(struct cli_printer *p);    /* that the run is done, where it is */

#endif
