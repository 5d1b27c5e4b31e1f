/*
 * The seeds of a test under random faults: RHRUN_RANDOM_FIRST=N (1), RHRUN_RANDOM_SEEDS=N. RHRUN_RANDOM_VERBOSE: it
 * prints what happens.
 */
#ifndef RHRUN_TEST_SEEDS_H
#define RHRUN_TEST_SEEDS_H

#include "rhrun/base.h"

#include <stdlib.h>

#if defined __has_feature
#if __has_feature(address_sanitizer)
#define SEEDS_SANITIZED 1
#endif
#endif
#if defined __SANITIZE_ADDRESS__
#define SEEDS_SANITIZED 1
#endif

/* The environment's number. */
static inline uint64_t seeds_number(const char *name, uint64_t otherwise)
{
    uint64_t n;
    const char *text = getenv(name);
    return text && parse_u64(text, &n) ? n : otherwise;
}

static inline uint64_t seeds_first(void)
{
    return seeds_number("RHRUN_RANDOM_FIRST", 1);
}

/* `count` unless the environment says otherwise. Under sanitizers an eighth: a wrong decision shows without them too,
 * and a world takes ten times as long; only errors in the use of memory are to be found there. */
static inline uint64_t seeds_count(uint64_t count)
{
#ifdef SEEDS_SANITIZED
    count = (count + 7) / 8;
#endif
    return seeds_number("RHRUN_RANDOM_SEEDS", count);
}

#endif
