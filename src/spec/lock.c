/* Locks as specs: a lock names everything that a run was made from, so it can be given in place of a spec. */
#include "internal.h"
#include "rhrun/schema.h"

#include <string.h>
#include <sys/stat.h>

extern const char rhrun_lock_schema[];
extern const uint64_t rhrun_lock_schema_size;

enum { LOCK_FORMAT = 1 };

const char *spec_lock_schema_text(void)
{
    return rhrun_lock_schema;
}

bool spec_is_lock(const struct doc_node *root)
{
    return doc_get(root, "lock") && (doc_get(root, "points") || doc_get(root, "run")) && !doc_get(root, "entrypoint");
}

/* In a lock of another version nothing else is checked: its keys may differ. */
static int check_version(const struct doc *doc, struct diagnostics *diagnostics, struct error *err)
{
    const struct doc_node *version = doc_get(doc->root, "lock");
    int64_t n;
    if (doc_is_integer(version, &n) && n == LOCK_FORMAT)
        return 0;
    struct buf b = {0};
    doc_describe(version, &b);
    struct diagnostic *d = diagnostics_add(diagnostics, SEVERITY_ERROR, version->place,
                                           "this is a lock of version %s, and this rhrun (%s) reads version %d",
                                           b.data ? b.data : "?", RHRUN_VERSION, LOCK_FORMAT);
    diagnostic_hint(d, "the rhrun that wrote it reads it, or one that is %s",
                    doc_is_integer(version, &n) && n > LOCK_FORMAT ? "newer than this" : "as old");
    error_set(err, ERROR_SPEC, "%s: a lock of version %s cannot be read", doc->source.name, b.data ? b.data : "?");
    buf_free(&b);
    return -1;
}

int spec_check_lock(const struct doc *doc, struct arena *arena, struct diagnostics *diagnostics, struct error *err)
{
    struct doc *text;
    struct schema *schema;
    size_t errors = diagnostics->errors;
    if (!spec_is_lock(doc->root)) {
        error_set(err, ERROR_SPEC, "\"%s\" is not a lock", doc->source.name);
        error_hint(err, "rhrun show RUN --lock prints one, rhrun run --lock writes it beside the spec");
        return -1;
    }
    if (check_version(doc, diagnostics, err) < 0)
        return -1;
    if (doc_load_text("lock.schema.json", rhrun_lock_schema, (size_t)rhrun_lock_schema_size, DOC_FORMAT_JSON, arena,
                      &text, diagnostics, err) != 0 ||
        schema_compile(text->root, arena, &schema, diagnostics, err) != 0)
        return -1;
    schema_validate(schema, doc->root, diagnostics);
    schema_destroy(schema);
    doc_refuse_nul(doc->root, diagnostics);
    size_t faults = diagnostics->errors - errors;
    if (faults == 0)
        return 0;
    error_set(err, ERROR_SPEC, "%s: the lock has %zu fault%s", doc->source.name, faults, faults == 1 ? "" : "s");
    error_hint(err, "rhrun schema lock says what a lock has; rhrun show RUN --lock prints that of a run again");
    return -1;
}

/* ---- a lock as a spec ---- */

/* Whether a param is the same in all points; with such params alone, a sweep stays a sweep. */
static bool is_common(const struct doc_node *points, const char *name, const char *value)
{
    for (size_t i = 0; i < points->count; i++)
        if (!str_eq(doc_get_text(doc_get(points->items[i], "params"), name, NULL), value))
            return false;
    return true;
}

static const char **join(struct arena *a, const char *const *first, size_t first_count, const char *const *more,
                         size_t more_count)
{
    const char **all = arena_array(a, first_count + more_count + 1, sizeof *all);
    for (size_t i = 0; i < first_count; i++)
        all[i] = first[i];
    for (size_t i = 0; i < more_count; i++)
        all[first_count + i] = more[i];
    return all;
}

static const char **texts_in(struct arena *a, const struct doc_node *list, size_t *ret_count)
{
    size_t count = list ? list->count : 0;
    const char **texts = arena_array(a, count + 1, sizeof *texts);
    for (size_t i = 0; i < count; i++)
        texts[i] = list->items[i]->text;
    *ret_count = count;
    return texts;
}

