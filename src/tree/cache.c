/*
 * The table of a scanned folder: the last scan's stat data and ids of each file, and the resulting tree id.
 *
 *   struct header
 *   struct record[count]      in the order of their paths
 *   paths, one behind the other without separators
 *   configurations of repositories, then tracked files that are ignored: see put_rest
 *
 * In this machine's byte order, because it is read only here. A checksum over all of it detects a half-written table
 * after a crash; every length is checked as well, so that damage only makes a scan slower.
 */
#include "scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TABLE_VERSION = 1, BOOT_ID_SIZE = 40 };

struct header {
    char magic[8];
    uint32_t version, record_size;
    uint64_t sum; /* of all that follows */
    uint64_t count, path_bytes, rest_bytes;
    uint32_t config_count, tracked_count, tree_stored, zero;
    char boot_id[BOOT_ID_SIZE];
    char id[TREE_ID_LEN + 8];
    uint8_t tracked_seen[TREE_OID_SIZE + 4];
};
struct record {
    struct stat_data st;
    uint32_t len, flags;
    uint8_t oid[TREE_OID_SIZE];
    uint32_t zero;
};
static const char magic[8] = "RHSCAN\n";
enum { SUMMED_FROM = offsetof(struct header, count) };

static uint64_t checksum(const char *data, size_t len)
{
    const uint64_t k = 0x9e3779b97f4a7c15u;
    uint64_t h = len * k, w;
    for (; len >= sizeof w; data += sizeof w, len -= sizeof w) {
        memcpy(&w, data, sizeof w);
        h = (h ^ w) * k;
        h ^= h >> 29;
    }
    w = 0;
    memcpy(&w, data, len);
    h = (h ^ w) * k;
    return h ^ h >> 32;
}

static void boot_id(char out[BOOT_ID_SIZE])
{
    memset(out, 0, BOOT_ID_SIZE);
    CLEANUP(cleanup_close) int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, out, BOOT_ID_SIZE - 1) <= 0)
        random_hex(out, BOOT_ID_SIZE / 2 - 1); /* not known: no table counts as of this boot */
}

/* ---- reading ---- */

struct cursor {
    const char *at, *end;
    bool bad;
};

static const char *take(struct cursor *c, size_t len)
{
    if (c->bad || (size_t)(c->end - c->at) < len) {
        c->bad = true;
        return NULL;
    }
    c->at += len;
    return c->at - len;
}

static uint32_t take_u32(struct cursor *c)
{
    uint32_t n = 0;
    const char *p = take(c, sizeof n);
    if (p)
        memcpy(&n, p, sizeof n);
    return n;
}

/* A string with its NUL, or NULL. */
static const char *take_string(struct cursor *c)
{
    uint32_t len = take_u32(c);
    const char *s = len ? take(c, len) : NULL;
    if (!s || strnlen(s, len) != len - 1) {
        c->bad = true;
        return NULL;
    }
    return s;
}

static void take_rest(struct scan_table *t, struct cursor *c, const struct header *h)
{
    size_t left = (size_t)(c->end - c->at);
    if (h->config_count > left || h->tracked_count > left) {
        c->bad = true;
        return;
    }
    t->configs.items = xcalloc(h->config_count + 1, sizeof *t->configs.items);
    for (uint32_t i = 0; i < h->config_count && !c->bad; i++) {
        const char *git_dir = take_string(c), *excludes = take_string(c), *seen = take(c, TREE_OID_SIZE);
        uint32_t fold = take_u32(c);
        if (c->bad)
            return;
        struct scan_config *config = &t->configs.items[t->configs.count++];
        *config = (struct scan_config){
            .git_dir = xstrdup(git_dir), .excludes = xstrdup(excludes), .fold = fold != 0, .keep = true};
        memcpy(config->seen, seen, TREE_OID_SIZE);
    }
    t->tracked = xcalloc(h->tracked_count + 1, sizeof *t->tracked);
    for (uint32_t i = 0; i < h->tracked_count && !c->bad; i++) {
        uint32_t submodule = take_u32(c);
        const char *path = take_string(c);
        if (!c->bad)
            t->tracked[t->tracked_count++] = (struct tracked){path, submodule != 0};
    }
    memcpy(t->tracked_seen, h->tracked_seen, TREE_OID_SIZE);
}

