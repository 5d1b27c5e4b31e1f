/* A torchrun command line, parsed. */
#ifndef RHRUN_CLI_IMPORT_H
#define RHRUN_CLI_IMPORT_H

#include "rhrun/spec.h"

enum { IMPORT_FLAGS_MAX = 64, IMPORT_LEFT_MAX = 16 };

struct import_left {
    const char *text, *why;  /* "srun -N 2", and the key that replaces it */
};

struct import {
    struct arena *arena;
    const char *python;      /* interpreter that the command line names; NULL = python3 */
    bool legacy;             /* torch.distributed.launch, which passes --local-rank to the program */
    const struct torchrun_flag *flags[IMPORT_FLAGS_MAX]; /* the given flags, each once */
    const char *values[IMPORT_FLAGS_MAX];                /* the last value; "" of a BOOLEAN */
    size_t flag_count;
    const char *const *env;  /* NAME=VALUE before the program, except PET_ variables */
    size_t env_count;
    bool tune;               /* tune run: target is a torchtune recipe, or a script */
    struct import_left left[IMPORT_LEFT_MAX]; /* programs before torchrun that are left out */
    size_t left_count;
    const char *target;      /* script, module or program */
    const char *const *args;
    size_t arg_count;
};

/* [NAME=VALUE...] [WRAPPER...] torchrun|PYTHON -m torch.distributed.run [FLAG...] PROGRAM [ARG...], as torch's own
 * parser reads it: dashes or underscores, "--flag value" or "--flag=value", unique beginnings of names. WRAPPER is
 * srun, nohup, ... with flags; it is kept in `left`. -1 names what is not understood. */
int import_torchrun(const char *const *words, size_t count, struct arena *arena, struct import *ret, struct error *err);
/* The part before torchrun's own arguments. *ret is the index after it; `env` has room for all words. */
int import_before(struct import *im, const char *const *words, size_t count, const char **env, size_t *ret,
                  struct error *err);
void import_leave(struct import *im, const char *const *words, size_t count, const char *why); /* adds to `left` */
int import_put(struct import *im, const struct torchrun_flag *flag, const char *value, struct error *err);
const char *import_value(const struct import *im, const char *name); /* NULL when not given */
/* The spec as text, with a comment for each part that was left out, and why. Without `workdir` it can be checked in any
 * folder. */
void import_write(const struct import *im, bool workdir, struct buf *ret);

#endif
