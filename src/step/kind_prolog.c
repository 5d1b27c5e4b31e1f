/* prolog: shell text before the launch, on the nodes that launch; it runs with every launch. */
#include "internal.h"

static int prolog_plan(struct plan_builder *b, const struct spec *spec, struct error *err)
{
    const struct spec_entrypoint *entry = &spec->entrypoint;
    if (!entry->prolog.text || !*entry->prolog.text)
        return 0;
    const char *text;
    if (plan_expand(b, &entry->prolog, EXPR_SHELL, &text, err) < 0)
        return -1;
    struct plan_step *s = plan_add(b, &step_kind_prolog, "prolog", step_title(plan_arena(b), text));
    s->item = &entry->prolog;
    s->command = text;
    step_on_launch_nodes(b, spec, s);
    plan_input(b, s, "prolog", text);
    if (step_input_env(b, s, "env", spec->env, spec->env_count, err) < 0 ||
        step_input_env(b, s, "entrypoint.env", entry->env, entry->env_count, err) < 0)
        return -1;
    step_input_after_all(b, s);
    return 0;
}

static int prolog_build(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
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

const struct step_kind step_kind_prolog = {
    .name = "prolog", .version = 1, .phase = PHASE_PROLOG, .cached = false, .plan = prolog_plan, .build = prolog_build};
