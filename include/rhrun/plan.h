/*
 * plan: what a spec means, step by step, before anything is touched.
 *
 * plan_compile is pure over the spec, the step kinds and the number of nodes. It yields steps in order, each with its
 * key, over slots (node 0, node 1, ...), never hosts; the roster gives the nodes' names, which appear in text only.
 * plan_decide compares the plan with the records and gives each (step, node) a verdict: keep, run, run again and why,
 * or "depends on the node". The plan is const from then on; the executor keeps its own state in a parallel array.
 *
 * A step's key is the SHA-256 of its kind's name and version and its named inputs in canonical form. When an input
 * changes, its name is the reason that people see ("`run` changed"). A step that depends on earlier steps has their
 * keys among its inputs ("after NAME"). Not in keys: secret values, timeouts, ports, addresses, restart counts, log
 * settings, authentication, `entrypoint.env` for set-up, node identity.
 *
 * Step kinds are declared one per file in src/step, listed in one table there (step_kinds), and passed
 * in. */
#ifndef RHRUN_PLAN_H
#define RHRUN_PLAN_H

#include "rhrun/base.h"
#include "rhrun/roster.h"
#include "rhrun/spec.h"
#include "rhrun/tree.h"

struct plan;
struct plan_step;
struct plan_builder; /* while planning */
struct step_bind;    /* what is known only at run time: see step.h */
struct wire_run;
struct step_sync;  /* what a step brings to a node: see step.h */
struct step_fetch; /* what a step fetches to this machine: see step.h */

struct plan_input {
    const char *name;  /* "run", "inputs data/x.csv", "env PATH_TO", "after kernels" */
    const char *value; /* the text itself if short, else its "sha256:HEX" */
};

enum plan_phase { PHASE_SETUP, PHASE_POINT, PHASE_PROLOG, PHASE_LAUNCH, PHASE_EPILOG, PHASE_OUTPUTS };

/* What the steps of a kind leave on their nodes for later steps to read. */
enum step_brings {
    BRINGS_NOTHING = 0,
    BRINGS_TREE,  /* the files of plan_step.tree */
    BRINGS_CLONE, /* a git clone; `creates` is its .git folder */
    BRINGS_ANY,   /* `creates` and possibly any other file, because the spec's own shell text decides */
};

/* A kind of step. On a node a step is a RUN (build), a transfer of files to the node (sync), or a transfer from it
 * (fetch): exactly one of build, sync and fetch is set. */
struct step_kind {
    const char *name; /* "sync", "activate", "run", "launch" */
    unsigned version; /* part of the key: raise it when the same inputs get a new meaning */
    enum plan_phase phase;
    bool cached; /* a recorded success is kept (set-up); prolog and epilog run with every launch */
    bool ranked; /* its workers are the job's, so their numbers are ranks */
    bool asks;   /* asks whether a role is ready; the reason for its failure is in that role's output */
    /* Properties that other kinds ask for; they never look at a kind's name or place in the table: */
    enum step_brings brings;
    bool is_workdir;  /* brings the working directory, and nothing outside it */
    bool is_python;   /* makes the Python to use, or names an existing one: `item` says which */
    bool uses_python; /* installs with a Python that exists already */
    bool makes_env;   /* later steps and workers start with the environment that it leaves */
    bool restores;    /* sends a launch's results back to the node: files that launches make, not files that they are
                         made of */
    /* Adds this kind's steps for the spec (none is fine) by plan_add and plan_input_*. NULL: another kind's `plan` adds
     * them, so that steps of several kinds keep the spec's order. */
    int (*plan)(struct plan_builder *b, const struct spec *spec, struct error *err);
    /* Fills the RUN message for one node: everything but attempt and key. Memory in the arena. */
    int (*build)(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                 struct arena *arena, struct wire_run *ret_run, struct error *err);
    /* Which tree must be on the node, and where. */
    int (*sync)(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                struct arena *arena, struct step_sync *ret, struct error *err);
    /* Which files are fetched to this machine, and where to. */
    int (*fetch)(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                 struct arena *arena, struct step_fetch *ret, struct error *err);
    bool result; /* fetches the launch's return value, without which the launch was in vain */
    /* In a job with a sweep: the kind of the steps that this one makes for each point (PHASE_POINT). NULL: none. */
    const struct step_kind *of_point;
    bool verify; /* installs: if an earlier step with `verify` for the same `python` ran in this run, a kept step runs
                    too. Its RUN first checks whether its packages are unchanged, and if so does nothing more */
    bool renews; /* when it runs, the results of later steps are gone (a new venv): steps with the same `python` that
                    chain to it run too */
};

