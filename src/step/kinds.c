/* The table of step kinds, and the way into their build. */
#include "internal.h"

const struct step_kind *const step_kinds[] = {&step_kind_sync,
                                              &step_kind_files,
                                              &step_kind_activate,
                                              &step_kind_python,
                                              &step_kind_run, /* plans the items of all kinds */
                                              &step_kind_pip,
                                              &step_kind_requirements,
                                              &step_kind_apt,
                                              &step_kind_conda,
                                              &step_kind_git,
                                              &step_kind_copy,
                                              &step_kind_restore,
                                              &step_kind_prolog,
                                              &step_kind_launch,
                                              &step_kind_ready, /* planned by launch, as the next */
                                              &step_kind_ready_log,
                                              &step_kind_epilog,
                                              &step_kind_result,
                                              &step_kind_outputs,
                                              NULL};

int step_build(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind, struct arena *arena,
               struct wire_run *ret_run, struct error *err)
{
    struct wire_run run = {0};
    if (bind->node >= plan->node_count)
        return error_set(err, ERROR_INTERNAL, "step \"%s\": node %u of %u", step->name, bind->node, plan->node_count);
    if (!step->kind->build)
        return error_set(err, ERROR_INTERNAL, "step \"%s\" is not a RUN", step->name);
    struct step_bind own = *bind;
    own.role = step->role;
    if (step->kind->build(plan, step, &own, arena, &run, err) < 0) {
        error_prefix(err, "step \"%s\"", step->name);
        return -1;
    }
    *ret_run = run;
    return 0;
}
