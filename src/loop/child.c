/*
 * Child processes over uv_spawn, and loop_capture on top of them. A destroyed child that still runs
 * keeps its uv handle until it ends (unreferenced), since libuv reaps only children that it knows.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct loop_child {
    uv_process_t uv;
    void (*exited)(void *arg, int status, int signal);
    void *arg;
    bool ended, destroyed;
};

static void child_exited(uv_process_t *uv, int64_t status, int signal)
{
    struct loop_child *c = uv->data;
    if (!c)
        return;
    c->ended = true;
    if (c->destroyed) {
        loop_handle_close((uv_handle_t *)&c->uv);
        return;
    }
    if (c->exited)
        c->exited(c->arg, (int)status, signal);
}

struct loop_child *loop_child_spawn(struct loop *loop, const struct loop_child_options *options,
                                    void (*exited)(void *arg, int status, int signal), void *arg, struct error *err)
{
    struct loop_child *c = xcalloc(1, sizeof(*c));
    uv_stdio_container_t stdio[3];
    for (int i = 0; i < 3; i++) {
        stdio[i].flags = options->fds[i] < 0 ? UV_IGNORE : UV_INHERIT_FD;
        stdio[i].data.fd = options->fds[i];
    }
    uv_process_options_t uv = {
        .exit_cb = child_exited,
        .file = options->file ? options->file : options->argv[0],
        .args = (char **)(uintptr_t)options->argv, /* libuv does not write to them */
        .env = (char **)(uintptr_t)options->env,
        .cwd = options->cwd,
        .flags = options->new_session ? UV_PROCESS_DETACHED : 0,
        .stdio_count = 3,
        .stdio = stdio,
    };
    c->uv.data = c;
    c->exited = exited;
    c->arg = arg;
    int rc = uv_spawn(&loop->uv, &c->uv, &uv);
    if (rc != 0) {
        loop_handle_close((uv_handle_t *)&c->uv); /* uv_spawn initialised it even in failure */
        error_errno(err, ERROR_IO, -rc, "cannot start \"%s\"", uv.file);
        return NULL;
    }
    return c;
}

int loop_child_pid(const struct loop_child *c)
{
    return c->uv.pid;
}

void loop_child_kill(struct loop_child *c, int signum)
{
    if (!c->ended)
        uv_process_kill(&c->uv, signum);
}

void loop_child_destroy(struct loop_child *c)
{
    if (!c)
        return;
    c->destroyed = true;
    if (c->ended)
        loop_handle_close((uv_handle_t *)&c->uv);
    else
        uv_unref((uv_handle_t *)&c->uv);
}

/* ---- capture ---- */

enum { ERROR_TAIL_MAX = 4096 };

struct loop_capture {
    struct loop *loop;
    struct loop_capture *next, **prev;
    struct loop_child *child;
    struct loop_timer *timer;
    struct {
        int fd;
        struct loop_fd *watch;
    } in, out, err;
    struct buf input, output, errors;
    size_t max_bytes;
    bool exited, timed_out, too_long;
    int status, signal;
    void (*done)(void *arg, const struct loop_capture_result *result);
    void *arg;
};

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(base_steal_fd(fd));
}

static void capture_free(struct loop_capture *c)
{
    if (c->prev) {
        *c->prev = c->next;
        if (c->next)
            c->next->prev = c->prev;
    }
    loop_child_destroy(c->child);
    loop_timer_destroy(c->timer);
    loop_fd_destroy(c->in.watch);
    loop_fd_destroy(c->out.watch);
    loop_fd_destroy(c->err.watch);
    close_fd(&c->in.fd);
    close_fd(&c->out.fd);
    close_fd(&c->err.fd);
    buf_free(&c->input);
    buf_free(&c->output);
    buf_free(&c->errors);
    free(c);
}

static void capture_check(struct loop_capture *c)
{
    /* After a kill, grandchildren may hold the pipes for ever, so their output is not awaited. */
    bool killed = c->timed_out || c->too_long;
    if (!c->exited || (!killed && (c->out.fd >= 0 || c->err.fd >= 0)))
        return;
    buf_append(&c->output, "", 0);
    buf_reserve(&c->output, 1);
    buf_reserve(&c->errors, 1);
    c->output.data[c->output.len] = '\0';
    while (c->errors.len && (c->errors.data[c->errors.len - 1] == '\n' || c->errors.data[c->errors.len - 1] == '\r'))
        c->errors.len--;
    c->errors.data[c->errors.len] = '\0';
    struct loop_capture_result result = {
        .status = c->status,
        .signal = c->signal,
        .timed_out = c->timed_out,
        .too_long = c->too_long,
        .out = c->output.data,
        .out_len = c->output.len,
        .error_text = c->errors.data,
    };
    void (*done)(void *, const struct loop_capture_result *) = c->done;
    c->done = NULL; /* destroy inside the callback is then harmless */
    done(c->arg, &result);
    capture_free(c);
}

static void capture_exited(void *arg, int status, int signal)
{
    struct loop_capture *c = arg;
    c->exited = true;
    c->status = status;
    c->signal = signal;
    capture_check(c);
}

