/*
 * journal: the durable record of one job, and the state directory it lives in.
 *
 *   $RHRUN_HOME | $XDG_STATE_HOME/rhrun | ~/.local/state/rhrun      0700
 *     jobs/JOB/journal.db     SQLite, WAL, synchronous=FULL: meta (owner id, name, origin), events, requests
 *     jobs/JOB/lock           flock by the live controller; holds "pid owner_name\n" jobs/JOB/runs/RUN/      logs:
 *     ATTEMPT.spool (the node's spool, byte for byte) jobs/JOB/controller.log messages of a controller without a
 *     terminal checkouts/ID/COMMIT/    files of a commit, for `apply --at` (src/cli/apply_tree.c) watches/ID/
 *     what `watch` has applied, and its lock (src/cli/cmd_watch.c) clusters/ID/ledger.db   the ledger of a rented
 *     cluster (fleet.h), in the same format; clusters/ID/lock
 *
 * JOB = first 16 hex digits of SHA-256(name NUL origin). Appending never blocks: events are queued for the journal's
 * own thread, which commits everything that is queued in one transaction (group commit). `done` runs on the loop once
 * the event is durable, in append order. The event's side effects begin in `done`, never before.
 *
 * Test hooks: RHRUN_TEST_KILL_AFTER_EVENT=N raises SIGKILL as soon as N events of this process are durable (before
 * their callbacks). RHRUN_TEST_CLOCK_OFFSET_MS: see wall_ms.
 */
#ifndef RHRUN_JOURNAL_H
#define RHRUN_JOURNAL_H

#include "rhrun/fleet.h"
#include "rhrun/loop.h"
#include "rhrun/state.h"

struct journal;

/* Finds the state directory, and creates it if needed. The caller owns the path. */
char *journal_home(struct error *err);
void journal_job_id(const char *name, const char *origin, char ret_id[17]);

struct journal_job { /* for listings */
    char *id, *name, *origin, *path;
};
/* All jobs of the state directory, by name; caller frees with journal_jobs_free. */
int journal_jobs(struct journal_job **ret, size_t *ret_count, struct error *err);
void journal_jobs_free(struct journal_job *jobs, size_t count);

/* ---- jobs that were renamed, or whose spec moved (moves.c) ----
 *     jobs/JOB/adopts this job continues another job's history: the other's id, name and origin, last name
 *     jobs/JOB/adopted-by the job that has this job's history now: id and name */
/* The name and origin that make the job's id: those given (ret_* stay as they are), or those of the job whose history
 * it took over. In the arena. -1 and err: this job's own history went to another job. */
int journal_identity(const char *name, const char *origin, struct arena *arena, const char **ret_name,
                     const char **ret_origin, struct error *err);
/* The same for a job of a listing. */
int journal_identity_of(const struct journal_job *job, struct arena *arena, const char **ret_name,
                        const char **ret_origin, struct error *err);
/* The id of the history that this job took over, or began to take over, from a job that was called `before`; else NULL.
 * In the arena. */
const char *journal_adopted(const char *name, const char *origin, const char *before, struct arena *arena);
/* From here on the job with this name and origin continues this history, which was opened by id_name and id_origin.
 * Durable when it returns; after a kill in the middle it may be called again. */
int journal_adopt(struct journal *j, const char *id_name, const char *id_origin, const char *name, const char *origin,
                  struct error *err);

/* Opens for writing: takes the job's lock. ERROR_HELD with the holder's pid and name when another controller has it. A
 * database that cannot be read (corrupt, or of a newer version) is an ERROR_IO that names the file; the file is never
 * replaced. loop may be NULL: then no callback runs (journal_sync). As soon as the lock is held, SIGUSR1 may arrive
 * (see journal_request): watch or block it before the call. */
int journal_open(struct loop *loop, const char *name, const char *origin, const char *owner_name,
                 struct journal **ret, struct error *err);
/* Opens for reading only, no lock, no thread (status, logs, runs, plan). The state is as of now; journal_refresh
 * updates it. ERROR_USAGE when there is no such job, or its journal never got its first commit. Works if the state
 * directory cannot be written. */
