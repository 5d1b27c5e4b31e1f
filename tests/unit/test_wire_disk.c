/*
 * The agent after a power cut or a curious user changed the disk: status files that are short, empty, torn or nonsense,
 * ids that were never written out, a clock that went back. In every case LIST ends, the damage is named, nothing
 * damaged counts as a success, and the slot takes new work.
 */
#include "agent_peer.h"

#include "../../src/agent/internal.h"

#include <fcntl.h>
#include <sys/stat.h>

static int setup(void **state)
{
    (void)state;
    return folder_make("disk");
}

static int teardown(void **state)
{
    (void)state;
    unsetenv("RHRUN_TEST_CLOCK_OFFSET_MS");
    return folder_remove(state);
}

static struct wire_record run_to_end(struct peer *p, const char *attempt, const char *slot, const char *script)
{
    buf_clear(&p->output);
    send_run(p, attempt, slot, script);
    expect_started(p, attempt);
    return expect_record(p, WIRE_EXIT);
}

/* LIST: the record of that attempt, or NULL; *ret_faults = how many were reported as damaged. */
static struct wire_record *list_for(struct peer *p, const char *attempt, uint32_t *ret_faults)
{
    struct wire_record *found = NULL;
    *ret_faults = 0;
    send_token(p, WIRE_LIST, 7);
    for (;;) {
        int type = peer_frame(p);
        struct wire_in in = peer_in(p);
        if (type == WIRE_LISTED)
            return found;
        if (type == WIRE_FAULT) {
            wire_get_string(&in);
            assert_non_null(strstr(wire_get_string(&in), "damaged"));
            ++*ret_faults;
            continue;
        }
        assert_int_equal(type, WIRE_RECORD);
        struct wire_record r;
        assert_true(wire_get_record(&in, &r) && wire_in_done(&in));
        if (str_eq(r.attempt, attempt)) {
            found = arena_alloc(p->arena, sizeof *found);
            *found = r;
        }
    }
}

static void put_file(const char *path, const void *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write_all(fd, data, len), 0);
    close(fd);
}

/* ---- order ---- */

static void test_clock_goes_back(void **state)
{
    (void)state;
    struct peer p;
    uint32_t faults;
    const struct {
        const char *attempt, *offset;
    } runs[] = {{ID("1"), "0"}, {ID("2"), "-3600000"}, {ID("3"), "3600000"}, {ID("4"), "-7200000"}};
    uint64_t sequence = 0, claimed = 0;
    for (size_t i = 0; i < ARRAY_LEN(runs); i++) {
        setenv("RHRUN_TEST_CLOCK_OFFSET_MS", runs[i].offset, 1);
        peer_open(&p, WIRE_OWN, OWNER_A);
        run_to_end(&p, runs[i].attempt, "s", "true");
        struct wire_record *r = list_for(&p, runs[i].attempt, &faults);
        assert_non_null(r);
        assert_true(r->sequence > sequence);
        if (i == 1 || i == 3)
            assert_true(r->claim_wall_ms < claimed); /* the hook works */
        sequence = r->sequence;
        claimed = r->claim_wall_ms;
        peer_close(&p);
    }
}

/* A forgotten attempt does not count, a remaining one does. */
static void test_sequence_after_forget(void **state)
{
    (void)state;
    struct peer p;
    uint32_t faults;
    peer_open(&p, WIRE_OWN, OWNER_A);
    run_to_end(&p, ID("1"), "s", "true");
    run_to_end(&p, ID("2"), "s", "true");
    run_to_end(&p, ID("3"), "other", "true");
    send_strings(&p, WIRE_FORGET, NULL, 2, ID("1"), ID("3"));
    peer_close(&p);
    peer_open(&p, WIRE_OWN, OWNER_A);
    uint64_t kept = list_for(&p, ID("2"), &faults)->sequence;
    run_to_end(&p, ID("4"), "s", "true");
    assert_true(list_for(&p, ID("4"), &faults)->sequence > kept);
    peer_close(&p);
}

/* ---- damaged status files ---- */

