/*
 * Names to addresses: numeric addresses at once, names by getaddrinfo on the thread pool, once for all hosts with the
 * same name. An answer is kept for half a minute: long enough for one start of many nodes, short enough that a
 * reconnect notices a host that moved.
 */
#include "internal.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

enum { KEEP_MS = 30000, ADDRESSES_MAX = 16 };

struct pool_address {
    struct pool_address *next;
    struct loop_work *work; /* running */
    struct loop *loop;
    char *host;
    int family;
    struct resolve_waiter *waiting;
    struct address list[ADDRESSES_MAX];
    size_t count;
    uint64_t at_ms;
    int code, errnum; /* of getaddrinfo */
};

static void lookup(struct pool_address *a, int flags)
{
    static const int families[] = {AF_UNSPEC, AF_INET, AF_INET6};
    struct addrinfo hints = {.ai_family = families[a->family], .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    struct addrinfo *list = NULL;
    a->count = 0;
    a->code = getaddrinfo(a->host, NULL, &hints, &list);
    a->errnum = errno;
    if (a->code != 0)
        return;
    for (struct addrinfo *ai = list; ai && a->count < ADDRESSES_MAX; ai = ai->ai_next) {
        if (ai->ai_addrlen > sizeof(a->list[0].addr))
            continue;
        memcpy(&a->list[a->count].addr, ai->ai_addr, ai->ai_addrlen);
        a->list[a->count++].len = ai->ai_addrlen;
    }
    freeaddrinfo(list);
    if (!a->count)
        a->code = EAI_NONAME;
}

static void work(void *arg)
{
    lookup(arg, AI_ADDRCONFIG);
}

static void deliver(struct pool_address *a)
{
    const char *reason = a->code == EAI_SYSTEM ? strerror(a->errnum) : gai_strerror(a->code);
    while (a->waiting) {
        struct resolve_waiter *w = a->waiting;
        a->waiting = w->next;
        w->of = NULL;
        w->done(w->arg, a->list, a->count, a->count ? NULL : reason);
    }
}

static void work_done(void *arg)
{
    struct pool_address *a = arg;
    a->work = NULL;
    a->at_ms = loop_now_ms(a->loop);
    deliver(a);
}

static void address_free(void *arg)
{
    struct pool_address *a = arg;
    free(a->host);
    free(a);
}

void resolve(struct transport_pool *pool, struct resolve_waiter *waiter, const char *host, int family,
             void (*done)(void *arg, const struct address *addresses, size_t count, const char *reason), void *arg)
{
    struct pool_address *a = pool->addresses;
    while (a && (strcmp(a->host, host) != 0 || a->family != family))
        a = a->next;
    if (!a) {
        a = xcalloc(1, sizeof(*a));
        a->loop = pool->loop;
        a->host = xstrdup(host);
        a->family = family;
        a->next = pool->addresses;
        pool->addresses = a;
    }
    waiter->done = done;
    waiter->arg = arg;
    bool fresh = a->count && loop_now_ms(pool->loop) - a->at_ms < KEEP_MS;
    if (!a->work && !fresh) {
        lookup(a, AI_NUMERICHOST);
        a->at_ms = loop_now_ms(pool->loop);
        fresh = a->count > 0;
    }
    if (!a->work && fresh) {
        done(arg, a->list, a->count, NULL);
        return;
    }
    waiter->of = a;
    waiter->next = a->waiting;
    a->waiting = waiter;
    if (!a->work)
        a->work = loop_work(pool->loop, work, work_done, a);
}

void resolve_cancel(struct resolve_waiter *waiter)
{
    if (!waiter->of)
        return;
    struct resolve_waiter **at = &waiter->of->waiting;
    while (*at != waiter)
        at = &(*at)->next;
    *at = waiter->next;
    waiter->of = NULL;
}

void addresses_destroy(struct transport_pool *pool)
{
    while (pool->addresses) {
        struct pool_address *a = pool->addresses;
        pool->addresses = a->next;
        if (a->work)
            loop_work_detach(a->work, address_free); /* the pool thread still writes to it */
        else
            address_free(a);
    }
}
