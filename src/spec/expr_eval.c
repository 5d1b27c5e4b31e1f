/*
 * Evaluating an expression tree. && || ?: look at their right sides only when needed, so an expression
 * may be known before all its names are. A name that is not known yet makes the whole EXPR_LATE.
 */
#include "internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct eval {
    const struct expr_context *ctx;
    bool in_env;
    struct arena *arena;
    struct expr_fault *fault;
};

static enum expr_status failed(struct eval *v, const struct expr *e, const char *fmt, ...) FORMAT(3, 4);
static enum expr_status failed(struct eval *v, const struct expr *e, const char *fmt, ...)
{
    *v->fault = (struct expr_fault){.at = e->at, .end = e->end};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(v->fault->text, sizeof v->fault->text, fmt, ap);
    va_end(ap);
    return EXPR_FAILED;
}

static enum expr_status arithmetic(struct eval *v, const struct expr *e, const char *message)
{
    failed(v, e, "%s", message);
    v->fault->arithmetic = true;
    return EXPR_FAILED;
}

const char *expr_value_text(const struct expr_value *value, struct arena *arena)
{
    switch (value->type) {
    case VALUE_INTEGER:
        return arena_printf(arena, "%" PRId64, value->integer);
    case VALUE_BOOLEAN:
        return value->integer ? "true" : "false";
    case VALUE_STRING:
    case VALUE_NUMBER:
        break;
    }
    return value->text;
}

static const char *type_words(enum value_type type)
{
    static const char *const words[] = {"an integer", "true or false", "text", "a number that is not a plain integer"};
    return words[type];
}

static struct expr_value integer(int64_t value)
{
    return (struct expr_value){.type = VALUE_INTEGER, .integer = value};
}

static struct expr_value string(const char *text)
{
    return (struct expr_value){.type = VALUE_STRING, .text = text};
}

/* ---- names ---- */

static enum expr_status lookup_param(struct eval *v, const struct expr *e, struct expr_value *ret)
{
    const struct spec *spec = v->ctx->spec;
    for (size_t i = 0; i < spec->param_count; i++) {
        const struct spec_param *p = &spec->params[i];
        if (strcmp(p->name, e->member) != 0)
            continue;
        if (!p->value || (p->swept && !spec->point))
            return EXPR_LATE; /* its fault is reported where params are bound */
        int64_t n;
        if (p->type == SPEC_INTEGER || p->type == SPEC_NUMBER) {
            *ret = parse_i64(p->value, &n) ? integer(n) : (struct expr_value){.type = VALUE_NUMBER, .text = p->value};
            /* "1e-3" and "0x10" keep their text; so does "007", which would be printed as another text */
            if (ret->type == VALUE_INTEGER && strcmp(expr_value_text(ret, v->arena), p->value) != 0)
                *ret = (struct expr_value){.type = VALUE_NUMBER, .text = p->value};
        } else if (p->type == SPEC_BOOLEAN) {
            *ret = (struct expr_value){.type = VALUE_BOOLEAN, .integer = *p->value == 't' || *p->value == 'T'};
        } else {
            *ret = string(p->value);
        }
        return EXPR_OK;
    }
    return failed(v, e, "no param \"%s\"", e->member);
}

static enum expr_status lookup_env(struct eval *v, const struct expr *e, struct expr_value *ret)
{
    const struct spec *spec = v->ctx->spec;
    if (v->in_env)
        return failed(v, e, "a value of env cannot use env");
    for (size_t i = 0; i < spec->env_count; i++) {
        if (strcmp(spec->env[i].name, e->member) != 0)
            continue;
        if (!spec->env[i].value.text)
            return EXPR_LATE; /* missing from the caller's environment: reported where env is bound */
        struct expr_context inner = *v->ctx;
        struct error err = ERROR_INIT;
        const struct spec_text *value = &spec->env[i].value;
        if (value->has_expr && strstr(value->text, "env."))
            return failed(v, e, "a value of env cannot use env");
        enum expr_status status = expr_expand(value, EXPR_PLAIN, &inner, false, v->arena, &ret->text, &err);
        if (status == EXPR_FAILED)
            return failed(v, e, "%s", err.text);
        ret->type = VALUE_STRING;
        return status;
    }
    return failed(v, e, "no \"%s\" in env", e->member);
}

static enum expr_status known(struct expr_value *ret, bool is_known, uint32_t value)
{
    if (!is_known)
        return EXPR_LATE;
    *ret = integer(value);
    return EXPR_OK;
}

