/* A run as its journal has it: attempts of steps, decisions, and what the run was started with. */
#include "renting.h"
#include "reporting.h"

#include <stdlib.h>
#include <string.h>

/* ---- events to attempts ---- */

static const char *keep(struct gathering *g, const char *text)
{
    return arena_strdup(g->arena, text);
}

static struct report_attempt *add_attempt(struct gathering *g)
{
    struct report_run *run = g->ret;
    if (run->attempt_count == REPORT_ATTEMPTS_MAX) {
        run->attempts_left_out++;
        return NULL;
    }
    if (run->attempt_count == g->attempt_cap) {
        const size_t cap = g->attempt_cap ? 2 * g->attempt_cap : 64;
        struct report_attempt *more = arena_array(g->arena, cap, sizeof *more);
        struct report_part *parts = arena_array(g->arena, cap, sizeof *parts);
        if (run->attempt_count) {
            memcpy(more, g->attempts, run->attempt_count * sizeof *more);
            memcpy(parts, g->parts, run->attempt_count * sizeof *parts);
        }
        g->attempts = more;
        g->parts = parts;
        g->attempt_cap = cap;
    }
    run->attempts = g->attempts;
    return &g->attempts[run->attempt_count++];
}

static struct report_attempt *attempt_of(struct gathering *g, const char *attempt)
{
    const size_t count = g->ret->attempt_count;
    for (size_t i = 0; i < count; i++) { /* most end in the order in which they began */
        const size_t at = (g->latest + i) % count;
        if (strcmp(g->attempts[at].attempt, attempt) == 0) {
            g->latest = at + 1 < count ? at + 1 : 0;
            return &g->attempts[at];
        }
    }
    return NULL;
}

/* ---- the points of a sweep ---- */

uint32_t report_point_find(struct gathering *g, const char *name)
{
    const size_t count = g->points ? g->ret->point_count : 0;
    for (size_t i = 0; name && i < count; i++) {
        const size_t at = (g->point_latest + i) % count;
        if (strcmp(g->points[at].name, name) == 0) {
            g->point_latest = at;
            return (uint32_t)at;
        }
    }
    return REPORT_NO_RANK;
}

static struct report_pair *pairs_of(struct gathering *g, const char *json, size_t *ret_count)
{
    struct diagnostics ignored = {0};
    struct report_pair *pairs = NULL;
    struct doc *doc;
    *ret_count = 0;
    if (json && doc_load_text("params", json, strlen(json), DOC_FORMAT_JSON, g->arena, &doc, &ignored, NULL) == 0 &&
        doc->root->type == DOC_OBJECT) {
        pairs = arena_array(g->arena, doc->root->count + 1, sizeof *pairs);
        for (size_t i = 0; i < doc->root->count; i++)
            pairs[(*ret_count)++] = (struct report_pair){doc->root->members[i].key, doc->root->members[i].value->text};
    }
    diagnostics_free(&ignored);
    return pairs;
}

/* All params of the job, with those of the point put in. */
static void take_params(struct gathering *g, struct report_point *p, const char *json)
{
    size_t own_count;
    const struct report_pair *own = pairs_of(g, json, &own_count);
    struct report_pair *all = arena_array(g->arena, g->param_count + own_count + 1, sizeof *all);
    size_t count = g->param_count;
    if (count)
        memcpy(all, g->params, count * sizeof *all);
    for (size_t i = 0; i < own_count; i++) {
        size_t at = 0;
        while (at < count && strcmp(all[at].name, own[i].name) != 0)
            at++;
        count += at == count;
        all[at] = own[i];
    }
    p->params = all;
    p->param_count = count;
}

