/*
 * Checks expressions when the spec is loaded: syntax, names, types as far as they are known, and that a value can be
 * inserted at its place in shell text. Faults point into the text: the place of an expression is found again in the
 * source by counting "${{" from the value's beginning, and falls back to the whole value where escapes or folding make
 * the two differ.
 */
#include "internal.h"

#include <string.h>

struct check {
    const struct spec_text *text;
    const struct spec *spec;
    const struct expr_rules *rules;
    struct diagnostics *diagnostics;
    struct arena *arena;
    size_t index;       /* number of the "${{" in the text */
    const char *source; /* the text after it */
};

/* ---- places ---- */

/* The place of bytes [at, end) after the index-th "${{" in the text. */
static struct place place_in(const struct check *c, size_t at, size_t end)
{
    struct place place = c->text->place;
    if (!place.source || place.line == 0)
        return place;
    const char *first = source_byte(place.source, place.line, place.column);
    const char *last = source_byte(place.source, place.end_line, place.end_column);
    if (!first)
        return place;
    if (!last)
        last = place.source->text + place.source->len;
    const char *hit = first;
    for (size_t i = 0;; i++) {
        hit = memmem(hit, (size_t)(last - hit), "${{", 3);
        if (!hit)
            return place;
        hit += 3;
        if (i == c->index)
            break;
    }
    if (end > (size_t)(last - hit) || memcmp(hit, c->source, end) != 0) {
        at = 0;
        end = 0;
    }
    struct place found = place;
    const char *from = end > 0 ? hit + at : hit - 3, *to = end > 0 ? hit + end : hit;
    place_advance(&found, first, from);
    found.end_line = found.line;
    found.end_column = found.column;
    struct place stop = found;
    place_advance(&stop, from, to);
    found.end_line = stop.line;
    found.end_column = stop.column;
    return found;
}

static struct diagnostic *report(struct check *c, size_t at, size_t end, const char *fmt, ...) FORMAT(4, 5);
static struct diagnostic *report(struct check *c, size_t at, size_t end, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *message = xvasprintf(fmt, ap);
    va_end(ap);
    return diagnostics_add(c->diagnostics, SEVERITY_ERROR, place_in(c, at, end), "%s", message);
}

/* ---- names ---- */

/* The declared params or env names, NULL-terminated. */
static const char *const *declared(struct check *c, bool params)
{
    size_t count = params ? c->spec->param_count : c->spec->env_count;
    const char **list = arena_array(c->arena, count + 1, sizeof *list);
    for (size_t i = 0; i < count; i++)
        list[i] = params ? c->spec->params[i].name : c->spec->env[i].name;
    return list;
}

static bool contains(const char *const *list, const char *word)
{
    for (; *list; list++)
        if (strcmp(*list, word) == 0)
            return true;
    return false;
}

static void report_unknown(struct check *c, const struct expr *e)
{
    static const char *const known[] = {"params",
                                        "env",
                                        "args",
                                        "job.name",
                                        "run.id",
                                        "point",
                                        "point.id",
                                        "point.index",
                                        "node.rank",
                                        "node.name",
                                        "node.address",
                                        "nnodes",
                                        "rank",
                                        "local_rank",
                                        "world_size",
                                        "local_world_size",
                                        "role",
                                        "role_rank",
                                        "role_world_size",
                                        "peer.rank",
                                        "peer.address",
                                        "roles",
                                        "dirname",
                                        "basename",
                                        NULL};
    struct diagnostic *d = report(c, e->at, e->end, "unknown name \"%s\" in an expression", e->whole);
    if (str_starts(e->whole, "secrets")) {
        diagnostic_hint(d, "an expression cannot have a secret; the job finds the secret in its environment");
        return;
    }
    size_t context_len = strcspn(e->whole, ".");
    const char *near = str_nearest(e->whole, known);
    const char *context = str_nearest(arena_strndup(c->arena, e->whole, context_len), known);
    if (contains(declared(c, true), e->whole))
        diagnostic_hint(d, "did you mean params.%s?", e->whole);
    else if (e->member && context && (strcmp(context, "params") == 0 || strcmp(context, "env") == 0))
        diagnostic_hint(d, "did you mean %s.%s?", context, e->member);
    else if (near && strcmp(near, "params") != 0 && strcmp(near, "env") != 0)
        diagnostic_hint(d, "did you mean %s?", near);
    else
        diagnostic_expected(
            d, "params.NAME, env.NAME, args, job.name, run.id, point, point.id, point.index, node.rank, node.name, "
               "node.address, nnodes, "
               "rank, local_rank, world_size, local_world_size, role, role_rank, role_world_size, peer.rank, "
               "peer.address, roles.NAME.count or roles.NAME.nodes[0].address");
}

