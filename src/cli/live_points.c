/* The points of a sweep in the live view: how many are over, the running ones (the longest first), and which failed.
 * One pass over the points finds it all, so a frame with 10,000 points is cheap. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum { RUNNING_MAX = 6, FAILED_MAX = 8, INDENT = 5, TIME_WIDTH = 10, MORE_WIDTH = 12, LEFT_AFTER = 3 };

struct sight {
    uint32_t running, over, failed, kept, here; /* here: ended well in this run */
    uint32_t shown[RUNNING_MAX], failures[FAILED_MAX];
    uint64_t began_ms[RUNNING_MAX]; /* of `shown`, ascending */
    uint32_t shown_count, failure_count;
    uint64_t first_ms; /* when the first point of this run began; 0: none yet */
};

/* Keeps the longest running. */
static void add_running(struct sight *s, uint32_t i, uint64_t began_ms)
{
    uint32_t at = s->shown_count;
    while (at > 0 && s->began_ms[at - 1] > began_ms)
        at--;
    if (at == RUNNING_MAX)
        return;
    const uint32_t moved = (s->shown_count < RUNNING_MAX ? s->shown_count : RUNNING_MAX - 1) - at;
    memmove(&s->shown[at + 1], &s->shown[at], moved * sizeof *s->shown);
    memmove(&s->began_ms[at + 1], &s->began_ms[at], moved * sizeof *s->began_ms);
    s->shown[at] = i;
    s->began_ms[at] = began_ms;
    s->shown_count += s->shown_count < RUNNING_MAX;
}

static void look(const struct run *r, const struct plan *plan, struct sight *s)
{
    for (uint32_t i = 0; i < plan->point_count; i++) {
        struct run_point p;
        run_point(r, i, &p);
        s->kept += p.kept;
        s->over += p.over;
        s->failed += p.failed;
        s->here += p.over && !p.failed && !p.kept;
        s->running += p.running;
        if (p.failed && s->failure_count < FAILED_MAX)
            s->failures[s->failure_count++] = i;
        if (p.running)
            add_running(s, i, p.started_ms ? p.started_ms : UINT64_MAX);
        if (p.started_ms && !p.kept && (!s->first_ms || p.started_ms < s->first_ms))
            s->first_ms = p.started_ms;
    }
}

static void put_bar(struct canvas *v, const struct sight *s, uint32_t total, unsigned cells)
{
    const unsigned full = (unsigned)((uint64_t)(s->over - s->failed) * cells / total);
    struct buf on = {0}, off = {0};
    for (unsigned i = 0; i < cells; i++)
        buf_puts(i < full ? &on : &off, v->utf8 && v->color ? "━"
                                        : v->utf8           ? i < full ? "█" : "░"
                                        : i < full          ? "#"
                                                            : ".");
    if (on.len)
        canvas_put(v, s->failed ? "31" : "32", on.data, on.len);
    if (off.len)
        canvas_put(v, "2", off.data, off.len);
    canvas_put(v, "", " ", 1);
    buf_free(&on);
    buf_free(&off);
}

/* Adds the part if all of it fits, so no number is ever cut; the most important part comes first. */
static void put_part(struct canvas *v, const char *style, bool *begun, const char *text)
{
    if (canvas_left(v) <= strlen(text) + 3)
        return;
    canvas_printf(v, style, "%s%s", *begun ? ", " : "  ", text);
    *begun = true;
}

static void put_counts(struct canvas *v, const struct sight *s, uint32_t total, bool final)
{
    char text[64];
    bool begun = false;
    const uint64_t now = wall_ms(), took = s->first_ms && now > s->first_ms ? now - s->first_ms : 0;
    snprintf(text, sizeof text, "%u failed", s->failed);
    if (s->failed)
        put_part(v, "31", &begun, text);
    snprintf(text, sizeof text, "%u running", s->running);
    if (s->running && !final)
        put_part(v, "", &begun, text);
    snprintf(text, sizeof text, "%u kept", s->kept);
    if (s->kept)
        put_part(v, "2", &begun, text);
    if (final || s->here + s->failed < LEFT_AFTER || s->over == total)
        return;
    const uint64_t wait = took / (s->here + s->failed) * (total - s->over);
    cli_left(wait, text);
    put_part(v, "2", &begun, text);
}

