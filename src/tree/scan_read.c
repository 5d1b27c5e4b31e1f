/* Contents: each file is read once, on a few threads, hashed while it is read, and passed on to the store. */
#include "scan.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/evp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 256 << 10, STRIDE = 8, ALONE_FILES = 16, ALONE_BYTES = 1 << 20 };

/* Test hook, called between the two stats of a file that is being read; only a test defines it. */
void scan_test_while_read(const char *path) __attribute__((weak));

struct job {
    struct walk *walk;
    struct scan_items *in;
    struct tree_batch *batch;
    atomic_size_t next;
    atomic_bool failed;
    pthread_mutex_t lock; /* of error */
    struct error error;
};
struct reader {
    struct job *job;
    EVP_MD_CTX *ctx;
    struct buf content;
    struct arena *arena;
};
enum result { DONE, CHANGED, GONE, FAILED };

bool scan_racy(const struct stat_data *st, const struct timespec *started)
{
    /* Some file systems keep only whole, or even, seconds: then that whole time counts as "now". */
    bool coarse = !st->mtime_nsec && !st->ctime_nsec;
    int64_t sec = started->tv_sec - (coarse ? 2 : 0);
    uint32_t nsec = coarse ? 0 : (uint32_t)started->tv_nsec;
    return st->mtime_sec > sec || (st->mtime_sec == sec && st->mtime_nsec >= nsec) || st->ctime_sec > sec ||
           (st->ctime_sec == sec && st->ctime_nsec >= nsec);
}

static void hash_begin(struct reader *r, uint64_t size)
{
    char head[40];
    int n = snprintf(head, sizeof head, "blob %llu", (unsigned long long)size);
    if (EVP_DigestInit_ex(r->ctx, EVP_sha1(), NULL) != 1 || EVP_DigestUpdate(r->ctx, head, (size_t)n + 1) != 1)
        abort();
}

static void hash_more(struct reader *r, const void *data, size_t len)
{
    if (EVP_DigestUpdate(r->ctx, data, len) != 1)
        abort();
}

static void hash_end(struct reader *r, uint8_t ret_oid[TREE_OID_SIZE])
{
    unsigned n = 0;
    if (EVP_DigestFinal_ex(r->ctx, ret_oid, &n) != 1 || n != TREE_OID_SIZE)
        abort();
}

static const char *quote(struct reader *r, const struct scan_item *item)
{
    const struct walk *w = r->job->walk;
    return scan_quote(r->arena, w, arena_printf(r->arena, "%s%s", w->root ? w->root->path : "", item->path));
}

static enum result read_error(struct reader *r, const struct scan_item *item, struct error *err)
{
    int errnum = errno;
    error_errno(err, ERROR_IO, errnum, "could not read %s", quote(r, item));
    if (errnum == EACCES || errnum == EPERM)
        error_hint(err, "leave it out with .gitignore or exclude");
    return FAILED;
}

static ssize_t read_some(int fd, void *out, size_t len)
{
    ssize_t n;
    do
        n = read(fd, out, len);
    while (n < 0 && errno == EINTR);
    return n;
}

/* Reads a file of exactly `size` bytes; otherwise it has changed. */
static enum result read_small(struct reader *r, struct scan_item *item, int fd, size_t size, struct error *err)
{
    buf_clear(&r->content);
    buf_reserve(&r->content, size + 1);
    do { /* one byte more than expected, to detect a growing file; no extra read for the end */
        ssize_t n = read_some(fd, r->content.data + r->content.len, size + 1 - r->content.len);
        if (n < 0)
            return read_error(r, item, err);
        if (n == 0)
            break;
        r->content.len += (size_t)n;
    } while (r->content.len < size);
    if (r->content.len != size)
        return CHANGED;
    hash_begin(r, size);
    hash_more(r, r->content.data, size);
    hash_end(r, item->oid);
    return DONE;
}

/* In pieces. */
static enum result read_big(struct reader *r, struct scan_item *item, int fd, uint64_t size, struct error *err)
{
    uint64_t left = size;
    buf_clear(&r->content);
    buf_reserve(&r->content, CHUNK);
    hash_begin(r, size);
    for (;;) {
        ssize_t n = read_some(fd, r->content.data, CHUNK);
        if (n < 0)
            return read_error(r, item, err);
        if (n == 0)
            break;
        if ((uint64_t)n > left)
            return CHANGED;
        left -= (uint64_t)n;
        hash_more(r, r->content.data, (size_t)n);
        if (atomic_load_explicit(&r->job->failed, memory_order_relaxed))
            return FAILED; /* another thread's error is reported */
    }
    hash_end(r, item->oid);
    return left ? CHANGED : DONE;
}

