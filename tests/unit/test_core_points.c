/*
 * Sweeps under random faults, in worlds of their own (core_world.h). The invariants: a point whose program ended well,
 * unharmed, runs no second time; a node has no more points at a time than it has places; no point runs twice at a time;
 * and after enough runs all points are done. For points on several nodes also: all parts of a launch are in one event,
 * each on a node of its own; a part is stopped only where another one did not end well, and then it is; a point is done
 * when all parts of one launch have ended well. The state directory may be lost: a whole launch on the nodes counts.
 * Outputs come home after the launch, and a point that has failed for good is not tried again because its outputs
 * cannot come.
 */
#include "core_random.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    SEEDS = 3000,
    POINTS_MAX = 12,
    NODES_MAX = 4,
    CONTROLLERS_MAX = 80,
    STEPS_MAX = 200000,
    HOUR_MS = 3600000,
    LONG_MS = 600000 /* the length of a part that is stopped earlier */
};

struct fate {                  /* of a point */
    char launch[WORLD_LAUNCH]; /* the latest */
    uint32_t begun, good;      /* parts of it */
    unsigned where;            /* the bits of their nodes */
    bool failed;               /* one of its parts ended badly */
    uint64_t failed_us;
    uint32_t failed_under;                      /* the controller at that time */
    uint32_t starts, failures, wanted_failures; /* launches */
    char run[17];
    uint32_t recorded_failures; /* in the run, by the journal; of points on one node */
    bool done;                  /* its program has ended well */
    bool excused; /* its node restarted, was lost or replaced, or rhrun was told to stop: it may run again */
};
struct sweep {
    struct arena *arena;
    struct spec spec;
    struct spec_host hosts[NODES_MAX];
    struct spec_step setup;
    struct spec_sweep sweep;
    struct spec_point points[POINTS_MAX];
    struct spec_output output;
    struct fate fates[POINTS_MAX];
    struct plan *plan;
    struct world *world;
    uint64_t rng, seed;
    uint32_t faults, controllers;
    bool killed_only; /* no fault but kill -9 and cut connections */
    char violation[200];
    struct buf log;
};

static void FORMAT(2, 3) violate(struct sweep *s, const char *fmt, ...)
{
    va_list ap;
    if (s->violation[0])
        return;
    va_start(ap, fmt);
    vsnprintf(s->violation, sizeof s->violation, fmt, ap);
    va_end(ap);
}

static bool violated(void *arg, const char *what)
{
    violate(arg, "%s", what);
    return true;
}

static struct fate *fate_of(struct sweep *s, const struct plan_step *step)
{
    const bool launch = step->kind->phase == PHASE_POINT && s->plan->points[step->point].launch == step->id;
    return launch ? &s->fates[step->point] : NULL;
}

static uint32_t parts_of(const struct sweep *s)
{
    return s->spec.distributed.present ? s->spec.distributed.nnodes : 1;
}

static bool is_first(const struct world_record *r)
{
    return !r->launch[0] || strcmp(r->attempt, r->launch) == 0;
}

/* In a launch that is to fail, either the first part fails, or all others do; the rest would run for long. */
static void program(void *arg, const struct world_node *n, const struct world_record *r, struct world_program *ret)
{
    struct sweep *s = arg;
    struct fate *f = fate_of(s, r->step);
    (void)n;
    *ret = (struct world_program){
        .ms = 1 + (uint32_t)(world_mix(s->seed, r->step->id) % 3000), .cause = WIRE_CAUSE_NONE, .tail = ""};
    if (!f || f->failures >= f->wanted_failures)
        return;
    if (parts_of(s) == 1 || is_first(r) == (r->launch[0] % 2 == 0)) {
        ret->cause = WIRE_CAUSE_EXIT;
        ret->value = 3;
    } else {
        ret->ms = LONG_MS;
    }
}

static bool lives(const struct world_record *r)
{
    return r->state == WIRE_STATE_CLAIMED;
}