/* The options of the run, overridden by those with which the lock is loaded. A caller that asks only for the job names
 * no variant. */
static void merge_overrides(struct load *l, const struct doc_node *root)
{
    struct arena *a = l->arena;
    struct spec_overrides *o = arena_alloc(a, sizeof *o);
    const struct doc_node *points = doc_get(root, "points"), *params = doc_get(points->items[0], "params");
    size_t count = 0, own;
    *o = *l->over;
    const char **texts = texts_in(a, doc_get(doc_get(root, "spec"), "sets"), &own);
    o->sets = join(a, texts, own, o->sets, o->set_count);
    o->set_count += own;
    o->locked = false;
    if (!o->identity_only || o->param_count > 0 || o->args) {
        texts = arena_array(a, params->count + 1, sizeof *texts);
        for (size_t i = 0; i < params->count; i++)
            if (is_common(points, params->members[i].key, params->members[i].value->text))
                texts[count++] = arena_printf(a, "%s=%s", params->members[i].key, params->members[i].value->text);
        o->params = join(a, texts, count, o->params, o->param_count);
        o->param_count += count;
        if (!o->args || o->arg_count == 0)
            o->args = texts_in(a, doc_get(points->items[0], "args"), &o->arg_count);
    }
    l->over = o;
}

static bool is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int lock_open(struct load *l, struct doc **doc, const char *real_path, struct error *err)
{
    struct spec *spec = l->spec;
    struct doc_node *root = (*doc)->root;
    struct spec_lock *lock = arena_alloc(l->arena, sizeof *lock);
    if (spec_check_lock(*doc, l->arena, l->diagnostics, err) < 0)
        return -1;
    const struct doc_node *given = doc_get(root, "spec");
    const char *text = doc_get_text(given, "text", ""), *path = doc_get_text(given, "path", "");
    const char *slash = strrchr(path, '/'), *name = arena_printf(l->arena, "%s: spec.text", (*doc)->source.name);
    if (!*text)
        return error_set(err, ERROR_SPEC, "\"%s\": the spec's text is not in the lock: its journal does not have it",
                         spec->path);
    if (doc_load_text(name, text, strlen(text), str_ends(path, ".json") ? DOC_FORMAT_JSON : DOC_FORMAT_YAML, l->arena,
                      doc, l->diagnostics, err) != 0)
        return -1;
    *lock = (struct spec_lock){.root = root,
                               .path = arena_strdup(l->arena, real_path),
                               .run = doc_get_string(doc_get(root, "run"), "id", ""),
                               .repeats = true};
    spec->lock = lock;
    merge_overrides(l, root);
    if (slash > path && is_dir(arena_strndup(l->arena, path, (size_t)(slash - path))))
        spec->dir = arena_strndup(l->arena, path, (size_t)(slash - path));
    if (is_object((*doc)->root) && !doc_get((*doc)->root, "name"))
        doc_set(l->arena, (*doc)->root, "name",
                doc_new_string(l->arena, doc_get_text(doc_get(root, "job"), "name", "job")));
    return 0;
}

/* A cluster's name may mean another cluster today, so the hosts come from the lock. */
void lock_put_cluster(struct load *l)
{
    const struct doc_node *resolved = l->spec->lock ? doc_get_path(l->spec->lock->root, "/spec/resolved") : NULL;
    const struct doc_node *cluster = doc_get(resolved, "cluster"), *roles = doc_get(l->root, "roles");
    if (!resolved || l->over->on || !is_object(l->root))
        return;
    if (cluster && doc_get(l->root, "cluster"))
        doc_set(l->arena, l->root, "cluster", doc_clone(l->arena, cluster));
    for (size_t i = 0; is_object(roles) && i < roles->count; i++) {
        const struct doc_node *was = doc_get(doc_get(doc_get(resolved, "roles"), roles->members[i].key), "cluster");
        if (was && doc_get(roles->members[i].value, "cluster"))
            doc_set(l->arena, roles->members[i].value, "cluster", doc_clone(l->arena, was));
    }
}

