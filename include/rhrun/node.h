/*
 * node: one machine of the job: its connection, its agent, and what that agent says.
 *
 * A node connects through a transport, skips what login files print, sends HELLO and is ready when the agent
 * has answered. CHECK and LIST go out right behind each HELLO, so that their answers cost no further round trip. From
 * then on requests are frames and answers are callbacks. It watches that the agent lives (PING; anything received
 * counts) and, once it was ready, reconnects by itself with growing pauses until reconnect_ms have passed; each time it
 * is ready again, `ready` is called with again = true and the owner re-attaches what it needs (LIST, ATTACH from its
 * file's size). The first connection is not retried.
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

/* All run on the loop. Pointers are valid during the call. Records and facts stay valid until the next callback. */
struct node_callbacks {
    void (*ready)(void *arg, struct node *n, bool again);
    /* lost: the connection ended (err says how); it will be tried again */
    void (*lost)(void *arg, struct node *n, const struct error *err);
    /* failed: for good. code ERROR_HELD when another owner holds the job there */
    void (*failed)(void *arg, struct node *n, const struct error *err);
    void (*record)(void *arg, struct node *n, const struct wire_record *r); /* of LIST, or answer to RUN */
    void (*listed)(void *arg, struct node *n, uint64_t token); /* token 1: of the LIST behind HELLO */
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
    void (*drained)(void *arg, struct node *n); /* node_room says yes again; also inside a request of the owner's: it is
                                                   to go on in a later turn */
};
/* sync_state and what follows it may be NULL where nothing of the kind is asked for. */

struct node_options {
    uint32_t index;
    const char *label;          /* what messages call it; NULL = host.name */
    struct transport_host host; /* strings must outlive the node */
    struct wire_hello hello;    /* host_digest and version are filled in; strings must outlive the node */
    struct wire_strings checks; /* paths of a CHECK sent with every HELLO (token 1), answered before `listed` */
    struct wire_strings check_trees; /* three strings each: name, root, id; answered behind those of checks */
    uint32_t liveness_ms;       /* lost when nothing was heard for so long; 0 = 15 s */
    uint32_t hello_ms;          /* between the agent's start and its HELLO answer; 0 = 15 s */
    uint64_t reconnect_ms;      /* how long it tries to come back; 0 = 5 min */
    uint64_t first_ms;          /* the first connection, too, is tried for so long: sshd may be starting there */
    uint32_t backoff_ms;        /* the first pause of it, doubled up to 5 s; 0 = 200 ms */
};

struct node *node_create(struct loop *loop, struct transport_pool *pool, const struct node_options *options,
                         const struct node_callbacks *callbacks, void *arg);
void node_destroy(struct node *n); /* closes without a word: the agent sees the end of its input. Takes NULL */
void node_connect(struct node *n); /* of one that failed: it is tried anew, as if it had never been ready */
/* Connects again with a HELLO and a CHECK that name another working directory, as if it had never been ready; also
 * inside a callback. Strings must outlive the node. */
void node_greet_anew(struct node *n, char *variant, const struct wire_strings *check_trees);
/* It says what no agent says, or more than there is room for: the connection ends at once, and `failed` comes in the
 * next turn of the loop. Also inside a callback, which then returns. */
void node_refuse(struct node *n, const struct error *err);
/* The connection ends without a word, and none is made until node_give_up or node_destroy. Not of one that is idle. */
void node_park(struct node *n);
/* No further reconnects. A node that waits for the next one fails, in the next turn of the loop. */
void node_give_up(struct node *n);
enum node_state node_state(const struct node *n);
enum transport_phase node_phase(const struct node *n); /* for the live view while CONNECTING */
uint32_t node_index(const struct node *n);
const char *node_name(const struct node *n);
const struct wire_facts *node_facts(const struct node *n); /* NULL before it was ready once */
uint64_t node_lost_since_ms(const struct node *n);          /* loop time; 0 when READY */

/* Requests; dropped when the node is not READY (the owner repeats what matters after `ready`). */
void node_run(struct node *n, const struct wire_run *run);
void node_attach(struct node *n, const char *attempt, uint64_t offset);
void node_ack(struct node *n, const char *attempt, uint64_t offset);
void node_signal(struct node *n, const char *attempt, enum wire_signal signal, uint32_t grace_ms);
void node_ping(struct node *n, uint64_t token); /* token > 0; answered through `ponged` */
void node_settle(struct node *n, uint64_t token);
void node_forget(struct node *n, const struct wire_strings *attempts);
void node_judge(struct node *n, const char *attempt, enum wire_verdict verdict); /* `ended` follows, with the verdict */
struct node_endpoint {
    uint8_t address[16];
    uint32_t len; /* 4 or 16; 0 = none */
    uint32_t port;
};
void node_probe(struct node *n, uint64_t token, enum wire_probe what, const struct node_endpoint *to,
                uint32_t timeout_ms); /* answered through `probed` */
/* A forward to a port of the node (transport.h). -1: not now, or never. */
int node_forward(struct node *n, const struct transport_forward *f);
bool node_can_forward(const struct node *n); /* of one that is READY: can it ever? */
/* Transfers. Frames with data are held together until there are 64 KiB of them, node_flush is called, or another
 * request is made, so that a thousand small files are no thousand packets. A sender asks node_room before each, and
 * goes on in `drained` when it says no. */
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
