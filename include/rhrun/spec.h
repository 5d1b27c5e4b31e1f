/*
 * spec: a validated document as typed data, with its overrides applied, and the ${{ }} expressions.
 *
 * spec_load does everything: read, apply --set, check against schema/job.schema.json (embedded), bind params, check
 * rules across keys (two forms of cluster, nnodes against hosts, an unknown param, a relative script without a folder
 * to find it in), resolve `env` and paths. The faults of all these stages are collected in one struct diagnostics as
 * far as the document's shape allows; nothing is touched.
 *
 * Text that may hold ${{ }} is kept as struct spec_text and expanded as names become known: params, env, args and job
 * when planning; node and run when a step starts; rank, local_rank and world_size for a worker. Keys are computed from
 * the expansion at plan time, with late names left as written, so a host's name or a rank never makes a step stale.
 *
 * Everything lives in one arena that spec_load is given; it is frozen afterwards.
 */
#ifndef RHRUN_SPEC_H
#define RHRUN_SPEC_H

#include "rhrun/base.h"
#include "rhrun/doc.h"
#include "rhrun/torchrun.h"

struct spec_text {
    const char *text; /* as written; NULL = not given */
    struct place place;
    bool has_expr; /* contains ${{ */
};
struct spec_texts {
    struct spec_text *items;
    size_t count;
};

enum spec_type { SPEC_STRING, SPEC_INTEGER, SPEC_NUMBER, SPEC_BOOLEAN };
struct spec_param {
    const char *name;
    enum spec_type type;
    const char *value; /* source text of the bound value; of a swept param of the job itself: its default or NULL */
    bool given;        /* value is from -p; else it is the default */
    bool swept;        /* the points of the sweep give it values: spec_at_point has the point's */
    const char *chosen; /* for a swept param of the job itself: the value that -p selects points by; NULL: any */
    struct place place;
};
struct spec_env {
    const char *name;
    struct spec_text value; /* for from_caller: the caller's value */
    bool from_caller;       /* the spec's value is empty: taken from the caller, where it must be set */
};
struct spec_secret {
    const char *name;
    const char *value;         /* resolved by spec_resolve_secrets, never before; never printed */
    const char *file;          /* read from this file (one trailing newline dropped), or NULL */
    struct spec_texts command; /* or from this argv's stdout */
    bool optional;
    const char *to; /* name in the worker's environment; default: name */
    struct place place;
};

enum spec_nproc_kind { NPROC_COUNT, NPROC_CPU, NPROC_GPU, NPROC_XPU /* launcher torchrun only */, NPROC_AUTO };
struct spec_nproc {
    enum spec_nproc_kind kind;
    uint32_t count; /* NPROC_COUNT */
};

enum spec_transport {
    SPEC_TRANSPORT_AUTO,
    SPEC_TRANSPORT_SSH,
    SPEC_TRANSPORT_OPENSSH,
    SPEC_TRANSPORT_COMMAND, /* exec */
    SPEC_TRANSPORT_LOCAL,
    SPEC_TRANSPORT_SIM,
    SPEC_TRANSPORT_RENTED /* not known until the machine is rented (struct spec_rent) */
};
struct spec_devices { /* GPUs that workers see */
    const char *list; /* in the form of CUDA_VISIBLE_DEVICES: "0,1"; NULL = all GPUs of the node */
    uint32_t count;
    uint32_t highest; /* highest number + 1; 0 = they are named by UUID */
};
struct spec_node { /* what the spec wants of a node, whichever host it is on */
    bool has_nproc;
    struct spec_nproc nproc;
    struct spec_devices devices;
    struct place place; /* where the spec says so; source NULL: nowhere */
};
enum spec_pull { PULL_MISSING = 0, PULL_ALWAYS, PULL_NEVER };
/* The container on a host in which set-up and launch run; rhrun makes it (container.h). */
struct spec_container {
    const char *image;          /* in the runtime's notation, never empty */
    const char *runtime;        /* name of the program; NULL = the first that is installed */
    const char *const *options; /* options for the runtime's `run`, as written */
    size_t option_count;
    const char *const *mounts; /* SOURCE:TARGET[:OPTIONS], the source absolute or ~/... on the node */
    size_t mount_count;
    enum spec_pull pull;
    bool down;        /* the container is removed at the end of the run */
    const char *text; /* all values that, when changed, make it a different container, for digests */
};

struct wire_notice;
struct spec_host { /* the machine of a node, and how to reach it */
    const char *name; /* as written; the name in messages; "local" or "local-1" on this machine */
    const char *host, *user; /* host: with exec the name */
    const char *const *exec; /* COMMAND: a program of this machine and its arguments, which lead to a shell; ends with
                                NULL */
    const char *exec_text;   /* the same, quoted for a shell; identifies the machine */
    uint32_t port;                                                     /* 0 = ssh's configuration decides */
    const char *identity_file, *proxy_jump, *known_hosts, *ssh_config; /* NULL = not given; paths made absolute */
    const char *address;  /* its address for other nodes; NULL = derived at run time */
    const char *work_dir; /* LOCAL: the spec's folder, in place; NULL = the job's own folder on the node */
    enum spec_transport transport;
    const struct spec_container *container; /* NULL = none: the agent runs on the host itself */
    bool booting; /* rented: its sshd may still restart, and refuse connections meanwhile */
    const struct wire_notice *notice; /* of a spot machine: how it learns that it is taken back; NULL = not */
};

