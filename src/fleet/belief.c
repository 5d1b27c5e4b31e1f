/* The table of belief: the first row that matches decides. */
#include "belief.h"

#include <stddef.h>

#define ANY UINT32_MAX
#define ENTRY(x) (1u << ENTRY_##x)
#define SEEN(x) (1u << SEEN_##x)
#define THERE (SEEN(COMING) | SEEN(READY) | SEEN(FAILED))

static const struct row {
    uint32_t entries, seen; /* bits: the row fits any of these */
    uint32_t so, not_so;    /* facts that must hold, and facts that must not */
    enum belief then;
} rows[] = {
    /* somebody else's, whatever the ledger may say */
    {ANY, ANY, 0, OF_OURS, BELIEF_LEAVE},
    /* the list shows a machine that the ledger lacks, or has as gone */
    {ENTRY(NONE), THERE, 0, 0, BELIEF_ADOPT},
    {ENTRY(NONE), ANY, 0, 0, BELIEF_LEAVE},
    {ENTRY(GONE), THERE, 0, 0, BELIEF_RETURN},
    {ENTRY(GONE), ANY, 0, 0, BELIEF_LEAVE},
    /* proven gone, wanted or not */
    {ANY, SEEN(ENDED) | SEEN(ABSENT), 0, 0, BELIEF_GONE},
    /* being given back */
    {ENTRY(RETURNING), ANY, 0, 0, BELIEF_DELETE},
    /* not wanted, or useless because it no longer runs */
    {ANY, ANY, 0, OF_WANTED, BELIEF_RETURN},
    {ANY, SEEN(FAILED), 0, 0, BELIEF_RETURN},
    /* wanted */
    {ENTRY(READY), ANY, 0, 0, BELIEF_KEEP},
    {ENTRY(CREATED), SEEN(READY), 0, 0, BELIEF_MEET},
    {ANY, ANY, 0, 0, BELIEF_WAIT},
};

enum belief machine_belief(enum entry entry, enum seen seen, uint32_t facts)
{
    const struct row *row = rows;
    while (!(row->entries & 1u << entry) || !(row->seen & 1u << seen) || (facts & row->so) != row->so ||
           (facts & row->not_so))
        row++;
    return row->then;
}
