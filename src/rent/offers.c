/* What can be rented for a spec: the wish, the catalog, the providers. See offers.h. */
#include "rhrun/offers.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct finder {
    const struct spec_rent *rent;
    uint32_t nodes;
    struct arena *arena;
    struct diagnostics *d;
    struct error *err;
    const struct catalog *catalog;
    size_t max;                      /* offers */
    const char *const *known;        /* providers that have files */
    struct rent_provider *providers; /* loaded so far */
    size_t provider_count;
    struct rent_offers *o;
    size_t cap;
};

/* ---- places of faults ---- */

static struct diagnostic *fault(struct finder *f, struct place place, const char *fmt, ...) FORMAT(3, 4);
static struct diagnostic *fault(struct finder *f, struct place place, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    struct diagnostic *item = diagnostics_addv(f->d, SEVERITY_ERROR, place.source ? place : f->rent->place, fmt, ap);
    va_end(ap);
    return item;
}

static void also(struct finder *f, struct place place, const char *what)
{
    if (place.source)
        diagnostics_add(f->d, SEVERITY_NOTE, place, "%s is here", what);
}

/* An error of another module at the key that it is about. */
static void fault_of(struct finder *f, struct place place, const struct error *err)
{
    struct diagnostic *item = fault(f, place, "%s", err->text);
    if (err->hint[0])
        diagnostic_hint(item, "%s", err->hint);
}

static const char *list_text(struct arena *arena, const char *const *names)
{
    const char *text = "";
    for (size_t i = 0; names[i]; i++)
        text = arena_printf(arena, "%s%s%s", text, i ? ", " : "", names[i]);
    return text;
}

/* ---- providers ---- */

static bool is_known(const struct finder *f, const char *name)
{
    for (size_t i = 0; f->known[i]; i++)
        if (str_eq(f->known[i], name))
            return true;
    return false;
}

/* NULL: its file is faulty; d and err say so. */
static struct rent_provider *provider_of(struct finder *f, const char *name)
{
    for (size_t i = 0; i < f->provider_count; i++)
        if (str_eq(f->providers[i].name, name))
            return &f->providers[i];
    struct provider *p = NULL;
    size_t before = f->d->errors;
    if (provider_load(name, f->arena, &p, f->d, f->err) < 0) {
        if (f->d->errors == before)
            fault_of(f, f->rent->at.provider, f->err);
        return NULL;
    }
    struct rent_provider *r = &f->providers[f->provider_count++];
    *r = (struct rent_provider){.name = arena_strdup(f->arena, name), .facts = *provider_facts(p)};
    provider_destroy(p);
    return r;
}

/* There is no file for that name. */
static void unknown_provider(struct finder *f, size_t i)
{
    const char *name = f->rent->providers[i], *near = str_nearest(name, f->known);
    struct diagnostic *item = fault(f, f->rent->provider_places[i], "there is no provider \"%s\"", name);
    if (near)
        diagnostic_hint(item, "did you mean %s?", near);
    else
        diagnostic_hint(item, "there are %s; a file of your own adds one: docs/adding-a-provider.md",
                        list_text(f->arena, f->known));
}

/* Loads the providers that the spec names. false after faults. */
static bool load_named(struct finder *f)
{
    size_t before = f->d->errors;
    for (size_t i = 0; i < f->rent->provider_count; i++) {
        if (!is_known(f, f->rent->providers[i])) {
            unknown_provider(f, i);
            continue;
        }
        struct rent_provider *p = provider_of(f, f->rent->providers[i]);
        if (!p || f->rent->spot != SPOT_ONLY || p->facts.spot)
            continue;
        p->left_out = "it has no spot machines";
        if (f->rent->provider_count > 1)
            continue;
        diagnostic_hint(fault(f, f->rent->at.use_spot, "%s has no spot machines", p->facts.title),
                        "use_spot: prefer takes them where there are some; false takes none");
        also(f, f->rent->provider_places[i], "provider");
    }
    return f->d->errors == before;
}

/* ---- offers ---- */

