/* torchrun on MIN:MAX nodes. The launch goes on without a node that cannot be reached, whose set-up fails, or whose
 * torchrun has left the others, as long as MIN nodes are left. While the launch runs that node is tried again, and
 * joins the launch: its torchrun is started in the same generation, so that it meets the others at their rendezvous. If
 * they meet on the first node, that node is never left out. */
#include "internal.h"
#include "rules.h"

#include <stdlib.h>
#include <string.h>

enum {
    PAUSE_FACTOR = 6,  /* the longest pause is this many times the first */
    FAILURES_MAX = 10, /* how many set-ups, prologs and torchruns of a node may fail one after another */
    STEADY_MS = 600000 /* a torchrun that ran this long clears the node's earlier failures */
};

struct joining { /* of a lane that was left out */
    struct launch *launch;
    struct alarm *timer; /* until the node is tried again */
    uint32_t pauses, failures;
    bool away;    /* the node could not be reached */
    bool checked; /* preflight found no reason why the node should not join */
    bool barred;  /* this process does not try the node again */
};

bool elastic_wanted(const struct run *r)
{
    const struct spec_distributed *d = &r->plan->spec->distributed;
    return d->present && d->min_nodes > 0 && d->min_nodes < d->nnodes && r->plan->spec->role_count == 0;
}

/* Whether the launch needs this node: it is the plan's master. That node has the store of c10d; with etcd it is needed
 * only before the launch, when it is asked for a port. */
static bool is_needed(struct launch *l, uint32_t node)
{
    struct run *r = l->run;
    const struct spec_text *backend = spec_flag_value(&r->plan->spec->distributed, "rdzv_backend");
    bool elsewhere = backend && str_starts(backend->text, "etcd");
    return node == r->plan->master && (!elsewhere || (r->stage < STAGE_LAUNCH && !parts_begun(l)));
}

/* Whether the launch has the node that it needs. first: whether it has the plan's master. */
static bool has_needed(struct launch *l, bool first)
{
    struct run *r = l->run;
    return first || !is_needed(l, r->plan->master);
}

/* How many nodes take part, or still can, apart from this one. */
static uint32_t left_without(struct launch *l, uint32_t node)
{
    struct run *r = l->run;
    const struct plan_step *launch = launch_step(l, PHASE_LAUNCH);
    uint32_t left = 0;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        left += n != node && launch->on[n] && !r->lanes[n].left_out && !task_has_failed(run_task(r, launch, n));
    return left;
}

static bool is_going(const struct launch *l)
{
    const struct run *r = l->run;
    return r->options.mode == RUN_EXECUTE && r->opening == OPENING_DONE && r->ending == ENDING_NOT &&
           l->state != LAUNCH_OVER && r->stage <= STAGE_LAUNCH;
}

static bool may_join(const struct lane *lane)
{
    return lane->left_out && !lane->joining->barred && is_going(lane->joining->launch);
}

/* ---- left out, and tried again ---- */

static void on_join(void *arg);

static void set_outside(struct lane *lane, bool outside)
{
    lane->run->left_out_count += (uint32_t)outside - (uint32_t)lane->left_out;
    lane->left_out = outside;
}

static void leave(struct launch *l, struct lane *lane)
{
    if (!lane->joining) {
        lane->joining = xcalloc(1, sizeof *lane->joining);
        lane->joining->launch = l;
        lane->joining->timer = alarm_create(lane->run, on_join, lane);
    }
    set_outside(lane, true);
}

static void take_in(struct lane *lane)
{
    alarm_clear(lane->joining->timer);
    if (lane->joining->failures == 0)
        lane->joining->pauses = 0;
    set_outside(lane, false);
}

void elastic_free(struct lane *lane)
{
    if (lane->joining)
        alarm_destroy(lane->joining->timer);
    free(lane->joining);
}

/* Sets the timer. Returns the pause before the node is tried again; 0 = it is not tried again. */
static uint64_t later(struct lane *lane, bool failed)
{
    struct joining *j = lane->joining;
    uint64_t first = lane->run->options.join_ms ? lane->run->options.join_ms : JOIN_MS, pause = first;
    j->failures += failed;
    if (j->failures > FAILURES_MAX)
        j->barred = true;
    if (j->barred)
        return 0;
    for (uint32_t i = 0; i < j->pauses && pause < first * PAUSE_FACTOR; i++)
        pause *= 2;
    pause = pause < first * PAUSE_FACTOR ? pause : first * PAUSE_FACTOR;
    j->pauses++;
    alarm_set(j->timer, pause);
    return pause;
}

