/*
 * fleet: the life of a rented cluster, from the wish for machines to the proof that none is left. Pure: inputs in,
 * effects out.
 *
 * A cluster has its own ledger: events, in order, that add up to struct fleet_ledger (fleet_apply). The core (struct
 * fleet) is a ledger and a cache of what this process has seen; everything that matters later is an event, or can be
 * seen again in the provider's list. So resuming after a kill needs no code of its own: replay the ledger
 * (fleet_replay), give FLEET_INPUT_START, list, go on.
 *
 *     fleet_take(f, &input, clock) takes in what happened, then decides everything that follows, once
 *     fleet_effects(f, &count) what to do now, in this order; answers come back as inputs
 *     fleet_wake_ms(f) the latest time at which to give FLEET_INPUT_TICK
 *
 * The core has no loop, no network, no file, no clock and no randomness. Tokens and names are derived from the
 * cluster's id, which is random and comes with the wish.
 *
 * The rules that keep machines from being forgotten:
 *   - INTENT is durable before the create request goes out, RETURNING before the delete request, and READY before
 *     anybody is told of the machine, because READY pins the host key.
 *   - A create with an unknown outcome (unsure, or sent by a controller that was killed) is looked for in the list
 *     until the provider can no longer carry it out (late_ms) and the list can no longer lag behind (settle_ms). Only
 *     then it is sent again, under the same name and token; it is sent again at once if the provider makes no second
 *     machine for the same name and token. A later refusal does not settle the first create.
 *   - SETTLED makes durable that no create is under way any more, so the next process has none to wait for.
 *   - All nodes or none: if one node cannot be rented, all machines of the attempt are given back, and the next offer
 *     is tried only when all are proven gone. A quota or capacity fault also excludes the other offers within its
 *     scope; throttled and transient faults are retried, FLEET_TRIES_MAX times; auth, invalid and budget faults end the
 *     cluster. If a machine ended by itself and the provider does not say why, its offer is tried once more if there is
 *     no other: the machine may have ended while no controller ran.
 *   - A machine is gone when the provider shows that it ended, or does not list it although it is old enough to be
 *     listed (twice, if the provider's list lags: settle_ms). In all other cases the record stays, and rhrun goes on
 *     deleting it.
 *   - A price that the provider reports when it creates a machine replaces the offer's price. If the whole cluster then
 *     costs more than max_price, the machine is given back before it is used, as if none had been available.
 *   - A machine that does not carry the cluster's id is ignored: never adopted and never deleted.
 *   - The cluster is OVER when every machine is proven gone and a last list of each region shows nothing with the
 *     cluster's id. A region that no create request can have reached is not listed.
 *   - Every wait ends: FLEET_*_MS below; sooner if every answer about the remaining machines is of class auth. A
 *     machine that could not be proven gone is reported with its price (FLEET_TELL_LEFT); it stays in the ledger, and
 *     the next process goes on deleting it.
 */
#ifndef RHRUN_FLEET_H
#define RHRUN_FLEET_H

#include "rhrun/provider.h"

