/*
 * The expression language of ${{ }}: reading text into a tree, by precedence climbing. Depth and length are bounded;
 * names are looked up when the tree is evaluated.
 */
#include "internal.h"

#include <ctype.h>
#include <string.h>

enum { EXPR_MAX_BYTES = 4096, EXPR_MAX_DEPTH = 32 };

enum token_type { TOKEN_END, TOKEN_INTEGER, TOKEN_STRING, TOKEN_NAME, TOKEN_SIGN, TOKEN_BAD };
struct token {
    enum token_type type;
    size_t at, end;
    char sign[3];     /* TOKEN_SIGN */
    const char *text; /* TOKEN_NAME, TOKEN_STRING */
    int64_t integer;
};
struct parser {
    const char *text;
    size_t pos, depth;
    struct token token;
    struct arena *arena;
    struct expr_fault *fault;
    bool failed;
};

static const struct {
    enum expr_name name;
    const char *text;
    enum expr_scope scope;
} names[] = {
    {NAME_ARGS, "args", SCOPE_LOAD},
    {NAME_JOB_NAME, "job.name", SCOPE_LOAD},
    {NAME_POINT, "point", SCOPE_LOAD},
    {NAME_POINT_ID, "point.id", SCOPE_LOAD},
    {NAME_POINT_INDEX, "point.index", SCOPE_LOAD},
    {NAME_POINT_DIR, "point.dir", SCOPE_NODE},
    {NAME_RUN_ID, "run.id", SCOPE_NODE},
    {NAME_NODE_RANK, "node.rank", SCOPE_NODE},
    {NAME_NODE_NAME, "node.name", SCOPE_NODE},
    {NAME_NODE_ADDRESS, "node.address", SCOPE_NODE},
    {NAME_NNODES, "nnodes", SCOPE_NODE},
    {NAME_RANK, "rank", SCOPE_RANK},
    {NAME_LOCAL_RANK, "local_rank", SCOPE_RANK},
    {NAME_WORLD_SIZE, "world_size", SCOPE_RANK},
    {NAME_LOCAL_WORLD_SIZE, "local_world_size", SCOPE_RANK},
    {NAME_ROLE, "role", SCOPE_RANK},
    {NAME_ROLE_RANK, "role_rank", SCOPE_RANK},
    {NAME_ROLE_SIZE, "role_world_size", SCOPE_RANK},
    {NAME_PEER_RANK, "peer.rank", SCOPE_RANK},
    {NAME_PEER_ADDRESS, "peer.address", SCOPE_RANK},
};

static bool is_role_name(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)s[i]) && s[i] != '_')
            return false;
    return len > 0;
}

/* "roles.R.count" or "roles.R.nodes[i].address". */
static enum expr_name role_name_find(const char *whole)
{
    const char *role = whole + strlen("roles."), *dot = strchr(role, '.');
    if (!dot || !is_role_name(role, (size_t)(dot - role)))
        return NAME_UNKNOWN;
    if (strcmp(dot, ".count") == 0)
        return NAME_ROLE_COUNT;
    if (!str_starts(dot, ".nodes["))
        return NAME_UNKNOWN;
    const char *digits = dot + strlen(".nodes[");
    size_t n = strspn(digits, "0123456789");
    return n > 0 && n <= 5 && strcmp(digits + n, "].address") == 0 ? NAME_ROLE_ADDRESS : NAME_UNKNOWN;
}

const char *expr_role_of(const char *whole, struct arena *arena, uint32_t *ret_index)
{
    const char *role = whole + strlen("roles."), *dot = strchr(role, '.'), *open = strchr(role, '[');
    *ret_index = 0;
    if (open)
        parse_u32(arena_strndup(arena, open + 1, strspn(open + 1, "0123456789")), ret_index);
    return arena_strndup(arena, role, (size_t)(dot - role));
}

enum expr_name expr_name_find(const char *whole, const char *member)
{
    if (member && str_starts(whole, "params."))
        return NAME_PARAM;
    if (member && str_starts(whole, "env."))
        return NAME_ENV;
    if (member && str_starts(whole, "roles."))
        return role_name_find(whole);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(names[i].text, whole) == 0)
            return names[i].name;
    return NAME_UNKNOWN;
}

enum expr_scope expr_name_scope(enum expr_name name)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (names[i].name == name)
            return names[i].scope;
    return name == NAME_ROLE_ADDRESS ? SCOPE_NODE : SCOPE_LOAD;
}

static void fail(struct parser *p, size_t at, size_t end, const char *message, const char *hint)
{
    if (p->failed)
        return;
    p->failed = true;
    *p->fault = (struct expr_fault){.at = at, .end = end > at ? end : at + 1};
    snprintf(p->fault->text, sizeof p->fault->text, "%s", message);
    snprintf(p->fault->hint, sizeof p->fault->hint, "%s", hint);
}

/* ---- tokens ---- */

