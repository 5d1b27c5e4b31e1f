/*
 * The sweep: the params that it varies, its points, those that -p selects, and how they are run. It is read after the
 * params and before everything with expressions, because only some places may name a swept param.
 */
#include "internal.h"

#include <string.h>

static const char *const forms[] = {"matrix", "points", "random"};

/* ---- which params differ ---- */

typedef void visit_fn(struct load *l, const struct doc_member *member, void *arg);

static void visit_members(struct load *l, const struct doc_node *object, bool name, visit_fn *visit, void *arg)
{
    for (size_t i = 0; is_object(object) && i < object->count; i++)
        if (!name || strcmp(object->members[i].key, "name") != 0)
            visit(l, &object->members[i], arg);
}

/* Visits each mention of a param, except in exclude, which adds none. */
static void visit_params(struct load *l, const struct doc_node *sweep, visit_fn *visit, void *arg)
{
    static const char *const lists[] = {"include", "points"};
    if (!is_object(sweep))
        return;
    visit_members(l, doc_get(sweep, "matrix"), false, visit, arg);
    visit_members(l, doc_get(sweep, "random"), false, visit, arg);
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        const struct doc_node *list = doc_get(sweep, lists[i]);
        for (size_t k = 0; is_array(list) && k < list->count; k++)
            visit_members(l, list->items[k], strcmp(lists[i], "points") == 0, visit, arg);
    }
}

static void mark(struct load *l, const struct doc_member *member, void *arg)
{
    const size_t param = param_index(l, member->key);
    (void)arg;
    if (param != SIZE_MAX)
        l->spec->params[param].swept = true;
}

void sweep_mark(struct load *l)
{
    visit_params(l, doc_get(l->root, "sweep"), mark, NULL);
}

static void check_param(struct load *l, const struct doc_member *member, void *arg)
{
    (void)arg;
    if (param_index(l, member->key) != SIZE_MAX && strcmp(member->key, "name") == 0)
        diagnostic_hint(fault(l, member->key_place, "a param that a sweep varies cannot be called \"name\""),
                        "among points, name is the name of the point");
    if (param_index(l, member->key) != SIZE_MAX)
        return;
    const char **names = arena_array(l->arena, l->spec->param_count + 1, sizeof *names);
    for (size_t i = 0; i < l->spec->param_count; i++)
        names[i] = l->spec->params[i].name;
    struct diagnostic *d = fault(l, member->key_place, "no param \"%s\"", member->key);
    const char *near = str_nearest(member->key, names);
    if (near)
        diagnostic_hint(d, "did you mean %s?", near);
    else if (is_array(member->value) && strstr("include exclude", member->key))
        diagnostic_hint(d, "%s belongs in sweep, beside matrix", member->key);
    else
        diagnostic_hint(d, "a param is declared first: params: {%s: DEFAULT}", member->key);
}

/* ---- rows ---- */

struct sweep_row *sweep_row_add(struct sweep_rows *s, struct place place)
{
    if (s->row_count == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 64;
        struct sweep_row *rows = arena_array(s->l->arena, s->cap, sizeof *rows);
        if (s->row_count > 0)
            memcpy(rows, s->rows, s->row_count * sizeof *rows);
        s->rows = rows;
    }
    struct sweep_row *row = &s->rows[s->row_count++];
    *row = (struct sweep_row){.values = arena_array(s->l->arena, s->count, sizeof *row->values), .place = place};
    return row;
}

size_t sweep_slot(const struct sweep_rows *s, const char *param)
{
    const size_t wanted = param_index(s->l, param);
    for (size_t i = 0; i < s->count; i++)
        if (s->params[i] == wanted)
            return i;
    return SIZE_MAX;
}

