/* Belief: the journal and a node's ledger must agree about a set-up step. lane_decide keeps the step, adopts it, or
 * leaves it to be run and says why. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- records of the node's ledger ---- */

void lane_keep_record(struct lane *lane, const struct wire_record *r)
{
    struct error err = ERROR_INIT;
    lane->claimed_count += r->state == WIRE_STATE_CLAIMED;
    if (lane->record_count == LANE_RECORDS_MAX || lane->claimed_count > LANE_CLAIMED_MAX) {
        error_set(&err, ERROR_PROTOCOL, "node \"%s\" reports more attempts than a job can have", lane->name);
        run_refuse(lane, &err);
        return;
    }
    if (room_say(lane,
                 sizeof *r + strlen(r->slot) + strlen(r->key) + strlen(r->variant) + strlen(r->boot_id) +
                     strlen(r->tail),
                 &err) < 0) {
        error_prefix(&err, "node \"%s\"", lane->name);
        run_refuse(lane, &err);
        return;
    }
    if (lane->record_count == lane->record_cap) {
        lane->record_cap = lane->record_cap ? lane->record_cap * 2 : 16;
        lane->records = xreallocarray(lane->records, lane->record_cap, sizeof *lane->records);
    }
    struct wire_record *c = &lane->records[lane->record_count++];
    *c = *r;
    c->attempt = arena_strdup(lane->arena, r->attempt);
    c->slot = arena_strdup(lane->arena, r->slot);
    c->key = arena_strdup(lane->arena, r->key);
    c->variant = arena_strdup(lane->arena, r->variant);
    c->launch = arena_strdup(lane->arena, r->launch);
    c->boot_id = arena_strdup(lane->arena, r->boot_id);
    c->tail = arena_strdup(lane->arena, r->tail);
    c->leftover = NULL;
    c->workers = NULL;
    c->worker_count = 0;
    if (r->patched)
        run_has_patches(lane->run);
}

const struct wire_record *lane_record(const struct lane *lane, const char *attempt)
{
    for (size_t i = 0; i < lane->record_count; i++)
        if (strcmp(lane->records[i].attempt, attempt) == 0)
            return &lane->records[i];
    return NULL;
}

const char *lane_launch(const struct lane *lane)
{
    struct run *r = lane->run;
    for (size_t i = 0; i < r->plan->step_count; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        if (step->kind->phase != PHASE_LAUNCH || !step->on[lane->index] || step->watch)
            continue;
        const struct wire_record *rec = lane_record(lane, run_task(r, step, lane->index)->attempt);
        if (rec && rec->launch && *rec->launch && !strchr(rec->launch, '/')) /* the name becomes part of a path */
            return rec->launch;
    }
    return NULL;
}

enum belief_record record_says(const struct wire_record *rec)
{
    if (!rec)
        return RECORD_NONE;
    if (rec->state == WIRE_STATE_CLAIMED)
        return RECORD_LIVE;
    if (wire_record_success(rec))
        return RECORD_GOOD;
    return rec->state == WIRE_STATE_ENDED && rec->cause == WIRE_CAUSE_PREEMPTED ? RECORD_PREEMPTED : RECORD_BAD;
}

const struct wire_record *lane_latest(const struct lane *lane, const struct plan_step *step)
{
    const struct wire_record *best = NULL;
    for (size_t i = 0; i < lane->record_count; i++) {
        const struct wire_record *r = &lane->records[i];
        if (strcmp(r->slot, step->slot) != 0 || (step->scope[0] && strcmp(r->variant, lane->run->work) != 0))
            continue;
        if (!best || r->sequence > best->sequence)
            best = r;
    }
    return best;
}

/* Whether the record says that the step ended well, with the present key, in the node's present boot, so that nothing
 * of its result was lost. */
static bool is_good_for(const struct plan_step *step, const struct wire_record *rec)
{
    return rec && wire_record_success(rec) && rec->same_boot && str_eq(rec->key, step->key);
}

/* ---- belief ---- */

/* Whether the step was done in the container in which the agent runs now; if the agent runs in none: whether it was
 * done outside of containers. A record's boot has the container's name: "CONTAINER+BOOT". */
