/*
 * Agents and supervisors that are killed while a worker runs: the reports on the attempt, and the fate of its worker.
 * The built agent over a socketpair, as in test_wire_agent.c.
 */
#include "agent_peer.h"

#include "../../src/agent/internal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

struct scene {
    struct peer peer;
    pid_t worker, supervisor;
    int status_fd;
};

static int setup(void **state)
{
    (void)state;
    return folder_make("killed");
}

static bool process_gone(pid_t pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    CLEANUP(cleanup_close) int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (n <= 0)
        return true;
    text[n] = 0;
    char *state = strrchr(text, ')');
    return state && (state[2] == 'Z' || state[2] == 'X');
}

/* It was killed: it is gone as soon as the kernel comes to it. */
static void expect_gone(pid_t pid)
{
    for (int ms = 0; !process_gone(pid) && ms < 10000; ms++)
        usleep(1000);
    assert_true(process_gone(pid));
}

/* A worker that runs until it is ended. */
static void begin(struct scene *s)
{
    static struct status status;
    struct peer *p = &s->peer;
    peer_open(p, WIRE_OWN, OWNER_A);
    send_run(p, ID("1"), "launch", "echo $$; sleep 1000");
    expect_started(p, ID("1"));
    while (!*output_text(p)) {
        assert_int_equal(peer_frame(p), WIRE_OUTPUT);
        take_output(p);
    }
    s->worker = (pid_t)strtol(output_text(p), NULL, 10);
    assert_false(process_gone(s->worker));
    s->status_fd = open(attempt_path(p, ID("1"), "status"), O_RDONLY);
    assert_int_equal(pread(s->status_fd, &status, sizeof status, 0), sizeof status);
    s->supervisor = (pid_t)status.supervisor_pid;
}

/* The workload waits for a FIFO, so that the agent is killed while it runs. */
static void test_agent_killed_midway(void **state)
{
    (void)state;
    struct peer p;
    char script[1024], fifo[sizeof folder + 8];
    snprintf(fifo, sizeof fifo, "%s/go", folder);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    snprintf(script, sizeof script, "seq 1 20000; read x < '%s'; seq 20001 40000", fifo);
    peer_open(&p, WIRE_OWN, OWNER_A);
    send_run(&p, ID("1"), "setup:seq", script);
    expect_started(&p, ID("1"));
    while (p.output.len < 50000) {
        assert_int_equal(peer_frame(&p), WIRE_OUTPUT);
        take_output(&p);
    }
    struct buf before = p.output;
    p.output = (struct buf){0};
    peer_kill(&p);

    peer_open(&p, WIRE_OWN, OWNER_A);
    assert_int_equal(p.facts.epoch, 2);
    send_attempt(&p, WIRE_ATTACH, ID("1"), before.len);
    p.output = before;
    int go = open(fifo, O_WRONLY); /* waits for the reader */
    assert_int_equal(write(go, "x\n", 2), 2);
    close(go);
    struct wire_record r = expect_record(&p, WIRE_EXIT);
    assert_true(wire_record_success(&r));
    assert_int_equal(r.spool_bytes, p.output.len);
    struct buf want = {0};
    for (int i = 1; i <= 40000; i++)
        buf_printf(&want, "%d\n", i);
    assert_string_equal(output_text(&p), want.data);
    buf_free(&want);
    peer_close(&p);
}

static void test_supervisor_killed(void **state)
{
    (void)state;
    struct scene s;
    struct peer *p = &s.peer;
    begin(&s);
    close(s.status_fd);
    assert_int_equal(kill(s.supervisor, SIGKILL), 0);
    struct wire_record r = expect_record(p, WIRE_EXIT);
    assert_int_equal(r.state, WIRE_STATE_LOST);
    assert_false(wire_record_success(&r));
    expect_gone(s.worker);
    buf_clear(&p->output);
    send_run(p, ID("2"), "launch", "echo again"); /* the slot is free */
    expect_started(p, ID("2"));
    expect_record(p, WIRE_EXIT);
    peer_close(p);
}

/* Another agent may test whether it lives, and be held up with the lock in its hand: the end is reported once it lets
 * go. */
static void test_supervisor_killed_while_looked_at(void **state)
{
    (void)state;
    struct scene s;
    struct peer *p = &s.peer;
    begin(&s);
    assert_int_equal(kill(p->pid, SIGSTOP), 0);
    assert_int_equal(kill(s.supervisor, SIGKILL), 0);
    assert_int_equal(flock(s.status_fd, LOCK_SH), 0); /* waits until it is dead */
    assert_int_equal(kill(p->pid, SIGCONT), 0);
    for (uint64_t token = 1; token <= 3; token++) { /* no FAULT, no EXIT */
        send_token(p, WIRE_PING, token);
        expect(p, WIRE_PONG);
    }
    send_run(p, ID("2"), "launch", "echo no"); /* nor is the slot free: its worker lives */
    struct wire_in in = expect(p, WIRE_BUSY);
    assert_string_equal(wire_get_string(&in), ID("2"));
    assert_string_equal(wire_get_string(&in), ID("1"));
    assert_false(process_gone(s.worker));
    close(s.status_fd);
    struct wire_record r = expect_record(p, WIRE_EXIT);
    assert_int_equal(r.state, WIRE_STATE_LOST);
    expect_gone(s.worker);
    peer_close(p);
}

/* The next agent finds out. */
static void test_both_killed_then_list(void **state)
{
    (void)state;
    struct scene s;
    struct peer *p = &s.peer;
    begin(&s);
    peer_kill(p);
    assert_int_equal(kill(s.supervisor, SIGKILL), 0);
    assert_int_equal(flock(s.status_fd, LOCK_SH), 0); /* waits until it is dead */
    close(s.status_fd);

    peer_open(p, WIRE_READ, OWNER_B); /* a reader reports it and changes nothing */
    send_token(p, WIRE_LIST, 1);
    struct wire_record r = expect_record(p, WIRE_RECORD);
    assert_int_equal(r.state, WIRE_STATE_LOST);
    expect(p, WIRE_LISTED);
    assert_false(process_gone(s.worker));
    peer_close(p);

    peer_open(p, WIRE_OWN, OWNER_B); /* no connection, no supervisor: another owner may adopt it */
    send_token(p, WIRE_LIST, 2);
    r = expect_record(p, WIRE_RECORD);
    assert_int_equal(r.state, WIRE_STATE_LOST);
    expect(p, WIRE_LISTED);
    expect_gone(s.worker);
    peer_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_agent_killed_midway, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_supervisor_killed, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_supervisor_killed_while_looked_at, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_both_killed_then_list, setup, folder_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
