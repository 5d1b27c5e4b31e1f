/* A scan: the walk, the table of the last scan, the files to read, the id. */
#include "scan.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- found files ---- */

void scan_note(struct scan_items *to, const char *text)
{
    if (to->note_count++ < SCAN_NOTES_MAX)
        buf_printf(&to->notes, "%s%s", to->notes.len ? "\n" : "", text);
}

static const char *kind_name(uint32_t mode)
{
    return S_ISSOCK(mode) ? "a socket" : S_ISFIFO(mode) ? "a FIFO" : "a device";
}

void scan_collect(const struct walk *w, const struct walk_folder *f, struct scan_items *to, char **paths)
{
    for (size_t i = 0; i < f->count; i++) {
        const struct walk_entry *e = &f->entries[i];
        size_t len = f->len - w->skip;
        switch (e->kind) {
        case WALK_FOLDER:
            scan_collect(w, e->sub, to, paths);
            break;
        case WALK_FILE:
            to->items[to->count++] = (struct scan_item){.path = *paths, .len = (uint32_t)(len + e->len), .st = e->st};
            memcpy(*paths, f->path + w->skip, len);
            memcpy(*paths + len, e->name, e->len + 1);
            *paths += len + e->len + 1;
            break;
        case WALK_SPECIAL: {
            struct arena *a = w->arena;
            scan_note(to,
                      arena_printf(a, "%s is %s: left out", scan_quote(a, w, arena_printf(a, "%s%s", f->path, e->name)),
                                   kind_name(e->st.mode)));
            break;
        }
        case WALK_IGNORED:
            break;
        }
    }
}

static int compare_path(const void *key, const void *item)
{
    return strcmp(key, ((const struct scan_item *)item)->path);
}

struct scan_item *scan_find(const struct scan_items *in, const char *path)
{
    return in->count ? bsearch(path, in->items, in->count, sizeof *in->items, compare_path) : NULL;
}

/* ---- the beginning ---- */

/* The work tree around the folder, found as git does: upwards, on the same file system. NULL: none. */
static char *find_top(struct walk *w, const char *path)
{
    char *top = arena_strdup(w->arena, path), *git_dir, *common_dir;
    struct stat st, above;
    if (stat(top, &st))
        return NULL;
    for (;;) {
        if (repo_find(top, w->arena, &git_dir, &common_dir))
            return top;
        char *slash = strrchr(top, '/');
        if (!slash[1])
            return NULL;
        slash[slash == top] = 0;
        if (stat(top, &above) || above.st_dev != st.st_dev)
            return NULL;
    }
}

/* The rules of the folders from top down to the scanned one. *ret_ignored: these rules ignore the scanned folder
 * itself. */
static int rules_above(struct walk *w, struct error *err)
{
    struct walk_folder f = {.path = arena_strdup(w->arena, ""), .mode = WALK_RULES};
    const char *path = w->root->path;
    if (walk_enter_repo(w, &f, w->arena, err))
        return -1;
    while (f.repo && f.len < w->skip) {
        const char *file = arena_printf(w->arena, "%s/%s.gitignore", strcmp(w->top, "/") == 0 ? "" : w->top, f.path);
        if (walk_read_rules(w, &f, AT_FDCWD, file, w->arena, err))
            return -1;
        size_t name = f.len, end = name + strcspn(path + name, "/");
        char *sub = arena_strndup(w->arena, path, end);
        if (ignore_match_chain(f.rules, sub, end, name, true) == IGNORE_OUT) {
            w->repos = NULL;
            f.repo = NULL;
            f.rules = NULL;
            w->root_ignored = true;
        }
        f.path = arena_strndup(w->arena, path, end + 1);
        f.len = end + 1;
    }
    w->root->repo = f.repo;
    w->root->rules = f.rules;
    return 0;
}

static int parse_patterns(struct walk *w, const char *const *patterns, size_t count, const char *name,
                          const struct ignore_list **ret, struct error *err)
{
    struct buf text = {0};
    for (size_t i = 0; i < count; i++)
        buf_printf(&text, "%s\n", patterns[i]);
    int rc = text.len ? ignore_parse(w->arena, text.data, text.len, name, w->skip, false, NULL, ret, err) : 0;
    buf_free(&text);
    return rc;
}

