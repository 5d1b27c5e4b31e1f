/* Shared by the kinds: environments, shell runs, titles. */
#ifndef RHRUN_STEP_INTERNAL_H
#define RHRUN_STEP_INTERNAL_H

#include "rhrun/step.h"

extern const struct step_kind step_kind_sync, step_kind_files, step_kind_activate, step_kind_python, step_kind_run,
    step_kind_pip, step_kind_requirements, step_kind_apt, step_kind_conda, step_kind_git, step_kind_copy,
    step_kind_restore, step_kind_prolog, step_kind_launch, step_kind_ready, step_kind_ready_log, step_kind_epilog,
    step_kind_result, step_kind_outputs;

/* Programs that run on nodes (the files beside this one), as text. */
extern const char rhrun_step_install[], rhrun_step_venv[], rhrun_step_python_names[], rhrun_step_conda_env[],
    rhrun_step_conda[], rhrun_step_apt[],
    rhrun_step_git[], rhrun_step_call[];

#define STEP_ENVIRONMENT "activate"     /* name of the environment that activate leaves on a node */
#define STEP_CONDA_ENVIRONMENT "python" /* name of the same as changed by the job's conda environment */

/* ---- planning ---- */

bool step_sets(const struct spec_env *env, size_t count, const char *name);
/* One input per variable: "env NAME" or "entrypoint.env NAME". Values from the caller are digested, because records
 * must not show them. */
int step_input_env(struct plan_builder *b, struct plan_step *s, const char *prefix, const struct spec_env *env,
                   size_t count, struct error *err);
/* The variables of a set-up item: the job's, overridden by its role's, as "env NAME". */
int step_input_item_env(struct plan_builder *b, struct plan_step *s, const struct spec_role *role, struct error *err);
/* The texts as one input: a JSON array. */
int step_input_texts(struct plan_builder *b, struct plan_step *s, const char *name, const struct spec_texts *texts,
                     struct error *err);
/* Chains s to all earlier steps whose results s may use on its nodes: among set-up, to that of the job and of its own
 * role, never of another role. */
void step_input_after_all(struct plan_builder *b, struct plan_step *s);
/* Chains to the steps that make the environment of s: activate, the venv. */
void step_input_after_env(struct plan_builder *b, struct plan_step *s);
/* The steps of all items of set-up, of whichever kind. */
int step_items_plan(struct plan_builder *b, const struct spec *spec, struct error *err);
/* Sets what every set-up item has: its role, nodes, Python and retries. */
void step_item_common(struct plan_builder *b, struct plan_step *s, const struct spec_step *item);
/* Each plans one item of its kind. */
int step_run_plan(struct plan_builder *b, const struct spec *spec, const struct spec_step *item, struct error *err);
int step_pip_plan(struct plan_builder *b, const struct spec *spec, const struct spec_step *item, struct error *err);
int step_requirements_plan(struct plan_builder *b, const struct spec *spec, const struct spec_step *item,
                           struct error *err);
int step_apt_plan(struct plan_builder *b, const struct spec *spec, const struct spec_step *item, struct error *err);
int step_conda_plan(struct plan_builder *b, const struct spec *spec, const struct spec_step *item, struct error *err);
int step_git_plan(struct plan_builder *b, const struct spec *spec, const struct spec_step *item, struct error *err);
int step_copy_plan(struct plan_builder *b, const struct spec *spec, const struct spec_step *item, struct error *err);
/* scripts.c: an item with a verb and packages, which are inputs together with its options. */
struct plan_step *step_words_plan(struct plan_builder *b, const struct step_kind *kind, const struct spec_step *item,
                                  const char *verb, struct error *err);
/* The first non-empty line, with " ..." if there is more. */
const char *step_title(struct arena *arena, const char *text);

/* ---- building ---- */

struct step_env { /* assignments, each name once; later ones replace earlier ones */
    struct wire_strings list;
    uint32_t cap;
    struct arena *arena;
};
void step_env_set(struct step_env *e, const char *name, const char *value);
bool step_env_has(const struct step_env *e, const char *name);
const char *step_env_get(const struct step_env *e, const char *name); /* or NULL */

