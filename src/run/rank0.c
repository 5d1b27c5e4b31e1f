/* Questions to nodes about outputs that come from the node of rank 0 (src/core/rank0.c): whether they have the file
 * that the launcher leaves on that node (step/rank0.py), and which files an output would fetch from them. An answer may
 * come in several frames; its entries are added up until the last frame has come. */
#include "trace.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define RANK0_TOKEN (UINT64_C(1) << 62) /* of a GLOB; the lower bits are the question's token */

enum { LOOK_FILES_MAX = 1000000 };

struct look {
    struct look *next;
    struct lane *lane;
    const struct plan_step *step; /* the step in question; NULL: the question is whether rank 0 was there */
    uint64_t token;
    uint64_t files, sum; /* sum: a digest that tells these files from others, in any order */
    uint64_t mtime_ns;
    struct loop_timer *soon; /* answers in the next turn if the node cannot be asked; else NULL */
};

static struct look *add(struct lane *lane, const struct plan_step *step, uint64_t token)
{
    struct look *at = xcalloc(1, sizeof *at);
    *at = (struct look){.next = lane_hands(lane)->looks, .lane = lane, .step = step, .token = token};
    lane_hands(lane)->looks = at;
    return at;
}

void rank0_ask(struct lane *lane, uint64_t token)
{
    struct arena *arena = arena_create();
    struct step_bind bind = run_bind(lane->run, run_launch(lane->run), lane->index);
    bind.launch = lane_launch(lane);
    add(lane, NULL, token);
    node_glob(lane_hands(lane)->node, RANK0_TOKEN | token, step_rank0_path(lane->run->plan->spec, &bind, arena));
    arena_destroy(arena);
}

static void free_look(struct look *at)
{
    for (struct look **p = &lane_hands(at->lane)->looks; *p; p = &(*p)->next)
        if (*p == at) {
            *p = at->next;
            break;
        }
    loop_timer_destroy(at->soon);
    free(at);
}

/* The question is answered: gives the answer to the core. */
static void answer(void *arg)
{
    struct look *at = arg;
    struct run *r = at->lane->run;
    const struct input in = {.kind = at->step ? INPUT_LOOKED : INPUT_RANK0,
                             .node = at->lane->index,
                             .step = at->step,
                             .token = at->token,
                             .files = at->files,
                             .sum = at->sum,
                             .at_ns = at->mtime_ns};
    free_look(at);
    trace_input(r, &in);
    core_take(r, &in);
}

void rank0_look(struct lane *lane, const struct plan_step *step, uint64_t token)
{
    struct run *r = lane->run;
    struct error ignored = ERROR_INIT; /* the node that fetches reports it */
    struct step_fetch what = {0};
    struct arena *arena = arena_create();
    struct step_bind bind = run_bind(r, launch_of(r, step), lane->index);
    bind.result_dir = "/";
    struct look *at = add(lane, step, token);
    if (step->kind->fetch(r->plan, step, &bind, arena, &what, &ignored) == 0)
        node_glob(lane_hands(lane)->node, RANK0_TOKEN | token, what.from);
    else
        loop_timer_start(at->soon = loop_timer_create(r->hands->session->loop, answer, at), 0);
    arena_destroy(arena);
}

void rank0_drop(struct lane *lane)
{
    while (lane_hands(lane)->looks)
        free_look(lane_hands(lane)->looks);
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

static void take_entry(struct look *at, const struct wire_entry *e)
{
    if (!at->step && S_ISREG(e->mode))
        at->mtime_ns = e->mtime_ns ? e->mtime_ns : 1;
    if (!at->step || S_ISDIR(e->mode))
        return;
    at->files++;
    at->sum += file_sum(e);
}

bool rank0_entries(struct lane *lane, const struct wire_entries *e)
{
    struct look *at = lane_hands(lane)->looks;
    if (!(e->token & RANK0_TOKEN))
        return false;
    while (at && (RANK0_TOKEN | at->token) != e->token)
        at = at->next;
    for (uint32_t i = 0; at && i < e->entry_count; i++)
        take_entry(at, &e->entries[i]);
    if (at && (e->last || e->error[0] || at->files > LOOK_FILES_MAX))
        answer(at);
    return true;
}
