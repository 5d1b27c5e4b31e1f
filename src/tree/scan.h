/*
 * Shared by the files of a scan: ignore rules (ignore*.c), the walk (walk*.c), the table of the last scan (cache.c) and
 * reading (scan*.c).
 *
 * The walk lists one folder at a time per thread, on a few threads, and stats each file once; ignored folders are not
 * opened. The sorted result is compared with the table: unchanged files keep their ids, the rest are read.
 *
 * Paths inside a scan are relative to `top`, the work tree around the scanned folder (without a repository the folder
 * itself), because ignore files above the folder count too. The scanned folder's own path is `top/` + the first `skip`
 * bytes. */
#ifndef RHRUN_TREE_SCAN_H
#define RHRUN_TREE_SCAN_H

#include "internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

enum {
    SCAN_THREADS_MAX = 8,
    SCAN_NOTES_MAX = 20,
    SCAN_TABLES_MAX = 64,                /* tables in one store; the oldest go */
    IGNORE_PATTERN_MAX = 4096,           /* bytes of one pattern */
    IGNORE_FILE_MAX = 8 << 20,           /* bytes of one ignore file */
    IGNORE_GITFILE_MAX = 2 * TREE_PATH_MAX,
};
#define SCAN_TABLE_MAX (UINT64_C(1) << 31) /* bytes of a table */

/* ---- ignore_wild.c, ignore.c: patterns as in .gitignore ---- */

/* path: "/" matches only "/" and a separate `**`. fold: ignore the case of ASCII letters. */
bool ignore_wild(const char *pattern, const char *text, bool path, bool fold);

enum ignore_verdict { IGNORE_UNDECIDED, IGNORE_OUT, IGNORE_IN };
struct ignore_pattern {
    const char *text;
    uint32_t len;
    uint32_t literal; /* bytes before the first wildcard */
    bool negated, folder, base_name, suffix; /* `!x`; `x/`; without a slash inside; `*literal` */
};
struct ignore_list {
    const struct ignore_list *next; /* applies if this one does not decide */
    size_t base;                    /* offset in paths where matching begins */
    bool fold;
    struct ignore_pattern *patterns;
    size_t count;
};
/* The patterns of an ignore file's text. name is for errors. If there are none, *ret is `next`. */
int ignore_parse(struct arena *a, const char *text, size_t len, const char *name, size_t base, bool fold,
                 const struct ignore_list *next, const struct ignore_list **ret, struct error *err);
/* The last pattern of this list alone that matches decides. name: offset of the last part of path. */
enum ignore_verdict ignore_match(const struct ignore_list *l, const char *path, size_t len, size_t name, bool folder);
/* The first list of the chain that decides. */
enum ignore_verdict ignore_match_chain(const struct ignore_list *l, const char *path, size_t len, size_t name,
                                       bool folder);
/* Whether a pattern that is not negated may match something below this folder. */
bool ignore_may_match_below(const struct ignore_list *l, const char *path, size_t len);

/* ---- ignore_repo.c, ignore_config.c: rules of a repository ---- */

/* The part of git's configuration that counts here. Kept in the table: opening libgit2 costs more than a scan. */
struct scan_config {
    char *git_dir;
    uint8_t seen[TREE_OID_SIZE]; /* digest of the stat data of the files it was read from */
    bool used;                   /* by this scan */
    bool keep;                   /* it depends on those files only */
    bool fold;                   /* core.ignorecase */
    char *excludes;              /* core.excludesFile or git's default, absolute; "" = none */
};
struct scan_configs {
    struct scan_config *items;
    size_t count;
    bool changed; /* differs from the table's */
};
void scan_configs_free(struct scan_configs *c);

struct repo {
    struct repo *next;
    char *work_tree, *git_dir, *common_dir; /* absolute */
    const char *prefix;                     /* of its work tree in paths of the scan: "" or ends with "/" */
    size_t base;                            /* its length */
    bool fold;
    const struct ignore_list *rules; /* info/exclude, then core.excludesFile */
    atomic_bool ignored;             /* something in it is ignored, so its tracked files matter */
    _Atomic uint64_t rules_sum;      /* of all its ignore files */
};
/* Whether there is a repository with its work tree here. Its folders go to the arena. */
bool repo_find(const char *work_tree, struct arena *a, char **ret_git_dir, char **ret_common_dir);
bool repo_is_bare(const char *path); /* whether the folder itself is a repository */
/* Reads its configuration (known: those from the table; new ones are added; under the lock) and ignore files. */
int repo_open(const char *work_tree, const char *prefix, char *git_dir, char *common_dir, struct arena *a,
              struct scan_configs *known, pthread_mutex_t *lock, struct repo **ret, struct error *err);
