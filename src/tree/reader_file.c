/* Reading one file of a stored tree. A big file from a fetch is in a pack: it is extracted once, and stored beside the
 * objects like every other big file. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { GIT_BLOB = 3, PIECE = 1 << 18 };

static int damaged(struct tree_store *s, const struct tree_file *f, enum tree_found found, struct error *err)
{
    struct error why = err ? *err : (struct error)ERROR_INIT;
    (void)error_set(err, ERROR_IO, "the stored content of \"%s\" is %s%s%s", f->path,
                    found == TREE_MISSING ? "missing" : "damaged", found == TREE_DAMAGED && why.code ? ": " : "",
                    found == TREE_DAMAGED && why.code ? why.text : "");
    error_hint(err, "remove \"%s\": it is made again from the files as they are now", s->dir);
    return -1;
}

static int inflate_to(int fd, const struct tree_entry *e, struct error *err)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)e->body};
    if (inflateInit(&z) != Z_OK)
        return error_set(err, ERROR_INTERNAL, "could not start zlib");
    CLEANUP(cleanup_free) uint8_t *out = xmalloc(PIECE);
    size_t left = e->left;
    uint64_t size = 0;
    int rc = Z_OK;
    while (rc == Z_OK && size <= e->size) {
        if (!z.avail_in && left) {
            z.avail_in = left < PIECE ? (uInt)left : PIECE;
            left -= z.avail_in;
        }
        z.next_out = out;
        z.avail_out = PIECE;
        rc = inflate(&z, Z_NO_FLUSH);
        size_t n = PIECE - z.avail_out;
        if (n && write_all(fd, out, n) < 0) {
            (void)inflateEnd(&z);
            return error_errno(err, ERROR_IO, errno, "could not write to the snapshot store");
        }
        size += n;
    }
    (void)inflateEnd(&z);
    if (rc != Z_STREAM_END || size != e->size)
        return error_set(err, ERROR_IO, "it does not inflate to what it was");
    return 0;
}

/* Whole objects are inflated piece by piece; deltas need their base, so libgit2 makes them in memory (git makes no
 * deltas of files over 512 MiB). */
int tree_big_take_out(struct tree_store *from, struct tree_store *to, const struct tree_file *f, struct error *err)
{
    const struct tree_pack *pack;
    struct tree_entry entry;
    struct tree_content content = {.size = 0};
    struct tree_big *big;
    uint64_t offset;
    int fd;
    bool whole = tree_pack_find(from, f->oid, &pack, &offset) && tree_pack_entry(pack, offset, &entry) &&
                 entry.type == GIT_BLOB && entry.size == f->size;
    if (!whole) {
        struct error why = ERROR_INIT;
        enum tree_found found = tree_content_read(from, f->oid, GIT_BLOB, &content, &why);
        if (found == TREE_FOUND && content.size != f->size) {
            tree_content_free(&content);
            found = TREE_DAMAGED;
        }
        if (found != TREE_FOUND) {
            if (err)
                *err = why;
            return damaged(from, f, found, err);
        }
    }
    int rc = tree_big_begin(to, &big, &fd, err);
    if (rc == 0) {
        if (whole)
            rc = inflate_to(fd, &entry, err);
        else if (write_all(fd, content.data, (size_t)content.size) < 0)
            rc = error_errno(err, ERROR_IO, errno, "could not write to the snapshot store");
        if (rc == 0)
            rc = tree_batch_big_end(big, f->oid, err);
        else
            tree_batch_big_abort(big);
        if (rc < 0)
            error_prefix(err, "\"%s\"", f->path);
    }
    tree_content_free(&content);
    return rc;
}

static int open_big(struct tree_store *s, const struct tree_file *f, struct tree_reader *ret, struct error *err)
{
    uint64_t there;
    if (!s->packs_read)
        tree_packs_read(s);
    if (!tree_big_has(s, f->oid, &there) && tree_big_take_out(s, s, f, err) < 0)
        return -1;
    CLEANUP(cleanup_free) char *path = tree_big_path(s, f->oid);
    CLEANUP(cleanup_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_errno(err, ERROR_IO, errno, "could not open \"%s\", which has the content of \"%s\"", path,
                           f->path);
    if ((uint64_t)st.st_size != f->size) {
        (void)error_set(err, ERROR_IO, "\"%s\" has %llu bytes and not %llu", path, (unsigned long long)st.st_size,
                        (unsigned long long)f->size);
        return damaged(s, f, TREE_DAMAGED, err);
    }
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    *ret = (struct tree_reader){.size = f->size, .fd = STEAL_FD(fd)};
    return 0;
}

int tree_open(struct tree_store *s, const struct tree_file *f, struct tree_reader *ret, struct error *err)
{
    if (f->size > TREE_BIG_SIZE)
        return open_big(s, f, ret, err);
    struct tree_content content;
    struct error why = ERROR_INIT;
    enum tree_found found = tree_content_read(s, f->oid, GIT_BLOB, &content, &why);
    if (found == TREE_FOUND && content.size != f->size) {
        tree_content_free(&content);
        found = TREE_DAMAGED;
    }
    if (found != TREE_FOUND) {
        if (err)
            *err = why;
        return damaged(s, f, found, err);
    }
    *ret = (struct tree_reader){.data = content.data ? content.data : (const uint8_t *)"", .size = f->size, .fd = -1};
    if (content.owned || content.git) {
        struct tree_content *kept = xmalloc(sizeof *kept);
        *kept = content;
        ret->object = kept;
    }
    return 0;
}

ssize_t tree_read(struct tree_reader *r, uint64_t offset, void *out, size_t len, struct error *err)
{
    if (offset >= r->size)
        return 0;
    if (len > r->size - offset)
        len = (size_t)(r->size - offset);
    if (r->data) {
        memcpy(out, r->data + offset, len);
        return (ssize_t)len;
    }
    ssize_t n;
    do
        n = pread(r->fd, out, len, (off_t)offset);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return error_errno(err, ERROR_IO, errno, "could not read a big file of the snapshot store");
    if (n == 0 && len)
        return error_set(err, ERROR_IO, "a big file of the snapshot store became shorter");
    return n;
}

void tree_done(struct tree_reader *r)
{
    if (r->data) { /* a zeroed one has nothing open */
        if (r->object)
            tree_content_free(r->object);
        free(r->object);
    } else if (r->size) {
        close(r->fd);
    }
    *r = (struct tree_reader){.fd = -1};
}