enum spec_spot { SPOT_NEVER, SPOT_ONLY, SPOT_PREFER };
enum spec_down { DOWN_ALWAYS, DOWN_NEVER, DOWN_IDLE };
enum { SPEC_PROVIDERS_MAX = 32, SPEC_REGIONS_MAX = 100, SPEC_RENT_WORD_MAX = 255 /* bytes */ };
struct spec_rent { /* cluster: machines that are rented for the job. Providers and catalog are not consulted here: names
                      are as written */
    const char *cluster;  /* cluster: NAME: nothing is rented; the machines belong to this cluster (its name or id),
                             which another job rented and keeps. The other fields are then empty. NULL: machines are
                             rented */
    const char *instance; /* NULL: not given (for a provider with only one kind of machine) */
    const char *const *providers; /* in the order of preference; none: cheapest */
    size_t provider_count;
    enum spec_spot spot;
    const char *const *regions; /* none: any */
    size_t region_count;
    const char *image;  /* NULL: the provider's */
    uint32_t disk_gb;   /* 0: the provider's */
    uint64_t max_price; /* micro-USD per hour for the whole cluster; 0: none */
    uint64_t max_ms;    /* max_hours; 0: none, so the machines are billed until they are given back */
    enum spec_down down;
    uint64_t idle_ms;   /* DOWN_IDLE */
    struct place place; /* of the cluster */
    struct {            /* source NULL: not given */
        struct place instance, provider, use_spot, regions, max_price;
    } at;
    const struct place *provider_places; /* one for each of providers */
    /* cluster.any_of, in order: each is the whole cluster with the alternative's own keys applied. The spec is read
     * with one of them (spec_overrides.alternative, else the first), as if the others were not there. */
    const struct spec_rent *alternatives;
    size_t alternative_count; /* 0: there is no any_of */
    uint32_t alternative;     /* number of the chosen alternative, from 1; in an alternative: its own */
    uint32_t nodes;           /* of an alternative: how many machines */
    const char *own_nodes, *own_nproc; /* of an alternative: its nnodes and nproc_per_node, if given */
};

/* Where files come from: a folder or file of this machine, or a commit of a repository. */
struct spec_source {
    const char *path;          /* absolute, links resolved; existed when the spec was loaded; NULL = a repository */
    struct spec_text url, ref; /* of a repository, expanded; ref.text NULL = its HEAD */
    struct spec_texts exclude, include; /* patterns as in .gitignore, expanded */
    struct place place;
};
struct spec_role;
struct spec_file {    /* an item of `files`: first the job's in the file's order, then those of roles */
    const struct spec_role *role; /* the role that it belongs to; NULL: the job's (spec_file_nodes) */
    const char *name; /* name of its step: "files-1" */
    struct spec_source source;
    struct spec_text to; /* node path (wire.h) of the folder or, if the source is a file, of the file; with a trailing /
                            the folder for it */
    struct place place;
};
enum spec_venv { VENV_AUTO, VENV_TRUE, VENV_FALSE, VENV_PATH };
struct spec_python {
    struct spec_text interpreter; /* "python3", looked up in PATH after activate, or a path */
    enum spec_venv venv;          /* AUTO: the job gets a venv if pip or requirements install something */
    struct spec_text venv_path;   /* VENV_PATH: node path */
    bool system_site_packages;    /* default true */
    struct spec_text conda; /* name or path of an existing conda environment, instead of a venv; text NULL = none */
    struct place place;
};

