/*
 * Input files: one walk below the folder for all patterns of a step, which enters only folders where something may
 * match. So that a job never makes itself stale, it leaves out .git, the spec itself, and everything that items of
 * set-up create.
 */
#include "internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct match {
    char *path;                   /* relative */
    size_t pattern;               /* the first pattern that matches */
    const struct tree_file *file; /* the file in the tree; NULL: it is on disk */
};
struct walk {
    struct plan_builder *b;
    const char *dir;              /* the folder that is walked, */
    const struct tree *tree;      /* or the tree that is read instead */
    const struct tree_file *file; /* the current file of the tree */
    const char **patterns;
    size_t pattern_count;
    bool *hit;           /* per pattern */
    const char *sources; /* name of the one input for all files; results of builds are not sources */
    const char **left_out;
    size_t left_out_count;
    struct match *matches;
    size_t count, cap, visits;
    struct buf path; /* relative path of the current entry */
};

/* ---- patterns ---- */

static int clean_pattern(struct walk *w, size_t i, const struct spec_text *text, struct error *err)
{
    const char *p;
    if (plan_expand(w->b, text, EXPR_PLAIN, &p, err) < 0)
        return -1;
    while (str_starts(p, "./"))
        p += 2 + strspn(p + 2, "/");
    char *copy = arena_strdup(w->b->arena, p);
    size_t len = strlen(copy);
    while (len && copy[len - 1] == '/')
        copy[--len] = 0;
    if (!*copy || str_eq(copy, "."))
        copy = arena_strdup(w->b->arena, "**");
    bool up = str_eq(copy, "..") || str_starts(copy, "../") || strstr(copy, "/../") || str_ends(copy, "/..");
    if (*copy == '/' || up)
        return error_set(err, ERROR_SPEC, "the input pattern \"%s\" leaves the working directory", text->text);
    w->patterns[i] = copy;
    return 0;
}

/* In reasons a pattern appears as the user wrote it. */
static int read_patterns(struct walk *w, const struct spec_texts *patterns, struct error *err)
{
    w->patterns = xcalloc(patterns->count + 1, sizeof *w->patterns);
    w->hit = xcalloc(patterns->count + 1, sizeof *w->hit);
    w->pattern_count = patterns->count;
    for (size_t i = 0; i < patterns->count; i++)
        if (clean_pattern(w, i, &patterns->items[i], err) < 0)
            return -1;
    return 0;
}

static int read_left_out(struct walk *w, struct error *err)
{
    const struct spec *spec = w->b->plan->spec;
    w->left_out = xcalloc(spec->setup_count + 1, sizeof *w->left_out);
    if (spec->path) {
        const char *base = strrchr(spec->path, '/');
        w->left_out[w->left_out_count++] = base ? base + 1 : spec->path;
    }
    for (size_t i = 0; i < spec->setup_count; i++) {
        const char *p;
        if (!spec->setup[i].creates.text)
            continue;
        if (plan_expand(w->b, &spec->setup[i].creates, EXPR_PLAIN, &p, err) < 0)
            return -1;
        while (str_starts(p, "./"))
            p += 2;
        if (*p)
            w->left_out[w->left_out_count++] = p;
    }
    return 0;
}

static bool is_left_out(const struct walk *w, const char *path)
{
    for (size_t i = 0; i < w->left_out_count; i++) {
        size_t len = strlen(w->left_out[i]);
        while (len && w->left_out[i][len - 1] == '/')
            len--;
        if (len && strncmp(path, w->left_out[i], len) == 0 && (path[len] == 0 || path[len] == '/'))
            return true;
    }
    return false;
}

/* ---- the walk ---- */

/* A pattern without wildcards may name a folder, and then means everything below it. */
static bool below_named(const char *pattern, const char *path)
{
    size_t len = strlen(pattern);
    return !glob_has_wildcards(pattern) && strncmp(path, pattern, len) == 0 && path[len] == '/';
}

