/* What a node's files are never put over here, whatever the spec asked for. */
#ifndef RHRUN_RUN_GUARD_H
#define RHRUN_RUN_GUARD_H

#include "rhrun/plan.h"

/*
 * A file that comes home must not become something that this machine runs or believes: what git reads (any folder
 * .git), the spec, its clusters/ and lock files, the files that it names for secrets and for logging in, rhrun itself
 * and its state. Names are compared without regard to case, and links are resolved on both sides, because a file system
 * may take `job.yaml` and `JOB.YAML` for one file.
 */
struct guard;
struct guard *guard_create(const struct plan *plan);
void guard_free(struct guard *g); /* takes NULL */

enum guard_what { GUARD_FOLDER, GUARD_LINK, GUARD_FILE };
/* Why `path` must not be made below the folder `to`; NULL: it may be. own: `to` is rhrun's own folder, in its state
 * directory. */
const char *guard_forbids(const struct guard *g, const char *to, const char *path, enum guard_what what, bool own);

#endif
