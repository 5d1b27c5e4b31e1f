/*
 * core at scale: 20 set-up steps and a launch on many nodes, in a world (core_world.h) without faults. It prints how
 * long that took, nearly all of it in the core and the state. The number of nodes: RHRUN_SCALE_NODES (10,000 takes a
 * second or two).
 */
#include "core_world.h"
#include "sim_made_up.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

enum { STEPS = 20 };

static uint32_t nodes = 200;

static struct spec *make_spec(struct arena *arena)
{
    struct spec *spec = arena_alloc(arena, sizeof *spec);
    struct spec_host *hosts = arena_array(arena, nodes, sizeof *hosts);
    struct spec_step *setup = arena_array(arena, STEPS, sizeof *setup);
    *spec = made_up_spec(arena, hosts, nodes);
    spec->setup = setup;
    spec->setup_count = STEPS;
    for (uint32_t i = 0; i < STEPS; i++)
        setup[i] = (struct spec_step){.name = arena_printf(arena, "step%u", i),
                                      .run = {.text = arena_printf(arena, "make %u", i)}};
    return spec;
}

static void test_many_nodes(void **unused)
{
    static const struct world_watch watch = {0};
    struct arena *arena = arena_create();
    struct error err = ERROR_INIT;
    struct plan *plan = NULL;
    struct rusage use;
    (void)unused;
    struct spec *spec = make_spec(arena);
    if (plan_compile(spec, roster_create(spec, arena), step_kinds, NULL, NULL, arena, &plan, &err) < 0)
        fail_msg("%s", err.text);
    struct world *w = world_create(plan, 1, &watch, NULL);
    uint64_t at = mono_ns();
    assert_int_equal(world_start(w, RUN_EXECUTE, 0, &err), 0);
    while (!world_finished(w))
        assert_true(world_step(w));
    getrusage(RUSAGE_SELF, &use);
    print_message("%u nodes x %d steps and a launch: %.3f s, %llu things happened, %zu events, peak memory %ld MiB\n",
                  nodes, STEPS, (double)(mono_ns() - at) / 1e9, (unsigned long long)w->steps, w->journal_count,
                  use.ru_maxrss / 1024);
    assert_int_equal(world_end(w).exit_status, 0);
    assert_int_equal(w->start_count, (size_t)nodes * (STEPS + 1));
    world_destroy(w);
    arena_destroy(arena);
}

int main(void)
{
    const char *text = getenv("RHRUN_SCALE_NODES");
    if (text && !parse_u32(text, &nodes))
        return 2;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_many_nodes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
