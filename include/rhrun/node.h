/*
 * node: one machine of the job: its connection, its agent, and the agent's answers.
 *
 * A node connects through a transport, skips the output of login files, sends HELLO, and is ready when the agent has
 * answered. CHECK and LIST go out right after each HELLO, so that their answers cost no further round trip. From then
 * on requests are frames and answers are callbacks. The node checks that the agent lives (PING; anything received
 * counts). Once it was ready, it reconnects by itself, with growing pauses, until reconnect_ms have passed. Each time
 * it is ready again, `ready` is called with again = true, and the owner re-attaches what it needs (LIST, ATTACH from
 * its file's size). The first connection is not retried, unless first_ms says so.
 *
 *   IDLE -> CONNECTING -> GREETING -> READY -> WAITING -> CONNECTING ...
 *                \___________\___________\________\-> FAILED (said through `failed`, once)
 *                                                 FAILED -> CONNECTING, if the owner says so
 */
#ifndef RHRUN_NODE_H
#define RHRUN_NODE_H

#include "rhrun/loop.h"
#include "rhrun/transport.h"
#include "rhrun/wire.h"

struct node;

enum node_state { NODE_IDLE, NODE_CONNECTING, NODE_GREETING, NODE_READY, NODE_WAITING, NODE_FAILED };

/* All callbacks run on the loop. Pointers are valid during the call; records and facts until the next callback. */
struct node_callbacks {
    void (*ready)(void *arg, struct node *n, bool again);
    /* lost: the connection ended (err says how); it will be tried again */
    void (*lost)(void *arg, struct node *n, const struct error *err);
    /* failed: for good. code ERROR_HELD when another owner holds the job on this node */
    void (*failed)(void *arg, struct node *n, const struct error *err);
    void (*record)(void *arg, struct node *n, const struct wire_record *r); /* answer to LIST or RUN */
    void (*listed)(void *arg, struct node *n, uint64_t token); /* token 1: the LIST sent after HELLO */
    void (*started)(void *arg, struct node *n, const char *attempt);
    void (*busy)(void *arg, struct node *n, const char *attempt, const char *live_attempt, const char *slot);
    void (*output)(void *arg, struct node *n, const char *attempt, uint64_t offset, const uint8_t *data, uint32_t len);
    void (*ended)(void *arg, struct node *n, const struct wire_record *r);
    void (*ponged)(void *arg, struct node *n, uint64_t token, uint32_t free_port, uint64_t wall_ms /* there */);
    void (*settled)(void *arg, struct node *n, uint64_t token, const char *error);
    void (*checked)(void *arg, struct node *n, uint64_t token, const uint8_t *exists, uint32_t count);
    void (*fault)(void *arg, struct node *n, const char *attempt, const char *text); /* a request was not done */
    void (*sync_state)(void *arg, struct node *n, const struct wire_sync_state *s);
    void (*patched)(void *arg, struct node *n, const struct wire_sync_state *s); /* before listed, and before ended */
    void (*entries)(void *arg, struct node *n, const struct wire_entries *e);
    void (*file_data)(void *arg, struct node *n, uint64_t token, uint64_t offset, bool last, const char *error,
                      const uint8_t *data, uint32_t len);
    void (*probed)(void *arg, struct node *n, uint64_t token, uint32_t errnum, const char *who);
    void (*drained)(void *arg, struct node *n); /* node_room says yes again. May come while the owner makes a request;
                                                   the owner then goes on in a later turn */
};
/* sync_state and the callbacks after it may be NULL if the owner makes no such requests. */

struct node_options {
    uint32_t index;
    const char *label;          /* the node's name in messages; NULL = host.name */
    struct transport_host host; /* strings must outlive the node */
    struct wire_hello hello;    /* host_digest and version are filled in; strings must outlive the node */
    struct wire_strings checks; /* paths of a CHECK sent with every HELLO (token 1), answered before `listed` */
    struct wire_strings check_trees; /* three strings for each tree: name, root, id; answered after the paths of
                                        checks */
    uint32_t liveness_ms;       /* the node is lost when nothing was received for this long; 0 = 15 s */
    uint32_t hello_ms;          /* between the agent's start and its HELLO answer; 0 = 15 s */
    uint64_t reconnect_ms;      /* how long it tries to come back; 0 = 5 min */
    uint64_t first_ms;          /* how long the first connection is retried, because sshd may still be starting; 0 =
                                   not */
    uint32_t backoff_ms;        /* the first pause between retries, doubled up to 5 s; 0 = 200 ms */
};

