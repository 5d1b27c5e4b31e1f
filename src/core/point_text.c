/* The views of the points of a sweep for other modules, and the messages about points that failed. */
#include "points.h"

enum {
    POINTS_NAMED = 5,     /* in the words of a run that failed */
    POINT_WORD_MAX = 160, /* bytes of a name in a command */
};

void point_hint_logs(const struct run *r, uint32_t i, const char *what, const char *more, struct error *err)
{
    const struct spec_point *point = r->plan->points[i].point;
    struct buf word = {0};
    buf_shell_quote(&word, point->name);
    error_hint(err, "%s: rhrun logs %s --point %s%s", what, r->id,
               word.len <= POINT_WORD_MAX && str_is_printable(word.data) ? word.data : point->id, more);
    buf_free(&word);
}

uint32_t points_put_failed(struct run *r, struct buf *b)
{
    uint32_t named = 0, first = 0;
    for (uint32_t i = 0; i < r->plan->point_count && named <= POINTS_NAMED; i++) {
        if (r->points->items[i].state != POINT_FAILED)
            continue;
        first = named ? first : i;
        if (named++ < POINTS_NAMED)
            buf_printf(b, "%s%s", named > 1 ? "; " : "", r->plan->points[i].point->name);
        else
            buf_puts(b, "; ...");
    }
    return first;
}

void run_point(const struct run *r, uint32_t i, struct run_point *ret)
{
    const struct point *p = &r->points->items[i];
    *ret = (struct run_point){.running = p->state == POINT_RUNS || p->state == POINT_FETCHES,
                              .failed = p->state == POINT_FAILED,
                              .kept = p->state == POINT_DONE && p->kept};
    ret->over = p->state == POINT_DONE || p->state == POINT_FAILED;
    if (p->state == POINT_WAITS || p->nodes[0] >= r->plan->node_count)
        return;
    ret->nodes = p->nodes;
    ret->node_count = r->points->parts;
    ret->started_ms = r->tasks[(size_t)r->plan->points[i].launch * r->plan->node_count + p->nodes[0]].started_ms;
}

bool run_point_metric(const struct run *r, uint32_t i, uint32_t metric, double *ret)
{
    return point_metric(r, i, metric, ret);
}
