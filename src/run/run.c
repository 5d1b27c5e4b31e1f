/* A run as a whole: opened or resumed in the journal, its nodes, its end. */
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
    return t->state == TASK_STARTING || t->state == TASK_RUNNING || t->state == TASK_STOPPING;
}

void run_changed(struct run *r)
{
    if (r->options.observer.changed)
        r->options.observer.changed(r->options.observer.arg);
}

/* ---- events ---- */

struct append {
    struct append *prev, *next;
    struct run *run;
    char *json; /* for the observer, NULL when there is none */
    void (*done)(void *arg);
    void *arg, *owned;
};

static void append_free(struct append *a)
{
    if (a->prev)
        a->prev->next = a->next;
    else
        a->run->appends = a->next;
    if (a->next)
        a->next->prev = a->prev;
    free(a->json);
    free(a->owned);
    free(a);
}

static void on_durable(void *arg)
{
    struct append *ctx = arg;
    struct run *r = ctx->run;
    if (ctx->json) {
        struct arena *arena = arena_create();
        struct event e = {0};
        if (event_from_json(ctx->json, strlen(ctx->json), arena, &e, NULL) == 0)
            r->options.observer.event(r->options.observer.arg, &e);
        arena_destroy(arena);
    }
    if (ctx->done)
        ctx->done(ctx->arg);
    append_free(ctx);
}

static void append(struct run *r, struct event *e, void (*done)(void *arg), void *arg, void *owned)
{
    struct append *ctx = xmalloc(sizeof *ctx);
    *ctx = (struct append){NULL, r->appends, r, NULL, done, arg, owned};
    if (r->appends)
        r->appends->prev = ctx;
    r->appends = ctx;
    e->run = r->id;
    e->time_ms = wall_ms();
    if (r->options.observer.event) {
        struct buf json = {0};
        e->seq = r->state->last_seq + 1;
        event_to_json(e, &json);
        ctx->json = buf_steal(&json);
    }
    journal_append(r->journal, e, on_durable, ctx);
}

void run_append(struct run *r, struct event *e, void (*done)(void *arg), void *arg)
{
    append(r, e, done, arg, NULL);
}

void run_append_own(struct run *r, struct event *e, void (*done)(void *arg), void *arg)
{
    append(r, e, done, arg, arg);
}

void run_note(struct run *r, uint32_t node, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *text = xvasprintf(fmt, ap);
    va_end(ap);
    if (!r->journal || !r->opened || r->stage >= STAGE_CLOSING || r->detached)
        return;
    struct event e = {.type = EVENT_NOTE, .node = node, .host = NULL, .reason = text};
    run_append(r, &e, NULL, NULL);
}

/* ---- opening ---- */

/* Which steps do the flags void? --fresh all, --from STEP it and what is behind it, --again the launch alone
 * (prolog, launch and epilog belong to a run anyway, so nothing needs saying for them). */
static int compute_voids(struct run *r, uint32_t flags, const char *from, struct error *err)
{
    bool behind = false;
    for (size_t i = 0; i < r->plan->step_count; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        behind = behind || ((flags & RUN_FLAG_FROM) && str_eq(step->name, from));
        r->voids[i] = step->kind->cached && ((flags & RUN_FLAG_FRESH) || behind);
    }
    if (!(flags & RUN_FLAG_FROM) || behind)
        return 0;
    const char **names = arena_array(r->arena, r->plan->step_count + 1, sizeof *names);
    for (size_t i = 0; i < r->plan->step_count; i++)
        names[i] = r->plan->steps[i].name;
    error_set(err, ERROR_USAGE, "--from: there is no step \"%s\"", from ? from : "");
    const char *near = from ? str_nearest(from, names) : NULL;
    if (near)
        error_hint(err, "did you mean %s?", near);
    return -1;
}

