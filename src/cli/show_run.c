/* What a run prints while it runs: plain lines, NDJSON, or the live view (live.c) with lines above it. Lines of
 * workers that a carriage return ends (progress bars) are held back: the live view shows the latest of each stream,
 * elsewhere one per second and stream is printed; a stream's last line always is. */
#include "internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PROGRESS_MS = 1000,
    STEPS_MS = 20,
    JSON_PROGRESS_MS = 500,
    TRANSFER_MS = 250,        /* how often a transfer is looked at */
    PLAIN_TRANSFER_MS = 5000, /* and told, where nothing can be redrawn */
    TRACES_MS = 100,          /* how often held tracebacks are looked at */
    SHOWN_MS = 50,            /* how far it was shown is kept so soon */
    RECENT_LINES = 10
};

struct cli_printer {
    struct cli *c;
    enum cli_printer_kind kind;
    const struct plan *plan;
    struct run *run;
    struct live *live;
    struct out *out;
    struct progress_table progress;
    struct traces *traces;
    struct loop_timer *traces_timer;
    struct loop_timer *progress_timer; /* prints what waits */
    struct loop_timer *steps_timer;    /* looks which steps have ended */
    struct loop_timer *transfer_timer; /* looks how far files are, as nobody calls for that */
    uint8_t *outcomes;                 /* [step * node_count + node]: enum outcome of the last attempt */
    bool *said;                        /* per step: its end was printed */
    struct json_seen {
        uint32_t done, running, failed;
        uint64_t bytes, at_ms;
    } * seen;        /* per step, for progress lines */
    struct buf kept; /* names of kept steps that no line has told yet */
    unsigned kept_count, stops;
    struct shown_metrics *metrics;
    struct buf dropped; /* lines of the end: output that is in no log */
    uint64_t began_ms;
    char run_id[17];
    enum run_status closed;
    struct journal *journal; /* of the run whose output people see; NULL = they do not */
    struct shown *shown;     /* how far, once there was any */
    struct loop_timer *shown_timer;
    bool shown_frozen; /* it is to be saved once all is written that stands before the mark */
    uint64_t shown_mark;
    bool shown_more;   /* something was put since */
    bool quiet_output; /* workers' lines go nowhere: there is no terminal, the logs have them */
    bool ended;
};

static void on_progress_timer(void *arg);
static void on_steps_timer(void *arg);
static void on_transfer_timer(void *arg);
static void on_traces_timer(void *arg);
static const struct traces_sink traces_sink;
static void on_shown_timer(void *arg);
static void put_held_back(struct cli_printer *p);

enum cli_printer_kind cli_printer_choose(const struct cli *c)
{
    struct stat st;
    const char *term = getenv("TERM");
    if (c->given[OPT_JSON])
        return c->given[OPT_DETACHED_FD] ? PRINTER_PLAIN : PRINTER_JSON;
    if (c->given[OPT_QUIET] || c->given[OPT_DETACHED_FD] || !isatty(2) || !term || !term[0] ||
        strcmp(term, "dumb") == 0 || !term_foreground())
        return PRINTER_PLAIN;
    /* A pipe may end on the same terminal (tee, less): lines from there would tear the view. */
    if (isatty(1) || (fstat(1, &st) == 0 && (S_ISREG(st.st_mode) || S_ISCHR(st.st_mode))))
        return PRINTER_LIVE;
    return PRINTER_PLAIN;
}

struct cli_printer *cli_printer_create(struct cli *c, enum cli_printer_kind kind, struct loop *loop,
                                       const struct plan *plan)
{
    struct cli_printer *p = xcalloc(1, sizeof *p);
    p->c = c;
    p->kind = kind;
    p->plan = plan;
    p->out = out_create(loop);
    p->outcomes = xcalloc(plan->step_count * plan->node_count + 1, 1);
    p->said = xcalloc(plan->step_count + 1, sizeof *p->said);
    p->seen = xcalloc(plan->step_count + 1, sizeof *p->seen);
    p->began_ms = wall_ms();
    p->progress_timer = loop_timer_create(loop, on_progress_timer, p);
    p->steps_timer = loop_timer_create(loop, on_steps_timer, p);
    p->transfer_timer = loop_timer_create(loop, on_transfer_timer, p);
    p->shown_timer = loop_timer_create(loop, on_shown_timer, p);
    p->traces_timer = loop_timer_create(loop, on_traces_timer, p);
    struct traces_sink sink = traces_sink;
    sink.arg = p;
    p->traces = traces_create(&sink);
    p->quiet_output = c->given[OPT_DETACHED_FD];
    if (kind == PRINTER_LIVE)
        p->live = live_create(c, loop, plan, &p->progress, p->outcomes);
    return p;
}

