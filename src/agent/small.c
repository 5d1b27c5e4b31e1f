/*
 * The agent is uploaded to every node, so its size matters: musl's versions of these functions are half as large as all
 * the rest. Ours do only what the agent needs (formats: %s %.*s %c %d %u %x with l, ll, z, 0 and a width; an unknown
 * format aborts). With glibc, whose parts call each other, glibc's functions stay.
 */
#include "internal.h"

#ifndef __GLIBC__
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- formatted text ---- */

struct text {
    char *out;
    size_t max, len; /* len: the length it needs */
};

static void put(struct text *t, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++, t->len++)
        if (t->len + 1 < t->max)
            t->out[t->len] = s[i];
}

static void put_number(struct text *t, uint64_t value, bool negative, unsigned base, size_t width)
{
    char digits[24];
    size_t n = 0;
    do
        digits[sizeof digits - ++n] = "0123456789abcdef"[value % base];
    while ((value /= base) || (n < width && n < sizeof digits - 1));
    if (negative)
        digits[sizeof digits - ++n] = '-';
    put(t, digits + sizeof digits - n, n);
}

int vsnprintf(char *out, size_t max, const char *fmt, va_list ap)
{
    struct text t = {out, max, 0};
    for (const char *p = fmt; *p; p++) {
        size_t plain = strcspn(p, "%");
        put(&t, p, plain);
        p += plain;
        if (!*p++)
            break;
        size_t width = 0, precision = SIZE_MAX;
        int longs = 0;
        for (; *p >= '0' && *p <= '9'; p++) /* numbers are filled with zeros only */
            width = 10 * width + (size_t)(*p - '0');
        if (*p == '.' && p[1] == '*') {
            precision = (size_t)va_arg(ap, int);
            p += 2;
        } else if (*p == '.') {
            for (precision = 0, p++; *p >= '0' && *p <= '9'; p++)
                precision = 10 * precision + (size_t)(*p - '0');
        }
        for (; *p == 'l' || *p == 'z'; p++)
            longs++;
        if (*p == 's') {
            const char *s = va_arg(ap, const char *);
            put(&t, s, strnlen(s, precision));
        } else if (*p == 'c') {
            char c = (char)va_arg(ap, int);
            put(&t, &c, 1);
        } else if (*p == '%') {
            put(&t, p, 1);
        } else if (*p == 'd') {
            int64_t v = longs ? va_arg(ap, long) : va_arg(ap, int);
            put_number(&t, v < 0 ? -(uint64_t)v : (uint64_t)v, v < 0, 10, width);
        } else if (*p == 'u' || *p == 'x') {
            put_number(&t, longs ? va_arg(ap, unsigned long) : va_arg(ap, unsigned), false, *p == 'u' ? 10 : 16, width);
        } else {
            abort();
        }
    }
    if (max)
        out[t.len < max ? t.len : max - 1] = 0;
    return (int)t.len;
}

int snprintf(char *out, size_t max, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(out, max, fmt, ap);
    va_end(ap);
    return n;
}

int vasprintf(char **ret, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    size_t size = (size_t)vsnprintf(NULL, 0, fmt, ap) + 1;
    *ret = xmalloc(size);
    vsnprintf(*ret, size, fmt, again);
    va_end(again);
    return (int)size - 1;
}

/* ---- strerror: musl's words, for the errors of files and processes ---- */

