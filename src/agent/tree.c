/* The index of a tree: reading it, adding to it, replacing it. */
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum op {
    OP_HEAD = 1, /* path: the root; oid: the tree's id (zeros: none); size: how many entries follow */
    OP_SET,
    OP_DROP,
    OP_BOOT, /* path: the boot that the rest belongs to */
    OP_WHO,  /* path: tree_patch.who, for the next records. These two kinds count in every boot; whether they apply
                follows from their RUN */
    OP_NOW,
};
enum { INDEX_VERSION = 1, INDEX_MAX = 1 << 30, GIVE_UP_MS = 5000 };

struct record { /* as it is on disk; the path with its NUL follows */
    uint32_t sum;
    uint16_t path_size;
    uint8_t op, flags; /* of a head: the version */
    uint16_t mode, stat_mode;
    uint8_t oid[WIRE_OID_SIZE];
    uint64_t size, mtime_ns, inode;
};
_Static_assert(sizeof(struct record) == 56, "no holes");

static uint32_t hash(uint32_t h, const void *data, size_t len)
{
    const uint8_t *p = data;
    while (len--)
        h = (h ^ *p++) * 0x01000193u;
    return h;
}

static uint32_t sum(const struct record *r, const char *path)
{
    return hash(hash(0x811c9dc5u, (const char *)r + sizeof r->sum, sizeof *r - sizeof r->sum), path, r->path_size);
}

/* ---- entries ---- */

static uint32_t *slot_of(const struct tree *t, const char *path)
{
    uint32_t at = hash(0x811c9dc5u, path, strlen(path));
    for (;; at++) {
        uint32_t *slot = &t->slots[at & (t->slot_count - 1)];
        if (!*slot || strcmp(t->entries[*slot - 1].path, path) == 0)
            return slot;
    }
}

struct tree_entry *tree_find(const struct tree *t, const char *path)
{
    uint32_t *slot = t->slot_count ? slot_of(t, path) : NULL;
    return slot && *slot ? &t->entries[*slot - 1] : NULL;
}

/* path: lives as long as the tree */
static struct tree_entry *entry_at(struct tree *t, const char *path)
{
    if (t->count == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 1024;
        t->entries = xreallocarray(t->entries, t->cap, sizeof *t->entries);
        t->slot_count = 2 * t->cap;
        free(t->slots);
        t->slots = xcalloc(t->slot_count, sizeof *t->slots);
        for (uint32_t i = 0; i < t->count; i++)
            *slot_of(t, t->entries[i].path) = i + 1;
    }
    uint32_t *slot = slot_of(t, path);
    if (!*slot) {
        t->entries[t->count] = (struct tree_entry){.path = path};
        *slot = ++t->count;
    }
    return &t->entries[*slot - 1];
}

struct tree_entry *tree_entry(struct tree *t, const char *path)
{
    struct tree_entry *e = tree_find(t, path);
    return e ? e : entry_at(t, arena_strdup(t->arena, path));
}

