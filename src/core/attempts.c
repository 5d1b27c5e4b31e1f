/* Attempts: STARTED is durable before the first byte of RUN, FINISHED before anything that depends on the end. A task's
 * attempt id is drawn once; RUN may be sent again with that id, and the node starts the attempt at most once. */
#include "internal.h"
#include "rules.h"

#include <stdlib.h>
#include <string.h>

enum outcome record_outcome(const struct wire_record *record)
{
    if (record->verdict == WIRE_VERDICT_GOOD && record->state != WIRE_STATE_CLAIMED)
        return OUTCOME_OK;
    if (record->state == WIRE_STATE_LOST)
        return OUTCOME_UNKNOWN;
    if (record->state != WIRE_STATE_ENDED)
        return OUTCOME_NONE;
    if (record->timed_out)
        return OUTCOME_TIMED_OUT;
    if (record->stop_requested)
        return OUTCOME_STOPPED;
    return wire_record_success(record) ? OUTCOME_OK : OUTCOME_FAILED;
}

const char *run_dropped_by(const struct wire_record *record)
{
    if (!record->dropped_bytes)
        return NULL;
    bool limit = record->dropped & WIRE_DROPPED_LIMIT, disk = record->dropped & WIRE_DROPPED_DISK;
    return limit && disk ? "limit and disk" : disk ? "disk" : "limit";
}

/* ---- starting ---- */

/* The node restarted, or became another machine, while the journal was making STARTED durable. */
static bool booted_since(const struct run *r, uint32_t node, const struct state_cell *cell)
{
    const struct wire_facts *facts = r->lanes[node].facts;
    return facts && cell->boot_id && (!str_eq(cell->boot_id, facts->boot_id) || !str_eq(cell->install, facts->install));
}

bool task_is_to_stop(const struct run *r, const struct plan_step *step, const struct run_task *t)
{
    return t->marks.stop_wanted || (run_is_cancelled(r) && !step_outlives_stop(step));
}

void task_go_out(struct run *r, const struct plan_step *step, uint32_t node)
{
    if (step->kind->fetch)
        outputs_send(r, step, node);
    else
        task_send(r, step, node);
}

void task_release(struct run *r, const struct plan_step *step, uint32_t node, uint64_t seq)
{
    struct run_task *t = run_task(r, step, node);
    const struct state_cell *cell = state_cell_by_attempt(r->state, t->attempt);
    /* the task ended before it began, and may have been started again */
    if (t->state != TASK_STARTING || !cell || cell->seq != seq)
        return;
    if (task_is_to_stop(r, step, t)) { /* its RUN was never sent: the attempt certainly did not start */
        task_finish_as(r, step, node, OUTCOME_NOT_STARTED, "stopped before it began");
        return;
    }
    if (!step->kind->fetch && booted_since(r, node, cell)) { /* the node may have lost its set-up */
        bool setup = step->kind->cached;
        task_finish_as(r, step, node, setup ? OUTCOME_NOT_STARTED : OUTCOME_UNKNOWN,
                       setup ? NULL : "the node restarted or was replaced meanwhile");
        return;
    }
    task_set_state(r, t, TASK_RUNNING);
    task_go_out(r, step, node);
}

