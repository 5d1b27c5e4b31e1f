/*
 * fleet: the life of a rented cluster, from the wish for machines to the proof that none is left. Pure: inputs in,
 * effects out.
 *
 * A cluster has a ledger of its own: events, in order, that add up to struct fleet_ledger (fleet_apply). The core
 * (struct fleet) is a ledger and a cache of what was seen in this process; whatever matters for later is an event, or
 * can be seen again in the provider's list. So going on after a kill is no code of its own: replay the ledger
 * (fleet_replay), FLEET_INPUT_START, look, go on.
 *
 *     fleet_take(f, &input, clock)     takes in what happened, then decides all that follows, once
 *     fleet_effects(f, &count)         what is to be done now, in this order; answers come back as inputs
 *     fleet_wake_ms(f)                 when FLEET_INPUT_TICK is to be given at the latest
 *
 * It knows no loop, no network, no file, no clock and no chance. Tokens and names follow from the cluster's id, which
 * is random and comes with the wish.
 *
 * The order of things, which is what keeps machines from being forgotten:
 *   - INTENT is durable before the request to create goes out; RETURNING before the request to delete; READY before a
 *     machine is told to anybody, as it pins the host key.
 *   - A create whose outcome is not known (unsure, or sent by a controller that was killed) is looked for in the list
 *     until it cannot be done any more (late_ms), nor the provider be hiding it (settle_ms). Only then it is sent
 *     again, under the same name and token; at once where the provider makes no second machine for these. A later
 *     refusal says nothing of it.
 *   - That no create is under way any more is durable (SETTLED): whoever comes next has none to wait for.
 *   - All nodes or none: where one of them cannot be had, all of the attempt are given back, and only when all are
 *     proven gone the next offer is tried. What failed speaks against other offers as far as its scope goes: quota and
 *     capacity; throttled and transient are tried again, FLEET_TRIES_MAX times; auth, invalid and budget end it all.
 *     Where a machine has only ended by itself, and the provider does not say why, its offer is tried once more if
 *     there is no other: it may have ended while nobody looked.
 *   - A machine is gone when the provider shows its end, or does not know it at a time when it cannot be too young to
 *     be shown; where lists lag (settle_ms), twice. Everything else keeps the record, and deleting goes on.
 *   - What a provider tells of a machine's price when it makes it counts from then on. If all of the cluster's costs
 *     more than max_price by that, the machine is given back before it is used, as if there had been none.
 *   - A machine that does not carry the cluster's id is nobody's business here: it is never adopted and never deleted.
 *   - The cluster is OVER when every machine is proven gone and a last look at each place shows nothing that carries
 *     its id. A place that no request to create can have reached is not looked at.
 *   - Each wait ends: FLEET_*_MS below. Where each answer for what is left is of class auth it ends sooner. What could
 *     not be proven gone is told with its price (FLEET_TELL_LEFT); the ledger keeps it, and the next start goes on with
 *     it.
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
    FLEET_CREATE_MS = 600000,      /* how long the answer to a create is awaited; then its outcome is not known */
    FLEET_ASK_MS = 120000,         /* the same for the other requests; then they are asked again */
    FLEET_READY_MS = 1200000,      /* from an intent to a machine that is ready; where the offer does not say */
    FLEET_RETURN_MS = 900000,      /* how long one process tries to prove machines gone */
    FLEET_REFUSED_MS = 60000,      /* the same where the provider refuses the credentials each time, which waiting does
                                      not heal */
    FLEET_REFUSALS = 3,            /* so often at least */
    FLEET_LATE_MS = 30000,         /* a create whose answer is not known may still be done for so long; likewise */
    FLEET_POLL_MS = 5000,          /* between two looks at what changes; where the offer does not say */
    FLEET_WATCH_MS = 60000,        /* between two looks at what is ready */
    FLEET_DOUBTS = 8,              /* looks where a machine is in doubt; after each the pause is twice as long */
    FLEET_DELETE_MS = 30000,       /* a machine that is still shown is deleted again after this pause */
    FLEET_AGAIN_MS = 2000,         /* first pause after a fault; doubled each time */
    FLEET_AGAIN_MAX_MS = 60000,
    FLEET_RETRY_AFTER_MAX_MS = 300000, /* of what a provider may ask for */
    FLEET_TRIES_MAX = 6,           /* of one create */
    FLEET_GRACE_MS = 600000,       /* so long before the deadline the run is told of it, to save what it has */
    FLEET_BLOCK_MS = 1800000,      /* for how long a replacement avoids what had no machine, where there is more */
};
#define FLEET_NONE UINT32_MAX /* no slot, no machine, no offer */
#define FLEET_TOLD_PRICE_MAX UINT32_MAX /* that a provider tells of a machine; micro-USD per hour */