static void capture_timeout(void *arg)
{
    struct loop_capture *c = arg;
    c->timed_out = true;
    loop_child_kill(c->child, SIGKILL);
    capture_check(c);
}

static void end_pipe(struct loop_fd **watch, int *fd)
{
    loop_fd_destroy(*watch);
    *watch = NULL;
    close_fd(fd);
}

/* Reads the available bytes. False at the end of the stream. */
static bool read_some(int fd, struct buf *into)
{
    for (int i = 0; i < 16; i++) {
        buf_reserve(into, 16384);
        ssize_t n = read(fd, into->data + into->len, 16384);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        if (n == 0)
            return false;
        into->len += (size_t)n;
    }
    return true;
}

static void capture_output(void *arg, unsigned events)
{
    struct loop_capture *c = arg;
    (void)events;
    bool more = read_some(c->out.fd, &c->output);
    if (c->output.len > c->max_bytes && !c->too_long) {
        c->output.len = c->max_bytes;
        c->too_long = true;
        loop_child_kill(c->child, SIGKILL);
        more = false;
    }
    if (!more)
        end_pipe(&c->out.watch, &c->out.fd);
    capture_check(c);
}

static void capture_errors(void *arg, unsigned events)
{
    struct loop_capture *c = arg;
    (void)events;
    bool more = read_some(c->err.fd, &c->errors);
    if (c->errors.len > ERROR_TAIL_MAX)
        buf_consume(&c->errors, c->errors.len - ERROR_TAIL_MAX);
    if (!more)
        end_pipe(&c->err.watch, &c->err.fd);
    capture_check(c);
}

static void capture_input(void *arg, unsigned events)
{
    struct loop_capture *c = arg;
    (void)events;
    ssize_t n = send(c->in.fd, c->input.data, c->input.len, MSG_NOSIGNAL);
    if (n > 0)
        buf_consume(&c->input, (size_t)n);
    if (c->input.len == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        end_pipe(&c->in.watch, &c->in.fd);
}

struct loop_capture *loop_capture(struct loop *loop, const char *const *argv, const char *const *env, const char *input,
                                  size_t max_bytes, uint64_t timeout_ms,
                                  void (*done)(void *arg, const struct loop_capture_result *result), void *arg,
                                  struct error *err)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, errors[2] = {-1, -1};
    struct loop_capture *c = xcalloc(1, sizeof(*c));
    c->loop = loop;
    c->max_bytes = max_bytes;
    c->done = done;
    c->arg = arg;
    c->in.fd = c->out.fd = c->err.fd = -1;
    /* Sockets, not pipes: writing to a child that is gone must not raise SIGPIPE. */
    if ((input && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0) || pipe2(out, O_CLOEXEC) != 0 ||
        pipe2(errors, O_CLOEXEC) != 0) {
        error_errno(err, ERROR_IO, errno, "cannot start \"%s\"", argv[0]);
        goto fail;
    }
    struct loop_child_options options = {.argv = argv, .env = env, .fds = {in[1], out[1], errors[1]}};
    c->child = loop_child_spawn(loop, &options, capture_exited, c, err);
    if (!c->child)
        goto fail;
    c->in.fd = STEAL_FD(in[0]);
    c->out.fd = STEAL_FD(out[0]);
    c->err.fd = STEAL_FD(errors[0]);
    c->out.watch = loop_fd_create(loop, c->out.fd, capture_output, c, err);
    c->err.watch = loop_fd_create(loop, c->err.fd, capture_errors, c, err);
    if (!c->out.watch || !c->err.watch)
        goto kill;
    loop_fd_set(c->out.watch, LOOP_READ);
    loop_fd_set(c->err.watch, LOOP_READ);
    if (input) {
        buf_puts(&c->input, input);
        c->in.watch = loop_fd_create(loop, c->in.fd, capture_input, c, err);
        if (!c->in.watch)
            goto kill;
        loop_fd_set(c->in.watch, LOOP_WRITE);
    }
    c->timer = loop_timer_create(loop, capture_timeout, c);
    loop_timer_start(c->timer, timeout_ms);
    c->prev = &loop->captures;
    c->next = loop->captures;
    if (c->next)
        c->next->prev = &c->next;
    loop->captures = c;
    close_fd(&in[1]);
    close_fd(&out[1]);
    close_fd(&errors[1]);
    return c;
kill:
    loop_child_kill(c->child, SIGKILL);
fail:
    for (int i = 0; i < 2; i++) {
        close_fd(&in[i]);
        close_fd(&out[i]);
        close_fd(&errors[i]);
    }
    capture_free(c);
    return NULL;
}

void loop_capture_destroy(struct loop_capture *c)
{
    if (!c || !c->done)
        return;
    if (!c->exited)
        loop_child_kill(c->child, SIGKILL);
    capture_free(c);
}

void loop_captures_drop(struct loop *loop)
{
    while (loop->captures)
        loop_capture_destroy(loop->captures);
}
