/*
 * A YAML mapping {schema: ..., data: ...}: compiling and validating end, and the verdict is the same with and without
 * diagnostics.
 */
#include "rhrun/schema.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *arena = arena_create();
    struct diagnostics d = {0};
    struct doc *doc = NULL;
    struct schema *schema = NULL;
    struct buf out = {0};
    if (doc_load_text("fuzz", (const char *)data, size, DOC_FORMAT_YAML, arena, &doc, &d, NULL) == 0) {
        const struct doc_node *root = doc_get(doc->root, "schema"), *value = doc_get(doc->root, "data");
        if (root && schema_compile(root, arena, &schema, &d, NULL) == 0) {
            size_t before = d.errors;
            bool good = schema_validate(schema, value ? value : doc->root, &d);
            if (good != (d.errors == before) || good != schema_validate(schema, value ? value : doc->root, NULL))
                abort();
        }
    }
    diagnostics_format(&d, true, &out);
    buf_free(&out);
    schema_destroy(schema);
    diagnostics_free(&d);
    arena_destroy(arena);
    return 0;
}
