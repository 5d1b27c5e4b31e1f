/* Files that are fetched: safe paths, parts of files, and the memory of the files that were put there. See
 * landing.h. */
#include "landing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_MAX_BYTES = 4000, DEPTH_MAX = 200 };

struct landing {
    char *to;
    char parts_name[80];
    int root_fd, parts_fd;
    mode_t mask;
    char boot_id[64];
    struct memory *memory;
    char *dir; /* the folder that was opened last, below `to` */
    int dir_fd;
};

/* ---- paths ---- */

bool landing_path_valid(const char *path)
{
    size_t depth = 0;
    if (!*path || strlen(path) > PATH_MAX_BYTES)
        return false;
    for (const char *p = path;; p++) {
        size_t len = strcspn(p, "/");
        if (len == 0 || (len == 1 && p[0] == '.') || (len == 2 && p[0] == '.' && p[1] == '.') || len > 255 ||
            ++depth > DEPTH_MAX)
            return false;
        p += len;
        if (!*p)
            return true;
    }
}

bool landing_link_inside(const char *path, const char *target)
{
    size_t depth = 0;
    bool named = false;
    for (const char *p = path; (p = strchr(p, '/')); p++)
        depth++;
    if (!*target || *target == '/')
        return false;
    for (const char *p = target; *p; p += strspn(p, "/")) {
        size_t len = strcspn(p, "/");
        bool up = len == 2 && p[0] == '.' && p[1] == '.';
        if (up && (named || depth-- == 0)) /* ".." after a name may lead anywhere: the name may be a link */
            return false;
        named = named || (!up && !(len == 1 && p[0] == '.'));
        p += len;
    }
    return true;
}

static int stands_in_the_way(struct landing *p, const char *path, struct error *err)
{
    return error_set(err, ERROR_IO, "could not write \"%s/%s\": a link or a file is in the way of a folder", p->to,
                     path);
}

/* The folder of `path`, opened name by name, never through a link. ret_name: the last name. -1: the folder does not
 * exist, or err. */
