/*
 * provider: what a provider of machines is asked, and what its answers mean; as data.
 *
 * A provider is one YAML file (providers/NAME.yaml, built in; $XDG_CONFIG_HOME/rhrun/providers/NAME.yaml wins). It
 * says for each operation which request is sent and how the reply is read. This module turns (provider, operation,
 * inputs) into a described request, and (provider, operation, status, headers, body) into values, machines or an
 * error of a class. It sends nothing and waits for nothing: whoever has the network (module http) sends what is
 * described here. It reads two kinds of file only: provider files and the files that hold credentials.
 *
 *     struct provider_ask ask = {.operation = PROVIDER_CREATE, .inputs = inputs, .credentials = credentials};
 *     provider_request(provider, &ask, arena, &request, &err)      ->  POST https://..., headers, body, auth
 *     provider_reply(provider, &ask, &reply, arena, &result)       ->  result.outcome, result.values, result.machines
 *
 * Templates of a file are typed. "$name" is the input with its type; "a-${name|trunc(20)}" is text. A value
 * becomes a JSON value, a form value, a query value, a path segment or a header value by the rules of that place,
 * so that no value changes what stands around it. What has no spelling there (an empty path segment, a line feed
 * in a header) is refused. docs/adding-a-provider.md describes the whole file.
 *
 * Limits: a reply has at most PROVIDER_REPLY_MAX bytes, DOC_MAX_DEPTH levels (XML: 256) and PROVIDER_ITEMS_MAX
 * machines; text that is told of a reply at most PROVIDER_TEXT_MAX bytes. XML has no DTD, no entities of its own
 * and no network.
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

/* What may be asked. A file has create, get, list and delete; the rest where the provider has or needs it. An
 * operation is one step, or several in order: what a step extracts is an input of the steps after it. */
enum provider_operation {
    PROVIDER_PREPARE,    /* what must be there before create: a network, a security group. May be repeated */
    PROVIDER_CREATE,     /* one machine, or `count` of them where provider_facts.gang_max says so */
    PROVIDER_GET,        /* one machine by id */
    PROVIDER_LIST,       /* all machines of the run */
    PROVIDER_SWEEP,      /* all machines that any rhrun of this account made (gc) */
    PROVIDER_DELETE,     /* one machine by id; "there is none" is success */
    PROVIDER_POLL,       /* an operation that goes on at the provider, by `operation` */
    PROVIDER_KEY_CREATE, /* the public key; extracts key */
    PROVIDER_KEY_LIST,   /* extracts key where a key of that name is there */
    PROVIDER_KEY_DELETE, /* by key */
    PROVIDER_STOCK,      /* what can be had now: an offer for each type and region */
    PROVIDER_CLEANUP,    /* takes away what prepare made, once no machine is left */
    PROVIDER_OPERATIONS  /* how many there are */
};
const char *provider_operation_name(enum provider_operation operation); /* as the file has it: "key_create" */
/* The inputs that templates of this operation may name, NULL-terminated. Steps may also name what earlier
 * steps of it, or prepare, extract; and what `public` of the file names.
 *
 * A caller gives all that it has; a file takes what it needs, and a request says which one is missing. To each
 * create belong: run (0-9, a-z, "-"; at most 20, for names have little room), owner, name, node and count
 * (integers; count is 1 where gang_max is), type, region, image, user, public_key, key (of key_create or
 * key_list), token (a UUID), expires (seconds since 1970), max_seconds (both integers), spot (a boolean), and
 * zone, disk_gb, user_data, gpu, gpu_count, max_price where they are known. To all others: run, owner, region and
 * zone of what is asked for, and the id of the machine. */
const char *const *provider_inputs(enum provider_operation operation);

/* ---- loading ---- */
struct provider; /* memory in the arena; patterns are released by provider_destroy */

/* By name: the user's file where there is one, else the built-in one. -1 with diagnostics and err (ERROR_SPEC) for a
 * faulty file; for a name that nobody has, err alone, with the nearest name in the hint. */
