/*
 * ssh: libssh2 on a socket of ours. What keeps it correct (measured on 1.10 to 1.11.1): the send callback takes every
 * byte into our own buffer, so libssh2 never sees a partial send; POLLIN is always watched, POLLOUT while that buffer
 * is not empty, whatever libssh2 says of its directions; the end is always shutdown, session_free, close. TCP_QUICKACK
 * until the agent speaks: sshd sets TCP_NODELAY only at the exec request, so its small packets before that wait 40 ms
 * for a delayed ACK.
 */
#include "ssh_session.h"

#include <errno.h>
#include <fcntl.h>
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    WINDOW = 1 << 20,
    PACKET = 32768,
    WRITE_CHUNK = 32000,
    OUT_HIGH = 256 << 10,
    READS_PER_TURN = 32,
    FORWARD_PASSES = 8,
    KEEPALIVE_S = 30,
    USER_TIMEOUT_MS = 60000,
};

/* ---- the socket ---- */

static int flush_out(struct ssh *s)
{
    while (s->out_at < s->out.len) {
        ssize_t n = send(s->fd, s->out.data + s->out_at, s->out.len - s->out_at, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            if (errno == EAGAIN)
                return 0;
            s->io_errno = errno;
            return -1;
        }
        s->out_at += (size_t)n;
    }
    buf_clear(&s->out);
    s->out_at = 0;
    return 0;
}

static ssize_t tx(libssh2_socket_t fd, const void *data, size_t len, int flags, void **abstract)
{
    struct ssh *s = *abstract;
    (void)fd, (void)flags;
    if (s->closing)
        return (ssize_t)len;
    if (s->io_errno)
        return -EPIPE;
    if (s->out_at > s->out.len / 2) {
        buf_consume(&s->out, s->out_at);
        s->out_at = 0;
    }
    buf_append(&s->out, data, len);
    return flush_out(s) < 0 ? -EPIPE : (ssize_t)len;
}

static ssize_t rx(libssh2_socket_t fd, void *data, size_t len, int flags, void **abstract)
{
    struct ssh *s = *abstract;
    (void)fd, (void)flags;
    if (s->closing)
        return 0;
    for (;;) {
        ssize_t n = recv(s->fd, data, len, 0);
        if (n > 0) {
            s->taken += (uint64_t)n;
            return n;
        }
        if (n == 0) {
            s->eof = true;
            return 0;
        }
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN)
            s->io_errno = errno;
        return -errno;
    }
}

static void quick_ack(struct ssh *s)
{
    int on = 1;
    if (!s->proxy)
        setsockopt(s->fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on));
}

/* ---- session ---- */

static void session_start(struct ssh *s)
{
    if (!ssh_library_start(s, tx, rx)) {
        transport_failf(s->t, ERROR_INTERNAL, "", "libssh2 could not be started");
        return;
    }
    ssh_set_host_key_types(s, known_hosts_types(s->t->pool, &s->config, s->known_name));
    s->step = STEP_HANDSHAKE;
    transport_set_phase(s->t, TRANSPORT_HOST_KEY);
}

bool ssh_out_has_room(const struct ssh *s)
{
    return s->out.len - s->out_at < OUT_HIGH;
}

static void disconnect(struct ssh *s)
{
    ssh_forwards_free(s);
    ssh_auth_free(s);
    loop_fd_destroy(s->watch);
    s->watch = NULL;
    if (s->session) {
        if (s->fd >= 0) {
            flush_out(s);
            shutdown(s->fd, SHUT_RDWR);
        }
        s->closing = true;
        libssh2_session_free(s->session);
        s->closing = false;
    }
    s->session = NULL;
    s->channel = NULL;
    if (s->fd >= 0)
        close(base_steal_fd(&s->fd));
    ssh_proxy_free(s);
    buf_free(&s->out);
    s->out_at = 0;
    s->io_errno = 0;
    s->eof = false;
}

/* ---- from the name to a connection ---- */

