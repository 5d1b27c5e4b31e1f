/*
 * Equality and hashing as JSON Schema compares values: numbers by value whatever their spelling,
 * objects without regard to order.
 */
#include "internal.h"

#include <math.h>
#include <string.h>

static bool same_double(double a, double b)
{
    return !(a < b) && !(a > b) && !isnan(a) && !isnan(b);
}

/* The decimal digits of a number without sign and leading zeros, NULL for other bases. */
static const char *digits_of(const struct doc_node *node)
{
    const char *p = node->text;
    if (*p == '-' || *p == '+')
        p++;
    if (p[0] == '0' && (p[1] == 'x' || p[1] == 'o'))
        return NULL;
    while (*p == '0')
        p++;
    return p;
}

static bool equal_numbers(const struct doc_node *a, const struct doc_node *b)
{
    int64_t x, y;
    bool whole_a = doc_is_integer(a, &x), whole_b = doc_is_integer(b, &y);
    if (whole_a && whole_b)
        return x == y;
    if (a->big && b->big) {
        const char *p = digits_of(a), *q = digits_of(b);
        if (p && q)
            return (a->number < 0) == (b->number < 0) && strcmp(p, q) == 0;
    }
    return whole_a == whole_b && same_double(a->number, b->number);
}

static bool is_number(const struct doc_node *node)
{
    return node->type == DOC_INT || node->type == DOC_FLOAT;
}

bool doc_equal(const struct doc_node *a, const struct doc_node *b)
{
    if (is_number(a) && is_number(b))
        return equal_numbers(a, b);
    if (a->type != b->type || a->count != b->count)
        return false;
    switch (a->type) {
    case DOC_NULL:
    case DOC_INT:
    case DOC_FLOAT:
        return true;
    case DOC_BOOL:
        return a->boolean == b->boolean;
    case DOC_STRING:
        return a->text_len == b->text_len && memcmp(a->text, b->text, a->text_len) == 0;
    case DOC_ARRAY:
        for (size_t i = 0; i < a->count; i++)
            if (!doc_equal(a->items[i], b->items[i]))
                return false;
        return true;
    case DOC_OBJECT:
        for (size_t i = 0; i < a->count; i++) {
            const struct doc_member *m = &a->members[i], *n = doc_get_member(b, m->key, m->key_len);
            if (!n || !doc_equal(m->value, n->value))
                return false;
        }
        return true;
    }
    return false;
}

uint64_t doc_hash(const struct doc_node *node)
{
    uint64_t h = (uint64_t)node->type + 1;
    switch (node->type) {
    case DOC_NULL:
        return h;
    case DOC_BOOL:
        return h * 31 + node->boolean;
    case DOC_INT:
    case DOC_FLOAT: {
        double value = node->number + 0.0; /* -0 and 0 are equal */
        return doc_hash_bytes(&value, sizeof value, DOC_INT);
    }
    case DOC_STRING:
        return doc_hash_bytes(node->text, node->text_len, h);
    case DOC_ARRAY:
        for (size_t i = 0; i < node->count; i++) {
            uint64_t pair[2] = {h, doc_hash(node->items[i])};
            h = doc_hash_bytes(pair, sizeof pair, DOC_ARRAY);
        }
        return h;
    case DOC_OBJECT:
        for (size_t i = 0; i < node->count; i++) {
            const struct doc_member *m = &node->members[i];
            uint64_t value = doc_hash(m->value);
            h += doc_hash_bytes(m->key, m->key_len, value);
        }
        return h;
    }
    return h;
}
