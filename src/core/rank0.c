/* Outputs with `nodes: first` when torch itself numbers the nodes: they come from the node of rank 0. Each node is
 * asked for the file that its launcher left there (step/rank0.py). Then that one node fetches, and the others are asked
 * which files they have: those files stay where they are. Such a step is a task on every node, so that a later
 * controller sees the same; only the nodes' answers are kept in memory alone. All decisions are made in one pass of the
 * turn, which finds the next action in the tasks' states. */
#include "internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_MAX = 3 };

static const char elsewhere[] = "rank 0 was on another node";

struct look {       /* the files that an output would fetch from a node */
    uint64_t token; /* 0 = the node was not asked on its present connection */
    bool done;
    uint64_t files, sum; /* sum: a digest that tells these files from others, in any order */
};
struct answer { /* a node's answer: whether it has the file of rank 0 */
    uint64_t token;
    bool done;
    uint64_t mtime_ns; /* when that file was last changed; 0 = it has none */
};
struct rank0 {
    uint64_t tokens;
    bool known, found; /* found: a node has the file; else `node` is the first one that can be asked */
    bool told;
    uint32_t node;
    struct answer *answers; /* per node */
    struct look *looks;     /* [step * node_count + node] */
    bool *said;             /* per step: the user was told which files are on other nodes */
};

static struct rank0 *rank0_of(struct launch *l)
{
    struct run *r = l->run;
    if (!l->rank0) {
        l->rank0 = xcalloc(1, sizeof *l->rank0);
        l->rank0->answers = xcalloc(r->plan->node_count, sizeof *l->rank0->answers);
        l->rank0->looks = xcalloc(r->plan->step_count * r->plan->node_count, sizeof *l->rank0->looks);
        l->rank0->said = xcalloc(r->plan->step_count, sizeof *l->rank0->said);
    }
    return l->rank0;
}

void rank0_free(struct launch *l)
{
    if (!l->rank0)
        return;
    free(l->rank0->answers);
    free(l->rank0->looks);
    free(l->rank0->said);
    free(l->rank0);
    l->rank0 = NULL;
}

void rank0_changed(struct launch *l)
{
    struct run *r = l->run;
    if (l->rank0)
        run_due(r, DUE_RANK0);
}

void rank0_fetch(struct launch *l)
{
    rank0_of(l);
    rank0_changed(l);
}

void rank0_lost(struct launch *l, struct lane *lane)
{
    struct run *r = l->run;
    for (size_t i = 0; l->rank0 && i < r->plan->step_count; i++)
        l->rank0->looks[i * r->plan->node_count + lane->index] = (struct look){0};
    if (l->rank0)
        l->rank0->answers[lane->index].token = 0;
    rank0_changed(l);
}

void rank0_forget(struct launch *l)
{
    struct run *r = l->run;
    if (!l->rank0)
        return;
    l->rank0->known = l->rank0->found = false;
    memset(l->rank0->answers, 0, r->plan->node_count * sizeof *l->rank0->answers);
    rank0_changed(l);
}

bool rank0_is_elsewhere(const char *tail)
{
    return str_eq(tail, elsewhere);
}

/* ---- which node had rank 0 ---- */

/* Whether the node's answer counts, so that the run waits for it. A run that is being stopped does not wait for a node
 * that is away. */
static bool takes_part(const struct run *r, uint32_t node)
{
    const struct lane *lane = &r->lanes[node];
    return lane->presence != PRESENCE_GONE && !lane->left_out && (!run_is_stopping(r) || lane_is_ready(lane));
}

/* What the fetched outputs show: 1: one came from this node; 0: one came from another node; -1: nothing. */
static int told_by_journal(struct run *r, uint32_t node)
{
    for (size_t i = 0; i < r->plan->step_count; i++) {
        const struct plan_step *step = &r->plan->steps[i];
        if (!step->at_rank0 || run_task(r, step, node)->state != TASK_DONE)
            continue;
        const struct state_cell *c = state_cell_find(r->state, step->scope, step->name, node);
        if (c && c->outcome == OUTCOME_OK)
            return !rank0_is_elsewhere(c->tail);
    }
    return -1;
}

static void ask(struct launch *l, uint32_t node)
{
    struct answer *a = &l->rank0->answers[node];
    a->token = ++l->rank0->tokens;
    run_effect(l->run, &(struct effect){.kind = EFFECT_ASK_RANK0, .node = node, .token = a->token});
}

static void know(struct launch *l, uint32_t node, bool found)
{
    l->rank0->known = true;
    l->rank0->found = found;
    l->rank0->node = node;
}

/* In each rendezvous every node makes or removes its file. So with a fixed number of nodes the first file that is found
 * decides. With MIN:MAX nodes a node that has left may have kept its file, so the newest file counts. */
static void find_out(struct launch *l)
{
    struct run *r = l->run;
    struct rank0 *z = l->rank0;
    bool all = true, fixed = r->plan->spec->distributed.min_nodes == r->plan->spec->distributed.nnodes;
    uint32_t newest = UINT32_MAX, first = UINT32_MAX;
    for (uint32_t n = 0; n < r->plan->node_count && !z->known; n++) {
        struct answer *a = &z->answers[n];
        int told = told_by_journal(r, n);
        if (told > 0)
            know(l, n, true);
        if (told >= 0 || !takes_part(r, n))
            continue;
        first = first == UINT32_MAX ? n : first;
        if (!a->done && !a->token && lane_is_ready(&r->lanes[n]))
            ask(l, n);
        all = all && a->done;
        if (a->done && a->mtime_ns && (newest == UINT32_MAX || a->mtime_ns > z->answers[newest].mtime_ns))
            newest = n;
    }
    if (!z->known && newest != UINT32_MAX && (all || fixed))
        know(l, newest, true);
    else if (!z->known && all && first != UINT32_MAX)
        know(l, first, false);
}

