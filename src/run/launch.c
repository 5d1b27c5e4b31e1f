/* The barrier and what is behind it: prolog, launch generations, restarts, epilog. A generation is committed with
 * all its attempts before any of them is sent; the first failure stops all, and when all have ended they start
 * again together, max_restarts times at most. */
#include "rules.h"

#include <stdlib.h>
#include <string.h>

enum { PORT_TOKEN = 1 }; /* of a ping that asks for MASTER_PORT; behind it one for each role */

uint32_t launch_grace_ms(const struct run *r, uint32_t least)
{
    const struct spec_text *timeout = spec_flag_value(&r->plan->spec->distributed, "shutdown_timeout");
    uint32_t seconds = 0;
    if (!timeout || !parse_u32(timeout->text, &seconds))
        return least;
    if (r->plan->spec->distributed.launcher == LAUNCHER_NATIVE)
        return seconds * 1000; /* its workers are ours */
    return seconds * 1000 + STOP_GRACE_MS < least ? least : seconds * 1000 + STOP_GRACE_MS;
}

/* ---- generations ---- */

static int bind_by_facts(struct run *r, struct error *err)
{
    struct plan_facts *facts = arena_array(r->arena, r->plan->node_count, sizeof *facts);
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        const struct wire_facts *f = r->lanes[n].facts;
        if (f && !r->lanes[n].left_out)
            facts[n] = (struct plan_facts){true, f->cpus, f->gpu_count};
    }
    return plan_bind_ranks(r->plan, facts, r->plan->arena, err); /* the plan may serve another run after this one */
}

static bool bind_ranks(struct run *r)
{
    struct error err = ERROR_INIT;
    if (bind_by_facts(r, &err) == 0)
        return true;
    run_fail(r, RUN_FAILED, &err);
    return false;
}

static void bind_address(struct run *r)
{
    const struct spec_host *host = roster_host(r->plan->roster, r->plan->master);
    const struct wire_facts *facts = r->lanes[r->plan->master].facts;
    if (run_launch(r)->master_addr)
        return;
    if (host->address)
        run_launch(r)->master_addr = host->address;
    else if (r->plan->spec->placement == PLACEMENT_HERE || r->plan->node_count == 1)
        run_launch(r)->master_addr = "127.0.0.1";
    else
        run_launch(r)->master_addr =
            arena_strdup(r->arena, facts && facts->address && facts->address[0] ? facts->address : host->host);
}

/* Is every node's set-up there? One that came back as another machine meanwhile does it again first. */
static bool at_barrier(struct run *r)
{
    bool all = true;
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        struct lane *lane = &r->lanes[n];
        if (lane->left_out)
            continue;
        if (lane->doubtful) {
            lane_doubt(lane);
            run_touch(r, n);
        }
        all = all && lane->state == LANE_BARRIER && lane->orphan_count == 0;
    }
    return all;
}

/* An epilog, or outputs, that were found are of an earlier launch: nothing of it may go on beside the next one. */
static void forget_what_followed(struct run *r)
{
    for (size_t i = 0; i < r->plan->step_count; i++)
        for (uint32_t n = 0; n < r->plan->node_count && r->plan->steps[i].kind->phase > PHASE_LAUNCH; n++) {
            const struct plan_step *step = &r->plan->steps[i];
            struct run_task *t = run_task(r, step, n);
            if (task_in_flight(t) && step->kind->fetch)
                fetch_stop(&r->lanes[n], step);
            else if (task_in_flight(t))
                lane_orphan(&r->lanes[n], t->attempt);
            task_set_state(r, t, TASK_PENDING);
        }
}

static void start_generation(struct run *r)
{
    run_launch(r)->next_port = 0;
    run_set_stage(r, STAGE_AGAIN);
    forget_what_followed(r);
    if (!at_barrier(r))
        return;
    run_set_stage(r, STAGE_LAUNCH);
    launch_set(run_launch(r), LAUNCH_GOES_ON);
    run_launch(r)->generation++;
    random_hex(run_launch(r)->nonce, sizeof run_launch(r)->nonce / 2);
    run_launch(r)->cause = (struct cause){0};
    run_launch(r)->adopted = NULL;
    parts_reset(r);
    rules_begin(r);
    parts_advance(r);
    outputs_watch(r);
    elastic_join(r);
}

