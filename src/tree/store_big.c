/* Contents over TREE_BIG_SIZE: files beside the objects, so that memory stays flat and nothing is copied twice. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct tree_big {
    struct tree_store *store;
    char *path;
    int fd;
};

char *tree_big_path(const struct tree_store *s, const uint8_t oid[TREE_OID_SIZE])
{
    char hex[TREE_ID_LEN + 1];
    tree_hex(oid, hex);
    return xasprintf("%s/big/%s", s->dir, hex);
}

bool tree_big_has(const struct tree_store *s, const uint8_t oid[TREE_OID_SIZE], uint64_t *ret_size)
{
    CLEANUP(cleanup_free) char *path = tree_big_path(s, oid);
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return false;
    *ret_size = (uint64_t)st.st_size;
    return true;
}

void tree_write_back(int fd, uint64_t to)
{
#ifdef SYNC_FILE_RANGE_WRITE
    (void)sync_file_range(fd, 0, (off_t)to, SYNC_FILE_RANGE_WRITE);
#else
    (void)fd;
    (void)to;
#endif
}

static void big_free(struct tree_big *big)
{
    close(big->fd);
    free(big->path);
    free(big);
}

int tree_big_begin(struct tree_store *s, struct tree_big **ret, int *ret_fd, struct error *err)
{
    char *path;
    int fd = tree_temp(s, "big", &path, err);
    if (fd < 0)
        return -1;
    struct tree_big *big = xcalloc(1, sizeof *big);
    *big = (struct tree_big){.store = s, .path = path, .fd = fd};
    *ret = big;
    *ret_fd = fd;
    return 0;
}

int tree_batch_big_end(struct tree_big *big, const uint8_t oid[TREE_OID_SIZE], struct error *err)
{
    CLEANUP(cleanup_free) char *path = tree_big_path(big->store, oid);
    struct stat ours;
    uint64_t there;
    int rc = 0;
    if (fstat(big->fd, &ours) < 0 || fchmod(big->fd, 0400) < 0) {
        rc = error_errno(err, ERROR_IO, errno, "could not finish \"%s\"", big->path);
        (void)unlink(big->path);
    } else if (tree_big_has(big->store, oid, &there) && there == (uint64_t)ours.st_size) {
        (void)unlink(big->path);
    } else if (rename(big->path, path) < 0) {
        rc = error_errno(err, ERROR_IO, errno, "could not name \"%s\"", path);
        (void)unlink(big->path);
    } else {
        tree_write_back(big->fd, 0);
    }
    big_free(big);
    return rc;
}

void tree_batch_big_abort(struct tree_big *big)
{
    if (!big)
        return;
    (void)unlink(big->path);
    big_free(big);
}
