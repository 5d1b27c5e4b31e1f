/*
 * Diagnostics: collecting the faults of a user's document, and writing them as text with the source line and carets, or
 * as JSON. The text may come from a hostile file, so control characters never reach the terminal.
 */
#include "rhrun/base.h"

#include <stdlib.h>
#include <string.h>

enum { SHOWN_COLUMNS = 100, CONTEXT_COLUMNS = 40 };

static bool same_place(const struct place *a, const struct place *b)
{
    return a->source == b->source && a->line == b->line && a->column == b->column;
}

static bool same_item(const struct diagnostic *item, enum severity severity, const struct place *place,
                      const char *message)
{
    return item->severity == severity && same_place(&item->place, place) && strcmp(item->message, message) == 0;
}

/* Whether there is an equal item already: for an error anywhere, for a note after the same item. */
static bool is_repeated(const struct diagnostics *d, enum severity severity, const struct place *place,
                        const char *message)
{
    for (size_t i = d->count; i-- > 0;) {
        if (same_item(&d->items[i], severity, place, message))
            return true;
        if (severity == SEVERITY_NOTE && d->items[i].severity != SEVERITY_NOTE)
            return false;
    }
    return false;
}

static bool is_hidden(const struct place *place)
{
    return place->source && place->source->hidden;
}

struct diagnostic *diagnostics_add(struct diagnostics *d, enum severity severity, struct place place, const char *fmt,
                                   ...)
{
    va_list ap;
    va_start(ap, fmt);
    struct diagnostic *item = diagnostics_addv(d, severity, place, fmt, ap);
    va_end(ap);
    return item;
}

struct diagnostic *diagnostics_addv(struct diagnostics *d, enum severity severity, struct place place, const char *fmt,
                                    va_list ap)
{
    if (severity == SEVERITY_NOTE && d->repeated)
        return NULL;
    if (d->count >= DIAGNOSTICS_MAX) {
        if (severity != SEVERITY_NOTE)
            d->dropped++;
        if (severity == SEVERITY_ERROR)
            d->errors++;
        return NULL;
    }
    bool told = !is_hidden(&place) || !strchr(fmt, '%');
    if (is_hidden(&place)) /* columns would reveal the lengths of its words */
        place = (struct place){.source = place.source, .line = place.line};
    char *message = told ? xvasprintf(fmt, ap) : xstrdup(place.source->hidden);
    bool repeated = is_repeated(d, severity, &place, message);
    if (severity != SEVERITY_NOTE)
        d->repeated = repeated;
    if (repeated) {
        free(message);
        return NULL;
    }
    if (d->count == d->cap) {
        d->cap = d->cap ? d->cap * 2 : 8;
        d->items = xreallocarray(d->items, d->cap, sizeof *d->items);
    }
    struct diagnostic *item = &d->items[d->count++];
    *item = (struct diagnostic){.severity = severity, .place = place, .message = message};
    if (!told && severity != SEVERITY_NOTE)
        item->hint = xstrdup("look at the line yourself: no text of this file is shown");
    if (severity == SEVERITY_ERROR)
        d->errors++;
    return item;
}

FORMAT(2, 0) static void replace_text(char **text, const char *fmt, va_list ap)
{
    free(*text);
    *text = xvasprintf(fmt, ap);
}

void diagnostic_expected(struct diagnostic *item, const char *fmt, ...)
{
    if (!item || (is_hidden(&item->place) && strchr(fmt, '%')))
        return;
    va_list ap;
    va_start(ap, fmt);
    replace_text(&item->expected, fmt, ap);
    va_end(ap);
}

void diagnostic_hint(struct diagnostic *item, const char *fmt, ...)
{
    if (!item || (is_hidden(&item->place) && strchr(fmt, '%')))
        return;
    va_list ap;
    va_start(ap, fmt);
    replace_text(&item->hint, fmt, ap);
    va_end(ap);
}

void diagnostic_path(struct diagnostic *item, const char *pointer)
{
    if (!item)
        return;
    free(item->path);
    item->path = pointer && !is_hidden(&item->place) ? xstrdup(pointer) : NULL;
}

void diagnostics_free(struct diagnostics *d)
{
    for (size_t i = 0; i < d->count; i++) {
        free(d->items[i].message);
        free(d->items[i].expected);
        free(d->items[i].hint);
        free(d->items[i].path);
    }
    free(d->items);
    *d = (struct diagnostics){0};
}