/* ---- how it stands ---- */

bool launch_complete(struct run *r)
{
    const struct plan_step *epilog = phase_step(r, PHASE_EPILOG);
    return launch_over(r) && parts_ended(r) && (!epilog || step_all_done(r, epilog)) && outputs_complete(r);
}

static void finish_launch(struct run *r, bool good);
static void fail_generation(struct run *r, const struct plan_step *step);

static void prolog_advance(struct run *r)
{
    const struct plan_step *step = phase_step(r, PHASE_PROLOG);
    if (step)
        fail_generation(r, step);
    if (step && !step_all_ended(r, step))
        return;
    if (run_launch(r)->state == LAUNCH_CONDEMNED)
        finish_launch(r, false);
    else
        start_generation(r);
}

/* Also before a later generation: a node that restarted does it again. It may run, or have failed: another controller has
 * started it. */
static void start_prolog(struct run *r)
{
    const struct plan_step *step = phase_step(r, PHASE_PROLOG);
    run_set_stage(r, STAGE_PROLOG);
    launch_set(run_launch(r), LAUNCH_GOES_ON);
    if (step && !step_has_failed(r, step)) {
        step_release(r, step);
        step_start(r, step, 0);
    }
    prolog_advance(r);
}

static void ports_known(struct run *r)
{
    run_launch(r)->next_port = 0;
    if (r->options.mode == RUN_LOOK) {
        if (!preflight_begin(r))
            run_look_end(r);
        return;
    }
    run_set_stage(r, STAGE_AGAIN);
    if (at_barrier(r) && !preflight_begin(r)) /* else the last one to reach it asks again */
        start_prolog(r);
}

void launch_go_on(struct run *r)
{
    if (r->stage != STAGE_PREFLIGHT || r->ending != ENDING_NOT) /* meanwhile something else has decided */
        return;
    run_set_stage(r, STAGE_AGAIN);
    if (at_barrier(r))
        start_prolog(r);
}

static void ask_one(struct run *r, uint32_t node, uint64_t token)
{
    run_effect(r, &(struct effect){.kind = EFFECT_ASK_PORT, .node = node, .token = token});
}

/* Asks for the ports that are missing; false: none is. One for the job's world, one for each role with its own. */
static bool ask_missing(struct run *r)
{
    const struct spec *spec = r->plan->spec;
    const struct lane *master = &r->lanes[r->plan->master];
    bool missing = spec->distributed.present && run_launch(r)->master_port == 0;
    if (missing && presence_is_here(master->presence))
        ask_one(r, master->index, PORT_TOKEN);
    for (uint32_t i = 0; i < spec->role_count; i++) {
        if (spec->roles[i].world != WORLD_OWN || r->plan->roles[i].count == 0 || run_launch(r)->role_ports[i])
            continue;
        const struct lane *lane = &r->lanes[r->plan->roles[i].master];
        if (presence_is_here(lane->presence))
            ask_one(r, lane->index, PORT_TOKEN + 1 + i);
        missing = true;
    }
    return missing;
}

/* A free port is asked for before each generation: the one of the last may still be in TIME_WAIT. For a restart the
 * question went out when the first worker failed, while the others were being stopped. */
static void ask_port(struct run *r)
{
    const struct spec *spec = r->plan->spec;
    bind_address(r);
    run_set_stage(r, STAGE_PORT);
    elastic_join(r);
    run_launch(r)->master_port =
        spec->distributed.master_port ? spec->distributed.master_port : run_launch(r)->next_port;
    for (size_t i = 0; i < spec->role_count; i++)
        run_launch(r)->role_ports[i] = spec->roles[i].master_port;
    if (!ask_missing(r))
        ports_known(r);
}

void launch_meet_elsewhere(struct run *r)
{
    if (r->stage == STAGE_PREFLIGHT && r->ending == ENDING_NOT)
        ask_port(r);
}

void launch_look(struct run *r)
{
    struct error ignored = ERROR_INIT; /* it is told for each node */
    bool all = bind_by_facts(r, &ignored) == 0;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        all = all && r->lanes[n].state != LANE_FAILED;
    run_launch(r)->master_port = 0;
    if (all || (r->plan->spec->role_count == 0 && r->lanes[r->plan->master].state != LANE_FAILED))
        ask_port(r);
    else
        ports_known(r); /* there is nobody to ask for one */
}

