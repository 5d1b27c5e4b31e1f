/* A rented cluster, as commands use it: opened, waited for, told of. */
#ifndef RHRUN_CLI_RENTING_H
#define RHRUN_CLI_RENTING_H

#include "internal.h"

#include "rhrun/offers.h"
#include "rhrun/rent.h"

struct transport_pool;
struct renting_view;
/* The machine of one node, as this process knows it. */
struct renting_machine {
    enum {
        MACHINE_UNSEEN,  /* the provider was not heard of it yet */
        MACHINE_SEEN,    /* it is there */
        MACHINE_AWAITED, /* it is gone, and another one is being rented */
        MACHINE_NONE     /* it is gone */
    } is;
    uint32_t tries;    /* how often another one was rented since it was there */
    uint64_t asked_ms; /* when the last of these was asked for; wall clock */
    char why[200];   /* NONE: why there is no other; "": not said */
};
struct renting {
    struct cli *c;
    struct loop *loop;
    struct transport_pool *pool;
    struct rent *rent;
    struct rent_cluster *cluster; /* NULL: none is open */
    char id[41];
    bool complete, finished, failed;
    uint32_t seen, lost_count; /* machines that were told ready, or lost, since it was opened */
    bool waits;             /* the loop runs until something of these changes */
    struct renting_machine *machines; /* by node: FLEET_NODES_MAX, once a cluster was opened */
    bool held;              /* by this process */
    bool borrowed;          /* it is another job's: an interrupt gives back nothing of it */
    bool replaces;          /* a machine that is lost is replaced at once */
    bool settles;           /* the machines of a cluster that was complete are being looked for */
    struct renting_view *view; /* NULL: lines only */
    bool quiet;             /* only faults are told */
    bool json;              /* lines of `run --json`, while no run writes them */
    bool interrupted, asked_enough;
    char troubled[400];     /* what was told last of it */
    enum fleet_how how;     /* once it is finished */
    uint32_t left;
    struct error fault;     /* why it failed */
    uint64_t began_ms;
    /* Of machines that nobody waits for: a node's machine is gone; the one that replaces it is ready; there is none.
     * May be NULL. */
    void (*lost)(void *arg, uint32_t node);
    void (*replaced)(void *arg, uint32_t node);
    void (*unreplaced)(void *arg, uint32_t node);
    void (*notice)(void *arg, uint64_t at_ms); /* then (wall clock) all of them end: max_hours; may be NULL */
    void *arg;
};
/* Connections for it are made at the first cluster that is opened. */
void renting_begin(struct renting *r, struct cli *c, struct loop *loop);
void renting_end(struct renting *r);

int renting_connect(struct renting *r, struct error *err); /* makes r->rent, where there is none */
int renting_open(struct renting *r, const char *id, const char *name, struct error *err);
void renting_close(struct renting *r);
/* Runs the loop until all nodes are ready: 0; or nothing more is done: -1 and err. */
int renting_wait(struct renting *r, struct error *err);
/* Runs the loop until nothing is left: 0; -1 and err: what is left was told. */
int renting_wait_gone(struct renting *r, struct error *err);
/* The terminal's end, and that nobody reads any more, are no reason to leave machines half rented or half given back:
 * to be destroyed with the loop's other signals. */
struct loop_signal *renting_hold_on(struct loop *loop);
/* Ctrl-C: what is being rented is given back; at the second one it is let go. */
void renting_interrupt(struct renting *r);

/* What is to be done with a cluster that nobody has open. */
enum deed { DEED_NONE, DEED_GO_ON, DEED_FREE, DEED_DOWN };
enum deed renting_deed(const struct fleet_ledger *l);
bool renting_ends(const struct fleet_ledger *l, enum deed deed); /* is it given back by that? */
int renting_do(struct renting *r, const char *id, const char *name, enum deed deed, struct error *err);
/* Does it to all of them; what fails there is told. job: whose own clusters are left alone unless `own`. What another
 * job rented and its rhrun did not end is told only: work may go on there. */
