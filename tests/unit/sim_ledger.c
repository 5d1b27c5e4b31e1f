/* The simulated agent: its ledger, and the programs that it started. */
#include "sim_internal.h"

#include <stdlib.h>
#include <string.h>

struct attempt *sim_find(const struct node_sim *node, const char *attempt)
{
    for (size_t i = 0; i < node->attempt_count; i++)
        if (strcmp(node->attempts[i]->record.attempt, attempt) == 0)
            return node->attempts[i];
    return NULL;
}

struct attempt *sim_find_live(const struct node_sim *node, const char *slot)
{
    for (size_t i = 0; i < node->attempt_count; i++)
        if (node->attempts[i]->record.state == WIRE_STATE_CLAIMED &&
            (!slot || strcmp(node->attempts[i]->record.slot, slot) == 0))
            return node->attempts[i];
    return NULL;
}

static void live_remove(struct attempt *a)
{
    struct sim_net *net = a->node->net;
    for (size_t i = 0; i < net->live_count; i++)
        if (net->live[i] == a) {
            net->live[i] = net->live[--net->live_count];
            return;
        }
}

static void attempt_free(struct attempt *a)
{
    for (struct peer *p = a->node->peers; p; p = p->next)
        for (size_t i = 0; i < p->sub_count; i++)
            if (p->subs[i].attempt == a)
                p->subs[i--] = p->subs[--p->sub_count];
    for (struct peer *p = a->node->peers; p; p = p->next)
        if (p->sync.attempt == a)
            p->sync.attempt = NULL;
    live_remove(a);
    free(a->record.attempt);
    free(a->record.slot);
    free(a->record.key);
    free(a->record.variant);
    free(a->record.launch);
    free(a->record.boot_id);
    free(a->record.tail);
    buf_free(&a->spool);
    free(a);
}

void sim_remove_at(struct node_sim *node, size_t i)
{
    attempt_free(node->attempts[i]);
    memmove(&node->attempts[i], &node->attempts[i + 1], (--node->attempt_count - i) * sizeof node->attempts[0]);
}

void sim_end_attempt(struct attempt *a, enum wire_state state, enum wire_cause cause, int32_t value)
{
    struct wire_record *r = &a->record;
    live_remove(a);
    r->state = (uint8_t)state;
    r->end_mono_ns = r->cause_mono_ns = mono_ns();
    r->end_wall_ms = ++a->node->net->clock;
    r->cause = (uint8_t)cause;
    r->value = value;
    a->settled = false; /* only the claim was on the disk */
    if (a->node->net->script.ended)
        a->node->net->script.ended(a->node->net->script.arg, a->node->index, r);
    sim_publish(a);
}

static void write_output(struct attempt *a)
{
    uint8_t header[WIRE_SPOOL_HEADER];
    if (!a->program.output)
        return;
    struct wire_spool h = {
        .len = (uint32_t)strlen(a->program.output), .rank = a->rank, .stream = WIRE_STREAM_OUT, .wall_ms = 1};
    wire_spool_put(header, &h);
    buf_append(&a->spool, header, sizeof header);
    buf_puts(&a->spool, a->program.output);
}

static void write_end(struct attempt *a, const struct wire_worker_end *end)
{
    uint8_t header[WIRE_SPOOL_HEADER], data[WIRE_END_SIZE];
    const struct wire_spool h = {WIRE_END_SIZE, end->rank, WIRE_STREAM_END, 1};
    if (!a->ends)
        return;
    wire_spool_put(header, &h);
    wire_spool_end_put(data, end);
    buf_append(&a->spool, header, sizeof header);
    buf_append(&a->spool, data, sizeof data);
}

static void end_preempted(struct attempt *a)
{
    a->record.cause_rank = WIRE_NO_RANK;
    sim_end_attempt(a, WIRE_STATE_ENDED, WIRE_CAUSE_PREEMPTED, 15);
}

void sim_preempt(struct sim_net *net, uint32_t node, const char *slot, bool ends)
{
    struct attempt *a = sim_find_live(&net->nodes[node], slot);
    const struct wire_worker_end end = {WIRE_NO_RANK, WIRE_CAUSE_PREEMPTED, 15, mono_ns()};
    if (!a)
        return;
    a->preempted = true;
    write_end(a, &end);
    sim_publish(a);
    if (ends)
        end_preempted(a);
}

static bool spares(const struct wire_run *run, int32_t status)
{
    char text[24];
    snprintf(text, sizeof text, "exit %d", status);
    for (uint32_t i = 0; i < run->spared.count; i++)
        if (str_eq(run->spared.items[i], text) || str_eq(run->spared.items[i], "any"))
            return true;
    return false;
}

