/* apply: which specs are in a set. */
#include "apply.h"

#include "rhrun/doc.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH_MAX = 64, FILES_MAX = 1000000 };

struct gather {
    struct apply *a;
    const char *base;
    struct tree_repo *repo; /* the repository of the walked folder, or NULL */
    size_t cap, seen;
};

static bool has_suffix(const char *name)
{
    return str_ends(name, ".yaml") || str_ends(name, ".yml");
}

static const char *shown(const struct gather *g, const char *path)
{
    const size_t len = strlen(g->base);
    return strncmp(path, g->base, len) == 0 && path[len] == '/' ? path + len + 1 : path;
}

static int add(struct gather *g, const char *file, struct error *err)
{
    struct apply *a = g->a;
    struct arena *arena = a->c->arena;
    for (size_t i = 0; i < a->count; i++)
        if (str_eq(a->jobs[i].file, file))
            return 0; /* named twice */
    if (a->count == APPLY_SPECS_MAX)
        return error_set(err, ERROR_USAGE, "there are more than %d specs", APPLY_SPECS_MAX);
    if (a->count == g->cap) {
        g->cap = g->cap ? 2 * g->cap : 64;
        a->jobs = xreallocarray(a->jobs, g->cap, sizeof *a->jobs);
    }
    a->jobs[a->count++] =
        (struct apply_job){.of = a, .file = arena_strdup(arena, file), .path = arena_strdup(arena, shown(g, file))};
    return 0;
}

/* A spec has an entrypoint or roles. A file that is not valid YAML counts too: planning reports its faults. */
static bool is_spec(const char *file)
{
    struct arena *arena = arena_create();
    struct diagnostics d = {0};
    struct doc *doc;
    bool is = true;
    if (doc_load_file(file, DOC_FORMAT_AUTO, arena, &doc, &d, NULL) == 0)
        is = doc->root->type == DOC_OBJECT && (doc_get(doc->root, "entrypoint") || doc_get(doc->root, "roles"));
    diagnostics_free(&d);
    arena_destroy(arena);
    return is;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int wanted(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static int walk(struct gather *g, const char *dir, int depth, struct error *err)
{
    struct dirent **list;
    if (depth > DEPTH_MAX)
        return error_set(err, ERROR_USAGE, "\"%s\" lies deeper than %d folders", dir, DEPTH_MAX);
    const int n = scandir(dir, &list, wanted, by_name);
    if (n < 0)
        return error_errno(err, ERROR_IO, errno, "could not read folder \"%s\"", dir);
    int rc = 0;
    for (int i = 0; i < n; i++) {
        CLEANUP(cleanup_free) char *path = xasprintf("%s/%s", strcmp(dir, "/") == 0 ? "" : dir, list[i]->d_name);
        struct stat st;
        free(list[i]);
        if (rc < 0 || lstat(path, &st) < 0) /* it is gone meanwhile, or an error ends the walk anyway */
            continue;
        if (++g->seen > FILES_MAX)
            rc = error_set(err, ERROR_USAGE, "\"%s\" has more than %d files", g->base, FILES_MAX);
        else if (!S_ISDIR(st.st_mode) && (!S_ISREG(st.st_mode) || !has_suffix(path)))
            continue;
        else if (g->repo && tree_repo_ignores(g->repo, path, S_ISDIR(st.st_mode)))
            continue;
        else if (S_ISDIR(st.st_mode))
            rc = walk(g, path, depth + 1, err);
        else if (!str_ends(path, ".lock.yaml") && is_spec(path))
            rc = add(g, path, err);
    }
    free(list);
    return rc;
}

static int add_folder(struct gather *g, const char *dir, struct error *err)
{
    CLEANUP(cleanup_free) char *real = realpath(dir, NULL);
    if (!real)
        return error_errno(err, ERROR_USAGE, errno, "cannot find \"%s\"", dir);
    struct apply *a = g->a;
    a->folders = xreallocarray(a->folders, a->folder_count + 1, sizeof *a->folders);
    a->folders[a->folder_count++] =
        (struct apply_folder){arena_strdup(a->c->arena, real), spec_folder_origin(real, a->c->arena)};
    g->repo = a->commit ? NULL : tree_repo_open(real, NULL); /* in a commit every file is there on purpose */
    int rc = walk(g, real, 0, err);
    tree_repo_close(g->repo);
    g->repo = NULL;
    return rc;
}

/* Escapes the base: it is not a pattern, whatever its name. */
static char *pattern_of(const char *base, const char *word)
{
    struct buf b = {0};
    for (const char *p = *word == '/' ? "" : base; *p; p++) {
        if (strchr("*?[]\\", *p))
            buf_putc(&b, '\\');
        buf_putc(&b, *p);
    }
    if (*word != '/')
        buf_putc(&b, '/');
    buf_puts(&b, word);
    return buf_steal(&b);
}

static int add_word(struct gather *g, const char *word, struct error *err)
{
    struct stat st;
    CLEANUP(cleanup_free) char *plain = *word == '/' ? xstrdup(word) : xasprintf("%s/%s", g->base, word);
    path_clean(plain);
    if (stat(plain, &st) == 0)
        return S_ISDIR(st.st_mode) ? add_folder(g, plain, err) : add(g, plain, err);
    CLEANUP(cleanup_free) char *pattern = pattern_of(g->base, word);
    glob_t found;
    int rc = glob(pattern, 0, NULL, &found);
    if (rc == GLOB_NOMATCH) {
        error_set(err, ERROR_USAGE, "there is no \"%s\"%s%s", word, g->a->commit ? " in commit " : "",
                  g->a->commit ? g->a->commit : "");
        error_hint(err, "name a folder with specs, a spec, or a pattern such as 'jobs/*.yaml'");
        return -1;
    }
    if (rc != 0)
        return error_set(err, ERROR_IO, "could not look for \"%s\"", word);
    rc = 0;
    for (size_t i = 0; rc == 0 && i < found.gl_pathc; i++)
        if (stat(found.gl_pathv[i], &st) == 0 && S_ISREG(st.st_mode))
            rc = add(g, path_clean(found.gl_pathv[i]), err);
    globfree(&found);
    return rc;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct apply_job *)a)->path, ((const struct apply_job *)b)->path);
}

int apply_gather(struct apply *a, const char *base, const char *const *words, size_t count)
{
    struct gather g = {.a = a, .base = base};
    struct error err = ERROR_INIT;
    a->word_count = count;
    for (size_t i = 0; i < count; i++)
        if (add_word(&g, words[i], &err) < 0)
            return cli_fail(a->c, &err);
    if (a->count)
        qsort(a->jobs, a->count, sizeof *a->jobs, by_path);
    return 0;
}
