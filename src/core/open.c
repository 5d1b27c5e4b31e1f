/* Opening a run: a new run, an unfinished run, or no run yet while another plan of the job may be alive. Also the
 * results of VERIFY and LOOK. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* Finds the steps that the flags void. --fresh: all. --from STEP: that step and the steps after it (plan_is_from).
 * --again: none, because it only asks for a new launch. (Only set-up is voided: prolog, launch and epilog belong to one
 * run anyway.) */
static int compute_voids(struct run *r, uint32_t flags, const char *from, struct error *err)
{
    bool found = false;
    for (size_t i = 0; i < r->plan->step_count; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        bool behind = (flags & RUN_FLAG_FROM) && plan_is_from(r->plan, from, step);
        found = found || behind;
        r->voids[i] = step->kind->cached && ((flags & RUN_FLAG_FRESH) || behind);
    }
    if (!(flags & RUN_FLAG_FROM) || found)
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

/* The ids of the points that this run need not do. */
static const char **kept_points(struct run *r, uint32_t *ret_count)
{
    const bool anew = (r->options.flags & RUN_FLAGS_ANEW) || r->plan->spec->entrypoint.always;
    const char **ids = arena_array(r->arena, (size_t)r->plan->point_count + 1, sizeof *ids);
    for (uint32_t i = 0; i < r->plan->point_count && !anew; i++)
        if (run_point_recorded(r->state, r->plan, i))
            ids[(*ret_count)++] = r->plan->points[i].point->id;
    return ids;
}

static void append_opened(struct run *r, enum event_type type)
{
    static const char *const no_sets[1] = {NULL};
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
        const char *value = spec->params[i].swept ? spec->params[i].chosen : spec->params[i].value;
        if (!value)
            continue;
        if (params.len > 1)
            buf_putc(&params, ',');
        buf_json_string(&params, spec->params[i].name, strlen(spec->params[i].name));
        buf_putc(&params, ':');
        buf_json_string(&params, value, strlen(value));
    }
    buf_putc(&params, '}');
    const struct event_asked asked = {.spec_path = spec->real_path ? spec->real_path : spec->path,
                                      .spec_hash = spec->hash,
                                      .plan_hash = r->plan->hash,
                                      .owner_name = r->options.owner_name,
                                      .version = RHRUN_VERSION,
                                      .on = spec->on,
                                      .sets = spec->sets ? spec->sets : no_sets,
                                      .set_count = (uint32_t)spec->set_count,
                                      .spec_text = spec->doc ? spec->doc->source.text : NULL};
    struct event e = {.type = type};
    uint32_t kept_count = 0;
    const char **kept = r->plan->points ? kept_points(r, &kept_count) : NULL;
    if (type == EVENT_RUN_REOPENED)
        e.reopened = asked;
    else
        e.opened = (struct event_opened){.asked = asked,
                                         .job_hash = r->plan->job_hash,
                                         .made_of = r->options.made_of,
                                         .variant = spec->variant,
                                         .flags = r->options.flags,
                                         .node_count = r->plan->node_count,
                                         .voids = voids,
                                         .void_count = void_count,
                                         .args_json = args.data,
                                         .params_json = params.data,
                                         .from_step = r->options.from_step,
                                         .point_count = r->plan->point_count,
                                         .kept = kept,
                                         .kept_count = kept_count,
                                         .work = r->options.flags & RUN_FLAG_FRESH ? r->work : NULL};
    run_append(r, &e);
    buf_free(&args);
    buf_free(&params);
    r->opening = OPENING_DONE;
}

static int open_new(struct run *r, struct error *err)
{
    if (compute_voids(r, r->options.flags, r->options.from_step, err) < 0)
        return -1;
    r->work = work_name(r, r->options.flags, true);
    work_begin(r, r->options.flags);
    run_chance(r, r->id, 8);
    append_opened(r, EVENT_RUN_OPENED);
    points_replay(r);
    return 0;
}

