/*
 * Which files are there? A walk below the pattern's leading folder, a few thousand names at a time. Which parts of the
 * pattern a folder's names may match is a set of bits: "**" keeps its own and adds the next, so every way through the
 * pattern is followed at once.
 */
#include "server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PARTS_MAX = 62, DEPTH_MAX = 200, ENTRIES_MAX = 1000000, STEP_NAMES = 4096, STEP_SIZE = 128 << 10 };

struct glob {
    uint64_t token;
    char *pattern, *prefix;
    const char *parts[PARTS_MAX + 1]; /* behind the prefix */
    size_t part_count;
    const char *single; /* no folder: the one name below prefix */
    struct level {
        DIR *dir;
        size_t len; /* of path, for this folder */
        uint64_t set;
    } levels[DEPTH_MAX];
    size_t depth;
    struct buf path; /* below the prefix */
    uint64_t found;
};

/* ---- one name ---- */

/* The character at *p, which moves on; a byte that is not UTF-8 stands for itself. */
static uint32_t take(const char **p)
{
    const unsigned char *s = (const unsigned char *)*p;
    size_t n = utf8_length(s, strnlen(*p, 4));
    uint32_t c = n > 1 ? s[0] & (0x7Fu >> n) : s[0];
    for (size_t i = 1; i < n; i++)
        c = c << 6 | (s[i] & 0x3F);
    *p += n ? n : 1;
    return n ? c : 0x110000 + c;
}

/* p: behind "[". The end of the class, or NULL when it has none. */
static const char *match_class(const char *p, uint32_t c, bool *ret)
{
    bool negative = *p == '!' || *p == '^', in = false;
    p += negative;
    for (const char *first = p; *p != ']' || p == first;) {
        if (!*p)
            return NULL;
        uint32_t low = take(&p), high = low;
        if (p[0] == '-' && p[1] && p[1] != ']') {
            p++;
            high = take(&p);
        }
        in |= c >= low && c <= high;
    }
    *ret = in != negative;
    return p + 1;
}

static bool match(const char *p, const char *s)
{
    const char *star = NULL, *again = NULL; /* behind the last *, and what it was tried at */
    while (*s || *p) {
        if (*p == '*') {
            star = ++p;
            again = s;
            continue;
        }
        bool ok = false;
        if (*s && *p) {
            uint32_t c = take(&s);
            const char *end = *p == '[' ? match_class(p + 1, c, &ok) : NULL;
            if (end) {
                p = end;
            } else if (*p == '?') {
                ok = true;
                p++;
            } else {
                p += *p == '\\' && p[1];
                ok = take(&p) == c;
            }
        }
        if (!ok && (!star || !*again))
            return false;
        if (!ok) {
            p = star;
            take(&again);
            s = again;
        }
    }
    return true;
}

/* ---- sets of parts ---- */

static bool any_parts(const struct glob *g, size_t i)
{
    return i < g->part_count && str_eq(g->parts[i], "**");
}

static uint64_t with_skipped(const struct glob *g, uint64_t set)
{
    for (size_t i = 0; i < g->part_count; i++)
        if (set >> i & 1 && any_parts(g, i))
            set |= UINT64_C(1) << (i + 1);
    return set;
}

/* What may follow `name` in a folder whose names may match `set`; the bit behind the last part: it is matched, and so
 * is all below it. */
static uint64_t step_set(const struct glob *g, uint64_t set, const char *name)
{
    uint64_t next = set & UINT64_C(1) << g->part_count;
    for (size_t i = 0; i < g->part_count; i++)
        if (set >> i & 1)
            next |= any_parts(g, i) ? UINT64_C(1) << i : match(g->parts[i], name) ? UINT64_C(1) << (i + 1) : 0;
    return with_skipped(g, next);
}

/* ---- the walk ---- */

/* Takes fd over. */
static int enter(struct glob *g, int fd, uint64_t set)
{
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        cleanup_close(&fd);
        return -1;
    }
    g->levels[g->depth++] = (struct level){dir, g->path.len, set};
    return 0;
}

/* One part after the other: those without wildcards are the prefix. */
static int split(struct glob *g, struct arena *arena, struct error *err)
{
    char *text = arena_strdup(arena, g->pattern);
    size_t prefix = 0;
    for (char *p = text; *p;) {
        size_t n = strcspn(p, "/");
        bool plain = strcspn(p, "*?[\\") >= n && !g->part_count;
        if (n && plain) {
            prefix = (size_t)(p - text) + n;
        } else if (n && g->part_count == PARTS_MAX) {
            return error_set(err, ERROR_PROTOCOL, "a pattern of more than %d parts", PARTS_MAX);
        } else if (n) {
            g->parts[g->part_count++] = p;
        }
        p += n;
        if (*p)
            *p++ = 0;
    }
    g->prefix = prefix ? arena_strndup(arena, g->pattern, prefix) : arena_strdup(arena, "/");
    return 0;
}