static bool is_container_of(const struct lane *lane, const struct wire_record *rec)
{
    const char *plus = strchr(rec->boot_id, '+'), *now = lane->facts->container ? lane->facts->container : "";
    size_t len = plus ? (size_t)(plus - rec->boot_id) : 0;
    return strlen(now) == len && memcmp(rec->boot_id, now, len) == 0;
}

/* Why the record does not count on the node: the step's result is gone, although its record is there. NULL: it
 * counts. */
static const char *denied(const struct lane *lane, const struct plan_step *step)
{
    if (lane->creates[step->id] == CHECK_NO)
        return "what it creates is gone";
    if (lane->trees[step->id] == CHECK_NO)
        return "its files changed on the node";
    if (lane->trees[step->id] == CHECK_DOUBT)
        return "a step that did not end well may have changed its files";
    /* The files of a sync are checked, wherever they are. */
    const struct wire_record *latest = step->kind->sync || !lane->facts ? NULL : lane_latest(lane, step);
    if (latest && !is_container_of(lane, latest))
        return "its container is another one now";
    return NULL;
}

static const char *gone(const struct lane *lane, const struct plan_step *step)
{
    const char *reason = denied(lane, step);
    return reason ? reason : patches_reason(lane, step);
}

bool lane_holds(const struct lane *lane, const struct plan_step *step)
{
    return !gone(lane, step);
}

/* Whether the node is, as far as is known, the machine that the journal's attempt was on. */
static bool is_machine_of(const struct lane *lane, const struct state_cell *cell)
{
    return !cell->install || !lane->facts || str_eq(cell->install, lane->facts->install);
}

static const char *ledger_differs(const struct lane *lane, const struct plan_step *step, const struct state_cell *cell)
{
    const struct wire_record *latest = lane_latest(lane, step);
    if (!is_machine_of(lane, cell))
        return "the node is another machine now";
    if (!latest || strcmp(latest->attempt, cell->attempt) != 0)
        return "the node's ledger has no record of it";
    if (!wire_record_success(latest))
        return "the node's ledger does not say that it ended well";
    return NULL;
}

const char *lane_contradiction(const struct lane *lane, const struct plan_step *step, const struct state_cell *cell)
{
    const char *differs = ledger_differs(lane, step, cell);
    return differs ? differs : gone(lane, step);
}

static bool is_voided(const struct run *r, const struct plan_step *step, const struct state_cell *cell)
{
    return r->voids[step->id] && !(cell && str_eq(cell->run, r->id));
}

/* Whether the ledger's attempt began after the journal's attempt was decided. If it is on another machine, it did. */
static bool is_since(const struct lane *lane, const struct state_cell *cell, const struct wire_record *rec)
{
    return !is_machine_of(lane, cell) || rec->sequence > cell->seen;
}

/* Whether the ledger's record could count, because the journal has no end of the step, or in place of the end that the
 * journal has. */
static bool adoptable(const struct lane *lane, const struct plan_step *step, const struct state_cell *cell,
                      const struct wire_record *latest)
{
    if (!is_good_for(step, latest))
        return false;
    if (!cell || cell->outcome == OUTCOME_NONE)
        return true;
    return strcmp(cell->attempt, latest->attempt) != 0 && (cell->outcome != OUTCOME_OK || is_since(lane, cell, latest));
}

