/*
 * delay: a user-space stand-in for `tc netem delay`: forwards N TCP ports and holds every byte back for half a round
 * trip in each direction. A new connection is opened towards its target one round trip late, as a SYN would be.
 *
 *   delay ROUND_TRIP_MS LISTEN_BASE TARGET_BASE N     LISTEN_BASE+i -> 127.0.0.1:TARGET_BASE+i, i = 1..N
 *
 * There is no bandwidth limit. One thread, poll; prints "ready" when all ports listen.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 16384, PORTS_MAX = 1024, LINKS_MAX = 4096, QUEUE_MAX = 4 << 20 };

struct chunk {
    struct chunk *next;
    uint64_t due_us;
    size_t len, sent;
    char data[CHUNK];
};
struct way { /* one direction */
    struct chunk *head, *tail;
    size_t queued;
    int ended;   /* 1: the reader saw the end; 2: it was passed on */
    uint64_t end_us;
};
struct link {
    int fd[2]; /* client, target; target is -1 until open_us */
    uint64_t open_us;
    int port;
    struct way way[2]; /* way[0]: client to target */
};

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static void die(const char *what)
{
    fprintf(stderr, "delay: %s: %s\n", what, strerror(errno));
    exit(1);
}

static struct sockaddr_in local(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return a;
}