static uint32_t take_point_of(struct gathering *g, const char *name, const char *params, const char *step)
{
    uint32_t found = report_point_find(g, name);
    if (found != REPORT_NO_RANK && step_is_launch(step))
        g->points[found].step = keep(g, step);
    if (!name || found != REPORT_NO_RANK)
        return found;
    if (g->ret->point_count == g->point_cap) {
        g->point_cap = g->point_cap ? 2 * g->point_cap : 64;
        struct report_point *more = arena_array(g->arena, g->point_cap, sizeof *more);
        if (g->ret->point_count)
            memcpy(more, g->points, g->ret->point_count * sizeof *more);
        g->points = more;
    }
    g->ret->points = g->points;
    g->point_latest = g->ret->point_count;
    struct report_point *p = &g->points[g->ret->point_count++];
    *p = (struct report_point){.name = keep(g, name), .state = "waiting", .step = keep(g, step)};
    take_params(g, p, params);
    return (uint32_t)g->point_latest;
}

/* Steps of points have the same name for all points: "point", "outputs-1". */
static const char *step_name(struct gathering *g, const char *step, const char *point)
{
    const char *colon = point ? strrchr(step, ':') : NULL;
    return colon ? arena_strndup(g->arena, step, (size_t)(colon - step)) : keep(g, step);
}

/* Among parts that began together, the one with the highest weight is the launch's state. */
static uint32_t weight_of(const struct report_attempt *a)
{
    return str_eq(a->outcome, "running")   ? 4
           : str_eq(a->outcome, "unknown") ? 3
           : a->failed                     ? 2
           : str_eq(a->outcome, "ok")      ? 0
                                           : 1;
}

/* The state of the latest launch is the point's. told: by point, the attempt with that state, from 1. */
static void take_state(struct gathering *g, size_t at, size_t *told)
{
    const struct report_attempt *a = &g->attempts[at];
    struct report_point *p = a->point == REPORT_NO_RANK || !a->launch ? NULL : &g->points[a->point];
    if (!p || (a->of_run && p->started_ms))
        return;
    const size_t before = told[a->point];
    if (before && g->parts[at].launch && g->parts[before - 1].launch == g->parts[at].launch &&
        weight_of(&g->attempts[before - 1]) >= weight_of(a)) {
        p->finished_ms = p->finished_ms && a->finished_ms > p->finished_ms ? a->finished_ms : p->finished_ms;
        return;
    }
    told[a->point] = at + 1;
    p->state = a->of_run || str_eq(a->outcome, "ok") ? "done" : a->outcome;
    p->place = a->node < g->ret->node_count ? g->hosts[a->node] : NULL;
    p->message = a->cause;
    p->started_ms = a->started_ms;
    p->finished_ms = a->finished_ms;
}

/* The number of workers on a node, if the step's inputs give one. */
static uint32_t procs_of(const char *inputs)
{
    static const char key[] = "\"nproc_per_node\":\"";
    const char *at = inputs ? strstr(inputs, key) : NULL;
    char number[12];
    uint32_t procs = 0;
    if (!at)
        return 0;
    at += strlen(key);
    snprintf(number, sizeof number, "%.*s", (int)strspn(at, "0123456789"), at);
    return parse_u32(number, &procs) && procs <= REPORT_RANKS_MAX ? procs : 0;
}

static void take_started(struct gathering *g, const struct event *e)
{
    const struct event_started *s = &e->started;
    if (s->bind_json)
        cli_roles_take(&g->roles, s->bind_json);
    for (uint32_t i = 0; i < s->attempt_count; i++) {
        const struct event_attempt *a = &s->attempts[i];
        struct report_attempt *to = add_attempt(g);
        if (!to)
            continue;
        *to = (struct report_attempt){.step = step_name(g, a->step, a->point),
                                      .attempt = keep(g, a->attempt),
                                      .node = a->node,
                                      .point = take_point_of(g, a->point, a->params, a->step),
                                      .generation = s->generation,
                                      .outcome = "running",
                                      .cause_rank = REPORT_NO_RANK,
                                      .started_ms = e->time_ms,
                                      .launch = (s->generation > 0 || a->point) && step_is_launch(a->step)};
        g->parts[to - g->attempts] = (struct report_part){
            .procs = g->roles.count == 0 && to->launch ? procs_of(a->inputs) : 0,
            .before = a->point ? i : a->node,
            .launch = e->seq,
        };
    }
}

