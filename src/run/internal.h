/*
 * The hands of a run: the files that talk to nodes, wait on the loop, and read and write the journal and files. This
 * header has the functions that they call in each other; rhrun/effects.h has those that the core calls.
 */
#ifndef RHRUN_RUN_INTERNAL_H
#define RHRUN_RUN_INTERNAL_H

#include "rhrun/core.h"
#include "rhrun/effects.h"
#include "rhrun/journal.h"
#include "rhrun/node.h"
#include "rhrun/run.h"

/* The hands' state for one node. */
struct lane_hands {
    struct node *node;
    char *base_dir;
    struct fetch *fetches;     /* files that are being fetched from it */
    struct look *looks;        /* questions to the node about rank 0: see rank0.c */
    struct installed *installed; /* lists of packages that were requested from the node: see installed.c */
    struct held_end *held;       /* ends of attempts, held back until these lists have come */
    struct transfer *transfer; /* files that are being sent to it, for at most one step at a time */
    uint64_t received;         /* bytes from the node that lie on this machine's disk */
};

struct session {
    struct loop *loop;
    struct journal *journal; /* NULL: without history */
    struct state *own_state; /* an empty one if there is no journal */
    struct transport_pool *pool;
    bool simulated; /* its nodes are simulated */
};

/* The hands' state for a run. */
struct hands {
    struct session *session;
    struct lane_hands *lanes;   /* one per node */
    struct append *appends;     /* events that are not durable yet */
    struct step_tally *tallies; /* per step: how much was sent, to tell the user once */
    struct tree_cache *cache;   /* base trees and contents that several transfers need */
    struct fetch *fetch_queue;  /* fetches that wait for their turn */
    struct loop_timer *fetch_turn;
    struct preflight *preflight; /* see preflight.h; NULL = no preflight yet */
    struct guard *guard;         /* see guard.h; NULL = nothing was fetched yet */
    uint32_t fetching;
    uint64_t fetch_token;
    uint64_t installed_serial; /* of installed.c's last question */
    struct loop_timer *held_turn; /* tells the core of ends that were held back; NULL: none was */
    uint32_t crowded;        /* how often a node or a fetch was dropped for lack of room here */
    struct step_node *nodes; /* per node, as RUN messages name it */
    char *node_addrs;        /* addresses of all nodes; NULL = not made yet */
    char *hosts;             /* made together with node_addrs */
    struct known *known;     /* see strangers.c; NULL = not read yet */
    struct metrics *metrics; /* of the latest launch; NULL = the spec has none */
    struct ports *ports;     /* see ports.c; NULL = the spec has none */
    int trace_fd;            /* see trace.h; -1 = nothing is traced */
    uint32_t alarms;         /* number of alarms that were created */
};
static inline struct lane_hands *lane_hands(const struct lane *lane)
{
    return &lane->run->hands->lanes[lane->index];
}

extern const struct node_callbacks lane_callbacks;

/* ---- effects.c ---- */
/* The run's folder in the state directory; makes it if necessary; heap. NULL and err: it cannot be made. */
char *run_dir(const struct run *r, struct error *err);
void run_append_free(struct append *a); /* takes it off the run's list */

/* ---- inputs.c ---- */
void run_stop_moving(struct lane *lane); /* the node's connection has ended, and so have transfers over it */

/* ---- room.c: how much of this machine one node may use ---- */
const char *room_text(uint64_t bytes, char ret[32]); /* "1.5 GB" */
/* Checks that there is room for `bytes` more on the disk of `path`. rhrun never fills the last part of the disk: see
 * room.c. -1 and err: there is no room. */
int room_check(const struct run *r, const char *path, uint64_t bytes, struct error *err);
/* `bytes` from the node were written to the disk of `path`. -1 and err: there is no room for more. */
int room_took(struct lane *lane, const char *path, uint64_t bytes, struct error *err);
/* The same, but if there is no room, the node that has sent most is dropped. False: that was this node. */
bool room_keeps(struct lane *lane, const char *path, uint64_t bytes);

