/* Shared by all printers (printer.h). Lines that a carriage return ends (progress bars) are held back: a kind that
 * draws bars shows the latest line of each stream; other kinds print one per second and stream. A stream's last line is
 * always printed. */
#include "printer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PROGRESS_MS = 1000,
    CHANGED_MS = 20,
    MOVED_MS = 250,  /* how often a transfer is looked at */
    TRACES_MS = 100, /* how often held tracebacks are looked at */
    SHOWN_MS = 50,   /* the delay before the shown place is saved */
    RECENT_LINES = 10
};

static void on_progress_timer(void *arg);
static void on_changed_timer(void *arg);
static void on_moved_timer(void *arg);
static void on_traces_timer(void *arg);
static const struct traces_sink traces_sink;
static void on_shown_timer(void *arg);
static void put_held_back(struct cli_printer *p);

static const struct printer_kind *kind_of_lines(const struct cli *c)
{
    return c->given[OPT_QUIET] ? &printer_quiet : &printer_plain;
}

bool cli_has_view(const struct cli *c)
{
    struct stat st;
    const char *term = getenv("TERM");
    if (c->given[OPT_JSON] || c->given[OPT_QUIET] || c->given[OPT_DETACHED_FD] || !isatty(2) || !term || !term[0] ||
        strcmp(term, "dumb") == 0 || !term_foreground())
        return false;
    /* A pipe may end on the same terminal (tee, less): its lines would tear the view. */
    return isatty(1) || (fstat(1, &st) == 0 && (S_ISREG(st.st_mode) || S_ISCHR(st.st_mode)));
}

static const struct printer_kind *choose(const struct cli *c)
{
    if (c->given[OPT_JSON] && !c->given[OPT_DETACHED_FD])
        return &printer_json;
    return cli_has_view(c) ? &printer_live : kind_of_lines(c);
}

static void set_kind(struct cli_printer *p, const struct printer_kind *kind)
{
    if (p->kind == kind)
        return;
    if (p->kind && p->kind->destroy)
        p->kind->destroy(p->own);
    p->kind = kind;
    p->own = kind->create ? kind->create(p) : NULL;
}

struct cli_printer *cli_printer_create(struct cli *c, struct loop *loop, const struct plan *plan,
                                       void (*detach)(void *arg), void *detach_arg)
{
    struct cli_printer *p = xcalloc(1, sizeof *p);
    p->c = c;
    p->loop = loop;
    p->plan = plan;
    p->detach = detach;
    p->detach_arg = detach_arg;
    p->out = out_create(loop);
    p->outcomes = xcalloc(plan->step_count * plan->node_count + 1, 1);
    p->began_ms = wall_ms();
    p->progress_timer = loop_timer_create(loop, on_progress_timer, p);
    p->changed_timer = loop_timer_create(loop, on_changed_timer, p);
    p->moved_timer = loop_timer_create(loop, on_moved_timer, p);
    p->shown_timer = loop_timer_create(loop, on_shown_timer, p);
    p->traces_timer = loop_timer_create(loop, on_traces_timer, p);
    struct traces_sink sink = traces_sink;
    sink.arg = p;
    p->traces = traces_create(&sink);
    p->quiet_output = c->given[OPT_DETACHED_FD];
    set_kind(p, choose(c));
    return p;
}

/* ---- how far people have seen the output ---- */

void cli_printer_keep_place(struct cli_printer *p, struct journal *journal)
{
    p->journal = p->kind->people && !p->quiet_output && !shown_to_nobody() ? journal : NULL;
}

static struct shown *shown_of(struct cli_printer *p)
{
    if (!p->shown && p->journal && p->run)
        p->shown = shown_open(p->journal, run_id(p->run), false);
    return p->shown;
}

static void shown_touch(struct cli_printer *p)
{
    p->shown_more = true;
    if (!p->shown_frozen && !loop_timer_active(p->shown_timer))
        loop_timer_start(p->shown_timer, SHOWN_MS + shown_wait_ms(p->shown));
}

