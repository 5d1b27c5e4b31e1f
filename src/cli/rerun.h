/* What `rhrun rerun` looks at before anything starts: cmd_rerun.c, rerun_index.c. */
#ifndef RHRUN_CLI_RERUN_H
#define RHRUN_CLI_RERUN_H

#include "internal.h"

struct rerun_look {
    struct cli *c;
    const struct spec *spec;
    unsigned count; /* of what is not as it was */
};

/* Tells one thing that is not as it was. */
void rerun_say(struct rerun_look *l, const char *fmt, ...) FORMAT(2, 3);
/* Tells what is not known; --strict minds it not. */
void rerun_note(struct rerun_look *l, const char *fmt, ...) FORMAT(2, 3);

/* rerun_index.c: asks the indexes, from a node for each Python, whether they still have the packages of the lock. */
void rerun_ask_index(struct rerun_look *l, const struct roster *roster);

#endif
