/*
 * Functions that files of src/core call in each other; those that the hands call as well are in rhrun/core.h. The
 * groups are in the order of a run: common functions, opening a run, the set-up of a node, attempts, the launch, the
 * end. Hands do not include this header.
 *
 * "A pass" is run by turn.c when it is due.
 */
#ifndef RHRUN_CORE_INTERNAL_H
#define RHRUN_CORE_INTERNAL_H

#include "belief.h"
#include "rhrun/core.h"
#include "rhrun/effects.h"

/* ---- turn.c: the order of the passes ---- */
/* In the next turn lane_pass checks the node's set-up, and whether the node joins a launch. */
void run_touch(struct run *r, uint32_t node);

/* ---- states.c: all changes of states; a change that is not in the table there ends the program ---- */
void lane_set_state(struct lane *lane, enum lane_state to);
void lane_set_replacing(struct lane *lane, bool replacing);
void lane_set_saving(struct lane *lane, enum saving saving);
void lane_hold_points(struct lane *lane, bool hold);
void lane_set_dirty(struct lane *lane, bool dirty);
void lane_set_doubtful(struct lane *lane, bool doubtful);
void launch_set(struct launch *l, enum launch_state to);
void run_has_patches(struct run *r);                   /* a set-up step has changed files of a tree, or may have */
void task_look(struct run_task *t, bool looked_at);    /* set-up: whether lane_decide has looked at the step */
void task_set_coming(struct run_task *t, bool coming); /* outputs: whether a fetch is under way */
void task_want_stop(struct run_task *t);               /* the task must be stopped, perhaps when its node is back */
void task_may_have_started(struct run_task *t);        /* the node has said something of the attempt */
bool task_is_sent(const struct lane *lane, const struct run_task *t); /* over the lane's present connection */
bool task_is_done(const struct run_task *t);                          /* done or kept */
bool task_has_failed(const struct run_task *t);                       /* failed, or left the others (MIN:MAX nodes) */

/* ---- durable.c: what waits until an event is durable ---- */
enum follow {
    FOLLOW_SEND,    /* of STARTED: RUN goes to the nodes on which the step was started */
    FOLLOW_DUE,     /* of FINISHED: the passes that depend on the end are due */
    FOLLOW_STOP,    /* of CANCELLING: everything that runs is stopped */
    FOLLOW_CLOSE,   /* of RUN_CLOSED: the run is over */
    FOLLOW_CONDEMN, /* of RULE: the generation has failed */
    FOLLOW_REPLACE, /* of RULE: the node gets another machine; if the rule is a verdict, the generation has failed */
    FOLLOW_FAIL     /* of RULE: the node has been away too long, and the rule fails the run */
};
struct awaited {
    enum follow follow;
    uint64_t seq;                 /* of the event; run_append_then fills it in */
    const struct plan_step *step; /* SEND */
    uint32_t *nodes;              /* SEND: heap, freed by durable.c */
    uint32_t node_count;          /* SEND */
    uint32_t due;                 /* DUE: enum due */
    struct launch *launch;        /* CONDEMN, REPLACE, FAIL */
    uint32_t node;                /* REPLACE, FAIL */
    const char *words;            /* FAIL: the error of the run; in the run's arena */
};
/* Appends the event; `then` happens once it is durable. */
void run_append_then(struct run *r, struct event *e, struct awaited then);
void durable_take(struct run *r, uint64_t seq); /* the journal is durable up to the event with this number */
void durable_free(struct run *r);

/* ---- open.c ---- */
void run_lane_listed(struct run *r, struct lane *lane); /* the node has listed its records: the run goes on */
/* Whether each node has failed, or has listed its records over its latest connection. */
bool run_all_answered(const struct run *r);
void run_look_done(struct run *r); /* LOOK and VERIFY: ends the run, or goes on to preflight, if all have answered */

/* ---- replay.c: the journal's record of a run ---- */
void run_replay(struct run *r); /* restores the state of each task and of the launch */
/* The values of a generation, as JSON: for RUNs that are sent again, and so that readers of logs know the workers. */
void bind_write(const struct launch *l, struct buf *b);

