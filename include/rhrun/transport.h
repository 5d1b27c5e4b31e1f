/*
 * transport: a byte stream to a running agent on a host. It finds the host (ssh_config, DNS, proxies),
 * connects, verifies the host key, logs in, uploads and starts the agent; what comes after is the
 * agent's stream in both directions. Login files of the node may print before the agent does: those
 * bytes are passed on as they are, the reader scans for WIRE_MAGIC.
 *
 * Kinds: `local` runs the embedded agent on this machine over a socketpair; `ssh` uses libssh2;
 * `openssh` a child `ssh` whose stdin and stdout carry the same bytes; `command` any program that ends in a shell
 * which reads its stdin, such as `docker exec -i NAME sh`; `sim` a peer inside this
 * process, scripted by a test. AUTO takes ssh and turns to openssh by itself where libssh2 cannot:
 * certificates, FIDO keys, servers without a common algorithm, GSSAPI.
 *
 * Everything runs on the loop's thread and nothing blocks. A transport ends exactly once: by its
 * `closed` callback, after which only transport_close may be called, or by transport_close.
 * transport_close may be called at any time, also inside a callback; no callback runs after it.
 */
#ifndef RHRUN_TRANSPORT_H
#define RHRUN_TRANSPORT_H

#include "rhrun/base.h"
#include "rhrun/loop.h"

struct transport;
struct transport_pool;

enum transport_kind {
    TRANSPORT_AUTO = 0,
    TRANSPORT_SSH,
    TRANSPORT_OPENSSH,
    TRANSPORT_COMMAND,
    TRANSPORT_LOCAL,
    TRANSPORT_SIM,
};

/* What a transport is doing now; in `closed`, what failed. */
enum transport_phase {
    TRANSPORT_CONFIG = 0, /* reading the user's ssh configuration */
    TRANSPORT_RESOLVE,    /* DNS */
    TRANSPORT_QUEUED,     /* waits for a place among the logins to this host:port */
    TRANSPORT_CONNECT,    /* TCP, or starting the proxy command */
    TRANSPORT_HOST_KEY,   /* banner, key exchange, host key */
    TRANSPORT_AUTH,
    TRANSPORT_CONTAINER,  /* the wrap says that it is at work: it pulls an image */
    TRANSPORT_AGENT,      /* exec, upload, start; ends with the agent's magic */
    TRANSPORT_OPEN,
    TRANSPORT_CLOSED,
};
const char *transport_phase_name(enum transport_phase phase); /* "resolve", "connect", "host key", "auth", "agent"... */

/* What the spec says about a host. Strings are copied by transport_open. NULL, 0: not said, so the user's ssh
 * configuration decides; what is said wins over it. */
struct transport_host {
    const char *name;          /* as the user wrote it: an ssh_config alias, a host name or an address */
    const char *address;       /* connect to this instead (HostName); name still selects the configuration */
    const char *user;
    uint32_t port;
    const char *identity_file; /* the one key to offer; "~/" is expanded */
    const char *proxy_jump;    /* as ssh -J; "none" = connect directly whatever the configuration says */
    const char *known_hosts;   /* the one known_hosts file; "~/" is expanded */
    const char *ssh_config;    /* as ssh -F; "none" = no configuration at all */
    /* A host that known_hosts does not name is believed, and its key put there. Only with known_hosts; never for a
     * machine that somebody else has set up. */
    bool trust_first;
    const char *const *exec;   /* command: the program and its arguments, ended by NULL; found by PATH */
    enum transport_kind kind;
    uint32_t local_index;      /* local: which of this machine's nodes; only for the digest */
    uint32_t sim_index;        /* sim: handed to the script */
    uint32_t timeout_ms;       /* for each phase; default ConnectTimeout, else 10 s */
    /* A text for /bin/sh, without newlines, in front of the agent's start: it ends in a shell inside of something on
     * the host, by exec of a program with "$@" behind its own words (container.h). What it starts before must not read
     * stdin. `say BUSY TEXT`, every 10 s at least, restarts the deadline; `say FAILED "container 0 TEXT"`, then a bad
     * exit, ends the transport. NULL: none. */
    const char *wrap;
    const char *command;       /* run this instead of the agent, as `/bin/sh -c` does; nothing is uploaded */
};

struct transport_callbacks {
    void (*opened)(void *arg);  /* logged in, and the agent is being started: transport_host_digest is final, and what
                                   is
                                 * written from now on (or was before) goes out right behind the upload. The phase stays
                                 * TRANSPORT_AGENT until it speaks; `closed` may still come instead. Once; may be
                                 * NULL */
    void (*data)(void *arg, const uint8_t *data, size_t len); /* len > 0; data is valid during the call. The first call
                                                               * holds the agent's magic (noise may precede it) */
    void (*drained)(void *arg); /* after transport_queued was TRANSPORT_QUEUE_HIGH or more: it is below half of it. May
                                   be NULL */
    /* The stream has ended: err says which host, what failed and what to do; code ERROR_INFRA (ERROR_TIMEOUT when a
     * deadline passed), why ERROR_WHY_HOST_KEY where the host's key is not the known one, ERROR_WHY_LOGIN where the
     * login was refused. The agent ending is reported this way too. phase: where it was. */
    void (*closed)(void *arg, const struct error *err, enum transport_phase phase);
};
enum { TRANSPORT_QUEUE_HIGH = 256 << 10 };

/* ---- pool: what the transports of one rhrun share: ssh -G results, addresses, known_hosts files, keys, the
 * private ssh-agent, the login gates ---- */
