/*
 * The words of the messages: what a subschema expects, and the known key or value that is nearest to the given one.
 * Follows references and branches, at most WALK_DEPTH deep.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum { WALK_DEPTH = 8, VALUES_SHOWN = 12, KEYS_SHOWN = 16, CANDIDATES_MAX = 256 };

unsigned type_of(const struct doc_node *node)
{
    switch (node->type) {
    case DOC_NULL:
        return TYPE_NULL;
    case DOC_BOOL:
        return TYPE_BOOLEAN;
    case DOC_INT:
    case DOC_FLOAT:
        return number_is_integral(node) ? TYPE_INTEGER | TYPE_NUMBER : TYPE_NUMBER;
    case DOC_STRING:
        return TYPE_STRING;
    case DOC_ARRAY:
        return TYPE_ARRAY;
    case DOC_OBJECT:
        return TYPE_OBJECT;
    }
    return 0;
}

static bool list_accepts(const struct sub_list *list, const struct doc_node *node, bool all, int depth);

static bool accepts(const struct subschema *sub, const struct doc_node *node, int depth)
{
    if (sub->boolean)
        return sub->accepts;
    if (depth > WALK_DEPTH)
        return true;
    unsigned type = type_of(node);
    if (sub->types && !(sub->types & type))
        return false;
    if (sub->const_value && !(type_of(sub->const_value) & type))
        return false;
    bool any = !sub->enum_values;
    for (size_t i = 0; !any && i < sub->enum_values->count; i++)
        any = (type_of(sub->enum_values->items[i]) & type) != 0;
    return any && (!sub->ref_target || accepts(sub->ref_target, node, depth + 1)) &&
           (sub->all_of.count == 0 || list_accepts(&sub->all_of, node, true, depth + 1)) &&
           (sub->any_of.count == 0 || list_accepts(&sub->any_of, node, false, depth + 1)) &&
           (sub->one_of.count == 0 || list_accepts(&sub->one_of, node, false, depth + 1));
}

static bool list_accepts(const struct sub_list *list, const struct doc_node *node, bool all, int depth)
{
    for (size_t i = 0; i < list->count; i++)
        if (accepts(list->items[i], node, depth) != all)
            return !all;
    return all;
}

bool accepts_type(const struct subschema *sub, const struct doc_node *node)
{
    return accepts(sub, node, 0);
}

/* ---- expected ---- */

static void put_value(const struct doc_node *value, struct buf *out)
{
    if (value->type == DOC_STRING && value->text_len > 0 && strcspn(value->text, " \t\n\",") == value->text_len)
        buf_append(out, value->text, value->text_len);
    else if (value->type == DOC_ARRAY || value->type == DOC_OBJECT)
        doc_to_json(value, DOC_JSON_PLAIN, out);
    else
        doc_describe(value, out);
}

void words_values(const struct doc_node *values, struct buf *ret)
{
    if (values->count > 1)
        buf_puts(ret, "one of ");
    for (size_t i = 0; i < values->count && i < VALUES_SHOWN; i++) {
        buf_puts(ret, i > 0 ? ", " : "");
        put_value(values->items[i], ret);
    }
    if (values->count > VALUES_SHOWN)
        buf_printf(ret, " and %zu more", values->count - VALUES_SHOWN);
}

static void put_range(const struct subschema *sub, struct buf *out)
{
    const struct doc_node *low = sub->minimum ? sub->minimum : sub->exclusive_minimum;
    const struct doc_node *high = sub->maximum ? sub->maximum : sub->exclusive_maximum;
    if (sub->minimum && sub->maximum)
        buf_printf(out, " from %s to %s", low->text, high->text);
    else if (low)
        buf_printf(out, sub->minimum ? " of at least %s" : " above %s", low->text);
    if (high && !(sub->minimum && sub->maximum))
        buf_printf(out, "%s %s",
                   !sub->maximum ? low ? " and below" : " below"
                   : low         ? " and at most"
                                 : " of at most",
                   high->text);
    if (sub->multiple_of)
        buf_printf(out, " that is a multiple of %s", sub->multiple_of->text);
}

static void put_length(const struct subschema *sub, struct buf *out)
{
    if (sub->pattern)
        buf_printf(out, " that matches %s", sub->pattern->text);
    else if (sub->min_length == 1 && sub->max_length == UINT64_MAX)
        buf_puts(out, " that is not empty");
    else if (sub->min_length > 0 && sub->max_length < UINT64_MAX)
        buf_printf(out, " of %llu to %llu characters", (unsigned long long)sub->min_length,
                   (unsigned long long)sub->max_length);
    else if (sub->min_length > 0)
        buf_printf(out, " of at least %llu characters", (unsigned long long)sub->min_length);
    else if (sub->max_length < UINT64_MAX)
        buf_printf(out, " of at most %llu characters", (unsigned long long)sub->max_length);
}

static void put_types(const struct subschema *sub, struct buf *out)
{
    static const struct {
        unsigned bit;
        const char *words;
    } types[] = {{TYPE_NUMBER, "a number"}, {TYPE_INTEGER, "an integer"},
                 {TYPE_STRING, "a string"}, {TYPE_BOOLEAN, "true or false"},
                 {TYPE_ARRAY, "a list"},    {TYPE_OBJECT, "a mapping"},
                 {TYPE_NULL, "null"}};
    unsigned left = sub->types;
    if (left & TYPE_NUMBER)
        left &= ~(unsigned)TYPE_INTEGER;
    for (size_t i = 0, shown = 0; i < ARRAY_LEN(types); i++) {
        if (!(left & types[i].bit))
            continue;
        left &= ~types[i].bit;
        buf_puts(out, shown++ == 0 ? "" : left ? ", " : " or ");
        buf_puts(out, types[i].words);
        if (types[i].bit == TYPE_NUMBER || types[i].bit == TYPE_INTEGER)
            put_range(sub, out);
        if (types[i].bit == TYPE_STRING)
            put_length(sub, out);
    }
}