/* ---- the wish ---- */

/* What may be rented where, in the order in which it is tried. It is frozen with the wish: neither a new catalog nor a
 * new provider file changes the price or the ways of a cluster that there is. */
struct fleet_offer {
    const char *provider, *region, *zone, *type; /* zone: "" = the provider chooses */
    const char *gpu;       /* the accelerator's canonical name; NULL: none */
    uint32_t gpu_count;    /* of one machine */
    bool spot;
    uint32_t nodes;        /* how many machines make the cluster */
    uint32_t alternative;  /* of any_of of the spec, from 1, which whoever plans the run reads here; 0: there is none */
    uint32_t gang_max;     /* machines that one create makes, all or none; 1: one */
    uint64_t price;        /* of one machine: micro-USD per hour */
    bool unpriced;         /* nobody knows the price: refused where there is a max_price */
    enum provider_idem idem; /* NONE: a create whose outcome is not known counts as failed */
    enum provider_deadline deadline;
    uint64_t settle_ms;    /* how long the list may not show what create made; 0 = it always shows it */
    uint64_t late_ms;      /* how long a create may still be done once nobody awaits its answer; 0 = FLEET_LATE_MS */
    uint64_t poll_ms, ready_ms; /* 0 = FLEET_POLL_MS, FLEET_READY_MS */
};

enum fleet_down {
    FLEET_DOWN_ALWAYS, /* when nobody holds the cluster any more */
    FLEET_DOWN_NEVER,  /* when somebody asks for it, or at the deadline */
    FLEET_DOWN_IDLE    /* when nobody has held the cluster for idle_ms */
};

struct fleet_wanted {
    const char *id;      /* random; 8 to 40 of [a-z0-9]. The value of the tag rhrun-run, and part of each name */
    const char *name;    /* the cluster's, for people */
    const char *owner;   /* the value of the tag rhrun-owner */
    const char *what;    /* what was wished for, in words: to tell one wish from another; NULL: not said */
    const char *image;   /* NULL: the provider's own */
    const char *user;    /* who logs in; NULL: as the provider's file says */
    uint32_t disk_gb;    /* 0: the provider's own */
    /* wall clock: then the cluster is given back, and machines end by themselves where they can; 0 = none */
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
    FLEET_INTENT,     /* a create goes out once this is durable: of `count` machines, for the slots from `slot` on */
    FLEET_CREATED,    /* the machine is there: the answer said so, or the list */
    FLEET_READY,      /* it answered at this address with this host key; which are its own from now on */
    FLEET_RETURNING,  /* it is deleted, until it is proven gone */
    FLEET_GONE,       /* it is proven gone; also where nobody had asked for that */
    FLEET_VOID,       /* nothing (more) comes of the intent; why: fault, scope */
    FLEET_RETREAT,    /* the attempt has failed: all of it is given back before the next offer is tried */
    FLEET_COMPLETE,   /* all nodes are ready. From now on a machine that ends takes no other with it */
    FLEET_REPLACE,    /* the slot is to get another machine, and the one that it has is given back */
    FLEET_UNREPLACED, /* it gets none: no offer is left for it */
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
    FLEET_HOW_FAILED    /* it cannot be had: fault and text tell why */
};

