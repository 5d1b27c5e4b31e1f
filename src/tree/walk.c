/* The walk's threads: a shared stack of folders; each is listed by one thread, which adds those below it. */
#include "scan.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct worker {
    pthread_t thread;
    struct walk *walk;
    struct arena *arena;
};

void walk_push(struct walk *w, struct walk_folder *f)
{
    pthread_mutex_lock(&w->lock);
    f->next = w->queue;
    w->queue = f;
    w->open++;
    pthread_cond_signal(&w->more);
    pthread_mutex_unlock(&w->lock);
}

static void fail(struct walk *w, const struct error *err)
{
    if (!w->failed)
        w->error = *err;
    w->failed = true;
}

static void count_files(struct walk *w, const struct walk_folder *f)
{
    for (size_t i = 0; i < f->count; i++)
        if (f->entries[i].kind == WALK_FILE) {
            w->files++;
            w->path_bytes += f->len + f->entries[i].len + 1;
        }
    if (w->scan->progress)
        atomic_store_explicit(&w->scan->progress->found, w->files, memory_order_relaxed);
    if (w->files > TREE_FILES_MAX && !w->failed) {
        struct error err;
        error_set(&err, ERROR_SPEC, "\"%s\" has more than %d files", w->scan->path, TREE_FILES_MAX);
        error_hint(&err, "leave folders out with .gitignore or exclude");
        fail(w, &err);
    }
}

/* Called with the lock, which is released while a folder is read. */
static void read_next(struct walk *w, struct arena *a)
{
    struct walk_folder *f = w->queue, *below = NULL, *last;
    struct error err = ERROR_INIT;
    size_t count = 0;
    w->queue = f->next;
    pthread_mutex_unlock(&w->lock);
    int rc = walk_folder_read(w, f, a, &below, &count, &err);
    for (last = below; last && last->next; last = last->next)
        ;
    pthread_mutex_lock(&w->lock);
    if (rc)
        fail(w, &err);
    else
        count_files(w, f);
    if (last) {
        last->next = w->queue;
        w->queue = below;
        w->open += count;
    }
    w->open--;
    if (count > 1 || !w->open || w->failed)
        pthread_cond_broadcast(&w->more);
}

static void *work(void *arg)
{
    struct worker *me = arg;
    struct walk *w = me->walk;
    pthread_mutex_lock(&w->lock);
    while (w->open && !w->failed) {
        if (w->queue)
            read_next(w, me->arena);
        else
            pthread_cond_wait(&w->more, &w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

size_t scan_threads(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > SCAN_THREADS_MAX ? SCAN_THREADS_MAX : (size_t)n;
}

size_t scan_run_threads(size_t want, void *(*body)(void *), void *const *args, pthread_t *ret_threads)
{
    sigset_t all, before;
    size_t started = 0;
    sigfillset(&all); /* signals go to the thread that waits for them */
    pthread_sigmask(SIG_BLOCK, &all, &before);
    while (started < want && pthread_create(&ret_threads[started], NULL, body, args[started]) == 0)
        started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

int walk_run(struct walk *w, struct error *err)
{
    struct worker workers[SCAN_THREADS_MAX];
    void *args[SCAN_THREADS_MAX];
    pthread_t threads[SCAN_THREADS_MAX];
    size_t count = scan_threads();
    w->arenas = xreallocarray(w->arenas, w->arena_count + count, sizeof *w->arenas);
    for (size_t i = 0; i < count; i++) {
        workers[i] = (struct worker){.walk = w, .arena = arena_create()};
        args[i] = &workers[i];
        w->arenas[w->arena_count++] = workers[i].arena;
    }
    size_t started = scan_run_threads(count - 1, work, args + 1, threads);
    work(&workers[0]);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    if (!w->failed)
        return 0;
    if (err)
        *err = w->error;
    return -1;
}
