/* What a node's files are never put over here, whatever was asked for. */
#ifndef RHRUN_RUN_GUARD_H
#define RHRUN_RUN_GUARD_H

#include "rhrun/plan.h"

/*
 * A file that comes home must not become something that this machine runs or believes: what git reads (any folder
 * .git), the spec, its clusters/ and lock files, what it names of secrets and its hosts of ssh, rhrun itself and its
 * state. Names are compared without regard to case, links resolved on both sides, for a file system may have but one of
 * `job.yaml` and `JOB.YAML`.
 */
struct guard;
struct guard *guard_create(const struct plan *plan);
void guard_free(struct guard *g); /* takes NULL */

enum guard_what { GUARD_FOLDER, GUARD_LINK, GUARD_FILE };
/* Why `path` is not made below the folder `to`; NULL: it may be. own: `to` is rhrun's own, in its state directory. */
const char *guard_forbids(const struct guard *g, const char *to, const char *path, enum guard_what what, bool own);

#endif
