/* A run as a whole: how it fails, is stopped, closed or left open, and what the failure of a node means for the run. */
#include "internal.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct run_task *run_task(struct run *r, const struct plan_step *step, uint32_t node)
{
    return &r->tasks[(size_t)step->id * r->plan->node_count + node];
}

bool task_in_flight(const struct run_task *t)
{
    return t->state == TASK_STARTING || t->state == TASK_HELD || t->state == TASK_RUNNING || t->state == TASK_STOPPING;
}

void run_changed(struct run *r)
{
    if (r->options.observer.changed)
        r->options.observer.changed(r->options.observer.arg);
}

void run_note(struct run *r, uint32_t node, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *text = xvasprintf(fmt, ap);
    va_end(ap);
    str_printable(text);
    if (!r->options.recorded || r->opening != OPENING_DONE || r->stage >= STAGE_CLOSING || r->ending == ENDING_LET_GO)
        return;
    struct event e = {.type = EVENT_NOTE, .note = {.node = node, .reason = text}};
    run_append(r, &e);
}

/* ---- failing ---- */

void run_fail(struct run *r, enum run_status status, const struct error *err)
{
    if (r->stage >= STAGE_CLOSING || r->ending != ENDING_NOT)
        return;
    run_set_ending(r, ENDING_FAILED);
    r->fail_status = status;
    r->result.error = *err;
    alarm_set(r->stop_deadline, STOP_REACH_MS);
    run_due(r, DUE_STOP | DUE_END);
}

void run_stop(struct run *r)
{
    for (size_t i = 0; i < r->plan->step_count && r->stage < STAGE_CLOSING; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        for (uint32_t n = 0; n < r->plan->node_count; n++)
            if (step->kind->phase != PHASE_SETUP && !step->kind->fetch && task_in_flight(run_task(r, step, n)))
                task_stop(r, step, n, WIRE_STOP, launch_grace_ms(r, STOP_GRACE_MS));
    }
}

/* Whether any part of prolog, launch or epilog has begun that would be lost if the run were closed. */
static bool launch_begun(struct run *r)
{
    for (size_t i = 0; i < r->plan->step_count; i++)
        for (uint32_t n = 0; n < r->plan->node_count && !r->plan->steps[i].kind->cached; n++) {
            const struct run_task *t = run_task(r, &r->plan->steps[i], n);
            if (task_in_flight(t) || t->state == TASK_DONE)
                return true;
        }
    return false;
}

static bool anything_in_flight(struct run *r)
{
    for (size_t i = 0; i < r->plan->step_count * r->plan->node_count; i++)
        if (task_in_flight(&r->tasks[i]) && r->lanes[i % r->plan->node_count].presence != PRESENCE_GONE)
            return true;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (r->lanes[n].orphan_count > 0)
            return true;
    return false;
}

/* A node is out of reach while the launch lives, or after a part of it has ended well. Nothing is stopped, and the run
 * stays open, so that the same command continues it: a lost network must not destroy the work. */
static void leave_open(struct run *r, uint32_t node, const struct error *err)
{
    struct error copy = *err;
    run_note(r, node, "%s", err->text);
    if (err->code != ERROR_HELD && r->plan->spec->rent && !r->plan->spec->rent->cluster)
        error_hint(&copy,
                   "the same command continues the run, and rents another machine if one is gone; rhrun cancel %s "
                   "stops it",
                   r->id);
    else if (err->code != ERROR_HELD)
        error_hint(&copy, "running work goes on: the same command continues it, rhrun cancel %s stops it", r->id);
    run_leave_open(r, &copy);
}

void run_leave_open(struct run *r, const struct error *err)
{
    r->result.error = *err;
    r->result.exit_status = err->code == ERROR_HELD ? 4 : 3;
    r->result.status = RUN_OPEN;
    run_set_ending(r, ENDING_LET_GO);
    alarm_set(r->finisher, 0);
}

