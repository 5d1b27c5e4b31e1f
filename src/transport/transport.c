/*
 * The common half of every transport: phases and their deadlines, the write queue, the way from the node's first bytes
 * to `opened`, and the rule that callbacks never run inside a call: a failure is stored and delivered in the next turn
 * of the loop.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static const struct transport_ops *const kinds[] = {
    &transport_ssh_ops, &transport_openssh_ops, &transport_command_ops, &transport_local_ops, &transport_sim_ops,
};

static const char *const phase_names[] = {
    [TRANSPORT_CONFIG] = "config",       [TRANSPORT_RESOLVE] = "resolve",   [TRANSPORT_QUEUED] = "queued",
    [TRANSPORT_CONNECT] = "connect",     [TRANSPORT_HOST_KEY] = "host key", [TRANSPORT_AUTH] = "auth",
    [TRANSPORT_CONTAINER] = "container", [TRANSPORT_AGENT] = "agent",       [TRANSPORT_OPEN] = "open",
    [TRANSPORT_CLOSED] = "closed",
};

const char *transport_phase_name(enum transport_phase phase)
{
    return phase_names[phase];
}

const char *transport_kind_name(enum transport_kind kind)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (kinds[i]->kind == kind)
            return kinds[i]->name;
    return "auto";
}

bool transport_kind_parse(const char *name, enum transport_kind *ret)
{
    if (strcmp(name, "auto") == 0) {
        *ret = TRANSPORT_AUTO;
        return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (strcmp(kinds[i]->name, name) == 0) {
            *ret = kinds[i]->kind;
            return true;
        }
    return false;
}

static const struct transport_ops *ops_of(enum transport_kind kind)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (kinds[i]->kind == kind)
            return kinds[i];
    return &transport_ssh_ops; /* AUTO begins with it */
}

const char *transport_target(const struct transport *t)
{
    return t->host.name ? t->host.name : "this machine";
}

/* ---- life ---- */

static void later(void *arg);
static void deadline_passed(void *arg);

static const char *const *copy_words(struct arena *arena, const char *const *words)
{
    size_t count = 0;
    while (words && words[count])
        count++;
    const char **copy = words ? arena_array(arena, count + 1, sizeof(*copy)) : NULL;
    for (size_t i = 0; i < count; i++)
        copy[i] = arena_strdup(arena, words[i]);
    return copy;
}

struct transport *transport_open(struct transport_pool *pool, const struct transport_host *host,
                                 const struct transport_callbacks *callbacks, void *arg)
{
    struct transport *t = xcalloc(1, sizeof(*t));
    t->pool = pool;
    t->callbacks = *callbacks;
    t->arg = arg;
    t->arena = arena_create();
    t->host = *host;
    t->host.name = arena_strdup(t->arena, host->name);
    t->host.address = arena_strdup(t->arena, host->address);
    t->host.user = arena_strdup(t->arena, host->user);
    t->host.identity_file = arena_strdup(t->arena, host->identity_file);
    t->host.proxy_jump = arena_strdup(t->arena, host->proxy_jump);
    t->host.known_hosts = arena_strdup(t->arena, host->known_hosts);
    t->host.ssh_config = arena_strdup(t->arena, host->ssh_config);
    t->host.command = arena_strdup(t->arena, host->command);
    t->host.wrap = arena_strdup(t->arena, host->wrap);
    t->host.exec = copy_words(t->arena, host->exec);
    snprintf(t->start.arch, sizeof(t->start.arch), "x86_64");
    t->later = loop_timer_create(pool->loop, later, t);
    t->deadline = loop_timer_create(pool->loop, deadline_passed, t);
    t->next_ops = ops_of(host->kind);
    loop_timer_start(t->later, 0);
    return t;
}

static void release(struct transport *t)
{
    if (t->ops)
        t->ops->close(t);
    loop_timer_destroy(t->later);
    loop_timer_destroy(t->deadline);
    buf_free(&t->out);
    buf_free(&t->start.seen);
    buf_free(&t->start.tried);
    buf_free(&t->start.script);
    arena_destroy(t->arena);
    free(t);
}

void transport_close(struct transport *t)
{
    if (!t)
        return;
    t->gone = true;
    if (!t->busy)
        release(t);
}

void transport_enter(struct transport *t)
{
    t->busy++;
}

bool transport_leave(struct transport *t)
{
    t->busy--;
    if (!t->gone || t->busy)
        return !t->gone;
    release(t);
    return false;
}

bool transport_stopped(const struct transport *t)
{
    return t->gone || t->failing || t->next_ops != NULL;
}

