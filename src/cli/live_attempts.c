/* The running attempts in the live view: the longest silent first, with the time since the last sign of each and its
 * last line: "n5  8 s: waiting for lock /var/lib/dpkg/lock". A launch prints its lines above the view, so only its
 * attempts that have been silent for a while are here. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum {
    TEXT_MAX = 400,
    FRESH_MS = 2000, /* attempts with output since then stay in the order of nodes, so that rows do not jump */
    LAUNCH_SILENT_MS = 10000,
    INDENT = 5,
    MORE_WIDTH = 18 /* " (and 10000 more)" */
};

struct said { /* by an attempt; for a transfer: its bytes */
    uint64_t at_ms, bytes;
    size_t len;
    char text[TEXT_MAX];
};
struct sight { /* a running attempt */
    uint32_t step, node;
    uint64_t silent_ms;
};
struct live_attempts {
    const struct plan *plan;
    size_t steps;       /* without those of points, which have rows of their own */
    struct said **said; /* [step * node_count + node]; NULL: nothing */
    struct sight *sights;
    size_t count, cap;
    bool several; /* steps */
};

struct live_attempts *live_attempts_create(const struct plan *plan, size_t steps)
{
    struct live_attempts *a = xcalloc(1, sizeof *a);
    a->plan = plan;
    a->steps = steps;
    a->said = xcalloc(steps * plan->node_count + 1, sizeof(struct said *));
    return a;
}

void live_attempts_destroy(struct live_attempts *a)
{
    for (size_t i = 0; i < a->steps * a->plan->node_count; i++)
        free(a->said[i]);
    free(a->said);
    free(a->sights);
    free(a);
}

static struct said **said_of(const struct live_attempts *a, uint32_t step, uint32_t node)
{
    return &a->said[(size_t)step * a->plan->node_count + node];
}

static struct said *said_new(const struct live_attempts *a, uint32_t step, uint32_t node)
{
    struct said **s = said_of(a, step, node);
    if (!*s)
        *s = xcalloc(1, sizeof **s);
    return *s;
}

void live_attempts_heard(struct live_attempts *a, const struct run_line *line)
{
    const struct watch_line *text = line->line;
    if (line->step->id >= a->steps || line->node >= a->plan->node_count || text->len == 0)
        return;
    struct said *s = said_new(a, line->step->id, line->node);
    s->at_ms = wall_ms();
    s->len = text->len < TEXT_MAX ? text->len : TEXT_MAX;
    memcpy(s->text, text->text, s->len);
}

/* ---- selection ---- */

/* When the attempt last gave a sign. For a transfer, new bytes are a sign. */
static uint64_t heard_ms(struct live_attempts *a, const struct plan_step *step, uint32_t node,
                         const struct run_attempt_view *t)
{
    struct said *s = *said_of(a, step->id, node);
    if (t->bytes_total > 0) {
        s = said_new(a, step->id, node);
        if (s->bytes != t->bytes_done || !s->at_ms)
            s->at_ms = wall_ms();
        s->bytes = t->bytes_done;
        char done[32], total[32];
        cli_size(t->bytes_done, done);
        cli_size(t->bytes_total, total);
        s->len = (size_t)snprintf(s->text, sizeof s->text, "%s of %s", done, total);
    }
    if (s && s->at_ms < t->started_ms) { /* from an earlier attempt */
        s->at_ms = 0;
        s->len = 0;
    }
    return s && s->at_ms ? s->at_ms : t->started_ms;
}

static int longest_silent(const void *x, const void *y)
{
    const struct sight *a = x, *b = y;
    const uint64_t p = a->silent_ms < FRESH_MS ? 0 : a->silent_ms / 1000,
                   q = b->silent_ms < FRESH_MS ? 0 : b->silent_ms / 1000;
    return p != q               ? (p > q ? -1 : 1)
           : a->node != b->node ? (a->node < b->node ? -1 : 1)
           : a->step != b->step ? (a->step < b->step ? -1 : 1)
                                : 0;
}

static void add(struct live_attempts *a, const struct plan_step *step, uint32_t node, uint64_t silent_ms)
{
    const struct said *s = *said_of(a, step->id, node);
    const bool spoke = s && s->len > 0;
    if (cli_is_work(step) ? silent_ms < LAUNCH_SILENT_MS : !spoke && silent_ms < FRESH_MS)
        return;
    if (a->count == a->cap) {
        a->cap = a->cap ? 2 * a->cap : 64;
        a->sights = xreallocarray(a->sights, a->cap, sizeof *a->sights);
    }
    a->several = a->several || (a->count > 0 && a->sights[0].step != step->id);
    a->sights[a->count++] = (struct sight){step->id, node, silent_ms};
}

