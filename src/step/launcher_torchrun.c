/*
 * torchrun: one torch.distributed.run on each node. Flags of the table that the spec gives are passed on unchanged.
 * Values that rhrun knows better are computed here, so that nothing depends on host names, on a port that is taken, or
 * on leftover variables. From then on, membership and restarts are torch's own.
 */
#include "launcher.h"

#include <string.h>

static const char *count_on(const struct spec *spec, uint32_t node, struct arena *arena)
{
    static const char *const words[] = {"", "cpu", "gpu", "xpu", "auto"};
    const struct spec_nproc *n = spec_nproc(spec, node);
    return n->kind == NPROC_COUNT ? arena_printf(arena, "%u", n->count) : words[n->kind];
}

static const char *count_word(const struct launcher_job *job)
{
    return count_on(job->plan->spec, job->bind->node, job->arena);
}

static bool is_computed(const char *name)
{
    return str_eq(name, "rdzv_endpoint") || str_eq(name, "rdzv_id") || str_eq(name, "rdzv_conf") ||
           str_eq(name, "master_addr") || str_eq(name, "local_addr") || str_eq(name, "rdzv_backend");
}

/* Flags that an old torch lacks, each as "name=212". Also xpu, which is a value. */
static void put_needed(const struct launcher_job *job, struct words *needed)
{
    const struct spec_distributed *d = job->distributed;
    for (size_t i = 0; i < d->flag_count; i++)
        if (d->flags[i].flag->since > TORCHRUN_OLDEST)
            words_printf(needed, "--%s=%u", d->flags[i].flag->name, d->flags[i].flag->since);
    if (str_eq(count_word(job), "xpu"))
        words_printf(needed, "--nproc_per_node=xpu=%d", TORCHRUN_XPU);
}

/* python -m torch.distributed.run. With flags that a torch may lack, a few lines of Python check its version first; if
 * rank 0 may be on any node, a few lines start it and leave a mark on that node. */
static int put_program(const struct launcher_job *job, struct words *argv, struct error *err)
{
    struct words needed = {.arena = job->arena};
    const char *marked;
    if (launcher_marked(job, rhrun_step_torchrun_marked, &marked, err) < 0)
        return -1;
    put_needed(job, &needed);
    words_add(argv, job->python);
    if (needed.list.count > 0) {
        words_add(argv, "-c");
        words_add(argv, rhrun_step_torchrun);
        words_printf(argv, "%u", needed.list.count);
    }
    for (uint32_t i = 0; i < needed.list.count; i++)
        words_add(argv, needed.list.items[i]);
    bool is_marked = marked != rhrun_step_torchrun_marked;
    words_add(argv, is_marked ? "-c" : "-m");
    words_add(argv, is_marked ? marked : "torch.distributed.run");
    return 0;
}

static int put_static(const struct launcher_job *job, struct words *argv, struct error *err)
{
    const char *master;
    if (launcher_flag(job, "master_addr", &master, err) < 0)
        return -1;
    words_printf(argv, "--node_rank=%u", job->bind->node);
    words_printf(argv, "--master_addr=%s", launcher_host(job->arena, master ? master : job->bind->master_address));
    words_printf(argv, "--master_port=%u", job->bind->master_port);
    return 0;
}

static int put_endpoint(const struct launcher_job *job, struct words *argv, struct error *err)
{
    const char *endpoint;
    if (launcher_flag(job, "rdzv_endpoint", &endpoint, err) < 0)
        return -1;
    if (endpoint && *endpoint != ':')
        words_printf(argv, "--rdzv_endpoint=%s", endpoint);
    else if (endpoint)
        words_printf(argv, "--rdzv_endpoint=%s%s", launcher_host(job->arena, job->bind->master_address), endpoint);
    else
        words_printf(argv, "--rdzv_endpoint=%s",
                     launcher_endpoint(job->arena, job->bind->master_address, job->bind->master_port));
    return 0;
}

static int put_rendezvous(const struct launcher_job *job, struct words *argv, struct error *err)
{
    const char *backend, *id, *local, *conf;
    bool alone = spec_flag_value(job->distributed, "standalone") != NULL;
    if (launcher_flag(job, "rdzv_backend", &backend, err) < 0 || launcher_flag(job, "rdzv_id", &id, err) < 0 ||
        launcher_flag(job, "local_addr", &local, err) < 0)
        return -1;
    backend = backend ? backend : "static";
    bool c10d = !alone && str_eq(backend, "c10d");
    /* By its variable: torch before 2.0 has no such flag, and ignores the variable. */
    if (!alone || local)
        step_env_set(job->env, "PET_LOCAL_ADDR", local ? local : launcher_address(job, job->bind->node));
    if (launcher_conf(job, c10d, &conf, err) < 0)
        return -1;
    if (*conf)
        words_printf(argv, "--rdzv_conf=%s", conf);
    if (alone)
        return 0;
    words_printf(argv, "--rdzv_backend=%s", backend);
    words_printf(argv, "--rdzv_id=%s", id ? id : launcher_round(job));
    return str_eq(backend, "static") ? put_static(job, argv, err) : put_endpoint(job, argv, err);
}

