/* The live view: the state of the nodes, a line per step, the workers' progress bars, the keys. A frame is one write:
 * the lines for above the view, then the view over its old lines. It never has more lines than the terminal, so it can
 * always be drawn over. */
#include "internal.h"
#include "rhrun/transport.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FRAME_MS = 40,
    TICK_MS = 100,
    STOPPED_MS = 200,
    ABOVE_MAX = 64 << 10,
    HELD_MAX = 8 << 20,
    BARS_MAX = 4,
    FINAL_ROWS = 20,
    METRIC_LINES = 2,
    PORT_LINES = 4,
    KEPT_GROUP = 3,
    STEPS_KEPT = 4 /* kept for steps, however many attempts run */
};

struct item { /* a line of the part with the steps */
    enum { ITEM_STEP, ITEM_KEPT, ITEM_OVER, ITEM_WAITING } kind;
    uint32_t step, count; /* of the first step; how many steps a group has */
};

struct live {
    struct cli *c;
    const struct plan *plan;
    const struct progress_table *progress;
    const uint8_t *outcomes;
    struct run *run;
    struct loop_timer *timer;
    struct term *term;
    struct canvas now, shown; /* shown: on the screen now */
    struct buf above;
    uint64_t dropped; /* lines that were not shown */
    uint64_t began_ms;
    unsigned spin;
    uint32_t steps;            /* with rows of their own: all except steps of points */
    struct run_counts *counts; /* per step, for this frame */
    struct speed *speeds;      /* per step */
    struct item *items;
    struct live_attempts *attempts;
    char status[96];
    bool stopping, utf8;
    void (*detach)(void *arg);
    void *detach_arg;
};

/* ---- text ---- */

static void put_separator(struct canvas *v, bool *begun)
{
    if (*begun)
        canvas_put(v, "", "; ", 2);
    *begun = true;
}

/* ---- the head: name, nodes, time; a second line while nodes are missing ---- */

/* "lost: gpu3, gpu7, 2 more": the nodes in one condition; the count always fits. */
static void put_names(struct live *l, const char *style, const char *label, bool (*is)(const struct run_node_view *v),
                      bool *begun)
{
    struct run_node_view v;
    unsigned count = 0, named = 0;
    for (uint32_t n = 0; n < l->plan->node_count; n++) {
        run_node(l->run, n, &v);
        count += is(&v);
    }
    if (count == 0)
        return;
    put_separator(&l->now, begun);
    if (count == 1)
        canvas_printf(&l->now, style, "%s ", label);
    else
        canvas_printf(&l->now, style, "%u %s: ", count, label);
    for (uint32_t n = 0; n < l->plan->node_count; n++) {
        run_node(l->run, n, &v);
        if (!is(&v))
            continue;
        if (named && canvas_left(&l->now) < text_width(v.name, strlen(v.name)) + 12) {
            canvas_printf(&l->now, style, ", %u more", count - named);
            return;
        }
        canvas_printf(&l->now, style, "%s%s", named++ ? ", " : "", v.name);
    }
}

static bool node_is_lost(const struct run_node_view *v)
{
    return v->presence == PRESENCE_LOST;
}

static bool node_is_failed(const struct run_node_view *v)
{
    return v->presence == PRESENCE_GONE;
}

static unsigned phase_of(const struct run_node_view *v)
{
    return v->phase > TRANSPORT_AGENT ? TRANSPORT_AGENT : v->phase;
}

