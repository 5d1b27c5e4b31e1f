/*
 * provider: the requests to a provider of machines and the meaning of its replies, as data.
 *
 * A provider is one YAML file (providers/NAME.yaml, built in; $XDG_CONFIG_HOME/rhrun/providers/NAME.yaml wins). For
 * each operation the file says which request is sent and how its reply is read. This module turns (provider, operation,
 * inputs) into the description of a request, and (provider, operation, status, headers, body) into values, machines or
 * an error with a class. It sends nothing and waits for nothing: its callers send the requests with module http. It
 * reads two kinds of file only: provider files and files that hold credentials.
 *
 *     struct provider_ask ask = {.operation = PROVIDER_CREATE, .inputs = inputs, .credentials = credentials};
 *     provider_request(provider, &ask, arena, &request, &err)      ->  POST https://..., headers, body, auth
 *     provider_reply(provider, &ask, &reply, arena, &result)       ->  result.outcome, result.values, result.machines
 *
 * Templates in a file are typed. "$name" is the input with its type; "a-${name|trunc(20)}" is text. A value is encoded
 * for its place (JSON, form, query, path segment or header), so that no value can change the text around it. A value
 * that cannot be encoded there (an empty path segment, a line feed in a header) is refused. docs/adding-a-provider.md
 * describes the whole file.
 *
 * Limits: a reply has at most PROVIDER_REPLY_MAX bytes, DOC_MAX_DEPTH levels (XML: 256) and PROVIDER_ITEMS_MAX
 * machines; text quoted from a reply has at most PROVIDER_TEXT_MAX bytes. XML with a DTD or its own entities is
 * refused, and reading XML uses no network.
 */
#ifndef RHRUN_PROVIDER_H
#define RHRUN_PROVIDER_H

#include "rhrun/base.h"
#include "rhrun/doc.h"
#include "rhrun/wire.h"

#define PROVIDER_REPLY_MAX DOC_MAX_BYTES
#define PROVIDER_ITEMS_MAX 10000u
#define PROVIDER_TEXT_MAX 300u
#define PROVIDER_STEPS_MAX 8u
#define PROVIDER_ZONES_MAX 8u

/* The operations. Every file has create, get, list and delete; the others only if the provider has or needs them. An
 * operation is one or more steps, in order: values that a step extracts are inputs of the later steps. */
enum provider_operation {
    PROVIDER_PREPARE,    /* makes what create needs: a network, a security group. May be repeated */
    PROVIDER_CREATE,     /* one machine, or `count` machines if provider_facts.gang_max is more than 1 */
    PROVIDER_GET,        /* one machine by id */
    PROVIDER_LIST,       /* all machines of the run */
    PROVIDER_SWEEP,      /* all machines that any rhrun made in this account (gc) */
    PROVIDER_DELETE,     /* one machine by id; "not found" is success */
    PROVIDER_POLL,       /* the state of an operation that the provider still carries out, by `operation` */
    PROVIDER_KEY_CREATE, /* registers the public key; extracts key */
    PROVIDER_KEY_LIST,   /* extracts key if a key of that name is registered */
    PROVIDER_KEY_DELETE, /* by key */
    PROVIDER_STOCK,      /* what is available now: an offer for each type and region */
    PROVIDER_CLEANUP,    /* removes what prepare made, once no machine is left */
    PROVIDER_OPERATIONS  /* how many there are */
};
const char *provider_operation_name(enum provider_operation operation); /* as in the file: "key_create" */
/* The inputs that templates of this operation may name, NULL-terminated. A step may also name values that prepare or
 * earlier steps of the operation extract, and names of the file's `public`.
 *
 * A caller gives all inputs that it has; the file uses those that it needs, and provider_request names a missing one.
 * Every create gets: run (0-9, a-z, "-"; at most 20 characters, because names are short), owner, name, node and count
 * (integers; count is 1 if gang_max is 1), type, region, image, user, public_key, key (of key_create or key_list),
 * token (a UUID), expires (seconds since 1970), max_seconds (both integers), spot (a boolean), and, if known, zone,
 * disk_gb, user_data, gpu, gpu_count, max_price. Every other operation gets: run, owner, the region and zone in
 * question, and the id of the machine. */
const char *const *provider_inputs(enum provider_operation operation);

/* ---- loading ---- */
struct provider; /* memory in the arena; patterns are released by provider_destroy */

/* By name: the user's file if there is one, else the built-in one. -1 with diagnostics and err (ERROR_SPEC) for a
 * faulty file; for an unknown name err alone, with the nearest name in the hint. */