/* Exactly one of three keys, and only those other keys that belong to it. */
static bool check_form(struct load *l, const struct doc_node *node)
{
    static const char *const belongs[][2] = {
        {"include", "matrix"}, {"exclude", "matrix"}, {"count", "random"}, {"seed", "random"}};
    const struct doc_member *found = NULL;
    const size_t errors = l->diagnostics->errors;
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        const struct doc_member *m = doc_get_member(node, forms[i], strlen(forms[i]));
        if (m && found) {
            diagnostic_expected(fault(l, m->key_place, "sweep has both %s and %s", found->key, m->key),
                                "exactly one of matrix, points and random");
            note(l, found->key_place, "%s is here", found->key);
        }
        found = found ? found : m;
    }
    if (!found)
        diagnostic_expected(fault(l, doc_get_member(l->root, "sweep", 5)->key_place, "sweep has no points"),
                            "exactly one of matrix, points and random");
    for (size_t i = 0; found && i < ARRAY_LEN(belongs); i++) {
        const struct doc_member *m = doc_get_member(node, belongs[i][0], strlen(belongs[i][0]));
        if (m && !doc_get(node, belongs[i][1]))
            fault(l, m->key_place, "%s belongs to %s, which is not here", m->key, belongs[i][1]);
    }
    if (doc_get(node, "random") && !doc_get(node, "count"))
        diagnostic_hint(fault(l, doc_get_member(node, "random", 6)->key_place, "random needs count"),
                        "count: 20 draws 20 points");
    return l->diagnostics->errors == errors;
}

/* `name` in a point is the point's name, so it would hide a param called `name`. */
static void check_name_key(struct load *l, const struct doc_node *node)
{
    const struct doc_node *list = doc_get(node, "points");
    if (param_index(l, "name") == SIZE_MAX)
        return;
    for (size_t i = 0; is_array(list) && i < list->count; i++) {
        const struct doc_member *m = is_object(list->items[i]) ? doc_get_member(list->items[i], "name", 4) : NULL;
        if (!m)
            continue;
        diagnostic_hint(fault(l, m->key_place, "\"name\" is a param, and here it would name the point"),
                        "a param that a sweep varies has another name");
        return;
    }
}

/* errors: the number of faults before the sweep was read. */
static bool add_rows(struct sweep_rows *s, size_t errors)
{
    struct load *l = s->l;
    sweep_matrix(s);
    sweep_list(s);
    sweep_random(s);
    if (l->diagnostics->errors > errors)
        return false;
    if (s->row_count > SPEC_POINTS_MAX) {
        fault(l, place_of(s->node), "the sweep has more than %d points", SPEC_POINTS_MAX);
        return false;
    }
    if (s->row_count == 0 && doc_get(s->node, "exclude")) /* otherwise the schema has reported an empty list, or no
                                                             list */
        diagnostic_hint(fault(l, place_of(s->node), "no point is left"), "exclude removes all combinations");
    return s->row_count > 0;
}

/* ---- -p ---- */

/* The points that have the values of -p; if there is none, a new point with these values and defaults. */
static bool choose(struct sweep_rows *s, struct spec_sweep *sweep)
{
    struct load *l = s->l;
    const char **wanted = arena_array(l->arena, s->count + 1, sizeof *wanted);
    const struct spec_point **found = arena_array(l->arena, sweep->all_count, sizeof *found);
    size_t count = 0;
    for (size_t i = 0; i < s->count; i++)
        if (l->chosen[s->params[i]])
            wanted[count++] =
                arena_printf(l->arena, "%s=%s", l->spec->params[s->params[i]].name, l->chosen[s->params[i]]->text);
    sweep->points = sweep->all;
    sweep->point_count = sweep->all_count;
    if (count == 0)
        return true;
    sweep->point_count = spec_points_match(sweep->all, sweep->all_count, wanted, count, found);
    if (sweep->point_count > 0) {
        sweep->points = arena_array(l->arena, sweep->point_count, sizeof *sweep->points);
        for (size_t i = 0; i < sweep->point_count; i++)
            sweep->points[i] = *found[i];
        return true;
    }
    s->row_count = 0;
    s->own = true;
    struct sweep_row *row = sweep_row_add(s, (struct place){0});
    for (size_t i = 0; i < s->count; i++) {
        row->values[i] = l->chosen[s->params[i]];
        if (row->values[i])
            row->place = place_of(row->values[i]);
    }
    sweep->own = sweep_points(s, &sweep->points, &sweep->point_count);
    if (sweep->own)
        sweep->points[0].index = (uint32_t)sweep->all_count;
    return sweep->own;
}

