/*
 * plan: what a spec means, step by step, before anything is touched.
 *
 * plan_compile is pure over the spec, the step kinds and the number of nodes: it yields steps in order,
 * each with its key, over slots (node 0, node 1, ...), never hosts; what nodes are called, for text alone,
 * the roster says. plan_decide compares it with what is recorded and says for every (step, node): keep,
 * run, run again and why, or that it depends on the node. The plan is const from then on; the executor
 * keeps its own state in a parallel array.
 *
 * A step's key is the SHA-256 of its kind's name and version and its named inputs in canonical form. The
 * names give the reason when one changes. A step that depends on earlier steps has their keys among its
 * inputs ("after NAME"). Not in keys: secret values, timeouts, ports, addresses, restart counts, log
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
struct step_bind;    /* what binds at run time: see step.h */
struct wire_run;
struct step_sync;  /* what a step brings to a node: see step.h */
struct step_fetch; /* what a step brings home: see step.h */

struct plan_input {
    const char *name;  /* "run", "inputs data/x.csv", "env PATH_TO", "after kernels" */
    const char *value; /* short text itself, or "sha256:HEX" of longer text */
};

enum plan_phase { PHASE_SETUP, PHASE_POINT, PHASE_PROLOG, PHASE_LAUNCH, PHASE_EPILOG, PHASE_OUTPUTS };

/* What a kind's steps put on their nodes that a later step may read. */
enum step_brings {
    BRINGS_NOTHING = 0,
    BRINGS_TREE,  /* the files of plan_step.tree */
    BRINGS_CLONE, /* a folder, of which `creates` is the .git */
    BRINGS_ANY,   /* what `creates` names, and any other file: what it does is a text of the spec */
};

/* How a step is done on a node: by a RUN; by a transfer of files to it, from it; exactly one of build, sync, fetch is
 * set. */
struct step_kind {
    const char *name; /* "sync", "activate", "run", "launch" */
    unsigned version; /* in the key: raise it when the same inputs mean something else */
    enum plan_phase phase;
    bool cached; /* a recorded success is kept (set-up); prolog and epilog run with every launch */
    bool ranked; /* its workers are the job's: their numbers mean something */
    bool asks;   /* whether a role is ready: of its failure that role's own output tells */
    /* What steps of other kinds ask, which never look at a kind's name or place in the table: */
    enum step_brings brings;
    bool is_workdir;  /* brings the working directory, and nothing outside of it */
    bool is_python;   /* makes a Python to use, or names the one that is there: `item` says which */
    bool uses_python; /* installs with the Python that is there already */
    bool makes_env;   /* what starts later has the environment that it leaves */
    bool restores;    /* puts back what a launch made: a result of launches, not what they are made of */
    /* Adds this kind's steps for the spec (none is fine) by plan_add and plan_input_*. NULL: another kind does, so that
     * steps of several kinds stand in the spec's order. */
    int (*plan)(struct plan_builder *b, const struct spec *spec, struct error *err);
    /* Fills the RUN message for one node: everything but attempt and key. Memory in the arena. */
    int (*build)(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                 struct arena *arena, struct wire_run *ret_run, struct error *err);
    /* The tree that is to be on the node, and where. */
    int (*sync)(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                struct arena *arena, struct step_sync *ret, struct error *err);
    /* The files that are to come home, and where to. */
    int (*fetch)(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                 struct arena *arena, struct step_fetch *ret, struct error *err);
    bool result; /* brings what the launch returned: without it the launch was in vain */
    /* In a job with a sweep: the kind of the steps that this one makes for each point (PHASE_POINT). NULL: none. */
    const struct step_kind *of_point;
    bool verify; /* installs: where an earlier step with `verify` for the same `python` ran in this run, a kept one is
                    run too: its RUN looks first whether what it installed is still as it left it, and does no more
                    then */
    bool renews; /* when it runs, what later steps left is gone (a venv made anew): those with the same `python` that
                    chain to it run too */
};

