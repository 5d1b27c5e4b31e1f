/* Functions that the files of preflight call in each other: preflight.c asks the nodes and ends the preflight,
 * preflight_ports.c checks where the workers meet, preflight_facts.c the nodes themselves, preflight_versions.c their
 * Pythons. */
#ifndef RHRUN_RUN_PREFLIGHT_H
#define RHRUN_RUN_PREFLIGHT_H

#include "internal.h"

enum {
    CLOCKS_MS = 5000,        /* how far apart clocks may be, if the spec does not say */
    DISK_BYTES = 1000000000, /* how much of a disk must be free, if the spec does not say */
    CONNECT_MS = 3000,       /* timeout of a connection, if the spec does not say */
    PREFLIGHT_VERSION_MAX = 40,
};

enum meet { MEET_NOT, MEET_LISTENING, MEET_CONNECTING, MEET_ENDING };

/* A place where workers meet: those of the job's world, or of a role with a world of its own. */
struct meeting {
    const struct spec_role *role; /* NULL = the job's world */
    bool outside;                 /* the workers meet at a server that runs already (etcd) */
    bool given;                   /* the spec gives the port */
    uint32_t master, port;        /* outside: master is not one of the nodes */
    const char *address;
    const bool *nodes; /* the nodes whose workers meet there */
    /* the address is a name: `to` is its address on this machine, and the nodes may find another one */
    bool by_name;
    struct node_endpoint to;
};

/* A Python that workers have: the job's, or that of a role with a set-up of its own. */
struct python {
    const struct spec_role *role; /* NULL = the job's */
    bool *on;
    bool launches;     /* workers or their launcher are started with it; else only set-up uses it */
    struct python_at { /* per node */
        char torch[PREFLIGHT_VERSION_MAX], version[PREFLIGHT_VERSION_MAX]; /* "" = none was found */
        uint8_t pattern;                                                   /* number of the pattern that found torch */
        const char *interpreter; /* as the spec names it, if the node was asked for its file; else NULL */
        bool looked, there;      /* looked: the answer has come; there: it named a file */
        const char *brings;      /* a later step that may put the interpreter there, or NULL */
    } *at;
};

struct asked {       /* what one node was asked, and its answers */
    uint32_t errnum; /* why the node cannot reach the present meeting; 0 = it can */
    uint64_t pinged_ns;
    bool clock_known;
    /* the node's wall clock minus our monotonic one, in the middle of the question's round trip */
    int64_t clock_ms;
    int64_t unsure_ms; /* half of that round trip */
};

struct preflight {
    enum meet meet;
    uint32_t round, left, next, tries; /* left: answers to come; next: node with which the next batch begins */
    bool again;                        /* the port is taken: the core must ask for another one */
    uint64_t token;                    /* of the core's question, which this round answers */
    struct loop_timer *over;           /* expires in the loop's next turn once all questions are answered */
    /* the node that should join the running launch, plus 1; only its versions are checked. 0 = there is none */
    uint32_t joiner;
    uint32_t member;     /* a node that takes part, with which the joiner is compared */
    struct arena *arena; /* the members below lie in it, for this round */
    struct asked *asked;
    struct meeting *meetings;
    size_t meeting_count, met; /* met: the number of meetings that were begun; the last of them is the present one */
    struct python *pythons;
    size_t python_count;
    bool refused;          /* the port of the present meeting is not available */
    struct lookup *lookup; /* of an address that is a name; it runs on the pool */
    struct run_finding *findings;
    size_t finding_count, finding_cap;
};

static inline struct preflight *preflight_of(const struct launch *l)
{
    return l->run->hands->preflight;
}
static inline const struct spec_preflight *preflight_spec(const struct run *r)
{
    return &r->plan->spec->distributed.preflight;
}
/* Whether the node is asked. A node that is left out or cannot be reached is not. */
static inline bool preflight_asks(const struct launch *l, uint32_t node)
{
    const struct run *r = l->run;
    if (preflight_of(l) && preflight_of(l)->joiner)
        return node == preflight_of(l)->joiner - 1 || node == preflight_of(l)->member;
    return !r->lanes[node].left_out && r->lanes[node].state != LANE_FAILED;
}
/* False: the job has no `distributed`. Only doctor checks such a job, and only for its interpreters. */
static inline bool preflight_of_launch(const struct run *r)
{
    return r->plan->spec->distributed.present;
}
/* Whether the nodes are several machines. */
static inline bool preflight_several(const struct run *r)
{
    return r->plan->node_count > 1 && r->plan->spec->placement != PLACEMENT_HERE;
}
/* "node "b"", "nodes "b", "c", "d" and 5 more"; in the round's arena. */
const char *preflight_names(struct launch *l, const bool *nodes);
const char *preflight_name(struct launch *l, uint32_t node); /* node "b" */
bool *preflight_nodes(struct launch *l);                     /* an empty set of nodes, for a finding */
/* Adds a finding. code: the code with which the run ends; ERROR_NONE = a note. cure: a text, no format. */
void preflight_find(struct launch *l, const char *what, enum error_code code, const bool *nodes, const char *cure,
                    const char *fmt, ...) FORMAT(6, 7);
/* A value that must be the same on all nodes. NULL: the node has no value, which agrees with any. There is a finding
 * for each value that differs from the first node's: "THING is 1 on node "a" and 2 on nodes "b", "c"". False: there is
 * such a finding. */
struct preflight_thing {
    const char *what, *thing, *cure;
    enum error_code code;
    const char *const *values; /* per node */
    const char *const *shown;  /* per node; NULL = values are shown */
};
bool preflight_compare(struct launch *l, const struct preflight_thing *t);

uint64_t preflight_token(const struct launch *l, uint32_t question);
void preflight_answered(struct launch *l); /* one of the awaited answers has come */

/* ---- preflight_facts.c ---- */
void preflight_ask_clocks(struct launch *l);
void preflight_check_facts(struct launch *l);

/* ---- preflight_versions.c ---- */
void preflight_ask_pythons(struct launch *l);
void preflight_take_entries(struct launch *l, uint32_t node, uint64_t question, const struct wire_entries *e);
void preflight_check_versions(struct launch *l);

/* ---- preflight_ports.c ---- */
void preflight_plan_meetings(struct launch *l);
bool preflight_meet(struct launch *l); /* begins the next meeting; false: there is none */
/* All questions of the present meeting are answered: begins its next stage. False: the meeting is over. */
bool preflight_go_on(struct launch *l);
void preflight_take_probed(struct launch *l, uint32_t node, uint32_t errnum, const char *who);
void preflight_end_lookup(struct launch *l);

#endif
