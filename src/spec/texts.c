/* Texts with expressions: only checked, or expanded at once if planning needs them. */
#include "internal.h"

#include <string.h>

const struct expr_rules on_node = {.scope = SCOPE_NODE};
const struct expr_rules on_node_at_point = {.scope = SCOPE_NODE, .point = true};

struct spec_text checked(struct load *l, const struct doc_node *node, const struct expr_rules *rules, bool shell)
{
    struct spec_text text = text_of(node);
    expr_check_rules(&text, l->spec, rules, shell, l->diagnostics);
    return text;
}

struct spec_text text_now(struct load *l, const struct doc_node *node)
{
    struct spec_text text = text_of(node);
    if (text.has_expr)
        text.text = expand_now(l, &text);
    text.has_expr = false;
    return text;
}

void texts_add(struct load *l, struct spec_texts *list, size_t *cap, struct spec_text text)
{
    if (list->count >= *cap) {
        *cap = list->count > 0 ? list->count * 2 : 16;
        struct spec_text *items = arena_array(l->arena, *cap, sizeof *items);
        if (list->count > 0)
            memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
    }
    list->items[list->count++] = text;
}

static void add_words(struct load *l, struct spec_texts *list, size_t *cap, const struct spec_text *text)
{
    const char **words = NULL;
    size_t count = 0;
    struct error err = ERROR_INIT;
    if (shlex_split(text->text, l->arena, &words, &count, &err) != 0)
        fault(l, text->place, "the text cannot be split: %s", err.text);
    for (size_t i = 0; i < count; i++)
        texts_add(l, list, cap, (struct spec_text){.text = words[i], .place = text->place});
}

struct spec_texts texts_now(struct load *l, const struct doc_node *node, bool split)
{
    struct spec_texts list = {0};
    size_t cap = 0;
    if (is_array(node)) {
        for (size_t i = 0; i < node->count; i++) {
            struct spec_text text = text_now(l, node->items[i]);
            if (text.text)
                texts_add(l, &list, &cap, text);
        }
    } else if (is_scalar(node)) {
        struct spec_text text = text_now(l, node);
        if (text.text && split)
            add_words(l, &list, &cap, &text);
        else if (text.text)
            texts_add(l, &list, &cap, text);
    }
    return list;
}
