/* files and copy: single files or folders that are sent to other places on a node: `files` before activate, `copy`
 * items in their order among the set-up. */
#include "internal.h"

#include <string.h>
#include <sys/stat.h>

struct bring { /* what the two have in common */
    const struct step_kind *kind;
    const char *name;
    const struct spec_source *source;
    const struct spec_text *to;
    const struct tree *tree;
};

struct brought { /* item of the step */
    const struct spec_text *to;
    const struct tree *tree;
    bool is_file;
};

static const char *source_text(struct plan_builder *b, const struct spec_source *source)
{
    const char *text = source->path;
    struct error ignored = ERROR_INIT;
    if (!text && plan_expand(b, &source->url, EXPR_PLAIN, &text, &ignored) < 0)
        text = source->url.text;
    return text;
}

static bool is_taken(struct plan_builder *b, const char *name, const struct tree *tree)
{
    const struct plan_step *s;
    for (size_t i = 0; (s = plan_at(b, i)); i++)
        if (str_eq(s->tree_name, name) && !str_eq(s->tree ? s->tree->id : NULL, tree ? tree->id : NULL))
            return true;
    return false;
}

/* Two trees with the same place get different names: a tree with the other's name would remove the other's files. */
static const char *free_name(struct plan_builder *b, const char *name, const struct tree *tree)
{
    const char *ret = name;
    for (unsigned n = 2; is_taken(b, ret, tree); n++)
        ret = arena_printf(plan_arena(b), "%s-%u", name, n);
    return ret;
}

static struct plan_step *bring(struct plan_builder *b, const struct bring *in, struct error *err)
{
    struct arena *arena = plan_arena(b);
    struct step_tree_at at;
    struct stat st;
    const char *to;
    if (plan_expand(b, in->to, EXPR_PLAIN, &to, err) < 0)
        return NULL;
    struct brought *item = arena_alloc(arena, sizeof *item);
    *item = (struct brought){in->to, in->tree, false};
    item->is_file = in->source->path && stat(in->source->path, &st) == 0 && !S_ISDIR(st.st_mode);
    step_tree_place(arena, to, item->is_file, in->tree, &at);
    const char *title =
        arena_printf(arena, "%s to %s: %s", source_text(b, in->source), to, step_tree_title(arena, in->tree));
    const char *name = free_name(b, at.name, at.tree);
    struct plan_step *s = plan_add(b, in->kind, in->name, title);
    s->item = item;
    s->tree = at.tree;
    s->tree_name = name;
    s->tree_root = strstr(to, "${{") ? NULL : at.root; /* if it has a node's name, only the node knows it */
    step_shares(b, s, to);
    plan_input(b, s, "to", to);
    plan_input(b, s, "tree", in->tree ? in->tree->id : "none");
    return s;
}

static int files_plan(struct plan_builder *b, const struct spec *spec, struct error *err)
{
    const struct plan_sources *sources = plan_sources_of(b);
    for (size_t i = 0; i < spec->file_count; i++) {
        const struct spec_file *f = &spec->files[i];
        const struct step_choice everywhere = {f->role, GROUP_FILES, ON_ALL, NULL, 0};
        struct bring in = {&step_kind_files, f->name, &f->source, &f->to, sources->files ? sources->files[i] : NULL};
        if (step_chosen_count(b, &everywhere) == 0)
            continue;
        struct plan_step *s = bring(b, &in, err);
        if (!s)
            return -1;
        s->role = f->role;
        step_on_chosen(b, s, &everywhere);
    }
    return 0;
}

int step_copy_plan(struct plan_builder *b, const struct spec *spec, const struct spec_step *item, struct error *err)
{
    const struct plan_sources *sources = plan_sources_of(b);
    size_t i = (size_t)(item - spec->setup);
    struct bring in = {&step_kind_copy, item->name, &item->source, &item->to,
                       sources->copies ? sources->copies[i] : NULL};
    struct plan_step *s = bring(b, &in, err);
    if (!s)
        return -1;
    step_item_common(b, s, item);
    return 0;
}

static int files_sync(const struct plan *plan, const struct plan_step *step, const struct step_bind *bind,
                      struct arena *arena, struct step_sync *ret, struct error *err)
{
    const struct brought *item = step->item;
    struct step_tree_at at;
    const char *to;
    if (step->tree_root || !item->tree)
        return step_tree_sync(plan, step, bind, arena, ret, err);
    if (step_expand_node(plan, bind, item->to, EXPR_PLAIN, arena, &to, err) < 0)
        return -1;
    step_tree_place(arena, to, item->is_file, item->tree, &at);
    *ret = (struct step_sync){
        .tree = at.tree, .name = step_tree_name(step->tree_name, at.root, bind->work, arena), .root = at.root};
    return 0;
}

const struct step_kind step_kind_files = {.name = "files",
                                          .version = 1,
                                          .phase = PHASE_SETUP,
                                          .brings = BRINGS_TREE,
                                          .cached = true,
                                          .plan = files_plan,
                                          .sync = files_sync};
const struct step_kind step_kind_copy = {
    .name = "copy", .version = 1, .phase = PHASE_SETUP, .brings = BRINGS_TREE, .cached = true, .sync = files_sync};
