/* apt: an item that installs Debian packages, which belong to the machine, not to a variant. */
#include "internal.h"

int step_apt_plan(struct plan_builder *b, const struct spec *spec, const struct spec_step *item, struct error *err)
{
    (void)spec;
    struct plan_step *s = step_words_plan(b, &step_kind_apt, item, "apt-get install", err);
    if (!s)
        return -1;
    s->scope = "";
    return 0;
}

static int apt_build(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                     struct arena *arena, struct wire_run *ret_run, struct error *err)
{
    const struct spec_step *item = step->item;
    struct step_env env = {.arena = arena};
    if (step_run_item(plan, step, bind, &env, arena, ret_run, err) < 0)
        return -1;
    step_env_set(&env, "RHRUN_OPTIONS", arena_printf(arena, "%zu", item->options.count));
    ret_run->env = env.list;
    const struct spec_texts *words[] = {&item->options, &item->packages, NULL};
    return step_run_script_with(plan, bind, ret_run, arena, rhrun_step_apt, words, err);
}

const struct step_kind step_kind_apt = {
    .name = "apt", .version = 1, .phase = PHASE_SETUP, .cached = true, .build = apt_build};
