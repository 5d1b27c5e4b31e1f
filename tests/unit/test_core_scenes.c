/*
 * Scenes on the core alone, in a world (core_world.h) without chance: two nodes, a set-up step that creates a file, a
 * prolog and a launch on both. Each scene has a decision that was once in memory only, or made too early.
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
    struct spec_rule rules[2];
    struct spec_output output;
    struct plan *plan;
    struct world *world;
    bool emptied;   /* the files of the launch on node 1 are gone */
    bool slow;      /* launches are long enough that a machine can be replaced meanwhile */
    bool preempts;  /* the first launch on node 1 ends because the machine was told to end */
    bool breaks;    /* periodic outputs break off */
    unsigned saved; /* how often its periodic outputs were requested on node 1 */
    bool unmade;    /* a launch began on a node without the files that set-up creates */
};

/* All end well, after a while, so that there is time for events meanwhile. Node 1's prolog ends before node 0's; in
 * scenes that rent, its launch does too. */
static void program(void *arg, const struct world_node *n, const struct world_record *r, struct world_program *ret)
{
    const struct scene *s = arg;
    bool soon = n->index == 1 && (r->step->kind->phase == PHASE_PROLOG || s->spec.rent);
    *ret = (struct world_program){.ms = soon ? PROGRAM_MS / 2 : PROGRAM_MS, .tail = ""};
    if (s->slow && r->step->kind->phase == PHASE_LAUNCH)
        ret->ms = 300 * PROGRAM_MS;
    if (s->preempts && n->index == 1 && r->step->kind->phase == PHASE_LAUNCH && world_generation(r->launch) == 1)
        *ret = (struct world_program){.ms = PROGRAM_MS / 2, .cause = WIRE_CAUSE_PREEMPTED, .value = 15, .tail = ""};
}

static void started(void *arg, const struct world_node *n, const struct world_record *r)
{
    struct scene *s = arg;
    s->unmade = s->unmade || (r->step->kind->phase == PHASE_LAUNCH && !n->made[0]);
}

/* The files of the launch on node 1 existed only there. */
static enum fetch_end fetched(void *arg, const struct world_node *n, const struct plan_step *step, bool periodic)
{
    struct scene *s = arg;
    (void)step;
    s->saved += periodic && n->index == 1;
    if (periodic && s->breaks)
        return FETCH_BROKEN;
    return n->index == 1 && s->emptied ? FETCH_NOTHING : FETCH_DONE;
}

static struct scene *begin_with(const struct spec_output *output)
{
    static const struct world_watch watch = {.program = program, .started = started, .fetched = fetched};
    struct scene *s = xcalloc(1, sizeof *s);
    struct error err = ERROR_INIT;
    s->arena = arena_create();
    s->setup = (struct spec_step){.name = "deps", .run = {.text = "make"}, .creates = {.text = "made/deps"}};
    s->spec = made_up_spec(s->arena, s->hosts, NODES);
    s->spec.setup = &s->setup;
    s->spec.setup_count = 1;
    s->spec.distributed.max_restarts = 1;
    s->spec.entrypoint.prolog.text = "before";
    if (output) {
        s->output = *output;
        s->spec.outputs = &s->output;
        s->spec.output_count = 1;
    }
    if (plan_compile(&s->spec, roster_create(&s->spec, s->arena), step_kinds, NULL, NULL, s->arena, &s->plan, &err) < 0)
        fail_msg("%s", err.text);
    s->world = world_create(s->plan, 1, &watch, s);
    return s;
}