/* Passes all text to p->out or to the terminal. False: the terminal takes nothing now. */
static bool flush(struct cli_printer *p)
{
    return !p->kind->flush || p->kind->flush(p);
}

/* Nothing more will be shown. written: all text was written. */
static void shown_end(struct cli_printer *p, bool written)
{
    loop_timer_stop(p->shown_timer);
    if (p->shown && shown_hung_up()) {
        shown_step_back(p->shown);
    } else if (p->shown && written) {
        shown_freeze(p->shown);
        shown_save(p->shown);
    }
    shown_close(p->shown);
    p->shown = NULL;
    p->shown_frozen = false;
}

static void on_shown_timer(void *arg)
{
    struct cli_printer *p = arg;
    if (shown_hung_up()) {
        shown_end(p, false);
        p->journal = NULL;
        return;
    }
    if (!p->shown_frozen && !traces_hold(p->traces) && flush(p)) {
        shown_freeze(p->shown);
        p->shown_frozen = true;
        p->shown_more = false;
        p->shown_mark = out_mark(p->out);
        out_flush(p->out);
    }
    if (p->shown_frozen && out_passed(p->out, p->shown_mark)) {
        shown_save(p->shown);
        p->shown_frozen = false;
    }
    if (p->shown_frozen || p->shown_more)
        loop_timer_start(p->shown_timer, SHOWN_MS + shown_wait_ms(p->shown));
}

void cli_printer_set_run(struct cli_printer *p, struct run *r)
{
    p->run = r;
    p->ended = false;
    p->closed = RUN_OPEN;
    traces_forget(p->traces);
    progress_clear(&p->progress);
    if (r)
        memset(p->outcomes, 0, p->plan->step_count * p->plan->node_count);
    if (p->kind->run)
        p->kind->run(p);
}

void cli_printer_background(struct cli_printer *p)
{
    put_held_back(p);
    shown_end(p, flush(p) && out_drain(p->out));
    p->journal = NULL;
    p->quiet_output = true;
    p->c->color_err = p->c->color_out = false;
    set_kind(p, kind_of_lines(p->c));
}

/* ---- worker output ---- */

int printer_line_fd(const struct run_line *line)
{
    return line->line->stream != WIRE_STREAM_OUT || !cli_is_work(line->step) ? 2 : 1;
}

void printer_put_line(struct cli_printer *p, struct progress *s, const struct run_line *line)
{
    const struct watch_line *text = line->line;
    int fd = printer_line_fd(line);
    if (s->prefix.len)
        out_put(p->out, fd, s->prefix.data, s->prefix.len);
    if (text->open && !s->prefix.len && p->plan->worker_count <= 1) {
        out_put_open(p->out, fd, text->text, text->len);
        return;
    }
    out_put(p->out, fd, text->text, text->len);
    out_put(p->out, fd, "\n", 1);
}

static void make_prefix(const struct cli_printer *p, struct progress *s, const struct run_line *line)
{
    bool launch = cli_is_work(line->step), note = line->line->stream == WIRE_STREAM_NOTE;
    bool alone = line->step->kind->phase == PHASE_LAUNCH && !p->plan->spec->distributed.present;
    if (launch && !note && (alone || p->c->given[OPT_NO_PREFIX]))
        return;
    const struct cli_worker worker = cli_worker_of(p->plan, line->step, line->line->rank);
    cli_line_prefix(&s->prefix, printer_line_fd(line) == 1 ? p->c->color_out : p->c->color_err, &worker,
                    line->step->label, line->node_name, line->line->rank);
}

/* There are many lines: the prefix is made once for each stream, and text is copied only into the output. */
static void put_line(struct cli_printer *p, struct progress *s, const struct run_line *line)
{
    if (p->kind->people && !s->prefix.len)
        make_prefix(p, s, line);
    if (shown_of(p))
        p->shown->lines++;
    p->kind->output(p, s, line);
}

