/*
 * The nodes: those of the job's cluster (this machine, hosts, or rented machines), then the hosts of roles with their
 * own cluster. A machine that is in several clusters is one node.
 */
#include "internal.h"

#include <string.h>

struct clusters {
    struct load *l;
    struct host_list job, *roles;
};

static bool is_this_machine(const struct doc_node *node)
{
    return !node || (node->type == DOC_STRING && strcmp(node->text, "local") == 0) ||
           (is_object(node) && node->count == 1 && doc_get(node, "container"));
}

static void bind_local(struct load *l, const struct doc_node *node)
{
    struct spec *spec = l->spec;
    const struct spec_container *container = NULL;
    l->hosts_failed = is_object(node) && !container_bind(l, node, &container);
    uint32_t n = spec->distributed.present && spec->distributed.nnodes > 0 ? spec->distributed.nnodes : 1;
    if (spec->sweep && spec->sweep->nodes)
        n = spec->sweep->nodes;
    bool in_place = !doc_get(l->root, "workdir"); /* workdir is not bound yet */
    spec->placement = PLACEMENT_HERE;
    spec->nodes = arena_array(l->arena, n, sizeof *spec->nodes);
    spec->hosts = arena_array(l->arena, n, sizeof *spec->hosts);
    spec->node_count = spec->host_count = n;
    for (uint32_t i = 0; i < n; i++)
        spec->hosts[i] = (struct spec_host){.name = n == 1 ? "local" : arena_printf(l->arena, "local-%u", i),
                                            .host = "localhost",
                                            .work_dir = in_place ? spec->dir : NULL,
                                            .transport = SPEC_TRANSPORT_LOCAL,
                                            .container = container};
}

static void take_hosts(struct load *l, const struct host_list *list)
{
    struct spec *spec = l->spec;
    spec->nodes = arena_array(l->arena, list->count + 1, sizeof *spec->nodes);
    spec->hosts = arena_array(l->arena, list->count + 1, sizeof *spec->hosts);
    spec->node_count = spec->host_count = list->count;
    for (size_t i = 0; i < list->count; i++) {
        spec->nodes[i] = list->items[i].wish;
        spec->hosts[i] = list->items[i].host;
    }
}

static void check_counts(struct load *l, const struct doc_node *node, uint32_t hosts)
{
    uint32_t wanted = l->spec->distributed.nnodes;
    if (l->hosts_failed || wanted <= hosts)
        return;
    struct diagnostic *d = fault(l, place_of(l->nnodes), "nnodes is %u, but the cluster has %u host%s", wanted, hosts,
                                 hosts == 1 ? "" : "s");
    diagnostic_hint(d, "every node needs a host of its own; nproc_per_node is the number of workers on each");
    note(l, place_of(node), "the cluster is here");
}

/* The hosts of the cluster that run points: at least as many as one point takes. */
static void take_nodes(struct load *l, uint32_t hosts)
{
    const uint32_t nodes = l->spec->sweep->nodes ? l->spec->sweep->nodes : hosts, each = l->spec->distributed.nnodes;
    const struct doc_node *said = doc_get(doc_get(l->root, "sweep"), "nodes");
    if (each > nodes) {
        struct diagnostic *d = fault(l, place_of(l->nnodes), "a point takes %u nodes, but %s %u", each,
                                     said ? "sweep.nodes is" : "the cluster has", nodes);
        diagnostic_hint(d, "distributed.nnodes is the number of nodes of each point, sweep.nodes that of all points");
    }
    if (nodes <= hosts)
        l->spec->nnodes = nodes;
    else
        fault(l, place_of(said), "nodes is %u, but the cluster has %u host%s", nodes, hosts, hosts == 1 ? "" : "s");
}

/* The job's own nodes. */
static void bind_job(struct clusters *c, const struct doc_node *node)
{
    struct load *l = c->l;
    struct spec *spec = l->spec;
    if (is_this_machine(node)) {
        bind_local(l, node);
    } else {
        hosts_of(l, node, &c->job);
        if (!c->job.failed)
            hosts_check_twice(l, &c->job, true);
        l->hosts_failed = c->job.failed;
        take_hosts(l, &c->job);
        spec->rent = c->job.rent;
    }
    uint32_t hosts = (uint32_t)spec->host_count, wanted = spec->distributed.nnodes;
    if (!spec->sweep)
        check_counts(l, node, hosts);
    if (wanted == 0)
        spec->distributed.nnodes = spec->sweep ? 1 : hosts;
    spec->nnodes = spec->distributed.present && wanted > 0 && !spec->sweep ? wanted : hosts;
    if (spec->sweep && !l->hosts_failed)
        take_nodes(l, hosts);
}

bool spec_in_place(const struct spec *spec)
{
    return spec->placement == PLACEMENT_HERE && !spec->has_workdir;
}

/* ---- clusters of roles ---- */

static const struct doc_node *cluster_of(const struct load *l, size_t role)
{
    return doc_get(role_doc(l, &l->spec->roles[role]), "cluster");
}