static void note_again(struct lane *lane, const char *what, uint64_t pause)
{
    if (pause)
        run_note(lane->run, lane->index, "%s; it is tried again in %.1f s", what, (double)pause / 1000);
    else
        run_note(lane->run, lane->index, "%s; it is not tried again", what);
}

/* The launch is over, and the node's part of it ended well: the node is needed for epilog and outputs. */
static bool is_over(struct launch *l, uint32_t node)
{
    struct run *r = l->run;
    return run_task(r, launch_step(l, PHASE_LAUNCH), node)->state == TASK_DONE && launch_over(l);
}

static bool leave_out(struct launch *l, uint32_t node, const struct error *err, bool for_good)
{
    struct run *r = l->run;
    const struct spec_distributed *d = &r->plan->spec->distributed;
    struct lane *lane = &r->lanes[node];
    bool held = err->code == ERROR_HELD; /* another rhrun works on this job: this one must not go on beside it */
    if (!elastic_wanted(r) || !is_going(l))
        return lane->left_out;
    uint32_t left = left_without(l, node);
    bool before = lane->left_out;
    if (!before && (held || is_needed(l, node) || left < d->min_nodes || is_over(l, node)))
        return false;
    leave(l, lane);
    lane->joining->barred |= for_good;
    lane->joining->away |= lane->presence == PRESENCE_GONE;
    lane_set_state(lane, LANE_FAILED);
    lane->orphan_count = 0;
    uint64_t pause = later(lane, lane->presence != PRESENCE_GONE);
    if (!before)
        run_note(r, node, "%s; it is left out%s: %u of %u:%u nodes are left", err->text, pause ? "" : " for good", left,
                 d->min_nodes, d->nnodes);
    else if (lane->presence != PRESENCE_GONE)
        note_again(lane, err->text, pause);
    run_changed(r);
    order_changed(r, NULL);
    /* another node now does the work that this one had to do for its home */
    homes_touch(r, node);
    if (before || (for_good && r->stage == STAGE_PREFLIGHT)) /* preflight goes on by itself */
        return true;
    preflight_lost(l);
    launch_without(l);
    return true;
}

bool elastic_spare(struct launch *l, uint32_t node, const struct error *err)
{
    return leave_out(l, node, err, false);
}

bool elastic_bar(struct launch *l, uint32_t node, const struct error *err)
{
    return leave_out(l, node, err, true);
}

/* Steps that failed on the node are done again. */
static void forget_failures(struct lane *lane)
{
    struct run *r = lane->run;
    for (size_t i = 0; i < r->plan->step_count; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        struct run_task *t = run_task(r, step, lane->index);
        if (step->kind->phase >= PHASE_LAUNCH || !step->on[lane->index] || t->state != TASK_FAILED)
            continue;
        task_set_state(r, t, TASK_PENDING);
        task_look(t, false);
        t->tries = 0;
    }
}

static void on_join(void *arg)
{
    struct lane *lane = arg;
    if (!may_join(lane))
        return;
    switch (lane->presence) {
    case PRESENCE_GONE:
        lane_set_state(lane, LANE_CONNECTING);
        run_effect(lane->run, &(struct effect){.kind = EFFECT_CONNECT, .node = lane->index});
        break;
    case PRESENCE_HERE:
    case PRESENCE_LISTED:
        forget_failures(lane);
        if (lane->state == LANE_FAILED)
            lane_set_state(lane, LANE_SETUP);
        run_touch(lane->run, lane->index);
        break;
    case PRESENCE_ABSENT:
    case PRESENCE_COMING:
    case PRESENCE_LOST: /* the node will come, or fail */
        break;
    }
}

static bool runs(const struct launch *l, const struct lane *lane)
{
    return task_in_flight(run_task(l->run, launch_step(l, PHASE_LAUNCH), lane->index));
}

bool elastic_is_outside(const struct launch *l, const struct lane *lane)
{
    return lane->left_out && !runs(l, lane);
}

