/* journal: opening, appending, reading, holding, requests; and failures of files. */
#include "folder.h"

#include "rhrun/journal.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char home[64];

static int setup(void **unused)
{
    (void)unused;
    strcpy(home, "/tmp/rhrun-journal-XXXXXX");
    if (!mkdtemp(home))
        return -1;
    chmod(home, 0755); /* some tests look from another user */
    CLEANUP(cleanup_free) char *dir = xasprintf("%s/a b%%?#/state", home);
    return setenv("RHRUN_HOME", dir, 1);
}

static int teardown(void **unused)
{
    (void)unused;
    return folder_remove(home);
}

static struct journal *open_job(struct loop *loop, const char *name)
{
    struct journal *j = NULL;
    struct error err = ERROR_INIT;
    if (journal_open(loop, name, "origin", "me@here", &j, &err) < 0)
        fail_msg("%s", err.text);
    return j;
}

static void append_note(struct journal *j, const char *text, void (*done)(void *arg), void *arg)
{
    struct event e = {.type = EVENT_NOTE, .note = {.node = EVENT_NODE_NONE, .reason = text}};
    journal_append(j, &e, done, arg);
}

static void append_run(struct journal *j, const char *run)
{
    struct event e = {.type = EVENT_RUN_OPENED, .run = run, .opened = {.variant = "v", .node_count = 1}};
    journal_append(j, &e, NULL, NULL);
}

/* ---- appending ---- */

struct order {
    struct loop *loop;
    struct journal *j;
    int expected, total;
};
struct ticket {
    struct order *order;
    int number;
};

static bool count_events(void *arg, const struct event *e)
{
    uint64_t *count = arg;
    assert_int_equal(e->seq, *count + 1);
    ++*count;
    return true;
}

static void on_durable(void *arg)
{
    struct ticket *t = arg;
    assert_int_equal(t->number, t->order->expected);
    if (++t->order->expected == t->order->total)
        loop_stop(t->order->loop);
}

static void test_callbacks_in_order_once_durable(void **unused)
{
    (void)unused;
    enum { TOTAL = 2000 };
    static struct ticket tickets[TOTAL];
    struct loop *loop = loop_create();
    struct order order = {loop, open_job(loop, "job"), 0, TOTAL};
    for (int i = 0; i < TOTAL; i++) {
        tickets[i] = (struct ticket){&order, i};
        append_note(order.j, "x", on_durable, &tickets[i]);
        if (i % 100 == 0)
            loop_turn(loop, false);
    }
    assert_int_equal(journal_state(order.j)->last_seq, TOTAL); /* before it is durable */
    loop_run(loop);
    assert_int_equal(order.expected, TOTAL);
    uint64_t count = 0;
    assert_int_equal(journal_each(order.j, 0, count_events, &count, NULL), 0);
    assert_int_equal(count, TOTAL);
    assert_false(loop_turn(loop, false)); /* idle again: nothing keeps the loop running */
    journal_close(order.j);
    loop_destroy(loop);
}

static void look_from_outside(void *arg)
{
    struct order *order = arg;
    struct journal *reader = NULL;
    assert_int_equal(journal_open_read(journal_job(order->j), &reader, NULL), 0);
    order->expected = (int)journal_state(reader)->last_seq;
    journal_close(reader);
}

static void test_callback_means_others_see_it(void **unused)
{
    (void)unused;
    struct loop *loop = loop_create();
    struct order order = {loop, open_job(loop, "job"), 0, 0};
    append_note(order.j, "x", look_from_outside, &order);
    loop_run(loop);
    assert_int_equal(order.expected, 1);
    journal_close(order.j);
    loop_destroy(loop);
}

static void append_another(void *arg)
{
    struct order *order = arg;
    usleep(50000); /* a turn with much work: time enough for a commit, if one has begun */
    append_note(order->j, "what follows from it", NULL, NULL);
}

/* The first event is appended, then its consequences in the same turn: one commit, so a step costs one sync of the disk
 * and not two. */