enum {
    FLEET_NODES_MAX = 1024,        /* of a cluster */
    FLEET_OFFERS_MAX = 500,        /* of a wish */
    FLEET_TEXT_MAX = 500,          /* bytes of a string of an event */
    FLEET_JSON_MAX = 4 << 20,      /* bytes of one event's JSON */
    FLEET_ORDERS_MAX = 100000,     /* intents of one ledger; machines likewise */
    FLEET_CREATE_MS = 600000,      /* how long to wait for the answer to a create; then its outcome is unknown */
    FLEET_ASK_MS = 120000,         /* the same for the other requests, which are then sent again */
    FLEET_READY_MS = 1200000,      /* from an intent to a ready machine, unless the offer says otherwise */
    FLEET_RETURN_MS = 900000,      /* how long one process tries to prove machines gone */
    FLEET_REFUSED_MS = 60000,      /* the same if the provider refuses the credentials every time, because waiting does
                                      not help */
    FLEET_REFUSALS = 3,            /* at least this many times */
    FLEET_LATE_MS = 30000,         /* how long a create with an unknown outcome may still be carried out, unless the
                                      offer says otherwise */
    FLEET_POLL_MS = 5000,          /* between two lists while machines change, unless the offer says otherwise */
    FLEET_WATCH_MS = 60000,        /* between two lists once all machines are ready */
    FLEET_DOUBTS = 8,              /* lists for a machine in doubt; the pause doubles after each */
    FLEET_DELETE_MS = 30000,       /* pause before a machine that is still listed is deleted again */
    FLEET_AGAIN_MS = 2000,         /* first pause after a fault; doubled each time */
    FLEET_AGAIN_MAX_MS = 60000,
    FLEET_RETRY_AFTER_MAX_MS = 300000, /* the longest Retry-After that is obeyed */
    FLEET_TRIES_MAX = 6,           /* times that one create is sent */
    FLEET_GRACE_MS = 600000,       /* how long before the deadline the run is told, so that it can save its work */
    FLEET_BLOCK_MS = 1800000,      /* how long a replacement avoids offers that had no machine, if there are other
                                      offers */
};
#define FLEET_NONE UINT32_MAX /* no slot, no machine, no offer */
#define FLEET_TOLD_PRICE_MAX UINT32_MAX /* the highest price of a machine that a provider may report; micro-USD per
                                           hour */

/* ---- the wish ---- */

/* One type of machine in one place. Offers are tried in order. They are frozen with the wish: a new catalog or provider
 * file changes neither price nor behaviour of an existing cluster. */
struct fleet_offer {
    const char *provider, *region, *zone, *type; /* zone: "" = the provider chooses */
    const char *gpu;       /* the accelerator's canonical name; NULL: none */
    uint32_t gpu_count;    /* of one machine */
    bool spot;
    uint32_t nodes;        /* how many machines make the cluster */
    uint32_t alternative;  /* number in the spec's any_of, from 1, for the planning of the run; 0: there is no any_of */
    uint32_t gang_max;     /* machines that one create makes, all or none; 1: one */
    uint64_t price;        /* of one machine: micro-USD per hour */
    bool unpriced;         /* the price is unknown: refused if there is a max_price */
    enum provider_idem idem; /* NONE: a create with an unknown outcome counts as failed */
    enum provider_deadline deadline;
    uint64_t settle_ms;    /* how long the list may miss a created machine; 0 = never */
    uint64_t late_ms;      /* how long after its timeout a create may still be carried out; 0 = FLEET_LATE_MS */
    uint64_t poll_ms, ready_ms; /* 0 = FLEET_POLL_MS, FLEET_READY_MS */
};

enum fleet_down {
    FLEET_DOWN_ALWAYS, /* as soon as nobody holds the cluster */
    FLEET_DOWN_NEVER,  /* only on request, or at the deadline */
    FLEET_DOWN_IDLE    /* when nobody has held the cluster for idle_ms */
};

struct fleet_wanted {
    const char *id;      /* random; 8 to 40 of [a-z0-9]. The value of the tag rhrun-run, and part of each name */
    const char *name;    /* the cluster's, for people */
    const char *owner;   /* the value of the tag rhrun-owner */
    const char *what;    /* the wish in words, to tell wishes apart; NULL: not given */
    const char *image;   /* NULL: the provider's own */
    const char *user;    /* login name; NULL: from the provider's file */
    uint32_t disk_gb;    /* 0: the provider's own */
    /* wall clock: when the cluster is given back, and machines that can end themselves do; 0 = none */
    uint64_t deadline_ms;
    uint64_t max_price;  /* micro-USD per hour for all machines that are not proven gone; 0 = none */
    enum fleet_down down;
    uint64_t idle_ms;
    const struct fleet_offer *offers;
    uint32_t offer_count;
};

