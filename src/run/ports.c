/*
 * `ports`: while the launch runs, a port of this machine is forwarded to a port of a node, over the node's connection.
 * The core has no part in this, because no decision depends on it: rhrun listens while the stage is the launch; in a
 * sweep it may begin earlier, with the first point that runs. A connection that comes while the node is away is closed.
 * If the port can be reached without forwarding (this machine, or a host with `address` that a program connects to),
 * the observer gets that address.
 *
 * The present ports are in the run's folder (PORTS_FILE) for `status`, which trusts the file while there is a
 * controller.
 */
#include "internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 64, AGAIN_MS = 500, CONNECTIONS_MAX = 256 /* of all ports: each has a descriptor here */ };

struct port {
    struct run *run;
    struct run_port view;
    char address[300]; /* for view.address */
    bool cannot;       /* the node's connection cannot forward it */
    int fd;            /* the listening socket, or -1 */
    struct loop_fd *watch;
    uint32_t most, open; /* connections: the most at a time, and now */
};

struct ports {
    struct port *items;
    struct run_port *views;
    size_t count;
    uint32_t open; /* connections of all ports */
    bool begun, over;
    struct loop_timer *again; /* accepts again, after a failure such as no descriptor left */
};

static struct ports *ports_of(const struct run *r)
{
    return r->hands->ports;
}

static const struct spec_port *wish_of(const struct port *p)
{
    return &p->run->plan->spec->ports[p - ports_of(p->run)->items];
}

const struct run_port *run_ports(const struct run *r, size_t *ret_count)
{
    const struct ports *all = ports_of(r);
    *ret_count = all ? all->count : 0;
    for (size_t i = 0; all && i < all->count; i++)
        all->views[i] = all->items[i].view;
    return all ? all->views : NULL;
}

/* ---- what status and the observer get ---- */

static void put_text(struct buf *b, const char *key, const char *value)
{
    buf_printf(b, ",\"%s\":", key);
    if (value)
        buf_json_string(b, value, strlen(value));
    else
        buf_puts(b, "null");
}

void run_port_json(const struct run_port *p, struct buf *b)
{
    buf_printf(b, "\"node\":%u,\"port\":%u,\"forwarded\":%s", p->node, p->port, p->forwarded ? "true" : "false");
    put_text(b, "host", p->node_name);
    put_text(b, "address", p->address);
    put_text(b, "name", p->name);
    put_text(b, "role", p->role);
    put_text(b, "trouble", p->trouble);
}

/* Errors are ignored: without the file only `status` shows less. */
static void write_file(const struct run *r)
{
    const struct ports *all = ports_of(r);
    struct error none = ERROR_INIT;
    struct buf b = {0};
    CLEANUP(cleanup_free) char *dir = r->hands->session->journal ? run_dir(r, &none) : NULL;
    CLEANUP(cleanup_free) char *path = dir ? xasprintf("%s/%s", dir, PORTS_FILE) : NULL;
    size_t count = 0;
    buf_putc(&b, '[');
    for (size_t i = 0; i < all->count; i++) {
        if (!all->items[i].view.address)
            continue;
        buf_puts(&b, count++ ? ",{" : "{");
        run_port_json(&all->items[i].view, &b);
        buf_putc(&b, '}');
    }
    buf_puts(&b, "]\n");
    if (path && count == 0)
        unlink(path);
    else if (path)
        (void)file_put(AT_FDCWD, path, b.data, b.len, false, NULL);
    buf_free(&b);
}

static void tell(const struct port *p)
{
    const struct run_observer *o = &p->run->options.observer;
    if (o->port)
        o->port(o->arg, &p->view);
}

static void set_trouble(struct port *p, const char *why)
{
    struct run *r = p->run;
    struct transport_host host;
    if (p->view.trouble)
        return;
    p->cannot = true;
    run_reach(roster_host(r->plan->roster, p->view.node), p->view.node, &host);
    const char *by_hand = transport_by_hand(&host, r->arena);
    const uint32_t here = wish_of(p)->local ? wish_of(p)->local : p->view.port;
    p->view.trouble = str_starts(by_hand, "ssh ") ? arena_printf(r->arena, "%s; by hand: ssh -N -L %u:localhost:%u%s",
                                                                 why, here, p->view.port, by_hand + strlen("ssh"))
                                                  : arena_strdup(r->arena, why);
    tell(p);
}