/* ---- reopen.c: a run that only fetches ---- */
/* Whether only fetches are left to do in the unfinished run `open`. */
bool reopen_only_fetches(const struct run *r, const struct state_run *open);
/* In a run that only fetches: gives the task its state. c: the task's cell of this run, or NULL. False: the cell itself
 * gives the state, because the run does more than fetch, or the task is an output that was fetched. */
bool reopen_step(struct run *r, const struct plan_step *step, uint32_t node, const struct state_cell *c);
bool reopen_passes_by(struct run *r, uint32_t node); /* whether the run only fetches, and not from this node */
void reopen_say(struct run *r);                      /* prints a note of what will be fetched */

/* ---- work.c: which working directory ---- */
/* The name of the run's working directory. opening: the run is new and has these flags. */
const char *work_name(struct run *r, uint32_t flags, bool opening);
/* Whether the journal has any work of the variant. If not, the nodes know which directory is current. */
bool work_known(const struct run *r);
void work_begin(struct run *r, uint32_t flags); /* decides whether to ask the nodes for the directory */
/* All nodes have answered. True: another directory is current, and the connected nodes are greeted again for it. */
bool work_seek(struct run *r);
void work_heard(struct run *r); /* every node was listed or has failed: lanes that waited for that go on */

/* ---- setup.c: the set-up of a node ---- */
/* A pass: begins the lane's next step of set-up; a lane that was left out of the launch may join it. */
void lane_pass(struct lane *lane);
bool lane_first_heard(struct lane *lane); /* the node was listed, or failed. True: for the first time */
void lane_ask_anew(struct lane *lane);    /* the node is greeted again: it counts as not heard from yet */
void lane_pass_by(struct lane *lane);     /* the run needs nothing from the node: its lane goes to the barrier */
void lane_bind(struct lane *lane);        /* journals which machine the node is */
void lane_settle(struct lane *lane);      /* asks the node to sync the files of set-up to its disk */
/* Checks whether the results of kept and done steps still hold. A step whose result does not hold must be done
 * again. */
void lane_doubt(struct lane *lane);

/* ---- reconcile.c: the records of a node ---- */
/* Compares journal and ledger, after each HELLO of the node. */
void lane_reconcile(struct lane *lane);
/* The node's record of a step after the barrier that this run may take over; NULL: it has none. */
const struct wire_record *lane_found(struct lane *lane, const struct plan_step *step);
/* Before the barrier: whether, by journal and node, a launch has begun that this run continues. */
bool lane_resumes(struct lane *lane);
void lane_orphan(struct lane *lane, const char *attempt); /* stops the attempt before the lane goes on */
bool lane_has_orphan(const struct lane *lane, const char *attempt);

/* ---- decide.c: whether a step of set-up must be done ---- */
/* Decides about a set-up step that is PENDING and not decided yet: keeps it, adopts it, or leaves it to be run. */
void lane_decide(struct lane *lane, const struct plan_step *step);
/* The step is about to run: later installations that are kept must be decided again. */
void lane_verify_after(struct lane *lane, const struct plan_step *step);
void lane_keep_record(struct lane *lane, const struct wire_record *r); /* copies it; refuses a node that has too many */
const struct wire_record *lane_record(const struct lane *lane, const char *attempt); /* NULL: there is none */
/* The record of the step's slot that was claimed last; for a step with a scope, in the run's working directory. NULL:
 * there is none. */
const struct wire_record *lane_latest(const struct lane *lane, const struct plan_step *step);
enum belief_record record_says(const struct wire_record *rec); /* rec: may be NULL */
/* The attempt for which a set-up step is kept, without regard to the files that the step changed (patches.c). NULL:
 * there is none. */