/* The held-back line of a stream. */
static void put_progress(struct cli_printer *p, struct progress *s, uint64_t now)
{
    struct watch_line text = {s->rank, s->stream, s->text.data ? s->text.data : "", s->text.len, s->wall_ms,
                              true,    false};
    struct run_line line = {s->step, s->node, s->node_name, &text};
    s->waits = s->drawn = false;
    s->shown_ms = now;
    put_line(p, s, &line);
}

/* All held-back lines: the last line of a stream that a lost node ended, or that another process shows from now on. */
static void put_held_back(struct cli_printer *p)
{
    loop_timer_stop(p->traces_timer);
    traces_end(p->traces);
    for (size_t i = 0; i < p->progress.count; i++) {
        struct progress *s = p->progress.items[i];
        if (s->waits || s->drawn)
            put_progress(p, s, 0);
        s->active = false;
    }
}

static void on_progress_timer(void *arg)
{
    struct cli_printer *p = arg;
    uint64_t now = mono_ns() / 1000000;
    bool left = false;
    for (size_t i = 0; i < p->progress.count; i++) {
        struct progress *s = p->progress.items[i];
        if (s->waits && now - s->shown_ms >= PROGRESS_MS)
            put_progress(p, s, now);
        left = left || s->waits;
    }
    if (left)
        loop_timer_start(p->progress_timer, PROGRESS_MS / 4);
}

static void hold_back(struct cli_printer *p, struct progress *s, const struct watch_line *line)
{
    uint64_t now = mono_ns() / 1000000;
    if (line->len == 0)
        return; /* "\r" before the text: bars begin like that */
    s->active = true;
    s->wall_ms = line->wall_ms;
    buf_clear(&s->text);
    buf_append(&s->text, line->text, line->len);
    if (p->kind->bar && p->kind->bar(p, s)) {
        s->drawn = true;
        return;
    }
    s->waits = true;
    if (!s->shown_ms || now - s->shown_ms >= PROGRESS_MS)
        put_progress(p, s, now);
    else if (!loop_timer_active(p->progress_timer))
        loop_timer_start(p->progress_timer, PROGRESS_MS / 4);
}

static bool is_printed(const struct cli_printer *p, const struct plan_step *step)
{
    return !p->kind->people || step->kind->phase != PHASE_SETUP || p->c->given[OPT_VERBOSE];
}

static void on_place(void *arg, const struct plan_step *step, const char *attempt, uint64_t from, uint64_t to)
{
    struct cli_printer *p = arg;
    if (!is_printed(p, step) || !shown_of(p))
        return;
    shown_set(p->shown, attempt, from, to);
    shown_touch(p);
}

/* ---- tracebacks that many workers print ---- */

static bool is_traced(const struct cli_printer *p, const struct plan_step *step)
{
    return p->kind->note && step->kind->ranked && p->plan->spec->distributed.present;
}

static uint64_t put_traced(void *arg, struct progress *s, const struct watch_line *text)
{
    struct cli_printer *p = arg;
    const struct run_line line = {s->step, s->node, s->node_name, text};
    progress_end(s);
    put_line(p, s, &line);
    return s->serial = ++p->progress.serial;
}

static void name_traced(void *arg, const struct progress *s, struct buf *b)
{
    struct cli_printer *p = arg;
    struct buf prefix = {0};
    const struct cli_worker worker = cli_worker_of(p->plan, s->step, s->rank);
    cli_line_prefix(&prefix, false, &worker, s->step->name, s->node_name, s->rank);
    buf_append(b, prefix.data, prefix.len - strlen(": "));
    buf_free(&prefix);
}

static void say_traced(void *arg, const struct buf *line)
{
    struct cli_printer *p = arg;
    p->kind->note(p, line);
}

static const struct traces_sink traces_sink = {put_traced, name_traced, say_traced, NULL};

static void on_traces_timer(void *arg)
{
    struct cli_printer *p = arg;
    if (traces_look(p->traces))
        loop_timer_start(p->traces_timer, TRACES_MS);
}

