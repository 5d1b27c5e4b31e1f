/* Shared by set-up items that run rhrun's own programs: their arguments, and the message that runs them. */
#include "internal.h"

#include <string.h>

struct plan_step *step_words_plan(struct plan_builder *b, const struct step_kind *kind, const struct spec_step *item,
                                  const char *verb, struct error *err)
{
    struct buf text = {0};
    buf_puts(&text, verb);
    for (size_t i = 0; i < item->packages.count; i++)
        buf_printf(&text, " %s", item->packages.items[i].text);
    const char *command = arena_strdup(plan_arena(b), text.data);
    buf_free(&text);
    struct plan_step *s = plan_add(b, kind, item->name, step_title(plan_arena(b), command));
    s->item = item;
    s->command = command;
    step_item_common(b, s, item);
    if (step_input_texts(b, s, kind->name, &item->packages, err) < 0 ||
        (item->options.count && step_input_texts(b, s, "options", &item->options, err) < 0))
        return NULL;
    return s;
}

int step_run_item(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                  struct step_env *env, struct arena *arena, struct wire_run *ret_run, struct error *err)
{
    const struct spec_step *item = step->item;
    step_run_init(plan, step, arena, ret_run);
    if (step_run_env(plan, bind, STEP_ENV_ROLE, env, NULL, err) < 0 ||
        step_python_env(plan, bind, arena, ret_run, env, err) < 0)
        return -1;
    step_run_own_env(bind, true, env);
    step_run_secrets(bind, arena, ret_run);
    step_env_set(env, "RHRUN_NODE", step_node_name(plan, bind));
    ret_run->timeout_ms = item->timeout_ms;
    return 0;
}

static struct wire_worker *one_worker(struct wire_run *run, struct arena *arena, size_t words)
{
    run->workers = arena_array(arena, 1, sizeof *run->workers);
    run->worker_count = 1;
    run->workers->argv.items = arena_array(arena, words, sizeof(char *));
    return run->workers;
}

static void add_word(struct wire_worker *w, struct arena *arena, const char *word)
{
    w->argv.items[w->argv.count++] = arena_strdup(arena, word);
}

void step_run_argv(struct wire_run *run, struct arena *arena, const char *const *argv)
{
    size_t count = 0;
    while (argv[count])
        count++;
    struct wire_worker *w = one_worker(run, arena, count);
    for (size_t i = 0; i < count; i++)
        add_word(w, arena, argv[i]);
}

void step_run_script(struct wire_run *run, struct arena *arena, const char *script)
{
    struct wire_worker *w = one_worker(run, arena, 1);
    w->shell = 1;
    add_word(w, arena, script);
}

int step_run_script_with(const struct plan *plan, const struct step_bind *bind, struct wire_run *run,
                         struct arena *arena, const char *script, const struct spec_texts *const *lists,
                         struct error *err)
{
    size_t count = 1;
    for (size_t i = 0; lists[i]; i++)
        count += lists[i]->count;
    struct wire_worker *w = one_worker(run, arena, count);
    w->shell = 1;
    add_word(w, arena, script);
    for (; *lists; lists++)
        for (size_t i = 0; i < (*lists)->count; i++) {
            const char *value;
            if (step_expand_node(plan, bind, &(*lists)->items[i], EXPR_PLAIN, arena, &value, err) < 0)
                return -1;
            add_word(w, arena, value);
        }
    return 0;
}