static void take_finished(struct gathering *g, const struct event *e)
{
    const struct event_finished *f = &e->finished;
    struct report_attempt *to = attempt_of(g, f->attempt);
    char words[256];
    if (!to) { /* its end was found on the node: the journal never had its start */
        to = add_attempt(g);
        if (!to)
            return;
        *to = (struct report_attempt){.step = keep(g, f->step),
                                      .attempt = keep(g, f->attempt),
                                      .node = f->node,
                                      .generation = f->generation,
                                      .point = REPORT_NO_RANK,
                                      .started_ms = e->time_ms - f->duration_ms,
                                      .launch = step_is_launch(f->step)};
    }
    to->outcome = outcome_name(f->outcome);
    to->finished_ms = e->time_ms;
    to->log_bytes = f->log_bytes;
    to->dropped_bytes = f->dropped_bytes;
    to->dropped_by = keep(g, f->dropped_by);
    to->failed = plain_step_failed(f->outcome);
    to->cause_rank = REPORT_NO_RANK;
    if (!to->failed)
        return;
    run_cause_text(f->outcome, f->cause, f->cause_value, words, sizeof words);
    to->cause = keep(g, words);
    if (to->launch && f->outcome != OUTCOME_UNKNOWN && f->cause_rank != WIRE_NO_RANK)
        to->cause_rank = f->cause_rank;
}

/* ---- decisions and notes ---- */

static void tell(struct gathering *g, const struct event *e, const char *kind, uint32_t node, const char *text)
{
    struct report_run *run = g->ret;
    if (run->event_count == REPORT_EVENTS_MAX) {
        run->events_left_out++;
        return;
    }
    if (run->event_count == g->event_cap) {
        g->event_cap = g->event_cap ? 2 * g->event_cap : 32;
        struct report_event *more = arena_array(g->arena, g->event_cap, sizeof *more);
        if (run->event_count)
            memcpy(more, g->events, run->event_count * sizeof *more);
        g->events = more;
    }
    run->events = g->events;
    g->events[run->event_count++] = (struct report_event){
        e->time_ms, kind, node < run->node_count ? g->hosts[node] : NULL, keep(g, text ? text : "")};
}

static void tell_rule(struct gathering *g, const struct event *e)
{
    struct buf b = {0};
    plain_rule(&b, NULL, &e->rule);
    tell(g, e, "rule", e->rule.node, b.data);
    if (e->rule.line)
        tell(g, e, "line", e->rule.node, e->rule.line);
    buf_free(&b);
}

static void take_asked(struct gathering *g, const struct event_asked *a)
{
    g->spec_hash = keep(g, a->spec_hash);
    g->owner = keep(g, a->owner_name);
    g->version = keep(g, a->version);
    if (a->spec_text)
        g->ret->spec_text = strlen(a->spec_text) <= REPORT_SPEC_MAX
                                ? keep(g, a->spec_text)
                                : arena_printf(g->arena, "%.*s\n...", REPORT_SPEC_MAX, a->spec_text);
}

static bool take_event(void *arg, const struct event *e)
{
    struct gathering *g = arg;
    const uint32_t none = EVENT_NODE_NONE;
    if (!str_eq(e->run, g->run->id))
        return true;
    if (e->type == EVENT_RUN_OPENED)
        take_asked(g, &e->opened.asked);
    else if (e->type == EVENT_RUN_REOPENED)
        tell(g, e, "reopened", none, "its launch is kept; the changed outputs are fetched");
    else if (e->type == EVENT_NODE_BOUND && e->bound.node < g->ret->node_count)
        g->hosts[e->bound.node] = keep(g, e->bound.host);
    else if (e->type == EVENT_STARTED)
        take_started(g, e);
    else if (e->type == EVENT_FINISHED)
        take_finished(g, e);
    else if (e->type == EVENT_RESTART)
        tell(g, e, "restart", none, e->restart.reason);
    else if (e->type == EVENT_REISSUE)
        tell(g, e, "launched again", none, e->reissue.reason);
    else if (e->type == EVENT_CANCELLING)
        tell(g, e, "cancelling", none, e->cancelling.reason);
    else if (e->type == EVENT_NOTE)
        tell(g, e, "note", e->note.node, e->note.reason);
    else if (e->type == EVENT_RULE)
        tell_rule(g, e);
    return true;
}

