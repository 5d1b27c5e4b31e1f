/* The snapshot store: what is stored is read back, by us and by git; nothing half-written is ever seen; what is damaged
 * is named. */
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

static int setup(void **state)
{
    *state = NULL;
    have_git = shell("git --version >/dev/null 2>&1") == 0;
    if (!have_git)
        print_message("git is not here: it does not check the stores that are written\n");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return shell("chmod -R u+w %s && rm -rf %s", dir, dir);
}

static char *path_of(const char *name)
{
    return xasprintf("%s/%s", dir, name);
}

static struct tree_store *open_store(const char *name)
{
    CLEANUP(cleanup_free) char *path = path_of(name);
    struct error err = ERROR_INIT;
    struct tree_store *s;
    if (tree_store_open(path, &s, &err) < 0)
        fail_msg("%s", err.text);
    return s;
}

/* What git says of the whole store. */
static void check_with_git(const char *name)
{
    if (have_git) {
        assert_int_equal(shell("git -C %s/%s fsck --full --strict >/dev/null 2>&1", dir, name), 0);
        assert_int_equal(
            shell("for i in %s/%s/objects/pack/*.idx; do test ! -e $i || git verify-pack $i || exit 1; done", dir,
                  name),
            0);
    }
}

/* The names in a folder that begin so. */
static size_t count_in(const char *name, const char *folder, const char *prefix)
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

struct set {
    struct tree_file *files;
    size_t count;
    uint64_t bytes;
    struct arena *arena;
    uint32_t seed;
};

static void fill(const struct set *set, size_t i, uint8_t *out)
{
    uint32_t x = set->seed * 7919u + (uint32_t)i + 1;
    for (size_t n = 0; n < set->files[i].size; n++) {
        x = x * 1664525u + 1013904223u;
        out[n] = (uint8_t)(x >> 24);
    }
}

static uint8_t *content(const struct set *set, size_t i)
{
    uint8_t *out = xmalloc(set->files[i].size + 1);
    fill(set, i, out);
    return out;
}

static struct set make_set(size_t count, uint32_t seed, const uint64_t *sizes, size_t size_count)
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

static void add(struct tree_batch *b, const struct set *set, size_t i)
{
    CLEANUP(cleanup_free) uint8_t *data = content(set, i);
    assert_int_equal(tree_batch_add(b, TREE_OBJECT_BLOB, set->files[i].oid, data, set->files[i].size, NULL), 0);
}

static void store_set(struct tree_store *s, const struct set *set, uint64_t hint, char ret_id[TREE_ID_LEN + 1])
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
static void check_set(const char *name, const struct set *set, const char *id)
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

/* ---- what is stored ---- */

static const uint64_t few_sizes[] = {0, 1, 100, 4096};

static void test_empty(void **state)
{
    (void)state;
    struct tree_store *s = open_store("new/deep/empty"); /* parents are made */
    struct arena *arena = arena_create();
    struct tree *t;
    struct tree_batch *b;
    char id[TREE_ID_LEN + 1];
    assert_true(tree_load(s, "4b825dc642cb6eb9a060e54bf8d69288fbee4904", arena, &t));
    assert_int_equal(t->count, 0);
    assert_int_equal(tree_batch_begin(s, 0, 0, &b, NULL), 0);
    assert_int_equal(tree_id(NULL, 0, b, id, NULL), 0);
    assert_int_equal(tree_batch_end(b, NULL), 0);
    assert_string_equal(id, "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
    assert_false(tree_load(s, "4b825dc642cb6eb9a060e54bf8d69288fbee4905", arena, &t));
    assert_false(tree_load(s, "no id", arena, &t));
    arena_destroy(arena);
    tree_store_close(s);
    struct stat st;
    CLEANUP(cleanup_free) char *path = path_of("new/deep/empty");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    check_with_git("new/deep/empty");
}

static void test_few_are_loose(void **state)
{
    (void)state;
    struct set set = make_set(20, 1, few_sizes, ARRAY_LEN(few_sizes));
    struct tree_store *s = open_store("few");
    char id[TREE_ID_LEN + 1];
    assert_false(tree_store_has(s, set.files[1].oid, set.files[1].size));
    store_set(s, &set, set.count, id);
    assert_true(tree_store_has(s, set.files[1].oid, set.files[1].size));
    tree_store_close(s);
    assert_int_equal(count_in("few", "objects/pack", ""), 0);
    check_set("few", &set, id);
    check_with_git("few");
    arena_destroy(set.arena);
}

static void test_many_are_a_pack(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0,      15,     16,     2047, 2048, 65535, 65536, 65537,
                                     131070, 131071, 200000, 5,    17,   4096,  9};
    struct set set = make_set(600, 2, sizes, ARRAY_LEN(sizes));
    struct set largest = make_set(1, 3, (const uint64_t[]){TREE_BIG_SIZE}, 1);
    struct tree_store *s = open_store("many");
    char id[TREE_ID_LEN + 1], again[TREE_ID_LEN + 1], id_largest[TREE_ID_LEN + 1];
    store_set(s, &set, set.count, id);
    store_set(s, &largest, 1, id_largest); /* one object, but too many bytes for a loose one */
    assert_int_equal(count_in("many", "objects/pack", ""), 4);
    store_set(s, &set, set.count, again); /* all of it is there */
    assert_string_equal(id, again);
    assert_int_equal(count_in("many", "objects/pack", ""), 4);
    tree_store_close(s);
    check_set("many", &set, id);
    check_set("many", &largest, id_largest);
    check_with_git("many");
    arena_destroy(set.arena);
    arena_destroy(largest.arena);
}

