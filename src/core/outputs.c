/* Fetches of outputs: periodically while the launch runs, and all of them when launch and epilog are over. STARTED and
 * FINISHED are journalled as for any step: if a controller dies in between, the next one fetches again, and a job is
 * done only when its outputs have been fetched. */
#include "internal.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { ASKED_MS = 1000 }; /* pause after which the nodes may have said where rank 0 is */

struct output_watch { /* one for each step with `every` */
    struct launch *launch;
    const struct plan_step *step;
    uint64_t every_ms;
    struct alarm *timer;
    char *said; /* the last fault that was noted: the same fault is not noted twice in a row */
};

static bool is_output(const struct plan_step *step)
{
    return step->kind->fetch;
}

/* When the step fetches, and how often. 0, or -1: not known. The folder of results is a placeholder, because only the
 * hands know the real one. */
static int when_of(struct run *r, const struct plan_step *step, uint32_t node, struct arena *arena,
                   struct step_fetch *ret)
{
    struct error err = ERROR_INIT; /* reported when the fetch begins */
    const bool of_point = step->kind->phase == PHASE_POINT;
    const struct plan *plan = of_point ? r->plan->points[step->point].own : r->plan;
    const struct step_bind bind = {.spec = plan->spec,
                                   .node = of_point ? point_bind_part(r, step, node) : node,
                                   .run_id = r->id,
                                   .work = r->work,
                                   .result_dir = "/"};
    return step->kind->fetch(plan, step, &bind, arena, ret, &err);
}

/* ---- one step, one node ---- */

void outputs_ask(struct run *r, const struct plan_step *step, uint32_t node, bool periodic)
{
    struct run_task *t = run_task(r, step, node);
    t->files_done = t->files_total = t->bytes_done = t->bytes_total = 0;
    task_set_coming(t, true);
    run_effect(r, &(struct effect){.kind = EFFECT_FETCH, .node = node, .step = step, .periodic = periodic});
}

void outputs_stop(struct run *r, const struct plan_step *step, uint32_t node)
{
    struct run_task *t = run_task(r, step, node);
    if (!t->coming)
        return;
    task_set_coming(t, false);
    run_effect(r, &(struct effect){.kind = EFFECT_FETCH_STOP, .node = node, .step = step});
}

void outputs_send(struct run *r, const struct plan_step *step, uint32_t node)
{
    if (!lane_is_ready(&r->lanes[node]))
        return; /* reconcile.c sends it when the node has listed its records */
    if (step->at_rank0)
        rank0_fetch(launch_of(r, step));
    else
        outputs_ask(r, step, node, false);
}

void outputs_lost(struct lane *lane)
{
    struct run *r = lane->run;
    for (size_t i = 0; i < r->plan->step_count; i++)
        if (is_output(&r->plan->steps[i]))
            task_set_coming(run_task(r, &r->plan->steps[i], lane->index), false);
    for (size_t i = 0; i < r->launch_count; i++)
        rank0_lost(&r->launches[i], lane);
    lane_set_saving(lane, SAVING_NOT);
}

/* ---- while the launch runs ---- */

static void on_watch(void *arg)
{
    struct output_watch *w = arg;
    struct run *r = w->launch->run;
    uint32_t from = 0;
    alarm_set(w->timer, w->every_ms);
    if (r->stage == STAGE_LAUNCH && w->step->at_rank0 && !rank0_periodic(w->launch, &from)) {
        alarm_set(w->timer, w->every_ms < ASKED_MS ? w->every_ms : ASKED_MS);
        return;
    }
    for (uint32_t n = 0; n < r->plan->node_count && r->stage == STAGE_LAUNCH && !run_is_stopping(r); n++)
        if (w->step->on[n] && (!w->step->at_rank0 || n == from) && lane_is_ready(&r->lanes[n]) &&
            !run_task(r, w->step, n)->coming)
            outputs_ask(r, w->step, n, true);
}

/* Whether a fetch of one of the watched outputs is under way from the node. ask: starts these fetches first. */
static bool is_coming(struct launch *l, struct lane *lane, bool ask)
{
    struct run *r = l->run;
    bool coming = false;
    for (size_t i = 0; i < l->watch_count; i++) {
        const struct plan_step *step = l->watches[i].step;
        uint32_t from = 0;
        if (!step->on[lane->index] || (step->at_rank0 && (!rank0_periodic(l, &from) || from != lane->index)))
            continue;
        if (ask)
            outputs_ask(r, step, lane->index, true);
        coming = coming || run_task(r, step, lane->index)->coming;
    }
    return coming;
}