char *strerror(int errnum)
{
    static const char texts[] = /* each after its number, which has three octal digits */
        "\001Operation not permitted\0"
        "\002No such file or directory\0"
        "\005I/O error\0"
        "\007Argument list too long\0"
        "\010Exec format error\0"
        "\013Resource temporarily unavailable\0"
        "\014Out of memory\0"
        "\015Permission denied\0"
        "\020Resource busy\0"
        "\021File exists\0"
        "\023No such device\0"
        "\024Not a directory\0"
        "\025Is a directory\0"
        "\026Invalid argument\0"
        "\030No file descriptors available\0"
        "\032Text file busy\0"
        "\033File too large\0"
        "\034No space left on device\0"
        "\036Read-only file system\0"
        "\040Broken pipe\0"
        "\044Filename too long\0"
        "\045No locks available\0"
        "\046Function not implemented\0"
        "\047Directory not empty\0"
        "\050Symbolic link loop\0"
        "\107Protocol error\0"
        "\137Not supported\0"
        "\156Operation timed out\0"
        "\164Stale file handle\0"
        "\172Quota exceeded\0";
    static char other[16];
    for (const char *p = texts; *p; p += strlen(p) + 1)
        if (*p == errnum)
            return (char *)(uintptr_t)p + 1;
    snprintf(other, sizeof other, "error %d", errnum);
    return other;
}

/* ---- memory ---- */

/* Blocks of powers of two from a few lists, large ones from the kernel. An agent lives as long as a connection, a
 * supervisor as long as its run, and neither has threads. */
enum { CLASS_MIN = 5, CLASS_MAX = 17, FRESH_SIZE = 256 << 10 };
struct block {
    size_t size; /* of all of it */
    union {
        struct block *next; /* of a free one */
        max_align_t align;
    } u;
};
enum { BLOCK_HEAD = offsetof(struct block, u) };

static struct block *free_blocks[CLASS_MAX + 1];
static char *fresh;
static size_t fresh_left;

static void *from_kernel(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* Under another name, because the compiler assumes to know what malloc does, even here. */
static void *take(size_t size)
{
    struct block *b;
    unsigned class = CLASS_MIN;
    if (size > SIZE_MAX / 4) {
        errno = ENOMEM;
        return NULL;
    }
    size += BLOCK_HEAD;
    while (class < CLASS_MAX && (size_t)1 << class < size)
        class ++;
    if ((size_t)1 << class < size) {
        size = (size + 4095) & ~(size_t)4095;
        b = from_kernel(size);
    } else {
        size = (size_t)1 << class;
        if ((b = free_blocks[class])) {
            free_blocks[class] = b->u.next;
        } else {
            if (fresh_left < size) { /* the rest of the last piece is lost: less than the largest block */
                fresh = from_kernel(FRESH_SIZE);
                fresh_left = fresh ? FRESH_SIZE : 0;
            }
            b = fresh_left ? (struct block *)(void *)fresh : NULL;
            fresh += fresh_left ? size : 0;
            fresh_left -= fresh_left ? size : 0;
        }
    }
    if (!b)
        return NULL;
    b->size = size;
    return &b->u;
}

__attribute__((noinline)) void *malloc(size_t size)
{
    return take(size);
}

static struct block *block_of(void *p)
{
    return (struct block *)(void *)((char *)p - BLOCK_HEAD);
}

__attribute__((noinline)) void free(void *p)
{
    if (!p)
        return;
    struct block *b = block_of(p);
    if (b->size > (size_t)1 << CLASS_MAX) {
        munmap(b, b->size);
        return;
    }
    unsigned class = (unsigned)__builtin_ctzl(b->size);
    if (class < CLASS_MIN || b->size != (size_t)1 << class)
        abort(); /* somebody wrote before the block */
    b->u.next = free_blocks[class];
    free_blocks[class] = b;
}

__attribute__((noinline)) void *calloc(size_t count, size_t size)
{
    size_t total;
    void *p = __builtin_mul_overflow(count, size, &total) ? NULL : take(total);
    if (p && block_of(p)->size <= (size_t)1 << CLASS_MAX)
        memset(p, 0, total);
    return p;
}

__attribute__((noinline)) void *realloc(void *p, size_t size)
{
    struct block *b = p ? block_of(p) : NULL;
    if (b && size <= b->size - BLOCK_HEAD)
        return p;
    if (b && b->size > (size_t)1 << CLASS_MAX && size <= SIZE_MAX / 4) {
        size = (size + BLOCK_HEAD + 4095) & ~(size_t)4095;
        b = mremap(b, b->size, size, MREMAP_MAYMOVE);
        if (b == MAP_FAILED)
            return NULL;
        b->size = size;
        return &b->u;
    }
    void *q = take(size);
    if (q && b) {
        memcpy(q, p, b->size - BLOCK_HEAD);
        free(p);
    }
    return q;
}

/* Without threads nothing has to be locked. */
pid_t fork(void)
{
    return _Fork();
}

/* ---- the system ---- */

/* Straight to the kernel: without the vdso, whose lookup code is as large as twenty such calls, and without musl's
 * fallbacks for kernels before 3.5. With 64-bit pointers the kernel's structs are the same as musl's. */
int clock_gettime(clockid_t clock, struct timespec *ret)
{
    return (int)syscall(SYS_clock_gettime, clock, ret);
}

int fstatat(int fd, const char *restrict path, struct stat *restrict ret, int flags)
{
    return (int)syscall(SYS_newfstatat, fd, path, ret, flags);
}

static int open_at(int fd, const char *path, int flags, va_list ap)
{
    return (int)syscall(SYS_openat, fd, path, flags, flags & O_CREAT ? va_arg(ap, mode_t) : 0);
}

int openat(int fd, const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    int ret = open_at(fd, path, flags, ap);
    va_end(ap);
    return ret;
}

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    int ret = open_at(AT_FDCWD, path, flags, ap);
    va_end(ap);
    return ret;
}