static int open_again(struct run *r, const struct state_run *run, struct error *err)
{
    if (compute_voids(r, 0, NULL, err) < 0)
        return -1;
    snprintf(r->id, sizeof r->id, "%s", run->id);
    r->work = work_name(r, 0, false);
    append_opened(r, EVENT_RUN_REOPENED);
    run_replay(r);
    reopen_say(r);
    return 0;
}

/* Whether this host of a journal is the plan's node with that number. */
static bool is_node(const struct plan *plan, uint32_t node, const char *host)
{
    if (node >= plan->node_count)
        return false;
    bool here = plan->spec->placement == PLACEMENT_HERE;
    if (here && str_starts(host, "local")) /* one node here is called "local", the first of several "local-0" */
        return true;
    return str_eq(roster_name(plan->roster, node), host);
}

static bool is_some_node(const struct plan *plan, uint32_t node, const char *host)
{
    if (plan->spec->placement == PLACEMENT_HERE)
        return is_node(plan, node, host);
    for (uint32_t n = 0; n < plan->node_count; n++)
        if (is_node(plan, n, host))
            return true;
    return false;
}

/* A host on which the unfinished run may still have work, and for which is_here does not hold. NULL: there is none. */
static const char *node_missing(const struct state *s, const struct plan *plan, const struct state_run *open,
                                bool (*is_here)(const struct plan *plan, uint32_t node, const char *host))
{
    for (size_t i = 0; i < s->cell_count; i++) {
        const struct state_cell *c = &s->cells[i];
        const char *host = c->node < s->node_count ? s->nodes[c->node].host : NULL;
        if (c->outcome == OUTCOME_NONE && str_eq(c->run, open->id) && host && !is_here(plan, c->node, host))
            return host;
    }
    return NULL;
}

/* Such a host that the spec no longer names: rhrun cannot ask it, so the work there would be forgotten. */
static const char *node_left_behind(const struct run *r, const struct state_run *open)
{
    return node_missing(r->state, r->plan, open, is_some_node);
}

const struct state_run *run_unfinished(const struct state *s, const struct plan *plan)
{
    const struct state_run *open = state_run_open(s);
    bool same = open && str_eq(open->plan_hash, plan->hash) && str_eq(open->variant, plan->spec->variant);
    return same && !node_missing(s, plan, open, is_node) ? open : NULL;
}

/* Stops everything that is left of the unfinished run: its attempts, and other attempts of the job on the nodes. If no
 * run is unfinished: everything that is left of the latest run that was closed while a node was away. */
static int open_cancel(struct run *r, const struct state_run *open, struct error *err)
{
    for (size_t i = r->state->run_count; !open && i-- > 0;)
        open = state_run_left(r->state, r->state->runs[i].id) ? &r->state->runs[i] : NULL;
    if (!open)
        return error_set(err, ERROR_USAGE, "no run of this job is unfinished");
    snprintf(r->id, sizeof r->id, "%s", open->id);
    const char *left = node_left_behind(r, open);
    if (left) {
        error_set(err, ERROR_USAGE,
                  "run %s may still be at work on \"%s\", which the spec does not name; nothing was stopped", r->id,
                  left);
        error_hint(err, "name it in the spec again, or use: rhrun cancel %s --on HOST,...", r->id);
        return -1;
    }
    r->work = work_name(r, 0, false);
    r->opening = OPENING_DONE;
    run_replay(r);
    return 0;
}

/* ERROR_HELD: the unfinished run must not be touched, and may be at work on nodes that this run would not ask. */
static int refuse_left(const struct run *r, const struct state_run *open, const char *left, struct error *err)
{
    const char *difference = overrides_difference(r->plan->spec, open, r->arena);
    error_set(err, ERROR_HELD,
              "unfinished run %s may still be at work on \"%s\", which the spec does not name%s%s; nothing was touched",
              r->id, left, difference ? " here: " : " any more", difference ? difference : "");
    if (difference)
        overrides_hint(r->plan->spec, open, r->arena, err);
    else
        error_hint(err, "name it again and `rhrun cancel %s`; --replace goes on and leaves it alone", r->id);
    return -1;
}

