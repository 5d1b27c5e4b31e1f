/*
 * Making room in a store: removes contents that no wanted tree has. A pack is removed as a whole or not at all, so
 * unwanted contents in a pack with wanted ones stay; contents over TREE_BIG_SIZE, which take most of the room, are
 * separate files. The order makes a kill at any time harmless: first the scan tables, which record what is stored, then
 * contents.
 */
#include "internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <git2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INDEX_OIDS = 8 + 256 * 4, FETCHED_MAX = 1 << 20 };

/* ---- a set of ids ---- */

struct oids {
    uint8_t (*slots)[TREE_OID_SIZE];
    bool *used;
    size_t count, cap;
};

static size_t slot_of(const struct oids *s, const uint8_t *oid)
{
    size_t at;
    memcpy(&at, oid, sizeof at);
    for (at &= s->cap - 1; s->used[at] && memcmp(s->slots[at], oid, TREE_OID_SIZE) != 0;)
        at = (at + 1) & (s->cap - 1);
    return at;
}

static bool oids_has(const struct oids *s, const uint8_t *oid)
{
    return s->cap && s->used[slot_of(s, oid)];
}

/* False: the set has it already. */
static bool oids_add(struct oids *s, const uint8_t *oid)
{
    if (2 * s->count >= s->cap) {
        struct oids more = {.cap = s->cap ? 2 * s->cap : 1024, .count = s->count};
        more.slots = xreallocarray(NULL, more.cap, sizeof *more.slots);
        more.used = xcalloc(more.cap, sizeof *more.used);
        for (size_t i = 0; i < s->cap; i++)
            if (s->used[i]) {
                const size_t at = slot_of(&more, s->slots[i]);
                more.used[at] = true;
                memcpy(more.slots[at], s->slots[i], TREE_OID_SIZE);
            }
        free(s->slots);
        free(s->used);
        *s = more;
    }
    const size_t at = slot_of(s, oid);
    if (s->used[at])
        return false;
    s->used[at] = true;
    memcpy(s->slots[at], oid, TREE_OID_SIZE);
    s->count++;
    return true;
}

/* ---- wanted objects ---- */

struct sweep {
    struct tree_store *store;
    struct oids wanted;
    bool really, tables_gone;
    struct tree_swept *ret;
    struct error *err;
};

static int damaged(struct sweep *w, const uint8_t *oid)
{
    char hex[TREE_ID_LEN + 1];
    tree_hex(oid, hex);
    return error_set(w->err, ERROR_IO, "snapshot store \"%s\": tree %s is damaged", w->store->dir, hex);
}

/* 1: the tree, or a part of it, is missing. The parts that exist are wanted all the same. */
static int want_tree(struct sweep *w, const uint8_t *oid, unsigned depth)
{
    struct tree_content content;
    if (depth > TREE_DEPTH_MAX)
        return damaged(w, oid);
    if (!oids_add(&w->wanted, oid))
        return 0;
    const enum tree_found found = tree_content_read(w->store, oid, GIT_OBJECT_TREE, &content, w->err);
    if (found != TREE_FOUND)
        return found == TREE_MISSING ? 1 : -1;
    int rc = 0;
    for (const uint8_t *p = content.data, *end = p + content.size; p < end && rc >= 0;) {
        const uint8_t *nul = memchr(p, 0, (size_t)(end - p));
        if (!nul || (size_t)(end - nul) <= TREE_OID_SIZE) {
            rc = damaged(w, oid);
            break;
        }
        if (*p == '4') { /* the mode is 40000: a folder */
            const int below = want_tree(w, nul + 1, depth + 1);
            rc = below ? below : rc;
        } else {
            oids_add(&w->wanted, nul + 1);
        }
        p = nul + 1 + TREE_OID_SIZE;
    }
    tree_content_free(&content);
    return rc;
}

