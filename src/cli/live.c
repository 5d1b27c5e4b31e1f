/* The live view: a line per step with node counts, redrawn at most 20 times a second. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { FRAME_MS = 50, TICK_MS = 120 };

struct live {
    struct cli *c;
    const struct plan *plan;
    struct run *run;
    struct loop_timer *timer;
    uint64_t began_ms;
    unsigned spin, lines;
};

static void schedule(struct live *l, uint64_t after)
{
    if (l->run && !loop_timer_active(l->timer))
        loop_timer_start(l->timer, after);
}

static void erase(struct live *l, struct buf *b)
{
    if (l->lines)
        buf_printf(b, "\033[%uA\033[J", l->lines);
    l->lines = 0;
}

static unsigned width(void)
{
    struct winsize w;
    return ioctl(2, TIOCGWINSZ, &w) == 0 && w.ws_col >= 20 ? w.ws_col : 80;
}

static void bar(struct buf *b, const struct run_counts *n)
{
    enum { CELLS = 16 };
    unsigned full = n->total ? (n->done + n->kept) * CELLS / n->total : 0;
    buf_putc(b, '[');
    for (unsigned i = 0; i < CELLS; i++)
        buf_putc(b, i < full ? '#' : i == full && n->running ? '>' : '.');
    buf_putc(b, ']');
}

static void step_line(struct live *l, const struct plan_step *step, unsigned cols, struct buf *out)
{
    static const char spinner[] = "|/-\\";
    struct run_counts n;
    struct buf b = {0};
    char took[32] = "";
    run_step_counts(l->run, step, &n);
    if (n.total == 0)
        return;
    bool over = n.done + n.kept + n.failed == n.total;
    const char *mark = n.failed ? "x" : over ? n.done ? "+" : "=" : n.running ? NULL : " ";
    if (n.started_ms && (n.done || n.failed || n.running))
        cli_duration((over && n.ended_ms ? n.ended_ms : wall_ms()) - n.started_ms, took);
    char spin[2] = {spinner[l->spin % 4], 0};
    buf_printf(&b, " %s %-20.20s ", mark ? mark : spin, step->name);
    if (n.total > 1) {
        bar(&b, &n);
        buf_printf(&b, " %u/%u", n.done + n.kept, n.total);
    } else {
        buf_puts(&b, over ? n.failed ? "failed" : n.done ? "done" : "kept" : n.running ? "running" : "waiting");
    }
    if (n.total > 1 && n.kept)
        buf_printf(&b, ", %u kept", n.kept);
    if (n.failed && n.total > 1)
        buf_printf(&b, ", %u failed", n.failed);
    if (took[0])
        buf_printf(&b, "  %s", took);
    if (b.len > cols - 1)
        b.len = cols - 1;
    const char *color = !l->c->color_err ? "" : n.failed ? "\033[31m" : over ? n.done ? "\033[32m" : "\033[2m" : n.running ? "\033[1m" : "\033[2m";
    buf_puts(out, color);
    buf_append(out, b.data, b.len);
    buf_puts(out, l->c->color_err ? "\033[0m\n" : "\n");
    l->lines++;
    buf_free(&b);
}

static void head_line(struct live *l, unsigned cols, struct buf *out)
{
    char took[32], line[256];
    unsigned ready = 0, away = 0;
    struct run_node_view v;
    const char *phase = NULL;
    for (uint32_t n = 0; n < l->plan->node_count; n++) {
        run_node(l->run, n, &v);
        ready += v.state == NODE_READY;
        away += v.state == NODE_WAITING || v.state == NODE_FAILED;
        if (v.state == NODE_CONNECTING && !phase)
            phase = transport_phase_name(v.phase);
    }
    cli_duration(wall_ms() - l->began_ms, took);
    int len = snprintf(line, sizeof line, "%s  %u/%u nodes%s%s", l->plan->spec->name, ready, l->plan->node_count, phase ? ", " : "", phase ? phase : "");
    if (away)
        len += snprintf(line + len, sizeof line - (size_t)len, ", %u away", away);
    snprintf(line + len, sizeof line - (size_t)len, "  %s", took);
    line[cols - 1 < sizeof line - 1 ? cols - 1 : sizeof line - 1] = 0;
    buf_printf(out, "%s%s%s\n", l->c->color_err ? "\033[1m" : "", line, l->c->color_err ? "\033[0m" : "");
    l->lines++;
}

static void draw(struct live *l, struct buf *out)
{
    unsigned cols = width();
    head_line(l, cols, out);
    for (size_t i = 0; i < l->plan->step_count; i++)
        step_line(l, &l->plan->steps[i], cols, out);
}

static void flush(struct buf *b)
{
    fflush(stdout);
    if (b->len)
        write_all(2, b->data, b->len);
    buf_free(b);
}

static void redraw(struct live *l)
{
    struct buf b = {0};
    erase(l, &b);
    if (l->run)
        draw(l, &b);
    flush(&b);
}

static void on_timer(void *arg)
{
    struct live *l = arg;
    l->spin++;
    redraw(l);
    schedule(l, TICK_MS);
}

struct live *live_create(struct cli *c, struct loop *loop, const struct plan *plan)
{
    struct live *l = xcalloc(1, sizeof *l);
    l->c = c;
    l->plan = plan;
    l->timer = loop_timer_create(loop, on_timer, l);
    l->began_ms = wall_ms();
    return l;
}

void live_set_run(struct live *l, struct run *r)
{
    l->run = r;
    if (r)
        schedule(l, FRAME_MS);
    else
        loop_timer_stop(l->timer);
}

void live_changed(struct live *l)
{
    schedule(l, FRAME_MS);
}

void live_print_above(struct live *l, void (*print)(void *arg), void *arg)
{
    struct buf b = {0};
    erase(l, &b);
    flush(&b);
    print(arg);
    fflush(stdout);
    schedule(l, FRAME_MS);
}

void live_end(struct live *l)
{
    redraw(l);
    l->lines = 0;
    l->run = NULL;
    loop_timer_stop(l->timer);
}

void live_destroy(struct live *l)
{
    if (!l)
        return;
    loop_timer_destroy(l->timer);
    free(l);
}
