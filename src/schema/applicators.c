/*
 * Keywords that apply several subschemas to the same value. The work is in the reports: for anyOf and oneOf, only the
 * faults of the most likely branch are reported.
 */
#include "validate.h"

#include <string.h>

bool check_all_of(struct eval *e)
{
    const struct sub_list *list = &e->sub->all_of;
    bool good = true;
    for (size_t i = 0; i < list->count && (good || e->mode != MODE_CHECK); i++)
        good = evaluate(e->run, list->items[i], e->node, e->marks, e->mode) && good;
    return good;
}

/* The weight of a branch's faults. */
static uint64_t weigh(const struct eval *e, const struct subschema *branch)
{
    struct run *run = e->run;
    uint64_t cost = run->cost;
    size_t base = run->count_base;
    run->cost = 0;
    run->count_base = run->frames;
    evaluate(run, branch, e->node, NULL, MODE_COUNT);
    uint64_t weight = run->cost;
    run->cost = cost;
    run->count_base = base;
    return weight;
}

/* The only key that a branch of the form {required: [key], ...} requires; NULL for other forms. */
static const struct doc_node *sole_key(const struct subschema *branch)
{
    bool plain = !branch->boolean && branch->required && branch->required->count == 1 && branch->node->count == 1;
    return plain ? branch->required->items[0] : NULL;
}

/* For the form "one of these keys": two faults with their own words. Returns false; true if it is another form. */
static bool is_key_choice(const struct eval *e, const struct sub_list *list)
{
    if (e->node->type != DOC_OBJECT)
        return false;
    for (size_t i = 0; i < list->count; i++)
        if (!sole_key(list->items[i]))
            return false;
    return true;
}

static void report_key_choice(const struct eval *e, const struct sub_list *list)
{
    const struct doc_member *first = NULL;
    struct buf keys = {0};
    for (size_t i = 0; i < list->count; i++) {
        const struct doc_node *key = sole_key(list->items[i]);
        const struct doc_member *m = doc_get_member(e->node, key->text, key->text_len);
        buf_printf(&keys, "%s%s", i > 0 ? ", " : "", key->text);
        if (m && first) {
            bool swap = m->key_place.line < first->key_place.line ||
                        (m->key_place.line == first->key_place.line && m->key_place.column < first->key_place.column);
            const struct doc_member *early = swap ? m : first, *late = swap ? first : m;
            report(e, late->key_place, "keys \"%s\" and \"%s\" exclude each other", early->key, late->key);
            diagnostics_add(e->run->diagnostics, SEVERITY_NOTE, early->key_place, "the other one is here");
        }
        first = first ? first : m;
    }
    if (!first) {
        struct diagnostic *item = report(e, key_or_value_place(e), "a key is missing");
        if (e->run->wording && e->run->wording_node == e->node)
            diagnostic_expected(item, "%s", e->run->wording->expected);
        else
            diagnostic_expected(item, "one of the keys %s", keys.data ? keys.data : "");
    }
    buf_free(&keys);
}

/* No branch matches. A scalar gets one sentence about all branches, a collection the faults of the nearest branch. */
static bool fault_no_branch(struct eval *e, const struct sub_list *list)
{
    bool typed = false;
    for (size_t i = 0; i < list->count && !typed; i++)
        typed = accepts_type(list->items[i], e->node);
    bool scalar = e->node->type != DOC_ARRAY && e->node->type != DOC_OBJECT;
    if (e->mode != MODE_REPORT) {
        note_fault(e, typed ? scalar ? FAULT_VALUE : FAULT_OTHER : FAULT_TYPE);
        return false;
    }
    if (is_key_choice(e, list)) {
        report_key_choice(e, list);
        return false;
    }
    const struct subschema *best = NULL;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < list->count && !e->run->stopped; i++) {
        const struct subschema *branch = list->items[i];
        uint64_t weight = typed && !accepts_type(branch, e->node) ? UINT64_MAX - 1 : weigh(e, branch);
        if (weight < least) {
            least = weight;
            best = branch;
        }
    }
    struct buf expected = {0};
    words_branches(list, &expected);
    bool speaks = expected.len > 0 || (e->run->wording && e->run->wording_node == e->node);
    buf_free(&expected);
    if (!typed || (scalar && speaks) || !best)
        return fault_value(e, FAULT_TYPE, list);
    evaluate(e->run, best, e->node, e->marks, MODE_REPORT);
    return false;
}

