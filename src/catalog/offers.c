/* Which machines suit a request, in the order in which to try them. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct candidate {
    struct catalog_offer offer;
    size_t provider; /* its place in the user's order */
    bool later;      /* on demand, when spot comes first */
};

/* How many rows each condition left: the first condition that leaves none is the reason why there is no offer. */
struct sieve {
    const struct catalog *c;
    const struct catalog_query *query;
    struct candidate *found;
    size_t count, cap;
    size_t suit, of_provider, in_region, priced;
    uint64_t cheapest; /* the lowest total above the limit */
};

static bool enough(uint64_t has, uint64_t wanted, bool or_more)
{
    return !wanted || (has && (or_more ? has >= wanted : has == wanted));
}

static bool row_suits(const struct catalog_row *row, const struct catalog_request *r)
{
    if (!r)
        return true;
    if (r->instance_type)
        return strcasecmp(row->instance_type, r->instance_type) == 0 &&
               (!r->provider || str_eq(row->provider, r->provider));
    bool named = r->accelerator_count == 0 && row->count == 0;
    for (size_t i = 0; i < r->accelerator_count && !named; i++)
        named = row->count == r->count && str_eq(row->accelerator, r->accelerators[i]);
    return named && enough(row->vcpus, r->vcpus, r->vcpus_or_more) &&
           enough(row->memory_mib, r->memory_mib, r->memory_or_more);
}

/* Its index in the list, 0 if the list is empty; SIZE_MAX: it is not in the list. */
static size_t place_in(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(list[i], name) == 0)
            return i;
    return count ? SIZE_MAX : 0;
}

static void take(struct sieve *s, const struct catalog_row *row, size_t provider, bool spot)
{
    const struct catalog_query *q = s->query;
    bool at_most = spot && !row->spot_microusd;
    uint64_t price = spot && !at_most ? row->spot_microusd : row->price_microusd, total;
    if (__builtin_mul_overflow(price, (uint64_t)(q->nodes ? q->nodes : 1), &total))
        total = UINT64_MAX;
    if (q->max_microusd && (!price || total > q->max_microusd)) {
        if (price && (!s->cheapest || total < s->cheapest))
            s->cheapest = total;
        return;
    }
    if (s->count == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 64;
        s->found = xreallocarray(s->found, s->cap, sizeof *s->found);
    }
    s->found[s->count++] = (struct candidate){.offer = {row, spot, at_most, price, total},
                                              .provider = provider,
                                              .later = q->spot == CATALOG_SPOT_PREFER && !spot};
}

static void sift(struct sieve *s, const struct catalog_row *row)
{
    const struct catalog_query *q = s->query;
    if (!row_suits(row, q->request))
        return;
    s->suit++;
    size_t provider = place_in(row->provider, q->providers, q->provider_count);
    if (provider == SIZE_MAX)
        return;
    s->of_provider++;
    if (place_in(row->region, q->regions, q->region_count) == SIZE_MAX)
        return;
    s->in_region++;
    bool spot = row->spot_microusd || (q->spot_bounded && row->price_microusd);
    if (q->spot == CATALOG_SPOT && !spot)
        return;
    s->priced++;
    if (q->spot != CATALOG_ON_DEMAND && spot)
        take(s, row, provider, true);
    if (q->spot != CATALOG_SPOT)
        take(s, row, provider, false);
}

/* ---- order ---- */

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_preference(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;
    const struct catalog_row *x = a->offer.row, *y = b->offer.row;
    int by = compare(a->later, b->later);
    by = by ? by : compare(a->offer.price_microusd == 0, b->offer.price_microusd == 0);
    by = by ? by : compare(a->offer.price_microusd, b->offer.price_microusd);
    by = by ? by : compare(y->as_of_day, x->as_of_day);
    by = by ? by : compare(a->provider, b->provider);
    by = by ? by : strcmp(x->provider, y->provider);
    by = by ? by : strcmp(x->region, y->region);
    by = by ? by : strcmp(x->zone, y->zone);
    return by ? by : strcmp(x->instance_type, y->instance_type);
}

/* ---- why there is none ---- */

/* Each name once, in order, as far as there is room: "eastus, us-east-1". */
struct names {
    const char **items;
    size_t count;
};

static void names_add(struct names *n, struct arena *arena, const char *name)
{
    enum { NAMES_MAX = 12 };
    if (!n->items)
        n->items = arena_array(arena, NAMES_MAX + 1, sizeof *n->items);
    size_t at = 0;
    while (at < n->count && strcmp(n->items[at], name) < 0)
        at++;
    if (at < n->count && strcmp(n->items[at], name) == 0)
        return;
    if (n->count == NAMES_MAX && at == NAMES_MAX)
        return;
    size_t behind = (n->count < NAMES_MAX ? n->count : NAMES_MAX - 1) - at;
    memmove(&n->items[at + 1], &n->items[at], behind * sizeof *n->items);
    n->items[at] = name;
    n->count += n->count < NAMES_MAX;
    n->items[n->count] = NULL;
}