/* What must hold before a step of the launch starts. */
struct plan_wait {
    uint32_t step; /* its id */
    bool started;  /* true: it was started on all its nodes; false: it ended well there */
};
/* For a step that is over once all workers of a role have printed a matching line; nothing runs for it. */
struct plan_watch {
    const char *pattern; /* PCRE2 */
    uint32_t step;       /* the step whose lines are searched */
    uint32_t role;
};

struct plan_step {
    uint32_t id;       /* index in plan->steps */
    const char *name;  /* unique: the item's name, "activate", "prolog", "launch", "epilog" */
    const char *label; /* for people: the name; of a point the point's name */
    const char *slot;  /* its slot on the node: "setup:kernels", "launch" */
    const char *scope; /* the scope of its cells (state.h): "" or the variant */
    const struct step_kind *kind;
    const void *item;             /* belongs to the kind: the struct spec_step, ... */
    const struct spec_role *role; /* the role whose set-up, files or launch this is, with that role's python, env and
                                     nodes; NULL: the job's */
    const char *title;            /* one line for people */
    const char *command;          /* the command in full, names known only at the start as written; NULL = nothing to
                                     show */
    const char *key;              /* 64 hex */
    struct plan_input *inputs;
    size_t input_count;
    bool item_of_setup; /* an item of the set-up list of `role` */
    bool holds_back;    /* an item with `on`: on the other nodes the later items of its list wait until this one is done
                           on its nodes */
    uint32_t point;    /* of PHASE_POINT: the index in plan.points */
    bool *on;          /* on[node]: whether it runs there. All false with PHASE_POINT: core chooses the nodes at run
                          time */
    uint32_t on_count; /* how many */
    const bool *of_point; /* of PHASE_POINT: on which of the point's nodes it runs, by their number within the point */
    bool at_rank0;     /* its files come from the node where rank 0 ran, which only the nodes know */
    uint32_t retry_times;
    uint64_t retry_backoff_ms;
    bool on_unknown_fail;
    const char *python; /* of set-up: names the Python that it makes, installs into or runs with; NULL = none */
    const char *creates; /* a path below the working directory that exists as long as the step's result does, or NULL */
    const char *hint;    /* "narrow it with inputs", or NULL */
    bool shared; /* acts only below the base folder: of the nodes that share that folder (facts.home_id) the first does
                    it for all */
    bool one_place; /* shared, and all nodes are on this machine and use one folder (in place, or a path outside the
                       nodes' own folders): the first of all nodes does it */
    const char *tree_name,
        *tree_root;          /* of a sync, as in wire.h; NULL = none, or known on the node only. The name lacks the
                                working directory's variant, which the run adds if tree_root is relative */
    const struct tree *tree; /* of a sync, else NULL */
    /* of a launch, and of steps that wait for its roles to be ready: */
    struct plan_wait *waits;
    size_t wait_count;
    const struct plan_watch *watch; /* NULL: the step's kind has a build */
    uint64_t timeout_ms;            /* 0 = none */
    bool sidecar;                   /* stopped once all others of the launch have ended well */
};

/* Trees and files that planning reads. cli gathers them before, so that plan stays pure. All optional. */
struct plan_sources {
    const struct tree *workdir;       /* spec.workdir */
    const char *commit;               /* if it comes from a repository */
    const struct tree *const *files;  /* per item of spec.files */
    const struct tree *const *copies; /* per item of spec.setup: its tree for ITEM_COPY, else NULL */
    const struct tree *const *restores; /* [output * nnodes + node]: the files in `to` of an output with `restore` for
                                           that node; NULL = `to` does not exist. Nodes that share one `to` share the
                                           tree */
    /* Reads a file below the working directory (from the tree, or in place); -1: there is no such file (ERROR_SPEC). */
    int (*read)(void *arg, const char *path, struct buf *ret, struct error *err);
    void *arg;
};

struct plan_rank {                   /* the rank table of the native launch: an entry per worker */
    uint32_t rank, node, local_rank; /* rank: in its role's world; with `world: none` its number in the role */
    uint32_t role, role_rank;
};
/* Workers are numbered over the whole launch: first those with ranks in the job's world, by rank, then those of other
 * roles, in the file's order. wire_worker.rank is this number. */
