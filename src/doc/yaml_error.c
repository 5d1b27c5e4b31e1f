/*
 * libyaml says "did not find expected key"; this file says what that means and where the mistake began. Two common
 * mistakes are recognised: an unquoted ${{ }} in flow style, and a tab as indentation.
 */
#include "yaml_error.h"

#include <string.h>

enum { LOOK_BACK_LINES = 50, EXPRESSION_MAX = 80 };

static const char *line_start(const struct source *source, uint32_t line)
{
    const char *p = source->text, *end = p + source->len;
    for (uint32_t n = 1; n < line && p; n++) {
        p = memchr(p, '\n', (size_t)(end - p));
        p = p ? p + 1 : NULL;
    }
    return p;
}

static uint32_t count_chars(const char *from, const char *to)
{
    uint32_t n = 0;
    for (; from < to; from++)
        n += ((unsigned char)*from & 0xc0) != 0x80;
    return n;
}

/* An unquoted "${{" or "{{" in [p, end), which is one line; NULL when there is none. */
static const char *find_expression(const char *start, const char *end)
{
    char quote = 0;
    for (const char *p = start; p + 1 < end; p++) {
        if (quote) {
            quote = *p == quote ? 0 : quote;
        } else if (*p == '"' || *p == '\'') {
            quote = *p;
        } else if (*p == '#' && (p == start || p[-1] == ' ')) {
            return NULL;
        } else if ((*p == '$' && p + 2 < end && p[1] == '{' && p[2] == '{') || (*p == '{' && p[1] == '{')) {
            return p;
        }
    }
    return NULL;
}

bool doc_yaml_expression_error(struct loader *loader, uint32_t first_line, uint32_t last_line)
{
    const struct source *source = &loader->doc->source;
    if (last_line > first_line + LOOK_BACK_LINES)
        first_line = last_line - LOOK_BACK_LINES;
    const char *text_end = source->text + source->len, *p = line_start(source, last_line);
    for (uint32_t line = last_line; line >= first_line && line > 0 && p; line--) {
        const char *end = memchr(p, '\n', (size_t)(text_end - p));
        end = end ? end : text_end;
        const char *at = find_expression(p, end);
        if (at) {
            const char *close = memmem(at, (size_t)(end - at), "}}", 2);
            const char *stop = close ? close + 2 : at + (*at == '$' ? 3 : 2);
            uint32_t column = count_chars(p, at) + 1;
            struct place place = {source, line, column, line, column + count_chars(at, stop)};
            struct diagnostic *item =
                diagnostics_add(loader->diagnostics, SEVERITY_ERROR, place, "an expression needs quotes here");
            if (close && stop - at <= EXPRESSION_MAX)
                diagnostic_hint(item, "write \"%.*s\"", (int)(stop - at), at);
            else
                diagnostic_hint(item, "put the whole value in double quotes");
            return true;
        }
        if (p == source->text)
            break;
        for (p--; p > source->text && p[-1] != '\n';)
            p--;
    }
    return false;
}

/* The beginnings of libyaml's messages, and our words for them. */
static const struct {
    const char *theirs, *ours, *hint;
} problems[] = {
    {"did not find expected ',' or ']'", "the list is not closed",
     "expected \",\" or \"]\"; text with , [ ] { } needs quotes"},
    {"did not find expected ',' or '}'", "the mapping is not closed",
     "expected \",\" or \"}\"; text with , [ ] { } needs quotes"},
    {"did not find expected key", "expected a key here", "check the indentation, and quotes that end too early"},
    {"did not find expected '-' indicator", "expected \"- \" here", "items of one list start in the same column"},
    {"could not find expected ':'", "a \":\" is missing after this key",
     "a key and its value are written as \"key: value\""},
    {"mapping values are not allowed in this context", "\": \" cannot stand here",
     "text that holds \": \" needs quotes; keys of one mapping start in the same column"},
    {"block sequence entries are not allowed in this context", "a list cannot start here",
     "put \"- \" on a line of its own"},
    {"block mapping keys are not allowed in this context", "a mapping cannot start here", NULL},
    {"mapping keys are not allowed in this context", "a key cannot stand here", NULL},
    {"found unexpected end of stream", "the quotes are not closed", "add the missing quote character"},
    {"found unexpected document indicator", "the quotes are not closed", "add the missing quote character"},
    {"found unknown escape character", "the escape sequence is not known",
     "write \\\\ for a backslash, or use single quotes"},
    {"did not find expected hexdecimal number", "expected hexadecimal digits", NULL},
    {"found invalid Unicode character escape code", "this is not a Unicode character", NULL},
    {"found undefined tag handle", "the tag is not known", "a string that begins with ! needs quotes"},
    {"did not find expected alphabetic or numeric character", "a name of letters and digits must follow * or &",
     "a string that begins with * or & needs quotes"},
    {"did not find expected <document start>", "the document ends before this line", "check the indentation"},
    {"did not find expected node content", "a value is missing here", NULL},
    {"found incompatible YAML document", "this version of YAML is not supported", "leave the %YAML line out"},
    {"found an indentation indicator equal to 0", "the indentation cannot be 0", NULL},
    {"did not find expected comment or line break", "only a comment may follow here", NULL},
};

