/* Sends an attempt whose STARTED is durable: a RUN with all values that bind it, or the start of a transfer or of a
 * watch on lines. */
#include "trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct step_bind run_bind(struct run *r, const struct launch *l, uint32_t node)
{
    struct step_bind bind = {0};
    bind.spec = r->plan->spec;
    bind.node = node;
    bind.run_id = r->id;
    bind.job_id = r->hands->session->journal ? journal_job(r->hands->session->journal) : NULL;
    bind.owner = r->hands->session->journal ? journal_owner(r->hands->session->journal) : NULL;
    bind.secrets = r->plan->spec->secrets;
    bind.secret_count = r->plan->spec->secret_count;
    bind.work = r->work;
    bind.nodes = r->hands->nodes;
    if (!l)
        return bind;
    bind.generation = l->generation;
    bind.nonce = l->nonce;
    bind.restart_count = run_restarts(r);
    bind.master_address = l->master_addr ? l->master_addr : "127.0.0.1";
    bind.master_port = l->master_port;
    bind.role_ports = l->role_ports;
    return bind;
}

/* Keeps the part of RUN messages about a node up to date: making it again for each of N messages would cost N * N. */
void run_learn_node(struct run *r, uint32_t i)
{
    const struct wire_facts *facts = r->lanes[i].facts;
    const struct spec_host *host = roster_host(r->plan->roster, i);
    const char *address = host->address;
    if (!address)
        address = facts && facts->address && facts->address[0] ? facts->address
                  : r->plan->spec->placement == PLACEMENT_HERE ? "127.0.0.1"
                                                               : host->host;
    if (!r->hands->nodes[i].address || !str_eq(r->hands->nodes[i].address, address)) {
        address = arena_strdup(r->arena, address);
        run_forget_addrs(r);
    } else {
        address = r->hands->nodes[i].address;
    }
    r->hands->nodes[i] = (struct step_node){facts, r->lanes[i].name, address};
}

static void forget_role_addrs(struct launch *l)
{
    for (size_t i = 0; l->role_addrs && i < l->run->plan->spec->role_count; i++)
        free((char *)(uintptr_t)l->role_addrs[i]);
    free(l->role_addrs);
    l->role_addrs = NULL;
}

void run_forget_addrs(struct run *r)
{
    free(r->hands->node_addrs);
    free(r->hands->hosts);
    r->hands->node_addrs = r->hands->hosts = NULL;
    for (size_t i = 0; i < r->launch_count; i++)
        forget_role_addrs(&r->launches[i]);
}

static const char *const *role_addrs(struct launch *l)
{
    struct run *r = l->run;
    struct arena *arena = arena_create();
    if (!l->role_addrs)
        l->role_addrs = xcalloc(r->plan->spec->role_count + 1, sizeof *l->role_addrs);
    for (uint32_t i = 0; i < r->plan->spec->role_count; i++)
        if (!l->role_addrs[i])
            l->role_addrs[i] = xstrdup(step_role_addrs(r->plan, i, r->hands->nodes, arena));
    arena_destroy(arena);
    return l->role_addrs;
}

/* Fills in the texts with the addresses of all nodes. */
static void bind_addrs(struct launch *l, struct step_bind *bind)
{
    struct run *r = l->run;
    if (!r->hands->node_addrs) {
        struct arena *arena = arena_create();
        r->hands->node_addrs = xstrdup(step_node_addrs(r->hands->nodes, r->plan->node_count, arena));
        r->hands->hosts = xstrdup(step_hosts(r->plan, r->hands->nodes, arena));
        arena_destroy(arena);
    }
    bind->node_addrs = r->hands->node_addrs;
    bind->hosts = r->hands->hosts;
    bind->role_addrs = role_addrs(l);
}

/* The id of the run that made the launch. A node that joins a launch that was found on the nodes uses that run's id, as
 * the other parts do. */
static const char *launch_run(const struct launch *l, struct arena *arena)
{
    const char *dash = l->adopted ? strrchr(l->adopted, '-') : NULL;
    return dash ? arena_strndup(arena, l->adopted, (size_t)(dash - l->adopted)) : l->run->id;
}

/* The run that launched the point: an earlier run, if only the point's files are missing. */
static const char *point_run(const struct run *r, const struct plan_step *step, uint32_t node)
{
    const struct plan_step *launch = &r->plan->steps[r->plan->points[step->point].launch];
    const struct state_cell *c = state_cell_find(r->state, launch->scope, launch->name, node);
    return c ? c->run : r->id;
}

/* The GPUs of a place, "2,3"; NULL: places are not by GPU. */
static const char *devices_of(const struct spec *spec, uint32_t node, uint32_t place, struct arena *arena)
{
    const uint32_t each = spec->sweep->per_node;
    const char *at = spec_devices(spec, node)->list;
    struct buf b = {0};
    if (spec->sweep->place != SWEEP_GPUS)
        return NULL;
    for (uint32_t i = 0; i < (place + 1) * each; i++) {
        const size_t len = at ? strcspn(at, ",") : 0;
        if (i >= place * each && at)
            buf_printf(&b, "%s%.*s", b.len ? "," : "", (int)len, at);
        else if (i >= place * each)
            buf_printf(&b, "%s%" PRIu32, b.len ? "," : "", i);
        at = at && at[len] ? at + len + 1 : at;
    }
    const char *text = arena_strdup(arena, b.data ? b.data : "");
    buf_free(&b);
    return text;
}

