/* Outputs of `first` where torch itself numbers the nodes: they come from the node of rank 0. Each node is asked for the file
 * that its launcher left there (step/rank0.py); then the one fetches, and the others are looked at for files that stay where
 * they are. Such a step is a task on every node, so that a later controller sees the same; what is kept in memory is only what
 * the nodes have answered. All that follows is done in one pass of the turn, which finds what is to do in the tasks' states. */
#include "fetch.h"
#include "internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define RANK0_TOKEN (UINT64_C(1) << 62) /* of GLOB; below it what is asked for counts up */

enum { LOOK_FILES_MAX = 1000000, NAMES_MAX = 3 };

static const char elsewhere[] = "rank 0 was on another node";

struct look {       /* at what an output would bring from a node */
    uint64_t token; /* 0 = it was not asked on the present connection */
    bool done;
    uint64_t files, sum; /* sum: of what tells these files from others, in any order */
};
struct answer { /* of a node: is the file of rank 0 there? */
    uint64_t token;
    bool done;
    uint64_t mtime_ns; /* 0 = it is not */
};
struct rank0 {
    uint64_t tokens;
    bool known, found; /* found: a node said so, else it is the first that can be asked */
    bool told;
    uint32_t node;
    struct answer *answers; /* per node */
    struct look *looks;     /* [step * node_count + node] */
    bool *said;             /* per step: what lies elsewhere was told */
};

static struct rank0 *rank0_of(struct run *r)
{
    if (!run_launch(r)->rank0) {
        run_launch(r)->rank0 = xcalloc(1, sizeof *run_launch(r)->rank0);
        run_launch(r)->rank0->answers = xcalloc(r->plan->node_count, sizeof *run_launch(r)->rank0->answers);
        run_launch(r)->rank0->looks =
            xcalloc(r->plan->step_count * r->plan->node_count, sizeof *run_launch(r)->rank0->looks);
        run_launch(r)->rank0->said = xcalloc(r->plan->step_count, sizeof *run_launch(r)->rank0->said);
    }
    return run_launch(r)->rank0;
}

void rank0_free(struct run *r)
{
    if (!run_launch(r)->rank0)
        return;
    free(run_launch(r)->rank0->answers);
    free(run_launch(r)->rank0->looks);
    free(run_launch(r)->rank0->said);
    free(run_launch(r)->rank0);
    run_launch(r)->rank0 = NULL;
}

void rank0_changed(struct run *r)
{
    if (run_launch(r)->rank0)
        run_due(r, DUE_RANK0);
}

void rank0_fetch(struct run *r)
{
    rank0_of(r);
    rank0_changed(r);
}

void rank0_lost(struct lane *lane)
{
    struct run *r = lane->run;
    for (size_t i = 0; run_launch(r)->rank0 && i < r->plan->step_count; i++)
        run_launch(r)->rank0->looks[i * r->plan->node_count + lane->index] = (struct look){0};
    if (run_launch(r)->rank0)
        run_launch(r)->rank0->answers[lane->index].token = 0;
    rank0_changed(r);
}

void rank0_forget(struct run *r)
{
    if (!run_launch(r)->rank0)
        return;
    run_launch(r)->rank0->known = run_launch(r)->rank0->found = false;
    memset(run_launch(r)->rank0->answers, 0, r->plan->node_count * sizeof *run_launch(r)->rank0->answers);
    rank0_changed(r);
}

bool rank0_is_elsewhere(const char *tail)
{
    return str_eq(tail, elsewhere);
}

/* ---- which node? ---- */

/* Does what it says count, and is it waited for? Not where nothing is waited for any more. */
static bool takes_part(const struct run *r, uint32_t node)
{
    const struct lane *lane = &r->lanes[node];
    return lane->presence != PRESENCE_GONE && !lane->left_out && (!run_is_stopping(r) || lane_is_ready(lane));
}

/* By what is here already: an output that came from the node, or did not. -1: nothing tells. */
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

static void ask(struct run *r, uint32_t node)
{
    struct answer *a = &run_launch(r)->rank0->answers[node];
    struct arena *arena = arena_create();
    struct step_bind bind = run_bind(r, node);
    bind.launch = lane_launch(&r->lanes[node]);
    a->token = RANK0_TOKEN | ++run_launch(r)->rank0->tokens;
    node_glob(r->lanes[node].node, a->token, step_rank0_path(r->plan->spec, &bind, arena));
    arena_destroy(arena);
}

