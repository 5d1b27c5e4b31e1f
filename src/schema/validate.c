/*
 * The walk: one subschema against one value at a time, keyword group by keyword group. Three modes share it: check,
 * weigh, report. Depth and work are bounded, so a schema that refers to itself ends in a fault.
 */
#include "validate.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 10000000 };

/* ---- limits ---- */

bool give_up(struct run *run, const char *why)
{
    if (!run->stopped && run->diagnostics)
        diagnostics_add(run->diagnostics, SEVERITY_ERROR, run->frame->node->place, "%s", why);
    run->stopped = true;
    return false;
}

bool charge(struct run *run, uint64_t steps)
{
    run->steps += steps;
    return run->steps <= STEPS_MAX || give_up(run, "the check takes too long and was given up");
}

/* ---- marks ---- */

static void marks_init(struct marks *m, const struct doc_node *node)
{
    m->words = (node->count + 63) / 64;
    m->few[0] = m->few[1] = 0;
    m->bits = m->words <= ARRAY_LEN(m->few) ? m->few : xcalloc(m->words, sizeof *m->bits);
}

static void marks_free(struct marks *m)
{
    if (m->bits != m->few)
        free(m->bits);
}

void mark(const struct eval *e, size_t index)
{
    if (e->marks)
        e->marks->bits[index / 64] |= (uint64_t)1 << index % 64;
}

void mark_all(const struct eval *e)
{
    if (e->marks)
        memset(e->marks->bits, 0xff, e->marks->words * sizeof *e->marks->bits);
}

bool is_marked(const struct eval *e, size_t index)
{
    return e->marks && (e->marks->bits[index / 64] >> index % 64 & 1);
}

/* ---- keywords on any value and on scalars ---- */

static bool check_type(struct eval *e)
{
    return !e->sub->types || (e->sub->types & type_of(e->node)) || fault_value(e, FAULT_TYPE, NULL);
}

static bool check_values(struct eval *e)
{
    const struct subschema *s = e->sub;
    bool good = true;
    if (s->const_value) {
        good = charge(e->run, s->const_value->expanded) && doc_equal(s->const_value, e->node);
    } else if (s->enum_values) {
        good = false;
        for (size_t i = 0; i < s->enum_values->count && !good; i++)
            good = charge(e->run, s->enum_values->items[i]->expanded) && doc_equal(s->enum_values->items[i], e->node);
    }
    if (s->const_value && s->enum_values && good) {
        good = false;
        for (size_t i = 0; i < s->enum_values->count && !good; i++)
            good = doc_equal(s->enum_values->items[i], e->node);
    }
    if (good)
        return true;
    if (!accepts_type(s, e->node))
        return fault_value(e, FAULT_TYPE, NULL);
    return fault_value(e, s->const_value || s->enum_values->count == 1 ? FAULT_CONST : FAULT_VALUE, NULL);
}

static bool check_number(struct eval *e)
{
    const struct subschema *s = e->sub;
    const struct doc_node *n = e->node;
    if (n->type != DOC_INT && n->type != DOC_FLOAT)
        return true;
    bool good = (!s->maximum || number_compare(n, s->maximum) <= 0) &&
                (!s->minimum || number_compare(n, s->minimum) >= 0) &&
                (!s->exclusive_maximum || number_compare(n, s->exclusive_maximum) < 0) &&
                (!s->exclusive_minimum || number_compare(n, s->exclusive_minimum) > 0) &&
                (!s->multiple_of || number_is_multiple(n, s->multiple_of));
    return good || fault_value(e, FAULT_OTHER, NULL);
}

static uint64_t count_chars(const struct doc_node *node)
{
    uint64_t count = 0;
    for (size_t i = 0; i < node->text_len; i++)
        count += ((unsigned char)node->text[i] & 0xc0) != 0x80;
    return count;
}

static bool check_string(struct eval *e)
{
    const struct subschema *s = e->sub;
    if (e->node->type != DOC_STRING)
        return true;
    bool good = true;
    if (s->min_length > 0 || s->max_length < UINT64_MAX) {
        uint64_t chars = count_chars(e->node);
        good = chars >= s->min_length && chars <= s->max_length;
    }
    if (good && s->pattern) {
        enum pattern_result result = PATTERN_NO;
        if (charge(e->run, 4 + e->node->text_len / 64))
            result = pattern_match(s->pattern, e->node->text, e->node->text_len, &e->run->match_data);
        if (result == PATTERN_LIMIT)
            charge(e->run, 200000);
        good = result == PATTERN_YES;
    }
    return good || fault_value(e, FAULT_OTHER, NULL);
}

