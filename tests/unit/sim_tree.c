/* Trees that are on no disk: see sim_tree.h. */
#include "sim_tree.h"

#include <stdlib.h>
#include <string.h>

struct entry {
    struct tree tree; /* its strings are in the test's arena: valid as long as that */
    struct entry *next;
};
struct tree_store {
    struct entry *trees;
    const char *broken;
};
static struct tree_store the_store;
uint64_t sim_tree_opens;

struct tree_store *sim_store(void)
{
    return &the_store;
}

void sim_oid(const char *path, unsigned version, uint64_t size, uint8_t ret[TREE_OID_SIZE])
{
    uint8_t digest[32];
    CLEANUP(cleanup_free) char *text = xasprintf("%s %u %llu", path, version, (unsigned long long)size);
    digest_sha256(text, strlen(text), digest);
    memcpy(ret, digest, TREE_OID_SIZE);
}

void sim_content(const uint8_t oid[TREE_OID_SIZE], uint64_t offset, void *out, size_t len)
{
    uint8_t *p = out;
    for (size_t i = 0; i < len; i++) {
        uint64_t at = offset + i;
        p[i] = (uint8_t)(oid[at % TREE_OID_SIZE] ^ (at >> 8) ^ (at >> 16));
        if (p[i] == 0) /* a link's target must not have one */
            p[i] = 1;
    }
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct tree_file *)a)->path, ((const struct tree_file *)b)->path);
}

const struct tree *sim_tree(struct arena *arena, const struct sim_file_spec *specs)
{
    size_t count = 0;
    while (specs[count].path)
        count++;
    struct tree *t = arena_alloc(arena, sizeof *t);
    struct tree_file *files = arena_array(arena, count + 1, sizeof *files);
    struct buf all = {0};
    for (size_t i = 0; i < count; i++) {
        files[i] = (struct tree_file){.path = arena_strdup(arena, specs[i].path),
                                      .mode = specs[i].mode ? specs[i].mode : TREE_MODE_FILE,
                                      .size = specs[i].size};
        sim_oid(specs[i].path, specs[i].version, specs[i].size, files[i].oid);
        t->bytes += specs[i].size;
    }
    qsort(files, count, sizeof *files, by_path);
    for (size_t i = 0; i < count; i++) {
        buf_printf(&all, "%o %s ", (unsigned)files[i].mode, files[i].path);
        buf_append(&all, files[i].oid, TREE_OID_SIZE);
    }
    char hex[65];
    digest_sha256_hex(all.data, all.len, hex);
    memcpy(t->id, hex, TREE_ID_LEN);
    buf_free(&all);
    t->files = files;
    t->count = count;
    struct entry *e = arena_alloc(arena, sizeof *e);
    e->tree = *t;
    e->next = the_store.trees;
    the_store.trees = e;
    return t;
}

void sim_trees_forget(void)
{
    the_store.trees = NULL;
}

void sim_tree_broken(const char *path)
{
    the_store.broken = path;
}

/* ---- the functions of the store that run calls: the linker puts these in place of the real ones (--wrap) ---- */

bool __wrap_tree_load(struct tree_store *s, const char *id, struct arena *arena, struct tree **ret);
int __wrap_tree_open(struct tree_store *s, const struct tree_file *f, struct tree_reader *ret, struct error *err);
ssize_t __wrap_tree_read(struct tree_reader *r, uint64_t offset, void *out, size_t len, struct error *err);
void __wrap_tree_done(struct tree_reader *r);

bool __wrap_tree_load(struct tree_store *s, const char *id, struct arena *arena, struct tree **ret)
{
    (void)arena;
    for (struct entry *e = s->trees; e; e = e->next)
        if (strcmp(e->tree.id, id) == 0) {
            *ret = &e->tree;
            return true;
        }
    return false;
}

int __wrap_tree_open(struct tree_store *s, const struct tree_file *f, struct tree_reader *ret, struct error *err)
{
    if (s->broken && strcmp(f->path, s->broken) == 0)
        return error_set(err, ERROR_IO, "\"%s\" is not in the store", f->path);
    sim_tree_opens++;
    *ret = (struct tree_reader){.size = f->size, .fd = -1};
    uint8_t *object = xmalloc(TREE_OID_SIZE + (f->size <= SIM_BIG ? f->size : 0));
    memcpy(object, f->oid, TREE_OID_SIZE);
    if (f->size <= SIM_BIG) {
        sim_content(f->oid, 0, object + TREE_OID_SIZE, f->size);
        ret->data = object + TREE_OID_SIZE;
    }
    ret->object = object;
    return 0;
}

ssize_t __wrap_tree_read(struct tree_reader *r, uint64_t offset, void *out, size_t len, struct error *err)
{
    (void)err;
    uint64_t left = offset < r->size ? r->size - offset : 0;
    if (len > left)
        len = (size_t)left;
    sim_content(r->object, offset, out, len);
    return (ssize_t)len;
}

void __wrap_tree_done(struct tree_reader *r)
{
    free(r->object);
    *r = (struct tree_reader){.fd = -1};
}
