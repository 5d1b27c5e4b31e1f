/*
 * The supervisor, started for real. No sleeping: what the workload reached is known from its output (the
 * bell rings when there is some) or from a FIFO that it waits on, and every wait has a deadline.
 */
#include "../../src/agent/super.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { DEADLINE_MS = 30000, SCRIPTS_MAX = 4 };

struct fixture {
    char root[64];
    char *work_dir, *env_dir;
    int a_fd, dir_fd, bell_fd;
    uint64_t deadline_ns;
    struct arena *arena;
    struct wire_run run;
    struct wire_worker workers[SCRIPTS_MAX];
    char attempt[WIRE_ID_LEN + 1];
    struct buf spool;
    struct wire_record record;
};

static char *text(const char *s)
{
    return (char *)(uintptr_t)s;
}

static void worker_add(struct fixture *f, const char *script)
{
    struct wire_worker *w = &f->workers[f->run.worker_count];
    char **argv = arena_array(f->arena, 1, sizeof *argv);
    argv[0] = arena_strdup(f->arena, script);
    *w = (struct wire_worker){
        .rank = f->run.worker_count, .local_rank = f->run.worker_count, .shell = 1, .argv = {argv, 1}};
    f->run.worker_count++;
}

static struct wire_strings list_of(struct fixture *f, const char *a, const char *b)
{
    char **items = arena_array(f->arena, 2, sizeof *items);
    items[0] = arena_strdup(f->arena, a);
    items[1] = b ? arena_strdup(f->arena, b) : NULL;
    return (struct wire_strings){items, b ? 2 : 1};
}

/* A fresh attempt with no workers yet. */
static void run_reset(struct fixture *f)
{
    if (f->dir_fd >= 0)
        close(f->dir_fd);
    if (f->bell_fd >= 0)
        close(f->bell_fd);
    f->dir_fd = f->bell_fd = -1;
    buf_clear(&f->spool);
    random_hex(f->attempt, WIRE_ID_LEN / 2);
    f->run = (struct wire_run){.attempt = f->attempt,
                               .slot = text("setup:x"),
                               .key = text("k"),
                               .kind = WIRE_KIND_STEP,
                               .cwd = text(""),
                               .env_in = text(""),
                               .env_out = text(""),
                               .creates = text(""),
                               .log_dir = text(""),
                               .workers = f->workers,
                               .grace_ms = 5000,
                               .log_limit_bytes = 64 << 20};
    f->deadline_ns = mono_ns() + DEADLINE_MS * 1000000ull;
}

static int setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof *f);
    strcpy(f->root, "/tmp/rhrun-test-XXXXXX");
    assert_non_null(mkdtemp(f->root));
    f->work_dir = xasprintf("%s/work", f->root);
    f->env_dir = xasprintf("%s/env", f->root);
    CLEANUP(cleanup_free) char *a = xasprintf("%s/a", f->root);
    assert_int_equal(mkdir(f->work_dir, 0700) | mkdir(f->env_dir, 0700) | mkdir(a, 0700), 0);
    f->a_fd = open(a, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(f->a_fd >= 0);
    f->dir_fd = f->bell_fd = -1;
    f->arena = arena_create();
    run_reset(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    CLEANUP(cleanup_free) char *command = xasprintf("rm -rf '%s'", f->root);
    int rc = system(command);
    run_reset(f);
    close(f->a_fd);
    free(f->work_dir);
    free(f->env_dir);
    buf_free(&f->spool);
    arena_destroy(f->arena);
    free(f);
    return rc;
}

static void start(struct fixture *f)
{
    struct error err = ERROR_INIT;
    int status = -1;
    if (status_create(f->a_fd, &f->run, "0011223344556677", "boot", 1, &f->dir_fd, &status, &err) < 0)
        fail_msg("%s", err.text);
    f->bell_fd = openat(f->dir_fd, "bell", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(f->bell_fd >= 0);
    struct supervise s = {.run = &f->run,
                          .dir_fd = f->dir_fd,
                          .status_fd = status,
                          .work_dir = f->work_dir,
                          .env_dir = f->env_dir,
                          .boot_id = "boot",
                          .shell = "/bin/bash",
                          .own_dir = true};
    if (supervise_start(&s, &err) < 0)
        fail_msg("%s", err.text);
    close(status);
}

static void look(struct fixture *f)
{
    struct error err = ERROR_INIT;
    if (status_read(f->dir_fd, "boot", f->arena, &f->record, &err) < 0)
        fail_msg("%s", err.text);
    for (;;) {
        char chunk[65536];
        ssize_t n = spool_read(f->dir_fd, f->spool.len, chunk, sizeof chunk, &err);
        if (n < 0)
            fail_msg("%s", err.text);
        if (n == 0)
            break;
        buf_append(&f->spool, chunk, (size_t)n);
    }
}

/* Waits for the bell, or its last writer's end. */
static void wait_bell(struct fixture *f)
{
    struct pollfd p = {.fd = f->bell_fd, .events = POLLIN};
    char drain[4096];
    uint64_t now = mono_ns();
    if (now > f->deadline_ns)
        fail_msg("nothing happened for %d ms", DEADLINE_MS);
    poll(&p, 1, (int)((f->deadline_ns - now) / 1000000 + 1));
    while (read(f->bell_fd, drain, sizeof drain) > 0)
        ;
}

/* The data of one stream of one rank; NULL-free text. */
static char *output(struct fixture *f, uint32_t rank, enum wire_stream stream, size_t *ret_len)
{
    struct buf b = {0};
    struct wire_spool h;
    for (size_t at = 0; at < f->spool.len; at += WIRE_SPOOL_HEADER + h.len) {
        assert_true(at + WIRE_SPOOL_HEADER <= f->spool.len);
        assert_true(wire_spool_get((uint8_t *)f->spool.data + at, &h));
        assert_true(at + WIRE_SPOOL_HEADER + h.len <= f->spool.len);
        if (h.rank == rank && h.stream == stream)
            buf_append(&b, f->spool.data + at + WIRE_SPOOL_HEADER, h.len);
    }
    char *copy = arena_strndup(f->arena, b.data ? b.data : "", b.len);
    if (ret_len)
        *ret_len = b.len;
    buf_free(&b);
    return copy;
}

static char *out0(struct fixture *f)
{
    return output(f, 0, WIRE_STREAM_OUT, NULL);
}

/* A supervisor that died in the middle would never ring again. */
static void assert_alive(struct fixture *f)
{
    if (f->record.state == WIRE_STATE_CLAIMED && !status_alive(f->dir_fd)) {
        look(f);
        if (f->record.state == WIRE_STATE_CLAIMED)
            fail_msg("the supervisor died");
    }
}

static void wait_output(struct fixture *f, const char *wanted)
{
    for (look(f); !strstr(out0(f), wanted); look(f)) {
        assert_int_equal(f->record.state, WIRE_STATE_CLAIMED);
        wait_bell(f);
        assert_alive(f);
    }
}

static void wait_end(struct fixture *f)
{
    for (look(f); f->record.state == WIRE_STATE_CLAIMED; look(f)) {
        wait_bell(f);
        assert_alive(f);
    }
    look(f); /* output published just before the end */
}

static void run_one(struct fixture *f, const char *script)
{
    worker_add(f, script);
    start(f);
    wait_end(f);
}

static char *path_in(struct fixture *f, const char *name)
{
    return arena_printf(f->arena, "%s/%s", f->work_dir, name);
}

static pid_t pid_in(struct fixture *f, const char *name)
{
    struct buf b = {0};
    struct error err = ERROR_INIT;
    if (file_read(path_in(f, name), 100, &b, &err) < 0)
        fail_msg("%s", err.text);
    long pid = strtol(b.data, NULL, 10);
    buf_free(&b);
    assert_true(pid > 1);
    return (pid_t)pid;
}

static bool lives(pid_t pid)
{
    struct proc p;
    return proc_read(pid, &p) && p.state != 'Z' && p.state != 'X';
}

/* Tells a workload that waits on a FIFO to go on. */
static void fifo_make(struct fixture *f, const char *name)
{
    assert_int_equal(mkfifo(path_in(f, name), 0600), 0);
}

static void fifo_tell(struct fixture *f, const char *name)
{
    int fd = open(path_in(f, name), O_RDWR | O_CLOEXEC); /* stays open: the reader may come later */
    assert_int_equal(write(fd, "go\n", 3), 3);
}

static void fifo_hear(struct fixture *f, const char *name)
{
    char line[16];
    int fd = open(path_in(f, name), O_RDWR | O_CLOEXEC);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, DEADLINE_MS), 1);
    assert_true(read(fd, line, sizeof line) > 0);
    close(fd);
}

