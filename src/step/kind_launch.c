/*
 * launch: the entrypoint. With `distributed` every node gets its workers with torchrun's environment contract
 * (torch/distributed/run.py, torch/distributed/elastic/agent/server/local_elastic_agent.py); without it, one plain
 * process on the first node, which keeps inherited rank variables. launch_roles.c has the launch of roles.
 */
#include "launch.h"

#include <string.h>

/* ---- planning ---- */

static int launch_plan(struct plan_builder *b, const struct spec *spec, struct error *err)
{
    const struct spec_entrypoint *entry = &spec->entrypoint;
    struct arena *arena = plan_arena(b);
    struct buf command = {0};
    if (spec->role_count > 0)
        return launch_plan_roles(b, spec, err);
    if (launch_describe(b, NULL, &command, err) < 0) {
        buf_free(&command);
        return -1;
    }
    const char *text = arena_strdup(arena, command.data ? command.data : "");
    buf_free(&command);
    struct plan_step *s = plan_add(b, &step_kind_launch, step_kind_launch.name, step_title(arena, text));
    s->item = entry;
    s->command = text;
    s->timeout_ms = entry->timeout_ms;
    step_launcher_on_nodes(b, spec, s);
    if (launch_input_entry(b, s, "", NULL, err) < 0 ||
        step_input_env(b, s, "env", spec->env, spec->env_count, err) < 0 ||
        step_input_env(b, s, "entrypoint.env", entry->env, entry->env_count, err) < 0 ||
        step_launcher_inputs(b, s, spec, err) < 0)
        return -1;
    if (spec->distributed.present)
        launch_input_layout(b, s, spec);
    step_input_after_all(b, s);
    return 0;
}

/* ---- building ---- */

static int make_worker(const struct launch *l, const struct step_env *node_env, const struct step_worker *w,
                       struct wire_worker *ret, struct error *err)
{
    struct step_env env = {.arena = l->arena};
    for (const struct spec_env **e = l->late_env; *e; e++) {
        const char *value;
        if (step_expand(l->plan, l->bind, w, &(*e)->value, EXPR_PLAIN, l->arena, &value, err) != EXPR_OK) {
            error_prefix(err, "env %s", (*e)->name);
            return -1;
        }
        step_env_set(&env, (*e)->name, value);
    }
    launch_set_number(&env, "RANK", w->rank);
    if (launch_set_local(l, node_env, w->local_rank, &env, err) < 0)
        return -1;
    launch_set_number(&env, "ROLE_RANK", w->rank);
    if (launch_set_call(l, w, &env, err) != EXPR_OK)
        return -1;
    ret->rank = w->rank;
    ret->local_rank = w->local_rank;
    ret->env = env.list;
    return 0;
}

static int not_for_all(const struct launch *l, struct error *err)
{
    return error_set(err, ERROR_SPEC, "%s: the entrypoint uses a rank, but without `distributed` there is none",
                     l->plan->spec->path ? l->plan->spec->path : "spec");
}

static int build_plain(struct launch *l, struct step_env *env, struct error *err)
{
    struct wire_worker *worker = arena_alloc(l->arena, sizeof *worker);
    enum expr_status status = launch_argv(l, env, NULL, &worker->argv, err);
    if (status == EXPR_OK)
        status = launch_set_call(l, NULL, env, err);
    if (status == EXPR_LATE || *l->late_env)
        return not_for_all(l, err);
    if (status != EXPR_OK)
        return -1;
    worker->shell = l->plan->spec->entrypoint.kind == ENTRY_RUN;
    if (l->bind->devices)
        launch_set_devices(l, env);
    l->run->workers = worker;
    l->run->worker_count = 1;
    l->run->env = env->list;
    return 0;
}