/* A point knows only its own nodes, numbered from 0. */
int run_bind_point(struct run *r, const struct plan_step *step, uint32_t node, struct step_bind *bind,
                   struct arena *arena, struct plan **ret, struct error *err)
{
    const struct plan_point *p = &r->plan->points[step->point];
    const struct plan_step *launch = &r->plan->steps[p->launch];
    const struct point_bind point = point_bind(r, step);
    const struct wire_facts *f = r->lanes[node].facts;
    struct plan_facts *facts = arena_array(arena, point.node_count, sizeof *facts);
    struct step_node *nodes = arena_array(arena, point.node_count, sizeof *nodes);
    const char *name = point_launch_name(r, launch);
    for (uint32_t i = 0; i < point.node_count; i++) {
        const struct wire_facts *of = r->lanes[point.nodes[i]].facts;
        facts[i] = (struct plan_facts){of != NULL, of ? of->cpus : 0, of ? of->gpu_count : 0};
        nodes[i] = r->hands->nodes[point.nodes[i]];
    }
    if (plan_at_nodes(p->own, point.nodes, facts, arena, ret, err) < 0)
        return -1;
    bind->spec = (*ret)->spec;
    bind->node = point_bind_part(r, step, node);
    bind->nodes = nodes;
    bind->point = p->point;
    bind->launch =
        name ? arena_strdup(arena, name) : arena_printf(arena, "%s-%s", point_run(r, step, node), p->point->id);
    bind->nonce = name ? bind->launch : NULL;
    bind->generation = point.tries + 1;
    bind->restart_count = point.tries;
    bind->master_address = point.node_count > 1 && nodes[0].address ? nodes[0].address : "127.0.0.1";
    bind->master_port = point.port;
    if (f && f->base_dir && f->base_dir[0] == '/')
        bind->point_dir = arena_printf(arena, "%s/points/%s/%s", f->base_dir, r->plan->spec->job_id, p->point->id);
    bind->devices = devices_of(r->plan->spec, node, point.place, arena);
    return 0;
}

static void send_task(struct run *r, const struct plan_step *step, uint32_t node)
{
    struct run_task *t = run_task(r, step, node);
    struct lane *lane = &r->lanes[node];
    struct launch *l = launch_of(r, step);
    if (!lane_is_ready(lane))
        return; /* reconcile.c sends it when the node has listed its records */
    struct arena *arena = arena_create();
    struct error err = ERROR_INIT;
    struct step_bind bind = run_bind(r, l, node);
    struct plan *plan = r->plan;
    if (l && step->kind->phase == PHASE_LAUNCH) {
        bind_addrs(l, &bind);
        bind.run_id = launch_run(l, arena);
    }
    struct wire_run run = {0};
    const struct wire_notice *notice = roster_host(r->plan->roster, node)->notice;
    bool is_run = step->kind->build;
    if (step->watch) {
        ready_begin(r, step, node);
        arena_destroy(arena);
        return;
    }
    if (step->kind->sync)
        trace_untraced(r, "files that are brought");
    int rc = step->kind->phase == PHASE_POINT ? run_bind_point(r, step, node, &bind, arena, &plan, &err) : 0;
    if (rc == 0)
        rc = step->kind->sync ? transfer_start(r, step, node, &bind, &err)
                              : step_build(plan, step, &bind, arena, &run, &err);
    if (rc < 0) {
        trace_untraced(r, "a RUN that cannot be made");
        task_finish_as(r, step, node, OUTCOME_NOT_STARTED, err.text);
        error_prefix(&err, "step \"%s\"", step->name);
        run_fail(r, RUN_FAILED, &err);
    } else if (t->state == TASK_RUNNING) {
        if (!t->log)
            t->log = log_open(r, step, node, t->attempt);
        task_mark_sent(lane, t);
    }
    if (rc == 0 && is_run) {
        run.attempt = t->attempt;
        run.slot = arena_strdup(arena, step->slot);
        run.key = arena_strdup(arena, step->key);
        if (l && step->kind->phase == PHASE_LAUNCH)
            run.launch =
                l->adopted ? arena_strdup(arena, l->adopted) : arena_printf(arena, "%s-%u", r->id, l->generation);
        if (point_launch_name(r, step))
            run.launch = arena_strdup(arena, point_launch_name(r, step));
        if (notice && step->kind->ranked)
            run.notice = *notice;
        if (step->kind->cached)
            run.flags |= WIRE_RUN_PATCHES;
        if (step->kind->phase == PHASE_LAUNCH && !step->kind->asks)
            installed_ask(lane, false);
        node_run(lane_hands(lane)->node, &run);
    }
    arena_destroy(arena);
}

void task_send(struct run *r, const struct plan_step *step, uint32_t node)
{
    trace(r, "> send %" PRIu32 " %" PRIu32 " %s", step->id, node, run_task(r, step, node)->attempt);
    send_task(r, step, node);
    trace(r, "=");
}
