/* The entrypoint `function`: the input of call.py, as JSON in the worker's environment. */
#include "internal.h"
#include "rhrun/doc.h"

#include <string.h>

enum { CALL_MAX = 120 << 10 }; /* Linux limits a variable to 128 KiB */

/* ---- values ---- */

static enum expr_status put(const struct step_call *call, const struct doc_node *node, const char *none,
                            struct buf *ret, struct error *err)
{
    struct doc_node *expanded;
    if (!node) {
        buf_puts(ret, none);
        return EXPR_OK;
    }
    enum expr_status status = expr_expand_doc(node, &call->ctx, call->keep_late, call->arena, &expanded, err);
    if (status == EXPR_OK)
        doc_to_json(expanded, DOC_JSON_PLAIN, ret);
    return status;
}

enum expr_status step_call_args(const struct step_call *call, struct buf *ret, struct error *err)
{
    return put(call, call->entry->positional, "[]", ret, err);
}

enum expr_status step_call_kwargs(const struct step_call *call, struct buf *ret, struct error *err)
{
    return put(call, call->entry->kwargs, "{}", ret, err);
}

/* ---- the whole ---- */

static enum expr_status put_call(const struct step_call *call, const char *dir, const char *rank, struct buf *ret,
                                 struct error *err)
{
    const struct spec_entrypoint *entry = call->entry;
    const char *target;
    enum expr_status status =
        expr_expand(&entry->target, EXPR_PLAIN, &call->ctx, call->keep_late, call->arena, &target, err);
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
    buf_json_string(ret, dir, strlen(dir));
    buf_printf(ret, ",\"rank\":%s,\"args\":", rank);
    status = step_call_args(call, ret, err);
    if (status != EXPR_OK)
        return status;
    buf_puts(ret, ",\"kwargs\":");
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
    const char *job = spec->job_id ? spec->job_id : spec->name;
    if (bind->launch)
        return arena_printf(arena, "@base/result/%s/%s", job, bind->launch);
    return arena_printf(arena, "@base/result/%s/%s-%u", job, bind->run_id ? bind->run_id : "run", bind->generation);
}

const char *step_rank0_path(const struct spec *spec, const struct step_bind *bind, struct arena *arena)
{
    return arena_printf(arena, "%s/rank0.%u", step_result_path(spec, bind, arena),
                        bind->node); /* nodes may share the folder */
}

enum expr_status step_call_json(const struct step_call *call, const struct step_bind *bind, const char *rank,
                                const char **ret, struct error *err)
{
    const char *dir;
    struct buf text = {0};
    if (step_absolute(bind, step_result_path(call->ctx.spec, bind, call->arena), call->arena, &dir, err) < 0)
        return EXPR_FAILED;
    enum expr_status status = put_call(call, dir, rank, &text, err);
    if (status == EXPR_OK)
        *ret = arena_strdup(call->arena, text.data);
    buf_free(&text);
    return status;
}
