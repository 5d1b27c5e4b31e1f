/*
 * Writing trees: JSON for machines and digests, block YAML for people. A YAML string stays plain only
 * where every common reader, YAML 1.1 ones included, reads the same string back.
 */
#include "internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { INDENT = 2, SIMPLE_KEY_MAX = 128 };

/* ---- numbers and sorting ---- */

static void put_number(const struct doc_node *node, bool canonical, struct buf *out)
{
    if (!canonical && doc_is_json_number(node->text, node->text_len)) {
        buf_append(out, node->text, node->text_len);
        return;
    }
    int64_t whole;
    if (doc_is_integer(node, &whole) && (canonical || node->type == DOC_INT)) {
        buf_printf(out, "%lld", (long long)whole);
    } else if (node->big && strspn(node->text, "+-0123456789") == node->text_len) {
        const char *digits = node->text + strspn(node->text, "+-");
        digits += strspn(digits, "0");
        buf_printf(out, "%s%s", *node->text == '-' ? "-" : "", digits);
    } else if (!isfinite(node->number)) {
        buf_putc(out, '"');
        doc_format_float(node->number, out);
        buf_putc(out, '"');
    } else {
        doc_format_float(node->number, out);
    }
}

static int compare_members(const void *left, const void *right)
{
    const struct doc_member *a = *(const struct doc_member *const *)left, *b = *(const struct doc_member *const *)right;
    int order = memcmp(a->key, b->key, a->key_len < b->key_len ? a->key_len : b->key_len);
    return order != 0 ? order : (a->key_len > b->key_len) - (a->key_len < b->key_len);
}

/* The members in the order of writing; the caller frees the list. */
static const struct doc_member **ordered(const struct doc_node *object, bool sort)
{
    const struct doc_member **list = xcalloc(object->count, sizeof(const struct doc_member *));
    for (size_t i = 0; i < object->count; i++)
        list[i] = &object->members[i];
    if (sort)
        qsort(list, object->count, sizeof(const struct doc_member *), compare_members);
    return list;
}

/* ---- JSON ---- */

static void put_line(struct buf *out, bool pretty, size_t level)
{
    if (!pretty)
        return;
    buf_putc(out, '\n');
    for (size_t i = 0; i < level * INDENT; i++)
        buf_putc(out, ' ');
}

static void put_json(const struct doc_node *node, enum doc_json style, size_t level, struct buf *out)
{
    bool pretty = style == DOC_JSON_PRETTY;
    switch (node->type) {
    case DOC_NULL:
        buf_puts(out, "null");
        return;
    case DOC_BOOL:
        buf_puts(out, node->boolean ? "true" : "false");
        return;
    case DOC_INT:
    case DOC_FLOAT:
        put_number(node, style == DOC_JSON_CANONICAL, out);
        return;
    case DOC_STRING:
        buf_json_string(out, node->text, node->text_len);
        return;
    case DOC_ARRAY:
        buf_putc(out, '[');
        for (size_t i = 0; i < node->count; i++) {
            if (i > 0)
                buf_putc(out, ',');
            put_line(out, pretty, level + 1);
            put_json(node->items[i], style, level + 1, out);
        }
        if (node->count > 0)
            put_line(out, pretty, level);
        buf_putc(out, ']');
        return;
    case DOC_OBJECT: {
        const struct doc_member **members = ordered(node, style == DOC_JSON_CANONICAL);
        buf_putc(out, '{');
        for (size_t i = 0; i < node->count; i++) {
            if (i > 0)
                buf_putc(out, ',');
            put_line(out, pretty, level + 1);
            buf_json_string(out, members[i]->key, members[i]->key_len);
            buf_puts(out, pretty ? ": " : ":");
            put_json(members[i]->value, style, level + 1, out);
        }
        if (node->count > 0)
            put_line(out, pretty, level);
        buf_putc(out, '}');
        free(members);
        return;
    }
    }
}

void doc_to_json(const struct doc_node *node, enum doc_json style, struct buf *ret)
{
    put_json(node, style, 0, ret);
}

/* ---- YAML ---- */

/* Whether a character may stand in a plain scalar or a literal block as it is. */
static bool is_printable(uint32_t c)
{
    return (c >= 0x20 && c < 0x7f) ||
           (c >= 0xa0 && c != 0x2028 && c != 0x2029 && c != 0xfeff && c != 0xfffe && c != 0xffff);
}

static bool all_printable(const char *text, size_t len, bool newlines)
{
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t c = 0;
        n = doc_utf8(text + i, len - i, &c);
        if (n == 0 || !(is_printable(c) || (newlines && (c == '\n' || c == '\t'))))
            return false;
    }
    return true;
}

/* Words that YAML 1.1 readers do not take for a string. */
static bool is_old_word(const char *text)
{
    static const char *const words[] = {"yes", "no", "on", "off", NULL};
    for (size_t i = 0; words[i]; i++)
        if (strlen(text) == strlen(words[i]) && strncasecmp(text, words[i], strlen(words[i])) == 0)
            return true;
    return false;
}

