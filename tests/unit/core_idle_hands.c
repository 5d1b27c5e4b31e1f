/* Answers of hands without files, metrics and looks before a launch: there is nothing to do. */
#include "rhrun/core.h"
#include "rhrun/effects.h"

void overrides_hint(const struct spec *spec, const struct state_run *run, struct arena *arena, struct error *err)
{
    (void)spec, (void)run, (void)arena, (void)err;
}

void transfer_stop(struct lane *lane)
{
    (void)lane;
}

void transfer_trust(struct lane *lane, const struct plan_step *step, bool trust)
{
    (void)lane, (void)step, (void)trust;
}

void transfer_tally(struct run *r, const struct plan_step *step, uint32_t node)
{
    (void)r, (void)step, (void)node;
}

void metrics_destroy(struct metrics *m)
{
    (void)m;
}

void metrics_begin(struct metrics *m)
{
    (void)m;
}

void metrics_add(struct metrics *m, uint32_t metric, uint32_t rank, double value)
{
    (void)m, (void)metric, (void)rank, (void)value;
}

void metrics_flush(struct metrics *m)
{
    (void)m;
}
