/*
 * transport: a byte stream to a running agent on a host. It finds the host (ssh_config, DNS, proxies), connects,
 * verifies the host key, logs in, uploads and starts the agent; what comes after is the agent's stream in both
 * directions. Login files of the node may print before the agent does: those bytes are passed on unchanged, and the
 * reader scans for WIRE_MAGIC.
 *
 * Kinds: `local` runs the embedded agent on this machine over a socketpair; `ssh` uses libssh2; `openssh` a child `ssh`
 * whose stdin and stdout carry the same bytes; `command` any program that leads to a shell on its stdin, such as
 * `docker exec -i NAME sh`; `sim` a peer inside this process, scripted by a test. AUTO begins with ssh and switches to
 * openssh by itself for what libssh2 lacks: certificates, FIDO keys, servers without a common algorithm, GSSAPI.
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

/* What a transport is doing now; in `closed`, the phase that failed. */
enum transport_phase {
    TRANSPORT_CONFIG = 0, /* reading the user's ssh configuration */
    TRANSPORT_RESOLVE,    /* DNS */
    TRANSPORT_QUEUED,     /* waiting until fewer logins to this host:port are under way */
    TRANSPORT_CONNECT,    /* TCP, or starting the proxy command */
    TRANSPORT_HOST_KEY,   /* banner, key exchange, host key */
    TRANSPORT_AUTH,
    TRANSPORT_CONTAINER,  /* the wrap says that it is busy, for example pulling an image */
    TRANSPORT_AGENT,      /* exec, upload, start; ends with the agent's magic */
    TRANSPORT_OPEN,
    TRANSPORT_CLOSED,
};
const char *transport_phase_name(enum transport_phase phase); /* "resolve", "connect", "host key", "auth", "agent"... */

/* What the spec says about a host. transport_open copies the strings. NULL or 0: not given, so the user's ssh
 * configuration decides; a given value overrides it. */
struct transport_host {
    const char *name;          /* as the user wrote it: an ssh_config alias, a host name or an address */
    const char *address;       /* connect to this instead (HostName); name still selects the configuration */
    const char *user;
    uint32_t port;
    const char *identity_file; /* the one key to offer; "~/" is expanded */
    const char *proxy_jump;    /* as ssh -J; "none" = connect directly whatever the configuration says */
    const char *known_hosts;   /* the one known_hosts file; "~/" is expanded */
    const char *ssh_config;    /* as ssh -F; "none" = no configuration at all */
    /* Trust a host that known_hosts does not list, and add its key. Only with known_hosts; never for a machine that
     * somebody else has set up. */
    bool trust_first;
    const char *const *exec;   /* command: the program, found by PATH, and its arguments; ends with NULL */
    enum transport_kind kind;
    uint32_t local_index;      /* local: the number among this machine's nodes; only for the digest */
    uint32_t sim_index;        /* sim: passed to the script */
    uint32_t timeout_ms;       /* for each phase; default ConnectTimeout, else 10 s */
    /* A /bin/sh script, without newlines, that runs before the agent starts. It ends with exec of a program, with "$@"
     * after the program's own words, so that the agent starts inside of, say, a container (container.h). Anything that
     * the script starts before must not read stdin. `say BUSY TEXT`, at least every 10 s, restarts the deadline; `say
     * FAILED "container 0 TEXT"`, followed by a nonzero exit, ends the transport. NULL: none. */
    const char *wrap;
    const char *command;       /* run this instead of the agent, as `/bin/sh -c` does; nothing is uploaded */
};

struct transport_callbacks {
    void (*opened)(void *arg);  /* logged in, and the agent is being started: transport_host_digest is final, and data
                                   written from now on (or before) goes out right after the upload. The phase stays
                                   TRANSPORT_AGENT until the agent speaks; `closed` may still come instead. Called once;
                                   may be NULL */
    void (*data)(void *arg, const uint8_t *data, size_t len); /* len > 0; data is valid during the call. The first call
                                                                 has the agent's magic (noise may precede it) */
    void (*drained)(void *arg); /* transport_queued was TRANSPORT_QUEUE_HIGH or more, and is now below half of that. May
                                   be NULL */
    /* The stream has ended: err says which host, what failed and what to do; code ERROR_INFRA (ERROR_TIMEOUT when a
     * deadline passed), why ERROR_WHY_HOST_KEY if the host's key is not the known one, ERROR_WHY_LOGIN if the login was
     * refused. The end of the agent is reported in the same way. phase: the phase in which the stream ended. */
    void (*closed)(void *arg, const struct error *err, enum transport_phase phase);
};
enum { TRANSPORT_QUEUE_HIGH = 256 << 10 };

/* ---- pool: shared by the transports of one rhrun: ssh -G results, addresses, known_hosts files, keys, the
 * private ssh-agent, the limits on logins ---- */
