/* A run object: its nodes as the spec names them, its parts made and freed. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static void on_journal_failure(void *arg, const struct error *err)
{
    struct run *r = arg;
    r->result.error = *err;
    r->result.exit_status = 3;
    r->result.status = RUN_OPEN;
    run_set_ending(r, ENDING_LET_GO); /* what runs goes on; nothing new is started, and the next rhrun takes it up */
    alarm_set(r->finisher, 0);
}

static enum transport_kind kind_of(enum spec_transport t)
{
    switch (t) {
    case SPEC_TRANSPORT_AUTO:
        return TRANSPORT_AUTO;
    case SPEC_TRANSPORT_SSH:
        return TRANSPORT_SSH;
    case SPEC_TRANSPORT_OPENSSH:
        return TRANSPORT_OPENSSH;
    case SPEC_TRANSPORT_LOCAL:
        return TRANSPORT_LOCAL;
    case SPEC_TRANSPORT_SIM:
        return TRANSPORT_SIM;
    }
    return TRANSPORT_AUTO;
}

static void on_away(void *arg)
{
    struct lane *lane = arg;
    rules_node_lost(run_launch(lane->run), lane);
}

static void create_lane(struct run *r, uint32_t i)
{
    struct lane *lane = &r->lanes[i];
    const struct spec *spec = r->plan->spec;
    const struct spec_host *h = roster_host(r->plan->roster, i);
    lane->arena = arena_create();
    lane->creates = arena_array(r->arena, r->plan->step_count + 1, 1);
    lane->trees = arena_array(r->arena, r->plan->step_count + 1, 1);
    if (h->transport == SPEC_TRANSPORT_LOCAL && i > 0) {
        const char *home = getenv("HOME");
        lane->base_dir = xasprintf("%s/.rhrun/local/%u", home ? home : "", i);
    }
    struct node_options o = {0};
    o.index = i;
    o.host = (struct transport_host){.name = h->name,
                                     .user = h->user,
                                     .port = h->port,
                                     .identity_file = h->identity_file,
                                     .proxy_jump = h->proxy_jump,
                                     .known_hosts = h->known_hosts,
                                     .ssh_config = h->ssh_config,
                                     .kind = r->options.sim ? TRANSPORT_SIM : kind_of(h->transport),
                                     .local_index = i,
                                     .sim_index = i};
    o.host.name = h->host && h->transport != SPEC_TRANSPORT_LOCAL ? h->host : h->name;
    bool look = r->options.mode == RUN_LOOK || r->options.mode == RUN_VERIFY;
    char job[17];
    journal_job_id(spec->name, spec->origin, job);
    o.hello = (struct wire_hello){
        .mode = look                   ? WIRE_READ
                : r->options.take_over ? WIRE_TAKE_OVER
                                       : WIRE_OWN,
        .job = arena_strdup(r->arena, job),
        .job_name = arena_strdup(r->arena, spec->name),
        .origin = arena_strdup(r->arena, spec->origin),
        .owner = arena_strdup(r->arena, r->journal ? journal_owner(r->journal)
                                                   : "00000000000000000000000000000000") /* only to read */,
        .owner_name = arena_strdup(r->arena, r->options.owner_name),
        .variant = arena_strdup(r->arena, r->work),
        .work_dir = arena_strdup(r->arena, h->work_dir ? h->work_dir : ""),
        .base_dir = lane->base_dir ? lane->base_dir : arena_strdup(r->arena, ""),
        .test_boot_id = arena_strdup(r->arena, r->options.test_boot_id ? r->options.test_boot_id : "")};
    o.liveness_ms = r->options.liveness_ms;
    o.reconnect_ms = r->options.reconnect_ms ? r->options.reconnect_ms : RECONNECT_MS;
    if (rules_await_nodes(run_launch(r))) { /* they say what becomes of it */
        lane->away = alarm_create(r, on_away, lane);
        o.reconnect_ms = UINT64_MAX;
    }
    o.hello_ms = r->options.hello_ms;
    o.backoff_ms = r->options.backoff_ms;
    o.label = h->name;
    o.checks.items = arena_array(r->arena, r->plan->step_count + 1, sizeof(char *));
    for (size_t s = 0; s < r->plan->step_count; s++)
        if (r->plan->steps[s].creates && r->plan->steps[s].on[i])
            o.checks.items[o.checks.count++] = arena_strdup(r->arena, r->plan->steps[s].creates);
    o.check_trees = work_trees(r, i);
    lane->node = node_create(r->loop, r->pool, &o, &lane_callbacks, r);
}

