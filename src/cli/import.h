/* A torchrun command line, taken apart. */
#ifndef RHRUN_CLI_IMPORT_H
#define RHRUN_CLI_IMPORT_H

#include "rhrun/spec.h"

enum { IMPORT_FLAGS_MAX = 64 };

struct import {
    struct arena *arena;
    const char *python;      /* interpreter that the command line names; NULL = python3 */
    bool legacy;             /* torch.distributed.launch, which hands --local-rank to the program */
    const struct torchrun_flag *flags[IMPORT_FLAGS_MAX]; /* those that are given, each once */
    const char *values[IMPORT_FLAGS_MAX];                /* the last value; "" of a BOOLEAN */
    size_t flag_count;
    const char *const *env;  /* NAME=VALUE before the program, without PET_ */
    size_t env_count;
    const char *target;      /* script, module or program */
    const char *const *args;
    size_t arg_count;
};

/* [NAME=VALUE...] torchrun|PYTHON -m torch.distributed.run [FLAG...] PROGRAM [ARG...], as torch's own parser reads it:
 * dashes or underscores, "--flag value" or "--flag=value", unique beginnings of names. -1 names what is not understood. */
int import_torchrun(const char *const *words, size_t count, struct arena *arena, struct import *ret, struct error *err);
const char *import_value(const struct import *im, const char *name); /* NULL when not given */
/* The spec as text, with a comment for what was left out and why. */
void import_write(const struct import *im, struct buf *ret);

#endif