/* Strings belong to whoever made the event. A string that the type does not have is NULL; text may be NULL. */
struct fleet_event {
    enum fleet_event_type type;
    uint64_t seq;     /* in the ledger, from 1, without a gap */
    uint64_t time_ms; /* wall clock */
    union {
        struct fleet_wanted wanted;
        struct {
            const char *name, *token;
            uint32_t offer, slot, count;
            uint64_t price, deadline_ms; /* as frozen, of one machine; wall clock, 0 = none */
        } intent;
        struct {
            const char *provider, *region, *id;
            const char *intent; /* the name that it carries; an older copy of the ledger may not have it */
            bool found;         /* in the list: no answer had named it */
            uint64_t price;     /* as the provider tells it, micro-USD per hour; 0: it does not, so the intent's */
        } created;
        struct { /* READY, RETURNING, GONE, NOTICED */
            const char *provider, *id;
            const char *address, *host_key; /* of READY; host_key "": the machine is reached without one */
            uint64_t price;                 /* of READY: as CREATED has it; 0: nothing new */
            enum provider_class fault;         /* of GONE, RETURNING: why it failed, where the provider says so */
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
/* One JSON object, as the ledger stores it. The event is one that fleet_apply takes. */
void fleet_event_to_json(const struct fleet_event *e, struct buf *ret);
/* Into the arena. -1: it is no event, or has a value beyond a limit. Keys of another version are passed over. */
int fleet_event_from_json(const char *text, size_t len, struct arena *arena, struct fleet_event *ret,
                          struct error *err);
const char *fleet_event_name(enum fleet_event_type type); /* "intent" */
/* -1 and err (ERROR_SPEC): not to be wished for: no offer, too many nodes, a bad id, ... */
int fleet_wanted_check(const struct fleet_wanted *w, struct error *err);

/* ---- what they add up to ---- */
enum fleet_stage {
    FLEET_STAGE_NONE,       /* nothing is wanted */
    FLEET_STAGE_RENTING,    /* the machines of one offer are on their way, or none was tried yet */
    FLEET_STAGE_RETREATING, /* that offer has failed: its machines are given back */
    FLEET_STAGE_COMPLETE,   /* all nodes were ready once */
    FLEET_STAGE_ENDING,     /* everything is given back */
    FLEET_STAGE_OVER        /* nothing is left */
};
enum fleet_slot_state {
    FLEET_SLOT_OPEN,    /* nothing was rented for it in this attempt */
    FLEET_SLOT_ORDERED, /* there is an intent, and no machine */
    FLEET_SLOT_MADE,    /* there is a machine */
    FLEET_SLOT_READY,   /* it is ready */
    FLEET_SLOT_LOST,    /* its machine ended, or its intent came to nothing */
    FLEET_SLOT_ANEW     /* another machine is wanted; the old one may not be gone yet */
};
enum fleet_machine_state {
    FLEET_MACHINE_CREATED,
    FLEET_MACHINE_READY,
    FLEET_MACHINE_RETURNING,
    FLEET_MACHINE_GONE /* proven */
};
struct fleet_slot {
    enum fleet_slot_state state;
    uint32_t order, machine; /* the latest of this attempt; FLEET_NONE: there was none */
    uint32_t tried;     /* ANEW: how many of the offers that suit were tried for it */
    uint32_t blocks;    /* how many there were when another machine was asked for */
    enum provider_class fault; /* LOST: why */
    enum provider_scope scope;
    const char *text;
};
struct fleet_block { /* an offer failed so: what is like it, as far as `scope` goes, fails too */
    uint32_t offer;
    enum provider_class fault;
    enum provider_scope scope;
    uint64_t time_ms;
};
struct fleet_order { /* an intent */
    const char *name, *token;
    uint32_t offer, slot, count, attempt;
    uint64_t price, deadline_ms, seq, time_ms;
    uint32_t machines;    /* that came of it */
    bool replaces;        /* one node of a cluster that was complete */
    bool closed;          /* nothing more comes of it: all machines are there, or VOID */
    enum provider_class fault; /* of VOID */
    enum provider_scope scope;
    uint64_t closed_ms;     /* wall clock */
};
struct fleet_machine {
    const char *provider, *region, *id, *name;
    uint32_t order; /* FLEET_NONE: the ledger has no intent for it */
    uint32_t slot;  /* FLEET_NONE: one too many */
    enum fleet_machine_state state;
    const char *address, *host_key; /* pinned; NULL before READY */
    const char *text;               /* why it is returned, or is gone */
    uint64_t price; /* as the provider told it; 0: it did not */
    uint64_t created_ms, ready_ms, gone_ms, notice_ms; /* wall clock; 0 = not yet */
    uint64_t ready_seq, returning_seq; /* of the events; 0 = not yet */
};
struct fleet_ledger {
    struct arena *arena;
    enum fleet_stage stage;
    struct fleet_wanted wanted;
    uint32_t attempt; /* how many have failed */
    uint32_t offer;   /* of this attempt; FLEET_NONE: none was tried yet */
    bool again, repeated; /* RETREATING: the same offer may be tried once more; it was, of some attempt */
    struct fleet_slot *slots;
    uint32_t slot_count;
    struct fleet_order *orders;
    uint32_t order_count, order_cap;
    struct fleet_machine *machines;
    uint32_t machine_count, machine_cap;
    struct fleet_block *blocks;
    uint32_t block_count, block_cap;
    const char *held_by;      /* NULL: nobody holds it */
    uint64_t freed_ms;        /* since when nobody does; 0: nobody ever did, or somebody does */
    uint64_t seq, stage_seq;  /* of the last event; of the one that brought the stage */
    uint64_t settled_seq, settled_ms; /* of the last SETTLED; wall clock. 0: there was none */
    enum fleet_how how;       /* of ENDING and OVER */
    enum provider_class fault;
    const char *text;
};
struct fleet_ledger *fleet_ledger_create(void);
void fleet_ledger_destroy(struct fleet_ledger *l); /* takes NULL */
/* -1 and err (ERROR_IO): the event does not follow from those before it; the ledger is as it was. */
int fleet_apply(struct fleet_ledger *l, const struct fleet_event *e, struct error *err);
/* Micro-USD that its machines have cost until then (wall clock), by the prices of their intents. */
uint64_t fleet_cost(const struct fleet_ledger *l, uint64_t now_ms);
/* Of that only what falls between the two. */
uint64_t fleet_cost_between(const struct fleet_ledger *l, uint64_t from_ms, uint64_t until_ms);
/* Micro-USD per hour of all that is not proven gone, intents without an answer included. */
uint64_t fleet_rate(const struct fleet_ledger *l);
const char *fleet_stage_name(enum fleet_stage stage); /* "renting" */

/* ---- what the core is told ---- */
struct fleet_item {
    const char *run;  /* the cluster's id that it carries, as a tag or in its name; NULL: none */
    const char *id, *name, *region;
    enum provider_state state; /* FAILED: it is there, and of no use */
    const char *address;    /* with its port where that is not the usual one; NULL: none yet */
    uint64_t price;            /* micro-USD per hour, at most FLEET_TOLD_PRICE_MAX; 0: the provider does not say */
    enum provider_class fault; /* why it ended, where the provider says so */
    enum provider_scope scope;
};
enum fleet_input_kind {
    FLEET_INPUT_START,   /* the ledger was replayed: this process begins. Before all others but FLEET_INPUT_TICK */
    FLEET_INPUT_WANT,    /* `wanted`; passed over where the ledger has a wish already */
    FLEET_INPUT_DURABLE, /* the ledger is durable up to the event `seq` */
    /* CREATE of the intent `name` is answered: ids, prices; fault, scope, unsure, retry_after_ms, text */
    FLEET_INPUT_CREATED,
    FLEET_INPUT_LISTED,  /* LIST `number` is answered: all items (of all pages), or a fault */
    FLEET_INPUT_DELETED, /* DELETE of `provider` and `id` is answered: fault */
    FLEET_INPUT_MET,     /* MEET is answered: host_key; a fault: nobody answers there yet */
    FLEET_INPUT_NOTICE,  /* the provider takes `id` back, at_ms */
    FLEET_INPUT_HOLD,    /* `text` uses the cluster. After START this, or FREE, is told again */
    FLEET_INPUT_FREE,
    FLEET_INPUT_REPLACE, /* the machine of `slot` is lost, or bad (text): another one is wanted */
    FLEET_INPUT_LOOK,    /* is the machine of `slot` there? Its place is looked at soon, FLEET_DOUBTS times */
    FLEET_INPUT_DOWN,    /* everything is given back: text */
    FLEET_INPUT_TICK     /* time has passed */
};
struct fleet_input { /* all is borrowed for the call */
    enum fleet_input_kind kind;
    const struct fleet_wanted *wanted;
    const char *provider, *id, *name, *host_key, *text;
    const char *const *ids;
    const uint64_t *prices; /* of CREATED, one for each id, as in fleet_item; NULL: none is told */
    uint32_t id_count, slot;
    const struct fleet_item *items;
    size_t item_count;
    enum provider_class fault;
    enum provider_scope scope;
    bool unsure; /* what was asked for may have been done all the same, or be done yet */
    bool unsent; /* of CREATED: the request has not left this machine, nor will it */
    uint64_t seq, number, at_ms, retry_after_ms;
};
struct fleet_clock {
    uint64_t wall_ms; /* since 1970: what the ledger has, and deadlines go by */
    uint64_t mono_ms; /* on a clock that nobody sets: what waits of this process go by */
};

/* ---- what the core wants ---- */
enum fleet_effect_kind {
    FLEET_EFFECT_APPEND, /* `event` goes into the ledger; INPUT_DURABLE once it is on the disk */
    /* what `order` says, with the tags rhrun-run, rhrun-owner and rhrun-expires in the same request; INPUT_CREATED */
    FLEET_EFFECT_CREATE,
    FLEET_EFFECT_LIST,   /* what carries the cluster's id in `provider` and `region`; INPUT_LISTED with `number` */
    FLEET_EFFECT_DELETE, /* `machine`; INPUT_DELETED */
    /* does `machine` answer at `address`, and with which host key? Where user data put the token of its intent there,
     * a machine without it is not the one (a fault). INPUT_MET */
    FLEET_EFFECT_MEET,
    FLEET_EFFECT_TELL    /* `tell`, for the run and for people; nothing comes back */
};
enum fleet_tell {
    FLEET_TELL_TRYING,     /* an attempt begins: offer */
    FLEET_TELL_WAITING,    /* a create is sent again after wait_ms: order, fault, text */
    FLEET_TELL_RETREAT,    /* the attempt has failed: offer, fault, scope, text */
    FLEET_TELL_READY,      /* the machine of the slot can be used; once for each machine and process */
    FLEET_TELL_COMPLETE,   /* all nodes are, or were once */
    FLEET_TELL_LOST,       /* the slot has no machine any more, and gets one by INPUT_REPLACE only: text */
    FLEET_TELL_UNREPLACED, /* and there is none to be had: fault, text */
    FLEET_TELL_NOTICE,     /* the machine of the slot is taken back at at_ms; slot FLEET_NONE: the cluster's deadline */
    FLEET_TELL_REFUSED,    /* another machine answers at the address of this one */
    FLEET_TELL_DEARER,     /* the machine costs more than the offer said: price, as the provider tells it */
    FLEET_TELL_LEFT,       /* the machine (or `order`, of which nobody knows) is not proven gone: fleet_left_text */
    FLEET_TELL_FINISHED    /* nothing more will be done: how, fault, text; left: how many were told by LEFT */
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
/* An event of the ledger that an earlier process left; all of them, in order, before INPUT_START. -1: as
 * fleet_apply. */
int fleet_replay(struct fleet *f, const struct fleet_event *e, struct error *err);
void fleet_take(struct fleet *f, const struct fleet_input *in, struct fleet_clock now);
const struct fleet_effect *fleet_effects(const struct fleet *f, size_t *ret_count);
/* On the monotonic clock; UINT64_MAX: never. */
uint64_t fleet_wake_ms(const struct fleet *f);
const struct fleet_ledger *fleet_ledger_of(const struct fleet *f);

#endif
