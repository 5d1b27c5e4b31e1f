/* Lanes: what each node says, and what follows for its set-up. reconcile() compares journal and ledger after every
 * HELLO; advance() starts the next step that is missing. */
#include "rules.h"

#include <stdlib.h>
#include <string.h>

/* ---- set-up ---- */

static void start_settling(struct lane *lane)
{
    lane_set_state(lane, LANE_SETTLING);
    node_settle(lane->node, lane->index + 1);
}

/* Why a step runs again: once where it is so for every node, else with the node's name. */
static void note_reason(struct lane *lane, const struct plan_step *step, const struct run_task *t)
{
    struct run *r = lane->run;
    if (!t->reason || (t->general && r->noted[step->id]))
        return;
    run_note(r, t->general ? EVENT_NODE_NONE : lane->index, "step \"%s\" runs again: %s", step->name, t->reason);
    r->noted[step->id] = r->noted[step->id] || t->general;
}

/* A step that the first node of a shared home does for all: true when this lane is to wait for it. */
static bool awaits_leader(struct lane *lane, const struct plan_step *step, struct run_task *t)
{
    struct run *r = lane->run;
    if (!step->shared || t->state != TASK_PENDING || r->plan->node_count == 1)
        return false;
    if (r->unheard > 0)
        return true;
    uint32_t leader = homes_leader(r, step, lane->index);
    if (leader == lane->index)
        return false;
    enum task_state s = run_task(r, step, leader)->state;
    if (s != TASK_KEPT && s != TASK_DONE)
        return true;
    task_set_state(r, t, TASK_KEPT);
    t->decided = true;
    transfer_tally(r, step, lane->index);
    order_changed(r, step); /* it may be the last one that others wait for, and nothing will end here */
    return false;
}

/* A step behind this one still runs, attached to: what it changes of a tree is told at its end, and would be put back now. */
static bool later_runs(const struct lane *lane, const struct plan_step *step)
{
    struct run *r = lane->run;
    for (size_t i = step->id + 1; i < r->plan->step_count; i++)
        if (r->plan->steps[i].kind->phase == PHASE_SETUP &&
            task_in_flight(run_task(r, &r->plan->steps[i], lane->index)))
            return true;
    return false;
}

/* The first step that is missing is looked at, and begun where it must be. True: none is. */
static bool next_step(struct lane *lane, bool *ret_kept)
{
    struct run *r = lane->run;
    patches_reset(lane);
    if (r->ending != ENDING_NOT)
        return false;
    for (size_t i = 0; i < r->plan->step_count; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        if (step->kind->phase != PHASE_SETUP || !step->on[lane->index])
            continue;
        struct run_task *t = run_task(r, step, lane->index);
        if (awaits_leader(lane, step, t))
            return false;
        if (t->state == TASK_PENDING && !t->decided) {
            lane_decide(lane, step);
            if (r->ending != ENDING_NOT)
                return false;
            if (t->state == TASK_KEPT) {
                transfer_tally(r, step, lane->index);
                *ret_kept = *ret_kept || step->shared;
                order_changed(r, step);
            }
        }
        if (t->state == TASK_KEPT || t->state == TASK_DONE)
            continue;
        if (t->state == TASK_PENDING && node_state(lane->node) == NODE_READY && /* else it goes on when it is back */
            !order_holds(r, step, lane->index) && !later_runs(lane, step)) {
            note_reason(lane, step, t);
            lane_verify_after(lane, step);
            t->verify = NULL;
            task_start(r, step, lane->index);
        }
        return false;
    }
    return true;
}

static void setup_pass(struct lane *lane)
{
    struct run *r = lane->run;
    bool kept = false;
    if (lane->state != LANE_SETUP || r->ending != ENDING_NOT || r->stage >= STAGE_CLOSING ||
        r->options.mode != RUN_EXECUTE || lane->orphan_count > 0 || (lane->left_out && r->launch == LAUNCH_OVER)) {
        run_due(r, DUE_END);
        return;
    }
    bool complete = next_step(lane, &kept);
    if (kept)
        homes_touch(r, lane->index);
    if (!complete)
        return;
    if (lane->dirty && node_state(lane->node) == NODE_READY)
        start_settling(lane);
    else if (!lane->dirty)
        lane_set_state(lane, LANE_BARRIER);
    run_changed(r);
    run_due(r, DUE_BARRIER);
}

