/* What the kinds share: environments, shell runs, titles. */
#ifndef RHRUN_STEP_INTERNAL_H
#define RHRUN_STEP_INTERNAL_H

#include "rhrun/step.h"

extern const struct step_kind step_kind_sync, step_kind_files, step_kind_activate, step_kind_run, step_kind_copy,
    step_kind_prolog, step_kind_launch, step_kind_epilog;

#define STEP_ENVIRONMENT "activate" /* name of the environment that activate leaves on a node */

/* ---- planning ---- */

/* One input per variable: "env NAME" or "entrypoint.env NAME". Values that come from the caller are digested: what is
 * recorded must not show them. */
int step_input_env(struct plan_builder *b, struct plan_step *s, const char *prefix, const struct spec_env *env,
                   size_t count, struct error *err);
/* The texts as one input: a JSON array. */
int step_input_texts(struct plan_builder *b, struct plan_step *s, const char *name, const struct spec_texts *texts,
                     struct error *err);
/* Chains to all that was added before s. */
void step_input_after_all(struct plan_builder *b, struct plan_step *s);
/* Chains to what makes the environment of s: activate, the venv. */
void step_input_after_env(struct plan_builder *b, struct plan_step *s);
/* The steps of all items of set-up, of whichever kind. */
int step_items_plan(struct plan_builder *b, const struct spec *spec, struct error *err);
/* What every item of set-up has: where it runs, retries. */
void step_item_common(struct plan_builder *b, struct plan_step *s, const struct spec_step *item);
/* One item of its kind each. */
int step_run_plan(struct plan_builder *b, const struct spec *spec, const struct spec_step *item, struct error *err);
int step_copy_plan(struct plan_builder *b, const struct spec *spec, const struct spec_step *item, struct error *err);
/* The first line that has something in it, and " ..." when there is more. */
const char *step_title(struct arena *arena, const char *text);

/* ---- building ---- */

struct step_env { /* assignments, each name once; later ones replace earlier ones */
    struct wire_strings list;
    uint32_t cap;
    struct arena *arena;
};
void step_env_set(struct step_env *e, const char *name, const char *value);
bool step_env_has(const struct step_env *e, const char *name);

struct step_worker { /* of which worker an expression speaks; NULL: of none */
    uint32_t rank, local_rank, world_size, local_world_size;
};
/* EXPR_OK, EXPR_LATE (worker is NULL and one is spoken of) or EXPR_FAILED; err has the place. */
enum expr_status step_expand(const struct plan *plan, const struct step_bind *bind, const struct step_worker *worker,
                             const struct spec_text *text, enum expr_mode mode, struct arena *arena, const char **ret,
                             struct error *err);
/* The same where a worker's names make no sense: EXPR_LATE is an error. 0 or -1. */
int step_expand_node(const struct plan *plan, const struct step_bind *bind, const struct spec_text *text,
                     enum expr_mode mode, struct arena *arena, const char **ret, struct error *err);
/* All fields that every RUN has: slot, secrets, limits, environment names; env is the caller's to fill. */
void step_run_init(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                   struct arena *arena, struct wire_run *ret_run);
void step_run_secrets(const struct step_bind *bind, struct arena *arena, struct wire_run *run);
/* spec.env, with entrypoint.env over it when asked, expanded for the node. What speaks of a worker goes into ret_late
 * (terminated by NULL), or is an error when ret_late is NULL. */
int step_run_env(const struct plan *plan, const struct step_bind *bind, bool entrypoint, struct step_env *env,
                 const struct spec_env ***ret_late, struct error *err);
/* RHRUN_RUN_ID and RHRUN_JOB_ID */
void step_run_own_env(const struct step_bind *bind, bool node_rank, struct step_env *env);
/* One shell worker that runs the text. */
int step_run_shell(const struct plan *plan, const struct step_bind *bind, const struct spec_text *text,
                   struct arena *arena, struct wire_run *run, struct error *err);

/* ---- trees ---- */

struct step_tree_at {
    const char *name, *root;
    const struct tree *tree;
};
const char *step_tree_title(struct arena *arena, const struct tree *tree); /* "9,001 files, 98.0 MB, tree 1a2b3c4"; NULL is fine */
/* Where a tree goes for `to`, a node path. A source that is a file gets the last part of `to` for a name, unless that
 * ends in "/". */
void step_tree_place(struct arena *arena, const char *to, bool is_file, const struct tree *tree,
                     struct step_tree_at *ret);
bool step_path_shared(const char *path); /* is a node path always below the base folder? */
/* `sync` of a step whose tree and place are in the plan. */
int step_tree_sync(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                   struct arena *arena, struct step_sync *ret, struct error *err);

/* around.c: plan and build of the shell text before and after the launch. */
int step_around_plan(struct plan_builder *b, const struct spec *spec, const struct step_kind *kind,
                     const struct spec_text *shell, struct error *err);
int step_around_build(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                      struct arena *arena, struct wire_run *ret_run, struct error *err);

/* The nodes that launch: all with `distributed`, else the first. */
void step_on_launch_nodes(struct plan_builder *b, const struct spec *spec, struct plan_step *s);

#endif
