/*
 * A client of ssh-agent (PROTOCOL.agent): list and sign, asynchronous, one connection per socket, answers in the order
 * of the requests. Also the pool's private agent, for identity files that this process does not read itself: ssh-add
 * loads them, so OpenSSH handles every format and asks for every passphrase.
 */
#include "ssh.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    REQUEST_IDENTITIES = 11,
    IDENTITIES_ANSWER = 12,
    SIGN_REQUEST = 13,
    SIGN_RESPONSE = 14,
    ANSWER_MAX = 256 << 10,
    IDENTITIES_MAX = 64,
    ADD_TIMEOUT_MS = 120000, /* a person may have to type */
};

extern char **environ;

struct agent_slot {
    struct agent_slot *next;
    struct agent_request *request; /* NULL: the answer is no longer wanted */
};

struct agent_client {
    struct agent_client *next;
    struct transport_pool *pool;
    char *path;
    int fd;
    struct loop_fd *watch;
    struct buf out, in;
    struct agent_slot *first, **last;
};

static void put_u32(struct buf *out, uint32_t v)
{
    uint8_t n[4] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v};
    buf_append(out, n, 4);
}

static uint32_t read_u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

struct agent_client *agent_client_get(struct transport_pool *pool, const char *socket_path)
{
    struct agent_client *c = pool->agents_of_user;
    while (c && strcmp(c->path, socket_path) != 0)
        c = c->next;
    if (c)
        return c;
    c = xcalloc(1, sizeof(*c));
    c->pool = pool;
    c->path = xstrdup(socket_path);
    c->fd = -1;
    c->last = &c->first;
    c->next = pool->agents_of_user;
    pool->agents_of_user = c;
    return c;
}

static void answer_first(struct agent_client *c, const uint8_t *answer, size_t len)
{
    struct agent_slot *slot = c->first;
    struct agent_request *r = slot->request;
    c->first = slot->next;
    if (!c->first)
        c->last = &c->first;
    free(slot);
    if (r) {
        r->slot = NULL;
        r->done(r->arg, answer, len);
    }
}

static void disconnect(struct agent_client *c)
{
    loop_fd_destroy(c->watch);
    c->watch = NULL;
    if (c->fd >= 0)
        close(base_steal_fd(&c->fd));
    buf_free(&c->out);
    buf_free(&c->in);
    while (c->first)
        answer_first(c, NULL, 0);
}

static void client_ready(void *arg, unsigned events)
{
    struct agent_client *c = arg;
    if ((events & LOOP_WRITE) && c->out.len) {
        ssize_t n = send(c->fd, c->out.data, c->out.len, MSG_NOSIGNAL);
        if (n > 0)
            buf_consume(&c->out, (size_t)n);
        else if (errno != EAGAIN && errno != EINTR) {
            disconnect(c);
            return;
        }
    }
    if (events & LOOP_READ) {
        buf_reserve(&c->in, 16384);
        ssize_t n = recv(c->fd, c->in.data + c->in.len, 16384, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            disconnect(c);
            return;
        }
        if (n > 0)
            c->in.len += (size_t)n;
        while (c->in.len >= 4) {
            uint32_t len = read_u32((const uint8_t *)c->in.data);
            if (len == 0 || len > ANSWER_MAX || !c->first) {
                disconnect(c);
                return;
            }
            if (c->in.len < 4 + (size_t)len)
                break;
            uint8_t *answer = xmalloc(len); /* the callback may ask again */
            memcpy(answer, c->in.data + 4, len);
            buf_consume(&c->in, 4 + (size_t)len);
            answer_first(c, answer, len);
            free(answer);
            if (c->fd < 0)
                return;
        }
    }
    loop_fd_set(c->watch, LOOP_READ | (c->out.len ? LOOP_WRITE : 0u));
}

static int client_connect(struct agent_client *c)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    if (strlen(c->path) >= sizeof(addr.sun_path))
        return -1;
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", c->path);
    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd >= 0 && connect(c->fd, (struct sockaddr *)&addr, sizeof(addr)) == 0)
        c->watch = loop_fd_create(c->pool->loop, c->fd, client_ready, c, NULL);
    if (c->watch)
        return 0;
    if (c->fd >= 0)
        close(base_steal_fd(&c->fd));
    return -1;
}

/* message lacks its length */
static void ask(struct agent_client *c, struct agent_request *request, const struct buf *message,
                void (*done)(void *arg, const uint8_t *answer, size_t len), void *arg)
{
    request->slot = NULL;
    request->done = done;
    request->arg = arg;
    if (c->fd < 0 && client_connect(c) != 0) {
        done(arg, NULL, 0);
        return;
    }
    struct agent_slot *slot = xcalloc(1, sizeof(*slot));
    slot->request = request;
    request->slot = slot;
    *c->last = slot;
    c->last = &slot->next;
    put_u32(&c->out, (uint32_t)message->len);
    buf_append(&c->out, message->data, message->len);
    loop_fd_set(c->watch, LOOP_READ | LOOP_WRITE);
}

