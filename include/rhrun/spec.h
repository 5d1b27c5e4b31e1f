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
    const char *value; /* source text of the bound value; of a swept one of the job itself the default, NULL = none */
    bool given;        /* by -p; else the default */
    bool swept;        /* it differs between the points of the sweep: spec_at_point has its value */
    const char *chosen; /* of a swept one of the job itself: the value of the points that -p leaves; NULL: any */
    struct place place;
};
struct spec_env {
    const char *name;
    struct spec_text value; /* for from_caller: the caller's value */
    bool from_caller;       /* an empty value in the spec: taken from the caller, required */
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
    SPEC_TRANSPORT_RENTED /* nobody knows yet: the machine is rented first (struct spec_rent) */
};
struct spec_devices { /* GPUs that workers see */
    const char *list; /* as CUDA_VISIBLE_DEVICES has it: "0,1"; NULL = all of the node */
    uint32_t count;
    uint32_t highest; /* number, + 1; 0 = they are named by UUID */
};
struct spec_node { /* what is wished of a node, whichever host it is on */
    bool has_nproc;
    struct spec_nproc nproc;
    struct spec_devices devices;
    struct place place; /* where the spec has it; source NULL: nowhere */
};
enum spec_pull { PULL_MISSING = 0, PULL_ALWAYS, PULL_NEVER };
/* In which set-up and launch happen on a host; rhrun makes it there (container.h). */
struct spec_container {
    const char *image;          /* as the runtime takes it, never empty */
    const char *runtime;        /* "docker" or "podman"; NULL = the first that is there */
    const char *const *options; /* of the runtime's `run`, as written */
    size_t option_count;
    const char *const *mounts; /* SOURCE:TARGET[:OPTIONS], the source absolute or ~/... on the node */
    size_t mount_count;
    enum spec_pull pull;
    bool down;        /* it ends with the run */
    const char *text; /* all that makes it another container, for digests */
};

struct wire_notice;
struct spec_host { /* a machine that a node is on, and how to reach it */
    const char *name; /* as written; what messages call it; "local" or "local-1" on this machine */
    const char *host, *user; /* host: of exec the name */
    const char *const *exec; /* COMMAND: a program of this machine and its words, ended by NULL; it leads to a shell */
    const char *exec_text;   /* the same as a shell takes it; tells one machine from another */
    uint32_t port;                                                     /* 0 = ssh's configuration decides */
    const char *identity_file, *proxy_jump, *known_hosts, *ssh_config; /* NULL = not given; paths made absolute */
    const char *address;  /* what other nodes call it; NULL = derived at run time */
    const char *work_dir; /* LOCAL: the spec's folder, in place; NULL = the job's own folder on the node */
    enum spec_transport transport;
    const struct spec_container *container; /* NULL = none: the shell is the host's own */
    bool booting; /* rented: its sshd may start anew once more, and refuse connections meanwhile */
    const struct wire_notice *notice; /* of a machine that its provider may take back; NULL = nobody is asked for it */
};

enum spec_spot { SPOT_NEVER, SPOT_ONLY, SPOT_PREFER };
enum spec_down { DOWN_ALWAYS, DOWN_NEVER, DOWN_IDLE };
enum { SPEC_PROVIDERS_MAX = 32, SPEC_REGIONS_MAX = 100, SPEC_RENT_WORD_MAX = 255 /* bytes */ };
struct spec_rent { /* cluster: machines that are rented for the job. What a provider or the catalog says is not looked
                      at here: names are as written */
    const char *cluster;  /* cluster: NAME: nothing is rented; the machines are those of this cluster, which another job
                             has rented, and keeps; by its name or id. The rest is empty then. NULL: they are rented */
    const char *instance; /* NULL: not given (for a provider that has one kind of machine only) */
    const char *const *providers; /* in the order of preference; none: cheapest */
    size_t provider_count;
    enum spec_spot spot;
    const char *const *regions; /* none: any */
    size_t region_count;
    const char *image;  /* NULL: the provider's */
    uint32_t disk_gb;   /* 0: the provider's */
    uint64_t max_price; /* micro-USD per hour for the whole cluster; 0: none */
    uint64_t max_ms;    /* max_hours; 0: none, so the machines bill until they are given back */
    enum spec_down down;
    uint64_t idle_ms;   /* DOWN_IDLE */
    struct place place; /* of the cluster */
    struct {            /* source NULL: not given */
        struct place instance, provider, use_spot, regions, max_price;
    } at;
    const struct place *provider_places; /* one for each of providers */
    /* cluster.any_of, in order: each is all that the cluster says, with what is its own. The spec is read with one of
     * them (spec_overrides.alternative, else the first), as if nothing else stood there. */
    const struct spec_rent *alternatives;
    size_t alternative_count; /* 0: there is no any_of */
    uint32_t alternative;     /* the one that the spec is read with, from 1; of an alternative: its number */
    uint32_t nodes;           /* of an alternative: how many machines */
    const char *own_nodes, *own_nproc; /* of an alternative: its nnodes and nproc_per_node, where it says them */
};

