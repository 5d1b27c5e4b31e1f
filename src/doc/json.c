/* The JSON reader: RFC 8259 to the letter, with places. Common habits from other formats (comments, trailing commas,
 * single quotes) are named. */
#include "internal.h"

#include <string.h>

struct json {
    struct loader *loader;
    const char *p, *end;
    uint32_t line, column;
    size_t depth;
};

static struct doc_node *read_value(struct json *j);

static struct place place_here(const struct json *j)
{
    return (struct place){&j->loader->doc->source, j->line, j->column, j->line, j->column + 1};
}

static void advance(struct json *j, size_t n)
{
    for (; n > 0; n--, j->p++) {
        if (*j->p == '\n') {
            j->line++;
            j->column = 1;
        } else if (((unsigned char)*j->p & 0xc0) != 0x80) {
            j->column++;
        }
    }
}

static void skip_blanks(struct json *j)
{
    while (j->p < j->end && (*j->p == ' ' || *j->p == '\t' || *j->p == '\n' || *j->p == '\r'))
        advance(j, 1);
}

static bool at(const struct json *j, char c)
{
    return j->p < j->end && *j->p == c;
}

static struct diagnostic *fault(struct json *j, const char *expected)
{
    struct place place = place_here(j);
    struct diagnostics *d = j->loader->diagnostics;
    struct diagnostic *item;
    if (j->p >= j->end) {
        item = diagnostics_add(d, SEVERITY_ERROR, place, "the document ends too early");
    } else if (*j->p == '#' || (*j->p == '/' && j->p + 1 < j->end && (j->p[1] == '/' || j->p[1] == '*'))) {
        item = diagnostics_add(d, SEVERITY_ERROR, place, "JSON has no comments");
    } else if (*j->p == '\'') {
        item = diagnostics_add(d, SEVERITY_ERROR, place, "JSON strings need double quotes");
    } else {
        uint32_t c;
        size_t n = doc_utf8(j->p, (size_t)(j->end - j->p), &c);
        bool shown = n > 1 || (*j->p > ' ' && *j->p < 0x7f);
        item = shown ? diagnostics_add(d, SEVERITY_ERROR, place, "unexpected \"%.*s\"", (int)n, j->p)
                     : diagnostics_add(d, SEVERITY_ERROR, place, "unexpected character U+%04X", (unsigned char)*j->p);
    }
    diagnostic_expected(item, "%s", expected);
    return item;
}

/* ---- strings ---- */

static bool hex4(struct json *j, uint32_t *ret)
{
    uint32_t value = 0;
    for (size_t i = 0; i < 4; i++) {
        char c = (size_t)(j->end - j->p) > i ? j->p[i] : ' ';
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A') + 10
                                                : 16;
        if (digit == 16) {
            fault(j, "four hexadecimal digits after \\u");
            return false;
        }
        value = value << 4 | digit;
    }
    advance(j, 4);
    *ret = value;
    return true;
}

static void put_utf8(struct buf *out, uint32_t c)
{
    if (c < 0x80) {
        buf_putc(out, (char)c);
        return;
    }
    if (c >= 0x10000) {
        buf_putc(out, (char)(0xf0 | c >> 18));
        buf_putc(out, (char)(0x80 | (c >> 12 & 0x3f)));
    } else if (c >= 0x800) {
        buf_putc(out, (char)(0xe0 | c >> 12));
    }
    if (c >= 0x800)
        buf_putc(out, (char)(0x80 | (c >> 6 & 0x3f)));
    else
        buf_putc(out, (char)(0xc0 | c >> 6));
    buf_putc(out, (char)(0x80 | (c & 0x3f)));
}

/* Reads an escape after its backslash. */
static bool read_escape(struct json *j, struct buf *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    struct place place = place_here(j);
    const char *found = j->p < j->end && *j->p ? strchr(from, *j->p) : NULL;
    if (found) {
        buf_putc(out, to[found - from]);
        advance(j, 1);
        return true;
    }
    if (!at(j, 'u')) {
        fault(j, "one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX");
        return false;
    }
    uint32_t c, low = 0;
    advance(j, 1);
    if (!hex4(j, &c))
        return false;
    if (c >= 0xd800 && c < 0xdc00 && j->end - j->p > 6 && j->p[0] == '\\' && j->p[1] == 'u') {
        advance(j, 2);
        if (!hex4(j, &low))
            return false;
    }
    if (low >= 0xdc00 && low < 0xe000)
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    if ((c >= 0xd800 && c < 0xe000) || (low && c < 0x10000)) {
        diagnostics_add(j->loader->diagnostics, SEVERITY_ERROR, place, "half a surrogate pair is not a character");
        return false;
    }
    put_utf8(out, c);
    return true;
}

/* A string at its opening quote; the text lies in the arena. */
static const char *read_text(struct json *j, size_t *ret_len, struct place *ret_place)
{
    CLEANUP(buf_free) struct buf out = {0};
    struct place place = place_here(j);
    advance(j, 1);
    while (!at(j, '"')) {
        if (j->p >= j->end || (unsigned char)*j->p < 0x20) {
            struct diagnostic *item =
                diagnostics_add(j->loader->diagnostics, SEVERITY_ERROR, place, "the string is not closed on its line");
            diagnostic_hint(item, "write \\n for a line break and \\t for a tab");
            return NULL;
        }
        if (*j->p == '\\') {
            advance(j, 1);
            if (!read_escape(j, &out))
                return NULL;
            continue;
        }
        size_t n = 1;
        while (j->p + n < j->end && j->p[n] != '"' && j->p[n] != '\\' && (unsigned char)j->p[n] >= 0x20)
            n++;
        buf_append(&out, j->p, n);
        advance(j, n);
    }
    advance(j, 1);
    place.end_line = j->line;
    place.end_column = j->column;
    *ret_place = place;
    *ret_len = out.len;
    return out.len > 0 ? arena_strndup(j->loader->arena, out.data, out.len) : "";
}

