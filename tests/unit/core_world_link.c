/* Connections on the controller's side (as src/node does it): made, lost, tried again, and the messages over them. */
#include "core_world.h"
#include "sim_made_up.h"

#include <stdlib.h>
#include <string.h>

enum { OPEN_US = 300000, MACHINE_US = 60000000, PAUSE_MS = 200, PAUSE_MAX_MS = 5000 };

static void tell(struct world *w, uint32_t node, struct input in)
{
    in.node = node;
    core_take(w->hands->run, &in);
}

static struct happening *of_link(struct world *w, enum happening_kind kind, uint32_t node, uint64_t after_us)
{
    struct happening *h = world_happens(w, kind, after_us);
    h->node = node;
    h->connection = w->nodes[node].connection;
    return h;
}

/* ---- made ---- */

void world_connect(struct world *w, uint32_t node)
{
    struct world_node *n = &w->nodes[node];
    n->link = LINK_CONNECTING;
    n->was_ready = n->gave_up = n->parked = false;
    of_link(w, HAPPENS_OPEN, node, world_delay_us(w, OPEN_US));
}

static void fail(struct world *w, struct world_node *n, enum error_code code, const char *text)
{
    struct error err = ERROR_INIT;
    error_set(&err, code, "node %u: %s", n->index, text);
    n->link = LINK_FAILED;
    world_say(w, "  node %u is given up: %s", n->index, text);
    tell(w, n->index, (struct input){.kind = INPUT_GONE, .error = &err});
}

/* It is gone, and the core hears of it in a moment. */
static void fail_soon(struct world *w, struct world_node *n, const char *text)
{
    n->link = LINK_FAILED;
    struct happening *h = of_link(w, HAPPENS_ANSWER, n->index, 0);
    h->says.kind = SAYS_GONE;
    h->says.text = text;
}

static void wait_and_retry(struct world *w, struct world_node *n)
{
    const uint64_t most = w->options.reconnect_ms ? w->options.reconnect_ms : RECONNECT_MS;
    if (!n->was_ready)
        fail(w, n, ERROR_INFRA, "connection refused");
    else if (n->gave_up || w->now_us - n->lost_us >= most * 1000)
        fail(w, n, ERROR_INFRA, "lost");
    else {
        n->link = LINK_WAITING;
        of_link(w, HAPPENS_RETRY, n->index, n->pause_ms * 1000);
        n->pause_ms = n->pause_ms * 2 < PAUSE_MAX_MS ? n->pause_ms * 2 : PAUSE_MAX_MS;
    }
}

static void greeted(struct world *w, struct world_node *n)
{
    snprintf(n->boot_id, sizeof n->boot_id, "%032x", n->boot);
    snprintf(n->install_id, sizeof n->install_id, "%032x", n->install);
    n->facts = made_up_facts();
    n->facts.install = n->facts.home_id = n->install_id;
    n->facts.boot_id = n->boot_id;
    n->facts.hostname = n->facts.address = n->address;
    n->facts.mono_ns = w->now_us * 1000;
    n->facts.wall_ms = w->now_us / 1000;
    bool again = n->was_ready;
    n->link = LINK_READY;
    n->was_ready = true;
    n->connection = ++w->connections;
    n->cut = false;
    n->out_us = n->in_us = w->now_us;
    world_request(w, n->index, &(struct world_request){.kind = ASK_LIST});
    tell(w, n->index, (struct input){.kind = INPUT_READY, .facts = &n->facts, .again = again});
}

static void on_open(struct world *w, struct world_node *n)
{
    if (n->link != LINK_CONNECTING)
        return;
    if (n->away || (w->watch->refuse && w->watch->refuse(w->arg, n->index)))
        wait_and_retry(w, n);
    else
        greeted(w, n);
}

/* ---- lost ---- */

static void on_lost(struct world *w, struct world_node *n)
{
    struct error err = ERROR_INIT;
    n->cut = false;
    n->lost_us = w->now_us;
    n->pause_ms = PAUSE_MS;
    wait_and_retry(w, n);
    if (n->link != LINK_WAITING)
        return;
    error_set(&err, ERROR_INFRA, "node %u: connection reset", n->index);
    tell(w, n->index, (struct input){.kind = INPUT_LOST, .error = &err});
}

void world_give_up(struct world *w, uint32_t node)
{
    struct world_node *n = &w->nodes[node];
    n->gave_up = true;
    if (n->link == LINK_WAITING || n->parked)
        fail_soon(w, n, "lost, and not tried again");
    n->parked = false;
}

