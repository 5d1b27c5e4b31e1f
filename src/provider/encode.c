/* Encodes values for addresses, forms and headers. */
#include "internal.h"

#include <string.h>

void encode_percent(struct buf *out, const char *text, size_t len)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";
    for (size_t i = 0; i < len; i++)
        if (text[i] && strchr(plain, text[i]))
            buf_putc(out, text[i]);
        else
            buf_printf(out, "%%%02X", (unsigned)(unsigned char)text[i]);
}

bool text_is_utf8(const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t step = utf8_length((const unsigned char *)text + i, len - i);
        if (!step)
            return false;
        i += step;
    }
    return true;
}

bool node_is_utf8(const struct doc_node *node)
{
    bool good = node->type != DOC_STRING || text_is_utf8(node->text, node->text_len);
    for (size_t i = 0; i < node->count && good; i++)
        good = node->type == DOC_ARRAY ? node_is_utf8(node->items[i])
                                       : text_is_utf8(node->members[i].key, node->members[i].key_len) &&
                                             node_is_utf8(node->members[i].value);
    return good;
}

/* In a form a space is "+": vendors' own clients send that, and moto's server verifies signatures only of that. */
static void put_form_text(struct buf *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] == ' ')
            buf_putc(out, '+');
        else
            encode_percent(out, text + i, 1);
}

static void put_pair(struct buf *out, const char *name, size_t name_len, const char *value, size_t len)
{
    if (out->len)
        buf_putc(out, '&');
    put_form_text(out, name, name_len);
    buf_putc(out, '=');
    put_form_text(out, value, len);
}

static void put_flat(struct buf *name, const struct doc_node *node, struct buf *out)
{
    size_t len = name->len;
    for (size_t i = 0; i < node->count; i++) {
        if (node->type == DOC_ARRAY)
            buf_printf(name, "%s%zu", len ? "." : "", i + 1);
        else
            buf_printf(name, "%s%s", len ? "." : "", node->members[i].key);
        put_flat(name, node->type == DOC_ARRAY ? node->items[i] : node->members[i].value, out);
        name->len = len;
        name->data[len] = 0;
    }
    if (node->type != DOC_ARRAY && node->type != DOC_OBJECT)
        put_pair(out, name->data, name->len, node->text, node->text_len);
}

int encode_form(const struct doc_node *object, struct buf *out, struct error *err)
{
    struct buf name = {0};
    buf_puts(&name, "");
    put_flat(&name, object, out);
    buf_free(&name);
    return out->len > BODY_MAX ? error_set(err, ERROR_SPEC, "the form is larger than %u bytes", BODY_MAX) : 0;
}

int encode_query(const struct doc_node *object, struct buf *out, struct error *err)
{
    for (size_t i = 0; i < object->count; i++) {
        const struct doc_member *m = &object->members[i];
        struct buf json = {0};
        if (m->value->type == DOC_ARRAY || m->value->type == DOC_OBJECT) {
            if (!node_is_utf8(m->value))
                return error_set(err, ERROR_SPEC, "a value of \"%s\" is not UTF-8", m->key);
            doc_to_json(m->value, DOC_JSON_PLAIN, &json);
            put_pair(out, m->key, m->key_len, json.data, json.len);
        } else {
            put_pair(out, m->key, m->key_len, m->value->text, m->value->text_len);
        }
        buf_free(&json);
    }
    return 0;
}

void base64_append(struct buf *out, const void *data, size_t len, bool url)
{
    const char *digits = url ? "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
                             : "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *in = data;
    for (size_t i = 0; i < len; i += 3) {
        uint32_t three = (uint32_t)in[i] << 16;
        three |= i + 1 < len ? (uint32_t)in[i + 1] << 8 : 0;
        three |= i + 2 < len ? in[i + 2] : 0;
        size_t count = len - i >= 3 ? 4 : len - i + 1;
        for (size_t k = 0; k < 4; k++)
            if (k < count)
                buf_putc(out, digits[three >> (18 - 6 * k) & 63]);
            else if (!url)
                buf_putc(out, '=');
    }
}
