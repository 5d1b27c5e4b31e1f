/* The spool's reading end: reads segments by offset, and frees segments that the controller has on disk. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The two counters, read without mapping, because the file may be damaged; then they are just numbers. */
static int counters(int dir_fd, uint64_t *ret_size, uint64_t *ret_acked)
{
    CLEANUP(cleanup_close) int fd = openat(dir_fd, "status", O_RDONLY | O_CLOEXEC);
    _Static_assert(offsetof(struct status, acked) == offsetof(struct status, spool_bytes) + 8, "read together");
    uint64_t both[2];
    if (fd < 0 || pread(fd, both, sizeof both, offsetof(struct status, spool_bytes)) != sizeof both)
        return -1;
    atomic_thread_fence(memory_order_acquire);
    *ret_size = both[0];
    *ret_acked = both[1];
    return 0;
}

ssize_t spool_read(int dir_fd, uint64_t offset, void *out, size_t max, struct error *err)
{
    uint64_t size, acked;
    if (counters(dir_fd, &size, &acked) < 0)
        return error_set(err, ERROR_INFRA, "could not read the size of a spool");
    if (offset > size)
        return error_set(err, ERROR_PROTOCOL, "offset %llu is beyond the output's %llu bytes",
                         (unsigned long long)offset, (unsigned long long)size);
    if (max > size - offset)
        max = (size_t)(size - offset);
    size_t done = 0;
    while (done < max) {
        uint64_t at = offset + done, segment = at / SEGMENT_SIZE, inside = at % SEGMENT_SIZE;
        size_t part = max - done;
        if (part > SEGMENT_SIZE - inside)
            part = (size_t)(SEGMENT_SIZE - inside);
        char name[40];
        snprintf(name, sizeof name, "spool.%llu", (unsigned long long)segment);
        CLEANUP(cleanup_close) int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : pread(fd, (char *)out + done, part, (off_t)inside);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            if (done)
                break;
            return n < 0 ? error_errno(err, ERROR_INFRA, errno, "could not read output segment %llu",
                                       (unsigned long long)segment)
                         : error_set(err, ERROR_INFRA, "output segment %llu ends early", (unsigned long long)segment);
        }
        done += (size_t)n;
    }
    return (ssize_t)done;
}

void spool_ack(int dir_fd, uint64_t offset)
{
    uint64_t size, acked;
    if (counters(dir_fd, &size, &acked) < 0 || offset > size || offset <= acked)
        return;
    CLEANUP(cleanup_close) int fd = openat(dir_fd, "status", O_RDWR | O_CLOEXEC);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) < 0 || (size_t)info.st_size < sizeof(struct status))
        return;
    struct status *st = mmap(NULL, sizeof *st, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (st == MAP_FAILED)
        return;
    atomic_store_explicit(&st->acked, offset, memory_order_release);
    munmap(st, sizeof *st);
    for (uint64_t n = acked / SEGMENT_SIZE; n < offset / SEGMENT_SIZE; n++) {
        char name[40];
        snprintf(name, sizeof name, "spool.%llu", (unsigned long long)n);
        if (unlinkat(dir_fd, name, 0) < 0)
            break; /* never a long loop because of a damaged file's numbers */
    }
}

uint64_t spool_kept_from(int dir_fd)
{
    uint64_t size, acked;
    return counters(dir_fd, &size, &acked) < 0 ? 0 : acked / SEGMENT_SIZE * SEGMENT_SIZE;
}