int fcntl(int fd, int command, ...)
{
    va_list ap;
    va_start(ap, command);
    int ret = (int)syscall(SYS_fcntl, fd, command, va_arg(ap, void *));
    va_end(ap);
    return ret;
}

int pipe2(int fds[2], int flags)
{
    return (int)syscall(SYS_pipe2, fds, flags);
}

int dup3(int from, int to, int flags)
{
    return (int)syscall(SYS_dup3, from, to, flags);
}

int socket(int domain, int type, int protocol)
{
    return (int)syscall(SYS_socket, domain, type, protocol);
}

int fchmod(int fd, mode_t mode)
{
    return (int)syscall(SYS_fchmod, fd, mode);
}

int fchdir(int fd)
{
    return (int)syscall(SYS_fchdir, fd);
}

void *mmap(void *at, size_t size, int access, int flags, int fd, off_t offset)
{
    return (void *)syscall(SYS_mmap, at, size, access, flags, fd, offset);
}

/* ---- searching and sorting ---- */

void *memmem(const void *text, size_t len, const void *needle, size_t n)
{
    const char *p = text, *end = p + len;
    if (n == 0)
        return (void *)(uintptr_t)p;
    for (; (size_t)(end - p) >= n && (p = memchr(p, *(const char *)needle, (size_t)(end - p) - n + 1)); p++)
        if (memcmp(p, needle, n) == 0)
            return (void *)(uintptr_t)p;
    return NULL;
}

char *strstr(const char *text, const char *needle)
{
    return memmem(text, strlen(text), needle, strlen(needle));
}

static void swap(char *a, char *b, size_t size)
{
    while (size--) {
        char c = *a;
        *a++ = *b;
        *b++ = c;
    }
}

/* Heap sort: no recursion, no memory, no worst case. */
void qsort(void *base, size_t count, size_t size, int (*compare)(const void *, const void *))
{
    char *a = base;
    for (size_t start = count / 2, end = count; end > 1;) {
        if (start)
            start--;
        else
            swap(a, a + --end * size, size);
        for (size_t i = start, child; (child = 2 * i + 1) < end; i = child) {
            if (child + 1 < end && compare(a + child * size, a + (child + 1) * size) < 0)
                child++;
            if (compare(a + i * size, a + child * size) >= 0)
                break;
            swap(a + i * size, a + child * size, size);
        }
    }
}

#endif
