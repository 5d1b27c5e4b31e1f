/* The table of belief: the first row that fits decides. */
#include "belief.h"

#include <stdbool.h>
#include <stddef.h>

#define ANY UINT32_MAX
#define CELL(x) (1u << CELL_##x)
#define RECORD(x) (1u << RECORD_##x)
#define FACT(x) ((uint32_t)FACT_##x)

static const struct row {
    uint32_t cells, records; /* bits: the row fits any of these */
    uint32_t so, not_so;     /* facts that must hold, and facts that must not */
    enum belief then;
} rows[] = {
    /* recorded as a success: kept if the ledger agrees; if another controller has done the step since, its record
     * counts */
    {CELL(OK), RECORD(GOOD), FACT(OWN) | FACT(MACHINE) | FACT(KEY) | FACT(HOLDS), 0, BELIEF_KEEP},
    {CELL(OK), RECORD(GOOD), FACT(SINCE) | FACT(KEY) | FACT(BOOT) | FACT(ADOPT) | FACT(HOLDS), FACT(OWN), BELIEF_ADOPT},
    {CELL(OK), ANY & ~RECORD(LIVE), 0, 0, BELIEF_RUN},
    /* under way, and the ledger has the attempt */
    {CELL(STARTED), ANY, FACT(HERE), 0, BELIEF_RESEND},
    {CELL(STARTED), ANY & ~RECORD(NONE), FACT(OWN) | FACT(BOOT), 0, BELIEF_ATTACH},
    {CELL(STARTED), RECORD(PREEMPTED), FACT(OWN), FACT(CACHED), BELIEF_TAKE},
    {CELL(STARTED), ANY & ~RECORD(NONE), FACT(OWN), 0, BELIEF_UNKNOWN},
    /* under way, and the ledger does not have the attempt: a power cut took the claim, or there never was one */
    {CELL(STARTED), ANY, 0, FACT(BOOT), BELIEF_UNKNOWN},
    {CELL(STARTED), ANY, FACT(STOPPED), 0, BELIEF_NEVER},
    {CELL(STARTED), RECORD(GOOD), FACT(STRANGER) | FACT(KEY) | FACT(ADOPT) | FACT(HOLDS), 0, BELIEF_ADOPT},
    {CELL(STARTED), ANY, 0, 0, BELIEF_RESEND},
    /* not under way here */
    {ANY, RECORD(LIVE), FACT(KEY) | FACT(ADOPT), 0, BELIEF_ATTACH},
    {ANY, RECORD(LIVE), 0, 0, BELIEF_ORPHAN},
    {ANY, RECORD(GOOD), FACT(KEY) | FACT(BOOT) | FACT(ADOPT) | FACT(HOLDS), FACT(OWN), BELIEF_ADOPT},
    {ANY, ANY, 0, 0, BELIEF_RUN},
};

enum belief belief_of(enum belief_cell cell, enum belief_record record, uint32_t facts)
{
    const struct row *row = rows;
    while (!(row->cells & 1u << cell) || !(row->records & 1u << record) || (facts & row->so) != row->so ||
           (facts & row->not_so) != 0)
        row++;
    return row->then;
}