/* ---- events of the ledger ---- */
enum fleet_event_type {
    FLEET_WANTED = 1, /* the cluster is wanted */
    FLEET_INTENT,     /* once this is durable, a create goes out for `count` machines, for the slots from `slot` on */
    FLEET_CREATED,    /* the machine exists: the create's answer or the list says so */
    FLEET_READY,      /* the machine answered at this address with this host key; both are fixed from now on */
    FLEET_RETURNING,  /* the machine is being deleted, until it is proven gone */
    FLEET_GONE,       /* the machine is proven gone, even if nobody had deleted it */
    FLEET_VOID,       /* the intent yields no (further) machines; fault and scope say why */
    FLEET_RETREAT,    /* the attempt has failed: all its machines are given back before the next offer is tried */
    FLEET_COMPLETE,   /* all nodes are ready. From now on the end of one machine does not end the others */
    FLEET_REPLACE,    /* the slot gets another machine, and its present machine is given back */
    FLEET_UNREPLACED, /* the slot gets no other machine: no offer is left */
    FLEET_NOTICED,    /* the provider has said when it takes the machine back */
    FLEET_HELD,       /* somebody uses the cluster */
    FLEET_FREED,      /* nobody does */
    FLEET_ENDING,     /* all machines are given back, for good */
    FLEET_OVER,       /* none is left */
    FLEET_SETTLED,    /* no request to create is under way any more */
    FLEET_EVENT_LAST = FLEET_SETTLED
};

enum fleet_how { /* why a cluster ends */
    FLEET_HOW_ASKED,    /* `down`, gc */
    FLEET_HOW_FREED,    /* nobody holds it, and `down` is always */
    FLEET_HOW_IDLE,
    FLEET_HOW_DEADLINE, /* max_hours */
    FLEET_HOW_FAILED    /* it cannot be rented: fault and text say why */
};

/* The maker of the event owns its strings. Strings that do not belong to the type are NULL; text may be NULL. */
struct fleet_event {
    enum fleet_event_type type;
    uint64_t seq;     /* in the ledger, from 1, without a gap */
    uint64_t time_ms; /* wall clock */
    union {
        struct fleet_wanted wanted;
        struct {
            const char *name, *token;
            uint32_t offer, slot, count;
            uint64_t price, deadline_ms; /* price: of one machine, as frozen; deadline_ms: wall clock, 0 = none */
        } intent;
        struct {
            const char *provider, *region, *id;
            const char *intent; /* the intent name that the machine carries; an older copy of the ledger may not have
                                   that intent */
            bool found;         /* found in the list: no answer to a create had named it */
            uint64_t price;     /* as the provider reports it, micro-USD per hour; 0: not reported, so the intent's
                                   price counts */
        } created;
        struct { /* READY, RETURNING, GONE, NOTICED */
            const char *provider, *id;
            const char *address, *host_key; /* of READY; host_key "": the connection needs no host key */
            uint64_t price;                 /* of READY: as in CREATED; 0: no change */
            enum provider_class fault;         /* of GONE, RETURNING: why it failed, if the provider says so */
            enum provider_scope scope;
            uint64_t at_ms;                 /* of NOTICED: wall clock */
            const char *text;
        } machine;
        struct { /* VOID, RETREAT, UNREPLACED, ENDING */
            const char *intent;  /* of VOID */
            uint32_t slot;       /* of UNREPLACED */
            enum fleet_how how;  /* of ENDING */
            enum provider_class fault;
            enum provider_scope scope;
            const char *text;
        } end;
        struct { /* REPLACE */
            uint32_t slot;
            const char *text;
        } replace;
        struct { /* HELD */
            const char *by;
        } held;
    };
};
/* One JSON object, as the ledger stores it. e must be an event that fleet_apply accepts. */
void fleet_event_to_json(const struct fleet_event *e, struct buf *ret);
/* Reads an event into the arena. -1: the text is no event, or a value exceeds a limit. Unknown keys, of another
 * version, are ignored. */
int fleet_event_from_json(const char *text, size_t len, struct arena *arena, struct fleet_event *ret,
                          struct error *err);
const char *fleet_event_name(enum fleet_event_type type); /* "intent" */
/* -1 and err (ERROR_SPEC): the wish is invalid: no offer, too many nodes, a bad id, ... */
int fleet_wanted_check(const struct fleet_wanted *w, struct error *err);