struct step_worker { /* the worker that an expression is about; NULL: none */
    uint32_t number; /* wire_worker.rank */
    bool ranked;     /* it has the values below */
    uint32_t rank, local_rank, world_size, local_world_size;
    const char *role;
    uint32_t role_rank, role_size;
    bool has_peer;
    uint32_t peer_rank;
    const char *peer_address; /* NULL = not known */
};
/* The values for expressions about a node, and a worker on it. */
struct expr_context step_context(const struct plan *plan, const struct step_bind *bind,
                                 const struct step_worker *worker);
/* EXPR_OK, EXPR_LATE (the text needs a worker and worker is NULL) or EXPR_FAILED; err has the place. */
enum expr_status step_expand(const struct plan *plan, const struct step_bind *bind, const struct step_worker *worker,
                             const struct spec_text *text, enum expr_mode mode, struct arena *arena, const char **ret,
                             struct error *err);
/* The same for texts that must not use a worker's names: EXPR_LATE is an error. 0 or -1. */
int step_expand_node(const struct plan *plan, const struct step_bind *bind, const struct spec_text *text,
                     enum expr_mode mode, struct arena *arena, const char **ret, struct error *err);
/* Fills the fields that every RUN has: slot, secrets, limits, environment names. The caller fills env. */
void step_run_init(const struct plan *plan, const struct plan_step *step, struct arena *arena,
                   struct wire_run *ret_run);
void step_run_secrets(const struct step_bind *bind, struct arena *arena, struct wire_run *run);
/* spec.env, overridden on request by the env of bind->role and by that of the role's or the job's entrypoint, expanded
 * for the node. Variables that need a worker go into ret_late (NULL-terminated). If ret_late is NULL, a role's such
 * variable is left out, and one of the job's is an error. */
enum { STEP_ENV_ROLE = 1, STEP_ENV_ENTRY = 2 };
int step_run_env(const struct plan *plan, const struct step_bind *bind, unsigned layers, struct step_env *env,
                 const struct spec_env ***ret_late, struct error *err);
/* RHRUN_RUN_ID and RHRUN_JOB_ID */
void step_run_own_env(const struct step_bind *bind, bool node_rank, struct step_env *env);
/* A name of the launch generation that is unique among all that may meet, points included. */
const char *step_round(const struct step_bind *bind, struct arena *arena);
/* Removes a variable from the environment that the step starts with; the variables of secrets. */
void step_run_unset(struct wire_run *run, struct arena *arena, const char *name);
void step_run_unset_secrets(const struct step_bind *bind, struct arena *arena, struct wire_run *run);
/* An item of set-up: everything except its worker; the caller adds to env and then puts it into the run. */
int step_run_item(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                  struct step_env *env, struct arena *arena, struct wire_run *ret_run, struct error *err);
/* One worker: argv (NULL-terminated); or one of rhrun's own shell programs, with the texts as its arguments. */
void step_run_argv(struct wire_run *run, struct arena *arena, const char *const *argv);
void step_run_script(struct wire_run *run, struct arena *arena, const char *script);
int step_run_script_with(const struct plan *plan, const struct step_bind *bind, struct wire_run *run,
                         struct arena *arena, const char *script, const struct spec_texts *const *lists,
                         struct error *err);
/* One shell worker that runs the text. */
int step_run_shell(const struct plan *plan, const struct step_bind *bind, const struct spec_text *text,
                   struct arena *arena, struct wire_run *run, struct error *err);

/* ---- python ---- */

