/* Reading packs: .idx files (version 2) and .pack files, mapped. A stored content in one block is used where it is;
 * deflated contents and deltas (in fetched packs), and loose objects, go through libgit2. */
#include "internal.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <git2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum {
    INDEX_HEAD = 8,
    INDEX_FANOUT = 256 * 4,
    INDEX_TAIL = 2 * TREE_OID_SIZE,
    PACK_HEAD = 12,
    STORED_HEAD = 5, /* of a stored block: kind, length, its complement */
    ADLER_SIZE = 4,
};
static const uint8_t index_magic[INDEX_HEAD] = {0xff, 't', 'O', 'c', 0, 0, 0, 2};

static uint32_t be32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return ntohl(v);
}

static const uint8_t *map(const char *path, uint64_t least, uint64_t *ret_size)
{
    CLEANUP(cleanup_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size < least)
        return NULL;
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return NULL;
    *ret_size = (uint64_t)st.st_size;
    return p;
}

static void unmap(struct tree_pack *p)
{
    if (p->index)
        (void)munmap((void *)(uintptr_t)p->index, p->index_size);
    if (p->data)
        (void)munmap((void *)(uintptr_t)p->data, (size_t)p->size);
}

static bool index_sound(struct tree_pack *p)
{
    if (memcmp(p->index, index_magic, INDEX_HEAD) != 0)
        return false;
    const uint8_t *fanout = p->index + INDEX_HEAD;
    uint32_t before = 0;
    for (size_t i = 0; i < 256; i++) {
        uint32_t n = be32(fanout + 4 * i);
        if (n < before)
            return false;
        before = n;
    }
    p->count = before;
    return p->index_size >= INDEX_HEAD + INDEX_FANOUT + (uint64_t)p->count * (TREE_OID_SIZE + 4 + 4) + INDEX_TAIL;
}

/* Whether the pack is complete: its last 20 bytes must be the checksum in the index. */
static bool pack_sound(const struct tree_pack *p)
{
    static const uint8_t magic[8] = {'P', 'A', 'C', 'K', 0, 0, 0, 2};
    return memcmp(p->data, magic, sizeof magic) == 0 && be32(p->data + 8) == p->count &&
           memcmp(p->data + p->size - TREE_OID_SIZE, p->index + p->index_size - INDEX_TAIL, TREE_OID_SIZE) == 0;
}

static bool pack_open(const struct tree_store *s, const char *name, size_t len, struct tree_pack *ret)
{
    struct tree_pack p = {.count = 0};
    uint64_t index_size = 0;
    if (len >= sizeof p.name)
        return false;
    memcpy(p.name, name, len);
    CLEANUP(cleanup_free) char *index = xasprintf("%s/objects/pack/%s.idx", s->dir, p.name);
    CLEANUP(cleanup_free) char *data = xasprintf("%s/objects/pack/%s.pack", s->dir, p.name);
    p.index = map(index, INDEX_HEAD + INDEX_FANOUT + INDEX_TAIL, &index_size);
    p.index_size = (size_t)index_size;
    if (p.index && index_sound(&p))
        p.data = map(data, PACK_HEAD + TREE_OID_SIZE, &p.size);
    if (!p.data || !pack_sound(&p)) {
        unmap(&p);
        return false;
    }
    const uint8_t *first = p.data + PACK_HEAD; /* after type and size: a zlib stream of stored blocks? */
    size_t at = 0, most = (size_t)p.size - PACK_HEAD - TREE_OID_SIZE;
    while (at < most && first[at] & 0x80)
        at++;
    p.stored = at + 3 < most && first[at + 1] == 0x78 && first[at + 2] == 0x01 && (first[at + 3] & 6) == 0;
    *ret = p;
    return true;
}

void tree_packs_read(struct tree_store *s)
{
    s->packs_read = true;
    CLEANUP(cleanup_free) char *path = xasprintf("%s/objects/pack", s->dir);
    DIR *dir = opendir(path);
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));) {
        if (!str_starts(e->d_name, "pack-") || !str_ends(e->d_name, ".idx"))
            continue;
        size_t len = strlen(e->d_name) - strlen(".idx"), i = 0;
        while (i < s->pack_count && (strncmp(s->packs[i].name, e->d_name, len) != 0 || s->packs[i].name[len]))
            i++;
        struct tree_pack pack;
        if (i < s->pack_count || !pack_open(s, e->d_name, len, &pack))
            continue;
        s->packs = xreallocarray(s->packs, s->pack_count + 1, sizeof *s->packs);
        s->packs[s->pack_count++] = pack;
    }
    closedir(dir);
}

void tree_packs_free(struct tree_store *s)
{
    for (size_t i = 0; i < s->pack_count; i++)
        unmap(&s->packs[i]);
    free(s->packs);
    s->packs = NULL;
    s->pack_count = 0;
    s->packs_read = false;
}

static bool offset_at(const struct tree_pack *p, uint32_t i, uint64_t *ret)
{
    size_t offsets = INDEX_HEAD + INDEX_FANOUT + (size_t)p->count * (TREE_OID_SIZE + 4);
    uint64_t offset = be32(p->index + offsets + 4 * (size_t)i);
    if (offset & 0x80000000u) { /* a pack over 2 GiB has a second table */
        size_t large = offsets + 4 * (size_t)p->count + 8 * (size_t)(offset & 0x7fffffffu);
        if (large + 8 > p->index_size - INDEX_TAIL)
            return false;
        offset = (uint64_t)be32(p->index + large) << 32 | be32(p->index + large + 4);
    }
    *ret = offset;
    return offset >= PACK_HEAD && offset < p->size - TREE_OID_SIZE;
}