/* The working directory's name on the nodes: the variant's, and a new one after each --fresh. */
static const char *work_name(struct run *r, uint32_t flags, bool opening)
{
    unsigned fresh = opening && (flags & RUN_FLAG_FRESH) ? 1 : 0;
    for (size_t i = 0; i < r->state->run_count; i++)
        if ((r->state->runs[i].flags & RUN_FLAG_FRESH) && str_eq(r->state->runs[i].variant, r->plan->spec->variant))
            fresh++;
    if (!fresh)
        return r->plan->spec->variant;
    char hex[65];
    CLEANUP(cleanup_free) char *text = xasprintf("%s fresh %u", r->plan->spec->variant, fresh);
    digest_sha256_hex(text, strlen(text), hex);
    return arena_strndup(r->arena, hex, 16);
}

static void append_opened(struct run *r)
{
    const struct spec *spec = r->plan->spec;
    const char **voids = arena_array(r->arena, r->plan->step_count + 1, sizeof *voids);
    uint32_t void_count = 0;
    for (size_t i = 0; i < r->plan->step_count; i++)
        if (r->voids[i])
            voids[void_count++] = arena_printf(r->arena, "%s\t%s", r->plan->steps[i].scope, r->plan->steps[i].name);
    struct buf args = {0}, params = {0};
    buf_putc(&args, '[');
    for (size_t i = 0; i < spec->arg_count; i++) {
        if (i)
            buf_putc(&args, ',');
        buf_json_string(&args, spec->args[i], strlen(spec->args[i]));
    }
    buf_putc(&args, ']');
    buf_putc(&params, '{');
    for (size_t i = 0; i < spec->param_count; i++) {
        if (i)
            buf_putc(&params, ',');
        buf_json_string(&params, spec->params[i].name, strlen(spec->params[i].name));
        buf_putc(&params, ':');
        buf_json_string(&params, spec->params[i].value, strlen(spec->params[i].value));
    }
    buf_putc(&params, '}');
    struct event e = {.type = EVENT_RUN_OPENED, .variant = spec->variant, .flags = r->options.flags, .node_count = r->plan->node_count,
                      .voids = voids, .void_count = void_count, .spec_path = spec->real_path ? spec->real_path : spec->path, .spec_hash = spec->hash,
                      .plan_hash = r->plan->hash, .owner_name = r->options.owner_name, .version = RHRUN_VERSION,
                      .args_json = args.data, .params_json = params.data, .from_step = r->options.from_step,
                      .spec_text = spec->doc ? spec->doc->source.text : NULL};
    run_append(r, &e, NULL, NULL);
    buf_free(&args);
    buf_free(&params);
    r->opened = true;
}

static void take_bind(struct run *r, const char *json)
{
    struct arena *arena = arena_create();
    struct doc *doc;
    struct diagnostics d = {0};
    if (json && doc_load_text("bind", json, strlen(json), DOC_FORMAT_JSON, arena, &doc, &d, NULL) == 0) {
        const char *addr = doc_get_string(doc->root, "master_addr", "");
        r->master_addr = addr[0] ? arena_strdup(r->arena, addr) : NULL;
        r->master_port = (uint32_t)doc_get_int(doc->root, "master_port", 0);
    }
    diagnostics_free(&d);
    arena_destroy(arena);
}

/* The journal's cells of this run become the tasks' states. */
static void resume_tasks(struct run *r, const struct state_run *open)
{
    r->generation = open->generation;
    r->restarts = open->restarts;
    r->cancelling = false;
    take_bind(r, open->bind_json);
    for (size_t i = 0; i < r->plan->step_count; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        for (uint32_t n = 0; n < r->plan->node_count; n++) {
            const struct state_cell *c = step->on[n] ? state_cell_find(r->state, step->scope, step->name, n) : NULL;
            if (!c || (!step->kind->cached && !str_eq(c->run, r->id)))
                continue;
            struct run_task *t = run_task(r, step, n);
            bool of_last = step->kind->phase != PHASE_LAUNCH || c->generation == r->generation;
            if (c->outcome == OUTCOME_NONE && str_eq(c->key, step->key)) {
                t->state = TASK_RUNNING;
                t->decided = true;
                r->lanes[n].dirty = step->kind->cached || r->lanes[n].dirty;
            } else if (!step->kind->cached && of_last && c->outcome == OUTCOME_OK) {
                t->state = TASK_DONE;
            } else if (!step->kind->cached && of_last && c->outcome != OUTCOME_NOT_STARTED && c->outcome != OUTCOME_NONE) {
                t->state = TASK_FAILED;
                r->cause_outcome = c->outcome;
                r->result.has_cause = true;
                r->result.cause_step = step->name;
                r->result.cause_node = r->plan->spec->hosts[n].name;
                r->result.cause = c->cause;
                r->result.cause_value = c->cause_value;
                r->result.cause_rank = c->cause_rank;
                r->result.cause_has_rank = step->kind->phase == PHASE_LAUNCH && r->plan->spec->distributed.present;
                r->result.cause_tail = arena_strdup(r->arena, c->tail);
            } else {
                continue;
            }
            memcpy(t->attempt, c->attempt, sizeof t->attempt);
            t->started_ms = c->started_ms;
            t->ended_ms = c->finished_ms;
        }
    }
}

