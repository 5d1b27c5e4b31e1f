/* rhrun's own plain lines: events that are worth a line where nothing can be redrawn. */
#include "internal.h"

#include <string.h>

bool plain_step_failed(enum outcome o)
{
    return o == OUTCOME_FAILED || o == OUTCOME_TIMED_OUT || o == OUTCOME_UNKNOWN;
}

static const char *plural(uint32_t n)
{
    return n == 1 ? "" : "s";
}

/* "gpu3, gpu7 and 12 more" */
static void failed_names(struct buf *b, const struct plan *plan, const struct plan_step *step, const uint8_t *outcomes)
{
    enum { NAMES_MAX = 8 };
    uint32_t count = 0;
    for (uint32_t n = 0; n < plan->node_count; n++) {
        if (!plain_step_failed((enum outcome)outcomes[(size_t)step->id * plan->node_count + n]))
            continue;
        if (count++ < NAMES_MAX)
            buf_printf(b, "%s%s", count > 1 ? ", " : "", roster_name(plan->roster, n));
    }
    if (count > NAMES_MAX)
        buf_printf(b, " and %u more", count - NAMES_MAX);
}

void plain_step(struct buf *b, const struct plan *plan, const struct plan_step *step, const struct run_counts *n,
                const uint8_t *outcomes)
{
    char took[32] = "";
    struct buf names = {0};
    if (n->started_ms && n->ended_ms >= n->started_ms)
        cli_duration(n->ended_ms - n->started_ms, took);
    if (n->failed) {
        failed_names(&names, plan, step, outcomes);
        buf_printf(b, "%s: failed on %s", step->label, names.len ? names.data : "a node that is away");
        if (n->total > 1)
            buf_printf(b, " (%u of %u nodes; done on %u)", n->failed, n->total, n->done + n->kept);
        buf_free(&names);
        return;
    }
    plan_node_set(plan, step->on, &names);
    if (n->total > 1)
        buf_printf(b, "%s: done on %u node%s", step->label, n->done, plural(n->done));
    else
        buf_printf(b, "%s: done on %s", step->label, names.data);
    if (n->kept)
        buf_printf(b, ", kept on %u", n->kept);
    if (took[0])
        buf_printf(b, " in %s", took);
    buf_free(&names);
}

void plain_transfer(struct buf *b, const struct run_transfer *t)
{
    char done[32], total[32];
    cli_size(t->bytes_done, done);
    cli_size(t->bytes_total, total);
    buf_printf(b, "%s of %s, %llu of %llu files", done, total, (unsigned long long)t->files_done,
               (unsigned long long)t->files_total);
}

static void plain_note(struct buf *b, const struct plan *plan, const struct event_note *note)
{
    bool named = note->node < roster_count(plan->roster) && !str_starts(note->reason, "node \"");
    buf_printf(b, "%s%s%s", named ? roster_name(plan->roster, note->node) : "", named ? ": " : "", note->reason);
}

/* Without roles there is one step, and its number of workers is known. */
uint32_t cli_step_workers(const struct plan *plan, const struct plan_step *step)
{
    uint32_t count = 0;
    for (size_t i = 0; plan->roles && i < plan->spec->role_count; i++) {
        const struct spec_role *role = &plan->spec->roles[i];
        bool own = false; /* whether the role starts by itself */
        for (size_t k = 0; k < plan->step_count; k++)
            own = own || (plan->steps[k].kind->ranked && plan->steps[k].role == role);
        if (step->role ? step->role == role : !own)
            count += plan->roles[i].count;
    }
    return plan->roles ? count : plan->worker_count;
}

