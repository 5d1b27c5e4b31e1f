/* A stored tree as files of a folder. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 16 };

/* Makes the folders above a file; `last` is the folder that was made last. */
static int make_parent(const char *path, char **last, struct error *err)
{
    const size_t len = (size_t)(strrchr(path, '/') - path);
    if (*last && strlen(*last) == len && memcmp(*last, path, len) == 0)
        return 0;
    free(*last);
    *last = xstrndup(path, len);
    return mkdir_p(*last, 0755, err);
}

static int write_content(struct tree_store *s, const struct tree_file *f, int fd, struct error *err)
{
    struct tree_reader r = {0};
    CLEANUP(cleanup_free) char *piece = xmalloc(PIECE);
    if (tree_open(s, f, &r, err) < 0)
        return -1;
    uint64_t at = 0;
    int rc = 0;
    while (rc == 0 && at < f->size) {
        const ssize_t n = tree_read(&r, at, piece, PIECE, err);
        if (n <= 0)
            rc = n < 0 ? -1 : error_set(err, ERROR_IO, "\"%s\" is cut off in the store", f->path);
        else if (write_all(fd, piece, (size_t)n) < 0)
            rc = error_errno(err, ERROR_IO, errno, "could not write \"%s\"", f->path);
        else
            at += (uint64_t)n;
    }
    tree_done(&r);
    return rc;
}

static int put_file(struct tree_store *s, const struct tree_file *f, const char *path, struct error *err)
{
    const mode_t mode = f->mode == TREE_MODE_EXEC ? 0755 : 0644;
    CLEANUP(cleanup_close) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0)
        return error_errno(err, ERROR_IO, errno, "could not create \"%s\"", path);
    return write_content(s, f, fd, err);
}

static int put_link(struct tree_store *s, const struct tree_file *f, const char *path, struct error *err)
{
    struct tree_reader r = {0};
    if (f->size > TREE_PATH_MAX)
        return error_set(err, ERROR_SPEC, "the link \"%s\" has more than %d bytes", f->path, TREE_PATH_MAX);
    if (tree_open(s, f, &r, err) < 0)
        return -1;
    CLEANUP(cleanup_free) char *target = xstrndup((const char *)r.data, (size_t)r.size);
    tree_done(&r);
    return symlink(target, path) == 0 ? 0 : error_errno(err, ERROR_IO, errno, "could not create \"%s\"", path);
}

/* Links come last, so that nothing is written through one. */
int tree_export(struct tree_store *s, const struct tree *t, const char *dir, struct error *err)
{
    CLEANUP(cleanup_free) char *last = NULL;
    if (mkdir(dir, 0700) < 0)
        return error_errno(err, ERROR_IO, errno, "could not create folder \"%s\"", dir);
    for (int links = 0; links <= 1; links++)
        for (size_t i = 0; i < t->count; i++) {
            const struct tree_file *f = &t->files[i];
            CLEANUP(cleanup_free) char *path = xasprintf("%s/%s", dir, f->path);
            if ((f->mode == TREE_MODE_LINK) != (links == 1))
                continue;
            if (make_parent(path, &last, err) < 0 ||
                (links ? put_link(s, f, path, err) : put_file(s, f, path, err)) < 0)
                return -1;
        }
    return 0;
}
