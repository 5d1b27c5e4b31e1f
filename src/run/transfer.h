/* The parts of transfer.c that have their own files: the difference between two trees, and the data that transfers
 * share. */
#ifndef RHRUN_RUN_TRANSFER_H
#define RHRUN_RUN_TRANSFER_H

#include "internal.h"

/* ---- transfer_diff.c: pure ---- */

struct transfer_diff {
    const struct tree_file **send; /* in the tree's order */
    size_t send_count;
    uint64_t send_bytes;
    struct wire_strings removes; /* files of the old tree that are not in the new one */
};
/* The changes that turn the node's tree into `want`. The node has `base` (NULL: nothing), except for `files`, which
 * differ from it. This function sorts `files`; if several are for one path, the last counts. missing: only files that
 * the node does not have are sent; nothing is replaced or removed. */
void transfer_compare(const struct tree *base, struct wire_sync_file *files, size_t file_count, const struct tree *want,
                      bool missing, struct arena *arena, struct transfer_diff *ret);

/* ---- transfer_cache.c: files that several nodes need are read once ---- */

struct content { /* of one file of a stored tree; it is open while a transfer uses it */
    struct tree_reader reader;
    uint8_t oid[TREE_OID_SIZE];
    uint32_t users;
    bool cached;
};
/* The tree with this id, from the plan or from the store. NULL: neither has it. */
const struct tree *cache_tree(struct run *r, const char *id);
struct content *cache_open(struct run *r, const struct tree_file *file, struct error *err); /* NULL and err */
void cache_close(struct content *c);                                                     /* takes NULL */

#endif
