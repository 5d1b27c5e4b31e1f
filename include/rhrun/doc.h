/*
 * doc: YAML and JSON documents as one tree with positions.
 *
 * A document is text that a user wrote. Its tree keeps the place of every value and, for scalars, the source text
 * itself: `1e-3` in an argument list stays `1e-3` on the worker's command line, whatever number the schema compares.
 * YAML is read through libyaml's events with the YAML 1.2 *core* scalars (yaml.org/spec/1.2.2, 10.3: `no`, `on` and
 * `yes` are strings), anchors, aliases and `<<` merges resolved. JSON is read by a strict RFC 8259 parser. All faults
 * become diagnostics.
 *
 * Everything is allocated in the arena passed in; strings have a length and a NUL at the end. Aliases of one anchor
 * share one subtree: clone a tree (doc_clone) before changing it. Limits: DOC_MAX_BYTES, DOC_MAX_DEPTH (aliases
 * followed), DOC_MAX_NODES, and at most DOC_MAX_ALIAS_NODES additional nodes when all aliases and merges are written
 * out.
 */
#ifndef RHRUN_DOC_H
#define RHRUN_DOC_H

#include "rhrun/base.h"

#define DOC_MAX_BYTES (4u << 20)
#define DOC_MAX_DEPTH 64
#define DOC_MAX_NODES 1000000u
#define DOC_MAX_ALIAS_NODES 100000u

enum doc_type { DOC_NULL, DOC_BOOL, DOC_INT, DOC_FLOAT, DOC_STRING, DOC_ARRAY, DOC_OBJECT };

enum doc_format {
    DOC_FORMAT_AUTO, /* by the file name: *.json is JSON, everything else YAML */
    DOC_FORMAT_YAML,
    DOC_FORMAT_JSON,
};

struct doc_member {
    const char *key; /* NUL-terminated */
    size_t key_len;
    struct place key_place; /* of a merged member: its place in the map that was merged */
    struct doc_node *value; /* never NULL */
};

struct doc_node {
    enum doc_type type;
    bool quoted;  /* a string written in quotes or as a block scalar; false for a built node */
    bool boolean; /* DOC_BOOL */
    bool big;     /* DOC_INT beyond int64: `integer` is clamped, `number` the nearest double, text exact */
    struct place place; /* place of the value; source NULL for a built node */
    struct place alias; /* place of the alias (*name) that put it here; source NULL when there is none */
    const char *text;   /* of a scalar: its source text ("0x1f", "1e-3", "~"); of a string: its value; never NULL */
    size_t text_len;
    int64_t integer; /* DOC_INT */
    double number;   /* DOC_INT and DOC_FLOAT */
    size_t count;    /* of items or members */
    struct doc_node **items;    /* DOC_ARRAY */
    struct doc_member *members; /* DOC_OBJECT, in file order; merged members come last */
    size_t cap;                 /* private: room in items or members */
    uint32_t *index;            /* private: hash table over members, NULL for small objects */
    size_t index_cap;           /* private */
    uint32_t expanded;          /* private: nodes from this one down, aliases written out */
    uint32_t height;            /* private: levels from this one down */
};

struct doc {
    struct source source; /* places point to it; text lies in the arena */
    enum doc_format format;
    struct doc_node *root; /* never NULL; an empty YAML file is DOC_NULL */
};

/* ---- loading ---- */
/* All return 0 and *ret_doc, or -1 and err (ERROR_SPEC). For faults in the text, diagnostics has at least one error and
 * err is a summary ("job.yaml: 2 faults"); for a file that cannot be read there is err alone ("cannot read "x.yaml": No
 * such file or directory"). The diagnostics point into the arena. "-" is an ordinary file name.
 *
 * Messages quote a file's text only if the file, with all links resolved, lies in the folder `home` or in the git
 * repository around `home`. (A repository whose top is the user's home directory does not count: then only the folder
 * does.) Otherwise the source is hidden (struct source): the target of a stranger's link is not shown. doc_load_file:
 * home is the path's own folder. */
int doc_load_file(const char *path, enum doc_format format, struct arena *arena, struct doc **ret_doc,
                  struct diagnostics *diagnostics, struct error *err);
int doc_load_below(const char *path, const char *home, enum doc_format format, struct arena *arena,
                   struct doc **ret_doc, struct diagnostics *diagnostics, struct error *err);