static void test_what_follows_in_the_same_turn_is_committed_with_it(void **unused)
{
    (void)unused;
    struct loop *loop = loop_create();
    struct order order = {loop, open_job(loop, "job"), 0, 0};
    append_note(order.j, "x", look_from_outside, &order);
    struct loop_timer *turn = loop_timer_create(loop, append_another, &order);
    loop_timer_start(turn, 0);
    loop_run(loop);
    assert_int_equal(order.expected, 2); /* as others saw the journal when the first event was durable */
    loop_timer_destroy(turn);
    journal_close(order.j);
    loop_destroy(loop);
}

static void test_close_commits_and_reopen_replays(void **unused)
{
    (void)unused;
    struct journal *j = open_job(NULL, "job");
    CLEANUP(cleanup_free) char *owner = xstrdup(journal_owner(j));
    assert_int_equal(strlen(owner), 32);
    append_run(j, "r1");
    journal_close(j);
    j = open_job(NULL, "job");
    assert_string_equal(journal_owner(j), owner);
    assert_string_equal(journal_job_name(j), "job");
    assert_string_equal(journal_origin(j), "origin");
    assert_non_null(state_run_open(journal_state(j)));
    append_run(j, "r2");
    assert_int_equal(journal_sync(j, NULL), 0);
    assert_int_equal(journal_state(j)->last_seq, 2);
    journal_close(j);
    journal_close(NULL);
}

static void test_given_time_is_kept(void **unused)
{
    (void)unused;
    struct journal *j = open_job(NULL, "job");
    struct event e = {.type = EVENT_NOTE, .time_ms = 5, .seq = 99, .note = {.node = 0}};
    journal_append(j, &e, NULL, NULL);
    assert_int_equal(e.seq, 1);
    assert_int_equal(e.time_ms, 5);
    e.time_ms = 0;
    journal_append(j, &e, NULL, NULL);
    assert_true(e.time_ms > 1600000000000);
    journal_close(j);
}

/* ---- reading ---- */

static bool first_only(void *arg, const struct event *e)
{
    *(uint64_t *)arg = e->seq;
    return false;
}

static void test_reader_follows_a_writer(void **unused)
{
    (void)unused;
    struct journal *j = open_job(NULL, "job"), *reader = NULL;
    append_run(j, "r1");
    assert_int_equal(journal_sync(j, NULL), 0);
    assert_int_equal(journal_open_read(journal_job(j), &reader, NULL), 0);
    assert_string_equal(state_run_open(journal_state(reader))->id, "r1");
    assert_string_equal(journal_owner(reader), journal_owner(j));
    append_run(j, "r2");
    append_note(j, "x", NULL, NULL);
    assert_int_equal(journal_sync(j, NULL), 0);
    assert_int_equal(journal_state(reader)->last_seq, 1);
    assert_int_equal(journal_refresh(reader, NULL), 0);
    assert_int_equal(journal_state(reader)->last_seq, 3);
    assert_string_equal(state_run_open(journal_state(reader))->id, "r2");
    uint64_t seq = 0;
    assert_int_equal(journal_each(reader, 1, first_only, &seq, NULL), 0);
    assert_int_equal(seq, 2);
    pid_t pid = 0;
    char *name = NULL;
    assert_true(journal_holder(reader, &pid, &name));
    assert_int_equal(pid, getpid());
    assert_string_equal(name, "me@here");
    free(name);
    journal_close(j);
    assert_false(journal_holder(reader, NULL, NULL));
    assert_int_equal(journal_refresh(reader, NULL), 0); /* the writer's end does not remove the file */
    journal_close(reader);
}

static void test_no_such_job(void **unused)
{
    (void)unused;
    struct journal *j = NULL;
    struct error err = ERROR_INIT;
    assert_int_equal(journal_open_read("0123456789abcdef", &j, &err), -1);
    assert_int_equal(err.code, ERROR_USAGE);
    assert_non_null(strstr(err.text, "there is no job \"0123456789abcdef\" in \"/tmp/"));
    assert_int_equal(err.why, ERROR_WHY_ABSENT);
    assert_int_equal(journal_open_read("../../etc/passwd", &j, &err), -1);
    assert_null(j);
    struct stat st;
    assert_int_equal(stat(getenv("RHRUN_HOME"), &st), -1); /* reading creates nothing */
}

