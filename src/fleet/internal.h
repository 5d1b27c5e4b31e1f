/* Shared by the files of fleet. The ledger (fleet.h) has the decisions; the structs here have what this process has
 * seen since, one for each struct of the ledger. */
#ifndef RHRUN_FLEET_INTERNAL_H
#define RHRUN_FLEET_INTERNAL_H

#include "rhrun/fleet.h"

#include "belief.h"

/* The state of a create. states.c has the table of transitions. */
enum order_state {
    ORDER_INTENDED, /* the intent is not durable yet: nothing was sent */
    ORDER_SENT,     /* the answer is awaited */
    ORDER_WAITING,  /* it certainly made nothing; it is sent again */
    ORDER_DOUBT,    /* it may have made machines, or may still: the list decides */
    ORDER_CLOSED    /* it yields no more machines */
};

struct order_view {
    enum order_state state;
    uint32_t tries;      /* by this process; 0: only an earlier process sent it */
    bool spent;          /* it is not sent again */
    bool left;           /* a request may have reached the provider */
    bool inherited;      /* an earlier process sent it, nobody knows how often */
    bool looked;         /* a list was seen since then */
    uint32_t awaited;    /* requests whose answer has not come */
    bool unsure;         /* one of its tries may have been carried out, or may still be, whatever a later answer said */
    uint32_t absences;   /* lists in a row that proved that the ledger has all its machines */
    uint64_t since_ms;   /* when the state began */
    uint64_t begun_ms;   /* when this process learned of it */
    uint64_t retry_ms;   /* not sent before */
    uint64_t late_ms;    /* until then an unanswered request may still be carried out */
    uint64_t proof_ms;   /* a list that began then, or later, shows its machines */
    enum provider_class fault; /* of the last answer */
    enum provider_scope scope;
    const char *text;
};

enum ask_state { /* of a request that is repeated until the answer is right */
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
    uint32_t absences; /* lists in a row that miss it and cannot lag */
    uint64_t proof_ms; /* a list that began then, or later, would show it */
    uint64_t listed;   /* number of the last list that showed it */
    const char *address; /* from that list; NULL: none */
    const char *meets;   /* the address of the first contact */
    enum provider_class fault; /* likewise */
    enum provider_scope scope;
    struct ask delete, meet;
    struct refusal refusal; /* of deletes */
    bool stranger;     /* that list showed it with another cluster's id, or none: it is not touched */
    uint64_t price;    /* from the last list; 0: not given */
    bool told_dearer;
    uint64_t told_seq; /* the READY event that TELL_READY reported; 0: none */
};

struct slot_view {
    enum fleet_slot_state told; /* LOST is told once */
    uint64_t told_notice_ms;
};

struct site { /* (provider, region) in which the ledger has an intent or a machine */
    const char *provider, *region;
    const struct fleet_offer *offer; /* one of the offers there, for the lag and the interval of lists; NULL: none */
    struct ask look;
    uint64_t number;   /* of the current list, or the last one */
    uint64_t quiet_ms; /* a list that began then, or later, shows all machines that the ledger has, or had, there */
    uint32_t clean;    /* lists in a row since then that showed nothing of ours */
    uint32_t doubts;   /* this many more lists come soon, each after a longer pause */
    bool changed;      /* something has changed: the next list comes as soon as poll_ms allows */
    struct refusal refusal; /* of looks */
};

struct fleet {
    struct fleet_ledger *ledger;
    struct fleet_clock now;
    uint64_t durable; /* the ledger is durable up to this event */
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
    struct effect_of { /* for each effect, because arrays of the ledger may move until the turn ends */
        uint32_t order, machine;
    } *effects_of;
    uint64_t decided; /* grows with each event and effect: the turn ends when a round of passes adds none */
};

/* ---- turn.c ---- */
/* Completes the event (seq, time), applies it and appends it. The data that it points to is copied. */
void fleet_append(struct fleet *f, struct fleet_event e);
void fleet_want(struct fleet *f, struct fleet_effect e);
void wake_at(struct fleet *f, uint64_t mono_ms);
bool has_come(struct fleet *f, uint64_t mono_ms); /* otherwise the fleet is woken then */
bool is_durable(const struct fleet *f, uint64_t seq);
uint64_t pause_ms(uint32_t faults, uint64_t retry_after_ms); /* after so many in a row */