static void know(struct run *r, uint32_t node, bool found)
{
    run_launch(r)->rank0->known = true;
    run_launch(r)->rank0->found = found;
    run_launch(r)->rank0->node = node;
}

/* All nodes of a rendezvous set or remove their files, so with a fixed number of nodes the first one says it. Of MIN:MAX
 * nodes one that has left may have kept its own: the newest counts. */
static void find_out(struct run *r)
{
    struct rank0 *z = run_launch(r)->rank0;
    bool all = true, fixed = r->plan->spec->distributed.min_nodes == r->plan->spec->distributed.nnodes;
    uint32_t newest = UINT32_MAX, first = UINT32_MAX;
    for (uint32_t n = 0; n < r->plan->node_count && !z->known; n++) {
        struct answer *a = &z->answers[n];
        int told = told_by_journal(r, n);
        if (told > 0)
            know(r, n, true);
        if (told >= 0 || !takes_part(r, n))
            continue;
        first = first == UINT32_MAX ? n : first;
        if (!a->done && !a->token && lane_is_ready(&r->lanes[n]))
            ask(r, n);
        all = all && a->done;
        if (a->done && a->mtime_ns && (newest == UINT32_MAX || a->mtime_ns > z->answers[newest].mtime_ns))
            newest = n;
    }
    if (!z->known && newest != UINT32_MAX && (all || fixed))
        know(r, newest, true);
    else if (!z->known && all && first != UINT32_MAX)
        know(r, first, false);
}

bool rank0_periodic(struct run *r, uint32_t *ret_node)
{
    struct rank0 *z = rank0_of(r);
    if (!z->known) {
        rank0_changed(r);
        return false;
    }
    *ret_node = z->node;
    rank0_forget(r);
    return true;
}

/* ---- what follows ---- */

static void tell(struct run *r)
{
    struct rank0 *z = run_launch(r)->rank0;
    if (z->told || r->stage != STAGE_OUTPUTS)
        return;
    z->told = true;
    if (z->found && z->node != 0)
        run_note(r, z->node, "rank 0 was here: outputs come from this node");
    else if (!z->found && launch_over(run_launch(r)))
        run_note(r, z->node, "outputs come from here: no node says that rank 0 was there");
}

static void fetch(struct run *r, const struct plan_step *step)
{
    struct error err = ERROR_INIT;
    uint32_t node = run_launch(r)->rank0->node;
    if (fetch_lives(&r->lanes[node], step) || fetch_start(r, step, node, false, &err) == 0)
        return;
    task_finish_as(r, step, node, OUTCOME_NOT_STARTED, err.text);
    error_prefix(&err, "step \"%s\"", step->name);
    run_fail(r, RUN_FAILED, &err);
}

/* False: there is nothing to look at. */
static bool look_at(struct run *r, const struct plan_step *step, uint32_t node)
{
    struct look *l = &run_launch(r)->rank0->looks[(size_t)step->id * r->plan->node_count + node];
    struct error ignored = ERROR_INIT; /* said by the node that fetches */
    if (l->token || l->done)
        return true;
    if (!takes_part(r, node) || !lane_is_ready(&r->lanes[node]))
        return false;
    struct arena *arena = arena_create();
    struct step_fetch what = {0};
    struct step_bind bind = run_bind(r, node);
    bind.result_dir = "/";
    bool can = step->kind->fetch(r->plan, step, &bind, arena, &what, &ignored) == 0;
    *l = (struct look){.done = !can};
    if (can) {
        l->token = RANK0_TOKEN | ++run_launch(r)->rank0->tokens;
        node_glob(r->lanes[node].node, l->token, what.from);
    }
    arena_destroy(arena);
    return true;
}

/* Where nodes share a folder, the same files are no others. */
static bool has_others(struct run *r, const struct plan_step *step, uint32_t node)
{
    const struct look *looks = &run_launch(r)->rank0->looks[(size_t)step->id * r->plan->node_count];
    const struct look *l = &looks[node], *here = &looks[run_launch(r)->rank0->node];
    return node != run_launch(r)->rank0->node && l->done && l->files > 0 && here->done &&
           (l->files != here->files || l->sum != here->sum);
}

