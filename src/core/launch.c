/* The barrier and everything after it: prolog, launch generations, restarts, epilog. All attempts of a generation are
 * in the journal before any of them is sent. The first failure stops all of them; when all have ended they start again
 * together, max_restarts times at most. */
#include "internal.h"
#include "rules.h"

#include <stdlib.h>
#include <string.h>

enum { PORT_TOKEN = 1 }; /* of the question for MASTER_PORT; the next tokens are those of the roles */

uint32_t launch_grace_ms(const struct run *r, uint32_t least)
{
    const struct spec_text *timeout = spec_flag_value(&r->plan->spec->distributed, "shutdown_timeout");
    uint32_t seconds = 0;
    if (!timeout || !parse_u32(timeout->text, &seconds))
        return least;
    if (r->plan->spec->distributed.launcher == LAUNCHER_NATIVE)
        return seconds * 1000; /* rhrun itself stops the workers */
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
    /* in the plan's arena: the plan may serve another run after this one */
    return plan_bind_ranks(r->plan, facts, r->plan->arena, err);
}

static bool bind_ranks(struct run *r)
{
    struct error err = ERROR_INIT;
    if (bind_by_facts(r, &err) == 0)
        return true;
    run_fail(r, RUN_FAILED, &err);
    return false;
}

static void bind_address(struct launch *l)
{
    struct run *r = l->run;
    const struct spec_host *host = roster_host(r->plan->roster, r->plan->master);
    const struct wire_facts *facts = r->lanes[r->plan->master].facts;
    if (l->master_addr)
        return;
    if (host->address)
        l->master_addr = host->address;
    else if (r->plan->spec->placement == PLACEMENT_HERE || r->plan->node_count == 1)
        l->master_addr = "127.0.0.1";
    else
        l->master_addr =
            arena_strdup(r->arena, facts && facts->address && facts->address[0] ? facts->address : host->host);
}

/* Whether every node is connected and at the barrier. A node that is away, or has not listed its records yet, may come
 * back without its set-up, or as another machine: then it does its set-up again first. */
static bool at_barrier(struct run *r)
{
    bool all = true;
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        struct lane *lane = &r->lanes[n];
        if (lane->left_out)
            continue;
        const bool ends = lane_is_ready(lane) && rules_replace(run_launch(r), lane);
        if (ends && outputs_saved(run_launch(r), lane))
            lane_replace(lane);
        if (lane->doubtful && lane_is_ready(lane)) {
            lane_doubt(lane);
            run_touch(r, n);
        }
        all = all && !ends && lane_is_ready(lane) && lane->state == LANE_BARRIER && lane->orphan_count == 0;
    }
    return all;
}

/* An epilog or outputs that were found belong to an earlier launch: they must not go on beside the next launch. */
static void forget_what_followed(struct launch *l)
{
    struct run *r = l->run;
    for (size_t i = l->first_step; i < l->end_step; i++)
        for (uint32_t n = 0; n < r->plan->node_count && r->plan->steps[i].kind->phase > PHASE_LAUNCH; n++) {
            const struct plan_step *step = &r->plan->steps[i];
            struct run_task *t = run_task(r, step, n);
            if (task_in_flight(t) && step->kind->fetch)
                outputs_stop(r, step, n);
            else if (task_in_flight(t))
                lane_orphan(&r->lanes[n], t->attempt);
            task_set_state(r, t, TASK_PENDING);
        }
}

/* ---- how far the launch is ---- */

static bool has_begun(struct run *r, const struct plan_step *step)
{
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (step->on[n] && run_task(r, step, n)->state != TASK_PENDING)
            return true;
    return false;
}

bool launch_has_begun(struct launch *l)
{
    return parts_begun(l);
}

/* The state of the launch, computed from its tasks; it is not stored. */
enum phase {
    AT_START,         /* nothing of the generation has begun */
    AT_FAILED_PROLOG, /* nothing of it has begun, or ever will */
    AT_WORK,          /* parts of it run, or will run */
    AT_END,           /* all parts have ended: it is not decided yet whether the launch starts again */
    AT_EPILOG         /* that was decided: the epilog has begun */
};

