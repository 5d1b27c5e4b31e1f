/*
 * What the files that decide ask of each other. The turn (turn.c) runs their passes; none of this is anything to a
 * hand.
 */
#ifndef RHRUN_CORE_INTERNAL_H
#define RHRUN_CORE_INTERNAL_H

#include "belief.h"
#include "rhrun/core.h"
#include "rhrun/effects.h"

/* ---- states.c: all that changes a state; what is no step in its table there ends the program ---- */
void lane_set_state(struct lane *lane, enum lane_state to);
void lane_set_dirty(struct lane *lane, bool dirty);
void task_may_have_started(struct run_task *t);
bool task_is_sent(const struct lane *lane, const struct run_task *t); /* over the present connection */
void launch_set(struct launch *l, enum launch_state to);
void lane_set_doubtful(struct lane *lane, bool doubtful);
void run_has_patches(struct run *r);
void task_look(struct run_task *t, bool looked_at); /* set-up: whether it is to be done was decided */
bool task_is_done(const struct run_task *t); /* or kept */
bool task_has_failed(const struct run_task *t); /* or has left the others */

/* ---- ending.c ---- */
void run_node_failed(struct run *r, uint32_t node, const struct error *err);
void run_orphan_ended(struct run *r, struct lane *lane, const struct wire_record *rec);
void run_on_stop_deadline(void *arg);
void run_on_finisher(void *arg);
void run_check_end(struct run *r); /* a pass */
void run_stop_all(struct run *r);  /* the user asked for it: set-up, too */
void run_closed(struct run *r);
void run_stop(struct run *r); /* a pass: of a run that has failed, all but set-up and what comes home is stopped */

/* ---- cause.c ---- */
/* "exit status 3", "killed by signal 9 (Killed)", "timed out", ... */
void run_cause_text(enum outcome outcome, uint32_t cause, int32_t value, char *ret, size_t size);
bool cause_offer(struct cause *best, const struct cause *c); /* true: it is the earliest so far */
bool cause_has_rank(const struct run *r, const struct plan_step *step, uint32_t rank, enum outcome outcome);
struct cause *cause_of(struct run *r, const struct plan_step *step); /* where such a step's failure counts */
void cause_tell(struct run *r); /* run_result gets the launch's; where none failed that of set-up */
const char *launch_worker_words(const struct run *r, uint32_t worker, char *ret,
                                size_t size); /* "rank 3", "server[1] (rank 3)" */
char *launch_cause(const struct launch *l); /* the first cause in words; heap */
void launch_failure(struct launch *l); /* the same, as the error of run_result */
bool launch_preempted(const struct launch *l); /* the first cause is that a node was told to end, not by rhrun */

/* ---- durable.c: what waits until an event is durable ---- */
enum follow {
    FOLLOW_SEND,    /* of STARTED: RUN goes to the nodes where the step was started */
    FOLLOW_DUE,     /* of FINISHED: what depends on the end is looked at */
    FOLLOW_STOP,    /* of CANCELLING: all that runs is stopped */
    FOLLOW_CLOSE,   /* of RUN_CLOSED: the run is over */
    FOLLOW_CONDEMN, /* of RULE: the generation has failed */
    FOLLOW_FAIL     /* of RULE: the node has been away too long, and the run fails by it */
};
struct awaited {
    enum follow follow;
    uint64_t seq;                 /* of the event; run_append_then fills it in */
    const struct plan_step *step; /* SEND */
    uint32_t *nodes;              /* SEND: heap, freed by durable.c */
    uint32_t node_count;          /* SEND */
    uint32_t due;                 /* DUE: enum due */
    struct launch *launch;        /* CONDEMN, FAIL */
    uint32_t node;                /* FAIL */
    const char *words;            /* FAIL: what the run fails with; in the run's arena */
};
void run_append_then(struct run *r, struct event *e, struct awaited then);
void durable_take(struct run *r, uint64_t seq); /* the journal is durable up to there */
void durable_free(struct run *r);

/* ---- attempts.c ---- */
/* STARTED, with this number, is durable: RUN goes out, if nothing speaks against it by now. */
void task_release(struct run *r, const struct plan_step *step, uint32_t node, uint64_t seq);
void task_finish(struct run *r, const struct plan_step *step, uint32_t node, const struct wire_record *record,
                 bool adopted);
