/*
 * The embedded schema against the document. Where a rule in C tells a fault better (both places of two
 * forms that exclude each other), the schema's own keyword for it, there for editors, is taken out first.
 */
#include "internal.h"
#include "rhrun/schema.h"

#include <string.h>

extern const char rhrun_job_schema[];
extern const uint64_t rhrun_job_schema_size;

const char *spec_schema_text(void)
{
    return rhrun_job_schema;
}

/* Keys of later versions that people will try: told apart from typing errors. * is one part of a path. */
static const char *const later_keys[] = {
    "/slurm", "/resources", "/cluster/any_of", "/cluster/slurm", NULL,
};

/* Keys that people look for in the wrong place, or under another name. */
static const struct {
    const char *path, *hint;
} known_elsewhere[] = {
    {"/function", "it belongs to entrypoint: entrypoint: {function: module:function}"},
    {"/script", "it belongs to entrypoint: entrypoint: {script: FILE}"},
    {"/run", "it belongs to entrypoint: entrypoint: {run: TEXT}; steps before it are setup"},
    {"/entrypoint/outputs", "outputs stands at the top level"},
    {"/roles/*/max_restarts", "it belongs to distributed of the top level: a restart starts all roles again"},
    {"/roles/*/distributed/max_restarts",
     "it belongs to distributed of the top level: a restart starts all roles again"},
    {"/roles/*/distributed/launcher", "launcher: native starts roles, and it belongs to distributed of the top level"},
    {"/roles/*/distributed/devices", "it belongs to distributed of the top level, or to a host"},
    {"/roles/*/distributed/cpu_affinity", "it belongs to distributed of the top level"},
    {"/roles/*/distributed/preflight", "it belongs to distributed of the top level"},
    {"/roles/*/workdir",
     "it belongs to the top level: all roles work in the same files; files and copy put others beside them"},
    {"/roles/*/activate", "it belongs to the top level: it is sourced once per node"},
    {"/roles/*/secrets", "it belongs to the top level"},
    {"/roles/*/log_limit", "it belongs to the top level"},
    {"/roles/*/entrypoint/prolog", "it belongs to the top level's entrypoint: it runs once on every node"},
    {"/roles/*/entrypoint/epilog", "it belongs to the top level's entrypoint: it runs once on every node"},
    {"/roles/*/entrypoint/always", "it belongs to the top level's entrypoint"},
    {"/roles/*/script", "it belongs to the role's entrypoint: entrypoint: {script: FILE}"},
    {"/roles/*/run", "it belongs to the role's entrypoint: entrypoint: {run: TEXT}"},
    {"/roles/*/args", "it belongs to the role's entrypoint: entrypoint: {args: [...]}"},
    {"/packages/*/reqs", "requirements: FILE, or \"reqs:PATH\" without a blank"},
    {"/setup/*/reqs", "requirements: FILE"},
    {"/packages/*/local", "workdir: . sends the folder to every node; pip: ./ installs it as a package"},
    {"/setup/*/local", "workdir: . sends the folder to every node; pip: ./ installs it as a package"},
    {"/workdir/url", "did you mean git?"},
    {"/cluster/cpus", "instance says it: cpu:8+"},
    {"/cluster/memory", "instance says it, in GiB: \"cpu:8+ memory:32+\""},
};

static bool matches(const char *pattern, const char *path)
{
    while (*pattern && *path) {
        if (*pattern == '*') {
            pattern++;
            path += strcspn(path, "/");
        } else if (*pattern++ != *path++) {
            return false;
        }
    }
    return !*pattern && !*path;
}

/* What a role takes as the top level does is told as there: behind "/roles/NAME". */
static const char *in_role(const char *path)
{
    static const char *const parts[] = {"/cluster/", "/packages/", "/setup/", "/files/", "/outputs/", NULL};
    const char *rest = str_starts(path, "/roles/") ? strchr(path + 7, '/') : NULL;
    for (const char *const *part = parts; rest && *part; part++)
        if (str_starts(rest, *part))
            return rest;
    return path;
}

static void hint_flag(struct diagnostic *d)
{
    const char *key = strrchr(d->path, '/') + 1;
    if (matches("/roles/*/distributed/*", d->path) && torchrun_flag_find(key, strlen(key)) && !str_starts(key, "max_"))
        diagnostic_hint(d, "launcher: native starts roles, and %s is torchrun's", key);
}

static void hint_later(struct diagnostics *diagnostics, size_t first, const struct doc_node *checked)
{
    for (size_t i = first; i < diagnostics->count; i++) {
        struct diagnostic *d = &diagnostics->items[i];
        if (d->severity != SEVERITY_ERROR || !d->path)
            continue;
        const struct doc_node *value = doc_get_path(checked, d->path);
        if (matches("/failure_rules/*/action", d->path) && value && value->type == DOC_STRING &&
            str_eq(value->text, "replace_node"))
            diagnostic_hint(d, "replace_node comes with on-demand clusters");
        if (!d->unknown_key)
            continue;
        const char *path = in_role(d->path);
        hint_flag(d);
        for (const char *const *key = later_keys; *key; key++)
            if (matches(*key, path))
                diagnostic_hint(d, "%s is not in this version of rhrun", strrchr(d->path, '/') + 1);
        for (size_t k = 0; k < ARRAY_LEN(known_elsewhere); k++)
            if (matches(known_elsewhere[k].path, path))
                diagnostic_hint(d, "%s", known_elsewhere[k].hint);
    }
}

static void check(struct load *l, const struct doc_node *node, const char *definition)
{
    struct doc *doc;
    struct schema *schema;
    struct error err = ERROR_INIT;
    if (doc_load_text("job.schema.json", rhrun_job_schema, (size_t)rhrun_job_schema_size, DOC_FORMAT_JSON, l->arena,
                      &doc, l->diagnostics, &err) != 0)
        return;
    struct doc_node *defs = doc_get(doc->root, "$defs");
    doc_remove(doc_get(doc->root, "else"), "properties");
    doc_remove(doc_get(defs, "cluster_object"), "anyOf");
    doc_remove(doc_get(defs, "cluster_object"), "not");
    doc_remove(doc_get(defs, "host"), "anyOf");
    doc_remove(doc_get(defs, "secret"), "not");
    doc_remove(doc_get(defs, "source"), "not");
    doc_remove(doc_get(defs, "source"), "dependentRequired");
    doc_remove(doc_get(defs, "step"), "oneOf");
    struct doc_node *root = doc->root;
    if (definition) {
        root = doc_new_object(l->arena);
        doc_set(l->arena, root, "$ref", doc_new_string(l->arena, definition));
        doc_set(l->arena, root, "$defs", defs);
    }
    size_t first = l->diagnostics->count;
    if (schema_compile(root, l->arena, &schema, l->diagnostics, &err) != 0)
        return;
    schema_validate(schema, node, l->diagnostics);
    schema_destroy(schema);
    hint_later(l->diagnostics, first, node);
}

void schema_check(struct load *l)
{
    check(l, l->root, NULL);
}

void schema_check_cluster(struct load *l, const struct doc_node *node)
{
    check(l, node, "#/$defs/cluster_object");
}