/* Where files come from: a folder or file of this machine, or a commit of a repository. */
struct spec_source {
    const char *path;          /* absolute, links resolved, there when the spec was loaded; NULL = a repository */
    struct spec_text url, ref; /* of a repository, expanded; ref.text NULL = its HEAD */
    struct spec_texts exclude, include; /* patterns as in .gitignore, expanded */
    struct place place;
};
struct spec_role;
struct spec_file {    /* an item of `files`: the job's in the file's order, then those of roles */
    const struct spec_role *role; /* whose item it is, so on its nodes; NULL: the job's (spec_file_nodes) */
    const char *name; /* of its step: "files-1" */
    struct spec_source source;
    struct spec_text to; /* node path (wire.h) of the folder, or of the file when the source is one; a trailing / makes
                            it a folder */
    struct place place;
};
enum spec_venv { VENV_AUTO, VENV_TRUE, VENV_FALSE, VENV_PATH };
struct spec_python {
    struct spec_text interpreter; /* "python3", looked up in PATH after activate, or a path */
    enum spec_venv venv;          /* AUTO: one of the job once pip or requirements install something */
    struct spec_text venv_path;   /* VENV_PATH: node path */
    bool system_site_packages;    /* default true */
    struct spec_text conda; /* name or path of an existing conda environment, instead of a venv; text NULL = none */
    struct place place;
};

enum spec_on_kind { ON_ALL, ON_FIRST, ON_LIST };
enum spec_item { ITEM_RUN, ITEM_PIP, ITEM_REQUIREMENTS, ITEM_APT, ITEM_CONDA, ITEM_GIT, ITEM_COPY };
struct spec_step { /* an item of set-up; `packages` come first, then `requirements`, then the list `setup`. Texts of all
                      but RUN, and but `to`, are expanded */
    const char *name; /* given, or derived from the content, so that it stays when others come and go, and unique:
                              "pip:torch", "pip:./", "requirements.txt", "apt:git", "git:apex", "run-1", "pip:torch-2";
                              of a role's set-up "ROLE:pip:torch" */
    const struct spec_role *role; /* whose set-up it is part of; NULL: the job's (spec_setup_nodes) */
    enum spec_item item;
    struct spec_text run; /* RUN: shell */
    struct spec_texts packages; /* PIP, APT, CONDA: what to install; of PIP "./", "./[extra]" and "./path[extra]" are
                                   below the working directory */
    bool upgrade, editable;     /* PIP (upgrade: REQUIREMENTS too) */
    bool unordered; /* of `packages` or `requirements`: neighbours may be installed by one command; of `setup`: each by
                       its own, in order */
    struct spec_text index_url; /* PIP, REQUIREMENTS */
    struct spec_texts extra_index_url, find_links,
        options;                /* PIP, REQUIREMENTS; options: PIP, REQUIREMENTS, APT, CONDA */
    struct spec_texts channels; /* CONDA */
    struct spec_text file;      /* REQUIREMENTS: below the working directory */
    struct spec_text url, ref;  /* GIT */
    struct spec_source source;  /* COPY */
    struct spec_text to;        /* GIT, COPY: node path */
    struct spec_texts inputs;   /* RUN: glob patterns relative to the working directory */
    bool has_inputs;            /* RUN: they are given; none of them: it depends on no file */
    struct spec_text creates;   /* RUN */
    enum spec_on_kind on;
    uint32_t *on_nodes; /* ON_LIST */
    size_t on_count;
    uint32_t retry_times; /* further attempts after the first */
    uint64_t retry_backoff_ms;
    bool on_unknown_fail; /* RUN: on_unknown: fail; default redo, with a warning */
    uint64_t timeout_ms;  /* 0 = none */
    struct place place;
};