static enum expr_status known_text(struct expr_value *ret, bool is_known, const char *text)
{
    if (!is_known || !text)
        return EXPR_LATE;
    *ret = string(text);
    return EXPR_OK;
}

/* For another role: its number of workers, or the address of one of its nodes. */
static enum expr_status look_up_role(struct eval *v, const struct expr *e, struct expr_value *ret)
{
    const struct expr_context *c = v->ctx;
    const struct spec *spec = c->spec;
    uint32_t index;
    const char *name = expr_role_of(e->whole, v->arena, &index);
    uint32_t role = role_find(spec, name);
    if (role == SPEC_NO_ROLE)
        return failed(v, e, "there is no role \"%s\"", name);
    const struct expr_role *placed = c->roles ? &c->roles[role] : NULL;
    if (e->name == NAME_ROLE_COUNT) {
        const struct spec_role *r = &spec->roles[role];
        return placed && placed->counted ? known(ret, true, placed->count) : known(ret, r->counted, r->count);
    }
    if (!placed)
        return EXPR_LATE;
    if (index >= placed->node_count)
        return failed(v, e, "role \"%s\" is on %u node%s", name, placed->node_count,
                      placed->node_count == 1 ? "" : "s");
    return known_text(ret, c->address_of != NULL,
                      c->address_of ? c->address_of(c->address_arg, placed->nodes[index]) : NULL);
}

bool expr_differs(const struct spec *spec, const struct expr *e)
{
    if (!e || !spec->sweep)
        return false;
    if (e->op != OP_NAME)
        return expr_differs(spec, e->a) || expr_differs(spec, e->b) || expr_differs(spec, e->c);
    if (e->name == NAME_POINT || e->name == NAME_POINT_ID || e->name == NAME_POINT_INDEX || e->name == NAME_POINT_DIR)
        return true;
    for (size_t i = 0; e->name == NAME_PARAM && i < spec->param_count; i++)
        if (strcmp(spec->params[i].name, e->member) == 0)
            return spec->params[i].swept;
    return false;
}

/* A job without a sweep is one point without a name. */
static enum expr_status look_up_point(struct eval *v, enum expr_name name, struct expr_value *ret)
{
    const struct spec *spec = v->ctx->spec;
    const struct spec_point *p = spec->point;
    if (spec->sweep && !p)
        return EXPR_LATE;
    if (name == NAME_POINT_INDEX)
        return known(ret, true, p ? p->index : 0);
    if (name == NAME_POINT)
        return known_text(ret, true, p ? p->name : "");
    return known_text(ret, true, p ? p->id : params_id(spec->params, spec->param_count, v->arena));
}

static enum expr_status look_up(struct eval *v, const struct expr *e, struct expr_value *ret)
{
    const struct expr_context *c = v->ctx;
    switch (e->name) {
    case NAME_PARAM:
        return lookup_param(v, e, ret);
    case NAME_ENV:
        return lookup_env(v, e, ret);
    case NAME_ARGS:
        return failed(v, e, "args is a list: use it alone in an item of args or command, or in shell text");
    case NAME_POINT:
    case NAME_POINT_ID:
    case NAME_POINT_INDEX:
        return look_up_point(v, e->name, ret);
    case NAME_JOB_NAME:
        return known_text(ret, true, c->spec->name);
    case NAME_POINT_DIR:
        if (!c->spec->sweep && !c->spec->point)
            return failed(v, e, "point.dir is the folder of a point, and there is no sweep");
        return known_text(ret, c->point_dir != NULL, c->point_dir);
    case NAME_RUN_ID:
        return known_text(ret, c->run != NULL, c->run);
    case NAME_NODE_RANK:
        return known(ret, c->has_node, c->node_rank);
    case NAME_NODE_NAME:
        return known_text(ret, c->has_node, c->node_name);
    case NAME_NODE_ADDRESS:
        return known_text(ret, c->has_node, c->node_address);
    case NAME_NNODES:
        return known(ret, c->has_node, c->spec->nnodes);
    case NAME_RANK:
        return known(ret, c->has_rank, c->rank);
    case NAME_LOCAL_RANK:
        return known(ret, c->has_rank, c->local_rank);
    case NAME_WORLD_SIZE:
        return known(ret, c->has_rank, c->world_size);
    case NAME_LOCAL_WORLD_SIZE:
        return known(ret, c->has_rank, c->local_world_size);
    case NAME_ROLE:
        return known_text(ret, c->role != NULL, c->role);
    case NAME_ROLE_RANK:
        return known(ret, c->role != NULL, c->role_rank);
    case NAME_ROLE_SIZE:
        return known(ret, c->role != NULL, c->role_size);
    case NAME_PEER_RANK:
        return known(ret, c->has_peer, c->peer_rank);
    case NAME_PEER_ADDRESS:
        return known_text(ret, c->has_peer, c->peer_address);
    case NAME_ROLE_COUNT:
    case NAME_ROLE_ADDRESS:
        return look_up_role(v, e, ret);
    case NAME_UNKNOWN:
        break;
    }
    return failed(v, e, "unknown name \"%s\"", e->whole);
}

