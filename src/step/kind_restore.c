/*
 * restore: before the launch, sends files that an earlier run fetched to a node that lacks them. The files are in no
 * key, and the step exists even when there is nothing to restore yet, so that a job never makes itself stale.
 */
#include "internal.h"

#include <string.h>

static const struct tree nothing = {.id = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"};

static const struct tree *tree_of(const struct plan_sources *sources, const struct spec *spec,
                                  const struct spec_output *o, uint32_t node)
{
    size_t output = (size_t)(o - spec->outputs);
    const struct tree *tree = sources->restores ? sources->restores[output * spec->nnodes + node] : NULL;
    return tree ? tree : &nothing;
}

/* "restore-2" for "outputs-2", "ROLE:restore-2" for a role's. */
static const char *name_for(struct arena *arena, const struct spec_output *o)
{
    return arena_printf(arena, "%s%srestore%s", o->role ? o->role->name : "", o->role ? ":" : "",
                        strrchr(o->name, '-'));
}

static int restore_plan(struct plan_builder *b, const struct spec *spec, struct error *err)
{
    for (size_t i = 0; i < spec->output_count; i++) {
        const struct spec_output *o = &spec->outputs[i];
        const struct step_choice choice = step_output_choice(spec, o);
        struct arena *arena = plan_arena(b);
        const char *from, *to;
        if (!o->restore || o->in_place || step_chosen_count(b, &choice) == 0)
            continue;
        if (plan_expand(b, &o->from, EXPR_PLAIN, &from, err) < 0 || plan_expand(b, &o->to, EXPR_PLAIN, &to, err) < 0)
            return -1;
        struct plan_step *s = plan_add(b, &step_kind_restore, name_for(arena, o),
                                       arena_printf(arena, "%s to %s, where it is missing", to, from));
        s->item = o;
        s->role = o->role;
        step_on_chosen(b, s, &choice);
        for (uint32_t n = 0; n < spec->nnodes && !s->tree; n++)
            if (s->on[n] && tree_of(plan_sources_of(b), spec, o, n) != &nothing)
                s->tree = tree_of(plan_sources_of(b), spec, o, n);
        plan_input(b, s, "from", from);
        plan_input(b, s, "to", to);
    }
    return 0;
}

/* The folder that has all matches of `from`: the parts before the first wildcard, without the name of a single file. */
static const char *root_of(struct arena *arena, const char *from, const struct tree *tree)
{
    const char *wild = strpbrk(from, "*?["), *slash = strrchr(from, '/');
    if (wild) {
        while (wild > from && wild[-1] != '/')
            wild--;
        return arena_strndup(arena, from, (size_t)(wild - from));
    }
    const char *name = slash ? slash + 1 : from;
    if (*name && tree->count == 1 && str_eq(tree->files[0].path, name))
        return arena_strndup(arena, from, (size_t)(name - from));
    return from;
}

static int restore_sync(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                        struct arena *arena, struct step_sync *ret, struct error *err)
{
    const struct spec_output *o = step->item;
    const struct tree *tree = tree_of(plan->sources, plan->spec, o, bind->node);
    struct step_tree_at at;
    const char *from;
    if (step_expand_node(plan, bind, &o->from, EXPR_PLAIN, arena, &from, err) < 0)
        return -1;
    const char *root = root_of(arena, from, tree);
    step_tree_place(arena, *root ? root : "./", false, tree, &at);
    const char *name = arena_printf(arena, "restore-%s", at.name + strlen("files-"));
    /* All nodes may work in one folder, each with its own tree. */
    if (plan->spec->placement == PLACEMENT_HERE && bind->node > 0)
        name = arena_printf(arena, "%s-%u", name, bind->node);
    *ret = (struct step_sync){
        .tree = tree, .name = step_tree_name(name, at.root, bind->work, arena), .root = at.root, .missing = true};
    return 0;
}

const struct step_kind step_kind_restore = {.name = "restore",
                                            .version = 1,
                                            .phase = PHASE_SETUP,
                                            .restores = true,
                                            .cached = true,
                                            .plan = restore_plan,
                                            .sync = restore_sync};
