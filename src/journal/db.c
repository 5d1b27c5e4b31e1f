/* The database of a job. Format 1:
 *   meta(key, value): owner, name, origin, created_ms
 *   events(seq, json): one row per event
 *   requests(id, what): from other commands to the live controller
 * application_id and user_version distinguish it from other files and formats. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static _Atomic(const char *) vfs_name; /* tests only */

void journal_set_vfs(const char *name)
{
    atomic_store(&vfs_name, name);
}

const char db_damaged_hint[] =
    "move the job's folder away to start again: rhrun takes over what the nodes have finished";

int db_fault(sqlite3 *db, const char *verb, const char *file, struct error *err)
{
    int code = db ? sqlite3_errcode(db) : SQLITE_NOMEM, sys = db ? sqlite3_system_errno(db) : 0;
    struct rlimit limit;
    bool of_system = code == SQLITE_IOERR || code == SQLITE_CANTOPEN || code == SQLITE_FULL;
    if (of_system && sys)
        error_errno(err, ERROR_IO, sys, "could not %s \"%s\"", verb, file);
    else
        error_set(err, ERROR_IO, "could not %s \"%s\": %s", verb, file, db ? sqlite3_errmsg(db) : "out of memory");
    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
        error_hint(err, "%s", db_damaged_hint);
    else if (code == SQLITE_IOERR && !sys && getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        error_hint(err, "files may have %llu bytes here (ulimit -f): raise the limit",
                   (unsigned long long)limit.rlim_cur);
    else if (code == SQLITE_FULL || sys == ENOSPC || sys == EDQUOT) {
        error_hint(err, "make room on the disk, then run again: it resumes");
        return error_why(err, ERROR_WHY_DISK_FULL);
    }
    return -1;
}

int db_exec(sqlite3 *db, const char *sql, const char *verb, const char *file, struct error *err)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : db_fault(db, verb, file, err);
}

static int db_integer(sqlite3 *db, const char *file, const char *sql, int64_t *ret, struct error *err)
{
    sqlite3_stmt *q = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &q, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(q);
    if (rc == SQLITE_ROW)
        *ret = sqlite3_column_int64(q, 0);
    int result = rc == SQLITE_ROW ? 0 : db_fault(db, "read", file, err);
    sqlite3_finalize(q);
    return result;
}

static int db_open(const char *file, int flags, sqlite3 **ret, struct error *err)
{
    sqlite3 *db = NULL;
    const char *verb = flags & SQLITE_OPEN_READONLY ? "read" : "open";
    if (sqlite3_open_v2(file, &db, flags | SQLITE_OPEN_NOMUTEX, atomic_load(&vfs_name)) != SQLITE_OK) {
        db_fault(db, verb, file, err);
        sqlite3_close(db);
        return -1;
    }
    sqlite3_busy_timeout(db, JOURNAL_BUSY_MS);
    *ret = db;
    return 0;
}

static int db_format(sqlite3 *db, const char *file, struct error *err)
{
    int64_t format = 0, application = 0, tables = 0;
    if (db_integer(db, file, "PRAGMA user_version", &format, err) < 0 ||
        db_integer(db, file, "PRAGMA application_id", &application, err) < 0)
        return -1;
    if (application == JOURNAL_APPLICATION && format == JOURNAL_FORMAT)
        return 1;
    if (application == JOURNAL_APPLICATION && format > JOURNAL_FORMAT) {
        error_set(err, ERROR_IO, "cannot use \"%s\": it has format %lld, this rhrun knows %d", file, (long long)format,
                  (int)JOURNAL_FORMAT);
        error_hint(err, "a newer rhrun wrote it: use that one");
        return -1;
    }
    if (db_integer(db, file, "SELECT count(*) FROM sqlite_schema", &tables, err) < 0)
        return -1;
    if (application == 0 && format == 0 && tables == 0)
        return 0;
    return error_set(err, ERROR_IO, "cannot use \"%s\": it is not a journal of rhrun", file);
}

/* 1: ours, in this format; 0: new and empty; -1: anything else. Read in one transaction, because it may just be being
 * made. */
static int db_check_format(sqlite3 *db, const char *file, struct error *err)
{
    if (db_exec(db, "BEGIN", "read", file, err) < 0)
        return -1;
    const int known = db_format(db, file, err);
    if (known < 0) /* a rollback would clear the database's error, which callers still read */
        return -1;
    return db_exec(db, "COMMIT", "read", file, err) < 0 ? -1 : known;
}

static int db_create(sqlite3 *db, const char *file, const char *name, const char *origin, struct error *err)
{
    static const char tables[] = "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;"
                                 "CREATE TABLE events(seq INTEGER PRIMARY KEY, json TEXT NOT NULL);"
                                 "CREATE TABLE requests(id INTEGER PRIMARY KEY AUTOINCREMENT, what TEXT NOT NULL);";
    char owner[33];
    random_hex(owner, 16);
    char *sql = sqlite3_mprintf("BEGIN IMMEDIATE;"
                                "%s"
                                "INSERT INTO meta VALUES('owner',%Q),('name',%Q),('origin',%Q),('created_ms','%lld');"
                                "PRAGMA application_id=%d;PRAGMA user_version=%d;"
                                "COMMIT",
                                tables, owner, name, origin, (long long)wall_ms(), (int)JOURNAL_APPLICATION,
                                (int)JOURNAL_FORMAT);
    int result = db_exec(db, sql, "create", file, err);
    sqlite3_free(sql);
    return result;
}

static int db_pragmas(sqlite3 *db, const char *file, struct error *err)
{
    /* -wal and -shm stay when the last connection closes: readers without write permission need them, and the next
     * controller need not create them. */
    int persist = 1;
    sqlite3_file_control(db, "main", SQLITE_FCNTL_PERSIST_WAL, &persist);
    return db_exec(db, "PRAGMA synchronous=FULL; PRAGMA journal_size_limit=4194304", "open", file, err);
}

