/*
 * Splitting one string into arguments as Python's shlex.split(s) does (posix, no comments), which is what users of
 * launchers written in Python expect. Nothing is expanded. A ${{ }} is never split.
 */
#include "internal.h"

#include <string.h>

size_t expr_span(const char *text)
{
    char quote = 0;
    for (size_t i = 3; text[i]; i++) {
        if (quote) {
            if (text[i] == quote)
                quote = 0;
        } else if (text[i] == '\'' || text[i] == '"') {
            quote = text[i];
        } else if (text[i] == '}' && text[i + 1] == '}') {
            return i + 2;
        }
    }
    return 0;
}

struct splitter {
    struct arena *arena;
    const char **words;
    size_t count, cap;
    struct buf word;
    bool open; /* a word has begun, possibly an empty one in quotes */
};

static void end_word(struct splitter *s)
{
    if (!s->open)
        return;
    if (s->count == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 16;
        const char **words = arena_array(s->arena, cap, sizeof *words);
        if (s->count > 0)
            memcpy(words, s->words, s->count * sizeof *words);
        s->words = words;
        s->cap = cap;
    }
    s->words[s->count++] = arena_strndup(s->arena, s->word.len > 0 ? s->word.data : "", s->word.len);
    buf_clear(&s->word);
    s->open = false;
}

/* One step at p, inside the open quote if there is one; returns where to go on, NULL for a backslash at the end. */
static const char *take(struct splitter *s, const char *p, char *quote)
{
    size_t span = strncmp(p, "${{", 3) == 0 ? expr_span(p) : 0;
    if (span > 0) {
        buf_append(&s->word, p, span);
        s->open = true;
        return p + span;
    }
    if (*quote && *p == *quote) {
        *quote = 0;
        return p + 1;
    }
    if (*p == '\\' && *quote != '\'') {
        if (!p[1])
            return NULL;
        if (*quote && p[1] != '\\' && p[1] != *quote)
            buf_putc(&s->word, '\\');
        buf_putc(&s->word, p[1]);
        s->open = true;
        return p + 2;
    }
    if (!*quote && strchr(" \t\r\n", *p)) {
        end_word(s);
        return p + 1;
    }
    s->open = true;
    if (!*quote && (*p == '\'' || *p == '"'))
        *quote = *p;
    else
        buf_putc(&s->word, *p);
    return p + 1;
}

int shlex_split(const char *text, struct arena *arena, const char ***ret_words, size_t *ret_count, struct error *err)
{
    struct splitter s = {.arena = arena};
    char quote = 0;
    const char *p = text;
    while (p && *p)
        p = take(&s, p, &quote);
    if (p && !quote)
        end_word(&s);
    buf_free(&s.word);
    if (!p)
        return error_set(err, ERROR_SPEC, "the text ends in a backslash");
    if (quote)
        return error_set(err, ERROR_SPEC, "no closing %s quote", quote == '"' ? "double" : "single");
    *ret_words = s.words;
    *ret_count = s.count;
    return 0;
}
