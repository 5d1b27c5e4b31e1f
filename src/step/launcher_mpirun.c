/*
 * mpirun (Open MPI's). On one machine it is started as it is. With several nodes it runs on the first, and rhrun's own
 * program (mpirun.py) on all nodes replaces ssh: the nodes need no keys, host names or sshd between them, and each
 * keeps its own environment. Each worker gets torchrun's variables for its rank.
 */
#include "launcher.h"

#include <string.h>

/* Whether one machine has all workers. */
static bool is_alone(const struct spec *spec)
{
    return spec->placement == PLACEMENT_HERE || spec->nnodes == 1;
}

/* "localhost:2,node-1:4": names that mpirun passes to its agent, and that are never looked up. */
static const char *hosts(const struct launcher_job *job)
{
    struct buf list = {0};
    if (is_alone(job->plan->spec))
        buf_printf(&list, "localhost:%u", job->plan->world_size);
    for (uint32_t i = 0; i < job->plan->node_count && !is_alone(job->plan->spec); i++)
        if (i == 0)
            buf_printf(&list, "localhost:%u", job->plan->nproc[0]);
        else
            buf_printf(&list, ",node-%u:%u", i, job->plan->nproc[i]);
    const char *ret = arena_strdup(job->arena, list.data);
    buf_free(&list);
    return ret;
}

static int put_mpirun(const struct launcher_job *job, struct words *argv, struct error *err)
{
    words_add(argv, "mpirun");
    words_add(argv, "-np");
    words_printf(argv, "%u", job->plan->world_size);
    words_add(argv, "--host");
    words_add(argv, hosts(job));
    return launcher_args(job, argv, err);
}

/* A token that only the job's nodes know. It is made from the owner's id, which no event has, and from the generation's
 * nonce, which its event has, so that another controller sends the same token to a node that lacks it. It is passed as
 * a secret, so no log shows it. */
static void set_token(const struct launcher_job *job)
{
    char hex[65];
    struct wire_strings *secrets = &job->run->secrets;
    const char *text = arena_printf(job->arena, "mpirun %s %s %s", job->bind->owner, launcher_round(job),
                                    job->bind->nonce ? job->bind->nonce : "");
    digest_sha256_hex(text, strlen(text), hex);
    char **items = arena_array(job->arena, secrets->count + 1, sizeof *items);
    if (secrets->count)
        memcpy(items, secrets->items, secrets->count * sizeof *items);
    items[secrets->count++] = arena_printf(job->arena, "RHRUN_MPI_TOKEN=%s", hex);
    secrets->items = items;
}

static int put_over_nodes(const struct launcher_job *job, struct words *argv, struct error *err)
{
    struct words mpirun = {.arena = job->arena};
    if (!job->bind->owner)
        return error_set(err, ERROR_INTERNAL, "the job's owner is not known");
    if (job->bind->node == 0 && put_mpirun(job, &mpirun, err) < 0)
        return -1;
    set_token(job);
    words_add(argv, job->python);
    words_add(argv, "-c");
    words_add(argv, rhrun_step_mpirun);
    words_printf(argv, "%u", job->plan->node_count);
    words_add(argv, job->bind->master_address);
    words_printf(argv, "%u", job->bind->master_port);
    words_add(argv, rhrun_step_mpi_worker);
    words_printf(argv, "%u", mpirun.list.count);
    for (uint32_t i = 0; i < mpirun.list.count; i++)
        words_add(argv, mpirun.list.items[i]);
    return 0;
}

/* A user who logs in as root has decided so, and mpirun's refusal would only end the job. Only Open MPI's mpirun reads
 * these variables. */
static void allow_root(const struct launcher_job *job)
{
    static const char *const names[] = {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (!step_env_has(job->env, names[i]))
            step_env_set(job->env, names[i], "1");
}

static int build(const struct launcher_job *job, struct words *argv, struct error *err)
{
    if (job->plan->world_size == 0)
        return error_set(err, ERROR_INTERNAL, "the number of workers is not known");
    step_env_set(job->env, "MASTER_ADDR", job->bind->master_address);
    step_env_set(job->env, "MASTER_PORT", arena_printf(job->arena, "%u", job->bind->master_port));
    allow_root(job);
    if ((is_alone(job->plan->spec) ? put_mpirun : put_over_nodes)(job, argv, err) < 0)
        return -1;
    if (is_alone(job->plan->spec)) {
        words_add(argv, "/bin/sh");
        words_add(argv, "-c");
        words_add(argv, rhrun_step_mpi_worker);
        words_add(argv, "rhrun");
    }
    if (!launcher_is_program(job)) {
        words_add(argv, job->python);
        words_add(argv, "-u");
    }
    if (job->entry == ENTRY_MODULE)
        words_add(argv, "-m");
    return 0;
}

/* ---- planning ---- */

static void put_planned(struct buf *ret, uint32_t count, const char *otherwise)
{
    if (count)
        buf_printf(ret, "%u", count);
    else
        buf_puts(ret, otherwise);
}

static void describe_hosts(const struct spec *spec, struct buf *ret)
{
    buf_puts(ret, " --host localhost:");
    if (is_alone(spec)) {
        put_planned(ret, launcher_planned_total(spec), "<number of all workers>");
        return;
    }
    for (uint32_t i = 0; i < spec->nnodes; i++) {
        if (i > 0)
            buf_printf(ret, ",node-%u:", i);
        put_planned(ret, launcher_planned_nproc(spec, i), "<workers of the node>");
    }
}

/* On the first node; the program that sets torchrun's variables is shown by its name. */
static int describe(struct plan_builder *b, const struct spec *spec, const struct words *args, struct buf *ret,
                    struct error *err)
{
    (void)err;
    enum spec_entry_kind kind = spec->entrypoint.kind;
    buf_puts(ret, " -np ");
    put_planned(ret, launcher_planned_total(spec), "<number of all workers>");
    describe_hosts(spec, ret);
    launcher_put_words(ret, args);
    buf_puts(ret, " /bin/sh -c <RANK and the like, of what Open MPI says> rhrun");
    if (kind == ENTRY_SCRIPT || kind == ENTRY_MODULE)
        buf_printf(ret, " %s -u%s", step_python_text(b, NULL), kind == ENTRY_MODULE ? " -m" : "");
    return 0;
}

const struct launcher launcher_mpirun = {
    .id = LAUNCHER_MPIRUN, .typed = "mpirun", .once_per_machine = true, .build = build, .describe = describe};
