/* Files of this machine that a node's files never replace, whatever the spec asks for. */
#ifndef RHRUN_RUN_GUARD_H
#define RHRUN_RUN_GUARD_H

#include "rhrun/plan.h"

/*
 * A fetched file must not become something that this machine runs or trusts: files that git reads (in any folder .git),
 * the spec, its clusters/ and lock files, the files that the spec names for secrets and for logging in, rhrun itself
 * and its state. Names are compared without regard to case, because a file system may take `job.yaml` and `JOB.YAML`
 * for one file; links are resolved on both sides.
 */
struct guard;
struct guard *guard_create(const struct plan *plan);
void guard_free(struct guard *g); /* takes NULL */

enum guard_what { GUARD_FOLDER, GUARD_LINK, GUARD_FILE };
/* Why `path` must not be made below the folder `to`; NULL: it may be made. own: `to` is rhrun's own folder, in its
 * state directory. */
const char *guard_forbids(const struct guard *g, const char *to, const char *path, enum guard_what what, bool own);

#endif
