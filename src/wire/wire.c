/*
 * Frames, the primitive fields and the spool record header. Everything read from outside is checked here, once: lengths
 * against the rest of the payload and the limits, NUL inside strings, unknown frame types. A fault sticks in `bad`, so
 * callers read a whole message and check once.
 */
#include "rhrun/wire.h"

#include <string.h>

static void store_u32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static void store_u64(uint8_t *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static uint32_t load_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t load_u64(const uint8_t *p)
{
    return (uint64_t)load_u32(p) | (uint64_t)load_u32(p + 4) << 32;
}

/* ---- frames ---- */

static bool type_known(uint32_t type)
{
    return (type >= WIRE_HELLO && type <= WIRE_JUDGE) || (type >= WIRE_HELLO_OK && type <= WIRE_PROBED);
}

size_t wire_begin(struct buf *out, enum wire_type type)
{
    size_t start = out->len;
    const uint8_t header[WIRE_HEADER_SIZE] = {0, 0, 0, 0, (uint8_t)type, 0, 0, 0};
    buf_append(out, header, sizeof header);
    return start;
}

void wire_end(struct buf *out, size_t start)
{
    store_u32((uint8_t *)out->data + start, (uint32_t)(out->len - start - WIRE_HEADER_SIZE));
}

void wire_put_u8(struct buf *out, uint8_t v)
{
    buf_append(out, &v, 1);
}

void wire_put_u32(struct buf *out, uint32_t v)
{
    uint8_t p[4];
    store_u32(p, v);
    buf_append(out, p, sizeof p);
}

void wire_put_u64(struct buf *out, uint64_t v)
{
    uint8_t p[8];
    store_u64(p, v);
    buf_append(out, p, sizeof p);
}

void wire_put_bytes(struct buf *out, const void *data, size_t len)
{
    wire_put_u32(out, (uint32_t)len);
    buf_append(out, data, len);
}

void wire_put_string(struct buf *out, const char *s)
{
    wire_put_bytes(out, s ? s : "", s ? strlen(s) : 0);
}

void wire_put_strings(struct buf *out, const struct wire_strings *list)
{
    wire_put_u32(out, list->count);
    for (uint32_t i = 0; i < list->count; i++)
        wire_put_string(out, list->items[i]);
}

int wire_peek(const struct buf *in, enum wire_type *ret_type, const uint8_t **ret_payload, uint32_t *ret_len)
{
    if (in->len < WIRE_HEADER_SIZE)
        return 0;
    const uint8_t *p = (const uint8_t *)in->data;
    uint32_t len = load_u32(p), type = (uint32_t)p[4] | (uint32_t)p[5] << 8;
    if (len > WIRE_PAYLOAD_MAX || p[6] || p[7] || !type_known(type))
        return -1;
    if (in->len - WIRE_HEADER_SIZE < len)
        return 0;
    *ret_type = (enum wire_type)type;
    *ret_payload = p + WIRE_HEADER_SIZE;
    *ret_len = len;
    return 1;
}

/* ---- reading ---- */

/* The next n bytes, or NULL and a sticky fault. */
static const uint8_t *take(struct wire_in *in, size_t n)
{
    if (in->bad || (size_t)(in->end - in->p) < n) {
        in->bad = true;
        return NULL;
    }
    const uint8_t *p = in->p;
    in->p += n;
    return p;
}

uint8_t wire_get_u8(struct wire_in *in)
{
    const uint8_t *p = take(in, 1);
    return p ? *p : 0;
}

uint32_t wire_get_u32(struct wire_in *in)
{
    const uint8_t *p = take(in, 4);
    return p ? load_u32(p) : 0;
}

uint64_t wire_get_u64(struct wire_in *in)
{
    const uint8_t *p = take(in, 8);
    return p ? load_u64(p) : 0;
}

const uint8_t *wire_get_bytes(struct wire_in *in, uint32_t *ret_len)
{
    static const uint8_t nothing[1] = {0};
    uint32_t len = wire_get_u32(in);
    const uint8_t *p = take(in, len);
    *ret_len = p ? len : 0;
    return p ? p : nothing;
}

char *wire_get_string(struct wire_in *in)
{
    uint32_t len;
    const uint8_t *p = wire_get_bytes(in, &len);
    if (len > WIRE_STRING_MAX || (len && memchr(p, 0, len))) {
        in->bad = true;
        len = 0;
    }
    return arena_strndup(in->arena, (const char *)p, len);
}

struct wire_strings wire_get_strings(struct wire_in *in)
{
    struct wire_strings list = {NULL, 0};
    uint32_t count = wire_get_u32(in);
    /* every item needs at least its length field, so a false count cannot make us allocate */
    if (in->bad || count > WIRE_LIST_MAX || count > (size_t)(in->end - in->p) / 4) {
        in->bad = true;
        return list;
    }
    list.items = arena_array(in->arena, (size_t)count + 1, sizeof *list.items);
    for (uint32_t i = 0; i < count; i++)
        list.items[i] = wire_get_string(in);
    list.count = count;
    return list;
}

bool wire_in_done(const struct wire_in *in)
{
    return !in->bad && in->p == in->end;
}

bool wire_id_valid(const char *id)
{
    return id && str_is_hex(id, WIRE_ID_LEN);
}

/* ---- spool records ---- */

void wire_spool_put(uint8_t out[WIRE_SPOOL_HEADER], const struct wire_spool *h)
{
    store_u32(out, h->len);
    store_u32(out + 4, h->rank);
    store_u32(out + 8, h->stream);
    store_u64(out + 12, h->wall_ms);
}

bool wire_spool_get(const uint8_t in[WIRE_SPOOL_HEADER], struct wire_spool *ret)
{
    struct wire_spool h = {load_u32(in), load_u32(in + 4), in[8], load_u64(in + 12)};
    if (h.len > WIRE_SPOOL_DATA_MAX || h.stream < WIRE_STREAM_OUT || h.stream > WIRE_STREAM_END || in[9] || in[10] ||
        in[11])
        return false;
    *ret = h;
    return true;
}

void wire_spool_end_put(uint8_t out[WIRE_END_SIZE], const struct wire_worker_end *end)
{
    store_u32(out, end->cause);
    store_u32(out + 4, (uint32_t)end->value);
    store_u64(out + 8, end->end_mono_ns);
}

bool wire_spool_end_get(const uint8_t *in, size_t len, struct wire_worker_end *ret)
{
    if (len != WIRE_END_SIZE || load_u32(in) == WIRE_CAUSE_NONE || load_u32(in) > WIRE_CAUSE_LAST)
        return false;
    ret->cause = in[0];
    ret->value = (int32_t)load_u32(in + 4);
    ret->end_mono_ns = load_u64(in + 8);
    return true;
}
