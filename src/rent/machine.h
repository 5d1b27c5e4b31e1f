/*
 * A rented machine from inside: the keys that a cluster has for its machines (keys.c), the user data that is put on
 * them (bootstrap.c), and how it is asked who answers at an address (meet.c).
 */
#ifndef RHRUN_RENT_MACHINE_H
#define RHRUN_RENT_MACHINE_H

#include "rhrun/provider.h"
#include "rhrun/transport.h"

/* Where the user data puts the token of its intent: readable by all, for the login user asks for it. It is no secret:
 * it opens nothing, and is believed only over a connection whose host key is the right one. */
#define RENT_TOKEN_FILE "/run/rhrun-token"

/* ---- keys.c: one secret per cluster, the login key; all else follows from it ---- */
struct rent_keys;
/* The folder's login key (FOLDER/id_ed25519, of OpenSSH's format, 0600), which is made where there is none: whole and
 * on the disk before this returns, so a kill at any time leaves all of it or nothing. -1 and err (ERROR_IO): the folder
 * or the file cannot be made or read, or is damaged; a damaged one is never replaced, as machines may know its key. */
struct rent_keys *rent_keys_open(const char *folder, struct error *err);
void rent_keys_close(struct rent_keys *keys); /* takes NULL; overwrites the secret */
const char *rent_login_file(const struct rent_keys *keys);   /* the path of the private key */
const char *rent_login_public(const struct rent_keys *keys); /* "ssh-ed25519 AAAA... rhrun" */
/* The host key for the machines of one intent: the same again for the same name, and unlike that of any other.
 * ret_public: "ssh-ed25519 AAAA...". ret_private: the text of a private key file, a secret. Each is appended; NULL
 * where it is not asked for. */
void rent_host_key(const struct rent_keys *keys, const char *intent, struct buf *ret_public, struct buf *ret_private);

/* How a machine is reached. */
struct rent_door {
    const char *machine;  /* its id */
    const char *address;  /* with its port where that is not 22: "1.2.3.4:2222", "[2001:db8::1]:22" */
    const char *user;
    const char *host_key; /* "ssh-ed25519 AAAA...": of its intent, or of the ledger; NULL: whoever answers first */
};
/* Into ret, of kind AUTO and with strings of the arena: nothing of the user's ssh configuration, the cluster's login
 * key, and a known_hosts file of this machine's own (FOLDER/known_hosts-...) that has host_key alone. Without
 * host_key it is as the first contact left it. -1 and err: the address is none, the id is empty, or the file cannot be
 * written. */
int rent_door(const struct rent_keys *keys, const struct rent_door *door, struct arena *arena,
              struct transport_host *ret, struct error *err);

/* ---- bootstrap.c: the user data ---- */
struct bootstrap {
    const char *user;             /* who logs in */
    const char *public_key;       /* the login key's: one line of authorized_keys */
    const char *host_key_private; /* the text of the file; NULL: the machine keeps those that it has */
    const char *host_key_public;
    const char *token;            /* of the intent; NULL: none */
    uint64_t expires_s;           /* since 1970; 0: no deadline */
    uint64_t idle_s;              /* it ends when no agent and no supervisor has lived for so long; 0: never */
    enum provider_deadline deadline; /* how it ends so that it bills no more */
    enum provider_billing billing_when_stopped;
};
/* A script for /bin/sh, to be run as root at the first boot, or at each. In this order, so that a machine that can be
 * reached ends by itself:
 *   1. the deadline and the idle watch begin, by a process that no hangup, no kill (under systemd) and no reboot (under
 *      cloud-init) ends. Where they cannot begin, nothing else is done, and the machine is never met.
 *   2. the login key is authorized for the user, beside what the provider does.
 *   3. the host key is put in place of all others, and sshd is told.
 *   4. the token is put into RENT_TOKEN_FILE.
 * The deadline is kept by shutdown where that ends the bill (SHUTDOWN), or by ending process 1 (KILL_PID1). Of NONE a
 * machine that is shut down bills on, and could not even be asked for what it has; SERVER is the provider's business;
 * of SELF_DELETE no file says the request yet: nothing is armed. The idle watch ends it likewise, and by shutdown
 * wherever a stopped machine costs less (billing_when_stopped).
 *
 * What is secret in it: the private host key, by nature. Whoever has an account on the machine, or can make it ask the
 * provider's metadata service, can read user data; so can whoever may read the provider's account. With it one can play
 * this machine, and no other: it is of one intent, gives no login, and neither the login key nor another host key
 * follows from it.
 *
 * -1 and err (ERROR_INFRA): it has more than `max` bytes, or max is 0 (the provider takes none); ERROR_INTERNAL: a
 * value that does not look like one (a user, a key, a token). */
int bootstrap_text(const struct bootstrap *b, size_t max, struct buf *ret, struct error *err);

/* ---- meet.c: who answers there? ---- */
struct meet;
/* Logs in at the host and asks for the token. `done` is called once, in a later turn of the loop: with err where nobody
 * answers yet, the login is refused, or the host key is another one (ERROR_WHY_HOST_KEY); else with the host key,
 * "ssh-ed25519 AAAA...", and whether the machine has the token (true where none is asked for). meet_end may be called
 * in it, and is to be called after it. */
struct meet *meet_begin(struct loop *loop, struct transport_pool *pool, const struct transport_host *host,
                        const char *token,
                        void (*done)(void *arg, bool ours, const char *host_key, const struct error *err), void *arg);
void meet_end(struct meet *m); /* at any time; takes NULL */

#endif