static void put_branches(const struct sub_list *list, struct buf *out, int depth);

static void put_expected(const struct subschema *sub, struct buf *out, int depth)
{
    if (sub->expected) {
        buf_puts(out, sub->expected);
    } else if (sub->boolean || depth > WALK_DEPTH) {
        return;
    } else if (sub->const_value) {
        put_value(sub->const_value, out);
    } else if (sub->enum_values) {
        words_values(sub->enum_values, out);
    } else if (sub->any_of.count > 0 || sub->one_of.count > 0) {
        put_branches(sub->any_of.count > 0 ? &sub->any_of : &sub->one_of, out, depth + 1);
        if (out->len == 0)
            put_types(sub, out);
    } else if (sub->types) {
        put_types(sub, out);
    } else if (sub->ref_target) {
        put_expected(sub->ref_target, out, depth + 1);
    } else if (sub->minimum || sub->maximum || sub->exclusive_minimum || sub->exclusive_maximum || sub->multiple_of) {
        buf_puts(out, "a number");
        put_range(sub, out);
    } else if (sub->pattern || sub->min_length > 0 || sub->max_length < UINT64_MAX) {
        buf_puts(out, "a string");
        put_length(sub, out);
    } else {
        for (size_t i = 0; i < sub->all_of.count && out->len == 0; i++)
            put_expected(sub->all_of.items[i], out, depth + 1);
    }
}

static void put_branches(const struct sub_list *list, struct buf *out, int depth)
{
    struct buf one = {0};
    size_t shown = 0;
    struct buf parts[VALUES_SHOWN] = {{0}};
    for (size_t i = 0; i < list->count && shown < VALUES_SHOWN; i++) {
        buf_clear(&one);
        put_expected(list->items[i], &one, depth);
        bool known = one.len == 0;
        for (size_t j = 0; j < shown && !known; j++)
            known = strcmp(parts[j].data, one.data) == 0;
        if (!known)
            buf_append(&parts[shown++], one.data, one.len);
    }
    for (size_t i = 0; i < shown; i++) {
        buf_puts(out, i == 0 ? "" : i + 1 == shown ? ", or " : ", ");
        buf_append(out, parts[i].data, parts[i].len);
        buf_free(&parts[i]);
    }
    buf_free(&one);
}

void words_expected(const struct subschema *sub, struct buf *ret)
{
    put_expected(sub, ret, 0);
}

void words_branches(const struct sub_list *list, struct buf *ret)
{
    put_branches(list, ret, 0);
}

/* ---- nearest names ---- */

struct candidates {
    const char *names[CANDIDATES_MAX + 1];
    size_t count;
};

static void add_candidate(struct candidates *c, const char *name)
{
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->names[i], name) == 0)
            return;
    if (c->count < CANDIDATES_MAX)
        c->names[c->count++] = name;
}

static void collect(const struct subschema *sub, bool keys, struct candidates *c, int depth);

static void collect_list(const struct sub_list *list, bool keys, struct candidates *c, int depth)
{
    for (size_t i = 0; i < list->count; i++)
        collect(list->items[i], keys, c, depth);
}

/* The keys or the string values that a subschema knows, its in-place subschemas included. */
static void collect(const struct subschema *sub, bool keys, struct candidates *c, int depth)
{
    if (!sub || depth > WALK_DEPTH)
        return;
    if (keys && sub->properties.node)
        for (size_t i = 0; i < sub->properties.node->count; i++) {
            const struct subschema *value = sub->properties.items[i];
            if (!value->boolean || value->accepts)
                add_candidate(c, sub->properties.node->members[i].key);
        }
    if (!keys && sub->enum_values)
        for (size_t i = 0; i < sub->enum_values->count; i++)
            if (sub->enum_values->items[i]->type == DOC_STRING)
                add_candidate(c, sub->enum_values->items[i]->text);
    if (!keys && sub->const_value && sub->const_value->type == DOC_STRING)
        add_candidate(c, sub->const_value->text);
    collect_list(&sub->all_of, keys, c, depth + 1);
    collect_list(&sub->any_of, keys, c, depth + 1);
    collect_list(&sub->one_of, keys, c, depth + 1);
    collect(sub->ref_target, keys, c, depth + 1);
    collect(sub->dynamic_target, keys, c, depth + 1);
    collect(sub->consequence, keys, c, depth + 1);
    collect(sub->alternative, keys, c, depth + 1);
}

const char *words_nearest_value(const struct subschema *sub, const char *word)
{
    struct candidates c = {0};
    collect(sub, false, &c, 0);
    return str_nearest(word, c.names);
}

const char *words_nearest_key(const struct subschema *sub, const struct doc_node *object, const char *word)
{
    struct candidates c = {0};
    size_t kept = 0;
    collect(sub, true, &c, 0);
    for (size_t i = 0; i < c.count; i++)
        if (!doc_get(object, c.names[i]))
            c.names[kept++] = c.names[i];
    c.names[kept] = NULL;
    return str_nearest(word, c.names);
}

bool words_keys(const struct subschema *sub, struct buf *ret)
{
    struct candidates c = {0};
    collect(sub, true, &c, 0);
    if (c.count == 0 || c.count > KEYS_SHOWN)
        return false;
    for (size_t i = 0; i < c.count; i++)
        buf_printf(ret, "%s%s", i > 0 ? ", " : "", c.names[i]);
    return true;
}
