/* Takes the inputs of nodes, with a function for each kind. The function changes the state that the input is about,
 * says which passes are due, and returns. See turn.c. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static void take_ready(struct lane *lane, const struct wire_facts *facts, bool again)
{
    struct run *r = lane->run;
    outputs_lost(lane);
    lane->facts = facts;
    lane_set_presence(lane, PRESENCE_HERE);
    if (lane->away)
        alarm_clear(lane->away);
    r->connections++;
    lane->clock_ns = (int64_t)(run_mono_ns(r) - facts->mono_ns);
    arena_reset(lane->arena);
    lane->record_count = lane->claimed_count = 0;
    lane->patch_count = 0;
    lane->said_bytes = 0;
    lane->fault_notes = 0;
    lane->connections++;
    if (r->options.recorded && r->options.mode != RUN_LOOK && r->options.mode != RUN_VERIFY &&
        r->opening == OPENING_DONE)
        lane_bind(lane);
    if (again)
        run_note(r, lane->index, "the node is back");
    struct error err = ERROR_INIT;
    if (r->options.mode == RUN_EXECUTE && r->opening == OPENING_DONE && !machines_add(r, lane->index, &err) &&
        !(lane->left_out && elastic_bar(run_launch(r), lane->index, &err)))
        run_fail(r, RUN_INFRA, &err);
    run_changed(r);
}

static void take_lost(struct lane *lane, const struct error *err)
{
    struct run *r = lane->run;
    outputs_lost(lane);
    preflight_lost(run_launch(r));
    lane->error = *err;
    lane_set_presence(lane, PRESENCE_LOST);
    elastic_await(run_launch(r));
    if (lane->away && !alarm_is_set(lane->away))
        alarm_set(lane->away, r->options.reconnect_ms ? r->options.reconnect_ms : RECONNECT_MS);
    run_note(r, lane->index, "%s; trying to reconnect, its work goes on", err->text);
    run_changed(r);
    run_due(r, DUE_PARTED);
    if (r->points) /* nodes that wait to begin a point together with this one may begin others */
        run_due(r, DUE_BARRIER);
}

/* The node was listed or has failed. When that holds for all nodes, it is known which nodes share a home. */
static void heard(struct lane *lane)
{
    struct run *r = lane->run;
    const bool first = lane_first_heard(lane);
    if (r->unheard == 0)
        work_heard(r);
    if (r->unheard == 0 && r->points)
        run_due(r, DUE_BARRIER);
    if (!first || r->unheard > 0)
        return;
    for (uint32_t n = 0; n < r->plan->node_count && r->plan->node_count > 1; n++)
        if (r->lanes[n].state == LANE_SETUP)
            run_touch(r, n);
}

static void take_gone(struct lane *lane, const struct error *err)
{
    outputs_lost(lane);
    lane->error = *err;
    lane_set_replacing(lane, false);
    lane_set_presence(lane, PRESENCE_GONE);
    lane_set_state(lane, LANE_FAILED);
    run_node_failed(lane->run, lane->index, err);
    heard(lane);
}

static void take_vanished(struct lane *lane)
{
    struct run *r = lane->run;
    const bool asked = lane->away || rules_replace(run_launch(r), lane);
    if (asked && r->opening == OPENING_DONE && r->ending == ENDING_NOT && r->stage < STAGE_CLOSING)
        rules_node_lost(run_launch(r), lane, true);
    else
        run_effect(r, &(struct effect){.kind = EFFECT_GIVE_UP, .node = lane->index});
}

static void take_record(struct lane *lane, const struct wire_record *rec)
{
    struct run *r = lane->run;
    /* the answer to a RUN of an attempt that the node knows already: asks for its output and end */
    for (size_t i = 0; i < r->plan->step_count; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        struct run_task *t = run_task(r, step, lane->index);
        if (task_in_flight(t) && task_is_sent(lane, t) && strcmp(t->attempt, rec->attempt) == 0) {
            task_may_have_started(t);
            run_effect(r, &(struct effect){.kind = EFFECT_ATTACH,
                                           .node = lane->index,
                                           .attempt = rec->attempt,
                                           .offset = t->log ? t->log->size : 0});
            return;
        }
    }
    lane_keep_record(lane, rec);
}

