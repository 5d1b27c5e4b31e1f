/* Reads the body of a reply as JSON, lines of JSON or XML, and extracts values from it. */
#include "internal.h"

#include <string.h>
#include <strings.h>

enum { LINES_MAX = 20000 };

/* Faults are not reported here, and a reply is never quoted, because it may have a password. */
static const struct doc_node *read_json(struct arena *arena, const char *text, size_t len)
{
    struct diagnostics d = {0};
    struct doc *doc = NULL;
    bool good = doc_load_text("reply", text, len, DOC_FORMAT_JSON, arena, &doc, &d, NULL) == 0;
    diagnostics_free(&d);
    return good ? doc->root : NULL;
}

/* A cut last line is an error; a stream that ended well ends with a complete line. */
static const struct doc_node *read_lines(struct arena *arena, const char *text, size_t len)
{
    struct doc_node *lines = doc_new_array(arena);
    const char *end = text + len;
    while (text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        stop = stop ? stop : end;
        size_t line_len = (size_t)(stop - text);
        if (line_len && text[line_len - 1] == '\r')
            line_len--;
        const struct doc_node *line = line_len ? read_json(arena, text, line_len) : NULL;
        if (line_len && (!line || lines->count == LINES_MAX))
            return NULL;
        if (line)
            doc_append(arena, lines, doc_clone(arena, line));
        text = stop + 1;
    }
    return lines;
}

bool answer_read(struct answer *a)
{
    const struct provider_reply *r = a->reply;
    if (r->body_len > PROVIDER_REPLY_MAX)
        return false;
    switch (a->kind) {
    case BODY_JSON:
        a->json = r->body_len ? read_json(a->arena, r->body, r->body_len) : NULL;
        return a->json != NULL;
    case BODY_LINES:
        a->json = r->body ? read_lines(a->arena, r->body, r->body_len) : doc_new_array(a->arena);
        return a->json != NULL;
    case BODY_XML:
        a->xml = r->body ? xml_parse(r->body, r->body_len) : NULL;
        return a->xml != NULL;
    }
    return false;
}

void answer_free(struct answer *a)
{
    xml_free(a->xml);
    a->xml = NULL;
}

struct spot answer_top(const struct answer *a)
{
    return (struct spot){a->json, a->xml ? xml_root(a->xml) : NULL};
}

const char *reply_header(const struct provider_reply *reply, const char *name)
{
    for (size_t i = 0; i < reply->header_count; i++)
        if (strcasecmp(reply->headers[i].name, name) == 0)
            return reply->headers[i].value;
    return NULL;
}

/* ---- values ---- */

static bool is_there(const struct doc_node *node)
{
    return node && node->type != DOC_NULL && !(node->type == DOC_STRING && node->text_len == 0);
}

static const struct doc_node *text_node(const struct answer *a, const char *text)
{
    return text && text[0] ? doc_new_string(a->arena, text) : NULL;
}

/* The text after a prefix, and after the last separator. */
static const struct doc_node *cut(const struct answer *a, const struct doc_node *how, const struct doc_node *value)
{
    const char *after = doc_get_string(how, "after", NULL), *behind = doc_get_string(how, "behind", NULL);
    if (!value || (!after && !behind))
        return value;
    if (value->type != DOC_STRING)
        return NULL;
    const char *text = value->text;
    if (after && !str_starts(text, after))
        return NULL;
    text += after ? strlen(after) : 0;
    for (const char *at; behind && (at = strstr(text, behind));)
        text = at + strlen(behind);
    return text_node(a, text);
}

bool item_fits(const struct answer *a, const struct doc_node *how, const struct doc_node *item)
{
    const struct doc_node *where = doc_get(how, "where");
    const char *has = doc_get_string(how, "has", NULL);
    for (size_t i = 0; where && i < where->count; i++) {
        struct doc_node *wanted = NULL;
        const struct doc_node *there = doc_get(item, where->members[i].key);
        if (template_fill(a->fill, where->members[i].value, &wanted) < 0 || !wanted || !there ||
            !doc_equal(there, wanted))
            return false;
    }
    return !has || is_there(doc_get(item, has));
}

