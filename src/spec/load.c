/*
 * spec_load: the stages in order. Each goes on even if an earlier one found faults, so that all faults are reported at
 * once. Then the identity of the job: its origin, variant and hash.
 */
#include "internal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* The job's name if the file gives none: the file's stem, with characters that a name cannot have replaced. */
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
    spec_job_id(spec_id_name(spec), spec_id_origin(spec), id);
    return arena_strdup(arena, id);
}

/* Made from the params, the words after -- and the job. It names files on nodes, so the way it is made must never
 * change. */
static const char *variant_of(const struct spec *spec, const struct spec_param *values, struct arena *a)
{
    struct doc_node *variant = doc_new_object(a), *params = doc_new_object(a);
    for (size_t i = 0; i < spec->param_count; i++)
        if (values[i].value)
            doc_set(a, params, values[i].name, doc_new_string(a, values[i].value));
    doc_set(a, variant, "name", doc_new_string(a, spec_id_name(spec)));
    doc_set(a, variant, "origin", doc_new_string(a, spec_id_origin(spec)));
    doc_set(a, variant, "params", params);
    doc_set(a, variant, "args", strings(a, spec->args, spec->arg_count));
    return arena_strndup(a, digest_of(a, variant), 16);
}

static void put_variants(struct load *l)
{
    struct spec *spec = l->spec;
    const struct spec_sweep *s = spec->sweep;
    struct arena *scratch = arena_create();
    spec->variant = variant_of(spec, spec->params, l->arena);
    for (size_t i = 0; s && i < s->all_count; i++, arena_reset(scratch))
        s->all[i].variant = arena_strdup(l->arena, variant_of(spec, s->all[i].params, scratch));
    for (size_t i = 0; s && i < s->point_count; i++)
        s->points[i].variant =
            s->own ? variant_of(spec, s->points[i].params, l->arena) : s->all[s->points[i].index].variant;
    arena_destroy(scratch);
}

/* The job may continue the history of a job with another name or origin. */
static void find_identity(struct load *l, const char *real_path)
{
    struct spec *spec = l->spec;
    struct error err = ERROR_INIT;
    spec->origin = spec->lock ? lock_origin(l) : origin_find(real_path, l->arena);
    const char *name = spec->name, *origin = spec->origin;
    if (!l->over->identity || !name || spec->lock)
        return;
    if (l->over->identity(l->over->arg, l->arena, &name, &origin, &err) < 0) {
        struct place top = {.source = &l->spec->doc->source, 1, 1, 1, 1};
        struct diagnostic *d = diagnostics_add(l->diagnostics, SEVERITY_ERROR, top, "%s", err.text);
        if (err.hint[0])
            diagnostic_hint(d, "%s", err.hint);
    } else if (!str_eq(name, spec->name) || !str_eq(origin, spec->origin)) {
        spec->id_name = name;
        spec->id_origin = origin;
    }
}

static int identify(struct load *l, const char *real_path)
{
    struct spec *spec = l->spec;
    struct arena *a = l->arena;
    const size_t errors = l->diagnostics->errors;
    find_identity(l, real_path);
    if (l->diagnostics->errors > errors)
        return -1;
    spec->resolved = spec_normalise(l);
    struct doc_node *whole = doc_new_array(a);
    doc_append(a, whole, doc_clone(a, spec->resolved));
    doc_append(a, whole, strings(a, spec->args, spec->arg_count));
    spec->hash = digest_of(a, whole);
    put_variants(l);
    spec->job_id = job_id_of(spec, a);
    return 0;
}

/* Reads only what identifies the job and, with params or arguments, its variant. */
static int identify_only(struct load *l, const char *real_path)
{
    struct spec *spec = l->spec;
    size_t errors = l->diagnostics->errors;
    overrides_apply(l); /* --set name=... */
    bind_name(l);
    find_identity(l, real_path);
    if (l->diagnostics->errors > errors)
        return -1;
    spec->job_id = job_id_of(spec, l->arena);
    if (l->over->param_count || l->over->args) {
        params_bind(l);
        sweep_bind(l);
        if (l->diagnostics->errors > errors)
            return -1;
        put_variants(l);
    }
    return 0;
}

static void bind_all(struct load *l)
{
    overrides_apply(l);
    lock_put_cluster(l);
    doc_refuse_nul(l->root, l->diagnostics);
    schema_check(l);
    if (!is_object(l->root))
        return;
    any_of_choose(l);
    bind_name(l);
    distributed_bind(l);
    params_bind(l);
    sweep_bind(l);
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
    ports_bind(l);
    distributed_bind_flags(l);
    failure_rules_bind(l);
    sweep_check(l);
    rules_check(l);
    here_check(l);
}

/* A spec that is valid with one alternative may be invalid with another: found here, not after machines were rented. */
static void check_others(struct load *l, const char *path)
{
    for (uint32_t k = 2; l->any_of && l->over->alternative == 0 && k <= l->any_of->count; k++) {
        struct spec_overrides o = *l->over;
        struct diagnostics unused = {0};
        struct spec *spec;
        o.alternative = k;
        const int rc = spec_load(path, &o, l->arena, &spec, &unused, NULL);
        diagnostics_free(&unused);
        if (rc == 0)
            continue;
        spec_load(path, &o, l->arena, &spec, l->diagnostics, NULL);
        note(l, place_of(l->any_of->items[k - 1]), "with this alternative");
        return;
    }
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
    doc_hidden_says(doc, "the value here is not valid in a spec");
    if (!realpath(path, real))
        return error_set(err, ERROR_SPEC, "cannot find \"%s\"", path);
    struct spec *spec = arena_alloc(arena, sizeof *spec);
    struct load l = {.arena = arena, .spec = spec, .over = overrides ? overrides : &none, .diagnostics = diagnostics};
    spec->path = arena_strdup(arena, path);
    spec->real_path = arena_strdup(arena, real);
    spec->dir = arena_strndup(arena, real, (size_t)(strrchr(real, '/') - real));
    if (!*spec->dir)
        spec->dir = "/";
    if (spec_is_lock(doc->root) && lock_open(&l, &doc, real, err) < 0)
        return -1;
    l.root = doc_clone(arena, doc->root); /* overrides change it, and aliases share */
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
    if (diagnostics->errors == errors && !brief)
        check_others(&l, path);
    size_t faults = diagnostics->errors - errors;
    if (faults > 0)
        return error_set(err, ERROR_SPEC, "%s: %zu fault%s", path, faults, faults == 1 ? "" : "s");
    if (identify(&l, real) < 0)
        return error_set(err, ERROR_SPEC, "%s: 1 fault", path);
    if (!brief && l.over->locked && !spec->lock)
        lock_hold(&l);
    if (!brief && spec->lock && diagnostics->errors == errors)
        lock_pin(&l);
    faults = diagnostics->errors - errors;
    if (faults > 0) {
        error_set(err, ERROR_SPEC, "%s: %zu thing%s not as %s.lock.yaml has it", path, faults,
                  faults == 1 ? " is" : "s are", spec->name);
        error_hint(err, "rhrun rerun takes the lock as it is; rhrun run --lock writes it anew");
        return -1;
    }
    *ret_spec = spec;
    return 0;
}