static void no_delay(int fd)
{
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static void link_close(struct link *l)
{
    for (int i = 0; i < 2; i++) {
        if (l->fd[i] >= 0)
            close(l->fd[i]);
        for (struct chunk *c = l->way[i].head, *next; c; c = next) {
            next = c->next;
            free(c);
        }
    }
    memset(l, 0, sizeof *l);
    l->fd[0] = l->fd[1] = -1;
}

/* Reads what is there into the queue; -1: the link is broken. */
static int take(struct link *l, int from, uint64_t half_us)
{
    struct way *w = &l->way[from];
    while (w->queued < QUEUE_MAX) {
        struct chunk *c = malloc(sizeof *c);
        if (!c)
            die("malloc");
        ssize_t n = recv(l->fd[from], c->data, sizeof c->data, MSG_DONTWAIT);
        if (n <= 0) {
            free(c);
            if (n == 0) {
                w->ended = 1;
                w->end_us = now_us() + half_us;
                return 0;
            }
            return errno == EAGAIN || errno == EINTR ? 0 : -1;
        }
        c->len = (size_t)n;
        c->sent = 0;
        c->next = NULL;
        c->due_us = now_us() + half_us;
        if (w->tail)
            w->tail->next = c;
        else
            w->head = c;
        w->tail = c;
        w->queued += c->len;
    }
    return 0;
}

/* Passes on what is due; *ret_full: the receiver takes no more now. */
static int give(struct link *l, int from, uint64_t now, int *ret_full)
{
    struct way *w = &l->way[from];
    int to = l->fd[!from];
    *ret_full = 0;
    while (to >= 0 && w->head && w->head->due_us <= now) {
        struct chunk *c = w->head;
        ssize_t n = send(to, c->data + c->sent, c->len - c->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0) {
            *ret_full = errno == EAGAIN;
            return errno == EAGAIN || errno == EINTR ? 0 : -1;
        }
        c->sent += (size_t)n;
        if (c->sent < c->len) {
            *ret_full = 1;
            return 0;
        }
        w->queued -= c->len;
        w->head = c->next;
        if (!w->head)
            w->tail = NULL;
        free(c);
    }
    if (to >= 0 && !w->head && w->ended == 1 && w->end_us <= now) {
        shutdown(to, SHUT_WR);
        w->ended = 2;
    }
    return 0;
}

static void open_target(struct link *l)
{
    struct sockaddr_in a = local(l->port);
    l->fd[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (l->fd[1] < 0)
        die("socket");
    if (connect(l->fd[1], (struct sockaddr *)&a, sizeof a) < 0) {
        link_close(l);
        return;
    }
    no_delay(l->fd[1]);
}

int main(int argc, char **argv)
{
    static struct link links[LINKS_MAX];
    static struct pollfd p[PORTS_MAX + 2 * LINKS_MAX];
    static int owner[PORTS_MAX + 2 * LINKS_MAX];
    int listener[PORTS_MAX], used = 0;
    if (argc != 5 || atoi(argv[4]) < 1 || atoi(argv[4]) > PORTS_MAX) {
        fprintf(stderr, "usage: delay ROUND_TRIP_MS LISTEN_BASE TARGET_BASE N\n");
        return 2;
    }
    uint64_t half_us = (uint64_t)atoi(argv[1]) * 500u;
    int listen_base = atoi(argv[2]), target_base = atoi(argv[3]), n = atoi(argv[4]);
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < n; i++) {
        struct sockaddr_in a = local(listen_base + i + 1);
        int one = 1;
        listener[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        setsockopt(listener[i], SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(listener[i], (struct sockaddr *)&a, sizeof a) < 0 || listen(listener[i], 128) < 0)
            die("bind");
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        uint64_t now = now_us(), next = now + 1000000;
        int count = 0;
        for (int i = 0; i < n; i++)
            p[count++] = (struct pollfd){.fd = listener[i], .events = POLLIN};
        for (int i = 0; i < used; i++) {
            struct link *l = &links[i];
            if (l->fd[0] < 0)
                continue;
            if (l->fd[1] < 0 && l->open_us <= now)
                open_target(l);
            int full[2] = {0, 0};
            if (l->fd[0] >= 0 && (give(l, 0, now, &full[0]) < 0 || give(l, 1, now, &full[1]) < 0 ||
                                  (l->way[0].ended == 2 && l->way[1].ended == 2)))
                link_close(l);
            if (l->fd[0] < 0)
                continue;
            if (l->fd[1] < 0 && l->open_us < next)
                next = l->open_us;
            for (int from = 0; from < 2; from++) {
                struct way *w = &l->way[from];
                if (w->head && !full[from] && l->fd[!from] >= 0 && w->head->due_us < next)
                    next = w->head->due_us;
                if (!w->head && w->ended == 1 && w->end_us < next)
                    next = w->end_us;
                short events = (short)((!w->ended && w->queued < QUEUE_MAX ? POLLIN : 0) | (full[!from] ? POLLOUT : 0));
                if (l->fd[from] >= 0 && events) {
                    owner[count] = i * 2 + from;
                    p[count++] = (struct pollfd){.fd = l->fd[from], .events = events};
                }
            }
        }
        now = now_us();
        uint64_t wait = next > now ? next - now : 0;
        struct timespec t = {(time_t)(wait / 1000000), (long)(wait % 1000000) * 1000};
        if (ppoll(p, (nfds_t)count, &t, NULL) < 0 && errno != EINTR)
            die("poll");
        for (int i = n; i < count; i++) {
            struct link *l = &links[owner[i] / 2];
            if (l->fd[0] >= 0 && (p[i].revents & (POLLIN | POLLHUP | POLLERR)) && take(l, owner[i] % 2, half_us) < 0)
                link_close(l);
        }
        for (int i = 0; i < n; i++) {
            if (!(p[i].revents & POLLIN))
                continue;
            int fd = accept4(listener[i], NULL, NULL, SOCK_CLOEXEC);
            int slot = 0;
            while (slot < used && links[slot].fd[0] >= 0)
                slot++;
            if (fd < 0 || slot == LINKS_MAX) {
                if (fd >= 0)
                    close(fd);
                continue;
            }
            if (slot == used)
                used++;
            memset(&links[slot], 0, sizeof links[slot]);
            no_delay(fd);
            links[slot].fd[0] = fd;
            links[slot].fd[1] = -1;
            links[slot].port = target_base + i + 1;
            links[slot].open_us = now_us() + 2 * half_us;
        }
    }
}
