/* Plans of specs from text, for the tests of step; include after cmocka.h. */
#ifndef RHRUN_TEST_LOADED_PLAN_H
#define RHRUN_TEST_LOADED_PLAN_H

#include "rhrun/step.h"

/* Removes the current folder, at the end of a group. */
static inline int folder_leave(const char *dir)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return chdir("/") == 0 && system(command) == 0 ? 0 : -1;
}

/* job.yaml in the current folder. */
static inline struct spec *load_text(struct arena *arena, const char *text)
{
    struct diagnostics diagnostics = {0};
    struct error err = ERROR_INIT;
    struct spec *spec = NULL;
    assert_int_equal(file_write_atomic("job.yaml", text, strlen(text), 0644, &err), 0);
    if (spec_load("job.yaml", NULL, arena, &spec, &diagnostics, &err) < 0) {
        struct buf all = {0};
        diagnostics_format(&diagnostics, false, &all);
        fail_msg("%s\n%s", all.data ? all.data : err.text, text);
    }
    diagnostics_free(&diagnostics);
    return spec;
}

static inline struct plan *compile_spec(struct arena *arena, const struct spec *spec, const struct plan_facts *facts)
{
    struct plan *plan = NULL;
    struct error err = ERROR_INIT;
    if (plan_compile(spec, roster_create(spec, arena), step_kinds, NULL, facts, arena, &plan, &err) < 0)
        fail_msg("%s", err.text);
    return plan;
}

static inline const struct plan_step *step_named(const struct plan *plan, const char *name)
{
    for (size_t i = 0; i < plan->step_count; i++)
        if (str_eq(plan->steps[i].name, name))
            return &plan->steps[i];
    return NULL;
}

static inline const char *text_with(struct arena *arena, const char *text, const char *from, const char *to)
{
    const char *hit = strstr(text, from);
    assert_non_null(hit);
    return arena_printf(arena, "%.*s%s%s", (int)(hit - text), text, to, hit + strlen(from));
}

#endif