static void start_many(struct run *r, const struct plan_step *step, const uint32_t *nodes, size_t count,
                       uint32_t generation, bool joins)
{
    struct event_attempt *attempts = xcalloc(count, sizeof *attempts);
    uint32_t *started = xcalloc(count, sizeof *started);
    struct buf bind = {0};
    struct launch *l = launch_of(r, step);
    if (l && generation)
        bind_write(l, &bind);
    struct arena *arena = arena_create();
    const char *inputs = plan_inputs_json(step, arena);
    for (size_t i = 0; i < count; i++) {
        struct run_task *t = run_task(r, step, nodes[i]);
        run_chance(r, t->attempt, WIRE_ID_LEN / 2);
        task_set_state(r, t, TASK_STARTING);
        t->marks = (struct attempt_marks){0};
        t->started_ms = run_wall_ms(r);
        t->ended_ms = 0;
        log_close(t->log);
        t->log = NULL;
        started[i] = nodes[i];
        const struct wire_record *latest = lane_latest(&r->lanes[nodes[i]], step);
        const uint64_t seen = latest ? latest->sequence : 0;
        attempts[i] = (struct event_attempt){.scope = step->scope,
                                             .step = step->name,
                                             .attempt = t->attempt,
                                             .key = step->key,
                                             .inputs = inputs,
                                             .node = nodes[i],
                                             .seen = seen};
        point_fill(r, step, &attempts[i]);
        if (step->kind->cached)
            lane_set_dirty(&r->lanes[nodes[i]], true);
    }
    struct event e = {.type = EVENT_STARTED,
                      .started = {.attempts = attempts, .attempt_count = (uint32_t)count, .generation = generation}};
    if (l && generation)
        e.started.bind_json = bind.data;
    e.started.joins =
        joins || (l && generation && l->adopted); /* the launch was found on the nodes: this run has begun none */
    run_append_then(
        r, &e, (struct awaited){.follow = FOLLOW_SEND, .step = step, .nodes = started, .node_count = (uint32_t)count});
    buf_free(&bind);
    free(attempts);
    arena_destroy(arena);
    order_changed(r, step);
    run_changed(r);
}

void task_start_many(struct run *r, const struct plan_step *step, const uint32_t *nodes, size_t count,
                     uint32_t generation)
{
    start_many(r, step, nodes, count, generation, false);
}

void task_join(struct run *r, const struct plan_step *step, uint32_t node)
{
    start_many(r, step, &node, 1, launch_of(r, step)->generation, true);
}

/* The journal gets the generation of the attempts, too; it never falls below that of the launch. */
void task_take_over_many(struct run *r, const struct plan_step *step, const uint32_t *nodes,
                         const struct wire_record *const *recs, uint32_t count)
{
    struct launch *l = launch_of(r, step);
    struct arena *arena = arena_create();
    struct event_attempt *attempts = arena_array(arena, count, sizeof *attempts);
    struct event e = {.type = EVENT_STARTED,
                      .started = {.attempts = attempts, .attempt_count = count, .adopted = true}};
    for (uint32_t i = 0; i < count; i++) {
        struct run_task *t = run_task(r, step, nodes[i]);
        attempts[i] = (struct event_attempt){.scope = step->scope,
                                             .step = step->name,
                                             .attempt = recs[i]->attempt,
                                             .key = step->key,
                                             .inputs = plan_inputs_json(step, arena),
                                             .node = nodes[i],
                                             .seen = recs[i]->sequence};
        point_fill(r, step, &attempts[i]);
        if (step->kind->phase == PHASE_LAUNCH && launch_generation(recs[i]) > l->generation)
            l->generation = launch_generation(recs[i]);
        task_look(t, true);
        task_set_state(r, t, TASK_RUNNING);
        memcpy(t->attempt, recs[i]->attempt, sizeof t->attempt);
        t->started_ms = recs[i]->claim_wall_ms;
        if (step->kind->cached)
            lane_set_dirty(&r->lanes[nodes[i]], true);
    }
    if (step->kind->phase == PHASE_LAUNCH) {
        e.started.generation = l->generation;
        e.started.joins = true;
    }
    run_append(r, &e);
    arena_destroy(arena);
}

void task_take_over(struct run *r, const struct plan_step *step, uint32_t node, const struct wire_record *rec)
{
    task_take_over_many(r, step, &node, &rec, 1);
}

void task_start(struct run *r, const struct plan_step *step, uint32_t node)
{
    task_start_many(r, step, &node, 1, 0);
}

/* ---- stopping ---- */

