/*
 * Timers, descriptors, pool work, signals and wake-ups over libuv. The one rule of libuv that shapes
 * this file: a handle's memory must live until its close callback, which runs in a later turn; so
 * destroy only marks and closes, and close_done frees.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

struct loop_timer {
    uv_timer_t uv;
    void (*fn)(void *arg);
    void *arg;
};

struct loop_last {
    uv_prepare_t uv;
    void (*fn)(void *arg);
    void *arg;
};

struct loop_fd {
    uv_poll_t uv;
    void (*fn)(void *arg, unsigned events);
    void *arg;
    unsigned events;
};

struct loop_signal {
    uv_signal_t uv;
    void (*fn)(void *arg, int signum);
    void *arg;
};

struct loop_wake {
    uv_async_t uv;
    void (*fn)(void *arg);
    void *arg;
};

struct loop_work {
    uv_work_t uv;
    void (*work)(void *arg);
    void (*done)(void *arg);
    void *arg;
};

static void close_done(uv_handle_t *handle)
{
    free(handle);
}

void loop_handle_close(uv_handle_t *handle)
{
    handle->data = NULL;
    if (!uv_is_closing(handle))
        uv_close(handle, close_done);
}

/* ---- the loop ---- */

struct loop *loop_create(void)
{
    struct loop *loop = xcalloc(1, sizeof(*loop));
    if (uv_loop_init(&loop->uv) != 0) {
        fputs("rhrun: no descriptors left for an event loop\n", stderr);
        abort();
    }
    return loop;
}

static void drop_handle(uv_handle_t *handle, void *arg)
{
    (void)arg;
    loop_handle_close(handle);
}

void loop_destroy(struct loop *loop)
{
    if (!loop)
        return;
    loop_captures_drop(loop);
    uv_walk(&loop->uv, drop_handle, NULL);
    /* Work still on the pool ends here; its done callback may start nothing that lasts. */
    while (uv_loop_close(&loop->uv) == UV_EBUSY) {
        uv_run(&loop->uv, UV_RUN_DEFAULT);
        uv_walk(&loop->uv, drop_handle, NULL);
    }
    free(loop);
}

void loop_run(struct loop *loop)
{
    uv_run(&loop->uv, UV_RUN_DEFAULT);
}

bool loop_turn(struct loop *loop, bool wait)
{
    return uv_run(&loop->uv, wait ? UV_RUN_ONCE : UV_RUN_NOWAIT) != 0;
}

void loop_stop(struct loop *loop)
{
    uv_stop(&loop->uv);
}

uint64_t loop_now_ms(const struct loop *loop)
{
    return uv_now(&loop->uv);
}

/* ---- timers ---- */

struct loop_timer *loop_timer_create(struct loop *loop, void (*fn)(void *arg), void *arg)
{
    struct loop_timer *t = xcalloc(1, sizeof(*t));
    uv_timer_init(&loop->uv, &t->uv);
    t->uv.data = t;
    t->fn = fn;
    t->arg = arg;
    return t;
}

static void timer_fired(uv_timer_t *uv)
{
    struct loop_timer *t = uv->data;
    if (t)
        t->fn(t->arg);
}

void loop_timer_start(struct loop_timer *t, uint64_t after_ms)
{
    /* The turn's cached time may be old after long work; a timeout counts from now. */
    uv_update_time(t->uv.loop);
    uv_timer_start(&t->uv, timer_fired, after_ms, 0);
}

void loop_timer_stop(struct loop_timer *t)
{
    uv_timer_stop(&t->uv);
}

bool loop_timer_active(const struct loop_timer *t)
{
    return uv_is_active((const uv_handle_t *)&t->uv);
}

void loop_timer_destroy(struct loop_timer *t)
{
    if (t)
        loop_handle_close((uv_handle_t *)&t->uv);
}

/* ---- at the end of a turn ---- */

struct loop_last *loop_last_create(struct loop *loop, void (*fn)(void *arg), void *arg)
{
    struct loop_last *l = xcalloc(1, sizeof(*l));
    uv_prepare_init(&loop->uv, &l->uv);
    uv_unref((uv_handle_t *)&l->uv);
    l->uv.data = l;
    l->fn = fn;
    l->arg = arg;
    return l;
}

static void waits_now(uv_prepare_t *uv)
{
    struct loop_last *l = uv->data;
    uv_prepare_stop(uv);
    if (l)
        l->fn(l->arg);
}

void loop_last_start(struct loop_last *l)
{
    uv_prepare_start(&l->uv, waits_now);
}

void loop_last_destroy(struct loop_last *l)
{
    if (l)
        loop_handle_close((uv_handle_t *)&l->uv);
}

/* ---- descriptors ---- */

