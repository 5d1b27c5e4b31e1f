/*
 * Trees that are sent to an agent: the controller's side, the frames that bring them, and the files on the node.
 */
#ifndef TESTS_SYNC_SCENE_H
#define TESTS_SYNC_SCENE_H

#include "agent_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define TREE(n) "000000000000000000000000000000000000000" n

static inline int setup(void **state)
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

static inline void fill(uint8_t *out, const struct item *f, size_t offset, size_t len)
{
    for (size_t i = 0; i < len; i++)
        out[i] = f->data ? (uint8_t)f->data[offset + i] : (uint8_t)(((offset + i) * 31 >> 3) + f->seed);
}

static inline size_t size_of(const struct item *f)
{
    return f->data ? strlen(f->data) : f->size;
}

/* Equal for equal contents; a real hash is not needed. */
static inline void oid_of(const struct item *f, uint8_t oid[WIRE_OID_SIZE])
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

static inline void send_sync(struct peer *p, const char *attempt, const char *tree, const char *root, uint8_t flags)
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
static inline struct wire_sync_state expect_state(struct peer *p)
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

static inline const struct wire_sync_file *in_state(const struct wire_sync_state *state, const char *path)
{
    for (uint32_t i = 0; i < state->file_count; i++)
        if (str_eq(state->files[i].path, path))
            return &state->files[i];
    return NULL;
}

static inline void put_file(struct buf *b, const char *attempt, const struct item *f, size_t offset)
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

static inline void put_strings(struct buf *b, enum wire_type type, const char *attempt, char **items, uint32_t count)
{
    size_t frame = wire_begin(b, type);
    wire_put_string(b, attempt);
    if (type == WIRE_REMOVE)
        wire_put_strings(b, &(struct wire_strings){items, count});
    wire_end(b, frame);
}

static inline const struct item *find(const struct item *tree, const char *path)
{
    for (; tree && tree->path; tree++)
        if (str_eq(tree->path, path))
            return tree;
    return NULL;
}

/* The frames of a controller that knows the trees `old` (of state->base) and `want`: REMOVE, FILE, SYNC_END. */
static inline void put_changes(struct buf *b, const char *attempt, const struct wire_sync_state *state,
                               const struct item *old, const struct item *want)
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

static inline struct wire_record sync_root(struct peer *p, const char *attempt, const char *tree, const char *root,
                                           const struct item *old, const struct item *want)
{
    struct buf b = {0};
    send_sync(p, attempt, tree, root, 0);
    struct wire_sync_state state = expect_state(p);
    put_changes(&b, attempt, &state, old, want);
    send_buf(p, &b);
    return expect_record(p, WIRE_EXIT);
}

static inline void sync_tree(struct peer *p, const char *attempt, const char *tree, const struct item *old,
                             const struct item *want)
{
    struct wire_record r = sync_root(p, attempt, tree, "", old, want);
    if (!wire_record_success(&r))
        fail_msg("cause %u value %d: %s", r.cause, r.value, r.tail);
}

/* ---- the node's side ---- */

static inline char *at_work(struct peer *p, const char *path)
{
    return arena_printf(p->arena, "%s/%s", p->facts.work_dir, path);
}

static inline bool matches(const char *root, const struct item *f)
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

static inline void check_file(const char *root, const struct item *f)
{
    if (!matches(root, f))
        fail_msg("\"%s\" in \"%s\" is not as it should be", f->path, root);
}

static size_t files_seen;
static inline int count_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)ftw, (void)path;
    files_seen += flag == FTW_F || flag == FTW_SL || flag == FTW_SLN;
    return 0;
}

static inline size_t count_files(const char *root)
{
    files_seen = 0;
    nftw(root, count_one, 32, FTW_PHYS);
    return files_seen;
}

/* The files of the tree, and `others` more. */
static inline void check_tree_at(const char *root, const struct item *tree, size_t others)
{
    size_t count = 0;
    for (const struct item *f = tree; f->path; f++, count++)
        check_file(root, f);
    assert_int_equal(count_files(root), count + others);
}

static inline void check_tree(struct peer *p, const struct item *tree, size_t others)
{
    check_tree_at(p->facts.work_dir, tree, others);
}

static inline void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write_all(fd, text, strlen(text)), 0);
    close(fd);
}

static inline bool there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static inline bool checked(struct peer *p, const char *root, const char *id)
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

#endif