/* asked for, or by a cancel */
bool task_is_to_stop(const struct run *r, const struct plan_step *step, const struct run_task *t);
void task_start(struct run *r, const struct plan_step *step, uint32_t node);
void task_join(struct run *r, const struct plan_step *step, uint32_t node); /* in the generation that runs */
enum outcome record_outcome(const struct wire_record *record);
const char *run_dropped_by(const struct wire_record *record); /* of event.dropped_by */
/* A worker has failed while others of its node still run: perhaps the first cause. */
void attempt_cause(struct launch *l, const struct plan_step *step, uint32_t node, const struct wire_worker_end *end);
/* It failed. */
void step_gives_up(struct run *r, const struct plan_step *step, uint32_t node, const struct event_finished *end);
bool step_unknown_fails(struct run *r, const struct plan_step *step,
                        uint32_t node); /* on_unknown: fail; true: the run fails */

/* ---- decide.c ---- */
void lane_keep_record(struct lane *lane, const struct wire_record *r);
const struct wire_record *lane_record(const struct lane *lane, const char *attempt);
enum belief_record record_says(const struct wire_record *rec); /* NULL: there is none */
const struct wire_record *lane_latest(const struct lane *lane, const struct plan_step *step);
/* The attempt of a set-up step that is kept, as far as one can tell without what it changed of trees (patches.c); or
 * NULL. */
const char *lane_believes(const struct lane *lane, const struct plan_step *step);
bool lane_holds(const struct lane *lane,
                const struct plan_step *step); /* CHECK did not deny what it creates or brought */
/* Why a recorded success is not believed on this node, or NULL. */
const char *lane_contradiction(const struct lane *lane, const struct plan_step *step, const struct state_cell *cell);
void lane_fill_record(struct lane *lane, const struct plan_step *step, struct plan_record *ret);
bool lane_may_adopt(const struct lane *lane, const struct plan_step *step, const struct wire_record *rec);
const struct wire_record *lane_done_by_another(struct lane *lane, const struct plan_step *step); /* NULL: nobody has */
/* Is that epilog's record of what the node did last of the launch, and is that what the run has as done there? */
bool lane_follows_launch(const struct lane *lane, const struct wire_record *epilog);
/* Decides a set-up step that is PENDING and was not looked at yet: keep, adopt, or leave it to be run. */
void lane_decide(struct lane *lane, const struct plan_step *step);
/* The step is about to run: later installations that are kept are decided anew. */
void lane_verify_after(struct lane *lane, const struct plan_step *step);

/* ---- reconcile.c ---- */
bool lane_has_orphan(const struct lane *lane, const char *attempt);
/* The node's record of a step behind the barrier that this run may take over; NULL: it has none. */
const struct wire_record *lane_found(struct lane *lane, const struct plan_step *step);
void lane_reconcile(struct lane *lane);
void lane_orphan(struct lane *lane, const char *attempt); /* it is stopped before the node goes on */

/* ---- homes.c: nodes that share a home folder ---- */
uint32_t homes_leader(struct run *r, const struct plan_step *step,
                      uint32_t node); /* who does it for this node; itself, mostly */
bool homes_busy(struct run *r, uint32_t node); /* another one changes what they share */
void homes_touch(struct run *r, uint32_t node); /* node has done a shared step: those that share its home go on */
uint32_t homes_first(struct run *r,
                     uint32_t node); /* of those that share its home; the next is lane.home_next, the last its own */

/* ---- order.c: items that wait for an earlier one on other nodes ---- */
bool order_holds(struct run *r, const struct plan_step *step,
                 uint32_t node); /* an earlier item is still to be done elsewhere */
void order_changed(struct run *r,
                   const struct plan_step *step); /* it began or ended somewhere, or is kept there, or (NULL) a node
                                                                    is left out: soon what is held back is looked at
                                                                    again */
void order_pass(struct run *r);