static int dir_of(struct landing *p, const char *path, bool make, const char **ret_name, struct error *err)
{
    const char *slash = strrchr(path, '/');
    *ret_name = slash ? slash + 1 : path;
    if (!slash)
        return p->root_fd;
    size_t len = (size_t)(slash - path);
    if (p->dir && strlen(p->dir) == len && memcmp(p->dir, path, len) == 0)
        return p->dir_fd;
    CLEANUP(cleanup_free) char *dir = xstrndup(path, len);
    int fd = p->root_fd;
    for (char *at = dir, *end; at; at = end) {
        end = strchr(at, '/');
        if (end)
            *end++ = 0;
        int next = openat(fd, at, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0 && errno == ENOENT && make && (mkdirat(fd, at, 0777) == 0 || errno == EEXIST))
            next = openat(fd, at, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int errnum = errno;
        if (fd != p->root_fd)
            close(fd);
        if (next < 0 && (errnum == ELOOP || errnum == ENOTDIR))
            return stands_in_the_way(p, path, err);
        if (next < 0)
            return error_errno(err, ERROR_IO, errnum, "could not write \"%s/%s\"", p->to, path);
        fd = next;
    }
    if (p->dir_fd >= 0)
        close(p->dir_fd);
    free(p->dir);
    p->dir = xstrndup(path, len);
    p->dir_fd = fd;
    return fd;
}

/* ---- files that exist ---- */

static uint64_t mtime_of(const struct stat *st)
{
    return (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec;
}

static mode_t mode_here(const struct landing *p, uint32_t mode)
{
    return (mode & 0777 & ~p->mask) | 0600;
}

bool landing_has(struct landing *p, const struct wire_entry *e)
{
    const struct known *k = memory_find(p->memory, e->path);
    const char *name;
    struct stat st;
    if (!k || k->size != e->size || k->mtime_ns != e->mtime_ns || k->inode != e->inode || !landing_path_valid(e->path))
        return false;
    int fd = dir_of(p, e->path, false, &name, NULL);
    if (fd < 0 || fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
        (uint64_t)st.st_size != k->size || mtime_of(&st) != k->local_mtime_ns)
        return false;
    return (st.st_mode & 0777) == mode_here(p, e->mode) || fchmodat(fd, name, mode_here(p, e->mode), 0) == 0;
}

/* ---- opening, closing ---- */

static void read_boot_id(char *ret, size_t size)
{
    struct buf text = {0};
    if (file_read("/proc/sys/kernel/random/boot_id", 256, &text, NULL) == 0 && text.data)
        snprintf(ret, size, "%.36s", text.data);
    buf_free(&text);
}

int landing_open(const char *to, const char *tag, const char *memory, struct landing **ret, struct error *err)
{
    struct landing *p = xcalloc(1, sizeof *p);
    p->root_fd = p->parts_fd = p->dir_fd = -1;
    p->to = xstrdup(to);
    snprintf(p->parts_name, sizeof p->parts_name, ".rhrun-%.16s", tag);
    umask(p->mask = umask(0));
    read_boot_id(p->boot_id, sizeof p->boot_id);
    if (mkdir_p(to, 0777, err) < 0)
        goto fail;
    p->root_fd = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (p->root_fd < 0) {
        error_errno(err, ERROR_IO, errno, "could not open folder \"%s\"", to);
        goto fail;
    }
    p->memory = memory_open(memory);
    *ret = p;
    return 0;
fail:
    landing_close(p, false);
    return -1;
}

static int open_parts(struct landing *p, struct error *err)
{
    if (p->parts_fd >= 0)
        return 0;
    if (mkdirat(p->root_fd, p->parts_name, 0700) < 0 && errno != EEXIST)
        return error_errno(err, ERROR_IO, errno, "could not write below \"%s\"", p->to);
    p->parts_fd = openat(p->root_fd, p->parts_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (p->parts_fd < 0)
        return error_errno(err, ERROR_IO, errno, "could not open \"%s/%s\"", p->to, p->parts_name);
    return 0;
}

/* The fetch is complete: removes the parts that are left. Their files have changed since, so they will never be
 * complete. */
static void remove_parts(struct landing *p)
{
    int fd = openat(p->root_fd, p->parts_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (e->d_name[0] != '.')
            unlinkat(fd, e->d_name, 0);
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
}

void landing_close(struct landing *p, bool complete)
{
    if (!p)
        return;
    if (p->root_fd >= 0) {
        if (complete)
            remove_parts(p);
        unlinkat(p->root_fd, p->parts_name, AT_REMOVEDIR); /* fails, as intended, while parts are left in it */
    }
    cleanup_close(&p->parts_fd);
    cleanup_close(&p->dir_fd);
    cleanup_close(&p->root_fd);
    memory_close(p->memory);
    free(p->dir);
    free(p->to);
    free(p);
}

/* ---- folders, links ---- */

static int refuse(struct landing *p, const char *path, struct error *err)
{
    return error_set(err, ERROR_PROTOCOL, "the node names a file \"%.200s\" that cannot be below \"%s\"", path, p->to);
}

static bool is_ours(const struct landing *p, const char *path) /* no file of the node may be among the parts */
{
    size_t len = strcspn(path, "/");
    return strlen(p->parts_name) == len && memcmp(p->parts_name, path, len) == 0;
}

static int failed(struct landing *p, const char *path, struct error *err)
{
    if (errno == EISDIR || errno == ENOTEMPTY || errno == EEXIST)
        return error_set(err, ERROR_IO, "could not write \"%s/%s\": a folder stands there", p->to, path);
    return error_errno(err, ERROR_IO, errno, "could not write \"%s/%s\"", p->to, path);
}

int landing_folder(struct landing *p, const char *path, struct error *err)
{
    const char *name;
    struct stat st;
    if (!landing_path_valid(path) || is_ours(p, path))
        return refuse(p, path, err);
    int fd = dir_of(p, path, true, &name, err);
    if (fd < 0)
        return -1;
    if (mkdirat(fd, name, 0777) == 0)
        return 0;
    if (errno == EEXIST && fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return S_ISDIR(st.st_mode) ? 0 : stands_in_the_way(p, path, err);
    return failed(p, path, err);
}

int landing_link(struct landing *p, const char *path, const char *target, struct error *err)
{
    const char *name;
    char old[PATH_MAX_BYTES + 1];
    if (!landing_path_valid(path) || is_ours(p, path))
        return refuse(p, path, err);
    if (!landing_link_inside(path, target))
        return 1;
    int fd = dir_of(p, path, true, &name, err);
    if (fd < 0 || open_parts(p, err) < 0)
        return -1;
    ssize_t n = readlinkat(fd, name, old, sizeof old);
    if (n == (ssize_t)strlen(target) && memcmp(old, target, (size_t)n) == 0)
        return 0;
    unlinkat(p->parts_fd, "link", 0);
    if (symlinkat(target, p->parts_fd, "link") < 0 || renameat(p->parts_fd, "link", fd, name) < 0)
        return failed(p, path, err);
    return 0;
}

/* ---- files ---- */

static void name_part(const struct landing *p, const struct wire_entry *e, char ret[65])
{
    CLEANUP(cleanup_free)
    char *text = xasprintf("%s\n%llu %llu %llu %s", e->path, (unsigned long long)e->size,
                           (unsigned long long)e->mtime_ns, (unsigned long long)e->inode, p->boot_id);
    digest_sha256_hex(text, strlen(text), ret);
}

int landing_begin(struct landing *p, const struct wire_entry *e, struct landing_file **ret, struct error *err)
{
    char part[65];
    struct stat st;
    if (!landing_path_valid(e->path) || is_ours(p, e->path))
        return refuse(p, e->path, err);
    if (open_parts(p, err) < 0)
        return -1;
    name_part(p, e, part);
    int fd = openat(p->parts_fd, part, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || fstat(fd, &st) < 0 || ((uint64_t)st.st_size > e->size && ftruncate(fd, st.st_size = 0) < 0)) {
        failed(p, e->path, err);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    struct landing_file *f = xcalloc(1, sizeof *f);
    *f = (struct landing_file){.landing = p,
                               .path = xstrdup(e->path),
                               .fd = fd,
                               .mode = e->mode,
                               .size = e->size,
                               .mtime_ns = e->mtime_ns,
                               .inode = e->inode,
                               .at = (uint64_t)st.st_size};
    memcpy(f->part, part, sizeof f->part);
    *ret = f;
    return 0;
}

int landing_write(struct landing_file *f, const void *data, size_t len, struct error *err)
{
    const uint8_t *p = data;
    while (len > 0) {
        ssize_t n = pwrite(f->fd, p, len, (off_t)f->at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return failed(f->landing, f->path, err);
        p += n;
        len -= (size_t)n;
        f->at += (uint64_t)n;
    }
    return 0;
}

int landing_sync(struct landing_file *f)
{
    const struct timespec when = {(time_t)(f->mtime_ns / 1000000000u), (long)(f->mtime_ns % 1000000000u)};
    const struct timespec times[2] = {when, when};
    if (fchmod(f->fd, mode_here(f->landing, f->mode)) < 0 || futimens(f->fd, times) < 0 || fsync(f->fd) < 0)
        return errno;
    return 0;
}

int landing_commit(struct landing_file *f, struct error *err)
{
    struct landing *p = f->landing;
    const char *name;
    struct stat st;
    int fd = dir_of(p, f->path, true, &name, err);
    if (fd < 0)
        return -1;
    if (fstat(f->fd, &st) < 0 || renameat(p->parts_fd, f->part, fd, name) < 0)
        return failed(p, f->path, err);
    const struct known k = {f->path, f->size, f->mtime_ns, f->inode, mtime_of(&st), 0};
    memory_add(p->memory, &k);
    return 0;
}

void landing_drop(struct landing_file *f, bool forget)
{
    if (!f)
        return;
    if (forget)
        unlinkat(f->landing->parts_fd, f->part, 0);
    close(f->fd);
    free(f->path);
    free(f);
}
