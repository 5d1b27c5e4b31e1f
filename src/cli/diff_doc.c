/* Compares two trees of values. */
#include "diffing.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN_MAX = 1000 }; /* the most differing items of each list that are aligned by equality */

void diff_add(struct diff_rows *rows, const char *path, const struct doc_node *a, const struct doc_node *b)
{
    if (rows->count == rows->cap) {
        const size_t cap = rows->cap ? 2 * rows->cap : 16;
        struct diff_row *more = arena_array(rows->arena, cap, sizeof *more);
        if (rows->count)
            memcpy(more, rows->items, rows->count * sizeof *more);
        rows->items = more;
        rows->cap = cap;
    }
    rows->items[rows->count++] = (struct diff_row){path, a, b};
}

/* ---- mappings ---- */

static bool is_word(const char *s)
{
    size_t n = 0;
    for (; s[n]; n++)
        if (!((s[n] >= 'a' && s[n] <= 'z') || (s[n] >= 'A' && s[n] <= 'Z') || (s[n] >= '0' && s[n] <= '9') ||
              strchr("_-[] ", s[n])))
            return false;
    return n > 0;
}

static const char *item(struct arena *arena, const char *path, const char *key)
{
    struct buf b = {0};
    buf_printf(&b, "%s[", path);
    if (str_is_printable(key))
        buf_puts(&b, key);
    else
        buf_json_string(&b, key, strlen(key));
    buf_putc(&b, ']');
    const char *text = arena_strdup(arena, b.data);
    buf_free(&b);
    return text;
}

static const char *below(struct arena *arena, const char *path, const char *key)
{
    if (is_word(key))
        return arena_printf(arena, "%s%s%s", path, *path ? "." : "", key);
    struct buf b = {0};
    buf_puts(&b, path);
    buf_puts(&b, *path ? "." : "");
    buf_json_string(&b, key, strlen(key));
    const char *text = arena_strdup(arena, b.data);
    buf_free(&b);
    return text;
}

static void mappings(struct diff_rows *rows, const char *path, const struct doc_node *a, const struct doc_node *b)
{
    for (size_t i = 0; i < a->count; i++) {
        const char *key = a->members[i].key;
        diff_docs(rows, below(rows->arena, path, key), a->members[i].value, doc_get(b, key));
    }
    for (size_t i = 0; i < b->count; i++)
        if (!doc_get(a, b->members[i].key))
            diff_docs(rows, below(rows->arena, path, b->members[i].key), NULL, b->members[i].value);
}

/* ---- lists ---- */

/* The items by the text of that key; NULL: an item has no such text, or two share one. */
static struct doc_node *by_key(struct arena *arena, const struct doc_node *list, const char *key)
{
    struct doc_node *index = doc_new_object(arena);
    for (size_t i = 0; i < list->count; i++) {
        const char *text = list->items[i]->type == DOC_OBJECT ? doc_get_text(list->items[i], key, NULL) : NULL;
        if (!text || doc_get(index, text))
            return NULL;
        doc_set(arena, index, text, list->items[i]);
    }
    return index;
}

/* The order of the keys that both have. */
static struct doc_node *common_order(struct arena *arena, const struct doc_node *a, const struct doc_node *b)
{
    struct doc_node *order = doc_new_array(arena);
    for (size_t i = 0; i < a->count; i++)
        if (doc_get(b, a->members[i].key))
            doc_append(arena, order, doc_new_string(arena, a->members[i].key));
    return order;
}

static bool lists_by_key(struct diff_rows *rows, const char *path, const struct doc_node *a, const struct doc_node *b)
{
    static const char *const keys[] = {"node", "name"};
    for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
        const struct doc_node *x = by_key(rows->arena, a, keys[k]), *y = by_key(rows->arena, b, keys[k]);
        if (!x || !y)
            continue;
        const struct doc_node *before = common_order(rows->arena, x, y), *after = common_order(rows->arena, y, x);
        if (!doc_equal(before, after))
            diff_add(rows, arena_printf(rows->arena, "%s (order)", path), before, after);
        for (size_t i = 0; i < x->count; i++)
            diff_docs(rows, item(rows->arena, path, x->members[i].key), x->members[i].value,
                      doc_get(y, x->members[i].key));
        for (size_t i = 0; i < y->count; i++)
            if (!doc_get(x, y->members[i].key))
                diff_docs(rows, item(rows->arena, path, y->members[i].key), NULL, y->members[i].value);
        return true;
    }
    return false;
}

