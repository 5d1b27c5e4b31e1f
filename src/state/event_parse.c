/* JSON to an event. Written for this one shape instead of over a general JSON library, because opening a job of
 * 1,000 nodes reads tens of megabytes of events: values go straight from the text to their field. Strict JSON (RFC
 * 8259) but for one thing: bytes above 0x7F in strings are taken as they are. */
#include "internal.h"

#include <string.h>

enum { DEPTH_MAX = 32 };

struct scan {
    const char *at, *end;
    struct arena *arena;
    struct error *err;
    const char *start;
};

static int fault(struct scan *s, const char *what)
{
    return error_set(s->err, ERROR_IO, "cannot read event: %s at byte %zu", what, (size_t)(s->at - s->start));
}

static void skip_blanks(struct scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t'))
        s->at++;
}

/* True and past it when c comes next. */
static bool take(struct scan *s, char c)
{
    skip_blanks(s);
    if (s->at >= s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

static int expect(struct scan *s, char c)
{
    char what[] = "expected \"?\"";
    what[10] = c;
    return take(s, c) ? 0 : fault(s, what);
}

static bool hex4(const char *p, unsigned *ret)
{
    unsigned v = 0;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        unsigned d = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                     : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                     : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A' + 10)
                                            : 16u;
        if (d > 15)
            return false;
        v = v << 4 | d;
    }
    *ret = v;
    return true;
}

static char *put_utf8(char *out, unsigned c)
{
    if (c < 0x80) {
        *out++ = (char)c;
    } else if (c < 0x800) {
        *out++ = (char)(0xC0 | c >> 6);
        *out++ = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        *out++ = (char)(0xE0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 63));
        *out++ = (char)(0x80 | (c & 63));
    } else {
        *out++ = (char)(0xF0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 63));
        *out++ = (char)(0x80 | (c >> 6 & 63));
        *out++ = (char)(0x80 | (c & 63));
    }
    return out;
}

/* One escape, s->at behind the backslash; an escape is never shorter than what it stands for. */
static int unescape(struct scan *s, const char *end, char **out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *known = strchr(from, *s->at);
    if (known && *known) {
        *(*out)++ = to[known - from];
        s->at++;
        return 0;
    }
    unsigned c, low;
    if (*s->at != 'u' || end - s->at < 5 || !hex4(s->at + 1, &c))
        return fault(s, "bad escape");
    s->at += 5;
    if (c >= 0xD800 && c < 0xDC00 && end - s->at >= 6 && s->at[0] == '\\' && s->at[1] == 'u' && hex4(s->at + 2, &low) &&
        low >= 0xDC00 && low < 0xE000) {
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
        s->at += 6;
    }
    if (c == 0 || (c >= 0xD800 && c < 0xE000))
        return fault(s, "bad escape");
    *out = put_utf8(*out, c);
    return 0;
}

/* A string into the arena. */
static int string(struct scan *s, const char **ret)
{
    if (expect(s, '"') < 0)
        return -1;
    const char *p = s->at;
    bool escaped = false;
    for (; p < s->end && *p != '"'; p++) {
        if ((unsigned char)*p < 0x20) {
            s->at = p;
            return fault(s, "control character in a string");
        }
        if (*p == '\\' && p + 1 < s->end) {
            escaped = true;
            p++;
        }
    }
    if (p >= s->end)
        return fault(s, "string without end");
    if (!escaped) {
        *ret = arena_strndup(s->arena, s->at, (size_t)(p - s->at));
        s->at = p + 1;
        return 0;
    }
    char *text = arena_alloc(s->arena, (size_t)(p - s->at) + 1), *out = text;
    while (s->at < p) {
        if (*s->at != '\\') {
            *out++ = *s->at++;
            continue;
        }
        s->at++;
        if (unescape(s, p, &out) < 0)
            return -1;
    }
    s->at = p + 1;
    *ret = text;
    return 0;
}

static int integer(struct scan *s, int64_t min, int64_t max, int64_t *ret)
{
    skip_blanks(s);
    bool negative = take(s, '-');
    const char *first = s->at;
    int64_t v = 0;
    for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, *s->at - '0', &v))
            return fault(s, "number out of range");
    if (s->at == first || (*first == '0' && s->at - first > 1) ||
        (s->at < s->end && (*s->at == '.' || *s->at == 'e' || *s->at == 'E')))
        return fault(s, "expected an integer");
    if (!negative && __builtin_sub_overflow((int64_t)0, v, &v))
        return fault(s, "number out of range");
    if (v < min || v > max)
        return fault(s, "number out of range");
    *ret = v;
    return 0;
}

