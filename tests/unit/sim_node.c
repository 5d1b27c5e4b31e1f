/* The simulated agent: connections, requests, faults. */
#include "sim_internal.h"
#include "sim_made_up.h"

#include <stdlib.h>
#include <string.h>

/* ---- sending ---- */

void sim_send_frame(struct peer *p, struct buf *frame)
{
    if (!p->dead && !p->frozen && !p->node->net->cut)
        transport_sim_send(p->transport, frame->data, frame->len);
    buf_free(frame);
}

void sim_send_text(struct peer *p, enum wire_type type, const char *a, const char *b, const char *c)
{
    struct buf out = {0};
    size_t at = wire_begin(&out, type);
    wire_put_string(&out, a);
    if (b)
        wire_put_string(&out, b);
    if (c)
        wire_put_string(&out, c);
    wire_end(&out, at);
    sim_send_frame(p, &out);
}

static void send_token(struct peer *p, enum wire_type type, uint64_t token, const char *text)
{
    struct buf out = {0};
    size_t at = wire_begin(&out, type);
    wire_put_u64(&out, token);
    if (text)
        wire_put_string(&out, text);
    wire_end(&out, at);
    sim_send_frame(p, &out);
}

void sim_send_record(struct peer *p, enum wire_type type, const struct attempt *a)
{
    struct buf out = {0};
    struct wire_record r = a->record;
    r.same_boot = strcmp(r.boot_id, a->node->boot_id) == 0;
    r.spool_bytes = a->spool.len;
    wire_put_record(&out, type, &r);
    sim_send_frame(p, &out);
}

/* Output that the peer does not have yet, then the end if there is one: true. */
static bool send_news(struct peer *p, struct sub *s)
{
    struct attempt *a = s->attempt;
    if (s->offset < a->record.kept_from)
        s->offset = a->record.kept_from;
    if (s->offset < a->spool.len) {
        struct buf out = {0};
        size_t at = wire_begin(&out, WIRE_OUTPUT);
        wire_put_string(&out, a->record.attempt);
        wire_put_u64(&out, s->offset);
        wire_put_bytes(&out, a->spool.data + s->offset, a->spool.len - s->offset);
        wire_end(&out, at);
        sim_send_frame(p, &out);
        s->offset = a->spool.len;
    }
    if (a->record.state == WIRE_STATE_CLAIMED)
        return false;
    sim_send_record(p, WIRE_EXIT, a);
    return true;
}

void sim_attach(struct peer *p, struct attempt *a, uint64_t offset)
{
    struct sub s = {a, offset};
    for (size_t i = 0; i < p->sub_count; i++)
        if (p->subs[i].attempt == a) {
            p->subs[i] = p->subs[--p->sub_count];
            break;
        }
    if (send_news(p, &s))
        return;
    p->subs = xreallocarray(p->subs, p->sub_count + 1, sizeof *p->subs);
    p->subs[p->sub_count++] = s;
}

void sim_publish(struct attempt *a)
{
    for (struct peer *p = a->node->peers; p; p = p->next)
        for (size_t i = 0; i < p->sub_count; i++)
            if (p->subs[i].attempt == a && send_news(p, &p->subs[i]))
                p->subs[i--] = p->subs[--p->sub_count];
}

/* ---- connections ---- */

void sim_peer_end(struct peer *p, const char *text)
{
    struct error err = ERROR_INIT;
    if (p->dead)
        return;
    p->dead = true;
    p->sub_count = 0;
    sim_sync_lost(p);
    error_set(&err, ERROR_INFRA, "%s", text);
    if (!p->node->net->cut)
        transport_sim_fail(p->transport, &err);
}

void *sim_peer_open(void *script, uint32_t index, const char *name, struct transport *t, struct error *err,
                    enum transport_phase *ret_phase)
{
    struct sim_net *net = script;
    struct node_sim *node = &net->nodes[index % net->node_count];
    (void)name;
    if (node->away || (net->script.refuse && net->script.refuse(net->script.arg, index))) {
        *ret_phase = TRANSPORT_CONNECT;
        error_set(err, ERROR_INFRA, "connection refused");
        return NULL;
    }
    struct peer *p = xcalloc(1, sizeof *p);
    p->node = node;
    p->transport = t;
    p->next = node->peers;
    node->peers = p;
    if (!net->cut)
        transport_sim_send(t, WIRE_MAGIC, sizeof WIRE_MAGIC - 1);
    return p;
}

void sim_peer_close(void *peer)
{
    struct peer *p = peer;
    sim_sync_lost(p);
    for (struct peer **at = &p->node->peers; *at; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            break;
        }
    buf_free(&p->in);
    free(p->subs);
    free(p);
}

