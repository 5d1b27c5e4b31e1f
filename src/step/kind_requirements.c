/* requirements: an item that installs the packages of a requirements file in the working directory. */
#include "internal.h"

int step_requirements_plan(struct plan_builder *b, const struct spec *spec, const struct spec_step *item,
                           struct error *err)
{
    struct arena *arena = plan_arena(b);
    struct step_requirements r;
    const char *file;
    if (plan_expand(b, &item->file, EXPR_PLAIN, &file, err) < 0 ||
        step_read_requirements(b, spec, item->role, &item->file, &r, err) < 0)
        return -1;
    const char *command = arena_printf(arena, "pip install %s-r %s", item->upgrade ? "--upgrade " : "", file);
    struct plan_step *s = step_install_add(b, spec, &step_kind_requirements, item, command, command);
    plan_input(b, s, "requirements", file);
    if (step_install_inputs(b, s, spec, item, err) < 0)
        return -1;
    for (size_t i = 0; i < r.count; i++)
        plan_input(b, s, arena_printf(arena, "content of %s", r.paths[i]), r.digests[i]);
    for (size_t i = 0; i < r.folder_count; i++)
        if (step_input_package(b, s, spec, &item->file, r.folders[i], r.editable, err) < 0)
            return -1;
    step_input_bringers(b, s, &r.by);
    if (r.on_node && r.by.count == 0)
        s->hint = "a change of the file on the node is not noticed";
    return 0;
}

const struct step_kind step_kind_requirements = {.name = "requirements",
                                                 .version = 1,
                                                 .phase = PHASE_SETUP,
                                                 .uses_python = true,
                                                 .cached = true,
                                                 .build = step_install_build,
                                                 .verify = true};
