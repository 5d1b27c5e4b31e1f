/*
 * A role's own parts: its part of the document, merged over the top level's or in its place, and the nodes for its
 * set-up and files.
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

/* "0, 2, 5", with "..." after the first few. */
static const char *list_nodes(struct load *l, const bool *on)
{
    enum { LISTED_MAX = 16 };
    struct buf list = {0};
    uint32_t count = 0;
    for (uint32_t n = 0; n < l->spec->nnodes && count <= LISTED_MAX; n++)
        if (on[n] && count++ < LISTED_MAX)
            buf_printf(&list, "%s%u", list.len ? ", " : "", n);
    buf_puts(&list, count > LISTED_MAX ? ", ..." : "");
    const char *ret = arena_strdup(l->arena, list.data);
    buf_free(&list);
    return ret;
}

void role_check_nodes(struct load *l, const struct spec_role *role, const struct doc_node *list)
{
    const struct spec *spec = l->spec;
    bool *on = arena_array(l->arena, spec->nnodes + 1, sizeof *on);
    int64_t n;
    if (!spec->places || spec_setup_nodes(spec, role, on) == 0) /* not placed, or no workers at all */
        return;
    for (size_t i = 0; is_array(list) && i < list->count; i++)
        if (doc_is_integer(list->items[i], &n) && n >= 0 && n < spec->nnodes && !on[n])
            diagnostic_expected(
                fault(l, place_of(list->items[i]), "role \"%s\" has no workers on node %u", role->name, (uint32_t)n),
                "of %s", list_nodes(l, on));
}

bool role_keep_nodes(struct load *l, const struct spec_role *role, struct spec_step *s)
{
    const struct spec *spec = l->spec;
    bool *on = arena_array(l->arena, spec->nnodes + 1, sizeof *on);
    size_t kept = 0;
    if (s->on != ON_LIST || !spec->places || spec_setup_nodes(spec, role, on) == 0)
        return true;
    for (size_t i = 0; i < s->on_count; i++)
        if (s->on_nodes[i] < spec->nnodes && on[s->on_nodes[i]])
            s->on_nodes[kept++] = s->on_nodes[i];
    s->on_count = kept;
    return kept > 0;
}

/* ---- what must not be shared ---- */

static bool share_node(struct load *l, const struct spec_role *a, const struct spec_role *b)
{
    const struct spec *spec = l->spec;
    bool *on_a = arena_array(l->arena, spec->nnodes + 1, sizeof *on_a);
    bool *on_b = arena_array(l->arena, spec->nnodes + 1, sizeof *on_b);
    spec_setup_nodes(spec, a, on_a);
    spec_setup_nodes(spec, b, on_b);
    for (uint32_t n = 0; n < spec->nnodes; n++)
        if (on_a[n] && on_b[n])
            return true;
    return false;
}

/* Two set-ups in one virtual environment would undo each other's work. b NULL: the job's. */
static void check_venvs(struct load *l, const struct spec_role *a, const struct spec_role *b)
{
    const struct spec_python *python = b ? &b->python : &l->spec->python;
    if (a->python.venv != VENV_PATH || python->venv != VENV_PATH ||
        !str_eq(a->python.venv_path.text, python->venv_path.text) || !share_node(l, a, b))
        return;
    const char *other = b ? arena_printf(l->arena, "role \"%s\"", b->name) : "the job";
    diagnostic_hint(fault(l, a->place, "role \"%s\" has a set-up of its own in the virtual environment of %s, \"%s\"",
                          a->name, other, python->venv_path.text),
                    "they are on the same node: give the role another python.venv, or auto");
    note(l, python->venv_path.place, "it is given here");
}

/* The node of rank 0 of the role's world; SPEC_NO_ROLE: the job's. */
static uint32_t first_node(const struct spec *spec, uint32_t role)
{
    for (size_t i = 0; i < spec->place_count; i++)
        if (role == SPEC_NO_ROLE ? spec->roles[spec->places[i].role].world == WORLD_JOB : spec->places[i].role == role)
            return spec->places[i].node;
    return spec->nnodes;
}

static void check_ports(struct load *l, uint32_t role, uint32_t other)
{
    const struct spec *spec = l->spec;
    const struct spec_role *r = &spec->roles[role];
    uint32_t port = other == SPEC_NO_ROLE ? spec->distributed.master_port : spec->roles[other].master_port;
    uint32_t node = first_node(spec, role);
    if (!r->master_port || r->master_port != port || node == spec->nnodes || node != first_node(spec, other))
        return;
    diagnostic_hint(
        fault(l, r->place, "role \"%s\" has master_port %u, as %s has it on the same node", r->name, port,
              other == SPEC_NO_ROLE ? "the job" : arena_printf(l->arena, "role \"%s\"", spec->roles[other].name)),
        "each world has a port of its own; 0 is a free one");
}

/* A port belongs to a node, not to a role: the first process that listens on it would make both roles ready. */
static void check_ready_ports(struct load *l, const struct spec_role *a, const struct spec_role *b)
{
    if (a->ready.kind != READY_PORT || b->ready.kind != READY_PORT || !str_eq(a->ready.what.text, b->ready.what.text) ||
        !share_node(l, a, b))
        return;
    diagnostic_hint(fault(l, a->ready.place, "role \"%s\" is ready at port %s, as role \"%s\" is on the same node",
                          a->name, a->ready.what.text, b->name),
                    "give one of them another port, or ready: {log: PATTERN}");
}

void role_check_parts(struct load *l)
{
    struct spec *spec = l->spec;
    for (uint32_t i = 0; i < spec->role_count && spec->places; i++) {
        check_ports(l, i, SPEC_NO_ROLE);
        if (spec->roles[i].own_setup)
            check_venvs(l, &spec->roles[i], NULL);
        for (uint32_t k = 0; k < i; k++) {
            check_ports(l, i, k);
            check_ready_ports(l, &spec->roles[i], &spec->roles[k]);
            if (spec->roles[i].own_setup && spec->roles[k].own_setup)
                check_venvs(l, &spec->roles[i], &spec->roles[k]);
        }
    }
}
