/* Curves as JSON: three arrays each, of steps, times and values. */
#include "internal.h"

#include <math.h>

/* The lowest and the highest value of a group, in the order in which they came; once if they are the same value. */
static size_t points_of(const struct report_group *g, struct report_group ret[2])
{
    const bool low_first = g->low_at <= g->high_at;
    ret[low_first ? 0 : 1] = (struct report_group){.low_step = g->low_step, .low_ms = g->low_ms, .low = g->low};
    ret[low_first ? 1 : 0] = (struct report_group){.low_step = g->high_step, .low_ms = g->high_ms, .low = g->high};
    return g->low_at == g->high_at ? 1 : 2;
}

enum column { STEP, TIME, VALUE };

static void put_value(double value, struct buf *b)
{
    if (isnan(value))
        buf_puts(b, "null");
    else
        buf_printf(b, "%.7g", value);
}

static void put_column(const struct report_curve *c, enum column which, uint64_t opened_ms, struct buf *b)
{
    json_begin(b, NULL, '[');
    for (size_t i = 0; i < c->group_count; i++) {
        struct report_group points[2];
        const size_t count = points_of(&c->groups[i], points);
        for (size_t k = 0; k < count; k++) {
            if (i || k)
                buf_putc(b, ',');
            if (which == STEP)
                buf_printf(b, "%llu", (unsigned long long)points[k].low_step);
            else if (which == TIME)
                buf_printf(b, "%lld", (long long)points[k].low_ms - (long long)opened_ms);
            else
                put_value(points[k].low, b);
        }
    }
    buf_putc(b, ']');
}

void put_curves(const struct report_run *run, struct buf *b)
{
    json_begin(b, "curves", '[');
    for (size_t i = 0; i < run->curve_count; i++) {
        const struct report_curve *c = &run->curves[i];
        json_begin(b, NULL, '{');
        json_text(b, "metric", c->metric);
        json_text(b, "role", c->role);
        buf_puts(b, ",\"rank\":");
        json_item_rank(b, c->rank);
        json_number(b, "generation", c->generation);
        buf_puts(b, ",\"point\":");
        json_item_rank(b, c->point);
        json_number(b, "count", c->count);
        json_number(b, "odd", c->odd);
        json_number(b, "group", c->group_size);
        json_begin(b, "data", '[');
        for (enum column which = STEP; which <= VALUE; which++)
            put_column(c, which, run->opened_ms, b);
        buf_puts(b, "]}");
    }
    buf_putc(b, ']');
    json_number(b, "curves_left_out", run->curves_left_out);
    json_text(b, "curves_of", run->curves_of);
}
