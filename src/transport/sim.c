/*
 * sim: the peer is a script in this process. Bytes go both ways through buffers and are delivered in
 * the next turn, as with a real peer, so that no callback runs inside a call.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

struct sim {
    void *peer;
    struct buf in;           /* from the peer */
    struct loop_timer *turn; /* delivers */
    bool ended;              /* the peer ended it, for this reason; reported once `in` is delivered */
    struct error reason;
};

static void sim_turn(void *arg)
{
    struct transport *t = arg;
    struct sim *s = t->impl;
    transport_enter(t);
    const uint8_t *data;
    size_t len;
    while (!transport_stopped(t) && (len = transport_outgoing(t, &data)) > 0) {
        /* The peer's answer may make us write more, so it gets a copy. */
        uint8_t *copy = xmalloc(len);
        memcpy(copy, data, len);
        transport_sent(t, len);
        t->pool->sim.received(s->peer, copy, len);
        free(copy);
    }
    if (!transport_stopped(t) && !t->paused && s->in.len) {
        struct buf in = s->in;
        s->in = (struct buf){0};
        transport_received(t, (const uint8_t *)in.data, in.len);
        buf_free(&in);
    }
    if (!transport_stopped(t) && s->ended && !s->in.len)
        transport_failf(t, s->reason.code, s->reason.hint, "%s", s->reason.text);
    transport_leave(t);
}

static void sim_flush(struct transport *t)
{
    struct sim *s = t->impl;
    loop_timer_start(s->turn, 0);
}

static void sim_open(struct transport *t)
{
    struct error err = ERROR_INIT;
    struct sim *s = xcalloc(1, sizeof(*s));
    s->turn = loop_timer_create(t->pool->loop, sim_turn, t);
    t->impl = s;
    snprintf(t->digest, sizeof(t->digest), "sim:%u", t->host.sim_index);
    transport_set_phase(t, TRANSPORT_AGENT);
    enum transport_phase phase = TRANSPORT_CONNECT;
    if (!t->pool->sim.open) {
        transport_failf(t, ERROR_INTERNAL, "", "no script was set for simulated hosts");
        return;
    }
    s->peer = t->pool->sim.open(t->pool->sim.script, t->host.sim_index, t->host.name, t, &err, &phase);
    if (!s->peer) {
        t->phase = phase;
        transport_failf(t, err.code ? err.code : ERROR_INFRA, err.hint, "%s", err.text);
    } else {
        transport_started(t);
    }
}

static void sim_close(struct transport *t)
{
    struct sim *s = t->impl;
    if (!s)
        return;
    if (s->peer)
        t->pool->sim.close(s->peer);
    loop_timer_destroy(s->turn);
    buf_free(&s->in);
    free(s);
    t->impl = NULL;
}

static bool sim_again(struct transport *t)
{
    (void)t;
    return false;
}

const struct transport_ops transport_sim_ops = {
    .kind = TRANSPORT_SIM,
    .name = "sim",
    .open = sim_open,
    .flush = sim_flush,
    .close = sim_close,
    .again = sim_again,
};

void transport_sim_send(struct transport *t, const void *data, size_t len)
{
    struct sim *s = t->impl;
    if (!s || transport_stopped(t))
        return;
    buf_append(&s->in, data, len);
    loop_timer_start(s->turn, 0);
}

void transport_sim_fail(struct transport *t, const struct error *err)
{
    struct sim *s = t->impl;
    if (!s || s->ended)
        return;
    s->ended = true;
    s->reason = *err;
    loop_timer_start(s->turn, 0);
}

void transport_pool_set_sim(struct transport_pool *pool, const struct transport_sim_script *script)
{
    pool->sim = *script;
}