void lane_fill_record(struct lane *lane, const struct plan_step *step, struct plan_record *ret)
{
    struct run *r = lane->run;
    bool listed = lane->state != LANE_CONNECTING && lane->state != LANE_FAILED;
    if (listed && step->shared) /* a step of the first node of the home is done for all nodes of the home */
        lane = &r->lanes[homes_leader(r, step, lane->index)];
    const struct state_cell *cell = state_cell_find(r->state, step->scope, step->name, lane->index);
    *ret = (struct plan_record){0};
    if (cell) {
        ret->present = true;
        ret->ok = cell->outcome == OUTCOME_OK;
        ret->unknown = cell->outcome == OUTCOME_UNKNOWN;
        ret->live = cell->outcome == OUTCOME_NONE;
        ret->voided = is_voided(r, step, cell) || cell->voided;
        ret->key = cell->key;
        ret->inputs = cell->inputs;
    }
    if (!listed || !step->kind->cached)
        return;
    const struct wire_record *latest = lane_latest(lane, step);
    if (cell && ret->ok && adoptable(lane, step, cell, latest) && lane_holds(lane, step)) {
        ret->verified = true; /* another controller has done the step since */
        ret->key = step->key;
    } else if (cell && ret->ok) {
        ret->why_not = lane_contradiction(lane, step, cell);
        ret->contradicted = ret->why_not != NULL;
        ret->verified = !ret->contradicted;
    } else if (!cell && is_good_for(step, latest) && lane_holds(lane, step)) {
        ret->present = ret->ok = ret->verified = true;
        ret->key = step->key;
    } else if (!cell && latest) { /* the step ran for a journal that is lost */
        ret->present = ret->ok = ret->contradicted = true;
        ret->key = step->key;
        ret->why_not = latest->state == WIRE_STATE_CLAIMED ? "it runs on the node, for another state directory"
                       : !wire_record_success(latest)      ? "the node's ledger says that it did not end well"
                       : !str_eq(latest->key, step->key)
                           ? "the node's record of it is from before its inputs changed"
                           : "the node has restarted since, before everything was on its disk";
    }
}

/* ---- installations that are checked again ---- */

/* Of the earlier installations, the last one that this run has begun after the step itself was begun: it may have
 * changed the result of the step. NULL: there is none. */
static const char *installed_since(const struct lane *lane, const struct plan_step *step)
{
    const struct run *r = lane->run;
    const struct state_cell *own = state_cell_find(r->state, step->scope, step->name, lane->index);
    for (size_t i = step->id; i-- > 0;) {
        const struct plan_step *before = &r->plan->steps[i];
        if (!before->kind->verify || !before->on[lane->index] || !plan_looks_again(r->plan, before, step))
            continue;
        const struct state_cell *c = state_cell_find(r->state, before->scope, before->name, lane->index);
        if (c && str_eq(c->run, r->id) && !c->adopted && (!own || own->seq < c->seq))
            return before->name;
    }
    return NULL;
}

void lane_verify_after(struct lane *lane, const struct plan_step *step)
{
    struct run *r = lane->run;
    for (size_t i = step->id + 1; step->kind->verify && i < r->plan->step_count; i++) {
        const struct plan_step *later = &r->plan->steps[i];
        struct run_task *t = run_task(r, later, lane->index);
        if (!later->on[lane->index] || !task_is_done(t) || !plan_looks_again(r->plan, step, later))
            continue;
        task_set_state(r, t, TASK_PENDING);
        task_look(t, false);
    }
}

/* ---- what is believed ---- */

/* Whether the journal has the step as a success, with the present key. */
static bool is_recorded(const struct plan_step *step, const struct state_cell *cell)
{
    return cell && cell->outcome == OUTCOME_OK && str_eq(cell->key, step->key);
}

const char *lane_believes(const struct lane *lane, const struct plan_step *step)
{
    struct run *r = lane->run;
    const struct run_task *t = run_task(r, step, lane->index);
    const struct state_cell *cell = state_cell_find(r->state, step->scope, step->name, lane->index);
    const struct wire_record *latest = lane_latest(lane, step);
    if (!step->on[lane->index] || is_voided(r, step, cell) || (cell && cell->voided) || denied(lane, step) ||
        (!step->kind->verify && installed_since(lane, step)) || task_in_flight(t))
        return NULL;
    if (is_recorded(step, cell) && !ledger_differs(lane, step, cell))
        return cell->attempt;
    return adoptable(lane, step, cell, latest) ? latest->attempt : NULL;
}

/* Whether another controller, with a state directory of its own, has begun the step since the last attempt that is
 * recorded here. */
static bool is_of_another(const struct lane *lane, const struct plan_step *step, const struct wire_record *rec)
{
    return rec == lane_latest(lane, step) && str_eq(rec->key, step->key) && run_is_stranger(lane->run, rec->attempt);
}

/* Whether this record of the ledger may stand for the step. For set-up: unless a flag voids the step. For all other
 * steps: only if this journal has no attempt of the step (the state directory was lost) or not the latest one, no flag
 * asks for a new launch, and this run has not begun a launch of its own. */
