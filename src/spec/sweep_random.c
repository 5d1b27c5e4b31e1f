/*
 * Points drawn at random. A draw is a function of (seed, point, param) alone, so that a larger count only adds points
 * and another param changes none: the first 8 bytes of SHA-256 of "SEED/POINT/PARAM", as a big-endian number n, are a
 * fraction u = floor(n / 2^11) / 2^53 in [0, 1). docs/spec.md documents it; it must never change.
 */
#include "internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum draw_kind { DRAW_UNIFORM, DRAW_LOG_UNIFORM, DRAW_INT, DRAW_CHOICE };
static const char *const kinds[] = {"uniform", "log_uniform", "int", "choice"};

struct draw { /* how a param is drawn */
    size_t slot, param;
    const char *name;
    const struct doc_node *node; /* the range, or the list */
    enum draw_kind kind;
    double low, high;
    int64_t first, last;
    bool failed;
};

/* ---- reading the draws ---- */

static bool bad_range(struct load *l, const struct draw *d, const char *expected)
{
    struct diagnostic *item = fault(l, place_of(d->node), "param \"%s\" cannot be drawn from this range", d->name);
    diagnostic_expected(item, "%s", expected);
    return false;
}

static bool read_range(struct load *l, struct draw *d)
{
    const enum spec_type type = l->spec->params[d->param].type;
    if (!is_array(d->node) || d->node->count != 2)
        return false; /* reported by the schema */
    const struct doc_node *low = d->node->items[0], *high = d->node->items[1];
    if ((low->type != DOC_INT && low->type != DOC_FLOAT) || (high->type != DOC_INT && high->type != DOC_FLOAT))
        return false;
    if (d->kind == DRAW_INT) {
        if (!doc_is_integer(low, &d->first) || !doc_is_integer(high, &d->last))
            return bad_range(l, d, "two integers");
        return d->first <= d->last || bad_range(l, d, "[lowest, highest]");
    }
    if (type == SPEC_INTEGER) {
        diagnostic_hint(
            fault(l, place_of(d->node), "param \"%s\" is an integer, which %s does not draw", d->name, kinds[d->kind]),
            "int: [LOWEST, HIGHEST] draws one; type: number takes any number");
        return false;
    }
    d->low = low->number;
    d->high = high->number;
    if (!isfinite(d->low) || !isfinite(d->high) || !isfinite(d->high - d->low) || d->low > d->high)
        return bad_range(l, d, "[lowest, highest]");
    return d->kind == DRAW_UNIFORM || d->low > 0 || bad_range(l, d, "two numbers above 0");
}

static bool read_draw(struct sweep_rows *s, const struct doc_member *key, struct draw *ret)
{
    struct load *l = s->l;
    *ret = (struct draw){.slot = sweep_slot(s, key->key), .name = key->key};
    if (ret->slot == SIZE_MAX || !is_object(key->value) || key->value->count != 1)
        return false;
    ret->param = s->params[ret->slot];
    const struct doc_member *how = &key->value->members[0];
    size_t kind = 0;
    while (kind < ARRAY_LEN(kinds) && strcmp(kinds[kind], how->key) != 0)
        kind++;
    if (kind == ARRAY_LEN(kinds))
        return false;
    ret->kind = (enum draw_kind)kind;
    ret->node = how->value;
    if (ret->kind != DRAW_CHOICE)
        return read_range(l, ret);
    bool good = is_array(ret->node) && ret->node->count > 0;
    for (size_t i = 0; good && i < ret->node->count; i++)
        good = is_scalar(ret->node->items[i]) && param_takes(l, ret->param, ret->node->items[i]);
    return good;
}

/* ---- drawing ---- */

static uint64_t draw_bits(uint64_t seed, size_t point, const char *param)
{
    uint8_t digest[32];
    uint64_t n = 0;
    CLEANUP(cleanup_free) char *text = xasprintf("%" PRIu64 "/%zu/%s", seed, point, param);
    digest_sha256(text, strlen(text), digest);
    for (size_t i = 0; i < 8; i++)
        n = n << 8 | digest[i];
    return n;
}

/* floor(u * count), exact for large counts, where a double would round. */
static uint64_t below(uint64_t bits, uint64_t count)
{
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)((wide)(bits >> 11) * count >> 53);
}

/* Six digits, within the range: the text is the value, here and on the worker's command line. */
static const char *number_text(struct arena *a, const struct draw *d, double value)
{
    const char *text = arena_printf(a, "%.6g", value);
    const double rounded = strtod(text, NULL);
    if (rounded < d->low)
        return d->node->items[0]->text;
    return rounded > d->high ? d->node->items[1]->text : text;
}

static const struct doc_node *draw_value(struct load *l, const struct draw *d, uint64_t bits)
{
    const double u = ldexp((double)(bits >> 11), -53);
    const char *text = NULL;
    switch (d->kind) {
    case DRAW_CHOICE:
        return d->node->items[below(bits, d->node->count)];
    case DRAW_INT: {
        /* the full range of 64 bits has one value more than a uint64_t can count, so its last is never drawn */
        uint64_t count = (uint64_t)d->last - (uint64_t)d->first;
        count += count < UINT64_MAX;
        text = arena_printf(l->arena, "%" PRId64, (int64_t)((uint64_t)d->first + below(bits, count)));
        break;
    }
    case DRAW_UNIFORM:
        text = number_text(l->arena, d, d->low + u * (d->high - d->low));
        break;
    case DRAW_LOG_UNIFORM:
        text = number_text(l->arena, d, exp(log(d->low) + u * (log(d->high) - log(d->low))));
        break;
    }
    struct doc_node *value = doc_new_plain(l->arena, text);
    value->place = place_of(d->node);
    return value;
}

void sweep_random(struct sweep_rows *s)
{
    struct load *l = s->l;
    const struct doc_node *random = doc_get(s->node, "random");
    const int64_t count = doc_get_int(s->node, "count", 0), seed = doc_get_int(s->node, "seed", 0);
    if (!is_object(random) || count < 1 || count > SPEC_POINTS_MAX || seed < 0)
        return;
    struct draw *draws = arena_array(l->arena, random->count + 1, sizeof *draws);
    bool good = true;
    for (size_t i = 0; i < random->count; i++)
        good &= read_draw(s, &random->members[i], &draws[i]);
    for (size_t i = 0; good && i < (size_t)count; i++) {
        struct sweep_row *row = sweep_row_add(s, place_of(random));
        for (size_t k = 0; k < random->count; k++) {
            const struct doc_node *value = draw_value(l, &draws[k], draw_bits((uint64_t)seed, i, draws[k].name));
            good &= draws[k].kind == DRAW_CHOICE || param_takes(l, draws[k].param, value);
            row->values[draws[k].slot] = value;
        }
    }
}
