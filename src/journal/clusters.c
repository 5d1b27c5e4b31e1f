/* The ledgers of rented clusters: clusters/ID/ledger.db, with the same tables, thread and lock as a job's journal. Its
 * events are those of fleet.h. */
#include "internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct journal_cluster {
    char *path, *file;
    int lock;
    struct writer *writer;
};

static bool is_id(const char *s)
{
    const size_t len = strlen(s);
    return len >= 8 && len <= 40 && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789") == len;
}

static int no_id(const char *id, struct error *err)
{
    return error_set(err, ERROR_USAGE, "\"%.80s\" is not an id of a cluster: it has 8 to 40 of a-z and 0-9", id);
}

static void hint_to_keep(struct error *err)
{
    error_hint(err, "keep the file: machines of this cluster may still be rented; look at the provider's console");
}

static int read_row(sqlite3_stmt *q, const char *file, struct arena *arena,
                    int (*fn)(void *arg, const struct fleet_event *e, struct error *err), void *arg, struct error *err)
{
    const char *json = (const char *)sqlite3_column_text(q, 1);
    const uint64_t seq = (uint64_t)sqlite3_column_int64(q, 0);
    struct fleet_event e;
    arena_reset(arena);
    if (fleet_event_from_json(json ? json : "", (size_t)sqlite3_column_bytes(q, 1), arena, &e, err) == 0) {
        e.seq = seq; /* the row's number is the one that counts */
        if (fn(arg, &e, err) == 0)
            return 0;
    }
    error_prefix(err, "\"%s\": event %llu", file, (unsigned long long)seq);
    return -1;
}

static int each(sqlite3 *db, const char *file, int (*fn)(void *arg, const struct fleet_event *e, struct error *err),
                void *arg, struct error *err)
{
    sqlite3_stmt *q = NULL;
    struct arena *arena = arena_create();
    int result = 0, rc = sqlite3_prepare_v2(db, "SELECT seq,json FROM events ORDER BY seq", -1, &q, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(q);
    for (; rc == SQLITE_ROW && result == 0; rc = result == 0 ? sqlite3_step(q) : rc)
        result = read_row(q, file, arena, fn, arg, err);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        result = db_fault(db, "read", file, err);
    if (result < 0)
        hint_to_keep(err);
    sqlite3_finalize(q);
    arena_destroy(arena);
    return result;
}

int journal_cluster_open(struct loop *loop, const char *id, const char *name, const char *owner_name,
                         int (*replay)(void *arg, const struct fleet_event *e, struct error *err), void *arg,
                         struct journal_cluster **ret, struct error *err)
{
    if (!is_id(id))
        return no_id(id, err);
    CLEANUP(cleanup_free) char *home = journal_home(err);
    if (!home)
        return -1;
    struct journal_cluster *c = xcalloc(1, sizeof *c);
    sqlite3 *db = NULL;
    c->lock = -1;
    c->path = xasprintf("%s/clusters/%s", home, id);
    c->file = xasprintf("%s/ledger.db", c->path);
    if (journal_make_dir(c->path, err) < 0)
        goto failed;
    c->lock = journal_lock_as(c->path, "cluster", name, owner_name, err);
    if (c->lock < 0 || db_open_write(c->file, name, id, &db, err) < 0 || each(db, c->file, replay, arg, err) < 0)
        goto failed;
    c->writer = writer_start(loop, db, c->file, err);
    if (!c->writer)
        goto failed;
    *ret = c;
    return 0;
failed:
    if (err && str_eq(err->hint, db_damaged_hint))
        hint_to_keep(err);
    sqlite3_close(db);
    journal_cluster_close(c);
    return -1;
}

void journal_cluster_append(struct journal_cluster *c, const struct fleet_event *e, void (*done)(void *arg), void *arg)
{
    struct buf json = {0};
    fleet_event_to_json(e, &json);
    writer_put(c->writer, e->seq, &json, done, arg);
}

void journal_cluster_on_failure(struct journal_cluster *c, void (*fn)(void *arg, const struct error *err), void *arg)
{
    writer_on_failure(c->writer, fn, arg);
}

int journal_cluster_sync(struct journal_cluster *c, struct error *err)
{
    return writer_sync(c->writer, err);
}

void journal_cluster_close(struct journal_cluster *c)
{
    if (!c)
        return;
    writer_stop(c->writer);
    journal_unlock(c->lock);
    free(c->path);
    free(c->file);
    free(c);
}

int journal_cluster_read(const char *id, int (*replay)(void *arg, const struct fleet_event *e, struct error *err),
                         void *arg, struct error *err)
{
    if (!is_id(id))
        return no_id(id, err);
    CLEANUP(cleanup_free) char *home = journal_home_path(err);
    if (!home)
        return -1;
    CLEANUP(cleanup_free) char *file = xasprintf("%s/clusters/%s/ledger.db", home, id);
    sqlite3 *db = NULL;
    const int opened = access(file, F_OK) < 0 && errno == ENOENT ? 1 : db_open_read(file, &db, err);
    if (opened == 1) {
        error_set(err, ERROR_USAGE, "there is no cluster \"%s\" in \"%s\"", id, home);
        return error_why(err, ERROR_WHY_ABSENT);
    }
    if (opened < 0 && err && str_eq(err->hint, db_damaged_hint))
        hint_to_keep(err);
    const int result = opened < 0 ? -1 : each(db, file, replay, arg, err);
    sqlite3_close(db);
    return result;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int journal_clusters(struct arena *arena, const char *const **ret_ids, struct error *err)
{
    CLEANUP(cleanup_free) char *home = journal_home_path(err);
    if (!home)
        return -1;
    CLEANUP(cleanup_free) char *path = xasprintf("%s/clusters", home);
    CLEANUP(cleanup_free) const char **ids = NULL;
    size_t count = 0;
    DIR *dir = opendir(path);
    if (!dir && errno != ENOENT)
        return error_errno(err, ERROR_IO, errno, "could not read folder \"%s\"", path);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        if (!is_id(d->d_name))
            continue;
        ids = xreallocarray(ids, count + 1, sizeof *ids);
        ids[count++] = arena_strdup(arena, d->d_name);
    }
    if (dir)
        closedir(dir);
    if (count)
        qsort(ids, count, sizeof *ids, by_text);
    const char **all = arena_array(arena, count + 1, sizeof *all);
    for (size_t i = 0; i < count; i++)
        all[i] = ids[i];
    *ret_ids = all;
    return 0;
}