bool outputs_saved(struct launch *l, struct lane *lane)
{
    outputs_watch(l); /* a controller that continues the run has not come to that yet */
    if (lane->saving == SAVING_NOT)
        lane_set_saving(lane, SAVING_WAITS);
    if (is_coming(l, lane, false))
        return false;
    if (lane->saving == SAVING_WAITS && is_coming(l, lane, true)) {
        lane_set_saving(lane, SAVING_ASKED);
        run_note(l->run, lane->index, "its outputs are fetched before its machine is given up");
        return false;
    }
    return true;
}

void outputs_watch(struct launch *l)
{
    struct run *r = l->run;
    if (l->watches || r->options.mode != RUN_EXECUTE)
        return;
    l->watches = xcalloc(r->plan->step_count + 1, sizeof *l->watches);
    struct arena *arena = arena_create();
    for (size_t i = l->first_step; i < l->end_step; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        struct step_fetch what = {0};
        uint32_t node = 0;
        while (is_output(step) && node < r->plan->node_count && !step->on[node])
            node++;
        if (!is_output(step) || node == r->plan->node_count || when_of(r, step, node, arena, &what) < 0 ||
            !what.every_ms)
            continue;
        struct output_watch *w = &l->watches[l->watch_count++];
        *w = (struct output_watch){l, step, what.every_ms, alarm_create(r, on_watch, w), NULL};
        alarm_set(w->timer, w->every_ms);
    }
    arena_destroy(arena);
}

static void say_trouble(struct launch *l, const struct plan_step *step, uint32_t node, const struct error *err)
{
    for (size_t i = 0; i < l->watch_count; i++) {
        struct output_watch *w = &l->watches[i];
        if (w->step != step || str_eq(w->said, err->text))
            continue;
        free(w->said);
        w->said = xstrdup(err->text);
        run_note(l->run, node, "%s", err->text);
    }
}

static void unwatch(struct launch *l)
{
    for (size_t i = 0; i < l->watch_count; i++) {
        alarm_destroy(l->watches[i].timer);
        free(l->watches[i].said);
    }
    l->watch_count = 0;
}

void outputs_free(struct launch *l)
{
    unwatch(l);
    rank0_free(l);
    free(l->watches);
}

/* ---- at the end ---- */

static bool in_flight(const struct launch *l)
{
    const struct run *r = l->run;
    for (size_t i = l->first_step; i < l->end_step; i++)
        for (uint32_t n = 0; is_output(&r->plan->steps[i]) && n < r->plan->node_count; n++)
            if (task_in_flight(&r->tasks[i * r->plan->node_count + n]))
                return true;
    return false;
}

bool outputs_complete(const struct launch *l)
{
    const struct run *r = l->run;
    for (size_t i = l->first_step; i < l->end_step; i++)
        for (uint32_t n = 0; is_output(&r->plan->steps[i]) && n < r->plan->node_count; n++)
            if (r->plan->steps[i].on[n] && r->tasks[i * r->plan->node_count + n].state != TASK_DONE)
                return false;
    return true;
}

bool outputs_due(struct run *r, const struct plan_step *step, uint32_t node, bool success)
{
    struct arena *arena = arena_create();
    struct step_fetch what = {.when = WHEN_ALWAYS};
    when_of(r, step, node, arena, &what);
    arena_destroy(arena);
    return success || what.when == WHEN_ALWAYS;
}

/* Starts the step on the nodes where it is due. Outputs that are fetched only after a success are not due after any
 * other end. */
static void start_step(struct run *r, const struct plan_step *step, bool success)
{
    uint32_t *nodes = xcalloc(r->plan->node_count, sizeof *nodes);
    size_t count = 0;
    struct arena *arena = arena_create();
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        struct step_fetch what = {.when = WHEN_ALWAYS};
        struct lane *lane = &r->lanes[n];
        if (!step->on[n] || run_task(r, step, n)->state != TASK_PENDING)
            continue;
        when_of(r, step, n, arena, &what);
        if (what.when == WHEN_SUCCESS && !success)
            continue;
        if (lane->presence == PRESENCE_GONE || lane->left_out ||
            (run_is_stopping(r) && !presence_is_here(lane->presence))) {
            if (!step->at_rank0)
                run_note(r, n, "%s: not fetched, the node is away", step->name);
            continue;
        }
        nodes[count++] = n;
    }
    if (count > 0)
        task_start_many(r, step, nodes, count, 0);
    arena_destroy(arena);
    free(nodes);
}

bool outputs_begin(struct launch *l)
{
    struct run *r = l->run;
    if (r->ending >= ENDING_KILLED || r->options.mode != RUN_EXECUTE || !launch_has_begun(l))
        return false;
    if (r->stage != STAGE_OUTPUTS) {
        bool success = launch_over(l);
        unwatch(l);
        for (uint32_t n = 0; n < r->plan->node_count; n++)
            for (size_t i = l->first_step; i < l->end_step; i++)
                if (is_output(&r->plan->steps[i]) && !task_in_flight(run_task(r, &r->plan->steps[i], n)))
                    outputs_stop(r, &r->plan->steps[i], n); /* a periodic fetch */
        rank0_forget(l);
        run_set_stage(r, STAGE_OUTPUTS);
        if (run_is_stopping(r))
            alarm_set(r->stop_deadline, STOP_REACH_MS);
        for (size_t i = l->first_step; i < l->end_step; i++)
            if (is_output(&r->plan->steps[i]))
                start_step(r, &r->plan->steps[i], success);
    }
    return in_flight(l);
}

