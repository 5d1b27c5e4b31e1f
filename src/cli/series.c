/* Reads numbers from logs: see series.h. A log is read in portions. Several threads do the same: take the next portion,
 * search its lines, and give the results out after those of earlier portions. Only one thread at a time takes or gives
 * out. */
#include "series.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 256 << 10, THREADS_MAX = 4, ALONE_MAX = 512 << 10 /* logs below this need no second thread */ };

struct series_log {
    const char *path;
    const char *point;           /* NULL: none */
    uint64_t point_hash, launch; /* launch: of the point; equal for its parts on several nodes */
    uint32_t node, generation;
    const struct cli_roles *roles;
};

/* ---- which logs ---- */

struct looking {
    struct series *s;
    const struct cli_roles *roles; /* of the latest generation */
    const char *spec_text;
    size_t cap;
    bool of_logs;
};

static uint64_t hash_of(const char *text)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (; text && *text; text++)
        h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h;
}

/* The number of the point's attempt, from 1. */
static uint32_t tries_of(const struct series *s, const char *point, uint64_t hash, uint64_t launch)
{
    uint32_t tries = 0;
    for (size_t i = s->log_count; i-- > 0 && !tries;)
        if (s->logs[i].point_hash == hash && str_eq(s->logs[i].point, point))
            tries = s->logs[i].generation + (s->logs[i].launch != launch);
    return tries ? tries : 1;
}

struct logged { /* an attempt with a log */
    const char *run, *attempt, *point;
    uint32_t node, generation;
    uint64_t launch;
};

static void add_log(struct looking *k, const struct logged *of)
{
    struct series *s = k->s;
    const uint64_t hash = hash_of(of->point);
    if (s->log_count == k->cap) {
        k->cap = k->cap ? 2 * k->cap : 16;
        struct series_log *more = arena_array(s->arena, k->cap, sizeof *more);
        if (s->log_count)
            memcpy(more, s->logs, s->log_count * sizeof *more);
        s->logs = more;
    }
    const uint32_t generation = of->point ? tries_of(s, of->point, hash, of->launch) : of->generation;
    s->logs[s->log_count++] = (struct series_log){
        .path = arena_printf(s->arena, "%s/runs/%s/%s.spool", s->path, of->run, of->attempt),
        .point = arena_strdup(s->arena, of->point),
        .point_hash = hash,
        .launch = of->launch,
        .node = of->node,
        .generation = generation,
        .roles = k->roles,
    };
}

static void take_started(struct looking *k, const struct event_started *e, uint64_t seq)
{
    if (e->bind_json) {
        struct cli_roles *roles = arena_alloc(k->s->arena, sizeof *roles);
        cli_roles_take(roles, e->bind_json);
        k->roles = roles;
    }
    for (uint32_t i = 0; i < e->attempt_count; i++)
        if (step_is_launch(e->attempts[i].step) && (e->generation > 0 || e->attempts[i].point))
            add_log(k, &(struct logged){k->s->run, e->attempts[i].attempt, e->attempts[i].point, e->attempts[i].node,
                                        e->generation, seq});
}

static bool take_event(void *arg, const struct event *e)
{
    struct looking *k = arg;
    if (!str_eq(e->run, k->s->run))
        return true;
    if (e->type == EVENT_RUN_OPENED && e->opened.asked.spec_text && !k->spec_text)
        k->spec_text = arena_strdup(k->s->arena, e->opened.asked.spec_text);
    if (e->type == EVENT_STARTED && k->of_logs)
        take_started(k, &e->started, e->seq);
    return true;
}

/* Points that earlier runs did, and this run kept. */
static void take_kept_points(struct looking *k, const struct state *st, const struct state_run *run)
{
    for (size_t i = 0; i < st->cell_count; i++) {
        const struct state_cell *c = &st->cells[i];
        const struct state_run *by =
            c->point && step_is_launch(c->step) && str_eq(c->scope, run->variant) ? state_run_find(st, c->run) : NULL;
        if (by && by->opened_ms < run->opened_ms && c->outcome == OUTCOME_OK)
            add_log(k, &(struct logged){by->id, c->attempt, c->point, c->node, 0, c->seq});
    }
}

