/*
 * The YAML reader: libyaml's events become nodes; anchors, merges, duplicate keys and limits are ours. Aliases share
 * nodes, so the written-out tree is never built, only its size is counted: a file that grows exponentially is refused
 * at the alias that exceeds the limit.
 */
#include "internal.h"
#include "yaml_error.h"

#include <string.h>
#include <yaml.h>

struct yaml {
    struct loader *loader;
    yaml_parser_t parser;
    yaml_event_t event;       /* the current one */
    struct doc_node *anchors; /* a doc object: name to node; an unfinished node has expanded == 0 */
    yaml_mark_t last;         /* where the last scalar, alias or flow collection ended */
    size_t depth;
};

static struct doc_node *read_node(struct yaml *y);

static struct place place_of(const struct yaml *y, yaml_mark_t start, yaml_mark_t end)
{
    return (struct place){&y->loader->doc->source, (uint32_t)start.line + 1, (uint32_t)start.column + 1,
                          (uint32_t)end.line + 1, (uint32_t)end.column + 1};
}

static struct place event_place(const struct yaml *y)
{
    return place_of(y, y->event.start_mark, y->event.end_mark);
}

static bool next(struct yaml *y)
{
    yaml_event_delete(&y->event);
    if (yaml_parser_parse(&y->parser, &y->event))
        return true;
    doc_yaml_syntax_error(y->loader, &y->parser);
    return false;
}

static struct diagnostic *fault(struct yaml *y, struct place place, const char *message)
{
    return diagnostics_add(y->loader->diagnostics, SEVERITY_ERROR, place, "%s", message);
}

/* ---- anchors ---- */

static void set_anchor(struct yaml *y, const yaml_char_t *name, struct doc_node *node)
{
    if (name)
        doc_set(y->loader->arena, y->anchors, (const char *)name, node);
}

/* The aliased node at this place: a copy of the node that shares everything below it. */
static struct doc_node *read_alias(struct yaml *y)
{
    struct loader *loader = y->loader;
    const char *name = (const char *)y->event.data.alias.anchor;
    struct place place = event_place(y);
    const struct doc_node *target = doc_get(y->anchors, name);
    if (!target) {
        struct diagnostic *item = diagnostics_add(loader->diagnostics, SEVERITY_ERROR, place,
                                                  "there is no anchor \"%s\" above this alias", name);
        if (item)
            diagnostic_hint(item, "a string that begins with * needs quotes");
        return NULL;
    }
    if (target->expanded == 0) {
        diagnostics_add(loader->diagnostics, SEVERITY_ERROR, place, "alias \"%s\" is inside its own anchor", name);
        return NULL;
    }
    loader->expanded += target->expanded;
    if (loader->expanded > DOC_MAX_ALIAS_NODES || y->depth + target->height > DOC_MAX_DEPTH) {
        bool deep = loader->expanded <= DOC_MAX_ALIAS_NODES;
        diagnostics_add(loader->diagnostics, SEVERITY_ERROR, place,
                        deep ? "values are nested deeper than %u levels"
                             : "aliases add more than %u values when they are written out",
                        deep ? DOC_MAX_DEPTH : DOC_MAX_ALIAS_NODES);
        return NULL;
    }
    struct doc_node *node = doc_loader_node(loader, target->type, place);
    if (!node)
        return NULL;
    *node = *target;
    node->alias = place;
    y->last = y->event.end_mark;
    return node;
}

/* ---- scalars ---- */

static bool apply_tag(struct yaml *y, struct doc_node *node, const char *tag)
{
    static const char prefix[] = "tag:yaml.org,2002:";
    static const struct {
        const char *name;
        enum doc_type type;
    } tags[] = {{"str", DOC_STRING}, {"int", DOC_INT},   {"float", DOC_FLOAT}, {"bool", DOC_BOOL},
                {"null", DOC_NULL},  {"seq", DOC_ARRAY}, {"map", DOC_OBJECT}};
    if (strcmp(tag, "!") == 0) {
        if (node->count == 0 && node->type != DOC_ARRAY && node->type != DOC_OBJECT)
            node->type = DOC_STRING;
        return true;
    }
    for (size_t i = 0; str_starts(tag, prefix) && i < ARRAY_LEN(tags); i++) {
        if (strcmp(tag + sizeof prefix - 1, tags[i].name) != 0)
            continue;
        bool scalar = node->type != DOC_ARRAY && node->type != DOC_OBJECT;
        bool widen = tags[i].type == DOC_FLOAT && node->type == DOC_INT;
        if (tags[i].type == node->type || widen || (tags[i].type == DOC_STRING && scalar)) {
            node->type = tags[i].type;
            return true;
        }
        struct diagnostic *item = diagnostics_add(y->loader->diagnostics, SEVERITY_ERROR, node->place,
                                                  "this is not what its tag !!%s says", tags[i].name);
        diagnostic_expected(item, "%s", doc_type_words(tags[i].type));
        return false;
    }
    struct diagnostic *item =
        diagnostics_add(y->loader->diagnostics, SEVERITY_ERROR, node->place, "tag \"%s\" is not known", tag);
    diagnostic_hint(item, "a string that begins with ! needs quotes");
    return false;
}