void lane_pass(struct lane *lane)
{
    setup_pass(lane);
    elastic_advance(lane);
}

void lane_doubt(struct lane *lane)
{
    struct run *r = lane->run;
    lane->doubtful = false;
    if (r->fetch_only)
        return;
    patches_judge(lane);
    for (size_t i = 0; i < r->plan->step_count; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        struct run_task *t = run_task(r, step, lane->index);
        if (step->kind->phase != PHASE_SETUP || !step->on[lane->index] ||
            (t->state != TASK_KEPT && t->state != TASK_DONE))
            continue;
        const struct state_cell *cell = state_cell_find(r->state, step->scope, step->name, lane->index);
        if (cell && cell->outcome == OUTCOME_OK && !lane_contradiction(lane, step, cell))
            continue;
        task_set_state(r, t, TASK_PENDING);
        t->decided = false;
        lane_set_state(lane, LANE_SETUP);
        preflight_setup_changed(r);
    }
}

/* ---- after LIST ---- */

static bool is_orphan(const struct lane *lane, const char *attempt)
{
    for (size_t i = 0; i < lane->orphan_count; i++)
        if (strcmp(lane->orphans[i].attempt, attempt) == 0)
            return true;
    return false;
}

void lane_orphan(struct lane *lane, const char *attempt)
{
    if (!is_orphan(lane, attempt)) {
        lane->orphans = xreallocarray(lane->orphans, lane->orphan_count + 1, sizeof *lane->orphans);
        memcpy(lane->orphans[lane->orphan_count++].attempt, attempt, WIRE_ID_LEN + 1);
    }
    node_attach(lane->node, attempt, UINT64_MAX); /* only its end is of interest */
    node_signal(lane->node, attempt, WIRE_STOP, STOP_GRACE_MS);
}

/* Is it of what this node did last of the launch, and of nothing before that? */
static bool follows_launch(const struct lane *lane, const struct wire_record *epilog)
{
    const struct run *r = lane->run;
    for (size_t i = 0; i < r->plan->step_count; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        const struct wire_record *latest =
            step->kind->phase == PHASE_LAUNCH && step->on[lane->index] ? lane_latest(lane, step) : NULL;
        if (latest && latest->sequence > epilog->sequence)
            return false;
    }
    return true;
}

/* A lost state directory: what the ledger says of prolog, launch and epilog is taken over. */
static void adopt_launch(struct lane *lane)
{
    struct run *r = lane->run;
    for (size_t i = 0; i < r->plan->step_count; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        if (step->kind->cached || !step->on[lane->index] || run_task(r, step, lane->index)->state != TASK_PENDING ||
            !lane_may_adopt(lane, step))
            continue;
        const struct wire_record *latest = lane_latest(lane, step);
        if (!latest || !wire_record_success(latest) || !str_eq(latest->key, step->key))
            continue;
        if (!latest->same_boot) {
            run_note(
                r, lane->index,
                "an earlier %s ended well, but the node restarted since: how much of it reached the disk is unknown",
                step->name);
            continue;
        }
        if (step->kind->phase == PHASE_EPILOG && !follows_launch(lane, latest))
            continue;
        if (step->kind->phase == PHASE_LAUNCH && launch_generation(latest) > r->generation)
            r->generation = launch_generation(latest);
        task_finish(r, step, lane->index, latest, true);
    }
}

