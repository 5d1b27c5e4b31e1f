/*
 * cluster: machines that are rented. This file reads only the spec; module rent asks the catalog and the providers
 * which machines there are.
 */
#include "internal.h"

#include "rhrun/catalog.h"

#include <string.h>

enum { HOURS_MAX = 8784, DISK_MAX_GB = 1000000 };

/* All keys of renting; those before WISHES say that something is rented, all others only how. */
enum { WISHES = 2 }; /* any_of is in neither group: it was removed before this is used */
static const char *const rent_keys[] = {"instance",  "provider",  "use_spot", "regions", "image", "disk",
                                        "max_price", "max_hours", "down",     "any_of",  NULL};

/* ---- keys that count as not given ---- */

/* This lets one spec use either form of cluster: hosts: ["${{ params.host }}"] beside instance: "${{ params.instance
 * }}". */
static bool comes_to_nothing(struct load *l, const struct doc_node *node)
{
    struct spec_text text = text_of(node);
    struct expr_context ctx = {.spec = l->spec};
    struct error err = ERROR_INIT;
    const char *value = NULL;
    return text.has_expr && expr_expand(&text, EXPR_PLAIN, &ctx, false, l->arena, &value, &err) == EXPR_OK && !*value;
}

void cluster_drop_empty(struct load *l, struct doc_node *cluster)
{
    for (size_t i = is_object(cluster) ? cluster->count : 0; i-- > 0;) {
        struct doc_node *value = cluster->members[i].value;
        bool gone = comes_to_nothing(l, value);
        if (is_array(value) && value->count > 0) {
            size_t kept = 0;
            for (size_t k = 0; k < value->count; k++)
                if (!comes_to_nothing(l, value->items[k]))
                    value->items[kept++] = value->items[k];
            value->count = kept;
            gone = kept == 0;
        }
        if (gone)
            doc_remove(cluster, cluster->members[i].key);
    }
}

static const struct doc_member *member_of(const struct doc_node *object, const char *key)
{
    return doc_get_member(object, key, strlen(key));
}

/* The first of instance and provider that is given, or NULL. */
static const struct doc_member *wish_of(const struct doc_node *cluster)
{
    const struct doc_member *m = NULL;
    for (size_t i = 0; i < WISHES && !m; i++)
        m = member_of(cluster, rent_keys[i]);
    return m;
}

bool rent_is_wished(const struct doc_node *cluster)
{
    return is_object(cluster) && wish_of(cluster);
}

void rent_remove(struct doc_node *cluster)
{
    for (const char *const *key = rent_keys; *key; key++)
        doc_remove(cluster, *key);
}

/* ---- two forms ---- */

/* `use_spot: false` is no wish. */
static bool says_nothing(struct load *l, const struct doc_member *m)
{
    struct spec_text text = text_of(m->value);
    const char *value = NULL;
    struct expr_context ctx = {.spec = l->spec};
    struct error err = ERROR_INIT;
    return str_eq(m->key, "use_spot") && text.text &&
           expr_expand(&text, EXPR_PLAIN, &ctx, false, l->arena, &value, &err) == EXPR_OK && str_eq(value, "false");
}

bool rent_check_none(struct load *l, const struct doc_node *cluster)
{
    const struct doc_member *hosts = member_of(cluster, "hosts");
    bool good = true;
    if (!hosts)
        hosts = member_of(cluster, "hostfile");
    for (const char *const *key = rent_keys + WISHES; *key; key++) {
        const struct doc_member *m = member_of(cluster, *key);
        if (!m || says_nothing(l, m))
            continue;
        struct diagnostic *d =
            hosts ? fault(l, m->key_place, "%s is a key of rented machines, but this cluster lists hosts", *key)
                  : fault(l, m->key_place, "%s is a key of rented machines, but this cluster names no machine to rent",
                          *key);
        if (hosts) {
            diagnostic_hint(d, "leave it out, or rent with instance instead of %s", hosts->key);
            note(l, hosts->key_place, "%s is here", hosts->key);
        } else {
            diagnostic_hint(d, "instance: \"A100:8\" names one; without instance and provider rhrun rents nothing");
        }
        good = false;
    }
    return good;
}

/* Refuses keys for reaching existing machines. `user` is allowed: it is the login name of the image. */
static bool refuse_own(struct load *l, const struct doc_node *cluster, const struct doc_member *wish)
{
    static const char *const own[] = {"hosts",      "hostfile",    "port",       "identity_file",
                                      "proxy_jump", "known_hosts", "ssh_config", "transport"};
    bool good = true;
    for (size_t i = 0; i < ARRAY_LEN(own); i++) {
        const struct doc_member *m = member_of(cluster, own[i]);
        if (!m)
            continue;
        if (i < 2)
            diagnostic_hint(fault(l, m->key_place, "cluster has both %s and %s", m->key, wish->key),
                            "a cluster has either hosts or rented machines: leave one of the two out");
        else
            diagnostic_hint(fault(l, m->key_place, "%s beside %s: it is for hosts only", m->key, wish->key),
                            "leave it out: rhrun makes the key of a rented machine, and knows the address");
        note(l, wish->key_place, "%s is here", wish->key);
        good = false;
    }
    return good;
}

