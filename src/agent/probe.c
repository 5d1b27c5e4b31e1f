/*
 * Whether nodes reach each other, before anything is launched: one listens on the port that the job will use, the others
 * connect. What connects is not accepted: it stays in the kernel's queue, which LISTEN empties.
 */
#include "server.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int tcp_socket(bool v6, int flags)
{
    return socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
}

/* The address as connect and bind take it; NULL: any. */
static socklen_t address_make(struct sockaddr_in6 *ret, const uint8_t *address, bool v6, uint32_t port)
{
    memset(ret, 0, sizeof *ret);
    ret->sin6_family = v6 ? AF_INET6 : AF_INET;
    ret->sin6_port = htons((uint16_t)port); /* at the same place in both */
    if (address && v6)
        memcpy(&ret->sin6_addr, address, 16);
    else if (address)
        memcpy(&((struct sockaddr_in *)(void *)ret)->sin_addr, address, 4);
    return v6 ? sizeof *ret : sizeof(struct sockaddr_in);
}

static void stop_listening(struct server *s)
{
    if (s->probe_fd > 0)
        close(s->probe_fd);
    s->probe_fd = 0;
}

static int listen_on(struct server *s, uint32_t port)
{
    struct sockaddr_in6 any;
    int on = 1, off = 0, fd = tcp_socket(true, 0);
    bool v6 = fd >= 0;
    if (!v6)
        fd = tcp_socket(false, 0);
    if (fd < 0)
        return errno;
    socklen_t len = address_make(&any, NULL, v6, port);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (v6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, (struct sockaddr *)&any, len) < 0 || listen(fd, 4096) < 0) {
        int errnum = errno;
        close(fd);
        return errnum;
    }
    s->probe_fd = fd;
    return 0;
}

static int connect_to(const uint8_t *address, bool v6, uint32_t port, uint32_t timeout_ms)
{
    struct sockaddr_in6 to;
    CLEANUP(cleanup_close) int fd = tcp_socket(v6, SOCK_NONBLOCK);
    int errnum = 0;
    socklen_t len = sizeof errnum;
    if (fd < 0)
        return errno;
    if (connect(fd, (struct sockaddr *)&to, address_make(&to, address, v6, port)) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return errno;
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    if (poll(&p, 1, (int)timeout_ms) <= 0)
        return ETIMEDOUT;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &errnum, &len);
    return errnum;
}

bool probe_request(struct server *s, struct wire_in *in)
{
    uint64_t token = wire_get_u64(in);
    uint8_t what = wire_get_u8(in);
    uint32_t len, errnum = 0;
    const uint8_t *address = wire_get_bytes(in, &len);
    uint32_t port = wire_get_u32(in), timeout_ms = wire_get_u32(in);
    if (!wire_in_done(in) || port > UINT16_MAX || timeout_ms > WIRE_PROBE_MAX_MS ||
        (what == WIRE_PROBE_CONNECT && len != 4 && len != 16))
        return false;
    if (what == WIRE_PROBE_CONNECT) {
        errnum = (uint32_t)connect_to(address, len == 16, port, timeout_ms);
    } else {
        stop_listening(s);
        if (what == WIRE_PROBE_LISTEN)
            errnum = (uint32_t)listen_on(s, port);
    }
    size_t frame = wire_begin(&s->out.control, WIRE_PROBED);
    wire_put_u64(&s->out.control, token);
    wire_put_u32(&s->out.control, errnum);
    wire_end(&s->out.control, frame);
    return true;
}
