/*
 * Files that git tracks although its rules ignore them. Only the index has them, and reading an index takes as long as
 * the whole walk; so the table keeps the paths that are in the index and that the walk did not find (ignored, excluded
 * or deleted). They are valid as long as the indexes and all ignore files are unchanged, because then the walk finds
 * the same paths again if they exist.
 */
#include "scan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static int compare_repos(const void *a, const void *b)
{
    return strcmp((*(struct repo *const *)a)->work_tree, (*(struct repo *const *)b)->work_tree);
}

/* The repositories in which something is ignored, sorted. */
static struct repo **concerned(const struct walk *w, size_t *ret_count)
{
    size_t count = 0;
    for (struct repo *r = w->repos; r; r = r->next)
        count++;
    struct repo **list = xcalloc(count + 1, sizeof(struct repo *));
    *ret_count = 0;
    for (struct repo *r = w->repos; r; r = r->next)
        if (atomic_load(&r->ignored))
            list[(*ret_count)++] = r;
    qsort(list, *ret_count, sizeof(struct repo *), compare_repos);
    return list;
}

/* Digest of the inputs of the list of tracked files. False: an index is so new that it could change unnoticed. */
static bool digest(const struct walk *w, struct repo *const *repos, size_t count, uint8_t ret[TREE_OID_SIZE])
{
    struct buf text = {0};
    bool settled = true;
    for (size_t i = 0; i < count; i++) {
        const struct repo *r = repos[i];
        CLEANUP(cleanup_free) char *path = xasprintf("%s/index", r->git_dir);
        struct stat st;
        struct stat_data d = {0};
        if (stat(path, &st) == 0)
            d = stat_data_of(&st);
        settled &= !scan_racy(&d, &w->started);
        uint64_t rules = atomic_load(&r->rules_sum);
        buf_append(&text, r->work_tree, strlen(r->work_tree) + 1);
        buf_append(&text, path, strlen(path) + 1);
        buf_append(&text, &d, sizeof d);
        buf_append(&text, &rules, sizeof rules);
    }
    tree_hash(TREE_OBJECT_BLOB, text.data, text.len, ret);
    buf_free(&text);
    return settled;
}

struct making {
    const struct walk *walk;
    const struct repo *repo;
    const struct scan_items *seen;
    struct scan_table *table;
    size_t cap;
    struct buf full;
};

/* Adds a path that an index has and the walk did not find. */
static void add_path(void *arg, const char *path, bool submodule)
{
    struct making *m = arg;
    struct scan_table *t = m->table;
    buf_clear(&m->full);
    buf_puts(&m->full, m->repo->prefix);
    buf_puts(&m->full, path);
    if (!str_starts(m->full.data, m->walk->root->path))
        return;
    const char *below = m->full.data + m->walk->skip;
    if (scan_find(m->seen, below) ||
        (t->tracked_count && strcmp(t->tracked[t->tracked_count - 1].path, below) == 0)) /* stages of a conflict */
        return;
    if (t->tracked_count == m->cap) {
        m->cap = m->cap ? 2 * m->cap : 64;
        t->tracked = xreallocarray(t->tracked, m->cap, sizeof *t->tracked);
    }
    t->tracked[t->tracked_count++] = (struct tracked){arena_strdup(m->walk->arena, below), submodule};
}

static int make(const struct walk *w, struct repo *const *repos, size_t count, const struct scan_items *seen,
                struct scan_table *t, struct error *err)
{
    struct making m = {.walk = w, .seen = seen, .table = t};
    int rc = 0;
    free(t->tracked);
    t->tracked = NULL;
    t->tracked_count = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        m.repo = repos[i];
        rc = scan_index_read(repos[i], add_path, &m, err);
    }
    buf_free(&m.full);
    return rc;
}

/* The part of path from which on the walk took nothing, because git's rules ignore it; 0: none. */
static size_t ignored_from(const struct walk *w, const char *path)
{
    const struct walk_folder *f = w->root;
    size_t at = 0;
    for (size_t i = 0; i < w->more_root_count; i++) {
        const struct walk_folder *more = w->more_roots[i];
        if (more->len - w->skip > at && str_starts(path, more->path + w->skip)) {
            f = more;
            at = more->len - w->skip;
        }
    }
    while (f && path[at]) {
        size_t n = strcspn(path + at, "/");
        const struct walk_entry *e = walk_find(f, path + at, n);
        if (!e || (e->kind != WALK_IGNORED && e->kind != WALK_FOLDER))
            return 0;
        at += n;
        if (e->kind == WALK_IGNORED)
            return at;
        f = e->sub;
        at += path[at] == '/';
    }
    return 0;
}