static void check_role(struct check *c, const struct expr *e)
{
    uint32_t index;
    const char *name = expr_role_of(e->whole, c->arena, &index);
    if (role_find(c->spec, name) != SPEC_NO_ROLE)
        return;
    const char **names = arena_array(c->arena, c->spec->role_count + 1, sizeof *names);
    for (size_t i = 0; i < c->spec->role_count; i++)
        names[i] = c->spec->roles[i].name;
    struct diagnostic *d = report(c, e->at, e->end, "there is no role \"%s\"", name);
    const char *near = str_nearest(name, names);
    if (near)
        diagnostic_hint(d, "did you mean %s?", near);
}

/* ---- the sweep ---- */

static bool same_place(const struct place *a, const struct place *b)
{
    return a->source == b->source && a->line == b->line && a->column == b->column;
}

/* The keys that lead to the value at that place: "setup.0.run". */
static bool put_keys(const struct doc_node *node, const struct place *place, struct buf *ret)
{
    const size_t len = ret->len;
    if (node->type != DOC_OBJECT && node->type != DOC_ARRAY)
        return same_place(&node->place, place);
    for (size_t i = 0; i < node->count; i++) {
        const bool object = node->type == DOC_OBJECT;
        if (object)
            buf_printf(ret, "%s%.60s", len ? "." : "", node->members[i].key);
        else
            buf_printf(ret, "%s%zu", len ? "." : "", i);
        if (put_keys(object ? node->members[i].value : node->items[i], place, ret))
            return true;
        ret->len = len;
    }
    return false;
}

/* A name that differs between points is used in a place that all points share. */
static void report_differs(struct check *c, const struct expr *e)
{
    const struct source *source = c->text->place.source;
    struct buf keys = {0};
    bool found = c->spec->doc && source && put_keys(c->spec->doc->root, &c->text->place, &keys);
    if (!found && source && str_starts(source->name, "--set ")) {
        buf_printf(&keys, "%s", source->name + strlen("--set "));
        found = true;
    }
    struct diagnostic *d =
        report(c, e->at, e->end, "\"%s\" differs between the points of the sweep, and %s%s%s is shared by all of them",
               e->whole, found ? "\"" : "", found ? keys.data : "this", found ? "\"" : "");
    if (found && str_starts(keys.data, "env."))
        diagnostic_hint(d, "env of entrypoint is each point's own");
    else
        diagnostic_hint(d, "entrypoint (except prolog and epilog) and outputs are each point's own");
    buf_free(&keys);
}

/* Whether workers of this role lack the name. */
static bool lacks(const struct check *c, enum expr_name name)
{
    bool of_world =
        name == NAME_RANK || name == NAME_LOCAL_RANK || name == NAME_WORLD_SIZE || name == NAME_LOCAL_WORLD_SIZE;
    bool of_peer = name == NAME_PEER_RANK || name == NAME_PEER_ADDRESS;
    return (of_peer && !c->rules->peer) || (of_world && c->rules->no_world);
}