enum spec_on_kind { ON_ALL, ON_FIRST, ON_LIST };
enum spec_item { ITEM_RUN, ITEM_PIP, ITEM_REQUIREMENTS, ITEM_APT, ITEM_CONDA, ITEM_GIT, ITEM_COPY };
struct spec_step { /* an item of set-up; `packages` come first, then `requirements`, then the list `setup`. Texts are
                      expanded already, except those of RUN and `to` */
    const char *name; /* unique; given, or derived from the content so that it does not change when other items come and
                         go: "pip:torch", "pip:./", "requirements.txt", "apt:git", "git:apex", "run-1", "pip:torch-2";
                         in a role's set-up "ROLE:pip:torch" */
    const struct spec_role *role; /* the role whose set-up it is part of; NULL: the job's (spec_setup_nodes) */
    enum spec_item item;
    struct spec_text run; /* RUN: shell */
    struct spec_texts packages; /* PIP, APT, CONDA: what to install; for PIP "./", "./[extra]" and "./path[extra]" are
                                   below the working directory */
    bool upgrade, editable;     /* PIP (upgrade: REQUIREMENTS too) */
    bool unordered; /* true (from `packages` or `requirements`): one command may install several neighbours; false (from
                       `setup`): a command for each, in order */
    struct spec_text index_url; /* PIP, REQUIREMENTS */
    struct spec_texts extra_index_url, find_links,
        options;                /* PIP, REQUIREMENTS; options: PIP, REQUIREMENTS, APT, CONDA */
    struct spec_texts channels; /* CONDA */
    struct spec_text file;      /* REQUIREMENTS: below the working directory */
    struct spec_text url, ref;  /* GIT */
    struct spec_source source;  /* COPY */
    struct spec_text to;        /* GIT, COPY: node path */
    struct spec_texts inputs;   /* RUN: glob patterns relative to the working directory */
    bool has_inputs;            /* RUN: `inputs` is given; given but empty: the step depends on no file */
    struct spec_text creates;   /* RUN */
    enum spec_on_kind on;
    uint32_t *on_nodes; /* ON_LIST */
    size_t on_count;
    uint32_t retry_times; /* further attempts after the first */
    uint64_t retry_backoff_ms;
    bool on_unknown_fail; /* RUN: true for `on_unknown: fail`; default: run it again, with a warning */
    uint64_t timeout_ms;  /* 0 = none */
    struct place place;
};

enum spec_when { WHEN_ALWAYS, WHEN_SUCCESS };
struct spec_output {
    const char *name;      /* of its step: "outputs-1" */
    const struct spec_role *role; /* `nodes` counts the nodes of that role; NULL: all nodes */
    struct spec_text from; /* node path with wildcards */
    struct spec_text to; /* folder on this machine: absolute, or relative to the spec's folder. With several nodes and
                            no ${{ node... }} in it, each node's files go to a subfolder NODE */
    enum spec_when when; /* default always */
    uint64_t every_ms;   /* also fetch at this interval while the launch runs; 0 = no */
    uint64_t max_bytes; /* bound of one node's files; 0 = none */
    bool required; /* the job fails if none of the nodes has such a file; default: true if `from` has no wildcard */
    bool in_place; /* the job works in place and the files are in `to` already: nothing to fetch or restore */
    bool restore;  /* before the launch, send the files in `to` to nodes that lack them */
    enum spec_on_kind on; /* `nodes`: all, first (default) or a list */
    uint32_t *on_nodes;
    size_t on_count;
    struct place place;
};

/* ---- ports ---- */
enum { SPEC_PORTS_MAX = 64 };
struct spec_port { /* a node's port to be reached from this machine while the launch runs; in no key */
    uint32_t port, node;
    uint32_t local;   /* the port on this machine; 0: the same number, or another if that is taken */
    const char *role; /* the role whose node it is; NULL: not given */
    const char *name; /* for people; NULL: none */
    struct place place;
};

/* ---- distributed ---- */
/* Whether this backend (static, c10d, etcd, etcd-v2) reads this setting of rdzv_conf. If not, *ret_near may be the
 * nearest. */
bool spec_rdzv_takes(const char *backend, const char *setting, const char **ret_near);
/* Whether `path` is `folder` or inside it. Both are below the working directory; "./" and a trailing "/" may vary. */
bool spec_path_covers(const char *folder, const char *path);
/* Whether both have the same texts in the same order. */
bool spec_texts_equal(const struct spec_texts *a, const struct spec_texts *b);

struct spec_flag {
    const struct torchrun_flag *flag;
    struct spec_text value; /* the flag's value on the command line; a BOOLEAN flag is listed only when true */
};
enum spec_launcher { LAUNCHER_NATIVE, LAUNCHER_TORCHRUN, LAUNCHER_ACCELERATE, LAUNCHER_DEEPSPEED, LAUNCHER_MPIRUN };
struct spec_preflight { /* checks before a launch; all zero: every check, with rhrun's own bounds */
    bool no_ports, no_clocks, no_disk, no_gpus, no_versions; /* `off` sets all of them */
    uint64_t clocks_ms, disk_bytes; /* given: exceeding it ends the run; 0: exceeding rhrun's own bound is noted */
    uint32_t timeout_ms;            /* for one node to reach another; 0 = 3 s */
};
struct spec_distributed {
    bool present;
    uint32_t nnodes;    /* resolved: as given (MAX of MIN:MAX), or the number of hosts of `cluster`. 0: every role has
                           its own hosts */
    uint32_t min_nodes; /* MIN of MIN:MAX (launcher torchrun), else nnodes */
    struct spec_nproc nproc;
    enum spec_launcher launcher;
    struct spec_texts launcher_args; /* words before the script */
    struct spec_flag *flags; /* the given flags that go to the launcher, in the table's order; without nnodes,
                                nproc_per_node, max_restarts, master_port */
    size_t flag_count;
    uint32_t max_restarts;
    uint32_t master_port;        /* 0 = a free one */
    struct spec_devices devices; /* for hosts that name none of their own */
    bool cpu_blocks;             /* cpu_affinity: block */
    struct spec_preflight preflight;
    bool has_nproc;              /* nproc_per_node is given; with roles, a number is the room on a node */
    struct place place;
};
extern const char *const spec_launchers[]; /* names by enum spec_launcher, then NULL */
/* Whether rhrun starts the ranks itself and knows each worker's rank. Otherwise each node has one worker: the
 * launcher. */