/* Sets the message for faults in a hidden source from here on, in place of "the text cannot be read as YAML". */
void doc_hidden_says(struct doc *doc, const char *message);
/* text is copied. name is the document's name in messages ("--set params.n"). */
int doc_load_text(const char *name, const char *text, size_t len, enum doc_format format, struct arena *arena,
                  struct doc **ret_doc, struct diagnostics *diagnostics, struct error *err);
/* A string value may hold NUL ("a\0b" in quotes), which no argv or path can. Adds a fault for each string or key below
 * node with a NUL; true when there is none. */
bool doc_refuse_nul(const struct doc_node *node, struct diagnostics *diagnostics);

/* ---- reading ---- */
/* NULL when node is NULL, no object, or has no such key. Constant time in large objects. */
struct doc_node *doc_get(const struct doc_node *node, const char *key);
struct doc_member *doc_get_member(const struct doc_node *node, const char *key, size_t key_len);
/* By JSON pointer (RFC 6901): "" is node itself, "/a/0/b~1c". NULL when nothing is there. */
struct doc_node *doc_get_path(const struct doc_node *node, const char *pointer);
/* The value of key if it has the wanted type, else `otherwise`. doc_get_string gives strings only; doc_get_text gives
 * the source text of any scalar except null (`nnodes: 2` gives "2"). */
const char *doc_get_string(const struct doc_node *node, const char *key, const char *otherwise);
const char *doc_get_text(const struct doc_node *node, const char *key, const char *otherwise);
int64_t doc_get_int(const struct doc_node *node, const char *key, int64_t otherwise);
bool doc_get_bool(const struct doc_node *node, const char *key, bool otherwise);
/* True if the value is an integer within int64: a DOC_INT that is not big, or a DOC_FLOAT such as 2.0. */
bool doc_is_integer(const struct doc_node *node, int64_t *ret);
/* Equality of JSON Schema: 1 equals 1.0, member order does not count; NaN equals nothing. */
bool doc_equal(const struct doc_node *a, const struct doc_node *b);
/* A hash that agrees with doc_equal. */
uint64_t doc_hash(const struct doc_node *node);
/* "a string", "an integer", "a mapping", ...: the words that messages use. */
const char *doc_type_words(enum doc_type type);
/* Appends "/" and the key with ~ and / escaped, as a JSON pointer wants it. */
void doc_pointer_append(struct buf *pointer, const char *key, size_t key_len);
/* Appends a scalar as a message quotes it ("\"abc\"", 12, true; long text is cut); for other types their words. */
void doc_describe(const struct doc_node *node, struct buf *ret);

/* ---- building ---- */
/* Built nodes have no place until the caller sets one. Strings are copied into the arena. */
struct doc_node *doc_new_null(struct arena *arena);
struct doc_node *doc_new_bool(struct arena *arena, bool value);
struct doc_node *doc_new_int(struct arena *arena, int64_t value);
struct doc_node *doc_new_float(struct arena *arena, double value);
struct doc_node *doc_new_string(struct arena *arena, const char *text);
struct doc_node *doc_new_stringn(struct arena *arena, const char *text, size_t len);
struct doc_node *doc_new_plain(struct arena *arena, const char *text); /* gets the type of an unquoted YAML scalar */
struct doc_node *doc_new_array(struct arena *arena);
struct doc_node *doc_new_object(struct arena *arena);
void doc_append(struct arena *arena, struct doc_node *array, struct doc_node *item);
/* Replaces the value of an existing key, which keeps its position, else adds a member. */
void doc_set(struct arena *arena, struct doc_node *object, const char *key, struct doc_node *value);
bool doc_remove(struct doc_node *object, const char *key); /* false: was not there */
/* A deep copy that shares nothing with node (aliases written out); places are kept. */
struct doc_node *doc_clone(struct arena *arena, const struct doc_node *node);

/* ---- writing ---- */
enum doc_json {
    DOC_JSON_PLAIN,     /* one line, members in their order, numbers as written where JSON allows */
    DOC_JSON_PRETTY,    /* two blanks of indentation, a line per member */
    DOC_JSON_CANONICAL, /* one line, keys sorted by bytes, one spelling per number: for digests */
};
/* .inf and .nan, which JSON lacks, are written as strings. No newline at the end. */
void doc_to_json(const struct doc_node *node, enum doc_json style, struct buf *ret);
/* Block style; a string is quoted if plain text would not be read back as that string. Ends with a newline.
 * doc_load_text of the result is doc_equal to node. */
void doc_to_yaml(const struct doc_node *node, struct buf *ret);

#endif
