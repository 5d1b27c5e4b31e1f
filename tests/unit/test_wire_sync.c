/* The agent, received trees: the usual life, and obstacles. */
#include "sync_scene.h"

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
    send_sync(&p, ID("2"), TREE("1"), "", 0); /* unchanged: no message, no work */
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
    /* files that a job made stay; files that it changed, removed or made executable are restored */
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
    /* power may have been lost: all is sent again, and files that are in no tree any more are removed */
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

/* ---- obstacles ---- */

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
    /* the same without REMOVE first: the obstacle is in the index */
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
    /* a folder with a file of the job in the place of a file: named, and none of it is lost */
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
    /* a file of the job in the place of a folder */
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
