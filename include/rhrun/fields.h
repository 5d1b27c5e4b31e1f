/*
 * fields: structs as JSON objects, by tables. A table names the fields of a struct once: what is written is read, key
 * by key. A field's kind follows from its C type (FIELD_OF and the like), so one of another type does not compile.
 *
 * JSON is read strictly (RFC 8259) but for one thing: bytes above 0x7F in strings are taken as they are, where the
 * field has no max. Keys that a table does not have are of another version, and passed over. Values go straight from
 * the text to their field, for opening a job of 1,000 nodes reads tens of megabytes of events: of 110 MB (200,000
 * events) that takes 0.2 s; Jansson needs 1.8 s, the reader of `doc` 1.0 s.
 */
#ifndef RHRUN_FIELDS_H
#define RHRUN_FIELDS_H

#include "rhrun/base.h"

enum field_kind {
    FIELD_STRING,  /* const char *; NULL is left out */
    FIELD_U32,     /* uint32_t */
    FIELD_I32,     /* int32_t */
    FIELD_U64,     /* uint64_t; at most INT64_MAX: what every JSON reader takes */
    FIELD_BOOL,    /* bool */
    FIELD_NAME,    /* an enum: the name of its value */
    FIELD_FLAGS,   /* uint32_t: an array of the names of the bits that are set */
    FIELD_STRINGS, /* const char *const * and a uint32_t count: an array; NULL is left out, an empty one is not NULL */
    FIELD_OBJECTS, /* an array of structs and a uint32_t count: an array of objects */
};
struct field {
    const char *key; /* in JSON */
    size_t key_len;
    enum field_kind kind;
    size_t offset;              /* in the struct that the table is of */
    bool required;              /* reading fails without it; what is not required and not there is 0 or NULL */
    bool none;                  /* FIELD_U32's UINT32_MAX, 0 of the others: stands for "none", and is left out */
    uint32_t min;               /* of FIELD_U32; of FIELD_NAME, as an index of names; of FIELD_OBJECTS: how many */
    uint32_t max;               /* of FIELD_U32, and bytes of FIELD_STRING's UTF-8, 0: any; of the lists: how many */
    const char *const *names;   /* of FIELD_NAME and FIELD_FLAGS; NULL behind the last, an empty one is not a name */
    size_t count_offset;        /* of FIELD_STRINGS and FIELD_OBJECTS */
    const struct fields *items; /* of FIELD_OBJECTS */
};
enum { FIELDS_MAX = 63 }; /* of a table: seen ones are a bit mask */
struct fields {
    const struct field *at;
    size_t count; /* at most FIELDS_MAX */
    size_t size;  /* bytes of the struct that has them */
};

/* ---- tables: FIELD_OF(struct event, "node", bound.node, .required = true); something stands behind the member ---- */
#define FIELD_KIND(member) \
    _Generic((member), const char *: FIELD_STRING, uint32_t: FIELD_U32, int32_t: FIELD_I32, uint64_t: FIELD_U64, \
             bool: FIELD_BOOL)
#define FIELD_OF(type, key, member, ...)                                                          \
    {                                                                                             \
        key, sizeof key - 1, FIELD_KIND(((type *)0)->member), offsetof(type, member), __VA_ARGS__ \
    }
#define FIELD_NAME_OF(type, key, member, of_names, ...)                                         \
    {                                                                                           \
        key, sizeof key - 1, FIELD_NAME, offsetof(type, member), .names = of_names, __VA_ARGS__ \
    }
#define FIELD_FLAGS_OF(type, key, member, of_names, ...)                                         \
    {                                                                                            \
        key, sizeof key - 1, FIELD_FLAGS, offsetof(type, member), .names = of_names, __VA_ARGS__ \
    }
#define FIELD_COUNT(type, member) _Generic(((type *)0)->member, uint32_t : offsetof(type, member))
#define FIELD_LIST(member) _Generic((member), const char *const * : FIELD_STRINGS)
#define FIELD_STRINGS_OF(type, key, member, count, ...)                                \
    {                                                                                  \
        key, sizeof key - 1, FIELD_LIST(((type *)0)->member), offsetof(type, member),  \
            .count_offset = FIELD_COUNT(type, count), __VA_ARGS__                      \
    }
#define FIELD_OBJECTS_OF(type, key, member, count, of_fields, ...)                \
    {                                                                             \
        key, sizeof key - 1, FIELD_OBJECTS, offsetof(type, member),               \
            .count_offset = FIELD_COUNT(type, count), .items = of_fields, __VA_ARGS__ \
    }

/* ---- writing and reading ---- */
/* Appends one object; fields in the order of the table. */
void fields_to_json(const struct fields *fields, const void *object, struct buf *ret);

/* Objects of several types, told apart by a field that all tables begin with: a FIELD_NAME whose value is the index. */
struct fields_types {
    const char *what;            /* for errors: "event" */
    const struct fields *tables; /* by that value */
    uint32_t first;              /* the index of one that there is */
    size_t text_max;             /* bytes of an object's JSON */
};
/* Into a struct of zeros of the size that the tables have; strings and lists into the arena. -1 and err (ERROR_IO): it
 * is none; ret may be half filled. */
int fields_from_json(const struct fields_types *types, const char *text, size_t len, struct arena *arena, void *ret,
                     struct error *err);

#endif