static bool word(struct scan *s, const char *text)
{
    size_t n = strlen(text);
    skip_blanks(s);
    if ((size_t)(s->end - s->at) < n || memcmp(s->at, text, n) != 0)
        return false;
    s->at += n;
    return true;
}

/* The value of a key that this version does not know. */
static int skip_value(struct scan *s, int depth)
{
    const char *ignored;
    if (depth > DEPTH_MAX)
        return fault(s, "nested too deep");
    skip_blanks(s);
    if (s->at < s->end && *s->at == '"')
        return string(s, &ignored);
    bool object = take(s, '{');
    if (object || take(s, '[')) {
        char close = object ? '}' : ']';
        if (take(s, close))
            return 0;
        do {
            if (object && (string(s, &ignored) < 0 || expect(s, ':') < 0))
                return -1;
            if (skip_value(s, depth + 1) < 0)
                return -1;
        } while (take(s, ','));
        return expect(s, close);
    }
    if (word(s, "true") || word(s, "false") || word(s, "null"))
        return 0;
    const char *first = s->at;
    while (s->at < s->end && strchr("+-.eE0123456789", *s->at) && *s->at)
        s->at++;
    return s->at > first ? 0 : fault(s, "expected a value");
}

/* A string that is one of names; its index. */
static int name(struct scan *s, const char *const *names, uint32_t *ret)
{
    const char *text;
    if (string(s, &text) < 0)
        return -1;
    for (uint32_t i = 0; names[i]; i++) {
        if (*names[i] && strcmp(names[i], text) == 0) {
            *ret = i;
            return 0;
        }
    }
    return error_set(s->err, ERROR_IO, "cannot read event: unknown name \"%.80s\"", text);
}

/* Grows an array in the arena; the halves left behind go with the arena. */
static void *grown(struct arena *a, void *items, uint32_t count, size_t size)
{
    if (count & (count - 1))
        return items;
    void *more = arena_array(a, count ? (size_t)count * 2 : 1, size);
    if (count)
        memcpy(more, items, count * size);
    return more;
}

static int object(struct scan *s, const struct field *fields, size_t count, void *ret, uint64_t *ret_seen,
                  uint32_t *ret_type);

static int missing(struct scan *s, const struct field *fields, size_t count, unsigned types, uint64_t seen)
{
    for (size_t i = 0; i < count; i++)
        if (fields[i].required & types && !(seen >> i & 1))
            return error_set(s->err, ERROR_IO, "cannot read event: \"%s\" is missing", fields[i].key);
    return 0;
}

/* An array of objects of these fields, `size` bytes each. */
static int objects(struct scan *s, const struct field *fields, size_t count, size_t size, uint32_t max,
                   const char *too_many, void **ret_items, uint32_t *ret_count)
{
    char *items = NULL;
    uint32_t n = 0;
    if (expect(s, '[') < 0)
        return -1;
    if (take(s, ']'))
        return 0;
    do {
        uint64_t seen;
        if (n >= max)
            return fault(s, too_many);
        items = grown(s->arena, items, n, size);
        if (object(s, fields, count, items + n * size, &seen, NULL) < 0 || missing(s, fields, count, ~0u, seen) < 0)
            return -1;
        n++;
    } while (take(s, ','));
    *ret_items = items;
    *ret_count = n;
    return expect(s, ']');
}

static int attempts(struct scan *s, struct event *e)
{
    void *items = NULL;
    int rc = objects(s, attempt_fields, attempt_field_count, sizeof *e->attempts, EVENT_NODE_MAX, "too many attempts",
                     &items, &e->attempt_count);
    e->attempts = items;
    return rc;
}

static int metrics(struct scan *s, struct event *e)
{
    void *items = NULL;
    int rc = objects(s, metric_fields, metric_field_count, sizeof *e->metrics, EVENT_METRICS_MAX, "too many values",
                     &items, &e->metric_count);
    e->metrics = items;
    return rc;
}