void cli_printer_on_detach(struct cli_printer *p, void (*fn)(void *arg), void *arg)
{
    if (p->live)
        live_on_detach(p->live, fn, arg);
}

/* ---- how far people have seen it ---- */

void cli_printer_keep_place(struct cli_printer *p, struct journal *journal)
{
    p->journal = p->kind == PRINTER_JSON || p->quiet_output || shown_to_nobody() ? NULL : journal;
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

/* Nothing more is shown. written: all that was put is. */
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
    if (!p->shown_frozen && !traces_hold(p->traces) && (!p->live || live_flush(p->live))) {
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
    if (r) {
        memset(p->said, 0, p->plan->step_count * sizeof *p->said);
        memset(p->seen, 0, p->plan->step_count * sizeof *p->seen);
        memset(p->outcomes, 0, p->plan->step_count * p->plan->node_count);
    }
    if (p->live)
        live_set_run(p->live, r);
}

void cli_printer_background(struct cli_printer *p)
{
    put_held_back(p);
    shown_end(p, (!p->live || live_flush(p->live)) && out_drain(p->out));
    p->journal = NULL;
    live_destroy(p->live);
    p->live = NULL;
    p->kind = PRINTER_PLAIN;
    p->quiet_output = true;
    p->c->color_err = p->c->color_out = false;
}

/* A line of rhrun's own: above the live view, or to stderr. */
static void say(struct cli_printer *p, const struct buf *line)
{
    CLEANUP(cleanup_free) char *text = xasprintf("rhrun: %s\n", line->data);
    if (p->live)
        live_above(p->live, text, strlen(text));
    else
        out_put(p->out, 2, text, strlen(text));
}

/* ---- worker output ---- */

static void put_json(struct cli_printer *p, const struct run_line *line)
{
    const struct cli_worker worker = cli_worker_of(p->plan, line->step, line->line->rank);
    struct buf b = {0};
    cli_json_output(&b, p->run_id, line->step->name, NULL, line->node, &worker, line->line);
    out_put(p->out, 1, b.data, b.len);
    buf_free(&b);
}

/* There are many lines: the prefix is made once for each stream, and nothing is copied but into the output. */
static void put_line(struct cli_printer *p, struct progress *s, const struct run_line *line)
{
    const struct watch_line *text = line->line;
    bool launch = line->step->kind->phase == PHASE_LAUNCH;
    bool note = text->stream == WIRE_STREAM_NOTE;
    int fd = text->stream != WIRE_STREAM_OUT || !launch ? 2 : 1;
    bool bare = launch && !note && (!p->plan->spec->distributed.present || p->c->given[OPT_NO_PREFIX]);
    bool alone = bare && p->plan->worker_count <= 1;
    if (p->kind == PRINTER_JSON) {
        put_json(p, line);
        return;
    }
    if (shown_of(p))
        p->shown->lines++;
    if (!bare && !s->prefix.len) {
        const struct cli_worker worker = cli_worker_of(p->plan, line->step, text->rank);
        cli_line_prefix(&s->prefix, fd == 1 ? p->c->color_out : p->c->color_err, &worker, line->step->name,
                        line->node_name, text->rank);
    }
    if (p->live && isatty(fd)) {
        struct buf b = {0};
        if (!bare)
            buf_append(&b, s->prefix.data, s->prefix.len);
        text_for_screen(&b, text->text, text->len, p->c->color_err);
        buf_putc(&b, '\n');
        live_above(p->live, b.data, b.len);
        buf_free(&b);
        return;
    }
    if (!bare)
        out_put(p->out, fd, s->prefix.data, s->prefix.len);
    if (text->open && alone) {
        out_put_open(p->out, fd, text->text, text->len);
        return;
    }
    out_put(p->out, fd, text->text, text->len);
    out_put(p->out, fd, "\n", 1);
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

/* All there are: a stream that ended by a lost node, or that others show from now on, leaves its last line. */
static void put_held_back(struct cli_printer *p)
{
    loop_timer_stop(p->traces_timer);
    traces_end(p->traces);
    for (size_t i = 0; i < p->progress.count; i++) {
        struct progress *s = p->progress.items[i];
        if (!s->quiet && (s->waits || s->drawn))
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
        return; /* "\r" before the text: the bar's own way to begin */
    s->active = true;
    s->wall_ms = line->wall_ms;
    buf_clear(&s->text);
    buf_append(&s->text, line->text, line->len);
    if (p->live && isatty(s->stream == WIRE_STREAM_OUT ? 1 : 2)) {
        s->drawn = true;
        return;
    }
    s->waits = true;
    if (!s->shown_ms || now - s->shown_ms >= PROGRESS_MS)
        put_progress(p, s, now);
    else if (!loop_timer_active(p->progress_timer))
        loop_timer_start(p->progress_timer, PROGRESS_MS / 4);
}

/* Not printed; but on a terminal it says what an installation that takes minutes is at. */
static void on_setup_line(struct cli_printer *p, const struct run_line *line)
{
    if (!p->live || line->line->len == 0)
        return;
    struct progress *s = progress_of(&p->progress, line);
    s->active = s->quiet = true;
    buf_clear(&s->text);
    buf_append(&s->text, line->line->text, line->line->len);
}

static bool is_printed(const struct cli_printer *p, const struct plan_step *step)
{
    return p->kind == PRINTER_JSON || step->kind->phase != PHASE_SETUP || p->c->given[OPT_VERBOSE];
}

static void on_place(void *arg, const struct plan_step *step, const char *attempt, uint64_t from, uint64_t to)
{
    struct cli_printer *p = arg;
    if (p->quiet_output || !is_printed(p, step) || !shown_of(p))
        return;
    shown_set(p->shown, attempt, from, to);
    shown_touch(p);
}

/* ---- tracebacks that many workers print ---- */

static bool is_traced(const struct cli_printer *p, const struct plan_step *step)
{
    return p->kind != PRINTER_JSON && !p->c->given[OPT_QUIET] && step->kind->ranked &&
           p->plan->spec->distributed.present;
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
    say(arg, line);
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
    if (!is_printed(p, line->step)) {
        on_setup_line(p, line);
        return;
    }
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
        if (!s->quiet && s->rank == rank && str_eq(s->step->name, step) && str_eq(s->node_name, node_name) &&
            s->serial + RECENT_LINES > p->progress.serial)
            return true;
    }
    return p && traces_has_shown(p->traces, step, node_name, rank, p->progress.serial);
}

/* ---- steps ---- */

static void say_kept(struct cli_printer *p)
{
    struct buf b = {0};
    if (p->kept_count == 0)
        return;
    buf_printf(&b, "%u step%s kept: %s", p->kept_count, p->kept_count == 1 ? "" : "s", p->kept.data);
    p->kept_count = 0;
    buf_clear(&p->kept);
    say(p, &b);
    buf_free(&b);
}

static void say_step(struct cli_printer *p, const struct plan_step *step, const struct run_counts *n)
{
    struct buf b = {0};
    p->said[step->id] = true;
    if (n->kept == n->total) {
        buf_printf(&p->kept, "%s%s", p->kept_count++ ? ", " : "", step->name);
        return;
    }
    say_kept(p);
    plain_step(&b, p->plan, step, n, p->outcomes);
    say(p, &b);
    buf_free(&b);
}

/* Plain lines for steps that have ended everywhere; at the end of the run also for those that failed somewhere. */
static void look_at_steps(struct cli_printer *p, bool closing)
{
    struct run_counts n;
    if (p->kind != PRINTER_PLAIN || p->c->given[OPT_QUIET] || !p->run)
        return;
    for (size_t i = 0; i < p->plan->step_count; i++) {
        const struct plan_step *step = &p->plan->steps[i];
        if (p->said[i] || step->kind->phase == PHASE_LAUNCH)
            continue;
        run_step_counts(p->run, step, &n);
        bool over = n.total > 0 && n.kept + n.done + n.failed == n.total;
        if (n.failed ? closing : over)
            say_step(p, step, &n);
    }
}

static void json_progress(struct cli_printer *p)
{
    uint64_t now = mono_ns() / 1000000;
    bool later = false;
    for (size_t i = 0; p->run && i < p->plan->step_count; i++) {
        struct json_seen *s = &p->seen[i];
        struct run_counts n;
        struct run_transfer t;
        run_step_counts(p->run, &p->plan->steps[i], &n);
        run_step_transfer(p->run, &p->plan->steps[i], &t);
        if (n.done + n.kept == s->done && n.running == s->running && n.failed == s->failed && t.bytes_done == s->bytes)
            continue;
        if (n.done + n.kept + n.failed < n.total && s->at_ms && now - s->at_ms < JSON_PROGRESS_MS) {
            later = true;
            continue;
        }
        *s = (struct json_seen){n.done + n.kept, n.running, n.failed, t.bytes_done, now};
        struct buf b = {0};
        cli_json_progress(&b, p->run_id, &p->plan->steps[i], &n, &t);
        out_put(p->out, 1, b.data, b.len);
        buf_free(&b);
    }
    if (later && !loop_timer_active(p->steps_timer))
        loop_timer_start(p->steps_timer, JSON_PROGRESS_MS);
}

/* How far files are, where a line is due. Are any on their way? */
static bool look_at_transfers(struct cli_printer *p)
{
    uint64_t now = mono_ns() / 1000000;
    bool any = false;
    for (size_t i = 0; p->run && i < p->plan->step_count; i++) {
        struct run_transfer t;
        struct json_seen *s = &p->seen[i];
        run_step_transfer(p->run, &p->plan->steps[i], &t);
        if (!t.nodes)
            continue;
        any = true;
        if (p->kind != PRINTER_PLAIN || p->c->given[OPT_QUIET])
            continue;
        if (!s->at_ms)
            s->at_ms = now;
        if (now - s->at_ms < PLAIN_TRANSFER_MS || t.bytes_done == s->bytes)
            continue;
        struct buf b = {0};
        buf_printf(&b, "%s: ", p->plan->steps[i].name);
        plain_transfer(&b, &t);
        say(p, &b);
        buf_free(&b);
        s->at_ms = now;
        s->bytes = t.bytes_done;
    }
    return any;
}

static void on_transfer_timer(void *arg)
{
    struct cli_printer *p = arg;
    if (p->kind == PRINTER_JSON)
        json_progress(p);
    if (look_at_transfers(p))
        loop_timer_start(p->transfer_timer, TRANSFER_MS);
}

static void on_steps_timer(void *arg)
{
    struct cli_printer *p = arg;
    if (p->kind == PRINTER_JSON)
        json_progress(p);
    else
        look_at_steps(p, false);
    if (!loop_timer_active(p->transfer_timer))
        loop_timer_start(p->transfer_timer, TRANSFER_MS);
}

/* Many nodes change within one turn: steps are looked at once for all of them. */
static void on_changed(void *arg)
{
    struct cli_printer *p = arg;
    if (p->live)
        live_changed(p->live);
    else if (!loop_timer_active(p->steps_timer))
        loop_timer_start(p->steps_timer, STEPS_MS);
}

/* ---- events ---- */

static void note_outcomes(struct cli_printer *p, const struct event *e)
{
    uint32_t nodes = p->plan->node_count;
    for (size_t i = 0; i < p->plan->step_count; i++) {
        const char *name = p->plan->steps[i].name;
        if (e->type == EVENT_FINISHED && e->node < nodes && str_eq(e->step, name))
            p->outcomes[i * nodes + e->node] = (uint8_t)e->outcome;
        for (uint32_t k = 0; e->type == EVENT_STARTED && k < e->attempt_count; k++)
            if (e->attempts[k].node < nodes && str_eq(e->attempts[k].step, name))
                p->outcomes[i * nodes + e->attempts[k].node] = OUTCOME_NONE;
    }
}

static void say_done(struct cli_printer *p)
{
    char took[32];
    struct buf b = {0};
    cli_duration(wall_ms() - p->began_ms, took);
    buf_printf(&b, "done in %s (run %s)", took, p->run_id);
    if (p->metrics) {
        struct buf values = {0};
        shown_metrics_put(p->metrics, &values);
        out_printf(p->out, 2, "rhrun: %s\n", values.data ? values.data : "");
        buf_free(&values);
    }
    out_printf(p->out, 2, "rhrun: %s%s%s\n", p->c->color_err ? "\033[32m" : "", b.data,
               p->c->color_err ? "\033[0m" : "");
    buf_free(&b);
}

static void on_event(void *arg, const struct event *e)
{
    struct cli_printer *p = arg;
    struct buf b = {0};
    snprintf(p->run_id, sizeof p->run_id, "%s", e->run ? e->run : "");
    note_outcomes(p, e);
    if (e->type == EVENT_METRICS)
        shown_metrics_take(&p->metrics, e);
    if (e->type == EVENT_RUN_CLOSED)
        p->closed = e->status;
    if (e->type == EVENT_RUN_CLOSED || e->type == EVENT_RESTART || e->type == EVENT_REISSUE)
        traces_end(p->traces);
    if (e->type == EVENT_RESTART || e->type == EVENT_REISSUE)
        traces_forget(p->traces);
    plain_warn_dropped(&p->dropped, p->plan, e); /* said at the end, where it is seen */
    if (p->kind == PRINTER_JSON) {
        if (e->type == EVENT_RUN_CLOSED)
            json_progress(p);
        event_to_json(e, &b);
        buf_putc(&b, '\n');
        out_put(p->out, 1, b.data, b.len);
        buf_free(&b);
        return;
    }
    if (e->type == EVENT_CANCELLING && p->live && !p->stops)
        live_status(p->live, "stopping: TERM sent, KILL after a grace time; Ctrl-C kills at once");
    if (p->c->given[OPT_QUIET])
        return;
    if (!p->quiet_output && shown_of(p)) {
        p->shown->events = e->seq;
        shown_touch(p);
    }
    if (p->live &&
        (e->type == EVENT_RUN_OPENED || e->type == EVENT_STARTED || (e->type == EVENT_CANCELLING && p->stops)))
        return; /* the view shows it */
    plain_event(&b, p->plan, e, p->run ? run_counted_restarts(p->run) : 0);
    if (b.len || e->type == EVENT_RUN_CLOSED) {
        look_at_steps(p, e->type == EVENT_RUN_CLOSED);
        say_kept(p);
    }
    if (b.len)
        say(p, &b);
    buf_free(&b);
}

void cli_printer_stopping(struct cli_printer *p)
{
    struct buf b = {0};
    p->stops++;
    if (p->live) {
        live_status(p->live, p->stops == 1 ? "stopping: TERM sent, Ctrl-C again kills" : "killing: KILL sent");
    } else if (p->kind == PRINTER_PLAIN && p->stops == 2 && !p->c->given[OPT_QUIET]) {
        buf_puts(&b, "killing at once");
        say(p, &b);
    }
    buf_free(&b);
}

struct run_observer cli_printer_observer(struct cli_printer *p)
{
    struct run_observer o = {on_event, on_line, on_changed, on_place, p};
    return o;
}

/* ---- the end ---- */

void cli_printer_end(struct cli_printer *p, enum cli_printer_end how)
{
    if (p->ended)
        return;
    p->ended = true;
    loop_timer_stop(p->progress_timer);
    loop_timer_stop(p->steps_timer);
    loop_timer_stop(p->transfer_timer);
    put_held_back(p);
    if (p->live)
        live_end(p->live, how == PRINTER_SUMMARY);
    if (p->kind != PRINTER_JSON && p->dropped.len) /* with --quiet, too: something is missing */
        out_put(p->out, 2, p->dropped.data, p->dropped.len);
    if (p->kind != PRINTER_JSON && !p->c->given[OPT_QUIET] && p->closed == RUN_DONE)
        say_done(p);
    out_finish(p->out);
    shown_end(p, true);
}

void cli_printer_destroy(struct cli_printer *p)
{
    if (!p)
        return;
    live_destroy(p->live);
    out_destroy(p->out);
    loop_timer_destroy(p->traces_timer);
    traces_destroy(p->traces);
    loop_timer_destroy(p->progress_timer);
    loop_timer_destroy(p->steps_timer);
    loop_timer_destroy(p->transfer_timer);
    loop_timer_destroy(p->shown_timer);
    shown_close(p->shown);
    progress_clear(&p->progress);
    buf_free(&p->kept);
    buf_free(&p->dropped);
    shown_metrics_free(p->metrics);
    free(p->outcomes);
    free(p->said);
    free(p->seen);
    free(p);
}
