/* A log in a few lines: its head, its tail, and the last lines of each failed worker. Rings hold the latest lines, one
 * for the tail and one for each worker; when a worker fails, its ring is kept. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum { FAILURES_MAX = 8, RINGS_MAX = 4096 };

struct ring {
    struct report_line *lines;
    size_t size, count; /* count: all lines ever put in */
};
struct worker {
    struct report_worker of;
    struct ring ring;
};
struct report_excerpt {
    uint64_t total;
    size_t head_size, before;
    struct report_line *head;
    struct ring tail;
    struct worker *workers;
    size_t worker_count, worker_cap, latest;
    struct report_line *kept;
    size_t kept_count;
    unsigned failures;
    struct report_line *result; /* borrows the texts */
    size_t result_count;
    struct report_worker *by_rank;
    bool ended;
};

struct report_excerpt *report_excerpt_create(size_t head, size_t tail, size_t before)
{
    struct report_excerpt *x = xcalloc(1, sizeof *x);
    x->head_size = head;
    x->before = before;
    x->head = xcalloc(head, sizeof *x->head);
    x->tail = (struct ring){xcalloc(tail, sizeof *x->tail.lines), tail, 0};
    return x;
}

static void free_lines(struct report_line *lines, size_t count)
{
    for (size_t i = 0; lines && i < count; i++)
        free(lines[i].text);
}

static void free_ring(struct ring *r)
{
    free_lines(r->lines, r->size);
    free(r->lines);
}

void report_excerpt_destroy(struct report_excerpt *x)
{
    if (!x)
        return;
    free_lines(x->head, x->head_size);
    free(x->head);
    free_ring(&x->tail);
    for (size_t i = 0; i < x->worker_count; i++)
        free_ring(&x->workers[i].ring);
    free_lines(x->kept, x->kept_count);
    free(x->workers);
    free(x->kept);
    free(x->result);
    free(x->by_rank);
    free(x);
}

static struct worker *worker_of(struct report_excerpt *x, uint32_t rank)
{
    for (size_t i = 0; i < x->worker_count; i++) {
        const size_t at = (x->latest + i) % x->worker_count;
        if (x->workers[at].of.rank == rank) {
            x->latest = at;
            return &x->workers[at];
        }
    }
    if (x->worker_count == x->worker_cap) {
        x->worker_cap = x->worker_cap ? 2 * x->worker_cap : 8;
        x->workers = xreallocarray(x->workers, x->worker_cap, sizeof *x->workers);
    }
    x->latest = x->worker_count++;
    x->workers[x->latest] = (struct worker){.of.rank = rank};
    return &x->workers[x->latest];
}

static void put(struct report_line *to, const struct report_line *line)
{
    char *text = xrealloc(to->text, REPORT_LINE_MAX);
    const size_t len = line->len < REPORT_LINE_MAX ? line->len : REPORT_LINE_MAX;
    *to = *line;
    memcpy(text, line->text, len);
    to->text = text;
    to->len = len;
}

static void put_ring(struct ring *r, const struct report_line *line)
{
    put(&r->lines[r->count++ % r->size], line);
}

void report_excerpt_add(struct report_excerpt *x, const struct report_line *line)
{
    struct worker *w = worker_of(x, line->rank);
    struct report_line l = *line;
    l.number = x->total++;
    w->of.lines += !l.error;
    w->of.error_lines += l.error;
    w->of.bytes += l.whole_bytes;
    w->of.last_ms = l.time_ms;
    if (l.number < x->head_size)
        put(&x->head[l.number], &l);
    put_ring(&x->tail, &l);
    if (!w->ring.lines && x->worker_count <= RINGS_MAX)
        w->ring = (struct ring){xcalloc(x->before, sizeof *w->ring.lines), x->before, 0};
    if (w->ring.lines)
        put_ring(&w->ring, &l);
}

static void lengthen(struct report_line *line, uint32_t rank, uint64_t bytes)
{
    if (line->rank == rank)
        line->whole_bytes += bytes;
}