/* A job that is being created either exists or does not; there is no other answer. */
static void test_read_while_it_is_made(void **unused)
{
    enum { JOBS = 60 };
    (void)unused;
    const pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < JOBS; i++) {
            CLEANUP(cleanup_free) char *name = xasprintf("job-%d", i);
            journal_close(open_job(NULL, name));
        }
        _exit(0);
    }
    for (int i = 0; i < JOBS; i++) {
        CLEANUP(cleanup_free) char *name = xasprintf("job-%d", i);
        struct journal *j = NULL;
        char id[17];
        journal_job_id(name, "origin", id);
        for (const uint64_t began = mono_ns(); !j && mono_ns() - began < 60000000000;) {
            struct error err = ERROR_INIT;
            if (journal_open_read(id, &j, &err) < 0 && err.why != ERROR_WHY_ABSENT)
                fail_msg("%s: %s", name, err.text);
        }
        assert_non_null(j);
        assert_string_equal(journal_job_name(j), name);
        journal_close(j);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* In a child that is not root and owns nothing of the state directory. */
static void read_as_nobody(const char *id, uint64_t expected_seq)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct journal *j = NULL;
        struct error err = ERROR_INIT;
        if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
            _exit(3);
        if (journal_open_read(id, &j, &err) < 0) {
            fprintf(stderr, "%d %s\n", (int)expected_seq, err.text);
            _exit(1);
        }
        int status = journal_state(j)->last_seq == expected_seq ? 0 : 2;
        journal_close(j);
        _exit(status);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_read_where_writing_is_not_allowed(void **unused)
{
    (void)unused;
    struct journal *j = open_job(NULL, "job");
    append_note(j, "x", NULL, NULL);
    assert_int_equal(journal_sync(j, NULL), 0);
    CLEANUP(cleanup_free) char *id = xstrdup(journal_job(j));
    CLEANUP(cleanup_free) char *path = xstrdup(journal_path(j));
    static const char *const files[] = {"/journal.db", "/journal.db-wal", "/journal.db-shm"};
    for (char *p = path + strlen(home); p && *p; p = strchr(p + 1, '/')) { /* each folder on the path */
        char c = *p;
        *p = 0;
        chmod(path, 0555);
        *p = c;
    }
    chmod(path, 0555);
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        CLEANUP(cleanup_free) char *file = xasprintf("%s%s", path, files[i]);
        assert_int_equal(chmod(file, 0444), 0);
    }
    read_as_nobody(id, 1); /* while a writer lives */
    append_note(j, "y", NULL, NULL);
    journal_close(j);
    read_as_nobody(id, 2);                          /* after its end */
    for (size_t i = 1; i < ARRAY_LEN(files); i++) { /* and if only the database was copied there */
        CLEANUP(cleanup_free) char *file = xasprintf("%s%s", path, files[i]);
        chmod(path, 0755);
        unlink(file);
        chmod(path, 0555);
    }
    read_as_nobody(id, 2);
    for (char *p = path + strlen(home); p && *p; p = strchr(p + 1, '/')) {
        char c = *p;
        *p = 0;
        chmod(path, 0755);
        *p = c;
    }
    chmod(path, 0755);
}

static void test_jobs_are_listed(void **unused)
{
    (void)unused;
    struct journal_job *jobs = NULL;
    size_t count = 9;
    assert_int_equal(journal_jobs(&jobs, &count, NULL), 0);
    assert_int_equal(count, 0);
    journal_jobs_free(jobs, count);
    journal_close(open_job(NULL, "zebra"));
    struct journal *j = open_job(NULL, "ape");
    assert_int_equal(journal_jobs(&jobs, &count, NULL), 0);
    assert_int_equal(count, 2);
    assert_string_equal(jobs[0].name, "ape");
    assert_string_equal(jobs[0].id, journal_job(j));
    assert_string_equal(jobs[0].path, journal_path(j));
    assert_string_equal(jobs[1].name, "zebra");
    assert_string_equal(jobs[1].origin, "origin");
    journal_jobs_free(jobs, count);
    journal_close(j);
}

