/* The world's nodes: the requests to them, their ledgers, their programs. */
#include "core_world.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PROGRAM_STOPS_US = 200000, CUT_NOTICED_US = 50000, FREEZE_NOTICED_US = 15000000 };

/* ---- the ledger ---- */

uint32_t world_generation(const char *launch)
{
    uint32_t n;
    const char *dash = strrchr(launch, '-');
    return dash && parse_u32(dash + 1, &n) ? n : 0;
}

static struct world_record *find(struct world_node *n, const char *attempt)
{
    for (size_t i = n->record_count; i-- > 0;)
        if (strcmp(n->records[i].attempt, attempt) == 0)
            return &n->records[i];
    return NULL;
}

static struct world_record *find_live(struct world_node *n, const struct plan_step *step)
{
    for (size_t i = n->record_count; i-- > 0;)
        if (n->records[i].state == WIRE_STATE_CLAIMED && n->records[i].step == step)
            return &n->records[i];
    return NULL;
}

static struct world_record *find_start(struct world_node *n, uint64_t sequence)
{
    for (size_t i = n->record_count; i-- > 0;)
        if (n->records[i].sequence == sequence)
            return &n->records[i];
    return NULL;
}

static void remove_at(struct world_node *n, size_t i)
{
    memmove(&n->records[i], &n->records[i + 1], (--n->record_count - i) * sizeof *n->records);
}

struct wire_record world_wire(const struct world_node *n, const struct world_record *r, char boot[WIRE_ID_LEN + 1])
{
    static char empty[] = "", variant[] = "0123456789abcdef";
    const bool ended = r->state == WIRE_STATE_ENDED;
    snprintf(boot, WIRE_ID_LEN + 1, "%032x", r->boot);
    return (struct wire_record){.attempt = (char *)(uintptr_t)r->attempt,
                                .slot = (char *)(uintptr_t)r->step->slot,
                                .key = (char *)(uintptr_t)r->step->key,
                                .variant = variant,
                                .boot_id = boot,
                                .launch = (char *)(uintptr_t)r->launch,
                                .state = (uint8_t)r->state,
                                .same_boot = r->boot == n->boot,
                                .stop_requested = r->stopped,
                                .verdict = r->good ? WIRE_VERDICT_GOOD : WIRE_VERDICT_NONE,
                                .sequence = r->sequence,
                                .claim_wall_ms = r->claim_us / 1000,
                                .start_mono_ns = r->claim_us * 1000,
                                .end_mono_ns = ended ? r->end_us * 1000 : 0,
                                .end_wall_ms = r->end_us / 1000,
                                .cause = ended ? r->program.cause : 0,
                                .value = ended ? r->program.value : 0,
                                .cause_rank = r->step->kind->phase == PHASE_LAUNCH ? n->index : 0,
                                .cause_mono_ns = ended ? r->end_us * 1000 : 0,
                                .tail = ended ? (char *)(uintptr_t)r->program.tail : empty,
                                .leftover = empty};
}

void world_node_create(struct world *w, uint32_t node)
{
    struct world_node *n = &w->nodes[node];
    n->index = node;
    n->boot = 1 + node * 1000;
    n->install = n->boot;
    n->starts = xcalloc(w->plan->step_count + 1, sizeof *n->starts);
    n->made = xcalloc(w->plan->step_count + 1, sizeof *n->made);
    snprintf(n->address, sizeof n->address, "10.%u.%u.%u", node >> 16, node >> 8 & 255, node & 255);
}

/* ---- answers ---- */

struct world_answer *world_answer(struct world *w, struct world_node *n, enum world_answer_kind kind)
{
    if (n->link != LINK_READY || n->cut || !w->hands)
        return NULL;
    uint64_t at = w->now_us + world_delay_us(w, 40000);
    n->in_us = at > n->in_us ? at : n->in_us;
    struct happening *h = world_happens(w, HAPPENS_ANSWER, n->in_us - w->now_us);
    h->node = n->index;
    h->connection = n->connection;
    h->says.kind = kind;
    h->says.boot = n->boot;
    h->says.changes = n->changes;
    return &h->says;
}

static void say_record(struct world *w, struct world_node *n, enum world_answer_kind kind, const struct world_record *r)
{
    struct world_answer *a = world_answer(w, n, kind);
    if (!a)
        return;
    a->records = xmalloc(sizeof *r);
    *a->records = *r;
    a->record_count = 1;
}

static void say_attempt(struct world *w, struct world_node *n, enum world_answer_kind kind, const char *attempt,
                        const char *text)
{
    struct world_answer *a = world_answer(w, n, kind);
    if (!a)
        return;
    snprintf(a->attempt, sizeof a->attempt, "%s", attempt);
    a->text = text;
}