bool spec_has_ranks(const struct spec_distributed *d);
/* Whether rank 0 may be on any node: true if the launcher uses a c10d or etcd rendezvous on several nodes and assigns
 * ranks itself. */
bool spec_rank0_anywhere(const struct spec_distributed *d);
/* How often rhrun itself starts all workers again: 0 if torch does it. */
uint32_t spec_restarts(const struct spec_distributed *d);
/* What the spec wants of a node: the host's own value, else the job's. spec_nproc: its workers; spec_devices: their
 * GPUs. */
struct spec;
const struct spec_nproc *spec_nproc(const struct spec *spec, uint32_t node);
const struct spec_devices *spec_devices(const struct spec *spec, uint32_t node);
/* The value of a flag that is given, or NULL. */
const struct spec_text *spec_flag_value(const struct spec_distributed *d, const char *name);

enum spec_entry_kind { ENTRY_SCRIPT, ENTRY_MODULE, ENTRY_COMMAND, ENTRY_RUN, ENTRY_FUNCTION };
struct spec_entrypoint {
    enum spec_entry_kind kind;
    struct spec_text target; /* script path, module name, shell text, "module:function" */
    const struct doc_node *positional; /* FUNCTION: args with their YAML types, an array (an item may be ${{ args }}),
                                          for expr_expand_doc, as kwargs; `args` has the same values as text */
    const struct doc_node *kwargs; /* FUNCTION: an object; scalars may hold ${{ }}; NULL = none */
    struct spec_texts command;     /* ENTRY_COMMAND: argv */
    struct spec_texts args;        /* already split if given as one string; pass-through ARGs are appended */
    struct spec_env *env;
    size_t env_count;
    struct spec_text cwd, prolog, epilog;
    uint64_t timeout_ms;
    bool always;
    struct place place;
};

/* ---- roles ---- */
enum spec_world { WORLD_JOB, WORLD_OWN, WORLD_NONE };
enum spec_by { BY_BLOCK, BY_STRIDE };
enum spec_ready_kind { READY_NO, READY_PORT, READY_LOG, READY_COMMAND };
#define SPEC_NO_ROLE UINT32_MAX
struct spec_after {
    uint32_t role; /* index in spec.roles */
    bool ready;    /* `ready`; else `done` */
};
struct spec_ready {
    enum spec_ready_kind kind;
    struct spec_text what; /* PORT: a number, LOG: a PCRE2 pattern, both expanded already; COMMAND: shell text */
    uint64_t timeout_ms;
    struct place place;
};
struct spec_role { /* a kind of worker; the file's order is the order of ranks */
    const char *name;
    bool counted;    /* `count` is known: given, or nnodes * a number */
    uint32_t count;  /* workers */
    uint32_t nnodes; /* nodes that it takes, with `nproc` workers on each; 0 = `count` workers, wherever there is
                        room */
    struct spec_nproc nproc;
    uint32_t *nodes; /* the only nodes that it may be placed on, ascending; NULL = any */
    size_t node_count;
    enum spec_world world;
    uint32_t peer; /* index in spec.roles, or SPEC_NO_ROLE */
    enum spec_by by;
    struct spec_ready ready;
    struct spec_after *after;
    size_t after_count;
    bool sidecar;         /* stopped once all other roles have ended well */
    struct spec_env *env; /* over spec.env, below entrypoint.env */
    size_t env_count;
    struct spec_entrypoint entrypoint; /* merged over the top level's; no prolog, epilog, always */
    bool own_hosts;  /* `cluster`: it has its own hosts, which follow the job's in spec.nodes unless they are among
                        them. It is placed on them alone; other roles are on the first distributed.nnodes nodes */
    uint32_t *hosts; /* own_hosts: their nodes, in the cluster's order */
    size_t host_count;
    uint32_t master_port; /* world own: MASTER_PORT; 0 = a free one */
    bool own_setup;  /* python, packages, requirements or setup is given. The role then has a complete set-up of its
                        own: a list that it does not give is copied from the top level, and python is merged. Its items
                        follow the job's in spec.setup, copies included, and it has its own venv (`ROLE:python`) */
    bool own_files;  /* `files` is given: the job's files are not for this role */
    struct spec_python python; /* own_setup: merged over the top level's */
    struct place place;
};
/* Which nodes get the set-up (files) of a role or of the job. Of a role: the nodes that it is placed on. Of the job
 * (role NULL): all nodes except those whose workers all belong to roles with a set-up (files) of their own. Sets
 * ret_on[node] for spec->nnodes nodes and returns how many are true. Needs spec->places. */
