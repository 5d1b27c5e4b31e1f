/*
 * spec: a validated document as typed data, with its overrides applied, and the ${{ }} expressions.
 *
 * spec_load does the whole way: read, apply --set, check against schema/job.schema.json (embedded), bind
 * params, check the rules that cross keys (two forms of cluster, nnodes against hosts, unknown param, a
 * relative script without a place to find it), resolve `env` and paths. All faults of all these stages
 * are collected in one struct diagnostics where the document's shape still allows it; nothing is touched.
 *
 * Text that may hold ${{ }} is kept as struct spec_text and expanded late, with what is known then:
 * params, env, args and job when planning; node and run when a step starts; rank, local_rank and
 * world_size for a worker. Keys are computed over the expansion at plan time with the late names left as
 * they are written, so a host's name or a rank never makes a step stale.
 *
 * Everything lives in one arena that spec_load is given; it is frozen afterwards.
 */
#ifndef RHRUN_SPEC_H
#define RHRUN_SPEC_H

#include "rhrun/base.h"
#include "rhrun/doc.h"

struct spec_text {
    const char *text;   /* as written; NULL = not given */
    struct place place;
    bool has_expr;      /* contains ${{ */
};
struct spec_texts {
    struct spec_text *items;
    size_t count;
};

enum spec_type { SPEC_STRING, SPEC_INTEGER, SPEC_NUMBER, SPEC_BOOLEAN };
struct spec_param {
    const char *name;
    enum spec_type type;
    const char *value;   /* source text of the bound value */
    bool given;          /* by -p; else the default */
    struct place place;
};
struct spec_env {
    const char *name;
    struct spec_text value; /* for from_caller: the caller's value */
    bool from_caller;       /* an empty value in the spec: taken from the caller, required */
};
struct spec_secret {
    const char *name;
    const char *value;    /* resolved by spec_resolve_secrets, never before; never printed */
    const char *file;     /* read from this file (one trailing newline dropped), or NULL */
    struct spec_texts command; /* or from this argv's stdout */
    bool optional;
    const char *to;       /* name in the worker's environment; default: name */
    struct place place;
};

enum spec_nproc_kind { NPROC_COUNT, NPROC_CPU, NPROC_GPU, NPROC_AUTO };
struct spec_nproc {
    enum spec_nproc_kind kind;
    uint32_t count; /* NPROC_COUNT */
};

enum spec_transport { SPEC_TRANSPORT_AUTO, SPEC_TRANSPORT_SSH, SPEC_TRANSPORT_OPENSSH, SPEC_TRANSPORT_LOCAL, SPEC_TRANSPORT_SIM };
struct spec_host {
    const char *name;   /* as written; what messages call it; "local" or "local-1" on this machine */
    const char *host, *user;
    uint32_t port;      /* 0 = ssh's configuration decides */
    const char *identity_file, *proxy_jump, *known_hosts, *ssh_config; /* NULL = not given; paths made absolute */
    const char *address; /* what other nodes call it; NULL = derived at run time */
    const char *work_dir; /* LOCAL: the spec's folder, in place; NULL = the job's own folder on the node */
    enum spec_transport transport;
    bool has_nproc;
    struct spec_nproc nproc;
    struct place place;
};

enum spec_on_kind { ON_ALL, ON_FIRST, ON_LIST };
struct spec_step { /* an item of setup; this version knows `run` */
    const char *name;      /* given, or derived and unique: "run-1" */
    struct spec_text run;  /* shell */
    struct spec_texts inputs; /* glob patterns relative to the working directory */
    struct spec_text creates;
    enum spec_on_kind on;
    uint32_t *on_nodes;    /* ON_LIST */
    size_t on_count;
    uint32_t retry_times;  /* further attempts after the first */
    uint64_t retry_backoff_ms;
    bool on_unknown_fail;  /* on_unknown: fail; default redo, with a warning */
    uint64_t timeout_ms;   /* 0 = none */
    struct place place;
};

struct spec_distributed {
    bool present;
    uint32_t nnodes;   /* resolved: given, or all listed hosts */
    struct spec_nproc nproc;
    const char *launcher; /* "native" */
    uint32_t max_restarts;
    uint32_t master_port; /* 0 = a free one */
    struct place place;
};

