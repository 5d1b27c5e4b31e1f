/* sync: sends the working directory's tree to every node. Later steps chain to its id. */
#include "internal.h"

static int sync_plan(struct plan_builder *b, const struct spec *spec, struct error *err)
{
    const struct plan_sources *sources = plan_sources_of(b);
    const struct tree *tree = sources->workdir;
    struct arena *arena = plan_arena(b);
    (void)err;
    if (!spec->has_workdir)
        return 0;
    const char *title = step_tree_title(arena, tree);
    if (sources->commit)
        title = arena_printf(arena, "%s, commit %.7s", title, sources->commit);
    struct plan_step *s = plan_add(b, &step_kind_sync, "sync", title);
    s->tree = tree;
    s->tree_name = "work";
    s->tree_root = "";
    s->shared = true;
    plan_on_all(b, s);
    plan_input(b, s, "tree", tree ? tree->id : "none");
    return 0;
}

int step_tree_sync(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                   struct arena *arena, struct step_sync *ret, struct error *err)
{
    (void)plan;
    if (!step->tree || !step->tree_root)
        return error_set(err, ERROR_INTERNAL, "its files were not looked at");
    *ret = (struct step_sync){.tree = step->tree,
                              .name = step_tree_name(step->tree_name, step->tree_root, bind->work, arena),
                              .root = step->tree_root};
    return 0;
}

const struct step_kind step_kind_sync = {.name = "sync",
                                         .version = 1,
                                         .phase = PHASE_SETUP,
                                         .is_workdir = true,
                                         .cached = true,
                                         .plan = sync_plan,
                                         .sync = step_tree_sync};