/* ---- values ---- */

static struct doc_node *read_word(struct json *j)
{
    static const char *const words[] = {"null", "true", "false"};
    struct place place = place_here(j);
    size_t n = 0;
    while (j->p + n < j->end && j->p[n] && !strchr(" \t\r\n,:[]{}\"", j->p[n]))
        n++;
    bool known = doc_is_json_number(j->p, n);
    for (size_t i = 0; !known && i < ARRAY_LEN(words); i++)
        known = strlen(words[i]) == n && memcmp(words[i], j->p, n) == 0;
    if (!known) {
        bool comment = n > 0 && (*j->p == '#' || *j->p == '/');
        bool number = n > 0 && !comment && strchr("+-.0123456789", *j->p);
        struct diagnostic *item = fault(j, number ? "a number such as 12, -0.5 or 1e3" : "a value");
        if (item && !comment && n > 0 && !number && *j->p != '\'')
            diagnostic_hint(item, "a string needs double quotes; the other words are true, false and null");
        return NULL;
    }
    const char *text = arena_strndup(j->loader->arena, j->p, n);
    advance(j, n);
    place.end_column = j->column;
    struct doc_node *node = doc_loader_node(j->loader, DOC_NULL, place);
    if (node) {
        doc_resolve_plain(node, text, n);
        node->expanded = 1;
    }
    return node;
}

static bool enter(struct json *j)
{
    if (++j->depth <= DOC_MAX_DEPTH)
        return true;
    diagnostics_add(j->loader->diagnostics, SEVERITY_ERROR, place_here(j), "values are nested deeper than %d levels",
                    DOC_MAX_DEPTH);
    return false;
}

static void leave(struct json *j, struct doc_node *node)
{
    advance(j, 1);
    node->place.end_line = j->line;
    node->place.end_column = j->column;
    j->depth--;
}

/* After an item: true with *ret_more, or false with a fault. */
static bool read_separator(struct json *j, char closing, bool *ret_more)
{
    skip_blanks(j);
    *ret_more = at(j, ',');
    if (at(j, closing))
        return true;
    if (!*ret_more) {
        fault(j, closing == ']' ? "\",\" or \"]\"" : "\",\" or \"}\"");
        return false;
    }
    struct place comma = place_here(j);
    advance(j, 1);
    skip_blanks(j);
    if (!at(j, closing))
        return true;
    diagnostics_add(j->loader->diagnostics, SEVERITY_ERROR, comma, "JSON has no comma after the last item");
    return false;
}

static struct doc_node *read_array(struct json *j)
{
    struct doc_node *node = doc_loader_node(j->loader, DOC_ARRAY, place_here(j));
    if (!node || !enter(j))
        return NULL;
    advance(j, 1);
    skip_blanks(j);
    node->expanded = 1;
    for (bool more = !at(j, ']'); more;) {
        struct doc_node *item = read_value(j);
        if (!item || !read_separator(j, ']', &more))
            return NULL;
        node->expanded += item->expanded;
        doc_append(j->loader->arena, node, item);
    }
    leave(j, node);
    return node;
}

static bool read_member(struct json *j, struct doc_node *object)
{
    size_t len;
    struct place place;
    if (!at(j, '"')) {
        fault(j, "a key in double quotes");
        return false;
    }
    const char *key = read_text(j, &len, &place);
    if (!key)
        return false;
    skip_blanks(j);
    if (!at(j, ':')) {
        fault(j, "\":\" after the key");
        return false;
    }
    advance(j, 1);
    struct doc_node *value = read_value(j);
    if (!value)
        return false;
    const struct doc_member *first = doc_get_member(object, key, len);
    if (first) {
        diagnostics_add(j->loader->diagnostics, SEVERITY_ERROR, place, "key \"%s\" is given twice", key);
        diagnostics_add(j->loader->diagnostics, SEVERITY_NOTE, first->key_place, "it was given here first");
        return true;
    }
    struct doc_member *m = doc_push_member(j->loader->arena, object, key, len);
    m->key_place = place;
    m->value = value;
    object->expanded += value->expanded;
    return true;
}

static struct doc_node *read_object(struct json *j)
{
    struct doc_node *node = doc_loader_node(j->loader, DOC_OBJECT, place_here(j));
    if (!node || !enter(j))
        return NULL;
    advance(j, 1);
    skip_blanks(j);
    node->expanded = 1;
    for (bool more = !at(j, '}'); more;)
        if (!read_member(j, node) || !read_separator(j, '}', &more))
            return NULL;
    leave(j, node);
    return node;
}

static struct doc_node *read_value(struct json *j)
{
    skip_blanks(j);
    if (at(j, '{'))
        return read_object(j);
    if (at(j, '['))
        return read_array(j);
    if (!at(j, '"'))
        return read_word(j);
    struct place place;
    size_t len;
    const char *text = read_text(j, &len, &place);
    struct doc_node *node = text ? doc_loader_node(j->loader, DOC_STRING, place) : NULL;
    if (!node)
        return NULL;
    node->text = text;
    node->text_len = len;
    node->quoted = true;
    node->expanded = 1;
    return node;
}

struct doc_node *doc_read_json(struct loader *loader)
{
    const struct source *source = &loader->doc->source;
    struct json j = {.loader = loader, .p = source->text, .end = source->text + source->len, .line = 1, .column = 1};
    struct doc_node *root = read_value(&j);
    skip_blanks(&j);
    if (root && j.p < j.end) {
        fault(&j, "the end of the document");
        return NULL;
    }
    return root;
}
