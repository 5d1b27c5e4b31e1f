/* The snapshot store: nothing half-written is ever seen; damaged objects, and objects that git would not write, are
 * named. */
#include "store_scene.h"

/* ---- after a kill or a disk fault ---- */

/* Writes packs forever; a byte to fd after each step, so that the parent can kill it at any of them. */
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
        cmocka_unit_test(test_killed_while_writing),
        cmocka_unit_test(test_a_damaged_byte_is_found),
        cmocka_unit_test(test_a_pack_that_is_not_whole_does_not_count),
        cmocka_unit_test(test_listings_that_are_refused),
        cmocka_unit_test(test_listings_without_end),
        cmocka_unit_test(test_a_missing_part),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
