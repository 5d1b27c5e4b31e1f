/*
 * Memory is only a cache. At moments of a random world (core_random.h) a second core is made from the appended journal
 * and the nodes as they are. Both continue without further faults, and must come to the same end. A difference was
 * decided in memory alone, and a kill at that moment would lose it.
 *
 * The first is the same world again, with as many faults as there were until then: worlds of one seed are alike up to
 * the first fault that one of them lacks.
 *
 * Compared are the status with which the present run is closed; if it is done: each cell's outcome and generation, the
 * restarts, and which programs were started, by node, step and number (of a launch: those of the last generation; which
 * parts of an earlier one had begun when it failed is a matter of time). Not compared, each for its reason:
 *   - a run that the first closes as `infra`: that is a fact of the moment; the user then runs the command again, as
 *     the second one does;
 *   - a cancelled run: the second is `rhrun cancel`, which starts no epilog (a resumed run starts it); both must be
 *     cancelled;
 *   - a moment at which a node has restarted, was replaced or lost something, and the first does not know yet: it
 *     decides by the old state, the second by the new one; or a node in doubt: it came back during the launch, and the
 *     first looks at it before the next generation, the second at once;
 *   - a moment at which a part of the launch had ended well, its node has restarted since, and the run was resumed
 *     by then: the other nodes show whether the launch was over before that, and which of them reports first is a matter
 *     of time;
 *   - a moment at which, of a launch that was found on the nodes, one part runs and another is unknown: whether the
 *     first ends before all nodes are there, so that it is half a launch, is a matter of time;
 *   - a moment at which only set-up is left to do (the launch and the steps after it have ended well under a controller
 *     that is dead): the second one knows from the journal that this set-up is useless;
 *   - a launch on MIN:MAX nodes: which nodes take part, and so which parts fail, is a matter of time. The second one
 *     must still come to a valid end;
 *   - of a failed run all but its status, restarts and generation: which other steps had begun is a matter of time.
 *
 * RHRUN_RANDOM_SEEDS, RHRUN_RANDOM_FIRST: which seeds; RHRUN_REOPEN_EVERY=N: one of N moments, at random.
 */
#include "core_random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEEDS = 100, EVERY = 8, STEPS_MAX = 20000, SAID_MAX = 10 };

struct instant { /* a moment at which it was reopened */
    uint64_t step;
    uint32_t faults; /* number of faults before it */
    size_t events;   /* number of events in the journal */
    bool cancelled;
    char *end; /* of the second core; heap */
};

struct instants {
    struct instant *items;
    size_t count, cap;
};

static uint64_t checks, skipped, differences;
static uint64_t every = EVERY;

/* ---- how it ended ---- */

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Whether it was decided by then, not found; for a launch: by that run, in its latest generation. */
static bool counts(const struct world *w, size_t events, const struct world_start *s, const struct state_run *run)
{
    for (size_t i = 0; i < events; i++) {
        const struct event *e = &w->journal[i];
        bool of_it = s->generation == 0 || (str_eq(e->run, run->id) && e->started.generation == run->generation);
        bool begins = e->type == EVENT_STARTED && !e->started.adopted;
        for (uint32_t k = 0; begins && of_it && k < e->started.attempt_count; k++)
            if (strcmp(e->started.attempts[k].attempt, s->attempt) == 0)
                return true;
    }
    return false;
}

static void put_starts(const struct world *w, size_t events, const struct state_run *run, struct buf *b)
{
    struct arena *arena = arena_create();
    char **lines = arena_array(arena, w->start_count + 1, sizeof *lines);
    size_t count = 0;
    for (size_t i = 0; i < w->start_count; i++) {
        const struct world_start *s = &w->starts[i];
        if (counts(w, events, s, run))
            lines[count++] = s->generation ? arena_printf(arena, " %s@%u:g%u", s->step->name, s->node, s->generation)
                                           : arena_printf(arena, " %s@%u#%u", s->step->name, s->node, s->number);
    }
    if (count > 1)
        qsort(lines, count, sizeof *lines, compare);
    for (size_t i = 0; i < count; i++)
        buf_puts(b, lines[i]);
    arena_destroy(arena);
}

static void put_cells(const struct random_job *job, const struct state *s, struct buf *b)
{
    for (size_t i = 0; i < job->plan->step_count; i++)
        for (uint32_t n = 0; n < job->plan->node_count; n++) {
            const struct plan_step *step = &job->plan->steps[i];
            const struct state_cell *c = state_cell_find(s, step->scope, step->name, n);
            if (c)
                buf_printf(b, " %s@%u %s g%u", step->name, n, outcome_name(c->was_ok ? OUTCOME_OK : c->outcome),
                           c->generation);
        }
}