static bool check(struct scan_table *t)
{
    struct header h;
    char boot[BOOT_ID_SIZE];
    if (t->raw.len < sizeof h)
        return false;
    memcpy(&h, t->raw.data, sizeof h);
    size_t left = t->raw.len - sizeof h;
    if (memcmp(h.magic, magic, sizeof magic) != 0 || h.version != TABLE_VERSION ||
        h.record_size != sizeof(struct record) || h.count > TREE_FILES_MAX || h.count * sizeof(struct record) > left ||
        h.path_bytes > left - h.count * sizeof(struct record) ||
        h.rest_bytes != left - h.count * sizeof(struct record) - h.path_bytes ||
        h.sum != checksum(t->raw.data + SUMMED_FROM, t->raw.len - SUMMED_FROM))
        return false;
    const char *records = t->raw.data + sizeof h;
    uint64_t paths = 0;
    for (size_t i = 0; i < h.count; i++) {
        uint32_t len;
        memcpy(&len, records + i * sizeof(struct record) + offsetof(struct record, len), sizeof len);
        paths += len;
    }
    if (paths != h.path_bytes || h.id[TREE_ID_LEN] || strlen(h.id) != TREE_ID_LEN)
        return false;
    t->records = records;
    t->count = (size_t)h.count;
    memcpy(t->id, h.id, sizeof t->id);
    boot_id(boot);
    t->same_boot = memcmp(boot, h.boot_id, sizeof boot) == 0;
    t->tree_stored = h.tree_stored && t->same_boot;
    struct cursor c = {records + h.count * sizeof(struct record) + h.path_bytes, t->raw.data + t->raw.len, false};
    take_rest(t, &c, &h);
    return !c.bad;
}

