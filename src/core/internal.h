/*
 * What the files of src/core ask of each other, beside the functions that the hands ask for, too (rhrun/core.h). The
 * groups stand in the order of a run: what everything rests on, how a run is opened, the set-up of a node, attempts,
 * the launch, the end. Hands do not include this header.
 *
 * "A pass" is run by turn.c when it is due.
 */
#ifndef RHRUN_CORE_INTERNAL_H
#define RHRUN_CORE_INTERNAL_H

#include "belief.h"
#include "rhrun/core.h"
#include "rhrun/effects.h"

/* ---- turn.c: the order in which what has happened is looked at ---- */
/* In the next turn lane_pass looks at the node: at its set-up, and at whether it joins a launch. */
void run_touch(struct run *r, uint32_t node);

/* ---- states.c: all that changes a state; a step that is not in its table there ends the program ---- */
void lane_set_state(struct lane *lane, enum lane_state to);
void lane_set_replacing(struct lane *lane, bool replacing);
void lane_set_saving(struct lane *lane, enum saving saving);
void lane_hold_points(struct lane *lane, bool hold);
void lane_set_dirty(struct lane *lane, bool dirty);
void lane_set_doubtful(struct lane *lane, bool doubtful);
void launch_set(struct launch *l, enum launch_state to);
void run_has_patches(struct run *r);                   /* a set-up step has changed files of a tree, or may have */
void task_look(struct run_task *t, bool looked_at);    /* set-up: was it decided whether the step is to be done? */
void task_set_coming(struct run_task *t, bool coming); /* outputs: is a fetch under way? */
void task_want_stop(struct run_task *t);               /* it is to be stopped, perhaps once its node is there */
void task_may_have_started(struct run_task *t);        /* the node has said something of the attempt */
bool task_is_sent(const struct lane *lane, const struct run_task *t); /* over the lane's present connection */
bool task_is_done(const struct run_task *t);                          /* done or kept */
bool task_has_failed(const struct run_task *t);                       /* failed, or left the others (MIN:MAX nodes) */

/* ---- durable.c: what waits until an event is durable ---- */
enum follow {
    FOLLOW_SEND,    /* of STARTED: RUN goes to the nodes on which the step was started */
    FOLLOW_DUE,     /* of FINISHED: what depends on the end is looked at */
    FOLLOW_STOP,    /* of CANCELLING: all that runs is stopped */
    FOLLOW_CLOSE,   /* of RUN_CLOSED: the run is over */
    FOLLOW_CONDEMN, /* of RULE: the generation has failed */
    FOLLOW_REPLACE, /* of RULE: the same, if the rule says so, and the node gets another machine */
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
    const char *words;            /* FAIL: what the run fails with; in the run's arena */
};
/* Appends the event; `then` happens once it is durable. */
void run_append_then(struct run *r, struct event *e, struct awaited then);
void durable_take(struct run *r, uint64_t seq); /* the journal is durable up to the event with this number */
void durable_free(struct run *r);

/* ---- open.c ---- */
void run_lane_listed(struct run *r, struct lane *lane); /* the node has listed its records: what follows for the run */
/* Has each node listed its records, over its present connection, or failed? */
bool run_all_answered(const struct run *r);
void run_look_done(struct run *r); /* LOOK and VERIFY: ends the run, or goes on to preflight, if all have answered */

/* ---- replay.c: what the journal has of a run ---- */
void run_replay(struct run *r); /* gives it to memory: the state of each task, and where the launch is */
/* What binds a generation, as JSON: for RUNs that are sent again, and so that readers of logs know the workers. */
void bind_write(const struct launch *l, struct buf *b);

/* ---- reopen.c: a run that only fetches ---- */
/* Is nothing left of the unfinished run `open` but to fetch? */
bool reopen_only_fetches(const struct run *r, const struct state_run *open);
/* In a run that only fetches: gives the task its state. c: the task's cell of this run, or NULL. False: the cell itself
 * says the state, because the run does more than fetch, or the task is an output that is here. */
bool reopen_step(struct run *r, const struct plan_step *step, uint32_t node, const struct state_cell *c);
bool reopen_passes_by(struct run *r, uint32_t node); /* does a run that only fetches need nothing from the node? */
void reopen_say(struct run *r);                      /* notes what is to be fetched */

