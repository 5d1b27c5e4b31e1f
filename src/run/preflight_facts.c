/* Checks the nodes themselves: their clocks, disks and GPUs. */
#include "preflight.h"

#include <stdlib.h>
#include <string.h>

/* ---- clocks ---- */

void preflight_ask_clocks(struct launch *l)
{
    struct run *r = l->run;
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        if (preflight_spec(r)->no_clocks || !preflight_several(r) || !preflight_asks(l, n))
            continue;
        preflight_of(l)->asked[n].pinged_ns = mono_ns();
        node_ping(lane_hands(&r->lanes[n])->node, preflight_token(l, 0));
        preflight_of(l)->left++;
    }
}

static int by_clock(const void *a, const void *b)
{
    int64_t x = (*(const struct asked *const *)a)->clock_ms, y = (*(const struct asked *const *)b)->clock_ms;
    return (x > y) - (x < y);
}

/* Only the certain part of the difference between two clocks counts. The finding is for clocks that are far from the
 * median. */
static void check_clocks(struct launch *l)
{
    struct run *r = l->run;
    struct preflight *p = preflight_of(l);
    uint64_t given = preflight_spec(r)->clocks_ms;
    int64_t bound = given ? (int64_t)given : CLOCKS_MS;
    const struct asked **all = arena_array(p->arena, r->plan->node_count, sizeof *all);
    uint32_t count = 0;
    for (uint32_t n = 0; n < r->plan->node_count; n++)
        if (p->asked[n].clock_known)
            all[count++] = &p->asked[n];
    if (count < 2)
        return;
    qsort(all, count, sizeof *all, by_clock);
    const struct asked *slow = all[0], *fast = all[count - 1];
    int64_t middle = all[(count - 1) / 2]->clock_ms, apart = fast->clock_ms - slow->clock_ms;
    if (apart - slow->unsure_ms - fast->unsure_ms <= bound)
        return;
    bool *off = preflight_nodes(l);
    for (uint32_t i = 0; i < count; i++)
        off[all[i] - p->asked] = llabs(all[i]->clock_ms - middle) > bound / 2;
    preflight_find(l, "clocks", given ? ERROR_INFRA : ERROR_NONE, off, "set them: timedatectl set-ntp true",
                   "the clock of %s is %.*f s behind that of %s", preflight_name(l, (uint32_t)(slow - p->asked)),
                   apart < 1000 ? 3 : 1, (double)apart / 1000, preflight_name(l, (uint32_t)(fast - p->asked)));
}

/* ---- disks ---- */

static void check_disks(struct launch *l)
{
    struct run *r = l->run;
    uint64_t given = preflight_spec(r)->disk_bytes, least = UINT64_MAX;
    bool *low = preflight_nodes(l);
    const char *dir = NULL, *asked = "";
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        const struct wire_facts *f = r->lanes[n].facts;
        if (!f || !preflight_asks(l, n) || f->disk_free_bytes >= (given ? given : DISK_BYTES))
            continue;
        low[n] = true;
        if (f->disk_free_bytes < least)
            dir = f->base_dir;
        least = f->disk_free_bytes < least ? f->disk_free_bytes : least;
    }
    if (given)
        asked = arena_printf(preflight_of(l)->arena, ", and preflight.disk asks for %.10g GB", (double)given / 1e9);
    if (dir)
        preflight_find(l, "disk", given ? ERROR_INFRA : ERROR_NONE, low, "make room there",
                       "only %.2f GB are free at %s on %s%s", (double)least / 1e9, dir, preflight_names(l, low), asked);
}

/* ---- GPUs ---- */

static bool counts_gpus(const struct spec *spec, uint32_t node)
{
    const struct spec_nproc *n = spec_nproc(spec, node);
    return n->kind == NPROC_GPU || n->kind == NPROC_AUTO;
}

/* "535.129.03", taken from the version text of NVIDIA's driver. */
static const char *driver_version(const char *line, struct arena *arena)
{
    for (const char *p = line; *p; p += strspn(p, " \t")) {
        size_t len = strcspn(p, " \t"), digits = strspn(p, "0123456789");
        if (digits > 0 && p[digits] == '.')
            return arena_strndup(arena, p, len);
        p += len;
    }
    return arena_strdup(arena, line);
}