void run_node_failed(struct run *r, uint32_t node, const struct error *err)
{
    if (r->ending == ENDING_LET_GO)
        return;
    if (r->lanes[node].left_out) {
        elastic_spare(run_launch(r), node, err);
        run_due(r, DUE_PARTED | DUE_END);
        return;
    }
    r->failed_nodes++;
    bool going = r->opening == OPENING_DONE && r->ending == ENDING_NOT && r->stage < STAGE_CLOSING;
    if (r->points && points_node_failed(r, node, err))
        return;
    if (going && !r->points && r->options.mode == RUN_EXECUTE && launch_complete(run_launch(r)) &&
        !anything_in_flight(r)) { /* all is done: an earlier controller died just before it could record that */
        run_note(r, node, "%s", err->text);
        run_close(r, RUN_DONE, 0);
        return;
    }
    if (going && elastic_spare(run_launch(r), node, err)) {
        r->failed_nodes--;
        return;
    }
    if (going && launch_begun(r)) {
        leave_open(r, node, err);
        return;
    }
    if (r->options.mode == RUN_VERIFY || r->options.mode == RUN_LOOK) {
        run_look_done(r);
        return;
    }
    for (size_t i = 0; i < r->plan->step_count; i++) { /* what runs there is not known; the next contact will show it */
        struct run_task *t = run_task(r, &r->plan->steps[i], node);
        if (task_in_flight(t))
            task_set_state(r, t, TASK_FAILED);
    }
    r->lanes[node].orphan_count = 0;
    if (r->opening == OPENING_PROBES) {
        r->result.error = *err;
        r->result.exit_status = err->code == ERROR_HELD ? 4 : 3;
        run_set_stage(r, STAGE_CLOSED);
        alarm_set(r->finisher, 0);
        return;
    }
    run_note(r, node, "%s", err->text);
    run_fail(r, RUN_INFRA, err);
    run_due(r, DUE_END);
}

static bool still_connecting(const struct run *r)
{
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (r->lanes[n].state == LANE_CONNECTING && !r->lanes[n].left_out && r->lanes[n].presence != PRESENCE_GONE)
            return true;
    return false;
}

int run_exit_status(const struct run *r)
{
    const enum error_code code = r->result.error.code;
    return r->fail_status == RUN_OPEN                           ? 0
           : code == ERROR_HELD                                 ? 4
           : r->fail_status == RUN_INFRA || code == ERROR_INFRA ? 3
           : code == ERROR_USAGE                                ? 2
                                                                : 1;
}

void run_check_end(struct run *r)
{
    if (r->stage >= STAGE_CLOSING || r->opening != OPENING_DONE || !run_is_stopping(r))
        return;
    if (anything_in_flight(r))
        return;
    if (still_connecting(r) && (r->options.mode == RUN_CANCEL || !run_is_cancelled(r)) &&
        alarm_is_set(r->stop_deadline))
        return;
    bool more = false;
    for (size_t i = 0; i < r->launch_count; i++)
        more = launch_epilog(&r->launches[i]) || outputs_begin(&r->launches[i]) || more;
    if (more)
        return;
    if (run_is_cancelled(r))
        run_close(r, RUN_CANCELLED, 128 + (r->interrupt_signal ? r->interrupt_signal : SIGTERM));
    else
        run_close(r, r->fail_status, run_exit_status(r));
}

void run_on_stop_deadline(void *arg)
{
    struct run *r = arg;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        run_effect(r, &(struct effect){.kind = EFFECT_GIVE_UP, .node = n});
    if (run_is_stopping(r))
        outputs_abort_all(r);
    run_due(r, DUE_END);
}

/* ---- closing ---- */

void run_on_finisher(void *arg)
{
    struct run *r = arg;
    cause_tell(r);
    r->finished(r->arg);
}

void run_closed(struct run *r)
{
    run_set_stage(r, STAGE_CLOSED);
    alarm_set(r->finisher, 0);
}

/* Whether a controller may ask for this record again. None does if a later attempt of the same slot has replaced the
 * attempt, or if an earlier run left it. But an attempt that this journal does not have belongs to another controller,
 * which may not have seen the attempt's end. Without the record, that controller would believe that the attempt never
 * started, and would start it again. So such a record is kept for a week. */
static bool asked_for_again(const struct run *r, const struct wire_record *rec)
{
    const uint64_t week_ms = UINT64_C(7) * 24 * 3600 * 1000;
    uint64_t end_ms = rec->end_wall_ms > rec->claim_wall_ms ? rec->end_wall_ms : rec->claim_wall_ms;
    return !state_knows_attempt(r->state, rec->attempt) && run_wall_ms(r) < end_ms + week_ms;
}

static void forget_old(struct run *r)
{
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        struct lane *lane = &r->lanes[n];
        struct wire_strings old = {xcalloc(lane->record_count + 1, sizeof(char *)), 0};
        for (size_t i = 0; i < lane->record_count && presence_is_here(lane->presence); i++) {
            const struct wire_record *rec = &lane->records[i];
            const struct state_cell *cell = state_cell_by_attempt(r->state, rec->attempt);
            bool current = cell && str_eq(cell->attempt, rec->attempt);
            if (!current && rec->state != WIRE_STATE_CLAIMED && str_eq(rec->variant, r->work) &&
                !asked_for_again(r, rec))
                old.items[old.count++] = rec->attempt;
        }
        if (old.count > 0)
            run_effect(r, &(struct effect){.kind = EFFECT_FORGET, .node = n, .attempts = &old});
        free(old.items);
    }
}