/* One launch of all that is behind set-up. */
static void create_launches(struct run *r)
{
    r->launch_count = 1;
    r->launches = arena_array(r->arena, r->launch_count, sizeof *r->launches);
    struct launch *l = r->launches;
    l->run = r;
    l->end_step = r->plan->step_count;
    while (l->first_step < l->end_step && r->plan->steps[l->first_step].kind->phase == PHASE_SETUP)
        l->first_step++;
    l->role_ports = arena_array(r->arena, r->plan->spec->role_count + 1, sizeof *l->role_ports);
    l->late = alarm_create(r, elastic_on_late, l);
    l->pause = alarm_create(r, launch_on_pause, l);
    l->rules = rules_create(l);
}

static void destroy_launches(struct run *r)
{
    for (struct launch *l = r->launches; l < r->launches + r->launch_count; l++) {
        preflight_free(l);
        alarm_destroy(l->late);
        alarm_destroy(l->pause);
        rules_destroy(l->rules);
    }
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
    r->done = xcalloc(r->plan->step_count + 1, sizeof *r->done);
    r->lanes = xcalloc(r->plan->node_count, sizeof *r->lanes);
    r->touched = xcalloc(r->plan->node_count, sizeof *r->touched);
    for (uint32_t i = 0; i < r->plan->node_count; i++) {
        r->lanes[i].run = r;
        r->lanes[i].index = i;
        r->lanes[i].name = roster_name(r->plan->roster, i);
    }
    r->unheard = r->plan->node_count;
    r->noted = arena_array(r->arena, r->plan->step_count + 1, sizeof *r->noted);
    r->voids = arena_array(r->arena, r->plan->step_count + 1, sizeof *r->voids);
    r->stop_deadline = alarm_create(r, run_on_stop_deadline, r);
    r->finisher = alarm_create(r, run_on_finisher, r);
    r->turn = alarm_create(r, run_turn, r);
    create_launches(r);
    if (!r->state)
        r->state = r->own_state = state_create();
    return r;
}

int run_start(struct run *r, struct error *err)
{
    struct transport_pool_options o = {.allow_prompt = r->options.allow_prompt};
    if (run_open(r, err) < 0)
        return -1;
    if (r->journal && r->options.mode != RUN_LOOK && r->options.mode != RUN_VERIFY)
        journal_on_failure(r->journal, on_journal_failure, r);
    r->pool = transport_pool_create(r->loop, &o);
    if (r->options.sim)
        transport_pool_set_sim(r->pool, r->options.sim);
    for (uint32_t i = 0; i < r->plan->node_count; i++)
        create_lane(r, i);
    r->nodes = arena_array(r->arena, r->plan->node_count, sizeof *r->nodes);
    for (uint32_t i = 0; i < r->plan->node_count; i++)
        run_learn_node(r, i);
    for (uint32_t i = 0; i < r->plan->node_count; i++)
        if (reopen_passes_by(r, i))
            lane_pass_by(&r->lanes[i]);
        else
            run_effect(r, &(struct effect){.kind = EFFECT_CONNECT, .node = i});
    if (r->fetch_only) /* nothing may be left to wait for */
        run_due(r, DUE_BARRIER);
    if (r->options.mode == RUN_CANCEL)
        run_interrupt(r, 0);
    return 0;
}

void run_destroy(struct run *r)
{
    if (!r)
        return;
    while (r->appends)
        run_append_free(r->appends);
    for (size_t i = 0; i < r->plan->step_count * r->plan->node_count; i++) {
        alarm_destroy(r->tasks[i].retry);
        log_close(r->tasks[i].log);
        ready_forget(r, &r->plan->steps[i / r->plan->node_count], (uint32_t)(i % r->plan->node_count));
    }
    outputs_free(r);
    for (uint32_t i = 0; i < r->plan->node_count; i++) {
        transfer_stop(&r->lanes[i]);
        alarm_destroy(r->lanes[i].away);
        elastic_free(&r->lanes[i]);
        node_destroy(r->lanes[i].node);
        arena_destroy(r->lanes[i].arena);
        free(r->lanes[i].records);
        free(r->lanes[i].patches);
        free(r->lanes[i].orphans);
        free(r->lanes[i].base_dir);
    }
    transfer_caches_free(r);
    transport_pool_destroy(r->pool);
    free(r->holders);
    alarm_destroy(r->stop_deadline);
    alarm_destroy(r->finisher);
    alarm_destroy(r->turn);
    destroy_launches(r);
    state_destroy(r->own_state);
    free(r->tasks);
    free(r->done);
    free(r->lanes);
    free(r->touched);
    free(r->machines);
    run_forget_known(r);
    run_forget_addrs(r);
    arena_destroy(r->arena);
    free(r);
}