/* ---- how points are run ---- */

static void bind_places(const struct doc_node *node, struct spec_sweep *sweep)
{
    const struct doc_node *per_node = doc_get(node, "per_node");
    const struct doc_node *count = is_object(per_node) ? doc_get(per_node, "gpus") : per_node;
    int64_t n;
    sweep->per_node = 1;
    sweep->place = is_object(per_node) || doc_get_string(node, "per_node", NULL) ? SWEEP_GPUS : SWEEP_COUNT;
    if (is_scalar(count) && doc_is_integer(count, &n) && n >= 1 && n <= SPEC_NPROC_MAX)
        sweep->per_node = (uint32_t)n;
    const int64_t max = doc_get_int(node, "max_parallel", 0), nodes = doc_get_int(node, "nodes", 0);
    sweep->nodes = nodes >= 1 && nodes <= SPEC_SWEEP_NODES_MAX ? (uint32_t)nodes : 0;
    sweep->max_parallel = max >= 1 && max <= SPEC_POINTS_MAX ? (uint32_t)max : 0;
    sweep->stop = str_eq(doc_get_string(node, "on_failure", NULL), "stop");
    const struct doc_node *best = doc_get(node, "best");
    if (is_object(best)) {
        sweep->best_metric = doc_get_string(best, "metric", NULL);
        sweep->best_max = str_eq(doc_get_string(best, "goal", NULL), "max");
    }
}

void sweep_bind(struct load *l)
{
    const struct doc_node *node = doc_get(l->root, "sweep");
    const size_t errors = l->diagnostics->errors;
    struct spec *spec = l->spec;
    if (!is_object(node))
        return;
    visit_params(l, node, check_param, NULL);
    check_name_key(l, node);
    if (!check_form(l, node))
        return;
    struct sweep_rows s = {.l = l, .node = node};
    s.params = arena_array(l->arena, spec->param_count + 1, sizeof *s.params);
    for (size_t i = 0; i < spec->param_count; i++)
        if (spec->params[i].swept)
            s.params[s.count++] = i;
    if (s.count > SPEC_SWEPT_MAX) {
        fault(l, place_of(node), "the sweep varies %zu params, more than %d", s.count, SPEC_SWEPT_MAX);
        return;
    }
    struct spec_sweep *sweep = arena_alloc(l->arena, sizeof *sweep);
    sweep->at = place_of(node);
    bind_places(node, sweep);
    if (!add_rows(&s, errors) || !sweep_points(&s, &sweep->all, &sweep->all_count))
        return;
    if (choose(&s, sweep))
        spec->sweep = sweep;
}

const struct spec_sweep *spec_sweep_of(const char *text, const struct spec_overrides *overrides, struct arena *arena)
{
    struct diagnostics d = {0};
    struct spec *spec = arena_alloc(arena, sizeof *spec);
    struct load l = {.arena = arena, .spec = spec, .over = overrides, .diagnostics = &d};
    struct doc *doc;
    spec->dir = "";
    if (doc_load_text("spec", text, strlen(text), DOC_FORMAT_YAML, arena, &doc, &d, NULL) == 0 &&
        is_object(doc->root)) {
        l.root = doc_clone(arena, doc->root);
        overrides_apply(&l);
        params_bind(&l);
        sweep_bind(&l);
    }
    diagnostics_free(&d);
    return spec->sweep;
}