static int build_ranks(struct launch *l, struct step_env *env, struct error *err)
{
    const struct plan *plan = l->plan;
    uint32_t node = l->bind->node, count = plan->nproc[node], first = 0;
    if (!plan->ranks_known || !l->bind->master_address)
        return error_set(err, ERROR_INTERNAL, "the rank table or the master's address is not known");
    for (uint32_t i = 0; i < node; i++)
        first += plan->nproc[i];
    const struct launch_world world = {plan->world_size,    count, node, plan->node_count, l->bind->master_address,
                                       l->bind->master_port};
    launch_set_defaults(l, env, count);
    launch_set_world(l, &world, env);
    step_env_set(env, "ROLE_NAME", "default");
    launch_set_number(env, "ROLE_WORLD_SIZE", plan->world_size);
    launch_set_number(env, "RHRUN_NODE_RANK", node);
    launch_set_addresses(l, env);
    launch_set_devices(l, env);
    l->run->env = env->list;
    step_run_unset(l->run, l->arena, "PET_*");
    step_run_unset(l->run, l->arena, "TORCHELASTIC_ERROR_FILE"); /* inherited from the process that started rhrun */
    struct wire_strings shared;
    enum expr_status all = launch_argv(l, env, NULL, &shared, err);
    if (all == EXPR_FAILED)
        return -1;
    l->run->workers = arena_array(l->arena, count, sizeof *l->run->workers);
    for (uint32_t i = 0; i < count; i++) {
        struct wire_worker *worker = &l->run->workers[i];
        struct step_worker w = {.number = first + i,
                                .ranked = true,
                                .rank = first + i,
                                .local_rank = i,
                                .world_size = plan->world_size,
                                .local_world_size = count,
                                .role = "default",
                                .role_rank = first + i,
                                .role_size = plan->world_size};
        if (make_worker(l, env, &w, worker, err) < 0)
            return -1;
        worker->shell = plan->spec->entrypoint.kind == ENTRY_RUN;
        worker->argv = shared;
        if (all == EXPR_LATE && launch_argv(l, env, &w, &worker->argv, err) != EXPR_OK)
            return -1;
    }
    l->run->worker_count = count;
    return launch_set_files(l, err);
}

/* One worker, the launcher, which assigns the ranks and restarts failed workers. */
static int build_launcher(struct launch *l, struct step_env *env, struct error *err)
{
    const struct spec *spec = l->plan->spec;
    struct launcher_job job = {.plan = l->plan,
                               .bind = l->bind,
                               .arena = l->arena,
                               .distributed = &spec->distributed,
                               .entry = spec->entrypoint.kind,
                               .env = env,
                               .run = l->run};
    struct wire_worker *worker = arena_alloc(l->arena, sizeof *worker);
    struct step_env defaults = {.arena = l->arena};
    enum expr_status status = launch_program(l, env, &job.program, err);
    if (status == EXPR_OK)
        status = launch_set_call(l, NULL, env, err);
    if (status == EXPR_LATE || *l->late_env)
        return error_set(err, ERROR_SPEC, "the entrypoint uses a rank, which launcher %s gives out",
                         spec_launchers[spec->distributed.launcher]);
    if (status != EXPR_OK || launch_python(l, env, &job.python, err) < 0)
        return -1;
    if (spec_flag_value(&spec->distributed, "run_path")) { /* torch needs an absolute path */
        const char *script;
        if (step_absolute(l->bind, job.program.items[0], l->arena, &script, err) < 0)
            return -1;
        job.program.items[0] = arena_strdup(l->arena, script);
    }
    launch_set_number(env, "RHRUN_NODE_RANK", l->bind->node);
    launch_set_addresses(l, env);
    launch_set_devices(l, env);
    if (!step_env_has(env, "PYTHONUNBUFFERED"))
        step_env_set(&defaults, "PYTHONUNBUFFERED", "1");
    l->run->env_default = defaults.list;
    if (step_launcher_build(&job, worker, err) < 0)
        return -1;
    l->run->env = env->list;
    l->run->workers = worker;
    l->run->worker_count = 1;
    return 0;
}