bool elastic_is_inside(const struct launch *l, const struct lane *lane)
{
    return elastic_wanted(l->run) && runs(l, lane);
}

/* Whether something is in flight on the node. If so, its outcome becomes known only now, even if the launch is over or
 * the node never joins. */
static bool is_busy(const struct lane *lane)
{
    struct run *r = lane->run;
    for (size_t i = 0; i < r->plan->step_count; i++)
        if (task_in_flight(run_task(r, &r->plan->steps[i], lane->index)))
            return true;
    return false;
}

bool elastic_back(struct lane *lane)
{
    if (run_is_stopping(lane->run)) /* attempts that run there must be stopped */
        return true;
    if (!may_join(lane))
        return is_busy(lane);
    if (lane->joining->away)
        run_note(lane->run, lane->index, "the node is back");
    lane->joining->away = lane->joining->checked = false;
    if (lane->state == LANE_LISTED)
        forget_failures(lane);
    return true;
}

/* ---- joining ---- */

static void start(struct lane *lane)
{
    struct launch *l = lane->joining->launch;
    struct run *r = l->run;
    const struct spec_distributed *d = &r->plan->spec->distributed;
    const struct plan_step *prolog = launch_step(l, PHASE_PROLOG), *launch = launch_step(l, PHASE_LAUNCH);
    struct run_task *before = prolog && prolog->on[lane->index] ? run_task(r, prolog, lane->index) : NULL;
    if (!lane->joining->checked && preflight_joins(l, lane->index))
        return;
    lane->joining->checked = true;
    if (before && before->state == TASK_PENDING)
        task_start(r, prolog, lane->index);
    if (before && before->state != TASK_DONE)
        return;
    lane->joining->checked = false; /* for the next time that it joins */
    run_note(r, lane->index, "it joins the launch: %u of %u:%u nodes take part", left_without(l, lane->index) + 1,
             d->min_nodes, d->nnodes);
    take_in(lane);
    task_join(r, launch, lane->index);
}

/* Whether a launch runs that a node can join. */
static bool is_open(struct launch *l)
{
    struct run *r = l->run;
    const struct run_task *first = run_task(r, launch_step(l, PHASE_LAUNCH), r->plan->master);
    return r->stage == STAGE_LAUNCH && l->state == LAUNCH_GOES_ON && !launch_over(l) &&
           has_needed(l, task_in_flight(first));
}

void elastic_advance(struct lane *lane)
{
    struct run *r = lane->run;
    if (!may_join(lane) || !lane_is_ready(lane))
        return;
    struct launch *l = lane->joining->launch;
    const struct run_task *t = run_task(r, launch_step(l, PHASE_LAUNCH), lane->index);
    if (lane->state != LANE_FAILED && (task_in_flight(t) || t->state == TASK_DONE)) {
        run_note(r, lane->index, "its torchrun went on meanwhile: it takes part again");
        take_in(lane);
        return;
    }
    if (lane->state == LANE_BARRIER && lane->doubtful) {
        lane_doubt(lane);
        if (lane->state == LANE_SETUP) {
            run_touch(r, lane->index); /* the lane comes here again */
            return;
        }
    }
    if (lane->state != LANE_BARRIER || lane->orphan_count > 0 || homes_busy(r, lane->index))
        return;
    bool begun = r->stage == STAGE_SETUP && parts_begun(l); /* a launch is being resumed */
    if (is_open(l) && !alarm_is_set(lane->joining->timer))
        start(lane);
    else if (r->stage < STAGE_PREFLIGHT && !begun)
        take_in(lane);
}

void elastic_checked(struct launch *l, uint32_t node)
{
    struct run *r = l->run;
    r->lanes[node].joining->checked = true;
}

void elastic_wait(struct launch *l, uint32_t node)
{
    struct run *r = l->run;
    if (may_join(&r->lanes[node]))
        later(&r->lanes[node], false);
}

void elastic_join(struct launch *l)
{
    struct run *r = l->run;
    for (uint32_t n = 0; r->left_out_count > 0 && n < r->plan->node_count; n++)
        elastic_advance(&r->lanes[n]);
}

/* ---- a torchrun that ends ---- */

