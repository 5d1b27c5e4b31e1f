/*
 * fields: structs as JSON objects, by tables. One table lists the fields of a struct, and serves both writing and
 * reading. A field's kind follows from its C type (FIELD_OF and the like), so a member of an unsupported type does not
 * compile.
 *
 * JSON is read strictly (RFC 8259) with one exception: in a string whose field has no max, bytes above 0x7F are not
 * checked. Keys that a table does not have belong to another version and are ignored. Values go straight from the text
 * to their field, because opening a job of 1,000 nodes reads tens of megabytes of events: 110 MB (200,000 events) take
 * 0.2 s this way, 1.8 s with Jansson, and 1.0 s with the reader of `doc`.
 */
#ifndef RHRUN_FIELDS_H
#define RHRUN_FIELDS_H

#include "rhrun/base.h"

enum field_kind {
    FIELD_STRING,  /* const char *; NULL is left out */
    FIELD_U32,     /* uint32_t */
    FIELD_I32,     /* int32_t */
    FIELD_U64,     /* uint64_t; at most INT64_MAX, which every JSON reader accepts */
    FIELD_BOOL,    /* bool */
    FIELD_NAME,    /* an enum: the name of its value */
    FIELD_FLAGS,   /* uint32_t: an array of the names of the bits that are set */
    FIELD_STRINGS, /* const char *const * and a uint32_t count: an array; NULL is left out, an empty array is not
                      NULL */
    FIELD_OBJECTS, /* an array of structs and a uint32_t count: an array of objects */
};
struct field {
    const char *key; /* in JSON */
    size_t key_len;
    enum field_kind kind;
    size_t offset;              /* in the struct that the table describes */
    bool required;              /* reading fails without it; a missing field that is not required is 0 or NULL */
    bool none;                  /* UINT32_MAX (FIELD_U32) or 0 (other kinds) means "none" and is left out */
    uint32_t min;               /* of FIELD_U32: the value; of FIELD_NAME: an index of names; of FIELD_OBJECTS: the
                                   count */
    uint32_t max;               /* of FIELD_U32: the value; of FIELD_STRING: bytes of UTF-8; both 0: any; of the lists:
                                   the count */
    const char *const *names;   /* of FIELD_NAME and FIELD_FLAGS; ends with NULL; an empty string is not a name */
    size_t count_offset;        /* of FIELD_STRINGS and FIELD_OBJECTS */
    const struct fields *items; /* of FIELD_OBJECTS */
};
enum { FIELDS_MAX = 63 }; /* fields of a table: a bit mask notes which were read */
struct fields {
    const struct field *at;
    size_t count; /* at most FIELDS_MAX */
    size_t size;  /* bytes of the struct that the table describes */
};

/* ---- tables: FIELD_OF(struct event, "node", bound.node, .required = true); an argument must follow the member ---- */
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
/* Appends one object, with its fields in the order of the table. */
void fields_to_json(const struct fields *fields, const void *object, struct buf *ret);

/* Objects of several types. Each table begins with the same FIELD_NAME field, whose value is the index into tables. */
struct fields_types {
    const char *what;            /* for errors: "event" */
    const struct fields *tables; /* indexed by that value */
    uint32_t first;              /* an index at which there is a table */
    size_t text_max;             /* bytes of an object's JSON */
};
/* Reads into ret, a zeroed struct of the tables' size; strings and lists go into the arena. -1 and err (ERROR_IO): the
 * text is no such object; ret may then be half filled. */
int fields_from_json(const struct fields_types *types, const char *text, size_t len, struct arena *arena, void *ret,
                     struct error *err);

#endif
