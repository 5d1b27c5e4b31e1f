/*
 * Environments: the one that the workers of a run share, and the one that a set-up shell leaves for later steps. A
 * captured environment never has secrets (by name or by value), rhrun's own variables, or those of a worker.
 */
#include "super.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

enum { CAPTURE_MAX = 4 << 20 };

static size_t name_len(const char *assignment)
{
    return strcspn(assignment, "=");
}

void environment_set(struct environment *e, char *assignment)
{
    size_t len = name_len(assignment);
    for (size_t i = 0; i < e->count; i++)
        if (strncmp(e->items[i], assignment, len) == 0 && e->items[i][len] == '=') {
            e->items[i] = assignment;
            return;
        }
    if (e->count + 2 > e->cap) {
        e->cap = e->cap ? 2 * e->cap : 64;
        e->items = xreallocarray(e->items, e->cap, sizeof *e->items);
    }
    e->items[e->count++] = assignment;
    e->items[e->count] = NULL;
}

const char *environment_get(const struct environment *e, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < e->count; i++)
        if (strncmp(e->items[i], name, len) == 0 && e->items[i][len] == '=')
            return e->items[i] + len + 1;
    return NULL;
}

void environment_copy(struct environment *to, const struct environment *from)
{
    to->cap = from->count + 16;
    to->items = xreallocarray(NULL, to->cap, sizeof *to->items);
    memcpy(to->items, from->items, from->count * sizeof *to->items);
    to->count = from->count;
    to->items[to->count] = NULL;
}

void environment_path_first(struct environment *e, const char *folders)
{
    const char *path = environment_get(e, "PATH");
    size_t len = folders ? strlen(folders) : 0;
    if (!path)
        path = DEFAULT_PATH;
    /* the PATH from an earlier step may begin with them already */
    if (len && !(strncmp(path, folders, len) == 0 && (path[len] == ':' || !path[len])))
        environment_set(e, xasprintf("PATH=%s%s%s", folders, *path ? ":" : "", path));
}

/* "NAME" or "PREFIX*" */
static bool pattern_matches(const char *pattern, const char *assignment)
{
    size_t len = strlen(pattern);
    if (len && pattern[len - 1] == '*')
        return strncmp(assignment, pattern, len - 1) == 0;
    return len == name_len(assignment) && strncmp(assignment, pattern, len) == 0;
}

static bool is_unset(const struct wire_run *run, const char *assignment)
{
    for (uint32_t i = 0; i < run->unset.count; i++)
        if (pattern_matches(run->unset.items[i], assignment))
            return true;
    return false;
}

static int read_all(int fd, struct buf *ret)
{
    for (;;) {
        buf_reserve(ret, 65536);
        ssize_t n = pread(fd, ret->data + ret->len, 65536, (off_t)ret->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        ret->len += (size_t)n;
        if (ret->len > CAPTURE_MAX) {
            errno = EFBIG;
            return -1;
        }
    }
    ret->data[ret->len] = 0;
    return 0;
}

int environment_base(struct environment *e, const struct supervise *s)
{
    const struct wire_run *run = s->run;
    *e = (struct environment){.items = xcalloc(64, sizeof *e->items), .cap = 64};
    if (run->env_in && *run->env_in) {
        CLEANUP(cleanup_free) char *path = xasprintf("%s/%s", s->env_dir, run->env_in);
        CLEANUP(cleanup_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
        struct buf text = {0};
        if (fd < 0 || read_all(fd, &text) < 0)
            return -1;
        for (char *p = text.data; p < text.data + text.len; p += strlen(p) + 1)
            if (strchr(p, '=') && !is_unset(run, p))
                environment_set(e, p);
        /* the strings stay in text.data, which lives as long as the supervisor */
    } else {
        for (char **p = environ; *p; p++)
            if (strchr(*p, '=') && !is_unset(run, *p))
                environment_set(e, *p);
    }
    for (uint32_t i = 0; i < run->env.count; i++)
        environment_set(e, run->env.items[i]);
    for (uint32_t i = 0; i < run->secrets.count; i++)
        environment_set(e, run->secrets.items[i]);
    environment_set(e, xasprintf("RHRUN_ATTEMPT=%s", run->attempt));
    for (uint32_t i = 0; i < run->env_default.count; i++) { /* a worker's own environment goes over these */
        CLEANUP(cleanup_free) char *name = xstrndup(run->env_default.items[i], name_len(run->env_default.items[i]));
        if (!environment_get(e, name))
            environment_set(e, run->env_default.items[i]);
    }
    return 0;
}

static bool named_in(const struct wire_strings *list, const char *assignment)
{
    size_t len = name_len(assignment);
    for (uint32_t i = 0; i < list->count; i++)
        if (name_len(list->items[i]) == len && strncmp(list->items[i], assignment, len) == 0)
            return true;
    return false;
}

/* Whether this variable may reach later steps. */
static bool is_kept(const struct wire_run *run, const struct mask *mask, const char *assignment)
{
    static const char *const own[] = {"RHRUN_*", "__rhrun_*", "_", "SHLVL", "PWD", "OLDPWD"};
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (pattern_matches(own[i], assignment))
            return false;
    for (uint32_t i = 0; i < run->env_default.count; i++)
        if (str_eq(run->env_default.items[i], assignment))
            return false; /* later steps must not take a default for the user's choice */
    return strchr(assignment, '=') && !named_in(&run->secrets, assignment) &&
           !named_in(&run->workers[0].env, assignment) && !mask_contains(mask, assignment);
}

int exec_store_env(const struct supervise *s, int capture_fd, const struct mask *mask)
{
    struct buf all = {0}, kept = {0};
    if (read_all(capture_fd, &all) < 0)
        return -1;
    for (char *p = all.data; p < all.data + all.len; p += strlen(p) + 1)
        if (is_kept(s->run, mask, p))
            buf_append(&kept, p, strlen(p) + 1);
    if (!all.len) { /* the shell ended by exec, or has no `env`: nothing was captured */
        errno = ENODATA;
        return -1;
    }
    if (mkdir(s->env_dir, 0700) < 0 && errno != EEXIST)
        return -1;
    CLEANUP(cleanup_free) char *path = xasprintf("%s/%s", s->env_dir, s->run->env_out);
    return file_put(AT_FDCWD, path, kept.data, kept.len, false, NULL);
}
