/* Allocation that never fails, arenas and growing buffers. */
#include "rhrun/base.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void out_of_memory(void)
{
    static const char text[] = "rhrun: out of memory\n";
    ssize_t n = write(2, text, sizeof text - 1);
    (void)n;
    quick_exit(3);
}

void *xmalloc(size_t size)
{
    void *p = malloc(size ? size : 1);
    if (!p)
        out_of_memory();
    return p;
}

void *xcalloc(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size ? size : 1);
    if (!p)
        out_of_memory();
    return p;
}

void *xrealloc(void *ptr, size_t size)
{
    void *p = realloc(ptr, size ? size : 1);
    if (!p)
        out_of_memory();
    return p;
}

void *xreallocarray(void *ptr, size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        out_of_memory();
    return xrealloc(ptr, total);
}

char *xstrndup(const char *s, size_t len)
{
    char *p = xmalloc(len + 1);
    memcpy(p, s, len);
    p[len] = 0;
    return p;
}

char *xstrdup(const char *s)
{
    return xstrndup(s, strlen(s));
}

char *xvasprintf(const char *fmt, va_list ap)
{
    char *p = NULL;
    if (vasprintf(&p, fmt, ap) < 0)
        out_of_memory();
    return p;
}

char *xasprintf(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *p = xvasprintf(fmt, ap);
    va_end(ap);
    return p;
}

void cleanup_free(void *ptr)
{
    free(*(void **)ptr);
}

void cleanup_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

int base_steal_fd(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

/* ---- arena ---- */

struct block {
    struct block *next;
    size_t size, used;
};
struct arena {
    struct block *head;
    size_t used;
};
enum { BLOCK_HEADER = (sizeof(struct block) + 15) / 16 * 16, BLOCK_SIZE = 16384 };

static struct block *block_create(size_t size)
{
    struct block *b = xmalloc(BLOCK_HEADER + size);
    b->next = NULL;
    b->size = size;
    b->used = 0;
    return b;
}

struct arena *arena_create(void)
{
    struct arena *a = xcalloc(1, sizeof *a);
    a->head = block_create(BLOCK_SIZE);
    return a;
}

void arena_reset(struct arena *a)
{
    while (a->head->next) {
        struct block *next = a->head->next;
        free(a->head);
        a->head = next;
    }
    a->head->used = 0;
    a->used = 0;
}

void arena_destroy(struct arena *a)
{
    if (!a)
        return;
    arena_reset(a);
    free(a->head);
    free(a);
}

void *arena_alloc(struct arena *a, size_t size)
{
    if (size > SIZE_MAX / 2)
        out_of_memory();
    size = (size + 15) / 16 * 16;
    struct block *b = a->head;
    if (b->size - b->used < size) {
        b = block_create(size > BLOCK_SIZE / 4 ? size : BLOCK_SIZE);
        if (size > BLOCK_SIZE / 4) { /* a large block goes after the head, which still has room */
            b->next = a->head->next;
            a->head->next = b;
        } else {
            b->next = a->head;
            a->head = b;
        }
    }
    void *p = (char *)b + BLOCK_HEADER + b->used;
    b->used += size;
    a->used += size;
    memset(p, 0, size);
    return p;
}

void *arena_array(struct arena *a, size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        out_of_memory();
    return arena_alloc(a, total);
}

char *arena_strndup(struct arena *a, const char *s, size_t len)
{
    char *p = arena_alloc(a, len + 1);
    memcpy(p, s, len);
    return p;
}

char *arena_strdup(struct arena *a, const char *s)
{
    return s ? arena_strndup(a, s, strlen(s)) : NULL;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = xvasprintf(fmt, ap);
    va_end(ap);
    char *p = arena_strdup(a, text);
    free(text);
    return p;
}

size_t arena_used(const struct arena *a)
{
    return a->used;
}

/* ---- buf ---- */

void buf_reserve(struct buf *b, size_t more)
{
    if (more > SIZE_MAX / 2 - b->len)
        out_of_memory();
    size_t want = b->len + more + 1;
    if (want <= b->cap)
        return;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < want)
        cap *= 2;
    b->data = xrealloc(b->data, cap);
    b->cap = cap;
}

void buf_append(struct buf *b, const void *data, size_t len)
{
    buf_reserve(b, len);
    if (len)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = 0;
}

void buf_puts(struct buf *b, const char *s)
{
    buf_append(b, s, strlen(s));
}

void buf_putc(struct buf *b, char c)
{
    buf_append(b, &c, 1);
}

void buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n > 0) {
        buf_reserve(b, (size_t)n);
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(b, fmt, ap);
    va_end(ap);
}

void buf_consume(struct buf *b, size_t n)
{
    if (n >= b->len) {
        b->len = 0;
        return;
    }
    memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
    b->data[b->len] = 0;
}

void buf_clear(struct buf *b)
{
    b->len = 0;
}

void buf_free(struct buf *b)
{
    free(b->data);
    *b = (struct buf){0};
}

char *buf_steal(struct buf *b)
{
    buf_reserve(b, 0);
    b->data[b->len] = 0;
    char *text = b->data;
    *b = (struct buf){0};
    return text;
}

void buf_shell_quote(struct buf *b, const char *s)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
    if (*s && strspn(s, plain) == strlen(s)) {
        buf_puts(b, s);
        return;
    }
    buf_putc(b, '\'');
    for (; *s; s++) {
        if (*s == '\'')
            buf_puts(b, "'\\''");
        else
            buf_putc(b, *s);
    }
    buf_putc(b, '\'');
}

/* Length of the valid UTF-8 sequence at s, or 0. */
size_t utf8_length(const unsigned char *s, size_t left)
{
    if (s[0] < 0x80)
        return 1;
    size_t n = s[0] >= 0xF0 && s[0] <= 0xF4 ? 4 : s[0] >= 0xE0 ? 3 : s[0] >= 0xC2 ? 2 : 0;
    if (s[0] > 0xF4 || !n || n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF0 && s[1] < 0x90) ||
        (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return n;
}

void buf_json_string(struct buf *b, const char *s, size_t len)
{
    const unsigned char *p = (const unsigned char *)s;
    buf_putc(b, '"');
    for (size_t i = 0; i < len;) {
        size_t n = utf8_length(p + i, len - i);
        if (n == 0) {
            buf_puts(b, "\xEF\xBF\xBD");
            i++;
        } else if (n > 1) {
            buf_append(b, p + i, n);
            i += n;
        } else {
            char c = s[i++];
            switch (c) {
            case '"':
                buf_puts(b, "\\\"");
                break;
            case '\\':
                buf_puts(b, "\\\\");
                break;
            case '\n':
                buf_puts(b, "\\n");
                break;
            case '\r':
                buf_puts(b, "\\r");
                break;
            case '\t':
                buf_puts(b, "\\t");
                break;
            default:
                if ((unsigned char)c < 0x20 || c == 0x7F)
                    buf_printf(b, "\\u%04x", (unsigned)(unsigned char)c);
                else
                    buf_putc(b, c);
            }
        }
    }
    buf_putc(b, '"');
}