/* The run that did the launch which this run kept; NULL: none did. */
static const struct state_run *kept_from(const struct state *st, const struct state_run *run)
{
    for (size_t i = 0; i < st->cell_count; i++) {
        const struct state_cell *c = &st->cells[i];
        if (c->run && !c->point && step_is_launch(c->step) && str_eq(c->scope, run->variant) &&
            !str_eq(c->run, run->id))
            return state_run_find(st, c->run);
    }
    return NULL;
}

static int look(struct journal *j, struct looking *k, const struct state_run *run, struct error *err)
{
    k->s->run = arena_strdup(k->s->arena, run->id);
    k->spec_text = NULL;
    return journal_each(j, 0, take_event, k, err);
}

int series_open(struct journal *j, const struct state_run *run, struct arena *arena, struct series *ret,
                struct error *err)
{
    const struct state *st = journal_state(j);
    struct cli_roles *none = arena_alloc(arena, sizeof *none);
    *ret = (struct series){.arena = arena, .path = journal_path(j)};
    struct looking k = {.s = ret, .roles = none, .of_logs = true};
    if (look(j, &k, run, err) < 0)
        return -1;
    take_kept_points(&k, st, run);
    const struct state_run *by = ret->log_count == 0 ? kept_from(st, run) : NULL;
    if (by && look(j, &k, by, err) < 0)
        return -1;
    run = by ? by : run;
    if (!k.spec_text)
        return error_set(err, ERROR_IO, "the journal does not have the spec of run %s", run->id);
    return spec_metrics_of(k.spec_text, run->sets, run->set_count, arena, &ret->metrics, &ret->count, err);
}

/* ---- reading ---- */

struct item { /* lines of a worker: one, or a block */
    struct watch_line line;
    const bool *wanted; /* by pattern */
    bool block;
};
struct hit {
    uint32_t pattern, rank;
    bool has_step;
    uint64_t step, time_ms;
    double value;
};
struct part { /* the work of one thread: a portion of the log */
    struct reading *r;
    struct matcher *matcher;
    uint8_t *chunk;
    struct item *items;
    size_t item_count, item_cap;
    struct arena *texts; /* of lines that are only partly in the portion */
    struct hit *hits;
    size_t hit_count, hit_cap;
    pthread_t thread;
};
struct worker {
    uint32_t rank;
    const char *role;
    uint64_t *counts; /* by pattern */
    bool *wanted;     /* by pattern: the metric reads lines of the worker's role */
};
struct reading {
    const struct series *s;
    const struct series_log *log;
    uint32_t *metric_of; /* by pattern */
    size_t patterns;
    void (*point)(void *arg, const struct series_point *p);
    void *arg;
    struct part parts[THREADS_MAX];
    size_t part_count;
    /* Under the lock: */
    pthread_mutex_t lock;
    pthread_cond_t given;
    struct worker *workers;
    size_t worker_count, latest;
    int fd;
    struct watch *watch;
    struct part *reader;       /* the part whose portion is being read */
    uint64_t taken, given_out; /* portions */
    bool at_end;
    int rc;
    struct error *err;
};

static struct worker *worker_of(struct reading *r, uint32_t rank)
{
    if (r->latest < r->worker_count && r->workers[r->latest].rank == rank)
        return &r->workers[r->latest];
    for (r->latest = 0; r->latest < r->worker_count; r->latest++)
        if (r->workers[r->latest].rank == rank)
            return &r->workers[r->latest];
    const struct cli_worker who = cli_roles_worker(r->log->roles, rank);
    r->workers = xreallocarray(r->workers, r->worker_count + 1, sizeof *r->workers);
    struct worker *w = &r->workers[r->worker_count++];
    *w = (struct worker){rank, who.role, xcalloc(r->patterns, sizeof *w->counts),
                         xcalloc(r->patterns, sizeof *w->wanted)};
    for (size_t i = 0; i < r->patterns; i++) {
        const char *role = r->s->metrics[r->metric_of[i]].role_name;
        w->wanted[i] = !role || str_eq(role, who.role);
    }
    return w;
}

