/*
 * Checks before a launch whether nodes reach each other: one listens on the port that the job will use, the others
 * connect. Connections are not accepted: they stay in the kernel's queue, which LISTEN empties.
 */
#include "server.h"
#include "super.h"

#include <dirent.h>
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

/* The address in the form for connect and bind; NULL: any. */
static socklen_t address_make(struct sockaddr_in6 *ret, const uint8_t *address, bool v6, uint32_t port)
{
    memset(ret, 0, sizeof *ret);
    ret->sin6_family = v6 ? AF_INET6 : AF_INET;
    ret->sin6_port = htons((uint16_t)port); /* at the same offset in both structs */
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

/* ---- who has the port ---- */

enum { TABLE_MAX = 16 << 20 };

/* "socket:[INODE]": what a descriptor of the socket that listens on the port links to; as it was when the table has none. */
static void find_listener(const char *table, int address_len, uint32_t port, char *ret, size_t size)
{
    static const char any[] = "00000000000000000000000000000000";
    struct buf text = {0};
    char needle[64];
    if (file_read(table, TABLE_MAX, &text, NULL) < 0)
        return;
    /* its port, a peer that it does not have, and 0A: it listens */
    snprintf(needle, sizeof needle, ":%04x %.*s:0000 0a ", port, address_len, any);
    const char *p = strcasestr(text.data, needle);
    p = p ? p + strlen(needle) : NULL;
    for (int field = 0; p && field < 5; field++) { /* queues, timer, retransmits, user, timeout; then the inode */
        p += strcspn(p, " ");
        p += strspn(p, " ");
    }
    if (p)
        snprintf(ret, size, "socket:[%.*s]", (int)strspn(p, "0123456789"), p);
    buf_free(&text);
}

static bool has_open(pid_t pid, const char *socket)
{
    char path[40], link[64];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%ld/fd", (long)pid);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && !found && (e = readdir(dir));) {
        ssize_t n = readlinkat(dirfd(dir), e->d_name, link, sizeof link - 1);
        link[n < 0 ? 0 : n] = 0;
        found = str_eq(link, socket);
    }
    if (dir)
        closedir(dir);
    return found;
}

/* "1234 (python3)", as far as this user may know; else "". */
static void who_listens(uint32_t port, char *ret, size_t size)
{
    char socket[40] = "";
    struct proc_list all = {0};
    find_listener("/proc/net/tcp6", 32, port, socket, sizeof socket);
    find_listener("/proc/net/tcp", 8, port, socket, sizeof socket);
    *ret = 0;
    if (*socket)
        proc_all(&all);
    for (size_t i = 0; i < all.count && !*ret; i++)
        if (has_open(all.items[i].pid, socket))
            snprintf(ret, size, "%ld (%s)", (long)all.items[i].pid, all.items[i].name);
    proc_list_free(&all);
}

bool probe_request(struct server *s, struct wire_in *in)
{
    uint64_t token = wire_get_u64(in);
    uint8_t what = wire_get_u8(in);
    uint32_t len, errnum = 0;
    const uint8_t *address = wire_get_bytes(in, &len);
    uint32_t port = wire_get_u32(in), timeout_ms = wire_get_u32(in);
    char who[48] = "";
    if (!wire_in_done(in) || port > UINT16_MAX || timeout_ms > WIRE_PROBE_MAX_MS ||
        (what == WIRE_PROBE_CONNECT && len != 4 && len != 16))
        return false;
    if (what == WIRE_PROBE_CONNECT) {
        errnum = (uint32_t)connect_to(address, len == 16, port, timeout_ms);
    } else {
        stop_listening(s);
        if (what == WIRE_PROBE_LISTEN)
            errnum = (uint32_t)listen_on(s, port);
        if (errnum == EADDRINUSE)
            who_listens(port, who, sizeof who);
    }
    size_t frame = wire_begin(&s->out.control, WIRE_PROBED);
    wire_put_u64(&s->out.control, token);
    wire_put_u32(&s->out.control, errnum);
    wire_put_string(&s->out.control, who);
    wire_end(&s->out.control, frame);
    return true;
}
