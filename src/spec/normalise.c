/*
 * The normalised document: overrides applied, defaults filled in, short forms written out. `rhrun show` prints it, and
 * the spec's hash covers it. Texts stay as written, with their expressions; an `env` value from the caller stays null,
 * and secrets have only names.
 */
#include "internal.h"

#include <string.h>

static void put_text(struct arena *a, struct doc_node *to, const char *key, const char *text)
{
    if (text)
        doc_set(a, to, key, doc_new_string(a, text));
}

/* Text that looks like an expression but is none (an ARG, or text that was expanded) is escaped so that it stays
 * text. */
static struct doc_node *text_node(struct arena *a, const struct spec_text *text)
{
    struct buf b = {0};
    const char *p = text->text;
    for (const char *hit; !text->has_expr && (hit = strstr(p, "${{")); p = hit + 3) {
        buf_append(&b, p, (size_t)(hit - p));
        buf_puts(&b, "${{ '${{' }}");
    }
    buf_puts(&b, p);
    struct doc_node *node = doc_new_string(a, b.data);
    buf_free(&b);
    return node;
}

static struct doc_node *texts(struct arena *a, const struct spec_texts *list)
{
    struct doc_node *array = doc_new_array(a);
    for (size_t i = 0; i < list->count; i++)
        doc_append(a, array, text_node(a, &list->items[i]));
    return array;
}

static struct doc_node *env_node(struct arena *a, const struct spec_env *env, size_t count)
{
    struct doc_node *object = doc_new_object(a);
    for (size_t i = 0; i < count; i++)
        doc_set(a, object, env[i].name, env[i].from_caller ? doc_new_null(a) : doc_new_string(a, env[i].value.text));
    return object;
}

static struct doc_node *duration(struct arena *a, uint64_t ms)
{
    if (ms == 0)
        return doc_new_int(a, 0);
    if (ms % 1000 != 0)
        return doc_new_string(a, arena_printf(a, "%llums", (unsigned long long)ms));
    return doc_new_string(a, arena_printf(a, "%llus", (unsigned long long)(ms / 1000)));
}

static void put_devices(struct arena *a, struct doc_node *object, const struct spec_devices *devices)
{
    struct doc_node *list = doc_new_array(a);
    for (const char *p = devices->list; p && *p; p += strcspn(p, ","), p += *p == ',')
        doc_append(a, list, doc_new_plain(a, arena_strndup(a, p, strcspn(p, ","))));
    if (devices->list)
        doc_set(a, object, "devices", list);
}

static struct doc_node *nproc_node(struct arena *a, const struct spec_nproc *n)
{
    static const char *const words[] = {"", "cpu", "gpu", "xpu", "auto"};
    return n->kind == NPROC_COUNT ? doc_new_int(a, n->count) : doc_new_string(a, words[n->kind]);
}

static struct doc_node *params_node(struct arena *a, const struct spec *spec)
{
    static const char *const types[] = {"string", "integer", "number", "boolean"};
    struct doc_node *object = doc_new_object(a);
    for (size_t i = 0; i < spec->param_count; i++) {
        const struct spec_param *p = &spec->params[i];
        struct doc_node *one = doc_new_object(a);
        doc_set(a, one, "type", doc_new_string(a, types[p->type]));
        if (p->value)
            doc_set(a, one, "default",
                    p->type == SPEC_STRING ? doc_new_string(a, p->value) : doc_new_plain(a, p->value));
        doc_set(a, object, p->name, one);
    }
    return object;
}

static struct doc_node *words_node(struct arena *a, const char *const *words, size_t count)
{
    struct doc_node *list = doc_new_array(a);
    for (size_t i = 0; i < count; i++)
        doc_append(a, list, doc_new_string(a, words[i]));
    return list;
}

static struct doc_node *host_node(struct arena *a, const struct spec_host *h, const struct spec_node *wish)
{
    static const char *const transports[] = {"auto", "ssh", "openssh", NULL, "local", "sim", NULL};
    struct doc_node *one = doc_new_object(a);
    put_text(a, one, "name", name_is_valid(h->name) ? h->name : NULL); /* otherwise it is derived from the other keys */
    if (h->exec) {
        size_t count = 0;
        while (h->exec[count])
            count++;
        doc_set(a, one, "exec", words_node(a, h->exec, count));
    } else {
        put_text(a, one, "host", h->host);
    }
    put_text(a, one, "user", h->user);
    if (h->port > 0)
        doc_set(a, one, "port", doc_new_int(a, h->port));
    put_text(a, one, "identity_file", h->identity_file);
    put_text(a, one, "proxy_jump", h->proxy_jump);
    put_text(a, one, "known_hosts", h->known_hosts);
    put_text(a, one, "ssh_config", h->ssh_config);
    put_text(a, one, "transport", transports[h->transport]);
    put_text(a, one, "address", h->address);
    if (wish->has_nproc)
        doc_set(a, one, "nproc_per_node", nproc_node(a, &wish->nproc));
    put_devices(a, one, &wish->devices);
    return one;
}

