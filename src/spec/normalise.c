/*
 * The normalised document: overrides applied, defaults filled in, short forms written out. `rhrun show`
 * prints it and the spec's hash covers it. Texts stay as written, with their expressions; an `env` value
 * of the caller stays null, and secrets have names only.
 */
#include "internal.h"

static void put_text(struct arena *a, struct doc_node *to, const char *key, const char *text)
{
    if (text)
        doc_set(a, to, key, doc_new_string(a, text));
}

static struct doc_node *texts(struct arena *a, const struct spec_texts *list)
{
    struct doc_node *array = doc_new_array(a);
    for (size_t i = 0; i < list->count; i++)
        doc_append(a, array, doc_new_string(a, list->items[i].text));
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

static struct doc_node *nproc_node(struct arena *a, const struct spec_nproc *n)
{
    static const char *const words[] = {"", "cpu", "gpu", "auto"};
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
        doc_set(a, one, "default", p->type == SPEC_STRING ? doc_new_string(a, p->value) : doc_new_plain(a, p->value));
        doc_set(a, object, p->name, one);
    }
    return object;
}

static struct doc_node *cluster_node(struct arena *a, const struct spec *spec)
{
    static const char *const transports[] = {"auto", "ssh", "openssh", "local", "sim"};
    if (spec->local)
        return doc_new_string(a, "local");
    struct doc_node *object = doc_new_object(a), *hosts = doc_new_array(a);
    for (size_t i = 0; i < spec->host_count; i++) {
        const struct spec_host *h = &spec->hosts[i];
        struct doc_node *one = doc_new_object(a);
        put_text(a, one, "name", h->name);
        put_text(a, one, "host", h->host);
        put_text(a, one, "user", h->user);
        if (h->port > 0)
            doc_set(a, one, "port", doc_new_int(a, h->port));
        put_text(a, one, "identity_file", h->identity_file);
        put_text(a, one, "proxy_jump", h->proxy_jump);
        put_text(a, one, "known_hosts", h->known_hosts);
        put_text(a, one, "ssh_config", h->ssh_config);
        put_text(a, one, "transport", transports[h->transport]);
        put_text(a, one, "address", h->address);
        if (h->has_nproc)
            doc_set(a, one, "nproc_per_node", nproc_node(a, &h->nproc));
        doc_append(a, hosts, one);
    }
    doc_set(a, object, "hosts", hosts);
    return object;
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

static struct doc_node *step_node(struct arena *a, const struct spec_step *s)
{
    struct doc_node *one = doc_new_object(a), *retry = doc_new_object(a), *on;
    put_text(a, one, "name", s->name);
    put_text(a, one, "run", s->run.text);
    doc_set(a, one, "inputs", texts(a, &s->inputs));
    put_text(a, one, "creates", s->creates.text);
    if (s->on == ON_LIST) {
        on = doc_new_array(a);
        for (size_t i = 0; i < s->on_count; i++)
            doc_append(a, on, doc_new_int(a, s->on_nodes[i]));
    } else {
        on = doc_new_string(a, s->on == ON_FIRST ? "first" : "all");
    }
    doc_set(a, one, "on", on);
    doc_set(a, retry, "times", doc_new_int(a, s->retry_times));
    doc_set(a, retry, "backoff", duration(a, s->retry_backoff_ms));
    doc_set(a, one, "retry", retry);
    put_text(a, one, "on_unknown", s->on_unknown_fail ? "fail" : "redo");
    doc_set(a, one, "timeout", duration(a, s->timeout_ms));
    return one;
}

static struct doc_node *distributed_node(struct arena *a, const struct spec_distributed *d)
{
    struct doc_node *object = doc_new_object(a);
    doc_set(a, object, "nnodes", doc_new_int(a, d->nnodes));
    doc_set(a, object, "nproc_per_node", nproc_node(a, &d->nproc));
    put_text(a, object, "launcher", d->launcher);
    doc_set(a, object, "max_restarts", doc_new_int(a, d->max_restarts));
    doc_set(a, object, "master_port", doc_new_int(a, d->master_port));
    return object;
}

static struct doc_node *entrypoint_node(struct arena *a, const struct spec_entrypoint *e)
{
    static const char *const kinds[] = {"script", "module", "command", "run"};
    struct doc_node *object = doc_new_object(a);
    if (e->kind == ENTRY_COMMAND)
        doc_set(a, object, "command", texts(a, &e->command));
    else
        put_text(a, object, kinds[e->kind], e->target.text);
    doc_set(a, object, "args", texts(a, &e->args));
    doc_set(a, object, "env", env_node(a, e->env, e->env_count));
    put_text(a, object, "cwd", e->cwd.text);
    doc_set(a, object, "timeout", duration(a, e->timeout_ms));
    doc_set(a, object, "always", doc_new_bool(a, e->always));
    put_text(a, object, "prolog", e->prolog.text);
    put_text(a, object, "epilog", e->epilog.text);
    return object;
}

const struct doc_node *spec_normalise(const struct load *l)
{
    struct arena *a = l->arena;
    const struct spec *spec = l->spec;
    struct doc_node *root = doc_new_object(a), *setup = doc_new_array(a);
    put_text(a, root, "name", spec->name);
    doc_set(a, root, "params", params_node(a, spec));
    doc_set(a, root, "cluster", cluster_node(a, spec));
    doc_set(a, root, "env", env_node(a, spec->env, spec->env_count));
    doc_set(a, root, "secrets", secrets_node(a, spec));
    for (size_t i = 0; i < spec->setup_count; i++)
        doc_append(a, setup, step_node(a, &spec->setup[i]));
    doc_set(a, root, "setup", setup);
    put_text(a, root, "activate", spec->activate.text);
    if (spec->distributed.present)
        doc_set(a, root, "distributed", distributed_node(a, &spec->distributed));
    doc_set(a, root, "entrypoint", entrypoint_node(a, &spec->entrypoint));
    return root;
}
