/* One libssh2 session: what ssh.c (connect, key exchange, stream), ssh_auth.c and ssh_proxy.c share. */
#ifndef RHRUN_TRANSPORT_SSH_SESSION_H
#define RHRUN_TRANSPORT_SSH_SESSION_H

#include "ssh.h"

#include <libssh2.h>

enum { CANDIDATES_MAX = 5 /* sshd's MaxAuthTries is 6 */, ADDRESS_LIST_MAX = 16 };

/* A key to offer. Signing happens in this process (key), in an agent (client), or in the private agent once it has the
 * key (path). */
struct candidate {
    const struct key *key;
    struct agent_client *client;
    const char *load_path; /* not NULL: to be loaded into the private agent first */
    uint8_t *blob, *login_blob;
    size_t blob_len, login_len;
    bool offered; /* the server was asked */
    char name[256];
};

enum ssh_step {
    STEP_CONFIG,
    STEP_RESOLVE,
    STEP_GATE,
    STEP_RETRY,   /* waits before the next try */
    STEP_CONNECT,
    STEP_HANDSHAKE,
    STEP_AGENTS,  /* the user's agent is asked for its keys */
    STEP_LOAD,    /* the private agent loads a key */
    STEP_AUTH,
    STEP_CHANNEL,
    STEP_EXEC,
    STEP_STREAM,
};

struct ssh {
    struct transport *t;
    enum ssh_step step;
    struct config_waiter config_waiter;
    struct ssh_config config; /* the effective settings; strings are shared with the pool's and with t->host */
    struct string_list one_identity, one_known_hosts;
    char *explicit_paths[3]; /* of t->host, expanded: identity file, known_hosts, ssh_config; NULL = not given */
    char *known_name; /* the name in known_hosts */
    struct resolve_waiter resolver;
    struct address addresses[ADDRESS_LIST_MAX];
    size_t address_count, address;
    struct gate_ticket ticket;
    struct loop_timer *timer; /* for retries, and to go on after a turn with too much to read */
    uint32_t tries;

    int fd;
    struct loop_fd *watch;
    struct buf out; /* encrypted; not yet sent from out_at on */
    size_t out_at;
    uint64_t taken; /* bytes from the socket */
    int io_errno;   /* of the last failed send or recv */
    bool eof;       /* the peer has closed the connection */
    bool closing;
    LIBSSH2_SESSION *session;
    LIBSSH2_CHANNEL *channel;
    struct ssh_forward *forwards;
    struct buf command, errors; /* errors: the node's stderr, its tail */

    struct loop_child *proxy;
    int proxy_err;
    struct loop_fd *proxy_watch;
    struct buf proxy_errors;

    struct candidate candidates[CANDIDATES_MAX];
    size_t candidate_count, candidate;
    bool agent_listed, hardware;
    struct buf problems; /* identities that cannot be offered, and why */
    struct agent_request list_request, sign_request;
    struct private_waiter load_waiter;
    enum { SIGN_NONE, SIGN_WAITING, SIGN_DONE, SIGN_FAILED } sign;
    uint8_t *signature;
    size_t signature_len;
};

void ssh_pump(struct ssh *s); /* goes on as far as it can; inside enter/leave */

/* ---- ssh_library.c ---- */
typedef ssize_t ssh_send_fn(libssh2_socket_t fd, const void *data, size_t len, int flags, void **abstract);
typedef ssize_t ssh_receive_fn(libssh2_socket_t fd, void *data, size_t len, int flags, void **abstract);
bool ssh_library_start(struct ssh *s, ssh_send_fn *tx, ssh_receive_fn *rx); /* makes s->session */

bool ssh_out_has_room(const struct ssh *s); /* whether libssh2 may get more data for the peer */

/* ---- ssh_forward.c ---- */
int ssh_forward_add(struct ssh *s, const struct transport_forward *what); /* -1: there is no room, or no stream yet */
/* One pass over all forwards. True: some data was passed on, or one was opened. */
bool ssh_forwards_pass(struct ssh *s);
void ssh_forwards_free(struct ssh *s); /* before the session */

bool ssh_can_switch(const struct ssh *s); /* to openssh */
bool ssh_retry(struct ssh *s);            /* begins another try of a connection that was dropped before its banner */

/* ---- ssh_host_key.c ---- */
bool ssh_rsa_host_keys(void); /* does this libssh2 have rsa-sha2? */
void ssh_set_host_key_types(struct ssh *s, unsigned known);
bool ssh_host_key_ok(struct ssh *s); /* false: t has failed */
void ssh_handshake_failed(struct ssh *s, int rc);
void ssh_last_line(const char *text, char *out, size_t size);

/* ---- ssh_auth.c ---- */
void ssh_auth_begin(struct ssh *s); /* sets step to AGENTS, LOAD or AUTH, or fails */
void ssh_auth_step(struct ssh *s, bool *ret_done, bool *ret_blocked);
void ssh_auth_free(struct ssh *s);
bool ssh_wants_openssh(struct ssh *s); /* certificates: libssh2 cannot, ssh can */

/* ---- ssh_proxy.c ---- */
bool ssh_has_proxy(const struct ssh *s);
void ssh_proxy_name(const struct ssh *s, struct buf *ret); /* for the gate and for messages */
int ssh_proxy_start(struct ssh *s, struct error *err);     /* sets s->fd */
const char *ssh_proxy_text(struct ssh *s);                 /* the last line of its stderr, or "" */
void ssh_proxy_free(struct ssh *s);

#endif
