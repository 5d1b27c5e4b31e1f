/* The hands of a run: its nodes as the spec names them. */
#include "trace.h"

#include "rhrun/container.h"

#include <stdlib.h>
#include <string.h>

static void on_journal_failure(void *arg, const struct error *err)
{
    struct run *r = arg;
    trace_untraced(r, "the journal cannot be written");
    r->result.error = *err;
    r->result.exit_status = 3;
    r->result.status = RUN_OPEN;
    /* attempts on the nodes go on; nothing new is started, and the next rhrun continues the run */
    run_set_ending(r, ENDING_LET_GO);
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
    case SPEC_TRANSPORT_COMMAND:
        return TRANSPORT_COMMAND;
    case SPEC_TRANSPORT_LOCAL:
        return TRANSPORT_LOCAL;
    case SPEC_TRANSPORT_SIM:
        return TRANSPORT_SIM;
    case SPEC_TRANSPORT_RENTED: /* run_check_machines refuses it */
        break;
    }
    return TRANSPORT_AUTO;
}

int run_check_machines(const struct roster *roster, struct error *err)
{
    for (uint32_t i = 0; i < roster_count(roster); i++)
        if (roster_host(roster, i)->transport == SPEC_TRANSPORT_RENTED)
            return error_set(err, ERROR_INTERNAL, "node \"%s\" has no machine: nothing is rented for it",
                             roster_name(roster, i));
    return 0;
}

void run_reach(const struct spec_host *h, uint32_t node, struct transport_host *ret)
{
    *ret = (struct transport_host){.name = h->host && h->transport != SPEC_TRANSPORT_LOCAL ? h->host : h->name,
                                   .user = h->user,
                                   .port = h->port,
                                   .identity_file = h->identity_file,
                                   .proxy_jump = h->proxy_jump,
                                   .known_hosts = h->known_hosts,
                                   .ssh_config = h->ssh_config,
                                   .exec = h->exec,
                                   .kind = kind_of(h->transport),
                                   .local_index = node,
                                   .sim_index = node};
}

/* The command text that leads from the host's shell into the agent's container; NULL: there is no container. */
static const char *wrap_of(const struct run *r, const char *job, uint32_t node)
{
    const struct container_place place = {roster_host(r->plan->roster, node), job, node};
    struct buf text = {0};
    if (!place.host->container)
        return NULL;
    container_wrap(&place, r->options.mode == RUN_EXECUTE, &text);
    const char *ret = arena_strdup(r->arena, text.data);
    buf_free(&text);
    return ret;
}

static void create_lane(struct run *r, uint32_t i)
{
    struct lane *lane = &r->lanes[i];
    const struct spec *spec = r->plan->spec;
    const struct spec_host *h = roster_host(r->plan->roster, i);
    if (h->transport == SPEC_TRANSPORT_LOCAL && i > 0 && !lane_hands(lane)->base_dir) {
        const char *home = getenv("HOME");
        lane_hands(lane)->base_dir = xasprintf("%s/.rhrun/local/%u", home ? home : "", i);
    }
    struct node_options o = {0};
    o.index = i;
    run_reach(h, i, &o.host);
    if (r->hands->session->simulated)
        o.host.kind = TRANSPORT_SIM;
    bool look = r->options.mode == RUN_LOOK || r->options.mode == RUN_VERIFY;
    char job[17];
    journal_job_id(spec_id_name(spec), spec_id_origin(spec), job);
    o.host.wrap = wrap_of(r, job, i);
    o.hello = (struct wire_hello){
        .mode = look                   ? WIRE_READ
                : r->options.take_over ? WIRE_TAKE_OVER
                                       : WIRE_OWN,
        .job = arena_strdup(r->arena, job),
        .job_name = arena_strdup(r->arena, spec_id_name(spec)),
        .origin = arena_strdup(r->arena, spec_id_origin(spec)),
        /* a run that only reads owns nothing */
        .owner = arena_strdup(r->arena, r->hands->session->journal ? journal_owner(r->hands->session->journal)
                                                                   : "00000000000000000000000000000000"),
        .owner_name = arena_strdup(r->arena, r->options.owner_name),
        .variant = arena_strdup(r->arena, r->work),
        .work_dir = arena_strdup(r->arena, h->work_dir ? h->work_dir : ""),
        .base_dir = lane_hands(lane)->base_dir ? lane_hands(lane)->base_dir : arena_strdup(r->arena, ""),
        .test_boot_id = arena_strdup(r->arena, r->options.test_boot_id ? r->options.test_boot_id : "")};
    o.liveness_ms = r->options.liveness_ms;
    o.reconnect_ms = r->options.reconnect_ms ? r->options.reconnect_ms : RECONNECT_MS;
    if (lane->away) /* failure rules decide about a node that stays away */
        o.reconnect_ms = UINT64_MAX;
    if (h->booting && r->options.mode == RUN_EXECUTE)
        o.first_ms = BOOT_MS;
    o.hello_ms = r->options.hello_ms;
    o.backoff_ms = r->options.backoff_ms;
    o.label = h->name;
    o.checks.items = arena_array(r->arena, r->plan->step_count + 1, sizeof(char *));
    for (size_t s = 0; s < r->plan->step_count; s++)
        if (r->plan->steps[s].creates && r->plan->steps[s].on[i])
            o.checks.items[o.checks.count++] = arena_strdup(r->arena, r->plan->steps[s].creates);
    o.check_trees = work_trees(r, i);
    lane_hands(lane)->node = node_create(r->hands->session->loop, r->hands->session->pool, &o, &lane_callbacks, r);
}