static void check_name(struct check *c, const struct expr *e)
{
    if (e->name == NAME_UNKNOWN) {
        report_unknown(c, e);
    } else if (!c->rules->point && expr_differs(c->spec, e)) {
        report_differs(c, e);
    } else if (e->name == NAME_PARAM || e->name == NAME_ENV) {
        bool param = e->name == NAME_PARAM;
        if (!param && c->rules->no_env) {
            report(c, e->at, e->end, "a value of env cannot use env");
            return;
        }
        const char *const *names = declared(c, param);
        if (contains(names, e->member))
            return;
        struct diagnostic *d = report(c, e->at, e->end, param ? "no param \"%s\"" : "no \"%s\" in env", e->member);
        const char *near = str_nearest(e->member, names);
        if (near)
            diagnostic_hint(d, "did you mean %s.%s?", param ? "params" : "env", near);
        else if (!param)
            diagnostic_hint(d, "env has the names that the spec lists under env; in shell text $%s is the node's own",
                            e->member);
    } else if (e->name == NAME_ROLE_COUNT || (e->name == NAME_ROLE_ADDRESS && c->rules->scope >= SCOPE_NODE)) {
        check_role(c, e);
    } else if (c->rules->scope == SCOPE_RANK && lacks(c, e->name)) {
        struct diagnostic *d = report(c, e->at, e->end, "\"%s\" is not known here", e->whole);
        diagnostic_hint(d, c->rules->no_world && !str_starts(e->whole, "peer.")
                               ? "the role has world: none; role_rank and role_world_size are its own"
                               : "workers have a peer where their role says so: peer: ROLE");
    } else if (expr_name_scope(e->name) > c->rules->scope && !(e->name == NAME_ROLE && c->rules->role)) {
        bool rank = expr_name_scope(e->name) == SCOPE_RANK;
        struct diagnostic *d = report(c, e->at, e->end, "\"%s\" is not known here", e->whole);
        if (!rank)
            diagnostic_hint(d,
                            "names of a node can be used in run and to of set-up, in python, outputs and entrypoint");
        else if (c->spec->distributed.present && !spec_has_ranks(&c->spec->distributed))
            diagnostic_hint(d, "launcher %s gives the ranks: each worker finds its own in $RANK and $LOCAL_RANK",
                            spec_launchers[c->spec->distributed.launcher]);
        else if (c->spec->distributed.present)
            diagnostic_hint(
                d, "names of a worker can be used in script, module, command, run, args, kwargs and entrypoint.env");
        else
            diagnostic_hint(d, "without distributed there is one plain process, which has no rank");
    }
}

static void check_names(struct check *c, const struct expr *e)
{
    if (!e)
        return;
    if (e->op == OP_NAME)
        check_name(c, e);
    check_names(c, e->a);
    check_names(c, e->b);
    check_names(c, e->c);
}

/* ---- one expression ---- */

static void check_args(struct check *c, const struct expr *e, const struct shell_tracker *shell, size_t used)
{
    bool alone =
        c->rules->args && strncmp(c->text->text, "${{", 3) == 0 && c->source == c->text->text + 3 && !c->source[used];
    bool in_shell =
        c->rules->args_in_shell && shell && shell->stack[shell->depth] <= SHELL_PAREN && !shell_refuses(shell, "x");
    if (alone || in_shell)
        return;
    struct diagnostic *d = report(c, e->at, e->end, "args is a list, which cannot stand here");
    diagnostic_hint(d, shell ? "in shell text write it unquoted: cmd ${{ args }}"
                             : "write it as an item of its own: [..., \"${{ args }}\"]");
}

static void note_point(struct check *c, const struct spec *spec)
{
    if (spec->point)
        diagnostics_add(c->diagnostics, SEVERITY_NOTE, spec->point->place, "at point \"%s\"", spec->point->name);
}

/* Evaluates with stand-ins for late names; returns the value's text for the shell check, or NULL. */
static const char *try_value(struct check *c, const struct spec *spec, const struct expr *e)
{
    struct expr_context now = {.spec = spec};
    struct expr_context later = {.spec = spec,
                                 .has_node = true,
                                 .node_name = "x",
                                 .node_address = "x",
                                 .has_rank = true,
                                 .world_size = 1,
                                 .local_world_size = 1,
                                 .role = "x",
                                 .role_size = 1,
                                 .has_peer = true,
                                 .peer_address = "x",
                                 .run = "x"};
    struct expr_fault fault = {0};
    struct expr_value value;
    enum expr_status status = expr_eval(e, &now, c->rules->no_env, c->arena, &value, &fault);
    bool late = status == EXPR_LATE;
    if (late)
        status = expr_eval(e, &later, c->rules->no_env, c->arena, &value, &fault);
    if (status == EXPR_OK)
        return expr_value_text(&value, c->arena);
    if (status == EXPR_FAILED && !(late && fault.arithmetic)) {
        struct diagnostic *d = report(c, fault.at, fault.end, "%s", fault.text);
        if (fault.hint[0])
            diagnostic_hint(d, "%s", fault.hint);
        note_point(c, spec);
    }
    return NULL;
}

