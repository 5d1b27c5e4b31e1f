/*
 * roster: which host each node of a job has.
 *
 * What the spec wishes of a node (struct spec_node: workers, devices) is in the keys of steps. On which machine
 * the node is, what messages call it and how it is reached is not, for a node that moved makes no step stale:
 * that is asked here, by the node's number. A command makes the roster of its spec before it plans, and the plan
 * has it for all that work with the plan. No other module above spec reads spec.hosts (scripts/check-layers).
 *
 * Every node has a host from the beginning: this machine, one that the spec lists, or, until its machine is rented, a
 * placeholder that has a name and no way to reach it.
 */
#ifndef RHRUN_ROSTER_H
#define RHRUN_ROSTER_H

#include "rhrun/spec.h"

struct roster;
/* In the arena. The spec outlives it. */
struct roster *roster_create(const struct spec *spec, struct arena *arena);
/* How many hosts it has: one for each node, in order, then those that are no node's (the spec may list more than
 * nnodes). */
uint32_t roster_count(const struct roster *r);
/* The machine that was rented for the node, whose host was a placeholder until now. It lives as long as the roster. */
void roster_put(struct roster *r, uint32_t node, const struct spec_host *host);
/* node < roster_count. */
const struct spec_host *roster_host(const struct roster *r, uint32_t node);
/* A roster of those nodes, numbered from 0 in that order. In the arena. */
struct roster *roster_of(const struct roster *r, const uint32_t *nodes, uint32_t count, struct arena *arena);
const char *roster_name(const struct roster *r, uint32_t node); /* what messages call the node; never NULL */

#endif
