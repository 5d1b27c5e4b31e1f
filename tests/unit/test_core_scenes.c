/*
 * Scenes on the core alone, in a world (core_world.h) where nothing happens by chance: two nodes, a step of set-up that
 * creates a file, a prolog and a launch on both. Each is of a decision that stood in memory alone, or was made too early.
 */
#include "core_world.h"
#include "sim_made_up.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { NODES = 2, STEPS_MAX = 20000, PROGRAM_MS = 1000 };

struct scene {
    struct arena *arena;
    struct spec spec;
    struct spec_host hosts[NODES];
    struct spec_step setup;
    struct plan *plan;
    struct world *world;
    bool unmade; /* a launch began on a node where what set-up creates is not there */
};

/* All ends well; after a while, so that there is time for what is to happen meanwhile. Node 1's prolog ends before node
 * 0's. */
static void program(void *arg, const struct world_node *n, const struct world_record *r, struct world_program *ret)
{
    (void)arg;
    bool soon = n->index == 1 && r->step->kind->phase == PHASE_PROLOG;
    *ret = (struct world_program){.ms = soon ? PROGRAM_MS / 2 : PROGRAM_MS, .tail = ""};
}

static void started(void *arg, const struct world_node *n, const struct world_record *r)
{
    struct scene *s = arg;
    s->unmade = s->unmade || (r->step->kind->phase == PHASE_LAUNCH && !n->made[0]);
}

static struct scene *begin(void)
{
    static const struct world_watch watch = {.program = program, .started = started};
    struct scene *s = xcalloc(1, sizeof *s);
    struct error err = ERROR_INIT;
    s->arena = arena_create();
    s->setup = (struct spec_step){.name = "deps", .run = {.text = "make"}, .creates = {.text = "made/deps"}};
    s->spec = made_up_spec(s->arena, s->hosts, NODES);
    s->spec.setup = &s->setup;
    s->spec.setup_count = 1;
    s->spec.distributed.max_restarts = 1;
    s->spec.entrypoint.prolog.text = "before";
    if (plan_compile(&s->spec, roster_create(&s->spec, s->arena), step_kinds, NULL, NULL, s->arena, &s->plan, &err) < 0)
        fail_msg("%s", err.text);
    s->world = world_create(s->plan, 1, &watch, s);
    return s;
}

static void end(struct scene *s)
{
    world_destroy(s->world);
    arena_destroy(s->arena);
    free(s);
}

static void start(struct scene *s)
{
    struct error err = ERROR_INIT;
    assert_int_equal(world_start(s->world, RUN_EXECUTE, 0, &err), 0);
}

static void until(struct scene *s, bool (*so)(const struct scene *s))
{
    for (unsigned i = 0; !so(s); i++)
        assert_true(i < STEPS_MAX && !world_finished(s->world) && world_step(s->world));
}

/* To the end of the controller at hand: exit status. */
static int finish(struct scene *s)
{
    for (unsigned i = 0; !world_finished(s->world); i++)
        assert_true(i < STEPS_MAX && world_step(s->world));
    return world_end(s->world).exit_status;
}

/* kill -9, and all that it decided is in the journal. */
static void kill_it(struct scene *s)
{
    world_kill(s->world, s->world->journal_count - s->world->hands->durable);
}

static uint32_t starts(const struct scene *s, const char *step, uint32_t node)
{
    uint32_t count = 0;
    for (size_t i = 0; i < s->world->start_count; i++)
        count += s->world->starts[i].node == node && str_eq(s->world->starts[i].step->name, step);
    return count;
}

static bool launch_runs(const struct scene *s)
{
    return starts(s, "launch", 0) == 1 && starts(s, "launch", 1) == 1 && world_live(s->world) == NODES;
}

static bool knows_launch(const struct scene *s)
{
    return world_run(s->world)->stage == STAGE_LAUNCH;
}

/* The state directory is lost while a launch runs, and the next controller attaches to it: its parts are that one's from
 * then on, whoever comes after it. One that dies is a part that failed, and no part that had not begun. */
static void test_what_was_attached_to_is_recorded(void **unused)
{
    (void)unused;
    struct scene *s = begin();
    start(s);
    until(s, launch_runs);
    kill_it(s);
    world_forget(s->world);
    start(s);
    until(s, knows_launch);
    kill_it(s);
    world_lose(s->world, 1);
    start(s);
    assert_int_equal(finish(s), 0);
    assert_int_equal(starts(s, "launch", 0), 2); /* they started again together */
    assert_int_equal(starts(s, "launch", 1), 2);
    struct state *state = world_replay(s->world);
    assert_int_equal(state_run_latest(state, NULL)->restarts, 1);
    state_destroy(state);
    end(s);
}

static bool node_1_waits(const struct scene *s)
{
    struct run *r = world_run(s->world);
    return r->stage == STAGE_PROLOG && run_task(r, &s->plan->steps[1], 1)->state == TASK_DONE;
}

/* The connection to a node is lost before a generation begins, and so is what set-up created there: the generation waits
 * for the node, however far it is in coming back, and set-up is done again first. */
static void test_a_generation_waits_for_who_is_away(void **unused)
{
    (void)unused;
    for (uint64_t ms = 0; ms < PROGRAM_MS; ms += 7) {
        struct scene *s = begin();
        start(s);
        until(s, node_1_waits);
        world_unmake(s->world, 1, 0);
        world_away(s->world, 1, ms);
        assert_int_equal(finish(s), 0);
        assert_int_equal(starts(s, "launch", 1), 1);
        assert_int_equal(starts(s, "deps", 1), 2);
        assert_false(s->unmade);
        end(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_attached_to_is_recorded),
        cmocka_unit_test(test_a_generation_waits_for_who_is_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
