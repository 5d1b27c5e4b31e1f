/*
 * A supervisor that another program than rhrun tells to end, with the built agent over a socketpair: the machine shuts
 * down, or its scheduler takes it back. Workers are told too, and may be gone before their supervisor has noticed.
 */
#include "agent_peer.h"

#include <stdio.h>

enum { WORKERS_MAX = 2 };

struct scene {
    struct peer peer;
    pid_t supervisor, workers[WORKERS_MAX];
    struct wire_record end;
};

/* Each worker prints its own id and its supervisor's. */
#define SLEEPS "echo $$ $PPID; exec sleep 1000"
#define DEAF "trap '' TERM; echo $$ $PPID; while :; do sleep 1000; done"
#define AT_TERM(status) "trap 'exit " status "' TERM; echo $$ $PPID; while :; do sleep 1000 & wait $!; done"

static int setup(void **state)
{
    (void)state;
    return folder_make("preempted");
}

/* What one rank has in the spool so far, of one stream. */
static char *text_of(struct scene *s, uint32_t rank, enum wire_stream stream, size_t *ret_len)
{
    struct buf text = {0};
    struct wire_spool h;
    for (size_t at = 0; at + WIRE_SPOOL_HEADER <= s->peer.output.len; at += h.len) {
        assert_true(wire_spool_get((const uint8_t *)s->peer.output.data + at, &h));
        at += WIRE_SPOOL_HEADER;
        if (at + h.len > s->peer.output.len)
            break; /* the rest is on its way */
        if (h.rank == rank && h.stream == stream)
            buf_append(&text, s->peer.output.data + at, h.len);
    }
    char *copy = arena_strndup(s->peer.arena, text.data ? text.data : "", text.len);
    if (ret_len)
        *ret_len = text.len;
    buf_free(&text);
    return copy;
}

static void await_worker(struct scene *s, uint32_t rank)
{
    int worker, supervisor;
    char end;
    while (sscanf(text_of(s, rank, WIRE_STREAM_OUT, NULL), "%d %d%c", &worker, &supervisor, &end) != 3) {
        assert_int_equal(peer_frame(&s->peer), WIRE_OUTPUT);
        take_output(&s->peer);
    }
    s->workers[rank] = worker;
    s->supervisor = supervisor;
}

/* Starts one worker or two, and waits until they are ready. */
static void begin(struct scene *s, const char *first, const char *second, const char *spared)
{
    struct buf b = {0};
    char *argv[] = {(char *)first, (char *)second}, *spares[] = {(char *)spared};
    bool deaf = str_eq(first, DEAF) || (second && str_eq(second, DEAF)); /* the others get all the time they need */
    struct wire_worker workers[WORKERS_MAX] = {{.rank = 0, .shell = 1, .argv = {&argv[0], 1}},
                                               {.rank = 1, .shell = 1, .argv = {&argv[1], 1}}};
    struct wire_run r = {.attempt = (char *)ID("1"),
                         .slot = (char *)"launch",
                         .key = (char *)"k",
                         .kind = WIRE_KIND_LAUNCH,
                         .flags = WIRE_RUN_ENDS,
                         .spared = {spares, spared != NULL},
                         .workers = workers,
                         .worker_count = second ? 2 : 1,
                         .grace_ms = deaf ? 1000 : DEADLINE_MS / 2,
                         .log_limit_bytes = 1 << 20};
    *s = (struct scene){0};
    peer_open(&s->peer, WIRE_OWN, OWNER_A);
    wire_put_run(&b, &r);
    send_buf(&s->peer, &b);
    expect_started(&s->peer, ID("1"));
    for (uint32_t i = 0; i < r.worker_count; i++)
        await_worker(s, i);
}

static void finish(struct scene *s)
{
    s->end = expect_record(&s->peer, WIRE_EXIT);
    assert_int_equal(s->end.state, WIRE_STATE_ENDED);
    assert_false(wire_record_success(&s->end));
    for (uint32_t i = 0; i < WORKERS_MAX; i++)
        assert_true(s->workers[i] == 0 || kill(s->workers[i], 0) < 0);
}

static void assert_preempted(struct scene *s, int signo)
{
    struct wire_worker_end end;
    size_t len;
    const char *data = text_of(s, WIRE_NO_RANK, WIRE_STREAM_END, &len);
    assert_int_equal(s->end.cause, WIRE_CAUSE_PREEMPTED);
    assert_int_equal(s->end.value, signo);
    assert_true(s->end.cause_rank == WIRE_NO_RANK);
    assert_int_equal(s->end.stop_requested, 0);
    assert_true(wire_spool_end_get((const uint8_t *)data, len, &end)); /* and there is only one */
    assert_int_equal(end.cause, WIRE_CAUSE_PREEMPTED);
    assert_int_equal(end.value, signo);
    assert_true(end.end_mono_ns == s->end.cause_mono_ns);
    assert_non_null(strstr(s->end.tail, "rhrun: told to end by signal"));
}

static void assert_not_preempted(struct scene *s, enum wire_cause cause, int value)
{
    size_t len;
    text_of(s, WIRE_NO_RANK, WIRE_STREAM_END, &len);
    assert_int_equal(len, 0);
    assert_int_equal(s->end.cause, cause);
    assert_int_equal(s->end.value, value);
}

/* Until the END of a worker is there. */
static void await_end(struct scene *s, uint32_t rank)
{
    for (size_t len = 0; text_of(s, rank, WIRE_STREAM_END, &len), len == 0;) {
        assert_int_equal(peer_frame(&s->peer), WIRE_OUTPUT);
        take_output(&s->peer);
    }
}

