/* entrypoint.function: its name, and arguments that keep the types that YAML gives them. */
#include "internal.h"

#include <ctype.h>
#include <string.h>

/* ---- arguments ---- */

/* JSON lacks these numbers, so they would arrive as text. */
static void check_number(struct load *l, const struct doc_node *node)
{
    if (node->type == DOC_FLOAT && (node->number != node->number || node->number - node->number != 0))
        diagnostic_hint(fault(l, place_of(node), "%s cannot be an argument: JSON has no such number", node->text),
                        "give text and convert it in the function: \"%s\"", node->text);
}

/* true when ${{ args }} stands somewhere below. */
static bool check_value(struct load *l, const struct doc_node *node, const struct expr_rules *rules)
{
    bool takes_args = false;
    if (node->type == DOC_STRING) {
        struct spec_text text = text_of(node);
        expr_check_rules(&text, l->spec, rules, false, l->diagnostics);
        return text.has_expr && is_args_item(node->text);
    }
    check_number(l, node);
    for (size_t i = 0; i < node->count; i++)
        takes_args |= check_value(l, node->type == DOC_ARRAY ? node->items[i] : node->members[i].value, rules);
    return takes_args;
}

static const struct doc_node *positional(struct load *l, const struct doc_node *args)
{
    struct doc_node *list = doc_new_array(l->arena);
    const char **words = NULL;
    size_t count = 0;
    if (args && args->type == DOC_STRING)
        shlex_split(args->text, l->arena, &words, &count, NULL); /* a fault was reported with args */
    for (size_t i = 0; i < count; i++) {
        struct doc_node *item = doc_new_string(l->arena, words[i]);
        item->place = args->place;
        doc_append(l->arena, list, item);
    }
    for (size_t i = 0; is_array(args) && i < args->count; i++) {
        if (!is_scalar(args->items[i]))
            continue; /* reported by the schema */
        check_number(l, args->items[i]);
        doc_append(l->arena, list, doc_clone(l->arena, args->items[i]));
    }
    return list;
}

static void check_size(struct load *l, const struct spec_entrypoint *e)
{
    struct buf json = {0};
    doc_to_json(e->positional, DOC_JSON_PLAIN, &json);
    if (e->kwargs)
        doc_to_json(e->kwargs, DOC_JSON_PLAIN, &json);
    for (size_t i = 0; i < l->spec->arg_count; i++)
        buf_puts(&json, l->spec->args[i]);
    if (json.len > SPEC_CALL_MAX_BYTES)
        diagnostic_hint(fault(l, e->place, "the function's arguments have %zu bytes as JSON, more than %d", json.len,
                              SPEC_CALL_MAX_BYTES),
                        "put large values into a file of workdir, or of files");
    buf_free(&json);
}

/* ---- the name ---- */

/* "a.b.c": names of Python, with dots between them. */
static bool is_dotted(const char *s, size_t len)
{
    bool begins = true;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        if (begins ? !isalpha(c) && c != '_' && c < 0x80 : !isalnum(c) && c != '_' && c != '.' && c < 0x80)
            return false;
        begins = c == '.';
    }
    return len > 0 && !begins;
}

static void check_target(struct load *l, const struct spec_text *text)
{
    if (!text->text || text->has_expr)
        return;
    const char *colon = strchr(text->text, ':'), *dot = strrchr(text->text, '.');
    size_t module = colon ? (size_t)(colon - text->text) : 0;
    bool file = module > 3 && strncmp(colon - 3, ".py", 3) == 0;
    if (!file && is_dotted(text->text, module) && is_dotted(colon + 1, strlen(colon + 1)))
        return;
    struct diagnostic *d = fault(l, text->place, "\"%s\" is not a function", text->text);
    diagnostic_expected(d, "module:function, such as train:main or package.train:Trainer.run");
    if (file) {
        char *name = arena_strndup(l->arena, text->text, module - 3);
        for (char *p = name; *p; p++)
            if (*p == '/')
                *p = '.';
        diagnostic_hint(d, "the module of a file is its name without .py: %s%s", name, colon);
    } else if (!colon && dot && is_dotted(text->text, strlen(text->text))) {
        diagnostic_hint(d, "did you mean %.*s:%s?", (int)(dot - text->text), text->text, dot + 1);
    }
}

bool function_bind(struct load *l, struct spec_entrypoint *e, const struct doc_node *node,
                   const struct expr_rules *rules)
{
    const struct doc_member *kwargs = doc_get_member(node, "kwargs", 6);
    struct expr_rules in_kwargs = *rules;
    in_kwargs.args = true;
    if (!doc_get(node, "function")) {
        if (kwargs)
            diagnostic_hint(fault(l, kwargs->key_place, "kwargs belongs to function, which is not here"),
                            "script, module, command and run take args");
        return false;
    }
    check_target(l, &e->target);
    e->positional = positional(l, doc_get(node, "args"));
    if (kwargs && is_object(kwargs->value))
        e->kwargs = kwargs->value;
    check_size(l, e);
    return e->kwargs && check_value(l, kwargs->value, &in_kwargs);
}