/* ---- ends ---- */

static void test_exit_0(void **state)
{
    struct fixture *f = *state;
    run_one(f, "echo hello; echo oops >&2; echo $PWD");
    assert_true(wire_record_success(&f->record));
    assert_string_equal(out0(f), arena_printf(f->arena, "hello\n%s\n", f->work_dir));
    assert_string_equal(output(f, 0, WIRE_STREAM_ERR, NULL), "oops\n");
    assert_string_equal(f->record.leftover, "");
    assert_non_null(strstr(f->record.tail, "hello\n"));
    assert_int_equal(f->record.worker_count, 1);
    assert_true(f->record.start_mono_ns && f->record.end_mono_ns >= f->record.start_mono_ns);
    assert_true(f->record.end_wall_ms >= f->record.claim_wall_ms);
    assert_false(status_alive(f->dir_fd));
    struct error err = ERROR_INIT;
    assert_int_equal(status_mark_lost(f->dir_fd, f->attempt, &err), 0); /* an outcome is never overwritten */
    look(f);
    assert_int_equal(f->record.state, WIRE_STATE_ENDED);
}

static void test_exit_3(void **state)
{
    struct fixture *f = *state;
    run_one(f, "echo before; (exit 3); echo never"); /* -e */
    assert_int_equal(f->record.cause, WIRE_CAUSE_EXIT);
    assert_int_equal(f->record.value, 3);
    assert_false(wire_record_success(&f->record));
    assert_string_equal(out0(f), "before\n");
    run_reset(f);
    run_one(f, "false | true"); /* pipefail */
    assert_int_equal(f->record.value, 1);
}

static void test_signal(void **state)
{
    struct fixture *f = *state;
    run_one(f, "kill -9 $$");
    assert_int_equal(f->record.cause, WIRE_CAUSE_SIGNAL);
    assert_int_equal(f->record.value, SIGKILL);
}

static void test_exec_failure(void **state)
{
    struct fixture *f = *state;
    worker_add(f, "no-such-program-at-all");
    f->workers[0].shell = 0;
    start(f);
    wait_end(f);
    assert_int_equal(f->record.cause, WIRE_CAUSE_EXEC);
    assert_int_equal(f->record.value, ENOENT);
    assert_non_null(strstr(f->record.tail, "no-such-program-at-all"));
    run_reset(f);
    worker_add(f, "/etc/passwd");
    f->workers[0].shell = 0;
    start(f);
    wait_end(f);
    assert_int_equal(f->record.cause, WIRE_CAUSE_EXEC);
    assert_int_equal(f->record.value, EACCES);
}

static void test_folders(void **state)
{
    struct fixture *f = *state;
    f->run.cwd = text("/no/such/folder");
    run_one(f, "true");
    assert_int_equal(f->record.cause, WIRE_CAUSE_SETUP);
    assert_int_equal(f->record.value, ENOENT);
    assert_non_null(strstr(f->record.tail, "/no/such/folder"));
    run_reset(f);
    f->run.cwd = text("made/here");
    run_one(f, "pwd");
    assert_true(wire_record_success(&f->record));
    assert_string_equal(out0(f), arena_printf(f->arena, "%s/made/here\n", f->work_dir));
    run_reset(f);
    f->run.env_in = text("missing");
    run_one(f, "true");
    assert_int_equal(f->record.cause, WIRE_CAUSE_SETUP);
}

