/* The entrypoint `function`: what call.py is told, as JSON in the worker's environment. */
#include "internal.h"
#include "rhrun/doc.h"

#include <string.h>

enum { CALL_MAX = 120 << 10 }; /* Linux ends a variable at 128 KiB */

/* ---- values ---- */

/* One ${{ }} and nothing else? *ret_name: the param that it names, NULL when it is something else. */
static bool is_expression(const struct doc_node *node, struct arena *arena, const char **ret_name)
{
    const char *text = node->text + strspn(node->text, " "), *end = strstr(text, "}}");
    *ret_name = NULL;
    if (!str_starts(text, "${{") || !end || end[2 + strspn(end + 2, " ")])
        return false;
    text += 3 + strspn(text + 3, " ");
    size_t len = (size_t)(end - text);
    while (len && text[len - 1] == ' ')
        len--;
    if (len > 7 && strncmp(text, "params.", 7) == 0)
        *ret_name = arena_strndup(arena, text + 7, len - 7);
    return true;
}

/* A value that is one expression keeps its type: a param's own, else an integer or a truth value where it reads as one. */
static void put_expanded(const struct spec *spec, const struct doc_node *node, const char *value, struct arena *arena,
                         struct buf *ret)
{
    const char *name;
    bool whole = is_expression(node, arena, &name), typed = whole;
    struct doc_node *plain = doc_new_plain(arena, value);
    for (size_t i = 0; name && i < spec->param_count; i++)
        if (str_eq(spec->params[i].name, name))
            typed = spec->params[i].type != SPEC_STRING;
    if (!typed || (plain->type != DOC_INT && plain->type != DOC_BOOL && !(name && plain->type == DOC_FLOAT)))
        buf_json_string(ret, value, strlen(value));
    else
        doc_to_json(plain, DOC_JSON_PLAIN, ret);
}

static enum expr_status put_value(const struct step_call *call, const struct doc_node *node, struct buf *ret,
                                  struct error *err)
{
    enum expr_status status = EXPR_OK;
    switch (node->type) {
    case DOC_OBJECT:
        buf_putc(ret, '{');
        for (size_t i = 0; i < node->count && status == EXPR_OK; i++) {
            buf_puts(ret, i ? "," : "");
            buf_json_string(ret, node->members[i].key, node->members[i].key_len);
            buf_putc(ret, ':');
            status = put_value(call, node->members[i].value, ret, err);
        }
        buf_putc(ret, '}');
        return status;
    case DOC_ARRAY:
        buf_putc(ret, '[');
        for (size_t i = 0; i < node->count && status == EXPR_OK; i++) {
            buf_puts(ret, i ? "," : "");
            status = put_value(call, node->items[i], ret, err);
        }
        buf_putc(ret, ']');
        return status;
    case DOC_STRING:
        if (strstr(node->text, "${{")) {
            const struct spec_text text = {.text = node->text, .place = node->place, .has_expr = true};
            const char *value;
            status = call->expand(call->arg, &text, &value, err);
            if (status == EXPR_OK)
                put_expanded(call->spec, node, value, call->arena, ret);
            return status;
        }
        break;
    case DOC_NULL:
    case DOC_BOOL:
    case DOC_INT:
    case DOC_FLOAT:
        break;
    }
    doc_to_json(node, DOC_JSON_PLAIN, ret);
    return EXPR_OK;
}

enum expr_status step_call_kwargs(const struct step_call *call, struct buf *ret, struct error *err)
{
    const struct doc_node *kwargs = call->spec->entrypoint.kwargs;
    if (!kwargs || kwargs->type != DOC_OBJECT) {
        buf_puts(ret, "{}");
        return EXPR_OK;
    }
    return put_value(call, kwargs, ret, err);
}

/* ---- the whole ---- */

static enum expr_status put_call(const struct step_call *call, const char *result, struct buf *ret, struct error *err)
{
    const struct spec_entrypoint *entry = &call->spec->entrypoint;
    const char *target, *value;
    enum expr_status status = call->expand(call->arg, &entry->target, &target, err);
    if (status != EXPR_OK)
        return status;
    const char *colon = strrchr(target, ':');
    if (!colon || colon == target || !colon[1]) {
        error_set(err, ERROR_SPEC, "\"%s\" does not name a function: \"module:function\"", target);
        return EXPR_FAILED;
    }
    buf_puts(ret, "{\"module\":");
    buf_json_string(ret, target, (size_t)(colon - target));
    buf_puts(ret, ",\"function\":");
    buf_json_string(ret, colon + 1, strlen(colon + 1));
    buf_puts(ret, ",\"result\":");
    buf_json_string(ret, result, strlen(result));
    buf_puts(ret, ",\"args\":[");
    for (size_t i = 0; i < entry->args.count; i++) {
        status = call->expand(call->arg, &entry->args.items[i], &value, err);
        if (status != EXPR_OK)
            return status;
        buf_puts(ret, i ? "," : "");
        buf_json_string(ret, value, strlen(value));
    }
    buf_puts(ret, "],\"kwargs\":");
    status = step_call_kwargs(call, ret, err);
    buf_putc(ret, '}');
    if (status == EXPR_OK && ret->len > CALL_MAX) {
        error_set(err, ERROR_SPEC, "the arguments of %s have more than %d bytes", target, CALL_MAX);
        return EXPR_FAILED;
    }
    return status;
}

const char *step_result_path(const struct spec *spec, const struct step_bind *bind, struct arena *arena)
{
    return arena_printf(arena, "@base/result/%s/%s-%u", spec->job_id ? spec->job_id : spec->name,
                        bind->run_id ? bind->run_id : "run", bind->generation);
}

enum expr_status step_call_json(const struct step_call *call, const struct step_bind *bind, uint32_t rank,
                                const char **ret, struct error *err)
{
    const char *dir;
    struct buf text = {0};
    if (step_absolute(bind, step_result_path(call->spec, bind, call->arena), call->arena, &dir, err) < 0)
        return EXPR_FAILED;
    enum expr_status status = put_call(call, arena_printf(call->arena, "%s/%u.json", dir, rank), &text, err);
    if (status == EXPR_OK)
        *ret = arena_strdup(call->arena, text.data);
    buf_free(&text);
    return status;
}