static void add_context(struct loader *loader, const yaml_parser_t *parser)
{
    static const struct {
        const char *theirs, *ours;
    } contexts[] = {
        {"while parsing a block mapping", "the mapping starts here"},
        {"while parsing a flow mapping", "the mapping starts here"},
        {"while parsing a block collection", "the list starts here"},
        {"while parsing a flow sequence", "the list starts here"},
        {"while scanning a quoted scalar", "the string starts here"},
        {"while scanning a simple key", "the key starts here"},
    };
    if (!parser->context || parser->context_mark.line == parser->problem_mark.line)
        return;
    for (size_t i = 0; i < ARRAY_LEN(contexts); i++) {
        if (strcmp(parser->context, contexts[i].theirs) != 0)
            continue;
        uint32_t line = (uint32_t)parser->context_mark.line + 1, column = (uint32_t)parser->context_mark.column + 1;
        diagnostics_add(loader->diagnostics, SEVERITY_NOTE,
                        (struct place){&loader->doc->source, line, column, line, column + 1}, "%s", contexts[i].ours);
    }
}

static bool tab_error(struct loader *loader, struct place place, const char *problem)
{
    const char *p = line_start(&loader->doc->source, place.line),
               *end = loader->doc->source.text + loader->doc->source.len;
    bool only_blanks = true;
    for (uint32_t column = 1; p && p < end && column < place.column; column++, p++)
        only_blanks = only_blanks && (*p == ' ' || *p == '\t');
    bool tab = p && p < end && *p == '\t' && only_blanks;
    if (!tab && !strstr(problem, "tab character"))
        return false;
    struct diagnostic *item =
        diagnostics_add(loader->diagnostics, SEVERITY_ERROR, place, "a tab cannot be used as indentation");
    diagnostic_hint(item, "use blanks");
    return true;
}

void doc_yaml_syntax_error(struct loader *loader, const yaml_parser_t *parser)
{
    const char *problem = parser->problem ? parser->problem : "unknown";
    const struct source *source = &loader->doc->source;
    uint32_t line = (uint32_t)parser->problem_mark.line + 1, column = (uint32_t)parser->problem_mark.column + 1;
    uint32_t first = parser->context ? (uint32_t)parser->context_mark.line + 1 : line;
    struct place place = {source, line, column, line, column + 1};
    bool flow = parser->context && strstr(parser->context, "flow");
    if (tab_error(loader, place, problem) || doc_yaml_expression_error(loader, flow ? first : line, line))
        return;
    const char *at = line_start(source, line);
    for (uint32_t i = 1; at && i < column && at < source->text + source->len; i++) {
        uint32_t c;
        size_t n = doc_utf8(at, (size_t)(source->text + source->len - at), &c);
        at += n ? n : 1;
    }
    if (strcmp(problem, "found character that cannot start any token") == 0 && at && at < source->text + source->len) {
        struct diagnostic *item =
            diagnostics_add(loader->diagnostics, SEVERITY_ERROR, place, "a value cannot start with \"%c\"", *at);
        diagnostic_hint(item, "put the value in quotes");
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(problems); i++) {
        if (!str_starts(problem, problems[i].theirs))
            continue;
        struct diagnostic *item = diagnostics_add(loader->diagnostics, SEVERITY_ERROR, place, "%s", problems[i].ours);
        if (item && problems[i].hint)
            diagnostic_hint(item, "%s", problems[i].hint);
        add_context(loader, parser);
        return;
    }
    diagnostics_add(loader->diagnostics, SEVERITY_ERROR, place, "the text is not valid YAML: %s", problem);
    add_context(loader, parser);
}
