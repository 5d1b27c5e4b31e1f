/*
 * File patterns: components by fnmatch, `**` for any number of components. Greedy with a single backtracking point, as
 * for `*` in a flat pattern, so no pattern takes more than components x components steps.
 */
#include "internal.h"

#include <fnmatch.h>
#include <string.h>

/* One component at p: its length; *ret_next is the next one or NULL. */
static size_t component(const char *p, const char **ret_next)
{
    size_t len = strcspn(p, "/");
    *ret_next = p[len] ? p + len + 1 : NULL;
    return len;
}

static bool is_star(const char *p, size_t len)
{
    return len == 2 && p[0] == '*' && p[1] == '*';
}

static bool component_match(const char *pattern, size_t pattern_len, const char *name, size_t name_len)
{
    char p[256], n[256];
    if (pattern_len >= sizeof p || name_len >= sizeof n)
        return false;
    memcpy(p, pattern, pattern_len);
    p[pattern_len] = 0;
    memcpy(n, name, name_len);
    n[name_len] = 0;
    return fnmatch(p, n, 0) == 0;
}

bool glob_match(const char *pattern, const char *path)
{
    const char *p = pattern, *s = path, *star = NULL, *star_at = NULL;
    while (s) {
        const char *p_next = NULL, *s_next;
        size_t p_len = p ? component(p, &p_next) : 0, s_len = component(s, &s_next);
        if (p && is_star(p, p_len)) {
            if (!p_next) /* at the end: everything below */
                return true;
            star = p = p_next;
            star_at = s;
        } else if (p && component_match(p, p_len, s, s_len)) {
            p = p_next;
            s = s_next;
        } else if (star) {
            component(star_at, &star_at);
            p = star;
            s = star_at;
        } else {
            return false;
        }
    }
    return !p;
}

bool glob_may_enter(const char *pattern, const char *path, bool *ret_by_star)
{
    const char *p = pattern, *s = path;
    *ret_by_star = false;
    while (s) {
        const char *p_next, *s_next;
        if (!p)
            return false;
        size_t p_len = component(p, &p_next), s_len = component(s, &s_next);
        if (is_star(p, p_len))
            return *ret_by_star = true;
        if (!component_match(p, p_len, s, s_len))
            return false;
        p = p_next;
        s = s_next;
    }
    return p != NULL;
}

bool glob_has_wildcards(const char *pattern)
{
    return strpbrk(pattern, "*?[\\") != NULL;
}
