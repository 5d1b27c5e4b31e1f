/*
 * accelerate: one `accelerate launch` on each node, which calls torch.distributed.run in its own process. Started by a
 * few lines of Python that make it pass over the node's default_config.yaml. What accelerate has no flag for reaches
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

/* accelerate starts one plain process unless it is told of a kind of parallelism; --multi_gpu only chooses torchrun,
 * the devices are found by each worker. */
static void put_kind(const struct words *args, uint32_t total, struct words *argv)
{
    static const char *const kinds[] = {"--multi_gpu",       "--use_deepspeed", "--use_fsdp",
                                        "--use_megatron_lm", "--tpu",           "--config_file"};
    bool told = false;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        told = told || has_arg(args, kinds[i]);
    if (!told && total > 1)
        words_add(argv, "--multi_gpu");
    /* its own choice is pdsh, which would start all nodes from each node */
    if (has_arg(args, "--use_deepspeed") && !has_arg(args, "--deepspeed_multinode_launcher")) {
        words_add(argv, "--deepspeed_multinode_launcher");
        words_add(argv, "standard");
    }
}

static int put_given(const struct launcher_job *job, struct words *argv, struct error *err)
{
    static const char *const names[] = {"monitor_interval", "role", "log_dir", "tee"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *value;
        if (launcher_flag(job, names[i], &value, err) < 0)
            return -1;
        if (value)
            words_printf(argv, "--%s=%s", names[i], value);
    }
    return 0;
}

static int build(const struct launcher_job *job, struct words *argv, struct error *err)
{
    const struct spec_distributed *d = job->distributed;
    struct words args = {.arena = job->arena};
    const char *backend, *conf;
    uint32_t each, total;
    if (launcher_equal(job, &each, &total, err) < 0 || launcher_args(job, &args, err) < 0 ||
        launcher_flag(job, "rdzv_backend", &backend, err) < 0)
        return -1;
    bool c10d = backend && str_eq(backend, "c10d");
    if (launcher_conf(job, c10d, &conf, err) < 0)
        return -1;
    words_add(argv, job->python);
    words_add(argv, "-c");
    words_add(argv, rhrun_step_accelerate);
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
    if (c10d) /* on one machine accelerate says none, and torch would take port 29400 */
        step_env_set(job->env, "PET_RDZV_ENDPOINT",
                     launcher_endpoint(job->arena, job->bind->master_address, job->bind->master_port));
    return 0;
}

const struct launcher launcher_accelerate = {
    .id = LAUNCHER_ACCELERATE, .typed = "accelerate launch", .argparse = true, .build = build};