/* ---- patches.c: files of trees that set-up steps changed; their source is expected as it was then ---- */
void patches_add(struct lane *lane, const struct wire_sync_state *s);
void patches_ended(struct lane *lane, const struct plan_step *step, const struct wire_record *rec); /* rec is kept */
void patches_judge(struct lane *lane); /* before the two below are asked, of what shares its home too */
const char *patches_reason(const struct lane *lane, const struct plan_step *step); /* NULL: nothing speaks against it */
void patches_doubt(struct lane *lane); /* a set-up step did not end well: trees are looked at before it is done again */
void patches_reset(struct lane *lane); /* kept and done steps that do not hold are to be decided again */

/* ---- open.c ---- */
void run_lane_listed(struct run *r, struct lane *lane);
void run_look_done(struct run *r); /* every node of LOOK or VERIFY has answered, or this one was the last */

/* ---- replay.c: what the journal has of a run ---- */
void run_replay(struct run *r); /* memory has it, too: tasks, and where the launch is */
/* What binds a generation: for RUNs that are sent again, and for whoever reads logs which worker is which. */
void bind_write(const struct launch *l, struct buf *b);

/* ---- work.c: which working directory ---- */
void work_heard(struct run *r); /* every node was heard of: lanes that waited for that go on */
const char *work_name(struct run *r, uint32_t flags, bool opening);
bool work_known(
    const struct run *r); /* has the journal done anything of the variant? Else it is to be seen on the nodes */
/* All nodes have answered. True: another directory is current, and the nodes that are there are greeted anew for it. */
void work_begin(struct run *r, uint32_t flags); /* is it to be sought? */
bool work_seek(struct run *r);

/* ---- reopen.c: a run that only fetches ---- */
bool reopen_passes_by(struct run *r, uint32_t node); /* nothing comes from it */
/* Is nothing left of an unfinished run but to fetch? */
bool reopen_only_fetches(const struct run *r, const struct state_run *open);
/* Of a run that only fetches: the task's state, where it is not that of an output that is here. c: its cell of this
 * run, or NULL. */
bool reopen_step(struct run *r, const struct plan_step *step, uint32_t node, const struct state_cell *c);
void reopen_say(struct run *r);

/* ---- setup.c ---- */
bool lane_first_heard(struct lane *lane); /* it is heard of, and was not before */
void lane_pass_by(struct lane *lane); /* its node is not needed: it stands at the barrier */
void lane_bind(struct lane *lane); /* records which machine the slot is */
void lane_settle(struct lane *lane);
void lane_ask_anew(struct lane *lane); /* what it says from now on counts: nothing was heard of it yet */
void lane_doubt(struct lane *lane); /* does what was kept or done here still hold? What does not is done again */
void lane_pass(
    struct lane *lane); /* its next step of set-up is begun, or it joins the launch that it was left out of */

/* ---- parts.c: one step of the launch; then all that belong to it ---- */
const struct plan_step *launch_step(const struct launch *l, enum plan_phase phase); /* the first; NULL = none */
void step_release(struct run *r, const struct plan_step *step); /* what was held of it goes out */
bool step_start(struct run *r, const struct plan_step *step,
                uint32_t generation); /* on all its nodes that have not done it;
                                                        on one that is lost for good it has failed. False: there is
                                                        none */
bool step_all_ended(struct run *r, const struct plan_step *step);
bool step_all_done(struct run *r, const struct plan_step *step);
bool step_has_failed(struct run *r, const struct plan_step *step);
bool step_is_pending(struct run *r, const struct plan_step *step); /* on some node */
void step_stop(struct run *r, const struct plan_step *step, uint32_t grace_ms);
void step_end(struct run *r, const struct plan_step *step); /* stops it; where it has not begun it does not */
bool parts_begun(struct launch *l);
bool parts_held_in_doubt(struct launch *l); /* one that never began is of a node whose set-up does not hold */
void parts_release(struct launch *l); /* what was held goes out */
void parts_orphan(struct launch *l); /* what runs of it is stopped, and is none of ours any more */
bool parts_half(struct launch *l); /* some of it is done, some was not begun, and nothing runs */
bool parts_failed(struct launch *l);
bool parts_ended(struct launch *l); /* nothing of the generation runs or will */
void parts_adopted(struct launch *l); /* takes over what was found on the nodes: of the latest launch, and its epilog */
/* What never began here was done by another controller since: all of the launch, then that stands for it; or nothing
 * does. */
