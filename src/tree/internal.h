/*
 * What the files of tree share: the store's side of bringing new contents in (store*.c, pack*.c), and the id of a
 * list of files (scan_id.c).
 *
 * A scan hashes while it reads, on several threads, and hands each content on in the same pass: no file is read
 * twice. Small ones go as a whole to tree_batch_add, big ones (over TREE_BIG_SIZE) are written piece by piece to a
 * file of the store that gets its name once its id is known.
 */
#ifndef RHRUN_TREE_INTERNAL_H
#define RHRUN_TREE_INTERNAL_H

#include "rhrun/tree.h"

/* ---- store: by whoever opened it ---- */

/* The store's folder. Opening it is cheap: the repository inside is opened at the first need, so an unchanged scan
 * (which reads one table) does not pay for it. Whatever removes objects from a store removes its scan-* tables too,
 * for they remember what is stored. */
const char *tree_store_dir(const struct tree_store *s);

/* Does it have this content, as a blob or (over TREE_BIG_SIZE) as big/OID? Any thread while a batch is open. */
bool tree_store_has(struct tree_store *s, const uint8_t oid[TREE_OID_SIZE], uint64_t size);

enum tree_object { TREE_OBJECT_BLOB, TREE_OBJECT_TREE };

/* A batch of new objects; one per store at a time. `files` and `bytes` are what is to come at most (a pack or loose
 * objects?). tree_batch_end makes all of it visible and durable, or on failure none; without it, tree_batch_abort
 * leaves nothing behind. Both free the batch. */
struct tree_batch;
int tree_batch_begin(struct tree_store *s, uint64_t files, uint64_t bytes, struct tree_batch **ret, struct error *err);
int tree_batch_end(struct tree_batch *b, struct error *err);
void tree_batch_abort(struct tree_batch *b); /* takes NULL */

/* Adds what the store does not have yet (else does nothing). From any thread; takes the batch's lock. */
int tree_batch_add(struct tree_batch *b, enum tree_object type, const uint8_t oid[TREE_OID_SIZE], const void *data,
                   size_t len, struct error *err);

/* A big file: the caller writes its content to the descriptor, then names it. From any thread; several may be open.
 * tree_batch_big_end closes it (an id that is there already: the new copy is dropped), tree_batch_big_abort drops it. */
struct tree_big;
int tree_batch_big_begin(struct tree_batch *b, uint64_t size, struct tree_big **ret, int *ret_fd, struct error *err);
int tree_batch_big_end(struct tree_big *big, const uint8_t oid[TREE_OID_SIZE], struct error *err);
void tree_batch_big_abort(struct tree_big *big); /* takes NULL */

/* ---- scan_id.c: the id of a list of files ---- */

/* The id of git's tree of these files (sorted by strcmp of path, no path is a folder of another). With a batch the
 * tree objects are added to it. */
int tree_id(const struct tree_file *files, size_t count, struct tree_batch *b, char ret_id[TREE_ID_LEN + 1],
            struct error *err);

/* Git's name of an object: SHA-1 of "TYPE SIZE\0" and its content. */
void tree_hash(enum tree_object type, const void *data, size_t len, uint8_t ret_oid[TREE_OID_SIZE]);

void tree_hex(const uint8_t oid[TREE_OID_SIZE], char ret[TREE_ID_LEN + 1]);

#endif
