/* Keys that a job with a sweep cannot have, because each point is a separate launch on one node. */
#include "internal.h"

#include <string.h>

static void refuse(struct load *l, const struct doc_node *node, const char *what, const char *hint)
{
    if (!node)
        return;
    struct diagnostic *d =
        fault(l, place_of(node), "a job with a sweep cannot have %s: each point is a launch of its own", what);
    if (hint)
        diagnostic_hint(d, "%s", hint);
}

static void refuse_outputs(struct load *l)
{
    const struct doc_node *outputs = doc_get(l->root, "outputs");
    for (size_t i = 0; outputs && outputs->type == DOC_ARRAY && i < outputs->count; i++) {
        const struct doc_node *item = is_object(outputs->items[i]) ? outputs->items[i] : NULL;
        const struct doc_node *every = item ? doc_get(item, "every") : NULL;
        if (every && strcmp(every->text ? every->text : "", "0") != 0)
            refuse(l, every, "`every`", "the files of a point are fetched when it has ended");
        const struct doc_node *restore = item ? doc_get(item, "restore") : NULL;
        if (restore && strcmp(restore->text ? restore->text : "", "true") == 0)
            refuse(l, restore, "`restore`", NULL);
    }
}

/* Points on several nodes. */
static void refuse_parts(struct load *l)
{
    const struct spec *spec = l->spec;
    const struct spec_distributed *d = &spec->distributed;
    const struct doc_node *sweep = doc_get(l->root, "sweep"),
                          *per_node = is_object(sweep) ? doc_get(sweep, "per_node") : NULL;
    if (!l->nnodes || !spec->sweep || !d->present)
        return;
    if (d->min_nodes && d->min_nodes != d->nnodes)
        refuse(l, l->nnodes, "nnodes MIN:MAX", "nnodes: N gives each point that many nodes");
    if (d->nnodes <= 1)
        return;
    if (per_node && (spec->sweep->place == SWEEP_GPUS || spec->sweep->per_node != 1)) {
        struct diagnostic *diag =
            fault(l, place_of(per_node), "per_node is for points on one node, and nnodes gives each %u", d->nnodes);
        diagnostic_hint(diag, "leave per_node out: such a point has its nodes to itself; or leave nnodes out");
        note(l, place_of(l->nnodes), "nnodes is here");
    }
    if (d->launcher == LAUNCHER_MPIRUN && spec->placement == PLACEMENT_HERE)
        diagnostic_hint(fault(l, place_of(l->nnodes),
                              "launcher mpirun starts once on this machine, and nnodes gives each point %u nodes of it",
                              d->nnodes),
                        "nproc_per_node alone says how many workers a point has here");
    for (size_t i = 0; i < spec->output_count && spec_rank0_anywhere(d); i++)
        if (spec->outputs[i].on == ON_FIRST) {
            diagnostic_hint(fault(l, place_of(l->nnodes),
                                  "an output comes from the node of rank 0, and with this rdzv_backend torch decides "
                                  "which of a point's nodes that is"),
                            "rdzv_backend: static, or nodes: all");
            return;
        }
}

void sweep_refuse(struct load *l)
{
    const struct doc_node *entry = doc_get(l->root, "entrypoint");
    if (!doc_get(l->root, "sweep"))
        return;
    refuse(l, doc_get(l->root, "roles"), "roles", NULL);
    refuse(l, doc_get(l->root, "failure_rules"), "failure_rules",
           "distributed.max_restarts says how often a point is tried again");
    if (is_object(entry)) {
        refuse(l, doc_get(entry, "prolog"), "a prolog",
               "setup is done once on each node; `run` may begin with the rest");
        refuse(l, doc_get(entry, "epilog"), "an epilog", NULL);
    }
    refuse_parts(l);
    refuse_outputs(l);
}