static void check_room(struct sweep *s)
{
    uint32_t of[POINTS_MAX] = {0}, all = 0;
    for (uint32_t n = 0; n < s->world->node_count; n++) {
        uint32_t here = 0;
        for (size_t i = 0; i < s->world->nodes[n].record_count; i++) {
            const struct world_record *r = &s->world->nodes[n].records[i];
            if (!lives(r) || !fate_of(s, r->step))
                continue;
            here++;
            of[r->step->point] += !r->stopped;
            if (!r->stopped && !s->fates[r->step->point].excused &&
                strcmp(r->launch, s->fates[r->step->point].launch) != 0)
                violate(s, "parts of two launches of point %u run at a time", r->step->point);
        }
        all += here;
        if (here > s->sweep.per_node)
            violate(s, "node %u has %u points at a time", n, here);
    }
    for (uint32_t i = 0; i < s->sweep.point_count; i++)
        if (of[i] > parts_of(s) && !s->fates[i].excused)
            violate(s, "point %u runs %u times at a time", i, of[i]);
    if (s->sweep.max_parallel && all > s->sweep.max_parallel * parts_of(s) && s->killed_only)
        violate(s, "%u points at a time", all);
}

static void launch_begins(struct sweep *s, uint32_t i, const char *launch)
{
    struct fate *f = &s->fates[i];
    if (f->done && !f->excused)
        violate(s, "point %u was done, and begins once more", i);
    if (f->starts > f->failures && !f->excused)
        violate(s, "point %u begins once more, and nothing had become of it", i);
    f->starts++;
    f->done = f->failed = false;
    f->begun = f->good = f->where = 0;
    snprintf(f->launch, sizeof f->launch, "%s", launch);
}

static void started(void *arg, const struct world_node *n, const struct world_record *r)
{
    struct sweep *s = arg;
    struct fate *f = fate_of(s, r->step);
    if (!f)
        return;
    if (parts_of(s) == 1 || strcmp(f->launch, r->launch) != 0)
        launch_begins(s, r->step->point, r->launch);
    if (++f->begun > parts_of(s) || f->where >> n->index & 1)
        violate(s, "part %u of a launch of point %u begins on node %u", f->begun, r->step->point, n->index);
    f->where |= 1u << n->index;
    check_room(s);
}

static void ended(void *arg, const struct world_node *n, const struct world_record *r)
{
    struct sweep *s = arg;
    struct fate *f = fate_of(s, r->step);
    (void)n;
    if (!f || strcmp(f->launch, r->launch) != 0)
        return;
    if (r->program.cause == WIRE_CAUSE_NONE && !r->stopped) {
        if (s->world->hands && f->failed && f->failed_under == s->controllers &&
            s->world->now_us - f->failed_us > LONG_MS / 2 * 1000ull && !f->excused)
            violate(s, "a part of point %u has failed, and another one was not stopped", r->step->point);
        f->done = ++f->good == parts_of(s);
        return;
    }
    if (r->stopped && !f->failed && !f->excused)
        violate(s, "point %u was stopped, and nothing of it had failed", r->step->point);
    if (!f->failed) {
        f->failures++;
        f->failed_us = s->world->now_us;
        f->failed_under = s->world->hands ? s->controllers : UINT32_MAX;
    }
    f->failed = true;
}

static uint32_t point_of(const struct sweep *s, const char *step)
{
    uint32_t i = 0;
    while (i < s->sweep.point_count && !str_ends(step, s->points[i].id))
        i++;
    return i;
}

static void check_tries(struct sweep *s, const struct event *e)
{
    const char *step = e->type == EVENT_STARTED    ? e->started.attempts[0].step
                       : e->type == EVENT_FINISHED ? e->finished.step
                                                   : "";
    struct fate *f = str_starts(step, "point:") && parts_of(s) == 1 ? &s->fates[point_of(s, step)] : NULL;
    const uint32_t most = s->spec.distributed.present ? s->spec.distributed.max_restarts : 0;
    if (f && strcmp(f->run, e->run) != 0)
        f->recorded_failures = 0;
    if (f)
        snprintf(f->run, sizeof f->run, "%s", e->run);
    if (f && e->type == EVENT_FINISHED)
        f->recorded_failures += e->finished.outcome == OUTCOME_FAILED;
    if (f && e->type == EVENT_STARTED && f->recorded_failures > most)
        violate(s, "%s begins once more, and has failed for good", step);
}

/* All parts of a launch are in one event, whichever controller began it. */
static void durable(void *arg, const struct event *e)
{
    struct sweep *s = arg;
    check_tries(s, e);
    const struct event_attempt *first = e->type == EVENT_STARTED ? &e->started.attempts[0] : NULL;
    if (first && str_starts(first->step, "point:") && e->started.attempt_count != parts_of(s))
        violate(s, "%u parts of %s begin", e->started.attempt_count, first->step);
}

