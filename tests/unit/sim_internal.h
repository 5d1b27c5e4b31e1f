/* What sim_node.c (the agent) and sim_net.c (the net and what happens by itself) share. */
#ifndef RHRUN_TEST_SIM_INTERNAL_H
#define RHRUN_TEST_SIM_INTERNAL_H

#include "sim_node.h"

struct attempt {
    struct node_sim *node;
    struct wire_record record; /* strings are this attempt's own */
    bool settled;
    struct sim_program program;
    uint32_t turns_left;
    bool stopping;
    struct buf spool;
};
struct sub { /* an attached attempt */
    struct attempt *attempt;
    uint64_t offset;
};
struct peer {
    struct peer *next;
    struct node_sim *node;
    struct transport *transport;
    struct buf in;
    bool greeted, held, reads, dead, frozen;
    uint64_t epoch;
    char variant[17];
    struct sub *subs;
    size_t sub_count;
};
struct node_sim {
    struct sim_net *net;
    uint32_t index;
    char install[WIRE_ID_LEN + 1], boot_id[WIRE_ID_LEN + 1], address[32];
    char *owner, *owner_name, *gone;
    uint64_t epoch;
    bool away;
    struct attempt **attempts;
    size_t attempt_count;
    struct peer *peers;
};
struct sim_net {
    struct loop *loop;
    struct sim_script script;
    struct node_sim *nodes;
    uint32_t node_count;
    struct sim_start *starts;
    size_t start_count, start_cap;
    struct attempt **live;
    size_t live_count, live_cap;
    struct loop_timer *turn;
    struct arena *scratch;
    uint64_t clock; /* strictly increasing, so that claims have an order */
    uint32_t frames[WIRE_FENCED + 1];
    bool cut;
};

void *sim_peer_open(void *script, uint32_t index, const char *name, struct transport *t, struct error *err,
                    enum transport_phase *ret_phase);
void sim_peer_received(void *peer, const uint8_t *data, size_t len);
void sim_peer_close(void *peer);
void sim_peer_end(struct peer *p, const char *text); /* the node's end of the connection is gone */
void sim_on_turn(void *net);
struct attempt *sim_find_live(const struct node_sim *node, const char *slot); /* NULL: any slot */
void sim_remove_at(struct node_sim *node, size_t i);
void sim_end_attempt(struct attempt *a, enum wire_state state, enum wire_cause cause, int32_t value);
void sim_replace(char **text, const char *by);

#endif
