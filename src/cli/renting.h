/* A rented cluster, for commands: opening it, waiting for it, printing about it. */
#ifndef RHRUN_CLI_RENTING_H
#define RHRUN_CLI_RENTING_H

#include "internal.h"

#include "rhrun/offers.h"
#include "rhrun/rent.h"

struct transport_pool;
struct renting_view;
/* The machine of one node, as far as this process knows. */
struct renting_machine {
    enum {
        MACHINE_UNSEEN,  /* the provider has not reported it yet */
        MACHINE_SEEN,    /* it exists */
        MACHINE_AWAITED, /* it is gone, and a replacement is being rented */
        MACHINE_NONE     /* it is gone */
    } is;
    uint32_t tries;    /* how often a replacement was rented since the machine last existed */
    uint64_t asked_ms; /* when the last replacement was requested; wall clock */
    char why[200];   /* NONE: why there is no replacement; "": unknown */
};
struct renting {
    struct cli *c;
    struct loop *loop;
    struct transport_pool *pool;
    struct rent *rent;
    struct rent_cluster *cluster; /* NULL: none is open */
    char id[41];
    bool complete, finished, failed;
    uint32_t seen, lost_count; /* machines reported ready, or lost, since it was opened */
    bool waits;             /* the loop runs until one of these fields changes */
    struct renting_machine *machines; /* by node: FLEET_NODES_MAX, once a cluster was opened */
    bool held;              /* by this process */
    bool borrowed;          /* it belongs to another job: an interrupt gives nothing of it back */
    bool replaces;          /* a lost machine is replaced at once */
    bool settles;           /* looking for the machines of a cluster that was complete */
    struct renting_view *view; /* NULL: lines only */
    bool quiet;             /* only faults are printed */
    bool json;              /* lines of `run --json`, while no run writes them */
    bool interrupted, asked_enough;
    char troubled[400];     /* the last trouble that was printed */
    enum fleet_how how;     /* set once it is finished */
    uint32_t left;
    struct error fault;     /* why it failed */
    uint64_t began_ms;
    /* Called when nobody waits for machines: a node's machine is gone; its replacement is ready; there is none. May be
     * NULL. */
    void (*lost)(void *arg, uint32_t node);
    void (*replaced)(void *arg, uint32_t node);
    void (*unreplaced)(void *arg, uint32_t node);
    void (*notice)(void *arg, uint64_t at_ms); /* all machines end then (wall clock): max_hours; may be NULL */
    void *arg;
};
/* Its connections are made when the first cluster is opened. */
void renting_begin(struct renting *r, struct cli *c, struct loop *loop);
void renting_end(struct renting *r);

int renting_connect(struct renting *r, struct error *err); /* makes r->rent, unless it exists */
int renting_open(struct renting *r, const char *id, const char *name, struct error *err);
void renting_close(struct renting *r);
/* Runs the loop until all nodes are ready: 0; or until nothing more is tried: -1 and err. */
int renting_wait(struct renting *r, struct error *err);
/* Runs the loop until no machine is left: 0; -1 and err: machines are left, and were printed. */
int renting_wait_gone(struct renting *r, struct error *err);
/* The end of the terminal, or of the reader, must not leave machines half rented or half given back. Destroy it
 * together with the loop's other signals. */
struct loop_signal *renting_hold_on(struct loop *loop);
/* Ctrl-C: gives back the machines that are being rented; the second Ctrl-C lets go of them. */
void renting_interrupt(struct renting *r);

/* What to do with a cluster that no process has open. */
enum deed { DEED_NONE, DEED_GO_ON, DEED_FREE, DEED_DOWN };
enum deed renting_deed(const struct fleet_ledger *l);
bool renting_ends(const struct fleet_ledger *l, enum deed deed); /* whether that deed gives it back */
int renting_do(struct renting *r, const char *id, const char *name, enum deed deed, struct error *err);
/* Does this to all clusters; prints failures. job: its own clusters are left alone unless `own`. An unfinished cluster
 * of another job is only reported: its work may continue there. */
