/*
 * Environment variables and the list of secrets. An empty value in `env` is taken from the caller's
 * environment and required; a secret is only listed here, its value is read by spec_resolve_secrets.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* Variables that are set for a worker of `distributed` or `roles`: torch.distributed.run's contract. */
static const char *const worker_names[] = {
    "RANK",      "LOCAL_RANK", "WORLD_SIZE",      "LOCAL_WORLD_SIZE", "GROUP_RANK",  "GROUP_WORLD_SIZE",
    "ROLE_NAME", "ROLE_RANK",  "ROLE_WORLD_SIZE", "MASTER_ADDR",      "MASTER_PORT", NULL};

static bool is_worker_name(const char *name)
{
    for (const char *const *w = worker_names; *w; w++)
        if (strcmp(*w, name) == 0)
            return true;
    return false;
}

static void check_reserved(struct load *l, const char *name, struct place place)
{
    if (str_starts(name, "RHRUN_"))
        diagnostic_hint(fault(l, place, "\"%s\" cannot be set: names that begin with RHRUN_ are rhrun's own", name),
                        "choose another name");
    else if (l->spec->distributed.present && is_worker_name(name))
        diagnostic_hint(fault(l, place, "\"%s\" cannot be set: rhrun sets it for every worker", name),
                        strcmp(name, "MASTER_PORT") == 0 ? "distributed.master_port chooses the port"
                                                         : "docs/spec.md lists the environment of workers");
}

static void take_from_caller(struct load *l, struct spec_env *e, struct place place)
{
    const char *value = getenv(e->name);
    e->from_caller = true;
    e->value = (struct spec_text){.text = arena_strdup(l->arena, value), .place = place};
    if (!value)
        diagnostic_hint(fault(l, place, "\"%s\" has no value here and is not set in your environment", e->name),
                        "export %s=VALUE, or give it a value (\"\" for an empty one)", e->name);
}

struct spec_env *env_list(struct load *l, const struct doc_node *object, size_t *ret_count)
{
    *ret_count = 0;
    if (!is_object(object))
        return NULL;
    struct spec_env *list = arena_array(l->arena, object->count, sizeof *list);
    for (size_t i = 0; i < object->count; i++) {
        const struct doc_member *m = &object->members[i];
        struct spec_env *e = &list[*ret_count];
        *e = (struct spec_env){.name = m->key};
        if (m->value->type == DOC_NULL)
            take_from_caller(l, e, m->key_place);
        else if (is_scalar(m->value))
            e->value = text_of(m->value);
        else
            continue;
        check_reserved(l, m->key, m->key_place);
        ++*ret_count;
    }
    return list;
}

void env_bind(struct load *l)
{
    static const struct expr_rules rules = {.scope = SCOPE_NODE, .no_env = true};
    struct spec *spec = l->spec;
    spec->env = env_list(l, doc_get(l->root, "env"), &spec->env_count);
    for (size_t i = 0; i < spec->env_count; i++)
        expr_check_rules(&spec->env[i].value, spec, &rules, false, l->diagnostics);
}

/* ---- secrets ---- */

static void bind_source(struct load *l, struct spec_secret *s, const struct doc_node *item)
{
    const struct doc_node *file = doc_get(item, "file"), *command = doc_get(item, "command");
    if (file && command) {
        fault(l, doc_get_member(item, "command", 7)->key_place, "secret \"%s\" has both file and command", s->name);
        note(l, doc_get_member(item, "file", 4)->key_place, "file is here");
    }
    struct spec_text path = text_of(file);
    if (path.text)
        s->file = path_here(l, l->spec->dir, expand_now(l, &path));
    if (s->file)
        file_check(l, path.place, s->file);
    if (!is_array(command))
        return;
    s->command.items = arena_array(l->arena, command->count, sizeof *s->command.items);
    for (size_t i = 0; i < command->count; i++) {
        struct spec_text word = text_of(command->items[i]);
        if (!word.text)
            continue;
        word.text = expand_now(l, &word);
        word.has_expr = false;
        if (word.text)
            s->command.items[s->command.count++] = word;
    }
}

static void check_shadow(struct load *l, const struct spec_secret *s, const struct doc_node *env, const char *where)
{
    struct doc_member *m = doc_get_member(env, s->to, strlen(s->to));
    if (!m)
        return;
    struct diagnostic *d = fault(l, s->place, "secret \"%s\" is in %s too", s->to, where);
    diagnostic_hint(d, "leave it out of %s: rhrun stores and shows the values there", where);
    note(l, m->key_place, "%s has it here", where);
}

static void check_secret(struct load *l, size_t index)
{
    struct spec_secret *s = &l->spec->secrets[index];
    check_reserved(l, s->to, s->place);
    check_shadow(l, s, doc_get(l->root, "env"), "env");
    check_shadow(l, s, doc_get(doc_get(l->root, "entrypoint"), "env"), "entrypoint.env");
    for (size_t i = 0; i < index; i++)
        if (strcmp(l->spec->secrets[i].to, s->to) == 0) {
            fault(l, s->place, "secret \"%s\" is listed twice", s->to);
            note(l, l->spec->secrets[i].place, "it is here too");
            return;
        }
}

void secrets_bind(struct load *l)
{
    const struct doc_node *list = doc_get(l->root, "secrets");
    if (!is_array(list))
        return;
    l->spec->secrets = arena_array(l->arena, list->count, sizeof *l->spec->secrets);
    for (size_t i = 0; i < list->count; i++) {
        const struct doc_node *item = list->items[i];
        const char *name = is_object(item)            ? doc_get_string(item, "name", NULL)
                           : item->type == DOC_STRING ? item->text
                                                      : NULL;
        if (!name || !*name)
            continue;
        struct spec_secret *s = &l->spec->secrets[l->spec->secret_count];
        *s = (struct spec_secret){.name = name, .to = name, .place = place_of(item)};
        if (is_object(item)) {
            s->to = doc_get_string(item, "to", name);
            s->optional = doc_get_bool(item, "optional", false);
            bind_source(l, s, item);
        }
        check_secret(l, l->spec->secret_count++);
    }
}
