/* A commit's files, put into the store as a scan would: contents that are deflated in a fetched pack are inflated once
 * here, not once for each node. */
#include "remote.h"

#include <string.h>

enum { GIT_BLOB = 3 };

static int copy_file(struct tree_store *from, struct tree_store *to, const struct tree_file *f, struct tree_batch *b,
                     struct error *err)
{
    if (f->size > TREE_BIG_SIZE) {
        uint64_t there;
        return from == to || (tree_big_has(to, f->oid, &there) && there == f->size)
                   ? 0 /* extracted from its pack when it is read */
                   : tree_big_take_out(from, to, f, err);
    }
    struct tree_content content;
    struct error why = ERROR_INIT;
    uint8_t oid[TREE_OID_SIZE];
    enum tree_found found = tree_content_read(from, f->oid, GIT_BLOB, &content, &why);
    if (found != TREE_FOUND)
        return error_set(err, ERROR_IO, "the content of \"%s\" is %s%s%s", f->path,
                         found == TREE_MISSING ? "missing" : "damaged", why.code ? ": " : "", why.text);
    tree_hash(TREE_OBJECT_BLOB, content.data, (size_t)content.size, oid); /* reading does not check the hash */
    int rc;
    if (content.size != f->size || memcmp(oid, f->oid, sizeof oid) != 0)
        rc = error_set(err, ERROR_IO, "the content of \"%s\" is damaged", f->path);
    else
        rc = tree_batch_add(b, TREE_OBJECT_BLOB, oid, content.data ? content.data : (const uint8_t *)"",
                            (size_t)content.size, err);
    tree_content_free(&content);
    return rc;
}

int remote_copy(struct tree_store *from, struct tree_store *to, struct tree *t, struct error *err)
{
    struct tree_batch *b;
    uint64_t bytes = 0;
    for (size_t i = 0; i < t->count; i++)
        bytes += t->files[i].size > TREE_BIG_SIZE ? 0 : t->files[i].size;
    if (tree_batch_begin(to, t->count, bytes, &b, err) < 0)
        return -1;
    if (from == to)
        tree_batch_again(b);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < t->count; i++)
        rc = copy_file(from, to, &t->files[i], b, err);
    if (rc == 0)
        rc = tree_id(t->files, t->count, b, t->id, err);
    if (rc == 0)
        return tree_batch_end(b, err);
    tree_batch_abort(b);
    return -1;
}
