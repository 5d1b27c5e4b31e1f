/*
 * Combinations of values, and lists of points. A matrix is counted before it is made. `exclude` removes combinations,
 * then `include` adds to the remaining ones, as in a matrix of GitHub Actions: an item that contradicts none of a
 * combination's own values adds its new params to the combination; an item that fits no combination becomes a separate
 * point.
 */
#include "internal.h"

#include <string.h>

struct axis { /* a param of the matrix */
    size_t slot;
    enum spec_type type;
    const char *name;
    const struct doc_node **values; /* no two are the same */
    size_t count;
    struct doc_node *index; /* maps the canonical spelling of a value to its index */
};
struct matrix {
    struct sweep_rows *s;
    struct axis *axes;
    size_t axis_count;
    size_t *axis_of;     /* by slot; SIZE_MAX: the param is not in the matrix */
    size_t combinations; /* rows of the matrix; those that include adds come after them */
};

/* ---- the values ---- */

static enum spec_type type_of(const struct sweep_rows *s, size_t slot)
{
    return s->l->spec->params[s->params[slot]].type;
}

static const struct doc_node *axis_find(const struct matrix *m, const struct axis *x, const struct doc_node *value)
{
    const struct doc_node *at = doc_get(x->index, param_canonical(x->type, value->text, m->s->l->arena));
    return at ? x->values[at->integer] : NULL;
}

static bool read_axis(struct matrix *m, const struct doc_member *key)
{
    struct load *l = m->s->l;
    const size_t slot = sweep_slot(m->s, key->key);
    if (slot == SIZE_MAX || !is_array(key->value))
        return false; /* reported already */
    struct axis *x = &m->axes[m->axis_count];
    *x = (struct axis){.slot = slot, .type = type_of(m->s, slot), .name = key->key};
    x->values = arena_array(l->arena, key->value->count, sizeof *x->values);
    x->index = doc_new_object(l->arena);
    bool good = true;
    for (size_t i = 0; i < key->value->count; i++) {
        const struct doc_node *value = key->value->items[i];
        if (!is_scalar(value) || !param_takes(l, m->s->params[slot], value)) {
            good = false;
        } else if (!axis_find(m, x, value)) {
            doc_set(l->arena, x->index, param_canonical(x->type, value->text, l->arena),
                    doc_new_int(l->arena, (int64_t)x->count));
            x->values[x->count++] = value;
        }
    }
    m->axis_of[slot] = m->axis_count++;
    return good && x->count > 0;
}

/* ---- all combinations ---- */

/* The last param changes fastest. */
static void add_combinations(struct matrix *m, const struct doc_node *matrix, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        struct sweep_row *row = sweep_row_add(m->s, place_of(matrix));
        uint64_t rest = i;
        for (size_t k = m->axis_count; k-- > 0; rest /= m->axes[k].count)
            row->values[m->axes[k].slot] = m->axes[k].values[rest % m->axes[k].count];
    }
    m->combinations = m->s->row_count;
}

static bool combine(struct matrix *m, const struct doc_node *matrix)
{
    uint64_t count = 1;
    bool many = false;
    for (size_t k = 0; k < m->axis_count; k++)
        many |= __builtin_mul_overflow(count, (uint64_t)m->axes[k].count, &count);
    if (many || count > SPEC_POINTS_MAX) {
        struct place place = doc_get_member(m->s->node, "matrix", 6)->key_place;
        struct diagnostic *d = many ? fault(m->s->l, place, "the matrix has more combinations than can be counted")
                                    : fault(m->s->l, place, "the matrix has %llu combinations, more than %d",
                                            (unsigned long long)count, SPEC_POINTS_MAX);
        diagnostic_hint(d, "random draws as many points as count says");
        return false;
    }
    add_combinations(m, matrix, count);
    return true;
}

/* ---- exclude ---- */

static void hint_value(struct load *l, struct diagnostic *d, const struct axis *x, const char *value)
{
    const char **words = arena_array(l->arena, x->count + 1, sizeof *words);
    struct buf list = {0};
    for (size_t i = 0; i < x->count; i++) {
        words[i] = x->values[i]->text;
        if (i < 10 && list.len < 200)
            buf_printf(&list, "%s%.40s", i > 0 ? ", " : "", words[i]);
    }
    const char *near = str_nearest(value, words);
    diagnostic_expected(d, "one of %s%s", list.data, x->count > 10 ? ", ..." : "");
    if (near)
        diagnostic_hint(d, "did you mean %.100s?", near);
    buf_free(&list);
}

static void hint_axis(const struct matrix *m, struct diagnostic *d, const char *param)
{
    const char **names = arena_array(m->s->l->arena, m->axis_count + 1, sizeof *names);
    for (size_t i = 0; i < m->axis_count; i++)
        names[i] = m->axes[i].name;
    const char *near = str_nearest(param, names);
    if (near)
        diagnostic_hint(d, "did you mean %s?", near);
    else
        diagnostic_hint(d, "exclude removes combinations of the matrix");
}