void task_stop(struct run *r, const struct plan_step *step, uint32_t node, enum wire_signal signal, uint32_t grace_ms)
{
    struct run_task *t = run_task(r, step, node);
    task_want_stop(t);
    if (step->kind->fetch) { /* a fetch goes on while the run is stopped, but not when the run is killed */
        if (signal == WIRE_KILL)
            outputs_abort(r, step, node);
        return;
    }
    if (t->state != TASK_HELD && t->state != TASK_RUNNING && t->state != TASK_STOPPING)
        return;
    if (t->state == TASK_HELD) {
        task_finish_as(r, step, node, OUTCOME_NOT_STARTED, "stopped before it began");
        return;
    }
    if (step->watch) { /* no process runs for this step */
        task_finish_as(r, step, node, OUTCOME_STOPPED, "stopped");
        return;
    }
    task_set_state(r, t, TASK_STOPPING);
    run_signal(r, node, t->attempt, signal, grace_ms);
    run_changed(r);
}

/* ---- ending ---- */

/*
 * When the attempt failed, on this machine's monotonic clock. If the answer to HELLO took long, clock_ns is too large,
 * never too small; a failure that seems to lie in the future reveals this and corrects the value. So a worker that
 * fails on another node because it was told to end comes after the failure for which it was told to end.
 */
static uint64_t failed_at(struct run *r, uint32_t node, const struct wire_record *record)
{
    struct lane *lane = &r->lanes[node];
    uint64_t there = record->cause != WIRE_CAUSE_NONE ? record->cause_mono_ns : record->end_mono_ns;
    if (record->cause == WIRE_CAUSE_PREEMPTED && !record->same_boot)
        return 0; /* the node's clock has restarted since; others failed because this node was missing */
    int64_t most_ns = (int64_t)(run_mono_ns(r) - there);
    if (record->same_boot && lane->clock_ns > most_ns)
        lane->clock_ns = most_ns;
    return (uint64_t)((int64_t)there + lane->clock_ns);
}

static void offer_cause(struct run *r, const struct plan_step *step, uint32_t node, const struct wire_record *record,
                        uint64_t at_ns)
{
    const enum outcome outcome = record_outcome(record);
    const struct launch *l = launch_of(r, step);
    struct cause *best = cause_of(r, step);
    const struct cause c = {.step = step,
                            .node = node,
                            .at_ns = at_ns,
                            .outcome = outcome,
                            .cause = record->cause,
                            .value = record->value,
                            .rank = record->cause_rank,
                            .has_rank = cause_has_rank(r, step, record->cause_rank, outcome),
                            .generation = (l ? l : run_launch(r))->generation};
    if (cause_offer(best, &c))
        best->tail = arena_strdup(r->arena, record->tail);
    point_cause(r, step, &c);
}

void attempt_cause(struct launch *l, const struct plan_step *step, uint32_t node, const struct wire_worker_end *end)
{
    struct run *r = l->run;
    const struct wire_record record = {.state = WIRE_STATE_ENDED,
                                       .cause = end->cause,
                                       .value = end->value,
                                       .cause_rank = end->rank,
                                       .cause_mono_ns = end->end_mono_ns,
                                       .same_boot = 1,
                                       .tail = (char *)(uintptr_t) ""};
    offer_cause(r, step, node, &record, failed_at(r, node, &record));
}

static void append_finished(struct run *r, const struct plan_step *step, uint32_t node,
                            const struct event_finished *end)
{
    struct arena *arena = arena_create();
    const uint32_t due = (step->kind->cached ? 0 : DUE_LAUNCH | DUE_OUTPUTS) | DUE_PARTED | DUE_END;
    struct event e = {.type = EVENT_FINISHED, .finished = *end};
    e.finished.scope = step->scope;
    e.finished.step = step->name;
    e.finished.attempt = run_task(r, step, node)->attempt;
    e.finished.key = step->key;
    e.finished.inputs = plan_inputs_json(step, arena);
    e.finished.node = node;
    point_fill_end(r, step, node, arena, &e.finished);
    run_append_then(r, &e, (struct awaited){.follow = FOLLOW_DUE, .due = due});
    arena_destroy(arena);
}

/* How an attempt ended. */
struct end {
    struct event_finished event; /* without the fields that append_finished fills in */
    bool recorded;               /* the node has a record of this end; else only the controller says so */
    bool left;                   /* the node leaves, and the launch goes on without this node */
};

static void setup_failed(struct run *r, const struct plan_step *step, uint32_t node, const struct end *end);