const char *lane_believes(const struct lane *lane, const struct plan_step *step);
/* Whether the node says that everything that the step creates, brought or changed is there. */
bool lane_holds(const struct lane *lane, const struct plan_step *step);
/* Why a recorded success is not believed on this node, or NULL. */
const char *lane_contradiction(const struct lane *lane, const struct plan_step *step, const struct state_cell *cell);
/* What is known about the step on the node, in the form for plan_decide. */
void lane_fill_record(struct lane *lane, const struct plan_step *step, struct plan_record *ret);
/* Whether this record may stand for the step if the journal has no attempt of the step, or another one. */
bool lane_may_adopt(const struct lane *lane, const struct plan_step *step, const struct wire_record *rec);
/* The record of another controller that has done the step since our attempt was decided. NULL: none has. */
const struct wire_record *lane_done_by_another(struct lane *lane, const struct plan_step *step);
/* Whether the epilog's record follows this node's last part of the launch, and the run counts that part as done. */
bool lane_follows_launch(const struct lane *lane, const struct wire_record *epilog);

/* ---- patches.c: files of trees that set-up steps changed; a step is kept only while their source is unchanged ---- */
void patches_add(struct lane *lane, const struct wire_sync_state *s); /* the node has reported such files (PATCHED) */
/* The attempt of the step has ended as rec says; rec becomes one of the lane's records. */
void patches_ended(struct lane *lane, const struct plan_step *step, const struct wire_record *rec);
/* Decides which files must be restored, on all nodes of the lane's home. Must be called before patches_reason and
 * patches_to_put_back (rhrun/core.h). */
void patches_judge(struct lane *lane);
const char *patches_reason(const struct lane *lane, const struct plan_step *step); /* why the step runs, or NULL */
void patches_doubt(struct lane *lane); /* a set-up step did not end well: trees are checked before it runs again */
void patches_reset(struct lane *lane); /* kept or done steps whose result does not hold must be decided again */

/* ---- homes.c: nodes that share a home folder ---- */
/* The node that does the step for this node: in most cases the node itself. */
uint32_t homes_leader(struct run *r, const struct plan_step *step, uint32_t node);
/* The first node of the home. lane.home_next is the next one; for the last node it is the node itself. */
uint32_t homes_first(struct run *r, uint32_t node);
bool homes_busy(struct run *r, uint32_t node);  /* whether another node is changing its home */
void homes_touch(struct run *r, uint32_t node); /* node has done a shared step: nodes that share its home go on */

/* ---- order.c: items that wait for an earlier one on other nodes ---- */
void order_pass(struct run *r); /* a pass, DUE_ORDER */
/* Whether the step must wait for an earlier item that is not done yet on another node. */
bool order_holds(struct run *r, const struct plan_step *step, uint32_t node);
/* The step began or ended on a node, or is kept there; NULL: a node was left out. A later pass checks the steps that
 * were held back. */
void order_changed(struct run *r, const struct plan_step *step);

/* ---- attempts.c ---- */
void task_start(struct run *r, const struct plan_step *step, uint32_t node);
/* Starts the step on a node that joins the generation that runs. */
void task_join(struct run *r, const struct plan_step *step, uint32_t node);
/* Takes over a live attempt on the node that this journal has not started: with a STARTED it belongs to this run. */
void task_take_over(struct run *r, const struct plan_step *step, uint32_t node, const struct wire_record *rec);
/* The same for several attempts that are one launch: with one STARTED. */
void task_take_over_many(struct run *r, const struct plan_step *step, const uint32_t *nodes,
                         const struct wire_record *const *recs, uint32_t count);
/* The STARTED with this number is durable: RUN goes out, unless the step must not start any more. */
void task_release(struct run *r, const struct plan_step *step, uint32_t node, uint64_t seq);
/* The task is under way: its RUN goes out, or its files are asked for. Does nothing if the node is away. */
void task_go_out(struct run *r, const struct plan_step *step, uint32_t node);
/* The attempt has ended as the node's record says. adopted: the journal has not started this attempt. */
void task_finish(struct run *r, const struct plan_step *step, uint32_t node, const struct wire_record *record,
                 bool adopted);
