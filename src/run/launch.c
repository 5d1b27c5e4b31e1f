/* The barrier and what is behind it: prolog, launch generations, restarts, epilog. A generation is committed with
 * all its attempts before any of them is sent; the first failure stops all, and when all have ended they start
 * again together, max_restarts times at most. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static const struct plan_step *phase_step(const struct run *r, enum plan_phase phase)
{
    for (size_t i = 0; i < r->plan->step_count; i++)
        if (r->plan->steps[i].kind->phase == phase)
            return &r->plan->steps[i];
    return NULL;
}

/* Starts a step on all its nodes that have not done it; on one that is lost for good it has failed. False: there is none. */
static bool start_phase(struct run *r, const struct plan_step *step, uint32_t generation)
{
    size_t count = 0;
    uint32_t *nodes = xcalloc(r->plan->node_count, sizeof *nodes);
    for (uint32_t n = 0; step && n < r->plan->node_count; n++)
        if (step->on[n] && run_task(r, step, n)->state == TASK_PENDING) {
            if (r->lanes[n].closed_node)
                run_task(r, step, n)->state = TASK_FAILED;
            else
                nodes[count++] = n;
        }
    if (count > 0)
        task_start_many(r, step, nodes, count, generation);
    free(nodes);
    return count > 0;
}

static bool all_ended(const struct run *r, const struct plan_step *step)
{
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        const struct run_task *t = run_task((struct run *)(uintptr_t)r, step, n);
        if (step->on[n] && t->state != TASK_DONE && t->state != TASK_FAILED)
            return false;
    }
    return true;
}

static bool all_done(struct run *r, const struct plan_step *step)
{
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (step->on[n] && run_task(r, step, n)->state != TASK_DONE)
            return false;
    return true;
}

uint32_t launch_grace_ms(const struct run *r, uint32_t least)
{
    const struct spec_text *timeout = spec_flag_value(&r->plan->spec->distributed, "shutdown_timeout");
    uint32_t seconds = 0;
    if (!timeout || !parse_u32(timeout->text, &seconds) || seconds * 1000 + STOP_GRACE_MS < least)
        return least;
    return seconds * 1000 + STOP_GRACE_MS;
}

static void stop_others(struct run *r, const struct plan_step *step, uint32_t grace_ms)
{
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (step->on[n])
            task_stop(r, step, n, WIRE_STOP, grace_ms);
}

/* ---- generations ---- */

static bool bind_ranks(struct run *r)
{
    struct error err = ERROR_INIT;
    struct plan_facts *facts = arena_array(r->arena, r->plan->node_count, sizeof *facts);
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        const struct wire_facts *f = node_facts(r->lanes[n].node);
        if (f)
            facts[n] = (struct plan_facts){true, f->cpus, f->gpu_count};
    }
    if (plan_bind_ranks(r->plan, facts, r->arena, &err) == 0)
        return true;
    run_fail(r, RUN_FAILED, &err);
    return false;
}

static void bind_address(struct run *r)
{
    const struct spec_host *host = &r->plan->spec->hosts[0];
    const struct wire_facts *facts = node_facts(r->lanes[0].node);
    if (r->master_addr)
        return;
    if (host->address)
        r->master_addr = host->address;
    else if (r->plan->spec->this_machine || r->plan->node_count == 1)
        r->master_addr = "127.0.0.1";
    else
        r->master_addr =
            arena_strdup(r->arena, facts && facts->address && facts->address[0] ? facts->address : host->host);
}

/* Is every node's set-up there? One that came back as another machine meanwhile does it again first. */
static bool at_barrier(struct run *r)
{
    bool all = true;
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        struct lane *lane = &r->lanes[n];
        if (lane->doubtful) {
            lane_doubt(lane);
            lane_advance(lane);
        }
        all = all && lane->state == LANE_BARRIER && lane->orphan_count == 0;
    }
    return all;
}

static void start_generation(struct run *r)
{
    const struct plan_step *step = phase_step(r, PHASE_LAUNCH);
    r->next_port = 0;
    r->stage = STAGE_AGAIN;
    if (!at_barrier(r))
        return;
    r->stage = STAGE_LAUNCH;
    r->generation_failed = false;
    r->generation++;
    r->result.has_cause = false;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (step->on[n])
            run_task(r, step, n)->state = TASK_PENDING;
    start_phase(r, step, r->generation);
    outputs_watch(r);
}

