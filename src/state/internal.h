/* What the files of state share. */
#ifndef RHRUN_STATE_INTERNAL_H
#define RHRUN_STATE_INTERNAL_H

#include "rhrun/state.h"

/* role and digest must be strings of the state itself. */
void installed_apply(struct arena *arena, struct state_node *n, const char *role, const char *digest);

#endif
