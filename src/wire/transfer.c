/*
 * Messages that transfer files to a node and back. Paths are checked here, on both ends: neither side may name a place
 * outside its folder.
 */
#include "internal.h"

#include <string.h>

enum { DEPTH_MAX = 200 };

static const struct field sync_fields[] = {
    STRING(wire_sync, attempt), STRING(wire_sync, slot), STRING(wire_sync, key), STRING(wire_sync, name),
    STRING(wire_sync, root),    STRING(wire_sync, tree), U8(wire_sync, flags),
};
static const struct field file_fields[] = {
    STRING(wire_file, attempt),
    STRING(wire_file, path),
    U32(wire_file, mode),
    U64(wire_file, size),
};
static const struct field check_fields[] = {
    U64(wire_check, token),
    STRINGS(wire_check, paths),
    STRINGS(wire_check, trees),
};
static const struct field state_fields[] = {
    STRING(wire_sync_state, attempt),
    STRING(wire_sync_state, base),
    U8(wire_sync_state, last),
};
static const struct field entries_fields[] = {
    U64(wire_entries, token),
    STRING(wire_entries, error),
    STRING(wire_entries, prefix),
    U8(wire_entries, last),
};
static const struct field entry_fields[] = {
    STRING(wire_entry, path),  U32(wire_entry, mode),  U64(wire_entry, size),
    U64(wire_entry, mtime_ns), U64(wire_entry, inode), STRING(wire_entry, target),
};

/* ---- paths and ids ---- */

static bool path_valid(const char *path)
{
    size_t depth = 0;
    if (strlen(path) > WIRE_PATH_MAX)
        return false;
    for (const char *p = path;; p++) {
        size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.') || ++depth > DEPTH_MAX)
            return false;
        p += n;
        if (!*p)
            return true;
    }
}

bool wire_tree_path_valid(const char *path)
{
    return path_valid(path) && !(str_starts(path, ".git") && (path[4] == '/' || !path[4]));
}

static void put_oid(struct buf *out, const uint8_t *oid)
{
    wire_put_bytes(out, oid, oid ? WIRE_OID_SIZE : 0);
}

/* NULL: none; a fault if it is neither empty nor a complete oid. */
static const uint8_t *get_oid(struct wire_in *in)
{
    uint32_t len;
    const uint8_t *oid = wire_get_bytes(in, &len);
    if (len && len != WIRE_OID_SIZE)
        in->bad = true;
    return len == WIRE_OID_SIZE ? oid : NULL;
}

/* ---- to the node ---- */

void wire_put_sync(struct buf *out, const struct wire_sync *m)
{
    size_t start = wire_begin(out, WIRE_SYNC);
    PUT(out, m, sync_fields);
    wire_end(out, start);
}

bool wire_get_sync(struct wire_in *in, struct wire_sync *ret)
{
    struct wire_sync m = {0};
    GET(in, &m, sync_fields);
    if (!wire_in_done(in) || !wire_id_valid(m.attempt) || !*m.slot || strlen(m.slot) > 200 || strlen(m.key) > 64 ||
        !wire_name_valid(m.name) || strlen(m.root) > WIRE_PATH_MAX || !str_is_hex(m.tree, 2 * WIRE_OID_SIZE) ||
        m.flags > (WIRE_SYNC_DISTRUST | WIRE_SYNC_MISSING))
        return false;
    *ret = m;
    return true;
}

void wire_put_file(struct buf *out, const struct wire_file *m)
{
    size_t start = wire_begin(out, WIRE_FILE);
    PUT(out, m, file_fields);
    put_oid(out, m->oid);
    wire_put_u64(out, m->offset);
    wire_put_bytes(out, m->data, m->len);
    wire_end(out, start);
}

bool wire_get_file(struct wire_in *in, struct wire_file *ret)
{
    struct wire_file m = {0};
    GET(in, &m, file_fields);
    m.oid = get_oid(in);
    m.offset = wire_get_u64(in);
    m.data = wire_get_bytes(in, &m.len);
    if (!wire_in_done(in) || !wire_id_valid(m.attempt) || !wire_tree_path_valid(m.path) || !m.oid ||
        m.len > WIRE_FILE_MAX || m.offset > m.size || m.len > m.size - m.offset)
        return false;
    bool link = m.mode == 0120000;
    if (link ? m.offset || m.len != m.size || !m.len || m.len > WIRE_PATH_MAX || memchr(m.data, 0, m.len)
             : m.mode != 0100644 && m.mode != 0100755)
        return false;
    *ret = m;
    return true;
}

