/*
 * Compiling: one table names every keyword, its form and its field; a walk over the places of subschemas makes one
 * struct for each, and records resources and anchors; then references are bound, which may add further documents, until
 * nothing is left to bind.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum form {
    FORM_SCHEMA,
    FORM_SCHEMAS,
    FORM_SCHEMA_MAP,
    FORM_PATTERN_MAP,
    FORM_COUNT,
    FORM_NUMBER,
    FORM_POSITIVE,
    FORM_PATTERN,
    FORM_BOOL,
    FORM_TEXT,
    FORM_TYPES,
    FORM_VALUES,
    FORM_ANY,
    FORM_KEYS,
    FORM_KEY_MAP,
    FORM_ANCHOR,
};

struct keyword {
    const char *name;
    enum form form;
    size_t offset;
};

#define FIELD(name) offsetof(struct subschema, name)
static const struct keyword keywords[] = {
    {"$ref", FORM_TEXT, FIELD(ref)},
    {"$dynamicRef", FORM_TEXT, FIELD(dynamic_ref)},
    {"$anchor", FORM_ANCHOR, 0},
    {"$dynamicAnchor", FORM_ANCHOR, 0},
    {"$defs", FORM_SCHEMA_MAP, FIELD(defs)},
    {"type", FORM_TYPES, FIELD(types)},
    {"const", FORM_ANY, FIELD(const_value)},
    {"enum", FORM_VALUES, FIELD(enum_values)},
    {"multipleOf", FORM_POSITIVE, FIELD(multiple_of)},
    {"maximum", FORM_NUMBER, FIELD(maximum)},
    {"minimum", FORM_NUMBER, FIELD(minimum)},
    {"exclusiveMaximum", FORM_NUMBER, FIELD(exclusive_maximum)},
    {"exclusiveMinimum", FORM_NUMBER, FIELD(exclusive_minimum)},
    {"maxLength", FORM_COUNT, FIELD(max_length)},
    {"minLength", FORM_COUNT, FIELD(min_length)},
    {"pattern", FORM_PATTERN, FIELD(pattern)},
    {"maxItems", FORM_COUNT, FIELD(max_items)},
    {"minItems", FORM_COUNT, FIELD(min_items)},
    {"uniqueItems", FORM_BOOL, FIELD(unique_items)},
    {"maxContains", FORM_COUNT, FIELD(max_contains)},
    {"minContains", FORM_COUNT, FIELD(min_contains)},
    {"maxProperties", FORM_COUNT, FIELD(max_properties)},
    {"minProperties", FORM_COUNT, FIELD(min_properties)},
    {"required", FORM_KEYS, FIELD(required)},
    {"dependentRequired", FORM_KEY_MAP, FIELD(dependent_required)},
    {"properties", FORM_SCHEMA_MAP, FIELD(properties)},
    {"patternProperties", FORM_PATTERN_MAP, FIELD(pattern_properties)},
    {"additionalProperties", FORM_SCHEMA, FIELD(additional_properties)},
    {"propertyNames", FORM_SCHEMA, FIELD(property_names)},
    {"dependentSchemas", FORM_SCHEMA_MAP, FIELD(dependent_schemas)},
    {"prefixItems", FORM_SCHEMAS, FIELD(prefix_items)},
    {"items", FORM_SCHEMA, FIELD(items)},
    {"contains", FORM_SCHEMA, FIELD(contains)},
    {"allOf", FORM_SCHEMAS, FIELD(all_of)},
    {"anyOf", FORM_SCHEMAS, FIELD(any_of)},
    {"oneOf", FORM_SCHEMAS, FIELD(one_of)},
    {"not", FORM_SCHEMA, FIELD(negated)},
    {"if", FORM_SCHEMA, FIELD(condition)},
    {"then", FORM_SCHEMA, FIELD(consequence)},
    {"else", FORM_SCHEMA, FIELD(alternative)},
    {"unevaluatedItems", FORM_SCHEMA, FIELD(unevaluated_items)},
    {"unevaluatedProperties", FORM_SCHEMA, FIELD(unevaluated_properties)},
    {"contentSchema", FORM_SCHEMA, FIELD(content)},
    {"x-expected", FORM_TEXT, FIELD(expected)},
    {"x-hint", FORM_TEXT, FIELD(hint)},
};

struct compiler {
    struct schema *schema;
    struct arena *arena;
    struct diagnostics *diagnostics;
    const struct schema_document *documents;
    size_t document_count;
    struct map keywords;        /* name to struct keyword */
    struct map subs;            /* doc_node pointer to subschema */
    struct map resources;       /* URI to resource */
    struct subschema **pending; /* to be bound; malloc */
    size_t pending_count, pending_cap;
};