enum spec_when { WHEN_ALWAYS, WHEN_SUCCESS };
struct spec_output {
    const char *name;      /* of its step: "outputs-1" */
    const struct spec_role *role; /* `on` counts among the nodes of that role; NULL: among all */
    struct spec_text from; /* node path with wildcards */
    struct spec_text to; /* folder here: absolute, or relative to the spec's folder. With several nodes and no ${{
                            node... }} in it, each node's files go to to/NODE/ */
    enum spec_when when; /* default always */
    uint64_t every_ms;   /* also so often while the launch runs; 0 = no */
    uint64_t max_bytes; /* of what one node brings; 0 = no bound */
    bool required; /* a job whose nodes have none of it has failed; default: `from` has no wildcard */
    bool in_place; /* the job works in place, and `to` is where the files are: there is nothing to bring or put back */
    bool restore;  /* what `to` holds is put back on a node that does not have it, before the launch */
    enum spec_on_kind on; /* `nodes`: all, first (default) or a list */
    uint32_t *on_nodes;
    size_t on_count;
    struct place place;
};

/* ---- ports ---- */
enum { SPEC_PORTS_MAX = 64 };
struct spec_port { /* of a node, to be reached from this machine while the launch runs; in no key */
    uint32_t port, node;
    uint32_t local;   /* the port here; 0: the same one, or another where that is taken */
    const char *role; /* whose node it is; NULL: not said */
    const char *name; /* for people; NULL: none */
    struct place place;
};

/* ---- distributed ---- */
/* Does that backend (static, c10d, etcd, etcd-v2) read that setting of rdzv_conf? Else *ret_near may be the one that
 * was meant. */
bool spec_rdzv_takes(const char *backend, const char *setting, const char **ret_near);
/* Of two paths below the working directory, with or without "./" and "/" around them: `path` is `folder`, or in it. */
bool spec_path_covers(const char *folder, const char *path);
/* The same texts in the same order. */
bool spec_texts_equal(const struct spec_texts *a, const struct spec_texts *b);

struct spec_flag {
    const struct torchrun_flag *flag;
    struct spec_text value; /* the word behind the flag, as the command line has it; a BOOLEAN is there only when
                               true */
};
enum spec_launcher { LAUNCHER_NATIVE, LAUNCHER_TORCHRUN, LAUNCHER_ACCELERATE, LAUNCHER_DEEPSPEED, LAUNCHER_MPIRUN };
struct spec_preflight { /* what is looked at before a launch; all zero: everything, by rhrun's own bounds */
    bool no_ports, no_clocks, no_disk, no_gpus, no_versions; /* off: all of them */
    uint64_t clocks_ms, disk_bytes; /* given: what is beyond it ends the run; 0: what is beyond rhrun's own is noted */
    uint32_t timeout_ms;            /* for one node to reach another; 0 = 3 s */
};
struct spec_distributed {
    bool present;
    uint32_t nnodes;    /* resolved: given, or all hosts of `cluster`; MAX of MIN:MAX. 0: all roles have their own */
    uint32_t min_nodes; /* MIN of MIN:MAX (launcher torchrun), else nnodes */
    struct spec_nproc nproc;
    enum spec_launcher launcher;
    struct spec_texts launcher_args; /* words before the script */
    struct spec_flag *flags; /* those that are given and go to the launcher, in the table's order; not nnodes,
                                nproc_per_node, max_restarts, master_port */
    size_t flag_count;
    uint32_t max_restarts;
    uint32_t master_port;        /* 0 = a free one */
    struct spec_devices devices; /* of hosts that have none of their own */
    bool cpu_blocks;             /* cpu_affinity: block */
    struct spec_preflight preflight;
    bool has_nproc;              /* nproc_per_node is given; with roles a number is the room on a node */
    struct place place;
};
extern const char *const spec_launchers[]; /* names by enum spec_launcher, then NULL */
/* Whether rhrun starts the ranks itself, so that it knows which worker is which rank. Else there is one worker on a
 * node: the launcher. */