/* ---- work.c: which working directory ---- */
/* The name of the run's working directory. opening: of a new run, with these flags. */
const char *work_name(struct run *r, uint32_t flags, bool opening);
/* Has the journal done anything of the variant? If not, the nodes know which directory is current. */
bool work_known(const struct run *r);
void work_begin(struct run *r, uint32_t flags); /* decides whether the nodes are to be asked for the directory */
/* All nodes have answered. True: another directory is current, and the nodes that are there are greeted anew for it. */
bool work_seek(struct run *r);
void work_heard(struct run *r); /* every node was heard of: lanes that waited for that go on */

/* ---- setup.c: the set-up of a node ---- */
/* A pass: begins the lane's next step of set-up; a lane that was left out of the launch may join it. */
void lane_pass(struct lane *lane);
bool lane_first_heard(struct lane *lane); /* the node was listed, or failed. True: for the first time */
void lane_ask_anew(struct lane *lane);    /* the node is greeted anew: it counts as not heard of yet */
void lane_pass_by(struct lane *lane);     /* the run needs nothing from the node: its lane stands at the barrier */
void lane_bind(struct lane *lane);        /* journals which machine the node is */
void lane_settle(struct lane *lane);      /* asks the node to bring what set-up wrote to its disk */
/* Does what was kept or done here still hold? A step for which it does not is to be done again. */
void lane_doubt(struct lane *lane);

/* ---- reconcile.c: what a node holds ---- */
/* Compares journal and ledger, after each HELLO of the node. */
void lane_reconcile(struct lane *lane);
/* The node's record of a step behind the barrier that this run may take over; NULL: it has none. */
const struct wire_record *lane_found(struct lane *lane, const struct plan_step *step);
/* Before the barrier: has a launch begun, as far as journal and node say, that this run goes on with? */
bool lane_resumes(struct lane *lane);
void lane_orphan(struct lane *lane, const char *attempt); /* stops the attempt before the lane goes on */
bool lane_has_orphan(const struct lane *lane, const char *attempt);

/* ---- decide.c: is a step of set-up to be done? ---- */
/* Decides a set-up step that is PENDING and was not looked at yet: keeps it, adopts it, or leaves it to be run. */
void lane_decide(struct lane *lane, const struct plan_step *step);
/* The step is about to run: later installations that are kept are to be decided anew. */
void lane_verify_after(struct lane *lane, const struct plan_step *step);
void lane_keep_record(struct lane *lane, const struct wire_record *r); /* copies it; refuses a node that has too many */
const struct wire_record *lane_record(const struct lane *lane, const char *attempt); /* NULL: there is none */
/* The record of the step's slot that was claimed last; for a step with a scope, in the run's working directory. NULL:
 * there is none. */
const struct wire_record *lane_latest(const struct lane *lane, const struct plan_step *step);
enum belief_record record_says(const struct wire_record *rec); /* rec: NULL where there is none */
/* The attempt for which a set-up step is kept, as far as one can tell without the files that it changed (patches.c).
 * NULL: there is none. */
const char *lane_believes(const struct lane *lane, const struct plan_step *step);
/* Is what the step creates, brought and changed there, as far as the node has said? */
bool lane_holds(const struct lane *lane, const struct plan_step *step);
/* Why a recorded success is not believed on this node, or NULL. */
const char *lane_contradiction(const struct lane *lane, const struct plan_step *step, const struct state_cell *cell);
/* What is known of the step on the node, as plan_decide wants it. */
void lane_fill_record(struct lane *lane, const struct plan_step *step, struct plan_record *ret);
/* May this record stand for the step, where the journal has none of it, or another? */
bool lane_may_adopt(const struct lane *lane, const struct plan_step *step, const struct wire_record *rec);
/* The record of a controller that has done the step since our attempt was decided. NULL: nobody has. */
const struct wire_record *lane_done_by_another(struct lane *lane, const struct plan_step *step);
/* Does the epilog's record follow this node's last part of the launch, which is the part that the run has as done? */
bool lane_follows_launch(const struct lane *lane, const struct wire_record *epilog);

/* ---- patches.c: files of trees that set-up steps changed; their source is expected as it was then ---- */
void patches_add(struct lane *lane, const struct wire_sync_state *s); /* the node has told of such files (PATCHED) */
/* The attempt of the step has ended as rec says; rec becomes one of the lane's records. */
void patches_ended(struct lane *lane, const struct plan_step *step, const struct wire_record *rec);
/* Decides which files are to be put back, on all nodes of the lane's home. To be called before patches_reason and
 * patches_to_put_back (rhrun/core.h). */
