/* JSON text, token by token. Written for one reader (json.c) because that is several times faster than a library; see
 * the header. */
#include "internal.h"

#include <string.h>

enum { DEPTH_MAX = 32 };

int scan_fault(struct scan *s, const char *what)
{
    return error_set(s->err, ERROR_IO, "cannot read %s: %s at byte %zu", s->what, what, (size_t)(s->at - s->start));
}

int scan_expect(struct scan *s, char c)
{
    char what[] = "expected \"?\"";
    what[10] = c;
    return scan_take(s, c) ? 0 : scan_fault(s, what);
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

/* One escape, with s->at after the backslash; an escape is never shorter than its character. */
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
        return scan_fault(s, "bad escape");
    s->at += 5;
    if (c >= 0xD800 && c < 0xDC00 && end - s->at >= 6 && s->at[0] == '\\' && s->at[1] == 'u' && hex4(s->at + 2, &low) &&
        low >= 0xDC00 && low < 0xE000) {
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
        s->at += 6;
    }
    if (c == 0 || (c >= 0xD800 && c < 0xE000))
        return scan_fault(s, "bad escape");
    *out = put_utf8(*out, c);
    return 0;
}

int scan_string(struct scan *s, const char **ret)
{
    if (scan_expect(s, '"') < 0)
        return -1;
    const char *p = s->at;
    bool escaped = false;
    for (; p < s->end && *p != '"'; p++) {
        if ((unsigned char)*p < 0x20) {
            s->at = p;
            return scan_fault(s, "control character in a string");
        }
        if (*p == '\\' && p + 1 < s->end) {
            escaped = true;
            p++;
        }
    }
    if (p >= s->end)
        return scan_fault(s, "string without end");
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

int scan_integer(struct scan *s, int64_t min, int64_t max, int64_t *ret)
{
    scan_blanks(s);
    bool negative = scan_take(s, '-');
    const char *first = s->at;
    int64_t v = 0;
    for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, *s->at - '0', &v))
            return scan_fault(s, "number out of range");
    if (s->at == first || (*first == '0' && s->at - first > 1) ||
        (s->at < s->end && (*s->at == '.' || *s->at == 'e' || *s->at == 'E')))
        return scan_fault(s, "expected an integer");
    if (!negative && __builtin_sub_overflow((int64_t)0, v, &v))
        return scan_fault(s, "number out of range");
    if (v < min || v > max)
        return scan_fault(s, "number out of range");
    *ret = v;
    return 0;
}

bool scan_word(struct scan *s, const char *text)
{
    size_t n = strlen(text);
    scan_blanks(s);
    if ((size_t)(s->end - s->at) < n || memcmp(s->at, text, n) != 0)
        return false;
    s->at += n;
    return true;
}

static int skip(struct scan *s, int depth)
{
    const char *ignored;
    if (depth > DEPTH_MAX)
        return scan_fault(s, "nested too deep");
    scan_blanks(s);
    if (s->at < s->end && *s->at == '"')
        return scan_string(s, &ignored);
    bool object = scan_take(s, '{');
    if (object || scan_take(s, '[')) {
        char close = object ? '}' : ']';
        if (scan_take(s, close))
            return 0;
        do {
            if (object && (scan_string(s, &ignored) < 0 || scan_expect(s, ':') < 0))
                return -1;
            if (skip(s, depth + 1) < 0)
                return -1;
        } while (scan_take(s, ','));
        return scan_expect(s, close);
    }
    if (scan_word(s, "true") || scan_word(s, "false") || scan_word(s, "null"))
        return 0;
    const char *first = s->at;
    while (s->at < s->end && strchr("+-.eE0123456789", *s->at) && *s->at)
        s->at++;
    return s->at > first ? 0 : scan_fault(s, "expected a value");
}

int scan_skip(struct scan *s)
{
    return skip(s, 0);
}

int scan_peek_key(struct scan *s, const char **ret, size_t *ret_len)
{
    scan_blanks(s);
    if (s->at >= s->end || *s->at != '"')
        return scan_fault(s, "expected a key");
    const char *key = s->at + 1, *quote = memchr(key, '"', (size_t)(s->end - key));
    *ret = key;
    *ret_len = quote ? (size_t)(quote - key) : 0;
    return 0;
}
