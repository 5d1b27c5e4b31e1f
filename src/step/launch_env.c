/* The environment of workers: torchrun's contract and rhrun's own variables. */
#include "launch.h"

#include <string.h>

enum expr_status launch_set_call(const struct launch *l, const struct step_worker *w, struct step_env *env,
                                 struct error *err)
{
    const struct step_call call = {step_context(l->plan, l->bind, w), l->entry, false, l->arena};
    const char *json;
    if (l->entry->kind != ENTRY_FUNCTION)
        return EXPR_OK;
    bool from_launcher = !w && l->plan->spec->distributed.present;
    const char *rank = from_launcher ? "\"RANK\"" : arena_printf(l->arena, "%u", w ? w->number : 0);
    enum expr_status status = step_call_json(&call, l->bind, rank, &json, err);
    if (status == EXPR_OK)
        step_env_set(env, "RHRUN_CALL", json);
    return status;
}

void launch_set_number(struct step_env *env, const char *name, uint32_t n)
{
    char text[16];
    snprintf(text, sizeof text, "%u", n);
    step_env_set(env, name, text);
}

const char *step_node_addrs(const struct step_node *nodes, uint32_t count, struct arena *arena)
{
    struct buf list = {0};
    for (uint32_t i = 0; i < count && nodes && list.len <= STEP_ADDRS_MAX; i++)
        buf_printf(&list, "%s%s", i ? "," : "", nodes[i].address ? nodes[i].address : "");
    const char *ret = arena_strdup(arena, list.len && list.len <= STEP_ADDRS_MAX ? list.data : "");
    buf_free(&list);
    return ret;
}

static void put_host(struct buf *text, const char *address, uint32_t slots)
{
    buf_puts(text, address);
    if (slots)
        buf_printf(text, " slots=%u", slots);
    buf_putc(text, '\n');
}

const char *step_hosts(const struct plan *plan, const struct step_node *nodes, struct arena *arena)
{
    const struct spec *spec = plan->spec;
    bool here = spec->placement == PLACEMENT_HERE;
    struct buf text = {0};
    if (here && nodes)
        put_host(&text, "127.0.0.1", plan->world_size);
    for (uint32_t i = 0; i < plan->node_count && nodes && !here && text.len <= STEP_HOSTS_MAX; i++)
        if (plan->nproc[i] || spec->role_count == 0)
            put_host(&text, nodes[i].address ? nodes[i].address : roster_host(plan->roster, i)->host, plan->nproc[i]);
    const char *ret = arena_strdup(arena, text.len && text.len <= STEP_HOSTS_MAX ? text.data : "");
    buf_free(&text);
    return ret;
}

void launch_set_addresses(const struct launch *l, struct step_env *env)
{
    const char *hosts = l->bind->hosts ? l->bind->hosts : step_hosts(l->plan, l->bind->nodes, l->arena);
    l->run->hosts = (char *)(uintptr_t)hosts;
    const char *list = l->bind->node_addrs;
    if (!list)
        list = step_node_addrs(l->bind->nodes, l->plan->node_count, l->arena);
    if (*list)
        step_env_set(env, "RHRUN_NODE_ADDRS", list);
    if (*list && l->plan->spec->role_count == 0)
        step_env_set(env, "RHRUN_ROLE_DEFAULT_ADDRS", list);
}

void launch_set_world(const struct launch *l, const struct launch_world *w, struct step_env *env)
{
    const struct step_bind *bind = l->bind;
    launch_set_number(env, "WORLD_SIZE", w->world_size);
    launch_set_number(env, "LOCAL_WORLD_SIZE", w->local_world_size);
    launch_set_number(env, "GROUP_RANK", w->group);
    launch_set_number(env, "GROUP_WORLD_SIZE", w->group_count);
    step_env_set(env, "MASTER_ADDR", w->master_address);
    launch_set_number(env, "MASTER_PORT", w->master_port);
    launch_set_number(env, "TORCHELASTIC_RESTART_COUNT", bind->restart_count);
    launch_set_number(env, "TORCHELASTIC_MAX_RESTARTS", l->plan->spec->distributed.max_restarts);
    /* torch names the rendezvous by it: workers of an older round must never join */
    step_env_set(env, "TORCHELASTIC_RUN_ID", step_round(bind, l->arena));
    step_env_set(env, "TORCHELASTIC_USE_AGENT_STORE", "False");
}

void launch_set_defaults(const struct launch *l, const struct step_env *env, uint32_t workers)
{
    struct step_env defaults = {.arena = l->arena};
    if (workers > 1 && !step_env_has(env, "OMP_NUM_THREADS")) /* torch/distributed/run.py */
        step_env_set(&defaults, "OMP_NUM_THREADS", "1");
    if (!step_env_has(env, "TORCH_NCCL_ASYNC_ERROR_HANDLING")) /* local_elastic_agent.py; torch's own default is 3 */
        step_env_set(&defaults, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
    if (!step_env_has(env, "PYTHONUNBUFFERED"))
        step_env_set(&defaults, "PYTHONUNBUFFERED", "1");
    l->run->env_default = defaults.list;
}