static enum phase phase_of(struct launch *l)
{
    struct run *r = l->run;
    const struct plan_step *prolog = launch_step(l, PHASE_PROLOG), *epilog = launch_step(l, PHASE_EPILOG);
    if (!parts_begun(l))
        return prolog && step_has_failed(r, prolog) ? AT_FAILED_PROLOG : AT_START;
    if (!parts_ended(l))
        return AT_WORK;
    return epilog && has_begun(r, epilog) ? AT_EPILOG : AT_END;
}

bool launch_starts_again(const struct launch *l)
{
    const struct state_run *run = run_recorded(l->run);
    return run && run->generation > l->generation;
}

bool launch_complete(struct launch *l)
{
    struct run *r = l->run;
    const struct plan_step *epilog = launch_step(l, PHASE_EPILOG);
    return !launch_starts_again(l) && launch_over(l) && parts_ended(l) && (!epilog || step_all_done(r, epilog)) &&
           outputs_complete(l);
}

static void finish_launch(struct launch *l, bool good);

/* The prolog, or the generation, has failed: parts that run are stopped, and parts that have not begun never will. */
static void condemn(struct launch *l, const struct plan_step *step)
{
    launch_set(l, LAUNCH_CONDEMNED);
    if (step->kind->phase == PHASE_LAUNCH)
        parts_stop(l);
    else
        step_end(l->run, step);
}

/* Decides by the tasks' states, not by the one end that caused the call: if several ends became durable together, the
 * states have all of them before the first one is handled. So the ends of parts that ended well cannot hide a failure
 * among them. */
static void fail_generation(struct launch *l, const struct plan_step *step)
{
    bool launch = step->kind->phase == PHASE_LAUNCH;
    if (l->state == LAUNCH_GOES_ON && (launch ? parts_failed(l) : step_has_failed(l->run, step)))
        condemn(l, step);
}

/* The present generation goes on. It begins now, or another controller has begun it. */
static void generation_goes_on(struct launch *l)
{
    struct run *r = l->run;
    const struct plan_step *prolog = launch_step(l, PHASE_PROLOG);
    if (phase_of(l) != AT_EPILOG)
        rules_begin(l);
    bind_address(l);
    run_set_stage(r, STAGE_LAUNCH);
    launch_set(l, LAUNCH_GOES_ON);
    bool failed =
        parts_failed(l); /* perhaps too few nodes were connected: the failure stays, even if other nodes are back now */
    elastic_members(l);
    if (prolog) /* of a node that joins */
        step_release(r, prolog);
    if (failed || rules_condemned(l))
        condemn(l, launch_step(l, PHASE_LAUNCH));
    fail_generation(l, launch_step(l, PHASE_LAUNCH));
    if (l->state == LAUNCH_GOES_ON)
        parts_release(l);
    parts_advance(l);
    outputs_watch(l);
    elastic_join(l);
}

static void start_generation(struct launch *l)
{
    struct run *r = l->run;
    l->next_port = 0;
    run_set_stage(r, STAGE_AGAIN);
    forget_what_followed(l);
    if (!at_barrier(r))
        return;
    l->generation++;
    run_chance(l->run, l->nonce, sizeof l->nonce / 2);
    l->cause = r->cause = (struct cause){0};
    l->adopted = NULL;
    parts_reset(l);
    generation_goes_on(l);
}

static void prolog_advance(struct launch *l)
{
    struct run *r = l->run;
    const struct plan_step *step = launch_step(l, PHASE_PROLOG);
    if (step)
        fail_generation(l, step);
    if (step && !step_all_ended(r, step))
        return;
    if (l->state == LAUNCH_CONDEMNED)
        finish_launch(l, false);
    else
        start_generation(l);
}

/* Also before a later generation: a node that has restarted does the prolog again. Another controller may have started
 * the prolog: then it runs, or has failed. */
