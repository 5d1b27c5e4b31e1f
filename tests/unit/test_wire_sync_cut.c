/* The agent, received trees: by two at once, cut off, killed, on a full disk. */
#include "sync_scene.h"

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
    put_file(&b, ID("1"), &tree_1[1], 0); /* after its end: dropped */
    put_strings(&b, WIRE_SYNC_END, ID("1"), NULL, 0);
    put_strings(&b, WIRE_SYNC_END, ID("9"), NULL, 0);
    send_buf(&p, &b);
    assert_non_null(strstr(expect_fault(&p), ID("9")));
    assert_false(there(at_work(&p, "dir")));
    send_sync(&p, ID("4"), TREE("1"), "", 0); /* files that came before the stop are known */
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

/* Two jobs send their trees to one machine at once: neither knows of the other. */
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
    expect(&two, WIRE_PONG); /* it waits, but still answers */
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

/* Received bytes are written before the next request is answered. */
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
        /* after another boot a part is worthless, and so is everything that the transfer had brought until then */
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
        if (round % 3 == 2) { /* complete at last: equal, and the next goes the other way */
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
    send_buf(&p, &b); /* all of it: bytes after the failure are dropped */
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
        cmocka_unit_test_setup_teardown(test_claims, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_two_jobs, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_shared_base, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_part_resumes, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_killed_anywhere, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_full_disk, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_full_root, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_not_allowed, setup, folder_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