/* One of several workers fails at the start. */
static void worker_fails(struct attempt *a, const struct wire_run *run)
{
    int32_t status = a->program.worker_status;
    const struct wire_worker_end end = {run->workers[run->worker_count - 1].rank, WIRE_CAUSE_EXIT, status, mono_ns()};
    if (!status)
        return;
    write_end(a, &end);
    a->workers[1] = end;
    a->spared = spares(run, status);
    if (!a->spared) { /* the node stops the others */
        a->program = (struct sim_program){.status = status};
        a->rank = end.rank;
        a->turns_left = 0;
    }
}

void sim_program_ends(struct attempt *a)
{
    struct wire_record *r = &a->record;
    const enum wire_cause cause = a->program.signal   ? WIRE_CAUSE_SIGNAL
                                  : a->program.status ? WIRE_CAUSE_EXIT
                                                      : WIRE_CAUSE_NONE;
    const int32_t value = a->program.signal ? a->program.signal : a->program.status;
    a->workers[0] = (struct wire_worker_end){a->rank, (uint8_t)cause, value, mono_ns()};
    if (cause && !a->program.lost)
        write_end(a, &a->workers[0]);
    r->workers = a->workers;
    r->worker_count = a->spared ? 2 : 1;
    r->cause_rank = a->rank;
    if (a->spared && !a->program.lost && !cause) {
        r->cause_rank = a->workers[1].rank;
        sim_end_attempt(a, WIRE_STATE_ENDED, WIRE_CAUSE_EXIT, a->workers[1].value);
        return;
    }
    if (a->program.lost)
        sim_end_attempt(a, WIRE_STATE_LOST, WIRE_CAUSE_NONE, 0);
    else
        sim_end_attempt(a, WIRE_STATE_ENDED, cause, value);
}

void sim_arm(struct sim_net *net)
{
    for (size_t i = 0; i < net->live_count; i++)
        if (!net->live[i]->program.endless || net->live[i]->stopping) {
            if (!loop_timer_active(net->turn))
                loop_timer_start(net->turn, 1);
            return;
        }
}

void sim_turn(struct sim_net *net)
{
    for (size_t i = net->live_count; i-- > 0;) {
        struct attempt *a = net->live[i];
        if (a->stopping && a->preempted) {
            end_preempted(a);
        } else if (a->stopping) {
            sim_end_attempt(a, WIRE_STATE_ENDED, WIRE_CAUSE_SIGNAL, 15);
        } else if (!a->program.endless) {
            write_output(a);
            if (--a->turns_left == 0)
                sim_program_ends(a);
            else
                sim_publish(a);
        }
    }
}

void sim_on_turn(void *arg)
{
    sim_turn(arg);
    sim_arm(arg);
}

struct attempt *sim_start_attempt(struct peer *p, const struct wire_run *run)
{
    struct node_sim *node = p->node;
    struct sim_net *net = node->net;
    struct attempt *a = xcalloc(1, sizeof *a);
    a->node = node;
    a->record = (struct wire_record){.attempt = xstrdup(run->attempt),
                                     .slot = xstrdup(run->slot),
                                     .key = xstrdup(run->key),
                                     .launch = xstrdup(run->launch ? run->launch : ""),
                                     .variant = xstrdup(p->variant),
                                     .boot_id = xstrdup(node->boot_id),
                                     .tail = xstrdup("last line"),
                                     .state = WIRE_STATE_CLAIMED,
                                     .sequence = ++net->clock,
                                     .claim_wall_ms = net->clock,
                                     .start_mono_ns = mono_ns()};
    node->attempts = xreallocarray(node->attempts, node->attempt_count + 1, sizeof *node->attempts);
    node->attempts[node->attempt_count++] = a;
    if (net->start_count == net->start_cap) {
        net->start_cap = net->start_cap ? net->start_cap * 2 : 64;
        net->starts = xreallocarray(net->starts, net->start_cap, sizeof *net->starts);
    }
    struct sim_start *s = &net->starts[net->start_count++];
    s->node = node->index;
    snprintf(s->slot, sizeof s->slot, "%s", run->slot);
    snprintf(s->key, sizeof s->key, "%s", run->key);
    snprintf(s->attempt, sizeof s->attempt, "%s", run->attempt);
    if (net->live_count == net->live_cap) {
        net->live_cap = net->live_cap ? net->live_cap * 2 : 64;
        net->live = xreallocarray(net->live, net->live_cap, sizeof *net->live);
    }
    net->live[net->live_count++] = a;
    if (net->script.program)
        net->script.program(net->script.arg, node->index, run, sim_started(net, node->index, run->slot), &a->program);
    if (!run->kind) /* a step that brings files: the controller ends it */
        a->program = (struct sim_program){.endless = true};
    if (a->program.tail)
        sim_replace(&a->record.tail, a->program.tail);
    a->turns_left = a->program.turns;
    a->ends = run->flags & WIRE_RUN_ENDS;
    a->rank = run->kind ? run->workers[0].rank : 0;
    write_output(a);
    if (run->kind)
        worker_fails(a, run);
    return a;
}
