/* journal: acknowledged events are there after kill -9, after a full disk and after the test hook's kill. */
#include "folder.h"

#include "rhrun/journal.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { KILLS = 30, TEXT = 300, DEADLINE_MS = 20000 };

static char home[64];

static int setup(void **unused)
{
    (void)unused;
    strcpy(home, "/tmp/rhrun-journal-XXXXXX");
    return mkdtemp(home) ? setenv("RHRUN_HOME", home, 1) : -1;
}

static int teardown(void **unused)
{
    (void)unused;
    return folder_remove(home);
}

static void fill(char text[TEXT], uint64_t seq)
{
    memset(text, 'a' + (int)(seq % 26), TEXT - 1);
    text[TEXT - 1] = 0;
    snprintf(text, 24, "%llu", (unsigned long long)seq);
}

/* ---- the child: appends forever, writes to a pipe what was acknowledged ---- */

struct appender {
    struct journal *j;
    int acks;
    uint64_t acked; /* or about to be */
};

static uint64_t append_next(struct appender *a, void (*done)(void *arg))
{
    char text[TEXT];
    fill(text, journal_state(a->j)->last_seq + 1);
    struct event e = {.type = EVENT_NOTE, .note = {.node = EVENT_NODE_NONE, .reason = text}};
    journal_append(a->j, &e, done, a);
    return e.seq;
}

static void acknowledged(void *arg)
{
    struct appender *a = arg;
    if (write(a->acks, &a->acked, sizeof a->acked) != sizeof a->acked)
        _exit(1);
    if (a->acked % 3 == 0)
        append_next(a, NULL); /* groups of several, also some that nobody waits for */
    a->acked = append_next(a, acknowledged);
}

static void child_appends(int acks)
{
    struct error err = ERROR_INIT;
    struct appender a = {.acks = acks};
    struct loop *loop = loop_create();
    if (journal_open(loop, "job", "origin", "me@here", &a.j, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        _exit(1);
    }
    a.acked = append_next(&a, acknowledged);
    loop_run(loop);
    _exit(1);
}

static bool check_event(void *arg, const struct event *e)
{
    uint64_t *last = arg;
    char text[TEXT];
    fill(text, e->seq);
    assert_int_equal(e->seq, *last + 1);
    assert_string_equal(e->note.reason, text);
    *last = e->seq;
    return true;
}

static uint64_t reopen_and_check(uint64_t acked)
{
    struct journal *j = NULL;
    struct error err = ERROR_INIT;
    if (journal_open(NULL, "job", "origin", "me@here", &j, &err) < 0)
        fail_msg("%s", err.text);
    uint64_t last = 0;
    assert_int_equal(journal_each(j, 0, check_event, &last, &err), 0);
    assert_true(last >= acked);
    assert_int_equal(journal_state(j)->last_seq, last);
    journal_close(j);
    return last;
}

/* Reads acknowledgements for wait_ms after the first, at most until the deadline; returns the last one. */
static uint64_t read_acks(int fd, uint64_t wait_us, uint64_t last, bool to_the_end)
{
    uint64_t start = mono_ns(), end = start + (uint64_t)DEADLINE_MS * 1000000, value;
    bool first = true;
    while (mono_ns() < end) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        struct timespec left = {0, (long)((end - mono_ns()) % 1000000000)};
        if (ppoll(&p, 1, &left, NULL) <= 0)
            continue;
        ssize_t n = read(fd, &value, sizeof value);
        if (n == 0)
            return last;
        assert_int_equal(n, sizeof value);
        assert_true(value > last);
        last = value;
        if (first && !to_the_end)
            end = mono_ns() + wait_us * 1000;
        first = false;
    }
    assert_false(first); /* nothing came before the deadline */
    return last;
}

static void test_kill_at_random_instants(void **unused)
{
    (void)unused;
    uint64_t acked = 0;
    for (int i = 0; i < KILLS; i++) {
        int acks[2];
        uint16_t wait_us;
        random_bytes(&wait_us, sizeof wait_us);
        assert_int_equal(pipe(acks), 0);
        pid_t pid = fork();
        if (pid == 0) {
            close(acks[0]);
            child_appends(acks[1]);
        }
        close(acks[1]);
        acked = read_acks(acks[0], wait_us % 10000, acked, false);
        kill(pid, SIGKILL);
        int status = 0;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        acked = read_acks(acks[0], 0, acked, true); /* its acknowledgements before it died */
        close(acks[0]);
        acked = reopen_and_check(acked);
    }
    assert_true(acked > KILLS);
}