/* ---- order ---- */

struct group { /* an item and its notes; `source` is the rank of its document by first appearance */
    size_t first, count, source;
    const struct place *place;
};

static int group_compare(const void *left, const void *right)
{
    const struct group *a = left, *b = right;
    if (a->source != b->source)
        return a->source < b->source ? -1 : 1;
    if (a->place->line != b->place->line)
        return a->place->line < b->place->line ? -1 : 1;
    if (a->place->column != b->place->column)
        return a->place->column < b->place->column ? -1 : 1;
    return a->first < b->first ? -1 : 1;
}

/* The items' indexes in the order of printing; the caller frees them. */
static size_t *sorted(const struct diagnostics *d)
{
    struct group *groups = xcalloc(d->count, sizeof *groups);
    size_t *order = xcalloc(d->count, sizeof *order);
    size_t n = 0, out = 0;
    for (size_t i = 0; i < d->count; i++) {
        if (n > 0 && d->items[i].severity == SEVERITY_NOTE) {
            groups[n - 1].count++;
            continue;
        }
        struct group *g = &groups[n++];
        *g = (struct group){.first = i, .count = 1, .source = i, .place = &d->items[i].place};
        for (size_t j = 0; j + 1 < n; j++)
            if (groups[j].place->source == g->place->source) {
                g->source = groups[j].source;
                break;
            }
    }
    qsort(groups, n, sizeof *groups, group_compare);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < groups[i].count; j++)
            order[out++] = groups[i].first + j;
    free(groups);
    return order;
}

/* ---- text ---- */

struct style {
    const char *place, *severity[3], *gutter, *caret, *off;
};
static const struct style plain = {"", {"", "", ""}, "", "", ""};
static const struct style coloured = {
    "\033[1m", {"\033[1;31m", "\033[1;35m", "\033[1;36m"}, "\033[34m", "\033[1;31m", "\033[0m"};
static const char *const severity_words[] = {"error", "warning", "note"};

/* The length in bytes of the UTF-8 character at s; a stray byte counts as one character. */
static size_t char_len(const char *s, size_t len)
{
    unsigned char c = (unsigned char)*s;
    size_t n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
    if (n > len)
        return 1;
    for (size_t i = 1; i < n; i++)
        if (((unsigned char)s[i] & 0xc0) != 0x80)
            return 1;
    return n;
}

static void put_char(struct buf *out, const char *s, size_t n)
{
    unsigned char c = (unsigned char)*s;
    bool c1 = n == 2 && c == 0xc2 && (unsigned char)s[1] < 0xa0;
    bool stray = n == 1 && c >= 0x80;
    if (n == 1 && c == '\t')
        buf_putc(out, '\t');
    else if (c < 0x20 || c == 0x7f || c1 || stray)
        buf_putc(out, '?');
    else
        buf_append(out, s, n);
}

static void put_text(struct buf *out, const char *s)
{
    for (size_t len = strlen(s); len > 0;) {
        size_t n = char_len(s, len);
        put_char(out, *s == '\t' || *s == '\n' ? " " : s, n);
        s += n;
        len -= n;
    }
}

struct line {
    const char *text;
    size_t len;
};

static bool find_line(const struct source *source, uint32_t number, struct line *ret)
{
    const char *p = source->text, *end = p ? p + source->len : NULL;
    if (!p)
        return false;
    for (uint32_t n = 1; n < number; n++) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        if (!newline)
            return false;
        p = newline + 1;
    }
    const char *newline = memchr(p, '\n', (size_t)(end - p));
    ret->text = p;
    ret->len = (size_t)((newline ? newline : end) - p);
    if (ret->len > 0 && p[ret->len - 1] == '\r')
        ret->len--;
    return true;
}

static size_t count_chars(const struct line *line)
{
    size_t count = 0;
    for (size_t i = 0; i < line->len; i += char_len(line->text + i, line->len - i))
        count++;
    return count;
}

