/* What a run prints while it runs: plain lines, NDJSON, or the live view (live.c) with lines above it. */
#include "internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct cli_printer {
    struct cli *c;
    enum cli_printer_kind kind;
    const struct plan *plan;
    struct run *run;
    struct live *live;
    bool *said;       /* per step: its end was printed */
    uint64_t began_ms;
    bool muted, ended;
};

struct cli_printer *cli_printer_create(struct cli *c, enum cli_printer_kind kind, struct loop *loop, const struct plan *plan)
{
    struct cli_printer *p = xcalloc(1, sizeof *p);
    p->c = c;
    p->kind = kind;
    p->plan = plan;
    p->said = xcalloc(plan->step_count + 1, sizeof *p->said);
    p->began_ms = wall_ms();
    if (kind == PRINTER_LIVE)
        p->live = live_create(c, loop, plan);
    return p;
}

void cli_printer_set_run(struct cli_printer *p, struct run *r)
{
    p->run = r;
    p->ended = false;
    if (r)
        memset(p->said, 0, p->plan->step_count * sizeof *p->said);
    if (p->live)
        live_set_run(p->live, r);
}

void cli_printer_mute(struct cli_printer *p)
{
    if (p && !p->muted) {
        p->muted = true;
        if (p->live)
            live_set_run(p->live, NULL);
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        if (null >= 0) {
            dup2(null, 1);
            dup2(null, 2);
            close(null);
        }
    }
}

/* ---- worker output ---- */

void cli_print_line(const struct cli *c, const struct plan *plan, const struct run_line *line)
{
    FILE *to = line->line->stream == WIRE_STREAM_ERR || line->step->kind->phase != PHASE_LAUNCH ? stderr : stdout;
    bool plain = line->step->kind->phase == PHASE_LAUNCH && (!plan->spec->distributed.present || c->given[OPT_NO_PREFIX]);
    if (!plain) {
        bool color = to == stdout ? c->color_out : c->color_err;
        static const char *const colors[] = {"\033[36m", "\033[33m", "\033[35m", "\033[32m", "\033[34m", "\033[31m"};
        if (color)
            fputs(colors[line->line->rank % ARRAY_LEN(colors)], to);
        if (line->step->kind->phase == PHASE_LAUNCH)
            fprintf(to, "default[%u]@%s:", line->line->rank, line->node_name);
        else
            fprintf(to, "%s@%s:", line->step->name, line->node_name);
        fputs(color ? "\033[0m " : " ", to);
    }
    fwrite(line->line->text, 1, line->line->len, to);
    fputc('\n', to);
    if (to == stdout)
        fflush(to);
}

static void json_line(const struct run_line *line)
{
    struct buf b = {0};
    buf_puts(&b, "{\"type\":\"output\",\"step\":");
    buf_json_string(&b, line->step->name, strlen(line->step->name));
    buf_printf(&b, ",\"node\":%u,\"rank\":%u,\"stream\":\"%s\",\"time_ms\":%llu,\"text\":", line->node, line->line->rank,
               line->line->stream == WIRE_STREAM_ERR ? "stderr" : line->line->stream == WIRE_STREAM_OUT ? "stdout" : "note",
               (unsigned long long)line->line->wall_ms);
    buf_json_string(&b, line->line->text, line->line->len);
    buf_puts(&b, "}\n");
    fwrite(b.data, 1, b.len, stdout);
    fflush(stdout);
    buf_free(&b);
}

struct line_ctx {
    struct cli_printer *p;
    const struct run_line *line;
};

static void print_line_ctx(void *arg)
{
    struct line_ctx *ctx = arg;
    cli_print_line(ctx->p->c, ctx->p->plan, ctx->line);
}

static void on_line(void *arg, const struct run_line *line)
{
    struct cli_printer *p = arg;
    if (p->kind == PRINTER_JSON) {
        json_line(line);
        return;
    }
    if (line->step->kind->phase == PHASE_SETUP && !p->c->given[OPT_VERBOSE])
        return;
    struct line_ctx ctx = {p, line};
    if (p->live && !p->muted)
        live_print_above(p->live, print_line_ctx, &ctx);
    else
        print_line_ctx(&ctx);
}

/* ---- rhrun's own lines ---- */

