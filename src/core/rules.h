/*
 * Failure rules and metrics while a launch runs. Rules are applied to the workers' output, which also has the end of a
 * failed worker and a node's preemption (WIRE_STREAM_END), and to nodes that stay away. A rule's verdict (fail or
 * restart) is on the whole generation. The verdict is durable before it stops anything, and a generation has only its
 * first verdict. If there is none, the first cause is judged when all workers have ended. A controller that continues a
 * run reads all of this again from the logs.
 */
#ifndef RHRUN_CORE_RULES_H
#define RHRUN_CORE_RULES_H

#include "rhrun/core.h"

/* The present generation begins, or is continued: the rules read its events and lines from journal and logs. For a new
 * generation there are none. */
void rules_begin(struct launch *l);
/* The record of a part of the launch after the rules have judged the ends of its workers: an end that is ignored is no
 * failure. */
struct wire_record rules_judge(struct launch *l, const struct plan_step *step, uint32_t node,
                               const struct wire_record *record);
bool rules_condemned(const struct launch *l); /* the generation has a verdict, or a failure that no rule ignores */
/* A generation that has failed is over. True: the launch starts again, and *ret is the RESTART (its reason is heap).
 * The events of the rules that applied are in the journal's queue before it. */
bool rules_restart(struct launch *l, struct event_restart *ret);
/* What failed, in the words of the rule that gave the verdict; NULL: no rule did. */
const char *rules_words(const struct launch *l);
uint32_t rules_restarts_left(const struct launch *l); /* of max_restarts */

/* Whether a rule decides what follows when the node's part of the launch ends in this way. */
bool rules_speak(struct launch *l, uint32_t node, enum outcome outcome, uint32_t cause, int32_t value);

#endif