static int put_given(const struct launcher_job *job, struct words *argv, struct error *err)
{
    const struct spec_distributed *d = job->distributed;
    for (size_t i = 0; i < d->flag_count; i++) {
        const char *name = d->flags[i].flag->name, *value;
        if (is_computed(name))
            continue;
        if (launcher_flag(job, name, &value, err) < 0)
            return -1;
        if (d->flags[i].flag->type == TORCHRUN_BOOLEAN)
            words_printf(argv, "--%s", name);
        else
            words_printf(argv, "--%s=%s", name, value);
    }
    return 0;
}

static int build(const struct launcher_job *job, struct words *argv, struct error *err)
{
    const struct spec_distributed *d = job->distributed;
    const char *timeout;
    if (launcher_flag(job, "shutdown_timeout", &timeout, err) < 0 || put_program(job, argv, err) < 0)
        return -1;
    if (d->min_nodes < d->nnodes)
        words_printf(argv, "--nnodes=%u:%u", d->min_nodes, d->nnodes);
    else
        words_printf(argv, "--nnodes=%u", d->nnodes);
    words_printf(argv, "--nproc_per_node=%s", count_word(job));
    words_printf(argv, "--max_restarts=%u", launcher_restarts(job));
    if (put_rendezvous(job, argv, err) < 0 || put_given(job, argv, err) < 0 || launcher_args(job, argv, err) < 0)
        return -1;
    launcher_kind(job, argv);
    uint32_t seconds;
    if (timeout && parse_u32(timeout, &seconds) && seconds < 86400)
        job->run->grace_ms = STEP_GRACE_MS + seconds * 1000;
    return 0;
}

/* ---- planning ---- */

static const char *planned_count(const struct spec *spec, struct arena *arena)
{
    const char *word = count_on(spec, 0, arena);
    for (uint32_t i = 1; i < spec->distributed.nnodes; i++)
        if (!str_eq(word, count_on(spec, i, arena)))
            return "<nproc_per_node of the node>";
    return word;
}

static int describe_meeting(struct plan_builder *b, const struct spec *spec, bool is_static, struct buf *ret,
                            struct error *err)
{
    const char *value, *port = launcher_planned_port(b, spec);
    if (is_static) {
        buf_puts(ret, " --node_rank=" LAUNCHER_NODE_RANK);
        if (launcher_put_flag(b, spec, "master_addr", ret, &value, err) < 0)
            return -1;
        if (!value)
            buf_puts(ret, " --master_addr=" LAUNCHER_FIRST_ADDRESS);
        buf_printf(ret, " --master_port=%s", port);
        return 0;
    }
    if (launcher_planned_flag(b, spec, "rdzv_endpoint", &value, err) < 0)
        return -1;
    if (value && *value != ':')
        return launcher_put_flag(b, spec, "rdzv_endpoint", ret, NULL, err);
    buf_puts(ret, " --rdzv_endpoint=" LAUNCHER_FIRST_ADDRESS);
    if (value)
        buf_shell_quote(ret, value);
    else
        buf_printf(ret, ":%s", port);
    return 0;
}

/* As put_rendezvous; the address, which is passed by its variable, is shown as the flag of newer versions. */
static int describe_rendezvous(struct plan_builder *b, const struct spec *spec, struct buf *ret, struct error *err)
{
    bool alone = spec_flag_value(&spec->distributed, "standalone") != NULL;
    const char *backend, *value;
    if (launcher_planned_flag(b, spec, "rdzv_backend", &backend, err) < 0)
        return -1;
    backend = backend ? backend : "static";
    if (launcher_put_conf(b, spec, !alone && str_eq(backend, "c10d"), ret, err) < 0)
        return -1;
    if (!alone) {
        buf_printf(ret, " --rdzv_backend=%s", backend);
        if (launcher_put_flag(b, spec, "rdzv_id", ret, &value, err) < 0)
            return -1;
        if (!value)
            buf_puts(ret, " --rdzv_id=<id of the run>-<count of the launch>");
        if (describe_meeting(b, spec, str_eq(backend, "static"), ret, err) < 0)
            return -1;
    }
    if (launcher_put_flag(b, spec, "local_addr", ret, &value, err) < 0)
        return -1;
    if (!value && !alone)
        buf_puts(ret, " --local_addr=<address of the node>");
    return 0;
}

static int describe(struct plan_builder *b, const struct spec *spec, const struct words *args, struct buf *ret,
                    struct error *err)
{
    const struct spec_distributed *d = &spec->distributed;
    if (d->min_nodes < d->nnodes)
        buf_printf(ret, " --nnodes=%u:%u", d->min_nodes, d->nnodes);
    else
        buf_printf(ret, " --nnodes=%u", d->nnodes);
    buf_printf(ret, " --nproc_per_node=%s", planned_count(spec, plan_arena(b)));
    buf_printf(ret, " --max_restarts=%u", d->max_restarts - spec_restarts(d));
    if (describe_rendezvous(b, spec, ret, err) < 0)
        return -1;
    for (size_t i = 0; i < d->flag_count; i++)
        if (!is_computed(d->flags[i].flag->name) &&
            launcher_put_flag(b, spec, d->flags[i].flag->name, ret, NULL, err) < 0)
            return -1;
    launcher_put_words(ret, args);
    launcher_put_kind(spec, ret);
    return 0;
}

const struct launcher launcher_torchrun = {
    .id = LAUNCHER_TORCHRUN, .typed = "torchrun", .argparse = true, .build = build, .describe = describe};