static const char *names_text(const struct names *n, struct arena *arena)
{
    const char *text = "";
    for (size_t i = 0; i < n->count; i++)
        text = arena_printf(arena, "%s%s%s", text, i ? ", " : "", n->items[i]);
    return text;
}

static const char *list_text(const char *const *list, size_t count, struct arena *arena)
{
    const char *text = "";
    for (size_t i = 0; i < count && i < 8; i++)
        text = arena_printf(arena, "%s%s%s", text, i ? ", " : "", list[i]);
    return text;
}

static const char *what_of(const struct catalog_request *r)
{
    return r ? r->text : "any machine";
}

/* No machine is like that at all: names the counts that exist. */
static int none_suits(const struct sieve *s, struct arena *arena, struct error *err)
{
    const struct catalog_request *r = s->query->request;
    struct names counts = {0};
    for (size_t i = 0; i < s->c->count; i++) {
        const struct catalog_row *row = &s->c->rows[i];
        for (size_t j = 0; r && row->accelerator && j < r->accelerator_count; j++)
            if (str_eq(row->accelerator, r->accelerators[j]))
                names_add(&counts, arena, arena_printf(arena, "%s:%u", row->accelerator, row->count));
    }
    error_set(err, ERROR_USAGE, "the catalog has no machine with %s", what_of(r));
    if (counts.count && (r->vcpus || r->memory_mib))
        error_hint(err, "there are %s, with other vCPUs or memory: rhrun prices %s shows them",
                   names_text(&counts, arena), counts.items[0]);
    else if (counts.count)
        error_hint(err, "there are %s", names_text(&counts, arena));
    else if (r && r->accelerator_count)
        error_hint(err, "a row in your own file can add one with its price: docs/prices.md");
    else
        error_hint(err, "the catalog's machines without accelerators: rhrun prices cpu:1+");
    return -1;
}

/* No machine is left of these providers, or in these regions: names those that have some. */
static int none_there(const struct sieve *s, bool by_region, struct arena *arena, struct error *err)
{
    const struct catalog_query *q = s->query;
    const char *const *asked = by_region ? q->regions : q->providers;
    size_t count = by_region ? q->region_count : q->provider_count;
    struct names there = {0};
    bool is_known = false;
    for (size_t i = 0; i < s->c->count; i++) {
        const struct catalog_row *row = &s->c->rows[i];
        const char *name = by_region ? row->region : row->provider;
        is_known |= place_in(name, asked, count) != SIZE_MAX;
        if (row_suits(row, q->request) &&
            (!by_region || place_in(row->provider, q->providers, q->provider_count) != SIZE_MAX))
            names_add(&there, arena, name);
    }
    const char *near = is_known || count != 1 ? NULL : str_nearest(asked[0], there.items);
    const char *at = by_region ? "in" : "at";
    error_set(err, ERROR_USAGE, "the catalog has no price of %s %s %s", what_of(q->request), at,
              list_text(asked, count, arena));
    if (near)
        error_hint(err, "did you mean %s?", near);
    else
        error_hint(err, "there are some %s %s", at, names_text(&there, arena));
    return -1;
}

static int none_left(const struct sieve *s, struct arena *arena, struct error *err)
{
    const struct catalog_query *q = s->query;
    if (s->suit == 0)
        return none_suits(s, arena, err);
    if (s->in_region == 0)
        return none_there(s, s->of_provider > 0, arena, err);
    if (s->priced == 0) {
        error_set(err, ERROR_USAGE, "no spot price of %s is known", what_of(q->request));
        error_hint(err, "without spot there %s %zu offer%s", s->in_region == 1 ? "is" : "are", s->in_region,
                   s->in_region == 1 ? "" : "s");
        return -1;
    }
    char limit[32], cheapest[32];
    catalog_format_usd(q->max_microusd, 2, limit);
    catalog_format_usd(s->cheapest, 2, cheapest);
    error_set(err, ERROR_USAGE, "no offer of %s for %u node%s is within max_price %s USD per hour", what_of(q->request),
              q->nodes, q->nodes == 1 ? "" : "s", limit);
    if (s->cheapest)
        error_hint(err, "the cheapest costs %s per hour", cheapest);
    else
        error_hint(err, "its price is not known");
    return -1;
}

int catalog_offers(const struct catalog *c, const struct catalog_query *query, struct arena *arena,
                   struct catalog_offer **ret, size_t *ret_count, struct error *err)
{
    struct sieve s = {.c = c, .query = query};
    for (size_t i = 0; i < c->count; i++)
        sift(&s, &c->rows[i]);
    if (s.count == 0)
        return none_left(&s, arena, err);
    qsort(s.found, s.count, sizeof *s.found, by_preference);
    struct catalog_offer *offers = arena_array(arena, s.count, sizeof *offers);
    for (size_t i = 0; i < s.count; i++)
        offers[i] = s.found[i].offer;
    free(s.found);
    *ret = offers;
    *ret_count = s.count;
    return 0;
}
