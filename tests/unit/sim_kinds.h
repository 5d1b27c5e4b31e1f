/* Kinds of step for the tests of run, before and after the real ones: files to the node (sync), installations (install,
 * which has `verify`), files from the node (fetch). Their steps are the lists of a struct sim_job. */
#ifndef RHRUN_TEST_SIM_KINDS_H
#define RHRUN_TEST_SIM_KINDS_H

#include "rhrun/step.h"

struct sim_sync_step {
    const char *name, *tree_name, *root;
    const struct tree *tree;
    bool missing, own; /* own: not shared by nodes of one home */
};
struct sim_install_step {
    const char *name;
    unsigned version;
};
struct sim_fetch_step {
    const char *name, *from, *to; /* to: absolute; the node's name is put below it */
    enum spec_when when;
    uint64_t every_ms;
    bool required, first; /* first: of node 0 only */
};
enum { SIM_KINDS_MAX = 4 };
struct sim_kind_lists {
    struct sim_sync_step syncs[SIM_KINDS_MAX];
    struct sim_install_step installs[SIM_KINDS_MAX];
    struct sim_fetch_step fetches[SIM_KINDS_MAX];
};
/* NULL-terminated; the lists must live as long as plans of them. */
const struct step_kind *const *sim_kinds(const struct sim_kind_lists *lists);

#endif
