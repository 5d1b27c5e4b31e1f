/*
 * The provider's notice that it takes this machine back. A separate process asks for it, beside the supervisor and not
 * below it, so that a bad answer or a hang there cannot affect the workers and their output. It ends with the
 * supervisor, and reports to it by a signal.
 */
#include "super.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REPLY_MAX = 2048, READS_MAX = 8, WAIT_S = 2, STATUS_AT = 9 /* of "HTTP/1.1 200" */ };

/* Sends the request and reads the answer, with a limit on time and size. The body if the status is 200, or NULL. */
static char *ask(const struct wire_notice *n, const char *request, const char *token, char reply[REPLY_MAX])
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)n->port), .sin_addr = {htonl(n->address)}};
    const struct timeval wait = {.tv_sec = WAIT_S};
    CLEANUP(cleanup_close) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t len = 0;
    ssize_t got = 1;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    snprintf(reply, REPLY_MAX, "%s%s\r\n\r\n", request, token);
    if (connect(fd, (const struct sockaddr *)&to, sizeof to) < 0 || write_all(fd, reply, strlen(reply)) < 0)
        got = 0;
    for (int i = 0; i < READS_MAX && got > 0 && len < REPLY_MAX - 1; i++) {
        got = read(fd, reply + len, REPLY_MAX - 1 - len);
        len += got > 0 ? (size_t)got : 0;
    }
    memset(reply + len, 0, REPLY_MAX - len);
    char *body = len < REPLY_MAX - 1 ? strstr(reply, "\r\n\r\n") : NULL;
    return body && str_starts(reply, "HTTP/1.") && str_starts(reply + STATUS_AT, "200") ? body + 4 : NULL;
}

void notice_watch(const struct supervise *s, int dir_fd, char *said)
{
    static char reply[REPLY_MAX], token[REPLY_MAX / 2];
    const struct wire_notice *n = &s->run->notice;
    /* not to be read: a hang-up shows that the supervisor has ended */
    struct pollfd bell = {.fd = openat(dir_fd, "bell", O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
    prctl(PR_SET_NAME, "rhrun-notice", 0, 0, 0);
    for (; status_alive(dir_fd); poll(&bell, 1, (int)n->every_ms)) {
        char *body = *n->token && !*token ? ask(n, n->token, "", reply) : NULL;
        if (body && str_is_printable(body) && strlen(body) < sizeof token)
            strcpy(token, body);
        if (*n->token && !*token)
            continue;
        body = ask(n, n->request, token, reply);
        if (body && wire_pattern_name(n->match, body)) {
            uint32_t left = n->within_ms > WIRE_NOTICE_RESERVE_MS ? n->within_ms - WIRE_NOTICE_RESERVE_MS : 0;
            snprintf(said, NOTICE_SAID_MAX, "%s", body);
            if (status_signal(dir_fd, WIRE_TAKEN, left, NULL) == 0)
                return;
        }
        if (!str_starts(reply + STATUS_AT, "404")) /* the token may have expired */
            token[0] = 0;
    }
}