bool lane_may_adopt(const struct lane *lane, const struct plan_step *step, const struct wire_record *rec)
{
    const struct run *r = lane->run;
    const struct state_cell *cell = state_cell_find(r->state, step->scope, step->name, lane->index);
    if (step->kind->cached)
        return !is_voided(r, step, cell);
    const struct state_run *own = run_recorded(r);
    if (((own ? own->flags : r->options.flags) & RUN_FLAGS_ANEW) || r->plan->spec->entrypoint.always ||
        (own && own->own_generation > 0))
        return false;
    if (step->kind->phase == PHASE_LAUNCH && r->stage != STAGE_SETUP &&
        !(run_launch(r)->adopted && str_eq(run_launch(r)->adopted, rec->launch)))
        return false; /* the node comes late: which launch counts is known by now */
    /* also if an earlier run adopted the record, and then could not go on because of another node, or was cancelled */
    const struct state_run *run = cell ? state_run_find(r->state, cell->run) : NULL;
    bool of_last =
        /* of the launch's last generation; else it was restarted since */
        cell && run && (cell->generation == 0 || cell->generation == run->generation);
    /* that run may not have learned of the end */
    bool ended_well =
        cell && (cell->outcome == OUTCOME_OK || (cell->outcome == OUTCOME_NONE && record_says(rec) == RECORD_GOOD &&
                                                 str_eq(cell->attempt, rec->attempt)));
    return !cell ||
           (of_last && (run->status == RUN_INFRA || run->status == RUN_CANCELLED) && ended_well &&
            str_eq(cell->key, step->key)) ||
           is_of_another(lane, step, rec);
}

/* Whether the epilog was claimed after this node's last part of the launch, and that part is the one that the run
 * counts as done. */
bool lane_follows_launch(const struct lane *lane, const struct wire_record *epilog)
{
    struct run *r = lane->run;
    for (size_t i = 0; i < r->plan->step_count; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        const struct wire_record *latest =
            step->kind->phase == PHASE_LAUNCH && step->on[lane->index] ? lane_latest(lane, step) : NULL;
        if (latest && (latest->sequence > epilog->sequence ||
                       strcmp(latest->attempt, run_task(r, step, lane->index)->attempt) != 0))
            return false;
    }
    return true;
}

/* Another controller has done this step since our attempt was decided: its record stands for ours, which never
 * started. */
const struct wire_record *lane_done_by_another(struct lane *lane, const struct plan_step *step)
{
    struct run *r = lane->run;
    const struct state_run *run = run_recorded(r);
    const struct state_cell *cell = state_cell_find(r->state, step->scope, step->name, lane->index);
    const struct wire_record *latest = lane_latest(lane, step);
    bool anew = step->kind->cached ? r->voids[step->id] : run && (run->flags & RUN_FLAGS_ANEW) != 0;
    if (point_launch_name(r, step)) /* one part alone is not a launch */
        return NULL;
    if (anew || !is_good_for(step, latest) || (cell && latest->sequence <= cell->seen))
        return NULL;
    if (step->kind->phase == PHASE_EPILOG && !lane_follows_launch(lane, latest))
        return NULL; /* it follows a launch that is not the run's */
    return lane_holds(lane, step) && run_is_stranger(r, latest->attempt) ? latest : NULL;
}

/* ---- deciding ---- */

/* Whether the node's index of the files that were sent to it can be trusted: it was written in the present boot, or is
 * known to be on the disk. */
static bool index_holds(const struct lane *lane, const struct state_cell *cell)
{
    const struct wire_facts *facts = lane->facts;
    if (!cell || !facts || !str_eq(cell->install, facts->install))
        return false;
    if (cell->outcome == OUTCOME_OK && cell->settled)
        return true;
    return str_eq(cell->boot_id, facts->boot_id) && cell->outcome != OUTCOME_NONE && cell->outcome != OUTCOME_UNKNOWN &&
           cell->outcome != OUTCOME_NOT_STARTED;
}

