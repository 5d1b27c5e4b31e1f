/*
 * Finds the quoting around an expression in shell text. A value is inserted as data, so it is escaped for the quotes
 * around it. The tracker follows the rules of POSIX 2.2 and 2.3 and of bash's $'..' and ((..)). Where dash and bash
 * differ, or only a complete parser could tell the nesting (`case` patterns in "$(..)", quotes in "${..}"), only digits
 * may be inserted. What a command later does with its data (eval, let, [[ -eq ]]) is the command's own business.
 */
#include "internal.h"

#include <ctype.h>
#include <string.h>

void shell_begin(struct shell_tracker *t)
{
    *t = (struct shell_tracker){.word_start = true};
    t->stack[0] = SHELL_TOP;
}

static enum shell_state state(const struct shell_tracker *t)
{
    return t->stack[t->depth];
}

static void push(struct shell_tracker *t, enum shell_state s)
{
    if (t->depth + 1 >= SHELL_DEPTH_MAX) {
        t->unsure = true;
        return;
    }
    t->stack[++t->depth] = s;
    t->parens[t->depth] = 0;
    t->word_start = s == SHELL_PAREN;
    t->word_len = 0;
}

static void pop(struct shell_tracker *t)
{
    if (t->depth > 0)
        t->depth--;
    t->word_start = false;
    t->word_len = 0;
}

static bool inside(const struct shell_tracker *t, enum shell_state s)
{
    for (unsigned i = 1; i <= t->depth; i++)
        if (t->stack[i] == s)
            return true;
    return false;
}

/* ---- here-documents ---- */

/* At "<<": notes the delimiter. Returns how many bytes to skip. */
static size_t read_heredoc(struct shell_tracker *t, const char *p)
{
    size_t i = 2;
    struct shell_heredoc h = {.strip_tabs = p[i] == '-'};
    if (h.strip_tabs)
        i++;
    while (p[i] == ' ' || p[i] == '\t')
        i++;
    size_t n = 0;
    char quote = 0;
    for (; p[i] && p[i] != '\n'; i++) {
        if (quote ? p[i] == quote : p[i] == '\'' || p[i] == '"') {
            quote = quote ? 0 : p[i];
            continue;
        }
        if (!quote && strchr(" \t;&|<>()", p[i]))
            break;
        if (p[i] == '\\' && p[i + 1])
            i++;
        if (n + 1 < sizeof h.delimiter)
            h.delimiter[n++] = p[i];
    }
    if (t->heredoc_count == SHELL_HEREDOCS_MAX || n + 1 >= sizeof h.delimiter || quote || n == 0)
        t->unsure = true;
    else
        t->heredocs[t->heredoc_count++] = h;
    return i;
}

static void feed_heredoc(struct shell_tracker *t, char c)
{
    if (c != '\n') {
        if (t->line_len == 0 && c == '\t' && t->heredocs[0].strip_tabs)
            return;
        if (t->line_len + 1 < sizeof t->line)
            t->line[t->line_len] = c;
        t->line_len++;
        return;
    }
    bool ends = t->line_len < sizeof t->line && t->line_len == strlen(t->heredocs[0].delimiter) &&
                memcmp(t->line, t->heredocs[0].delimiter, t->line_len) == 0;
    t->line_len = 0;
    if (!ends)
        return;
    t->heredoc_count--;
    memmove(t->heredocs, t->heredocs + 1, t->heredoc_count * sizeof t->heredocs[0]);
    t->in_heredoc = t->heredoc_count > 0;
    t->word_start = true;
}

/* ---- one character, by state ---- */

/* $( $(( ${ at p (the $): pushes it and returns its length in bytes; 0: it is none of these. */
static size_t open_dollar(struct shell_tracker *t, const char *p)
{
    if (strncmp(p, "$((", 3) == 0) {
        push(t, SHELL_ARITHMETIC);
        return 3;
    }
    if (p[1] == '(' || p[1] == '{') {
        push(t, p[1] == '(' ? SHELL_PAREN : SHELL_BRACE);
        return 2;
    }
    return 0;
}

