/* Progress lines: one entry per stream of a worker, in order of step and rank, so that the live view can list them as
 * they are. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static int compare(const struct progress *p, const struct run_line *line)
{
    uint32_t a[] = {p->step->id, p->rank, p->node, p->stream};
    uint32_t b[] = {line->step->id, line->line->rank, line->node, line->line->stream};
    for (size_t i = 0; i < ARRAY_LEN(a); i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return 0;
}

struct progress *progress_of(struct progress_table *t, const struct run_line *line)
{
    if (t->last && compare(t->last, line) == 0)
        return t->last;
    size_t low = 0, high = t->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = compare(t->items[middle], line);
        if (order == 0)
            return t->last = t->items[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    struct progress *p = xcalloc(1, sizeof *p);
    p->step = line->step;
    p->node = line->node;
    p->node_name = line->node_name;
    p->rank = line->line->rank;
    p->stream = line->line->stream;
    t->items = xreallocarray(t->items, t->count + 1, sizeof(struct progress *));
    memmove(&t->items[low + 1], &t->items[low], (t->count - low) * sizeof(struct progress *));
    t->items[low] = p;
    t->count++;
    return t->last = p;
}

void progress_end(struct progress *s)
{
    s->active = s->waits = s->drawn = false;
}

void progress_clear(struct progress_table *t)
{
    for (size_t i = 0; i < t->count; i++) {
        buf_free(&t->items[i]->text);
        buf_free(&t->items[i]->prefix);
        free(t->items[i]);
    }
    free(t->items);
    *t = (struct progress_table){0};
}

/* Halfway between the old value and the last half second: smooth, but not late. */
double speed_of(struct speed *s, uint64_t bytes)
{
    enum { SPEED_MS = 500 };
    uint64_t now = mono_ns() / 1000000;
    if (!s->at_ms || bytes < s->bytes) {
        *s = (struct speed){now, bytes, 0};
    } else if (now - s->at_ms >= SPEED_MS) {
        double latest = (double)(bytes - s->bytes) * 1000 / (double)(now - s->at_ms);
        *s = (struct speed){now, bytes, s->per_second > 0 ? (s->per_second + latest) / 2 : latest};
    }
    return s->per_second;
}

void cli_left(uint64_t ms, char ret[48])
{
    if (ms < 60000)
        snprintf(ret, 48, "about %llu s left", (unsigned long long)(ms / 1000 + 1));
    else if (ms < 3600000)
        snprintf(ret, 48, "about %llu m left", (unsigned long long)(ms / 60000 + 1));
    else
        snprintf(ret, 48, "about %llu h %02llu m left", (unsigned long long)(ms / 3600000),
                 (unsigned long long)(ms / 60000 % 60));
}