/* The task whose attempt this is, or that would adopt it: same slot, same key, nothing of its own under way. */
static const struct plan_step *owner_of(struct lane *lane, const struct wire_record *rec)
{
    struct run *r = lane->run;
    for (size_t i = 0; i < r->plan->step_count; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        if (!step->on[lane->index] || strcmp(step->slot, rec->slot) != 0)
            continue;
        struct run_task *t = run_task(r, step, lane->index);
        if (task_in_flight(t))
            return strcmp(t->attempt, rec->attempt) == 0 ? step : NULL;
        if (t->state == TASK_PENDING && str_eq(step->key, rec->key) && lane_may_adopt(lane, step)) {
            t->decided = true;
            if (step->kind->phase == PHASE_LAUNCH && launch_generation(rec) > r->generation)
                r->generation = launch_generation(rec); /* in the journal with its end; until then it is seen again */
            task_set_state(r, t, TASK_RUNNING);
            memcpy(t->attempt, rec->attempt, sizeof t->attempt);
            t->started_ms = rec->claim_wall_ms;
            lane->dirty = lane->dirty || step->kind->cached;
            return step;
        }
        return NULL;
    }
    return NULL;
}

static void attach_task(struct lane *lane, const struct plan_step *step)
{
    struct run *r = lane->run;
    struct run_task *t = run_task(r, step, lane->index);
    if (!t->log)
        t->log = log_open(r, step, lane->index, t->attempt);
    t->sent = t->told = true;
    node_attach(lane->node, t->attempt, t->log->size);
    if (t->stop_wanted || (run_is_cancelled(r) && !step_outlives_stop(step)))
        node_signal(lane->node, t->attempt, r->ending == ENDING_KILLED ? WIRE_KILL : WIRE_STOP,
                    launch_grace_ms(r, CANCEL_GRACE_MS));
}

/* An attempt of ours that the ledger does not have: on the same boot it never started, so its RUN is sent again;
 * otherwise a power cut may have taken the claim with it. */
static void resend_or_unknown(struct lane *lane, const struct plan_step *step)
{
    struct run *r = lane->run;
    struct run_task *t = run_task(r, step, lane->index);
    const struct state_cell *cell = state_cell_by_attempt(r->state, t->attempt);
    const struct wire_facts *facts = node_facts(lane->node);
    const struct wire_record *other;
    bool same = cell && cell->outcome == OUTCOME_NONE && str_eq(cell->boot_id, facts->boot_id) &&
                str_eq(cell->install, facts->install);
    if (step->kind->fetch || (step->watch && same && !t->stop_wanted))
        task_send(r, step, lane->index);
    else if (same && (t->stop_wanted || (run_is_cancelled(r) && !step_outlives_stop(step))))
        task_finish_as(r, step, lane->index, OUTCOME_NOT_STARTED, "stopped before it began");
    else if (!same)
        task_finish_as(r, step, lane->index, OUTCOME_UNKNOWN, "the node restarted or was replaced meanwhile");
    else if ((other = lane_done_by_another(lane, step)))
        task_finish(r, step, lane->index, other, true);
    else
        task_send(r, step, lane->index);
}

/* A node that cannot have the workers asked for (no GPU) ends the run before its set-up, not behind it. */
static void check_workers(struct lane *lane)
{
    const struct wire_facts *f = node_facts(lane->node);
    const struct plan_facts facts = {true, f->cpus, f->gpu_count};
    struct error err = ERROR_INIT;
    if (plan_check_node(lane->run->plan, lane->index, &facts, &err) < 0 && !elastic_bar(lane->run, lane->index, &err))
        run_fail(lane->run, RUN_FAILED, &err);
}

/* One node's part of a prolog or launch had ended well, the others' go on, and its power was lost: binding the node has
 * just made the journal say that nothing is known of it any more. */
static void finished_part_lost(struct lane *lane)
{
    struct run *r = lane->run;
    for (size_t i = 0; i < r->plan->step_count; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        const struct state_cell *cell = state_cell_find(r->state, step->scope, step->name, lane->index);
        if (!step->on[lane->index] || run_task(r, step, lane->index)->state != TASK_DONE || !cell ||
            cell->outcome == OUTCOME_OK)
            continue;
        if ((step->kind->phase == PHASE_LAUNCH && !launch_over(r)) ||
            (step->kind->phase == PHASE_PROLOG && r->stage == STAGE_PROLOG))
            task_finish_as(r, step, lane->index, OUTCOME_UNKNOWN, "the node restarted or was replaced meanwhile");
        else if (step->kind->phase == PHASE_PROLOG && !launch_over(r))
            task_set_state(r, run_task(r, step, lane->index),
                           TASK_PENDING); /* before the next generation, should there be one */
    }
}

