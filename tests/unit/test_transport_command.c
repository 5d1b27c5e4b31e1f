/* transport: any program that leads to a shell; here shells of this machine, and programs that are none. */
#include "rhrun/transport.h"
#include "rhrun/wire.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct peer {
    struct loop *loop;
    struct buf in;
    struct error err;
    enum transport_phase phase;
    bool closed;
};

static void data(void *arg, const uint8_t *bytes, size_t len)
{
    struct peer *p = arg;
    buf_append(&p->in, bytes, len);
    if (memmem(p->in.data, p->in.len, WIRE_MAGIC, strlen(WIRE_MAGIC)))
        loop_stop(p->loop);
}

static void closed(void *arg, const struct error *err, enum transport_phase phase)
{
    struct peer *p = arg;
    p->err = *err;
    p->phase = phase;
    p->closed = true;
    loop_stop(p->loop);
}

/* Opens it, until the agent speaks or the transport has ended; then sends an invalid frame, so that an agent ends. */
static void play(const char *const *argv, uint32_t timeout_ms, struct peer *ret)
{
    static const struct transport_callbacks callbacks = {NULL, data, NULL, closed};
    struct loop *loop = loop_create();
    struct transport_pool *pool = transport_pool_create(loop, NULL);
    const struct transport_host host = {
        .kind = TRANSPORT_COMMAND, .name = "n1", .exec = argv, .timeout_ms = timeout_ms};
    *ret = (struct peer){.loop = loop};
    struct transport *t = transport_open(pool, &host, &callbacks, ret);
    loop_run(loop);
    if (!ret->closed) {
        assert_int_equal(transport_phase(t), TRANSPORT_OPEN);
        assert_int_equal(transport_kind(t), TRANSPORT_COMMAND);
        assert_true(str_starts(transport_host_digest(t), "command:"));
        transport_write(t, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
        while (!ret->closed)
            loop_run(loop);
    }
    transport_close(t);
    transport_pool_destroy(pool);
    loop_destroy(loop);
}

static void assert_agent(const char *const *argv)
{
    struct peer p;
    play(argv, 0, &p);
    if (!p.in.data || !memmem(p.in.data, p.in.len, WIRE_MAGIC, strlen(WIRE_MAGIC)))
        fail_msg("%s: %s", argv[0], p.err.text);
    assert_int_equal(p.phase,
                     TRANSPORT_OPEN); /* the bytes after the upload reached the agent, which ended because of them */
    buf_free(&p.in);
}

static void assert_fails(const char *const *argv, uint32_t timeout_ms, const char *text, const char *hint)
{
    struct peer p;
    play(argv, timeout_ms, &p);
    assert_true(p.closed);
    if (strcmp(p.err.text, text) != 0 || !strstr(p.err.hint, hint))
        fail_msg("\"%s\", hint \"%s\"\nnot \"%s\", hint \"%s\"", p.err.text, p.err.hint, text, hint);
    buf_free(&p.in);
}

#define ARGV(...) ((const char *const[]){__VA_ARGS__, NULL})

/* dash reads ahead on its stdin, bash and busybox do not. */
static void test_shells(void **state)
{
    (void)state;
    assert_agent(ARGV("sh"));
    assert_agent(ARGV("bash", "--norc"));
    assert_agent(ARGV("env", "-i", "PATH=/usr/bin:/bin", "/bin/sh"));
    assert_agent(ARGV("setsid", "-w", "sh", "-s"));
    static const char *const others[] = {"/bin/dash", "/bin/busybox", "/bin/mksh", "/bin/zsh"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (access(others[i], X_OK) == 0)
            assert_agent(strstr(others[i], "busybox") ? ARGV(others[i], "sh") : ARGV(others[i]));
}

static void test_noise(void **state)
{
    (void)state;
    assert_agent(ARGV("sh", "-c", "echo Welcome; echo; echo to a container >&2; exec sh"));
    assert_fails(ARGV("yes"), 0, "host \"n1\": agent: the node printed over 1024 KiB before the agent did",
                 "login files");
}

/* If a folder cannot hold the agent, the program is started once more, for the next folder. */
static void test_again(void **state)
{
    char dir[] = "/tmp/rhrun-command-XXXXXX", count[64], line[200];
    struct peer p;
    struct buf text = {0};
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(count, sizeof count, "%s/count", dir);
    snprintf(line, sizeof line, "echo >>%s; ulimit -f 8; exec sh", count); /* no file of more than 4 or 8 KiB */
    play(ARGV("sh", "-c", line), 0, &p);
    if (!str_starts(p.err.text, "host \"n1\": agent: no folder on the node can hold and run the agent: "))
        fail_msg("%s", p.err.text);
    assert_int_equal(file_read(count, 100, &text, NULL), 0);
    assert_true(text.len >= 2);
    buf_free(&p.in);
    buf_free(&text);
    unlink(count);
    rmdir(dir);
}

static void test_what_is_no_shell(void **state)
{
    (void)state;
    assert_fails(ARGV("/nonexistent/docker", "exec"), 0,
                 "host \"n1\": connect: cannot start \"/nonexistent/docker\": No such file or directory", "");
    assert_fails(ARGV("true"), 0, "host \"n1\": connect: true ended well, but no shell answered",
                 "its last word must be a shell");
    assert_fails(ARGV("false", "a b"), 0, "host \"n1\": connect: false ended with status 1",
                 "try it by hand: false 'a b'");
    assert_fails(ARGV("sh", "-c", "echo Error: no such container: n1 >&2; exit 125"), 0,
                 "host \"n1\": connect: sh ended with status 125: Error: no such container: n1",
                 "try it by hand: sh -c '");
    assert_fails(ARGV("sh", "-c", "kill -9 $$"), 0, "host \"n1\": connect: sh was killed by signal 9", "by hand");
    assert_fails(ARGV("script", "-qc", "sh", "/dev/null"), 0,
                 "host \"n1\": agent: its shell is at a terminal, which would change the bytes", "leave out");
}

/* A silent one is ended, with all its children. */
static void test_hangs(void **state)
{
    char dir[] = "/tmp/rhrun-command-XXXXXX", pids[64], line[200];
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(pids, sizeof pids, "%s/pids", dir);
    snprintf(line, sizeof line, "sleep 1000 & echo $! $$ >%s; wait", pids);
    assert_fails(ARGV("sh", "-c", line), 500, "host \"n1\": connect: sh: no shell answered within 0.5 s", "by hand");
    struct buf text = {0};
    assert_int_equal(file_read(pids, 100, &text, NULL), 0);
    const pid_t child = (pid_t)strtol(text.data, NULL, 10);
    assert_true(child > 1);
    while (kill(child, 0) == 0) /* until its new parent has reaped it; hangs if it lives on */
        usleep(1000);
    assert_int_equal(errno, ESRCH);
    buf_free(&text);
    unlink(pids);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shells),           cmocka_unit_test(test_noise), cmocka_unit_test(test_again),
        cmocka_unit_test(test_what_is_no_shell), cmocka_unit_test(test_hangs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
