/* Keywords of arrays and objects, and unevaluated*, which applies to members that no other keyword has evaluated. */
#include "validate.h"

#include <stdlib.h>
#include <string.h>

/* ---- arrays ---- */

static bool fault_count(const struct eval *e, const char *what, uint64_t count, uint64_t least, uint64_t most)
{
    if (!note_fault(e, FAULT_OTHER))
        return false;
    struct buf subject = {0};
    put_subject(e, &subject);
    struct diagnostic *item = report(e, key_or_value_place(e), "%s has %llu %s%s", subject.data,
                                     (unsigned long long)count, what, count == 1 ? "" : "s");
    if (e->run->wording && e->run->wording_node == e->node)
        diagnostic_expected(item, "%s", e->run->wording->expected);
    else
        diagnostic_expected(item, "at %s %llu", count < least ? "least" : "most",
                            (unsigned long long)(count < least ? least : most));
    buf_free(&subject);
    return false;
}

static int compare_hashes(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;
    return a[0] != b[0] ? (a[0] < b[0] ? -1 : 1) : (a[1] > b[1]) - (a[1] < b[1]);
}

/* Sorted by hash, so that only items of one hash are compared. */
static bool check_unique(struct eval *e)
{
    size_t count = e->node->count;
    struct doc_node **items = e->node->items;
    if (!charge(e->run, e->node->expanded))
        return false;
    uint64_t(*hashes)[2] = xcalloc(count, sizeof *hashes);
    for (size_t i = 0; i < count; i++) {
        hashes[i][0] = doc_hash(items[i]);
        hashes[i][1] = i;
    }
    qsort(hashes, count, sizeof *hashes, compare_hashes);
    bool good = true;
    for (size_t i = 0; i < count && good; i++)
        for (size_t j = i; j-- > 0 && hashes[j][0] == hashes[i][0] && good;) {
            struct doc_node *first = items[hashes[j][1]], *second = items[hashes[i][1]];
            if (!charge(e->run, first->expanded) || !doc_equal(first, second))
                continue;
            good = false;
            if (note_fault(e, FAULT_OTHER)) {
                report(e, second->place, "items %llu and %llu are equal", (unsigned long long)hashes[j][1] + 1,
                       (unsigned long long)hashes[i][1] + 1);
                diagnostics_add(e->run->diagnostics, SEVERITY_NOTE, first->place, "it was given here first");
            }
        }
    free(hashes);
    return good && !e->run->stopped;
}

static bool check_contains(struct eval *e)
{
    const struct subschema *s = e->sub;
    uint64_t found = 0;
    struct eval quiet = *e;
    quiet.mode = MODE_CHECK;
    for (size_t i = 0; i < e->node->count; i++)
        if (evaluate_child(&quiet, s->contains, e->node->items[i], NULL, i)) {
            found++;
            mark(e, i);
        }
    if (found >= s->min_contains && found <= s->max_contains)
        return true;
    return fault_count(e, "matching item", found, s->min_contains, s->max_contains);
}

bool check_array(struct eval *e)
{
    const struct subschema *s = e->sub;
    const struct doc_node *node = e->node;
    if (node->type != DOC_ARRAY)
        return true;
    bool good = true, stop = e->mode == MODE_CHECK;
    if (node->count < s->min_items || node->count > s->max_items)
        good = fault_count(e, "item", node->count, s->min_items, s->max_items);
    for (size_t i = 0; i < node->count && !(stop && !good) && !e->run->stopped; i++) {
        const struct subschema *item = i < s->prefix_items.count ? s->prefix_items.items[i] : s->items;
        if (!item)
            break;
        good = evaluate_child(e, item, node->items[i], NULL, i) && good;
        mark(e, i);
    }
    if (s->contains && !(stop && !good))
        good = check_contains(e) && good;
    if (s->unique_items && node->count > 1 && !(stop && !good))
        good = check_unique(e) && good;
    return good;
}

/* ---- objects ---- */

static bool fault_missing(const struct eval *e, const struct doc_node *key, const struct doc_member *because)
{
    if (!note_fault(e, FAULT_REQUIRED))
        return false;
    struct buf name = {0}, other = {0};
    buf_json_string(&name, key->text, key->text_len);
    if (because)
        buf_json_string(&other, because->key, because->key_len);
    struct diagnostic *item = because ? report(e, because->key_place, "key %s needs the key %s", other.data, name.data)
                                      : report(e, key_or_value_place(e), "key %s is missing", name.data);
    struct doc_member *wanted = doc_get_member(e->sub->properties.node, key->text, key->text_len);
    if (wanted) {
        struct buf expected = {0};
        words_expected(e->sub->properties.items[wanted - e->sub->properties.node->members], &expected);
        if (expected.len > 0)
            diagnostic_expected(item, "%s: %s", key->text, expected.data);
        buf_free(&expected);
    }
    buf_free(&name);
    buf_free(&other);
    return false;
}

