/*
 * One file of a transfer: written to a separate folder on the same file system, then renamed, so that an incomplete
 * file never has the file's name. A large file that was cut off stays in that folder under its oid.
 */
#include "server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { COPY_SIZE = 64 << 10, FREED = 64 << 10, OUT_EACH = 32 << 20 };

static const char small_name[] = "new", copy_name[] = ".rhrun-new";

/* ---- the folder for incomplete files ---- */

/* Removes all files of a folder, except parts (if `keep`) and the folder `spare`. */
static void empty(int dir_fd, bool keep, const char *spare)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));) {
        uint8_t oid[WIRE_OID_SIZE];
        if (e->d_name[0] == '.' || (spare && strcmp(e->d_name, spare) == 0) ||
            (keep && hex_decode(e->d_name, oid, sizeof oid)))
            continue;
        if (unlinkat(fd, e->d_name, 0) == 0 || !spare)
            continue;
        CLEANUP(cleanup_close) int below = openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below >= 0)
            empty(below, false, NULL);
        unlinkat(fd, e->d_name, AT_REMOVEDIR);
    }
    closedir(dir);
}

/* For roots below the base folder it is beside the index, otherwise in the root: a rename must stay on one file
 * system. */
static const char *stage_top(struct sync *y)
{
    return y->tree.inside ? arena_printf(y->arena, "%s/new", y->tree.dir)
                          : arena_printf(y->arena, "%s/.rhrun-%s", y->tree.path, strrchr(y->tree.dir, '/') + 1);
}

