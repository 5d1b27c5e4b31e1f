/* A snapshot store of a test, and sets of files for it. */
#ifndef TESTS_STORE_SCENE_H
#define TESTS_STORE_SCENE_H

#include "../../src/tree/internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/rhrun-tree-XXXXXX";
static bool have_git;

static FORMAT(1, 2) int shell(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *command = xvasprintf(fmt, ap);
    va_end(ap);
    return system(command);
}

static inline int setup(void **state)
{
    *state = NULL;
    have_git = shell("git --version >/dev/null 2>&1") == 0;
    if (!have_git)
        print_message("git is not here: it does not check the stores that are written\n");
    return mkdtemp(dir) ? 0 : -1;
}

static inline int teardown(void **state)
{
    (void)state;
    return shell("chmod -R u+w %s && rm -rf %s", dir, dir);
}

static inline char *path_of(const char *name)
{
    return xasprintf("%s/%s", dir, name);
}

static inline struct tree_store *open_store(const char *name)
{
    CLEANUP(cleanup_free) char *path = path_of(name);
    struct error err = ERROR_INIT;
    struct tree_store *s;
    if (tree_store_open(path, &s, &err) < 0)
        fail_msg("%s", err.text);
    return s;
}

/* git's report on the whole store. */
static inline void check_with_git(const char *name)
{
    if (have_git) {
        assert_int_equal(shell("git -C %s/%s fsck --full --strict >/dev/null 2>&1", dir, name), 0);
        assert_int_equal(
            shell("for i in %s/%s/objects/pack/*.idx; do test ! -e $i || git verify-pack $i || exit 1; done", dir,
                  name),
            0);
    }
}

/* The names in a folder with this prefix. */
static inline size_t count_in(const char *name, const char *folder, const char *prefix)
{
    CLEANUP(cleanup_free) char *path = xasprintf("%s/%s/%s", dir, name, folder);
    DIR *d = opendir(path);
    size_t n = 0;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.' && str_starts(e->d_name, prefix);
    closedir(d);
    return n;
}

/* ---- a set of files with contents that follow from their number ---- */

static const uint64_t few_sizes[] = {0, 1, 100, 4096};

struct set {
    struct tree_file *files;
    size_t count;
    uint64_t bytes;
    struct arena *arena;
    uint32_t seed;
};

static inline void fill(const struct set *set, size_t i, uint8_t *out)
{
    uint32_t x = set->seed * 7919u + (uint32_t)i + 1;
    for (size_t n = 0; n < set->files[i].size; n++) {
        x = x * 1664525u + 1013904223u;
        out[n] = (uint8_t)(x >> 24);
    }
}

static inline uint8_t *content(const struct set *set, size_t i)
{
    uint8_t *out = xmalloc(set->files[i].size + 1);
    fill(set, i, out);
    return out;
}

static inline struct set make_set(size_t count, uint32_t seed, const uint64_t *sizes, size_t size_count)
{
    struct set set = {.count = count, .seed = seed, .arena = arena_create()};
    set.files = arena_array(set.arena, count, sizeof *set.files);
    for (size_t i = 0; i < count; i++) {
        set.files[i].path = arena_printf(set.arena, "d%zu/e%zu/f%05zu", i / 40, i / 10 % 4, i);
        if (i / 40 >= 10)
            set.files[i].path = arena_printf(set.arena, "x%05zu", i);
        set.files[i].mode = i % 7 == 0 ? TREE_MODE_EXEC : i % 11 == 0 ? TREE_MODE_LINK : TREE_MODE_FILE;
        set.files[i].size = sizes[i % size_count];
        set.bytes += set.files[i].size;
        CLEANUP(cleanup_free) uint8_t *data = content(&set, i);
        tree_hash(TREE_OBJECT_BLOB, data, set.files[i].size, set.files[i].oid);
    }
    return set;
}

static inline void add(struct tree_batch *b, const struct set *set, size_t i)
{
    CLEANUP(cleanup_free) uint8_t *data = content(set, i);
    assert_int_equal(tree_batch_add(b, TREE_OBJECT_BLOB, set->files[i].oid, data, set->files[i].size, NULL), 0);
}

static inline void store_set(struct tree_store *s, const struct set *set, uint64_t hint, char ret_id[TREE_ID_LEN + 1])
{
    struct tree_batch *b;
    struct error err = ERROR_INIT;
    assert_int_equal(tree_batch_begin(s, hint, 0, &b, &err), 0);
    for (size_t i = 0; i < set->count; i++)
        add(b, set, i);
    assert_int_equal(tree_id(set->files, set->count, b, ret_id, &err), 0);
    if (tree_batch_end(b, &err) < 0)
        fail_msg("%s", err.text);
}

/* Everything of the set is there, with the same bytes. */
static inline void check_set(const char *name, const struct set *set, const char *id)
{
    struct tree_store *s = open_store(name);
    struct arena *arena = arena_create();
    struct tree *t;
    struct error err = ERROR_INIT;
    assert_true(tree_load(s, id, arena, &t));
    assert_string_equal(t->id, id);
    assert_int_equal(t->count, set->count);
    assert_int_equal(t->bytes, set->bytes);
    for (size_t i = 0; i < t->count; i++) {
        const struct tree_file *f = tree_find(t, set->files[i].path);
        struct tree_reader r = {.fd = -1};
        CLEANUP(cleanup_free) uint8_t *data = content(set, i), *read = xmalloc(set->files[i].size + 1);
        assert_non_null(f);
        assert_int_equal(f->mode, set->files[i].mode);
        assert_int_equal(f->size, set->files[i].size);
        assert_memory_equal(f->oid, set->files[i].oid, TREE_OID_SIZE);
        if (tree_open(s, f, &r, &err) < 0)
            fail_msg("%s", err.text);
        assert_int_equal(tree_read(&r, 0, read, set->files[i].size + 1, &err), f->size);
        assert_memory_equal(read, data, f->size);
        assert_int_equal(tree_read(&r, f->size, read, 1, &err), 0);
        if (f->size > 3)
            assert_true(tree_read(&r, f->size - 2, read, 10, &err) == 2 && memcmp(read, data + f->size - 2, 2) == 0);
        tree_done(&r);
    }
    assert_null(tree_find(t, "d0/e0"));
    assert_null(tree_find(t, "zzz"));
    arena_destroy(arena);
    tree_store_close(s);
}

#endif
