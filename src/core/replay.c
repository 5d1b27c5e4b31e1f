/* Restores a run from the journal: the state of each task, by its cell, and the place where the launch's workers meet.
 * A controller that opens a run, for the first time or after another controller, begins with this. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- where the workers meet ---- */

/* For the lock: which workers are on which nodes. A controller that continues the launch does not need this. */
static void places_write(const struct plan *plan, struct buf *b)
{
    uint32_t first = 0;
    const char *comma = "";
    buf_puts(b, ",\"places\":[");
    for (uint32_t i = 0; plan->places && i < plan->place_count; i++, comma = ",") {
        const struct plan_place *p = &plan->places[i];
        buf_printf(b, "%s[%u,%u,%u,%u]", comma, p->role, p->node, p->role_rank, p->count);
    }
    for (uint32_t n = 0; !plan->places && n < plan->node_count; first += plan->nproc[n++], comma = ",")
        buf_printf(b, "%s[0,%u,%u,%u]", comma, n, first, plan->nproc[n]);
    buf_putc(b, ']');
}

void bind_write(const struct launch *l, struct buf *b)
{
    const struct run *r = l->run;
    const char *addr = l->master_addr ? l->master_addr : "";
    buf_puts(b, "{\"master_addr\":");
    buf_json_string(b, addr, strlen(addr));
    buf_printf(b, ",\"master_port\":%u", l->master_port);
    if (l->nonce[0])
        buf_printf(b, ",\"nonce\":\"%s\"", l->nonce);
    for (size_t i = 0; r->plan->roles && i < r->plan->spec->role_count; i++) {
        const struct plan_role *role = &r->plan->roles[i];
        buf_printf(b, "%s{\"name\":\"%s\",\"first\":%u,\"count\":%u", i ? "," : ",\"roles\":[", role->name,
                   role->worker, role->count);
        if (l->role_ports[i])
            buf_printf(b, ",\"master_port\":%u", l->role_ports[i]);
        buf_puts(b, i + 1 < r->plan->spec->role_count ? "}" : "}]");
    }
    if (r->plan->ranks_known && r->plan->spec->distributed.present)
        places_write(r->plan, b);
    buf_putc(b, '}');
}

static void bind_read(struct launch *l, const char *json)
{
    struct run *r = l->run;
    struct arena *arena = arena_create();
    struct doc *doc;
    struct diagnostics d = {0};
    if (json && doc_load_text("bind", json, strlen(json), DOC_FORMAT_JSON, arena, &doc, &d, NULL) == 0) {
        const char *addr = doc_get_string(doc->root, "master_addr", "");
        l->master_addr = addr[0] ? arena_strdup(r->arena, addr) : NULL;
        l->master_port = (uint32_t)doc_get_int(doc->root, "master_port", 0);
        snprintf(l->nonce, sizeof l->nonce, "%s", doc_get_string(doc->root, "nonce", ""));
        const struct doc_node *roles = doc_get(doc->root, "roles");
        for (size_t i = 0; roles && i < roles->count && i < r->plan->spec->role_count; i++)
            l->role_ports[i] = (uint32_t)doc_get_int(roles->items[i], "master_port", 0);
    }
    diagnostics_free(&d);
    arena_destroy(arena);
}

/* ---- the state of a task ---- */

/* Whether the cell belongs to the launch's latest generation, or to a step after that generation. Steps before the
 * launch belong to every generation. Steps after an adopted generation cannot belong to another one, although they may
 * be in the journal before the launch. */
static bool is_of_latest(const struct state_run *run, const struct plan_step *step, const struct state_cell *c)
{
    if (step->kind->phase == PHASE_LAUNCH)
        return c->generation == run->generation;
    return step->kind->phase < PHASE_LAUNCH || c->after == run->begun || run->own_generation == 0;
}

static enum task_state task_of_bad_end(const struct plan_step *step, const struct state_cell *c)
{
    if (c->outcome == OUTCOME_NOT_STARTED)
        return TASK_PENDING;
    switch (step->kind->phase) {
    case PHASE_SETUP: /* lane_decide decides when the node is connected */
    case PHASE_POINT: /* points.c handles these */
        break;
    case PHASE_PROLOG:
    case PHASE_LAUNCH:
    case PHASE_EPILOG:
        return TASK_FAILED;
    case PHASE_OUTPUTS: /* unless it failed, it is fetched again */
        return c->outcome == OUTCOME_FAILED ? TASK_FAILED : TASK_PENDING;
    }
    return TASK_PENDING;
}

/* The task's state by its cell alone, before its node was listed. A success of set-up counts only when the node's
 * ledger agrees. For all other steps, the results of earlier runs and earlier generations do not count. */