static void add_one(struct finder *f, struct rent_provider *p, const struct catalog_row *row, const char *zone,
                    bool spot, uint64_t price, bool at_most)
{
    struct rent_offers *o = f->o;
    const struct provider_facts *facts = &p->facts;
    if (o->count == f->max) {
        o->cut++;
        return;
    }
    o->rows[o->count] = row;
    o->of[o->count] = p;
    o->at_most[o->count] = at_most;
    o->items[o->count++] = (struct fleet_offer){.provider = p->name,
                                                .region = row ? row->region : facts->free_region,
                                                .zone = zone,
                                                .type = row ? row->instance_type : facts->free_type,
                                                .gpu = row ? row->accelerator : NULL,
                                                .gpu_count = row ? row->count : 0,
                                                .spot = spot,
                                                .nodes = f->nodes,
                                                .alternative = f->rent->alternative,
                                                .gang_max = facts->gang_max,
                                                .price = price,
                                                .unpriced = row && price == 0,
                                                .idem = facts->idem,
                                                .deadline = facts->deadline,
                                                .settle_ms = facts->settle_ms,
                                                .late_ms = facts->late_ms,
                                                .poll_ms = facts->poll_ms,
                                                .ready_ms = facts->ready_ms};
}

/* One offer for each zone, if a create must name a zone and the catalog does not. */
static void add(struct finder *f, struct rent_provider *p, const struct catalog_row *row, bool spot, uint64_t price,
                bool at_most)
{
    bool open = row && !row->zone[0] && p->facts.zone_count > 0;
    for (size_t i = 0; open && i < p->facts.zone_count; i++)
        add_one(f, p, row, arena_printf(f->arena, "%s-%s", row->region, p->facts.zones[i]), spot, price, at_most);
    if (!open)
        add_one(f, p, row, row ? row->zone : "", spot, price, at_most);
}

static bool in_regions(const struct spec_rent *r, const char *region)
{
    for (size_t i = 0; i < r->region_count; i++)
        if (strcasecmp(r->regions[i], region) == 0)
            return true;
    return r->region_count == 0;
}

/* A provider with one type of machine accepts only a wish for that type, or for CPUs. false after a fault. */
static bool add_free(struct finder *f, struct rent_provider *p, const struct catalog_request *request)
{
    const struct provider_facts *facts = &p->facts;
    bool one_kind = !request || (!request->instance_type && request->accelerator_count == 0);
    if (!one_kind) {
        diagnostic_hint(fault(f, f->rent->at.instance, "%s has no %s: its machines are of one kind, \"%s\"",
                              facts->title, request->text, facts->free_type),
                        "leave instance out, or name another provider");
        also(f, f->rent->at.provider, "provider");
        return false;
    }
    if (!in_regions(f->rent, facts->free_region))
        p->left_out = arena_printf(f->arena, "it has one region, \"%s\"", facts->free_region);
    else if (!p->left_out)
        add(f, p, NULL, false, 0, false);
    return true;
}

/* ---- prices ---- */

static struct catalog_query query_of(const struct spec_rent *r, const struct catalog_request *request,
                                     const char *const *providers, size_t provider_count, uint32_t nodes)
{
    static const enum catalog_spot spots[] = {
        [SPOT_NEVER] = CATALOG_ON_DEMAND, [SPOT_ONLY] = CATALOG_SPOT, [SPOT_PREFER] = CATALOG_SPOT_PREFER};
    return (struct catalog_query){.request = request,
                                  .nodes = nodes,
                                  .spot = spots[r->spot],
                                  .spot_bounded = true,
                                  .regions = r->regions,
                                  .region_count = r->region_count,
                                  .providers = providers,
                                  .provider_count = provider_count,
                                  .max_microusd = r->max_price};
}

/* There is no offer: names the key without which there would be one. */
static void none_offered(struct finder *f, const struct catalog *c, const struct catalog_query *query)
{
    const struct spec_rent *r = f->rent;
    const struct place places[] = {r->at.instance, r->at.provider, r->at.regions, r->at.use_spot, r->at.max_price};
    struct catalog_query q = {.request = query->request, .nodes = query->nodes};
    struct catalog_offer *offers;
    size_t count, at = 0;
    struct error err = ERROR_INIT;
    for (; at < ARRAY_LEN(places); at++) {
        if (at == 1) {
            q.providers = query->providers;
            q.provider_count = query->provider_count;
        } else if (at == 2) {
            q.regions = query->regions;
            q.region_count = query->region_count;
        } else if (at == 3) {
            q.spot = query->spot;
            q.spot_bounded = query->spot_bounded;
        } else if (at == 4) {
            q.max_microusd = query->max_microusd;
        }
        if (catalog_offers(c, &q, f->arena, &offers, &count, &err) < 0)
            break;
    }
    if (at == ARRAY_LEN(places))
        error_set(&err, ERROR_SPEC, "there is no offer of %s", query->request->text);
    fault_of(f, at < ARRAY_LEN(places) ? places[at] : r->place, &err);
    if (at > 0)
        also(f, r->at.instance, "instance");
}