static int want(struct sweep *w, const char *id, bool whole)
{
    uint8_t oid[TREE_OID_SIZE], empty[TREE_OID_SIZE];
    tree_hash(TREE_OBJECT_TREE, NULL, 0, empty);
    if (!hex_decode(id, oid, sizeof oid))
        return error_set(w->err, ERROR_INTERNAL, "\"%.60s\" is not an id of a tree", id);
    if (memcmp(oid, empty, sizeof oid) == 0) { /* git knows it without storing it */
        oids_add(&w->wanted, oid);
        return 0;
    }
    const int rc = want_tree(w, oid, 0);
    if (rc == 1 && whole)
        return error_set(w->err, ERROR_IO, "snapshot store \"%s\": tree %s is not whole", w->store->dir, id);
    return rc < 0 ? -1 : 0;
}

/* Fetched trees are assumed to be complete; their contents are not checked. */
static int want_fetched(struct sweep *w)
{
    CLEANUP(cleanup_free) char *path = xasprintf("%s/fetched", w->store->dir);
    DIR *dir = opendir(path);
    int rc = 0;
    for (struct dirent *e; dir && rc == 0 && (e = readdir(dir));) {
        struct buf text = {0};
        CLEANUP(cleanup_free) char *file = xasprintf("%s/%s", path, e->d_name);
        if (*e->d_name != '.' && file_read(file, FETCHED_MAX, &text, NULL) == 0 && text.len > 2 * TREE_ID_LEN) {
            char id[TREE_ID_LEN + 1] = "";
            memcpy(id, text.data + TREE_ID_LEN + 1, TREE_ID_LEN);
            rc = str_is_hex(id, TREE_ID_LEN) ? want(w, id, false) : 0;
        }
        buf_free(&text);
    }
    if (dir)
        closedir(dir);
    return rc;
}

/* ---- removing ---- */

