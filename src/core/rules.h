/*
 * Failure rules and metrics while a launch runs. A rule is asked about the workers' output, in which a failed worker's
 * end and a node's preemption stand, too (WIRE_STREAM_END), and about nodes that stay away. A rule's verdict (fail or
 * restart) is on the whole generation. It is durable before it stops anything, and the first verdict of a generation is
 * the only one. Where there is none, the first cause is judged when all workers have ended. A controller that takes a
 * run up reads all of this again from the logs.
 */
#ifndef RHRUN_CORE_RULES_H
#define RHRUN_CORE_RULES_H

#include "rhrun/core.h"

/* The present generation begins, or is taken up: the rules read what journal and logs have of it; of a new one that is
 * nothing. */
void rules_begin(struct launch *l);
/* The record of a part of the launch once the rules have judged its workers' ends: an end that is ignored is no
 * failure. */
struct wire_record rules_judge(struct launch *l, const struct plan_step *step, uint32_t node,
                               const struct wire_record *record);
bool rules_condemned(const struct launch *l); /* the present generation has a verdict, or a worker of it failed */
/* A generation that has failed is over. True: the launch starts again, and *ret is the RESTART (its reason is heap).
 * The events of rules that counted are in the journal's queue before it. */
bool rules_restart(struct launch *l, struct event_restart *ret);
/* What failed, in the words of the rule that says so; NULL: no rule does. */
const char *rules_words(const struct launch *l);
uint32_t rules_restarts_left(const struct launch *l); /* of max_restarts */

/* Does a rule say what follows, where the node's part of the launch ends so? */
bool rules_speak(struct launch *l, uint32_t node, enum outcome outcome, uint32_t cause, int32_t value);

#endif
