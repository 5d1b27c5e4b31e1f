/* Objects as JSON, written and read by walking their tables. */
#include "internal.h"

#include <string.h>

/* The pointers and counts behind a field, in the struct that has it. */
static const void *array_of(const struct field *f, const void *object)
{
    const void *items;
    memcpy(&items, (const char *)object + f->offset, sizeof items);
    return items;
}

static uint32_t count_of(const struct field *f, const void *object)
{
    uint32_t count;
    memcpy(&count, (const char *)object + f->count_offset, sizeof count);
    return count;
}

static void set_array(const struct field *f, void *object, const void *items, uint32_t count)
{
    memcpy((char *)object + f->offset, &items, sizeof items);
    memcpy((char *)object + f->count_offset, &count, sizeof count);
}

/* ---- writing ---- */

static void write_unsigned(struct buf *b, uint64_t v)
{
    char digits[20];
    size_t n = sizeof digits;
    do
        digits[--n] = (char)('0' + v % 10);
    while (v /= 10);
    buf_append(b, digits + n, sizeof digits - n);
}

static void write_signed(struct buf *b, int64_t v)
{
    if (v < 0)
        buf_putc(b, '-');
    write_unsigned(b, v < 0 ? (uint64_t)-v : (uint64_t)v);
}

/* buf_json_string goes byte by byte; most values here are hex digits and names. */
static void write_string(struct buf *b, const char *s)
{
    size_t n = 0;
    while (s[n] >= ' ' && s[n] < 0x7F && s[n] != '"' && s[n] != '\\')
        n++;
    if (s[n]) {
        buf_json_string(b, s, n + strlen(s + n));
        return;
    }
    buf_reserve(b, n + 2);
    buf_putc(b, '"');
    buf_append(b, s, n);
    buf_putc(b, '"');
}

static void write_flags(struct buf *b, const char *const *names, uint32_t flags)
{
    const char *between = "";
    buf_putc(b, '[');
    for (size_t i = 0; names[i]; i++) {
        if (!(flags & 1u << i))
            continue;
        buf_puts(b, between);
        between = ",";
        write_string(b, names[i]);
    }
    buf_putc(b, ']');
}

static void write_strings(struct buf *b, const char *const *items, uint32_t count)
{
    buf_putc(b, '[');
    for (uint32_t i = 0; i < count; i++) {
        if (i)
            buf_putc(b, ',');
        write_string(b, items[i]);
    }
    buf_putc(b, ']');
}

static void write_object(struct buf *b, const struct fields *fields, const void *object);

static void write_value(struct buf *b, const struct field *f, const void *object)
{
    const void *at = (const char *)object + f->offset;
    switch (f->kind) {
    case FIELD_STRING:
        write_string(b, *(const char *const *)at);
        break;
    case FIELD_U32:
        write_unsigned(b, *(const uint32_t *)at);
        break;
    case FIELD_I32:
        write_signed(b, *(const int32_t *)at);
        break;
    case FIELD_U64:
        write_unsigned(b, *(const uint64_t *)at);
        break;
    case FIELD_BOOL:
        buf_puts(b, *(const bool *)at ? "true" : "false");
        break;
    case FIELD_NAME:
        write_string(b, f->names[*(const uint32_t *)at]);
        break;
    case FIELD_FLAGS:
        write_flags(b, f->names, *(const uint32_t *)at);
        break;
    case FIELD_STRINGS:
        write_strings(b, array_of(f, object), count_of(f, object));
        break;
    case FIELD_OBJECTS: {
        const char *items = array_of(f, object);
        uint32_t count = count_of(f, object);
        buf_putc(b, '[');
        for (uint32_t i = 0; i < count; i++) {
            if (i)
                buf_putc(b, ',');
            write_object(b, f->items, items + i * f->items->size);
        }
        buf_putc(b, ']');
        break;
    }
    }
}

static bool is_left_out(const struct field *f, const void *object)
{
    if (f->kind == FIELD_STRING || f->kind == FIELD_STRINGS)
        return !array_of(f, object);
    const void *at = (const char *)object + f->offset;
    if (f->kind == FIELD_U64)
        return f->none && *(const uint64_t *)at == 0;
    if (f->kind == FIELD_BOOL)
        return f->none && !*(const bool *)at;
    return f->none && *(const uint32_t *)at == (f->kind == FIELD_U32 ? UINT32_MAX : 0);
}

