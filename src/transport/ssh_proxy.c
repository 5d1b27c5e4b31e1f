/*
 * ProxyJump and ProxyCommand: a child process on a socketpair that carries the connection. For a jump the child is `ssh
 * -W`, so the login to the jump host follows the user's configuration.
 */
#include "ssh_session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *jump(const struct ssh *s)
{
    const char *said = s->t->host.proxy_jump;
    if (said)
        return strcmp(said, "none") == 0 ? NULL : said;
    return s->config.proxy_jump;
}

bool ssh_has_proxy(const struct ssh *s)
{
    return jump(s) || (!s->t->host.proxy_jump && s->config.proxy_command);
}

void ssh_proxy_name(const struct ssh *s, struct buf *ret)
{
    buf_puts(ret, jump(s) ? jump(s) : s->config.proxy_command);
}

static void errors_ready(void *arg, unsigned events)
{
    struct ssh *s = arg;
    char text[2048];
    (void)events;
    for (;;) {
        ssize_t n = read(s->proxy_err, text, sizeof(text));
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            loop_fd_destroy(s->proxy_watch);
            s->proxy_watch = NULL;
            return;
        }
        buf_append(&s->proxy_errors, text, (size_t)n);
        if (s->proxy_errors.len > ERROR_TAIL_MAX)
            buf_consume(&s->proxy_errors, s->proxy_errors.len - ERROR_TAIL_MAX);
    }
}

const char *ssh_proxy_text(struct ssh *s)
{
    if (s->proxy_watch)
        errors_ready(s, 0);
    return s->proxy_errors.data ? s->proxy_errors.data : "";
}

/* The last hop of "a,u@b:22" as arguments; the hops before it go into -J. Strings are in the arena. */
static size_t hop_arguments(struct ssh *s, const char *hops, const char **argv, const char **ret_host)
{
    struct arena *arena = s->t->arena;
    size_t n = 0;
    const char *comma = strrchr(hops, ',');
    if (comma) {
        argv[n++] = "-J";
        argv[n++] = arena_strndup(arena, hops, (size_t)(comma - hops));
    }
    char *hop = arena_strdup(arena, comma ? comma + 1 : hops);
    if (strncmp(hop, "ssh://", 6) == 0)
        hop += 6;
    char *at = strrchr(hop, '@');
    if (at) {
        *at = '\0';
        argv[n++] = "-l";
        argv[n++] = hop;
        hop = at + 1;
    }
    char *end = hop[0] == '[' ? strchr(hop, ']') : NULL;
    char *colon = end ? strchr(end, ':') : strrchr(hop, ':');
    if (!end && colon && strchr(hop, ':') != colon)
        colon = NULL; /* a bare IPv6 address */
    if (colon) {
        *colon = '\0';
        argv[n++] = "-p";
        argv[n++] = colon + 1;
    }
    if (end) {
        *end = '\0';
        hop++;
    }
    *ret_host = hop;
    return n;
}

int ssh_proxy_start(struct ssh *s, struct error *err)
{
    const struct transport_host *h = &s->t->host;
    struct arena *arena = s->t->arena;
    const char *argv[32], *host;
    size_t n = 0;
    const char *hops = jump(s);
    if (hops) {
        argv[n++] = "ssh";
        argv[n++] = "-T";
        if (h->ssh_config) {
            argv[n++] = "-F";
            argv[n++] = s->explicit_paths[2];
        }
        if (!s->t->pool->allow_prompt) {
            argv[n++] = "-o";
            argv[n++] = "BatchMode=yes";
        }
        if (s->explicit_paths[0]) {
            argv[n++] = "-i";
            argv[n++] = s->explicit_paths[0];
        }
        if (s->explicit_paths[1]) {
            argv[n++] = "-o";
            argv[n++] = arena_printf(arena, "UserKnownHostsFile=\"%s\"", s->explicit_paths[1]);
        }
        n += hop_arguments(s, hops, argv + n, &host);
        argv[n++] = "-W";
        argv[n++] = arena_printf(arena, "[%s]:%u", s->config.hostname, s->config.port);
        argv[n++] = "--";
        argv[n++] = host;
    } else {
        char *expanded = config_expand(&s->config, h->name, s->config.proxy_command, false);
        argv[n++] = "/bin/sh";
        argv[n++] = "-c";
        argv[n++] = arena_printf(arena, "exec %s", expanded); /* as ssh does */
        free(expanded);
    }
    argv[n] = NULL;
    int pair[2], errors[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return error_errno(err, ERROR_IO, errno, "cannot start the proxy");
    if (pipe2(errors, O_CLOEXEC | O_NONBLOCK) != 0) {
        error_errno(err, ERROR_IO, errno, "cannot start the proxy");
        close(pair[0]);
        close(pair[1]);
        return -1;
    }
    struct loop_child_options options = {.argv = argv, .fds = {pair[1], pair[1], errors[1]}, .new_session = true};
    s->proxy = loop_child_spawn(s->t->pool->loop, &options, NULL, NULL, err);
    close(pair[1]);
    close(errors[1]);
    s->fd = pair[0];
    s->proxy_err = errors[0];
    if (!s->proxy)
        return -1;
    s->proxy_watch = loop_fd_create(s->t->pool->loop, s->proxy_err, errors_ready, s, err);
    if (!s->proxy_watch)
        return -1;
    loop_fd_set(s->proxy_watch, LOOP_READ);
    return 0;
}

void ssh_proxy_free(struct ssh *s)
{
    loop_child_destroy(s->proxy); /* it ends with the socketpair */
    s->proxy = NULL;
    loop_fd_destroy(s->proxy_watch);
    s->proxy_watch = NULL;
    if (s->proxy_err >= 0)
        close(base_steal_fd(&s->proxy_err));
    buf_free(&s->proxy_errors);
}
