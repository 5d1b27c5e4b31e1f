/*
 * lock: a document that says exactly what a run ran from (schema/lock.schema.json; `rhrun show RUN --lock`).
 *
 * A lock is made from the journal alone, so any run has one at any time, even a run that was killed. Facts that are
 * known only when a run begins are put into its RUN_OPENED event (lock_begin): the trees of its files, the commit, the
 * spec with everything filled in. Packages come from INSTALLED, hosts from NODE_BOUND, the places of ranks from
 * STARTED. Facts that an older journal does not have are left out.
 *
 * A lock is a tree of values that fits the schema, with its keys in the schema's order. It can be given in place of a
 * spec (spec.h).
 */
#ifndef RHRUN_LOCK_H
#define RHRUN_LOCK_H

#include "rhrun/doc.h"
#include "rhrun/journal.h"
#include "rhrun/plan.h"

#define LOCK_FORMAT 1
#define LOCK_MAX_BYTES DOC_MAX_BYTES

struct lock_start { /* what the caller of a run knows; all but the plan optional */
    const struct plan *plan;
    const struct tree_head *head;  /* NULL: no repository, or nobody looked */
    const struct doc_node *rented; /* as `rented` in the schema */
    const char *rerun_of;          /* id of the run that is repeated */
};
/* Appends event_opened.made_of: a JSON object. Values that `env` takes from the caller are stored as digests. */
void lock_begin(const struct lock_start *start, struct buf *ret);

/* The lock of a run, as of the journal now, without anything that later runs did. In the arena. -1: the journal has no
 * such run (ERROR_USAGE), or cannot be read. */
int lock_of_run(struct journal *j, const char *run, struct arena *arena, struct doc_node **ret, struct error *err);
/* A lock from a file, YAML or JSON, checked against the schema: -1 with the faults in diagnostics and err
 * (ERROR_SPEC). */
int lock_load(const char *path, struct arena *arena, struct doc **ret, struct diagnostics *diagnostics,
              struct error *err);
/* As YAML, with a first line that says what the document is, or as JSON. */
void lock_write(const struct doc_node *lock, bool json, struct buf *ret);

#endif