static int open_new(struct run *r, struct error *err)
{
    if (compute_voids(r, r->options.flags, r->options.from_step, err) < 0)
        return -1;
    r->work = work_name(r, r->options.flags, true);
    random_hex(r->id, 8);
    append_opened(r);
    return 0;
}

static int open_run(struct run *r, struct error *err)
{
    const struct state_run *open = state_run_open(r->state);
    if (r->options.mode == RUN_VERIFY || r->options.mode == RUN_LOOK) {
        const struct state_run *latest = state_run_latest(r->state, r->plan->spec->variant);
        r->work = work_name(r, 0, false);
        if (latest)
            snprintf(r->id, sizeof r->id, "%s", latest->id);
        return compute_voids(r, r->options.flags, r->options.from_step, err);
    }
    if (open && (str_eq(open->plan_hash, r->plan->hash) || r->options.mode == RUN_CANCEL) && str_eq(open->variant, r->plan->spec->variant)) {
        if (compute_voids(r, open->flags, open->from_step, err) < 0)
            return -1;
        snprintf(r->id, sizeof r->id, "%s", open->id);
        r->work = work_name(r, 0, false);
        r->opened = true;
        resume_tasks(r, open);
        return 0;
    }
    if (open) { /* another plan: first see whether its launch lives */
        r->probing = true;
        r->work = work_name(r, r->options.flags, true);
        snprintf(r->id, sizeof r->id, "%s", open->id);
        return compute_voids(r, r->options.flags, r->options.from_step, err);
    }
    return open_new(r, err);
}

static bool names_node(const struct run *r, const char *host, uint32_t node)
{
    if (r->plan->spec->local && str_starts(host, "local")) /* "local" alone is "local-0" among several */
        return node < r->plan->node_count;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (str_eq(r->plan->spec->hosts[n].name, host))
            return true;
    return false;
}

/* A node on which the unfinished run may still have work, and which the spec does not name any more: it cannot be
 * asked, so the work there would be forgotten. NULL: there is none. */
static const char *node_left_behind(const struct run *r)
{
    for (size_t i = 0; i < r->state->cell_count; i++) {
        const struct state_cell *c = &r->state->cells[i];
        const char *host = c->node < r->state->node_count ? r->state->nodes[c->node].host : NULL;
        if (c->outcome == OUTCOME_NONE && str_eq(c->run, r->id) && host && !names_node(r, host, c->node))
            return host;
    }
    return NULL;
}

/* What makes the unfinished run's launch another one than the spec's: "run changed"; NULL when it was not begun. */
static const char *launch_difference(const struct run *r)
{
    const struct state_run *open = state_run_open(r->state);
    if (open && !str_eq(open->variant, r->plan->spec->variant))
        return "its params or arguments are others";
    for (size_t i = 0; i < r->state->cell_count; i++)
        for (size_t k = 0; k < r->plan->step_count; k++) {
            const struct state_cell *c = &r->state->cells[i];
            const struct plan_step *step = &r->plan->steps[k];
            if (step->kind->phase != PHASE_LAUNCH || !str_eq(c->run, r->id) || !str_eq(c->step, step->name) || str_eq(c->key, step->key))
                continue;
            const char *changed = plan_changed_inputs(step, c->inputs, r->arena);
            return changed ? arena_printf(r->arena, "%s changed", changed) : NULL;
        }
    return NULL;
}