static void start_prolog(struct launch *l)
{
    struct run *r = l->run;
    const struct plan_step *step = launch_step(l, PHASE_PROLOG);
    run_set_stage(r, STAGE_PROLOG);
    launch_set(l, LAUNCH_GOES_ON);
    if (step && !step_has_failed(r, step)) {
        step_release(r, step);
        step_start(r, step, 0);
    }
    prolog_advance(l);
}

static void ports_known(struct launch *l)
{
    struct run *r = l->run;
    l->next_port = 0;
    l->master_addr = NULL; /* its node may be another machine by now */
    bind_address(l);
    if (r->options.mode == RUN_LOOK) {
        if (!preflight_begin(l))
            run_look_end(r);
        return;
    }
    run_set_stage(r, STAGE_AGAIN);
    if (at_barrier(r) && !preflight_begin(l)) /* else this function runs again when the last node reaches the barrier */
        start_prolog(l);
}

void launch_go_on(struct launch *l)
{
    struct run *r = l->run;
    if (r->stage != STAGE_PREFLIGHT || r->ending != ENDING_NOT) /* something else was decided meanwhile */
        return;
    run_set_stage(r, STAGE_AGAIN);
    if (at_barrier(r))
        start_prolog(l);
}

static void ask_one(struct run *r, uint32_t node, uint64_t token)
{
    run_effect(r, &(struct effect){.kind = EFFECT_ASK_PORT, .node = node, .token = token});
}

/* Asks for the ports that are missing: one for the job's world, one for each role with a world of its own. False: none
 * is missing. */
static bool ask_missing(struct launch *l)
{
    struct run *r = l->run;
    const struct spec *spec = r->plan->spec;
    const struct lane *master = &r->lanes[r->plan->master];
    bool missing = spec->distributed.present && l->master_port == 0;
    if (missing && presence_is_here(master->presence))
        ask_one(r, master->index, PORT_TOKEN);
    for (uint32_t i = 0; i < spec->role_count; i++) {
        if (spec->roles[i].world != WORLD_OWN || r->plan->roles[i].count == 0 || l->role_ports[i])
            continue;
        const struct lane *lane = &r->lanes[r->plan->roles[i].master];
        if (presence_is_here(lane->presence))
            ask_one(r, lane->index, PORT_TOKEN + 1 + i);
        missing = true;
    }
    return missing;
}

/* Asks for a free port before each generation, because the port of the last one may still be in TIME_WAIT. For a
 * restart the question went out when the first worker failed, while the others were being stopped. */
static void ask_port(struct launch *l)
{
    struct run *r = l->run;
    const struct spec *spec = r->plan->spec;
    bind_address(l);
    run_set_stage(r, STAGE_PORT);
    elastic_join(l);
    l->master_port = spec->distributed.master_port ? spec->distributed.master_port : l->next_port;
    for (size_t i = 0; i < spec->role_count; i++)
        l->role_ports[i] = spec->roles[i].master_port;
    if (!ask_missing(l))
        ports_known(l);
}

void launch_meet_elsewhere(struct launch *l)
{
    struct run *r = l->run;
    if (r->stage == STAGE_PREFLIGHT && r->ending == ENDING_NOT)
        ask_port(l);
}

void launch_look(struct launch *l)
{
    struct run *r = l->run;
    struct error ignored = ERROR_INIT; /* preflight reports it for each node */
    bool all = bind_by_facts(r, &ignored) == 0;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        all = all && r->lanes[n].state != LANE_FAILED;
    l->master_port = 0;
    if (all || (r->plan->spec->role_count == 0 && r->lanes[r->plan->master].state != LANE_FAILED))
        ask_port(l);
    else
        ports_known(l); /* no node can be asked for a port */
}

static bool is_taken(const struct launch *l, uint32_t port)
{
    const struct run *r = l->run;
    for (size_t i = 0; i < r->plan->spec->role_count; i++)
        if (l->role_ports[i] == port)
            return true;
    return l->master_port == port;
}

