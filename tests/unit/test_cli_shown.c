/* The record of how far a run was shown: believed if it is whole, ignored otherwise. */
#include "../../src/cli/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const char first[] = "00000000000000000000000000000001", second[] = "00000000000000000000000000000002";

static struct journal *job(char **ret_file)
{
    char home[] = "/tmp/rhrun-shown-XXXXXX";
    struct journal *j;
    struct error err = ERROR_INIT;
    assert_non_null(mkdtemp(home));
    setenv("RHRUN_HOME", home, 1);
    if (journal_open(NULL, "job", "/x/job.yaml", "me@here", &j, &err) < 0)
        fail_msg("%s", err.text);
    CLEANUP(cleanup_free) char *dir = journal_run_dir(j, "run", &err);
    *ret_file = xasprintf("%s/shown", dir);
    return j;
}

static void end(struct journal *j, char *file)
{
    journal_close(j);
    CLEANUP(cleanup_free) char *remove = xasprintf("rm -rf '%s'", getenv("RHRUN_HOME"));
    assert_int_equal(system(remove), 0);
    free(file);
}

static void save(struct shown *s)
{
    shown_freeze(s);
    shown_save(s);
}

static void expect(const struct shown *s, const char *attempt, uint64_t from, uint64_t to)
{
    const struct shown_place *p = shown_find(s, attempt);
    assert_non_null(p);
    assert_int_equal(p->from, from);
    assert_int_equal(p->to, to);
}

static void test_kept(void **unused)
{
    (void)unused;
    char *file;
    struct stat st;
    struct journal *j = job(&file);
    struct shown *s = shown_open(j, "run", false);
    assert_null(shown_find(s, first));
    assert_int_equal(s->lines, 0);
    shown_set(s, second, 3, 4);
    shown_set(s, first, 1, 2);
    shown_set(s, second, 5, 1ull << 40);
    s->lines = 7;
    s->events = 8;
    save(s);
    shown_set(s, first, 9, 9); /* not saved */
    shown_close(s);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);

    s = shown_open(j, "run", false);
    expect(s, first, 1, 2);
    expect(s, second, 5, 1ull << 40);
    assert_int_equal(s->lines, 7);
    assert_int_equal(s->events, 8);
    assert_true(s->at_ms > 0);
    shown_close(s);
    s = shown_open(j, "run", true);
    assert_int_equal(s->count, 0);
    shown_close(s);
    s = shown_open(j, "other", false);
    assert_int_equal(s->count, 0);
    save(s); /* the folder does not exist: nothing is saved, and nothing is reported */
    shown_close(s);
    shown_close(NULL);
    end(j, file);
}

static void test_many(void **unused)
{
    (void)unused;
    enum { COUNT = 10000 };
    char *file, attempt[WIRE_ID_LEN + 1];
    struct journal *j = job(&file);
    struct shown *s = shown_open(j, "run", false);
    for (unsigned i = 0; i < 2 * COUNT; i++) {
        snprintf(attempt, sizeof attempt, "%032x", i % COUNT * 2654435761u);
        shown_set(s, attempt, i, i);
    }
    assert_int_equal(s->count, COUNT);
    save(s);
    shown_close(s);
    s = shown_open(j, "run", false);
    assert_int_equal(s->count, COUNT);
    for (unsigned i = 0; i < COUNT; i++) {
        snprintf(attempt, sizeof attempt, "%032x", i * 2654435761u);
        expect(s, attempt, COUNT + i, COUNT + i);
    }
    shown_close(s);
    end(j, file);
}

/* With any byte changed, or any end missing: as if nothing had been shown. */
static void test_damaged(void **unused)
{
    (void)unused;
    char *file;
    struct buf whole = {0};
    struct journal *j = job(&file);
    struct shown *s = shown_open(j, "run", false);
    shown_set(s, first, 1, 2);
    s->lines = s->events = 5;
    save(s);
    shown_close(s);
    assert_int_equal(file_read(file, 4096, &whole, NULL), 0);
    for (size_t i = 0; i < 2 * whole.len; i++) {
        struct buf bad = {0};
        buf_append(&bad, whole.data, i < whole.len ? i : whole.len);
        if (i >= whole.len)
            bad.data[i - whole.len] ^= 1;
        assert_int_equal(file_write_atomic(file, bad.data, bad.len, 0600, NULL), 0);
        s = shown_open(j, "run", false);
        assert_true(s->count == 0 && s->lines == 0 && s->events == 0 && s->at_ms == 0);
        shown_close(s);
        buf_free(&bad);
    }
    buf_free(&whole);
    end(j, file);
}

/* A file with a right digest and senseless content is not believed either. */
static void test_nonsense(void **unused)
{
    (void)unused;
    static const char *const lines[] = {"rhrun-shown 2\n",
                                        "rhrun-shown 1\nlines -1\n",
                                        "rhrun-shown 1\nwords 1\n",
                                        "rhrun-shown 1\n00000000000000000000000000000001 5 4\n",
                                        "rhrun-shown 1\n../../../../../../../../../../../x 1 2\n",
                                        "rhrun-shown 1\n00000000000000000000000000000001 1\n"};
    char *file, digest[65];
    struct journal *j = job(&file);
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        digest_sha256_hex(lines[i], strlen(lines[i]), digest);
        CLEANUP(cleanup_free) char *text = xasprintf("%s%s\n", lines[i], digest);
        assert_int_equal(file_write_atomic(file, text, strlen(text), 0600, NULL), 0);
        struct shown *s = shown_open(j, "run", false);
        assert_int_equal(s->count, 0);
        shown_close(s);
    }
    end(j, file);
}

/* The reader is gone: the state of the last second is not kept. */
static void test_step_back(void **unused)
{
    (void)unused;
    char *file;
    struct journal *j = job(&file);
    struct shown *s = shown_open(j, "run", false);
    shown_set(s, first, 1, 1);
    save(s);
    shown_set(s, first, 2, 2);
    save(s);
    shown_step_back(s);
    shown_close(s);
    s = shown_open(j, "run", false);
    expect(s, first, 1, 1);
    shown_step_back(s); /* this one has shown nothing */
    shown_close(s);
    s = shown_open(j, "run", false);
    expect(s, first, 1, 1);
    shown_set(s, first, 2, 2);
    save(s);
    s->saved_ms -= 1000; /* a second later */
    shown_step_back(s);
    shown_close(s);
    s = shown_open(j, "run", false);
    expect(s, first, 2, 2);
    shown_close(s);
    end(j, file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept),     cmocka_unit_test(test_many),      cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_nonsense), cmocka_unit_test(test_step_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