/* Whether the task must stop: it was told to, or the run is cancelled. */
bool task_is_to_stop(const struct run *r, const struct plan_step *step, const struct run_task *t);
enum outcome record_outcome(const struct wire_record *record); /* OUTCOME_NONE: it has not ended */
const char *run_dropped_by(const struct wire_record *record);  /* event.dropped_by; NULL: no output was dropped */
/* A worker has failed, perhaps while others of its node still run: its end may be the first cause. */
void attempt_cause(struct launch *l, const struct plan_step *step, uint32_t node, const struct wire_worker_end *end);
/* A set-up step has failed for good: the launch goes on without the node (MIN:MAX nodes), or the run fails. */
void step_gives_up(struct run *r, const struct plan_step *step, uint32_t node, const struct event_finished *end);
/* The outcome is unknown. True: the run fails by `on_unknown: fail`. */
bool step_unknown_fails(struct run *r, const struct plan_step *step, uint32_t node);

/* ---- launch.c: from the barrier to the epilog ---- */
/* A pass, DUE_BARRIER: once all nodes are at the barrier, the launch begins or goes on. */
void launch_barrier(struct launch *l);
void launch_meet_elsewhere(struct launch *l); /* a pass, DUE_PORT: preflight found its port taken */
void launch_go_on(struct launch *l);          /* a pass, DUE_PROLOG: starts the prolog, or the generation */
void launch_pass(struct launch *l);           /* a pass, DUE_LAUNCH: checks the state of prolog, launch or epilog */
void launch_parted(struct launch *l);         /* a pass, DUE_PARTED: what follows a launch that is over */
void launch_look(struct launch *l);           /* RUN_LOOK: makes the checks of a launch, without a launch */
void launch_port(struct launch *l, uint64_t token, uint32_t free_port); /* INPUT_PORT */
void launch_on_pause(void *arg);                                        /* alarm: the pause before a restart is over */
void launch_without(struct launch *l); /* a node was left out: steps that waited for it go on */
/* A worker has failed: asks for the next generation's port in advance. */
void launch_will_restart(struct launch *l);
/* A worker has failed, or a rule says that the generation has: all of it is stopped. */
void launch_condemn(struct launch *l);
bool launch_epilog(struct launch *l);   /* starts the epilog if it is due; false: there is nothing to wait for */
bool launch_starts_again(const struct launch *l); /* a generation was announced and has not begun */
bool launch_complete(struct launch *l); /* launch, epilog and outputs are all done */
uint32_t launch_generation(const struct wire_record *record); /* from 1; 1 if an older record does not say */
/* Time between TERM and KILL: `least`, or more if shutdown_timeout gives torchrun more time to stop its workers. With
 * the native launcher: shutdown_timeout, if it is given, even if that is less. */
uint32_t launch_grace_ms(const struct run *r, uint32_t least);

/* ---- parts.c: one step of the launch ---- */
const struct plan_step *launch_step(const struct launch *l, enum plan_phase phase); /* the first; NULL = none */
/* Starts the step on all of its nodes that have not begun it; on a node that is gone the step fails. False: nothing was
 * started. */
