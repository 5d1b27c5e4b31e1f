/* Trees and a few files beside them in one file: a git bundle (gitformat-bundle(5)) of one commit. git can read it, and
 * so can a store: libgit2 indexes the pack after the header into the store, and hashes every object. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <git2.h>
#include <git2/sys/odb_backend.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUNDLE_HEADER "# v2 git bundle\n"

enum { CHUNK = 1 << 20, HEADER_MAX = 64 << 10, OPEN_AT_ONCE = 16 };

/* ---- writing ---- */

struct writer {
    git_repository *repository; /* a temporary one, which sees the store's objects */
    git_odb *odb;
    struct error *err;
};

static int blob(struct writer *w, const void *data, size_t len, git_oid *ret)
{
    return git_blob_create_from_buffer(ret, w->repository, data, len) < 0
               ? tree_git_error(w->err, ERROR_IO, "could not write into the bundle")
               : 0;
}

/* A content that is too big for an object in the store is an object here. */
static int add_big(struct writer *w, struct tree_store *s, const struct tree *t)
{
    for (size_t i = 0; i < t->count; i++) {
        git_oid id;
        uint64_t size;
        if (t->files[i].size <= TREE_BIG_SIZE || !tree_big_has(s, t->files[i].oid, &size))
            continue;
        CLEANUP(cleanup_free) char *path = tree_big_path(s, t->files[i].oid);
        if (git_blob_create_from_disk(&id, w->repository, path) < 0)
            return tree_git_error(w->err, ERROR_IO, "could not put \"%s\" into the bundle", t->files[i].path);
        if (memcmp(id.id, t->files[i].oid, TREE_OID_SIZE) != 0)
            return error_set(w->err, ERROR_IO, "the content of \"%s\" is damaged in the snapshot store",
                             t->files[i].path);
    }
    return 0;
}

static int put(struct writer *w, git_treebuilder *b, const char *name, const git_oid *id, git_filemode_t mode)
{
    return git_treebuilder_insert(NULL, b, name, id, mode) < 0
               ? tree_git_error(w->err, ERROR_IO, "could not put \"%s\" into the bundle", name)
               : 0;
}

/* Adds the files of `folder` ("": files at the top go into the root itself). */
static int put_files(struct writer *w, git_treebuilder *b, const char *folder, const struct tree_bundle_file *files,
                     size_t count)
{
    size_t len = strlen(folder);
    for (size_t i = 0; i < count; i++) {
        const char *slash = strchr(files[i].path, '/');
        git_oid id;
        if (len ? !slash || (size_t)(slash - files[i].path) != len || strncmp(files[i].path, folder, len) != 0
                : !!slash)
            continue;
        if (blob(w, files[i].data, files[i].len, &id) < 0 ||
            put(w, b, slash ? slash + 1 : files[i].path, &id, GIT_FILEMODE_BLOB) < 0)
            return -1;
    }
    return 0;
}

static int put_folder(struct writer *w, git_treebuilder *root, const char *folder, const struct tree_bundle *what)
{
    git_treebuilder *b = NULL;
    git_oid id;
    int rc = git_treebuilder_new(&b, w->repository, NULL) < 0 ? tree_git_error(w->err, ERROR_IO, "no memory") : 0;
    for (size_t i = 0; rc == 0 && strcmp(folder, "trees") == 0 && i < what->tree_count; i++) {
        char name[24];
        uint8_t oid[TREE_OID_SIZE];
        git_oid tree;
        snprintf(name, sizeof name, "%zu", i);
        hex_decode(what->trees[i]->id, oid, sizeof oid);
        memcpy(tree.id, oid, sizeof oid);
        rc = what->trees[i]->count == 0 ? 0
                                        : put(w, b, name, &tree, GIT_FILEMODE_TREE); /* the empty tree needs nothing */
    }
    if (rc == 0)
        rc = put_files(w, b, folder, what->files, what->file_count);
    if (rc == 0 && git_treebuilder_entrycount(b) > 0) {
        rc = git_treebuilder_write(&id, b) < 0 ? tree_git_error(w->err, ERROR_IO, "could not write the bundle") : 0;
        if (rc == 0)
            rc = put(w, root, folder, &id, GIT_FILEMODE_TREE);
    }
    git_treebuilder_free(b);
    return rc;
}

