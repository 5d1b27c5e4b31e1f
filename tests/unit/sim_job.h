/*
 * A job on simulated nodes, for the tests of run: a spec built by hand, a real journal in a temporary RHRUN_HOME, and
 * controllers that come and go. Set the fields, then call sim_job_run as often as the test needs. The record is in
 * `said` (events and notes, a line each), `lines` (output) and the net.
 */
#ifndef RHRUN_TEST_SIM_JOB_H
#define RHRUN_TEST_SIM_JOB_H

#include "rhrun/journal.h"
#include "rhrun/run.h"
#include "sim_kinds.h"
#include "sim_node.h"
#include "sim_tree.h"

enum { SIM_STEPS_MAX = 6 };

struct sim_job {
    struct spec spec;
    struct spec_host *hosts;
    struct spec_step setup[SIM_STEPS_MAX];
    struct sim_kind_lists kinds;
    struct sim_net *net;
    struct loop *loop;
    struct arena *arena;
    char home[64];
    /* of the present controller */
    uint32_t liveness_ms, hello_ms, backoff_ms;
    uint64_t reconnect_ms, late_ms, join_ms;
    bool take_over, replace;
    bool preflight;
    const char *from_step;
    struct journal *journal;
    struct plan *plan;
    struct session *session;
    struct run *run;
    bool finished;
    struct run_result result; /* of the last one; its error is a copy, its pointers are invalid after the run */
    char cause_node[64], cause_step[64], unverified[200];
    struct buf said, lines;
    uint64_t durable_seq;
    void (*on_event)(struct sim_job *job, const struct event *e); /* a test's hook, after the event was recorded */
    void *arg;
};

/* nodes hosts named n0, n1, ...; no set-up; the entrypoint is `run: train` on all of them, one worker each. */
struct sim_job *sim_job_create(uint32_t nodes, const struct sim_script *script);
void sim_job_destroy(struct sim_job *job);
struct spec_step *sim_job_step(struct sim_job *job, const char *name); /* adds a set-up item */

/* A controller's life. start: 0, or -1 with result.error. wait: turns the loop until it has finished (fails the test
 * after a minute). close: like a normal end. */
int sim_job_start(struct sim_job *job, enum run_mode mode, uint32_t flags);
void sim_job_wait(struct sim_job *job);
bool sim_job_turns(struct sim_job *job, bool (*until)(struct sim_job *job)); /* false: it finished first */
void sim_job_close(struct sim_job *job);
int finish(struct sim_job *job); /* wait and close: exit status */
/* The whole life: exit status, -1 if it could not start. */
int sim_job_run(struct sim_job *job, uint32_t flags);
int sim_job_mode(struct sim_job *job, enum run_mode mode, uint32_t flags);
/* kill -9: the net is cut, the journal loses a random part of the events that were not acknowledged as durable. */
void sim_job_kill(struct sim_job *job, uint64_t random);
/* The state directory is lost. */
void sim_job_forget(struct sim_job *job);
bool sim_job_is_done(struct sim_job *job); /* the check that the command makes before it runs anything */
void sim_event_text(const struct event *e, struct buf *b); /* a line as in `said`, without its end */
void sim_job_each(struct sim_job *job, bool (*fn)(void *arg, const struct event *e), void *arg); /* reads the journal */
/* The same: how many events of this type it has. */
size_t sim_job_events(struct sim_job *job, enum event_type type);
bool sim_job_said(const struct sim_job *job, const char *text);
void assert_said(const struct sim_job *job, const char *text);
void assert_error(const struct sim_job *job, const char *text); /* a part of the result's */
void sim_job_quiet(struct sim_job *job); /* clears `said` */

#endif
