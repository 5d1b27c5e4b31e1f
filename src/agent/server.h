/*
 * The serving agent's state, shared by its loop (serve.c) and what it does on request (request.c, settle.c).
 */
#ifndef RHRUN_AGENT_SERVER_H
#define RHRUN_AGENT_SERVER_H

#include "internal.h"

enum { SETTLE_MAX = 64 };

/* One child at a time calls syncfs; who asks meanwhile is served by the next, for it may have written since. */
struct settle {
    int fd;         /* the child's answer: an error text, then its end; -1 = no child */
    pid_t pid;
    struct buf text;
    uint64_t running[SETTLE_MAX], waiting[SETTLE_MAX];
    uint32_t running_count, waiting_count;
};

struct live { /* an attempt that may be live; only this agent makes new ones while its epoch counts */
    char attempt[WIRE_ID_LEN + 1];
    char slot[sizeof((struct status *)0)->slot];
};

struct server {
    int in_fd, out_fd;
    struct buf in;
    struct out out;
    struct arena *arena; /* what lives as long as the connection */
    bool open;           /* HELLO_OK was answered */
    bool closing;        /* say what is queued, then end */
    bool backlog;        /* complete frames wait until the answers before them are gone */
    int exit_status;
    struct ledger ledger;
    struct streams streams;
    struct settle settle;
    struct live *live;
    size_t live_count, live_cap;
    bool live_known; /* the ledger was searched for them, and for: */
    uint64_t sequence; /* the highest of all claims */
    uint64_t last_tick_ns;
    struct pollfd *poll;
    size_t poll_cap;
};

/* One request after HELLO; false when it breaks the protocol. */
bool server_request(struct server *s, enum wire_type type, struct wire_in *in, struct arena *scratch);
/* A newer epoch than ours: says FENCED, ends the agent, returns true. */
bool server_fenced(struct server *s);
/* The text for the user; a full disk is named as such. */
const char *server_reason(struct server *s, const struct error *err, struct arena *scratch);
void server_settle(struct server *s, uint64_t token);
void server_settled(struct server *s); /* the child has something to say */

#endif