/* role: any role; a role without its own set-up, and NULL, have the job's Python. On a node it is bind->role. */
enum step_python_kind { PYTHON_PLAIN, PYTHON_VENV, PYTHON_VENV_PATH, PYTHON_CONDA };
struct step_python { /* item of the step "python" */
    enum step_python_kind kind;
    const char *names;       /* PLAIN: node path of a folder with the interpreter as `python` and `python3` */
    const char *dir;         /* of a venv: node path, late names as written */
    const char *environment; /* CONDA: name of the environment that it leaves on the node */
    const char *link; /* CONDA: node path of a link to the environment, which the step also leaves, because the name
                         does not say where it is */
};
const struct spec_python *step_python_of(const struct spec *spec, const struct spec_role *role);
enum step_python_kind step_python_kind(const struct spec *spec, const struct spec_role *role);
const struct spec_text *step_interpreter(const struct spec *spec, const struct spec_role *role);
const char *step_python_text(struct plan_builder *b, const struct spec_role *role); /* for people */
/* The interpreter on a node: a path in the spec is a path on the node, with "~/" for its home directory; a word is
 * looked up in PATH. */
int step_interpreter_on(const struct plan *plan, const struct step_bind *bind, struct arena *arena, const char **ret,
                        struct error *err);
/* The step that makes a venv or checks a conda environment. NULL: the interpreter is used as it is. */
const struct plan_step *step_python_planned(struct plan_builder *b, const struct spec_role *role);
/* The role whose Python prolog and epilog use on each node: NULL (the job's) where the job's set-up runs, else the
 * first role there. ret[node], of spec->nnodes. */
void step_python_roles(const struct spec *spec, const struct spec_role **ret);
/* The absolute folder of the venv on the node; NULL = there is none. */
int step_python_dir(const struct plan *plan, const struct step_bind *bind, struct arena *arena, const char **ret,
                    struct error *err);
/* The program that runs Python: the venv's, the conda environment's, or the interpreter. */
int step_python_program(const struct plan *plan, const struct step_bind *bind, struct arena *arena, const char **ret,
                        struct error *err);
/* Puts the venv or the conda environment into the environment that the step starts with. */
int step_python_env(const struct plan *plan, const struct step_bind *bind, struct arena *arena, struct wire_run *run,
                    struct step_env *env, struct error *err);
const char *step_node_name(const struct plan *plan, const struct step_bind *bind);
/* A node path made absolute; what the caller may not know yet is ERROR_INTERNAL. */
/* A path in the spec as a path on the node: "~/" becomes the home directory, anything else stays. */
int step_home(const struct step_bind *bind, const char *path, struct arena *arena, const char **ret, struct error *err);
int step_absolute(const struct step_bind *bind, const char *path, struct arena *arena, const char **ret,
                  struct error *err);

/* ---- a function ---- */

struct step_call { /* the entrypoint with the arguments, and the known names */
    struct expr_context ctx;
    const struct spec_entrypoint *entry;
    bool keep_late;
    struct arena *arena;
};
/* The positional arguments as a JSON array; the keyword arguments as a JSON object (expr_expand_doc). */
enum expr_status step_call_args(const struct step_call *call, struct buf *ret, struct error *err);
enum expr_status step_call_kwargs(const struct step_call *call, struct buf *ret, struct error *err);
/* The rank for call.py: "3", or the variable that has it, "\"RANK\"". */
enum expr_status step_call_json(const struct step_call *call, const struct step_bind *bind, const char *rank,
                                const char **ret, struct error *err);
/* The folder on nodes for return values: a node path. */
const char *step_result_path(const struct spec *spec, const struct step_bind *bind, struct arena *arena);

/* install.c: shared by pip and requirements. */
struct plan_step *step_install_add(struct plan_builder *b, const struct spec *spec, const struct step_kind *kind,
                                   const struct spec_step *item, const char *title, const char *command);
int step_install_inputs(struct plan_builder *b, struct plan_step *s, const struct spec *spec,
                        const struct spec_step *item, struct error *err);
int step_install_build(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                       struct arena *arena, struct wire_run *ret_run, struct error *err);

/* brought.c: earlier steps that make files which the tree lacks. */
struct step_bringers {
    const struct plan_step **items; /* none twice */
    size_t count;
};
/* Adds the steps before s (NULL: all so far) that put the file there, or (folder) something below it; false: none
 * certainly does. */
bool step_find_bringers(struct plan_builder *b, const struct plan_step *s, const struct spec_role *role,
                        const char *path, bool folder, struct step_bringers *list);
