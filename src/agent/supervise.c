/*
 * One supervisor: leaves the agent's session and descriptors, prepares the run, starts the workers, runs super_loop.c,
 * and records the end. Facts go into the preallocated status file as they happen; the state is stored last, so a reader
 * never sees half an outcome.
 */
#include "super.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SYS_NR_close_range = 436, FD_DIR = 3, FD_STATUS = 4, FD_FIRST_FREE = 5 };

/* ---- becoming a process of its own ---- */

static void close_from(int first)
{
    if (syscall(SYS_NR_close_range, (unsigned)first, ~0u, 0) == 0)
        return;
    struct rlimit limit;
    int max = prlimit(0, RLIMIT_NOFILE, NULL, &limit) == 0 && limit.rlim_cur < 65536 ? (int)limit.rlim_cur : 65536;
    for (int fd = first; fd < max; fd++)
        close(fd);
}

/* Keeps the attempt's two descriptors as FD_DIR and FD_STATUS, /dev/null as 0, 1 and 2, nothing else. */
static int isolate(const struct supervise *s)
{
    int dir = fcntl(s->dir_fd, F_DUPFD_CLOEXEC, 16), status = fcntl(s->status_fd, F_DUPFD_CLOEXEC, 16);
    int null = open("/dev/null", O_RDWR);
    if (dir < 0 || status < 0 || null < 0)
        return -1;
    for (int fd = 0; fd < 3; fd++)
        if (dup2(null, fd) < 0)
            return -1;
    if (dup3(dir, FD_DIR, O_CLOEXEC) < 0 || dup3(status, FD_STATUS, O_CLOEXEC) < 0)
        return -1;
    close_from(FD_FIRST_FREE);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    prctl(PR_SET_NAME, "rhrun-supervise", 0, 0, 0);
    signal(SIGCHLD, SIG_DFL); /* if it were ignored, children could not be waited for; all signals are blocked since the
                                 fork */
    return chdir("/");        /* keeps no file system busy */
}

/* ---- preparing and starting ---- */

static int prepare(struct super *su, uint64_t limit)
{
    struct stat info;
    uint32_t count = su->s->run->worker_count;
    if (fstat(FD_STATUS, &info) < 0)
        return -1;
    if ((size_t)info.st_size < sizeof(struct status) + (size_t)count * sizeof(struct status_worker)) {
        errno = EIO;
        return -1;
    }
    su->status = mmap(NULL, (size_t)info.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, FD_STATUS, 0);
    if (su->status == MAP_FAILED)
        return -1;
    su->workers = xcalloc(count, sizeof *su->workers);
    for (uint32_t i = 0; i < count; i++) {
        su->workers[i].status = &su->status->workers[i];
        su->workers[i].streams[0].fd = su->workers[i].streams[1].fd = -1;
        su->workers[i].files[0] = su->workers[i].files[1] = -1;
    }
    mask_init(&su->mask, &su->s->run->secrets);
    if (su->mask.count)
        su->scratch = xmalloc(WIRE_SPOOL_DATA_MAX);
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGPWR);
    sigaddset(&signals, SIGQUIT);
    su->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    su->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int bell = openat(FD_DIR, "bell", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    sink_init(&su->sink, FD_DIR, su->status, bell, limit);
    return su->signal_fd < 0 || su->epoll_fd < 0 || bell < 0 ? -1 : 0;
}

static int worker_start(struct super *su, struct exec_plan *plan, uint32_t index)
{
    int out[2], err[2];
    struct worker *w = &su->workers[index];
    plan->error_env = w->error_env;
    if (pipe2(out, O_CLOEXEC) < 0)
        return -1;
    if (pipe2(err, O_CLOEXEC) < 0) {
        int errnum = errno;
        close(out[0]);
        close(out[1]);
        errno = errnum;
        return -1;
    }
    pid_t pid = exec_worker(plan, index, out[1], err[1]);
    int errnum = errno;
    close(out[1]);
    close(err[1]);
    if (pid < 0) {
        close(out[0]);
        close(err[0]);
        errno = errnum;
        return -1;
    }
    w->pid = pid;
    w->status->pid = (uint32_t)pid;
    su->has_children = true;
    for (int i = 0; i < 2; i++) {
        int fd = i ? err[0] : out[0];
        fcntl(fd, F_SETFL, O_NONBLOCK);
        loop_watch(su, w, i, fd);
    }
    return 0;
}

