/*
 * Any bytes as the table of a scan: it is refused or can be laid beside the files found, and what is written of it is read
 * back as the same. The sum in its head is made right.
 */
#include "../../src/tree/cache.c"

#include "scene.h"

static char path[80];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    scene_begin();
    snprintf(path, sizeof path, "%s/scan-x", scene_dir);
    return 0;
}

/* The head says of itself what is there, where the input's first byte does not ask for the contrary. */
static void put_right(uint8_t *data, size_t size, uint8_t flags)
{
    struct header h;
    if (size < sizeof h)
        return;
    memcpy(&h, data, sizeof h);
    memcpy(h.magic, magic, sizeof magic);
    h.version = TABLE_VERSION;
    h.record_size = sizeof(struct record);
    if (!(flags & 1)) {
        uint64_t left = size - sizeof h;
        h.count %= left / sizeof(struct record) + 1;
        left -= h.count * sizeof(struct record);
        h.path_bytes = 0;
        for (uint64_t i = 0; i < h.count; i++) {
            uint8_t *len = data + sizeof h + i * sizeof(struct record) + offsetof(struct record, len);
            memset(len + 1, 0, 3);
            h.path_bytes += *len;
        }
        h.rest_bytes = left - h.path_bytes; /* may be less than nothing: then it is refused */
        h.config_count %= 4;
        h.tracked_count %= 4;
        memset(h.id, 'a', TREE_ID_LEN);
        h.id[TREE_ID_LEN] = 0;
    }
    memcpy(data, &h, sizeof h);
    h.sum = checksum((const char *)data + SUMMED_FROM, size - SUMMED_FROM);
    memcpy(data, &h, sizeof h);
}

/* The items that the table itself has, and some that it has not. */
static size_t items_of(const struct scan_table *t, struct scan_item *items, size_t max)
{
    const struct record *r = t->records;
    const char *at = (const char *)(r + t->count);
    size_t count = 0;
    for (size_t i = 0; i < t->count && count < max; at += r[i].len, i++)
        items[count++] = (struct scan_item){.path = at, .len = r[i].len, .st = r[i].st};
    return count;
}

static void use(const struct scan_table *t)
{
    static struct scan_item items[4096];
    size_t count = items_of(t, items, ARRAY_LEN(items));
    (void)scan_table_join(t, items, count);
    (void)scan_table_join(t, items, count / 2);
    for (size_t i = 0; i < t->configs.count; i++)
        t->configs.items[i].used = true;
    struct scan_table back;
    scan_table_save(path, t, items, count);
    if (!scan_table_load(path, &back) || back.count != count || back.configs.count != t->configs.count ||
        back.tracked_count != t->tracked_count)
        abort();
    for (size_t i = 0; i < t->tracked_count; i++)
        if (strcmp(back.tracked[i].path, t->tracked[i].path) != 0)
            abort();
    scan_table_free(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct scan_table t;
    if (size < 1)
        return 0;
    CLEANUP(cleanup_free) uint8_t *copy = xmalloc(size);
    memcpy(copy, data + 1, size - 1);
    put_right(copy, size - 1, data[0]);
    scene_write(path, copy, size - 1);
    if (scan_table_load(path, &t)) {
        use(&t);
        scan_table_free(&t);
    }
    return 0;
}