/* ---- states.c: of the ledger and of its views; a transition that is in no table ends the program ---- */
bool stage_may(enum fleet_stage from, enum fleet_stage to);
bool slot_may(enum fleet_slot_state from, enum fleet_slot_state to);
bool machine_may(enum fleet_machine_state from, enum fleet_machine_state to);
void order_set(struct fleet *f, uint32_t order, enum order_state to);
void ask_sent(struct fleet *f, struct ask *a);
void ask_answered(struct fleet *f, struct ask *a, bool good, uint64_t next_ms); /* next_ms: of a good one */
bool ask_may(struct fleet *f, struct ask *a); /* nothing is under way, or has been for too long, and it is time */

/* ---- ledger.c, apply.c ---- */
uint32_t ledger_order(const struct fleet_ledger *l, const char *name); /* FLEET_NONE: no such */
uint32_t ledger_machine(const struct fleet_ledger *l, const char *provider, const char *id);
bool order_is_wanted(const struct fleet_ledger *l, uint32_t order);
bool ledger_is_settled(const struct fleet_ledger *l); /* no machine is left, and none can come */
bool machine_is_wanted(const struct fleet_ledger *l, uint32_t machine);
uint64_t machine_price(const struct fleet_ledger *l, const struct fleet_machine *m); /* 0: nobody knows it */

/* ---- offers.c ---- */
/* The next offer to try for the whole cluster: after that of the last attempt, not blocked, within max_price; or, if
 * there is none, the last one again (fleet.h). FLEET_NONE: none; if the last offer was skipped, fault and text say
 * why. */
uint32_t offer_next(const struct fleet_ledger *l, enum provider_class *ret_fault, const char **ret_text);
/* The next offer to try for one slot: the cluster's own, then those of the same place and type. FLEET_NONE: none. */
uint32_t offer_for_slot(const struct fleet_ledger *l, uint32_t slot, uint64_t wall_ms);
bool fault_is_final(enum provider_class fault, enum provider_scope scope); /* nothing more is rented */
const struct fleet_offer *order_offer(const struct fleet_ledger *l, const struct fleet_order *o);
uint64_t offer_poll_ms(const struct fleet_offer *o);
uint64_t offer_ready_ms(const struct fleet_offer *o);
uint64_t offer_late_ms(const struct fleet_offer *o);
bool offer_suits_slot(const struct fleet_ledger *l, uint32_t offer); /* for one node of the present cluster */
uint32_t offer_looks(const struct fleet_offer *o); /* lists that must miss a machine to prove it absent */

/* ---- event.c ---- */
/* Copies its strings into the arena, and cuts those that are too long. */
void event_copy(struct arena *arena, struct fleet_event *e);
bool text_is_plain(const char *s); /* whether it can be an id: printable UTF-8, not empty, not too long */

/* ---- text.c ---- */
void put_hourly(struct buf *b, uint64_t microusd); /* "$4.10 an hour", rounded up */

/* ---- inputs.c, views.c ---- */
void inputs_take(struct fleet *f, const struct fleet_input *in);
void views_begin(struct fleet *f); /* START: nothing was seen yet */
void views_follow(struct fleet *f, const struct fleet_event *e); /* the event was added to the ledger */
struct site *site_of(struct fleet *f, const char *provider, const char *region); /* made if there is none */
struct site *site_of_order(struct fleet *f, uint32_t order);
uint64_t site_quiet_ms(const struct fleet *f, const struct site *p); /* of creates, too */

/* ---- orders.c ---- */
bool order_is_whole(const struct fleet *f, uint32_t order); /* the ledger has all that it can yield */
bool orders_are_settled(struct fleet *f); /* no create is under way; otherwise the fleet is woken when that may be
                                             true */

/* ---- the passes, in their order ---- */
void orders_pass(struct fleet *f);
void machines_pass(struct fleet *f);
void slots_pass(struct fleet *f);
void cluster_pass(struct fleet *f);
void looks_pass(struct fleet *f);
void append_intent(struct fleet *f, uint32_t offer, uint32_t slot, uint32_t count);
bool site_is_swept(const struct fleet *f, const struct site *p);

#endif
