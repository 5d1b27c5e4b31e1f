/* A node of a job, and how a person or a program gets there: rhrun ssh, rhrun exec. */
#ifndef RHRUN_CLI_LOGIN_H
#define RHRUN_CLI_LOGIN_H

#include "internal.h"

struct container_place;
struct login {
    struct spec *spec;
    struct roster *roster;
    char job[17];
    uint32_t node;
    const struct spec_host *host;   /* of the node */
    const char *run, *work;         /* the run that the word means, and the name of its working directory; NULL: none */
    const char *const *args;        /* the command: the words after -- */
    size_t arg_count;
};
/* What the last run found on a node. All NULL: no run has been there. */
struct login_facts {
    const char *install, *work_dir, *home, *base_dir, *address;
};
/* By the command's words: SPEC or RUN, then NODE: a name or a number, by default the first. needs_run: a SPEC means its
 * latest run too. Prints faults: 0, or an exit status. From here on the words after -- are the command's, not the
 * job's. */
int login_find(struct cli *c, bool needs_run, struct login *ret);
/* In the command's arena. */
struct login_facts login_facts(struct cli *c, const struct login *l, uint32_t node);
/* A program of this machine that runs `text` there as /bin/sh does, in folder (NULL: the login folder); in the place's
 * container, if it has one. In the command's arena, ended by NULL. */
const char *const *login_argv(struct cli *c, const struct container_place *place, const char *folder, const char *text,
                              bool terminal);
/* Becomes that program; on failure prints why, and returns the exit status. */
int login_become(struct cli *c, const char *const *argv);
int login_no_machine(struct error *err, uint32_t node); /* -1 */

#endif