static struct scene *begin(void)
{
    return begin_with(NULL);
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

/* Until the present controller ends: exit status. */
static int finish(struct scene *s)
{
    for (unsigned i = 0; !world_finished(s->world); i++)
        assert_true(i < STEPS_MAX && world_step(s->world));
    return world_end(s->world).exit_status;
}

/* kill -9; the journal has all its decisions. */
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

/* The state directory is lost during a launch, and the next controller attaches to it: from then on its parts belong to
 * that controller, and to those after it. A part that dies has failed; it is not one that never began. */
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

/* The connection to a node is lost before a generation begins, and with it the files that set-up created there: the
 * generation waits for the node, however late it is, and set-up is done again first. */
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

/* ---- rented machines ---- */

static struct scene *begin_rented(void)
{
    static const struct spec_rent rent = {.instance = "cpu:8"};
    struct scene *s = begin();
    s->spec.rent = &rent;
    s->spec.distributed.max_restarts = 0;
    return s;
}

static bool prolog_runs(const struct scene *s)
{
    return starts(s, "prolog", 0) == 1 && starts(s, "prolog", 1) == 1 && world_live(s->world) == NODES;
}

static bool prolog_ended_on_node_1(const struct scene *s)
{
    struct run *r = world_run(s->world);
    return node_1_waits(s) && state_cell_find(r->state, s->plan->steps[1].scope, "prolog", 1)->outcome == OUTCOME_OK;
}

static bool part_ended_on_node_1(const struct scene *s)
{
    struct run *r = world_run(s->world);
    return run_task(r, &s->plan->steps[2], 1)->state == TASK_DONE;
}

/* The controller is killed, and the machine of node 1 is lost: another one was rented when the next controller starts.
 * Set-up is done there and kept on the other node, and the loss is no failure of the job. */
static void test_a_rented_machine_is_replaced_before_the_next_start(void **unused)
{
    static const struct {
        bool (*until)(const struct scene *s);
        uint32_t prologs[NODES], launches;
    } cases[] = {{prolog_runs, {1, 2}, 1},
                 {prolog_ended_on_node_1, {1, 2}, 1},
                 {launch_runs, {1, 2}, 2},
                 {part_ended_on_node_1, {1, 2}, 2}};
    (void)unused;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct scene *s = begin_rented();
        start(s);
        until(s, cases[i].until);
        kill_it(s);
        world_reinstall(s->world, 1);
        start(s);
        assert_int_equal(finish(s), 0);
        assert_int_equal(starts(s, "deps", 0), 1);
        assert_int_equal(starts(s, "deps", 1), 2);
        assert_false(s->unmade);
        for (uint32_t n = 0; n < NODES; n++) {
            assert_int_equal(starts(s, "prolog", n), cases[i].prologs[n]);
            assert_int_equal(starts(s, "launch", n), cases[i].launches);
        }
        struct state *state = world_replay(s->world);
        assert_int_equal(state_run_latest(state, NULL)->restarts, 0);
        state_destroy(state);
        end(s);
    }
}

static bool node_1_is_heard(const struct scene *s)
{
    return world_run(s->world)->lanes[1].presence == PRESENCE_LISTED;
}

static bool node_1_is_set_up(const struct scene *s)
{
    return world_run(s->world)->lanes[1].state == LANE_BARRIER && world_run(s->world)->stage == STAGE_SETUP;
}

static bool outputs_begin_to_come(const struct scene *s)
{
    return world_run(s->world)->stage == STAGE_OUTPUTS;
}

/* The launch has ended well, and the controller is killed while it fetches outputs. The loss of node 1's outputs with
 * its machine is reported, although node 0 has some. */
static void test_an_output_that_was_lost_with_its_machine(void **unused)
{
    static const struct spec_rent rent = {.instance = "cpu:8"};
    static const struct spec_output output = {
        .name = "outputs-1", .from.text = "out/", .to.text = "here", .when = WHEN_SUCCESS, .on = ON_ALL};
    (void)unused;
    for (unsigned required = 0; required < 2; required++) {
        struct spec_output o = output;
        o.required = required;
        struct scene *s = begin_with(&o);
        s->spec.rent = &rent;
        start(s);
        until(s, outputs_begin_to_come);
        kill_it(s);
        world_reinstall(s->world, 1);
        s->emptied = required;
        start(s);
        assert_int_equal(finish(s), required);
        assert_int_equal(starts(s, "launch", 1), 1);
        struct state *state = world_replay(s->world);
        assert_int_equal(state_run_latest(state, NULL)->status, required ? RUN_FAILED : RUN_DONE);
        state_destroy(state);
        end(s);
    }
}

/* A rule that rents another machine, that many times. */
static struct scene *begin_replacing_with(const struct spec_output *output, enum spec_subject subject, uint32_t times)
{
    static const struct spec_rent rent = {.instance = "cpu:8"};
    struct scene *s = begin_with(output);
    s->spec.rent = &rent;
    s->spec.distributed.max_restarts = 0;
    s->rules[0] = (struct spec_rule){.id = "1",
                                     .text = "rule 1",
                                     .role = SPEC_NO_ROLE,
                                     .subject = subject,
                                     .action = RULE_REPLACE,
                                     .has_times = true,
                                     .times = times};
    s->spec.rules = s->rules;
    s->spec.rule_count = 1;
    return s;
}