/* The end, in words, of the run that was open when the journal had that many events; NULL: it was not closed. Heap. */
static char *end_of(const struct random_job *job, const struct world *w, size_t events, bool cancelled)
{
    size_t at = events;
    while (at < w->journal_count && w->journal[at].type != EVENT_RUN_CLOSED)
        at++;
    if (at == w->journal_count)
        return NULL;
    struct buf b = {0};
    struct state *s = state_create();
    for (size_t i = 0; i <= at; i++)
        state_apply(s, &w->journal[i]);
    const struct state_run *run = state_run_latest(s, NULL);
    buf_puts(&b, run_status_name(run->status));
    if (!cancelled)
        buf_printf(&b, " restarts %u generation %u", run->restarts, run->generation);
    if (run->status == RUN_DONE) {
        buf_puts(&b, " cells:");
        put_cells(job, s, &b);
        buf_puts(&b, " starts:");
        put_starts(w, at, run, &b);
    }
    state_destroy(s);
    return buf_steal(&b);
}

/* ---- the second core ---- */

/* Whether a part of the launch is recorded as done, and in doubt since its node has restarted. */
static bool is_any_in_doubt(const struct run *r)
{
    for (size_t i = 0; i < r->state->cell_count; i++)
        if (r->stage == STAGE_SETUP && r->state->cells[i].was_ok && r->state->cells[i].generation > 0)
            return true;
    return false;
}

/* Whether, of a launch that this run did not begin, one part runs and another is unknown. */
static bool is_partly_found(const struct random_job *job, struct run *r)
{
    bool runs = false, missing = false;
    for (uint32_t n = 0; n < job->plan->node_count; n++) {
        const struct plan_step *step = &job->plan->steps[job->launch];
        const struct run_task *t = run_task(r, step, n);
        runs = runs || (step->on[n] && task_in_flight(t));
        missing = missing || (step->on[n] && t->state == TASK_PENDING);
    }
    const struct state_run *run = state_run_open(r->state);
    return r->stage == STAGE_SETUP && run && run->own_generation == 0 && runs && missing;
}

/* Whether a run is open whose end can be predicted. */
static bool is_of_interest(const struct random_job *job)
{
    const struct world *w = job->world;
    struct run *r = world_run(w);
    for (uint32_t n = 0; r && n < w->node_count; n++)
        if (world_has_changed(w, n) || r->lanes[n].doubtful)
            return false;
    if (!r || world_finished(w) || job->kills || job->violation[0])
        return false;
    const struct state_run *open = state_run_open(r->state);
    if (is_any_in_doubt(r) || is_partly_found(job, r) ||
        (r->stage == STAGE_SETUP && open && run_fetchable(r->state, r->plan) == open))
        return false;
    return open && !(r->ending == ENDING_FAILED && r->fail_status == RUN_INFRA);
}

static char *go_on(struct random_job *copy, bool cancelled, size_t events)
{
    struct world *w = copy->world;
    struct error err = ERROR_INIT;
    world_reach_all(w);
    if (world_start(w, cancelled ? RUN_CANCEL : RUN_EXECUTE, 0, &err) < 0)
        return xasprintf("it could not start: %s", err.text);
    for (unsigned n = 0; !world_finished(w) && n < STEPS_MAX && !copy->violation[0]; n++)
        if (!world_step(w))
            return xstrdup("it waits for nothing");
    if (copy->violation[0])
        return xstrdup(copy->violation);
    if (!world_finished(w))
        return xstrdup("it comes to no end");
    const struct run_result res = world_end(w);
    char *end = end_of(copy, w, events, cancelled);
    return end ? end : xasprintf("it leaves the run open: %s", res.error.text);
}

static void reopen(const struct random_job *job, struct instants *all, bool verbose)
{
    struct random_job copy = *job;
    const struct world *w = job->world;
    if (all->count == all->cap) {
        all->cap = all->cap ? 2 * all->cap : 64;
        all->items = xreallocarray(all->items, all->cap, sizeof *all->items);
    }
    struct instant *in = &all->items[all->count++];
    *in = (struct instant){w->steps, job->struck, w->journal_count, run_is_cancelled(world_run(w)), NULL};
    copy.log = (struct buf){0};
    copy.world = world_clone(w, world_mix(job->seed, w->steps), &random_quiet, &copy);
    copy.world->log = verbose ? &copy.log : NULL;
    in->end = go_on(&copy, in->cancelled, in->events);
    if (verbose)
        fprintf(stderr, "reopened at #%llu: %s\n%s", (unsigned long long)in->step, in->end,
                copy.log.data ? copy.log.data : "");
    buf_free(&copy.log);
    world_destroy(copy.world);
}