/* The value that an item of exclude names for each param of the matrix; false after a fault. */
static bool read_exclude(struct matrix *m, const struct doc_node *item, const struct doc_node **wanted)
{
    struct load *l = m->s->l;
    bool good = true;
    for (size_t i = 0; i < item->count; i++) {
        const struct doc_member *v = &item->members[i];
        const size_t slot = sweep_slot(m->s, v->key);
        const size_t axis = slot == SIZE_MAX ? SIZE_MAX : m->axis_of[slot];
        const struct axis *x = axis == SIZE_MAX ? NULL : &m->axes[axis];
        const struct doc_node *value = x && is_scalar(v->value) ? axis_find(m, x, v->value) : NULL;
        if (!x) {
            hint_axis(m, fault(l, v->key_place, "\"%s\" is not in the matrix", v->key), v->key);
        } else if (!value && is_scalar(v->value)) {
            struct diagnostic *d =
                fault(l, place_of(v->value), "the matrix has no %s \"%.100s\"", v->key, v->value->text);
            hint_value(l, d, x, v->value->text);
        }
        good &= value != NULL;
        if (value)
            wanted[slot] = value;
    }
    return good;
}

static bool agrees(const struct matrix *m, const struct sweep_row *row, const struct doc_node *const *wanted)
{
    for (size_t k = 0; k < m->axis_count; k++) {
        const size_t slot = m->axes[k].slot;
        if (wanted[slot] && wanted[slot] != row->values[slot])
            return false;
    }
    return true;
}

static void exclude(struct matrix *m, const struct doc_node *item)
{
    const struct doc_node **wanted = arena_array(m->s->l->arena, m->s->count, sizeof *wanted);
    if (!is_object(item) || !read_exclude(m, item, wanted))
        return;
    bool hit = false;
    /* combinations that are already excluded count too: two items may exclude the same one */
    for (size_t i = 0; i < m->combinations; i++) {
        struct sweep_row *row = &m->s->rows[i];
        if (!agrees(m, row, wanted))
            continue;
        hit = true;
        row->out = true;
    }
    if (!hit)
        fault(m->s->l, place_of(item), "no combination of the matrix has these values together");
}

static void drop_excluded(struct matrix *m)
{
    size_t kept = 0;
    for (size_t i = 0; i < m->combinations; i++)
        if (!m->s->rows[i].out)
            m->s->rows[kept++] = m->s->rows[i];
    m->s->row_count = m->combinations = kept;
}

/* ---- include ---- */

static void include(struct matrix *m, const struct doc_node *item)
{
    struct sweep_rows *s = m->s;
    const struct doc_node **values = arena_array(s->l->arena, s->count, sizeof *values);
    const struct doc_node **wanted = arena_array(s->l->arena, s->count, sizeof *wanted);
    bool good = true, fits = true, hit = false;
    for (size_t i = 0; i < item->count; i++) {
        const struct doc_member *v = &item->members[i];
        const size_t slot = sweep_slot(s, v->key);
        if (slot == SIZE_MAX || !is_scalar(v->value) || !param_takes(s->l, s->params[slot], v->value)) {
            good = false;
            continue;
        }
        values[slot] = v->value;
        if (m->axis_of[slot] == SIZE_MAX)
            continue;
        wanted[slot] = axis_find(m, &m->axes[m->axis_of[slot]], v->value);
        fits &= wanted[slot] != NULL;
    }
    for (size_t i = 0; good && fits && i < m->combinations; i++) {
        if (!agrees(m, &s->rows[i], wanted))
            continue;
        hit = true;
        for (size_t k = 0; k < s->count; k++)
            if (values[k] && m->axis_of[k] == SIZE_MAX)
                s->rows[i].values[k] = values[k];
    }
    if (!good || hit)
        return;
    memcpy(sweep_row_add(s, place_of(item))->values, values, s->count * sizeof *values);
}

void sweep_matrix(struct sweep_rows *s)
{
    const struct doc_node *matrix = doc_get(s->node, "matrix"), *out = doc_get(s->node, "exclude"),
                          *in = doc_get(s->node, "include");
    struct matrix m = {.s = s};
    bool good = is_object(matrix);
    if (!good)
        return;
    m.axes = arena_array(s->l->arena, matrix->count, sizeof *m.axes);
    m.axis_of = arena_array(s->l->arena, s->count, sizeof *m.axis_of);
    for (size_t i = 0; i < s->count; i++)
        m.axis_of[i] = SIZE_MAX;
    for (size_t i = 0; i < matrix->count; i++)
        good &= read_axis(&m, &matrix->members[i]);
    if (!good || !combine(&m, matrix))
        return;
    for (size_t i = 0; is_array(out) && i < out->count; i++)
        exclude(&m, out->items[i]);
    drop_excluded(&m);
    for (size_t i = 0; is_array(in) && i < in->count && s->row_count <= SPEC_POINTS_MAX; i++)
        if (is_object(in->items[i]))
            include(&m, in->items[i]);
}

/* ---- points ---- */

void sweep_list(struct sweep_rows *s)
{
    const struct doc_node *list = doc_get(s->node, "points");
    for (size_t i = 0; is_array(list) && i < list->count && s->row_count <= SPEC_POINTS_MAX; i++) {
        const struct doc_node *item = list->items[i];
        if (!is_object(item))
            continue;
        struct sweep_row *row = sweep_row_add(s, place_of(item));
        for (size_t k = 0; k < item->count; k++) {
            const struct doc_member *v = &item->members[k];
            const bool name = strcmp(v->key, "name") == 0;
            const size_t slot = name ? SIZE_MAX : sweep_slot(s, v->key);
            if (name && is_scalar(v->value) && !name_is_valid(v->value->text))
                diagnostic_expected(fault(s->l, place_of(v->value), "a point cannot be called \"%s\"", v->value->text),
                                    "up to 100 letters, digits, _ . or -, not beginning with . or -");
            else if (name && is_scalar(v->value))
                row->name = v->value->text;
            else if (slot != SIZE_MAX && is_scalar(v->value) && param_takes(s->l, s->params[slot], v->value))
                row->values[slot] = v->value;
        }
    }
}