static struct scene *begin_replacing(enum spec_subject subject, uint32_t times)
{
    return begin_replacing_with(NULL, subject, times);
}

static uint32_t rule_used(const struct scene *s)
{
    struct state *state = world_replay(s->world);
    const struct state_run *run = state_run_latest(state, NULL);
    const uint32_t used = run->rule_count ? run->rules[0].times : 0;
    assert_int_equal(run->restarts - run->own_restarts, 0);
    state_destroy(state);
    return used;
}

static void assert_replaced(const struct scene *s, uint32_t deps, uint32_t launches)
{
    assert_int_equal(starts(s, "deps", 0), 1); /* its set-up is kept */
    assert_int_equal(starts(s, "deps", 1), deps);
    for (uint32_t n = 0; n < NODES; n++)
        assert_int_equal(starts(s, "launch", n), launches);
    assert_false(s->unmade);
}

static bool node_1_is_given_up(const struct scene *s)
{
    return world_run(s->world)->lanes[1].replacing;
}

static bool node_1_is_back(const struct scene *s)
{
    return world_run(s->world)->lanes[1].presence == PRESENCE_LISTED && !node_1_is_given_up(s);
}

static void test_replace_node(void **unused)
{
    static const struct {
        bool (*until)(const struct scene *s);
        uint32_t deps, launches;
    } cases[] = {{node_1_is_heard, 1, 1}, {node_1_is_set_up, 2, 1}, {launch_runs, 2, 2}};
    (void)unused;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct scene *s = begin_replacing(RULE_NODE_LOST, 1);
        start(s);
        until(s, cases[i].until);
        world_vanish(s->world, 1);
        assert_int_equal(finish(s), 0);
        assert_replaced(s, cases[i].deps, cases[i].launches);
        assert_int_equal(rule_used(s), 1);
        end(s);
    }
}

/* The new machine vanishes too, during set-up; and a node that is away for too long does not count as vanished. */
static void test_replaced_twice(void **unused)
{
    (void)unused;
    struct scene *s = begin_replacing(RULE_NODE_LOST, 2);
    start(s);
    until(s, launch_runs);
    world_vanish(s->world, 1);
    until(s, node_1_is_given_up);
    until(s, node_1_is_back);
    world_away(s->world, 1, 24 * 3600 * 1000);
    assert_int_equal(finish(s), 0);
    assert_int_equal(rule_used(s), 2);
    assert_int_equal(starts(s, "launch", 0), 2);
    end(s);
}

static void test_the_budget_of_replacements(void **unused)
{
    (void)unused;
    struct scene *s = begin_replacing(RULE_NODE_LOST, 1);
    start(s);
    until(s, launch_runs);
    world_vanish(s->world, 1);
    until(s, node_1_is_given_up);
    until(s, node_1_is_back);
    world_vanish(s->world, 1);
    assert_int_equal(finish(s), 3); /* and the run is open */
    world_reinstall(s->world, 1);
    world_reach_all(s->world);
    start(s);
    assert_int_equal(finish(s), 0);
    assert_int_equal(rule_used(s), 1);
    end(s);
}

static bool is_let_go(const struct scene *s)
{
    return world_run(s->world)->ending == ENDING_LET_GO;
}

static void test_no_machine_for_a_node(void **unused)
{
    (void)unused;
    struct scene *s = begin_replacing(RULE_NODE_LOST, 2);
    start(s);
    until(s, launch_runs);
    world_vanish(s->world, 1);
    until(s, node_1_is_given_up);
    world_give_up(s->world, 1);
    until(s, is_let_go);
    core_take(world_run(s->world), &(struct input){.kind = INPUT_VANISHED, .node = 0}); /* meant for the next start */
    assert_int_equal(finish(s), 3);
    assert_int_equal(rule_used(s), 1);
    world_reinstall(s->world, 1);
    world_reach_all(s->world);
    start(s);
    assert_int_equal(finish(s), 0);
    assert_replaced(s, 2, 2);
    end(s);
}

