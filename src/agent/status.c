/*
 * The status file: the node's record of one attempt, and the lock that says whether its supervisor lives. The file may
 * contain anything (a damaged disk, a curious user), so a reader copies it and checks every field that it uses.
 */
#include "super.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    SYS_NR_pidfd_send_signal = 424, /* the same number on every architecture */
    SYS_NR_pidfd_open = 434,
    LOST_ROUNDS = 200,
    LOST_PAUSE_NS = 10 * 1000000,
};

static size_t status_size(uint32_t workers)
{
    return sizeof(struct status) + (size_t)workers * sizeof(struct status_worker);
}

/* Blocks for the whole file, so that recording an outcome needs no new one. */
static int preallocate(int fd, size_t size)
{
    int errnum = posix_fallocate(fd, 0, (off_t)size);
    if (errnum == 0)
        return 0;
    if (errnum != EOPNOTSUPP && errnum != ENOSYS && errnum != EINVAL) {
        errno = errnum;
        return -1;
    }
    static char zeros[4096]; /* not const, so that it takes no room in the program */
    for (size_t done = 0; done < size; done += sizeof zeros)
        if (write_all(fd, zeros, size - done < sizeof zeros ? size - done : sizeof zeros) < 0)
            return -1;
    return 0;
}

static void text_set(char *to, size_t max, const char *from)
{
    snprintf(to, max, "%s", from ? from : "");
}

static int claim_fill(int fd, const struct wire_run *run, const char *variant, const char *boot_id, uint64_t sequence)
{
    size_t size = status_size(run->worker_count);
    if (preallocate(fd, size) < 0)
        return -1;
    struct status *st = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (st == MAP_FAILED)
        return -1;
    st->version = STATUS_VERSION;
    text_set(st->attempt, sizeof st->attempt, run->attempt);
    text_set(st->key, sizeof st->key, run->key);
    text_set(st->variant, sizeof st->variant, variant);
    text_set(st->boot_id, sizeof st->boot_id, boot_id);
    text_set(st->slot, sizeof st->slot, run->slot);
    text_set(st->launch, sizeof st->launch, run->launch);
    st->sequence = sequence;
    st->claim_wall_ms = wall_ms();
    st->worker_count = run->worker_count;
    for (uint32_t i = 0; i < run->worker_count; i++)
        st->workers[i].rank = run->workers[i].rank;
    atomic_store_explicit(&st->state, WIRE_STATE_CLAIMED, memory_order_release);
    munmap(st, size);
    return 0;
}

static void attempt_remove(int a_fd, const char *attempt)
{
    int dir = openat(a_fd, attempt, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir >= 0) {
        unlinkat(dir, "status", 0);
        unlinkat(dir, "bell", 0);
        close(dir);
    }
    unlinkat(a_fd, attempt, AT_REMOVEDIR);
}