static void hold_back(struct run *r, const struct error *err)
{
    r->result.error = *err;
    r->result.exit_status = 4;
    r->result.status = RUN_OPEN;
    r->stage = STAGE_CLOSED;
    loop_timer_start(r->finisher, 0);
}

/* All nodes were asked: is a launch of the unfinished run alive whose plan is not the spec's any more? */
static void probe_done(struct run *r)
{
    const char *left = r->options.replace ? NULL : node_left_behind(r);
    if (left) {
        struct error err = ERROR_INIT;
        error_set(&err, ERROR_HELD, "unfinished run %s may still be at work on \"%s\", which the spec does not name any more; nothing was touched", r->id, left);
        error_hint(&err, "name it again and `rhrun cancel %s`; --replace goes on and leaves it to itself", r->id);
        hold_back(r, &err);
        return;
    }
    for (uint32_t n = 0; n < r->plan->node_count && !r->options.replace; n++)
        for (size_t i = 0; i < r->lanes[n].record_count; i++) {
            const struct wire_record *rec = &r->lanes[n].records[i];
            if (rec->state != WIRE_STATE_CLAIMED || strcmp(rec->slot, "launch") != 0)
                continue;
            struct error err = ERROR_INIT;
            const char *difference = launch_difference(r);
            error_set(&err, ERROR_HELD, "run %s of this job is live on node \"%s\" with another spec (%s); nothing was touched", r->id,
                      node_name(r->lanes[n].node), difference ? difference : "its nodes or set-up changed");
            error_hint(&err, "wait for it (rhrun attach %s), or stop it and start this one with --replace", r->id);
            hold_back(r, &err);
            return;
        }
    r->probing = false;
    struct error err = ERROR_INIT;
    if (open_new(r, &err) < 0) {
        run_fail(r, RUN_FAILED, &err);
        return;
    }
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        const struct wire_facts *facts = node_facts(r->lanes[n].node);
        struct buf json = {0};
        run_facts_json(facts, &json);
        struct event e = {.type = EVENT_NODE_BOUND, .node = n, .host = node_name(r->lanes[n].node), .install = facts->install,
                          .boot_id = facts->boot_id, .facts_json = json.data};
        run_append(r, &e, NULL, NULL);
        buf_free(&json);
    }
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        lane_reconcile(&r->lanes[n]);
}

static bool all_answered(const struct run *r)
{
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (r->lanes[n].state == LANE_CONNECTING)
            return false;
    return true;
}

/* VERIFY and LOOK end when every node has answered or failed. */
static void look_done(struct run *r)
{
    if (!all_answered(r) || r->stage == STAGE_CLOSED)
        return;
    r->records = arena_array(r->arena, r->plan->step_count * r->plan->node_count + 1, sizeof *r->records);
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        bool good = r->lanes[n].state != LANE_FAILED;
        for (size_t i = 0; i < r->plan->step_count; i++) {
            struct plan_record *rec = &r->records[i * r->plan->node_count + n];
            lane_fill_record(&r->lanes[n], &r->plan->steps[i], rec);
            if (good && r->plan->steps[i].kind->cached && r->plan->steps[i].on[n] && !rec->verified) {
                good = false;
                r->result.unverified_reason = arena_printf(r->arena, "node \"%s\": step \"%s\": %s", node_name(r->lanes[n].node),
                                                           r->plan->steps[i].name, rec->why_not ? rec->why_not : "not recorded");
            }
        }
        if (r->lanes[n].state == LANE_FAILED)
            r->result.unverified_reason = arena_strdup(r->arena, r->lanes[n].error.text);
        *(good ? &r->result.verified_nodes : &r->result.unverified_nodes) += 1;
    }
    r->result.nothing_to_do = r->options.mode == RUN_VERIFY;
    r->result.status = RUN_DONE;
    r->stage = STAGE_CLOSED;
    loop_timer_start(r->finisher, 0);
}