static void read_string(struct parser *p, char quote)
{
    struct buf b = {0};
    size_t start = p->pos++;
    for (;; p->pos++) {
        char c = p->text[p->pos];
        if (!c) {
            fail(p, start, start + 1, "the text in quotes is not closed", "a quote inside is written twice");
            p->token.type = TOKEN_BAD;
            break;
        }
        if (c == quote && p->text[p->pos + 1] != quote) {
            p->pos++;
            p->token.type = TOKEN_STRING;
            break;
        }
        if (c == quote)
            p->pos++;
        buf_putc(&b, c);
    }
    p->token.text = arena_strndup(p->arena, b.len > 0 ? b.data : "", b.len);
    buf_free(&b);
}

static void read_integer(struct parser *p)
{
    size_t start = p->pos;
    while (isalnum((unsigned char)p->text[p->pos]) || p->text[p->pos] == '.')
        p->pos++;
    const char *digits = arena_strndup(p->arena, p->text + start, p->pos - start);
    p->token.type = TOKEN_INTEGER;
    if (parse_i64(digits, &p->token.integer))
        return;
    p->token.type = TOKEN_BAD;
    bool number = strspn(digits, "0123456789") == strlen(digits);
    fail(p, start, p->pos, number ? "the number is too large" : "not an integer",
         number ? "integers have 64 bits" : "expressions have only decimal integers");
}

static void read_name(struct parser *p)
{
    size_t start = p->pos;
    for (;;) {
        while (isalnum((unsigned char)p->text[p->pos]) || p->text[p->pos] == '_')
            p->pos++;
        if (p->text[p->pos] == '[' && str_starts(p->text + start, "roles.")) {
            size_t digits = strspn(p->text + p->pos + 1, "0123456789");
            if (digits > 0 && p->text[p->pos + 1 + digits] == ']')
                p->pos += digits + 2;
        }
        char after = p->text[p->pos] == '.' ? p->text[p->pos + 1] : 0;
        if (!isalpha((unsigned char)after) && after != '_')
            break;
        p->pos++;
    }
    p->token.type = TOKEN_NAME;
    p->token.text = arena_strndup(p->arena, p->text + start, p->pos - start);
}

static void read_sign(struct parser *p)
{
    static const char *const signs[] = {"}}", "==", "!=", "<=", ">=", "&&", "||", "+", "-", "*",
                                        "/",  "%",  "<",  ">",  "!",  "?",  ":",  "(", ")", NULL};
    for (const char *const *s = signs; *s; s++)
        if (strncmp(p->text + p->pos, *s, strlen(*s)) == 0) {
            p->token.type = TOKEN_SIGN;
            snprintf(p->token.sign, sizeof p->token.sign, "%s", *s);
            p->pos += strlen(*s);
            return;
        }
    p->token.type = TOKEN_BAD;
    char c = p->text[p->pos];
    const char *hint = c == '='               ? "equality is =="
                       : c == '&' || c == '|' ? "write && or ||"
                       : c == '}'             ? "two of them close an expression: ${{ NAME }}"
                                              : "";
    const char *message =
        c == '}' ? "the expression is not closed: one } stands here" : "an expression cannot have this character";
    fail(p, p->pos, p->pos + 1, message, hint);
    p->pos++;
}

static void next(struct parser *p)
{
    while (isspace((unsigned char)p->text[p->pos]))
        p->pos++;
    p->token = (struct token){.type = TOKEN_END, .at = p->pos};
    char c = p->text[p->pos];
    if (p->pos > EXPR_MAX_BYTES)
        fail(p, 0, 1, "the expression is too long", "at most 4096 bytes");
    else if (c == '\'' || c == '"')
        read_string(p, c);
    else if (isdigit((unsigned char)c))
        read_integer(p);
    else if (isalpha((unsigned char)c) || c == '_')
        read_name(p);
    else if (c)
        read_sign(p);
    p->token.end = p->pos;
}

static bool is_sign(const struct parser *p, const char *sign)
{
    return p->token.type == TOKEN_SIGN && strcmp(p->token.sign, sign) == 0;
}

/* ---- grammar ---- */

static const struct expr *parse_choice(struct parser *p);

static struct expr *node(struct parser *p, enum expr_op op, const struct expr *a, const struct expr *b)
{
    struct expr *e = arena_alloc(p->arena, sizeof *e);
    e->op = op;
    e->a = a;
    e->b = b;
    e->at = a ? a->at : p->token.at;
    e->end = b ? b->end : a ? a->end : p->token.end;
    return e;
}

static void expect(struct parser *p, const char *sign)
{
    if (is_sign(p, sign)) {
        next(p);
        return;
    }
    char message[80];
    bool open = p->token.type == TOKEN_END;
    snprintf(message, sizeof message, open ? "the expression is not closed: }} is missing" : "\"%s\" expected here",
             sign);
    fail(p, open ? 0 : p->token.at, p->token.end, message, "");
}

static const struct expr *parse_call(struct parser *p, enum expr_op op)
{
    struct expr *e = node(p, op, NULL, NULL);
    next(p);
    expect(p, "(");
    e->a = parse_choice(p);
    e->end = p->token.end;
    expect(p, ")");
    return e;
}

