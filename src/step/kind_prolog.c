/* prolog: shell text before the launch, on the nodes that launch; it runs with every launch. */
#include "internal.h"

static int prolog_plan(struct plan_builder *b, const struct spec *spec, struct error *err)
{
    return step_around_plan(b, spec, &step_kind_prolog, &spec->entrypoint.prolog, err);
}

const struct step_kind step_kind_prolog = {.name = "prolog",
                                           .version = 1,
                                           .phase = PHASE_PROLOG,
                                           .cached = false,
                                           .plan = prolog_plan,
                                           .build = step_around_build};