static void write_object(struct buf *b, const struct fields *fields, const void *object)
{
    char before = '{';
    for (size_t i = 0; i < fields->count; i++) {
        const struct field *f = &fields->at[i];
        if (is_left_out(f, object))
            continue;
        buf_reserve(b, f->key_len + 4);
        buf_putc(b, before);
        buf_putc(b, '"');
        buf_append(b, f->key, f->key_len);
        buf_append(b, "\":", 2);
        write_value(b, f, object);
        before = ',';
    }
    if (before == '{')
        buf_putc(b, '{');
    buf_putc(b, '}');
}

void fields_to_json(const struct fields *fields, const void *object, struct buf *ret)
{
    write_object(ret, fields, object);
}

/* ---- reading ---- */

/* A string that is one of names; its index. */
static int read_name(struct scan *s, const struct field *f, uint32_t *ret)
{
    const char *text;
    if (scan_string(s, &text) < 0)
        return -1;
    for (uint32_t i = 0; f->names[i]; i++) {
        if (!f->names[i][0] || strcmp(f->names[i], text) != 0)
            continue;
        if (i < f->min)
            return error_set(s->err, ERROR_IO, "cannot read %s: \"%s\" cannot be \"%s\"", s->what, f->key, text);
        *ret = i;
        return 0;
    }
    return error_set(s->err, ERROR_IO, "cannot read %s: unknown name \"%.80s\"", s->what, text);
}

static int read_string(struct scan *s, const struct field *f, const char **ret)
{
    const char *text;
    if (scan_string(s, &text) < 0)
        return -1;
    const size_t len = f->max ? strlen(text) : 0;
    if (len > f->max)
        return error_set(s->err, ERROR_IO, "cannot read %s: \"%s\" is longer than %u bytes", s->what, f->key, f->max);
    for (size_t at = 0, n; at < len; at += n) {
        n = utf8_length((const unsigned char *)text + at, len - at);
        if (n == 0)
            return error_set(s->err, ERROR_IO, "cannot read %s: \"%s\" is not UTF-8", s->what, f->key);
    }
    *ret = text;
    return 0;
}

/* Room for one more item in an array in the arena; old copies are freed with the arena. */
static void *grown(struct arena *a, void *items, uint32_t count, size_t size)
{
    if (count & (count - 1))
        return items;
    void *more = arena_array(a, count ? (size_t)count * 2 : 1, size);
    if (count)
        memcpy(more, items, count * size);
    return more;
}

static int read_object(struct scan *s, const struct fields *fields, void *ret);

static int read_objects(struct scan *s, const struct field *f, void *object)
{
    char *items = NULL;
    uint32_t n = 0;
    const size_t size = f->items->size;
    if (scan_expect(s, '[') < 0)
        return -1;
    if (scan_take(s, ']'))
        return f->min ? scan_fault(s, "too few items") : 0;
    do {
        if (n >= f->max)
            return scan_fault(s, "too many items");
        items = grown(s->arena, items, n, size);
        if (read_object(s, f->items, items + n * size) < 0)
            return -1;
        n++;
    } while (scan_take(s, ','));
    if (n < f->min)
        return scan_fault(s, "too few items");
    set_array(f, object, items, n);
    return scan_expect(s, ']');
}

static int read_strings(struct scan *s, const struct field *f, void *object)
{
    const char **items = arena_array(s->arena, 1, sizeof *items);
    uint32_t n = 0;
    if (scan_expect(s, '[') < 0)
        return -1;
    if (!scan_take(s, ']')) {
        do {
            if (n >= f->max)
                return scan_fault(s, "too many items");
            items = grown(s->arena, items, n, sizeof *items);
            if (scan_string(s, &items[n]) < 0)
                return -1;
            n++;
        } while (scan_take(s, ','));
        if (scan_expect(s, ']') < 0)
            return -1;
    }
    set_array(f, object, items, n);
    return 0;
}

static int read_flags(struct scan *s, const struct field *f, uint32_t *ret)
{
    uint32_t all = 0, i = 0;
    if (scan_expect(s, '[') < 0)
        return -1;
    if (!scan_take(s, ']')) {
        do {
            if (read_name(s, f, &i) < 0)
                return -1;
            all |= 1u << i;
        } while (scan_take(s, ','));
        if (scan_expect(s, ']') < 0)
            return -1;
    }
    *ret = all;
    return 0;
}

