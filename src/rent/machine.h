/*
 * A rented machine from inside: the keys that a cluster has for its machines (keys.c), and how it is asked who answers
 * at an address (meet.c).
 */
#ifndef RHRUN_RENT_MACHINE_H
#define RHRUN_RENT_MACHINE_H

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
