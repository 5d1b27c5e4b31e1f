/* The net of simulated nodes: made, queried, and events of a node by themselves. */
#include "sim_internal.h"

#include <stdlib.h>
#include <string.h>

struct sim_net *sim_create(struct loop *loop, uint32_t node_count, const struct sim_script *script)
{
    struct sim_net *net = xcalloc(1, sizeof *net);
    net->loop = loop;
    net->script = script ? *script : (struct sim_script){0};
    net->nodes = xcalloc(node_count, sizeof *net->nodes);
    net->node_count = node_count;
    net->scratch = arena_create();
    net->turn = loop_timer_create(loop, sim_on_turn, net);
    net->clock = wall_ms();
    for (uint32_t i = 0; i < node_count; i++) {
        struct node_sim *node = &net->nodes[i];
        node->net = net;
        node->index = i;
        node->home = node;
        node->room = UINT64_MAX;
        random_hex(node->install, WIRE_ID_LEN / 2);
        random_hex(node->boot_id, WIRE_ID_LEN / 2);
        snprintf(node->address, sizeof node->address, "10.%u.%u.%u", i >> 16, i >> 8 & 255, i & 255);
    }
    return net;
}

void sim_destroy(struct sim_net *net)
{
    if (!net)
        return;
    for (uint32_t i = 0; i < net->node_count; i++) {
        struct node_sim *node = &net->nodes[i];
        while (node->attempt_count > 0)
            sim_remove_at(node, node->attempt_count - 1);
        free(node->attempts);
        sim_files_free(node);
        sim_replace(&node->owner, NULL);
        sim_replace(&node->owner_name, NULL);
        sim_replace(&node->gone, NULL);
    }
    loop_timer_destroy(net->turn);
    arena_destroy(net->scratch);
    free(net->nodes);
    free(net->starts);
    free(net->live);
    free(net);
}

struct transport_sim_script sim_transport(struct sim_net *net)
{
    return (struct transport_sim_script){sim_peer_open, sim_peer_received, sim_peer_close, net};
}

const struct sim_start *sim_starts(const struct sim_net *net, size_t *ret_count)
{
    *ret_count = net->start_count;
    return net->starts;
}

uint32_t sim_started(const struct sim_net *net, uint32_t node, const char *slot)
{
    uint32_t n = 0;
    for (size_t i = 0; i < net->start_count; i++)
        n += net->starts[i].node == node && strcmp(net->starts[i].slot, slot) == 0;
    return n;
}

size_t sim_live(const struct sim_net *net)
{
    return net->live_count;
}

uint32_t sim_frames(const struct sim_net *net, enum wire_type type)
{
    return net->frames[type];
}

void sim_drop(struct sim_net *net, uint32_t node)
{
    for (struct peer *p = net->nodes[node].peers; p; p = p->next)
        sim_peer_end(p, "connection reset");
}

void sim_away(struct sim_net *net, uint32_t node, bool away)
{
    net->nodes[node].away = away;
    if (away)
        sim_drop(net, node);
}

void sim_end(struct sim_net *net, uint32_t node, const char *slot, int32_t status)
{
    struct attempt *a = sim_find_live(&net->nodes[node], slot);
    if (a)
        sim_end_attempt(a, WIRE_STATE_ENDED, status ? WIRE_CAUSE_EXIT : WIRE_CAUSE_NONE, status);
}

void sim_signal(struct sim_net *net, uint32_t node, const char *slot, int32_t signal)
{
    struct attempt *a = sim_find_live(&net->nodes[node], slot);
    if (a)
        sim_end_attempt(a, WIRE_STATE_ENDED, WIRE_CAUSE_SIGNAL, signal);
}

void sim_lose(struct sim_net *net, uint32_t node, const char *slot)
{
    struct attempt *a = sim_find_live(&net->nodes[node], slot);
    if (a)
        sim_end_attempt(a, WIRE_STATE_LOST, WIRE_CAUSE_NONE, 0);
}

void sim_reboot(struct sim_net *net, uint32_t node, uint64_t vanish)
{
    struct node_sim *n = &net->nodes[node];
    sim_drop(net, node);
    sim_files_reboot(n, vanish);
    random_hex(n->boot_id, WIRE_ID_LEN / 2);
    for (size_t i = 0, at = 0; at < n->attempt_count; i++) {
        struct attempt *a = n->attempts[at];
        if (!a->settled && (vanish >> i % 64 & 1)) {
            sim_remove_at(n, at);
            continue;
        }
        if (a->record.state == WIRE_STATE_CLAIMED)
            sim_end_attempt(a, WIRE_STATE_LOST, WIRE_CAUSE_NONE, 0);
        at++;
    }
}

void sim_reinstall(struct sim_net *net, uint32_t node)
{
    struct node_sim *n = &net->nodes[node];
    sim_drop(net, node);
    while (n->attempt_count > 0)
        sim_remove_at(n, n->attempt_count - 1);
    sim_files_free(n);
    random_hex(n->install, WIRE_ID_LEN / 2);
    random_hex(n->boot_id, WIRE_ID_LEN / 2);
    sim_replace(&n->owner, NULL);
}

void sim_same_machine(struct sim_net *net, uint32_t node, uint32_t as)
{
    memcpy(net->nodes[node].install, net->nodes[as].install, sizeof net->nodes[node].install);
}

void sim_wipe(struct sim_net *net, uint32_t node, const char *slot)
{
    struct node_sim *n = &net->nodes[node];
    for (size_t i = 0; i < n->attempt_count; i++)
        if (strcmp(n->attempts[i]->record.slot, slot) == 0)
            sim_remove_at(n, i--);
}

void sim_path_gone(struct sim_net *net, uint32_t node, const char *path)
{
    sim_replace(&net->nodes[node].gone, path);
}

void sim_own(struct sim_net *net, uint32_t node, const char *owner)
{
    sim_replace(&net->nodes[node].owner, owner);
    sim_replace(&net->nodes[node].owner_name, owner);
}

uint32_t sim_record_count(const struct sim_net *net, uint32_t node)
{
    return (uint32_t)net->nodes[node].attempt_count;
}

void sim_cut(struct sim_net *net)
{
    net->cut = true;
}

bool sim_is_cut(const struct sim_net *net)
{
    return net->cut;
}

void sim_revive(struct sim_net *net)
{
    net->cut = false;
}
