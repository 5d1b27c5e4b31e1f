/*
 * python: the job's venv, made anew whenever this step runs, or the existing conda environment that it has instead. The
 * variants of a job share the venv; where an item installs the working directory itself (editable), each has its own.
 * What is installed depends on this step's key and not on the packages before it.
 */
#include "internal.h"

#include <string.h>

static const char *venv_dir(struct plan_builder *b, const struct spec *spec, bool per_variant)
{
    const char *job = spec->job_id ? spec->job_id : spec->name;
    return per_variant ? arena_printf(plan_arena(b), "@base/venv/%s-%s", job, spec->variant)
                       : arena_printf(plan_arena(b), "@base/venv/%s", job);
}

static int conda_plan(struct plan_builder *b, const struct spec *spec, struct step_python *python, struct error *err)
{
    const char *name;
    if (plan_expand(b, &spec->python.conda, EXPR_PLAIN, &name, err) < 0)
        return -1;
    struct plan_step *s =
        plan_add(b, &step_kind_python, "python", arena_printf(plan_arena(b), "conda environment %s", name));
    s->item = python;
    plan_on_all(b, s);
    plan_input(b, s, "conda", name);
    step_input_after_env(b, s);
    return 0;
}

static int venv_plan(struct plan_builder *b, const struct spec *spec, struct step_python *python, struct error *err)
{
    const char *path = NULL, *interpreter;
    bool named = python->kind == PYTHON_VENV_PATH, per_variant = !named && step_installs_in_place(b, spec);
    if (named && plan_expand(b, &spec->python.venv_path, EXPR_PLAIN, &path, err) < 0)
        return -1;
    if (plan_expand(b, step_interpreter(spec), EXPR_PLAIN, &interpreter, err) < 0)
        return -1;
    python->dir = named ? path : venv_dir(b, spec, per_variant);
    const char *title = arena_printf(plan_arena(b), "venv of %s%s%s%s", interpreter,
                                     spec->python.system_site_packages ? ", with the system's packages" : "",
                                     named ? " in " : "", named ? path : "");
    struct plan_step *s = plan_add(b, &step_kind_python, "python", title);
    s->item = python;
    plan_on_all(b, s);
    if (!per_variant && strchr("/~@", *python->dir)) /* not below a working directory */
        s->scope = "";
    s->shared = step_path_shared(python->dir);
    if (!strstr(python->dir, "${{"))
        s->creates = arena_printf(plan_arena(b), "%s/bin/python", python->dir);
    plan_input(b, s, "interpreter", interpreter);
    plan_input(b, s, "system_site_packages", spec->python.system_site_packages ? "true" : "false");
    if (named)
        plan_input(b, s, "venv", path);
    step_input_after_env(b, s);
    return 0;
}

static int python_plan(struct plan_builder *b, const struct spec *spec, struct error *err)
{
    struct step_python *python = arena_alloc(plan_arena(b), sizeof *python);
    python->kind = step_python_kind(spec);
    switch (python->kind) {
    case PYTHON_PLAIN:
        return 0;
    case PYTHON_CONDA:
        return conda_plan(b, spec, python, err);
    case PYTHON_VENV:
    case PYTHON_VENV_PATH:
        break;
    }
    return venv_plan(b, spec, python, err);
}

static int python_build(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                        struct arena *arena, struct wire_run *ret_run, struct error *err)
{
    const struct step_python *python = step->item;
    const struct spec *spec = plan->spec;
    struct step_env env = {.arena = arena};
    const char *dir, *value;
    step_run_init(plan, step, bind, arena, ret_run);
    if (step_run_env(plan, bind, false, &env, NULL, err) < 0 || step_python_dir(plan, bind, arena, &dir, err) < 0)
        return -1;
    step_run_own_env(bind, true, &env);
    step_env_set(&env, "RHRUN_NODE", step_node_name(plan, bind));
    step_run_unset(ret_run, arena, "PYTHONHOME");
    if (python->kind == PYTHON_CONDA) {
        if (step_expand_node(plan, bind, &spec->python.conda, EXPR_PLAIN, arena, &value, err) < 0)
            return -1;
        step_env_set(&env, "RHRUN_CONDA", value);
        ret_run->env_out = arena_strdup(arena, STEP_CONDA_ENVIRONMENT);
        step_run_script(ret_run, arena, rhrun_step_conda_env);
        step_run_unset_secrets(bind, arena, ret_run);
    } else {
        if (step_expand_node(plan, bind, step_interpreter(spec), EXPR_PLAIN, arena, &value, err) < 0)
            return -1;
        step_env_set(&env, "RHRUN_PYTHON", value);
        step_env_set(&env, "RHRUN_VENV", dir);
        step_env_set(&env, "RHRUN_SYSTEM", spec->python.system_site_packages ? "1" : "0");
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
                                           .cached = true,
                                           .plan = python_plan,
                                           .build = python_build,
                                           .verify = true,
                                           .renews = true};