/* ---- the state that the events add up to ---- */
enum fleet_stage {
    FLEET_STAGE_NONE,       /* nothing is wanted */
    FLEET_STAGE_RENTING,    /* the machines of one offer are coming, or no offer was tried yet */
    FLEET_STAGE_RETREATING, /* the offer has failed: its machines are being given back */
    FLEET_STAGE_COMPLETE,   /* all nodes were ready once */
    FLEET_STAGE_ENDING,     /* everything is being given back */
    FLEET_STAGE_OVER        /* nothing is left */
};
enum fleet_slot_state {
    FLEET_SLOT_OPEN,    /* no machine was ordered for it in this attempt */
    FLEET_SLOT_ORDERED, /* there is an intent, and no machine */
    FLEET_SLOT_MADE,    /* there is a machine */
    FLEET_SLOT_READY,   /* it is ready */
    FLEET_SLOT_LOST,    /* its machine ended, or its intent came to nothing */
    FLEET_SLOT_ANEW     /* another machine is wanted; the old one may still exist */
};
enum fleet_machine_state {
    FLEET_MACHINE_CREATED,
    FLEET_MACHINE_READY,
    FLEET_MACHINE_RETURNING,
    FLEET_MACHINE_GONE /* proven */
};
struct fleet_slot {
    enum fleet_slot_state state;
    uint32_t order, machine; /* the latest ones in this attempt; FLEET_NONE: there was none */
    uint32_t tried;     /* ANEW: how many suitable offers were tried for it */
    uint32_t blocks;    /* fleet_ledger.block_count when another machine was asked for */
    enum provider_class fault; /* LOST: why */
    enum provider_scope scope;
    const char *text;
};
struct fleet_block { /* an offer failed in this way: others within `scope` of it count as failed too */
    uint32_t offer;
    enum provider_class fault;
    enum provider_scope scope;
    uint64_t time_ms;
};
struct fleet_order { /* an intent */
    const char *name, *token;
    uint32_t offer, slot, count, attempt;
    uint64_t price, deadline_ms, seq, time_ms;
    uint32_t machines;    /* how many machines it yielded */
    bool replaces;        /* for one node of a cluster that was complete */
    bool closed;          /* it yields no more machines: all exist, or VOID */
    enum provider_class fault; /* of VOID */
    enum provider_scope scope;
    uint64_t closed_ms;     /* wall clock */
};
struct fleet_machine {
    const char *provider, *region, *id, *name;
    uint32_t order; /* FLEET_NONE: the ledger has no intent for it */
    uint32_t slot;  /* FLEET_NONE: a surplus machine */
    enum fleet_machine_state state;
    const char *address, *host_key; /* pinned; NULL before READY */
    const char *text;               /* why it is given back, or is gone */
    uint64_t price; /* as the provider reported it; 0: not reported */
    uint64_t created_ms, ready_ms, gone_ms, notice_ms; /* wall clock; 0 = not yet */
    uint64_t ready_seq, returning_seq; /* seq of those events; 0 = not yet */
};
struct fleet_ledger {
    struct arena *arena;
    enum fleet_stage stage;
    struct fleet_wanted wanted;
    uint32_t attempt; /* how many attempts have failed */
    uint32_t offer;   /* the offer of this attempt; FLEET_NONE: none was tried yet */
    bool again, repeated; /* again: while RETREATING: the same offer may be tried once more. repeated: some attempt has
                             done so */
    struct fleet_slot *slots;
    uint32_t slot_count;
    struct fleet_order *orders;
    uint32_t order_count, order_cap;
    struct fleet_machine *machines;
    uint32_t machine_count, machine_cap;
    struct fleet_block *blocks;
    uint32_t block_count, block_cap;
    const char *held_by;      /* NULL: nobody holds it */
    uint64_t freed_ms;        /* since when nobody holds it; 0: somebody holds it, or nobody ever did */
    uint64_t seq, stage_seq;  /* seq of the last event, and of the event that began the stage */
    uint64_t settled_seq, settled_ms; /* seq and wall clock of the last SETTLED; 0: there was none */
    enum fleet_how how;       /* of ENDING and OVER */
    enum provider_class fault;
    const char *text;
};
struct fleet_ledger *fleet_ledger_create(void);
void fleet_ledger_destroy(struct fleet_ledger *l); /* takes NULL */
/* -1 and err (ERROR_IO): the event cannot follow the events before it; the ledger is unchanged. */
int fleet_apply(struct fleet_ledger *l, const struct fleet_event *e, struct error *err);
/* Micro-USD that the cluster's machines have cost until now_ms (wall clock), by the prices of their intents. */
uint64_t fleet_cost(const struct fleet_ledger *l, uint64_t now_ms);
/* The part of that cost between the two times. */
uint64_t fleet_cost_between(const struct fleet_ledger *l, uint64_t from_ms, uint64_t until_ms);
/* Micro-USD per hour of all machines that are not proven gone, including intents without an answer. */
uint64_t fleet_rate(const struct fleet_ledger *l);
const char *fleet_stage_name(enum fleet_stage stage); /* "renting" */

