/*
 * spec_load: the stages in order, each going on where the one before found faults, so that all of them
 * are told at once. Then the identity of the job: its origin, variant and hash.
 */
#include "internal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* The job's name when the file gives none: its stem, with what a name cannot have replaced. */
static const char *stem_of(const char *path, struct arena *arena)
{
    const char *slash = strrchr(path, '/');
    char *stem = arena_strdup(arena, slash ? slash + 1 : path);
    char *dot = strrchr(stem, '.');
    if (dot && dot > stem)
        *dot = 0;
    if (strlen(stem) > 100)
        stem[100] = 0;
    for (char *p = stem; *p; p++) {
        char one[2] = {*p, 0};
        if (!name_is_valid(one) && (p == stem || (*p != '.' && *p != '-')))
            *p = '_';
    }
    return *stem ? stem : "job";
}

static void bind_name(struct load *l)
{
    const char *given = doc_get_text(l->root, "name", NULL);
    l->spec->name = given && name_is_valid(given) ? given : stem_of(l->spec->path, l->arena);
}

static struct doc_node *strings(struct arena *arena, const char *const *items, size_t count)
{
    struct doc_node *array = doc_new_array(arena);
    for (size_t i = 0; i < count; i++)
        doc_append(arena, array, doc_new_string(arena, items[i]));
    return array;
}

static const char *digest_of(struct arena *arena, const struct doc_node *node)
{
    struct buf json = {0};
    char *hex = arena_alloc(arena, 65);
    doc_to_json(node, DOC_JSON_CANONICAL, &json);
    digest_sha256_hex(json.data, json.len, hex);
    buf_free(&json);
    return hex;
}

void spec_job_id(const char *name, const char *origin, char ret_id[17])
{
    char hex[65];
    struct buf b = {0};
    buf_append(&b, name, strlen(name) + 1);
    buf_puts(&b, origin);
    digest_sha256_hex(b.data, b.len, hex);
    buf_free(&b);
    memcpy(ret_id, hex, 16);
    ret_id[16] = 0;
}

static const char *job_id_of(const struct spec *spec, struct arena *arena)
{
    char id[17];
    spec_job_id(spec->name, spec->origin, id);
    return arena_strdup(arena, id);
}

/* Of the params, the words behind -- and the job; what is kept on nodes is named by it, so it never changes. */
static const char *variant_of(const struct spec *spec, struct arena *a)
{
    struct doc_node *variant = doc_new_object(a), *params = doc_new_object(a);
    for (size_t i = 0; i < spec->param_count; i++)
        doc_set(a, params, spec->params[i].name, doc_new_string(a, spec->params[i].value));
    doc_set(a, variant, "name", doc_new_string(a, spec->name));
    doc_set(a, variant, "origin", doc_new_string(a, spec->origin));
    doc_set(a, variant, "params", params);
    doc_set(a, variant, "args", strings(a, spec->args, spec->arg_count));
    return arena_strndup(a, digest_of(a, variant), 16);
}

static void identify(struct load *l, const char *real_path)
{
    struct spec *spec = l->spec;
    struct arena *a = l->arena;
    spec->origin = origin_find(real_path, a);
    spec->resolved = spec_normalise(l);
    struct doc_node *whole = doc_new_array(a);
    doc_append(a, whole, doc_clone(a, spec->resolved));
    doc_append(a, whole, strings(a, spec->args, spec->arg_count));
    spec->hash = digest_of(a, whole);
    spec->variant = variant_of(spec, a);
    spec->job_id = job_id_of(spec, a);
}

/* As little as tells the job, and with params or arguments its variant. */
static int identify_only(struct load *l, const char *real_path)
{
    struct spec *spec = l->spec;
    size_t errors = l->diagnostics->errors;
    overrides_apply(l); /* --set name=... */
    bind_name(l);
    spec->origin = origin_find(real_path, l->arena);
    spec->job_id = job_id_of(spec, l->arena);
    if (l->over->param_count || l->over->args) {
        params_bind(l);
        if (l->diagnostics->errors > errors)
            return -1;
        spec->variant = variant_of(spec, l->arena);
    }
    return 0;
}

static void bind_all(struct load *l)
{
    overrides_apply(l);
    doc_refuse_nul(l->root, l->diagnostics);
    schema_check(l);
    if (!is_object(l->root))
        return;
    bind_name(l);
    distributed_bind(l);
    params_bind(l);
    roles_bind(l);
    env_bind(l);
    secrets_bind(l);
    clusters_bind(l);
    roles_bind_nodes(l);
    sources_bind(l);
    python_bind(l);
    setup_bind(l);
    entrypoint_bind(l);
    roles_bind_programs(l);
    require_bind(l);
    outputs_bind(l);
    distributed_bind_flags(l);
    failure_rules_bind(l);
    rules_check(l);
}

int spec_load(const char *path, const struct spec_overrides *overrides, struct arena *arena, struct spec **ret_spec,
              struct diagnostics *diagnostics, struct error *err)
{
    static const struct spec_overrides none = {0};
    char real[PATH_MAX];
    struct doc *doc;
    size_t errors = diagnostics->errors;
    if (doc_load_file(path, DOC_FORMAT_AUTO, arena, &doc, diagnostics, err) != 0)
        return -1;
    doc_hidden_says(doc, "what stands here is not what a spec has here");
    if (!realpath(path, real))
        return error_set(err, ERROR_SPEC, "cannot find \"%s\"", path);
    struct spec *spec = arena_alloc(arena, sizeof *spec);
    struct load l = {.arena = arena, .spec = spec, .over = overrides ? overrides : &none, .diagnostics = diagnostics};
    l.root = doc_clone(arena, doc->root); /* overrides change it, and aliases share */
    spec->path = arena_strdup(arena, path);
    spec->real_path = arena_strdup(arena, real);
    spec->dir = arena_strndup(arena, real, (size_t)(strrchr(real, '/') - real));
    if (!*spec->dir)
        spec->dir = "/";
    spec->doc = doc;
    spec->args = l.over->args;
    spec->arg_count = l.over->arg_count;
    spec->on = l.over->on;
    spec->sets = l.over->sets;
    spec->set_count = l.over->set_count;
    bool brief = l.over->identity_only && is_object(l.root);
    if (brief && identify_only(&l, real) == 0) {
        *ret_spec = spec;
        return 0;
    }
    if (!brief)
        bind_all(&l);
    size_t faults = diagnostics->errors - errors;
    if (faults > 0)
        return error_set(err, ERROR_SPEC, "%s: %zu fault%s", path, faults, faults == 1 ? "" : "s");
    identify(&l, real);
    *ret_spec = spec;
    return 0;
}