static bool is_taken(const struct run *r, uint32_t port)
{
    for (size_t i = 0; i < r->plan->spec->role_count; i++)
        if (run_launch(r)->role_ports[i] == port)
            return true;
    return run_launch(r)->master_port == port;
}

void launch_port(struct run *r, uint64_t token, uint32_t free_port)
{
    if (run_is_stopping(r))
        return;
    if (r->stage == STAGE_LAUNCH && token == PORT_TOKEN)
        run_launch(r)->next_port = free_port;
    if (r->stage != STAGE_PORT)
        return;
    uint64_t role = token - PORT_TOKEN - 1;
    uint32_t *port = token == PORT_TOKEN                ? &run_launch(r)->master_port
                     : role < r->plan->spec->role_count ? &run_launch(r)->role_ports[role]
                                                        : NULL;
    if (!port || *port) /* asked twice, over two connections */
        return;
    bool again = is_taken(r, free_port);
    if (!again)
        *port = free_port;
    for (size_t i = 0; i < r->plan->spec->role_count && !again; i++)
        if (r->plan->spec->roles[i].world == WORLD_OWN && r->plan->roles[i].count > 0 &&
            run_launch(r)->role_ports[i] == 0)
            return;
    if (again)
        ask_missing(r);
    else if (run_launch(r)->master_port || !r->plan->spec->distributed.present)
        ports_known(r);
}

void launch_will_restart(struct run *r)
{
    const struct spec_distributed *d = &r->plan->spec->distributed;
    if (r->stage == STAGE_LAUNCH && run_launch(r)->state == LAUNCH_GOES_ON && d->present && d->master_port == 0 &&
        (run_launch(r)->rules || rules_restarts_left(r) > 0))
        ask_one(r, r->plan->master, PORT_TOKEN);
}

/* A set-up step that failed counts for nothing here: it has ended well since, or its node is left out. */
static bool failed_behind_barrier(const struct run *r)
{
    return run_launch(r)->cause.step && run_launch(r)->cause.step->kind->phase != PHASE_SETUP;
}

void launch_barrier(struct run *r)
{
    if (r->options.mode != RUN_EXECUTE || run_is_stopping(r))
        return;
    elastic_join(r);
    for (uint32_t k = 0; k < r->plan->node_count; k++) { /* from the one that was not there the last time: no N * N */
        uint32_t n = (run_launch(r)->awaited + k) % r->plan->node_count;
        if (!r->lanes[n].left_out && (r->lanes[n].state != LANE_BARRIER || r->lanes[n].orphan_count > 0)) {
            run_launch(r)->awaited = n;
            return;
        }
    }
    if (r->stage == STAGE_PORT) {
        ask_missing(r); /* the question was lost with its connection */
        return;
    }
    if (r->stage == STAGE_PREFLIGHT) {
        preflight_again(r);
        return;
    }
    if (r->stage == STAGE_AGAIN) {
        ask_port(r);
        return;
    }
    if (r->stage != STAGE_SETUP)
        return;
    if (r->fetch_only) {
        struct error ignored = ERROR_INIT; /* of nodes that are not asked it is not known */
        bind_by_facts(r, &ignored);
        launch_set(run_launch(r), LAUNCH_OVER);
        run_set_stage(r, STAGE_LAUNCH);
        if (!outputs_begin(r))
            outputs_end(r);
        return;
    }
    if (!bind_ranks(r))
        return;
    if (run_launch(r)->generation > 0 || failed_behind_barrier(r))
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
    else if (cause == WIRE_CAUSE_PREEMPTED)
        snprintf(ret, size, "preempted: told to end by signal %d (%s), not by rhrun", value, strsignal(value));
    else if (outcome == OUTCOME_STOPPED)
        snprintf(ret, size, "stopped");
    else
        snprintf(ret, size, "failed");
}

/* A role that was not ready in time has said why in its own output: what looks for it prints nothing. */
static const char *cause_output(const struct run *r)
{
    const struct plan_step *s = run_launch(r)->cause.step;
    return s->kind->asks && s->wait_count > 0 ? r->plan->steps[s->waits[0].step].name : s->name;
}