/* None are not NULL. */
static int strings(struct scan *s, uint32_t max, const char *const **ret_items, uint32_t *ret_count)
{
    const char **items = arena_array(s->arena, 1, sizeof *items);
    uint32_t n = 0;
    if (expect(s, '[') < 0)
        return -1;
    if (!take(s, ']')) {
        do {
            if (n >= max)
                return fault(s, "too many items");
            items = grown(s->arena, items, n, sizeof *items);
            if (string(s, &items[n]) < 0)
                return -1;
            n++;
        } while (take(s, ','));
        if (expect(s, ']') < 0)
            return -1;
    }
    *ret_items = items;
    *ret_count = n;
    return 0;
}

static int flags(struct scan *s, uint32_t *ret)
{
    uint32_t all = 0, i = 0;
    if (expect(s, '[') < 0)
        return -1;
    if (!take(s, ']')) {
        do {
            if (name(s, run_flag_names, &i) < 0)
                return -1;
            all |= 1u << i;
        } while (take(s, ','));
        if (expect(s, ']') < 0)
            return -1;
    }
    *ret = all;
    return 0;
}

static int value(struct scan *s, const struct field *f, void *ret)
{
    void *at = (char *)ret + f->offset;
    struct event *e = ret; /* only where the kind is one of an event's */
    int64_t v;
    uint32_t i = 0;
    switch (f->kind) {
    case FIELD_STRING:
        return string(s, at);
    case FIELD_U32:
    case FIELD_NODE:
    case FIELD_LEFT:
        if (integer(s, 0, f->kind == FIELD_NODE ? EVENT_NODE_MAX - 1 : UINT32_MAX, &v) < 0)
            return -1;
        *(uint32_t *)at = (uint32_t)v;
        return 0;
    case FIELD_I32:
        if (integer(s, INT32_MIN, INT32_MAX, &v) < 0)
            return -1;
        *(int32_t *)at = (int32_t)v;
        return 0;
    case FIELD_U64:
        if (integer(s, 0, INT64_MAX, &v) < 0)
            return -1;
        *(uint64_t *)at = (uint64_t)v;
        return 0;
    case FIELD_BOOL:
        *(bool *)at = word(s, "true");
        return *(bool *)at || word(s, "false") ? 0 : fault(s, "expected true or false");
    case FIELD_OUTCOME:
        if (name(s, outcome_names, &i) < 0)
            return -1;
        e->outcome = (enum outcome)i;
        return 0;
    case FIELD_STATUS:
        if (name(s, run_status_names, &i) < 0)
            return -1;
        e->status = (enum run_status)i;
        return 0;
    case FIELD_FLAGS:
        return flags(s, at);
    case FIELD_VOIDS:
        return strings(s, EVENT_NODE_MAX, &e->voids, &e->void_count);
    case FIELD_SETS:
        return strings(s, SPEC_SETS_MAX, &e->sets, &e->set_count);
    case FIELD_ATTEMPTS:
        return attempts(s, e);
    case FIELD_METRICS:
        return metrics(s, e);
    }
    return fault(s, "no such kind");
}

/* An object of known fields into ret; `guess` is where the writer would have put the next key. With ret_type, the
 * key "type" is an event's. */
static int object(struct scan *s, const struct field *fields, size_t count, void *ret, uint64_t *ret_seen,
                  uint32_t *ret_type)
{
    uint64_t seen = 0;
    size_t guess = 0;
    if (expect(s, '{') < 0)
        return -1;
    if (!take(s, '}')) {
        do {
            skip_blanks(s);
            if (s->at >= s->end || *s->at != '"')
                return fault(s, "expected a key");
            const char *key = s->at + 1, *quote = memchr(key, '"', (size_t)(s->end - key));
            size_t len = quote ? (size_t)(quote - key) : 0, i = guess, tried = 0;
            for (; tried < count; tried++, i = i + 1 < count ? i + 1 : 0)
                if (strlen(fields[i].key) == len && memcmp(fields[i].key, key, len) == 0)
                    break;
            if (tried == count) {
                const char *text;
                if (string(s, &text) < 0 || expect(s, ':') < 0)
                    return -1;
                bool is_type = ret_type && strcmp(text, "type") == 0;
                if (is_type && *ret_type)
                    return fault(s, "a key is there twice");
                if (is_type ? name(s, event_type_names, ret_type) < 0 : skip_value(s, 0) < 0)
                    return -1;
                continue;
            }
            s->at = quote + 1;
            if (seen >> i & 1)
                return fault(s, "a key is there twice");
            if (expect(s, ':') < 0 || value(s, &fields[i], ret) < 0)
                return -1;
            seen |= (uint64_t)1 << i;
            guess = i + 1 < count ? i + 1 : 0;
        } while (take(s, ','));
        if (expect(s, '}') < 0)
            return -1;
    }
    *ret_seen = seen;
    return 0;
}

