/* Values that come one by one, in a bounded number of groups. Each group keeps its lowest and its highest value, so
 * that no spike is lost. When all groups are in use, each two neighbours become one. */
#include "internal.h"

#include <math.h>
#include <stdlib.h>

static void take_low(struct report_group *g, const struct report_group *from)
{
    g->low = from->low;
    g->low_step = from->low_step;
    g->low_ms = from->low_ms;
    g->low_at = from->low_at;
}

static void take_high(struct report_group *g, const struct report_group *from)
{
    g->high = from->high;
    g->high_step = from->high_step;
    g->high_ms = from->high_ms;
    g->high_at = from->high_at;
}

static void join(struct report_group *g, const struct report_group *from)
{
    if (from->low < g->low || isnan(g->low))
        take_low(g, from);
    if (from->high > g->high || isnan(g->high))
        take_high(g, from);
    g->count += from->count;
}

void report_curve_halve(struct report_curve *c)
{
    size_t count = 0;
    for (size_t i = 0; i < c->group_count; i += 2) {
        c->groups[count] = c->groups[i];
        if (i + 1 < c->group_count)
            join(&c->groups[count], &c->groups[i + 1]);
        count++;
    }
    c->group_count = count;
    c->group_size *= 2;
}

void report_curve_add(struct report_curve *c, uint64_t step, uint64_t time_ms, double value)
{
    const double shown = isfinite(value) ? value : NAN;
    const struct report_group one = {1, step, time_ms, step, time_ms, c->count, c->count, shown, shown};
    if (!c->groups) {
        c->groups = xcalloc(REPORT_GROUPS_MAX, sizeof *c->groups);
        c->group_size = 1;
        c->first = value;
    }
    c->last = value;
    c->count++;
    c->odd += isfinite(value) ? 0 : 1;
    struct report_group *latest = c->group_count ? &c->groups[c->group_count - 1] : NULL;
    if (latest && latest->count < c->group_size) {
        join(latest, &one);
        return;
    }
    if (c->group_count == REPORT_GROUPS_MAX)
        report_curve_halve(c);
    c->groups[c->group_count++] = one;
}

void report_curve_free(struct report_curve *c)
{
    free(c->groups);
    c->groups = NULL;
}
