/* Numbers that workers print. The latest value of each metric and rank is kept, and goes to the journal now and then:
 * the more values there are, the less often, so that a long job with many ranks does not fill the journal. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum { FLUSH_MIN_MS = 5000, FLUSH_PER_VALUE_MS = 250 };

struct value {
    double latest;
    uint64_t count;
    bool changed;
};
struct series { /* one metric's values by rank + 1; the first value is the launchers' */
    struct value *values;
    size_t cap;
};
struct metrics {
    struct run *run;
    struct series *series;
    size_t total; /* values that all series have room for */
    size_t changed;
    struct loop_timer *timer;
};

static void on_timer(void *arg)
{
    metrics_flush(arg);
}

struct metrics *metrics_create(struct run *r)
{
    struct metrics *m = xcalloc(1, sizeof *m);
    m->run = r;
    m->series = xcalloc(r->plan->spec->metric_count + 1, sizeof *m->series);
    m->timer = loop_timer_create(r->hands->session->loop, on_timer, m);
    r->hands->metrics = m;
    return m;
}

void metrics_destroy(struct metrics *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->run->plan->spec->metric_count; i++)
        free(m->series[i].values);
    if (m->run->hands->metrics == m)
        m->run->hands->metrics = NULL;
    loop_timer_destroy(m->timer);
    free(m->series);
    free(m);
}

void metrics_begin(struct metrics *m)
{
    for (size_t i = 0; i < m->run->plan->spec->metric_count; i++)
        for (size_t k = 0; k < m->series[i].cap; k++)
            m->series[i].values[k] = (struct value){0};
    m->changed = 0;
}

void metrics_add(struct metrics *m, uint32_t metric, uint32_t rank, double value)
{
    struct series *s = &m->series[metric];
    size_t slot = rank == WIRE_NO_RANK ? 0 : (size_t)rank + 1;
    if (slot >= s->cap) {
        size_t cap = s->cap ? s->cap : 8;
        while (cap <= slot)
            cap *= 2;
        if (m->total - s->cap + cap > EVENT_METRICS_MAX)
            return;
        s->values = xreallocarray(s->values, cap, sizeof *s->values);
        memset(s->values + s->cap, 0, (cap - s->cap) * sizeof *s->values);
        m->total += cap - s->cap;
        s->cap = cap;
    }
    struct value *v = &s->values[slot];
    v->latest = value;
    v->count++;
    m->changed += !v->changed;
    v->changed = true;
    /* the wait does not depend on how many values have changed so far: most will have changed when it ends */
    if (!loop_timer_active(m->timer))
        loop_timer_start(m->timer, FLUSH_MIN_MS);
}

void metrics_flush(struct metrics *m)
{
    struct run *r = m ? m->run : NULL;
    if (!m || m->changed == 0 || !r->hands->session->journal || r->opening != OPENING_DONE ||
        r->stage >= STAGE_CLOSING || r->ending == ENDING_LET_GO)
        return;
    struct arena *arena = arena_create();
    struct event_metric *items = arena_array(arena, m->changed, sizeof *items);
    uint32_t count = 0;
    for (size_t i = 0; i < r->plan->spec->metric_count; i++)
        for (size_t k = 0; k < m->series[i].cap; k++) {
            struct value *v = &m->series[i].values[k];
            if (!v->changed)
                continue;
            char *text = arena_alloc(arena, MATCH_NUMBER_MAX);
            match_number_text(v->latest, text);
            items[count++] = (struct event_metric){r->plan->spec->metrics[i].name, text,
                                                   k == 0 ? WIRE_NO_RANK : (uint32_t)k - 1, v->count};
            v->changed = false;
        }
    m->changed = 0;
    struct event e = {.type = EVENT_METRICS, .metrics = {items, count}};
    run_append(r, &e);
    arena_destroy(arena);
    uint64_t pause = (uint64_t)count * FLUSH_PER_VALUE_MS;
    /* after this pause the values are flushed again, if any has changed */
    loop_timer_start(m->timer, pause > FLUSH_MIN_MS ? pause : FLUSH_MIN_MS);
}

static bool recorded(const struct run *r, const char *name, double *ret_value, uint32_t *ret_rank)
{
    const struct state_run *run = run_recorded(r);
    const struct state_metric *best = NULL;
    for (uint32_t i = 0; run && i < run->metric_count; i++) {
        const struct state_metric *m = &run->metrics[i];
        if (strcmp(m->name, name) == 0 && (!best || m->rank < best->rank))
            best = m;
    }
    if (!best || !match_number(best->value, strlen(best->value), ret_value))
        return false;
    *ret_rank = best->rank;
    return true;
}

bool run_metric(const struct run *r, uint32_t metric, double *ret_value, uint32_t *ret_rank)
{
    const struct metrics *m = r->hands->metrics;
    const struct series *s = m ? &m->series[metric] : NULL;
    for (size_t i = 0; s && i < s->cap; i++) {
        const size_t slot = i + 1 < s->cap ? i + 1 : 0; /* launchers come last */
        if (s->values[slot].count == 0)
            continue;
        *ret_value = s->values[slot].latest;
        *ret_rank = slot ? (uint32_t)slot - 1 : WIRE_NO_RANK;
        return true;
    }
    return recorded(r, r->plan->spec->metrics[metric].name, ret_value, ret_rank);
}