static struct subschema *compile_sub(struct compiler *c, const struct doc_node *node, struct resource *resource);

static struct diagnostic *fault(struct compiler *c, const struct doc_node *node, const char *keyword, const char *must)
{
    return diagnostics_add(c->diagnostics, SEVERITY_ERROR, node->place, "keyword \"%s\" must be %s", keyword, must);
}

static struct subschema *find_sub(const struct compiler *c, const struct doc_node *node)
{
    return map_get(&c->subs, &node, sizeof node);
}

/* ---- the forms ---- */

static unsigned type_named(const char *name)
{
    static const struct {
        const char *name;
        unsigned bit;
    } types[] = {{"null", TYPE_NULL},     {"boolean", TYPE_BOOLEAN}, {"integer", TYPE_INTEGER}, {"number", TYPE_NUMBER},
                 {"string", TYPE_STRING}, {"array", TYPE_ARRAY},     {"object", TYPE_OBJECT}};
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (strcmp(types[i].name, name) == 0)
            return types[i].bit;
    return 0;
}

static unsigned read_types(struct compiler *c, const struct doc_node *value)
{
    static const char *const names[] = {"null", "boolean", "integer", "number", "string", "array", "object", NULL};
    const struct doc_node *single[] = {value};
    const struct doc_node *const *list =
        value->type == DOC_ARRAY ? (const struct doc_node *const *)value->items : single;
    size_t count = value->type == DOC_ARRAY ? value->count : 1;
    unsigned types = 0;
    for (size_t i = 0; i < count; i++) {
        unsigned bit = list[i]->type == DOC_STRING ? type_named(list[i]->text) : 0;
        if (!bit) {
            struct diagnostic *item = fault(c, list[i], "type", "the name of a type, or a list of names");
            diagnostic_expected(item, "one of null, boolean, integer, number, string, array, object");
            const char *near = list[i]->type == DOC_STRING ? str_nearest(list[i]->text, names) : NULL;
            if (near)
                diagnostic_hint(item, "did you mean %s?", near);
        }
        types |= bit;
    }
    return types;
}

static struct pattern *read_pattern(struct compiler *c, struct place place, const char *text, size_t len)
{
    char problem[200];
    struct pattern *pattern = pattern_compile(c->schema, text, len, problem, sizeof problem);
    if (!pattern)
        diagnostics_add(c->diagnostics, SEVERITY_ERROR, place, "the pattern is not valid: %s", problem);
    return pattern;
}

static void read_list(struct compiler *c, const struct keyword *k, const struct doc_node *value, struct sub_list *ret,
                      struct resource *resource)
{
    if (value->type != DOC_ARRAY || value->count == 0) {
        fault(c, value, k->name, "a list of schemas that is not empty");
        return;
    }
    ret->items = arena_array(c->arena, value->count, sizeof(struct subschema *));
    for (size_t i = 0; i < value->count; i++)
        ret->items[i] = compile_sub(c, value->items[i], resource);
    ret->count = value->count;
}

static void read_map(struct compiler *c, const struct keyword *k, const struct doc_node *value, struct sub_map *ret,
                     struct resource *resource)
{
    if (value->type != DOC_OBJECT) {
        fault(c, value, k->name, "a mapping of schemas");
        return;
    }
    ret->items = arena_array(c->arena, value->count, sizeof(struct subschema *));
    if (k->form == FORM_PATTERN_MAP)
        ret->patterns = arena_array(c->arena, value->count, sizeof(struct pattern *));
    for (size_t i = 0; i < value->count; i++) {
        const struct doc_member *m = &value->members[i];
        ret->items[i] = compile_sub(c, m->value, resource);
        if (ret->patterns)
            ret->patterns[i] = read_pattern(c, m->key_place, m->key, m->key_len);
    }
    ret->node = value;
}

static bool is_keys(const struct doc_node *value)
{
    bool good = value->type == DOC_ARRAY;
    for (size_t i = 0; good && i < value->count; i++)
        good = value->items[i]->type == DOC_STRING;
    return good;
}

