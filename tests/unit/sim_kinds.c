#include "sim_kinds.h"

#include <string.h>

static const struct sim_kind_lists *now; /* while planning */

/* ---- sync ---- */

static int sync_plan(struct plan_builder *b, const struct spec *spec, struct error *err);
static int sync_sync(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                     struct arena *arena, struct step_sync *ret, struct error *err)
{
    const struct sim_sync_step *s = step->item;
    (void)plan;
    (void)err;
    *ret = (struct step_sync){s->tree, step_tree_name(s->tree_name, s->root, bind->work, arena), s->root, s->missing};
    return 0;
}

static const struct step_kind sync_kind = {
    .name = "bring", .version = 1, .phase = PHASE_SETUP, .cached = true, .plan = sync_plan, .sync = sync_sync};

static int sync_plan(struct plan_builder *b, const struct spec *spec, struct error *err)
{
    (void)spec;
    (void)err;
    for (size_t i = 0; i < SIM_KINDS_MAX && now->syncs[i].name; i++) {
        const struct sim_sync_step *s = &now->syncs[i];
        struct plan_step *step = plan_add(b, &sync_kind, s->name, s->name);
        step->item = s;
        step->tree = s->tree;
        step->tree_name = s->missing ? NULL : s->tree_name;
        step->tree_root = s->root;
        step->shared = !s->own;
        plan_on_all(b, step);
        plan_input(b, step, "files", s->tree->id);
    }
    return 0;
}

/* ---- install ---- */

static int install_plan(struct plan_builder *b, const struct spec *spec, struct error *err);
static int install_build(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                         struct arena *arena, struct wire_run *run, struct error *err)
{
    static char text[] = "install", empty[] = "";
    (void)plan;
    (void)bind;
    (void)err;
    *run = (struct wire_run){.slot = arena_strdup(arena, step->slot),
                             .kind = WIRE_KIND_STEP,
                             .cwd = empty,
                             .env_in = empty,
                             .env_out = empty,
                             .creates = empty,
                             .path_first = empty,
                             .worker_count = 1};
    run->workers = arena_alloc(arena, sizeof *run->workers);
    run->workers->argv.items = arena_array(arena, 1, sizeof(char *));
    run->workers->argv.items[0] = text;
    run->workers->argv.count = 1;
    return 0;
}

static const struct step_kind install_kind = {.name = "install",
                                              .version = 1,
                                              .phase = PHASE_SETUP,
                                              .cached = true,
                                              .plan = install_plan,
                                              .build = install_build,
                                              .verify = true};

static int install_plan(struct plan_builder *b, const struct spec *spec, struct error *err)
{
    (void)spec;
    (void)err;
    for (size_t i = 0; i < SIM_KINDS_MAX && now->installs[i].name; i++) {
        struct plan_step *step = plan_add(b, &install_kind, now->installs[i].name, now->installs[i].name);
        plan_on_all(b, step);
        plan_input(b, step, "version", arena_printf(plan_arena(b), "%u", now->installs[i].version));
    }
    return 0;
}

/* ---- fetch ---- */

static int fetch_plan(struct plan_builder *b, const struct spec *spec, struct error *err);
static int fetch_fetch(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                       struct arena *arena, struct step_fetch *ret, struct error *err)
{
    const struct sim_fetch_step *f = step->item;
    (void)err;
    *ret = (struct step_fetch){.from = f->from,
                               .to = arena_printf(arena, "%s/%s", f->to, roster_name(plan->roster, bind->node)),
                               .when = f->when,
                               .every_ms = f->every_ms,
                               .required = f->required};
    return 0;
}

static const struct step_kind fetch_kind = {
    .name = "fetch", .version = 1, .phase = PHASE_OUTPUTS, .plan = fetch_plan, .fetch = fetch_fetch};

static int fetch_plan(struct plan_builder *b, const struct spec *spec, struct error *err)
{
    static const uint32_t node_0 = 0;
    (void)spec;
    (void)err;
    for (size_t i = 0; i < SIM_KINDS_MAX && now->fetches[i].name; i++) {
        const struct sim_fetch_step *f = &now->fetches[i];
        struct plan_step *step = plan_add(b, &fetch_kind, f->name, f->name);
        step->item = f;
        if (f->first)
            plan_on_nodes(b, step, &node_0, 1);
        else
            plan_on_all(b, step);
        plan_input(b, step, "from", f->from);
        plan_input(b, step, "to", f->to);
    }
    return 0;
}

const struct step_kind *const *sim_kinds(const struct sim_kind_lists *lists)
{
    static const struct step_kind *all[40];
    size_t n = 0;
    now = lists;
    all[n++] = &sync_kind;
    all[n++] = &install_kind;
    for (size_t i = 0; step_kinds[i] && n < ARRAY_LEN(all) - 2; i++)
        all[n++] = step_kinds[i];
    all[n++] = &fetch_kind;
    all[n] = NULL;
    return all;
}
