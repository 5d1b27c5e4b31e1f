/*
 * run: items of `setup` that are shell text. An item chains to all before it, the working directory's tree too, so that
 * it runs again when one of them changes; with `inputs` it chains only to activate and the venv, whose environment it
 * sees, and to its files.
 */
#include "internal.h"

#include <string.h>

static int item_inputs(struct plan_builder *b, struct plan_step *s, const struct spec *spec,
                       const struct spec_step *item, struct error *err)
{
    if (step_input_item_env(b, s, item->role, err) < 0)
        return -1;
    if (item->creates.text) {
        const char *creates;
        if (plan_expand(b, &item->creates, EXPR_PLAIN, &creates, err) < 0)
            return -1;
        plan_input(b, s, "creates", creates);
        s->creates = strstr(creates, "${{") ? NULL : creates; /* with a node's name in it, only its RUN knows */
    }
    if (item->inputs.count == 0) {
        step_input_after_all(b, s);
        if (spec->has_workdir)
            s->hint = "runs again with every change of the working directory: narrow it with `inputs`";
        else if (spec->local)
            s->hint = "names no `inputs`: a change of the files it reads is not noticed";
        return 0;
    }
    step_input_after_env(b, s);
    if (spec->has_workdir)
        return plan_input_tree_files(b, s, &item->inputs, err);
    if (spec->local)
        return plan_input_files(b, s, spec->dir, &item->inputs, err);
    for (size_t i = 0; i < item->inputs.count; i++)
        plan_input(b, s, arena_printf(plan_arena(b), "inputs %s", item->inputs.items[i].text), "on the node");
    s->hint = "a change of its `inputs` on the node is not noticed";
    return 0;
}

int step_run_plan(struct plan_builder *b, const struct spec *spec, const struct spec_step *item, struct error *err)
{
    const char *text;
    if (plan_expand(b, &item->run, EXPR_SHELL, &text, err) < 0)
        return -1;
    struct plan_step *s = plan_add(b, &step_kind_run, item->name, step_title(plan_arena(b), text));
    s->item = item;
    s->command = text;
    s->on_unknown_fail = item->on_unknown_fail;
    step_item_common(b, s, item);
    plan_input(b, s, "run", text);
    return item_inputs(b, s, spec, item, err);
}

static int run_build(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                     struct arena *arena, struct wire_run *ret_run, struct error *err)
{
    const struct spec_step *item = step->item;
    struct step_env env = {.arena = arena};
    const char *creates;
    step_run_init(plan, step, bind, arena, ret_run);
    if (step_run_env(plan, bind, STEP_ENV_ROLE, &env, NULL, err) < 0 ||
        step_python_env(plan, bind, arena, ret_run, &env, err) < 0 ||
        step_expand_node(plan, bind, &item->creates, EXPR_PLAIN, arena, &creates, err) < 0)
        return -1;
    step_run_own_env(bind, true, &env);
    step_run_secrets(bind, arena, ret_run);
    ret_run->env = env.list;
    ret_run->creates = arena_strdup(arena, creates);
    ret_run->timeout_ms = item->timeout_ms;
    return step_run_shell(plan, bind, &item->run, arena, ret_run, err);
}

const struct step_kind step_kind_run = {
    .name = "run", .version = 1, .phase = PHASE_SETUP, .cached = true, .plan = step_items_plan, .build = run_build};
