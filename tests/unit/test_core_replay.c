/* Traced runs (RHRUN_TEST_TRACE, src/run/trace.h), played on a core alone. Each fixture is a trace from
 * scripts/record-traces. With file names as arguments it plays these instead. */
#include "core_replay.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

static bool play(const char *path, size_t *ret_parts, size_t *ret_ended)
{
    struct buf text = {0};
    struct error err = ERROR_INIT;
    struct replay p;
    if (file_read(path, 64 << 20, &text, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return false;
    }
    bool good = replay_text(path, text.data ? text.data : "", &p);
    *ret_parts = p.parts;
    *ret_ended = p.ended;
    replay_free(&p);
    buf_free(&text);
    return good;
}

static void plays(const char *name, size_t parts, size_t ended)
{
    char path[4096];
    size_t got_parts = 0, got_ended = 0;
    snprintf(path, sizeof path, "%s/trace/%s", FIXTURES, name);
    if (!play(path, &got_parts, &got_ended))
        fail_msg("%s is not taken again", name);
    assert_int_equal(got_parts, parts);
    assert_int_equal(got_ended, ended);
}

/* kill -9 during set-up of a node, and the run that resumes. */
static void test_crash_in_setup(void **unused)
{
    (void)unused;
    plays("crash-in-setup.trace", 2, 1);
}

/* torchrun on MIN:MAX nodes: one is lost during the run and given up; the other finishes well. */
static void test_lost_node(void **unused)
{
    (void)unused;
    plays("lost-node.trace", 1, 1);
}

/* Ctrl-C while a node is away; then `rhrun cancel`, which reaches it. */
static void test_cancel_away(void **unused)
{
    (void)unused;
    plays("cancel-away.trace", 2, 2);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_crash_in_setup), cmocka_unit_test(test_lost_node),
                                       cmocka_unit_test(test_cancel_away)};
    size_t parts, ended;
    bool good = true;
    for (int i = 1; i < argc; i++) {
        bool same = play(argv[i], &parts, &ended);
        printf("%s: %s\n", argv[i], same ? "the same" : "another way");
        good = good && same;
    }
    if (argc > 1)
        return good ? 0 : 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