/* The requester hears of its end, if the connection is still the same. */
static void tell_end(struct world *w, struct world_node *n, struct world_record *r)
{
    if (r->heard_by == n->connection && r->state != WIRE_STATE_CLAIMED) {
        r->heard_by = 0;
        say_record(w, n, SAYS_ENDED, r);
    }
}

/* ---- programs ---- */

static void end_program(struct world *w, struct world_node *n, struct world_record *r, enum wire_state state)
{
    r->state = state;
    r->end_us = w->now_us;
    r->settled = false; /* only the claim was on the disk */
    if (state == WIRE_STATE_ENDED && r->program.cause == WIRE_CAUSE_NONE && !r->stopped && r->step->creates)
        n->made[r->step->id] = true;
    world_say(w, "  node %u: %s %.6s ended: %s", n->index, r->step->slot, r->attempt,
              state == WIRE_STATE_LOST ? "lost"
              : r->stopped             ? "stopped"
              : r->program.cause       ? "badly"
                                       : "well");
    if (w->watch->ended)
        w->watch->ended(w->arg, n, r);
    tell_end(w, n, r);
}

static void ends_at(struct world *w, const struct world_node *n, struct world_record *r, uint64_t after_us)
{
    r->ends_us = w->now_us + after_us;
    struct happening *h = world_happens(w, HAPPENS_END, after_us);
    h->node = n->index;
    h->start = r->sequence;
}

static void on_end(struct world *w, struct world_node *n, uint64_t sequence)
{
    struct world_record *r = find_start(n, sequence);
    if (r && r->state == WIRE_STATE_CLAIMED && r->ends_us == w->now_us)
        end_program(w, n, r, WIRE_STATE_ENDED);
}

static void note_start(struct world *w, struct world_node *n, const struct world_record *r)
{
    for (size_t i = 0; w->watch->violated && i < w->start_count; i++)
        if (strcmp(w->starts[i].attempt, r->attempt) == 0)
            world_violated(w, "attempt %.6s of %s was started twice on node %u", r->attempt, r->step->slot, n->index);
    if (w->start_count == w->start_cap) {
        w->start_cap = w->start_cap ? 2 * w->start_cap : 64;
        w->starts = xreallocarray(w->starts, w->start_cap, sizeof *w->starts);
    }
    struct world_start *s = &w->starts[w->start_count++];
    *s = (struct world_start){n->index, r->number, world_generation(r->launch), r->step, {0}, w->steps};
    memcpy(s->attempt, r->attempt, sizeof s->attempt);
}

static struct world_record *start(struct world *w, struct world_node *n, const struct world_request *ask)
{
    if (n->record_count == n->record_cap) {
        n->record_cap = n->record_cap ? 2 * n->record_cap : 8;
        n->records = xreallocarray(n->records, n->record_cap, sizeof *n->records);
    }
    struct world_record *r = &n->records[n->record_count++];
    *r = (struct world_record){.step = ask->step,
                               .state = WIRE_STATE_CLAIMED,
                               .boot = n->boot,
                               .number = ++n->starts[ask->step->id],
                               .sequence = ++n->sequence,
                               .claim_us = w->now_us,
                               .heard_by = n->connection,
                               .program = {.ms = 10, .tail = ""}};
    memcpy(r->attempt, ask->attempt, sizeof r->attempt);
    memcpy(r->launch, ask->launch, sizeof r->launch);
    world_say(w, "  node %u starts %s %.6s %s", n->index, r->step->slot, r->attempt, r->launch);
    note_start(w, n, r);
    if (w->watch->program)
        w->watch->program(w->arg, n, r, &r->program);
    if (w->watch->started)
        w->watch->started(w->arg, n, r);
    ends_at(w, n, r, (uint64_t)r->program.ms * 1000 + 1);
    return r;
}

/* ---- requests ---- */

static void on_run(struct world *w, struct world_node *n, const struct world_request *ask)
{
    struct world_record *known = find(n, ask->attempt);
    struct world_record *live = known ? NULL : find_live(n, ask->step);
    if (known) {
        known->heard_by = n->connection;
        say_record(w, n, SAYS_RECORD, known);
        tell_end(w, n, known);
    } else if (live) {
        struct world_answer *a = world_answer(w, n, SAYS_BUSY);
        if (a) {
            memcpy(a->attempt, ask->attempt, sizeof a->attempt);
            memcpy(a->live, live->attempt, sizeof a->live);
            a->step = ask->step;
        }
        world_violated(w, "node %u: %s is started, and runs already", n->index, ask->step->slot);
    } else {
        start(w, n, ask);
        say_attempt(w, n, SAYS_STARTED, ask->attempt, NULL);
    }
}