/* Made from the parts that decide what is done; the lock's hosts and times do not count. */
const char *lock_origin(struct load *l)
{
    static const char *const parts[] = {"/spec/text", "/spec/sets", "/spec/on", "/spec/resolved/cluster",
                                        "/trees",     "/installs"};
    const struct spec_lock *lock = l->spec->lock;
    struct doc_node *whole = doc_new_object(l->arena);
    struct buf json = {0};
    char hex[65];
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        const struct doc_node *part = doc_get_path(lock->root, parts[i]);
        if (part)
            doc_set(l->arena, whole, parts[i], doc_clone(l->arena, part));
    }
    doc_to_json(whole, DOC_JSON_CANONICAL, &json);
    digest_sha256_hex(json.data, json.len, hex);
    buf_free(&json);
    return arena_printf(l->arena, "rerun of %s by lock %.16s", lock->run, hex);
}

/* ---- checking a spec against a lock ---- */

enum { DRIFTS_MAX = 50 };

static void drift(struct load *l, const char *path, const struct doc_node *now, const struct doc_node *then)
{
    struct buf is = {0}, was = {0};
    if (now)
        doc_describe(now, &is);
    if (then)
        doc_describe(then, &was);
    fault(l, (struct place){0}, "%s is %s, the lock has %s", path, now ? is.data : "not there",
          then ? was.data : "nothing there");
    buf_free(&is);
    buf_free(&was);
}

static void compare(struct load *l, const char *path, const struct doc_node *now, const struct doc_node *then)
{
    if (l->diagnostics->errors > DRIFTS_MAX || doc_equal(now, then))
        return;
    if (now->type == DOC_OBJECT && then->type == DOC_OBJECT) {
        for (size_t i = 0; i < now->count; i++) {
            const struct doc_node *other = doc_get(then, now->members[i].key);
            const char *below = arena_printf(l->arena, "%s%s%s", path, *path ? "." : "", now->members[i].key);
            if (other)
                compare(l, below, now->members[i].value, other);
            else
                drift(l, below, now->members[i].value, NULL);
        }
        for (size_t i = 0; i < then->count; i++)
            if (!doc_get(now, then->members[i].key))
                drift(l, arena_printf(l->arena, "%s%s%s", path, *path ? "." : "", then->members[i].key), NULL,
                      then->members[i].value);
    } else if (now->type == DOC_ARRAY && then->type == DOC_ARRAY && now->count == then->count) {
        for (size_t i = 0; i < now->count; i++)
            compare(l, arena_printf(l->arena, "%s[%zu]", path, i), now->items[i], then->items[i]);
    } else {
        drift(l, path, now, then);
    }
}

void lock_hold(struct load *l)
{
    struct spec *spec = l->spec;
    struct doc *doc;
    struct error err = ERROR_INIT;
    size_t errors = l->diagnostics->errors;
    const char *path = arena_printf(l->arena, "%s/%s.lock.yaml", spec->dir, spec->name);
    if (doc_load_file(path, DOC_FORMAT_YAML, l->arena, &doc, l->diagnostics, &err) != 0 ||
        spec_check_lock(doc, l->arena, l->diagnostics, &err) < 0) {
        if (l->diagnostics->errors == errors)
            diagnostic_hint(fault(l, (struct place){0}, "--locked: %s", err.text),
                            "rhrun run --lock writes the lock beside the spec");
        return;
    }
    struct spec_lock *lock = arena_alloc(l->arena, sizeof *lock);
    *lock =
        (struct spec_lock){.root = doc->root, .path = path, .run = doc_get_string(doc_get(doc->root, "run"), "id", "")};
    const struct doc_node *then = doc_get_path(doc->root, "/spec/resolved");
    const struct doc_node *args = doc_get_path(doc->root, "/points/0/args");
    struct doc_node *now = doc_new_array(l->arena);
    if (then)
        compare(l, "", spec->resolved, then);
    else
        fault(l, (struct place){0}, "the lock does not have the spec with everything filled in");
    for (size_t i = 0; i < spec->arg_count; i++)
        doc_append(l->arena, now, doc_new_string(l->arena, spec->args[i]));
    if (args)
        compare(l, "the words after --", now, args);
    spec->lock = lock;
}