/* "2 in connect: n5, n31"; names only if they are few. */
static void put_phases(struct live *l, bool *begun)
{
    enum { NAMED_MAX = 8 };
    unsigned phases[TRANSPORT_CLOSED + 1] = {0}, count = 0;
    for (uint32_t n = 0; n < l->plan->node_count; n++) {
        struct run_node_view v;
        run_node(l->run, n, &v);
        if (v.presence == PRESENCE_ABSENT || v.presence == PRESENCE_COMING)
            phases[phase_of(&v)]++;
        count += v.presence == PRESENCE_ABSENT || v.presence == PRESENCE_COMING;
    }
    for (unsigned i = 0; i <= TRANSPORT_AGENT; i++) {
        if (phases[i] == 0)
            continue;
        put_separator(&l->now, begun);
        canvas_printf(&l->now, "", "%u in %s", phases[i], transport_phase_name((enum transport_phase)i));
        bool named = false;
        for (uint32_t n = 0; n < l->plan->node_count && count <= NAMED_MAX; n++) {
            struct run_node_view v;
            run_node(l->run, n, &v);
            if ((v.presence != PRESENCE_ABSENT && v.presence != PRESENCE_COMING) || phase_of(&v) != i)
                continue;
            canvas_printf(&l->now, "", "%s%s", named ? ", " : ": ", v.name);
            named = true;
        }
    }
}

static void draw_head(struct live *l, bool final)
{
    unsigned ready = 0, total = l->plan->node_count;
    bool begun = false;
    for (uint32_t n = 0; n < total; n++) {
        struct run_node_view v;
        run_node(l->run, n, &v);
        ready += presence_is_here(v.presence);
    }
    canvas_printf(&l->now, "1", "%s", l->plan->spec->name);
    if (run_id(l->run)[0] && l->now.columns >= 60)
        canvas_printf(&l->now, "2", "  run %s", run_id(l->run));
    if (ready == total || final)
        canvas_printf(&l->now, "", "  %u node%s", total, total == 1 ? "" : "s");
    else
        canvas_printf(&l->now, "", "  %u of %u nodes", ready, total);
    canvas_put(&l->now, "", "  ", 2);
    canvas_time(&l->now, "", wall_ms() - l->began_ms);
    canvas_end_line(&l->now);
    if (ready == total)
        return;
    canvas_put(&l->now, "", "  ", 2);
    put_names(l, "31", "failed", node_is_failed, &begun);
    put_names(l, "33", "lost", node_is_lost, &begun);
    if (!final)
        put_phases(l, &begun);
    if (begun)
        canvas_end_line(&l->now);
    l->now.used = 0;
}

/* ---- steps ---- */

static bool over(const struct run_counts *n)
{
    return n->done + n->kept + n->failed == n->total;
}

/* By finished nodes, or by bytes if bytes say more. */
static void put_bar(struct live *l, const struct run_counts *n, const struct run_transfer *t, unsigned cells)
{
    unsigned full = (unsigned)((uint64_t)(n->done + n->kept) * cells / n->total);
    if (t->nodes > 0 && t->bytes_total > 0) {
        unsigned moved = (unsigned)((double)t->bytes_done / (double)t->bytes_total * cells);
        full = moved > full && moved <= cells ? moved : full;
    }
    struct buf on = {0}, off = {0};
    for (unsigned i = 0; i < cells; i++)
        buf_puts(i < full ? &on : &off, l->utf8 && l->c->color_err ? "━"
                                        : l->utf8                  ? i < full ? "█" : "░"
                                        : i < full                 ? "#"
                                                                   : ".");
    if (on.len)
        canvas_put(&l->now, n->failed ? "31" : "32", on.data, on.len);
    if (off.len)
        canvas_put(&l->now, "2", off.data, off.len);
    canvas_put(&l->now, "", " ", 1);
    buf_free(&on);
    buf_free(&off);
}

/* Nodes on which the step failed by itself; nodes that were stopped because of it do not count. */
static unsigned real_failures(const struct live *l, const struct plan_step *step)
{
    unsigned count = 0;
    for (uint32_t n = 0; n < l->plan->node_count; n++)
        count += plain_step_failed((enum outcome)l->outcomes[(size_t)step->id * l->plan->node_count + n]);
    return count;
}

