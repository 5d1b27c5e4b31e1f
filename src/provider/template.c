/*
 * Templates: "$name", "${name}", "${name?}" (left out if absent), "${name|trunc(20)|b64}", "$$" for a dollar. A text
 * that is exactly one input has the input's type; everything else is text. {$when: name, $value: ...} is included only
 * if the input is given. Filters work on bytes, so a value may have any bytes.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static const char *const filter_names[] = {"b64", "gzip", "sha256", "trunc", "label_safe", "json", NULL};

static bool name_char(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (!first && ((c >= '0' && c <= '9') || c == '_'));
}

static int fault_set(char fault[160], const char *text)
{
    snprintf(fault, 160, "%s", text);
    return -1;
}

static const char *read_name(const char *at, const char *end, char *ret, size_t cap)
{
    size_t len = 0;
    while (at + len < end && name_char(at[len], len == 0))
        len++;
    if (len == 0 || len >= cap)
        return NULL;
    memcpy(ret, at, len);
    ret[len] = 0;
    return at + len;
}

/* Reads "(20)" after trunc. */
static const char *read_max(const char *at, const char *end, uint32_t *ret)
{
    uint32_t max = 0;
    const char *digit = at + 1;
    if (at >= end || *at != '(')
        return NULL;
    for (; digit < end && *digit >= '0' && *digit <= '9' && max < 100000; digit++)
        max = max * 10 + (uint32_t)(*digit - '0');
    if (digit == at + 1 || digit >= end || *digit != ')' || max == 0)
        return NULL;
    *ret = max;
    return digit + 1;
}

static const char *read_filter(const char *at, const char *end, struct piece *piece, char fault[160])
{
    char name[32];
    const char *behind = read_name(at, end, name, sizeof name);
    int found = behind ? word_index(filter_names, name) : -1;
    if (found < 0) {
        const char *near = behind ? str_nearest(name, filter_names) : NULL;
        snprintf(fault, 160, "there is no filter \"%.40s\"%s%s", behind ? name : "", near ? "; did you mean " : "",
                 near ? near : "");
        return NULL;
    }
    if (piece->filter_count == ARRAY_LEN(piece->filters)) {
        fault_set(fault, "there are more than 4 filters");
        return NULL;
    }
    piece->filters[piece->filter_count].filter = (enum filter)found;
    if (found == FILTER_TRUNC) {
        behind = read_max(behind, end, &piece->filters[piece->filter_count].max);
        if (!behind)
            fault_set(fault, "trunc takes a number of bytes: trunc(20)");
    }
    piece->filter_count++;
    return behind;
}

static int read_braces(const char **at, const char *end, struct piece *ret, char fault[160])
{
    const char *next = read_name(*at + 2, end, ret->name, sizeof ret->name);
    if (!next)
        return fault_set(fault, "after ${ comes the name of an input, then }");
    if (next < end && *next == '?') {
        ret->optional = true;
        next++;
    }
    while (next < end && *next == '|')
        if (!(next = read_filter(next + 1, end, ret, fault)))
            return -1;
    if (next >= end || *next != '}')
        return fault_set(fault, "${ is not closed by }");
    *at = next + 1;
    return 1;
}

int piece_next(const char **at, const char *end, struct piece *ret, char fault[160])
{
    memset(ret, 0, sizeof *ret);
    if (*at >= end)
        return 0;
    if (**at != '$') {
        const char *dollar = memchr(*at, '$', (size_t)(end - *at));
        ret->text = *at;
        ret->len = (size_t)((dollar ? dollar : end) - *at);
        *at += ret->len;
        return 1;
    }
    if (*at + 1 < end && (*at)[1] == '$') {
        ret->text = *at;
        ret->len = 1;
        *at += 2;
        return 1;
    }
    if (*at + 1 < end && (*at)[1] == '{')
        return read_braces(at, end, ret, fault);
    const char *next = read_name(*at + 1, end, ret->name, sizeof ret->name);
    if (!next)
        return fault_set(fault, "after $ comes the name of an input; a dollar is written $$");
    *at = next;
    return 1;
}

/* ---- inputs ---- */

const struct doc_node *input_find(const struct filling *f, const char *name)
{
    const struct doc_node *value = doc_get(f->ask->inputs, name);
    const struct provider_credentials *c = f->ask->credentials;
    if ((!value || value->type == DOC_NULL) && c && doc_get(c->public_names, name))
        value = doc_get(c->values, name);
    if (!value || value->type == DOC_NULL || (value->type == DOC_STRING && value->text_len == 0))
        return NULL;
    return value;
}

bool input_given(const struct filling *f, const char *name)
{
    const struct doc_node *value = input_find(f, name);
    return value && !(value->type == DOC_BOOL && !value->boolean);
}

static int input_missing(const struct filling *f, const char *name)
{
    return error_set(f->err, ERROR_SPEC, "%s: %s needs \"%s\", which is not given", f->provider->facts.name,
                     provider_operation_name(f->ask->operation), name);
}

/* ---- filters ---- */

