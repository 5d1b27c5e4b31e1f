/* Lines for a terminal: each piece is cut at the width, counted in columns, not bytes. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* One code point of UTF-8; an invalid byte counts as one. */
static size_t decode(const char *s, size_t len, uint32_t *ret)
{
    const unsigned char *p = (const unsigned char *)s;
    size_t n = p[0] < 0x80 ? 1 : p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : p[0] >= 0xC2 ? 2 : 0;
    *ret = p[0];
    if (n <= 1 || n > len) {
        *ret = n == 1 ? p[0] : 0xFFFD;
        return 1;
    }
    uint32_t c = p[0] & (0xFFu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xC0) != 0x80) {
            *ret = 0xFFFD;
            return 1;
        }
        c = c << 6 | (p[i] & 0x3Fu);
    }
    *ret = c;
    return n;
}

/* The blocks that terminals show two columns wide, and the usual combining marks. */
static unsigned columns_of(uint32_t c)
{
    static const uint32_t wide[][2] = {{0x1100, 0x115F}, {0x2E80, 0xA4CF},   {0xAC00, 0xD7A3},
                                       {0xF900, 0xFAFF}, {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},
                                       {0xFFE0, 0xFFE6}, {0x1F300, 0x1FAFF}, {0x20000, 0x3FFFD}};
    if ((c >= 0x300 && c <= 0x36F) || (c >= 0x200B && c <= 0x200F) || c == 0xFEFF || (c >= 0xFE00 && c <= 0xFE0F))
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(wide); i++)
        if (c >= wide[i][0] && c <= wide[i][1])
            return 2;
    return 1;
}

unsigned text_width(const char *text, size_t len)
{
    unsigned width = 0;
    for (size_t i = 0; i < len;) {
        uint32_t c;
        i += decode(text + i, len - i, &c);
        width += columns_of(c);
    }
    return width;
}

