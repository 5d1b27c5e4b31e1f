/* NDJSON: every event, every line of a worker, and the progress of the steps. */
#include "printer.h"

#include <stdlib.h>
#include <string.h>

enum { PROGRESS_MS = 500 }; /* for a step that is not over yet */

struct told { /* of a step, at the last line */
    uint32_t done, running, failed;
    uint64_t bytes, at_ms;
};

static void *create(struct cli_printer *p)
{
    return xcalloc(p->plan->step_count + 1, sizeof(struct told));
}

static void set_run(struct cli_printer *p)
{
    if (p->run)
        memset(p->own, 0, p->plan->step_count * sizeof(struct told));
}

static void output(struct cli_printer *p, struct progress *s, const struct run_line *line)
{
    (void)s;
    const struct cli_worker worker = cli_worker_of(p->plan, line->step, line->line->rank);
    struct buf b = {0};
    cli_json_output(&b, p->run_id, line->step->name, NULL, line->node, &worker, line->line);
    out_put(p->out, 1, b.data, b.len);
    buf_free(&b);
}

/* Prints a line for each step with news. True: files are being transferred. */
static bool put_progress(struct cli_printer *p)
{
    uint64_t now = mono_ns() / 1000000;
    bool later = false, moves = false;
    for (size_t i = 0; p->run && i < p->plan->step_count; i++) {
        struct told *s = &((struct told *)p->own)[i];
        struct run_counts n;
        struct run_transfer t;
        run_step_counts(p->run, &p->plan->steps[i], &n);
        run_step_transfer(p->run, &p->plan->steps[i], &t);
        moves = moves || t.nodes;
        if (n.done + n.kept == s->done && n.running == s->running && n.failed == s->failed && t.bytes_done == s->bytes)
            continue;
        if (n.done + n.kept + n.failed < n.total && s->at_ms && now - s->at_ms < PROGRESS_MS) {
            later = true;
            continue;
        }
        *s = (struct told){n.done + n.kept, n.running, n.failed, t.bytes_done, now};
        struct buf b = {0};
        cli_json_progress(&b, p->run_id, &p->plan->steps[i], &n, &t);
        out_put(p->out, 1, b.data, b.len);
        buf_free(&b);
    }
    if (later)
        printer_look_again(p, PROGRESS_MS);
    return moves;
}

static void changed(struct cli_printer *p)
{
    put_progress(p);
}

static void event(struct cli_printer *p, const struct event *e)
{
    struct buf b = {0};
    if (e->type == EVENT_RUN_CLOSED)
        put_progress(p);
    event_to_json(e, &b);
    buf_putc(&b, '\n');
    out_put(p->out, 1, b.data, b.len);
    buf_free(&b);
}

static void port(struct cli_printer *p, const struct run_port *port)
{
    struct buf b = {0};
    cli_json_port(&b, p->run ? run_id(p->run) : p->run_id, port);
    out_put(p->out, 1, b.data, b.len);
    buf_free(&b);
}

const struct printer_kind printer_json = {
    .create = create,
    .destroy = free,
    .run = set_run,
    .output = output,
    .event = event,
    .port = port,
    .changed = changed,
    .moved = put_progress,
};