/* What must hold before a step of the launch starts. */
struct plan_wait {
    uint32_t step; /* its id */
    bool started;  /* it was started on all its nodes; else: it ended well there */
};
/* Of a step that is over once all workers of a role have printed a matching line: nothing runs for it. */
struct plan_watch {
    const char *pattern; /* PCRE2 */
    uint32_t step;       /* whose lines */
    uint32_t role;
};

struct plan_step {
    uint32_t id;       /* index in plan->steps */
    const char *name;  /* unique: the item's name, "activate", "prolog", "launch", "epilog" */
    const char *label; /* what people read: the name; of a point the point's name */
    const char *slot;  /* on the node: "setup:kernels", "launch" */
    const char *scope; /* of its cells: "" or the variant */
    const struct step_kind *kind;
    const void *item;             /* kind's own: the struct spec_step, ... */
    const struct spec_role *role; /* whose set-up, files or launch it is: its python, env and nodes; NULL: the job's */
    const char *title;            /* one line for people */
    const char *command;          /* what starts, in full, late names as written; NULL = nothing to show */
    const char *key;              /* 64 hex */
    struct plan_input *inputs;
    size_t input_count;
    bool item_of_setup; /* an item of a set-up list, that of `role` */
    bool holds_back;    /* one with `on`: the later items of its list wait on the other nodes until it is done on its
                           own */
    uint32_t point;    /* of PHASE_POINT: which of plan.points it belongs to */
    bool *on;          /* on[node]: does it run there? Of PHASE_POINT nowhere: its nodes bind at run time, in core */
    uint32_t on_count; /* how many */
    const bool *of_point; /* of PHASE_POINT: on which of its point's nodes it is, by their number among these */
    bool at_rank0;     /* of these it comes from the one where rank 0 was, which only the nodes know */
    uint32_t retry_times;
    uint64_t retry_backoff_ms;
    bool on_unknown_fail;
    const char *python; /* of set-up: a text that names the Python that it makes, installs for or runs with; NULL =
                           none */
    const char *creates; /* path below the working directory that exists while the step's result does, or NULL */
    const char *hint;    /* "narrow it with inputs", or NULL */
    bool shared; /* acts only below the base folder: on nodes that share one (facts.home_id) it is done by the first of
                             them, for all */
    bool one_place; /* shared, and all nodes are this machine, which has the folder once (in place, or a path that is no
                       node's own): it is done by the first of all of them */
    const char *tree_name,
        *tree_root;          /* of a sync, as in wire.h (the name without the working directory's variant: the run adds
                             it where tree_root is relative); NULL = none, or known on the node only */
    const struct tree *tree; /* of a sync, else NULL */
    /* of a launch, and of what waits for its roles to be ready: */
    struct plan_wait *waits;
    size_t wait_count;
    const struct plan_watch *watch; /* or NULL: then it has a kind that builds */
    uint64_t timeout_ms;            /* 0 = none */
    bool sidecar;                   /* stopped once all others of the launch have ended well */
};

/* Trees and files that planning reads; gathered before it (cli), so that plan stays pure. All optional. */
struct plan_sources {
    const struct tree *workdir;       /* spec.workdir */
    const char *commit;               /* when it is a repository's */
    const struct tree *const *files;  /* per item of spec.files */
    const struct tree *const *copies; /* per item of spec.setup: those of ITEM_COPY, else NULL */
    const struct tree *const *restores; /* [output * nnodes + node]: what `to` of an output with `restore` holds for
                                           that node; NULL = it does not exist. Nodes that share one `to` share the
                                           tree */
    /* The content of a file below the working directory (of the tree, or in place); -1: there is none such
     * (ERROR_SPEC). */
    int (*read)(void *arg, const char *path, struct buf *ret, struct error *err);
    void *arg;
};

struct plan_rank {                   /* the rank table of the native launch: an entry per worker */
    uint32_t rank, node, local_rank; /* rank: in its role's world; with world: none, its number in the role */
    uint32_t role, role_rank;
};
/* Workers are numbered over the launch: those with ranks in the job's world by rank, then those of other roles, in the
 * file's order. The number is wire_worker.rank. */
