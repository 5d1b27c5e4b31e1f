/* The numbers that the workers of points print: for each part of a point the latest value of each metric, from the
 * lowest rank on that node. They go to the journal with the end of the part. */
#include "points.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct latest {
    double value;
    uint32_t rank;
    bool there;
};
struct point_metrics {
    struct run *run;
    struct matcher *matcher;
    struct latest **of; /* by point and part, then by metric; NULL: none yet */
    size_t at;          /* index in `of` for the present line */
    bool *limited;      /* by metric: the user was told that its pattern takes too long */
};

static size_t first_of(const struct point_metrics *m, uint32_t point)
{
    return (size_t)point * m->run->points->parts;
}

static void on_hit(void *arg, const struct match_hit *hit)
{
    struct point_metrics *m = arg;
    const uint32_t count = (uint32_t)m->run->plan->spec->metric_count;
    if (!m->of[m->at])
        m->of[m->at] = arena_array(m->run->arena, count, sizeof *m->of[m->at]);
    struct latest *l = &m->of[m->at][hit->pattern];
    if (l->there && hit->line->rank > l->rank)
        return;
    *l = (struct latest){hit->value, hit->line->rank, true};
}

static void on_limit(void *arg, uint32_t pattern, const struct watch_line *line)
{
    struct point_metrics *m = arg;
    (void)line;
    if (m->limited[pattern])
        return;
    m->limited[pattern] = true;
    run_note(m->run, EVENT_NODE_NONE, "the pattern of %s takes too long over a line, which counts as not matching",
             m->run->plan->spec->metrics[pattern].name);
}

struct point_metrics *point_metrics_create(struct run *r)
{
    const struct spec *spec = r->plan->spec;
    if (spec->metric_count == 0)
        return NULL;
    struct point_metrics *m = xcalloc(1, sizeof *m);
    struct match_pattern *patterns = xcalloc(spec->metric_count, sizeof *patterns);
    for (size_t i = 0; i < spec->metric_count; i++)
        patterns[i] = (struct match_pattern){.pattern = spec->metrics[i].pattern.text,
                                             .streams = MATCH_OUT | MATCH_ERR,
                                             .value = true,
                                             .has_rank = spec->metrics[i].has_rank,
                                             .rank = spec->metrics[i].rank};
    *m = (struct point_metrics){
        .run = r,
        .of = arena_array(r->arena, (size_t)r->plan->point_count * r->points->parts + 1, sizeof *m->of),
        .limited = arena_array(r->arena, spec->metric_count, sizeof *m->limited)};
    m->matcher = matcher_create(patterns, spec->metric_count, on_hit, on_limit, m);
    free(patterns);
    return m;
}

void point_metrics_destroy(struct point_metrics *m)
{
    if (m)
        matcher_destroy(m->matcher);
    free(m);
}

void point_metrics_begin(struct point_metrics *m, uint32_t point)
{
    for (uint32_t k = 0; m && k < m->run->points->parts; k++)
        if (m->of[first_of(m, point) + k])
            memset(m->of[first_of(m, point) + k], 0, m->run->plan->spec->metric_count * sizeof **m->of);
}

void point_line(struct run *r, const struct plan_step *step, uint32_t node, const struct watch_line *line)
{
    struct point_metrics *m = r->points->metrics;
    const uint32_t part = point_part(r, step->point, node);
    if (!m || line->stream == WIRE_STREAM_NOTE || step->kind->fetch || part == POINT_NO_NODE)
        return;
    m->at = first_of(m, step->point) + part;
    matcher_line(m->matcher, line, NULL);
}

static bool metric_of(const struct point_metrics *m, size_t at, uint32_t metric, double *ret)
{
    if (!m || !m->of[at] || !m->of[at][metric].there)
        return false;
    *ret = m->of[at][metric].value;
    return true;
}

bool point_metric(const struct run *r, uint32_t point, uint32_t metric, double *ret)
{
    const struct point_metrics *m = r->points->metrics;
    for (uint32_t k = 0; m && k < r->points->parts; k++) /* the ranks ascend with the parts */
        if (metric_of(m, first_of(m, point) + k, metric, ret))
            return true;
    return false;
}

const char *point_metrics_json(const struct run *r, uint32_t point, uint32_t node, struct arena *arena)
{
    const struct point_metrics *m = r->points->metrics;
    const uint32_t part = point_part(r, point, node);
    struct buf b = {0};
    for (uint32_t i = 0; m && part != POINT_NO_NODE && i < r->plan->spec->metric_count; i++) {
        char text[MATCH_NUMBER_MAX];
        double value;
        if (!metric_of(m, first_of(m, point) + part, i, &value))
            continue;
        const char *name = r->plan->spec->metrics[i].name, *quote = isfinite(value) ? "" : "\"";
        match_number_text(value, text);
        buf_putc(&b, b.len ? ',' : '{');
        buf_json_string(&b, name, strlen(name));
        buf_printf(&b, ":%s%s%s", quote, text, quote);
    }
    if (b.len)
        buf_putc(&b, '}');
    const char *json = b.len ? arena_strdup(arena, b.data) : NULL;
    buf_free(&b);
    return json;
}
