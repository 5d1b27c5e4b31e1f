/*
 * loop: the one event loop of the controller: timers, descriptors, work on a thread pool, signals,
 * wake-ups from other threads, child processes. A thin layer over libuv, so that no other module
 * sees libuv.
 *
 * Everything here belongs to the thread that runs the loop, except loop_wake_send. Each watcher is an opaque handle.
 * Its destroy function takes NULL and may be called at any time, also inside the watcher's own callback; none of its
 * callbacks runs afterwards. Callbacks never run inside the call that starts something; they run from loop_run.
 */
#ifndef RHRUN_LOOP_H
#define RHRUN_LOOP_H

#include "rhrun/base.h"

struct loop;
struct loop_timer;
struct loop_last;
struct loop_fd;
struct loop_signal;
struct loop_wake;
struct loop_work;
struct loop_child;
struct loop_capture;

struct loop *loop_create(void);
/* Every watcher should be destroyed by now; the rest are dropped without a callback (work that already runs on the pool
 * is waited for). Takes NULL. */
void loop_destroy(struct loop *loop);
/* Runs until loop_stop, or until nothing is left that could call back: no timer started, no descriptor watched,
 * no wake, work or child alive. Signals alone do not keep it running. */
void loop_run(struct loop *loop);
/* One turn: handles what is ready; waits for something when `wait`. False when nothing is left to wait for. */
bool loop_turn(struct loop *loop, bool wait);
void loop_stop(struct loop *loop); /* loop_run returns after this turn */
uint64_t loop_now_ms(const struct loop *loop); /* monotonic, as of this turn */

/* ---- timers: one shot ---- */
struct loop_timer *loop_timer_create(struct loop *loop, void (*fn)(void *arg), void *arg);
void loop_timer_start(struct loop_timer *t, uint64_t after_ms); /* a started timer is moved; 0 = in the next turn */
void loop_timer_stop(struct loop_timer *t);
bool loop_timer_active(const struct loop_timer *t);
void loop_timer_destroy(struct loop_timer *t);

/* ---- the end of a turn ---- */
/* fn runs once, when everything due in this turn is done (including timers of 0 ms started meanwhile) and the loop is
 * about to wait. It does not keep loop_run running. */
struct loop_last *loop_last_create(struct loop *loop, void (*fn)(void *arg), void *arg);
void loop_last_start(struct loop_last *l); /* a second start before fn has run changes nothing */
void loop_last_destroy(struct loop_last *l);

/* ---- descriptors: sockets, pipes and terminals, not regular files; level-triggered ---- */
enum { LOOP_READ = 1, LOOP_WRITE = 2 };
/* At first watches for no events. The fd stays the caller's: destroy the watcher first, then close the fd (at once is
 * fine). events: what is ready; an error or hang-up of the peer reports all events that were asked for. NULL and err
 * when the kernel cannot poll fd. */
struct loop_fd *loop_fd_create(struct loop *loop, int fd, void (*fn)(void *arg, unsigned events), void *arg,
                               struct error *err);
void loop_fd_set(struct loop_fd *w, unsigned events); /* LOOP_READ | LOOP_WRITE, 0 = nothing; cheap if unchanged */
void loop_fd_destroy(struct loop_fd *w);

/* ---- work on the thread pool ---- */
/* work(arg) runs on a pool thread, then done(arg) on the loop. loop_work_detach replaces `done` by `dropped(arg)` (may
 * be NULL), which also runs on the loop once work has ended: the place to free arg. */
struct loop_work *loop_work(struct loop *loop, void (*work)(void *arg), void (*done)(void *arg), void *arg);
void loop_work_detach(struct loop_work *w, void (*dropped)(void *arg));

/* ---- signals ---- */
/* Several watchers of one signal may exist. NULL and err when it cannot be watched. */
struct loop_signal *loop_signal_create(struct loop *loop, int signum, void (*fn)(void *arg, int signum), void *arg,
                                       struct error *err);
void loop_signal_destroy(struct loop_signal *s);

/* ---- wake-up from another thread ---- */
/* fn runs on the loop at least once after each loop_wake_send; several sends may make one call. */
struct loop_wake *loop_wake_create(struct loop *loop, void (*fn)(void *arg), void *arg);
void loop_wake_send(struct loop_wake *w); /* any thread; also from a signal handler */
void loop_wake_hold(struct loop_wake *w, bool hold); /* whether it keeps loop_run running; true at first */
void loop_wake_destroy(struct loop_wake *w); /* no other thread may send any more */

/* ---- child processes ---- */
struct loop_child_options {
    const char *file;        /* looked up in PATH when it has no slash; NULL = argv[0] */
    const char *const *argv; /* NULL-terminated */
    const char *const *env;  /* NULL-terminated "NAME=value"; NULL = this process's environment */
    const char *cwd;         /* NULL = ours */
    int fds[3];              /* our descriptors that become the child's 0, 1, 2; they stay open here; -1 = /dev/null */
    bool new_session;        /* setsid: the terminal's Ctrl-C does not reach the child */
};
/* Starts a child; nothing else is inherited (fds are CLOEXEC). exited gets its exit status, or signal > 0. NULL and err
 * (ERROR_IO) when it could not be started, with the reason that execve gave. */
struct loop_child *loop_child_spawn(struct loop *loop, const struct loop_child_options *options,
                                    void (*exited)(void *arg, int status, int signal), void *arg, struct error *err);
int loop_child_pid(const struct loop_child *c);
void loop_child_kill(struct loop_child *c, int signum); /* does nothing once the child has ended */
/* Does not kill: a child that still runs goes on, is reaped when it ends, and does not keep loop_run running. */
void loop_child_destroy(struct loop_child *c);

/* Runs a command to its end and collects its output: what `$(...)` does. */
struct loop_capture_result {
    int status, signal;      /* as above */
    bool timed_out;          /* it was killed */
    bool too_long;           /* output beyond max_bytes: it was killed */
    const char *out;         /* NUL-terminated; valid during the callback */
    size_t out_len;
    const char *error_text;  /* its stderr: the last 4 KiB, without the trailing newline */
};
/* stdin is `input` (may be NULL), then end of file. done is called once; after it the handle frees itself. Destroying
 * the handle before kills the child, and done is not called. NULL and err when it could not be started. */
struct loop_capture *loop_capture(struct loop *loop, const char *const *argv, const char *const *env,
                                  const char *input, size_t max_bytes, uint64_t timeout_ms,
                                  void (*done)(void *arg, const struct loop_capture_result *result), void *arg,
                                  struct error *err);
void loop_capture_destroy(struct loop_capture *c);

#endif
