/*
 * Any text as one with expressions: checking and expanding it end, a failure has a reason, what is expanded in two steps
 * (what is known when planning, then the rest) is what one step gives, and a check that found nothing wrong leaves only
 * faults that depend on values.
 */
#include "../unit/expr_scope.h"
#include "scene.h"

static enum expr_status expand(const char *text, enum expr_mode mode, const struct expr_context *ctx, bool keep_late,
                               struct arena *arena, const char **ret)
{
    struct spec_text t = {.text = text, .has_expr = strstr(text, "${{") != NULL};
    struct error err = ERROR_INIT;
    enum expr_status status = expr_expand(&t, mode, ctx, keep_late, arena, ret, &err);
    if (status == EXPR_FAILED && !err.code)
        abort(); /* without a reason */
    if (status == EXPR_LATE && keep_late)
        abort();
    return status;
}

/* A value that looks like an expression would be taken for one in the second step; nothing reads an expansion twice but this. */
static void two_steps(const char *text, struct arena *arena)
{
    const char *whole, *early, *late;
    if (expand(text, EXPR_PLAIN, &at_run, false, arena, &whole) != EXPR_OK || strstr(whole, "${{"))
        return;
    /* What stands behind a late && or || fails when planning, though this rank does not come to it: another may. */
    if (expand(text, EXPR_PLAIN, &at_plan, true, arena, &early) == EXPR_FAILED)
        return;
    if (expand(early, EXPR_PLAIN, &at_run, false, arena, &late) != EXPR_OK || strcmp(whole, late) != 0)
        abort();
}

static void check(const char *text, bool shell, struct arena *arena)
{
    static const struct expr_rules rules = {.scope = SCOPE_RANK, .args = true, .args_in_shell = true, .point = true};
    struct spec_text t = {.text = text, .has_expr = strstr(text, "${{") != NULL};
    struct diagnostics d = {0};
    struct buf out = {0};
    const char *ret;
    expr_check_rules(&t, &spec, &rules, shell, &d);
    diagnostics_format(&d, false, &out);
    (void)expand(text, shell ? EXPR_SHELL : EXPR_PLAIN, &at_run, false, arena, &ret);
    buf_free(&out);
    diagnostics_free(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *arena = arena_create();
    const char *text = arena_strndup(arena, (const char *)data, strnlen((const char *)data, size));
    const char **words;
    size_t count;
    struct error err = ERROR_INIT;
    const char *early;
    two_steps(text, arena);
    (void)expand(text, EXPR_SHELL, &at_plan, true, arena, &early);
    check(text, false, arena);
    check(text, true, arena);
    (void)shlex_split(text, arena, &words, &count, &err);
    arena_destroy(arena);
    return 0;
}
