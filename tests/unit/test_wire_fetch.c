/*
 * Files from a node, with the built agent over a socketpair: their names and contents, however they change meanwhile.
 */
#include "agent_peer.h"

#include <fcntl.h>
#include <sys/stat.h>

static int setup(void **state)
{
    (void)state;
    return folder_make("fetch");
}

/* A file below the test's folder, with the folders above it. */
static char *make(struct peer *p, const char *path, const char *text)
{
    char *full = arena_printf(p->arena, "%s/%s", folder, path), *dir = arena_strdup(p->arena, full);
    *strrchr(dir, '/') = 0;
    assert_int_equal(mkdir_p(dir, 0755, NULL), 0);
    int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write_all(fd, text, strlen(text)), 0);
    close(fd);
    return full;
}

static void send_glob(struct peer *p, uint64_t token, const char *pattern)
{
    struct buf b = {0};
    size_t frame = wire_begin(&b, WIRE_GLOB);
    wire_put_u64(&b, token);
    wire_put_string(&b, pattern);
    wire_end(&b, frame);
    send_buf(p, &b);
}

/* All frames of an answer as one. */
static struct wire_entries expect_entries(struct peer *p, uint64_t token)
{
    struct wire_entries all = {.entries = NULL};
    for (;;) {
        struct wire_in in = expect(p, WIRE_ENTRIES);
        struct wire_entries m;
        assert_true(wire_get_entries(&in, &m) && wire_in_done(&in));
        assert_int_equal(m.token, token);
        struct wire_entry *entries =
            arena_array(p->arena, (size_t)all.entry_count + m.entry_count + 1, sizeof *entries);
        if (all.entry_count)
            memcpy(entries, all.entries, all.entry_count * sizeof *entries);
        memcpy(entries + all.entry_count, m.entries, m.entry_count * sizeof *entries);
        m.entry_count += all.entry_count;
        m.entries = entries;
        all = m;
        if (m.last)
            return all;
    }
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct wire_entry *)a)->path, ((const struct wire_entry *)b)->path);
}

/* "a b/c d/" : what the pattern finds, sorted, folders with a slash, links with @. */
static char *found(struct peer *p, const char *pattern, const char *want_prefix)
{
    struct buf text = {0};
    send_glob(p, 5, pattern);
    struct wire_entries e = expect_entries(p, 5);
    assert_string_equal(e.error, "");
    if (want_prefix)
        assert_string_equal(e.prefix, want_prefix);
    qsort(e.entries, e.entry_count, sizeof *e.entries, by_path);
    for (uint32_t i = 0; i < e.entry_count; i++) {
        mode_t mode = e.entries[i].mode;
        buf_printf(&text, "%s%s%s", i ? " " : "", e.entries[i].path, S_ISDIR(mode) ? "/" : S_ISLNK(mode) ? "@" : "");
    }
    char *copy = arena_strndup(p->arena, text.data ? text.data : "", text.len);
    buf_free(&text);
    return copy;
}

