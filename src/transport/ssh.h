/* For the kinds ssh and openssh: configuration, known_hosts, keys, agents. Private to transport. */
#ifndef RHRUN_TRANSPORT_SSH_H
#define RHRUN_TRANSPORT_SSH_H

#include "internal.h"

/* ---- config.c: what ssh_config says about a host ---- */
enum strict { STRICT_YES, STRICT_ACCEPT_NEW };
struct string_list {
    char **items;
    size_t count;
};
void string_list_add(struct string_list *list, const char *s);
void string_list_free(struct string_list *list);
struct ssh_config {
    char *user, *hostname;
    uint32_t port;
    struct string_list identity_files, certificate_files; /* expanded; some may not exist */
    char *identity_agent; /* socket path, NULL = $SSH_AUTH_SOCK, "none" = no agent */
    bool identities_only;
    struct string_list user_known_hosts, global_known_hosts; /* expanded */
    char *host_key_alias;
    enum strict strict;
    bool hash_known_hosts;
    uint32_t connect_timeout_ms; /* 0 = not said */
    char *proxy_jump, *proxy_command; /* NULL = none; the command not yet expanded */
    int family; /* RESOLVE_* */
    char *bind_address;
    bool from_ssh;    /* the program ssh was asked */
    char *beyond;     /* a keyword that only OpenSSH can follow, NULL = none */
};
struct config_waiter {
    struct config_waiter *next;
    struct pool_config *of;
    void (*done)(void *arg, const struct ssh_config *config, const struct error *err); /* config NULL: err */
    void *arg;
};
/* The configuration for t->host, its explicit values not yet applied. done may be called inside this call. The
 * config stays valid as long as the pool. */
void config_get(struct transport *t, struct config_waiter *waiter,
                void (*done)(void *arg, const struct ssh_config *config, const struct error *err), void *arg);
void config_cancel(struct config_waiter *waiter);
void config_parse(const char *text, const char *alias, struct ssh_config *ret); /* the output of ssh -G */
void config_defaults(const char *alias, struct ssh_config *ret);                 /* without any file */
void config_free(struct ssh_config *config);

/* ---- keywords.c: how our own client treats each keyword ---- */
enum keyword_care {
    KEYWORD_USED,    /* it is followed */
    KEYWORD_SAFE,    /* ignoring it loses nothing and is no less safe */
    KEYWORD_OPENSSH, /* like every keyword that is not listed: if its value is not OpenSSH's default, only the program
                        ssh will do */
};
struct ssh_keyword {
    const char *name;
    enum keyword_care care;
};
const struct ssh_keyword *keyword_find(const char *name, size_t len); /* NULL: not listed */
/* text, defaults: output of ssh -G for the host, and without any configuration. Returns the first keyword that needs
 * OpenSSH, or NULL; owned by the caller. */
char *config_beyond(const char *text, const char *defaults);
void configs_destroy(struct transport_pool *pool);
/* Whether a configuration file has nothing that matters (such as Debian's own): then ssh -G can be skipped. ret gets
 * HashKnownHosts. depth bounds Include. */
bool config_file_trivial(const char *path, int depth, struct ssh_config *ret);
/* Hides quotes of the file in ssh's stderr, in place: "FILE: line N: WHY" becomes "FILE: line N: cannot be read",
 * because any file may be named as ssh_config. */
void config_hide_text(char *text);
char *expand_home(const char *path); /* "~/x" and "~"; owned by the caller */
/* %h %n %p %r %u %i %L %l %d %k %%; unknown ones stay. home: also a leading ~. */
char *config_expand(const struct ssh_config *config, const char *alias, const char *text, bool home);

/* ---- known_hosts.c ---- */
enum known_result {
    KNOWN_OK,
    KNOWN_UNKNOWN,
    KNOWN_CHANGED,     /* another key of this type is listed */
    KNOWN_REVOKED,
    KNOWN_OTHER_TYPES, /* listed, but only with keys of other types */
    KNOWN_BY_CA,       /* only a @cert-authority line matches */
};
enum key_type {
    KEY_ED25519 = 1,
    KEY_ECDSA_256 = 2,
    KEY_ECDSA_384 = 4,
    KEY_ECDSA_521 = 8,
    KEY_RSA = 16,
    KEY_OTHER = 32,
    KEY_CA = 64,
};
unsigned key_type_of(const char *name, size_t len); /* "ssh-ed25519" and so on; KEY_OTHER */
struct known_hosts_line {
    struct known_hosts_file *file;
    uint32_t number;
    enum { LINE_PLAIN, LINE_REVOKED, LINE_CA } marker;
    unsigned type;      /* enum key_type */
    const char *names;  /* as written; not terminated */
    size_t names_len;
    bool hashed;
    uint8_t salt[64], hash[20];
    size_t salt_len;
    uint8_t *blob;
    size_t blob_len;
};
struct known_hosts_file {
    struct known_hosts_file *next;
    char *path;
    struct buf text;
    struct known_hosts_line *lines;
    size_t count;
    int64_t mtime_ns, size;
    uint64_t inode;
};
/* The parsed file, from the pool's cache unless it changed; a missing one is empty. */
const struct known_hosts_file *known_hosts_load(struct transport_pool *pool, const char *path);
void known_hosts_destroy(struct transport_pool *pool);
bool known_hosts_line_matches(const struct known_hosts_line *line, const char *name);
/* name: "host", "[host]:port" or the alias; lower case. Types listed for it: bits of key_type, KEY_CA. */
unsigned known_hosts_types(struct transport_pool *pool, const struct ssh_config *config, const char *name);
enum known_result known_hosts_check(struct transport_pool *pool, const struct ssh_config *config, const char *name,
                                    unsigned type, const uint8_t *blob, size_t blob_len,
                                    const struct known_hosts_line **ret_line);
