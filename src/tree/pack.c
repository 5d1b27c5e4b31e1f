/* Batches: many new objects as one git pack, few as loose objects.
 *
 * The pack's contents are zlib streams of stored blocks: git reads them like any other, and no time is spent on
 * deflating contents that are soon read again to be sent. The header has the number of objects, which is known only at
 * the end, so the checksum is computed then, over the file. Writers on several threads only take turns to get their
 * place in the file. */
#include "internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <git2.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <zlib.h>

enum {
    LOOSE_MAX = 64,        /* objects; more of them become a pack */
    LOOSE_BYTES = 4 << 20, /* likewise */
    PACK_HEAD = 12,
    BLOCK_MAX = 65535, /* of a stored block */
    BLOCK_HEAD = 5,
    ENTRY_HEAD_MAX = 10 + 2, /* type and size, then zlib's two bytes */
    ADLER_SIZE = 4,
    BLOCKS = 128, /* written at once: 8 MiB */
    SLOTS_FIRST = 1024,
    SUM_PIECE = 256 << 10, /* read at once for the checksum: what a cache holds */
    WRITE_BACK_SHIFT = 23, /* write-back starts every 8 MiB, so that the end waits only for the last part */
};

struct entry {
    uint8_t oid[TREE_OID_SIZE];
    uint32_t crc;
    uint64_t offset;
    enum tree_object type;
    uint8_t *held; /* the content, until the pack is begun */
    size_t held_size;
};
struct tree_batch {
    struct tree_store *store;
    pthread_mutex_t lock;
    struct entry *entries;
    size_t count, cap;
    uint32_t *slots; /* open addressing by id: index + 1 */
    size_t slot_count;
    uint64_t held_bytes;
    int fd; /* of the pack, -1: contents are held */
    char *path;
    uint64_t end; /* where the next entry of the pack goes */
    bool again;   /* tree_batch_again */
    struct error failed;
};

static void put32(uint8_t *p, uint32_t v)
{
    v = htonl(v);
    memcpy(p, &v, sizeof v);
}

/* ---- which objects the batch has ---- */

static uint32_t *slot_of(const struct tree_batch *b, const uint8_t oid[TREE_OID_SIZE])
{
    uint64_t h;
    memcpy(&h, oid, sizeof h);
    size_t i = (size_t)h & (b->slot_count - 1);
    while (b->slots[i] && memcmp(b->entries[b->slots[i] - 1].oid, oid, TREE_OID_SIZE) != 0)
        i = (i + 1) & (b->slot_count - 1);
    return &b->slots[i];
}

static void slots_grow(struct tree_batch *b)
{
    if (b->count * 2 < b->slot_count)
        return;
    b->slot_count = b->slot_count ? b->slot_count * 2 : SLOTS_FIRST;
    free(b->slots);
    b->slots = xcalloc(b->slot_count, sizeof *b->slots);
    for (size_t i = 0; i < b->count; i++)
        *slot_of(b, b->entries[i].oid) = (uint32_t)i + 1;
}

/* The new entry's index, or -1: the batch has the object. */
static ssize_t entry_add(struct tree_batch *b, enum tree_object type, const uint8_t oid[TREE_OID_SIZE])
{
    slots_grow(b);
    uint32_t *slot = slot_of(b, oid);
    if (*slot)
        return -1;
    if (b->count == b->cap) {
        b->cap = b->cap ? b->cap * 2 : LOOSE_MAX;
        b->entries = xreallocarray(b->entries, b->cap, sizeof *b->entries);
    }
    struct entry *e = &b->entries[b->count++];
    *e = (struct entry){.type = type};
    memcpy(e->oid, oid, TREE_OID_SIZE);
    *slot = (uint32_t)b->count;
    return (ssize_t)b->count - 1;
}

/* ---- one object of a pack ---- */