void world_replace(struct world *w, uint32_t node)
{
    struct world_node *n = &w->nodes[node];
    if (n->link == LINK_READY)
        world_disconnect(w, node);
    n->link = LINK_IDLE;
    n->parked = true;
    of_link(w, HAPPENS_MACHINE, node, world_delay_us(w, MACHINE_US));
}

static void on_machine(struct world *w, struct world_node *n)
{
    if (!n->parked)
        return;
    world_say(w, "  node %u is another machine", n->index);
    n->parked = n->away = false;
    world_reinstall(w, n->index);
    if (w->watch->replaced)
        w->watch->replaced(w->arg, n->index);
    tell(w, n->index, (struct input){.kind = INPUT_MACHINE});
}

void world_vanish(struct world *w, uint32_t node)
{
    struct world_node *n = &w->nodes[node];
    world_say(w, "  the machine of node %u vanishes", node);
    world_reinstall(w, node);
    n->away = true;
    if (w->hands && !w->hands->finished)
        tell(w, node, (struct input){.kind = INPUT_VANISHED});
}

void world_refuse(struct world *w, uint32_t node, const struct error *err)
{
    world_violated(w, "node %u is refused: %s", node, err->text);
}

/* ---- messages ---- */

static void on_listed(struct world *w, struct world_node *n, const struct world_answer *a)
{
    char boot[WIRE_ID_LEN + 1];
    const struct world_node then = {.index = n->index, .boot = a->boot};
    if (a->exists_count)
        tell(w, n->index, (struct input){.kind = INPUT_CHECKED, .exists = a->exists, .count = a->exists_count});
    for (size_t i = 0; i < a->record_count; i++) {
        const struct wire_record r = world_wire(&then, &a->records[i], boot);
        tell(w, n->index, (struct input){.kind = INPUT_RECORD, .record = &r});
    }
    n->heard_changes = a->changes;
    tell(w, n->index, (struct input){.kind = INPUT_LISTED});
}

static void on_record(struct world *w, struct world_node *n, const struct world_answer *a, enum input_kind kind)
{
    char boot[WIRE_ID_LEN + 1];
    const struct world_node then = {.index = n->index, .boot = a->boot};
    const struct wire_record r = world_wire(&then, a->records, boot);
    tell(w, n->index, (struct input){.kind = kind, .record = &r});
}

static void on_answer(struct world *w, struct world_node *n, const struct world_answer *a)
{
    switch (a->kind) {
    case SAYS_LISTED:
        on_listed(w, n, a);
        break;
    case SAYS_RECORD:
        on_record(w, n, a, INPUT_RECORD);
        break;
    case SAYS_ENDED:
        on_record(w, n, a, INPUT_ENDED);
        break;
    case SAYS_STARTED:
        tell(w, n->index, (struct input){.kind = INPUT_STARTED, .attempt = a->attempt});
        break;
    case SAYS_BUSY:
        tell(w, n->index,
             (struct input){.kind = INPUT_BUSY, .attempt = a->attempt, .live = a->live, .slot = a->step->slot});
        break;
    case SAYS_PORT:
        tell(w, n->index, (struct input){.kind = INPUT_PORT, .token = a->token, .port = 40000 + n->index});
        break;
    case SAYS_SETTLED:
        tell(w, n->index, (struct input){.kind = INPUT_SETTLED, .text = ""});
        break;
    case SAYS_FAULT:
        tell(w, n->index, (struct input){.kind = INPUT_FAULT, .attempt = a->attempt, .text = a->text});
        break;
    case SAYS_FETCHED:
        world_fetched(w, n, a);
        break;
    case SAYS_GONE:
        break;
    }
}

void world_link(struct world *w, struct happening *h)
{
    struct world_node *n = &w->nodes[h->node];
    switch (h->kind) {
    case HAPPENS_OPEN:
        on_open(w, n);
        break;
    case HAPPENS_RETRY:
        if (n->link == LINK_WAITING) {
            n->link = LINK_CONNECTING;
            of_link(w, HAPPENS_OPEN, n->index, world_delay_us(w, OPEN_US));
        }
        break;
    case HAPPENS_LOST:
        if (n->link == LINK_READY && h->connection == n->connection)
            on_lost(w, n);
        break;
    case HAPPENS_ANSWER:
        if (h->says.kind == SAYS_GONE)
            fail(w, n, ERROR_INFRA, h->says.text);
        else if (n->link == LINK_READY && !n->cut && h->connection == n->connection)
            on_answer(w, n, &h->says);
        break;
    case HAPPENS_MACHINE:
        on_machine(w, n);
        break;
    case HAPPENS_ALARM:
    case HAPPENS_FINDINGS:
    case HAPPENS_COMMIT:
    case HAPPENS_REQUEST:
    case HAPPENS_END:
    case HAPPENS_BACK:
        break;
    }
}