static bool is_key_map(const struct doc_node *value)
{
    bool good = value->type == DOC_OBJECT;
    for (size_t i = 0; good && i < value->count; i++)
        good = is_keys(value->members[i].value);
    return good;
}

static void read_anchor(struct compiler *c, const struct keyword *k, const struct doc_node *value,
                        struct subschema *sub)
{
    if (value->type != DOC_STRING || value->text_len == 0) {
        fault(c, value, k->name, "a name");
        return;
    }
    struct subschema *other = map_get(&sub->resource->anchors, value->text, value->text_len);
    if (other && other != sub) {
        diagnostics_add(c->diagnostics, SEVERITY_ERROR, value->place, "anchor \"%s\" is given twice", value->text);
        diagnostics_add(c->diagnostics, SEVERITY_NOTE, other->node->place, "it was given here first");
        return;
    }
    map_add(&sub->resource->anchors, c->arena, value->text, value->text_len, sub);
    if (strcmp(k->name, "$dynamicAnchor") == 0)
        map_add(&sub->resource->dynamic, c->arena, value->text, value->text_len, sub);
}

static void read_scalar_keyword(struct compiler *c, const struct keyword *k, const struct doc_node *value, void *field)
{
    bool number = value->type == DOC_INT || value->type == DOC_FLOAT;
    int64_t count;
    if (k->form == FORM_COUNT) {
        bool huge = value->big && value->number > 0;
        if (!huge && (!doc_is_integer(value, &count) || count < 0))
            fault(c, value, k->name, "an integer of at least 0");
        else
            *(uint64_t *)field = huge ? UINT64_MAX : (uint64_t)count;
    } else if (k->form == FORM_NUMBER || k->form == FORM_POSITIVE) {
        if (!number || (k->form == FORM_POSITIVE && !(value->number > 0)))
            fault(c, value, k->name, k->form == FORM_POSITIVE ? "a number above 0" : "a number");
        else
            *(const struct doc_node **)field = value;
    } else if (k->form == FORM_BOOL) {
        if (value->type != DOC_BOOL)
            fault(c, value, k->name, "true or false");
        *(bool *)field = value->boolean;
    } else if (value->type != DOC_STRING) {
        fault(c, value, k->name, "a string");
    } else if (k->form == FORM_PATTERN) {
        *(struct pattern **)field = read_pattern(c, value->place, value->text, value->text_len);
    } else {
        *(const char **)field = value->text;
    }
}

static void read_keyword(struct compiler *c, const struct keyword *k, const struct doc_node *value,
                         struct subschema *sub)
{
    void *field = (char *)sub + k->offset;
    switch (k->form) {
    case FORM_SCHEMA:
        *(struct subschema **)field = compile_sub(c, value, sub->resource);
        return;
    case FORM_SCHEMAS:
        read_list(c, k, value, field, sub->resource);
        return;
    case FORM_SCHEMA_MAP:
    case FORM_PATTERN_MAP:
        read_map(c, k, value, field, sub->resource);
        return;
    case FORM_COUNT:
    case FORM_NUMBER:
    case FORM_POSITIVE:
    case FORM_PATTERN:
    case FORM_BOOL:
    case FORM_TEXT:
        read_scalar_keyword(c, k, value, field);
        return;
    case FORM_TYPES:
        sub->types = read_types(c, value);
        return;
    case FORM_VALUES:
        if (value->type != DOC_ARRAY)
            fault(c, value, k->name, "a list of values");
        else
            sub->enum_values = value;
        return;
    case FORM_ANY:
        *(const struct doc_node **)field = value;
        return;
    case FORM_KEYS:
        if (!is_keys(value))
            fault(c, value, k->name, "a list of strings");
        else
            *(const struct doc_node **)field = value;
        return;
    case FORM_KEY_MAP:
        if (!is_key_map(value))
            fault(c, value, k->name, "a mapping of lists of strings");
        else
            *(const struct doc_node **)field = value;
        return;
    case FORM_ANCHOR:
        read_anchor(c, k, value, sub);
        return;
    }
}

/* ---- subschemas and resources ---- */

static struct resource *add_resource(struct compiler *c, const char *uri, const struct doc_node *root)
{
    struct resource *resource = arena_alloc(c->arena, sizeof *resource);
    size_t len = strcspn(uri, "#");
    resource->uri = arena_strndup(c->arena, uri, len);
    resource->root = root;
    map_add(&c->resources, c->arena, resource->uri, len, resource);
    return resource;
}

