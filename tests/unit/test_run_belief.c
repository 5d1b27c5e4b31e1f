/* run: belief, row by row of the table in docs/architecture.md, and results that no row may ever give. */
#include "../../src/core/belief.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

enum { FACTS = 1 << 11 };

static void is(enum belief_cell cell, enum belief_record record, uint32_t so, enum belief then)
{
    assert_int_equal(belief_of(cell, record, so), then);
}

static void test_recorded(void **unused)
{
    (void)unused;
    const uint32_t agrees = FACT_OWN | FACT_KEY | FACT_MACHINE | FACT_HOLDS | FACT_CACHED | FACT_ADOPT;
    is(CELL_OK, RECORD_GOOD, agrees, BELIEF_KEEP);
    is(CELL_OK, RECORD_GOOD, agrees | FACT_BOOT, BELIEF_KEEP);
    is(CELL_OK, RECORD_GOOD, agrees & ~(uint32_t)FACT_OWN, BELIEF_RUN);     /* another attempt was later */
    is(CELL_OK, RECORD_GOOD, agrees & ~(uint32_t)FACT_HOLDS, BELIEF_RUN);   /* its created files are gone */
    is(CELL_OK, RECORD_GOOD, agrees & ~(uint32_t)FACT_MACHINE, BELIEF_RUN); /* another machine */
    const uint32_t other = FACT_SINCE | FACT_KEY | FACT_BOOT | FACT_ADOPT | FACT_HOLDS;
    is(CELL_OK, RECORD_GOOD, other, BELIEF_ADOPT);                       /* another controller has done it since */
    is(CELL_OK, RECORD_GOOD, other | FACT_MACHINE, BELIEF_ADOPT);        /* the same on the same machine */
    is(CELL_OK, RECORD_GOOD, other & ~(uint32_t)FACT_SINCE, BELIEF_RUN); /* it was there before */
    is(CELL_OK, RECORD_GOOD, other & ~(uint32_t)FACT_KEY, BELIEF_RUN);   /* with other inputs */
    is(CELL_OK, RECORD_GOOD, other & ~(uint32_t)FACT_BOOT, BELIEF_RUN);  /* then the power failed */
    is(CELL_OK, RECORD_NONE, agrees & ~(uint32_t)FACT_OWN, BELIEF_RUN);
    is(CELL_OK, RECORD_BAD, agrees, BELIEF_RUN);
}

static void test_under_way(void **unused)
{
    (void)unused;
    is(CELL_STARTED, RECORD_LIVE, FACT_OWN | FACT_BOOT, BELIEF_ATTACH);
    is(CELL_STARTED, RECORD_GOOD, FACT_OWN | FACT_BOOT, BELIEF_ATTACH);
    is(CELL_STARTED, RECORD_BAD, FACT_OWN | FACT_BOOT | FACT_STOPPED, BELIEF_ATTACH);
    is(CELL_STARTED, RECORD_PREEMPTED, FACT_OWN, BELIEF_TAKE);
    is(CELL_STARTED, RECORD_PREEMPTED, FACT_OWN | FACT_CACHED, BELIEF_UNKNOWN);
    is(CELL_STARTED, RECORD_GOOD, FACT_OWN, BELIEF_UNKNOWN); /* of another boot */
    is(CELL_STARTED, RECORD_NONE, 0, BELIEF_UNKNOWN);
    is(CELL_STARTED, RECORD_NONE, FACT_BOOT, BELIEF_RESEND);
    is(CELL_STARTED, RECORD_NONE, FACT_BOOT | FACT_STOPPED, BELIEF_NEVER);
    is(CELL_STARTED, RECORD_GOOD, FACT_BOOT | FACT_STRANGER | FACT_KEY | FACT_ADOPT | FACT_HOLDS, BELIEF_ADOPT);
    is(CELL_STARTED, RECORD_GOOD, FACT_BOOT | FACT_STRANGER | FACT_KEY | FACT_HOLDS, BELIEF_RESEND);
    is(CELL_STARTED, RECORD_NONE, FACT_HERE, BELIEF_RESEND); /* outputs: requested once more */
}

static void test_not_under_way(void **unused)
{
    (void)unused;
    is(CELL_NOTHING, RECORD_LIVE, FACT_KEY | FACT_ADOPT, BELIEF_ATTACH);
    is(CELL_NOTHING, RECORD_LIVE, FACT_KEY, BELIEF_ORPHAN);
    is(CELL_NOTHING, RECORD_LIVE, FACT_ADOPT, BELIEF_ORPHAN);
    is(CELL_NOTHING, RECORD_GOOD, FACT_KEY | FACT_ADOPT | FACT_HOLDS | FACT_BOOT, BELIEF_ADOPT);
    is(CELL_BAD, RECORD_GOOD, FACT_KEY | FACT_ADOPT | FACT_HOLDS | FACT_BOOT, BELIEF_ADOPT);
    is(CELL_BAD, RECORD_GOOD, FACT_OWN | FACT_KEY | FACT_ADOPT | FACT_HOLDS | FACT_BOOT, BELIEF_RUN);
    is(CELL_NOTHING, RECORD_GOOD, FACT_KEY | FACT_ADOPT | FACT_HOLDS, BELIEF_RUN); /* of another boot */
    is(CELL_NOTHING, RECORD_GOOD, FACT_KEY | FACT_HOLDS | FACT_BOOT, BELIEF_RUN);  /* a flag requires it again */
    is(CELL_NOTHING, RECORD_BAD, FACT_KEY | FACT_ADOPT | FACT_HOLDS | FACT_BOOT, BELIEF_RUN);
    is(CELL_NOTHING, RECORD_NONE, 0, BELIEF_RUN);
}

/* For all facts: a success is believed only if the ledger has one, a live program is never left alone, and a pending
 * one is not started under another attempt. */
static void test_never(void **unused)
{
    (void)unused;
    for (int cell = CELL_NOTHING; cell <= CELL_BAD; cell++)
        for (int record = RECORD_NONE; record <= RECORD_BAD; record++)
            for (uint32_t so = 0; so < FACTS; so++) {
                const enum belief b = belief_of((enum belief_cell)cell, (enum belief_record)record, so);
                if (b == BELIEF_KEEP || b == BELIEF_ADOPT)
                    assert_int_equal(record, RECORD_GOOD);
                if (b == BELIEF_KEEP)
                    assert_true(cell == CELL_OK && (so & FACT_OWN) && (so & FACT_HOLDS));
                if (b == BELIEF_ORPHAN)
                    assert_true(record == RECORD_LIVE && cell != CELL_STARTED);
                if (record == RECORD_LIVE && cell != CELL_STARTED)
                    assert_true(b == BELIEF_ATTACH || b == BELIEF_ORPHAN);
                if (cell == CELL_STARTED)
                    assert_true(b != BELIEF_RUN && b != BELIEF_KEEP && b != BELIEF_ORPHAN);
                if (b == BELIEF_RESEND && !(so & FACT_HERE))
                    assert_true(cell == CELL_STARTED && (so & FACT_BOOT) &&
                                (!(so & FACT_OWN) || record == RECORD_NONE));
                if (b == BELIEF_UNKNOWN)
                    assert_false((so & FACT_BOOT) != 0);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorded),
        cmocka_unit_test(test_under_way),
        cmocka_unit_test(test_not_under_way),
        cmocka_unit_test(test_never),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