enum expr_status expr_lookup(const struct expr *e, const struct expr_context *ctx, bool in_env, struct arena *arena,
                             struct expr_value *ret, struct expr_fault *fault)
{
    struct eval v = {.ctx = ctx, .in_env = in_env, .arena = arena, .fault = fault};
    return look_up(&v, e, ret);
}

/* ---- operators ---- */

static enum expr_status evaluate(struct eval *v, const struct expr *e, struct expr_value *ret);

static enum expr_status evaluate_as(struct eval *v, const struct expr *e, enum value_type type, struct expr_value *ret)
{
    struct expr_value value;
    enum expr_status status = evaluate(v, e, &value);
    if (status != EXPR_OK)
        return status;
    if (value.type != type)
        return failed(v, e, "%s expected here, this is %s", type_words(type), type_words(value.type));
    *ret = value;
    return EXPR_OK;
}

static enum expr_status combine(struct eval *v, const struct expr *e, int64_t a, int64_t b, struct expr_value *ret)
{
    int64_t n = 0;
    bool overflow = false;
    if ((e->op == OP_DIV || e->op == OP_MOD) && b == 0)
        return arithmetic(v, e, "division by zero");
    if (e->op == OP_ADD)
        overflow = __builtin_add_overflow(a, b, &n);
    else if (e->op == OP_SUB)
        overflow = __builtin_sub_overflow(a, b, &n);
    else if (e->op == OP_MUL)
        overflow = __builtin_mul_overflow(a, b, &n);
    else if (a == INT64_MIN && b == -1)
        overflow = true;
    else
        n = e->op == OP_DIV ? a / b : a % b;
    if (overflow)
        return arithmetic(v, e, "the result is beyond 64 bits");
    *ret = integer(n);
    return EXPR_OK;
}

static bool is_numeric(const struct expr_value *value)
{
    return value->type == VALUE_INTEGER || value->type == VALUE_NUMBER;
}

static int order(const struct expr_value *a, const struct expr_value *b)
{
    if (a->type == VALUE_STRING)
        return strcmp(a->text, b->text);
    if (a->type != VALUE_NUMBER && b->type != VALUE_NUMBER)
        return (a->integer > b->integer) - (a->integer < b->integer);
    double x = a->type == VALUE_NUMBER ? strtod(a->text, NULL) : (double)a->integer;
    double y = b->type == VALUE_NUMBER ? strtod(b->text, NULL) : (double)b->integer;
    return (x > y) - (x < y);
}

static enum expr_status compare(struct eval *v, const struct expr *e, struct expr_value *ret)
{
    struct expr_value a = {0}, b = {0};
    enum expr_status left = evaluate(v, e->a, &a);
    if (left == EXPR_FAILED)
        return left;
    enum expr_status right = evaluate(v, e->b, &b);
    if (right != EXPR_OK || left != EXPR_OK)
        return right == EXPR_FAILED ? right : EXPR_LATE;
    if (a.type != b.type && !(is_numeric(&a) && is_numeric(&b)))
        return failed(v, e, "cannot compare %s with %s", type_words(a.type), type_words(b.type));
    bool equality = e->op == OP_EQ || e->op == OP_NE;
    if (a.type == VALUE_BOOLEAN && !equality)
        return failed(v, e, "true and false have no order");
    int d = order(&a, &b);
    bool yes = e->op == OP_EQ   ? d == 0
               : e->op == OP_NE ? d != 0
               : e->op == OP_LT ? d < 0
               : e->op == OP_LE ? d <= 0
               : e->op == OP_GT ? d > 0
                                : d >= 0;
    *ret = (struct expr_value){.type = VALUE_BOOLEAN, .integer = yes};
    return EXPR_OK;
}