/* ---- what the core is told ---- */
struct fleet_item {
    const char *run;  /* the cluster id that the machine carries, as a tag or in its name; NULL: none */
    const char *id, *name, *region;
    enum provider_state state; /* FAILED: it exists, but is unusable */
    const char *address;    /* with the port if it is not the default; NULL: none yet */
    uint64_t price;            /* micro-USD per hour, at most FLEET_TOLD_PRICE_MAX; 0: not reported */
    enum provider_class fault; /* why it ended, if the provider says so */
    enum provider_scope scope;
};
enum fleet_input_kind {
    FLEET_INPUT_START,   /* the ledger was replayed: this process begins. Before all others but FLEET_INPUT_TICK */
    FLEET_INPUT_WANT,    /* `wanted`; ignored if the ledger has a wish already */
    FLEET_INPUT_DURABLE, /* the ledger is durable up to the event `seq` */
    /* answer to CREATE of the intent `name`: ids, prices; fault, scope, unsure, unsent, retry_after_ms, text */
    FLEET_INPUT_CREATED,
    FLEET_INPUT_LISTED,  /* answer to LIST `number`: all items (of all pages), or a fault */
    FLEET_INPUT_DELETED, /* answer to DELETE of `provider` and `id`: fault */
    FLEET_INPUT_MET,     /* answer to MEET: host_key; or a fault: nothing answers there yet */
    FLEET_INPUT_NOTICE,  /* the provider takes `id` back, at_ms */
    FLEET_INPUT_HOLD,    /* `text` uses the cluster. After START this, or FREE, must be given again */
    FLEET_INPUT_FREE,
    FLEET_INPUT_REPLACE, /* the machine of `slot` is lost, or bad (text): another one is wanted */
    FLEET_INPUT_LOOK,    /* does the machine of `slot` still exist? Its region is listed soon, FLEET_DOUBTS times */
    FLEET_INPUT_DOWN,    /* give everything back: text */
    FLEET_INPUT_TICK     /* time has passed */
};
struct fleet_input { /* all is borrowed for the call */
    enum fleet_input_kind kind;
    const struct fleet_wanted *wanted;
    const char *provider, *id, *name, *host_key, *text;
    const char *const *ids;
    const uint64_t *prices; /* of CREATED, one for each id, as in fleet_item; NULL: none is reported */
    uint32_t id_count, slot;
    const struct fleet_item *items;
    size_t item_count;
    enum provider_class fault;
    enum provider_scope scope;
    bool unsure; /* the request may have been carried out all the same, or may still be */
    bool unsent; /* of CREATED: the request has not left this machine, nor will it */
    uint64_t seq, number, at_ms, retry_after_ms;
};
struct fleet_clock {
    uint64_t wall_ms; /* since 1970: for the ledger and for deadlines */
    uint64_t mono_ms; /* a clock that nobody sets: for the waits of this process */
};