/* ---- requests ---- */

static void on_run(struct peer *p, struct wire_in *in)
{
    struct wire_run run;
    if (!wire_get_run(in, &run)) {
        sim_peer_end(p, "malformed RUN");
        return;
    }
    struct attempt *known = sim_find(p->node, run.attempt), *live = known ? NULL : sim_find_live(p->node, run.slot);
    if (known) {
        sim_send_record(p, WIRE_RECORD, known);
        for (size_t i = 0; i < p->sub_count; i++)
            if (p->subs[i].attempt == known)
                return;
        sim_attach(p, known, 0);
    } else if (live) {
        sim_send_text(p, WIRE_BUSY, run.attempt, live->record.attempt, run.slot);
    } else {
        struct attempt *a = sim_start_attempt(p, &run);
        sim_send_text(p, WIRE_STARTED, run.attempt, NULL, NULL);
        sim_attach(p, a, 0);
        if (!a->program.endless && a->turns_left == 0)
            sim_program_ends(a);
        sim_arm(p->node->net);
    }
}

static void on_attempt(struct peer *p, enum wire_type type, struct wire_in *in)
{
    const char *id = wire_get_string(in);
    uint8_t signal = type == WIRE_SIGNAL ? wire_get_u8(in) : 0;
    if (type == WIRE_SIGNAL)
        wire_get_u32(in);
    uint64_t offset = type == WIRE_SIGNAL ? 0 : wire_get_u64(in);
    struct attempt *a = sim_find(p->node, id);
    if (!wire_in_done(in)) {
        sim_peer_end(p, "malformed request");
    } else if (!a) {
        if (type != WIRE_ACK)
            sim_send_text(p, WIRE_FAULT, id, "attempt is not known on this node", NULL);
    } else if (type == WIRE_ATTACH) {
        sim_attach(p, a, offset);
    } else if (type == WIRE_ACK) {
        if (offset > a->record.kept_from)
            a->record.kept_from = offset < a->spool.len ? offset : a->spool.len;
    } else if (a->record.state == WIRE_STATE_CLAIMED) {
        a->record.stop_requested = !a->preempted;
        a->stopping = a->stopping || signal == WIRE_KILL || !a->program.ignores_stop;
        sim_arm(p->node->net);
    }
}

static void on_judge(struct peer *p, struct wire_in *in)
{
    struct attempt *a = sim_find(p->node, wire_get_string(in));
    uint8_t verdict = wire_get_u8(in);
    if (!wire_in_done(in) || !a || a->record.state == WIRE_STATE_CLAIMED) {
        sim_peer_end(p, "malformed JUDGE");
        return;
    }
    a->record.verdict = verdict;
    sim_send_record(p, WIRE_EXIT, a);
}

static void on_check(struct peer *p, struct wire_in *in)
{
    struct wire_check m = {0};
    wire_get_check(in, &m);
    uint32_t count = m.paths.count + m.trees.count / 3;
    CLEANUP(cleanup_free) uint8_t *there = xcalloc(count + 1, 1);
    struct buf out = {0};
    for (uint32_t i = 0; i < m.paths.count; i++)
        there[i] = !(p->node->gone && strcmp(p->node->gone, m.paths.items[i]) == 0);
    for (uint32_t i = 0; i < m.trees.count / 3; i++)
        there[m.paths.count + i] = sim_tree_holds(p->node, m.trees.items[3 * i], m.trees.items[3 * i + 2]);
    size_t at = wire_begin(&out, WIRE_CHECKED);
    wire_put_u64(&out, m.token);
    wire_put_bytes(&out, there, count);
    wire_end(&out, at);
    sim_send_frame(p, &out);
}

static void on_token(struct peer *p, enum wire_type type, struct wire_in *in)
{
    struct node_sim *node = p->node;
    uint64_t token = wire_get_u64(in);
    if (type == WIRE_LIST) {
        for (size_t i = 0; i < node->attempt_count; i++)
            sim_send_record(p, WIRE_RECORD, node->attempts[i]);
        send_token(p, WIRE_LISTED, token, NULL);
    } else if (type == WIRE_SETTLE) {
        for (size_t i = 0; i < node->attempt_count; i++)
            node->attempts[i]->settled = true;
        sim_files_settle(node);
        send_token(p, WIRE_SETTLED, token, "");
    } else {
        struct buf out = {0};
        size_t at = wire_begin(&out, WIRE_PONG);
        wire_put_u64(&out, token);
        wire_put_u64(&out, mono_ns());
        wire_put_u64(&out, wall_ms() + (uint64_t)(node->net->script.clock
                                                      ? node->net->script.clock(node->net->script.arg, node->index)
                                                      : 0));
        wire_put_u32(&out, 40000 + node->index % 1000);
        wire_end(&out, at);
        sim_send_frame(p, &out);
    }
}