static void test_known_attempt(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    int dir = -1, status = -1;
    run_one(f, "true");
    assert_int_equal(status_create(f->a_fd, &f->run, "v", "boot", 1, &dir, &status, &err), -1);
    assert_int_equal(errno, EEXIST);
    assert_int_equal(dir, -1);
    /* what an agent that died while claiming left behind is taken over */
    run_reset(f);
    assert_int_equal(mkdirat(f->a_fd, f->attempt, 0700), 0);
    run_one(f, "echo again");
    assert_true(wire_record_success(&f->record));
}

static void test_creates(void **state)
{
    struct fixture *f = *state;
    f->run.creates = text("made");
    run_one(f, "true");
    assert_int_equal(f->record.cause, WIRE_CAUSE_CREATES);
    run_reset(f);
    f->run.creates = text("made");
    run_one(f, "touch made");
    assert_true(wire_record_success(&f->record));
}

/* ---- environment ---- */

static void test_environment(void **state)
{
    struct fixture *f = *state;
    setenv("RHRUN_T_GONE_1", "x", 1);
    setenv("RHRUN_T_KEPT", "agent", 1);
    f->run.unset = list_of(f, "RHRUN_T_GONE*", NULL);
    f->run.env = list_of(f, "A=run", "B=run");
    f->run.env_default = list_of(f, "A=default", "D=default");
    worker_add(f, "echo ${RHRUN_T_GONE_1-unset} $RHRUN_T_KEPT $A $B $D $RHRUN_ATTEMPT $0 $1");
    f->workers[0].env = list_of(f, "B=worker", NULL);
    f->workers[0].argv = list_of(f, f->workers[0].argv.items[0], "first");
    start(f);
    wait_end(f);
    assert_string_equal(out0(f), arena_printf(f->arena, "unset agent run worker default %s rhrun first\n", f->attempt));
}

static void test_path_first(void **state)
{
    struct fixture *f = *state;
    f->run.path_first = text("/x/bin:/y");
    f->run.env = list_of(f, "PATH=/bin", NULL);
    f->run.env_out = text("path");
    worker_add(f, "echo $PATH");
    worker_add(f, "echo $PATH");
    f->workers[1].env = list_of(f, "PATH=/usr/bin", NULL); /* whoever sets it */
    start(f);
    wait_end(f);
    assert_string_equal(out0(f), "/x/bin:/y:/bin\n");
    assert_string_equal(output(f, 1, WIRE_STREAM_OUT, NULL), "/x/bin:/y:/usr/bin\n");
    run_reset(f);
    f->run.path_first = text("/x/bin:/y");
    f->run.env_in = text("path");
    worker_add(f, "echo $PATH");
    start(f);
    wait_end(f);
    assert_string_equal(out0(f), "/x/bin:/y:/bin\n"); /* not once for each step */
}

static void capture(struct fixture *f, const char *script)
{
    run_reset(f);
    f->run.env_out = text("captured");
    f->run.env = list_of(f, "FROM_RUN=1", NULL);
    f->run.secrets = list_of(f, "TOKEN=hunter2hunter2", NULL);
    worker_add(f, script);
    f->workers[0].env = list_of(f, "RANK=0", NULL);
    start(f);
    wait_end(f);
}

static void test_capture(void **state)
{
    struct fixture *f = *state;
    static const char *const scripts[] = {
        "set +e; false; f() { export X='a\nb'; }; f; export URL=https://$TOKEN@h; trap 'echo bye' EXIT; true",
        "set -uC; export X='a\nb'; exit 0",
        "export X='a\nb'; cat <<END\nbody without its end",
    };
    CLEANUP(cleanup_free) char *file = xasprintf("%s/captured", f->env_dir);
    for (size_t i = 0; i < ARRAY_LEN(scripts); i++) {
        capture(f, scripts[i]);
        assert_true(wire_record_success(&f->record));
        struct stat info;
        assert_int_equal(stat(file, &info), 0);
        assert_int_equal(info.st_mode & 0777, 0600);
        struct buf b = {0};
        assert_int_equal(file_read(file, 1 << 20, &b, NULL), 0);
        assert_null(memmem(b.data, b.len, "hunter2", 7));
        assert_null(memmem(b.data, b.len, "RANK=", 5));
        assert_null(memmem(b.data, b.len, "RHRUN_", 6));
        buf_free(&b);
        run_reset(f);
        f->run.env_in = text("captured");
        setenv("ONLY_AGENT", "1", 1);
        run_one(f, "echo \"$X\" ${FROM_RUN-no} ${TOKEN-no} ${ONLY_AGENT-no}");
        unsetenv("ONLY_AGENT");
        assert_string_equal(out0(f), "a\nb 1 no no\n");
        assert_int_equal(unlink(file), 0);
    }
    capture(f, "set +e; export X=1; false");
    assert_int_equal(f->record.cause, WIRE_CAUSE_EXIT);
    assert_int_equal(f->record.value, 1);
    assert_int_equal(access(file, F_OK), -1);
    capture(f, "export X=1; exit 4");
    assert_int_equal(f->record.value, 4);
    assert_int_equal(access(file, F_OK), -1);
    capture(f, "exec true"); /* the shell is gone: no environment, and that is a failure */
    assert_int_equal(f->record.cause, WIRE_CAUSE_SETUP);
}

/* ---- output ---- */

