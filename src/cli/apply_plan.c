/* apply: plans each spec in this process, and compares the plan with the journal of its job. */
#include "apply.h"

#include <stdlib.h>
#include <string.h>

enum { NAMED_MAX = 20 };

/* ---- why there is work ---- */

static const char *changed_step(struct arena *arena, const struct plan *plan, const struct state *state)
{
    for (size_t i = 0; i < plan->step_count; i++)
        for (uint32_t n = 0; n < plan->node_count; n++) {
            const struct plan_step *step = &plan->steps[i];
            const struct state_cell *cell = step->on[n] ? state_cell_find(state, step->scope, step->name, n) : NULL;
            if (!step->on[n] || (cell && str_eq(cell->key, step->key)))
                continue;
            const char *what = cell ? plan_changed_inputs(step, cell->inputs, arena) : NULL;
            return !cell  ? arena_printf(arena, "%s is new", step->name)
                   : what ? arena_printf(arena, "%s: %s changed", step->name, what)
                          : arena_printf(arena, "%s changed", step->name);
        }
    return NULL;
}

static const char *why_work(struct arena *arena, const struct plan *plan, const struct state *state)
{
    const struct state_run *open = state ? state_run_open(state) : NULL;
    const struct state_run *latest = state ? state_run_latest(state, plan->spec->variant) : NULL;
    if (open && str_eq(open->plan_hash, plan->hash))
        return arena_printf(arena, "run %s has not ended: it goes on", open->id);
    if (!latest)
        return !state || state->run_count == 0 ? "it was never run" : "it was never run with these params";
    if (!str_eq(latest->plan_hash, plan->hash)) {
        const char *what = changed_step(arena, plan, state);
        return what ? what : "its steps or nodes changed";
    }
    if (latest->status != RUN_DONE)
        return arena_printf(arena, "run %s was not done: %s", latest->id, run_status_name(latest->status));
    return plan->spec->entrypoint.always ? "`always` is set" : "run again";
}

/* ---- one spec ---- */

/* The fields of a plan that are kept; the rest goes with its arena. */
static void keep(struct apply_job *job, const struct plan *plan, struct arena *scratch)
{
    struct arena *arena = job->of->c->arena;
    struct error err = ERROR_INIT;
    struct journal *journal = NULL;
    const struct spec *spec = plan->spec;
    job->name = arena_strdup(arena, spec->name);
    job->origin = arena_strdup(arena, spec->origin);
    job->job_id = arena_strdup(arena, spec->job_id);
    job->variant = arena_strdup(arena, spec->variant);
    job->plan_hash = arena_strdup(arena, plan->hash);
    job->always = spec->entrypoint.always;
    /* The journal may be unreadable because another rhrun is creating it, or for good: the job's own rhrun waits, or
     * reports it. */
    const bool unreadable = journal_open_read(job->job_id, &journal, &err) < 0 && err.why != ERROR_WHY_ABSENT;
    const struct state_run *done = journal ? cli_done_run(journal_state(journal), plan) : NULL;
    if (done) {
        job->did = APPLY_UP_TO_DATE;
        job->stage = APPLY_OVER;
        snprintf(job->run, sizeof job->run, "%s", done->id);
    } else if (unreadable) {
        job->why = arena_strdup(arena, err.text);
    } else {
        job->why = arena_strdup(arena, why_work(scratch, plan, journal ? journal_state(journal) : NULL));
    }
    journal_close(journal);
}

static int plan_one(struct apply_job *job)
{
    struct cli sub = *job->of->c; /* the plan gets its own arena; faults become texts */
    struct spec *spec;
    struct sources *sources = NULL;
    struct plan *plan;
    sub.arena = arena_create();
    sub.given[OPT_JSON] = false;
    sub.given[OPT_QUIET] = true;
    int rc = cli_load_planned_spec(&sub, job->file, &spec);
    const struct roster *roster = rc == 0 ? roster_create(spec, sub.arena) : NULL;
    if (rc == 0)
        rc = cli_sources(&sub, spec, roster, false, &sources);
    if (rc == 0)
        rc = cli_plan(&sub, spec, roster, sources, &plan);
    if (rc == 0)
        keep(job, plan, sub.arena);
    cli_sources_close(sources);
    arena_destroy(sub.arena);
    if (rc) {
        job->did = APPLY_INVALID;
        job->stage = APPLY_OVER;
        job->exit_status = rc;
    }
    return rc;
}

