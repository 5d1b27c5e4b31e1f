/*
 * launch: the entrypoint. With `distributed` every node gets its workers with torchrun's environment contract
 * (torch/distributed/run.py, torch/distributed/elastic/agent/server/local_elastic_agent.py); without it, one plain
 * process on the first node, and rank variables that are there are left alone.
 */
#include "launcher.h"

#include <string.h>

/* ---- planning ---- */

static const char *nproc_text(struct arena *arena, const struct spec_nproc *np)
{
    switch (np->kind) {
    case NPROC_COUNT:
        return arena_printf(arena, "%u", np->count);
    case NPROC_CPU:
        return "cpu";
    case NPROC_GPU:
        return "gpu";
    case NPROC_XPU:
        return "xpu";
    case NPROC_AUTO:
        break;
    }
    return "auto";
}

/* What was asked for, not what it came to: "4", or "gpu; 1: 2" when the second node asks for another number. */
static void input_layout(struct plan_builder *b, struct plan_step *s, const struct spec *spec)
{
    struct arena *arena = plan_arena(b);
    struct buf text = {0};
    plan_input(b, s, "nnodes", arena_printf(arena, "%u", spec->distributed.nnodes));
    buf_puts(&text, nproc_text(arena, &spec->distributed.nproc));
    for (uint32_t i = 0; i < spec->nnodes && i < spec->host_count; i++)
        if (spec->hosts[i].has_nproc)
            buf_printf(&text, "; %u: %s", i, nproc_text(arena, &spec->hosts[i].nproc));
    plan_input(b, s, "nproc_per_node", text.data);
    buf_free(&text);
}

static bool is_created(struct plan_builder *b, const struct spec *spec, const char *path)
{
    for (size_t i = 0; i < spec->setup_count; i++) {
        const char *creates;
        struct error ignored = ERROR_INIT;
        if (plan_expand(b, &spec->setup[i].creates, EXPR_PLAIN, &creates, &ignored) == 0 && str_eq(creates, path))
            return true;
    }
    return false;
}

/* In place, an edited script is a changed launch. Not one that set-up makes: its step is in the chain. */
static void input_script(struct plan_builder *b, struct plan_step *s, const struct spec *spec, const char *path)
{
    char hex[65];
    if (!spec->local || strstr(path, "${{") || is_created(b, spec, path))
        return;
    const char *full = *path == '/' ? path : arena_printf(plan_arena(b), "%s/%s", spec->dir, path);
    struct error ignored = ERROR_INIT; /* not there yet: the launch will tell */
    bool there = digest_sha256_file(full, hex, &ignored) == 0;
    plan_input(b, s, arena_printf(plan_arena(b), "content of %s", path),
               there ? arena_printf(plan_arena(b), "sha256:%s", hex) : "none");
}

/* With their types: 3 is another argument than "3". */
static int input_call(struct plan_builder *b, struct plan_step *s, const struct spec *spec, struct error *err)
{
    const struct step_call call = {{.spec = spec}, true, plan_arena(b)};
    struct buf args = {0}, kwargs = {0};
    int rc = -1;
    if (step_call_args(&call, &args, err) == EXPR_OK && step_call_kwargs(&call, &kwargs, err) == EXPR_OK) {
        plan_input(b, s, "args", args.data);
        plan_input(b, s, "kwargs", kwargs.data);
        rc = 0;
    }
    buf_free(&args);
    buf_free(&kwargs);
    return rc;
}