/* ---- values ---- */

struct renting {
    struct load *l;
    const struct doc_node *node; /* the cluster */
    struct spec_rent *r;
    bool failed;
};

/* A word's text, expanded; NULL: not given, or a fault. */
static const char *word_of(struct renting *t, const struct doc_node *node, const char *key)
{
    struct spec_text text = text_of(node);
    const char *value = text.text ? expand_now(t->l, &text) : NULL;
    if (!value) {
        t->failed = t->failed || node;
        return NULL;
    }
    if (*value && strlen(value) <= SPEC_RENT_WORD_MAX && str_is_printable(value))
        return value;
    diagnostic_expected(
        fault(t->l, place_of(node), "%s is not a text of 1 to %d printable characters", key, SPEC_RENT_WORD_MAX),
        "one line");
    t->failed = true;
    return NULL;
}

/* The items of a list, or the single value. */
static const char *const *words_of(struct renting *t, const char *key, size_t max, size_t *ret_count,
                                   const struct place **ret_places)
{
    const struct doc_node *node = doc_get(t->node, key);
    size_t count = is_array(node) ? node->count : node ? 1 : 0;
    count = count > max ? max : count; /* the schema reports it */
    const char **words = arena_array(t->l->arena, count + 1, sizeof *words);
    struct place *places = arena_array(t->l->arena, count + 1, sizeof *places);
    *ret_count = 0;
    for (size_t i = 0; i < count; i++) {
        const struct doc_node *item = is_array(node) ? node->items[i] : node;
        const char *word = word_of(t, item, key);
        for (size_t k = 0; word && k < *ret_count; k++)
            if (str_eq(words[k], word)) {
                fault(t->l, place_of(item), "%s has \"%s\" twice", key, word);
                note(t->l, places[k], "it is here too");
                t->failed = true;
            }
        if (!word)
            continue;
        places[*ret_count] = place_of(item);
        words[(*ret_count)++] = word;
    }
    *ret_places = places;
    return words;
}

static void providers_of(struct renting *t)
{
    struct spec_rent *r = t->r;
    r->providers = words_of(t, "provider", SPEC_PROVIDERS_MAX, &r->provider_count, &r->provider_places);
    for (size_t i = 0; i < r->provider_count; i++) {
        if (!str_eq(r->providers[i], "cheapest"))
            continue;
        if (r->provider_count > 1) {
            diagnostic_expected(
                fault(t->l, r->provider_places[i], "cheapest is any provider, so it cannot be in a list"),
                "cheapest, one provider, or a list of them");
            t->failed = true;
        }
        r->provider_count = 0;
        return;
    }
}

static void spot_of(struct renting *t)
{
    const struct doc_node *node = doc_get(t->node, "use_spot");
    const char *word = word_of(t, node, "use_spot");
    t->r->spot = str_eq(word, "true") ? SPOT_ONLY : str_eq(word, "prefer") ? SPOT_PREFER : SPOT_NEVER;
    if (!word || t->r->spot != SPOT_NEVER || str_eq(word, "false"))
        return;
    t->failed = true;
    if (node->type == DOC_STRING) /* else the schema reports it */
        diagnostic_expected(fault(t->l, place_of(node), "use_spot cannot be \"%s\"", word), "true, false or prefer");
}

/* A decimal number above 0, in millionths; 0: not given, or a fault. */
static uint64_t amount_of(struct renting *t, const char *key, const char *word, const char *expected)
{
    const struct doc_node *node = doc_get(t->node, key);
    uint64_t micro = 0;
    if (!word || (catalog_parse_usd(word, &micro) && micro > 0))
        return micro;
    t->failed = true;
    if (node->type == DOC_STRING || node->number > 0) /* else the schema reports it */
        diagnostic_expected(fault(t->l, place_of(node), "%s cannot be \"%s\"", key, word), "%s", expected);
    return 0;
}

static void price_of(struct renting *t)
{
    const char *word = word_of(t, doc_get(t->node, "max_price"), "max_price");
    t->r->max_price = amount_of(t, "max_price", word, "USD per hour above 0, of all nodes together, such as 4.00");
}

