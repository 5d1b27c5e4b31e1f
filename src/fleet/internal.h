/* What the files of fleet ask of each other. The ledger (fleet.h) is what was decided; the structs here are what this
 * process has seen since, one beside each of the ledger's. */
#ifndef RHRUN_FLEET_INTERNAL_H
#define RHRUN_FLEET_INTERNAL_H

#include "rhrun/fleet.h"

#include "belief.h"

/* How a create stands. The table of what follows what is in states.c. */
enum order_state {
    ORDER_INTENDED, /* the intent is not durable yet: nothing was sent */
    ORDER_SENT,     /* the answer is awaited */
    ORDER_WAITING,  /* nothing came of it, for sure; it is sent again */
    ORDER_DOUBT,    /* machines may have come of it, or may come yet: the list tells */
    ORDER_CLOSED    /* nothing more comes of it */
};

struct order_view {
    enum order_state state;
    uint32_t tries;      /* of this process; 0: what was sent, an earlier one sent */
    bool spent;          /* it is not sent again */
    bool left;           /* a request may have reached the provider */
    bool inherited;      /* an earlier process sent it, nobody knows how often */
    bool looked;         /* a list was seen since then */
    uint32_t awaited;    /* requests whose answer has not come */
    bool unsure;         /* one of its tries may have been done, or be done yet, whatever a later one was told */
    uint32_t absences;   /* looks in a row that proved: no machine of it that the ledger does not have */
    uint64_t since_ms;   /* when the state began */
    uint64_t begun_ms;   /* when this process learned of it */
    uint64_t retry_ms;   /* not sent before */
    uint64_t late_ms;    /* so long a request may still be done that nobody has an answer to */
    uint64_t proof_ms;   /* a look that began then, or later, would show what came of it */
    enum provider_class fault; /* of the last answer */
    enum provider_scope scope;
    const char *text;
};

enum ask_state { /* of a request that is repeated until its answer is the right one */
    ASK_IDLE,
    ASK_SENT
};
struct ask {
    enum ask_state state;
    uint64_t sent_ms, next_ms; /* not again before */
    uint32_t faults;           /* in a row */
};

struct refusal { /* answers of class auth, one after the other */
    uint64_t since_ms; /* monotonic */
    uint32_t times;
};

struct machine_view {
    enum seen seen;    /* as belief.h has it */
    uint32_t absences; /* looks in a row that did not show it, and could not hide it */
    uint64_t proof_ms; /* a look that began then, or later, would show it */
    uint64_t listed;   /* the last look that showed it */
    const char *address; /* as that look did; NULL: none */
    const char *meets;   /* the address at which it is asked who it is */
    enum provider_class fault; /* likewise */
    enum provider_scope scope;
    struct ask delete, meet;
    struct refusal refusal; /* of deletes */
    bool stranger;     /* that look showed it with another cluster's id, or none: it is not touched */
    uint64_t price;    /* as the last look had it; 0: it did not */
    bool told_dearer;
    uint64_t told_seq; /* the READY event of which TELL_READY told; 0: none */
};

struct slot_view {
    enum fleet_slot_state told; /* LOST is told once */
    uint64_t told_notice_ms;
};

struct site { /* (provider, region) in which the ledger has an intent or a machine */
    const char *provider, *region;
    const struct fleet_offer *offer; /* one of those there: how long its list lags, how often it is asked; NULL: none */
    struct ask look;
    uint64_t number;   /* of the look that is under way, or was the last */
    uint64_t quiet_ms; /* a look that began then, or later, shows all machines that the ledger has, or had, there */
    uint32_t clean;    /* looks in a row since that showed nothing of ours */
    uint32_t doubts;   /* so many looks more come soon, each after a longer pause */
    bool changed;      /* something did: the next look comes as soon as poll_ms lets it */
    struct refusal refusal; /* of looks */
};

struct fleet {
    struct fleet_ledger *ledger;
    struct fleet_clock now;
    uint64_t durable; /* the ledger is, up to this event */
    uint64_t wake_ms;
    bool started, finished;
    bool told_complete, told_deadline;
    uint64_t stage_ms;     /* when this process saw the stage begin */
    uint64_t stage_seq;    /* which */
    struct order_view *orders;
    uint32_t order_count, order_cap;
    struct machine_view *machines;
    uint32_t machine_count, machine_cap;
    struct slot_view slots[FLEET_NODES_MAX];
    struct site *sites;
    uint32_t site_count, site_cap;
    uint64_t numbers; /* of looks */
    struct fleet_effect *effects;
    size_t effect_count, effect_cap;
    struct effect_of { /* beside each effect: arrays of the ledger may move until the turn ends */
        uint32_t order, machine;
    } *effects_of;
    uint64_t decided; /* grows with each event and effect: the turn ends when a round of passes adds none */
};