static void later(void *arg)
{
    struct transport *t = arg;
    transport_enter(t);
    if (t->failing) {
        if (t->ops)
            t->ops->close(t);
        t->ops = NULL;
        loop_timer_stop(t->deadline);
        t->phase = TRANSPORT_CLOSED;
        t->callbacks.closed(t->arg, &t->error, t->failed_in);
    } else if (t->next_ops) {
        if (t->ops)
            t->ops->close(t);
        t->ops = t->next_ops;
        t->next_ops = NULL;
        t->ops->open(t);
    }
    transport_leave(t);
}

void transport_switch(struct transport *t, const struct transport_ops *ops)
{
    if (transport_stopped(t))
        return;
    loop_timer_stop(t->deadline);
    t->next_ops = ops;
    t->start.seen.len = t->start.scanned = 0;
    loop_timer_start(t->later, 0);
}

void transport_fail(struct transport *t, const struct error *err)
{
    if (t->gone || t->failing || t->phase == TRANSPORT_CLOSED)
        return;
    t->failing = true;
    t->error = *err;
    t->failed_in = t->phase;
    loop_timer_start(t->later, 0);
}

void transport_failf(struct transport *t, enum error_code code, const char *hint, const char *fmt, ...)
{
    struct error err = ERROR_INIT;
    char text[sizeof(err.text)];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (t->phase == TRANSPORT_OPEN)
        error_set(&err, code, "host \"%s\": %s", transport_target(t), text);
    else
        error_set(&err, code, "host \"%s\": %s: %s", transport_target(t), transport_phase_name(t->phase), text);
    if (hint && *hint)
        error_hint(&err, "%s", hint);
    transport_fail(t, &err);
}

void transport_fail_why(struct transport *t, enum error_why why)
{
    t->error.why = why;
}

/* ---- phases ---- */

uint32_t transport_timeout_ms(const struct transport *t)
{
    return t->host.timeout_ms ? t->host.timeout_ms : DEFAULT_TIMEOUT_MS;
}

/* The wrap reports every 4 s that it is busy. */
enum { BUSY_MS = 20000 };

void transport_set_phase(struct transport *t, enum transport_phase phase)
{
    uint32_t ms = transport_timeout_ms(t);
    t->phase = phase;
    if (phase == TRANSPORT_QUEUED || phase == TRANSPORT_OPEN)
        loop_timer_stop(t->deadline);
    else
        loop_timer_start(t->deadline, phase == TRANSPORT_CONTAINER && ms < BUSY_MS ? BUSY_MS : ms);
}

static void deadline_passed(void *arg)
{
    static const char *const hints[] = {
        [TRANSPORT_CONFIG] = "a Match exec or ProxyCommand of your ssh_config may hang: try ssh -G",
        [TRANSPORT_RESOLVE] = "is the name server reachable?",
        [TRANSPORT_QUEUED] = "",
        [TRANSPORT_CONNECT] = "is the host up, and does a firewall let this port through?",
        [TRANSPORT_HOST_KEY] = "something accepts connections there but does not answer as an SSH server",
        [TRANSPORT_AUTH] = "the server takes long to log in: look at its DNS and PAM settings",
        [TRANSPORT_CONTAINER] = "the runtime there does not answer: try docker info on the host",
        [TRANSPORT_AGENT] = "the login works but the agent does not start: do login files wait for input?",
        [TRANSPORT_OPEN] = "",
        [TRANSPORT_CLOSED] = "",
    };
    struct transport *t = arg;
    const char *hint = hints[t->phase];
    if (transport_stopped(t))
        return;
    transport_enter(t);
    bool goes_on = t->ops && t->ops->timed_out && t->ops->timed_out(t);
    if (!transport_leave(t) || goes_on)
        return;
    transport_failf(t, ERROR_TIMEOUT, hint, "no answer within %.3g s", transport_timeout_ms(t) / 1000.0);
}

enum transport_phase transport_phase(const struct transport *t)
{
    return t->phase;
}

const char *transport_host_digest(const struct transport *t)
{
    return t->digest;
}

enum transport_kind transport_kind(const struct transport *t)
{
    if (t->host.kind == TRANSPORT_AUTO && t->phase < TRANSPORT_AGENT)
        return TRANSPORT_AUTO;
    const struct transport_ops *ops = t->next_ops ? t->next_ops : t->ops;
    return ops ? ops->kind : t->host.kind;
}

/* ---- writing ---- */

size_t transport_queued(const struct transport *t)
{
    return t->out.len - t->out_at;
}