static struct doc_node *container_node(struct arena *a, const struct spec_container *c)
{
    static const char *const pulls[] = {[PULL_MISSING] = "missing", [PULL_ALWAYS] = "always", [PULL_NEVER] = "never"};
    struct doc_node *one = doc_new_object(a);
    put_text(a, one, "image", c->image);
    put_text(a, one, "runtime", c->runtime ? c->runtime : "auto");
    doc_set(a, one, "options", words_node(a, c->options, c->option_count));
    doc_set(a, one, "mounts", words_node(a, c->mounts, c->mount_count));
    put_text(a, one, "pull", pulls[c->pull]);
    put_text(a, one, "down", c->down ? "always" : "never");
    return one;
}

/* The job's cluster, or that of a role. */
static void put_cluster(struct arena *a, struct doc_node *to, const struct spec *spec, const struct spec_role *role)
{
    struct doc_node *object = doc_new_object(a), *hosts = doc_new_array(a);
    bool spare = spec->host_count > spec->nnodes; /* then all hosts are the job's, and some do not take part */
    size_t count = role ? role->host_count : spare || spec->sweep ? spec->host_count : spec->distributed.nnodes;
    for (size_t i = 0; i < count; i++) {
        size_t n = role ? role->hosts[i] : i;
        doc_append(a, hosts, host_node(a, &spec->hosts[n], &spec->nodes[n]));
    }
    if (spec->rent && spec->rent->cluster) {
        doc_set(a, to, "cluster", doc_new_string(a, spec->rent->cluster));
        return;
    }
    const struct spec_host *first = role && count > 0 ? &spec->hosts[role->hosts[0]] : spec->hosts;
    if (spec->rent)
        rent_normalise(a, spec, object);
    else if (count > 0 && spec->placement != PLACEMENT_HERE)
        doc_set(a, object, "hosts", hosts);
    if (count > 0 && first->container)
        doc_set(a, object, "container", container_node(a, first->container));
    if (spec->placement == PLACEMENT_HERE && !first->container)
        doc_set(a, to, "cluster", doc_new_string(a, "local"));
    else if (count > 0)
        doc_set(a, to, "cluster", object);
}

static struct doc_node *secrets_node(struct arena *a, const struct spec *spec)
{
    struct doc_node *array = doc_new_array(a);
    for (size_t i = 0; i < spec->secret_count; i++) {
        const struct spec_secret *s = &spec->secrets[i];
        struct doc_node *one = doc_new_object(a);
        put_text(a, one, "name", s->name);
        put_text(a, one, "file", s->file);
        if (s->command.count > 0)
            doc_set(a, one, "command", texts(a, &s->command));
        doc_set(a, one, "optional", doc_new_bool(a, s->optional));
        put_text(a, one, "to", s->to);
        doc_append(a, array, one);
    }
    return array;
}

static void put_texts(struct arena *a, struct doc_node *to, const char *key, const struct spec_texts *list)
{
    if (list->count > 0)
        doc_set(a, to, key, texts(a, list));
}

static struct doc_node *nodes_node(struct arena *a, enum spec_on_kind kind, const uint32_t *nodes, size_t count)
{
    if (kind != ON_LIST)
        return doc_new_string(a, kind == ON_FIRST ? "first" : "all");
    struct doc_node *list = doc_new_array(a);
    for (size_t i = 0; i < count; i++)
        doc_append(a, list, doc_new_int(a, nodes[i]));
    return list;
}

static struct doc_node *source_node(struct arena *a, const struct spec_source *s)
{
    struct doc_node *one = doc_new_object(a);
    put_text(a, one, "path", s->path);
    put_text(a, one, "git", s->url.text);
    put_text(a, one, "ref", s->ref.text);
    put_texts(a, one, "exclude", &s->exclude);
    put_texts(a, one, "include", &s->include);
    return one;
}

static struct doc_node *files_node(struct arena *a, const struct spec *spec, const struct spec_role *role)
{
    struct doc_node *list = doc_new_array(a);
    for (size_t i = 0; i < spec->file_count; i++) {
        if (spec->files[i].role != role)
            continue;
        struct doc_node *one = doc_new_object(a);
        doc_set(a, one, "from", source_node(a, &spec->files[i].source));
        put_text(a, one, "to", spec->files[i].to.text);
        doc_append(a, list, one);
    }
    return list;
}