static void test_output_bytes(void **state)
{
    struct fixture *f = *state;
    struct buf b = {0};
    size_t len;
    run_one(f, "head -c 5000000 /dev/urandom | tee copy");
    assert_int_equal(file_read(path_in(f, "copy"), 6 << 20, &b, NULL), 0);
    char *got = output(f, 0, WIRE_STREAM_OUT, &len);
    assert_int_equal(len, 5000000);
    assert_int_equal(memcmp(got, b.data, len), 0);
    assert_int_equal(f->record.dropped_bytes, 0);
    /* the same bytes from every offset class, and freed segments are gone */
    struct error err = ERROR_INIT;
    char part[3000];
    for (uint64_t at = 0; at < f->spool.len; at += 1040001) {
        ssize_t n = spool_read(f->dir_fd, at, part, sizeof part, &err);
        assert_true(n > 0 && memcmp(part, f->spool.data + at, (size_t)n) == 0);
    }
    assert_int_equal(spool_read(f->dir_fd, f->spool.len, part, sizeof part, &err), 0);
    assert_int_equal(spool_read(f->dir_fd, f->spool.len + 1, part, sizeof part, &err), -1);
    spool_ack(f->dir_fd, 2 * SEGMENT_SIZE + 5);
    assert_int_equal(spool_kept_from(f->dir_fd), 2 * SEGMENT_SIZE);
    assert_int_equal(faccessat(f->dir_fd, "spool.1", F_OK, 0), -1);
    assert_int_equal(faccessat(f->dir_fd, "spool.2", F_OK, 0), 0);
    spool_ack(f->dir_fd, SEGMENT_SIZE); /* never backwards */
    spool_ack(f->dir_fd, UINT64_MAX);   /* never past the end */
    assert_int_equal(spool_kept_from(f->dir_fd), 2 * SEGMENT_SIZE);
    buf_free(&b);
}

static void test_log_limit(void **state)
{
    struct fixture *f = *state;
    size_t len;
    fifo_make(f, "go");
    fifo_make(f, "told");
    f->run.log_limit_bytes = 10000;
    worker_add(f, "head -c 100000 /dev/zero | tr '\\0' x; echo done >told; echo; read line <go; echo second");
    start(f);
    fifo_hear(f, "told");
    look(f);
    /* an ack before all of it was read would make room in the middle */
    while (output(f, 0, WIRE_STREAM_OUT, &len), len + f->record.dropped_bytes < 100001) {
        if (mono_ns() > f->deadline_ns) /* dropped output rings no bell: look again and again */
            fail_msg("the output was not read");
        look(f);
    }
    spool_ack(f->dir_fd, f->spool.len);
    fifo_tell(f, "go");
    wait_end(f);
    assert_true(wire_record_success(&f->record));
    char *got = output(f, 0, WIRE_STREAM_OUT, &len);
    assert_non_null(strstr(got, "second\n"));
    char *note = output(f, 0, WIRE_STREAM_NOTE, NULL);
    assert_string_equal(note, arena_printf(f->arena, "rhrun: %llu bytes of output dropped here (log limit)\n",
                                           (unsigned long long)f->record.dropped_bytes));
    assert_int_equal(len + f->record.dropped_bytes, 100001 + strlen("second\n"));
    assert_true(f->record.spool_bytes < 10200);
}

static void test_log_limit_end(void **state)
{
    struct fixture *f = *state;
    f->run.log_limit_bytes = 1000;
    run_one(f, "head -c 300000 /dev/zero");
    assert_true(wire_record_success(&f->record));
    assert_true(f->record.dropped_bytes >= 299000 && f->record.spool_bytes < 1200);
    assert_non_null(strstr(output(f, 0, WIRE_STREAM_NOTE, NULL), "bytes of output dropped here (log limit)\n"));
}

static void test_masking(void **state)
{
    struct fixture *f = *state;
    fifo_make(f, "go");
    f->run.secrets = list_of(f, "TOKEN=SECRETVALUE", "KEY=line-one\nline-two\nab");
    worker_add(
        f, "printf 'xSECRET'; read l <go; printf 'VALUEy\\n'; echo \"$KEY\"; echo a line-two b >&2; printf 'SECRET'");
    start(f);
    wait_output(f, "x");
    assert_string_equal(out0(f), "x");
    fifo_tell(f, "go");
    wait_end(f);
    assert_string_equal(out0(f), "x***y\n***\nSECRET");
    assert_string_equal(output(f, 0, WIRE_STREAM_ERR, NULL), "a *** b\n");
    assert_null(strstr(f->record.tail, "line-two"));
}

static void mask_all_cuts(const struct wire_strings *secrets, const char *in, const char *wanted)
{
    struct mask m;
    size_t len = strlen(in);
    mask_init(&m, secrets);
    for (size_t first = 0; first <= len; first++)
        for (size_t second = first; second <= len; second++) {
            struct mask_stream s = {0};
            struct buf out = {0}, all = {0};
            size_t cuts[4] = {0, first, second, len};
            for (int i = 0; i < 3; i++) {
                mask_feed(&m, &s, (const uint8_t *)in + cuts[i], cuts[i + 1] - cuts[i], i == 2, &out);
                buf_append(&all, out.data, out.len);
                assert_true(s.held_len < m.longest);
            }
            assert_string_equal(all.data, wanted);
            free(s.held);
            buf_free(&out);
            buf_free(&all);
        }
    free(m.patterns);
}

static void test_mask_cuts(void **state)
{
    struct fixture *f = *state;
    struct wire_strings s = list_of(f, "A=abcd", "B=cdef");
    mask_all_cuts(&s, "1abcd2", "1***2");
    mask_all_cuts(&s, "1abcdef2", "1***2"); /* overlapping: the union */
    mask_all_cuts(&s, "abcdabcd", "******");
    mask_all_cuts(&s, "ab", "ab");
    mask_all_cuts(&s, "aabcabcdx", "aabc***x");
    s = list_of(f, "A=ab", "B=abcde"); /* the longer wins, the shorter where it cannot */
    mask_all_cuts(&s, "abcdeabcdx", "******cdx");
    s = list_of(f, "A=aaa", NULL);
    mask_all_cuts(&s, "baaaaab", "b***b");
}