void run_close(struct run *r, enum run_status status, int exit_status)
{
    if (r->stage >= STAGE_CLOSING)
        return;
    if (status == RUN_CANCELLED) {
        struct buf names = {0};
        for (uint32_t n = 0; n < r->plan->node_count; n++)
            if (r->lanes[n].presence == PRESENCE_GONE)
                buf_printf(&names, "%s%s", names.len ? ", " : "", r->lanes[n].name);
        if (names.len)
            error_set(&r->result.error, ERROR_INTERRUPTED, "cancelled; not reached: %s (stopped at the next contact)",
                      names.data);
        else
            error_set(&r->result.error, ERROR_INTERRUPTED, "cancelled");
        buf_free(&names);
    } else if (r->failed_nodes > 1 && r->fail_status == RUN_INFRA) {
        size_t len = strlen(r->result.error.text);
        snprintf(r->result.error.text + len, sizeof r->result.error.text - len, " (and %u more node%s)",
                 r->failed_nodes - 1, r->failed_nodes == 2 ? "" : "s");
    }
    r->result.status = status;
    r->result.exit_status = exit_status;
    if (status == RUN_DONE) /* only then does every slot have an attempt that is believed */
        forget_old(r);
    struct event e = {.type = EVENT_RUN_CLOSED,
                      .closed = {.status = status,
                                 .exit_status = exit_status,
                                 .reason = r->result.error.code != ERROR_NONE ? r->result.error.text : NULL}};
    run_append_then(r, &e, (struct awaited){.follow = FOLLOW_CLOSE});
    run_set_stage(r, STAGE_CLOSING);
    run_changed(r);
}

void run_orphan_ended(struct run *r, struct lane *lane, const struct wire_record *rec)
{
    const struct state_cell *cell = state_cell_by_attempt(r->state, rec->attempt);
    if (!cell || cell->outcome != OUTCOME_NONE)
        return;
    struct arena *arena = arena_create();
    struct event e = {.type = EVENT_FINISHED,
                      .finished = {.node = lane->index,
                                   .scope = arena_strdup(arena, cell->scope),
                                   .step = arena_strdup(arena, cell->step),
                                   .attempt = arena_strdup(arena, cell->attempt),
                                   .key = arena_strdup(arena, cell->key),
                                   .outcome = record_outcome(rec),
                                   .cause = rec->cause,
                                   .cause_value = rec->value,
                                   .cause_rank = rec->cause_rank,
                                   .tail = rec->tail,
                                   .log_bytes = rec->spool_bytes,
                                   .dropped_bytes = rec->dropped_bytes,
                                   .dropped_by = run_dropped_by(rec)}};
    run_append(r, &e);
    arena_destroy(arena);
}

/* ---- interrupt, detach ---- */

void run_stop_all(struct run *r)
{
    for (size_t i = 0; i < r->plan->step_count; i++)
        for (uint32_t n = 0; n < r->plan->node_count; n++) {
            struct run_task *t = run_task(r, &r->plan->steps[i], n);
            if (t->state == TASK_WAITING)
                task_set_state(r, t, TASK_FAILED);
            task_stop(r, &r->plan->steps[i], n, r->ending == ENDING_KILLED ? WIRE_KILL : WIRE_STOP,
                      launch_grace_ms(r, CANCEL_GRACE_MS));
        }
    run_due(r, DUE_END);
}

void run_interrupt(struct run *r, int signum)
{
    if (r->stage >= STAGE_CLOSING)
        return;
    if (r->opening != OPENING_DONE) { /* nothing was decided yet */
        error_set(&r->result.error, ERROR_INTERRUPTED, "interrupted");
        r->result.exit_status = 128 + signum;
        run_set_stage(r, STAGE_CLOSED);
        alarm_set(r->finisher, 0);
        return;
    }
    if (r->stage == STAGE_OUTPUTS && !run_is_cancelled(r)) {
        outputs_interrupt(r, signum);
        return;
    }
    if (run_is_cancelled(r)) {
        run_set_ending(r, ENDING_KILLED);
        run_stop_all(r);
        run_on_stop_deadline(r);
        return;
    }
    run_set_ending(r, ENDING_CANCELLED);
    r->interrupt_signal = signum;
    alarm_set(r->stop_deadline, STOP_REACH_MS);
    struct event e = {.type = EVENT_CANCELLING, .cancelling = {signum ? strsignal(signum) : "rhrun cancel"}};
    run_append_then(r, &e, (struct awaited){.follow = FOLLOW_STOP});
    run_changed(r);
}

void run_detach(struct run *r)
{
    if (r->stage >= STAGE_CLOSING)
        return; /* the run is ending by itself */
    run_set_ending(r, ENDING_LET_GO);
    r->result.status = RUN_OPEN;
    r->result.exit_status = 0;
    alarm_set(r->finisher, 0);
}
