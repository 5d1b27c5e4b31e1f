/* Shared by prolog and epilog: shell text of the entrypoint before and after the launch, on the nodes that launch, run
 * with every launch. */
#include "internal.h"

struct around { /* item */
    const struct spec_text *shell;
    const struct spec_role **roles; /* per node: the role whose Python it uses there */
};

bool step_is_around(const char *name)
{
    return str_eq(name, step_kind_prolog.name) || str_eq(name, step_kind_epilog.name);
}

int step_around_plan(struct plan_builder *b, const struct spec *spec, const struct step_kind *kind,
                     const struct spec_text *shell, struct error *err)
{
    const struct spec_entrypoint *entry = &spec->entrypoint;
    if (!shell->text || !*shell->text)
        return 0;
    const char *text;
    if (plan_expand(b, shell, EXPR_SHELL, &text, err) < 0)
        return -1;
    struct around *item = arena_alloc(plan_arena(b), sizeof *item);
    item->shell = shell;
    item->roles = arena_array(plan_arena(b), spec->nnodes, sizeof *item->roles);
    step_python_roles(spec, item->roles);
    struct plan_step *s = plan_add(b, kind, kind->name, step_title(plan_arena(b), text));
    s->item = item;
    s->command = text;
    step_on_launch_nodes(b, spec, s);
    plan_input(b, s, kind->name, text);
    if (step_input_env(b, s, "env", spec->env, spec->env_count, err) < 0 ||
        step_input_env(b, s, "entrypoint.env", entry->env, entry->env_count, err) < 0)
        return -1;
    step_input_after_all(b, s);
    return 0;
}

int step_around_build(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                      struct arena *arena, struct wire_run *ret_run, struct error *err)
{
    const struct around *item = step->item;
    struct step_env env = {.arena = arena};
    struct step_bind python = *bind;
    const struct spec_env **late; /* variables that need a rank are for the workers, not for this step */
    python.role = item->roles[bind->node];
    step_run_init(plan, step, arena, ret_run);
    if (step_run_env(plan, bind, STEP_ENV_ENTRY, &env, &late, err) < 0 ||
        step_python_env(plan, &python, arena, ret_run, &env, err) < 0)
        return -1;
    step_run_own_env(bind, true, &env);
    step_run_secrets(bind, arena, ret_run);
    ret_run->env = env.list;
    return step_run_shell(plan, bind, item->shell, arena, ret_run, err);
}