bool spec_has_ranks(const struct spec_distributed *d);
/* May rank 0 be on any node? Where the launcher meets by c10d or etcd on several nodes, and numbers them itself. */
bool spec_rank0_anywhere(const struct spec_distributed *d);
/* How often rhrun itself starts all workers again: 0 where torch does it. */
uint32_t spec_restarts(const struct spec_distributed *d);
/* What is wished of a node: its own, else the job's. The GPUs of its workers, and how many there are. */
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
                                          for expr_expand_doc like kwargs; `args` has the same as text */
    const struct doc_node *kwargs; /* FUNCTION: an object; scalars may hold ${{ }}; NULL = none */
    struct spec_texts command;     /* ENTRY_COMMAND: argv */
    struct spec_texts args;        /* split already when given as one string; pass-through ARGs are appended */
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
    struct spec_text what; /* PORT: a number; LOG: a PCRE2 pattern; both expanded. COMMAND: shell text */
    uint64_t timeout_ms;
    struct place place;
};
struct spec_role { /* a kind of worker; the file's order is the order of ranks */
    const char *name;
    bool counted;    /* `count` is known: given, or nnodes * a number */
    uint32_t count;  /* workers */
    uint32_t nnodes; /* nodes that it takes, with `nproc` workers each; 0 = `count` workers, wherever there is room */
    struct spec_nproc nproc;
    uint32_t *nodes; /* the only ones it may be placed on, ascending; NULL = any */
    size_t node_count;
    enum spec_world world;
    uint32_t peer; /* index in spec.roles, or SPEC_NO_ROLE */
    enum spec_by by;
    struct spec_ready ready;
    struct spec_after *after;
    size_t after_count;
    bool sidecar;         /* stopped once all others have ended well */
    struct spec_env *env; /* over spec.env, below entrypoint.env */
    size_t env_count;
    struct spec_entrypoint entrypoint; /* merged over the top level's; without prolog, epilog and always */
    bool own_hosts;  /* `cluster`: hosts of its own, behind the job's in spec.nodes where they are not among these. It
                        is placed on them alone; others are on the first distributed.nnodes nodes */
    uint32_t *hosts; /* own_hosts: their nodes, in the cluster's order */
    size_t host_count;
    uint32_t master_port; /* world own: MASTER_PORT; 0 = a free one */
    bool own_setup;  /* one of python, packages, requirements, setup is given. Its set-up is then all of these: what it
                        leaves out it takes from the top level, lists as wholes, python merged. Its items are in
                        spec.setup a second time, behind the job's, and it has a venv of its own (`ROLE:python`) */
    bool own_files;  /* `files` is given: the job's are not for it */
    struct spec_python python; /* own_setup: merged over the top level's */
    struct place place;
};
/* Whether a node takes part in what is the job's, or a role's. Of a role: it is placed there. Of the job (NULL): any
 * but those on which all workers are of roles with a set-up (files) of their own. ret_on[node], of spec->nnodes;
 * returns how many. Needs spec->places. */
uint32_t spec_setup_nodes(const struct spec *spec, const struct spec_role *role, bool *ret_on);
uint32_t spec_file_nodes(const struct spec *spec, const struct spec_role *role, bool *ret_on);
/* Where workers of a role are: decided from the spec alone, so that it never changes. In the order of roles, of each by
 * node; what has no workers is left out. Roles with nnodes are placed first, on nodes that nobody is on yet as long as
 * there are some. Then those with count fill the nodes in order, as far as there is room (nproc_per_node of the host,
 * else of distributed, where that is a number: ranks of all roles together). Without such numbers, and with world:
 * none, they are spread in blocks of equal size over the nodes that no role with nnodes took, or over all. */
