/*
 * Turns: limits the requests at the same time, and a group to one per interval. Calls wait in the one list of calls, in
 * the order in which they were made; a waiting group does not hold up others.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

void http_queue_look(struct http *h)
{
    loop_timer_start(h->turn, 0);
}

void http_queue_add(struct http_call *c)
{
    struct http *h = c->http;
    c->prev = h->last;
    *(h->last ? &h->last->next : &h->first) = c;
    h->last = c;
    c->state = CALL_WAITS;
    h->waiting++;
    http_queue_look(h);
}

/* A group whose time has come equals an unknown group, so it is dropped here. */
static struct group *find(struct http *h, const char *name, bool make)
{
    uint64_t now = loop_now_ms(h->loop);
    for (struct group **at = &h->groups; *at;) {
        struct group *g = *at;
        if (str_eq(g->name, name))
            return g;
        if (g->from_ms <= now) {
            *at = g->next;
            free(g);
        } else {
            at = &g->next;
        }
    }
    if (!make)
        return NULL;
    size_t len = strlen(name) + 1;
    struct group *g = xcalloc(1, sizeof(*g) + len);
    memcpy(g->name, name, len);
    g->next = h->groups;
    return h->groups = g;
}

void http_hold(struct http *http, const char *group, uint64_t after_ms)
{
    struct group *g = find(http, group, true);
    uint64_t from_ms =
        loop_now_ms(http->loop) + (after_ms < HTTP_RETRY_AFTER_MAX_MS ? after_ms : HTTP_RETRY_AFTER_MAX_MS);
    if (g->from_ms < from_ms)
        g->from_ms = from_ms;
}

/* 0: it may begin. Otherwise how long it must wait. */
static uint64_t wait_of(const struct http_call *c, uint64_t now)
{
    struct group *g = c->group ? find(c->http, c->group, false) : NULL;
    return g && g->from_ms > now ? g->from_ms - now : 0;
}

static void begin(struct http_call *c, uint64_t now)
{
    struct http *h = c->http;
    if (c->group && c->interval_ms)
        find(h, c->group, true)->from_ms = now + c->interval_ms;
    h->waiting--;
    h->running++;
    c->state = CALL_RUNS;
    c->deadline_ms = c->whole_ms == HTTP_NEVER ? HTTP_NEVER : now + c->whole_ms;
    http_request_limits(c);
    if (c->idle)
        loop_timer_start(c->idle, c->idle_ms);
    CURLMcode code = http_curl.multi_add_handle(h->multi, c->easy);
    if (code != CURLM_OK)
        http_call_end(c, CURLE_OUT_OF_MEMORY);
}

void http_queue_begin(struct http *h)
{
    uint64_t now = loop_now_ms(h->loop), soonest = HTTP_NEVER;
    for (struct http_call *c = h->first; c && h->waiting && h->running < h->at_once; c = c->next) {
        if (c->state != CALL_WAITS)
            continue;
        uint64_t wait_ms = wait_of(c, now);
        if (wait_ms == 0)
            begin(c, now);
        else if (wait_ms < soonest)
            soonest = wait_ms;
    }
    /* If all places are taken, the end of a request checks again. */
    if (h->waiting && h->running < h->at_once && soonest != HTTP_NEVER)
        loop_timer_start(h->turn, soonest);
}

void http_queue_free(struct http *h)
{
    while (h->groups) {
        struct group *g = h->groups;
        h->groups = g->next;
        free(g);
    }
}