struct glob *glob_open(const struct ledger *l, uint64_t token, const char *pattern, struct arena *arena,
                       struct error *err)
{
    struct glob *g = arena_alloc(arena, sizeof *g);
    g->token = token;
    char *program = str_starts(pattern, WIRE_PATH_PROGRAM) ? facts_program(strchr(pattern, '/') + 1, arena) : NULL;
    g->pattern = path_clean(program && *program ? program : ledger_node_path(l, pattern, arena));
    if (split(g, arena, err) < 0)
        return NULL;
    struct stat st;
    int fd = open(g->prefix, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
    if (enter(g, fd, with_skipped(g, 1)) == 0)
        return g;
    if (errno != ENOENT && errno != ENOTDIR) {
        error_errno(err, ERROR_INFRA, errno, "cannot read \"%s\"", g->prefix);
        return NULL;
    }
    char *slash = strrchr(g->prefix, '/');
    if (!g->part_count && lstat(g->prefix, &st) == 0)
        g->single = slash + 1;
    char *whole = g->prefix;
    g->prefix = slash == whole ? arena_strdup(arena, "/") : arena_strndup(arena, whole, (size_t)(slash - whole));
    return g;
}

void glob_close(struct glob *g)
{
    while (g->depth)
        closedir(g->levels[--g->depth].dir);
    buf_free(&g->path);
}

/* The entry g->path is: `name` in dir_fd. False: nothing that could be fetched. */
static bool describe(struct glob *g, int dir_fd, const char *name, const struct stat *st, struct arena *arena,
                     struct wire_entry *ret)
{
    *ret = (struct wire_entry){.path = arena_strdup(arena, g->path.data),
                               .mode = st->st_mode,
                               .size = (uint64_t)st->st_size,
                               .inode = st->st_ino,
                               .target = arena_strdup(arena, "")};
    struct tree_entry e = {0};
    tree_entry_stat(&e, st);
    ret->mtime_ns = e.mtime_ns;
    if (S_ISLNK(st->st_mode)) {
        char target[WIRE_PATH_MAX + 1];
        ssize_t n = readlinkat(dir_fd, name, target, sizeof target - 1);
        ret->target = arena_strndup(arena, target, n > 0 ? (size_t)n : 0);
        return n > 0;
    }
    return S_ISREG(st->st_mode) || S_ISDIR(st->st_mode);
}

static int visit(struct glob *g, const char *name, struct arena *arena, struct wire_entries *m, struct error *err)
{
    struct level *level = &g->levels[g->depth - 1];
    int fd = dirfd(level->dir);
    struct stat st;
    uint64_t set = step_set(g, level->set, name);
    if (!set || str_eq(name, ".") || str_eq(name, "..") || fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0; /* of no interest, or just removed */
    g->path.len = level->len;
    buf_printf(&g->path, "%s%s", level->len ? "/" : "", name);
    if (g->path.len > WIRE_PATH_MAX || (S_ISDIR(st.st_mode) && g->depth == DEPTH_MAX))
        return error_set(err, ERROR_INFRA, "\"%s/%.100s...\" is too deep", g->prefix, g->path.data);
    if (set >> g->part_count & 1 && describe(g, fd, name, &st, arena, &m->entries[m->entry_count])) {
        m->entry_count++;
        if (++g->found > ENTRIES_MAX)
            return error_set(err, ERROR_INFRA, "more than %d files match", ENTRIES_MAX);
    }
    if (!S_ISDIR(st.st_mode) || enter(g, openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), set) == 0)
        return 0;
    return errno == ENOENT || errno == ENOTDIR
               ? 0
               : error_errno(err, ERROR_INFRA, errno, "cannot read \"%s/%s\"", g->prefix, g->path.data);
}

static int walk(struct glob *g, struct arena *arena, struct wire_entries *m, struct error *err)
{
    struct stat st;
    if (g->single) {
        buf_puts(&g->path, g->single);
        CLEANUP(cleanup_close) int fd = open(g->prefix, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0 && fstatat(fd, g->single, &st, AT_SYMLINK_NOFOLLOW) == 0)
            m->entry_count += describe(g, fd, g->single, &st, arena, m->entries);
        return 0;
    }
    size_t before = arena_used(arena);
    for (int i = 0; g->depth && i < STEP_NAMES && arena_used(arena) - before < STEP_SIZE; i++) {
        struct dirent *e = readdir(g->levels[g->depth - 1].dir);
        if (!e)
            closedir(g->levels[--g->depth].dir);
        else if (visit(g, e->d_name, arena, m, err) < 0)
            return -1;
    }
    return 0;
}

bool glob_step(struct glob *g, struct buf *out)
{
    struct arena *arena = arena_create();
    struct error err = ERROR_INIT;
    struct wire_entries m = {
        .token = g->token, .prefix = g->prefix, .entries = arena_array(arena, STEP_NAMES, sizeof *m.entries)};
    if (walk(g, arena, &m, &err) < 0)
        m.error = err.text;
    m.last = m.error || !g->depth;
    if (m.last || m.entry_count)
        wire_put_entries(out, &m);
    arena_destroy(arena);
    return m.last;
}