static size_t feed_double(struct shell_tracker *t, const char *p)
{
    size_t n = *p == '$' ? open_dollar(t, p) : 0;
    if (n > 0)
        return n;
    if (*p == '"')
        pop(t);
    else if (*p == '`')
        push(t, SHELL_BACKTICK);
    t->dollar = *p == '$' && !t->dollar; /* $$ is the shell's pid */
    return 1;
}

static size_t feed_arithmetic(struct shell_tracker *t, const char *p)
{
    if (*p == '(') {
        t->parens[t->depth]++;
    } else if (*p == ')' && t->parens[t->depth] > 0) {
        t->parens[t->depth]--;
    } else if (*p == ')' && p[1] == ')') {
        pop(t);
        return 2;
    } else if (*p == ')') { /* it was "$( (" */
        t->stack[t->depth] = SHELL_PAREN;
        t->unsure = true;
    } else if (*p == '\'' || *p == '"' || *p == '`' || *p == '#') {
        t->unsure = true;
    } else if (*p == '$') {
        size_t n = open_dollar(t, p);
        t->dollar = n == 0 && !t->dollar;
        return n > 0 ? n : 1;
    }
    return 1;
}

/* The word so far, to detect a `case`, which makes a ")" ambiguous. */
static void follow_word(struct shell_tracker *t, char c)
{
    bool ends = isspace((unsigned char)c) || strchr(";&|()<>", c);
    if (ends) {
        if (t->word_len == 4 && memcmp(t->word, "case", 4) == 0 && inside(t, SHELL_DOUBLE))
            t->unsure = true;
        t->word_len = 0;
        t->word_start = true;
        return;
    }
    if (t->word_len < sizeof t->word)
        t->word[t->word_len++] = c;
    t->word_start = false;
}

static size_t feed_quote(struct shell_tracker *t, const char *p)
{
    if (state(t) == SHELL_BRACE && inside(t, SHELL_DOUBLE))
        t->unsure = true; /* the meaning of quotes in "${x:-'y'}" differs between shells and operators */
    if (*p == '\'') {
        bool dollar = t->dollar;
        push(t, dollar ? SHELL_DOLLAR_SINGLE : SHELL_SINGLE);
    } else {
        push(t, *p == '"' ? SHELL_DOUBLE : SHELL_BACKTICK);
    }
    return 1;
}

static size_t feed_unquoted(struct shell_tracker *t, const char *p)
{
    bool brace = state(t) == SHELL_BRACE;
    if (*p == '\'' || *p == '"' || *p == '`')
        return feed_quote(t, p);
    if (brace && *p == '}') {
        pop(t);
        return 1;
    }
    size_t n = *p == '$' ? open_dollar(t, p) : 0;
    if (n > 0)
        return n;
    t->dollar = *p == '$' && !t->dollar; /* $$ is the shell's pid */
    if (brace)
        return 1;
    if (*p == '#' && t->word_start) {
        t->comment = true;
        return 1;
    }
    if (strncmp(p, "<<<", 3) == 0) {
        follow_word(t, *p);
        return 3;
    }
    if (strncmp(p, "<<", 2) == 0) {
        follow_word(t, *p);
        return read_heredoc(t, p);
    }
    if (strncmp(p, "((", 2) == 0) {
        push(t, SHELL_ARITHMETIC);
        return 2;
    }
    follow_word(t, *p);
    if (*p == '(')
        push(t, SHELL_PAREN);
    else if (*p == ')' && state(t) == SHELL_PAREN)
        pop(t);
    if (*p == ')')
        t->word_start = true;
    if (*p == '\n' && t->heredoc_count > 0)
        t->in_heredoc = true;
    return 1;
}

static size_t feed_one(struct shell_tracker *t, const char *p)
{
    enum shell_state s = state(t);
    if (t->in_heredoc) {
        feed_heredoc(t, *p);
        return 1;
    }
    if (t->comment) {
        t->comment = *p != '\n';
        if (!t->comment && t->heredoc_count > 0)
            t->in_heredoc = true;
        t->word_start = true;
        return 1;
    }
    if (t->escaped) {
        t->escaped = false;
        t->dollar = false;
        if (*p != '\n')
            t->word_start = false;
        return 1;
    }
    if (*p == '\\' && s != SHELL_SINGLE) {
        t->escaped = true;
        t->word_len = sizeof t->word;
        return 1;
    }
    switch (s) {
    case SHELL_SINGLE:
    case SHELL_DOLLAR_SINGLE:
        if (*p == '\'')
            pop(t);
        return 1;
    case SHELL_BACKTICK:
        if (*p == '`')
            pop(t);
        t->dollar = *p == '$' && !t->dollar;
        return 1;
    case SHELL_DOUBLE:
        return feed_double(t, p);
    case SHELL_ARITHMETIC:
        return feed_arithmetic(t, p);
    case SHELL_TOP:
    case SHELL_PAREN:
    case SHELL_BRACE:
        break;
    }
    return feed_unquoted(t, p);
}

