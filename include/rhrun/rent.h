/*
 * rent: the hands of fleet (fleet.h). It keeps the ledgers of rented clusters, sends what fleet wants to the providers,
 * hands the answers back, and meets the machines. What is to be done is decided in fleet alone.
 *
 * A cluster is opened (rent_open: its lock is taken, its ledger replayed, its place at the provider looked at), then
 * wished for (rent_want) where it is new, and held by whoever uses it. Everything that is told comes to an observer,
 * as effects of kind FLEET_EFFECT_TELL, in later turns of the loop.
 *
 * Closing a cluster (rent_close) gives nothing back: what its ledger has is there for the next process.
 *
 * Each provider is loaded once, its credentials are looked for at its first request. A fault there is the answer to
 * that request: of class auth where credentials are missing, with the variable or file in the text. Where the provider
 * refuses them later they are looked for again, as what a program or a file tells may have run out and be renewed.
 *
 * In clusters/ID of the state directory, beside the ledger: the login key (src/rent/keys.c); `account-PROVIDER`, a
 * digest of the credentials by which it was rented (src/rent/pin.c); `cleanup`, a file that is there from before the
 * first thing besides machines is made (a network, a security group, a key at the provider) until these are taken away
 * again, and empty while one of these may be made of which nobody has an answer; and `over`, a file that is there once
 * nothing is left to do.
 *
 * Test hook: RHRUN_TEST_RENT_KILL=N kills this process (SIGKILL) when the N-th event of a ledger is durable.
 */
#ifndef RHRUN_RENT_H
#define RHRUN_RENT_H

#include "rhrun/catalog.h"
#include "rhrun/fleet.h"
#include "rhrun/loop.h"
#include "rhrun/spec.h"

struct transport_pool;

/* ---- what the clusters of one process share ---- */
struct rent;
/* loop and pool outlive it; pool NULL: no machine that is reached over ssh can be met. NULL and err: as http_create. */
struct rent *rent_create(struct loop *loop, struct transport_pool *pool, struct error *err);
void rent_destroy(struct rent *r); /* takes NULL; close the clusters before */

/* ---- a cluster ---- */
struct rent_cluster;
struct rent_observer {
    /* Kind TELL; valid during the call. After FLEET_TELL_FINISHED nothing more comes. */
    void (*told)(void *arg, const struct fleet_effect *tell);
    /* A look, or a request to delete, has failed, and is tried again: for people. May be NULL. */
    void (*trouble)(void *arg, const char *provider, const char *region, const char *text);
    /* The ledger cannot be written any more: nothing more is begun. Machines stay as they are. */
    void (*failed)(void *arg, const struct error *err);
};
/* Opens the ledger of cluster `id`, or makes it. name: for people, of a new one. -1 and err: ERROR_HELD when another
 * process has it. */
int rent_open(struct rent *r, const char *id, const char *name, const struct rent_observer *observer, void *arg,
              struct rent_cluster **ret, struct error *err);
/* Copied. Passed over where the ledger has a wish. */
void rent_want(struct rent_cluster *c, const struct fleet_wanted *wanted);
/* Begins, in a later turn: goes on with what an earlier process left. Whatever is asked for below does it, too. */
void rent_begin(struct rent_cluster *c);
/* A cluster that was held, and is by nobody now, ends as its wish says; one that was never held goes on until it is
 * asked to end. So a cluster whose holder was killed is held again, or freed, by whoever opens it. */
void rent_hold(struct rent_cluster *c, const char *by);
void rent_free(struct rent_cluster *c);
void rent_down(struct rent_cluster *c, const char *text);
/* The credentials of now are of the account in which it was rented, whatever they show: what they hide is gone. */
void rent_trust(struct rent_cluster *c);
void rent_replace(struct rent_cluster *c, uint32_t slot, const char *text);
void rent_look(struct rent_cluster *c, uint32_t slot); /* its node cannot be reached: is its machine there? */
/* What was asked for is taken in, and the ledger is durable. Not within a callback. */
int rent_sync(struct rent_cluster *c, struct error *err);
const struct fleet_ledger *rent_ledger(const struct rent_cluster *c);
/* Requests that are under way are dropped; what became of them is seen by the next process. Takes NULL. */
void rent_close(struct rent_cluster *c);

/* ---- clusters that there are ---- */
/* The ledger of a cluster as it stands, without its lock; destroy it with fleet_ledger_destroy. -1: as
 * journal_cluster_read. */
int rent_read(const char *id, struct fleet_ledger **ret, struct error *err);
/* The same with the times in which somebody held it, in order: whoever goes on after a kill goes on with the same
 * one. */
struct rent_hold {
    uint64_t from_ms;
    uint64_t until_ms; /* when it was freed; UINT64_MAX: it is held, or was given back with that: what it cost until it
                          was gone is of this one, too */
};
int rent_read_holds(const char *id, struct fleet_ledger **ret, struct rent_hold **ret_holds, size_t *ret_count,
                    struct error *err); /* holds: to be freed */
/* How the machines of its slots are reached: one host for each slot, in the arena; of a slot without a machine that is
 * ready, host is NULL. -1 and err: a provider cannot be loaded. */
int rent_hosts(const struct fleet_ledger *l, struct arena *arena, struct spec_host **ret, struct error *err);
/* Is something of it left besides machines (see above), so that it is to be opened once more though it is over? */
bool rent_has_rest(const char *id);
/* Is it over, with nothing left to do? Cheaper than its ledger. */
bool rent_is_over(const char *id);
/* An id for a new cluster of that job: RENT_JOB_PREFIX characters of the job's id, then random ones. */
enum { RENT_JOB_PREFIX = 10 };
void rent_new_id(const char *job_id, char ret[21]);

/* ---- machines that an account has, whatever the ledgers say (gc) ---- */
/* Asks PROVIDER_SWEEP of a region. done is called once; machines are valid during the call; err NULL: all is well. */
struct rent_sweep;
struct rent_sweep *rent_sweep(struct rent *r, const char *provider, const char *region,
                              void (*done)(void *arg, const struct provider_machine *machines, size_t count,
                                           const struct error *err),
                              void *arg);
/* Deletes one of these. "There is none" is well. */
struct rent_sweep *rent_delete(struct rent *r, const char *provider, const char *region,
                               const struct provider_machine *machine,
                               void (*done)(void *arg, const struct provider_machine *machines, size_t count,
                                            const struct error *err),
                               void *arg);
void rent_sweep_end(struct rent_sweep *s); /* before done has returned; takes NULL */

/* ---- what a provider says that can be had now, and at which price ---- */
struct rent_rate { /* of a currency that prices are told in */
    const char *currency; /* "EUR" */
    uint64_t microusd;    /* what one of it is */
};
struct rent_prices {
    const char *csv; /* what catalog_replace takes */
    size_t len;
    size_t rows;     /* that it has */
    size_t unpriced; /* offers that it leaves out: they tell no price */
};
/* Asks PROVIDER_STOCK, which the provider must have (provider_has). region: of the request, "" = none. What is
 * borrowed lives until done is called: once, in a later turn; prices are valid during the call, and NULL where err says
 * why there are none (ERROR_USAGE: credentials, or a currency without a rate). */
struct rent_asking;
struct rent_asking *rent_prices(struct rent *r, const char *provider, const char *region, const struct catalog *catalog,
                                const struct rent_rate *rates, size_t rate_count,
                                void (*done)(void *arg, const struct rent_prices *prices, const struct error *err),
                                void *arg);
void rent_asking_end(struct rent_asking *a); /* before done has returned; takes NULL */

#endif
