/* The rank table: node by node in the order of the slots. */
#include "internal.h"

int nproc_count(const struct plan *plan, uint32_t node, const struct spec_nproc *np, const struct plan_facts *f,
                uint32_t *ret, struct error *err)
{
    const char *name = roster_name(plan->roster, node);
    const struct spec_devices *devices = spec_devices(plan->spec, node);
    uint32_t n = np->count;
    if (np->kind != NPROC_COUNT && (!f || !f->known)) {
        *ret = 0;
        return 0;
    }
    switch (np->kind) {
    case NPROC_COUNT:
        break;
    case NPROC_CPU:
        n = f->cpus;
        break;
    case NPROC_GPU:
        n = devices->list ? devices->count : f->gpus;
        if (f->gpus == 0) {
            error_set(err, ERROR_SPEC, "node \"%s\": nproc_per_node is gpu, and no GPU was found there", name);
            error_hint(err, "nproc_per_node: auto takes GPUs where there are some and CPUs elsewhere");
            return -1;
        }
        break;
    case NPROC_XPU: /* torchrun counts them */
        *ret = 0;
        return 0;
    case NPROC_AUTO:
        n = !f->gpus ? f->cpus : devices->list ? devices->count : f->gpus;
        break;
    }
    if (f && f->known && f->gpus && devices->highest > f->gpus) {
        error_set(err, ERROR_SPEC, "node \"%s\": devices has GPU %u, but there are %u, counted from 0", name,
                  devices->highest - 1, f->gpus);
        return -1;
    }
    if (n == 0 || n > PLAN_NPROC_MAX)
        return error_set(err, ERROR_SPEC, "node \"%s\": %u workers, but 1 to %d are possible on a node", name, n,
                         PLAN_NPROC_MAX);
    *ret = n;
    return 0;
}

static int count_of(const struct plan *plan, uint32_t node, const struct plan_facts *f, uint32_t *ret,
                    struct error *err)
{
    return nproc_count(plan, node, spec_nproc(plan->spec, node), f, ret, err);
}

/* torchrun assigns ranks in the order of nodes if that order is fixed and rhrun sets the number of workers. */
static bool is_ordered(const struct spec *spec)
{
    const struct spec_distributed *d = &spec->distributed;
    const struct spec_text *backend = spec_flag_value(d, "rdzv_backend");
    if (backend && !str_eq(backend->text, "static"))
        return false;
    bool counted = d->nproc.kind == NPROC_COUNT;
    for (size_t i = 0; i < spec->node_count; i++)
        counted = counted && (!spec->nodes[i].has_nproc || spec->nodes[i].nproc.kind == NPROC_COUNT);
    return d->launcher != LAUNCHER_TORCHRUN || counted;
}

int plan_check_node(const struct plan *plan, uint32_t node, const struct plan_facts *facts, struct error *err)
{
    uint32_t count;
    if (plan->spec->role_count > 0)
        return ranks_of_roles_check(plan, node, facts, err);
    return plan->spec->distributed.present ? count_of(plan, node, facts, &count, err) : 0;
}

int plan_bind_ranks(struct plan *plan, const struct plan_facts *facts, struct arena *arena, struct error *err)
{
    if (!plan->spec->distributed.present) { /* one plain process on the first node */
        plan->nproc[0] = 1;
        plan->world_size = plan->worker_count = 1;
        plan->ranks_known = true;
        return 0;
    }
    if (plan->spec->role_count > 0)
        return ranks_of_roles_bind(plan, facts, arena, err);
    uint64_t total = 0;
    bool known = true;
    for (uint32_t i = 0; i < plan->node_count; i++) {
        if (count_of(plan, i, facts ? &facts[i] : NULL, &plan->nproc[i], err) < 0)
            return -1;
        total += plan->nproc[i];
        known = known && plan->nproc[i];
    }
    if (total > PLAN_RANKS_MAX)
        return error_set(err, ERROR_SPEC, "%llu workers, but at most %d are possible in a launch",
                         (unsigned long long)total, PLAN_RANKS_MAX);
    plan->ranks_known = known && is_ordered(plan->spec);
    plan->world_size = plan->worker_count = known ? (uint32_t)total : 0;
    plan->ranks = NULL;
    if (!plan->ranks_known)
        return 0;
    plan->ranks = arena_array(arena, total, sizeof *plan->ranks);
    uint32_t rank = 0;
    for (uint32_t node = 0; node < plan->node_count; node++)
        for (uint32_t local = 0; local < plan->nproc[node]; local++, rank++)
            plan->ranks[rank] = (struct plan_rank){rank, node, local, 0, rank};
    return 0;
}

const char *plan_role_of(const struct plan *plan, uint32_t worker, uint32_t *ret_role_rank)
{
    *ret_role_rank = worker;
    for (size_t i = 0; plan->roles && i < plan->spec->role_count; i++) {
        const struct plan_role *r = &plan->roles[i];
        if (worker < r->worker || worker - r->worker >= r->count)
            continue;
        *ret_role_rank = worker - r->worker;
        return r->name;
    }
    return "default";
}