/* ---- holding and asking ---- */

static void test_held(void **unused)
{
    (void)unused;
    struct journal *j = open_job(NULL, "job"), *second = NULL;
    struct error err = ERROR_INIT;
    assert_int_equal(journal_open(NULL, "job", "origin", "you@there", &second, &err), -1);
    assert_int_equal(err.code, ERROR_HELD);
    CLEANUP(cleanup_free) char *text = xasprintf("job \"job\" is held by pid %ld (me@here)", (long)getpid());
    assert_string_equal(err.text, text);
    assert_true(err.hint[0]);
    assert_null(second);
    struct journal *other = open_job(NULL, "another"); /* another job is free */
    journal_close(other);
    journal_close(j);
    journal_close(open_job(NULL, "job"));
}

/* A killed holder holds nothing, whatever the lock file says. */
static void test_holder_killed(void **unused)
{
    (void)unused;
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct journal *j = NULL;
        struct error err = ERROR_INIT;
        int failed = journal_open(NULL, "job", "origin", "me@here", &j, &err);
        if (failed || write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    char c;
    assert_int_equal(read(ready[0], &c, 1), 1);
    close(ready[0]);
    struct journal *j = NULL;
    struct error err = ERROR_INIT;
    assert_int_equal(journal_open(NULL, "job", "origin", "you@there", &j, &err), -1);
    assert_int_equal(err.code, ERROR_HELD);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    journal_close(open_job(NULL, "job"));
}

static volatile sig_atomic_t signals;
static void on_signal(int signum)
{
    (void)signum;
    signals++;
}

static void test_requests(void **unused)
{
    (void)unused;
    signal(SIGUSR1, on_signal);
    signals = 0;
    struct journal *j = open_job(NULL, "job"), *reader = NULL;
    struct error err = ERROR_INIT;
    assert_null(journal_take_request(j));
    assert_int_equal(journal_open_read(journal_job(j), &reader, NULL), 0);
    assert_int_equal(journal_request(reader, "cancel", &err), 0);
    assert_int_equal(journal_request(reader, "detach", &err), 0);
    assert_int_equal(signals, 2);
    char *what = journal_take_request(j);
    assert_string_equal(what, "cancel");
    free(what);
    what = journal_take_request(j);
    assert_string_equal(what, "detach");
    free(what);
    assert_null(journal_take_request(j));
    assert_int_equal(journal_request(reader, "cancel", &err), 0);
    journal_close(j);
    assert_int_equal(journal_request(reader, "cancel", &err), -1);
    assert_int_equal(err.code, ERROR_USAGE);
    assert_string_equal(err.text, "job \"job\" has no live controller to ask for \"cancel\"");
    assert_int_equal(err.why, ERROR_WHY_ABSENT);
    j = open_job(NULL, "job");
    assert_null(journal_take_request(j)); /* a request to the earlier one */
    assert_int_equal(journal_request(reader, "later", &err), 0);
    what = journal_take_request(j);
    assert_string_equal(what, "later");
    free(what);
    journal_close(j);
    journal_close(reader);
    signal(SIGUSR1, SIG_DFL);
}

/* ---- files ---- */

static unsigned mode_of(const char *path, const char *name)
{
    CLEANUP(cleanup_free) char *file = xasprintf("%s%s", path, name);
    struct stat st;
    if (stat(file, &st) < 0)
        fail_msg("%s is missing", file);
    return st.st_mode & 07777;
}

static void test_modes_whatever_the_umask(void **unused)
{
    (void)unused;
    static const mode_t umasks[] = {0, 0777, 022};
    for (size_t i = 0; i < ARRAY_LEN(umasks); i++) {
        char name[] = {(char)('a' + (char)i), 0};
        mode_t before = umask(umasks[i]);
        struct journal *j = open_job(NULL, name);
        append_note(j, "x", NULL, NULL);
        assert_int_equal(journal_sync(j, NULL), 0);
        CLEANUP(cleanup_free) char *run = journal_run_dir(j, "r1", NULL);
        umask(before);
        assert_non_null(run);
        assert_int_equal(mode_of(getenv("RHRUN_HOME"), ""), 0700);
        assert_int_equal(mode_of(journal_path(j), ""), 0700);
        assert_int_equal(mode_of(run, ""), 0700);
        assert_int_equal(mode_of(journal_path(j), "/runs"), 0700);
        assert_int_equal(mode_of(journal_path(j), "/lock"), 0600);
        assert_int_equal(mode_of(journal_path(j), "/journal.db"), 0600);
        assert_int_equal(mode_of(journal_path(j), "/journal.db-wal"), 0600);
        assert_int_equal(mode_of(journal_path(j), "/journal.db-shm"), 0600);
        journal_close(j);
    }
}

static void test_run_dir(void **unused)
{
    (void)unused;
    struct journal *j = open_job(NULL, "job");
    struct error err = ERROR_INIT;
    CLEANUP(cleanup_free) char *expected = xasprintf("%s/runs/r-1", journal_path(j));
    CLEANUP(cleanup_free) char *path = journal_run_dir(j, "r-1", &err);
    CLEANUP(cleanup_free) char *again = journal_run_dir(j, "r-1", &err);
    assert_string_equal(path, expected);
    assert_string_equal(again, expected);
    assert_null(journal_run_dir(j, "../x", &err));
    assert_null(journal_run_dir(j, "", &err));
    journal_close(j);
}

static void test_home(void **unused)
{
    (void)unused;
    CLEANUP(cleanup_free) char *was = xstrdup(getenv("RHRUN_HOME"));
    CLEANUP(cleanup_free) char *user = xstrdup(getenv("HOME") ? getenv("HOME") : "/");
    CLEANUP(cleanup_free) char *xdg = xasprintf("%s/xdg", home);
    CLEANUP(cleanup_free) char *expected = xasprintf("%s/xdg/rhrun", home);
    CLEANUP(cleanup_free) char *expected_home = xasprintf("%s/.local/state/rhrun", home);
    setenv("RHRUN_HOME", "", 1);
    setenv("XDG_STATE_HOME", xdg, 1);
    CLEANUP(cleanup_free) char *path = journal_home(NULL);
    setenv("XDG_STATE_HOME", "relative", 1);
    setenv("HOME", home, 1);
    CLEANUP(cleanup_free) char *path_home = journal_home(NULL);
    setenv("HOME", user, 1);
    setenv("RHRUN_HOME", was, 1);
    unsetenv("XDG_STATE_HOME");
    assert_string_equal(path, expected);
    assert_string_equal(path_home, expected_home);
    assert_int_equal(mode_of(expected, ""), 0700);
}

static void overwrite(const char *file, off_t at, const char *data, size_t len)
{
    int fd = open(file, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, data, len, at), len);
    close(fd);
}

