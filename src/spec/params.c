/* Binding params: each declared param gets the value of -p or its default, checked against its type. */
#include "internal.h"

#include <string.h>

static const char *const type_names[] = {"string", "integer", "number", "boolean", NULL};

static enum spec_type type_of_default(const struct doc_node *node)
{
    if (node->type == DOC_INT)
        return SPEC_INTEGER;
    if (node->type == DOC_FLOAT)
        return SPEC_NUMBER;
    return node->type == DOC_BOOL ? SPEC_BOOLEAN : SPEC_STRING;
}

static enum spec_type declared_type(const struct doc_node *decl, const struct doc_node *otherwise)
{
    const char *name = is_object(decl) ? doc_get_string(decl, "type", NULL) : NULL;
    for (size_t i = 0; name && type_names[i]; i++)
        if (strcmp(name, type_names[i]) == 0)
            return (enum spec_type)i;
    return is_scalar(otherwise) ? type_of_default(otherwise) : SPEC_STRING;
}

static bool fits(const struct doc_node *value, enum spec_type type)
{
    int64_t n;
    switch (type) {
    case SPEC_STRING:
        return true;
    case SPEC_INTEGER:
        return value->type == DOC_INT && doc_is_integer(value, &n);
    case SPEC_NUMBER:
        return value->type == DOC_INT || value->type == DOC_FLOAT;
    case SPEC_BOOLEAN:
        return value->type == DOC_BOOL;
    }
    return false;
}

static const char *type_words(enum spec_type type)
{
    static const char *const words[] = {"text", "an integer", "a number", "true or false"};
    return words[type];
}

static bool same_value(const struct doc_node *a, const struct doc_node *b, enum spec_type type)
{
    return type == SPEC_STRING ? strcmp(a->text, b->text) == 0 : doc_equal(a, b);
}

static bool is_allowed(struct load *l, const struct doc_node *decl, const struct doc_node *value, enum spec_type type,
                       struct buf *ret_list, const char **ret_near)
{
    const struct doc_node *list = is_object(decl) ? doc_get(decl, "enum") : NULL;
    if (!is_array(list))
        return true;
    const char **candidates = arena_array(l->arena, list->count + 1, sizeof *candidates);
    size_t n = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (!is_scalar(list->items[i]))
            continue;
        if (same_value(list->items[i], value, type))
            return true;
        candidates[n++] = list->items[i]->text;
        if (n <= 10)
            buf_printf(ret_list, "%s%s", n > 1 ? ", " : "one of ", list->items[i]->text);
    }
    *ret_near = str_nearest(value->text, candidates);
    return false;
}

bool param_takes(struct load *l, size_t param, const struct doc_node *value)
{
    const struct spec_param *p = &l->spec->params[param];
    const struct doc_node *decl = doc_get(l->root, "params")->members[param].value;
    struct buf list = {0};
    const char *near = NULL;
    bool good = false;
    if (!fits(value, p->type)) {
        struct diagnostic *d =
            fault(l, place_of(value), "param \"%s\" is \"%s\", not %s", p->name, value->text, type_words(p->type));
        diagnostic_expected(d, "%s", type_words(p->type));
    } else if (!is_allowed(l, decl, value, p->type, &list, &near)) {
        struct diagnostic *d = fault(l, place_of(value), "param \"%s\" cannot be \"%s\"", p->name, value->text);
        if (list.len > 0)
            diagnostic_expected(d, "%s", list.data);
        if (near)
            diagnostic_hint(d, "did you mean %s?", near);
    } else {
        good = true;
    }
    buf_free(&list);
    return good;
}

/* Checks one value, by -p or by default; the parameter keeps its source text. */
static void set_value(struct load *l, size_t param, const struct doc_node *value)
{
    if (param_takes(l, param, value))
        l->spec->params[param].value = value->text;
}

