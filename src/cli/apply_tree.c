/*
 * apply --at: the specs and the code of their jobs come from a commit. Its files are written to a folder of the state
 * directory, once per commit:
 *
 *   checkouts/REPOSITORY/lock                  held while a commit is written out
 *   checkouts/REPOSITORY/tree.git              the fetched objects (tree.h)
 *   checkouts/REPOSITORY/COMMIT/.rhrun-origin  prefix of its specs' origins: any clone has the same jobs
 *   checkouts/REPOSITORY/COMMIT/tree/          the files; outputs relative to a spec go here too
 */
#include "apply.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPEN_AT_ONCE = 16 };

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)at;
    return type == FTW_DP ? rmdir(path) : unlink(path);
}

/* An incomplete folder is never visible: the folder gets its name when all files are on the disk. */
static int write_out(struct tree_store *store, const struct tree *t, const char *dir, const char *origin,
                     struct error *err)
{
    CLEANUP(cleanup_free) char *temp = xasprintf("%s.new", dir), *files = xasprintf("%s/tree", temp);
    CLEANUP(cleanup_free) char *marker = xasprintf("%s/" SPEC_CHECKOUT_MARKER, temp), *line = xasprintf("%s\n", origin);
    if (access(temp, F_OK) == 0 &&
        nftw(temp, remove_one, OPEN_AT_ONCE, FTW_DEPTH | FTW_PHYS) != 0) /* left by a killed process */
        return error_set(err, ERROR_IO, "could not remove \"%s\"", temp);
    if (mkdir_p(temp, 0700, err) < 0 || tree_export(store, t, files, err) < 0 ||
        file_write_atomic(marker, line, strlen(line), 0600, err) < 0)
        return -1;
    CLEANUP(cleanup_close) int fd = open(temp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || syncfs(fd) < 0 || rename(temp, dir) < 0)
        return error_errno(err, ERROR_IO, errno, "could not keep \"%s\"", dir);
    return 0;
}

static int lock(const char *path, struct error *err)
{
    CLEANUP(cleanup_close) int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) < 0)
        return error_errno(err, ERROR_IO, errno, "could not lock \"%s\"", path);
    return STEAL_FD(fd);
}

static int in_folder(struct apply *a, const char *dir, const char *repository, const char *origin, const char *ref,
                     const char **ret_base, struct error *err)
{
    struct arena *arena = a->c->arena;
    const char *store_dir = arena_printf(arena, "%s/tree.git", dir), *notes = "";
    struct tree_store *store;
    struct tree *t;
    char commit[TREE_ID_LEN + 1];
    CLEANUP(cleanup_close) int fd = lock(arena_printf(arena, "%s/lock", dir), err);
    if (fd < 0 || tree_store_open(store_dir, &store, err) < 0)
        return -1;
    int rc = tree_fetch(store, repository, ref, false, arena, &t, commit, &notes, err);
    if (rc == 0) {
        const char *to = arena_printf(arena, "%s/%s", dir, commit);
        *ret_base = arena_printf(arena, "%s/tree", to);
        if (access(to, F_OK) < 0)
            rc = write_out(store, t, to, origin, err);
        a->commit = arena_strdup(arena, commit);
    }
    tree_store_close(store);
    if (rc == 0 && *notes && !a->quiet)
        fprintf(stderr, "rhrun: warning: %s: %s\n", repository, notes);
    return rc;
}

int apply_checkout(struct apply *a, const char *repository, const char *origin, const char *ref, const char **ret_base,
                   struct error *err)
{
    char hex[65];
    CLEANUP(cleanup_free) char *home = journal_home(err);
    if (!home)
        return -1;
    digest_sha256_hex(repository, strlen(repository), hex);
    const char *dir = arena_printf(a->c->arena, "%s/checkouts/%.16s", home, hex);
    if (mkdir_p(dir, 0700, err) < 0)
        return -1;
    return in_folder(a, dir, repository, origin, ref, ret_base, err);
}