/* The hint was wrong: contents were held for loose objects until there were too many. */
static void test_becomes_a_pack(void **state)
{
    (void)state;
    struct set set = make_set(300, 4, few_sizes, ARRAY_LEN(few_sizes));
    struct tree_store *s = open_store("becomes");
    char id[TREE_ID_LEN + 1];
    store_set(s, &set, 0, id);
    tree_store_close(s);
    assert_int_equal(count_in("becomes", "objects/pack", ""), 2);
    check_set("becomes", &set, id);
    check_with_git("becomes");
    arena_destroy(set.arena);
}

static void test_git_reads_the_same(void **state)
{
    (void)state;
    if (!have_git)
        skip();
    struct set set = make_set(100, 5, few_sizes, ARRAY_LEN(few_sizes));
    for (size_t i = 0; i < set.count; i++)
        if (set.files[i].mode == TREE_MODE_LINK)
            set.files[i].mode = TREE_MODE_FILE;
    struct tree_store *s = open_store("git");
    char id[TREE_ID_LEN + 1];
    store_set(s, &set, set.count, id);
    tree_store_close(s);
    assert_int_equal(shell("mkdir %s/out && git -C %s/git archive %s | tar -x -C %s/out", dir, dir, id, dir), 0);
    for (size_t i = 0; i < set.count; i++) {
        CLEANUP(cleanup_free) char *path = xasprintf("%s/out/%s", dir, set.files[i].path);
        CLEANUP(cleanup_free) uint8_t *data = content(&set, i);
        struct buf read = {0};
        struct stat st;
        assert_int_equal(file_read(path, 1 << 20, &read, NULL), 0);
        assert_int_equal(read.len, set.files[i].size);
        assert_true(read.len == 0 || memcmp(read.data, data, read.len) == 0);
        assert_true(stat(path, &st) == 0 && !!(st.st_mode & 0100) == (set.files[i].mode == TREE_MODE_EXEC));
        buf_free(&read);
    }
    /* The same files added by git are the same tree. */
    assert_int_equal(shell("cd %s/out && git init -q . && git -c core.safecrlf=false add -A && "
                           "test $(git write-tree) = %s",
                           dir, id),
                     0);
    arena_destroy(set.arena);
}

static void test_abort_leaves_nothing(void **state)
{
    (void)state;
    struct set set = make_set(100, 6, few_sizes, ARRAY_LEN(few_sizes));
    struct tree_store *s = open_store("abort");
    struct tree_batch *b;
    struct tree_big *big;
    int fd;
    assert_int_equal(tree_batch_begin(s, 100, 0, &b, NULL), 0);
    for (size_t i = 0; i < set.count; i++)
        add(b, &set, i);
    assert_int_equal(tree_batch_big_begin(b, 5, &big, &fd, NULL), 0);
    assert_int_equal(count_in("abort", "objects/pack", ""), 1);
    assert_int_equal(count_in("abort", "big", ""), 1);
    tree_batch_big_abort(big);
    tree_batch_abort(b);
    assert_int_equal(count_in("abort", "objects/pack", ""), 0);
    assert_int_equal(count_in("abort", "big", ""), 0);
    assert_false(tree_store_has(s, set.files[1].oid, set.files[1].size));
    tree_store_close(s);
    tree_store_close(NULL);
    arena_destroy(set.arena);
}

