/*
 * Faults in words: the place, the JSON pointer, what was expected, the nearest key or value, and the
 * weight of a fault when branches are compared.
 */
#include "validate.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool note_fault(const struct eval *e, enum fault_kind kind)
{
    /* at the value itself / at its members: a branch of another type is far off, and one with a different tag is the
     * wrong one */
    static const uint64_t weights[][2] = {
        [FAULT_TYPE] = {1000, 3},   [FAULT_CONST] = {200, 40}, [FAULT_VALUE] = {200, 3},
        [FAULT_REQUIRED] = {20, 2}, [FAULT_UNKNOWN] = {10, 2}, [FAULT_OTHER] = {3, 1},
    };
    struct run *run = e->run;
    if (e->mode == MODE_COUNT) {
        size_t below = run->frames - run->count_base;
        run->cost += below > 1 ? 1 : weights[kind][below];
    }
    return e->mode == MODE_REPORT;
}

static void put_pointer(const struct frame *frame, struct buf *out)
{
    const struct frame *list[DOC_MAX_DEPTH * 2];
    size_t count = 0;
    for (; frame && frame->above && count < ARRAY_LEN(list); frame = frame->above)
        list[count++] = frame;
    buf_puts(out, "");
    while (count-- > 0) {
        char number[24];
        if (list[count]->member) {
            doc_pointer_append(out, list[count]->member->key, list[count]->member->key_len);
        } else {
            snprintf(number, sizeof number, "%zu", list[count]->index);
            doc_pointer_append(out, number, strlen(number));
        }
    }
}

struct diagnostic *report(const struct eval *e, struct place place, const char *fmt, ...)
{
    struct run *run = e->run;
    const struct frame *aliased = run->frame;
    va_list ap;
    va_start(ap, fmt);
    struct diagnostic *item = diagnostics_addv(run->diagnostics, SEVERITY_ERROR, place, fmt, ap);
    va_end(ap);
    if (!item)
        return NULL;
    struct buf pointer = {0};
    put_pointer(run->frame, &pointer);
    diagnostic_path(item, pointer.data);
    buf_free(&pointer);
    if (e->sub->hint)
        diagnostic_hint(item, "%s", e->sub->hint);
    while (aliased && !aliased->node->alias.source)
        aliased = aliased->above;
    if (!aliased)
        return item;
    diagnostics_add(run->diagnostics, SEVERITY_NOTE, aliased->node->alias, "it is used here");
    size_t last = run->diagnostics->count; /* the array may have moved */
    while (last > 0 && run->diagnostics->items[last - 1].severity == SEVERITY_NOTE)
        last--;
    return last > 0 ? &run->diagnostics->items[last - 1] : NULL;
}

struct place key_or_value_place(const struct eval *e)
{
    const struct doc_member *member = e->run->frame->member;
    if (member && member->key_place.source)
        return member->key_place;
    struct place place = e->node->place;
    if (e->node->type == DOC_ARRAY || e->node->type == DOC_OBJECT) { /* carets under its beginning only */
        place.end_line = place.line;
        place.end_column = place.column + 1;
    }
    return place;
}

void put_subject(const struct eval *e, struct buf *out)
{
    const struct frame *frame = e->run->frame;
    bool item = frame->above && !frame->member;
    if (item)
        buf_printf(out, "item %zu", frame->index + 1);
    while (frame->above && !frame->member)
        frame = frame->above;
    if (frame->member) {
        buf_puts(out, item ? " of " : "");
        buf_json_string(out, frame->member->key, frame->member->key_len);
    } else if (!item) {
        buf_puts(out, "the document");
    }
}

/* Hints that depend on the value and on the allowed ones. */
static void add_value_hint(const struct eval *e, struct diagnostic *item, const struct sub_list *branches)
{
    static const char *const old_booleans[] = {"yes", "no", "on", "off", NULL};
    const struct doc_node *node = e->node;
    if (!item || item->hint)
        return;
    if (node->type == DOC_STRING) {
        const char *near = words_nearest_value(e->sub, node->text);
        for (size_t i = 0; branches && !near && i < branches->count; i++)
            near = words_nearest_value(branches->items[i], node->text);
        if (near) {
            diagnostic_hint(item, "did you mean %s?", near);
            return;
        }
        for (size_t i = 0; (e->sub->types & TYPE_BOOLEAN) && old_booleans[i]; i++)
            if (strcasecmp(node->text, old_booleans[i]) == 0)
                diagnostic_hint(item, "write true or false; YAML 1.2 reads %s as text", node->text);
        return;
    }
    bool scalar = node->type != DOC_ARRAY && node->type != DOC_OBJECT && node->type != DOC_NULL;
    struct pattern *pattern = e->sub->pattern;
    bool would_do = !pattern || pattern_match(pattern, node->text, node->text_len, &e->run->match_data) == PATTERN_YES;
    if (scalar && would_do && (e->sub->types & TYPE_STRING) && !(e->sub->types & type_of(node)) &&
        strlen(node->text) < 40)
        diagnostic_hint(item, "put it in quotes: \"%s\"", node->text);
}

bool fault_value(const struct eval *e, enum fault_kind kind, const struct sub_list *branches)
{
    if (!note_fault(e, kind))
        return false;
    struct buf message = {0}, expected = {0};
    const struct doc_member *member = e->run->frame->member;
    if (member && member->key == e->node->text) { /* propertyNames: the key is the value */
        buf_puts(&message, "key ");
        put_subject(e, &message);
        buf_puts(&message, " cannot be used here");
    } else {
        put_subject(e, &message);
        buf_puts(&message, " cannot be ");
        doc_describe(e->node, &message);
    }
    bool container = e->node->type == DOC_ARRAY || e->node->type == DOC_OBJECT;
    struct diagnostic *item = report(e, container ? key_or_value_place(e) : e->node->place, "%s", message.data);
    if (e->run->wording && e->run->wording_node == e->node)
        buf_puts(&expected, e->run->wording->expected);
    else if (branches)
        words_branches(branches, &expected);
    if (expected.len == 0)
        words_expected(e->sub, &expected);
    if (expected.len > 0)
        diagnostic_expected(item, "%s", expected.data);
    add_value_hint(e, item, branches);
    buf_free(&message);
    buf_free(&expected);
    return false;
}

bool fault_unknown_key(const struct eval *e, const struct doc_member *member)
{
    if (!note_fault(e, FAULT_UNKNOWN))
        return false;
    struct buf name = {0}, keys = {0};
    buf_json_string(&name, member->key, member->key_len);
    struct diagnostic *item =
        report(e, member->key_place.source ? member->key_place : e->node->place, "unknown key %s", name.data);
    const char *near = words_nearest_key(e->sub, e->node, member->key);
    if (near)
        diagnostic_hint(item, "did you mean %s?", near);
    else if (words_keys(e->sub, &keys))
        diagnostic_expected(item, "one of the keys %s", keys.data);
    if (item) {
        struct buf pointer = {0};
        put_pointer(e->run->frame, &pointer);
        doc_pointer_append(&pointer, member->key, member->key_len);
        diagnostic_path(item, pointer.data);
        item->unknown_key = true;
        buf_free(&pointer);
    }
    buf_free(&name);
    buf_free(&keys);
    return false;
}