struct span { /* items [from, to) of a list */
    const struct doc_node *list;
    size_t from, to;
};

static const char *at(struct arena *arena, const char *path, size_t i)
{
    return arena_printf(arena, "%s[%zu]", path, i);
}

/* Between equal items: pairs one with one while both sides have items. */
static void gap(struct diff_rows *rows, const char *path, struct span a, struct span b)
{
    for (; a.from < a.to && b.from < b.to; a.from++, b.from++)
        diff_docs(rows, at(rows->arena, path, b.from), a.list->items[a.from], b.list->items[b.from]);
    for (; a.from < a.to; a.from++)
        diff_add(rows, at(rows->arena, path, a.from), a.list->items[a.from], NULL);
    for (; b.from < b.to; b.from++)
        diff_add(rows, at(rows->arena, path, b.from), NULL, b.list->items[b.from]);
}

/* By the longest common subsequence. */
static void align(struct diff_rows *rows, const char *path, struct span a, struct span b)
{
    const size_t n = a.to - a.from, m = b.to - b.from, width = m + 1;
    if (n == 0 || m == 0 || n > ALIGN_MAX || m > ALIGN_MAX) {
        gap(rows, path, a, b);
        return;
    }
    uint16_t *longest = xcalloc((n + 1) * width, sizeof *longest); /* its length for the items from i and k on */
    bool *same = xcalloc(n * m, sizeof *same);
    for (size_t i = n; i-- > 0;)
        for (size_t k = m; k-- > 0;) {
            same[i * m + k] = doc_equal(a.list->items[a.from + i], b.list->items[b.from + k]);
            const uint16_t skip_a = longest[(i + 1) * width + k], skip_b = longest[i * width + k + 1];
            longest[i * width + k] = same[i * m + k]   ? (uint16_t)(longest[(i + 1) * width + k + 1] + 1)
                                     : skip_a > skip_b ? skip_a
                                                       : skip_b;
        }
    size_t i = 0, k = 0, gap_i = 0, gap_k = 0;
    while (i < n && k < m) {
        if (same[i * m + k]) {
            gap(rows, path, (struct span){a.list, a.from + gap_i, a.from + i},
                (struct span){b.list, b.from + gap_k, b.from + k});
            gap_i = ++i;
            gap_k = ++k;
        } else if (longest[(i + 1) * width + k] >= longest[i * width + k + 1]) {
            i++;
        } else {
            k++;
        }
    }
    gap(rows, path, (struct span){a.list, a.from + gap_i, a.to}, (struct span){b.list, b.from + gap_k, b.to});
    free(longest);
    free(same);
}

static void lists(struct diff_rows *rows, const char *path, const struct doc_node *a, const struct doc_node *b)
{
    if (a->count > 0 && b->count > 0 && lists_by_key(rows, path, a, b))
        return;
    size_t from = 0, to_a = a->count, to_b = b->count;
    while (from < to_a && from < to_b && doc_equal(a->items[from], b->items[from]))
        from++;
    while (to_a > from && to_b > from && doc_equal(a->items[to_a - 1], b->items[to_b - 1])) {
        to_a--;
        to_b--;
    }
    align(rows, path, (struct span){a, from, to_a}, (struct span){b, from, to_b});
}

void diff_docs(struct diff_rows *rows, const char *path, const struct doc_node *a, const struct doc_node *b)
{
    if (!a && !b)
        return;
    if (a && b && a->type == DOC_OBJECT && b->type == DOC_OBJECT)
        mappings(rows, path, a, b);
    else if (a && b && a->type == DOC_ARRAY && b->type == DOC_ARRAY)
        lists(rows, path, a, b);
    else if (!a || !b || !doc_equal(a, b))
        diff_add(rows, path, a, b);
}