static int found(struct walk *w, struct error *err)
{
    const char *path = w->path.data;
    bool any = false;
    for (size_t i = 0; i < w->pattern_count; i++) {
        if (!glob_match(w->patterns[i], path) && !below_named(w->patterns[i], path))
            continue;
        w->hit[i] = true;
        if (any)
            continue;
        any = true;
        if (w->count == PLAN_FILES_MAX)
            return error_set(err, ERROR_SPEC, "the input pattern \"%s\" matches more than %d files", w->patterns[i],
                             PLAN_FILES_MAX);
        if (w->count == w->cap) {
            w->cap = w->cap ? 2 * w->cap : 64;
            w->matches = xreallocarray(w->matches, w->cap, sizeof *w->matches);
        }
        w->matches[w->count++] = (struct match){xstrdup(path), i, w->file};
    }
    return 0;
}

static bool may_enter(const struct walk *w, bool link)
{
    for (size_t i = 0; i < w->pattern_count; i++) {
        const char *p = w->patterns[i], *path = w->path.data;
        bool by_star;
        if (glob_may_enter(p, path, &by_star) && !(by_star && link)) /* a link below `**` may lead anywhere */
            return true;
        if (str_eq(p, path) || (!link && below_named(p, path)))
            return true;
    }
    return false;
}

static int walk_folder(struct walk *w, int depth, struct error *err);

static bool is_built(const char *name)
{
    static const char *const names[] = {"build", "dist", "__pycache__", "node_modules", "venv"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (str_eq(name, names[i]))
            return true;
    return *name == '.' || str_ends(name, ".egg-info") || str_ends(name, ".pyc");
}

static int visit(struct walk *w, int dir_fd, const char *name, int depth, struct error *err)
{
    struct stat st;
    if (++w->visits > PLAN_VISITS_MAX)
        return error_set(err, ERROR_SPEC, "the input patterns look at more than %d files", PLAN_VISITS_MAX);
    if ((w->sources && is_built(name)) || is_left_out(w, w->path.data) ||
        fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    bool link = S_ISLNK(st.st_mode);
    if (link && fstatat(dir_fd, name, &st, 0) < 0)
        return 0; /* a dangling link: there is nothing to read */
    if (S_ISDIR(st.st_mode))
        return depth < PLAN_DEPTH_MAX && may_enter(w, link) ? walk_folder(w, depth + 1, err) : 0;
    return S_ISREG(st.st_mode) ? found(w, err) : 0;
}

static int walk_folder(struct walk *w, int depth, struct error *err)
{
    CLEANUP(cleanup_free) char *full = xasprintf("%s/%s", w->dir, w->path.len ? w->path.data : "");
    DIR *d = opendir(full);
    if (!d)
        return depth && errno == ENOENT ? 0
                                        : error_errno(err, ERROR_IO, errno, "could not read the folder \"%s\"", full);
    size_t len = w->path.len;
    int rc = 0;
    for (struct dirent *e; rc == 0 && (e = readdir(d));) {
        if (str_eq(e->d_name, ".") || str_eq(e->d_name, "..") || str_eq(e->d_name, ".git"))
            continue;
        if (len)
            buf_putc(&w->path, '/');
        buf_puts(&w->path, e->d_name);
        rc = visit(w, dirfd(d), e->d_name, depth, err);
        w->path.len = len;
        w->path.data[len] = 0;
    }
    closedir(d);
    return rc;
}

/* ---- inputs ---- */

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct match *)a)->path, ((const struct match *)b)->path);
}

/* The value of a file's input: its digest or, with a tree, the id of git's blob. */
static int file_value(const struct walk *w, const struct match *m, char ret[72], struct error *err)
{
    char hex[65];
    if (m->file) {
        for (size_t i = 0; i < TREE_OID_SIZE; i++)
            snprintf(ret + 2 * i, 3, "%02x", m->file->oid[i]);
        return 0;
    }
    CLEANUP(cleanup_free) char *full = xasprintf("%s/%s", w->dir, m->path);
    if (digest_sha256_file(full, hex, err) < 0)
        return -1;
    snprintf(ret, 72, "sha256:%s", hex);
    return 0;
}