/* Those that ended while the node was away: nobody will say so any more. */
static void drop_ended_orphans(struct lane *lane)
{
    for (size_t i = lane->orphan_count; i-- > 0;) {
        const struct wire_record *rec = lane_record(lane, lane->orphans[i].attempt);
        if (rec && rec->state == WIRE_STATE_CLAIMED)
            continue;
        if (rec)
            run_orphan_ended(lane->run, lane, rec);
        lane->orphans[i] = lane->orphans[--lane->orphan_count];
    }
}

void lane_reconcile(struct lane *lane)
{
    struct run *r = lane->run;
    bool first = lane->state == LANE_LISTED;
    if (lane->left_out && !elastic_back(lane))
        return;
    drop_ended_orphans(lane);
    for (size_t i = 0; i < lane->record_count; i++) {
        const struct wire_record *rec = &lane->records[i];
        if (rec->state == WIRE_STATE_CLAIMED && !owner_of(lane, rec) && r->options.mode != RUN_LOOK &&
            r->options.mode != RUN_VERIFY) {
            run_note(r, lane->index, "stopping an attempt of \"%s\" that an earlier run left", rec->slot);
            lane_orphan(lane, rec->attempt);
        }
    }
    /* before any step goes on: it may build on one that is in doubt */
    if (elastic_is_outside(lane) || (!first && r->stage <= STAGE_PREFLIGHT))
        lane_doubt(lane);
    else if (!first || lane->left_out)
        lane->doubtful = true;
    if (r->options.mode == RUN_EXECUTE)
        finished_part_lost(lane);
    for (size_t i = 0; i < r->plan->step_count; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        struct run_task *t = run_task(r, step, lane->index);
        if (!step->on[lane->index] || (t->state != TASK_RUNNING && t->state != TASK_STOPPING))
            continue;
        const struct wire_record *rec = lane_record(lane, t->attempt);
        if (rec && rec->same_boot)
            attach_task(lane, step);
        else if (rec && rec->state == WIRE_STATE_ENDED && rec->cause == WIRE_CAUSE_PREEMPTED && !step->kind->cached)
            task_finish(r, step, lane->index, rec, false); /* its machine went down in order: that says why */
        else if (rec) /* it ended, or died with the power: either way not all of it may be on the disk */
            task_finish_as(r, step, lane->index, OUTCOME_UNKNOWN, "the node restarted meanwhile");
        else
            resend_or_unknown(lane, step);
    }
    if (lane->doubtful && elastic_is_outside(lane)) /* nothing runs there any more */
        lane_doubt(lane);
    if (lane->state == LANE_SETTLING)
        start_settling(lane);
    if (first && r->options.mode == RUN_EXECUTE) {
        check_workers(lane);
        adopt_launch(lane);
    }
    if (lane->state == LANE_LISTED)
        lane_set_state(lane, LANE_SETUP);
    run_touch(r, lane->index);
    if (lane->state == LANE_BARRIER) /* a question to node 0 may have been lost with its connection */
        run_due(r, DUE_BARRIER);
}

/* ---- what the node says ---- */

static struct lane *lane_of(void *arg, struct node *n)
{
    struct run *r = arg;
    return &r->lanes[node_index(n)];
}

void lane_pass_by(struct lane *lane)
{
    lane_set_state(lane, LANE_BARRIER);
    lane->heard = true;
    lane->run->unheard--;
}

void lane_bind(struct lane *lane)
{
    const struct wire_facts *facts = node_facts(lane->node);
    struct buf json = {0};
    run_facts_json(facts, &json);
    struct event e = {.type = EVENT_NODE_BOUND,
                      .node = lane->index,
                      .host = node_name(lane->node),
                      .install = facts->install,
                      .boot_id = facts->boot_id,
                      .work = str_eq(lane->run->work, lane->run->plan->spec->variant) ? NULL : lane->run->work,
                      .facts_json = json.data};
    run_append(lane->run, &e, NULL, NULL);
    buf_free(&json);
}

