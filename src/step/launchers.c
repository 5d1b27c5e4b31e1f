/* The table of launchers that start the workers themselves, and their shared code. */
#include "launcher.h"

#include <string.h>

static const struct launcher *const launchers[] = {&launcher_torchrun, &launcher_accelerate, &launcher_deepspeed,
                                                   &launcher_mpirun};

static const struct launcher *find(const struct spec *spec)
{
    for (size_t i = 0; i < ARRAY_LEN(launchers); i++)
        if (spec->distributed.present && launchers[i]->id == spec->distributed.launcher)
            return launchers[i];
    return NULL;
}

/* ---- planning ---- */

void step_launcher_on_nodes(struct plan_builder *b, const struct spec *spec, struct plan_step *s)
{
    static const uint32_t first = 0;
    const struct launcher *l = find(spec);
    if (l && l->once_per_machine && spec->placement == PLACEMENT_HERE)
        plan_on_nodes(b, s, &first, 1);
    else
        step_on_launch_nodes(b, spec, s);
}

int launcher_planned_flag(struct plan_builder *b, const struct spec *spec, const char *name, const char **ret,
                          struct error *err)
{
    const struct spec_text *text = spec_flag_value(&spec->distributed, name);
    *ret = NULL;
    return text ? plan_expand(b, text, EXPR_PLAIN, ret, err) : 0;
}

int launcher_put_flag(struct plan_builder *b, const struct spec *spec, const char *name, struct buf *ret,
                      const char **ret_value, struct error *err)
{
    const char *value;
    if (launcher_planned_flag(b, spec, name, &value, err) < 0)
        return -1;
    if (ret_value)
        *ret_value = value;
    if (!value)
        return 0;
    buf_printf(ret, " --%s", name);
    if (torchrun_flag_find(name, strlen(name))->type == TORCHRUN_BOOLEAN)
        return 0;
    buf_putc(ret, '=');
    buf_shell_quote(ret, value);
    return 0;
}

int launcher_put_conf(struct plan_builder *b, const struct spec *spec, bool c10d, struct buf *ret, struct error *err)
{
    const char *endpoint, *conf;
    if (launcher_planned_flag(b, spec, "rdzv_endpoint", &endpoint, err) < 0 ||
        launcher_planned_flag(b, spec, "rdzv_conf", &conf, err) < 0)
        return -1;
    conf = conf ? conf : "";
    bool holder = c10d && (!endpoint || *endpoint == ':') && !strstr(conf, "is_host=") && !strstr(conf, "store_type=");
    if (holder || *conf)
        buf_printf(ret, " --rdzv_conf=%s%s", holder ? "is_host=<1 on the first node, else 0>" : "",
                   holder && *conf ? "," : "");
    if (*conf)
        buf_shell_quote(ret, conf);
    return 0;
}

const char *launcher_planned_port(struct plan_builder *b, const struct spec *spec)
{
    uint32_t port = spec->distributed.master_port;
    return port ? arena_printf(plan_arena(b), "%u", port) : "<a free port of the first node>";
}

int launcher_planned_args(struct plan_builder *b, const struct spec *spec, struct words *ret, struct error *err)
{
    const struct spec_texts *texts = &spec->distributed.launcher_args;
    for (size_t i = 0; i < texts->count; i++) {
        const char *value;
        if (plan_expand(b, &texts->items[i], EXPR_PLAIN, &value, err) < 0)
            return -1;
        words_add(ret, value);
    }
    return 0;
}

void launcher_put_words(struct buf *ret, const struct words *words)
{
    for (uint32_t i = 0; i < words->list.count; i++) {
        buf_putc(ret, ' ');
        buf_shell_quote(ret, words->list.items[i]);
    }
}

void launcher_put_kind(const struct spec *spec, struct buf *ret)
{
    enum spec_entry_kind kind = spec->entrypoint.kind;
    buf_puts(ret, kind == ENTRY_MODULE ? " --module" : kind == ENTRY_SCRIPT ? "" : " --no_python");
}

uint32_t launcher_planned_nproc(const struct spec *spec, uint32_t node)
{
    const struct spec_nproc *n = spec_nproc(spec, node);
    return n->kind == NPROC_COUNT ? n->count : 0;
}

