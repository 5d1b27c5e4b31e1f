/*
 * Forwards: channels of kind direct-tcpip on the session that carries the agent's stream.
 *
 * libssh2 opens one channel at a time, so the others wait for their turn. A read of any channel takes everything from
 * the socket and keeps the data of other channels, so ssh_pump goes on until a pass has taken nothing from the socket.
 * Buffers are bounded in both directions: to the node by one piece per forward and the peer's window, from the node by
 * our window.
 */
#include "ssh_session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FORWARD_WINDOW = 512 << 10, FORWARD_PACKET = 32768, PIECE = 32000, PIECES_PER_PASS = 16 };

enum forward_state {
    FORWARD_WAITING, /* for its turn */
    FORWARD_OPENING, /* the node was asked */
    FORWARD_OPEN,
    FORWARD_CLOSING, /* our end is closed; the node must be told */
};

struct piece { /* not passed on yet from `at` on */
    uint8_t data[PIECE];
    size_t at, len;
};

struct ssh_forward {
    struct ssh_forward *next;
    struct ssh *s;
    enum forward_state state;
    struct transport_forward what;
    struct loop_fd *watch;
    LIBSSH2_CHANNEL *channel;
    struct piece there, back;     /* to the node, and from it */
    bool readable;                /* our end may have something */
    bool ended_here, ended_there; /* no more data comes from that end */
    bool told_there, told_here;   /* the other end was told */
};

static void close_here(struct ssh_forward *f, const char *refused)
{
    loop_fd_destroy(f->watch);
    f->watch = NULL;
    if (f->what.fd >= 0) {
        close(base_steal_fd(&f->what.fd));
        f->what.ended(f->what.arg, refused);
    }
    f->state = FORWARD_CLOSING;
}

static void ready(void *arg, unsigned events)
{
    struct ssh_forward *f = arg;
    struct transport *t = f->s->t;
    transport_enter(t);
    f->readable = f->readable || (events & LOOP_READ);
    loop_fd_set(f->watch, 0); /* until the pump has seen it */
    if (!transport_stopped(t))
        ssh_pump(f->s);
    transport_leave(t);
}

int ssh_forward_add(struct ssh *s, const struct transport_forward *what)
{
    struct error err = ERROR_INIT;
    size_t count = 0;
    for (const struct ssh_forward *f = s->forwards; f; f = f->next)
        count++;
    struct ssh_forward *f = count < TRANSPORT_FORWARDS_MAX && s->step == STEP_STREAM ? xcalloc(1, sizeof *f) : NULL;
    if (!f)
        return -1;
    fcntl(what->fd, F_SETFL, fcntl(what->fd, F_GETFL) | O_NONBLOCK);
    f->watch = loop_fd_create(s->t->pool->loop, what->fd, ready, f, &err);
    if (!f->watch) {
        free(f);
        return -1;
    }
    f->s = s;
    f->what = *what;
    struct ssh_forward **last = &s->forwards;
    while (*last)
        last = &(*last)->next;
    *last = f;
    loop_timer_start(s->timer, 0);
    return 0;
}

void ssh_forwards_free(struct ssh *s)
{
    while (s->forwards) {
        struct ssh_forward *f = s->forwards;
        s->forwards = f->next;
        close_here(f, NULL);
        free(f); /* the channel goes with the session */
    }
}

/* As libssh2_channel_direct_tcpip_ex, but with our own window size. False: try again later. */
static bool open_there(struct ssh_forward *f)
{
    static const char host[] = "localhost", from[] = "127.0.0.1";
    const uint32_t values[] = {sizeof host - 1, f->what.port, sizeof from - 1, 0};
    const char *const texts[] = {host, NULL, from, NULL};
    uint8_t message[64];
    size_t len = 0;
    char *why = NULL;
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        for (int shift = 24; shift >= 0; shift -= 8)
            message[len++] = (uint8_t)(values[i] >> shift);
        if (texts[i]) {
            memcpy(message + len, texts[i], values[i]);
            len += values[i];
        }
    }
    f->state = FORWARD_OPENING;
    f->channel = libssh2_channel_open_ex(f->s->session, "direct-tcpip", 12, FORWARD_WINDOW, FORWARD_PACKET,
                                         (const char *)message, (unsigned)len);
    if (f->channel) {
        f->state = FORWARD_OPEN;
        f->readable = true;
        return true;
    }
    if (libssh2_session_last_error(f->s->session, &why, NULL, 0) == LIBSSH2_ERROR_EAGAIN)
        return false;
    const bool forbidden = why && strstr(why, "prohibited");
    close_here(f, forbidden ? "its sshd forbids it (AllowTcpForwarding, PermitOpen)" : NULL);
    return true;
}