/* The part of `path` below the folder `root`; "" if path is root or contains it; NULL otherwise. */
static const char *below(const char *path, const char *root)
{
    size_t path_len = strlen(path), root_len = strcmp(root, "/") == 0 ? 0 : strlen(root);
    if (path_len > root_len && strncmp(path, root, root_len) == 0 && path[root_len] == '/')
        return path + root_len + 1;
    if (path_len <= root_len && strncmp(path, root, path_len) == 0 && (root[path_len] == '/' || !root[path_len]))
        return "";
    return strcmp(path, "/") == 0 ? "" : NULL;
}

static void leave_out(struct walk *w, const char *path, const char *root, bool *ret_all)
{
    const char *rel = below(path, root);
    if (rel && *rel)
        w->left_out[w->left_out_count++] = arena_printf(w->arena, "%s%s", w->root->path, rel);
    else if (rel)
        *ret_all = true;
}

static int compare_strings(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Leaves out each path as written, and with the links in its folder's path resolved. */
static void leave_all_out(struct walk *w, const char *real, bool *ret_all)
{
    w->left_out = arena_array(w->arena, 2 * w->scan->leave_out_count + 1, sizeof *w->left_out);
    for (size_t i = 0; i < w->scan->leave_out_count; i++) {
        char *path = arena_strdup(w->arena, w->scan->leave_out[i]), resolved[PATH_MAX];
        for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
            path[n - 1] = 0;
        leave_out(w, path, w->scan->path, ret_all);
        char *slash = strrchr(path, '/');
        if (!slash || !slash[1])
            continue;
        char *folder = arena_strndup(w->arena, path, slash == path ? 1 : (size_t)(slash - path));
        if (realpath(folder, resolved))
            leave_out(w, arena_printf(w->arena, "%s/%s", resolved[1] ? resolved : "", slash + 1), real, ret_all);
    }
    qsort(w->left_out, w->left_out_count, sizeof *w->left_out, compare_strings);
}

/* ---- a folder ---- */

static int walk_tree(struct walk *w, const char *real, struct scan_items *found, struct arena *arena, struct error *err)
{
    bool all = false;
    char *top = find_top(w, real);
    w->top = top ? top : arena_strdup(w->arena, real);
    w->top_len = strlen(w->top);
    w->root = arena_alloc(w->arena, sizeof *w->root);
    const char *prefix = strcmp(w->top, real) == 0 ? "" : real + w->top_len + (w->top_len > 1);
    w->root->path = arena_printf(w->arena, "%s%s", prefix, *prefix ? "/" : "");
    w->root->len = w->skip = strlen(w->root->path);
    if ((top && rules_above(w, err)) ||
        parse_patterns(w, w->scan->exclude, w->scan->exclude_count, "exclude", &w->exclude, err) ||
        parse_patterns(w, w->scan->include, w->scan->include_count, "include", &w->include, err))
        return -1;
    if (w->root_ignored)
        scan_note(found, arena_printf(w->arena, "the repository %s ignores %s: ignore files do not count",
                                      scan_quote(w->arena, w, ""), scan_quote(w->arena, w, prefix)));
    leave_all_out(w, real, &all);
    if (all) {
        scan_note(found,
                  arena_printf(w->arena, "%s is never part of a tree: left out", scan_quote(w->arena, w, prefix)));
        return 0;
    }
    walk_push(w, w->root);
    if (walk_run(w, err))
        return -1;
    found->items = xcalloc(w->files + 1, sizeof *found->items);
    char *paths = arena_alloc(arena, w->path_bytes + 1);
    scan_collect(w, w->root, found, &paths);
    return 0;
}

/* A single file is a tree with that one name. */
static int take_file(struct walk *w, const char *path, const struct stat *st, struct scan_items *found,
                     struct arena *arena, struct error *err)
{
    const char *name = strrchr(path, '/') + 1;
    if (!S_ISREG(st->st_mode))
        return error_set(err, ERROR_SPEC, "\"%s\" is neither a file nor a folder", path);
    w->top = arena_strndup(w->arena, path, name - 1 == path ? 1 : (size_t)(name - 1 - path));
    w->follow = true;
#ifdef O_PATH
    w->root_fd = open(w->top, O_PATH | O_DIRECTORY | O_CLOEXEC); /* it need not be readable */
#else
    w->root_fd = open(w->top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
#endif
    if (w->root_fd < 0)
        return error_errno(err, ERROR_IO, errno, "could not open \"%s\"", w->top);
    found->items = xcalloc(1, sizeof *found->items);
    found->items[found->count++] =
        (struct scan_item){.path = arena_strdup(arena, name), .len = (uint32_t)strlen(name), .st = stat_data_of(st)};
    return 0;
}

static int find_files(struct walk *w, struct scan_items *found, struct arena *arena, bool *ret_folder,
                      struct error *err)
{
    const char *path = w->scan->path;
    struct stat st;
    char real[PATH_MAX];
    if (stat(path, &st))
        return error_errno(err, ERROR_SPEC, errno, "could not open \"%s\"", path);
    *ret_folder = S_ISDIR(st.st_mode);
    if (!*ret_folder)
        return take_file(w, path, &st, found, arena, err);
    if (!realpath(path, real))
        return error_errno(err, ERROR_SPEC, errno, "could not open \"%s\"", path);
    w->root_fd = open(real, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (w->root_fd < 0)
        return error_errno(err, ERROR_SPEC, errno, "could not open the folder \"%s\"", path);
    return walk_tree(w, real, found, arena, err);
}

/* ---- ids ---- */

/* The name of the table for this folder and these patterns. */
static char *table_path(const struct tree_store *s, const struct tree_scan *scan, struct arena *a)
{
    char digest[65], real[PATH_MAX];
    struct buf key = {0};
    const char *path = realpath(scan->path, real) ? real : scan->path;
    buf_append(&key, path, strlen(path) + 1);
    for (size_t i = 0; i < scan->exclude_count; i++)
        buf_append(&key, scan->exclude[i], strlen(scan->exclude[i]) + 1);
    buf_putc(&key, 0);
    for (size_t i = 0; i < scan->include_count; i++)
        buf_append(&key, scan->include[i], strlen(scan->include[i]) + 1);
    digest_sha256_hex(key.data, key.len, digest);
    buf_free(&key);
    return arena_printf(a, "%s/scan-%.32s", tree_store_dir(s), digest);
}

/* How much must be read for the store; contents that the store has from elsewhere count as stored. */
static size_t to_store(struct tree_store *s, struct scan_items *in, uint64_t *ret_bytes, bool *ret_marked)
{
    size_t count = 0;
    *ret_bytes = 0;
    for (size_t i = 0; i < in->count; i++) {
        struct scan_item *item = &in->items[i];
        if (item->flags & ITEM_STORED)
            continue;
        if ((item->flags & ITEM_KNOWN) && tree_store_has(s, item->oid, item->st.size)) {
            item->flags |= ITEM_STORED;
            *ret_marked = true;
            continue;
        }
        count++;
        *ret_bytes += item->st.size;
    }
    return count;
}

static void fill(const struct scan_items *in, struct arena *arena, struct tree *t)
{
    struct tree_file *files = arena_array(arena, in->count, sizeof *files);
    for (size_t i = 0; i < in->count; i++) {
        const struct scan_item *item = &in->items[i];
        if (item->flags & ITEM_GONE)
            continue;
        struct tree_file *f = &files[t->count++];
        f->path = item->path;
        f->mode = S_ISLNK(item->st.mode) ? TREE_MODE_LINK : item->st.mode & S_IXUSR ? TREE_MODE_EXEC : TREE_MODE_FILE;
        f->size = item->st.size;
        memcpy(f->oid, item->oid, TREE_OID_SIZE);
        t->bytes += f->size;
    }
    t->files = files;
}

static void drop_gone(struct scan_items *in)
{
    size_t kept = 0;
    for (size_t i = 0; i < in->count; i++)
        if (!(in->items[i].flags & ITEM_GONE))
            in->items[kept++] = in->items[i];
    in->count = kept;
}

/* Reads the files that must be read. *same: nothing differs from the table, so its id is valid. */
static int identify(struct walk *w, struct tree_store *s, struct scan_table *table, struct scan_items *in,
                    struct arena *arena, bool *same, struct tree *ret, struct error *err)
{
    struct tree_batch *batch = NULL;
    uint64_t bytes = 0;
    bool store = w->scan->store, marked = false;
    size_t missing = store ? to_store(s, in, &bytes, &marked) : 0;
    if (*same && !missing && (!store || table->tree_stored)) {
        fill(in, arena, ret);
        memcpy(ret->id, table->id, sizeof ret->id);
        *same = !marked;
        return 0;
    }
    if (store && tree_batch_begin(s, missing, bytes, &batch, err))
        return -1;
    if (scan_read(w, in, batch, err))
        goto failed;
    drop_gone(in);
    fill(in, arena, ret);
    if (tree_id(ret->files, ret->count, batch, ret->id, err))
        goto failed;
    if (batch && tree_batch_end(batch, err))
        return -1;
    if (!store)
        table->tree_stored = table->tree_stored && strcmp(table->id, ret->id) == 0;
    else
        table->tree_stored = true;
    memcpy(table->id, ret->id, sizeof ret->id);
    *same = false;
    return 0;
failed:
    tree_batch_abort(batch);
    return -1;
}

static int scan_with(struct walk *w, struct tree_store *s, struct arena *arena, struct scan_items *found,
                     struct tree **ret, struct error *err)
{
    struct scan_table table = {0};
    struct tree *t = arena_alloc(arena, sizeof *t);
    bool folder = false, changed = false;
    char *path = table_path(s, w->scan, w->arena);
    bool loaded = scan_table_load(path, &table);
    w->configs = table.configs;
    table.configs = (struct scan_configs){0};
    int rc = find_files(w, found, arena, &folder, err);
    if (rc == 0 && folder)
        rc = scan_tracked_add(w, &table, arena, found, &changed, err);
    if (rc == 0) {
        bool same = loaded && scan_table_join(&table, found->items, found->count);
        rc = identify(w, s, &table, found, arena, &same, t, err);
        changed |= !same || w->configs.changed;
    }
    table.configs = w->configs;
    w->configs = (struct scan_configs){0};
    if (rc == 0) {
        if (changed)
            scan_table_save(path, &table, found->items, found->count);
        *ret = t;
    }
    scan_table_free(&table);
    return rc;
}

static void walk_free(struct walk *w)
{
    for (size_t i = 0; i < w->arena_count; i++)
        arena_destroy(w->arenas[i]);
    free(w->arenas);
    free(w->more_roots);
    arena_destroy(w->arena);
    if (w->root_fd >= 0)
        close(w->root_fd);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->more);
}

int tree_scan(struct tree_store *s, const struct tree_scan *scan, struct arena *arena, struct tree **ret,
              const char **ret_notes, struct error *err)
{
    struct walk w = {.scan = scan, .root_fd = -1, .arena = arena_create()};
    struct scan_items found = {0};
    pthread_mutex_init(&w.lock, NULL);
    pthread_cond_init(&w.more, NULL);
#ifdef CLOCK_REALTIME_COARSE
    clock_gettime(CLOCK_REALTIME_COARSE, &w.started); /* the clock of file times, which may be one tick behind */
#else
    clock_gettime(CLOCK_REALTIME, &w.started);
#endif
    int rc = scan_with(&w, s, arena, &found, ret, err);
    if (rc == 0) {
        if (found.note_count > SCAN_NOTES_MAX)
            buf_printf(&found.notes, "\nand %zu more", found.note_count - SCAN_NOTES_MAX);
        *ret_notes = arena_strndup(arena, found.notes.data ? found.notes.data : "", found.notes.len);
    }
    free(found.items);
    buf_free(&found.notes);
    walk_free(&w);
    return rc;
}