/* The prolog failed on a node that should join a running launch: the node does not join this time. */
static void prolog_failed(struct run *r, const struct plan_step *step, uint32_t node, const struct event_finished *end)
{
    struct error err = ERROR_INIT;
    char what[160];
    run_cause_text(end->outcome, end->cause, end->cause_value, what, sizeof what);
    error_set(&err, ERROR_JOB, "%s: %s", step->name, what);
    elastic_spare(launch_of(r, step), node, &err);
}

/* Sets the task's state, and does what follows from it; called once the outcome is in the journal's queue. */
static void after_end(struct run *r, const struct plan_step *step, uint32_t node, const struct end *end)
{
    const enum outcome outcome = end->event.outcome;
    struct run_task *t = run_task(r, step, node);
    struct launch *l = launch_of(r, step);
    t->ended_ms = run_wall_ms(r);
    task_set_state(r, t, outcome == OUTCOME_OK ? TASK_DONE : end->left ? TASK_LEFT : TASK_FAILED);
    run_changed(r);
    if (r->points) /* the end of a sweep may still wait for set-up on a node that came late */
        run_due(r, DUE_BARRIER);
    if (step->kind->sync)
        transfer_stop(&r->lanes[node]);
    if (step->kind->cached && outcome == OUTCOME_OK) {
        transfer_tally(r, step, node);
        order_changed(r, step);
        run_touch(r, node);
        if (step->shared)
            homes_touch(r, node);
    } else if (step->kind->cached) {
        setup_failed(r, step, node, end);
    } else if (l && end->left) {
        elastic_leave(l, node, &end->event);
    } else if (l && step->kind->phase == PHASE_LAUNCH && outcome == OUTCOME_FAILED) {
        launch_will_restart(l);
    } else if (step->kind->phase == PHASE_POINT) {
        point_ended(r, step, node, &end->event);
    } else if (step->kind->phase == PHASE_PROLOG && r->lanes[node].left_out && outcome != OUTCOME_OK) {
        prolog_failed(r, step, node, &end->event);
    }
}

/* Whether another step waits until this one has ended well. */
static bool is_awaited(const struct run *r, const struct plan_step *step)
{
    for (size_t i = 0; i < r->plan->step_count; i++)
        for (size_t k = 0; k < r->plan->steps[i].wait_count; k++)
            if (r->plan->steps[i].waits[k].step == step->id && !r->plan->steps[i].waits[k].started)
                return true;
    return false;
}

/* A sidecar is stopped when all others have ended well, or when the generation fails anyway: that is not a failure.
 * Once the others have ended well a sidecar may end in any way. But if other steps wait until this one has ended well
 * (for example a check that the sidecar is ready), a stop does not count as that. */
static enum outcome outcome_of(struct run *r, const struct plan_step *step, enum outcome outcome)
{
    bool failed = outcome == OUTCOME_FAILED || outcome == OUTCOME_UNKNOWN;
    if (step->sidecar &&
        ((outcome == OUTCOME_STOPPED && !is_awaited(r, step)) || (failed && launch_over(launch_of(r, step)))))
        return OUTCOME_OK;
    return outcome;
}

