/*
 * cluster.any_of: alternatives of what to rent. A spec is read with one of them: its values replace those of the
 * cluster, and distributed.nnodes and nproc_per_node, so later stages do not know of the others.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static bool is_count(const char *key)
{
    return str_eq(key, "nnodes") || str_eq(key, "nproc_per_node");
}

static void put_member(struct load *l, struct doc_node *to, const struct doc_member *m)
{
    doc_set(l->arena, to, m->key, m->value);
    doc_get_member(to, m->key, m->key_len)->key_place = m->key_place;
}

/* The cluster with one alternative applied. */
static struct doc_node *cluster_by(struct load *l, const struct doc_node *cluster, const struct doc_node *alternative)
{
    struct doc_node *ret = doc_clone(l->arena, cluster);
    doc_remove(ret, "any_of");
    for (size_t i = 0; is_object(alternative) && i < alternative->count; i++)
        if (!is_count(alternative->members[i].key))
            put_member(l, ret, &alternative->members[i]);
    return ret;
}

/* Counts need `distributed`: the plan of a job without it has none. */
static bool check_counts(struct load *l, const struct doc_node *alternative)
{
    bool good = true;
    for (size_t i = 0; is_object(alternative) && i < alternative->count; i++) {
        const struct doc_member *m = &alternative->members[i];
        if (!is_count(m->key) || is_object(doc_get(l->root, "distributed")))
            continue;
        diagnostic_hint(fault(l, m->key_place, "%s without distributed: the job is one process", m->key),
                        "distributed: {} beside cluster makes it a distributed one");
        good = false;
    }
    return good;
}

static void choose(struct load *l, const struct doc_node *alternative)
{
    struct doc_node *distributed = doc_get(l->root, "distributed");
    for (size_t i = 0; is_object(alternative) && is_object(distributed) && i < alternative->count; i++)
        if (is_count(alternative->members[i].key))
            put_member(l, distributed, &alternative->members[i]);
}

/* MAX of MIN:MAX. The schema has reported any other form. */
static uint32_t count_of(const struct doc_node *node)
{
    const char *colon = node && node->type == DOC_STRING ? strchr(node->text, ':') : NULL;
    uint32_t n = 1;
    if (node && parse_u32(colon ? colon + 1 : node->text, &n) && n >= 1 && n <= SPEC_HOSTS_MAX)
        return n;
    return 1;
}

void any_of_choose(struct load *l)
{
    struct doc_node *cluster = doc_get(l->root, "cluster");
    const struct doc_node *list = doc_get(cluster, "any_of"), *distributed = doc_get(l->root, "distributed");
    if (!is_object(cluster) || !is_array(list) || list->count == 0)
        return;
    l->any_of = list;
    l->alternative = l->over->alternative >= 1 && l->over->alternative <= list->count ? l->over->alternative : 1;
    l->alternatives = arena_array(l->arena, list->count, sizeof *l->alternatives);
    l->any_nodes = count_of(doc_get(distributed, "nnodes"));
    for (size_t i = 0; i < list->count; i++) {
        l->alternatives[i] = cluster_by(l, cluster, list->items[i]);
        check_counts(l, list->items[i]);
        if (!rent_is_wished(l->alternatives[i]))
            diagnostic_hint(fault(l, place_of(list->items[i]), "this alternative does not name a machine to rent"),
                            "instance: \"A100:8\", here or in cluster");
    }
    choose(l, list->items[l->alternative - 1]);
    struct doc_member *m = doc_get_member(l->root, "cluster", strlen("cluster"));
    m->value = (struct doc_node *)(uintptr_t)l->alternatives[l->alternative - 1];
}

uint32_t any_of_nodes(const struct load *l, size_t i)
{
    const struct doc_node *own = doc_get(l->any_of->items[i], "nnodes");
    return own ? count_of(own) : l->any_nodes;
}

void any_of_normalise(struct arena *a, const struct spec_rent *r, struct doc_node *cluster)
{
    struct doc_node *list = doc_new_array(a);
    for (size_t i = 0; i < r->alternative_count; i++) {
        const struct spec_rent *one = &r->alternatives[i];
        struct doc_node *object = doc_new_object(a);
        rent_put_wish(a, one, object);
        if (one->own_nodes)
            doc_set(a, object, "nnodes", doc_new_plain(a, one->own_nodes));
        if (one->own_nproc)
            doc_set(a, object, "nproc_per_node", doc_new_plain(a, one->own_nproc));
        doc_append(a, list, object);
    }
    doc_set(a, cluster, "any_of", list);
}