int known_hosts_append(const char *path, const char *name, bool hash, const uint8_t *blob, size_t blob_len,
                       struct error *err);
char *known_hosts_name(const struct ssh_config *config, const char *host, uint32_t port); /* owned by the caller */
void known_hosts_key(const uint8_t *blob, size_t len, struct buf *ret); /* "TYPE BASE64"; nothing if it is no key */

/* ---- keys.c: identity files ---- */
enum key_state {
    KEY_READY,     /* can sign in this process */
    KEY_ENCRYPTED, /* needs an agent; blob is known */
    KEY_UNUSABLE,  /* missing, unreadable, unknown format: reason */
    KEY_HARDWARE,  /* sk-*: only the program ssh can */
};
struct key {
    struct key *next;
    char *path;
    enum key_state state;
    char reason[160];
    char type[40];  /* "ssh-ed25519" */
    uint8_t *blob;  /* public key; NULL when not known */
    size_t blob_len;
    void *evp;      /* EVP_PKEY */
    int64_t mtime_ns;
};
struct key *key_load(struct transport_pool *pool, const char *path); /* cached; owned by the pool */
void keys_destroy(struct transport_pool *pool);
/* The raw signature that goes into string(sig): malloc'ed. hash: "rsa-sha2-256" and so on for RSA. 0 or -1. */
int key_sign(const struct key *key, const uint8_t *data, size_t len, uint8_t **ret, size_t *ret_len);
/* The blob to give to libssh2: for RSA with the algorithm name rsa-sha2-256. malloc'ed. */
uint8_t *key_login_blob(const uint8_t *blob, size_t len, size_t *ret_len);
bool blob_type(const uint8_t *blob, size_t len, const char **ret_type, size_t *ret_type_len);

/* ---- agent_client.c: ssh-agent ---- */
struct agent_identity {
    uint8_t *blob;
    size_t len;
};
struct agent_slot;
struct agent_request { /* zero-filled at first */
    struct agent_slot *slot; /* waiting for an answer */
    /* answer lacks its length; NULL when the agent could not be reached. May be called inside the asking call. */
    void (*done)(void *arg, const uint8_t *answer, size_t len);
    void *arg;
};
struct agent_client *agent_client_get(struct transport_pool *pool, const char *socket_path); /* cached */
void agent_list(struct agent_client *client, struct agent_request *request,
                void (*done)(void *arg, const uint8_t *answer, size_t len), void *arg);
void agent_sign(struct agent_client *client, struct agent_request *request, const uint8_t *blob, size_t blob_len,
                const uint8_t *data, size_t len, uint32_t flags,
                void (*done)(void *arg, const uint8_t *answer, size_t len), void *arg);
void agent_cancel(struct agent_request *request);
/* Identities of an answer to agent_list; at most 64. Owned by the caller. */
size_t agent_identities(const uint8_t *answer, size_t len, struct agent_identity **ret);
/* The raw signature of an answer to agent_sign, malloc'ed; -1 when refused. */
int agent_signature(const uint8_t *answer, size_t len, uint8_t **ret, size_t *ret_len);
void agents_destroy(struct transport_pool *pool);
/* Loads path into the pool's private ssh-agent (started when needed). done(arg, client, NULL) or (arg, NULL, why). */
struct private_waiter {
    struct private_waiter *next;
    char *path;   /* owned while waiting; NULL: not waiting */
    void (*done)(void *arg, struct agent_client *client, const char *reason);
    void *arg;
};
void private_agent_add(struct transport_pool *pool, struct private_waiter *waiter, const char *path,
                       void (*done)(void *arg, struct agent_client *client, const char *reason), void *arg);
void private_agent_cancel(struct transport_pool *pool, struct private_waiter *waiter);
void private_agent_destroy(struct transport_pool *pool);

/* All of the above. */
void ssh_shared_destroy(struct transport_pool *pool);

#endif
