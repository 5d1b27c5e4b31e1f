/* Transfers' private parts: what has to travel, and what several transfers share. */
#ifndef RHRUN_RUN_TRANSFER_H
#define RHRUN_RUN_TRANSFER_H

#include "internal.h"

/* ---- transfer_diff.c: pure ---- */

struct transfer_diff {
    const struct tree_file **send; /* in the tree's order */
    size_t send_count;
    uint64_t send_bytes;
    struct wire_strings removes; /* of the old tree, not in the new one */
};
/* What makes a node that has `base` (NULL: nothing) but for `files` have `want`. files is sorted here; the last of
 * several for one path counts. missing: nothing is removed, and what is there stays. */
void transfer_compare(const struct tree *base, struct wire_sync_file *files, size_t file_count, const struct tree *want,
                      bool missing, struct arena *arena, struct transfer_diff *ret);

/* ---- transfer_cache.c: what several nodes need is looked up once ---- */

struct content { /* of a file of a stored tree, open while somebody uses it */
    struct tree_reader reader;
    uint8_t oid[TREE_OID_SIZE];
    uint32_t users;
    bool cached;
};
/* The tree of this id: among the plan's and the store's. NULL: nobody knows it. */
const struct tree *cache_tree(struct run *r, const char *id);
struct content *cache_open(struct run *r, const struct tree_file *file, struct error *err); /* NULL and err */
void cache_close(struct content *c);                                                     /* takes NULL */

#endif