bool check_any_of(struct eval *e)
{
    const struct sub_list *list = &e->sub->any_of;
    bool good = list->count == 0;
    /* every branch that matches counts for unevaluated* */
    for (size_t i = 0; i < list->count && (!good || e->marks); i++)
        good = evaluate(e->run, list->items[i], e->node, e->marks, MODE_CHECK) || good;
    return good || fault_no_branch(e, list);
}

bool check_one_of(struct eval *e)
{
    const struct sub_list *list = &e->sub->one_of;
    size_t fits = 0;
    if (list->count == 0)
        return true;
    for (size_t i = 0; i < list->count && fits < 2; i++)
        fits += evaluate(e->run, list->items[i], e->node, e->marks, MODE_CHECK);
    if (fits == 1 || e->run->stopped)
        return fits == 1;
    if (fits == 0)
        return fault_no_branch(e, list);
    if (!note_fault(e, FAULT_OTHER))
        return false;
    if (is_key_choice(e, list)) {
        report_key_choice(e, list);
        return false;
    }
    struct buf subject = {0}, expected = {0};
    put_subject(e, &subject);
    words_branches(list, &expected);
    struct diagnostic *item = report(e, key_or_value_place(e), "%s fits more than one form", subject.data);
    if (expected.len > 0)
        diagnostic_expected(item, "exactly one of: %s", expected.data);
    buf_free(&subject);
    buf_free(&expected);
    return false;
}

bool check_not(struct eval *e)
{
    const struct subschema *negated = e->sub->negated;
    if (!negated || !evaluate(e->run, negated, e->node, NULL, MODE_CHECK))
        return !e->run->stopped;
    if (!note_fault(e, FAULT_OTHER))
        return false;
    const struct doc_node *key = sole_key(negated);
    const struct doc_member *m = key ? doc_get_member(e->node, key->text, key->text_len) : NULL;
    if (m) {
        report(e, m->key_place, "key \"%s\" cannot be used here", m->key);
        return false;
    }
    struct buf subject = {0}, value = {0};
    put_subject(e, &subject);
    doc_describe(e->node, &value);
    bool container = e->node->type == DOC_ARRAY || e->node->type == DOC_OBJECT;
    struct diagnostic *item = report(e, container ? key_or_value_place(e) : e->node->place, "%s cannot be %s",
                                     subject.data, container ? "as it is" : value.data);
    if (e->run->wording && e->run->wording_node == e->node)
        diagnostic_expected(item, "%s", e->run->wording->expected);
    buf_free(&subject);
    buf_free(&value);
    return false;
}

bool check_condition(struct eval *e)
{
    const struct subschema *s = e->sub;
    if (!s->condition)
        return true;
    const struct subschema *then =
        evaluate(e->run, s->condition, e->node, e->marks, MODE_CHECK) ? s->consequence : s->alternative;
    return !then || evaluate(e->run, then, e->node, e->marks, e->mode);
}

bool check_dependent_schemas(struct eval *e)
{
    const struct sub_map *map = &e->sub->dependent_schemas;
    bool good = true;
    if (e->node->type != DOC_OBJECT)
        return true;
    for (size_t i = 0; map->node && i < map->node->count && (good || e->mode != MODE_CHECK); i++)
        if (doc_get_member(e->node, map->node->members[i].key, map->node->members[i].key_len))
            good = evaluate(e->run, map->items[i], e->node, e->marks, e->mode) && good;
    return good;
}