/* One of its ignore files was read: results from its index under other rules no longer count. */
void repo_rules_seen(struct repo *r, const char *name, const struct buf *text);
int scan_config_read(const char *work_tree, const char *git_dir, const char *common_dir, struct scan_config *ret,
                     struct error *err);
/* The stat data of the files that a configuration is read from. False: one changed just now. */
bool scan_config_seen(const char *git_dir, const char *common_dir, uint8_t ret[TREE_OID_SIZE]);

/* One ignore file, "" when it cannot be opened (as git does). dir_fd AT_FDCWD: path is absolute. follow: a link is
 * followed. */
int ignore_file_read(int dir_fd, const char *path, bool follow, const char *name, struct buf *ret, struct error *err);

/* ---- walk.c, walk_folder.c ---- */

struct stat_data {
    uint64_t size, ino;
    int64_t mtime_sec, ctime_sec;
    uint32_t mtime_nsec, ctime_nsec;
    uint32_t mode;
    uint32_t zero; /* so that two can be compared as bytes */
};
struct stat_data stat_data_of(const struct stat *st);

enum walk_kind {
    WALK_FILE,    /* or a link */
    WALK_FOLDER,
    WALK_IGNORED, /* ignored by git; may be tracked all the same */
    WALK_SPECIAL, /* socket, FIFO, device */
};
struct walk_entry {
    const char *name;
    uint32_t len;
    enum walk_kind kind;
    bool folder; /* it is a folder, whatever its kind */
    union {
        struct stat_data st;      /* of a file; of a special one only its mode */
        struct walk_folder *sub;  /* of a folder */
    };
};
enum walk_mode {
    WALK_RULES,        /* ignore rules count */
    WALK_ALL,          /* in a folder that `include` names */
    WALK_OUT_IGNORED,  /* in a folder that git ignores: only `include` counts */
    WALK_OUT_EXCLUDED, /* in a folder that `exclude` names, likewise */
};
struct walk_folder {
    struct walk_folder *next; /* in the queue */
    char *path;               /* ends with "/", except the top, which is "" */
    size_t len;
    uint32_t depth; /* below the scanned folder */
    enum walk_mode mode;
    struct repo *repo;
    const struct ignore_list *rules; /* from its parents' files */
    struct walk_entry *entries;      /* sorted as in a tree */
    size_t count;
};

struct walk {
    const struct tree_scan *scan;
    int root_fd;
    char *top;
    size_t top_len, skip; /* skip: includes the "/" at the end; 0 if top is the scanned folder */
    const struct ignore_list *exclude, *include;
    char **left_out; /* sorted, relative to top */
    size_t left_out_count;
    struct walk_folder *root;
    struct arena *arena;                          /* for data made before and after the threads */
    struct arena **arenas;                        /* theirs */
    size_t arena_count;
    struct walk_folder **more_roots; /* submodules that are tracked although ignored */
    size_t more_root_count;
    struct timespec started; /* by the clock of file times */
    bool follow;             /* the one file may be a link */
    bool root_ignored;       /* ignored by the rules above it: then no ignore file of that repository counts */

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t more;
    struct walk_folder *queue;
    size_t open; /* folders in the queue or at work */
    size_t files;
    uint64_t path_bytes; /* of those files, with a NUL each */
    bool failed;
    struct error error;
    struct repo *repos;
    struct scan_configs configs;
};
/* Walks the folders in w->queue until all are done. Results are in w->arenas. */
int walk_run(struct walk *w, struct error *err);
size_t scan_threads(void);
/* Starts up to `want` threads with all signals blocked; returns how many it could. */
size_t scan_run_threads(size_t want, void *(*body)(void *), void *const *args, pthread_t *ret_threads);
void walk_push(struct walk *w, struct walk_folder *f);
/* Reads one folder: its entries, and the folders below it to read (chained by next; *ret_count of them). Any thread. */
int walk_folder_read(struct walk *w, struct walk_folder *f, struct arena *a, struct walk_folder **ret_below,
                     size_t *ret_count, struct error *err);
