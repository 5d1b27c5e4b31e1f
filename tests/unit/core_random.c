#include "core_random.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { CONTROLLER_MS_MAX = 4 * 3600 * 1000, CONTROLLER_STEPS_MAX = 200000, STILL_MAX = 200 };

static bool chance(struct random_job *job, unsigned of_1000)
{
    return world_random(&job->rng) % 1000 < of_1000;
}

/* Uses one of the faults that are left. */
static bool fault(struct random_job *job, unsigned of_1000)
{
    bool strikes = chance(job, of_1000);
    if (!strikes || job->faults == 0)
        return false;
    job->faults--;
    job->struck++;
    return true;
}

static bool violated(void *arg, const char *what)
{
    struct random_job *job = arg;
    if (!job->violation[0]) {
        snprintf(job->violation, sizeof job->violation, "%s", what);
        world_say(job->world, "VIOLATED: %s", what);
    }
    return true;
}

static void FORMAT(2, 3) violate(struct random_job *job, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *text = xvasprintf(fmt, ap);
    va_end(ap);
    violated(job, text);
}

/* ---- programs ---- */

static struct world_program random_program(uint64_t seed, bool elastic, uint32_t node, const struct plan_step *step,
                                           uint32_t number)
{
    const bool launch = step->kind->phase == PHASE_LAUNCH;
    uint64_t rng = world_mix(world_mix(seed, node * 1000 + step->id), number);
    struct world_program p = {.tail = ""};
    p.ms = world_random(&rng) % 100 < 30 ? 0 : (uint32_t)(world_random(&rng) % 2000);
    unsigned dice = (unsigned)(world_random(&rng) % 100);
    if (launch && elastic) {
        p.ms = (uint32_t)(world_random(&rng) % 30000); /* so that others come and go meanwhile */
        if (number <= 6 && dice >= 80)
            p = (struct world_program){p.ms, WIRE_CAUSE_SIGNAL, 9, ""};
        else if (number <= 6 && dice >= 70)
            p = (struct world_program){p.ms, WIRE_CAUSE_EXIT, 1,
                                       "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: x"};
    }
    if (number <= 6 && dice < (launch ? 12 : 8))
        p = (struct world_program){p.ms, WIRE_CAUSE_EXIT, 3, "Error: x"};
    return p;
}

/* Identifies the launch for a journal: the generation, counted after those of earlier runs. */
static uint32_t launch_number(const struct world *w, const char *launch)
{
    uint32_t number = world_generation(launch);
    for (size_t i = 0; i < w->journal_count; i++)
        number += w->journal[i].type == EVENT_RUN_CLOSED;
    return number;
}

uint32_t random_start_number(const struct random_job *job, const struct world *w, const struct plan_step *step,
                             const char *launch, uint32_t number)
{
    return step->kind->phase == PHASE_LAUNCH && !job->elastic ? launch_number(w, launch) : number;
}

static void program(void *arg, const struct world_node *n, const struct world_record *r, struct world_program *ret)
{
    const struct random_job *job = arg;
    *ret = random_program(job->seed, job->elastic, n->index, r->step,
                          random_start_number(job, job->world, r->step, r->launch, r->number));
    if (job->rented && r->step->kind->phase == PHASE_LAUNCH && ret->cause == WIRE_CAUSE_EXIT && ret->ms % 2)
        *ret = (struct world_program){ret->ms, WIRE_CAUSE_PREEMPTED, SIGTERM, ""};
}

/* ---- files ---- */

static const struct spec_output *output_of(const struct plan_step *step)
{
    return step->kind->phase == PHASE_OUTPUTS ? step->item : NULL;
}

static struct random_file *file_of(struct random_job *job, const struct plan_step *step, uint32_t node)
{
    return &job->files[output_of(step) - job->outputs][node];
}

/* Whether the journal has it as fetched, since the latest launch began and in the present run. */
static bool is_here(const struct world *w, const struct plan_step *step, uint32_t node)
{
    for (size_t i = w->journal_count; i-- > 0;) {
        const struct event *e = &w->journal[i];
        if (e->type == EVENT_RUN_OPENED || (e->type == EVENT_STARTED && e->started.generation > 0))
            return false;
        if (e->type == EVENT_FINISHED && e->finished.node == node && str_eq(e->finished.step, step->name))
            return e->finished.outcome == OUTCOME_OK && !(e->finished.tail && *e->finished.tail);
    }
    return false;
}