/* ---- the set ---- */

static int by_job_name(const void *a, const void *b)
{
    const struct apply_job *x = *(struct apply_job *const *)a, *y = *(struct apply_job *const *)b;
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->path, y->path);
}

/* Tables, locks and people know a job by its name. */
static int refuse_doubles(struct apply *a)
{
    struct apply_job **list = xcalloc(a->count + 1, sizeof(struct apply_job *));
    struct error err = ERROR_INIT;
    size_t count = 0, doubles = 0;
    for (size_t i = 0; i < a->count; i++)
        if (a->jobs[i].name)
            list[count++] = &a->jobs[i];
    qsort(list, count, sizeof(struct apply_job *), by_job_name);
    for (size_t i = 1; i < count; i++) {
        if (!str_eq(list[i]->name, list[i - 1]->name))
            continue;
        if (doubles++ < NAMED_MAX)
            fprintf(stderr, "rhrun: %s and %s are both named \"%s\"\n", list[i - 1]->path, list[i]->path,
                    list[i]->name);
    }
    free(list);
    if (!doubles)
        return 0;
    error_set(&err, ERROR_SPEC, "each spec of a set needs a name of its own: nothing was started");
    error_hint(&err, "`name:` gives a spec its name; without `name:` the spec has the name of its file");
    return cli_fail(a->c, &err);
}

int apply_plan_all(struct apply *a)
{
    int rc = 0;
    size_t invalid = 0;
    struct error err = ERROR_INIT;
    a->c->checker = spec_checker_create();
    for (size_t i = 0; i < a->count; i++) {
        const int one = plan_one(&a->jobs[i]);
        invalid += one != 0;
        rc = one > rc && rc != 2 ? one : rc;
    }
    spec_checker_destroy(a->c->checker);
    a->c->checker = NULL;
    const int doubles = refuse_doubles(a);
    if (doubles || !invalid)
        return doubles;
    error_set(&err, rc == 2 ? ERROR_SPEC : ERROR_INFRA, "%zu of %zu specs cannot be planned: nothing was started",
              invalid, a->count);
    cli_fail(a->c, &err);
    return rc;
}

/* ---- later ---- */

static void over(struct apply_job *job, enum apply_did did, const struct state_run *run)
{
    job->did = did;
    job->stage = APPLY_OVER;
    job->why = did == APPLY_FAILED ? arena_strdup(job->of->c->arena, run->message) : NULL;
    job->exit_status = did == APPLY_FAILED ? run->exit_status : 0;
    job->took_ms = run->closed_ms > run->opened_ms ? run->closed_ms - run->opened_ms : 0;
    snprintf(job->run, sizeof job->run, "%s", run->id);
}

/* A run of this content that ended since we began belongs to another rhrun, and counts as ours too: nothing is run
 * twice. A run with exit status 4 (somebody else held the nodes) did no work. */
static bool is_end(const struct apply_job *job, const struct state *state, const struct state_run *run)
{
    enum { EXIT_HELD = 4 };
    if (state_run_open(state) || !run || run->status == RUN_OPEN || !str_eq(run->plan_hash, job->plan_hash))
        return false;
    if (run->closed_ms >= job->of->since_ms)
        return run->status == RUN_DONE || run->exit_status != EXIT_HELD;
    return run->status == RUN_DONE && !job->always;
}

void apply_look(struct apply_job *job, bool *ret_held)
{
    struct journal *journal;
    *ret_held = false;
    if (journal_open_read(job->job_id, &journal, NULL) < 0)
        return; /* there is none yet; or our rhrun reports why it cannot be read */
    /* Read again when nobody holds it: the first read may be older than the holder's last event, and we would miss that
     * end. */
    *ret_held = journal_holder(journal, NULL, NULL);
    const int current = *ret_held ? 0 : journal_refresh(journal, NULL);
    const struct state *state = journal_state(journal);
    const struct state_run *latest = state_run_latest(state, job->variant);
    if (!*ret_held && current == 0 && is_end(job, state, latest))
        over(job, latest->status == RUN_DONE ? APPLY_ELSEWHERE : APPLY_FAILED, latest);
    journal_close(journal);
}