void task_finish(struct run *r, const struct plan_step *step, uint32_t node, const struct wire_record *of_node,
                 bool adopted)
{
    struct run_task *t = run_task(r, step, node);
    struct launch *l = launch_of(r, step);
    const struct wire_record judged = l ? rules_judge(l, step, node, of_node) : *of_node, *record = &judged;
    const struct state_cell *cell = state_cell_find(r->state, step->scope, step->name, node);
    const enum outcome outcome = outcome_of(r, step, record_outcome(record));
    if (outcome == OUTCOME_OK &&
        !wire_record_success(of_node)) { /* the node's record must say so too: the end comes again, with that verdict */
        run_effect(r, &(struct effect){.kind = EFFECT_JUDGE_GOOD, .node = node, .attempt = of_node->attempt});
        return;
    }
    memcpy(t->attempt, record->attempt, WIRE_ID_LEN + 1);
    /* the attempt was found alive on the node: no run of this journal has begun it */
    if (!cell || strcmp(cell->attempt, t->attempt) != 0 || cell->adopted)
        adopted = true;
    log_end(t->log);
    struct end end = {.recorded = true,
                      .event = {.outcome = outcome,
                                .adopted = adopted,
                                .cause = record->cause,
                                .cause_value = record->value,
                                .cause_rank = record->cause_rank,
                                .tail = record->tail,
                                .log_bytes = record->spool_bytes,
                                .dropped_bytes = record->dropped_bytes,
                                .dropped_by = run_dropped_by(record)}};
    if (record->same_boot && record->start_mono_ns && record->end_mono_ns > record->start_mono_ns)
        end.event.duration_ms = (record->end_mono_ns - record->start_mono_ns) / 1000000;
    else if (record->end_wall_ms > record->claim_wall_ms)
        end.event.duration_ms = record->end_wall_ms - record->claim_wall_ms;
    if (adopted && step->kind->phase == PHASE_LAUNCH)
        end.event.generation = l->generation ? l->generation : launch_generation(of_node);
    end.left = l && elastic_leaves(l, step, node, &end.event);
    if (outcome != OUTCOME_OK && outcome != OUTCOME_STOPPED && !end.left && !r->lanes[node].left_out)
        offer_cause(r, step, node, record, failed_at(r, node, record));
    append_finished(r, step, node, &end.event);
    after_end(r, step, node, &end);
}

void task_finish_as(struct run *r, const struct plan_step *step, uint32_t node, enum outcome outcome, const char *why)
{
    outcome = outcome_of(r, step, outcome);
    struct end end = {.event = {.outcome = outcome, .tail = why}};
    struct launch *l = launch_of(r, step);
    end.left = l && elastic_leaves(l, step, node, &end.event);
    if (outcome == OUTCOME_UNKNOWN && !cause_of(r, step)->step && !end.left && !r->lanes[node].left_out) {
        const struct wire_record nothing = {.state = WIRE_STATE_LOST, .tail = (char *)(uintptr_t) ""};
        offer_cause(r, step, node, &nothing, UINT64_MAX); /* any failure that was seen counts as earlier */
    }
    log_end(run_task(r, step, node)->log);
    append_finished(r, step, node, &end.event);
    after_end(r, step, node, &end);
}

/* ---- a set-up step did not end well: it is done again, or the run fails ---- */

struct retry_ctx {
    struct run *run;
    const struct plan_step *step;
    uint32_t node;
};

static void on_retry(void *arg)
{
    struct retry_ctx *ctx = arg;
    struct run *r = ctx->run;
    struct run_task *t = run_task(r, ctx->step, ctx->node);
    alarm_destroy(t->retry);
    t->retry = NULL;
    if (t->state != TASK_WAITING)
        return;
    if (!run_is_stopping(r)) {
        task_set_state(r, t, TASK_PENDING);
        run_touch(r, ctx->node);
    } else {
        task_set_state(r, t, TASK_FAILED);
        run_due(r, DUE_END);
    }
}

static void retry_later(struct run *r, const struct plan_step *step, uint32_t node, uint64_t after_ms)
{
    struct run_task *t = run_task(r, step, node);
    struct retry_ctx *ctx = arena_alloc(r->arena, sizeof *ctx);
    *ctx = (struct retry_ctx){r, step, node};
    task_set_state(r, t, TASK_WAITING);
    t->retry = alarm_create(r, on_retry, ctx);
    alarm_set(t->retry, after_ms);
}

bool step_unknown_fails(struct run *r, const struct plan_step *step, uint32_t node)
{
    struct error err = ERROR_INIT;
    if (!step->on_unknown_fail)
        return false;
    error_set(&err, ERROR_JOB, "node \"%s\": step \"%s\": its outcome is unknown", r->lanes[node].name, step->name);
    error_hint(&err, "check what it did there, then run with --from %s to do it again", step->name);
    run_fail(r, RUN_FAILED, &err);
    return true;
}

/* A transfer that was cut off is started again, without a note about an unknown outcome: the node says which files have
 * arrived. */
