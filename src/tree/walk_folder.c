/* One folder of the walk: its names, the rules' decision on each, and stat data of those that stay. */
#include "scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

struct name {
    const char *text;
    size_t len;
    unsigned char type; /* DT_* */
};
struct listing {
    DIR *dir;
    struct name *names;
    size_t count, cap;
    bool has_git, has_ignore;
};

struct stat_data stat_data_of(const struct stat *st)
{
    return (struct stat_data){
        .size = (uint64_t)st->st_size,
        .ino = (uint64_t)st->st_ino,
        .mtime_sec = st->st_mtim.tv_sec,
        .mtime_nsec = (uint32_t)st->st_mtim.tv_nsec,
        .ctime_sec = st->st_ctim.tv_sec,
        .ctime_nsec = (uint32_t)st->st_ctim.tv_nsec,
        .mode = st->st_mode,
    };
}

char *scan_quote(struct arena *a, const struct walk *w, const char *path)
{
    struct buf b = {0};
    const char *parts[] = {w->top, *path && strcmp(w->top, "/") != 0 ? "/" : "", path};
    buf_putc(&b, '"');
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        for (const char *p = parts[i]; *p; p++)
            if ((unsigned char)*p < ' ' || *p == 0x7f)
                buf_printf(&b, "\\x%02x", (unsigned char)*p);
            else
                buf_putc(&b, *p);
    buf_putc(&b, '"');
    char *text = arena_strdup(a, b.data);
    buf_free(&b);
    return text;
}

static int compare_paths(const void *key, const void *item)
{
    return strcmp(key, *(const char *const *)item);
}

bool walk_left_out(const struct walk *w, const char *path)
{
    return w->left_out_count &&
           bsearch(path, w->left_out, w->left_out_count, sizeof *w->left_out, compare_paths) != NULL;
}

/* As strcmp of the full paths: "/" follows a folder's name. */
static int compare_names(const char *a, size_t a_len, bool a_folder, const char *b, size_t b_len, bool b_folder)
{
    int c = memcmp(a, b, a_len < b_len ? a_len : b_len);
    if (c)
        return c;
    size_t n = a_len < b_len ? a_len : b_len;
    int x = n < a_len ? (unsigned char)a[n] : a_folder ? '/' : 0;
    int y = n < b_len ? (unsigned char)b[n] : b_folder ? '/' : 0;
    return x - y;
}

static int compare_entries(const void *x, const void *y)
{
    const struct walk_entry *a = x, *b = y;
    return compare_names(a->name, a->len, a->folder, b->name, b->len, b->folder);
}

const struct walk_entry *walk_find(const struct walk_folder *f, const char *name, size_t len)
{
    for (int folder = 0; folder < 2; folder++) {
        size_t low = 0, high = f->count;
        while (low < high) {
            size_t mid = low + (high - low) / 2;
            const struct walk_entry *e = &f->entries[mid];
            int c = compare_names(name, len, folder, e->name, e->len, e->folder);
            if (c == 0)
                return e;
            if (c < 0)
                high = mid;
            else
                low = mid + 1;
        }
    }
    return NULL;
}

static bool is_git(const struct walk_folder *f, const char *name)
{
    return name[0] == '.' && (f->repo && f->repo->fold ? strcasecmp(name, ".git") : strcmp(name, ".git")) == 0;
}

