/*
 * Any lines as a journal: an event that is accepted is written as JSON and read back as the same, and a state takes
 * whatever comes, in whatever order.
 */
#include "rhrun/state.h"
#include "scene.h"

static void again(const struct event *e, struct arena *arena)
{
    struct buf one = {0}, two = {0};
    struct event back;
    struct error err = ERROR_INIT;
    event_to_json(e, &one);
    if (event_from_json(one.data, one.len, arena, &back, &err) < 0)
        abort();
    event_to_json(&back, &two);
    if (one.len != two.len || memcmp(one.data, two.data, one.len) != 0)
        abort();
    buf_free(&one);
    buf_free(&two);
}

static void ask(const struct state *s, const struct event *e)
{
    const struct state_run *run = state_run_open(s);
    if (run && state_run_find(s, run->id) != run)
        abort();
    (void)state_run_latest(s, NULL);
    if (e->run)
        (void)state_run_left(s, e->run);
    for (size_t i = 0; i < s->cell_count; i++) {
        const struct state_cell *c = &s->cells[i];
        if (state_cell_find(s, c->scope, c->step, c->node) != c)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct state *state = state_create();
    struct arena *arena = arena_create();
    const char *at = (const char *)data, *end = at + size;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((stop ? stop : end) - at);
        struct event e;
        struct error err = ERROR_INIT;
        if (event_from_json(at, len, arena, &e, &err) == 0) {
            again(&e, arena);
            state_apply(state, &e);
            ask(state, &e);
        } else if (!err.code) {
            abort(); /* without a reason */
        }
        at += len + 1;
    }
    arena_destroy(arena);
    state_destroy(state);
    return 0;
}
