/*
 * Any lines as a cluster's ledger: an event that is accepted is written as JSON and read back as the same; a ledger takes
 * it or refuses it; and a fleet that begins with what was taken can be given back.
 */
#include "rhrun/fleet.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void again(const struct fleet_event *e, struct arena *arena)
{
    struct buf one = {0}, two = {0};
    struct fleet_event back;
    struct error err = ERROR_INIT;
    fleet_event_to_json(e, &one);
    if (fleet_event_from_json(one.data, one.len, arena, &back, &err) < 0)
        abort();
    fleet_event_to_json(&back, &two);
    if (one.len != two.len || memcmp(one.data, two.data, one.len) != 0)
        abort();
    buf_free(&one);
    buf_free(&two);
}

static void go_on(struct fleet *f)
{
    const struct fleet_clock now = {.wall_ms = 1790000000000, .mono_ms = 1000};
    size_t count;
    fleet_take(f, &(struct fleet_input){.kind = FLEET_INPUT_START}, now);
    fleet_take(f, &(struct fleet_input){.kind = FLEET_INPUT_DOWN, .text = "why"}, now);
    fleet_take(f, &(struct fleet_input){.kind = FLEET_INPUT_DURABLE, .seq = fleet_ledger_of(f)->seq}, now);
    (void)fleet_effects(f, &count);
    (void)fleet_cost(fleet_ledger_of(f), now.wall_ms);
    (void)fleet_rate(fleet_ledger_of(f));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fleet *fleet = fleet_create();
    struct arena *arena = arena_create();
    const char *at = (const char *)data, *end = at + size;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((stop ? stop : end) - at);
        struct fleet_event e;
        struct error err = ERROR_INIT;
        if (fleet_event_from_json(at, len, arena, &e, &err) == 0) {
            again(&e, arena);
            (void)fleet_replay(fleet, &e, &err);
        } else if (!err.code) {
            abort(); /* without a reason */
        }
        at += len + 1;
    }
    go_on(fleet);
    arena_destroy(arena);
    fleet_destroy(fleet);
    return 0;
}