void transport_write(struct transport *t, const void *data, size_t len)
{
    if (!len || t->gone || t->failing || t->phase == TRANSPORT_CLOSED)
        return;
    /* Sent bytes are dropped once they are more than half, so each byte moves at most once. */
    if (t->out_at > t->out.len / 2) {
        buf_consume(&t->out, t->out_at);
        t->out_at = 0;
    }
    buf_append(&t->out, data, len);
    if (transport_queued(t) >= TRANSPORT_QUEUE_HIGH)
        t->high = true;
    if (t->ops && t->told && !t->next_ops)
        t->ops->flush(t);
}

size_t transport_outgoing(struct transport *t, const uint8_t **ret)
{
    if (t->start.script_at < t->start.script.len) {
        *ret = (const uint8_t *)t->start.script.data + t->start.script_at;
        return t->start.script.len - t->start.script_at;
    }
    if (t->start.waits)
        return 0;
    if (t->start.left) {
        *ret = t->start.data;
        return t->start.left;
    }
    if (!t->told || !transport_queued(t))
        return 0;
    *ret = (const uint8_t *)t->out.data + t->out_at + t->early;
    return transport_queued(t) - t->early;
}

static void sent_for_good(struct transport *t, size_t len)
{
    t->out_at += len;
    if (t->out_at == t->out.len) {
        buf_clear(&t->out);
        t->out_at = 0;
    }
    if (t->high && transport_queued(t) < TRANSPORT_QUEUE_HIGH / 2) {
        t->high = false;
        if (t->callbacks.drained && !transport_stopped(t))
            t->callbacks.drained(t->arg);
    }
}

void transport_sent(struct transport *t, size_t len)
{
    if (t->start.script_at < t->start.script.len) {
        t->start.script_at += len;
    } else if (t->start.left) {
        t->start.data += len;
        t->start.left -= len;
    } else if (t->phase != TRANSPORT_OPEN) {
        t->early += len;
    } else {
        sent_for_good(t, len);
    }
}

/* ---- reading ---- */

void transport_pause(struct transport *t)
{
    t->paused = true;
}

void transport_resume(struct transport *t)
{
    if (!t->paused)
        return;
    t->paused = false;
    if (t->ops && !transport_stopped(t))
        t->ops->flush(t);
}

static void tell_opened(struct transport *t)
{
    if (t->told)
        return;
    t->told = true;
    if (t->callbacks.opened)
        t->callbacks.opened(t->arg);
}

static void agent_speaks(struct transport *t)
{
    transport_set_phase(t, TRANSPORT_OPEN);
    t->spoke = true;
    tell_opened(t);
    if (transport_stopped(t))
        return;
    size_t early = t->early;
    t->early = 0;
    sent_for_good(t, early);
    struct buf seen = t->start.seen;
    if (seen.len > t->start.scanned && t->ops->answered)
        t->ops->answered(t);
    t->start.seen = (struct buf){0};
    if (seen.len && !transport_stopped(t))
        t->callbacks.data(t->arg, (const uint8_t *)seen.data, seen.len);
    buf_free(&seen);
    if (!transport_stopped(t))
        t->ops->flush(t);
}

void transport_started(struct transport *t)
{
    t->early = 0;
    if (t->host.command) {
        transport_set_phase(t, TRANSPORT_OPEN);
        t->spoke = true;
    }
    tell_opened(t);
    if (!transport_stopped(t))
        t->ops->flush(t);
}

void transport_received(struct transport *t, const uint8_t *data, size_t len)
{
    if (transport_stopped(t))
        return;
    if (t->phase == TRANSPORT_OPEN) {
        t->heard = true;
        if (t->ops->answered)
            t->ops->answered(t);
        t->callbacks.data(t->arg, data, len);
        return;
    }
    struct error err = ERROR_INIT;
    switch (start_feed(t, data, len, &err)) {
    case START_NONE:
        break;
    case START_SHELL:
        transport_set_phase(t, TRANSPORT_AGENT);
        transport_started(t);
        if (!transport_stopped(t))
            transport_received(t, (const uint8_t *)"", 0); /* more may have come with it */
        break;
    case START_BUSY:
        transport_set_phase(t, TRANSPORT_CONTAINER);
        transport_received(t, (const uint8_t *)"", 0);
        break;
    case START_OPENED:
        agent_speaks(t);
        break;
    case START_AGAIN:
        if (!t->ops->again(t))
            transport_failf(t, ERROR_INFRA, "", "the node could not keep the agent: tried %s", t->start.tried.data);
        break;
    case START_FAILED:
        t->phase = TRANSPORT_AGENT; /* openssh could not tell before */
        transport_fail(t, &err);
        break;
    }
}

