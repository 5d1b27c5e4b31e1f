/*
 * A child process whose stdin and stdout are one end of a socketpair: the stream of `local` and
 * `openssh`. Its stderr is kept (the last 4 KiB) to explain an early end.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINGER_MS = 2000 /* from the end of the stream to the child's exit */ };

struct child_stream {
    struct transport *t;
    int fd, err_fd;
    struct loop_fd *watch, *err_watch;
    struct loop_child *child;
    struct loop_timer *linger;
    struct buf errors;
    bool eof, exited;
    int status, signal;
    void (*ended)(struct transport *t, int status, int signal, const char *error_text);
};

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(base_steal_fd(fd));
}

static void update_watch(struct child_stream *c)
{
    const uint8_t *data;
    unsigned events = 0;
    if (!c->eof && !c->t->paused)
        events |= LOOP_READ;
    if (!c->eof && transport_outgoing(c->t, &data))
        events |= LOOP_WRITE;
    if (c->watch)
        loop_fd_set(c->watch, events);
}

static void read_errors(struct child_stream *c)
{
    if (c->err_fd < 0)
        return;
    for (;;) {
        char text[2048];
        ssize_t n = read(c->err_fd, text, sizeof(text));
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            loop_fd_destroy(c->err_watch);
            c->err_watch = NULL;
            close_fd(&c->err_fd);
            return;
        }
        buf_append(&c->errors, text, (size_t)n);
        if (c->errors.len > ERROR_TAIL_MAX)
            buf_consume(&c->errors, c->errors.len - ERROR_TAIL_MAX);
    }
}

/* Waits for both the end of the stream and the exit status, but for the status not long. */
static void check_end(struct child_stream *c, bool waited)
{
    if (!c->eof || transport_stopped(c->t))
        return;
    if (!c->exited && !waited) {
        loop_timer_start(c->linger, LINGER_MS);
        return;
    }
    read_errors(c);
    c->ended(c->t, c->exited ? c->status : -1, c->signal, c->errors.data ? c->errors.data : "");
}

static void stream_read(struct child_stream *c)
{
    static uint8_t data[READ_SIZE]; /* used only within this call, on the loop's one thread */
    for (int i = 0; i < 8 && !transport_stopped(c->t) && !c->t->paused; i++) {
        ssize_t n = recv(c->fd, data, sizeof(data), 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            c->eof = true;
            check_end(c, false);
            return;
        }
        transport_received(c->t, data, (size_t)n);
    }
}

static void stream_write(struct child_stream *c)
{
    const uint8_t *data;
    size_t len;
    while (!transport_stopped(c->t) && (len = transport_outgoing(c->t, &data)) > 0) {
        ssize_t n = send(c->fd, data, len, MSG_NOSIGNAL);
        if (n < 0)
            return; /* EAGAIN; or the peer is gone, which reading reports after the peer's last bytes */
        transport_sent(c->t, (size_t)n);
    }
}

static void stream_ready(void *arg, unsigned events)
{
    struct child_stream *c = arg;
    struct transport *t = c->t;
    transport_enter(t);
    if (!transport_stopped(t) && (events & LOOP_READ))
        stream_read(c);
    if (!transport_stopped(t) && !c->eof && (events & LOOP_WRITE))
        stream_write(c);
    if (!transport_stopped(t))
        update_watch(c);
    else if (c->watch)
        loop_fd_set(c->watch, 0);
    transport_leave(t);
}

static void errors_ready(void *arg, unsigned events)
{
    (void)events;
    read_errors(arg);
}

static void child_exited(void *arg, int status, int sig)
{
    struct child_stream *c = arg;
    struct transport *t = c->t;
    c->exited = true;
    c->status = status;
    c->signal = sig;
    transport_enter(t);
    check_end(c, false);
    transport_leave(t);
}

static void lingered(void *arg)
{
    struct child_stream *c = arg;
    struct transport *t = c->t;
    transport_enter(t);
    check_end(c, true);
    transport_leave(t);
}

void child_stream_flush(struct child_stream *c)
{
    if (!transport_stopped(c->t))
        update_watch(c);
}

void child_stream_kill(struct child_stream *c, int signum)
{
    if (c->child && !c->exited)
        kill(-loop_child_pid(c->child), signum); /* the child has its own session, so it leads a process group */
}

void child_stream_destroy(struct child_stream *c)
{
    if (!c)
        return;
    loop_fd_destroy(c->watch);
    loop_fd_destroy(c->err_watch);
    loop_timer_destroy(c->linger);
    close_fd(&c->fd);
    close_fd(&c->err_fd);
    loop_child_destroy(c->child);
    buf_free(&c->errors);
    free(c);
}

struct child_stream *
child_stream_start(struct transport *t, const char *file, const char *const *argv, const char *const *env,
                   void (*ended)(struct transport *t, int status, int signal, const char *error_text))
{
    struct error err = ERROR_INIT;
    int pair[2] = {-1, -1}, errors[2] = {-1, -1};
    struct child_stream *c = xcalloc(1, sizeof(*c));
    c->t = t;
    c->fd = c->err_fd = -1;
    c->ended = ended;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0 || pipe2(errors, O_CLOEXEC) != 0) {
        error_errno(&err, ERROR_IO, errno, "cannot start \"%s\"", argv[0]);
        goto fail;
    }
    struct loop_child_options options = {
        .file = file, .argv = argv, .env = env, .fds = {pair[1], pair[1], errors[1]}, .new_session = true};
    c->child = loop_child_spawn(t->pool->loop, &options, child_exited, c, &err);
    if (!c->child)
        goto fail;
    c->fd = STEAL_FD(pair[0]);
    c->err_fd = STEAL_FD(errors[0]);
    c->watch = loop_fd_create(t->pool->loop, c->fd, stream_ready, c, &err);
    c->err_watch = loop_fd_create(t->pool->loop, c->err_fd, errors_ready, c, &err);
    c->linger = loop_timer_create(t->pool->loop, lingered, c);
    if (!c->watch || !c->err_watch)
        goto fail;
    loop_fd_set(c->err_watch, LOOP_READ);
    update_watch(c);
    close_fd(&pair[1]);
    close_fd(&errors[1]);
    return c;
fail:
    for (int i = 0; i < 2; i++) {
        close_fd(&pair[i]);
        close_fd(&errors[i]);
    }
    child_stream_destroy(c);
    transport_failf(t, ERROR_IO, err.hint, "%s", err.text);
    return NULL;
}
