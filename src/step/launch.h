/* What the files of the launch share: what an entrypoint is in the plan, and what it starts. */
#ifndef RHRUN_STEP_LAUNCH_H
#define RHRUN_STEP_LAUNCH_H

#include "launcher.h"

/* ---- planning: launch_inputs.c ---- */

/* "4", or "gpu". */
const char *launch_nproc_text(struct arena *arena, const struct spec_nproc *np);
/* How many nodes, and how many workers on them, as it was asked for. */
void launch_input_layout(struct plan_builder *b, struct plan_step *s, const struct spec *spec);
/* The program with its arguments, cwd, env as inputs whose names begin with prefix ("" or "trainer."). */
int launch_input_entry(struct plan_builder *b, struct plan_step *s, const char *prefix, const struct spec_role *role,
                       struct error *err);
/* The command as one would type it. role NULL: the job's, as above. */
int launch_describe(struct plan_builder *b, const struct spec_role *role, struct buf *ret, struct error *err);

/* ---- building ---- */

struct launch {
    const struct plan *plan;
    const struct step_bind *bind;
    struct arena *arena;
    struct wire_run *run;
    const struct spec_entrypoint *entry;
    const struct spec_role *role;     /* NULL = there are no roles */
    const struct spec_env **late_env; /* of the workers: speaks of ranks */
};

/* launch_words.c */
/* The program that runs Python, with what the node's own environment `env` says of PATH. */
int launch_python(const struct launch *l, const struct step_env *env, const char **ret, struct error *err);
/* The argv of a worker; EXPR_LATE when it is not the same for all and w is NULL. */
enum expr_status launch_argv(const struct launch *l, const struct step_env *env, const struct step_worker *w,
                             struct wire_strings *ret, struct error *err);
/* What a launcher starts on each rank: no Python before a script or a module, a shell before its text; EXPR_LATE as
 * above. */
enum expr_status launch_program(const struct launch *l, const struct step_env *env, struct wire_strings *ret,
                                struct error *err);

/* launch_env.c */
void launch_set_number(struct step_env *env, const char *name, uint32_t n);
/* What a function is called with; nothing for other entrypoints. w NULL: where a launcher gives the ranks, each worker
 * finds its own in RANK. */
enum expr_status launch_set_call(const struct launch *l, const struct step_worker *w, struct step_env *env,
                                 struct error *err);
void launch_set_addresses(const struct launch *l, struct step_env *env); /* the file of RHRUN_HOSTFILE too */
/* RUN defaults: what torchrun sets where nothing else does, with so many workers on the node, and PYTHONUNBUFFERED. */
void launch_set_defaults(const struct launch *l, const struct step_env *env, uint32_t workers);
struct launch_world { /* as a worker on this node sees it */
    uint32_t world_size, local_world_size, group, group_count;
    const char *master_address;
    uint32_t master_port;
};
void launch_set_world(const struct launch *l, const struct launch_world *w, struct step_env *env);

/* launch_files.c */
void launch_set_devices(const struct launch *l, struct step_env *env); /* of the node */
/* LOCAL_RANK; with virtual_local_rank 0, and the worker's own device of those in the node's environment. */
int launch_set_local(const struct launch *l, const struct step_env *node_env, uint32_t local_rank, struct step_env *env,
                     struct error *err);
/* Log files, error files, CPUs and the time to stop of the run's workers, once they are made. */
int launch_set_files(const struct launch *l, struct error *err);

/* launch_roles.c */
struct step_part { /* item of a launch step, with roles: those that it starts together */
    uint32_t *roles;
    size_t count;
    const struct spec_role *role; /* the one that starts by itself, else NULL */
};
int launch_plan_roles(struct plan_builder *b, const struct spec *spec, struct error *err);
/* kind_ready.c: the step that ends well once the role is ready. */
int step_ready_plan(struct plan_builder *b, const struct spec *spec, uint32_t role, const struct plan_step *launch,
                    struct plan_step **ret, struct error *err);
int launch_build_roles(struct launch *l, const struct plan_step *step, struct step_env *env, struct error *err);

#endif