int renting_reconcile(struct renting *r, const char *job, bool own, struct error *err);

/* The cluster of a job that is not over, in the arena; NULL: there is none. -1 and err: a ledger cannot be read. */
int renting_find(const char *job_id, struct arena *arena, const char **ret_id, struct error *err);
/* Which of any_of was rented: of a cluster whose machines were all there once; else, or without any_of, 0. */
uint32_t renting_alternative(const struct fleet_ledger *l);
/* The cluster with that id, or the one with that name; NULL: none. -1 and err: several have it. */
int renting_named(struct cli *c, const char *word, const char **ret_id, struct error *err);
/* costs.c: what each run of a job has cost, in micro-USD. False: nothing was rented for it, or nothing can be read. */
bool cli_run_costs(struct cli *c, const char *job_id, const struct state *s, uint64_t *costs);
void renting_put_usd(struct buf *b, uint64_t microusd);

/* The cluster of the job is there, or rented now, and held by `by`: each of its machines was seen, those that were lost
 * meanwhile are replaced, and the roster gets all of them. 0, or -1 and err. */
int renting_up(struct renting *r, const struct spec *spec, struct roster *roster, const char *job_id, const char *by,
               struct error *err);
/* borrowed.c: cluster: NAME. The cluster is there, and held for the job of the spec; as renting_up. */
int renting_borrow(struct renting *r, const struct spec *spec, struct roster *roster, const char *by,
                   struct error *err);
int renting_find_borrowed(struct cli *c, const struct spec *spec, const char **ret_id, struct error *err);
/* May the job of the spec go on with it? Where another one's rhrun was killed while it held the cluster, its work may
 * go on there: -1 and err. */
int renting_check_holder(const struct fleet_ledger *l, const struct spec *spec, struct arena *arena, struct error *err);
/* As renting_look, of the job's own cluster or of the one that it borrows. */
int renting_look_of(struct cli *c, const struct spec *spec, const char *job_id, struct roster *roster,
                    const char **ret_id, struct error *err);
/* The roster gets the machines that are ready. */
int renting_roster(const struct fleet_ledger *l, struct arena *arena, struct roster *roster, struct error *err);
/* The same of the job's cluster, where there is one; its id, or NULL. Nobody is asked. */
int renting_look(struct cli *c, const char *job_id, struct roster *roster, const char **ret_id, struct error *err);
/* Asks the provider anew, some seconds at most: did a machine end? False also where it cannot be asked. */
bool renting_has_lost(struct renting *r, const char *by);
/* ---- renting_view.c: on a terminal, a line for each node while its machine is waited for ---- */
void renting_view_begin(struct renting *r); /* of the cluster that is open; nothing where it is there already */
void renting_view_end(struct renting *r);   /* it goes; what was told stays */
/* "rhrun: TEXT", a line above the view where there is one. Whatever the view may be there for is told so. */
void renting_say(const struct renting *r, const char *fmt, ...) FORMAT(2, 3);
/* ---- renting_nodes.c ---- */
void renting_machine_told(struct renting *r, const struct fleet_effect *e);
/* Another machine is rented for the node, which is told by `replaced` or `unreplaced`. False: that was tried too
 * often. */
bool renting_replace(struct renting *r, uint32_t node, const char *text);
/* Runs the loop until each machine was seen, and those that were lost are replaced: 0; else -1 and err. */
int renting_wait_machines(struct renting *r, struct error *err);
void renting_run_loop(struct renting *r); /* until something is told that may be waited for */

/* Whoever held it does not need it any more: what follows is as `down` of the spec says. Waits for it. */
int renting_leave(struct renting *r, struct error *err);
/* rented.c: on stderr, at the end of a run: the machines stay, as it did not end, or as `down` says. */
void renting_say_kept(const struct renting *r);
void renting_say_stay(const struct renting *r, const struct cli *c);

#endif