struct spec_place {
    uint32_t role, node;
    uint32_t count; /* 0 = as many as nproc comes to on that node */
};
/* A role once it is placed. */
struct expr_role {
    bool counted;
    uint32_t count;
    const uint32_t *nodes; /* those that it has workers on, ascending */
    uint32_t node_count;
};

/* ---- failure_rules, metrics ---- */
enum spec_action {
    RULE_FAIL,
    RULE_RESTART,
    RULE_IGNORE,
    RULE_REPLACE /* RESTART, with another machine for the node that the rule is about */
};
extern const char *const spec_actions[]; /* names by enum spec_action, then NULL */
static inline bool spec_starts_again(enum spec_action action)
{
    return action == RULE_RESTART || action == RULE_REPLACE;
}
enum spec_subject { RULE_WORKER /* its end or its output */, RULE_NODE_LOST, RULE_PREEMPTED };
enum { SPEC_RULES_MAX = 100, RULE_STDOUT = 1, RULE_STDERR = 2 };
struct spec_rule {      /* what is given must all hold */
    const char *id;     /* of what it matches and does: finds its count in the journal though the list was edited */
    const char *text;   /* for people: "rule 2 (exit_status 3)" */
    uint32_t role;      /* index in spec.roles, or SPEC_NO_ROLE: any */
    uint32_t *statuses; /* 1 to 255; one of them or of signals */
    size_t status_count;
    uint32_t *signals; /* 1 to 64 */
    size_t signal_count;
    enum spec_subject subject; /* `event`; none: a worker */
    struct spec_text pattern; /* PCRE2; text NULL = none. Alone it is about a line, with status or signal about the end
                                 of a worker that printed such a line */
    uint8_t streams; /* RULE_STDOUT | RULE_STDERR */
    enum spec_action action;
    bool has_times; /* RESTART and REPLACE without: it takes from max_restarts; IGNORE without: no bound */
    uint32_t times;                      /* how often it may apply; then the next one that matches does */
    uint64_t backoff_ms, backoff_max_ms; /* RESTART, REPLACE: the first pause, and the longest */
    double backoff_factor;               /* from one to the next */
    struct place place;
};
struct spec_metric {
    const char *name;
    struct spec_text pattern; /* PCRE2 with (?<value>...), and perhaps (?<step>...) */
    uint32_t role;            /* or SPEC_NO_ROLE: any */
    const char *role_name;    /* as it is written; NULL: any */
    bool has_rank;
    uint32_t rank;
};

/* ---- sweep ---- */
/* A point is one launch of the job, with params of its own. What is per launch (entrypoint but prolog and epilog, what
 * roles run, flags of a launcher, outputs) is expanded with spec_at_point; all else is the job's, and no expression
 * there may name a swept param or `point` (a fault when the spec is loaded). */
