/*
 * The parts of rent: account.c (a loaded provider with its credentials), exchange.c (one operation with all its steps
 * and pages), create.c (a create and what it needs before), cluster.c (fleet's inputs and effects), job.c (an effect
 * that takes time), host.c (how to reach a machine), pin.c (which account a cluster is in), sweep.c (gc). machine.h:
 * contact with a machine itself.
 */
#ifndef RHRUN_RENT_INTERNAL_H
#define RHRUN_RENT_INTERNAL_H

#include "rhrun/http.h"
#include "rhrun/rent.h"

#include "machine.h"

#define MICRO 1000000u

/* ---- account.c ---- */
struct account { /* a provider as this process uses it */
    struct rent *rent;
    const char *name;
    struct provider *provider; /* NULL: it could not be loaded */
    struct error fault;        /* why it cannot be used */
    struct provider_credentials *credentials;
    struct provider_credentials *former; /* replies to them may still come */
    struct loop_capture *capture; /* running program that prints them */
    bool looked;                  /* for the credentials */
    uint64_t looked_ms;           /* when last; on the loop's clock */
    uint32_t generation;          /* how often */
    char *token;                  /* of oauth2; NULL: none yet */
    uint64_t token_until_ms;      /* on the loop's clock */
};
struct rent {
    struct loop *loop;
    struct transport_pool *pool;
    struct http *http;
    struct arena *arena;
    struct account **accounts;
    size_t account_count;
};
struct account *account_of(struct rent *r, const char *provider);
enum account_state { ACCOUNT_READY, ACCOUNT_BUSY /* ask again */, ACCOUNT_FAULT /* as account.fault says */ };
enum account_state account_look(struct account *s); /* whether it has all that requests need */
/* The provider has refused a request with the credentials of that generation. They may have expired: a sign-on lasts an
 * hour, a machine runs for days. True: there are new ones now, or soon; ask again. */
bool account_renew(struct account *s, uint32_t generation);
/* The secrets that a reply may quote. */
const struct provider_credentials *account_secrets(const struct account *s);
bool account_has_token(const struct account *s);
void account_set_token(struct account *s, const char *token, uint64_t life_s);
void account_free(struct account *s);

/* ---- exchange.c ---- */
struct exchange_answer {
    enum provider_class class; /* NONE: all steps are done */
    enum provider_scope scope;
    const char *text; /* why it failed, for people; never NULL if class is set */
    bool unsure;
    bool unsent; /* not a byte of any step has left */
    uint64_t retry_after_ms;
    size_t step;                             /* the step at which it ended */
    const struct doc_node *values;           /* the inputs, overridden by extracted values */
    const struct provider_machine *machines; /* of all steps and pages */
    size_t machine_count;
    const struct provider_offer *offers; /* likewise */
    size_t offer_count;
};
struct exchange;
struct exchange_ask {
    enum provider_operation operation;
    size_t from_step;
    const struct doc_node *inputs; /* copied */
};
/* done is called once, in a later turn. */
struct exchange *exchange_begin(struct account *s, const struct exchange_ask *ask,
                                void (*done)(void *arg, const struct exchange_answer *answer), void *arg);
void exchange_end(struct exchange *e); /* before done has returned; takes NULL */

/* ---- cluster.c ---- */
struct site;
struct going;
struct rent_cluster {
    struct rent *rent;
    struct rent_observer observer;
    void *arg;
    struct arena *arena;
    char *folder; /* clusters/ID */
    struct journal_cluster *journal;
    struct fleet *fleet;
    struct loop_timer *wake, *inputs;
    struct rent_keys *keys; /* NULL: not needed yet */
    struct job *jobs;      /* requests under way */
    struct site *sites;  /* where machines were, or will be, created */
    struct going *going;   /* creates of earlier processes that go on */
    struct pending *pending, **pending_end; /* inputs that wait for their turn */
    struct fleet_effect *finished; /* FLEET_TELL_FINISHED, which waits for the cleanup */
    uint64_t opened_ms;            /* on the loop's clock */
    bool may_be_prepared;          /* an earlier process may have made, or be making, something besides machines */
    uint64_t durable_seq;
    uint32_t kill_at, durable_count; /* the test hook */
    bool trusts; /* its accounts are the present ones, whatever the pin says */
    bool started, failed;
};
char *rent_folder(const char *id, struct error *err); /* clusters/ID; the caller's */
const char *cluster_user(const struct fleet_ledger *l, const struct provider_facts *facts); /* the login name */
const struct rent_keys *cluster_keys(struct rent_cluster *c, struct error *err); /* opened when first asked for */
void cluster_give(struct rent_cluster *c, const struct fleet_input *input);

/* ---- pin.c ---- */
/* Records the account, unless that is done already; durable when it returns. Call it once the credentials are known. */
int pin_keep(struct rent_cluster *c, const struct account *s, struct error *err);
int pin_renew(struct rent_cluster *c, const struct account *s, struct error *err); /* the present one is the same */
bool pin_fits(const struct rent_cluster *c, const struct account *s); /* false: it may be another account */
const char *pin_text(const struct rent_cluster *c, struct arena *arena);

/* ---- job.c ---- */
struct job { /* an effect that is being carried out */
    struct job *next, **link;
    struct rent_cluster *cluster;
    struct arena *arena;
    enum fleet_effect_kind kind;
    struct account *account;
    const char *provider, *region, *id, *name, *address;
    uint64_t number;                 /* of LIST */
    const struct fleet_offer *offer; /* of CREATE; the ledger's */
    struct fleet_order order;        /* of CREATE; its strings are the ledger's */
    bool pulled;                     /* the image was requested */
    bool waits;                      /* CREATE: for its site */
    struct doc_node *inputs;         /* of DELETE */
    const char *intent, *host_key, *token; /* of MEET: from the ledger, of the machine's intent */
    struct exchange *exchange;
    struct meet *meet;
    struct loop_timer *later;
};
struct job *job_begin(struct rent_cluster *c, const struct fleet_effect *e);
void job_answer(struct job *j, const struct fleet_input *input); /* and ends it */
void job_end(struct job *j);
/* The inputs of every operation of a cluster. zone may be NULL. */
struct doc_node *cluster_inputs(const struct rent_cluster *c, const char *region, const char *zone,
                                struct arena *arena);
void put_text(struct arena *a, struct doc_node *object, const char *key, const char *value); /* NULL, "": nothing */
void put_number(struct arena *a, struct doc_node *object, const char *key, uint64_t value);
uint64_t told_price(const struct provider_machine *m); /* micro-USD per hour; 0: no price, or no valid one */

/* ---- create.c ---- */
void create_begin(struct job *j);
/* The later steps of a create, for a machine that exists and is coming. */
void create_go_on(struct rent_cluster *c, struct account *account, const char *region,
                  const struct provider_machine *m);
void create_drop(struct rent_cluster *c, const char *id); /* it is given back: none of its steps is sent any more */
void sites_free(struct rent_cluster *c);
bool cleanup_is_due(const struct rent_cluster *c);
bool cleanup_may_be_late(const struct rent_cluster *c); /* something that cleanup removes may still be made */
/* Removes what prepare made, and the keys; calls cleaned(c) once, within this call or later. */
void cleanup_begin(struct rent_cluster *c, void (*cleaned)(struct rent_cluster *c));

#endif