bool step_start(struct run *r, const struct plan_step *step, uint32_t generation);
void step_release(struct run *r, const struct plan_step *step);   /* sends the attempts of the step that were held */
/* here and below: on all nodes that are not left out */
bool step_all_ended(struct run *r, const struct plan_step *step);
bool step_all_done(struct run *r, const struct plan_step *step);
bool step_has_failed(struct run *r, const struct plan_step *step); /* on some node */
bool step_is_pending(struct run *r, const struct plan_step *step); /* on some node */
void step_stop(struct run *r, const struct plan_step *step, uint32_t grace_ms);
void step_end(struct run *r, const struct plan_step *step); /* stops the step; if it has not begun, it never will */
/* ---- all steps of the launch, which are its parts ---- */
void parts_advance(struct launch *l); /* starts parts that may start; stops the sidecars when all others are over */
void parts_stop(struct launch *l);    /* stops parts that run; parts that have not begun never will */
void parts_reset(struct launch *l);   /* all parts are pending, for the next generation */
void parts_release(struct launch *l); /* sends the attempts that were held */
void parts_orphan(struct launch *l);  /* attempts that run become orphans, and are stopped */
bool parts_begun(struct launch *l);   /* some part has begun, on some node */
bool parts_failed(struct launch *l);  /* some part has failed, on some node */
bool parts_ended(struct launch *l);   /* no part of the generation runs, or will run */
bool parts_half(struct launch *l);    /* some parts are done, others have not begun, and none runs */
/* Whether there is a held part whose node has not listed its records. */
bool parts_held_away(struct launch *l);
/* Checks the set-up on the nodes of all held parts. True: on one of them it does not hold. */
bool parts_held_undone(struct launch *l);
/* For a launch that this run did not begin: whether the run has taken over a part, or may do so. */
bool parts_found(struct launch *l);
/* Takes over the attempts found on the nodes: the parts of the latest launch, and its epilog. False: there are none. */
bool parts_adopted(struct launch *l);
/* Another controller has done parts that never began here: if it did the whole launch, its attempts stand for ours. */
void parts_done_by_another(struct launch *l);

/* ---- points.c: the points of a sweep ---- */
void points_create(struct run *r); /* without a sweep this and the others do nothing, except points_pass */
void points_destroy(struct run *r);
void point_fill_end(const struct run *r, const struct plan_step *step, uint32_t node, struct arena *arena,
                    struct event_finished *ret);
void point_cause(const struct run *r, const struct plan_step *step, const struct cause *c); /* of a step of a point */
/* Whether the facts of all nodes that the step's RUN names are known. If not, a later pass sends the RUN. */
bool point_may_go_out(const struct run *r, const struct plan_step *step);
bool points_have_metrics(const struct run *r); /* whether points' lines must be read from the start */
void points_replay(struct run *r); /* restores points from the journal: from this run and from earlier ones */
void points_pass(struct run *r);   /* a pass, DUE_BARRIER: nodes that have room begin points */
bool points_all_over(const struct run *r);
void point_fill(const struct run *r, const struct plan_step *step, struct event_attempt *ret);
/* A step of a point has ended in this way on the node; the task has its new state already. */
void point_ended(struct run *r, const struct plan_step *step, uint32_t node, const struct event_finished *end);
/* INPUT_PORT. False: no point had asked this question. */
bool points_port(struct run *r, uint64_t token, uint32_t node, uint32_t port);
/* Whether the record belongs to one of the plan's points and has its key, so that this run may take it over. */
bool points_want(const struct run *r, const struct wire_record *rec);
/* The node has listed its records: takes over this live one if it may stand for a waiting point. NULL: it may not. */
const struct plan_step *points_owner(struct lane *lane, const struct wire_record *rec);
/* Points on several nodes: when all nodes have listed their records, takes over launches that are complete. */
void points_meet(struct run *r);
void points_adopt(struct lane *lane);  /* adopts records of points that ended well and are not in the journal */
void points_listed(struct lane *lane); /* asks for the outputs on the node */
/* The node is gone for good. True: its points go to other nodes. */
bool points_node_failed(struct run *r, uint32_t node, const struct error *err);

/* ---- replaced.c: rented machines that were lost and replaced ---- */
/* Before a launch is continued: a node on which a part of it was lost with the machine; NULL: there is none. A prolog
 * that was lost in this way is pending again. */
const char *replaced_part(struct launch *l);
void lane_replace(struct lane *lane); /* the node's machine is given up, and another one is asked for */
void lane_replaced(struct lane *lane); /* INPUT_MACHINE */
/* Whether the node is no longer the machine on which the attempt was. */
bool lane_is_elsewhere(const struct lane *lane, const struct state_cell *c);

/* ---- elastic.c: MIN:MAX nodes ---- */
bool elastic_wanted(const struct run *r); /* whether the job uses torchrun with nnodes MIN:MAX */
/* The node is lost, or something failed there. True: it is left out, because enough others are left, and is tried again
 * while the launch runs. (elastic_bar in rhrun/core.h: it is not tried again.) */
