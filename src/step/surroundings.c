/* The environment of a set-up step on a node, for a command that is not a step. */
#include "internal.h"

int step_surroundings(const struct plan *plan, const struct step_bind *bind, struct arena *arena,
                      struct wire_run *ret_run, struct error *err)
{
    static const struct plan_step none = {.slot = "", .key = ""};
    const struct spec_role **roles = arena_array(arena, plan->spec->nnodes + 1, sizeof *roles);
    const struct spec_env **late; /* variables that need a rank: set-up has none */
    struct step_bind at = *bind;
    struct wire_run run;
    struct step_env env = {.arena = arena};
    step_python_roles(plan->spec, roles);
    at.role = roles[bind->node];
    step_run_init(plan, &none, arena, &run);
    if (step_run_env(plan, &at, STEP_ENV_ROLE, &env, &late, err) < 0 ||
        step_python_env(plan, &at, arena, &run, &env, err) < 0)
        return -1;
    step_run_own_env(&at, true, &env);
    step_run_secrets(&at, arena, &run);
    run.env = env.list;
    *ret_run = run;
    return 0;
}