int run_open(struct run *r, struct error *err)
{
    const struct state_run *open = state_run_open(r->state);
    if (r->options.mode == RUN_VERIFY || r->options.mode == RUN_LOOK) {
        const struct state_run *latest = state_run_latest(r->state, r->plan->spec->variant);
        r->work = work_name(r, 0, false);
        work_begin(r, r->options.flags);
        if (latest)
            snprintf(r->id, sizeof r->id, "%s", latest->id);
        return compute_voids(r, r->options.flags, r->options.from_step, err);
    }
    if (r->options.mode == RUN_CANCEL)
        return open_cancel(r, open, err);
    const struct state_run *kept = run_fetchable(r->state, r->plan);
    bool anew = r->options.flags & RUN_FLAGS_ANEW;
    if (kept && !(open && run_unfinished(r->state, r->plan)) && !anew)
        return open_again(r, kept, err);
    if (!open)
        return open_new(r, err);
    snprintf(r->id, sizeof r->id, "%s", open->id);
    const char *left = r->options.replace ? NULL : node_left_behind(r, open);
    if (left)
        return refuse_left(r, open, left, err);
    if (run_unfinished(r->state, r->plan)) {
        if (compute_voids(r, open->flags, open->from_step, err) < 0)
            return -1;
        r->work = work_name(r, 0, false);
        work_begin(r, open->flags);
        r->opening = OPENING_DONE;
        run_replay(r);
        return 0;
    }
    r->opening = OPENING_PROBES; /* another plan: the nodes are asked first whether that run's launch lives */
    r->work = work_name(r, r->options.flags, true);
    return compute_voids(r, r->options.flags, r->options.from_step, err);
}

/* How the unfinished run's launch differs from the spec's: "run changed". NULL: it had not begun, or the difference is
 * not known. */
