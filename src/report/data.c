/* The data of a page, as JSON. Long lists are arrays of arrays; src/report/page/data.js knows the order of their
 * fields. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static void put_pairs(const char *key, const struct report_pair *pairs, size_t count, struct buf *b)
{
    json_begin(b, key, '[');
    for (size_t i = 0; i < count; i++) {
        json_begin(b, NULL, '[');
        json_item_text(b, pairs[i].name);
        json_item_text(b, pairs[i].value);
        buf_putc(b, ']');
    }
    buf_putc(b, ']');
}

/* ---- steps on nodes ---- */

static size_t step_index(const char **names, size_t *count, const char *name)
{
    for (size_t i = *count; i-- > 0;)
        if (strcmp(names[i], name) == 0)
            return i;
    names[*count] = name;
    return (*count)++;
}

static void put_attempt(const struct report_attempt *a, size_t step, uint64_t opened_ms, struct buf *b)
{
    const bool begun = a->started_ms > 0, ended = a->finished_ms > 0;
    json_begin(b, NULL, '[');
    json_item_number(b, step);
    json_item_rank(b, a->node);
    json_item_number(b, a->generation);
    json_item_text(b, a->outcome);
    buf_printf(b, begun ? ",%lld" : ",null", (long long)a->started_ms - (long long)opened_ms);
    buf_printf(b, ended ? ",%lld" : ",null", (long long)a->finished_ms - (long long)opened_ms);
    json_item_text(b, a->cause);
    json_item_rank(b, a->cause_rank);
    json_item_number(b, a->log_bytes);
    json_item_number(b, a->dropped_bytes);
    json_item_text(b, a->of_run);
    json_item_rank(b, a->point);
    json_item_number(b, (a->launch ? 1u : 0u) | (a->failed ? 2u : 0u) | (a->log_left_out ? 4u : 0u));
    buf_putc(b, ']');
}

static void put_attempts(const struct report_run *run, struct buf *b)
{
    const char **names = xcalloc(run->attempt_count + 1, sizeof *names);
    size_t count = 0;
    json_begin(b, "attempts", '[');
    for (size_t i = 0; i < run->attempt_count; i++)
        put_attempt(&run->attempts[i], step_index(names, &count, run->attempts[i].step), run->opened_ms, b);
    buf_putc(b, ']');
    json_begin(b, "steps", '[');
    for (size_t i = 0; i < count; i++)
        json_item_text(b, names[i]);
    buf_putc(b, ']');
    json_number(b, "attempts_left_out", run->attempts_left_out);
    free(names);
}

/* ---- logs ---- */

static void put_line(const struct report_line *l, uint64_t left_out, uint64_t opened_ms, struct buf *b)
{
    json_begin(b, NULL, '[');
    json_item_number(b, left_out);
    json_item_rank(b, l->rank);
    json_item_number(b, l->error);
    buf_printf(b, ",%lld,", l->time_ms ? (long long)l->time_ms - (long long)opened_ms : 0);
    buf_json_string(b, l->text, l->len);
    if (l->whole_bytes > l->len)
        json_item_number(b, l->whole_bytes);
    buf_putc(b, ']');
}

static void put_log(const struct report_run *run, size_t index, struct buf *b)
{
    size_t count;
    uint64_t total, next = 0;
    const struct report_line *lines = report_excerpt_lines(run->attempts[index].log, &count, &total);
    json_begin(b, NULL, '{');
    json_number(b, "attempt", index);
    json_number(b, "total", total);
    json_begin(b, "lines", '[');
    for (size_t i = 0; i < count; i++) {
        put_line(&lines[i], lines[i].number - next, run->opened_ms, b);
        next = lines[i].number + 1;
    }
    buf_puts(b, "]}");
}

static void put_logs(const struct report_run *run, struct buf *b)
{
    json_begin(b, "logs", '[');
    for (size_t i = 0; i < run->attempt_count; i++)
        if (run->attempts[i].log)
            put_log(run, i, b);
    buf_putc(b, ']');
}

/* ---- ranks, points, events, nodes ---- */

static void put_ranks(const struct report_run *run, struct buf *b)
{
    json_begin(b, "ranks", '[');
    for (size_t i = 0; i < run->rank_count; i++) {
        const struct report_rank *r = &run->ranks[i];
        json_begin(b, NULL, '[');
        json_item_rank(b, r->rank);
        json_item_text(b, r->role);
        json_item_number(b, r->role_rank);
        json_item_rank(b, r->node);
        json_item_text(b, r->end);
        json_item_number(b, r->failed);
        json_item_number(b, r->lines);
        json_item_number(b, r->error_lines);
        json_item_number(b, r->bytes);
        buf_printf(b, r->last_ms ? ",%lld" : ",null", (long long)r->last_ms - (long long)run->opened_ms);
        json_item_rank(b, r->point);
        buf_putc(b, ']');
    }
    buf_putc(b, ']');
    json_number(b, "ranks_left_out", run->ranks_left_out);
}

/* Names of params and metrics are stored once, because thousands of points of a sweep have the same names. */
struct names {
    const char **items;
    size_t count, cap;
};

static size_t name_index(struct names *n, const char *name)
{
    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->items[i], name) == 0)
            return i;
    if (n->count == n->cap) {
        n->cap = n->cap ? 2 * n->cap : 16;
        n->items = xreallocarray(n->items, n->cap, sizeof *n->items);
    }
    n->items[n->count] = name;
    return n->count++;
}

