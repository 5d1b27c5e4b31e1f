/* Which points a sweep has, and their states: see points.h. */
#include "points.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_LISTED = 5, SPEC_TEXT_MAX = 64 << 20, ID_LEN = 12 };

const char *cli_point_state_name(enum cli_point_state s)
{
    static const char *const names[] = {[POINT_HAS_FAILED] = "failed",
                                        [POINT_IS_RUNNING] = "running",
                                        [POINT_IS_WAITING] = "waiting",
                                        [POINT_IS_DONE] = "done",
                                        [POINT_IS_KEPT] = "kept"};
    return s < POINT_STATES ? names[s] : "?";
}

/* ---- which points there are ---- */

struct opened {
    struct arena *arena;
    const char *run, *text;
};

static bool find_text(void *arg, const struct event *e)
{
    struct opened *o = arg;
    if (e->type != EVENT_RUN_OPENED || !str_eq(e->run, o->run))
        return true;
    o->text = arena_strdup(o->arena, e->opened.asked.spec_text);
    return false;
}

static bool is_swept(const struct spec_sweep *sweep, const char *param)
{
    const size_t len = strcspn(param, "=");
    const struct spec_point *p = &sweep->all[0];
    for (size_t i = 0; i < p->param_count; i++)
        if (strncmp(p->params[i].name, param, len) == 0 && !p->params[i].name[len])
            return p->params[i].swept;
    return false;
}

/* The present points of the file, with the params of the run that are not swept and those of the command. */
static const struct spec_sweep *sweep_of_file(struct cli *c, const char *path, const struct state_run *run,
                                              const struct spec_sweep *of_run)
{
    struct error ignored = ERROR_INIT;
    struct buf text = {0};
    struct spec_overrides o = run_overrides(run, c->arena);
    const char **params = arena_array(c->arena, o.param_count + c->value_count[OPT_PARAM] + 1, sizeof *params);
    size_t count = 0;
    for (size_t i = 0; i < o.param_count; i++)
        if (!is_swept(of_run, o.params[i]))
            params[count++] = o.params[i];
    for (size_t i = 0; i < c->value_count[OPT_PARAM]; i++)
        params[count++] = c->values[OPT_PARAM][i];
    o.params = params;
    o.param_count = count;
    const struct spec_sweep *s = NULL;
    if (file_read(path, SPEC_TEXT_MAX, &text, &ignored) == 0)
        s = spec_sweep_of(arena_strdup(c->arena, text.data ? text.data : ""), &o, c->arena);
    buf_free(&text);
    return s;
}

struct list { /* of points, each once */
    struct spec_point *items;
    bool *of_run;
    size_t count;
};

