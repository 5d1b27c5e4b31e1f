/*
 * python: the job's venv, which is made anew whenever this step runs; or an existing conda environment instead; or, for
 * an interpreter that is used as it is, a folder with its usual names. The variants of a job share the venv, except
 * that each has its own if an item installs the working directory itself (editable). Installations chain to this step's
 * key, and not to the packages before it. A role with its own set-up has its own python, on its nodes.
 */
#include "internal.h"

#include <string.h>

/* "@base/FOLDER/JOB", "JOB.ROLE", "JOB-VARIANT" */
static const char *dir_of(struct plan_builder *b, const char *folder, const struct spec_role *role, bool per_variant)
{
    const struct spec *spec = plan_spec_of(b);
    const char *job = spec->job_id ? spec->job_id : spec->name;
    return arena_printf(plan_arena(b), "@base/%s/%s%s%s%s%s", folder, job, role ? "." : "", role ? role->name : "",
                        per_variant ? "-" : "", per_variant ? spec->variant : "");
}

static struct plan_step *add(struct plan_builder *b, const struct spec_role *role, const struct step_python *python,
                             const char *title)
{
    const struct step_choice everywhere = {role, GROUP_SETUP, ON_ALL, NULL, 0};
    const char *name = role ? arena_printf(plan_arena(b), "%s:python", role->name) : "python";
    struct plan_step *s = plan_add(b, &step_kind_python, name, title);
    s->item = python;
    s->role = role;
    step_on_chosen(b, s, &everywhere);
    return s;
}

static int conda_plan(struct plan_builder *b, const struct spec_role *role, struct step_python *python,
                      struct error *err)
{
    struct arena *arena = plan_arena(b);
    const char *name;
    if (plan_expand(b, &step_python_of(plan_spec_of(b), role)->conda, EXPR_PLAIN, &name, err) < 0)
        return -1;
    python->environment =
        role ? arena_printf(arena, "%s.%s", STEP_CONDA_ENVIRONMENT, role->name) : STEP_CONDA_ENVIRONMENT;
    python->link = dir_of(b, "conda", role, true);
    struct plan_step *s = add(b, role, python, arena_printf(arena, "conda environment %s", name));
    s->python = arena_printf(arena, "conda %s", name);
    plan_input(b, s, "conda", name);
    step_input_after_env(b, s);
    return 0;
}

static int venv_plan(struct plan_builder *b, const struct spec_role *role, struct step_python *python,
                     struct error *err)
{
    const struct spec *spec = plan_spec_of(b);
    const struct spec_python *given = step_python_of(spec, role);
    const char *path = NULL, *interpreter;
    bool named = python->kind == PYTHON_VENV_PATH, per_variant = !named && step_installs_in_place(b, spec, role);
    if (named && plan_expand(b, &given->venv_path, EXPR_PLAIN, &path, err) < 0)
        return -1;
    if (plan_expand(b, step_interpreter(spec, role), EXPR_PLAIN, &interpreter, err) < 0)
        return -1;
    python->dir = named ? path : dir_of(b, "venv", role, per_variant);
    const char *title = arena_printf(plan_arena(b), "venv of %s%s%s%s", interpreter,
                                     given->system_site_packages ? ", with the system's packages" : "",
                                     named ? " in " : "", named ? path : "");
    struct plan_step *s = add(b, role, python, title);
    s->python = python->dir;
    if (!per_variant && strchr("/~@", *python->dir)) /* not inside a working directory */
        s->scope = "";
    step_shares(b, s, python->dir);
    if (!strstr(python->dir, "${{"))
        s->creates = arena_printf(plan_arena(b), "%s/bin/python", python->dir);
    plan_input(b, s, "interpreter", interpreter);
    plan_input(b, s, "system_site_packages", given->system_site_packages ? "true" : "false");
    if (named)
        plan_input(b, s, "venv", path);
    step_input_after_env(b, s);
    return 0;
}

/* An interpreter used as it is: if it is the same path on all nodes, makes a folder with its usual names. The folder's
 * name includes the path, so that runs with another interpreter are not affected. */
static int names_plan(struct plan_builder *b, const struct spec_role *role, struct step_python *python,
                      struct error *err)
{
    struct arena *arena = plan_arena(b);
    const char *path;
    char hex[65];
    if (plan_expand(b, step_interpreter(plan_spec_of(b), role), EXPR_PLAIN, &path, err) < 0)
        return -1;
    if ((*path != '/' && !str_starts(path, "~/")) || strstr(path, "${{"))
        return 0;
    digest_sha256_hex(path, strlen(path), hex);
    python->names = arena_printf(arena, "%s-%.8s", dir_of(b, "python", role, false), hex);
    struct plan_step *s = add(b, role, python, arena_printf(arena, "python is %s", path));
    s->python = python->names; /* its own: later steps do not depend on it */
    s->scope = "";
    s->shared = true;
    s->creates = arena_printf(arena, "%s/python3", python->names);
    plan_input(b, s, "interpreter", path);
    return 0;
}