static int input_entry(struct plan_builder *b, struct plan_step *s, const struct spec *spec, struct error *err)
{
    static const char *const names[] = {"script", "module", "command", "run", "function"};
    const struct spec_entrypoint *entry = &spec->entrypoint;
    const char *name = names[entry->kind], *path;
    if (entry->kind == ENTRY_COMMAND) {
        if (step_input_texts(b, s, name, &entry->command, err) < 0)
            return -1;
    } else if (plan_input_text(b, s, name, &entry->target, entry->kind == ENTRY_RUN ? EXPR_SHELL : EXPR_PLAIN, err) <
               0) {
        return -1;
    }
    if (entry->kind == ENTRY_SCRIPT) {
        if (plan_expand(b, &entry->target, EXPR_PLAIN, &path, err) < 0)
            return -1;
        input_script(b, s, spec, path);
    }
    bool python = entry->kind == ENTRY_SCRIPT || entry->kind == ENTRY_MODULE || entry->kind == ENTRY_FUNCTION;
    if (python && step_python_kind(spec) == PYTHON_PLAIN && !str_eq(step_interpreter(spec)->text, "python3") &&
        plan_input_text(b, s, "interpreter", step_interpreter(spec), EXPR_PLAIN, err) < 0)
        return -1;
    if (entry->cwd.text && plan_input_text(b, s, "cwd", &entry->cwd, EXPR_PLAIN, err) < 0)
        return -1;
    if (entry->kind == ENTRY_FUNCTION)
        return input_call(b, s, spec, err);
    return step_input_texts(b, s, "args", &entry->args, err);
}

static int put_words(struct plan_builder *b, const struct spec_texts *texts, struct buf *ret, struct error *err)
{
    for (size_t i = 0; i < texts->count; i++) {
        const char *value;
        if (plan_expand(b, &texts->items[i], EXPR_PLAIN, &value, err) < 0)
            return -1;
        if (ret->len)
            buf_putc(ret, ' ');
        buf_shell_quote(ret, value);
    }
    return 0;
}

static const char *python_text(struct plan_builder *b)
{
    const struct spec *spec = plan_spec_of(b);
    const char *text;
    struct error ignored = ERROR_INIT;
    bool plain = step_python_kind(spec) == PYTHON_PLAIN;
    return plain && plan_expand(b, step_interpreter(spec), EXPR_PLAIN, &text, &ignored) == 0 ? text : "python";
}

/* The command as one would type it. */
static int describe(struct plan_builder *b, const struct spec_entrypoint *entry, struct buf *ret, struct error *err)
{
    struct spec_texts target = {(struct spec_text *)&entry->target, 1};
    if (step_launcher_describe(b, plan_spec_of(b), ret, err) < 0)
        return -1;
    bool launcher = ret->len > 0;
    switch (entry->kind) {
    case ENTRY_SCRIPT:
        if (!launcher)
            buf_printf(ret, "%s -u", python_text(b));
        break;
    case ENTRY_MODULE:
        if (!launcher)
            buf_printf(ret, "%s -u -m", python_text(b));
        break;
    case ENTRY_FUNCTION:
        buf_puts(ret, "call");
        return put_words(b, &target, ret, err);
    case ENTRY_COMMAND:
        return put_words(b, &entry->command, ret, err) < 0 ? -1 : put_words(b, &entry->args, ret, err);
    case ENTRY_RUN: {
        const char *text;
        if (plan_expand(b, &entry->target, EXPR_SHELL, &text, err) < 0)
            return -1;
        buf_puts(ret, text);
        return 0;
    }
    }
    return put_words(b, &target, ret, err) < 0 ? -1 : put_words(b, &entry->args, ret, err);
}

static int launch_plan(struct plan_builder *b, const struct spec *spec, struct error *err)
{
    const struct spec_entrypoint *entry = &spec->entrypoint;
    struct arena *arena = plan_arena(b);
    struct buf command = {0};
    if (describe(b, entry, &command, err) < 0) {
        buf_free(&command);
        return -1;
    }
    const char *text = arena_strdup(arena, command.data ? command.data : "");
    buf_free(&command);
    struct plan_step *s = plan_add(b, &step_kind_launch, "launch", step_title(arena, text));
    s->item = entry;
    s->command = text;
    static const uint32_t first = 0;
    if (step_launcher_first_only(spec))
        plan_on_nodes(b, s, &first, 1);
    else
        step_on_launch_nodes(b, spec, s);
    if (input_entry(b, s, spec, err) < 0 || step_input_env(b, s, "env", spec->env, spec->env_count, err) < 0 ||
        step_input_env(b, s, "entrypoint.env", entry->env, entry->env_count, err) < 0 ||
        step_launcher_inputs(b, s, spec, err) < 0)
        return -1;
    if (spec->distributed.present)
        input_layout(b, s, spec);
    step_input_after_all(b, s);
    return 0;
}