static void on_list(struct world *w, struct world_node *n)
{
    struct world_answer *a = world_answer(w, n, SAYS_LISTED);
    if (!a)
        return;
    a->record_count = n->record_count;
    a->records = xcalloc(n->record_count + 1, sizeof *a->records);
    if (n->record_count)
        memcpy(a->records, n->records, n->record_count * sizeof *a->records);
    a->exists = xcalloc(w->plan->step_count + 1, 1);
    for (size_t i = 0; i < w->plan->step_count; i++)
        if (w->plan->steps[i].creates && w->plan->steps[i].on[n->index])
            a->exists[a->exists_count++] = n->made[i];
}

static void on_signal(struct world *w, struct world_node *n, struct world_record *r, enum wire_signal signal)
{
    if (r->state != WIRE_STATE_CLAIMED)
        return;
    uint64_t after = world_delay_us(w, signal == WIRE_KILL ? 1000 : PROGRAM_STOPS_US);
    r->stopped = true;
    if (r->ends_us <= w->now_us + after)
        return; /* it ends by itself first */
    r->program.cause = WIRE_CAUSE_SIGNAL;
    r->program.value = signal == WIRE_KILL ? 9 : 15;
    ends_at(w, n, r, after);
}

static void on_forget(struct world_node *n, const struct world_ids *ids)
{
    for (uint32_t k = 0; k < ids->count; k++)
        for (size_t i = n->record_count; i-- > 0;)
            if (n->records[i].state != WIRE_STATE_CLAIMED && strcmp(n->records[i].attempt, ids->ids[k]) == 0)
                remove_at(n, i);
}

static void on_request(struct world *w, struct world_node *n, const struct world_request *ask)
{
    struct world_record *r = find(n, ask->attempt);
    struct world_answer *a;
    switch (ask->kind) {
    case ASK_RUN:
        on_run(w, n, ask);
        break;
    case ASK_LIST:
        on_list(w, n);
        break;
    case ASK_ATTACH:
    case ASK_SIGNAL:
    case ASK_JUDGE:
        if (!r) {
            say_attempt(w, n, SAYS_FAULT, ask->attempt, "attempt is not known on this node");
        } else if (ask->kind == ASK_SIGNAL) {
            on_signal(w, n, r, ask->signal);
        } else {
            r->good = r->good || (ask->kind == ASK_JUDGE && r->state != WIRE_STATE_CLAIMED);
            r->heard_by = n->connection;
            tell_end(w, n, r);
        }
        break;
    case ASK_SETTLE:
        for (size_t i = 0; i < n->record_count; i++)
            n->records[i].settled = true;
        world_answer(w, n, SAYS_SETTLED);
        break;
    case ASK_FORGET:
        on_forget(n, ask->forget);
        break;
    case ASK_PORT:
        a = world_answer(w, n, SAYS_PORT);
        if (a)
            a->token = ask->token;
        break;
    case ASK_FETCH:
        world_look_for_files(w, n, ask);
        break;
    }
}

static void on_sent(struct world *w, struct world_node *n, struct happening *h)
{
    bool whole = h->connection == n->connection && !n->cut;
    if (h->fault == WORLD_REFUSED) {
        say_attempt(w, n, SAYS_FAULT, h->ask.attempt, "no space left on device");
        return;
    }
    if (h->fault == WORLD_CUT_BEFORE || h->fault == WORLD_FREEZE) {
        if (whole)
            world_cut(w, n->index, h->fault == WORLD_FREEZE);
        return;
    }
    if (whole)
        on_request(w, n, &h->ask);
    if (whole && h->fault == WORLD_CUT_AFTER)
        world_cut(w, n->index, false);
}

void world_handle(struct world *w, struct happening *h)
{
    struct world_node *n = &w->nodes[h->node];
    if (h->kind == HAPPENS_REQUEST)
        on_sent(w, n, h);
    else if (h->kind == HAPPENS_END)
        on_end(w, n, h->start);
    else
        n->away = false;
}

void world_request(struct world *w, uint32_t node, struct world_request *ask)
{
    struct world_node *n = &w->nodes[node];
    if (n->link != LINK_READY || n->cut) {
        free(ask->forget);
        return;
    }
    uint64_t at = w->now_us + world_delay_us(w, 40000);
    n->out_us = at > n->out_us ? at : n->out_us;
    struct happening *h = world_happens(w, HAPPENS_REQUEST, n->out_us - w->now_us);
    h->node = node;
    h->connection = n->connection;
    h->ask = *ask;
    h->fault = w->watch->frame ? w->watch->frame(w->arg, node, ask->kind == ASK_RUN) : WORLD_PASS;
}

