/*
 * The serving agent's state, shared by its loop (serve.c) and its requests (request.c, settle.c).
 */
#ifndef RHRUN_AGENT_SERVER_H
#define RHRUN_AGENT_SERVER_H

#include "tree.h"

enum { SETTLE_MAX = 64 };

/* One child at a time calls syncfs; requests that come meanwhile need the next child, because data may have been
 * written since. */
struct settle {
    int fd; /* the child's answer: an error text, then its end; -1 = no child */
    pid_t pid;
    struct buf text;
    uint64_t running[SETTLE_MAX], waiting[SETTLE_MAX];
    uint32_t running_count, waiting_count;
};

/* The transfer of one tree to this node. Its attempt is claimed by this process: it ends with it. */
enum sync_phase {
    SYNC_NONE,
    SYNC_WAITING, /* another agent writes the tree */
    SYNC_LOOKING, /* checks which files exist */
    SYNC_OPEN,    /* SYNC_STATE was sent: files come */
};
struct sync {
    enum sync_phase phase;
    char attempt[WIRE_ID_LEN + 1];  /* kept after the end, to drop frames that still come for it */
    char id[2 * WIRE_OID_SIZE + 1]; /* id of the wanted tree */
    bool missing, distrust;
    struct arena *arena;
    struct tree tree;
    struct dirs dirs;
    int status_fd, lock_fd, stage_fd, root_fd;
    uint64_t deadline_ns; /* WAITING */
    uint32_t cursor;      /* LOOKING: the next entry */
    bool changed;         /* the index must be rewritten */
    mode_t umask;
    struct { /* the current file */
        bool open;
        int fd; /* -1: it is there already and stays (WIRE_SYNC_MISSING) */
        char path[WIRE_PATH_MAX + 1];
        uint32_t mode;
        uint64_t size, have;
        uint8_t oid[WIRE_OID_SIZE];
        bool full;        /* no space is left */
        const char *name; /* below stage_fd */
        char part[2 * WIRE_OID_SIZE + 1];
    } file;
};

/* Requests for files, one after the other. */
struct fetch {
    struct fetch_item *items;
    size_t head, count, cap;
    int fd;            /* the first one's file, -1 = not open */
    struct glob *glob; /* or its walk */
    struct arena *arena;
};

struct live { /* an attempt that may be live; only this agent makes new ones while its epoch counts */
    char attempt[WIRE_ID_LEN + 1];
    char slot[sizeof((struct status *)0)->slot];
};

struct server {
    int in_fd, out_fd;
    struct buf in;
    struct out out;
    struct arena *arena; /* for data that lives as long as the connection */
    bool open;           /* HELLO_OK was answered */
    bool closing;        /* send what is queued, then end */
    bool backlog;        /* complete frames wait until the answers before them are gone */
    int exit_status;
    struct ledger ledger;
    struct streams streams;
    struct settle settle;
    struct sync sync;
    struct fetch fetch;
    int probe_fd; /* listens; 0 = none */
    struct live *live;
    size_t live_count, live_cap;
    bool live_known;   /* the ledger was searched for live attempts and for: */
    uint64_t sequence; /* the highest of all claims */
    uint64_t last_tick_ns;
    struct pollfd *poll;
    size_t poll_cap;
};

/* One request after HELLO; false when it breaks the protocol. */
bool server_request(struct server *s, enum wire_type type, struct wire_in *in, struct arena *scratch);

/* ---- claim.c ---- */
/* If there is a newer epoch than ours: sends FENCED, ends the agent, and returns true. */
bool server_fenced(struct server *s);
/* Takes the job's lock, if our epoch still counts: true. Else the answer is queued. */
bool server_begin(struct server *s, const char *attempt);
/* Under the lock: the attempt is new and its slot is free. Else the answer (RECORD or BUSY) is queued. */
bool server_claimable(struct server *s, const char *attempt, const char *slot, struct arena *scratch);
void server_claimed(struct server *s, const char *attempt, const char *slot); /* it was started */
/* Whether it is live. If it died without an outcome, its workload is ended and LOST is recorded before the slot counts
 * as free. */
bool server_live(struct server *s, const char *attempt);
/* Claimed, but its holder died before anything began: the same as no claim. `status` is read again. */
bool server_never_started(const struct ledger *l, int dir_fd, struct status *status);

/* ---- sync.c ---- */
bool sync_request(struct server *s, enum wire_type type, struct wire_in *in, struct arena *scratch);
bool sync_signal(struct server *s, const char *attempt); /* if the attempt is ours: ends it as stopped */
void sync_turn(struct server *s);                        /* at the end of a turn: write the index, look further */
int sync_wait_ms(const struct server *s, int wait_ms);   /* how long poll may wait for it, at most wait_ms */

/* ---- sync_file.c: one file of a transfer; -1 with errno ---- */
int sync_file_put(struct sync *y, const struct wire_file *f);
int sync_file_more(struct sync *y, const uint8_t *data, uint32_t len); /* a file is under way */
void sync_file_close(struct sync *y); /* the received bytes stay as a part if they are worth it */
bool sync_is_absent(int errnum);      /* of a path: nothing exists there, in the tree's sense */
/* Removes the file of an index entry, unless it was changed, and folders that become empty. */
int sync_file_remove(struct sync *y, struct tree_entry *e);
/* Opens the folder where files are written before they get their names. Parts of this boot stay there; everything else
 * is removed. */
int sync_stage_open(struct sync *y, bool make);
void sync_stage_clear(struct sync *y);

/* ---- fetch.c ---- */
bool fetch_request(struct server *s, enum wire_type type, struct wire_in *in);
bool fetch_ready(const struct server *s); /* there is something to do, and room for it */
bool fetch_turn(struct server *s);        /* does a part; true if that made a frame */

/* ---- glob.c ---- */
/* In the arena, which must live as long; NULL and err. */
struct glob *glob_open(const struct ledger *l, uint64_t token, const char *pattern, struct arena *arena,
                       struct error *err);
bool glob_step(struct glob *g, struct buf *out); /* a part, as an ENTRIES frame if it found any; true: the last */
void glob_close(struct glob *g);

/* ---- probe.c ---- */
bool probe_request(struct server *s, struct wire_in *in);

/* ---- settle.c ---- */
void server_settle(struct server *s, uint64_t token);
void server_settled(struct server *s); /* the child has something to say */

#endif
