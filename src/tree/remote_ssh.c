/* Git over ssh: the program `ssh` carries it, as git itself does. So keys, agents, ~/.ssh/config, jumps and host keys
 * are OpenSSH's, and an unknown or changed host key is refused (StrictHostKeyChecking=yes, BatchMode=yes). */
#include "remote.h"

#include <errno.h>
#include <git2/sys/transport.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { ARGS_MAX = 24 };

struct stream {
    git_smart_subtransport_stream parent; /* must be first: libgit2 has a pointer to it */
    struct ssh_transport *transport;
};
struct ssh_transport {
    git_smart_subtransport parent; /* first, likewise */
    struct remote_job *job;
    struct remote_child child; /* pid 0: none */
    struct stream *current;
};

/* ---- which URLs ---- */

bool remote_ssh_parse(const char *url, struct remote_ssh *ret)
{
    const char *host = url, *end, *path;
    char *port = NULL;
    bool scheme = str_starts(url, "ssh://") || str_starts(url, "git+ssh://") || str_starts(url, "ssh+git://");
    if (scheme) {
        host = strstr(url, "://") + 3;
        path = strchr(host, '/');
        if (!path)
            return false;
        const char *at = memchr(host, '@', (size_t)(path - host)), *name = at ? at + 1 : host;
        const char *bracket = *name == '[' ? memchr(name, ']', (size_t)(path - name)) : NULL;
        const char *colon = memchr(bracket ? bracket : name, ':', (size_t)(path - (bracket ? bracket : name)));
        end = colon ? colon : path;
        if (colon && path > colon + 1)
            port = xstrndup(colon + 1, (size_t)(path - colon - 1));
        if (path[1] == '~') /* "/~user/x" is below a home */
            path++;
    } else {
        const char *close = *url == '[' ? strchr(url, ']') : NULL;
        end = strchr(close ? close : url, ':');
        const char *slash = strchr(close ? close : url, '/');
        if (!end || strstr(url, "://") || (slash && slash < end) || str_starts(end, "::"))
            return false;
        path = end + 1;
    }
    struct buf name = {0}; /* without the brackets of an IPv6 address */
    for (const char *p = host; p < end; p++)
        if (*p != '[' && *p != ']')
            buf_putc(&name, *p);
    buf_append(&name, "", 0);
    *ret = (struct remote_ssh){.host = buf_steal(&name), .path = xstrdup(path), .port = port};
    return true;
}

void remote_ssh_free(struct remote_ssh *ssh)
{
    free(ssh->host);
    free(ssh->path);
    free(ssh->port);
    *ssh = (struct remote_ssh){.host = NULL};
}

/* ---- the stream ---- */

/* ssh's own message says more than "early EOF". */
static int ended(struct ssh_transport *t)
{
    char said[2048] = "";
    (void)remote_child_end(t->job, &t->child, false, said, sizeof said);
    /* For a changed host key ssh prints a page, with the place of the old key near the end. */
    const char *offending = strstr(said, "Offending ");
    t->job->why = strstr(said, "Host key verification failed") ? ERROR_WHY_HOST_KEY
                  : strstr(said, "Permission denied")          ? ERROR_WHY_LOGIN
                                                               : ERROR_WHY_NONE;
    CLEANUP(cleanup_free)
    char *changed = offending && t->job->why == ERROR_WHY_HOST_KEY
                        ? xasprintf("its host key has changed (Host key verification failed): %.150s", offending)
                        : NULL;
    git_error_set_str(GIT_ERROR_SSH, changed ? changed : *said ? said : "ssh ended");
    return -1;
}

static int stream_read(git_smart_subtransport_stream *stream, char *buffer, size_t size, size_t *ret_read)
{
    struct ssh_transport *t = ((struct stream *)stream)->transport;
    ssize_t n;
    if (!t->child.pid)
        return -1;
    do
        n = recv(t->child.fd, buffer, size, 0);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return ended(t);
    *ret_read = (size_t)n;
    if (!remote_moved(t->job)) {
        git_error_set_str(GIT_ERROR_SSH, "stopped");
        return -1;
    }
    return 0;
}

