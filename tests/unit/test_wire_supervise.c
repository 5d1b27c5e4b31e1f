/* The supervisor: how an attempt starts and ends, and the environment of its workers. */
#include "supervise_scene.h"

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
    f->run.cwd = text("not/here"); /* a missing folder is not created */
    run_one(f, "pwd");
    assert_int_equal(f->record.cause, WIRE_CAUSE_SETUP);
    assert_int_equal(f->record.value, ENOENT);
    assert_non_null(strstr(f->record.tail, "not/here"));
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
    /* a new agent takes over the remains of one that died while claiming */
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
    f->workers[1].env = list_of(f, "PATH=/usr/bin", NULL); /* whichever sets it */
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

/* ---- devices and CPUs of a worker ---- */

/* Equal parts of the CPUs that this process may use, in order; together all of them. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_exit_0),     CASE(test_exit_3),        CASE(test_signal),     CASE(test_exec_failure),
        CASE(test_folders),    CASE(test_known_attempt), CASE(test_creates),    CASE(test_environment),
        CASE(test_path_first), CASE(test_capture),       CASE(test_cpu_blocks), CASE(test_host_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
