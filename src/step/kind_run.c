/*
 * run: items of `setup` that are shell text. An item chains to all before it, the working directory's tree too, so that
 * it runs again when one of them changes; with `inputs` it chains only to activate and the venv, whose environment it
 * uses, and to its files.
 */
#include "internal.h"

#include <string.h>

/* Chains to earlier steps that make `inputs`, whose keys then stand for those files. The other inputs stay in *ret;
 * with a workdir all stay, because its tree is the same whatever a step adds to it. */
static int inputs_of_steps(struct plan_builder *b, struct plan_step *s, const struct spec_step *item,
                           struct spec_texts *ret, struct error *err)
{
    struct arena *arena = plan_arena(b);
    struct step_bringers by = {0};
    *ret = (struct spec_texts){arena_array(arena, item->inputs.count + 1, sizeof *ret->items), 0};
    for (size_t i = 0; i < item->inputs.count; i++) {
        const char *pattern;
        if (plan_expand(b, &item->inputs.items[i], EXPR_PLAIN, &pattern, err) < 0)
            return -1;
        size_t len = strcspn(pattern, "*?["); /* the folder that has all its matches, or the file */
        bool wild = pattern[len];
        while (wild && len > 0 && pattern[len - 1] != '/')
            len--;
        const char *path = arena_strndup(arena, pattern, len);
        bool brought = len > 0 && step_find_bringers(b, s, item->role, path, wild, &by);
        if (!brought || plan_spec_of(b)->has_workdir)
            ret->items[ret->count++] = item->inputs.items[i];
    }
    step_input_bringers(b, s, &by);
    return by.count > 0;
}

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
        s->creates = strstr(creates, "${{") ? NULL : creates; /* if it has a node's name, only its RUN knows it */
    }
    if (item->inputs.count == 0 && !item->has_inputs) {
        step_input_after_all(b, s);
        if (spec->has_workdir)
            s->hint = "runs again with every change of the working directory: narrow it with `inputs`";
        else if (spec_in_place(spec))
            s->hint = "names no `inputs`: changes of files that it reads are not noticed";
        return 0;
    }
    struct spec_texts own;
    step_input_after_env(b, s);
    int brought = inputs_of_steps(b, s, item, &own, err);
    if (brought < 0 || own.count == 0)
        return brought < 0 ? -1 : 0;
    if (spec->has_workdir) {
        int rc = plan_input_tree_files(b, s, &own, err);
        s->hint = brought ? NULL : s->hint; /* the hint "matches no file" is about the tree */
        return rc;
    }
    if (spec_in_place(spec))
        return plan_input_files(b, s, spec->dir, &own, err);
    for (size_t i = 0; i < own.count; i++)
        plan_input(b, s, arena_printf(plan_arena(b), "inputs %s", own.items[i].text), "on the node");
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
    step_run_init(plan, step, arena, ret_run);
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

const struct step_kind step_kind_run = {.name = "run",
                                        .version = 1,
                                        .phase = PHASE_SETUP,
                                        .brings = BRINGS_ANY,
                                        .cached = true,
                                        .plan = step_items_plan,
                                        .build = run_build};
