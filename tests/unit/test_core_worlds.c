/*
 * core under random faults, in worlds of its own: core_random.h lists the invariants. It links without nodes, loop,
 * journal and transport, and a world takes microseconds: RHRUN_RANDOM_SEEDS=200000 takes a minute or two.
 */
#include "core_random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SEEDS = 3000 };

static bool passes(uint64_t seed, bool verbose, unsigned flags)
{
    struct random_job *job = random_job_create(seed, UINT32_MAX, flags | (verbose ? RANDOM_VERBOSE : 0));
    while (random_job_step(job))
        ;
    if (!job->violation[0])
        random_job_check(job);
    bool good = !job->violation[0];
    if (verbose)
        fprintf(stderr, "seed %llu: %u nodes%s\n%s", (unsigned long long)seed, job->world->node_count,
                job->elastic ? ", MIN:MAX" : "", job->log.data ? job->log.data : "");
    if (!good)
        fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed, job->violation);
    random_job_destroy(job);
    return good;
}

static void check_worlds(unsigned flags)
{
    const uint64_t first = seeds_first(), count = seeds_count(SEEDS);
    const bool verbose = getenv("RHRUN_RANDOM_VERBOSE");
    uint64_t bad = 0;
    for (uint64_t seed = first; seed < first + count; seed++)
        if (!passes(seed, verbose, flags) && bad++ == 0 && !verbose)
            passes(seed, true, flags);
    if (bad)
        fail_msg("%llu of %llu worlds", (unsigned long long)bad, (unsigned long long)count);
}

static void test_random_worlds(void **unused)
{
    (void)unused;
    check_worlds(0);
}

static void test_random_worlds_rented(void **unused)
{
    (void)unused;
    check_worlds(RANDOM_RENTED);
}

/* Each found a fault once. */
static void test_found(void **unused)
{
    static const uint64_t seeds[] = {6827,     41550,    67491,    55855,    110990,  159787,   190174,
                                     2090015,  10018282, 20226709, 20380787, 244185,  60013707, 40032087,
                                     20042678, 60593690, 60752495, 60910160, 10163156};
    static const uint64_t with_files[] = {138266, 107297, 86663}, rented[] = {18911, 91010, 314123, 315860, 416528};
    (void)unused;
    for (size_t i = 0; i < ARRAY_LEN(seeds); i++)
        assert_true(passes(seeds[i], false, RANDOM_NO_FILES));
    for (size_t i = 0; i < ARRAY_LEN(with_files); i++)
        assert_true(passes(with_files[i], false, 0));
    for (size_t i = 0; i < ARRAY_LEN(rented); i++)
        assert_true(passes(rented[i], false, RANDOM_RENTED));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_worlds),
                                       cmocka_unit_test(test_random_worlds_rented), cmocka_unit_test(test_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