static void put_big(struct tree_batch *b, const struct set *set, size_t i)
{
    struct tree_big *big;
    int fd;
    CLEANUP(cleanup_free) uint8_t *data = content(set, i);
    assert_int_equal(tree_batch_big_begin(b, set->files[i].size, &big, &fd, NULL), 0);
    assert_int_equal(write_all(fd, data, set->files[i].size), 0);
    assert_int_equal(tree_batch_big_end(big, set->files[i].oid, NULL), 0);
}

static void test_big(void **state)
{
    (void)state;
    struct set set = make_set(2, 7, (const uint64_t[]){TREE_BIG_SIZE + 1, TREE_BIG_SIZE + 777777}, 2);
    struct tree_store *s = open_store("big");
    struct tree_batch *b;
    struct error err = ERROR_INIT;
    char id[TREE_ID_LEN + 1];
    assert_int_equal(tree_batch_begin(s, 2, set.bytes, &b, NULL), 0);
    put_big(b, &set, 0);
    put_big(b, &set, 1);
    put_big(b, &set, 1); /* it is there: the second copy is dropped */
    assert_int_equal(tree_id(set.files, set.count, b, id, NULL), 0);
    assert_int_equal(tree_batch_end(b, NULL), 0);
    assert_int_equal(count_in("big", "big", ""), 2);
    check_set("big", &set, id);
    /* Cut short (as a power cut leaves it), it does not count as there, and is replaced. */
    CLEANUP(cleanup_free) char *path = tree_big_path(s, set.files[0].oid);
    struct tree_reader r;
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(truncate(path, 1000), 0);
    assert_false(tree_store_has(s, set.files[0].oid, set.files[0].size));
    assert_int_equal(tree_open(s, &set.files[0], &r, &err), -1);
    assert_non_null(strstr(err.text, "d0/e0/f00000"));
    assert_int_equal(tree_batch_begin(s, 1, 0, &b, NULL), 0);
    put_big(b, &set, 0);
    assert_int_equal(tree_batch_end(b, NULL), 0);
    check_set("big", &set, id);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(tree_open(s, &set.files[0], &r, &err), -1);
    assert_non_null(strstr(err.text, "\"d0/e0/f00000\" is missing"));
    tree_store_close(s);
    arena_destroy(set.arena);
}

/* ---- several at once ---- */

struct adder {
    struct tree_batch *b;
    const struct set *set;
    size_t from;
};

static void *add_all(void *arg)
{
    const struct adder *a = arg;
    for (size_t i = 0; i < a->set->count; i++)
        add(a->b, a->set, (i + a->from) % a->set->count);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct set set = make_set(400, 8, (const uint64_t[]){3, 70000, 900, 12000}, 4);
    for (unsigned hint = 0; hint < 2; hint++) { /* 0: it becomes a pack while all are adding */
        const char *name = hint ? "threads1" : "threads0";
        struct tree_store *s = open_store(name);
        struct tree_batch *b;
        struct adder adders[4];
        pthread_t threads[ARRAY_LEN(adders)];
        char id[TREE_ID_LEN + 1];
        assert_int_equal(tree_batch_begin(s, hint * 1000, 0, &b, NULL), 0);
        for (size_t i = 0; i < ARRAY_LEN(adders); i++) {
            adders[i] = (struct adder){.b = b, .set = &set, .from = i * 100};
            assert_int_equal(pthread_create(&threads[i], NULL, add_all, &adders[i]), 0);
        }
        for (size_t i = 0; i < ARRAY_LEN(adders); i++)
            (void)pthread_join(threads[i], NULL);
        assert_int_equal(tree_id(set.files, set.count, b, id, NULL), 0);
        assert_int_equal(tree_batch_end(b, NULL), 0);
        tree_store_close(s);
        check_set(name, &set, id);
        check_with_git(name);
    }
    arena_destroy(set.arena);
}

static void test_two_processes(void **state)
{
    (void)state;
    struct set sets[2] = {make_set(300, 9, few_sizes, ARRAY_LEN(few_sizes)),
                          make_set(280, 10, few_sizes, ARRAY_LEN(few_sizes))};
    pid_t pids[4];
    char id[TREE_ID_LEN + 1];
    for (size_t i = 0; i < ARRAY_LEN(pids); i++) { /* two of them write the very same */
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            struct tree_store *s = open_store("two");
            store_set(s, &sets[i % 2], sets[i % 2].count, id);
            tree_store_close(s);
            _exit(0);
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(pids); i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(count_in("two", "objects/pack", "tmp_"), 0);
    for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
        assert_int_equal(tree_id(sets[i].files, sets[i].count, NULL, id, NULL), 0);
        check_set("two", &sets[i], id);
        arena_destroy(sets[i].arena);
    }
    check_with_git("two");
}