static void on_ready(void *arg, struct node *n, bool again)
{
    struct lane *lane = lane_of(arg, n);
    struct run *r = lane->run;
    const struct wire_facts *facts = node_facts(n);
    transfer_stop(lane);
    fetch_lost(lane);
    if (lane->away)
        loop_timer_stop(lane->away);
    r->homes_known = false;
    lane->clock_ns = (int64_t)(mono_ns() - facts->mono_ns);
    arena_reset(lane->arena);
    lane->record_count = lane->claimed_count = 0;
    lane->patch_count = 0;
    lane->said_bytes = 0;
    lane->fault_notes = 0;
    lane->listed = false;
    run_learn_node(r, lane->index);
    for (size_t i = 0; i < r->plan->step_count; i++)
        run_task(r, &r->plan->steps[i], lane->index)->sent = false;
    if (r->journal && r->options.mode != RUN_LOOK && r->options.mode != RUN_VERIFY && r->opening == OPENING_DONE)
        lane_bind(lane);
    if (again)
        run_note(r, lane->index, "the node is back");
    struct error err = ERROR_INIT;
    if (r->options.mode == RUN_EXECUTE && r->opening == OPENING_DONE && !machines_add(r, lane->index, &err) &&
        !(lane->left_out && elastic_bar(r, lane->index, &err)))
        run_fail(r, RUN_INFRA, &err);
    run_changed(r);
}

static void on_lost(void *arg, struct node *n, const struct error *err)
{
    struct lane *lane = lane_of(arg, n);
    lane->error = *err;
    transfer_stop(lane);
    fetch_lost(lane);
    preflight_lost(lane->run);
    elastic_await(lane->run);
    if (lane->away && !loop_timer_active(lane->away))
        loop_timer_start(lane->away, lane->run->options.reconnect_ms ? lane->run->options.reconnect_ms : RECONNECT_MS);
    run_note(lane->run, lane->index, "%s; trying to reconnect, its work goes on", err->text);
    run_changed(lane->run);
    run_due(lane->run, DUE_PARTED);
}

/* One more node was heard of, for the first time: with the last, it is known who shares a home with whom. */
static void heard(struct lane *lane)
{
    struct run *r = lane->run;
    if (lane->heard)
        return;
    lane->heard = true;
    if (--r->unheard > 0)
        return;
    work_heard(r);
    for (uint32_t n = 0; n < r->plan->node_count && r->plan->node_count > 1; n++)
        if (r->lanes[n].state == LANE_SETUP)
            run_touch(r, n);
}

static void on_failed(void *arg, struct node *n, const struct error *err)
{
    struct lane *lane = lane_of(arg, n);
    struct run *r = lane->run;
    lane->error = *err;
    lane->closed_node = true;
    lane_set_state(lane, LANE_FAILED);
    transfer_stop(lane);
    fetch_lost(lane);
    run_node_failed(r, lane->index, err);
    heard(lane);
}

static void on_record(void *arg, struct node *n, const struct wire_record *rec)
{
    struct lane *lane = lane_of(arg, n);
    struct run *r = lane->run;
    for (size_t i = 0; i < r->plan->step_count; i++) { /* the answer to a RUN of a known attempt: its output and end */
        const struct plan_step *step = &r->plan->steps[i];
        struct run_task *t = run_task(r, step, lane->index);
        if (task_in_flight(t) && t->sent && strcmp(t->attempt, rec->attempt) == 0) {
            t->told = true;
            node_attach(n, rec->attempt, t->log ? t->log->size : 0);
            return;
        }
    }
    lane_keep_record(lane, rec);
}

static void on_listed(void *arg, struct node *n, uint64_t token)
{
    struct lane *lane = lane_of(arg, n);
    (void)token;
    bool first = lane->state == LANE_CONNECTING;
    lane->listed = true;
    if (first)
        lane_set_state(lane, LANE_LISTED);
    run_lane_listed(lane->run, lane);
    heard(lane);
}