static void say_totals(struct run *r)
{
    for (size_t i = 0; i < r->plan->step_count; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        uint64_t files = 0, bytes = 0;
        struct buf text = {0};
        for (uint32_t n = 0; is_output(step) && n < r->plan->node_count; n++) {
            files += run_task(r, step, n)->files_done;
            bytes += run_task(r, step, n)->bytes_done;
        }
        if (files == 0)
            continue;
        run_put_files(&text, files, 0, bytes);
        run_note(r, EVENT_NODE_NONE, "%s: %s fetched", step->name, text.data);
        buf_free(&text);
    }
}

void outputs_end(struct launch *l)
{
    struct run *r = l->run;
    if (r->stage == STAGE_OUTPUTS)
        say_totals(r);
    if (run_is_stopping(r))
        run_due(r, DUE_END);
    else if (l->outputs_error.code != ERROR_NONE && r->fail_status == RUN_OPEN)
        run_leave_open(r, &l->outputs_error);
    else
        run_close(r, r->fail_status == RUN_OPEN ? RUN_DONE : r->fail_status, run_exit_status(r));
}

void outputs_pass(struct launch *l)
{
    struct run *r = l->run;
    rank0_changed(l);
    if (r->stage == STAGE_OUTPUTS && r->ending != ENDING_LET_GO && !in_flight(l))
        outputs_end(l);
}

/* ---- how a fetch has ended ---- */

/* Whether no other node of the step had files. A fetch that found no file is recorded as done, with its message as the
 * tail. */
static bool others_are_empty(struct run *r, const struct plan_step *step, uint32_t node)
{
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        const struct state_cell *c = state_cell_find(r->state, step->scope, step->name, n);
        if (n == node || !step->on[n])
            continue;
        if (!c || !str_eq(c->run, r->id) || (c->outcome != OUTCOME_OK && !c->was_ok) || !c->tail || !*c->tail)
            return false;
    }
    return true;
}

/* Whether the node is no longer the machine on which the launch ended, or has lost all its files. */
static bool is_replaced(const struct run *r, uint32_t node)
{
    for (size_t i = 0; i < r->plan->step_count; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        const struct state_cell *c = step->kind->phase == PHASE_LAUNCH && step->on[node]
                                         ? state_cell_find(r->state, step->scope, step->name, node)
                                         : NULL;
        if (c && (c->outcome == OUTCOME_OK || c->was_ok) && lane_is_elsewhere(&r->lanes[node], c))
            return true;
    }
    return false;
}

static void nothing_there(struct run *r, const struct plan_step *step, uint32_t node, const struct error *err)
{
    if (!step->kind->result && !step->at_rank0 && !is_replaced(r, node) && !others_are_empty(r, step, node)) {
        task_finish_as(r, step, node, OUTCOME_OK, err->text);
        return;
    }
    if (r->fail_status == RUN_OPEN && !run_is_stopping(r)) {
        r->fail_status = RUN_FAILED;
        r->result.error = *err;
        if (is_replaced(r, node))
            error_hint(&r->result.error, "the node is not the machine on which the launch ended, or has lost its "
                                         "files: --again launches again; `required: false` if the file may be missing");
        else if (!step->kind->result)
            error_hint(&r->result.error, "the launch is kept: once `outputs` is right, the same command only fetches; "
                                         "`required: false` if the file may be missing");
    }
    task_finish_as(r, step, node, OUTCOME_FAILED, err->text);
}

static void broken_off(struct run *r, const struct plan_step *step, uint32_t node, const struct error *err)
{
    struct launch *l = launch_of(r, step);
    struct run_task *t = run_task(r, step, node);
    if (run_is_stopping(r) || r->fail_status != RUN_OPEN) { /* the run has failed anyway */
        run_note(r, node, "%s", err->text);
        task_finish_as(r, step, node, OUTCOME_FAILED, err->text);
        return;
    }
    if (l->outputs_error.code == ERROR_NONE) {
        l->outputs_error = *err;
        error_hint(&l->outputs_error, "the files that are here are kept: the same command fetches the rest");
    } else {
        run_note(r, node, "%s", err->text);
    }
    /* In the journal the task is started and not finished, so the next controller does it again. */
    task_set_state(r, t, TASK_FAILED);
    t->ended_ms = run_wall_ms(r);
    run_due(r, DUE_OUTPUTS);
}