void run_lane_listed(struct run *r, struct lane *lane)
{
    if (r->options.mode == RUN_VERIFY || r->options.mode == RUN_LOOK)
        look_done(r);
    else if (!r->probing)
        lane_reconcile(lane);
    else if (all_answered(r))
        probe_done(r);
    run_check_end(r);
}

/* ---- failing ---- */

void run_fail(struct run *r, enum run_status status, const struct error *err)
{
    if (r->stage >= STAGE_CLOSING || r->failing)
        return;
    r->failing = true;
    r->fail_status = status;
    r->result.error = *err;
    for (size_t i = 0; i < r->plan->step_count; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        for (uint32_t n = 0; n < r->plan->node_count; n++)
            if (step->kind->phase != PHASE_SETUP && task_in_flight(run_task(r, step, n)))
                task_stop(r, step, n, WIRE_STOP, STOP_GRACE_MS);
    }
    loop_timer_start(r->stop_deadline, STOP_REACH_MS);
    run_check_end(r);
}

static bool launch_in_flight(struct run *r)
{
    for (size_t i = 0; i < r->plan->step_count; i++)
        for (uint32_t n = 0; n < r->plan->node_count; n++)
            if (!r->plan->steps[i].kind->cached && task_in_flight(run_task(r, &r->plan->steps[i], n)))
                return true;
    return false;
}

/* A node is out of reach while the launch may live there: nothing is stopped and the run stays open, so that the same
 * command takes it up again. A lost network must not cost the work. */
static void leave_open(struct run *r, uint32_t node, const struct error *err)
{
    run_note(r, node, "%s", err->text);
    r->result.error = *err;
    error_hint(&r->result.error, "what runs goes on: the same command takes it up again, rhrun cancel %s stops it", r->id);
    r->result.exit_status = err->code == ERROR_HELD ? 4 : 3;
    r->result.status = RUN_OPEN;
    r->detached = true;
    loop_timer_start(r->finisher, 0);
}

void run_node_failed(struct run *r, uint32_t node, const struct error *err)
{
    if (r->detached)
        return;
    r->failed_nodes++;
    if (r->opened && !r->probing && !r->cancelling && !r->failing && launch_in_flight(r)) {
        leave_open(r, node, err);
        return;
    }
    if (r->options.mode == RUN_VERIFY || r->options.mode == RUN_LOOK) {
        look_done(r);
        return;
    }
    for (size_t i = 0; i < r->plan->step_count; i++) { /* what runs there cannot be known; the next contact tells */
        struct run_task *t = run_task(r, &r->plan->steps[i], node);
        if (task_in_flight(t))
            t->state = TASK_FAILED;
    }
    r->lanes[node].orphan_count = 0;
    if (r->probing) {
        r->result.error = *err;
        r->result.exit_status = err->code == ERROR_HELD ? 4 : 3;
        r->stage = STAGE_CLOSED;
        loop_timer_start(r->finisher, 0);
        return;
    }
    run_note(r, node, "%s", err->text);
    run_fail(r, RUN_INFRA, err);
    run_check_end(r);
}

static bool anything_in_flight(struct run *r)
{
    for (size_t i = 0; i < r->plan->step_count * r->plan->node_count; i++)
        if (task_in_flight(&r->tasks[i]))
            return true;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (r->lanes[n].orphan_count > 0)
            return true;
    return false;
}

static bool still_connecting(const struct run *r)
{
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (r->lanes[n].state == LANE_CONNECTING && node_state(r->lanes[n].node) != NODE_FAILED)
            return true;
    return false;
}

void run_check_end(struct run *r)
{
    if (r->stage >= STAGE_CLOSING || r->detached || !r->opened || (!r->failing && !r->cancelling))
        return;
    if (anything_in_flight(r))
        return;
    if (still_connecting(r) && (r->options.mode == RUN_CANCEL || !r->cancelling) && loop_timer_active(r->stop_deadline))
        return;
    if (launch_epilog(r))
        return;
    if (r->cancelling)
        run_close(r, RUN_CANCELLED, 128 + (r->interrupt_signal ? r->interrupt_signal : SIGTERM));
    else
        run_close(r, r->fail_status, r->result.error.code == ERROR_HELD ? 4 : r->fail_status == RUN_INFRA ? 3 : r->result.error.code == ERROR_USAGE ? 2 : 1);
}