struct plan_place { /* the workers of one role on one node */
    uint32_t role, node, count;
    uint32_t worker, role_rank, rank, local_rank; /* of the first of them */
    uint32_t local_world_size;
    uint32_t group, group_count; /* group: the node's number among the nodes of its world; group_count: how many these
                                    are */
};
struct plan_role {
    const char *name;
    uint32_t worker, count;    /* number of its first worker, and how many it has */
    uint32_t rank, world_size; /* rank of its first worker; with `world: none` 0 and `count` */
    uint32_t master;           /* the node of its world's rank 0 */
};

/* What would be rented for the job. cli gathers it before, so that plan stays pure. Not part of any key. */
struct plan_offer { /* an offer; offers are in the order in which they are tried */
    const char *provider, *region, *zone, *type; /* zone "": the provider chooses */
    bool spot;
    uint32_t nodes;        /* how many machines */
    uint32_t alternative;  /* of any_of, from 1; 0: there is none */
    uint64_t price;        /* of all nodes: micro-USD per hour */
    bool at_most;          /* price is an upper bound, because the spot price is unknown */
    bool unpriced, free;   /* unpriced: the price is unknown; free: it costs nothing */
    uint32_t as_of_day;    /* since when the price is known, in days since 1970-01-01; 0 = not known */
    const char *source;    /* where the price is from; "" = not known */
};
struct plan_lessor { /* a provider */
    const char *name, *title;
    const char *risk;     /* what happens to a rented machine when the machine that runs rhrun dies */
    const char *left_out; /* why it has none of the offers; NULL: it has some */
    const char *missing;  /* which credentials were looked for and not found; NULL: they were found */
};
struct plan_rent {
    const struct plan_offer *offers;
    size_t offer_count, cut; /* cut: how many dearer offers are not among them */
    const struct plan_lessor *providers;
    size_t provider_count;
    bool there;          /* the machines exist already */
    const char *missing; /* why nothing can be rented now: no credentials; NULL: something can */
    uint32_t today;      /* in days since 1970-01-01, to show the age of prices */
};

/*
 * A point of the sweep: a launch with its own params, on nodes that are known only once there is room for it. Its steps
 * follow those of set-up: the launch, then the steps that fetch its outputs. Each has its own key, made from what it
 * reads.
 */
struct plan_point {
    const struct spec_point *point;
    const struct plan *own; /* the plan that its steps are built with: the point's params, number of nodes and ranks;
                               own->steps are those of set-up */
    uint32_t launch;        /* id of its launch; the steps after it, up to `end`, fetch its outputs */
    uint32_t end;
    /* Set by cli from the journal, to show the plan; nothing is decided by these: */
    bool launched; /* its launch is done */
    bool recorded; /* its outputs are fetched */
    const char *reason; /* of a point that is not done: plan_point_reason; NULL: nothing is recorded of it */
};

struct plan {
    const struct spec *spec;
    struct plan_point *points; /* NULL: the job has no sweep */
    uint32_t point_count;
    const struct plan_rent *rent; /* NULL: nothing is rented, or offers were not looked up */
    const struct roster *roster; /* which host each node has */
    struct arena *arena; /* the plan's memory */
    const struct plan_sources *sources; /* never NULL; empty if the caller gave none */
    uint32_t node_count;
    struct plan_step *steps; /* in order; set-up first, then prolog, launch, epilog */
    size_t step_count;
    const char *job_hash;    /* as hash, without the steps that only fetch: a launch that ended well under the same
                                job_hash serves this plan */
    const char *hash;        /* over all keys: "done" means the latest run of the variant has the same */
    bool ranks_known;        /* false: nproc is auto, cpu or gpu and the nodes' facts are missing, or torchrun assigns
                                the ranks */
    uint32_t *nproc;         /* per node; 0 = not known yet */
    uint32_t world_size;     /* 0 = not known */
    struct plan_rank *ranks; /* worker_count of them, when known */
    uint32_t worker_count;   /* world_size plus the workers of roles outside the job's world; 0 = not known */
    uint32_t master;         /* the node of rank 0 */
    struct plan_role *roles; /* as spec->roles, once ranks are known */
    struct plan_place *places; /* by role, then by node */
    uint32_t place_count;
    const struct expr_role *placed; /* in the order of spec->roles; their nodes are known from the beginning */
};

