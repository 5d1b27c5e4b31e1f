/* Private to schema: the state of one validation, shared by the files that check keywords. */
#ifndef RHRUN_SCHEMA_VALIDATE_H
#define RHRUN_SCHEMA_VALIDATE_H

#include "internal.h"

enum mode {
    MODE_CHECK,  /* stop at the first fault */
    MODE_COUNT,  /* add up the weights of faults, to choose among branches */
    MODE_REPORT, /* all faults, as diagnostics */
};

enum fault_kind { FAULT_TYPE, FAULT_CONST, FAULT_VALUE, FAULT_REQUIRED, FAULT_UNKNOWN, FAULT_OTHER };

struct frame { /* where the current value stands in the document */
    const struct frame *above;
    const struct doc_node *node;
    const struct doc_member *member; /* NULL for items and the root */
    size_t index;
};

struct scope { /* the resources entered, for $dynamicRef */
    const struct scope *above;
    const struct resource *resource;
};

struct marks { /* which members or items of one value are evaluated, for unevaluated* */
    uint64_t *bits;
    size_t words;
    uint64_t few[2];
};

struct run {
    const struct schema *schema;
    struct diagnostics *diagnostics;
    const struct frame *frame;
    const struct scope *scope;
    const struct subschema *wording; /* gives x-expected for faults at wording_node */
    const struct doc_node *wording_node;
    void *match_data;
    size_t depth, frames, count_base;
    uint64_t steps, cost;
    bool stopped; /* a limit was passed: everything unwinds */
};

struct eval { /* one subschema against one value */
    struct run *run;
    const struct subschema *sub;
    const struct doc_node *node;
    struct marks *marks; /* NULL if not needed */
    enum mode mode;
};

bool evaluate(struct run *run, const struct subschema *sub, const struct doc_node *node, struct marks *out,
              enum mode mode);
/* The same for a member or item of e's value. */
bool evaluate_child(const struct eval *e, const struct subschema *sub, const struct doc_node *child,
                    const struct doc_member *member, size_t index);
/* Charges work against the budget; false when it is used up. */
bool charge(struct run *run, uint64_t steps);
bool give_up(struct run *run, const char *why);

void mark(const struct eval *e, size_t index);
void mark_all(const struct eval *e);
bool is_marked(const struct eval *e, size_t index);

/* ---- report.c ---- */
/* Counts a fault; true if it must also be put in words. */
bool note_fault(const struct eval *e, enum fault_kind kind);
struct diagnostic *report(const struct eval *e, struct place place, const char *fmt, ...) FORMAT(3, 4);
struct place key_or_value_place(const struct eval *e);
/* "\"key\"", "item 2 of \"key\"", "the document" */
void put_subject(const struct eval *e, struct buf *out);
/* `"key" cannot be VALUE`, with what is expected and hints; returns false. */
bool fault_value(const struct eval *e, enum fault_kind kind, const struct sub_list *branches);
bool fault_unknown_key(const struct eval *e, const struct doc_member *member);

/* ---- keyword checks, each true when the value passes ---- */
bool check_array(struct eval *e);
bool check_object(struct eval *e);
bool check_unevaluated(struct eval *e);
bool check_all_of(struct eval *e);
bool check_any_of(struct eval *e);
bool check_one_of(struct eval *e);
bool check_not(struct eval *e);
bool check_condition(struct eval *e);
bool check_dependent_schemas(struct eval *e);

#endif