void launch_port(struct launch *l, uint64_t token, uint32_t free_port)
{
    struct run *r = l->run;
    if (run_is_stopping(r))
        return;
    if (r->stage == STAGE_LAUNCH && token == PORT_TOKEN)
        l->next_port = free_port;
    if (r->stage != STAGE_PORT)
        return;
    uint64_t role = token - PORT_TOKEN - 1;
    uint32_t *port = token == PORT_TOKEN                ? &l->master_port
                     : role < r->plan->spec->role_count ? &l->role_ports[role]
                                                        : NULL;
    if (!port || *port) /* the question went out twice, over two connections */
        return;
    bool again = is_taken(l, free_port);
    if (!again)
        *port = free_port;
    for (size_t i = 0; i < r->plan->spec->role_count && !again; i++)
        if (r->plan->spec->roles[i].world == WORLD_OWN && r->plan->roles[i].count > 0 && l->role_ports[i] == 0)
            return;
    if (again)
        ask_missing(l);
    else if (l->master_port || !r->plan->spec->distributed.present)
        ports_known(l);
}

void launch_will_restart(struct launch *l)
{
    struct run *r = l->run;
    const struct spec_distributed *d = &r->plan->spec->distributed;
    if (r->stage == STAGE_LAUNCH && l->state == LAUNCH_GOES_ON && d->present && d->master_port == 0 &&
        (l->rules || rules_restarts_left(l) > 0))
        ask_one(r, r->plan->master, PORT_TOKEN);
}

/* ---- ends ---- */

static void job_failed(struct launch *l)
{
    struct run *r = l->run;
    launch_failure(l);
    r->fail_status = RUN_FAILED;
}

static void finish_launch(struct launch *l, bool good)
{
    struct run *r = l->run;
    launch_set(l, LAUNCH_OVER);
    if (!good)
        job_failed(l);
    run_due(r, DUE_PARTED);
}

static void pause(struct launch *l, uint64_t ms)
{
    struct run *r = l->run;
    alarm_set(l->pause, ms);
    run_changed(r);
}

/* Begins the generation that follows a RESTART, once its backoff is over. */
static void start_again(struct launch *l)
{
    struct run *r = l->run;
    const struct state_run *run = run_recorded(r);
    uint64_t at = run ? run->resume_ms : 0, now = at ? run_wall_ms(r) : 0;
    run_set_stage(r, STAGE_RESTARTING);
    if (at > now && at - now <= run->verdict.backoff_ms) /* else a clock was changed */
        pause(l, at - now);
    else
        ask_port(l);
}

void launch_on_pause(void *arg)
{
    struct launch *l = arg;
    if (l->run->stage == STAGE_RESTARTING && l->run->ending == ENDING_NOT)
        ask_port(l);
}

static void generation_ended(struct launch *l)
{
    struct run *r = l->run;
    struct event e = {.type = EVENT_RESTART};
    elastic_lose(l);
    /* all parts have ended well, but there is a verdict, which is not durable yet */
    if (l->state == LAUNCH_GOES_ON && rules_condemned(l))
        launch_set(l, LAUNCH_CONDEMNED);
    if (l->state != LAUNCH_CONDEMNED) {
        finish_launch(l, true);
        return;
    }
    if (!rules_restart(l, &e.restart)) {
        finish_launch(l, false);
        return;
    }
    run_set_stage(r, STAGE_RESTARTING);
    run_append(r, &e); /* durable before the RUNs that it causes: they wait for STARTED, which follows it */
    free((char *)(uintptr_t)e.restart.reason);
    if (e.restart.backoff_ms)
        pause(l, e.restart.backoff_ms);
    else
        ask_port(l);
}