void report_excerpt_more(struct report_excerpt *x, uint32_t rank, uint64_t bytes)
{
    struct worker *w = worker_of(x, rank);
    w->of.bytes += bytes;
    if (!w->ring.lines || w->ring.count == 0)
        return;
    struct report_line *own = &w->ring.lines[(w->ring.count - 1) % w->ring.size];
    const uint64_t number = own->number;
    lengthen(own, rank, bytes);
    if (number < x->head_size)
        lengthen(&x->head[number], rank, bytes);
    for (size_t i = 0; i < x->tail.size && i < x->tail.count; i++)
        if (x->tail.lines[i].number == number)
            lengthen(&x->tail.lines[i], rank, bytes);
}

void report_excerpt_failed(struct report_excerpt *x, uint32_t rank, uint8_t cause, int32_t value)
{
    struct worker *w = worker_of(x, rank);
    w->of.failed = true;
    w->of.cause = cause;
    w->of.value = value;
    report_excerpt_keep(x, rank);
}

void report_excerpt_keep(struct report_excerpt *x, uint32_t rank)
{
    const struct worker *w = worker_of(x, rank);
    if (!w->ring.lines || x->failures++ >= FAILURES_MAX)
        return;
    const size_t count = w->ring.count < w->ring.size ? w->ring.count : w->ring.size;
    x->kept = xreallocarray(x->kept, x->kept_count + count + 1, sizeof *x->kept);
    for (size_t i = 0; i < count; i++) {
        struct report_line *to = &x->kept[x->kept_count++];
        *to = (struct report_line){0};
        put(to, &w->ring.lines[i]);
    }
}

static int by_number(const void *a, const void *b)
{
    const struct report_line *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

static int by_rank(const void *a, const void *b)
{
    const struct report_worker *x = a, *y = b;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static void end(struct report_excerpt *x)
{
    const size_t head = x->total < x->head_size ? (size_t)x->total : x->head_size;
    const size_t tail = x->tail.count < x->tail.size ? x->tail.count : x->tail.size;
    size_t count = 0, kept = 0;
    if (x->ended)
        return;
    x->ended = true;
    x->result = xcalloc(head + tail + x->kept_count + 1, sizeof *x->result);
    for (size_t i = 0; i < head; i++)
        x->result[count++] = x->head[i];
    for (size_t i = 0; i < tail; i++)
        x->result[count++] = x->tail.lines[i];
    for (size_t i = 0; i < x->kept_count; i++)
        x->result[count++] = x->kept[i];
    qsort(x->result, count, sizeof *x->result, by_number);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || x->result[kept - 1].number != x->result[i].number)
            x->result[kept++] = x->result[i];
    x->result_count = kept;
    x->by_rank = xcalloc(x->worker_count + 1, sizeof *x->by_rank);
    for (size_t i = 0; i < x->worker_count; i++)
        x->by_rank[i] = x->workers[i].of;
    qsort(x->by_rank, x->worker_count, sizeof *x->by_rank, by_rank);
}

const struct report_line *report_excerpt_lines(struct report_excerpt *x, size_t *ret_count, uint64_t *ret_total)
{
    end(x);
    *ret_count = x->result_count;
    *ret_total = x->total;
    return x->result;
}

const struct report_worker *report_excerpt_workers(struct report_excerpt *x, size_t *ret_count)
{
    end(x);
    *ret_count = x->worker_count;
    return x->by_rank;
}

size_t report_excerpt_cost(struct report_excerpt *x)
{
    size_t cost = 0;
    end(x);
    for (size_t i = 0; i < x->result_count; i++) {
        const struct report_line *l = &x->result[i];
        cost += 40; /* the numbers beside it */
        for (size_t k = 0; k < l->len; k++) {
            const unsigned char c = (unsigned char)l->text[k];
            cost += c == '<' || c < 0x20 ? 6 : c == '"' || c == '\\' ? 2 : c < 0x80 ? 1 : 3;
        }
    }
    return cost;
}
