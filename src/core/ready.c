/*
 * Roles that are ready when their workers have printed a given line. The controller does the step itself, by reading
 * their lines. The step is journalled as any other; after a restart of the controller the lines are read again from the
 * log's beginning.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

struct ready {
    struct run *run;
    const struct plan_step *step;
    uint32_t node;
    /* the role's workers there: number of the first, how many, and how many have not printed the line */
    uint32_t first, count, left;
    bool *seen;
    struct regex *pattern;
    struct alarm *timer;
};

void ready_forget(struct run *r, const struct plan_step *step, uint32_t node)
{
    struct run_task *t = run_task(r, step, node);
    struct ready *ready = t->ready;
    if (!ready)
        return;
    t->ready = NULL;
    alarm_destroy(ready->timer);
    regex_destroy(ready->pattern);
    free(ready->seen);
    free(ready);
}

static struct ready *ready_of(struct run *r, const struct plan_step *step, uint32_t node)
{
    struct run_task *t = run_task(r, step, node);
    struct regex_fault fault; /* not used: the spec's check has compiled the pattern */
    if (t->ready)
        return t->ready;
    struct ready *ready = xcalloc(1, sizeof *ready);
    *ready = (struct ready){.run = r, .step = step, .node = node};
    const struct plan_place *place = plan_place_of(r->plan, step->watch->role, node);
    ready->first = place ? place->worker : 0;
    ready->count = ready->left = place ? place->count : 0;
    ready->seen = xcalloc((size_t)ready->count + 1, sizeof *ready->seen);
    ready->pattern = regex_create(step->watch->pattern, strlen(step->watch->pattern), &fault);
    t->ready = ready;
    return ready;
}

static bool watches(const struct plan_step *step, const struct plan_step *launch, uint32_t node)
{
    return step->watch && step->watch->step == launch->id && step->on[node];
}

bool ready_wanted(const struct run *r, const struct plan_step *launch, uint32_t node)
{
    for (size_t i = 0; i < r->plan->step_count; i++)
        if (watches(&r->plan->steps[i], launch, node))
            return true;
    return false;
}

static void check(struct ready *ready)
{
    struct run_task *t = run_task(ready->run, ready->step, ready->node);
    if (ready->left == 0 && t->state == TASK_RUNNING)
        task_finish_as(ready->run, ready->step, ready->node, OUTCOME_OK, NULL);
}

void ready_line(struct run *r, const struct plan_step *launch, uint32_t node, const struct watch_line *line)
{
    for (size_t i = 0; i < r->plan->step_count && line->stream != WIRE_STREAM_NOTE; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        if (!watches(step, launch, node) || run_task(r, step, node)->state == TASK_DONE)
            continue;
        struct ready *ready = ready_of(r, step, node);
        uint32_t worker = line->rank - ready->first;
        if (line->rank < ready->first || worker >= ready->count || ready->seen[worker] || !ready->pattern ||
            regex_match(ready->pattern, line->text, line->len) != REGEX_YES)
            continue;
        ready->seen[worker] = true;
        ready->left--;
        check(ready);
    }
}

static void on_late(void *arg)
{
    struct ready *ready = arg;
    struct run_task *t = run_task(ready->run, ready->step, ready->node);
    struct wire_record late = {.state = WIRE_STATE_ENDED, .timed_out = 1, .attempt = t->attempt};
    if (t->state != TASK_RUNNING)
        return;
    late.tail = (char *)(uintptr_t) "";
    late.end_mono_ns = run_mono_ns(ready->run) - (uint64_t)ready->run->lanes[ready->node].clock_ns;
    task_finish(ready->run, ready->step, ready->node, &late, false);
}

/* The step has begun, in this controller or an earlier one. Lines that were printed before this call count. */
void ready_begin(struct run *r, const struct plan_step *step, uint32_t node)
{
    const struct plan_step *launch = &r->plan->steps[step->watch->step];
    struct run_task *t = run_task(r, step, node), *of = run_task(r, launch, node);
    struct ready *ready = ready_of(r, step, node);
    if (!of->log && of->attempt[0] && of->state != TASK_PENDING)
        of->log = log_open(r, launch, node, of->attempt);
    task_mark_sent(&r->lanes[node], t);
    if (step->timeout_ms && !ready->timer) {
        uint64_t now = run_wall_ms(r), passed = now > t->started_ms ? now - t->started_ms : 0;
        ready->timer = alarm_create(r, on_late, ready);
        alarm_set(ready->timer, passed < step->timeout_ms ? step->timeout_ms - passed : 0);
    }
    check(ready);
}

/* A part of the launch has ended well: if its role is not ready yet, it never will be. */
void ready_missed(struct launch *l, const struct plan_step *launch)
{
    struct run *r = l->run;
    for (size_t i = launch->id + 1; i < l->end_step; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        bool of_it = step->kind->phase == PHASE_LAUNCH && step->wait_count > 0 && step->waits[0].started &&
                     step->waits[0].step == launch->id;
        for (uint32_t n = 0; of_it && !launch->sidecar && n < r->plan->node_count; n++) {
            if (!step->on[n] || !task_in_flight(run_task(r, step, n)) || l->cause.step)
                continue;
            const struct cause cause = {
                .step = step,
                .node = n,
                .outcome = OUTCOME_FAILED,
                .generation = l->generation,
                .tail = "",
                .words = arena_printf(r->arena, "role \"%s\" ended before it was ready", step->role->name)};
            cause_offer(&l->cause, &cause);
        }
        if (of_it)
            step_stop(r, step, STOP_GRACE_MS);
    }
}