/* ---- how it stands ---- */

/* Torchrun on MIN:MAX nodes goes on while MIN are left. */
static bool has_failed(struct run *r, const struct plan_step *step)
{
    const struct spec_distributed *d = &r->plan->spec->distributed;
    bool elastic = step->kind->phase == PHASE_LAUNCH && d->present && d->min_nodes < d->nnodes;
    uint32_t failed = 0, may_fail = elastic ? d->nnodes - d->min_nodes : 0;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        failed += step->on[n] && run_task(r, step, n)->state == TASK_FAILED;
    return failed > may_fail;
}

bool launch_over(struct run *r)
{
    const struct plan_step *step = phase_step(r, PHASE_LAUNCH);
    return all_ended(r, step) && !has_failed(r, step);
}

bool launch_complete(struct run *r)
{
    const struct plan_step *epilog = phase_step(r, PHASE_EPILOG);
    return launch_over(r) && (!epilog || all_done(r, epilog)) && outputs_complete(r);
}

static void finish_launch(struct run *r, bool good);

/* Also before a later generation: a node that restarted does it again. */
static void start_prolog(struct run *r)
{
    r->stage = STAGE_PROLOG;
    r->generation_failed = false;
    const struct plan_step *step = phase_step(r, PHASE_PROLOG);
    if (step && start_phase(r, step, 0))
        return;
    if (!step || all_done(r, step))
        start_generation(r);
    else
        finish_launch(r, false);
}

static void after_port(struct run *r)
{
    start_prolog(r);
}

static void take_port(struct run *r, uint32_t port)
{
    r->master_port = port;
    r->next_port = 0;
    r->stage = STAGE_AGAIN;
    if (at_barrier(r)) /* else the last one to reach it asks again */
        after_port(r);
}

/* A free port is asked for before each generation: the one of the last may still be in TIME_WAIT. For a restart the
 * question went out when the first worker failed, while the others were being stopped. */
static void ask_port(struct run *r)
{
    const struct spec_distributed *d = &r->plan->spec->distributed;
    bind_address(r);
    r->stage = STAGE_PORT;
    if (d->present && d->master_port == 0 && r->next_port == 0) {
        node_ping(r->lanes[0].node, 1);
        return;
    }
    take_port(r, d->master_port ? d->master_port : r->next_port);
}

void launch_port(struct run *r, uint32_t free_port)
{
    if (r->failing || r->cancelling)
        return;
    if (r->stage == STAGE_PORT)
        take_port(r, free_port);
    else if (r->stage == STAGE_LAUNCH)
        r->next_port = free_port;
}

void launch_will_restart(struct run *r)
{
    const struct spec_distributed *d = &r->plan->spec->distributed;
    if (r->stage == STAGE_LAUNCH && d->present && d->master_port == 0 && r->restarts < spec_restarts(d))
        node_ping(r->lanes[0].node, 1);
}

void launch_check_barrier(struct run *r)
{
    if (r->options.mode != RUN_EXECUTE || r->failing || r->cancelling)
        return;
    for (uint32_t k = 0; k < r->plan->node_count; k++) { /* from the one that was not there the last time: no N * N */
        uint32_t n = (r->awaited + k) % r->plan->node_count;
        if (r->lanes[n].state != LANE_BARRIER || r->lanes[n].orphan_count > 0) {
            r->awaited = n;
            return;
        }
    }
    if (r->stage == STAGE_PORT && node_state(r->lanes[0].node) == NODE_READY) {
        node_ping(r->lanes[0].node, 1); /* the question was lost with its connection */
        return;
    }
    if (r->stage == STAGE_AGAIN) {
        ask_port(r);
        return;
    }
    if (r->stage != STAGE_SETUP)
        return;
    if (!bind_ranks(r))
        return;
    if (r->generation > 0 || r->result.has_cause)
        launch_resume(r);
    else
        ask_port(r);
}

/* ---- ends ---- */