static void never_begun(struct run *r, const struct plan_step *step, uint32_t node, const struct error *why)
{
    struct error err = *why;
    task_finish_as(r, step, node, OUTCOME_NOT_STARTED, err.text);
    error_prefix(&err, "step \"%s\"", step->name);
    run_fail(r, RUN_FAILED, &err);
}

void outputs_take(struct lane *lane, const struct input *in)
{
    struct run *r = lane->run;
    const struct plan_step *step = in->step;
    struct run_task *t = run_task(r, step, lane->index);
    struct error err = *in->error;
    task_set_coming(t, false);
    t->files_done = in->files;
    t->bytes_done = in->bytes;
    if (in->how != FETCH_DONE && in->how != FETCH_IMPOSSIBLE)
        error_prefix(&err, "node \"%s\": step \"%s\"", lane->name, step->name);
    if (in->periodic && in->how == FETCH_BROKEN)
        say_trouble(launch_of(r, step), step, lane->index, &err);
    if (lane->saving != SAVING_NOT)
        run_due(r, DUE_BARRIER);
    if (in->periodic || t->state != TASK_RUNNING)
        return;
    if (step->kind->phase == PHASE_POINT) {
        const bool good = in->how == FETCH_DONE || in->how == FETCH_EMPTY;
        if (in->how != FETCH_DONE)
            run_note(r, lane->index, "%s", err.text);
        task_finish_as(r, step, lane->index, good ? OUTCOME_OK : OUTCOME_FAILED, good ? NULL : err.text);
        return;
    }
    switch (in->how) {
    case FETCH_DONE:
        task_finish_as(r, step, lane->index, OUTCOME_OK, NULL);
        break;
    case FETCH_EMPTY:
        run_note(r, lane->index, "%s", err.text);
        task_finish_as(r, step, lane->index, OUTCOME_OK, err.text);
        break;
    case FETCH_NOTHING:
        nothing_there(r, step, lane->index, &err);
        break;
    case FETCH_BROKEN:
        broken_off(r, step, lane->index, &err);
        break;
    case FETCH_IMPOSSIBLE:
        never_begun(r, step, lane->index, &err);
        break;
    }
}

/* ---- given up ---- */

void outputs_abort(struct run *r, const struct plan_step *step, uint32_t node)
{
    struct run_task *t = run_task(r, step, node);
    outputs_stop(r, step, node);
    if (t->state == TASK_RUNNING || t->state == TASK_STOPPING)
        task_finish_as(r, step, node, OUTCOME_STOPPED, "stopped before all of it was fetched");
}

void outputs_abort_all(struct run *r)
{
    for (size_t i = 0; i < r->plan->step_count; i++)
        for (uint32_t n = 0; is_output(&r->plan->steps[i]) && n < r->plan->node_count; n++)
            outputs_abort(r, &r->plan->steps[i], n);
}

void outputs_interrupt(struct run *r, int signum)
{
    struct error err = ERROR_INIT;
    if (r->ending == ENDING_FAILED || r->fail_status != RUN_OPEN) {
        outputs_abort_all(r);
        return;
    }
    for (size_t i = 0; i < r->plan->step_count; i++)
        for (uint32_t n = 0; is_output(&r->plan->steps[i]) && n < r->plan->node_count; n++)
            outputs_stop(r, &r->plan->steps[i], n);
    error_set(&err, ERROR_INTERRUPTED, "interrupted before all outputs were fetched");
    error_hint(&err, "the job itself is over: the same command fetches the rest, rhrun cancel %s gives it up", r->id);
    run_leave_open(r, &err);
    r->result.exit_status = 128 + (signum ? signum : SIGTERM);
}

/* ---- words ---- */

static void put_count(struct buf *b, uint64_t n)
{
    char digits[32];
    int len = snprintf(digits, sizeof digits, "%" PRIu64, n);
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            buf_putc(b, ',');
        buf_putc(b, digits[i]);
    }
}

static void put_bytes(struct buf *b, uint64_t bytes)
{
    static const char *const units[] = {"kB", "MB", "GB", "TB"};
    double n = (double)bytes / 1000;
    size_t u = 0;
    for (; n >= 999.95 && u + 1 < ARRAY_LEN(units); u++)
        n /= 1000;
    if (bytes < 1000)
        buf_printf(b, "%" PRIu64 " bytes", bytes);
    else
        buf_printf(b, "%.1f %s", n, units[u]);
}

void run_put_files(struct buf *b, uint64_t files, uint64_t all, uint64_t bytes)
{
    put_count(b, files);
    if (all > files) {
        buf_puts(b, " of ");
        put_count(b, all);
    }
    buf_printf(b, " file%s, ", (all > files ? all : files) == 1 ? "" : "s");
    put_bytes(b, bytes);
}
