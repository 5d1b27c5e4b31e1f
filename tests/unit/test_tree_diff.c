/* The difference between two stored trees: as git itself writes it, and so that git can apply it. */
#include "rhrun/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "script.h"

static char dir[] = "/tmp/rhrun-diff-XXXXXX";
static bool has_git;
static struct arena *arena;
static struct tree_store *store;

static struct tree *stored(const char *name)
{
    CLEANUP(cleanup_free) char *path = xasprintf("%s/%s", dir, name);
    struct error err = ERROR_INIT;
    struct tree_scan scan = {.path = path, .store = true};
    const char *notes;
    struct tree *t;
    if (tree_scan(store, &scan, arena, &t, &notes, &err) < 0)
        fail_msg("%s", err.text);
    return t;
}

static char *whole(const struct tree *a, const struct tree *b)
{
    struct tree_change *changes;
    size_t count;
    struct buf out = {0};
    struct error err = ERROR_INIT;
    tree_changes(a, b, arena, &changes, &count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(tree_change_text(store, store, &changes[i], &out, &err), 0);
    buf_puts(&out, "");
    return buf_steal(&out);
}

static void test_as_git(void **state)
{
    (void)state;
    if (!has_git)
        skip();
    script("%s",
           "mkdir a b; for d in a b; do mkdir $d/sub; echo same >$d/same; done\n"
           "seq 1 40 >a/train.py; seq 1 40 | sed 's/^20$/twenty/; 1d' >b/train.py\n"
           "echo x >a/gone; echo y >b/sub/new; : >b/empty; printf 'no end' >a/end; printf 'no end at all' >b/end\n"
           "echo run >a/tool; echo run >b/tool; chmod +x b/tool; ln -s same a/link; ln -s train.py b/link\n"
           "echo z >'a/with space'; echo zz >'b/with space'; printf 'q\\n' >'a/q\"b'; printf 'p\\n' >'b/q\"b'\n"
           "printf 'a\\0b' >a/bin; printf 'a\\0c' >b/bin\n");
    const struct tree *a = stored("a"), *b = stored("b");
    char *text = whole(a, b);
    CLEANUP(cleanup_free) char *path = xasprintf("%s/ours", dir);
    struct error err = ERROR_INIT;
    assert_int_equal(file_write_atomic(path, text, strlen(text), 0644, &err), 0);
    free(text);
    script("git init -q --bare odd.git; export GIT_DIR=$PWD/odd.git\n"
           "for d in a b; do GIT_WORK_TREE=$PWD/$d GIT_INDEX_FILE=$PWD/i$d git add -A; "
           "GIT_INDEX_FILE=$PWD/i$d git write-tree >id-$d; done\n"
           "test $(cat id-a) = %s; test $(cat id-b) = %s\n"
           "git diff --no-renames --no-color --abbrev=7 $(cat id-a) $(cat id-b) >theirs; diff -u theirs ours\n",
           a->id, b->id);
    text = whole(a, a);
    assert_string_equal(text, "");
    free(text);
}

static void test_apply(void **state)
{
    (void)state;
    if (!has_git)
        skip();
    script("%s", "mkdir c d; seq 1 9 >c/n; seq 2 9 >d/n; echo o >c/old; printf 'x' >d/new; echo s >c/s; echo s >d/s\n"
                 "chmod +x d/s; ln -s n d/l\n");
    const struct tree *c = stored("c"), *d = stored("d");
    CLEANUP(cleanup_free) char *text = whole(c, d);
    CLEANUP(cleanup_free) char *path = xasprintf("%s/patch", dir);
    struct error err = ERROR_INIT;
    assert_int_equal(file_write_atomic(path, text, strlen(text), 0644, &err), 0);
    script("%s", "cp -a c applied; cd applied; git init -q .; git apply ../patch; rm -rf .git");
    assert_string_equal(stored("applied")->id, d->id);
}

static void test_what_is_not_here(void **state)
{
    (void)state;
    script("%s", "mkdir e f; echo 1 >e/x; echo 2 >f/x; head -c 2000000 /dev/zero | tr '\\0' a >f/large");
    const struct tree *e = stored("e"), *f = stored("f");
    struct tree_change *changes;
    size_t count;
    struct buf out = {0};
    struct error err = ERROR_INIT;
    tree_changes(e, f, arena, &changes, &count);
    assert_int_equal(count, 2);
    assert_string_equal(changes[0].path, "large");
    assert_null(changes[0].before);
    assert_int_equal(tree_change_text(store, store, &changes[0], &out, &err), 0);
    assert_non_null(strstr(out.data, "Binary files /dev/null and b/large differ\n"));
    buf_clear(&out);
    assert_int_equal(tree_change_text(store, NULL, &changes[1], &out, &err), -1);
    assert_non_null(strstr(out.data, "diff --git a/x b/x\n"));
    assert_string_equal(err.text, "the content of \"x\" is not in the store");
    buf_free(&out);
}

static void test_lines(void **state)
{
    (void)state;
    struct buf out = {0};
    struct error err = ERROR_INIT;
    assert_int_equal(tree_diff_text("a\nb\n", 4, "a\nc\n", 4, &out, &err), 0);
    assert_string_equal(out.data, "@@ -1,2 +1,2 @@\n a\n-b\n+c\n");
    buf_clear(&out);
    assert_int_equal(tree_diff_text(NULL, 0, "x", 1, &out, &err), 0);
    assert_non_null(strstr(out.data, "+x\n"));
    buf_clear(&out);
    assert_int_equal(tree_diff_text("same", 4, "same", 4, &out, &err), 0);
    assert_int_equal(out.len, 0);
    buf_free(&out);
}

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    has_git = system("git --version >/dev/null 2>&1") == 0;
    (void)setenv("HOME", dir, 1);
    (void)unsetenv("GIT_DIR");
    arena = arena_create();
    CLEANUP(cleanup_free) char *path = xasprintf("%s/store", dir);
    return tree_store_open(path, &store, NULL);
}

static int teardown(void **state)
{
    (void)state;
    tree_store_close(store);
    arena_destroy(arena);
    CLEANUP(cleanup_free) char *command = xasprintf("rm -rf %s", dir);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_git),
        cmocka_unit_test(test_apply),
        cmocka_unit_test(test_what_is_not_here),
        cmocka_unit_test(test_lines),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