/* ---- from the state ---- */

/* Steps that an earlier run did and this one kept. */
static void take_kept(struct gathering *g, const struct state *st)
{
    for (size_t i = 0; i < st->cell_count; i++) {
        const struct state_cell *cell = &st->cells[i];
        const struct state_run *by = cell->run ? state_run_find(st, cell->run) : NULL;
        if ((*cell->scope && g->run->variant && !str_eq(cell->scope, g->run->variant)) || !by || !cell->attempt ||
            by->opened_ms >= g->run->opened_ms || cell->outcome != OUTCOME_OK || cell->node >= g->ret->node_count)
            continue;
        struct report_attempt *to = add_attempt(g);
        if (to)
            *to = (struct report_attempt){.step = step_name(g, cell->step, cell->point),
                                          .point = take_point_of(g, cell->point, cell->params, cell->step),
                                          .attempt = keep(g, cell->attempt),
                                          .node = cell->node,
                                          .generation = cell->generation,
                                          .outcome = "kept",
                                          .cause_rank = REPORT_NO_RANK,
                                          .started_ms = cell->started_ms,
                                          .finished_ms = cell->finished_ms,
                                          .log_bytes = cell->log_bytes,
                                          .of_run = keep(g, by->id),
                                          .launch = step_is_launch(cell->step)};
    }
}

static void take_nodes(struct gathering *g, const struct state *st)
{
    struct report_node *nodes = arena_array(g->arena, g->ret->node_count + 1, sizeof *nodes);
    for (size_t i = 0; i < g->ret->node_count; i++) {
        const struct state_node *n = i < st->node_count ? &st->nodes[i] : NULL;
        if (!g->hosts[i])
            g->hosts[i] = keep(g, n && n->host ? n->host : "?");
        const bool same = n && str_eq(n->host, g->hosts[i]);
        nodes[i] = (struct report_node){g->hosts[i], same ? keep(g, n->facts_json) : NULL};
    }
    g->ret->nodes = nodes;
}

/* The latest values: for each metric that of the lowest rank. */
static struct report_metric *metrics_of(struct gathering *g, size_t *ret_count)
{
    const struct state_run *run = g->run;
    struct report_metric *list = arena_array(g->arena, run->metric_count + 1, sizeof *list);
    size_t count = 0;
    for (uint32_t i = 0; i < run->metric_count; i++) {
        const struct state_metric *m = &run->metrics[i];
        size_t at = 0;
        while (at < count && strcmp(list[at].name, m->name) != 0)
            at++;
        if (at == count)
            count++;
        else if (list[at].rank <= m->rank)
            continue;
        list[at] = (struct report_metric){keep(g, m->name), keep(g, m->value), m->rank, m->count};
    }
    *ret_count = count;
    return list;
}

static void take_point(struct gathering *g)
{
    struct report_point *p = arena_alloc(g->arena, sizeof *p);
    *p = (struct report_point){.name = "",
                               .state = g->ret->status,
                               .message = g->ret->message,
                               .started_ms = g->run->opened_ms,
                               .finished_ms = g->run->closed_ms};
    p->params = g->params;
    p->param_count = g->param_count;
    p->metrics = metrics_of(g, &p->metric_count);
    g->ret->points = p;
    g->ret->point_count = 1;
}

static void take_best(struct gathering *g)
{
    const struct spec_overrides o = run_overrides(g->run, g->arena);
    const struct spec_sweep *sweep =
        g->points && g->ret->spec_text ? spec_sweep_of(g->ret->spec_text, &o, g->arena) : NULL;
    g->ret->best_metric = sweep ? sweep->best_metric : NULL;
    g->ret->best_max = sweep && sweep->best_max;
}

/* ---- provenance ---- */