static void damage(struct peer *p, const char *attempt, int kind)
{
    char *path = attempt_path(p, attempt, "status");
    CLEANUP(cleanup_free) struct status *st = xcalloc(1, sizeof *st + 4096);
    int fd = open(path, O_RDWR);
    ssize_t n = pread(fd, st, sizeof *st + 4096, 0);
    assert_true(n >= (ssize_t)sizeof *st);
    close(fd);
    size_t size = (size_t)n;
    switch (kind) {
    case 0:
        size = 0;
        break; /* created, never written */
    case 1:
        memset(st, 0, size);
        break; /* its blocks were never written */
    case 2:
        size = 512;
        break; /* the end is missing */
    case 3:
        size = sizeof *st;
        break; /* the workers are missing */
    case 4:
        st->worker_count = UINT32_MAX;
        break;
    case 5:
        st->state = 200;
        break;
    case 6:
        memset(st->slot, 'x', sizeof st->slot);
        break;
    case 7:
        memset(st->tail, 'x', sizeof st->tail);
        break;
    case 8:
        st->version = 99;
        break;
    case 9:
        memset(st->attempt, 0, sizeof st->attempt);
        break;
    case 10:
        st->cause = 99;
        break;
    case 11:
        memset(st, 0xff, size);
        break;
    default:
        fail();
    }
    put_file(path, st, size);
}

enum { DAMAGES = 12 };

static void test_damaged_status(void **state)
{
    (void)state;
    for (int kind = 0; kind < DAMAGES; kind++) {
        struct peer p;
        uint32_t faults;
        char attempt[WIRE_ID_LEN + 1], next[WIRE_ID_LEN + 1];
        random_hex(attempt, WIRE_ID_LEN / 2);
        random_hex(next, WIRE_ID_LEN / 2);
        peer_open(&p, WIRE_OWN, OWNER_A);
        run_to_end(&p, attempt, "s", "true");
        damage(&p, attempt, kind);
        peer_close(&p);

        peer_open(&p, WIRE_OWN, OWNER_A);
        struct wire_record *r = list_for(&p, attempt, &faults);
        assert_true(!r || !wire_record_success(r));
        struct wire_record good = run_to_end(&p, next, "s", "echo yes");
        assert_true(wire_record_success(&good));
        assert_string_equal(output_text(&p), "yes\n");
        r = list_for(&p, next, &faults);
        assert_true(r && wire_record_success(r));
        peer_close(&p);
    }
}

/* ---- identities ---- */

static void test_lost_identities(void **state)
{
    (void)state;
    struct peer p;
    static const char *const files[] = {"home-id", "m/*/install", "m/*/jobs/" JOB "/owner", "m/*/jobs/" JOB "/epoch"};
    static const char *const texts[] = {"", "\0\0\0\0", "0123456789abcdef", "\xff\xff\n"};
    for (size_t f = 0; f < ARRAY_LEN(files); f++) {
        for (size_t t = 0; t < ARRAY_LEN(texts); t++) {
            peer_open(&p, WIRE_OWN, OWNER_A);
            char *install = arena_strdup(p.arena, p.facts.install), *home = arena_strdup(p.arena, p.facts.home_id);
            char *path = base_path(&p, files[f]);
            put_file(path, texts[t], t == 1 ? 4 : strlen(texts[t]));
            char *before = xstrdup(install), *home_before = xstrdup(home), *file = xstrdup(path);
            peer_close(&p);
            peer_start(&p);
            peer_magic(&p);
            send_hello(&p, WIRE_OWN, OWNER_A);
            if (f == 3 && t != 0 && t != 1) { /* an epoch that exists but is invalid is not guessed */
                assert_non_null(strstr(expect_fault(&p), "epoch"));
                assert_int_equal(peer_frame(&p), 0);
                assert_int_equal(peer_wait(&p), 1);
                peer_free(&p);
                assert_int_equal(unlink(file), 0);
            } else {
                expect_hello_ok(&p);
                assert_true(wire_id_valid(p.facts.install) && wire_id_valid(p.facts.home_id));
                assert_int_equal(!str_eq(p.facts.install, before), f == 1); /* another id, so nothing recorded counts */
                assert_int_equal(!str_eq(p.facts.home_id, home_before), f == 0);
                peer_close(&p);
            }
            free(before);
            free(home_before);
            free(file);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_clock_goes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sequence_after_forget, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged_status, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lost_identities, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
