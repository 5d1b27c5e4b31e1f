/* Private to doc: what the two readers and the writer share. */
#ifndef RHRUN_DOC_INTERNAL_H
#define RHRUN_DOC_INTERNAL_H

#include "rhrun/doc.h"

/* A document being read. Readers count nodes here, so that both keep the same limits. */
struct loader {
    struct arena *arena;
    struct doc *doc;
    struct diagnostics *diagnostics;
    size_t nodes;    /* made so far */
    size_t expanded; /* nodes that aliases and merges add when written out */
};

/* The readers return the root, or NULL after adding an error. */
struct doc_node *doc_read_yaml(struct loader *loader);
struct doc_node *doc_read_json(struct loader *loader);

/* A new node at place, or NULL with an error when there are too many. */
struct doc_node *doc_loader_node(struct loader *loader, enum doc_type type, struct place place);
/* Sets type, text and value as the YAML 1.2 core schema reads a plain scalar. text is kept, not copied. */
void doc_resolve_plain(struct doc_node *node, const char *text, size_t len);
/* The length of a valid UTF-8 character at s, 0 for an invalid one. *ret gets the code point. */
size_t doc_utf8(const char *s, size_t len, uint32_t *ret);
/* Whether text is a number by the grammar of JSON. */
bool doc_is_json_number(const char *text, size_t len);
/* The shortest text that reads back as value; always a float by its looks ("2.0"), in any locale. */
void doc_format_float(double value, struct buf *ret);
/* Appends a member without looking for the key; key is kept, not copied. */
struct doc_member *doc_push_member(struct arena *arena, struct doc_node *object, const char *key, size_t key_len);
uint64_t doc_hash_bytes(const void *data, size_t len, uint64_t seed);

#endif