/* The source line and the carets, both from the same window of columns [from, to). */
static void put_source_line(struct buf *out, const struct place *place, const struct style *style)
{
    struct line line;
    if (!find_line(place->source, place->line, &line))
        return;
    size_t chars = count_chars(&line);
    size_t start = place->column > 0 ? place->column - 1 : 0;
    size_t end = place->end_line > place->line ? chars : place->end_column > 0 ? place->end_column - 1 : 0;
    if (start > chars)
        start = chars;
    if (end > chars)
        end = chars;
    if (end <= start)
        end = start + 1;
    size_t from = 0, to = chars;
    if (chars > SHOWN_COLUMNS) {
        from = start > CONTEXT_COLUMNS ? start - CONTEXT_COLUMNS : 0;
        to = from + SHOWN_COLUMNS < chars ? from + SHOWN_COLUMNS : chars;
    }
    struct buf carets = {0};
    buf_printf(out, "%s%5u |%s ", style->gutter, place->line, style->off);
    if (from > 0) {
        buf_puts(out, "...");
        buf_puts(&carets, "   ");
    }
    size_t column = 0;
    for (size_t i = 0; i < line.len && column < to; column++) {
        size_t n = char_len(line.text + i, line.len - i);
        if (column >= from) {
            put_char(out, line.text + i, n);
            if (column < start)
                buf_putc(&carets, line.text[i] == '\t' ? '\t' : ' ');
        }
        i += n;
    }
    buf_puts(out, to < chars ? "...\n" : "\n");
    buf_printf(out, "%s      |%s ", style->gutter, style->off);
    if (carets.len > 0)
        buf_append(out, carets.data, carets.len);
    buf_free(&carets);
    buf_puts(out, style->caret);
    size_t last = end < to || to < start + 1 ? end : to;
    for (size_t i = start; i < last || i == start; i++)
        buf_putc(out, '^');
    buf_printf(out, "%s\n", style->off);
}

static void put_item(struct buf *out, const struct diagnostic *item, const struct style *style)
{
    const struct place *place = &item->place;
    if (place->source) {
        buf_puts(out, style->place);
        put_text(out, place->source->name);
        if (place->line > 0)
            buf_printf(out, place->column > 0 ? ":%u:%u" : ":%u", place->line, place->column);
        buf_printf(out, ":%s ", style->off);
    }
    buf_printf(out, "%s%s:%s ", style->severity[item->severity], severity_words[item->severity], style->off);
    put_text(out, item->message);
    buf_putc(out, '\n');
    if (place->source && place->line > 0 && !is_hidden(place))
        put_source_line(out, place, style);
    if (item->expected) {
        buf_puts(out, "        expected ");
        put_text(out, item->expected);
        buf_putc(out, '\n');
    }
    if (item->hint) {
        buf_puts(out, "        hint: ");
        put_text(out, item->hint);
        buf_putc(out, '\n');
    }
}

void diagnostics_format(const struct diagnostics *d, bool colour, struct buf *ret_text)
{
    size_t *order = sorted(d);
    for (size_t i = 0; i < d->count; i++)
        put_item(ret_text, &d->items[order[i]], colour ? &coloured : &plain);
    if (d->dropped > 0)
        buf_printf(ret_text, "%zu more faults are not shown\n", d->dropped);
    free(order);
}

/* ---- JSON ---- */

static void put_json_text(struct buf *out, const char *key, const char *value)
{
    buf_printf(out, ",\"%s\":", key);
    if (value)
        buf_json_string(out, value, strlen(value));
    else
        buf_puts(out, "null");
}

static void put_json_number(struct buf *out, const char *key, uint32_t value)
{
    if (value > 0)
        buf_printf(out, ",\"%s\":%u", key, value);
    else
        buf_printf(out, ",\"%s\":null", key);
}

void diagnostics_format_json(const struct diagnostics *d, struct buf *ret_json)
{
    size_t *order = sorted(d);
    buf_putc(ret_json, '[');
    for (size_t i = 0; i < d->count; i++) {
        const struct diagnostic *item = &d->items[order[i]];
        const struct place *place = &item->place;
        bool known = place->source != NULL;
        buf_printf(ret_json, "%s{\"severity\":\"%s\"", i > 0 ? "," : "", severity_words[item->severity]);
        put_json_text(ret_json, "file", known ? place->source->name : NULL);
        put_json_number(ret_json, "line", known ? place->line : 0);
        put_json_number(ret_json, "column", known ? place->column : 0);
        put_json_number(ret_json, "end_line", known ? place->end_line : 0);
        put_json_number(ret_json, "end_column", known ? place->end_column : 0);
        put_json_text(ret_json, "path", item->path);
        put_json_text(ret_json, "message", item->message);
        put_json_text(ret_json, "expected", item->expected);
        put_json_text(ret_json, "hint", item->hint);
        buf_putc(ret_json, '}');
    }
    buf_putc(ret_json, ']');
    free(order);
}
