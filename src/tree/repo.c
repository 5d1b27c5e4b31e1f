/* A repository in which somebody works, or a bare clone of it: its place, its ignored and uncommitted files, and notes
 * on its commits. */
#include "internal.h"
#include "scan.h"

#include <git2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct tree_repo {
    struct arena *arena;
    const char *root, *below, *git_dir, *common_dir;
    bool bare;
    bool started;           /* git_libgit2_init was called */
    git_repository *opened; /* NULL until it is needed */
};

/* Finds the existing part of a path; the rest is not checked. */
static bool find(struct tree_repo *r, const char *path)
{
    char *top = arena_strdup(r->arena, path);
    for (;;) {
        char *git_dir, *common;
        const char *at = *top ? top : "/";
        CLEANUP(cleanup_free) char *real = realpath(at, NULL);
        if (real && repo_find(real, r->arena, &git_dir, &common)) {
            r->git_dir = git_dir;
            r->common_dir = common;
        } else if (real && repo_is_bare(real)) {
            r->bare = true;
            r->git_dir = r->common_dir = arena_strdup(r->arena, real);
        }
        if (r->git_dir) {
            r->root = arena_strdup(r->arena, real);
            r->below = path + strlen(top);
            r->below += strspn(r->below, "/");
            r->below = arena_strdup(r->arena, r->below);
            return true;
        }
        char *slash = strrchr(top, '/');
        if (!slash)
            return false;
        *slash = 0;
    }
}

struct tree_repo *tree_repo_open(const char *path, struct error *err)
{
    struct tree_repo *r = xcalloc(1, sizeof *r);
    r->arena = arena_create();
    if (find(r, path) && git_files_check(r->git_dir, r->common_dir, err) == 0)
        return r;
    if (!r->git_dir)
        (void)error_set(err, ERROR_USAGE, "\"%s\" is in no git repository", path);
    tree_repo_close(r);
    return NULL;
}

void tree_repo_close(struct tree_repo *r)
{
    if (!r)
        return;
    git_repository_free(r->opened);
    if (r->started)
        git_libgit2_shutdown();
    arena_destroy(r->arena);
    free(r);
}

const char *tree_repo_root(const struct tree_repo *r)
{
    return r->root;
}

const char *tree_repo_below(const struct tree_repo *r)
{
    return r->below;
}

bool tree_repo_bare(const struct tree_repo *r)
{
    return r->bare;
}

static int open_it(struct tree_repo *r, struct error *err)
{
    enum { NOT_OURS = -36 /* GIT_EOWNER, in the headers since libgit2 1.4.3 */ };
    if (r->opened)
        return 0;
    if (!r->started && git_libgit2_init() < 0)
        return tree_git_error(err, ERROR_IO, "could not start libgit2");
    r->started = true;
    int rc = git_repository_open_ext(&r->opened, r->root, GIT_REPOSITORY_OPEN_NO_SEARCH, NULL);
    if (rc == 0)
        return 0;
    (void)tree_git_error(err, ERROR_INFRA, "could not open the git repository \"%s\"", r->root);
    if (rc == NOT_OURS) {
        error_why(err, ERROR_WHY_OWNER);
        struct buf word = {0};
        buf_shell_quote(&word, r->root);
        error_hint(err, "git config --global --add safe.directory %s", word.data);
        buf_free(&word);
    }
    return -1;
}

bool tree_repo_ignores(struct tree_repo *r, const char *path, bool folder)
{
    const size_t len = strcmp(r->root, "/") == 0 ? 0 : strlen(r->root);
    int ignored = 0;
    if (r->bare || strncmp(path, r->root, len) != 0 || path[len] != '/' || open_it(r, NULL) < 0)
        return false;
    CLEANUP(cleanup_free) char *below = xasprintf("%s%s", path + len + 1, folder ? "/" : "");
    return git_ignore_path_is_ignored(&ignored, r->opened, below) == 0 && ignored;
}

long tree_repo_changes(struct tree_repo *r, size_t max, struct arena *arena, const char *const **ret, struct error *err)
{
    git_status_options o;
    git_status_list *list = NULL;
    if (r->bare)
        return 0;
    if (open_it(r, err) < 0)
        return -1;
    (void)git_status_options_init(&o, GIT_STATUS_OPTIONS_VERSION);
    o.show = GIT_STATUS_SHOW_INDEX_AND_WORKDIR;
    o.flags = GIT_STATUS_OPT_INCLUDE_UNTRACKED;
    if (git_status_list_new(&list, r->opened, &o) < 0)
        return tree_git_error(err, ERROR_INFRA, "could not compare \"%s\" with its last commit", r->root);
    const size_t count = git_status_list_entrycount(list);
    const char **paths = arena_array(arena, max + 1, sizeof *paths);
    for (size_t i = 0; i < count && i < max; i++) {
        const git_status_entry *e = git_status_byindex(list, i);
        const git_diff_delta *d = e->index_to_workdir ? e->index_to_workdir : e->head_to_index;
        paths[i] = arena_strdup(arena, d->new_file.path ? d->new_file.path : d->old_file.path);
    }
    git_status_list_free(list);
    *ret = paths;
    return (long)count;
}

int tree_repo_note(struct tree_repo *r, const char *commit, const char *text, struct error *err)
{
    git_signature *by = NULL;
    git_commit *of = NULL;
    git_oid id, note;
    if (open_it(r, err) < 0)
        return -1;
    int rc = git_oid_fromstr(&id, commit);
    if (rc == 0)
        rc = git_commit_lookup(&of, r->opened, &id);
    git_commit_free(of);
    if (rc == 0 && git_signature_default(&by, r->opened) < 0) /* nobody has configured a name */
        rc = git_signature_now(&by, "rhrun", "rhrun@localhost");
    if (rc == 0)
        rc = git_note_create(&note, r->opened, "refs/notes/rhrun", by, by, &id, text, 1);
    git_signature_free(by);
    return rc < 0
               ? tree_git_error(err, ERROR_INFRA, "could not write the note of commit %.12s to \"%s\"", commit, r->root)
               : 0;
}