static bool check_required(struct eval *e)
{
    const struct subschema *s = e->sub;
    bool good = true;
    for (size_t i = 0; s->required && i < s->required->count; i++) {
        const struct doc_node *key = s->required->items[i];
        if (!doc_get_member(e->node, key->text, key->text_len))
            good = fault_missing(e, key, NULL);
    }
    for (size_t i = 0; s->dependent_required && i < s->dependent_required->count; i++) {
        const struct doc_member *m = &s->dependent_required->members[i],
                                *own = doc_get_member(e->node, m->key, m->key_len);
        for (size_t j = 0; own && j < m->value->count; j++) {
            const struct doc_node *key = m->value->items[j];
            if (!doc_get_member(e->node, key->text, key->text_len))
                good = fault_missing(e, key, own);
        }
    }
    return good;
}

/* Checks a key as a value, for propertyNames. */
static bool check_name(struct eval *e, const struct doc_member *member)
{
    struct doc_node name = {.type = DOC_STRING,
                            .place = member->key_place,
                            .text = member->key,
                            .text_len = member->key_len,
                            .expanded = 1};
    return evaluate_child(e, e->sub->property_names, &name, member, 0);
}

static bool check_member(struct eval *e, size_t index)
{
    const struct subschema *s = e->sub;
    const struct doc_member *m = &e->node->members[index];
    bool good = true, known = false;
    const struct doc_member *property = doc_get_member(s->properties.node, m->key, m->key_len);
    if (property) {
        known = true;
        good = evaluate_child(e, s->properties.items[property - s->properties.node->members], m->value, m, 0);
    }
    for (size_t i = 0; s->pattern_properties.node && i < s->pattern_properties.node->count; i++) {
        if (!charge(e->run, 4 + m->key_len / 64))
            return false;
        enum pattern_result result =
            pattern_match(s->pattern_properties.patterns[i], m->key, m->key_len, &e->run->match_data);
        if (result == PATTERN_LIMIT)
            charge(e->run, 200000);
        if (result != PATTERN_YES)
            continue;
        known = true;
        good = evaluate_child(e, s->pattern_properties.items[i], m->value, m, 0) && good;
    }
    if (!known && s->additional_properties) {
        const struct subschema *more = s->additional_properties;
        known = true;
        good = more->boolean && !more->accepts ? fault_unknown_key(e, m) : evaluate_child(e, more, m->value, m, 0);
    }
    if (known)
        mark(e, index);
    if (s->property_names)
        good = check_name(e, m) && good;
    return good;
}

bool check_object(struct eval *e)
{
    const struct subschema *s = e->sub;
    const struct doc_node *node = e->node;
    if (node->type != DOC_OBJECT)
        return true;
    bool good = true, stop = e->mode == MODE_CHECK;
    if (node->count < s->min_properties || node->count > s->max_properties)
        good = fault_count(e, "key", node->count, s->min_properties, s->max_properties);
    good = check_required(e) && good;
    if (!s->properties.node && !s->pattern_properties.node && !s->additional_properties && !s->property_names)
        return good;
    for (size_t i = 0; i < node->count && !(stop && !good) && !e->run->stopped; i++)
        good = check_member(e, i) && good;
    return good;
}

/* ---- unevaluated ---- */

bool check_unevaluated(struct eval *e)
{
    const struct doc_node *node = e->node;
    bool object = node->type == DOC_OBJECT;
    const struct subschema *rest = object ? e->sub->unevaluated_properties : e->sub->unevaluated_items;
    if (!rest || (!object && node->type != DOC_ARRAY))
        return true;
    bool good = true;
    for (size_t i = 0; i < node->count && !e->run->stopped; i++) {
        if (is_marked(e, i))
            continue;
        const struct doc_member *m = object ? &node->members[i] : NULL;
        if (m && rest->boolean && !rest->accepts)
            good = fault_unknown_key(e, m);
        else
            good = evaluate_child(e, rest, m ? m->value : node->items[i], m, i) && good;
        if (!good && e->mode == MODE_CHECK)
            return false;
    }
    mark_all(e);
    return good;
}