static void test_tail(void **state)
{
    (void)state;
    char shown[STATUS_TEXT];
    struct tail *t = xcalloc(1, sizeof *t);
    const char *raw = "\033[31mred\033[0m\r\n10%\r20%\r100%\nbad \xff\xc3;\x01 caf\xc3\xa9\n";
    tail_add(t, (const uint8_t *)raw, strlen(raw));
    tail_format(t, shown, sizeof shown);
    assert_string_equal(shown, "red\n100%\nbad ?"
                               "?; caf\xc3\xa9\n");
    for (int i = 0; i < 1000; i++) {
        char line[32];
        int n = snprintf(line, sizeof line, "line %d\n", i);
        tail_add(t, (uint8_t *)line, (size_t)n);
    }
    tail_format(t, shown, sizeof shown);
    assert_int_equal(strncmp(shown, "line ", 5), 0);
    assert_true(strlen(shown) > 4000);
    assert_non_null(strstr(shown, "line 999\n"));
    free(t);
}

/* ---- stopping ---- */

static void stop_with(struct fixture *f, enum wire_signal signal, uint32_t grace_ms)
{
    struct error err = ERROR_INIT;
    if (status_signal(f->dir_fd, signal, grace_ms, &err) < 0)
        fail_msg("%s", err.text);
}

static void test_stop_trapped(void **state)
{
    struct fixture *f = *state;
    worker_add(f, "trap 'echo caught; exit 0' TERM; echo ready; while :; do sleep 100 & wait $!; done");
    start(f);
    wait_output(f, "ready");
    stop_with(f, WIRE_STOP, 20000);
    wait_end(f);
    assert_non_null(strstr(out0(f), "caught"));
    assert_int_equal(f->record.stop_requested, 1);
    assert_int_equal(f->record.cause, WIRE_CAUSE_NONE);
    assert_false(wire_record_success(&f->record));
}

static const char daemons[] =
    "trap '' TERM\n"
    "setsid bash -c 'trap \"\" TERM; echo $BASHPID >one; exec sleep 1000' </dev/null >/dev/null 2>&1 &\n"
    "(setsid bash -c '(trap \"\" TERM; echo $BASHPID >two; kill -STOP $BASHPID; exec sleep 1000) &' >/dev/null 2>&1 "
    "&)\n"
    "until test -s one && test -s two; do :; done; echo ready\n"
    "while :; do sleep 1000; done\n";

static void test_stop_daemons(void **state)
{
    struct fixture *f = *state;
    worker_add(f, daemons);
    start(f);
    wait_output(f, "ready");
    pid_t one = pid_in(f, "one"), two = pid_in(f, "two");
    assert_true(lives(one) && lives(two));
    stop_with(f, WIRE_STOP, 50); /* all ignore TERM */
    wait_end(f);
    assert_int_equal(f->record.stop_requested, 1);
    assert_int_equal(f->record.cause, WIRE_CAUSE_SIGNAL);
    assert_int_equal(f->record.value, SIGKILL);
    assert_false(lives(one) || lives(two));
    assert_string_equal(f->record.leftover, "");
}

static void test_stop_stopped(void **state)
{
    struct fixture *f = *state;
    struct proc p = {0};
    worker_add(f, "echo $$ >pid; echo ready; kill -STOP $$; exec sleep 1000");
    start(f);
    wait_output(f, "ready");
    pid_t pid = pid_in(f, "pid");
    while (p.state != 'T' && mono_ns() < f->deadline_ns)
        assert_true(proc_read(pid, &p));
    assert_int_equal(p.state, 'T');
    stop_with(f, WIRE_STOP, DEADLINE_MS * 2); /* by KILL it would end past the deadline */
    wait_end(f);
    assert_int_equal(f->record.value, SIGTERM);
}

static void test_kill_forking(void **state)
{
    struct fixture *f = *state;
    /* ever new sessions, each process living shortly: a single look would miss the next one */
    worker_add(f, "trap '' TERM; step() { setsid bash -c \"$S\" >/dev/null 2>&1 & }; export S='trap \"\" TERM; "
                  "n=$((${n:-0}+1)); export n; echo $$ >>pids; setsid bash -c \"$S\" & exit'; step; "
                  "until test -s pids; do :; done; echo ready; while :; do sleep 1000; done");
    start(f);
    wait_output(f, "ready");
    stop_with(f, WIRE_KILL, 0);
    wait_end(f);
    assert_int_equal(f->record.stop_requested, 1);
    assert_string_equal(f->record.leftover, "");
    struct proc_list left = {0};
    proc_with_env(arena_printf(f->arena, "RHRUN_ATTEMPT=%s", f->attempt), &left);
    assert_int_equal(left.count, 0);
    proc_list_free(&left);
}

static void test_first_failure(void **state)
{
    struct fixture *f = *state;
    fifo_make(f, "go");
    worker_add(f, "echo $$ >w0; echo hi; exec sleep 1000");
    worker_add(f, "until test -s w0; do :; done; echo why it failed >&2; exit 7");
    worker_add(f, "exec sleep 1000");
    start(f);
    wait_end(f);
    assert_int_equal(f->record.cause, WIRE_CAUSE_EXIT);
    assert_int_equal(f->record.value, 7);
    assert_int_equal(f->record.cause_rank, 1);
    assert_string_equal(f->record.tail, "why it failed\n");
    assert_int_equal(f->record.stop_requested, 0);
    assert_int_equal(f->record.worker_count, 3);
    assert_int_equal(f->record.workers[0].cause, WIRE_CAUSE_SIGNAL);
    assert_int_equal(f->record.workers[0].value, SIGTERM);
    assert_true(f->record.workers[0].end_mono_ns >= f->record.workers[1].end_mono_ns);
    assert_false(lives(pid_in(f, "w0")));
}

static void test_timeout(void **state)
{
    struct fixture *f = *state;
    f->run.timeout_ms = 50;
    run_one(f, "echo begun; exec sleep 1000");
    assert_int_equal(f->record.timed_out, 1);
    assert_int_equal(f->record.stop_requested, 0);
    assert_int_equal(f->record.value, SIGTERM);
}

static const char leaves_daemon[] =
    "bash -c 'echo $$ >pid; read l <go; echo late output; echo alive >told' & until test -s pid; do :; done; echo main";

