/* The snapshot store: stored files are read back, by us and by git, while others store at the same time. */
#include "store_scene.h"

/* ---- stored objects ---- */

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
    for (size_t i = 0; i < ARRAY_LEN(pids); i++) { /* two of them write the same set */
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

/* ---- unneeded objects ---- */

static struct tree_swept sweep(const char *name, const char *wanted, bool really)
{
    CLEANUP(cleanup_free) char *path = path_of(name);
    struct tree_swept swept = {0};
    struct error err = ERROR_INIT;
    if (tree_store_sweep(path, &wanted, 1, 1, really, &swept, &err) < 0)
        fail_msg("%s", err.text);
    return swept;
}

static void test_sweep(void **state)
{
    (void)state;
    static const uint64_t big[] = {TREE_BIG_SIZE + 1, 10, 300000};
    struct set keep = make_set(3, 21, big, ARRAY_LEN(big)), packed = make_set(600, 22, few_sizes, ARRAY_LEN(few_sizes));
    struct set loose = make_set(20, 23, big + 1, 1), large = make_set(3, 24, big, ARRAY_LEN(big));
    struct set *sets[] = {&keep, &packed, &loose, &large};
    char ids[4][TREE_ID_LEN + 1];
    CLEANUP(cleanup_free) char *path = path_of("swept"), *table = path_of("swept/scan-x");
    struct tree_store *s = open_store("swept");
    struct tree_swept swept;
    struct error err = ERROR_INIT;
    for (size_t i = 0; i < 4; i++)
        store_set(s, sets[i], sets[i]->count, ids[i]);
    assert_int_equal(shell("echo x >%s", table), 0);
    const char *wanted[] = {ids[0], "00000000000000000000000000000000000000ff"};
    assert_int_equal(tree_store_sweep(path, wanted, 1, 1, true, &swept, &err), -1); /* it is open */
    assert_int_equal(err.code, ERROR_HELD);
    tree_store_close(s);
    assert_int_equal(tree_store_sweep(path, wanted, 2, 2, true, &swept, &err), -1); /* one is not there */
    for (size_t i = 0; i < 4; i++)
        check_set("swept", sets[i], ids[i]);
    const struct tree_swept before = sweep("swept", ids[0], false);
    assert_int_equal(count_in("swept", "objects/pack", "") > 0, 1);
    assert_int_equal(access(table, F_OK), 0);
    assert_true(before.bytes > TREE_BIG_SIZE);
    swept = sweep("swept", ids[0], true);
    assert_int_equal(swept.bytes, before.bytes);
    assert_int_equal(swept.files, before.files);
    assert_int_equal(access(table, F_OK), -1);
    assert_int_equal(count_in("swept", "objects/pack", ""), 2); /* of the kept trees */
    assert_int_equal(count_in("swept", "big", ""), 1);
    check_set("swept", &keep, ids[0]);
    check_with_git("swept");
    swept = sweep("swept", ids[0], true);
    assert_int_equal(swept.files, 0);
    s = open_store("swept"); /* removed objects can be stored again */
    store_set(s, &large, large.count, ids[3]);
    tree_store_close(s);
    check_set("swept", &large, ids[3]);
    for (size_t i = 0; i < 4; i++)
        arena_destroy(sets[i]->arena);
}

/* A pack stays whole for one needed content; the rest of a killed pack goes. */
static void test_sweep_packs(void **state)
{
    (void)state;
    struct set set = make_set(600, 25, few_sizes, ARRAY_LEN(few_sizes)), part = set;
    struct tree_store *s = open_store("packs");
    char all[TREE_ID_LEN + 1], some[TREE_ID_LEN + 1];
    store_set(s, &set, set.count, all);
    part.count = 5;
    store_set(s, &part, part.count, some);
    tree_store_close(s);
    assert_int_equal(sweep("packs", some, true).files, 0);
    check_set("packs", &set, all);
    assert_int_equal(shell("rm -f %s/packs/objects/pack/*.idx", dir), 0);
    assert_int_equal(sweep("packs", "4b825dc642cb6eb9a060e54bf8d69288fbee4904", true).files >= 1, 1);
    assert_int_equal(count_in("packs", "objects/pack", ""), 0);
    arena_destroy(set.arena);
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
        cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_sweep_packs),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