int db_open_again(const char *file, sqlite3 **ret, struct error *err)
{
    sqlite3 *db = NULL;
    if (db_open(file, SQLITE_OPEN_READWRITE, &db, err) < 0)
        return -1;
    if (db_pragmas(db, file, err) < 0) {
        sqlite3_close(db);
        return -1;
    }
    *ret = db;
    return 0;
}

int db_open_write(const char *file, const char *name, const char *origin, sqlite3 **ret, struct error *err)
{
    /* The file is made here, so that SQLite gives its mode to -wal and -shm too. An existing file must not be opened
     * and closed: that would drop the POSIX locks of every other connection in this process. */
    CLEANUP(cleanup_close) int fd = open(file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno != EEXIST)
        return error_errno(err, ERROR_IO, errno, "could not create \"%s\"", file);
    if (fd >= 0 && fchmod(fd, 0600) < 0) /* the umask may have removed our own bits */
        return error_errno(err, ERROR_IO, errno, "could not set the mode of \"%s\"", file);
    cleanup_close(&fd);
    fd = -1;
    sqlite3 *db = NULL;
    if (db_open_again(file, &db, err) < 0)
        return -1;
    int known = db_check_format(db, file, err);
    if (known < 0 || (known == 0 && (db_exec(db, "PRAGMA journal_mode=WAL", "create", file, err) < 0 ||
                                     db_create(db, file, name, origin, err) < 0))) {
        sqlite3_close(db);
        return -1;
    }
    *ret = db;
    return 0;
}

int db_open_read(const char *file, sqlite3 **ret, struct error *err)
{
    struct error first = ERROR_INIT;
    sqlite3 *db = NULL;
    for (int tries = 0; tries < 2; tries++) {
        int flags = SQLITE_OPEN_READONLY, known;
        CLEANUP(cleanup_free) char *uri = NULL;
        if (tries) {
            /* Without -wal and -shm, and in a folder where they cannot be made, SQLite reads only an immutable file. */
            CLEANUP(cleanup_free) char *wal = xasprintf("%s-wal", file);
            struct stat st;
            if (access(file, R_OK) < 0 || (stat(wal, &st) == 0 && st.st_size > 0))
                break;
            struct buf b = {0};
            buf_puts(&b, "file:");
            for (const char *p = file; *p; p++)
                buf_printf(&b, strchr("%?#", *p) ? "%%%02X" : "%c", (unsigned)(unsigned char)*p);
            buf_puts(&b, "?immutable=1");
            uri = buf_steal(&b);
            flags |= SQLITE_OPEN_URI;
        }
        if (db_open(tries ? uri : file, flags, &db, tries ? NULL : &first) < 0)
            continue;
        known = db_check_format(db, file, tries ? NULL : &first);
        if (known == 1) {
            *ret = db;
            return 0;
        }
        if (known == 0) { /* it is just being made, or its maker was killed: without a first commit there is no run */
            sqlite3_close(db);
            return 1;
        }
        int code = sqlite3_errcode(db);
        bool other_way = known < 0 && (code == SQLITE_CANTOPEN || code == SQLITE_READONLY);
        sqlite3_close(db);
        db = NULL;
        if (!other_way)
            break;
    }
    if (err)
        *err = first;
    return -1;
}

char *db_meta(sqlite3 *db, const char *file, const char *key, struct error *err)
{
    sqlite3_stmt *q = NULL;
    char *value = NULL;
    int rc = sqlite3_prepare_v2(db, "SELECT value FROM meta WHERE key=?", -1, &q, NULL);
    if (rc == SQLITE_OK) {
        sqlite3_bind_text(q, 1, key, -1, SQLITE_STATIC);
        rc = sqlite3_step(q);
    }
    if (rc == SQLITE_ROW && sqlite3_column_text(q, 0))
        value = xstrdup((const char *)sqlite3_column_text(q, 0));
    else if (rc == SQLITE_ROW || rc == SQLITE_DONE)
        error_set(err, ERROR_IO, "cannot read \"%s\": \"%s\" is missing", file, key);
    else
        db_fault(db, "read", file, err);
    sqlite3_finalize(q);
    return value;
}

int db_each(sqlite3 *db, const char *file, uint64_t after, bool (*fn)(void *arg, const struct event *e), void *arg,
            struct error *err)
{
    sqlite3_stmt *q = NULL;
    struct arena *arena = arena_create();
    int result = 0, rc = sqlite3_prepare_v2(db, "SELECT seq,json FROM events WHERE seq>? ORDER BY seq", -1, &q, NULL);
    if (rc == SQLITE_OK)
        sqlite3_bind_int64(q, 1, after > INT64_MAX ? INT64_MAX : (sqlite3_int64)after);
    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        rc = sqlite3_step(q);
        if (rc != SQLITE_ROW)
            break;
        struct event e;
        const char *json = (const char *)sqlite3_column_text(q, 1);
        size_t len = (size_t)sqlite3_column_bytes(q, 1);
        uint64_t seq = (uint64_t)sqlite3_column_int64(q, 0);
        arena_reset(arena);
        if (event_from_json(json ? json : "", len, arena, &e, err) < 0) {
            error_prefix(err, "\"%s\": event %llu", file, (unsigned long long)seq);
            error_hint(err, "move the job's folder away to start again: rhrun takes over what the nodes have finished");
            result = -1;
            break;
        }
        e.seq = seq; /* the row's number is the one that counts */
        if (!fn(arg, &e))
            break;
    }
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        result = db_fault(db, "read", file, err);
    sqlite3_finalize(q);
    arena_destroy(arena);
    return result;
}
