/* epilog: shell text after the launch, on the nodes that launched; it runs with every launch. */
#include "internal.h"

static int epilog_plan(struct plan_builder *b, const struct spec *spec, struct error *err)
{
    const struct spec_entrypoint *entry = &spec->entrypoint;
    if (!entry->epilog.text || !*entry->epilog.text)
        return 0;
    const char *text;
    if (plan_expand(b, &entry->epilog, EXPR_SHELL, &text, err) < 0)
        return -1;
    struct plan_step *s = plan_add(b, &step_kind_epilog, "epilog", step_title(plan_arena(b), text));
    s->item = &entry->epilog;
    s->command = text;
    step_on_launch_nodes(b, spec, s);
    plan_input(b, s, "epilog", text);
    if (step_input_env(b, s, "env", spec->env, spec->env_count, err) < 0 ||
        step_input_env(b, s, "entrypoint.env", entry->env, entry->env_count, err) < 0)
        return -1;
    step_input_after_all(b, s);
    return 0;
}

static int epilog_build(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                        struct arena *arena, struct wire_run *ret_run, struct error *err)
{
    struct step_env env = {.arena = arena};
    const struct spec_env **late; /* what speaks of a rank is for the workers, not for this */
    step_run_init(plan, step, bind, arena, ret_run);
    if (step_run_env(plan, bind, true, &env, &late, err) < 0)
        return -1;
    step_run_own_env(bind, true, &env);
    step_run_secrets(bind, arena, ret_run);
    ret_run->env = env.list;
    return step_run_shell(plan, bind, step->item, arena, ret_run, err);
}

const struct step_kind step_kind_epilog = {
    .name = "epilog", .version = 1, .phase = PHASE_EPILOG, .cached = false, .plan = epilog_plan, .build = epilog_build};
