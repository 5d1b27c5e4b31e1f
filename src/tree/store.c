/* The store's folder: opening it, its contents, and the temporary files of batches. */
#include "internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <git2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TEMP_PREFIX "tmp_rhrun_"

enum { TEMP_TRIES = 100, LEFT_BEHIND_S = 24 * 60 * 60 };

const char *tree_store_dir(const struct tree_store *s)
{
    return s->dir;
}

int tree_git_error(struct error *err, enum error_code code, const char *fmt, ...)
{
    const git_error *last = git_error_last();
    char reason[256];
    snprintf(reason, sizeof reason, "%s", last && last->message ? last->message : "no reason given");
    for (char *p = reason; *p; p++)
        if (*p == '\n')
            *p = ' ';
    size_t len = strlen(reason);
    while (len && (reason[len - 1] == '.' || reason[len - 1] == ' '))
        reason[--len] = 0;
    va_list ap;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *what = xvasprintf(fmt, ap);
    va_end(ap);
    return error_set(err, code, "%s: %s", what, reason);
}

int tree_temp(struct tree_store *s, const char *folder, char **ret_path, struct error *err)
{
    for (int i = 0; i < TEMP_TRIES; i++) {
        CLEANUP(cleanup_free) char *path = xasprintf("%s/%s/" TEMP_PREFIX "XXXXXX", s->dir, folder);
        CLEANUP(cleanup_close) int fd = mkostemp(path, O_CLOEXEC);
        if (fd < 0)
            return error_errno(err, ERROR_IO, errno, "could not create a file in \"%s/%s\"", s->dir, folder);
        struct stat st;
        /* A cleanup may have removed the file before it was locked: then try another one. */
        if ((flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) || fstat(fd, &st) < 0 || st.st_nlink == 0)
            continue;
        *ret_path = path;
        path = NULL;
        return STEAL_FD(fd);
    }
    return error_set(err, ERROR_IO, "could not keep a temporary file in \"%s/%s\"", s->dir, folder);
}

/* For our files, a free lock shows that nobody writes to them; it is held until the name is removed, so that no writer
 * gets it in between. For libgit2's files their age shows it. */
static void clean_one(int folder, const char *name)
{
    struct stat st;
    if (str_starts(name, TEMP_PREFIX)) {
        CLEANUP(cleanup_close) int fd = openat(folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            (void)unlinkat(folder, name, 0);
    } else if ((str_starts(name, "pack_git2_") || str_starts(name, "tmp_object_git2_")) &&
               fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
               time(NULL) - st.st_mtime > LEFT_BEHIND_S) {
        (void)unlinkat(folder, name, 0);
    }
}

static void clean(const struct tree_store *s, const char *folder)
{
    CLEANUP(cleanup_free) char *path = xasprintf("%s/%s", s->dir, folder);
    DIR *dir = opendir(path);
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));)
        clean_one(dirfd(dir), e->d_name);
    closedir(dir);
}

/* Makes the folder a bare repository. Several processes may do so at once, because each piece is the same for all. */
static int make_layout(const struct tree_store *s, struct error *err)
{
    static const char *const folders[] = {"objects/pack", "objects/info", "refs/heads", "refs/tags", "big"};
    static const char config[] = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n";
    static const char head[] = "ref: refs/heads/main\n";
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        CLEANUP(cleanup_free) char *path = xasprintf("%s/%s", s->dir, folders[i]);
        if (mkdir_p(path, 0700, err) < 0)
            return -1;
    }
    CLEANUP(cleanup_free) char *config_path = xasprintf("%s/config", s->dir);
    CLEANUP(cleanup_free) char *head_path = xasprintf("%s/HEAD", s->dir);
    if (access(config_path, F_OK) < 0 && file_write_atomic(config_path, config, sizeof config - 1, 0600, err) < 0)
        return -1;
    if (access(head_path, F_OK) < 0) /* the last piece: when it exists, all exist */
        return file_write_atomic(head_path, head, sizeof head - 1, 0600, err);
    return 0;
}

/* An open store has a shared lock; a sweep has the exclusive one. If no lock can be made, nobody can remove anything
 * either. */