/* Hashes the part of the copy that is not hashed yet. */
static bool hash_copy(struct reader *r, int out, uint64_t from, uint64_t to)
{
    while (from < to) {
        ssize_t n = pread(out, r->content.data, to - from < CHUNK ? (size_t)(to - from) : CHUNK, (off_t)from);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        hash_more(r, r->content.data, (size_t)n);
        from += (uint64_t)n;
    }
    return true;
}

/* Stores a big file: hashes it while it is copied to out. */
static enum result store_big(struct reader *r, struct scan_item *item, int fd, uint64_t size, int out,
                             struct error *err)
{
    struct scan_copy *copy = scan_copy_begin(fd, out, size);
    uint64_t hashed = 0;
    bool ended = false, good = true;
    buf_clear(&r->content);
    buf_reserve(&r->content, CHUNK);
    hash_begin(r, size);
    while (!ended && good && !atomic_load_explicit(&r->job->failed, memory_order_relaxed)) {
        uint64_t there = scan_copy_wait(copy, hashed, &ended);
        good = hash_copy(r, out, hashed, there);
        hashed = there;
    }
    hash_end(r, item->oid);
    int errnum = scan_copy_end(copy);
    if (!good || errnum) {
        error_errno(err, ERROR_IO, errnum ? errnum : EIO, "could not copy %s to the state directory", quote(r, item));
        return FAILED;
    }
    return !ended ? FAILED : hashed == size ? DONE : CHANGED; /* FAILED: another thread's error is reported */
}