/* "rank 3", or with roles "server[1] (rank 3)". */
const char *launch_worker_words(const struct run *r, uint32_t worker, char *ret, size_t size)
{
    uint32_t role_rank;
    const char *role = plan_role_of(r->plan, worker, &role_rank);
    if (!r->plan->roles)
        snprintf(ret, size, "rank %u", worker);
    else if (worker < r->plan->world_size)
        snprintf(ret, size, "%s[%u] (rank %u)", role, role_rank, worker);
    else
        snprintf(ret, size, "%s[%u]", role, role_rank);
    return ret;
}

/* What failed, and what its error file says: the agent has noted that at the end of the tail. */
static void cause_words(const struct run *r, char *ret, size_t size)
{
    static const char note[] = "rhrun: " WIRE_ERROR_NOTE;
    const struct cause *c = &run_launch(r)->cause;
    const char *line = NULL;
    run_cause_text(c->outcome, c->cause, c->value, ret, size);
    if (c->words)
        snprintf(ret, size, "%s", c->words);
    for (const char *p = c->tail; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL)
        line = p;
    size_t len = strlen(ret);
    if (line && str_starts(line, note))
        snprintf(ret + len, size - len, ": %.*s", (int)strcspn(line + strlen(note), "\n"), line + strlen(note));
}

bool launch_preempted(const struct run *r)
{
    return run_launch(r)->cause.step && run_launch(r)->cause.outcome == OUTCOME_FAILED &&
           run_launch(r)->cause.cause == WIRE_CAUSE_PREEMPTED;
}

/* result.error from the first cause. */
static void failure_text(struct run *r)
{
    struct run_result *res = &r->result;
    const enum error_code code = launch_preempted(r) ? ERROR_INFRA : ERROR_JOB;
    char what[480], worker[80];
    const struct cause *c = &run_launch(r)->cause;
    if (!c->step) {
        error_set(&res->error, ERROR_JOB, "the job failed");
        return;
    }
    cause_words(r, what, sizeof what);
    const char *name = r->lanes[c->node].name;
    if (c->outcome == OUTCOME_TIMED_OUT && c->step->timeout_ms)
        snprintf(what, sizeof what, "timed out after %.1f s", (double)c->step->timeout_ms / 1000);
    if (c->has_rank)
        error_set(&res->error, code, "%s on node \"%s\": %s", launch_worker_words(r, c->rank, worker, sizeof worker),
                  name, what);
    else
        error_set(&res->error, code, "%s on node \"%s\": %s", c->step->name, name, what);
    if (rules_words(r))
        error_set(&res->error, code, "%s", rules_words(r));
    if (run_launch(r)->restarts > 0)
        error_prefix(&res->error, "after %u restart%s", run_launch(r)->restarts,
                     run_launch(r)->restarts == 1 ? "" : "s");
    const struct plan_step *launch = phase_step(r, PHASE_LAUNCH);
    if (launch_preempted(r))
        error_hint(&res->error, "once the machine is there again, the same command starts the launch again");
    else if (c->has_rank)
        error_hint(&res->error, "its output: rhrun logs %s --rank %u", r->id, c->rank);
    else if (c->step == launch)
        error_hint(&res->error, "its output: rhrun logs %s", r->id);
    else
        error_hint(&res->error, "its output: rhrun logs %s --step %s", r->id, cause_output(r));
}

static void job_failed(struct run *r)
{
    failure_text(r);
    r->fail_status = RUN_FAILED;
}

static void finish_launch(struct run *r, bool good)
{
    launch_set(run_launch(r), LAUNCH_OVER);
    if (!good)
        job_failed(r);
    run_due(r, DUE_PARTED);
}

void launch_parted(struct run *r)
{
    if (run_launch(r)->state == LAUNCH_OVER && r->stage <= STAGE_LAUNCH && !run_is_stopping(r) && elastic_dismiss(r) &&
        !launch_epilog(r) && !outputs_begin(r))
        outputs_end(r);
}

char *launch_cause(const struct run *r)
{
    const struct cause *c = &run_launch(r)->cause;
    char what[480], worker[80];
    if (!c->step)
        return xstrdup("a worker failed");
    const char *name = r->lanes[c->node].name;
    cause_words(r, what, sizeof what);
    if (c->has_rank)
        return xasprintf("%s on node \"%s\": %s", launch_worker_words(r, c->rank, worker, sizeof worker), name, what);
    return xasprintf("node \"%s\": %s", name, what);
}