static const struct expr *parse_name(struct parser *p)
{
    const char *text = p->token.text;
    if (strcmp(text, "dirname") == 0)
        return parse_call(p, OP_DIRNAME);
    if (strcmp(text, "basename") == 0)
        return parse_call(p, OP_BASENAME);
    struct expr *e = node(p, OP_NAME, NULL, NULL);
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        e->op = OP_LITERAL;
        e->literal = (struct expr_value){.type = VALUE_BOOLEAN, .integer = *text == 't'};
    } else {
        const char *dot = strchr(text, '.');
        e->whole = text;
        e->member = dot ? dot + 1 : NULL;
        e->name = expr_name_find(text, e->member);
    }
    next(p);
    return e;
}

static const struct expr *parse_primary(struct parser *p)
{
    struct expr *e = NULL;
    if (p->token.type == TOKEN_NAME)
        return parse_name(p);
    if (p->token.type == TOKEN_INTEGER || p->token.type == TOKEN_STRING) {
        e = node(p, OP_LITERAL, NULL, NULL);
        e->literal = (struct expr_value){.type = p->token.type == TOKEN_INTEGER ? VALUE_INTEGER : VALUE_STRING,
                                         .integer = p->token.integer,
                                         .text = p->token.text};
        next(p);
        return e;
    }
    if (is_sign(p, "(")) {
        next(p);
        const struct expr *inner = parse_choice(p);
        expect(p, ")");
        return inner;
    }
    if (p->token.type == TOKEN_END)
        fail(p, 0, 1, "the expression is not closed: }} is missing", "a literal ${{ is written ${{ '${{' }}");
    else
        fail(p, p->token.at, p->token.end, "a value expected here", "");
    return node(p, OP_LITERAL, NULL, NULL);
}

static const struct expr *parse_unary(struct parser *p)
{
    if (!is_sign(p, "!") && !is_sign(p, "-"))
        return parse_primary(p);
    if (++p->depth > EXPR_MAX_DEPTH) {
        fail(p, p->token.at, p->token.end, "the expression is nested too deeply", "at most 32 levels");
        return node(p, OP_LITERAL, NULL, NULL);
    }
    struct expr *e = node(p, *p->token.sign == '!' ? OP_NOT : OP_NEGATE, NULL, NULL);
    next(p);
    e->a = parse_unary(p);
    e->end = e->a->end;
    p->depth--;
    return e;
}

static const struct {
    const char *sign;
    enum expr_op op;
    int level;
} binaries[] = {
    {"||", OP_OR, 1}, {"&&", OP_AND, 2}, {"==", OP_EQ, 3}, {"!=", OP_NE, 3}, {"<", OP_LT, 4},
    {"<=", OP_LE, 4}, {">", OP_GT, 4},   {">=", OP_GE, 4}, {"+", OP_ADD, 5}, {"-", OP_SUB, 5},
    {"*", OP_MUL, 6}, {"/", OP_DIV, 6},  {"%", OP_MOD, 6},
};

static const struct expr *parse_binary(struct parser *p, int level)
{
    const struct expr *left = parse_unary(p);
    while (!p->failed) {
        size_t i = 0;
        while (i < ARRAY_LEN(binaries) && !(is_sign(p, binaries[i].sign) && binaries[i].level >= level))
            i++;
        if (i == ARRAY_LEN(binaries))
            break;
        next(p);
        const struct expr *right = parse_binary(p, binaries[i].level + 1);
        left = node(p, binaries[i].op, left, right);
    }
    return left;
}

static const struct expr *parse_choice(struct parser *p)
{
    if (++p->depth > EXPR_MAX_DEPTH) {
        fail(p, p->token.at, p->token.end, "the expression is nested too deeply", "at most 32 levels");
        return node(p, OP_LITERAL, NULL, NULL);
    }
    const struct expr *condition = parse_binary(p, 1);
    if (is_sign(p, "?") && !p->failed) {
        next(p);
        const struct expr *yes = parse_choice(p);
        expect(p, ":");
        struct expr *e = node(p, OP_IF, condition, yes);
        e->c = parse_choice(p);
        e->end = e->c->end;
        condition = e;
    }
    p->depth--;
    return condition;
}

const struct expr *expr_parse(const char *text, struct arena *arena, size_t *ret_used, struct expr_fault *ret_fault)
{
    struct parser p = {.text = text, .arena = arena, .fault = ret_fault};
    next(&p);
    if (is_sign(&p, "}}"))
        fail(&p, p.token.at, p.token.end, "the expression is empty", "a literal ${{ is written ${{ '${{' }}");
    const struct expr *e = parse_choice(&p);
    if (!p.failed && !is_sign(&p, "}}")) {
        if (p.token.type == TOKEN_END)
            fail(&p, 0, 1, "the expression is not closed: }} is missing", "a literal ${{ is written ${{ '${{' }}");
        else
            fail(&p, p.token.at, p.token.end, "an operator or }} expected here", "");
    }
    if (p.failed)
        return NULL;
    *ret_used = p.token.end;
    return e;
}