/* ---- connections ---- */

static bool has_room(const struct port *p)
{
    return p->open < p->most && ports_of(p->run)->open < CONNECTIONS_MAX;
}

static void look_at(const struct port *p)
{
    if (p->watch)
        loop_fd_set(p->watch, has_room(p) ? LOOP_READ : 0);
}

static void look_at_all(struct run *r)
{
    const struct ports *all = ports_of(r);
    for (size_t i = 0; i < all->count; i++)
        look_at(&all->items[i]);
}

static void ended(void *arg, const char *refused)
{
    struct port *p = arg;
    const bool was_full = ports_of(p->run)->open-- == CONNECTIONS_MAX;
    p->open--;
    if (was_full)
        look_at_all(p->run);
    else
        look_at(p);
    if (refused)
        set_trouble(p, refused);
}

/* Forwards over the node's connection, or closes the descriptor if that is not possible. */
static void pass_on(struct port *p, int fd)
{
    const struct transport_forward f = {fd, p->view.port, ended, p};
    if (node_forward(lane_hands(&p->run->lanes[p->view.node])->node, &f) < 0) {
        close(fd);
        return;
    }
    p->open++;
    ports_of(p->run)->open++;
}

static void accept_next(void *arg, unsigned events)
{
    struct port *p = arg;
    (void)events;
    while (has_room(p)) {
        const int fd = accept4(p->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0) {
            if (errno != EAGAIN) { /* no descriptor or no memory: the connection waits in the kernel */
                loop_fd_set(p->watch, 0);
                loop_timer_start(ports_of(p->run)->again, AGAIN_MS);
                return;
            }
            break;
        }
        pass_on(p, fd);
    }
    look_at(p);
}

static void on_again(void *arg)
{
    look_at_all(arg);
}

/* Listens on this port of the loopback address; 0: any free port. */
static int bind_to(int fd, uint32_t port, uint32_t *ret)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t len = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd, (const struct sockaddr *)&at, sizeof at) < 0 || listen(fd, BACKLOG) < 0)
        return -1;
    if (getsockname(fd, (struct sockaddr *)&at, &len) < 0)
        return -1;
    *ret = ntohs(at.sin_port);
    return 0;
}

static int open_socket(uint32_t port, uint32_t *ret)
{
    const int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind_to(fd, port, ret) == 0)
        return fd;
    const int failed = errno;
    close(fd);
    errno = failed;
    return -1;
}

/* Whether the host is this machine, by its name. Then the job itself has the port, so rhrun takes another one. */
static bool is_here(const struct port *p)
{
    const char *host = roster_host(p->run->plan->roster, p->view.node)->host;
    return str_eq(host, "localhost") || str_eq(host, "127.0.0.1") || str_eq(host, "::1");
}

static void listen_here(struct port *p)
{
    struct run *r = p->run;
    struct error err = ERROR_INIT;
    const uint32_t wanted = wish_of(p)->local ? wish_of(p)->local : is_here(p) ? 0 : p->view.port;
    uint32_t got = 0;
    p->fd = open_socket(wanted, &got);
    if (p->fd < 0 && (errno == EADDRINUSE || errno == EACCES)) {
        p->view.taken = wanted;
        p->fd = open_socket(0, &got);
    }
    if (p->fd >= 0)
        p->watch = loop_fd_create(r->hands->session->loop, p->fd, accept_next, p, &err);
    if (!p->watch) {
        p->view.trouble =
            arena_printf(r->arena, "no port can be opened here: %s", p->fd < 0 ? strerror(errno) : err.text);
        if (p->fd >= 0)
            close(base_steal_fd(&p->fd));
        tell(p);
        return;
    }
    snprintf(p->address, sizeof p->address, "127.0.0.1:%u", got);
    p->view.address = p->address;
    p->view.forwarded = true;
    look_at(p);
    tell(p);
}

/* ---- when ports are open ---- */

/* The address at which the port can be reached without forwarding; NULL: there is none. */
static const char *own_address(const struct port *p)
{
    const struct spec_host *host = roster_host(p->run->plan->roster, p->view.node);
    if (host->transport == SPEC_TRANSPORT_LOCAL)
        return "127.0.0.1";
    return host->transport == SPEC_TRANSPORT_COMMAND ? host->address : NULL;
}

