/* Users' patterns over untrusted text: PCRE2 with JIT, and a bound on the cost of one match. The bound applies to the
 * whole match, whatever the line; without JIT the interpreter keeps it too. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "rhrun/base.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

enum { MATCH_LIMIT = 10000, DEPTH_LIMIT = 1000, HEAP_LIMIT_KIB = 1024, STACK_MIN = 32 << 10, STACK_MAX = 256 << 10 };

struct regex {
    pcre2_code *code;
    pcre2_match_context *context;
    pcre2_match_data *data;
    pcre2_jit_stack *stack;
    bool jit; /* false: interpreted */
};

static struct regex *create(const char *pattern, size_t len, uint32_t options, struct regex_fault *ret)
{
    int code = 0;
    PCRE2_SIZE at = 0;
    pcre2_compile_context *limits = pcre2_compile_context_create(NULL);
    pcre2_set_max_pattern_length(limits, REGEX_PATTERN_MAX);
    pcre2_code *compiled =
        pcre2_compile((PCRE2_SPTR)pattern, len, PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C | options,
                      &code, &at, limits);
    pcre2_compile_context_free(limits);
    if (!compiled) {
        ret->at = at < len ? at : len;
        if (pcre2_get_error_message(code, (PCRE2_UCHAR *)ret->text, sizeof ret->text) < 0)
            snprintf(ret->text, sizeof ret->text, "PCRE2 error %d", code);
        return NULL;
    }
    struct regex *re = xcalloc(1, sizeof *re);
    re->code = compiled;
    size_t jit_size = 0;
    re->jit = pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE) == 0 &&
              pcre2_pattern_info(compiled, PCRE2_INFO_JITSIZE, &jit_size) == 0 && jit_size > 0;
    re->data = pcre2_match_data_create_from_pattern(compiled, NULL);
    re->context = pcre2_match_context_create(NULL);
    re->stack = pcre2_jit_stack_create(STACK_MIN, STACK_MAX, NULL);
    pcre2_jit_stack_assign(re->context, NULL, re->stack);
    pcre2_set_match_limit(re->context, MATCH_LIMIT);
    pcre2_set_depth_limit(re->context, DEPTH_LIMIT);
    pcre2_set_heap_limit(re->context, HEAP_LIMIT_KIB);
    return re;
}

struct regex *regex_create(const char *pattern, size_t len, struct regex_fault *ret)
{
    return create(pattern, len, 0, ret);
}

/* Lookaround, atomic groups and possessive repeats can see, or consume, the line end and the text after it, and then
 * fail although the line alone would match; \\A, \\z and the like refer to the whole text; flags may mean anything. The
 * answer is no wherever one of these may occur, even if it is only a character in brackets. */
struct regex *regex_create_lines(const char *pattern, size_t len)
{
    static const char *const no[] = {"(?=", "(?!", "(?>", "(?|", "(?(", "(?R", "(?&", "(?+", "(?-", "(?P>", "(*",
                                     "*+",  "++",  "?+",  "}+",  "\\A", "\\Z", "\\z", "\\G", "\\K", "\\g",  "(?#"};
    struct regex_fault ignored;
    for (size_t i = 0; i < ARRAY_LEN(no); i++)
        if (memmem(pattern, len, no[i], strlen(no[i])))
            return NULL;
    for (const char *p = pattern; (p = memmem(p, len - (size_t)(p - pattern), "(?", 2)); p += 2) {
        const char c = (size_t)(p - pattern) + 2 < len ? p[2] : 0, d = (size_t)(p - pattern) + 3 < len ? p[3] : 0;
        const bool named = (c == '<' && d != '=' && d != '!') || (c == 'P' && d == '<') || c == '\'';
        if (c != ':' && !named && !(c == 'i' && d == ')'))
            return NULL;
    }
    return create(pattern, len, PCRE2_MULTILINE, &ignored);
}

void regex_destroy(struct regex *re)
{
    if (!re)
        return;
    pcre2_match_data_free(re->data);
    pcre2_match_context_free(re->context);
    pcre2_jit_stack_free(re->stack);
    pcre2_code_free(re->code);
    free(re);
}

int regex_group(const struct regex *re, const char *name)
{
    int n = pcre2_substring_number_from_name(re->code, (PCRE2_SPTR)name);
    return n > 0 ? n : -1;
}

enum regex_result regex_match(struct regex *re, const char *text, size_t len)
{
    return regex_match_from(re, text, len, 0);
}

enum regex_result regex_match_from(struct regex *re, const char *text, size_t len, size_t at)
{
    /* straight into the compiled code: the checks that pcre2_match makes before are not needed here */
    int rc = re->jit ? pcre2_jit_match(re->code, (PCRE2_SPTR)text, len, at, 0, re->data, re->context)
                     : pcre2_match(re->code, (PCRE2_SPTR)text, len, at, 0, re->data, re->context);
    if (rc >= 0)
        return REGEX_YES;
    return rc == PCRE2_ERROR_NOMATCH ? REGEX_NO : REGEX_LIMIT;
}

bool regex_span(const struct regex *re, int group, size_t *ret_at, size_t *ret_len)
{
    const PCRE2_SIZE *spans = pcre2_get_ovector_pointer(re->data);
    if (group < 0 || (uint32_t)group >= pcre2_get_ovector_count(re->data) || spans[2 * group] == PCRE2_UNSET ||
        spans[2 * group + 1] < spans[2 * group])
        return false;
    *ret_at = spans[2 * group];
    *ret_len = spans[2 * group + 1] - spans[2 * group];
    return true;
}