static void on_probe(struct peer *p, struct wire_in *in)
{
    const struct sim_script *script = &p->node->net->script;
    struct buf out = {0};
    uint32_t len;
    uint64_t token = wire_get_u64(in);
    uint8_t what = wire_get_u8(in);
    wire_get_bytes(in, &len);
    uint32_t port = wire_get_u32(in);
    wire_get_u32(in);
    size_t at = wire_begin(&out, WIRE_PROBED);
    wire_put_u64(&out, token);
    wire_put_u32(&out, script->probe ? (uint32_t)script->probe(script->arg, p->node->index, what, port) : 0);
    wire_put_string(&out, what == WIRE_PROBE_LISTEN ? "12 (sleep)" : "");
    wire_end(&out, at);
    sim_send_frame(p, &out);
}

static void on_forget(struct peer *p, struct wire_in *in)
{
    struct wire_strings ids = wire_get_strings(in);
    for (uint32_t k = 0; k < ids.count; k++)
        for (size_t i = 0; i < p->node->attempt_count; i++)
            if (strcmp(p->node->attempts[i]->record.attempt, ids.items[k]) == 0 &&
                p->node->attempts[i]->record.state != WIRE_STATE_CLAIMED)
                sim_remove_at(p->node, i--);
}

void sim_replace(char **text, const char *by)
{
    free(*text);
    *text = by ? xstrdup(by) : NULL;
}

static void send_facts(struct peer *p)
{
    struct node_sim *node = p->node;
    struct buf out = {0};
    CLEANUP(cleanup_free) char *name = xasprintf("host-%u", node->index);
    struct wire_facts f = made_up_facts();
    f.epoch = node->epoch;
    f.install = node->install;
    f.boot_id = node->boot_id;
    f.home_id = node->home->install;
    f.hostname = name;
    f.address = node->address;
    f.mono_ns = mono_ns();
    f.wall_ms = wall_ms();
    if (node->net->script.facts)
        node->net->script.facts(node->net->script.arg, node->index, &f);
    wire_put_facts(&out, &f);
    sim_send_frame(p, &out);
}

static void on_hello(struct peer *p, struct wire_in *in)
{
    struct wire_hello h;
    struct node_sim *node = p->node;
    if (p->greeted || !wire_get_hello(in, &h)) {
        sim_peer_end(p, "malformed HELLO");
        return;
    }
    bool same = str_eq(node->owner, h.owner), connected = false;
    for (struct peer *o = node->peers; o; o = o->next)
        connected = connected || (o != p && o->greeted && !o->reads && !o->dead);
    struct attempt *live = sim_find_live(node, NULL);
    if (h.mode == WIRE_OWN && node->owner && !same && (connected || live)) {
        struct buf out = {0};
        p->held = true;
        size_t at = wire_begin(&out, WIRE_HELD);
        wire_put_string(&out, node->owner_name);
        wire_put_string(&out, connected ? "connection" : live->record.slot);
        wire_put_u64(&out, node->epoch);
        wire_end(&out, at);
        sim_send_frame(p, &out);
        return;
    }
    p->greeted = true;
    p->reads = h.mode == WIRE_READ;
    snprintf(p->variant, sizeof p->variant, "%s", h.variant);
    if (!p->reads) {
        sim_replace(&node->owner, h.owner);
        sim_replace(&node->owner_name, h.owner_name);
        p->epoch = ++node->epoch;
    }
    send_facts(p);
}

/* Requests of an older connection change nothing any more. */
static bool fenced(struct peer *p)
{
    if (p->reads || !p->greeted || p->epoch == p->node->epoch)
        return false;
    struct buf out = {0};
    size_t at = wire_begin(&out, WIRE_FENCED);
    wire_put_u64(&out, p->node->epoch);
    wire_put_string(&out, p->node->owner_name);
    wire_end(&out, at);
    sim_send_frame(p, &out);
    sim_peer_end(p, "fenced");
    return true;
}