static enum fetch_end fetched(void *arg, const struct world_node *n, const struct plan_step *step, bool periodic)
{
    struct sweep *s = arg;
    const struct plan_point *p = &s->plan->points[step->point];
    for (size_t i = 0; i < n->record_count; i++)
        if (lives(&n->records[i]) && n->records[i].step->id == p->launch)
            violate(s, "files of point %u come home while it runs on node %u", step->point, n->index);
    return periodic || !s->faults || world_random(&s->rng) % 40 ? FETCH_DONE : (s->faults--, FETCH_BROKEN);
}

/* Programs that ran on the node, or whose work was not on its disk, may run again. */
static void excuse(struct sweep *s, uint32_t node)
{
    const struct world_node *n = &s->world->nodes[node];
    for (size_t i = 0; i < n->record_count; i++)
        if (fate_of(s, n->records[i].step))
            fate_of(s, n->records[i].step)->excused = true;
}

static void excuse_all(struct sweep *s)
{
    for (uint32_t i = 0; i < s->sweep.point_count; i++)
        s->fates[i].excused = true;
}

static bool fault(struct sweep *s, unsigned one_in)
{
    if (!s->faults || world_random(&s->rng) % one_in)
        return false;
    s->faults--;
    return true;
}

static void accident(struct sweep *s)
{
    struct world *w = s->world;
    const uint32_t node = (uint32_t)(world_random(&s->rng) % w->node_count);
    const unsigned kind = (unsigned)(world_random(&s->rng) % 100);
    const uint64_t more = world_random(&s->rng);
    if (kind < 40 || s->killed_only) {
        world_cut(w, node, kind < 10);
    } else if (kind < 60) { /* perhaps for longer than rhrun waits */
        excuse_all(s);
        world_away(w, node, more % (more & 1 << 20 ? 5000 : 120000));
    } else if (kind < 75) {
        excuse_all(s); /* also requests on the way there */
        world_reboot(w, node, more);
    } else if (kind < 85) {
        excuse_all(s);
        world_reinstall(w, node);
    } else {
        excuse_all(s);
        excuse(s, node);
        world_lose(w, node);
    }
}

static bool is_done(const struct sweep *s)
{
    struct state *state = world_replay(s->world);
    bool done = !state_run_open(state);
    for (uint32_t i = 0; i < s->plan->point_count && done; i++)
        done = run_point_recorded(state, s->plan, i);
    state_destroy(state);
    return done;
}

/* A whole launch on the nodes is not repeated. */
static void forget(struct sweep *s)
{
    if (!s->killed_only || s->seed % 7 > 2 || !fault(s, 20))
        return;
    world_say(s->world, "  the state directory is lost");
    world_forget(s->world);
    for (uint32_t i = 0; i < s->sweep.point_count; i++) {
        struct fate *f = &s->fates[i];
        f->excused = f->excused || f->begun < parts_of(s) || f->failed;
        f->recorded_failures = 0;
    }
}

static bool begin(struct sweep *s)
{
    struct error err = ERROR_INIT;
    forget(s);
    if (is_done(s))
        return false;
    if (++s->controllers > CONTROLLERS_MAX) {
        violate(s, "not done after %u controllers", s->controllers);
        return false;
    }
    if (world_start(s->world, RUN_EXECUTE, 0, &err) < 0)
        violate(s, "could not start: %s", err.text);
    return !s->violation[0];
}

static void end(struct sweep *s)
{
    const struct run_result res = world_end(s->world);
    world_reach_all(s->world);
    world_say(s->world, "exit status %d: %s", res.exit_status, res.error.text);
    if ((res.exit_status == 0) != (res.status == RUN_DONE) || (res.exit_status && !res.error.text[0]))
        violate(s, "exit status %d does not fit run status %d", res.exit_status, res.status);
    if (res.status == RUN_DONE && !is_done(s))
        violate(s, "the run is done, and its points are not");
}

static bool step(struct sweep *s)
{
    struct world *w = s->world;
    if (s->violation[0] || (!w->hands && !begin(s)))
        return false;
    if (world_finished(w)) {
        end(s);
        return true;
    }
    if (fault(s, 40))
        accident(s);
    if (fault(s, 10)) {
        world_kill(w, world_random(&s->rng));
        for (uint64_t n = world_random(&s->rng) % 16; n > 0 && world_step(w); n--)
            ;
        return true;
    }
    if (!s->killed_only && fault(s, 200)) {
        excuse_all(s);
        run_interrupt(world_run(w), SIGINT);
    }
    if (!world_step(w))
        violate(s, "the controller waits for nothing");
    if (w->steps > STEPS_MAX || w->now_us / 1000 > HOUR_MS * 10ull)
        violate(s, "it comes to no end");
    return true;
}

