/*
 * Trees to a node and files from it, with the built agent over a socketpair: what a transfer leaves behind, whatever
 * stands there before, whenever the agent dies.
 */
#pragma GCC diagnostic ignored "-Wunused-function" /* of the peer's parts */
#include "agent_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define TREE(n) "000000000000000000000000000000000000000" n

static int setup(void **state)
{
    (void)state;
    unsetenv("RHRUN_TEST_TREE_WAIT_MS");
    return folder_make("sync");
}

/* ---- trees of the controller's side ---- */

struct item {
    const char *path;
    uint32_t mode;
    const char *data; /* NULL: `size` bytes of a pattern that begins with seed */
    size_t size;
    uint8_t seed;
};

static void fill(uint8_t *out, const struct item *f, size_t offset, size_t len)
{
    for (size_t i = 0; i < len; i++)
        out[i] = f->data ? (uint8_t)f->data[offset + i] : (uint8_t)(((offset + i) * 31 >> 3) + f->seed);
}

static size_t size_of(const struct item *f)
{
    return f->data ? strlen(f->data) : f->size;
}

/* Equal for equal contents; no real hash is asked for. */
static void oid_of(const struct item *f, uint8_t oid[WIRE_OID_SIZE])
{
    uint64_t h = 1469598103934665603u;
    uint8_t byte;
    for (size_t i = 0; i < size_of(f); i += 1 + i / 64) {
        fill(&byte, f, i, 1);
        h = (h ^ byte) * 1099511628211u;
    }
    memset(oid, 7, WIRE_OID_SIZE);
    for (int i = 0; i < 8; i++)
        oid[i] = (uint8_t)(h >> (8 * i));
    for (int i = 0; i < 8; i++)
        oid[8 + i] = (uint8_t)(size_of(f) >> (8 * i));
}

static void send_sync(struct peer *p, const char *attempt, const char *tree, const char *root, uint8_t flags)
{
    struct buf b = {0};
    wire_put_sync(&b, &(struct wire_sync){.attempt = (char *)attempt,
                                          .slot = (char *)"sync:workdir",
                                          .key = (char *)"k",
                                          .name = (char *)"workdir",
                                          .root = (char *)root,
                                          .tree = (char *)tree,
                                          .flags = flags});
    send_buf(p, &b);
}

/* All frames of SYNC_STATE as one; strings stay in the peer's arena. */
static struct wire_sync_state expect_state(struct peer *p)
{
    struct wire_sync_state all = {0};
    for (;;) {
        struct wire_in in = expect(p, WIRE_SYNC_STATE);
        struct wire_sync_state m;
        assert_true(wire_get_sync_state(&in, &m) && wire_in_done(&in));
        struct wire_sync_file *files = arena_array(p->arena, (size_t)all.file_count + m.file_count + 1, sizeof *files);
        if (all.file_count)
            memcpy(files, all.files, all.file_count * sizeof *files);
        memcpy(files + all.file_count, m.files, m.file_count * sizeof *files);
        m.file_count += all.file_count;
        m.files = files;
        all = m;
        if (m.last)
            return all;
    }
}

static const struct wire_sync_file *in_state(const struct wire_sync_state *state, const char *path)
{
    for (uint32_t i = 0; i < state->file_count; i++)
        if (str_eq(state->files[i].path, path))
            return &state->files[i];
    return NULL;
}

static void put_file(struct buf *b, const char *attempt, const struct item *f, size_t offset)
{
    uint8_t oid[WIRE_OID_SIZE];
    size_t size = size_of(f);
    uint8_t *data = malloc(WIRE_FILE_MAX);
    oid_of(f, oid);
    for (bool first = true; first || offset < size; first = false) {
        size_t len = size - offset < WIRE_FILE_MAX ? size - offset : WIRE_FILE_MAX;
        fill(data, f, offset, len);
        if (first) {
            wire_put_file(b, &(struct wire_file){.attempt = (char *)attempt,
                                                 .path = (char *)f->path,
                                                 .mode = f->mode,
                                                 .size = size,
                                                 .oid = oid,
                                                 .offset = offset,
                                                 .data = data,
                                                 .len = (uint32_t)len});
        } else {
            size_t frame = wire_begin(b, WIRE_FILE_DATA);
            wire_put_string(b, attempt);
            wire_put_bytes(b, data, len);
            wire_end(b, frame);
        }
        offset += len;
    }
    free(data);
}

static void put_strings(struct buf *b, enum wire_type type, const char *attempt, char **items, uint32_t count)
{
    size_t frame = wire_begin(b, type);
    wire_put_string(b, attempt);
    if (type == WIRE_REMOVE)
        wire_put_strings(b, &(struct wire_strings){items, count});
    wire_end(b, frame);
}

static const struct item *find(const struct item *tree, const char *path)
{
    for (; tree && tree->path; tree++)
        if (str_eq(tree->path, path))
            return tree;
    return NULL;
}

