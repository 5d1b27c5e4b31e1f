/*
 * belief: what is so of one machine, given what the cluster's ledger says and what the provider shows. One function,
 * one row for each row of the table in docs/architecture.md. It is asked for each machine in each turn (machines.c),
 * and for each machine of a list that the ledger does not have.
 */
#ifndef RHRUN_FLEET_BELIEF_H
#define RHRUN_FLEET_BELIEF_H

#include <stdint.h>

/* What the ledger says. */
enum entry {
    ENTRY_NONE, /* it does not have the machine */
    ENTRY_CREATED,
    ENTRY_READY,
    ENTRY_RETURNING,
    ENTRY_GONE
};

/* What the provider shows. */
enum seen {
    SEEN_UNKNOWN,  /* nobody has looked yet; or the machine was not there at a time when it could be hidden */
    SEEN_COMING,
    SEEN_READY,
    SEEN_FAILED,  /* it is there, does not run, and may cost money */
    SEEN_ENDED,    /* it is shown as deleted */
    SEEN_ABSENT    /* it is not there, and could not be hidden: once, or twice where lists lag */
};

enum entry_fact {
    OF_OURS = 1,   /* it carries the cluster's id */
    OF_WANTED = 2, /* a slot of the attempt at hand has it, and is to keep it */
};

enum belief {
    BELIEF_LEAVE,  /* it is nobody's business, or nothing is left to do */
    BELIEF_ADOPT,  /* it is ours, and goes into the ledger */
    BELIEF_WAIT,   /* it is on its way */
    BELIEF_MEET,   /* it runs: does it answer, and who is it? */
    BELIEF_KEEP,   /* it is ready, as far as anybody knows */
    BELIEF_RETURN, /* it is to go: that goes into the ledger */
    BELIEF_DELETE, /* it is deleted, until it is proven gone */
    BELIEF_GONE    /* it is proven gone: that goes into the ledger */
};

enum belief machine_belief(enum entry entry, enum seen seen, uint32_t facts);

#endif
