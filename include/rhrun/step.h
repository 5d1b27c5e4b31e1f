/*
 * step: the kinds of step there are, one file each, in one table.
 *
 * A kind does two things and holds no state: `plan` adds its steps with their named inputs, and one of `build`, `sync`
 * and `fetch` turns a step on one node into the RUN message or the transfer, when all is bound that only the start
 * knows (addresses, the port, the launch generation). Nothing else in rhrun names a kind: to add one, write kind_NAME.c
 * with a `const struct step_kind` and put it into kinds.c; the table's order is the order of the steps. Items of set-up
 * are planned by items.c, in the spec's order.
 *
 * The environment of what starts, later over earlier: the agent's own or, when there is `activate`, what
 * activate left (env_in; with a conda environment what that made of it) < spec.env < entrypoint.env (launch, prolog and
 * epilog only) < rhrun's own variables (ranks, RHRUN_*, VIRTUAL_ENV); the venv's bin stands before any PATH. Names of
 * env_default are set only where nothing of all this set them. Secrets go to items of set-up, prolog, launch and
 * epilog; never to activate or a conda environment, whose environment is written to the node's disk, nor to what makes
 * the venv.
 *
 * Besides texts of the spec, nodes run small programs that lie beside the kinds (venv.sh, install.py, ...). A program
 * is sent with the RUN as one argument, and gets its values through the environment, so no value is ever shell text.
 *
 * A shell worker's argv is the script, then its positional parameters: the agent starts
 * `bash -e -o pipefail -c argv[0] rhrun argv[1] ...`, so pass-through ARGs are "$1", "$2", ... of an
 * entrypoint `run`.
 */
#ifndef RHRUN_STEP_H
#define RHRUN_STEP_H

#include "rhrun/base.h"
#include "rhrun/plan.h"
#include "rhrun/spec.h"
#include "rhrun/wire.h"

enum {
    STEP_GRACE_MS = 3000,      /* between TERM and KILL when a node stops its own ranks */
    STEP_ADDRS_MAX = 96 << 10, /* RHRUN_NODE_ADDRS is left out when longer: Linux ends a variable at 128 KiB */
    STEP_HOSTS_MAX = WIRE_STRING_MAX - 1,
};

struct step_node {
    const struct wire_facts *facts; /* NULL = not asked: nothing of it is used then */
    const char *host;               /* what messages call it; NULL = the spec's name for it */
    const char *address;            /* what the other nodes call it; NULL = not known */
};

/* What binds at run time. All pointers outlive the built message's arena. */
struct step_bind {
    const struct spec *spec;
    uint32_t node;                 /* the node to build for: its number in the plan that is built with */
    const struct spec_role *role;  /* step_build sets it: plan_step.role */
    const struct step_node *nodes; /* plan->node_count of them, or NULL */
    const char *node_addrs;        /* step_node_addrs, made once for all nodes; NULL = made for each message */
    const char *hosts;             /* step_hosts; likewise */
    const char *run_id;            /* RHRUN_RUN_ID, run.id */
    const char *job_id;            /* RHRUN_JOB_ID; NULL = left out */
    const char *owner;             /* the journal's random id, which only the job's nodes know; NULL = not known */
    const char *nonce;             /* random, of the generation, as the journal has it; NULL or "" = none */
    uint32_t generation;           /* of the launch, 1-based; 0 = no launch */
    uint32_t restart_count;        /* restarts so far that count against max_restarts */
    const char *master_address;    /* launch of `distributed` only: reachable from every node */
    uint32_t master_port;
    const uint32_t *role_ports;        /* per role: MASTER_PORT of one with a world of its own; NULL = master_port */
    const char *const *role_addrs;     /* per role: step_role_addrs, made once; NULL = made for each message */
    const struct spec_secret *secrets; /* resolved (spec_resolve_secrets); those with value NULL are skipped */
    size_t secret_count;
    const char *work;         /* the working directory's name on the nodes (variant, or that after --fresh) */
    const char *launch;       /* what the node's record of its launch names it; NULL = by run_id and generation */
    const char *result_dir;   /* absolute folder here for a function's results; NULL = not known */
    const struct spec_point *point; /* of a sweep: whose launch it is; NULL = none */
    const char *point_dir; /* folder of the point's own, absolute; made before its workers start. NULL = not known */
    const char *devices; /* GPUs of the point's place, as CUDA_VISIBLE_DEVICES has them; NULL = the node's */
};

/* What `sync` of a kind says. */
struct step_sync {
    const struct tree *tree;
    const char *name; /* of the tree on the node (wire.h); one in the working directory has the variant's name in it */
    const char *root; /* node path */
    bool missing;     /* WIRE_SYNC_MISSING */
};
/* What `fetch` of a kind says. */
struct step_fetch {
    const char *from; /* node path with wildcards */
    const char *to;   /* absolute folder here */
    enum spec_when when;
    uint64_t every_ms;
    bool required; /* that no node of the step has a file is a failure, of `own` that one of them has none; else it is a
                      note */
    uint64_t max_bytes; /* of all its files on a node; 0 = as many as there is room for */
    bool own;      /* `to` is rhrun's own folder, and what comes are results: RANK.json */
};

