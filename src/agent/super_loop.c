/*
 * The supervisor while its workers run: it reads their streams, notices their ends, and has the one state machine from
 * running to done. As a subreaper it inherits every orphan of the tree, so "no child left" means "no descendant left",
 * and nothing escapes a stop by forking or by a new session.
 */
#include "super.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull
enum {
    EVENTS = 64,
    TICK_SIGNAL = UINT16_MAX, /* event tag of the signal descriptor; streams: 2 * worker + which */
    ORPHAN_MS = 50,           /* streams are closed but children live: they may be about to end */
    QUIET_MS = 1000,          /* a daemon holds the streams and writes nothing */
    QUIET_MAX_MS = 10000,     /* a daemon holds them and goes on writing */
    KILL_EVERY_MS = 20,
    KILL_MAX_MS = 10000, /* processes that do not die by then (in disk sleep, or another user's) are left over */
    KILL_ROUNDS = 100,
    PACE_AFTER = 32,       /* this many turns in a row without a large read ... */
    PACE_BYTES = 16 << 10, /* (a pipe holds 64 KiB: a fast writer must not wait) */
    PACE_MS = 2,           /* ... and output is collected this long before the next */
    WORD_MS = 100,         /* a machine that shuts down signals every process: ours may come this long after a
                              worker's */
};

/* ---- streams ---- */

int loop_watch(struct super *su, struct worker *w, int which, int fd)
{
    uint64_t tag = (uint64_t)(w - su->workers) * 2 + (uint64_t)which;
    struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = tag << 16}};
    uint8_t files = su->s->run->workers[w - su->workers].files;
    w->streams[which] = (struct output){.fd = fd,
                                        .id = which ? WIRE_STREAM_ERR : WIRE_STREAM_OUT,
                                        .hidden = files & (which ? WIRE_HIDE_ERR : WIRE_HIDE_OUT)};
    su->open_streams++;
    return epoll_ctl(su->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static void show(struct super *su, struct worker *w, struct output *st, const uint8_t *data, size_t len, bool flush)
{
    mask_feed(&su->mask, &st->mask, data, len, flush, &su->shown);
    if (!su->shown.len)
        return;
    if (!st->hidden)
        sink_put(&su->sink, w->status->rank, st->id, su->shown.data, su->shown.len);
    tail_add(&w->tail, (const uint8_t *)su->shown.data, su->shown.len);
    files_write(su, w, st, (const uint8_t *)su->shown.data, su->shown.len);
}

/* One read. Returns the bytes read; 0 at the end of the stream, or when there is nothing now. */
static size_t stream_read(struct super *su, struct worker *w, struct output *st)
{
    uint8_t *to = su->mask.count ? su->scratch : sink_space(&su->sink);
    ssize_t n;
    do
        n = read(st->fd, to, WIRE_SPOOL_DATA_MAX);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return 0;
    if (n <= 0) {
        if (su->mask.count)
            show(su, w, st, NULL, 0, true);
        close(st->fd);
        st->fd = -1;
        su->open_streams--;
        return 0;
    }
    if (su->mask.count) {
        show(su, w, st, to, (size_t)n, false);
    } else {
        tail_add(&w->tail, to, (size_t)n);
        if (!st->hidden)
            sink_commit(&su->sink, w->status->rank, st->id, (size_t)n);
        files_write(su, w, st, to, (size_t)n);
    }
    return (size_t)n;
}

/* Reads the rest of the pipes once nobody writes any more, and the bytes that masking held back. */
static void streams_finish(struct super *su)
{
    for (uint32_t i = 0; i < 2 * su->s->run->worker_count; i++) {
        struct worker *w = &su->workers[i / 2];
        struct output *st = &w->streams[i % 2];
        /* bounded: a daemon that goes on writing must not hold the end back */
        for (int reads = 0; st->fd >= 0 && reads < 64 && stream_read(su, w, st) > 0;)
            reads++;
        if (st->fd >= 0 && su->mask.count)
            show(su, w, st, NULL, 0, true);
    }
}

/* ---- stopping ---- */

static bool list_has(const struct proc_list *list, const struct proc *p)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].pid == p->pid && list->items[i].start == p->start)
            return true;
    return false;
}

static void tree_terminate(void)
{
    struct proc_list tree = {0};
    proc_descendants(getpid(), &tree);
    for (size_t i = 0; i < tree.count; i++)
        kill(tree.items[i].pid, SIGTERM);
    for (size_t i = 0; i < tree.count; i++)
        kill(tree.items[i].pid, SIGCONT); /* a stopped process would see TERM only after it */
    proc_list_free(&tree);
}