static enum belief setup_belief(const struct lane *lane, const struct plan_step *step, const struct state_cell *cell,
                                const struct wire_record *latest)
{
    const bool recorded = is_recorded(step, cell), ended = cell && cell->outcome != OUTCOME_NONE;
    uint32_t so = FACT_CACHED;
    so |= latest && ended && str_eq(cell->attempt, latest->attempt) ? FACT_OWN : 0;
    so |= latest && str_eq(latest->key, step->key) ? FACT_KEY : 0;
    so |= latest && cell && is_since(lane, cell, latest) ? FACT_SINCE : 0;
    so |= latest && latest->same_boot ? FACT_BOOT : 0;
    so |= !cell || is_machine_of(lane, cell) ? FACT_MACHINE : 0;
    so |= lane_holds(lane, step) ? FACT_HOLDS : 0;
    so |= installed_since(lane, step) ? 0 : FACT_ADOPT;
    return belief_of(recorded ? CELL_OK : ended ? CELL_BAD : CELL_NOTHING, record_says(latest), so);
}

/* The journal has a success with this key: the step is kept if the success counts and nothing must be checked again. */
static void keep(struct lane *lane, const struct plan_step *step, const struct state_cell *cell, enum belief belief)
{
    struct run *r = lane->run;
    struct run_task *t = run_task(r, step, lane->index);
    t->reason = belief == BELIEF_KEEP ? NULL : lane_contradiction(lane, step, cell);
    if (t->reason && lane_resumes(lane) && !elastic_is_outside(run_launch(r), lane) &&
        !ledger_differs(lane, step, cell)) {
        /* the launch that is being resumed may have changed the files: set-up is not repeated under running workers */
        lane_set_doubtful(lane, true);
        t->reason = NULL;
    }
    const char *installed = t->reason ? NULL : installed_since(lane, step);
    if (installed)
        t->reason = arena_printf(r->arena, step->kind->verify ? "to see whether %s changed it" : "%s was made again",
                                 installed);
    if (t->reason)
        return;
    task_set_state(r, t, TASK_KEPT);
    if (!cell->settled)
        lane_set_dirty(lane, true);
}

void lane_decide(struct lane *lane, const struct plan_step *step)
{
    struct run *r = lane->run;
    struct run_task *t = run_task(r, step, lane->index);
    const struct state_cell *cell = state_cell_find(r->state, step->scope, step->name, lane->index);
    const struct wire_record *latest = lane_latest(lane, step);
    task_look(t, true);
    transfer_trust(lane, step, index_holds(lane, cell));
    t->reason = NULL;
    t->general = false;
    if (is_voided(r, step, cell)) {
        t->reason = cell || latest ? "--fresh or --from asks for it" : NULL; /* NULL: it never ran */
        t->general = true;
        return;
    }
    const enum belief belief = setup_belief(lane, step, cell, latest);
    if (belief == BELIEF_ADOPT) {
        lane_set_dirty(lane, true);
        task_finish(r, step, lane->index, latest, true);
    } else if (is_recorded(step, cell)) {
        keep(lane, step, cell, belief);
    } else if (cell && cell->outcome == OUTCOME_UNKNOWN) {
        step_unknown_fails(r, step, lane->index);
        t->reason = step->kind->sync ? "it was cut off" : "its outcome is unknown";
    } else if (cell && !str_eq(cell->key, step->key)) {
        const char *changed = plan_changed_inputs(step, cell->inputs, r->arena);
        t->reason = changed ? arena_printf(r->arena, "%s changed", changed) : "its inputs changed";
        t->general = true;
    } else if (cell && t->tries > step->retry_times) {
        /* an earlier controller saw the last failure, and died before it could fail the run */
        const struct event_finished end = {
            .outcome = cell->outcome, .cause = cell->cause, .cause_value = cell->cause_value, .tail = cell->tail};
        t->tries = step->retry_times;
        task_set_state(r, t, TASK_FAILED);
        step_gives_up(r, step, lane->index, &end);
    } else if (cell && cell->outcome == OUTCOME_FAILED) {
        t->reason = "it failed before";
    } else if (!cell && step->shared && elastic_is_inside(run_launch(lane->run), lane)) {
        /* another node of the home did the step, and is left out now */
        task_set_state(r, t, TASK_KEPT);
        lane_set_doubtful(lane, true); /* checked before the node's next launch, not under its running workers */
    }
}