/* Whether the torchrun left the rendezvous open. When a torchrun ends, torch closes the rendezvous for all nodes,
 * unless a signal ended the torchrun, or the torchrun had lost the others and could not close it. In these two cases
 * the exception is at the end of its output. */
static bool closes_nothing(const char *tail)
{
    static const char module[] = "torch.distributed.elastic.";
    bool ret = false;
    for (const char *line = tail; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        if (!str_starts(line, module))
            continue;
        size_t len = strcspn(line, ":\n");
        const char *dot = line;
        for (size_t i = 0; i < len; i++)
            dot = line[i] == '.' ? line + i : dot;
        ret = str_starts(dot, ".SignalException") || str_starts(dot, ".Rendezvous");
    }
    return ret;
}

static bool is_leaving(enum outcome outcome, uint32_t cause, const char *tail)
{
    switch (outcome) {
    case OUTCOME_UNKNOWN:
    case OUTCOME_NOT_STARTED:
        return true;
    case OUTCOME_FAILED:
        return cause == WIRE_CAUSE_SIGNAL || cause == WIRE_CAUSE_PREEMPTED ||
               (cause == WIRE_CAUSE_EXIT && closes_nothing(tail));
    case OUTCOME_NONE:
    case OUTCOME_OK:
    case OUTCOME_STOPPED:
    case OUTCOME_TIMED_OUT:
        break;
    }
    return false;
}

/* Whether the node leaves the others with such an end. The caller checks whether enough others are left. */
static bool may_leave(struct launch *l, uint32_t node, enum outcome outcome, uint32_t cause, int32_t value,
                      const char *tail)
{
    return !is_needed(l, node) && is_leaving(outcome, cause, tail) && !rules_speak(l, node, outcome, cause, value);
}

bool elastic_leaves(struct launch *l, const struct plan_step *step, uint32_t node, const struct event_finished *end)
{
    struct run *r = l->run;
    return step->kind->phase == PHASE_LAUNCH && elastic_wanted(r) && is_going(l) && l->state == LAUNCH_GOES_ON &&
           (end->outcome != OUTCOME_NOT_STARTED || task_is_sent(&r->lanes[node], run_task(r, step, node))) &&
           may_leave(l, node, end->outcome, end->cause, end->cause_value, end->tail) &&
           left_without(l, node) >= r->plan->spec->distributed.min_nodes;
}

void elastic_leave(struct launch *l, uint32_t node, const struct event_finished *end)
{
    struct run *r = l->run;
    const struct spec_distributed *d = &r->plan->spec->distributed;
    const struct run_task *t = run_task(r, launch_step(l, PHASE_LAUNCH), node);
    struct lane *lane = &r->lanes[node];
    char what[160];
    leave(l, lane);
    if (t->ended_ms - t->started_ms >= STEADY_MS)
        lane->joining->failures = lane->joining->pauses = 0;
    run_cause_text(end->outcome, end->cause, end->cause_value, what, sizeof what);
    CLEANUP(cleanup_free)
    char *text = xasprintf("its torchrun has left the others (%s): %u of %u:%u nodes are left", what,
                           left_without(l, node), d->min_nodes, d->nnodes);
    note_again(lane, text, later(lane, true));
    /* an earlier controller began the launch: the barrier does not wait for the node any more */
    if (r->stage < STAGE_PROLOG)
        run_due(r, DUE_BARRIER);
}

/* ---- who takes part ---- */

bool elastic_half(struct launch *l)
{
    struct run *r = l->run;
    const struct plan_step *launch = launch_step(l, PHASE_LAUNCH);
    uint32_t done = 0;
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        if (task_in_flight(run_task(r, launch, n)))
            return false;
        done += run_task(r, launch, n)->state == TASK_DONE;
    }
    bool enough = done >= r->plan->spec->distributed.min_nodes;
    return done > 0 && !(enough && has_needed(l, run_task(r, launch, r->plan->master)->state == TASK_DONE));
}

