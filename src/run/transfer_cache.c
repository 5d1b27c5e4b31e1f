/* Data that the transfers of several nodes share: trees that nodes had before, and the contents of small files, which
 * would otherwise be read once for each of the nodes that are set up together. */
#include "transfer.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 2048, CACHED_FILE_MAX = 512 << 10, CACHED_BYTES_MAX = 24 << 20 };

struct known_tree {
    struct known_tree *next;
    char id[TREE_ID_LEN + 1];
    struct tree *tree; /* NULL: the store does not have it */
};
struct tree_cache {
    struct arena *arena;
    struct known_tree *trees;
    struct content *slots[SLOTS]; /* by the oid's first bytes */
    size_t bytes, hand;
};

static struct tree_cache *cache_of(struct run *r)
{
    if (!r->hands->cache) {
        r->hands->cache = xcalloc(1, sizeof *r->hands->cache);
        r->hands->cache->arena = arena_create();
    }
    return r->hands->cache;
}

const struct tree *cache_tree(struct run *r, const char *id)
{
    struct tree_cache *c = cache_of(r);
    for (size_t i = 0; i < r->plan->step_count; i++)
        if (r->plan->steps[i].tree && strcmp(r->plan->steps[i].tree->id, id) == 0)
            return r->plan->steps[i].tree;
    for (struct known_tree *k = c->trees; k; k = k->next)
        if (strcmp(k->id, id) == 0)
            return k->tree;
    struct known_tree *k = arena_alloc(c->arena, sizeof *k);
    snprintf(k->id, sizeof k->id, "%s", id);
    if (!r->options.store || !tree_load(r->options.store, id, c->arena, &k->tree))
        k->tree = NULL;
    k->next = c->trees;
    c->trees = k;
    return k->tree;
}

static void content_free(struct content *c)
{
    tree_done(&c->reader);
    free(c);
}

static void evict(struct tree_cache *cache, size_t slot)
{
    struct content *c = cache->slots[slot];
    if (!c)
        return;
    cache->slots[slot] = NULL;
    cache->bytes -= c->reader.size;
    c->cached = false;
    if (c->users == 0)
        content_free(c);
}

struct content *cache_open(struct run *r, const struct tree_file *file, struct error *err)
{
    struct tree_cache *cache = cache_of(r);
    uint32_t hash;
    memcpy(&hash, file->oid, sizeof hash);
    struct content **slot = &cache->slots[hash % SLOTS];
    if (*slot && memcmp((*slot)->oid, file->oid, TREE_OID_SIZE) == 0) {
        (*slot)->users++;
        return *slot;
    }
    struct content *c = xcalloc(1, sizeof *c);
    if (!r->options.store)
        error_set(err, ERROR_INTERNAL, "no store of files was opened");
    if (!r->options.store || tree_open(r->options.store, file, &c->reader, err) < 0) {
        free(c);
        return NULL;
    }
    memcpy(c->oid, file->oid, sizeof c->oid);
    c->users = 1;
    if (r->plan->node_count == 1 || !c->reader.data || c->reader.size > CACHED_FILE_MAX)
        return c;
    evict(cache, hash % SLOTS);
    while (cache->bytes + c->reader.size > CACHED_BYTES_MAX)
        evict(cache, cache->hand++ % SLOTS);
    cache->bytes += c->reader.size;
    c->cached = true;
    *slot = c;
    return c;
}

void cache_close(struct content *c)
{
    if (c && --c->users == 0 && !c->cached)
        content_free(c);
}

void transfer_caches_free(struct run *r)
{
    if (!r->hands->cache)
        return;
    for (size_t i = 0; i < SLOTS; i++)
        evict(r->hands->cache, i);
    arena_destroy(r->hands->cache->arena);
    free(r->hands->cache);
}