struct node *node_create(struct loop *loop, struct transport_pool *pool, const struct node_options *options,
                         const struct node_callbacks *callbacks, void *arg);
void node_destroy(struct node *n); /* closes the connection; the agent sees the end of its input. Takes NULL */
void node_connect(struct node *n); /* a node that failed is tried anew, as if it had never been ready */
/* Connects again with a HELLO and a CHECK for another working directory, as if the node had never been ready. May be
 * called inside a callback. Strings must outlive the node. */
void node_greet_anew(struct node *n, char *variant, const struct wire_strings *check_trees);
/* For a node that sends what no agent sends, or more than there is room for: the connection ends at once, and `failed`
 * comes in the next turn of the loop. May be called inside a callback, which must then return. */
void node_refuse(struct node *n, const struct error *err);
/* Closes the connection; no other is made until node_give_up or node_destroy. The node must not be idle. */
void node_park(struct node *n);
/* No further reconnects. A node that waits for one fails in the next turn of the loop. */
void node_give_up(struct node *n);
enum node_state node_state(const struct node *n);
enum transport_phase node_phase(const struct node *n); /* for the live view while CONNECTING */
uint32_t node_index(const struct node *n);
const char *node_name(const struct node *n);
const struct wire_facts *node_facts(const struct node *n); /* NULL until the node was ready once */
uint64_t node_lost_since_ms(const struct node *n);          /* loop time; 0 when READY */

/* Requests. They are dropped while the node is not READY; after `ready` the owner repeats those that matter. */
void node_run(struct node *n, const struct wire_run *run);
void node_attach(struct node *n, const char *attempt, uint64_t offset);
void node_ack(struct node *n, const char *attempt, uint64_t offset);
void node_signal(struct node *n, const char *attempt, enum wire_signal signal, uint32_t grace_ms);
void node_ping(struct node *n, uint64_t token); /* token > 0; answered through `ponged` */
void node_settle(struct node *n, uint64_t token);
void node_forget(struct node *n, const struct wire_strings *attempts);
void node_judge(struct node *n, const char *attempt, enum wire_verdict verdict); /* `ended` follows, with the verdict in
                                                                                    its record */
struct node_endpoint {
    uint8_t address[16];
    uint32_t len; /* 4 or 16; 0 = none */
    uint32_t port;
};
void node_probe(struct node *n, uint64_t token, enum wire_probe what, const struct node_endpoint *to,
                uint32_t timeout_ms); /* answered through `probed` */
/* Forwards a connection to a port of the node (transport.h). -1: not now, or never. */
int node_forward(struct node *n, const struct transport_forward *f);
bool node_can_forward(const struct node *n); /* of a READY node: whether its transport can forward at all */
/* Transfers. Frames with data are collected until there are 64 KiB of them, node_flush is called, or another request is
 * made, so that a thousand small files do not become a thousand packets. A sender asks node_room before each frame;
 * after "no" it goes on in `drained`. */
bool node_room(const struct node *n);
void node_flush(struct node *n);
void node_sync(struct node *n, const struct wire_sync *sync);
void node_sync_all(struct node *n, const char *attempt);
void node_file(struct node *n, const struct wire_file *file);
void node_file_data(struct node *n, const char *attempt, const void *data, size_t len);
void node_remove(struct node *n, const char *attempt, const struct wire_strings *paths);
void node_sync_end(struct node *n, const char *attempt);
void node_glob(struct node *n, uint64_t token, const char *pattern);
void node_get(struct node *n, uint64_t token, const char *path, uint64_t offset, uint64_t size, uint64_t mtime_ns);

#endif
