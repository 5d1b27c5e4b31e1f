/* The steps of a launch generation: its parts. Most launches have one part. Roles may make several parts; each part
 * starts when the conditions for which it waits hold. Parts fail together. They have ended well when all of them except
 * the sidecars have ended well; the sidecars are then stopped. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- one step ---- */

static const struct plan_step *step_from(const struct launch *l, size_t i, enum plan_phase phase)
{
    const struct plan *plan = l->run->plan;
    for (; i < l->end_step; i++)
        if (plan->steps[i].kind->phase == phase)
            return &plan->steps[i];
    return NULL;
}

const struct plan_step *launch_step(const struct launch *l, enum plan_phase phase)
{
    return step_from(l, l->first_step, phase);
}

bool step_start(struct run *r, const struct plan_step *step, uint32_t generation)
{
    size_t count = 0;
    uint32_t *nodes = xcalloc(r->plan->node_count, sizeof *nodes);
    for (uint32_t n = 0; step && n < r->plan->node_count; n++)
        if (step->on[n] && !r->lanes[n].left_out && run_task(r, step, n)->state == TASK_PENDING) {
            if (r->lanes[n].presence == PRESENCE_GONE)
                task_set_state(r, run_task(r, step, n), TASK_FAILED);
            else
                nodes[count++] = n;
        }
    if (count > 0)
        task_start_many(r, step, nodes, count, generation);
    free(nodes);
    return count > 0;
}

bool step_all_ended(struct run *r, const struct plan_step *step)
{
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        const struct run_task *t = run_task(r, step, n);
        if (step->on[n] && !r->lanes[n].left_out && t->state != TASK_DONE && !task_has_failed(t))
            return false;
    }
    return true;
}

bool step_all_done(struct run *r, const struct plan_step *step)
{
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (step->on[n] && !r->lanes[n].left_out && run_task(r, step, n)->state != TASK_DONE)
            return false;
    return true;
}

bool step_has_failed(struct run *r, const struct plan_step *step)
{
    bool launch = step->kind->phase == PHASE_LAUNCH;
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        const struct run_task *t = run_task(r, step, n);
        if (step->on[n] && (launch || !r->lanes[n].left_out) && t->state == TASK_FAILED)
            return true;
    }
    return false;
}

void step_stop(struct run *r, const struct plan_step *step, uint32_t grace_ms)
{
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (step->on[n])
            task_stop(r, step, n, WIRE_STOP, grace_ms);
}

void step_end(struct run *r, const struct plan_step *step)
{
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (step->on[n] && run_task(r, step, n)->state == TASK_PENDING)
            task_set_state(r, run_task(r, step, n), TASK_FAILED);
    step_stop(r, step, launch_grace_ms(r, STOP_GRACE_MS));
}

bool step_is_pending(struct run *r, const struct plan_step *step)
{
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (step->on[n] && !r->lanes[n].left_out && run_task(r, step, n)->state == TASK_PENDING)
            return true;
    return false;
}

/* ---- all of the launch ---- */

static const struct plan_step *part_next(const struct launch *l, const struct plan_step *step)
{
    return step_from(l, step ? step->id + 1 : l->first_step, PHASE_LAUNCH);
}

bool parts_begun(struct launch *l)
{
    struct run *r = l->run;
    for (const struct plan_step *s = part_next(l, NULL); s; s = part_next(l, s))
        for (uint32_t n = 0; n < r->plan->node_count; n++)
            if (s->on[n] && run_task(r, s, n)->state != TASK_PENDING)
                return true;
    return false;
}

static bool is_held(struct run *r, const struct plan_step *s, uint32_t node)
{
    return s->on[node] && !r->lanes[node].left_out && run_task(r, s, node)->state == TASK_HELD;
}

bool parts_held_away(struct launch *l)
{
    struct run *r = l->run;
    for (const struct plan_step *s = part_next(l, NULL); s; s = part_next(l, s))
        for (uint32_t n = 0; n < r->plan->node_count; n++)
            if (is_held(r, s, n) && !lane_is_ready(&r->lanes[n]))
                return true;
    return false;
}