static void filter_gzip(struct buf *value)
{
    z_stream z = {0};
    struct buf out = {0};
    if (deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        abort();
    uLong bound = deflateBound(&z, (uLong)value->len);
    buf_reserve(&out, bound + 1);
    z.next_in = (Bytef *)value->data;
    z.avail_in = (uInt)value->len;
    z.next_out = (Bytef *)out.data;
    z.avail_out = (uInt)bound;
    if (deflate(&z, Z_FINISH) != Z_STREAM_END)
        abort();
    size_t len = z.total_out;
    deflateEnd(&z);
    buf_clear(value);
    buf_append(value, out.data, len);
    buf_free(&out);
}

/* At most max bytes, without cutting a character. */
static void filter_trunc(struct buf *value, uint32_t max)
{
    if (value->len <= max)
        return;
    size_t len = max;
    while (len > 0 && ((unsigned char)value->data[len] & 0xc0) == 0x80)
        len--;
    value->len = len;
    value->data[len] = 0;
}

/* [a-z0-9_-], at most 63, a letter or digit at both ends: valid in labels of all providers. */
void filter_label_safe(struct buf *value)
{
    size_t len = 0;
    for (size_t i = 0; i < value->len && len < 63; i++) {
        char c = value->data[i];
        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!plain && c != '_')
            c = '-';
        if (plain || len > 0)
            value->data[len++] = c;
    }
    while (len > 0 && (value->data[len - 1] == '-' || value->data[len - 1] == '_'))
        len--;
    value->len = len;
    if (value->data)
        value->data[len] = 0;
}

static void filter_text(struct buf *value, enum filter filter, uint32_t max)
{
    struct buf out = {0};
    char hex[65];
    switch (filter) {
    case FILTER_B64:
        base64_append(&out, value->data, value->len, false);
        buf_clear(value);
        buf_append(value, out.data, out.len);
        buf_free(&out);
        break;
    case FILTER_SHA256:
        digest_sha256_hex(value->data, value->len, hex);
        buf_clear(value);
        buf_puts(value, hex);
        break;
    case FILTER_GZIP:
        filter_gzip(value);
        break;
    case FILTER_TRUNC:
        filter_trunc(value, max);
        break;
    case FILTER_LABEL_SAFE:
        filter_label_safe(value);
        break;
    case FILTER_JSON:
        buf_json_string(&out, value->data ? value->data : "", value->len);
        buf_clear(value);
        buf_append(value, out.data, out.len);
        buf_free(&out);
        break;
    }
}

int piece_text(const struct filling *f, const struct piece *piece, struct buf *ret)
{
    if (!piece->name[0]) {
        buf_append(ret, piece->text, piece->len);
        return 0;
    }
    const struct doc_node *value = input_find(f, piece->name);
    if (!value)
        return piece->optional ? 1 : input_missing(f, piece->name);
    struct buf text = {0};
    size_t first = 0;
    if (piece->filter_count && piece->filters[0].filter == FILTER_JSON) {
        doc_to_json(value, DOC_JSON_PLAIN, &text);
        first = 1;
    } else if (value->type == DOC_ARRAY || value->type == DOC_OBJECT) {
        return error_set(f->err, ERROR_SPEC, "%s: \"%s\" is %s, but text is needed here", f->provider->facts.name,
                         piece->name, doc_type_words(value->type));
    } else {
        buf_append(&text, value->text, value->text_len);
    }
    for (size_t i = first; i < piece->filter_count; i++)
        filter_text(&text, piece->filters[i].filter, piece->filters[i].max);
    buf_append(ret, text.data ? text.data : "", text.len);
    buf_free(&text);
    return 0;
}

/* ---- filling ---- */

static int fill_text(const struct filling *f, const struct doc_node *node, struct doc_node **ret)
{
    struct buf text = {0};
    struct piece piece;
    char fault[160];
    const char *at = node->text, *end = at + node->text_len;
    bool first = true;
    int rc;
    for (; (rc = piece_next(&at, end, &piece, fault)) > 0; first = false) {
        if (first && piece.name[0] && !piece.filter_count && at == end) {
            const struct doc_node *value = input_find(f, piece.name);
            *ret = value ? doc_clone(f->arena, value) : NULL;
            return value || piece.optional ? 0 : input_missing(f, piece.name);
        }
        int got = piece_text(f, &piece, &text);
        if (got != 0) {
            buf_free(&text);
            *ret = NULL;
            return got < 0 ? -1 : 0;
        }
    }
    if (rc < 0)
        error_set(f->err, ERROR_SPEC, "%s: template \"%s\": %s", f->provider->facts.name, node->text, fault);
    else
        *ret = doc_new_stringn(f->arena, text.data ? text.data : "", text.len);
    buf_free(&text);
    return rc;
}

static int fill_object(const struct filling *f, const struct doc_node *node, struct doc_node **ret)
{
    const char *when = doc_get_string(node, "$when", NULL);
    if (when) {
        *ret = NULL;
        return input_given(f, when) ? template_fill(f, doc_get(node, "$value"), ret) : 0;
    }
    struct doc_node *object = doc_new_object(f->arena);
    for (size_t i = 0; i < node->count; i++) {
        struct doc_node *value = NULL;
        if (template_fill(f, node->members[i].value, &value) < 0)
            return -1;
        if (value)
            doc_set(f->arena, object, node->members[i].key, value);
    }
    *ret = object;
    return 0;
}

int template_fill(const struct filling *f, const struct doc_node *node, struct doc_node **ret)
{
    struct doc_node *array;
    *ret = NULL;
    if (!node)
        return 0;
    switch (node->type) {
    case DOC_STRING:
        return fill_text(f, node, ret);
    case DOC_OBJECT:
        return fill_object(f, node, ret);
    case DOC_ARRAY:
        array = doc_new_array(f->arena);
        for (size_t i = 0; i < node->count; i++) {
            struct doc_node *item = NULL;
            if (template_fill(f, node->items[i], &item) < 0)
                return -1;
            if (item)
                doc_append(f->arena, array, item);
        }
        *ret = array;
        return 0;
    case DOC_NULL:
    case DOC_BOOL:
    case DOC_INT:
    case DOC_FLOAT:
        break;
    }
    *ret = doc_clone(f->arena, node);
    return 0;
}
