/*
 * The pattern of GLOB. A set of bits says which parts of the pattern a folder's names may match: "**" keeps its own bit
 * and adds the next, so all ways through the pattern are followed at once. The agent walks by it; the controller checks
 * a node's names against it.
 */
#include "rhrun/wire.h"

#include <string.h>

/* ---- one name ---- */

/* The character at *p, which moves on; a byte that is not UTF-8 stands for itself. */
static uint32_t take(const char **p)
{
    const unsigned char *s = (const unsigned char *)*p;
    size_t n = utf8_length(s, strnlen(*p, 4));
    uint32_t c = n > 1 ? s[0] & (0x7Fu >> n) : s[0];
    for (size_t i = 1; i < n; i++)
        c = c << 6 | (s[i] & 0x3F);
    *p += n ? n : 1;
    return n ? c : 0x110000 + c;
}

/* p: after "[". Returns the end of the class, or NULL if it is not closed. */
static const char *match_class(const char *p, uint32_t c, bool *ret)
{
    bool negative = *p == '!' || *p == '^', in = false;
    p += negative;
    for (const char *first = p; *p != ']' || p == first;) {
        if (!*p)
            return NULL;
        uint32_t low = take(&p), high = low;
        if (p[0] == '-' && p[1] && p[1] != ']') {
            p++;
            high = take(&p);
        }
        in |= c >= low && c <= high;
    }
    *ret = in != negative;
    return p + 1;
}

bool wire_pattern_name(const char *p, const char *s)
{
    const char *star = NULL, *again = NULL; /* after the last *, and the name's position where that was tried */
    while (*s || *p) {
        if (*p == '*') {
            star = ++p;
            again = s;
            continue;
        }
        bool ok = false;
        if (*s && *p) {
            uint32_t c = take(&s);
            const char *end = *p == '[' ? match_class(p + 1, c, &ok) : NULL;
            if (end) {
                p = end;
            } else if (*p == '?') {
                ok = true;
                p++;
            } else {
                p += *p == '\\' && p[1];
                ok = take(&p) == c;
            }
        }
        if (!ok && (!star || !*again))
            return false;
        if (!ok) {
            p = star;
            take(&again);
            s = again;
        }
    }
    return true;
}

/* ---- sets of parts ---- */

static bool any_parts(const struct wire_pattern *g, size_t i)
{
    return i < g->part_count && str_eq(g->parts[i], "**");
}

static uint64_t with_skipped(const struct wire_pattern *g, uint64_t set)
{
    for (size_t i = 0; i < g->part_count; i++)
        if (set >> i & 1 && any_parts(g, i))
            set |= UINT64_C(1) << (i + 1);
    return set;
}

uint64_t wire_pattern_begin(const struct wire_pattern *g)
{
    return with_skipped(g, 1);
}

uint64_t wire_pattern_step(const struct wire_pattern *g, uint64_t set, const char *name)
{
    uint64_t next = set & UINT64_C(1) << g->part_count;
    for (size_t i = 0; i < g->part_count; i++)
        if (set >> i & 1)
            next |= any_parts(g, i)                        ? UINT64_C(1) << i
                    : wire_pattern_name(g->parts[i], name) ? UINT64_C(1) << (i + 1)
                                                           : 0;
    return with_skipped(g, next);
}

bool wire_pattern_whole(const struct wire_pattern *g, uint64_t set)
{
    return set >> g->part_count & 1;
}

bool wire_pattern_match(const struct wire_pattern *g, const char *path)
{
    uint64_t set = wire_pattern_begin(g);
    char name[256];
    for (const char *p = path; *p && set; p += *p == '/') {
        size_t n = strcspn(p, "/");
        if (n >= sizeof name)
            return false;
        memcpy(name, p, n);
        name[n] = 0;
        set = wire_pattern_step(g, set, name);
        p += n;
    }
    return wire_pattern_whole(g, set);
}

/* ---- splitting ---- */

bool wire_pattern_split(struct wire_pattern *ret, char *text, size_t literal, size_t *ret_prefix)
{
    *ret = (struct wire_pattern){0};
    *ret_prefix = 0;
    for (char *p = text; *p;) {
        size_t n = strcspn(p, "/");
        bool plain = (strcspn(p, "*?[\\") >= n || (size_t)(p - text) < literal) && !ret->part_count;
        if (n && plain)
            *ret_prefix = (size_t)(p - text) + n;
        else if (n && ret->part_count == WIRE_PATTERN_PARTS)
            return false;
        else if (n)
            ret->parts[ret->part_count++] = p;
        p += n;
        if (*p)
            *p++ = 0;
    }
    return true;
}

bool wire_pattern_of(struct wire_pattern *ret, const char *from, struct arena *arena)
{
    bool base = str_starts(from, "@base"), home = *from == '~';
    const char *rest = from + (base ? strlen("@base") : home);
    if ((base || home) && (*rest == '/' || !*rest))
        from = rest;
    size_t prefix;
    return wire_pattern_split(ret, path_clean(arena_printf(arena, "/%s", from)), 0, &prefix);
}