static void push_pending(struct compiler *c, struct subschema *sub)
{
    if (c->pending_count == c->pending_cap) {
        c->pending_cap = c->pending_cap > 0 ? c->pending_cap * 2 : 16;
        c->pending = xreallocarray(c->pending, c->pending_cap, sizeof(struct subschema *));
    }
    c->pending[c->pending_count++] = sub;
}

static struct subschema *compile_sub(struct compiler *c, const struct doc_node *node, struct resource *resource)
{
    struct subschema *sub = find_sub(c, node);
    if (sub)
        return sub;
    sub = arena_alloc(c->arena, sizeof *sub);
    const struct doc_node **key = arena_alloc(c->arena, sizeof(const struct doc_node *));
    *key = node;
    map_add(&c->subs, c->arena, key, sizeof(const struct doc_node *), sub);
    sub->node = node;
    sub->resource = resource;
    sub->boolean = node->type != DOC_OBJECT;
    sub->accepts = !sub->boolean || node->boolean;
    sub->max_length = sub->max_items = sub->max_contains = sub->max_properties = UINT64_MAX;
    sub->min_contains = 1;
    if (node->type == DOC_BOOL)
        return sub;
    if (node->type != DOC_OBJECT) {
        struct diagnostic *item = diagnostics_add(c->diagnostics, SEVERITY_ERROR, node->place, "this is not a schema");
        diagnostic_expected(item, "a mapping, or true or false");
        return sub;
    }
    const struct doc_node *id = doc_get(node, "$id");
    if (id && id->type == DOC_STRING && resource->root != node)
        sub->resource = add_resource(c, uri_resolve(c->arena, resource->uri, id->text), node);
    for (size_t i = 0; i < node->count; i++) {
        const struct doc_member *m = &node->members[i];
        const struct keyword *k = map_get(&c->keywords, m->key, m->key_len);
        if (k)
            read_keyword(c, k, m->value, sub);
    }
    if (sub->unevaluated_items || sub->unevaluated_properties)
        c->schema->tracks = true;
    if (sub->ref || sub->dynamic_ref)
        push_pending(c, sub);
    return sub;
}

/* A whole document under the URI by which it is known. */
static struct subschema *compile_document(struct compiler *c, const char *uri, const struct doc_node *root)
{
    const struct doc_node *id = doc_get(root, "$id");
    const char *own = id && id->type == DOC_STRING ? uri_resolve(c->arena, uri, id->text) : uri;
    struct resource *resource = add_resource(c, own, root);
    map_add(&c->resources, c->arena, arena_strdup(c->arena, uri), strcspn(uri, "#"), resource);
    return compile_sub(c, root, resource);
}

/* ---- references ---- */

/* Loads a document that is not compiled yet: one that was given, or the metaschema. */
static struct resource *load_resource(struct compiler *c, const char *uri, size_t len)
{
    char *name = arena_strndup(c->arena, uri, len);
    const char *text = metaschema_text(name);
    struct doc *doc = NULL;
    for (size_t i = 0; i < c->document_count; i++)
        if (strcmp(c->documents[i].uri, name) == 0)
            compile_document(c, name, c->documents[i].root);
    if (text && !map_get(&c->resources, name, len) &&
        doc_load_text(name, text, strlen(text), DOC_FORMAT_JSON, c->arena, &doc, c->diagnostics, NULL) == 0)
        compile_document(c, name, doc->root);
    return map_get(&c->resources, name, len);
}

/* The subschema at a JSON pointer; the nearest compiled ancestor gives its resource. */
static struct subschema *at_pointer(struct compiler *c, struct resource *resource, const char *pointer)
{
    const struct doc_node *node = doc_get_path(resource->root, pointer);
    if (!node)
        return NULL;
    struct subschema *sub = find_sub(c, node);
    if (sub)
        return sub;
    struct resource *nearest = resource;
    char *prefix = arena_strdup(c->arena, pointer);
    for (char *slash; (slash = strrchr(prefix, '/'));) {
        *slash = 0;
        const struct doc_node *above = doc_get_path(resource->root, prefix);
        const struct subschema *known = above ? find_sub(c, above) : NULL;
        if (known) {
            nearest = known->resource;
            break;
        }
    }
    return compile_sub(c, node, nearest);
}

