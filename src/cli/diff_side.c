/* The compared data of a run: its lock and its results. For a lock's file: the lock and, if its job is here, the files
 * that it names. */
#include "diffing.h"
#include "points.h"
#include "rhrun/lock.h"
#include "series.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RESULTS_MAX = 20000, RESULTS_BYTES_MAX = 16 << 20 }; /* in a folder with more bytes, digests are compared */

/* ---- a lock's file ---- */

/* Whether a file says that it is a lock; faults are reported later, by the code that loads it. */
static bool is_lock(const char *path)
{
    struct stat st;
    struct doc *doc;
    struct diagnostics d = {0};
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    struct arena *arena = arena_create();
    const bool yes = doc_load_file(path, DOC_FORMAT_AUTO, arena, &doc, &d, NULL) == 0 && doc_get(doc->root, "lock") &&
                     doc_get(doc->root, "run");
    diagnostics_free(&d);
    arena_destroy(arena);
    return yes;
}

static int read_lock(struct cli *c, const char *path, struct diff_side *ret, struct error *err)
{
    struct diagnostics d = {0};
    struct doc *doc;
    const int rc = lock_load(path, c->arena, &doc, &d, err);
    if (rc < 0 && d.count > 0)
        cli_print_diagnostics(c, &d);
    diagnostics_free(&d);
    if (rc < 0)
        return -1;
    ret->lock = doc->root;
    const char *id = doc_get_string(doc_get(doc->root, "job"), "id", NULL);
    struct error none = ERROR_INIT;
    if (id && str_is_hex(id, 16) && journal_open_read(id, &ret->journal, &none) < 0)
        ret->journal = NULL;
    return 0;
}

/* ---- what came out of a run ---- */

static struct doc_node *metrics_of(struct arena *a, const struct state_run *run)
{
    struct doc_node *all = doc_new_object(a);
    for (uint32_t i = 0; run && i < run->metric_count; i++) {
        const struct state_metric *m = &run->metrics[i];
        const char *name = m->rank == UINT32_MAX ? m->name : arena_printf(a, "%s[%u]", m->name, m->rank);
        doc_set(a, all, name, doc_new_plain(a, m->value));
    }
    return all;
}

/* A result as JSON; one that is invalid or too large, by its digest. */
static struct doc_node *result_of(struct arena *a, const char *path, bool digest)
{
    struct buf text = {0};
    struct doc *doc;
    struct diagnostics d = {0};
    struct doc_node *value;
    char hex[65];
    if (!digest && file_read(path, DOC_MAX_BYTES, &text, NULL) == 0 &&
        doc_load_text(path, text.data ? text.data : "", text.len, DOC_FORMAT_JSON, a, &doc, &d, NULL) == 0)
        value = doc->root;
    else if (digest_sha256_file(path, hex, NULL) == 0)
        value = doc_new_string(a, arena_printf(a, "SHA-256 %s", hex));
    else
        value = doc_new_null(a);
    diagnostics_free(&d);
    buf_free(&text);
    return value;
}

static uint64_t bytes_in(struct arena *a, const char *folder)
{
    DIR *dir = opendir(folder);
    struct stat st;
    uint64_t bytes = 0;
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        if (str_ends(e->d_name, ".json") && stat(arena_printf(a, "%s/%s", folder, e->d_name), &st) == 0)
            bytes += (uint64_t)st.st_size;
    if (dir)
        closedir(dir);
    return bytes;
}

static void put_results(struct arena *a, const char *folder, const char *before, struct doc_node *to)
{
    const bool digest = bytes_in(a, folder) > RESULTS_BYTES_MAX;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && to->count < RESULTS_MAX && (e = readdir(dir)) != NULL;) {
        uint32_t rank;
        if (!str_ends(e->d_name, ".json"))
            continue;
        const char *number = arena_strndup(a, e->d_name, strlen(e->d_name) - strlen(".json"));
        if (parse_u32(number, &rank))
            doc_set(a, to, arena_printf(a, "%s%u", before, rank),
                    result_of(a, arena_printf(a, "%s/%s", folder, e->d_name), digest));
    }
    if (dir)
        closedir(dir);
}

static struct doc_node *results_of(struct arena *a, const char *run_dir)
{
    struct doc_node *all = doc_new_object(a);
    put_results(a, arena_printf(a, "%s/result", run_dir), "rank ", all);
    const char *points = arena_printf(a, "%s/points", run_dir);
    DIR *dir = opendir(points);
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        if (str_is_hex(e->d_name, 12))
            put_results(a, arena_printf(a, "%s/%s/result", points, e->d_name),
                        arena_printf(a, "point %s rank ", e->d_name), all);
    if (dir)
        closedir(dir);
    return all;
}

struct looking { /* reads the events of a job, up to the end of the run */
    struct arena *arena;
    const char *run;
    bool done;                     /* the run is: points that it did not do were kept from earlier runs */
    struct doc_node *first, *last; /* by step of the run, in ms: first begin, last end */
    struct doc_node *names;        /* of the run's points */
    struct doc_node *points;       /* by attempt: its point */
    struct doc_node *metrics;      /* by point: from its last attempt */
};