void agent_list(struct agent_client *client, struct agent_request *request,
                void (*done)(void *arg, const uint8_t *answer, size_t len), void *arg)
{
    struct buf message = {0};
    buf_putc(&message, REQUEST_IDENTITIES);
    ask(client, request, &message, done, arg);
    buf_free(&message);
}

void agent_sign(struct agent_client *client, struct agent_request *request, const uint8_t *blob, size_t blob_len,
                const uint8_t *data, size_t len, uint32_t flags,
                void (*done)(void *arg, const uint8_t *answer, size_t len), void *arg)
{
    struct buf message = {0};
    buf_putc(&message, SIGN_REQUEST);
    put_u32(&message, (uint32_t)blob_len);
    buf_append(&message, blob, blob_len);
    put_u32(&message, (uint32_t)len);
    buf_append(&message, data, len);
    put_u32(&message, flags);
    ask(client, request, &message, done, arg);
    buf_free(&message);
}

void agent_cancel(struct agent_request *request)
{
    if (request->slot)
        request->slot->request = NULL;
    request->slot = NULL;
}

size_t agent_identities(const uint8_t *answer, size_t len, struct agent_identity **ret)
{
    *ret = NULL;
    if (!answer || len < 5 || answer[0] != IDENTITIES_ANSWER)
        return 0;
    uint32_t count = read_u32(answer + 1);
    const uint8_t *p = answer + 5, *end = answer + len;
    size_t n = 0;
    if (count > IDENTITIES_MAX)
        count = IDENTITIES_MAX;
    struct agent_identity *list = xcalloc(count + 1, sizeof(*list));
    while (n < count && end - p >= 4) {
        size_t size = read_u32(p);
        if (size > (size_t)(end - p) - 4)
            break;
        list[n].blob = xmalloc(size + 1);
        memcpy(list[n].blob, p + 4, size);
        list[n++].len = size;
        p += 4 + size;
        if (end - p < 4)
            break;
        size = read_u32(p); /* comment */
        if (size > (size_t)(end - p) - 4)
            break;
        p += 4 + size;
    }
    *ret = list;
    return n;
}

int agent_signature(const uint8_t *answer, size_t len, uint8_t **ret, size_t *ret_len)
{
    if (!answer || len < 5 || answer[0] != SIGN_RESPONSE)
        return -1;
    /* string(string(type) string(raw)) */
    const uint8_t *p = answer + 5, *end = answer + len;
    if (read_u32(answer + 1) > len - 5 || end - p < 4)
        return -1;
    size_t size = read_u32(p);
    if (size > (size_t)(end - p) - 4)
        return -1;
    p += 4 + size;
    if (end - p < 4)
        return -1;
    size = read_u32(p);
    if (size > (size_t)(end - p) - 4)
        return -1;
    *ret = xmalloc(size + 1);
    memcpy(*ret, p + 4, size);
    *ret_len = size;
    return 0;
}

void agents_destroy(struct transport_pool *pool)
{
    while (pool->agents_of_user) {
        struct agent_client *c = pool->agents_of_user;
        pool->agents_of_user = c->next;
        disconnect(c);
        free(c->path);
        free(c);
    }
}

/* ---- the private agent ---- */

struct private_agent {
    struct transport_pool *pool;
    char *socket;
    int fd; /* to `cat`, which ends when this process does, in whatever way; ssh-agent ends with `cat` */
    struct loop_fd *watch;
    struct loop_child *child;
    struct loop_capture *adding;
    char *adding_path;
    struct private_waiter *waiting;
    struct string_list added;
    bool ready, failed;
};

static void add_next(struct private_agent *a);

static bool is_added(const struct private_agent *a, const char *path)
{
    for (size_t i = 0; i < a->added.count; i++)
        if (strcmp(a->added.items[i], path) == 0)
            return true;
    return false;
}

/* Tells everyone who waits for path (NULL: for any). */
static void tell(struct private_agent *a, const char *path, const char *reason)
{
    struct private_waiter **at = &a->waiting;
    while (*at) {
        struct private_waiter *w = *at;
        if (path && strcmp(w->path, path) != 0) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        free(w->path);
        w->path = NULL;
        w->done(w->arg, reason ? NULL : agent_client_get(a->pool, a->socket), reason);
        at = &a->waiting; /* the callback may have changed the list */
    }
}

static void add_done(void *arg, const struct loop_capture_result *r)
{
    struct private_agent *a = arg;
    char *path = a->adding_path;
    a->adding = NULL;
    a->adding_path = NULL;
    if (r->status == 0 && !r->signal && !r->timed_out) {
        string_list_add(&a->added, path);
        tell(a, path, NULL);
    } else {
        const char *line = strrchr(r->error_text, '\n');
        line = line ? line + 1 : r->error_text;
        tell(a, path,
             *line ? line
                   : "encrypted, and its passphrase cannot be asked for here (load it into your ssh-agent: ssh-add)");
    }
    free(path);
    add_next(a);
}

