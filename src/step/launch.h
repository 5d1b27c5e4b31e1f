/* Shared by the files of the launch: an entrypoint in the plan, and the processes that it starts. */
#ifndef RHRUN_STEP_LAUNCH_H
#define RHRUN_STEP_LAUNCH_H

#include "launcher.h"

/* ---- planning: launch_inputs.c ---- */

/* "4", or "gpu". */
const char *launch_nproc_text(struct arena *arena, const struct spec_nproc *np);
/* The requested numbers of nodes, and of workers on them, as inputs. */
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
    const struct spec_env **late_env; /* variables of the workers that need ranks */
};

/* launch_words.c */
/* The program that runs Python, given the node's environment `env`, which may set PATH. */
int launch_python(const struct launch *l, const struct step_env *env, const char **ret, struct error *err);
/* The argv of a worker; EXPR_LATE if it differs between workers and w is NULL. */
enum expr_status launch_argv(const struct launch *l, const struct step_env *env, const struct step_worker *w,
                             struct wire_strings *ret, struct error *err);
/* The command that a launcher starts on each rank: a script or a module without Python before it, shell text with its
 * shell; EXPR_LATE as above. */
enum expr_status launch_program(const struct launch *l, const struct step_env *env, struct wire_strings *ret,
                                struct error *err);

/* launch_env.c */
void launch_set_number(struct step_env *env, const char *name, uint32_t n);
/* The call of a function; nothing for other entrypoints. w NULL: a launcher assigns the ranks, and each worker finds
 * its own in RANK. */
enum expr_status launch_set_call(const struct launch *l, const struct step_worker *w, struct step_env *env,
                                 struct error *err);
void launch_set_addresses(const struct launch *l, struct step_env *env); /* the file of RHRUN_HOSTFILE too */
/* Defaults of the RUN: variables that torchrun sets if nothing else does, for this many workers on the node, and
 * PYTHONUNBUFFERED. */
void launch_set_defaults(const struct launch *l, const struct step_env *env, uint32_t workers);
struct launch_world { /* from the view of a worker on this node */
    uint32_t world_size, local_world_size, group, group_count;
    const char *master_address;
    uint32_t master_port;
};
void launch_set_world(const struct launch *l, const struct launch_world *w, struct step_env *env);

/* launch_files.c */
void launch_set_devices(const struct launch *l, struct step_env *env); /* of the node */
/* LOCAL_RANK; with virtual_local_rank it is 0, and the worker gets its own device from those in the node's
 * environment. */
int launch_set_local(const struct launch *l, const struct step_env *node_env, uint32_t local_rank, struct step_env *env,
                     struct error *err);
/* Log files, error files, CPUs and grace of the run's workers; call it once the workers are made. */
int launch_set_files(const struct launch *l, struct error *err);

/* launch_roles.c */
struct step_part { /* item of a launch step, with roles: the roles that it starts together */
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