static void make_spec(struct sweep *s, uint64_t *rng)
{
    const uint32_t nodes = 1 + (uint32_t)(world_random(rng) % NODES_MAX);
    s->spec = made_up_spec(s->arena, s->hosts, nodes);
    s->setup = (struct spec_step){.name = "one", .run = {.text = "make"}, .on = ON_ALL, .retry_backoff_ms = 100};
    s->spec.setup = &s->setup;
    s->spec.setup_count = world_random(rng) % 2;
    s->spec.distributed.present = world_random(rng) % 3 == 0;
    s->spec.distributed.nnodes = s->spec.distributed.min_nodes = 1;
    s->spec.distributed.max_restarts = (uint32_t)(world_random(rng) % 2);
    s->sweep = (struct spec_sweep){.points = s->points,
                                   .point_count = 1 + world_random(rng) % POINTS_MAX,
                                   .per_node = 1 + (uint32_t)(world_random(rng) % 3),
                                   .max_parallel = (uint32_t)(world_random(rng) % 4)};
    if (nodes > 1 && s->seed % 5 < 3) {
        s->spec.distributed.present = true;
        s->spec.distributed.nnodes = s->spec.distributed.min_nodes =
            2 + (uint32_t)(world_mix(s->seed, 5) % (nodes - 1));
        s->sweep.per_node = 1;
    }
    for (uint32_t i = 0; i < s->sweep.point_count; i++) {
        s->points[i] = (struct spec_point){.name = arena_printf(s->arena, "i=%u", i),
                                           .id = arena_printf(s->arena, "%012u", i),
                                           .variant = s->spec.variant,
                                           .index = i,
                                           .params = s->spec.params,
                                           .param_count = s->spec.param_count,
                                           .params_json = "{}"};
        s->fates[i].wanted_failures = world_random(rng) % 4 == 0 ? 1 + (uint32_t)(world_random(rng) % 2) : 0;
    }
    s->output = (struct spec_output){.name = "outputs-1", .from.text = "out/", .to.text = "results"};
    s->output.on = s->seed % 11 < 3 ? ON_FIRST : ON_ALL;
    s->output.when = s->seed % 13 < 6 ? WHEN_ALWAYS : WHEN_SUCCESS;
    s->spec.outputs = &s->output;
    s->spec.output_count = s->seed % 4 < 2;
    s->spec.sweep = &s->sweep;
}

static bool passes(uint64_t seed, bool verbose)
{
    static const struct world_watch watch = {.program = program,
                                             .started = started,
                                             .ended = ended,
                                             .durable = durable,
                                             .fetched = fetched,
                                             .violated = violated};
    struct sweep *s = xcalloc(1, sizeof *s);
    struct error err = ERROR_INIT;
    uint64_t rng = world_mix(seed, 2);
    s->seed = seed;
    s->rng = world_mix(seed, 3);
    s->arena = arena_create();
    s->faults = (uint32_t)(world_random(&rng) % 25);
    s->killed_only = seed % 2;
    make_spec(s, &rng);
    if (plan_compile(&s->spec, roster_create(&s->spec, s->arena), step_kinds, NULL, NULL, s->arena, &s->plan, &err) < 0)
        fail_msg("%s", err.text);
    s->world = world_create(s->plan, seed, &watch, s);
    s->world->options.reconnect_ms = 60000;
    if (verbose)
        s->world->log = &s->log;
    while (step(s))
        ;
    if (verbose)
        fprintf(stderr, "seed %llu\n%s", (unsigned long long)seed, s->log.data ? s->log.data : "");
    const bool good = !s->violation[0];
    if (!good)
        fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed, s->violation);
    world_destroy(s->world);
    arena_destroy(s->arena);
    buf_free(&s->log);
    free(s);
    return good;
}

static void test_random_sweeps(void **unused)
{
    const uint64_t first = seeds_first(), count = seeds_count(SEEDS);
    const bool verbose = getenv("RHRUN_RANDOM_VERBOSE");
    uint64_t bad = 0;
    (void)unused;
    for (uint64_t seed = first; seed < first + count; seed++)
        if (!passes(seed, verbose) && bad++ == 0 && !verbose)
            passes(seed, true);
    if (bad)
        fail_msg("%llu of %llu sweeps", (unsigned long long)bad, (unsigned long long)count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_sweeps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