/* The last non-empty line of a text, without control characters. */
void transport_last_line(const char *text, char *out, size_t size)
{
    size_t end = strlen(text);
    while (end && (unsigned char)text[end - 1] <= ' ')
        end--;
    size_t start = end;
    while (start && text[start - 1] != '\n' && text[start - 1] != '\r')
        start--;
    snprintf(out, size, "%.*s", (int)(end - start), text + start);
    str_printable(out);
}

void transport_ended(struct transport *t, const char *text)
{
    char line[400];
    transport_last_line(text, line, sizeof(line));
    if (!line[0] && t->phase == TRANSPORT_AGENT && t->start.seen.len)
        transport_last_line(t->start.seen.data, line, sizeof(line));
    if (t->phase == TRANSPORT_OPEN)
        transport_failf(t, ERROR_INFRA, "", "connection lost: %s", line[0] ? line : "the agent has ended");
    else
        transport_failf(t, ERROR_INFRA, "", "it ended before it spoke%s%s", line[0] ? ": " : "", line);
}

int transport_forward(struct transport *t, const struct transport_forward *f)
{
    return t->phase == TRANSPORT_OPEN && !t->failing && transport_can_forward(t) ? t->ops->forward(t, f) : -1;
}

bool transport_can_forward(const struct transport *t)
{
    return t->ops && t->ops->forward;
}

const char *const *transport_login(const struct transport_host *host, bool terminal, const char *text,
                                   struct arena *arena)
{
    size_t count = 0;
    if (host->kind != TRANSPORT_LOCAL && host->kind != TRANSPORT_COMMAND)
        return openssh_login(host, terminal, text, arena);
    while (host->kind == TRANSPORT_COMMAND && host->exec[count])
        count++;
    const char **argv = arena_array(arena, count + 4, sizeof(*argv));
    for (size_t i = 0; i < count; i++)
        argv[i] = host->exec[i];
    if (count == 0)
        argv[count++] = "/bin/sh";
    argv[count++] = "-c";
    argv[count++] = arena_strdup(arena, text);
    return argv;
}

/* A path below the home directory keeps its ~ outside of quotes, which would keep the shell from expanding it. */
static void put_path(struct buf *b, const char *path)
{
    const bool home = strncmp(path, "~/", 2) == 0 && path[2];
    buf_puts(b, home ? "~/" : "");
    buf_shell_quote(b, home ? path + 2 : path);
}

const char *transport_by_hand(const struct transport_host *host, struct arena *arena)
{
    struct buf b = {0};
    for (size_t i = 0; host->kind == TRANSPORT_COMMAND && host->exec[i]; i++) {
        buf_puts(&b, i ? " " : "");
        buf_shell_quote(&b, host->exec[i]);
    }
    if (host->kind != TRANSPORT_COMMAND) {
        const char *const paths[][2] = {{"-F", host->ssh_config}, {"-i", host->identity_file}};
        buf_puts(&b, "ssh");
        for (size_t i = 0; i < ARRAY_LEN(paths); i++)
            if (paths[i][1]) {
                buf_printf(&b, " %s ", paths[i][0]);
                put_path(&b, paths[i][1]);
            }
        if (host->port)
            buf_printf(&b, " -p %u", host->port);
        if (host->proxy_jump && strcmp(host->proxy_jump, "none") != 0) {
            buf_puts(&b, " -J ");
            buf_shell_quote(&b, host->proxy_jump);
        }
        if (host->known_hosts) { /* otherwise ssh reads, and writes, another file */
            const bool blank = strpbrk(host->known_hosts, " \t") != NULL;
            CLEANUP(cleanup_free)
            char *option =
                xasprintf("UserKnownHostsFile=%s%s%s", blank ? "\"" : "", host->known_hosts, blank ? "\"" : "");
            buf_puts(&b, " -o ");
            buf_shell_quote(&b, option);
        }
        if (host->address) {
            CLEANUP(cleanup_free) char *option = xasprintf("HostName=%s", host->address);
            buf_puts(&b, " -o ");
            buf_shell_quote(&b, option);
        }
        CLEANUP(cleanup_free)
        char *name = xasprintf("%s%s%s", host->user ? host->user : "", host->user ? "@" : "", host->name);
        buf_putc(&b, ' ');
        buf_shell_quote(&b, name);
    }
    const char *text = arena_strdup(arena, b.data ? b.data : "");
    buf_free(&b);
    return text;
}