struct transport_pool_options {
    const char *run_dir;   /* absolute path of a private folder for sockets; NULL = one below $XDG_RUNTIME_DIR or /tmp,
                              made when needed */
    bool allow_prompt;     /* ssh-add and ssh may ask for a passphrase on the terminal */
    uint32_t logins_max;   /* at the same time per host:port; 0 = 8 */
    uint32_t retries;      /* of a connection that the server dropped before its banner; 0 = 6 */
};
struct transport_pool *transport_pool_create(struct loop *loop, const struct transport_pool_options *options);
/* Every transport must be closed before. Ends the private ssh-agent and removes the pool's files. Takes NULL. */
void transport_pool_destroy(struct transport_pool *pool);
/* The agent for machines of this `uname -m` ("x86_64", "aarch64"), instead of the embedded one. Not copied. */
void transport_pool_set_agent(struct transport_pool *pool, const char *arch, const void *data, size_t size);

/* Checks that ssh, with this file as its configuration (transport_host.ssh_config), runs no program that the file
 * names, loads no library, and sends nothing of the caller's environment. -1 and err (ERROR_SPEC): it might; err names
 * file, line and keyword, and does not quote the file. Files below ~/.ssh and /etc/ssh, included ones too, are trusted
 * as the user's own. */
int transport_config_check(const char *ssh_config, struct error *err);

/* ---- transports ---- */
/* Never fails at once: faults come through `closed`. */
struct transport *transport_open(struct transport_pool *pool, const struct transport_host *host,
                                 const struct transport_callbacks *callbacks, void *arg);
/* Buffers all data. May be called before `opened`: the data goes out in order after the upload. After `closed` it is
 * dropped. */
void transport_write(struct transport *t, const void *data, size_t len);
size_t transport_queued(const struct transport *t); /* bytes written and not yet handed to the kernel or to libssh2 */
void transport_pause(struct transport *t);          /* no `data` until resume; the peer is slowed down by flow
                                                       control */
void transport_resume(struct transport *t);         /* `data` may come from the next turn on, not inside this call */
/* Ends at once: what is queued is dropped, the agent sees the end of its stdin. Frees t. Takes NULL. */
void transport_close(struct transport *t);
enum transport_phase transport_phase(const struct transport *t);
/* ---- forwards: connections from this machine to a port of the host, over the open connection ---- */
enum { TRANSPORT_FORWARDS_MAX = 64 /* at the same time over one transport */ };
struct transport_forward {
    int fd;        /* a connected, non-blocking stream socket; the transport owns it from now on */
    uint32_t port; /* on the host's `localhost` */
    /* Called once, after fd was closed: both ends have ended, nothing listens on the port, the connection was lost, or
     * the transport is being closed. refused: the host's reason for forbidding the forward; else NULL. transport_close
     * must not be called inside. */
    void (*ended)(void *arg, const char *refused);
    void *arg;
};
/* -1: not now (the transport is not open, or has too many forwards), or never (see below); fd then stays the caller's.
 * Buffers are bounded: if one end stops reading, the other is stopped too. */
int transport_forward(struct transport *t, const struct transport_forward *f);
bool transport_can_forward(const struct transport *t); /* of kind ssh */

/* The verified host key as SHA-256 in hex, "local:I" or "sim:I"; "" before it is known (openssh: the name it was
 * verified under, "openssh:HOST:PORT"; command: "command:" and a digest of its words). */
const char *transport_host_digest(const struct transport *t);
/* The verified host key in the form of known_hosts, "ssh-ed25519 AAAA..."; "" before `opened`, and if there is none.
 * With openssh: the host's entry in transport_host.known_hosts, once `data` was called. */
const char *transport_host_key(struct transport *t);
/* The kind in use, for AUTO the chosen one; TRANSPORT_AUTO while undecided. */
enum transport_kind transport_kind(const struct transport *t);
const char *transport_kind_name(enum transport_kind kind);              /* "auto", "ssh", "command", ... */
bool transport_kind_parse(const char *name, enum transport_kind *ret);

/* The command line of a program on this machine that runs the shell text `text` on the host for a person: stdin, stdout
 * and stderr are the caller's; terminal: with a terminal on the host. Over SSH the program is `ssh`, with the spec's
 * settings for the host. For kind command the text is passed to the host's shell with -c, and there is no terminal. In
 * arena, ends with NULL. */
const char *const *transport_login(const struct transport_host *host, bool terminal, const char *text,
                                   struct arena *arena);

/* The command that a person types to reach the host: "ssh -i KEY -p 35001 root@host", each word quoted for the shell;
 * for kind command its program and arguments. In arena. */
const char *transport_by_hand(const struct transport_host *host, struct arena *arena);

/* ---- sim: the peer is a script in this process ---- */
struct transport_sim_script {
    /* A transport was opened: return the peer's state, or NULL and err to fail in *ret_phase. */
    void *(*open)(void *script, uint32_t sim_index, const char *name, struct transport *t, struct error *err,
                  enum transport_phase *ret_phase);
    void (*received)(void *peer, const uint8_t *data, size_t len); /* bytes from the controller */
    void (*close)(void *peer); /* the controller closed it, or transport_sim_fail was called */
    void *script;
};
void transport_pool_set_sim(struct transport_pool *pool, const struct transport_sim_script *script); /* copied */
/* From the peer: bytes to the controller, delivered in a later turn; or the end of the stream. */
void transport_sim_send(struct transport *t, const void *data, size_t len);
void transport_sim_fail(struct transport *t, const struct error *err);

#endif
