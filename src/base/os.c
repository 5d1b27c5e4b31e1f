/* Time, randomness and files. */
#include "rhrun/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

uint64_t mono_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t now = (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
    const char *offset = getenv("RHRUN_TEST_CLOCK_OFFSET_MS");
    int64_t ms;
    if (offset && parse_i64(offset, &ms))
        now += (uint64_t)ms;
    return now;
}

void random_bytes(void *out, size_t len)
{
    char *p = out;
    while (len) {
        ssize_t n = getrandom(p, len, 0);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            abort();
        }
        p += n;
        len -= (size_t)n;
    }
}

void random_hex(char *out, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    random_bytes(out, bytes); /* the raw bytes in the first half, spread from the end */
    for (size_t i = bytes; i-- > 0;) {
        unsigned char c = (unsigned char)out[i];
        out[2 * i] = digits[c >> 4];
        out[2 * i + 1] = digits[c & 15];
    }
    out[2 * bytes] = 0;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool hex_decode(const char *hex, void *out, size_t bytes)
{
    unsigned char *p = out;
    if (strlen(hex) != 2 * bytes)
        return false;
    for (size_t i = 0; i < bytes; i++) {
        int hi = hex_digit(hex[2 * i]), lo = hex_digit(hex[2 * i + 1]);
        if (hi < 0 || lo < 0)
            return false;
        p[i] = (unsigned char)(hi << 4 | lo);
    }
    return true;
}

/* 0, or -1 and err if it is not a regular file. */
static int check_regular(const char *path, const struct stat *st, struct error *err)
{
    const char *kind = S_ISFIFO(st->st_mode)   ? "a FIFO"
                       : S_ISSOCK(st->st_mode) ? "a socket"
                       : S_ISREG(st->st_mode)  ? NULL
                                               : "a device";
    if (!kind)
        return 0;
    if (S_ISDIR(st->st_mode)) {
        error_errno(err, ERROR_IO, EISDIR, "cannot read \"%s\"", path);
        errno = EISDIR;
    } else {
        error_set(err, ERROR_IO, "cannot read \"%s\": it is %s, not a file", path, kind);
        errno = EINVAL;
    }
    return -1;
}

int file_open(const char *path, struct stat *ret, struct error *err)
{
    struct stat st;
    int fd = -1;
    if (stat(path, &st) == 0 && check_regular(path, &st, err) < 0) /* opening a device may already have an effect */
        return -1;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0) {
        int errnum = errno;
        cleanup_close(&fd);
        error_errno(err, ERROR_IO, errnum, "cannot read \"%s\"", path);
        errno = errnum;
        return -1;
    }
    if (check_regular(path, &st, err) < 0) { /* replaced since the stat above */
        int errnum = errno;
        cleanup_close(&fd);
        errno = errnum;
        return -1;
    }
    if (ret)
        *ret = st;
    return fd;
}

int file_read(const char *path, size_t max, struct buf *ret, struct error *err)
{
    CLEANUP(cleanup_close) int fd = file_open(path, NULL, err);
    if (fd < 0)
        return -1;
    struct buf b = {0};
    for (;;) {
        buf_reserve(&b, 65536);
        ssize_t n = read(fd, b.data + b.len, b.cap - b.len - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            int errnum = errno;
            buf_free(&b);
            return error_errno(err, ERROR_IO, errnum, "cannot read \"%s\"", path);
        }
        if (n == 0)
            break;
        b.len += (size_t)n;
        if (b.len > max) {
            buf_free(&b);
            return error_set(err, ERROR_IO, "cannot read \"%s\": larger than %zu bytes", path, max);
        }
    }
    b.data[b.len] = 0;
    *ret = b;
    return 0;
}

int write_all(int fd, const void *data, size_t len)
{
    const char *p = data;
    while (len) {
        ssize_t n = write(fd, p, len);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            return -1;
        }
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

int file_put(int dir_fd, const char *name, const void *data, size_t len, bool fresh, struct error *err)
{
    char salt[17];
    random_hex(salt, 8);
    CLEANUP(cleanup_free) char *tmp = xasprintf("%s.%s.tmp", name, salt);
    int fd = openat(dir_fd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int rc = fd < 0 ? -1 : write_all(fd, data, len);
    if (fd >= 0 && close(fd) < 0)
        rc = -1;
    if (rc == 0 && fresh && (linkat(dir_fd, tmp, dir_fd, name, 0) == 0 || errno == EEXIST)) {
        unlinkat(dir_fd, tmp, 0);
        return 0;
    }
    if (rc == 0) /* also where the file system has no hard links */
        rc = renameat(dir_fd, tmp, dir_fd, name);
    if (rc < 0) {
        int errnum = errno;
        unlinkat(dir_fd, tmp, 0);
        error_errno(err, ERROR_INFRA, errnum, "could not write \"%s\"", name);
        errno = errnum;
    }
    return rc;
}

static void sync_parent(const char *path)
{
    char *dir = xstrdup(path);
    char *slash = strrchr(dir, '/');
    if (slash == dir)
        slash[1] = 0;
    else if (slash)
        *slash = 0;
    int fd = open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(dir);
}

int file_write_atomic(const char *path, const void *data, size_t len, mode_t mode, struct error *err)
{
    CLEANUP(cleanup_free) char *tmp = xasprintf("%s.%ld.tmp", path, (long)getpid());
    unlink(tmp);
    CLEANUP(cleanup_close) int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0)
        return error_errno(err, ERROR_IO, errno, "could not create \"%s\"", tmp);
    if (write_all(fd, data, len) < 0 || fsync(fd) < 0 || rename(tmp, path) < 0) {
        int errnum = errno;
        unlink(tmp);
        return error_errno(err, ERROR_IO, errnum, "could not write \"%s\"", path);
    }
    sync_parent(path);
    return 0;
}

int mkdir_p(const char *path, mode_t mode, struct error *err)
{
    CLEANUP(cleanup_free) char *copy = xstrdup(path);
    for (char *p = copy + 1;; p++) {
        if (*p != '/' && *p != 0)
            continue;
        char c = *p;
        *p = 0;
        if (mkdir(copy, mode) < 0) { /* an existing folder gives EEXIST, or EROFS on a read-only file system */
            int errnum = errno;
            struct stat st;
            if ((errnum != EROFS && errnum != EEXIST) || stat(copy, &st) < 0 || !S_ISDIR(st.st_mode))
                return error_errno(err, ERROR_IO, errnum, "could not create folder \"%s\"", copy);
        }
        *p = c;
        if (!c)
            return 0;
    }
}

char *system_ca_file(const char *root)
{
    static const char *const places[] = {
        "/etc/ssl/certs/ca-certificates.crt",                /* Debian, Ubuntu, Arch, Alpine */
        "/etc/pki/tls/certs/ca-bundle.crt",                  /* Fedora, RHEL */
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* RHEL 7, newer Fedora */
        "/etc/ssl/ca-bundle.pem",                            /* openSUSE */
        "/etc/ssl/cert.pem",                                 /* Alpine, BSD */
        "/etc/pki/tls/cacert.pem",                           /* OpenELEC */
    };
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        char *path = xasprintf("%s%s", root, places[i]);
        if (access(path, R_OK) == 0)
            return path;
        free(path);
    }
    return NULL;
}