static void test_patterns(void **state)
{
    (void)state;
    struct peer p;
    peer_open(&p, WIRE_READ, OWNER_A);
    make(&p, "out/a.txt", "1");
    make(&p, "out/b.log", "1");
    make(&p, "out/.hidden", "1");
    make(&p, "out/sub/c.txt", "1");
    make(&p, "out/sub/deep/d.txt", "1");
    make(&p, "out/sub/deep/e[1].txt", "1");
    make(&p, "out/\xc3\xa4.txt", "1");
    make(&p, "out2/x", "1");
    char *root = arena_printf(p.arena, "%s/out", folder);
    assert_int_equal(mkdir(arena_printf(p.arena, "%s/empty", root), 0755), 0);
    assert_int_equal(symlink("sub", arena_printf(p.arena, "%s/link", root)), 0);
    assert_int_equal(symlink("out", arena_printf(p.arena, "%s/outlink", folder)), 0);
    assert_int_equal(mkfifo(arena_printf(p.arena, "%s/fifo", root), 0600), 0);
#define ALL ".hidden a.txt b.log empty/ link@ sub/ sub/c.txt sub/deep/ sub/deep/d.txt sub/deep/e[1].txt \xc3\xa4.txt"
    assert_string_equal(found(&p, "~/out", root), ALL);
    assert_string_equal(found(&p, "~/out/", root), ALL);
    assert_string_equal(found(&p, arena_printf(p.arena, "%s/x/../out/.", folder), root), ALL);
    assert_string_equal(found(&p, "~/out/**", root), ALL);
    assert_string_equal(found(&p, "~/outlink", NULL), ALL); /* a link before the first wildcard is an ordinary place */
    assert_string_equal(found(&p, "~/out/*.txt", root), "a.txt \xc3\xa4.txt");
    assert_string_equal(found(&p, "~/out/?.txt", root), "a.txt \xc3\xa4.txt");
    assert_string_equal(found(&p, "~/out/[ab].*", root), "a.txt b.log");
    assert_string_equal(found(&p, "~/out/[!a].???", root), "b.log \xc3\xa4.txt");
    assert_string_equal(found(&p, "~/out/**/*.txt", root),
                        "a.txt sub/c.txt sub/deep/d.txt sub/deep/e[1].txt \xc3\xa4.txt");
    assert_string_equal(found(&p, "~/out/**/deep", root), "sub/deep/ sub/deep/d.txt sub/deep/e[1].txt");
    assert_string_equal(found(&p, "~/out/sub/**/d*", NULL), "deep/ deep/d.txt deep/e[1].txt");
    assert_string_equal(found(&p, "~/out/*/*/**/d.txt", root), "sub/deep/d.txt");
    assert_string_equal(found(&p, "~/out/**/e\\[1\\].txt", root), "sub/deep/e[1].txt");
    assert_string_equal(found(&p, "~/out/li*", root), "link@");
    assert_string_equal(found(&p, "~/out/link*/**", root), "link@"); /* found, not followed */
    assert_string_equal(found(&p, "~/out/fi*", root), "");
    assert_string_equal(found(&p, "~/out/a.txt", root), "a.txt");
    assert_string_equal(found(&p, "~/outlink/a.txt", NULL), "a.txt");
    assert_string_equal(found(&p, "~/out/fifo", root), "");
    assert_string_equal(found(&p, "~/nothing", folder), "");
    assert_string_equal(found(&p, "~/nothing/*", folder), "");
    assert_string_equal(found(&p, "~/out*/x", folder), "out2/x");
    assert_string_equal(found(&p, "~/out/[", root), "");
    assert_string_equal(found(&p, "", NULL), ""); /* no working directory yet */
    send_glob(&p, 6, "~/out/l*");
    struct wire_entries e = expect_entries(&p, 6);
    assert_string_equal(e.entries[0].target, "sub");
    struct stat st;
    send_glob(&p, 7, "~/out/b.log");
    e = expect_entries(&p, 7);
    stat(arena_printf(p.arena, "%s/b.log", root), &st);
    assert_int_equal(e.entries[0].inode, st.st_ino);
    assert_int_equal(e.entries[0].size, 1);
    assert_int_equal(e.entries[0].mode, st.st_mode);
    assert_true(e.entries[0].mtime_ns == (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec);
    struct buf many = {0}; /* more parts than there may be */
    for (int i = 0; i < 100; i++)
        buf_puts(&many, "*/");
    send_glob(&p, 8, many.data);
    e = expect_entries(&p, 8);
    assert_non_null(strstr(e.error, "parts"));
    buf_free(&many);
    peer_close(&p);
}

/* Many files, in many frames; requests meanwhile are answered. */
static void test_many_files(void **state)
{
    (void)state;
    enum { FOLDERS = 30, EACH = 400 };
    struct peer p;
    peer_open(&p, WIRE_READ, OWNER_A);
    make(&p, "many/x/y", "");
    for (int i = 0; i < FOLDERS; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/many/%d", folder, i);
        assert_int_equal(mkdir(path, 0755), 0);
        int dir = open(path, O_PATH | O_DIRECTORY);
        for (int k = 0; k < EACH; k++) {
            snprintf(path, sizeof path, "file-with-a-long-name-%d", k);
            assert_int_equal(mknodat(dir, path, S_IFREG | 0644, 0), 0);
        }
        close(dir);
    }
    send_glob(&p, 1, "~/many");
    send_token(&p, WIRE_PING, 2);
    bool ponged = false;
    uint32_t count = 0, frames = 0;
    for (bool last = false; !last || !ponged;) {
        int type = peer_frame(&p);
        struct wire_in in = peer_in(&p);
        if (type == WIRE_PONG) {
            ponged = true;
            assert_false(last); /* it overtakes the waiting ones */
            continue;
        }
        struct wire_entries m;
        assert_int_equal(type, WIRE_ENTRIES);
        assert_true(p.len < 1 << 20);
        assert_true(wire_get_entries(&in, &m));
        count += m.entry_count;
        frames++;
        last = m.last;
    }
    assert_int_equal(count, FOLDERS * EACH + FOLDERS + 2);
    assert_true(frames > 2);
    peer_close(&p);
}

/* ---- contents ---- */

static void send_get(struct peer *p, uint64_t token, const char *path, uint64_t offset, const struct stat *st)
{
    struct buf b = {0};
    size_t frame = wire_begin(&b, WIRE_GET);
    wire_put_u64(&b, token);
    wire_put_string(&b, path);
    wire_put_u64(&b, offset);
    wire_put_u64(&b, (uint64_t)st->st_size);
    wire_put_u64(&b, (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec);
    wire_end(&b, frame);
    send_buf(p, &b);
}

struct data {
    uint64_t token, offset;
    bool last;
    char *error;
    const uint8_t *bytes;
    uint32_t len;
};

static struct data take_data(struct peer *p)
{
    struct wire_in in = peer_in(p);
    struct data d = {0};
    d.token = wire_get_u64(&in);
    d.offset = wire_get_u64(&in);
    d.last = wire_get_u8(&in);
    d.error = wire_get_string(&in);
    d.bytes = wire_get_bytes(&in, &d.len);
    assert_true(wire_in_done(&in));
    return d;
}

/* The whole answer: the error, "" if none. */
static char *expect_data(struct peer *p, uint64_t token, uint64_t offset, struct buf *ret)
{
    for (;;) {
        expect(p, WIRE_DATA);
        struct data d = take_data(p);
        assert_int_equal(d.token, token);
        assert_int_equal(d.offset, offset);
        buf_append(ret, d.bytes, d.len);
        offset += d.len;
        if (d.last)
            return d.error;
        assert_string_equal(d.error, "");
    }
}

static void test_get(void **state)
{
    (void)state;
    struct peer p;
    struct stat st;
    peer_open(&p, WIRE_READ, OWNER_A);
    struct buf want = {0}, is = {0};
    for (int i = 0; i < 60000; i++)
        buf_printf(&want, "line %d\n", i);
    char *path = make(&p, "large", want.data), *empty = make(&p, "empty", "");
    stat(path, &st);
    static const uint64_t offsets[] = {0, 1, 65536, 400000};
    for (size_t i = 0; i < ARRAY_LEN(offsets); i++)
        send_get(&p, i, i ? path : "~/large", offsets[i], &st);
    send_get(&p, 7, path, (uint64_t)st.st_size, &st);
    for (size_t i = 0; i < ARRAY_LEN(offsets); i++) {
        buf_clear(&is);
        assert_string_equal(expect_data(&p, i, offsets[i], &is), "");
        assert_int_equal(is.len, want.len - offsets[i]);
        assert_memory_equal(is.data, want.data + offsets[i], is.len);
    }
    buf_clear(&is);
    assert_string_equal(expect_data(&p, 7, (uint64_t)st.st_size, &is), "");
    assert_int_equal(is.len, 0);
    stat(empty, &st);
    send_get(&p, 8, empty, 0, &st);
    assert_string_equal(expect_data(&p, 8, 0, &is), "");
    assert_int_equal(is.len, 0);
    send_get(&p, 9, "~/nothing", 0, &st);
    assert_string_equal(expect_data(&p, 9, 0, &is), "changed");
    send_get(&p, 10, empty, 1, &st); /* beyond its end */
    assert_string_equal(expect_data(&p, 10, 1, &is), "changed");
    send_get(&p, 11, folder, 0, &st);
    assert_string_not_equal(expect_data(&p, 11, 0, &is), "");
    buf_free(&want);
    buf_free(&is);
    peer_close(&p);
}

static void test_get_of_another_file(void **state)
{
    (void)state;
    struct peer p;
    struct stat st;
    struct buf is = {0};
    peer_open(&p, WIRE_READ, OWNER_A);
    char *path = make(&p, "file", "0123456789"), *other = make(&p, "other", "9876543210");
    stat(path, &st);
    struct stat old = st;
    old.st_mtim.tv_sec -= 100;
    send_get(&p, 1, path, 0, &old); /* written since */
    assert_string_equal(expect_data(&p, 1, 0, &is), "changed");
    old = st;
    old.st_size--;
    send_get(&p, 2, path, 0, &old); /* it grew */
    assert_string_equal(expect_data(&p, 2, 0, &is), "changed");
    assert_int_equal(is.len, 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(other, path), 0);
    stat(path, &st);
    send_get(&p, 3, path, 0, &st); /* a link took its place */
    assert_string_equal(expect_data(&p, 3, 0, &is), "changed");
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    stat(path, &st);
    send_get(&p, 4, path, 0, &st); /* nobody waits for its other end */
    assert_string_equal(expect_data(&p, 4, 0, &is), "changed");
    buf_free(&is);
    peer_close(&p);
}

/* It changes while it is sent: more is queued than the connection holds, so its end was not read yet. */
static void test_get_of_a_growing_file(void **state)
{
    (void)state;
    struct peer p;
    struct stat st;
    peer_open(&p, WIRE_READ, OWNER_A);
    char *path = make(&p, "file", "");
    assert_int_equal(truncate(path, 64 << 20), 0);
    for (int kind = 0; kind < 3; kind++) {
        struct buf is = {0};
        stat(path, &st);
        send_get(&p, 1, path, 0, &st);
        expect(&p, WIRE_DATA);
        struct data d = take_data(&p);
        assert_false(d.last);
        if (kind == 0) { /* longer */
            int fd = open(path, O_WRONLY | O_APPEND);
            assert_int_equal(write(fd, "x", 1), 1);
            close(fd);
        } else if (kind == 1) { /* shorter */
            assert_int_equal(truncate(path, 32 << 20), 0);
        } else { /* replaced: the opened file is still whole, and is the one that ENTRIES named */
            assert_int_equal(unlink(path), 0);
            make(&p, "file", "another");
        }
        assert_string_equal(expect_data(&p, 1, d.len, &is), kind < 2 ? "changed" : "");
        if (kind == 2)
            assert_int_equal(is.len + d.len, st.st_size);
        buf_free(&is);
    }
    peer_close(&p);
}

/* A file and the output of an attempt take turns, and a request overtakes both. */
static void test_get_beside_output(void **state)
{
    (void)state;
    struct peer p;
    struct stat st;
    peer_open(&p, WIRE_OWN, OWNER_A);
    char *path = make(&p, "file", "");
    assert_int_equal(truncate(path, 16 << 20), 0);
    stat(path, &st);
    send_run(&p, ID("1"), "s", "head -c 16777216 /dev/zero");
    expect_started(&p, ID("1"));
    expect_record(&p, WIRE_EXIT);
    buf_clear(&p.output);
    send_attempt(&p, WIRE_ATTACH, ID("1"), 0);
    send_get(&p, 1, path, 0, &st);
    send_token(&p, WIRE_PING, 1);
    uint64_t output = 0, data = 0;
    bool exited = false, last = false, ponged = false;
    while (!exited || !last || !ponged) {
        int type = peer_frame(&p);
        if (type == WIRE_OUTPUT) {
            take_output(&p);
            output = p.output.len;
        } else if (type == WIRE_DATA) {
            struct data d = take_data(&p);
            assert_string_equal(d.error, "");
            data += d.len;
            last = d.last;
        } else if (type == WIRE_PONG) {
            ponged = true;
            assert_true(output < 8 << 20 && data < 8 << 20);
        } else {
            assert_int_equal(type, WIRE_EXIT);
            exited = true;
        }
        if (!exited && !last && output > 2 << 20 && data > 2 << 20) {
            assert_true(output < 3 * data);
            assert_true(data < 3 * output);
        }
        arena_reset(p.arena);
    }
    assert_int_equal(data, 16 << 20);
    peer_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_patterns, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_many_files, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_get, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_get_of_another_file, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_get_of_a_growing_file, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_get_beside_output, setup, folder_remove),
    };
    return cmocka_run_group_tests_name("fetch", tests, NULL, NULL);
}