static void on_line(void *arg, const struct run_line *line)
{
    struct cli_printer *p = arg;
    if (p->quiet_output)
        return;
    if (p->kind->heard)
        p->kind->heard(p, line);
    if (!is_printed(p, line->step))
        return;
    struct progress *s = progress_of(&p->progress, line);
    if (is_traced(p, line->step) && traces_take(p->traces, s, line->line)) {
        if (!loop_timer_active(p->traces_timer))
            loop_timer_start(p->traces_timer, TRACES_MS);
        return;
    }
    s->serial = ++p->progress.serial;
    if (line->line->returned) {
        hold_back(p, s, line->line);
        return;
    }
    if (s->active && line->line->len == 0 && !line->line->open) { /* the bar's last state, then a bare newline */
        if (s->waits || s->drawn)
            put_progress(p, s, mono_ns() / 1000000);
        s->active = false;
        return;
    }
    progress_end(s);
    put_line(p, s, line);
}

bool cli_printer_has_shown(const struct cli_printer *p, const char *step, const char *node_name, uint32_t rank)
{
    for (size_t i = 0; p && i < p->progress.count; i++) {
        const struct progress *s = p->progress.items[i];
        if (s->rank == rank && str_eq(s->step->name, step) && str_eq(s->node_name, node_name) &&
            s->serial + RECENT_LINES > p->progress.serial)
            return true;
    }
    return p && traces_has_shown(p->traces, step, node_name, rank, p->progress.serial);
}

/* ---- steps ---- */

void printer_look_again(struct cli_printer *p, uint64_t after_ms)
{
    if (!loop_timer_active(p->changed_timer))
        loop_timer_start(p->changed_timer, after_ms);
}

static void on_moved_timer(void *arg)
{
    struct cli_printer *p = arg;
    if (p->kind->moved && p->kind->moved(p))
        loop_timer_start(p->moved_timer, MOVED_MS);
}

static void on_changed_timer(void *arg)
{
    struct cli_printer *p = arg;
    if (p->kind->changed)
        p->kind->changed(p);
    if (!loop_timer_active(p->moved_timer))
        loop_timer_start(p->moved_timer, MOVED_MS);
}

/* Many nodes change within one turn: the steps are checked once for all of them. */
static void on_changed(void *arg)
{
    struct cli_printer *p = arg;
    if (p->kind->changed)
        printer_look_again(p, CHANGED_MS);
}

/* ---- events ---- */

static void note_outcomes(struct cli_printer *p, const struct event *e)
{
    uint32_t nodes = p->plan->node_count;
    for (size_t i = 0; i < p->plan->step_count; i++) {
        const char *name = p->plan->steps[i].name;
        if (e->type == EVENT_FINISHED && e->finished.node < nodes && str_eq(e->finished.step, name))
            p->outcomes[i * nodes + e->finished.node] = (uint8_t)e->finished.outcome;
        for (uint32_t k = 0; e->type == EVENT_STARTED && k < e->started.attempt_count; k++)
            if (e->started.attempts[k].node < nodes && str_eq(e->started.attempts[k].step, name))
                p->outcomes[i * nodes + e->started.attempts[k].node] = OUTCOME_NONE;
    }
}

/* Whether the end of the run will report this, for all such nodes at once. */
static bool tells_of_fault(const struct cli_printer *p, const struct event *e)
{
    struct run_node_view v;
    if (e->type != EVENT_NOTE || !p->run || e->note.node >= p->plan->node_count)
        return false;
    run_node(p->run, e->note.node, &v);
    return v.presence == PRESENCE_GONE && str_eq(v.error, e->note.reason);
}

void printer_event_text(struct cli_printer *p, const struct event *e, struct buf *b)
{
    if (tells_of_fault(p, e)) {
        buf_puts(&p->away, "rhrun: ");
        plain_event(&p->away, p->plan, e, 0);
        buf_putc(&p->away, '\n');
        return;
    }
    plain_event(b, p->plan, e, p->run ? run_counted_restarts(p->run) : 0);
}