static int stream_write(git_smart_subtransport_stream *stream, const char *buffer, size_t len)
{
    struct ssh_transport *t = ((struct stream *)stream)->transport;
    while (len) {
        if (!t->child.pid)
            return -1;
        ssize_t n = send(t->child.fd, buffer, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ended(t);
        buffer += n;
        len -= (size_t)n;
    }
    return 0;
}

static void stream_free(git_smart_subtransport_stream *stream)
{
    struct stream *s = (struct stream *)stream;
    if (s->transport->current == s)
        s->transport->current = NULL;
    free(s);
}

/* ---- the child ---- */

static int start(struct ssh_transport *t, const char *url)
{
    struct remote_ssh ssh;
    if (!remote_ssh_parse(url, &ssh)) {
        git_error_set_str(GIT_ERROR_SSH, "not a URL for ssh");
        return -1;
    }
    struct buf command = {0};
    buf_puts(&command, "git-upload-pack ");
    buf_shell_quote(&command, ssh.path);
    const char *own = getenv("GIT_SSH_COMMAND");
    CLEANUP(cleanup_free) char *shell = own && *own ? xasprintf("%s \"$@\"", own) : NULL;
    const char *argv[ARGS_MAX], *fixed[] = {"-T",
                                            "-oBatchMode=yes",
                                            "-oStrictHostKeyChecking=yes",
                                            "-oConnectTimeout=30",
                                            "-oServerAliveInterval=15",
                                            "-oServerAliveCountMax=3"};
    size_t n = 0;
    if (shell) {
        argv[n++] = "sh";
        argv[n++] = "-c";
        argv[n++] = shell;
    }
    argv[n++] = "ssh"; /* of sh: its $0 */
    for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
        argv[n++] = fixed[i];
    if (ssh.port) {
        argv[n++] = "-p";
        argv[n++] = ssh.port;
    }
    argv[n++] = "--";
    argv[n++] = ssh.host;
    argv[n++] = command.data;
    argv[n] = NULL;
    int rc = -1;
    /* Neither may look like an option, on the host or here. */
    if (*ssh.host == '-' || !*ssh.host || *ssh.path == '-' || !*ssh.path) {
        git_error_set_str(GIT_ERROR_SSH, "a host and a path are needed, and neither may begin with \"-\"");
    } else if (remote_child_start(t->job, (char *const *)(uintptr_t)argv, &t->child) < 0) {
        CLEANUP(cleanup_free) char *why = xasprintf("could not start \"%s\": %s", argv[0], strerror(errno));
        git_error_set_str(GIT_ERROR_SSH, why);
    } else {
        rc = 0;
    }
    buf_free(&command);
    remote_ssh_free(&ssh);
    return rc;
}

static int transport_action(git_smart_subtransport_stream **ret, git_smart_subtransport *transport, const char *url,
                            git_smart_service_t action)
{
    struct ssh_transport *t = (struct ssh_transport *)transport;
    if (action == GIT_SERVICE_UPLOADPACK && t->current) { /* the same conversation goes on */
        *ret = &t->current->parent;
        return 0;
    }
    if (action != GIT_SERVICE_UPLOADPACK_LS || t->child.pid) {
        git_error_set_str(GIT_ERROR_SSH, "only fetching is supported here");
        return -1;
    }
    if (start(t, url) < 0)
        return -1;
    struct stream *s = xcalloc(1, sizeof *s);
    s->parent = (git_smart_subtransport_stream){
        .subtransport = transport, .read = stream_read, .write = stream_write, .free = stream_free};
    s->transport = t;
    t->current = s;
    *ret = &s->parent;
    return 0;
}

static int transport_close(git_smart_subtransport *transport)
{
    struct ssh_transport *t = (struct ssh_transport *)transport;
    if (t->child.pid)
        (void)remote_child_end(t->job, &t->child, true, NULL, 0);
    return 0;
}

static void transport_free(git_smart_subtransport *transport)
{
    (void)transport_close(transport);
    free(transport);
}

static int transport_create(git_smart_subtransport **ret, git_transport *owner, void *job)
{
    (void)owner;
    struct ssh_transport *t = xcalloc(1, sizeof *t);
    t->parent = (git_smart_subtransport){.action = transport_action, .close = transport_close, .free = transport_free};
    t->job = job;
    *ret = &t->parent;
    return 0;
}

int remote_transport(git_transport **ret, git_remote *remote, void *job)
{
    struct remote_ssh ssh;
    const char *url = git_remote_url(remote);
    if (!remote_ssh_parse(url, &ssh))
        return git_transport_new(ret, remote, url);
    remote_ssh_free(&ssh);
    git_smart_subtransport_definition definition = {.callback = transport_create, .rpc = 0, .param = job};
    return git_transport_smart(ret, remote, &definition);
}
