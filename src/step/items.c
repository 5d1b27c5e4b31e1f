/* The items of set-up, in the spec's order whatever their kinds are. */
#include "internal.h"

void step_item_common(struct plan_builder *b, struct plan_step *s, const struct spec_step *item)
{
    const struct step_choice choice = step_item_choice(item);
    const struct plan_step *python = step_python_planned(b, item->role);
    s->role = item->role;
    s->python = python ? python->python : NULL;
    s->retry_times = item->retry_times;
    s->retry_backoff_ms = item->retry_backoff_ms;
    s->item_of_setup = true;
    s->holds_back = item->on != ON_ALL;
    step_on_chosen(b, s, &choice);
}

int step_items_plan(struct plan_builder *b, const struct spec *spec, struct error *err)
{
    static int (*const plans[])(struct plan_builder *, const struct spec *, const struct spec_step *,
                                struct error *) = {
        [ITEM_RUN] = step_run_plan,   [ITEM_PIP] = step_pip_plan,     [ITEM_REQUIREMENTS] = step_requirements_plan,
        [ITEM_APT] = step_apt_plan,   [ITEM_CONDA] = step_conda_plan, [ITEM_GIT] = step_git_plan,
        [ITEM_COPY] = step_copy_plan,
    };
    for (size_t i = 0; i < spec->setup_count; i++) {
        const struct spec_step *item = &spec->setup[i];
        const struct step_choice choice = step_item_choice(item);
        if (step_chosen_count(b, &choice) > 0 && plans[item->item](b, spec, item, err) < 0)
            return -1;
    }
    return 0;
}
