/* The packages of a node's Pythons, from the latest INSTALLED of each. */
#include "internal.h"

void installed_apply(struct arena *arena, struct state_node *n, const char *role, const char *digest)
{
    struct state_installed **at = &n->installed;
    while (*at && !str_eq((*at)->role, role))
        at = &(*at)->next;
    if (!*at) {
        *at = arena_alloc(arena, sizeof **at);
        **at = (struct state_installed){.role = role};
    }
    (*at)->digest = digest;
}

const struct state_installed *state_installed_on(const struct state *s, uint32_t node, const char *role)
{
    const struct state_installed *at = node < s->node_count ? s->nodes[node].installed : NULL;
    while (at && !str_eq(at->role, role))
        at = at->next;
    return at;
}
