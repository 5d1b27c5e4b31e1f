/*
 * belief: the state of one machine, from what the cluster's ledger says and what the provider shows. One function, with
 * one row for each row of the table in docs/architecture.md. It is called for each machine in each turn (machines.c),
 * and for each listed machine that the ledger lacks.
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
    SEEN_UNKNOWN,  /* not listed yet; or the machine was missing at a time when the list may lag */
    SEEN_COMING,
    SEEN_READY,
    SEEN_FAILED,  /* it exists, does not run, and may cost money */
    SEEN_ENDED,    /* it is shown as deleted */
    SEEN_ABSENT    /* it is missing from a list that cannot lag: once, or twice if the provider's lists lag */
};

enum entry_fact {
    OF_OURS = 1,   /* it carries the cluster's id */
    OF_WANTED = 2, /* a slot of the present attempt has it and keeps it */
};

enum belief {
    BELIEF_LEAVE,  /* it is not ours, or nothing is left to do */
    BELIEF_ADOPT,  /* it is ours, and goes into the ledger */
    BELIEF_WAIT,   /* it is coming */
    BELIEF_MEET,   /* it runs: check whether it answers, and who it is */
    BELIEF_KEEP,   /* it is ready, as far as known */
    BELIEF_RETURN, /* it must go: that goes into the ledger */
    BELIEF_DELETE, /* delete it, until it is proven gone */
    BELIEF_GONE    /* it is proven gone: that goes into the ledger */
};

enum belief machine_belief(enum entry entry, enum seen seen, uint32_t facts);

#endif