int provider_load(const char *name, struct arena *arena, struct provider **ret_provider,
                  struct diagnostics *diagnostics, struct error *err);
int provider_load_file(const char *path, struct arena *arena, struct provider **ret_provider,
                       struct diagnostics *diagnostics, struct error *err);
int provider_load_text(const char *source_name, const char *text, size_t len, struct arena *arena,
                       struct provider **ret_provider, struct diagnostics *diagnostics, struct error *err);
void provider_destroy(struct provider *provider); /* takes NULL */
/* Names of the built-in files and the user's files, sorted, without duplicates, NULL-terminated. */
const char *const *provider_list(struct arena *arena);
/* The text of a built-in file (NULL: there is none), and of schema/provider.schema.json. */
const char *provider_builtin(const char *name, size_t *ret_len);
const char *provider_schema_text(size_t *ret_len);

/* ---- facts about a provider, for the life cycle of machines ---- */
enum provider_idem {
    PROVIDER_IDEM_TOKEN, /* a second create with the same `token` makes no second machine */
    PROVIDER_IDEM_NAME,  /* names are unique: a second create fails with class `exists`, and list finds the machine to
                            adopt */
    PROVIDER_IDEM_LIST,  /* only list tells whether a machine was made; wait for settle_ms first */
    PROVIDER_IDEM_NONE,  /* not even list can be relied on */
};
enum provider_deadline {
    PROVIDER_DEADLINE_NONE,        /* it ends only when rhrun deletes it, from this machine or another */
    PROVIDER_DEADLINE_SERVER,      /* the provider deletes it at max_seconds */
    PROVIDER_DEADLINE_SHUTDOWN,    /* a shutdown inside it deletes it */
    PROVIDER_DEADLINE_SELF_DELETE, /* a request from inside it deletes it */
    PROVIDER_DEADLINE_KILL_PID1,   /* it ends when its first process ends */
};
enum provider_billing { PROVIDER_BILLS_FULLY, PROVIDER_BILLS_DISK, PROVIDER_BILLS_NOTHING };
struct provider_facts {
    const char *name;        /* "hetzner" */
    const char *title;       /* "Hetzner Cloud" */
    const char *user;        /* the login name on the usual image */
    const char *connect;     /* "ssh" or "docker" (exec through the engine) */
    enum provider_idem idem;
    enum provider_deadline deadline;
    enum provider_billing billing_when_stopped;
    bool spot;               /* has spot machines */
    bool stoppable;          /* a machine that is stopped may be started again */
    uint32_t gang_max;       /* how many machines one create can make, all or none; 1: one */
    uint64_t settle_ms;      /* how long list may miss a created machine */
    uint64_t late_ms;        /* how long after its timeout a create may still be carried out; 0: not given */
    uint64_t poll_ms;        /* between two lists while a machine is coming */
    uint64_t ready_ms;       /* how long a machine may take to become ready; after that it is given back */
    uint64_t user_data_max;  /* bytes before any encoding; 0: the provider takes none */
    uint32_t name_max;       /* bytes of a machine's name */
    const char *image;       /* default image; NULL: the caller gives one, or prepare finds it */
    const char *image_gpu;   /* the same for machines with an accelerator; NULL: image */
    /* what the names of zones end in ("a" of "us-east1-a"), if a create must name a zone; zone_count 0: it need not */
    const char *zones[PROVIDER_ZONES_MAX];
    size_t zone_count;
    /* its machines are free and all of this one type; NULL: they have prices */
    const char *free_type, *free_region;
    const char *console;     /* where a person can check for machines that are left: an address, or a command */
    struct wire_notice notice; /* how a machine learns that the provider takes it back; address 0: it cannot */
    const char *risk;        /* what happens to a machine when the machine that runs rhrun dies; one sentence */
};
const struct provider_facts *provider_facts(const struct provider *provider);
bool provider_has(const struct provider *provider, enum provider_operation operation);
size_t provider_steps(const struct provider *provider, enum provider_operation operation); /* 0: the provider lacks the
                                                                                              operation */

/* ---- credentials ---- */
struct provider_credentials; /* opaque, with its own memory: only requests read the secrets */

enum provider_found {
    PROVIDER_FOUND,   /* *ret_credentials is the caller's */
    PROVIDER_EXEC,    /* run ret_exec (argv, NULL-terminated) and give its output to provider_credentials_take */
    PROVIDER_MISSING, /* err names each variable and file that was tried, never a value */
};
/* Tries the sources that the file lists, in order. A source that has only some of the credentials is an error that
 * names the missing ones, not a reason to try the next. A provider that needs no credentials gives an empty set. */