static void on_checked(void *arg, struct node *n, uint64_t token, const uint8_t *exists, uint32_t count)
{
    struct lane *lane = lane_of(arg, n);
    struct run *r = lane->run;
    uint32_t k = 0;
    (void)token;
    for (size_t i = 0; i < r->plan->step_count; i++)
        if (r->plan->steps[i].creates && r->plan->steps[i].on[lane->index] && k < count)
            lane->creates[i] = exists[k++] ? CHECK_YES : CHECK_NO;
    for (size_t i = 0; i < r->plan->step_count; i++)
        if (step_checks_tree(&r->plan->steps[i], lane->index) && k < count)
            lane->trees[i] = exists[k++] ? CHECK_YES : CHECK_NO;
}

static const struct plan_step *in_flight_step(struct lane *lane, const char *attempt)
{
    struct run *r = lane->run;
    for (size_t i = 0; i < r->plan->step_count; i++) {
        struct run_task *t = run_task(r, &r->plan->steps[i], lane->index);
        if (task_in_flight(t) && strcmp(t->attempt, attempt) == 0)
            return &r->plan->steps[i];
    }
    return NULL;
}

static void on_started(void *arg, struct node *n, const char *attempt)
{
    struct lane *lane = lane_of(arg, n);
    const struct plan_step *step = in_flight_step(lane, attempt);
    if (step)
        run_task(lane->run, step, lane->index)->told = true;
    run_changed(lane->run);
}

static void on_busy(void *arg, struct node *n, const char *attempt, const char *live, const char *slot)
{
    struct lane *lane = lane_of(arg, n);
    const struct plan_step *step = in_flight_step(lane, attempt);
    if (!step)
        return;
    struct error err = ERROR_INIT;
    error_set(&err, ERROR_INFRA, "node \"%s\": \"%s\" is busy with attempt %.8s", node_name(n), slot, live);
    task_finish_as(lane->run, step, lane->index, OUTCOME_NOT_STARTED, "the slot was busy");
    run_fail(lane->run, RUN_INFRA, &err);
}

static void on_output(void *arg, struct node *n, const char *attempt, uint64_t offset, const uint8_t *data,
                      uint32_t len)
{
    struct lane *lane = lane_of(arg, n);
    const struct plan_step *step = in_flight_step(lane, attempt);
    struct run_task *t = step ? run_task(lane->run, step, lane->index) : NULL;
    if (t && t->log)
        log_output(t->log, offset, data, len);
}

static void drop_orphan(struct lane *lane, const char *attempt)
{
    for (size_t i = 0; i < lane->orphan_count; i++)
        if (strcmp(lane->orphans[i].attempt, attempt) == 0) {
            lane->orphans[i] = lane->orphans[--lane->orphan_count];
            break;
        }
    if (lane->orphan_count == 0) {
        run_touch(lane->run, lane->index);
        run_due(lane->run, DUE_BARRIER);
    }
}

/* Daemons that a set-up step left: allowed, but named. */
static void note_leftover(struct lane *lane, const struct plan_step *step, const char *leftover)
{
    CLEANUP(cleanup_free) char *list = xstrdup(leftover);
    for (char *p = list; *p; p++)
        if (*p == '\n')
            *p = p[1] ? ',' : 0;
    run_note(lane->run, lane->index, "step \"%s\" left running: %s", step->name, list);
}

static void on_ended(void *arg, struct node *n, const struct wire_record *rec)
{
    struct lane *lane = lane_of(arg, n);
    struct run *r = lane->run;
    const struct plan_step *step = in_flight_step(lane, rec->attempt);
    if (step) {
        if (rec->leftover[0] && step->kind->phase == PHASE_SETUP)
            note_leftover(lane, step, rec->leftover);
        patches_ended(lane, step, rec);
        task_finish(r, step, lane->index, rec, false);
    } else if (is_orphan(lane, rec->attempt)) {
        run_orphan_ended(r, lane, rec);
        drop_orphan(lane, rec->attempt);
    }
    run_due(r, DUE_END);
}

static void on_ponged(void *arg, struct node *n, uint64_t token, uint32_t free_port, uint64_t wall)
{
    struct lane *lane = lane_of(arg, n);
    if (!preflight_ponged(lane, token, wall))
        launch_port(lane->run, token, free_port);
}

