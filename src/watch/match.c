/* Patterns over lines. Each pattern is searched in turn: a compiled pattern skips to its first character by itself,
 * which is faster than searching one large alternation of all patterns. */
#include "rhrun/watch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    struct match_pattern asked;
    struct regex *regex; /* NULL: never matches */
    struct regex *lines; /* for many lines at once, made for the first block; NULL: not possible with this pattern */
    bool has_lines;      /* `lines` was determined */
    int group, step;     /* the same in both regexes */
    bool limited;        /* `limit` was called */
    size_t from, end;    /* its hits in the block, in matcher.found */
};

struct found {        /* a hit in a block */
    size_t line, len; /* line: where the hit's line begins */
    struct match_hit hit;
};

struct matcher {
    struct entry *entries;
    size_t count;
    struct found *found;
    size_t found_count, found_cap;
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
        e->step = e->group > 0 ? regex_group(e->regex, "step") : -1;
    }
    return m;
}

void matcher_destroy(struct matcher *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->count; i++)
        regex_destroy(m->entries[i].regex);
    for (size_t i = 0; i < m->count; i++)
        regex_destroy(m->entries[i].lines);
    free(m->found);
    free(m->entries);
    free(m);
}

/* The numbers that most programs print: few digits and a small power of ten, both exact in a double. So one operation
 * rounds as strtod does, many times faster. */
static bool plain_number(const char *text, size_t len, double *ret)
{
    static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    enum { DIGITS_MAX = 15, TENS_MAX = sizeof tens / sizeof *tens - 1 };
    const char *p = text, *const end = text + len;
    uint64_t digits = 0;
    int count = 0, tenth = 0, power = 0;
    const bool minus = p < end && *p == '-';
    p += p < end && (*p == '-' || *p == '+');
    for (; p < end && *p >= '0' && *p <= '9' && count <= DIGITS_MAX; p++, count++)
        digits = 10 * digits + (uint64_t)(*p - '0');
    if (p < end && *p == '.')
        for (p++; p < end && *p >= '0' && *p <= '9' && count <= DIGITS_MAX; p++, count++, tenth++)
            digits = 10 * digits + (uint64_t)(*p - '0');
    if (count == 0 || count > DIGITS_MAX)
        return false;
    if (end - p >= 2 && end - p <= 4 && (*p | 0x20) == 'e') {
        const bool below = p[1] == '-';
        p += 1 + (below || p[1] == '+');
        if (p == end)
            return false;
        for (; p < end && *p >= '0' && *p <= '9'; p++)
            power = 10 * power + *p - '0';
        power = below ? -power : power;
    }
    power -= tenth;
    if (p != end || power < -TENS_MAX || power > TENS_MAX)
        return false;
    const double value = power < 0 ? (double)digits / tens[-power] : (double)digits * tens[power];
    *ret = minus ? -value : value;
    return true;
}

bool match_number(const char *text, size_t len, double *ret)
{
    char copy[64], *end;
    if (plain_number(text, len, ret))
        return true;
    if (len == 0 || len >= sizeof copy)
        return false;
    memcpy(copy, text, len);
    copy[len] = 0;
    size_t sign = copy[0] == '-' || copy[0] == '+';
    char first = copy[sign];
    bool word = (first | 0x20) == 'n' || (first | 0x20) == 'i';
    /* strtod accepts more than programs print: blanks, hexadecimal, nan(...) */
    if (!word && strspn(copy, "0123456789+-.eE") != len)
        return false;
    if (word && strchr(copy, '('))
        return false;
    *ret = strtod(copy, &end);
    return *end == 0 && end != copy;
}

void match_number_text(double v, char ret[MATCH_NUMBER_MAX])
{
    if (isnan(v)) {
        snprintf(ret, MATCH_NUMBER_MAX, "nan");
        return;
    }
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(ret, MATCH_NUMBER_MAX, "%.*g", digits, v);
        double back = strtod(ret, NULL);
        if (back >= v && back <= v)
            return;
    }
}

static bool match_step(const char *text, size_t len, uint64_t *ret)
{
    char copy[24];
    if (len == 0 || len >= sizeof copy)
        return false;
    memcpy(copy, text, len);
    copy[len] = 0;
    return parse_u64(copy, ret);
}

static bool looks_at(const struct entry *e, const struct watch_line *line)
{
    return e->regex && e->asked.streams & 1u << line->stream && (!e->asked.has_rank || e->asked.rank == line->rank);
}

/* Reads the hit of `re` in `text`; false if it does not count. */
static bool read_hit(const struct entry *e, const struct regex *re, const char *text, struct match_hit *ret)
{
    size_t at, n;
    if (e->asked.value && (!regex_span(re, e->group, &at, &n) || !match_number(text + at, n, &ret->value)))
        return false;
    if (e->step > 0 && regex_span(re, e->step, &at, &n))
        ret->has_step = match_step(text + at, n, &ret->step);
    return true;
}