struct loop_fd *loop_fd_create(struct loop *loop, int fd, void (*fn)(void *arg, unsigned events), void *arg,
                               struct error *err)
{
    struct loop_fd *w = xcalloc(1, sizeof(*w));
    int rc = uv_poll_init(&loop->uv, &w->uv, fd);
    if (rc != 0) {
        free(w);
        error_errno(err, ERROR_IO, -rc, "cannot watch descriptor %d", fd);
        return NULL;
    }
    w->uv.data = w;
    w->fn = fn;
    w->arg = arg;
    return w;
}

static void fd_ready(uv_poll_t *uv, int status, int events)
{
    struct loop_fd *w = uv->data;
    if (!w)
        return;
    unsigned ready = 0;
    if (status < 0) {
        ready = w->events; /* EBADF, POLLERR alone: the owner's next call on the fd says what it is */
    } else {
        if (events & UV_READABLE)
            ready |= LOOP_READ;
        if (events & UV_WRITABLE)
            ready |= LOOP_WRITE;
    }
    if (ready)
        w->fn(w->arg, ready);
}

void loop_fd_set(struct loop_fd *w, unsigned events)
{
    if (w->events == events && uv_is_active((uv_handle_t *)&w->uv) == (events != 0))
        return;
    w->events = events;
    if (!events) {
        uv_poll_stop(&w->uv);
        return;
    }
    int bits = (events & LOOP_READ ? UV_READABLE : 0) | (events & LOOP_WRITE ? UV_WRITABLE : 0);
    uv_poll_start(&w->uv, bits, fd_ready);
}

void loop_fd_destroy(struct loop_fd *w)
{
    if (w)
        loop_handle_close((uv_handle_t *)&w->uv);
}

/* ---- work ---- */

static void work_run(uv_work_t *uv)
{
    struct loop_work *w = uv->data;
    w->work(w->arg);
}

static void work_done(uv_work_t *uv, int status)
{
    struct loop_work *w = uv->data;
    (void)status; /* never cancelled */
    if (w->done)
        w->done(w->arg);
    free(w);
}

struct loop_work *loop_work(struct loop *loop, void (*work)(void *arg), void (*done)(void *arg), void *arg)
{
    struct loop_work *w = xcalloc(1, sizeof(*w));
    w->uv.data = w;
    w->work = work;
    w->done = done;
    w->arg = arg;
    if (uv_queue_work(&loop->uv, &w->uv, work_run, work_done) != 0)
        abort(); /* only for a NULL work function */
    return w;
}

void loop_work_detach(struct loop_work *w, void (*dropped)(void *arg))
{
    w->done = dropped;
}

/* ---- signals ---- */

static void signal_caught(uv_signal_t *uv, int signum)
{
    struct loop_signal *s = uv->data;
    if (s)
        s->fn(s->arg, signum);
}

struct loop_signal *loop_signal_create(struct loop *loop, int signum, void (*fn)(void *arg, int signum), void *arg,
                                       struct error *err)
{
    struct loop_signal *s = xcalloc(1, sizeof(*s));
    uv_signal_init(&loop->uv, &s->uv);
    s->fn = fn;
    s->arg = arg;
    int rc = uv_signal_start(&s->uv, signal_caught, signum);
    if (rc != 0) {
        loop_handle_close((uv_handle_t *)&s->uv);
        error_errno(err, ERROR_IO, -rc, "cannot watch signal %d", signum);
        return NULL;
    }
    s->uv.data = s;
    uv_unref((uv_handle_t *)&s->uv);
    return s;
}

void loop_signal_destroy(struct loop_signal *s)
{
    if (s)
        loop_handle_close((uv_handle_t *)&s->uv);
}

/* ---- wake-ups ---- */

static void wake_called(uv_async_t *uv)
{
    struct loop_wake *w = uv->data;
    if (w)
        w->fn(w->arg);
}

struct loop_wake *loop_wake_create(struct loop *loop, void (*fn)(void *arg), void *arg)
{
    struct loop_wake *w = xcalloc(1, sizeof(*w));
    if (uv_async_init(&loop->uv, &w->uv, wake_called) != 0) {
        fputs("rhrun: no descriptors left for an event loop\n", stderr);
        abort();
    }
    w->uv.data = w;
    w->fn = fn;
    w->arg = arg;
    return w;
}

void loop_wake_send(struct loop_wake *w)
{
    uv_async_send(&w->uv);
}

void loop_wake_hold(struct loop_wake *w, bool hold)
{
    if (hold)
        uv_ref((uv_handle_t *)&w->uv);
    else
        uv_unref((uv_handle_t *)&w->uv);
}

void loop_wake_destroy(struct loop_wake *w)
{
    if (w)
        loop_handle_close((uv_handle_t *)&w->uv);
}