enum {
    SPEC_SWEEP_NODES_MAX = 4096,
    SPEC_POINTS_MAX = 10000,
    SPEC_POINT_NAME_MAX = 200, /* bytes */
    SPEC_POINTS_BYTES_MAX = 16 << 20
};
struct spec_point {
    /* As the spec names it, else of the swept params in the order of `params`: "lr=1e-3,model=gpt2". Unique; printable,
     * without "/": what is no printable character, "/", "," and "%" in a value are written %2F. A longer one than
     * SPEC_POINT_NAME_MAX is cut and ends in "~" and 8 (or 16, where two would be one) hex digits of the digest */
    const char *name;
    const char *id;      /* 12 hex digits of the digest of all its params, as canonical JSON: for folders. It depends on
                            nothing else, so not on the order in the spec, nor on the spelling of a number */
    const char *variant; /* as spec.variant of a job without a sweep that has these params */
    uint32_t index;      /* among all points of the spec; one that -p alone makes stands behind them */
    struct spec_param *params; /* all of the job, in the same order, those of the point put in */
    size_t param_count;
    const char *params_json; /* of the swept ones, canonical: {"lr":0.001,"model":"gpt2"} */
    struct place place;      /* an item of points or include; source NULL: none */
};
enum spec_sweep_place {
    SWEEP_COUNT, /* per_node points at the same time on a node */
    SWEEP_GPUS   /* per_node GPUs of a node for each point */
};
struct spec_sweep {
    struct spec_point *points; /* those that this run is about: all, or what -p of swept params left; never none */
    size_t point_count;
    struct spec_point *all; /* those that the spec has */
    size_t all_count;
    bool own; /* no point has the values of -p: the one of `points`, which is not in all, has them, and defaults */
    enum spec_sweep_place place;
    uint32_t per_node;
    uint32_t nodes;          /* that take points; 0: all hosts of the cluster, else 1. spec.nnodes goes by it */
    uint32_t max_parallel;   /* 0: as many as there are places */
    bool stop;               /* on_failure: stop */
    const char *best_metric; /* a name of spec.metrics; NULL: none */
    bool best_max;
    struct place at;
};
struct spec;
struct spec_overrides;
uint32_t spec_point_nodes(const struct spec *spec); /* on how many nodes each point is */
/* A shallow copy of the spec as the point's launch has it: params, variant and point. */
struct spec spec_at_point(const struct spec *spec, const struct spec_point *point);
/* The point of that name or id among points, or NULL. */
const struct spec_point *spec_point_find(const struct spec_point *points, size_t count, const char *word);
/* Those of points that have the value of each NAME=VALUE, of whatever params, by the param's type (0.001 is 1e-3).
 * ret_points has room for count; returns how many they are. A text that names no param, or no value of its type, is
 * had by none. */
size_t spec_points_match(const struct spec_point *points, size_t count, const char *const *params, size_t param_count,
                         const struct spec_point **ret_points);
/* The sweep that the text of a spec has with these --set and -p: what a journal keeps of a run is enough. What is not
 * needed for it is neither checked nor asked for; points have no variant. NULL: there is none, or the text cannot be
 * read. */
const struct spec_sweep *spec_sweep_of(const char *text, const struct spec_overrides *overrides, struct arena *arena);
/* What there is, for a message: "lr=1e-3, lr=3e-4 and 17 more", of at most max_names. */
const char *spec_points_words(const struct spec_point *points, size_t count, size_t max_names, struct arena *arena);

enum placement { /* where the nodes are: all of them here, or none */
    PLACEMENT_HERE,  /* each node is an agent on this machine, in a folder of its own unless spec_in_place holds */
    PLACEMENT_HOSTS, /* each node is a host that the spec lists, reached over SSH, or a rented machine */
};

#define SPEC_LOG_LIMIT (UINT64_C(1) << 30)
#define SPEC_LOG_LIMIT_MIN UINT64_C(1000000)
struct spec {
    const char *path;        /* as the user named it */
    const char *real_path;   /* absolute, links resolved: finds the file again from another folder */
    const char *dir;         /* absolute folder of the spec file */
    const char *name;        /* job name */
    const char *origin;      /* git remote + path in the repository, else the absolute path */
    const char *hash;        /* SHA-256 hex of the canonical document after overrides */
    const char *variant;     /* 16 hex: name, origin, params and args; with a sweep the swept params count with their
                                defaults, whatever -p says, and those that have none do not */
    enum placement placement;
    struct spec_node *nodes; /* in order: at least nnodes; on this machine nnodes of them */
    size_t node_count;
    struct spec_host *hosts; /* the nodes' hosts, in the same order; of rented ones placeholders */
    size_t host_count;
    const struct spec_rent *rent; /* NULL: nothing is rented. Else all nodes are, and each host is
                                     SPEC_TRANSPORT_RENTED: its name, user and container are the spec's, host is the
                                     name, and where the machine is the roster learns once there is one */
    struct spec_param *params;
    size_t param_count;
    const struct spec_sweep *sweep; /* NULL: none */
    const struct spec_point *point; /* of spec_at_point; NULL: the job itself */
    struct spec_env *env;
    size_t env_count;
    struct spec_secret *secrets;
    size_t secret_count;
    const char *job_id; /* 16 hex: see spec_job_id */
    const char *id_name, *id_origin; /* of which job_id and variants are made, where the job took over the history of
                                        one with another name or origin; NULL: its own */
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
    uint64_t log_limit_bytes; /* of the output of a node's workers that nobody has taken yet; 0: SPEC_LOG_LIMIT */
    struct spec_text activate;
    struct spec_distributed distributed;
    uint32_t nnodes; /* nodes that take part: distributed.nnodes, else all hosts (set-up on all, the one process on node
                        0); and the hosts of roles */
    struct spec_entrypoint entrypoint; /* with roles: what is around the launch, and no program */
    struct spec_role *roles;           /* with some, distributed.present holds */
    size_t role_count;
    struct spec_place *places;
    size_t place_count;
    struct spec_text *require; /* conditions; those that do not hold are faults, as soon as they can be told */
    size_t require_count;
    struct spec_rule *rules; /* failure_rules, in order: the first that matches counts */
    size_t rule_count;
    struct spec_metric *metrics;
    size_t metric_count;
    const char *const *args; /* pass-through ARGs, as given */
    size_t arg_count;
    const char *on;          /* --on and --set, as given; NULL, 0: none */
    const char *const *sets;
    size_t set_count;
    const struct doc *doc;           /* the source */
    const struct spec_lock *lock;    /* NULL: none counts */
    const struct doc_node *resolved; /* normalised document: overrides applied, defaults filled in (rhrun show) */
};

