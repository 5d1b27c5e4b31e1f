/* CSV as RFC 4180 has it, a record at a time. */
#include "internal.h"

#include <string.h>

void csv_begin(struct csv *csv, const struct source *source)
{
    bool mark = source->len >= 3 && memcmp(source->text, "\xef\xbb\xbf", 3) == 0;
    *csv = (struct csv){source, mark ? 3 : 0, 1, 1};
}

static int peek(const struct csv *csv)
{
    return csv->at < csv->source->len ? (unsigned char)csv->source->text[csv->at] : -1;
}

/* Whether the current position is a line's end, or the text's. */
static bool at_end(const struct csv *csv)
{
    int c = peek(csv);
    size_t left = csv->source->len - csv->at;
    return c == -1 || c == '\n' || (c == '\r' && left > 1 && csv->source->text[csv->at + 1] == '\n');
}

static void step(struct csv *csv)
{
    int c = peek(csv);
    csv->at++;
    if (c == '\n') {
        csv->line++;
        csv->column = 1;
    } else if ((c & 0xc0) != 0x80) {
        csv->column++;
    }
}

static void skip_line(struct csv *csv)
{
    while (peek(csv) >= 0 && peek(csv) != '\n')
        step(csv);
    if (peek(csv) == '\n')
        step(csv);
}

/* The place from there to the current position. */
static struct place place_from(const struct csv *csv, const struct csv *begin)
{
    uint32_t end = csv->line == begin->line && csv->column > begin->column ? csv->column : begin->column + 1;
    return (struct place){csv->source, begin->line, begin->column, begin->line, end};
}

static bool text_is_sound(const char *text, size_t len)
{
    if (strlen(text) != len || !str_is_printable(text))
        return false;
    for (size_t at = 0, n; at < len; at += n)
        if (!(n = utf8_length((const unsigned char *)text + at, len - at)))
            return false;
    return true;
}

/* Appends the field's bytes; NULL, or what is wrong with it. The rest of a field that is too long is only counted. */
static const char *field_bytes(struct csv *csv, char *text, size_t *len)
{
    bool quoted = peek(csv) == '"';
    if (quoted)
        step(csv);
    for (;;) {
        int c = peek(csv);
        if (quoted && c == -1)
            return "the quote that begins here is not closed";
        if (quoted && c == '"') {
            step(csv);
            if (peek(csv) != '"')
                return at_end(csv) || peek(csv) == ',' ? NULL : "there is text after the closing quote";
        } else if (!quoted && (c == ',' || at_end(csv))) {
            return NULL;
        } else if (!quoted && c == '"') {
            return "there is a quote in a field that does not begin with one";
        }
        if (*len < CATALOG_FIELD_MAX)
            text[*len] = (char)peek(csv);
        (*len)++;
        step(csv);
    }
}

static bool next_field(struct csv *csv, struct arena *arena, enum severity severity, struct csv_field *ret,
                       struct diagnostics *d)
{
    char text[CATALOG_FIELD_MAX + 1] = "";
    size_t len = 0;
    struct csv begin = *csv;
    const char *wrong = field_bytes(csv, text, &len);
    struct place place = place_from(csv, &begin);
    if (wrong) {
        struct diagnostic *item = diagnostics_add(d, severity, place, "%s", wrong);
        diagnostic_hint(item,
                        "a field with quotes, commas or line ends needs quotes around it, and each quote in it twice");
        return false;
    }
    if (len > CATALOG_FIELD_MAX) {
        place.end_column = place.column + 1;
        diagnostics_add(d, severity, place, "a field of %zu bytes; it has at most %d", len, CATALOG_FIELD_MAX);
        return false;
    }
    if (!text_is_sound(text, len)) {
        diagnostics_add(d, severity, place, "a field with control characters, or text that is not UTF-8");
        return false;
    }
    *ret = (struct csv_field){arena_strndup(arena, text, len), place};
    return true;
}

enum csv_result csv_next(struct csv *csv, struct arena *arena, enum severity severity, struct csv_record *ret,
                         struct diagnostics *d)
{
    while (peek(csv) >= 0 && at_end(csv))
        skip_line(csv);
    if (peek(csv) < 0)
        return CSV_END;
    struct csv begin = *csv;
    for (ret->count = 0;; step(csv)) { /* over the comma */
        if (ret->count == CSV_FIELDS_MAX) {
            diagnostics_add(d, severity, place_from(csv, &begin), "a line of more than %d fields", CSV_FIELDS_MAX);
            break;
        }
        if (!next_field(csv, arena, severity, &ret->fields[ret->count], d))
            break;
        ret->count++;
        if (peek(csv) == ',')
            continue;
        skip_line(csv);
        ret->place = ret->fields[0].place;
        return CSV_RECORD;
    }
    skip_line(csv);
    return CSV_FAULT;
}

void catalog_csv_field(struct buf *b, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        buf_puts(b, text);
        return;
    }
    buf_putc(b, '"');
    for (; *text; text++) {
        if (*text == '"')
            buf_putc(b, '"');
        buf_putc(b, *text);
    }
    buf_putc(b, '"');
}
