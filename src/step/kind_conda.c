/* conda: an item that installs packages into the job's conda environment, or the one that is active. */
#include "internal.h"

int step_conda_plan(struct plan_builder *b, const struct spec *spec, const struct spec_step *item, struct error *err)
{
    (void)spec;
    struct plan_step *s = step_words_plan(b, &step_kind_conda, item, "conda install", err);
    if (!s || (item->channels.count && step_input_texts(b, s, "channels", &item->channels, err) < 0))
        return -1;
    step_input_after_env(b, s);
    return 0;
}

static int conda_build(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                       struct arena *arena, struct wire_run *ret_run, struct error *err)
{
    const struct spec_step *item = step->item;
    struct step_env env = {.arena = arena};
    if (step_run_item(plan, step, bind, &env, arena, ret_run, err) < 0)
        return -1;
    step_env_set(&env, "RHRUN_CHANNELS", arena_printf(arena, "%zu", item->channels.count));
    ret_run->env = env.list;
    const struct spec_texts *words[] = {&item->channels, &item->options, &item->packages, NULL};
    return step_run_script_with(plan, bind, ret_run, arena, rhrun_step_conda, words, err);
}

const struct step_kind step_kind_conda = {
    .name = "conda", .version = 1, .phase = PHASE_SETUP, .cached = true, .build = conda_build, .verify = true};
