/*
 * `require`: conditions that must hold. Conditions that depend on the spec alone are checked when it is loaded, and a
 * fault shows the values; conditions that depend on a node's GPUs or CPUs are checked once the nodes have reported
 * them.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- showing what was compared ---- */

struct shown {
    const struct expr_context *ctx;
    struct arena *arena;
    struct buf text, values; /* "4 % 3 == 0" and "roles.a.count is 4, roles.b.count is 3" */
    bool late;
};

static bool is_told(const struct buf *values, const char *name)
{
    const char *hit = values->len ? strstr(values->data, name) : NULL;
    return hit && (hit == values->data || hit[-1] == ' ') && strncmp(hit + strlen(name), " is ", 4) == 0;
}

static void show_names(struct shown *s, const char *source, const struct expr *e, size_t *at)
{
    struct expr_value value;
    struct expr_fault fault;
    if (!e)
        return;
    show_names(s, source, e->a, at);
    show_names(s, source, e->b, at);
    show_names(s, source, e->c, at);
    if (e->op != OP_NAME)
        return;
    enum expr_status status = expr_lookup(e, s->ctx, false, s->arena, &value, &fault);
    s->late = s->late || status == EXPR_LATE;
    if (status != EXPR_OK)
        return;
    const char *text = expr_value_text(&value, s->arena);
    buf_append(&s->text, source + *at, e->at - *at);
    buf_puts(&s->text, text);
    *at = e->end;
    if (!is_told(&s->values, e->whole))
        buf_printf(&s->values, "%s%s is %s", s->values.len ? ", " : "", e->whole, text);
}

/* ---- one condition ---- */

/* The condition as an expression's text: without ${{, and with }} at the end. */
static const char *body_of(const char *text, struct arena *arena)
{
    const char *p = text + strspn(text, " \t\n");
    if (str_starts(p, "${{"))
        return p + 3;
    return arena_printf(arena, "%s}}", text);
}

static struct expr_context context_of(const struct spec *spec, const struct expr_role *roles)
{
    return (struct expr_context){.spec = spec, .has_node = true, .roles = roles}; /* for nnodes; nothing else is used */
}

enum expr_status spec_require(const struct spec *spec, size_t i, const struct expr_role *roles, struct arena *arena,
                              struct error *err)
{
    const char *source = body_of(spec->require[i].text, arena);
    const struct expr_context ctx = context_of(spec, roles);
    struct expr_fault fault = {0};
    struct expr_value value = {0};
    size_t used = 0, at = strspn(source, " \t\n");
    const struct expr *e = expr_parse(source, arena, &used, &fault);
    enum expr_status status = e ? expr_eval(e, &ctx, false, arena, &value, &fault) : EXPR_FAILED;
    if (status == EXPR_LATE)
        return status;
    struct shown s = {.ctx = &ctx, .arena = arena};
    if (e)
        show_names(&s, source, e, &at);
    size_t end = e ? used - 2 : strlen(source);
    while (end > at && strchr(" \t\n", source[end - 1]))
        end--;
    buf_append(&s.text, source + at, end - at);
    bool holds = status == EXPR_OK && value.type == VALUE_BOOLEAN && value.integer;
    if (!holds) {
        const char *why = status == EXPR_FAILED         ? fault.text
                          : value.type != VALUE_BOOLEAN ? "the expression is a value, not a condition"
                                                        : "";
        error_set(err, ERROR_SPEC, "required: %s%s%s%s%s", s.text.len ? s.text.data : source,
                  *why || s.values.len ? ": " : "", why, *why && s.values.len ? "; " : "",
                  s.values.len ? s.values.data : "");
    }
    buf_free(&s.text);
    buf_free(&s.values);
    return holds ? EXPR_OK : EXPR_FAILED;
}

/* ---- all of them ---- */

static void check_names(struct load *l, const struct spec_text *text, const struct expr *e, bool *ret_good)
{
    if (!e)
        return;
    check_names(l, text, e->a, ret_good);
    check_names(l, text, e->b, ret_good);
    check_names(l, text, e->c, ret_good);
    if (e->op != OP_NAME || e->name == NAME_NNODES)
        return;
    struct expr_context ctx = {.spec = l->spec};
    struct expr_value value;
    struct expr_fault told = {0};
    bool known = e->name != NAME_UNKNOWN && expr_name_scope(e->name) == SCOPE_LOAD;
    const bool differs = expr_differs(l->spec, e);
    if (known && !differs && expr_lookup(e, &ctx, false, l->arena, &value, &told) != EXPR_FAILED)
        return;
    *ret_good = false;
    if (known && differs) {
        fault(l, text->place, "\"%s\" differs between the points of the sweep, and require is about all of them",
              e->whole);
        return;
    }
    struct diagnostic *d =
        fault(l, text->place, known ? "%s" : "\"%s\" is not known here", known ? told.text : e->whole);
    if (!known)
        diagnostic_expected(d, "roles.NAME.count, params.NAME, env.NAME and nnodes");
}

static void add(struct load *l, const struct doc_node *node)
{
    struct spec *spec = l->spec;
    struct spec_text text = text_of(node);
    struct expr_fault told = {0};
    size_t used = 0;
    bool good = true;
    if (!text.text)
        return;
    const struct expr *e = expr_parse(body_of(text.text, l->arena), l->arena, &used, &told);
    if (!e) {
        struct diagnostic *d = fault(l, text.place, "%s", told.text);
        if (told.hint[0])
            diagnostic_hint(d, "%s", told.hint);
        return;
    }
    check_names(l, &text, e, &good);
    if (!good)
        return;
    struct error err = ERROR_INIT;
    spec->require[spec->require_count++] = text;
    if (spec_require(spec, spec->require_count - 1, NULL, l->arena, &err) == EXPR_FAILED)
        fault(l, text.place, "%s", err.text);
}

void require_bind(struct load *l)
{
    const struct doc_node *roles = doc_get(l->root, "roles"), *top = doc_get(l->root, "require");
    size_t count = is_array(top) ? top->count : 0;
    for (size_t i = 0; i < l->spec->role_count; i++) {
        const struct doc_node *own = doc_get(roles->members[i].value, "require");
        count += is_array(own) ? own->count : 0;
    }
    l->spec->require = arena_array(l->arena, count + 1, sizeof *l->spec->require);
    for (size_t i = 0; is_array(top) && i < top->count; i++)
        add(l, top->items[i]);
    for (size_t r = 0; r < l->spec->role_count; r++) {
        const struct doc_node *own = doc_get(roles->members[r].value, "require");
        for (size_t i = 0; is_array(own) && i < own->count; i++)
            add(l, own->items[i]);
    }
}