/* ---- references ---- */

static bool check_ref(struct eval *e)
{
    return !e->sub->ref_target || evaluate(e->run, e->sub->ref_target, e->node, e->marks, e->mode);
}

/* The outermost resource in the dynamic scope that has the anchor (core, 8.2.3.2). */
static bool check_dynamic_ref(struct eval *e)
{
    const struct subschema *target = e->sub->dynamic_target;
    if (!target)
        return true;
    const char *name = e->sub->dynamic_name;
    for (const struct scope *s = e->run->scope; name && s; s = s->above) {
        const struct subschema *found = map_get(&s->resource->dynamic, name, strlen(name));
        if (found)
            target = found;
    }
    return evaluate(e->run, target, e->node, e->marks, e->mode);
}

/* ---- the walk ---- */

static bool check_keywords(struct eval *e)
{
    static bool (*const checks[])(struct eval *) = {
        check_type,        check_values,
        check_number,      check_string,
        check_array,       check_object,
        check_ref,         check_dynamic_ref,
        check_all_of,      check_any_of,
        check_one_of,      check_not,
        check_condition,   check_dependent_schemas,
        check_unevaluated,
    };
    bool good = true;
    for (size_t i = 0; i < ARRAY_LEN(checks) && !e->run->stopped; i++) {
        if (checks[i](e))
            continue;
        good = false;
        if (e->mode == MODE_CHECK || checks[i] == check_type)
            break;
    }
    return good && !e->run->stopped;
}

static bool fault_false(const struct eval *e)
{
    if (!note_fault(e, FAULT_UNKNOWN))
        return false;
    struct buf subject = {0};
    put_subject(e, &subject);
    report(e, key_or_value_place(e), "%s is not allowed here", subject.data);
    buf_free(&subject);
    return false;
}

bool evaluate(struct run *run, const struct subschema *sub, const struct doc_node *node, struct marks *out,
              enum mode mode)
{
    if (run->stopped || !charge(run, 1))
        return false;
    struct eval e = {run, sub, node, NULL, mode};
    if (sub->boolean)
        return sub->accepts || fault_false(&e);
    if (run->depth >= SCHEMA_MAX_DEPTH)
        return give_up(run, "the schema refers to itself without end");
    run->depth++;
    struct scope scope = {run->scope, sub->resource},
                 *entered = run->scope && run->scope->resource == sub->resource ? NULL : &scope;
    if (entered)
        run->scope = entered;
    bool worded = sub->expected && !(run->wording && run->wording_node == node);
    const struct subschema *wording = run->wording;
    const struct doc_node *wording_node = run->wording_node;
    if (worded) {
        run->wording = sub;
        run->wording_node = node;
    }
    struct marks own;
    bool container = node->type == DOC_ARRAY || node->type == DOC_OBJECT;
    if (container && run->schema->tracks && (out || sub->unevaluated_items || sub->unevaluated_properties)) {
        marks_init(&own, node);
        e.marks = &own;
    }
    bool good = check_keywords(&e);
    /* while reporting, a failed branch still shows which keys are known */
    if (e.marks && out && (good || mode == MODE_REPORT))
        for (size_t i = 0; i < own.words; i++)
            out->bits[i] |= own.bits[i];
    if (e.marks)
        marks_free(&own);
    if (worded) {
        run->wording = wording;
        run->wording_node = wording_node;
    }
    if (entered)
        run->scope = scope.above;
    run->depth--;
    return good;
}

bool evaluate_child(const struct eval *e, const struct subschema *sub, const struct doc_node *child,
                    const struct doc_member *member, size_t index)
{
    struct run *run = e->run;
    struct frame frame = {run->frame, child, member, index};
    run->frame = &frame;
    run->frames++;
    bool good = evaluate(run, sub, child, NULL, e->mode);
    run->frames--;
    run->frame = frame.above;
    return good;
}

bool schema_validate(const struct schema *schema, const struct doc_node *node, struct diagnostics *diagnostics)
{
    struct frame root = {.node = node};
    struct run run = {.schema = schema, .diagnostics = diagnostics, .frame = &root};
    /* most documents are valid: faults are put in words only if there are some */
    bool good = evaluate(&run, schema->root, node, NULL, MODE_CHECK);
    if (!good && diagnostics && !run.stopped) {
        size_t before = diagnostics->errors;
        run.steps = 0;
        evaluate(&run, schema->root, node, NULL, MODE_REPORT);
        if (diagnostics->errors == before)
            diagnostics_add(diagnostics, SEVERITY_ERROR, node->place, "the document does not fit the schema");
    }
    pattern_release(run.match_data);
    return good;
}