bool elastic_leave_open(struct launch *l)
{
    struct run *r = l->run;
    const struct plan_step *launch = launch_step(l, PHASE_LAUNCH);
    struct error err = ERROR_INIT;
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        const struct state_cell *c = state_cell_find(r->state, launch->scope, launch->name, n);
        /* a journal that has the end of an earlier attempt there was not lost, so it has the launch too */
        const bool known =
            (r->lanes[n].connections > 0 && lane_has_listed(&r->lanes[n])) || (c && c->outcome != OUTCOME_NONE);
        if (!launch->on[n] || run_task(r, launch, n)->state != TASK_PENDING || known)
            continue;
        error_set(&err, ERROR_INFRA,
                  "a launch has ended on other nodes, and node \"%s\" cannot be asked how it ended there: %s",
                  r->lanes[n].name, r->lanes[n].error.text);
        error_hint(&err,
                   "the same command checks again; to go on without that node: rhrun cancel %s, then rhrun --again",
                   r->id);
        run_note(r, n, "%s", err.text);
        run_leave_open(r, &err);
        return true;
    }
    return false;
}

static void fail_unknown(struct launch *l, const struct plan_step *launch)
{
    struct run *r = l->run;
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        struct run_task *t = run_task(r, launch, n);
        if (!launch->on[n] || t->state != TASK_PENDING)
            continue;
        task_set_state(r, t, TASK_FAILED);
        run_note(r, n, "the outcome of its part of the launch is not known");
    }
}

/* Whether the node has a part of the launch, or may have one. For a launch that was found on the nodes this is known at
 * the barrier, when all nodes have listed their records. */
static bool may_have_part(const struct launch *l, const struct run_task *t)
{
    return t->state != TASK_PENDING || (launch_is_adopted(l) && l->run->stage == STAGE_SETUP);
}

/* Decides, by how their parts ended, which nodes have left and which have failed; if too few nodes are left, all of
 * them have failed. True: enough are left. */
static bool judge_ends(struct launch *l, const struct plan_step *launch)
{
    struct run *r = l->run;
    uint32_t there = 0;
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        struct run_task *t = run_task(r, launch, n);
        const struct state_cell *c = state_cell_find(r->state, launch->scope, launch->name, n);
        there += launch->on[n] && may_have_part(l, t) && !task_has_failed(t) && !r->lanes[n].left_out;
        bool left = c && task_has_failed(t) && may_leave(l, n, c->outcome, c->cause, c->cause_value, c->tail);
        if (task_has_failed(t) && left != (t->state == TASK_LEFT))
            task_set_state(r, t, left ? TASK_LEFT : TASK_FAILED);
    }
    bool enough = there >= r->plan->spec->distributed.min_nodes;
    for (uint32_t n = 0; !enough && n < r->plan->node_count; n++)
        if (run_task(r, launch, n)->state == TASK_LEFT)
            task_set_state(r, run_task(r, launch, n), TASK_FAILED);
    return enough;
}

/* The node does not take part, for now. forgotten: the launch was found on the nodes, so it is not known how to join
 * it. */
static void stay_out(struct launch *l, uint32_t node, bool left, bool forgotten)
{
    struct lane *lane = &l->run->lanes[node];
    if (!lane->left_out)
        leave(l, lane);
    if (left)
        later(lane, true);
    if (!forgotten)
        return;
    lane->joining->barred = true;
    run_note(l->run, node, "it does not take part: the launch began without it");
}

void elastic_members(struct launch *l)
{
    struct run *r = l->run;
    const struct plan_step *launch = launch_step(l, PHASE_LAUNCH);
    if (!elastic_wanted(r) || r->options.mode != RUN_EXECUTE || !launch || !parts_begun(l))
        return; /* all nodes should take part */
    bool enough = judge_ends(l, launch) && has_needed(l, may_have_part(l, run_task(r, launch, r->plan->master)));
    bool forgotten = r->stage == STAGE_LAUNCH && launch_is_adopted(l);
    if (!enough && forgotten)
        fail_unknown(l, launch);
    if (!enough || parts_failed(l))
        return;
    if (!rules_condemned(l))
        l->cause = (struct cause){0};
    bool over = launch_over(l);
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        const struct run_task *t = run_task(r, launch, n);
        if (launch->on[n] && (!r->lanes[n].left_out || forgotten) &&
            (!may_have_part(l, t) || (t->state == TASK_LEFT && !over)))
            stay_out(l, n, t->state == TASK_LEFT, forgotten);
    }
}

