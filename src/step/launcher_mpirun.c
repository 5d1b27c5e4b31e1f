/*
 * mpirun (Open MPI's): one on the first node, which reaches the others by its own ssh. It takes no environment along but
 * what -x names, so all that the job sets is named, secrets too: by name, never with their value.
 */
#include "launcher.h"

#include <string.h>

static void export_names(const struct wire_strings *list, struct words *argv)
{
    for (uint32_t i = 0; i < list->count; i++) {
        words_add(argv, "-x");
        words_printf(argv, "%.*s", (int)strcspn(list->items[i], "="), list->items[i]);
    }
}

/* "a:2,b:4"; on this machine all workers are on one host. */
static const char *hosts(const struct launcher_job *job)
{
    struct buf list = {0};
    if (job->plan->spec->this_machine)
        buf_printf(&list, "localhost:%u", job->plan->world_size);
    for (uint32_t i = 0; i < job->plan->node_count && !job->plan->spec->this_machine; i++)
        buf_printf(&list, "%s%s:%u", i ? "," : "", launcher_address(job, i), job->plan->nproc[i]);
    const char *ret = arena_strdup(job->arena, list.data);
    buf_free(&list);
    return ret;
}

static int build(const struct launcher_job *job, struct words *argv, struct error *err)
{
    const char *folder = NULL;
    if (job->plan->world_size == 0)
        return error_set(err, ERROR_INTERNAL, "the number of workers is not known");
    for (uint32_t i = 0; i < job->plan->node_count && job->bind->nodes && !job->plan->spec->this_machine; i++) {
        const struct wire_facts *facts = job->bind->nodes[i].facts;
        if (!facts || !facts->work_dir)
            continue;
        if (folder && !str_eq(folder, facts->work_dir))
            return error_set(err, ERROR_SPEC,
                             "mpirun starts all workers in one folder, but it is %s on node \"%s\" and %s "
                             "on the first",
                             facts->work_dir, job->plan->spec->hosts[i].name, folder);
        folder = facts->work_dir;
    }
    step_env_set(job->env, "MASTER_ADDR", job->bind->master_address);
    step_env_set(job->env, "MASTER_PORT", arena_printf(job->arena, "%u", job->bind->master_port));
    words_add(argv, "mpirun");
    words_add(argv, "-np");
    words_printf(argv, "%u", job->plan->world_size);
    words_add(argv, "--host");
    words_add(argv, hosts(job));
    words_add(argv, "-x");
    words_add(argv, "PATH");
    export_names(&job->env->list, argv);
    export_names(&job->run->env_default, argv);
    export_names(&job->run->secrets, argv);
    if (launcher_args(job, argv, err) < 0)
        return -1;
    if (job->entry != ENTRY_COMMAND) {
        words_add(argv, job->python);
        words_add(argv, "-u");
    }
    if (job->entry == ENTRY_MODULE)
        words_add(argv, "-m");
    return 0;
}

const struct launcher launcher_mpirun = {.id = LAUNCHER_MPIRUN, .typed = "mpirun", .first_only = true, .build = build};