/* ---- events by themselves ---- */

struct of_node {
    uint32_t node;
    enum happening_kind kind;
};

static bool is_of_node(const struct happening *h, const void *arg)
{
    const struct of_node *of = arg;
    return h->kind == of->kind && h->node == of->node;
}

/* Messages on the way to it: a random part arrived before the connection ended. */
void world_disconnect(struct world *w, uint32_t node)
{
    struct world_node *n = &w->nodes[node];
    size_t count;
    struct happening **sent = world_take(w, is_of_node, &(struct of_node){node, HAPPENS_REQUEST}, &count);
    size_t there = count ? world_random(&w->rng) % (count + 1) : 0;
    n->cut = true; /* it does not answer any more */
    for (size_t i = 0; i < count; i++) {
        if (i < there && sent[i]->connection == n->connection && sent[i]->fault != WORLD_REFUSED)
            on_request(w, n, &sent[i]->ask);
        world_drop(sent[i]);
    }
    free(sent);
    n->cut = false;
    n->link = LINK_IDLE;
}

void world_cut(struct world *w, uint32_t node, bool frozen)
{
    struct world_node *n = &w->nodes[node];
    if (n->link != LINK_READY || n->cut)
        return;
    world_say(w, "  the connection to node %u is cut", node);
    world_disconnect(w, node);
    n->link = LINK_READY; /* as far as the controller knows */
    n->cut = true;
    struct happening *h =
        world_happens(w, HAPPENS_LOST, frozen ? FREEZE_NOTICED_US : world_delay_us(w, CUT_NOTICED_US));
    h->node = node;
    h->connection = n->connection;
}

void world_away(struct world *w, uint32_t node, uint64_t ms)
{
    world_say(w, "  node %u is away for %" PRIu64 " ms", node, ms);
    world_cut(w, node, false);
    if (w->nodes[node].away)
        return;
    w->nodes[node].away = true;
    world_happens(w, HAPPENS_BACK, ms * 1000)->node = node;
}

void world_reach_all(struct world *w)
{
    for (uint32_t n = 0; n < w->node_count; n++)
        w->nodes[n].away = false;
}

void world_reboot(struct world *w, uint32_t node, uint64_t vanish)
{
    struct world_node *n = &w->nodes[node];
    world_say(w, "  node %u reboots", node);
    world_cut(w, node, false);
    n->changes++;
    n->boot++;
    for (size_t at = 0, i = 0; at < n->record_count; i++) {
        struct world_record *r = &n->records[at];
        if (r->state == WIRE_STATE_CLAIMED)
            end_program(w, n, r, WIRE_STATE_LOST);
        if (!r->settled && vanish >> i % 64 & 1)
            remove_at(n, at);
        else
            at++;
    }
}

void world_reinstall(struct world *w, uint32_t node)
{
    struct world_node *n = &w->nodes[node];
    world_say(w, "  node %u is another machine", node);
    world_lose(w, node);
    world_cut(w, node, false);
    world_lose(w, node); /* programs whose RUN was on the way there and has begun */
    n->changes++;
    n->boot++;
    n->install = n->boot;
    n->record_count = 0;
    memset(n->made, 0, w->plan->step_count * sizeof *n->made);
}

void world_lose(struct world *w, uint32_t node)
{
    struct world_node *n = &w->nodes[node];
    world_say(w, "  the supervisors on node %u are killed", node);
    for (size_t i = 0; i < n->record_count; i++)
        if (n->records[i].state == WIRE_STATE_CLAIMED)
            end_program(w, n, &n->records[i], WIRE_STATE_LOST);
}

void world_unmake(struct world *w, uint32_t node, size_t step)
{
    world_say(w, "  what %s made on node %u is removed", w->plan->steps[step].name, node);
    w->nodes[node].made[step] = false;
    w->nodes[node].changes++;
}

bool world_has_changed(const struct world *w, uint32_t node)
{
    const struct world_node *n = &w->nodes[node];
    return n->changes != n->heard_changes;
}

size_t world_live(const struct world *w)
{
    size_t live = 0;
    for (uint32_t n = 0; n < w->node_count; n++)
        for (size_t i = 0; i < w->nodes[n].record_count; i++)
            live += w->nodes[n].records[i].state == WIRE_STATE_CLAIMED;
    return live;
}