/* The metrics of a point are in the event that ends it. */
static void take_point(struct looking *t, const struct event *e)
{
    if (!t->done && !str_eq(e->run, t->run))
        return;
    for (uint32_t i = 0; e->type == EVENT_STARTED && i < e->started.attempt_count; i++) {
        const struct event_attempt *a = &e->started.attempts[i];
        if (a->point && doc_get(t->names, a->point))
            doc_set(t->arena, t->points, a->attempt, doc_new_string(t->arena, a->point));
    }
    const char *point =
        e->type == EVENT_FINISHED && e->finished.metrics ? doc_get_string(t->points, e->finished.attempt, NULL) : NULL;
    struct doc *doc;
    struct diagnostics d = {0};
    if (point && doc_load_text("metrics", e->finished.metrics, strlen(e->finished.metrics), DOC_FORMAT_JSON, t->arena,
                               &doc, &d, NULL) == 0)
        doc_set(t->arena, t->metrics, point, doc->root);
    diagnostics_free(&d);
}

static bool take_event(void *arg, const struct event *e)
{
    struct looking *t = arg;
    if (t->names->count > 0 && (e->type == EVENT_STARTED || e->type == EVENT_FINISHED))
        take_point(t, e);
    if (e->type == EVENT_RUN_CLOSED && str_eq(e->run, t->run))
        return false;
    if (e->type != EVENT_FINISHED || e->finished.adopted || !str_eq(e->run, t->run) || !e->finished.step)
        return true;
    const char *step = e->finished.step;
    const int64_t end = (int64_t)e->time_ms, begin = end - (int64_t)e->finished.duration_ms;
    if (begin < doc_get_int(t->first, step, INT64_MAX))
        doc_set(t->arena, t->first, step, doc_new_int(t->arena, begin));
    if (end > doc_get_int(t->last, step, 0))
        doc_set(t->arena, t->last, step, doc_new_int(t->arena, end));
    return true;
}

/* The durations of the run, and the metrics of its points. */
static int look(struct diff_side *s, const struct state_run *run, struct arena *a, struct error *err)
{
    struct looking t = {.arena = a,
                        .run = arena_strdup(a, run->id),
                        .done = run->status == RUN_DONE,
                        .first = doc_new_object(a),
                        .last = doc_new_object(a),
                        .names = doc_new_object(a),
                        .points = doc_new_object(a),
                        .metrics = doc_new_object(a)};
    const struct doc_node *points = doc_get(s->lock, "points");
    struct doc_node *all = doc_new_object(a);
    for (size_t i = 0; points && i < points->count; i++)
        if (doc_get_string(points->items[i], "name", NULL))
            doc_set(a, t.names, doc_get_string(points->items[i], "name", NULL), doc_new_bool(a, true));
    if (run->closed_ms >= run->opened_ms && run->closed_ms > 0)
        doc_set(a, all, "run", doc_new_int(a, (int64_t)(run->closed_ms - run->opened_ms)));
    if (journal_each(s->journal, 0, take_event, &t, err) < 0)
        return -1;
    if (t.names->count > 0)
        s->metrics = t.metrics;
    for (size_t i = 0; i < t.last->count; i++) {
        const char *step = t.last->members[i].key;
        doc_set(a, all, step, doc_new_int(a, t.last->members[i].value->integer - doc_get_int(t.first, step, 0)));
    }
    s->durations = all;
    return 0;
}

/* If the run kept its launch, the results are those of the run that did it. */
static int read_outcome(struct cli *c, struct diff_side *s, const struct state_run *run, struct error *err)
{
    struct series series;
    const struct state_run *by = run;
    struct error none = ERROR_INIT;
    if (series_open(s->journal, run, c->arena, &series, &none) == 0)
        by = state_run_find(journal_state(s->journal), series.run);
    by = by ? by : run;
    s->metrics = metrics_of(c->arena, by);
    s->results = results_of(c->arena, arena_printf(c->arena, "%s/runs/%s", journal_path(s->journal), by->id));
    return look(s, run, c->arena, err);
}

/* ---- both ---- */

static int read_run(struct cli *c, const char *word, struct diff_side *ret, struct error *err)
{
    const struct state_run *run;
    struct doc_node *lock;
    if (cli_find_run(c, word, &ret->journal, &run, err) < 0)
        return -1;
    if (lock_of_run(ret->journal, arena_strdup(c->arena, run->id), c->arena, &lock, err) < 0)
        return -1;
    ret->lock = lock;
    ret->is_run = true;
    return read_outcome(c, ret, run, err);
}

/* ---- RUN:POINT ---- */