/* The hook kills when exactly N events of that process are durable, before the callback of the last. */
static void test_kill_after_event(void **unused)
{
    (void)unused;
    uint64_t last = 0;
    for (uint64_t n = 1; n <= 5; n++) {
        int acks[2];
        assert_int_equal(pipe(acks), 0);
        pid_t pid = fork();
        if (pid == 0) {
            char text[24];
            snprintf(text, sizeof text, "%llu", (unsigned long long)n);
            setenv("RHRUN_TEST_KILL_AFTER_EVENT", text, 1);
            close(acks[0]);
            child_appends(acks[1]);
        }
        close(acks[1]);
        int status = 0;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        uint64_t value, acked = last;
        while (read(acks[0], &value, sizeof value) == sizeof value)
            acked = value;
        close(acks[0]);
        assert_true(acked < last + n);
        assert_int_equal(reopen_and_check(acked), last + n);
        last += n;
    }
}

/* ---- killed while the journal is created ---- */

/* A child that opens a new journal is killed at its n-th entry into or exit from the kernel. False: it was done before
 * that. n 0: whether it can be watched at all. */
static bool killed_at(unsigned n)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        struct journal *j;
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
            _exit(77);
        raise(SIGSTOP);
        _exit(journal_open(NULL, "job", "origin", "me@here", &j, NULL) < 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    for (unsigned i = 0; i < n && WIFSTOPPED(status); i++) {
        assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
    }
    bool watched = WIFSTOPPED(status);
    if (watched) {
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
    } else if (n > 0) {
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    return watched;
}

/* Whatever exists then is no run: no reader fails on it, and the next one to open the journal completes it. */
static void test_killed_while_it_is_made(void **unused)
{
    (void)unused;
    unsigned none = 0, n = 1;
    char id[17];
    journal_job_id("job", "origin", id);
    if (!killed_at(0))
        skip();
    for (; killed_at(n); n++) {
        struct error err = ERROR_INIT;
        struct journal *j = NULL;
        struct journal_job *jobs;
        size_t count;
        if (journal_open_read(id, &j, &err) == 0) {
            assert_int_equal(journal_state(j)->run_count, 0);
            journal_close(j);
        } else if (err.code != ERROR_USAGE) {
            fail_msg("at step %u: %s", n, err.text);
        } else {
            CLEANUP(cleanup_free) char *file = xasprintf("%s/jobs/%s/journal.db", home, id);
            none += access(file, F_OK) == 0;
        }
        assert_int_equal(journal_jobs(&jobs, &count, &err), 0);
        for (size_t i = 0; i < count; i++)
            assert_string_equal(jobs[i].name, "job");
        journal_jobs_free(jobs, count);
        reopen_and_check(0);
        assert_int_equal(folder_remove(home), 0);
    }
    assert_true(n > 50 && none > 10);
}

/* ---- a full disk: simulated by the limit on file sizes ---- */

struct failing {
    struct loop *loop;
    int callbacks, failures;
    bool saw_error;
};

static void count_callback(void *arg)
{
    ((struct failing *)arg)->callbacks++;
}

static void count_failure(void *arg, const struct error *err)
{
    struct failing *f = arg;
    f->failures++;
    f->saw_error = err->code == ERROR_IO && strstr(err->text, home) && strstr(err->text, "journal.db");
    loop_stop(f->loop);
}

static void test_commit_fails(void **unused)
{
    (void)unused;
    struct error err = ERROR_INIT;
    struct failing f = {.loop = loop_create()};
    struct appender a = {0};
    assert_int_equal(journal_open(f.loop, "job", "origin", "me@here", &a.j, &err), 0);
    journal_on_failure(a.j, count_failure, &f);
    char text[TEXT];
    struct event e = {.type = EVENT_NOTE, .note = {.node = EVENT_NODE_NONE, .reason = text}};
    for (int i = 0; i < 3; i++) {
        fill(text, journal_state(a.j)->last_seq + 1);
        journal_append(a.j, &e, count_callback, &f);
    }
    loop_run(f.loop);
    assert_int_equal(f.callbacks, 3);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit before, tight;
    getrlimit(RLIMIT_FSIZE, &before);
    tight = before;
    tight.rlim_cur = 4096;
    setrlimit(RLIMIT_FSIZE, &tight);
    for (int i = 0; i < 20; i++) {
        fill(text, journal_state(a.j)->last_seq + 1);
        journal_append(a.j, &e, count_callback, &f);
    }
    loop_run(f.loop);
    assert_int_equal(f.failures, 1);
    assert_true(f.saw_error);
    assert_int_equal(f.callbacks, 3);
    assert_int_equal(journal_sync(a.j, &err), -1);
    assert_int_equal(err.code, ERROR_IO);
    setrlimit(RLIMIT_FSIZE, &before);
    /* There is space again: everything is recorded, in order, but no effect is released. */
    fill(text, journal_state(a.j)->last_seq + 1);
    journal_append(a.j, &e, count_callback, &f);
    assert_int_equal(journal_sync(a.j, &err), 0);
    while (loop_turn(f.loop, false)) {
    }
    assert_int_equal(f.callbacks, 3);
    assert_int_equal(f.failures, 1);
    journal_close(a.j);
    loop_destroy(f.loop);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(reopen_and_check(24), 24);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_kill_at_random_instants),
        TEST(test_kill_after_event),
        TEST(test_killed_while_it_is_made),
        TEST(test_commit_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
