/* run: the options of a run, from the journal's state to a command line for the shell. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rhrun/run.h"

static const char *const sets[] = {"env.A=it's \"x\" $y\nz", "b="};
static const struct state_run all = {.on = "me@h1:22,h2",
                                     .sets = sets,
                                     .set_count = 2,
                                     .params_json = "{\"p\":\"1e-3\",\"q\":\"a b\"}",
                                     .args_json = "[\"--x\",\"\",\"*\"]"};

static void test_as_recorded(void **unused)
{
    (void)unused;
    struct arena *arena = arena_create();
    struct spec_overrides o = run_overrides(&all, arena);
    assert_string_equal(o.on, "me@h1:22,h2");
    assert_int_equal(o.set_count, 2);
    assert_string_equal(o.sets[0], sets[0]);
    assert_int_equal(o.param_count, 2);
    assert_string_equal(o.params[0], "p=1e-3");
    assert_string_equal(o.params[1], "q=a b");
    assert_int_equal(o.arg_count, 3);
    assert_string_equal(o.args[1], "");
    assert_string_equal(
        run_command_line("plan", "my job.yaml", &o, arena),
        "rhrun plan 'my job.yaml' --on me@h1:22,h2 --set 'env.A=it'\\''s \"x\" $y\nz' --set b= -p p=1e-3 "
        "-p 'q=a b' -- --x '' '*'");
    arena_destroy(arena);
}

/* No options were given, or the journal is too old to have them, or damaged. */
static void test_nothing(void **unused)
{
    (void)unused;
    static const struct state_run runs[] = {{.params_json = "{}", .args_json = "[]"},
                                            {.id = "r"},
                                            {.params_json = "{\"p\":", .args_json = "["},
                                            {.params_json = "[\"p\"]", .args_json = "{\"p\":1}"}};
    struct arena *arena = arena_create();
    for (size_t i = 0; i < ARRAY_LEN(runs); i++) {
        struct spec_overrides o = run_overrides(&runs[i], arena);
        assert_true(!o.on && o.set_count == 0 && o.param_count == 0 && o.arg_count == 0);
        assert_string_equal(run_command_line(NULL, "a.yaml", &o, arena), "rhrun a.yaml");
    }
    arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_recorded), cmocka_unit_test(test_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
