/* A plan in a file. */
#ifndef RHRUN_CLI_SAVED_PLAN_H
#define RHRUN_CLI_SAVED_PLAN_H

#include "internal.h"

#include "rhrun/doc.h"

/* The command line is saved too. */
void saved_plan_put(struct cli *c, const struct plan *plan, const struct plan_decision *decisions,
                    const struct sources *sources, struct buf *ret);
bool saved_plan_is(const char *path); /* by how the file begins */
/* At most DOC_MAX_BYTES. On success each field that this header reads exists and has its type. */
int saved_plan_read(const char *path, struct arena *arena, const struct doc_node **ret, struct error *err);
/* The options and words that it was made with become those of the command. They live as long as the saved plan. */
void saved_plan_take(struct cli *c, const struct doc_node *saved);
/* now: as saved_plan_put wrote it. 0: nothing changed; 1: ret_lines name the changes, whole lines in the arena. */
int saved_plan_compare(const struct doc_node *saved, const struct buf *now, struct arena *arena,
                       const char **ret_lines, struct error *err);

/* cmd_plan.c: plans the command's spec as `plan` does, and saves the plan. Prints faults; 0, or the exit status. */
int cli_plan_saved(struct cli *c, struct buf *ret);

#endif
