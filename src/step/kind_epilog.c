/* epilog: shell text after the launch, on the nodes that launched; it runs with every launch. */
#include "internal.h"

static int epilog_plan(struct plan_builder *b, const struct spec *spec, struct error *err)
{
    return step_around_plan(b, spec, &step_kind_epilog, &spec->entrypoint.epilog, err);
}

const struct step_kind step_kind_epilog = {.name = "epilog",
                                           .version = 1,
                                           .phase = PHASE_EPILOG,
                                           .cached = false,
                                           .plan = epilog_plan,
                                           .build = step_around_build};