struct plan_place { /* the workers of a role on a node */
    uint32_t role, node, count;
    uint32_t worker, role_rank, rank, local_rank; /* of the first */
    uint32_t local_world_size;
    uint32_t group, group_count; /* the node among those of its world */
};
struct plan_role {
    const char *name;
    uint32_t worker, count;    /* number of its first worker, and how many it has */
    uint32_t rank, world_size; /* rank of its first worker; world: none: 0, and `count` */
    uint32_t master;           /* the node of its world's rank 0 */
};

/* What would be rented for the job, gathered before (cli), so that plan stays pure. It is in no key. */
struct plan_offer { /* in the order in which they are tried */
    const char *provider, *region, *zone, *type; /* zone "": the provider chooses */
    bool spot;
    uint32_t nodes;        /* how many machines */
    uint32_t alternative;  /* of any_of, from 1; 0: there is none */
    uint64_t price;        /* of all nodes: micro-USD per hour */
    bool at_most;          /* it may be less: nobody knows the spot price */
    bool unpriced, free;   /* nobody knows the price; it costs nothing */
    uint32_t as_of_day;    /* since when the price is known, in days since 1970-01-01; 0 = not known */
    const char *source;    /* who says so; "" = not known */
};
struct plan_lessor { /* a provider */
    const char *name, *title;
    const char *risk;     /* what becomes of a machine when this one dies */
    const char *left_out; /* why it has none of the offers; NULL: it has some */
    const char *missing;  /* which credentials were looked for, and are not there; NULL: they are there */
};
struct plan_rent {
    const struct plan_offer *offers;
    size_t offer_count, cut; /* cut: dearer ones that are not among them */
    const struct plan_lessor *providers;
    size_t provider_count;
    bool there;          /* the machines are there already */
    const char *missing; /* why nothing could be rented now: no credentials; NULL: something could */
    uint32_t today;      /* in days since 1970-01-01: prices have an age */
};

/*
 * A point of the sweep: a launch with params of its own, on nodes that are known only once there is room for it. Its
 * steps stand behind those of set-up: the launch, then what comes home. Each has a key of its own, by what it reads.
 */
struct plan_point {
    const struct spec_point *point;
    const struct plan *own; /* what its steps are built with: its params, as many nodes as it takes, its ranks; its
                               steps are set-up's */
    uint32_t launch;        /* id of its launch; those behind it, up to `end`, bring its outputs home */
    uint32_t end;
    /* Whoever shows the plan says it (cli), as the journal has it; nothing is decided by it: */
    bool launched; /* its launch is done */
    bool recorded; /* so is what comes home */
    const char *reason; /* of one that is not launched: plan_point_reason; NULL: nothing is recorded of it */
};