/* Reads the repository whose work tree is this folder, if there is one, and sets rules and repo of f. */
int walk_enter_repo(struct walk *w, struct walk_folder *f, struct arena *a, struct error *err);
/* The folder's .gitignore (path: below dir_fd). f is in a repository. */
int walk_read_rules(struct walk *w, struct walk_folder *f, int dir_fd, const char *path, struct arena *a,
                    struct error *err);
bool walk_left_out(const struct walk *w, const char *path);
const struct walk_entry *walk_find(const struct walk_folder *f, const char *name, size_t len);
/* "top/path" with control characters escaped, in quotes, for messages. */
char *scan_quote(struct arena *a, const struct walk *w, const char *path);

/* ---- cache.c: the table ---- */

enum {
    ITEM_KNOWN = 1,  /* oid is valid */
    ITEM_STORED = 2, /* and the store has it */
    ITEM_RACY = 4,   /* changed as late as it was read, so it may have changed since */
    ITEM_GONE = 8,   /* vanished during the scan; never in a table */
};
struct scan_item {
    const char *path; /* relative to the scanned folder */
    uint32_t len;
    uint32_t flags;
    struct stat_data st;
    uint8_t oid[TREE_OID_SIZE];
};
struct tracked {
    const char *path; /* relative to the scanned folder */
    bool submodule;
};
struct scan_table {
    struct buf raw;           /* the other fields point into it */
    const void *records;      /* private */
    size_t count;
    bool same_boot;           /* `stored` marks count */
    bool tree_stored;         /* the tree objects of id are in the store */
    char id[TREE_ID_LEN + 1];
    struct scan_configs configs;
    uint8_t tracked_seen[TREE_OID_SIZE]; /* what `tracked` was made from; zeros: nothing */
    struct tracked *tracked;             /* files in an index that the walk did not find; sorted */
    size_t tracked_count;
};
/* False: there is no table, or it is damaged or of another version. `stored` marks count only until the next boot,
 * because a power cut may lose the store's last writes. */
bool scan_table_load(const char *path, struct scan_table *ret);
void scan_table_free(struct scan_table *t);
/* Marks the items (sorted) that are unchanged from the table. True: they are all items, and all of the table. */
bool scan_table_join(const struct scan_table *t, struct scan_item *items, size_t count);
/* A failure is no error: the next scan only reads more. Saves t->id, configs and tracked; records are made from
 * items. */
void scan_table_save(const char *path, const struct scan_table *t, const struct scan_item *items, size_t count);

/* The files found, in the order of their paths (which lie in one block of the result's arena). */
struct scan_items {
    struct scan_item *items; /* malloc */
    size_t count;
    struct buf notes;
    size_t note_count;
};
/* Adds the files below f, and notes about special ones. paths: room for all their paths. */
void scan_collect(const struct walk *w, const struct walk_folder *f, struct scan_items *to, char **paths);
void scan_note(struct scan_items *to, const char *text);
struct scan_item *scan_find(const struct scan_items *in, const char *path);

/* ---- scan_tracked.c: files that git tracks although it ignores them ---- */

/* Adds these files. t: its part about them is used, or rebuilt (*ret_changed). May walk into submodules. */
int scan_tracked_add(struct walk *w, struct scan_table *t, struct arena *a, struct scan_items *to, bool *ret_changed,
                     struct error *err);

/* ---- scan_index.c ---- */

/* Each path of the repository's index, in order; once per stage in a conflict. */
typedef void scan_index_fn(void *arg, const char *path, bool submodule);
int scan_index_read(const struct repo *r, scan_index_fn *each, void *arg, struct error *err);

/* ---- scan_read.c ---- */

/* Hashes the items that are not known yet and, with a batch, adds the contents of those that are not stored. Items that
 * changed since the scan began are marked ITEM_RACY. */
int scan_read(struct walk *w, struct scan_items *in, struct tree_batch *batch, struct error *err);
bool scan_racy(const struct stat_data *st, const struct timespec *started);

/* ---- scan_copy.c: a big file on its way into the store ---- */

struct scan_copy;
struct scan_copy *scan_copy_begin(int from, int to, uint64_t size); /* both stay the caller's; size + 1 bytes at most */
/* Waits until the copy has more than `seen` bytes, or has ended; returns how many it has. */
uint64_t scan_copy_wait(struct scan_copy *c, uint64_t seen, bool *ret_ended);
int scan_copy_end(struct scan_copy *c); /* stops and frees it; the errno it failed with, or 0 */

#endif