/* Some are missing at first; a later run finds them. */
static enum fetch_end files_of(void *arg, const struct world_node *n, const struct plan_step *step, bool periodic)
{
    const struct random_job *job = arg;
    const struct world *w = job->world;
    uint32_t closed = 0;
    for (size_t i = 0; i < w->journal_count; i++)
        closed += w->journal[i].type == EVENT_RUN_CLOSED;
    uint64_t rng = world_mix(world_mix(job->seed, n->index * 1000 + step->id), 5000 + closed);
    bool missing = closed < 6 && world_random(&rng) % 100 < 15;
    (void)periodic;
    return !missing ? FETCH_DONE : output_of(step)->required ? FETCH_NOTHING : FETCH_EMPTY;
}

const struct world_watch random_quiet = {.program = program, .violated = violated, .fetched = files_of};

/* ---- what the nodes see ---- */

static struct made_up_track *track_of(struct random_job *job, uint32_t node, const struct plan_step *step)
{
    return step->kind->phase == PHASE_SETUP ? &job->track[step->id][node] : NULL;
}

/* Whether all of the latest launch has ended well. */
static bool launch_is_whole(const struct random_job *job)
{
    const struct spec_distributed *d = &job->spec.distributed;
    uint32_t ok = 0, wanted = !d->present ? 1 : job->elastic ? d->min_nodes : job->world->node_count;
    for (uint32_t n = 0; n < job->spec.node_count; n++) {
        bool of_it = job->generation[0] && strcmp(job->last[n], job->generation) == 0;
        if (of_it && (job->launch_live[n] || !job->launch_ok[n]))
            return false;
        ok += of_it;
    }
    return ok >= wanted && strcmp(job->last[0], job->generation) == 0;
}

static void check_order(struct random_job *job, uint32_t node, const struct plan_step *step)
{
    for (size_t i = 0; i < step->id; i++)
        if (job->setup[i].on == ON_FIRST && !job->track[i][0].ever)
            violate(job, "\"%s\" starts on node %u, but \"%s\" before it is not done on the first", step->name, node,
                    job->setup[i].name);
}

/* Whether something is gone that a step had made. */
static bool is_unmade(const struct random_job *job)
{
    for (size_t i = 0; i < job->spec.setup_count; i++)
        for (uint32_t n = 0; n < job->spec.node_count; n++)
            if (job->setup[i].creates.text && job->track[i][n].ok && !job->world->nodes[n].made[i])
                return true;
    return false;
}

static void launch_started(struct random_job *job, uint32_t node, const struct world_record *r)
{
    if (job->generation[0] && strcmp(r->launch, job->generation) != 0) {
        bool lost = false;
        for (uint32_t n = 0; n < job->spec.node_count; n++)
            lost = lost || job->launch_lost[n];
        if (!job->launch_excused && !lost && !job->unmade)
            violate(job, "the launch on node %u was started again without a reason", node);
        job->launch_excused = job->epilog_failed = job->closed_badly = false;
        job->unmade = is_unmade(job);
    } else if (strcmp(r->launch, job->last[node]) == 0 && job->launch_ok[node] && !job->launch_lost[node]) {
        violate(job, "the part of node %u was started again though it had ended well", node);
    }
    memcpy(job->generation, r->launch, sizeof job->generation);
    memcpy(job->last[node], r->launch, sizeof job->last[node]);
    job->launch_lost[node] = job->launch_ok[node] = false;
    for (size_t i = 0; i < RANDOM_STEPS_MAX; i++)
        for (uint32_t n = 0; n < RANDOM_NODES_MAX; n++)
            job->track[i][n].launched = false;
    job->launch_live[node] = true;
}

static void started(void *arg, const struct world_node *n, const struct world_record *r)
{
    struct random_job *job = arg;
    struct made_up_track *t = track_of(job, n->index, r->step);
    if (t) {
        if (t->started && t->ok && !t->excused && !(job->redoing && r->step->id >= job->redoing - 1))
            violate(job, "%s on node %u was started again though it had ended well", r->step->slot, n->index);
        check_order(job, n->index, r->step);
        *t = (struct made_up_track){
            .started = true, .live = true, .unsettled = true, .ever = t->ever, .launched = t->launched};
    } else if (r->step->kind->phase == PHASE_LAUNCH) {
        launch_started(job, n->index, r);
    }
}