/* A lock (lock.h) that was loaded as a spec is the spec of its run: its text with its options, on the cluster that it
 * had, with its packages in place of what pip and requirements items say. It is a job of its own, which the same lock
 * finds again; relative `to` of its outputs are in a folder rerun-RUN (8 digits). Its files are the caller's to find
 * by `root`. */
struct spec_lock {
    const struct doc_node *root; /* as schema/lock.schema.json has it */
    const char *path;
    const char *run;  /* id of the run that it is of */
    bool repeats;     /* the spec is the lock; else the spec is held to it (spec_overrides.locked) */
};

enum { SPEC_SETS_MAX = 1024 };
struct spec_overrides {
    const char *const *sets; /* "a.b=VALUE", VALUE read as an unquoted YAML scalar or flow value */
    size_t set_count;        /* more than SPEC_SETS_MAX are a fault */
    const char *const *params; /* "name=value" */
    size_t param_count;
    const char *on; /* --on local | NAME | user@host,... or NULL: replaces cluster; hosts keep its user, identity_file,
                       ... */
    const char *const *args; /* behind `--` */
    size_t arg_count;
    /* only name, origin and path are wanted, and the variant where params or args are given (not NULL, be it without
     * words): nothing else is checked or bound, and nothing of the caller's environment is needed (status, logs and
     * cancel of a spec) */
    bool identity_only;
    /* Which of cluster.any_of counts, from 1; 0: the first, and faults of all the others are told, too. */
    uint32_t alternative;
    /* cluster: NAME may be a cluster that was rented, where there is no such file. is_rented (may be NULL): is it one
     * now? Else a name that is near to that of a file is taken for a mistake. */
    bool knows_rented;
    bool (*is_rented)(void *arg, const char *name);
    void *arg;
    /* The lock beside the spec (NAME.lock.yaml) counts: what the spec says otherwise is a fault, and its packages are
     * installed. Not of a lock. */
    bool locked;
    /* Where the job took over the history of another one: gives the name and origin of that, else leaves both. -1 and
     * err: its history went to another job. NULL: nobody knows. arg: the same. */
    int (*identity)(void *arg, struct arena *arena, const char **name, const char **origin, struct error *err);
    /* For validate. Also looked for are mistakes that another machine may not have, or that cost time to find: an
     * identity_file or ssh_config that is not on this machine, a ~ that nothing expands (warnings), shell text that
     * bash refuses. */
    bool thorough;
    struct spec_checker *checker; /* for who loads many specs; NULL: the schema is compiled for this one */
};

/* The schema of specs, compiled once. */
struct spec_checker *spec_checker_create(void);
void spec_checker_destroy(struct spec_checker *c); /* takes NULL */

/* 0 and *ret_spec, or -1: diagnostics has the faults, err a summary ("job.yaml: 3 faults"). environ is asked for
 * `env` values taken from the caller. Never reads secrets. */
