/*
 * belief: what follows for one step on one node from what the journal and that node's ledger say of it. One pure
 * function over one table, which is the table "journal, ledger, then" of docs/architecture.md, row by row. It is asked
 * after each HELLO of what is under way (reconcile.c), and of a step of set-up when its turn comes (decide.c).
 */
#ifndef RHRUN_CORE_BELIEF_H
#define RHRUN_CORE_BELIEF_H

#include <stdint.h>

/* What the journal says of the step on the node. */
enum belief_cell {
    CELL_NOTHING, /* it was never begun, or what was begun is no answer to what is asked now */
    CELL_STARTED, /* an attempt is under way, for all that is known here */
    CELL_OK,      /* it ended well */
    CELL_BAD      /* it ended otherwise, or nobody knows how */
};

/* What the ledger has: of the attempt that the journal has where it is there, else the latest of the step's slot. */
enum belief_record {
    RECORD_NONE,
    RECORD_LIVE,      /* claimed: its supervisor lives */
    RECORD_GOOD,      /* it ended well, or counts so */
    RECORD_PREEMPTED, /* it was told to end with its machine, and did in order */
    RECORD_BAD        /* it ended otherwise, or its outcome is lost */
};

/* What else is so. */
enum belief_fact {
    FACT_OWN = 1,      /* the record is of the attempt that the journal has */
    FACT_KEY = 2,      /* the record, or without one the journal's attempt, is of the step's key */
    FACT_BOOT = 4,     /* the node has not restarted since, nor is it another machine */
    FACT_MACHINE = 8,  /* it is the machine that the journal's attempt was on */
    FACT_HOLDS = 16,   /* what the step creates is there, what it brought or changed is as it left it */
    FACT_ADOPT = 32,   /* a record may stand for it without, or instead of, the journal's: no flag wants it done
                          again */
    FACT_CACHED = 64,  /* set-up */
    FACT_HERE = 128,   /* no node has a record of such a step: files come home by it */
    FACT_STOPPED = 256, /* it is to end, or not to begin */
    FACT_STRANGER = 512, /* the record is of an attempt that the journal has never heard of */
    FACT_SINCE = 1024    /* the record began after the journal's attempt was decided, or on the machine of now */
};

enum belief {
    BELIEF_RUN,     /* nothing stands for it: it is done, or done again */
    BELIEF_KEEP,    /* journal and ledger agree that it ended well */
    BELIEF_ADOPT,   /* the ledger's record stands for it, and goes into the journal */
    BELIEF_ATTACH,  /* the attempt is ours: its output and its end are asked for */
    BELIEF_TAKE,    /* its end is taken from the record as it is */
    BELIEF_RESEND,  /* it never began: the same RUN goes out once more */
    BELIEF_NEVER,   /* it never began, and is not to any more */
    BELIEF_UNKNOWN, /* it began, and nobody can say how it ended */
    BELIEF_ORPHAN   /* it lives, and nobody wants it: it is stopped before anything else is done there */
};

/* facts: enum belief_fact, those that are so. */
enum belief belief_of(enum belief_cell cell, enum belief_record record, uint32_t facts);

#endif