static int make_commit(struct writer *w, const struct tree_bundle *what, git_oid *ret)
{
    static const char *const folders[] = {"trees", "logs", "result"};
    git_treebuilder *root = NULL;
    git_tree *tree = NULL;
    git_signature *who = NULL;
    git_oid id;
    int rc = git_treebuilder_new(&root, w->repository, NULL) < 0 ? tree_git_error(w->err, ERROR_IO, "no memory") : 0;
    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(folders); i++)
        rc = put_folder(w, root, folders[i], what);
    if (rc == 0)
        rc = put_files(w, root, "", what->files, what->file_count);
    if (rc == 0 &&
        (git_treebuilder_write(&id, root) < 0 || git_tree_lookup(&tree, w->repository, &id) < 0 ||
         git_signature_new(&who, "rhrun", "rhrun@localhost", 0, 0) < 0 ||
         git_commit_create(ret, w->repository, "refs/heads/main", who, who, NULL, what->message, tree, 0, NULL) < 0))
        rc = tree_git_error(w->err, ERROR_IO, "could not write the bundle's commit");
    git_signature_free(who);
    git_tree_free(tree);
    git_treebuilder_free(root);
    return rc;
}

static int write_chunk(void *data, size_t size, void *fd)
{
    return write_all(*(const int *)fd, data, size) < 0 ? -1 : 0;
}

