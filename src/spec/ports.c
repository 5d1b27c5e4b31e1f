/* `ports`: ports of nodes that can be reached from this machine while the launch runs. No step reads them. */
#include "internal.h"

#include <string.h>

/* A number or a name. */
static bool node_of(struct load *l, const struct doc_node *node, uint32_t *ret)
{
    const struct spec *spec = l->spec;
    int64_t n;
    if (l->hosts_failed)
        return false;
    if (doc_is_integer(node, &n)) {
        *ret = (uint32_t)n;
        if (n >= 0 && n < spec->nnodes)
            return true;
        struct diagnostic *d = fault(l, place_of(node), "no node %lld: the job has %u node%s", (long long)n,
                                     spec->nnodes, spec->nnodes == 1 ? "" : "s");
        diagnostic_expected(d, spec->nnodes == 1 ? "node 0" : "a node from 0 to %u", spec->nnodes - 1);
        return false;
    }
    const char **names = arena_array(l->arena, (size_t)spec->nnodes + 1, sizeof *names);
    size_t count = 0;
    for (uint32_t i = 0; i < spec->nnodes && i < spec->host_count; i++) {
        if (str_eq(spec->hosts[i].name, node->text)) {
            *ret = i;
            return true;
        }
        if (spec->hosts[i].name)
            names[count++] = spec->hosts[i].name;
    }
    const char *near = str_nearest(node->text, names);
    struct diagnostic *d = fault(l, place_of(node), "the job has no node \"%s\"", node->text);
    if (near)
        diagnostic_expected(d, "%s, or a number from 0 on", near);
    return false;
}

static bool is_on(const struct spec *spec, uint32_t role, uint32_t node)
{
    for (size_t i = 0; i < spec->place_count; i++)
        if (spec->places[i].role == role && spec->places[i].node == node)
            return true;
    return false;
}

/* For a role: its first node, or the given one of its nodes. */
static bool role_of(struct load *l, const struct doc_node *item, struct spec_port *p)
{
    const struct spec *spec = l->spec;
    const struct doc_node *role = doc_get(item, "role"), *node = doc_get(item, "node");
    if (!role || !role->text)
        return !role;
    const uint32_t i = role_find(spec, role->text);
    if (i == SPEC_NO_ROLE) {
        const char **names = arena_array(l->arena, spec->role_count + 1, sizeof *names);
        for (size_t k = 0; k < spec->role_count; k++)
            names[k] = spec->roles[k].name;
        const char *near = str_nearest(role->text, names);
        struct diagnostic *d = fault(l, place_of(role), "the job has no role \"%s\"", role->text);
        if (near || spec->role_count)
            diagnostic_expected(d, "%s", near ? near : names[0]);
        return false;
    }
    p->role = spec->roles[i].name;
    if (node && !is_on(spec, i, p->node)) {
        fault(l, place_of(node), "no worker of role \"%s\" is on node %u", p->role, p->node);
        return false;
    }
    for (size_t k = 0; !node && k < spec->place_count; k++)
        if (spec->places[k].role == i) {
            p->node = spec->places[k].node;
            return true;
        }
    return node != NULL;
}

static bool port_of(const struct doc_node *node, uint32_t *ret)
{
    int64_t n;
    if (!node || !doc_is_integer(node, &n) || n < 1 || n > UINT16_MAX)
        return false; /* the schema has reported it */
    *ret = (uint32_t)n;
    return true;
}

static void check_twice(struct load *l, const struct spec_port *p)
{
    for (size_t i = 0; i < l->spec->port_count; i++) {
        const struct spec_port *o = &l->spec->ports[i];
        if (o->node == p->node && o->port == p->port)
            fault(l, p->place, "port %u of node %u is listed twice", p->port, p->node);
        else if (o->local && o->local == p->local)
            fault(l, p->place, "two ports want port %u here", p->local);
    }
}

static void bind_port(struct load *l, const struct doc_node *item)
{
    struct spec *spec = l->spec;
    struct spec_port p = {.place = place_of(item)};
    if (!port_of(is_object(item) ? doc_get(item, "port") : item, &p.port))
        return;
    if (is_object(item)) {
        const struct doc_node *node = doc_get(item, "node");
        port_of(doc_get(item, "local"), &p.local);
        p.name = arena_strdup(l->arena, doc_get_string(item, "name", NULL));
        if ((node && !node_of(l, node, &p.node)) || !role_of(l, item, &p))
            return;
    }
    check_twice(l, &p);
    const struct spec_host *host = p.node < spec->host_count ? &spec->hosts[p.node] : NULL;
    if (host && host->transport == SPEC_TRANSPORT_COMMAND && !host->address) {
        struct diagnostic *d =
            fault(l, p.place, "node \"%s\" is reached by a program, which carries no ports", host->name);
        diagnostic_hint(d, "give the host an address that this machine can reach: {exec: [...], address: 10.0.0.7}");
    }
    spec->ports[spec->port_count++] = p;
}

void ports_bind(struct load *l)
{
    const struct doc_node *list = doc_get(l->root, "ports");
    if (!is_array(list))
        return;
    l->spec->ports = arena_array(l->arena, list->count + 1, sizeof *l->spec->ports);
    for (size_t i = 0; i < list->count && i < SPEC_PORTS_MAX; i++)
        bind_port(l, list->items[i]);
}

struct doc_node *ports_node(struct arena *a, const struct spec *spec)
{
    struct doc_node *list = doc_new_array(a);
    for (size_t i = 0; i < spec->port_count; i++) {
        const struct spec_port *p = &spec->ports[i];
        struct doc_node *one = doc_new_object(a);
        doc_set(a, one, "port", doc_new_int(a, p->port));
        if (p->role)
            doc_set(a, one, "role", doc_new_string(a, p->role));
        doc_set(a, one, "node", doc_new_int(a, p->node));
        if (p->local)
            doc_set(a, one, "local", doc_new_int(a, p->local));
        if (p->name)
            doc_set(a, one, "name", doc_new_string(a, p->name));
        doc_append(a, list, one);
    }
    return list;
}