/* From our end to the node: at most one piece is under way. True: something was passed on. */
static bool pass_there(struct ssh_forward *f)
{
    struct piece *p = &f->there;
    bool any = false;
    for (int i = 0; i < PIECES_PER_PASS && ssh_out_has_room(f->s); i++) {
        if (p->at == p->len && f->readable && !f->ended_here) {
            const ssize_t n = recv(f->what.fd, p->data, sizeof p->data, 0);
            if (n < 0 && errno == EINTR)
                continue;
            f->readable = n > 0;
            p->at = 0;
            p->len = n > 0 ? (size_t)n : 0;
            if (n < 0 && errno != EAGAIN) {
                close_here(f, NULL);
                return true;
            }
            f->ended_here = n == 0;
        }
        if (p->at == p->len)
            break;
        const ssize_t n = libssh2_channel_write(f->channel, (const char *)p->data + p->at, p->len - p->at);
        if (n < 0 && n != LIBSSH2_ERROR_EAGAIN) { /* the node has closed it */
            close_here(f, NULL);
            return true;
        }
        if (n <= 0)
            break;
        p->at += (size_t)n;
        any = true;
    }
    if (f->ended_here && p->at == p->len && !f->told_there && libssh2_channel_send_eof(f->channel) == 0)
        f->told_there = any = true;
    return any;
}

/* From the node to our end. */
static bool pass_back(struct ssh_forward *f)
{
    struct piece *p = &f->back;
    bool any = false;
    for (int i = 0; i < PIECES_PER_PASS; i++) {
        unsigned long waits = 0;
        if (p->at == p->len && !f->ended_there) {
            libssh2_channel_window_read_ex(f->channel, &waits, NULL);
            const ssize_t n = waits ? libssh2_channel_read(f->channel, (char *)p->data, sizeof p->data) : 0;
            p->at = 0;
            p->len = n > 0 ? (size_t)n : 0;
            f->ended_there = n <= 0 && libssh2_channel_eof(f->channel) == 1;
        }
        if (p->at == p->len)
            break;
        const ssize_t n = send(f->what.fd, p->data + p->at, p->len - p->at, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            close_here(f, NULL);
            return true;
        }
        if (n < 0)
            break;
        p->at += (size_t)n;
        any = true;
    }
    if (f->ended_there && p->at == p->len && !f->told_here) {
        shutdown(f->what.fd, SHUT_WR);
        f->told_here = any = true;
    }
    return any;
}

static bool pass(struct ssh_forward *f)
{
    if (f->state != FORWARD_OPEN)
        return false;
    bool any = pass_there(f);
    if (f->state == FORWARD_OPEN)
        any = pass_back(f) || any;
    if (f->state == FORWARD_OPEN && f->told_here && f->told_there)
        close_here(f, NULL);
    return any;
}

static void watch(struct ssh_forward *f)
{
    unsigned events = 0;
    if (f->state == FORWARD_OPEN && !f->readable && !f->ended_here && f->there.at == f->there.len)
        events |= LOOP_READ;
    if (f->state == FORWARD_OPEN && f->back.at < f->back.len)
        events |= LOOP_WRITE;
    if (f->watch)
        loop_fd_set(f->watch, events);
}

/* One at a time. */
static bool open_next(struct ssh *s)
{
    struct ssh_forward *f = s->forwards;
    while (f && f->state != FORWARD_OPENING)
        f = f->next;
    for (struct ssh_forward *first = s->forwards; !f && first; first = first->next)
        f = first->state == FORWARD_WAITING ? first : NULL;
    return f && open_there(f);
}

bool ssh_forwards_pass(struct ssh *s)
{
    bool any = false;
    while (open_next(s))
        any = true;
    for (struct ssh_forward **at = &s->forwards; *at;) {
        struct ssh_forward *f = *at;
        any = pass(f) || any;
        if (f->state == FORWARD_CLOSING && (!f->channel || libssh2_channel_free(f->channel) != LIBSSH2_ERROR_EAGAIN)) {
            *at = f->next;
            free(f);
            continue;
        }
        watch(f);
        at = &f->next;
    }
    return any;
}