/* All preparations that may fail are here, before any worker runs: one text and one errno say why. */
static int plan_make(struct super *su, struct exec_plan *plan, struct environment *env, const char **ret_what)
{
    const struct supervise *s = su->s;
    int fault[2];
    struct rlimit files = {1024, 1024};
    *ret_what = "cannot read the environment that an earlier step left";
    if (environment_base(env, s) < 0)
        return -1;
    *ret_what = "cannot enter the working directory";
    const char *point = environment_get(env, "RHRUN_POINT_DIR");
    if (point)
        mkdir_p(point, 0700, NULL);
    int cwd = exec_open_cwd(s);
    if (cwd < 0)
        return -1;
    *ret_what = "cannot prepare the step";
    if (pipe2(fault, O_CLOEXEC | O_NONBLOCK) < 0)
        return -1;
    su->fault_fd = fault[0];
    *plan = (struct exec_plan){.s = s, .env = env, .cwd_fd = cwd, .fault_fd = fault[1], .null_fd = 0, .capture_fd = -1};
    *ret_what = "cannot make its log files";
    for (uint32_t i = 0; i < s->run->worker_count; i++)
        if (files_open(su, i) < 0)
            return -1;
    *ret_what = "cannot make the host file";
    if (files_hosts(su, env) < 0)
        return -1;
    if (s->run->env_out && *s->run->env_out) {
        *ret_what = "cannot capture the environment";
        errno = EINVAL; /* only a shell has an environment to leave */
        if (!s->run->workers[0].shell || (plan->capture_fd = memfd_create("rhrun-env", MFD_CLOEXEC)) < 0)
            return -1;
    }
    prlimit(0, RLIMIT_NOFILE, NULL, &files);
    plan->nofile_soft = files.rlim_cur;
    plan->nofile_hard = files.rlim_max;
    files.rlim_cur = files.rlim_max; /* three descriptors for each worker */
    prlimit(0, RLIMIT_NOFILE, &files, NULL);
    return 0;
}

static void setup_failed(struct super *su, const char *what, int errnum)
{
    struct worker *w = &su->workers[0];
    const char *where = strstr(what, "directory") ? (*su->s->run->cwd ? su->s->run->cwd : su->s->work_dir) : "";
    if (*where)
        sink_note(su, w, "%s \"%s\": %s", what, where, strerror(errnum));
    else
        sink_note(su, w, "%s: %s", what, strerror(errnum));
    su->failed = w;
    su->status->cause = WIRE_CAUSE_SETUP;
    su->status->value = errnum;
    su->status->cause_rank = w->status->rank;
    su->status->cause_mono_ns = mono_ns();
}

static void workers_start(struct super *su, struct exec_plan *plan)
{
    uint32_t count = su->s->run->worker_count;
    su->running = count;
    su->start_ns = su->status->start_mono_ns = mono_ns();
    for (uint32_t i = 0; i < count; i++) {
        if (worker_start(su, plan, i) == 0)
            continue;
        int errnum = errno;
        sink_note(su, &su->workers[i], "cannot start the worker's process: %s", strerror(errnum));
        loop_worker_end(su, &su->workers[i], WIRE_CAUSE_SETUP, errnum);
        for (uint32_t j = i + 1; j < count; j++)
            loop_worker_end(su, &su->workers[j], WIRE_CAUSE_SETUP, ECANCELED);
        break;
    }
    close(plan->fault_fd); /* the children's copies close by exec */
    close(plan->cwd_fd);
}

/* ---- the end ---- */

/* Checks the conditions of success beyond exit status 0. */
static void success_check(struct super *su, int capture_fd)
{
    const struct supervise *s = su->s;
    const char *creates = s->run->creates;
    struct status *st = su->status;
    struct worker *w = &su->workers[0];
    if (st->cause != WIRE_CAUSE_NONE || st->stop_requested || st->timed_out)
        return;
    if (creates && *creates) {
        CLEANUP(cleanup_free)
        char *path = *creates == '/' ? xstrdup(creates) : xasprintf("%s/%s", s->work_dir, creates);
        struct stat info;
        if (lstat(path, &info) < 0) {
            st->value = errno;
            st->cause_rank = w->status->rank;
            st->cause_mono_ns = mono_ns();
            st->cause = WIRE_CAUSE_CREATES;
            return;
        }
    }
    if (capture_fd >= 0 && exec_store_env(s, capture_fd, &su->mask) < 0)
        setup_failed(su, "cannot keep the environment for later steps", errno);
    else if ((s->run->flags & WIRE_RUN_PATCHES) && s->note(s->ledger, s->run, &st->patched) < 0)
        setup_failed(su, "cannot note which files it changed", errno);
}