static struct subschema *resolve(struct compiler *c, const struct subschema *from, const char *reference,
                                 const char **ret_fragment)
{
    char *uri = uri_resolve(c->arena, from->resource->uri, reference);
    size_t len = strcspn(uri, "#");
    char *fragment = uri_percent_decode(c->arena, uri[len] ? uri + len + 1 : "");
    struct resource *resource = *reference == '#' ? from->resource : map_get(&c->resources, uri, len);
    if (!resource)
        resource = load_resource(c, uri, len);
    *ret_fragment = fragment;
    if (!resource)
        return NULL;
    if (*fragment == 0 || *fragment == '/')
        return at_pointer(c, resource, fragment);
    return map_get(&resource->anchors, fragment, strlen(fragment));
}

static void bind(struct compiler *c, struct subschema *sub)
{
    const char *names[] = {"$ref", "$dynamicRef"}, *references[] = {sub->ref, sub->dynamic_ref};
    struct subschema **targets[] = {&sub->ref_target, &sub->dynamic_target};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *fragment;
        if (!references[i])
            continue;
        struct subschema *target = resolve(c, sub, references[i], &fragment);
        *targets[i] = target;
        if (!target) {
            struct diagnostic *item =
                diagnostics_add(c->diagnostics, SEVERITY_ERROR, doc_get(sub->node, names[i])->place,
                                "no schema is known as \"%s\"", references[i]);
            if (*references[i] != '#')
                diagnostic_hint(item, "references are not fetched; put the schema under $defs with its $id");
        } else if (i == 1 && map_get(&target->resource->dynamic, fragment, strlen(fragment)) == target) {
            sub->dynamic_name = fragment;
        }
    }
}

static void check_dialect(struct compiler *c, const struct doc_node *root)
{
    static const char known[] = "https://json-schema.org/draft/2020-12/schema";
    const struct doc_node *dialect = doc_get(root, "$schema");
    if (!dialect || (dialect->type == DOC_STRING && strncmp(dialect->text, known, sizeof known - 1) == 0))
        return;
    struct diagnostic *item =
        diagnostics_add(c->diagnostics, SEVERITY_WARNING, dialect->place, "the schema is read as draft 2020-12");
    diagnostic_hint(item, "older drafts differ in items, definitions and $ref");
}

int schema_compile_with(const struct doc_node *root, const struct schema_document *documents, size_t count,
                        struct arena *arena, struct schema **ret_schema, struct diagnostics *diagnostics,
                        struct error *err)
{
    struct diagnostics own = {0};
    struct compiler c = {.arena = arena,
                         .diagnostics = diagnostics ? diagnostics : &own,
                         .documents = documents,
                         .document_count = count};
    size_t before = c.diagnostics->errors;
    c.schema = arena_alloc(arena, sizeof *c.schema);
    c.schema->arena = arena;
    for (size_t i = 0; i < ARRAY_LEN(keywords); i++) {
        struct keyword *k = arena_alloc(arena, sizeof *k);
        *k = keywords[i];
        map_add(&c.keywords, arena, k->name, strlen(k->name), k);
    }
    check_dialect(&c, root);
    c.schema->root = compile_document(&c, "", root);
    while (c.pending_count > 0)
        bind(&c, c.pending[--c.pending_count]);
    free(c.pending);
    size_t faults = c.diagnostics->errors - before;
    if (faults > 0) {
        const struct diagnostic *first = NULL;
        for (size_t i = 0; i < c.diagnostics->count && !first; i++)
            if (c.diagnostics->items[i].severity == SEVERITY_ERROR)
                first = &c.diagnostics->items[i];
        error_set(err, ERROR_SPEC, "the schema is not valid: %s", first ? first->message : "too many faults");
        schema_destroy(c.schema);
    } else {
        *ret_schema = c.schema;
    }
    diagnostics_free(&own);
    return faults > 0 ? -1 : 0;
}

int schema_compile(const struct doc_node *root, struct arena *arena, struct schema **ret_schema,
                   struct diagnostics *diagnostics, struct error *err)
{
    return schema_compile_with(root, NULL, 0, arena, ret_schema, diagnostics, err);
}

void schema_destroy(struct schema *schema)
{
    if (!schema)
        return;
    for (size_t i = 0; i < schema->pattern_count; i++)
        pattern_destroy(schema->patterns[i]);
    free(schema->patterns);
    schema->patterns = NULL;
    schema->pattern_count = 0;
}
