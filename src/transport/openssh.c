/*
 * openssh: the program `ssh`, as a command (command.c). It can do what libssh2 cannot: certificates, hardware keys,
 * GSSAPI, -etm MACs and RSA host keys with old libssh2, and the user's ControlMaster. It reads the user's configuration
 * itself; only the spec's settings are passed on, as arguments, never through a shell.
 */
#include "ssh.h"

#include <stdlib.h>
#include <string.h>

enum { LOGIN_PHASES = 3 /* ssh's connect, key exchange and login are one phase for us, with this many deadlines */ };

static const char *path_option(struct arena *arena, const char *path)
{
    char *expanded = expand_home(path);
    const char *kept = arena_strdup(arena, expanded);
    free(expanded);
    return kept;
}

enum { WORDS_MAX = 64 };

static void option(const char **argv, size_t *n, const char *text)
{
    argv[(*n)++] = "-o";
    argv[(*n)++] = text;
}

/* The spec's settings for the host, from argv[n] on. */
static size_t put_host(const struct transport_host *h, struct arena *arena, const char **argv, size_t n)
{
    if (h->ssh_config) {
        argv[n++] = "-F";
        argv[n++] = path_option(arena, h->ssh_config);
    }
    if (h->port) {
        argv[n++] = "-p";
        argv[n++] = arena_printf(arena, "%u", h->port);
    }
    if (h->user) {
        argv[n++] = "-l";
        argv[n++] = h->user;
    }
    if (h->identity_file) {
        argv[n++] = "-i";
        argv[n++] = path_option(arena, h->identity_file);
        option(argv, &n, "IdentitiesOnly=yes");
    }
    if (h->proxy_jump && strcmp(h->proxy_jump, "none") != 0) {
        argv[n++] = "-J";
        argv[n++] = h->proxy_jump;
    } else if (h->proxy_jump) {
        option(argv, &n, "ProxyJump=none");
        option(argv, &n, "ProxyCommand=none");
    }
    if (h->address)
        option(argv, &n, arena_printf(arena, "HostName=%s", h->address));
    if (h->known_hosts) {
        option(argv, &n, arena_printf(arena, "UserKnownHostsFile=\"%s\"", path_option(arena, h->known_hosts)));
        option(argv, &n, "GlobalKnownHostsFile=none");
        if (h->trust_first)
            option(argv, &n, "StrictHostKeyChecking=accept-new");
    }
    if (h->timeout_ms)
        option(argv, &n, arena_printf(arena, "ConnectTimeout=%u", (h->timeout_ms + 999) / 1000));
    return n;
}

static const char *const *arguments(struct transport *t)
{
    const char **argv = arena_array(t->arena, WORDS_MAX, sizeof(*argv));
    size_t n = 0;
    struct buf command = {0};
    argv[n++] = "ssh";
    argv[n++] = "-T";
    argv[n++] = "-x";
    argv[n++] = "-a";
    n = put_host(&t->host, t->arena, argv, n);
    if (!t->pool->allow_prompt)
        option(argv, &n, "BatchMode=yes");
    option(argv, &n, "ClearAllForwardings=yes");
    option(argv, &n, "RemoteCommand=none");
    option(argv, &n, "PermitLocalCommand=no");
    option(argv, &n, "EscapeChar=none");
    start_command(t, &command);
    argv[n++] = "--";
    argv[n++] = t->host.name;
    argv[n++] = arena_strdup(t->arena, command.data);
    buf_free(&command);
    return argv;
}

const char *const *openssh_login(const struct transport_host *h, bool terminal, const char *text, struct arena *arena)
{
    const char **argv = arena_array(arena, WORDS_MAX, sizeof(*argv));
    size_t n = 0;
    struct buf command = {0};
    argv[n++] = "ssh";
    argv[n++] = terminal ? "-t" : "-T";
    n = put_host(h, arena, argv, n);
    option(argv, &n, "RemoteCommand=none");
    buf_puts(&command, "exec /bin/sh -c ");
    buf_shell_quote(&command, text);
    argv[n++] = "--";
    argv[n++] = h->name;
    argv[n++] = arena_strdup(arena, command.data);
    buf_free(&command);
    return argv;
}

