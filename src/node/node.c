/* A node's connection: transport, magic, HELLO, liveness, reconnecting; requests go out as frames. */
#include "rhrun/node.h"

#include "internal.h"

#include <stdlib.h>
#include <string.h>

static bool transition_legal(enum node_state from, enum node_state to)
{
    switch (from) {
    case NODE_IDLE:
        return to == NODE_CONNECTING || to == NODE_FAILED;
    case NODE_CONNECTING:
        return to == NODE_GREETING || to == NODE_WAITING || to == NODE_FAILED;
    case NODE_GREETING:
        return to == NODE_READY || to == NODE_WAITING || to == NODE_FAILED;
    case NODE_READY:
        return to == NODE_WAITING || to == NODE_FAILED;
    case NODE_WAITING:
        return to == NODE_CONNECTING || to == NODE_FAILED;
    case NODE_FAILED:
        return to == NODE_CONNECTING;
    }
    return false;
}

static void set_state(struct node *n, enum node_state to)
{
    if (!transition_legal(n->state, to))
        abort();
    n->state = to;
}

static void drop_connection(struct node *n)
{
    transport_close(n->transport);
    n->transport = NULL;
    buf_clear(&n->in);
    buf_clear(&n->held);
    n->written = n->taken = 0;
    n->magic_seen = false;
    loop_timer_stop(n->deadline);
    loop_timer_stop(n->pinger);
}

static void fail(struct node *n, const struct error *err)
{
    struct error copy = *err;
    drop_connection(n);
    loop_timer_stop(n->retry);
    set_state(n, NODE_FAILED);
    n->callbacks.failed(n->arg, n, &copy);
}

/* The connection is gone: wait and try again, or give up. */
void node_connection_lost(struct node *n, const struct error *err)
{
    struct error copy = *err;
    uint64_t now = loop_now_ms(n->loop);
    bool first_loss = n->state == NODE_READY;
    drop_connection(n);
    if (first_loss) {
        n->lost_since_ms = now ? now : 1;
        n->backoff_ms = n->options.backoff_ms;
    }
    bool hopeless = copy.code == ERROR_HELD || copy.code == ERROR_PROTOCOL;
    if (!n->was_ready || hopeless || n->gave_up || now - n->lost_since_ms >= n->options.reconnect_ms) {
        if (n->was_ready && !hopeless)
            error_prefix(&copy, "lost for %llu s", (unsigned long long)((now - n->lost_since_ms) / 1000));
        fail(n, &copy);
        return;
    }
    set_state(n, NODE_WAITING);
    loop_timer_start(n->retry, n->backoff_ms);
    n->backoff_ms = n->backoff_ms * 2 < 5000 ? n->backoff_ms * 2 : 5000;
    if (first_loss)
        n->callbacks.lost(n->arg, n, &copy);
}

/* The owner is told in the next turn of the loop, not within this call. */
static void fail_soon(struct node *n)
{
    drop_connection(n);
    n->gave_up = true;
    if (n->state != NODE_WAITING)
        set_state(n, NODE_WAITING);
    loop_timer_start(n->retry, 0);
}

void node_refuse(struct node *n, const struct error *err)
{
    if (n->state != NODE_READY && n->state != NODE_GREETING)
        return;
    n->failure = *err;
    n->failure.code = ERROR_PROTOCOL;
    fail_soon(n);
}

void node_greeted(struct node *n)
{
    bool again = n->was_ready;
    set_state(n, NODE_READY);
    n->was_ready = true;
    n->lost_since_ms = 0;
    loop_timer_stop(n->deadline);
    n->heard_ms = loop_now_ms(n->loop);
    loop_timer_start(n->pinger, n->options.liveness_ms / 3);
    n->callbacks.ready(n->arg, n, again);
}

static void send_hello(struct node *n)
{
    struct wire_hello hello = n->options.hello;
    CLEANUP(cleanup_free) char *digest = xstrdup(transport_host_digest(n->transport));
    hello.version = WIRE_VERSION;
    hello.host_digest = digest;
    struct buf frame = {0};
    wire_put_hello(&frame, &hello);
    if (n->options.checks.count > 0 || n->options.check_trees.count > 0)
        wire_put_check(&frame, &(struct wire_check){1, n->options.checks, n->options.check_trees});
    size_t at = wire_begin(&frame, WIRE_LIST);
    wire_put_u64(&frame, 1);
    wire_end(&frame, at);
    node_write(n, &frame);
    buf_free(&frame);
}