int provider_load(const char *name, struct arena *arena, struct provider **ret_provider,
                  struct diagnostics *diagnostics, struct error *err);
int provider_load_file(const char *path, struct arena *arena, struct provider **ret_provider,
                       struct diagnostics *diagnostics, struct error *err);
int provider_load_text(const char *source_name, const char *text, size_t len, struct arena *arena,
                       struct provider **ret_provider, struct diagnostics *diagnostics, struct error *err);
void provider_destroy(struct provider *provider); /* takes NULL */
/* Names of the built-in files and of the user's, sorted, without doubles, NULL-terminated. */
const char *const *provider_list(struct arena *arena);
/* The text of a built-in file, NULL where there is none; and of schema/provider.schema.json. */
const char *provider_builtin(const char *name, size_t *ret_len);
const char *provider_schema_text(size_t *ret_len);

/* ---- what the life cycle reads ---- */
enum provider_idem {
    PROVIDER_IDEM_TOKEN, /* the same `token` makes no second machine */
    PROVIDER_IDEM_NAME,  /* a name is there once: create answers class `exists`, and list finds the machine to adopt */
    PROVIDER_IDEM_LIST,  /* nothing but list tells; wait for settle_ms first */
    PROVIDER_IDEM_NONE,  /* not even list is sure */
};
enum provider_deadline {
    PROVIDER_DEADLINE_NONE,        /* nothing but this machine, or another one, ends it */
    PROVIDER_DEADLINE_SERVER,      /* the provider deletes it at max_seconds */
    PROVIDER_DEADLINE_SHUTDOWN,    /* a shutdown inside it deletes it */
    PROVIDER_DEADLINE_SELF_DELETE, /* a request from inside it deletes it */
    PROVIDER_DEADLINE_KILL_PID1,   /* it is gone when its first process ends */
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
    bool spot;               /* has interruptible machines */
    bool stoppable;          /* a machine that is stopped may be started again */
    uint32_t gang_max;       /* machines that one create makes, all or none; 1: one */
    uint64_t settle_ms;      /* how long list may not show what create made */
    uint64_t late_ms;        /* how long a create may be done that nobody awaits any more; 0: not said */
    uint64_t poll_ms;        /* between two looks at a machine that is coming */
    uint64_t ready_ms;       /* how long that may take, usually; past it the machine is given back */
    uint64_t user_data_max;  /* bytes before any encoding; 0: the provider takes none */
    uint32_t name_max;       /* bytes of a machine's name */
    const char *image;       /* default image; NULL: must be given, or prepare finds it */
    const char *image_gpu;   /* the same for machines with an accelerator; NULL: image */
    /* what its regions' zones end in ("a" of "us-east1-a"), for a create must name one; zone_count 0: it need not */
    const char *zones[PROVIDER_ZONES_MAX];
    size_t zone_count;
    /* its machines cost nothing and are of this one kind; NULL: they have prices */
    const char *free_type, *free_region;
    const char *console;     /* where a person sees what is left: an address, or a command */
    struct wire_notice notice; /* how a machine hears that it is taken back; address 0: there is no such way */
    const char *risk;        /* what happens to a machine when rhrun's own machine dies; one sentence */
};
const struct provider_facts *provider_facts(const struct provider *provider);
bool provider_has(const struct provider *provider, enum provider_operation operation);
size_t provider_steps(const struct provider *provider, enum provider_operation operation); /* 0: has it not */

/* ---- credentials ---- */
struct provider_credentials; /* opaque: only requests read the secrets; own memory */

enum provider_found {
    PROVIDER_FOUND,   /* *ret_credentials is the caller's */
    PROVIDER_EXEC,    /* ret_exec is to be run (argv, NULL-terminated); provider_credentials_take reads its output */
    PROVIDER_MISSING, /* err names each variable and file that was looked at, never a value */
};
/* Looks through the sources of the file in their order. A source that is there in part only is an error that names the
 * rest, not a reason to go on. A provider that needs none gives empty credentials. */
