/* The checks of `rhrun rerun` before anything starts: cmd_rerun.c, rerun_index.c. */
#ifndef RHRUN_CLI_RERUN_H
#define RHRUN_CLI_RERUN_H

#include "internal.h"

struct rerun_look {
    struct cli *c;
    const struct spec *spec;
    unsigned count; /* differences from the lock */
};

/* Prints one difference from the lock. */
void rerun_say(struct rerun_look *l, const char *fmt, ...) FORMAT(2, 3);
/* Prints that something is not known; --strict does not count it. */
void rerun_note(struct rerun_look *l, const char *fmt, ...) FORMAT(2, 3);

/* rerun_index.c: asks the indexes, from one node for each Python, whether they still have the packages of the lock. */
void rerun_ask_index(struct rerun_look *l, const struct roster *roster);

#endif
