/* Shared by the launchers: the words of a command line, and the job's program. */
#ifndef RHRUN_STEP_LAUNCHER_H
#define RHRUN_STEP_LAUNCHER_H

#include "internal.h"

struct words {
    struct wire_strings list;
    uint32_t cap;
    struct arena *arena;
};
void words_add(struct words *w, const char *word);
void words_printf(struct words *w, const char *fmt, ...) FORMAT(2, 3);

struct launcher_job {
    const struct plan *plan;
    const struct step_bind *bind;
    struct arena *arena;
    const struct spec_distributed *distributed;
    const char *python; /* the program that runs Python */
    enum spec_entry_kind entry;
    struct wire_strings program; /* the script or the module with its arguments, or a program that needs no Python
                                    before it */
    struct step_env *env; /* of the node's worker; launchers add to it */
    struct wire_run *run;
};
struct launcher {
    enum spec_launcher id;
    const char *typed;     /* the launcher's name as one would type it; NULL: describe adds it */
    bool argparse;         /* it uses Python's argparse: "--" protects the program's own options */
    bool once_per_machine; /* nodes on one machine share one launcher, on the first */
    /* Adds the words before the program (launcher_args included), and the needed variables. */
    int (*build)(const struct launcher_job *job, struct words *argv, struct error *err);
    /* The same words when planning, after `typed`; values known only at run time appear as <...>. args:
     * launcher_args. */
    int (*describe)(struct plan_builder *b, const struct spec *spec, const struct words *args, struct buf *ret,
                    struct error *err);
};
extern const struct launcher launcher_torchrun, launcher_accelerate, launcher_deepspeed, launcher_mpirun;
extern const char rhrun_step_torchrun[], rhrun_step_torchrun_marked[], rhrun_step_rank0[], rhrun_step_accelerate[],
    rhrun_step_mpirun[], rhrun_step_mpi_worker[];

/* ---- for kind_launch.c: they do nothing if rhrun itself is the launcher ---- */
/* The nodes on which the launcher or workers are started. */
void step_launcher_on_nodes(struct plan_builder *b, const struct spec *spec, struct plan_step *s);
/* The words before the program, as one would type them, including a module's "-m". */
int step_launcher_describe(struct plan_builder *b, const struct spec *spec, struct buf *ret, struct error *err);
int step_launcher_inputs(struct plan_builder *b, struct plan_step *s, const struct spec *spec, struct error *err);
/* The node's one worker, in the environment of job->env. */
int step_launcher_build(const struct launcher_job *job, struct wire_worker *ret, struct error *err);

/* ---- for the launchers ---- */
/* Adds " --name=value" when the flag is given, quoted; *ret_value, which may be NULL, is the bare value, or NULL. */
int launcher_put_flag(struct plan_builder *b, const struct spec *spec, const char *name, struct buf *ret,
                      const char **ret_value, struct error *err);
/* The value without adding anything; NULL when it is not given. */
int launcher_planned_flag(struct plan_builder *b, const struct spec *spec, const char *name, const char **ret,
                          struct error *err);
/* As launcher_conf. */
int launcher_put_conf(struct plan_builder *b, const struct spec *spec, bool c10d, struct buf *ret, struct error *err);
/* Placeholders for values that only a node knows. */
#define LAUNCHER_FIRST_ADDRESS "<address of the first node>"
#define LAUNCHER_NODE_RANK "<rank of the node>"
const char *launcher_planned_port(struct plan_builder *b, const struct spec *spec);
uint32_t launcher_planned_nproc(const struct spec *spec, uint32_t node); /* 0 = not known yet */
uint32_t launcher_planned_total(const struct spec *spec);                /* likewise */
int launcher_planned_args(struct plan_builder *b, const struct spec *spec, struct words *ret, struct error *err);
void launcher_put_words(struct buf *ret, const struct words *words); /* appends each as " word", quoted */
void launcher_put_kind(const struct spec *spec, struct buf *ret);    /* as launcher_kind */
/* Whether it is a command, shell text or a function: words that are started as they are. */
bool launcher_is_program(const struct launcher_job *job);
/* torch's and deepspeed's flag for the kind of program: none for a script. */
void launcher_kind(const struct launcher_job *job, struct words *argv);
/* launcher_args, expanded for the node. */
int launcher_args(const struct launcher_job *job, struct words *argv, struct error *err);
/* A flag's value, expanded for the node; *ret NULL when it is not given. */
int launcher_flag(const struct launcher_job *job, const char *name, const char **ret, struct error *err);
/* The number of workers on every node, and in total; an error if it is not known or not the same everywhere. */
int launcher_equal(const struct launcher_job *job, uint32_t *ret_each, uint32_t *ret_total, struct error *err);
/* How often torch restarts the workers; if at all, torch must not share its store with them. */
uint32_t launcher_restarts(const struct launcher_job *job);
/* The rendezvous' name, different in every round, so that workers of an older round never join. */
const char *launcher_round(const struct launcher_job *job);
/* The text of a Python program. If the launcher itself chooses the node of rank 0, rank0.py comes before it, and a
 * variable names rank0.py's file. */
int launcher_marked(const struct launcher_job *job, const char *program, const char **ret, struct error *err);
/* "key=value,..." from rdzv_conf; for c10d with is_host, if rhrun decides that. "" = nothing. */
int launcher_conf(const struct launcher_job *job, bool c10d, const char **ret, struct error *err);
/* HOST:PORT, with brackets for IPv6. */
const char *launcher_endpoint(struct arena *arena, const char *host, uint32_t port);
const char *launcher_host(struct arena *arena, const char *host);
const char *launcher_address(const struct launcher_job *job, uint32_t node); /* a node's address for the other nodes */

#endif