void patches_judge(struct lane *lane);
const char *patches_reason(const struct lane *lane, const struct plan_step *step); /* why it is not kept, or NULL */
void patches_doubt(struct lane *lane); /* a set-up step did not end well: trees are looked at before it is done again */
void patches_reset(struct lane *lane); /* steps that are kept or done and do not hold are to be decided again */

/* ---- homes.c: nodes that share a home folder ---- */
/* The node that does the step for this one: mostly itself. */
uint32_t homes_leader(struct run *r, const struct plan_step *step, uint32_t node);
/* The first node of the home. The next one is lane.home_next; the last one's is itself. */
uint32_t homes_first(struct run *r, uint32_t node);
bool homes_busy(struct run *r, uint32_t node);  /* is another node changing what they share? */
void homes_touch(struct run *r, uint32_t node); /* node has done a shared step: nodes that share its home go on */

/* ---- order.c: items that wait for an earlier one on other nodes ---- */
void order_pass(struct run *r); /* a pass, DUE_ORDER */
/* Must the step wait for an earlier item that is still to be done on another node? */
bool order_holds(struct run *r, const struct plan_step *step, uint32_t node);
/* The step began or ended on a node, or is kept there; NULL: a node was left out. What was held back is soon looked at
 * again. */
void order_changed(struct run *r, const struct plan_step *step);

/* ---- attempts.c ---- */
void task_start(struct run *r, const struct plan_step *step, uint32_t node);
/* Starts the step on a node that joins the generation that runs. */
void task_join(struct run *r, const struct plan_step *step, uint32_t node);
/* An attempt lives on the node that this journal has not begun: it is this run's from now on, with a STARTED. */
void task_take_over(struct run *r, const struct plan_step *step, uint32_t node, const struct wire_record *rec);
/* The same of several, which are one launch: with one STARTED. */
void task_take_over_many(struct run *r, const struct plan_step *step, const uint32_t *nodes,
                         const struct wire_record *const *recs, uint32_t count);
/* STARTED, with this number, is durable: RUN goes out, if nothing speaks against that by now. */
void task_release(struct run *r, const struct plan_step *step, uint32_t node, uint64_t seq);
/* What is under way is asked for: its RUN goes out, or its files are fetched. Nothing, where the node is away. */
void task_go_out(struct run *r, const struct plan_step *step, uint32_t node);
/* The attempt has ended as the node's record says. adopted: it is an attempt that the journal has not started. */
void task_finish(struct run *r, const struct plan_step *step, uint32_t node, const struct wire_record *record,
                 bool adopted);
/* Was its stop asked for, by name or by a cancel of the run? */
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
/* A pass, DUE_BARRIER: the launch begins, or goes on, once all nodes are at the barrier. */
void launch_barrier(struct launch *l);
void launch_meet_elsewhere(struct launch *l); /* a pass, DUE_PORT: the port that preflight looked at is taken */
void launch_go_on(struct launch *l);          /* a pass, DUE_PROLOG: starts the prolog, or the generation */
void launch_pass(struct launch *l);           /* a pass, DUE_LAUNCH: how do prolog, launch or epilog stand? */
void launch_parted(struct launch *l);         /* a pass, DUE_PARTED: what follows a launch that is over */
void launch_look(struct launch *l);           /* RUN_LOOK: looks at what is looked at before a launch, without one */
void launch_port(struct launch *l, uint64_t token, uint32_t free_port); /* INPUT_PORT */
void launch_on_pause(void *arg);                                        /* alarm: the pause before a restart is over */
void launch_without(struct launch *l); /* a node was left out: what waited for it goes on */
/* A worker has failed: the next generation's port is asked for already. */
void launch_will_restart(struct launch *l);
/* A worker has failed, or a rule says that the generation has: all of it is stopped. */
void launch_condemn(struct launch *l);
bool launch_epilog(struct launch *l);   /* starts the epilog where it is due; false: there is nothing to wait for */
bool launch_starts_again(const struct launch *l); /* a generation was announced that has not begun */
bool launch_complete(struct launch *l); /* nothing of the launch, its epilog and its outputs is left to do */
uint32_t launch_generation(const struct wire_record *record); /* from 1; 1 where an older record does not say */
/* Between TERM and KILL: `least`, or more where shutdown_timeout gives torchrun more to stop its workers in. */
uint32_t launch_grace_ms(const struct run *r, uint32_t least);