static void put_failures(struct live *l, const struct plan_step *step, unsigned count)
{
    unsigned named = 0;
    canvas_put(&l->now, "31", "failed on ", 10);
    for (uint32_t n = 0; n < l->plan->node_count; n++) {
        const char *name = roster_name(l->plan->roster, n);
        if (!plain_step_failed((enum outcome)l->outcomes[(size_t)step->id * l->plan->node_count + n]))
            continue;
        if (named && canvas_left(&l->now) < text_width(name, strlen(name)) + 12) {
            canvas_printf(&l->now, "31", ", %u more", count - named);
            return;
        }
        canvas_printf(&l->now, "31", "%s%s", named++ ? ", " : "", name);
    }
}

/* ", TEXT" if it fits before the time together with `behind` more columns. */
static void put_part(struct live *l, const char *style, const char *text, size_t behind)
{
    enum { TIME_WIDTH = 11 };
    if (*text && canvas_left(&l->now) > strlen(text) + 2 + behind + TIME_WIDTH)
        canvas_printf(&l->now, style, ", %s", text);
}

/* "12.3 MB of 90.0 MB, 45.1 MB/s, about 2 s left, 120 of 9000 files", as much of it as fits: the remaining time has
 * priority over the speed. */
static void put_transfer(struct live *l, const struct plan_step *step, const struct run_transfer *t)
{
    struct buf b = {0};
    char size[32], text[48], left[48] = "";
    const double speed = speed_of(&l->speeds[step->id], t->bytes_done);
    plain_transfer(&b, t);
    size_t bytes = strcspn(b.data, ",");
    canvas_put(&l->now, "", b.data, bytes);
    if (speed > 0 && t->bytes_total > t->bytes_done)
        cli_left((uint64_t)((double)(t->bytes_total - t->bytes_done) / speed * 1000), left);
    if (speed > 0) {
        cli_size((uint64_t)speed, size);
        snprintf(text, sizeof text, "%s/s", size);
        put_part(l, "2", text, *left ? strlen(left) + 2 : 0);
    }
    put_part(l, "2", left, 0);
    if (b.data[bytes])
        put_part(l, "", b.data + bytes + 2, 0);
    buf_free(&b);
}

/* The words after the name where a bar says nothing: one node, or the launch. */
static void put_words(struct live *l, const struct plan_step *step, const struct run_counts *n, unsigned failures,
                      bool final)
{
    bool launch = step->kind->ranked;
    const char *state = over(n)      ? n->failed ? failures ? "failed" : "stopped"
                                       : n->done ? "done"
                                                 : "kept"
                        : n->running ? "running"
                        : final      ? "not started"
                        : failures   ? "waiting to be tried again"
                                     : "waiting";
    const char *style = n->failed ? "31" : n->running || n->done ? "" : "2";
    uint64_t pause_ms = launch && !final ? run_pause_ms(l->run) : 0;
    if (pause_ms) {
        char left[32];
        cli_duration(pause_ms, left);
        canvas_printf(&l->now, "33", "starts again in %s", left);
        return;
    }
    const char *node;
    const struct plan_step *before = final || n->running || over(n) ? NULL : run_step_held(l->run, step, &node);
    if (failures && n->failed && n->total > 1)
        put_failures(l, step, failures);
    else if (before)
        canvas_printf(&l->now, style, "waiting for %s on %s", before->name, node);
    else
        canvas_printf(&l->now, style, "%s", state);
    if (!launch || (!n->running && !n->done) || !l->plan->spec->distributed.present)
        return;
    uint32_t workers = cli_step_workers(l->plan, step), restarts = run_restarts(l->run),
             counted = run_counted_restarts(l->run);
    canvas_printf(&l->now, "", ", %u worker%s", workers, workers == 1 ? "" : "s");
    if (n->total > 1)
        canvas_printf(&l->now, "", " on %u nodes", n->total);
    if (restarts > counted)
        canvas_printf(&l->now, "33", ", restart %u", restarts);
    else if (restarts)
        canvas_printf(&l->now, "33", ", restart %u of %u", restarts, l->plan->spec->distributed.max_restarts);
    if (n->running && n->done)
        canvas_printf(&l->now, "", ", ended on %u", n->done);
}