bool launch_epilog(struct launch *l)
{
    struct run *r = l->run;
    const struct plan_step *step = launch_step(l, PHASE_EPILOG);
    if (!step || r->ending == ENDING_KILLED || r->stage == STAGE_EPILOG ||
        (r->stage != STAGE_LAUNCH && r->stage != STAGE_PROLOG && r->stage != STAGE_PORT && r->stage != STAGE_AGAIN &&
         r->stage != STAGE_RESTARTING && (r->stage != STAGE_PREFLIGHT || l->generation == 0)))
        return false;
    run_set_stage(r, STAGE_EPILOG);
    step_start(r, step, 0);
    return !step_all_ended(r, step); /* another controller may have started it */
}

static void epilog_ended(struct launch *l)
{
    struct run *r = l->run;
    const struct plan_step *epilog = launch_step(l, PHASE_EPILOG);
    if (run_is_cancelled(r)) {
        run_due(r, DUE_END);
        return;
    }
    if (epilog && !step_all_done(r, epilog) && r->fail_status == RUN_OPEN)
        job_failed(l);
    if (!outputs_begin(l))
        outputs_end(l);
}

void launch_parted(struct launch *l)
{
    struct run *r = l->run;
    if (l->state == LAUNCH_OVER && r->stage <= STAGE_LAUNCH && !run_is_stopping(r) && elastic_dismiss(l) &&
        !launch_epilog(l))
        epilog_ended(l);
}

void launch_condemn(struct launch *l)
{
    struct run *r = l->run;
    if (r->stage != STAGE_LAUNCH || l->state != LAUNCH_GOES_ON || run_is_stopping(r))
        return;
    launch_will_restart(l);
    condemn(l, launch_step(l, PHASE_LAUNCH));
}

void launch_without(struct launch *l)
{
    struct run *r = l->run;
    run_due(r, r->stage == STAGE_PROLOG || r->stage == STAGE_LAUNCH ? DUE_LAUNCH : DUE_BARRIER);
}

/* If a part of the launch has ended on all its nodes, a step may wait in vain for a line that this part should have
 * printed. */
static void parts_missed(struct launch *l)
{
    struct run *r = l->run;
    for (size_t i = l->first_step; i < l->end_step; i++)
        if (r->plan->steps[i].kind->phase == PHASE_LAUNCH && step_all_done(r, &r->plan->steps[i]))
            ready_missed(l, &r->plan->steps[i]);
}

static void generation_pass(struct launch *l)
{
    elastic_join(l); /* the prolog of a node that should join may have ended */
    fail_generation(l, launch_step(l, PHASE_LAUNCH));
    if (l->state == LAUNCH_GOES_ON)
        parts_missed(l);
    parts_advance(l);
    switch (phase_of(l)) {
    case AT_START:
    case AT_FAILED_PROLOG:
    case AT_WORK:
        break;
    case AT_END:
        generation_ended(l);
        break;
    case AT_EPILOG:
        finish_launch(l, l->state == LAUNCH_GOES_ON);
        break;
    }
}

void launch_pass(struct launch *l)
{
    struct run *r = l->run;
    if (r->stage == STAGE_EPILOG && step_all_ended(r, launch_step(l, PHASE_EPILOG)))
        epilog_ended(l);
    if (run_is_stopping(r) || l->state == LAUNCH_OVER)
        return; /* run_check_end or launch_parted handles that */
    if (r->stage == STAGE_PROLOG)
        prolog_advance(l);
    else if (r->stage == STAGE_LAUNCH)
        generation_pass(l);
}

bool launch_is_adopted(const struct launch *l)
{
    const struct run *r = l->run;
    const struct state_run *run = run_recorded(r);
    return l->generation > 0 && run && run->own_generation == 0;
}

uint32_t launch_generation(const struct wire_record *record)
{
    uint32_t n;
    const char *dash = record->launch ? strrchr(record->launch, '-') : NULL;
    return dash && parse_u32(dash + 1, &n) && n > 0 ? n : 1;
}

/* The launch begins again; this does not count as a restart. First, parts of the present generation that still run are
 * stopped. */
static void reissue(struct launch *l, const char *reason)
{
    struct run *r = l->run;
    parts_orphan(l);
    parts_reset(l);
    forget_what_followed(l);
    struct event e = {.type = EVENT_REISSUE, .reissue = {.generation = l->generation + 1, .reason = reason}};
    run_append(r, &e); /* durable before the STARTED that it causes */
}