/* The providers with prices: those that the spec names, or all that have files. */
static const char *const *priced_names(const struct finder *f, size_t *ret_count)
{
    const struct spec_rent *r = f->rent;
    size_t known = 0, count = 0;
    while (f->known[known])
        known++;
    const char **names = arena_array(f->arena, known + r->provider_count + 1, sizeof *names);
    for (size_t i = 0; i < r->provider_count; i++) {
        const struct rent_provider *p = NULL;
        for (size_t k = 0; k < f->provider_count && !p; k++)
            p = str_eq(f->providers[k].name, r->providers[i]) ? &f->providers[k] : NULL;
        if (p && !p->facts.free_type && !p->left_out)
            names[count++] = p->name;
    }
    for (size_t i = 0; i < known && r->provider_count == 0; i++)
        names[count++] = f->known[i];
    *ret_count = count;
    return names;
}

static int add_priced(struct finder *f, const struct catalog *c, const struct catalog_request *request)
{
    struct catalog_offer *offers;
    size_t count, names_count;
    const char *const *names = priced_names(f, &names_count);
    if (names_count == 0)
        return 0;
    struct catalog_query query = query_of(f->rent, request, names, names_count, f->nodes);
    if (catalog_offers(c, &query, f->arena, &offers, &count, f->err) < 0) {
        if (f->o->count == 0)
            none_offered(f, c, &query);
        return f->o->count == 0 ? -1 : 0;
    }
    for (size_t i = 0; i < count; i++) {
        struct rent_provider *p = provider_of(f, offers[i].row->provider);
        if (!p)
            return -1;
        if (offers[i].spot && !p->facts.spot) {
            if (f->rent->spot == SPOT_ONLY)
                p->left_out = "it has no spot machines";
            continue;
        }
        add(f, p, offers[i].row, offers[i].spot, offers[i].price_microusd, offers[i].at_most);
    }
    return 0;
}

/* ---- the whole ---- */

static bool all_free(const struct finder *f)
{
    for (size_t i = 0; i < f->provider_count; i++)
        if (!f->providers[i].facts.free_type)
            return false;
    return f->provider_count > 0;
}

/* 0 with *ret NULL: no instance is given, and none is needed. -1 after a fault. */
static int request_of(struct finder *f, const struct catalog *c, struct catalog_request *request,
                      const struct catalog_request **ret)
{
    const struct spec_rent *r = f->rent;
    struct error err = ERROR_INIT;
    *ret = NULL;
    if (!r->instance && all_free(f))
        return 0;
    if (!r->instance) {
        diagnostic_hint(fault(f, r->at.provider, "provider without instance: nothing says which machine to rent"),
                        "instance: \"A100:8\" or \"cpu:8+\"; rhrun prices lists the machines");
        return -1;
    }
    for (size_t i = 0; i < f->provider_count; i++) /* the name of its one kind */
        if (str_eq(f->providers[i].facts.free_type, r->instance) && all_free(f))
            return 0;
    if (catalog_request_parse(c, r->instance, f->arena, request, &err) < 0) {
        fault_of(f, r->at.instance, &err);
        return -1;
    }
    *ret = request;
    return 0;
}

static int find_offers(struct finder *f)
{
    const struct spec_rent *r = f->rent;
    const struct catalog *c = f->catalog;
    struct catalog_request request;
    const struct catalog_request *wish;
    if (!load_named(f))
        return -1;
    if (f->nodes > FLEET_NODES_MAX) {
        fault(f, r->at.instance, "nnodes is %u, but at most %d machines are rented for one job", f->nodes,
              FLEET_NODES_MAX);
        return -1;
    }
    if (request_of(f, c, &request, &wish) < 0)
        return -1;
    for (size_t i = 0, named = f->provider_count; i < named; i++)
        if (f->providers[i].facts.free_type && !add_free(f, &f->providers[i], wish))
            return -1;
    if (wish && add_priced(f, c, wish) < 0)
        return -1;
    if (f->o->count > 0)
        return 0;
    diagnostic_hint(fault(f, r->spot == SPOT_ONLY ? r->at.use_spot : r->at.regions,
                          r->spot == SPOT_ONLY ? "none of the providers has spot machines"
                                               : "none of the providers is in these regions"),
                    "%s",
                    r->spot == SPOT_ONLY ? "use_spot: prefer takes them where there are some"
                                         : "leave regions out, or name another provider");
    return -1;
}

