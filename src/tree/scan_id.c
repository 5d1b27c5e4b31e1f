/* Ids: git's id of an object, and of the tree that a sorted list of files makes. */
#include "internal.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

static const char *const types[] = {[TREE_OBJECT_BLOB] = "blob", [TREE_OBJECT_TREE] = "tree"};

void tree_hash(enum tree_object type, const void *data, size_t len, uint8_t ret_oid[TREE_OID_SIZE])
{
    char head[32];
    int n = snprintf(head, sizeof head, "%s %zu", types[type], len);
    unsigned got = 0;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    if (!ctx || EVP_DigestInit_ex(ctx, EVP_sha1(), NULL) != 1 || EVP_DigestUpdate(ctx, head, (size_t)n + 1) != 1 ||
        EVP_DigestUpdate(ctx, data, len) != 1 || EVP_DigestFinal_ex(ctx, ret_oid, &got) != 1 || got != TREE_OID_SIZE)
        abort();
    EVP_MD_CTX_free(ctx);
}

void tree_hex(const uint8_t oid[TREE_OID_SIZE], char ret[TREE_ID_LEN + 1])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < TREE_OID_SIZE; i++) {
        ret[2 * i] = digits[oid[i] >> 4];
        ret[2 * i + 1] = digits[oid[i] & 15];
    }
    ret[TREE_ID_LEN] = 0;
}

/* A folder whose entries are being written; the files below it are those that share the first `skip` bytes. */
struct level {
    struct buf object;
    size_t skip;      /* bytes of the folder's path with its "/" */
    const char *name; /* in its parent */
    size_t name_len;
};

static void put_entry(struct buf *object, const char *mode, const char *name, size_t len, const uint8_t *oid)
{
    buf_puts(object, mode);
    buf_putc(object, ' ');
    buf_append(object, name, len);
    buf_putc(object, 0);
    buf_append(object, oid, TREE_OID_SIZE);
}

/* The folder on top is complete: its object gets its id, and an entry in the folder below. */
static int close_level(struct level *levels, size_t *depth, struct tree_batch *batch, uint8_t ret_oid[TREE_OID_SIZE],
                       struct error *err)
{
    struct level *l = &levels[--*depth];
    tree_hash(TREE_OBJECT_TREE, l->object.data, l->object.len, ret_oid);
    if (batch &&
        tree_batch_add(batch, TREE_OBJECT_TREE, ret_oid, l->object.data ? l->object.data : "", l->object.len, err))
        return -1;
    if (*depth)
        put_entry(&levels[*depth - 1].object, "40000", l->name, l->name_len, ret_oid);
    return 0;
}

/* Files sorted by strcmp of the full path are in the order in which git writes its trees, folders depth first: git
 * compares a folder's name as if "/" followed it, and in the full path it does. */
static int write_levels(struct level *levels, const struct tree_file *files, size_t count, struct tree_batch *batch,
                        uint8_t ret_oid[TREE_OID_SIZE], struct error *err)
{
    size_t depth = 1;
    const char *before = "";
    for (size_t i = 0; i < count; i++) {
        const char *path = files[i].path;
        while (depth > 1 && strncmp(path, before, levels[depth - 1].skip) != 0)
            if (close_level(levels, &depth, batch, ret_oid, err))
                return -1;
        const char *name = path + levels[depth - 1].skip, *slash;
        while ((slash = strchr(name, '/'))) {
            if (depth > TREE_DEPTH_MAX)
                return error_set(err, ERROR_SPEC, "\"%s\": more than %d folders deep", path, TREE_DEPTH_MAX);
            struct level *l = &levels[depth++];
            buf_clear(&l->object);
            l->name = name;
            l->name_len = (size_t)(slash - name);
            l->skip = (size_t)(slash + 1 - path);
            name = slash + 1;
        }
        uint32_t mode = files[i].mode;
        put_entry(&levels[depth - 1].object,
                  mode == TREE_MODE_LINK   ? "120000"
                  : mode == TREE_MODE_EXEC ? "100755"
                                           : "100644",
                  name, strlen(name), files[i].oid);
        before = path;
    }
    while (depth)
        if (close_level(levels, &depth, batch, ret_oid, err))
            return -1;
    return 0;
}

int tree_id(const struct tree_file *files, size_t count, struct tree_batch *b, char ret_id[TREE_ID_LEN + 1],
            struct error *err)
{
    struct level *levels = xcalloc(TREE_DEPTH_MAX + 1, sizeof *levels);
    uint8_t oid[TREE_OID_SIZE];
    int rc = write_levels(levels, files, count, b, oid, err);
    for (size_t i = 0; i <= TREE_DEPTH_MAX; i++)
        buf_free(&levels[i].object);
    free(levels);
    if (rc == 0)
        tree_hex(oid, ret_id);
    return rc;
}
