/* The journal's public functions: opening, appending, reading, requests, listing. */
#include "internal.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct journal {
    char *job, *path, *file, *name, *origin, *owner;
    int lock;
    struct writer *writer; /* NULL: for reading only */
    sqlite3 *db;           /* for reading and requests; if there is a writer, opened when first needed */
    struct state *state;
    uint64_t next_seq, last_request;
};

static struct journal *journal_create(const char *job_id, char *path)
{
    struct journal *j = xcalloc(1, sizeof *j);
    j->lock = -1;
    j->job = xstrdup(job_id);
    j->path = path;
    j->file = xasprintf("%s/journal.db", path);
    j->state = state_create();
    return j;
}

void journal_close(struct journal *j)
{
    if (!j)
        return;
    sqlite3_close(j->db);
    writer_stop(j->writer);
    journal_unlock(j->lock);
    state_destroy(j->state);
    free(j->job);
    free(j->path);
    free(j->file);
    free(j->name);
    free(j->origin);
    free(j->owner);
    free(j);
}

static bool apply(void *arg, const struct event *e)
{
    state_apply(arg, e);
    return true;
}

static int load(struct journal *j, sqlite3 *db, struct error *err)
{
    j->owner = db_meta(db, j->file, "owner", err);
    j->name = j->owner ? db_meta(db, j->file, "name", err) : NULL;
    j->origin = j->name ? db_meta(db, j->file, "origin", err) : NULL;
    if (!j->origin || db_each(db, j->file, 0, apply, j->state, err) < 0)
        return -1;
    j->next_seq = j->state->last_seq + 1;
    return 0;
}