static int add_inputs(struct walk *w, struct plan_step *s, const struct spec_texts *patterns, struct error *err)
{
    struct arena *arena = w->b->arena;
    bool named = w->count <= PLAN_FILES_NAMED && !w->sources;
    struct buf *lists = xcalloc(w->pattern_count + 1, sizeof *lists); /* per pattern: path and digest of each file */
    int rc = 0;
    if (w->count)
        qsort(w->matches, w->count, sizeof *w->matches, by_path);
    for (size_t i = 0; i < w->count && rc == 0; i++) {
        char value[72] = "";
        const char *path = w->matches[i].path;
        rc = file_value(w, &w->matches[i], value, err);
        if (rc == 0 && named)
            plan_input(w->b, s, arena_printf(arena, "inputs %s", path), value);
        else if (rc == 0)
            buf_printf(&lists[w->matches[i].pattern], "%zu:%s%s", strlen(path), path, value);
    }
    for (size_t i = 0; i < w->pattern_count && rc == 0; i++) {
        const char *name = w->sources ? w->sources : arena_printf(arena, "inputs %s", patterns->items[i].text);
        if (!w->hit[i]) {
            plan_input(w->b, s, name, "none");
            s->hint = arena_printf(arena, "the input pattern \"%s\" matches no file", patterns->items[i].text);
        } else if (!named && lists[i].len) {
            char hex[65];
            digest_sha256_hex(lists[i].data, lists[i].len, hex);
            plan_input(w->b, s, name, arena_printf(arena, "sha256:%s", hex));
        }
    }
    for (size_t i = 0; i < w->pattern_count; i++)
        buf_free(&lists[i]);
    free(lists);
    return rc;
}

static int go_through_tree(struct walk *w, struct error *err)
{
    int rc = 0;
    for (size_t i = 0; i < w->tree->count && rc == 0; i++) {
        w->file = &w->tree->files[i];
        buf_clear(&w->path);
        buf_puts(&w->path, w->file->path);
        if (!is_left_out(w, w->path.data))
            rc = found(w, err);
    }
    return rc;
}

static int input_matches(struct walk *w, struct plan_step *s, const struct spec_texts *patterns, struct error *err)
{
    int rc = read_patterns(w, patterns, err);
    if (rc == 0)
        rc = read_left_out(w, err);
    if (rc == 0)
        rc = w->tree ? go_through_tree(w, err) : walk_folder(w, 0, err);
    if (rc == 0)
        rc = add_inputs(w, s, patterns, err);
    if (rc < 0)
        error_prefix(err, "step \"%s\"", s->name);
    for (size_t i = 0; i < w->count; i++)
        free(w->matches[i].path);
    free(w->matches);
    free(w->patterns);
    free(w->hit);
    free(w->left_out);
    buf_free(&w->path);
    return rc;
}

int plan_input_files(struct plan_builder *b, struct plan_step *s, const char *dir, const struct spec_texts *patterns,
                     struct error *err)
{
    struct walk w = {.b = b, .dir = dir};
    return input_matches(&w, s, patterns, err);
}

int plan_input_tree_files(struct plan_builder *b, struct plan_step *s, const struct spec_texts *patterns,
                          struct error *err)
{
    struct walk w = {.b = b, .dir = b->plan->spec->dir, .tree = b->plan->sources->workdir};
    return input_matches(&w, s, patterns, err);
}

int plan_input_sources(struct plan_builder *b, struct plan_step *s, const char *dir, const char *name,
                       struct error *err)
{
    struct spec_text all = {.text = "**"};
    const struct spec_texts patterns = {&all, 1};
    struct walk w = {.b = b, .dir = dir, .sources = name};
    return input_matches(&w, s, &patterns, err);
}