static void timer_fired(void *arg);
static void connect_next(struct ssh *s);
static void socket_ready(void *arg, unsigned events);

static void enter_gate(struct ssh *s);

static void granted(void *arg)
{
    struct ssh *s = arg;
    s->address = 0;
    loop_timer_start(s->timer, 0);
    s->step = STEP_CONNECT;
}

static void enter_gate(struct ssh *s)
{
    struct buf name = {0};
    bool proxy = ssh_has_proxy(s);
    if (proxy) {
        buf_puts(&name, "proxy ");
        ssh_proxy_name(s, &name);
    } else {
        buf_puts(&name, s->config.hostname);
    }
    s->step = STEP_GATE;
    transport_set_phase(s->t, TRANSPORT_QUEUED);
    if (gate_enter(s->t->pool, &s->ticket, name.data, proxy ? 0 : s->config.port, granted, s)) {
        s->address = 0;
        s->step = STEP_CONNECT;
        connect_next(s);
    }
    buf_free(&name);
}

static void address_text(const struct address *a, char *out, size_t size)
{
    char ip[64] = "";
    if (a->addr.any.sa_family == AF_INET)
        inet_ntop(AF_INET, &a->addr.v4.sin_addr, ip, sizeof(ip));
    else
        inet_ntop(AF_INET6, &a->addr.v6.sin6_addr, ip, sizeof(ip));
    snprintf(out, size, "%s", ip);
}

static void connect_failed(struct ssh *s, int errnum)
{
    char text[64];
    address_text(&s->addresses[s->address], text, sizeof(text));
    loop_fd_destroy(s->watch);
    s->watch = NULL;
    if (s->fd >= 0)
        close(base_steal_fd(&s->fd));
    if (++s->address < s->address_count) {
        connect_next(s);
        return;
    }
    char hint[sizeof(s->t->error.hint)];
    snprintf(hint, sizeof(hint), "%s by hand: %s",
             errnum == ECONNREFUSED ? "is sshd running there, and is the port right?"
                                    : "is the host up, and does a firewall let this port through?",
             transport_by_hand(&s->t->host, s->t->arena));
    if (errnum == ETIMEDOUT)
        transport_failf(s->t, ERROR_TIMEOUT, hint, "no answer from %s port %u", text, s->config.port);
    else
        transport_failf(s->t, ERROR_INFRA, hint, "%s port %u: %s", text, s->config.port, strerror(errnum));
}

