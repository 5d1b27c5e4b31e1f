/* Strict parsing, string helpers, errors by value. */
#include "rhrun/base.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool parse_u64(const char *s, uint64_t *ret)
{
    if (!s || !*s)
        return false;
    uint64_t v = 0;
    for (; *s; s++) {
        if (*s < '0' || *s > '9')
            return false;
        if (__builtin_mul_overflow(v, 10u, &v) || __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
            return false;
    }
    *ret = v;
    return true;
}

bool parse_i64(const char *s, int64_t *ret)
{
    bool negative = s && (*s == '-' || *s == '+') && *s == '-';
    if (s && (*s == '-' || *s == '+'))
        s++;
    uint64_t v;
    if (!parse_u64(s, &v) || v > (uint64_t)INT64_MAX + (negative ? 1u : 0u))
        return false;
    *ret = negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

bool parse_u32(const char *s, uint32_t *ret)
{
    uint64_t v;
    if (!parse_u64(s, &v) || v > UINT32_MAX)
        return false;
    *ret = (uint32_t)v;
    return true;
}

/* A number with a unit from a table; the number may have a fraction ("1.5h"). */
struct unit {
    const char *name;
    uint64_t factor;
};

static bool parse_scaled(const char *s, const struct unit *units, uint64_t *ret)
{
    uint64_t whole = 0, fraction = 0, scale = 1;
    const char *p = s;
    if (!s || !isdigit((unsigned char)*p))
        return false;
    for (; isdigit((unsigned char)*p); p++)
        if (__builtin_mul_overflow(whole, 10u, &whole) || __builtin_add_overflow(whole, (uint64_t)(*p - '0'), &whole))
            return false;
    if (*p == '.') {
        if (!isdigit((unsigned char)*++p))
            return false;
        for (; isdigit((unsigned char)*p); p++)
            if (scale < 1000000) {
                fraction = fraction * 10 + (uint64_t)(*p - '0');
                scale *= 10;
            }
    }
    for (const struct unit *u = units; u->name; u++) {
        if (strcmp(p, u->name) != 0)
            continue;
        uint64_t v;
        if (__builtin_mul_overflow(whole, u->factor, &v))
            return false;
        uint64_t part = u->factor > UINT64_MAX / 1000000 ? u->factor / scale * fraction : fraction * u->factor / scale;
        return !__builtin_add_overflow(v, part, ret);
    }
    return false;
}

bool parse_duration_ms(const char *s, uint64_t *ret_ms)
{
    static const struct unit units[] = {{"", 1000},     {"ms", 1},       {"s", 1000}, {"m", 60000},
                                        {"h", 3600000}, {"d", 86400000}, {NULL, 0}};
    return parse_scaled(s, units, ret_ms);
}

bool parse_size(const char *s, uint64_t *ret_bytes)
{
    static const struct unit units[] = {{"", 1},           {"B", 1},          {"k", 1u << 10},     {"K", 1u << 10},
                                        {"KiB", 1u << 10}, {"M", 1u << 20},   {"MiB", 1u << 20},   {"G", 1u << 30},
                                        {"GiB", 1u << 30}, {"T", 1ull << 40}, {"TiB", 1ull << 40}, {NULL, 0}};
    return parse_scaled(s, units, ret_bytes);
}

bool str_eq(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

bool str_starts(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_is_hex(const char *s, size_t len)
{
    return strlen(s) == len && strspn(s, "0123456789abcdef") == len;
}

bool str_ends(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && strcmp(s + n - m, suffix) == 0;
}

enum { NEAREST_MAX = 64 };

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;
    return m < c ? m : c;
}

/* Optimal string alignment distance; both at most NEAREST_MAX long. */
static size_t distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    size_t d[3][NEAREST_MAX + 1];
    for (size_t j = 0; j <= m; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *row = d[i % 3], *up = d[(i + 2) % 3], *up2 = d[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            row[j] = min3(up[j] + 1, row[j - 1] + 1, up[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) && y == tolower((unsigned char)a[i - 2]) &&
                up2[j - 2] + 1 < row[j])
                row[j] = up2[j - 2] + 1;
        }
    }
    return d[n % 3][m];
}

const char *str_nearest(const char *word, const char *const *candidates)
{
    const char *best = NULL;
    size_t best_distance = SIZE_MAX, n = strlen(word);
    if (n == 0 || n > NEAREST_MAX)
        return NULL;
    for (; *candidates; candidates++) {
        size_t m = strlen(*candidates);
        if (m == 0 || m > NEAREST_MAX)
            continue;
        size_t d = distance(word, *candidates), longer = n > m ? n : m;
        size_t limit = longer / 3 > 0 ? longer / 3 : 1;
        /* a word that the candidate begins with ("nproc" for nproc_per_node) is near too */
        if (d > limit && n >= 4 && m > n && strncasecmp(word, *candidates, n) == 0)
            d = limit;
        if (d <= limit && d < best_distance && d < longer) {
            best = *candidates;
            best_distance = d;
        }
    }
    return best;
}

/* Length of the control character at s in bytes; 0: there is none. */
static size_t control_len(const char *s)
{
    unsigned char first = (unsigned char)s[0], second = first ? (unsigned char)s[1] : 0;
    return first == 0xc2 && second >= 0x80 && second < 0xa0 ? 2 : first < ' ' || first == 0x7f;
}

bool str_is_printable(const char *s)
{
    while (*s && control_len(s) == 0)
        s++;
    return !*s;
}

void str_printable(char *s)
{
    for (size_t n; *s; s += n ? n : 1) {
        n = control_len(s);
        memset(s, '?', n);
    }
}

FORMAT(3, 0) static int error_vset(struct error *err, enum error_code code, const char *fmt, va_list ap)
{
    if (err) {
        err->code = code;
        err->why = ERROR_WHY_NONE;
        err->hint[0] = 0;
        vsnprintf(err->text, sizeof err->text, fmt, ap);
        str_printable(err->text);
    }
    return -1;
}

int error_set(struct error *err, enum error_code code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    error_vset(err, code, fmt, ap);
    va_end(ap);
    return -1;
}

int error_errno(struct error *err, enum error_code code, int errnum, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    error_vset(err, code, fmt, ap);
    va_end(ap);
    if (err) {
        size_t n = strlen(err->text);
        snprintf(err->text + n, sizeof err->text - n, ": %s", strerror(errnum));
        if (errnum == ENOSPC || errnum == EDQUOT)
            err->why = ERROR_WHY_DISK_FULL;
        else if (errnum == EMFILE)
            error_hint(err, "raise the limit of open files: ulimit -n 4096");
        else if (errnum == EFBIG)
            error_hint(err, "a limit on file sizes was reached (ulimit -f): raise the limit, or write less");
    }
    return -1;
}

const char *error_code_name(enum error_code code)
{
    static const char *const names[] = {[ERROR_NONE] = "none",
                                        [ERROR_USAGE] = "usage",
                                        [ERROR_SPEC] = "spec",
                                        [ERROR_JOB] = "job",
                                        [ERROR_INFRA] = "infra",
                                        [ERROR_HELD] = "held",
                                        [ERROR_IO] = "io",
                                        [ERROR_PROTOCOL] = "protocol",
                                        [ERROR_TIMEOUT] = "timeout",
                                        [ERROR_INTERRUPTED] = "interrupted",
                                        [ERROR_INTERNAL] = "internal"};
    return code < ARRAY_LEN(names) ? names[code] : "internal";
}

int error_why(struct error *err, enum error_why why)
{
    if (err)
        err->why = why;
    return -1;
}

void error_prefix(struct error *err, const char *fmt, ...)
{
    if (!err)
        return;
    char old[sizeof err->text];
    memcpy(old, err->text, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    size_t n = strlen(err->text);
    snprintf(err->text + n, sizeof err->text - n, ": %s", old);
    str_printable(err->text);
}

void error_hint(struct error *err, const char *fmt, ...)
{
    if (!err)
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->hint, sizeof err->hint, fmt, ap);
    str_printable(err->hint);
    va_end(ap);
}

char *path_clean(char *path)
{
    size_t len = 0;
    for (const char *p = path; *p;) {
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.') {
            while (len && path[--len] != '/')
                ;
        } else if (n && !(n == 1 && *p == '.')) {
            path[len++] = '/'; /* never beyond p, because a slash precedes each part */
            memmove(path + len, p, n);
            len += n;
        }
        p += n + (p[n] == '/');
    }
    path[len ? len : 1] = 0; /* "/" stays */
    return path;
}
