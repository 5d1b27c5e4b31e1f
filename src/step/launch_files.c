/* Settings of a node's workers, with torchrun's meaning: devices, log files, grace. */
#include "launch.h"

#include <stdlib.h>
#include <string.h>

enum { STD_OUT = 1, STD_ERR = 2 };

/* ---- devices ---- */

void launch_set_devices(const struct launch *l, struct step_env *env)
{
    const char *own = l->bind->devices; /* the devices of a point's place; else the node's */
    const char *list = own ? own : spec_devices(l->plan->spec, l->bind->node)->list;
    if (list)
        step_env_set(env, "CUDA_VISIBLE_DEVICES", list);
}

int launch_set_local(const struct launch *l, const struct step_env *node_env, uint32_t local_rank, struct step_env *env,
                     struct error *err)
{
    if (!spec_flag_value(&l->plan->spec->distributed, "virtual_local_rank")) {
        launch_set_number(env, "LOCAL_RANK", local_rank);
        return 0;
    }
    const char *all = step_env_get(node_env, "CUDA_VISIBLE_DEVICES"), *own = all;
    uint32_t k = 0;
    for (; own && *own && k < local_rank; k++) {
        own += strcspn(own, ",");
        own += *own == ',';
    }
    if (all && !*own)
        return error_set(err, ERROR_SPEC, "virtual_local_rank: worker %u of node \"%s\" has no device in \"%s\"",
                         local_rank, roster_name(l->plan->roster, l->bind->node), all);
    launch_set_number(env, "LOCAL_RANK", 0);
    step_env_set(env, "CUDA_VISIBLE_DEVICES",
                 all ? arena_strndup(l->arena, own, strcspn(own, ",")) : arena_printf(l->arena, "%u", local_rank));
    return 0;
}

static void set_cpus(const struct launch *l)
{
    static const char *const bindings[] = {[WIRE_CPUS_NODE] = "node",
                                           [WIRE_CPUS_SOCKET] = "socket",
                                           [WIRE_CPUS_EXCLUSIVE] = "exclusive",
                                           [WIRE_CPUS_CORE_COMPLEX] = "core-complex"};
    const struct spec_distributed *d = &l->plan->spec->distributed;
    const struct spec_text *binding = spec_flag_value(d, "numa_binding");
    l->run->cpus = d->cpu_blocks ? WIRE_CPUS_BLOCK : WIRE_CPUS_ALL;
    for (size_t i = WIRE_CPUS_NODE; binding && i < ARRAY_LEN(bindings); i++)
        if (str_eq(binding->text, bindings[i]))
            l->run->cpus = (uint8_t)i;
}

/* ---- log files ---- */

/* The streams of a local rank, from "3" (for all) or "0:1,1:3". */
static unsigned streams_of(const struct spec_text *text, uint32_t local_rank)
{
    if (!text)
        return 0;
    if (!strchr(text->text, ':'))
        return (unsigned)strtoul(text->text, NULL, 10) & 3;
    for (const char *p = text->text; *p; p += strcspn(p, ","), p += *p == ',') {
        char *end;
        if (strtoul(p, &end, 10) == local_rank && *end == ':')
            return (unsigned)strtoul(end + 1, NULL, 10) & 3;
    }
    return 0;
}

/* LOG_DIR/RUN/attempt_N, in a sweep LOG_DIR/RUN/POINT/attempt_N; inside it the agent makes a folder for each rank. */
static int set_log_dir(const struct launch *l, bool needed, struct error *err)
{
    const struct spec_text *text = spec_flag_value(&l->plan->spec->distributed, "log_dir");
    const char *dir = "@base/logs";
    l->run->log_dir = arena_strdup(l->arena, "");
    if (!needed && !text)
        return 0;
    if (text && step_expand_node(l->plan, l->bind, text, EXPR_PLAIN, l->arena, &dir, err) < 0)
        return -1;
    if (str_eq(dir, "/dev/null"))
        return 0;
    if (step_absolute(l->bind, dir, l->arena, &dir, err) < 0)
        return -1;
    const struct spec_point *point = l->bind->point;
    l->run->log_dir = arena_printf(l->arena, "%s/%s/%s%sattempt_%u", dir, l->bind->run_id ? l->bind->run_id : "run",
                                   point ? point->id : "", point ? "/" : "", l->bind->restart_count);
    return 0;
}

int launch_set_files(const struct launch *l, struct error *err)
{
    const struct spec_distributed *d = &l->plan->spec->distributed;
    const struct spec_text *tee = spec_flag_value(d, "tee"), *redirects = spec_flag_value(d, "redirects");
    const struct spec_text *timeout = spec_flag_value(d, "shutdown_timeout");
    uint32_t seconds;
    if (set_log_dir(l, tee || redirects, err) < 0)
        return -1;
    l->run->flags |= WIRE_RUN_ERROR_FILES;
    set_cpus(l);
    if (timeout && parse_u32(timeout->text, &seconds))
        l->run->grace_ms = seconds * 1000;
    for (uint32_t i = 0; i < l->run->worker_count && *l->run->log_dir; i++) {
        struct wire_worker *w = &l->run->workers[i];
        unsigned both = streams_of(tee, w->local_rank), only = streams_of(redirects, w->local_rank);
        w->files =
            (uint8_t)(((both | only) & STD_OUT ? WIRE_KEEP_OUT : 0) | ((both | only) & STD_ERR ? WIRE_KEEP_ERR : 0) |
                      (only & ~both & STD_OUT ? WIRE_HIDE_OUT : 0) | (only & ~both & STD_ERR ? WIRE_HIDE_ERR : 0));
    }
    return 0;
}
