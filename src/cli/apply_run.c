/*
 * apply: runs the jobs with work, each in a rhrun of its own, at most `parallel` at once. Each rhrun has its own
 * session, so the terminal's Ctrl-C reaches only this process, which passes it on. If this process is killed, the
 * rhruns continue as controllers without a terminal. Their output is in the job's controller.log, and in its apply.log
 * until they have the job's lock.
 */
#include "apply.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOOK_MS = 200, HELD_MS = 2000, TAIL_BYTES = 16384, EXIT_HELD = 4 };

static char *job_file(const struct apply_job *job, const char *name, struct error *err)
{
    CLEANUP(cleanup_free) char *home = journal_home(err);
    if (!home)
        return NULL;
    CLEANUP(cleanup_free) char *dir = xasprintf("%s/jobs/%s", home, job->job_id);
    return mkdir_p(dir, 0700, err) < 0 ? NULL : xasprintf("%s/%s", dir, name);
}

static uint64_t size_of(const char *path)
{
    struct stat st;
    return path && stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* The last "rhrun: error:" line after `from`; NULL: there is none. */
static const char *last_error(struct apply_job *job, const char *name, uint64_t from)
{
    static const char mark[] = "rhrun: error: ";
    CLEANUP(cleanup_free) char *path = job_file(job, name, NULL);
    CLEANUP(cleanup_close) int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    const uint64_t size = size_of(path);
    char text[TAIL_BYTES + 1];
    if (size > from + TAIL_BYTES)
        from = size - TAIL_BYTES;
    const ssize_t n = fd < 0 ? 0 : pread(fd, text, TAIL_BYTES, (off_t)from);
    if (n <= 0)
        return NULL;
    text[n] = 0;
    char *found = NULL;
    for (char *p = text; (p = strstr(p, mark)); p++)
        found = p;
    if (!found)
        return NULL;
    found += strlen(mark);
    found[strcspn(found, "\n")] = 0;
    str_printable(found);
    return arena_strdup(job->of->c->arena, found);
}

/* ---- the end of one ---- */

static void take_run(struct apply_job *job)
{
    struct journal *journal;
    if (journal_open_read(job->job_id, &journal, NULL) < 0)
        return;
    const struct state_run *latest = state_run_latest(journal_state(journal), job->variant);
    const bool ours = latest && (latest->status == RUN_OPEN || latest->closed_ms >= job->of->since_ms);
    if (ours || (latest && job->exit_status == 0)) { /* else ours ended before it had a run */
        snprintf(job->run, sizeof job->run, "%s", latest->id);
        if (latest->status != RUN_DONE && latest->status != RUN_OPEN && latest->message)
            job->why = arena_strdup(job->of->c->arena, latest->message);
    }
    journal_close(journal);
}

static void say_end(const struct apply_job *job)
{
    char took[32];
    cli_duration(job->took_ms, took);
    if (job->did == APPLY_FAILED)
        apply_say(job->of, "%s: failed after %s (exit status %d)%s%s", job->name, took, job->exit_status,
                  job->why ? ": " : "", job->why ? job->why : "");
    else if (job->did == APPLY_STOPPED)
        apply_say(job->of, "%s: stopped after %s", job->name, took);
    else
        apply_say(job->of, "%s: done in %s (run %s)", job->name, took, job->run);
}

static void look(void *arg);

static void on_exit_of(void *arg, int status, int signum)
{
    struct apply_job *job = arg;
    struct apply *a = job->of;
    loop_child_destroy(job->child);
    job->child = NULL;
    a->running--;
    job->took_ms = loop_now_ms(a->loop) - job->began_ms;
    job->exit_status = signum ? 128 + signum : status;
    job->why = NULL;
    if (job->exit_status == EXIT_HELD &&
        !a->interrupted) { /* another rhrun, here or elsewhere, holds it: wait for its end */
        const char *why = last_error(job, "apply.log", 0);
        if (!why)
            why = last_error(job, "controller.log", job->log_from);
        if (!job->again_ms)
            apply_say(a, "%s: waiting: %s", job->name, why ? why : "another rhrun holds the job");
        job->stage = APPLY_AWAITS;
        job->again_ms = loop_now_ms(a->loop) + HELD_MS;
    } else {
        job->stage = APPLY_OVER;
        job->did = job->exit_status == 0                       ? APPLY_RAN
                   : a->interrupted && job->exit_status >= 128 ? APPLY_STOPPED
                                                               : APPLY_FAILED;
        take_run(job);
        if (job->did == APPLY_FAILED && !job->why)
            job->why = last_error(job, "controller.log", job->log_from);
        if (job->did == APPLY_FAILED && !job->why)
            job->why = last_error(job, "apply.log", 0);
        if (signum && job->did == APPLY_FAILED)
            job->why = arena_printf(a->c->arena, "its rhrun ended by signal %d: the run is unfinished", signum);
        say_end(job);
    }
    look(a);
}

/* ---- the beginning ---- */

static int start(struct apply_job *job, struct error *err)
{
    struct apply *a = job->of;
    CLEANUP(cleanup_free) char *log = job_file(job, "apply.log", err);
    if (!log)
        return -1;
    CLEANUP(cleanup_close) int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return error_errno(err, ERROR_IO, errno, "could not create \"%s\"", log);
    CLEANUP(cleanup_free) char *controller = job_file(job, "controller.log", err);
    char null_fd[16];
    const char *argv[8];
    size_t n = 0;
    snprintf(null_fd, sizeof null_fd, "%d", a->null_fd);
    argv[n++] = "rhrun";
    argv[n++] = "--detached-fd";
    argv[n++] = null_fd;
    if (a->c->given[OPT_YES])
        argv[n++] = "--yes";
    argv[n++] = "run";
    argv[n++] = job->file;
    argv[n] = NULL;
    const struct loop_child_options o = {
        .file = "/proc/self/exe", .argv = argv, .fds = {-1, -1, fd}, .new_session = true};
    job->log_from = size_of(controller);
    job->child = loop_child_spawn(a->loop, &o, on_exit_of, job, err);
    if (!job->child)
        return -1;
    job->stage = APPLY_RUNS;
    job->began_ms = loop_now_ms(a->loop);
    a->running++;
    return 0;
}

static void begin(struct apply_job *job)
{
    struct error err = ERROR_INIT;
    if (start(job, &err) == 0) {
        apply_say(job->of, "%s: %s", job->name, job->why ? job->why : "begins");
        return;
    }
    job->stage = APPLY_OVER;
    job->did = APPLY_FAILED;
    job->exit_status = cli_exit_status(&err);
    job->why = arena_strdup(job->of->c->arena, err.text);
    say_end(job);
}

/* A job that is idle, or whose holder may be gone. */
static void turn_of(struct apply_job *job, uint64_t now)
{
    struct apply *a = job->of;
    bool held;
    const bool awaited = job->stage == APPLY_AWAITS;
    if (a->interrupted || (!awaited && a->running >= a->parallel))
        return;
    apply_look(job, &held);
    if (job->stage == APPLY_OVER) {
        apply_say(a, "%s: %s by another rhrun (run %s)", job->name, job->did == APPLY_FAILED ? "failed" : "done",
                  job->run);
        return;
    }
    if (held) {
        if (!awaited)
            apply_say(a, "%s: another rhrun works on it: waiting", job->name);
        job->stage = APPLY_AWAITS;
    } else if (now >= job->again_ms && a->running < a->parallel) {
        begin(job);
    }
}

/* Called at the end of each job, and now and then while another rhrun's job is awaited. */
static void look(void *arg)
{
    struct apply *a = arg;
    const uint64_t now = loop_now_ms(a->loop);
    bool awaits = false, left = false;
    for (size_t i = 0; i < a->count; i++) {
        struct apply_job *job = &a->jobs[i];
        if (job->stage == APPLY_IDLE || job->stage == APPLY_AWAITS)
            turn_of(job, now);
        awaits = awaits || job->stage == APPLY_AWAITS;
        left = left || job->stage != APPLY_OVER;
    }
    if (!left || (a->interrupted && a->running == 0))
        loop_stop(a->loop);
    else if (awaits || a->running == 0)
        loop_timer_start(a->timer, LOOK_MS);
}

static void on_signal(void *arg, int signum)
{
    struct apply *a = arg;
    if (signum == SIGTERM && a->term_leaves) {
        a->interrupted = signum;
        for (size_t i = 0; i < a->count; i++) {
            if (a->jobs[i].child)
                apply_say(a, "%s: goes on without this rhrun", a->jobs[i].name);
            loop_child_destroy(a->jobs[i].child);
            a->jobs[i].child = NULL;
        }
        loop_stop(a->loop);
        return;
    }
    if (a->running)
        apply_say(a, a->interrupted ? "killing the jobs" : "stopping the jobs; Ctrl-C again kills them");
    a->interrupted = signum;
    for (size_t i = 0; i < a->count; i++)
        if (a->jobs[i].child)
            loop_child_kill(a->jobs[i].child, signum);
    look(a);
}

int apply_run_all(struct apply *a)
{
    struct error err = ERROR_INIT;
    if (cli_check_limits(&err) < 0)
        return cli_fail(a->c, &err);
    a->null_fd = open("/dev/null", O_WRONLY); /* our rhruns inherit it */
    if (a->null_fd < 0) {
        error_errno(&err, ERROR_IO, errno, "could not open /dev/null");
        return cli_fail(a->c, &err);
    }
    a->loop = loop_create();
    a->timer = loop_timer_create(a->loop, look, a);
    struct loop_signal *interrupt = loop_signal_create(a->loop, SIGINT, on_signal, a, NULL);
    struct loop_signal *term = loop_signal_create(a->loop, SIGTERM, on_signal, a, NULL);
    signal(SIGPIPE, SIG_IGN);
    loop_timer_start(a->timer, 0);
    loop_run(a->loop);
    for (size_t i = 0; i < a->count; i++)
        if (a->jobs[i].stage != APPLY_OVER)
            a->jobs[i].stage = APPLY_OVER; /* interrupted: it counts as "to do" */
    loop_signal_destroy(interrupt);
    loop_signal_destroy(term);
    loop_timer_destroy(a->timer);
    loop_destroy(a->loop);
    close(a->null_fd);
    return 0;
}