/* ---- building: what starts ---- */

struct launch { /* what the functions below share */
    const struct plan *plan;
    const struct step_bind *bind;
    struct arena *arena;
    struct wire_run *run;
    const struct spec_env **late_env; /* of the workers: speaks of ranks */
};

static void add_word(struct wire_strings *argv, struct arena *arena, const char *word)
{
    argv->items[argv->count++] = arena_strdup(arena, word);
}

/* The venv's or the interpreter that the spec names; else the node's own python3, unless something of the job decides
 * what PATH is. */
static int python_of(const struct launch *l, const struct step_env *env, const char **ret, struct error *err)
{
    const struct step_node *n = l->bind->nodes ? &l->bind->nodes[l->bind->node] : NULL;
    bool own_path = *l->run->env_in || step_env_has(env, "PATH");
    if (step_python_program(l->plan, l->bind, l->arena, ret, err) < 0)
        return -1;
    if (str_eq(*ret, "python3") && !own_path && n && n->facts && n->facts->python && *n->facts->python)
        *ret = n->facts->python;
    return 0;
}

/* A script is relative to the working directory, and the process starts in cwd. */
static const char *script_path(const struct launch *l, const char *script)
{
    const struct step_node *n = l->bind->nodes ? &l->bind->nodes[l->bind->node] : NULL;
    if (*script == '/' || !*l->run->cwd || !n || !n->facts || !n->facts->work_dir)
        return *script == '-' ? arena_printf(l->arena, "./%s", script) : script; /* no option of python's */
    return arena_printf(l->arena, "%s/%s", n->facts->work_dir, script);
}

static enum expr_status add_texts(const struct launch *l, const struct step_worker *w, const struct spec_texts *texts,
                                  struct wire_strings *argv, struct error *err)
{
    for (size_t i = 0; i < texts->count; i++) {
        const char *value;
        enum expr_status status = step_expand(l->plan, l->bind, w, &texts->items[i], EXPR_PLAIN, l->arena, &value, err);
        if (status != EXPR_OK)
            return status;
        add_word(argv, l->arena, value);
    }
    return EXPR_OK;
}

/* The argv of a worker; EXPR_LATE when it is not the same for all and w is NULL. */
static enum expr_status make_argv(const struct launch *l, const struct step_env *env, const struct step_worker *w,
                                  struct wire_strings *ret, struct error *err)
{
    const struct spec_entrypoint *entry = &l->plan->spec->entrypoint;
    struct wire_strings argv = {arena_array(l->arena, entry->args.count + entry->command.count + 4, sizeof(char *)), 0};
    const char *target = "", *python = "";
    bool is_command = entry->kind == ENTRY_COMMAND || entry->kind == ENTRY_RUN;
    if (!is_command && python_of(l, env, &python, err) < 0)
        return EXPR_FAILED;
    if (entry->kind != ENTRY_COMMAND) {
        enum expr_mode mode = entry->kind == ENTRY_RUN ? EXPR_SHELL : EXPR_PLAIN;
        enum expr_status status = step_expand(l->plan, l->bind, w, &entry->target, mode, l->arena, &target, err);
        if (status != EXPR_OK)
            return status;
    }
    switch (entry->kind) {
    case ENTRY_SCRIPT:
    case ENTRY_MODULE:
        add_word(&argv, l->arena, python);
        add_word(&argv, l->arena, "-u");
        if (entry->kind == ENTRY_MODULE)
            add_word(&argv, l->arena, "-m");
        add_word(&argv, l->arena, entry->kind == ENTRY_MODULE ? target : script_path(l, target));
        break;
    case ENTRY_COMMAND: {
        enum expr_status status = add_texts(l, w, &entry->command, &argv, err);
        if (status != EXPR_OK)
            return status;
        break;
    }
    case ENTRY_RUN:
        add_word(&argv, l->arena, target);
        break;
    case ENTRY_FUNCTION: /* its arguments are in the environment, of each worker */
        add_word(&argv, l->arena, python);
        add_word(&argv, l->arena, "-u");
        add_word(&argv, l->arena, "-c");
        add_word(&argv, l->arena, rhrun_step_call);
        *ret = argv;
        return EXPR_OK;
    }
    enum expr_status status = add_texts(l, w, &entry->args, &argv, err);
    if (status == EXPR_OK)
        *ret = argv;
    return status;
}

