/* Credentials files in INI format, with the parts of TOML that such files use: [section], [[section]], key = value,
 * quotes. */
#include "internal.h"

#include <string.h>

struct line {
    const char *at;
    size_t len;
};

static struct line trim(struct line l)
{
    while (l.len && strchr(" \t\r", l.at[0])) {
        l.at++;
        l.len--;
    }
    while (l.len && strchr(" \t\r", l.at[l.len - 1]))
        l.len--;
    return l;
}

static bool next_line(const char **text, const char *end, struct line *ret)
{
    if (*text >= end)
        return false;
    const char *stop = memchr(*text, '\n', (size_t)(end - *text));
    stop = stop ? stop : end;
    *ret = trim((struct line){*text, (size_t)(stop - *text)});
    *text = stop + 1;
    return true;
}

/* "[name]" and "[[name]]", with blanks inside. */
static bool is_section(struct line l, struct line *ret_name)
{
    size_t depth = l.len >= 4 && l.at[1] == '[' ? 2 : 1;
    if (l.len < 2 * depth || l.at[0] != '[' || l.at[l.len - 1] != ']')
        return false;
    *ret_name = trim((struct line){l.at + depth, l.len - 2 * depth});
    return true;
}

static bool same(struct line l, const char *text)
{
    return l.len == strlen(text) && memcmp(l.at, text, l.len) == 0;
}

static bool is_key(struct line l, const char *key, struct line *ret_value)
{
    const char *equals = l.len && !strchr("#;", l.at[0]) ? memchr(l.at, '=', l.len) : NULL;
    if (!equals || !same(trim((struct line){l.at, (size_t)(equals - l.at)}), key))
        return false;
    struct line v = trim((struct line){equals + 1, (size_t)(l.at + l.len - equals - 1)});
    if (v.len >= 2 && (v.at[0] == '"' || v.at[0] == '\'') && v.at[v.len - 1] == v.at[0])
        v = (struct line){v.at + 1, v.len - 2};
    *ret_value = v;
    return true;
}

/* A section that begins at `from` and ends at the next header. */
static const char *in_section(const char *from, const char *end, const char *key, struct arena *arena)
{
    struct line l, value;
    while (next_line(&from, end, &l) && !is_section(l, &value))
        if (is_key(l, key, &value))
            return value.len ? arena_strndup(arena, value.at, value.len) : NULL;
    return NULL;
}

const char *ini_find(const char *text, size_t len, const struct ini_want *want, const char *key, struct arena *arena)
{
    const char *at = text, *end = text + len;
    const char *wanted = want->select ? in_section(text, end, want->by, arena) : NULL;
    struct line l, name;
    if (!want->section[0])
        return in_section(text, end, key, arena);
    while (next_line(&at, end, &l)) {
        if (!is_section(l, &name) || !same(name, want->section))
            continue;
        if (!want->select || (wanted && str_eq(in_section(at, end, want->select, arena), wanted)))
            return in_section(at, end, key, arena);
    }
    return NULL;
}
