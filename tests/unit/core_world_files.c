/* Outputs of the world's nodes: a fetch is a question and an answer, which says how the fetch ended. */
#include "core_world.h"

#include <stdlib.h>

static uint64_t *number_of(struct world *w, const struct plan_step *step, uint32_t node)
{
    return &w->hands->fetches[(size_t)step->id * w->node_count + node];
}

void world_fetch(struct world *w, const struct effect *e)
{
    uint64_t *number = number_of(w, e->step, e->node);
    *number = ++w->hands->fetch_count; /* in place of an older one */
    world_request(
        w, e->node,
        &(struct world_request){.kind = ASK_FETCH, .step = e->step, .token = *number, .periodic = e->periodic});
}

void world_fetch_stop(struct world *w, const struct effect *e)
{
    *number_of(w, e->step, e->node) = 0;
}

void world_look_for_files(struct world *w, struct world_node *n, const struct world_request *ask)
{
    static const char *const ends[] = {"all files are there", "no file is there", "no file is there, and one has to be",
                                       "it breaks off", "it cannot begin"};
    const enum fetch_end how = w->watch->fetched ? w->watch->fetched(w->arg, n, ask->step, ask->periodic) : FETCH_DONE;
    world_say(w, "  node %u: %s is fetched%s: %s", n->index, ask->step->name, ask->periodic ? " meanwhile" : "",
              ends[how]);
    struct world_answer *a = world_answer(w, n, SAYS_FETCHED);
    if (!a)
        return;
    a->step = ask->step;
    a->token = ask->token;
    a->periodic = ask->periodic;
    a->how = how;
}

void world_fetched(struct world *w, struct world_node *n, const struct world_answer *a)
{
    uint64_t *number = number_of(w, a->step, n->index);
    struct error err = ERROR_INIT;
    if (*number != a->token) /* it was dropped, or replaced by another one */
        return;
    *number = 0;
    if (a->how == FETCH_BROKEN)
        error_set(&err, ERROR_INFRA, "the disk is full");
    else if (a->how != FETCH_DONE)
        error_set(&err, ERROR_JOB, "no file is there");
    core_take(w->hands->run, &(struct input){.kind = INPUT_FETCHED,
                                             .node = n->index,
                                             .step = a->step,
                                             .how = a->how,
                                             .periodic = a->periodic,
                                             .files = a->how == FETCH_DONE,
                                             .bytes = a->how == FETCH_DONE ? 1000 : 0,
                                             .error = &err});
}