static void add_next(struct private_agent *a)
{
    if (!a->ready || a->adding || !a->waiting)
        return;
    size_t n = 0, count = 0;
    while (environ[count])
        count++;
    const char **env = xcalloc(count + 4, sizeof(*env));
    char *sock = xasprintf("SSH_AUTH_SOCK=%s", a->socket);
    for (size_t i = 0; i < count; i++)
        if (!str_starts(environ[i], "SSH_AUTH_SOCK=") &&
            (a->pool->allow_prompt || !str_starts(environ[i], "SSH_ASKPASS")))
            env[n++] = environ[i];
    env[n++] = sock;
    if (!a->pool->allow_prompt) { /* nobody to ask: fail at once instead of waiting at a terminal */
        env[n++] = "SSH_ASKPASS=/bin/false";
        env[n++] = "SSH_ASKPASS_REQUIRE=force";
    }
    const char *argv[] = {"ssh-add", "-q", "--", a->waiting->path, NULL};
    struct error err = ERROR_INIT;
    a->adding_path = xstrdup(a->waiting->path);
    a->adding = loop_capture(a->pool->loop, argv, env, NULL, 4096, ADD_TIMEOUT_MS, add_done, a, &err);
    free(env);
    free(sock);
    if (!a->adding) {
        free(a->adding_path);
        a->adding_path = NULL;
        tell(a, NULL, err.text);
    }
}

static void private_fail(struct private_agent *a, const char *reason)
{
    a->failed = true;
    loop_fd_destroy(a->watch);
    a->watch = NULL;
    tell(a, NULL, reason);
}

static void private_ready(void *arg, unsigned events)
{
    struct private_agent *a = arg;
    char c;
    (void)events;
    if (recv(a->fd, &c, 1, 0) != 1) {
        private_fail(a, "ssh-agent could not be started");
        return;
    }
    loop_fd_set(a->watch, 0);
    a->ready = true;
    add_next(a);
}

static struct private_agent *private_start(struct transport_pool *pool, struct error *err)
{
    int pair[2];
    if (pool_run_dir(pool, err) != 0)
        return NULL;
    struct private_agent *a = xcalloc(1, sizeof(*a));
    a->pool = pool;
    a->socket = xasprintf("%s/a%d", pool->run_dir, (int)getpid());
    a->fd = -1;
    pool->private_agent = a;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        error_errno(err, ERROR_IO, errno, "cannot start ssh-agent");
        a->failed = true;
        return a;
    }
    unlink(a->socket);
    const char *argv[] = {"ssh-agent", "-a", a->socket, "cat", NULL};
    struct loop_child_options options = {.argv = argv, .fds = {pair[1], pair[1], -1}, .new_session = true};
    a->fd = pair[0];
    a->child = loop_child_spawn(pool->loop, &options, NULL, NULL, err);
    close(pair[1]);
    a->watch = a->child ? loop_fd_create(pool->loop, a->fd, private_ready, a, err) : NULL;
    if (!a->watch) {
        a->failed = true;
        return a;
    }
    /* cat runs once the agent listens, and echoes this. */
    if (send(a->fd, "\n", 1, MSG_NOSIGNAL) == 1)
        loop_fd_set(a->watch, LOOP_READ);
    return a;
}

void private_agent_add(struct transport_pool *pool, struct private_waiter *waiter, const char *path,
                       void (*done)(void *arg, struct agent_client *client, const char *reason), void *arg)
{
    struct error err = ERROR_INIT;
    struct private_agent *a = pool->private_agent ? pool->private_agent : private_start(pool, &err);
    waiter->path = NULL;
    if (!a || a->failed) {
        done(arg, NULL, err.code ? err.text : "ssh-agent could not be started");
        return;
    }
    if (is_added(a, path)) {
        done(arg, agent_client_get(pool, a->socket), NULL);
        return;
    }
    waiter->done = done;
    waiter->arg = arg;
    waiter->path = xstrdup(path);
    waiter->next = NULL;
    struct private_waiter **tail = &a->waiting;
    while (*tail)
        tail = &(*tail)->next;
    *tail = waiter;
    add_next(a);
}

void private_agent_cancel(struct transport_pool *pool, struct private_waiter *waiter)
{
    if (!waiter->path)
        return;
    struct private_waiter **at = &pool->private_agent->waiting;
    while (*at != waiter)
        at = &(*at)->next;
    *at = waiter->next;
    free(waiter->path);
    waiter->path = NULL;
}

void private_agent_destroy(struct transport_pool *pool)
{
    struct private_agent *a = pool->private_agent;
    if (!a)
        return;
    pool->private_agent = NULL;
    loop_capture_destroy(a->adding);
    loop_fd_destroy(a->watch);
    if (a->fd >= 0)
        close(a->fd); /* ends cat, and the agent with it */
    loop_child_destroy(a->child);
    unlink(a->socket);
    string_list_free(&a->added);
    free(a->adding_path);
    free(a->socket);
    free(a);
}
