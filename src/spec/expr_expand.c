/*
 * Expands the ${{ }} in a text, and checks them at load time with the place of each. A late expression that stays is
 * written with its known names filled in, so that a changed param changes the text (and with it a step's key) even if
 * the expression also has a rank.
 */
#include "internal.h"

#include <string.h>

struct expansion {
    const struct expr_context *ctx;
    enum expr_mode mode;
    bool keep_late, in_env;
    struct arena *arena;
    struct buf out;
    struct shell_tracker shell;
    bool late;
};

/* ---- late expressions, partly known ---- */

static void put_literal(struct buf *out, const struct expr_value *value, struct arena *arena)
{
    const char *text = expr_value_text(value, arena);
    if (value->type != VALUE_STRING) {
        buf_puts(out, text);
        return;
    }
    buf_putc(out, '\'');
    for (; *text; text++) {
        if (*text == '\'')
            buf_putc(out, '\'');
        buf_putc(out, *text);
    }
    buf_putc(out, '\'');
}

/* Copies source up to `end`, replacing the known names of the tree; *pos moves along. */
static void put_known(struct expansion *x, const char *source, const struct expr *e, size_t *pos)
{
    if (!e)
        return;
    if (e->op != OP_NAME) {
        put_known(x, source, e->a, pos);
        put_known(x, source, e->b, pos);
        put_known(x, source, e->c, pos);
        return;
    }
    struct expr_value value;
    struct expr_fault fault;
    /* only names of the job itself: a host's name or a rank never makes a step stale */
    if (expr_name_scope(e->name) != SCOPE_LOAD ||
        expr_lookup(e, x->ctx, x->in_env, x->arena, &value, &fault) != EXPR_OK)
        return;
    buf_append(&x->out, source + *pos, e->at - *pos);
    put_literal(&x->out, &value, x->arena);
    *pos = e->end;
}

/* ---- expanding ---- */

static bool is_args(const struct expr *e)
{
    return e->op == OP_NAME && e->name == NAME_ARGS;
}

static enum expr_status insert(struct expansion *x, const char *value, char next, struct error *err)
{
    if (x->mode == EXPR_PLAIN) {
        buf_puts(&x->out, value);
        return EXPR_OK;
    }
    const char *why = shell_refuses(&x->shell, value);
    if (why) {
        error_set(err, ERROR_SPEC, "a value cannot stand %s", why);
        error_hint(err, "put it in a variable first: x=${{ ... }}, then use \"$x\"");
        return EXPR_FAILED;
    }
    shell_insert(&x->shell, value, next, &x->out);
    return EXPR_OK;
}

/* args in shell text: each is a separate word. */
static enum expr_status insert_args(struct expansion *x, struct error *err)
{
    const struct spec *spec = x->ctx->spec;
    if (x->mode != EXPR_SHELL || x->shell.stack[x->shell.depth] > SHELL_PAREN) {
        error_set(err, ERROR_SPEC,
                  "args is a list: use it alone in an item of args or command, or unquoted in shell text");
        return EXPR_FAILED;
    }
    for (size_t i = 0; i < spec->arg_count; i++) {
        if (i > 0)
            buf_putc(&x->out, ' ');
        enum expr_status status = insert(x, spec->args[i], '>', err);
        if (status != EXPR_OK)
            return status;
    }
    return EXPR_OK;
}

/* One expression; source begins after "${{", and *ret_used is the length up to after "}}". */
static enum expr_status expand_one(struct expansion *x, const char *source, size_t *ret_used, struct error *err)
{
    struct expr_fault fault = {0};
    struct expr_value value;
    const struct expr *e = expr_parse(source, x->arena, ret_used, &fault);
    enum expr_status status = e ? EXPR_OK : EXPR_FAILED;
    if (e && is_args(e))
        return insert_args(x, err);
    if (e)
        status = expr_eval(e, x->ctx, x->in_env, x->arena, &value, &fault);
    if (status == EXPR_FAILED) {
        size_t len = e ? *ret_used : strnlen(source, 40);
        error_set(err, ERROR_SPEC, "${{%.*s: %s", (int)(len < 80 ? len : 80), source, fault.text);
        error_hint(err, "%s", fault.hint);
        return status;
    }
    if (status == EXPR_OK)
        return insert(x, expr_value_text(&value, x->arena), source[*ret_used], err);
    x->late = true;
    if (x->keep_late) {
        size_t pos = 0;
        buf_puts(&x->out, "${{");
        put_known(x, source, e, &pos);
        buf_append(&x->out, source + pos, *ret_used - pos);
        if (x->mode == EXPR_SHELL) /* stands for some value, so that the words after it are parsed correctly */
            x->shell.word_start = false;
        return EXPR_OK;
    }
    error_set(err, ERROR_SPEC, "${{%.*s: not known yet", (int)(*ret_used < 80 ? *ret_used : 80), source);
    return status;
}

enum expr_status expr_expand(const struct spec_text *text, enum expr_mode mode, const struct expr_context *ctx,
                             bool keep_late, struct arena *arena, const char **ret, struct error *err)
{
    if (!text->text || !text->has_expr) {
        *ret = text->text;
        return EXPR_OK;
    }
    struct expansion x = {.ctx = ctx, .mode = mode, .keep_late = keep_late, .arena = arena};
    shell_begin(&x.shell);
    const char *p = text->text;
    enum expr_status status = EXPR_OK;
    while (status == EXPR_OK) {
        const char *open = strstr(p, "${{");
        size_t plain = open ? (size_t)(open - p) : strlen(p), used = 0;
        buf_append(&x.out, p, plain);
        if (mode == EXPR_SHELL)
            shell_feed(&x.shell, p, plain);
        if (!open)
            break;
        status = expand_one(&x, open + 3, &used, err);
        p = open + 3 + used;
    }
    if (status == EXPR_OK)
        *ret = arena_strndup(arena, x.out.len > 0 ? x.out.data : "", x.out.len);
    buf_free(&x.out);
    return status;
}