bool rank0_periodic(struct launch *l, uint32_t *ret_node)
{
    struct rank0 *z = rank0_of(l);
    if (!z->known) {
        rank0_changed(l);
        return false;
    }
    *ret_node = z->node;
    rank0_forget(l);
    return true;
}

/* ---- what follows ---- */

static void tell(struct launch *l)
{
    struct run *r = l->run;
    struct rank0 *z = l->rank0;
    if (z->told || r->stage != STAGE_OUTPUTS)
        return;
    z->told = true;
    if (z->found && z->node != 0)
        run_note(r, z->node, "rank 0 was here: outputs come from this node");
    else if (!z->found && launch_over(l))
        run_note(r, z->node, "outputs come from here: no node says that rank 0 was there");
}

/* False: the node cannot be asked. */
static bool look_at(struct launch *l, const struct plan_step *step, uint32_t node)
{
    struct run *r = l->run;
    struct look *at = &l->rank0->looks[(size_t)step->id * r->plan->node_count + node];
    if (at->token || at->done)
        return true;
    if (!takes_part(r, node) || !lane_is_ready(&r->lanes[node]))
        return false;
    at->token = ++l->rank0->tokens;
    run_effect(r, &(struct effect){.kind = EFFECT_LOOK, .node = node, .step = step, .token = at->token});
    return true;
}

/* Whether the node has files that rank 0's node does not have. Nodes that share a folder have the same files. */
static bool has_others(struct launch *l, const struct plan_step *step, uint32_t node)
{
    struct run *r = l->run;
    const struct look *looks = &l->rank0->looks[(size_t)step->id * r->plan->node_count];
    const struct look *at = &looks[node], *here = &looks[l->rank0->node];
    return node != l->rank0->node && at->done && at->files > 0 && here->done &&
           (at->files != here->files || at->sum != here->sum);
}

static void say_others(struct launch *l, const struct plan_step *step)
{
    struct run *r = l->run;
    const struct spec_output *o = step->item;
    const struct look *here = &l->rank0->looks[(size_t)step->id * r->plan->node_count + l->rank0->node];
    struct buf names = {0};
    uint32_t count = 0;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (has_others(l, step, n) && count++ < NAMES_MAX)
            buf_printf(&names, "%s\"%s\" (%" PRIu64 ")", count > 1 ? ", " : "", r->lanes[n].name,
                       l->rank0->looks[(size_t)step->id * r->plan->node_count + n].files);
    if (count > NAMES_MAX)
        buf_printf(&names, " and %u more", count - NAMES_MAX);
    if (count > 0)
        run_note(
            r, EVENT_NODE_NONE,
            "%s: files of \"%s\" are %son %s, and were not fetched: `nodes: all` fetches them, into a folder for each",
            step->name, o->from.text, here->files > 0 ? "also " : "", names.data);
    buf_free(&names);
}

/* When a step has ended on rank 0's node, it ends on the other nodes. Before the journal has the step as done there,
 * the user is told which files are on those nodes. */
static void advance(struct launch *l, const struct plan_step *step)
{
    struct run *r = l->run;
    struct rank0 *z = l->rank0;
    struct run_task *own = run_task(r, step, z->node);
    bool waits = false, any = false;
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        struct run_task *t = run_task(r, step, n);
        any = any || t->state == TASK_RUNNING;
        if ((t->state == TASK_RUNNING || n == z->node) && look_at(l, step, n))
            waits = waits || !z->looks[(size_t)step->id * r->plan->node_count + n].done;
    }
    if (!any)
        return;
    if (own->state == TASK_RUNNING && lane_is_ready(&r->lanes[z->node]) && !own->coming)
        outputs_ask(r, step, z->node, false);
    if (waits || task_in_flight(own))
        return;
    if (!z->said[step->id])
        say_others(l, step);
    z->said[step->id] = true;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (n != z->node && run_task(r, step, n)->state == TASK_RUNNING)
            task_finish_as(r, step, n, OUTCOME_OK, elsewhere);
}

void rank0_pass(struct launch *l)
{
    struct run *r = l->run;
    bool wanted = r->stage == STAGE_LAUNCH;
    for (size_t i = l->first_step * r->plan->node_count; i < l->end_step * r->plan->node_count && !wanted; i++)
        wanted = r->plan->steps[i / r->plan->node_count].at_rank0 && task_in_flight(&r->tasks[i]);
    if (!l->rank0 || !wanted || r->ending == ENDING_LET_GO || r->stage >= STAGE_CLOSING)
        return;
    if (!l->rank0->known)
        find_out(l);
    if (!l->rank0->known || r->stage != STAGE_OUTPUTS)
        return;
    tell(l);
    for (size_t i = 0; i < r->plan->step_count; i++)
        if (r->plan->steps[i].at_rank0)
            advance(l, &r->plan->steps[i]);
}

/* ---- answers; an answer that is no longer awaited is ignored ---- */

void rank0_told(struct launch *l, uint32_t node, uint64_t token, uint64_t at_ns)
{
    struct answer *a = l->rank0 ? &l->rank0->answers[node] : NULL;
    if (!a || a->token != token || a->done)
        return;
    a->mtime_ns = at_ns;
    a->done = true;
    rank0_changed(l);
}

void rank0_looked(struct launch *l, const struct plan_step *step, uint32_t node, const struct input *in)
{
    struct look *at = l->rank0 ? &l->rank0->looks[(size_t)step->id * l->run->plan->node_count + node] : NULL;
    if (!at || at->token != in->token || at->done)
        return;
    at->files = in->files;
    at->sum = in->sum;
    at->done = true;
    rank0_changed(l);
}