void elastic_lose(struct launch *l)
{
    struct run *r = l->run;
    const struct plan_step *launch = launch_step(l, PHASE_LAUNCH);
    struct cause lost = {.outcome = OUTCOME_UNKNOWN, .at_ns = UINT64_MAX};
    uint32_t done = 0;
    for (uint32_t n = 0; n < r->plan->node_count && elastic_wanted(r); n++) {
        const struct run_task *t = run_task(r, launch, n);
        done += t->state == TASK_DONE;
        if (!r->lanes[n].left_out || !task_in_flight(t))
            continue;
        lost.step = launch;
        lost.node = n;
        if (lane_is_ready(&r->lanes[n])) /* the node is there, and its part runs */
            lane_orphan(&r->lanes[n], t->attempt);
        task_finish_as(r, launch, n, OUTCOME_UNKNOWN, "the node is lost");
    }
    if (!lost.step || done >= r->plan->spec->distributed.min_nodes || l->state != LAUNCH_GOES_ON)
        return;
    /* the part was needed: for example, the node's set-up failed while its part of a found launch ran */
    cause_offer(&l->cause, &lost);
    launch_set(l, LAUNCH_CONDEMNED);
}

static bool dismiss(struct lane *lane)
{
    struct run *r = lane->run;
    bool reached = presence_is_here(lane->presence), gone = true;
    alarm_clear(lane->joining->timer);
    for (size_t i = 0; i < r->plan->step_count; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        struct run_task *t = run_task(r, step, lane->index);
        if (!task_in_flight(t) && t->state != TASK_WAITING)
            continue;
        if (!reached && step->kind->fetch)
            run_note(r, lane->index, "%s: not fetched, the node is away", step->name);
        if (t->state == TASK_WAITING || !reached) {
            if (t->retry)
                alarm_clear(t->retry);
            task_set_state(r, t, TASK_FAILED);
            continue;
        }
        if (!t->marks.stop_wanted) {
            run_note(r, lane->index, "step \"%s\" is stopped: the launch is over", step->name);
            if (step->kind->fetch) /* a fetch goes on while a run is stopped */
                outputs_abort(r, step, lane->index);
            else
                task_stop(r, step, lane->index, WIRE_STOP, STOP_GRACE_MS);
        }
        gone = gone && !task_in_flight(t);
    }
    return gone;
}

bool elastic_dismiss(struct launch *l)
{
    struct run *r = l->run;
    const struct plan_step *launch = launch_step(l, PHASE_LAUNCH);
    bool gone = true;
    for (uint32_t n = 0; r->left_out_count > 0 && n < r->plan->node_count; n++)
        if (r->lanes[n].left_out)
            gone = dismiss(&r->lanes[n]) && gone;
    for (uint32_t n = 0; gone && r->left_out_count > 0 && n < r->plan->node_count; n++)
        if (r->lanes[n].left_out && r->lanes[n].state == LANE_BARRIER && run_task(r, launch, n)->state == TASK_LEFT &&
            presence_is_here(r->lanes[n].presence))
            take_in(&r->lanes[n]); /* the node took part: it has an epilog and outputs, too */
    return gone;
}

/* ---- nodes that are lost before the launch ---- */

void elastic_await(struct launch *l)
{
    struct run *r = l->run;
    if (elastic_wanted(r) && r->stage <= STAGE_PREFLIGHT && !alarm_is_set(l->late))
        alarm_set(l->late, r->options.late_ms ? r->options.late_ms : LATE_MS);
}

void elastic_on_late(void *arg)
{
    struct launch *l = arg;
    struct run *r = l->run;
    bool away = false;
    uint32_t there = 0;
    if (r->stage > STAGE_PREFLIGHT || r->ending != ENDING_NOT)
        return;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        there += r->lanes[n].state == LANE_BARRIER && presence_is_here(r->lanes[n].presence);
    bool enough = there >= r->plan->spec->distributed.min_nodes;
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        struct lane *lane = &r->lanes[n];
        if (lane->presence == PRESENCE_GONE || lane->left_out || !lane->facts || presence_is_here(lane->presence))
            continue;
        if (enough && n != r->plan->master && lane->presence == PRESENCE_LOST)
            run_effect(r, &(struct effect){.kind = EFFECT_GIVE_UP, .node = n});
        else
            away = true;
    }
    if (away) /* not enough nodes are set up yet, or a lost node is being tried right now */
        alarm_set(l->late, LATE_AGAIN_MS);
}