static int lock_store(struct tree_store *s, int how)
{
    CLEANUP(cleanup_free) char *path = xasprintf("%s/rhrun-lock", s->dir);
    s->lock = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_CREAT, 0600);
    if (s->lock < 0)
        s->lock = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int rc = s->lock < 0 ? -1 : flock(s->lock, how);
    while (rc < 0 && s->lock >= 0 && errno == EINTR)
        rc = flock(s->lock, how);
    return rc;
}

static struct tree_store *store_new(const char *dir)
{
    struct tree_store *s = xcalloc(1, sizeof *s);
    s->dir = xstrdup(dir);
    s->lock = -1;
    return s;
}

int tree_store_hold(const char *dir, struct tree_store **ret, struct error *err)
{
    struct tree_store *s = store_new(dir);
    CLEANUP(cleanup_free) char *head = xasprintf("%s/HEAD", dir);
    if (access(head, F_OK) < 0 || lock_store(s, LOCK_EX | LOCK_NB) < 0) {
        const int why = errno;
        tree_store_close(s);
        if (why == EWOULDBLOCK)
            return error_set(err, ERROR_HELD, "snapshot store \"%s\" is in use", dir);
        return error_errno(err, ERROR_IO, why, "could not open the snapshot store \"%s\"", dir);
    }
    *ret = s;
    return 0;
}

int tree_store_open(const char *dir, struct tree_store **ret, struct error *err)
{
    struct tree_store *s = store_new(dir);
    CLEANUP(cleanup_free) char *head = xasprintf("%s/HEAD", dir);
    if (access(head, F_OK) < 0 && make_layout(s, err) < 0) {
        error_prefix(err, "snapshot store \"%s\"", dir);
        tree_store_close(s);
        return -1;
    }
    (void)lock_store(s, LOCK_SH);
    clean(s, "objects");
    clean(s, "objects/pack");
    clean(s, "big");
    *ret = s;
    return 0;
}

void tree_store_close(struct tree_store *s)
{
    if (!s)
        return;
    git_odb_free(s->odb);
    git_repository_free(s->repository);
    if (s->git_ready)
        git_libgit2_shutdown();
    tree_packs_free(s);
    if (s->lock >= 0)
        close(s->lock);
    free(s->dir);
    free(s);
}

int tree_store_git(struct tree_store *s, struct error *err)
{
    if (!s->git_ready) {
        if (git_libgit2_init() < 0)
            return tree_git_error(err, ERROR_IO, "could not start libgit2");
        s->git_ready = true;
        /* Contents over TREE_BIG_SIZE are not objects, and the ids of a batch are known before its objects exist. */
        (void)git_libgit2_opts(GIT_OPT_ENABLE_STRICT_OBJECT_CREATION, 0);
        /* Reading does not hash again: zlib's checksum detects disk damage, the folder is the user's own (0700), and
         * data from a remote is hashed when it arrives. */
        (void)git_libgit2_opts(GIT_OPT_ENABLE_STRICT_HASH_VERIFICATION, 0);
    }
    if (!s->repository && git_repository_open_ext(&s->repository, s->dir,
                                                  GIT_REPOSITORY_OPEN_NO_SEARCH | GIT_REPOSITORY_OPEN_BARE, NULL) < 0)
        return tree_git_error(err, ERROR_IO, "could not open the snapshot store \"%s\"", s->dir);
    if (!s->odb && git_repository_odb(&s->odb, s->repository) < 0)
        return tree_git_error(err, ERROR_IO, "could not open the objects of \"%s\"", s->dir);
    return 0;
}

static bool loose_has(const struct tree_store *s, const uint8_t oid[TREE_OID_SIZE])
{
    char hex[TREE_ID_LEN + 1];
    tree_hex(oid, hex);
    CLEANUP(cleanup_free) char *path = xasprintf("%s/objects/%.2s/%s", s->dir, hex, hex + 2);
    struct stat st;
    return stat(path, &st) == 0 && st.st_size > 0; /* empty: a power cut lost its content */
}

bool tree_store_has(struct tree_store *s, const uint8_t oid[TREE_OID_SIZE], uint64_t size)
{
    const struct tree_pack *pack;
    uint64_t offset, there;
    if (!s->packs_read)
        tree_packs_read(s);
    if (size > TREE_BIG_SIZE && tree_big_has(s, oid, &there) && there == size)
        return true;
    return tree_pack_find(s, oid, &pack, &offset) || (size <= TREE_BIG_SIZE && loose_has(s, oid));
}