/* First the providers with offers, in the order of the offers. */
static void list_providers(struct finder *f)
{
    struct rent_offers *o = f->o;
    struct rent_provider *list = arena_array(f->arena, f->provider_count + 1, sizeof *list);
    size_t count = 0;
    for (size_t i = 0; i < o->count; i++) {
        size_t k = 0;
        while (k < count && !str_eq(list[k].name, o->of[i]->name))
            k++;
        if (k == count) {
            list[count] = *o->of[i];
            list[count++].left_out = NULL;
        }
        o->of[i] = &list[k];
    }
    for (size_t i = 0; i < f->provider_count; i++)
        if (f->providers[i].left_out) {
            size_t k = 0;
            while (k < count && !str_eq(list[k].name, f->providers[i].name))
                k++;
            if (k == count)
                list[count++] = f->providers[i];
        }
    o->providers = list;
    o->provider_count = count;
}

static struct rent_offers room_for(const struct spec_rent *rent, uint32_t nodes, struct arena *arena)
{
    return (struct rent_offers){.rent = rent,
                                .nodes = nodes,
                                .items = arena_array(arena, FLEET_OFFERS_MAX, sizeof(struct fleet_offer)),
                                .rows = arena_array(arena, FLEET_OFFERS_MAX, sizeof(struct catalog_row *)),
                                .of = arena_array(arena, FLEET_OFFERS_MAX, sizeof(struct rent_provider *)),
                                .at_most = arena_array(arena, FLEET_OFFERS_MAX, sizeof(bool))};
}

/* Of a cluster, or of one alternative: by price. */
static int offers_of(const struct spec_rent *rent, uint32_t nodes, size_t max, const struct catalog *c,
                     struct arena *arena, struct rent_offers *ret, struct diagnostics *d, struct error *err)
{
    struct rent_offers o = room_for(rent, nodes, arena);
    struct error none = ERROR_INIT;
    struct finder f = {.rent = rent,
                       .nodes = nodes,
                       .arena = arena,
                       .d = d,
                       .err = err ? err : &none,
                       .catalog = c,
                       .max = max,
                       .o = &o};
    size_t known = 0;
    f.known = provider_list(arena);
    while (f.known[known])
        known++;
    f.providers = arena_array(arena, known + 1, sizeof *f.providers);
    if (find_offers(&f) < 0)
        return -1;
    list_providers(&f);
    *ret = o;
    return 0;
}

/* The offers of an alternative follow those of the alternatives before it. A provider that is left out of one may be in
 * another. */
static void append(struct rent_offers *all, const struct rent_offers *part)
{
    for (size_t i = 0; i < part->provider_count; i++) {
        struct rent_provider *p = NULL;
        for (size_t k = 0; k < all->provider_count && !p; k++)
            p = str_eq(all->providers[k].name, part->providers[i].name) ? &all->providers[k] : NULL;
        if (!p)
            all->providers[all->provider_count++] = part->providers[i];
        else if (!part->providers[i].left_out)
            p->left_out = NULL;
    }
    for (size_t i = 0; i < part->count; i++, all->count++) {
        all->items[all->count] = part->items[i];
        all->rows[all->count] = part->rows[i];
        all->at_most[all->count] = part->at_most[i];
        all->of[all->count] = NULL;
        for (size_t k = 0; k < all->provider_count; k++)
            if (str_eq(all->providers[k].name, part->items[i].provider))
                all->of[all->count] = &all->providers[k];
    }
    all->cut += part->cut;
}

