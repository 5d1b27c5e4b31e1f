/* preflight's private parts: preflight.c asks and ends it, preflight_ports.c is about where the workers meet,
 * preflight_facts.c about the nodes themselves, preflight_versions.c about their Pythons. */
#ifndef RHRUN_RUN_PREFLIGHT_H
#define RHRUN_RUN_PREFLIGHT_H

#include "internal.h"

enum {
    CLOCKS_MS = 5000,      /* apart, where the spec does not say */
    DISK_BYTES = 1000000000, /* free, likewise */
    CONNECT_MS = 3000,     /* likewise */
    PREFLIGHT_VERSION_MAX = 40,
};

enum meet { MEET_NOT, MEET_LISTENING, MEET_CONNECTING, MEET_ENDING };

/* Where workers meet: those of the job's world, or of a role with one of its own. */
struct meeting {
    const struct spec_role *role; /* NULL = the job's */
    bool outside;                 /* at a server that is there already: etcd */
    bool given;                   /* the spec says which port */
    uint32_t master, port;        /* outside: master is no node of it */
    const char *address;
    const bool *nodes; /* that come there */
    bool by_name;      /* the address is a name: `to` is what it is here, which may be another one on the nodes */
    struct node_endpoint to;
};

/* A Python that workers have: the job's, or that of a role with a set-up of its own. */
struct python {
    const struct spec_role *role; /* NULL = the job's */
    bool *on;
    bool launches; /* workers start with it, or their launcher does; else only set-up is looked at */
    struct python_at {            /* per node */
        char torch[PREFLIGHT_VERSION_MAX], version[PREFLIGHT_VERSION_MAX]; /* "" = none was found */
        uint8_t pattern;          /* that torch was found by */
        const char *interpreter;  /* as the spec names it, where its file was asked for; else NULL */
        bool looked, there;       /* the answer came; with a file */
        const char *brings;       /* a step to come that may leave it there, or NULL */
    } *at;
};

struct asked { /* of a node */
    uint32_t errnum;       /* of coming to the meeting at hand */
    uint64_t pinged_ns;
    bool clock_known;
    int64_t clock_ms;      /* its wall clock minus our monotonic one, in the middle of the question's round trip */
    int64_t unsure_ms;     /* half of that */
};

struct preflight {
    enum meet meet;
    uint32_t round, left, next, tries; /* left: answers that are awaited; next: node of the next batch */
    bool done, again;      /* again: the port is taken, another one is asked for */
    bool lost;             /* a question of this round, with its connection */
    char *(*machines)[2];  /* per node, when this was done: its boot and install ids */
    bool setup_changed;    /* since it was done */
    uint32_t joiner;       /* node + 1 that is to join the launch that runs: only its versions are looked at; 0 =
                              none */
    uint32_t member;       /* one that takes part, with which it is compared */
    struct arena *arena;   /* all that follows: of this round */
    struct asked *asked;
    struct meeting *meetings;
    size_t meeting_count, met; /* met: those that were begun; the last of them is at hand */
    struct python *pythons;
    size_t python_count;
    bool refused;          /* the port of the meeting at hand cannot be had */
    struct lookup *lookup; /* of a name, on the pool */
    struct run_finding *findings;
    size_t finding_count, finding_cap;
};

static inline const struct spec_preflight *preflight_spec(const struct run *r)
{
    return &r->plan->spec->distributed.preflight;
}
/* Is it asked at all? Not when it is left out, or cannot be reached. */
static inline bool preflight_asks(const struct launch *l, uint32_t node)
{
    const struct run *r = l->run;
    if (l->preflight && l->preflight->joiner)
        return node == l->preflight->joiner - 1 || node == l->preflight->member;
    return !r->lanes[node].left_out && r->lanes[node].state != LANE_FAILED;
}
/* A job without `distributed` is looked at by doctor only, and of it only which interpreters are there. */
static inline bool preflight_of_launch(const struct run *r)
{
    return r->plan->spec->distributed.present;
}
static inline bool preflight_several(const struct run *r) /* machines */
{
    return r->plan->node_count > 1 && r->plan->spec->placement != PLACEMENT_HERE;
}
/* "node "b"", "nodes "b", "c", "d" and 5 more"; of the round. */
const char *preflight_names(struct launch *l, const bool *nodes);
const char *preflight_name(struct launch *l, uint32_t node); /* node "b" */
bool *preflight_nodes(struct launch *l);             /* none yet, for a finding */
/* code: what it ends the run with; ERROR_NONE = a note. The cure is kept as it is. */
void preflight_find(struct launch *l, const char *what, enum error_code code, const bool *nodes, const char *cure,
                    const char *fmt, ...) FORMAT(6, 7);
/* A value that is to be the same on all nodes. NULL: this node has none, which is as good as any. A finding for each
 * value that is not the first node's: "THING is 1 on node "a" and 2 on nodes "b", "c"". False: all are the same. */
struct preflight_thing {
    const char *what, *thing, *cure;
    enum error_code code;
    const char *const *values; /* per node */
    const char *const *shown;  /* likewise; NULL = values */
};
bool preflight_compare(struct launch *l, const struct preflight_thing *t);

uint64_t preflight_token(const struct launch *l, uint32_t question);
void preflight_answered(struct launch *l); /* one of those that are awaited */

/* preflight_facts.c */
void preflight_ask_clocks(struct launch *l);
void preflight_check_facts(struct launch *l);
/* preflight_versions.c */
void preflight_ask_pythons(struct launch *l);
void preflight_take_entries(struct launch *l, uint32_t node, uint64_t question, const struct wire_entries *e);
void preflight_check_versions(struct launch *l);
/* preflight_ports.c */
void preflight_plan_meetings(struct launch *l);
bool preflight_meet(struct launch *l);    /* the next meeting is begun; false: there is none */
bool preflight_go_on(struct launch *l);   /* all that was asked of it is answered; false: it is over */
void preflight_take_probed(struct launch *l, uint32_t node, uint32_t errnum, const char *who);
void preflight_end_lookup(struct launch *l);

#endif