static void compare_gpus(struct launch *l)
{
    struct run *r = l->run;
    struct arena *arena = preflight_of(l)->arena;
    uint32_t nodes = r->plan->node_count;
    const char **counts = arena_array(arena, nodes, sizeof *counts);
    const char **models = arena_array(arena, nodes, sizeof *models);
    const char **drivers = arena_array(arena, nodes, sizeof *drivers);
    for (uint32_t n = 0; n < nodes; n++) {
        const struct wire_facts *f = r->lanes[n].facts;
        if (!f || !preflight_asks(l, n))
            continue;
        if (counts_gpus(r->plan->spec, n))
            counts[n] = arena_printf(arena, "%u", f->gpu_count);
        if (f->gpu_count > 0 && *f->gpus)
            models[n] = arena_strndup(arena, f->gpus, strcspn(f->gpus, "\n"));
        if (f->gpu_count > 0 && *f->gpu_driver)
            drivers[n] = driver_version(f->gpu_driver, arena);
    }
    const struct preflight_thing things[] = {
        {.what = "gpus",
         .thing = "the number of GPUs is",
         .cure = "the workers are spread unevenly; nproc_per_node of a host gives another number",
         .values = counts},
        {.what = "gpus",
         .thing = "the GPUs are",
         .cure = "the slowest sets the pace; launch on nodes that are alike",
         .values = models},
        {.what = "gpus", .thing = "the GPU driver is", .cure = "install one on all nodes", .values = drivers}};
    for (size_t i = 0; i < ARRAY_LEN(things); i++)
        preflight_compare(l, &things[i]);
}

/* More workers than GPUs: either that is on purpose, or the last workers will find no GPU. */
static void check_gpu_workers(struct launch *l)
{
    struct run *r = l->run;
    const struct spec *spec = r->plan->spec;
    bool *none = preflight_nodes(l), *few = preflight_nodes(l), any_none = false;
    uint32_t first = UINT32_MAX;
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        const struct wire_facts *f = r->lanes[n].facts;
        const struct spec_devices *devices = spec_devices(spec, n);
        if (!f || !preflight_asks(l, n))
            continue;
        if (devices->list && f->gpu_count == 0)
            none[n] = any_none = true;
        few[n] = f->gpu_count > 0 && r->plan->nproc[n] > (devices->list ? devices->count : f->gpu_count) &&
                 spec->role_count == 0;
        first = few[n] && first == UINT32_MAX ? n : first;
    }
    if (any_none)
        preflight_find(l, "gpus", ERROR_NONE, none, "nvidia-smi -L there lists them; without any, leave devices out",
                       "devices names GPUs, and no NVIDIA GPU was found on %s", preflight_names(l, none));
    if (first == UINT32_MAX)
        return;
    const struct spec_devices *devices = spec_devices(spec, first);
    preflight_find(l, "gpus", ERROR_NONE, few, "nproc_per_node: gpu takes one for each GPU",
                   "%u workers are to start where they see %u GPUs: %s", r->plan->nproc[first],
                   devices->list ? devices->count : r->lanes[first].facts->gpu_count, preflight_names(l, few));
}

/* Finds the faults for which a run refuses a node as soon as it has sent its facts. */
static void check_workers(struct launch *l)
{
    struct run *r = l->run;
    for (uint32_t n = 0; n < r->plan->node_count; n++) {
        const struct wire_facts *f = r->lanes[n].facts;
        struct error err = ERROR_INIT;
        if (!f || !preflight_asks(l, n))
            continue;
        bool *nodes = preflight_nodes(l);
        nodes[n] = true;
        const struct plan_facts facts = {true, f->cpus, f->gpu_count};
        if (plan_check_node(r->plan, n, &facts, &err) < 0)
            preflight_find(l, "gpus", ERROR_JOB, nodes, *err.hint ? err.hint : "nvidia-smi -L there lists its GPUs",
                           "%s", err.text);
        err = (struct error)ERROR_INIT;
        if (!machines_add(r, n, &err))
            preflight_find(l, "machines", ERROR_INFRA, nodes, err.hint, "%s", err.text);
    }
}

void preflight_check_facts(struct launch *l)
{
    struct run *r = l->run;
    const struct spec_preflight *w = preflight_spec(r);
    if (r->options.mode == RUN_LOOK)
        check_workers(l);
    if (!w->no_clocks)
        check_clocks(l);
    if (!w->no_disk)
        check_disks(l);
    if (w->no_gpus)
        return;
    if (preflight_several(r))
        compare_gpus(l);
    check_gpu_workers(l);
}