static void put_launch(struct buf *b, const struct plan *plan, const struct event_started *started)
{
    for (size_t i = 0; i < plan->step_count && started->attempt_count > 0; i++) {
        const struct plan_step *step = &plan->steps[i];
        if (!str_eq(step->name, started->attempts[0].step) || !step->kind->ranked)
            continue;
        uint32_t workers = plan->roles ? cli_step_workers(plan, step) : 0;
        /* With MIN:MAX some nodes may be left out. */
        for (uint32_t k = 0; !plan->roles && k < started->attempt_count; k++)
            workers += plan->nproc[started->attempts[k].node];
        buf_printf(b, "%s: ", step->name);
        if (workers > 0) /* only torchrun counts xpu */
            buf_printf(b, "%u worker%s ", workers, plural(workers));
        buf_printf(b, "on %u node%s", started->attempt_count, plural(started->attempt_count));
    }
}

void plain_dropped(struct buf *b, const char *step, const char *host, uint64_t bytes, const char *by)
{
    const char *why = str_eq(by, "disk") ? "the node's disk was full"
                      : str_eq(by, "limit")
                          ? "more than `log_limit` waited to be fetched"
                          : "the node's disk was full, and more than `log_limit` waited to be fetched";
    buf_printf(b, "%s on %s: ", step, host);
    if (bytes >= 1000000)
        buf_printf(b, "%.1f MB", (double)bytes / 1e6);
    else if (bytes >= 1000)
        buf_printf(b, "%.1f kB", (double)bytes / 1e3);
    else
        buf_printf(b, "%llu bytes", (unsigned long long)bytes);
    buf_printf(b, " of its output were dropped (%s)", why);
}

void plain_warn_dropped(struct buf *b, const struct plan *plan, const struct event *e)
{
    const struct event_finished *end = &e->finished;
    if (e->type != EVENT_FINISHED || !end->dropped_bytes || end->node >= plan->node_count)
        return;
    buf_puts(b, "rhrun: warning: ");
    plain_dropped(b, end->step, roster_name(plan->roster, end->node), end->dropped_bytes, end->dropped_by);
    buf_putc(b, '\n');
}

void plain_event(struct buf *b, const struct plan *plan, const struct event *e, uint32_t restarts)
{
    const struct spec_distributed *d = &plan->spec->distributed;
    char took[32];
    switch (e->type) {
    case EVENT_RUN_OPENED:
        buf_printf(b, "run %s of %s on %u node%s", e->run, plan->spec->name, e->opened.node_count,
                   plural(e->opened.node_count));
        break;
    case EVENT_RUN_REOPENED:
        buf_printf(b, "run %s of %s, opened again for its outputs", e->run, plan->spec->name);
        break;
    case EVENT_STARTED:
        if (e->started.generation == 1 && d->present && !e->started.joins) /* a note reports those */
            put_launch(b, plan, &e->started);
        break;
    case EVENT_RESTART:
        buf_puts(b, "restart");
        if (!e->restart.uncounted)
            buf_printf(b, " %u of %u", restarts, d->max_restarts);
        if (e->restart.backoff_ms) {
            cli_duration(e->restart.backoff_ms, took);
            buf_printf(b, " in %s", took);
        }
        if (e->restart.rule)
            buf_printf(b, " (rule %u)", e->restart.rule);
        else
            buf_printf(b, ": %s", e->restart.reason ? e->restart.reason : "a worker failed");
        break;
    case EVENT_REISSUE:
        buf_printf(b, "launching again: %s",
                   e->reissue.reason ? e->reissue.reason : "it had not started on every node");
        break;
    case EVENT_CANCELLING:
        buf_printf(b, "stopping (%s): TERM, then KILL after a grace time; Ctrl-C again kills at once",
                   e->cancelling.reason ? e->cancelling.reason : "on request");
        break;
    case EVENT_NOTE:
        if (e->note.reason)
            plain_note(b, plan, &e->note);
        break;
    case EVENT_RULE:
        plain_rule(b, plan, &e->rule);
        break;
    case EVENT_METRICS:
    case EVENT_INSTALLED:
    case EVENT_RUN_CLOSED:
    case EVENT_NODE_BOUND:
    case EVENT_FINISHED:
    case EVENT_SETTLED:
        break;
    }
}