enum provider_found provider_credentials_find(const struct provider *provider, struct arena *arena,
                                              struct provider_credentials **ret_credentials,
                                              const char *const **ret_exec, struct error *err);
/* Reads the output of the program of PROVIDER_EXEC. */
int provider_credentials_take(const struct provider *provider, const char *output, size_t len,
                              struct provider_credentials **ret_credentials, struct error *err);
void provider_credentials_destroy(struct provider_credentials *credentials); /* takes NULL; overwrites the secrets */
const char *provider_credentials_source(const struct provider_credentials *credentials); /* "HCLOUD_TOKEN" */
/* A salted digest that tells accounts apart. It covers the provider's address and the lasting parts of the credentials.
 * For credentials from a program or a sign-on, which change daily, it covers only their public names (the project, say)
 * and AWS_PROFILE. */
void provider_account_digest(const struct provider *provider, const struct provider_credentials *credentials,
                             const char *salt, char ret[65]);
/* Replaces each secret of at least 6 bytes in text by "***", in place: for text from outside. */
void provider_redact(const struct provider_credentials *credentials, char *text);

/* ---- requests ---- */
struct provider_ask {
    enum provider_operation operation;
    size_t step;                                    /* below provider_steps */
    const struct doc_node *inputs;                  /* an object: name -> value; NULL: none. Unknown names are
                                                       ignored */
    const struct provider_credentials *credentials; /* NULL: no auth in requests, no redaction of replies */
    const char *page;                               /* provider_result.next of the last reply; NULL: the first page */
    const char *access_token;                       /* from provider_token_reply, if auth wants one; NULL: none yet */
};

enum provider_auth_kind {
    PROVIDER_AUTH_NONE,
    PROVIDER_AUTH_BEARER, /* value: "Authorization: Bearer VALUE" */
    PROVIDER_AUTH_BASIC,  /* user and value */
    PROVIDER_AUTH_HEADER, /* header: VALUE */
    PROVIDER_AUTH_SIGV4,  /* user is the access key, value the secret key; service, region; session may be NULL */
    PROVIDER_AUTH_MTLS,   /* certificate, key and ca are files */
};
struct provider_auth {
    enum provider_auth_kind kind;
    const char *header, *user, *value;       /* user and value are secrets */
    const char *service, *region, *session;  /* sigv4; session is a secret */
    const char *certificate, *key, *ca;      /* mtls: paths */
};
struct provider_header {
    const char *name, *value;
};
struct provider_request {
    const char *method; /* "GET" */
    const char *url;    /* whole, with its query */
    const char *socket; /* the unix socket to use; NULL: none */
    struct provider_header *headers;
    size_t header_count;
    const char *body;   /* NULL: none */
    size_t body_len;
    struct provider_auth auth;
    const char *group;    /* within this process, requests of one group and account are sent at least interval_ms
                             apart */
    uint64_t interval_ms;
    bool secret;          /* the body holds a secret: it is never logged */
    bool repeatable;      /* it changes nothing, so it may be sent twice, even if it is a POST */
};
/* False: these inputs do not need this step (`when` and `unless` in the file); go on with the next. */
bool provider_step_due(const struct provider *provider, const struct provider_ask *ask);
/* Describes the request in the arena. -1: an input is missing (err names it) or cannot be encoded in its place, or the
 * reply will be XML and libxml2 is not installed (ERROR_IO). If auth wants a token that ask lacks, err->why is
 * ERROR_WHY_CREDENTIALS. */
int provider_request(const struct provider *provider, const struct provider_ask *ask, struct arena *arena,
                     struct provider_request *ret_request, struct error *err);

/* oauth2: an access token must be requested first. provider_wants_token is false if the credentials are sent as they
 * are. */
bool provider_wants_token(const struct provider *provider, const struct provider_credentials *credentials);
int provider_token_request(const struct provider *provider, const struct provider_credentials *credentials,
                           uint64_t now_s, struct arena *arena, struct provider_request *ret_request,
                           struct error *err);

/* The version of libxml2 that rhrun is built for, "2.9.14"; NULL and err (ERROR_IO): libxml2 cannot be loaded. */
const char *provider_xml_version(struct error *err);