static struct doc_node *python_node(struct arena *a, const struct spec_python *p)
{
    struct doc_node *one = doc_new_object(a);
    if (p->conda.text) {
        put_text(a, one, "conda", p->conda.text);
        return one;
    }
    put_text(a, one, "interpreter", p->interpreter.text);
    if (p->venv == VENV_TRUE || p->venv == VENV_FALSE)
        doc_set(a, one, "venv", doc_new_bool(a, p->venv == VENV_TRUE));
    else
        put_text(a, one, "venv", p->venv == VENV_PATH ? p->venv_path.text : "auto");
    doc_set(a, one, "system_site_packages", doc_new_bool(a, p->system_site_packages));
    return one;
}

static void put_install(struct arena *a, struct doc_node *one, const struct spec_step *s)
{
    bool pip = s->item == ITEM_PIP;
    if (pip || s->item == ITEM_REQUIREMENTS) {
        doc_set(a, one, "upgrade", doc_new_bool(a, s->upgrade));
        if (pip)
            doc_set(a, one, "editable", doc_new_bool(a, s->editable));
        put_text(a, one, "index_url", s->index_url.text);
        put_texts(a, one, "extra_index_url", &s->extra_index_url);
        put_texts(a, one, "find_links", &s->find_links);
    }
    put_texts(a, one, "options", &s->options);
    put_texts(a, one, "channels", &s->channels);
}

static void put_item(struct arena *a, struct doc_node *one, const struct spec_step *s)
{
    switch (s->item) {
    case ITEM_RUN:
        put_text(a, one, "run", s->run.text);
        if (s->has_inputs)
            doc_set(a, one, "inputs", texts(a, &s->inputs));
        put_text(a, one, "creates", s->creates.text);
        put_text(a, one, "on_unknown", s->on_unknown_fail ? "fail" : "redo");
        return;
    case ITEM_PIP:
        doc_set(a, one, "pip", texts(a, &s->packages));
        break;
    case ITEM_REQUIREMENTS:
        put_text(a, one, "requirements", s->file.text);
        break;
    case ITEM_APT:
        doc_set(a, one, "apt", texts(a, &s->packages));
        break;
    case ITEM_CONDA:
        doc_set(a, one, "conda", texts(a, &s->packages));
        break;
    case ITEM_GIT:
        put_text(a, one, "git", s->url.text);
        put_text(a, one, "ref", s->ref.text);
        put_text(a, one, "to", s->to.text);
        return;
    case ITEM_COPY:
        doc_set(a, one, "copy", source_node(a, &s->source));
        put_text(a, one, "to", s->to.text);
        return;
    }
    put_install(a, one, s);
}

static struct doc_node *step_node(struct arena *a, const struct spec_step *s)
{
    struct doc_node *one = doc_new_object(a), *retry = doc_new_object(a);
    put_text(a, one, "name", s->role ? s->name + strlen(s->role->name) + 1 : s->name);
    put_item(a, one, s);
    doc_set(a, one, "on", nodes_node(a, s->on, s->on_nodes, s->on_count));
    doc_set(a, retry, "times", doc_new_int(a, s->retry_times));
    doc_set(a, retry, "backoff", duration(a, s->retry_backoff_ms));
    doc_set(a, one, "retry", retry);
    doc_set(a, one, "timeout", duration(a, s->timeout_ms));
    return one;
}

static struct doc_node *setup_node(struct arena *a, const struct spec *spec, const struct spec_role *role)
{
    struct doc_node *list = doc_new_array(a);
    for (size_t i = 0; i < spec->setup_count; i++)
        if (spec->setup[i].role == role)
            doc_append(a, list, step_node(a, &spec->setup[i]));
    return list;
}

static struct doc_node *outputs_node(struct arena *a, const struct spec *spec, const struct spec_role *role)
{
    struct doc_node *list = doc_new_array(a);
    for (size_t i = 0; i < spec->output_count; i++) {
        const struct spec_output *o = &spec->outputs[i];
        if (o->role != role)
            continue;
        struct doc_node *one = doc_new_object(a);
        put_text(a, one, "from", o->from.text);
        put_text(a, one, "to", o->to.text);
        put_text(a, one, "when", o->when == WHEN_SUCCESS ? "success" : "always");
        doc_set(a, one, "every", duration(a, o->every_ms));
        doc_set(a, one, "restore", doc_new_bool(a, o->restore));
        if (o->required == (strpbrk(o->from.text, "*?[") != NULL))
            doc_set(a, one, "required", doc_new_bool(a, o->required));
        if (o->max_bytes)
            doc_set(a, one, "max_size", size_node(a, o->max_bytes / 1000000, 1000, "GB", "MB"));
        doc_set(a, one, "nodes", nodes_node(a, o->on, o->on_nodes, o->on_count));
        doc_append(a, list, one);
    }
    return list;
}

