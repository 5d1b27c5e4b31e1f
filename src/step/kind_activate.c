/* activate: shell text run once on every node; the environment it leaves is where every later step starts. */
#include "internal.h"

static int activate_plan(struct plan_builder *b, const struct spec *spec, struct error *err)
{
    if (!spec->activate.text || !*spec->activate.text)
        return 0;
    const char *text;
    if (plan_expand(b, &spec->activate, EXPR_SHELL, &text, err) < 0)
        return -1;
    struct plan_step *s = plan_add(b, &step_kind_activate, "activate", step_title(plan_arena(b), text));
    s->command = text;
    s->item = &spec->activate;
    plan_on_all(b, s);
    plan_input(b, s, "activate", text);
    return step_input_env(b, s, "env", spec->env, spec->env_count, err);
}

/* The environment that activate leaves is written to the node's disk. On this machine it starts from the caller's, which
 * is where secrets come from: those variables are taken out. */
static void leave_out_secrets(const struct step_bind *bind, struct arena *arena, struct wire_run *run)
{
    run->unset.items = arena_array(arena, 2 * bind->secret_count + 1, sizeof *run->unset.items);
    for (size_t i = 0; i < bind->secret_count; i++) {
        run->unset.items[run->unset.count++] = arena_strdup(arena, bind->secrets[i].name);
        if (bind->secrets[i].to)
            run->unset.items[run->unset.count++] = arena_strdup(arena, bind->secrets[i].to);
    }
}

static int activate_build(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                          struct arena *arena, struct wire_run *ret_run, struct error *err)
{
    struct step_env env = {.arena = arena};
    step_run_init(plan, step, bind, arena, ret_run);
    leave_out_secrets(bind, arena, ret_run);
    ret_run->env_in = arena_strdup(arena, "");
    ret_run->env_out = arena_strdup(arena, STEP_ENVIRONMENT);
    if (step_run_env(plan, bind, false, &env, NULL, err) < 0)
        return -1;
    step_run_own_env(bind, true, &env);
    ret_run->env = env.list;
    return step_run_shell(plan, bind, step->item, arena, ret_run, err);
}

const struct step_kind step_kind_activate = {.name = "activate",
                                             .version = 1,
                                             .phase = PHASE_SETUP,
                                             .cached = true,
                                             .plan = activate_plan,
                                             .build = activate_build};