static int read_value(struct scan *s, const struct field *f, void *object)
{
    void *at = (char *)object + f->offset;
    int64_t v;
    switch (f->kind) {
    case FIELD_STRING:
        return read_string(s, f, at);
    case FIELD_U32:
        if (scan_integer(s, f->min, f->max ? f->max : UINT32_MAX, &v) < 0)
            return -1;
        *(uint32_t *)at = (uint32_t)v;
        return 0;
    case FIELD_I32:
        if (scan_integer(s, INT32_MIN, INT32_MAX, &v) < 0)
            return -1;
        *(int32_t *)at = (int32_t)v;
        return 0;
    case FIELD_U64:
        if (scan_integer(s, 0, INT64_MAX, &v) < 0)
            return -1;
        *(uint64_t *)at = (uint64_t)v;
        return 0;
    case FIELD_BOOL:
        *(bool *)at = scan_word(s, "true");
        return *(bool *)at || scan_word(s, "false") ? 0 : scan_fault(s, "expected true or false");
    case FIELD_NAME:
        return read_name(s, f, at);
    case FIELD_FLAGS:
        return read_flags(s, f, at);
    case FIELD_STRINGS:
        return read_strings(s, f, object);
    case FIELD_OBJECTS:
        return read_objects(s, f, object);
    }
    return scan_fault(s, "no such kind");
}

static int complete(struct scan *s, const struct fields *fields, uint64_t seen, void *object)
{
    for (size_t i = 0; i < fields->count; i++) {
        const struct field *f = &fields->at[i];
        if (seen >> i & 1)
            continue;
        if (f->required)
            return error_set(s->err, ERROR_IO, "cannot read %s: \"%s\" is missing", s->what, f->key);
        if (f->none && f->kind == FIELD_U32)
            *(uint32_t *)(void *)((char *)object + f->offset) = UINT32_MAX;
    }
    return 0;
}

/* The index of the field with that key, or fields->count; `guess` is the index in our own writer's order. */
static size_t find(const struct fields *fields, size_t guess, const char *key, size_t len)
{
    for (size_t tried = 0, i = guess; tried < fields->count; tried++, i++) {
        if (i >= fields->count)
            i = 0;
        if (fields->at[i].key_len == len && memcmp(fields->at[i].key, key, len) == 0)
            return i;
    }
    return fields->count;
}

static int skip_member(struct scan *s)
{
    const char *ignored;
    return scan_string(s, &ignored) < 0 || scan_expect(s, ':') < 0 ? -1 : scan_skip(s);
}

/* object is zeroed. */
static int read_object(struct scan *s, const struct fields *fields, void *ret)
{
    uint64_t seen = 0;
    size_t guess = 0;
    if (scan_expect(s, '{') < 0)
        return -1;
    if (!scan_take(s, '}')) {
        do {
            const char *key;
            size_t len;
            if (scan_peek_key(s, &key, &len) < 0)
                return -1;
            size_t i = find(fields, guess, key, len);
            if (i == fields->count) { /* a key of another version */
                if (skip_member(s) < 0)
                    return -1;
                continue;
            }
            s->at = key + len + 1;
            if (seen >> i & 1)
                return scan_fault(s, "a key appears twice");
            if (scan_expect(s, ':') < 0 || read_value(s, &fields->at[i], ret) < 0)
                return -1;
            seen |= (uint64_t)1 << i;
            guess = i + 1;
        } while (scan_take(s, ','));
        if (scan_expect(s, '}') < 0)
            return -1;
    }
    return complete(s, fields, seen, ret);
}

/* The type decides which fields there are. Our own writer puts it first; other programs may have sorted the keys. */
static int read_type(struct scan s, const struct field *type, uint32_t *ret)
{
    if (scan_expect(&s, '{') < 0)
        return -1;
    if (!scan_take(&s, '}')) {
        do {
            const char *key;
            size_t len;
            if (scan_peek_key(&s, &key, &len) < 0)
                return -1;
            if (len == type->key_len && memcmp(key, type->key, len) == 0) {
                s.at = key + len + 1;
                return scan_expect(&s, ':') < 0 ? -1 : read_name(&s, type, ret);
            }
            if (skip_member(&s) < 0)
                return -1;
        } while (scan_take(&s, ','));
        if (scan_expect(&s, '}') < 0)
            return -1;
    }
    return error_set(s.err, ERROR_IO, "cannot read %s: \"%s\" is missing", s.what, type->key);
}

int fields_from_json(const struct fields_types *types, const char *text, size_t len, struct arena *arena, void *ret,
                     struct error *err)
{
    struct scan s = {.at = text, .end = text + len, .start = text, .what = types->what, .arena = arena, .err = err};
    uint32_t type;
    if (len > types->text_max)
        return error_set(err, ERROR_IO, "cannot read %s: larger than %zu bytes", types->what, types->text_max);
    if (read_type(s, &types->tables[types->first].at[0], &type) < 0 || read_object(&s, &types->tables[type], ret) < 0)
        return -1;
    scan_blanks(&s);
    return s.at == s.end ? 0 : scan_fault(&s, "something follows its end");
}