int renting_reconcile(struct renting *r, const char *job, bool own, struct error *err);

/* The job's cluster that is not over, in the arena; NULL: none. -1 and err: a ledger cannot be read. */
int renting_find(const char *job_id, struct arena *arena, const char **ret_id, struct error *err);
/* The alternative of any_of that was rented, if all machines of the cluster existed at one time; else, or without
 * any_of, 0. */
uint32_t renting_alternative(const struct fleet_ledger *l);
/* The cluster with that id or that name; NULL: none. -1 and err: several match. */
int renting_named(struct cli *c, const char *word, const char **ret_id, struct error *err);
/* costs.c: the cost of each run of a job, in micro-USD. False: nothing was rented for it, or nothing can be read. */
bool cli_run_costs(struct cli *c, const char *job_id, const struct state *s, uint64_t *costs);
void renting_put_usd(struct buf *b, uint64_t microusd);

/* Makes sure that the job's cluster is there (rents it if needed) and held by `by`: each machine was seen, lost ones
 * are replaced, and the roster has all of them. 0, or -1 and err. */
int renting_up(struct renting *r, const struct spec *spec, struct roster *roster, const char *job_id, const char *by,
               struct error *err);
/* borrowed.c: cluster: NAME. Makes sure that the cluster is there, and held for the job of the spec; as renting_up. */
int renting_borrow(struct renting *r, const struct spec *spec, struct roster *roster, const char *by,
                   struct error *err);
int renting_find_borrowed(struct cli *c, const struct spec *spec, const char **ret_id, struct error *err);
/* Whether the job of the spec may use it. If another job's rhrun was killed while it held the cluster, that job's work
 * may continue there: -1 and err. */
int renting_check_holder(const struct fleet_ledger *l, const struct spec *spec, struct arena *arena, struct error *err);
/* As renting_look, for the job's own cluster or the one that it borrows. */
int renting_look_of(struct cli *c, const struct spec *spec, const char *job_id, struct roster *roster,
                    const char **ret_id, struct error *err);
/* Enters the machines that are ready into the roster. */
int renting_roster(const struct fleet_ledger *l, struct arena *arena, struct roster *roster, struct error *err);
/* The same for the job's cluster, if there is one; its id, or NULL. No provider is asked. */
int renting_look(struct cli *c, const char *job_id, struct roster *roster, const char **ret_id, struct error *err);
/* Asks the provider again, for a few seconds at most, whether a machine ended. False also if it cannot be asked. */
bool renting_has_lost(struct renting *r, const char *by);
/* ---- renting_view.c: on a terminal, a line for each node while its machine is waited for ---- */
void renting_view_begin(struct renting *r); /* of the open cluster; nothing if all machines are there already */
void renting_view_end(struct renting *r);   /* removes the view; printed lines stay */
/* "rhrun: TEXT", a line above the view if there is one. Print with this whenever there may be a view. */
void renting_say(const struct renting *r, const char *fmt, ...) FORMAT(2, 3);
/* ---- renting_nodes.c ---- */
void renting_machine_told(struct renting *r, const struct fleet_effect *e);
/* Rents a replacement for the node; `replaced` or `unreplaced` reports the result. False: too many tries. */
bool renting_replace(struct renting *r, uint32_t node, const char *text);
/* Runs the loop until each machine was seen, and lost ones are replaced: 0; else -1 and err. */
int renting_wait_machines(struct renting *r, struct error *err);
void renting_run_loop(struct renting *r); /* until there is news that a caller may wait for */

/* The holder does not need it any more: `down` of the spec decides what happens next. Waits for that. */
int renting_leave(struct renting *r, struct error *err);
/* rented.c: on stderr, at the end of a run: the machines stay, because the run did not end, or because of `down`. */
void renting_say_kept(const struct renting *r);
void renting_say_stay(const struct renting *r, const struct cli *c);

#endif
