/* Actions that wait for the journal. An event is applied to the state at once. An action that must not happen before
 * the event is durable waits here, in the journal's order, until INPUT_DURABLE says that the event is on the disk. */
#include "internal.h"
#include "rules.h"

#include <stdlib.h>

static void push(struct run *r, struct awaited a)
{
    if (r->awaited_end == r->awaited_cap && r->awaited_first > 0) { /* the first entries are done */
        for (size_t i = r->awaited_first; i < r->awaited_end; i++)
            r->awaited[i - r->awaited_first] = r->awaited[i];
        r->awaited_end -= r->awaited_first;
        r->awaited_first = 0;
    }
    if (r->awaited_end == r->awaited_cap) {
        r->awaited_cap = r->awaited_cap ? 2 * r->awaited_cap : 16;
        r->awaited = xreallocarray(r->awaited, r->awaited_cap, sizeof *r->awaited);
    }
    r->awaited[r->awaited_end++] = a;
}

void run_append_then(struct run *r, struct event *e, struct awaited then)
{
    run_append(r, e);
    then.seq = e->seq;
    push(r, then);
}

static void follow(struct run *r, const struct awaited *a)
{
    switch (a->follow) {
    case FOLLOW_SEND:
        for (uint32_t i = 0; i < a->node_count; i++)
            task_release(r, a->step, a->nodes[i], a->seq);
        run_due(r, DUE_END);
        break;
    case FOLLOW_DUE:
        run_due(r, a->due);
        break;
    case FOLLOW_STOP:
        run_stop_all(r);
        break;
    case FOLLOW_CLOSE:
        run_closed(r);
        break;
    case FOLLOW_CONDEMN:
        launch_condemn(a->launch);
        break;
    case FOLLOW_REPLACE:
        if (rules_condemned(a->launch))
            launch_condemn(a->launch);
        lane_replace(&r->lanes[a->node]);
        break;
    case FOLLOW_FAIL:
        rules_lost_for_good(a->launch, a->node, a->words);
        break;
    }
}

void durable_take(struct run *r, uint64_t seq)
{
    while (r->awaited_first < r->awaited_end && r->awaited[r->awaited_first].seq <= seq) {
        const struct awaited a = r->awaited[r->awaited_first++];
        if (r->ending != ENDING_LET_GO || a.follow == FOLLOW_CLOSE)
            follow(r, &a);
        free(a.nodes);
    }
}

void durable_free(struct run *r)
{
    for (size_t i = r->awaited_first; i < r->awaited_end; i++)
        free(r->awaited[i].nodes);
    free(r->awaited);
}
