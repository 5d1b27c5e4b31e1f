/* pip: an item that installs Python packages, by name, by URL, or from a folder of the working directory. */
#include "internal.h"

#include <string.h>

int step_pip_plan(struct plan_builder *b, const struct spec *spec, const struct spec_step *item, struct error *err)
{
    struct buf title = {0};
    for (size_t i = 0; i < item->packages.count; i++)
        buf_printf(&title, "%s%s", i ? " " : "", item->packages.items[i].text);
    const char *words = arena_strdup(plan_arena(b), title.data ? title.data : "");
    buf_free(&title);
    const char *command = arena_printf(plan_arena(b), "pip install %s%s", item->upgrade ? "--upgrade " : "", words);
    struct plan_step *s = step_install_add(b, spec, &step_kind_pip, item, step_title(plan_arena(b), command), command);
    if (step_input_texts(b, s, "pip", &item->packages, err) < 0 || step_install_inputs(b, s, spec, item, err) < 0)
        return -1;
    for (size_t i = 0; i < item->packages.count; i++) {
        const struct spec_text *said = &item->packages.items[i];
        const char *package;
        if (plan_expand(b, said, EXPR_PLAIN, &package, err) < 0)
            return -1;
        if (*package == '.' && step_input_package(b, s, spec, said, package, item->editable, err) < 0)
            return -1;
    }
    return 0;
}

const struct step_kind step_kind_pip = {.name = "pip",
                                        .version = 1,
                                        .phase = PHASE_SETUP,
                                        .uses_python = true,
                                        .cached = true,
                                        .build = step_install_build,
                                        .verify = true};
