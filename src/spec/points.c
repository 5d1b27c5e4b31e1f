/*
 * Points of a sweep: their params, their identity, and how to find them. Two points are the same if all their params
 * have equal values, however the values are spelled.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum { ID_DIGITS = 12, MARK_DIGITS = 8, LONG_MARK_DIGITS = 16, CELLS_MAX = 1000000 };

const char *param_canonical(enum spec_type type, const char *value, struct arena *arena)
{
    struct buf json = {0};
    if (type == SPEC_STRING)
        buf_json_string(&json, value, strlen(value));
    else
        doc_to_json(doc_new_plain(arena, value), DOC_JSON_CANONICAL, &json);
    const char *text = arena_strdup(arena, json.data);
    buf_free(&json);
    return text;
}

/* ---- identity ---- */

struct by_name {
    const char *name;
    size_t param;
};

static int by_bytes(const void *a, const void *b)
{
    return strcmp(((const struct by_name *)a)->name, ((const struct by_name *)b)->name);
}

static struct by_name *sorted(const struct spec_param *params, size_t count, struct arena *arena)
{
    struct by_name *order = arena_array(arena, count + 1, sizeof *order);
    for (size_t i = 0; i < count; i++)
        order[i] = (struct by_name){params[i].name, i};
    if (count > 0)
        qsort(order, count, sizeof *order, by_bytes);
    return order;
}

/* All params, or only the swept ones, as a JSON object with sorted keys. */
static void put_params(struct buf *json, const struct spec_param *params, size_t count, const struct by_name *order,
                       bool swept, struct arena *scratch)
{
    const char *comma = "";
    buf_putc(json, '{');
    for (size_t i = 0; i < count; i++) {
        const struct spec_param *p = &params[order[i].param];
        if (!p->value || (swept && !p->swept))
            continue;
        buf_puts(json, comma);
        buf_json_string(json, p->name, strlen(p->name));
        buf_putc(json, ':');
        buf_puts(json, param_canonical(p->type, p->value, scratch));
        comma = ",";
    }
    buf_putc(json, '}');
}

const char *params_id(const struct spec_param *params, size_t count, struct arena *arena)
{
    char hex[65];
    struct buf json = {0};
    put_params(&json, params, count, sorted(params, count, arena), false, arena);
    digest_sha256_hex(json.data, json.len, hex);
    buf_free(&json);
    return arena_strndup(arena, hex, ID_DIGITS);
}

/* ---- names ---- */

/* U+0080 to U+009F, and characters that change the direction or the line of text. */
static bool is_unprintable(const unsigned char *s, size_t len)
{
    if (len == 1)
        return *s < 0x20 || *s == 0x7f;
    if (len == 2)
        return *s == 0xc2 && s[1] < 0xa0;
    if (len != 3 || s[0] != 0xe2)
        return false;
    return (s[1] == 0x80 && (s[2] == 0x8e || s[2] == 0x8f || (s[2] >= 0xa8 && s[2] <= 0xae))) ||
           (s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9);
}

/* A value as part of a name, up to the longest name. */
static void put_value(struct buf *name, const char *value)
{
    const unsigned char *s = (const unsigned char *)value;
    for (size_t left = strlen(value), n; left > 0 && name->len <= SPEC_POINT_NAME_MAX; s += n, left -= n) {
        n = utf8_length(s, left);
        bool plain = n > 0 && !is_unprintable(s, n) && !(n == 1 && strchr("/,%", *s));
        n = n > 0 ? n : 1;
        if (plain)
            buf_append(name, s, n);
        for (size_t i = 0; !plain && i < n; i++)
            buf_printf(name, "%%%02X", s[i]);
    }
}

static void put_name(struct buf *name, const struct spec_param *params, const struct sweep_rows *s)
{
    for (size_t i = 0; i < s->count && name->len <= SPEC_POINT_NAME_MAX; i++) {
        const struct spec_param *p = &params[s->params[i]];
        buf_printf(name, "%s%s=", i > 0 ? "," : "", p->name);
        put_value(name, p->value);
    }
}

static const char *cut_name(struct arena *a, const char *name, const char *digest, size_t digits)
{
    size_t keep = SPEC_POINT_NAME_MAX - 1 - digits;
    while (keep > 0 && ((unsigned char)name[keep] & 0xc0) == 0x80)
        keep--;
    return arena_printf(a, "%.*s~%.*s", (int)keep, name, (int)digits, digest);
}

/* ---- from rows ---- */

struct making {
    struct sweep_rows *s;
    struct arena *arena, *scratch;
    struct by_name *order;
    struct spec_point *points;
    const char **digests; /* complete digests, by point */
    const char **given;   /* names of the spec, by point, or NULL */
    size_t count;
    uint32_t *slots; /* open addressing by digest: index of a point + 1 */
    size_t slot_count;
};