static void pause(struct run *r, uint64_t ms)
{
    alarm_set(run_launch(r)->pause, ms);
    run_changed(r);
}

/* The generation that follows a RESTART, once its backoff is over. */
static void start_again(struct run *r)
{
    const struct state_run *run = state_run_find(r->state, r->id);
    uint64_t now = wall_ms(), at = run ? run->resume_ms : 0;
    run_set_stage(r, STAGE_RESTARTING);
    if (at > now && at - now <= run->verdict.backoff_ms) /* else a clock was set */
        pause(r, at - now);
    else
        ask_port(r);
}

void run_on_pause(void *arg)
{
    struct run *r = arg;
    if (r->stage == STAGE_RESTARTING && r->ending == ENDING_NOT)
        ask_port(r);
}

static void generation_ended(struct run *r)
{
    struct event e;
    elastic_lose(r);
    if (run_launch(r)->state == LAUNCH_GOES_ON &&
        rules_condemned(r)) /* by what is not durable yet, and all have ended well */
        launch_set(run_launch(r), LAUNCH_CONDEMNED);
    if (run_launch(r)->state != LAUNCH_CONDEMNED) {
        finish_launch(r, true);
        return;
    }
    if (!rules_restart(r, &e)) {
        finish_launch(r, false);
        return;
    }
    run_launch(r)->restarts++;
    run_launch(r)->own_restarts += e.uncounted;
    run_set_stage(r, STAGE_RESTARTING);
    run_append(r, &e, NULL, NULL); /* durable before the RUNs it causes: they wait for STARTED, which is behind it */
    free((char *)(uintptr_t)e.reason);
    if (e.backoff_ms)
        pause(r, e.backoff_ms);
    else
        ask_port(r);
}

bool launch_epilog(struct run *r)
{
    const struct plan_step *step = phase_step(r, PHASE_EPILOG);
    if (!step || r->ending == ENDING_KILLED || r->stage == STAGE_EPILOG ||
        (r->stage != STAGE_LAUNCH && r->stage != STAGE_PROLOG && r->stage != STAGE_PORT && r->stage != STAGE_AGAIN &&
         r->stage != STAGE_RESTARTING && (r->stage != STAGE_PREFLIGHT || run_launch(r)->generation == 0)))
        return false;
    run_set_stage(r, STAGE_EPILOG);
    step_start(r, step, 0);
    return !step_all_ended(r, step); /* another controller may have started it */
}

static void epilog_ended(struct run *r, const struct plan_step *step)
{
    bool good = step_all_done(r, step);
    if (run_is_cancelled(r)) {
        run_due(r, DUE_END);
        return;
    }
    if (!good && r->fail_status == RUN_OPEN)
        job_failed(r);
    if (!outputs_begin(r))
        outputs_end(r);
}

/* By the tasks' states, not by the end at hand: ends that became durable together are all there before the first of them
 * is looked at, and a failure among them must not be found only after the others were taken for all. */
static void fail_generation(struct run *r, const struct plan_step *step)
{
    bool launch = step->kind->phase == PHASE_LAUNCH;
    if (run_launch(r)->state != LAUNCH_GOES_ON || !(launch ? parts_failed(r) : step_has_failed(r, step)))
        return;
    launch_set(run_launch(r), LAUNCH_CONDEMNED);
    if (launch)
        parts_stop(r);
    else
        step_end(r, step);
}

void launch_condemn(struct run *r)
{
    if (r->stage != STAGE_LAUNCH || run_launch(r)->state != LAUNCH_GOES_ON || run_is_stopping(r))
        return;
    launch_will_restart(r);
    launch_set(run_launch(r), LAUNCH_CONDEMNED);
    parts_stop(r);
}

void launch_without(struct run *r)
{
    run_due(r, r->stage == STAGE_PROLOG || r->stage == STAGE_LAUNCH ? DUE_LAUNCH : DUE_BARRIER);
}

/* A part of the launch has ended on all its nodes: perhaps somebody waits in vain for what it would have printed. */
static void parts_missed(struct run *r)
{
    for (size_t i = 0; i < r->plan->step_count; i++)
        if (r->plan->steps[i].kind->phase == PHASE_LAUNCH && step_all_done(r, &r->plan->steps[i]))
            ready_missed(r, &r->plan->steps[i]);
}