static void hours_of(struct renting *t)
{
    static const char expected[] = "a number of hours above 0, such as 12 or 0.5, or none";
    const struct doc_node *node = doc_get(t->node, "max_hours");
    const char *word = word_of(t, node, "max_hours");
    t->r->max_ms = UINT64_C(24) * 3600000;
    if (!word)
        return;
    uint64_t micro = str_eq(word, "none") ? 0 : amount_of(t, "max_hours", word, expected);
    if (micro > HOURS_MAX * UINT64_C(1000000)) {
        diagnostic_expected(fault(t->l, place_of(node), "max_hours can be %d at most, which is a year", HOURS_MAX),
                            "%s", expected);
        t->failed = true;
        micro = 0;
    }
    t->r->max_ms = (micro * 36 + 9) / 10;
}

static void disk_of(struct renting *t)
{
    const struct doc_node *node = doc_get(t->node, "disk");
    const char *word = word_of(t, node, "disk");
    uint64_t bytes = word ? size_bytes(word) : 0, gb = (bytes + 999999999) / 1000000000;
    t->r->disk_gb = (uint32_t)(gb <= DISK_MAX_GB ? gb : 0);
    if (!word || t->r->disk_gb > 0)
        return;
    t->failed = true;
    if (node->type == DOC_STRING)
        diagnostic_expected(fault(t->l, place_of(node), "disk cannot be \"%s\"", word),
                            "a size above 0 such as 200GB or 1TB, of %d GB at most", DISK_MAX_GB);
}

static void down_of(struct renting *t)
{
    const struct doc_node *node = doc_get(t->node, "down");
    struct spec_rent *r = t->r;
    r->down = DOWN_ALWAYS;
    if (is_object(node)) {
        size_t errors = t->l->diagnostics->errors;
        r->down = DOWN_IDLE;
        duration_of(t->l, node, "idle", &r->idle_ms);
        if (doc_get(node, "idle") && r->idle_ms == 0 && t->l->diagnostics->errors == errors)
            diagnostic_hint(fault(t->l, place_of(doc_get(node, "idle")), "idle has to be above 0"),
                            "down: always gives the machines back when the run is over");
        t->failed = t->failed || r->idle_ms == 0;
        return;
    }
    const char *word = word_of(t, node, "down");
    if (str_eq(word, "never"))
        r->down = DOWN_NEVER;
    else if (word && !str_eq(word, "always")) {
        diagnostic_expected(fault(t->l, place_of(node), "down cannot be \"%s\"", word), "always, never or {idle: 30m}");
        t->failed = true;
    }
}

static void read_all(struct renting *t);

static struct place place_at(const struct doc_node *cluster, const char *key)
{
    const struct doc_node *node = doc_get(cluster, key);
    return node ? place_of(node) : (struct place){0};
}

/* Reads each item of any_of as if it were the cluster. Items that are not chosen now may be chosen later, so all are
 * read. */
static void alternatives_of(struct renting *t)
{
    struct load *l = t->l;
    const size_t count = l->any_of ? l->any_of->count : 0;
    struct spec_rent *list = arena_array(l->arena, count + 1, sizeof *list);
    if (count == 0 || t->node != l->alternatives[l->alternative - 1])
        return;
    for (size_t i = 0; i < count; i++) {
        struct renting one = {.l = l, .node = l->alternatives[i], .r = &list[i]};
        if (i + 1 == l->alternative)
            list[i] = *t->r;
        else
            read_all(&one);
        list[i].place = place_of(l->any_of->items[i]);
        list[i].alternative = (uint32_t)i + 1;
        list[i].nodes = any_of_nodes(l, i);
        list[i].own_nodes = doc_get_text(l->any_of->items[i], "nnodes", NULL);
        list[i].own_nproc = doc_get_text(l->any_of->items[i], "nproc_per_node", NULL);
        t->failed = t->failed || one.failed;
    }
    t->r->alternatives = list;
    t->r->alternative_count = count;
    t->r->alternative = l->alternative;
}

static void read_all(struct renting *t)
{
    struct spec_rent *r = t->r;
    const struct place *places;
    r->place = place_of(t->node);
    r->at.instance = place_at(t->node, "instance");
    r->at.provider = place_at(t->node, "provider");
    r->at.use_spot = place_at(t->node, "use_spot");
    r->at.regions = place_at(t->node, "regions");
    r->at.max_price = place_at(t->node, "max_price");
    r->instance = word_of(t, doc_get(t->node, "instance"), "instance");
    r->image = word_of(t, doc_get(t->node, "image"), "image");
    r->regions = words_of(t, "regions", SPEC_REGIONS_MAX, &r->region_count, &places);
    providers_of(t);
    spot_of(t);
    price_of(t);
    hours_of(t);
    disk_of(t);
    down_of(t);
}

