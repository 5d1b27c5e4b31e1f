/*
 * rent: carries out the effects of fleet (fleet.h). It keeps the ledgers of rented clusters, sends fleet's requests to
 * the providers, hands the answers back, and makes the first contact with machines. All decisions are fleet's.
 *
 * A cluster is opened (rent_open takes its lock, replays its ledger and lists its machines at the provider), then
 * wanted (rent_want) if it is new, and held by its user. An observer gets all reports, as effects of kind
 * FLEET_EFFECT_TELL, in later turns of the loop.
 *
 * Closing a cluster (rent_close) gives no machine back: the next process goes on with its ledger.
 *
 * Each provider is loaded once, and its credentials are looked for at its first request. A fault in that is the answer
 * to the request: class auth if credentials are missing, with the variable or file in the text. If the provider refuses
 * the credentials later, they are looked for again, because those from a program or a file may have expired and been
 * renewed.
 *
 * In clusters/ID of the state directory, beside the ledger: the login key (src/rent/keys.c); `account-PROVIDER`, a
 * digest of the credentials that rented it (src/rent/pin.c); `cleanup`, a file that exists as long as there may be
 * other things than machines at the provider (a network, a security group, a key), and that is empty while the outcome
 * of making one of them is unknown; and `over`, a file that exists once nothing is left to do.
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

/* ---- shared by the clusters of one process ---- */
struct rent;
/* loop and pool must outlive it; pool NULL: machines that need ssh cannot be contacted. NULL and err: as
 * http_create. */
struct rent *rent_create(struct loop *loop, struct transport_pool *pool, struct error *err);
void rent_destroy(struct rent *r); /* takes NULL; close all clusters first */

/* ---- a cluster ---- */
struct rent_cluster;
struct rent_observer {
    /* An effect of kind TELL; valid during the call. Nothing follows FLEET_TELL_FINISHED. */
    void (*told)(void *arg, const struct fleet_effect *tell);
    /* For people: a list or delete request has failed and will be retried. May be NULL. */
    void (*trouble)(void *arg, const char *provider, const char *region, const char *text);
    /* The ledger can no longer be written: nothing more is begun, and machines stay as they are. */
    void (*failed)(void *arg, const struct error *err);
};
/* Opens the ledger of cluster `id`, or makes it. name: for people, used if the cluster is new. -1 and err: ERROR_HELD
 * when another process has it. */
int rent_open(struct rent *r, const char *id, const char *name, const struct rent_observer *observer, void *arg,
              struct rent_cluster **ret, struct error *err);
/* wanted is copied. Ignored if the ledger has a wish already. */
void rent_want(struct rent_cluster *c, const struct fleet_wanted *wanted);
/* Begins, in a later turn of the loop: goes on where an earlier process stopped. Every request below also begins. */
void rent_begin(struct rent_cluster *c);
/* A cluster that was held and no longer is ends as its wish says (fleet_wanted.down); a cluster that was never held
 * goes on until it is asked to end. So after a holder was killed, the next process that opens the cluster must hold or
 * free it. */
void rent_hold(struct rent_cluster *c, const char *by);
void rent_free(struct rent_cluster *c);
void rent_down(struct rent_cluster *c, const char *text);
/* States that the present credentials belong to the account that rented the cluster: machines that they do not list
 * count as gone. */
void rent_trust(struct rent_cluster *c);
void rent_replace(struct rent_cluster *c, uint32_t slot, const char *text);
void rent_look(struct rent_cluster *c, uint32_t slot); /* the node cannot be reached: check whether its machine still
                                                          exists */
/* Handles all requests so far and makes the ledger durable. Must not be called inside a callback. */
int rent_sync(struct rent_cluster *c, struct error *err);
const struct fleet_ledger *rent_ledger(const struct rent_cluster *c);
/* Drops requests that are under way; the next process finds out what became of them. Takes NULL. */
void rent_close(struct rent_cluster *c);

/* ---- existing clusters ---- */
/* The ledger of a cluster as it stands, without its lock; destroy it with fleet_ledger_destroy. -1: as
 * journal_cluster_read. */
int rent_read(const char *id, struct fleet_ledger **ret, struct error *err);
/* The same with the periods in which somebody held the cluster, in order. A holder that resumes after a kill continues
 * its period. */
struct rent_hold {
    uint64_t from_ms;
    uint64_t until_ms; /* when it was freed; UINT64_MAX: it is still held, or was given back at the end of this period,
                          whose cost then includes the time until the machines were gone */
};
int rent_read_holds(const char *id, struct fleet_ledger **ret, struct rent_hold **ret_holds, size_t *ret_count,
                    struct error *err); /* free *ret_holds */
/* How to reach the machines of its slots: one spec_host for each slot, in the arena; its `host` is NULL while the slot
 * has no ready machine. -1 and err: a provider cannot be loaded. */
int rent_hosts(const struct fleet_ledger *l, struct arena *arena, struct spec_host **ret, struct error *err);
/* Whether things other than machines are left (`cleanup` above), so that the cluster must be opened once more although
 * it is over. */
bool rent_has_rest(const char *id);
/* Whether it is over, with nothing left to do. Cheaper than reading the ledger. */
bool rent_is_over(const char *id);
/* An id for a new cluster of this job: RENT_JOB_PREFIX characters of the job's id, then random ones. */
enum { RENT_JOB_PREFIX = 10 };
void rent_new_id(const char *job_id, char ret[21]);

/* ---- all machines of an account, whatever the ledgers say (gc) ---- */
/* Asks PROVIDER_SWEEP for a region. done is called once; machines are valid during the call; err NULL: success. */
struct rent_sweep;
struct rent_sweep *rent_sweep(struct rent *r, const char *provider, const char *region,
                              void (*done)(void *arg, const struct provider_machine *machines, size_t count,
                                           const struct error *err),
                              void *arg);
/* Deletes one of these machines. "Not found" is success. */
struct rent_sweep *rent_delete(struct rent *r, const char *provider, const char *region,
                               const struct provider_machine *machine,
                               void (*done)(void *arg, const struct provider_machine *machines, size_t count,
                                            const struct error *err),
                               void *arg);
void rent_sweep_end(struct rent_sweep *s); /* cancels; only before done has returned; takes NULL */

/* ---- the types that a provider offers now, and their prices ---- */
struct rent_rate { /* the exchange rate of a currency in which prices are given */
    const char *currency; /* "EUR" */
    uint64_t microusd;    /* the value of one unit */
};
struct rent_prices {
    const char *csv; /* input for catalog_replace */
    size_t len;
    size_t rows;     /* in csv */
    size_t unpriced; /* offers left out of csv because they have no price */
};
/* Asks PROVIDER_STOCK, which the provider must have (provider_has). region: for the request, "" = none. The arguments
 * must live until done is called: once, in a later turn of the loop. prices are valid during that call; prices NULL:
 * err says why there are none (ERROR_USAGE: credentials, or a currency without a rate). */
struct rent_asking;
struct rent_asking *rent_prices(struct rent *r, const char *provider, const char *region, const struct catalog *catalog,
                                const struct rent_rate *rates, size_t rate_count,
                                void (*done)(void *arg, const struct rent_prices *prices, const struct error *err),
                                void *arg);
void rent_asking_end(struct rent_asking *a); /* cancels; only before done has returned; takes NULL */

#endif
