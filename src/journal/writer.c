/* The journal's thread: takes everything that is queued, commits it in one transaction, and returns it to the loop.
 * While it waits for the disk, the next group collects. After a failed commit the events stay queued and are retried,
 * in order, at the next append, at sync and at the end; but once the failure is reported no callback runs any more, so
 * no effect begins. */
#include "internal.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct entry {
    uint64_t seq;
    char *json;
    size_t len;
    void (*done)(void *arg);
    void *arg;
};
struct queue {
    struct entry *items;
    size_t count, cap;
};
struct writer {
    pthread_t thread;
    char *file;
    sqlite3 *db;
    sqlite3_stmt *insert;
    uint64_t kill_after, committed; /* test hook: 0 = never */

    pthread_mutex_t mutex;     /* protects the fields up to the blank line */
    pthread_cond_t work, idle; /* work: there is something to do; idle: everything was tried */
    struct queue queued, durable;
    bool stop, retry, busy, failed;
    struct error error;

    /* of the loop's thread */
    struct loop_wake *wake;
    struct loop_last *turn; /* events that one turn of the loop appends are committed together, with those that follow
                               from them */
    size_t pending;         /* appended, not yet called back */
    bool delivering, reported;
    void (*on_failure)(void *arg, const struct error *err);
    void *failure_arg;
};

static void queue_put(struct queue *q, const struct entry *e)
{
    if (q->count == q->cap) {
        q->cap = q->cap ? q->cap * 2 : 16;
        q->items = xreallocarray(q->items, q->cap, sizeof *q->items);
    }
    q->items[q->count++] = *e;
}

static void queue_free(struct queue *q)
{
    for (size_t i = 0; i < q->count; i++)
        free(q->items[i].json);
    free(q->items);
    *q = (struct queue){0};
}

/* ---- on the thread ---- */

