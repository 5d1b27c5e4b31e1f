/*
 * belief: what follows for one step on one node from what the journal and that node's ledger say of the step. It is one
 * pure function over one table, which is row by row the table "journal, ledger, then" of docs/architecture.md.
 * reconcile.c asks it after each HELLO about attempts that are under way, decide.c about a step of set-up when its turn
 * comes.
 */
#ifndef RHRUN_CORE_BELIEF_H
#define RHRUN_CORE_BELIEF_H

#include <stdint.h>

/* What the journal says of the step on the node. */
enum belief_cell {
    CELL_NOTHING, /* the step was never begun, or what was begun does not count for this question */
    CELL_STARTED, /* an attempt is under way, as far as the journal knows */
    CELL_OK,      /* the step ended well */
    CELL_BAD      /* the step ended otherwise, or nobody knows how */
};

/* What the ledger has: the record of the journal's attempt where it is there, else the latest one of the step's
 * slot. */
enum belief_record {
    RECORD_NONE,
    RECORD_LIVE,      /* claimed: the attempt's supervisor lives */
    RECORD_GOOD,      /* the attempt ended well, or counts so */
    RECORD_PREEMPTED, /* the attempt was told to end with its machine, and did so in order */
    RECORD_BAD        /* the attempt ended otherwise, or its outcome is lost */
};

/* What else holds. */
enum belief_fact {
    FACT_OWN = 1,     /* the record is of the attempt that the journal has */
    FACT_KEY = 2,     /* the record has the step's key */
    FACT_BOOT = 4,    /* the node has not restarted since, and is no other machine */
    FACT_MACHINE = 8, /* the node is the machine that the journal's attempt was on */
    FACT_HOLDS = 16,  /* what the step creates is there; what it brought or changed is as it left it */
    /* a record may stand for the step without the journal's, or instead of it: nothing asks to do it again */
    FACT_ADOPT = 32,
    FACT_CACHED = 64,    /* set-up */
    FACT_HERE = 128,     /* the step is done here, as when files come home: no node has a record of it */
    FACT_STOPPED = 256,  /* the attempt is to end, or must not begin */
    FACT_STRANGER = 512, /* the record is of an attempt that the journal has never heard of */
    /* the recorded attempt began after the journal's was decided, or the node is another machine now */
    FACT_SINCE = 1024
};

enum belief {
    BELIEF_RUN,     /* nothing stands for the step: it is run, or run again */
    BELIEF_KEEP,    /* journal and ledger agree that the step ended well */
    BELIEF_ADOPT,   /* the ledger's record stands for the step, and goes into the journal */
    BELIEF_ATTACH,  /* the attempt is ours: its output and its end are asked for */
    BELIEF_TAKE,    /* the attempt's end is taken from the record as it is */
    BELIEF_RESEND,  /* the attempt never began: the same RUN goes out once more */
    BELIEF_NEVER,   /* the attempt never began, and must not begin any more */
    BELIEF_UNKNOWN, /* the attempt may have begun, and nobody can say how it ended */
    BELIEF_ORPHAN   /* the attempt lives, and nobody wants it: it is stopped before anything else is done on the node */
};

/* facts: the members of enum belief_fact that hold. */
enum belief belief_of(enum belief_cell cell, enum belief_record record, uint32_t facts);

#endif