/* The first role on its own hosts, and the first role on the job's nodes; SPEC_NO_ROLE: there is none. */
static void find_roles(const struct load *l, uint32_t *ret_own, uint32_t *ret_other)
{
    *ret_own = *ret_other = SPEC_NO_ROLE;
    for (uint32_t i = 0; i < l->spec->role_count; i++) {
        uint32_t *first = is_this_machine(cluster_of(l, i)) ? ret_other : ret_own;
        *first = *first == SPEC_NO_ROLE ? i : *first;
    }
}

static const char *const no_mix =
    "a job has all of its nodes on this machine, or all on hosts; for SSH to this machine "
    "write hosts: [localhost]";

/* Hosts cannot reach nodes on this machine, because it has no name that they know. */
static bool refuse_mixed(struct load *l, uint32_t own, uint32_t other)
{
    const struct spec *spec = l->spec;
    const struct doc_node *job = doc_get(l->root, "cluster");
    bool refused = false;
    if (!is_this_machine(job))
        for (uint32_t i = 0; i < spec->role_count; i++) {
            if (!cluster_of(l, i) || !is_this_machine(cluster_of(l, i)))
                continue;
            diagnostic_hint(fault(l, place_of(cluster_of(l, i)), "role \"%s\" is on this machine, but the job on hosts",
                                  spec->roles[i].name),
                            "%s", no_mix);
            note(l, place_of(job), "the job's cluster is here");
            refused = true;
        }
    if (own == SPEC_NO_ROLE || (!job && other == SPEC_NO_ROLE) || !is_this_machine(job))
        return refused;
    const struct doc_node *local = job ? job : cluster_of(l, other);
    if (job)
        diagnostic_hint(
            fault(l, place_of(job), "the job is on this machine, but role \"%s\" on hosts", spec->roles[own].name),
            "leave cluster: local out where all roles have a cluster; %s", no_mix);
    else
        diagnostic_hint(fault(l, local ? place_of(local) : spec->roles[other].place,
                              "role \"%s\" is on this machine, but role \"%s\" on hosts", spec->roles[other].name,
                              spec->roles[own].name),
                        "give it a cluster, or the top level one for roles that have none; %s", no_mix);
    note(l, place_of(cluster_of(l, own)), "the cluster of \"%s\" is here", spec->roles[own].name);
    return true;
}

static bool same_name(const struct doc_node *a, const struct doc_node *b)
{
    return a && b && a->type == DOC_STRING && b->type == DOC_STRING && strcmp(a->text, b->text) == 0;
}

/* A cluster that the job or an earlier role also names is read once. */
static const struct host_list *find_read(const struct clusters *c, size_t role)
{
    const struct doc_node *node = cluster_of(c->l, role);
    if (same_name(node, doc_get(c->l->root, "cluster")))
        return &c->job;
    for (size_t i = 0; i < role; i++)
        if (same_name(node, cluster_of(c->l, i)))
            return &c->roles[i];
    return NULL;
}

static const char *machine_of(struct load *l, const struct spec_host *h)
{
    if (h->exec)
        return arena_printf(l->arena, "exec\n%s", h->exec_text);
    return arena_printf(l->arena, "%s\n%s\n%u", h->host, h->user ? h->user : "", h->port);
}

static bool same_nproc(const struct spec_node *a, const struct spec_node *b)
{
    return a->has_nproc == b->has_nproc &&
           (!a->has_nproc || (a->nproc.kind == b->nproc.kind && a->nproc.count == b->nproc.count));
}

static bool same_container(const struct spec_container *a, const struct spec_container *b)
{
    return str_eq(a ? a->text : NULL, b ? b->text : NULL);
}

/* The key in which two entries of one machine differ, or NULL. */
static const char *difference(const struct host_entry *one, const struct host_entry *other)
{
    const struct spec_host *a = &one->host, *b = &other->host;
    const struct spec_node *ours = &one->wish, *theirs = &other->wish;
    bool named = name_is_valid(a->name) && name_is_valid(b->name); /* otherwise the name is the text as written:
                                                                      user@host */
    return !str_eq(a->identity_file, b->identity_file)         ? "identity_file"
           : !str_eq(a->proxy_jump, b->proxy_jump)             ? "proxy_jump"
           : !str_eq(a->known_hosts, b->known_hosts)           ? "known_hosts"
           : !str_eq(a->ssh_config, b->ssh_config)             ? "ssh_config"
           : a->transport != b->transport                      ? "transport"
           : !str_eq(a->address, b->address)                   ? "address"
           : !same_container(a->container, b->container)       ? "container"
           : !same_nproc(ours, theirs)                         ? "nproc_per_node"
           : !str_eq(ours->devices.list, theirs->devices.list) ? "devices"
           : named && strcmp(a->name, b->name) != 0            ? "name"
                                                               : NULL;
}