enum provider_found provider_credentials_find(const struct provider *provider, struct arena *arena,
                                              struct provider_credentials **ret_credentials,
                                              const char *const **ret_exec, struct error *err);
/* What the program of PROVIDER_EXEC printed. */
int provider_credentials_take(const struct provider *provider, const char *output, size_t len,
                              struct provider_credentials **ret_credentials, struct error *err);
void provider_credentials_destroy(struct provider_credentials *credentials); /* takes NULL; overwrites the secrets */
const char *provider_credentials_source(const struct provider_credentials *credentials); /* "HCLOUD_TOKEN" */
/* Tells accounts apart: of the provider's address and of what stays the same in the credentials from day to day (of
 * those of a program, or of a sign-on, only the public names: the project, say; and AWS_PROFILE), under a salt. */
void provider_account_digest(const struct provider *provider, const struct provider_credentials *credentials,
                             const char *salt, char ret[65]);
/* Replaces each secret in text (of at least 6 bytes) by "***", in place: for what comes from outside. */
void provider_redact(const struct provider_credentials *credentials, char *text);

/* ---- requests ---- */
struct provider_ask {
    enum provider_operation operation;
    size_t step;                                    /* below provider_steps */
    const struct doc_node *inputs;                  /* an object: name -> value; NULL: none. Unknown ones are ignored */
    const struct provider_credentials *credentials; /* NULL: requests get no auth, and replies are not redacted */
    const char *page;                               /* provider_result.next of the reply before; NULL: the first page */
    const char *access_token;                       /* of provider_token_reply, if auth wants one; NULL: none yet */
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
    const char *socket; /* a unix socket to send it through; NULL: none */
    struct provider_header *headers;
    size_t header_count;
    const char *body;   /* NULL: none */
    size_t body_len;
    struct provider_auth auth;
    const char *group;    /* requests of one group of one account keep interval_ms apart, in all of this process */
    uint64_t interval_ms;
    bool secret;          /* the body holds a secret: it is never logged */
    bool repeatable;      /* it only asks, so it may be sent twice, also where it is a POST */
};
/* False: this step is not needed with these inputs (`when` and `unless` of the file), so go on with the next. */
bool provider_step_due(const struct provider *provider, const struct provider_ask *ask);
/* Describes the request in the arena. -1: an input is missing (the error names it) or has no spelling where it
 * stands, or its reply is XML and libxml2 is not there (ERROR_IO); nothing is to be sent then. Where auth wants a
 * token that ask lacks: err->why is ERROR_WHY_CREDENTIALS. */
int provider_request(const struct provider *provider, const struct provider_ask *ask, struct arena *arena,
                     struct provider_request *ret_request, struct error *err);

/* oauth2: an access token is asked for first. wants is false where the credentials are sent as they are. */
bool provider_wants_token(const struct provider *provider, const struct provider_credentials *credentials);
int provider_token_request(const struct provider *provider, const struct provider_credentials *credentials,
                           uint64_t now_s, struct arena *arena, struct provider_request *ret_request,
                           struct error *err);

/* The version of libxml2 that this is built for, "2.9.14"; NULL and err (ERROR_IO): it is not there to be loaded. */
const char *provider_xml_version(struct error *err);