/* A name that is too long is cut; a path is cut at the front, as its end says more. */
static void put_name(struct live *l, const char *style, const char *name, unsigned width)
{
    size_t cut = strlen(name), len = cut;
    if (text_width(name, len) <= width || !strchr(name, '/')) {
        canvas_field(&l->now, style, name, width);
        return;
    }
    while (cut > 0 && text_width(name + cut - 1, len - cut + 1) < width)
        cut--;
    while (((unsigned char)name[cut] & 0xc0) == 0x80)
        cut++;
    CLEANUP(cleanup_free) char *end = xasprintf("%s%s", l->utf8 ? "…" : "~", name + cut);
    canvas_field(&l->now, style, end, width);
}

static void draw_step(struct live *l, const struct plan_step *step, unsigned name_width, bool final)
{
    static const char *const braille[] = {"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"};
    static const char *const ascii[] = {"|", "/", "-", "\\"};
    const struct run_counts *n = &l->counts[step->id];
    struct run_transfer transfer;
    run_step_transfer(l->run, step, &transfer);
    unsigned failures = real_failures(l, step), columns = l->now.columns;
    bool moves = transfer.nodes > 0 && !final, ended = over(n), launch = cli_is_work(step);
    const char *mark = " ", *style = "2";
    if (n->failed) {
        mark = failures ? l->utf8 ? "✗" : "x" : "-";
        style = failures ? "31" : "33";
    } else if (ended) {
        mark = l->utf8 ? "✓" : "+";
        style = n->done ? "32" : "2";
    } else if (n->running && !final) {
        mark = l->utf8 ? braille[l->spin % ARRAY_LEN(braille)] : ascii[l->spin % ARRAY_LEN(ascii)];
        style = "36";
    }
    canvas_put(&l->now, "", " ", 1);
    canvas_put(&l->now, style, mark, strlen(mark));
    canvas_put(&l->now, "", " ", 1);
    put_name(l, n->running && !final ? "1" : ended && n->done ? "" : "2", step->label, name_width);
    canvas_put(&l->now, "", "  ", 2);
    if (n->total > 1 && !launch && (n->running || n->done || n->failed || n->kept)) {
        char total[16];
        int digits = snprintf(total, sizeof total, "%u", n->total);
        if (columns >= 60)
            put_bar(l, n, &transfer, columns >= 100 ? 24 : moves ? 8 : 16);
        canvas_printf(&l->now, "", "%*u/%s", digits, n->done + n->kept, total);
        if (n->kept && n->kept < n->total)
            canvas_printf(&l->now, "2", ", %u kept", n->kept);
        canvas_put(&l->now, "", "  ", moves ? 2 : 0);
    } else if (!moves) {
        put_words(l, step, n, failures, final);
    }
    if (moves)
        put_transfer(l, step, &transfer);
    if (n->started_ms && (n->done || n->failed || n->running)) {
        uint64_t to = (ended || !n->running) && n->ended_ms ? n->ended_ms : wall_ms();
        canvas_put(&l->now, "", "  ", 2);
        canvas_time(&l->now, "2", to > n->started_ms ? to - n->started_ms : 0);
    }
    if (failures && n->total > 1 && !launch) {
        canvas_put(&l->now, "", "  ", 2);
        put_failures(l, step, failures);
    }
    canvas_end_line(&l->now);
}

static void draw_group(struct live *l, const struct item *item)
{
    const char *done = l->utf8 ? "✓" : "+", *more = l->utf8 ? "…" : "~";
    const char *mark = item->kind == ITEM_WAITING ? more : done;
    canvas_put(&l->now, "", " ", 1);
    canvas_put(&l->now, item->kind == ITEM_OVER ? "32" : "2", mark, strlen(mark));
    static const char *const words[] = {
        [ITEM_STEP] = "", [ITEM_KEPT] = "steps kept", [ITEM_OVER] = "steps done", [ITEM_WAITING] = "more steps"};
    canvas_printf(&l->now, "2", " %u %s", item->count, words[item->kind]);
    for (uint32_t i = 0, k = item->step; item->kind == ITEM_KEPT && i < item->count && canvas_left(&l->now); k++)
        if (l->counts[k].total)
            canvas_printf(&l->now, "2", "%s%s", i++ ? ", " : ": ", l->plan->steps[k].label);
    canvas_end_line(&l->now);
}