void parts_done_by_another(struct launch *l);
void parts_reset(struct launch *l); /* for the next generation */
void parts_advance(struct launch *l); /* starts what may start; stops the sidecars once all else is over */
/* The generation has failed: what runs is stopped, what never started never will be. */
void parts_stop(struct launch *l);

/* ---- ready.c ---- */
void ready_forget(struct run *r, const struct plan_step *step, uint32_t node);
void ready_missed(struct launch *l, const struct plan_step *launch);

/* ---- launch.c ---- */
void launch_port(struct launch *l, uint64_t token, uint32_t free_port);
void launch_on_pause(void *arg);
void launch_barrier(struct launch *l); /* a pass: are all nodes there? Then the launch begins, or goes on */
void launch_without(struct launch *l); /* a node is left out: what waited for it goes on */
void launch_parted(struct launch *l); /* a pass: DUE_PARTED */
/* Between TERM and KILL: at least this, and what shutdown_timeout gives torchrun to stop its workers in. */
uint32_t launch_grace_ms(const struct run *r, uint32_t least);
uint32_t launch_generation(const struct wire_record *record); /* 1-based; 1 where an older record does not say */
bool launch_complete(struct launch *l); /* nothing of the launch and what follows it is left to do */
void launch_pass(struct launch *l); /* how do prolog, launch or epilog stand? */
void launch_will_restart(struct launch *l); /* a worker has failed: asks for the next generation's port already */
void launch_condemn(struct launch *l); /* a worker has failed, or a rule says that the generation has */
bool launch_epilog(struct launch *l); /* starts the epilog where it is due; false: there is nothing to wait for */
void launch_look(struct launch *l); /* RUN_LOOK: what is looked at before a launch, without one */
void launch_meet_elsewhere(struct launch *l); /* a pass: DUE_PORT: the port that was looked at is taken */
void launch_go_on(struct launch *l); /* a pass: DUE_PROLOG */

/* ---- elastic.c: MIN:MAX nodes ---- */
/* The node is lost, or something failed there: is it left out, because enough others are left? It is tried again while
 * the launch runs; elastic_bar (rhrun/core.h): not by this process. */
bool elastic_spare(struct launch *l, uint32_t node, const struct error *err);
/* Its part of the launch is about to end as e says: has it left, and the others go on? */
bool elastic_leaves(struct launch *l, const struct plan_step *step, uint32_t node, const struct event_finished *end);
void elastic_free(struct lane *lane);
void elastic_await(struct launch *l); /* a node was lost: before the launch it is not awaited for long */
void elastic_on_late(void *arg);
bool elastic_wanted(const struct run *r); /* launcher torchrun, nnodes MIN:MAX */
bool elastic_half(struct launch *l); /* what was found done is too little for a launch, and nothing of it runs */
/* Left out, and nothing of the launch runs there. */
bool elastic_is_outside(const struct launch *l, const struct lane *lane);
/* Of such a run, and its part of the launch runs. */
bool elastic_is_inside(const struct launch *l, const struct lane *lane);
bool elastic_back(struct lane *lane); /* one that is left out was listed: is it still of interest? */
void elastic_advance(struct lane *lane); /* one that may be left out came a step further: it joins when it can */
/* It has left. */
void elastic_leave(struct launch *l, uint32_t node, const struct event_finished *end);
void elastic_members(struct launch *l); /* who takes part in the generation, as tasks and cells say */
void elastic_lose(struct launch *l); /* the generation is over: what those away did in it is unknown */
/* The launch is over: stops what was on its way to it; true: nothing is any more. */
bool elastic_dismiss(struct launch *l);

/* ---- turn.c: the order in which what has happened is looked at ---- */
void run_touch(struct run *r,
               uint32_t node); /* its set-up, and whether it joins a launch, are looked at in the next turn */

/* ---- rules.c: failure rules and metrics ---- */
/* NULL where the spec has neither rules nor metrics; all else takes NULL. */
struct rules *rules_create(struct launch *l);
void rules_destroy(struct rules *rules);
/* Are nodes that stay away anything to a rule? Then they are not given up by themselves. */
bool rules_await_nodes(const struct launch *l);
void rules_node_lost(struct launch *l, struct lane *lane); /* it is away beyond reconnect_ms */
void rules_lost_for_good(struct launch *l, uint32_t node, const char *words); /* the run fails, as a rule says */

#endif
