/*
 * Trees for the tests of run: made by hand, with contents that follow from their oid, and the functions of tree.h that
 * read them, instead of a store on the disk. A tree is in the "store" until sim_trees_forget.
 */
#ifndef RHRUN_TEST_SIM_TREE_H
#define RHRUN_TEST_SIM_TREE_H

#include "rhrun/tree.h"

struct sim_file_spec {
    const char *path; /* NULL ends a list */
    unsigned version; /* same path, version and size: same content */
    uint64_t size;
    uint32_t mode; /* 0 = TREE_MODE_FILE */
};
enum { SIM_BIG = 1 << 20 }; /* a larger file is read in pieces */

struct tree_store *sim_store(void);
const struct tree *sim_tree(struct arena *arena, const struct sim_file_spec *files);
void sim_trees_forget(void);        /* forgets all trees */
void sim_tree_broken(const char *path); /* reading files of this path fails; NULL = none */
void sim_oid(const char *path, unsigned version, uint64_t size, uint8_t ret[TREE_OID_SIZE]);
void sim_content(const uint8_t oid[TREE_OID_SIZE], uint64_t offset, void *out, size_t len);
extern uint64_t sim_tree_opens; /* the number of opened files */

#endif