/* ---- transfer.c ---- */
int transfer_start(struct run *r, const struct plan_step *step, uint32_t node, const struct step_bind *bind,
                   struct error *err);
void transfer_state(struct lane *lane, const struct wire_sync_state *s);
void transfer_drained(struct lane *lane);

/* ---- transfer_cache.c ---- */
void transfer_caches_free(struct run *r);

/* ---- fetch.c ---- */
void fetch_entries(struct lane *lane, const struct wire_entries *e);
void fetch_data(struct lane *lane, uint64_t token, uint64_t offset, bool last, const char *error, const uint8_t *data,
                uint32_t len);
void fetch_start(struct lane *lane, const struct plan_step *step, bool periodic); /* EFFECT_FETCH */
void fetch_stop(struct lane *lane, const struct plan_step *step);                 /* step: NULL = all of the lane's */
void fetches_free(struct run *r);

/* ---- rank0.c: questions to nodes about outputs that come from the node of rank 0 ---- */
void rank0_ask(struct lane *lane, uint64_t token);                                /* EFFECT_ASK_RANK0 */
void rank0_look(struct lane *lane, const struct plan_step *step, uint64_t token); /* EFFECT_LOOK */
void rank0_drop(struct lane *lane); /* the connection has ended, or is a new one: no answer will come */
/* The node has answered a GLOB. False: rank0.c did not ask that. */
bool rank0_entries(struct lane *lane, const struct wire_entries *e);

/* ---- installed.c: lists of the packages on nodes, for the lock ---- */
/* anew: something was installed, so this question replaces an earlier one. Otherwise the lists are requested once per
 * connection. */
void installed_ask(struct lane *lane, bool anew);
void installed_stop(struct lane *lane); /* the connection has ended: no answer will come */
/* Holds back the end of an attempt while a list is missing, or while earlier ends are held back; it is reported later.
 * False: it was not held back. */
bool installed_holds(struct lane *lane, const struct wire_record *rec);
/* The node has answered a GLOB, or sends a file. False: installed.c did not ask for it. */
bool installed_entries(struct lane *lane, const struct wire_entries *e);
bool installed_data(struct lane *lane, uint64_t token, bool last, const char *error, const uint8_t *data, uint32_t len);

/* ---- send.c ---- */
/* Completes run_bind's values for a step of a point on that node; *ret is the plan with the point's nodes, with which
 * the step is built. -1 and err: the plan cannot be made. */
int run_bind_point(struct run *r, const struct plan_step *step, uint32_t node, struct step_bind *bind,
                   struct arena *arena, struct plan **ret, struct error *err);
struct step_bind run_bind(struct run *r, const struct launch *l, uint32_t node); /* l: NULL for a step of set-up */
void run_forget_addrs(struct run *r);
void run_learn_node(struct run *r, uint32_t node); /* the node is ready: its facts and address may have changed */

/* ---- strangers.c ---- */
void run_forget_known(struct run *r);

/* ---- preflight.c ---- */
void preflight_look(struct launch *l, uint64_t token);                                    /* EFFECT_PREFLIGHT */
void preflight_look_at(struct launch *l, uint32_t node, uint32_t member, uint64_t token); /* EFFECT_PREFLIGHT_JOIN */
void preflight_probed(struct launch *l, struct lane *lane, uint64_t token, uint32_t errnum, const char *who);
/* The node has answered a PING. False: preflight did not ask that. */
bool preflight_ponged(struct launch *l, struct lane *lane, uint64_t token, uint64_t wall);
/* The node has answered a GLOB. False: preflight did not ask that. */
bool preflight_entries(struct launch *l, struct lane *lane, const struct wire_entries *e);
void preflight_forget(struct launch *l); /* drops all questions and findings */

/* ---- ports.c ---- */
void ports_create(struct run *r);
void ports_ready(struct lane *lane, bool again); /* the node is ready */
/* after a turn: opens or closes the ports if the launch has begun or ended */
void ports_look(struct run *r);
void ports_free(struct run *r);                  /* after the nodes */

/* ---- log.c ---- */
void log_output(struct run_log *log, uint64_t offset, const uint8_t *data, uint32_t len);

#endif