/* Checks that its value can be computed, and inserted at this place. */
static void check_value(struct check *c, const struct spec *spec, const struct expr *e,
                        const struct shell_tracker *shell, size_t used)
{
    const size_t errors = c->diagnostics->errors;
    const char *value = try_value(c, spec, e);
    const char *why = shell && c->diagnostics->errors == errors ? shell_refuses(shell, value ? value : "x") : NULL;
    if (!why)
        return;
    struct diagnostic *d = report(c, 0, used, "a value cannot stand %s", why);
    diagnostic_hint(d, "put it in a variable first: x=${{ ... }}, then use \"$x\"");
    note_point(c, spec);
}

/* Checks every point, up to the first fault. A bare name can always be evaluated. */
static void check_points(struct check *c, const struct expr *e, const struct shell_tracker *shell, size_t used)
{
    const struct spec_sweep *s = c->spec->sweep;
    const size_t errors = c->diagnostics->errors;
    for (size_t i = 0; (shell || e->op != OP_NAME) && i < s->all_count && c->diagnostics->errors == errors; i++) {
        const struct spec at = spec_at_point(c->spec, &s->all[i]);
        check_value(c, &at, e, shell, used);
    }
}

/* Returns the length up to after "}}", or 0 if the end is unknown. */
static size_t check_one(struct check *c, const struct shell_tracker *shell)
{
    struct expr_fault fault = {0};
    size_t used = 0, errors = c->diagnostics->errors;
    const struct expr *e = expr_parse(c->source, c->arena, &used, &fault);
    if (!e && !strstr(c->source, "}}")) {
        struct diagnostic *d = report(c, 0, 0, "the expression is not closed: no }} follows ${{");
        diagnostic_hint(d, strchr(c->source, '}') ? "one } does not close it: ${{ NAME }}"
                                                  : "a literal ${{ is written ${{ '${{' }}");
        return 0;
    }
    if (!e) {
        struct diagnostic *d = report(c, fault.at, fault.end, "%s", fault.text);
        if (fault.hint[0])
            diagnostic_hint(d, "%s", fault.hint);
        size_t span = expr_span(c->source - 3);
        return span > 3 ? span - 3 : 0;
    }
    if (e->op == OP_NAME && e->name == NAME_ARGS) {
        check_args(c, e, shell, used);
        return used;
    }
    check_names(c, e);
    if (c->diagnostics->errors > errors)
        return used;
    if (expr_differs(c->spec, e))
        check_points(c, e, shell, used);
    else
        check_value(c, c->spec, e, shell, used);
    return used;
}

void expr_check_rules(const struct spec_text *text, const struct spec *spec, const struct expr_rules *rules, bool shell,
                      struct diagnostics *diagnostics)
{
    if (!text->text || !text->has_expr)
        return;
    struct check c = {.text = text,
                      .spec = spec,
                      .rules = rules,
                      .diagnostics = diagnostics,
                      .arena = arena_create(),
                      .index = rules->first};
    struct shell_tracker tracker;
    shell_begin(&tracker);
    const char *p = text->text;
    for (const char *open = strstr(p, "${{"); open; open = strstr(p, "${{")) {
        if (shell)
            shell_feed(&tracker, p, (size_t)(open - p));
        c.source = open + 3;
        size_t used = check_one(&c, shell ? &tracker : NULL);
        if (used == 0)
            break;
        if (shell) {
            struct buf scratch = {0};
            shell_insert(&tracker, "x", 0, &scratch);
            buf_free(&scratch);
        }
        for (const char *inner = c.source; (inner = strstr(inner, "${{")) && inner < c.source + used; inner += 3)
            c.index++; /* in a quoted literal */
        p = c.source + used;
        c.index++;
    }
    arena_destroy(c.arena);
}

const char *expand_now(struct load *l, const struct spec_text *text)
{
    static const struct expr_rules rules = {.scope = SCOPE_LOAD};
    size_t errors = l->diagnostics->errors;
    struct expr_context ctx = {.spec = l->spec};
    const char *value = NULL;
    struct error err = ERROR_INIT;
    expr_check_rules(text, l->spec, &rules, false, l->diagnostics);
    if (l->diagnostics->errors > errors)
        return NULL;
    enum expr_status status = expr_expand(text, EXPR_PLAIN, &ctx, false, l->arena, &value, &err);
    /* late: through env, or because a param has no value, which is reported where params are bound */
    if (status == EXPR_LATE && l->diagnostics->errors == 0)
        diagnostic_hint(fault(l, text->place, "the value is not known when planning"),
                        "it uses a value of env that only the nodes know");
    return status == EXPR_OK ? value : NULL;
}
