/* Certificates and credentials of a fetch over https. */
#include "remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER_MAX = 16384 };

int remote_certificate(git_cert *cert, int valid, const char *host, void *arg)
{
    struct remote_job *job = arg;
    if (cert->cert_type == GIT_CERT_X509 && valid)
        return 0;
    CLEANUP(cleanup_free) char *why = xasprintf("the certificate of \"%s\" is not one that this machine trusts", host);
    git_error_set_str(GIT_ERROR_SSL, why);
    job->why = ERROR_WHY_CERTIFICATE;
    return GIT_ECERTIFICATE;
}

/* The value of key in "key=value" lines. */
static char *value_of(const struct buf *text, const char *key)
{
    size_t len = strlen(key);
    for (const char *line = text->data; line && *line;) {
        const char *end = strchr(line, '\n');
        if (!end)
            end = line + strlen(line);
        if (strncmp(line, key, len) == 0 && line[len] == '=')
            return xstrndup(line + len + 1, (size_t)(end - line) - len - 1);
        line = *end ? end + 1 : NULL;
    }
    return NULL;
}

/* Secrets pass only through the child's socket. */
static int ask_git(struct remote_job *job, const char *question, struct buf *ret)
{
    /* No terminal, no window: either a helper has the credentials, or there are none. */
    char *argv[] = {/* in "/", so that the repository of the current folder is not used: its helper may be anything */
                    (char *)(uintptr_t) "env",
                    (char *)(uintptr_t) "GIT_TERMINAL_PROMPT=0",
                    (char *)(uintptr_t) "GIT_ASKPASS=",
                    (char *)(uintptr_t) "SSH_ASKPASS=",
                    (char *)(uintptr_t) "git",
                    (char *)(uintptr_t) "-C",
                    (char *)(uintptr_t) "/",
                    (char *)(uintptr_t) "credential",
                    (char *)(uintptr_t) "fill",
                    NULL};
    struct remote_child child;
    if (remote_child_start(job, argv, &child) < 0)
        return -1;
    size_t len = strlen(question);
    bool sent = send(child.fd, question, len, MSG_NOSIGNAL) == (ssize_t)len && shutdown(child.fd, SHUT_WR) == 0;
    while (sent && ret->len < ANSWER_MAX) {
        char piece[1024];
        ssize_t n = recv(child.fd, piece, sizeof piece, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        buf_append(ret, piece, (size_t)n);
        explicit_bzero(piece, sizeof piece);
    }
    return remote_child_end(job, &child, !sent, NULL, 0) == 0 ? 0 : -1;
}

static int no_credentials(struct remote_job *job, const char *text)
{
    git_error_set_str(GIT_ERROR_NET, text);
    job->why = ERROR_WHY_CREDENTIALS;
    return GIT_EAUTH;
}

int remote_credential(git_credential **ret, const char *url, const char *user, unsigned allowed, void *arg)
{
    struct remote_job *job = arg;
    (void)user;
    if (!(allowed & GIT_CREDENTIAL_USERPASS_PLAINTEXT) || !str_starts(url, "https://"))
        return no_credentials(job, str_starts(url, "http://")
                                       ? "it wants credentials, which are not sent over http: use https"
                                       : "it wants credentials of a kind that is not known here");
    if (job->asked++)
        return no_credentials(job, "it refuses the credentials that \"git credential fill\" gave");
    const char *host = url + strlen("https://"), *path = strchr(host, '/');
    struct buf question = {0}, answer = {0};
    buf_printf(&question, "protocol=https\nhost=%.*s\n", (int)(path ? (size_t)(path - host) : strlen(host)), host);
    if (path && path[1])
        buf_printf(&question, "path=%s\n", path + 1);
    buf_puts(&question, "\n");
    char *name = NULL, *password = NULL;
    if (ask_git(job, question.data, &answer) == 0) {
        name = value_of(&answer, "username");
        password = value_of(&answer, "password");
    }
    int rc = name && password ? git_credential_userpass_plaintext_new(ret, name, password)
                              : no_credentials(job, "it wants credentials, and \"git credential fill\" gives none");
    if (password)
        explicit_bzero(password, strlen(password));
    if (answer.data)
        explicit_bzero(answer.data, answer.len);
    free(name);
    free(password);
    buf_free(&question);
    buf_free(&answer);
    return rc;
}
