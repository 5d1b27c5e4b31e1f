/*
 * A world in which a core runs alone: nodes that are plain structs, a journal in memory, a clock that jumps from event
 * to event. There is one thread, and a seed decides everything: the same seed gives the same world.
 *
 * The test decides the controllers' fate: world_start makes one, world_step lets the next event happen, world_kill is
 * kill -9 (the journal keeps its durable events, and a random part of the rest), world_end removes one that has
 * finished. Nodes live on meanwhile: their ledgers, their programs, and messages on the way to them.
 *
 * Of files there are only the results of fetches: nothing is transferred, programs print nothing. Preflight is a
 * question with an answer.
 */
#ifndef RHRUN_TEST_CORE_WORLD_H
#define RHRUN_TEST_CORE_WORLD_H

#include "rhrun/core.h"
#include "rhrun/effects.h"

enum { WORLD_MINUTE_MS = 60000, WORLD_LAUNCH = 40 };

/* ---- a node ---- */

/* How a program ends by itself. */
struct world_program {
    uint32_t ms;    /* after that time */
    uint8_t cause;  /* enum wire_cause */
    int32_t value;
    const char *tail; /* "": nothing */
};

struct world_record { /* of a node's ledger */
    char attempt[WIRE_ID_LEN + 1], launch[WORLD_LAUNCH];
    const struct plan_step *step;
    enum wire_state state;
    struct world_program program;
    uint32_t boot, number; /* number: of the start, among those of the step on the node */
    uint64_t sequence, claim_us, end_us, ends_us; /* ends_us: when the program ends */
    uint32_t heard_by; /* the connection that is told of its end */
    bool stopped, settled, good;
};

enum world_link { LINK_IDLE, LINK_CONNECTING, LINK_READY, LINK_WAITING, LINK_FAILED };

struct world_node {
    uint32_t index, boot, install;
    struct world_record *records;
    size_t record_count, record_cap;
    uint64_t sequence;
    uint32_t *starts; /* per step */
    bool *made;       /* per step: its created files are there */
    bool away;        /* it cannot be reached */
    bool parked;      /* it was given up, and another machine is coming */
    /* the controller's side of it */
    enum world_link link;
    uint32_t changes, heard_changes; /* changes by itself, and how many of them the controller knows */
    uint32_t connection; /* 0: none yet; a number belongs to one connection alone */
    bool was_ready, gave_up, cut; /* cut: nothing passes, but the controller has not noticed yet */
    uint64_t lost_us, pause_ms, out_us, in_us; /* out, in: when the last message arrives */
    struct wire_facts facts;                   /* from the last greeting */
    char boot_id[WIRE_ID_LEN + 1], install_id[WIRE_ID_LEN + 1], address[24];
};

struct world_start { /* a program was started */
    uint32_t node, number, generation; /* generation: of a launch, else 0 */
    const struct plan_step *step;
    char attempt[WIRE_ID_LEN + 1];
    uint64_t at; /* in steps of the world */
};

/* ---- callbacks ---- */

/* Findings of preflight: one that keeps a node from taking part; one that is only noted. */
enum world_find { FINDS_NOTHING, FINDS_PORT_TAKEN, FINDS_BAD_NODE, FINDS_NOTE };
enum world_fault { WORLD_PASS, WORLD_CUT_BEFORE, WORLD_CUT_AFTER, WORLD_FREEZE, WORLD_REFUSED };

/* Called while the world runs; each may be NULL. */
struct world_watch {
    void (*program)(void *arg, const struct world_node *n, const struct world_record *r, struct world_program *ret);
    void (*started)(void *arg, const struct world_node *n, const struct world_record *r);
    void (*ended)(void *arg, const struct world_node *n, const struct world_record *r);
    void (*replaced)(void *arg, uint32_t node); /* another machine is ready, by EFFECT_REPLACE */
    void (*durable)(void *arg, const struct event *e);
    enum world_fault (*frame)(void *arg, uint32_t node, bool is_run); /* of a request; REFUSED: it is answered FAULT */
    bool (*refuse)(void *arg, uint32_t node);            /* a connection */
    enum world_find (*find)(void *arg, uint32_t *ret_node); /* NULL: nothing is found */
    /* The step's files are looked for on the node: how that will end. NULL: all of them come. */
    enum fetch_end (*fetched)(void *arg, const struct world_node *n, const struct plan_step *step, bool periodic);
    bool (*violated)(void *arg, const char *what);       /* the core broke an invariant */
};

