/* What the files of this module share: places.c (folders, lock), db.c (SQLite), writer.c (the thread), journal.c. */
#ifndef RHRUN_JOURNAL_INTERNAL_H
#define RHRUN_JOURNAL_INTERNAL_H

#include "rhrun/journal.h"

#include <pthread.h>
#include <sqlite3.h>

/* ---- places.c ---- */
char *journal_home_path(struct error *err); /* resolves, creates nothing */
/* Makes one folder, 0700 whatever the umask, and syncs its entry. An existing folder is left as it is. */
int journal_make_dir(const char *path, struct error *err);
char *journal_make_job_dir(const char *job_id, struct error *err);
/* Takes jobs/JOB/lock and writes the holder into it; the lock lives as long as the descriptor. -1: ERROR_HELD,
 * ERROR_IO. */
int journal_lock(const char *path, const char *name, const char *owner_name, struct error *err);
int journal_lock_as(const char *path, const char *what, const char *name, const char *owner_name,
                    struct error *err); /* what: "job", for messages */
void journal_unlock(int fd);
bool journal_lock_holder(const char *path, pid_t *ret_pid, char **ret_name);

/* ---- db.c ---- */
enum { JOURNAL_FORMAT = 1, JOURNAL_APPLICATION = 0x7268726e /* "rhrn" */, JOURNAL_BUSY_MS = 10000 };
/* Tests put a VFS under every database opened from now on; NULL = SQLite's default. */
void journal_set_vfs(const char *name);

extern const char db_damaged_hint[]; /* of a job's journal */
/* Sets err from db's last fault: `could not VERB "FILE": reason`. */
int db_fault(sqlite3 *db, const char *verb, const char *file, struct error *err);
int db_exec(sqlite3 *db, const char *sql, const char *verb, const char *file, struct error *err);
/* For writing; makes the tables of a new one. */
int db_open_write(const char *file, const char *name, const char *origin, sqlite3 **ret, struct error *err);
/* A second connection to a database that is known to be good. */
int db_open_again(const char *file, sqlite3 **ret, struct error *err);
/* 0; 1: nothing was ever committed, and *ret is not set; -1. */
int db_open_read(const char *file, sqlite3 **ret, struct error *err);
/* The value of meta `key`, owned by the caller; NULL and err when there is none. */
char *db_meta(sqlite3 *db, const char *file, const char *key, struct error *err);
int db_each(sqlite3 *db, const char *file, uint64_t after, bool (*fn)(void *arg, const struct event *e), void *arg,
            struct error *err);

/* ---- writer.c: the journal's own thread ---- */
struct writer;
/* Owns db from here on, on success. loop may be NULL: then no callback runs. */
struct writer *writer_start(struct loop *loop, sqlite3 *db, const char *file, struct error *err);
void writer_put(struct writer *w, uint64_t seq, struct buf *json, void (*done)(void *arg), void *arg); /* takes json */
void writer_on_failure(struct writer *w, void (*fn)(void *arg, const struct error *err), void *arg);
int writer_sync(struct writer *w, struct error *err);
void writer_stop(struct writer *w); /* commits what is queued if it can, ends the thread; takes NULL */

#endif
