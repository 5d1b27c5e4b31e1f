/* roster: the hosts of a spec, in its order. */
#include "rhrun/roster.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void test_each_node_has_the_spec_s_host(void **state)
{
    (void)state;
    struct arena *arena = arena_create();
    struct spec_host hosts[] = {{.name = "a", .host = "10.0.0.1"}, {.name = "me@b", .host = "b"}, {.name = "spare"}};
    const struct spec spec = {.placement = PLACEMENT_HOSTS, .hosts = hosts, .host_count = 3, .nnodes = 2};
    const struct roster *r = roster_create(&spec, arena);
    assert_int_equal(roster_count(r), 3); /* hosts without a node are known all the same */
    assert_string_equal(roster_name(r, 0), "a");
    assert_string_equal(roster_host(r, 0)->host, "10.0.0.1");
    assert_string_equal(roster_name(r, 1), "me@b");
    assert_string_equal(roster_name(r, 2), "spare");
    arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_node_has_the_spec_s_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