/* ---- both ---- */

static void tell_difference(uint64_t seed, const struct instant *in, const char *end)
{
    differences++;
    if (differences <= SAID_MAX)
        fprintf(stderr, "seed %llu at #%llu, %u faults:\n  goes on:  %s\n  reopened: %s\n", (unsigned long long)seed,
                (unsigned long long)in->step, in->faults, end ? end : "", in->end);
}

/* The world again, with that many faults: how the runs end that were open at the moments after the last of them. */
static void compare_all(uint64_t seed, uint32_t faults, const struct instants *all, unsigned flags)
{
    struct random_job *job = random_job_create(seed, faults, RANDOM_SEEN | flags);
    while (random_job_step(job))
        ;
    for (size_t i = 0; i < all->count; i++) {
        const struct instant *in = &all->items[i];
        if (in->faults != faults)
            continue;
        CLEANUP(cleanup_free) char *end = end_of(job, job->world, in->events, in->cancelled);
        if (!end || str_starts(end, "infra")) {
            skipped++;
            continue;
        }
        checks++;
        const bool ends =
            str_starts(in->end, "done") || str_starts(in->end, "failed") || str_starts(in->end, "cancelled");
        if (job->elastic ? !ends : !str_eq(end, in->end))
            tell_difference(seed, in, end);
    }
    random_job_destroy(job);
}

static void check_seed(uint64_t seed, uint64_t only, bool verbose, unsigned flags)
{
    struct random_job *job = random_job_create(seed, UINT32_MAX, RANDOM_SEEN | flags | (verbose ? RANDOM_VERBOSE : 0));
    struct instants all = {0};
    uint64_t rng = world_mix(seed, 4);
    do {
        bool now = only ? job->world->steps == only : world_random(&rng) % every == 0;
        if (now && is_of_interest(job))
            reopen(job, &all, verbose);
    } while (random_job_step(job));
    const uint32_t struck = job->struck;
    if (verbose)
        fprintf(stderr, "%s", job->log.data ? job->log.data : "");
    random_job_destroy(job);
    for (uint32_t f = 0; f <= struck; f++) {
        bool wanted = false;
        for (size_t i = 0; i < all.count; i++)
            wanted = wanted || all.items[i].faults == f;
        if (wanted)
            compare_all(seed, f, &all, flags);
    }
    for (size_t i = 0; i < all.count; i++)
        free(all.items[i].end);
    free(all.items);
}

static void test_reopened(void **unused)
{
    (void)unused;
    const uint64_t first = seeds_first(), count = seeds_count(SEEDS);
    const uint64_t only = seeds_number("RHRUN_REOPEN_AT", 0);
    every = seeds_number("RHRUN_REOPEN_EVERY", EVERY);
    for (uint64_t seed = first; seed < first + count; seed++)
        check_seed(seed, only, getenv("RHRUN_RANDOM_VERBOSE"), 0);
    print_message("reopened at %llu instants; %llu more were not compared\n", (unsigned long long)checks,
                  (unsigned long long)skipped);
    if (differences)
        fail_msg("%llu differences", (unsigned long long)differences);
}

/* Each found a fault once. */
static void test_found(void **unused)
{
    static const struct found {
        uint64_t seed, step;
    } with_files[] = {{2948, 76}, {4702, 425}, {16937, 239}, {38092, 303}, {43860, 793}};
    static const struct found found[] = {{670, 155},  {945, 259},   {1149, 506},  {4884, 178},  {19800, 391},
                                         {21778, 58}, {29265, 242}, {35499, 353}, {60988, 183}, {67975, 397},
                                         {5255, 239}, {15547, 172}, {63360, 269}, {31409, 350}};
    (void)unused;
    differences = 0;
    for (size_t i = 0; i < ARRAY_LEN(found); i++)
        check_seed(found[i].seed, found[i].step, false, RANDOM_NO_FILES);
    for (size_t i = 0; i < ARRAY_LEN(with_files); i++)
        check_seed(with_files[i].seed, with_files[i].step, false, 0);
    assert_int_equal(differences, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reopened), cmocka_unit_test(test_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