/* Consecutive kept steps share one line. If there is still no room, finished steps share one, then waiting steps. */
static size_t choose_items(struct live *l, size_t room)
{
    struct item *v = l->items;
    size_t count = 0, ended = 0;
    for (uint32_t i = 0; i < l->steps; i++) {
        uint32_t kept = 0, next = i;
        run_step_counts(l->run, &l->plan->steps[i], &l->counts[i]);
        if (l->counts[i].total == 0)
            continue;
        for (; next < l->steps; next++) {
            run_step_counts(l->run, &l->plan->steps[next], &l->counts[next]);
            if (l->counts[next].kept != l->counts[next].total)
                break;
            kept += l->counts[next].total > 0;
        }
        if (kept >= KEPT_GROUP) {
            v[count++] = (struct item){ITEM_KEPT, i, kept};
            i = next - 1;
        } else {
            v[count++] = (struct item){ITEM_STEP, i, 1};
        }
    }
    while (ended < count &&
           (v[ended].kind == ITEM_KEPT || (over(&l->counts[v[ended].step]) && !l->counts[v[ended].step].failed)))
        ended++;
    if (count > room && ended > 1) {
        size_t fold = count - room + 1 < ended ? count - room + 1 : ended;
        uint32_t steps = 0;
        for (size_t i = 0; i < fold; i++)
            steps += v[i].count;
        v[0] = (struct item){ITEM_OVER, v[0].step, steps};
        memmove(&v[1], &v[fold], (count - fold) * sizeof *v);
        count -= fold - 1;
    }
    if (count > room && room > 0) {
        uint32_t steps = 0;
        for (size_t i = room - 1; i < count; i++)
            steps += v[i].count;
        v[room - 1] = (struct item){ITEM_WAITING, v[room - 1].step, steps};
        count = room;
    }
    return count < room ? count : room;
}

/* ---- bars of workers, and the last line ---- */

static unsigned count_bars(const struct live *l)
{
    unsigned count = 0;
    for (size_t i = 0; i < l->progress->count; i++)
        count += l->progress->items[i]->active;
    return count;
}

static void draw_bars(struct live *l, unsigned lines, unsigned count)
{
    unsigned drawn = 0;
    for (size_t i = 0; i < l->progress->count && drawn < lines; i++) {
        const struct progress *s = l->progress->items[i];
        struct buf prefix = {0}, text = {0};
        if (!s->active)
            continue;
        bool launch = cli_is_work(s->step);
        const struct cli_worker worker = cli_worker_of(l->plan, s->step, s->rank);
        if (!launch || l->plan->spec->distributed.present)
            cli_line_prefix(&prefix, false, &worker, s->step->label, s->node_name, s->rank);
        text_for_screen(&text, s->text.data, s->text.len, false);
        canvas_put(&l->now, "", "   ", 3);
        canvas_put(&l->now, "36", prefix.data ? prefix.data : "", prefix.len);
        canvas_put(&l->now, "", text.data ? text.data : "", text.len);
        if (++drawn == lines && count > lines)
            canvas_printf(&l->now, "2", "  (and %u more)", count - lines);
        canvas_end_line(&l->now);
        buf_free(&prefix);
        buf_free(&text);
    }
}

static void draw_status(struct live *l)
{
    canvas_put(&l->now, "", "  ", 2);
    if (l->status[0])
        canvas_printf(&l->now, "33", "%s", l->status);
    else if (term_has_keys(l->term) && l->detach)
        canvas_printf(&l->now, "2", "%s",
                      l->now.columns >= 66 ? "Ctrl-C stops the job; d lets it go on without this terminal"
                                           : "Ctrl-C stops, d detaches");
    else
        canvas_printf(&l->now, "2", "Ctrl-C stops the job");
    canvas_end_line(&l->now);
}