static void on_event(void *arg, const struct event *e)
{
    struct cli_printer *p = arg;
    snprintf(p->run_id, sizeof p->run_id, "%s", e->run ? e->run : "");
    note_outcomes(p, e);
    if (e->type == EVENT_METRICS)
        shown_metrics_take(&p->metrics, &e->metrics);
    if (e->type == EVENT_RUN_CLOSED)
        p->closed = e->closed.status;
    if (e->type == EVENT_RUN_CLOSED || e->type == EVENT_RESTART || e->type == EVENT_REISSUE)
        traces_end(p->traces);
    if (e->type == EVENT_RESTART || e->type == EVENT_REISSUE)
        traces_forget(p->traces);
    plain_warn_dropped(&p->dropped, p->plan, e); /* printed at the end, where people see it */
    if (p->kind->note && shown_of(p)) {
        p->shown->events = e->seq;
        shown_touch(p);
    }
    if (p->kind->event)
        p->kind->event(p, e);
}

void cli_printer_stopping(struct cli_printer *p)
{
    p->stops++;
    if (p->kind->stopping)
        p->kind->stopping(p);
}

static void on_port(void *arg, const struct run_port *port)
{
    struct cli_printer *p = arg;
    struct buf b = {0};
    if (p->kind->port)
        p->kind->port(p, port);
    else if (p->kind->note)
        plain_port(&b, port);
    if (b.len)
        p->kind->note(p, &b);
    buf_free(&b);
    on_changed(p);
}

struct run_observer cli_printer_observer(struct cli_printer *p)
{
    struct run_observer o = {
        .event = on_event, .line = on_line, .changed = on_changed, .place = on_place, .port = on_port, .arg = p};
    return o;
}

/* ---- the end ---- */

void printer_put_dropped(struct cli_printer *p)
{
    if (p->dropped.len)
        out_put(p->out, 2, p->dropped.data, p->dropped.len);
}

void printer_put_done(struct cli_printer *p)
{
    char took[32];
    const char *on = p->c->color_err ? "\033[32m" : "", *off = p->c->color_err ? "\033[0m" : "";
    if (p->closed != RUN_DONE)
        return;
    if (p->metrics) {
        struct buf values = {0};
        shown_metrics_put(p->metrics, &values);
        out_printf(p->out, 2, "rhrun: %s\n", values.data ? values.data : "");
        buf_free(&values);
    }
    cli_duration(wall_ms() - p->began_ms, took);
    out_printf(p->out, 2, "rhrun: %sdone in %s (run %s)%s\n", on, took, p->run_id, off);
}

void cli_printer_end(struct cli_printer *p, enum cli_printer_end how)
{
    if (p->ended)
        return;
    p->ended = true;
    loop_timer_stop(p->progress_timer);
    loop_timer_stop(p->changed_timer);
    loop_timer_stop(p->moved_timer);
    put_held_back(p);
    if (p->closed == RUN_DONE && p->away.len)
        buf_append(&p->dropped, p->away.data, p->away.len);
    if (p->kind->finished)
        p->kind->finished(p, how);
    out_finish(p->out);
    shown_end(p, true);
}

void cli_printer_destroy(struct cli_printer *p)
{
    if (!p)
        return;
    if (p->kind->destroy)
        p->kind->destroy(p->own);
    out_destroy(p->out);
    loop_timer_destroy(p->traces_timer);
    traces_destroy(p->traces);
    loop_timer_destroy(p->progress_timer);
    loop_timer_destroy(p->changed_timer);
    loop_timer_destroy(p->moved_timer);
    loop_timer_destroy(p->shown_timer);
    shown_close(p->shown);
    progress_clear(&p->progress);
    buf_free(&p->dropped);
    buf_free(&p->away);
    shown_metrics_free(p->metrics);
    free(p->outcomes);
    free(p);
}
