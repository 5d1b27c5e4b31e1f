/* outputs: fetches files of the working directory, or from anywhere on a node. No later step depends on them. */
#include "internal.h"

static int outputs_plan(struct plan_builder *b, const struct spec *spec, struct error *err)
{
    for (size_t i = 0; i < spec->output_count; i++) {
        const struct spec_output *o = &spec->outputs[i];
        const struct step_choice choice = step_output_choice(spec, o);
        const char *from, *to;
        if (o->in_place || step_chosen_count(b, &choice) == 0)
            continue;
        if (plan_expand(b, &o->from, EXPR_PLAIN, &from, err) < 0 || plan_expand(b, &o->to, EXPR_PLAIN, &to, err) < 0)
            return -1;
        bool at_rank0 = step_output_at_rank0(spec, o);
        struct plan_step *s =
            plan_add(b, &step_kind_outputs, o->name,
                     arena_printf(plan_arena(b), "%s to %s%s", from, to, at_rank0 ? ", from where rank 0 is" : ""));
        s->at_rank0 = at_rank0;
        s->item = o;
        s->role = o->role;
        step_on_chosen(b, s, &choice);
        plan_input(b, s, "from", from);
        plan_input(b, s, "to", to);
        if (step_output_has_folders(spec, o)) /* the same `to` then means another folder */
            plan_input(b, s, "nodes", "a folder for each");
        plan_input(b, s, "when", o->when == WHEN_SUCCESS ? "success" : "always");
    }
    return 0;
}

static int outputs_fetch(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                         struct arena *arena, struct step_fetch *ret, struct error *err)
{
    const struct spec_output *o = step->item;
    const struct step_node *n = bind->nodes ? &bind->nodes[bind->node] : NULL;
    const struct expr_context ctx = {.spec = plan->spec,
                                     .has_node = true,
                                     .node_rank = bind->node,
                                     .node_name = step_node_name(plan, bind),
                                     .node_address = n && n->address ? n->address : step_node_name(plan, bind),
                                     .run = bind->run_id,
                                     .point_dir = bind->point_dir};
    const char *from, *to = NULL;
    if (step_expand_node(plan, bind, &o->from, EXPR_PLAIN, arena, &from, err) < 0)
        return -1;
    switch (step_output_to(o, plan->roster, &ctx, false, arena, &to, err)) {
    case EXPR_OK:
        break;
    case EXPR_LATE:
        error_set(err, ERROR_SPEC, "\"%s\" uses a value that is not known for an output", o->to.text);
        return -1;
    case EXPR_FAILED:
        return -1;
    }
    *ret = (struct step_fetch){.from = from,
                               .to = to,
                               .when = o->when,
                               .every_ms = o->every_ms,
                               .max_bytes = o->max_bytes,
                               .required = o->required};
    return 0;
}

static const struct step_kind of_point = {
    .name = "point-outputs", .version = 1, .phase = PHASE_POINT, .fetch = outputs_fetch};

const struct step_kind step_kind_outputs = {.name = "outputs",
                                            .version = 1,
                                            .phase = PHASE_OUTPUTS,
                                            .of_point = &of_point,
                                            .plan = outputs_plan,
                                            .fetch = outputs_fetch};