/* Which phase failed, judged by ssh's stderr, the only source for it. */
static enum transport_phase phase_of(const char *text, const char **ret_hint)
{
    static const struct {
        const char *text;
        enum transport_phase phase;
        const char *hint;
    } signs[] = {
        {"Could not resolve hostname", TRANSPORT_RESOLVE,
         "check the name, or write its IP address instead: {host: 10.0.0.7}"},
        {"REMOTE HOST IDENTIFICATION HAS CHANGED", TRANSPORT_HOST_KEY,
         "somebody may be between you and the host; if the change is expected: ssh-keygen -R HOST"},
        {" revoked by file ", TRANSPORT_HOST_KEY, "its host key is among those that RevokedHostKeys says are revoked"},
        {"Host key verification failed", TRANSPORT_HOST_KEY, "connect once with ssh and compare the fingerprint"},
        {"Permission denied (", TRANSPORT_AUTH,
         "set user or identity_file; a password needs a ControlMaster: log in once with ssh"},
        {"Too many authentication failures", TRANSPORT_AUTH, "set identity_file"},
        {"Connection refused", TRANSPORT_CONNECT, "is sshd running there, and is the port right?"},
        {"Connection timed out", TRANSPORT_CONNECT, "is the host up, and does a firewall let this port through?"},
        {"No route to host", TRANSPORT_CONNECT, "is the host up?"},
        {"Connection closed by", TRANSPORT_CONNECT, ""},
        {"Connection reset by", TRANSPORT_CONNECT, ""},
        {"Unable to negotiate", TRANSPORT_HOST_KEY, "client and server have no algorithm in common"},
        {" bad configuration options", TRANSPORT_CONFIG, "correct the ssh configuration"},
    };
    *ret_hint = "";
    for (size_t i = 0; i < ARRAY_LEN(signs); i++)
        if (strstr(text, signs[i].text)) {
            *ret_hint = signs[i].hint;
            return signs[i].phase;
        }
    return TRANSPORT_AGENT;
}

/* Details of the cause that ssh printed before its last line: which known_hosts entry, which identity file. */
static void append_details(struct buf *b, const char *text)
{
    static const char *const telling[] = {"Offending ", "no such identity", "Identity file ",
                                          "Bad owner or permissions", ": cannot be read"};
    unsigned found = 0;
    while (*text && found < 3) {
        size_t len = strcspn(text, "\r\n");
        for (size_t i = 0; i < ARRAY_LEN(telling); i++) {
            const char *at = memmem(text, len, telling[i], strlen(telling[i]));
            if (!at)
                continue;
            buf_puts(b, found++ ? "; " : " (");
            buf_append(b, text, len);
            break;
        }
        text += len + strspn(text + len, "\r\n");
    }
    if (found)
        buf_putc(b, ')');
}

static void ended(struct transport *t, int status, int sig, const char *said)
{
    const char *hint = "";
    const enum transport_phase told = status == 255 ? phase_of(said, &hint) : TRANSPORT_AGENT;
    /* A command counts as open from the start, because ssh does not say when it has logged in. */
    if (t->phase != TRANSPORT_OPEN || (t->host.command && !t->heard && told != TRANSPORT_AGENT))
        t->phase = told;
    else
        hint = "";
    CLEANUP(cleanup_free) char *error_text = xstrdup(said);
    if (status == 255) /* any other status is the node's */
        config_hide_text(error_text);
    if (t->phase == TRANSPORT_OPEN || t->phase == TRANSPORT_AGENT || !*error_text) {
        if (sig && !*error_text)
            transport_failf(t, ERROR_INFRA, "", "ssh was killed by signal %d", sig);
        else
            transport_ended(t, error_text);
        return;
    }
    const char *end = error_text + strlen(error_text);
    while (end > error_text && (unsigned char)end[-1] <= ' ')
        end--;
    const char *last = end;
    while (last > error_text && last[-1] != '\n' && last[-1] != '\r')
        last--;
    struct buf details = {0};
    append_details(&details, error_text);
    const bool way = told == TRANSPORT_CONNECT || told == TRANSPORT_HOST_KEY || told == TRANSPORT_AUTH;
    if (way && *hint)
        hint = arena_printf(t->arena, "%s; by hand: %s", hint, transport_by_hand(&t->host, t->arena));
    transport_failf(t, ERROR_INFRA, hint, "%.*s%s", (int)(end - last), last, details.data ? details.data : "");
    if (strstr(error_text, "Host key verification failed"))
        transport_fail_why(t, ERROR_WHY_HOST_KEY);
    else if (t->phase == TRANSPORT_AUTH)
        transport_fail_why(t, ERROR_WHY_LOGIN);
    buf_free(&details);
}

static void openssh_open(struct transport *t)
{
    static const struct command_case ssh = {
        .arguments = arguments, .ended = ended, .phases = LOGIN_PHASES, .may_ask = true};
    const char *to = t->host.address ? t->host.address : t->host.name;
    /* The key itself stays inside ssh: this is the name under which ssh verified it. */
    snprintf(t->digest, sizeof(t->digest), "openssh:%.300s:%u", to, t->host.port);
    command_begin(t, &ssh, to, t->host.port);
}

const struct transport_ops transport_openssh_ops = {
    .kind = TRANSPORT_OPENSSH,
    .name = "openssh",
    .open = openssh_open,
    .flush = command_flush,
    .close = command_close,
    .again = command_again,
};