static void generation_pass(struct run *r)
{
    elastic_join(r); /* the prolog of one that is to join it may have ended */
    fail_generation(r, phase_step(r, PHASE_LAUNCH));
    if (run_launch(r)->state == LAUNCH_GOES_ON)
        parts_missed(r);
    parts_advance(r);
    if (parts_ended(r))
        generation_ended(r);
}

void launch_pass(struct run *r)
{
    const struct plan_step *epilog = phase_step(r, PHASE_EPILOG);
    if (r->stage == STAGE_EPILOG && step_all_ended(r, epilog))
        epilog_ended(r, epilog);
    if (run_is_stopping(r) || run_launch(r)->state == LAUNCH_OVER)
        return; /* run_check_end sees to it, or launch_parted */
    if (r->stage == STAGE_PROLOG)
        prolog_advance(r);
    else if (r->stage == STAGE_LAUNCH)
        generation_pass(r);
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
    return parts_begun(r);
}

static void resume_epilog(struct run *r, const struct plan_step *epilog, bool failed)
{
    if (failed)
        job_failed(r);
    launch_set(run_launch(r), LAUNCH_OVER);
    elastic_dismiss(r);
    run_set_stage(r, STAGE_EPILOG);
    step_start(r, epilog, 0);
    if (step_all_ended(r, epilog))
        epilog_ended(r, epilog);
}

bool launch_is_adopted(const struct run *r)
{
    const struct state_run *run = state_run_find(r->state, r->id);
    return run_launch(r)->generation > 0 && run && run->own_generation == 0;
}

uint32_t launch_generation(const struct wire_record *record)
{
    uint32_t n;
    const char *dash = record->launch ? strrchr(record->launch, '-') : NULL;
    return dash && parse_u32(dash + 1, &n) && n > 0 ? n : 1;
}

/* The launch begins anew, and counts as no restart. What still runs of this one is stopped before. */
static void reissue(struct run *r, const char *reason)
{
    parts_orphan(r);
    parts_reset(r);
    forget_what_followed(r);
    struct event e = {.type = EVENT_REISSUE, .generation = run_launch(r)->generation + 1, .reason = reason};
    run_append(r, &e, NULL, NULL); /* durable before the STARTED that it causes */
}

/* What was found done on some nodes only, by a run that started none of it (the journal was lost, or the run before had to
 * close), is of a launch that failed: the others would look for it in vain. And what never began on a node whose set-up
 * does not hold any more would begin with another. */
static void drop_half(struct run *r)
{
    if (launch_is_adopted(r) && (elastic_wanted(r) ? elastic_half(r) : parts_half(r)))
        reissue(r, "only some of the nodes have it from a run that this state directory does not know");
    else if (parts_held_in_doubt(r))
        reissue(r, "it had not begun on every node, and the set-up of one was changed meanwhile");
}

/* The controller was restarted behind the barrier: the tasks' states (from the journal) tell where it was. */
void launch_resume(struct run *r)
{
    const struct plan_step *prolog = phase_step(r, PHASE_PROLOG), *epilog = phase_step(r, PHASE_EPILOG);
    if (launch_is_adopted(r))
        parts_adopted(r);
    drop_half(r);
    bool begun = parts_begun(r);
    if (begun && !(epilog && has_begun(r, epilog)))
        rules_resume(r);
    bool failed = parts_failed(r) || (begun && rules_condemned(r));
    bind_address(r);
    if (!begun) {
        if (prolog && step_has_failed(r, prolog))
            start_prolog(r);
        else
            start_again(r);
        return;
    }
    run_set_stage(r, STAGE_LAUNCH);
    elastic_resume(r);
    failed = failed || parts_failed(r);
    launch_set(run_launch(r), failed ? LAUNCH_CONDEMNED : LAUNCH_GOES_ON);
    outputs_watch(r);
    if (prolog) /* of a node that joins */
        step_release(r, prolog);
    if (!failed)
        parts_release(r);
    parts_advance(r); /* what waits for others; and a lost journal may have left some that were not adopted */
    if (failed)
        parts_stop(r);
    elastic_join(r);
    if (!parts_ended(r))
        return;
    if (epilog && has_begun(r, epilog)) /* so the launch was judged before */
        resume_epilog(r, epilog, failed);
    else
        generation_ended(r);
}