uint32_t launcher_planned_total(const struct spec *spec)
{
    uint32_t total = 0;
    for (uint32_t i = 0; i < spec->distributed.nnodes; i++) {
        uint32_t n = launcher_planned_nproc(spec, i);
        if (n == 0)
            return 0;
        total += n;
    }
    return total;
}

int step_launcher_describe(struct plan_builder *b, const struct spec *spec, struct buf *ret, struct error *err)
{
    const struct launcher *l = find(spec);
    struct words args = {.arena = plan_arena(b)};
    if (!l)
        return 0;
    buf_puts(ret, l->typed ? l->typed : "");
    return launcher_planned_args(b, spec, &args, err) < 0 ? -1 : l->describe(b, spec, &args, ret, err);
}

/* Inputs that change the computation; the rendezvous and logging do not. */
int step_launcher_inputs(struct plan_builder *b, struct plan_step *s, const struct spec *spec, struct error *err)
{
    const struct spec_distributed *d = &spec->distributed;
    if (!find(spec))
        return 0;
    plan_input(b, s, "launcher", spec_launchers[d->launcher]);
    if (d->min_nodes != d->nnodes)
        plan_input(b, s, "nnodes at least", arena_printf(plan_arena(b), "%u", d->min_nodes));
    for (size_t i = 0; i < d->flag_count; i++)
        if (d->flags[i].flag->keyed &&
            plan_input_text(b, s, d->flags[i].flag->name, &d->flags[i].value, EXPR_PLAIN, err) < 0)
            return -1;
    return d->launcher_args.count > 0 ? step_input_texts(b, s, "launcher_args", &d->launcher_args, err) : 0;
}

/* ---- building ---- */

void words_add(struct words *w, const char *word)
{
    if (w->list.count == w->cap) {
        uint32_t wider = w->cap ? 2 * w->cap : 32;
        char **items = arena_array(w->arena, wider, sizeof *items);
        if (w->list.count)
            memcpy(items, w->list.items, w->list.count * sizeof *items);
        w->list.items = items;
        w->cap = wider;
    }
    w->list.items[w->list.count++] = arena_strdup(w->arena, word);
}

void words_printf(struct words *w, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *word = xvasprintf(fmt, ap);
    va_end(ap);
    words_add(w, word);
}

bool launcher_is_program(const struct launcher_job *job)
{
    return job->entry != ENTRY_SCRIPT && job->entry != ENTRY_MODULE;
}

void launcher_kind(const struct launcher_job *job, struct words *argv)
{
    if (job->entry == ENTRY_MODULE)
        words_add(argv, "--module");
    else if (launcher_is_program(job))
        words_add(argv, "--no_python");
}

int launcher_args(const struct launcher_job *job, struct words *argv, struct error *err)
{
    const struct spec_texts *texts = &job->distributed->launcher_args;
    for (size_t i = 0; i < texts->count; i++) {
        const char *value;
        if (step_expand_node(job->plan, job->bind, &texts->items[i], EXPR_PLAIN, job->arena, &value, err) < 0)
            return -1;
        words_add(argv, value);
    }
    return 0;
}

int launcher_flag(const struct launcher_job *job, const char *name, const char **ret, struct error *err)
{
    const struct spec_text *text = spec_flag_value(job->distributed, name);
    *ret = NULL;
    return text ? step_expand_node(job->plan, job->bind, text, EXPR_PLAIN, job->arena, ret, err) : 0;
}

int launcher_equal(const struct launcher_job *job, uint32_t *ret_each, uint32_t *ret_total, struct error *err)
{
    const struct plan *plan = job->plan;
    for (uint32_t i = 0; i < plan->node_count; i++) {
        if (plan->nproc[i] == 0)
            return error_set(err, ERROR_INTERNAL, "the number of workers on node %u is not known", i);
        if (plan->nproc[i] == plan->nproc[0])
            continue;
        error_set(err, ERROR_SPEC,
                  "launcher %s has the same number of workers on every node, but node \"%s\" has %u and "
                  "node \"%s\" has %u",
                  spec_launchers[job->distributed->launcher], roster_name(plan->roster, 0), plan->nproc[0],
                  roster_name(plan->roster, i), plan->nproc[i]);
        error_hint(err, "launcher: native, torchrun and mpirun take any number per host");
        return -1;
    }
    *ret_each = plan->nproc[0];
    *ret_total = plan->world_size;
    return 0;
}