enum spec_entry_kind { ENTRY_SCRIPT, ENTRY_MODULE, ENTRY_COMMAND, ENTRY_RUN };
struct spec_entrypoint {
    enum spec_entry_kind kind;
    struct spec_text target;   /* script path, module name, shell text */
    struct spec_texts command; /* ENTRY_COMMAND: argv */
    struct spec_texts args;    /* split already when given as one string; pass-through ARGs are appended */
    struct spec_env *env;
    size_t env_count;
    struct spec_text cwd, prolog, epilog;
    uint64_t timeout_ms;
    bool always;
    struct place place;
};

struct spec {
    const char *path;      /* as the user named it */
    const char *real_path; /* absolute, links resolved: finds the file again from another folder */
    const char *dir;       /* absolute folder of the spec file */
    const char *name;      /* job name */
    const char *origin;    /* git remote + path in the repository, else the absolute path */
    const char *hash;      /* SHA-256 hex of the canonical document after overrides */
    const char *variant;   /* 16 hex: name, origin, params and args */
    bool local;            /* this machine, the spec's folder in place */
    struct spec_host *hosts; /* the slots' hosts, in order: at least nnodes; on this machine nnodes of them */
    size_t host_count;
    struct spec_param *params;
    size_t param_count;
    struct spec_env *env;
    size_t env_count;
    struct spec_secret *secrets;
    size_t secret_count;
    struct spec_step *setup;
    size_t setup_count;
    struct spec_text activate;
    struct spec_distributed distributed;
    uint32_t nnodes;       /* nodes that take part: distributed.nnodes, else all hosts (set-up on all, the one process on node 0) */
    struct spec_entrypoint entrypoint;
    const char *const *args; /* pass-through ARGs, as given */
    size_t arg_count;
    const struct doc *doc;            /* the source */
    const struct doc_node *resolved;  /* normalised document: overrides applied, defaults filled in (rhrun show) */
};

struct spec_overrides {
    const char *const *sets;   /* "a.b=VALUE", VALUE read as an unquoted YAML scalar or flow value */
    size_t set_count;
    const char *const *params; /* "name=value" */
    size_t param_count;
    const char *on;            /* --on local | NAME | user@host,... or NULL: replaces cluster; hosts keep its user, identity_file, ... */
    const char *const *args;   /* behind `--` */
    size_t arg_count;
    bool identity_only;        /* only name, origin and path are wanted: nothing is checked or bound, and nothing of the
                                * caller's environment is needed (status, logs and cancel of a spec) */
};

/* 0 and *ret_spec, or -1: diagnostics has the faults, err a summary ("job.yaml: 3 faults"). environ is asked for
 * `env` values taken from the caller. Never reads secrets. */
int spec_load(const char *path, const struct spec_overrides *overrides, struct arena *arena, struct spec **ret_spec,
              struct diagnostics *diagnostics, struct error *err);
/* Reads the secrets' values (environment, file, command). -1 names the first that is missing and how to give it. */
int spec_resolve_secrets(struct spec *spec, struct arena *arena, struct error *err);
/* The embedded schema's text (NUL-terminated). */
const char *spec_schema_text(void);

/* ---- expressions ---- */
enum expr_status { EXPR_OK, EXPR_LATE /* needs a name that is not known yet */, EXPR_FAILED };
struct expr_context {
    const struct spec *spec;  /* params, env, job.name, args */
    bool has_node;            /* node.rank, node.name, node.address, nnodes; a name or address that is NULL is late */
    uint32_t node_rank;
    const char *node_name, *node_address;
    bool has_rank;            /* rank, local_rank, world_size, local_world_size */
    uint32_t rank, local_rank, world_size, local_world_size;
    const char *run;          /* run.id, or NULL */
};
enum expr_mode {
    EXPR_PLAIN, /* values as they are: one argv element or env value */
    EXPR_SHELL, /* the text is shell: a value is escaped for the quotes in which it stands, so it is always data */
};
/* Expands all ${{ }} of text. EXPR_LATE: with keep_late the late ones stay, with the params, env and job that they name
 * filled in (so that a changed param changes the text), and EXPR_OK is returned. EXPR_SHELL fails where a value cannot be
 * inserted as data. err has what is wrong; the caller adds the place. *ret is allocated in the arena. */
enum expr_status expr_expand(const struct spec_text *text, enum expr_mode mode, const struct expr_context *ctx,
                             bool keep_late, struct arena *arena, const char **ret, struct error *err);

#endif