size_t live_attempts_look(struct live_attempts *a, const struct run *r)
{
    const uint64_t now = wall_ms();
    a->count = 0;
    a->several = false;
    for (uint32_t i = 0; i < a->steps; i++) {
        const struct plan_step *step = &a->plan->steps[i];
        for (uint32_t n = 0; n < a->plan->node_count; n++) {
            struct run_attempt_view t;
            if (!step->on[n] || !run_attempt_view(r, step, n, &t) || !t.started_ms)
                continue;
            const uint64_t heard = heard_ms(a, step, n, &t);
            add(a, step, n, now > heard ? now - heard : 0);
        }
    }
    if (a->count)
        qsort(a->sights, a->count, sizeof *a->sights, longest_silent);
    return a->count;
}

/* ---- drawing ---- */

static void put_age(uint64_t ms, char ret[32])
{
    if (ms < 60000)
        snprintf(ret, 32, "%u s", (unsigned)(ms / 1000));
    else
        cli_duration(ms, ret);
}

static void put_row(const struct live_attempts *a, struct canvas *v, const struct sight *s, unsigned name,
                    unsigned step)
{
    char age[32];
    const struct said *said = *said_of(a, s->step, s->node);
    struct buf text = {0};
    put_age(s->silent_ms, age);
    canvas_printf(v, "", "%*s", INDENT, "");
    canvas_field(v, "36", roster_name(a->plan->roster, s->node), name);
    if (step) {
        canvas_put(v, "", "  ", 2);
        canvas_field(v, "", a->plan->steps[s->step].label, step);
    }
    canvas_printf(v, s->silent_ms >= LAUNCH_SILENT_MS ? "33" : "2", "  %5s", age);
    if (said && said->len) {
        text_for_screen(&text, said->text, said->len, false);
        canvas_printf(v, "", ": %s", text.data ? text.data : "");
    } else {
        canvas_put(v, "2", ": no output yet", 15);
    }
    canvas_end_line(v);
    buf_free(&text);
}

/* "waiting for: n5, n31 (and 3 more)"; only the number if there is no room for names. */
static void put_rest(const struct live_attempts *a, struct canvas *v, size_t from)
{
    const char *first = roster_name(a->plan->roster, a->sights[from].node);
    char others[40];
    const int count = a->count - from > 1 ? snprintf(others, sizeof others, " (and %zu more)", a->count - from - 1) : 0;
    canvas_printf(v, "", "%*s", INDENT, "");
    if (canvas_left(v) < (from ? 18 : 13) + text_width(first, strlen(first)) + (unsigned)count) {
        canvas_printf(v, "2", from ? "and %zu more" : "waiting for %zu", a->count - from);
        canvas_end_line(v);
        return;
    }
    canvas_put(v, "2", from ? "also waiting for: " : "waiting for: ", from ? 18 : 13);
    for (size_t i = from; i < a->count; i++) {
        const char *name = roster_name(a->plan->roster, a->sights[i].node);
        const unsigned more = i + 1 < a->count ? MORE_WIDTH : 0;
        if (i > from && canvas_left(v) < text_width(name, strlen(name)) + 2 + more) {
            canvas_printf(v, "2", " (and %zu more)", a->count - i);
            break;
        }
        canvas_printf(v, "", "%s%s", i > from ? ", " : "", name);
    }
    canvas_end_line(v);
}

static unsigned widest(unsigned width, const char *text)
{
    const unsigned w = text_width(text, strlen(text));
    return w > width ? w : width;
}

void live_attempts_draw(const struct live_attempts *a, struct canvas *v, size_t lines)
{
    const size_t rows = lines >= a->count ? a->count : lines > 0 ? lines - 1 : 0;
    unsigned name = 0, step = 0;
    for (size_t i = 0; i < rows; i++) {
        name = widest(name, roster_name(a->plan->roster, a->sights[i].node));
        if (a->several)
            step = widest(step, a->plan->steps[a->sights[i].step].label);
    }
    name = name > v->columns / 4 ? v->columns / 4 : name;
    step = step > v->columns / 5 ? v->columns / 5 : step;
    for (size_t i = 0; i < rows; i++)
        put_row(a, v, &a->sights[i], name, step);
    if (rows < a->count && lines > 0)
        put_rest(a, v, rows);
}
