/*
 * A world in which a fleet runs alone: providers that are plain structs, a ledger in memory (each event goes through
 * its JSON), a clock that jumps from event to event. A seed decides everything.
 *
 * The providers behave like real ones: a new machine is hidden for a while, and so is an ended one; an answer is
 * dropped after the machine was made; a 500 hides a success; a request is done after its answer was given up; half of
 * the machines are made; requests are throttled; a zone has no machines left; machines die, stop, or are taken back;
 * addresses are used again; lists have other people's machines too.
 *
 * The invariants are where they are checked: world_violated.
 */
#ifndef RHRUN_TEST_FLEET_WORLD_H
#define RHRUN_TEST_FLEET_WORLD_H

#include "rhrun/fleet.h"

enum {
    WORLD_PROVIDERS = 3,
    WORLD_REGIONS = 2,
    WORLD_ZONES = 2,
    WORLD_OFFERS = 6,
    WORLD_ADDRESSES = 6,
    WORLD_IDS = 8,
    WORLD_MINUTE_MS = 60000,
    WORLD_HOUR_MS = 3600000
};

struct world_instance {
    char id[16], name[96], token[96], run[40], address[16], key[24];
    uint32_t provider, region, zone, offer;
    uint64_t born_ms, hidden_ms, boot_ms; /* hidden, boot: how long */
    uint64_t dead_ms, lag_ms, linger_ms;  /* dead: 0 = it lives */
    bool stuck, stopped, foreign;
};

enum world_kind { HAPPENS_COMMIT, HAPPENS_REQUEST, HAPPENS_ANSWER, HAPPENS_WAKE, HAPPENS_USER, HAPPENS_DEATH };
struct happening {
    uint64_t at_ms, order;
    enum world_kind kind;
    struct fleet_input input; /* of ANSWER and USER; its strings are the happening's */
    char strings[4][96], *ids[WORLD_IDS];
    struct fleet_item *items;
    char (*item_texts)[4][96];
    enum fleet_effect_kind ask; /* of REQUEST */
    uint32_t offer, count, fault, instance;
    uint64_t number;
    bool answered; /* for REQUEST: its answer came before it was done */
};

struct world {
    uint64_t seed, rng, now_ms, skew_ms, order, steps;
    struct happening **heap;
    size_t heap_count, heap_cap;
    struct world_instance *instances;
    uint32_t instance_count, instance_cap;
    uint32_t capacity[WORLD_PROVIDERS][WORLD_REGIONS][WORLD_ZONES]; /* machines that are still available */
    uint32_t quota[WORLD_PROVIDERS][WORLD_REGIONS];
    bool refuses[WORLD_PROVIDERS]; /* its credentials are bad */
    uint64_t outage_ms[WORLD_PROVIDERS], outage_end_ms[WORLD_PROVIDERS]; /* it answers only with errors then */
    struct fleet_offer offers[WORLD_OFFERS];
    struct fleet_wanted wanted;
    uint32_t nodes, faults, kills, deaths; /* still to come */
    struct arena *arena;
    struct fleet_event *ledger;
    size_t ledger_count, ledger_cap, durable;
    struct fleet *fleet; /* NULL: no controller lives */
    uint32_t controllers;
    uint64_t end_ms; /* the last event that does not end by itself */
    bool released, gc, finished, committing, completed, quiet;
    uint32_t left;
    struct buf log;
    bool verbose;
    char violation[300]; /* the first; "": none */
};

struct world *world_create(uint64_t seed, bool verbose);
void world_destroy(struct world *w);
void world_start(struct world *w); /* a controller, from the ledger */
void world_kill(struct world *w, bool all_arrives); /* kill -9. all_arrives: no durable event or request is lost */
bool world_step(struct world *w);  /* false: no event is pending, or an invariant is violated */
uint64_t world_next_ms(const struct world *w); /* time of the next event; UINT64_MAX: never */
void world_calm(struct world *w);  /* from now on no fault, no death and no action of the user */
uint32_t world_live(const struct world *w); /* machines that carry the cluster's id and may cost money */
uint64_t world_random(struct world *w, uint64_t below);
uint64_t world_delay(struct world *w, uint64_t below); /* constant once all is calm */
bool world_chance(struct world *w, unsigned percent);
void world_say(struct world *w, const char *fmt, ...) FORMAT(2, 3);
void world_violated(struct world *w, const char *fmt, ...) FORMAT(2, 3);

/* ---- fleet_world*.c among themselves ---- */
struct happening *world_happens(struct world *w, enum world_kind kind, uint64_t after_ms);
void world_drop(struct happening *h);
void world_tell(struct world *w, const struct fleet_input *in);
void world_request(struct world *w, struct happening *h); /* fleet_world_provider.c: does it, and may answer */
void world_die(struct world *w, uint32_t instance);
const char *world_string(struct happening *h, unsigned slot, const char *text);
bool world_faulty(struct world *w, unsigned percent); /* uses one of the faults that are left */
bool world_is_out(const struct world *w, uint32_t provider);

#endif