static bool stays_plain(const char *text, size_t len)
{
    struct doc_node probe = {0};
    doc_resolve_plain(&probe, text, len);
    if (probe.type != DOC_STRING || strlen(text) != len || is_old_word(text) || strcmp(text, "<<") == 0)
        return false;
    if (strchr("-?:,[]{}#&*!|>'\"%@`=. +~", *text) || (*text >= '0' && *text <= '9' && strpbrk(text, ":_")))
        return *text == '.' && len > 1 && (text[1] == '/' || (text[1] == '.' && text[2] == '/')) &&
               all_printable(text, len, false) && text[len - 1] != ' ' && text[len - 1] != ':' && !strstr(text, ": ") &&
               !strstr(text, " #");
    return text[len - 1] != ' ' && text[len - 1] != ':' && !strstr(text, ": ") && !strstr(text, " #") &&
           all_printable(text, len, false);
}

static void put_quoted(const char *text, size_t len, struct buf *out)
{
    buf_putc(out, '"');
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t c = 0xfffd;
        n = doc_utf8(text + i, len - i, &c);
        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", (char)c);
        else if (c == '\n')
            buf_puts(out, "\\n");
        else if (c == '\t')
            buf_puts(out, "\\t");
        else if (n == 0)
            buf_puts(out, "\\ufffd");
        else if (!is_printable(c))
            buf_printf(out, "\\u%04x", (unsigned)c);
        else
            buf_append(out, text + i, n);
        n = n ? n : 1;
    }
    buf_putc(out, '"');
}

static void put_indent(struct buf *out, size_t level)
{
    for (size_t i = 0; i < level * INDENT; i++)
        buf_putc(out, ' ');
}

/* A literal block (| or |-) suits text of several lines that ends in at most one newline. */
static bool suits_block(const char *text, size_t len)
{
    bool lines = memchr(text, '\n', len) && *text != '\n' && *text != ' ' && *text != '\t';
    bool ends = len > 1 && !(text[len - 1] == '\n' && text[len - 2] == '\n');
    return lines && ends && all_printable(text, len, true);
}

static void put_block(const char *text, size_t len, size_t level, struct buf *out)
{
    buf_puts(out, text[len - 1] == '\n' ? "|\n" : "|-\n");
    for (size_t i = 0; i < len;) {
        const char *newline = memchr(text + i, '\n', len - i);
        size_t n = newline ? (size_t)(newline - text) - i : len - i;
        if (n > 0)
            put_indent(out, level);
        buf_append(out, text + i, n);
        buf_putc(out, '\n');
        i += n + 1;
    }
}

/* A scalar after "key: " or "- ", with the newline. */
static void put_scalar(const struct doc_node *node, size_t level, struct buf *out)
{
    struct doc_node probe = {0};
    if (node->type == DOC_STRING) {
        if (suits_block(node->text, node->text_len)) {
            put_block(node->text, node->text_len, level, out);
            return;
        }
        if (stays_plain(node->text, node->text_len))
            buf_append(out, node->text, node->text_len);
        else
            put_quoted(node->text, node->text_len, out);
    } else if (node->type == DOC_NULL) {
        buf_puts(out, "null");
    } else {
        doc_resolve_plain(&probe, node->text, node->text_len);
        if (probe.type == node->type)
            buf_append(out, node->text, node->text_len);
        else
            doc_format_float(node->number, out);
    }
    buf_putc(out, '\n');
}

static bool is_inline(const struct doc_node *node)
{
    return node->count == 0 || (node->type != DOC_ARRAY && node->type != DOC_OBJECT);
}

static void put_inline(const struct doc_node *node, size_t level, struct buf *out)
{
    if (node->type == DOC_ARRAY || node->type == DOC_OBJECT)
        buf_puts(out, node->type == DOC_ARRAY ? "[]\n" : "{}\n");
    else
        put_scalar(node, level, out);
}

static void put_key(const struct doc_member *m, struct buf *out)
{
    if (m->key_len <= SIMPLE_KEY_MAX && stays_plain(m->key, m->key_len)) {
        buf_append(out, m->key, m->key_len);
    } else if (m->key_len <= SIMPLE_KEY_MAX) {
        put_quoted(m->key, m->key_len, out);
    } else { /* readers expect the ":" of a simple key within 1024 characters */
        buf_puts(out, "? ");
        put_quoted(m->key, m->key_len, out);
        buf_putc(out, '\n');
    }
}

/* A collection that is not empty. `hanging`: the indentation of its first line is written already. */
static void put_collection(const struct doc_node *node, size_t level, bool hanging, struct buf *out)
{
    for (size_t i = 0; i < node->count; i++) {
        bool object = node->type == DOC_OBJECT;
        const struct doc_node *value = object ? node->members[i].value : node->items[i];
        if (i > 0 || !hanging)
            put_indent(out, level);
        if (object) {
            put_key(&node->members[i], out);
            if (node->members[i].key_len > SIMPLE_KEY_MAX)
                put_indent(out, level);
            buf_putc(out, ':');
        } else {
            buf_putc(out, '-');
        }
        if (is_inline(value)) {
            buf_putc(out, ' ');
            put_inline(value, level + 1, out);
        } else {
            buf_putc(out, object ? '\n' : ' ');
            put_collection(value, level + 1, !object, out);
        }
    }
}

void doc_to_yaml(const struct doc_node *node, struct buf *ret)
{
    if (is_inline(node))
        put_inline(node, 1, ret);
    else
        put_collection(node, 0, false, ret);
}