void run_cause_text(enum outcome outcome, uint32_t cause, int32_t value, char *ret, size_t size)
{
    if (outcome == OUTCOME_UNKNOWN)
        snprintf(ret, size, "its outcome is unknown (its supervisor or its node died)");
    else if (outcome == OUTCOME_TIMED_OUT)
        snprintf(ret, size, "timed out");
    else if (cause == WIRE_CAUSE_EXIT)
        snprintf(ret, size, "exit status %d", value);
    else if (cause == WIRE_CAUSE_SIGNAL)
        snprintf(ret, size, "killed by signal %d (%s)", value, strsignal(value));
    else if (cause == WIRE_CAUSE_EXEC)
        snprintf(ret, size, "could not be started: %s", strerror(value));
    else if (cause == WIRE_CAUSE_CREATES)
        snprintf(ret, size, "it ended well, but what it `creates` does not exist");
    else if (cause == WIRE_CAUSE_SETUP)
        snprintf(ret, size, "its directory or environment could not be prepared: %s", strerror(value));
    else if (outcome == OUTCOME_STOPPED)
        snprintf(ret, size, "stopped");
    else
        snprintf(ret, size, "failed");
}

void launch_failure_text(struct run *r)
{
    struct run_result *res = &r->result;
    char what[160];
    if (!res->has_cause) {
        error_set(&res->error, ERROR_JOB, "the job failed");
        return;
    }
    run_cause_text(r->cause_outcome, res->cause, res->cause_value, what, sizeof what);
    uint64_t timeout_ms = r->plan->spec->entrypoint.timeout_ms;
    if (r->cause_outcome == OUTCOME_TIMED_OUT && timeout_ms)
        snprintf(what, sizeof what, "timed out after %.1f s", (double)timeout_ms / 1000);
    if (res->cause_has_rank)
        error_set(&res->error, ERROR_JOB, "rank %u on node \"%s\": %s", res->cause_rank, res->cause_node, what);
    else
        error_set(&res->error, ERROR_JOB, "%s on node \"%s\": %s", res->cause_step, res->cause_node, what);
    if (r->restarts > 0)
        error_prefix(&res->error, "after %u restart%s", r->restarts, r->restarts == 1 ? "" : "s");
    const struct plan_step *launch = phase_step(r, PHASE_LAUNCH);
    if (res->cause_has_rank)
        error_hint(&res->error, "its output: rhrun logs %s --rank %u", r->id, res->cause_rank);
    else if (launch && str_eq(res->cause_step, launch->name))
        error_hint(&res->error, "its output: rhrun logs %s", r->id);
    else
        error_hint(&res->error, "its output: rhrun logs %s --step %s", r->id, res->cause_step);
}

static void finish_launch(struct run *r, bool good)
{
    if (!good) {
        launch_failure_text(r);
        r->fail_status = RUN_FAILED;
    }
    if (!launch_epilog(r) && !outputs_begin(r))
        outputs_end(r);
}

static void generation_ended(struct run *r)
{
    if (!r->generation_failed) {
        finish_launch(r, true);
        return;
    }
    uint32_t max = spec_restarts(&r->plan->spec->distributed);
    if (r->restarts >= max || r->cause_outcome == OUTCOME_TIMED_OUT) {
        finish_launch(r, false);
        return;
    }
    char what[160];
    CLEANUP(cleanup_free) char *reason = NULL;
    run_cause_text(r->cause_outcome, r->result.cause, r->result.cause_value, what, sizeof what);
    if (r->result.cause_has_rank)
        reason = xasprintf("rank %u on node \"%s\": %s", r->result.cause_rank, r->result.cause_node, what);
    else
        reason =
            r->result.has_cause ? xasprintf("node \"%s\": %s", r->result.cause_node, what) : xstrdup("a worker failed");
    r->restarts++;
    r->stage = STAGE_RESTARTING;
    struct event e = {.type = EVENT_RESTART, .generation = r->generation + 1, .reason = reason};
    run_append(r, &e, NULL, NULL); /* durable before the RUNs it causes: they wait for STARTED, which is behind it */
    ask_port(r);
}

bool launch_epilog(struct run *r)
{
    const struct plan_step *step = phase_step(r, PHASE_EPILOG);
    if (!step || r->killing || r->stage == STAGE_EPILOG ||
        (r->stage != STAGE_LAUNCH && r->stage != STAGE_PROLOG && r->stage != STAGE_PORT && r->stage != STAGE_AGAIN &&
         r->stage != STAGE_RESTARTING))
        return false;
    r->stage = STAGE_EPILOG;
    return start_phase(r, step, 0);
}

