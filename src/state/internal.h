/* What event.c, event_json.c and scan.c share: the tables of the fields of events, and a scanner of JSON. */
#ifndef RHRUN_STATE_INTERNAL_H
#define RHRUN_STATE_INTERNAL_H

#include "rhrun/state.h"

/* ---- event.c: what an event of each type has, in the order in which it is written ---- */
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
    size_t offset;              /* in struct event, or in the struct of an item */
    bool required;              /* reading fails without it; what is not required and not there is 0 or NULL */
    bool none;                  /* FIELD_U32's UINT32_MAX, FIELD_U64's 0, false: stands for "none", and is left out */
    uint32_t min;               /* of FIELD_U32; of FIELD_NAME, as an index of names */
    uint32_t max;               /* of FIELD_U32, 0: any; of FIELD_STRINGS and FIELD_OBJECTS: how many */
    const char *const *names;   /* of FIELD_NAME and FIELD_FLAGS; NULL behind the last, an empty one is no name */
    size_t count_offset;        /* of FIELD_STRINGS and FIELD_OBJECTS */
    const struct fields *items; /* of FIELD_OBJECTS */
};
struct fields {
    const struct field *at;
    size_t count; /* below 64: seen ones are a bit mask */
    size_t size;  /* bytes of the struct that has them */
};
extern const struct fields event_fields[EVENT_LAST + 1]; /* by type; the first field of each is "type" */
extern const char *const event_type_names[];             /* NULL behind the last; index 0 is unused */

/* ---- scan.c: JSON text, token by token ---- */
/* Strict JSON (RFC 8259) but for one thing: bytes above 0x7F in strings are taken as they are. All that can fail return
 * -1 and say in err what was expected at which byte. */
struct scan {
    const char *at, *end, *start;
    struct arena *arena; /* where strings go */
    struct error *err;
};
int scan_fault(struct scan *s, const char *what); /* -1 */
int scan_expect(struct scan *s, char c);
bool scan_word(struct scan *s, const char *text); /* true, and past it, when it comes next */
int scan_string(struct scan *s, const char **ret);
int scan_integer(struct scan *s, int64_t min, int64_t max, int64_t *ret);
int scan_skip(struct scan *s); /* a value of any kind */
/* What stands between the quotes of the key that comes next, escapes as they are; s stays before it. */
int scan_peek_key(struct scan *s, const char **ret, size_t *ret_len);

static inline void scan_blanks(struct scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t'))
        s->at++;
}

/* True, and past it, when c comes next. */
static inline bool scan_take(struct scan *s, char c)
{
    scan_blanks(s);
    if (s->at >= s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

#endif
