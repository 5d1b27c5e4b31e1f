/* Lists the files that match a pattern: walks below the pattern's leading folder, a few thousand names at a time. */
#include "server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEPTH_MAX = 200, ENTRIES_MAX = 1000000, STEP_NAMES = 4096, STEP_SIZE = 128 << 10 };

struct glob {
    uint64_t token;
    char *path_asked, *prefix;
    struct wire_pattern pattern; /* behind the prefix */
    const char *single;          /* a single file: its name below prefix */
    struct level {
        DIR *dir;
        size_t len; /* of path, for this folder */
        uint64_t set;
    } levels[DEPTH_MAX];
    size_t depth;
    struct buf path; /* below the prefix */
    uint64_t found;
};

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

/* The folder before the requested path is taken literally, whatever characters its name has. */
static int split(struct glob *g, const char *folder, struct arena *arena, struct error *err)
{
    size_t prefix, len = folder ? strlen(folder) : 0;
    bool below = len && str_starts(g->path_asked, folder) && g->path_asked[len] == '/';
    if (!wire_pattern_split(&g->pattern, arena_strdup(arena, g->path_asked), below ? len : 0, &prefix))
        return error_set(err, ERROR_PROTOCOL, "a pattern of more than %d parts", WIRE_PATTERN_PARTS);
    g->prefix = prefix ? arena_strndup(arena, g->path_asked, prefix) : arena_strdup(arena, "/");
    return 0;
}

struct glob *glob_open(const struct ledger *l, uint64_t token, const char *pattern, struct arena *arena,
                       struct error *err)
{
    struct glob *g = arena_alloc(arena, sizeof *g);
    g->token = token;
    char *program = str_starts(pattern, WIRE_PATH_PROGRAM) ? facts_program(strchr(pattern, '/') + 1, arena) : NULL;
    g->path_asked = path_clean(program && *program ? program : ledger_node_path(l, pattern, arena));
    const char *folder = *pattern == '/' ? NULL
                                         : ledger_node_path(l,
                                                            *pattern == '~'   ? "~"
                                                            : *pattern == '@' ? "@base"
                                                                              : "",
                                                            arena);
    if (split(g, folder, arena, err) < 0)
        return NULL;
    struct stat st;
    int fd = open(g->prefix, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
    if (enter(g, fd, wire_pattern_begin(&g->pattern)) == 0)
        return g;
    if (errno != ENOENT && errno != ENOTDIR) {
        error_errno(err, ERROR_INFRA, errno, "cannot read \"%s\"", g->prefix);
        return NULL;
    }
    char *slash = strrchr(g->prefix, '/');
    if (!g->pattern.part_count && lstat(g->prefix, &st) == 0)
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

/* Describes the entry g->path, which is `name` in dir_fd. False: it is nothing that could be fetched. */
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
    uint64_t set = wire_pattern_step(&g->pattern, level->set, name);
    if (!set || str_eq(name, ".") || str_eq(name, "..") || fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0; /* not wanted, or just removed */
    g->path.len = level->len;
    buf_printf(&g->path, "%s%s", level->len ? "/" : "", name);
    if (g->path.len > WIRE_PATH_MAX || (S_ISDIR(st.st_mode) && g->depth == DEPTH_MAX))
        return error_set(err, ERROR_INFRA, "\"%s/%.100s...\" is too deep", g->prefix, g->path.data);
    if (wire_pattern_whole(&g->pattern, set) && describe(g, fd, name, &st, arena, &m->entries[m->entry_count])) {
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