/* For the role's own set-up, or the job's. */
static int plan_one(struct plan_builder *b, const struct spec *spec, const struct spec_role *role, struct error *err)
{
    const struct step_choice everywhere = {role, GROUP_SETUP, ON_ALL, NULL, 0};
    struct step_python *python = arena_alloc(plan_arena(b), sizeof *python);
    python->kind = step_python_kind(spec, role);
    if (step_chosen_count(b, &everywhere) == 0)
        return 0;
    if (python->kind == PYTHON_PLAIN)
        return names_plan(b, role, python, err);
    return python->kind == PYTHON_CONDA ? conda_plan(b, role, python, err) : venv_plan(b, role, python, err);
}

static int python_plan(struct plan_builder *b, const struct spec *spec, struct error *err)
{
    int rc = plan_one(b, spec, NULL, err);
    for (size_t i = 0; i < spec->role_count && rc == 0; i++)
        if (spec->roles[i].own_setup)
            rc = plan_one(b, spec, &spec->roles[i], err);
    return rc;
}

static int names_build(const struct plan *plan, const struct step_bind *bind, const struct step_python *python,
                       struct step_env *env, struct arena *arena, struct wire_run *run, struct error *err)
{
    const char *word, *folder;
    struct buf quoted = {0};
    if (step_interpreter_on(plan, bind, arena, &word, err) < 0 ||
        step_absolute(bind, python->names, arena, &folder, err) < 0)
        return -1;
    buf_shell_quote(&quoted, word);
    step_env_set(env, "RHRUN_PYTHON", quoted.data);
    step_env_set(env, "RHRUN_NAMES", folder);
    buf_free(&quoted);
    run->creates = arena_printf(arena, "%s/python3", folder);
    step_run_script(run, arena, rhrun_step_python_names);
    return 0;
}

static int python_build(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                        struct arena *arena, struct wire_run *ret_run, struct error *err)
{
    const struct step_python *python = step->item;
    const struct spec_python *given = step_python_of(plan->spec, bind->role);
    struct step_env env = {.arena = arena};
    const char *dir, *value;
    step_run_init(plan, step, arena, ret_run);
    if (step_run_env(plan, bind, STEP_ENV_ROLE, &env, NULL, err) < 0 ||
        step_python_dir(plan, bind, arena, &dir, err) < 0)
        return -1;
    step_run_own_env(bind, true, &env);
    step_env_set(&env, "RHRUN_NODE", step_node_name(plan, bind));
    step_run_unset(ret_run, arena, "PYTHONHOME");
    if (python->kind == PYTHON_PLAIN) {
        if (names_build(plan, bind, python, &env, arena, ret_run, err) < 0)
            return -1;
    } else if (python->kind == PYTHON_CONDA) {
        if (step_expand_node(plan, bind, &given->conda, EXPR_PLAIN, arena, &value, err) < 0)
            return -1;
        step_env_set(&env, "RHRUN_CONDA", value);
        if (step_absolute(bind, python->link, arena, &value, err) < 0)
            return -1;
        step_env_set(&env, "RHRUN_LINK", value);
        ret_run->env_out = arena_strdup(arena, python->environment);
        step_run_script(ret_run, arena, rhrun_step_conda_env);
        step_run_unset_secrets(bind, arena, ret_run);
    } else {
        if (step_interpreter_on(plan, bind, arena, &value, err) < 0)
            return -1;
        step_env_set(&env, "RHRUN_PYTHON", value);
        step_env_set(&env, "RHRUN_VENV", dir);
        step_env_set(&env, "RHRUN_SYSTEM", given->system_site_packages ? "1" : "0");
        step_env_set(&env, "RHRUN_KEEP", python->kind == PYTHON_VENV_PATH ? "1" : "0");
        ret_run->creates = arena_printf(arena, "%s/bin/python", dir);
        step_run_script(ret_run, arena, rhrun_step_venv);
    }
    ret_run->env = env.list;
    return 0;
}

const struct step_kind step_kind_python = {.name = "python",
                                           .version = 1,
                                           .phase = PHASE_SETUP,
                                           .is_python = true,
                                           .makes_env = true,
                                           .cached = true,
                                           .plan = python_plan,
                                           .build = python_build,
                                           .verify = true,
                                           .renews = true};