static int by_id(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Adds the points of `more` that the list lacks. */
static void add_points(struct list *l, const struct spec_point *more, size_t count)
{
    const char **known = xcalloc(l->count + 1, sizeof *known);
    const size_t before = l->count;
    for (size_t i = 0; i < before; i++)
        known[i] = l->items[i].id;
    if (before)
        qsort(known, before, sizeof *known, by_id);
    for (size_t i = 0; i < count; i++)
        if (before == 0 || !bsearch(&more[i].id, known, before, sizeof *known, by_id))
            l->items[l->count++] = more[i];
    free(known);
}

/* For a point that exists only by -p: whether a run did it. */
static bool was_launched(const struct state *s, const struct state_run *run, const char *id)
{
    for (size_t i = 0; i < s->cell_count; i++)
        if (str_starts(s->cells[i].step, "point:") && str_ends(s->cells[i].step, id) &&
            str_eq(s->cells[i].scope, run->variant))
            return true;
    return false;
}

static struct list list_of(struct cli *c, const struct state *s, const struct state_run *run,
                           const struct spec_sweep *of_run, const struct spec_sweep *of_file)
{
    struct list l = {0};
    const size_t most = of_run->point_count + (of_file ? of_file->all_count + 1 : 0);
    l.items = arena_array(c->arena, most + 1, sizeof *l.items);
    l.of_run = arena_array(c->arena, most + 1, sizeof *l.of_run);
    add_points(&l, of_run->points, of_run->point_count);
    memset(l.of_run, 1, l.count * sizeof *l.of_run);
    if (of_file)
        add_points(&l, of_file->all, of_file->all_count);
    if (of_file && of_file->own && was_launched(s, run, of_file->points[0].id))
        add_points(&l, of_file->points, 1);
    return l;
}

/* ---- selection ---- */

static int no_such_point(struct cli *c, const char *word, const struct spec_point *points, size_t count,
                         struct error *err)
{
    const char **names = arena_array(c->arena, count + 1, sizeof *names);
    for (size_t i = 0; i < count; i++)
        names[i] = points[i].name;
    const char *near = str_nearest(word, names);
    error_set(err, ERROR_USAGE, "the sweep has no point \"%.200s\"", word);
    if (near)
        error_hint(err, "did you mean %s?", near);
    else
        error_hint(err, "there are %s", spec_points_words(points, count, NAMES_LISTED, c->arena));
    return -1;
}

/* Leaves in the list the points that --point and -p choose. */
static int choose(struct cli *c, struct list *l, struct error *err)
{
    const size_t count = l->count;
    const struct spec_point **found = arena_array(c->arena, count + 1, sizeof *found);
    size_t n = spec_points_match(l->items, count, c->values[OPT_PARAM], c->value_count[OPT_PARAM], found);
    if (n == 0) {
        error_set(err, ERROR_USAGE, "no point has %s", c->values[OPT_PARAM][0]);
        error_hint(err, "there are %s", spec_points_words(l->items, count, NAMES_LISTED, c->arena));
        return -1;
    }
    bool *of_run = arena_array(c->arena, count + 1, sizeof *of_run);
    for (size_t i = 0; i < n; i++) { /* found ones are in their order, so no unread item is overwritten */
        of_run[i] = l->of_run[found[i] - l->items];
        if (found[i] != &l->items[i])
            l->items[i] = *found[i];
    }
    l->of_run = of_run;
    l->count = n;
    if (!c->given[OPT_POINT])
        return 0;
    const struct spec_point *one = spec_point_find(l->items, n, c->value[OPT_POINT]);
    if (!one)
        return no_such_point(c, c->value[OPT_POINT], l->items, n, err);
    l->of_run[0] = l->of_run[one - l->items];
    l->items[0] = *one;
    l->count = 1;
    return 0;
}

/* ---- states ---- */

struct known { /* a cell of a point */
    const char *id;
    const struct state_cell *cell;
    bool launch;
};

static int by_id_latest(const void *a, const void *b)
{
    const struct known *x = a, *y = b;
    const int order = strcmp(x->id, y->id);
    return order                           ? order
           : x->launch != y->launch        ? (x->launch ? -1 : 1)
           : x->cell->seq < y->cell->seq   ? 1
           : x->cell->seq > y->cell->seq   ? -1
           : x->cell->node < y->cell->node ? -1
                                           : 1;
}

/* All cells of points of the variant, by point; for each point the latest launch first, then the outputs. */
static struct known *cells_of(struct cli *c, const struct state *s, const char *variant, size_t *ret_count)
{
    struct known *list = arena_array(c->arena, s->cell_count + 1, sizeof *list);
    size_t count = 0;
    for (size_t i = 0; i < s->cell_count; i++) {
        const struct state_cell *cell = &s->cells[i];
        const char *colon = strrchr(cell->step, ':');
        if (colon && strlen(colon + 1) == ID_LEN && str_eq(cell->scope, variant))
            list[count++] = (struct known){colon + 1, cell, str_starts(cell->step, "point:")};
    }
    if (count)
        qsort(list, count, sizeof *list, by_id_latest);
    *ret_count = count;
    return list;
}

static const struct known *first_of(const struct known *cells, size_t count, const char *id)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(cells[middle].id, id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && str_eq(cells[low].id, id) ? &cells[low] : NULL;
}

static bool has_node(const struct cli_launch *launch, uint32_t node)
{
    for (uint32_t i = 0; i < launch->count; i++)
        if (launch->parts[i]->node == node)
            return true;
    return false;
}

/* The launch has ended well: the state depends on its outputs. */
static enum cli_point_state state_of_files(const struct known *at, const struct known *end,
                                           const struct cli_launch *launch)
{
    enum cli_point_state state = POINT_IS_DONE;
    for (const char *id = at->id; at < end && str_eq(at->id, id); at++) {
        if (at->launch || !has_node(launch, at->cell->node) || at->cell->seq < launch->whole->seq)
            continue;
        if (at->cell->outcome == OUTCOME_NONE)
            return POINT_IS_RUNNING;
        if (at->cell->outcome != OUTCOME_OK && !at->cell->was_ok)
            state = plain_step_failed(at->cell->outcome) ? POINT_HAS_FAILED : POINT_IS_WAITING;
    }
    return state;
}

struct standing {
    const struct state *s;
    const struct state_run *run;
    const char **kept; /* sorted */
    const struct known *end;
};

static bool is_kept(const struct standing *st, const char *id)
{
    return st->run->kept_count && bsearch(&id, st->kept, st->run->kept_count, sizeof *st->kept, by_id);
}

static enum cli_point_state state_of(const struct standing *st, const struct known *at, const struct cli_launch *parts,
                                     bool of_run)
{
    const struct state_cell *launch = parts->whole;
    const struct state_run *by = state_run_find(st->s, launch->run);
    const bool ours = str_eq(launch->run, st->run->id), later = by && by->opened_ms > st->run->opened_ms;
    const bool good = launch->outcome == OUTCOME_OK || launch->was_ok;
    if (good && !ours && of_run && is_kept(st, at->id))
        return POINT_IS_KEPT;
    if (!ours && of_run && !later) { /* the run is still to do it, or only lacked its outputs */
        for (const struct known *k = at; k < st->end && str_eq(k->id, at->id); k++)
            if (good && !k->launch && str_eq(k->cell->run, st->run->id))
                return state_of_files(at, st->end, parts);
        return POINT_IS_WAITING;
    }
    if (launch->outcome == OUTCOME_NONE)
        return POINT_IS_RUNNING;
    if (good)
        return state_of_files(at, st->end, parts);
    return launch->outcome == OUTCOME_FAILED || launch->outcome == OUTCOME_TIMED_OUT ? POINT_HAS_FAILED
                                                                                     : POINT_IS_WAITING;
}

static void fill(struct cli *c, const struct state *s, const struct state_run *run, const struct list *l,
                 struct cli_points *ret)
{
    size_t count;
    const struct known *cells = cells_of(c, s, run->variant, &count);
    struct standing st = {s, run, arena_array(c->arena, (size_t)run->kept_count + 1, sizeof *st.kept), cells + count};
    for (uint32_t i = 0; i < run->kept_count; i++)
        st.kept[i] = run->kept[i];
    if (run->kept_count)
        qsort(st.kept, run->kept_count, sizeof *st.kept, by_id);
    ret->items = arena_array(c->arena, l->count + 1, sizeof *ret->items);
    for (size_t i = 0; i < l->count; i++) {
        const struct spec_point *p = &l->items[i];
        const struct known *at = first_of(cells, count, p->id);
        struct cli_point *to = &ret->items[ret->count++];
        *to = (struct cli_point){.name = p->name,
                                 .id = p->id,
                                 .params = p->params_json,
                                 .step = arena_printf(c->arena, "point:%s", p->id),
                                 .state = POINT_IS_WAITING,
                                 .of_run = l->of_run[i]};
        if (at && at->launch) {
            to->launch = cli_launch_of(s, at->cell, c->arena);
            to->cell = to->launch.whole;
            to->state = state_of(&st, at, &to->launch, to->of_run);
        }
        ret->counts[to->state]++;
    }
}

/* Among the finished points; NaN is worse than every number. */
static void find_best(struct cli *c, const struct spec_sweep *sweep, struct cli_points *ret)
{
    double best = 0;
    ret->metric = sweep->best_metric;
    for (size_t i = 0; sweep->best_metric && i < ret->count; i++) {
        const struct cli_point *p = &ret->items[i];
        const bool done = p->state == POINT_IS_DONE || p->state == POINT_IS_KEPT;
        struct diagnostics ignored = {0};
        struct doc *doc;
        double value;
        if (done && p->cell && p->cell->metrics &&
            doc_load_text("metrics", p->cell->metrics, strlen(p->cell->metrics), DOC_FORMAT_JSON, c->arena, &doc,
                          &ignored, NULL) == 0) {
            const char *text = doc_get_text(doc->root, sweep->best_metric, "");
            if (match_number(text, strlen(text), &value) && isfinite(value) &&
                (!ret->best || (sweep->best_max ? value > best : value < best))) {
                best = value;
                ret->best = p->name;
                ret->value = text;
            }
        }
        diagnostics_free(&ignored);
    }
}

int cli_points(struct cli *c, struct journal *j, const struct state_run *run, struct cli_points *ret, struct error *err)
{
    struct opened opened = {.arena = c->arena, .run = run->id};
    const struct spec_overrides o = run_overrides(run, c->arena);
    *ret = (struct cli_points){0};
    if (run->point_count == 0)
        return c->given[OPT_POINT] ? error_set(err, ERROR_USAGE, "run %s has no sweep, so no points", run->id) : 0;
    if (journal_each(j, 0, find_text, &opened, err) < 0)
        return -1;
    const struct spec_sweep *of_run = opened.text ? spec_sweep_of(opened.text, &o, c->arena) : NULL;
    if (!of_run)
        return error_set(err, ERROR_IO, "the journal does not have the sweep of run %s", run->id);
    const bool file = c->word_count > 0 && cli_is_spec_word(c->words[0]);
    struct list l = list_of(c, journal_state(j), run, of_run, file ? sweep_of_file(c, c->words[0], run, of_run) : NULL);
    ret->chosen = c->given[OPT_POINT];
    for (size_t i = 0; i < c->value_count[OPT_PARAM]; i++)
        ret->chosen = ret->chosen || is_swept(of_run, c->values[OPT_PARAM][i]);
    if (ret->chosen && choose(c, &l, err) < 0)
        return -1;
    fill(c, journal_state(j), run, &l, ret);
    find_best(c, of_run, ret);
    return 0;
}

void cli_points_sort(struct cli_points *p)
{
    if (p->count == 0)
        return;
    struct cli_point *sorted = xcalloc(p->count + 1, sizeof *sorted);
    size_t n = 0;
    for (int state = 0; state <= POINT_IS_WAITING; state++) /* the last turn takes all others, in their order */
        for (size_t i = 0; i < p->count; i++)
            if (state < POINT_IS_WAITING ? (int)p->items[i].state == state : p->items[i].state >= POINT_IS_WAITING)
                sorted[n++] = p->items[i];
    memcpy(p->items, sorted, n * sizeof *sorted);
    free(sorted);
}

/* ---- one point, before a run ---- */

int cli_narrow_to_point(struct cli *c, const char *path, struct error *err)
{
    struct buf text = {0};
    const struct spec_overrides o = cli_overrides(c);
    if (!c->given[OPT_POINT])
        return 0;
    if (file_read(path, SPEC_TEXT_MAX, &text, err) < 0)
        return -1;
    const struct spec_sweep *s = spec_sweep_of(arena_strdup(c->arena, text.data ? text.data : ""), &o, c->arena);
    buf_free(&text);
    if (!s) {
        error_set(err, ERROR_USAGE, "--point: \"%s\" has no sweep", path);
        error_hint(err, "rhrun validate %s checks it", cli_quoted(c, path));
        return -1;
    }
    const struct spec_point *p = spec_point_find(s->points, s->point_count, c->value[OPT_POINT]);
    if (!p)
        return no_such_point(c, c->value[OPT_POINT], s->points, s->point_count, err);
    for (size_t i = 0; i < p->param_count; i++)
        if (p->params[i].swept)
            cli_add_value(c, OPT_PARAM, arena_printf(c->arena, "%s=%s", p->params[i].name, p->params[i].value));
    c->given[OPT_POINT] = false;
    return 0;
}
