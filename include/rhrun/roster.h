/*
 * roster: which host each node of a job has.
 *
 * What the spec wants of a node (struct spec_node: workers, devices) is part of the keys of steps. Its machine, its
 * name in messages and the way to reach it are not, because a node that moved makes no step stale; ask them here, by
 * the node's number. A command makes the roster of its spec before it plans, and users of the plan find the roster in
 * it. No other module above spec reads spec.hosts (scripts/check-layers).
 *
 * Every node has a host from the beginning: this machine, a host that the spec lists, or, until its machine is rented,
 * a placeholder with a name and no way to reach it.
 */
#ifndef RHRUN_ROSTER_H
#define RHRUN_ROSTER_H

#include "rhrun/spec.h"

struct roster;
/* In the arena. The spec outlives it. */
struct roster *roster_create(const struct spec *spec, struct arena *arena);
/* How many hosts there are: one for each node, in order, then hosts without a node (the spec may list more than
 * nnodes). */
uint32_t roster_count(const struct roster *r);
/* Replaces the node's placeholder by the machine that was rented for it. host must live as long as the roster. */
void roster_put(struct roster *r, uint32_t node, const struct spec_host *host);
/* node < roster_count. */
const struct spec_host *roster_host(const struct roster *r, uint32_t node);
/* A roster of these nodes only, numbered from 0 in this order. In the arena. */
struct roster *roster_of(const struct roster *r, const uint32_t *nodes, uint32_t count, struct arena *arena);
const char *roster_name(const struct roster *r, uint32_t node); /* the node's name in messages; never NULL */

#endif