static void test_living_writers_keep_their_files(void **state)
{
    (void)state;
    struct set set = make_set(100, 11, few_sizes, ARRAY_LEN(few_sizes));
    struct tree_store *s = open_store("living");
    struct tree_batch *b;
    char id[TREE_ID_LEN + 1];
    assert_int_equal(tree_batch_begin(s, 100, 0, &b, NULL), 0);
    for (size_t i = 0; i < set.count; i++)
        add(b, &set, i);
    tree_store_close(open_store("living")); /* opening cleans up */
    assert_int_equal(count_in("living", "objects/pack", "tmp_"), 1);
    assert_int_equal(tree_id(set.files, set.count, b, id, NULL), 0);
    assert_int_equal(tree_batch_end(b, NULL), 0);
    tree_store_close(s);
    check_set("living", &set, id);
    arena_destroy(set.arena);
}

/* ---- what a kill or a disk leaves ---- */

/* Writes packs without end; a byte to fd after each step, so that the parent kills it at any of them. */
static void write_for_ever(int fd, uint32_t seed)
{
    for (;; seed++) {
        struct set set = make_set(70, seed, few_sizes, ARRAY_LEN(few_sizes));
        struct tree_store *s = open_store("killed");
        struct tree_batch *b;
        char id[TREE_ID_LEN + 1];
        (void)tree_batch_begin(s, seed % 3 ? set.count : 0, 0, &b, NULL);
        for (size_t i = 0; i < set.count; i++) {
            add(b, &set, i);
            if (write(fd, ".", 1) != 1)
                _exit(1);
        }
        (void)tree_id(set.files, set.count, b, id, NULL);
        (void)tree_batch_end(b, NULL);
        if (write(fd, "!", 1) != 1) /* this set is whole */
            _exit(1);
        tree_store_close(s);
        arena_destroy(set.arena);
    }
}

static void test_killed_while_writing(void **state)
{
    (void)state;
    enum { ROUNDS = 40 };
    uint32_t x = 12345;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        int pipe_fd[2];
        x = x * 1664525u + 1013904223u;
        uint32_t steps = 1 + (x >> 16) % 200, whole = 0, seed = 1000 + round * 100;
        assert_int_equal(pipe2(pipe_fd, O_CLOEXEC), 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            write_for_ever(pipe_fd[1], seed);
        close(pipe_fd[1]);
        for (uint32_t i = 0; i < steps; i++) {
            char c;
            assert_int_equal(read(pipe_fd[0], &c, 1), 1);
            whole += c == '!';
        }
        (void)kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        close(pipe_fd[0]);
        tree_store_close(open_store("killed"));
        assert_int_equal(count_in("killed", "objects/pack", "tmp_"), 0);
        for (uint32_t i = 0; i < whole; i++) {
            struct set set = make_set(70, seed + i, few_sizes, ARRAY_LEN(few_sizes));
            char id[TREE_ID_LEN + 1];
            assert_int_equal(tree_id(set.files, set.count, NULL, id, NULL), 0);
            check_set("killed", &set, id);
            arena_destroy(set.arena);
        }
    }
    check_with_git("killed");
}

static char *only_pack(const char *name)
{
    CLEANUP(cleanup_free) char *folder = xasprintf("%s/%s/objects/pack", dir, name);
    DIR *d = opendir(folder);
    char *found = NULL;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (str_ends(e->d_name, ".pack")) {
            assert_null(found);
            found = xasprintf("%s/%s", folder, e->d_name);
        }
    closedir(d);
    assert_non_null(found);
    assert_int_equal(chmod(found, 0600), 0);
    return found;
}