static void test_step_daemon(void **state)
{
    struct fixture *f = *state;
    fifo_make(f, "go");
    fifo_make(f, "told");
    run_one(f, leaves_daemon);
    assert_true(wire_record_success(&f->record));
    pid_t pid = pid_in(f, "pid");
    assert_true(lives(pid));
    assert_string_equal(f->record.leftover, arena_printf(f->arena, "%ld bash\n", (long)pid));
    assert_true(f->record.end_mono_ns - f->record.workers[0].end_mono_ns >= 1000000000u);
    assert_false(status_alive(f->dir_fd)); /* the lock is free, though the daemon's output is still taken */
    fifo_tell(f, "go");
    fifo_hear(f, "told"); /* it wrote after the end and lives: no SIGPIPE */
    look(f);
    assert_null(strstr(out0(f), "late"));
}

static void test_launch_daemon(void **state)
{
    struct fixture *f = *state;
    fifo_make(f, "go");
    fifo_make(f, "told");
    f->run.kind = WIRE_KIND_LAUNCH;
    run_one(f, leaves_daemon);
    assert_true(wire_record_success(&f->record));
    pid_t pid = pid_in(f, "pid");
    assert_false(lives(pid));
    assert_non_null(strstr(f->record.leftover, " bash\n"));
}

/* ---- accidents ---- */

static void test_lost(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    worker_add(f, daemons);
    start(f);
    wait_output(f, "ready");
    pid_t one = pid_in(f, "one"), two = pid_in(f, "two");
    assert_true(status_alive(f->dir_fd));
    assert_int_equal(status_mark_lost(f->dir_fd, f->attempt, &err), -1); /* not while it lives */
    uint32_t supervisor = 0;
    int fd = openat(f->dir_fd, "status", O_RDONLY | O_CLOEXEC);
    assert_int_equal(pread(fd, &supervisor, sizeof supervisor, offsetof(struct status, supervisor_pid)),
                     sizeof supervisor);
    assert_int_equal(kill((pid_t)supervisor, SIGKILL), 0);
    /* the lock is free as soon as it is dead, though its workers live */
    assert_int_equal(flock(fd, LOCK_SH), 0);
    close(fd);
    assert_false(status_alive(f->dir_fd));
    assert_true(lives(one) && lives(two));
    assert_int_equal(status_signal(f->dir_fd, WIRE_STOP, 0, &err), -1);
    if (status_mark_lost(f->dir_fd, f->attempt, &err) < 0)
        fail_msg("%s", err.text);
    assert_false(lives(one) || lives(two));
    look(f);
    assert_int_equal(f->record.state, WIRE_STATE_LOST);
    assert_false(wire_record_success(&f->record));
    assert_int_equal(f->record.same_boot, 1);
}

static void test_damaged(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    run_one(f, "echo x");
    int fd = openat(f->dir_fd, "status", O_RDWR | O_CLOEXEC);
    struct stat info;
    fstat(fd, &info);
    size_t size = (size_t)info.st_size;
    uint8_t *good = xmalloc(size), *bad = xmalloc(size);
    assert_int_equal(pread(fd, good, size, 0), size);
    struct wire_record r;
    char part[100];
#define REFUSED(offset, value)                                                    \
    do {                                                                          \
        memcpy(bad, good, size);                                                  \
        memset(bad + (offset), value, 4);                                         \
        assert_int_equal(pwrite(fd, bad, size, 0), size);                         \
        assert_int_equal(status_read(f->dir_fd, "boot", f->arena, &r, &err), -1); \
    } while (0)
    REFUSED(offsetof(struct status, version), 9);
    REFUSED(offsetof(struct status, state), 0);
    REFUSED(offsetof(struct status, worker_count), 0x7F);
    REFUSED(offsetof(struct status, attempt), 'x');
    memcpy(bad, good, size);
    memset(bad + offsetof(struct status, tail), 'x', STATUS_TEXT);
    assert_int_equal(pwrite(fd, bad, size, 0), size);
    assert_int_equal(status_read(f->dir_fd, "boot", f->arena, &r, &err), -1);
    for (int round = 0; round < 300; round++) { /* whatever is read, nothing breaks (ASan watches) */
        memcpy(bad, good, size);
        uint32_t where[8];
        random_bytes(where, sizeof where);
        for (size_t i = 0; i < ARRAY_LEN(where); i++)
            random_bytes(bad + where[i] % (size - 8), 8);
        if (round % 3 == 0)
            random_bytes(bad + 8, 600);
        assert_int_equal(pwrite(fd, bad, size, 0), size);
        status_read(f->dir_fd, "boot", f->arena, &r, &err);
        status_alive(f->dir_fd);
        status_signal(f->dir_fd, WIRE_STOP, 0, &err);
        spool_read(f->dir_fd, 0, part, sizeof part, &err);
        spool_read(f->dir_fd, UINT64_MAX - 5, part, sizeof part, &err);
        spool_kept_from(f->dir_fd);
        spool_ack(f->dir_fd, UINT64_MAX - 5);
    }
    for (size_t len = 0; len < size; len += 997) {
        assert_int_equal(pwrite(fd, good, size, 0), size);
        assert_int_equal(ftruncate(fd, (off_t)len), 0);
        assert_int_equal(status_read(f->dir_fd, "boot", f->arena, &r, &err), -1);
        assert_int_equal(status_mark_lost(f->dir_fd, f->attempt, &err), -1);
        spool_ack(f->dir_fd, 1);
    }
    close(fd);
    free(good);
    free(bad);
}