/* What a controller does that knows the trees `old` (of state->base) and `want`: REMOVE, FILE, SYNC_END. */
static void put_changes(struct buf *b, const char *attempt, const struct wire_sync_state *state, const struct item *old,
                        const struct item *want)
{
    char *gone[64];
    uint32_t count = 0;
    uint8_t oid[WIRE_OID_SIZE];
    for (const struct item *f = *state->base ? old : NULL; f && f->path; f++) {
        const struct wire_sync_file *is = in_state(state, f->path);
        if (!find(want, f->path) && !(is && !is->oid))
            gone[count++] = (char *)f->path;
    }
    for (uint32_t i = 0; i < state->file_count; i++)
        if (state->files[i].oid && !find(want, state->files[i].path) &&
            !(*state->base && find(old, state->files[i].path)))
            gone[count++] = state->files[i].path;
    assert_true(count <= ARRAY_LEN(gone));
    if (count)
        put_strings(b, WIRE_REMOVE, attempt, gone, count);
    for (const struct item *f = want; f->path; f++) {
        const struct wire_sync_file *is = in_state(state, f->path);
        const struct item *before = is || !*state->base ? NULL : find(old, f->path);
        uint8_t before_oid[WIRE_OID_SIZE];
        oid_of(f, oid);
        if (before)
            oid_of(before, before_oid);
        if (is && is->oid && is->mode == f->mode && memcmp(is->oid, oid, sizeof oid) == 0)
            continue;
        if (before && before->mode == f->mode && memcmp(before_oid, oid, sizeof oid) == 0)
            continue;
        size_t offset = 0;
        for (uint32_t i = 0; i < state->part_count; i++)
            if (memcmp(state->parts[i].oid, oid, sizeof oid) == 0)
                offset = (size_t)state->parts[i].size;
        put_file(b, attempt, f, offset);
    }
    put_strings(b, WIRE_SYNC_END, attempt, NULL, 0);
}

static struct wire_record sync_root(struct peer *p, const char *attempt, const char *tree, const char *root,
                                    const struct item *old, const struct item *want)
{
    struct buf b = {0};
    send_sync(p, attempt, tree, root, 0);
    struct wire_sync_state state = expect_state(p);
    put_changes(&b, attempt, &state, old, want);
    send_buf(p, &b);
    return expect_record(p, WIRE_EXIT);
}

static void sync_tree(struct peer *p, const char *attempt, const char *tree, const struct item *old,
                      const struct item *want)
{
    struct wire_record r = sync_root(p, attempt, tree, "", old, want);
    if (!wire_record_success(&r))
        fail_msg("cause %u value %d: %s", r.cause, r.value, r.tail);
}

/* ---- what is on the node ---- */

static char *at_work(struct peer *p, const char *path)
{
    return arena_printf(p->arena, "%s/%s", p->facts.work_dir, path);
}

static bool matches(const char *root, const struct item *f)
{
    char path[1024];
    struct stat st;
    size_t size = size_of(f);
    snprintf(path, sizeof path, "%s/%s", root, f->path);
    if (lstat(path, &st) < 0 || (size_t)st.st_size != size || (st.st_mode & S_IFMT) != (f->mode & S_IFMT) ||
        (S_ISREG(st.st_mode) && (st.st_mode & 0777) != (f->mode & 0777)))
        return false;
    uint8_t *want = malloc(size + 1), *is = malloc(size + 1);
    fill(want, f, 0, size);
    int fd = S_ISREG(st.st_mode) ? open(path, O_RDONLY) : -1;
    ssize_t n = fd < 0 ? readlink(path, (char *)is, size + 1) : read(fd, is, size + 1);
    if (fd >= 0)
        close(fd);
    bool same = n == (ssize_t)size && memcmp(is, want, size) == 0;
    free(is);
    free(want);
    return same;
}

static void check_file(const char *root, const struct item *f)
{
    if (!matches(root, f))
        fail_msg("\"%s\" in \"%s\" is not as it should be", f->path, root);
}

static size_t files_seen;
static int count_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)ftw, (void)path;
    files_seen += flag == FTW_F || flag == FTW_SL || flag == FTW_SLN;
    return 0;
}

static size_t count_files(const char *root)
{
    files_seen = 0;
    nftw(root, count_one, 32, FTW_PHYS);
    return files_seen;
}

/* The files of the tree, and `others` more. */
static void check_tree_at(const char *root, const struct item *tree, size_t others)
{
    size_t count = 0;
    for (const struct item *f = tree; f->path; f++, count++)
        check_file(root, f);
    assert_int_equal(count_files(root), count + others);
}

static void check_tree(struct peer *p, const struct item *tree, size_t others)
{
    check_tree_at(p->facts.work_dir, tree, others);
}

static void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write_all(fd, text, strlen(text)), 0);
    close(fd);
}

static bool there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static bool checked(struct peer *p, const char *root, const char *id)
{
    char *tree[] = {(char *)"workdir", (char *)root, (char *)id};
    struct buf b = {0};
    wire_put_check(&b, &(struct wire_check){.token = 4, .trees = {tree, 3}});
    send_buf(p, &b);
    struct wire_in in = expect(p, WIRE_CHECKED);
    assert_int_equal(wire_get_u64(&in), 4);
    uint32_t len;
    const uint8_t *found = wire_get_bytes(&in, &len);
    assert_int_equal(len, 1);
    return found[0];
}