/* False after a fault: a param has neither a value nor a default. */
static bool fill(struct making *m, const struct sweep_row *row, struct spec_param *params)
{
    const struct load *l = m->s->l;
    memcpy(params, l->spec->params, l->spec->param_count * sizeof *params);
    for (size_t i = 0; i < m->s->count; i++) {
        struct spec_param *p = &params[m->s->params[i]];
        const struct doc_node *value = row->values[i];
        if (value) {
            p->value = value->text;
            p->place = place_of(value);
        }
        p->given = l->chosen[m->s->params[i]] != NULL;
        if (p->value)
            continue;
        struct diagnostic *d = fault(m->s->l, row->place, "the point has no value for param \"%s\"", p->name);
        if (m->s->own)
            diagnostic_hint(d, "the param has no default: -p %s=VALUE", p->name);
        else
            diagnostic_hint(d, "the param has no default, so each point must give a value");
        return false;
    }
    return true;
}

/* The slot of the point with this digest, or the slot for it. */
static uint32_t *slot_of(struct making *m, const char *digest)
{
    size_t at = (size_t)strtoull(
                    (char[]){digest[0], digest[1], digest[2], digest[3], digest[4], digest[5], digest[6], digest[7], 0},
                    NULL, 16) %
                m->slot_count;
    while (m->slots[at] && strncmp(m->digests[m->slots[at] - 1], digest, ID_DIGITS) != 0)
        at = (at + 1) % m->slot_count;
    return &m->slots[at];
}

/* Of equal points the first stays, and takes the name of the other. */
static bool merge(struct making *m, size_t first, const char *digest, const struct sweep_row *row)
{
    struct load *l = m->s->l;
    if (strcmp(m->digests[first], digest) != 0) {
        fault(l, row->place, "two points have the same id, %s, by chance", m->points[first].id);
        return false;
    }
    if (row->name && m->given[first] && strcmp(row->name, m->given[first]) != 0) {
        fault(l, row->place, "points \"%s\" and \"%s\" have the same params", m->given[first], row->name);
        note(l, m->points[first].place, "the other is here");
        return false;
    }
    if (row->name)
        m->given[first] = row->name;
    return true;
}

static bool add_point(struct making *m, const struct sweep_row *row)
{
    const size_t param_count = m->s->l->spec->param_count;
    struct spec_param *params = arena_array(m->arena, param_count, sizeof *params);
    char hex[65];
    struct buf json = {0};
    if (!fill(m, row, params))
        return false;
    put_params(&json, params, param_count, m->order, false, m->scratch);
    digest_sha256_hex(json.data, json.len, hex);
    uint32_t *slot = slot_of(m, hex);
    if (*slot) {
        buf_free(&json);
        return merge(m, *slot - 1, hex, row);
    }
    buf_clear(&json);
    put_params(&json, params, param_count, m->order, true, m->scratch);
    m->points[m->count] = (struct spec_point){.id = arena_strndup(m->arena, hex, ID_DIGITS),
                                              .index = (uint32_t)m->count,
                                              .params = params,
                                              .param_count = param_count,
                                              .params_json = arena_strndup(m->arena, json.data, json.len),
                                              .place = row->place};
    m->digests[m->count] = arena_strdup(m->arena, hex);
    m->given[m->count] = row->name;
    *slot = (uint32_t)++m->count;
    buf_free(&json);
    arena_reset(m->scratch);
    return true;
}

/* Names that were cut may be equal; then they get more digits of the digest. */
static void name_points(struct making *m)
{
    struct doc_node *seen = doc_new_object(m->scratch); /* by name the index of its point */
    struct buf name = {0};
    for (size_t i = 0; i < m->count; i++) {
        struct spec_point *p = &m->points[i];
        buf_clear(&name);
        put_name(&name, p->params, m->s);
        if (m->given[i])
            p->name = m->given[i];
        else if (name.len > SPEC_POINT_NAME_MAX)
            p->name = cut_name(m->arena, name.data, m->digests[i], MARK_DIGITS);
        else
            p->name = m->s->count > 0 ? arena_strdup(m->arena, name.data) : "default"; /* nothing differs */
        const struct doc_node *other = doc_get(seen, p->name);
        if (!other) {
            doc_set(m->scratch, seen, p->name, doc_new_int(m->scratch, (int64_t)i));
            continue;
        }
        struct spec_point *first = &m->points[other->integer];
        if (m->given[i]) {
            fault(m->s->l, p->place, "two points are called \"%s\"", p->name);
            note(m->s->l, first->place, "the other is here");
            continue;
        }
        p->name = cut_name(m->arena, name.data, m->digests[i], LONG_MARK_DIGITS);
        buf_clear(&name);
        put_name(&name, first->params, m->s);
        first->name = cut_name(m->arena, name.data, m->digests[other->integer], LONG_MARK_DIGITS);
    }
    buf_free(&name);
}

