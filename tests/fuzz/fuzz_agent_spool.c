/*
 * Any bytes as an attempt's spool on a node, with any counters in its status: what is read lies in the segments as they are,
 * and an attached attempt comes to its end with frames that follow each other without a gap.
 */
#include "../../src/agent/internal.h"
#include "scene.h"

#include <sys/stat.h>

static const char attempt[] = "0123456789abcdef0123456789abcdef";
static struct ledger ledger;
static int dir_fd;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    static char boot[] = "boot";
    scene_begin();
    CLEANUP(cleanup_free) char *dir = xasprintf("%s/%s", scene_dir, attempt);
    int a_fd = mkdir(dir, 0700) < 0 ? -1 : open(scene_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ledger = (struct ledger){.a_fd = a_fd, .boot_id = boot, .read_only = true};
    return a_fd < 0 || dir_fd < 0 ? -1 : 0;
}

/* Segment `at` has the piece around its end, or at its beginning; a hole before it. */
static void put_segment(unsigned at, const uint8_t *data, size_t len, bool at_end)
{
    char name[40];
    snprintf(name, sizeof name, "spool.%u", at);
    CLEANUP(cleanup_close) int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    len = len < SEGMENT_SIZE ? len : SEGMENT_SIZE;
    if (fd < 0 || pwrite(fd, data, len, at_end ? (off_t)(SEGMENT_SIZE - len) : 0) != (ssize_t)len)
        abort();
}

static void put_status(uint64_t bytes, uint64_t acked, uint8_t state)
{
    struct status st = {.version = STATUS_VERSION, .state = state};
    memcpy(st.attempt, attempt, sizeof attempt);
    st.spool_bytes = bytes;
    st.acked = acked;
    CLEANUP(cleanup_close) int fd = openat(dir_fd, "status", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write_all(fd, &st, sizeof st) < 0)
        abort();
}

static void check_read(uint64_t bytes, uint64_t offset)
{
    static uint8_t out[4096], byte;
    struct error err = ERROR_INIT;
    ssize_t n = spool_read(dir_fd, offset, out, sizeof out, &err);
    if (n < 0 && !err.code)
        abort();
    if (n > 0 && ((uint64_t)n > bytes || offset > bytes - (uint64_t)n))
        abort(); /* beyond what was published */
    for (ssize_t i = 0; i<n; i += n> 64 ? n / 64 : 1)
        if (spool_read(dir_fd, offset + (uint64_t)i, &byte, 1, &err) != 1 || byte != out[i])
            abort();
}

/* Frames of output: each begins where the one before ended. True: its end came too. */
static bool check_frames(struct buf *out, uint64_t *at)
{
    enum wire_type type;
    const uint8_t *payload;
    uint32_t len;
    bool over = false;
    while (wire_peek(out, &type, &payload, &len) == 1) {
        struct arena *arena = arena_create();
        struct wire_in in = {payload, payload + len, arena, false};
        if (type == WIRE_OUTPUT) {
            uint32_t size;
            if (strcmp(wire_get_string(&in), attempt) != 0 || wire_get_u64(&in) != *at)
                abort();
            (void)wire_get_bytes(&in, &size);
            if (!size || !wire_in_done(&in))
                abort();
            *at += size;
        } else if (type == WIRE_EXIT) {
            struct wire_record record;
            if (!wire_get_record(&in, &record))
                abort();
            over = true;
        }
        buf_consume(out, WIRE_HEADER_SIZE + (size_t)len);
        arena_destroy(arena);
    }
    return over;
}

static void stream(uint64_t offset)
{
    struct streams all = {0};
    struct out out = {0};
    struct error err = ERROR_INIT;
    bool over = false;
    if (stream_attach(&all, &ledger, attempt, offset, &err) < 0)
        abort();
    uint64_t at = all.items[0].offset;
    for (int turn = 0; turn < 200 && stream_turn(&all, &ledger, &out); turn++)
        over |= check_frames(&out.output, &at);
    if (all.count && stream_wait_ms(&all, &ledger, &out) != 0 && !over)
        abort(); /* nobody holds its lock: it ends */
    while (all.count)
        stream_detach(&all, &all.items[0]);
    free(all.items);
    buf_free(&out.control);
    buf_free(&out.output);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct scene_input in = {data, size};
    uint64_t numbers[3] = {0};
    uint8_t flags = scene_byte(&in);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        uint8_t how = scene_byte(&in); /* near a segment's bounds, or anything */
        numbers[i] = (uint64_t)(how & 3) * SEGMENT_SIZE + scene_byte(&in) - 128;
        if (how & 4)
            numbers[i] = (uint64_t)scene_byte(&in) << (how >> 3);
        if (how & 8)
            numbers[i] &= 0xff;
    }
    for (unsigned i = 0; i < 3; i++) {
        size_t len;
        const uint8_t *p = scene_piece(&in, &len);
        put_segment(i, p, len, flags >> i & 1);
    }
    put_status(numbers[0], numbers[1], flags >> 3 & 3 ? flags >> 3 & 3 : WIRE_STATE_ENDED);
    check_read(numbers[0], numbers[2]);
    stream(numbers[2]);
    spool_ack(dir_fd, numbers[2]);
    if (spool_kept_from(dir_fd) > (numbers[0] > numbers[1] ? numbers[0] : numbers[1]))
        abort();
    return 0;
}