struct session *session_create(struct loop *loop, struct journal *journal, bool allow_prompt,
                               const struct transport_sim_script *sim)
{
    struct session *s = xcalloc(1, sizeof *s);
    const struct transport_pool_options o = {.allow_prompt = allow_prompt};
    *s = (struct session){loop, journal, NULL, transport_pool_create(loop, &o), sim != NULL};
    if (sim)
        transport_pool_set_sim(s->pool, sim);
    if (!journal)
        s->own_state = state_create();
    return s;
}

void session_destroy(struct session *s)
{
    if (!s)
        return;
    transport_pool_destroy(s->pool);
    state_destroy(s->own_state);
    free(s);
}

struct run *run_create(struct session *session, const struct run_options *options, void (*finished)(void *arg),
                       void *arg)
{
    struct hands *h = xcalloc(1, sizeof *h);
    struct run_options o = *options;
    h->session = session;
    h->lanes = xcalloc(options->plan->node_count, sizeof *h->lanes);
    o.recorded = session->journal != NULL;
    h->trace_fd = trace_open(h, &o);
    return core_create(h, &o, o.recorded ? journal_state(session->journal) : session->own_state, finished, arg);
}

int run_start(struct run *r, struct error *err)
{
    struct hands *h = r->hands;
    if (run_check_machines(r->plan->roster, err) < 0)
        return -1;
    trace(r, "< open");
    if (run_open(r, err) < 0)
        return -1;
    if (r->options.recorded && r->options.mode != RUN_LOOK && r->options.mode != RUN_VERIFY)
        journal_on_failure(h->session->journal, on_journal_failure, r);
    ports_create(r);
    for (uint32_t i = 0; i < r->plan->node_count; i++)
        create_lane(r, i);
    h->nodes = arena_array(r->arena, r->plan->node_count, sizeof *h->nodes);
    for (uint32_t i = 0; i < r->plan->node_count; i++)
        run_learn_node(r, i);
    trace(r, "< begin");
    core_begin(r);
    return 0;
}

void run_ask_stop(struct run *r, int signum)
{
    trace(r, "< interrupt %d", signum);
    run_interrupt(r, signum);
}

void run_ask_detach(struct run *r)
{
    trace(r, "< detach");
    run_detach(r);
}

static bool has_node(const struct run *r, uint32_t node)
{
    return node < r->plan->node_count && r->hands->lanes[node].node;
}

void run_machine_gone(struct run *r, uint32_t node)
{
    const struct input in = {.kind = INPUT_VANISHED, .node = node};
    if (!has_node(r, node))
        return;
    trace_input(r, &in);
    core_take(r, &in);
}

void run_machine_new(struct run *r, uint32_t node)
{
    const struct input in = {.kind = INPUT_MACHINE, .node = node};
    if (!has_node(r, node) || !r->lanes[node].replacing)
        return;
    if (r->ending != ENDING_NOT) { /* the run does nothing on the node any more */
        run_machine_none(r, node);
        return;
    }
    node_destroy(r->hands->lanes[node].node);
    create_lane(r, node);
    trace_input(r, &in);
    core_take(r, &in);
}

void run_machine_none(struct run *r, uint32_t node)
{
    if (has_node(r, node))
        node_give_up(r->hands->lanes[node].node);
}

void run_destroy(struct run *r)
{
    if (!r)
        return;
    struct hands *h = r->hands;
    trace_close(r);
    while (h->appends)
        run_append_free(h->appends);
    fetches_free(r);
    for (uint32_t i = 0; i < r->plan->node_count; i++) {
        transfer_stop(&r->lanes[i]);
        rank0_drop(&r->lanes[i]);
        installed_stop(&r->lanes[i]);
        node_destroy(h->lanes[i].node);
        free(h->lanes[i].base_dir);
    }
    loop_timer_destroy(h->held_turn);
    ports_free(r);
    transfer_caches_free(r);
    for (size_t i = 0; i < r->launch_count; i++)
        preflight_forget(&r->launches[i]);
    run_forget_known(r);
    run_forget_addrs(r);
    core_destroy(r);
    free(h->lanes);
    free(h);
}
