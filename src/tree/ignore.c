/* Ignore patterns with git's meaning: parsing (gitignore(5)) and matching of one path against a list of them. */
#include "scan.h"

#include <string.h>

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static bool same(const char *a, const char *b, size_t len, bool fold)
{
    if (!fold)
        return memcmp(a, b, len) == 0;
    for (size_t i = 0; i < len; i++)
        if (lower(a[i]) != lower(b[i]))
            return false;
    return true;
}

/* The length without trailing blanks; those after a backslash stay. */
static size_t trimmed(const char *line, size_t len)
{
    size_t end = 0;
    for (size_t i = 0; i < len; i++) {
        if (line[i] == ' ')
            continue;
        if (line[i] == '\\' && ++i >= len)
            return len;
        end = i + 1;
    }
    return end;
}

static void parse_line(struct arena *a, const char *line, size_t len, struct ignore_pattern *p)
{
    if (len && *line == '!') {
        p->negated = true;
        line++, len--;
    }
    if (len && line[len - 1] == '/') {
        p->folder = true;
        len--;
    }
    p->base_name = !memchr(line, '/', len);
    p->text = arena_strndup(a, line, len);
    p->len = (uint32_t)len;
    p->literal = (uint32_t)strcspn(p->text, "*?[\\");
    p->suffix = *p->text == '*' && !p->text[1 + strcspn(p->text + 1, "*?[\\")];
}

int ignore_parse(struct arena *a, const char *text, size_t len, const char *name, size_t base, bool fold,
                 const struct ignore_list *next, const struct ignore_list **ret, struct error *err)
{
    *ret = next;
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3, len -= 3;
    size_t lines = 1;
    for (size_t i = 0; i < len; i++)
        lines += text[i] == '\n';
    struct ignore_list *l = arena_alloc(a, sizeof *l);
    *l = (struct ignore_list){.next = next, .base = base, .fold = fold};
    l->patterns = arena_array(a, lines, sizeof *l->patterns);
    const char *end = text + len;
    for (size_t number = 1; text < end; number++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        const char *line = text;
        size_t n = (size_t)((stop ? stop : end) - line);
        text = stop ? stop + 1 : end;
        if (!n || *line == '#')
            continue;
        if (line[n - 1] == '\r')
            n--;
        n = trimmed(line, strnlen(line, n)); /* a NUL ends a pattern */
        if (n > IGNORE_PATTERN_MAX)
            return error_set(err, ERROR_SPEC, "\"%s\", line %zu: a pattern of more than %d bytes", name, number,
                             IGNORE_PATTERN_MAX);
        if (n)
            parse_line(a, line, n, &l->patterns[l->count++]);
    }
    if (l->count)
        *ret = l;
    return 0;
}

static bool matches_name(const struct ignore_pattern *p, const char *name, size_t len, bool fold)
{
    if (p->literal == p->len)
        return p->len == len && same(p->text, name, len, fold);
    if (p->suffix)
        return p->len - 1 <= len && same(p->text + 1, name + len - (p->len - 1), p->len - 1, fold);
    return ignore_wild(p->text, name, false, fold);
}

static bool matches_path(const struct ignore_pattern *p, const char *path, size_t len, bool fold)
{
    const char *text = p->text;
    size_t literal = p->literal, left = p->len;
    if (*text == '/') {
        text++, left--;
        literal -= literal > 0;
    }
    if (literal > len || !same(text, path, literal, fold))
        return false;
    if (literal == left && literal == len)
        return true;
    /* The rest after the literal part is matched as a separate pattern: `a/b**` reaches into folders, as in git. */
    return ignore_wild(text + literal, path + literal, true, fold);
}

enum ignore_verdict ignore_match(const struct ignore_list *l, const char *path, size_t len, size_t name, bool folder)
{
    for (size_t i = l->count; i-- > 0;) {
        const struct ignore_pattern *p = &l->patterns[i];
        if (p->folder && !folder)
            continue;
        if (p->base_name ? matches_name(p, path + name, len - name, l->fold)
                         : matches_path(p, path + l->base, len - l->base, l->fold))
            return p->negated ? IGNORE_IN : IGNORE_OUT;
    }
    return IGNORE_UNDECIDED;
}

enum ignore_verdict ignore_match_chain(const struct ignore_list *l, const char *path, size_t len, size_t name,
                                       bool folder)
{
    for (; l; l = l->next) {
        enum ignore_verdict v = ignore_match(l, path, len, name, folder);
        if (v != IGNORE_UNDECIDED)
            return v;
    }
    return IGNORE_UNDECIDED;
}

/* Compares part by part, as far as the folder's path goes. If escapes or sets make the parts unclear, the answer is
 * yes. */
static bool may_match_below(const struct ignore_pattern *p, const char *path, bool fold)
{
    if (p->negated)
        return false;
    if (p->base_name || strpbrk(p->text, "\\[") || strstr(p->text, "**"))
        return true;
    const char *text = p->text + (*p->text == '/');
    while (*path) {
        size_t n = strcspn(path, "/"), m = strcspn(text, "/");
        if (!text[m])
            return false; /* no part is left for names below */
        CLEANUP(cleanup_free) char *part = xstrndup(path, n);
        CLEANUP(cleanup_free) char *pattern = xstrndup(text, m);
        if (!ignore_wild(pattern, part, true, fold))
            return false;
        path += n + (path[n] == '/');
        text += m + 1;
    }
    return true;
}

bool ignore_may_match_below(const struct ignore_list *l, const char *path, size_t len)
{
    if (!l || len < l->base)
        return l != NULL;
    CLEANUP(cleanup_free) char *below = xstrndup(path + l->base, len - l->base);
    for (size_t i = 0; i < l->count; i++)
        if (may_match_below(&l->patterns[i], below, l->fold))
            return true;
    return false;
}
