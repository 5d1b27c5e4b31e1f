/*
 * Shared by the files of tree: adding new contents to a store (store*.c, pack*.c), and the id of a list of files
 * (scan_id.c).
 *
 * A scan hashes while it reads, on several threads, and passes each content on in the same pass, so no file is read
 * twice. Small contents go as a whole to tree_batch_add; big ones (over TREE_BIG_SIZE) are written piece by piece to a
 * file of the store, which gets its name once its id is known.
 */
#ifndef RHRUN_TREE_INTERNAL_H
#define RHRUN_TREE_INTERNAL_H

#include "rhrun/tree.h"

/* ---- store ---- */

/* The store's folder. Opening a store is cheap: the repository inside is opened when first needed, so an unchanged scan
 * (which reads one table) does not pay for it. Code that removes objects from a store must remove its scan-* tables
 * too, because they record which objects are stored. */
const char *tree_store_dir(const struct tree_store *s);

/* Whether the store has this content, as a blob or (over TREE_BIG_SIZE) as big/OID. Any thread may call it while a
 * batch is open. */
bool tree_store_has(struct tree_store *s, const uint8_t oid[TREE_OID_SIZE], uint64_t size);

enum tree_object { TREE_OBJECT_BLOB, TREE_OBJECT_TREE };

/* A batch of new objects; one per store at a time. `files` and `bytes`: upper bounds of what will come (they choose
 * between a pack and loose objects). tree_batch_end makes everything visible and durable, or on failure nothing;
 * tree_batch_abort leaves nothing behind. Both free the batch. */
struct tree_batch;
int tree_batch_begin(struct tree_store *s, uint64_t files, uint64_t bytes, struct tree_batch **ret, struct error *err);
int tree_batch_end(struct tree_batch *b, struct error *err);
void tree_batch_abort(struct tree_batch *b); /* takes NULL */

/* Adds an object, unless the store has it. From any thread; takes the batch's lock. */
int tree_batch_add(struct tree_batch *b, enum tree_object type, const uint8_t oid[TREE_OID_SIZE], const void *data,
                   size_t len, struct error *err);

/* A big file: the caller writes its content to the descriptor, then gives its id. From any thread; several may be open.
 * tree_batch_big_end closes it (and drops the new copy if the store has that id), tree_batch_big_abort drops it. */
struct tree_big;
int tree_batch_big_begin(struct tree_batch *b, uint64_t size, struct tree_big **ret, int *ret_fd, struct error *err);
int tree_batch_big_end(struct tree_big *big, const uint8_t oid[TREE_OID_SIZE], struct error *err);
void tree_batch_big_abort(struct tree_big *big); /* takes NULL */

/* ---- scan_id.c: the id of a list of files ---- */

/* The id of git's tree of these files (sorted by strcmp of path; no path is a folder of another). If there is a batch,
 * the tree objects are added to it. */
int tree_id(const struct tree_file *files, size_t count, struct tree_batch *b, char ret_id[TREE_ID_LEN + 1],
            struct error *err);

/* Git's id of an object: SHA-1 of "TYPE SIZE\0" and the content. */
void tree_hash(enum tree_object type, const void *data, size_t len, uint8_t ret_oid[TREE_OID_SIZE]);

void tree_hex(const uint8_t oid[TREE_OID_SIZE], char ret[TREE_ID_LEN + 1]);

/* ---- git_files.c ---- */

/* Refuses a repository if something that libgit2 or git would open there is not a file, including files that its
 * configuration includes. */
int git_files_check(const char *git_dir, const char *common_dir, struct error *err);
/* The same for all of a repository on this machine, references and objects included; path is its work tree or the
 * repository itself. */
int git_folder_check(const char *path, struct error *err);

/* ---- the store's own (store.c, store_big.c, pack.c, pack_read.c, reader.c, remote*.c) ----
 *
 *   DIR/objects, refs, ...   a bare git repository
 *   DIR/big/OID              contents over TREE_BIG_SIZE
 *   DIR/scan-*               the tables of scan_*.c
 *   DIR/fetched/NAME refs and commits of other repositories: "COMMIT TREE", then the notes
 *   DIR/rhrun-lock flock: shared while a store is open, exclusive for a sweep
 *   tmp_rhrun_* of a running batch, locked (flock): a file whose lock is free was left behind, and is removed
 *
 * A pack is synced before it gets its name (its pages are written out while it grows, so that costs little). A big file
 * is not synced: after a power cut it may be too short. Then, like an incomplete pack, it counts as missing, and the
 * next scan stores its content again. */