/* Since torch 2.4 the workers meet at a store of the agent's that has the addresses of the last round's workers: after
 * a restart, or when a node comes or goes, they hang. pytorch issue 135712. */
uint32_t launcher_restarts(const struct launcher_job *job)
{
    static const char name[] = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE";
    const struct spec_distributed *d = job->distributed;
    uint32_t n = d->max_restarts - spec_restarts(d);
    if ((n > 0 || d->min_nodes < d->nnodes) && !step_env_has(job->env, name))
        step_env_set(job->env, name, "1");
    return n;
}

const char *launcher_round(const struct launcher_job *job)
{
    return step_round(job->bind, job->arena);
}

int launcher_marked(const struct launcher_job *job, const char *program, const char **ret, struct error *err)
{
    const char *path = step_rank0_path(job->plan->spec, job->bind, job->arena);
    *ret = program;
    if (!spec_rank0_anywhere(job->distributed))
        return 0;
    if (step_absolute(job->bind, path, job->arena, &path, err) < 0)
        return -1;
    step_env_set(job->env, "RHRUN_RANK0", path);
    *ret = arena_printf(job->arena, "%s\n%s", rhrun_step_rank0, program);
    return 0;
}

int launcher_conf(const struct launcher_job *job, bool c10d, const char **ret, struct error *err)
{
    const char *conf, *endpoint;
    if (launcher_flag(job, "rdzv_conf", &conf, err) < 0 || launcher_flag(job, "rdzv_endpoint", &endpoint, err) < 0)
        return -1;
    *ret = conf ? conf : "";
    /* By default torch compares the endpoint with the names and addresses of each machine: behind NAT it finds no host
     * for the store, and on one machine it finds two. */
    if (c10d && (!endpoint || *endpoint == ':') && !strstr(*ret, "is_host=") && !strstr(*ret, "store_type="))
        *ret = arena_printf(job->arena, "is_host=%d%s%s", job->bind->node == 0, **ret ? "," : "", *ret);
    return 0;
}

const char *launcher_host(struct arena *arena, const char *host)
{
    return strchr(host, ':') && *host != '[' ? arena_printf(arena, "[%s]", host) : host;
}

const char *launcher_endpoint(struct arena *arena, const char *host, uint32_t port)
{
    return arena_printf(arena, "%s:%u", launcher_host(arena, host), port);
}

const char *launcher_address(const struct launcher_job *job, uint32_t node)
{
    const struct step_node *n = job->bind->nodes ? &job->bind->nodes[node] : NULL;
    return n && n->address ? n->address : roster_host(job->plan->roster, node)->host;
}

/* Removes variables inherited from the process that started rhrun's agent: a launcher would take them for its own. */
static void unset_inherited(const struct launcher_job *job)
{
    static const char *const names[] = {
        "PET_*",      "TORCHELASTIC_*",   "RANK",      "LOCAL_RANK", "WORLD_SIZE",      "LOCAL_WORLD_SIZE",
        "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_NAME", "ROLE_RANK",  "ROLE_WORLD_SIZE", "MASTER_ADDR",
        "MASTER_PORT"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        step_run_unset(job->run, job->arena, names[i]);
}

int step_launcher_build(const struct launcher_job *job, struct wire_worker *ret, struct error *err)
{
    const struct launcher *l = find(job->plan->spec);
    struct words argv = {.arena = job->arena};
    if (!l || !job->bind->master_address)
        return error_set(err, ERROR_INTERNAL, "the master's address is not known");
    unset_inherited(job);
    if (l->build(job, &argv, err) < 0)
        return -1;
    if (l->argparse) /* otherwise a program's --n would be an "ambiguous" option of torchrun, and its own -- would be
                        lost */
        words_add(&argv, "--");
    for (uint32_t i = 0; i < job->program.count; i++)
        words_add(&argv, job->program.items[i]);
    ret->rank = WIRE_NO_RANK;
    ret->local_rank = 0;
    ret->argv = argv.list;
    return 0;
}