static bool transfer_again(struct run *r, const struct plan_step *step, uint32_t node, const struct end *end)
{
    struct run_task *t = run_task(r, step, node);
    bool cut_off =
        end->event.outcome == OUTCOME_UNKNOWN || (end->event.outcome == OUTCOME_STOPPED && !t->marks.stop_wanted);
    t->idle_tries = t->bytes_done || t->removed ? 0 : t->idle_tries + 1;
    if (!step->kind->sync || !cut_off || t->idle_tries > IDLE_TRIES_MAX)
        return false;
    transfer_trust(&r->lanes[node], step, end->recorded); /* no record: the node restarted, or is another machine */
    task_set_state(r, t, TASK_PENDING);
    t->reason = "it was cut off";
    run_touch(r, node);
    return true;
}

void step_gives_up(struct run *r, const struct plan_step *step, uint32_t node, const struct event_finished *end)
{
    struct error err = ERROR_INIT;
    const char *name = r->lanes[node].name;
    char what[160];
    run_cause_text(end->outcome, end->cause, end->cause_value, what, sizeof what);
    if (step->kind->sync &&
        end->outcome == OUTCOME_FAILED) { /* a transfer runs no program: the node's message has all the facts */
        error_set(&err, ERROR_INFRA, "node \"%s\": step \"%s\": %s", name, step->name,
                  end->tail && end->tail[0] ? end->tail : what);
        error_hint(&err, "the files that arrived are kept: the same command sends the rest");
        if (!elastic_spare(run_launch(r), node, &err))
            run_fail(r, RUN_INFRA, &err);
        return;
    }
    if (end->cause == WIRE_CAUSE_CREATES && step->creates)
        snprintf(what, sizeof what, "it ended well, but \"%.60s\" does not exist", step->creates);
    error_set(&err, end->cause == WIRE_CAUSE_PREEMPTED ? ERROR_INFRA : ERROR_JOB, "node \"%s\": step \"%s\": %s", name,
              step->name, what);
    error_hint(&err, "its output: rhrun logs %s --step %s", r->id, step->name);
    if (!elastic_spare(run_launch(r), node, &err))
        run_fail(r, RUN_FAILED, &err);
}

static void setup_failed(struct run *r, const struct plan_step *step, uint32_t node, const struct end *end)
{
    const enum outcome outcome = end->event.outcome;
    struct run_task *t = run_task(r, step, node);
    if (run_is_stopping(r) || run_is_launched(r))
        return;
    if (transfer_again(r, step, node, end))
        return;
    transfer_trust(&r->lanes[node], step,
                   outcome != OUTCOME_NOT_STARTED); /* the attempt ended by itself; NOT_STARTED: the node restarted */
    if (step->kind->build && outcome != OUTCOME_NOT_STARTED)
        patches_doubt(&r->lanes[node]);
    if (outcome == OUTCOME_UNKNOWN) {
        if (step_unknown_fails(r, step, node))
            return;
        run_note(r, node, "step \"%s\": its outcome is unknown; it is done again", step->name);
        task_set_state(r, t, TASK_PENDING);
        t->reason = "its outcome is unknown";
        run_touch(r, node);
        return;
    }
    /* an earlier controller stopped it, when the user cancelled */
    if (outcome == OUTCOME_STOPPED && !t->marks.stop_wanted) {
        task_set_state(r, t, TASK_PENDING);
        t->reason = "it was stopped";
        run_touch(r, node);
        return;
    }
    if (outcome == OUTCOME_NOT_STARTED) {
        if (!end->event.tail) { /* the attempt was not stopped: its node restarted before it could begin */
            task_set_state(r, t, TASK_PENDING);
            run_touch(r, node);
        }
        return;
    }
    if (t->tries < step->retry_times) {
        t->tries++;
        uint64_t pause = step->retry_backoff_ms << (t->tries - 1 < 10 ? t->tries - 1 : 10);
        run_note(r, node, "step \"%s\" failed; attempt %u of %u in %.1f s", step->name, t->tries + 1,
                 step->retry_times + 1, (double)pause / 1000);
        retry_later(r, step, node, pause);
        return;
    }
    step_gives_up(r, step, node, &end->event);
}