/* ---- building: its environment ---- */

static enum expr_status set_call(const struct launch *l, const struct step_worker *w, struct step_env *env,
                                 struct error *err)
{
    const struct step_call call = {step_context(l->plan, l->bind, w), false, l->arena};
    const char *json;
    if (l->plan->spec->entrypoint.kind != ENTRY_FUNCTION)
        return EXPR_OK;
    enum expr_status status = step_call_json(&call, l->bind, w ? w->rank : 0, &json, err);
    if (status == EXPR_OK)
        step_env_set(env, "RHRUN_CALL", json);
    return status;
}

static void set_number(struct step_env *env, const char *name, uint32_t n)
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

static void set_addresses(const struct launch *l, struct step_env *env)
{
    const char *list = l->bind->node_addrs;
    if (!list)
        list = step_node_addrs(l->bind->nodes, l->plan->node_count, l->arena);
    if (*list) {
        step_env_set(env, "RHRUN_NODE_ADDRS", list);
        step_env_set(env, "RHRUN_ROLE_DEFAULT_ADDRS", list);
    }
}

/* What is the same for all workers of a node. */
static void set_node_env(const struct launch *l, struct step_env *env)
{
    const struct plan *plan = l->plan;
    const struct step_bind *bind = l->bind;
    set_number(env, "WORLD_SIZE", plan->world_size);
    set_number(env, "LOCAL_WORLD_SIZE", plan->nproc[bind->node]);
    set_number(env, "GROUP_RANK", bind->node);
    set_number(env, "GROUP_WORLD_SIZE", plan->node_count);
    step_env_set(env, "ROLE_NAME", "default");
    set_number(env, "ROLE_WORLD_SIZE", plan->world_size);
    step_env_set(env, "MASTER_ADDR", bind->master_address);
    set_number(env, "MASTER_PORT", bind->master_port);
    set_number(env, "TORCHELASTIC_RESTART_COUNT", bind->restart_count);
    set_number(env, "TORCHELASTIC_MAX_RESTARTS", plan->spec->distributed.max_restarts);
    /* torch names a rendezvous by it: a round must never meet workers of an older one */
    step_env_set(env, "TORCHELASTIC_RUN_ID",
                 arena_printf(l->arena, "%s-%u", bind->run_id ? bind->run_id : "run", bind->generation));
    step_env_set(env, "TORCHELASTIC_USE_AGENT_STORE", "False");
    set_number(env, "RHRUN_NODE_RANK", bind->node);
    set_addresses(l, env);
}

static void set_defaults(const struct launch *l, const struct step_env *env)
{
    struct step_env defaults = {.arena = l->arena};
    if (l->plan->nproc[l->bind->node] > 1 && !step_env_has(env, "OMP_NUM_THREADS")) /* torch/distributed/run.py */
        step_env_set(&defaults, "OMP_NUM_THREADS", "1");
    if (!step_env_has(env, "PYTHONUNBUFFERED"))
        step_env_set(&defaults, "PYTHONUNBUFFERED", "1");
    l->run->env_default = defaults.list;
}

static int make_worker(const struct launch *l, const struct step_worker *w, struct wire_worker *ret, struct error *err)
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
    set_number(&env, "RANK", w->rank);
    set_number(&env, "LOCAL_RANK", w->local_rank);
    set_number(&env, "ROLE_RANK", w->rank);
    if (set_call(l, w, &env, err) != EXPR_OK)
        return -1;
    ret->rank = w->rank;
    ret->local_rank = w->local_rank;
    ret->env = env.list;
    return 0;
}

/* ---- building: the message ---- */

static int not_for_all(const struct launch *l, struct error *err)
{
    return error_set(err, ERROR_SPEC, "%s: the entrypoint speaks of a rank, and without `distributed` there is none",
                     l->plan->spec->path ? l->plan->spec->path : "spec");
}