static void record(struct super *su)
{
    struct status *st = su->status;
    sink_finish(&su->sink);
    tail_format(&(su->failed ? su->failed : &su->workers[0])->tail, st->tail, sizeof st->tail);
    st->end_mono_ns = mono_ns();
    st->end_wall_ms = wall_ms();
    atomic_store_explicit(&st->state, WIRE_STATE_ENDED, memory_order_release);
    flock(FD_STATUS, LOCK_UN); /* for all copies of the descriptor; before the bell, which makes the agent check */
    sink_ring(&su->sink);
}

static void supervisor_main(const struct supervise *s, char *said)
{
    struct super su = {.s = s, .said = said, .epoll_fd = -1, .signal_fd = -1, .fault_fd = -1};
    struct exec_plan plan = {.capture_fd = -1};
    struct environment env = {0};
    const char *what = "cannot prepare the supervisor";
    if (isolate(s) < 0)
        return; /* nothing was started: the next process that finds the lock free records it as lost */
    int rc = prepare(&su, s->run->log_limit_bytes);
    if (rc < 0 && (!su.workers || su.sink.bell_fd < 0))
        return;
    if (rc == 0)
        rc = plan_make(&su, &plan, &env, &what);
    if (rc < 0) {
        setup_failed(&su, what, errno);
        record(&su);
        return;
    }
    workers_start(&su, &plan);
    loop_run(&su);
    if (su.failed)
        files_error(&su, su.failed);
    success_check(&su, plan.capture_fd);
    record(&su);
    close(FD_STATUS);
    close(FD_DIR);
    close(su.sink.bell_fd);
    if (su.open_streams)
        loop_discard(&su);
}

/* ---- the agent's side ---- */

/* The supervisor's identity goes into the claim before the agent goes on, so that a SIGNAL finds it. */
static void claim_identity(int status_fd, pid_t pid)
{
    struct proc p = {0};
    uint32_t id = (uint32_t)pid;
    proc_read(pid, &p);
    ssize_t n = pwrite(status_fd, &p.start, sizeof p.start, offsetof(struct status, supervisor_start));
    n = pwrite(status_fd, &id, sizeof id, offsetof(struct status, supervisor_pid));
    (void)n;
}

/* Runs beside the supervisor, without the supervisor's lock. */
static void watch(const struct supervise *s, char *said)
{
    if (isolate(s) < 0)
        return;
    close(FD_STATUS);
    notice_watch(s, FD_DIR, said);
}

int supervise_start(const struct supervise *s, struct error *err)
{
    sigset_t all, before;
    char *said = NULL;
    if (s->run->notice.address)
        said = mmap(NULL, NOTICE_SAID_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (said == MAP_FAILED)
        return error_errno(err, ERROR_INFRA, errno, "could not start a supervisor");
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before); /* a stop may come before the supervisor can handle it: it stays pending */
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        pid_t inner = fork();
        if (inner == 0) {
            supervisor_main(s, said);
            _exit(0);
        }
        if (inner < 0)
            _exit(errno < 255 ? errno : 255);
        claim_identity(s->status_fd, inner);
        if (said && fork() == 0)
            watch(s, said);
        _exit(0);
    }
    int errnum = errno, status = 0;
    if (said)
        munmap(said, NOTICE_SAID_MAX);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (pid < 0)
        return error_errno(err, ERROR_INFRA, errnum, "could not start a supervisor");
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return 0; /* the agent ignores SIGCHLD: the child is gone, and the lock shows the rest */
    if (WIFEXITED(status) && WEXITSTATUS(status))
        return error_errno(err, ERROR_INFRA, WEXITSTATUS(status), "could not start a supervisor");
    return 0;
}
