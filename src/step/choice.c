/* Where a step runs: the nodes that the spec's `on` and `nodes` name, among those of a role or of the job. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

struct step_choice step_item_choice(const struct spec_step *item)
{
    return (struct step_choice){item->role, GROUP_SETUP, item->on, item->on_nodes, item->on_count};
}

bool step_output_at_rank0(const struct spec *spec, const struct spec_output *o)
{
    return o->on == ON_FIRST && !o->role && spec_rank0_anywhere(&spec->distributed);
}

struct step_choice step_output_choice(const struct spec *spec, const struct spec_output *o)
{
    enum spec_on_kind on = step_output_at_rank0(spec, o) ? ON_ALL : o->on;
    return (struct step_choice){o->role, GROUP_ALL, on, o->on_nodes, o->on_count};
}

/* The nodes to choose from; returns how many. */
static uint32_t find_among(const struct spec *spec, const struct step_choice *choice, bool *ret_on)
{
    if (choice->role || choice->group == GROUP_SETUP)
        return spec_setup_nodes(spec, choice->role, ret_on);
    if (choice->group == GROUP_FILES)
        return spec_file_nodes(spec, NULL, ret_on);
    memset(ret_on, true, spec->nnodes * sizeof *ret_on);
    return spec->nnodes;
}

/* *ret has room for all nodes that it may name. A number without a node stays in: planning reports it. */
static size_t find(const struct spec *spec, const struct step_choice *choice, uint32_t *ret)
{
    CLEANUP(cleanup_free) bool *among = xcalloc(spec->nnodes, sizeof *among);
    size_t count = 0;
    find_among(spec, choice, among);
    for (size_t i = 0; choice->on == ON_LIST && i < choice->count; i++)
        if (choice->nodes[i] >= spec->nnodes || among[choice->nodes[i]])
            ret[count++] = choice->nodes[i];
    for (uint32_t n = 0; choice->on != ON_LIST && n < spec->nnodes; n++)
        if (among[n] && (choice->on == ON_ALL || count == 0))
            ret[count++] = n;
    return count;
}

size_t step_chosen_count(struct plan_builder *b, const struct step_choice *choice)
{
    const struct spec *spec = plan_spec_of(b);
    CLEANUP(cleanup_free) uint32_t *nodes = xcalloc(spec->nnodes + choice->count, sizeof *nodes);
    return find(spec, choice, nodes);
}

void step_on_chosen(struct plan_builder *b, struct plan_step *s, const struct step_choice *choice)
{
    const struct spec *spec = plan_spec_of(b);
    CLEANUP(cleanup_free) uint32_t *nodes = xcalloc(spec->nnodes + choice->count, sizeof *nodes);
    size_t count = find(spec, choice, nodes);
    if (count == spec->nnodes && choice->on == ON_ALL) /* shared by all that run everywhere */
        plan_on_all(b, s);
    else
        plan_on_nodes(b, s, nodes, count);
}

void step_on_launch_nodes(struct plan_builder *b, const struct spec *spec, struct plan_step *s)
{
    static const uint32_t first = 0;
    if (spec->distributed.present)
        plan_on_all(b, s);
    else
        plan_on_nodes(b, s, &first, 1);
}