struct transport_pool_options {
    const char *run_dir;   /* absolute, private folder for sockets; NULL = one below $XDG_RUNTIME_DIR or /tmp, made when
                              needed */
    bool allow_prompt;     /* ssh-add and ssh may ask for a passphrase on the terminal */
    uint32_t logins_max;   /* at a time per host:port; 0 = 8 */
    uint32_t retries;      /* of a connection that the server dropped before its banner; 0 = 6 */
};
struct transport_pool *transport_pool_create(struct loop *loop, const struct transport_pool_options *options);
/* Every transport must be closed. Ends the private ssh-agent, removes what it made. Takes NULL. */
void transport_pool_destroy(struct transport_pool *pool);
/* The agent for machines of this `uname -m` ("x86_64", "aarch64"), instead of the embedded one. Not copied. */
void transport_pool_set_agent(struct transport_pool *pool, const char *arch, const void *data, size_t size);

/* Would ssh, with this file as its configuration (struct transport_host, ssh_config), run a program that the file
 * names, load a library, or send the caller's environment? -1 and err (ERROR_SPEC): it may; file, line and keyword are
 * named, the file is not quoted. Files below ~/.ssh and /etc/ssh, also those that are included, are the user's own. */
int transport_config_check(const char *ssh_config, struct error *err);

/* ---- transports ---- */
/* Never fails at once: faults come through `closed`. */
struct transport *transport_open(struct transport_pool *pool, const struct transport_host *host,
                                 const struct transport_callbacks *callbacks, void *arg);
/* Buffers all of it. May be called before `opened`: it goes out in order behind the upload. After `closed`: dropped. */
void transport_write(struct transport *t, const void *data, size_t len);
size_t transport_queued(const struct transport *t); /* bytes written and not yet handed to the kernel or to libssh2 */
void transport_pause(struct transport *t);          /* no `data` until resume; the peer feels it through its window */
void transport_resume(struct transport *t);         /* data may come from the next turn on, not inside this call */
/* Ends at once: what is queued is dropped, the agent sees the end of its stdin. Frees t. Takes NULL. */
void transport_close(struct transport *t);
enum transport_phase transport_phase(const struct transport *t);
/* ---- forwards: a connection of this machine goes on at a port of the host, over the connection that is open ---- */
enum { TRANSPORT_FORWARDS_MAX = 64 /* at a time over a transport */ };
struct transport_forward {
    int fd;        /* a connected stream socket, the transport's from now on; never blocks */
    uint32_t port; /* of the host, at its `localhost` */
    /* Once, and fd is closed: both ends have ended, nobody listens there, the connection was lost, or the transport is
     * being closed. refused: the host forbids it, in words; else NULL. transport_close must not be called inside. */
    void (*ended)(void *arg, const char *refused);
    void *arg;
};
/* -1: not now (it is not open, or there are too many), or never (see below); fd stays the caller's. What waits on its
 * way is bounded: an end that takes nothing stops the other one. */
int transport_forward(struct transport *t, const struct transport_forward *f);
bool transport_can_forward(const struct transport *t); /* of kind ssh */

/* The verified host key as SHA-256 in hex, "local:I" or "sim:I"; "" before it is known (openssh: the name it was
 * verified under, "openssh:HOST:PORT"; command: "command:" and a digest of its words). */
const char *transport_host_digest(const struct transport *t);
/* The verified host key as known_hosts has it, "ssh-ed25519 AAAA..."; "" before `opened`, and where there is none. Of
 * openssh: what the file of transport_host.known_hosts has for the host, once there was `data`. */
const char *transport_host_key(struct transport *t);
/* Which kind AUTO has become; TRANSPORT_AUTO while undecided. */
enum transport_kind transport_kind(const struct transport *t);
const char *transport_kind_name(enum transport_kind kind);              /* "auto", "ssh", "command", ... */
bool transport_kind_parse(const char *name, enum transport_kind *ret);

/* The command line of a program of this machine that runs text on the host, as /bin/sh does, for a person: its stdin,
 * stdout and stderr are the caller's, with a terminal there where `terminal` says so. Over SSH it is the program `ssh`,
 * with what the spec says of the host. Of kind command text is given to its shell with -c, and there is no terminal.
 * In arena, ended by NULL. */
const char *const *transport_login(const struct transport_host *host, bool terminal, const char *text,
                                   struct arena *arena);

/* What a person types to get to the host: "ssh -i KEY -p 35001 root@host", each word quoted for the shell; of kind
 * command its program and arguments. In arena. */
const char *transport_by_hand(const struct transport_host *host, struct arena *arena);

/* ---- sim: the peer is a script in this process ---- */
struct transport_sim_script {
    /* A transport was opened: return the peer's own state, or NULL and err to fail in ret_phase. */
    void *(*open)(void *script, uint32_t sim_index, const char *name, struct transport *t, struct error *err,
                  enum transport_phase *ret_phase);
    void (*received)(void *peer, const uint8_t *data, size_t len); /* what the controller wrote */
    void (*close)(void *peer); /* the controller closed it, or transport_sim_fail was called */
    void *script;
};
void transport_pool_set_sim(struct transport_pool *pool, const struct transport_sim_script *script); /* copied */
/* From the peer: bytes to the controller, delivered in a later turn; or the end of the stream. */
void transport_sim_send(struct transport *t, const void *data, size_t len);
void transport_sim_fail(struct transport *t, const struct error *err);

#endif
