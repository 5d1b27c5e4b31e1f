/*
 * The parts of transport: the common half (transport.c), the start of the agent (start.c), one file per kind, and the
 * helpers of the ssh kinds: config.c (ssh_config), known_hosts.c, keys.c, agent_client.c, pool.c.
 */
#ifndef RHRUN_TRANSPORT_INTERNAL_H
#define RHRUN_TRANSPORT_INTERNAL_H

#include "rhrun/transport.h"

#include <netinet/in.h>
#include <sys/socket.h>

enum {
    DEFAULT_TIMEOUT_MS = 10000,
    ERROR_TAIL_MAX = 4096, /* of a child's or the node's stderr */
    READ_SIZE = 64 << 10,
};

/* ---- kinds ---- */
struct transport_ops {
    enum transport_kind kind;
    const char *name;
    void (*open)(struct transport *t);  /* begins; reports faults by transport_fail */
    void (*flush)(struct transport *t); /* there is something to write, or reading was resumed: pump in a later turn */
    void (*close)(struct transport *t); /* frees t->impl, which may be half made */
    bool (*timed_out)(struct transport *t); /* the phase's deadline passed: true = it goes on in another way. May be
                                               NULL */
    void (*answered)(struct transport *t); /* the agent has sent more than its magic. May be NULL */
    bool (*again)(struct transport *t); /* the node's start script wants another attempt: begin it; false: it cannot */
    int (*forward)(struct transport *t, const struct transport_forward *f); /* -1: not now. NULL: this kind cannot */
};
extern const struct transport_ops transport_ssh_ops, transport_openssh_ops, transport_command_ops, transport_local_ops,
    transport_sim_ops;

/* ---- start.c: the script that receives and starts the agent, and its answers ---- */
enum start_event {
    START_NONE,   /* nothing known yet */
    START_SHELL,  /* there is a shell that reads no further: the upload may be sent */
    START_BUSY,   /* the wrap is busy: extend the deadline */
    START_OPENED, /* the agent speaks */
    START_AGAIN,  /* the script has ended: run another, for the next folder or another machine type */
    START_FAILED, /* err says why */
};
struct start {
    char arch[24];          /* architecture of the agent to send: "x86_64" first */
    char tag[17];           /* random: distinguishes the script's lines from those of login files */
    uint32_t skip;          /* folders not to try again */
    struct buf seen;        /* bytes from the node before the magic */
    size_t scanned;         /* how much of `seen` was scanned: up to the start of the last unfinished line */
    struct buf tried;       /* for people: "/tmp: no space left, ..." */
    struct buf script;      /* sent before the upload; empty if the script is an argument */
    size_t script_at;       /* how much of `script` was sent */
    bool waits;             /* for START_SHELL */
    const uint8_t *data;    /* still to be uploaded */
    size_t left;
};
/* The shell script for the remote command, wrapped so that any login shell can run it. */
void start_command(struct transport *t, struct buf *ret);
/* The same for a shell that reads commands from its stdin: the script goes into start.script. */
void start_on_stdin(struct transport *t);
enum start_event start_feed(struct transport *t, const uint8_t *data, size_t len, struct error *err);

/* ---- the common half ---- */
struct transport {
    struct transport_pool *pool;
    const struct transport_ops *ops, *next_ops; /* next_ops: to be opened in the next turn */
    struct transport_callbacks callbacks;
    void *arg;
    struct transport_host host; /* own copies, in arena */
    struct arena *arena;
    enum transport_phase phase;
    char digest[400];
    const char *host_key; /* in arena; NULL: not known (yet) */
    void *impl;
    struct loop_timer *later;    /* delivers `error`, opens next_ops */
    struct loop_timer *deadline; /* of the phase */
    struct buf out;              /* written by the owner; not yet sent from out_at on */
    size_t out_at;
    size_t early; /* before OPEN: bytes after out_at that were sent in this start; kept, because another start may need
                     them */
    bool told;    /* `opened` was called */
    bool heard;   /* something came from the program on the node */
    bool spoke;   /* the agent has spoken, or `command` was started instead */
    bool paused, high;
    bool failing; /* error is set, `closed` comes in the next turn */
    bool gone;    /* transport_close was called inside one of its callbacks */
    unsigned busy;
    enum transport_phase failed_in;
    struct error error;
    struct start start;
};
/* Event handlers of a kind run between enter and leave: transport_close inside them only marks t. */
void transport_enter(struct transport *t);
bool transport_leave(struct transport *t); /* false: t is gone, do not touch it */
bool transport_stopped(const struct transport *t); /* gone or failing: touch nothing more */
void transport_fail(struct transport *t, const struct error *err);
void transport_failf(struct transport *t, enum error_code code, const char *hint, const char *fmt, ...) FORMAT(4, 5);
void transport_fail_why(struct transport *t, enum error_why why); /* after transport_failf */
void transport_set_phase(struct transport *t, enum transport_phase phase); /* starts its deadline */
uint32_t transport_timeout_ms(const struct transport *t); /* of one phase: the host's, or the default */
void transport_switch(struct transport *t, const struct transport_ops *ops); /* give up this kind for another */
void transport_started(struct transport *t); /* the start script (or `command`) runs: calls `opened` */
void transport_received(struct transport *t, const uint8_t *data, size_t len);
/* The stream has ended; text is the known reason ("" = none), for example from the node's stderr. */
void transport_ended(struct transport *t, const char *text);
/* What to send now: first the upload, then (once open) the written data. 0 = nothing. */
size_t transport_outgoing(struct transport *t, const uint8_t **ret);
void transport_sent(struct transport *t, size_t len);
const char *transport_target(const struct transport *t); /* `host "gpu1"` for messages: the name as the user wrote it */

