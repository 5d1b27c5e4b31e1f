/*
 * Numbers as JSON Schema compares them: by value. multipleOf works on decimal digits, since 0.0075 / 0.0001
 * in doubles is not a whole number.
 */
#include "internal.h"

#include <math.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide;

enum { DIGITS_MAX = 36, EXPONENT_MAX = 5000 };

int number_compare(const struct doc_node *a, const struct doc_node *b)
{
    if (a->type == DOC_INT && b->type == DOC_INT && !a->big && !b->big)
        return (a->integer > b->integer) - (a->integer < b->integer);
    long double x = a->type == DOC_INT && !a->big ? (long double)a->integer : (long double)a->number;
    long double y = b->type == DOC_INT && !b->big ? (long double)b->integer : (long double)b->number;
    return (x > y) - (x < y);
}

bool number_is_integral(const struct doc_node *node)
{
    int64_t whole;
    return node->type == DOC_INT || doc_is_integer(node, &whole) ||
           (node->type == DOC_FLOAT && isfinite(node->number) && (node->number >= 0x1p53 || node->number <= -0x1p53));
}

struct decimal { /* digits * 10^exponent, without the sign */
    wide digits;
    int exponent;
};

static bool to_decimal(const struct doc_node *node, struct decimal *ret)
{
    struct decimal d = {0};
    if (node->type == DOC_INT && !node->big) {
        uint64_t value = node->integer < 0 ? 0 - (uint64_t)node->integer : (uint64_t)node->integer;
        *ret = (struct decimal){value, 0};
        return true;
    }
    const char *p = node->text;
    int digits = 0;
    bool point = false;
    p += *p == '-' || *p == '+';
    for (; (*p >= '0' && *p <= '9') || (*p == '.' && !point); p++) {
        if (*p == '.') {
            point = true;
            continue;
        }
        if (d.digits > 0 && ++digits >= DIGITS_MAX)
            return false;
        d.digits = d.digits * 10 + (unsigned)(*p - '0');
        d.exponent -= point;
        if (d.exponent < -EXPONENT_MAX)
            return false;
    }
    if (*p == 'e' || *p == 'E') {
        int64_t exponent;
        if (!parse_i64(p + 1, &exponent) || exponent > EXPONENT_MAX || exponent < -EXPONENT_MAX)
            return false;
        d.exponent += (int)exponent;
    } else if (*p) {
        return false; /* 0x, .inf */
    }
    *ret = d;
    return true;
}

bool number_is_multiple(const struct doc_node *value, const struct doc_node *of)
{
    struct decimal v, m;
    if (!to_decimal(value, &v) || !to_decimal(of, &m)) {
        double quotient = value->number / of->number;
        return isfinite(quotient) && (quotient >= 0x1p53 || quotient <= -0x1p53 ||
                                      !((double)(int64_t)quotient < quotient || (double)(int64_t)quotient > quotient));
    }
    if (m.digits == 0)
        return false;
    for (; m.exponent > v.exponent; m.exponent--) {
        if (m.digits > ((wide)1 << 124))
            return v.digits == 0; /* the divisor is larger than any value of this many digits */
        m.digits *= 10;
    }
    if (m.digits > ((wide)1 << 124))
        return v.digits % m.digits == 0 && v.exponent == m.exponent;
    v.digits %= m.digits;
    for (; v.exponent > m.exponent && v.digits > 0; v.exponent--)
        v.digits = v.digits * 10 % m.digits;
    return v.digits == 0;
}