/* Checks the memory of all points before they are made. */
static bool check_size(const struct sweep_rows *s)
{
    const struct spec *spec = s->l->spec;
    uint64_t bytes = 0, fixed = 0;
    for (size_t i = 0; i < spec->param_count; i++)
        fixed += !spec->params[i].swept && spec->params[i].value ? strlen(spec->params[i].value) : 0;
    for (size_t i = 0; i < s->row_count; i++) {
        bytes += fixed;
        for (size_t k = 0; k < s->count; k++)
            bytes += s->rows[i].values[k] ? s->rows[i].values[k]->text_len : 0;
    }
    if (bytes > SPEC_POINTS_BYTES_MAX) {
        fault(s->l, place_of(s->node), "the points have %llu bytes of values together, more than %d",
              (unsigned long long)bytes, SPEC_POINTS_BYTES_MAX);
        return false;
    }
    if (s->row_count * spec->param_count > CELLS_MAX) {
        fault(s->l, place_of(s->node), "%zu points of a job with %zu params are too many", s->row_count,
              spec->param_count);
        return false;
    }
    return true;
}

bool sweep_points(struct sweep_rows *s, struct spec_point **ret, size_t *ret_count)
{
    const struct spec *spec = s->l->spec;
    const size_t errors = s->l->diagnostics->errors;
    if (!check_size(s))
        return false;
    struct making m = {.s = s, .arena = s->l->arena, .scratch = arena_create()};
    m.order = sorted(spec->params, spec->param_count, m.arena);
    m.points = arena_array(m.arena, s->row_count, sizeof *m.points);
    m.digests = arena_array(m.arena, s->row_count, sizeof *m.digests);
    m.given = arena_array(m.arena, s->row_count, sizeof *m.given);
    m.slot_count = 2 * s->row_count + 1;
    m.slots = arena_array(m.arena, m.slot_count, sizeof *m.slots);
    bool good = true;
    for (size_t i = 0; i < s->row_count && good; i++)
        good = add_point(&m, &s->rows[i]);
    if (good)
        name_points(&m);
    arena_destroy(m.scratch);
    *ret = m.points;
    *ret_count = m.count;
    return good && s->l->diagnostics->errors == errors;
}

/* ---- for the users of points ---- */

struct spec spec_at_point(const struct spec *spec, const struct spec_point *point)
{
    struct spec at = *spec;
    at.point = point;
    at.params = point->params;
    at.param_count = point->param_count;
    at.variant = point->variant;
    return at;
}

const struct spec_point *spec_point_find(const struct spec_point *points, size_t count, const char *word)
{
    const struct spec_point *found = NULL;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(points[i].name, word) == 0)
            return &points[i];
        if (strcmp(points[i].id, word) == 0)
            found = &points[i];
    }
    return found;
}

static bool has_value(const struct spec_point *point, const char *param, size_t len, struct arena *scratch)
{
    const char *value = param + len + 1;
    for (size_t i = 0; i < point->param_count; i++) {
        const struct spec_param *p = &point->params[i];
        if (strncmp(p->name, param, len) != 0 || p->name[len] || !p->value)
            continue;
        return strcmp(p->value, value) == 0 ||
               strcmp(param_canonical(p->type, p->value, scratch), param_canonical(p->type, value, scratch)) == 0;
    }
    return false;
}

size_t spec_points_match(const struct spec_point *points, size_t count, const char *const *params, size_t param_count,
                         const struct spec_point **ret_points)
{
    struct arena *scratch = arena_create();
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        bool match = true;
        for (size_t k = 0; k < param_count && match; k++) {
            const char *equals = strchr(params[k], '=');
            match = equals && has_value(&points[i], params[k], (size_t)(equals - params[k]), scratch);
        }
        if (match)
            ret_points[found++] = &points[i];
        arena_reset(scratch);
    }
    arena_destroy(scratch);
    return found;
}

const char *spec_points_words(const struct spec_point *points, size_t count, size_t max_names, struct arena *arena)
{
    struct buf b = {0};
    for (size_t i = 0; i < count && i < max_names; i++)
        buf_printf(&b, "%s%s", i > 0 ? ", " : "", points[i].name);
    if (count > max_names)
        buf_printf(&b, " and %zu more", count - max_names);
    const char *text = arena_strdup(arena, b.data ? b.data : "none");
    buf_free(&b);
    return text;
}