static int write_pack(struct writer *w, const git_oid *commit, int fd)
{
    git_packbuilder *pack = NULL;
    char hex[TREE_ID_LEN + 1];
    tree_hex(commit->id, hex);
    CLEANUP(cleanup_free) char *head = xasprintf(BUNDLE_HEADER "%s refs/heads/main\n%s HEAD\n\n", hex, hex);
    int rc = write_all(fd, head, strlen(head));
    if (rc < 0)
        return error_errno(w->err, ERROR_IO, errno, "could not write the bundle");
    errno = 0;
    if (git_packbuilder_new(&pack, w->repository) < 0 || git_packbuilder_insert_commit(pack, commit) < 0 ||
        git_packbuilder_foreach(pack, write_chunk, &fd) < 0)
        rc = errno ? error_errno(w->err, ERROR_IO, errno, "could not write the bundle")
                   : tree_git_error(w->err, ERROR_IO, "could not write the bundle");
    git_packbuilder_free(pack);
    return rc;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static int write_to(struct tree_store *s, const struct tree_bundle *what, const char *folder, int fd, struct error *err)
{
    struct writer w = {.err = err};
    git_oid commit;
    CLEANUP(cleanup_free) char *objects = xasprintf("%s/objects", tree_store_dir(s));
    int rc = 0;
    if (tree_store_git(s, err) < 0)
        return -1;
    if (git_repository_init(&w.repository, folder, 1) < 0 || git_repository_odb(&w.odb, w.repository) < 0 ||
        git_odb_add_disk_alternate(w.odb, objects) < 0)
        rc = tree_git_error(err, ERROR_IO, "could not begin the bundle in \"%s\"", folder);
    for (size_t i = 0; rc == 0 && i < what->tree_count; i++)
        rc = add_big(&w, s, what->trees[i]);
    if (rc == 0)
        rc = make_commit(&w, what, &commit);
    if (rc == 0)
        rc = write_pack(&w, &commit, fd);
    git_odb_free(w.odb);
    git_repository_free(w.repository);
    return rc;
}

int tree_bundle_write(struct tree_store *s, const struct tree_bundle *what, const char *path, struct error *err)
{
    CLEANUP(cleanup_free) char *folder = xasprintf("%s.XXXXXX", path);
    CLEANUP(cleanup_free) char *file = NULL;
    if (!mkdtemp(folder))
        return error_errno(err, ERROR_IO, errno, "could not write beside \"%s\"", path);
    file = xasprintf("%s/bundle", folder);
    CLEANUP(cleanup_close) int fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int rc = fd < 0 ? error_errno(err, ERROR_IO, errno, "could not create \"%s\"", file) : 0;
    CLEANUP(cleanup_free) char *repository = xasprintf("%s/git", folder);
    if (rc == 0)
        rc = write_to(s, what, repository, fd, err);
    if (rc == 0 && (fsync(fd) < 0 || rename(file, path) < 0))
        rc = error_errno(err, ERROR_IO, errno, "could not write \"%s\"", path);
    (void)nftw(folder, remove_one, OPEN_AT_ONCE, FTW_DEPTH | FTW_PHYS);
    return rc;
}

/* ---- reading ---- */

bool tree_is_bundle(const char *path)
{
    char head[sizeof BUNDLE_HEADER];
    CLEANUP(cleanup_close) int fd = file_open(path, NULL, NULL);
    return fd >= 0 && read(fd, head, sizeof head - 1) == sizeof head - 1 &&
           memcmp(head, BUNDLE_HEADER, sizeof head - 1) == 0;
}

/* The commit of the first reference; *ret_at: where the pack begins. */
static int read_header(int fd, const char *path, char ret_commit[TREE_ID_LEN + 1], size_t *ret_at, struct error *err)
{
    CLEANUP(cleanup_free) char *text = xcalloc(HEADER_MAX + 1, 1);
    ssize_t n = pread(fd, text, HEADER_MAX, 0);
    const char *line = text + strlen(BUNDLE_HEADER), *end = n > 0 ? memmem(text, (size_t)n, "\n\n", 2) : NULL;
    if (!end || !str_starts(text, BUNDLE_HEADER))
        return error_set(err, ERROR_SPEC, "\"%s\" is not a git bundle of version 2", path);
    if (*line == '-')
        return error_set(err, ERROR_SPEC, "\"%s\" needs commits that are not in it", path);
    snprintf(ret_commit, TREE_ID_LEN + 1, "%s", line);
    if (!str_is_hex(ret_commit, TREE_ID_LEN) || line[TREE_ID_LEN] != ' ')
        return error_set(err, ERROR_SPEC, "\"%s\": its header is damaged", path);
    *ret_at = (size_t)(end + 2 - text);
    return 0;
}

static int read_pack(struct tree_store *s, int fd, size_t at, const char *path, struct error *err)
{
    git_odb_writepack *pack = NULL;
    git_indexer_progress stats = {0};
    CLEANUP(cleanup_free) char *data = xmalloc(CHUNK);
    ssize_t n = 0;
    int rc = git_odb_write_pack(&pack, s->odb, NULL, NULL);
    while (rc >= 0 && (n = pread(fd, data, CHUNK, (off_t)at)) > 0) {
        rc = pack->append(pack, data, (size_t)n, &stats);
        at += (size_t)n;
    }
    if (rc >= 0 && n == 0)
        rc = pack->commit(pack, &stats);
    if (pack)
        pack->free(pack);
    if (n < 0)
        return error_errno(err, ERROR_IO, errno, "could not read \"%s\"", path);
    return rc < 0 ? tree_git_error(err, ERROR_SPEC, "\"%s\" is damaged", path) : 0;
}

static int read_blob(struct tree_store *s, const char *commit, const char *name, size_t max, struct buf *ret,
                     struct error *err)
{
    git_oid id;
    git_object *found = NULL, *blob_found = NULL;
    int rc = -1;
    if (git_oid_fromstr(&id, commit) == 0 && git_object_lookup(&found, s->repository, &id, GIT_OBJECT_COMMIT) == 0 &&
        git_object_lookup_bypath(&blob_found, found, name, GIT_OBJECT_BLOB) == 0 &&
        (uint64_t)git_blob_rawsize((git_blob *)blob_found) <= max) {
        buf_append(ret, git_blob_rawcontent((git_blob *)blob_found), (size_t)git_blob_rawsize((git_blob *)blob_found));
        rc = 0;
    }
    git_object_free(blob_found);
    git_object_free(found);
    return rc == 0 ? 0 : error_set(err, ERROR_SPEC, "it has no %s, or one that is too long", name);
}

int tree_bundle_read(struct tree_store *s, const char *path, const char *name, size_t max, struct buf *ret,
                     struct error *err)
{
    char commit[TREE_ID_LEN + 1];
    size_t at = 0;
    CLEANUP(cleanup_close) int fd = file_open(path, NULL, err);
    if (fd < 0 || read_header(fd, path, commit, &at, err) < 0 || tree_store_git(s, err) < 0 ||
        read_pack(s, fd, at, path, err) < 0)
        return -1;
    tree_packs_read(s);
    if (read_blob(s, commit, name, max, ret, err) == 0)
        return 0;
    error_prefix(err, "\"%s\"", path);
    return -1;
}