/* The latest attempt of the point, by its name or id; an earlier run may have done it. */
static const struct state_cell *cell_of(const struct diff_side *s, const char *point, struct arena *arena)
{
    const struct state *state = s->journal ? journal_state(s->journal) : NULL;
    const struct state_cell *best = NULL;
    for (size_t i = 0; state && i < state->cell_count; i++) {
        const struct state_cell *x = &state->cells[i];
        const bool of_it = x->point && str_starts(x->step, "point:") &&
                           (str_eq(x->point, point) || str_eq(x->step + strlen("point:"), point));
        if (of_it && (!best || x->seq > best->seq))
            best = x;
    }
    return best ? cli_launch_of(state, best, arena).whole : NULL;
}

static const struct doc_node *point_named(const struct diff_side *s, const char *name)
{
    const struct doc_node *points = doc_get(s->lock, "points");
    for (size_t i = 0; points && i < points->count; i++)
        if (str_eq(doc_get_string(points->items[i], "name", NULL), name))
            return points->items[i];
    return NULL;
}

static int no_point(struct cli *c, const struct diff_side *s, const char *point, struct error *err)
{
    const struct doc_node *points = doc_get(s->lock, "points");
    const char **names = arena_array(c->arena, (points ? points->count : 0) + 1, sizeof *names);
    size_t count = 0;
    for (size_t i = 0; points && i < points->count; i++)
        if (doc_get_string(points->items[i], "name", NULL))
            names[count++] = doc_get_string(points->items[i], "name", NULL);
    error_set(err, ERROR_USAGE, "%.100s has no point \"%.200s\"", s->word, point);
    const char *near = str_nearest(point, names);
    if (near)
        error_hint(err, "did you mean %s?", near);
    else if (count == 0)
        error_hint(err, "it has no sweep");
    else
        error_hint(err, "rhrun status names its points: %s%s", names[0], count > 1 ? ", ..." : "");
    return -1;
}

/* The inputs and results of one point alone: as of a run without a sweep. */
static int choose_point(struct cli *c, struct diff_side *s, const char *point, struct error *err)
{
    const struct state_cell *cell = cell_of(s, point, c->arena);
    const struct doc_node *item = point_named(s, cell ? cell->point : point);
    struct doc *metrics;
    struct diagnostics d = {0};
    if (!item)
        return no_point(c, s, point, err);
    struct doc_node *lock = doc_clone(c->arena, s->lock), *points = doc_new_array(c->arena);
    struct doc_node *own = doc_clone(c->arena, item);
    doc_remove(own, "name");
    doc_append(c->arena, points, own);
    doc_set(c->arena, lock, "points", points);
    s->lock = lock;
    const struct doc_node *then = s->metrics ? doc_get(s->metrics, cell ? cell->point : point) : NULL;
    s->metrics = then ? doc_clone(c->arena, then) : doc_new_object(c->arena);
    s->results = doc_new_object(c->arena);
    s->durations = doc_new_object(c->arena);
    if (!cell)
        return 0;
    doc_set(c->arena, (struct doc_node *)(uintptr_t)doc_get(lock, "run"), "status",
            doc_new_string(c->arena, outcome_name(cell->outcome)));
    if (!then && cell->metrics &&
        doc_load_text("metrics", cell->metrics, strlen(cell->metrics), DOC_FORMAT_JSON, c->arena, &metrics, &d, NULL) ==
            0)
        s->metrics = metrics->root;
    diagnostics_free(&d);
    if (cell->finished_ms >= cell->started_ms)
        doc_set(c->arena, s->durations, "launch",
                doc_new_int(c->arena, (int64_t)(cell->finished_ms - cell->started_ms)));
    put_results(c->arena,
                arena_printf(c->arena, "%s/runs/%s/points/%s/result", journal_path(s->journal), cell->run,
                             cell->step + strlen("point:")),
                "rank ", s->results);
    return 0;
}

/* The `:` before a point's name; NULL: there is none, or a file has the whole word as its name. */
static const char *colon_of(struct cli *c, const char *word)
{
    const char *colon = strchr(word, ':');
    return colon && colon != word && access(word, F_OK) != 0 ? arena_strdup(c->arena, colon) : NULL;
}

int diff_side_open(struct cli *c, const char *word, struct diff_side *ret, struct error *err)
{
    const char *colon = colon_of(c, word);
    const char *name = colon ? arena_strndup(c->arena, word, strlen(word) - strlen(colon)) : word;
    *ret = (struct diff_side){.word = name};
    if ((is_lock(name) ? read_lock(c, name, ret, err) : read_run(c, name, ret, err)) < 0)
        return -1;
    if (colon && choose_point(c, ret, colon + 1, err) < 0)
        return -1;
    ret->word = word;
    const char *store = ret->journal ? arena_printf(c->arena, "%s/tree.git", journal_path(ret->journal)) : NULL;
    struct error none = ERROR_INIT;
    if (store && access(store, F_OK) == 0 && tree_store_open(store, &ret->store, &none) < 0)
        ret->store = NULL;
    return 0;
}

void diff_side_close(struct diff_side *s)
{
    tree_store_close(s->store);
    journal_close(s->journal);
}
