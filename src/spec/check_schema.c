/*
 * The embedded schema against the document. Where a rule in C reports a fault better (with both places of two forms
 * that exclude each other), the schema's own keyword for it, which is for editors, is removed first.
 */
#include "internal.h"
#include "rhrun/schema.h"

#include <stdlib.h>
#include <string.h>

extern const char rhrun_job_schema[];
extern const char rhrun_job_schema_packed[]; /* without descriptions: it is read at each start */
extern const uint64_t rhrun_job_schema_packed_size;

const char *spec_schema_text(void)
{
    return rhrun_job_schema;
}

/* Compiles the schema without the keywords that rules in C report better. */
static int compile(const char *definition, struct arena *arena, struct diagnostics *diagnostics, struct schema **ret)
{
    struct doc *doc;
    struct error err = ERROR_INIT;
    if (doc_load_text("job.schema.json", rhrun_job_schema_packed, (size_t)rhrun_job_schema_packed_size, DOC_FORMAT_JSON,
                      arena, &doc, diagnostics, &err) != 0)
        return -1;
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
        root = doc_new_object(arena);
        doc_set(arena, root, "$ref", doc_new_string(arena, definition));
        doc_set(arena, root, "$defs", defs);
    }
    return schema_compile(root, arena, ret, diagnostics, &err);
}

struct spec_checker {
    struct arena *arena;
    struct schema *schema; /* NULL: not compiled yet */
};

struct spec_checker *spec_checker_create(void)
{
    struct spec_checker *c = xcalloc(1, sizeof *c);
    c->arena = arena_create();
    return c;
}

void spec_checker_destroy(struct spec_checker *c)
{
    if (!c)
        return;
    schema_destroy(c->schema);
    arena_destroy(c->arena);
    free(c);
}

static void check(struct load *l, const struct doc_node *node, const char *definition)
{
    struct spec_checker *kept = definition ? NULL : l->over->checker;
    struct schema *schema = kept ? kept->schema : NULL;
    if (!schema && compile(definition, kept ? kept->arena : l->arena, l->diagnostics, &schema) != 0)
        return;
    const size_t first = l->diagnostics->count;
    schema_validate(schema, node, l->diagnostics);
    if (kept)
        kept->schema = schema;
    else
        schema_destroy(schema);
    elsewhere_hint(node, l->diagnostics, first);
}

void schema_check(struct load *l)
{
    if (l->root->type == DOC_NULL) {
        struct diagnostic *d = fault(l, place_of(l->root), "the file is empty");
        diagnostic_expected(d, "a spec; the shortest one is a line: entrypoint: {run: echo hello}");
        return;
    }
    const size_t first = l->diagnostics->count;
    check(l, l->root, NULL);
    if (l->root->type != DOC_OBJECT && l->diagnostics->count > first)
        diagnostic_hint(&l->diagnostics->items[first], "a spec is YAML of keys and values, and names what to run: "
                                                       "entrypoint: {script: train.py}; rhrun init writes one");
}

void schema_check_cluster(struct load *l, const struct doc_node *node)
{
    check(l, node, "#/$defs/cluster_object");
}