/* ---- parts.c: one step of the launch ---- */
const struct plan_step *launch_step(const struct launch *l, enum plan_phase phase); /* the first; NULL = none */
/* Starts the step on all its nodes that have not begun it; on a node that is gone it has failed. False: nothing was
 * started. */
bool step_start(struct run *r, const struct plan_step *step, uint32_t generation);
void step_release(struct run *r, const struct plan_step *step);   /* what was held of the step goes out */
bool step_all_ended(struct run *r, const struct plan_step *step); /* this and the next: but for left-out nodes */
bool step_all_done(struct run *r, const struct plan_step *step);
bool step_has_failed(struct run *r, const struct plan_step *step); /* on some node */
bool step_is_pending(struct run *r, const struct plan_step *step); /* on some node */
void step_stop(struct run *r, const struct plan_step *step, uint32_t grace_ms);
void step_end(struct run *r, const struct plan_step *step); /* stops the step; where it has not begun it never will */
/* ---- and all steps that belong to the launch: its parts ---- */
void parts_advance(struct launch *l); /* starts what may start; stops the sidecars once all else is over */
void parts_stop(struct launch *l);    /* stops what runs; what has not begun never will */
void parts_reset(struct launch *l);   /* all parts are pending, for the next generation */
void parts_release(struct launch *l); /* what was held goes out */
void parts_orphan(struct launch *l);  /* what runs becomes an orphan, and is stopped */
bool parts_begun(struct launch *l);   /* some part has begun, on some node */
bool parts_failed(struct launch *l);  /* some part has failed, on some node */
bool parts_ended(struct launch *l);   /* nothing of the generation runs, or will */
bool parts_half(struct launch *l);    /* some of it is done, some was not begun, and nothing runs */
/* Is a part held whose node has not listed its records? */
bool parts_held_away(struct launch *l);
/* Looks at the set-up under all parts that are held. True: it does not hold under one of them. */
bool parts_held_undone(struct launch *l);
/* Of a launch that this run did not begin: has the run taken over a part, or may it? */
bool parts_found(struct launch *l);
/* Takes over what was found on the nodes: the parts of the latest launch, and its epilog. False: there are none. */
bool parts_adopted(struct launch *l);
/* Another controller has done what never began here: if it did all of the launch, its attempts stand for ours. */
void parts_done_by_another(struct launch *l);

/* ---- points.c: the points of a sweep ---- */
void points_create(struct run *r); /* does nothing where there is no sweep; nor do the others, but the pass */
void points_destroy(struct run *r);
void point_fill_end(const struct run *r, const struct plan_step *step, uint32_t node, struct arena *arena,
                    struct event_finished *ret);
void point_cause(const struct run *r, const struct plan_step *step, const struct cause *c); /* of a step of a point */
/* May the step's RUN be made, as far as it names other nodes? A later pass sends what waits for that. */
bool point_may_go_out(const struct run *r, const struct plan_step *step);
bool points_have_metrics(const struct run *r); /* lines of points are to be read from their beginning */
void points_replay(struct run *r); /* what the journal has of them: of this run, and of those before */
void points_pass(struct run *r);   /* a pass, DUE_BARRIER: nodes that have room begin points */
bool points_all_over(const struct run *r);
void point_fill(const struct run *r, const struct plan_step *step, struct event_attempt *ret);
/* A step of a point has ended so on the node; the task says so already. */
void point_ended(struct run *r, const struct plan_step *step, uint32_t node, const struct event_finished *end);
/* INPUT_PORT. False: the question was none of theirs. */
bool points_port(struct run *r, uint64_t token, uint32_t node, uint32_t port);
/* Is the record of one of the plan's points, with its key, so that this run may take it over? */
bool points_want(const struct run *r, const struct wire_record *rec);
/* The node has listed its records: a live one that may stand for a point that waits is taken over. NULL: it may not. */
const struct plan_step *points_owner(struct lane *lane, const struct wire_record *rec);
/* Points on several nodes: once all nodes have said what they hold, launches that are whole are taken over. */
void points_meet(struct run *r);
void points_adopt(struct lane *lane);  /* records of points that ended well, and that the journal does not know */
void points_listed(struct lane *lane); /* what the node is to bring home is asked for */
/* The node is gone for good. True: its points go to other nodes. */
bool points_node_failed(struct run *r, uint32_t node, const struct error *err);