void transport_last_line(const char *text, char *out, size_t size); /* the last line with text, printable */

/* ---- command.c: shared by the two kinds whose stream is a program on this machine ---- */
struct command_case {
    const char *const *(*arguments)(struct transport *t); /* its command line, in t's arena; begins the start script */
    void (*ended)(struct transport *t, int status, int signal, const char *said); /* said: its stderr, the last 4 KiB */
    uint32_t phases; /* how many deadlines may pass until the agent or the shell answers */
    bool may_ask;    /* it may ask a person at the terminal */
};
/* gate, port: limit how many run at the same time, like logins to a host:port. */
void command_begin(struct transport *t, const struct command_case *is, const char *gate, uint32_t port);
void command_flush(struct transport *t);
void command_close(struct transport *t);
bool command_again(struct transport *t);

/* openssh.c: for transport_login. */
const char *const *openssh_login(const struct transport_host *h, bool terminal, const char *text, struct arena *arena);

/* ---- child_stream.c: a child process whose stdin and stdout are the stream ---- */
struct child_stream;
/* argv and env as in loop_child_options; file may be NULL. NULL after transport_fail. */
struct child_stream *child_stream_start(struct transport *t, const char *file, const char *const *argv,
                                        const char *const *env, void (*ended)(struct transport *t, int status,
                                                                      int signal, const char *error_text));
void child_stream_flush(struct child_stream *c);
void child_stream_kill(struct child_stream *c, int signum); /* the child and everything that it has started */
void child_stream_destroy(struct child_stream *c); /* closes the stream; the child sees the end of its stdin */

/* ---- pool.c ---- */
struct agent_binary {
    char arch[24];
    const uint8_t *data;
    size_t size;
};
struct known_hosts_file; /* known_hosts.c */
struct pool_config;      /* config.c: a parsed configuration and its waiters */
struct pool_address;     /* resolve.c: a resolved name and its waiters */
struct pool_gate;        /* pool.c */
struct key;              /* keys.c */
struct agent_client;     /* agent_client.c */
struct private_agent;
struct transport_pool {
    struct loop *loop;
    char *run_dir;       /* NULL until made */
    bool run_dir_made;
    bool allow_prompt;
    uint32_t logins_max, retries;
    struct agent_binary agents[4];
    size_t agent_count;
    struct transport_sim_script sim;
    int local_memfd;     /* the agent for this machine; -1 until needed */
    char *local_file;    /* a temporary file in its place */
    struct pool_config *configs;
    struct pool_address *addresses;
    struct pool_gate *gates;
    struct known_hosts_file *known_hosts;
    struct key *keys;              /* loaded identity files */
    struct agent_client *agents_of_user; /* by socket path; the private one among them */
    struct private_agent *private_agent;
    bool ssh2_ready;
    bool no_ssh;         /* there is no `ssh` program */
};
const struct agent_binary *pool_agent(const struct transport_pool *pool, const char *arch); /* NULL: none */
int pool_run_dir(struct transport_pool *pool, struct error *err); /* makes pool->run_dir */

/* A place among the logins that may run at the same time to one host:port. Zero-filled at first. */
struct gate_ticket {
    struct gate_ticket *next;
    struct pool_gate *gate;
    bool inside;
    void (*granted)(void *arg);
    void *arg;
};
/* True: admitted at once. Otherwise granted(arg) is called later, from an event of another transport. */
bool gate_enter(struct transport_pool *pool, struct gate_ticket *ticket, const char *host, uint32_t port,
                void (*granted)(void *arg), void *arg);
void gate_leave(struct gate_ticket *ticket); /* also when still waiting, or never entered */
void gates_destroy(struct transport_pool *pool);

/* ---- resolve.c ---- */
struct address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } addr;
    socklen_t len;
};
struct resolve_waiter {
    struct resolve_waiter *next;
    struct pool_address *of; /* NULL: not waiting */
    /* count > 0: all addresses in the order of trial, valid during the call; else why not */
    void (*done)(void *arg, const struct address *addresses, size_t count, const char *reason);
    void *arg;
};
enum { RESOLVE_ANY, RESOLVE_V4, RESOLVE_V6 };
/* done may be called inside this call (a numeric address, a cached name). */
void resolve(struct transport_pool *pool, struct resolve_waiter *waiter, const char *host, int family,
             void (*done)(void *arg, const struct address *addresses, size_t count, const char *reason), void *arg);
void resolve_cancel(struct resolve_waiter *waiter);
void addresses_destroy(struct transport_pool *pool);

#endif
