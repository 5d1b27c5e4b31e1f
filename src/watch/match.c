/* Patterns over lines. A compiled pattern skips to its first character by itself, faster than one large alternation of
 * all of them could be searched, so each is asked in turn. */
#include "rhrun/watch.h"

#include <stdlib.h>
#include <string.h>

struct entry {
    struct match_pattern asked;
    struct regex *regex; /* NULL: never matches */
    int group;
    bool limited; /* was told */
};

struct matcher {
    struct entry *entries;
    size_t count;
    void (*hit)(void *arg, const struct match_hit *hit);
    void (*limit)(void *arg, uint32_t pattern, const struct watch_line *line);
    void *arg;
};

struct matcher *matcher_create(const struct match_pattern *patterns, size_t count,
                               void (*hit)(void *arg, const struct match_hit *hit),
                               void (*limit)(void *arg, uint32_t pattern, const struct watch_line *line), void *arg)
{
    struct matcher *m = xcalloc(1, sizeof *m);
    m->entries = xcalloc(count + 1, sizeof *m->entries);
    m->count = count;
    m->hit = hit;
    m->limit = limit;
    m->arg = arg;
    for (size_t i = 0; i < count; i++) {
        struct regex_fault ignored;
        struct entry *e = &m->entries[i];
        e->asked = patterns[i];
        e->regex = regex_create(patterns[i].pattern, strlen(patterns[i].pattern), &ignored);
        e->group = e->regex && patterns[i].value ? regex_group(e->regex, "value") : -1;
    }
    return m;
}

void matcher_destroy(struct matcher *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->count; i++)
        regex_destroy(m->entries[i].regex);
    free(m->entries);
    free(m);
}

bool match_number(const char *text, size_t len, double *ret)
{
    char copy[64], *end;
    if (len == 0 || len >= sizeof copy)
        return false;
    memcpy(copy, text, len);
    copy[len] = 0;
    size_t sign = copy[0] == '-' || copy[0] == '+';
    char first = copy[sign];
    bool word = (first | 0x20) == 'n' || (first | 0x20) == 'i';
    /* strtod takes more than programs mean: blanks, hexadecimal, nan(...) */
    if (!word && strspn(copy, "0123456789+-.eE") != len)
        return false;
    if (word && strchr(copy, '('))
        return false;
    *ret = strtod(copy, &end);
    return *end == 0 && end != copy;
}

void matcher_line(struct matcher *m, const struct watch_line *line, const bool *wanted)
{
    size_t len = line->len < MATCH_LINE_MAX ? line->len : MATCH_LINE_MAX, at, n;
    for (size_t i = 0; i < m->count; i++) {
        struct entry *e = &m->entries[i];
        if ((wanted && !wanted[i]) || !(e->asked.streams & 1u << line->stream) ||
            (e->asked.has_rank && e->asked.rank != line->rank) || !e->regex)
            continue;
        enum regex_result r = regex_match(e->regex, line->text, len);
        if (r == REGEX_LIMIT && !e->limited) {
            e->limited = true;
            m->limit(m->arg, (uint32_t)i, line);
        }
        struct match_hit hit = {(uint32_t)i, line, 0};
        if (r == REGEX_YES && (!e->asked.value || (regex_span(e->regex, e->group, &at, &n) &&
                                                   match_number(line->text + at, n, &hit.value))))
            m->hit(m->arg, &hit);
    }
}