/* Whether the path, of which git ignores the first `from` bytes, is on the disk and not left out for another reason. */
static bool is_there(const struct walk *w, const char *path, size_t from, struct stat *ret)
{
    CLEANUP(cleanup_free) char *full = xasprintf("%s%s", w->root->path, path);
    for (size_t end = from + w->skip;; end++) {
        end += strcspn(full + end, "/");
        char c = full[end];
        full[end] = 0;
        const char *slash = strrchr(full, '/');
        size_t name = slash ? (size_t)(slash + 1 - full) : 0;
        if (walk_left_out(w, full) || strcmp(full + name, ".git") == 0 ||
            fstatat(w->root_fd, full + w->skip, ret, AT_SYMLINK_NOFOLLOW) || (c && !S_ISDIR(ret->st_mode)) ||
            (w->exclude && ignore_match(w->exclude, full, end, name, S_ISDIR(ret->st_mode)) == IGNORE_OUT))
            return false;
        full[end] = c;
        if (!c)
            return true;
    }
}

static void add_item(struct scan_items *to, const char *path, const struct stat *st)
{
    to->items = xreallocarray(to->items, to->count + 1, sizeof *to->items);
    to->items[to->count++] = (struct scan_item){.path = path, .len = (uint32_t)strlen(path), .st = stat_data_of(st)};
}

static void add_submodule(struct walk *w, const char *path, struct arena *a)
{
    char *git_dir, *common_dir;
    if (!repo_find(arena_printf(w->arena, "%s/%s%s", w->top, w->root->path, path), w->arena, &git_dir, &common_dir))
        return;
    struct walk_folder *f = arena_alloc(a, sizeof *f);
    f->path = arena_printf(a, "%s%s/", w->root->path, path);
    f->len = strlen(f->path);
    for (const char *p = path; p; p = strchr(p + 1, '/'))
        f->depth++;
    for (size_t i = 0; i < w->more_root_count; i++)
        if (strcmp(w->more_roots[i]->path, f->path) == 0)
            return;
    w->more_roots = xreallocarray(w->more_roots, w->more_root_count + 1, sizeof(struct walk_folder *));
    w->more_roots[w->more_root_count++] = f;
    walk_push(w, f);
}

static int compare_items(const void *a, const void *b)
{
    return strcmp(((const struct scan_item *)a)->path, ((const struct scan_item *)b)->path);
}

/* Adds the files of the list; *ret_more: there are submodules to walk through. */
static void add_all(struct walk *w, const struct scan_table *t, struct arena *a, struct scan_items *to, bool *ret_more)
{
    size_t before = to->count, roots = w->more_root_count;
    for (size_t i = 0; i < t->tracked_count; i++) {
        const struct tracked *tr = &t->tracked[i];
        size_t from = ignored_from(w, tr->path);
        struct stat st;
        if (!from || !is_there(w, tr->path, from, &st))
            continue;
        if (tr->submodule && S_ISDIR(st.st_mode))
            add_submodule(w, tr->path, a);
        else if (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode))
            add_item(to, arena_strdup(a, tr->path), &st);
    }
    if (to->count > before)
        qsort(to->items, to->count, sizeof *to->items, compare_items);
    *ret_more = w->more_root_count > roots;
}

static int walk_submodules(struct walk *w, size_t first, struct arena *a, struct scan_items *to, struct error *err)
{
    w->files = 0;
    w->path_bytes = 0;
    if (walk_run(w, err))
        return -1;
    to->items = xreallocarray(to->items, to->count + w->files + 1, sizeof *to->items);
    char *paths = arena_alloc(a, w->path_bytes + 1);
    for (size_t i = first; i < w->more_root_count; i++)
        scan_collect(w, w->more_roots[i], to, &paths);
    qsort(to->items, to->count, sizeof *to->items, compare_items);
    return 0;
}

int scan_tracked_add(struct walk *w, struct scan_table *t, struct arena *a, struct scan_items *to, bool *ret_changed,
                     struct error *err)
{
    static const uint8_t none[TREE_OID_SIZE];
    for (bool more = true; more;) {
        size_t count, first = w->more_root_count;
        uint8_t seen[TREE_OID_SIZE];
        CLEANUP(cleanup_free) struct repo **repos = concerned(w, &count);
        if (!count)
            return 0;
        bool settled = digest(w, repos, count, seen);
        if (!settled || memcmp(seen, t->tracked_seen, sizeof seen) != 0) {
            if (make(w, repos, count, to, t, err))
                return -1;
            memcpy(t->tracked_seen, settled ? seen : none, sizeof seen);
            *ret_changed = true;
        }
        add_all(w, t, a, to, &more);
        if (more && walk_submodules(w, first, a, to, err))
            return -1;
    }
    return to->count <= TREE_FILES_MAX
               ? 0
               : error_set(err, ERROR_SPEC, "\"%s\" has more than %d files", w->scan->path, TREE_FILES_MAX);
}
