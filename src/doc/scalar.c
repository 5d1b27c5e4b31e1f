/*
 * Scalars: the YAML 1.2 core schema (10.3.2 of the specification), numbers in both directions, UTF-8.
 * Conversions go through strtod and snprintf but never depend on the locale's decimal point.
 */
#include "internal.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_one_of(const char *text, size_t len, const char *const *words)
{
    for (; *words; words++)
        if (strlen(*words) == len && memcmp(*words, text, len) == 0)
            return true;
    return false;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t span_digits(const char *p, const char *end)
{
    size_t n = 0;
    while (p + n < end && is_digit(p[n]))
        n++;
    return n;
}

/* [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )? */
static bool is_core_float(const char *p, const char *end)
{
    if (p < end && (*p == '-' || *p == '+'))
        p++;
    size_t whole = span_digits(p, end), fraction = 0;
    p += whole;
    if (p < end && *p == '.') {
        p++;
        fraction = span_digits(p, end);
        p += fraction;
    }
    if (whole + fraction == 0)
        return false;
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '-' || *p == '+'))
            p++;
        size_t exponent = span_digits(p, end);
        if (exponent == 0)
            return false;
        p += exponent;
    }
    return p == end;
}

bool doc_is_json_number(const char *text, size_t len)
{
    const char *p = text, *end = text + len;
    if (p < end && *p == '-')
        p++;
    size_t whole = span_digits(p, end);
    if (whole == 0 || (whole > 1 && *p == '0'))
        return false;
    p += whole;
    if (p < end && *p == '.') {
        size_t fraction = span_digits(++p, end);
        if (fraction == 0)
            return false;
        p += fraction;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '-' || *p == '+'))
            p++;
        size_t exponent = span_digits(p, end);
        if (exponent == 0)
            return false;
        p += exponent;
    }
    return p == end;
}

static char decimal_point(void)
{
    const char *point = localeconv()->decimal_point;
    return point && *point ? *point : '.';
}

static double to_double(const char *text, size_t len)
{
    char small[64], *copy = len < sizeof small ? small : xmalloc(len + 1);
    memcpy(copy, text, len);
    copy[len] = 0;
    char point = decimal_point(), *dot = point == '.' ? NULL : strchr(copy, '.');
    if (dot)
        *dot = point;
    double value = strtod(copy, NULL);
    if (copy != small)
        free(copy);
    return value;
}

void doc_format_float(double value, struct buf *ret)
{
    if (isnan(value)) {
        buf_puts(ret, ".nan");
        return;
    }
    if (isinf(value)) {
        buf_puts(ret, value < 0 ? "-.inf" : ".inf");
        return;
    }
    char text[40], point = decimal_point();
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (!(strtod(text, NULL) < value) && !(strtod(text, NULL) > value))
            break;
    }
    char *dot = point == '.' ? NULL : strchr(text, point);
    if (dot)
        *dot = '.';
    buf_puts(ret, text);
    if (!strpbrk(text, ".e"))
        buf_puts(ret, ".0");
}

/* Digits of a base into a uint64; false on overflow. */
static bool to_integer(const char *p, const char *end, unsigned base, uint64_t *ret, double *ret_number)
{
    uint64_t value = 0;
    bool fits = true;
    *ret_number = 0;
    for (; p < end; p++) {
        unsigned digit = is_digit(*p) ? (unsigned)(*p - '0') : (unsigned)((*p | 0x20) - 'a' + 10);
        *ret_number = *ret_number * base + digit;
        fits = fits && !__builtin_mul_overflow(value, base, &value) && !__builtin_add_overflow(value, digit, &value);
    }
    *ret = value;
    return fits;
}

static void set_integer(struct doc_node *node, const char *digits, const char *end, unsigned base, bool negative)
{
    uint64_t value;
    node->type = DOC_INT;
    bool fits = to_integer(digits, end, base, &value, &node->number);
    if (fits && value <= (uint64_t)INT64_MAX + (negative ? 1u : 0u)) {
        node->integer = negative ? (int64_t)(0 - value) : (int64_t)value;
        node->number = (double)node->integer;
        return;
    }
    node->big = true;
    node->integer = negative ? INT64_MIN : INT64_MAX;
    if (base == 10)
        node->number = to_double(digits, (size_t)(end - digits));
    if (negative)
        node->number = -node->number;
}

static bool all_in(const char *p, const char *end, const char *set)
{
    if (p == end)
        return false;
    for (; p < end; p++)
        if (!*p || !strchr(set, *p))
            return false;
    return true;
}

static bool resolve_number(struct doc_node *node, const char *text, size_t len)
{
    static const char *const infinities[] = {".inf", ".Inf", ".INF", NULL};
    static const char *const nans[] = {".nan", ".NaN", ".NAN", NULL};
    const char *p = text, *end = text + len;
    bool negative = *p == '-', sign = negative || *p == '+';
    if (!sign && len > 2 && p[0] == '0' && (p[1] == 'o' || p[1] == 'x')) {
        bool hex = p[1] == 'x';
        if (!all_in(p + 2, end, hex ? "0123456789abcdefABCDEF" : "01234567"))
            return false;
        set_integer(node, p + 2, end, hex ? 16 : 8, false);
        return true;
    }
    if (all_in(p + sign, end, "0123456789")) {
        set_integer(node, p + sign, end, 10, negative);
        return true;
    }
    if (is_core_float(p, end)) {
        node->type = DOC_FLOAT;
        node->number = to_double(text, len);
        return true;
    }
    bool infinite = is_one_of(p + sign, len - sign, infinities);
    if (!infinite && !is_one_of(text, len, nans))
        return false;
    node->type = DOC_FLOAT;
    node->number = infinite ? (negative ? -INFINITY : INFINITY) : (double)NAN;
    return true;
}

void doc_resolve_plain(struct doc_node *node, const char *text, size_t len)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    node->text = text;
    node->text_len = len;
    if (is_one_of(text, len, nulls)) {
        node->type = DOC_NULL;
        return;
    }
    node->boolean = is_one_of(text, len, trues);
    if (node->boolean || is_one_of(text, len, falses)) {
        node->type = DOC_BOOL;
        return;
    }
    bool may_be_number = is_digit(*text) || *text == '-' || *text == '+' || *text == '.';
    if (!may_be_number || !resolve_number(node, text, len))
        node->type = DOC_STRING;
}

size_t doc_utf8(const char *s, size_t len, uint32_t *ret)
{
    const unsigned char *p = (const unsigned char *)s;
    if (len == 0)
        return 0;
    if (p[0] < 0x80) {
        *ret = p[0];
        return 1;
    }
    size_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (p[0] < 0xc2 || p[0] > 0xf4 || n > len)
        return 0;
    uint32_t c = p[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3fu);
    }
    if (c < smallest[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return 0;
    *ret = c;
    return n;
}