/* Kills until a pass finds no new process: processes that fork while being killed must not be faster than the loop. */
static void tree_kill(void)
{
    struct proc_list before = {0};
    for (int round = 0; round < KILL_ROUNDS; round++) {
        struct proc_list tree = {0};
        size_t fresh = 0;
        proc_descendants(getpid(), &tree);
        for (size_t i = 0; i < tree.count; i++) {
            kill(tree.items[i].pid, SIGKILL);
            fresh += !list_has(&before, &tree.items[i]);
        }
        proc_list_free(&before);
        before = tree;
        if (!fresh)
            break;
    }
    proc_list_free(&before);
}

static void stop(struct super *su, uint64_t grace_ms)
{
    uint64_t deadline = mono_ns() + grace_ms * MS;
    if (su->phase == PHASE_KILLING || su->phase == PHASE_DONE)
        return;
    if (su->phase == PHASE_STOPPING) {
        if (deadline < su->deadline_ns)
            su->deadline_ns = deadline;
        return;
    }
    su->phase = PHASE_STOPPING;
    su->deadline_ns = deadline;
    if (grace_ms) /* without grace no handler runs */
        tree_terminate();
}

/* ---- ends of workers ---- */

static void put_end(struct super *su, const struct wire_worker_end *end)
{
    uint8_t data[WIRE_END_SIZE];
    wire_spool_end_put(data, end);
    if (su->s->run->flags & WIRE_RUN_ENDS)
        sink_put(&su->sink, end->rank, WIRE_STREAM_END, data, sizeof data);
    sink_flush(&su->sink);
}

static void set_failed(struct super *su, struct worker *w, const struct wire_worker_end *end, bool spared)
{
    su->failed = w;
    su->spared = spared;
    su->status->value = end->value;
    su->status->cause_rank = end->rank;
    su->status->cause_mono_ns = end->end_mono_ns;
    su->status->cause = end->cause;
}

/* Puts the end of a worker into the spool, after the worker's own output. True: the others go on. */
static bool tell_end(struct super *su, struct worker *w, const struct wire_worker_end *end)
{
    const struct wire_run *run = su->s->run;
    char text[24];
    if (!(run->flags & WIRE_RUN_ENDS))
        return false;
    for (int i = 0; i < 2; i++) /* bounded: a pipe holds no more */
        for (int reads = 0; w->streams[i].fd >= 0 && reads < 4 && stream_read(su, w, &w->streams[i]) > 0;)
            reads++;
    uint64_t dropped = su->status->dropped_bytes;
    put_end(su, end);
    if (su->status->dropped_bytes != dropped || end->cause > WIRE_CAUSE_SIGNAL)
        return false;
    snprintf(text, sizeof text, "%s %d", end->cause == WIRE_CAUSE_EXIT ? "exit" : "signal", end->value);
    for (uint32_t i = 0; i < run->spared.count; i++)
        if (str_eq(run->spared.items[i], text) || str_eq(run->spared.items[i], "any"))
            return true;
    return false;
}

void loop_worker_end(struct super *su, struct worker *w, enum wire_cause cause, int32_t value)
{
    struct status_worker *st = w->status;
    if (st->ended)
        return;
    w->pid = 0;
    su->running--;
    st->cause = (uint8_t)cause;
    st->value = value;
    st->end_mono_ns = mono_ns();
    st->ended = 1;
    if (cause == WIRE_CAUSE_NONE)
        return;
    const struct wire_worker_end end = {st->rank, st->cause, st->value, st->end_mono_ns};
    bool running = su->phase == PHASE_RUNNING;
    bool spared = running && tell_end(su, w, &end);
    if (!su->failed || (su->spared && running))
        set_failed(su, w, &end, spared);
    if (running && !spared)
        stop(su, su->s->run->grace_ms);
}

/* A child that could not exec writes the reason before it ends, so this is read before its end is judged. */
static void faults_read(struct super *su)
{
    struct exec_fault f;
    while (read(su->fault_fd, &f, sizeof f) == sizeof f)
        if (f.index < su->s->run->worker_count)
            su->workers[f.index].fault = f;
}

static void reap(struct super *su);

/* A signal to end: a request by rhrun, which queues its signals, or from the machine or its scheduler, also through
 * notice_watch. */