/* Lists all names in the folder; 1: it is gone, or no longer a folder. */
static int list(struct walk *w, struct walk_folder *f, struct arena *a, struct listing *l, struct error *err)
{
    const char *path = f->path + (f->len > w->skip ? w->skip : f->len);
    int fd = openat(w->root_fd, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    l->dir = fd < 0 ? NULL : fdopendir(fd);
    if (!l->dir) {
        int errnum = errno;
        if (fd >= 0)
            close(fd);
        errno = errnum;
        if (fd < 0 && f->depth && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
            return 1;
        error_errno(err, ERROR_IO, errno, "could not open the folder %s", scan_quote(a, w, f->path));
        error_hint(err, "leave it out with .gitignore or exclude");
        return -1;
    }
    for (;;) {
        errno = 0;
        struct dirent *d = readdir(l->dir);
        if (!d) {
            if (errno)
                return error_errno(err, ERROR_IO, errno, "could not list the folder %s", scan_quote(a, w, f->path));
            return 0;
        }
        if (d->d_name[0] == '.' && (!d->d_name[1] || (d->d_name[1] == '.' && !d->d_name[2])))
            continue;
        if (is_git(f, d->d_name)) {
            l->has_git |= strcmp(d->d_name, ".git") == 0;
            continue;
        }
        if (l->count == l->cap) {
            l->cap = l->cap ? 2 * l->cap : 32;
            l->names = xreallocarray(l->names, l->cap, sizeof *l->names);
        }
        size_t len = strlen(d->d_name);
        if (f->len + len - w->skip > TREE_PATH_MAX)
            return error_set(err, ERROR_SPEC, "a path of more than %d bytes in the folder \"%.200s...\"", TREE_PATH_MAX,
                             f->path);
        l->names[l->count++] = (struct name){arena_strndup(a, d->d_name, len), len, d->d_type};
        l->has_ignore |= d->d_name[0] == '.' && strcmp(d->d_name, ".gitignore") == 0;
    }
}

int walk_enter_repo(struct walk *w, struct walk_folder *f, struct arena *a, struct error *err)
{
    char *git_dir, *common_dir;
    struct repo *repo;
    size_t len = f->len ? f->len - 1 : 0;
    const char *slash = len && strcmp(w->top, "/") != 0 ? "/" : "";
    char *work_tree = arena_printf(a, "%s%s%.*s", len && !*slash ? "" : w->top, len ? "/" : "", (int)len, f->path);
    if (!repo_find(work_tree, a, &git_dir, &common_dir))
        return 0;
    if (repo_open(work_tree, f->path, git_dir, common_dir, a, &w->configs, &w->lock, &repo, err))
        return -1;
    pthread_mutex_lock(&w->lock);
    repo->next = w->repos;
    w->repos = repo;
    pthread_mutex_unlock(&w->lock);
    f->repo = repo;
    f->rules = repo->rules;
    return 0;
}

int walk_read_rules(struct walk *w, struct walk_folder *f, int dir_fd, const char *path, struct arena *a,
                    struct error *err)
{
    struct buf text = {0};
    char *name = scan_quote(a, w, arena_printf(a, "%s.gitignore", f->path));
    int rc = ignore_file_read(dir_fd, path, false, name, &text, err);
    if (rc == 0 && text.len) {
        repo_rules_seen(f->repo, f->path, &text);
        rc = ignore_parse(a, text.data, text.len, name, f->len, f->repo->fold, f->rules, &f->rules, err);
    }
    buf_free(&text);
    return rc;
}

enum fate { OUT, OUT_IGNORED, IN };

/* Decides what happens to an entry; *ret_mode: if it is a folder, the folder's mode. */
static enum fate decide(const struct walk *w, const struct walk_folder *f, const char *path, size_t len, bool folder,
                        enum walk_mode *ret_mode)
{
    enum ignore_verdict v = IGNORE_UNDECIDED;
    *ret_mode = f->mode;
    if (w->include && (v = ignore_match(w->include, path, len, f->len, folder)) == IGNORE_OUT) {
        *ret_mode = WALK_ALL;
        return IN;
    }
    switch (f->mode) {
    case WALK_ALL:
        if (v == IGNORE_UNDECIDED)
            return IN;
        *ret_mode = WALK_OUT_EXCLUDED;
        return OUT;
    case WALK_OUT_IGNORED:
        if (w->exclude && ignore_match(w->exclude, path, len, f->len, folder) == IGNORE_OUT)
            return *ret_mode = WALK_OUT_EXCLUDED, OUT;
        return OUT_IGNORED;
    case WALK_OUT_EXCLUDED:
        return OUT;
    case WALK_RULES:
        break;
    }
    v = w->exclude ? ignore_match(w->exclude, path, len, f->len, folder) : IGNORE_UNDECIDED;
    if (v == IGNORE_OUT)
        return *ret_mode = WALK_OUT_EXCLUDED, OUT;
    if (v == IGNORE_UNDECIDED && ignore_match_chain(f->rules, path, len, f->len, folder) == IGNORE_OUT)
        return *ret_mode = WALK_OUT_IGNORED, OUT_IGNORED;
    return IN;
}

/* Puts an entry into the result. False: it has no place there. path: its full path, len bytes. */
static bool place(struct walk *w, struct walk_folder *f, struct listing *l, const struct name *n, const char *path,
                  size_t len, struct walk_entry *e, enum walk_mode *ret_mode)
{
    struct stat st;
    bool seen = false;
    *e = (struct walk_entry){.name = n->text, .len = (uint32_t)n->len};
    if (walk_left_out(w, path))
        return false;
    if (n->type == DT_UNKNOWN) {
        if (fstatat(dirfd(l->dir), n->text, &st, AT_SYMLINK_NOFOLLOW))
            return false;
        seen = true;
    }
    e->folder = seen ? S_ISDIR(st.st_mode) : n->type == DT_DIR;
    enum fate fate = decide(w, f, path, len, e->folder, ret_mode);
    if (fate == OUT_IGNORED && f->repo)
        atomic_store_explicit(&f->repo->ignored, true, memory_order_relaxed);
    if (fate != IN) {
        if (e->folder && w->include && ignore_may_match_below(w->include, path, len))
            return e->kind = WALK_FOLDER, true;
        e->kind = WALK_IGNORED;
        return fate == OUT_IGNORED && f->repo;
    }
    if (e->folder)
        return e->kind = WALK_FOLDER, true;
    if (!seen && fstatat(dirfd(l->dir), n->text, &st, AT_SYMLINK_NOFOLLOW))
        return false;
    e->kind = S_ISREG(st.st_mode) || S_ISLNK(st.st_mode) ? WALK_FILE : WALK_SPECIAL;
    e->st = stat_data_of(&st);
    return !S_ISDIR(st.st_mode); /* it was a file when it was listed */
}

static int take(struct walk *w, struct walk_folder *f, struct listing *l, struct arena *a,
                struct walk_folder **ret_below, size_t *ret_count, struct error *err)
{
    CLEANUP(cleanup_free) char *path = xmalloc(f->len + 256 + 1);
    memcpy(path, f->path, f->len);
    f->entries = arena_array(a, l->count, sizeof *f->entries);
    for (size_t i = 0; i < l->count; i++) {
        const struct name *n = &l->names[i];
        struct walk_entry *e = &f->entries[f->count];
        enum walk_mode mode;
        if (n->len > 255)
            return error_set(err, ERROR_SPEC, "a name of more than 255 bytes in %s", scan_quote(a, w, f->path));
        memcpy(path + f->len, n->text, n->len + 1);
        if (!place(w, f, l, n, path, f->len + n->len, e, &mode))
            continue;
        f->count++;
        if (e->kind != WALK_FOLDER)
            continue;
        if (f->depth + 1 > TREE_DEPTH_MAX)
            return error_set(err, ERROR_SPEC, "more than %d folders deep: \"%.200s...\"", TREE_DEPTH_MAX, f->path);
        struct walk_folder *sub = arena_alloc(a, sizeof *sub);
        *sub = (struct walk_folder){.path = arena_printf(a, "%s/", path),
                                    .len = f->len + n->len + 1,
                                    .depth = f->depth + 1,
                                    .mode = mode,
                                    .repo = f->repo,
                                    .rules = f->rules,
                                    .next = *ret_below};
        e->sub = sub;
        *ret_below = sub;
        ++*ret_count;
    }
    qsort(f->entries, f->count, sizeof *f->entries, compare_entries);
    return 0;
}

int walk_folder_read(struct walk *w, struct walk_folder *f, struct arena *a, struct walk_folder **ret_below,
                     size_t *ret_count, struct error *err)
{
    struct listing l = {0};
    int rc = list(w, f, a, &l, err);
    if (rc == 0 && l.has_git && f->depth && f->mode == WALK_RULES)
        rc = walk_enter_repo(w, f, a, err);
    if (rc == 0 && l.has_ignore && f->repo && f->mode == WALK_RULES)
        rc = walk_read_rules(w, f, dirfd(l.dir), ".gitignore", a, err);
    if (rc == 0)
        rc = take(w, f, &l, a, ret_below, ret_count, err);
    if (l.dir)
        closedir(l.dir);
    free(l.names);
    return rc < 0 ? -1 : 0;
}