/* Lookahead may read beyond len, where an expression is, but never beyond the NUL. */
void shell_feed(struct shell_tracker *t, const char *text, size_t len)
{
    size_t i = 0;
    while (i < len) {
        const unsigned char c = (unsigned char)text[i];
        const bool begins = t->dollar && !t->escaped && (isalpha(c) || c == '_');
        const bool goes_on = t->name && (isalnum(c) || c == '_');
        size_t n = feed_one(t, text + i);
        if (c != '$' || n > 1)
            t->dollar = false;
        t->name = n == 1 && (begins || goes_on);
        i += n;
    }
    if (i > len) /* an expression is part of a here-document's delimiter */
        t->unsure = true;
}

/* ---- inserting ---- */

static bool is_digits(const char *value)
{
    size_t n = strlen(value);
    return n > 0 && n < 20 && strspn(value, "0123456789") == n;
}

const char *shell_refuses(const struct shell_tracker *t, const char *value)
{
    enum shell_state s = state(t);
    if (t->comment)
        return NULL;
    if (t->in_heredoc)
        return "in a here-document";
    bool quoted = s == SHELL_SINGLE || s == SHELL_DOLLAR_SINGLE;
    if (t->escaped)
        return "right after a backslash";
    if (t->dollar && !quoted)
        return "right after a $";
    if (t->name && (inside(t, SHELL_ARITHMETIC) || inside(t, SHELL_BRACE) || inside(t, SHELL_BACKTICK)))
        return "here, right after the name of a variable";
    if (value && is_digits(value))
        return NULL;
    if (t->unsure)
        return "here, where the quoting cannot be told for certain";
    if (inside(t, SHELL_ARITHMETIC))
        return "in shell arithmetic, where only digits can stand";
    if (inside(t, SHELL_BRACE))
        return "in ${...}";
    if (inside(t, SHELL_BACKTICK))
        return "in backticks";
    if (s == SHELL_DOLLAR_SINGLE && value)
        for (const char *p = value; *p; p++)
            if (*p == '\'' || *p == '\\' || (unsigned char)*p < 0x20)
                return "in $'...', which shells read differently";
    return NULL;
}

void shell_insert(struct shell_tracker *t, const char *value, char next, struct buf *out)
{
    enum shell_state s = state(t);
    bool bare = is_digits(value) && next != '<' && next != '>' && !t->name;
    if (t->comment) {
        for (const char *p = value; *p; p++)
            buf_putc(out, *p == '\n' || *p == '\r' ? ' ' : *p);
        return;
    }
    if (s == SHELL_SINGLE) {
        for (const char *p = value; *p; p++)
            if (*p == '\'')
                buf_puts(out, "'\\''");
            else
                buf_putc(out, *p);
    } else if (s == SHELL_DOUBLE) {
        if (t->name)
            buf_puts(out, "\"\""); /* closes and reopens the quotes, which ends the name */
        for (const char *p = value; *p; p++) {
            if (strchr("$`\"\\", *p))
                buf_putc(out, '\\');
            buf_putc(out, *p);
        }
    } else if (s == SHELL_DOLLAR_SINGLE || bare || inside(t, SHELL_ARITHMETIC) || inside(t, SHELL_BRACE) ||
               inside(t, SHELL_BACKTICK)) {
        buf_puts(out, value);
    } else {
        buf_putc(out, '\'');
        for (const char *p = value; *p; p++)
            if (*p == '\'')
                buf_puts(out, "'\\''");
            else
                buf_putc(out, *p);
        buf_putc(out, '\'');
    }
    t->word_start = t->name = false;
    t->word_len = sizeof t->word;
}