static void test_a_damaged_byte_is_found(void **state)
{
    (void)state;
    struct set set = make_set(70, 12, (const uint64_t[]){3000}, 1);
    struct tree_store *s = open_store("damaged");
    char id[TREE_ID_LEN + 1];
    store_set(s, &set, set.count, id);
    tree_store_close(s);
    CLEANUP(cleanup_free) char *path = only_pack("damaged");
    CLEANUP(cleanup_close) int fd = open(path, O_RDWR | O_CLOEXEC);
    char c;
    assert_int_equal(pread(fd, &c, 1, 3012 * 40 + 1500), 1); /* in the middle of file 40 */
    c ^= 4;
    assert_int_equal(pwrite(fd, &c, 1, 3012 * 40 + 1500), 1);
    s = open_store("damaged");
    size_t bad = 0;
    for (size_t i = 0; i < set.count; i++) {
        struct tree_reader r = {.fd = -1};
        struct error err = ERROR_INIT;
        if (tree_open(s, &set.files[i], &r, &err) < 0) {
            bad++;
            assert_non_null(strstr(err.text, set.files[i].path));
            assert_non_null(strstr(err.text, "damaged"));
            assert_true(err.hint[0]);
        }
        tree_done(&r);
    }
    assert_int_equal(bad, 1);
    tree_store_close(s);
    arena_destroy(set.arena);
}

static void test_a_pack_that_is_not_whole_does_not_count(void **state)
{
    (void)state;
    struct set set = make_set(70, 13, (const uint64_t[]){3000}, 1);
    struct tree_store *s = open_store("short");
    struct arena *arena = arena_create();
    struct tree *t;
    char id[TREE_ID_LEN + 1];
    store_set(s, &set, set.count, id);
    tree_store_close(s);
    CLEANUP(cleanup_free) char *path = only_pack("short");
    for (off_t size = 0; size <= 100000; size += 50000) {
        assert_int_equal(truncate(path, size), 0);
        s = open_store("short");
        assert_false(tree_store_has(s, set.files[0].oid, set.files[0].size));
        assert_false(tree_load(s, id, arena, &t));
        tree_store_close(s);
    }
    s = open_store("short");
    store_set(s, &set, set.count, id);
    tree_store_close(s);
    check_set("short", &set, id);
    arena_destroy(arena);
    arena_destroy(set.arena);
}

/* ---- listings that git would not make ---- */

static void put_entry(struct buf *out, const char *mode, const char *name, const uint8_t oid[TREE_OID_SIZE])
{
    buf_printf(out, "%s %s", mode, name);
    buf_putc(out, 0);
    buf_append(out, oid, TREE_OID_SIZE);
}

static void put_tree(struct tree_batch *b, struct buf *object, uint8_t ret_oid[TREE_OID_SIZE])
{
    tree_hash(TREE_OBJECT_TREE, object->data, object->len, ret_oid);
    assert_int_equal(tree_batch_add(b, TREE_OBJECT_TREE, ret_oid, object->data ? object->data : "", object->len, NULL),
                     0);
    buf_free(object);
}

static enum tree_found list(struct tree_store *s, const uint8_t oid[TREE_OID_SIZE], struct error *err)
{
    struct arena *arena = arena_create();
    struct tree *t;
    bool same;
    char id[TREE_ID_LEN + 1];
    tree_hex(oid, id);
    enum tree_found found = tree_list(s, id, arena, &t, &same, NULL, err);
    assert_int_equal(tree_load(s, id, arena, &t), found == TREE_FOUND);
    arena_destroy(arena);
    return found;
}

static void test_listings_that_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *entries[3]; /* "MODE NAME" */
        bool sound;
    } cases[] = {
        {{"100644 a", "100644 b"}, true},
        {{"100644 a.b", "40000 a", "100644 a0"}, true}, /* a folder sorts as "a/" */
        {{"100664 a"}, true},
        {{"0100644 a"}, true},
        {{"100644 .."}, false},
        {{"100644 ."}, false},
        {{"40000 .."}, false},
        {{"40000 .git"}, false},
        {{"40000 .GIT"}, false},
        {{"120000 .git"}, false},
        {{"100644 a/b"}, false},
        {{"100644 /etc"}, false},
        {{"100644 "}, false},
        {{"100644 a", "100644 a"}, false},
        {{"100644 a", "40000 a"}, false},
        {{"100644 a", "100644 a.b", "40000 a"}, false}, /* git's order, and one name twice */
        {{"100644 b", "100644 a"}, false},
        {{"40000 a", "100644 a.b"}, false},
        {{"100600 a"}, false},
        {{"20666 a"}, false},
        {{"140000 a"}, false},
        {{"999 a"}, false},
        {{"7777777777777777 a"}, false},
        {{"nonsense"}, false},
    };
    struct tree_store *s = open_store("refused");
    struct tree_batch *b;
    uint8_t file[TREE_OID_SIZE], folder[TREE_OID_SIZE], oid[TREE_OID_SIZE];
    assert_int_equal(tree_batch_begin(s, 0, 0, &b, NULL), 0);
    tree_hash(TREE_OBJECT_BLOB, "x", 1, file);
    assert_int_equal(tree_batch_add(b, TREE_OBJECT_BLOB, file, "x", 1, NULL), 0);
    struct buf object = {0};
    put_entry(&object, "100644", "x", file);
    put_tree(b, &object, folder);
    assert_int_equal(tree_batch_end(b, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(tree_batch_begin(s, 0, 0, &b, NULL), 0);
        for (size_t k = 0; k < ARRAY_LEN(cases[i].entries) && cases[i].entries[k]; k++) {
            const char *entry = cases[i].entries[k];
            buf_puts(&object, entry);
            buf_putc(&object, 0);
            buf_append(&object, str_starts(entry, "40000") ? folder : file, TREE_OID_SIZE);
        }
        put_tree(b, &object, oid);
        assert_int_equal(tree_batch_end(b, NULL), 0);
        struct error err = ERROR_INIT;
        enum tree_found found = list(s, oid, &err);
        if ((found == TREE_FOUND) != cases[i].sound)
            fail_msg("%s ...: found %d: %s", cases[i].entries[0], found, err.text);
        assert_int_equal(err.code, cases[i].sound ? ERROR_NONE : ERROR_PROTOCOL);
    }
    tree_store_close(s);
}