static void put_running(struct canvas *v, const struct run *r, const struct plan *plan, uint32_t i, unsigned width)
{
    struct run_point p;
    run_point(r, i, &p);
    const uint64_t now = wall_ms();
    canvas_printf(v, "", "%*s", INDENT, "");
    canvas_field(v, "", plan->points[i].point->name, width);
    canvas_printf(v, "2", "  %s", roster_name(plan->roster, p.nodes[0]));
    if (p.node_count > 1)
        canvas_printf(v, "2", " +%u", p.node_count - 1);
    canvas_printf(v, "2", "  ");
    if (p.started_ms)
        canvas_time(v, "2", now > p.started_ms ? now - p.started_ms : 0);
    for (uint32_t m = 0; m < plan->spec->metric_count; m++) {
        char number[64];
        double value;
        if (!run_point_metric(r, i, m, &value))
            continue;
        const char *name = plan->spec->metrics[m].name;
        snprintf(number, sizeof number, "%.6g", value);
        if (canvas_left(v) > text_width(name, strlen(name)) + strlen(number) + 4)
            canvas_printf(v, "", "  %s %s", name, number);
    }
    canvas_end_line(v);
}

static void put_failed(struct canvas *v, const struct plan *plan, const struct sight *s)
{
    canvas_printf(v, "", "%*s", INDENT, "");
    canvas_put(v, "31", "failed: ", 8);
    for (uint32_t k = 0; k < s->failure_count; k++) {
        const char *name = plan->points[s->failures[k]].point->name;
        if (k > 0 && canvas_left(v) < text_width(name, strlen(name)) + 2 + MORE_WIDTH) {
            canvas_printf(v, "31", ", %u more", s->failed - k);
            canvas_end_line(v);
            return;
        }
        canvas_printf(v, "31", "%s%s", k ? ", " : "", name);
    }
    if (s->failed > s->failure_count)
        canvas_printf(v, "31", ", %u more", s->failed - s->failure_count);
    canvas_end_line(v);
}

unsigned live_points(struct canvas *v, const struct run *r, const struct plan *plan, unsigned lines, bool final)
{
    struct sight s = {0};
    unsigned used = 1, width = 0;
    if (!plan->points || lines == 0)
        return 0;
    look(r, plan, &s);
    const bool failed = s.failed > 0 && lines > 1;
    uint32_t rows = final ? 0 : s.shown_count;
    while (rows > 0 && 1 + rows + failed > lines)
        rows--;
    used += rows + failed;
    if (!v)
        return used;
    const bool over = s.over == plan->point_count;
    canvas_put(v, "", " ", 1);
    canvas_put(v,
               s.failed ? "31"
               : over   ? "32"
                        : "36",
               s.failed ? v->utf8 ? "✗" : "x"
               : over   ? v->utf8 ? "✓" : "+"
                        : " ",
               s.failed || over ? v->utf8 ? 3 : 1 : 1);
    canvas_put(v, s.running ? "1" : "", " points  ", 9);
    if (v->columns >= 60)
        put_bar(v, &s, plan->point_count, v->columns >= 100 ? 24 : 16);
    canvas_printf(v, "", "%u/%u", s.over - s.failed, plan->point_count);
    put_counts(v, &s, plan->point_count, final);
    canvas_end_line(v);
    for (uint32_t k = 0; k < rows; k++) {
        const char *name = plan->points[s.shown[k]].point->name;
        const unsigned wide = text_width(name, strlen(name));
        width = wide > width ? wide : width;
    }
    width = width > v->columns / 2 ? v->columns / 2 : width;
    for (uint32_t k = 0; k < rows; k++)
        put_running(v, r, plan, s.shown[k], width);
    if (failed)
        put_failed(v, plan, &s);
    return used;
}