static void add_item(struct reading *r, const struct watch_line *line, bool block)
{
    struct part *p = r->reader;
    if (line->stream != WIRE_STREAM_OUT && line->stream != WIRE_STREAM_ERR)
        return;
    if (p->item_count == p->item_cap) {
        p->item_cap = p->item_cap ? 2 * p->item_cap : 256;
        p->items = xreallocarray(p->items, p->item_cap, sizeof *p->items);
    }
    struct item *item = &p->items[p->item_count++];
    *item = (struct item){*line, worker_of(r, line->rank)->wanted, block};
    if (!block)
        item->line.text = arena_strndup(p->texts, line->text, line->len);
}

static void on_line(void *arg, const struct watch_line *line)
{
    add_item(arg, line, false);
}

static void on_block(void *arg, const struct watch_line *lines)
{
    add_item(arg, lines, true);
}

static void on_hit(void *arg, const struct match_hit *hit)
{
    struct part *p = arg;
    if (p->hit_count == p->hit_cap) {
        p->hit_cap = p->hit_cap ? 2 * p->hit_cap : 1024;
        p->hits = xreallocarray(p->hits, p->hit_cap, sizeof *p->hits);
    }
    p->hits[p->hit_count++] =
        (struct hit){hit->pattern, hit->line->rank, hit->has_step, hit->step, hit->line->wall_ms, hit->value};
}

static void on_limit(void *arg, uint32_t pattern, const struct watch_line *line)
{
    (void)arg;
    (void)pattern;
    (void)line; /* it was recorded when it was printed */
}

static void match_part(struct part *p)
{
    for (size_t i = 0; i < p->item_count; i++)
        if (p->items[i].block)
            matcher_block(p->matcher, &p->items[i].line, p->items[i].wanted);
        else
            matcher_line(p->matcher, &p->items[i].line, p->items[i].wanted);
}

static void give_out(struct reading *r, const struct hit *hit)
{
    const struct worker *w = worker_of(r, hit->rank);
    const uint64_t count = ++w->counts[hit->pattern];
    const struct series_point p = {.metric = r->metric_of[hit->pattern],
                                   .generation = r->log->generation,
                                   .point = r->log->point,
                                   .node = r->log->node,
                                   .rank = hit->rank,
                                   .role = w->role,
                                   .step = hit->has_step ? hit->step : count,
                                   .time_ms = hit->time_ms,
                                   .value = hit->value};
    r->point(r->arg, &p);
}

/* The next portion of the log; false: there is none. */
static bool take_portion(struct reading *r, struct part *p)
{
    ssize_t n;
    if (r->at_end)
        return false;
    p->item_count = p->hit_count = 0;
    arena_reset(p->texts);
    r->reader = p;
    do
        n = read(r->fd, p->chunk, CHUNK);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        r->rc = error_errno(r->err, ERROR_IO, errno, "cannot read %s", r->log->path);
    r->at_end = n <= 0 || !watch_feed(r->watch, p->chunk, (size_t)n);
    if (r->at_end)
        watch_end(r->watch);
    return true;
}

