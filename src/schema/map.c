/* A hash map from bytes to pointers, for names and nodes while a schema is compiled. */
#include "internal.h"

#include <string.h>

static uint64_t hash(const void *key, size_t len)
{
    const unsigned char *p = key;
    uint64_t h = 0xcbf29ce484222325ull;
    for (size_t i = 0; i < len; i++)
        h = (h ^ p[i]) * 0x100000001b3ull;
    return h ^ h >> 29;
}

static struct map_slot *find(const struct map *map, const void *key, size_t len)
{
    for (size_t i = hash(key, len) & (map->cap - 1);; i = (i + 1) & (map->cap - 1)) {
        struct map_slot *slot = &map->slots[i];
        if (!slot->value || (slot->len == len && memcmp(slot->key, key, len) == 0))
            return slot;
    }
}

void *map_get(const struct map *map, const void *key, size_t len)
{
    return map->cap > 0 ? find(map, key, len)->value : NULL;
}

void map_add(struct map *map, struct arena *arena, const void *key, size_t len, void *value)
{
    if ((map->count + 1) * 2 > map->cap) {
        struct map old = *map;
        map->cap = old.cap > 0 ? old.cap * 2 : 16;
        map->slots = arena_array(arena, map->cap, sizeof *map->slots);
        for (size_t i = 0; i < old.cap; i++)
            if (old.slots[i].value)
                *find(map, old.slots[i].key, old.slots[i].len) = old.slots[i];
    }
    struct map_slot *slot = find(map, key, len);
    if (slot->value)
        return;
    *slot = (struct map_slot){key, len, value};
    map->count++;
}