/* What the type does not have goes back to nothing, so that an event has one meaning only. */
static void forget_foreign(struct event *e, unsigned types)
{
    struct event clean = {.type = e->type, .node = EVENT_NODE_NONE, .left = EVENT_UNBOUNDED};
    for (size_t i = 0; i < event_field_count; i++) {
        const struct field *f = &event_fields[i];
        if (!(f->types & types))
            continue;
        static const size_t sizes[] = {
            [FIELD_STRING] = sizeof(char *),     [FIELD_U32] = sizeof(uint32_t),    [FIELD_NODE] = sizeof(uint32_t),
            [FIELD_I32] = sizeof(int32_t),       [FIELD_U64] = sizeof(uint64_t),    [FIELD_BOOL] = sizeof(bool),
            [FIELD_OUTCOME] = sizeof e->outcome, [FIELD_STATUS] = sizeof e->status, [FIELD_FLAGS] = sizeof(uint32_t),
            [FIELD_VOIDS] = sizeof(void *),      [FIELD_ATTEMPTS] = sizeof(void *), [FIELD_LEFT] = sizeof(uint32_t),
            [FIELD_METRICS] = sizeof(void *),    [FIELD_SETS] = sizeof(void *),
        };
        memcpy((char *)&clean + f->offset, (char *)e + f->offset, sizes[f->kind]);
    }
    if (clean.voids)
        clean.void_count = e->void_count;
    if (clean.sets)
        clean.set_count = e->set_count;
    if (clean.attempts)
        clean.attempt_count = e->attempt_count;
    if (clean.metrics)
        clean.metric_count = e->metric_count;
    *e = clean;
}

int event_from_json(const char *text, size_t len, struct arena *arena, struct event *ret, struct error *err)
{
    struct scan s = {.at = text, .end = text + len, .arena = arena, .err = err, .start = text};
    struct event e = {.node = EVENT_NODE_NONE, .left = EVENT_UNBOUNDED};
    uint64_t seen = 0;
    uint32_t type = 0;
    if (len > EVENT_JSON_MAX)
        return error_set(err, ERROR_IO, "cannot read event: larger than %d bytes", (int)EVENT_JSON_MAX);
    if (object(&s, event_fields, event_field_count, &e, &seen, &type) < 0)
        return -1;
    skip_blanks(&s);
    if (s.at != s.end)
        return fault(&s, "something behind its end");
    if (!type)
        return error_set(err, ERROR_IO, "cannot read event: \"type\" is missing");
    if (missing(&s, event_fields, event_field_count, 1u << type, seen) < 0)
        return -1;
    e.type = (enum event_type)type;
    if (e.type == EVENT_RUN_CLOSED && e.status == RUN_OPEN)
        return error_set(err, ERROR_IO, "cannot read event: a run cannot close as \"open\"");
    if (e.type == EVENT_RUN_OPENED && e.node_count > EVENT_NODE_MAX)
        return error_set(err, ERROR_IO, "cannot read event: %u nodes, more than %d", e.node_count, (int)EVENT_NODE_MAX);
    bool known = false;
    for (size_t i = 0; spec_actions[i]; i++)
        known = known || (e.action && strcmp(spec_actions[i], e.action) == 0);
    if (e.type == EVENT_RULE && (!known || e.rule == 0))
        return error_set(err, ERROR_IO, "cannot read event: no such rule or action");
    if (e.type == EVENT_FINISHED && e.outcome == OUTCOME_NONE)
        return error_set(err, ERROR_IO, "cannot read event: finished with the outcome \"none\"");
    forget_foreign(&e, 1u << type);
    *ret = e;
    return 0;
}