static void handle(struct peer *p, enum wire_type type, struct wire_in *in)
{
    if (!p->greeted && type != WIRE_HELLO) {
        if (!p->held)
            sim_peer_end(p, "a request before HELLO");
        return;
    }
    if (fenced(p))
        return;
    switch (type) {
    case WIRE_HELLO:
        on_hello(p, in);
        return;
    case WIRE_RUN:
        on_run(p, in);
        return;
    case WIRE_ATTACH:
    case WIRE_ACK:
    case WIRE_SIGNAL:
        on_attempt(p, type, in);
        return;
    case WIRE_LIST:
    case WIRE_PING:
    case WIRE_SETTLE:
        on_token(p, type, in);
        return;
    case WIRE_CHECK:
        on_check(p, in);
        return;
    case WIRE_FORGET:
        on_forget(p, in);
        return;
    case WIRE_SYNC:
    case WIRE_SYNC_ALL:
    case WIRE_FILE:
    case WIRE_FILE_DATA:
    case WIRE_REMOVE:
    case WIRE_SYNC_END:
    case WIRE_GLOB:
    case WIRE_GET:
        sim_on_transfer(p, type, in);
        return;
    case WIRE_PROBE:
        on_probe(p, in);
        return;
    case WIRE_JUDGE:
        on_judge(p, in);
        return;
    case WIRE_HELLO_OK:
    case WIRE_HELD:
    case WIRE_RECORD:
    case WIRE_LISTED:
    case WIRE_STARTED:
    case WIRE_BUSY:
    case WIRE_OUTPUT:
    case WIRE_EXIT:
    case WIRE_PONG:
    case WIRE_SETTLED:
    case WIRE_CHECKED:
    case WIRE_FAULT:
    case WIRE_FENCED:
    case WIRE_SYNC_STATE:
    case WIRE_PATCHED:
    case WIRE_ENTRIES:
    case WIRE_DATA:
    case WIRE_PROBED:
        break;
    }
    sim_peer_end(p, "an answer as a request");
}

static enum sim_fault fault_of(struct peer *p, enum wire_type type, const uint8_t *payload, uint32_t len)
{
    struct sim_net *net = p->node->net;
    struct wire_in in = {payload, payload + len, net->scratch, false};
    struct wire_run run = {0};
    if (!net->script.frame)
        return SIM_PASS;
    const char *slot = type == WIRE_RUN && wire_get_run(&in, &run) ? run.slot : "";
    return net->script.frame(net->script.arg, p->node->index, type, slot);
}

static void say_fault(struct peer *p, const uint8_t *payload, uint32_t len)
{
    struct wire_in in = {payload, payload + len, p->node->net->scratch, false};
    struct wire_run run;
    if (wire_get_run(&in, &run))
        sim_send_text(p, WIRE_FAULT, run.attempt, "disk trouble", NULL);
}

static void one_frame(struct peer *p, enum wire_type type, const uint8_t *payload, uint32_t len)
{
    struct sim_net *net = p->node->net;
    struct wire_in in = {payload, payload + len, net->scratch, false};
    arena_reset(net->scratch);
    net->frames[type <= WIRE_PROBED ? type : 0]++;
    enum sim_fault fault = fault_of(p, type, payload, len);
    if (net->cut)
        return;
    switch (fault) {
    case SIM_PASS:
        handle(p, type, &in);
        return;
    case SIM_DROP_BEFORE:
        sim_peer_end(p, "connection reset");
        return;
    case SIM_DROP_AFTER:
        p->frozen = true;
        handle(p, type, &in);
        sim_peer_end(p, "connection reset");
        return;
    case SIM_FREEZE:
        p->frozen = true;
        return;
    case SIM_IGNORE:
        return;
    case SIM_FAULT_AFTER:
        handle(p, type, &in);
        say_fault(p, payload, len);
        return;
    case SIM_REFUSE:
        say_fault(p, payload, len);
        return;
    case SIM_CUT_BEFORE:
        net->cut = true;
        return;
    case SIM_CUT_AFTER:
        p->frozen = true;
        handle(p, type, &in);
        net->cut = true;
        return;
    }
}

void sim_peer_received(void *peer, const uint8_t *data, size_t len)
{
    struct peer *p = peer;
    size_t done = 0;
    buf_append(&p->in, data, len);
    while (!p->dead && !p->frozen && !p->node->net->cut && p->in.len > done) {
        struct buf view = {p->in.data + done, p->in.len - done, 0};
        enum wire_type type;
        const uint8_t *payload;
        uint32_t size;
        int have = wire_peek(&view, &type, &payload, &size);
        if (have < 0)
            sim_peer_end(p, "malformed frame");
        if (have <= 0)
            break;
        one_frame(p, type, payload, size);
        done += WIRE_HEADER_SIZE + size;
    }
    buf_consume(&p->in, done);
}