static void test_full_disk(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    char *disk = arena_printf(f->arena, "%s/disk", f->root);
    assert_int_equal(mkdir(disk, 0700), 0);
    if (mount("tmpfs", disk, "tmpfs", 0, "size=256k") < 0) {
        print_message("no full-disk test: cannot mount a tmpfs here (%s)\n", strerror(errno));
        skip();
    }
    int plain = f->a_fd;
    f->a_fd = open(disk, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    run_one(f, "head -c 2000000 /dev/zero; echo last");
    bool success = wire_record_success(&f->record), dropped = f->record.dropped_bytes > 1500000;
    size_t len;
    output(f, 0, WIRE_STREAM_OUT, &len);
    bool all = len + f->record.dropped_bytes == 2000005;
    bool kept = len > 100000;
    /* and no room for a claim: refused, nothing left behind */
    run_reset(f);
    worker_add(f, "true");
    int dir = -1, status = -1;
    int rc = status_create(f->a_fd, &f->run, "v", "boot", 1, &dir, &status, &err);
    bool gone = faccessat(f->a_fd, f->attempt, F_OK, 0) < 0;
    close(f->a_fd);
    f->a_fd = plain;
    assert_int_equal(umount2(disk, MNT_DETACH), 0);
    assert_true(success && dropped && all && kept);
    assert_int_equal(rc, -1);
    assert_non_null(strstr(err.text, "No space left"));
    assert_true(gone);
}

/* What the END of a rank says: "exit 3 after 12 bytes" of that rank before it; "" = there is none. */
static const char *end_of(struct fixture *f, uint32_t rank)
{
    struct wire_spool h;
    struct wire_worker_end end;
    uint32_t before = 0;
    for (size_t at = 0; at < f->spool.len; at += WIRE_SPOOL_HEADER + h.len) {
        const uint8_t *p = (uint8_t *)f->spool.data + at;
        assert_true(wire_spool_get(p, &h));
        if (h.rank == rank && h.stream != WIRE_STREAM_END)
            before += h.len;
        if (h.rank != rank || h.stream != WIRE_STREAM_END)
            continue;
        assert_true(wire_spool_end_get(p + WIRE_SPOOL_HEADER, h.len, &end));
        return arena_printf(f->arena, "%s %d after %u bytes", end.cause == WIRE_CAUSE_EXIT ? "exit" : "signal",
                            end.value, before);
    }
    return "";
}

static void test_a_spared_worker_stops_nobody(void **state)
{
    struct fixture *f = *state;
    f->run.kind = WIRE_KIND_LAUNCH;
    f->run.flags = WIRE_RUN_ENDS;
    f->run.spared = list_of(f, "exit 3", "signal 9");
    worker_add(f, "echo last words; echo to stderr >&2; exit 3");
    worker_add(f, "kill -9 $$");
    worker_add(f, "read x < go; echo went on");
    fifo_make(f, "go");
    start(f);
    for (look(f); !*end_of(f, 0) || !*end_of(f, 1); look(f))
        wait_bell(f);
    assert_int_equal(f->record.state, WIRE_STATE_CLAIMED);
    assert_string_equal(end_of(f, 0), "exit 3 after 21 bytes");
    assert_string_equal(end_of(f, 1), "signal 9 after 0 bytes");
    fifo_tell(f, "go");
    wait_end(f);
    assert_string_equal(output(f, 2, WIRE_STREAM_OUT, NULL), "went on\n");
    assert_string_equal(end_of(f, 2), "");
    assert_false(wire_record_success(&f->record)); /* whether it is one is not for the node to say */
    assert_int_equal(f->record.workers[0].value, 3);
    assert_int_equal(f->record.workers[2].cause, WIRE_CAUSE_NONE);
}

static void test_another_end_stops_all(void **state)
{
    struct fixture *f = *state;
    f->run.flags = WIRE_RUN_ENDS;
    f->run.spared = list_of(f, "exit 3", NULL);
    fifo_make(f, "go");
    worker_add(f, "exit 3");
    worker_add(f, "read x < go; echo its words; exit 4");
    worker_add(f, "sleep 100");
    start(f);
    for (look(f); !*end_of(f, 0); look(f))
        wait_bell(f);
    fifo_tell(f, "go");
    wait_end(f);
    assert_string_equal(end_of(f, 1), "exit 4 after 10 bytes");
    assert_string_equal(end_of(f, 2), ""); /* it did not fail by itself */
    assert_int_equal(f->record.cause_rank, 1);
    assert_int_equal(f->record.value, 4);
    assert_non_null(strstr(f->record.tail, "its words"));
    assert_int_equal(f->record.workers[2].value, SIGTERM);
}

/* An END that could not be kept would be nobody's to see: the node decides then. */
static void test_an_end_that_is_lost_spares_nobody(void **state)
{
    struct fixture *f = *state;
    f->run.flags = WIRE_RUN_ENDS;
    f->run.spared = list_of(f, "any", NULL);
    f->run.log_limit_bytes = 100;
    worker_add(f, "head -c 1000 /dev/zero; exit 3");
    worker_add(f, "sleep 100");
    start(f);
    wait_end(f);
    assert_int_equal(f->record.value, 3);
    assert_int_equal(f->record.workers[1].value, SIGTERM);
}

static const char *file_text(struct fixture *f, const char *name)
{
    struct buf b = {0};
    struct error err = ERROR_INIT;
    if (file_read(arena_printf(f->arena, "%s/%s", f->root, name), 1 << 20, &b, &err) < 0)
        fail_msg("%s", err.text);
    const char *ret = arena_strndup(f->arena, b.data ? b.data : "", b.len);
    buf_free(&b);
    return ret;
}

static void test_log_files(void **state)
{
    struct fixture *f = *state;
    f->run.log_dir = arena_printf(f->arena, "%s/logs/run", f->root);
    f->run.secrets = list_of(f, "TOKEN=s3cret", NULL);
    worker_add(f, "echo only here: $TOKEN; echo seen >&2; exit 3");
    worker_add(f, "trap '' TERM; echo both; read x < gone; echo never");
    f->workers[0].files = WIRE_KEEP_OUT | WIRE_HIDE_OUT;
    f->workers[1].files = WIRE_KEEP_OUT | WIRE_KEEP_ERR;
    f->run.grace_ms = 0;
    fifo_make(f, "gone");
    start(f);
    wait_end(f);
    assert_string_equal(file_text(f, "logs/run/0/stdout.log"), "only here: ***\n");
    assert_string_equal(output(f, 0, WIRE_STREAM_OUT, NULL), "");
    assert_string_equal(output(f, 0, WIRE_STREAM_ERR, NULL), "seen\n");
    assert_non_null(strstr(f->record.tail, "only here: ***"));
    assert_string_equal(file_text(f, "logs/run/1/stdout.log"), output(f, 1, WIRE_STREAM_OUT, NULL));
    assert_string_equal(file_text(f, "logs/run/1/stderr.log"), output(f, 1, WIRE_STREAM_ERR, NULL));
    assert_int_equal(access(arena_printf(f->arena, "%s/logs/run/0/stderr.log", f->root), F_OK), -1);
}

static void test_log_files_cannot_be_made(void **state)
{
    struct fixture *f = *state;
    f->run.log_dir = text("/dev/null/logs");
    worker_add(f, "echo it ran");
    start(f);
    wait_end(f);
    assert_int_equal(f->record.cause, WIRE_CAUSE_SETUP);
    assert_non_null(strstr(f->record.tail, "log files"));
}

#define WRITE_ERROR "printf '%%s' '%s' >\"$TORCHELASTIC_ERROR_FILE\"; echo last words; exit 1"

static void test_error_file(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *json, *tail;
    } cases[] = {
        {"{\"message\": {\"message\": \"ValueError: \\u00e9 \\\"quoted\\\"\\nof s3cret\", "
         "\"extraInfo\": {\"py_callstack\": \"Traceback\", \"timestamp\": \"1\"}}}",
         "last words\nrhrun: error file: ValueError: \xc3\xa9 \"quoted\" of ***\n"},
        {"{\"message\":\"plain\\ud83d\\ude00\\u20ac\"}", "last words\nrhrun: error file: plain??\xe2\x82\xac\n"},
        {"{\"message\": {\"message\": 3}}", "last words\n"},
        {"{\"message\": \"cut", "last words\nrhrun: error file: cut\n"},
        {"no json", "last words\n"},
        {"", "last words\n"},
    };
    for (size_t i = 0; i < 2 * ARRAY_LEN(cases); i++) {
        run_reset(f);
        f->run.flags = WIRE_RUN_ERROR_FILES;
        f->run.secrets = list_of(f, "TOKEN=s3cret", NULL);
        if (i % 2)
            f->run.log_dir = arena_printf(f->arena, "%s/logs/%zu", f->root, i);
        worker_add(f, arena_printf(f->arena, WRITE_ERROR, cases[i / 2].json));
        start(f);
        wait_end(f);
        assert_string_equal(f->record.tail, cases[i / 2].tail);
    }
}