static int last_request(struct journal *j, sqlite3 *db, struct error *err)
{
    sqlite3_stmt *q = NULL;
    int rc = sqlite3_prepare_v2(db, "SELECT ifnull(max(id),0) FROM requests", -1, &q, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(q);
    if (rc == SQLITE_ROW)
        j->last_request = (uint64_t)sqlite3_column_int64(q, 0);
    int result = rc == SQLITE_ROW ? 0 : db_fault(db, "read", j->file, err);
    sqlite3_finalize(q);
    return result;
}

int journal_open(struct loop *loop, const char *name, const char *origin, const char *owner_name, struct journal **ret,
                 struct error *err)
{
    char id[17];
    journal_job_id(name, origin, id);
    char *path = journal_make_job_dir(id, err);
    if (!path)
        return -1;
    struct journal *j = journal_create(id, path);
    sqlite3 *db = NULL;
    j->lock = journal_lock(path, name, owner_name, err);
    if (j->lock < 0 || db_open_write(j->file, name, origin, &db, err) < 0 || load(j, db, err) < 0 ||
        last_request(j, db, err) < 0) /* requests to an earlier controller are not for this one */
        goto failed;
    j->writer = writer_start(loop, db, j->file, err);
    if (!j->writer)
        goto failed;
    *ret = j;
    return 0;
failed:
    sqlite3_close(db);
    journal_close(j);
    return -1;
}

int journal_open_read(const char *job_id, struct journal **ret, struct error *err)
{
    if (!str_is_hex(job_id, 16))
        return error_set(err, ERROR_USAGE, "\"%.80s\" is not an id of a job: it has 16 hex digits", job_id);
    CLEANUP(cleanup_free) char *home = journal_home_path(err);
    if (!home)
        return -1;
    struct journal *j = journal_create(job_id, xasprintf("%s/jobs/%s", home, job_id));
    int opened = access(j->file, F_OK) < 0 && errno == ENOENT ? 1 : db_open_read(j->file, &j->db, err);
    if (opened == 1) {
        error_set(err, ERROR_USAGE, "there is no job \"%s\" in \"%s\"", job_id, home);
        error_hint(err, "`rhrun runs` lists the jobs");
        error_why(err, ERROR_WHY_ABSENT);
        goto failed;
    }
    if (opened < 0 || load(j, j->db, err) < 0)
        goto failed;
    *ret = j;
    return 0;
failed:
    journal_close(j);
    return -1;
}

int journal_refresh(struct journal *j, struct error *err)
{
    return j->writer ? 0 : db_each(j->db, j->file, j->state->last_seq, apply, j->state, err);
}

const struct state *journal_state(const struct journal *j)
{
    return j->state;
}

const char *journal_owner(const struct journal *j)
{
    return j->owner;
}

const char *journal_job(const struct journal *j)
{
    return j->job;
}

const char *journal_path(const struct journal *j)
{
    return j->path;
}

const char *journal_job_name(const struct journal *j)
{
    return j->name;
}

const char *journal_origin(const struct journal *j)
{
    return j->origin;
}

bool journal_holder(const struct journal *j, pid_t *ret_pid, char **ret_name)
{
    return journal_lock_holder(j->path, ret_pid, ret_name);
}

/* ---- events ---- */

void journal_append(struct journal *j, struct event *e, void (*done)(void *arg), void *arg)
{
    assert(j->writer);
    struct buf json = {0};
    e->seq = j->next_seq++;
    if (!e->time_ms)
        e->time_ms = wall_ms();
    event_to_json(e, &json);
    state_apply(j->state, e);
    writer_put(j->writer, e->seq, &json, done, arg);
}

void journal_on_failure(struct journal *j, void (*fn)(void *arg, const struct error *err), void *arg)
{
    assert(j->writer);
    writer_on_failure(j->writer, fn, arg);
}

int journal_sync(struct journal *j, struct error *err)
{
    return j->writer ? writer_sync(j->writer, err) : 0;
}

static int second_connection(struct journal *j, struct error *err)
{
    return j->db ? 0 : db_open_again(j->file, &j->db, err);
}

int journal_each(struct journal *j, uint64_t after, bool (*fn)(void *arg, const struct event *e), void *arg,
                 struct error *err)
{
    if (journal_sync(j, err) < 0 || second_connection(j, err) < 0)
        return -1;
    return db_each(j->db, j->file, after, fn, arg, err);
}

/* ---- requests ---- */

static int no_controller(const struct journal *j, const char *what, struct error *err)
{
    error_set(err, ERROR_USAGE, "job \"%s\" has no live controller to ask for \"%s\"", j->name, what);
    return error_why(err, ERROR_WHY_ABSENT);
}

int journal_request(struct journal *j, const char *what, struct error *err)
{
    pid_t pid;
    sqlite3 *db = NULL;
    sqlite3_stmt *q = NULL;
    if (!journal_holder(j, &pid, NULL))
        return no_controller(j, what, err);
    if (db_open_again(j->file, &db, err) < 0)
        return -1;
    int result = 0, rc = sqlite3_prepare_v2(db, "INSERT INTO requests(what) VALUES(?)", -1, &q, NULL);
    if (rc == SQLITE_OK) {
        sqlite3_bind_text(q, 1, what, -1, SQLITE_STATIC);
        rc = sqlite3_step(q);
    }
    if (rc != SQLITE_DONE)
        result = db_fault(db, "write", j->file, err);
    sqlite3_finalize(q);
    sqlite3_close(db);
    if (result < 0 || kill(pid, SIGUSR1) == 0)
        return result;
    if (errno == ESRCH) /* it has just died: the next controller drops the requests that it did not take */
        return no_controller(j, what, err);
    return error_errno(err, ERROR_IO, errno, "could not signal pid %ld, the controller of job \"%s\"", (long)pid,
                       j->name);
}

char *journal_take_request(struct journal *j)
{
    sqlite3_stmt *q = NULL;
    char *what = NULL;
    if (second_connection(j, NULL) < 0)
        return NULL;
    if (sqlite3_prepare_v2(j->db, "SELECT id,what FROM requests WHERE id>? ORDER BY id LIMIT 1", -1, &q, NULL) ==
        SQLITE_OK) {
        sqlite3_bind_int64(q, 1, (sqlite3_int64)j->last_request);
        if (sqlite3_step(q) == SQLITE_ROW && sqlite3_column_text(q, 1)) {
            j->last_request = (uint64_t)sqlite3_column_int64(q, 0);
            what = xstrdup((const char *)sqlite3_column_text(q, 1));
        }
    }
    sqlite3_finalize(q);
    if (!what)
        return NULL;
    /* last_request makes sure that it is taken once; deleting rows is only tidying, and a full disk must not stop a
     * cancel. */
    if (sqlite3_prepare_v2(j->db, "DELETE FROM requests WHERE id<=?", -1, &q, NULL) == SQLITE_OK) {
        sqlite3_bind_int64(q, 1, (sqlite3_int64)j->last_request);
        sqlite3_step(q);
    }
    sqlite3_finalize(q);
    return what;
}

/* ---- folders and listing ---- */

int journal_hold(const char *job_id, const char *name, const char *owner_name, struct error *err)
{
    CLEANUP(cleanup_free) char *home = journal_home_path(err);
    if (!home)
        return -1;
    CLEANUP(cleanup_free) char *path = xasprintf("%s/jobs/%s", home, job_id);
    return journal_lock(path, name, owner_name, err);
}

void journal_let_go(int lock)
{
    journal_unlock(lock);
}

char *journal_run_dir(struct journal *j, const char *run, struct error *err)
{
    if (!*run || *run == '.' || strchr(run, '/')) {
        error_set(err, ERROR_USAGE, "\"%.80s\" is not an id of a run", run);
        return NULL;
    }
    char *path = xasprintf("%s/runs/%s", j->path, run);
    if (journal_make_dir(path, err) < 0) {
        free(path);
        return NULL;
    }
    return path;
}

static int by_name(const void *a, const void *b)
{
    const struct journal_job *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->origin, y->origin);
}