static void assert_refused(const char *file, const char *says)
{
    struct journal *j = NULL;
    struct error err = ERROR_INIT;
    char id[17];
    journal_job_id("job", "origin", id);
    for (int reading = 0; reading < 2; reading++) {
        int result = reading ? journal_open_read(id, &j, &err) : journal_open(NULL, "job", "origin", "me", &j, &err);
        assert_int_equal(result, -1);
        assert_int_equal(err.code, ERROR_IO);
        if (!strstr(err.text, file) || !strstr(err.text, says))
            fail_msg("said \"%s\"", err.text);
        assert_true(err.hint[0]);
    }
}

static void test_damaged_database(void **unused)
{
    (void)unused;
    struct journal *j = open_job(NULL, "job");
    for (int i = 0; i < 300; i++)
        append_note(j, "some text that makes the table have a page or two", NULL, NULL);
    CLEANUP(cleanup_free) char *file = xasprintf("%s/journal.db", journal_path(j));
    journal_close(j);
    sqlite3 *db;
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "UPDATE events SET json='{\"type\":\"note\"}' WHERE seq=7", NULL, NULL, NULL), 0);
    assert_refused(file, "event 7: cannot read event: \"time_ms\" is missing");
    assert_int_equal(sqlite3_exec(db, "PRAGMA user_version=2", NULL, NULL, NULL), 0);
    assert_refused(file, "it has format 2, this rhrun knows 1");
    assert_int_equal(sqlite3_exec(db, "PRAGMA user_version=1; PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL), 0);
    sqlite3_close(db);
    char garbage[4096];
    memset(garbage, 0xA5, sizeof garbage);
    for (off_t page = 2; page < 8; page++)
        overwrite(file, page * 4096, garbage, sizeof garbage);
    assert_refused(file, "malformed");
    overwrite(file, 0, garbage, sizeof garbage);
    assert_refused(file, "not a database");
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    assert_true(st.st_size >= 8 * 4096); /* it is left as it is */
}

static void test_foreign_database(void **unused)
{
    (void)unused;
    struct journal *j = open_job(NULL, "job");
    CLEANUP(cleanup_free) char *file = xasprintf("%s/journal.db", journal_path(j));
    journal_close(j);
    sqlite3 *db;
    unlink(file);
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "CREATE TABLE t(x)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    struct error err = ERROR_INIT;
    assert_int_equal(journal_open(NULL, "job", "origin", "me", &j, &err), -1);
    assert_non_null(strstr(err.text, "it is not a journal of rhrun"));
}

/* A crash between creating the file and the first commit leaves an empty file: that is a new job. */
static void test_empty_database_is_new(void **unused)
{
    (void)unused;
    struct journal *j = open_job(NULL, "job");
    CLEANUP(cleanup_free) char *file = xasprintf("%s/journal.db", journal_path(j));
    CLEANUP(cleanup_free) char *wal = xasprintf("%s-wal", file);
    CLEANUP(cleanup_free) char *id = xstrdup(journal_job(j));
    journal_close(j);
    assert_int_equal(truncate(file, 0), 0);
    unlink(wal);
    struct error err = ERROR_INIT;
    struct journal *reader = NULL;
    assert_int_equal(journal_open_read(id, &reader, &err), -1);
    assert_int_equal(err.code, ERROR_USAGE);
    assert_non_null(strstr(err.text, "there is no job"));
    journal_close(open_job(NULL, "job"));
}

static void test_state_directory_is_a_file(void **unused)
{
    (void)unused;
    CLEANUP(cleanup_free) char *dir = xasprintf("%s/a b%%?#", home);
    overwrite(dir, 0, "x", 1);
    struct journal *j = NULL;
    struct error err = ERROR_INIT;
    assert_int_equal(journal_open(NULL, "job", "origin", "me", &j, &err), -1);
    assert_int_equal(err.code, ERROR_IO);
    assert_non_null(strstr(err.text, dir));
    assert_true(err.hint[0]);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_callbacks_in_order_once_durable),
        TEST(test_callback_means_others_see_it),
        TEST(test_what_follows_in_the_same_turn_is_committed_with_it),
        TEST(test_close_commits_and_reopen_replays),
        TEST(test_given_time_is_kept),
        TEST(test_reader_follows_a_writer),
        TEST(test_no_such_job),
        TEST(test_read_while_it_is_made),
        TEST(test_read_where_writing_is_not_allowed),
        TEST(test_jobs_are_listed),
        TEST(test_held),
        TEST(test_holder_killed),
        TEST(test_requests),
        TEST(test_modes_whatever_the_umask),
        TEST(test_run_dir),
        TEST(test_home),
        TEST(test_damaged_database),
        TEST(test_foreign_database),
        TEST(test_empty_database_is_new),
        TEST(test_state_directory_is_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
