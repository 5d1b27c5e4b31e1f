/* The commit that is checked out around a folder, and whether the files read there differ from the commit's. */
#include "internal.h"

#include <git2.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GIT_LINK = 0160000, TOO_LARGE_MAX = 20 };

struct listing { /* the commit's files of the folder */
    const struct tree *tree;
    const char *folder; /* on this machine, to tell files that the tree leaves out from deleted ones */
    struct arena *arena;
    git_odb *odb;
    struct tree_file *files;
    size_t count, cap;
    struct buf modules; /* paths of submodules, each with a NUL */
};

static void list_blob(struct listing *l, const char *path, const git_tree_entry *entry)
{
    struct stat st;
    git_object_t type;
    size_t size = 0;
    CLEANUP(cleanup_free) char *full = xasprintf("%s/%s", l->folder, path);
    if (!tree_find(l->tree, path) && lstat(full, &st) == 0)
        return; /* it is left out of the tree on purpose */
    (void)git_odb_read_header(&size, &type, l->odb, git_tree_entry_id(entry));
    if (l->count == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 256;
        l->files = xreallocarray(l->files, l->cap, sizeof *l->files);
    }
    struct tree_file *f = &l->files[l->count++];
    *f = (struct tree_file){
        .path = arena_strdup(l->arena, path), .mode = (uint32_t)git_tree_entry_filemode(entry), .size = size};
    memcpy(f->oid, git_tree_entry_id(entry)->id, TREE_OID_SIZE);
}

/* Called by libgit2 for each entry; root: "" or "a/b/". */
static int list_entry(const char *root, const git_tree_entry *entry, void *arg)
{
    struct listing *l = arg;
    char path[2 * PATH_MAX];
    int len = snprintf(path, sizeof path, "%s%s", root, git_tree_entry_name(entry));
    if (len >= (int)sizeof path)
        return 0;
    if (git_tree_entry_type(entry) == GIT_OBJECT_BLOB)
        list_blob(l, path, entry);
    else if ((uint32_t)git_tree_entry_filemode(entry) == GIT_LINK)
        buf_append(&l->modules, path, (size_t)len + 1);
    return 0;
}

/* Whether it is a file of a submodule, of which the commit has only the name. */
static bool in_module(const struct listing *l, const char *path)
{
    for (size_t at = 0; at < l->modules.len; at += strlen(l->modules.data + at) + 1) {
        size_t len = strlen(l->modules.data + at);
        if (strncmp(path, l->modules.data + at, len) == 0 && path[len] == '/')
            return true;
    }
    return false;
}

/* The commit's tree of the folder, or NULL. */
static git_tree *folder_tree(git_repository *repository, const git_commit *commit, const char *folder)
{
    char real[PATH_MAX], top[PATH_MAX];
    const char *work = git_repository_workdir(repository);
    git_tree *root = NULL, *below = NULL;
    git_tree_entry *entry = NULL;
    if (!work || !realpath(folder, real) || !realpath(work, top) || git_commit_tree(&root, commit) < 0)
        return NULL;
    size_t len = strlen(top);
    if (strcmp(real, top) == 0)
        return root;
    if (strncmp(real, top, len) == 0 && real[len] == '/' && git_tree_entry_bypath(&entry, root, real + len + 1) == 0 &&
        git_tree_entry_type(entry) == GIT_OBJECT_TREE &&
        git_tree_lookup(&below, repository, git_tree_entry_id(entry)) < 0)
        below = NULL;
    git_tree_entry_free(entry);
    git_tree_free(root);
    return below;
}

static bool is_utf8(const struct buf *b, size_t from)
{
    for (size_t at = from, n; at < b->len; at += n)
        if (!(n = utf8_length((const unsigned char *)b->data + at, b->len - at)))
            return false;
    return true;
}