uint32_t spec_setup_nodes(const struct spec *spec, const struct spec_role *role, bool *ret_on);
uint32_t spec_file_nodes(const struct spec *spec, const struct spec_role *role, bool *ret_on);
/* Where the workers of a role are. This depends on the spec alone, so it never changes. Places are in the order of
 * roles, then of nodes; places without workers are left out. Roles with nnodes are placed first, on empty nodes as long
 * as there are some. Then roles with count fill the nodes in order, as far as there is room: nproc_per_node of the
 * host, or else of distributed, if it is a number, limits the ranks of all roles together. Without such a number, and
 * for roles with `world: none`, the workers are spread in equal blocks over the nodes that no role with nnodes took, or
 * over all nodes if there are none. */
struct spec_place {
    uint32_t role, node;
    uint32_t count; /* 0 = the number that nproc gives on that node */
};
/* A role that has been placed. */
struct expr_role {
    bool counted;
    uint32_t count;
    const uint32_t *nodes; /* the nodes with workers of the role, ascending */
    uint32_t node_count;
};

/* ---- failure_rules, metrics ---- */
enum spec_action {
    RULE_FAIL,
    RULE_RESTART,
    RULE_IGNORE,
    RULE_REPLACE /* as RESTART, with another machine for the lost or preempted node */
};
extern const char *const spec_actions[]; /* names by enum spec_action, then NULL */
static inline bool spec_starts_again(enum spec_action action)
{
    return action == RULE_RESTART || action == RULE_REPLACE;
}
enum spec_subject { RULE_WORKER /* its end or its output */, RULE_NODE_LOST, RULE_PREEMPTED };
enum { SPEC_RULES_MAX = 100, RULE_STDOUT = 1, RULE_STDERR = 2 };
struct spec_rule {      /* all given conditions must hold */
    const char *id;     /* digest of what it matches and does: finds its count in the journal even if the list was
                           edited */
    const char *text;   /* for people: "rule 2 (exit_status 3)" */
    uint32_t role;      /* index in spec.roles, or SPEC_NO_ROLE: any */
    uint32_t *statuses; /* 1 to 255; the worker's end must be one of these or of signals */
    size_t status_count;
    uint32_t *signals; /* 1 to 64 */
    size_t signal_count;
    enum spec_subject subject; /* from `event`; without it RULE_WORKER */
    struct spec_text pattern; /* PCRE2; text NULL = none. Alone it matches a line; with exit_status or signal it matches
                                 the end of a worker that had printed such a line */
    uint8_t streams; /* RULE_STDOUT | RULE_STDERR */
    enum spec_action action;
    bool has_times; /* `times` is given. Without it RESTART and REPLACE count against max_restarts, and IGNORE is
                       unlimited */
    uint32_t times;                      /* how often it may apply; after that the next matching rule applies */
    uint64_t backoff_ms, backoff_max_ms; /* RESTART, REPLACE: the first and the longest pause */
    double backoff_factor;               /* from one pause to the next */
    struct place place;
};
struct spec_metric {
    const char *name;
    struct spec_text pattern; /* PCRE2 with (?<value>...), and optionally (?<step>...) */
    uint32_t role;            /* or SPEC_NO_ROLE: any */
    const char *role_name;    /* as written; NULL: any */
    bool has_rank;
    uint32_t rank;
};

/* ---- sweep ---- */
/* A point is one launch of the job with its own params. Parts of a launch (the entrypoint without prolog and epilog,
 * the entrypoints of roles, flags of a launcher, outputs) are expanded with spec_at_point. Everything else belongs to
 * the job, and expressions there must not name a swept param or `point` (a fault when the spec is loaded). */
