/*
 * belief: decides what to do with one step on one node, from what the journal and that node's ledger say about the
 * step. It is one pure function over one table, which is row by row the table "journal, ledger, then" of
 * docs/architecture.md. reconcile.c calls it after each HELLO for attempts that are under way, decide.c for a step of
 * set-up when its turn comes.
 */
#ifndef RHRUN_CORE_BELIEF_H
#define RHRUN_CORE_BELIEF_H

#include <stdint.h>

/* What the journal says of the step on the node. */
enum belief_cell {
    CELL_NOTHING, /* the step was never begun, or the attempt does not count for this question */
    CELL_STARTED, /* an attempt is under way, as far as the journal knows */
    CELL_OK,      /* the step ended well */
    CELL_BAD      /* the step did not end well, or its outcome is not known */
};

/* What the ledger has: the record of the journal's attempt if there is one, else the latest record of the step's
 * slot. */
enum belief_record {
    RECORD_NONE,
    RECORD_LIVE,      /* claimed: the attempt's supervisor lives */
    RECORD_GOOD,      /* the attempt ended well, or counts as ended well */
    RECORD_PREEMPTED, /* the attempt was told to end with its machine, and ended in an orderly way */
    RECORD_BAD        /* the attempt did not end well, or its outcome is lost */
};

/* Facts besides journal and record. */
enum belief_fact {
    FACT_OWN = 1,     /* the record belongs to the attempt that the journal has */
    FACT_KEY = 2,     /* the record has the step's key */
    FACT_BOOT = 4,    /* the node has not restarted since, and is still the same machine */
    FACT_MACHINE = 8, /* the node is the machine that the journal's attempt was on */
    FACT_HOLDS = 16,  /* files that the step creates exist; files that it brought or changed are as it left them */
    /* a record may stand for the step without the journal's attempt, or instead of it: no flag asks for the step to be
     * done again */
    FACT_ADOPT = 32,
    FACT_CACHED = 64,    /* set-up */
    FACT_HERE = 128,     /* the step is done on this machine, like a fetch: no node has a record of it */
    FACT_STOPPED = 256,  /* the attempt must end, or must not begin */
    FACT_STRANGER = 512, /* the record belongs to an attempt that is not in the journal */
    /* the recorded attempt began after the journal's was decided, or the node is another machine now */
    FACT_SINCE = 1024
};

enum belief {
    BELIEF_RUN,     /* no record stands for the step: it is run, or run again */
    BELIEF_KEEP,    /* journal and ledger agree that the step ended well */
    BELIEF_ADOPT,   /* the ledger's record stands for the step, and goes into the journal */
    BELIEF_ATTACH,  /* the attempt is ours: asks for its output and its end */
    BELIEF_TAKE,    /* takes the attempt's end from the record, unchanged */
    BELIEF_RESEND,  /* the attempt never began: sends the same RUN once more */
    BELIEF_NEVER,   /* the attempt never began, and must not begin any more */
    BELIEF_UNKNOWN, /* the attempt may have begun, and its outcome cannot be known */
    BELIEF_ORPHAN   /* the attempt lives, but no run needs it: stops it before anything else happens on the node */
};

/* facts: the members of enum belief_fact that hold. */
enum belief belief_of(enum belief_cell cell, enum belief_record record, uint32_t facts);

#endif
