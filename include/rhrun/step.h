/*
 * step: the kinds of step, one file each, in one table.
 *
 * A kind does two things and holds no state: `plan` adds its steps with their named inputs; and one of `build`, `sync`
 * and `fetch` turns a step on one node into the RUN message or the transfer, once the values that only the start knows
 * (addresses, the port, the launch generation) are bound. No other code in rhrun names a kind: to add one, write
 * kind_NAME.c with a `const struct step_kind` and put it into kinds.c; the table's order is the order of the steps.
 * Items of set-up are planned by items.c, in the spec's order.
 *
 * The environment of a started program, later entries winning: the agent's own or, with `activate`, the environment
 * that activate left (env_in; as changed by the conda environment, if there is one) < spec.env < entrypoint.env
 * (launch, prolog and epilog only) < rhrun's own variables (ranks, RHRUN_*, VIRTUAL_ENV). The venv's bin comes before
 * any PATH. Names in env_default are set only if nothing else set them. Secrets go to items of set-up, prolog, launch
 * and epilog; never to activate or a conda environment, whose environment is written to the node's disk, nor to the
 * step that makes the venv.
 *
 * Besides the spec's own shell text, nodes run small programs from this folder (venv.sh, install.py, ...). A program is
 * sent with the RUN as one argument and gets its values through the environment, so a value is never parsed as shell
 * text.
 *
 * A shell worker's argv is the script, then its positional parameters: the agent starts `bash -e -o pipefail -c argv[0]
 * rhrun argv[1] ...`, so pass-through ARGs are "$1", "$2", ... in an entrypoint `run`.
 */
#ifndef RHRUN_STEP_H
#define RHRUN_STEP_H

#include "rhrun/base.h"
#include "rhrun/plan.h"
#include "rhrun/spec.h"
#include "rhrun/wire.h"

enum {
    STEP_GRACE_MS = 3000,      /* between TERM and KILL when a node stops its own ranks */
    STEP_ADDRS_MAX = 96 << 10, /* a longer RHRUN_NODE_ADDRS is left out: Linux limits a variable to 128 KiB */
    STEP_HOSTS_MAX = WIRE_STRING_MAX - 1,
};

struct step_node {
    const struct wire_facts *facts; /* NULL = the node was not asked */
    const char *host;               /* the node's name in messages; NULL = the spec's name for it */
    const char *address;            /* its address as the other nodes use it; NULL = not known */
};

/* Values known only at run time. All pointers must outlive the arena of the built message. */
struct step_bind {
    const struct spec *spec;
    uint32_t node;                 /* the node to build for: its number in the plan passed to step_build */
    const struct spec_role *role;  /* step_build sets it: plan_step.role */
    const struct step_node *nodes; /* plan->node_count of them, or NULL */
    const char *node_addrs;        /* step_node_addrs, made once for all nodes; NULL = made for each message */
    const char *hosts;             /* step_hosts; likewise */
    const char *run_id;            /* RHRUN_RUN_ID, run.id */
    const char *job_id;            /* RHRUN_JOB_ID; NULL = left out */
    const char *owner;             /* the journal's random id, which no one but the job's nodes knows; NULL = not
                                      known */
    const char *nonce;             /* the generation's random nonce, as in the journal; NULL or "" = none */
    uint32_t generation;           /* of the launch, 1-based; 0 = no launch */
    uint32_t restart_count;        /* restarts so far that count against max_restarts */
    const char *master_address;    /* only for a launch with `distributed`: reachable from every node */
    uint32_t master_port;
    const uint32_t *role_ports;        /* per role: MASTER_PORT of a role with its own world; NULL = master_port */
    const char *const *role_addrs;     /* per role: step_role_addrs, made once; NULL = made for each message */
    const struct spec_secret *secrets; /* resolved (spec_resolve_secrets); a secret with value NULL is skipped */
    size_t secret_count;
    const char *work;         /* the working directory's name on the nodes (the variant, or the name that --fresh
                                 made) */
    const char *launch;       /* the launch's name in the node's record; NULL = made from run_id and generation */
    const char *result_dir;   /* absolute folder on this machine for a function's results; NULL = not known */
    const struct spec_point *point; /* of a sweep: the point whose launch this is; NULL = none */
    const char *point_dir; /* the point's own folder, absolute; made before its workers start. NULL = not known */
    const char *devices; /* GPUs of the point's place, in the form of CUDA_VISIBLE_DEVICES; NULL = the node's */
};

/* The result of a kind's `sync`. */
struct step_sync {
    const struct tree *tree;
    const char *name; /* of the tree on the node (wire.h); the name of a tree in the working directory includes the
                         variant */
    const char *root; /* node path */
    bool missing;     /* WIRE_SYNC_MISSING */
};
/* The result of a kind's `fetch`. */
struct step_fetch {
    const char *from; /* node path with wildcards */
    const char *to;   /* absolute folder on this machine */
    enum spec_when when;
    uint64_t every_ms;
    bool required; /* it is a failure if no node of the step has a file (with `own`: if any node has none); otherwise
                      only a note */
    uint64_t max_bytes; /* of all its files on one node; 0 = no limit but the room on the disk */
    bool own;      /* `to` is rhrun's own folder, and the files are results: RANK.json */
};