static void say_others(struct run *r, const struct plan_step *step)
{
    const struct spec_output *o = step->item;
    const struct look *here =
        &run_launch(r)->rank0->looks[(size_t)step->id * r->plan->node_count + run_launch(r)->rank0->node];
    struct buf names = {0};
    uint32_t count = 0;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (has_others(r, step, n) && count++ < NAMES_MAX)
            buf_printf(&names, "%s\"%s\" (%" PRIu64 ")", count > 1 ? ", " : "", r->lanes[n].name,
                       run_launch(r)->rank0->looks[(size_t)step->id * r->plan->node_count + n].files);
    if (count > NAMES_MAX)
        buf_printf(&names, " and %u more", count - NAMES_MAX);
    if (count > 0)
        run_note(
            r, EVENT_NODE_NONE,
            "%s: files of \"%s\" are %son %s, and were not fetched: `nodes: all` fetches them, into a folder for each",
            step->name, o->from.text, here->files > 0 ? "also " : "", names.data);
    buf_free(&names);
}

/* A step ends on the other nodes once it has on its own: what lies there is told before the journal has it as done. */
static void advance(struct run *r, const struct plan_step *step)
{
    struct rank0 *z = run_launch(r)->rank0;
    struct run_task *own = run_task(r, step, z->node);
    bool waits = false, any = false;
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        struct run_task *t = run_task(r, step, n);
        any = any || t->state == TASK_RUNNING;
        if ((t->state == TASK_RUNNING || n == z->node) && look_at(r, step, n))
            waits = waits || !z->looks[(size_t)step->id * r->plan->node_count + n].done;
    }
    if (!any)
        return;
    if (own->state == TASK_RUNNING && lane_is_ready(&r->lanes[z->node]))
        fetch(r, step);
    if (waits || task_in_flight(own))
        return;
    if (!z->said[step->id])
        say_others(r, step);
    z->said[step->id] = true;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (n != z->node && run_task(r, step, n)->state == TASK_RUNNING)
            task_finish_as(r, step, n, OUTCOME_OK, elsewhere);
}

void rank0_pass(struct run *r)
{
    bool wanted = r->stage == STAGE_LAUNCH;
    for (size_t i = 0; i < r->plan->step_count * r->plan->node_count && !wanted; i++)
        wanted = r->plan->steps[i / r->plan->node_count].at_rank0 && task_in_flight(&r->tasks[i]);
    if (!run_launch(r)->rank0 || !wanted || r->ending == ENDING_LET_GO || r->stage >= STAGE_CLOSING)
        return;
    if (!run_launch(r)->rank0->known)
        find_out(r);
    if (!run_launch(r)->rank0->known || r->stage != STAGE_OUTPUTS)
        return;
    tell(r);
    for (size_t i = 0; i < r->plan->step_count; i++)
        if (r->plan->steps[i].at_rank0)
            advance(r, &r->plan->steps[i]);
}

/* ---- answers ---- */

static uint64_t mix(uint64_t h, uint64_t v)
{
    for (int i = 0; i < 8; i++, v >>= 8)
        h = (h ^ (v & 0xff)) * UINT64_C(0x100000001b3);
    return h;
}

static uint64_t file_sum(const struct wire_entry *e)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (const char *p = e->path; *p; p++)
        h = mix(h, (unsigned char)*p);
    return mix(mix(mix(h, e->size), e->mtime_ns), e->inode);
}

static void take_look(struct look *l, const struct wire_entries *e)
{
    for (uint32_t i = 0; i < e->entry_count; i++) {
        if (S_ISDIR(e->entries[i].mode))
            continue;
        l->files++;
        l->sum += file_sum(&e->entries[i]);
    }
    l->done = e->last || e->error[0] || l->files > LOOK_FILES_MAX;
}

bool rank0_entries(struct lane *lane, const struct wire_entries *e)
{
    struct run *r = lane->run;
    if (!(e->token & RANK0_TOKEN))
        return false;
    for (size_t i = 0; run_launch(r)->rank0 && i < r->plan->step_count; i++) {
        struct look *l = &run_launch(r)->rank0->looks[i * r->plan->node_count + lane->index];
        if (l->token == e->token && !l->done)
            take_look(l, e);
    }
    struct answer *a = run_launch(r)->rank0 ? &run_launch(r)->rank0->answers[lane->index] : NULL;
    if (a && a->token == e->token && !a->done) {
        for (uint32_t i = 0; i < e->entry_count; i++)
            if (S_ISREG(e->entries[i].mode))
                a->mtime_ns = e->entries[i].mtime_ns ? e->entries[i].mtime_ns : 1;
        a->done = e->last || e->error[0];
    }
    rank0_changed(r);
    return true;
}