static const char *launch_difference(const struct run *r)
{
    for (size_t i = 0; i < r->state->cell_count; i++)
        for (size_t k = 0; k < r->plan->step_count; k++) {
            const struct state_cell *c = &r->state->cells[i];
            const struct plan_step *step = &r->plan->steps[k];
            if (step->kind->phase != PHASE_LAUNCH || !str_eq(c->run, r->id) || !str_eq(c->step, step->name) ||
                str_eq(c->key, step->key))
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
    run_set_stage(r, STAGE_CLOSED);
    alarm_set(r->finisher, 0);
}

/* Why the spec now means a run that is not the unfinished one. */
static const char *run_difference(const struct run *r, const struct state_run *open)
{
    bool variant = str_eq(open->variant, r->plan->spec->variant);
    const char *launch = variant ? launch_difference(r) : NULL;
    const char *options = overrides_difference(r->plan->spec, open, r->arena);
    if (launch && options)
        return arena_printf(r->arena, "%s; %s", launch, options);
    return options   ? options
           : launch  ? launch
           : variant ? "its nodes or set-up changed"
                     : "its params or arguments differ";
}

/* All nodes have answered. If the unfinished run, whose plan is no longer that of the spec, has a live launch, this run
 * must not start; otherwise it replaces the unfinished run. */
static void probe_done(struct run *r)
{
    const struct state_run *open = state_run_open(r->state);
    const char *difference = run_difference(r, open);
    for (uint32_t n = 0; n < r->plan->node_count && !r->options.replace; n++)
        for (size_t i = 0; i < r->lanes[n].record_count; i++) {
            const struct wire_record *rec = &r->lanes[n].records[i];
            if (rec->state != WIRE_STATE_CLAIMED || !step_is_launch(rec->slot) || points_want(r, rec))
                continue;
            struct error err = ERROR_INIT;
            error_set(&err, ERROR_HELD,
                      "run %s of this job is live on node \"%s\" with another spec (%s); nothing was touched", r->id,
                      r->lanes[n].name, difference);
            if (overrides_difference(r->plan->spec, open, r->arena))
                overrides_hint(r->plan->spec, open, r->arena, &err);
            else
                error_hint(&err,
                           "the older spec resumes it; or stop it: rhrun cancel %s, or --replace to start this one at "
                           "once",
                           r->id);
            hold_back(r, &err);
            return;
        }
    const char *older = arena_strdup(r->arena, r->id);
    struct error err = ERROR_INIT;
    if (open_new(r, &err) < 0) {
        run_fail(r, RUN_FAILED, &err);
        return;
    }
    run_note(r, EVENT_NODE_NONE, "run %s had not finished; this one replaces it (%s)", older, difference);
    if (work_seek(r))
        return;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        lane_bind(&r->lanes[n]);
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        lane_reconcile(&r->lanes[n]);
}

bool run_all_answered(const struct run *r)
{
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (r->lanes[n].state == LANE_CONNECTING ||
            (r->lanes[n].state != LANE_FAILED && !lane_has_listed(&r->lanes[n])))
            return false;
    return true;
}

static void fill_records(struct run *r)
{
    r->records = arena_array(r->arena, r->plan->step_count * r->plan->node_count + 1, sizeof *r->records);
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        patches_judge(&r->lanes[n]);
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        bool good = r->lanes[n].state != LANE_FAILED;
        for (size_t i = 0; i < r->plan->step_count; i++) {
            struct plan_record *rec = &r->records[i * r->plan->node_count + n];
            lane_fill_record(&r->lanes[n], &r->plan->steps[i], rec);
            if (good && r->plan->steps[i].kind->cached && r->plan->steps[i].on[n] && !rec->verified) {
                good = false;
                r->result.unverified_reason =
                    arena_printf(r->arena, "node \"%s\": step \"%s\": %s", r->lanes[n].name, r->plan->steps[i].name,
                                 rec->why_not ? rec->why_not : "not recorded");
            }
        }
        if (r->lanes[n].state == LANE_FAILED)
            r->result.unverified_reason = arena_strdup(r->arena, r->lanes[n].error.text);
        *(good ? &r->result.verified_nodes : &r->result.unverified_nodes) += 1;
    }
}

void run_look_end(struct run *r)
{
    r->result.nothing_to_do = r->options.mode == RUN_VERIFY;
    r->result.status = RUN_DONE;
    run_set_stage(r, STAGE_CLOSED);
    alarm_set(r->finisher, 0);
}

/* VERIFY and LOOK end when every node has answered or failed; with preflight, when that is over. */
void run_look_done(struct run *r)
{
    if (!run_all_answered(r) || r->stage == STAGE_CLOSED)
        return;
    for (uint32_t n = 0; n < r->plan->node_count && r->stage != STAGE_SETUP; n++)
        if (r->lanes[n].state != LANE_FAILED && !presence_is_here(r->lanes[n].presence))
            return; /* the node comes back, or fails for good */
    if (r->stage == STAGE_PREFLIGHT) {
        preflight_again(run_launch(r));
        return;
    }
    if (work_seek(r))
        return;
    fill_records(r);
    if (r->options.preflight && !r->points)
        launch_look(run_launch(r));
    else
        run_look_end(r);
}

void run_lane_listed(struct run *r, struct lane *lane)
{
    if (r->options.mode == RUN_VERIFY || r->options.mode == RUN_LOOK)
        run_look_done(r);
    else if (r->opening == OPENING_PROBES && run_all_answered(r))
        probe_done(r);
    else if (r->opening != OPENING_PROBES && !r->seeking)
        lane_reconcile(lane);
    run_due(r, DUE_END);
}
