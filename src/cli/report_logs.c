/* Excerpts of logs, and the workers that wrote them: the ranks of the latest generation. Failed steps are read first,
 * then the launch, then set-up, until the page is full. */
#include "reporting.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 1 << 20, STREAMS_MAX = 8192, CLEAN_MAX = 4 * REPORT_LINE_MAX };

struct stream { /* of a worker: its stdout, or its stderr */
    uint32_t rank;
    uint8_t stream;
    bool goes_on;    /* its line was too long for one piece */
    struct buf held; /* a line that a carriage return ended: shown unless another line replaces it */
    uint64_t held_ms, held_bytes;
};
struct reading {
    struct report_excerpt *excerpt;
    struct stream *streams;
    size_t count, latest;
    struct buf text;
};

static struct stream *stream_of(struct reading *r, const struct watch_line *line)
{
    for (size_t i = 0; i < r->count; i++) {
        const size_t at = (r->latest + i) % r->count;
        if (r->streams[at].rank == line->rank && r->streams[at].stream == line->stream) {
            r->latest = at;
            return &r->streams[at];
        }
    }
    if (r->count == STREAMS_MAX)
        return NULL;
    r->latest = r->count++;
    r->streams = xreallocarray(r->streams, r->count, sizeof *r->streams);
    r->streams[r->latest] = (struct stream){.rank = line->rank, .stream = line->stream};
    return &r->streams[r->latest];
}

static void put(struct reading *r, uint32_t rank, uint8_t stream, const struct buf *text, uint64_t ms, uint64_t bytes)
{
    struct report_line l = {.rank = rank == WIRE_NO_RANK ? REPORT_NO_RANK : rank,
                            .error = stream == WIRE_STREAM_ERR,
                            .time_ms = ms,
                            .text = text->data ? text->data : (char[]){0},
                            .len = text->len,
                            .whole_bytes = bytes};
    /* removed control characters do not count as lost; cut text does */
    if (bytes <= CLEAN_MAX && l.len <= REPORT_LINE_MAX)
        l.whole_bytes = l.len;
    report_excerpt_add(r->excerpt, &l);
}

static void put_held(struct reading *r, struct stream *s)
{
    if (s->held.len)
        put(r, s->rank, s->stream, &s->held, s->held_ms, s->held_bytes);
    buf_clear(&s->held);
}

static void on_line(void *arg, const struct watch_line *line)
{
    struct reading *r = arg;
    struct stream *s = stream_of(r, line);
    if (s && s->goes_on) {
        report_excerpt_more(r->excerpt, line->rank, line->len);
        s->goes_on = line->open && line->len >= WATCH_LINE_MAX;
        return;
    }
    buf_clear(&r->text);
    text_for_screen(&r->text, line->text, line->len < CLEAN_MAX ? line->len : CLEAN_MAX, false);
    if (s && line->returned) { /* a progress bar: the next line replaces it */
        buf_clear(&s->held);
        buf_append(&s->held, r->text.data ? r->text.data : "", r->text.len);
        s->held_ms = line->wall_ms;
        s->held_bytes = line->len;
        return;
    }
    if (s) {
        buf_clear(&s->held);
        s->goes_on = line->open && line->len >= WATCH_LINE_MAX;
    }
    put(r, line->rank, line->stream, &r->text, line->wall_ms, line->len);
}

static void on_end(void *arg, const struct wire_worker_end *end)
{
    struct reading *r = arg;
    for (size_t i = 0; i < r->count; i++)
        if (r->streams[i].rank == end->rank)
            put_held(r, &r->streams[i]);
    report_excerpt_failed(r->excerpt, end->rank, end->cause, end->value);
}

/* The more logs there are, the fewer lines each gets. */
static struct report_excerpt *create_excerpt(size_t logs)
{
    return logs > 500   ? report_excerpt_create(4, 12, 12)
           : logs > 100 ? report_excerpt_create(10, 30, 30)
                        : report_excerpt_create(REPORT_HEAD, REPORT_TAIL, REPORT_BEFORE);
}