static bool same_stat(const struct stat_data *a, const struct stat_data *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static enum result read_open_file(struct reader *r, struct scan_item *item, int fd, struct error *err)
{
    struct tree_batch *batch = r->job->batch;
    struct tree_big *big = NULL;
    struct stat st;
    int out = -1;
    if (fstat(fd, &st))
        return read_error(r, item, err);
    if (!S_ISREG(st.st_mode))
        return CHANGED;
    item->st = stat_data_of(&st);
    uint64_t size = item->st.size;
    if (size > TREE_BIG_SIZE && batch && tree_batch_big_begin(batch, size, &big, &out, err))
        return FAILED;
    enum result result = size <= TREE_BIG_SIZE ? read_small(r, item, fd, (size_t)size, err)
                         : out < 0             ? read_big(r, item, fd, size, err)
                                               : store_big(r, item, fd, size, out, err);
    if (result == DONE) {
        if (scan_test_while_read)
            scan_test_while_read(item->path);
        struct stat_data before = item->st;
        if (fstat(fd, &st))
            result = read_error(r, item, err);
        else if (item->st = stat_data_of(&st), !same_stat(&before, &item->st))
            result = CHANGED;
    }
    if (result != DONE) {
        tree_batch_big_abort(big);
        return result;
    }
    if (big)
        return tree_batch_big_end(big, item->oid, err) ? FAILED : DONE;
    if (batch && tree_batch_add(batch, TREE_OBJECT_BLOB, item->oid, r->content.data, r->content.len, err))
        return FAILED;
    return DONE;
}

static enum result read_link(struct reader *r, struct scan_item *item, const struct stat *st, struct error *err)
{
    buf_clear(&r->content);
    buf_reserve(&r->content, PATH_MAX + 1);
    ssize_t n = readlinkat(r->job->walk->root_fd, item->path, r->content.data, PATH_MAX);
    if (n < 0)
        return errno == ENOENT || errno == EINVAL ? CHANGED : read_error(r, item, err);
    if (n > TREE_PATH_MAX) {
        error_set(err, ERROR_SPEC, "the link %s has a target of more than %d bytes", quote(r, item), TREE_PATH_MAX);
        return FAILED;
    }
    item->st = stat_data_of(st);
    item->st.size = (uint64_t)n;
    hash_begin(r, (uint64_t)n);
    hash_more(r, r->content.data, (size_t)n);
    hash_end(r, item->oid);
    if (r->job->batch && tree_batch_add(r->job->batch, TREE_OBJECT_BLOB, item->oid, r->content.data, (size_t)n, err))
        return FAILED;
    return DONE;
}

static enum result read_once(struct reader *r, struct scan_item *item, struct error *err)
{
    struct stat st;
    CLEANUP(cleanup_close) int fd = -1;
    if (!S_ISLNK(item->st.mode)) {
        fd = openat(r->job->walk->root_fd, item->path,
                    O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (r->job->walk->follow ? 0 : O_NOFOLLOW));
        if (fd >= 0)
            return read_open_file(r, item, fd, err);
        if (errno == ENOENT || errno == ENOTDIR)
            return GONE;
        if (errno != ELOOP && errno != ENXIO)
            return read_error(r, item, err);
    }
    if (fstatat(r->job->walk->root_fd, item->path, &st, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT || errno == ENOTDIR ? GONE : read_error(r, item, err);
    if (S_ISLNK(st.st_mode))
        return read_link(r, item, &st, err);
    item->st.mode = st.st_mode; /* it was a link: try again as what it is now */
    return CHANGED;
}

static enum result read_item(struct reader *r, struct scan_item *item, struct error *err)
{
    enum result result = CHANGED;
    for (int i = 0; i < TREE_READS && result == CHANGED; i++) {
        if (i)
            poll(NULL, 0, 1 << i); /* the writer may be done soon */
        result = read_once(r, item, err);
    }
    if (result == DONE) {
        item->flags = ITEM_KNOWN | (r->job->batch ? ITEM_STORED : 0);
        if (scan_racy(&item->st, &r->job->walk->started))
            item->flags |= ITEM_RACY;
    } else if (result == GONE) {
        item->flags = ITEM_GONE;
    } else if (result == CHANGED) {
        error_set(err, ERROR_IO, "%s changed each of the %d times that it was read", quote(r, item), TREE_READS);
        error_hint(err, "wait until it is written, or leave it out with .gitignore or exclude");
    }
    return result;
}

static bool to_read(const struct job *job, const struct scan_item *item)
{
    return !(item->flags & ITEM_KNOWN) || (job->batch && !(item->flags & ITEM_STORED));
}

static void count_read(struct tree_progress *p, const struct scan_item *item)
{
    if (!p)
        return;
    atomic_fetch_add_explicit(&p->read, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&p->read_bytes, item->st.size, memory_order_relaxed);
}

static void *work(void *arg)
{
    struct reader *r = arg;
    struct job *job = r->job;
    size_t count = job->in->count;
    while (!atomic_load_explicit(&job->failed, memory_order_relaxed)) {
        size_t first = atomic_fetch_add(&job->next, STRIDE);
        for (size_t i = first; i < count && i < first + STRIDE; i++) {
            struct scan_item *item = &job->in->items[i];
            struct error err = ERROR_INIT;
            if (!to_read(job, item))
                continue;
            enum result result = read_item(r, item, &err);
            if (result == DONE || result == GONE) {
                count_read(job->walk->scan->progress, item);
                continue;
            }
            pthread_mutex_lock(&job->lock);
            if (!atomic_exchange(&job->failed, true))
                job->error = err;
            pthread_mutex_unlock(&job->lock);
            return NULL;
        }
        if (first >= count)
            return NULL;
    }
    return NULL;
}

static size_t threads_for(const struct job *job)
{
    const struct scan_items *in = job->in;
    size_t files = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < in->count; i++)
        if (to_read(job, &in->items[i])) {
            files++;
            bytes += in->items[i].st.size;
        }
    return files <= ALONE_FILES && bytes <= ALONE_BYTES ? 1 : scan_threads();
}

int scan_read(struct walk *w, struct scan_items *in, struct tree_batch *batch, struct error *err)
{
    struct job job = {.walk = w, .in = in, .batch = batch, .lock = PTHREAD_MUTEX_INITIALIZER};
    struct reader readers[SCAN_THREADS_MAX];
    void *args[SCAN_THREADS_MAX];
    pthread_t threads[SCAN_THREADS_MAX];
    size_t count = threads_for(&job);
    for (size_t i = 0; i < count; i++) {
        readers[i] = (struct reader){.job = &job, .ctx = EVP_MD_CTX_new(), .arena = arena_create()};
        args[i] = &readers[i];
        if (!readers[i].ctx)
            abort();
    }
    size_t started = scan_run_threads(count - 1, work, args + 1, threads);
    work(&readers[0]);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < count; i++) {
        EVP_MD_CTX_free(readers[i].ctx);
        buf_free(&readers[i].content);
        arena_destroy(readers[i].arena);
    }
    pthread_mutex_destroy(&job.lock);
    if (atomic_load(&job.failed)) {
        if (err)
            *err = job.error;
        return -1;
    }
    return 0;
}
