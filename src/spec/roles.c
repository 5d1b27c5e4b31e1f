/*
 * Binding `roles`: the number of workers of each first, because other stages need it; the rest once hosts, params and
 * env are known. A role's entrypoint is its own mapping, merged over the top level's and bound in the same way.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum { ROLES_MAX = 64, ROLE_WORKERS_MAX = 1 << 20, READY_TIMEOUT_MS = 300000 };

static const struct doc_node *roles_node(const struct load *l)
{
    return doc_get(l->root, "roles");
}

static const struct doc_node *role_node(const struct load *l, size_t i)
{
    return roles_node(l)->members[i].value;
}

const struct doc_node *role_doc(const struct load *l, const struct spec_role *role)
{
    return role_node(l, (size_t)(role - l->spec->roles));
}

uint32_t role_find(const struct spec *spec, const char *name)
{
    for (uint32_t i = 0; i < spec->role_count; i++)
        if (strcmp(spec->roles[i].name, name) == 0)
            return i;
    return SPEC_NO_ROLE;
}

/* ---- counts ---- */

/* A number, or one expression of params; unchanged after a fault. */
static void number_of(struct load *l, const struct doc_node *node, int64_t min, int64_t max, uint32_t *ret)
{
    int64_t n;
    if (!is_scalar(node))
        return;
    bool plain = doc_is_integer(node, &n);
    if (!plain) {
        struct spec_text text = text_of(node);
        const char *value = text.has_expr ? expand_now(l, &text) : NULL;
        if (!value)
            return;
        if (!parse_i64(value, &n)) {
            diagnostic_expected(fault(l, place_of(node), "\"%s\" is not a number", value), "a number");
            return;
        }
    }
    if (n >= min && n <= max)
        *ret = (uint32_t)n;
    else if (!plain) /* else the schema reports it */
        diagnostic_expected(fault(l, place_of(node), "the number is %lld", (long long)n), "%lld to %lld",
                            (long long)min, (long long)max);
}

/* A key that may stand in the role or in its `distributed`. */
static const struct doc_member *member_of(struct load *l, const struct doc_node *node, const char *key)
{
    const struct doc_member *own = doc_get_member(node, key, strlen(key));
    const struct doc_member *below = doc_get_member(doc_get(node, "distributed"), key, strlen(key));
    if (own && below) {
        diagnostic_expected(fault(l, below->key_place, "%s is in distributed too", key), "one of them");
        note(l, own->key_place, "%s of the role is here", key);
    }
    return own ? own : below;
}

static void bind_count(struct load *l, const struct doc_node *node, struct spec_role *r)
{
    const struct doc_member *count = doc_get_member(node, "count", 5), *nnodes = member_of(l, node, "nnodes");
    const struct doc_member *nproc = member_of(l, node, "nproc_per_node");
    r->counted = true;
    r->count = 1;
    r->nproc = l->spec->distributed.nproc;
    if (count && nnodes) {
        diagnostic_expected(fault(l, nnodes->key_place, "role \"%s\" has both count and nnodes", r->name),
                            "count, the number of workers, or nnodes with nproc_per_node");
        note(l, count->key_place, "count is here");
        return;
    }
    if (nproc && !nnodes) {
        diagnostic_hint(fault(l, nproc->key_place, "nproc_per_node of a role belongs to nnodes, which is not here"),
                        "count is the number of workers, wherever there is room");
        return;
    }
    if (count)
        number_of(l, count->value, 0, ROLE_WORKERS_MAX, &r->count);
    if (!nnodes)
        return;
    r->nnodes = 1;
    number_of(l, nnodes->value, 1, SPEC_HOSTS_MAX, &r->nnodes);
    if (nproc && nproc_of(nproc->value, &r->nproc) && r->nproc.kind == NPROC_XPU)
        diagnostic_expected(fault(l, place_of(nproc->value), "nproc_per_node is xpu, which only torchrun can count"),
                            "a number, cpu, gpu or auto");
    r->counted = r->nproc.kind == NPROC_COUNT;
    r->count = r->counted ? r->nnodes * r->nproc.count : 0;
}

