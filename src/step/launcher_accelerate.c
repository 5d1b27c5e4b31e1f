/*
 * accelerate: one `accelerate launch` on each node, which calls torch.distributed.run in its own process. A few lines
 * of Python start it, so that it ignores the node's default_config.yaml. Settings without a flag of accelerate reach
 * torch's parser by its PET_ variables.
 */
#include "launcher.h"

#include <string.h>

static bool has_arg(const struct words *argv, const char *name)
{
    size_t len = strlen(name);
    for (uint32_t i = 0; i < argv->list.count; i++) {
        const char *word = argv->list.items[i];
        size_t k = 0;
        while (k < len && word[k] && (k > 1 && word[k] == '-' ? '_' : word[k]) == name[k])
            k++;
        if (k == len && (!word[k] || word[k] == '='))
            return true;
    }
    return false;
}

/* accelerate starts one plain process unless a kind of parallelism is given; --multi_gpu only selects torchrun, and
 * each worker finds its devices. */
static bool is_told(const struct words *args)
{
    static const char *const kinds[] = {"--multi_gpu",       "--use_deepspeed", "--use_fsdp",
                                        "--use_megatron_lm", "--tpu",           "--config_file"};
    bool told = false;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        told = told || has_arg(args, kinds[i]);
    return told;
}

static void put_kind(const struct words *args, uint32_t total, struct words *argv)
{
    if (!is_told(args) && total > 1)
        words_add(argv, "--multi_gpu");
    /* its default is pdsh, which would start all nodes from each node */
    if (has_arg(args, "--use_deepspeed") && !has_arg(args, "--deepspeed_multinode_launcher")) {
        words_add(argv, "--deepspeed_multinode_launcher");
        words_add(argv, "standard");
    }
}

static const char *const given[] = {"monitor_interval", "role", "log_dir", "tee"};

static int put_given(const struct launcher_job *job, struct words *argv, struct error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(given); i++) {
        const char *value;
        if (launcher_flag(job, given[i], &value, err) < 0)
            return -1;
        if (value)
            words_printf(argv, "--%s=%s", given[i], value);
    }
    return 0;
}

static int build(const struct launcher_job *job, struct words *argv, struct error *err)
{
    const struct spec_distributed *d = job->distributed;
    struct words args = {.arena = job->arena};
    const char *backend, *conf, *program;
    uint32_t each, total;
    if (launcher_equal(job, &each, &total, err) < 0 || launcher_args(job, &args, err) < 0 ||
        launcher_flag(job, "rdzv_backend", &backend, err) < 0 ||
        launcher_marked(job, rhrun_step_accelerate, &program, err) < 0)
        return -1;
    bool c10d = backend && str_eq(backend, "c10d");
    if (launcher_conf(job, c10d, &conf, err) < 0)
        return -1;
    words_add(argv, job->python);
    words_add(argv, "-c");
    words_add(argv, program);
    words_printf(argv, "--num_machines=%u", d->nnodes);
    words_printf(argv, "--num_processes=%u", total);
    words_printf(argv, "--machine_rank=%u", job->bind->node);
    words_printf(argv, "--main_process_ip=%s", launcher_host(job->arena, job->bind->master_address));
    words_printf(argv, "--main_process_port=%u", job->bind->master_port);
    words_printf(argv, "--rdzv_backend=%s", backend ? backend : "static");
    if (*conf)
        words_printf(argv, "--rdzv_conf=%s", conf);
    words_printf(argv, "--max_restarts=%u", launcher_restarts(job));
    put_kind(&args, total, argv);
    if (put_given(job, argv, err) < 0)
        return -1;
    for (uint32_t i = 0; i < args.list.count; i++)
        words_add(argv, args.list.items[i]);
    launcher_kind(job, argv);
    if (d->nproc.kind == NPROC_CPU && !step_env_has(job->env, "ACCELERATE_USE_CPU"))
        step_env_set(job->env, "ACCELERATE_USE_CPU", "true");
    step_env_set(job->env, "PET_RDZV_ID", launcher_round(job));
    step_env_set(job->env, "PET_LOCAL_ADDR", launcher_address(job, job->bind->node));
    if (c10d) /* on one machine accelerate gives no endpoint, and torch would use port 29400 */
        step_env_set(job->env, "PET_RDZV_ENDPOINT",
                     launcher_endpoint(job->arena, job->bind->master_address, job->bind->master_port));
    return 0;
}

/* ---- planning ---- */

/* As build; settings passed by variables are not on the command line. */
static int describe(struct plan_builder *b, const struct spec *spec, const struct words *args, struct buf *ret,
                    struct error *err)
{
    const struct spec_distributed *d = &spec->distributed;
    struct words kind = {.arena = plan_arena(b)};
    uint32_t total = launcher_planned_total(spec);
    const char *backend;
    if (launcher_planned_flag(b, spec, "rdzv_backend", &backend, err) < 0)
        return -1;
    buf_printf(ret, " --num_machines=%u", d->nnodes);
    if (total)
        buf_printf(ret, " --num_processes=%u", total);
    else
        buf_puts(ret, " --num_processes=<number of all workers>");
    buf_puts(ret, " --machine_rank=" LAUNCHER_NODE_RANK " --main_process_ip=" LAUNCHER_FIRST_ADDRESS);
    buf_printf(ret, " --main_process_port=%s --rdzv_backend=%s", launcher_planned_port(b, spec),
               backend ? backend : "static");
    if (launcher_put_conf(b, spec, backend && str_eq(backend, "c10d"), ret, err) < 0)
        return -1;
    buf_printf(ret, " --max_restarts=%u", d->max_restarts - spec_restarts(d));
    put_kind(args, total ? total : d->nnodes, &kind);
    launcher_put_words(ret, &kind);
    if (!total && d->nnodes == 1 && !is_told(args))
        buf_puts(ret, " <--multi_gpu where there are several workers>");
    for (size_t i = 0; i < ARRAY_LEN(given); i++)
        if (launcher_put_flag(b, spec, given[i], ret, NULL, err) < 0)
            return -1;
    launcher_put_words(ret, args);
    launcher_put_kind(spec, ret);
    return 0;
}

const struct launcher launcher_accelerate = {
    .id = LAUNCHER_ACCELERATE, .typed = "accelerate launch", .argparse = true, .build = build, .describe = describe};