void wire_put_check(struct buf *out, const struct wire_check *m)
{
    size_t start = wire_begin(out, WIRE_CHECK);
    PUT(out, m, check_fields);
    wire_end(out, start);
}

bool wire_get_check(struct wire_in *in, struct wire_check *ret)
{
    struct wire_check m = {0};
    GET(in, &m, check_fields);
    if (!wire_in_done(in) || m.trees.count % 3)
        return false;
    for (uint32_t i = 0; i < m.trees.count; i += 3)
        if (!wire_name_valid(m.trees.items[i]))
            return false;
    *ret = m;
    return true;
}

/* ---- from the node ---- */

static void put_state(struct buf *out, enum wire_type type, const struct wire_sync_state *m)
{
    size_t start = wire_begin(out, type);
    PUT(out, m, state_fields);
    wire_put_u32(out, m->file_count);
    for (uint32_t i = 0; i < m->file_count; i++) {
        wire_put_string(out, m->files[i].path);
        put_oid(out, m->files[i].oid);
        wire_put_u32(out, m->files[i].mode);
    }
    wire_put_u32(out, m->part_count);
    for (uint32_t i = 0; i < m->part_count; i++) {
        put_oid(out, m->parts[i].oid);
        wire_put_u64(out, m->parts[i].size);
    }
    wire_end(out, start);
}

void wire_put_sync_state(struct buf *out, const struct wire_sync_state *m)
{
    put_state(out, WIRE_SYNC_STATE, m);
}

void wire_put_patched(struct buf *out, const struct wire_sync_state *m)
{
    put_state(out, WIRE_PATCHED, m);
}

static bool get_state(struct wire_in *in, struct wire_sync_state *ret)
{
    struct wire_sync_state m = {0};
    bool valid = true;
    GET(in, &m, state_fields);
    m.file_count = wire_get_count(in, WIRE_LIST_MAX, 12);
    m.files = arena_array(in->arena, (size_t)m.file_count + 1, sizeof *m.files);
    for (uint32_t i = 0; i < m.file_count && valid; i++) {
        m.files[i].path = wire_get_string(in);
        m.files[i].oid = get_oid(in);
        m.files[i].mode = wire_get_u32(in);
        valid = wire_tree_path_valid(m.files[i].path);
    }
    m.part_count = wire_get_count(in, WIRE_LIST_MAX, 12);
    m.parts = arena_array(in->arena, (size_t)m.part_count + 1, sizeof *m.parts);
    for (uint32_t i = 0; i < m.part_count && valid; i++) {
        m.parts[i].oid = get_oid(in);
        m.parts[i].size = wire_get_u64(in);
        valid = m.parts[i].oid != NULL;
    }
    if (!wire_in_done(in) || !valid || !wire_id_valid(m.attempt) || m.last > 1)
        return false;
    *ret = m;
    return true;
}

bool wire_get_sync_state(struct wire_in *in, struct wire_sync_state *ret)
{
    return get_state(in, ret) && (!*ret->base || str_is_hex(ret->base, 2 * WIRE_OID_SIZE));
}

bool wire_get_patched(struct wire_in *in, struct wire_sync_state *ret)
{
    if (!get_state(in, ret) || !wire_name_valid(ret->base) || ret->part_count)
        return false;
    for (uint32_t i = 0; i < ret->file_count; i++)
        if (!ret->files[i].oid)
            return false;
    return true;
}

void wire_put_entries(struct buf *out, const struct wire_entries *m)
{
    size_t start = wire_begin(out, WIRE_ENTRIES);
    PUT(out, m, entries_fields);
    wire_put_u32(out, m->entry_count);
    for (uint32_t i = 0; i < m->entry_count; i++)
        PUT(out, &m->entries[i], entry_fields);
    wire_end(out, start);
}

bool wire_get_entries(struct wire_in *in, struct wire_entries *ret)
{
    struct wire_entries m = {0};
    bool valid = true;
    GET(in, &m, entries_fields);
    m.entry_count = wire_get_count(in, WIRE_LIST_MAX, 36);
    m.entries = arena_array(in->arena, (size_t)m.entry_count + 1, sizeof *m.entries);
    for (uint32_t i = 0; i < m.entry_count && valid; i++) {
        struct wire_entry *e = &m.entries[i];
        GET(in, e, entry_fields);
        uint32_t type = e->mode & 0170000;
        valid = path_valid(e->path) && (type == 0100000 || type == 0040000 || (type == 0120000 && *e->target));
    }
    if (!wire_in_done(in) || !valid || m.last > 1 || (*m.prefix && *m.prefix != '/'))
        return false;
    *ret = m;
    return true;
}