static int tables_go(struct sweep *w)
{
    CLEANUP(cleanup_close) int fd = open(w->store->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int again = fd < 0 ? -1 : openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = again < 0 ? NULL : fdopendir(again);
    int rc = dir ? 0 : -1;
    for (struct dirent *e; rc == 0 && (e = readdir(dir));)
        if (str_starts(e->d_name, "scan-"))
            rc = unlinkat(fd, e->d_name, 0) < 0 && errno != ENOENT ? -1 : 0;
    const int why = errno;
    if (dir)
        closedir(dir);
    else if (again >= 0)
        close(again);
    if (rc < 0 || fsync(fd) < 0)
        return error_errno(w->err, ERROR_IO, rc < 0 ? why : errno, "could not remove the tables of \"%s\"",
                           w->store->dir);
    w->tables_gone = true;
    return 0;
}

static int drop(struct sweep *w, int folder, const char *name)
{
    struct stat st;
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return 0;
    w->ret->files++;
    w->ret->bytes += (uint64_t)st.st_blocks * 512;
    if (!w->really)
        return 0;
    if (!w->tables_gone && tables_go(w) < 0)
        return -1;
    if (unlinkat(folder, name, 0) < 0 && errno != ENOENT)
        return error_errno(w->err, ERROR_IO, errno, "could not remove \"%s\" of \"%s\"", name, w->store->dir);
    return 0;
}

/* Sweeps a folder of contents that are named by their ids; `before`: the first digits of the ids. */
static int sweep_named(struct sweep *w, const char *folder, const char *before)
{
    CLEANUP(cleanup_free) char *path = xasprintf("%s/%s", w->store->dir, folder);
    DIR *dir = opendir(path);
    int rc = 0;
    for (struct dirent *e; dir && rc == 0 && (e = readdir(dir));) {
        uint8_t oid[TREE_OID_SIZE];
        CLEANUP(cleanup_free) char *hex = xasprintf("%s%s", before, e->d_name);
        if (str_is_hex(hex, TREE_ID_LEN) && hex_decode(hex, oid, sizeof oid) && !oids_has(&w->wanted, oid))
            rc = drop(w, dirfd(dir), e->d_name);
    }
    if (dir)
        closedir(dir);
    return rc;
}

static int sweep_loose(struct sweep *w)
{
    int rc = 0;
    for (unsigned i = 0; i < 256 && rc == 0; i++) {
        char folder[16], before[3];
        snprintf(before, sizeof before, "%02x", i);
        snprintf(folder, sizeof folder, "objects/%s", before);
        rc = sweep_named(w, folder, before);
    }
    return rc;
}

static bool pack_is_wanted(const struct sweep *w, const struct tree_pack *p)
{
    for (uint32_t i = 0; i < p->count; i++)
        if (oids_has(&w->wanted, p->index + INDEX_OIDS + (size_t)i * TREE_OID_SIZE))
            return true;
    return false;
}

/* Only our own packs: later fetches may build on a fetched pack. The index is removed first: without it nobody reads
 * the pack. */
static int sweep_packs(struct sweep *w)
{
    struct tree_store *s = w->store;
    CLEANUP(cleanup_free) char *path = xasprintf("%s/objects/pack", s->dir);
    CLEANUP(cleanup_close) int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = 0;
    for (size_t i = 0; folder >= 0 && i < s->pack_count && rc == 0; i++) {
        const struct tree_pack *p = &s->packs[i];
        CLEANUP(cleanup_free) char *index = xasprintf("%s.idx", p->name), *data = xasprintf("%s.pack", p->name);
        if (p->stored && !pack_is_wanted(w, p) && (rc = drop(w, folder, index)) == 0)
            rc = drop(w, folder, data);
    }
    DIR *dir = folder < 0 || rc < 0 ? NULL : opendir(path);
    for (struct dirent *e; dir && rc == 0 && (e = readdir(dir));) { /* packs that a kill left without an index */
        const size_t len = strlen(e->d_name);
        if (!str_starts(e->d_name, "pack-") || !str_ends(e->d_name, ".pack"))
            continue;
        CLEANUP(cleanup_free) char *index = xasprintf("%.*s.idx", (int)(len - strlen(".pack")), e->d_name);
        if (faccessat(folder, index, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
            rc = drop(w, folder, e->d_name);
    }
    if (dir)
        closedir(dir);
    return rc;
}

int tree_store_sweep(const char *dir, const char *const *wanted, size_t count, size_t whole, bool really,
                     struct tree_swept *ret, struct error *err)
{
    struct tree_swept swept = {0};
    struct sweep w = {.really = really, .ret = &swept, .err = err};
    if (tree_store_hold(dir, &w.store, err) < 0)
        return -1;
    tree_packs_read(w.store);
    int rc = want_fetched(&w);
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = want(&w, wanted[i], i < whole);
    if (rc == 0)
        rc = sweep_named(&w, "big", "");
    if (rc == 0)
        rc = sweep_loose(&w);
    if (rc == 0)
        rc = sweep_packs(&w);
    free(w.wanted.slots);
    free(w.wanted.used);
    tree_store_close(w.store);
    if (rc == 0)
        *ret = swept;
    return rc;
}

/* ---- the whole store ---- */

/* No link is followed, and nothing of another file system is touched. */
static int empty_folder(int at, const char *name, dev_t device, unsigned depth)
{
    struct stat st;
    const int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 || depth > TREE_DEPTH_MAX ? NULL : fdopendir(fd);
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    int rc = fstat(fd, &st) < 0 || st.st_dev != device || st.st_uid != geteuid() ? -1 : 0;
    for (struct dirent *e; rc == 0 && (e = readdir(dir));) {
        if (str_eq(e->d_name, ".") || str_eq(e->d_name, "..") || fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (S_ISDIR(st.st_mode))
            rc = empty_folder(fd, e->d_name, device, depth + 1) < 0 || unlinkat(fd, e->d_name, AT_REMOVEDIR) < 0 ? -1
                                                                                                                 : 0;
        else
            rc = unlinkat(fd, e->d_name, 0);
    }
    closedir(dir);
    return rc;
}

int tree_store_remove(const char *dir, struct error *err)
{
    struct tree_store *s;
    struct stat st;
    if (tree_store_hold(dir, &s, err) < 0)
        return -1;
    int rc = lstat(dir, &st) < 0 || empty_folder(AT_FDCWD, dir, st.st_dev, 0) < 0 || rmdir(dir) < 0 ? -1 : 0;
    if (rc < 0)
        rc = error_errno(err, ERROR_IO, errno, "could not remove all of \"%s\"", dir);
    tree_store_close(s);
    return rc;
}
