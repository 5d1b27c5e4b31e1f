/* loop: each kind of watcher calls back, and may be destroyed in its own callback. */
#include "rhrun/loop.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

struct seen {
    struct loop *loop;
    struct loop_timer *timer;
    struct loop_fd *fd;
    struct loop_wake *wake;
    struct loop_signal *signal;
    struct loop_child *child;
    int calls, status, sig;
    int pair[2];
    char text[8192];
    bool timed_out, too_long;
};

static void timer_destroys_itself(void *arg)
{
    struct seen *s = arg;
    s->calls++;
    loop_timer_destroy(s->timer);
}

static void test_timer(void **state)
{
    (void)state;
    struct seen s = {.loop = loop_create()};
    s.timer = loop_timer_create(s.loop, timer_destroys_itself, &s);
    struct loop_timer *never = loop_timer_create(s.loop, timer_destroys_itself, &s);
    loop_timer_start(s.timer, 1);
    loop_timer_start(never, 1000000);
    assert_true(loop_timer_active(never));
    loop_timer_stop(never);
    assert_false(loop_timer_active(never));
    loop_timer_destroy(never);
    loop_run(s.loop);
    assert_int_equal(s.calls, 1);
    loop_destroy(s.loop);
}

static void add_one(void *arg)
{
    ((struct seen *)arg)->calls++;
}

static void after_all_timers(void *arg)
{
    struct seen *s = arg;
    assert_int_equal(s->calls, 2);
    s->calls = 10;
}

static void test_last(void **state)
{
    (void)state;
    struct seen s = {.loop = loop_create()};
    struct loop_timer *timers[] = {loop_timer_create(s.loop, add_one, &s), loop_timer_create(s.loop, add_one, &s)};
    struct loop_last *last = loop_last_create(s.loop, after_all_timers, &s);
    loop_last_start(last);
    loop_timer_start(timers[0], 0);
    loop_last_start(last);
    loop_timer_start(timers[1], 0);
    loop_turn(s.loop, false);
    assert_int_equal(s.calls, 10);
    loop_turn(s.loop, false);
    assert_int_equal(s.calls, 10); /* once */
    loop_last_start(last);
    assert_false(loop_turn(s.loop, false)); /* nothing is left to wait for */
    loop_last_destroy(last);
    loop_timer_destroy(timers[0]);
    loop_timer_destroy(timers[1]);
    loop_destroy(s.loop);
}

static void fd_ready(void *arg, unsigned events)
{
    struct seen *s = arg;
    s->calls++;
    if (events & LOOP_WRITE) {
        assert_int_equal(write(s->pair[1], "x", 1), 1);
        loop_fd_set(s->fd, LOOP_READ);
        return;
    }
    assert_true(events & LOOP_READ);
    char c;
    assert_int_equal(read(s->pair[0], &c, 1), 1);
    assert_int_equal(c, 'x');
    loop_fd_destroy(s->fd);
    close(s->pair[0]);
}

static void test_fd(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    struct seen s = {.loop = loop_create()};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s.pair), 0);
    s.fd = loop_fd_create(s.loop, s.pair[0], fd_ready, &s, &err);
    assert_non_null(s.fd);
    loop_fd_set(s.fd, LOOP_WRITE);
    loop_run(s.loop);
    assert_int_equal(s.calls, 2);
    FILE *file = tmpfile();
    assert_null(loop_fd_create(s.loop, fileno(file), fd_ready, &s, &err));
    assert_int_equal(err.code, ERROR_IO);
    fclose(file);
    close(s.pair[1]);
    loop_destroy(s.loop);
}

static void work(void *arg)
{
    ((struct seen *)arg)->status = 7;
}

static void work_done(void *arg)
{
    struct seen *s = arg;
    s->calls += s->status;
}

static void work_dropped(void *arg)
{
    ((struct seen *)arg)->calls += 100;
}

static void test_work(void **state)
{
    (void)state;
    struct seen s = {.loop = loop_create()};
    loop_work(s.loop, work, work_done, &s);
    loop_run(s.loop);
    assert_int_equal(s.calls, 7);
    struct loop_work *w = loop_work(s.loop, work, work_done, &s);
    loop_work_detach(w, work_dropped);
    loop_destroy(s.loop); /* waits for it */
    assert_int_equal(s.calls, 107);
}

static void *sender(void *arg)
{
    loop_wake_send(((struct seen *)arg)->wake);
    return NULL;
}

static void woken(void *arg)
{
    struct seen *s = arg;
    s->calls++;
    loop_wake_destroy(s->wake);
}

static void test_wake(void **state)
{
    (void)state;
    struct seen s = {.loop = loop_create()};
    s.wake = loop_wake_create(s.loop, woken, &s);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, sender, &s), 0);
    loop_run(s.loop);
    pthread_join(thread, NULL);
    assert_int_equal(s.calls, 1);
    loop_destroy(s.loop);
}

