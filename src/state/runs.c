/* Finding runs. */
#include "rhrun/state.h"

bool state_run_left(const struct state *s, const char *id)
{
    for (size_t i = 0; i < s->cell_count; i++)
        if (s->cells[i].outcome == OUTCOME_NONE && str_eq(s->cells[i].run, id))
            return true;
    return false;
}

const struct state_run *state_run_open(const struct state *s)
{
    /* A run that opens closes the one before it, so only the last can be open. */
    return s->run_count && s->runs[s->run_count - 1].status == RUN_OPEN ? &s->runs[s->run_count - 1] : NULL;
}

const struct state_run *state_run_latest(const struct state *s, const char *variant)
{
    for (size_t i = s->run_count; i-- > 0;)
        if (!variant || str_eq(s->runs[i].variant, variant))
            return &s->runs[i];
    return NULL;
}
