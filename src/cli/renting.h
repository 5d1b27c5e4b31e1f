/* A rented cluster, as commands use it: opened, waited for, told of. */
#ifndef RHRUN_CLI_RENTING_H
#define RHRUN_CLI_RENTING_H

#include "internal.h"

#include "rhrun/offers.h"
#include "rhrun/rent.h"

struct transport_pool;
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
    bool quiet;             /* only faults are told */
    bool json;              /* lines of `run --json`, while no run writes them */
    bool interrupted, asked_enough;
    char troubled[400];     /* what was told last of it */
    enum fleet_how how;     /* once it is finished */
    uint32_t left;
    struct error fault;     /* why it failed */
    uint64_t began_ms;
    void (*lost)(void *arg, uint32_t slot, const char *text); /* a node's machine is gone; may be NULL */
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
/* Whose machines they are, at a provider: lower case, digits and "-", which every provider takes as a label. */
const char *renting_owner(struct arena *arena);
/* The cluster with that id, or the one with that name; NULL: none. -1 and err: several have it. */
int renting_named(struct cli *c, const char *word, const char **ret_id, struct error *err);
void renting_put_usd(struct buf *b, uint64_t microusd);

/* The cluster of the job is there, or rented now, and held by `by`; the roster gets its machines. 0, or -1 and err. */
int renting_up(struct renting *r, const struct spec *spec, struct roster *roster, const char *job_id, const char *by,
               struct error *err);
/* The roster gets the machines that are ready. */
int renting_roster(const struct fleet_ledger *l, struct arena *arena, struct roster *roster, struct error *err);
/* The same of the job's cluster, where there is one; its id, or NULL. Nobody is asked. */
int renting_look(struct cli *c, const char *job_id, struct roster *roster, const char **ret_id, struct error *err);
/* Asks the provider anew, some seconds at most: did a machine end? False also where it cannot be asked. */
bool renting_has_lost(struct renting *r, const char *by);
/* Whoever held it does not need it any more: what follows is as `down` of the spec says. Waits for it. */
int renting_leave(struct renting *r, struct error *err);

#endif