static void connected(struct ssh *s)
{
    int on = 1, idle = KEEPALIVE_S, timeout = USER_TIMEOUT_MS;
    if (!s->proxy) {
        setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        setsockopt(s->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
        setsockopt(s->fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
        setsockopt(s->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
        quick_ack(s);
    }
    session_start(s);
}

static void connect_next(struct ssh *s)
{
    struct error err = ERROR_INIT;
    transport_set_phase(s->t, TRANSPORT_CONNECT);
    if (ssh_has_proxy(s)) {
        if (ssh_proxy_start(s, &err) != 0) {
            transport_failf(s->t, ERROR_INFRA, err.hint, "%s", err.text);
            return;
        }
    } else {
        struct address *a = &s->addresses[s->address];
        if (a->addr.any.sa_family == AF_INET)
            a->addr.v4.sin_port = htons((uint16_t)s->config.port);
        else
            a->addr.v6.sin6_port = htons((uint16_t)s->config.port);
        s->fd = socket(a->addr.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (s->fd < 0 || (connect(s->fd, &a->addr.any, a->len) != 0 && errno != EINPROGRESS)) {
            connect_failed(s, errno);
            return;
        }
    }
    s->watch = loop_fd_create(s->t->pool->loop, s->fd, socket_ready, s, &err);
    if (!s->watch) {
        transport_failf(s->t, ERROR_IO, "", "%s", err.text);
        return;
    }
    if (s->proxy)
        connected(s);
    loop_fd_set(s->watch, s->proxy ? LOOP_READ : LOOP_WRITE);
    if (s->proxy) /* either side may send its banner first: begin */
        loop_timer_start(s->timer, 0);
}

static void resolved(void *arg, const struct address *addresses, size_t count, const char *reason)
{
    struct ssh *s = arg;
    transport_enter(s->t);
    if (!count) {
        transport_failf(s->t, ERROR_INFRA, "check the name, or write its IP address instead: {host: 10.0.0.7}",
                        "\"%s\": %s", s->config.hostname, reason);
    } else {
        s->address_count = count < ADDRESS_LIST_MAX ? count : ADDRESS_LIST_MAX;
        memcpy(s->addresses, addresses, s->address_count * sizeof(*addresses));
        enter_gate(s);
    }
    transport_leave(s->t);
}

/* The spec's settings override ssh_config. */
static void apply_explicit(struct ssh *s, const struct ssh_config *config)
{
    struct transport *t = s->t;
    const struct transport_host *h = &t->host;
    s->config = *config;
    if (h->address)
        s->config.hostname = arena_strdup(t->arena, h->address);
    if (h->user)
        s->config.user = arena_strdup(t->arena, h->user);
    if (h->port)
        s->config.port = h->port;
    s->explicit_paths[0] = h->identity_file ? expand_home(h->identity_file) : NULL;
    s->explicit_paths[1] = h->known_hosts ? expand_home(h->known_hosts) : NULL;
    s->explicit_paths[2] = h->ssh_config ? expand_home(h->ssh_config) : NULL;
    if (h->identity_file) {
        string_list_add(&s->one_identity, s->explicit_paths[0]);
        s->config.identity_files = s->one_identity;
        s->config.certificate_files = (struct string_list){0};
        s->config.identities_only = true;
    }
    if (h->known_hosts) {
        string_list_add(&s->one_known_hosts, s->explicit_paths[1]);
        s->config.user_known_hosts = s->one_known_hosts;
        s->config.global_known_hosts = (struct string_list){0};
        if (h->trust_first) {
            s->config.strict = STRICT_ACCEPT_NEW;
            s->config.hash_known_hosts = false;
        }
    }
    if (!h->timeout_ms && config->connect_timeout_ms)
        t->host.timeout_ms = config->connect_timeout_ms;
    s->known_name = known_hosts_name(&s->config, s->config.hostname, s->config.port);
}

bool ssh_can_switch(const struct ssh *s)
{
    return s->t->host.kind == TRANSPORT_AUTO && !s->t->pool->no_ssh;
}

static void configured(void *arg, const struct ssh_config *config, const struct error *err)
{
    struct ssh *s = arg;
    transport_enter(s->t);
    if (!config) {
        transport_failf(s->t, err->code, err->hint, "%s", err->text);
        transport_leave(s->t);
        return;
    }
    apply_explicit(s, config);
    unsigned known = known_hosts_types(s->t->pool, &s->config, s->known_name);
    unsigned can = KEY_ED25519 | KEY_ECDSA_256 | KEY_ECDSA_384 | KEY_ECDSA_521 | (ssh_rsa_host_keys() ? KEY_RSA : 0u);
    if (ssh_can_switch(s) && ((known && !(known & can)) || ssh_wants_openssh(s))) {
        transport_switch(s->t, &transport_openssh_ops);
    } else if (s->config.beyond) {
        transport_failf(s->t, ERROR_INFRA, "leave transport out, or set transport: openssh",
                        "transport: ssh cannot do what your ssh configuration says of %s", s->config.beyond);
    } else if (ssh_has_proxy(s)) {
        enter_gate(s);
    } else {
        s->step = STEP_RESOLVE;
        transport_set_phase(s->t, TRANSPORT_RESOLVE);
        resolve(s->t->pool, &s->resolver, s->config.hostname, s->config.family, resolved, s);
    }
    transport_leave(s->t);
}

/* ---- another try ---- */

/* When too many connections are not logged in yet, sshd drops new ones before its banner (MaxStartups). */
bool ssh_retry(struct ssh *s)
{
    if (s->tries >= s->t->pool->retries || libssh2_session_banner_get(s->session) || s->proxy)
        return false;
    s->tries++;
    disconnect(s);
    gate_leave(&s->ticket);
    uint16_t jitter;
    random_bytes(&jitter, sizeof(jitter));
    uint64_t base = 50u << (s->tries < 5 ? s->tries : 5u);
    s->step = STEP_RETRY;
    transport_set_phase(s->t, TRANSPORT_QUEUED);
    loop_timer_start(s->timer, base / 2 + jitter % base);
    return true;
}

/* ---- the stream ---- */

static void lost(struct ssh *s)
{
    struct transport *t = s->t;
    char line[300];
    ssh_last_line(ssh_proxy_text(s), line, sizeof(line));
    if (s->io_errno)
        snprintf(line, sizeof(line), "%s", strerror(s->io_errno));
    transport_failf(t, ERROR_INFRA, "", t->phase == TRANSPORT_OPEN ? "connection lost: %s" : "%s",
                    line[0] ? line : "the server closed the connection");
}

static bool broken(const struct ssh *s, ssize_t rc)
{
    return (rc < 0 && rc != LIBSSH2_ERROR_EAGAIN) || s->io_errno;
}

/* Both streams until nothing is left. True: there may be more. */
static bool stream_read(struct ssh *s)
{
    static uint8_t data[READ_SIZE]; /* used only within one iteration, on the loop's one thread */
    struct transport *t = s->t;
    for (int i = 0; i < READS_PER_TURN; i++) {
        ssize_t n = 0, e = libssh2_channel_read_stderr(s->channel, (char *)data, sizeof(data));
        if (e > 0) {
            buf_append(&s->errors, data, (size_t)e);
            if (s->errors.len > ERROR_TAIL_MAX)
                buf_consume(&s->errors, s->errors.len - ERROR_TAIL_MAX);
        }
        if (!t->paused) {
            n = libssh2_channel_read(s->channel, (char *)data, sizeof(data));
            if (n > 0)
                transport_received(t, data, (size_t)n);
        }
        if (transport_stopped(t) || s->step != STEP_STREAM)
            return false;
        if (e > 0 || n > 0)
            continue;
        if (libssh2_channel_eof(s->channel) == 1 && !t->paused) {
            transport_ended(t, s->errors.data ? s->errors.data : "");
            return false;
        }
        if (broken(s, n) || broken(s, e) || (s->eof && !t->paused))
            lost(s);
        return false;
    }
    return true;
}

static void stream_write(struct ssh *s)
{
    struct transport *t = s->t;
    const uint8_t *data;
    size_t len;
    while (!transport_stopped(t) && ssh_out_has_room(s) && (len = transport_outgoing(t, &data)) > 0) {
        ssize_t n = libssh2_channel_write(s->channel, (const char *)data, len < WRITE_CHUNK ? len : WRITE_CHUNK);
        if (n == LIBSSH2_ERROR_EAGAIN || n == 0)
            return;
        if (n < 0) {
            /* The node's script may have ended and printed why: read that first. */
            if (libssh2_channel_eof(s->channel) != 1 && n != LIBSSH2_ERROR_CHANNEL_CLOSED &&
                n != LIBSSH2_ERROR_CHANNEL_EOF_SENT)
                lost(s);
            return;
        }
        transport_sent(t, (size_t)n);
    }
}

/* Any read also takes other channels' data from the socket; that data must not wait for the next packet. */
static void serve_forwards(struct ssh *s)
{
    uint64_t taken;
    bool more = true;
    for (int i = 0; i < FORWARD_PASSES && more; i++) {
        taken = s->taken;
        more = ssh_forwards_pass(s);
        more = stream_read(s) || more || s->taken != taken;
        if (transport_stopped(s->t) || s->step != STEP_STREAM)
            return;
    }
    if (more)
        loop_timer_start(s->timer, 0);
}

static void update_watch(struct ssh *s)
{
    const uint8_t *data;
    unsigned events = LOOP_READ;
    /* Paused, the socket is read only while a write may wait for the peer's window. */
    if (s->step == STEP_STREAM && s->t->paused && !s->forwards && !transport_outgoing(s->t, &data))
        events = 0;
    if (s->out.len > s->out_at)
        events |= LOOP_WRITE;
    if (s->watch)
        loop_fd_set(s->watch, events);
}

/* One step. True: the next can be taken at once. */
static bool step(struct ssh *s)
{
    struct transport *t = s->t;
    bool done = false, blocked = false;
    int rc;
    switch (s->step) {
    case STEP_CONFIG:
    case STEP_RESOLVE:
    case STEP_GATE:
    case STEP_RETRY:
    case STEP_CONNECT:
    case STEP_AGENTS:
    case STEP_LOAD:
        return false;
    case STEP_HANDSHAKE:
        rc = libssh2_session_handshake(s->session, s->fd);
        if (rc == LIBSSH2_ERROR_EAGAIN)
            return false;
        if (rc != 0)
            ssh_handshake_failed(s, rc);
        else if (ssh_host_key_ok(s))
            ssh_auth_begin(s);
        return rc == 0;
    case STEP_AUTH:
        ssh_auth_step(s, &done, &blocked);
        if (done) {
            gate_leave(&s->ticket);
            transport_set_phase(t, TRANSPORT_AGENT);
            s->step = STEP_CHANNEL;
        }
        return !blocked;
    case STEP_CHANNEL:
        s->channel = libssh2_channel_open_ex(s->session, "session", 7, WINDOW, PACKET, NULL, 0);
        if (s->channel) {
            buf_clear(&s->command);
            start_command(t, &s->command);
            s->step = STEP_EXEC;
            return true;
        }
        if (libssh2_session_last_errno(s->session) == LIBSSH2_ERROR_EAGAIN)
            return false;
        if (s->eof || s->io_errno)
            lost(s);
        else
            transport_failf(t, ERROR_INFRA, "does its sshd_config forbid sessions (MaxSessions, ForceCommand)?",
                            "the server opened no session");
        return false;
    case STEP_EXEC:
        rc = libssh2_channel_process_startup(s->channel, "exec", 4, s->command.data, (unsigned)s->command.len);
        if (rc == LIBSSH2_ERROR_EAGAIN)
            return false;
        if (rc == 0) {
            s->step = STEP_STREAM;
            transport_started(t);
            return true;
        }
        if (s->eof || s->io_errno)
            lost(s);
        else
            transport_failf(t, ERROR_INFRA, "", "the server refused to run a command");
        return false;
    case STEP_STREAM:
        if (stream_read(s))
            loop_timer_start(s->timer, 0);
        if (!transport_stopped(t) && s->step == STEP_STREAM)
            stream_write(s);
        /* Writing reads too: data that came with it must not wait for the next packet. */
        if (!transport_stopped(t) && s->step == STEP_STREAM && stream_read(s))
            loop_timer_start(s->timer, 0);
        if (s->forwards && !transport_stopped(t) && s->step == STEP_STREAM)
            serve_forwards(s);
        return s->step != STEP_STREAM;
    }
    return false;
}

void ssh_pump(struct ssh *s)
{
    while (!transport_stopped(s->t) && step(s))
        ;
    if (transport_stopped(s->t)) {
        if (s->watch)
            loop_fd_set(s->watch, 0);
        return;
    }
    if (s->step >= STEP_HANDSHAKE)
        update_watch(s);
}

/* ---- events ---- */

static void socket_ready(void *arg, unsigned events)
{
    struct ssh *s = arg;
    struct transport *t = s->t;
    transport_enter(t);
    if (transport_stopped(t)) {
        loop_fd_set(s->watch, 0);
        transport_leave(t);
        return;
    }
    if (s->step == STEP_CONNECT) {
        int errnum = 0;
        socklen_t size = sizeof(errnum);
        getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &errnum, &size);
        if (errnum)
            connect_failed(s, errnum);
        else
            connected(s);
    } else if ((events & LOOP_WRITE) && s->out_at < s->out.len) {
        flush_out(s);
    }
    if (s->step >= STEP_HANDSHAKE)
        ssh_pump(s);
    if ((events & LOOP_READ) && s->fd >= 0 && t->phase < TRANSPORT_OPEN)
        quick_ack(s);
    transport_leave(t);
}

static void timer_fired(void *arg)
{
    struct ssh *s = arg;
    struct transport *t = s->t;
    transport_enter(t);
    if (!transport_stopped(t)) {
        if (s->step == STEP_RETRY)
            enter_gate(s);
        else if (s->step == STEP_CONNECT && s->fd < 0)
            connect_next(s);
        else if (s->step >= STEP_HANDSHAKE)
            ssh_pump(s);
    }
    transport_leave(t);
}

static void ssh_open(struct transport *t)
{
    if (!t->pool->ssh2_ready)
        t->pool->ssh2_ready = libssh2_init(0) == 0;
    struct ssh *s = xcalloc(1, sizeof(*s));
    s->t = t;
    s->fd = s->proxy_err = -1;
    s->timer = loop_timer_create(t->pool->loop, timer_fired, s);
    t->impl = s;
    transport_set_phase(t, TRANSPORT_CONFIG);
    loop_timer_stop(t->deadline); /* ssh -G has its own deadline; a queue of them may be long */
    config_get(t, &s->config_waiter, configured, s);
}

static void ssh_flush(struct transport *t)
{
    struct ssh *s = t->impl;
    if (s && s->step == STEP_STREAM)
        loop_timer_start(s->timer, 0);
}

static void ssh_close(struct transport *t)
{
    struct ssh *s = t->impl;
    if (!s)
        return;
    t->impl = NULL;
    config_cancel(&s->config_waiter);
    resolve_cancel(&s->resolver);
    disconnect(s);
    gate_leave(&s->ticket);
    loop_timer_destroy(s->timer);
    string_list_free(&s->one_identity);
    string_list_free(&s->one_known_hosts);
    for (size_t i = 0; i < ARRAY_LEN(s->explicit_paths); i++)
        free(s->explicit_paths[i]);
    free(s->known_name);
    buf_free(&s->command);
    buf_free(&s->errors);
    free(s);
}

static bool ssh_timed_out(struct transport *t)
{
    struct ssh *s = t->impl;
    if (!s || s->step != STEP_CONNECT || s->proxy || s->address + 1 >= s->address_count)
        return false;
    connect_failed(s, ETIMEDOUT);
    return true;
}

static bool ssh_again(struct transport *t)
{
    struct ssh *s = t->impl;
    /* The old channel is left to session_free: closing it here would wait for the peer. */
    s->channel = NULL;
    s->step = STEP_CHANNEL;
    buf_clear(&s->errors);
    transport_set_phase(t, TRANSPORT_AGENT);
    return true;
}

static int ssh_forward(struct transport *t, const struct transport_forward *f)
{
    return t->impl ? ssh_forward_add(t->impl, f) : -1;
}

const struct transport_ops transport_ssh_ops = {
    .kind = TRANSPORT_SSH,
    .name = "ssh",
    .open = ssh_open,
    .flush = ssh_flush,
    .close = ssh_close,
    .timed_out = ssh_timed_out,
    .again = ssh_again,
    .forward = ssh_forward,
};

void ssh_shared_destroy(struct transport_pool *pool)
{
    private_agent_destroy(pool);
    agents_destroy(pool);
    configs_destroy(pool);
    keys_destroy(pool);
    known_hosts_destroy(pool);
    if (pool->ssh2_ready)
        libssh2_exit();
}
