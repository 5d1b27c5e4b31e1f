/* The values of a run's metrics as curves. */
#include "reporting.h"
#include "series.h"

#include <stdlib.h>
#include <string.h>

enum { SERIES_MAX = 512 }; /* of a run: the first ones */

struct latest { /* of a point and a metric */
    uint64_t count;
    uint32_t rank;
    double value;
};
struct curves {
    const struct series *s;
    struct report_curve *items;
    size_t count, latest;
    uint64_t left_out; /* values of series beyond SERIES_MAX */
    struct gathering *g;
    struct latest *latests; /* [point * metrics + metric]; NULL: no sweep */
};

static struct report_curve *curve_of(struct curves *all, const struct series_point *p, uint32_t point)
{
    const char *name = all->s->metrics[p->metric].name;
    for (size_t i = 0; i < all->count; i++) {
        const size_t at = (all->latest + i) % all->count;
        struct report_curve *c = &all->items[at];
        if (c->rank == p->rank && c->generation == p->generation && c->point == point && c->metric == name) {
            all->latest = at;
            return c;
        }
    }
    if (all->count == SERIES_MAX)
        return NULL;
    all->latest = all->count++;
    struct report_curve *c = &all->items[all->latest];
    *c = (struct report_curve){.metric = name,
                               .point = point,
                               .role = arena_strdup(all->g->arena, p->role),
                               .rank = p->rank,
                               .generation = p->generation};
    return c;
}

static void take_latest(struct latest *l, const struct series_point *p)
{
    if (l->count > 0 && p->rank > l->rank)
        return;
    if (p->rank < l->rank)
        l->count = 0;
    *l = (struct latest){l->count + 1, p->rank, p->value};
}

static void on_point(void *arg, const struct series_point *p)
{
    struct curves *all = arg;
    const uint32_t point = report_point_find(all->g, p->point);
    if (point != REPORT_NO_RANK && all->latests)
        take_latest(&all->latests[point * all->s->count + p->metric], p);
    if (point != REPORT_NO_RANK && p->rank != 0 && p->rank != WIRE_NO_RANK && !all->s->metrics[p->metric].has_rank)
        return; /* for a point its first rank is enough */
    struct report_curve *c = curve_of(all, p, point);
    if (c)
        report_curve_add(c, p->step, p->time_ms, p->value);
    else
        all->left_out++;
}

static size_t groups_of(const struct curves *all)
{
    size_t sum = 0;
    for (size_t i = 0; i < all->count; i++)
        sum += all->items[i].group_count;
    return sum;
}

/* The longest curves lose detail first. */
static void make_room(struct curves *all, size_t max_groups)
{
    size_t most = REPORT_GROUPS_MAX;
    while (groups_of(all) > max_groups && most > 4) {
        most /= 2;
        for (size_t i = 0; i < all->count; i++)
            while (all->items[i].group_count > most)
                report_curve_halve(&all->items[i]);
    }
}

static void give_latest(const struct curves *all)
{
    const size_t metrics = all->s->count;
    for (size_t i = 0; i < all->g->ret->point_count; i++) {
        struct report_metric *list = arena_array(all->g->arena, metrics, sizeof *list);
        size_t count = 0;
        for (size_t k = 0; k < metrics; k++) {
            const struct latest *l = &all->latests[i * metrics + k];
            char *text = l->count ? arena_alloc(all->g->arena, MATCH_NUMBER_MAX) : NULL;
            if (!text)
                continue;
            match_number_text(l->value, text);
            list[count++] = (struct report_metric){all->s->metrics[k].name, text, l->rank, l->count};
        }
        all->g->points[i].metrics = list;
        all->g->points[i].metric_count = count;
    }
}

int report_gather_curves(struct gathering *g, size_t max_groups, struct error *err)
{
    struct series *s = arena_alloc(g->arena, sizeof *s);
    struct curves all = {.s = s, .g = g};
    struct error none = ERROR_INIT;
    if (series_open(g->journal, g->run, g->arena, s, &none) < 0 || s->count == 0)
        return 0; /* the journal lacks the spec, or the spec has no metrics */
    all.items = xcalloc(SERIES_MAX, sizeof *all.items);
    if (g->points)
        all.latests = xcalloc(g->ret->point_count * s->count, sizeof *all.latests);
    const int rc = series_read(s, NULL, on_point, &all, err);
    make_room(&all, max_groups);
    if (all.latests)
        give_latest(&all);
    free(all.latests);
    g->ret->curves = all.items;
    g->ret->curve_count = all.count;
    g->ret->curves_left_out = all.left_out;
    if (!str_eq(s->run, g->run->id))
        g->ret->curves_of = s->run;
    return rc;
}

void report_free_curves(struct report_run *run)
{
    struct report_curve *items = (struct report_curve *)(uintptr_t)run->curves;
    for (size_t i = 0; i < run->curve_count; i++)
        report_curve_free(&items[i]);
    free(items);
}