int spec_load(const char *path, const struct spec_overrides *overrides, struct arena *arena, struct spec **ret_spec,
              struct diagnostics *diagnostics, struct error *err);
/* The metrics that the text of a spec has with these --set: what a journal keeps of a run is enough. Of their roles
 * only names are known. -1 and err: the text, or a metric in it, cannot be read. */
int spec_metrics_of(const char *text, const char *const *sets, size_t set_count, struct arena *arena,
                    const struct spec_metric **ret, size_t *ret_count, struct error *err);
/* The job works in the spec's folder itself: on this machine, without workdir. */
bool spec_in_place(const struct spec *spec);
/* Reads the secrets' values (environment, file, command). -1 names the first that is missing and how to give it. */
int spec_resolve_secrets(struct spec *spec, struct arena *arena, struct error *err);
/* What the job's id is made of. */
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
/* What the origins of the specs in a repository begin with: its path there follows. root: the work tree's top, or a
 * bare repository. Of a URL: as in a clone of it, without credentials. Of a folder with links resolved. */
const char *spec_repository_origin(const char *root, bool bare, struct arena *arena);
const char *spec_url_origin(const char *url, struct arena *arena);
const char *spec_folder_origin(const char *real_dir, struct arena *arena);
/* A file whose first line is that, beside a folder `tree` with the files of a commit: the specs there have the origins
 * that they have in a clone. */
#define SPEC_CHECKOUT_MARKER ".rhrun-origin"
/* The embedded schemas' texts (NUL-terminated): of specs, of locks. */
const char *spec_schema_text(void);
const char *spec_lock_schema_text(void);
/* Is the document a lock, good or not? */
bool spec_is_lock(const struct doc_node *root);
/* Is it a lock that this rhrun can read? -1 with its faults in diagnostics, and err: ERROR_SPEC. */
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
    const struct expr_role *roles; /* as the spec has them, placed: roles.R.nodes[i].address; NULL = roles.R.count
                                      alone */
    const char *(*address_of)(const void *arg, uint32_t node); /* NULL, or returning it: late */
    const void *address_arg;
    const char *run; /* run.id, or NULL */
    const char *point_dir; /* point.dir: a folder of the point's own on its node, absolute; NULL = late */
};
enum expr_mode {
    EXPR_PLAIN, /* values as they are: one argv element or env value */
    EXPR_SHELL, /* the text is shell: a value is escaped for the quotes in which it stands, so it is always data */
};
/* Expands all ${{ }} of text. EXPR_LATE: with keep_late the late ones stay, with the params, env and job that they name
 * filled in (so that a changed param changes the text), and EXPR_OK is returned. EXPR_SHELL fails where a value cannot
 * be inserted as data. err has what is wrong; the caller adds the place. *ret is allocated in the arena. */
enum expr_status expr_expand(const struct spec_text *text, enum expr_mode mode, const struct expr_context *ctx,
                             bool keep_late, struct arena *arena, const char **ret, struct error *err);
/* Does spec.require[i] hold? EXPR_FAILED: no, and err says with which values, or why it cannot be told at all;
 * EXPR_LATE: not known yet. roles as in the context. */
enum expr_status spec_require(const struct spec *spec, size_t i, const struct expr_role *roles, struct arena *arena,
                              struct error *err);
/* The worker of the peer role that worker `role_rank` of `role` is given, of `count` and `peers` workers; peers > 0.
 * Block: floor(role_rank / (count / peers)) where count is a multiple of peers, and as even otherwise. */
uint32_t spec_peer_of(enum spec_by by, uint32_t role_rank, uint32_t count, uint32_t peers);
/* A copy of a tree of values with the expressions of its strings expanded as EXPR_PLAIN; keys stay. A string that is
 * exactly one expression gets the type of its value (integer, number, boolean, text); exactly ${{ args }} becomes a
 * list, or, as an item of a list, as many items. Late ones with keep_late stay text. */
enum expr_status expr_expand_doc(const struct doc_node *node, const struct expr_context *ctx, bool keep_late,
                                 struct arena *arena, struct doc_node **ret, struct error *err);

#endif