/* What plan_compile may use of the nodes; all optional. */
struct plan_facts {
    bool known;
    uint32_t cpus, gpus;
};

/* 0 and *ret_plan in the arena, or -1 (for instance an input file that cannot be read). facts: node_count of them or
 * NULL. */
int plan_compile(const struct spec *spec, const struct roster *roster,
                 const struct step_kind *const *kinds /* NULL-terminated */,
                 const struct plan_sources *sources /* or NULL */, const struct plan_facts *facts, struct arena *arena,
                 struct plan **ret_plan, struct error *err);
/* The plan to build a point's steps with, once its nodes are known: plan_point.own with the hosts and facts of these
 * own->node_count nodes. -1 (ERROR_SPEC): a node cannot take the point's workers. */
int plan_at_nodes(const struct plan *own, const uint32_t *nodes, const struct plan_facts *facts, struct arena *arena,
                  struct plan **ret, struct error *err);
/* Whether this node can take its workers, by its facts alone. Asked before anything starts on the node. */
int plan_check_node(const struct plan *plan, uint32_t node, const struct plan_facts *facts, struct error *err);
/* Fills the rank table once worker counts are known; false and err when nproc is gpu and a node has none. */
int plan_bind_ranks(struct plan *plan, const struct plan_facts *facts, struct arena *arena, struct error *err);

/* The role of the worker with this number, and the worker's number in the role; "default" if there are no roles. */
const char *plan_role_of(const struct plan *plan, uint32_t worker, uint32_t *ret_role_rank);
/* NULL: the role has no workers on that node. */
const struct plan_place *plan_place_of(const struct plan *plan, uint32_t role, uint32_t node);

/* ---- for step kinds, while planning ---- */
struct plan_step *plan_add(struct plan_builder *b, const struct step_kind *kind, const char *name, const char *title);
void plan_on_all(struct plan_builder *b, struct plan_step *s);
void plan_on_nodes(struct plan_builder *b, struct plan_step *s, const uint32_t *nodes, size_t count);
void plan_input(struct plan_builder *b, struct plan_step *s, const char *name,
                const char *value); /* long values are digested */
/* spec text, expanded with the names known now (late names stay); shell or plain */
int plan_input_text(struct plan_builder *b, struct plan_step *s, const char *name, const struct spec_text *text,
                    enum expr_mode mode, struct error *err);
/* glob patterns below dir, with **; dot files match too, .git never: one input per file, by content */
int plan_input_files(struct plan_builder *b, struct plan_step *s, const char *dir, const struct spec_texts *patterns,
                     struct error *err);
/* All source files below dir as one input, without dot files and the results of builds (build, *.egg-info, __pycache__,
 * ...). */
int plan_input_sources(struct plan_builder *b, struct plan_step *s, const char *dir, const char *name,
                       struct error *err);
void plan_input_after(struct plan_builder *b, struct plan_step *s, const struct plan_step *earlier); /* chains keys */
/* Chains s to all earlier steps for which counts() is true (NULL: all), with the fewest edges: an edge to a step also
 * stands for the steps that that step chains to. */
void plan_input_after_all(struct plan_builder *b, struct plan_step *s,
                          bool (*counts)(struct plan_builder *b, const struct plan_step *s,
                                         const struct plan_step *earlier));
/* Whether both run on a common node, as far as their nodes are set yet. */
bool plan_share_node(struct plan_builder *b, const struct plan_step *s, const struct plan_step *other);
/* The i-th step added so far; NULL past the end. For kinds that look back. */
struct plan_step *plan_at(struct plan_builder *b, size_t i);
/* text expanded with the names known when planning, late names as written; -1 and err with the place. */
int plan_expand(struct plan_builder *b, const struct spec_text *text, enum expr_mode mode, const char **ret,
                struct error *err);
struct arena *plan_arena(struct plan_builder *b);
const struct spec *plan_spec_of(struct plan_builder *b);
const struct plan_sources *plan_sources_of(struct plan_builder *b);
const struct expr_role *plan_placed_of(struct plan_builder *b); /* as spec->roles */
void plan_wait(struct plan_builder *b, struct plan_step *s, const struct plan_step *other, bool started);
/* The files of the working directory's tree that match, by their oids; without a tree as plan_input_files on the spec's
 * folder. */
