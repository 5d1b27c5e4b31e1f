/*
 * Tables of a message's plain fields, in the order of the wire: the same table writes and reads, so the two
 * directions cannot drift apart.
 */
#ifndef RHRUN_WIRE_INTERNAL_H
#define RHRUN_WIRE_INTERNAL_H

#include "rhrun/wire.h"

enum field_type { FIELD_U8, FIELD_U32, FIELD_U64, FIELD_STRING, FIELD_STRINGS };
struct field { /* small: the agent has a few hundred of them */
    uint16_t type; /* enum field_type */
    uint16_t offset;
};

#define U8(s, f)                        \
    {                                   \
        FIELD_U8, offsetof(struct s, f) \
    }
#define U32(s, f)                        \
    {                                    \
        FIELD_U32, offsetof(struct s, f) \
    } /* int32_t too */
#define U64(s, f)                        \
    {                                    \
        FIELD_U64, offsetof(struct s, f) \
    }
#define STRING(s, f)                        \
    {                                       \
        FIELD_STRING, offsetof(struct s, f) \
    }
#define STRINGS(s, f)                        \
    {                                        \
        FIELD_STRINGS, offsetof(struct s, f) \
    }

void wire_put_fields(struct buf *out, const void *message, const struct field *fields, size_t count);
void wire_get_fields(struct wire_in *in, void *message, const struct field *fields, size_t count);
/* Reads a count of structs of at least min_size bytes each; 0 and a fault if the payload is too short for so many. */
uint32_t wire_get_count(struct wire_in *in, uint32_t max, size_t min_size);
bool wire_name_valid(const char *s); /* names a file on the node: one path component, not hidden */

#define PUT(out, m, fields) wire_put_fields(out, m, fields, ARRAY_LEN(fields))
#define GET(in, m, fields) wire_get_fields(in, m, fields, ARRAY_LEN(fields))

#endif