static bool is_half(struct launch *l)
{
    return launch_is_adopted(l) && (elastic_wanted(l->run) ? elastic_half(l) : parts_half(l));
}

/* A run that started no part of the launch may find parts done on only some of the nodes (the journal was lost, or the
 * run before had to close). They belong to a launch that failed: parts on the other nodes would look for them in vain.
 * A part that has not begun, on a node whose set-up does not hold any more, would begin on a different set-up. And a
 * part on a rented machine that is gone will never end. */
static void drop_half(struct launch *l)
{
    /* once the epilog has begun, an earlier controller has decided how the launch ended */
    const char *replaced = phase_of(l) == AT_EPILOG ? NULL : replaced_part(l);
    if (replaced)
        reissue(l, arena_printf(l->run->arena, "the machine of node \"%s\" is gone, and its part of the launch with it",
                                replaced));
    else if (is_half(l))
        reissue(l, "only some of the nodes have it from a run that this state directory does not know");
    else if (parts_held_undone(l))
        reissue(l, "it had not begun on every node, and the set-up of one was changed meanwhile");
}

/* A launch that this run did not begin has ended on the nodes that are connected. Perhaps only a node that is left out
 * knows whether these are all parts of the launch, and whether it is the latest launch. If such a node was not asked,
 * nothing is decided. */
static bool is_in_question(struct launch *l)
{
    const struct state_run *run = run_recorded(l->run);
    return run->own_generation == 0 && (run->generation == 0 ? parts_found(l) : is_half(l)) && elastic_leave_open(l);
}

/* All nodes are at the barrier. Parts of the launch that were found in the journal or on the nodes go on; other parts
 * begin. */
static void take_up(struct launch *l)
{
    const bool own = run_recorded(l->run)->own_generation > 0;
    /* a part is held: when its node has listed its records, or is gone, this function runs again */
    if (parts_held_away(l) || is_in_question(l))
        return;
    if ((own || !parts_adopted(l)) && (own || l->cause.step)) /* this run has begun something */
        parts_done_by_another(l);
    drop_half(l);
    switch (phase_of(l)) {
    case AT_START:
        start_again(l);
        break;
    case AT_FAILED_PROLOG:
        start_prolog(l);
        break;
    case AT_WORK:
    case AT_END:
    case AT_EPILOG:
        generation_goes_on(l);
        run_due(l->run, DUE_LAUNCH); /* all parts may have ended */
        break;
    }
}

void launch_barrier(struct launch *l)
{
    struct run *r = l->run;
    if (r->options.mode != RUN_EXECUTE || r->ending != ENDING_NOT)
        return;
    elastic_join(l);
    /* begins with the node that was missing last time: otherwise this would cost N * N */
    for (uint32_t k = 0; k < r->plan->node_count; k++) {
        uint32_t n = (l->awaited + k) % r->plan->node_count;
        const struct lane *lane = &r->lanes[n];
        if (!lane->left_out && (lane->state != LANE_BARRIER || lane->orphan_count > 0 || !lane_has_listed(lane))) {
            l->awaited = n;
            return;
        }
    }
    if (r->stage == STAGE_PORT) {
        ask_missing(l); /* the question may have been lost with its connection */
        return;
    }
    if (r->stage == STAGE_PREFLIGHT) {
        preflight_again(l);
        return;
    }
    if (r->stage == STAGE_AGAIN) {
        ask_port(l);
        return;
    }
    if (r->stage != STAGE_SETUP)
        return;
    if (r->fetch_only) {
        struct error ignored = ERROR_INIT; /* nodes that are not connected have no facts */
        bind_by_facts(r, &ignored);
        launch_set(l, LAUNCH_OVER);
        run_set_stage(r, STAGE_LAUNCH);
        if (!outputs_begin(l))
            outputs_end(l);
        return;
    }
    if (bind_ranks(r))
        take_up(l);
}