static void *read_portions(void *arg)
{
    struct part *p = arg;
    struct reading *r = p->r;
    pthread_mutex_lock(&r->lock);
    while (take_portion(r, p)) {
        const uint64_t turn = r->taken++;
        pthread_mutex_unlock(&r->lock);
        match_part(p);
        pthread_mutex_lock(&r->lock);
        while (r->given_out != turn)
            pthread_cond_wait(&r->given, &r->lock);
        for (size_t i = 0; i < p->hit_count; i++)
            give_out(r, &p->hits[i]);
        r->given_out++;
        pthread_cond_broadcast(&r->given);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

static int read_log(struct reading *r, struct error *err)
{
    struct stat st;
    size_t started = 0;
    r->fd = open(r->log->path, O_RDONLY | O_CLOEXEC);
    if (r->fd < 0)
        return errno == ENOENT ? 0 : error_errno(err, ERROR_IO, errno, "cannot read %s", r->log->path);
    r->watch = watch_create(on_line, r);
    watch_on_block(r->watch, on_block);
    r->at_end = false;
    r->err = err;
    r->rc = 0;
    if (fstat(r->fd, &st) == 0 && st.st_size > ALONE_MAX)
        while (started + 1 < r->part_count &&
               pthread_create(&r->parts[started + 1].thread, NULL, read_portions, &r->parts[started + 1]) == 0)
            started++;
    read_portions(&r->parts[0]);
    for (size_t i = 1; i <= started; i++)
        pthread_join(r->parts[i].thread, NULL);
    watch_destroy(r->watch);
    close(r->fd);
    return r->rc;
}

static void forget_workers(struct reading *r)
{
    for (size_t i = 0; i < r->worker_count; i++) {
        free(r->workers[i].counts);
        free(r->workers[i].wanted);
    }
    r->worker_count = r->latest = 0;
}

static void free_all(struct reading *r)
{
    for (size_t i = 0; i < r->part_count; i++) {
        matcher_destroy(r->parts[i].matcher);
        arena_destroy(r->parts[i].texts);
        free(r->parts[i].hits);
        free(r->parts[i].items);
        free(r->parts[i].chunk);
    }
    free(r->workers);
    pthread_cond_destroy(&r->given);
    pthread_mutex_destroy(&r->lock);
}

void series_choose(struct series *s, const char *const *points, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->log_count; i++) {
        size_t k = 0;
        while (k < count && !str_eq(points[k], s->logs[i].point))
            k++;
        if (k < count)
            s->logs[kept++] = s->logs[i];
    }
    s->log_count = kept;
}

int series_read(const struct series *s, const bool *wanted, void (*point)(void *arg, const struct series_point *p),
                void *arg, struct error *err)
{
    struct reading r = {.s = s, .point = point, .arg = arg};
    struct match_pattern *patterns = arena_array(s->arena, s->count + 1, sizeof *patterns);
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int rc = 0;
    r.metric_of = arena_array(s->arena, s->count + 1, sizeof *r.metric_of);
    for (size_t i = 0; i < s->count; i++) {
        const struct spec_metric *m = &s->metrics[i];
        if (wanted && !wanted[i])
            continue;
        r.metric_of[r.patterns] = (uint32_t)i;
        patterns[r.patterns++] = (struct match_pattern){.pattern = m->pattern.text,
                                                        .streams = MATCH_OUT | MATCH_ERR,
                                                        .value = true,
                                                        .has_rank = m->has_rank,
                                                        .rank = m->rank};
    }
    r.part_count = cores < 1 ? 1 : cores > THREADS_MAX ? THREADS_MAX : (size_t)cores;
    pthread_mutex_init(&r.lock, NULL);
    pthread_cond_init(&r.given, NULL);
    for (size_t i = 0; i < r.part_count; i++)
        r.parts[i] = (struct part){.r = &r,
                                   .matcher = matcher_create(patterns, r.patterns, on_hit, on_limit, &r.parts[i]),
                                   .chunk = xmalloc(CHUNK),
                                   .texts = arena_create()};
    for (size_t i = 0; i < s->log_count && rc == 0 && r.patterns > 0; i++) {
        r.log = &s->logs[i];
        rc = read_log(&r, err);
        forget_workers(&r);
    }
    free_all(&r);
    return rc;
}