static void find_own(struct spec_role *r, const struct doc_node *node)
{
    static const char *const setup[] = {"python", "packages", "requirements", "setup", NULL};
    for (const char *const *key = setup; *key; key++)
        r->own_setup = r->own_setup || doc_get(node, *key);
    r->own_files = doc_get(node, "files") != NULL;
}

void roles_bind(struct load *l)
{
    const struct doc_node *node = roles_node(l);
    struct spec *spec = l->spec;
    if (!is_object(node) || node->count == 0)
        return;
    size_t count = node->count < ROLES_MAX ? node->count : ROLES_MAX;
    spec->roles = arena_array(l->arena, count, sizeof *spec->roles);
    spec->role_count = count;
    spec->distributed.present = true;
    if (!spec->distributed.place.source)
        spec->distributed.place = place_of(node);
    for (size_t i = 0; i < count; i++) {
        struct spec_role *r = &spec->roles[i];
        r->name = node->members[i].key;
        r->place = node->members[i].key_place;
        r->peer = SPEC_NO_ROLE;
        find_own(r, node->members[i].value);
        bind_count(l, node->members[i].value, r);
    }
}

/* ---- references to other roles ---- */

static uint32_t other_role(struct load *l, uint32_t self, const char *name, struct place place, const char *what)
{
    const struct spec *spec = l->spec;
    uint32_t other = role_find(spec, name);
    if (other == self)
        fault(l, place, "role \"%s\" cannot be its own %s", name, what);
    if (other != SPEC_NO_ROLE)
        return other == self ? SPEC_NO_ROLE : other;
    const char **names = arena_array(l->arena, spec->role_count + 1, sizeof *names);
    for (size_t i = 0; i < spec->role_count; i++)
        names[i] = spec->roles[i].name;
    struct diagnostic *d = fault(l, place, "there is no role \"%s\"", name);
    const char *near = str_nearest(name, names);
    if (near)
        diagnostic_hint(d, "did you mean %s?", near);
    return SPEC_NO_ROLE;
}

static void bind_peer(struct load *l, uint32_t self, const struct doc_node *node)
{
    struct spec_role *r = &l->spec->roles[self];
    const struct doc_node *name = is_object(node) ? doc_get(node, "role") : node;
    if (!name || name->type != DOC_STRING)
        return;
    r->by = is_object(node) && strcmp(doc_get_string(node, "by", "block"), "stride") == 0 ? BY_STRIDE : BY_BLOCK;
    r->peer = other_role(l, self, name->text, place_of(name), "peer");
    if (r->peer == SPEC_NO_ROLE)
        return;
    const struct spec_role *other = &l->spec->roles[r->peer];
    if (other->counted && other->count == 0 && !(r->counted && r->count == 0))
        fault(l, place_of(name), "role \"%s\" has \"%s\" for a peer, which has no workers", r->name, other->name);
}