static void take_listed(struct lane *lane)
{
    bool first = lane->state == LANE_CONNECTING;
    lane->listed_over = lane->connections;
    if (lane->presence == PRESENCE_HERE) /* a node may send LISTED twice */
        lane_set_presence(lane, PRESENCE_LISTED);
    if (first)
        lane_set_state(lane, LANE_LISTED);
    run_lane_listed(lane->run, lane);
    heard(lane);
}

static void take_checked(struct lane *lane, const uint8_t *exists, uint32_t count)
{
    struct run *r = lane->run;
    uint32_t k = 0;
    for (size_t i = 0; i < r->plan->step_count; i++)
        if (r->plan->steps[i].creates && r->plan->steps[i].on[lane->index] && k < count)
            lane->creates[i] = exists[k++] ? CHECK_YES : CHECK_NO;
    for (size_t i = 0; i < r->plan->step_count; i++)
        if (step_checks_tree(&r->plan->steps[i], lane->index) && k < count)
            lane->trees[i] = exists[k++] ? CHECK_YES : CHECK_NO;
}

const struct plan_step *lane_in_flight(const struct lane *lane, const char *attempt)
{
    struct run *r = lane->run;
    for (size_t i = 0; i < r->plan->step_count; i++) {
        struct run_task *t = run_task(r, &r->plan->steps[i], lane->index);
        if (task_in_flight(t) && strcmp(t->attempt, attempt) == 0)
            return &r->plan->steps[i];
    }
    return NULL;
}

static void take_started(struct lane *lane, const char *attempt)
{
    const struct plan_step *step = lane_in_flight(lane, attempt);
    if (step)
        task_may_have_started(run_task(lane->run, step, lane->index));
    run_changed(lane->run);
}

