/*
 * lock: what exactly a run ran from, as a document (schema/lock.schema.json; `rhrun show RUN --lock`).
 *
 * A lock is made from the journal alone, so it can be had of any run at any time, also of one that was killed. What
 * only the beginning of a run knows is put into its RUN_OPENED (lock_begin): the trees of its files, the commit, the
 * spec with everything filled in. Packages come from INSTALLED, hosts from NODE_BOUND, the places of ranks from
 * STARTED. What a journal of before does not have is left out.
 *
 * A lock is a tree of values that fits the schema; keys in their order, objects closed. It can stand where a spec does
 * (spec.h).
 */
#ifndef RHRUN_LOCK_H
#define RHRUN_LOCK_H

#include "rhrun/doc.h"
#include "rhrun/journal.h"
#include "rhrun/plan.h"

#define LOCK_FORMAT 1
#define LOCK_MAX_BYTES DOC_MAX_BYTES

struct lock_start { /* what the caller of a run knows; optional but the plan */
    const struct plan *plan;
    const struct tree_head *head;  /* NULL: no repository, or nobody looked */
    const struct doc_node *rented; /* as `rented` of the schema */
    const char *rerun_of;          /* id of the run that is repeated */
};
/* Appends event_opened.made_of: a JSON object. Values that `env` takes from the caller are in it as digests. */
void lock_begin(const struct lock_start *start, struct buf *ret);

/* The lock of a run, as the journal has it now. In the arena. What later runs did is not in it. -1: the journal has no
 * such run (ERROR_USAGE), or cannot be read. */
int lock_of_run(struct journal *j, const char *run, struct arena *arena, struct doc_node **ret, struct error *err);
/* A lock from a file, YAML or JSON, checked against the schema: -1 with the faults in diagnostics and err
 * (ERROR_SPEC). */
int lock_load(const char *path, struct arena *arena, struct doc **ret, struct diagnostics *diagnostics,
              struct error *err);
/* As YAML with a line in front that says what it is, or as JSON. */
void lock_write(const struct doc_node *lock, bool json, struct buf *ret);

#endif