enum {
    SPEC_SWEEP_NODES_MAX = 4096,
    SPEC_POINTS_MAX = 10000,
    SPEC_POINT_NAME_MAX = 200, /* bytes */
    SPEC_POINTS_BYTES_MAX = 16 << 20
};
struct spec_point {
    /* The name in the spec, else made from the swept params in the order of `params`: "lr=1e-3,model=gpt2". Unique and
     * printable, without "/": in a value, "/", ",", "%" and bytes that are not printable are written like %2F. A name
     * longer than SPEC_POINT_NAME_MAX is cut, and ends with "~" and 8 hex digits of the digest (16 if two names would
     * be equal) */
    const char *name;
    const char *id;      /* 12 hex digits of the digest of all its params as canonical JSON, for folders. It does not
                            depend on anything else, such as the order in the spec or the spelling of a number */
    const char *variant; /* the spec.variant of a job without a sweep and with these params */
    uint32_t index;      /* among all points of the spec; a point made by -p alone comes after them */
    struct spec_param *params; /* all params of the job, in the same order, with the point's values */
    size_t param_count;
    const char *params_json; /* the swept params, canonical: {"lr":0.001,"model":"gpt2"} */
    struct place place;      /* of its item in points or include; source NULL: none */
};
enum spec_sweep_place {
    SWEEP_COUNT, /* per_node points at the same time on a node */
    SWEEP_GPUS   /* per_node GPUs of a node for each point */
};
struct spec_sweep {
    struct spec_point *points; /* the points of this run: all, or those that -p of swept params selects; never none */
    size_t point_count;
    struct spec_point *all; /* all points of the spec */
    size_t all_count;
    bool own; /* no point of the spec has the values of -p: `points` then has one point, not in `all`, with these values
                 and defaults */
    enum spec_sweep_place place;
    uint32_t per_node;
    uint32_t nodes;          /* nodes that take points; 0: all hosts of the cluster, or 1 without hosts. spec.nnodes
                                follows from it */
    uint32_t max_parallel;   /* 0: as many as there are places */
    bool stop;               /* on_failure: stop */
    const char *best_metric; /* a name of spec.metrics; NULL: none */
    bool best_max;
    struct place at;
};
struct spec;
struct spec_overrides;
uint32_t spec_point_nodes(const struct spec *spec); /* nodes that each point takes */
/* A shallow copy of the spec for the point's launch, with the point's params, variant and point. */
struct spec spec_at_point(const struct spec *spec, const struct spec_point *point);
/* The point of that name or id among points, or NULL. */
const struct spec_point *spec_point_find(const struct spec_point *points, size_t count, const char *word);
/* The points that have every given NAME=VALUE, compared by the param's type (0.001 equals 1e-3). Any param may be
 * named. ret_points has room for count points; returns how many match. If NAME is no param, or VALUE has the wrong
 * type, no point matches. */
size_t spec_points_match(const struct spec_point *points, size_t count, const char *const *params, size_t param_count,
                         const struct spec_point **ret_points);
/* The sweep of a spec's text with these --set and -p, all of which a run's journal has. Nothing else is checked or
 * needed; the points have no variant. NULL: there is no sweep, or the text cannot be read. */
const struct spec_sweep *spec_sweep_of(const char *text, const struct spec_overrides *overrides, struct arena *arena);
/* The points' names for a message, at most max_names: "lr=1e-3, lr=3e-4 and 17 more". */
const char *spec_points_words(const struct spec_point *points, size_t count, size_t max_names, struct arena *arena);

enum placement { /* where the nodes are: all on this machine, or none */
    PLACEMENT_HERE,  /* each node is an agent on this machine, in its own folder unless spec_in_place holds */
    PLACEMENT_HOSTS, /* each node is a host that the spec lists, reached over SSH, or a rented machine */
};

#define SPEC_LOG_LIMIT (UINT64_C(1) << 30)
#define SPEC_LOG_LIMIT_MIN UINT64_C(1000000)
struct spec {
    const char *path;        /* as the user wrote it */
    const char *real_path;   /* absolute, links resolved: still finds the file from another folder */
    const char *dir;         /* absolute folder of the spec file */
    const char *name;        /* job name */
    const char *origin;      /* git remote + path in the repository, else the absolute path */
    const char *hash;        /* SHA-256 hex of the canonical document after overrides */
    const char *variant;     /* 16 hex digits, from name, origin, params and args. In a sweep, swept params count with
                                their defaults whatever -p says; those without a default do not count */
    enum placement placement;
    struct spec_node *nodes; /* in order; at least nnodes; on this machine exactly nnodes */
    size_t node_count;
    struct spec_host *hosts; /* the nodes' hosts, in the same order; placeholders for rented machines */
    size_t host_count;
    const struct spec_rent *rent; /* NULL: nothing is rented. Otherwise all nodes are rented, and each host is
                                     SPEC_TRANSPORT_RENTED: its name, user and container are from the spec, its `host`
                                     is the name, and the roster gets the real host once the machine exists */
    struct spec_param *params;
    size_t param_count;
    const struct spec_sweep *sweep; /* NULL: none */
    const struct spec_point *point; /* of spec_at_point; NULL: the job itself */
    struct spec_env *env;
    size_t env_count;
    struct spec_secret *secrets;
    size_t secret_count;
    const char *job_id; /* 16 hex digits: see spec_job_id */
    const char *id_name, *id_origin; /* the name and origin that job_id and variants are made from, if the job took over
                                        the history of a job with another name or origin; NULL: its own */
    bool has_workdir;
    struct spec_source workdir;
    struct spec_file *files;
    size_t file_count;
    struct spec_python python;
    struct spec_output *outputs;
    size_t output_count;
    struct spec_port *ports;
    size_t port_count;
    struct spec_step *setup;
    size_t setup_count;
    uint64_t log_limit_bytes; /* bound of the output that a node keeps until rhrun has fetched it; 0: SPEC_LOG_LIMIT */
    struct spec_text activate;
    struct spec_distributed distributed;
    uint32_t nnodes; /* nodes that take part: distributed.nnodes, or all hosts without distributed (set-up runs on all,
                        the one process on node 0), plus the hosts of roles */
    struct spec_entrypoint entrypoint; /* with roles: only prolog, epilog and the like, no program */
    struct spec_role *roles;           /* if there are roles, distributed.present is true */
    size_t role_count;
    struct spec_place *places;
    size_t place_count;
    struct spec_text *require; /* conditions; one that does not hold is a fault as soon as its values are known */
    size_t require_count;
    struct spec_rule *rules; /* failure_rules, in order: the first that matches applies */
    size_t rule_count;
    struct spec_metric *metrics;
    size_t metric_count;
    const char *const *args; /* pass-through ARGs, as given */
    size_t arg_count;
    const char *on;          /* --on and --set, as given; NULL, 0: none */
    const char *const *sets;
    size_t set_count;
    const struct doc *doc;           /* the source */
    const struct spec_lock *lock;    /* NULL: no lock applies */
    const struct doc_node *resolved; /* normalised document: overrides applied, defaults filled in (rhrun show) */
};