static void ended(void *arg, const struct world_node *n, const struct world_record *r)
{
    struct random_job *job = arg;
    struct made_up_track *t = track_of(job, n->index, r->step);
    bool ok = r->state == WIRE_STATE_ENDED && !r->program.cause && !r->stopped;
    if (t) {
        t->live = false;
        t->ok = ok;
        t->ever = t->ever || ok;
        return;
    }
    job->launch_excused = job->launch_excused || !ok;
    job->epilog_failed = job->epilog_failed || (!ok && r->step->kind->phase == PHASE_EPILOG);
    if (r->step->kind->phase != PHASE_LAUNCH)
        return;
    job->launch_ok[n->index] = ok;
    job->launch_live[n->index] = false;
    if (!launch_is_whole(job))
        return;
    job->launch_excused = job->epilog_failed || job->closed_badly; /* a reason for another launch comes later */
    for (size_t i = 0; i < RANDOM_STEPS_MAX; i++)
        for (uint32_t k = 0; k < RANDOM_NODES_MAX; k++)
            job->track[i][k].launched = job->track[i][k].ok;
}

/* Whether the run failed only because files were missing. Then its launch is kept. */
static bool only_files_missed(const struct random_job *job)
{
    struct state *s = world_replay(job->world);
    const struct state_run *run = state_run_latest(s, NULL);
    bool only = run && !job->elastic && run->status == RUN_FAILED && !run->cancelling && launch_is_whole(job) &&
                !job->epilog_failed;
    state_destroy(s);
    return only;
}

static void check_budget(struct random_job *job)
{
    struct state *s = world_replay(job->world);
    const struct state_run *run = state_run_latest(s, NULL);
    for (uint32_t i = 0; run && i < run->rule_count; i++)
        if (run->rules[i].number == 0 || run->rules[i].times > job->rules[run->rules[i].number - 1].times)
            violate(job, "rule %u has counted %u times", run->rules[i].number, run->rules[i].times);
    state_destroy(s);
}

static void durable(void *arg, const struct event *e)
{
    struct random_job *job = arg;
    const struct event_finished *end = &e->finished;
    if (e->type == EVENT_RULE)
        check_budget(job);
    if (e->type == EVENT_SETTLED)
        for (size_t i = 0; i < RANDOM_STEPS_MAX; i++)
            job->track[i][e->settled.node].unsettled = job->track[i][e->settled.node].live;
    if (e->type == EVENT_RUN_CLOSED && e->closed.status != RUN_DONE && !only_files_missed(job))
        job->launch_excused = true;
    job->closed_badly =
        job->closed_badly || (job->elastic && e->type == EVENT_RUN_CLOSED && e->closed.status != RUN_DONE);
    if (e->type == EVENT_RUN_OPENED && e->opened.from_step)
        job->from = NULL;
    if (e->type == EVENT_FINISHED && end->outcome == OUTCOME_UNKNOWN) {
        bool lost = job->elastic && str_eq(end->tail, "the node is lost"); /* and the others continued */
        if (!job->disturbed[end->node] && !lost)
            violate(job, "the outcome of %s on node %u is called unknown, and nothing happened there", end->step,
                    end->node);
        job->launch_excused = true;
    }
    if (fault(job, 10))
        job->kills = true;
}

static enum fetch_end fetched(void *arg, const struct world_node *n, const struct plan_step *step, bool periodic)
{
    struct random_job *job = arg;
    struct random_file *f = file_of(job, step, n->index);
    const enum fetch_end how = fault(job, 30) ? FETCH_BROKEN : files_of(arg, n, step, periodic);
    if (periodic)
        return how;
    if (job->launch_live[n->index])
        violate(job, "%s is fetched from node %u for good, and the launch runs there", step->name, n->index);
    if (is_here(job->world, step, n->index))
        violate(job, "%s is fetched from node %u again, and is here", step->name, n->index);
    if (how == FETCH_DONE)
        memcpy(f->generation, job->generation, sizeof f->generation);
    return how;
}

/* ---- events by themselves ---- */

static enum world_find find(void *arg, uint32_t *ret_node)
{
    struct random_job *job = arg;
    if (!fault(job, 60))
        return FINDS_NOTHING;
    *ret_node = (uint32_t)(world_random(&job->rng) % job->world->node_count);
    return (enum world_find)(1 + world_random(&job->rng) % 3);
}