static void epilog_ended(struct run *r, const struct plan_step *step)
{
    bool good = all_done(r, step);
    if (r->cancelling) {
        run_check_end(r);
        return;
    }
    if (!good && r->fail_status == RUN_OPEN) {
        launch_failure_text(r);
        r->fail_status = RUN_FAILED;
    }
    if (!outputs_begin(r))
        outputs_end(r);
}

/* By the tasks' states, not by the end at hand: ends that became durable together are all there before the first of them
 * is looked at, and a failure among them must not be found only after the others were taken for all. */
static void fail_generation(struct run *r, const struct plan_step *step)
{
    if (r->generation_failed || !has_failed(r, step))
        return;
    r->generation_failed = true;
    stop_others(r, step, launch_grace_ms(r, STOP_GRACE_MS));
}

void launch_task_ended(struct run *r, const struct plan_step *step)
{
    if (step->kind->phase == PHASE_OUTPUTS) {
        outputs_check_end(r);
        return;
    }
    if (step->kind->phase == PHASE_EPILOG) {
        if (r->stage == STAGE_EPILOG && all_ended(r, step))
            epilog_ended(r, step);
        return;
    }
    if (r->failing || r->cancelling)
        return; /* run_check_end sees to it */
    if (step->kind->phase == PHASE_PROLOG) {
        if (r->stage != STAGE_PROLOG)
            return; /* the ends of several nodes became durable together: the first has gone on for all */
        fail_generation(r, step);
        if (all_ended(r, step)) {
            if (r->generation_failed)
                finish_launch(r, false);
            else
                start_generation(r);
        }
        return;
    }
    if (r->stage != STAGE_LAUNCH)
        return;
    fail_generation(r, step);
    if (all_ended(r, step))
        generation_ended(r);
}

/* A generation that has failed: what runs is stopped, what never started never will be. */
static void end_failed(struct run *r, const struct plan_step *launch)
{
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (launch->on[n] && run_task(r, launch, n)->state == TASK_PENDING)
            run_task(r, launch, n)->state = TASK_FAILED;
    stop_others(r, launch, launch_grace_ms(r, STOP_GRACE_MS));
}

static bool has_begun(struct run *r, const struct plan_step *step)
{
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (step->on[n] && run_task(r, step, n)->state != TASK_PENDING)
            return true;
    return false;
}

bool launch_has_begun(struct run *r)
{
    return has_begun(r, phase_step(r, PHASE_LAUNCH));
}

static void resume_epilog(struct run *r, const struct plan_step *epilog, bool failed)
{
    if (failed) {
        launch_failure_text(r);
        r->fail_status = RUN_FAILED;
    }
    r->stage = STAGE_EPILOG;
    start_phase(r, epilog, 0);
    if (all_ended(r, epilog))
        epilog_ended(r, epilog);
}

/* The controller was restarted behind the barrier: the tasks' states (from the journal) tell where it was. */
void launch_resume(struct run *r)
{
    const struct plan_step *prolog = phase_step(r, PHASE_PROLOG), *launch = phase_step(r, PHASE_LAUNCH);
    const struct plan_step *epilog = phase_step(r, PHASE_EPILOG);
    bool begun = false, failed = false, pending = false;
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        enum task_state s = run_task(r, launch, n)->state;
        if (!launch->on[n])
            continue;
        begun = begun || s != TASK_PENDING;
        pending = pending || s == TASK_PENDING;
    }
    failed = has_failed(r, launch);
    bind_address(r);
    if (prolog && !all_done(r, prolog) && !begun) {
        r->stage = STAGE_PROLOG;
        if (!start_phase(r, prolog, 0) && all_ended(r, prolog))
            finish_launch(r, false);
        return;
    }
    if (!begun) {
        ask_port(r);
        return;
    }
    r->stage = STAGE_LAUNCH;
    r->generation_failed = failed;
    outputs_watch(r);
    if (pending && !failed) /* only a lost journal can leave this: the others' results were adopted */
        start_phase(r, launch, r->generation ? r->generation : 1);
    else if (failed)
        end_failed(r, launch);
    if (!all_ended(r, launch))
        return;
    if (epilog && has_begun(r, epilog)) /* so the launch was judged before */
        resume_epilog(r, epilog, failed);
    else
        generation_ended(r);
}