static void take_busy(struct lane *lane, const struct input *in)
{
    const struct plan_step *step = lane_in_flight(lane, in->attempt);
    if (!step)
        return;
    struct error err = ERROR_INIT;
    error_set(&err, ERROR_INFRA, "node \"%s\": \"%s\" is busy with attempt %.8s", lane->name, in->slot, in->live);
    task_finish_as(lane->run, step, lane->index, OUTCOME_NOT_STARTED, "the slot was busy");
    run_fail(lane->run, RUN_INFRA, &err);
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

/* Notes the daemons that a set-up step left: they are allowed, but the user is told. */
static void note_leftover(struct lane *lane, const struct plan_step *step, const char *leftover)
{
    CLEANUP(cleanup_free) char *list = xstrdup(leftover);
    for (char *p = list; *p; p++)
        if (*p == '\n')
            *p = p[1] ? ',' : 0;
    run_note(lane->run, lane->index, "step \"%s\" left running: %s", step->name, list);
}

static void take_ended(struct lane *lane, const struct wire_record *rec)
{
    struct run *r = lane->run;
    const struct plan_step *step = lane_in_flight(lane, rec->attempt);
    if (step) {
        if (rec->leftover[0] && step->kind->phase == PHASE_SETUP)
            note_leftover(lane, step, rec->leftover);
        patches_ended(lane, step, rec);
        task_finish(r, step, lane->index, rec, false);
    } else if (lane_has_orphan(lane, rec->attempt)) {
        run_orphan_ended(r, lane, rec);
        drop_orphan(lane, rec->attempt);
    }
    run_due(r, DUE_END);
}

static void take_settled(struct lane *lane, const char *error)
{
    struct run *r = lane->run;
    if (lane->state != LANE_SETTLING)
        return;
    if (error[0]) {
        struct error err = ERROR_INIT;
        error_set(&err, ERROR_INFRA, "node \"%s\": could not sync the set-up to its disk: %s", lane->name, error);
        if (!elastic_spare(run_launch(r), lane->index, &err))
            run_fail(r, RUN_INFRA, &err);
        return;
    }
    lane_set_dirty(lane, false);
    lane_set_state(lane, LANE_BARRIER);
    struct event e = {.type = EVENT_SETTLED, .settled = {.node = lane->index, .boot_id = lane->facts->boot_id}};
    run_append(r, &e);
    run_due(r, DUE_BARRIER);
}

/* The node reports a fault that concerns no attempt that was sent over this connection: LIST has found a damaged
 * record. */
static void note_fault(struct lane *lane, const char *text)
{
    if (lane->fault_notes++ < LANE_FAULTS_MAX) {
        run_note(lane->run, lane->index, "%.1000s", text);
        return;
    }
    struct error err = ERROR_INIT;
    error_set(&err, ERROR_PROTOCOL, "node \"%s\" reports one fault after another; the last: %.300s", lane->name, text);
    run_refuse(lane, &err);
}

static void take_fault(struct lane *lane, const char *attempt, const char *text)
{
    struct run *r = lane->run;
    const struct plan_step *step = lane_in_flight(lane, attempt);
    struct run_task *t = step ? run_task(r, step, lane->index) : NULL;
    if (t && !task_is_sent(lane, t))
        task_may_have_started(t);
    if (!t || !task_is_sent(lane, t)) {
        note_fault(lane, text);
        return;
    }
    struct error err = ERROR_INIT;
    error_set(&err, ERROR_INFRA, "node \"%s\": step \"%s\": %s", lane->name, step->name, text);
    const struct event_finished end = {.outcome = t->marks.may_have_started ? OUTCOME_UNKNOWN : OUTCOME_NOT_STARTED,
                                       .tail = text};
    struct launch *l = launch_of(r, step);
    bool spared = lane->left_out && elastic_spare(run_launch(r), lane->index, &err);
    if (!spared && !(l && elastic_leaves(l, step, lane->index, &end)))
        run_fail(r, RUN_INFRA, &err); /* before the task ends, so that nothing goes on then */
    task_finish_as(r, step, lane->index, end.outcome, text);
}

static void take_installed(struct lane *lane, const char *role, const char *text)
{
    struct run *r = lane->run;
    const struct state_installed *known = state_installed_on(r->state, lane->index, role);
    char digest[65];
    digest_sha256_hex(text, strlen(text), digest);
    if (known && str_eq(known->digest, digest))
        return;
    struct event e = {.type = EVENT_INSTALLED,
                      .installed = {.node = lane->index,
                                    .role = role,
                                    .digest = digest,
                                    .found_json = state_knows_attempt(r->state, digest) ? NULL : text}};
    run_append(r, &e);
}

void core_take(struct run *r, const struct input *in)
{
    struct lane *lane = &r->lanes[in->node];
    switch (in->kind) {
    case INPUT_READY:
        take_ready(lane, in->facts, in->again);
        break;
    case INPUT_LOST:
        take_lost(lane, in->error);
        break;
    case INPUT_GONE:
        take_gone(lane, in->error);
        break;
    case INPUT_VANISHED:
        take_vanished(lane);
        break;
    case INPUT_MACHINE:
        lane_replaced(lane);
        break;
    case INPUT_RECORD:
        take_record(lane, in->record);
        break;
    case INPUT_LISTED:
        take_listed(lane);
        break;
    case INPUT_CHECKED:
        take_checked(lane, in->exists, in->count);
        break;
    case INPUT_PATCHED:
        patches_add(lane, in->state);
        break;
    case INPUT_STARTED:
        take_started(lane, in->attempt);
        break;
    case INPUT_BUSY:
        take_busy(lane, in);
        break;
    case INPUT_ENDED:
        take_ended(lane, in->record);
        break;
    case INPUT_SETTLED:
        take_settled(lane, in->text);
        break;
    case INPUT_FAULT:
        take_fault(lane, in->attempt, in->text);
        break;
    case INPUT_PORT:
        if (!points_port(r, in->token, in->node, in->port))
            launch_port(run_launch(r), in->token, in->port);
        break;
    case INPUT_DURABLE:
        durable_take(r, in->seq);
        break;
    case INPUT_FINDINGS:
        preflight_take(run_launch(r), in);
        break;
    case INPUT_FETCHED:
        outputs_take(lane, in);
        break;
    case INPUT_RANK0:
        rank0_told(run_launch(r), in->node, in->token, in->at_ns);
        break;
    case INPUT_LOOKED:
        rank0_looked(launch_of(r, in->step), in->step, in->node, in);
        break;
    case INPUT_INSTALLED:
        take_installed(lane, in->slot, in->text);
        break;
    }
}
