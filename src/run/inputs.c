/* What a node says: each callback takes in what it was told, marks what that touches, and returns. See turn.c. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static struct lane *lane_of(void *arg, struct node *n)
{
    struct run *r = arg;
    return &r->lanes[node_index(n)];
}

static void on_ready(void *arg, struct node *n, bool again)
{
    struct lane *lane = lane_of(arg, n);
    struct run *r = lane->run;
    const struct wire_facts *facts = lane->facts = node_facts(n);
    lane_set_presence(lane, PRESENCE_HERE);
    transfer_stop(lane);
    fetch_lost(lane);
    if (lane->away)
        alarm_clear(lane->away);
    r->connections++;
    lane->clock_ns = (int64_t)(mono_ns() - facts->mono_ns);
    arena_reset(lane->arena);
    lane->record_count = lane->claimed_count = 0;
    lane->patch_count = 0;
    lane->said_bytes = 0;
    lane->fault_notes = 0;
    run_learn_node(r, lane->index);
    lane->connections++;
    if (r->journal && r->options.mode != RUN_LOOK && r->options.mode != RUN_VERIFY && r->opening == OPENING_DONE)
        lane_bind(lane);
    if (again)
        run_note(r, lane->index, "the node is back");
    struct error err = ERROR_INIT;
    if (r->options.mode == RUN_EXECUTE && r->opening == OPENING_DONE && !machines_add(r, lane->index, &err) &&
        !(lane->left_out && elastic_bar(run_launch(r), lane->index, &err)))
        run_fail(r, RUN_INFRA, &err);
    run_changed(r);
}

static void on_lost(void *arg, struct node *n, const struct error *err)
{
    struct lane *lane = lane_of(arg, n);
    lane->error = *err;
    lane_set_presence(lane, PRESENCE_LOST);
    transfer_stop(lane);
    fetch_lost(lane);
    preflight_lost(run_launch(lane->run));
    elastic_await(run_launch(lane->run));
    if (lane->away && !alarm_is_set(lane->away))
        alarm_set(lane->away, lane->run->options.reconnect_ms ? lane->run->options.reconnect_ms : RECONNECT_MS);
    run_note(lane->run, lane->index, "%s; trying to reconnect, its work goes on", err->text);
    run_changed(lane->run);
    run_due(lane->run, DUE_PARTED);
}

/* One more node was heard of, for the first time: with the last, it is known who shares a home with whom. */
static void heard(struct lane *lane)
{
    struct run *r = lane->run;
    if (!lane_first_heard(lane) || r->unheard > 0)
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
    lane_set_presence(lane, PRESENCE_GONE);
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
        if (task_in_flight(t) && task_is_sent(lane, t) && strcmp(t->attempt, rec->attempt) == 0) {
            task_may_have_started(t);
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
    if (lane->presence == PRESENCE_HERE) /* a node may say so twice */
        lane_set_presence(lane, PRESENCE_LISTED);
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
        task_may_have_started(run_task(lane->run, step, lane->index));
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
    } else if (lane_has_orphan(lane, rec->attempt)) {
        run_orphan_ended(r, lane, rec);
        drop_orphan(lane, rec->attempt);
    }
    run_due(r, DUE_END);
}

static void on_ponged(void *arg, struct node *n, uint64_t token, uint32_t free_port, uint64_t wall)
{
    struct lane *lane = lane_of(arg, n);
    if (!preflight_ponged(run_launch(lane->run), lane, token, wall))
        launch_port(run_launch(lane->run), token, free_port);
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
        if (!elastic_spare(run_launch(r), lane->index, &err))
            run_fail(r, RUN_INFRA, &err);
        return;
    }
    lane_set_dirty(lane, false);
    lane_set_state(lane, LANE_BARRIER);
    struct event e = {.type = EVENT_SETTLED, .settled = {.node = lane->index, .boot_id = node_facts(n)->boot_id}};
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
        !task_is_sent(
            lane,
            t)) { /* before anything was asked of it on this connection it is LIST that found its record damaged */
        if (t)
            task_may_have_started(t);
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
    const struct event_finished end = {.outcome = t->marks.may_have_started ? OUTCOME_UNKNOWN : OUTCOME_NOT_STARTED,
                                       .tail = text};
    struct launch *l = launch_of(r, step);
    bool spared = lane->left_out && elastic_spare(run_launch(r), lane->index, &err);
    if (!spared && !(l && elastic_leaves(l, step, lane->index, &end)))
        run_fail(r, RUN_INFRA, &err); /* first: so that nothing goes on when the task ends */
    task_finish_as(r, step, lane->index, end.outcome, text);
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
    if (!preflight_entries(run_launch(lane->run), lane, e) && !rank0_entries(run_launch(lane->run), lane, e))
        fetch_entries(lane, e);
}

static void on_file_data(void *arg, struct node *n, uint64_t token, uint64_t offset, bool last, const char *error,
                         const uint8_t *data, uint32_t len)
{
    fetch_data(lane_of(arg, n), token, offset, last, error, data, len);
}

static void on_probed(void *arg, struct node *n, uint64_t token, uint32_t errnum, const char *who)
{
    preflight_probed(run_launch(arg), lane_of(arg, n), token, errnum, who);
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
