/*
 * run: the items of `setup`, one step each. An item chains to all before it, so that it runs again when one of
 * them changes; with `inputs` it chains only to activate, whose environment it sees, and to its files.
 */
#include "internal.h"

#include <string.h>

static int item_inputs(struct plan_builder *b, struct plan_step *s, const struct spec *spec,
                       const struct spec_step *item, struct error *err)
{
    if (step_input_env(b, s, "env", spec->env, spec->env_count, err) < 0)
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
        if (spec->local)
            s->hint = "names no `inputs`: a change of the files it reads is not noticed";
        return 0;
    }
    struct plan_step *first = plan_at(b, 0);
    if (first != s && first->kind != s->kind)
        plan_input_after(b, s, first);
    if (spec->local)
        return plan_input_files(b, s, spec->dir, &item->inputs, err);
    for (size_t i = 0; i < item->inputs.count; i++)
        plan_input(b, s, arena_printf(plan_arena(b), "inputs %s", item->inputs.items[i].text), "on the node");
    s->hint = "a change of its `inputs` on the node is not noticed";
    return 0;
}

static int add_item(struct plan_builder *b, const struct spec *spec, const struct spec_step *item, struct error *err)
{
    static const uint32_t node_0 = 0;
    const char *text;
    if (plan_expand(b, &item->run, EXPR_SHELL, &text, err) < 0)
        return -1;
    struct plan_step *s = plan_add(b, &step_kind_run, item->name, step_title(plan_arena(b), text));
    s->item = item;
    s->command = text;
    s->retry_times = item->retry_times;
    s->retry_backoff_ms = item->retry_backoff_ms;
    s->on_unknown_fail = item->on_unknown_fail;
    switch (item->on) {
    case ON_ALL:
        plan_on_all(b, s);
        break;
    case ON_FIRST:
        plan_on_nodes(b, s, &node_0, 1);
        break;
    case ON_LIST:
        plan_on_nodes(b, s, item->on_nodes, item->on_count);
        break;
    }
    plan_input(b, s, "run", text);
    return item_inputs(b, s, spec, item, err);
}

static int run_plan_items(struct plan_builder *b, const struct spec *spec, struct error *err)
{
    for (size_t i = 0; i < spec->setup_count; i++)
        if (add_item(b, spec, &spec->setup[i], err) < 0)
            return -1;
    return 0;
}

static int run_build(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                     struct arena *arena, struct wire_run *ret_run, struct error *err)
{
    const struct spec_step *item = step->item;
    struct step_env env = {.arena = arena};
    const char *creates;
    step_run_init(plan, step, bind, arena, ret_run);
    if (step_run_env(plan, bind, false, &env, NULL, err) < 0 ||
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
    .name = "run", .version = 1, .phase = PHASE_SETUP, .cached = true, .plan = run_plan_items, .build = run_build};