/* The folder here, absolute, where the files of an output of node ctx->node_rank go: with several nodes and no ${{
 * node... }} in `to`, one named as the node below it. EXPR_LATE without keep_late: not known yet. */
enum expr_status step_output_to(const struct spec_output *o, const struct roster *roster,
                                const struct expr_context *ctx, bool keep_late, struct arena *arena, const char **ret,
                                struct error *err);
/* does each node get one of its own? */
bool step_output_has_folders(const struct spec *spec, const struct spec_output *o);

/* The name of a tree on nodes (wire.h) from plan_step's tree_name and tree_root: one in the working directory has the
 * name of that, `work`, in it. */
const char *step_tree_name(const char *name, const char *root, const char *work, struct arena *arena);

/* NULL-terminated, in the order of the steps: sync, files, activate, venv, the items of set-up, restore, prolog,
 * launch, ready, ready-log, epilog, result, outputs. */
extern const struct step_kind *const step_kinds[];
/* Is it of a launch: "launch", of the roles that start by themselves "launch:ROLE", of a point "point:ID"? By
 * the name, or the slot, of a step whose plan is not at hand. */
bool step_is_launch(const char *name);
bool step_is_around(const char *name); /* the prolog or the epilog; likewise */

/* "10.0.0.1,10.0.0.2,...": RHRUN_NODE_ADDRS; "" when it would be longer than STEP_ADDRS_MAX or nodes is NULL. */
const char *step_node_addrs(const struct step_node *nodes, uint32_t count, struct arena *arena);
/* "10.0.0.1 slots=8\n...": the text of RHRUN_HOSTFILE, a line for each node that has ranks, or one for this machine;
 * without slots where the launcher counts them. "" when it would be longer than STEP_HOSTS_MAX or nodes is NULL. */
const char *step_hosts(const struct plan *plan, const struct step_node *nodes, struct arena *arena);
/* The addresses of a role's nodes: RHRUN_ROLE_NAME_ADDRS; likewise. */
const char *step_role_addrs(const struct plan *plan, uint32_t role, const struct step_node *nodes, struct arena *arena);
/* Where the metadata of a package of bind->role's Python (NULL: the job's) may be on a node: node paths with wildcards,
 * of which the first that is there counts. 0 when rhrun does not know which Python that is (conda). */
enum { STEP_PATTERNS_MAX = 5 };
size_t step_package_patterns(const struct plan *plan, const struct step_bind *bind, const char *package,
                             struct arena *arena, const char *ret[STEP_PATTERNS_MAX]);
/* The file in which items that install say what bind->role's Python (NULL: the job's) has there: an absolute path.
 * NULL: no item of set-up installs there, or nobody knows yet where. */
const char *step_installed_path(const struct plan *plan, const struct step_bind *bind, struct arena *arena);
/* The file that is on bind->node where the launch's rank 0 is there, by torch's last rendezvous: node path. Nothing
 * else is in it. */
const char *step_rank0_path(const struct spec *spec, const struct step_bind *bind, struct arena *arena);
/* The first step of set-up on the node that starts the interpreter of the role's Python (NULL: the job's) itself: it
 * makes the venv, or installs where there is none. NULL: none does. */
const struct plan_step *step_python_first(const struct plan *plan, const struct spec_role *role, uint32_t node);
/* Where the interpreter of bind->role's Python must be on a node before that step (setup), or else before workers, can
 * start: a node path for GLOB. NULL: a set-up step has made it or checked it, or what PATH is there cannot be told.
 * *ret_word is how the spec names it. */
const char *step_python_place(const struct plan *plan, const struct step_bind *bind, bool setup, struct arena *arena,
                              const char **ret_word);
/* What is used without the interpreter where it is there: a venv that the spec names. A node path, or NULL. */
const char *step_python_instead(const struct plan *plan, const struct step_bind *bind, struct arena *arena);
/* Does the step make no Python, but names for one that is there? */
bool step_names_python(const struct plan_step *step);
/* May the step leave an interpreter of that name on the node? */
bool step_may_bring_python(const struct plan_step *step, const char *word);
/* "3.11" of ".../python3.11", not of "python3.11-config": a part of it, or NULL. */
const char *step_python_in(const char *path);
/* What is known of the version of bind->role's Python: "3.11"; or NULL, and *ret_pattern is a node path whose matches,
 * or what they link to, are named python3.N as that Python is (NULL: nothing is). */
const char *step_python_version(const struct plan *plan, const struct step_bind *bind, struct arena *arena,
                                const char **ret_pattern);
/* What a `run` item of set-up finds on bind->node, of the job or, where its set-up is not there, of the first role that
 * is: env, secrets, env_in, path_first, unset. Of variables that speak of a rank there are none. */
int step_surroundings(const struct plan *plan, const struct step_bind *bind, struct arena *arena,
                      struct wire_run *ret_run, struct error *err);
/* kind->build of the step: everything of the RUN message but attempt and key, which the caller puts in. The message and
 * its strings are in the arena, or belong to the plan, the spec or the secrets. A launch needs plan->ranks_known. -1
 * (ERROR_SPEC) when an expression cannot be expanded, with the step's name and the place; (ERROR_INTERNAL) when the
 * bind lacks what the step needs. */
int step_build(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind, struct arena *arena,
               struct wire_run *ret_run, struct error *err);

#endif
