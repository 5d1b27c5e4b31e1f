/* result: what a function returned comes home, a file per rank. */
#include "internal.h"

static int result_plan(struct plan_builder *b, const struct spec *spec, struct error *err)
{
    if (spec->entrypoint.kind != ENTRY_FUNCTION)
        return 0;
    struct plan_step *s = plan_add(b, &step_kind_result, "result", "what the function returned");
    step_on_launch_nodes(b, spec, s);
    return plan_input_text(b, s, "function", &spec->entrypoint.target, EXPR_PLAIN, err);
}

static int result_fetch(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                        struct arena *arena, struct step_fetch *ret, struct error *err)
{
    (void)step;
    if (!bind->result_dir)
        return error_set(err, ERROR_INTERNAL, "where results are kept is not known");
    *ret = (struct step_fetch){.from = arena_printf(arena, "%s/", step_result_path(plan->spec, bind, arena)),
                               .to = bind->result_dir,
                               .when = WHEN_SUCCESS,
                               .required = true};
    return 0;
}

const struct step_kind step_kind_result = {
    .name = "result", .version = 1, .phase = PHASE_OUTPUTS, .plan = result_plan, .fetch = result_fetch};