struct happening;
struct hands; /* of the present controller */

struct world {
    uint64_t now_us, order, steps;
    uint64_t rng; /* of delays and of chance */
    struct happening **heap;
    size_t heap_count, heap_cap;
    struct plan *plan;
    struct world_node *nodes;
    uint32_t node_count, connections;
    struct event *journal;
    size_t journal_count, journal_cap;
    struct arena *journal_arena;
    struct world_start *starts;
    size_t start_count, start_cap;
    const struct world_watch *watch;
    void *arg;
    struct run_options options; /* of the next controller */
    struct hands *hands;        /* NULL: there is no controller */
    struct buf *log;            /* the events, a line each; NULL: not needed */
};

/* The plan must outlive the world. */
struct world *world_create(struct plan *plan, uint64_t seed, const struct world_watch *watch, void *arg);
void world_destroy(struct world *w);
/* A copy of the nodes and the journal, without a controller; each node has received a random part of the messages on
 * the way to it. Valid while the other world lives, and until that forgets its journal. */
struct world *world_clone(const struct world *w, uint64_t seed, const struct world_watch *watch, void *arg);
uint64_t world_random(uint64_t *rng);
uint64_t world_mix(uint64_t a, uint64_t b);

/* 0, or -1: it could not start; err says why. */
int world_start(struct world *w, enum run_mode mode, uint32_t flags, struct error *err);
bool world_step(struct world *w);     /* false: no event is pending */
bool world_finished(const struct world *w);
struct run *world_run(const struct world *w);
const struct state *world_state(const struct world *w);
struct run_result world_end(struct world *w);  /* of one that has finished */
void world_kill(struct world *w, uint64_t random);
void world_forget(struct world *w);            /* the state directory is lost; no controller lives */
struct state *world_replay(const struct world *w); /* from the journal; the caller's */

/* ---- events by themselves ---- */
void world_cut(struct world *w, uint32_t node, bool frozen); /* its connection; frozen: it is noticed late */
void world_away(struct world *w, uint32_t node, uint64_t ms); /* and no new one is accepted for that time */
void world_reach_all(struct world *w);
void world_reboot(struct world *w, uint32_t node, uint64_t vanish); /* unsettled records vanish by its bits */
void world_reinstall(struct world *w, uint32_t node);
/* Its rented machine is gone for good, and the controller is told. */
void world_vanish(struct world *w, uint32_t node);
void world_lose(struct world *w, uint32_t node); /* its supervisors die without an outcome */
void world_unmake(struct world *w, uint32_t node, size_t step); /* its created files are removed */
/* It has restarted, was replaced or lost something, and the controller does not know yet. */
bool world_has_changed(const struct world *w, uint32_t node);
size_t world_live(const struct world *w);
uint32_t world_generation(const char *launch); /* "RUN-3": 3 */