/* A lock (lock.h) loaded as a spec is the spec of its run: the spec's text with its options, on the run's cluster, with
 * the run's packages in place of those in pip and requirements items. It is a separate job, and the same lock always
 * gives the same job; a relative `to` of its outputs is below a folder rerun-RUN (8 digits). The caller finds the
 * files, by `root`. */
struct spec_lock {
    const struct doc_node *root; /* in the form of schema/lock.schema.json */
    const char *path;
    const char *run;  /* id of the run that the lock describes */
    bool repeats;     /* the lock was given as the spec; else the spec is checked against it (spec_overrides.locked) */
};

enum { SPEC_SETS_MAX = 1024 };
struct spec_overrides {
    const char *const *sets; /* "a.b=VALUE"; VALUE is an unquoted YAML scalar or a flow value */
    size_t set_count;        /* more than SPEC_SETS_MAX is a fault */
    const char *const *params; /* "name=value" */
    size_t param_count;
    const char *on; /* --on local | NAME | user@host,... or NULL: replaces cluster; the hosts keep the cluster's user,
                       identity_file, ... */
    const char *const *args; /* after `--` */
    size_t arg_count;
    /* Only name, origin and path are needed, and the variant if params or args are given (not NULL, even if empty).
     * Nothing else is checked or bound, and the caller's environment is not read (for status, logs and cancel of a
     * spec). */
    bool identity_only;
    /* Which item of cluster.any_of applies, from 1; 0: the first, and faults in the others are reported too. */
    uint32_t alternative;
    /* `cluster: NAME` may be a rented cluster if there is no file of that name. is_rented (may be NULL) says whether it
     * is one now; if not, a NAME that is close to a file's name is reported as a mistake. */
    bool knows_rented;
    bool (*is_rented)(void *arg, const char *name);
    void *arg;
    /* The lock beside the spec (NAME.lock.yaml) applies: a spec that differs from it is a fault, and the lock's
     * packages are installed. Not if the spec is itself a lock. */
    bool locked;
    /* If the job took over another job's history, sets name and origin to that job's; otherwise leaves both. -1 and
     * err: this job's own history went to another job. NULL: not asked. arg is the arg above. */
    int (*identity)(void *arg, struct arena *arena, const char **name, const char **origin, struct error *err);
    /* For validate. Also looks for mistakes that depend on this machine or take time to find: an identity_file or
     * ssh_config that does not exist here, a ~ that nothing expands (warnings), shell text that bash refuses. */
    bool thorough;
    struct spec_checker *checker; /* for callers that load many specs; NULL: the schema is compiled for this call */
};

/* The schema of specs, compiled once. */
struct spec_checker *spec_checker_create(void);
void spec_checker_destroy(struct spec_checker *c); /* takes NULL */

/* 0 and *ret_spec, or -1: diagnostics has the faults, err a summary ("job.yaml: 3 faults"). `env` values that the
 * caller provides are read from environ. Secrets are never read. */
int spec_load(const char *path, const struct spec_overrides *overrides, struct arena *arena, struct spec **ret_spec,
              struct diagnostics *diagnostics, struct error *err);
/* The metrics of a spec's text with these --set, all of which a run's journal has. Only the names of their roles are
 * set. -1 and err: the text, or a metric in it, cannot be read. */
int spec_metrics_of(const char *text, const char *const *sets, size_t set_count, struct arena *arena,
                    const struct spec_metric **ret, size_t *ret_count, struct error *err);
/* Whether the job works in the spec's own folder: on this machine, without workdir. */
bool spec_in_place(const struct spec *spec);
/* Reads the secrets' values (environment, file, command). -1: err names the first that is missing, and how to provide
 * it. */