bool parts_held_undone(struct launch *l)
{
    struct run *r = l->run;
    bool undone = false;
    for (const struct plan_step *s = part_next(l, NULL); s; s = part_next(l, s))
        for (uint32_t n = 0; n < r->plan->node_count; n++) {
            if (!is_held(r, s, n))
                continue;
            if (r->lanes[n].doubtful) {
                lane_doubt(&r->lanes[n]);
                run_touch(r, n);
            }
            undone = undone || r->lanes[n].state != LANE_BARRIER;
        }
    return undone;
}

void parts_orphan(struct launch *l)
{
    struct run *r = l->run;
    for (const struct plan_step *s = part_next(l, NULL); s; s = part_next(l, s))
        for (uint32_t n = 0; n < r->plan->node_count; n++) {
            const struct run_task *t = run_task(r, s, n);
            if (s->on[n] && task_in_flight(t) && t->state != TASK_HELD && !s->watch)
                lane_orphan(&r->lanes[n], t->attempt);
        }
}

void step_release(struct run *r, const struct plan_step *step)
{
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (step->on[n] && run_task(r, step, n)->state == TASK_HELD) {
            task_set_state(r, run_task(r, step, n), TASK_RUNNING);
            task_send(r, step, n);
        }
}

void parts_release(struct launch *l)
{
    struct run *r = l->run;
    for (const struct plan_step *s = part_next(l, NULL); s; s = part_next(l, s))
        step_release(r, s);
}

bool parts_half(struct launch *l)
{
    struct run *r = l->run;
    bool done = false, pending = false;
    for (const struct plan_step *s = part_next(l, NULL); s; s = part_next(l, s))
        for (uint32_t n = 0; n < r->plan->node_count; n++) {
            const struct run_task *t = run_task(r, s, n);
            if (s->on[n] && (task_in_flight(t) || t->state == TASK_FAILED))
                return false;
            done = done || (s->on[n] && t->state == TASK_DONE);
            pending = pending || (s->on[n] && t->state == TASK_PENDING);
        }
    return done && pending;
}

bool parts_failed(struct launch *l)
{
    struct run *r = l->run;
    for (const struct plan_step *s = part_next(l, NULL); s; s = part_next(l, s))
        if (step_has_failed(r, s))
            return true;
    return false;
}

bool launch_over(struct launch *l)
{
    struct run *r = l->run;
    for (const struct plan_step *s = part_next(l, NULL); s; s = part_next(l, s))
        if (!s->sidecar && (!step_all_ended(r, s) || step_has_failed(r, s)))
            return false;
    return true;
}

bool parts_ended(struct launch *l)
{
    struct run *r = l->run;
    bool over = launch_over(l);
    for (const struct plan_step *s = part_next(l, NULL); s; s = part_next(l, s))
        for (uint32_t n = 0; n < r->plan->node_count; n++) {
            const struct run_task *t = run_task(r, s, n);
            bool never = over && s->sidecar && t->state == TASK_PENDING; /* a sidecar that has not begun never will */
            if (s->on[n] && !r->lanes[n].left_out && t->state != TASK_DONE && !task_has_failed(t) && !never)
                return false;
        }
    return true;
}

/* The node's record of its part: of the attempt that lives or that the journal has, or of an attempt that may be taken
 * over. NULL: there is none. */
static const struct wire_record *part_record(struct run *r, const struct plan_step *s, uint32_t node)
{
    const struct run_task *t = run_task(r, s, node);
    if (!s->on[node])
        return NULL;
    return t->state == TASK_DONE || task_in_flight(t) ? lane_record(&r->lanes[node], t->attempt)
                                                      : lane_found(&r->lanes[node], s);
}

static bool lives(const struct wire_record *rec)
{
    return rec->state == WIRE_STATE_CLAIMED;
}

/* Whether the record belongs to a later launch than the other record. While one launch lives, no other begins. Within
 * one run the numbers of the generations decide, otherwise the clocks of the nodes. */