static uint32_t node_of(struct load *l, struct doc_node *nodes, struct host_list *all, const struct host_entry *e)
{
    const char *machine = machine_of(l, &e->host);
    int64_t n = doc_get_int(nodes, machine, -1);
    if (n < 0) {
        doc_set(l->arena, nodes, machine, doc_new_int(l->arena, (int64_t)all->count));
        all->items[all->count] = *e;
        return (uint32_t)all->count++;
    }
    struct host_entry *known = &all->items[n];
    const char *key = difference(known, e);
    if (key) {
        diagnostic_hint(fault(l, e->wish.place, "host \"%s\" is in two clusters, with another %s", e->host.name, key),
                        "one machine is one node: give it the same in both");
        note(l, known->wish.place, "it is here too");
        all->failed = true;
    }
    if (!name_is_valid(known->host.name))
        known->host.name = e->host.name;
    return (uint32_t)n;
}

/* Appends the hosts of roles to the job's hosts, which are then exactly the job's nnodes. */
static void join(const struct clusters *c, size_t total)
{
    struct load *l = c->l;
    struct spec *spec = l->spec;
    struct doc_node *nodes = doc_new_object(l->arena);
    struct host_list all = {.items = arena_array(l->arena, total + 1, sizeof *all.items)};
    for (uint32_t i = 0; i < spec->nnodes; i++)
        node_of(l, nodes, &all, &c->job.items[i]);
    for (size_t i = 0; i < spec->role_count; i++) {
        struct spec_role *r = &spec->roles[i];
        if (!r->own_hosts)
            continue;
        r->hosts = arena_array(l->arena, c->roles[i].count + 1, sizeof *r->hosts);
        for (size_t k = 0; k < c->roles[i].count; k++)
            r->hosts[r->host_count++] = node_of(l, nodes, &all, &c->roles[i].items[k]);
    }
    if (!all.failed)
        hosts_check_twice(l, &all, true);
    if (all.count > SPEC_HOSTS_MAX)
        fault(l, place_of(doc_get(l->root, "roles")), "more than %d hosts", SPEC_HOSTS_MAX);
    l->hosts_failed = all.failed || all.count > SPEC_HOSTS_MAX;
    take_hosts(l, &all);
    spec->nnodes = (uint32_t)all.count;
}

/* A run rents all of its nodes as one cluster, or none. */
static void refuse_rented(struct clusters *c, size_t role)
{
    struct load *l = c->l;
    const struct doc_node *node = cluster_of(l, role), *job = doc_get(l->root, "cluster");
    const char *name = l->spec->roles[role].name;
    if (c->roles[role].rent)
        diagnostic_hint(fault(l, place_of(node),
                              "role \"%s\" has a rented cluster of its own, which this version of rhrun cannot do",
                              name),
                        "rent in the cluster of the top level: all roles are placed on its machines");
    else if (c->job.rent)
        diagnostic_hint(
            fault(l, place_of(node), "role \"%s\" is on hosts that you have, but the job on rented machines", name),
            "this version of rhrun cannot do that: all roles are on the rented machines, or none");
    else
        return;
    if (c->job.rent && job)
        note(l, place_of(job), "the job's cluster is here");
    l->hosts_failed = true;
}

static void bind_roles(struct clusters *c)
{
    struct load *l = c->l;
    struct spec *spec = l->spec;
    size_t total = spec->nnodes;
    c->roles = arena_array(l->arena, spec->role_count, sizeof *c->roles);
    for (size_t i = 0; i < spec->role_count; i++) {
        const struct doc_node *node = cluster_of(l, i);
        spec->roles[i].own_hosts = !is_this_machine(node);
        if (!spec->roles[i].own_hosts)
            continue;
        const struct host_list *read = find_read(c, i);
        if (read)
            c->roles[i] = *read;
        else
            hosts_of(l, node, &c->roles[i]);
        refuse_rented(c, i);
        l->hosts_failed = l->hosts_failed || c->roles[i].failed;
        total += c->roles[i].count;
    }
    if (!l->hosts_failed && spec->host_count >= spec->nnodes)
        join(c, total);
}

static void drop_empty(struct load *l)
{
    struct doc_node *roles = doc_get(l->root, "roles");
    cluster_drop_empty(l, doc_get(l->root, "cluster"));
    for (size_t i = 0; is_object(roles) && i < roles->count; i++)
        cluster_drop_empty(l, doc_get(roles->members[i].value, "cluster"));
}

void clusters_bind(struct load *l)
{
    drop_empty(l);
    const struct doc_node *node = doc_get(l->root, "cluster");
    struct clusters c = {.l = l};
    uint32_t own, other;
    l->spec->placement = PLACEMENT_HOSTS;
    find_roles(l, &own, &other);
    bool mixed = refuse_mixed(l, own, other);
    if (node || own == SPEC_NO_ROLE || other != SPEC_NO_ROLE) {
        bind_job(&c, node);
    } else if (l->nnodes) {
        diagnostic_hint(fault(l, place_of(l->nnodes), "nnodes is %u, but the top level has no cluster",
                              l->spec->distributed.nnodes),
                        "every role has a cluster of its own; nnodes of a role says how many nodes it takes");
        l->hosts_failed = true;
    }
    l->hosts_failed = l->hosts_failed || mixed;
    if (own != SPEC_NO_ROLE)
        bind_roles(&c);
}
