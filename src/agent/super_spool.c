/*
 * The spool's writing end. A turn's records are collected and written with one call, then published, then the bell is
 * rung: few system calls, however many small writes the workers make. It never waits: output beyond the limit or the
 * disk's space is dropped and counted, and a note marks the place.
 */
#include "super.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum {
    BATCH_SIZE = 512 << 10,
    NOTE_MAX = 128,               /* header and text of a note */
    RESUME_MAX = 64 << 10,        /* a gap ends once there is this much room, so that acks do not make many small
                                     gaps */
    DISK_RETRY_NS = 200 * 1000000 /* how often a full disk is tried again */
};

void sink_init(struct sink *k, int dir_fd, struct status *status, int bell_fd, uint64_t limit)
{
    *k = (struct sink){.dir_fd = dir_fd, .segment_fd = -1, .bell_fd = bell_fd, .status = status, .limit = limit};
    k->batch = xmalloc(BATCH_SIZE + NOTE_MAX);
    k->base = atomic_load(&status->spool_bytes);
}

void sink_ring(const struct sink *k)
{
    ssize_t n = write(k->bell_fd, "", 1); /* if the bell is full, the agent wakes up anyway */
    (void)n;
}

static void gap_add(struct sink *k, uint32_t rank, uint64_t bytes, bool disk)
{
    if (!k->gap_bytes) {
        k->gap_rank = rank;
        k->gap_disk = disk;
    }
    k->gap_bytes += bytes;
    k->status->dropped |= disk ? WIRE_DROPPED_DISK : WIRE_DROPPED_LIMIT;
    k->status->dropped_bytes += bytes;
}

/* Writes len bytes at offset of the spool; returns how many were written before the first fault. */
static size_t write_at(struct sink *k, uint64_t offset, const uint8_t *data, size_t len)
{
    size_t done = 0;
    while (done < len) {
        uint64_t at = offset + done, segment = at / SEGMENT_SIZE, inside = at % SEGMENT_SIZE;
        if (k->segment_fd < 0 || k->segment != segment) {
            char name[40];
            snprintf(name, sizeof name, "spool.%llu", (unsigned long long)segment);
            if (k->segment_fd >= 0)
                close(k->segment_fd);
            k->segment = segment;
            k->segment_fd = openat(k->dir_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
            if (k->segment_fd < 0)
                break;
        }
        size_t part = len - done;
        if (part > SEGMENT_SIZE - inside)
            part = (size_t)(SEGMENT_SIZE - inside);
        ssize_t n = pwrite(k->segment_fd, data + done, part, (off_t)inside);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    return done;
}

void sink_flush(struct sink *k)
{
    if (!k->len)
        return;
    size_t written = write_at(k, k->base, k->batch, k->len), whole = written;
    if (written < k->len) { /* publish the records that are complete, count the others as dropped */
        k->disk_retry_ns = mono_ns() + DISK_RETRY_NS;
        struct wire_spool h;
        for (size_t at = whole = 0; at < k->len && wire_spool_get(k->batch + at, &h); at += WIRE_SPOOL_HEADER + h.len) {
            if (at + WIRE_SPOOL_HEADER + h.len <= written)
                whole = at + WIRE_SPOOL_HEADER + h.len;
            else if (h.stream != WIRE_STREAM_NOTE)
                gap_add(k, h.rank, h.len, true);
        }
    }
    k->len = 0;
    if (!whole)
        return;
    k->base += whole;
    atomic_store_explicit(&k->status->spool_bytes, k->base, memory_order_release);
    sink_ring(k);
}

uint8_t *sink_space(struct sink *k)
{
    if (k->len + WIRE_SPOOL_HEADER + WIRE_SPOOL_DATA_MAX + NOTE_MAX > BATCH_SIZE)
        sink_flush(k);
    return k->batch + k->len + WIRE_SPOOL_HEADER;
}

static uint64_t room(const struct sink *k)
{
    if (!k->limit)
        return UINT64_MAX;
    uint64_t size = k->base + k->len, acked = atomic_load_explicit(&k->status->acked, memory_order_relaxed);
    uint64_t used = size > acked ? size - acked : 0;
    return used < k->limit ? k->limit - used : 0;
}

/* Ends a gap with its note; the data_len bytes that wait after the next header move up. */
static void note_gap(struct sink *k, size_t data_len)
{
    char text[NOTE_MAX - WIRE_SPOOL_HEADER];
    int n = snprintf(text, sizeof text, "rhrun: %llu bytes of output dropped here (%s)\n",
                     (unsigned long long)k->gap_bytes, k->gap_disk ? "disk full" : "log limit");
    uint8_t *at = k->batch + k->len;
    struct wire_spool h = {(uint32_t)n, k->gap_rank, WIRE_STREAM_NOTE, k->now_ms};
    memmove(at + WIRE_SPOOL_HEADER + n + WIRE_SPOOL_HEADER, at + WIRE_SPOOL_HEADER, data_len);
    wire_spool_put(at, &h);
    memcpy(at + WIRE_SPOOL_HEADER, text, (size_t)n);
    k->len += WIRE_SPOOL_HEADER + (size_t)n;
    k->gap_bytes = 0;
}

void sink_commit(struct sink *k, uint32_t rank, enum wire_stream stream, size_t len)
{
    if (k->disk_retry_ns) { /* room below the limit does not help while the disk is full */
        if (mono_ns() < k->disk_retry_ns) {
            gap_add(k, rank, len, true);
            return;
        }
        k->disk_retry_ns = 0;
    }
    if (k->gap_bytes) {
        uint64_t enough = k->limit / 8 < RESUME_MAX ? k->limit / 8 : RESUME_MAX;
        if (room(k) < NOTE_MAX + WIRE_SPOOL_HEADER + enough) {
            gap_add(k, rank, len, k->gap_disk);
            return;
        }
        note_gap(k, len);
    }
    uint64_t left = room(k);
    size_t fits = left <= WIRE_SPOOL_HEADER        ? 0
                  : left - WIRE_SPOOL_HEADER < len ? (size_t)left - WIRE_SPOOL_HEADER
                                                   : len;
    if (fits) {
        struct wire_spool h = {(uint32_t)fits, rank, (uint8_t)stream, k->now_ms};
        wire_spool_put(k->batch + k->len, &h);
        k->len += WIRE_SPOOL_HEADER + fits;
    }
    if (fits < len)
        gap_add(k, rank, len - fits, false);
}

void sink_put(struct sink *k, uint32_t rank, enum wire_stream stream, const void *data, size_t len)
{
    const uint8_t *p = data;
    while (len) {
        size_t part = len < WIRE_SPOOL_DATA_MAX ? len : WIRE_SPOOL_DATA_MAX;
        memcpy(sink_space(k), p, part);
        sink_commit(k, rank, stream, part);
        p += part;
        len -= part;
    }
}

void sink_finish(struct sink *k)
{
    sink_flush(k);
    if (!k->gap_bytes)
        return;
    k->now_ms = wall_ms();
    note_gap(k, 0);
    sink_flush(k);
}

void sink_note(struct super *su, struct worker *w, const char *fmt, ...)
{
    struct buf text = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_puts(&text, "rhrun: ");
    buf_vprintf(&text, fmt, ap);
    buf_putc(&text, '\n');
    va_end(ap);
    su->sink.now_ms = wall_ms();
    sink_put(&su->sink, w->status->rank, WIRE_STREAM_NOTE, text.data, text.len);
    tail_add(&w->tail, (const uint8_t *)text.data, text.len);
    buf_free(&text);
}
