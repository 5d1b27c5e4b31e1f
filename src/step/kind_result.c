/* result: fetches a function's return values, one file per rank. */
#include "launcher.h"

/* Plans the step for roles that call functions. */
static int roles_plan(struct plan_builder *b, const struct spec *spec, struct error *err)
{
    const struct expr_role *placed = plan_placed_of(b);
    uint32_t *nodes = arena_array(plan_arena(b), spec->place_count + 1, sizeof *nodes);
    size_t count = 0;
    for (size_t i = 0; i < spec->role_count; i++)
        for (uint32_t n = 0; n < placed[i].node_count && spec->roles[i].entrypoint.kind == ENTRY_FUNCTION; n++)
            nodes[count++] = placed[i].nodes[n];
    if (count == 0)
        return 0;
    struct plan_step *s = plan_add(b, &step_kind_result, "result", "what the functions returned");
    plan_on_nodes(b, s, nodes, count);
    for (size_t i = 0; i < spec->role_count; i++)
        if (spec->roles[i].entrypoint.kind == ENTRY_FUNCTION &&
            plan_input_text(b, s, arena_printf(plan_arena(b), "%s.function", spec->roles[i].name),
                            &spec->roles[i].entrypoint.target, EXPR_PLAIN, err) < 0)
            return -1;
    return 0;
}

static int result_plan(struct plan_builder *b, const struct spec *spec, struct error *err)
{
    if (spec->role_count > 0)
        return roles_plan(b, spec, err);
    if (spec->entrypoint.kind != ENTRY_FUNCTION)
        return 0;
    struct plan_step *s = plan_add(b, &step_kind_result, "result", "what the function returned");
    step_launcher_on_nodes(b, spec, s);
    return plan_input_text(b, s, "function", &spec->entrypoint.target, EXPR_PLAIN, err);
}

static int result_fetch(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                        struct arena *arena, struct step_fetch *ret, struct error *err)
{
    (void)step;
    if (!bind->result_dir)
        return error_set(err, ERROR_INTERNAL, "where results are kept is not known");
    *ret = (struct step_fetch){.from = arena_printf(arena, "%s/[0-9]*.json", step_result_path(plan->spec, bind, arena)),
                               .to = bind->result_dir,
                               .when = WHEN_SUCCESS,
                               .required = true,
                               .own = true};
    return 0;
}

static const struct step_kind of_point = {
    .name = "point-result", .version = 1, .phase = PHASE_POINT, .result = true, .fetch = result_fetch};

const struct step_kind step_kind_result = {.name = "result",
                                           .version = 1,
                                           .phase = PHASE_OUTPUTS,
                                           .result = true,
                                           .of_point = &of_point,
                                           .plan = result_plan,
                                           .fetch = result_fetch};