static void on_stop_deadline(void *arg)
{
    struct run *r = arg;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        node_give_up(r->lanes[n].node);
    run_check_end(r);
}

/* ---- closing ---- */

static void on_finisher(void *arg)
{
    struct run *r = arg;
    r->finished(r->arg);
}

static void on_closed_durable(void *arg)
{
    struct run *r = arg;
    r->stage = STAGE_CLOSED;
    loop_timer_start(r->finisher, 0);
}

/* Attempts that a later one of the same slot has replaced, and what earlier runs left: nobody asks for them again. */
static void forget_old(struct run *r)
{
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        struct lane *lane = &r->lanes[n];
        struct wire_strings old = {xcalloc(lane->record_count + 1, sizeof(char *)), 0};
        for (size_t i = 0; i < lane->record_count && node_state(lane->node) == NODE_READY; i++) {
            const struct wire_record *rec = &lane->records[i];
            const struct state_cell *cell = state_cell_by_attempt(r->state, rec->attempt);
            bool current = cell && str_eq(cell->attempt, rec->attempt);
            if (!current && rec->state != WIRE_STATE_CLAIMED && str_eq(rec->variant, r->work))
                old.items[old.count++] = rec->attempt;
        }
        if (old.count > 0)
            node_forget(lane->node, &old);
        free(old.items);
    }
}

void run_close(struct run *r, enum run_status status, int exit_status)
{
    if (r->stage >= STAGE_CLOSING)
        return;
    CLEANUP(cleanup_free) char *away = NULL;
    if (status == RUN_CANCELLED) {
        struct buf names = {0};
        for (uint32_t n = 0; n < r->plan->node_count; n++)
            if (r->lanes[n].closed_node)
                buf_printf(&names, "%s%s", names.len ? ", " : "", node_name(r->lanes[n].node));
        if (names.len)
            error_set(&r->result.error, ERROR_INTERRUPTED, "cancelled; not reached: %s (stopped at the next contact)", names.data);
        else
            error_set(&r->result.error, ERROR_INTERRUPTED, "cancelled");
        buf_free(&names);
    } else if (r->failed_nodes > 1 && r->fail_status == RUN_INFRA) {
        size_t len = strlen(r->result.error.text);
        snprintf(r->result.error.text + len, sizeof r->result.error.text - len, " (and %u more node%s)", r->failed_nodes - 1, r->failed_nodes == 2 ? "" : "s");
    }
    r->result.status = status;
    r->result.exit_status = exit_status;
    if (status == RUN_DONE) /* only then does every slot have an attempt that is believed */
        forget_old(r);
    struct event e = {.type = EVENT_RUN_CLOSED, .status = status, .exit_status = exit_status,
                      .reason = r->result.error.code != ERROR_NONE ? r->result.error.text : NULL};
    run_append(r, &e, on_closed_durable, r);
    r->stage = STAGE_CLOSING;
    run_changed(r);
}

void run_orphan_ended(struct run *r, struct lane *lane, const struct wire_record *rec)
{
    const struct state_cell *cell = state_cell_by_attempt(r->state, rec->attempt);
    if (!cell || cell->outcome != OUTCOME_NONE)
        return;
    struct arena *arena = arena_create();
    struct event e = {.type = EVENT_FINISHED, .node = lane->index, .scope = arena_strdup(arena, cell->scope),
                      .step = arena_strdup(arena, cell->step), .attempt = arena_strdup(arena, cell->attempt),
                      .key = arena_strdup(arena, cell->key), .outcome = record_outcome(rec), .cause = rec->cause,
                      .cause_value = rec->value, .cause_rank = rec->cause_rank, .tail = rec->tail, .log_bytes = rec->spool_bytes};
    run_append(r, &e, NULL, NULL);
    arena_destroy(arena);
}

/* ---- interrupt, detach ---- */