static void told(struct super *su, int signo, int code, int value)
{
    uint64_t grace = signo == SIGQUIT ? 0 : su->s->run->grace_ms;
    bool queued = code == SI_QUEUE, taken = queued && signo == SIGPWR && su->said;
    if (queued)
        reap(su); /* a worker that ended before the request ended by itself */
    if (queued && signo != SIGQUIT && value >= 0 && (!taken || (uint64_t)value < grace))
        grace = (uint64_t)value;
    if (su->phase == PHASE_RUNNING && su->running && queued && !taken) {
        su->status->stop_requested = 1;
    } else if (su->phase == PHASE_RUNNING && su->running) {
        const struct wire_worker_end end = {WIRE_NO_RANK, WIRE_CAUSE_PREEMPTED, taken ? 0 : signo, mono_ns()};
        if (taken) {
            str_printable(su->said);
            sink_note(su, su->workers, "%s takes this machine back: %s", su->s->run->notice.who, su->said);
        } else {
            sink_note(su, su->workers, "told to end by signal %d, not by rhrun", signo);
        }
        put_end(su, &end);
        set_failed(su, su->workers, &end, false);
    }
    stop(su, grace);
}

/* A worker has failed. If the machine is shutting down, that signal is handled first. */
static void hear(struct super *su, bool by_term)
{
    const struct timespec wait = {0, by_term ? WORD_MS * (long)MS : 0};
    siginfo_t info;
    sigset_t words;
    sigemptyset(&words);
    sigaddset(&words, SIGTERM);
    sigaddset(&words, SIGPWR);
    if (su->phase != PHASE_RUNNING || sigtimedwait(&words, &info, &wait) < 0)
        return;
    if (info.si_code == SI_QUEUE)
        sigqueue(getpid(), info.si_signo, info.si_value); /* later: the worker failed before the signal */
    else
        told(su, info.si_signo, info.si_code, 0);
}

static void worker_reaped(struct super *su, struct worker *w, int status)
{
    faults_read(su);
    if (status) /* by TERM, or with the status that shells give for TERM */
        hear(su, WIFSIGNALED(status) ? WTERMSIG(status) == SIGTERM : WEXITSTATUS(status) == 128 + SIGTERM);
    if (w->fault.cause) {
        const char *program = su->s->run->workers[w->fault.index].shell
                                  ? su->s->shell
                                  : su->s->run->workers[w->fault.index].argv.items[0];
        if (w->fault.cause == WIRE_CAUSE_EXEC)
            sink_note(su, w, "cannot run \"%s\": %s", program, strerror(w->fault.errnum));
        else
            sink_note(su, w, "cannot prepare the worker's process: %s", strerror(w->fault.errnum));
        loop_worker_end(su, w, (enum wire_cause)w->fault.cause, w->fault.errnum);
    } else if (WIFSIGNALED(status)) {
        loop_worker_end(su, w, WIRE_CAUSE_SIGNAL, WTERMSIG(status));
    } else {
        loop_worker_end(su, w, WEXITSTATUS(status) ? WIRE_CAUSE_EXIT : WIRE_CAUSE_NONE, WEXITSTATUS(status));
    }
}

static void reap(struct super *su)
{
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid <= 0) {
            su->has_children = pid == 0 || errno != ECHILD;
            return;
        }
        for (uint32_t i = 0; i < su->s->run->worker_count; i++)
            if (su->workers[i].pid == pid) {
                worker_reaped(su, &su->workers[i], status);
                break;
            }
    }
}

static void signals_read(struct super *su)
{
    struct signalfd_siginfo info;
    while (read(su->signal_fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo != SIGCHLD) /* every turn reaps children anyway */
            told(su, (int)info.ssi_signo, info.ssi_code, info.ssi_int);
    }
}

/* ---- the state machine ---- */

static uint64_t quiet_end(const struct super *su)
{
    if (!su->open_streams)
        return su->has_children ? su->exit_ns + ORPHAN_MS * MS : 0;
    uint64_t last = su->output_ns > su->exit_ns ? su->output_ns : su->exit_ns;
    uint64_t quiet = last + QUIET_MS * MS, longest = su->exit_ns + QUIET_MAX_MS * MS;
    return quiet < longest ? quiet : longest;
}

static void leftover_list(struct super *su)
{
    struct proc_list tree = {0};
    char *text = su->status->leftover;
    size_t n = 0;
    proc_descendants(getpid(), &tree);
    for (size_t i = 0; i < tree.count && n + 40 < STATUS_TEXT; i++) {
        for (char *p = tree.items[i].name; *p; p++)
            if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7F)
                *p = '?';
        n += (size_t)snprintf(text + n, STATUS_TEXT - n, "%ld %s\n", (long)tree.items[i].pid, tree.items[i].name);
    }
    proc_list_free(&tree);
}