static enum world_fault frame(void *arg, uint32_t node, bool is_run)
{
    static const enum world_fault kinds[] = {WORLD_CUT_BEFORE, WORLD_CUT_AFTER, WORLD_FREEZE};
    struct random_job *job = arg;
    (void)node;
    if (!fault(job, 20))
        return WORLD_PASS;
    if (is_run && world_random(&job->rng) % 20 == 0)
        return WORLD_REFUSED;
    return kinds[world_random(&job->rng) % ARRAY_LEN(kinds)];
}

static bool refuse(void *arg, uint32_t node)
{
    (void)node;
    return fault(arg, 15);
}

static void excuse(struct random_job *job, uint32_t node, bool all)
{
    for (size_t i = 0; i < RANDOM_STEPS_MAX; i++) {
        struct made_up_track *t = &job->track[i][node];
        t->rebooted = true;
        t->excused = t->excused || t->unsettled || all;
    }
    job->launch_excused = job->launch_lost[node] = true;
}

static void replaced(void *arg, uint32_t node)
{
    struct random_job *job = arg;
    excuse(job, node, true);
    job->disturbed[node] = true;
    job->vanished[node] = false;
}

/* Removes what a step creates. */
static void unmake(struct random_job *job, uint32_t node)
{
    for (size_t i = 0; i < job->plan->step_count; i++)
        if (job->world->nodes[node].made[i] && !job->track[i][node].unsettled) {
            for (size_t k = i; k < RANDOM_STEPS_MAX; k++) /* the steps after it chain to it */
                job->track[k][node].excused = true;
            job->unmade = true;
            world_unmake(job->world, node, i);
            if (job->seen)
                world_cut(job->world, node, false);
            return;
        }
}

static void accident(struct random_job *job)
{
    struct world *w = job->world;
    const uint32_t node = (uint32_t)(world_random(&job->rng) % w->node_count);
    const unsigned kind = (unsigned)(world_random(&job->rng) % 100);
    const uint64_t more = world_random(&job->rng);
    job->disturbed[node] = job->disturbed[node] || (kind >= 60 && kind < 95);
    if (kind < 30)
        world_cut(w, node, kind < 5);
    else if (kind < 60)
        world_away(w, node, more % (more & 1 << 20 ? 5000 : 120000));
    else if (kind < 75) {
        excuse(job, node, false);
        world_reboot(w, node, more);
    } else if (kind < 83) {
        excuse(job, node, true);
        job->vanished[node] = job->rented;
        if (job->rented)
            world_vanish(w, node);
        else
            world_reinstall(w, node);
    } else if (kind < 95)
        world_lose(w, node);
    else
        unmake(job, node);
}

/* The controller is dead: programs continue meanwhile. */
static void between(struct random_job *job)
{
    struct world *w = job->world;
    for (uint64_t n = world_random(&job->rng) % 16; n > 0 && world_step(w); n--)
        ;
    if (fault(job, 200))
        accident(job);
    if (!fault(job, 40))
        return;
    world_say(w, "  the state directory is lost");
    world_forget(w);
    job->forgot = true;
    for (size_t i = 0; i < RANDOM_STEPS_MAX; i++)
        for (uint32_t n = 0; n < w->node_count; n++) { /* the records of settling are lost too */
            struct made_up_track *t = &job->track[i][n];
            t->unsettled = true;
            t->excused = t->excused || t->rebooted;
        }
    job->launch_excused = job->launch_excused || !launch_is_whole(job);
}

/* ---- controllers ---- */

static bool is_done(struct random_job *job)
{
    struct state *s = world_replay(job->world);
    const struct state_run *latest = state_run_latest(s, NULL);
    bool done = latest && latest->status == RUN_DONE;
    if (latest && latest->status != RUN_OPEN && !done &&
        !only_files_missed(job)) /* although nobody was told that this is durable */
        job->launch_excused = true;
    state_destroy(s);
    return done;
}

static void do_again(struct random_job *job)
{
    for (size_t i = 0; i < job->spec.setup_count; i++)
        if (job->setup[i].name == job->from)
            job->redoing = i + 1;
    job->launch_excused = true;
}