static bool is_later(const struct wire_record *rec, const struct wire_record *other)
{
    const char *dash = strrchr(rec->launch, '-');
    if (lives(rec) != lives(other))
        return lives(rec);
    if (dash && strncmp(rec->launch, other->launch, (size_t)(dash - rec->launch) + 1) == 0)
        return launch_generation(rec) > launch_generation(other);
    return rec->claim_wall_ms > other->claim_wall_ms;
}

/* A record of the latest launch of which some node has a part, however that part ended. Parts of an earlier launch that
 * ended well belong to a generation that failed, because a later one began. */
static const struct wire_record *latest_part(struct launch *l)
{
    struct run *r = l->run;
    const struct wire_record *best = NULL;
    for (const struct plan_step *s = part_next(l, NULL); s; s = part_next(l, s))
        for (uint32_t n = 0; n < r->plan->node_count; n++) {
            const struct wire_record *last = s->on[n] ? lane_latest(&r->lanes[n], s) : NULL;
            const struct wire_record *of[] = {part_record(r, s, n), last && str_eq(last->key, s->key) ? last : NULL};
            for (size_t i = 0; i < ARRAY_LEN(of); i++)
                if (of[i] && (!best || is_later(of[i], best)))
                    best = of[i];
        }
    return best;
}

/* Adopts a part of the launch that was found. A part of an earlier launch counts as not begun. */
static void adopt_part(struct run *r, const struct plan_step *s, uint32_t node, const char *launch)
{
    const struct wire_record *rec = part_record(r, s, node);
    struct run_task *t = run_task(r, s, node);
    if (rec && str_eq(rec->launch, launch) && t->state == TASK_PENDING) {
        task_finish(r, s, node, rec, true);
    } else if (rec && !str_eq(rec->launch, launch) && t->state != TASK_PENDING) {
        if (task_in_flight(t))
            lane_orphan(&r->lanes[node], t->attempt);
        task_set_state(r, t, TASK_PENDING);
    }
}

/* No attempt was started for a step that watches lines, so no node has a record of it. If the end of a role is known,
 * the role was ready. */
static void adopt_watch(struct run *r, const struct plan_step *s, uint32_t node)
{
    const struct run_task *of = run_task(r, &r->plan->steps[s->watch->step], node);
    struct run_task *t = run_task(r, s, node);
    if (s->on[node] && of->state == TASK_DONE && (t->state == TASK_PENDING || task_in_flight(t)))
        task_set_state(r, t, TASK_DONE);
}

/* The launch was taken over: if a node has done its epilog, the epilog is taken over too. */
static void adopt_epilog(struct launch *l,
                         const struct wire_record *(*of)(struct lane *lane, const struct plan_step *step))
{
    struct run *r = l->run;
    const struct plan_step *epilog = launch_step(l, PHASE_EPILOG);
    for (uint32_t n = 0; epilog && n < r->plan->node_count; n++) {
        bool pending = epilog->on[n] && run_task(r, epilog, n)->state == TASK_PENDING;
        const struct wire_record *rec = pending ? of(&r->lanes[n], epilog) : NULL;
        if (rec)
            task_finish(r, epilog, n, rec, true);
    }
}

bool parts_found(struct launch *l)
{
    struct run *r = l->run;
    for (const struct plan_step *s = part_next(l, NULL); s; s = part_next(l, s))
        for (uint32_t n = 0; n < r->plan->node_count; n++)
            if (s->on[n] && (run_task(r, s, n)->state != TASK_PENDING || lane_found(&r->lanes[n], s)))
                return true;
    return false;
}

bool parts_adopted(struct launch *l)
{
    struct run *r = l->run;
    const uint32_t recorded = run_recorded(r)->generation;
    const struct wire_record *best = parts_found(l) ? latest_part(l) : NULL;
    if (!best)
        return false;
    l->generation = launch_generation(best) > recorded ? launch_generation(best) : recorded;
    l->adopted = best->launch[0] ? arena_strdup(r->arena, best->launch) : NULL;
    for (const struct plan_step *s = part_next(l, NULL); s; s = part_next(l, s))
        for (uint32_t n = 0; n < r->plan->node_count; n++) {
            adopt_part(r, s, n, best->launch);
            if (s->watch)
                adopt_watch(r, s, n);
        }
    if (launch_over(l))
        adopt_epilog(l, lane_found);
    if (parts_begun(l))
        return true;
    /* the parts that were found belong to an earlier launch, and the latest launch failed */
    l->generation = recorded;
    l->adopted = NULL;
    return false;
}

