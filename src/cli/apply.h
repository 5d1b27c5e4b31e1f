/*
 * What the files of `rhrun apply` share.
 *
 * A set is the specs that the words name (apply_set.c). This process plans each spec (apply_plan.c), and leaves
 * finished jobs alone. For each other job it starts a rhrun (apply_run.c), which holds the job's lock and survives this
 * process. So a second apply never repeats a job: it waits for a job that another rhrun holds, and takes over a job
 * that nobody holds. The result is one table, or JSON (apply_show.c).
 */
#ifndef RHRUN_CLI_APPLY_H
#define RHRUN_CLI_APPLY_H

#include "internal.h"

enum { APPLY_SPECS_MAX = 10000, APPLY_PARALLEL = 4, APPLY_PARALLEL_MAX = 256 };

enum apply_did {
    APPLY_TO_DO,      /* there is work, and nothing was done yet */
    APPLY_UP_TO_DATE, /* it was done before, with this content */
    APPLY_RAN,        /* this apply finished it */
    APPLY_ELSEWHERE,  /* another rhrun finished it meanwhile */
    APPLY_FAILED,     /* its run was not done */
    APPLY_STOPPED,    /* its run was stopped, as this process was */
    APPLY_INVALID,    /* it cannot be planned */
};
const char *apply_did_name(enum apply_did d); /* "to do", "up to date", ... */

enum apply_stage {
    APPLY_IDLE,   /* its turn has not come */
    APPLY_AWAITS, /* another rhrun holds the job */
    APPLY_RUNS,   /* its rhrun, a child of ours, is at work */
    APPLY_OVER,
};

struct apply;
struct apply_job { /* one spec; strings are in the arena of the command */
    struct apply *of;
    const char *path;  /* as shown: relative to the named folder */
    const char *file;  /* the file that is read */
    const char *name, *job_id, *origin, *variant, *plan_hash; /* NULL: it is invalid */
    bool always;       /* entrypoint.always: it is never done */
    const char *why;   /* why there is work, or why the job was not done; NULL = nothing to say */
    enum apply_did did;
    enum apply_stage stage;
    char run[17];      /* the job's latest run with this content; "" = none */
    int exit_status;
    uint64_t took_ms;
    uint64_t began_ms, again_ms; /* monotonic: when our rhrun began; earliest next try */
    uint64_t log_from;           /* size in bytes of the job's controller.log then */
    struct loop_child *child;
};

struct apply_folder { /* all of its specs are in the set */
    const char *path;   /* links resolved */
    const char *origin; /* the prefix of their origins */
};

struct apply_removed { /* --prune: a job that is not in the tree any more */
    const char *name, *job_id, *origin;
    const char *what; /* what was done with it */
    int exit_status;
};

struct apply {
    struct cli *c;
    struct loop *loop;
    struct apply_job *jobs;
    size_t count;
    uint32_t parallel;
    uint64_t since_ms;     /* wall clock: the start of this process */
    const char *commit;    /* --at: the commit; else NULL */
    struct apply_folder *folders;
    size_t folder_count, word_count;
    struct apply_removed *removed;
    size_t removed_count;
    size_t running;
    int null_fd;           /* /dev/null, as stdin and output of our rhruns */
    bool term_leaves;      /* TERM ends this rhrun alone: each job has its own rhrun, which continues */
    int interrupted;       /* the signal; 0 = none */
    struct loop_timer *timer;
    bool quiet;
    int (*asked_to_stop)(void *arg); /* called once all is planned: a signal; 0 = go on. May be NULL */
    void *asked_arg;
};

/* apply_set.c: the specs that the words mean, sorted, as jobs with path and file. A folder means all specs below it,
 * recognized by content. Other words are a file or a shell pattern; each match must be a spec. Words are relative to
 * `base` (absolute; shown paths begin there). Prints faults; 0, or the exit status. */
int apply_gather(struct apply *a, const char *base, const char *const *words, size_t count);

/* apply_tree.c: the files of a commit (ref: as in tree_fetch; NULL = HEAD) in a folder. repository: a path with links
 * resolved, or a URL; origin: from spec_repository_origin or spec_url_origin. Sets a->commit. */
int apply_checkout(struct apply *a, const char *repository, const char *origin, const char *ref, const char **ret_base,
                   struct error *err);

/* cmd_apply.c: plans, runs and prunes the gathered jobs; the exit status. */
int apply_set(struct apply *a);
int apply_parallel(struct cli *c, uint32_t *ret); /* --parallel: 0, or the exit status */
void apply_free(struct apply *a);

/* apply_prune.c: 0, or the exit status if it could look at nothing. */
int apply_prune(struct apply *a);

/* apply_plan.c */
/* Plans each spec; two specs with one name are a fault. Prints faults; 0, or the exit status. */
int apply_plan_all(struct apply *a);
/* Reads from the journal how the job stands: it is over (up to date; or done or failed elsewhere since we began), or
 * there is work. ret_held: another rhrun holds it. */
void apply_look(struct apply_job *job, bool *ret_held);

/* apply_run.c: runs the jobs with work. */
int apply_run_all(struct apply *a);

/* apply_show.c */
void apply_say(struct apply *a, const char *fmt, ...) FORMAT(2, 3); /* a progress line on stderr */
void apply_show(const struct apply *a, int exit_status);
void apply_put_json(struct buf *b, const struct apply *a, int exit_status); /* one line */
int apply_exit_status(const struct apply *a);

#endif
