/*
 * Trees on a node: the index of the files that transfers wrote, and the folders that they write to.
 *
 * The index is one file of records: a head, as many entries as the head says (the complete tree with its id), then the
 * changes of a transfer under way. That part begins with the boot's id and counts for that boot only. At the end of the
 * transfer a new file replaces the old one. Each record has a checksum; reading ends at the first incomplete record.
 */
#ifndef RHRUN_AGENT_TREE_H
#define RHRUN_AGENT_TREE_H

#include "internal.h"

#include <sys/stat.h>

enum entry_flag {
    ENTRY_ANY = 1,    /* on disk: any existing file is accepted */
    ENTRY_BASE = 2,   /* of the complete tree */
    ENTRY_NEW = 4,    /* written or removed since */
    ENTRY_GONE = 8,   /* not there, or changed */
    ENTRY_STALE = 16, /* may not have survived: sent again, or removed at the end */
};
struct tree_entry {
    const char *path;
    uint8_t oid[WIRE_OID_SIZE];
    uint16_t mode;      /* as in struct wire_file */
    uint16_t stat_mode; /* these are from stat when it was written */
    uint8_t flags;
    uint32_t patch; /* 1 + index of the file's last patch; 0 = as written */
    uint64_t size, mtime_ns, inode;
};
struct tree_patch { /* a set-up RUN changed the file: it is expected as that RUN left it */
    const char *who; /* the attempt (WIRE_ID_LEN), then its machine and step */
    uint32_t entry, before; /* 1 + index: of the file (0 = no longer valid), and of its previous patch (0 = none) */
    struct tree_entry now; /* ENTRY_GONE: removed */
};
struct tree {
    char *dir;  /* of the index: absolute */
    char *root; /* as in the index: "@base/...", else absolute */
    char *path; /* of the root: absolute */
    const char *boot_id;
    bool inside;                    /* the root is below the base folder */
    char id[2 * WIRE_OID_SIZE + 1]; /* of the complete tree; "" = none */
    bool touched;                   /* a transfer has begun to change it */
    struct tree_entry *entries;
    uint32_t count, cap;
    uint32_t *slots; /* hash table: 1 + index of an entry */
    uint32_t slot_count;
    struct tree_patch *patches; /* oldest first */
    uint32_t patch_count, patch_cap;
    struct arena *arena; /* for new paths */
    struct buf text;     /* the file as it was read: older paths lie in it */
    size_t whole;        /* bytes of complete records in it */
    bool fresh;          /* there is no usable file: a new one must be made before anything is added */
    int fd;              /* to add to, or -1 */
    struct buf added;    /* records that are not written yet */
};

/* tree_open finds a tree's index (root: a node path), tree_read reads it; a missing file is the same as an empty one.
 * distrust: no entry counts. Strings are in the arena; close it in any case. */
void tree_open(struct tree *t, const struct ledger *l, const char *name, const char *root, struct arena *arena);
int tree_read(struct tree *t, bool distrust, struct error *err);      /* -1: the file exists but cannot be read */
void tree_close(struct tree *t);                                      /* takes a zeroed one */
struct tree_entry *tree_find(const struct tree *t, const char *path); /* or NULL */
/* The entry for that path, made if needed; set its other fields, then call tree_add. */
struct tree_entry *tree_entry(struct tree *t, const char *path);
void tree_add(struct tree *t, const struct tree_entry *e); /* to the file, by the next tree_flush */
void tree_drop(struct tree *t, struct tree_entry *e);      /* likewise: the file no longer exists */
int tree_flush(struct tree *t, struct error *err);
/* Makes the entries that are not gone the complete tree `id`. */
int tree_commit(struct tree *t, const char *id, struct error *err);
void tree_entry_stat(struct tree_entry *e, const struct stat *st);
bool tree_entry_is(const struct tree_entry *e, const struct stat *st); /* unchanged */
/* Likewise, or as the last patch left it; st NULL: the file does not exist. */
bool tree_entry_there(const struct tree *t, const struct tree_entry *e, const struct stat *st);
/* Adds a patch: `who` changed the file, and is its last patch from now on; a rewrite of the file drops it. */
void tree_patch(struct tree *t, struct tree_entry *e, const char *who, const struct tree_entry *now);
void tree_unpatch(struct tree *t, struct tree_entry *e);
/* who: of the patch put before, or NULL */
void tree_put_patch(struct buf *out, const struct tree_patch *p, const char **who);
int tree_append(struct tree *t, struct error *err); /* writes `added`, valid in any boot, outside a transfer */
/* Whether the complete tree with that id is there, with every file unchanged. */
bool tree_there(const struct ledger *l, const char *name, const char *root, const char *id);
/* Calls fn with name and root of each tree whose root is (inside) or is not (!inside) below the base folder. */
void tree_each(const struct ledger *l, bool inside, void (*fn)(void *context, const char *name, const char *root),
               void *context);

/* ---- patch.c: changes of set-up RUNs to trees' files (wire.h), without trees in other variants' folders ---- */
/* notes the patches of a RUN that ended well; -1 with errno */
int patch_note(const struct ledger *l, const struct wire_run *run, uint32_t *ret_count);
void patch_put(const struct ledger *l, const char *attempt, struct buf *out); /* PATCHED; NULL: of all attempts */

/* ---- dirs.c: the folders below a root, step by step and never through a link ---- */
enum { DIRS_DEPTH = 200 };
struct dirs {
    int root_fd;
    size_t depth;
    int fds[DIRS_DEPTH];
    size_t ends[DIRS_DEPTH]; /* where each one's name ends in path */
    char path[WIRE_PATH_MAX + 2];
};
/* Opens the folder of the file `path`, and returns the file's name in it; -1 with errno. The folder stays open until
 * another is entered. in_the_way: called with the path of anything that is no folder; removes it or returns -1 with
 * errno. NULL: nothing is made. */
int dirs_enter(struct dirs *d, const char *path, const char **ret_name,
               int (*in_the_way)(void *context, int dir_fd, const char *name, const char *path), void *context);
void dirs_leave(struct dirs *d, size_t depth); /* closes all folders below that depth */
void dirs_prune(struct dirs *d);               /* removes the folder last entered if it is empty, and so on upwards */

#endif