static bool job_describe(const char *jobs, const char *id, struct journal_job *ret)
{
    CLEANUP(cleanup_free) char *path = xasprintf("%s/%s", jobs, id);
    CLEANUP(cleanup_free) char *file = xasprintf("%s/journal.db", path);
    sqlite3 *db = NULL;
    char *name = NULL, *origin = NULL;
    int opened = access(file, F_OK) < 0 ? 1 : db_open_read(file, &db, NULL);
    if (opened == 1)
        return false;
    if (opened == 0) {
        name = db_meta(db, file, "name", NULL);
        origin = db_meta(db, file, "origin", NULL);
    }
    sqlite3_close(db);
    *ret = (struct journal_job){
        .id = xstrdup(id),
        .name = name ? name : xstrdup("(unreadable)"), /* listed all the same, because its files exist */
        .origin = origin ? origin : xstrdup(file),
    };
    ret->path = xstrdup(path);
    return true;
}

int journal_jobs(struct journal_job **ret, size_t *ret_count, struct error *err)
{
    CLEANUP(cleanup_free) char *home = journal_home_path(err);
    if (!home)
        return -1;
    CLEANUP(cleanup_free) char *jobs = xasprintf("%s/jobs", home);
    struct journal_job *items = NULL;
    size_t count = 0;
    DIR *dir = opendir(jobs);
    if (!dir && errno != ENOENT)
        return error_errno(err, ERROR_IO, errno, "could not read folder \"%s\"", jobs);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        if (!str_is_hex(d->d_name, 16))
            continue;
        items = xreallocarray(items, count + 1, sizeof *items);
        count += job_describe(jobs, d->d_name, &items[count]);
    }
    if (dir)
        closedir(dir);
    if (count)
        qsort(items, count, sizeof *items, by_name);
    *ret = items;
    *ret_count = count;
    return 0;
}

void journal_jobs_free(struct journal_job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(jobs[i].id);
        free(jobs[i].name);
        free(jobs[i].origin);
        free(jobs[i].path);
    }
    free(jobs);
}
