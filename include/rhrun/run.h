/*
 * run: carries out a plan. It opens or resumes a run in the journal, connects to the nodes, compares the journal with
 * each node's ledger, runs the steps that are missing, and closes the run.
 *
 * Each node has a lane: its set-up steps one after another, then one settle, then the barrier. When every lane is at
 * the barrier, prolog, launch generations and epilog follow. An observer gets everything that happens, as journal
 * events (once they are durable) and lines of output. Nothing here prints.
 *
 * src/core (rhrun/core.h) decides what a run does next. This module is its hands: it talks to nodes, waits on the loop,
 * and reads and writes the journal and files.
 *
 * Test hook: RHRUN_TEST_TRACE=FILE appends to that file (0600) everything that passes between core and hands while a
 * run is executed or cancelled, for tests/unit/test_core_replay.c; src/run/trace.h describes the lines.
 */
#ifndef RHRUN_RUN_H
#define RHRUN_RUN_H

#include "rhrun/options.h"

struct journal;
struct loop;
struct session;
struct transport_sim_script;

/* What the runs of one rhrun share: the loop, the job's journal with its lock, and the keys and logins of connections.
 * loop, journal and sim must outlive the session. journal: NULL for RUN_LOOK without history. allow_prompt: rhrun may
 * ask for a passphrase on the terminal. sim: the script of simulated nodes, or NULL. */
struct session *session_create(struct loop *loop, struct journal *journal, bool allow_prompt,
                               const struct transport_sim_script *sim);
void session_destroy(struct session *s); /* takes NULL; destroy the session's runs before */

struct spec_host;
struct transport_host;
/* -1 and err (ERROR_INTERNAL) while a node waits for a machine that is being rented: no command may connect then. */
int run_check_machines(const struct roster *roster, struct error *err);
/* How a run reaches the host; the strings are the spec's. The host must have a machine: see run_check_machines. */
void run_reach(const struct spec_host *h, uint32_t node, struct transport_host *ret);

/* Creates a run; run_start begins it, and the caller runs the loop. `finished` is called once. */
struct run *run_create(struct session *session, const struct run_options *options, void (*finished)(void *arg),
                       void *arg);
int run_start(struct run *r, struct error *err);
/* run_interrupt and run_detach (options.h), for a run that runs here: a trace (src/run/trace.h) records the call
 * too. */
void run_ask_stop(struct run *r, int signum);
void run_ask_detach(struct run *r);
/* The renting side says that the node's machine is gone. A rule decides what follows; without a rule a lost connection
 * is not tried again. Must not be called within a callback of the run; nor must the next two. */
void run_machine_gone(struct run *r, uint32_t node);
void run_machine_new(struct run *r, uint32_t node);  /* the roster now has another machine for the node */
void run_machine_none(struct run *r, uint32_t node); /* there is no other machine: the node is lost for good */
const struct run_result *run_result(const struct run *r);
/* Takes NULL; must not be called inside a callback of the run. After a detach events may still be on their way: close
 * the journal before the loop turns again. */
void run_destroy(struct run *r);

/* ---- what a run was started with ---- */
/* The run's --on, --set, params and arguments: with them its spec means the same again. Strings are the state's, or in
 * the arena. */
struct spec_overrides run_overrides(const struct state_run *run, struct arena *arena);
/* Appends "--on WHERE --set ... -p ...", each word quoted for the shell, without the arguments. */
void run_put_options(struct buf *b, const struct spec_overrides *o);
/* "rhrun [COMMAND] SPEC --on WHERE ... -- ARG...", each word quoted for the shell; in the arena. */
char *run_command_line(const char *command, const char *spec_path, const struct spec_overrides *o, struct arena *arena);

/* ---- for the live view, `plan` and `status` ---- */
struct run_counts {
    uint32_t total, kept, pending, running, done, failed;
    uint64_t started_ms, ended_ms; /* wall clock of the first start and last end; 0 = none */
};
void run_step_counts(const struct run *r, const struct plan_step *step, struct run_counts *ret);
/* Of a step that brings or fetches files: sums over all its nodes, in this process. */
struct run_transfer {
    uint32_t nodes;                                            /* the number of nodes to or from which files travel */
    uint64_t files_done, files_total, bytes_done, bytes_total; /* totals as far as they are known */
};
void run_step_transfer(const struct run *r, const struct plan_step *step, struct run_transfer *ret);
/* An attempt of a step that is under way on one node. */
struct run_attempt_view {
    uint64_t started_ms;              /* wall clock; 0: it is about to start */
    uint64_t bytes_done, bytes_total; /* of a transfer; bytes_total 0: not known, or not a transfer */
};
/* false: none is under way there. */
bool run_attempt_view(const struct run *r, const struct plan_step *step, uint32_t node, struct run_attempt_view *ret);
struct run_node_view {
    const char *name;
    enum presence presence;
    unsigned phase; /* enum transport_phase: how far the connection has come */
    const struct wire_facts *facts;
    const char *error; /* why the node was last lost, or NULL */
    const char *hint;  /* for that error; "" = none */
};
void run_node(const struct run *r, uint32_t node, struct run_node_view *ret);
/* The records in the form that plan_decide needs; after `finished`, in RUN_LOOK and RUN_VERIFY. */
const struct plan_record *run_records(const struct run *r);
/* The findings of the last preflight; they live until the next preflight or the end of the run. */
const struct run_finding *run_findings(const struct run *r, size_t *ret_count);
const char *run_id(const struct run *r);
uint32_t run_restarts(const struct run *r);
uint32_t run_counted_restarts(const struct run *r); /* those that count against max_restarts */
/* The latest value of a metric (its index in the spec), of the lowest rank that has printed one; if this process has
 * seen no value, the one in the journal. False: there is none yet. *ret_rank: WIRE_NO_RANK if a launcher printed it. */
bool run_metric(const struct run *r, uint32_t metric, double *ret_value, uint32_t *ret_rank);
/* One item for each port of the spec's `ports`; the array lives until the next call. */
const struct run_port *run_ports(const struct run *r, size_t *ret_count);
void run_port_json(const struct run_port *p, struct buf *b); /* members of an object */
/* In the run's folder while its ports can be reached: an array of such objects. Without a live controller the file is
 * out of date. */
#define PORTS_FILE "ports.json"
uint64_t run_pause_ms(const struct run *r);         /* until the launch starts again; 0 = there is no pause */

#endif
