/*
 * Contact with a rented machine: the keys of a cluster for its machines (keys.c), their user data (bootstrap.c), and
 * the check of who answers at an address (meet.c).
 */
#ifndef RHRUN_RENT_MACHINE_H
#define RHRUN_RENT_MACHINE_H

#include "rhrun/provider.h"
#include "rhrun/transport.h"

/* Where the user data puts the token of its intent: readable by all, because the login user reads it. It is no secret:
 * it gives no access, and counts only over a connection with the right host key. */
#define RENT_TOKEN_FILE "/run/rhrun-token"

/* ---- keys.c: one secret per cluster, the login key, from which all others are derived ---- */
struct rent_keys;
/* The folder's login key (FOLDER/id_ed25519, in OpenSSH's format, 0600). Made if there is none: complete and on the
 * disk before this returns, so a kill at any time leaves all of it or nothing. NULL and err (ERROR_IO): the folder or
 * the file cannot be made or read, or is damaged; a damaged file is never replaced, because machines may have its
 * key. */
struct rent_keys *rent_keys_open(const char *folder, struct error *err);
void rent_keys_close(struct rent_keys *keys); /* takes NULL; overwrites the secret */
const char *rent_login_file(const struct rent_keys *keys);   /* the path of the private key */
const char *rent_login_public(const struct rent_keys *keys); /* "ssh-ed25519 AAAA... rhrun" */
/* The host key for the machines of one intent: always the same for the same name, different for any other. ret_public:
 * "ssh-ed25519 AAAA...". ret_private: the text of a private key file, a secret. Each is appended; either may be
 * NULL. */
void rent_host_key(const struct rent_keys *keys, const char *intent, struct buf *ret_public, struct buf *ret_private);

/* How to reach a machine. */
struct rent_door {
    const char *machine;  /* its id */
    const char *address;  /* with its port if that is not 22: "1.2.3.4:2222", "[2001:db8::1]:22" */
    const char *user;
    const char *host_key; /* "ssh-ed25519 AAAA...": the intent's, or the ledger's; NULL: trust the first answer */
};
/* Fills ret, of kind AUTO and with strings in the arena: without the user's ssh configuration, with the cluster's login
 * key, and with a known_hosts file for this machine alone (FOLDER/known_hosts-...) that has only host_key. Without
 * host_key the file stays as the first contact left it. -1 and err: the address is invalid, the id is empty, or the
 * file cannot be written. */
int rent_door(const struct rent_keys *keys, const struct rent_door *door, struct arena *arena,
              struct transport_host *ret, struct error *err);

/* ---- bootstrap.c: the user data ---- */
struct bootstrap {
    const char *user;             /* who logs in */
    const char *public_key;       /* of the login key: one line of authorized_keys */
    const char *host_key_private; /* text of the key file; NULL: the machine keeps its keys */
    const char *host_key_public;
    const char *token;            /* of the intent; NULL: none */
    uint64_t expires_s;           /* since 1970; 0: no deadline */
    uint64_t idle_s;              /* the machine ends when no agent and no supervisor has lived for this long; 0:
                                     never */
    enum provider_deadline deadline; /* how the machine ends so that its bill ends too */
    enum provider_billing billing_when_stopped;
};
/* A /bin/sh script that runs as root at the first boot, or at each boot. Its order makes sure that every reachable
 * machine ends by itself:
 *   1. the deadline and the idle watch begin, in a process that survives hangup, kill (under systemd) and reboot (under
 *   cloud-init). If they cannot begin, the script stops, and the machine is never met. 2. the login key is authorized
 *   for the user, in addition to the provider's keys. 3. the host key replaces all others, and sshd reloads. 4. the
 *   token is written to RENT_TOKEN_FILE.
 * At the deadline the machine shuts down if that ends the bill (SHUTDOWN), or ends process 1 (KILL_PID1). In the other
 * cases nothing is armed: with NONE, a machine that is shut down is still billed, and could no longer be reached for
 * its files; with SERVER the provider does it; with SELF_DELETE no provider file has the request yet. The idle watch
 * ends the machine in the same way, and also by shutdown if a stopped machine costs less (billing_when_stopped).
 *
 * Secret in it: the private host key. User data can be read by anybody with an account on the machine, or who can make
 * it ask the provider's metadata service, or with read access to the provider's account. With the host key one can
 * impersonate this machine, and no other: the key belongs to one intent, gives no login, and neither the login key nor
 * another host key can be derived from it.
 *
 * -1 and err (ERROR_INFRA): the script has more than `max` bytes, or max is 0 (the provider takes none);
 * ERROR_INTERNAL: a value has the wrong form (a user, a key, a token). */
int bootstrap_text(const struct bootstrap *b, size_t max, struct buf *ret, struct error *err);

/* ---- meet.c: who answers there? ---- */
struct meet;
/* Logs in to the host and asks for the token. `done` is called once, in a later turn of the loop: with err if nothing
 * answers yet, the login is refused, or the host key is a different one (ERROR_WHY_HOST_KEY); else with the host key,
 * "ssh-ed25519 AAAA...", and whether the machine has the token (true if none is asked for). meet_end must be called
 * afterwards, and may be called inside `done`. */
struct meet *meet_begin(struct loop *loop, struct transport_pool *pool, const struct transport_host *host,
                        const char *token,
                        void (*done)(void *arg, bool ours, const char *host_key, const struct error *err), void *arg);
void meet_end(struct meet *m); /* at any time; takes NULL */

#endif