/* Items without a text come last. */
static const char *order_of(const struct doc_node *item, const char *path)
{
    const struct doc_node *node = doc_get_path(item, path);
    return node && node->type == DOC_STRING && node->text_len ? node->text : "\x7f";
}

static const struct doc_node *search(const struct answer *a, const struct doc_node *how, const struct doc_node *top)
{
    const char *in = doc_get_string(how, "in", NULL), *get = doc_get_string(how, "get", "");
    if (!in)
        return cut(a, how, doc_get_path(top, get));
    const struct doc_node *list = doc_get_path(top, in), *found = NULL;
    const char *least = doc_get_string(how, "least", NULL), *before = NULL;
    if (!list || (list->type != DOC_ARRAY && list->type != DOC_OBJECT))
        return NULL;
    for (size_t i = 0; i < list->count && (!found || least); i++) {
        const struct doc_node *item = list->type == DOC_ARRAY ? list->items[i] : list->members[i].value;
        const struct doc_node *value = item_fits(a, how, item) ? cut(a, how, doc_get_path(item, get)) : NULL;
        const char *order = least ? order_of(item, least) : NULL;
        if (!is_there(value) || (before && strcmp(order, before) >= 0))
            continue;
        found = value;
        before = order;
    }
    return found;
}

static const struct doc_node *extract_one(const struct answer *a, const struct doc_node *how, struct spot spot)
{
    if (how->type == DOC_STRING && a->xml)
        return text_node(a, xml_text(a->xml, spot.xml, how->text, a->arena));
    if (how->type == DOC_STRING)
        return spot.json ? doc_get_path(spot.json, how->text) : NULL;
    const char *header = doc_get_string(how, "header", NULL);
    if (header)
        return cut(a, how, text_node(a, reply_header(a->reply, header)));
    if (a->xml)
        return cut(a, how, text_node(a, xml_text(a->xml, spot.xml, doc_get_string(how, "get", "."), a->arena)));
    return spot.json ? search(a, how, spot.json) : NULL;
}

const struct doc_node *extract_node(const struct answer *a, const struct doc_node *how, struct spot spot)
{
    if (!how)
        return NULL;
    for (size_t i = 0; i < many_count(how); i++) {
        const struct doc_node *value = extract_one(a, one_of_many(how, i), spot);
        if (is_there(value))
            return value;
    }
    return NULL;
}

static bool is_scalar(const struct doc_node *node)
{
    return node && node->type != DOC_ARRAY && node->type != DOC_OBJECT;
}

const char *extract_text(const struct answer *a, const struct doc_node *how, struct spot spot)
{
    for (size_t i = 0; how && i < many_count(how); i++) {
        const struct doc_node *value = extract_one(a, one_of_many(how, i), spot);
        if (is_there(value) && is_scalar(value) && value->text_len <= TEXT_MAX &&
            !memchr(value->text, 0, value->text_len))
            return arena_strdup(a->arena, value->text);
    }
    return NULL;
}

bool predicate_holds(const struct answer *a, const struct doc_node *predicate)
{
    const struct doc_node *how = doc_get(predicate, "present"), *is = doc_get(predicate, "is");
    struct spot top = answer_top(a);
    if (how)
        return extract_node(a, how, top) != NULL;
    how = doc_get(predicate, "missing");
    if (how)
        return extract_node(a, how, top) == NULL;
    const struct doc_node *value = extract_node(a, doc_get(predicate, "value"), top);
    for (size_t i = 0; value && is && i < is->count; i++)
        if (doc_equal(value, is->items[i]) || (a->xml && str_eq(value->text, is->items[i]->text)))
            return true;
    return false;
}