static void open_port(struct port *p)
{
    const char *own = own_address(p);
    if (own) {
        snprintf(p->address, sizeof p->address, strchr(own, ':') ? "[%.200s]:%u" : "%.200s:%u", own, p->view.port);
        p->view.address = p->address;
        tell(p);
    } else if (!p->cannot && p->fd < 0) {
        listen_here(p);
    }
}

static void close_port(struct port *p)
{
    loop_fd_destroy(p->watch);
    p->watch = NULL;
    if (p->fd >= 0)
        close(base_steal_fd(&p->fd));
    if (!p->view.address)
        return;
    p->view.address = NULL;
    p->view.forwarded = false;
    tell(p);
}

static bool point_runs(struct run *r)
{
    for (uint32_t i = 0; i < r->plan->point_count; i++) {
        const struct plan_step *step = &r->plan->steps[r->plan->points[i].launch];
        for (uint32_t n = 0; n < r->plan->node_count; n++)
            if (step->on[n] && task_in_flight(run_task(r, step, n)))
                return true;
    }
    return false;
}

static void end_all(struct run *r)
{
    struct ports *all = ports_of(r);
    if (!all->begun || all->over)
        return;
    all->over = true;
    for (size_t i = 0; i < all->count; i++)
        close_port(&all->items[i]);
    write_file(r);
}

void ports_look(struct run *r)
{
    struct ports *all = ports_of(r);
    if (!all || all->over)
        return;
    if (all->begun && r->stage > STAGE_LAUNCH) {
        end_all(r);
    } else if (!all->begun && (r->stage == STAGE_LAUNCH || (r->points && r->stage < STAGE_LAUNCH && point_runs(r)))) {
        all->begun = true;
        for (size_t i = 0; i < all->count; i++)
            open_port(&all->items[i]);
        write_file(r);
    }
}

/* Finds out before set-up whether the host allows forwarding. Most likely nothing listens there yet, but a host that
 * forbids forwarding says so all the same. */
static void try_it(struct port *p)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) < 0)
        return;
    close(ends[1]);
    pass_on(p, ends[0]);
}

void ports_ready(struct lane *lane, bool again)
{
    struct run *r = lane->run;
    struct ports *all = ports_of(r);
    for (size_t i = 0; all && !all->over && i < all->count; i++) {
        struct port *p = &all->items[i];
        if (p->view.node != lane->index || own_address(p))
            continue;
        if (!node_can_forward(lane_hands(lane)->node)) {
            set_trouble(p,
                        "the connection to the node is one of the program ssh, or of another, which carries no ports");
        } else if (!again && !all->begun) {
            try_it(p);
        }
    }
}

void ports_create(struct run *r)
{
    const struct spec *spec = r->plan->spec;
    if (r->options.mode != RUN_EXECUTE || spec->port_count == 0)
        return;
    struct ports *all = xcalloc(1, sizeof *all);
    r->hands->ports = all;
    all->items = xcalloc(spec->port_count, sizeof *all->items);
    all->views = xcalloc(spec->port_count, sizeof *all->views);
    all->count = spec->port_count;
    all->again = loop_timer_create(r->hands->session->loop, on_again, r);
    for (size_t i = 0; i < all->count; i++) {
        const struct spec_port *wish = &spec->ports[i];
        struct port *p = &all->items[i];
        uint32_t neighbours = 0;
        for (size_t k = 0; k < all->count; k++)
            neighbours += spec->ports[k].node == wish->node;
        *p = (struct port){.run = r, .fd = -1, .most = TRANSPORT_FORWARDS_MAX / neighbours};
        p->view = (struct run_port){.name = wish->name,
                                    .role = wish->role,
                                    .node = wish->node,
                                    .node_name = roster_name(r->plan->roster, wish->node),
                                    .port = wish->port};
    }
}

void ports_free(struct run *r)
{
    struct ports *all = ports_of(r);
    if (!all)
        return;
    r->options.observer.port = NULL; /* the observer may be gone */
    end_all(r);
    loop_timer_destroy(all->again);
    free(all->items);
    free(all->views);
    free(all);
    r->hands->ports = NULL;
}