/* Adds all `run` items so far, because any of them may make a file that only the node has; false: there is none, or the
 * job works in place. */
bool step_find_runs(struct plan_builder *b, const struct spec *spec, const struct spec_role *role,
                    struct step_bringers *list);
void step_input_bringers(struct plan_builder *b, struct plan_step *s, const struct step_bringers *list);

/* read.c: files of the working directory that installations read. */
struct step_requirements {
    bool on_node;         /* only the node has the file, or part of it */
    struct step_bringers by; /* the steps that make it there, as far as known */
    bool editable;        /* one of `folders` is installed in place */
    const char **paths;   /* the file and all that it includes, below the working directory */
    const char **digests; /* "sha256:..." of each */
    size_t count;
    const char **folders; /* packages that it names by their folder: "./x" */
    size_t folder_count;
};
int step_read_requirements(struct plan_builder *b, const struct spec *spec, const struct spec_role *role,
                           const struct spec_text *file, struct step_requirements *ret, struct error *err);
/* The inputs of a package that is a folder (or file) in the working directory: its build files if it is editable, else
 * all files; or the steps that make it, if the tree lacks it. `said`: the place for messages. */
int step_input_package(struct plan_builder *b, struct plan_step *s, const struct spec *spec,
                       const struct spec_text *said, const char *package, bool editable, struct error *err);
/* Whether an item of the job's set-up, or of a role's own, installs the working directory itself, so that variants must
 * not share a venv. */
bool step_installs_in_place(struct plan_builder *b, const struct spec *spec, const struct spec_role *role);

/* ---- trees ---- */

struct step_tree_at {
    const char *name, *root;
    const struct tree *tree;
};
const char *step_tree_title(struct arena *arena,
                            const struct tree *tree); /* "9,001 files, 98.0 MB, tree 1a2b3c4"; NULL is fine */
const char *step_oid_hex(struct arena *arena, const struct tree_file *f);
/* The root of a tree for `to`, a node path. A source that is a file gets the last part of `to` as its name, unless `to`
 * ends in "/". */
void step_tree_place(struct arena *arena, const char *to, bool is_file, const struct tree *tree,
                     struct step_tree_at *ret);
/* For a step that acts only below this node path: sets shared and one_place, for nodes that share the folder. */
void step_shares(struct plan_builder *b, struct plan_step *s, const char *path);
/* `sync` of a step whose tree and place are in the plan. */
int step_tree_sync(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                   struct arena *arena, struct step_sync *ret, struct error *err);

/* around.c: plan and build of the shell text before and after the launch. */
int step_around_plan(struct plan_builder *b, const struct spec *spec, const struct step_kind *kind,
                     const struct spec_text *shell, struct error *err);
int step_around_build(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                      struct arena *arena, struct wire_run *ret_run, struct error *err);

/* ---- where a step runs ---- */

enum step_group {
    GROUP_SETUP,
    GROUP_FILES,
    GROUP_ALL
};                   /* without a role: the nodes of the job's set-up, of its files, or all */
struct step_choice { /* the nodes that the spec's `on` or `nodes` names, among the role's nodes or the group */
    const struct spec_role *role;
    enum step_group group;
    enum spec_on_kind on;
    const uint32_t *nodes;
    size_t count;
};
/* The number of chosen nodes: a step without nodes is not added. */
size_t step_chosen_count(struct plan_builder *b, const struct step_choice *choice);
void step_on_chosen(struct plan_builder *b, struct plan_step *s, const struct step_choice *choice);
/* From `on` of an item, and `nodes` of an output. */
struct step_choice step_item_choice(const struct spec_step *item);
struct step_choice step_output_choice(const struct spec *spec, const struct spec_output *o);
/* Whether `first` means the node of rank 0, which may be any node: then the step is on all nodes. */
bool step_output_at_rank0(const struct spec *spec, const struct spec_output *o);
/* The nodes that launch: all with `distributed`, else the first. */
void step_on_launch_nodes(struct plan_builder *b, const struct spec *spec, struct plan_step *s);

#endif
