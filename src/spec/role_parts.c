/*
 * What a role has of its own: its part of the document, merged over the top level's or in its place, and the nodes that
 * its part of set-up and files is for.
 */
#include "internal.h"

#include <string.h>

const struct doc_node *role_value(const struct load *l, const struct spec_role *role, const char *key)
{
    const struct doc_node *own = role ? doc_get(role_doc(l, role), key) : NULL;
    return own ? own : doc_get(l->root, key);
}

void merge_over(struct load *l, struct doc_node *into, const struct doc_node *over)
{
    for (size_t i = 0; i < over->count; i++) {
        const struct doc_member *m = &over->members[i];
        struct doc_node *old = doc_get(into, m->key);
        if (is_object(old) && is_object(m->value)) {
            merge_over(l, old, m->value);
            continue;
        }
        doc_set(l->arena, into, m->key, doc_clone(l->arena, m->value));
        doc_get_member(into, m->key, strlen(m->key))->key_place = m->key_place;
    }
}

const char *role_step_name(struct load *l, const struct spec_role *role, const char *name)
{
    return role ? arena_printf(l->arena, "%s:%s", role->name, name) : name;
}

/* ---- nodes ---- */

static const char *list_nodes(struct load *l, const bool *on)
{
    const char *list = "";
    for (uint32_t n = 0; n < l->spec->nnodes; n++)
        if (on[n])
            list = arena_printf(l->arena, "%s%s%u", list, *list ? ", " : "", n);
    return list;
}

void role_check_node(struct load *l, const struct spec_role *role, const struct doc_node *node, uint32_t n)
{
    const struct spec *spec = l->spec;
    bool *on = arena_array(l->arena, spec->nnodes + 1, sizeof *on);
    if (!spec->places || spec_setup_nodes(spec, role, on) == 0 || on[n]) /* none: it has no workers at all */
        return;
    struct diagnostic *d =
        role ? fault(l, place_of(node), "role \"%s\" has no workers on node %u", role->name, n)
             : fault(l, place_of(node), "node %u has workers only of roles with a set-up of their own", n);
    diagnostic_expected(d, "of %s", list_nodes(l, on));
}