/* An agent that died between mkdir and CLAIMED left a folder, and nothing was started. */
static bool half_made(int a_fd, const char *attempt)
{
    CLEANUP(cleanup_close) int dir = openat(a_fd, attempt, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return false;
    CLEANUP(cleanup_close) int fd = openat(dir, "status", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT;
    uint32_t state = 0;
    if (pread(fd, &state, sizeof state, offsetof(struct status, state)) == sizeof state && state != 0)
        return false;
    return flock(fd, LOCK_EX | LOCK_NB) == 0;
}

int status_create(int a_fd, const struct wire_run *run, const char *variant, const char *boot_id, uint64_t sequence,
                  int *ret_dir, int *ret_status, struct error *err)
{
    CLEANUP(cleanup_close) int dir = -1;
    CLEANUP(cleanup_close) int fd = -1;
    if (!wire_id_valid(run->attempt) || run->worker_count > WIRE_WORKERS_MAX)
        return error_set(err, ERROR_PROTOCOL, "cannot create attempt \"%s\": invalid request", run->attempt);
    int rc = mkdirat(a_fd, run->attempt, 0700);
    if (rc < 0 && errno == EEXIST) {
        if (!half_made(a_fd, run->attempt)) {
            error_set(err, ERROR_INTERNAL, "attempt \"%s\" is known already", run->attempt);
            errno = EEXIST;
            return -1;
        }
        attempt_remove(a_fd, run->attempt);
        rc = mkdirat(a_fd, run->attempt, 0700);
    }
    if (rc < 0)
        return error_errno(err, ERROR_INFRA, errno, "could not create attempt \"%s\"", run->attempt);
    if ((dir = openat(a_fd, run->attempt, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 || mkfifoat(dir, "bell", 0600) < 0 ||
        (fd = openat(dir, "status", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) < 0 ||
        flock(fd, LOCK_EX | LOCK_NB) < 0 || claim_fill(fd, run, variant, boot_id, sequence) < 0) {
        int errnum = errno;
        attempt_remove(a_fd, run->attempt);
        error_errno(err, ERROR_INFRA, errnum, "could not create attempt \"%s\"", run->attempt);
        errno = errnum;
        return -1;
    }
    *ret_dir = STEAL_FD(dir);
    *ret_status = STEAL_FD(fd);
    return 0;
}

int status_finish(int status_fd, bool stopped, enum wire_cause cause, int errnum, const char *tail, struct error *err)
{
    struct status *st = mmap(NULL, sizeof *st, PROT_READ | PROT_WRITE, MAP_SHARED, status_fd, 0);
    if (st == MAP_FAILED)
        return error_errno(err, ERROR_INFRA, errno, "could not map a status file");
    st->stop_requested = stopped;
    st->cause = (uint8_t)cause;
    st->value = errnum;
    struct tail text = {0}; /* paths may have characters that must not reach a terminal */
    tail_add(&text, (const uint8_t *)tail, strlen(tail));
    tail_format(&text, st->tail, sizeof st->tail);
    st->cause_mono_ns = st->end_mono_ns = mono_ns();
    st->end_wall_ms = wall_ms();
    atomic_store_explicit(&st->state, WIRE_STATE_ENDED, memory_order_release);
    munmap(st, sizeof *st);
    flock(status_fd, LOCK_UN);
    return 0;
}

/* ---- reading ---- */

/* A checked copy of the file (free it), or NULL. */
static struct status *status_load(int dir_fd, struct error *err)
{
    CLEANUP(cleanup_close) int fd = openat(dir_fd, "status", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        error_errno(err, ERROR_INFRA, errno, "could not open a status file");
        return NULL;
    }
    struct status *st = xcalloc(1, status_size(WIRE_WORKERS_MAX));
    /* read twice: the fields of an outcome were stored before the state, which the first read may have seen already */
    ssize_t n = pread(fd, st, sizeof *st, 0);
    atomic_thread_fence(memory_order_acquire);
    if (n == (ssize_t)sizeof *st)
        n = pread(fd, st, status_size(WIRE_WORKERS_MAX), 0);
    const char *fault = NULL;
    if (n < (ssize_t)sizeof *st)
        fault = "too short";
    else if (st->version != STATUS_VERSION)
        fault = "unknown version";
    else if (st->worker_count > WIRE_WORKERS_MAX || (size_t)n < status_size(st->worker_count))
        fault = "too short for its workers";
    else if (atomic_load(&st->state) < WIRE_STATE_CLAIMED || atomic_load(&st->state) > WIRE_STATE_LOST)
        fault = "no state";
    else if (!memchr(st->attempt, 0, sizeof st->attempt) || !memchr(st->key, 0, sizeof st->key) ||
             !memchr(st->variant, 0, sizeof st->variant) || !memchr(st->boot_id, 0, sizeof st->boot_id) ||
             !memchr(st->slot, 0, sizeof st->slot) || !memchr(st->launch, 0, sizeof st->launch) ||
             !memchr(st->tail, 0, sizeof st->tail) || !memchr(st->leftover, 0, sizeof st->leftover))
        fault = "unterminated text";
    else if (!wire_id_valid(st->attempt) || st->cause > WIRE_CAUSE_LAST || st->verdict > WIRE_VERDICT_GOOD)
        fault = "invalid value";
    if (!fault)
        return st;
    error_set(err, ERROR_INFRA, "status file is damaged: %s", fault);
    free(st);
    return NULL;
}

bool status_is_of_boot(const struct status *st, const char *boot_id)
{
    const char *in_container = strchr(st->boot_id, '+');
    return in_container ? strncmp(in_container + 1, boot_id, 26) == 0
                        : strncmp(st->boot_id, boot_id, sizeof st->boot_id) == 0;
}

int status_read(int dir_fd, const char *boot_id, struct arena *arena, struct wire_record *ret, struct error *err)
{
    CLEANUP(cleanup_free) struct status *st = status_load(dir_fd, err);
    if (!st)
        return -1;
    struct wire_record r = {
        .attempt = arena_strdup(arena, st->attempt),
        .slot = arena_strdup(arena, st->slot),
        .launch = arena_strdup(arena, st->launch),
        .key = arena_strdup(arena, st->key),
        .variant = arena_strdup(arena, st->variant),
        .boot_id = arena_strdup(arena, st->boot_id),
        .state = (uint8_t)atomic_load(&st->state),
        .same_boot = status_is_of_boot(st, boot_id),
        .stop_requested = st->stop_requested != 0,
        .timed_out = st->timed_out != 0,
        .verdict = st->verdict,
        .sequence = st->sequence,
        .claim_wall_ms = st->claim_wall_ms,
        .start_mono_ns = st->start_mono_ns,
        .end_mono_ns = st->end_mono_ns,
        .end_wall_ms = st->end_wall_ms,
        .spool_bytes = atomic_load(&st->spool_bytes),
        .kept_from = atomic_load(&st->acked) / SEGMENT_SIZE * SEGMENT_SIZE,
        .dropped_bytes = st->dropped_bytes,
        .dropped = st->dropped,
        .cause = st->cause,
        .value = st->value,
        .cause_rank = st->cause_rank,
        .cause_mono_ns = st->cause_mono_ns,
        .patched = st->patched,
        .tail = arena_strdup(arena, st->tail),
        .leftover = arena_strdup(arena, st->leftover),
        .workers = arena_array(arena, (size_t)st->worker_count + 1, sizeof *r.workers),
    };
    for (uint32_t i = 0; i < st->worker_count; i++) {
        const struct status_worker *w = &st->workers[i];
        if (w->ended && w->cause <= WIRE_CAUSE_SETUP)
            r.workers[r.worker_count++] = (struct wire_worker_end){w->rank, w->cause, w->value, w->end_mono_ns};
    }
    *ret = r;
    return 0;
}

int status_judge(int dir_fd, uint8_t verdict)
{
    CLEANUP(cleanup_close) int fd = openat(dir_fd, "status", O_RDWR | O_CLOEXEC);
    return pwrite(fd, &verdict, 1, offsetof(struct status, verdict)) == 1 ? 0 : -1;
}

bool status_alive(int dir_fd)
{
    CLEANUP(cleanup_close) int fd = openat(dir_fd, "status", O_RDONLY | O_CLOEXEC);
    return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

/* ---- acting on the supervisor ---- */

static void pause_ns(long ns)
{
    struct timespec t = {0, ns};
    nanosleep(&t, NULL);
}

/* Kills all processes with the attempt in their environment; -1 if some do not die. */
static int workload_end(const char *attempt, struct error *err)
{
    CLEANUP(cleanup_free) char *entry = xasprintf("RHRUN_ATTEMPT=%s", attempt);
    size_t left = 0;
    for (int round = 0; round < LOST_ROUNDS; round++) {
        struct proc_list list = {0};
        proc_with_env(entry, &list);
        left = list.count;
        for (size_t i = 0; i < list.count; i++)
            kill(list.items[i].pid, SIGKILL);
        proc_list_free(&list);
        if (!left)
            return 0;
        if (round > 2) /* no pause after the first rounds: a forking workload must not be faster */
            pause_ns(LOST_PAUSE_NS);
    }
    return error_set(err, ERROR_INFRA, "could not end %zu processes of attempt \"%s\"", left, attempt);
}

int status_mark_lost(int dir_fd, const char *attempt, struct error *err)
{
    CLEANUP(cleanup_free) struct status *copy = status_load(dir_fd, err);
    if (!copy)
        return -1;
    CLEANUP(cleanup_close) int fd = openat(dir_fd, "status", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, ERROR_INFRA, errno, "could not open a status file");
    int rc = -1;
    for (int i = 0; i < 5 && (rc = flock(fd, LOCK_EX | LOCK_NB)) < 0; i++)
        pause_ns(1000000); /* another agent may just be checking whether it is alive */
    if (rc < 0 && errno == EWOULDBLOCK)
        return 1;
    if (rc < 0)
        return error_errno(err, ERROR_INFRA, errno, "could not lock attempt \"%s\"", attempt);
    struct status *st = mmap(NULL, sizeof *st, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (st == MAP_FAILED)
        return error_errno(err, ERROR_INFRA, errno, "could not map attempt \"%s\"", attempt);
    rc = 0;
    if (atomic_load_explicit(&st->state, memory_order_acquire) == WIRE_STATE_CLAIMED) {
        /* the id is random and belongs to one machine: processes with it are ours, whatever boot the claim names */
        rc = workload_end(attempt, err);
        if (rc == 0) {
            st->end_wall_ms = wall_ms();
            st->end_mono_ns = mono_ns();
            atomic_store_explicit(&st->state, WIRE_STATE_LOST, memory_order_release);
        }
    }
    munmap(st, sizeof *st);
    return rc;
}

int status_signal(int dir_fd, enum wire_signal signal, uint32_t grace_ms, struct error *err)
{
    CLEANUP(cleanup_free) struct status *st = status_load(dir_fd, err);
    if (!st)
        return -1;
    if (atomic_load(&st->state) != WIRE_STATE_CLAIMED)
        return 0;
    struct proc p;
    pid_t pid = (pid_t)st->supervisor_pid;
    int number = signal == WIRE_KILL ? SIGQUIT : signal == WIRE_TAKEN ? SIGPWR : SIGTERM, rc;
    long pidfd = pid > 1 ? syscall(SYS_NR_pidfd_open, pid, 0) : -1;
    int errnum = errno;
    /* the pid means the supervisor only together with its start tick and the lock */
    bool ours = pid > 1 && status_alive(dir_fd) && proc_read(pid, &p) && p.start == st->supervisor_start;
    if (!ours) {
        if (pidfd >= 0)
            close((int)pidfd);
        return error_set(err, ERROR_INFRA, "attempt \"%s\" has no live supervisor", st->attempt);
    }
    union sigval value = {.sival_int = grace_ms > INT32_MAX ? INT32_MAX : (int)grace_ms};
    if (pidfd >= 0) {
        siginfo_t info;
        memset(&info, 0, sizeof info);
        info.si_signo = number;
        info.si_code = SI_QUEUE;
        info.si_pid = getpid();
        info.si_uid = getuid();
        info.si_value = value;
        rc = (int)syscall(SYS_NR_pidfd_send_signal, (int)pidfd, number, &info, 0);
        errnum = errno;
        close((int)pidfd);
    }
    if (pidfd < 0 || (rc < 0 && errnum != ESRCH)) { /* no pidfd in this kernel or sandbox */
        rc = sigqueue(pid, number, value);
        errnum = errno;
    }
    if (rc < 0 && errnum != ESRCH)
        return error_errno(err, ERROR_INFRA, errnum, "could not signal attempt \"%s\"", st->attempt);
    return 0;
}