bool elastic_spare(struct launch *l, uint32_t node, const struct error *err);
/* The node's part of the launch is about to end in this way. True: the node leaves the others, which go on. */
bool elastic_leaves(struct launch *l, const struct plan_step *step, uint32_t node, const struct event_finished *end);
void elastic_leave(struct launch *l, uint32_t node, const struct event_finished *end); /* its part has ended */
bool elastic_back(struct lane *lane);    /* whether a left-out node that has listed its records still matters */
void elastic_advance(struct lane *lane); /* a lane that may be left out made progress: it joins when it can */
bool elastic_is_outside(const struct launch *l, const struct lane *lane); /* left out, and its part does not run */
bool elastic_is_inside(const struct launch *l, const struct lane *lane);  /* MIN:MAX nodes, and its part runs */
void elastic_members(struct launch *l); /* who takes part in the generation, as tasks and cells say */
bool elastic_half(struct launch *l);    /* too few parts were found done for a launch, and none of them runs */
/* True: some node has not said whether it has a part of the launch, and so the run was left open. */
bool elastic_leave_open(struct launch *l);
/* The generation is over: parts that still run on nodes that are left out have an unknown outcome. */
void elastic_lose(struct launch *l);
/* The launch is over: stops steps that would lead to it. True: none is left. */
bool elastic_dismiss(struct launch *l);
void elastic_await(struct launch *l); /* a node was lost: before the launch the others do not wait for it long */
void elastic_on_late(void *arg);      /* alarm: the others have waited long enough for such nodes */
void elastic_free(struct lane *lane);
void elastic_checked(struct launch *l, uint32_t node); /* preflight found no reason against the node, so it may join */
void elastic_wait(struct launch *l, uint32_t node);    /* preflight could not tell: the node is tried again later */

/* ---- ready.c: roles that are ready when their output says so ---- */
void ready_forget(struct run *r, const struct plan_step *step, uint32_t node);
/* This part of the launch is done on all its nodes: if its role is not ready yet, it never will be. */
void ready_missed(struct launch *l, const struct plan_step *launch);

/* ---- rules.c: failure rules and metrics; see also rules.h ---- */
/* NULL if the spec has neither rules nor metrics; all other functions take NULL, or a launch without rules. */
struct rules *rules_create(struct launch *l);
void rules_destroy(struct rules *rules);
/* Whether there is a rule about nodes that stay away. Then the rule decides when such a node is given up. */
bool rules_await_nodes(const struct launch *l);
/* The node has been away for more than reconnect_ms; vanished: its rented machine is gone, and will not be back. */
void rules_node_lost(struct launch *l, struct lane *lane, bool vanished);
/* Whether the verdict on the generation asks for another machine for this node, and the node still has the old one. */
bool rules_replace(const struct launch *l, const struct lane *lane);
void rules_lost_for_good(struct launch *l, uint32_t node, const char *words); /* a rule fails the run */

/* ---- preflight.c: the checks before a launch ---- */
/* Asks the hands to check the nodes. False: there is nothing to check before this launch. */
bool preflight_begin(struct launch *l);
void preflight_again(struct launch *l); /* all nodes are connected: a question that was lost is asked again */
/* The node should join a launch that runs. True: it is checked first, or waits while another node is checked. */
bool preflight_joins(struct launch *l, uint32_t node);
/* A connection was lost, or a node is left out: the answer may not come. */
void preflight_lost(struct launch *l);
void preflight_setup_changed(struct launch *l); /* on some node: preflight is done again before the next generation */
void preflight_take(struct launch *l, const struct input *in);
void preflight_free(struct launch *l);

