/* The folders below a root. The folders on the path to the last file stay open: files come in order, so each folder is
 * opened about once. */
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

void dirs_leave(struct dirs *d, size_t depth)
{
    while (d->depth > depth)
        close(d->fds[--d->depth]);
}

static int open_step(int dir_fd, const char *name)
{
    return openat(dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int dirs_enter(struct dirs *d, const char *path, const char **ret_name,
               int (*in_the_way)(void *context, int dir_fd, const char *name, const char *path), void *context)
{
    size_t keep = 0;
    while (keep < d->depth && strncmp(path, d->path, d->ends[keep]) == 0 && path[d->ends[keep]] == '/')
        keep++;
    dirs_leave(d, keep);
    size_t at = keep ? d->ends[keep - 1] + 1 : 0;
    int fd = keep ? d->fds[keep - 1] : d->root_fd;
    for (const char *slash; (slash = strchr(path + at, '/')); at = d->ends[d->depth - 1] + 1) {
        size_t end = (size_t)(slash - path);
        if (d->depth == DIRS_DEPTH || end > WIRE_PATH_MAX) {
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(d->path, path, end);
        d->path[end] = 0;
        const char *name = d->path + at;
        int next = open_step(fd, name);
        if (next < 0 && in_the_way && (errno == ENOTDIR || errno == ELOOP) &&
            in_the_way(context, fd, name, d->path) < 0)
            return -1;
        if (next < 0 && in_the_way) {
            if (mkdirat(fd, name, 0755) < 0 && errno != EEXIST)
                return -1;
            next = open_step(fd, name);
        }
        if (next < 0)
            return -1;
        fd = d->fds[d->depth] = next;
        d->ends[d->depth++] = end;
    }
    *ret_name = path + at;
    return fd;
}

void dirs_prune(struct dirs *d)
{
    while (d->depth) {
        size_t above = d->depth - 1, at = above ? d->ends[above - 1] + 1 : 0;
        d->path[d->ends[above]] = 0;
        if (unlinkat(above ? d->fds[above - 1] : d->root_fd, d->path + at, AT_REMOVEDIR) < 0)
            return;
        dirs_leave(d, above);
    }
}
