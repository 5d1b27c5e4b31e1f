/* A run that only fetches: a run whose launch is kept and that is opened again because `outputs` changed, or a run that
 * was killed while it fetched. Set-up, prolog, launch and epilog are neither done nor checked, and only nodes with
 * outputs are asked. */
#include "internal.h"

#include <string.h>

/* Whether prolog, launch and epilog ended well in this run, with the plan's keys. If the journal has no hash of the
 * job, this shows that set-up is the same too, because the launch's key chains to it. */
static bool ended_well(const struct state *s, const struct plan *plan, const struct state_run *run)
{
    bool launched = false;
    for (size_t i = 0; i < plan->step_count; i++) {
        const struct plan_step *step = &plan->steps[i];
        for (uint32_t n = 0; n < plan->node_count; n++) {
            const struct state_cell *c = step->on[n] ? state_cell_find(s, step->scope, step->name, n) : NULL;
            bool here = c && str_eq(c->run, run->id);
            if (step->kind->phase == PHASE_SETUP && here && run->status == RUN_OPEN && c->outcome == OUTCOME_FAILED)
                return false; /* the run is about to fail: its controller was killed before it could record that */
            if (step->kind->phase < PHASE_PROLOG || !step->on[n] || step->sidecar)
                continue;
            if (step->kind->phase == PHASE_OUTPUTS) {
                if (step->kind->result && here && c->outcome != OUTCOME_OK && c->outcome != OUTCOME_NONE)
                    return false;
                continue;
            }
            if (step->kind->phase == PHASE_PROLOG && !here && run->job_hash)
                continue; /* this run has found the launch on the nodes, and had no use for its prolog */
            /* A node that restarts while its files are fetched does not stop the fetch, neither for this controller nor
             * for the next. */
            bool kept = here && run->status == RUN_OPEN && c->was_ok;
            if (!here || (c->outcome != OUTCOME_OK && !kept) || !str_eq(c->key, step->key) ||
                (step->kind->phase == PHASE_LAUNCH && c->generation != run->generation))
                return false;
            launched = launched || step->kind->phase == PHASE_LAUNCH;
        }
    }
    bool condemned = run->verdict.generation == run->generation && run->generation && run->verdict.action == RULE_FAIL;
    return launched && !condemned;
}

const struct state_run *run_fetchable(const struct state *s, const struct plan *plan)
{
    const struct state_run *run = state_run_latest(s, plan->spec->variant), *open = state_run_open(s);
    if (plan->points || !run || (open && open != run) || run->cancelling ||
        (plan->spec->entrypoint.always && run->status != RUN_OPEN) ||
        (run->job_hash && !str_eq(run->job_hash, plan->job_hash)) || run->node_count != plan->node_count)
        return NULL;
    switch (run->status) {
    case RUN_DONE:
        if (str_eq(run->plan_hash, plan->hash))
            return NULL; /* nothing is missing */
        return run->job_hash || ended_well(s, plan, run) ? run : NULL;
    case RUN_OPEN:
        return (run->fetching && run->job_hash) || ended_well(s, plan, run) ? run : NULL;
    case RUN_FAILED: /* perhaps because an output was not there */
        return ended_well(s, plan, run) ? run : NULL;
    case RUN_CANCELLED:
    case RUN_INFRA:
    case RUN_SUPERSEDED:
        break;
    }
    return NULL;
}

bool reopen_only_fetches(const struct run *r, const struct state_run *open)
{
    if (r->options.mode != RUN_EXECUTE || run_fetchable(r->state, r->plan) != open)
        return false;
    /* nothing else may be in flight: a sidecar may not have been stopped yet */
    for (size_t i = 0; i < r->plan->step_count; i++)
        for (uint32_t n = 0; n < r->plan->node_count; n++) {
            const struct plan_step *step = &r->plan->steps[i];
            const struct state_cell *c = step->on[n] ? state_cell_find(r->state, step->scope, step->name, n) : NULL;
            if (c && c->outcome == OUTCOME_NONE && str_eq(c->run, r->id) && step->kind->phase != PHASE_OUTPUTS)
                return false;
        }
    return true;
}

bool reopen_step(struct run *r, const struct plan_step *step, uint32_t node, const struct state_cell *c)
{
    struct run_task *t = run_task(r, step, node);
    if (!r->fetch_only)
        return false;
    if (step->kind->phase == PHASE_OUTPUTS)
        return !c || !str_eq(c->key, step->key) || c->outcome == OUTCOME_FAILED ||
               (c->outcome == OUTCOME_OK && c->tail && *c->tail &&
                !rank0_is_elsewhere(c->tail)); /* true: it stays pending, and is fetched (again) */
    task_set_state(r, t, step->kind->phase == PHASE_SETUP ? TASK_KEPT : TASK_DONE);
    task_look(t, true);
    if (c && !step->kind->cached) {
        memcpy(t->attempt, c->attempt, sizeof t->attempt);
        t->started_ms = c->started_ms;
        t->ended_ms = c->finished_ms;
    }
    return true;
}

bool reopen_passes_by(struct run *r, uint32_t node)
{
    for (size_t i = 0; r->fetch_only && i < r->plan->step_count; i++)
        if (r->plan->steps[i].on[node] && run_task(r, &r->plan->steps[i], node)->state != TASK_DONE &&
            run_task(r, &r->plan->steps[i], node)->state != TASK_KEPT)
            return false;
    return r->fetch_only;
}

void reopen_say(struct run *r)
{
    struct buf names = {0};
    size_t more = 0;
    for (size_t i = 0; i < r->plan->step_count; i++)
        for (uint32_t n = 0; n < r->plan->node_count; n++)
            if (r->plan->steps[i].on[n] && r->plan->steps[i].kind->phase == PHASE_OUTPUTS &&
                run_task(r, &r->plan->steps[i], n)->state == TASK_PENDING) {
                if (names.len < 200)
                    buf_printf(&names, "%s%s", names.len ? ", " : "", r->plan->steps[i].name);
                else
                    more++;
                break;
            }
    if (more)
        buf_printf(&names, " and %zu more", more);
    run_note(r, EVENT_NODE_NONE, "the launch of this run is kept; to fetch: %s", names.len ? names.data : "nothing");
    buf_free(&names);
}
