/* wire: any bytes as a stream of frames; what is accepted must come out of a second trip unchanged. */
#include "rhrun/wire.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool again(enum wire_type type, struct wire_in *in, struct buf *out)
{
    struct wire_hello h;
    struct wire_facts f;
    struct wire_run r;
    struct wire_record rec;
    struct wire_sync sync;
    struct wire_file file;
    struct wire_check c;
    struct wire_sync_state st;
    struct wire_entries e;
    switch ((int)type) {
    case WIRE_HELLO:
        return wire_get_hello(in, &h) && (wire_put_hello(out, &h), true);
    case WIRE_HELLO_OK:
        return wire_get_facts(in, &f) && (wire_put_facts(out, &f), true);
    case WIRE_RUN:
        return wire_get_run(in, &r) && (wire_put_run(out, &r), true);
    case WIRE_RECORD:
    case WIRE_EXIT:
        return wire_get_record(in, &rec) && (wire_put_record(out, type, &rec), true);
    case WIRE_SYNC:
        return wire_get_sync(in, &sync) && (wire_put_sync(out, &sync), true);
    case WIRE_FILE:
        return wire_get_file(in, &file) && (wire_put_file(out, &file), true);
    case WIRE_CHECK:
        return wire_get_check(in, &c) && (wire_put_check(out, &c), true);
    case WIRE_SYNC_STATE:
        return wire_get_sync_state(in, &st) && (wire_put_sync_state(out, &st), true);
    case WIRE_PATCHED:
        return wire_get_patched(in, &st) && (wire_put_patched(out, &st), true);
    case WIRE_ENTRIES:
        return wire_get_entries(in, &e) && (wire_put_entries(out, &e), true);
    default: /* the small ones: a string, a list, an integer */
        wire_get_string(in);
        wire_get_strings(in);
        wire_get_u64(in);
        return false;
    }
}

/* Bytes as a spool's record, and as the END in one. */
static void spool(const uint8_t *data, size_t size)
{
    struct wire_spool h;
    struct wire_worker_end end;
    uint8_t raw[WIRE_SPOOL_HEADER], raw_end[WIRE_END_SIZE];
    if (size >= sizeof raw && wire_spool_get(data, &h)) {
        wire_spool_put(raw, &h);
        if (memcmp(raw, data, sizeof raw) != 0)
            abort();
    }
    if (wire_spool_end_get(data, size, &end)) {
        wire_spool_end_put(raw_end, &end);
        if (memcmp(raw_end, data, sizeof raw_end) != 0)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf in = {0}, out = {0};
    struct arena *arena = arena_create();
    enum wire_type type;
    const uint8_t *payload;
    uint32_t len;
    buf_append(&in, data, size);
    while (wire_peek(&in, &type, &payload, &len) == 1) {
        struct wire_in reader = {payload, payload + len, arena, false};
        buf_clear(&out);
        if (again(type, &reader, &out) &&
            (out.len != WIRE_HEADER_SIZE + (size_t)len || memcmp(out.data, in.data, out.len) != 0))
            abort();
        buf_consume(&in, WIRE_HEADER_SIZE + (size_t)len);
        arena_reset(arena);
    }
    spool(data, size);
    arena_destroy(arena);
    buf_free(&in);
    buf_free(&out);
    return 0;
}