/* A page is shown to others: values for `env` are left out. */
static const char *command_of(struct gathering *g)
{
    struct spec_overrides o = run_overrides(g->run, g->arena);
    const char **sets = arena_array(g->arena, o.set_count + 1, sizeof *sets);
    for (size_t i = 0; i < o.set_count; i++) {
        const char *equals = strchr(o.sets[i], '=');
        const int len = equals ? (int)(equals - o.sets[i]) : 0;
        const char *path = arena_strndup(g->arena, o.sets[i], (size_t)len);
        const bool env = strcmp(path, "env") == 0 || str_starts(path, "env.") || strstr(path, ".env.") ||
                         str_ends(path, ".env") || strstr(path, "secrets");
        sets[i] = env ? arena_printf(g->arena, "%s=(hidden)", path) : o.sets[i];
    }
    o.sets = sets;
    return g->run->spec_path ? run_command_line(NULL, g->run->spec_path, &o, g->arena) : NULL;
}

static void add_pair(struct gathering *g, const char *name, const char *value)
{
    if (value && *value)
        g->provenance[g->provenance_count++] = (struct report_pair){name, value};
}

static const char *cost_of(struct gathering *g, const struct state *st)
{
    uint64_t *costs = arena_array(g->arena, st->run_count + 1, sizeof *costs);
    const char *text = NULL;
    struct buf b = {0};
    if (cli_run_costs(g->c, journal_job(g->journal), st, costs))
        for (size_t i = 0; i < st->run_count; i++)
            if (&st->runs[i] == g->run) {
                renting_put_usd(&b, (costs[i] + 9999) / 10000 * 10000);
                text = keep(g, b.data);
            }
    buf_free(&b);
    return text;
}

static void take_provenance(struct gathering *g, const struct state *st)
{
    g->provenance = arena_array(g->arena, REPORT_PROVENANCE_MAX, sizeof *g->provenance);
    add_pair(g, "command", g->ret->command);
    add_pair(g, "spec", g->run->spec_path);
    add_pair(g, "origin", report_without_login(g->arena, keep(g, journal_origin(g->journal))));
    add_pair(g, "spec digest", g->spec_hash);
    add_pair(g, "plan digest", g->run->plan_hash);
    add_pair(g, "variant", g->run->variant);
    add_pair(g, "started by", g->owner);
    add_pair(g, "rhrun", g->version);
    add_pair(g, "cost of its machines", cost_of(g, st));
    report_gather_lock(g);
    g->ret->provenance = g->provenance;
    g->ret->provenance_count = g->provenance_count;
}

int report_gather_run(struct cli *c, struct journal *j, const struct state_run *run, struct gathering *g,
                      struct report_run *ret, struct error *err)
{
    const struct state *st = journal_state(j);
    *g = (struct gathering){.c = c, .arena = c->arena, .journal = j, .run = run, .ret = ret};
    *ret = (struct report_run){.id = keep(g, run->id),
                               .job = keep(g, journal_job_name(j)),
                               .status = cli_run_word(j, run),
                               .message = keep(g, run->message),
                               .open = run->status == RUN_OPEN,
                               .exit_status = run->exit_status,
                               .opened_ms = run->opened_ms,
                               .closed_ms = run->closed_ms,
                               .restarts = run->restarts,
                               .node_count = run->node_count};
    g->hosts = arena_array(g->arena, ret->node_count + 1, sizeof *g->hosts);
    g->params = pairs_of(g, run->params_json, &g->param_count);
    if (journal_each(j, 0, take_event, g, err) < 0)
        return -1;
    for (size_t i = 0; i < ret->attempt_count; i++)
        if (!ret->open && !g->attempts[i].finished_ms)
            g->attempts[i].outcome = "no end known";
    take_kept(g, st);
    take_nodes(g, st);
    size_t *told = arena_array(g->arena, ret->point_count + 1, sizeof *told);
    for (size_t i = 0; g->points && i < ret->attempt_count; i++)
        take_state(g, i, told);
    if (!g->points)
        take_point(g);
    take_best(g);
    ret->command = command_of(g);
    take_provenance(g, st);
    return 0;
}