static void on_opened(void *arg)
{
    struct node *n = arg;
    set_state(n, NODE_GREETING);
    send_hello(n);
    loop_timer_start(n->deadline, n->options.hello_ms);
}

/* Skips the output of login files: everything before the magic. 1 = found, 0 = more needed, -1 = too much noise. */
static int skip_noise(struct node *n)
{
    const size_t len = sizeof WIRE_MAGIC - 1;
    char *at = n->in.len >= len ? memmem(n->in.data, n->in.len, WIRE_MAGIC, len) : NULL;
    if (at) {
        buf_consume(&n->in, (size_t)(at - n->in.data) + len);
        n->magic_seen = true;
        return 1;
    }
    return n->in.len > WIRE_NOISE_MAX ? -1 : 0;
}

static void on_data(void *arg, const uint8_t *data, size_t len)
{
    struct node *n = arg;
    struct error err = ERROR_INIT;
    n->heard_ms = loop_now_ms(n->loop);
    buf_append(&n->in, data, len);
    if (!n->magic_seen) {
        int found = skip_noise(n);
        if (found < 0) {
            error_set(&err, ERROR_PROTOCOL, "node \"%s\": agent: over %d bytes of other output before it", node_name(n),
                      WIRE_NOISE_MAX);
            node_connection_lost(n, &err);
        }
        if (found <= 0)
            return;
    }
    node_handle_frames(n);
}

/* A server that is starting, or rereads its keys, refuses connections and drops those before the key exchange. */
static bool may_be_starting(const struct node *n, enum transport_phase phase, const struct error *err)
{
    return !n->was_ready && !n->gave_up && err->why == ERROR_WHY_NONE &&
           (phase == TRANSPORT_CONNECT || phase == TRANSPORT_HOST_KEY) &&
           loop_now_ms(n->loop) - n->began_ms < n->options.first_ms;
}

static void on_closed(void *arg, const struct error *err, enum transport_phase phase)
{
    struct node *n = arg;
    struct error copy = *err;
    if (may_be_starting(n, phase, err)) {
        drop_connection(n);
        set_state(n, NODE_WAITING);
        loop_timer_start(n->retry, n->options.backoff_ms);
        return;
    }
    if (n->in.len > 0 && !n->magic_seen && copy.hint[0] == 0) {
        size_t len = n->in.len < 120 ? n->in.len : 120;
        CLEANUP(cleanup_free) char *said = xstrndup(n->in.data, len);
        for (char *p = said; *p; p++)
            if ((unsigned char)*p < 0x20)
                *p = ' ';
        error_hint(&copy, "before that the node printed: %s", said);
    }
    node_connection_lost(n, &copy);
}

static void on_drained(void *arg)
{
    struct node *n = arg;
    if (n->state == NODE_READY && n->callbacks.drained)
        n->callbacks.drained(n->arg, n);
}

void node_connect(struct node *n)
{
    static const struct transport_callbacks callbacks = {on_opened, on_data, on_drained, on_closed};
    if (n->state == NODE_IDLE || n->state == NODE_FAILED)
        n->began_ms = loop_now_ms(n->loop);
    if (n->state == NODE_FAILED)
        n->was_ready = n->gave_up = false;
    set_state(n, NODE_CONNECTING);
    n->transport = transport_open(n->pool, &n->options.host, &callbacks, n);
}

void node_greet_anew(struct node *n, char *variant, const struct wire_strings *check_trees)
{
    n->options.hello.variant = variant;
    n->options.check_trees = *check_trees;
    n->was_ready = false;
    if (n->state != NODE_GREETING && n->state != NODE_READY) /* else the next HELLO says so anyway */
        return;
    drop_connection(n);
    set_state(n, NODE_WAITING);
    loop_timer_start(n->retry, 0);
}

static void on_retry(void *arg)
{
    struct node *n = arg;
    if (n->gave_up)
        fail(n, &n->failure);
    else
        node_connect(n);
}