/* ---- replaced.c: rented machines that were lost, and replaced by others ---- */
/* Before a launch is taken up: a node on which a part of it was lost with the machine; NULL: there is none. A prolog
 * that was lost so is pending again. */
const char *replaced_part(struct launch *l);
void lane_replace(struct lane *lane); /* the node's machine is given up, and another one is asked for */
void lane_replaced(struct lane *lane); /* INPUT_MACHINE */
/* Is the node another machine than the one that the attempt was on? */
bool lane_is_elsewhere(const struct lane *lane, const struct state_cell *c);

/* ---- elastic.c: MIN:MAX nodes ---- */
bool elastic_wanted(const struct run *r); /* has the job launcher torchrun with nnodes MIN:MAX? */
/* The node is lost, or something failed there. True: it is left out, because enough others are left, and is tried again
 * while the launch runs. (elastic_bar in rhrun/core.h: it is not tried again.) */
bool elastic_spare(struct launch *l, uint32_t node, const struct error *err);
/* The node's part of the launch is about to end so. True: the node leaves the others, which go on. */
bool elastic_leaves(struct launch *l, const struct plan_step *step, uint32_t node, const struct event_finished *end);
void elastic_leave(struct launch *l, uint32_t node, const struct event_finished *end); /* its part has ended so */
bool elastic_back(struct lane *lane);    /* a node that is left out has listed its records: does it still matter? */
void elastic_advance(struct lane *lane); /* a lane that may be left out came a step further: it joins when it can */
bool elastic_is_outside(const struct launch *l, const struct lane *lane); /* left out, and its part does not run */
bool elastic_is_inside(const struct launch *l, const struct lane *lane);  /* MIN:MAX nodes, and its part runs */
void elastic_members(struct launch *l); /* who takes part in the generation, as tasks and cells say */
bool elastic_half(struct launch *l);    /* what was found done is too little for a launch, and nothing of it runs */
/* True: some node has not said whether it has a part of the launch, and so the run was left open. */
bool elastic_leave_open(struct launch *l);
void elastic_lose(struct launch *l); /* the generation is over: what left-out nodes still run of it is unknown */
/* The launch is over: stops what was on its way to it. True: nothing is any more. */
bool elastic_dismiss(struct launch *l);
void elastic_await(struct launch *l); /* a node was lost: before the launch it is not awaited for long */
void elastic_on_late(void *arg);      /* alarm: such nodes were awaited long enough */
void elastic_free(struct lane *lane);
void elastic_checked(struct launch *l, uint32_t node); /* preflight: nothing speaks against it, so it may join */
void elastic_wait(struct launch *l, uint32_t node);    /* preflight could not tell: the node is tried again later */

/* ---- ready.c: roles that are ready once their output says so ---- */
void ready_forget(struct run *r, const struct plan_step *step, uint32_t node);
/* This part of the launch is done on all its nodes: nobody will find its role ready any more. */
void ready_missed(struct launch *l, const struct plan_step *launch);

/* ---- rules.c: failure rules and metrics; see also rules.h ---- */
/* NULL where the spec has neither rules nor metrics; all other functions take NULL, or a launch without. */
struct rules *rules_create(struct launch *l);
void rules_destroy(struct rules *rules);
/* Is there a rule about nodes that stay away? Then it decides when such a node is given up. */
bool rules_await_nodes(const struct launch *l);
/* The node has been away for more than reconnect_ms; vanished: its rented machine is gone, and will not be back. */
void rules_node_lost(struct launch *l, struct lane *lane, bool vanished);
/* Does the verdict on the generation want another machine for this node, which has the old one still? */
bool rules_replace(const struct launch *l, const struct lane *lane);
void rules_lost_for_good(struct launch *l, uint32_t node, const char *words); /* the run fails, as a rule says */

/* ---- preflight.c: what is looked at before a launch ---- */
/* Asks the hands to look at the nodes. False: there is nothing to look at before this launch. */
bool preflight_begin(struct launch *l);
void preflight_again(struct launch *l); /* all nodes are there: a question that was lost is asked again */
/* The node is to join a launch that runs. True: it is looked at first, or must wait for another one that is. */
bool preflight_joins(struct launch *l, uint32_t node);
/* A connection was lost, or a node is left out: the answer may not come. */
void preflight_lost(struct launch *l);
void preflight_setup_changed(struct launch *l); /* on some node: preflight is done again before the next generation */
void preflight_take(struct launch *l, const struct input *in);
void preflight_free(struct launch *l);

