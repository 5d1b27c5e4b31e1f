/*
 * The hands of a run: files that talk to nodes, wait on the loop, read and write the journal and files. What they ask
 * of each other.
 */
#ifndef RHRUN_RUN_INTERNAL_H
#define RHRUN_RUN_INTERNAL_H

#include "rhrun/core.h"
#include "rhrun/effects.h"
#include "rhrun/journal.h"
#include "rhrun/node.h"
#include "rhrun/run.h"

/* What they have for one node. */
struct lane_hands {
    struct node *node;
    char *base_dir;
    struct fetch *fetches;     /* files are being fetched */
    struct look *looks;        /* what it was asked for rank 0: see rank0.c */
    struct transfer *transfer; /* files are being brought: of at most one step at a time */
    uint64_t received;         /* bytes that it has put on this machine's disk */
};

struct session {
    struct loop *loop;
    struct journal *journal; /* NULL: without history */
    struct state *own_state; /* an empty one, without a journal */
    struct transport_pool *pool;
    bool simulated; /* its nodes are */
};

/* What they have for a run. */
struct hands {
    struct session *session;
    struct lane_hands *lanes;   /* one per node */
    struct append *appends;     /* not durable yet */
    struct step_tally *tallies; /* per step: what was sent, to say it once */
    struct tree_cache *cache;   /* bases and contents that several transfers need */
    struct fetch *fetch_queue;  /* wait for their turn */
    struct loop_timer *fetch_turn;
    struct guard *guard;        /* see guard.h; NULL = nothing was fetched yet */
    uint32_t fetching;
    uint64_t fetch_token;
    uint32_t crowded;           /* nodes that were ended for want of room here */
    struct step_node *nodes;    /* as RUN messages name them */
    char *node_addrs;           /* all of them, NULL = to be made */
    char *hosts;                /* made together with node_addrs */
    struct known *known;        /* see strangers.c; NULL = nothing was asked for yet */
    int trace_fd;               /* see trace.h; -1 = nothing is traced */
    uint32_t alarms;            /* that were created */
};
static inline struct lane_hands *lane_hands(const struct lane *lane)
{
    return &lane->run->hands->lanes[lane->index];
}

extern const struct node_callbacks lane_callbacks;

/* ---- effects.c ---- */
char *run_dir(const struct run *r, struct error *err); /* this run's folder in the state directory, made; heap */
void run_append_free(struct append *a); /* takes it off the list of the run */

/* ---- room.c: what one node may take of this machine ---- */
const char *room_text(uint64_t bytes, char ret[32]); /* "1.5 GB" */
/* Is there room for `bytes` more where `path` is? A part of the disk is never filled: see room.c. -1 and err: no. */
int room_check(const struct run *r, const char *path, uint64_t bytes, struct error *err);
/* `bytes` of it came and are on the disk at `path`. -1 and err: there is no room for more. */
int room_took(struct lane *lane, const char *path, uint64_t bytes, struct error *err);
bool room_keeps(struct lane *lane, const char *path,
                uint64_t bytes); /* likewise; ends the node that sent most. False: this one */

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
void fetch_start(struct lane *lane, const struct plan_step *step, bool periodic); /* of EFFECT_FETCH */
void fetch_stop(struct lane *lane, const struct plan_step *step); /* NULL: all of the lane's */
void fetches_free(struct run *r);

/* ---- rank0.c: what nodes are asked for outputs that come from where rank 0 is ---- */
void rank0_ask(struct lane *lane, uint64_t token); /* of EFFECT_ASK_RANK0 */
void rank0_look(struct lane *lane, const struct plan_step *step, uint64_t token); /* of EFFECT_LOOK */
void rank0_drop(struct lane *lane); /* its connection is another one, or gone: nothing comes any more */
bool rank0_entries(struct lane *lane, const struct wire_entries *e); /* false: it asked for none of them */

/* ---- send.c ---- */
struct step_bind run_bind(struct run *r, const struct launch *l, uint32_t node); /* l: NULL of set-up */
void run_forget_addrs(struct run *r);
void run_learn_node(struct run *r, uint32_t node); /* it is ready: its facts and address may be new */

/* ---- strangers.c ---- */
void run_forget_known(struct run *r);

/* ---- preflight.c ---- */
void preflight_probed(struct launch *l, struct lane *lane, uint64_t token, uint32_t errnum, const char *who);
/* False: it asked for none of that. */
bool preflight_ponged(struct launch *l, struct lane *lane, uint64_t token, uint64_t wall);
/* False: it asked for none of them. */
bool preflight_entries(struct launch *l, struct lane *lane, const struct wire_entries *e);
void preflight_forget(struct launch *l); /* a connection was lost */
void preflight_free(struct launch *l);

/* ---- log.c ---- */
void log_output(struct run_log *log, uint64_t offset, const uint8_t *data, uint32_t len);

#endif
