/*
 * Simulated nodes for tests: the peers of transport `sim`, in this process. Each speaks the wire protocol as the agent
 * does and keeps a ledger that outlives connections and controllers, so a test can kill the one or the other at any
 * point and look at the starts. Callbacks of the test decide what a started program does, and which faults happen when.
 *
 * Time is the loop's: a program that runs for n turns ends n milliseconds after its RUN at the earliest.
 */
#ifndef RHRUN_TEST_SIM_NODE_H
#define RHRUN_TEST_SIM_NODE_H

#include "rhrun/loop.h"
#include "rhrun/transport.h"
#include "rhrun/tree.h"
#include "rhrun/wire.h"

/* How a program will run. All zero: it ends well at once. */
struct sim_program {
    uint32_t turns;        /* its length; 0 = ends before STARTED is answered */
    bool endless;          /* until it is stopped */
    bool ignores_stop;     /* TERM does nothing, KILL ends it */
    bool lost;             /* its supervisor dies at the end, so there is no outcome */
    int32_t status;        /* exit status */
    int32_t signal;        /* 0, or the signal that ends it instead */
    const char *tail;      /* of its record; NULL = any text */
    const char *output;    /* written at the start and in every turn; NULL = none */
    int32_t worker_status; /* exit status of its last worker, at the start: the others continue if the RUN spares it */
};

/* The fate of an arrived frame, or of the node's reaction to it. */
enum sim_fault {
    SIM_PASS,
    SIM_DROP_BEFORE, /* the connection ends, the frame was not seen */
    SIM_DROP_AFTER,  /* the frame was handled, the connection ends before any answer */
    SIM_FREEZE,      /* nothing is handled and nothing sent on this connection any more */
    SIM_IGNORE,      /* only this frame is lost (no real connection does that; for bounds) */
    SIM_REFUSE,      /* a RUN is answered with FAULT, and nothing was started */
    SIM_FAULT_AFTER, /* a RUN was handled, then FAULT follows: something is wrong with its attempt */
    SIM_CUT_BEFORE,  /* the controller dies here: no byte moves on any connection from now on */
    SIM_CUT_AFTER,
};

struct sim_net;

struct sim_script {
    void (*program)(void *arg, uint32_t node, const struct wire_run *run, uint32_t nth, struct sim_program *ret); /* nth
                       start of this slot on this node, from 1; NULL = all end well at once */
    enum sim_fault (*frame)(void *arg, uint32_t node, enum wire_type type,
                            const char *slot);                                 /* slot: of a RUN, else "" */
    bool (*refuse)(void *arg, uint32_t node);                                  /* a connection is asked for */
    void (*ended)(void *arg, uint32_t node, const struct wire_record *record); /* a program ended or was lost */
    void *arg;
    int (*probe)(void *arg, uint32_t node, uint8_t what, uint32_t port); /* an errno; NULL = all can be reached */
    void (*facts)(void *arg, uint32_t node, struct wire_facts *facts);   /* changes the facts of a node, or NULL */
    int64_t (*clock)(void *arg, uint32_t node);                          /* ms by which its clock is ahead, or NULL */
};

struct sim_start { /* a program was started */
    uint32_t node;
    char slot[64], key[65], attempt[WIRE_ID_LEN + 1];
};

struct sim_net *sim_create(struct loop *loop, uint32_t node_count, const struct sim_script *script);
void sim_destroy(struct sim_net *net);                          /* every transport must be closed */
struct transport_sim_script sim_transport(struct sim_net *net); /* for run_options.sim */

/* All programs that were ever started, in order. */
const struct sim_start *sim_starts(const struct sim_net *net, size_t *ret_count);
uint32_t sim_started(const struct sim_net *net, uint32_t node, const char *slot);
size_t sim_live(const struct sim_net *net);
uint32_t sim_frames(const struct sim_net *net, enum wire_type type); /* arrived frames of this type */

/* Events by themselves. */
void sim_turn(struct sim_net *net);                           /* one turn of every program, without the loop */
void sim_drop(struct sim_net *net, uint32_t node);            /* its connections end */
void sim_away(struct sim_net *net, uint32_t node, bool away); /* and no new one is accepted */
void sim_end(struct sim_net *net, uint32_t node, const char *slot, int32_t status); /* its live program exits */
void sim_signal(struct sim_net *net, uint32_t node, const char *slot,
                int32_t signal);                                     /* it is killed without a request */
void sim_lose(struct sim_net *net, uint32_t node, const char *slot); /* the supervisor dies without an outcome */
/* The machine tells the supervisor of this live program to end: the node reports that at once, and the program ends
 * with that cause: now, or (ends false) once it is stopped. */
void sim_preempt(struct sim_net *net, uint32_t node, const char *slot, bool ends);
/* Power cut: live programs are lost, and each unsettled record vanishes whose bit (its number modulo 64) is set. */
void sim_reboot(struct sim_net *net, uint32_t node, uint64_t vanish);
void sim_reinstall(struct sim_net *net, uint32_t node); /* another machine with nothing on it */
void sim_same_machine(struct sim_net *net, uint32_t node, uint32_t as);
void sim_wipe(struct sim_net *net, uint32_t node, const char *slot); /* its records are gone, the machine is the same */
void sim_path_gone(struct sim_net *net, uint32_t node, const char *path); /* CHECK says no; NULL = all are there */
void sim_own(struct sim_net *net, uint32_t node, const char *owner);      /* another controller holds the job */
uint32_t sim_record_count(const struct sim_net *net, uint32_t node);
/* ---- files ---- */
void sim_share_home(struct sim_net *net, uint32_t node, uint32_t as);
void sim_disk(struct sim_net *net, uint32_t node, uint64_t room_bytes); /* FILE fails beyond it; UINT64_MAX at first */
void sim_touch(struct sim_net *net, uint32_t node, const char *name, const char *path); /* a file of a tree changes */
/* Checks that the tree `name` on the node is whole, with the right contents and modes. "" = it is; else the
 * difference. */
const char *sim_tree_fault(const struct sim_net *net, uint32_t node, const char *name, const struct tree *tree);
uint64_t sim_got_bytes(const struct sim_net *net);  /* contents sent in DATA */
uint64_t sim_file_bytes(const struct sim_net *net); /* contents received in FILE and FILE_DATA */
/* The job makes (or changes, or with mode 0 removes) a file; version decides its content. Absolute path. */
void sim_make(struct sim_net *net, uint32_t node, const char *path, unsigned version, uint64_t size, uint32_t mode);
void sim_make_link(struct sim_net *net, uint32_t node, const char *path, const char *target);
void sim_make_folder(struct sim_net *net, uint32_t node, const char *path);
/* The controller is dead: nothing moves until the next connection is opened after sim_revive. */
void sim_cut(struct sim_net *net);
bool sim_is_cut(const struct sim_net *net);
void sim_revive(struct sim_net *net);

#endif