/* ---- core_world*.c among themselves ---- */
enum happening_kind {
    HAPPENS_ALARM, /* of the controller's */
    HAPPENS_COMMIT,
    HAPPENS_OPEN,  /* a connection was tried */
    HAPPENS_RETRY,
    HAPPENS_LOST,  /* the cut is noticed */
    HAPPENS_ANSWER,
    HAPPENS_MACHINE, /* another machine is ready */
    HAPPENS_FINDINGS, /* preflight is over */
    HAPPENS_REQUEST, /* from here on: events of nodes */
    HAPPENS_END,
    HAPPENS_BACK
};
enum world_request_kind { ASK_RUN, ASK_LIST, ASK_ATTACH, ASK_SIGNAL, ASK_JUDGE, ASK_SETTLE, ASK_FORGET, ASK_PORT, ASK_FETCH };
struct world_request {
    enum world_request_kind kind;
    char attempt[WIRE_ID_LEN + 1], launch[WORLD_LAUNCH];
    const struct plan_step *step;
    uint64_t token;
    bool periodic; /* of FETCH */
    enum wire_signal signal;
    struct world_ids { /* of FORGET */
        uint32_t count;
        char ids[][WIRE_ID_LEN + 1];
    } *forget;
};
enum world_answer_kind { SAYS_LISTED, SAYS_RECORD, SAYS_STARTED, SAYS_BUSY, SAYS_ENDED, SAYS_PORT, SAYS_SETTLED, SAYS_FAULT, SAYS_GONE, SAYS_FETCHED };
struct world_answer {
    enum world_answer_kind kind;
    char attempt[WIRE_ID_LEN + 1], live[WIRE_ID_LEN + 1];
    struct world_record *records; /* heap */
    size_t record_count;
    uint8_t *exists; /* heap; for LISTED */
    uint32_t exists_count, boot, changes; /* at that time */
    uint64_t token;
    const struct plan_step *step;
    enum fetch_end how;
    bool periodic;
    const char *text;
};
struct happening {
    uint64_t at_us, order;
    enum happening_kind kind;
    uint32_t node, connection;
    struct alarm *alarm;
    uint64_t setting, start; /* start: for END, the record's sequence; for COMMIT, the number of events */
    enum world_fault fault;  /* of a request */
    struct world_request ask;
    struct world_answer says;
};
struct hands {
    struct world *world;
    struct run *run;
    struct state *state;
    struct alarm *alarms; /* all that were ever made */
    size_t durable; /* events of the journal */
    bool committing, finished;
    uint64_t *fetches; /* [step * node_count + node]: the number of the present fetch; 0: none */
    uint64_t fetch_count;
};
struct happening *world_happens(struct world *w, enum happening_kind kind, uint64_t after_us);
/* Takes out the wanted events, in their order; heap. world_drop frees one. */
struct happening **world_take(struct world *w, bool (*wanted)(const struct happening *h, const void *arg),
                              const void *arg, size_t *ret_count);
void world_drop(struct happening *h);
uint64_t world_delay_us(struct world *w, uint64_t most_us);
void world_say(struct world *w, const char *fmt, ...) FORMAT(2, 3);
void world_violated(struct world *w, const char *fmt, ...) FORMAT(2, 3);
/* core_world_node.c */
void world_node_create(struct world *w, uint32_t node);
void world_request(struct world *w, uint32_t node, struct world_request *ask); /* dropped if it is not connected */
void world_handle(struct world *w, struct happening *h);                       /* REQUEST, END, BACK */
void world_disconnect(struct world *w, uint32_t node); /* each message on the way there has been received or lost */
struct wire_record world_wire(const struct world_node *n, const struct world_record *r, char boot[WIRE_ID_LEN + 1]);
struct world_answer *world_answer(struct world *w, struct world_node *n,
                                  enum world_answer_kind kind); /* over its connection, after all others; NULL: none */
/* core_world_files.c */
void world_fetch(struct world *w, const struct effect *e);
void world_fetch_stop(struct world *w, const struct effect *e);
void world_look_for_files(struct world *w, struct world_node *n, const struct world_request *ask); /* on the node */
void world_fetched(struct world *w, struct world_node *n, const struct world_answer *a); /* the controller has heard */
/* core_world_link.c */
void world_link(struct world *w, struct happening *h); /* OPEN, RETRY, LOST, ANSWER */
void world_connect(struct world *w, uint32_t node);
void world_give_up(struct world *w, uint32_t node);
void world_replace(struct world *w, uint32_t node);
void world_refuse(struct world *w, uint32_t node, const struct error *err);
/* core_world_hands.c */
void world_alarm(struct world *w, struct happening *h);
void world_commit(struct world *w, size_t up_to);
void world_findings(struct world *w, const struct happening *h);
void world_hands_free(struct hands *h);

#endif
