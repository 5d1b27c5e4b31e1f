/*
 * Nodes: reading, building and cloning trees. Objects with more than INDEX_FROM members carry an open
 * hash table of member numbers; its seed is random, so a file cannot be made to collide.
 */
#include "internal.h"

#include <string.h>

enum { INDEX_FROM = 12, QUOTE_MAX = 60 };

/* ---- hash table over members: index[0] is the seed, then slots of member number + 1 ---- */

static uint64_t mix(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t doc_hash_bytes(const void *data, size_t len, uint64_t seed)
{
    const unsigned char *p = data;
    uint64_t h = mix(seed ^ 0xa0761d6478bd642full, len ^ 0xe7037ed1a0b428dbull), chunk;
    for (; len >= sizeof chunk; p += sizeof chunk, len -= sizeof chunk) {
        memcpy(&chunk, p, sizeof chunk);
        h = mix(h ^ chunk ^ 0x8ebc6af09c88c6e3ull, seed ^ 0x589965cc75374cc3ull);
    }
    chunk = 0;
    memcpy(&chunk, p, len);
    return mix(h ^ chunk ^ 0x1d8e4e27c47d124full, seed ^ 0xeb44accab455d165ull);
}

static uint32_t *find_slot(const struct doc_node *object, const char *key, size_t key_len)
{
    size_t mask = object->index_cap - 1;
    for (size_t i = doc_hash_bytes(key, key_len, object->index[0]) & mask;; i = (i + 1) & mask) {
        uint32_t *slot = &object->index[1 + i];
        if (*slot == 0)
            return slot;
        const struct doc_member *m = &object->members[*slot - 1];
        if (m->key_len == key_len && memcmp(m->key, key, key_len) == 0)
            return slot;
    }
}

static void build_index(struct arena *arena, struct doc_node *object)
{
    size_t cap = 64;
    while (cap < object->count * 4)
        cap *= 2;
    object->index = arena_array(arena, cap + 1, sizeof *object->index);
    object->index_cap = cap;
    random_bytes(object->index, sizeof *object->index);
    for (size_t i = 0; i < object->count; i++) {
        uint32_t *slot = find_slot(object, object->members[i].key, object->members[i].key_len);
        if (*slot == 0)
            *slot = (uint32_t)i + 1;
    }
}

struct doc_member *doc_push_member(struct arena *arena, struct doc_node *object, const char *key, size_t key_len)
{
    if (object->count == object->cap) {
        size_t cap = object->cap ? object->cap * 2 : 4;
        struct doc_member *members = arena_array(arena, cap, sizeof *members);
        if (object->count > 0)
            memcpy(members, object->members, object->count * sizeof *members);
        object->members = members;
        object->cap = cap;
    }
    struct doc_member *m = &object->members[object->count++];
    *m = (struct doc_member){.key = key, .key_len = key_len};
    if (object->index && object->count * 2 <= object->index_cap) {
        uint32_t *slot = find_slot(object, key, key_len);
        if (*slot == 0)
            *slot = (uint32_t)object->count;
    } else if (object->count > INDEX_FROM) {
        build_index(arena, object);
    }
    return m;
}

/* ---- reading ---- */

struct doc_member *doc_get_member(const struct doc_node *node, const char *key, size_t key_len)
{
    if (!node || node->type != DOC_OBJECT)
        return NULL;
    if (node->index) {
        uint32_t slot = *find_slot(node, key, key_len);
        return slot ? &node->members[slot - 1] : NULL;
    }
    for (size_t i = 0; i < node->count; i++)
        if (node->members[i].key_len == key_len && memcmp(node->members[i].key, key, key_len) == 0)
            return &node->members[i];
    return NULL;
}

struct doc_node *doc_get(const struct doc_node *node, const char *key)
{
    struct doc_member *m = doc_get_member(node, key, strlen(key));
    return m ? m->value : NULL;
}

/* One pointer token without its escapes; false when "~" is followed by neither 0 nor 1. */
static bool unescape(const char *token, size_t len, struct buf *ret)
{
    buf_clear(ret);
    buf_reserve(ret, len + 1);
    for (size_t i = 0; i < len; i++) {
        if (token[i] != '~') {
            buf_putc(ret, token[i]);
            continue;
        }
        if (++i >= len || (token[i] != '0' && token[i] != '1'))
            return false;
        buf_putc(ret, token[i] == '0' ? '~' : '/');
    }
    return true;
}

struct doc_node *doc_get_path(const struct doc_node *node, const char *pointer)
{
    struct buf token = {0};
    const struct doc_node *at = node;
    while (at && *pointer) {
        if (*pointer++ != '/')
            at = NULL;
        size_t len = strcspn(pointer, "/");
        uint64_t i;
        if (!at || !unescape(pointer, len, &token)) {
            at = NULL;
        } else if (at->type == DOC_OBJECT) {
            struct doc_member *m = doc_get_member(at, token.len > 0 ? token.data : "", token.len);
            at = m ? m->value : NULL;
        } else {
            bool number = len > 0 && (*pointer != '0' || len == 1) && parse_u64(token.data, &i);
            at = at->type == DOC_ARRAY && number && i < at->count ? at->items[i] : NULL;
        }
        pointer += len;
    }
    buf_free(&token);
    return (struct doc_node *)(uintptr_t)at;
}

const char *doc_get_string(const struct doc_node *node, const char *key, const char *otherwise)
{
    const struct doc_node *value = doc_get(node, key);
    return value && value->type == DOC_STRING ? value->text : otherwise;
}

const char *doc_get_text(const struct doc_node *node, const char *key, const char *otherwise)
{
    const struct doc_node *value = doc_get(node, key);
    bool scalar = value && value->type != DOC_NULL && value->type != DOC_ARRAY && value->type != DOC_OBJECT;
    return scalar ? value->text : otherwise;
}

bool doc_is_integer(const struct doc_node *node, int64_t *ret)
{
    if (!node)
        return false;
    if (node->type == DOC_INT) {
        if (node->big)
            return false;
        *ret = node->integer;
        return true;
    }
    if (node->type != DOC_FLOAT || !(node->number >= -0x1p63 && node->number < 0x1p63))
        return false;
    int64_t whole = (int64_t)node->number;
    if ((double)whole < node->number || (double)whole > node->number)
        return false;
    *ret = whole;
    return true;
}

int64_t doc_get_int(const struct doc_node *node, const char *key, int64_t otherwise)
{
    int64_t value;
    return doc_is_integer(doc_get(node, key), &value) ? value : otherwise;
}

bool doc_get_bool(const struct doc_node *node, const char *key, bool otherwise)
{
    const struct doc_node *value = doc_get(node, key);
    return value && value->type == DOC_BOOL ? value->boolean : otherwise;
}

const char *doc_type_words(enum doc_type type)
{
    static const char *const words[] = {"null",     "true or false", "an integer", "a number",
                                        "a string", "a list",        "a mapping"};
    return words[type];
}

void doc_pointer_append(struct buf *pointer, const char *key, size_t key_len)
{
    buf_putc(pointer, '/');
    for (size_t i = 0; i < key_len; i++) {
        if (key[i] == '~')
            buf_puts(pointer, "~0");
        else if (key[i] == '/')
            buf_puts(pointer, "~1");
        else
            buf_putc(pointer, key[i]);
    }
}

void doc_describe(const struct doc_node *node, struct buf *ret)
{
    if (node->type == DOC_ARRAY || node->type == DOC_OBJECT || node->type == DOC_NULL) {
        buf_puts(ret, doc_type_words(node->type));
        return;
    }
    size_t len = node->text_len;
    if (len > QUOTE_MAX) {
        for (len = QUOTE_MAX; len > 0 && ((unsigned char)node->text[len] & 0xc0) == 0x80;)
            len--;
    }
    if (node->type == DOC_STRING)
        buf_json_string(ret, node->text, len);
    else
        buf_append(ret, node->text, len);
    if (len < node->text_len)
        buf_puts(ret, "...");
}

/* ---- building ---- */

static struct doc_node *new_node(struct arena *arena, enum doc_type type, const char *text)
{
    struct doc_node *node = arena_alloc(arena, sizeof *node);
    node->type = type;
    node->text = text;
    node->text_len = strlen(text);
    node->expanded = node->height = 1;
    return node;
}

struct doc_node *doc_new_null(struct arena *arena)
{
    return new_node(arena, DOC_NULL, "null");
}

struct doc_node *doc_new_bool(struct arena *arena, bool value)
{
    struct doc_node *node = new_node(arena, DOC_BOOL, value ? "true" : "false");
    node->boolean = value;
    return node;
}

struct doc_node *doc_new_int(struct arena *arena, int64_t value)
{
    struct doc_node *node = new_node(arena, DOC_INT, arena_printf(arena, "%lld", (long long)value));
    node->integer = value;
    node->number = (double)value;
    return node;
}

struct doc_node *doc_new_float(struct arena *arena, double value)
{
    struct buf text = {0};
    doc_format_float(value, &text);
    struct doc_node *node = new_node(arena, DOC_FLOAT, arena_strdup(arena, text.data));
    node->number = value;
    buf_free(&text);
    return node;
}

struct doc_node *doc_new_stringn(struct arena *arena, const char *text, size_t len)
{
    struct doc_node *node = new_node(arena, DOC_STRING, "");
    node->text = arena_strndup(arena, text, len);
    node->text_len = len;
    return node;
}

struct doc_node *doc_new_string(struct arena *arena, const char *text)
{
    return doc_new_stringn(arena, text, strlen(text));
}

struct doc_node *doc_new_plain(struct arena *arena, const char *text)
{
    struct doc_node *node = new_node(arena, DOC_NULL, "");
    doc_resolve_plain(node, arena_strdup(arena, text), strlen(text));
    return node;
}

struct doc_node *doc_new_array(struct arena *arena)
{
    return new_node(arena, DOC_ARRAY, "");
}

struct doc_node *doc_new_object(struct arena *arena)
{
    return new_node(arena, DOC_OBJECT, "");
}

void doc_append(struct arena *arena, struct doc_node *array, struct doc_node *item)
{
    if (array->count == array->cap) {
        size_t cap = array->cap ? array->cap * 2 : 4;
        struct doc_node **items = arena_array(arena, cap, sizeof(struct doc_node *));
        if (array->count > 0)
            memcpy(items, array->items, array->count * sizeof(struct doc_node *));
        array->items = items;
        array->cap = cap;
    }
    array->items[array->count++] = item;
}

void doc_set(struct arena *arena, struct doc_node *object, const char *key, struct doc_node *value)
{
    size_t len = strlen(key);
    struct doc_member *m = doc_get_member(object, key, len);
    if (!m)
        m = doc_push_member(arena, object, arena_strndup(arena, key, len), len);
    m->value = value;
}

bool doc_remove(struct doc_node *object, const char *key)
{
    struct doc_member *m = doc_get_member(object, key, strlen(key));
    if (!m)
        return false;
    size_t i = (size_t)(m - object->members);
    memmove(m, m + 1, (object->count - i - 1) * sizeof *m);
    object->count--;
    object->index = NULL; /* there is no arena here to make a new index; the next doc_set rebuilds it */
    object->index_cap = 0;
    return true;
}

struct doc_node *doc_clone(struct arena *arena, const struct doc_node *node)
{
    struct doc_node *copy = arena_alloc(arena, sizeof *copy);
    *copy = *node;
    copy->index = NULL;
    copy->index_cap = copy->cap = copy->count = 0;
    copy->items = NULL;
    copy->members = NULL;
    if (node->type == DOC_ARRAY)
        for (size_t i = 0; i < node->count; i++)
            doc_append(arena, copy, doc_clone(arena, node->items[i]));
    if (node->type == DOC_OBJECT)
        for (size_t i = 0; i < node->count; i++) {
            const struct doc_member *m = &node->members[i];
            struct doc_member *to = doc_push_member(arena, copy, arena_strndup(arena, m->key, m->key_len), m->key_len);
            to->key_place = m->key_place;
            to->value = doc_clone(arena, m->value);
        }
    if (node->text_len > 0) /* the clone may outlive the arena that node lives in */
        copy->text = arena_strndup(arena, node->text, node->text_len);
    return copy;
}