/* The one path that matches below the base folder. */
static char *base_path(struct peer *p, const char *pattern)
{
    glob_t found;
    assert_int_equal(glob(arena_printf(p->arena, "%s/%s", p->facts.base_dir, pattern), 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    char *path = arena_strdup(p->arena, found.gl_pathv[0]);
    globfree(&found);
    return path;
}

#define F 0100644
#define X 0100755
#define L 0120000
static const struct item tree_1[] = {{"a", F, "alpha", 0, 0},
                                     {"dir/b", X, "beta", 0, 0},
                                     {"dir/deep/er/c", F, "", 0, 0},
                                     {"dir/link", L, "../a", 0, 0},
                                     {"odd \n\x01\xff name", F, "odd", 0, 0},
                                     {"z/large", F, NULL, 3000000, 1},
                                     {0}};
/* a changed, b not executable any more, c removed with its folders, link another one, new new, large as it was */
static const struct item tree_2[] = {{"a", F, "alpha 2", 0, 0},
                                     {"dir/b", F, "beta", 0, 0},
                                     {"dir/link", L, "/etc", 0, 0},
                                     {"new", F, "new", 0, 0},
                                     {"odd \n\x01\xff name", F, "odd", 0, 0},
                                     {"z/large", F, NULL, 3000000, 1},
                                     {0}};

/* ---- the usual life ---- */

static void test_life(void **state)
{
    (void)state;
    struct peer p;
    peer_open(&p, WIRE_OWN, OWNER_A);
    assert_false(checked(&p, "", TREE("1")));
    sync_tree(&p, ID("1"), TREE("1"), NULL, tree_1);
    check_tree(&p, tree_1, 0);
    assert_true(checked(&p, "", TREE("1")));
    assert_false(checked(&p, "", TREE("2")));
    assert_false(checked(&p, "@base/other", TREE("1")));
    send_sync(&p, ID("2"), TREE("1"), "", 0); /* unchanged: nothing to say, nothing to do */
    struct wire_sync_state is = expect_state(&p);
    assert_string_equal(is.base, TREE("1"));
    assert_int_equal(is.file_count, 0);
    assert_int_equal(is.part_count, 0);
    struct stat before, after;
    char *index = base_path(&p, "t/" JOB "/workdir/index");
    stat(index, &before);
    struct buf b = {0};
    put_strings(&b, WIRE_SYNC_END, ID("2"), NULL, 0);
    send_buf(&p, &b);
    struct wire_record r = expect_record(&p, WIRE_EXIT);
    assert_true(wire_record_success(&r));
    assert_int_equal(r.worker_count, 0);
    assert_int_equal(r.spool_bytes, 0);
    assert_true(r.start_mono_ns && r.end_mono_ns >= r.start_mono_ns);
    stat(index, &after);
    assert_int_equal(before.st_ino, after.st_ino);
    /* what a job made stays; what it changed, removed or made executable comes back */
    write_text(at_work(&p, "dir/made"), "made");
    write_text(at_work(&p, "a"), "ALPHA");
    unlink(at_work(&p, "dir/b"));
    chmod(at_work(&p, "z/large"), 0755);
    assert_false(checked(&p, "", TREE("1")));
    send_sync(&p, ID("3"), TREE("1"), "", 0);
    is = expect_state(&p);
    assert_string_equal(is.base, TREE("1"));
    assert_int_equal(is.file_count, 3);
    assert_true(in_state(&is, "a") && !in_state(&is, "a")->oid && in_state(&is, "dir/b") && in_state(&is, "z/large"));
    put_changes(&b, ID("3"), &is, tree_1, tree_1);
    send_buf(&p, &b);
    expect_record(&p, WIRE_EXIT);
    check_tree(&p, tree_1, 1);
    sync_tree(&p, ID("4"), TREE("2"), tree_1, tree_2);
    check_tree(&p, tree_2, 1);
    assert_false(there(at_work(&p, "dir/deep")));
    assert_true(there(at_work(&p, "dir/made")));
    assert_true(checked(&p, "", TREE("2")));
    peer_close(&p);
    peer_open(&p, WIRE_READ, OWNER_A);
    assert_true(checked(&p, "", TREE("2")));
    peer_close(&p);
}

static void test_all_and_distrust(void **state)
{
    (void)state;
    struct peer p;
    struct buf b = {0};
    peer_open(&p, WIRE_OWN, OWNER_A);
    sync_tree(&p, ID("1"), TREE("1"), NULL, tree_1);
    write_text(at_work(&p, "made"), "made");
    unlink(at_work(&p, "a"));
    send_sync(&p, ID("2"), TREE("2"), "", 0);
    expect_state(&p);
    put_strings(&b, WIRE_SYNC_ALL, ID("2"), NULL, 0);
    send_buf(&p, &b);
    struct wire_sync_state is = expect_state(&p);
    assert_string_equal(is.base, "");
    assert_int_equal(is.file_count, 5);
    assert_null(in_state(&is, "a"));
    assert_int_equal(in_state(&is, "dir/b")->mode, X);
    put_changes(&b, ID("2"), &is, NULL, tree_2);
    send_buf(&p, &b);
    expect_record(&p, WIRE_EXIT);
    check_tree(&p, tree_2, 1);
    /* power may have been lost: all is sent again, and what no tree has any more goes all the same */
    for (int again = 0; again < 2; again++) {
        send_sync(&p, again ? ID("4") : ID("3"), TREE("1"), "", WIRE_SYNC_DISTRUST);
        is = expect_state(&p);
        assert_string_equal(is.base, "");
        assert_int_equal(is.file_count, 0);
        if (!again) { /* cut off in its middle */
            put_file(&b, ID("3"), &tree_1[0], 0);
            send_buf(&p, &b);
            send_token(&p, WIRE_PING, 1);
            expect(&p, WIRE_PONG);
            peer_kill(&p);
            peer_open(&p, WIRE_OWN, OWNER_A);
        } else {
            put_changes(&b, ID("4"), &is, NULL, tree_1);
            send_buf(&p, &b);
            expect_record(&p, WIRE_EXIT);
        }
    }
    check_tree(&p, tree_1, 1);
    assert_false(there(at_work(&p, "new")));
    peer_close(&p);
}

static void test_roots(void **state)
{
    (void)state;
    struct peer p;
    char *roots[3];
    peer_open(&p, WIRE_OWN, OWNER_A);
    roots[0] = arena_printf(p.arena, "%s/else/where", folder);
    roots[1] = (char *)"@base/files/x/../y";
    roots[2] = (char *)"~/home/z";
    char *paths[] = {roots[0], arena_printf(p.arena, "%s/files/y", p.facts.base_dir),
                     arena_printf(p.arena, "%s/home/z", folder)};
    for (size_t i = 0; i < ARRAY_LEN(roots); i++) {
        char first[WIRE_ID_LEN + 1], second[WIRE_ID_LEN + 1];
        snprintf(first, sizeof first, "%032zx", 16 + i);
        snprintf(second, sizeof second, "%032zx", 32 + i);
        struct wire_record r = sync_root(&p, first, TREE("1"), roots[i], NULL, tree_1);
        assert_true(wire_record_success(&r));
        check_tree_at(paths[i], tree_1, 0);
        assert_true(checked(&p, roots[i], TREE("1")));
        r = sync_root(&p, second, TREE("2"), roots[i], tree_1, tree_2);
        assert_true(wire_record_success(&r));
        check_tree_at(paths[i], tree_2, 0);
        struct stat st;
        stat(paths[i], &st);
        mode_t mask = umask(0);
        umask(mask);
        assert_int_equal(st.st_mode & 0777, 0755 & ~mask);
    }
    assert_true(there(base_path(&p, "m/*/jobs/" JOB "/t/workdir/index")));
    send_token(&p, WIRE_SETTLE, 9);
    struct wire_in in = expect(&p, WIRE_SETTLED);
    wire_get_u64(&in);
    assert_string_equal(wire_get_string(&in), "");
    peer_close(&p);
}

static void test_missing(void **state)
{
    (void)state;
    struct peer p;
    struct buf b = {0};
    peer_open(&p, WIRE_OWN, OWNER_A);
    mkdir(at_work(&p, ""), 0755);
    send_run(&p, ID("f"), "s", "mkdir -p z dir; echo mine > a; echo large > z/large; ln -s nowhere dir/link");
    expect_started(&p, ID("f"));
    expect_record(&p, WIRE_EXIT);
    send_sync(&p, ID("1"), TREE("1"), "", WIRE_SYNC_MISSING);
    struct wire_sync_state is = expect_state(&p);
    put_changes(&b, ID("1"), &is, NULL, tree_1);
    send_buf(&p, &b);
    struct wire_record r = expect_record(&p, WIRE_EXIT);
    assert_true(wire_record_success(&r));
    check_file(p.facts.work_dir, &(struct item){"a", F, "mine\n", 0, 0});
    check_file(p.facts.work_dir, &(struct item){"z/large", F, "large\n", 0, 0});
    check_file(p.facts.work_dir, &(struct item){"dir/link", L, "nowhere", 0, 0});
    check_file(p.facts.work_dir, &tree_1[1]);
    assert_true(checked(&p, "", TREE("1")));
    write_text(at_work(&p, "dir/b"), "changed later: it stays too");
    assert_true(checked(&p, "", TREE("1")));
    unlink(at_work(&p, "a"));
    assert_false(checked(&p, "", TREE("1")));
    send_sync(&p, ID("2"), TREE("1"), "", WIRE_SYNC_MISSING);
    is = expect_state(&p);
    assert_int_equal(is.file_count, 1);
    put_changes(&b, ID("2"), &is, tree_1, tree_1);
    send_buf(&p, &b);
    expect_record(&p, WIRE_EXIT);
    check_file(p.facts.work_dir, &tree_1[0]);
    check_file(p.facts.work_dir, &(struct item){"dir/b", X, "changed later: it stays too", 0, 0});
    /* asked for as it is, nothing of that counts */
    send_sync(&p, ID("3"), TREE("1"), "", 0);
    is = expect_state(&p);
    assert_int_equal(is.file_count, 6);
    put_changes(&b, ID("3"), &is, tree_1, tree_1);
    send_buf(&p, &b);
    expect_record(&p, WIRE_EXIT);
    check_tree(&p, tree_1, 0);
    peer_close(&p);
}

/* ---- what stands in the way ---- */

static void test_conflicts(void **state)
{
    (void)state;
    struct peer p;
    static const struct item files[] = {{"a", F, "file", 0, 0}, {"b/c/d", F, "deep", 0, 0}, {"b/e", L, "x", 0, 0}, {0}};
    static const struct item turned[] = {{"a/x/y", F, "now below a folder", 0, 0}, {"b", F, "now a file", 0, 0}, {0}};
    peer_open(&p, WIRE_OWN, OWNER_A);
    sync_tree(&p, ID("1"), TREE("1"), NULL, files);
    check_tree(&p, files, 0);
    sync_tree(&p, ID("2"), TREE("2"), files, turned);
    check_tree(&p, turned, 0);
    sync_tree(&p, ID("3"), TREE("1"), turned, files);
    check_tree(&p, files, 0);
    /* the same without REMOVE first: what stands there is of the index */
    struct buf b = {0};
    send_sync(&p, ID("4"), TREE("2"), "", 0);
    expect_state(&p);
    put_file(&b, ID("4"), &turned[0], 0);
    put_file(&b, ID("4"), &turned[1], 0);
    put_strings(&b, WIRE_SYNC_END, ID("4"), NULL, 0);
    send_buf(&p, &b);
    struct wire_record r = expect_record(&p, WIRE_EXIT);
    assert_true(wire_record_success(&r));
    check_tree(&p, turned, 0);
    assert_true(checked(&p, "", TREE("2")));
    /* a folder with a file of the job where a file belongs: named, and nothing of it is lost */
    unlink(at_work(&p, "b"));
    mkdir(at_work(&p, "b"), 0755);
    mkdir(at_work(&p, "b/sub"), 0755);
    write_text(at_work(&p, "b/sub/job"), "precious");
    r = sync_root(&p, ID("5"), TREE("2"), "", turned, turned);
    assert_int_equal(r.state, WIRE_STATE_ENDED);
    assert_int_equal(r.cause, WIRE_CAUSE_SETUP);
    assert_int_equal(r.value, EISDIR);
    assert_non_null(strstr(r.tail, "\"b\""));
    check_file(at_work(&p, "b/sub"), &(struct item){"job", F, "precious", 0, 0});
    /* without it the rest is no loss */
    unlink(at_work(&p, "b/sub/job"));
    sync_tree(&p, ID("6"), TREE("2"), turned, turned);
    check_tree(&p, turned, 0);
    /* a file of the job where a folder belongs */
    sync_tree(&p, ID("7"), TREE("3"), turned, turned + 1);
    write_text(at_work(&p, "a"), "of the job");
    sync_tree(&p, ID("8"), TREE("2"), turned + 1, turned);
    check_tree(&p, turned, 0);
    peer_close(&p);
}

/* Nothing outside the root is written or removed, whatever links the node has. */
static void test_links_do_not_lead_out(void **state)
{
    (void)state;
    struct peer p;
    peer_open(&p, WIRE_OWN, OWNER_A);
    char *outside = arena_printf(p.arena, "%s/outside", folder);
    mkdir(outside, 0755);
    write_text(arena_printf(p.arena, "%s/b", outside), "untouched");
    mkdir(p.facts.work_dir, 0755);
    send_run(&p, ID("f"), "s", "true");
    expect_started(&p, ID("f"));
    expect_record(&p, WIRE_EXIT);
    assert_int_equal(symlink(outside, at_work(&p, "dir")), 0);
    assert_int_equal(symlink(arena_printf(p.arena, "%s/b", outside), at_work(&p, "a")), 0);
    sync_tree(&p, ID("1"), TREE("1"), NULL, tree_1);
    check_tree(&p, tree_1, 0);
    check_tree_at(outside, (struct item[]){{"b", F, "untouched", 0, 0}, {0}}, 0);
    /* moved away and linked: stat data are the same, but it is not there */
    char *moved = arena_printf(p.arena, "%s/moved", folder);
    assert_int_equal(rename(at_work(&p, "dir"), moved), 0);
    assert_int_equal(symlink(moved, at_work(&p, "dir")), 0);
    assert_false(checked(&p, "", TREE("1")));
    static const struct item only[] = {{"a", F, "alpha", 0, 0}, {0}};
    send_sync(&p, ID("2"), TREE("2"), "", 0);
    expect_state(&p);
    struct buf b = {0};
    char *gone[] = {(char *)"dir/b", (char *)"dir/link", (char *)"z/large"};
    put_strings(&b, WIRE_REMOVE, ID("2"), gone, 3);
    put_strings(&b, WIRE_SYNC_END, ID("2"), NULL, 0);
    send_buf(&p, &b);
    expect_record(&p, WIRE_EXIT);
    assert_int_equal(count_files(moved), 3);
    sync_tree(&p, ID("3"), TREE("1"), only, tree_1);
    check_tree(&p, tree_1, 0);
    assert_int_equal(count_files(moved), 3);
    check_tree_at(outside, (struct item[]){{"b", F, "untouched", 0, 0}, {0}}, 0);
    peer_close(&p);
}

static void test_bad_frames(void **state)
{
    (void)state;
    static const char *const paths[] = {"../x", "/tmp/x", "a/../../x", ".git/config", "a//b", "", "."};
    for (size_t i = 0; i < 2 * ARRAY_LEN(paths) + 1; i++) {
        struct peer p;
        struct buf b = {0};
        char attempt[WIRE_ID_LEN + 1];
        const char *path = paths[i / 2 % ARRAY_LEN(paths)];
        snprintf(attempt, sizeof attempt, "%032zx", 256 + i);
        peer_open(&p, WIRE_OWN, OWNER_A);
        send_sync(&p, attempt, TREE("1"), "", 0);
        expect_state(&p);
        if (i == 2 * ARRAY_LEN(paths)) { /* more data than the file has */
            put_file(&b, attempt, &tree_1[5], 0);
            size_t frame = wire_begin(&b, WIRE_FILE_DATA);
            wire_put_string(&b, attempt);
            wire_put_bytes(&b, "x", 1);
            wire_end(&b, frame);
            send_buf(&p, &b);
            struct wire_record r = expect_record(&p, WIRE_EXIT);
            assert_int_equal(r.value, EPROTO);
            peer_close(&p);
            continue;
        }
        if (i % 2)
            put_strings(&b, WIRE_REMOVE, attempt, (char *[]){(char *)(uintptr_t)path}, 1);
        else
            put_file(&b, attempt, &(struct item){path, F, "x", 0, 0}, 0);
        send_buf(&p, &b);
        assert_non_null(strstr(expect_fault(&p), "malformed"));
        assert_int_equal(peer_frame(&p), 0);
        assert_int_equal(peer_wait(&p), 1);
        peer_free(&p);
    }
    CLEANUP(cleanup_free) char *outside = xasprintf("%s/x", folder);
    assert_false(there(outside));
}

/* ---- claims ---- */

static void test_claims(void **state)
{
    (void)state;
    struct peer p;
    struct buf b = {0};
    peer_open(&p, WIRE_OWN, OWNER_A);
    send_sync(&p, ID("1"), TREE("1"), "", 0);
    expect_state(&p);
    send_sync(&p, ID("2"), TREE("1"), "", 0);
    struct wire_in in = expect(&p, WIRE_BUSY);
    assert_string_equal(wire_get_string(&in), ID("2"));
    assert_string_equal(wire_get_string(&in), ID("1"));
    send_sync(&p, ID("1"), TREE("1"), "", 0); /* the same attempt: as it stands */
    struct wire_record r = expect_record(&p, WIRE_RECORD);
    assert_int_equal(r.state, WIRE_STATE_CLAIMED);
    send_run(&p, ID("3"), "sync:workdir", "true"); /* one slot for all kinds */
    expect(&p, WIRE_BUSY);
    send_token(&p, WIRE_LIST, 1);
    r = expect_record(&p, WIRE_RECORD);
    assert_int_equal(r.state, WIRE_STATE_CLAIMED);
    expect(&p, WIRE_LISTED);
    put_file(&b, ID("1"), &tree_1[0], 0);
    put_file(&b, ID("2"), &tree_1[1], 0); /* of no transfer: dropped */
    send_buf(&p, &b);
    send_signal(&p, ID("1"), WIRE_STOP, 1000);
    r = expect_record(&p, WIRE_EXIT);
    assert_int_equal(r.state, WIRE_STATE_ENDED);
    assert_true(r.stop_requested);
    put_file(&b, ID("1"), &tree_1[1], 0); /* behind its end: dropped */
    put_strings(&b, WIRE_SYNC_END, ID("1"), NULL, 0);
    put_strings(&b, WIRE_SYNC_END, ID("9"), NULL, 0);
    send_buf(&p, &b);
    assert_non_null(strstr(expect_fault(&p), ID("9")));
    assert_false(there(at_work(&p, "dir")));
    send_sync(&p, ID("4"), TREE("1"), "", 0); /* what came before the stop is known */
    struct wire_sync_state is = expect_state(&p);
    assert_string_equal(is.base, "");
    assert_int_equal(is.file_count, 1);
    peer_kill(&p);

    peer_open(&p, WIRE_OWN, OWNER_A);
    send_sync(&p, ID("4"), TREE("1"), "", 0);
    r = expect_record(&p, WIRE_RECORD);
    assert_int_equal(r.state, WIRE_STATE_LOST);
    expect_record(&p, WIRE_EXIT);
    sync_tree(&p, ID("5"), TREE("1"), NULL, tree_1);
    check_tree(&p, tree_1, 0);
    peer_close(&p);
    peer_open(&p, WIRE_READ, OWNER_A);
    send_sync(&p, ID("6"), TREE("1"), "", 0);
    assert_non_null(strstr(expect_fault(&p), "only reads"));
    peer_close(&p);
}

/* Two machines (two host digests) that share a base folder: one writes, the other waits, then finds all of it. */
static void hello_of_job(struct peer *p, const char *job, const char *digest, const char *boot_id)
{
    struct buf b = {0};
    peer_start(p);
    peer_magic(p);
    wire_put_hello(&b, &(struct wire_hello){.version = WIRE_VERSION,
                                            .job = (char *)(uintptr_t)job,
                                            .owner = (char *)OWNER_A,
                                            .owner_name = (char *)"u",
                                            .variant = (char *)"0123456789abcdef",
                                            .host_digest = (char *)(uintptr_t)digest,
                                            .test_boot_id = (char *)(uintptr_t)boot_id});
    send_buf(p, &b);
    expect_hello_ok(p);
}

static void hello_of(struct peer *p, const char *digest, const char *boot_id)
{
    hello_of_job(p, JOB, digest, boot_id);
}

/* Two jobs bring their trees to one machine at once: neither knows of the other. */
static void test_two_jobs(void **state)
{
    (void)state;
    struct peer peers[2];
    struct wire_sync_state is[2];
    struct buf b[2] = {{0}};
    const struct item *trees[] = {tree_1, tree_2};
    for (size_t i = 0; i < 2; i++) {
        hello_of_job(&peers[i], i ? "ffffffffffffffff" : JOB, "h", "");
        send_sync(&peers[i], ID("1"), i ? TREE("2") : TREE("1"), "", 0);
    }
    for (size_t i = 0; i < 2; i++) {
        is[i] = expect_state(&peers[i]);
        put_changes(&b[i], ID("1"), &is[i], NULL, trees[i]);
    }
    for (size_t at[2] = {0}; at[0] < b[0].len || at[1] < b[1].len;)
        for (size_t i = 0; i < 2; i++) {
            size_t part = b[i].len - at[i] < 100000 ? b[i].len - at[i] : 100000;
            assert_int_equal(write_all(peers[i].fd, b[i].data + at[i], part), 0);
            at[i] += part;
        }
    for (size_t i = 0; i < 2; i++) {
        struct wire_record r = expect_record(&peers[i], WIRE_EXIT);
        assert_true(wire_record_success(&r));
        check_tree(&peers[i], trees[i], 0);
        buf_free(&b[i]);
        peer_close(&peers[i]);
    }
}

static void test_shared_base(void **state)
{
    (void)state;
    struct peer one, two, three;
    struct buf b = {0};
    hello_of(&one, "host:1", "");
    hello_of(&two, "host:2", "");
    send_sync(&one, ID("1"), TREE("1"), "", 0);
    struct wire_sync_state is = expect_state(&one);
    send_sync(&two, ID("2"), TREE("1"), "", 0);
    send_token(&two, WIRE_PING, 1);
    expect(&two, WIRE_PONG); /* it waits, but not deaf */
    setenv("RHRUN_TEST_TREE_WAIT_MS", "0", 1);
    hello_of(&three, "host:3", "");
    send_sync(&three, ID("3"), TREE("1"), "", 0);
    char *text = expect_fault(&three);
    assert_non_null(strstr(text, three.facts.work_dir));
    send_token(&three, WIRE_LIST, 1); /* as if it had not been asked for */
    expect(&three, WIRE_LISTED);
    put_changes(&b, ID("1"), &is, NULL, tree_1);
    send_buf(&one, &b);
    expect_record(&one, WIRE_EXIT);
    is = expect_state(&two);
    assert_string_equal(is.base, TREE("1"));
    assert_int_equal(is.file_count, 0);
    put_strings(&b, WIRE_SYNC_END, ID("2"), NULL, 0);
    send_buf(&two, &b);
    struct wire_record r = expect_record(&two, WIRE_EXIT);
    assert_true(wire_record_success(&r));
    send_sync(&three, ID("3"), TREE("1"), "", 0);
    expect_state(&three);
    check_tree(&one, tree_1, 0);
    peer_close(&one);
    peer_close(&two);
    peer_close(&three);
}

/* ---- cut off ---- */

/* The first of them only. */
static void send_frames(struct peer *p, struct buf *b, int count)
{
    struct buf rest = *b;
    enum wire_type type;
    const uint8_t *payload;
    uint32_t len;
    for (; count; count--) {
        assert_int_equal(wire_peek(&rest, &type, &payload, &len), 1);
        rest.data += WIRE_HEADER_SIZE + len;
        rest.len -= WIRE_HEADER_SIZE + len;
    }
    b->len -= rest.len;
    send_buf(p, b);
}

/* What was received is written before the next request is answered. */
static void settle_down(struct peer *p)
{
    send_token(p, WIRE_PING, 99);
    expect(p, WIRE_PONG);
}

static void test_part_resumes(void **state)
{
    (void)state;
    struct peer p;
    static const struct item big[] = {{"sub/big", X, NULL, 5000000, 3}, {0}};
    for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
        struct buf b = {0};
        char *root = elsewhere ? xasprintf("%s/elsewhere", folder) : xstrdup("");
        const char *const ids[] = {elsewhere ? ID("a") : ID("1"), elsewhere ? ID("b") : ID("2"),
                                   elsewhere ? ID("c") : ID("3")};
        hello_of(&p, "h", "boot-1");
        send_sync(&p, ids[0], TREE("1"), root, 0);
        expect_state(&p);
        put_file(&b, ids[0], big, 0);
        send_frames(&p, &b, 3);
        settle_down(&p);
        peer_kill(&p);
        hello_of(&p, "h", "boot-1");
        CLEANUP(cleanup_free) char *path = xstrdup(elsewhere ? root : p.facts.work_dir);
        assert_false(there(arena_printf(p.arena, "%s/sub/big", path)));
        send_sync(&p, ids[1], TREE("1"), root, 0);
        struct wire_sync_state is = expect_state(&p);
        assert_int_equal(is.part_count, 1);
        assert_int_equal(is.parts[0].size, 3 * WIRE_FILE_MAX);
        put_changes(&b, ids[1], &is, NULL, big);
        send_buf(&p, &b);
        struct wire_record r = expect_record(&p, WIRE_EXIT);
        assert_true(wire_record_success(&r));
        check_tree_at(path, big, 0); /* and nothing else is left in the root */
        peer_close(&p);
        /* after another boot a part is worth nothing, nor is what a transfer had brought until then */
        static const struct item more[] = {{"one", F, "1", 0, 0}, {"sub/big", F, NULL, 5000001, 4}, {0}};
        hello_of(&p, "h", "boot-1");
        send_sync(&p, ids[2], TREE("2"), root, 0);
        is = expect_state(&p);
        assert_string_equal(is.base, TREE("1"));
        put_file(&b, ids[2], &more[0], 0);
        put_file(&b, ids[2], &more[1], 0);
        send_frames(&p, &b, 8);
        settle_down(&p);
        peer_kill(&p);
        hello_of(&p, "h", "boot-2");
        const char *again = elsewhere ? ID("d") : ID("4");
        send_sync(&p, again, TREE("1"), root, 0);
        is = expect_state(&p);
        assert_string_equal(is.base, TREE("1"));
        assert_int_equal(is.part_count, 0);
        assert_int_equal(is.file_count, 0);
        put_changes(&b, again, &is, big, big);
        send_buf(&p, &b);
        expect_record(&p, WIRE_EXIT);
        check_tree_at(path, big, 0); /* "one" was of no complete tree */
        peer_close(&p);
        free(root);
    }
}

/* Killed at any byte of the transfer: every file that has its name is whole, of the old tree or the new. */
static void test_killed_anywhere(void **state)
{
    (void)state;
    struct peer p;
    uint32_t seed = 12345;
    const struct item *old = NULL, *want = tree_1;
    const char *ids[] = {TREE("1"), TREE("2")};
    for (int round = 0; round < 60; round++) {
        struct buf b = {0};
        char attempt[WIRE_ID_LEN + 1];
        snprintf(attempt, sizeof attempt, "%032x", 0x1000 + round);
        peer_open(&p, WIRE_OWN, OWNER_A);
        send_sync(&p, attempt, ids[want == tree_2], "", 0);
        struct wire_sync_state is = expect_state(&p);
        put_changes(&b, attempt, &is, old, want);
        seed = seed * 1664525 + 1013904223;
        if (round % 3 == 2) { /* through at last: equal, and the next goes the other way */
            send_buf(&p, &b);
            struct wire_record r = expect_record(&p, WIRE_EXIT);
            assert_true(wire_record_success(&r));
            check_tree(&p, want, 0);
            assert_true(checked(&p, "", ids[want == tree_2]));
            peer_close(&p);
            old = want;
            want = want == tree_1 ? tree_2 : tree_1;
            continue;
        }
        size_t cut = (seed >> 4) % (b.len + 1);
        assert_int_equal(write_all(p.fd, b.data, cut), 0);
        buf_free(&b);
        char *root = xstrdup(p.facts.work_dir);
        peer_kill(&p); /* it may have read all of it, or nothing */
        for (int i = 0; i < 2; i++)
            for (const struct item *f = i ? tree_1 : tree_2; f->path; f++) {
                const struct item *other = find(i ? tree_2 : tree_1, f->path);
                char *path = xasprintf("%s/%s", root, f->path);
                if (there(path) && !matches(root, f) && !(other && matches(root, other)))
                    fail_msg("round %d: \"%s\" is neither the old nor the new one", round, f->path);
                free(path);
            }
        free(root);
    }
}

/* ---- a full disk ---- */

/* `inside`: the ledger is on it too; else only the root is. */
static void full_disk(bool inside)
{
    struct peer p;
    struct buf b = {0};
    static const struct item files[] = {{"a/1", F, "one", 0, 0},     {"a/2", F, NULL, 200000, 2},
                                        {"b/3", X, NULL, 300000, 3}, {"big", F, NULL, 9000000, 4},
                                        {"last", F, "last", 0, 0},   {0}};
    char disk[512];
    snprintf(disk, sizeof disk, "%s/%s", folder, inside ? ".rhrun" : "disk");
    assert_int_equal(mkdir(disk, 0700), 0);
    if (mount("tmpfs", disk, "tmpfs", 0, "size=6m,mode=700") < 0) {
        print_message("no full-disk test: cannot mount a tmpfs here (%s)\n", strerror(errno));
        skip();
    }
    const char *root = inside ? "" : disk;
    peer_open(&p, WIRE_OWN, OWNER_A);
    send_sync(&p, ID("1"), TREE("1"), root, 0);
    struct wire_sync_state is = expect_state(&p);
    put_changes(&b, ID("1"), &is, NULL, files);
    send_buf(&p, &b); /* all of it: what comes behind the failure is dropped */
    struct wire_record r = expect_record(&p, WIRE_EXIT);
    assert_int_equal(r.state, WIRE_STATE_ENDED);
    assert_int_equal(r.cause, WIRE_CAUSE_SETUP);
    assert_int_equal(r.value, ENOSPC);
    assert_non_null(strstr(r.tail, "no space left on the node"));
    assert_non_null(strstr(r.tail, "\"big\""));
    char *at = arena_printf(p.arena, "%s", inside ? p.facts.work_dir : disk);
    assert_false(there(arena_printf(p.arena, "%s/big", at)));
    assert_false(there(arena_printf(p.arena, "%s/last", at)));
    for (int i = 0; i < 3; i++)
        check_file(at, &files[i]);
    peer_kill(&p);

    assert_int_equal(mount("tmpfs", disk, "tmpfs", MS_REMOUNT, "size=32m"), 0);
    peer_open(&p, WIRE_OWN, OWNER_A);
    send_sync(&p, ID("2"), TREE("1"), root, 0);
    is = expect_state(&p);
    assert_string_equal(is.base, "");
    assert_int_equal(is.file_count, 3);
    assert_int_equal(is.part_count, 1);
    assert_true(is.parts[0].size > 4000000);
    put_changes(&b, ID("2"), &is, NULL, files);
    send_buf(&p, &b);
    r = expect_record(&p, WIRE_EXIT);
    assert_true(wire_record_success(&r));
    at = arena_printf(p.arena, "%s", inside ? p.facts.work_dir : disk);
    check_tree_at(at, files, 0);
    peer_close(&p);
    assert_int_equal(umount2(disk, MNT_DETACH), 0);
}

static void test_full_disk(void **state)
{
    (void)state;
    full_disk(true);
}

static void test_full_root(void **state)
{
    (void)state;
    full_disk(false);
}

static void test_not_allowed(void **state)
{
    (void)state;
    struct peer p;
    peer_open(&p, WIRE_OWN, OWNER_A);
    write_text(arena_printf(p.arena, "%s/file", folder), "x");
    send_sync(&p, ID("1"), TREE("1"), "~/file/below", 0); /* no folder can be made there */
    struct wire_record r = expect_record(&p, WIRE_EXIT);
    assert_int_equal(r.cause, WIRE_CAUSE_SETUP);
    assert_non_null(strstr(r.tail, "/file"));
    assert_non_null(strstr(r.tail, strerror(r.value)));
    static const struct item files[] = {{"x", F, "x", 0, 0}, {0}}, odd[] = {{"file/\x1b[2Jx", F, "x", 0, 0}, {0}};
    mkdir(arena_printf(p.arena, "%s/root", folder), 0755);
    mkdir(arena_printf(p.arena, "%s/root/file", folder), 0755);
    mkdir(arena_printf(p.arena, "%s/root/file/\x1b[2Jx", folder), 0755);
    write_text(arena_printf(p.arena, "%s/root/file/\x1b[2Jx/of the job", folder), "x");
    r = sync_root(&p, ID("3"), TREE("1"), "~/root", NULL, odd);
    assert_int_equal(r.value, EISDIR);
    assert_null(strchr(r.tail, '\x1b'));                             /* people read it */
    r = sync_root(&p, ID("2"), TREE("1"), "/proc/sys", NULL, files); /* one that nobody can write to */
    assert_int_equal(r.cause, WIRE_CAUSE_SETUP);
    assert_non_null(strstr(r.tail, "\"x\" in \"/proc/sys\""));
    peer_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_life, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_all_and_distrust, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_roots, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_missing, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_conflicts, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_links_do_not_lead_out, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_bad_frames, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_claims, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_two_jobs, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_shared_base, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_part_resumes, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_killed_anywhere, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_full_disk, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_full_root, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_not_allowed, setup, folder_remove),
    };
    return cmocka_run_group_tests_name("sync", tests, NULL, NULL);
}