/* ---- outputs.c: what comes home ---- */
void outputs_watch(struct launch *l); /* the launch runs: outputs with `every` are fetched now and then */
bool outputs_begin(struct launch *l); /* starts the fetches that are due, once. False: there is nothing to wait for */
/* Is the step due, after a launch that ended well, or did not? */
bool outputs_due(struct run *r, const struct plan_step *step, uint32_t node, bool success);
void outputs_end(struct launch *l);   /* nothing is awaited any more: ends the run */
void outputs_pass(struct launch *l);  /* a pass */
bool outputs_complete(const struct launch *l);
void outputs_send(struct run *r, const struct plan_step *step, uint32_t node); /* the step's STARTED is durable */
void outputs_ask(struct run *r, const struct plan_step *step, uint32_t node, bool periodic);
/* Drops the fetch, if one is under way; the task stays as it is. */
void outputs_stop(struct run *r, const struct plan_step *step, uint32_t node);
void outputs_take(struct lane *lane, const struct input *in); /* a fetch has ended */
/* The node's connection has ended, or is a new one, and its fetches have ended with it. */
void outputs_lost(struct lane *lane);
/* Before the node's machine is given up, once its workers have ended: what comes home periodically comes once more. Is
 * all of it here, or not to be had? If not, DUE_BARRIER comes again. */
bool outputs_saved(struct launch *l, struct lane *lane);
void outputs_abort(struct run *r, const struct plan_step *step, uint32_t node); /* drops the fetch, and ends the task */
void outputs_abort_all(struct run *r);
void outputs_interrupt(struct run *r, int signum);
void outputs_free(struct launch *l);

/* ---- rank0.c: outputs of the node of rank 0, where torch says which node that is (plan_step.at_rank0) ---- */
bool rank0_is_elsewhere(const char *tail); /* does a cell's tail say that nothing was to come from that node? */
void rank0_pass(struct launch *l);         /* a pass */
void rank0_fetch(struct launch *l);        /* the task of such an output runs, and its node is there */
void rank0_changed(struct launch *l);      /* an output has ended, or something else that rank0_pass may wait for */
void rank0_forget(struct launch *l);       /* rank 0 may be on another node by now */
void rank0_lost(struct launch *l, struct lane *lane);
/* While the launch runs: the node of rank 0. False: it is not known yet and is being asked for; ask again soon. */
bool rank0_periodic(struct launch *l, uint32_t *ret_node);
void rank0_told(struct launch *l, uint32_t node, uint64_t token, uint64_t at_ns);
void rank0_looked(struct launch *l, const struct plan_step *step, uint32_t node, const struct input *in);
void rank0_free(struct launch *l);

/* ---- ending.c ---- */
void run_stop(struct run *r);      /* a pass, DUE_STOP: a run has failed: stops all but set-up and what comes home */
void run_check_end(struct run *r); /* a pass, DUE_END: closes a run that is to end, once nothing is in flight */
void run_stop_all(struct run *r);  /* the user asked for it: stops set-up, too */
void run_node_failed(struct run *r, uint32_t node, const struct error *err);
/* An orphan has ended: the journal gets its FINISHED, where it has its STARTED. */
void run_orphan_ended(struct run *r, struct lane *lane, const struct wire_record *rec);
void run_on_stop_deadline(void *arg); /* alarm: a stop has waited long enough for nodes that are away */
void run_closed(struct run *r);       /* RUN_CLOSED is durable */
void run_on_finisher(void *arg);      /* alarm: `finished` is called, outside of everything else */

/* ---- cause.c: what failed first, and in which words ---- */
bool cause_offer(struct cause *best, const struct cause *c); /* true: c is the earliest so far, and was taken */
bool cause_has_rank(const struct run *r, const struct plan_step *step, uint32_t rank, enum outcome outcome);
struct cause *cause_of(struct run *r, const struct plan_step *step); /* the launch's, or the run's for set-up */
void cause_tell(struct run *r); /* run_result gets the launch's first cause; where it has none that of set-up */
/* "rank 3", or with roles "server[1] (rank 3)". */
const char *launch_worker_words(const struct run *r, uint32_t worker, char *ret, size_t size);
char *launch_cause(const struct launch *l);    /* the first cause in words; heap */
void launch_failure(struct launch *l);         /* the same, as the error of run_result */
bool launch_preempted(const struct launch *l); /* the first cause: a node was told to end, not by rhrun */

#endif