static void put_point(const struct report_point *p, struct names *names, struct buf *b)
{
    json_begin(b, NULL, '[');
    json_item_text(b, p->name);
    json_item_text(b, p->state);
    json_item_text(b, p->place);
    json_item_text(b, p->message);
    json_item_number(b, p->started_ms);
    json_item_number(b, p->finished_ms);
    json_begin(b, NULL, '[');
    for (size_t i = 0; i < p->param_count; i++) {
        json_item_number(b, name_index(names, p->params[i].name));
        json_item_text(b, p->params[i].value);
    }
    buf_putc(b, ']');
    json_begin(b, NULL, '[');
    for (size_t i = 0; i < p->metric_count; i++) {
        json_item_number(b, name_index(names, p->metrics[i].name));
        json_item_text(b, p->metrics[i].value);
        json_item_rank(b, p->metrics[i].rank);
        json_item_number(b, p->metrics[i].count);
    }
    buf_putc(b, ']');
    json_item_text(b, p->step);
    buf_putc(b, ']');
}

static void put_points(const struct report_run *run, struct buf *b)
{
    struct names names = {0};
    json_begin(b, "points", '[');
    for (size_t i = 0; i < run->point_count; i++)
        put_point(&run->points[i], &names, b);
    buf_putc(b, ']');
    json_begin(b, "names", '[');
    for (size_t i = 0; i < names.count; i++)
        json_item_text(b, names.items[i]);
    buf_putc(b, ']');
    free(names.items);
}

static void put_events(const struct report_run *run, struct buf *b)
{
    json_begin(b, "events", '[');
    for (size_t i = 0; i < run->event_count; i++) {
        const struct report_event *e = &run->events[i];
        json_begin(b, NULL, '[');
        buf_printf(b, "%lld", (long long)e->time_ms - (long long)run->opened_ms);
        json_item_text(b, e->kind);
        json_item_text(b, e->host);
        json_item_text(b, e->text);
        buf_putc(b, ']');
    }
    buf_putc(b, ']');
    json_number(b, "events_left_out", run->events_left_out);
}

static void put_nodes(const struct report_run *run, struct buf *b)
{
    json_begin(b, "nodes", '[');
    for (size_t i = 0; i < run->node_count; i++) {
        json_begin(b, NULL, '{');
        json_text(b, "host", run->nodes[i].host);
        buf_puts(b, ",\"facts\":");
        buf_puts(b, run->nodes[i].facts_json ? run->nodes[i].facts_json : "{}");
        buf_putc(b, '}');
    }
    buf_putc(b, ']');
}

static void put_packages(const struct report_run *run, struct buf *b)
{
    json_begin(b, "packages", '[');
    for (size_t i = 0; i < run->package_count; i++) {
        const struct report_package *p = &run->packages[i];
        json_begin(b, NULL, '[');
        json_item_text(b, p->name);
        json_item_text(b, p->version);
        json_item_text(b, p->from);
        json_item_text(b, p->where);
        json_item_number(b, p->system);
        buf_putc(b, ']');
    }
    buf_putc(b, ']');
    json_number(b, "packages_left_out", run->packages_left_out);
}

static void put_run(const struct report_run *run, struct buf *b)
{
    json_begin(b, NULL, '{');
    json_text(b, "run", run->id);
    json_text(b, "job", run->job);
    json_text(b, "status", run->status);
    json_bool(b, "open", run->open);
    json_text(b, "message", run->message);
    buf_printf(b, ",\"exit_status\":%d", run->exit_status);
    json_number(b, "opened_ms", run->opened_ms);
    json_number(b, "closed_ms", run->closed_ms);
    json_number(b, "restarts", run->restarts);
    json_text(b, "command", run->command);
    json_text(b, "spec", run->spec_text);
    put_pairs("provenance", run->provenance, run->provenance_count, b);
    put_packages(run, b);
    put_nodes(run, b);
    put_attempts(run, b);
    put_logs(run, b);
    put_ranks(run, b);
    put_points(run, b);
    if (run->best_metric) {
        json_begin(b, "best", '[');
        json_item_text(b, run->best_metric);
        json_item_text(b, run->best_max ? "max" : "min");
        buf_putc(b, ']');
    }
    put_events(run, b);
    put_curves(run, b);
    buf_putc(b, '}');
}

/* "<" occurs only in strings, where the escape means the same. */
static void put_without_tags(const struct buf *from, struct buf *ret)
{
    const char *p = from->data, *end = from->data + from->len;
    buf_reserve(ret, from->len);
    while (p < end) {
        const char *tag = memchr(p, '<', (size_t)(end - p));
        const char *stop = tag ? tag : end;
        buf_append(ret, p, (size_t)(stop - p));
        if (tag)
            buf_puts(ret, "\\u003c");
        p = tag ? tag + 1 : end;
    }
}

void report_json(const struct report *r, struct buf *ret)
{
    struct buf b = {0};
    buf_puts(&b, "{\"version\":1");
    json_text(&b, "rhrun", r->version);
    json_number(&b, "made_ms", r->made_ms);
    json_begin(&b, "runs", '[');
    for (size_t i = 0; i < r->run_count; i++)
        put_run(&r->runs[i], &b);
    buf_puts(&b, "]}");
    put_without_tags(&b, ret);
    buf_free(&b);
}
