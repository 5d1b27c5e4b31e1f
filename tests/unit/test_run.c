/* run: whole jobs on simulated nodes, with what can go wrong on them. */
#include "sim_job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_plain_success(void **unused)
{
    (void)unused;
    struct sim_job *job = sim_job_create(2, NULL);
    sim_job_step(job, "deps");
    sim_job_step(job, "data")->on = ON_FIRST;
    assert_int_equal(sim_job_run(job, 0), 0);
    assert_int_equal(job->result.status, RUN_DONE);
    for (uint32_t n = 0; n < 2; n++) {
        assert_int_equal(sim_started(job->net, n, "setup:deps"), 1);
        assert_int_equal(sim_started(job->net, n, "setup:data"), n == 0);
        assert_int_equal(sim_started(job->net, n, "launch"), 1);
    }
    sim_job_destroy(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plain_success)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
