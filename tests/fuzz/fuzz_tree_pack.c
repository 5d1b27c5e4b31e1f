/*
 * Any bytes as a pack and its index: what is not sound is passed over, and each object that the index names is read within
 * the pack or refused. The input is what stands behind the heads; head, table of first bytes and trailing sums are made
 * right, for else nothing would come further, and may be spoilt again.
 */
#include "../../src/tree/pack_read.c"

#include "scene.h"

static void put_be32(uint8_t *p, uint32_t n)
{
    n = htonl(n);
    memcpy(p, &n, sizeof n);
}

/* `count` objects whose ids are sorted: then as many offsets, and what is behind them. */
static void index_write(struct scene_input *in, uint32_t count, const char *path)
{
    size_t len, ids = (size_t)count * TREE_OID_SIZE;
    const uint8_t *rest = scene_piece(in, &len);
    size_t size = INDEX_HEAD + INDEX_FANOUT + ids + (size_t)count * 8 + len + INDEX_TAIL;
    CLEANUP(cleanup_free) uint8_t *index = xcalloc(size, 1);
    memcpy(index, index_magic, INDEX_HEAD);
    uint8_t *at = index + INDEX_HEAD + INDEX_FANOUT;
    for (uint32_t i = 0; i < count; i++)
        at[(size_t)i * TREE_OID_SIZE] = (uint8_t)(i * 256 / count);
    for (size_t b = 0; b < 256; b++) {
        uint32_t below = 0;
        while (below < count && at[(size_t)below * TREE_OID_SIZE] <= b)
            below++;
        put_be32(index + INDEX_HEAD + 4 * b, below);
    }
    at += ids + (size_t)count * 4;
    for (uint32_t i = 0; i < count; i++, at += 4) {
        for (int k = 0; k < 4; k++)
            at[k] = scene_byte(in);
        if (!(at[0] & 0x80)) /* near: into the pack */
            at[0] = at[1] = 0;
    }
    memcpy(at, rest, len);
    uint8_t spoil = scene_byte(in);
    if (spoil & 0x80)
        index[(size_t)scene_byte(in) * size / 256] ^= spoil;
    scene_write(path, index, size);
}

static void pack_write(struct scene_input *in, uint32_t count, const char *path)
{
    size_t size = PACK_HEAD + in->left + TREE_OID_SIZE;
    CLEANUP(cleanup_free) uint8_t *pack = xcalloc(size, 1);
    memcpy(pack, "PACK\0\0\0\2", 8);
    put_be32(pack + 8, count);
    if (in->left)
        memcpy(pack + PACK_HEAD, in->p, in->left);
    scene_write(path, pack, size);
}

/* Every byte of it is there. */
static void touch(const struct tree_content *c)
{
    uint8_t sum = 0;
    for (uint64_t i = 0; i < c->size; i++)
        sum = (uint8_t)(sum + c->data[i]);
    static volatile uint8_t sink;
    sink = sum;
    (void)sink;
}

static void look(struct tree_store *s)
{
    for (unsigned b = 0; b < 256; b++) {
        const uint8_t oid[TREE_OID_SIZE] = {(uint8_t)b};
        const struct tree_pack *pack;
        struct tree_entry entry;
        struct tree_content content;
        uint64_t offset;
        if (!tree_pack_find(s, oid, &pack, &offset) || !tree_pack_entry(pack, offset, &entry) ||
            read_stored(&entry, &content) != TREE_FOUND)
            continue;
        touch(&content);
        free(content.owned);
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    scene_begin();
    CLEANUP(cleanup_free) char *dir = xasprintf("%s/objects/pack", scene_dir);
    return mkdir_p(dir, 0700, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct scene_input in = {data, size};
    struct tree_store store = {.dir = scene_dir};
    CLEANUP(cleanup_free) char *index = xasprintf("%s/objects/pack/pack-x.idx", scene_dir);
    CLEANUP(cleanup_free) char *pack = xasprintf("%s/objects/pack/pack-x.pack", scene_dir);
    uint32_t count = scene_byte(&in) % 8 + 1u;
    index_write(&in, count, index);
    pack_write(&in, count, pack);
    tree_packs_read(&store);
    look(&store);
    tree_packs_free(&store);
    return 0;
}