/* With roles: the entrypoint of the first role that the step starts; cwd and timeout are the same for all of them. */
static const struct spec_entrypoint *step_entry(const struct plan *plan, const struct plan_step *step)
{
    const struct step_part *part = step->item;
    return plan->spec->role_count > 0 ? &plan->spec->roles[part->roles[0]].entrypoint : &plan->spec->entrypoint;
}

/* With several nodes or failure rules, the controller learns of each failed worker at once. If a rule may ignore the
 * failure, the node leaves the fate of the other workers to the controller. Not if torchrun may go on with fewer
 * nodes. */
static void set_ends(const struct spec *spec, struct arena *arena, struct wire_run *run)
{
    size_t max = 0;
    bool several = spec->nnodes > 1 && spec->distributed.present && spec->distributed.launcher == LAUNCHER_NATIVE;
    if ((spec->rule_count == 0 && !several) ||
        (spec->distributed.present && spec->distributed.min_nodes < spec->distributed.nnodes))
        return;
    run->flags |= WIRE_RUN_ENDS;
    for (size_t i = 0; i < spec->rule_count; i++)
        max += spec->rules[i].status_count + spec->rules[i].signal_count + 1;
    run->spared.items = arena_array(arena, max, sizeof(char *));
    for (size_t i = 0; i < spec->rule_count; i++) {
        const struct spec_rule *r = &spec->rules[i];
        if (r->action != RULE_IGNORE || r->subject != RULE_WORKER)
            continue;
        for (size_t k = 0; k < r->status_count; k++)
            run->spared.items[run->spared.count++] = arena_printf(arena, "exit %u", r->statuses[k]);
        for (size_t k = 0; k < r->signal_count; k++)
            run->spared.items[run->spared.count++] = arena_printf(arena, "signal %u", r->signals[k]);
        if (r->status_count == 0 && r->signal_count == 0 && !r->pattern.text)
            run->spared.items[run->spared.count++] = arena_strdup(arena, "any");
    }
}

static int launch_build(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                        struct arena *arena, struct wire_run *ret_run, struct error *err)
{
    const struct spec_entrypoint *entry = step_entry(plan, step);
    bool roles = plan->spec->role_count > 0; /* with roles, the entrypoint's own values belong to the workers */
    struct launch l = {.plan = plan, .bind = bind, .arena = arena, .run = ret_run, .entry = entry};
    struct step_env env = {.arena = arena};
    const char *cwd;
    step_run_init(plan, step, arena, ret_run);
    if (step_expand_node(plan, bind, &entry->cwd, EXPR_PLAIN, arena, &cwd, err) < 0 ||
        step_home(bind, cwd, arena, &cwd, err) < 0 ||
        step_run_env(plan, bind, roles ? 0 : STEP_ENV_ENTRY, &env, &l.late_env, err) < 0 ||
        step_python_env(plan, bind, arena, ret_run, &env, err) < 0)
        return -1;
    ret_run->kind = WIRE_KIND_LAUNCH;
    ret_run->cwd = arena_strdup(arena, cwd);
    ret_run->timeout_ms = entry->timeout_ms;
    step_run_own_env(bind, false, &env);
    step_run_secrets(bind, arena, ret_run);
    set_ends(plan->spec, arena, ret_run);
    if (roles)
        return launch_build_roles(&l, step, &env, err);
    if (!plan->spec->distributed.present)
        return build_plain(&l, &env, err);
    return spec_has_ranks(&plan->spec->distributed) ? build_ranks(&l, &env, err) : build_launcher(&l, &env, err);
}

/* The launch of a sweep's point; planned by launch_plan. */
static const struct step_kind of_point = {
    .name = "point", .version = 1, .phase = PHASE_POINT, .ranked = true, .build = launch_build};

const struct step_kind step_kind_launch = {.name = "launch",
                                           .version = 1,
                                           .phase = PHASE_LAUNCH,
                                           .cached = false,
                                           .ranked = true,
                                           .of_point = &of_point,
                                           .plan = launch_plan,
                                           .build = launch_build};