static void bind_after(struct load *l, uint32_t self, const struct doc_node *node)
{
    struct spec_role *r = &l->spec->roles[self];
    if (!is_object(node))
        return;
    r->after = arena_array(l->arena, node->count + 1, sizeof *r->after);
    for (size_t i = 0; i < node->count; i++) {
        const struct doc_member *m = &node->members[i];
        bool ready = m->value->type == DOC_STRING && strcmp(m->value->text, "ready") == 0;
        uint32_t other = other_role(l, self, m->key, m->key_place, "predecessor");
        if (other == SPEC_NO_ROLE)
            continue;
        if (ready && !is_object(doc_get(role_node(l, other), "ready")))
            diagnostic_hint(fault(l, place_of(m->value), "role \"%s\" does not say when it is ready", m->key),
                            "give it ready: {port: NUMBER}, {log: PATTERN} or {command: TEXT}");
        if (!ready && doc_get_bool(role_node(l, other), "sidecar", false))
            diagnostic_hint(
                fault(l, place_of(m->value), "role \"%s\" is a sidecar, which ends only with the others", m->key),
                "%s: ready", m->key);
        r->after[r->after_count++] = (struct spec_after){other, ready};
    }
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static bool may_be_on(const struct spec *spec, const struct spec_role *r, uint32_t node)
{
    bool found = !r->own_hosts && node < spec->distributed.nnodes;
    for (size_t i = 0; i < r->host_count; i++)
        found = found || r->hosts[i] == node;
    return found || node >= spec->nnodes; /* which was reported already */
}

static void bind_nodes(struct load *l, struct spec_role *r, const struct doc_node *node)
{
    enum spec_on_kind kind = ON_ALL;
    if (r->own_hosts && !node) {
        r->nodes = arena_array(l->arena, r->host_count + 1, sizeof *r->nodes);
        for (size_t i = 0; i < r->host_count; i++)
            r->nodes[r->node_count++] = r->hosts[i];
        qsort(r->nodes, r->node_count, sizeof *r->nodes, by_number);
    }
    if (!is_array(node))
        return;
    nodes_of(l, node, &kind, &r->nodes, &r->node_count);
    if (kind != ON_LIST) {
        r->nodes = NULL;
        r->node_count = 0;
    }
    for (size_t i = 0; i < r->node_count; i++)
        if (r->node_count == node->count && !l->hosts_failed && !may_be_on(l->spec, r, r->nodes[i]))
            diagnostic_hint(fault(l, place_of(node->items[i]),
                                  r->own_hosts ? "node %u does not belong to the cluster of role \"%s\""
                                               : "node %u is of another role's cluster, and not for role \"%s\"",
                                  r->nodes[i], r->name),
                            "the job's nodes come first, then those of roles, in the file's order");
    if (r->node_count > 0)
        qsort(r->nodes, r->node_count, sizeof *r->nodes, by_number);
}

static void bind_port_of_world(struct load *l, struct spec_role *r, const struct doc_node *node)
{
    int64_t port;
    if (!doc_is_integer(node, &port) || port < 0 || port > UINT16_MAX)
        return;
    r->master_port = (uint32_t)port;
    if (r->world != WORLD_OWN)
        diagnostic_hint(fault(l, place_of(node), "master_port of a role is that of its own world"),
                        "world: own gives it one; the job's is distributed.master_port of the top level");
}

void roles_bind_nodes(struct load *l)
{
    static const char *const worlds[] = {"job", "own", "none"};
    struct spec *spec = l->spec;
    size_t errors = l->diagnostics->errors;
    for (size_t i = 0; i < spec->role_count; i++) {
        struct spec_role *r = &spec->roles[i];
        const char *world = doc_get_string(role_node(l, i), "world", "job");
        for (size_t w = 0; w < ARRAY_LEN(worlds); w++)
            if (strcmp(worlds[w], world) == 0)
                r->world = (enum spec_world)w;
        bind_nodes(l, r, doc_get(role_node(l, i), "nodes"));
        bind_port_of_world(l, r, doc_get(doc_get(role_node(l, i), "distributed"), "master_port"));
    }
    bool good = l->diagnostics->errors == errors && !l->hosts_failed;
    if (spec->role_count > 0 && good && spec->host_count >= spec->nnodes && spec->nnodes > 0)
        roles_place(l);
}

/* ---- ready ---- */

static void bind_port(struct load *l, struct spec_ready *ready, const struct doc_node *node)
{
    uint32_t port = 0;
    number_of(l, node, 1, UINT16_MAX, &port);
    if (port)
        ready->what = (struct spec_text){.text = arena_printf(l->arena, "%u", port), .place = place_of(node)};
}

static void bind_ready(struct load *l, struct spec_role *r, const struct doc_node *node)
{
    static const char *const forms[] = {[READY_PORT] = "port", [READY_LOG] = "log", [READY_COMMAND] = "command"};
    const struct doc_member *found = NULL;
    if (!is_object(node))
        return;
    r->ready.place = place_of(node);
    r->ready.timeout_ms = READY_TIMEOUT_MS;
    duration_of(l, node, "timeout", &r->ready.timeout_ms);
    for (int kind = READY_PORT; kind <= READY_COMMAND; kind++) {
        const struct doc_member *m = doc_get_member(node, forms[kind], strlen(forms[kind]));
        if (m && found) {
            diagnostic_expected(fault(l, m->key_place, "ready has both %s and %s", found->key, m->key),
                                "exactly one of port, log and command");
            note(l, found->key_place, "%s is here", found->key);
        } else if (m) {
            found = m;
            r->ready.kind = (enum spec_ready_kind)kind;
        }
    }
    if (!found) {
        diagnostic_expected(fault(l, place_of(node), "ready names nothing to wait for"),
                            "exactly one of port, log and command");
        return;
    }
    switch (r->ready.kind) {
    case READY_NO:
        break;
    case READY_PORT:
        bind_port(l, &r->ready, found->value);
        break;
    case READY_LOG:
        r->ready.what = text_now(l, found->value);
        break;
    case READY_COMMAND:
        r->ready.what = checked(l, found->value, &on_node_at_point, true);
        break;
    }
}

/* ---- programs ---- */

static const char *const programs[] = {"script", "module", "command", "run", "function", NULL};

static bool has_form(const struct doc_node *entry)
{
    for (const char *const *f = programs; *f; f++)
        if (doc_get(entry, *f))
            return true;
    return false;
}

/* The role's entrypoint merged over the top level's, of which only the keys of a program are taken. */
static const struct doc_node *entry_of(struct load *l, size_t i)
{
    static const char *const around[] = {"prolog", "epilog", "always", NULL};
    const struct doc_node *top = doc_get(l->root, "entrypoint"), *own = doc_get(role_node(l, i), "entrypoint");
    struct doc_node *entry = is_object(top) ? doc_clone(l->arena, top) : doc_new_object(l->arena);
    if (!is_object(top))
        entry->place = l->spec->roles[i].place;
    for (const char *const *key = around; *key; key++)
        doc_remove(entry, *key);
    if (!is_object(own))
        return entry;
    for (const char *const *f = programs; has_form(own) && *f; f++)
        doc_remove(entry, *f);
    if (has_form(own)) { /* they belong to the other program */
        doc_remove(entry, "args");
        doc_remove(entry, "kwargs");
    }
    merge_over(l, entry, own);
    entry->place = own->place;
    return entry;
}

static struct expr_rules rules_of(const struct spec_role *r)
{
    return (struct expr_rules){
        .scope = SCOPE_RANK, .point = true, .peer = r->peer != SPEC_NO_ROLE, .no_world = r->world == WORLD_NONE};
}

static void bind_program(struct load *l, size_t i, bool *spliced)
{
    struct spec_role *r = &l->spec->roles[i];
    const struct expr_rules rules = rules_of(r);
    const struct doc_node *node = role_node(l, i);
    r->env = env_list(l, doc_get(node, "env"), &r->env_count);
    for (size_t e = 0; e < r->env_count; e++)
        expr_check_rules(&r->env[e].value, l->spec, &rules, false, l->diagnostics);
    const struct doc_node *entry = entry_of(l, i);
    if (!has_form(entry)) {
        diagnostic_hint(fault(l, r->place, "role \"%s\" names nothing to run", r->name),
                        "give it an entrypoint with script, module, command, run or function, or the top level one "
                        "for all roles");
        return;
    }
    *spliced |= entrypoint_of(l, entry, &rules, &r->entrypoint);
}

void roles_bind_programs(struct load *l)
{
    struct spec *spec = l->spec;
    bool spliced = false;
    for (uint32_t i = 0; i < spec->role_count; i++) {
        struct spec_role *r = &spec->roles[i];
        const struct doc_node *node = role_node(l, i);
        r->sidecar = doc_get_bool(node, "sidecar", false);
        bind_peer(l, i, doc_get(node, "peer"));
        bind_after(l, i, doc_get(node, "after"));
        bind_ready(l, r, doc_get(node, "ready"));
        bind_program(l, i, &spliced);
    }
    if (spec->role_count == 0)
        return;
    if (spec->arg_count > 0 && !spliced)
        diagnostic_hint(fault(l, option_place(l, "--", spec->args[0], 0, strlen(spec->args[0])),
                              "there are ARGs after --, but no role takes ${{ args }}"),
                        "args: [..., \"${{ args }}\"] of a role's entrypoint, or of the top level's, says where");
    roles_check(l);
}