static void on_cancelling_durable(void *arg)
{
    struct run *r = arg;
    for (size_t i = 0; i < r->plan->step_count; i++)
        for (uint32_t n = 0; n < r->plan->node_count; n++) {
            struct run_task *t = run_task(r, &r->plan->steps[i], n);
            if (t->state == TASK_WAITING)
                t->state = TASK_FAILED;
            task_stop(r, &r->plan->steps[i], n, r->killing ? WIRE_KILL : WIRE_STOP, CANCEL_GRACE_MS);
        }
    run_check_end(r);
}

void run_interrupt(struct run *r, int signum)
{
    if (r->stage >= STAGE_CLOSING)
        return;
    if (!r->opened) { /* nothing was decided yet */
        error_set(&r->result.error, ERROR_INTERRUPTED, "interrupted");
        r->result.exit_status = 128 + signum;
        r->stage = STAGE_CLOSED;
        loop_timer_start(r->finisher, 0);
        return;
    }
    if (r->cancelling) {
        r->killing = true;
        on_cancelling_durable(r);
        on_stop_deadline(r);
        return;
    }
    r->cancelling = true;
    r->interrupt_signal = signum;
    loop_timer_start(r->stop_deadline, STOP_REACH_MS);
    struct event e = {.type = EVENT_CANCELLING, .reason = signum ? strsignal(signum) : "rhrun cancel"};
    run_append(r, &e, on_cancelling_durable, r);
    run_changed(r);
}

void run_detach(struct run *r)
{
    if (r->stage >= STAGE_CLOSING)
        return; /* it ends by itself */
    r->detached = true;
    r->result.status = RUN_OPEN;
    r->result.exit_status = 0;
    loop_timer_start(r->finisher, 0);
}

/* ---- creating ---- */

static void on_journal_failure(void *arg, const struct error *err)
{
    struct run *r = arg;
    r->result.error = *err;
    r->result.exit_status = 3;
    r->result.status = RUN_OPEN;
    r->detached = true; /* what runs goes on; nothing new is started, and the next rhrun takes it up */
    loop_timer_start(r->finisher, 0);
}

static enum transport_kind kind_of(enum spec_transport t)
{
    switch (t) {
    case SPEC_TRANSPORT_AUTO: return TRANSPORT_AUTO;
    case SPEC_TRANSPORT_SSH: return TRANSPORT_SSH;
    case SPEC_TRANSPORT_OPENSSH: return TRANSPORT_OPENSSH;
    case SPEC_TRANSPORT_LOCAL: return TRANSPORT_LOCAL;
    case SPEC_TRANSPORT_SIM: return TRANSPORT_SIM;
    }
    return TRANSPORT_AUTO;
}

static void create_lane(struct run *r, uint32_t i)
{
    struct lane *lane = &r->lanes[i];
    const struct spec *spec = r->plan->spec;
    const struct spec_host *h = &spec->hosts[i];
    lane->run = r;
    lane->index = i;
    lane->arena = arena_create();
    lane->creates = arena_array(r->arena, r->plan->step_count + 1, 1);
    if (h->transport == SPEC_TRANSPORT_LOCAL && i > 0) {
        const char *home = getenv("HOME");
        lane->base_dir = xasprintf("%s/.rhrun/local/%u", home ? home : "", i);
    }
    struct node_options o = {0};
    o.index = i;
    o.host = (struct transport_host){.name = h->name, .user = h->user, .port = h->port, .identity_file = h->identity_file,
                                     .proxy_jump = h->proxy_jump, .known_hosts = h->known_hosts, .ssh_config = h->ssh_config,
                                     .kind = r->options.sim ? TRANSPORT_SIM : kind_of(h->transport), .local_index = i, .sim_index = i};
    o.host.name = h->host && h->transport != SPEC_TRANSPORT_LOCAL ? h->host : h->name;
    bool look = r->options.mode == RUN_LOOK || r->options.mode == RUN_VERIFY;
    char job[17];
    journal_job_id(spec->name, spec->origin, job);
    o.hello = (struct wire_hello){.mode = look ? WIRE_READ : r->options.take_over ? WIRE_TAKE_OVER : WIRE_OWN,
                                  .job = arena_strdup(r->arena, job),
                                  .job_name = arena_strdup(r->arena, spec->name),
                                  .origin = arena_strdup(r->arena, spec->origin),
                                  .owner = arena_strdup(r->arena, r->journal ? journal_owner(r->journal) : "00000000000000000000000000000000") /* only to read */,
                                  .owner_name = arena_strdup(r->arena, r->options.owner_name),
                                  .variant = arena_strdup(r->arena, r->work),
                                  .work_dir = arena_strdup(r->arena, h->work_dir ? h->work_dir : ""),
                                  .base_dir = lane->base_dir ? lane->base_dir : arena_strdup(r->arena, ""),
                                  .test_boot_id = arena_strdup(r->arena, r->options.test_boot_id ? r->options.test_boot_id : "")};
    o.liveness_ms = r->options.liveness_ms;
    o.reconnect_ms = r->options.reconnect_ms;
    o.hello_ms = r->options.hello_ms;
    o.backoff_ms = r->options.backoff_ms;
    o.label = h->name;
    o.checks.items = arena_array(r->arena, r->plan->step_count + 1, sizeof(char *));
    for (size_t s = 0; s < r->plan->step_count; s++)
        if (r->plan->steps[s].creates && r->plan->steps[s].on[i])
            o.checks.items[o.checks.count++] = arena_strdup(r->arena, r->plan->steps[s].creates);
    lane->node = node_create(r->loop, r->pool, &o, &lane_callbacks, r);
}