/* ---- replies ---- */
struct provider_reply {
    int status;  /* of HTTP; 0: no reply came (timeout, connection lost) */
    bool unsent; /* with status 0: nothing of the request has left, so nothing was done */
    const struct provider_header *headers; /* names in any case */
    size_t header_count;
    const char *body;
    size_t body_len;
    uint64_t now_s; /* wall clock, for Retry-After dates; 0: those are ignored */
};
enum provider_class {
    PROVIDER_CLASS_NONE,
    PROVIDER_CLASS_AUTH,      /* credentials or permissions */
    PROVIDER_CLASS_QUOTA,     /* this account may not have more */
    PROVIDER_CLASS_CAPACITY,  /* nobody can have it now */
    PROVIDER_CLASS_INVALID,   /* the request is wrong and stays wrong */
    PROVIDER_CLASS_EXISTS,    /* a thing of that name is there */
    PROVIDER_CLASS_NOTFOUND,
    PROVIDER_CLASS_THROTTLED,
    PROVIDER_CLASS_TRANSIENT, /* may work when asked again; what no rule knows */
    PROVIDER_CLASS_BUDGET,    /* spend limit, unpaid */
};
enum provider_scope { /* what is not to be tried next */
    PROVIDER_SCOPE_NONE, PROVIDER_SCOPE_ZONE, PROVIDER_SCOPE_REGION, PROVIDER_SCOPE_TYPE, PROVIDER_SCOPE_PROVIDER,
    PROVIDER_SCOPE_RUN,
};
const char *provider_class_name(enum provider_class class);
const char *provider_scope_name(enum provider_scope scope);

enum provider_state {
    PROVIDER_STATE_COMING, /* none of the sets below has it: it is on its way */
    PROVIDER_STATE_READY,  /* runs, and has all that the file says it must have (an address) */
    PROVIDER_STATE_FAILED, /* never gets ready; it may still bill, so it is to be deleted */
    PROVIDER_STATE_GONE,   /* deleted: bills no more */
};
struct provider_machine { /* all text; NULL: the reply does not say */
    const char *id, *name;
    const char *status;            /* the provider's own word */
    const char *reason;            /* why it is in that state */
    const char *public_ip, *private_ip, *port, *zone, *type;
    const char *run, *node, *owner, *expires; /* of its tags, or of its name */
    const char *price;             /* USD per hour */
    enum provider_state state;
};
/* Of stock: text as the reply has it, also where it makes no sense; NULL: not told. */
struct provider_offer {
    const char *type, *region;
    /* Per hour of one machine, decimal where the reply has a number: in US dollars, or what the value `currency`
     * says. */
    const char *price, *spot_price;
    const char *accelerator; /* as the provider calls it: "H100", "nvidia_h100" */
    const char *accelerator_form, *gpu_memory_gib; /* what its name is told with: "SXM5", "80" */
    const char *count, *vcpus, *memory_gib;
};
enum provider_outcome {
    PROVIDER_DONE,    /* values, machines and next are good */
    PROVIDER_PENDING, /* goes on at the provider: ask PROVIDER_POLL with `operation` of values until done */
    PROVIDER_FAILED,  /* class, scope, code, message */
};
struct provider_result {
    enum provider_outcome outcome;
    struct doc_node *values; /* an object: what extract found, as inputs of later steps; never NULL */
    struct provider_machine *machines; /* of create, get, list, sweep */
    size_t machine_count;
    struct provider_offer *offers;
    size_t offer_count;
    const char *next; /* there is another page: provider_ask.page of the next request; else NULL */
    enum provider_class class;
    enum provider_scope scope;
    const char *code, *message; /* the provider's words, bounded, printable, redacted; NULL or "" where it gave none */
    uint64_t retry_after_ms;    /* 0: it does not say */
    /* The request may have been done all the same: no reply, a 5xx, or a reply that cannot be read. Never sent again
     * before a list. An error whose values hold an id left a machine, too. */
    bool unsure;
};
/* Always judges: what cannot be read is an outcome FAILED of class transient, unsure. */
void provider_reply(const struct provider *provider, const struct provider_ask *ask,
                    const struct provider_reply *reply, struct arena *arena, struct provider_result *ret_result);
/* The reply to a token request: 0 and the token with its life in seconds, or -1; the token is never in the error. */
int provider_token_reply(const struct provider *provider, const struct provider_credentials *credentials,
                         const struct provider_reply *reply, struct arena *arena, const char **ret_token,
                         uint64_t *ret_life_s, struct error *err);

#endif