/* The machine of a preempted node still exists: it is given up once, before the next generation. */
static void test_a_preempted_node_is_replaced(void **unused)
{
    (void)unused;
    struct scene *s = begin_replacing(RULE_PREEMPTED, 1);
    s->preempts = true;
    start(s);
    assert_int_equal(finish(s), 0);
    assert_replaced(s, 2, 2);
    assert_int_equal(rule_used(s), 1);
    end(s);
}

static bool node_1_is_saving(const struct scene *s)
{
    return world_run(s->world)->lanes[1].saving == SAVING_ASKED;
}

/* Periodic outputs come once more from a machine that still exists, and delay nothing: if that breaks off, or the
 * machine goes meanwhile, the node is replaced all the same. */
static void test_outputs_of_a_node_that_is_replaced(void **unused)
{
    static const struct spec_output every = {.name = "outputs-1",
                                             .from.text = "out/",
                                             .to.text = "here",
                                             .when = WHEN_SUCCESS,
                                             .on = ON_ALL,
                                             .every_ms = 3600 * 1000};
    (void)unused;
    for (unsigned how = 0; how < 4; how++) {
        struct scene *s = begin_replacing_with(&every, RULE_PREEMPTED, 2);
        s->preempts = true;
        s->breaks = how == 1;
        start(s);
        if (how >= 2)
            until(s, node_1_is_saving);
        if (how == 2)
            world_vanish(s->world, 1);
        if (how == 3) {
            kill_it(s);
            start(s);
        }
        assert_int_equal(finish(s), 0);
        assert_replaced(s, 2, 2);
        assert_in_range(s->saved, how == 2 ? 0 : 1, how == 3 ? 2 : 1);
        end(s);
    }
}

/* kill -9 at each step; the next start replaces the vanished machines. */
static void test_killed_while_a_node_is_replaced(void **unused)
{
    (void)unused;
    for (unsigned preempted = 0; preempted < 2; preempted++)
        for (unsigned steps = 0, over = 0; !over; steps++) {
            struct scene *s = begin_replacing(preempted ? RULE_PREEMPTED : RULE_NODE_LOST, 1);
            s->preempts = preempted;
            start(s);
            until(s, launch_runs);
            if (!preempted)
                world_vanish(s->world, 1);
            for (unsigned i = 0; i < steps && !world_finished(s->world); i++)
                assert_true(world_step(s->world));
            over = world_run(s->world)->stage >= STAGE_CLOSING;
            if (over) {
                assert_int_equal(finish(s), 0);
            } else {
                world_kill(s->world, steps);
                if (s->world->nodes[1].away)
                    world_reinstall(s->world, 1);
                world_reach_all(s->world);
                start(s);
                assert_int_equal(finish(s), 0);
            }
            assert_in_range(starts(s, "launch", 0), 2, 3);
            assert_in_range(starts(s, "deps", 1), 2, 3);
            assert_true(rule_used(s) <= 1);
            assert_int_equal(starts(s, "deps", 0), 1);
            assert_false(s->unmade);
            end(s);
        }
}

/* The others go on, and it joins them. */
static void test_replaced_on_min_max_nodes(void **unused)
{
    (void)unused;
    struct scene *s = begin_replacing(RULE_NODE_LOST, 1);
    s->spec.distributed.min_nodes = 1;
    s->slow = true;
    start(s);
    until(s, launch_runs);
    world_vanish(s->world, 1);
    assert_int_equal(finish(s), 0);
    assert_int_equal(starts(s, "launch", 0), 1);
    assert_int_equal(starts(s, "launch", 1), 2);
    assert_int_equal(starts(s, "deps", 1), 2);
    assert_int_equal(rule_used(s), 1);
    end(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rented_machine_is_replaced_before_the_next_start),
        cmocka_unit_test(test_an_output_that_was_lost_with_its_machine),
        cmocka_unit_test(test_replace_node),
        cmocka_unit_test(test_replaced_twice),
        cmocka_unit_test(test_the_budget_of_replacements),
        cmocka_unit_test(test_no_machine_for_a_node),
        cmocka_unit_test(test_a_preempted_node_is_replaced),
        cmocka_unit_test(test_outputs_of_a_node_that_is_replaced),
        cmocka_unit_test(test_killed_while_a_node_is_replaced),
        cmocka_unit_test(test_replaced_on_min_max_nodes),
        cmocka_unit_test(test_what_was_attached_to_is_recorded),
        cmocka_unit_test(test_a_generation_waits_for_who_is_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