/* One for each node of the job. */
static void put_places(struct load *l, const struct spec_host *h, const struct spec_rent *r, struct host_list *ret)
{
    uint32_t nodes = l->spec->distributed.nnodes ? l->spec->distributed.nnodes : 1;
    if (l->spec->sweep && l->spec->sweep->nodes)
        nodes = l->spec->sweep->nodes;
    ret->rent = r;
    ret->items = arena_array(l->arena, nodes, sizeof *ret->items);
    ret->count = ret->cap = nodes;
    for (uint32_t i = 0; i < nodes; i++) {
        const char *name = arena_printf(l->arena, "node-%u", i);
        ret->items[i] = (struct host_entry){.host = {.name = name,
                                                     .host = name,
                                                     .user = h->user,
                                                     .container = h->container,
                                                     .transport = SPEC_TRANSPORT_RENTED},
                                            .wish.place = r->place};
    }
}

void rent_bind_cluster(struct load *l, const struct doc_node *name, struct host_list *ret)
{
    const struct spec_host none = {0};
    struct spec_rent *r = arena_alloc(l->arena, sizeof *r);
    *r = (struct spec_rent){.cluster = arena_strdup(l->arena, name->text), .place = place_of(name)};
    put_places(l, &none, r, ret);
}

void rent_bind(struct load *l, const struct doc_node *cluster, const struct spec_host *h, struct host_list *ret)
{
    const struct doc_member *wish = wish_of(cluster);
    struct spec_rent *r = arena_alloc(l->arena, sizeof *r);
    *r = (struct spec_rent){0};
    struct renting t = {.l = l, .node = cluster, .r = r};
    t.failed = !refuse_own(l, cluster, wish);
    read_all(&t);
    alternatives_of(&t);
    ret->failed = ret->failed || t.failed;
    put_places(l, h, r, ret);
}

/* ---- the normalised document ---- */

static void put_words(struct arena *a, struct doc_node *to, const char *key, const char *const *words, size_t count)
{
    struct doc_node *list = doc_new_array(a);
    for (size_t i = 0; i < count; i++)
        doc_append(a, list, doc_new_string(a, words[i]));
    doc_set(a, to, key, list);
}

static void put_number(struct arena *a, struct doc_node *to, const char *key, uint64_t micro)
{
    char text[32];
    catalog_format_usd(micro, 0, text);
    doc_set(a, to, key, doc_new_plain(a, text));
}

static void put_down(struct arena *a, struct doc_node *to, const struct spec_rent *r)
{
    struct doc_node *idle = doc_new_object(a);
    if (r->down != DOWN_IDLE) {
        doc_set(a, to, "down", doc_new_string(a, r->down == DOWN_NEVER ? "never" : "always"));
        return;
    }
    const char *unit = r->idle_ms % 1000 ? "ms" : "s";
    unsigned long long amount = r->idle_ms % 1000 ? r->idle_ms : r->idle_ms / 1000;
    doc_set(a, idle, "idle", doc_new_string(a, arena_printf(a, "%llu%s", amount, unit)));
    doc_set(a, to, "down", idle);
}

void rent_put_wish(struct arena *a, const struct spec_rent *r, struct doc_node *to)
{
    if (r->instance)
        doc_set(a, to, "instance", doc_new_string(a, r->instance));
    if (r->provider_count > 0)
        put_words(a, to, "provider", r->providers, r->provider_count);
    else
        doc_set(a, to, "provider", doc_new_string(a, "cheapest"));
    doc_set(a, to, "use_spot",
            r->spot == SPOT_PREFER ? doc_new_string(a, "prefer") : doc_new_bool(a, r->spot == SPOT_ONLY));
    if (r->region_count > 0)
        put_words(a, to, "regions", r->regions, r->region_count);
}

void rent_normalise(struct arena *a, const struct spec *spec, struct doc_node *cluster)
{
    const struct spec_rent *r = spec->rent;
    const struct spec_host *h = &spec->hosts[0];
    if (r->alternative_count > 0)
        any_of_normalise(a, r, cluster);
    else
        rent_put_wish(a, r, cluster);
    if (r->image)
        doc_set(a, cluster, "image", doc_new_string(a, r->image));
    if (r->disk_gb > 0)
        doc_set(a, cluster, "disk", doc_new_string(a, arena_printf(a, "%uGB", r->disk_gb)));
    if (r->max_price > 0)
        put_number(a, cluster, "max_price", r->max_price);
    if (r->max_ms > 0) /* rounded up, so that it is read back as the same value */
        put_number(a, cluster, "max_hours", r->max_ms * 10 / 36);
    else
        doc_set(a, cluster, "max_hours", doc_new_string(a, "none"));
    put_down(a, cluster, r);
    if (h->user)
        doc_set(a, cluster, "user", doc_new_string(a, h->user));
}