static bool find_in(const struct tree_pack *p, const uint8_t oid[TREE_OID_SIZE], uint64_t *ret_offset)
{
    const uint8_t *fanout = p->index + INDEX_HEAD, *ids = fanout + INDEX_FANOUT;
    uint32_t low = oid[0] ? be32(fanout + 4 * (size_t)(oid[0] - 1)) : 0, high = be32(fanout + 4 * (size_t)oid[0]);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = memcmp(oid, ids + (size_t)middle * TREE_OID_SIZE, TREE_OID_SIZE);
        if (order == 0)
            return offset_at(p, middle, ret_offset);
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return false;
}

bool tree_pack_find(const struct tree_store *s, const uint8_t oid[TREE_OID_SIZE], const struct tree_pack **ret,
                    uint64_t *ret_offset)
{
    for (int stored = 1; stored >= 0; stored--) {
        for (size_t i = s->pack_count; i-- > 0;) {
            if (s->packs[i].stored == stored && find_in(&s->packs[i], oid, ret_offset)) {
                *ret = &s->packs[i];
                return true;
            }
        }
    }
    return false;
}

bool tree_pack_entry(const struct tree_pack *pack, uint64_t offset, struct tree_entry *ret)
{
    const uint8_t *p = pack->data + offset, *end = pack->data + pack->size - TREE_OID_SIZE;
    uint8_t c = *p++;
    int type = c >> 4 & 7, shift = 4;
    uint64_t size = c & 15;
    while (c & 0x80) {
        if (p == end || shift > 57)
            return false;
        c = *p++;
        size |= (uint64_t)(c & 0x7f) << shift;
        shift += 7;
    }
    *ret = (struct tree_entry){.type = type, .size = size, .body = p, .left = (size_t)(end - p)};
    return type >= 1 && type <= 4;
}

/* Reads a zlib stream of stored blocks only, as written by pack.c. MISSING: it is a different stream. */
static enum tree_found read_stored(const struct tree_entry *e, struct tree_content *ret)
{
    const uint8_t *p = e->body, *end = e->body + e->left;
    if (e->left < 2 + STORED_HEAD + ADLER_SIZE || p[0] != 0x78 || p[1] != 0x01 || (p[2] & 6) != 0)
        return TREE_MISSING;
    if (e->size > e->left)
        return TREE_DAMAGED;
    uint8_t *copy = NULL;
    const uint8_t *data = NULL;
    uint64_t have = 0;
    bool last = false;
    for (p += 2; !last;) {
        if (end - p < STORED_HEAD + ADLER_SIZE || (p[0] & ~1) != 0)
            break;
        size_t len = (size_t)(p[1] | p[2] << 8);
        if ((len ^ 0xffff) != (size_t)(p[3] | p[4] << 8) || (size_t)(end - p) < STORED_HEAD + len + ADLER_SIZE ||
            len > e->size - have)
            break;
        last = p[0] & 1;
        data = p + STORED_HEAD;
        if (!last && !copy)
            copy = xmalloc((size_t)e->size + 1);
        if (copy)
            memcpy(copy + have, data, len);
        have += len;
        p = data + len;
    }
    if (copy)
        data = copy;
    if (!last || have != e->size || adler32_z(adler32(0, NULL, 0), data, (size_t)have) != be32(p)) {
        free(copy);
        return TREE_DAMAGED;
    }
    *ret = (struct tree_content){.data = data, .size = have, .owned = copy};
    return TREE_FOUND;
}

static enum tree_found read_git(struct tree_store *s, const uint8_t oid[TREE_OID_SIZE], int type,
                                struct tree_content *ret, struct error *err)
{
    git_oid id;
    git_odb_object *object;
    memcpy(id.id, oid, TREE_OID_SIZE);
    if (tree_store_git(s, err) < 0)
        return TREE_DAMAGED;
    int rc = git_odb_read(&object, s->odb, &id);
    if (rc == GIT_ENOTFOUND)
        return TREE_MISSING;
    char hex[TREE_ID_LEN + 1];
    tree_hex(oid, hex);
    if (rc < 0) {
        (void)tree_git_error(err, ERROR_IO, "object %s is damaged", hex);
        return TREE_DAMAGED;
    }
    if ((int)git_odb_object_type(object) != type) {
        git_odb_object_free(object);
        (void)error_set(err, ERROR_IO, "object %s is of another type", hex);
        return TREE_DAMAGED;
    }
    *ret =
        (struct tree_content){.data = git_odb_object_data(object), .size = git_odb_object_size(object), .git = object};
    return TREE_FOUND;
}

enum tree_found tree_content_read(struct tree_store *s, const uint8_t oid[TREE_OID_SIZE], int type,
                                  struct tree_content *ret, struct error *err)
{
    const struct tree_pack *pack;
    struct tree_entry entry;
    uint64_t offset;
    if (!s->packs_read)
        tree_packs_read(s);
    if (tree_pack_find(s, oid, &pack, &offset) && tree_pack_entry(pack, offset, &entry) && entry.type == type) {
        enum tree_found found = read_stored(&entry, ret);
        if (found == TREE_DAMAGED) {
            char hex[TREE_ID_LEN + 1];
            tree_hex(oid, hex);
            (void)error_set(err, ERROR_IO, "object %s in %s.pack is damaged", hex, pack->name);
        }
        if (found != TREE_MISSING)
            return found;
    }
    return read_git(s, oid, type, ret, err);
}

void tree_content_free(struct tree_content *c)
{
    free(c->owned);
    git_odb_object_free(c->git);
    *c = (struct tree_content){.size = 0};
}
