/* Plain lines: the workers' lines, a line for each step that has ended on all nodes, transfer progress now and then,
 * and events. */
#include "printer.h"

#include <stdlib.h>
#include <string.h>

enum { TRANSFER_MS = 5000 }; /* between two lines of a step */

struct plain {
    struct told {
        bool ended;     /* its end was printed */
        uint64_t bytes; /* of its files, at the last printed line */
        uint64_t at_ms; /* when that was, or when the transfer was first seen */
    } * steps;          /* by id */
    struct buf kept;    /* names of kept steps that no line has reported yet */
    unsigned kept_count;
};

static void *create(struct cli_printer *p)
{
    struct plain *own = xcalloc(1, sizeof *own);
    own->steps = xcalloc(p->plan->step_count + 1, sizeof *own->steps);
    return own;
}

static void destroy(void *arg)
{
    struct plain *own = arg;
    buf_free(&own->kept);
    free(own->steps);
    free(own);
}

static void set_run(struct cli_printer *p)
{
    struct plain *own = p->own;
    if (p->run)
        memset(own->steps, 0, p->plan->step_count * sizeof *own->steps);
}

static void note(struct cli_printer *p, const struct buf *line)
{
    out_printf(p->out, 2, "rhrun: %s\n", line->data);
}

/* ---- steps ---- */

static void say_kept(struct cli_printer *p)
{
    struct plain *own = p->own;
    struct buf b = {0};
    if (own->kept_count == 0)
        return;
    buf_printf(&b, "%u step%s kept: %s", own->kept_count, own->kept_count == 1 ? "" : "s", own->kept.data);
    own->kept_count = 0;
    buf_clear(&own->kept);
    note(p, &b);
    buf_free(&b);
}

static void say_step(struct cli_printer *p, const struct plan_step *step, const struct run_counts *n)
{
    struct plain *own = p->own;
    struct buf b = {0};
    own->steps[step->id].ended = true;
    if (step->kind->phase == PHASE_POINT && (n->kept == n->total || (step->kind->fetch && !n->failed)))
        return; /* a note reports the number of kept ones; a point reports its outputs */
    if (n->kept == n->total) {
        buf_printf(&own->kept, "%s%s", own->kept_count++ ? ", " : "", step->label);
        return;
    }
    say_kept(p);
    plain_step(&b, p->plan, step, n, p->outcomes);
    note(p, &b);
    buf_free(&b);
}

/* Steps that have ended on all nodes; at the end of the run also steps that failed on one. */
static void say_steps(struct cli_printer *p, bool closing)
{
    const struct plain *own = p->own;
    struct run_counts n;
    for (size_t i = 0; p->run && i < p->plan->step_count; i++) {
        const struct plan_step *step = &p->plan->steps[i];
        if (own->steps[i].ended || step->kind->phase == PHASE_LAUNCH)
            continue;
        run_step_counts(p->run, step, &n);
        bool over = n.total > 0 && n.kept + n.done + n.failed == n.total;
        if (n.failed ? closing : over)
            say_step(p, step, &n);
    }
}

static void changed(struct cli_printer *p)
{
    say_steps(p, false);
}

/* Transfer progress, if a line is due. */
static bool moved(struct cli_printer *p)
{
    struct plain *own = p->own;
    uint64_t now = mono_ns() / 1000000;
    bool any = false;
    for (size_t i = 0; p->run && i < p->plan->step_count; i++) {
        struct run_transfer t;
        struct told *s = &own->steps[i];
        run_step_transfer(p->run, &p->plan->steps[i], &t);
        if (!t.nodes)
            continue;
        any = true;
        if (!s->at_ms)
            s->at_ms = now;
        if (now - s->at_ms < TRANSFER_MS || t.bytes_done == s->bytes)
            continue;
        struct buf b = {0};
        buf_printf(&b, "%s: ", p->plan->steps[i].label);
        plain_transfer(&b, &t);
        note(p, &b);
        buf_free(&b);
        s->at_ms = now;
        s->bytes = t.bytes_done;
    }
    return any;
}

/* ---- events ---- */

static void event(struct cli_printer *p, const struct event *e)
{
    struct buf b = {0};
    printer_event_text(p, e, &b);
    if (b.len || e->type == EVENT_RUN_CLOSED) {
        say_steps(p, e->type == EVENT_RUN_CLOSED);
        say_kept(p);
    }
    if (b.len)
        note(p, &b);
    buf_free(&b);
}

static void stopping(struct cli_printer *p)
{
    if (p->stops == 2)
        out_printf(p->out, 2, "rhrun: killing at once\n");
}

static void finished(struct cli_printer *p, enum cli_printer_end how)
{
    (void)how;
    printer_put_dropped(p);
    printer_put_done(p);
}

const struct printer_kind printer_plain = {
    .people = true,
    .create = create,
    .destroy = destroy,
    .run = set_run,
    .output = printer_put_line,
    .note = note,
    .event = event,
    .changed = changed,
    .moved = moved,
    .stopping = stopping,
    .finished = finished,
};
