/*
 * Which earlier steps make a file of the working directory that the tree lacks: `files`, `copy` and `git` by their
 * targets, `run` by `creates`, or any of these if only the node knows. A step that reads the file chains to them, so it
 * runs again when they do.
 */
#include "internal.h"

#include <string.h>

static bool is_relative(const char *path)
{
    return path && !strchr("/~@", *path) && !strstr(path, "${{");
}

static bool tree_has(const struct plan_step *e, const char *path, bool folder, struct arena *arena)
{
    if (!e->tree_root || !is_relative(e->tree_root))
        return false;
    for (size_t i = 0; e->tree && i < e->tree->count; i++) {
        const char *name = e->tree->files[i].path;
        const char *full = *e->tree_root ? arena_printf(arena, "%s/%s", e->tree_root, name) : name;
        if (folder ? spec_path_covers(path, full) : spec_path_covers(full, path))
            return true;
    }
    return false;
}

/* Whether the step puts a file, or something below a folder, at path. */
static bool brings(const struct plan_step *e, const char *path, bool folder, struct arena *arena)
{
    size_t len = e->creates ? strlen(e->creates) : 0;
    switch (e->kind->brings) {
    case BRINGS_NOTHING:
        return false;
    case BRINGS_TREE:
        return tree_has(e, path, folder, arena);
    case BRINGS_CLONE: /* TO/.git */
        return len > 5 && is_relative(e->creates) && spec_path_covers(arena_strndup(arena, e->creates, len - 5), path);
    case BRINGS_ANY:
        return is_relative(e->creates) && spec_path_covers(e->creates, path);
    }
    return false;
}

static void add(struct plan_builder *b, struct step_bringers *list, const struct plan_step *e)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i] == e)
            return;
    const struct plan_step **items = arena_array(plan_arena(b), list->count + 1, sizeof(struct plan_step *));
    if (list->count)
        memcpy(items, list->items, list->count * sizeof *items);
    items[list->count++] = e;
    list->items = items;
}

static bool is_found(const struct plan_step *e, const struct spec_role *role)
{
    return !e->role || e->role == role;
}

bool step_find_bringers(struct plan_builder *b, const struct plan_step *s, const struct spec_role *role,
                        const char *path, bool folder, struct step_bringers *list)
{
    const struct plan_step *e;
    bool any = false;
    for (size_t i = 0; (e = plan_at(b, i)); i++)
        if (e != s && is_found(e, role) && brings(e, path, folder, plan_arena(b))) {
            add(b, list, e);
            any = true;
        }
    return any;
}

bool step_find_runs(struct plan_builder *b, const struct spec *spec, const struct spec_role *role,
                    struct step_bringers *list)
{
    const struct plan_step *e;
    bool any = false;
    /* In place, files that they made exist in the next run too: without `creates` nothing would distinguish them from
     * sources. */
    for (size_t i = 0; !spec_in_place(spec) && (e = plan_at(b, i)); i++)
        if (is_found(e, role) && e->kind->brings == BRINGS_ANY) {
            add(b, list, e);
            any = true;
        }
    return any;
}

void step_input_bringers(struct plan_builder *b, struct plan_step *s, const struct step_bringers *list)
{
    for (size_t i = 0; i < list->count; i++)
        plan_input_after(b, s, list->items[i]);
}