/* ---- outputs.c: files that are fetched ---- */
void outputs_watch(struct launch *l); /* the launch runs: outputs with `every` are fetched now and then */
bool outputs_begin(struct launch *l); /* starts the fetches that are due, once. False: there is nothing to wait for */
/* Whether the step is due after the launch. success: the launch ended well. */
bool outputs_due(struct run *r, const struct plan_step *step, uint32_t node, bool success);
void outputs_end(struct launch *l);   /* there is nothing left to wait for: ends the run */
void outputs_pass(struct launch *l);  /* a pass */
bool outputs_complete(const struct launch *l);
void outputs_send(struct run *r, const struct plan_step *step, uint32_t node); /* the step's STARTED is durable */
void outputs_ask(struct run *r, const struct plan_step *step, uint32_t node, bool periodic);
/* Drops the fetch, if one is under way; the task stays as it is. */
void outputs_stop(struct run *r, const struct plan_step *step, uint32_t node);
void outputs_take(struct lane *lane, const struct input *in); /* a fetch has ended */
/* The node's connection has ended, or is a new one, and its fetches have ended with it. */
void outputs_lost(struct lane *lane);
/* Before the node's machine is given up, when its workers have ended: fetches the periodic outputs once more. True: all
 * of them were fetched, or cannot be. If false, DUE_BARRIER comes again. */
bool outputs_saved(struct launch *l, struct lane *lane);
void outputs_abort(struct run *r, const struct plan_step *step, uint32_t node); /* drops the fetch, and ends the task */
void outputs_abort_all(struct run *r);
void outputs_interrupt(struct run *r, int signum);
void outputs_free(struct launch *l);

/* ---- rank0.c: outputs of the node of rank 0, if torch decides which node that is (plan_step.at_rank0) ---- */
bool rank0_is_elsewhere(const char *tail); /* whether a cell's tail says that no output comes from that node */
void rank0_pass(struct launch *l);         /* a pass */
void rank0_fetch(struct launch *l);        /* the task of such an output runs, and its node is there */
void rank0_changed(struct launch *l);      /* an output has ended, or something else that rank0_pass may wait for */
void rank0_forget(struct launch *l);       /* rank 0 may be on another node by now */
void rank0_lost(struct launch *l, struct lane *lane);
/* While the launch runs: the node of rank 0. False: it is not known yet, and rhrun is asking the nodes; call again
 * soon. */
bool rank0_periodic(struct launch *l, uint32_t *ret_node);
void rank0_told(struct launch *l, uint32_t node, uint64_t token, uint64_t at_ns);
void rank0_looked(struct launch *l, const struct plan_step *step, uint32_t node, const struct input *in);
void rank0_free(struct launch *l);

/* ---- ending.c ---- */
void run_stop(struct run *r);      /* a pass, DUE_STOP: the run has failed: stops all but set-up and fetches */
void run_check_end(struct run *r); /* a pass, DUE_END: closes a run that must end, once nothing is in flight */
void run_stop_all(struct run *r);  /* the user asked for it: stops set-up, too */
void run_node_failed(struct run *r, uint32_t node, const struct error *err);
/* An orphan has ended: the journal gets its FINISHED, if it has its STARTED. */
void run_orphan_ended(struct run *r, struct lane *lane, const struct wire_record *rec);
void run_on_stop_deadline(void *arg); /* alarm: a stop has waited long enough for nodes that are away */
void run_closed(struct run *r);       /* RUN_CLOSED is durable */
void run_on_finisher(void *arg);      /* alarm: `finished` is called, outside of everything else */

/* ---- cause.c: what failed first, and how messages say it ---- */
bool cause_offer(struct cause *best, const struct cause *c); /* true: c is the earliest so far, and was taken */
bool cause_has_rank(const struct run *r, const struct plan_step *step, uint32_t rank, enum outcome outcome);
struct cause *cause_of(struct run *r, const struct plan_step *step); /* the launch's, or the run's for set-up */
void cause_tell(struct run *r); /* run_result gets the launch's first cause, or, if it has none, that of set-up */
/* "rank 3", or with roles "server[1] (rank 3)". */
const char *launch_worker_words(const struct run *r, uint32_t worker, char *ret, size_t size);
char *launch_cause(const struct launch *l);    /* the first cause in words; heap */
void launch_failure(struct launch *l);         /* the same, as the error of run_result */
bool launch_preempted(const struct launch *l); /* the first cause: a node was told to end, not by rhrun */

#endif
