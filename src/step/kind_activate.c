/* activate: shell text that runs once on every node; every later step starts with the environment that it leaves. */
#include "internal.h"

#include <string.h>

enum { WORDS_MAX = 64 }; /* files that its text may name */

/* Adds the files of the working directory that its text names as inputs: with `source env.sh`, an edit of env.sh
 * counts, and no other edit. */
static void input_named_files(struct plan_builder *b, struct plan_step *s, const char *text)
{
    static const char between[] = " \t\r\n;&|<>()'\"`=:{}$*?[]\\#!,";
    const struct tree *tree = plan_sources_of(b)->workdir;
    struct arena *arena = plan_arena(b);
    const char *seen[WORDS_MAX];
    for (size_t count = 0, len = 0; tree && count < WORDS_MAX && *(text += strspn(text, between)); text += len) {
        len = strcspn(text, between);
        const char *word = arena_strndup(arena, text, len);
        while (str_starts(word, "./"))
            word += 2 + strspn(word + 2, "/");
        const struct tree_file *f = tree_find(tree, word);
        for (size_t i = 0; f && i < count; i++)
            if (str_eq(seen[i], word))
                f = NULL;
        if (f) {
            plan_input(b, s, arena_printf(arena, "content of %s", word), step_oid_hex(arena, f));
            seen[count++] = word;
        }
    }
}

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
    input_named_files(b, s, text);
    return step_input_env(b, s, "env", spec->env, spec->env_count, err);
}

static int activate_build(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                          struct arena *arena, struct wire_run *ret_run, struct error *err)
{
    struct step_env env = {.arena = arena};
    step_run_init(plan, step, arena, ret_run);
    step_run_unset_secrets(bind, arena, ret_run);
    ret_run->env_in = arena_strdup(arena, "");
    ret_run->env_out = arena_strdup(arena, STEP_ENVIRONMENT);
    if (step_run_env(plan, bind, 0, &env, NULL, err) < 0)
        return -1;
    step_run_own_env(bind, true, &env);
    ret_run->env = env.list;
    return step_run_shell(plan, bind, step->item, arena, ret_run, err);
}

const struct step_kind step_kind_activate = {.name = "activate",
                                             .version = 1,
                                             .phase = PHASE_SETUP,
                                             .makes_env = true,
                                             .cached = true,
                                             .plan = activate_plan,
                                             .build = activate_build};