static void test_error_file_of_the_first(void **state)
{
    struct fixture *f = *state;
    f->run.flags = WIRE_RUN_ERROR_FILES;
    fifo_make(f, "go");
    worker_add(f, "read x < go; echo '{\"message\": \"mine\"}' >$TORCHELASTIC_ERROR_FILE; exit 5");
    worker_add(f, "trap 'exit 6' TERM; echo '{\"message\": \"not mine\"}' >$TORCHELASTIC_ERROR_FILE; echo x >go; "
                  "while :; do sleep 0.01; done");
    start(f);
    wait_end(f);
    assert_int_equal(f->record.cause_rank, 0);
    assert_string_equal(f->record.tail, "rhrun: error file: mine\n");
}

/* Equal parts of what this process may use, in order; together all of it. */
static void test_cpu_blocks(void **state)
{
    struct fixture *f = *state;
    cpu_set_t all, seen;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    int count = CPU_COUNT(&all);
    uint32_t workers = count >= 2 ? 2 : 1;
    CPU_ZERO(&seen);
    f->run.cpus = WIRE_CPUS_BLOCK;
    for (uint32_t i = 0; i < workers; i++)
        worker_add(f, "sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status");
    start(f);
    wait_end(f);
    for (uint32_t i = 0; i < workers; i++) {
        const char *p = output(f, i, WIRE_STREAM_OUT, NULL);
        int mine = 0;
        while (*p && *p != '\n') {
            char *end;
            size_t from = strtoul(p, &end, 10), to = *end == '-' ? strtoul(end + 1, &end, 10) : from;
            for (size_t k = from; k <= to; k++, mine++) {
                assert_true(CPU_ISSET(k, &all) && !CPU_ISSET(k, &seen));
                CPU_SET(k, &seen);
            }
            p = end + (*end == ',');
        }
        assert_in_range(mine, (uint32_t)count / workers, (uint32_t)count / workers + 1);
    }
    assert_true(CPU_EQUAL(&all, &seen));
}

static void test_host_file(void **state)
{
    struct fixture *f = *state;
    f->run.hosts = text("10.0.0.1 slots=2\n10.0.0.2 slots=4\n");
    worker_add(f, "cat \"$RHRUN_HOSTFILE\"; stat -c %a \"$RHRUN_HOSTFILE\"");
    start(f);
    wait_end(f);
    assert_string_equal(output(f, 0, WIRE_STREAM_OUT, NULL), "10.0.0.1 slots=2\n10.0.0.2 slots=4\n600\n");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_exit_0),
        CASE(test_exit_3),
        CASE(test_signal),
        CASE(test_exec_failure),
        CASE(test_folders),
        CASE(test_known_attempt),
        CASE(test_creates),
        CASE(test_environment),
        CASE(test_path_first),
        CASE(test_capture),
        CASE(test_output_bytes),
        CASE(test_log_limit),
        CASE(test_log_limit_end),
        CASE(test_masking),
        CASE(test_mask_cuts),
        CASE(test_tail),
        CASE(test_stop_trapped),
        CASE(test_stop_daemons),
        CASE(test_stop_stopped),
        CASE(test_kill_forking),
        CASE(test_first_failure),
        CASE(test_timeout),
        CASE(test_step_daemon),
        CASE(test_launch_daemon),
        CASE(test_lost),
        CASE(test_damaged),
        CASE(test_full_disk),
        CASE(test_log_files),
        CASE(test_log_files_cannot_be_made),
        CASE(test_error_file),
        CASE(test_error_file_of_the_first),
        CASE(test_cpu_blocks),
        CASE(test_host_file),
        CASE(test_a_spared_worker_stops_nobody),
        CASE(test_another_end_stops_all),
        CASE(test_an_end_that_is_lost_spares_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