/* ---- turn.c ---- */
/* Completes the event (seq, time), applies it and has it appended. What it points to is copied. */
void fleet_append(struct fleet *f, struct fleet_event e);
void fleet_want(struct fleet *f, struct fleet_effect e);
void wake_at(struct fleet *f, uint64_t mono_ms);
bool has_come(struct fleet *f, uint64_t mono_ms); /* else the fleet is woken then */
bool is_durable(const struct fleet *f, uint64_t seq);
uint64_t pause_ms(uint32_t faults, uint64_t retry_after_ms); /* after so many in a row */

/* ---- states.c: of the ledger and of its views; a step that no table has ends the program ---- */
bool stage_may(enum fleet_stage from, enum fleet_stage to);
bool slot_may(enum fleet_slot_state from, enum fleet_slot_state to);
bool machine_may(enum fleet_machine_state from, enum fleet_machine_state to);
void order_set(struct fleet *f, uint32_t order, enum order_state to);
void ask_sent(struct fleet *f, struct ask *a);
void ask_answered(struct fleet *f, struct ask *a, bool good, uint64_t next_ms); /* next_ms: of a good one */
bool ask_may(struct fleet *f, struct ask *a); /* nothing is under way, or for too long, and it is time */

/* ---- ledger.c, apply.c ---- */
uint32_t ledger_order(const struct fleet_ledger *l, const char *name); /* FLEET_NONE: no such */
uint32_t ledger_machine(const struct fleet_ledger *l, const char *provider, const char *id);
bool order_is_wanted(const struct fleet_ledger *l, uint32_t order);
bool ledger_is_settled(const struct fleet_ledger *l); /* nothing is there any more, and nothing can come */
bool machine_is_wanted(const struct fleet_ledger *l, uint32_t machine);
uint64_t machine_price(const struct fleet_ledger *l, const struct fleet_machine *m); /* 0: nobody knows it */

/* ---- offers.c ---- */
/* The next one to try for the whole cluster: behind that of the last attempt, not blocked, within max_price; or, where
 * there is none, that one again (fleet.h).
 * FLEET_NONE: none; then fault and text tell why the last one was passed over, where it was. */
uint32_t offer_next(const struct fleet_ledger *l, enum provider_class *ret_fault, const char **ret_text);
/* The next one to try for one slot: the cluster's own, then those of its place and type. FLEET_NONE: none. */
uint32_t offer_for_slot(const struct fleet_ledger *l, uint32_t slot, uint64_t wall_ms);
bool fault_is_final(enum provider_class fault, enum provider_scope scope); /* nothing more is rented */
const struct fleet_offer *order_offer(const struct fleet_ledger *l, const struct fleet_order *o);
uint64_t offer_poll_ms(const struct fleet_offer *o);
uint64_t offer_ready_ms(const struct fleet_offer *o);
uint64_t offer_late_ms(const struct fleet_offer *o);
bool offer_suits_slot(const struct fleet_ledger *l, uint32_t offer); /* for one node of the cluster as it is */
uint32_t offer_looks(const struct fleet_offer *o); /* that do not show a machine, until it is proven absent */

/* ---- event.c ---- */
/* Its strings are copied into the arena; those that are longer than any may be are cut. */
void event_copy(struct arena *arena, struct fleet_event *e);
bool text_is_plain(const char *s); /* what an id may be: printable UTF-8, not empty, not too long */

/* ---- text.c ---- */
void put_hourly(struct buf *b, uint64_t microusd); /* "$4.10 an hour", never less than it is */

/* ---- inputs.c, views.c ---- */
void inputs_take(struct fleet *f, const struct fleet_input *in);
void views_begin(struct fleet *f); /* START: nothing was seen yet */
void views_follow(struct fleet *f, const struct fleet_event *e); /* the ledger has grown by it */
struct site *site_of(struct fleet *f, const char *provider, const char *region); /* made where there is none */
struct site *site_of_order(struct fleet *f, uint32_t order);
uint64_t site_quiet_ms(const struct fleet *f, const struct site *p); /* of creates, too */

/* ---- orders.c ---- */
bool order_is_whole(const struct fleet *f, uint32_t order); /* all that can come of it is in the ledger */
bool orders_are_settled(struct fleet *f); /* no create is under way; else the fleet is woken when that may be so */

/* ---- the passes, in their order ---- */
void orders_pass(struct fleet *f);
void machines_pass(struct fleet *f);
void slots_pass(struct fleet *f);
void cluster_pass(struct fleet *f);
void looks_pass(struct fleet *f);
void append_intent(struct fleet *f, uint32_t offer, uint32_t slot, uint32_t count);
bool site_is_swept(const struct fleet *f, const struct site *p);

#endif