static struct report_excerpt *read_log(const char *path, size_t logs)
{
    struct reading r = {0};
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    uint8_t *chunk = xmalloc(CHUNK);
    r.excerpt = create_excerpt(logs);
    struct watch *watch = watch_create(on_line, &r);
    watch_on_end(watch, on_end);
    for (bool more = true; more;) {
        const ssize_t n = read(fd, chunk, CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        more = n > 0 && watch_feed(watch, chunk, (size_t)n);
    }
    watch_end(watch);
    for (size_t i = 0; i < r.count; i++) {
        put_held(&r, &r.streams[i]);
        buf_free(&r.streams[i].held);
    }
    watch_destroy(watch);
    buf_free(&r.text);
    free(r.streams);
    free(chunk);
    close(fd);
    return r.excerpt;
}

/* ---- ranks ---- */

static bool latest_launch(const struct report_attempt *a, uint32_t generation)
{
    return a->launch && a->generation == generation;
}

struct ranks {
    struct gathering *g;
    struct report_rank *items;
    size_t cap;
};

static struct report_rank *rank_of(struct ranks *all, uint32_t rank, const struct report_attempt *a)
{
    struct report_run *run = all->g->ret;
    for (size_t i = run->rank_count; i-- > 0;)
        if (all->items[i].rank == rank && all->items[i].node == a->node && all->items[i].point == a->point)
            return &all->items[i];
    if (run->rank_count == REPORT_RANKS_MAX) {
        run->ranks_left_out++;
        return NULL;
    }
    if (run->rank_count == all->cap) {
        all->cap = all->cap ? 2 * all->cap : 64;
        struct report_rank *more = arena_array(all->g->arena, all->cap, sizeof *more);
        if (run->rank_count)
            memcpy(more, all->items, run->rank_count * sizeof *more);
        all->items = more;
    }
    run->ranks = all->items;
    const struct cli_worker who = cli_roles_worker(&all->g->roles, rank);
    struct report_rank *r = &all->items[run->rank_count++];
    *r = (struct report_rank){.rank = rank,
                              .role = rank == REPORT_NO_RANK ? "launcher" : who.role,
                              .role_rank = rank == REPORT_NO_RANK ? 0 : who.role_rank,
                              .node = a->node,
                              .generation = a->generation,
                              .point = a->point,
                              .end = a->failed ? "stopped" : a->outcome};
    return r;
}

static void fail_rank(struct ranks *all, const struct report_attempt *a, uint32_t rank, const char *words)
{
    struct report_rank *r = rank_of(all, rank, a);
    if (!r || r->failed)
        return;
    r->failed = true;
    r->end = arena_strdup(all->g->arena, words);
}

static void take_workers(struct ranks *all, const struct report_attempt *a, struct report_excerpt *x)
{
    size_t count;
    const struct report_worker *w = report_excerpt_workers(x, &count);
    for (size_t i = 0; i < count; i++) {
        char words[256];
        struct report_rank *r = rank_of(all, w[i].rank, a);
        if (!r)
            continue;
        r->lines = w[i].lines;
        r->error_lines = w[i].error_lines;
        r->bytes = w[i].bytes;
        r->last_ms = w[i].last_ms;
        if (!w[i].failed)
            continue;
        run_cause_text(OUTCOME_FAILED, w[i].cause, w[i].value, words, sizeof words);
        fail_rank(all, a, w[i].rank, words);
    }
}

/* Workers without output, if each node has the same number. */
static void take_silent(struct ranks *all, const struct report_attempt *a, const struct report_part *part)
{
    for (uint32_t i = 0; i < part->procs && all->g->ret->rank_count < REPORT_RANKS_MAX; i++)
        rank_of(all, part->before * part->procs + i, a);
}

/* Workers without output, from the lock. */
struct placing {
    struct ranks *all;
    uint32_t generation;
};

static void take_placed(void *arg, uint32_t rank, uint32_t node)
{
    const struct placing *p = arg;
    const struct gathering *g = p->all->g;
    for (size_t i = 0; i < g->ret->attempt_count; i++)
        if (g->attempts[i].node == node && latest_launch(&g->attempts[i], p->generation)) {
            rank_of(p->all, rank, &g->attempts[i]);
            return;
        }
}

static int by_rank(const void *a, const void *b)
{
    const struct report_rank *x = a, *y = b;
    if (x->point != y->point)
        return x->point < y->point ? -1 : 1;
    return x->rank != y->rank ? (x->rank < y->rank ? -1 : 1) : x->node < y->node ? -1 : x->node > y->node;
}

/* ---- which logs, in which order ---- */

struct turn {
    size_t index;
    unsigned class; /* 0 is read first */
};

static int by_class(const void *a, const void *b)
{
    const struct turn *x = a, *y = b;
    if (x->class != y->class)
        return x->class < y->class ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static struct turn *turns_of(const struct gathering *g, uint32_t *ret_generation)
{
    const size_t count = g->ret->attempt_count;
    struct turn *turns = xcalloc(count + 1, sizeof *turns);
    *ret_generation = 0;
    for (size_t i = 0; i < count; i++)
        if (g->attempts[i].launch && !g->attempts[i].of_run && g->attempts[i].generation > *ret_generation)
            *ret_generation = g->attempts[i].generation;
    for (size_t i = 0; i < count && *ret_generation == 0; i++) /* this run kept the launch */
        if (g->attempts[i].launch)
            *ret_generation = g->attempts[i].generation;
    for (size_t i = 0; i < count; i++) {
        const struct report_attempt *a = &g->attempts[i];
        turns[i] = (struct turn){i, a->failed                           ? 0
                                    : latest_launch(a, *ret_generation) ? 1
                                    : a->launch                         ? 2
                                    : a->of_run                         ? 4
                                                                        : 3};
    }
    qsort(turns, count, sizeof *turns, by_class);
    return turns;
}

static void read_attempt(struct gathering *g, struct ranks *ranks, size_t index, bool ranked, size_t *budget)
{
    struct report_attempt *a = &g->attempts[index];
    if (*budget == 0 && !ranked) {
        a->log_left_out = true;
        return;
    }
    CLEANUP(cleanup_free)
    char *path =
        xasprintf("%s/runs/%s/%s.spool", journal_path(g->journal), a->of_run ? a->of_run : g->ret->id, a->attempt);
    struct report_excerpt *x = read_log(path, g->ret->attempt_count);
    if (x && a->failed)
        report_excerpt_keep(x, a->cause_rank);
    if (x && ranked)
        take_workers(ranks, a, x);
    if (ranked)
        take_silent(ranks, a, &g->parts[index]);
    if (ranked && a->cause_rank != REPORT_NO_RANK)
        fail_rank(ranks, a, a->cause_rank, a->cause);
    const size_t cost = x ? report_excerpt_cost(x) : 0;
    if (cost > *budget) {
        a->log_left_out = true;
        report_excerpt_destroy(x);
        *budget = 0; /* nothing later in the order takes its place */
        return;
    }
    a->log = x;
    *budget -= cost;
}

void report_gather_logs(struct gathering *g, size_t *budget)
{
    struct ranks ranks = {.g = g};
    uint32_t generation;
    struct turn *turns = turns_of(g, &generation);
    for (size_t i = 0; i < g->ret->attempt_count; i++)
        read_attempt(g, &ranks, turns[i].index, latest_launch(&g->attempts[turns[i].index], generation), budget);
    if (!g->points)
        report_each_placed(g, take_placed, &(struct placing){&ranks, generation});
    if (g->ret->rank_count)
        qsort(ranks.items, g->ret->rank_count, sizeof *ranks.items, by_rank);
    free(turns);
}

void report_free_logs(struct report_run *run)
{
    for (size_t i = 0; i < run->attempt_count; i++)
        report_excerpt_destroy(run->attempts[i].log);
}
