/* Where the files of an output are on this machine: fetching, restoring and leaving them out of trees must agree. */
#include "internal.h"

#include <string.h>

/* One part of a path: a node's name may be "user@host:22", and must not lead out of the folder. */
static const char *folder_name(const struct roster *roster, uint32_t nodes, uint32_t node, struct arena *arena)
{
    const char *name = roster_name(roster, node);
    bool shared = false;
    for (uint32_t n = 0; n < nodes && !shared; n++)
        shared = n != node && str_eq(roster_name(roster, n), name);
    char *safe = shared ? arena_printf(arena, "%s-%u", name, node) : arena_strdup(arena, name);
    for (char *p = safe; *p; p++)
        if (*p == '/')
            *p = '_';
    return !*safe || str_eq(safe, ".") || str_eq(safe, "..") ? arena_printf(arena, "node-%u", node) : safe;
}

/* Without searching all places, because this is called for each node. Places are sorted by role. */
static bool role_on_several(const struct spec *spec, const struct spec_role *role)
{
    size_t low = 0, high = spec->place_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (&spec->roles[spec->places[middle].role] < role)
            low = middle + 1;
        else
            high = middle;
    }
    return low + 1 < spec->place_count && &spec->roles[spec->places[low + 1].role] == role;
}

static bool on_several(const struct spec *spec, const struct spec_output *o)
{
    switch (o->on) {
    case ON_ALL:
        return o->role ? role_on_several(spec, o->role) : spec->nnodes > 1;
    case ON_LIST:
        return o->on_count > 1;
    case ON_FIRST:
        break;
    }
    return false;
}

bool step_output_has_folders(const struct spec *spec, const struct spec_output *o)
{
    bool own = o->to.has_expr && strstr(o->to.text, "node."); /* the path names the node */
    return on_several(spec, o) && !own;
}

enum expr_status step_output_to(const struct spec_output *o, const struct roster *roster,
                                const struct expr_context *ctx, bool keep_late, struct arena *arena, const char **ret,
                                struct error *err)
{
    const char *to = o->to.text;
    enum expr_status status = EXPR_OK;
    if (o->to.has_expr)
        status = expr_expand(&o->to, EXPR_PLAIN, ctx, keep_late, arena, &to, err);
    if (status != EXPR_OK)
        return status;
    size_t len = strlen(to);
    while (len > 1 && to[len - 1] == '/')
        len--;
    to = arena_strndup(arena, to, len);
    if (*to != '/')
        to = arena_printf(arena, "%s/%s", ctx->spec->dir, to);
    if (step_output_has_folders(ctx->spec, o))
        to = arena_printf(arena, "%s/%s", to, folder_name(roster, ctx->spec->nnodes, ctx->node_rank, arena));
    *ret = to;
    return EXPR_OK;
}