static bool begin(struct random_job *job)
{
    struct error err = ERROR_INIT;
    if (is_done(job))
        return false;
    if (++job->controllers > RANDOM_CONTROLLERS_MAX) {
        violate(job, "not done after %u controllers", job->controllers);
        return false;
    }
    for (uint32_t n = 0; n < job->spec.node_count; n++)
        if (job->vanished[n]) { /* another machine was rented */
            job->world->nodes[n].away = job->vanished[n] = false;
            job->disturbed[n] = true;
        }
    job->began_us = job->world->now_us;
    job->began_steps = job->world->steps;
    job->world->options.from_step = job->from;
    if (job->from)
        do_again(job);
    if (world_start(job->world, RUN_EXECUTE, job->from ? RUN_FLAG_FROM : 0, &err) < 0)
        violate(job, "could not start: %s", err.text);
    return !job->violation[0];
}

/* on_unknown: fail: the user has looked, and asks for the step to be done again */
static void look(struct random_job *job, const char *text)
{
    const char *step = strstr(text, "its outcome is unknown") ? strstr(text, "step \"") : NULL;
    for (size_t i = 0; step && i < job->spec.setup_count; i++)
        if (strncmp(step + 6, job->setup[i].name, strlen(job->setup[i].name)) == 0) {
            job->from = job->setup[i].name;
            return;
        }
}

static void end(struct random_job *job)
{
    const struct run_result res = world_end(job->world);
    world_reach_all(job->world); /* the next start waits for that */
    world_say(job->world, "exit status %d: %s", res.exit_status, res.error.text);
    look(job, res.error.text);
    int rc = res.exit_status;
    if (rc != 0 && rc != 1 && rc != 3 && rc != 128 + SIGINT)
        violate(job, "exit status %d: %s", rc, res.error.text);
    if ((rc == 0) != (res.status == RUN_DONE) || (rc != 0 && !res.error.text[0]))
        violate(job, "exit status %d does not fit run status %d", rc, res.status);
}

static void check_limits(struct random_job *job)
{
    const struct world *w = job->world;
    if (w->now_us - job->began_us > (uint64_t)CONTROLLER_MS_MAX * 1000 ||
        w->steps - job->began_steps > CONTROLLER_STEPS_MAX)
        violate(job, "the controller comes to no end");
    job->still = w->now_us == job->still_us ? job->still + 1 : 0;
    job->still_us = w->now_us;
    if (job->still > STILL_MAX)
        violate(job, "the controller turns without an end");
}

bool random_job_step(struct random_job *job)
{
    struct world *w = job->world;
    if (job->violation[0] || (!w->hands && !begin(job)))
        return false;
    if (world_finished(w)) {
        end(job);
        return true;
    }
    if (fault(job, 8))
        accident(job);
    if (job->kills || fault(job, 2)) {
        job->kills = false;
        world_kill(w, world_random(&job->rng));
        between(job);
        return true;
    }
    if (chance(job, 100) && fault(job, 8)) {
        world_say(w, "  interrupted");
        job->launch_excused = true;
        run_interrupt(world_run(w), SIGINT);
    }
    if (!world_step(w))
        violate(job, "the controller waits for nothing");
    check_limits(job);
    return true;
}

/* ---- the end ---- */

/* No journal knows the latest launch any more, nor perhaps a node: one of its own has lost power since. */
static bool may_be_forgotten(const struct random_job *job)
{
    bool lost = false;
    for (uint32_t n = 0; n < job->spec.node_count; n++)
        lost = lost || (strcmp(job->last[n], job->generation) == 0 && job->launch_lost[n]);
    return job->forgot && lost;
}

static void check_launch(struct random_job *job)
{
    const struct spec_distributed *d = &job->spec.distributed;
    struct state *s = world_replay(job->world);
    const struct state_run *run = state_run_latest(s, NULL);
    uint32_t good = 0;
    for (uint32_t n = 0; n < job->spec.node_count; n++) {
        const struct state_cell *c = state_cell_find(s, job->plan->steps[job->launch].scope, "launch", n);
        bool part = c && str_eq(c->run, run->id) && c->generation == run->generation && c->outcome == OUTCOME_OK;
        bool ok = job->launch_ok[n] && strcmp(job->last[n], job->generation) == 0;
        if (n > 0 && !d->present)
            continue;
        job->part[n] = part;
        good += part || (ok && job->launch_lost[n]);
        if (!ok && (n == 0 || !job->elastic || part) && !may_be_forgotten(job))
            violate(job, "done, but the launch has not ended well on node %u", n);
    }
    if (d->present && good < d->min_nodes)
        violate(job, "done, but the launch has ended well on %u of %u:%u nodes", good, d->min_nodes, d->nnodes);
    state_destroy(s);
}