static int build_plain(struct launch *l, struct step_env *env, struct error *err)
{
    struct wire_worker *worker = arena_alloc(l->arena, sizeof *worker);
    enum expr_status status = make_argv(l, env, NULL, &worker->argv, err);
    if (status == EXPR_OK)
        status = set_call(l, NULL, env, err);
    if (status == EXPR_LATE || *l->late_env)
        return not_for_all(l, err);
    if (status != EXPR_OK)
        return -1;
    worker->shell = l->plan->spec->entrypoint.kind == ENTRY_RUN;
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
    set_defaults(l, env);
    set_node_env(l, env);
    l->run->env = env->list;
    step_run_unset(l->run, l->arena, "PET_*");
    step_run_unset(l->run, l->arena, "TORCHELASTIC_ERROR_FILE"); /* that of whoever started rhrun */
    struct wire_strings shared;
    enum expr_status all = make_argv(l, env, NULL, &shared, err);
    if (all == EXPR_FAILED)
        return -1;
    l->run->workers = arena_array(l->arena, count, sizeof *l->run->workers);
    for (uint32_t i = 0; i < count; i++) {
        struct wire_worker *worker = &l->run->workers[i];
        struct step_worker w = {first + i, i, plan->world_size, count};
        if (make_worker(l, &w, worker, err) < 0)
            return -1;
        worker->shell = plan->spec->entrypoint.kind == ENTRY_RUN;
        worker->argv = shared;
        if (all == EXPR_LATE && make_argv(l, env, &w, &worker->argv, err) != EXPR_OK)
            return -1;
    }
    l->run->worker_count = count;
    return 0;
}

/* One worker, the launcher: it gives out the ranks, and restarts what fails. */
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
    enum expr_status status = make_argv(l, env, NULL, &job.program, err);
    if (status == EXPR_LATE || *l->late_env)
        return error_set(err, ERROR_SPEC, "the entrypoint speaks of a rank, which launcher %s gives out",
                         spec_launchers[spec->distributed.launcher]);
    if (status != EXPR_OK || python_of(l, env, &job.python, err) < 0)
        return -1;
    uint32_t own = job.entry == ENTRY_SCRIPT ? 2 : job.entry == ENTRY_MODULE ? 3 : 0; /* python -u, python -u -m */
    job.program.items += own;
    job.program.count -= own;
    if (spec_flag_value(&spec->distributed, "run_path")) { /* torch wants it absolute */
        const char *script;
        if (step_absolute(l->bind, job.program.items[0], l->arena, &script, err) < 0)
            return -1;
        job.program.items[0] = arena_strdup(l->arena, script);
    }
    set_number(env, "RHRUN_NODE_RANK", l->bind->node);
    set_addresses(l, env);
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

static int launch_build(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                        struct arena *arena, struct wire_run *ret_run, struct error *err)
{
    const struct spec_entrypoint *entry = &plan->spec->entrypoint;
    struct launch l = {.plan = plan, .bind = bind, .arena = arena, .run = ret_run};
    struct step_env env = {.arena = arena};
    const char *cwd;
    step_run_init(plan, step, bind, arena, ret_run);
    if (step_expand_node(plan, bind, &entry->cwd, EXPR_PLAIN, arena, &cwd, err) < 0 ||
        step_run_env(plan, bind, true, &env, &l.late_env, err) < 0 ||
        step_python_env(plan, bind, arena, ret_run, &env, err) < 0)
        return -1;
    ret_run->kind = WIRE_KIND_LAUNCH;
    ret_run->cwd = arena_strdup(arena, cwd);
    ret_run->timeout_ms = entry->timeout_ms;
    step_run_own_env(bind, false, &env);
    step_run_secrets(bind, arena, ret_run);
    if (!plan->spec->distributed.present)
        return build_plain(&l, &env, err);
    return spec_has_ranks(&plan->spec->distributed) ? build_ranks(&l, &env, err) : build_launcher(&l, &env, err);
}

const struct step_kind step_kind_launch = {
    .name = "launch", .version = 1, .phase = PHASE_LAUNCH, .cached = false, .plan = launch_plan, .build = launch_build};