static int offers_of_any(const struct spec_rent *rent, uint32_t nodes, const struct catalog *c, struct arena *arena,
                         struct rent_offers *ret, struct diagnostics *d, struct error *err)
{
    struct rent_offers all = room_for(rent, nodes, arena);
    const size_t count = rent->alternative_count;
    size_t known = 0;
    const char *const *names = provider_list(arena);
    int rc = 0;
    while (names[known])
        known++;
    all.providers = arena_array(arena, known + 1, sizeof *all.providers);
    for (size_t i = 0; i < count; i++) {
        const struct spec_rent *one = &rent->alternatives[i];
        struct rent_offers part;
        if (offers_of(one, one->nodes, FLEET_OFFERS_MAX / count, c, arena, &part, d, err) < 0)
            rc = -1;
        else
            append(&all, &part);
    }
    *ret = all;
    return rc;
}

int rent_offers(const struct spec_rent *rent, uint32_t nodes, struct arena *arena, struct rent_offers *ret,
                struct diagnostics *d, struct error *err)
{
    const struct catalog_places places = catalog_places(arena);
    struct catalog *c;
    const size_t errors = d->errors;
    if (catalog_load(&places, arena, &c, d, err) == 0 &&
        (rent->alternative_count > 0 ? offers_of_any(rent, nodes, c, arena, ret, d, err)
                                     : offers_of(rent, nodes, FLEET_OFFERS_MAX, c, arena, ret, d, err)) == 0)
        return 0;
    const size_t faults = d->errors - errors;
    if (faults == 0) /* err says it: a file that cannot be read */
        return -1;
    return error_set(err, ERROR_SPEC, "nothing can be rented: %zu fault%s", faults, faults == 1 ? "" : "s");
}

/* ---- credentials ---- */

const char *rent_credentials_missing(const char *name, struct arena *arena)
{
    struct provider *p = NULL;
    struct provider_credentials *credentials = NULL;
    const char *const *exec;
    struct error err = ERROR_INIT;
    struct diagnostics d = {0};
    const char *text = NULL;
    if (provider_load(name, arena, &p, &d, &err) == 0 &&
        provider_credentials_find(p, arena, &credentials, &exec, &err) != PROVIDER_MISSING)
        text = NULL;
    else if (err.hint[0])
        text = arena_printf(arena, "%s: %s", err.text, err.hint);
    else
        text = arena_strdup(arena, err.text);
    provider_credentials_destroy(credentials);
    provider_destroy(p);
    diagnostics_free(&d);
    return text;
}

static void drop(struct rent_offers *o)
{
    size_t kept = 0;
    for (size_t i = 0; i < o->count; i++) {
        if (o->of[i]->left_out)
            continue;
        o->items[kept] = o->items[i];
        o->rows[kept] = o->rows[i];
        o->of[kept] = o->of[i];
        o->at_most[kept++] = o->at_most[i];
    }
    o->count = kept;
}

static bool names_one(const struct spec_rent *rent, const char *provider)
{
    for (size_t i = 0; i < rent->provider_count; i++)
        if (str_eq(rent->providers[i], provider))
            return true;
    return false;
}

/* Whether one of the providers without credentials is named in the spec. */
static bool names_a_missing(const struct rent_offers *o)
{
    bool names = false;
    for (size_t i = 0; i < o->provider_count; i++) {
        const struct rent_provider *p = &o->providers[i];
        if (!p->missing || p->left_out)
            continue;
        names |= o->rent->alternative_count == 0 && names_one(o->rent, p->name);
        for (size_t k = 0; k < o->rent->alternative_count; k++)
            names |= names_one(&o->rent->alternatives[k], p->name);
    }
    return names;
}

int rent_credentials_check(struct rent_offers *o, struct arena *arena, struct error *err)
{
    const char *text = "";
    size_t missing = 0, asked = 0;
    for (size_t i = 0; i < o->provider_count; i++) {
        struct rent_provider *p = &o->providers[i];
        if (p->left_out)
            continue;
        asked++;
        p->missing = rent_credentials_missing(p->name, arena);
        if (!p->missing)
            continue;
        text = arena_printf(arena, "%s%s%s", text, missing ? "; " : "", p->missing);
        missing++;
    }
    if (missing == 0)
        return 0;
    if (names_a_missing(o) || missing == asked) {
        error_set(err, ERROR_SPEC, "%s", text);
        error_hint(err, "nothing was asked of a provider, and nothing is rented");
        return error_why(err, ERROR_WHY_CREDENTIALS);
    }
    for (size_t i = 0; i < o->provider_count; i++)
        if (o->providers[i].missing)
            o->providers[i].left_out = o->providers[i].missing;
    drop(o);
    return 0;
}