/* A node that has no part in the launch in the end brings no files. */
static void check_files(struct random_job *job)
{
    struct state *s = world_replay(job->world);
    const struct state_run *run = state_run_latest(s, NULL);
    for (size_t i = 0; i < job->plan->step_count; i++) {
        const struct plan_step *step = &job->plan->steps[i];
        uint32_t brought = 0;
        if (!output_of(step))
            continue;
        for (uint32_t n = 0; n < job->spec.node_count; n++) {
            const struct state_cell *c = step->on[n] ? state_cell_find(s, step->scope, step->name, n) : NULL;
            const bool of_it = c && str_eq(c->run, run->id) && c->after == run->generation;
            const bool ok = of_it && (c->outcome == OUTCOME_OK || c->was_ok);
            const bool all = ok && !(c->tail && *c->tail);
            brought += all;
            if (step->on[n] && !ok && !job->elastic)
                violate(job, "done, but %s of node %u is not here", step->name, n);
            if (all && strcmp(file_of(job, step, n)->generation, job->generation) != 0)
                violate(job, "done, but %s of node %u is of another launch", step->name, n);
        }
        if (brought == 0 && output_of(step)->required && !job->elastic)
            violate(job, "done, but nothing of %s is here", step->name);
    }
    state_destroy(s);
}

static void verify(struct random_job *job)
{
    struct world *w = job->world;
    struct error err = ERROR_INIT;
    const size_t before = w->start_count;
    job->faults = 0;
    if (world_start(w, RUN_VERIFY, 0, &err) < 0)
        violate(job, "could not verify: %s", err.text);
    for (uint64_t end = w->steps + CONTROLLER_STEPS_MAX; !world_finished(w) && w->steps < end && world_step(w);)
        ;
    if (!world_finished(w))
        violate(job, "verifying comes to no end");
    const struct run_result res = world_end(w);
    if (w->start_count != before)
        violate(job, "verifying has started something");
    if (res.verified_nodes + res.unverified_nodes != w->node_count)
        violate(job, "%u nodes were verified, %u were not", res.verified_nodes, res.unverified_nodes);
}

void random_job_check(struct random_job *job)
{
    world_reach_all(job->world);
    check_launch(job);
    check_files(job);
    for (size_t i = 0; i < job->spec.setup_count; i++)
        for (uint32_t n = 0; n < job->spec.node_count; n++) {
            const struct made_up_track *t = &job->track[i][n];
            if ((n == 0 || job->setup[i].on == ON_ALL) && !t->ok && !t->launched &&
                !(job->forgot && (t->live || job->elastic)) && !(job->elastic && !job->part[n]))
                violate(job, "done, but step %s has not ended well on node %u", job->setup[i].name, n);
        }
    if (world_live(job->world) > 0 && !job->forgot && !job->elastic)
        violate(job, "done, but %zu programs run", world_live(job->world));
    if (!job->violation[0])
        verify(job);
}

/* ---- the job ---- */

struct random_job *random_job_create(uint64_t seed, uint32_t faults_max, unsigned flags)
{
    static const struct world_watch watch = {.program = program,
                                             .started = started,
                                             .ended = ended,
                                             .replaced = replaced,
                                             .durable = durable,
                                             .frame = frame,
                                             .refuse = refuse,
                                             .fetched = fetched,
                                             .find = find,
                                             .violated = violated};
    struct random_job *job = xcalloc(1, sizeof *job);
    uint64_t rng = world_mix(seed, 2);
    job->seed = seed;
    job->seen = flags & RANDOM_SEEN;
    job->rng = world_mix(seed, 3);
    job->faults = (uint32_t)(world_random(&rng) % 25);
    job->faults = job->faults < faults_max ? job->faults : faults_max;
    job->arena = arena_create();
    random_job_make(job, &rng, flags);
    job->world = world_create(job->plan, seed, &watch, job);
    job->world->options.reconnect_ms = job->elastic ? 10000 : 60000;
    job->world->options.join_ms = 100 + world_random(&rng) % 5000;
    job->world->options.late_ms = 1000 + world_random(&rng) % 10000;
    if (flags & RANDOM_VERBOSE)
        job->world->log = &job->log;
    return job;
}

void random_job_destroy(struct random_job *job)
{
    world_destroy(job->world);
    arena_destroy(job->arena);
    buf_free(&job->log);
    free(job);
}