static void say_step(struct cli_printer *p, const struct plan_step *step, const struct run_counts *n)
{
    char took[32] = "";
    struct buf set = {0};
    plan_node_set(p->plan, step->on, &set);
    if (n->ended_ms > n->started_ms && n->started_ms)
        cli_duration(n->ended_ms - n->started_ms, took);
    if (n->failed)
        fprintf(stderr, "rhrun: %s: failed on %u of %u node%s\n", step->name, n->failed, n->total, n->total == 1 ? "" : "s");
    else if (n->done == 0)
        fprintf(stderr, "rhrun: %s: kept (%s)\n", step->name, set.data);
    else if (n->kept)
        fprintf(stderr, "rhrun: %s: done on %u, kept on %u node%s%s%s\n", step->name, n->done, n->kept, n->total == 1 ? "" : "s", took[0] ? ", " : "", took);
    else
        fprintf(stderr, "rhrun: %s: done (%s)%s%s\n", step->name, set.data, took[0] ? ", " : "", took);
    buf_free(&set);
}

static void on_changed(void *arg)
{
    struct cli_printer *p = arg;
    if (p->live) {
        if (!p->muted)
            live_changed(p->live);
        return;
    }
    if (p->kind != PRINTER_PLAIN || p->c->given[OPT_QUIET] || !p->run)
        return;
    for (size_t i = 0; i < p->plan->step_count; i++) {
        const struct plan_step *step = &p->plan->steps[i];
        struct run_counts n;
        if (p->said[i] || step->kind->phase == PHASE_LAUNCH)
            continue;
        run_step_counts(p->run, step, &n);
        if (n.total == 0 || n.kept + n.done + n.failed < n.total)
            continue;
        p->said[i] = true;
        say_step(p, step, &n);
    }
}

static void say_event(struct cli_printer *p, const struct event *e)
{
    char took[32];
    switch (e->type) {
    case EVENT_RUN_OPENED:
        fprintf(stderr, "rhrun: run %s of %s on %u node%s\n", e->run, p->plan->spec->name, e->node_count, e->node_count == 1 ? "" : "s");
        break;
    case EVENT_STARTED:
        if (e->generation && p->plan->spec->distributed.present)
            fprintf(stderr, "rhrun: launch: %u worker%s on %u node%s%s\n", p->plan->world_size, p->plan->world_size == 1 ? "" : "s", e->attempt_count,
                    e->attempt_count == 1 ? "" : "s", e->generation > 1 ? " (again)" : "");
        break;
    case EVENT_RESTART:
        fprintf(stderr, "rhrun: restart %u: %s\n", run_restarts(p->run), e->reason ? e->reason : "");
        break;
    case EVENT_REISSUE:
    case EVENT_CANCELLING:
        fprintf(stderr, "rhrun: %s: %s\n", e->type == EVENT_CANCELLING ? "stopping" : "starting again", e->reason ? e->reason : "");
        break;
    case EVENT_NOTE:
        if (e->reason)
            fprintf(stderr, "rhrun: %s%s%s%s\n", e->node < p->plan->spec->host_count && !str_starts(e->reason, "node \"") ? p->plan->spec->hosts[e->node].name : "",
                    e->node < p->plan->spec->host_count && !str_starts(e->reason, "node \"") ? ": " : "", e->reason, "");
        break;
    case EVENT_RUN_CLOSED:
        if (e->status == RUN_DONE) {
            cli_duration(wall_ms() - p->began_ms, took);
            fprintf(stderr, "rhrun: done in %s (run %s)\n", took, e->run);
        }
        break;
    case EVENT_NODE_BOUND:
    case EVENT_FINISHED:
    case EVENT_SETTLED: break;
    }
}

struct event_ctx {
    struct cli_printer *p;
    const struct event *e;
};

static void say_event_ctx(void *arg)
{
    struct event_ctx *ctx = arg;
    say_event(ctx->p, ctx->e);
}

static void on_event(void *arg, const struct event *e)
{
    struct cli_printer *p = arg;
    if (p->kind == PRINTER_JSON) {
        struct buf b = {0};
        event_to_json(e, &b);
        buf_putc(&b, '\n');
        fwrite(b.data, 1, b.len, stdout);
        fflush(stdout);
        buf_free(&b);
        return;
    }
    if (p->c->given[OPT_QUIET])
        return;
    struct event_ctx ctx = {p, e};
    bool shown_live = e->type == EVENT_RUN_OPENED || e->type == EVENT_STARTED || e->type == EVENT_RUN_CLOSED;
    if (!p->live || p->muted)
        say_event(p, e);
    else if (!shown_live)
        live_print_above(p->live, say_event_ctx, &ctx);
}

struct run_observer cli_printer_observer(struct cli_printer *p)
{
    struct run_observer o = {on_event, on_line, on_changed, p};
    return o;
}

void cli_printer_end(struct cli_printer *p)
{
    if (p->ended)
        return;
    p->ended = true;
    if (p->live)
        live_end(p->live);
    fflush(stdout);
}

void cli_printer_destroy(struct cli_printer *p)
{
    if (!p)
        return;
    live_destroy(p->live);
    free(p->said);
    free(p);
}