static enum expr_status calculate(struct eval *v, const struct expr *e, struct expr_value *ret)
{
    struct expr_value a = {0}, b = {0};
    enum expr_status left = evaluate_as(v, e->a, VALUE_INTEGER, &a);
    if (left == EXPR_FAILED)
        return left;
    enum expr_status right = evaluate_as(v, e->b, VALUE_INTEGER, &b);
    if (right != EXPR_OK || left != EXPR_OK)
        return right == EXPR_FAILED ? right : EXPR_LATE;
    return combine(v, e, a.integer, b.integer, ret);
}

/* && and ||: the left side alone may decide; a late left side leaves the right one to be checked. */
static enum expr_status decide(struct eval *v, const struct expr *e, struct expr_value *ret)
{
    struct expr_value a = {0}, b = {0};
    enum expr_status left = evaluate_as(v, e->a, VALUE_BOOLEAN, &a);
    if (left == EXPR_FAILED)
        return left;
    if (left == EXPR_OK && (a.integer != 0) == (e->op == OP_OR)) {
        *ret = a;
        return EXPR_OK;
    }
    enum expr_status right = evaluate_as(v, e->b, VALUE_BOOLEAN, &b);
    if (right == EXPR_FAILED || (right == EXPR_OK && left == EXPR_OK)) {
        if (right == EXPR_OK)
            *ret = b;
        return right;
    }
    return EXPR_LATE;
}

static enum expr_status part_of_path(struct eval *v, const struct expr *e, struct expr_value *ret)
{
    struct expr_value a = {0};
    enum expr_status status = evaluate_as(v, e->a, VALUE_STRING, &a);
    if (status != EXPR_OK)
        return status;
    size_t n = strlen(a.text);
    while (n > 1 && a.text[n - 1] == '/')
        n--;
    size_t slash = n;
    while (slash > 0 && a.text[slash - 1] != '/')
        slash--;
    if (e->op == OP_BASENAME) {
        *ret = string(n == 1 && a.text[0] == '/' ? "/" : arena_strndup(v->arena, a.text + slash, n - slash));
        return EXPR_OK;
    }
    while (slash > 1 && a.text[slash - 1] == '/')
        slash--;
    *ret = string(slash == 0 ? "." : arena_strndup(v->arena, a.text, slash));
    return EXPR_OK;
}

static enum expr_status evaluate_one(struct eval *v, const struct expr *e, struct expr_value *ret)
{
    struct expr_value a = {0};
    enum expr_status status;
    if (e->op == OP_NOT) {
        status = evaluate_as(v, e->a, VALUE_BOOLEAN, &a);
        if (status == EXPR_OK)
            *ret = (struct expr_value){.type = VALUE_BOOLEAN, .integer = !a.integer};
        return status;
    }
    status = evaluate_as(v, e->a, VALUE_INTEGER, &a);
    if (status != EXPR_OK)
        return status;
    if (a.integer == INT64_MIN)
        return arithmetic(v, e, "the result is beyond 64 bits");
    *ret = integer(-a.integer);
    return EXPR_OK;
}

static enum expr_status evaluate(struct eval *v, const struct expr *e, struct expr_value *ret)
{
    struct expr_value a = {0};
    enum expr_status status;
    switch (e->op) {
    case OP_LITERAL:
        *ret = e->literal;
        return EXPR_OK;
    case OP_NAME:
        return look_up(v, e, ret);
    case OP_NOT:
    case OP_NEGATE:
        return evaluate_one(v, e, ret);
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_DIV:
    case OP_MOD:
        return calculate(v, e, ret);
    case OP_EQ:
    case OP_NE:
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE:
        return compare(v, e, ret);
    case OP_AND:
    case OP_OR:
        return decide(v, e, ret);
    case OP_IF:
        status = evaluate_as(v, e->a, VALUE_BOOLEAN, &a);
        return status == EXPR_OK ? evaluate(v, a.integer ? e->b : e->c, ret) : status;
    case OP_DIRNAME:
    case OP_BASENAME:
        return part_of_path(v, e, ret);
    }
    return failed(v, e, "cannot be evaluated");
}

enum expr_status expr_eval(const struct expr *e, const struct expr_context *ctx, bool in_env, struct arena *arena,
                           struct expr_value *ret, struct expr_fault *fault)
{
    struct eval v = {.ctx = ctx, .in_env = in_env, .arena = arena, .fault = fault};
    return evaluate(&v, e, ret);
}