static int insert_all(struct writer *w, const struct entry *items, size_t count)
{
    if (sqlite3_exec(w->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
        return -1;
    for (size_t i = 0; i < count; i++) {
        sqlite3_bind_int64(w->insert, 1, (sqlite3_int64)items[i].seq);
        sqlite3_bind_text64(w->insert, 2, items[i].json, items[i].len, SQLITE_STATIC, SQLITE_UTF8);
        sqlite3_step(w->insert);
        if (sqlite3_reset(w->insert) != SQLITE_OK)
            return -1;
    }
    return sqlite3_exec(w->db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK ? 0 : -1;
}

static int commit(struct writer *w, const struct entry *items, size_t count, struct error *err)
{
    if (insert_all(w, items, count) < 0) {
        db_fault(w->db, "write", w->file, err);
        if (!sqlite3_get_autocommit(w->db))
            sqlite3_exec(w->db, "ROLLBACK", NULL, NULL, NULL);
        return -1;
    }
    w->committed += count;
    while (w->kill_after && w->committed >= w->kill_after)
        kill(getpid(), SIGKILL);
    return 0;
}

/* Puts entries back in front of those that came meanwhile. */
static void queue_return(struct queue *q, const struct entry *items, size_t count)
{
    struct queue all = {0};
    for (size_t i = 0; i < count; i++)
        queue_put(&all, &items[i]);
    for (size_t i = 0; i < q->count; i++)
        queue_put(&all, &q->items[i]);
    free(q->items);
    *q = all;
}

/* One group, the mutex held. */
static void commit_queued(struct writer *w)
{
    struct queue taken = w->queued;
    struct error err = ERROR_INIT;
    size_t count = taken.count;
    if (w->kill_after && count > w->kill_after - w->committed) /* so that every N can be reached */
        count = w->kill_after - w->committed;
    w->queued = (struct queue){0};
    w->busy = true;
    w->retry = false;
    pthread_mutex_unlock(&w->mutex);
    int result = commit(w, taken.items, count, &err);
    pthread_mutex_lock(&w->mutex);
    w->busy = false;
    size_t back = result < 0 ? 0 : count; /* index from which entries return to the queue */
    for (size_t i = 0; i < back; i++) {
        free(taken.items[i].json);
        taken.items[i].json = NULL;
        if (w->wake)
            queue_put(&w->durable, &taken.items[i]);
    }
    queue_return(&w->queued, taken.items + back, taken.count - back);
    free(taken.items);
    w->retry |= result == 0; /* the rest of a group that was cut */
    if (result < 0) {
        w->failed = true;
        w->error = err;
    }
    if (w->wake)
        loop_wake_send(w->wake);
}

static void *writer_main(void *arg)
{
    struct writer *w = arg;
    pthread_mutex_lock(&w->mutex);
    for (;;) {
        while (!w->stop && !(w->queued.count && w->retry)) {
            pthread_cond_broadcast(&w->idle);
            pthread_cond_wait(&w->work, &w->mutex);
        }
        if (w->queued.count && (w->retry || w->stop)) {
            bool last_try = w->stop;
            commit_queued(w);
            if (!last_try || w->retry) /* once more while it makes progress */
                continue;
        }
        if (w->stop)
            break;
    }
    pthread_cond_broadcast(&w->idle);
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

/* ---- on the loop's thread ---- */

static void deliver(void *arg)
{
    struct writer *w = arg;
    pthread_mutex_lock(&w->mutex);
    struct queue durable = w->durable;
    w->durable = (struct queue){0};
    bool failed = w->failed;
    struct error err = w->error;
    pthread_mutex_unlock(&w->mutex);
    w->delivering = true;
    for (size_t i = 0; i < durable.count; i++) {
        w->pending--;
        if (!w->reported && durable.items[i].done)
            durable.items[i].done(durable.items[i].arg);
    }
    if (failed && !w->reported) {
        w->reported = true;
        if (w->on_failure)
            w->on_failure(w->failure_arg, &err);
    }
    w->delivering = false;
    loop_wake_hold(w->wake, w->pending && !w->reported);
    queue_free(&durable);
}

static void begin_commit(void *arg)
{
    struct writer *w = arg;
    pthread_mutex_lock(&w->mutex);
    w->retry = true;
    pthread_cond_signal(&w->work);
    pthread_mutex_unlock(&w->mutex);
}

struct writer *writer_start(struct loop *loop, sqlite3 *db, const char *file, struct error *err)
{
    struct writer *w = xcalloc(1, sizeof *w);
    const char *hook = getenv("RHRUN_TEST_KILL_AFTER_EVENT");
    if (hook)
        parse_u64(hook, &w->kill_after);
    w->db = db;
    w->file = xstrdup(file);
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->work, NULL);
    pthread_cond_init(&w->idle, NULL);
    if (sqlite3_prepare_v3(db, "INSERT INTO events VALUES(?,?)", -1, SQLITE_PREPARE_PERSISTENT, &w->insert, NULL) !=
        SQLITE_OK) {
        db_fault(db, "write", file, err);
        goto failed;
    }
    if (loop) {
        w->turn = loop_last_create(loop, begin_commit, w);
        w->wake = loop_wake_create(loop, deliver, w);
        loop_wake_hold(w->wake, false);
    }
    /* Signals belong to the loop's thread. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int errnum = pthread_create(&w->thread, NULL, writer_main, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!errnum)
        return w;
    error_errno(err, ERROR_IO, errnum, "could not start the journal's thread");
    loop_wake_destroy(w->wake);
    loop_last_destroy(w->turn);
failed:
    sqlite3_finalize(w->insert);
    free(w->file);
    free(w);
    return NULL;
}

void writer_put(struct writer *w, uint64_t seq, struct buf *json, void (*done)(void *arg), void *arg)
{
    struct entry e = {.seq = seq, .len = json->len, .done = done, .arg = arg};
    e.json = buf_steal(json);
    if (w->wake && !w->pending++ && !w->reported)
        loop_wake_hold(w->wake, true);
    pthread_mutex_lock(&w->mutex);
    queue_put(&w->queued, &e);
    pthread_mutex_unlock(&w->mutex);
    if (!w->turn)
        begin_commit(w);
    else
        loop_last_start(w->turn);
}

void writer_on_failure(struct writer *w, void (*fn)(void *arg, const struct error *err), void *arg)
{
    w->on_failure = fn;
    w->failure_arg = arg;
}

int writer_sync(struct writer *w, struct error *err)
{
    pthread_mutex_lock(&w->mutex);
    w->retry |= w->queued.count > 0;
    pthread_cond_signal(&w->work);
    while (w->busy || (w->queued.count && w->retry))
        pthread_cond_wait(&w->idle, &w->mutex);
    int result = w->queued.count ? -1 : 0;
    if (result < 0 && err)
        *err = w->error;
    pthread_mutex_unlock(&w->mutex);
    return result;
}

void writer_stop(struct writer *w)
{
    if (!w)
        return;
    assert(!w->delivering); /* not from inside a callback */
    pthread_mutex_lock(&w->mutex);
    w->stop = true;
    pthread_cond_signal(&w->work);
    pthread_mutex_unlock(&w->mutex);
    pthread_join(w->thread, NULL);
    loop_last_destroy(w->turn);
    loop_wake_destroy(w->wake);
    sqlite3_finalize(w->insert);
    sqlite3_close(w->db);
    queue_free(&w->queued);
    queue_free(&w->durable);
    pthread_mutex_destroy(&w->mutex);
    pthread_cond_destroy(&w->work);
    pthread_cond_destroy(&w->idle);
    free(w->file);
    free(w);
}
