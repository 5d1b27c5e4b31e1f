/* When a cluster was held, by its ledger. */
#include "internal.h"

#include "rhrun/journal.h"

#include <stdlib.h>

struct holds {
    struct fleet_ledger *ledger;
    struct rent_hold *items;
    size_t count;
};

static int take(void *arg, const struct fleet_event *e, struct error *err)
{
    struct holds *h = arg;
    struct rent_hold *last = h->count ? &h->items[h->count - 1] : NULL;
    if (fleet_apply(h->ledger, e, err) < 0)
        return -1;
    const bool open = last && last->until_ms == UINT64_MAX;
    if (e->type == FLEET_HELD && !open) {
        h->items = xreallocarray(h->items, h->count + 1, sizeof *h->items);
        h->items[h->count++] = (struct rent_hold){e->time_ms, UINT64_MAX};
    } else if (e->type == FLEET_FREED && open && h->ledger->wanted.down != FLEET_DOWN_ALWAYS) {
        last->until_ms = e->time_ms;
    }
    return 0;
}

int rent_read_holds(const char *id, struct fleet_ledger **ret, struct rent_hold **ret_holds, size_t *ret_count,
                    struct error *err)
{
    struct holds h = {.ledger = fleet_ledger_create()};
    if (journal_cluster_read(id, take, &h, err) < 0) {
        fleet_ledger_destroy(h.ledger);
        free(h.items);
        return -1;
    }
    *ret = h.ledger;
    *ret_holds = h.items;
    *ret_count = h.count;
    return 0;
}