static struct doc_node *read_scalar(struct yaml *y)
{
    struct loader *loader = y->loader;
    struct doc_node *node = doc_loader_node(loader, DOC_STRING, event_place(y));
    if (!node)
        return NULL;
    size_t len = y->event.data.scalar.length;
    const char *text = arena_strndup(loader->arena, (const char *)y->event.data.scalar.value, len);
    const char *tag = (const char *)y->event.data.scalar.tag;
    doc_resolve_plain(node, text, len);
    node->quoted = y->event.data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    if (node->quoted && !tag)
        node->type = DOC_STRING;
    if (tag && !apply_tag(y, node, tag))
        node->type = DOC_STRING;
    node->expanded = 1;
    y->last = y->event.end_mark;
    set_anchor(y, y->event.data.scalar.anchor, node);
    return node;
}

/* ---- collections ---- */

static void grow(struct doc_node *node, const struct doc_node *child)
{
    if (node->height < child->height + 1)
        node->height = child->height + 1;
}

static struct doc_node *open_collection(struct yaml *y, enum doc_type type, const yaml_char_t *anchor,
                                        const yaml_char_t *tag)
{
    struct doc_node *node = doc_loader_node(y->loader, type, event_place(y));
    if (!node)
        return NULL;
    if (++y->depth > DOC_MAX_DEPTH) {
        diagnostics_add(y->loader->diagnostics, SEVERITY_ERROR, node->place, "values are nested deeper than %d levels",
                        DOC_MAX_DEPTH);
        return NULL;
    }
    if (tag)
        apply_tag(y, node, (const char *)tag);
    set_anchor(y, anchor, node);
    y->last = y->event.end_mark;
    return node;
}

/* A flow collection ends at its bracket, a block collection at the end of its last item. */
static void close_collection(struct yaml *y, struct doc_node *node, bool flow)
{
    if (flow)
        y->last = y->event.end_mark;
    if (y->last.line + 1 > node->place.line ||
        (y->last.line + 1 == node->place.line && y->last.column + 1 > node->place.column)) {
        node->place.end_line = (uint32_t)y->last.line + 1;
        node->place.end_column = (uint32_t)y->last.column + 1;
    }
    y->depth--;
}

static struct doc_node *read_sequence(struct yaml *y)
{
    bool flow = y->event.data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE;
    struct doc_node *node =
        open_collection(y, DOC_ARRAY, y->event.data.sequence_start.anchor, y->event.data.sequence_start.tag);
    if (!node)
        return NULL;
    uint32_t expanded = 1; /* set when complete; an alias to an unfinished node is a cycle */
    for (;;) {
        if (!next(y))
            return NULL;
        if (y->event.type == YAML_SEQUENCE_END_EVENT)
            break;
        struct doc_node *item = read_node(y);
        if (!item)
            return NULL;
        grow(node, item);
        expanded += item->expanded;
        doc_append(y->loader->arena, node, item);
    }
    node->expanded = expanded;
    close_collection(y, node, flow);
    return node;
}

/* `<<`: adds the members of a mapping, or of each mapping in a list, whose keys are not present yet. */
static bool merge_one(struct yaml *y, struct doc_node *node, const struct doc_node *from)
{
    if (from->type != DOC_OBJECT) {
        struct place place = from->alias.source ? from->alias : from->place;
        struct diagnostic *item = fault(y, place, "only mappings can be merged");
        diagnostic_expected(item, "a mapping, or a list of mappings, after <<");
        return false;
    }
    for (size_t i = 0; i < from->count; i++) {
        const struct doc_member *m = &from->members[i];
        if (doc_get_member(node, m->key, m->key_len))
            continue;
        struct doc_member *to = doc_push_member(y->loader->arena, node, m->key, m->key_len);
        to->key_place = m->key_place;
        to->value = m->value;
    }
    return true;
}

static void merge(struct yaml *y, struct doc_node *node, const struct doc_node *value)
{
    if (value->type != DOC_ARRAY) {
        merge_one(y, node, value);
        return;
    }
    for (size_t i = 0; i < value->count; i++)
        if (!merge_one(y, node, value->items[i]))
            return;
}

struct key {
    const char *text;
    size_t len;
    struct place place;
    bool merge;
};