/* ---- replies ---- */
struct provider_reply {
    int status;  /* HTTP status; 0: no reply came (timeout, connection lost) */
    bool unsent; /* with status 0: no byte of the request has left, so nothing was done */
    const struct provider_header *headers; /* names in any case */
    size_t header_count;
    const char *body;
    size_t body_len;
    uint64_t now_s; /* wall clock, for Retry-After dates; 0: such dates are ignored */
};
enum provider_class {
    PROVIDER_CLASS_NONE,
    PROVIDER_CLASS_AUTH,      /* credentials or permissions */
    PROVIDER_CLASS_QUOTA,     /* this account may not have more machines */
    PROVIDER_CLASS_CAPACITY,  /* not available to anybody now */
    PROVIDER_CLASS_INVALID,   /* the request is wrong, and a retry cannot help */
    PROVIDER_CLASS_EXISTS,    /* something of that name exists */
    PROVIDER_CLASS_NOTFOUND,
    PROVIDER_CLASS_THROTTLED,
    PROVIDER_CLASS_TRANSIENT, /* may work when retried; also every error without a rule */
    PROVIDER_CLASS_BUDGET,    /* spending limit, unpaid bill */
};
enum provider_scope { /* how much of the offers a fault excludes */
    PROVIDER_SCOPE_NONE, PROVIDER_SCOPE_ZONE, PROVIDER_SCOPE_REGION, PROVIDER_SCOPE_TYPE, PROVIDER_SCOPE_PROVIDER,
    PROVIDER_SCOPE_RUN,
};
const char *provider_class_name(enum provider_class class);
const char *provider_scope_name(enum provider_scope scope);

enum provider_state {
    PROVIDER_STATE_COMING, /* status in none of the file's sets: the machine is coming */
    PROVIDER_STATE_READY,  /* runs, and has all fields that the file requires (an address) */
    PROVIDER_STATE_FAILED, /* will never be ready; it may still bill, so it must be deleted */
    PROVIDER_STATE_GONE,   /* deleted: no longer billed */
};
struct provider_machine { /* all text; NULL: the reply does not say */
    const char *id, *name;
    const char *status;            /* the provider's own word */
    const char *reason;            /* why it is in that state */
    const char *public_ip, *private_ip, *port, *zone, *type;
    const char *run, *node, *owner, *expires; /* from its tags or its name */
    const char *price;             /* USD per hour */
    enum provider_state state;
};
/* From stock: text exactly as in the reply, even if it makes no sense; NULL: not given. */
struct provider_offer {
    const char *type, *region;
    /* Per hour for one machine, decimal if the reply has a number; in US dollars, or in the currency of the value
     * `currency`. */
    const char *price, *spot_price;
    const char *accelerator; /* as the provider calls it: "H100", "nvidia_h100" */
    const char *accelerator_form, *gpu_memory_gib; /* given along with the name: "SXM5", "80" */
    const char *count, *vcpus, *memory_gib;
};
enum provider_outcome {
    PROVIDER_DONE,    /* values, machines and next are set */
    PROVIDER_PENDING, /* the provider is still working: ask PROVIDER_POLL with `operation` from values until done */
    PROVIDER_FAILED,  /* class, scope, code and message are set */
};
struct provider_result {
    enum provider_outcome outcome;
    struct doc_node *values; /* an object with the extracted values, which are inputs of later steps; never NULL */
    struct provider_machine *machines; /* of create, get, list, sweep */
    size_t machine_count;
    struct provider_offer *offers;
    size_t offer_count;
    const char *next; /* provider_ask.page for the request of the next page; NULL: there are no more pages */
    enum provider_class class;
    enum provider_scope scope;
    const char *code, *message; /* the provider's words, bounded, printable, redacted; NULL or "" if it gave none */
    uint64_t retry_after_ms;    /* 0: not given */
    /* The request may have been carried out all the same: no reply, a 5xx, or an unreadable reply. Never send it again
     * before a list. An error whose values have an id also left a machine. */
    bool unsure;
};
/* Always sets a result: an unreadable reply is FAILED with class transient, unsure. */
void provider_reply(const struct provider *provider, const struct provider_ask *ask,
                    const struct provider_reply *reply, struct arena *arena, struct provider_result *ret_result);
/* The reply to a token request: 0 and the token with its lifetime in seconds, or -1; the token is never in the
 * error. */
int provider_token_reply(const struct provider *provider, const struct provider_credentials *credentials,
                         const struct provider_reply *reply, struct arena *arena, const char **ret_token,
                         uint64_t *ret_life_s, struct error *err);

#endif