/* How many bytes of the text fit. */
static size_t fit(const char *text, size_t len, unsigned columns, unsigned *ret_width)
{
    unsigned width = 0;
    size_t i = 0;
    while (i < len) {
        uint32_t c;
        size_t n = decode(text + i, len - i, &c);
        if (width + columns_of(c) > columns)
            break;
        width += columns_of(c);
        i += n;
    }
    *ret_width = width;
    return i;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_of_number(const char *text, size_t len, size_t i)
{
    return is_digit(text[i]) || ((text[i] == '.' || text[i] == ',') && i + 1 < len && is_digit(text[i + 1]));
}

/* As `fit`, but never cuts within a number: the rest would read as another number. */
static size_t fit_words(const char *text, size_t len, unsigned columns, unsigned *ret_width)
{
    const size_t n = fit(text, len, columns, ret_width);
    size_t cut = n;
    while (cut > 0 && n < len && is_of_number(text, len, n) && is_of_number(text, len, cut - 1))
        cut--;
    *ret_width -= (unsigned)(n - cut);
    return cut;
}

void canvas_clear(struct canvas *v, unsigned columns)
{
    buf_clear(&v->text);
    v->columns = columns;
    v->used = v->lines = 0;
}

unsigned canvas_left(const struct canvas *v)
{
    return v->used + 1 < v->columns ? v->columns - 1 - v->used : 0;
}

static void put_styled(struct canvas *v, const char *style, const char *text, size_t len)
{
    bool styled = v->color && style[0] && len;
    if (styled)
        buf_printf(&v->text, "\033[%sm", style);
    for (size_t i = 0; i < len; i++) /* names come from files: no control character reaches the terminal */
        buf_putc(&v->text, (unsigned char)text[i] < ' ' || text[i] == 127 ? '?' : text[i]);
    if (styled)
        buf_puts(&v->text, "\033[0m");
}

void canvas_put(struct canvas *v, const char *style, const char *text, size_t len)
{
    unsigned width, left = canvas_left(v);
    size_t n = fit(text, len, left, &width);
    if (n < len && left > 0) {
        n = fit_words(text, len, left - 1, &width);
        put_styled(v, style, text, n);
        put_styled(v, style, v->utf8 ? "…" : "~", v->utf8 ? 3 : 1);
        v->used = v->columns; /* nothing fits after a cut */
        return;
    }
    put_styled(v, style, text, n);
    v->used += width;
}

void canvas_printf(struct canvas *v, const char *style, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    CLEANUP(cleanup_free) char *text = xvasprintf(fmt, ap);
    va_end(ap);
    canvas_put(v, style, text, strlen(text));
}

void canvas_time(struct canvas *v, const char *style, uint64_t ms)
{
    char took[32];
    if (ms < 10000)
        snprintf(took, sizeof took, "%u.%u s", (unsigned)(ms / 1000), (unsigned)(ms / 100 % 10));
    else if (ms < 60000)
        snprintf(took, sizeof took, "%u s", (unsigned)(ms / 1000));
    else
        cli_duration(ms, took);
    canvas_printf(v, style, "%s", took);
}

void canvas_field(struct canvas *v, const char *style, const char *text, unsigned width)
{
    unsigned got, left = canvas_left(v);
    size_t len = strlen(text);
    if (width > left)
        width = left;
    size_t n = fit(text, len, width, &got);
    if (n < len && width > 0) {
        n = fit_words(text, len, width - 1, &got);
        put_styled(v, style, text, n);
        put_styled(v, style, v->utf8 ? "…" : "~", v->utf8 ? 3 : 1);
        got++;
    } else {
        put_styled(v, style, text, n);
    }
    for (; got < width; got++)
        buf_putc(&v->text, ' ');
    v->used += width;
}

void canvas_end_line(struct canvas *v)
{
    if (v->lines == v->cap) {
        v->cap = v->cap ? 2 * v->cap : 32;
        v->widths = xreallocarray(v->widths, v->cap, sizeof *v->widths);
    }
    v->widths[v->lines++] = v->used < v->columns ? v->used : v->columns;
    v->used = 0;
    buf_putc(&v->text, '\n');
}

/* The rows that it takes: when a terminal becomes narrower, it wraps the lines. */
static unsigned rows_shown(const struct canvas *shown)
{
    unsigned columns, rows, sum = 0;
    term_size(&columns, &rows);
    for (unsigned i = 0; i < shown->lines; i++)
        sum += shown->widths[i] > columns ? (shown->widths[i] + columns - 1) / columns : 1;
    return sum < rows ? sum : rows - 1;
}

void canvas_show(struct canvas *now, struct canvas *shown, struct buf *above)
{
    struct buf b = {0};
    unsigned up = rows_shown(shown);
    bool same = now->text.len == shown->text.len && now->lines == shown->lines &&
                (now->text.len == 0 || memcmp(now->text.data, shown->text.data, now->text.len) == 0);
    if (same && above->len == 0)
        return;
    buf_puts(&b, "\033[?2026h");
    if (up)
        buf_printf(&b, "\033[%uA", up);
    buf_putc(&b, '\r');
    if (above->len || up != shown->lines) {
        buf_puts(&b, "\033[J");
        buf_append(&b, above->data, above->len);
    }
    for (size_t at = 0; at < now->text.len;) {
        const char *line = now->text.data + at;
        size_t len = (size_t)((const char *)memchr(line, '\n', now->text.len - at) - line);
        buf_append(&b, line, len);
        buf_puts(&b, "\033[K\n");
        at += len + 1;
    }
    buf_puts(&b, "\033[J\033[?2026l");
    write_all(2, b.data, b.len);
    buf_free(&b);
    buf_clear(above);
    struct canvas old = *shown;
    *shown = *now;
    *now = old;
}

void canvas_free(struct canvas *v)
{
    buf_free(&v->text);
    free(v->widths);
    *v = (struct canvas){0};
}
