/* Messages about a machine that may still exist, and about its price. */
#include "internal.h"

void put_hourly(struct buf *b, uint64_t microusd)
{
    const uint64_t cents = (microusd + 9999) / 10000; /* rounded up: no price is shown as 0 */
    buf_printf(b, "$%llu.%02llu an hour", (unsigned long long)(cents / 100), (unsigned long long)(cents % 100));
}

static void put_what(struct buf *b, const struct fleet_effect *e)
{
    if (e->machine)
        buf_printf(b, "%s (%s) may still be there", e->machine->id, e->machine->name);
    else if (e->order)
        buf_printf(b, "%u machine%s named %s may be there", e->order->count - e->order->machines,
                   e->order->count - e->order->machines == 1 ? "" : "s", e->order->name);
    else
        buf_printf(b, "what belongs to rhrun-%s could not be listed", e->text);
}

void fleet_dearer_text(const struct fleet_effect *e, struct buf *ret)
{
    buf_printf(ret, "warning: %s asks ", e->machine->provider);
    put_hourly(ret, e->price);
    buf_printf(ret, " for %.100s, and the price list has ", e->machine->id);
    if (e->offer->unpriced)
        buf_puts(ret, "none");
    else
        put_hourly(ret, e->offer->price);
}

void fleet_left_text(const struct fleet_effect *e, struct buf *ret)
{
    buf_printf(ret, "%s%s%s ", e->provider, e->region[0] ? " " : "", e->region);
    put_what(ret, e);
    if (e->order) {
        buf_puts(ret, ", at ");
        put_hourly(ret, e->machine ? e->machine->price ? e->machine->price : e->order->price
                                   : e->order->price * (e->order->count - e->order->machines));
    }
    if (e->order && e->order->deadline_ms && e->offer->deadline != PROVIDER_DEADLINE_NONE)
        buf_puts(ret, " until max_hours are over");
    buf_printf(ret, ": rhrun gc --provider %s --yes", e->provider);
}
