/* The hands of a run: what its files need that talk to nodes, wait on the loop, or read and write the journal. */
#ifndef RHRUN_RUN_INTERNAL_H
#define RHRUN_RUN_INTERNAL_H

#include "core.h"
#include "rhrun/journal.h"
#include "rhrun/node.h"

extern const struct node_callbacks lane_callbacks;

#endif