struct git_odb;
struct git_repository;

struct tree_pack {
    char name[48];        /* "pack-HEX" */
    const uint8_t *index; /* .idx version 2, mapped; its tables were checked to be inside the file */
    size_t index_size;
    uint32_t count;
    const uint8_t *data; /* .pack, mapped; both stay mapped until the store is closed */
    uint64_t size;
    bool stored; /* one of our packs: its contents are not deflated */
};
struct tree_store {
    char *dir;
    int lock; /* -1: the lock file could not be made */
    struct tree_pack *packs;
    size_t pack_count;
    bool packs_read; /* at least once */
    bool git_ready;  /* git_libgit2_init was called */
    struct git_repository *repository; /* NULL until it is needed */
    struct git_odb *odb;
};

/* Opens an existing store exclusively: ERROR_HELD if somebody has it open; nobody can open it until it is closed. */
int tree_store_hold(const char *dir, struct tree_store **ret, struct error *err);
/* Opens the repository with libgit2 if it is not open yet. */
int tree_store_git(struct tree_store *s, struct error *err);
/* "what: the last message of libgit2" */
int tree_git_error(struct error *err, enum error_code code, const char *fmt, ...) FORMAT(3, 4);
/* A new locked file in DIR/folder; the caller renames or unlinks it, and closes the descriptor. */
int tree_temp(struct tree_store *s, const char *folder, char **ret_path, struct error *err);
int tree_big_begin(struct tree_store *s, struct tree_big **ret, int *ret_fd, struct error *err);
char *tree_big_path(const struct tree_store *s, const uint8_t oid[TREE_OID_SIZE]);
bool tree_big_has(const struct tree_store *s, const uint8_t oid[TREE_OID_SIZE], uint64_t *ret_size);

/* From here on, objects are added even if a fetched pack has them, unless one of our packs has them. */
void tree_batch_again(struct tree_batch *b);
/* Extracts a big content from a pack of `from`, and stores it beside the objects of `to`. */
int tree_big_take_out(struct tree_store *from, struct tree_store *to, const struct tree_file *f, struct error *err);

/* Starts to write a file's pages out, up to `to` (0: all), and does not wait. */
void tree_write_back(int fd, uint64_t to);

/* Reads new packs in objects/pack, and skips damaged ones. Pointers to packs are valid until the next call. */
void tree_packs_read(struct tree_store *s);
void tree_packs_free(struct tree_store *s);
/* Our own packs come first. */
bool tree_pack_find(const struct tree_store *s, const uint8_t oid[TREE_OID_SIZE], const struct tree_pack **ret,
                    uint64_t *ret_offset);
/* The head of an object in a pack. False: it is a delta, or damaged. */
struct tree_entry {
    int type;            /* git's: 1 commit, 2 tree, 3 blob, 4 tag */
    uint64_t size;       /* of the content */
    const uint8_t *body; /* the zlib stream, and the bytes from there to the pack's end */
    size_t left;
};
bool tree_pack_entry(const struct tree_pack *pack, uint64_t offset, struct tree_entry *ret);

/* An object's content. Free `owned`; data may instead point into a mapped pack. */
struct tree_content {
    const uint8_t *data;
    uint64_t size;
    void *owned;        /* malloc */
    void *git;          /* git_odb_object */
};
enum tree_found { TREE_FOUND, TREE_MISSING, TREE_DAMAGED };
/* type is git's. On TREE_DAMAGED err says why (the caller adds the file). */
enum tree_found tree_content_read(struct tree_store *s, const uint8_t oid[TREE_OID_SIZE], int type,
                                  struct tree_content *ret, struct error *err);
void tree_content_free(struct tree_content *c);

/* Lists the files of tree id. *ret_same: the listed files give the same id (nothing was left out, and no mode has an
 * unusual form). Submodules are named in ret_notes (may be NULL). A tree that git would never make is refused. */
enum tree_found tree_list(struct tree_store *s, const char *id, struct arena *arena, struct tree **ret, bool *ret_same,
                          struct buf *ret_notes, struct error *err);

#endif