/* Until a process is stopped (T), or has ended and is not reaped (Z). */
static void await_state(pid_t pid, char wanted)
{
    char path[40], line[512], state = 0;
    uint64_t deadline_ns = mono_ns() + DEADLINE_MS * 1000000ull;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    while (state != wanted) {
        assert_true(mono_ns() < deadline_ns);
        FILE *f = fopen(path, "r");
        assert_non_null(f);
        assert_non_null(fgets(line, sizeof line, f));
        fclose(f);
        assert_int_equal(sscanf(strrchr(line, ')') + 1, " %c", &state), 1);
    }
}

static void test_told_to_end(void **state)
{
    static const int signals[] = {SIGTERM, SIGPWR};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
        struct scene s;
        begin(&s, SLEEPS, DEAF, NULL);
        kill(s.supervisor, signals[i]);
        finish(&s);
        assert_preempted(&s, signals[i]);
        assert_int_equal(s.end.worker_count, 2);
        assert_int_equal(s.end.workers[0].value, SIGTERM); /* in order: TERM, then KILL */
        assert_int_equal(s.end.workers[1].value, SIGKILL);
        peer_close(&s.peer);
        folder_remove(NULL);
        assert_int_equal(setup(NULL), 0);
    }
}

/* Worker and supervisor are told together, and the worker is gone before the supervisor looks, whatever its handling of
 * TERM. */
static void test_workers_are_told_first(void **state)
{
    static const char *const workers[] = {SLEEPS, AT_TERM("3"), AT_TERM("143")};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(workers); i++) {
        struct scene s;
        begin(&s, workers[i], NULL, NULL);
        kill(s.supervisor, SIGSTOP);
        await_state(s.supervisor, 'T');
        kill(s.workers[0], SIGTERM);
        await_state(s.workers[0], 'Z');
        kill(s.supervisor, SIGTERM);
        kill(s.supervisor, SIGCONT);
        finish(&s);
        assert_preempted(&s, SIGTERM);
        peer_close(&s.peer);
        folder_remove(NULL);
        assert_int_equal(setup(NULL), 0);
    }
}

/* The worker's own end is no success, though it may have saved its work: the job is not done. */
static void test_a_worker_that_ends_well(void **state)
{
    struct scene s;
    (void)state;
    begin(&s, AT_TERM("0"), NULL, NULL);
    kill(s.supervisor, SIGTERM);
    finish(&s);
    assert_preempted(&s, SIGTERM);
    assert_int_equal(s.end.workers[0].cause, WIRE_CAUSE_NONE);
    peer_close(&s.peer);
}

static void test_a_worker_that_was_spared_before(void **state)
{
    struct scene s;
    (void)state;
    begin(&s, SLEEPS, SLEEPS, "any");
    kill(s.workers[1], SIGKILL);
    await_end(&s, 1);
    kill(s.supervisor, SIGTERM);
    finish(&s);
    assert_preempted(&s, SIGTERM);
    peer_close(&s.peer);
}

/* ---- no preemption ---- */

static void test_a_worker_alone_is_told(void **state)
{
    struct scene s;
    (void)state;
    begin(&s, SLEEPS, NULL, NULL);
    kill(s.workers[0], SIGTERM);
    finish(&s);
    assert_not_preempted(&s, WIRE_CAUSE_SIGNAL, SIGTERM);
    peer_close(&s.peer);
}

static void test_a_stop_that_was_asked_for(void **state)
{
    struct scene s;
    (void)state;
    begin(&s, DEAF, NULL, NULL);
    send_signal(&s.peer, ID("1"), WIRE_STOP, 500);
    kill(s.supervisor, SIGHUP); /* a lost terminal ends nothing */
    finish(&s);
    assert_not_preempted(&s, WIRE_CAUSE_SIGNAL, SIGKILL);
    assert_int_equal(s.end.stop_requested, 1);
    peer_close(&s.peer);
}

/* It was being stopped already. */
static void test_told_after_a_failure(void **state)
{
    struct scene s;
    (void)state;
    begin(&s, DEAF, SLEEPS, NULL);
    kill(s.workers[1], SIGKILL);
    await_end(&s, 1);
    kill(s.supervisor, SIGTERM);
    finish(&s);
    assert_not_preempted(&s, WIRE_CAUSE_SIGNAL, SIGKILL);
    assert_int_equal(s.end.cause_rank, 1);
    peer_close(&s.peer);
}

/* A worker that dies of TERM by itself while a requested stop is on its way: both are distinguished. */
static void test_a_failure_before_a_stop(void **state)
{
    struct scene s;
    (void)state;
    begin(&s, SLEEPS, NULL, NULL);
    kill(s.supervisor, SIGSTOP);
    await_state(s.supervisor, 'T');
    kill(s.workers[0], SIGTERM);
    await_state(s.workers[0], 'Z');
    send_signal(&s.peer, ID("1"), WIRE_STOP, 500);
    send_token(&s.peer, WIRE_PING, 7);
    expect(&s.peer, WIRE_PONG); /* so it was sent on */
    kill(s.supervisor, SIGCONT);
    finish(&s);
    assert_not_preempted(&s, WIRE_CAUSE_SIGNAL, SIGTERM);
    assert_int_equal(s.end.stop_requested, 0);
    peer_close(&s.peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_told_to_end, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_workers_are_told_first, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_a_worker_that_ends_well, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_a_worker_that_was_spared_before, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_a_worker_alone_is_told, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_a_stop_that_was_asked_for, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_told_after_a_failure, setup, folder_remove),
        cmocka_unit_test_setup_teardown(test_a_failure_before_a_stop, setup, folder_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