int spec_resolve_secrets(struct spec *spec, struct arena *arena, struct error *err);
/* The name and origin that the job's id is made from. */
static inline const char *spec_id_name(const struct spec *spec)
{
    return spec->id_name ? spec->id_name : spec->name;
}
static inline const char *spec_id_origin(const struct spec *spec)
{
    return spec->id_origin ? spec->id_origin : spec->origin;
}
/* 16 hex digits and NUL: the first of SHA-256(name NUL origin). */
void spec_job_id(const char *name, const char *origin, char ret_id[17]);
/* The first part of the origins of a repository's specs; a spec's path in the repository follows it. root: the work
 * tree's top, or a bare repository. spec_url_origin: as in a clone of url, without credentials. spec_folder_origin: of
 * a folder whose links are resolved. */
const char *spec_repository_origin(const char *root, bool bare, struct arena *arena);
const char *spec_url_origin(const char *url, struct arena *arena);
const char *spec_folder_origin(const char *real_dir, struct arena *arena);
/* Name of a file beside a folder `tree` that holds the files of a commit. The file's first line is that first part, so
 * that the specs in `tree` have the same origins as in a clone. */
#define SPEC_CHECKOUT_MARKER ".rhrun-origin"
/* The texts of the embedded schemas (NUL-terminated): of specs, and of locks. */
const char *spec_schema_text(void);
const char *spec_lock_schema_text(void);
/* Whether the document is a lock, valid or not. */
bool spec_is_lock(const struct doc_node *root);
/* 0 if it is a lock that this rhrun can read; else -1 with its faults in diagnostics, and err (ERROR_SPEC). */
int spec_check_lock(const struct doc *doc, struct arena *arena, struct diagnostics *diagnostics, struct error *err);

/* ---- expressions ---- */
enum expr_status { EXPR_OK, EXPR_LATE /* needs a name that is not known yet */, EXPR_FAILED };
struct expr_context {
    const struct spec *spec; /* params, env, job.name, args */
    bool has_node;           /* node.rank, node.name, node.address, nnodes; a name or address that is NULL is late */
    uint32_t node_rank;
    const char *node_name, *node_address;
    bool has_rank; /* rank, local_rank, world_size, local_world_size */
    uint32_t rank, local_rank, world_size, local_world_size;
    const char *role; /* of a worker: role, role_rank, role_world_size; NULL = late */
    uint32_t role_rank, role_size;
    bool has_peer; /* peer.rank, peer.address */
    uint32_t peer_rank;
    const char *peer_address;
    const struct expr_role *roles; /* in the spec's order, placed: for roles.R.nodes[i].address; NULL = only
                                      roles.R.count is known */
    const char *(*address_of)(const void *arg, uint32_t node); /* NULL, or a result of NULL: late */
    const void *address_arg;
    const char *run; /* run.id, or NULL */
    const char *point_dir; /* point.dir: the point's own folder on its node, absolute; NULL = late */
};
enum expr_mode {
    EXPR_PLAIN, /* values as they are: one argv element or env value */
    EXPR_SHELL, /* shell text: each value is escaped for the quotes around it, so it is always data */
};
/* Expands all ${{ }} in text. If a name is late: with keep_late the expression stays, with its params, env and job
 * filled in (so that a changed param changes the text), and the result is EXPR_OK; else it is EXPR_LATE. EXPR_SHELL
 * mode fails if a value cannot be inserted as data. err says what is wrong; the caller adds the place. *ret is in the
 * arena. */
enum expr_status expr_expand(const struct spec_text *text, enum expr_mode mode, const struct expr_context *ctx,
                             bool keep_late, struct arena *arena, const char **ret, struct error *err);
/* Whether spec.require[i] holds. EXPR_OK: yes; EXPR_FAILED: no, and err says with which values, or why the condition
 * cannot be evaluated; EXPR_LATE: not known yet. roles as in expr_context. */
enum expr_status spec_require(const struct spec *spec, size_t i, const struct expr_role *roles, struct arena *arena,
                              struct error *err);
/* The role_rank of the peer of worker `role_rank`, in a role of `count` workers whose peer role has `peers` > 0
 * workers. Block: floor(role_rank / (count / peers)) if count is a multiple of peers, otherwise equally even blocks. */
uint32_t spec_peer_of(enum spec_by by, uint32_t role_rank, uint32_t count, uint32_t peers);
/* A copy of a tree of values with the expressions in its strings expanded as EXPR_PLAIN; keys stay. A string that is
 * exactly one expression gets the type of the expression's value (integer, number, boolean, text). A string that is
 * exactly ${{ args }} becomes a list or, inside a list, as many items. With keep_late, late expressions stay as
 * text. */
enum expr_status expr_expand_doc(const struct doc_node *node, const struct expr_context *ctx, bool keep_late,
                                 struct arena *arena, struct doc_node **ret, struct error *err);

#endif