/* A few small objects that list as billions of folders, or nest too deep. */
static void test_listings_without_end(void **state)
{
    (void)state;
    struct tree_store *s = open_store("endless");
    struct tree_batch *b;
    struct error err = ERROR_INIT;
    uint8_t empty[TREE_OID_SIZE], wide[TREE_OID_SIZE], deep[TREE_OID_SIZE];
    struct buf object = {0};
    assert_int_equal(tree_batch_begin(s, 0, 0, &b, NULL), 0);
    put_tree(b, &object, empty);
    memcpy(wide, empty, sizeof wide);
    memcpy(deep, empty, sizeof deep);
    for (size_t level = 0; level < 12; level++) {
        for (char name[] = "a"; name[0] <= 'z'; name[0]++)
            put_entry(&object, "40000", name, wide);
        put_tree(b, &object, wide);
    }
    for (size_t level = 0; level < TREE_DEPTH_MAX + 2; level++) {
        put_entry(&object, "40000", "d", deep);
        put_tree(b, &object, deep);
    }
    assert_int_equal(tree_batch_end(b, NULL), 0);
    assert_int_equal(list(s, wide, &err), TREE_DAMAGED);
    assert_non_null(strstr(err.text, "too many"));
    assert_int_equal(list(s, deep, &err), TREE_DAMAGED);
    assert_non_null(strstr(err.text, "too deep"));
    tree_store_close(s);
}

static void test_a_missing_part(void **state)
{
    (void)state;
    struct tree_store *s = open_store("missing");
    struct tree_batch *b;
    struct error err = ERROR_INIT;
    uint8_t oid[TREE_OID_SIZE], none[TREE_OID_SIZE] = {1, 2, 3};
    struct buf object = {0};
    assert_int_equal(tree_batch_begin(s, 0, 0, &b, NULL), 0);
    put_entry(&object, "100644", "lost", none);
    put_tree(b, &object, oid);
    assert_int_equal(tree_batch_end(b, NULL), 0);
    assert_int_equal(list(s, oid, &err), TREE_MISSING);
    assert_non_null(strstr(err.text, "\"lost\" is missing"));
    struct tree_file f = {.path = "lost", .mode = TREE_MODE_FILE, .size = 3};
    struct tree_reader r = {.fd = -1};
    memcpy(f.oid, none, sizeof none);
    assert_int_equal(tree_open(s, &f, &r, &err), -1);
    assert_non_null(strstr(err.text, "\"lost\" is missing"));
    tree_done(&r);
    tree_done(&r);
    tree_store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_few_are_loose),
        cmocka_unit_test(test_many_are_a_pack),
        cmocka_unit_test(test_becomes_a_pack),
        cmocka_unit_test(test_git_reads_the_same),
        cmocka_unit_test(test_abort_leaves_nothing),
        cmocka_unit_test(test_big),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_two_processes),
        cmocka_unit_test(test_living_writers_keep_their_files),
        cmocka_unit_test(test_killed_while_writing),
        cmocka_unit_test(test_a_damaged_byte_is_found),
        cmocka_unit_test(test_a_pack_that_is_not_whole_does_not_count),
        cmocka_unit_test(test_listings_that_are_refused),
        cmocka_unit_test(test_listings_without_end),
        cmocka_unit_test(test_a_missing_part),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
