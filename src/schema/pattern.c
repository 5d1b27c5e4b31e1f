/*
 * Patterns: ECMA-262 regular expressions as far as PCRE2 reads them, with JIT where it works and pays. A hostile
 * pattern costs at most MATCH_LIMIT steps per match.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "internal.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

enum { MATCH_LIMIT = 200000, DEPTH_LIMIT = 2000, HEAP_LIMIT_KIB = 16384, PATTERN_MAX = 16384, JIT_AFTER = 16 };

struct pattern *pattern_compile(struct schema *schema, const char *text, size_t len, char *ret_problem,
                                size_t problem_size)
{
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    int code = 0;
    PCRE2_SIZE offset = 0;
    uint32_t options = PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_BSUX | PCRE2_MATCH_UNSET_BACKREF |
                       PCRE2_ALLOW_EMPTY_CLASS | PCRE2_NEVER_BACKSLASH_C;
    pcre2_set_compile_extra_options(context, PCRE2_EXTRA_ALT_BSUX);
    pcre2_set_max_pattern_length(context, PATTERN_MAX);
    CLEANUP(buf_free) struct buf ours = {0};
    pattern_translate(text, len, &ours);
    pcre2_code *compiled =
        pcre2_compile((PCRE2_SPTR)(ours.data ? ours.data : ""), ours.len, options, &code, &offset, context);
    pcre2_compile_context_free(context);
    if (!compiled && code == PCRE2_ERROR_UNKNOWN_UNICODE_PROPERTY) {
        snprintf(ret_problem, problem_size, "\\p{...} names a Unicode property that is not known");
        return NULL;
    }
    if (!compiled) {
        PCRE2_UCHAR message[128];
        pcre2_get_error_message(code, message, sizeof message);
        snprintf(ret_problem, problem_size, "%s (at character %zu)", (const char *)message, (size_t)offset + 1);
        return NULL;
    }
    struct pattern *pattern = arena_alloc(schema->arena, sizeof *pattern);
    pattern->text = arena_strndup(schema->arena, text, len);
    pattern->code = compiled;
    pattern->uses = 0;
    if (schema->pattern_count == schema->pattern_cap) {
        schema->pattern_cap = schema->pattern_cap > 0 ? schema->pattern_cap * 2 : 16;
        schema->patterns = xreallocarray(schema->patterns, schema->pattern_cap, sizeof(struct pattern *));
    }
    schema->patterns[schema->pattern_count++] = pattern;
    return pattern;
}

struct match_state {
    pcre2_match_context *context;
    pcre2_match_data *data;
};

static struct match_state *match_state_create(void)
{
    struct match_state *state = xcalloc(1, sizeof *state);
    state->context = pcre2_match_context_create(NULL);
    state->data = pcre2_match_data_create(1, NULL);
    pcre2_set_match_limit(state->context, MATCH_LIMIT);
    pcre2_set_depth_limit(state->context, DEPTH_LIMIT);
    pcre2_set_heap_limit(state->context, HEAP_LIMIT_KIB);
    return state;
}

/* JIT costs more than it saves until a few texts were matched; most patterns of a schema match no text, or one. */
enum pattern_result pattern_match(struct pattern *pattern, const char *text, size_t len, void **match_data)
{
    if (!*match_data)
        *match_data = match_state_create();
    struct match_state *state = *match_data;
    if (++pattern->uses == JIT_AFTER)
        pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE); /* fails without JIT: then the pattern is interpreted */
    int rc = pcre2_match(pattern->code, (PCRE2_SPTR)text, len, 0, 0, state->data, state->context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(pattern->code, (PCRE2_SPTR)text, len, 0, PCRE2_NO_JIT, state->data, state->context);
    if (rc >= 0)
        return PATTERN_YES;
    bool limit = rc == PCRE2_ERROR_MATCHLIMIT || rc == PCRE2_ERROR_DEPTHLIMIT || rc == PCRE2_ERROR_HEAPLIMIT;
    return limit ? PATTERN_LIMIT : PATTERN_NO;
}

void pattern_release(void *match_data)
{
    struct match_state *state = match_data;
    if (!state)
        return;
    pcre2_match_data_free(state->data);
    pcre2_match_context_free(state->context);
    free(state);
}

void pattern_destroy(struct pattern *pattern)
{
    pcre2_code_free(pattern->code);
    pattern->code = NULL;
}
