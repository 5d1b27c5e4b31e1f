/* Repositories, found as git finds them, and the ignore files that they add to those in the folders. */
#include "scan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int ignore_file_read(int dir_fd, const char *path, bool follow, const char *name, struct buf *ret, struct error *err)
{
    buf_clear(ret);
    int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (follow ? 0 : O_NOFOLLOW);
    CLEANUP(cleanup_close) int fd = openat(dir_fd, path, flags);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
        return 0;
    for (;;) {
        buf_reserve(ret, (st.st_size > 0 && st.st_size < IGNORE_FILE_MAX ? (size_t)st.st_size : 4096) + 1);
        ssize_t n = read(fd, ret->data + ret->len, ret->cap - ret->len - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(err, ERROR_IO, errno, "could not read \"%s\"", name);
        if (n == 0)
            return 0;
        ret->len += (size_t)n;
        if (ret->len > IGNORE_FILE_MAX)
            return error_set(err, ERROR_SPEC, "\"%s\": more than %d bytes of ignore patterns", name, IGNORE_FILE_MAX);
    }
}

/* Whether HEAD is a reference or a commit, as git requires of a repository. */
static bool head_is_sound(const char *git_dir)
{
    CLEANUP(cleanup_free) char *path = xasprintf("%s/HEAD", git_dir);
    char text[256];
    ssize_t n = readlink(path, text, sizeof text - 1);
    if (n >= 0) {
        text[n] = 0;
        return str_starts(text, "refs/");
    }
    CLEANUP(cleanup_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || (n = read(fd, text, sizeof text - 1)) <= 0)
        return false;
    text[n] = 0;
    if (str_starts(text, "ref:")) {
        const char *name = text + 4;
        return str_starts(name + strspn(name, " \t\r\n"), "refs/");
    }
    return strspn(text, "0123456789abcdefABCDEF") >= TREE_ID_LEN;
}

static bool is_folder(const char *parent, const char *name)
{
    CLEANUP(cleanup_free) char *path = xasprintf("%s/%s", parent, name);
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* A file of one line with a path, relative to `from`; NULL when there is none. */
static char *path_in_file(struct arena *a, const char *file, const char *key, const char *from)
{
    struct buf text = {0};
    char *found = NULL;
    if (ignore_file_read(AT_FDCWD, file, true, file, &text, NULL) == 0 && text.len && text.len < IGNORE_GITFILE_MAX &&
        str_starts(text.data, key)) {
        text.data[text.len] = 0;
        char *path = text.data + strlen(key);
        path[strcspn(path, "\r\n")] = 0;
        if (*path)
            found = *path == '/' ? arena_strdup(a, path) : arena_printf(a, "%s/%s", from, path);
    }
    buf_free(&text);
    return found;
}

bool repo_find(const char *work_tree, struct arena *a, char **ret_git_dir, char **ret_common_dir)
{
    char *git_dir = arena_printf(a, "%s/.git", strcmp(work_tree, "/") == 0 ? "" : work_tree);
    struct stat st;
    if (stat(git_dir, &st))
        return false;
    if (S_ISREG(st.st_mode)) {
        git_dir = path_in_file(a, git_dir, "gitdir: ", work_tree);
        if (!git_dir)
            return false;
    }
    char *common = path_in_file(a, arena_printf(a, "%s/commondir", git_dir), "", git_dir);
    if (!common)
        common = git_dir;
    if (!head_is_sound(git_dir) || !is_folder(common, "objects") || !is_folder(common, "refs"))
        return false;
    *ret_git_dir = git_dir;
    *ret_common_dir = common;
    return true;
}

bool repo_is_bare(const char *path)
{
    return head_is_sound(path) && is_folder(path, "objects") && is_folder(path, "refs");
}

static uint64_t text_sum(const char *name, const struct buf *text)
{
    uint64_t h = 14695981039346656037u;
    for (const char *p = name; *p; p++)
        h = (h ^ (unsigned char)*p) * 1099511628211u;
    h = (h ^ 0x100) * 1099511628211u;
    for (size_t i = 0; i < text->len; i++)
        h = (h ^ (unsigned char)text->data[i]) * 1099511628211u;
    return h;
}

void repo_rules_seen(struct repo *r, const char *name, const struct buf *text)
{
    atomic_fetch_add(&r->rules_sum, text_sum(name, text));
}

static int add_rules(struct repo *r, const char *path, struct arena *a, struct error *err)
{
    struct buf text = {0};
    int rc = ignore_file_read(AT_FDCWD, path, true, path, &text, err);
    if (rc == 0 && text.len) {
        repo_rules_seen(r, path, &text);
        rc = ignore_parse(a, text.data, text.len, path, r->base, r->fold, r->rules, &r->rules, err);
    }
    buf_free(&text);
    return rc;
}

static struct scan_config *find_config(struct scan_configs *known, const char *git_dir)
{
    for (size_t i = 0; i < known->count; i++)
        if (strcmp(known->items[i].git_dir, git_dir) == 0)
            return &known->items[i];
    known->items = xreallocarray(known->items, known->count + 1, sizeof *known->items);
    struct scan_config *c = &known->items[known->count++];
    *c = (struct scan_config){.git_dir = xstrdup(git_dir)};
    return c;
}

/* The repository's configuration: the known one, unless a file that it came from has changed. */
static int get_config(struct repo *r, struct scan_configs *known, pthread_mutex_t *lock, struct arena *a,
                      char **ret_excludes, struct error *err)
{
    uint8_t seen[TREE_OID_SIZE];
    bool keep = scan_config_seen(r->git_dir, r->common_dir, seen);
    pthread_mutex_lock(lock);
    struct scan_config *c = find_config(known, r->git_dir);
    int rc = 0;
    if (!c->excludes || !c->keep || memcmp(c->seen, seen, sizeof seen) != 0) {
        struct scan_config new = {.keep = true};
        rc = scan_config_read(r->work_tree, r->git_dir, r->common_dir, &new, err);
        if (rc == 0) {
            free(c->excludes);
            c->excludes = new.excludes;
            c->fold = new.fold;
            c->keep = keep && new.keep;
            memcpy(c->seen, seen, sizeof seen);
            known->changed |= c->keep; /* otherwise there is nothing to save */
        }
    }
    c->used = true;
    if (rc == 0) {
        r->fold = c->fold;
        *ret_excludes = arena_strdup(a, c->excludes);
    }
    pthread_mutex_unlock(lock);
    return rc;
}

int repo_open(const char *work_tree, const char *prefix, char *git_dir, char *common_dir, struct arena *a,
              struct scan_configs *known, pthread_mutex_t *lock, struct repo **ret, struct error *err)
{
    struct repo *r = arena_alloc(a, sizeof *r);
    char *excludes = NULL;
    r->work_tree = arena_strdup(a, work_tree);
    r->git_dir = git_dir;
    r->common_dir = common_dir;
    r->prefix = prefix;
    r->base = strlen(prefix);
    if (get_config(r, known, lock, a, &excludes, err))
        return -1;
    if (r->fold)
        atomic_fetch_add(&r->rules_sum, 1);
    if (*excludes && add_rules(r, excludes, a, err))
        return -1;
    if (add_rules(r, arena_printf(a, "%s/info/exclude", common_dir), a, err))
        return -1;
    *ret = r;
    return 0;
}

void scan_configs_free(struct scan_configs *c)
{
    for (size_t i = 0; i < c->count; i++) {
        free(c->items[i].git_dir);
        free(c->items[i].excludes);
    }
    free(c->items);
    *c = (struct scan_configs){0};
}
