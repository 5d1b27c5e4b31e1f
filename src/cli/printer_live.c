/* The live view (live.c), with lines above it. stdout may be a file: lines for it are not shown in the view. */
#include "printer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct own {
    struct live *live;
    bool on_screen[3]; /* by descriptor */
};

static struct live *live_of(const struct cli_printer *p)
{
    return ((const struct own *)p->own)->live;
}

static void *create(struct cli_printer *p)
{
    struct own *own = xcalloc(1, sizeof *own);
    own->live = live_create(p->c, p->loop, p->plan, &p->progress, p->outcomes);
    live_on_detach(own->live, p->detach, p->detach_arg);
    own->on_screen[1] = isatty(1);
    own->on_screen[2] = isatty(2);
    return own;
}

static void destroy(void *arg)
{
    struct own *own = arg;
    live_destroy(own->live);
    free(own);
}

static void set_run(struct cli_printer *p)
{
    live_set_run(live_of(p), p->run);
}

/* ---- lines ---- */

static void output(struct cli_printer *p, struct progress *s, const struct run_line *line)
{
    const struct own *own = p->own;
    struct buf b = {0};
    if (!own->on_screen[printer_line_fd(line)]) {
        printer_put_line(p, s, line);
        return;
    }
    buf_append(&b, s->prefix.data ? s->prefix.data : "", s->prefix.len);
    text_for_screen(&b, line->line->text, line->line->len, p->c->color_err);
    buf_putc(&b, '\n');
    live_above(own->live, b.data, b.len);
    buf_free(&b);
}

static bool bar(struct cli_printer *p, const struct progress *s)
{
    const struct own *own = p->own;
    return own->on_screen[s->stream == WIRE_STREAM_OUT ? 1 : 2];
}

/* The last line of a running attempt says what it is doing. */
static void heard(struct cli_printer *p, const struct run_line *line)
{
    live_heard(live_of(p), line);
}

static void note(struct cli_printer *p, const struct buf *line)
{
    CLEANUP(cleanup_free) char *text = xasprintf("rhrun: %s\n", line->data);
    live_above(live_of(p), text, strlen(text));
}

/* ---- what happens ---- */

static void event(struct cli_printer *p, const struct event *e)
{
    struct buf b = {0};
    if (e->type == EVENT_CANCELLING && !p->stops)
        live_status(live_of(p), "stopping: TERM sent, KILL after a grace time; Ctrl-C kills at once");
    if (e->type == EVENT_RUN_OPENED || e->type == EVENT_STARTED || (e->type == EVENT_CANCELLING && p->stops))
        return; /* the view shows it */
    printer_event_text(p, e, &b);
    if (b.len)
        note(p, &b);
    buf_free(&b);
}

static void stopping(struct cli_printer *p)
{
    live_status(live_of(p), p->stops == 1 ? "stopping: TERM sent, Ctrl-C again kills" : "killing: KILL sent");
}

static bool flush(struct cli_printer *p)
{
    return live_flush(live_of(p));
}

static void finished(struct cli_printer *p, enum cli_printer_end how)
{
    live_end(live_of(p), how == PRINTER_SUMMARY);
    printer_put_dropped(p);
    printer_put_done(p);
}

const struct printer_kind printer_live = {
    .people = true,
    .create = create,
    .destroy = destroy,
    .run = set_run,
    .output = output,
    .bar = bar,
    .heard = heard,
    .note = note,
    .event = event,
    .stopping = stopping,
    .flush = flush,
    .finished = finished,
};