struct run *run_create(struct loop *loop, const struct run_options *options, void (*finished)(void *arg), void *arg)
{
    struct run *r = xcalloc(1, sizeof *r);
    r->loop = loop;
    r->options = *options;
    r->plan = options->plan;
    r->journal = options->journal;
    r->state = options->journal ? journal_state(options->journal) : NULL;
    r->finished = finished;
    r->arg = arg;
    r->arena = arena_create();
    r->tasks = xcalloc(r->plan->step_count * r->plan->node_count + 1, sizeof *r->tasks);
    r->lanes = xcalloc(r->plan->node_count, sizeof *r->lanes);
    r->voids = arena_array(r->arena, r->plan->step_count + 1, sizeof *r->voids);
    r->stop_deadline = loop_timer_create(loop, on_stop_deadline, r);
    r->finisher = loop_timer_create(loop, on_finisher, r);
    if (!r->state)
        r->state = r->own_state = state_create();
    return r;
}

int run_start(struct run *r, struct error *err)
{
    struct transport_pool_options o = {.allow_prompt = r->options.allow_prompt};
    if (open_run(r, err) < 0)
        return -1;
    if (r->journal && r->options.mode != RUN_LOOK && r->options.mode != RUN_VERIFY)
        journal_on_failure(r->journal, on_journal_failure, r);
    r->pool = transport_pool_create(r->loop, &o);
    if (r->options.sim)
        transport_pool_set_sim(r->pool, r->options.sim);
    for (uint32_t i = 0; i < r->plan->node_count; i++)
        create_lane(r, i);
    for (uint32_t i = 0; i < r->plan->node_count; i++)
        node_connect(r->lanes[i].node);
    if (r->options.mode == RUN_CANCEL)
        run_interrupt(r, 0);
    return 0;
}

void run_destroy(struct run *r)
{
    if (!r)
        return;
    while (r->appends)
        append_free(r->appends);
    for (size_t i = 0; i < r->plan->step_count * r->plan->node_count; i++) {
        loop_timer_destroy(r->tasks[i].retry);
        log_close(r->tasks[i].log);
    }
    for (uint32_t i = 0; i < r->plan->node_count; i++) {
        node_destroy(r->lanes[i].node);
        arena_destroy(r->lanes[i].arena);
        free(r->lanes[i].records);
        free(r->lanes[i].orphans);
        free(r->lanes[i].base_dir);
    }
    transport_pool_destroy(r->pool);
    loop_timer_destroy(r->stop_deadline);
    loop_timer_destroy(r->finisher);
    state_destroy(r->own_state);
    free(r->tasks);
    free(r->lanes);
    arena_destroy(r->arena);
    free(r);
}