static enum task_state task_of_cell(const struct run *r, const struct plan_step *step, const struct state_cell *c)
{
    const struct state_run *run = run_recorded(r);
    if (!c || (!step->kind->cached && !str_eq(c->run, r->id)))
        return TASK_PENDING;
    bool latest = is_of_latest(run, step, c);
    bool given_up = !latest && (step->kind->fetch || step->kind->phase == PHASE_LAUNCH); /* a REISSUE gave it up */
    if (c->outcome == OUTCOME_NONE)
        return str_eq(c->key, step->key) && str_eq(c->run, r->id) && !given_up ? TASK_RUNNING : TASK_PENDING;
    if (step->kind->cached || !latest)
        return TASK_PENDING;
    /* if its outcome is unknown by now, reconcile.c handles that when the node is connected */
    if (c->outcome == OUTCOME_OK || c->was_ok)
        return TASK_DONE;
    return task_of_bad_end(step, c);
}

/* How often the step has failed in this run, at most retry_times + 1: with that number, an earlier controller died
 * before it could fail the run. */
static uint32_t tries_of_cell(const struct run *r, const struct plan_step *step, const struct state_cell *c)
{
    bool failed = c && (c->outcome == OUTCOME_FAILED || c->outcome == OUTCOME_TIMED_OUT);
    uint32_t most = step->retry_times + failed;
    if (!c || !step->kind->cached || !str_eq(c->run, r->id))
        return 0;
    return c->failures < most ? c->failures : most;
}

static void replay_failure(struct run *r, const struct plan_step *step, const struct state_cell *c)
{
    if (step->kind->phase == PHASE_OUTPUTS) { /* an output that had to be there was not */
        r->fail_status = RUN_FAILED;
        error_set(&r->result.error, ERROR_JOB, "%s", c->tail ? c->tail : "its result is not there");
        return;
    }
    const struct cause cause = {.step = step,
                                .node = c->node,
                                .outcome = c->outcome,
                                .cause = c->cause,
                                .value = c->cause_value,
                                .rank = c->cause_rank,
                                .has_rank = cause_has_rank(r, step, c->cause_rank, c->outcome),
                                .tail = arena_strdup(r->arena, c->tail)};
    cause_offer(cause_of(r, step), &cause);
}

static void replay_task(struct run *r, const struct plan_step *step, uint32_t node)
{
    const struct state_cell *c = state_cell_find(r->state, step->scope, step->name, node);
    struct run_task *t = run_task(r, step, node);
    if (reopen_step(r, step, node, c && str_eq(c->run, r->id) ? c : NULL))
        return;
    t->tries = tries_of_cell(r, step, c);
    const enum task_state state = task_of_cell(r, step, c);
    if (state == TASK_PENDING)
        return;
    task_set_state(r, t, state);
    if (state == TASK_FAILED)
        replay_failure(r, step, c);
    task_look(t, state == TASK_RUNNING);
    if (state == TASK_RUNNING && step->kind->cached)
        lane_set_dirty(&r->lanes[node], true);
    memcpy(t->attempt, c->attempt, sizeof t->attempt);
    t->started_ms = c->started_ms;
    t->ended_ms = c->finished_ms;
}

/* Whether this run has decided to begin its latest generation, and no part of that generation has begun. */
static bool is_only_decided(const struct run *r, const struct state_run *run)
{
    for (size_t i = 0; i < r->plan->step_count; i++)
        for (uint32_t n = 0; n < r->plan->node_count; n++) {
            const struct plan_step *step = &r->plan->steps[i];
            const struct state_cell *c = step->kind->phase == PHASE_LAUNCH && step->on[n]
                                             ? state_cell_find(r->state, step->scope, step->name, n)
                                             : NULL;
            if (c && str_eq(c->run, r->id) && c->generation == run->generation)
                return false;
        }
    return run->generation > 1 && run->own_generation == run->generation;
}

void run_replay(struct run *r)
{
    const struct state_run *run = run_recorded(r);
    struct launch *l = run_launch(r);
    l->generation = run->generation;
    r->fetch_only = run->fetching || reopen_only_fetches(r, run);
    bind_read(l, run->bind_json);
    for (size_t i = 0; i < r->plan->step_count; i++)
        for (uint32_t n = 0; n < r->plan->node_count; n++)
            if (r->plan->steps[i].on[n])
                replay_task(r, &r->plan->steps[i], n);
    points_replay(r);
    if (is_only_decided(r, run)) /* so that the generation begins with that number */
        l->generation--;
    if (!r->fetch_only)
        elastic_members(l);
}