static bool match_one(struct matcher *m, size_t i, const struct watch_line *line, struct match_hit *ret)
{
    struct entry *e = &m->entries[i];
    enum regex_result r = regex_match(e->regex, line->text, line->len < MATCH_LINE_MAX ? line->len : MATCH_LINE_MAX);
    if (r == REGEX_LIMIT && !e->limited) {
        e->limited = true;
        m->limit(m->arg, (uint32_t)i, line);
    }
    *ret = (struct match_hit){.pattern = (uint32_t)i, .line = line};
    return r == REGEX_YES && read_hit(e, e->regex, line->text, ret);
}

void matcher_line(struct matcher *m, const struct watch_line *line, const bool *wanted)
{
    struct match_hit hit;
    for (size_t i = 0; i < m->count; i++)
        if ((!wanted || wanted[i]) && looks_at(&m->entries[i], line) && match_one(m, i, line, &hit))
            m->hit(m->arg, &hit);
}

/* ---- many lines at once ---- */

static void keep(struct matcher *m, size_t at, size_t len, const struct match_hit *hit)
{
    if (m->found_count == m->found_cap) {
        m->found_cap = m->found_cap ? 2 * m->found_cap : 64;
        m->found = xreallocarray(m->found, m->found_cap, sizeof *m->found);
    }
    m->found[m->found_count++] = (struct found){at, len, *hit};
}

static struct watch_line line_at(const struct watch_line *lines, size_t at)
{
    struct watch_line line = *lines;
    const char *end = memchr(lines->text + at, '\n', lines->len - at);
    line.text = lines->text + at;
    line.len = end ? (size_t)(end - line.text) : lines->len - at;
    return line;
}

/* Matches line by line from byte `at` on, which is the beginning of a line. */
static void match_each(struct matcher *m, size_t i, const struct watch_line *lines, size_t at)
{
    struct match_hit hit;
    while (at < lines->len) {
        const struct watch_line line = line_at(lines, at);
        if (match_one(m, i, &line, &hit))
            keep(m, at, line.len, &hit);
        at += line.len + 1;
    }
}

static bool has_long_line(const struct watch_line *lines)
{
    for (size_t at = 0; lines->len - at > MATCH_LINE_MAX;) {
        const char *end = memrchr(lines->text + at, '\n', MATCH_LINE_MAX);
        if (!end)
            return true;
        at = (size_t)(end - lines->text) + 1;
    }
    return false;
}

/* Compiled on first use, because most matchers see no block. */
static bool over_lines(struct entry *e)
{
    if (!e->has_lines)
        e->lines = regex_create_lines(e->asked.pattern, strlen(e->asked.pattern));
    e->has_lines = true;
    return e->lines != NULL;
}

static void match_block(struct matcher *m, size_t i, const struct watch_line *lines)
{
    struct entry *e = &m->entries[i];
    for (size_t at = 0; at < lines->len;) {
        size_t from, n;
        const enum regex_result r = regex_match_from(e->lines, lines->text, lines->len, at);
        if (r == REGEX_LIMIT)
            match_each(m, i, lines, at);
        if (r != REGEX_YES || !regex_span(e->lines, 0, &from, &n) || from == lines->len)
            return;
        const char *before = memrchr(lines->text + at, '\n', from - at);
        const size_t begin = before ? (size_t)(before - lines->text) + 1 : at;
        struct match_hit hit = {.pattern = (uint32_t)i};
        const struct watch_line line = line_at(lines, begin);
        if (from + n <= begin + line.len ? read_hit(e, e->lines, lines->text, &hit) : match_one(m, i, &line, &hit))
            keep(m, begin, line.len, &hit);
        at = begin + line.len + 1;
    }
}

/* The hits of each pattern are in the order of lines; gives them out line by line, and within a line in the order of
 * patterns. */
static void give_out(struct matcher *m, const struct watch_line *lines)
{
    for (size_t at = 0, next; at < lines->len; at = next) {
        next = lines->len;
        for (size_t i = 0; i < m->count; i++) {
            struct entry *e = &m->entries[i];
            if (e->from < e->end && m->found[e->from].line == at) {
                struct watch_line line = *lines;
                struct found *f = &m->found[e->from++];
                line.text = lines->text + at;
                line.len = f->len;
                f->hit.line = &line;
                m->hit(m->arg, &f->hit);
            }
            if (e->from < e->end && m->found[e->from].line < next)
                next = m->found[e->from].line;
        }
    }
}

void matcher_block(struct matcher *m, const struct watch_line *lines, const bool *wanted)
{
    const bool is_long = has_long_line(lines);
    m->found_count = 0;
    for (size_t i = 0; i < m->count; i++) {
        struct entry *e = &m->entries[i];
        e->from = m->found_count;
        if ((!wanted || wanted[i]) && looks_at(e, lines)) {
            if (!is_long && over_lines(e))
                match_block(m, i, lines);
            else
                match_each(m, i, lines, 0);
        }
        e->end = m->found_count;
    }
    if (m->found_count)
        give_out(m, lines);
}
