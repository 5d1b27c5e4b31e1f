/* Expanding the expressions in a tree of values, for arguments that keep their types. */
#include "internal.h"

#include <string.h>

struct doc_expansion {
    const struct expr_context *ctx;
    bool keep_late;
    struct arena *arena;
    struct error *err;
};

/* For text that is exactly one expression: its value, with its type. EXPR_LATE also means "it is not". */
static enum expr_status whole_value(const struct doc_expansion *x, const char *text, struct doc_node **ret)
{
    struct expr_fault fault;
    struct expr_value value;
    size_t used = 0;
    if (!str_starts(text, "${{"))
        return EXPR_LATE;
    const struct expr *e = expr_parse(text + 3, x->arena, &used, &fault);
    if (!e || text[3 + used] || expr_eval(e, x->ctx, false, x->arena, &value, &fault) != EXPR_OK)
        return EXPR_LATE;
    switch (value.type) {
    case VALUE_INTEGER:
        *ret = doc_new_int(x->arena, value.integer);
        break;
    case VALUE_BOOLEAN:
        *ret = doc_new_bool(x->arena, value.integer != 0);
        break;
    case VALUE_NUMBER:
        *ret = doc_new_plain(x->arena, value.text);
        break;
    case VALUE_STRING:
        *ret = doc_new_string(x->arena, value.text);
        break;
    }
    return EXPR_OK;
}

static void put_args(const struct doc_expansion *x, struct doc_node *list)
{
    for (size_t i = 0; i < x->ctx->spec->arg_count; i++)
        doc_append(x->arena, list, doc_new_string(x->arena, x->ctx->spec->args[i]));
}

static enum expr_status expand_string(const struct doc_expansion *x, const struct doc_node *node, struct doc_node **ret)
{
    struct spec_text text = {.text = node->text, .place = node->place, .has_expr = strstr(node->text, "${{") != NULL};
    const char *value = NULL;
    if (text.has_expr && is_args_item(node->text)) {
        *ret = doc_new_array(x->arena);
        put_args(x, *ret);
        return EXPR_OK;
    }
    if (text.has_expr && whole_value(x, node->text, ret) == EXPR_OK)
        return EXPR_OK;
    enum expr_status status = expr_expand(&text, EXPR_PLAIN, x->ctx, x->keep_late, x->arena, &value, x->err);
    if (status == EXPR_OK)
        *ret = doc_new_string(x->arena, value);
    else if (node->place.source)
        error_prefix(x->err, "%s:%u:%u", node->place.source->name, node->place.line, node->place.column);
    return status;
}

static enum expr_status expand(const struct doc_expansion *x, const struct doc_node *node, struct doc_node **ret)
{
    bool array = node->type == DOC_ARRAY;
    struct doc_node *made, *one;
    if (node->type == DOC_STRING)
        return expand_string(x, node, ret);
    if (!array && node->type != DOC_OBJECT) {
        *ret = doc_clone(x->arena, node);
        return EXPR_OK;
    }
    made = array ? doc_new_array(x->arena) : doc_new_object(x->arena);
    for (size_t i = 0; i < node->count; i++) {
        const struct doc_node *value = array ? node->items[i] : node->members[i].value;
        if (array && value->type == DOC_STRING && is_args_item(value->text)) {
            put_args(x, made);
            continue;
        }
        enum expr_status status = expand(x, value, &one);
        if (status != EXPR_OK)
            return status;
        if (array)
            doc_append(x->arena, made, one);
        else
            doc_set(x->arena, made, node->members[i].key, one);
    }
    *ret = made;
    return EXPR_OK;
}

enum expr_status expr_expand_doc(const struct doc_node *node, const struct expr_context *ctx, bool keep_late,
                                 struct arena *arena, struct doc_node **ret, struct error *err)
{
    struct doc_expansion x = {.ctx = ctx, .keep_late = keep_late, .arena = arena, .err = err};
    return expand(&x, node, ret);
}