/* The absolute folder on this machine for an output's files from node ctx->node_rank. With several nodes and no ${{
 * node... }} in `to`, it is a folder below `to`, named like the node. EXPR_LATE without keep_late: not known yet. */
enum expr_status step_output_to(const struct spec_output *o, const struct roster *roster,
                                const struct expr_context *ctx, bool keep_late, struct arena *arena, const char **ret,
                                struct error *err);
/* Whether each node gets its own folder. */
bool step_output_has_folders(const struct spec *spec, const struct spec_output *o);

/* The name of a tree on nodes (wire.h), from plan_step's tree_name and tree_root: for a tree in the working directory
 * it includes that directory's name, `work`. */
const char *step_tree_name(const char *name, const char *root, const char *work, struct arena *arena);

/* NULL-terminated, in the order of the steps: sync, files, activate, venv, the items of set-up, restore, prolog,
 * launch, ready, ready-log, epilog, result, outputs. */
extern const struct step_kind *const step_kinds[];
/* Whether this is the name, or the slot, of a launch step: "launch", "launch:ROLE" for roles that start by themselves,
 * "point:ID" for a point. For steps whose plan is not at hand. */
bool step_is_launch(const char *name);
bool step_is_around(const char *name); /* likewise for the prolog or the epilog */

/* RHRUN_NODE_ADDRS: "10.0.0.1,10.0.0.2,..."; "" when it would be longer than STEP_ADDRS_MAX or nodes is NULL. */
const char *step_node_addrs(const struct step_node *nodes, uint32_t count, struct arena *arena);
/* The text of RHRUN_HOSTFILE: "10.0.0.1 slots=8\n...", a line for each node that has ranks, or one for this machine;
 * without slots if the launcher counts them itself. "" when it would be longer than STEP_HOSTS_MAX or nodes is NULL. */
const char *step_hosts(const struct plan *plan, const struct step_node *nodes, struct arena *arena);
/* RHRUN_ROLE_NAME_ADDRS, the addresses of a role's nodes; likewise. */
const char *step_role_addrs(const struct plan *plan, uint32_t role, const struct step_node *nodes, struct arena *arena);
/* Where a node may have the metadata of a package for bind->role's Python (NULL: the job's): node paths with wildcards,
 * of which the first that exists counts. 0 when rhrun does not know which Python is used (conda). */
enum { STEP_PATTERNS_MAX = 5 };
size_t step_package_patterns(const struct plan *plan, const struct step_bind *bind, const char *package,
                             struct arena *arena, const char *ret[STEP_PATTERNS_MAX]);
/* The file in which installing items of set-up list the packages of bind->role's Python (NULL: the job's): an absolute
 * path. NULL: no item installs there, or the path is not known yet. */
const char *step_installed_path(const struct plan *plan, const struct step_bind *bind, struct arena *arena);
/* The file that exists on bind->node if torch's last rendezvous put the launch's rank 0 there: a node path. The file is
 * empty. */
const char *step_rank0_path(const struct spec *spec, const struct step_bind *bind, struct arena *arena);
/* The first set-up step on the node that starts the interpreter of the role's Python (NULL: the job's): the step that
 * makes the venv or, without a venv, the first that installs. NULL: there is none. */
const struct plan_step *step_python_first(const struct plan *plan, const struct spec_role *role, uint32_t node);
/* Where a node must have the interpreter of bind->role's Python before that step (setup), or before workers (!setup),
 * can start: a node path for GLOB. NULL: a set-up step makes or checks the interpreter, or the node's PATH cannot be
 * known. *ret_word is the spec's name for the interpreter. */
const char *step_python_place(const struct plan *plan, const struct step_bind *bind, bool setup, struct arena *arena,
                              const char **ret_word);
/* The venv that the spec names, which is used without that interpreter if it exists. A node path, or NULL. */
const char *step_python_instead(const struct plan *plan, const struct step_bind *bind, struct arena *arena);
/* Whether the step makes no Python, but only names for an existing one. */
bool step_names_python(const struct plan_step *step);
/* Whether the step may leave an interpreter of this name on the node. */
bool step_may_bring_python(const struct plan_step *step, const char *word);
/* The "3.11" in ".../python3.11", but not in "python3.11-config": points into path, or NULL. */
const char *step_python_in(const char *path);
/* The version of bind->role's Python if it is known: "3.11". Otherwise NULL, and *ret_pattern is a node path whose
 * matches, or their link targets, are named python3.N with that Python's version (NULL: there is no such path). */
const char *step_python_version(const struct plan *plan, const struct step_bind *bind, struct arena *arena,
                                const char **ret_pattern);
/* The environment of a `run` item of set-up on bind->node (env, secrets, env_in, path_first, unset): of the job's
 * set-up or, if that does not run on the node, of the first role whose set-up does. Without variables about ranks. */
int step_surroundings(const struct plan *plan, const struct step_bind *bind, struct arena *arena,
                      struct wire_run *ret_run, struct error *err);
/* Calls kind->build of the step: fills the RUN message except attempt and key, which the caller sets. The message and
 * its strings are in the arena, or belong to the plan, the spec or the secrets. A launch needs plan->ranks_known. -1
 * (ERROR_SPEC) when an expression cannot be expanded, with the step's name and the place; (ERROR_INTERNAL) when the
 * bind lacks what the step needs. */
int step_build(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind, struct arena *arena,
               struct wire_run *ret_run, struct error *err);

#endif