struct plan {
    const struct spec *spec;
    struct plan_point *points; /* NULL: the job has no sweep */
    uint32_t point_count;
    const struct plan_rent *rent; /* NULL: nothing is rented, or nobody asked what there is */
    const struct roster *roster; /* which host each node has */
    struct arena *arena; /* that it lies in */
    const struct plan_sources *sources; /* never NULL; empty where there are none */
    uint32_t node_count;
    struct plan_step *steps; /* in order; set-up first, then prolog, launch, epilog */
    size_t step_count;
    const char *job_hash;    /* likewise, without what only comes home: a launch that ended well under it is this
                                plan's */
    const char *hash;        /* over all keys: "done" means the latest run of the variant has the same */
    bool ranks_known;        /* false: nproc is auto/cpu/gpu and facts are not there yet, or torchrun gives the ranks */
    uint32_t *nproc;         /* per node; 0 = not known yet */
    uint32_t world_size;     /* 0 = not known */
    struct plan_rank *ranks; /* worker_count of them, when known */
    uint32_t worker_count;   /* world_size, and the workers of roles outside of the job's world; 0 = not known */
    uint32_t master;         /* the node of rank 0 */
    struct plan_role *roles; /* as spec->roles, once ranks are known */
    struct plan_place *places; /* by role, then by node */
    uint32_t place_count;
    const struct expr_role *placed; /* as spec->roles; their nodes are known from the beginning */
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
/* The plan with which a point's steps are built for the nodes that it is on, own->node_count of them, by facts of
 * these: plan_point.own with their hosts. -1 (ERROR_SPEC): a node cannot have the point's workers. */
int plan_at_nodes(const struct plan *own, const uint32_t *nodes, const struct plan_facts *facts, struct arena *arena,
                  struct plan **ret, struct error *err);
/* Can this node take its workers, by its facts alone? Asked before anything starts there. */
int plan_check_node(const struct plan *plan, uint32_t node, const struct plan_facts *facts, struct error *err);
/* Binds the rank table once counts are known; false and err when gpu was asked and a node has none. */
int plan_bind_ranks(struct plan *plan, const struct plan_facts *facts, struct arena *arena, struct error *err);

/* The role of a worker by its number, and its number in the role: "default" where there are no roles. */
const char *plan_role_of(const struct plan *plan, uint32_t worker, uint32_t *ret_role_rank);
/* NULL: the role has no workers there. */
const struct plan_place *plan_place_of(const struct plan *plan, uint32_t role, uint32_t node);

/* ---- for step kinds, while planning ---- */
struct plan_step *plan_add(struct plan_builder *b, const struct step_kind *kind, const char *name, const char *title);
void plan_on_all(struct plan_builder *b, struct plan_step *s);
void plan_on_nodes(struct plan_builder *b, struct plan_step *s, const uint32_t *nodes, size_t count);
void plan_input(struct plan_builder *b, struct plan_step *s, const char *name,
                const char *value); /* long values are digested */
/* spec text, expanded with what is known (late names stay); shell or plain */
int plan_input_text(struct plan_builder *b, struct plan_step *s, const char *name, const struct spec_text *text,
                    enum expr_mode mode, struct error *err);
/* glob patterns below dir (with ** and dotfiles excluded as in git): one input per file, by content */
int plan_input_files(struct plan_builder *b, struct plan_step *s, const char *dir, const struct spec_texts *patterns,
                     struct error *err);
/* All source files below dir as one input: without what building leaves there (build, *.egg-info, __pycache__, ...) and
 * dot files. */
int plan_input_sources(struct plan_builder *b, struct plan_step *s, const char *dir, const char *name,
                       struct error *err);
void plan_input_after(struct plan_builder *b, struct plan_step *s, const struct plan_step *earlier); /* chains keys */
/* Chains to all earlier steps that count for s (NULL: all), by the fewest edges: one to a step stands for what that
 * chains to. */
void plan_input_after_all(struct plan_builder *b, struct plan_step *s,
                          bool (*counts)(struct plan_builder *b, const struct plan_step *s,
                                         const struct plan_step *earlier));
/* Is there a node that both run on, as far as it is said where they do? */
bool plan_share_node(struct plan_builder *b, const struct plan_step *s, const struct plan_step *other);
/* The step added as number i, in order; NULL past the end. For kinds that look back. */
struct plan_step *plan_at(struct plan_builder *b, size_t i);
/* text with what is known when planning, late names as written; -1 and err with the place. */
int plan_expand(struct plan_builder *b, const struct spec_text *text, enum expr_mode mode, const char **ret,
                struct error *err);
struct arena *plan_arena(struct plan_builder *b);
const struct spec *plan_spec_of(struct plan_builder *b);
const struct plan_sources *plan_sources_of(struct plan_builder *b);
const struct expr_role *plan_placed_of(struct plan_builder *b); /* as spec->roles */
void plan_wait(struct plan_builder *b, struct plan_step *s, const struct plan_step *other, bool started);
/* The files of the working directory's tree that match, by their oids; without a tree as plan_input_files in the spec's
 * folder. */
int plan_input_tree_files(struct plan_builder *b, struct plan_step *s, const struct spec_texts *patterns,
                          struct error *err);

/* ---- verdicts ---- */
enum verdict {
    VERDICT_KEEP,    /* recorded with this key, and nothing speaks against it */
    VERDICT_RUN,     /* never ran here */
    VERDICT_AGAIN,   /* ran, but `reason` */
    VERDICT_VERIFY,  /* kept, but looked at: an earlier installation runs, which may have changed what this one left */
    VERDICT_DEPENDS, /* only the node can tell (offline; or facts are old) */
    VERDICT_NOT_NEEDED, /* the launch's result is kept, so its set-up need not be there */
};
/* "keep", "run", "run again", "verify", "depends on the node", "not needed" */
const char *verdict_name(enum verdict v);

/* What is recorded of a (step, node), from the journal or from the node's ledger; passed in, so that plan stays
 * pure. */
struct plan_record {
    bool present;
    bool ok;                  /* ended well */
    bool unknown;             /* started and left no outcome */
    bool voided;              /* by --fresh, --again, --from */
    bool live;                /* an attempt runs at this moment */
    const char *ended;        /* how, when not ok: "exit status 2", "signal 9", "a timeout"; NULL = not known */
    const char *key, *inputs; /* inputs: JSON object as stored, for the reason */
    const char *when;         /* for people: "2026-11-20 14:02" */
    bool verified;            /* the node's ledger was asked and agrees */
    bool unasked;             /* its node was to be asked and gave no answer */
    bool fetch;               /* of outputs: the launch is kept, and what this one brings is not here, or not as it says
                                 now */
    bool contradicted;        /* the node's ledger was asked and does not have it (`why_not`) */
    const char *why_not; /* "the node is a new machine", "kernels/k.so is gone", "the node's ledger does not have it";
                            for voided: "voided by --fresh" */
};
struct plan_decision {
    enum verdict verdict;
    const char *reason; /* never NULL with AGAIN: "`run` changed", "requirements.txt changed", "ended with exit status
                           2", ...; NULL for keep and run */
};
/* decisions[step * node_count + node]. A step whose earlier input step runs again runs again only where keys chain. */
void plan_decide(const struct plan *plan, const struct plan_record *records /* same layout */, bool online,
                 struct arena *arena, struct plan_decision *ret_decisions);
/* Why the launch of the point begins although there is a record of it: "`run` changed", or record->ended as a sentence
 * ("failed: exit status 3"). NULL: nothing speaks against the record. */
const char *plan_point_reason(const struct plan *plan, uint32_t point, const struct plan_record *record,
                              struct arena *arena);
/* Does the key of `later` follow from that of `step`, directly or not? */
bool plan_chains(const struct plan *plan, const struct plan_step *later, const struct plan_step *step);
/* Does a run of `step` make a later one run that is kept otherwise? By kind->verify and kind->renews. */
bool plan_looks_again(const struct plan *plan, const struct plan_step *step, const struct plan_step *later);
/* Is `step` one of those that --from FROM does again: it and what is behind it, but where it is a role's, not the
 * set-up of another one, nor the job's? from: the step's name. */
bool plan_is_from(const struct plan *plan, const char *from, const struct plan_step *step);
/* Names of the inputs that differ between a recorded JSON object and the step: "run, env HF_HOME"; NULL when none. */
const char *plan_changed_inputs(const struct plan_step *step, const char *recorded_json, struct arena *arena);
/* {"run": "…", ...} as kept in events */
const char *plan_inputs_json(const struct plan_step *step, struct arena *arena);

/* Of the rent step: KEEP where the machines are there, RUN where some step of a node is to be done, else NOT_NEEDED. */
enum verdict plan_rent_verdict(const struct plan *plan, const struct plan_decision *decisions);
/* Text for people (80 columns: steps, verdicts with node sets, rank table, commands) and JSON
 * (schema/plan.schema.json). */
void plan_format(const struct plan *plan, const struct plan_decision *decisions, bool colour, bool verbose,
                 struct buf *ret);
void plan_format_json(const struct plan *plan, const struct plan_decision *decisions, struct buf *ret);
/* "0-3,7" style node sets with the host's name for a single one. */
void plan_node_set(const struct plan *plan, const bool *on, struct buf *ret);

#endif