static void put_outputs(struct arena *a, struct doc_node *to, const struct spec *spec, const struct spec_role *role)
{
    struct doc_node *list = outputs_node(a, spec, role);
    if (list->count > 0)
        doc_set(a, to, "outputs", list);
}

static struct doc_node *distributed_node(const struct load *l, const struct spec_distributed *d)
{
    struct arena *a = l->arena;
    struct doc_node *object = doc_new_object(a);
    if (d->nnodes > 0)
        doc_set(a, object, "nnodes",
                d->min_nodes == d->nnodes ? doc_new_int(a, d->nnodes)
                                          : doc_new_string(a, arena_printf(a, "%u:%u", d->min_nodes, d->nnodes)));
    if (l->spec->role_count == 0 || d->has_nproc)
        doc_set(a, object, "nproc_per_node", nproc_node(a, &d->nproc));
    put_text(a, object, "launcher", spec_launchers[d->launcher]);
    put_texts(a, object, "launcher_args", &d->launcher_args);
    for (size_t i = 0; i < d->flag_count; i++) {
        const char *key = d->flags[i].flag->name;
        doc_set(a, object, key, doc_clone(a, doc_get(doc_get(l->root, "distributed"), key)));
    }
    doc_set(a, object, "max_restarts", doc_new_int(a, d->max_restarts));
    doc_set(a, object, "master_port", doc_new_int(a, d->master_port));
    put_devices(a, object, &d->devices);
    if (d->launcher == LAUNCHER_NATIVE)
        put_text(a, object, "cpu_affinity", d->cpu_blocks ? "block" : "none");
    doc_set(a, object, "preflight", preflight_node(a, &d->preflight));
    return object;
}

static void put_program(struct arena *a, struct doc_node *object, const struct spec_entrypoint *e)
{
    static const char *const kinds[] = {"script", "module", "command", "run", "function"};
    if (e->kind == ENTRY_COMMAND)
        doc_set(a, object, "command", texts(a, &e->command));
    else
        put_text(a, object, kinds[e->kind], e->target.text);
    if (e->kind == ENTRY_FUNCTION)
        doc_set(a, object, "args", doc_clone(a, e->positional));
    else
        doc_set(a, object, "args", texts(a, &e->args));
    if (e->kwargs)
        doc_set(a, object, "kwargs", doc_clone(a, e->kwargs));
}

/* With roles the top level has no program. */
static struct doc_node *entrypoint_node(struct arena *a, const struct spec_entrypoint *e, bool program, bool around)
{
    struct doc_node *object = doc_new_object(a);
    if (program)
        put_program(a, object, e);
    doc_set(a, object, "env", env_node(a, e->env, e->env_count));
    put_text(a, object, "cwd", e->cwd.text);
    if (program)
        doc_set(a, object, "timeout", duration(a, e->timeout_ms));
    if (!around)
        return object;
    doc_set(a, object, "always", doc_new_bool(a, e->always));
    put_text(a, object, "prolog", e->prolog.text);
    put_text(a, object, "epilog", e->epilog.text);
    return object;
}

/* ---- roles ---- */

static struct doc_node *ready_node(struct arena *a, const struct spec_ready *ready)
{
    struct doc_node *one = doc_new_object(a);
    if (ready->kind == READY_PORT)
        doc_set(a, one, "port", doc_new_plain(a, ready->what.text));
    else
        doc_set(a, one, ready->kind == READY_LOG ? "log" : "command", text_node(a, &ready->what));
    doc_set(a, one, "timeout", duration(a, ready->timeout_ms));
    return one;
}

static void put_place(struct arena *a, struct doc_node *one, const struct spec *spec, const struct spec_role *r)
{
    if (r->nnodes) {
        doc_set(a, one, "nnodes", doc_new_int(a, r->nnodes));
        doc_set(a, one, "nproc_per_node", nproc_node(a, &r->nproc));
    } else {
        doc_set(a, one, "count", doc_new_int(a, r->count));
    }
    if (r->master_port) {
        struct doc_node *own = doc_new_object(a);
        doc_set(a, own, "master_port", doc_new_int(a, r->master_port));
        doc_set(a, one, "distributed", own);
    }
    if (r->own_hosts)
        put_cluster(a, one, spec, r);
    if (r->nodes && (!r->own_hosts || r->node_count < r->host_count))
        doc_set(a, one, "nodes", nodes_node(a, ON_LIST, r->nodes, r->node_count));
}