static unsigned name_width(const struct live *l)
{
    unsigned widest = 0, limit = l->now.columns / 3 > 10 ? l->now.columns / 3 : 10;
    for (size_t i = 0; i < l->steps; i++) {
        unsigned w = text_width(l->plan->steps[i].name, strlen(l->plan->steps[i].name));
        widest = w > widest ? w : widest;
    }
    return widest < limit ? widest : limit;
}

static void draw(struct live *l, bool final)
{
    unsigned columns, rows, bars = final ? 0 : count_bars(l);
    term_size(&columns, &rows);
    unsigned most = rows > 2 ? rows - 1 : 1, limit = rows / 2 > 8 ? rows / 2 : 8;
    if (final)
        limit = most = FINAL_ROWS; /* the final frame is never drawn over */
    limit = limit < most ? limit : most;
    canvas_clear(&l->now, columns);
    l->now.color = l->c->color_err;
    l->now.utf8 = l->utf8;
    draw_head(l, final);
    unsigned taken = l->now.lines + (final ? 0 : 1), bar_lines = bars < BARS_MAX ? bars : BARS_MAX;
    while (bar_lines > 0 && taken + bar_lines + 3 > limit)
        bar_lines--;
    unsigned values = final || l->plan->points ? 0 : live_metrics(NULL, l->run, l->plan->spec, columns, METRIC_LINES);
    while (values > 0 && taken + bar_lines + values + 3 > limit)
        values--;
    taken += values;
    unsigned ports = final ? 0 : live_ports(NULL, l->run, PORT_LINES);
    while (ports > 0 && taken + bar_lines + ports + 3 > limit)
        ports--;
    taken += ports;
    unsigned left = limit > taken + bar_lines + 2 ? limit - taken - bar_lines - 2 : 1; /* two lines for set-up */
    const unsigned points = live_points(NULL, l->run, l->plan, left, final);
    taken += points;
    left = limit > taken + bar_lines ? limit - taken - bar_lines : 0;
    size_t attempts = final ? 0 : live_attempts_look(l->attempts, l->run);
    const size_t most_rows = left > STEPS_KEPT ? left - STEPS_KEPT : left / 2;
    size_t count = choose_items(l, left - (attempts < most_rows ? attempts : most_rows));
    attempts = attempts < left - count ? attempts : left - count;
    for (size_t i = 0; i < count; i++) {
        if (l->items[i].kind == ITEM_STEP)
            draw_step(l, &l->plan->steps[l->items[i].step], name_width(l), final);
        else
            draw_group(l, &l->items[i]);
    }
    live_attempts_draw(l->attempts, &l->now, attempts);
    if (points)
        live_points(&l->now, l->run, l->plan, points, final);
    if (values)
        live_metrics(&l->now, l->run, l->plan->spec, columns, values);
    live_ports(&l->now, l->run, ports);
    draw_bars(l, bar_lines, bars);
    if (!final && l->now.lines < most)
        draw_status(l);
}

/* ---- the screen ---- */

static void schedule(struct live *l, uint64_t after_ms)
{
    if (!loop_timer_active(l->timer))
        loop_timer_start(l->timer, after_ms);
}

/* A stopped terminal (Ctrl-S) must not stop the controller: lines wait; if there are too many, only the logs have
 * them. */
static bool writable(struct live *l)
{
    struct pollfd p = {2, POLLOUT, 0};
    if (poll(&p, 1, 0) == 1)
        return true;
    if (l->above.len > HELD_MAX) {
        for (size_t i = 0; i < l->above.len; i++)
            l->dropped += l->above.data[i] == '\n';
        buf_clear(&l->above);
    }
    return false;
}

