/*
 * torchrun: the flags of torch.distributed.run, one table.
 *
 * Reading, checking, command lines and the documentation (docs/torchrun.md) all use this table. Its facts are from
 * torch/distributed/run.py in torch 1.13 to 2.15.
 */
#ifndef RHRUN_TORCHRUN_H
#define RHRUN_TORCHRUN_H

#include <stdbool.h>
#include <stddef.h>

enum torchrun_type {
    TORCHRUN_INTEGER,
    TORCHRUN_NUMBER,
    TORCHRUN_BOOLEAN, /* the flag alone */
    TORCHRUN_CHOICE,
    TORCHRUN_STRING,
    TORCHRUN_STD,     /* 0 to 3 (1 stdout, 2 stderr), or "0:1,1:2" by local rank */
    TORCHRUN_RANKS,   /* "0,2": integers */
    TORCHRUN_LIST,    /* "a,b": texts; a comma in one is doubled */
    TORCHRUN_SIGNALS, /* "SIGTERM,SIGINT" */
    TORCHRUN_MAP,     /* "key=value,..." */
};
enum torchrun_origin {
    TORCHRUN_GIVEN,    /* passed on as the spec gives it, and only then */
    TORCHRUN_COMPUTED, /* rhrun sets it if the spec does not */
    TORCHRUN_OWN,      /* only rhrun sets it: the spec has no such key */
    TORCHRUN_NEVER,    /* makes no sense for a job, so it is never passed */
};
enum { TORCHRUN_OLDEST = 113, TORCHRUN_XPU = 210 /* nproc_per_node: xpu */, TORCHRUN_CHOICES_MAX = 8 };
struct torchrun_flag {
    const char *name; /* after "--", with underscores, which every version accepts; also its key in `distributed` */
    char letter;      /* of its short form, or 0 */
    bool env;         /* torch reads PET_NAME for it */
    enum torchrun_type type;
    enum torchrun_origin origin;
    unsigned since;             /* MAJOR * 100 + MINOR of the first torch with the flag; TORCHRUN_OLDEST: that version
                                   or older */
    bool keyed;                 /* part of the launch's key, because it changes what the job computes, not only how it
                                   is watched */
    const char *const *choices; /* TORCHRUN_CHOICE: NULL-terminated */
    const char *otherwise;      /* torch's default, in the words of docs/torchrun.md */
    const char *meaning;
};
extern const struct torchrun_flag torchrun_flags[];                           /* name NULL ends it */
const struct torchrun_flag *torchrun_flag_find(const char *name, size_t len); /* dashes count as underscores */

#endif
