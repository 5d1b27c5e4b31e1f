/*
 * Failure rules and metrics while a launch runs. What a rule is asked about comes from the workers' output, in which a
 * failed worker's end and a node's preemption stand too (WIRE_STREAM_END), and from nodes that stay away. A verdict of
 * a rule (fail, restart) is on the generation, is durable before it stops anything, and is the first that was given;
 * without one the first cause is judged when all have ended. Everything is read again from the logs when a controller
 * takes a run up.
 */
#ifndef RHRUN_CORE_RULES_H
#define RHRUN_CORE_RULES_H

#include "rhrun/core.h"


/* The rules of the generation at hand, as the journal and its logs have them: of a new one these are empty. */
void rules_begin(struct launch *l);
/* The record of a part of the launch, its workers' ends judged: what was ignored is no failure. */
struct wire_record rules_judge(struct launch *l, const struct plan_step *step, uint32_t node,
                               const struct wire_record *record);
bool rules_condemned(const struct launch *l); /* the generation at hand has a verdict, or a worker of it failed */
/* A generation that has failed is over: true when the launch starts again, and then *ret is the RESTART (its reason is
 * heap). What a rule did is in the journal's queue then, before it. */
bool rules_restart(struct launch *l, struct event_restart *ret);
/* What failed, in words, by the rule that says so; NULL: no rule does. */
const char *rules_words(const struct launch *l);
uint32_t rules_restarts_left(const struct launch *l); /* of max_restarts */

/* Does a rule say what follows from such an end of the node's part of the launch? */
bool rules_speak(struct launch *l, uint32_t node, enum outcome outcome, uint32_t cause, int32_t value);

#endif