/* Advances as far as possible now; true when the phase changed. */
static bool advance(struct super *su)
{
    const struct wire_run *run = su->s->run;
    uint64_t now = mono_ns();
    switch (su->phase) {
    case PHASE_RUNNING:
        if (!su->running) {
            su->phase = PHASE_QUIET;
            su->exit_ns = now;
            return true;
        }
        if (run->timeout_ms && now - su->start_ns >= run->timeout_ms * MS) {
            su->status->timed_out = 1;
            stop(su, run->grace_ms);
            return true;
        }
        return false;
    case PHASE_QUIET:
        if (now < quiet_end(su))
            return false;
        su->phase = PHASE_DONE;
        if (su->has_children) {
            leftover_list(su);
            if (run->kind == WIRE_KIND_LAUNCH) {
                su->phase = PHASE_QUIET;
                stop(su, run->grace_ms);
            }
        }
        return true;
    case PHASE_STOPPING:
        if (su->has_children && now < su->deadline_ns)
            return false;
        su->phase = su->has_children ? PHASE_KILLING : PHASE_DONE;
        su->kill_ns = su->deadline_ns = now;
        return true;
    case PHASE_KILLING:
        if (su->has_children && now - su->kill_ns < KILL_MAX_MS * MS) {
            if (now >= su->deadline_ns) {
                tree_kill();
                su->deadline_ns = mono_ns() + KILL_EVERY_MS * MS;
            }
            return false;
        }
        if (su->has_children)
            leftover_list(su);
        su->phase = PHASE_DONE;
        return true;
    case PHASE_DONE:
        return false;
    }
    return false;
}

static int wait_ms(const struct super *su)
{
    uint64_t until = UINT64_MAX, now = mono_ns();
    switch (su->phase) {
    case PHASE_RUNNING:
        if (su->s->run->timeout_ms)
            until = su->start_ns + su->s->run->timeout_ms * MS;
        break;
    case PHASE_QUIET:
        until = quiet_end(su);
        break;
    case PHASE_STOPPING:
    case PHASE_KILLING:
        until = su->deadline_ns;
        break;
    case PHASE_DONE:
        return 0;
    }
    if (until == UINT64_MAX)
        return -1;
    uint64_t ms = until <= now ? 0 : (until - now + MS - 1) / MS;
    return ms > 60000 ? 60000 : (int)ms;
}

/* Waits for events and handles them; the size of the largest read. */
static size_t turn(struct super *su)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(su->epoll_fd, events, EVENTS, wait_ms(su));
    size_t largest = 0;
    su->sink.now_ms = wall_ms();
    for (int i = 0; i < n; i++) {
        if (events[i].data.u64 == TICK_SIGNAL) {
            signals_read(su);
            continue;
        }
        uint64_t tag = events[i].data.u64 >> 16;
        struct worker *w = &su->workers[tag / 2];
        struct output *st = &w->streams[tag % 2];
        size_t bytes = st->fd >= 0 ? stream_read(su, w, st) : 0;
        if (bytes > largest)
            largest = bytes;
    }
    if (largest)
        su->output_ns = mono_ns();
    sink_flush(&su->sink);
    return largest;
}

void loop_run(struct super *su)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = TICK_SIGNAL}};
    epoll_ctl(su->epoll_fd, EPOLL_CTL_ADD, su->signal_fd, &event);
    int small = 0;
    for (;;) {
        reap(su);
        while (advance(su))
            ;
        if (su->phase == PHASE_DONE)
            break;
        /* many small writes would take a turn each: let them accumulate */
        if (small > PACE_AFTER) {
            struct timespec pace = {0, PACE_MS * (long)MS};
            nanosleep(&pace, NULL);
        }
        uint64_t before = su->output_ns;
        size_t largest = turn(su);
        bool busy = largest && largest < PACE_BYTES && su->output_ns - before < 2 * PACE_MS * MS;
        small = busy ? small + 1 : 0;
    }
    su->sink.now_ms = wall_ms();
    streams_finish(su);
}

void loop_discard(struct super *su)
{
    signal(SIGCHLD, SIG_IGN); /* orphans that end do not become zombies */
    close(su->signal_fd);
    if (!su->scratch)
        su->scratch = xmalloc(WIRE_SPOOL_DATA_MAX);
    while (su->open_streams) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(su->epoll_fd, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            uint64_t tag = events[i].data.u64 >> 16;
            struct output *st = &su->workers[tag / 2].streams[tag % 2];
            ssize_t got = read(st->fd, su->scratch, WIRE_SPOOL_DATA_MAX);
            if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
                close(st->fd);
                st->fd = -1;
                su->open_streams--;
            }
        }
    }
}
