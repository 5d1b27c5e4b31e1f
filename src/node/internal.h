/* node's private parts, shared by node.c (connection) and frames.c (requests and answers). */
#ifndef RHRUN_NODE_INTERNAL_H
#define RHRUN_NODE_INTERNAL_H

#include "rhrun/node.h"

struct node {
    struct loop *loop;
    struct transport_pool *pool;
    struct node_options options;
    struct node_callbacks callbacks;
    void *arg;
    enum node_state state;
    struct transport *transport;
    struct buf in;
    struct buf held; /* frames with data, not written yet */
    bool magic_seen, was_ready, gave_up;
    uint64_t written, taken; /* bytes of this connection: passed to the transport, and known to have left it */
    uint64_t heard_ms, lost_since_ms, began_ms, backoff_ms;
    struct loop_timer *retry, *deadline, *pinger;
    struct error failure; /* the error with which it fails in the next turn of the loop, when gave_up and WAITING */
    struct arena *frame_arena; /* strings of the current frame */
    struct arena *facts_arena;
    struct wire_facts facts;
};

void node_connection_lost(struct node *n, const struct error *err);
void node_greeted(struct node *n);
/* Handles every complete frame in n->in; may end the connection. */
void node_handle_frames(struct node *n);

void node_write(struct node *n, const struct buf *frames); /* at once */
void node_send(struct node *n, struct buf *frame); /* after the held frames; frees the frame */
/* transfer.c: answers about files; false when the frame is malformed */
bool node_on_transfer(struct node *n, enum wire_type type, struct wire_in *in);

#endif