uint32_t spec_point_nodes(const struct spec *spec)
{
    return spec->distributed.present && spec->distributed.nnodes > 0 ? spec->distributed.nnodes : 1;
}

void sweep_check(struct load *l)
{
    const struct spec *spec = l->spec;
    const struct doc_node *best = doc_get(doc_get(l->root, "sweep"), "best");
    const struct doc_node *metric = is_object(best) ? doc_get(best, "metric") : NULL;
    sweep_refuse(l);
    if (!is_scalar(metric))
        return;
    const char **names = arena_array(l->arena, spec->metric_count + 1, sizeof *names);
    for (size_t i = 0; i < spec->metric_count; i++) {
        names[i] = spec->metrics[i].name;
        if (strcmp(names[i], metric->text) == 0)
            return;
    }
    struct diagnostic *d = fault(l, place_of(metric), "no metric \"%s\"", metric->text);
    const char *near = str_nearest(metric->text, names);
    if (near)
        diagnostic_hint(d, "did you mean %s?", near);
    else
        diagnostic_hint(d, "metrics lists the numbers that workers print");
}

/* ---- the normalised document ---- */

/* A point as an item of `points`: with all swept params, so that a derived name stays the same, and with its name if
 * one was given. */
static struct doc_node *point_node(struct arena *a, const struct spec_point *p)
{
    struct doc_node *one = doc_new_object(a);
    if (name_is_valid(p->name))
        doc_set(a, one, "name", doc_new_string(a, p->name));
    for (size_t i = 0; i < p->param_count; i++) {
        const struct spec_param *v = &p->params[i];
        if (v->swept)
            doc_set(a, one, v->name, v->type == SPEC_STRING ? doc_new_string(a, v->value) : doc_new_plain(a, v->value));
    }
    return one;
}

static void put_points(const struct load *l, struct doc_node *to)
{
    static const char *const as_written[] = {"matrix", "exclude", "include", "points", "random", "count", "seed"};
    const struct doc_node *node = doc_get(l->root, "sweep");
    const struct spec_sweep *s = l->spec->sweep;
    for (size_t i = 0; !l->chooses && i < ARRAY_LEN(as_written); i++)
        if (doc_get(node, as_written[i]))
            doc_set(l->arena, to, as_written[i], doc_clone(l->arena, doc_get(node, as_written[i])));
    if (!l->chooses && doc_get(node, "random") && !doc_get(node, "seed"))
        doc_set(l->arena, to, "seed", doc_new_int(l->arena, 0));
    if (!l->chooses)
        return;
    struct doc_node *list = doc_new_array(l->arena);
    for (size_t i = 0; i < s->point_count; i++)
        doc_append(l->arena, list, point_node(l->arena, &s->points[i]));
    doc_set(l->arena, to, "points", list);
}

struct doc_node *sweep_normalise(const struct load *l)
{
    const struct doc_node *best = doc_get(doc_get(l->root, "sweep"), "best");
    const struct spec_sweep *s = l->spec->sweep;
    struct arena *a = l->arena;
    struct doc_node *to = doc_new_object(a), *per_node = doc_new_int(a, s->per_node);
    put_points(l, to);
    if (s->place == SWEEP_GPUS) {
        struct doc_node *gpus = doc_new_object(a);
        doc_set(a, gpus, "gpus", per_node);
        per_node = gpus;
    }
    doc_set(a, to, "per_node", per_node);
    if (s->nodes)
        doc_set(a, to, "nodes", doc_new_int(a, s->nodes));
    if (s->max_parallel)
        doc_set(a, to, "max_parallel", doc_new_int(a, s->max_parallel));
    doc_set(a, to, "on_failure", doc_new_string(a, s->stop ? "stop" : "continue"));
    if (best)
        doc_set(a, to, "best", doc_clone(a, best));
    return to;
}