static void on_deadline(void *arg)
{
    struct node *n = arg;
    struct error err = ERROR_INIT;
    error_set(&err, ERROR_TIMEOUT, "node \"%s\": agent: no answer to HELLO in %u s", node_name(n),
              n->options.hello_ms / 1000);
    node_connection_lost(n, &err);
}

/* While files are sent over a slow line, a PING waits behind them. But as long as their bytes leave, the other side
 * lives: the kernel takes more only when the peer has acknowledged some. */
static void watch_leaving(struct node *n)
{
    uint64_t taken = n->written - transport_queued(n->transport);
    if (taken > n->taken && n->written - taken > 0)
        n->heard_ms = loop_now_ms(n->loop);
    n->taken = taken;
}

static void on_ping(void *arg)
{
    struct node *n = arg;
    watch_leaving(n);
    uint64_t silent = loop_now_ms(n->loop) - n->heard_ms;
    if (silent >= n->options.liveness_ms) {
        struct error err = ERROR_INIT;
        error_set(&err, ERROR_TIMEOUT, "node \"%s\": nothing heard for %llu s", node_name(n),
                  (unsigned long long)(silent / 1000));
        node_connection_lost(n, &err);
        return;
    }
    if (silent >= n->options.liveness_ms / 4)
        node_ping(n, 0);
    loop_timer_start(n->pinger, n->options.liveness_ms / 4);
}

struct node *node_create(struct loop *loop, struct transport_pool *pool, const struct node_options *options,
                         const struct node_callbacks *callbacks, void *arg)
{
    struct node *n = xcalloc(1, sizeof *n);
    n->loop = loop;
    n->pool = pool;
    n->options = *options;
    n->callbacks = *callbacks;
    n->arg = arg;
    n->frame_arena = arena_create();
    n->facts_arena = arena_create();
    if (!n->options.liveness_ms)
        n->options.liveness_ms = 15000;
    if (!n->options.hello_ms)
        n->options.hello_ms = 15000;
    if (!n->options.reconnect_ms)
        n->options.reconnect_ms = 300000;
    if (!n->options.backoff_ms)
        n->options.backoff_ms = 200;
    n->retry = loop_timer_create(loop, on_retry, n);
    n->deadline = loop_timer_create(loop, on_deadline, n);
    n->pinger = loop_timer_create(loop, on_ping, n);
    return n;
}

void node_destroy(struct node *n)
{
    if (!n)
        return;
    transport_close(n->transport);
    loop_timer_destroy(n->retry);
    loop_timer_destroy(n->deadline);
    loop_timer_destroy(n->pinger);
    arena_destroy(n->frame_arena);
    arena_destroy(n->facts_arena);
    buf_free(&n->in);
    buf_free(&n->held);
    free(n);
}

void node_give_up(struct node *n)
{
    if (n->state == NODE_WAITING && !n->gave_up) {
        error_set(&n->failure, ERROR_INFRA, "node \"%s\": lost, and not tried again", node_name(n));
        fail_soon(n);
    }
    n->gave_up = true;
}

void node_park(struct node *n)
{
    if (n->state == NODE_FAILED)
        return;
    if (n->lost_since_ms == 0)
        n->lost_since_ms = loop_now_ms(n->loop);
    drop_connection(n);
    loop_timer_stop(n->retry);
    if (n->state != NODE_WAITING)
        set_state(n, NODE_WAITING);
}

enum node_state node_state(const struct node *n)
{
    return n->state;
}

enum transport_phase node_phase(const struct node *n)
{
    return n->transport ? transport_phase(n->transport) : TRANSPORT_CLOSED;
}

int node_forward(struct node *n, const struct transport_forward *f)
{
    return n->state == NODE_READY ? transport_forward(n->transport, f) : -1;
}

bool node_can_forward(const struct node *n)
{
    return n->state == NODE_READY && transport_can_forward(n->transport);
}

uint32_t node_index(const struct node *n)
{
    return n->options.index;
}

const char *node_name(const struct node *n)
{
    return n->options.label ? n->options.label : n->options.host.name;
}

const struct wire_facts *node_facts(const struct node *n)
{
    return n->was_ready || n->state == NODE_READY ? &n->facts : NULL;
}

uint64_t node_lost_since_ms(const struct node *n)
{
    return n->lost_since_ms;
}
