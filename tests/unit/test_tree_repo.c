/* Repositories of this machine, made by git itself: which one a path is in, ignored or changed files, notes; and a
 * stored commit as files. */
#include "rhrun/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "script.h"

static char dir[] = "/tmp/rhrun-repo-XXXXXX";
static bool has_git;

static int setup(void **state)
{
    *state = NULL;
    if (!mkdtemp(dir))
        return -1;
    has_git = system("git --version >/dev/null 2>&1") == 0;
    static const char *const names[] = {"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME",
                                        "GIT_COMMITTER_EMAIL"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        (void)setenv(names[i], "a@b", 1);
    (void)setenv("HOME", dir, 1);
    (void)setenv("XDG_CONFIG_HOME", dir, 1);
    (void)unsetenv("GIT_DIR");
    if (has_git)
        script("%s", "git init -q work; cd work; git symbolic-ref HEAD refs/heads/main; mkdir -p jobs/deep\n"
                     "echo one >jobs/a.yaml; echo two >jobs/deep/b; ln -s ../a.yaml jobs/deep/link; echo x >run\n"
                     "chmod +x run; printf '*.log\\n/out/\\n' >.gitignore; git add .; git commit -qm 1\n"
                     "cd ..; git clone -q --bare work bare.git");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    CLEANUP(cleanup_free) char *command = xasprintf("rm -rf %s", dir);
    return system(command);
}

static char *path_of(const char *name)
{
    return xasprintf("%s/%s", dir, name);
}

static void expect(const char *path, const char *root, const char *below, bool bare)
{
    struct error err = ERROR_INIT;
    CLEANUP(cleanup_free) char *full = path_of(path), *top = path_of(root);
    struct tree_repo *r = tree_repo_open(full, &err);
    if (!r)
        fail_msg("%s: %s", path, err.text);
    assert_string_equal(tree_repo_root(r), top);
    assert_string_equal(tree_repo_below(r), below);
    assert_int_equal(tree_repo_bare(r), bare);
    tree_repo_close(r);
}

static void test_which(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    if (!has_git)
        skip();
    expect("work", "work", "", false);
    expect("work/jobs/deep", "work", "jobs/deep", false);
    expect("work/jobs/*.yaml", "work", "jobs/*.yaml", false);
    expect("work/no/such/file", "work", "no/such/file", false);
    expect("bare.git", "bare.git", "", true);
    expect("bare.git/jobs/*.yaml", "bare.git", "jobs/*.yaml", true);
    assert_null(tree_repo_open("/", &err));
    assert_int_equal(err.code, ERROR_USAGE);
    tree_repo_close(NULL);
}

static void test_ignored_and_changed(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    const char *const *paths;
    if (!has_git)
        skip();
    struct arena *arena = arena_create();
    CLEANUP(cleanup_free) char *work = path_of("work"), *log = path_of("work/x.log"), *out = path_of("work/out");
    CLEANUP(cleanup_free) char *bare = path_of("bare.git"), *beside = path_of("other/x.log");
    struct tree_repo *r = tree_repo_open(work, &err);
    assert_non_null(r);
    assert_true(tree_repo_ignores(r, log, false));
    assert_true(tree_repo_ignores(r, out, true));
    assert_false(tree_repo_ignores(r, out, false)); /* the pattern is for folders */
    assert_false(tree_repo_ignores(r, beside, false));
    assert_int_equal(tree_repo_changes(r, 5, arena, &paths, &err), 0);
    script("%s", "cd work; echo more >>jobs/a.yaml; touch new x.log; mkdir -p out; touch out/o");
    assert_int_equal(tree_repo_changes(r, 1, arena, &paths, &err), 2);
    assert_string_equal(paths[0], "jobs/a.yaml");
    script("%s", "cd work; git checkout -q .; rm new");
    assert_int_equal(tree_repo_changes(r, 5, arena, &paths, &err), 0);
    tree_repo_close(r);
    r = tree_repo_open(bare, &err);
    assert_int_equal(tree_repo_changes(r, 5, arena, &paths, &err), 0);
    tree_repo_close(r);
    arena_destroy(arena);
}

static void fetch(struct tree_store *s, struct arena *arena, struct tree **ret, char commit[TREE_ID_LEN + 1])
{
    struct error err = ERROR_INIT;
    const char *notes;
    CLEANUP(cleanup_free) char *bare = path_of("bare.git");
    if (tree_fetch(s, bare, "main", false, arena, ret, commit, &notes, &err) < 0)
        fail_msg("%s", err.text);
}

static void test_export_and_note(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    struct tree_store *s;
    struct tree *t;
    char commit[TREE_ID_LEN + 1];
    if (!has_git)
        skip();
    struct arena *arena = arena_create();
    CLEANUP(cleanup_free) char *store = path_of("store"), *to = path_of("to"), *bare = path_of("bare.git");
    assert_int_equal(tree_store_open(store, &s, &err), 0);
    fetch(s, arena, &t, commit);
    if (tree_export(s, t, to, &err) < 0)
        fail_msg("%s", err.text);
    script("%s", "diff -r --no-dereference --exclude=.git --exclude='*.log' --exclude=out work to; test -x to/run; "
                 "test -L to/jobs/deep/link");
    assert_int_equal(tree_export(s, t, to, &err), -1); /* it exists already */
    tree_store_close(s);
    struct tree_repo *r = tree_repo_open(bare, &err);
    for (int i = 0; i < 2; i++)
        if (tree_repo_note(r, commit, i ? "second\n" : "first\n", &err) < 0)
            fail_msg("%s", err.text);
    script("test \"$(git -C bare.git notes --ref=rhrun show %s)\" = second", commit);
    assert_int_equal(tree_repo_note(r, "1234567890123456789012345678901234567890", "x", &err), -1);
    tree_repo_close(r);
    arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which),
        cmocka_unit_test(test_ignored_and_changed),
        cmocka_unit_test(test_export_and_note),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
