/*
 * schema: JSON Schema 2020-12 (json-schema.org/draft/2020-12) over doc trees.
 *
 * A schema is compiled once: references are bound, patterns compiled by PCRE2 (with JIT if it works, and match limits),
 * properties hashed. Validation then walks document and schema together and reports *all* faults with their place, what
 * was expected, and the nearest key or value. All vocabularies are implemented; `format` and content* are annotations
 * only, which is the specification's default. References stay inside the documents given and the 2020-12 metaschema,
 * which is built in: nothing is fetched.
 *
 * For anyOf and oneOf, the faults of the best fitting branch are reported instead of "matches none". The best branch is
 * chosen by type, then matching `const` keys, then present required keys, then fewest faults. Two keys of our own shape
 * the words: `x-expected` (a string) in a subschema replaces the generated "expected ..." text for that value; `x-hint`
 * (a string) is given as the hint when that subschema fails by itself.
 *
 * Validation ends on any input: SCHEMA_MAX_DEPTH bounds recursion, and a step budget bounds all work. A document that
 * exceeds either gets a fault of its own and is never accepted.
 */
#ifndef RHRUN_SCHEMA_H
#define RHRUN_SCHEMA_H

#include "rhrun/base.h"
#include "rhrun/doc.h"

#define SCHEMA_MAX_DEPTH 512 /* levels of nested subschemas */

struct schema; /* a compiled schema; memory in the arena, patterns released by schema_destroy */

/* Compiles root, which must stay alive as long as the schema. 0 and *ret_schema, or -1 with the faults of
 * the schema itself (unknown reference, bad pattern, wrong type of a keyword) in diagnostics (may be
 * NULL) and err: the first of them. */
int schema_compile(const struct doc_node *root, struct arena *arena, struct schema **ret_schema,
                   struct diagnostics *diagnostics, struct error *err);
/* The same with further documents that references may name by their URI. */
struct schema_document {
    const char *uri;
    const struct doc_node *root;
};
int schema_compile_with(const struct doc_node *root, const struct schema_document *documents, size_t count,
                        struct arena *arena, struct schema **ret_schema, struct diagnostics *diagnostics,
                            struct error *err);
/* True when node is valid. With diagnostics NULL it stops at the first fault. The schema is only read, so threads may
 * share it. */
bool schema_validate(const struct schema *schema, const struct doc_node *node, struct diagnostics *diagnostics);
void schema_destroy(struct schema *schema); /* takes NULL; the arena's memory stays */

#endif
