/* Scanning: the files of a tree, when the last scan's table may and may not be used, files that change while they are
 * read. tests/e2e/test_tree_git.py compares whole work trees with git. */
#include "../../src/tree/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- a world to scan ---- */

struct world {
    char dir[40];
    char *root, *store_dir;
    struct tree_store *store;
    struct tree_scan scan;
    struct arena *arena;
    struct tree *tree;
    const char *notes;
    struct error err;
};

static int setup(void **state)
{
    struct world *w = xcalloc(1, sizeof *w);
    snprintf(w->dir, sizeof w->dir, "/tmp/rhrun-scan-XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    w->root = xasprintf("%s/tree", w->dir);
    w->store_dir = xasprintf("%s/store", w->dir);
    assert_int_equal(mkdir(w->root, 0755), 0);
    w->scan.path = w->root;
    w->arena = arena_create();
    CLEANUP(cleanup_free) char *home = xasprintf("%s/home", w->dir);
    setenv("HOME", home, 1);
    setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
    unsetenv("XDG_CONFIG_HOME");
    *state = w;
    return tree_store_open(w->store_dir, &w->store, &w->err);
}

static int teardown(void **state)
{
    struct world *w = *state;
    if (getuid() == 0 && seteuid(0))
        return -1;
    tree_store_close(w->store);
    arena_destroy(w->arena);
    CLEANUP(cleanup_free) char *command = xasprintf("chmod -R u+rwX %s && rm -rf %s", w->dir, w->dir);
    int rc = system(command);
    free(w->root);
    free(w->store_dir);
    free(w);
    return rc;
}

static char *path_in(const struct world *w, const char *name)
{
    return xasprintf("%s/%s", w->root, name);
}

static void put_bytes(const struct world *w, const char *name, const void *data, size_t len)
{
    CLEANUP(cleanup_free) char *path = path_in(w, name);
    for (char *slash = strchr(path + strlen(w->root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0755);
        *slash = '/';
    }
    CLEANUP(cleanup_close) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write_all(fd, data, len), 0);
}

static void put(const struct world *w, const char *name, const char *text)
{
    put_bytes(w, name, text, strlen(text));
}

static void make_repo(const struct world *w, const char *folder)
{
    CLEANUP(cleanup_free)
    char *command = xasprintf(
        "mkdir -p '%s/%s/.git/objects' '%s/%s/.git/refs' '%s/%s/.git/info' && "
        "echo 'ref: refs/heads/main' > '%s/%s/.git/HEAD' && printf '[core]\\n\\tbare = false\\n' > '%s/%s/.git/config'",
        w->root, folder, w->root, folder, w->root, folder, w->root, folder, w->root, folder);
    assert_int_equal(system(command), 0);
}

static int scan(struct world *w)
{
    arena_reset(w->arena);
    w->tree = NULL;
    w->err = (struct error)ERROR_INIT;
    return tree_scan(w->store, &w->scan, w->arena, &w->tree, &w->notes, &w->err);
}

/* The paths, each followed by a blank. */
static const char *names(struct world *w)
{
    struct buf b = {0};
    if (scan(w))
        fail_msg("%s", w->err.text);
    buf_puts(&b, "");
    for (size_t i = 0; i < w->tree->count; i++)
        buf_printf(&b, "%s ", w->tree->files[i].path);
    const char *text = arena_strdup(w->arena, b.data);
    buf_free(&b);
    return text;
}

static char *table_of(const struct world *w)
{
    CLEANUP(cleanup_free) char *command = xasprintf("ls %s/scan-* | head -1", w->store_dir);
    char line[256] = "";
    FILE *f = popen(command, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    pclose(f);
    line[strcspn(line, "\n")] = 0;
    return xstrdup(line);
}

/* ---- the files of a tree ---- */

/* A progress display sees all files, and the number of those that had to be read. */
static void test_progress(void **state)
{
    struct world *w = *state;
    struct tree_progress p = {0};
    put(w, "a/b", "hello\n");
    put(w, "c", "xyz");
    w->scan.progress = &p;
    assert_string_equal(names(w), "a/b c ");
    assert_int_equal(p.found, 2);
    assert_int_equal(p.read, 2);
    assert_int_equal(p.read_bytes, 9);
}

static void test_ids(void **state)
{
    struct world *w = *state;
    assert_string_equal(names(w), "");
    assert_string_equal(w->tree->id, "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
    put(w, "a/b", "hello\n");
    put(w, "a.c", "");
    put(w, "a-b", "x");
    CLEANUP(cleanup_free) char *exec = path_in(w, "a-b");
    CLEANUP(cleanup_free) char *link = path_in(w, "link");
    CLEANUP(cleanup_free) char *empty = path_in(w, "empty");
    assert_int_equal(chmod(exec, 0700), 0);
    assert_int_equal(symlink("nowhere/at all", link), 0);
    assert_int_equal(mkdir(empty, 0755), 0);
    assert_string_equal(names(w), "a-b a.c a/b link ");
    assert_string_equal(w->tree->id, "4b4b0dcaa56974d393801feca6090b7b6a1338b3");
    const struct tree_file *f = tree_find(w->tree, "a/b");
    char oid[TREE_ID_LEN + 1];
    assert_non_null(f);
    tree_hex(f->oid, oid);
    assert_string_equal(oid, "ce013625030ba8dba906f756967f9e9ca394464a");
    assert_int_equal(f->mode, TREE_MODE_FILE);
    assert_int_equal(tree_find(w->tree, "a-b")->mode, TREE_MODE_EXEC);
    assert_int_equal(tree_find(w->tree, "link")->mode, TREE_MODE_LINK);
    assert_int_equal(tree_find(w->tree, "link")->size, strlen("nowhere/at all"));
    assert_null(tree_find(w->tree, "a"));
    assert_int_equal(w->tree->bytes, 6 + 0 + 1 + 14);
}

static void test_one_file(void **state)
{
    struct world *w = *state;
    put(w, "data.bin", "hello\n");
    CLEANUP(cleanup_free) char *path = path_in(w, "data.bin");
    CLEANUP(cleanup_free) char *link = path_in(w, "link");
    w->scan.path = path;
    assert_string_equal(names(w), "data.bin ");
    assert_int_equal(symlink("data.bin", link), 0);
    w->scan.path = link;
    assert_string_equal(names(w), "link ");
    assert_int_equal(w->tree->files[0].mode, TREE_MODE_FILE);
    assert_int_equal(w->tree->files[0].size, 6);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(scan(w), -1);
    assert_int_equal(w->err.code, ERROR_SPEC);
    assert_non_null(strstr(w->err.text, "/tree/link\": No such file or directory"));
}

static void test_odd_names(void **state)
{
    struct world *w = *state;
    char longest[256];
    memset(longest, 'x', 255);
    longest[255] = 0;
    static const char *const odd[] = {"-rf",  "a\nb", "\xff\xfe", "\xc3\xa4", "a\\", "*",
                                      "a\tb", " ",    "...",      "~",        "con "};
    for (size_t i = 0; i < ARRAY_LEN(odd); i++)
        put(w, odd[i], odd[i]);
    put(w, longest, "long");
    assert_int_equal(scan(w), 0);
    assert_int_equal(w->tree->count, ARRAY_LEN(odd) + 1);
    for (size_t i = 0; i < ARRAY_LEN(odd); i++)
        assert_non_null(tree_find(w->tree, odd[i]));
    assert_non_null(tree_find(w->tree, longest));
    for (size_t i = 1; i < w->tree->count; i++)
        assert_true(strcmp(w->tree->files[i - 1].path, w->tree->files[i].path) < 0);
}

static void test_without_a_repository_all_files_count(void **state)
{
    struct world *w = *state;
    put(w, ".gitignore", "*.o\n");
    put(w, "x.o", "");
    put(w, ".git/config", "no repository");
    put(w, "sub/.git/HEAD", "none either");
    put(w, "sub/x.o", "");
    put(w, "repo/.gitignore", "*.o\n");
    put(w, "repo/x.o", "");
    put(w, "repo/x.c", "");
    make_repo(w, "repo");
    assert_string_equal(names(w), ".gitignore repo/.gitignore repo/x.c sub/x.o x.o ");
}

static void test_a_linked_ignore_file_does_not_count(void **state)
{
    struct world *w = *state;
    make_repo(w, ".");
    put(w, "rules", "x\n");
    put(w, "x", "");
    CLEANUP(cleanup_free) char *path = path_in(w, ".gitignore");
    assert_int_equal(symlink("rules", path), 0);
    assert_string_equal(names(w), ".gitignore rules x ");
}

static void test_folder_inside_a_repository(void **state)
{
    struct world *w = *state;
    make_repo(w, ".");
    put(w, ".gitignore", "*.o\n/sub/deep/secret\n/out/\n");
    put(w, "sub/.gitignore", "!keep.o\n*.tmp\n");
    put(w, "sub/deep/secret", "");
    put(w, "sub/deep/x.o", "");
    put(w, "sub/deep/x.tmp", "");
    put(w, "sub/deep/keep.o", "");
    put(w, "out/x.o", "");
    CLEANUP(cleanup_free) char *deep = path_in(w, "sub/deep");
    w->scan.path = deep;
    assert_string_equal(names(w), "keep.o ");
    CLEANUP(cleanup_free) char *out = path_in(w, "out");
    w->scan.path = out;
    assert_string_equal(names(w), "x.o ");
    assert_non_null(strstr(w->notes, "ignore files do not count"));
}

static void test_left_out(void **state)
{
    struct world *w = *state;
    put(w, "a", "");
    put(w, "out/x", "");
    put(w, "outer", "");
    put(w, "real/y", "");
    CLEANUP(cleanup_free) char *out = path_in(w, "out/");
    CLEANUP(cleanup_free) char *link = xasprintf("%s/link", w->dir);
    CLEANUP(cleanup_free) char *by_link = xasprintf("%s/real/y", link);
    CLEANUP(cleanup_free) char *other = xasprintf("%s-not", w->root);
    assert_int_equal(symlink(w->root, link), 0);
    const char *paths[] = {out, by_link, other, "/nonexistent/x"};
    w->scan.leave_out = paths;
    w->scan.leave_out_count = ARRAY_LEN(paths);
    assert_string_equal(names(w), "a outer ");
    paths[0] = w->dir; /* the scanned folder is in it */
    assert_string_equal(names(w), "");
    assert_non_null(strstr(w->notes, "left out"));
}

static void test_special_files(void **state)
{
    struct world *w = *state;
    put(w, "a", "");
    for (int i = 0; i < 25; i++) {
        CLEANUP(cleanup_free) char *path = xasprintf("%s/f%02d\n", w->root, i);
        assert_int_equal(mkfifo(path, 0600), 0);
    }
    assert_string_equal(names(w), "a ");
    size_t lines = 1;
    for (const char *p = w->notes; *p; p++)
        lines += *p == '\n';
    assert_int_equal(lines, SCAN_NOTES_MAX + 1);
    assert_non_null(strstr(w->notes, "f00\\x0a\" is a FIFO: left out\n"));
    assert_non_null(strstr(w->notes, "\nand 5 more"));
}

static void test_what_cannot_be_read(void **state)
{
    struct world *w = *state;
    put(w, "ok", "");
    put(w, "sub/secret", "x");
    if (geteuid() == 0) { /* root reads anything */
        CLEANUP(cleanup_free) char *command = xasprintf("chown -R 65534:65534 %s", w->dir);
        if (system(command) || seteuid(65534))
            skip();
    }
    CLEANUP(cleanup_free) char *file = path_in(w, "sub/secret");
    CLEANUP(cleanup_free) char *folder = path_in(w, "sub");
    assert_int_equal(chmod(file, 0), 0);
    assert_int_equal(scan(w), -1);
    assert_non_null(strstr(w->err.text, "could not read \""));
    assert_non_null(strstr(w->err.text, "/tree/sub/secret\": Permission denied"));
    assert_int_equal(chmod(folder, 0), 0);
    assert_int_equal(scan(w), -1);
    assert_non_null(strstr(w->err.text, "could not open the folder \""));
    const char *exclude = "sub";
    w->scan.exclude = &exclude;
    w->scan.exclude_count = 1;
    assert_string_equal(names(w), "ok ");
}

static void test_too_deep(void **state)
{
    struct world *w = *state;
    struct buf path = {0};
    for (int i = 0; i < TREE_DEPTH_MAX; i++)
        buf_puts(&path, "d/");
    buf_puts(&path, "f");
    put(w, path.data, "");
    assert_int_equal(scan(w), 0);
    assert_int_equal(w->tree->count, 1);
    path.len -= 1;
    buf_puts(&path, "e/f");
    put(w, path.data, "");
    assert_int_equal(scan(w), -1);
    assert_non_null(strstr(w->err.text, "more than 200 folders deep"));
    buf_free(&path);
}

static void test_too_long(void **state)
{
    struct world *w = *state;
    CLEANUP(cleanup_free)
    char *command = xasprintf("cd %s && n=$(printf '%%0250d' 0) && for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do "
                              "mkdir $n && cd $n; done",
                              w->root);
    assert_int_equal(system(command), 0);
    assert_int_equal(scan(w), -1);
    assert_non_null(strstr(w->err.text, "a path of more than 4000 bytes"));
}

/* ---- the table ---- */

static const char *id_after(struct world *w)
{
    if (scan(w))
        fail_msg("%s", w->err.text);
    return w->tree->id;
}

static void test_a_change_is_seen(void **state)
{
    struct world *w = *state;
    char first[TREE_ID_LEN + 1];
    put(w, "a", "one");
    put(w, "b", "two");
    memcpy(first, id_after(w), sizeof first);
    assert_string_equal(id_after(w), first);
    put(w, "a", "ONE"); /* of the same size, at once */
    assert_string_not_equal(id_after(w), first);
    put(w, "a", "one");
    assert_string_equal(id_after(w), first);
    CLEANUP(cleanup_free) char *a = path_in(w, "a");
    CLEANUP(cleanup_free) char *b = path_in(w, "b");
    CLEANUP(cleanup_free) char *c = path_in(w, "c");
    assert_int_equal(utimensat(AT_FDCWD, a, NULL, 0), 0);
    assert_string_equal(id_after(w), first);
    assert_int_equal(chmod(a, 0755), 0);
    assert_string_not_equal(id_after(w), first);
    assert_int_equal(chmod(a, 0644), 0);
    assert_string_equal(id_after(w), first);
    assert_int_equal(rename(a, c) || rename(b, a) || rename(c, b), 0); /* exchanged */
    assert_string_not_equal(id_after(w), first);
    assert_int_equal(unlink(a), 0);
    assert_string_equal(names(w), "b ");
}

/* Content changed, and put back every time: only a read after the last change may be believed. */
static void test_racily_clean(void **state)
{
    (void)state;
    const struct timespec started = {1000, 500};
    struct stat_data st = {.mtime_sec = 1000, .mtime_nsec = 499, .ctime_sec = 1000, .ctime_nsec = 499};
    assert_false(scan_racy(&st, &started));
    st.mtime_nsec = 500;
    assert_true(scan_racy(&st, &started));
    st.mtime_nsec = 499;
    st.ctime_nsec = 500;
    assert_true(scan_racy(&st, &started));
    st = (struct stat_data){.mtime_sec = 2000, .mtime_nsec = 1, .ctime_sec = 1}; /* in the future */
    assert_true(scan_racy(&st, &started));
    st = (struct stat_data){.mtime_sec = 999, .ctime_sec = 999}; /* a file system that keeps seconds */
    assert_true(scan_racy(&st, &started));
    st = (struct stat_data){.mtime_sec = 997, .ctime_sec = 997};
    assert_false(scan_racy(&st, &started));
}

static struct scan_item item(const char *path, uint64_t ino, uint32_t flags)
{
    struct scan_item i = {.path = path, .len = (uint32_t)strlen(path), .flags = flags, .st = {.ino = ino, .mode = 1}};
    memset(i.oid, (int)ino, sizeof i.oid);
    return i;
}

static void test_table(void **state)
{
    struct world *w = *state;
    CLEANUP(cleanup_free) char *path = xasprintf("%s/scan-test", w->store_dir);
    struct scan_item saved[] = {item("a", 1, ITEM_KNOWN | ITEM_STORED), item("a-b", 2, ITEM_KNOWN | ITEM_RACY),
                                item("a/b", 3, ITEM_KNOWN), item("b", 4, ITEM_KNOWN), item("c", 5, ITEM_KNOWN)};
    struct scan_config config = {
        .git_dir = xstrdup("/x/.git"), .excludes = xstrdup(""), .used = true, .keep = true, .fold = true};
    struct tracked tracked[] = {{"t/1", false}, {"t/2", true}};
    struct scan_table t = {.tree_stored = true, .configs = {&config, 1, false}, .tracked = tracked, .tracked_count = 2};
    memset(t.id, 'f', TREE_ID_LEN);
    memset(t.tracked_seen, 7, TREE_OID_SIZE);
    scan_table_save(path, &t, saved, ARRAY_LEN(saved));
    free(config.git_dir);
    free(config.excludes);

    struct scan_table got;
    assert_true(scan_table_load(path, &got));
    assert_string_equal(got.id, t.id);
    assert_true(got.tree_stored);
    assert_int_equal(got.configs.count, 1);
    assert_string_equal(got.configs.items[0].git_dir, "/x/.git");
    assert_true(got.configs.items[0].fold);
    assert_int_equal(got.tracked_count, 2);
    assert_string_equal(got.tracked[1].path, "t/2");
    assert_true(got.tracked[1].submodule);

    struct scan_item now[] = {item("a", 1, 0),  item("a-b", 2, 0), item("a/b", 9, 0),
                              item("aa", 1, 0), item("c", 5, 0),   item("d", 1, 0)};
    assert_false(scan_table_join(&got, now, ARRAY_LEN(now)));
    static const uint32_t flags[] = {ITEM_KNOWN | ITEM_STORED, 0 /* racy */, 0 /* another */, 0, ITEM_KNOWN, 0};
    for (size_t i = 0; i < ARRAY_LEN(now); i++)
        assert_int_equal(now[i].flags, flags[i]);
    assert_memory_equal(now[4].oid, saved[4].oid, TREE_OID_SIZE);
    scan_table_free(&got);
}

/* Any damage to the table costs a scan that reads more, and nothing else. */
static void test_damaged_table(void **state)
{
    struct world *w = *state;
    char first[TREE_ID_LEN + 1];
    make_repo(w, ".");
    put(w, "a", "one");
    put(w, "b/c", "two");
    memcpy(first, id_after(w), sizeof first);
    CLEANUP(cleanup_free) char *table = table_of(w);
    struct buf good = {0};
    assert_int_equal(file_read(table, 1 << 20, &good, NULL), 0);
    for (size_t at = 0; at < good.len; at++) {
        struct scan_table t;
        good.data[at] ^= 0x41;
        assert_int_equal(file_write_atomic(table, good.data, good.len, 0600, NULL), 0);
        assert_false(scan_table_load(table, &t));
        good.data[at] ^= 0x41;
    }
    for (size_t len = 0; len < good.len; len += 7) {
        struct scan_table t;
        assert_int_equal(file_write_atomic(table, good.data, len, 0600, NULL), 0);
        assert_false(scan_table_load(table, &t));
    }
    assert_string_equal(id_after(w), first);
    buf_free(&good);
}

static void test_tables_are_bounded(void **state)
{
    struct world *w = *state;
    put(w, "a", "");
    for (int i = 0; i < SCAN_TABLES_MAX + 10; i++) {
        char pattern[16];
        const char *exclude = pattern;
        snprintf(pattern, sizeof pattern, "x%d", i);
        w->scan.exclude = &exclude;
        w->scan.exclude_count = 1;
        assert_int_equal(scan(w), 0);
    }
    CLEANUP(cleanup_free)
    char *command = xasprintf("test $(ls %s | grep -c scan-) -eq %d", w->store_dir, SCAN_TABLES_MAX);
    assert_int_equal(system(command), 0);
}

/* ---- the store ---- */

static void check_stored(struct world *w, const char *path, const void *want, size_t len)
{
    struct tree *t;
    struct tree_reader r = {0};
    struct error err = ERROR_INIT;
    assert_true(tree_load(w->store, w->tree->id, w->arena, &t));
    const struct tree_file *f = tree_find(t, path);
    assert_non_null(f);
    assert_int_equal(f->size, len);
    if (tree_open(w->store, f, &r, &err))
        fail_msg("%s", err.text);
    CLEANUP(cleanup_free) char *got = xmalloc(len + 1);
    size_t at = 0;
    ssize_t n;
    while ((n = tree_read(&r, at, got + at, len + 1 - at, &err)) > 0)
        at += (size_t)n;
    assert_int_equal(n, 0);
    assert_int_equal(at, len);
    assert_memory_equal(got, want, len);
    tree_done(&r);
}

static void test_contents_are_stored(void **state)
{
    struct world *w = *state;
    size_t size = (size_t)TREE_BIG_SIZE + 12345;
    CLEANUP(cleanup_free) char *big = xmalloc(size);
    for (size_t i = 0; i < size; i++)
        big[i] = (char)(i * 7 + i / 4099);
    put(w, "a/small", "hello");
    put(w, "empty", "");
    put_bytes(w, "big", big, size);
    CLEANUP(cleanup_free) char *link = path_in(w, "link");
    assert_int_equal(symlink("a/small", link), 0);
    assert_int_equal(scan(w), 0); /* ids only: the table knows them then, yet nothing is stored */
    struct tree *none;
    assert_false(tree_load(w->store, w->tree->id, w->arena, &none));
    w->scan.store = true;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(scan(w), 0);
        check_stored(w, "a/small", "hello", 5);
        check_stored(w, "empty", "", 0);
        check_stored(w, "big", big, size);
        check_stored(w, "link", "a/small", 7);
    }
    put(w, "a/small", "HELLO");
    assert_int_equal(scan(w), 0);
    check_stored(w, "a/small", "HELLO", 5);
    check_stored(w, "big", big, size);
}

/* ---- files that change while they are read ---- */

/* The action of scan_test_while_read, and how often it repeats. */
static struct {
    const struct world *world;
    int left;
    int calls;
    enum { CHANGE_CONTENT, CHANGE_SIZE, REMOVE } what;
} meddler;

void scan_test_while_read(const char *path);
void scan_test_while_read(const char *path)
{
    if (!meddler.world || strcmp(path, "busy") != 0)
        return;
    meddler.calls++;
    if (meddler.left-- <= 0)
        return;
    CLEANUP(cleanup_free) char *text = xasprintf("text %03d", meddler.left);
    if (meddler.what == CHANGE_SIZE)
        text[4] = 0;
    put(meddler.world, "busy", text);
    if (meddler.what == REMOVE) {
        CLEANUP(cleanup_free) char *full = path_in(meddler.world, "busy");
        assert_int_equal(unlink(full), 0);
    }
}

static void test_changes_while_read(void **state)
{
    struct world *w = *state;
    put(w, "busy", "text 999");
    put(w, "calm", "");
    w->scan.store = true;
    meddler.world = w;
    meddler.calls = 0;
    meddler.left = 2;
    meddler.what = CHANGE_CONTENT;
    assert_int_equal(scan(w), 0);
    assert_int_equal(meddler.calls, 3);
    check_stored(w, "busy", "text 000", 8);
    meddler.left = TREE_READS;
    meddler.what = CHANGE_SIZE;
    meddler.calls = 0;
    put(w, "busy", "text");
    assert_int_equal(scan(w), -1);
    assert_int_equal(w->err.code, ERROR_IO);
    assert_non_null(strstr(w->err.text, "/tree/busy\" changed each of the 5 times that it was read"));
    assert_int_equal(meddler.calls, TREE_READS);
    meddler.left = 1;
    meddler.what = REMOVE;
    put(w, "busy", "text");
    assert_string_equal(names(w), "calm ");
    meddler.world = NULL;
}

/* A big file that changes leaves nothing behind in the store. */
static void test_a_big_file_changes_while_read(void **state)
{
    struct world *w = *state;
    CLEANUP(cleanup_free) char *big = xcalloc(1, (size_t)TREE_BIG_SIZE + 1);
    put_bytes(w, "busy", big, (size_t)TREE_BIG_SIZE + 1);
    w->scan.store = true;
    meddler.world = w;
    meddler.calls = 0;
    meddler.left = 1;
    meddler.what = CHANGE_CONTENT;
    assert_int_equal(scan(w), 0);
    meddler.world = NULL;
    assert_int_equal(meddler.calls, 2);
    check_stored(w, "busy", "text 000", 8);
    CLEANUP(cleanup_free) char *command = xasprintf("test -z \"$(ls -A %s/big)\"", w->store_dir);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_racily_clean),
#define SCAN_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        SCAN_TEST(test_ids),
        SCAN_TEST(test_progress),
        SCAN_TEST(test_one_file),
        SCAN_TEST(test_odd_names),
        SCAN_TEST(test_without_a_repository_all_files_count),
        SCAN_TEST(test_a_linked_ignore_file_does_not_count),
        SCAN_TEST(test_folder_inside_a_repository),
        SCAN_TEST(test_left_out),
        SCAN_TEST(test_special_files),
        SCAN_TEST(test_what_cannot_be_read),
        SCAN_TEST(test_too_deep),
        SCAN_TEST(test_too_long),
        SCAN_TEST(test_a_change_is_seen),
        SCAN_TEST(test_table),
        SCAN_TEST(test_damaged_table),
        SCAN_TEST(test_tables_are_bounded),
        SCAN_TEST(test_contents_are_stored),
        SCAN_TEST(test_changes_while_read),
        SCAN_TEST(test_a_big_file_changes_while_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