static void caught(void *arg, int signum)
{
    struct seen *s = arg;
    assert_int_equal(signum, SIGUSR1);
    s->calls++;
    loop_signal_destroy(s->signal);
    loop_stop(s->loop);
}

static void test_signal(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    struct seen s = {.loop = loop_create()};
    s.signal = loop_signal_create(s.loop, SIGUSR1, caught, &s, &err);
    assert_non_null(s.signal);
    loop_run(s.loop); /* a signal alone does not keep it running */
    assert_int_equal(s.calls, 0);
    kill(getpid(), SIGUSR1);
    struct loop_timer *holds = loop_timer_create(s.loop, timer_destroys_itself, &s);
    loop_timer_start(holds, 1000000);
    loop_run(s.loop); /* until caught() stops it */
    assert_int_equal(s.calls, 1);
    loop_timer_destroy(holds);
    assert_null(loop_signal_create(s.loop, SIGKILL, caught, &s, &err));
    loop_destroy(s.loop);
}

static void exited(void *arg, int status, int sig)
{
    struct seen *s = arg;
    s->calls++;
    s->status = status;
    s->sig = sig;
    loop_child_destroy(s->child);
}

static void spawn(struct seen *s, const char *script)
{
    struct error err = ERROR_INIT;
    const char *argv[] = {"sh", "-c", script, NULL};
    struct loop_child_options options = {.argv = argv, .fds = {-1, s->pair[1] > 0 ? s->pair[1] : -1, -1}};
    s->child = loop_child_spawn(s->loop, &options, exited, s, &err);
    assert_string_equal(err.text, "");
    assert_non_null(s->child);
}

static void test_child(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    struct seen s = {.loop = loop_create()};
    spawn(&s, "exit 3");
    loop_run(s.loop);
    assert_int_equal(s.status, 3);
    spawn(&s, "kill -TERM $$");
    loop_run(s.loop);
    assert_int_equal(s.sig, SIGTERM);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s.pair), 0);
    spawn(&s, "read x; echo got $?"); /* stdin is /dev/null */
    loop_run(s.loop);
    char text[16] = "";
    assert_int_equal(read(s.pair[0], text, sizeof(text)), 6);
    assert_string_equal(text, "got 1\n");
    spawn(&s, "exec sleep 1000");
    int pid = loop_child_pid(s.child);
    loop_child_destroy(s.child); /* it continues without us */
    loop_run(s.loop);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(s.calls, 3);
    const char *argv[] = {"/nonexistent/program", NULL};
    struct loop_child_options options = {.argv = argv, .fds = {-1, -1, -1}};
    assert_null(loop_child_spawn(s.loop, &options, exited, &s, &err));
    assert_non_null(strstr(err.text, "\"/nonexistent/program\": No such file"));
    close(s.pair[0]);
    close(s.pair[1]);
    loop_destroy(s.loop);
}

static void captured(void *arg, const struct loop_capture_result *r)
{
    struct seen *s = arg;
    s->calls++;
    s->status = r->status;
    s->timed_out = r->timed_out;
    s->too_long = r->too_long;
    snprintf(s->text, sizeof(s->text), "%s|%s", r->out, r->error_text);
}

static void capture(struct seen *s, const char *script, const char *input, size_t max, uint64_t timeout_ms)
{
    struct error err = ERROR_INIT;
    const char *argv[] = {"sh", "-c", script, NULL};
    assert_non_null(loop_capture(s->loop, argv, NULL, input, max, timeout_ms, captured, s, &err));
    loop_run(s->loop);
}

static void test_capture(void **state)
{
    (void)state;
    struct seen s = {.loop = loop_create()};
    capture(&s, "cat; echo bad >&2; exit 4", "in\n", 1000, 60000);
    assert_string_equal(s.text, "in\n|bad");
    assert_int_equal(s.status, 4);
    capture(&s, "exec yes", NULL, 5, 60000);
    assert_true(s.too_long);
    assert_string_equal(s.text, "y\ny\ny|");
    capture(&s, "sleep 1000 & wait", NULL, 5, 30);
    assert_true(s.timed_out);
    assert_int_equal(s.calls, 3);
    struct error err = ERROR_INIT;
    const char *argv[] = {"sh", "-c", "sleep 1000", NULL};
    loop_capture_destroy(loop_capture(s.loop, argv, NULL, NULL, 5, 30, captured, &s, &err));
    loop_capture(s.loop, argv, NULL, NULL, 5, 60000, captured, &s, &err);
    loop_destroy(s.loop); /* drops the other one */
    assert_int_equal(s.calls, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timer), cmocka_unit_test(test_last),    cmocka_unit_test(test_fd),
        cmocka_unit_test(test_work),  cmocka_unit_test(test_wake),    cmocka_unit_test(test_signal),
        cmocka_unit_test(test_child), cmocka_unit_test(test_capture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