static struct doc_node *role_node(struct arena *a, const struct spec *spec, const struct spec_role *r)
{
    static const char *const worlds[] = {"job", "own", "none"};
    struct doc_node *one = doc_new_object(a);
    put_place(a, one, spec, r);
    put_text(a, one, "world", worlds[r->world]);
    if (r->peer != SPEC_NO_ROLE) {
        struct doc_node *peer = doc_new_object(a);
        put_text(a, peer, "role", spec->roles[r->peer].name);
        put_text(a, peer, "by", r->by == BY_STRIDE ? "stride" : "block");
        doc_set(a, one, "peer", peer);
    }
    if (r->ready.kind != READY_NO)
        doc_set(a, one, "ready", ready_node(a, &r->ready));
    if (r->after_count > 0) {
        struct doc_node *after = doc_new_object(a);
        for (size_t i = 0; i < r->after_count; i++)
            put_text(a, after, spec->roles[r->after[i].role].name, r->after[i].ready ? "ready" : "done");
        doc_set(a, one, "after", after);
    }
    doc_set(a, one, "sidecar", doc_new_bool(a, r->sidecar));
    if (r->own_files)
        doc_set(a, one, "files", files_node(a, spec, r));
    if (r->own_setup) {
        doc_set(a, one, "python", python_node(a, &r->python));
        doc_set(a, one, "setup", setup_node(a, spec, r));
    }
    doc_set(a, one, "env", env_node(a, r->env, r->env_count));
    doc_set(a, one, "entrypoint", entrypoint_node(a, &r->entrypoint, true, false));
    put_outputs(a, one, spec, r);
    return one;
}

static void put_roles(struct arena *a, struct doc_node *root, const struct spec *spec)
{
    struct doc_node *roles = doc_new_object(a), *require = doc_new_array(a);
    for (size_t i = 0; i < spec->role_count; i++)
        doc_set(a, roles, spec->roles[i].name, role_node(a, spec, &spec->roles[i]));
    for (size_t i = 0; i < spec->require_count; i++)
        doc_append(a, require, doc_new_string(a, spec->require[i].text));
    if (spec->role_count > 0)
        doc_set(a, root, "roles", roles);
    if (spec->require_count > 0)
        doc_set(a, root, "require", require);
}

static void put_list(const struct load *l, struct doc_node *to, const char *key)
{
    const struct doc_node *list = doc_get(l->root, key);
    if (is_array(list) && list->count > 0)
        doc_set(l->arena, to, key, doc_clone(l->arena, list));
}

const struct doc_node *spec_normalise(const struct load *l)
{
    struct arena *a = l->arena;
    const struct spec *spec = l->spec;
    struct doc_node *root = doc_new_object(a), *files = files_node(a, spec, NULL);
    put_text(a, root, "name", spec->name);
    doc_set(a, root, "params", params_node(a, spec));
    if (spec->sweep)
        doc_set(a, root, "sweep", sweep_normalise(l));
    put_cluster(a, root, spec, NULL);
    if (spec->has_workdir)
        doc_set(a, root, "workdir", source_node(a, &spec->workdir));
    if (files->count > 0)
        doc_set(a, root, "files", files);
    doc_set(a, root, "python", python_node(a, &spec->python));
    doc_set(a, root, "env", env_node(a, spec->env, spec->env_count));
    doc_set(a, root, "secrets", secrets_node(a, spec));
    doc_set(a, root, "setup", setup_node(a, spec, NULL));
    put_text(a, root, "activate", spec->activate.text);
    if (doc_get(l->root, "log_limit"))
        doc_set(a, root, "log_limit", doc_clone(a, doc_get(l->root, "log_limit")));
    if (spec->distributed.present)
        doc_set(a, root, "distributed", distributed_node(l, &spec->distributed));
    put_roles(a, root, spec);
    doc_set(a, root, "entrypoint", entrypoint_node(a, &spec->entrypoint, spec->role_count == 0, true));
    put_outputs(a, root, spec, NULL);
    if (spec->port_count)
        doc_set(a, root, "ports", ports_node(a, spec));
    put_list(l, root, "metrics");
    put_list(l, root, "failure_rules");
    return root;
}