static void check_enum(struct load *l, const struct spec_param *p, const struct doc_node *decl)
{
    const struct doc_node *list = is_object(decl) ? doc_get(decl, "enum") : NULL;
    for (size_t i = 0; is_array(list) && i < list->count; i++)
        if (is_scalar(list->items[i]) && !fits(list->items[i], p->type))
            fault(l, place_of(list->items[i]), "\"%s\" is not %s, the type of param \"%s\"", list->items[i]->text,
                  type_words(p->type), p->name);
}

/* ---- -p NAME=VALUE ---- */

size_t param_index(const struct load *l, const char *name)
{
    const struct doc_node *decls = doc_get(l->root, "params");
    const struct doc_member *m = is_object(decls) ? doc_get_member(decls, name, strlen(name)) : NULL;
    return m ? (size_t)(m - decls->members) : SIZE_MAX;
}

static struct doc_node *given_value(struct load *l, const char *text, const struct place *place, enum spec_type type)
{
    struct doc_node *node = type == SPEC_STRING ? doc_new_string(l->arena, text) : doc_new_plain(l->arena, text);
    node->place = *place;
    return node;
}

static void apply_given(struct load *l, const char *text)
{
    struct place place = option_place(l, "-p", text, 0, strlen(text));
    const char *equals = strchr(text, '=');
    if (!equals) {
        diagnostic_expected(fault(l, place, "no value for param \"%s\"", text), "-p NAME=VALUE");
        return;
    }
    size_t len = (size_t)(equals - text);
    const char *name = arena_strndup(l->arena, text, len);
    size_t param = param_index(l, name);
    if (param == SIZE_MAX) {
        place = option_place(l, "-p", text, 0, len);
        const char **names = arena_array(l->arena, l->spec->param_count + 1, sizeof *names);
        for (size_t i = 0; i < l->spec->param_count; i++)
            names[i] = l->spec->params[i].name;
        const char *near = str_nearest(name, names);
        struct diagnostic *d = fault(l, place, "no param \"%s\"", name);
        if (near)
            diagnostic_hint(d, "did you mean %s?", near);
        else if (l->spec->param_count == 0)
            diagnostic_hint(d, "the spec has no params; --set changes any other key");
        return;
    }
    place = option_place(l, "-p", text, len + 1, strlen(text));
    struct spec_param *p = &l->spec->params[param];
    const struct doc_node *value = given_value(l, equals + 1, &place, p->type);
    if (p->swept) {
        if (param_takes(l, param, value)) {
            l->chosen[param] = value;
            p->chosen = value->text;
        }
        l->chooses = true;
        return;
    }
    p->given = true;
    p->value = NULL;
    p->place = place;
    set_value(l, param, value);
}

void params_bind(struct load *l)
{
    const struct doc_node *decls = doc_get(l->root, "params");
    struct spec *spec = l->spec;
    if (is_object(decls)) {
        spec->params = arena_array(l->arena, decls->count, sizeof *spec->params);
        for (size_t i = 0; i < decls->count; i++) {
            const struct doc_node *decl = decls->members[i].value;
            const struct doc_node *value = is_object(decl) ? doc_get(decl, "default") : decl;
            struct spec_param *p = &spec->params[spec->param_count++];
            *p = (struct spec_param){.name = decls->members[i].key, .place = decls->members[i].key_place};
            p->type = declared_type(decl, value);
            check_enum(l, p, decl);
        }
    }
    sweep_mark(l);
    l->chosen = arena_array(l->arena, spec->param_count, sizeof *l->chosen);
    for (size_t i = 0; i < l->over->param_count; i++)
        apply_given(l, l->over->params[i]);
    for (size_t i = 0; i < spec->param_count; i++) {
        struct spec_param *p = &spec->params[i];
        const struct doc_node *decl = decls->members[i].value;
        const struct doc_node *value = is_object(decl) ? doc_get(decl, "default") : decl;
        if (p->given)
            continue;
        if (is_scalar(value))
            set_value(l, i, value);
        else if (is_object(decl) && !value && !p->swept)
            diagnostic_hint(fault(l, p->place, "param \"%s\" has no default and must be given", p->name), "-p %s=VALUE",
                            p->name);
    }
}