static size_t head_encode(enum tree_object type, size_t len, uint8_t head[ENTRY_HEAD_MAX])
{
    size_t n = 0, rest = len >> 4;
    head[n++] = (uint8_t)((type == TREE_OBJECT_BLOB ? 0x30u : 0x20u) | (len & 15) | (rest ? 0x80 : 0));
    for (; rest; rest >>= 7)
        head[n++] = (uint8_t)((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
    head[n++] = 0x78;
    head[n++] = 0x01;
    return n;
}

static uint64_t encoded_size(enum tree_object type, size_t len)
{
    uint8_t head[ENTRY_HEAD_MAX];
    size_t blocks = len ? (len + BLOCK_MAX - 1) / BLOCK_MAX : 1;
    return head_encode(type, len, head) + blocks * BLOCK_HEAD + len + ADLER_SIZE;
}

static int write_at(int fd, struct iovec *iov, int count, uint64_t offset)
{
    while (count) {
        ssize_t n = pwritev(fd, iov, count, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n ? errno : ENOSPC;
            return -1;
        }
        offset += (uint64_t)n;
        for (; count && (size_t)n >= iov->iov_len; iov++, count--)
            n -= (ssize_t)iov->iov_len;
        if (count) {
            iov->iov_base = (char *)iov->iov_base + n;
            iov->iov_len -= (size_t)n;
        }
    }
    return 0;
}

static int pwrite_all(int fd, const void *data, size_t len, uint64_t offset)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
    return write_at(fd, &iov, 1, offset);
}

/* The next pieces of an entry to write. */
struct pieces {
    struct iovec iov[2 * BLOCKS + 2];
    int count;
    uint64_t bytes;
    uint32_t crc;
};

static void piece(struct pieces *p, const void *data, size_t len)
{
    p->iov[p->count++] = (struct iovec){.iov_base = (void *)(uintptr_t)data, .iov_len = len};
    p->bytes += len;
    p->crc = (uint32_t)crc32_z(p->crc, data, len);
}

/* Adds at most BLOCKS blocks of the content from *at on, and at the end the checksum. */
static void pieces_add(struct pieces *p, const uint8_t *data, size_t len, size_t *at, uint8_t heads[][BLOCK_HEAD])
{
    for (size_t block = 0; block < BLOCKS && (*at < len || (len == 0 && block == 0)); block++) {
        size_t n = len - *at < BLOCK_MAX ? len - *at : BLOCK_MAX;
        uint8_t *h = heads[block];
        h[0] = *at + n == len;
        h[1] = (uint8_t)n;
        h[2] = (uint8_t)(n >> 8);
        h[3] = (uint8_t)~n;
        h[4] = (uint8_t)(~n >> 8);
        piece(p, h, BLOCK_HEAD);
        if (n)
            piece(p, data + *at, n);
        *at += n;
    }
}

static int entry_write(struct tree_batch *b, const struct entry *e, const uint8_t *data, size_t len, uint32_t *ret_crc,
                       struct error *err)
{
    uint8_t head[ENTRY_HEAD_MAX], adler[ADLER_SIZE], heads[BLOCKS][BLOCK_HEAD];
    struct pieces p;
    p.count = 0;
    p.bytes = 0;
    p.crc = 0;
    piece(&p, head, head_encode(e->type, len, head));
    put32(adler, (uint32_t)adler32_z(adler32(0, NULL, 0), data, len));
    uint64_t offset = e->offset;
    size_t at = 0;
    do {
        pieces_add(&p, data, len, &at, heads);
        if (at == len)
            piece(&p, adler, ADLER_SIZE);
        if (write_at(b->fd, p.iov, p.count, offset) < 0)
            return error_errno(err, ERROR_IO, errno, "could not write to \"%s\"", b->path);
        offset += p.bytes;
        p.bytes = 0;
        p.count = 0;
    } while (at < len);
    *ret_crc = p.crc;
    return 0;
}

/* ---- adding ---- */

/* Begins the pack: writes the held contents. */
static int pack_begin(struct tree_batch *b, struct error *err)
{
    b->fd = tree_temp(b->store, "objects/pack", &b->path, err);
    if (b->fd < 0)
        return -1;
    b->end = PACK_HEAD;
    for (size_t i = 0; i < b->count; i++) {
        struct entry *e = &b->entries[i];
        e->offset = b->end;
        b->end += encoded_size(e->type, e->held_size);
        if (entry_write(b, e, e->held, e->held_size, &e->crc, err) < 0)
            return -1;
        free(e->held);
        e->held = NULL;
    }
    return 0;
}

int tree_batch_begin(struct tree_store *s, uint64_t files, uint64_t bytes, struct tree_batch **ret, struct error *err)
{
    if (!s->packs_read)
        tree_packs_read(s); /* so that tree_store_has only reads, from any thread */
    struct tree_batch *b = xcalloc(1, sizeof *b);
    b->store = s;
    b->fd = -1;
    (void)pthread_mutex_init(&b->lock, NULL);
    if ((files >= LOOSE_MAX || bytes > LOOSE_BYTES) && pack_begin(b, err) < 0) {
        tree_batch_abort(b);
        return -1;
    }
    *ret = b;
    return 0;
}

static int add_held(struct tree_batch *b, struct entry *e, const void *data, size_t len, struct error *err)
{
    e->held = xmalloc(len + 1);
    if (len)
        memcpy(e->held, data, len);
    e->held_size = len;
    b->held_bytes += len;
    return b->count >= LOOSE_MAX || b->held_bytes > LOOSE_BYTES ? pack_begin(b, err) : 0;
}

int tree_batch_add(struct tree_batch *b, enum tree_object type, const uint8_t oid[TREE_OID_SIZE], const void *data,
                   size_t len, struct error *err)
{
    const struct tree_pack *pack;
    uint64_t offset;
    if (b->again ? tree_pack_find(b->store, oid, &pack, &offset) && pack->stored : tree_store_has(b->store, oid, len))
        return 0;
    struct error failed = ERROR_INIT;
    struct entry mine = {.type = type};
    uint32_t crc = 0;
    int rc = 0;
    (void)pthread_mutex_lock(&b->lock);
    ssize_t i = entry_add(b, type, oid);
    bool write = i >= 0 && b->fd >= 0;
    if (write) {
        b->entries[i].offset = mine.offset = b->end;
        b->end += encoded_size(type, len);
    } else if (i >= 0) {
        rc = add_held(b, &b->entries[i], data, len, &failed);
    }
    (void)pthread_mutex_unlock(&b->lock);
    if (write) {
        rc = entry_write(b, &mine, data, len, &crc, &failed);
        if (mine.offset >> WRITE_BACK_SHIFT != (mine.offset + len) >> WRITE_BACK_SHIFT)
            tree_write_back(b->fd, mine.offset);
    }
    if (write || rc < 0) {
        (void)pthread_mutex_lock(&b->lock);
        if (rc == 0)
            b->entries[i].crc = crc;
        else if (b->failed.code == ERROR_NONE)
            b->failed = failed;
        (void)pthread_mutex_unlock(&b->lock);
    }
    if (rc < 0 && err)
        *err = failed;
    return rc;
}

void tree_batch_again(struct tree_batch *b)
{
    b->again = true;
}

int tree_batch_big_begin(struct tree_batch *b, uint64_t size, struct tree_big **ret, int *ret_fd, struct error *err)
{
    (void)size;
    return tree_big_begin(b->store, ret, ret_fd, err);
}

/* ---- the end ---- */

static int loose_write(struct tree_batch *b, struct error *err)
{
    if (b->count && tree_store_git(b->store, err) < 0)
        return -1;
    for (size_t i = 0; i < b->count; i++) { /* blobs came first, so a tree that exists has its files */
        const struct entry *e = &b->entries[i];
        git_oid id;
        git_object_t type = e->type == TREE_OBJECT_BLOB ? GIT_OBJECT_BLOB : GIT_OBJECT_TREE;
        if (git_odb_write(&id, b->store->odb, e->held, e->held_size, type) < 0)
            return tree_git_error(err, ERROR_IO, "could not write to \"%s/objects\"", b->store->dir);
        if (memcmp(id.id, e->oid, TREE_OID_SIZE) != 0)
            return error_set(err, ERROR_INTERNAL, "a stored object has another id than its content");
    }
    return 0;
}

static int order_entries(const void *a, const void *b)
{
    return memcmp(((const struct entry *)a)->oid, ((const struct entry *)b)->oid, TREE_OID_SIZE);
}

static void sha1(const void *data, size_t len, uint8_t ret[TREE_OID_SIZE])
{
    if (EVP_Digest(data, len, ret, NULL, EVP_sha1(), NULL) != 1)
        abort(); /* only a broken libcrypto gets here */
}

/* Writes the header, and the checksum over the file at the end. */
static int pack_finish(struct tree_batch *b, uint8_t ret_sum[TREE_OID_SIZE], struct error *err)
{
    uint8_t head[PACK_HEAD] = {'P', 'A', 'C', 'K', 0, 0, 0, 2};
    put32(head + 8, (uint32_t)b->count);
    if (pwrite_all(b->fd, head, sizeof head, 0) < 0)
        return error_errno(err, ERROR_IO, errno, "could not write to \"%s\"", b->path);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    CLEANUP(cleanup_free) uint8_t *piece = xmalloc(SUM_PIECE);
    bool good = ctx && EVP_DigestInit_ex(ctx, EVP_sha1(), NULL) == 1;
    for (uint64_t at = 0; good && at < b->end;) {
        size_t want = b->end - at < SUM_PIECE ? (size_t)(b->end - at) : SUM_PIECE;
        ssize_t n = pread(b->fd, piece, want, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        good = n > 0 && EVP_DigestUpdate(ctx, piece, (size_t)n) == 1;
        at += good ? (uint64_t)n : 0;
    }
    good = good && EVP_DigestFinal_ex(ctx, ret_sum, NULL) == 1;
    EVP_MD_CTX_free(ctx);
    if (!good)
        return error_errno(err, ERROR_IO, errno, "could not read \"%s\"", b->path);
    if (pwrite_all(b->fd, ret_sum, TREE_OID_SIZE, b->end) < 0)
        return error_errno(err, ERROR_IO, errno, "could not write to \"%s\"", b->path);
    return 0;
}

static void append32(struct buf *out, uint32_t v)
{
    uint8_t bytes[4];
    put32(bytes, v);
    buf_append(out, bytes, sizeof bytes);
}

static void index_make(const struct tree_batch *b, const uint8_t pack_sum[TREE_OID_SIZE], struct buf *out)
{
    static const uint8_t magic[8] = {0xff, 't', 'O', 'c', 0, 0, 0, 2};
    buf_reserve(out, 8 + 256 * 4 + b->count * (TREE_OID_SIZE + 4 + 4 + 8) + (size_t)2 * TREE_OID_SIZE);
    buf_append(out, magic, sizeof magic);
    size_t n = 0;
    for (unsigned first = 0; first < 256; first++) {
        while (n < b->count && b->entries[n].oid[0] <= first)
            n++;
        append32(out, (uint32_t)n);
    }
    for (size_t i = 0; i < b->count; i++)
        buf_append(out, b->entries[i].oid, TREE_OID_SIZE);
    for (size_t i = 0; i < b->count; i++)
        append32(out, b->entries[i].crc);
    uint32_t large = 0;
    for (size_t i = 0; i < b->count; i++)
        append32(out, b->entries[i].offset < 0x80000000u ? (uint32_t)b->entries[i].offset : 0x80000000u | large++);
    for (size_t i = 0; i < b->count; i++) {
        if (b->entries[i].offset >= 0x80000000u) {
            append32(out, (uint32_t)(b->entries[i].offset >> 32));
            append32(out, (uint32_t)b->entries[i].offset);
        }
    }
    buf_append(out, pack_sum, TREE_OID_SIZE);
    uint8_t sum[TREE_OID_SIZE];
    sha1(out->data, out->len, sum);
    buf_append(out, sum, sizeof sum);
}

/* Renames the pack, then its index, which makes it visible. */
static int pack_name(struct tree_batch *b, const char *index, const uint8_t sum[TREE_OID_SIZE], struct error *err)
{
    char hex[TREE_ID_LEN + 1];
    tree_hex(sum, hex);
    CLEANUP(cleanup_free) char *pack_path = xasprintf("%s/objects/pack/pack-%s.pack", b->store->dir, hex);
    CLEANUP(cleanup_free) char *index_path = xasprintf("%s/objects/pack/pack-%s.idx", b->store->dir, hex);
    if (rename(b->path, pack_path) < 0)
        return error_errno(err, ERROR_IO, errno, "could not name \"%s\"", pack_path);
    free(b->path);
    b->path = NULL;
    if (rename(index, index_path) < 0)
        return error_errno(err, ERROR_IO, errno, "could not name \"%s\"", index_path);
    tree_packs_read(b->store);
    return 0;
}

static int pack_write(struct tree_batch *b, struct error *err)
{
    uint8_t sum[TREE_OID_SIZE];
    if (pack_finish(b, sum, err) < 0)
        return -1;
    qsort(b->entries, b->count, sizeof *b->entries, order_entries);
    struct buf index = {0};
    index_make(b, sum, &index);
    CLEANUP(cleanup_free) char *path = NULL;
    CLEANUP(cleanup_close) int fd = tree_temp(b->store, "objects/pack", &path, err);
    int rc = fd < 0 ? -1 : 0;
    if (rc == 0 && (write_all(fd, index.data, index.len) < 0 || fdatasync(fd) < 0 || fdatasync(b->fd) < 0 ||
                    fchmod(fd, 0400) < 0 || fchmod(b->fd, 0400) < 0))
        rc = error_errno(err, ERROR_IO, errno, "could not write to \"%s/objects/pack\"", b->store->dir);
    if (rc == 0)
        rc = pack_name(b, path, sum, err);
    if (rc < 0 && path)
        (void)unlink(path);
    buf_free(&index);
    return rc;
}

int tree_batch_end(struct tree_batch *b, struct error *err)
{
    int rc = 0;
    if (b->failed.code != ERROR_NONE) {
        rc = -1;
        if (err)
            *err = b->failed;
    } else if (b->fd < 0) {
        rc = loose_write(b, err);
    } else if (b->count) {
        rc = pack_write(b, err);
    }
    tree_batch_abort(b); /* the temporary file's name no longer exists */
    return rc;
}

void tree_batch_abort(struct tree_batch *b)
{
    if (!b)
        return;
    if (b->path)
        (void)unlink(b->path);
    if (b->fd >= 0)
        close(b->fd);
    for (size_t i = 0; i < b->count; i++)
        free(b->entries[i].held);
    (void)pthread_mutex_destroy(&b->lock);
    free(b->entries);
    free(b->slots);
    free(b->path);
    free(b);
}