int journal_open_read(const char *job_id, struct journal **ret, struct error *err);
int journal_refresh(struct journal *j, struct error *err); /* applies events committed since; for followers */
/* Commits what is queued, waits for that, and unlocks. No callback runs from here on. Must not be called inside a
 * callback. Takes NULL. */
void journal_close(struct journal *j);

const struct state *journal_state(const struct journal *j); /* includes appended, not yet durable events */
const char *journal_owner(const struct journal *j);         /* random id of this journal, 32 hex digits */
const char *journal_job(const struct journal *j);           /* job id */
const char *journal_path(const struct journal *j);          /* jobs/JOB */
const char *journal_job_name(const struct journal *j);
const char *journal_origin(const struct journal *j);
/* Takes only the job's lock, without its journal, and returns a descriptor: while it is open no controller can begin.
 * -1 and err (ERROR_HELD): a controller has the lock. Close the descriptor with journal_let_go. */
int journal_hold(const char *job_id, const char *name, const char *owner_name, struct error *err);
void journal_let_go(int lock);
/* The live controller of this job, if any: true and its pid and name. */
bool journal_holder(const struct journal *j, pid_t *ret_pid, char **ret_name);

/* Gives the event its seq, and its time_ms if that is 0, applies it to the state, and queues it. done may be NULL. When
 * a commit fails (disk full), the function set by journal_on_failure runs on the loop, once: the run must start nothing
 * more. After that no `done` runs any more; each append, sync and the close try to commit the queued events again, in
 * order, so that ends are still recorded if there is room again. The loop is kept running while callbacks are due. */
void journal_append(struct journal *j, struct event *e, void (*done)(void *arg), void *arg);
void journal_on_failure(struct journal *j, void (*fn)(void *arg, const struct error *err), void *arg);
/* Blocks until all appended events are durable (for the end of a run, and for commands without a loop). */
int journal_sync(struct journal *j, struct error *err);

/* Calls fn for every event with seq > after, in order, until fn returns false. A writer calls journal_sync first. */
int journal_each(struct journal *j, uint64_t after, bool (*fn)(void *arg, const struct event *e), void *arg,
                 struct error *err);

/* Requests to a live controller from other commands ("cancel", "detach"): a row, then SIGUSR1 to the holder.
 * ERROR_USAGE when there is no live controller. Requests that an earlier controller did not take are dropped. */
int journal_request(struct journal *j, const char *what, struct error *err);
/* The controller's side: takes pending requests; each is returned once. NULL = none. Owned by the caller. */
char *journal_take_request(struct journal *j);

/* ---- the ledgers of rented clusters ---- */
struct journal_cluster;
/* Opens clusters/ID for writing, or makes it, and calls `replay` for every event in it, in order; if replay returns -1,
 * nothing is opened. ERROR_HELD when another controller has it. id: as fleet_wanted.id; name: for people. loop NULL: no
 * callback runs. */
int journal_cluster_open(struct loop *loop, const char *id, const char *name, const char *owner_name,
                         int (*replay)(void *arg, const struct fleet_event *e, struct error *err), void *arg,
                         struct journal_cluster **ret, struct error *err);
/* For FLEET_EFFECT_APPEND: as journal_append, but the event has its seq and time already. `done`: it is durable. */
void journal_cluster_append(struct journal_cluster *c, const struct fleet_event *e, void (*done)(void *arg), void *arg);
void journal_cluster_on_failure(struct journal_cluster *c, void (*fn)(void *arg, const struct error *err), void *arg);
int journal_cluster_sync(struct journal_cluster *c, struct error *err);
void journal_cluster_close(struct journal_cluster *c); /* as journal_close; takes NULL */
/* Calls replay for every event, without taking the lock. ERROR_USAGE with ERROR_WHY_ABSENT: there is no such
 * cluster. */
int journal_cluster_read(const char *id, int (*replay)(void *arg, const struct fleet_event *e, struct error *err),
                         void *arg, struct error *err);
/* The ids of all clusters that have a ledger, sorted, NULL-terminated; in the arena. */
int journal_clusters(struct arena *arena, const char *const **ret_ids, struct error *err);

/* jobs/JOB/runs/RUN, created 0700. Owned by the caller. */
char *journal_run_dir(struct journal *j, const char *run, struct error *err);

#endif