static bool read_raw(const char *path, struct buf *raw)
{
    CLEANUP(cleanup_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size < 0 || (uint64_t)st.st_size > SCAN_TABLE_MAX)
        return false;
    size_t size = (size_t)st.st_size;
    buf_reserve(raw, size + 1);
    while (raw->len < size) {
        ssize_t n = read(fd, raw->data + raw->len, size - raw->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        raw->len += (size_t)n;
    }
    return true;
}

bool scan_table_load(const char *path, struct scan_table *ret)
{
    *ret = (struct scan_table){0};
    if (read_raw(path, &ret->raw) && check(ret))
        return true;
    scan_table_free(ret);
    return false;
}

void scan_table_free(struct scan_table *t)
{
    buf_free(&t->raw);
    scan_configs_free(&t->configs);
    free(t->tracked);
    *t = (struct scan_table){0};
}

bool scan_table_join(const struct scan_table *t, struct scan_item *items, size_t count)
{
    const struct record *r = t->records;
    const char *path = (const char *)(r + t->count);
    size_t at = 0;
    bool all = count == t->count;
    for (size_t i = 0; i < count; i++) {
        struct scan_item *item = &items[i];
        int order = -1;
        for (; at < t->count; path += r[at].len, at++) {
            size_t n = item->len < r[at].len ? item->len : r[at].len;
            order = memcmp(path, item->path, n);
            if (order == 0)
                order = (r[at].len > item->len) - (r[at].len < item->len);
            if (order >= 0)
                break;
        }
        if (at == t->count || order || (r[at].flags & ITEM_RACY) ||
            memcmp(&r[at].st, &item->st, sizeof item->st) != 0) {
            all = false;
            continue;
        }
        item->flags = ITEM_KNOWN | (t->same_boot ? r[at].flags & ITEM_STORED : 0);
        memcpy(item->oid, r[at].oid, TREE_OID_SIZE);
    }
    return all;
}

/* ---- writing ---- */

static void put_u32(struct buf *b, uint32_t n)
{
    buf_append(b, &n, sizeof n);
}

static void put_string(struct buf *b, const char *s)
{
    size_t len = strlen(s) + 1;
    put_u32(b, (uint32_t)len);
    buf_append(b, s, len);
}

static void put_rest(struct buf *b, const struct scan_table *t, struct header *h)
{
    for (size_t i = 0; i < t->configs.count; i++) {
        const struct scan_config *c = &t->configs.items[i];
        if (!c->used || !c->keep || !c->excludes)
            continue;
        put_string(b, c->git_dir);
        put_string(b, c->excludes);
        buf_append(b, c->seen, TREE_OID_SIZE);
        put_u32(b, c->fold);
        h->config_count++;
    }
    for (size_t i = 0; i < t->tracked_count; i++) {
        put_u32(b, t->tracked[i].submodule);
        put_string(b, t->tracked[i].path);
    }
    h->tracked_count = (uint32_t)t->tracked_count;
    memcpy(h->tracked_seen, t->tracked_seen, TREE_OID_SIZE);
}

/* Each combination of folder and options has a table: removes the oldest, and half-written ones. */
static void prune(const char *dir)
{
    for (;;) {
        DIR *d = opendir(dir);
        struct dirent *e;
        char oldest[256] = "";
        struct timespec age = {0};
        size_t count = 0;
        while (d && (e = readdir(d))) {
            struct stat st;
            if (!str_starts(e->d_name, "scan-") || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
                continue;
            if (!count++ || st.st_mtim.tv_sec < age.tv_sec ||
                (st.st_mtim.tv_sec == age.tv_sec && st.st_mtim.tv_nsec < age.tv_nsec)) {
                age = st.st_mtim;
                snprintf(oldest, sizeof oldest, "%s", e->d_name);
            }
        }
        bool gone = count > SCAN_TABLES_MAX && unlinkat(dirfd(d), oldest, 0) == 0;
        if (d)
            closedir(d);
        if (!gone)
            return;
    }
}

/* Not synced: the checksum detects damage by a power cut. */
static void write_table(const char *path, const struct buf *b)
{
    CLEANUP(cleanup_free) char *temp = xasprintf("%s.XXXXXX", path);
    CLEANUP(cleanup_free) char *dir = xstrndup(path, (size_t)(strrchr(path, '/') - path));
    CLEANUP(cleanup_close) int fd = mkostemp(temp, O_CLOEXEC);
    if (fd < 0)
        return;
    if (write_all(fd, b->data, b->len) || rename(temp, path))
        unlink(temp);
    else
        prune(dir);
}

void scan_table_save(const char *path, const struct scan_table *t, const struct scan_item *items, size_t count)
{
    struct header h = {.version = TABLE_VERSION, .record_size = sizeof(struct record), .count = count};
    struct buf b = {0};
    memcpy(h.magic, magic, sizeof magic);
    memcpy(h.id, t->id, sizeof t->id);
    boot_id(h.boot_id);
    h.tree_stored = t->tree_stored;
    buf_reserve(&b, sizeof h + count * (sizeof(struct record) + 32));
    buf_append(&b, &h, sizeof h);
    for (size_t i = 0; i < count; i++) {
        struct record r = {.st = items[i].st, .len = items[i].len, .flags = items[i].flags};
        memcpy(r.oid, items[i].oid, TREE_OID_SIZE);
        buf_append(&b, &r, sizeof r);
    }
    for (size_t i = 0; i < count; i++) {
        buf_append(&b, items[i].path, items[i].len);
        h.path_bytes += items[i].len;
    }
    size_t before = b.len;
    put_rest(&b, t, &h);
    h.rest_bytes = b.len - before;
    memcpy(b.data, &h, sizeof h);
    h.sum = checksum(b.data + SUMMED_FROM, b.len - SUMMED_FROM);
    memcpy(b.data, &h, sizeof h);
    if (b.len <= SCAN_TABLE_MAX)
        write_table(path, &b);
    buf_free(&b);
}