static bool read_key(struct yaml *y, struct key *ret)
{
    struct place place = event_place(y);
    bool scalar = y->event.type == YAML_SCALAR_EVENT || y->event.type == YAML_ALIAS_EVENT;
    bool plain = y->event.type == YAML_SCALAR_EVENT && y->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
                 !y->event.data.scalar.tag;
    struct doc_node *key = scalar ? read_node(y) : NULL;
    if (scalar && !key)
        return false;
    if (!key || key->type == DOC_ARRAY || key->type == DOC_OBJECT) {
        if (!doc_yaml_expression_error(y->loader, place.line, place.line)) {
            struct diagnostic *item = fault(y, place, "a key must be a single value");
            diagnostic_hint(item, "text that begins with { or [ needs quotes");
        }
        return false;
    }
    *ret = (struct key){key->text, key->text_len, place, plain && strcmp(key->text, "<<") == 0};
    return true;
}

static struct doc_node *read_mapping(struct yaml *y)
{
    struct loader *loader = y->loader;
    bool flow = y->event.data.mapping_start.style == YAML_FLOW_MAPPING_STYLE;
    struct doc_node *node =
        open_collection(y, DOC_OBJECT, y->event.data.mapping_start.anchor, y->event.data.mapping_start.tag);
    const struct doc_node *merged = NULL;
    uint32_t expanded = 1;
    struct place merge_place = {0};
    if (!node)
        return NULL;
    for (;;) {
        struct key key;
        if (!next(y))
            return NULL;
        if (y->event.type == YAML_MAPPING_END_EVENT)
            break;
        if (!read_key(y, &key) || !next(y))
            return NULL;
        struct doc_node *value = read_node(y);
        if (!value)
            return NULL;
        uint32_t height = node->height;
        grow(node, value);
        expanded += value->expanded;
        const struct doc_member *first = key.merge ? NULL : doc_get_member(node, key.text, key.len);
        if (first || (key.merge && merged)) {
            struct diagnostic *item =
                diagnostics_add(loader->diagnostics, SEVERITY_ERROR, key.place, "key \"%s\" is given twice", key.text);
            if (key.merge)
                diagnostic_hint(item, "merge several mappings as <<: [*one, *two]");
            diagnostics_add(loader->diagnostics, SEVERITY_NOTE, first ? first->key_place : merge_place,
                            "it was given here first");
        } else if (key.merge) {
            merged = value;
            merge_place = key.place;
            node->height = height > value->height ? height : value->height;
        } else {
            struct doc_member *m = doc_push_member(loader->arena, node, key.text, key.len);
            m->key_place = key.place;
            m->value = value;
        }
    }
    node->expanded = expanded;
    close_collection(y, node, flow);
    if (merged)
        merge(y, node, merged);
    return node;
}

static struct doc_node *read_node(struct yaml *y)
{
    switch (y->event.type) {
    case YAML_ALIAS_EVENT:
        return read_alias(y);
    case YAML_SCALAR_EVENT:
        return read_scalar(y);
    case YAML_SEQUENCE_START_EVENT:
        return read_sequence(y);
    case YAML_MAPPING_START_EVENT:
        return read_mapping(y);
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_START_EVENT:
    case YAML_DOCUMENT_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        break;
    }
    fault(y, event_place(y), "a value is missing here");
    return NULL;
}

static struct doc_node *read_stream(struct yaml *y)
{
    if (!next(y) || !next(y)) /* stream start, then document start */
        return NULL;
    if (y->event.type == YAML_STREAM_END_EVENT) {
        return doc_loader_node(y->loader, DOC_NULL, (struct place){&y->loader->doc->source, 1, 1, 1, 1});
    }
    if (!next(y))
        return NULL;
    struct doc_node *root = read_node(y);
    if (!root || !next(y) || !next(y)) /* document end */
        return NULL;
    if (y->event.type == YAML_STREAM_END_EVENT)
        return root;
    struct diagnostic *item = fault(y, event_place(y), "a second document starts here");
    diagnostic_hint(item, "put each document in a file of its own");
    return NULL;
}

struct doc_node *doc_read_yaml(struct loader *loader)
{
    struct yaml y = {.loader = loader};
    y.anchors = doc_new_object(loader->arena);
    if (!yaml_parser_initialize(&y.parser)) {
        fault(&y, (struct place){&loader->doc->source, 0, 0, 0, 0}, "the YAML parser does not start");
        return NULL;
    }
    yaml_parser_set_encoding(&y.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&y.parser, (const unsigned char *)loader->doc->source.text, loader->doc->source.len);
    struct doc_node *root = read_stream(&y);
    yaml_event_delete(&y.event);
    yaml_parser_delete(&y.parser);
    return root;
}
