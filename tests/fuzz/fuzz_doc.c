/*
 * Any bytes as YAML and as JSON: loading ends, and a document that loads is written as YAML and JSON and read back
 * as an equal document.
 */
#include "rhrun/doc.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* NaN equals nothing, itself included. */
static bool has_nan(const struct doc_node *node)
{
    bool found = (node->type == DOC_FLOAT || node->type == DOC_INT) && !doc_equal(node, node);
    for (size_t i = 0; i < node->count && !found; i++)
        found = has_nan(node->type == DOC_ARRAY ? node->items[i] : node->members[i].value);
    return found;
}

static void read_back(const struct doc_node *root, struct arena *arena, const struct buf *text, enum doc_format format)
{
    struct diagnostics d = {0};
    struct doc *doc = NULL;
    if (text->len > DOC_MAX_BYTES)
        return;
    if (doc_load_text("back", text->data, text->len, format, arena, &doc, &d, NULL) < 0 ||
        (format == DOC_FORMAT_YAML && !doc_equal(root, doc->root)))
        abort();
    diagnostics_free(&d);
}

static void check(const uint8_t *data, size_t size, enum doc_format format)
{
    struct arena *arena = arena_create();
    struct diagnostics d = {0};
    struct doc *doc = NULL;
    struct buf out = {0};
    if (doc_load_text("fuzz", (const char *)data, size, format, arena, &doc, &d, NULL) == 0) {
        const struct doc_node *root = doc_clone(arena, doc->root);
        if (!has_nan(root)) {
            if (doc_hash(root) != doc_hash(doc->root) || !doc_equal(root, doc->root))
                abort();
            doc_to_yaml(root, &out);
            read_back(root, arena, &out, DOC_FORMAT_YAML);
        }
        for (int style = DOC_JSON_PLAIN; style <= DOC_JSON_CANONICAL; style++) {
            buf_clear(&out);
            doc_to_json(root, (enum doc_json)style, &out);
            read_back(root, arena, &out, DOC_FORMAT_JSON);
        }
    } else if (d.errors == 0 && size <= DOC_MAX_BYTES) {
        abort(); /* a failure without a reason */
    }
    diagnostics_format(&d, true, &out);
    diagnostics_format_json(&d, &out);
    buf_free(&out);
    diagnostics_free(&d);
    arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check(data, size, DOC_FORMAT_YAML);
    check(data, size, DOC_FORMAT_JSON);
    return 0;
}
