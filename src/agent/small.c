/*
 * The agent goes through the wire for each node, so its size counts: what musl has of these is as large as half of
 * the rest. They do what the agent uses and no more (formats: %s %.*s %c %d %u %x with l, ll, z, 0 and a width; a
 * format that is not known here aborts). glibc's own parts call each other, so there they stay.
 */
#include "internal.h"

#ifndef __GLIBC__
#include <stdlib.h>
#include <string.h>

/* ---- formatted text ---- */

struct text {
    char *out;
    size_t max, len; /* len: what it would take */
};

static void put(struct text *t, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++, t->len++)
        if (t->len + 1 < t->max)
            t->out[t->len] = s[i];
}

static void put_number(struct text *t, uint64_t value, bool negative, unsigned base, size_t width)
{
    char digits[24];
    size_t n = 0;
    do
        digits[sizeof digits - ++n] = "0123456789abcdef"[value % base];
    while ((value /= base) || (n < width && n < sizeof digits - 1));
    if (negative)
        digits[sizeof digits - ++n] = '-';
    put(t, digits + sizeof digits - n, n);
}

int vsnprintf(char *out, size_t max, const char *fmt, va_list ap)
{
    struct text t = {out, max, 0};
    for (const char *p = fmt; *p; p++) {
        size_t plain = strcspn(p, "%");
        put(&t, p, plain);
        p += plain;
        if (!*p++)
            break;
        size_t width = 0, precision = SIZE_MAX;
        int longs = 0;
        for (; *p >= '0' && *p <= '9'; p++) /* numbers are filled with zeros only */
            width = 10 * width + (size_t)(*p - '0');
        if (*p == '.' && p[1] == '*') {
            precision = (size_t)va_arg(ap, int);
            p += 2;
        } else if (*p == '.') {
            for (precision = 0, p++; *p >= '0' && *p <= '9'; p++)
                precision = 10 * precision + (size_t)(*p - '0');
        }
        for (; *p == 'l' || *p == 'z'; p++)
            longs++;
        if (*p == 's') {
            const char *s = va_arg(ap, const char *);
            put(&t, s, strnlen(s, precision));
        } else if (*p == 'c') {
            char c = (char)va_arg(ap, int);
            put(&t, &c, 1);
        } else if (*p == '%') {
            put(&t, p, 1);
        } else if (*p == 'd') {
            int64_t v = longs ? va_arg(ap, long) : va_arg(ap, int);
            put_number(&t, v < 0 ? -(uint64_t)v : (uint64_t)v, v < 0, 10, width);
        } else if (*p == 'u' || *p == 'x') {
            put_number(&t, longs ? va_arg(ap, unsigned long) : va_arg(ap, unsigned), false, *p == 'u' ? 10 : 16, width);
        } else {
            abort();
        }
    }
    if (max)
        out[t.len < max ? t.len : max - 1] = 0;
    return (int)t.len;
}

int snprintf(char *out, size_t max, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(out, max, fmt, ap);
    va_end(ap);
    return n;
}

int vasprintf(char **ret, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    size_t size = (size_t)vsnprintf(NULL, 0, fmt, ap) + 1;
    *ret = xmalloc(size);
    vsnprintf(*ret, size, fmt, again);
    va_end(again);
    return (int)size - 1;
}

/* ---- searching and sorting ---- */

void *memmem(const void *text, size_t len, const void *needle, size_t n)
{
    const char *p = text, *end = p + len;
    if (n == 0)
        return (void *)(uintptr_t)p;
    for (; (size_t)(end - p) >= n && (p = memchr(p, *(const char *)needle, (size_t)(end - p) - n + 1)); p++)
        if (memcmp(p, needle, n) == 0)
            return (void *)(uintptr_t)p;
    return NULL;
}

char *strstr(const char *text, const char *needle)
{
    return memmem(text, strlen(text), needle, strlen(needle));
}

static void swap(char *a, char *b, size_t size)
{
    while (size--) {
        char c = *a;
        *a++ = *b;
        *b++ = c;
    }
}

/* Heap sort: no recursion, no memory, no worst case. */
void qsort(void *base, size_t count, size_t size, int (*compare)(const void *, const void *))
{
    char *a = base;
    for (size_t start = count / 2, end = count; end > 1;) {
        if (start)
            start--;
        else
            swap(a, a + --end * size, size);
        for (size_t i = start, child; (child = 2 * i + 1) < end; i = child) {
            if (child + 1 < end && compare(a + child * size, a + (child + 1) * size) < 0)
                child++;
            if (compare(a + i * size, a + child * size) >= 0)
                break;
            swap(a + i * size, a + child * size, size);
        }
    }
}

#endif