static void on_settled(void *arg, struct node *n, uint64_t token, const char *error)
{
    struct lane *lane = lane_of(arg, n);
    struct run *r = lane->run;
    (void)token;
    if (lane->state != LANE_SETTLING)
        return;
    if (error[0]) {
        struct error err = ERROR_INIT;
        error_set(&err, ERROR_INFRA, "node \"%s\": could not bring the set-up to its disk: %s", node_name(n), error);
        if (!elastic_spare(r, lane->index, &err))
            run_fail(r, RUN_INFRA, &err);
        return;
    }
    lane->dirty = false;
    lane_set_state(lane, LANE_BARRIER);
    struct event e = {.type = EVENT_SETTLED, .node = lane->index, .boot_id = node_facts(n)->boot_id};
    run_append(r, &e, NULL, NULL);
    run_due(r, DUE_BARRIER);
}

static void on_fault(void *arg, struct node *n, const char *attempt, const char *text)
{
    struct lane *lane = lane_of(arg, n);
    struct run *r = lane->run;
    const struct plan_step *step = in_flight_step(lane, attempt);
    struct run_task *t = step ? run_task(r, step, lane->index) : NULL;
    struct error err = ERROR_INIT;
    if (!t ||
        !t->sent) { /* before anything was asked of it on this connection it is LIST that found its record damaged */
        if (t)
            t->told = true;
        if (lane->fault_notes++ < LANE_FAULTS_MAX) {
            run_note(r, lane->index, "%.1000s", text);
            return;
        }
        error_set(&err, ERROR_PROTOCOL, "node \"%s\" reports one fault after the other; the last: %.300s", node_name(n),
                  text);
        node_refuse(n, &err);
        return;
    }
    error_set(&err, ERROR_INFRA, "node \"%s\": step \"%s\": %s", node_name(n), step->name, text);
    const struct event e = {.outcome = t->told ? OUTCOME_UNKNOWN : OUTCOME_NOT_STARTED, .tail = text};
    bool spared = lane->left_out && elastic_spare(r, lane->index, &err);
    if (!spared && !elastic_leaves(r, step, lane->index, &e))
        run_fail(r, RUN_INFRA, &err); /* first: so that nothing goes on when the task ends */
    task_finish_as(r, step, lane->index, e.outcome, text);
}

static void on_sync_state(void *arg, struct node *n, const struct wire_sync_state *s)
{
    transfer_state(lane_of(arg, n), s);
}

static void on_patched(void *arg, struct node *n, const struct wire_sync_state *s)
{
    patches_add(lane_of(arg, n), s);
}

static void on_entries(void *arg, struct node *n, const struct wire_entries *e)
{
    struct lane *lane = lane_of(arg, n);
    if (!preflight_entries(lane, e) && !rank0_entries(lane, e))
        fetch_entries(lane, e);
}

static void on_file_data(void *arg, struct node *n, uint64_t token, uint64_t offset, bool last, const char *error,
                         const uint8_t *data, uint32_t len)
{
    fetch_data(lane_of(arg, n), token, offset, last, error, data, len);
}

static void on_probed(void *arg, struct node *n, uint64_t token, uint32_t errnum, const char *who)
{
    preflight_probed(lane_of(arg, n), token, errnum, who);
}

static void on_drained(void *arg, struct node *n)
{
    transfer_drained(lane_of(arg, n));
}

const struct node_callbacks lane_callbacks = {.ready = on_ready,
                                              .lost = on_lost,
                                              .failed = on_failed,
                                              .record = on_record,
                                              .listed = on_listed,
                                              .started = on_started,
                                              .busy = on_busy,
                                              .output = on_output,
                                              .ended = on_ended,
                                              .ponged = on_ponged,
                                              .settled = on_settled,
                                              .checked = on_checked,
                                              .fault = on_fault,
                                              .sync_state = on_sync_state,
                                              .patched = on_patched,
                                              .entries = on_entries,
                                              .file_data = on_file_data,
                                              .probed = on_probed,
                                              .drained = on_drained};