/* ---- what the core wants ---- */
enum fleet_effect_kind {
    FLEET_EFFECT_APPEND, /* `event` goes into the ledger; INPUT_DURABLE once it is on the disk */
    /* create what `order` says, with the tags rhrun-run, rhrun-owner and rhrun-expires in the same request;
     * INPUT_CREATED */
    FLEET_EFFECT_CREATE,
    FLEET_EFFECT_LIST,   /* list all with the cluster's id in `provider` and `region`; INPUT_LISTED with `number` */
    FLEET_EFFECT_DELETE, /* delete `machine`; INPUT_DELETED */
    /* does `machine` answer at `address`, and with which host key? If user data put the intent's token on the machine,
     * a machine without that token is the wrong one (a fault). INPUT_MET */
    FLEET_EFFECT_MEET,
    FLEET_EFFECT_TELL    /* report `tell` to the run and to people; no input answers it */
};
enum fleet_tell {
    FLEET_TELL_TRYING,     /* an attempt begins: offer */
    FLEET_TELL_WAITING,    /* a create is sent again after wait_ms: order, fault, text */
    FLEET_TELL_RETREAT,    /* the attempt has failed: offer, fault, scope, text */
    FLEET_TELL_READY,      /* the machine of the slot can be used; once for each machine and process */
    FLEET_TELL_COMPLETE,   /* all nodes are ready, or were once */
    FLEET_TELL_LOST,       /* the slot has no machine any more, and gets another only by INPUT_REPLACE: text */
    FLEET_TELL_UNREPLACED, /* no other machine is available for the slot: fault, text */
    FLEET_TELL_NOTICE,     /* the provider takes the slot's machine back at at_ms; slot FLEET_NONE: the cluster's
                              deadline */
    FLEET_TELL_REFUSED,    /* a different machine answers at this machine's address */
    FLEET_TELL_DEARER,     /* the machine costs more than the offer said: price, as the provider reports it */
    FLEET_TELL_LEFT,       /* the machine (or `order`, whose outcome is unknown) is not proven gone: fleet_left_text */
    FLEET_TELL_FINISHED    /* nothing more will be done: how, fault, text; left: the number of TELL_LEFT */
};
/* Strings and events live as long as the fleet; the rest until the next fleet_take. */
struct fleet_effect {
    enum fleet_effect_kind kind;
    enum fleet_tell tell;
    const struct fleet_event *event;
    const struct fleet_order *order;
    const struct fleet_machine *machine;
    const struct fleet_offer *offer;
    const char *provider, *region, *address, *text;
    uint32_t slot, left;
    enum fleet_how how;
    enum provider_class fault;
    enum provider_scope scope;
    uint64_t number, at_ms, wait_ms;
    uint64_t price; /* of TELL_DEARER */
};
/* Of TELL_LEFT: "aws us-east-1 i-0abc (rhrun-...-1) may still be there, at $4.10 an hour: rhrun gc --provider aws
 * --yes". */
void fleet_left_text(const struct fleet_effect *e, struct buf *ret);
/* Of TELL_DEARER: "warning: runpod asks $2.50 an hour for i-0abc, and the price list has $1.90 an hour". */
void fleet_dearer_text(const struct fleet_effect *e, struct buf *ret);

/* ---- the core ---- */
struct fleet;
struct fleet *fleet_create(void);
void fleet_destroy(struct fleet *f); /* takes NULL */
/* Replays one event of the ledger that an earlier process left. Give all of them, in order, before INPUT_START. -1: as
 * fleet_apply. */
int fleet_replay(struct fleet *f, const struct fleet_event *e, struct error *err);
void fleet_take(struct fleet *f, const struct fleet_input *in, struct fleet_clock now);
const struct fleet_effect *fleet_effects(const struct fleet *f, size_t *ret_count);
/* On the monotonic clock; UINT64_MAX: never. */
uint64_t fleet_wake_ms(const struct fleet *f);
const struct fleet_ledger *fleet_ledger_of(const struct fleet *f);

#endif