/* A file's diff is complete, or left out. */
static void write_diff(struct tree_store *before, struct tree_store *after, const struct tree_change *changes,
                       size_t count, struct arena *arena, struct tree_head *ret)
{
    struct buf b = {0};
    unsigned large = 0;
    for (size_t i = 0; i < count && large < TOO_LARGE_MAX; i++) {
        const size_t len = b.len;
        const bool read = tree_change_text(before, after, &changes[i], &b, NULL) == 0;
        if (!read || b.len > TREE_HEAD_DIFF_MAX || !is_utf8(&b, len)) {
            large += b.len > TREE_HEAD_DIFF_MAX;
            b.len = len;
            ret->diff_cut = true;
        }
    }
    ret->diff = arena_strndup(arena, b.data ? b.data : "", b.len);
    buf_free(&b);
}

static void find_dirty(git_repository *repository, const git_commit *commit, const char *folder, struct tree_head *ret,
                       const struct tree *tree, struct tree_store *store, struct arena *arena)
{
    struct listing l = {.tree = tree, .folder = folder, .arena = arena_create()};
    CLEANUP(cleanup_free) char *dir = xstrdup(git_repository_commondir(repository));
    struct tree_store there = {.dir = dir, .repository = repository, .git_ready = true};
    struct tree_change *changes;
    size_t count, kept = 0;
    git_tree *root = folder_tree(repository, commit, folder);
    if (root && git_repository_odb(&l.odb, repository) == 0) {
        ret->knows_dirty = git_tree_walk(root, GIT_TREEWALK_PRE, list_entry, &l) == 0;
        const struct tree was = {.files = l.files, .count = l.count};
        tree_changes(&was, tree, l.arena, &changes, &count);
        for (size_t i = 0; i < count; i++)
            if (changes[i].before || !in_module(&l, changes[i].path))
                changes[kept++] = changes[i];
        ret->dirty = kept > 0;
        if (store && ret->dirty)
            write_diff(&there, store, changes, kept, arena, ret);
    }
    tree_packs_free(&there);
    git_odb_free(there.odb);
    git_odb_free(l.odb);
    git_tree_free(root);
    free(l.files);
    buf_free(&l.modules);
    arena_destroy(l.arena);
}

/* Whether the folder may be in a repository, judged by names. libgit2 reads all certificates of the machine when it
 * starts, which takes longer than a short job. */
static bool may_be_in_repository(const char *folder)
{
    static const char *const signs[] = {".git", "HEAD"}; /* HEAD: of a bare one */
    char path[PATH_MAX], name[PATH_MAX + 8];
    if (!realpath(folder, path))
        return false;
    for (size_t len = strlen(path);; path[len] = 0) {
        for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
            snprintf(name, sizeof name, "%s/%s", path, signs[i]);
            if (access(name, F_OK) == 0)
                return true;
        }
        if (len == 0)
            return false;
        while (len > 0 && path[--len] != '/')
            ;
    }
}

bool tree_head(const char *folder, const struct tree *tree, struct tree_store *store, struct arena *arena,
               struct tree_head *ret)
{
    git_repository *repository = NULL;
    git_reference *head = NULL;
    git_object *commit = NULL;
    char hex[TREE_ID_LEN + 1];
    bool found = false;
    if (!may_be_in_repository(folder) || git_libgit2_init() < 0)
        return false;
    if (git_repository_open_ext(&repository, folder, 0, NULL) == 0 && git_repository_head(&head, repository) == 0 &&
        git_reference_peel(&commit, head, GIT_OBJECT_COMMIT) == 0) {
        *ret = (struct tree_head){0};
        tree_hex(git_object_id(commit)->id, hex);
        ret->commit = arena_strdup(arena, hex);
        if (git_reference_is_branch(head))
            ret->branch = arena_strdup(arena, git_reference_shorthand(head));
        if (tree)
            find_dirty(repository, (const git_commit *)commit, folder, ret, tree, store, arena);
        found = true;
    }
    git_object_free(commit);
    git_reference_free(head);
    git_repository_free(repository);
    git_libgit2_shutdown();
    return found;
}
