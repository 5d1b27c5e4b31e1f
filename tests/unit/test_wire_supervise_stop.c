/* The supervisor: stops, failures of one worker of several, accidents. */
#include "supervise_scene.h"

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
    /* new sessions again and again, each process short-lived: a single look would miss the next one */
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
    assert_int_equal(status_mark_lost(f->dir_fd, f->attempt, &err), 1); /* not while it lives */
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
    if (status_mark_lost(f->dir_fd, f->attempt, &err) != 0)
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
    for (int round = 0; round < 300; round++) { /* nothing breaks, whatever is read (ASan watches) */
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
    bool success = wire_record_success(&f->record),
         dropped = f->record.dropped_bytes > 1500000 && f->record.dropped == WIRE_DROPPED_DISK;
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

/* ---- workers that may fail ---- */

/* The END of a rank: "exit 3 after 12 bytes", counting that rank's output before it; "" = there is none. */
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
    assert_false(wire_record_success(&f->record)); /* the node does not decide whether it is one */
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

/* Nobody could see an END that was not kept: then the node decides. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
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
        CASE(test_a_spared_worker_stops_nobody),
        CASE(test_another_end_stops_all),
        CASE(test_an_end_that_is_lost_spares_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