/* The node's record of this part in another controller's launch. If a controller was killed while it took over the
 * parts, a part that is done belongs to that launch. */
static const struct wire_record *part_of_another(struct run *r, const struct plan_step *s, uint32_t node)
{
    const struct run_task *t = run_task(r, s, node);
    if (t->state == TASK_DONE)
        return lane_record(&r->lanes[node], t->attempt);
    return t->state == TASK_HELD || t->state == TASK_PENDING ? lane_done_by_another(&r->lanes[node], s) : NULL;
}

/* The launch of another controller to which all parts belong. NULL: not all parts were found, or they belong to several
 * launches. */
static const char *launch_of_another(struct launch *l)
{
    const char *name = NULL;
    for (const struct plan_step *s = part_next(l, NULL); s; s = part_next(l, s))
        for (uint32_t n = 0; n < l->run->plan->node_count; n++) {
            if (!s->on[n] || s->sidecar || s->watch)
                continue;
            const struct wire_record *rec = part_of_another(l->run, s, n);
            if (!rec || (name && !str_eq(rec->launch, name)))
                return NULL;
            name = rec->launch;
        }
    return name;
}

static void take_part_of_another(struct run *r, const struct plan_step *s, uint32_t node)
{
    struct run_task *t = run_task(r, s, node);
    const struct wire_record *rec = s->sidecar || t->state == TASK_DONE ? NULL : part_of_another(r, s, node);
    if (t->state == TASK_HELD)
        task_set_state(r, t, rec ? TASK_RUNNING : TASK_PENDING);
    if (rec)
        task_finish(r, s, node, rec, true);
}

void parts_done_by_another(struct launch *l)
{
    struct run *r = l->run;
    if (!launch_of_another(l))
        return;
    for (const struct plan_step *s = part_next(l, NULL); s; s = part_next(l, s))
        for (uint32_t n = 0; n < r->plan->node_count; n++)
            if (s->watch)
                adopt_watch(r, s, n);
            else if (s->on[n])
                take_part_of_another(r, s, n);
    adopt_epilog(l, lane_done_by_another);
}

void parts_reset(struct launch *l)
{
    struct run *r = l->run;
    for (const struct plan_step *s = part_next(l, NULL); s; s = part_next(l, s))
        for (uint32_t n = 0; n < r->plan->node_count; n++)
            if (s->on[n]) {
                task_set_state(r, run_task(r, s, n), TASK_PENDING);
                ready_forget(r, s, n);
            }
}

static bool may_start(struct run *r, const struct plan_step *step)
{
    for (size_t i = 0; i < step->wait_count; i++) {
        const struct plan_step *other = &r->plan->steps[step->waits[i].step];
        if (step->waits[i].started ? step_is_pending(r, other) : !step_all_done(r, other))
            return false;
    }
    return true;
}

void parts_advance(struct launch *l)
{
    struct run *r = l->run;
    if (run_is_stopping(r) || l->state == LAUNCH_CONDEMNED)
        return;
    bool over = launch_over(l);
    for (const struct plan_step *s = part_next(l, NULL); s; s = part_next(l, s)) {
        if (over && s->sidecar)
            step_stop(r, s, launch_grace_ms(r, STOP_GRACE_MS));
        else if (!over && step_is_pending(r, s) && may_start(r, s))
            step_start(r, s, l->generation ? l->generation : 1);
    }
}

void parts_stop(struct launch *l)
{
    struct run *r = l->run;
    for (const struct plan_step *s = part_next(l, NULL); s; s = part_next(l, s))
        step_end(r, s);
}
