/* Reading a store: the list of files of a tree, and their contents. */
#include "internal.h"

#include <git2.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    GIT_TREE = 2,
    GIT_BLOB = 3,
    MODE_FOLDER = 0040000,
    MODE_SUBMODULE = 0160000,
    MODE_GROUP = 0100664,
    NOTES_MAX = 18
};

const struct tree_file *tree_find(const struct tree *t, const char *path)
{
    size_t low = 0, high = t->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(path, t->files[middle].path);
        if (order == 0)
            return &t->files[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* ---- listing ---- */

struct lister {
    struct tree_store *store;
    struct arena *arena;
    struct buf *notes; /* may be NULL */
    size_t noted;
    struct tree_file *files;
    size_t count, cap, folders;
    uint64_t bytes;
    struct buf path;
    bool same;
    struct error *err;
};
struct item {
    const char *name;
    size_t len;
    uint32_t mode;
    bool padded; /* a mode with a leading zero, as some other programs once wrote it */
    const uint8_t *oid;
};

static enum tree_found refuse(struct lister *l, const char *why)
{
    l->path.data[l->path.len] = 0;
    (void)error_set(l->err, ERROR_PROTOCOL, "its folder \"%s\" %s", l->path.data, why);
    return TREE_DAMAGED;
}

/* Git's order: a folder as if its name ended in "/". */
static int order_items(const struct item *a, const struct item *b)
{
    size_t len = a->len < b->len ? a->len : b->len;
    int order = memcmp(a->name, b->name, len);
    if (order)
        return order;
    unsigned char x = (unsigned char)(len < a->len ? a->name[len] : a->mode == MODE_FOLDER ? '/' : 0);
    unsigned char y = (unsigned char)(len < b->len ? b->name[len] : b->mode == MODE_FOLDER ? '/' : 0);
    return x - y;
}

static bool item_next(const uint8_t **at, const uint8_t *end, struct item *ret)
{
    const uint8_t *p = *at;
    uint32_t mode = 0;
    bool padded = *p == '0';
    while (p < end && *p >= '0' && *p <= '7' && mode < 01000000)
        mode = mode << 3 | (uint32_t)(*p++ - '0');
    if (p == end || *p++ != ' ')
        return false;
    const uint8_t *nul = memchr(p, 0, (size_t)(end - p));
    if (!nul || end - nul - 1 < TREE_OID_SIZE)
        return false;
    *ret = (struct item){
        .name = (const char *)p, .len = (size_t)(nul - p), .mode = mode, .padded = padded, .oid = nul + 1};
    *at = nul + 1 + TREE_OID_SIZE;
    return true;
}

static bool name_sound(const struct item *i)
{
    return i->len > 0 && !str_eq(i->name, ".") && !str_eq(i->name, "..") && strcasecmp(i->name, ".git") != 0 &&
           !memchr(i->name, '/', i->len);
}

/* Whether there is a file with the name of this folder. Only names with that prefix come between the two. */
static bool file_of_same_name(const struct item *items, size_t folder)
{
    struct item wanted = {.name = items[folder].name, .len = items[folder].len};
    size_t low = 0, high = folder;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = order_items(&wanted, &items[middle]);
        if (order == 0)
            return true;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return false;
}

static enum tree_found items_read(struct lister *l, const struct tree_content *c, struct item **ret, size_t *ret_count)
{
    struct item *items = NULL;
    size_t count = 0, cap = 0;
    const uint8_t *at = c->data, *end = c->data + c->size;
    const char *why = NULL;
    while (!why && at < end) {
        if (count == cap) {
            cap = cap ? cap * 2 : 64;
            items = xreallocarray(items, cap, sizeof *items);
        }
        if (!item_next(&at, end, &items[count]))
            why = "is damaged";
        else if (!name_sound(&items[count]))
            why = "has a name that is not allowed (\".\", \"..\", \".git\" or with a \"/\")";
        else if ((count && order_items(&items[count - 1], &items[count]) >= 0) ||
                 (items[count].mode == MODE_FOLDER && file_of_same_name(items, count)))
            why = "has the same name twice, or is not in order";
        else if (++count > TREE_FILES_MAX)
            why = "has too many files";
    }
    if (why) {
        free(items);
        return refuse(l, why);
    }
    *ret = items;
    *ret_count = count;
    return TREE_FOUND;
}

/* The size of a content, if possible without reading it. */
static enum tree_found blob_size(struct lister *l, const uint8_t oid[TREE_OID_SIZE], uint64_t *ret)
{
    const struct tree_pack *pack;
    struct tree_entry entry;
    uint64_t offset;
    if (tree_pack_find(l->store, oid, &pack, &offset) && tree_pack_entry(pack, offset, &entry)) {
        *ret = entry.size;
        return entry.type == GIT_BLOB ? TREE_FOUND : TREE_DAMAGED;
    }
    if (tree_big_has(l->store, oid, ret))
        return TREE_FOUND;
    if (tree_store_git(l->store, l->err) < 0)
        return TREE_DAMAGED;
    git_oid id;
    size_t size;
    git_object_t type;
    memcpy(id.id, oid, TREE_OID_SIZE);
    int rc = git_odb_read_header(&size, &type, l->store->odb, &id);
    *ret = size;
    return rc == GIT_ENOTFOUND ? TREE_MISSING : rc < 0 || type != GIT_OBJECT_BLOB ? TREE_DAMAGED : TREE_FOUND;
}

static void note(struct lister *l, const char *what)
{
    l->path.data[l->path.len] = 0;
    if (l->notes && l->noted++ < NOTES_MAX)
        buf_printf(l->notes, "%s: %s\n", l->path.data, what);
}

static enum tree_found file_add(struct lister *l, const struct item *i)
{
    struct tree_file f = {.mode = i->mode};
    if (i->mode == MODE_SUBMODULE) {
        l->same = false;
        note(l, "a submodule, not fetched");
        return TREE_FOUND;
    }
    if (i->mode == MODE_GROUP) { /* in very old commits */
        l->same = false;
        f.mode = TREE_MODE_FILE;
    }
    if (f.mode != TREE_MODE_FILE && f.mode != TREE_MODE_EXEC && f.mode != TREE_MODE_LINK)
        return refuse(l, "has a mode that git does not have");
    if (l->count == TREE_FILES_MAX)
        return refuse(l, "is one file too many");
    enum tree_found found = blob_size(l, i->oid, &f.size);
    if (found != TREE_FOUND) {
        l->path.data[l->path.len] = 0;
        if (!l->err || l->err->code == ERROR_NONE)
            (void)error_set(l->err, ERROR_IO, "the content of \"%s\" is %s", l->path.data,
                            found == TREE_MISSING ? "missing" : "damaged");
        return found;
    }
    memcpy(f.oid, i->oid, TREE_OID_SIZE);
    f.path = arena_strndup(l->arena, l->path.data, l->path.len);
    if (l->count == l->cap) {
        l->cap = l->cap ? l->cap * 2 : 256;
        l->files = xreallocarray(l->files, l->cap, sizeof *l->files);
    }
    l->files[l->count++] = f;
    l->bytes += f.size;
    return TREE_FOUND;
}

static enum tree_found folder_add(struct lister *l, const uint8_t oid[TREE_OID_SIZE], unsigned depth)
{
    struct tree_content content;
    struct item *items = NULL;
    size_t count = 0;
    /* A folder that occurs in many places is listed in each: a few small trees could make billions of files. */
    if (depth > TREE_DEPTH_MAX || ++l->folders > TREE_FILES_MAX)
        return refuse(l, depth > TREE_DEPTH_MAX ? "is too deep" : "is one folder too many");
    enum tree_found found = tree_content_read(l->store, oid, GIT_TREE, &content, l->err);
    if (found != TREE_FOUND)
        return found;
    found = items_read(l, &content, &items, &count);
    size_t base = l->path.len;
    if (depth && count == 0 && found == TREE_FOUND)
        l->same = false;
    for (size_t i = 0; found == TREE_FOUND && i < count; i++) {
        if (base + items[i].len + 1 > TREE_PATH_MAX) {
            found = refuse(l, "has a path that is too long");
            break;
        }
        buf_append(&l->path, items[i].name, items[i].len);
        l->same = l->same && !items[i].padded;
        if (items[i].mode == MODE_FOLDER) {
            buf_putc(&l->path, '/');
            found = folder_add(l, items[i].oid, depth + 1);
        } else {
            found = file_add(l, &items[i]);
        }
        l->path.len = base;
    }
    free(items);
    tree_content_free(&content);
    return found;
}

enum tree_found tree_list(struct tree_store *s, const char *id, struct arena *arena, struct tree **ret, bool *ret_same,
                          struct buf *ret_notes, struct error *err)
{
    struct lister l = {.store = s, .arena = arena, .notes = ret_notes, .same = true, .err = err};
    uint8_t oid[TREE_OID_SIZE], empty[TREE_OID_SIZE];
    if (!hex_decode(id, oid, sizeof oid))
        return TREE_MISSING;
    tree_packs_read(s); /* another process may have written one */
    buf_append(&l.path, "", 0);
    buf_reserve(&l.path, TREE_PATH_MAX);
    tree_hash(TREE_OBJECT_TREE, NULL, 0, empty);
    enum tree_found found = TREE_FOUND; /* git knows the empty tree without storing it */
    if (memcmp(oid, empty, sizeof oid) != 0)
        found = folder_add(&l, oid, 0);
    if (found == TREE_FOUND) {
        struct tree *t = arena_alloc(arena, sizeof *t);
        struct tree_file *files = arena_array(arena, l.count, sizeof *files);
        if (l.count)
            memcpy(files, l.files, l.count * sizeof *files);
        *t = (struct tree){.files = files, .count = l.count, .bytes = l.bytes};
        memcpy(t->id, id, sizeof t->id);
        *ret = t;
        *ret_same = l.same;
    }
    free(l.files);
    buf_free(&l.path);
    return found;
}

int tree_load_whole(struct tree_store *s, const char *id, struct arena *arena, struct tree **ret, struct error *err)
{
    struct error why = ERROR_INIT;
    bool same;
    enum tree_found found = tree_list(s, id, arena, ret, &same, NULL, &why);
    if (found == TREE_FOUND)
        return 0;
    return error_set(err, ERROR_IO, "the snapshot of tree %s is %s in \"%s\"%s%s", id,
                     found == TREE_MISSING ? "not complete" : "damaged", tree_store_dir(s), why.text[0] ? ": " : "",
                     why.text);
}

bool tree_load(struct tree_store *s, const char *id, struct arena *arena, struct tree **ret)
{
    struct error err = ERROR_INIT;
    bool same;
    return tree_list(s, id, arena, ret, &same, NULL, &err) == TREE_FOUND;
}
