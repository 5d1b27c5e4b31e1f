/* Private to schema: the compiled form, and the words that compile and validate share. */
#ifndef RHRUN_SCHEMA_INTERNAL_H
#define RHRUN_SCHEMA_INTERNAL_H

#include "rhrun/schema.h"

/* ---- map: bytes to a pointer, open addressing, in an arena ---- */
struct map_slot {
    const void *key;
    size_t len;
    void *value;
};
struct map {
    struct map_slot *slots;
    size_t cap, count;
};
void *map_get(const struct map *map, const void *key, size_t len);
/* key is kept, not copied; an existing key keeps its first value. */
void map_add(struct map *map, struct arena *arena, const void *key, size_t len, void *value);

/* ---- the compiled schema ---- */
enum type_bit {
    TYPE_NULL = 1,
    TYPE_BOOLEAN = 2,
    TYPE_INTEGER = 4,
    TYPE_NUMBER = 8, /* any number, integers included */
    TYPE_STRING = 16,
    TYPE_ARRAY = 32,
    TYPE_OBJECT = 64,
};

struct resource { /* a schema with an $id, or the root of a document */
    const char *uri;
    const struct doc_node *root;
    struct map anchors; /* $anchor and $dynamicAnchor: name to subschema */
    struct map dynamic; /* $dynamicAnchor only */
};

struct pattern {
    const char *text;
    void *code;    /* pcre2_code */
    unsigned uses; /* matches so far */
};

struct sub_list {
    struct subschema **items;
    size_t count;
};
struct sub_map { /* items[i] belongs to node->members[i] */
    const struct doc_node *node;
    struct subschema **items;
    struct pattern **patterns; /* patternProperties only */
};

/* One keyword, one field, in the spelling of C. Absent keywords are NULL, 0, or UINT64_MAX for upper bounds. */
struct subschema {
    const struct doc_node *node;
    struct resource *resource;
    bool boolean, accepts; /* the schemas true and false */
    unsigned types;
    bool unique_items;
    const struct doc_node *const_value, *enum_values;
    const struct doc_node *multiple_of, *maximum, *minimum, *exclusive_maximum, *exclusive_minimum;
    uint64_t max_length, min_length, max_items, min_items, max_contains, min_contains, max_properties, min_properties;
    struct pattern *pattern;
    const struct doc_node *required, *dependent_required;
    struct sub_list all_of, any_of, one_of, prefix_items;
    struct sub_map properties, pattern_properties, dependent_schemas, defs;
    struct subschema *negated, *condition, *consequence, *alternative, *items, *contains;
    struct subschema *additional_properties, *property_names, *unevaluated_items, *unevaluated_properties, *content;
    const char *ref, *dynamic_ref;
    struct subschema *ref_target, *dynamic_target;
    const char *dynamic_name;    /* set if the dynamic reference must be looked up in the dynamic scope */
    const char *expected, *hint; /* x-expected, x-hint */
};

struct schema {
    struct arena *arena;
    struct subschema *root;
    struct pattern **patterns; /* all of them, for schema_destroy; malloc */
    size_t pattern_count, pattern_cap;
    bool tracks; /* some unevaluated* keyword occurs */
};

/* ---- uri.c: RFC 3986 references ---- */
char *uri_resolve(struct arena *arena, const char *base, const char *reference);
char *uri_percent_decode(struct arena *arena, const char *text);

/* ---- pattern.c ---- */
enum pattern_result { PATTERN_NO, PATTERN_YES, PATTERN_LIMIT };
/* Properties (\p{Letter}, \p{Script=Greek}) in PCRE2's words; all else as it is. */
void pattern_translate(const char *text, size_t len, struct buf *ret);
struct pattern *pattern_compile(struct schema *schema, const char *text, size_t len, char *ret_problem,
                                size_t problem_size);
/* *match_data is made at the first call and released by pattern_release. */
enum pattern_result pattern_match(struct pattern *pattern, const char *text, size_t len, void **match_data);
void pattern_release(void *match_data);
void pattern_destroy(struct pattern *pattern);

/* ---- number.c ---- */
int number_compare(const struct doc_node *a, const struct doc_node *b);
bool number_is_integral(const struct doc_node *node);
bool number_is_multiple(const struct doc_node *value, const struct doc_node *of);

/* ---- words.c ---- */
/* What a subschema expects, in a user's words ("an integer of at least 1, or one of cpu, gpu"). Appends nothing if
 * there is nothing to say. */
void words_expected(const struct subschema *sub, struct buf *ret);
void words_branches(const struct sub_list *list, struct buf *ret);
/* Appends "one of a, b, c" for an enum. */
void words_values(const struct doc_node *values, struct buf *ret);
/* The nearest string among the values that these subschemas allow, or NULL. */
const char *words_nearest_value(const struct subschema *sub, const char *word);
/* The nearest known key of the object that is not in it yet, or NULL. */
const char *words_nearest_key(const struct subschema *sub, const struct doc_node *object, const char *word);
/* Appends the known keys, "a, b, c"; false when there are none or too many to read. */
bool words_keys(const struct subschema *sub, struct buf *ret);
unsigned type_of(const struct doc_node *node);
bool accepts_type(const struct subschema *sub, const struct doc_node *node);

/* ---- metaschema.c ---- */
/* The text of a built-in document by its URI, or NULL. */
const char *metaschema_text(const char *uri);

#endif