int plan_input_tree_files(struct plan_builder *b, struct plan_step *s, const struct spec_texts *patterns,
                          struct error *err);

/* ---- verdicts ---- */
enum verdict {
    VERDICT_KEEP,    /* recorded with this key, and nothing contradicts the record */
    VERDICT_RUN,     /* never ran here */
    VERDICT_AGAIN,   /* ran, but `reason` */
    VERDICT_VERIFY,  /* kept, but checked again: an earlier installation runs, which may change the packages of this
                        one */
    VERDICT_DEPENDS, /* only the node can tell (offline, or its facts are old) */
    VERDICT_NOT_NEEDED, /* the launch's result is kept, so its set-up is not needed */
};
/* "keep", "run", "run again", "verify", "depends on the node", "not needed" */
const char *verdict_name(enum verdict v);

/* The record of a (step, node), from the journal or the node's ledger; passed in, so that plan stays pure. */
struct plan_record {
    bool present;
    bool ok;                  /* ended well */
    bool unknown;             /* it started and left no outcome */
    bool voided;              /* by --fresh, --again, --from */
    bool live;                /* an attempt runs at this moment */
    const char *ended;        /* how, when not ok: "exit status 2", "signal 9", "a timeout"; NULL = not known */
    const char *key, *inputs; /* inputs: JSON object as stored, for the reason */
    const char *when;         /* for people: "2026-11-20 14:02" */
    bool verified;            /* the node's ledger was asked and agrees */
    bool unasked;             /* its node was asked and gave no answer */
    bool fetch;               /* of outputs: the launch is kept, and this step's files are not on this machine, or not
                                 as `outputs` says now */
    bool contradicted;        /* the node's ledger was asked and does not have the record (`why_not`) */
    const char *why_not; /* "the node is a new machine", "kernels/k.so is gone", "the node's ledger does not have it";
                            for voided: "voided by --fresh" */
};
struct plan_decision {
    enum verdict verdict;
    const char *reason; /* never NULL with AGAIN: "`run` changed", "requirements.txt changed", "ended with exit status
                           2", ...; NULL for keep and run */
};
/* decisions[step * node_count + node]. When an earlier step runs again, a later step does so only if its key chains to
 * it. */
void plan_decide(const struct plan *plan, const struct plan_record *records /* same layout */, bool online,
                 struct arena *arena, struct plan_decision *ret_decisions);
/* Why the point is launched although there is a record of it: "`run` changed", or record->ended as a sentence ("failed:
 * exit status 3"). NULL: the record is good. */
const char *plan_point_reason(const struct plan *plan, uint32_t point, const struct plan_record *record,
                              struct arena *arena);
/* Whether the key of `later` depends on that of `step`, directly or not. */
bool plan_chains(const struct plan *plan, const struct plan_step *later, const struct plan_step *step);
/* Whether a run of `step` makes `later`, which would be kept, run too: by kind->verify and kind->renews. */
bool plan_looks_again(const struct plan *plan, const struct plan_step *step, const struct plan_step *later);
/* Whether --from FROM does `step` again: the step FROM and all steps after it. If FROM belongs to a role, set-up steps
 * of other roles and of the job are not done again. from: the step's name. */
bool plan_is_from(const struct plan *plan, const char *from, const struct plan_step *step);
/* Names of the inputs that differ between a recorded JSON object and the step: "run, env HF_HOME"; NULL when none. */
const char *plan_changed_inputs(const struct plan_step *step, const char *recorded_json, struct arena *arena);
/* {"run": "…", ...} as kept in events */
const char *plan_inputs_json(const struct plan_step *step, struct arena *arena);

/* Verdict of the rent step: KEEP if the machines exist, RUN if some node has a step to do, else NOT_NEEDED. */
enum verdict plan_rent_verdict(const struct plan *plan, const struct plan_decision *decisions);
/* Text for people (80 columns: steps, verdicts with node sets, rank table, commands) and JSON
 * (schema/plan.schema.json). */
void plan_format(const struct plan *plan, const struct plan_decision *decisions, bool colour, bool verbose,
                 struct buf *ret);
void plan_format_json(const struct plan *plan, const struct plan_decision *decisions, struct buf *ret);
/* A set of nodes such as "0-3,7", or the host's name for a single node. */
void plan_node_set(const struct plan *plan, const bool *on, struct buf *ret);

#endif
