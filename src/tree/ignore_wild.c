/* Wildcards as git reads them in ignore files: `*`, `?`, `[...]` and, where a path is matched, `**` between slashes. */
#include "scan.h"

#include <string.h>

/* Limit of backtracking: a pattern that needs more steps for one path does not match. */
enum { STEPS_MAX = 1 << 22 };

/* The reason why a match failed: how far back another try makes sense. */
enum outcome {
    MATCHES,
    DIFFERS,
    NEEDS_SLASHES, /* only a `**` further left can still help */
    TEXT_ENDED,    /* nothing can */
};

struct glob {
    bool path; /* "/" is special */
    bool fold;
    unsigned steps;
};

static enum outcome match(struct glob *g, const unsigned char *p, const unsigned char *t);

static unsigned char lower(unsigned char c)
{
    return c >= 'A' && c <= 'Z' ? (unsigned char)(c + ('a' - 'A')) : c;
}

static bool in_class(const char *name, size_t len, unsigned char c, bool fold, bool *ret_known)
{
    bool up = c >= 'A' && c <= 'Z', low = c >= 'a' && c <= 'z', digit = c >= '0' && c <= '9';
    bool graph = c > ' ' && c < 0x7f, hex = digit || (lower(c) >= 'a' && lower(c) <= 'f');
    const struct {
        const char *name;
        bool holds;
    } classes[] = {
        {"alnum", up || low || digit},
        {"alpha", up || low},
        {"blank", c == ' ' || c == '\t'},
        {"cntrl", c < ' ' || c == 0x7f},
        {"digit", digit},
        {"graph", graph},
        {"lower", low},
        {"print", graph || c == ' '},
        {"punct", graph && !up && !low && !digit},
        {"space", c == ' ' || c == '\t' || c == '\n' || c == '\r'},
        {"upper", up || (fold && low)},
        {"xdigit", hex},
    };
    for (size_t i = 0; i < ARRAY_LEN(classes); i++)
        if (strlen(classes[i].name) == len && memcmp(classes[i].name, name, len) == 0)
            return *ret_known = true, classes[i].holds;
    return *ret_known = false;
}

/* `[:name:]` at p ("[" is at p[0]). Returns its last character, p itself when it is no class, NULL when broken. */
static const unsigned char *match_class(const struct glob *g, const unsigned char *p, unsigned char c, bool *found)
{
    const unsigned char *name = p + 2, *end = name;
    while (*end && *end != ']')
        end++;
    if (!*end)
        return NULL;
    if (end == name || end[-1] != ':')
        return p;
    bool known;
    if (in_class((const char *)name, (size_t)(end - name) - 1, c, g->fold, &known))
        *found = true;
    return known ? end : NULL;
}

/* A set at p ("[" is at p[0]). Returns its "]", or NULL when it is broken: then nothing matches. */
static const unsigned char *match_set(const struct glob *g, const unsigned char *p, unsigned char c, bool *ret_found)
{
    bool found = false, negated = p[1] == '!' || p[1] == '^', first = true;
    unsigned char before = 0; /* the start of a range, 0 behind a range or a class */
    for (p += negated ? 2 : 1; first || *p != ']'; p++, first = false) {
        unsigned char item = *p;
        if (!item)
            return NULL;
        if (item == '\\') {
            item = *++p;
            if (!item)
                return NULL;
            found |= c == item;
        } else if (item == '-' && before && p[1] && p[1] != ']') {
            unsigned char last = *++p;
            if (last == '\\' && !(last = *++p))
                return NULL;
            unsigned char upper = g->fold && c >= 'a' && c <= 'z' ? (unsigned char)(c - ('a' - 'A')) : c;
            found |= (c >= before && c <= last) || (upper >= before && upper <= last);
            item = 0;
        } else if (item == '[' && p[1] == ':') {
            const unsigned char *end = match_class(g, p, c, &found);
            if (!end)
                return NULL;
            if (end == p)
                found |= c == item;
            else
                item = 0;
            p = end;
        } else {
            found |= c == item;
        }
        before = item;
    }
    *ret_found = found != negated && !(g->path && c == '/');
    return p;
}

static bool special(unsigned char c)
{
    return c == '*' || c == '?' || c == '[' || c == '\\';
}

/* One or more stars at p; start is the beginning of this part of the pattern. */
static enum outcome match_star(struct glob *g, const unsigned char *start, const unsigned char *p,
                               const unsigned char *t)
{
    bool slashes = !g->path;
    const unsigned char *rest = p + 1;
    if (*rest == '*') {
        while (*rest == '*')
            rest++;
        bool alone = (p == start || p[-1] == '/') && (!*rest || *rest == '/' || (rest[0] == '\\' && rest[1] == '/'));
        if (g->path && alone) {
            slashes = true;
            if (*rest == '/' && match(g, rest + 1, t) == MATCHES)
                return MATCHES;
        }
    }
    const unsigned char *slash = slashes ? NULL : (const unsigned char *)strchr((const char *)t, '/');
    if (!*rest)
        return slash ? NEEDS_SLASHES : MATCHES;
    if (!slashes && *rest == '/')
        return slash ? match(g, rest + 1, slash + 1) : TEXT_ENDED;
    for (; *t; t++) {
        if (!special(*rest)) { /* skip to where it can match */
            unsigned char want = g->fold ? lower(*rest) : *rest;
            while (*t && (slashes || *t != '/') && (g->fold ? lower(*t) : *t) != want)
                t++;
            if (!*t)
                return TEXT_ENDED;
        }
        enum outcome o = match(g, rest, t);
        if (o != DIFFERS && (!slashes || o != NEEDS_SLASHES))
            return o;
        if (o == DIFFERS && !slashes && *t == '/')
            return NEEDS_SLASHES;
    }
    return TEXT_ENDED;
}

static enum outcome match(struct glob *g, const unsigned char *p, const unsigned char *t)
{
    const unsigned char *start = p;
    for (; *p; p++, t++) {
        if (g->steps++ > STEPS_MAX || (!*t && *p != '*'))
            return TEXT_ENDED;
        unsigned char c = g->fold ? lower(*t) : *t, want = g->fold ? lower(*p) : *p;
        bool found;
        switch (*p) {
        case '*':
            return match_star(g, start, p, t);
        case '?':
            if (g->path && c == '/')
                return DIFFERS;
            break;
        case '[':
            p = match_set(g, p, c, &found);
            if (!p)
                return TEXT_ENDED;
            if (!found)
                return DIFFERS;
            break;
        case '\\':
            want = *++p;
            if (c != want)
                return DIFFERS;
            break;
        default:
            if (c != want)
                return DIFFERS;
        }
    }
    return *t ? DIFFERS : MATCHES;
}

bool ignore_wild(const char *pattern, const char *text, bool path, bool fold)
{
    struct glob g = {.path = path, .fold = fold};
    return match(&g, (const unsigned char *)pattern, (const unsigned char *)text) == MATCHES;
}