void tree_entry_stat(struct tree_entry *e, const struct stat *st)
{
    e->stat_mode = (uint16_t)st->st_mode;
    e->size = (uint64_t)st->st_size;
    e->mtime_ns = (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec;
    e->inode = st->st_ino;
}

bool tree_entry_is(const struct tree_entry *e, const struct stat *st)
{
    struct tree_entry now = {0};
    tree_entry_stat(&now, st);
    return now.stat_mode == e->stat_mode && now.size == e->size && now.mtime_ns == e->mtime_ns && now.inode == e->inode;
}

/* ---- patches ---- */

bool tree_entry_there(const struct tree *t, const struct tree_entry *e, const struct stat *st)
{
    const struct tree_patch *p = e->patch ? &t->patches[e->patch - 1] : NULL;
    if (p && (p->now.flags & ENTRY_GONE))
        return !st;
    return st && tree_entry_is(p ? &p->now : e, st);
}

void tree_patch(struct tree *t, struct tree_entry *e, const char *who, const struct tree_entry *now)
{
    for (uint32_t *at = &e->patch; *at; at = &t->patches[*at - 1].before) {
        struct tree_patch *p = &t->patches[*at - 1];
        if (strcmp(p->who + WIRE_ID_LEN, who + WIRE_ID_LEN) == 0) { /* an earlier attempt of the same step */
            p->entry = 0;
            *at = p->before;
            break;
        }
    }
    if (t->patch_count == t->patch_cap) {
        t->patch_cap = t->patch_cap ? 2 * t->patch_cap : 64;
        t->patches = xreallocarray(t->patches, t->patch_cap, sizeof *t->patches);
    }
    t->patches[t->patch_count] = (struct tree_patch){who, (uint32_t)(e - t->entries) + 1, e->patch, *now};
    t->patches[t->patch_count].now.path = e->path;
    e->patch = ++t->patch_count;
}

void tree_unpatch(struct tree *t, struct tree_entry *e)
{
    for (; e->patch; e->patch = t->patches[e->patch - 1].before)
        t->patches[e->patch - 1].entry = 0;
}

/* ---- reading ---- */

static bool next_record(struct tree *t, struct record *r, const char **ret_path)
{
    size_t left = t->text.len - t->whole;
    if (left < sizeof *r)
        return false;
    memcpy(r, t->text.data + t->whole, sizeof *r);
    const char *path = t->text.data + t->whole + sizeof *r;
    if (left - sizeof *r < r->path_size || !r->path_size || strnlen(path, r->path_size) != r->path_size - 1u ||
        r->sum != sum(r, path))
        return false;
    t->whole += sizeof *r + r->path_size;
    *ret_path = path;
    return true;
}

static void take(struct tree *t, const struct record *r, const char *path, uint8_t flags)
{
    struct tree_entry *e = entry_at(t, path);
    uint8_t base = e->flags & ENTRY_BASE;
    tree_unpatch(t, e);
    memcpy(e->oid, r->oid, sizeof e->oid);
    e->mode = r->mode;
    e->stat_mode = r->stat_mode;
    e->size = r->size;
    e->mtime_ns = r->mtime_ns;
    e->inode = r->inode;
    e->flags = (uint8_t)((r->flags & ENTRY_ANY) | base | flags);
}

/* For records of another boot, or untrusted ones: the file counts as missing, and is sent again or removed at the
 * end. */
static void take_lost(struct tree *t, const struct record *r, const char *path)
{
    const struct tree_entry *e = tree_find(t, path);
    if (!e || !(e->flags & ENTRY_BASE)) /* otherwise stat shows which of the two versions exists */
        take(t, r, path, ENTRY_GONE | ENTRY_STALE);
}

/* False: not usable; the records read so far only say what may exist. */
static bool read_index(struct tree *t)
{
    struct record r;
    const char *path;
    if (!next_record(t, &r, &path) || r.op != OP_HEAD || r.flags != INDEX_VERSION || strcmp(path, t->root) != 0)
        return false;
    static const uint8_t none[WIRE_OID_SIZE];
    bool complete = memcmp(r.oid, none, sizeof none) != 0;
    for (size_t i = 0; complete && i < sizeof none; i++)
        snprintf(t->id + 2 * i, 3, "%02x", r.oid[i]);
    for (uint64_t left = r.size; left; left--) {
        if (!next_record(t, &r, &path) || r.op != OP_SET || !wire_tree_path_valid(path))
            return false;
        take(t, &r, path, ENTRY_BASE);
    }
    const char *who = NULL;
    for (bool ours = false; next_record(t, &r, &path);) {
        struct tree_entry *e;
        if (r.op == OP_WHO) {
            who = r.path_size > WIRE_ID_LEN ? path : NULL;
        } else if (r.op == OP_NOW) {
            const struct tree_entry now = {
                .stat_mode = r.stat_mode, .flags = r.flags, .size = r.size, .mtime_ns = r.mtime_ns, .inode = r.inode};
            if (who && (e = tree_find(t, path)))
                tree_patch(t, e, who, &now);
        } else if (r.op == OP_BOOT) {
            ours = strcmp(path, t->boot_id) == 0;
            t->touched = true;
        } else if (!wire_tree_path_valid(path) || (r.op != OP_SET && r.op != OP_DROP)) {
            return false;
        } else if (r.op == OP_SET && ours) {
            take(t, &r, path, ENTRY_NEW);
        } else if (r.op == OP_SET) {
            take_lost(t, &r, path);
        } else if (ours && (e = tree_find(t, path))) {
            e->flags |= ENTRY_NEW | ENTRY_GONE;
        }
    }
    return true;
}

void tree_open(struct tree *t, const struct ledger *l, const char *name, const char *root, struct arena *arena)
{
    *t = (struct tree){.arena = arena, .boot_id = l->boot_id, .fd = -1};
    if (!*t->boot_id) { /* not known: uses an id that no boot has */
        char id[WIRE_ID_LEN + 1];
        random_hex(id, WIRE_ID_LEN / 2);
        t->boot_id = arena_strdup(arena, id);
    }
    size_t base = strlen(l->base);
    t->path = path_clean(ledger_node_path(l, root, arena));
    t->inside = str_starts(t->path, l->base) && (t->path[base] == '/' || !t->path[base]);
    t->root = t->inside ? arena_printf(arena, "@base%s", t->path + base) : t->path;
    t->dir = t->inside ? arena_printf(arena, "%s/t/%s/%s", l->base, l->job, name)
                       : arena_printf(arena, "%s/t/%s", l->job_dir, name);
}

int tree_read(struct tree *t, bool distrust, struct error *err)
{
    errno = 0;
    if (file_read(arena_printf(t->arena, "%s/index", t->dir), INDEX_MAX, &t->text, err) < 0 && errno != ENOENT)
        return -1;
    if (read_index(t) && !distrust)
        return 0;
    t->fresh = true;
    t->touched = false;
    *t->id = 0;
    for (uint32_t i = 0; i < t->count; i++)
        t->entries[i].flags = ENTRY_GONE | ENTRY_STALE;
    return 0;
}

void tree_close(struct tree *t)
{
    if (t->fd > 2)
        close(t->fd);
    free(t->entries);
    free(t->slots);
    free(t->patches);
    buf_free(&t->text);
    buf_free(&t->added);
    *t = (struct tree){.fd = -1};
}

/* ---- writing ---- */

static void put_record(struct buf *out, struct record *r, const char *path)
{
    r->path_size = (uint16_t)(strlen(path) + 1);
    r->sum = sum(r, path);
    buf_append(out, r, sizeof *r);
    buf_append(out, path, r->path_size);
}

static void put_entry(struct buf *out, enum op op, const struct tree_entry *e)
{
    struct record r = {.op = (uint8_t)op,
                       .flags = e->flags & (op == OP_NOW ? ENTRY_GONE : ENTRY_ANY),
                       .mode = e->mode,
                       .stat_mode = e->stat_mode,
                       .size = e->size,
                       .mtime_ns = e->mtime_ns,
                       .inode = e->inode};
    memcpy(r.oid, e->oid, sizeof r.oid);
    put_record(out, &r, e->path);
}

static void put_boot(struct buf *out, const char *boot_id)
{
    put_record(out, &(struct record){.op = OP_BOOT}, boot_id);
}

void tree_add(struct tree *t, const struct tree_entry *e)
{
    put_entry(&t->added, OP_SET, e);
}

void tree_put_patch(struct buf *out, const struct tree_patch *p, const char **who)
{
    if (*who != p->who)
        put_record(out, &(struct record){.op = OP_WHO}, *who = p->who);
    put_entry(out, OP_NOW, &p->now);
}

void tree_drop(struct tree *t, struct tree_entry *e)
{
    tree_unpatch(t, e);
    e->flags = (uint8_t)((e->flags & ~(unsigned)ENTRY_STALE) | ENTRY_NEW | ENTRY_GONE);
    put_entry(&t->added, OP_DROP, e);
}

/* Writes a new index: the complete tree with that id; without an id a file to add to, which records what may exist. */
static int replace(struct tree *t, const char *id, struct error *err)
{
    struct buf all = {0};
    struct record head = {.op = OP_HEAD, .flags = INDEX_VERSION};
    if (id)
        hex_decode(id, head.oid, sizeof head.oid);
    for (uint32_t i = 0; i < t->count; i++)
        head.size += id && !(t->entries[i].flags & ENTRY_GONE);
    put_record(&all, &head, t->root);
    if (!id)
        put_boot(&all, "-");
    for (uint32_t i = 0; i < t->count; i++)
        if (t->entries[i].flags & ENTRY_GONE ? !id && t->entries[i].flags & ENTRY_STALE : id != NULL)
            put_entry(&all, OP_SET, &t->entries[i]);
    const char *who = NULL;
    for (uint32_t i = 0; id && i < t->patch_count; i++)
        if (t->patches[i].entry && !(t->entries[t->patches[i].entry - 1].flags & ENTRY_GONE))
            tree_put_patch(&all, &t->patches[i], &who);
    CLEANUP(cleanup_free) char *path = xasprintf("%s/index", t->dir);
    CLEANUP(cleanup_free) char *tmp = xasprintf("%s.new", path);
    CLEANUP(cleanup_close) int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int rc = fd < 0 || write_all(fd, all.data, all.len) < 0 || rename(tmp, path) < 0 ? -1 : 0;
    if (rc < 0) {
        int errnum = errno;
        unlink(tmp);
        error_errno(err, ERROR_INFRA, errnum, "could not write \"%s\"", path);
        errno = errnum;
    }
    t->whole = all.len;
    buf_free(&all);
    return rc;
}

int tree_append(struct tree *t, struct error *err)
{
    CLEANUP(cleanup_free) char *path = xasprintf("%s/index", t->dir);
    t->fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (t->fd < 0 || ftruncate(t->fd, (off_t)t->whole) < 0 || write_all(t->fd, t->added.data, t->added.len) < 0)
        return error_errno(err, ERROR_INFRA, errno, "could not write \"%s\"", path);
    t->whole += t->added.len;
    buf_clear(&t->added);
    return 0;
}

static int open_to_add(struct tree *t, struct error *err)
{
    if (t->fresh && replace(t, NULL, err) < 0)
        return -1;
    t->fresh = false;
    struct buf added = t->added;
    t->added = (struct buf){0};
    put_boot(&t->added, t->boot_id);
    int rc = tree_append(t, err);
    buf_free(&t->added);
    t->added = added;
    t->touched = t->touched || rc == 0;
    return rc;
}

int tree_flush(struct tree *t, struct error *err)
{
    if (!t->added.len)
        return 0;
    if (t->fd < 0 && open_to_add(t, err) < 0)
        return -1;
    if (write_all(t->fd, t->added.data, t->added.len) < 0) {
        error_errno(err, ERROR_INFRA, errno, "could not write \"%s/index\"", t->dir);
        int rc = ftruncate(t->fd, (off_t)t->whole); /* records after half a record would not be read */
        (void)rc;
        return -1;
    }
    t->whole += t->added.len;
    buf_clear(&t->added);
    return 0;
}

int tree_commit(struct tree *t, const char *id, struct error *err)
{
    return replace(t, id, err);
}

/* ---- looking ---- */

bool tree_there(const struct ledger *l, const char *name, const char *root, const char *id)
{
    struct tree t;
    struct arena *arena = arena_create();
    CLEANUP(cleanup_free) struct dirs *d = xcalloc(1, sizeof *d);
    uint64_t end = mono_ns() + GIVE_UP_MS * UINT64_C(1000000);
    tree_open(&t, l, name, root, arena);
    bool there = tree_read(&t, false, NULL) == 0;
    d->root_fd = open(t.path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    there = there && d->root_fd >= 0 && *id && str_eq(t.id, id) && !t.touched;
    for (uint32_t i = 0; i < t.count && there; i++) {
        const struct tree_entry *e = &t.entries[i];
        const char *file;
        struct stat st;
        int fd = dirs_enter(d, e->path, &file, NULL, NULL);
        const struct stat *now = fd >= 0 && fstatat(fd, file, &st, AT_SYMLINK_NOFOLLOW) == 0 ? &st : NULL;
        there = (e->flags & ENTRY_ANY ? now != NULL : tree_entry_there(&t, e, now)) &&
                (i % 256 || mono_ns() < end); /* the peer waits; if time is up, a transfer will find that there is
                                                 nothing to do */
    }
    dirs_leave(d, 0);
    cleanup_close(&d->root_fd);
    tree_close(&t);
    arena_destroy(arena);
    return there;
}

void tree_each(const struct ledger *l, bool inside, void (*fn)(void *context, const char *name, const char *root),
               void *context)
{
    CLEANUP(cleanup_free)
    char *path = inside ? xasprintf("%s/t/%s", l->base, l->job) : xasprintf("%s/t", l->job_dir);
    DIR *dir = opendir(path);
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));) {
        CLEANUP(cleanup_free) char *file = xasprintf("%s/%s/index", path, e->d_name);
        CLEANUP(cleanup_close) int fd = open(file, O_RDONLY | O_CLOEXEC);
        char head[sizeof(struct record) + WIRE_PATH_MAX + 1];
        struct tree t = {.text = {.data = head}};
        ssize_t n = fd < 0 ? -1 : read(fd, head, sizeof head);
        struct record r;
        const char *root;
        t.text.len = n > 0 ? (size_t)n : 0;
        if (next_record(&t, &r, &root) && r.op == OP_HEAD)
            fn(context, e->d_name, root);
    }
    closedir(dir);
}