int sync_stage_open(struct sync *y, bool make)
{
    const char *top = stage_top(y);
    if (make && mkdir(top, 0700) < 0 && errno != EEXIST)
        return -1;
    CLEANUP(cleanup_close) int top_fd = open(top, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (top_fd < 0)
        return make ? -1 : 0;
    empty(top_fd, false, y->tree.boot_id); /* parts of another boot are worthless */
    if (make && mkdirat(top_fd, y->tree.boot_id, 0700) < 0 && errno != EEXIST)
        return -1;
    y->stage_fd = openat(top_fd, y->tree.boot_id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (y->stage_fd >= 0)
        empty(y->stage_fd, true, NULL);
    return y->stage_fd < 0 && make ? -1 : 0;
}

void sync_stage_clear(struct sync *y)
{
    if (y->stage_fd < 0)
        return;
    const char *top = stage_top(y);
    empty(y->stage_fd, false, NULL);
    int top_fd = open(top, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    unlinkat(top_fd, y->tree.boot_id, AT_REMOVEDIR);
    cleanup_close(&top_fd);
    rmdir(top);
}

/* ---- obstacles ---- */

/* A file or link where a folder belongs. */
static int replace_by_folder(void *context, int dir_fd, const char *name, const char *path)
{
    struct sync *y = context;
    if (y->missing) {
        errno = ENOTDIR;
        return -1;
    }
    if (unlinkat(dir_fd, name, 0) < 0)
        return -1;
    struct tree_entry *e = tree_find(&y->tree, path);
    if (e)
        tree_drop(&y->tree, e);
    return 0;
}

static int enter(struct sync *y, const char *path, const char **ret_name)
{
    int fd = dirs_enter(&y->dirs, path, ret_name, replace_by_folder, y);
    if (fd < 0 && errno == ENOENT) { /* a folder that was open no longer exists */
        dirs_leave(&y->dirs, 0);
        fd = dirs_enter(&y->dirs, path, ret_name, replace_by_folder, y);
    }
    return fd;
}

/* A folder in a file's place: checks whether it has only files of the index, and if so and if asked, removes them. */
static int clear_folder(struct sync *y, int dir_fd, const char *name, struct buf *path, bool remove)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), rc = 0;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        cleanup_close(&fd);
        return -1;
    }
    size_t len = path->len;
    for (struct dirent *d; rc == 0 && (d = readdir(dir));) {
        struct stat st;
        if (str_eq(d->d_name, ".") || str_eq(d->d_name, ".."))
            continue;
        path->len = len;
        buf_printf(path, "/%s", d->d_name);
        struct tree_entry *e = tree_find(&y->tree, path->data);
        if (fstatat(fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || path->len > WIRE_PATH_MAX)
            rc = -1;
        else if (S_ISDIR(st.st_mode))
            rc = clear_folder(y, fd, d->d_name, path, remove);
        else if (!e || (e->flags & ENTRY_GONE) || !tree_entry_there(&y->tree, e, &st))
            rc = -1;
        else if (remove && (rc = unlinkat(fd, d->d_name, 0)) == 0)
            tree_drop(&y->tree, e);
    }
    path->len = len;
    closedir(dir);
    return rc == 0 && remove ? unlinkat(dir_fd, name, AT_REMOVEDIR) : rc;
}

static int replace_folder(struct sync *y, int dir_fd, const char *name, const char *path)
{
    struct buf text = {0};
    buf_puts(&text, path);
    int rc = y->missing ? -1 : clear_folder(y, dir_fd, name, &text, false);
    if (rc == 0)
        rc = clear_folder(y, dir_fd, name, &text, true);
    buf_free(&text);
    if (rc < 0)
        errno = EISDIR;
    return rc;
}

/* ---- a complete file gets its name ---- */

/* The folder is on another file system after all: copies the file beside its place, then renames the copy. */
static int copy_over(struct sync *y, const char *from, int dir_fd, const char *name, struct stat *st)
{
    char data[COPY_SIZE];
    ssize_t n = readlinkat(y->stage_fd, from, data, sizeof data - 1);
    unlinkat(dir_fd, copy_name, 0);
    if (n >= 0) {
        data[n] = 0;
        if (symlinkat(data, dir_fd, copy_name) < 0)
            return -1;
    } else {
        CLEANUP(cleanup_close) int in = openat(y->stage_fd, from, O_RDONLY | O_CLOEXEC);
        CLEANUP(cleanup_close)
        int out = openat(dir_fd, copy_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, st->st_mode & 0777);
        if (in < 0 || out < 0)
            return -1;
        while ((n = read(in, data, sizeof data)) > 0)
            if (write_all(out, data, (size_t)n) < 0)
                n = -2;
        if (n < 0 || close(STEAL_FD(out)) < 0) {
            int errnum = errno;
            unlinkat(dir_fd, copy_name, 0);
            errno = errnum;
            return -1;
        }
    }
    unlinkat(y->stage_fd, from, 0);
    return fstatat(dir_fd, copy_name, st, AT_SYMLINK_NOFOLLOW) < 0 ? -1 : renameat(dir_fd, copy_name, dir_fd, name);
}

static void note(struct sync *y, const struct wire_file *f, const struct stat *st)
{
    struct tree_entry *e = tree_entry(&y->tree, f->path);
    tree_unpatch(&y->tree, e);
    memcpy(e->oid, f->oid, sizeof e->oid);
    e->mode = (uint16_t)f->mode;
    e->flags = (uint8_t)((e->flags & ENTRY_BASE) | ENTRY_NEW | (y->missing ? ENTRY_ANY : 0));
    tree_entry_stat(e, st);
    tree_add(&y->tree, e);
}

/* `from`, closed and below stage_fd, becomes the file. */
static int place(struct sync *y, const char *from, const struct wire_file *f)
{
    const char *name;
    struct stat st;
    /* the file was closed before: network file systems set the time at close */
    if (fstatat(y->stage_fd, from, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -1;
    for (int round = 0;; round++) {
        int dir_fd = enter(y, f->path, &name);
        if (dir_fd < 0)
            return -1;
        if (renameat(y->stage_fd, from, dir_fd, name) == 0 ||
            (errno == EXDEV && copy_over(y, from, dir_fd, name, &st) == 0))
            break;
        if (round == 2)
            return -1;
        if (errno == ENOENT)
            dirs_leave(&y->dirs, 0);
        else if (errno != EISDIR || replace_folder(y, dir_fd, name, f->path) < 0)
            return -1;
    }
    note(y, f, &st);
    return 0;
}

/* ---- frames ---- */

void sync_file_close(struct sync *y)
{
    if (y->file.open && y->file.fd >= 0) {
        struct stat st;
        bool part = y->file.name != small_name;
        /* the last room of a full disk is for the index, which must record the files before this one */
        if (part && y->file.full && fstat(y->file.fd, &st) == 0)
            part = ftruncate(y->file.fd, st.st_size > FREED ? st.st_size - FREED : 0) == 0 && st.st_size > FREED;
        close(y->file.fd);
        if (!part)
            unlinkat(y->stage_fd, y->file.name, 0);
    }
    y->file.open = false;
    y->file.fd = -1;
}

static int complete(struct sync *y)
{
    struct wire_file f = {.path = y->file.path, .mode = y->file.mode, .oid = y->file.oid};
    y->file.open = false;
    if (y->file.fd < 0)
        return 0;
    int rc = y->file.name == small_name ? 0 : fchmod(y->file.fd, y->file.mode & 0777 & ~y->umask);
    rc |= close(STEAL_FD(y->file.fd));
    if (rc == 0)
        rc = place(y, y->file.name, &f);
    if (rc < 0 && y->file.name == small_name) {
        int errnum = errno;
        unlinkat(y->stage_fd, y->file.name, 0);
        errno = errnum;
    }
    return rc;
}

int sync_file_more(struct sync *y, const uint8_t *data, uint32_t len)
{
    if (len > y->file.size - y->file.have) {
        errno = EPROTO;
        return -1;
    }
    if (y->file.fd >= 0 && write_all(y->file.fd, data, len) < 0) {
        y->file.full = errno == ENOSPC || errno == EDQUOT;
        return -1;
    }
    uint64_t had = y->file.have;
    y->file.have += len;
    if (y->file.fd >= 0 && had / OUT_EACH != y->file.have / OUT_EACH) /* so that SETTLE need not wait long */
        sync_file_range(y->file.fd, 0, (off_t)y->file.have, SYNC_FILE_RANGE_WRITE);
    return y->file.have == y->file.size ? complete(y) : 0;
}

static int put_link(struct sync *y, const struct wire_file *f)
{
    char target[WIRE_PATH_MAX + 1];
    memcpy(target, f->data, f->len);
    target[f->len] = 0;
    if (symlinkat(target, y->stage_fd, small_name) < 0)
        return -1;
    int rc = place(y, small_name, f);
    if (rc < 0) {
        int errnum = errno;
        unlinkat(y->stage_fd, small_name, 0);
        errno = errnum;
    }
    return rc;
}

/* The file that data goes to, at f->offset. */
static int open_file(struct sync *y, const struct wire_file *f)
{
    struct stat st;
    y->file.name = small_name;
    if (f->size > TREE_PART_MIN) {
        for (size_t i = 0; i < WIRE_OID_SIZE; i++)
            snprintf(y->file.part + 2 * i, 3, "%02x", f->oid[i]);
        y->file.name = y->file.part;
    }
    int fd = openat(y->stage_fd, y->file.name,
                    O_WRONLY | O_NOFOLLOW | O_CLOEXEC | (f->offset ? O_APPEND : O_CREAT | O_TRUNC), f->mode & 0777);
    if (fd < 0)
        return -1;
    y->file.fd = fd;
    if (f->offset && (fstat(fd, &st) < 0 || (uint64_t)st.st_size < f->offset)) {
        errno = ESTALE; /* not the part that SYNC_STATE named */
        return -1;
    }
    return f->offset ? ftruncate(fd, (off_t)f->offset) : 0;
}

int sync_file_put(struct sync *y, const struct wire_file *f)
{
    struct stat st;
    const char *name;
    sync_file_close(y);
    if (y->missing) {
        int dir_fd = enter(y, f->path, &name);
        if (dir_fd < 0)
            return -1;
        if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            note(y, f, &st);
            y->file.open = f->offset + f->len < f->size;
            y->file.size = f->size;
            y->file.have = f->offset + f->len;
            return 0;
        }
    }
    if (y->stage_fd < 0 && sync_stage_open(y, true) < 0)
        return -1;
    if (f->mode == 0120000)
        return put_link(y, f);
    y->file.open = true;
    y->file.full = false;
    y->file.size = f->size;
    y->file.have = f->offset;
    y->file.mode = f->mode;
    memcpy(y->file.oid, f->oid, sizeof y->file.oid);
    snprintf(y->file.path, sizeof y->file.path, "%s", f->path);
    return open_file(y, f) < 0 ? -1 : sync_file_more(y, f->data, f->len);
}

bool sync_is_absent(int errnum)
{
    return errnum == ENOENT || errnum == ENOTDIR || errnum == ELOOP;
}

int sync_file_remove(struct sync *y, struct tree_entry *e)
{
    const char *name;
    struct stat st;
    /* a file that may not have survived counts as gone, but is ours */
    if (!y->missing && (!(e->flags & ENTRY_GONE) || (e->flags & ENTRY_STALE))) {
        int fd = dirs_enter(&y->dirs, e->path, &name, NULL, NULL);
        if (fd < 0 || fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            if (!sync_is_absent(errno))
                return -1;
        } else if (tree_entry_there(&y->tree, e, &st)) {
            if (unlinkat(fd, name, 0) < 0 && errno != ENOENT)
                return -1;
            dirs_prune(&y->dirs);
        }
    }
    tree_drop(&y->tree, e);
    return 0;
}