static void frame(struct live *l)
{
    if (!writable(l)) {
        schedule(l, STOPPED_MS);
        return;
    }
    if (l->dropped) {
        buf_printf(&l->above, "rhrun: %llu lines were not shown while the terminal stood still; rhrun logs has them\n",
                   (unsigned long long)l->dropped);
        l->dropped = 0;
    }
    bool foreground = term_foreground();
    if (foreground && l->run) {
        term_acquire(l->term);
        draw(l, false);
    } else {
        canvas_clear(&l->now, 80); /* in the background: lines only, as another program uses the terminal */
    }
    if (!foreground)
        canvas_clear(&l->shown, 80);
    canvas_show(&l->now, &l->shown, &l->above);
    if (l->run)
        schedule(l, TICK_MS);
}

static void on_timer(void *arg)
{
    struct live *l = arg;
    l->spin = (unsigned)((wall_ms() - l->began_ms) / TICK_MS);
    frame(l);
}

static void on_key(void *arg, char key)
{
    struct live *l = arg;
    if ((key == 'd' || key == 'D') && l->run && l->detach && !l->stopping)
        l->detach(l->detach_arg);
}

static void on_resumed(void *arg)
{
    struct live *l = arg;
    canvas_clear(&l->shown, 80); /* the shell has written over it */
    schedule(l, 0);
}

/* ---- called by the printer ---- */

struct live *live_create(struct cli *c, struct loop *loop, const struct plan *plan,
                         const struct progress_table *progress, const uint8_t *outcomes)
{
    struct live *l = xcalloc(1, sizeof *l);
    l->c = c;
    l->plan = plan;
    l->progress = progress;
    l->outcomes = outcomes;
    l->timer = loop_timer_create(loop, on_timer, l);
    l->term = term_create(loop, on_key, on_resumed, l);
    while (l->steps < plan->step_count && plan->steps[l->steps].kind->phase != PHASE_POINT)
        l->steps++;
    l->counts = xcalloc(plan->step_count + 1, sizeof *l->counts);
    l->speeds = xcalloc(plan->step_count + 1, sizeof *l->speeds);
    l->items = xcalloc(plan->step_count + 1, sizeof *l->items);
    l->attempts = live_attempts_create(plan, l->steps);
    l->began_ms = wall_ms();
    l->utf8 = term_utf8();
    return l;
}

void live_on_detach(struct live *l, void (*fn)(void *arg), void *arg)
{
    l->detach = fn;
    l->detach_arg = arg;
}

void live_set_run(struct live *l, struct run *r)
{
    l->run = r;
    if (r)
        schedule(l, FRAME_MS);
    else
        loop_timer_stop(l->timer);
}

void live_heard(struct live *l, const struct run_line *line)
{
    live_attempts_heard(l->attempts, line);
}

void live_above(struct live *l, const char *text, size_t len)
{
    buf_append(&l->above, text, len);
    if (l->above.len >= ABOVE_MAX && l->above.len - len < ABOVE_MAX)
        loop_timer_start(l->timer, 0);
    else if (l->above.len == len)
        loop_timer_start(l->timer, FRAME_MS);
}

bool live_flush(struct live *l)
{
    if (l->above.len)
        frame(l);
    return l->above.len == 0;
}

void live_status(struct live *l, const char *text)
{
    snprintf(l->status, sizeof l->status, "%s", text);
    l->stopping = true;
    loop_timer_start(l->timer, 0);
}

void live_end(struct live *l, bool summary)
{
    loop_timer_stop(l->timer);
    if (summary && l->run)
        draw(l, true);
    else
        canvas_clear(&l->now, 80);
    canvas_show(&l->now, &l->shown, &l->above);
    term_release(l->term);
    canvas_clear(&l->now, 80);
    canvas_clear(&l->shown, 80);
    l->run = NULL;
    l->status[0] = 0;
    l->stopping = false;
}

void live_destroy(struct live *l)
{
    if (!l)
        return;
    term_destroy(l->term);
    loop_timer_destroy(l->timer);
    canvas_free(&l->now);
    canvas_free(&l->shown);
    buf_free(&l->above);
    free(l->counts);
    free(l->speeds);
    free(l->items);
    live_attempts_destroy(l->attempts);
    free(l);
}
