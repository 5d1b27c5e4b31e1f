/* Shared by the steps that send files to a node: the place of a tree, its name, and its description. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* "9001" as "9,001" */
static const char *grouped(struct arena *arena, size_t n)
{
    char digits[24];
    struct buf b = {0};
    int len = snprintf(digits, sizeof digits, "%zu", n);
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            buf_putc(&b, ',');
        buf_putc(&b, digits[i]);
    }
    const char *ret = arena_strdup(arena, b.data);
    buf_free(&b);
    return ret;
}

static const char *size_text(struct arena *arena, uint64_t bytes)
{
    static const char *const units[] = {"KB", "MB", "GB", "TB", "PB", "EB"};
    double size = (double)bytes / 1000;
    size_t unit = 0;
    if (bytes < 1000)
        return arena_printf(arena, "%u byte%s", (unsigned)bytes, bytes == 1 ? "" : "s");
    for (; size >= 999.95 && unit + 1 < ARRAY_LEN(units); unit++)
        size /= 1000;
    return arena_printf(arena, "%.1f %s", size, units[unit]);
}

const char *step_tree_title(struct arena *arena, const struct tree *tree)
{
    if (!tree)
        return "not looked at";
    return arena_printf(arena, "%s file%s, %s, tree %.7s", grouped(arena, tree->count), tree->count == 1 ? "" : "s",
                        size_text(arena, tree->bytes), tree->id);
}

const char *step_oid_hex(struct arena *arena, const struct tree_file *f)
{
    char *hex = arena_alloc(arena, 2 * TREE_OID_SIZE + 1);
    for (size_t i = 0; i < TREE_OID_SIZE; i++)
        snprintf(hex + 2 * i, 3, "%02x", f->oid[i]);
    return hex;
}

const char *step_tree_name(const char *name, const char *root, const char *work, struct arena *arena)
{
    bool relative = *root != '/' && *root != '@' && *root != '~';
    return relative && work ? arena_printf(arena, "%s-%s", name, work) : arena_strdup(arena, name);
}

void step_shares(struct plan_builder *b, struct plan_step *s, const char *path)
{
    const struct spec *spec = plan_spec_of(b);
    bool base = str_starts(path, "@base/"), relative = !base && *path != '/' && *path != '~';
    if (strstr(path, "${{")) /* it may differ on each node */
        return;
    s->one_place = spec->placement == PLACEMENT_HERE && !base && (!relative || spec_in_place(spec));
    s->shared = base || relative || s->one_place;
}

/* The folder of `to`; *ret_file is the name that a single file gets there, NULL when it keeps its own. */
static const char *root_of(struct arena *arena, const char *to, bool is_file, const char **ret_file)
{
    size_t len = strlen(to);
    const char *slash = strrchr(to, '/');
    *ret_file = NULL;
    if (is_file && len && to[len - 1] != '/') {
        *ret_file = slash ? slash + 1 : to;
        if (!slash)
            return "";
        len = (size_t)(slash - to) + 1;
    }
    while (len > 1 && to[len - 1] == '/' && to[len - 2] != '~' && !(len == 6 && str_starts(to, "@base/")))
        len--;
    while (len >= 2 && to[0] == '.' && to[1] == '/') {
        to += 2;
        len -= 2;
    }
    return len == 1 && *to == '.' ? "" : arena_strndup(arena, to, len);
}

/* The same file under another name. The id stays the source's, which the store knows. */
static const struct tree *renamed(struct arena *arena, const struct tree *tree, const char *name)
{
    struct tree *copy = arena_alloc(arena, sizeof *copy);
    struct tree_file *file = arena_alloc(arena, sizeof *file);
    *file = tree->files[0];
    file->path = name;
    *copy = *tree;
    copy->files = file;
    return copy;
}

void step_tree_place(struct arena *arena, const char *to, bool is_file, const struct tree *tree,
                     struct step_tree_at *ret)
{
    const char *file;
    char hex[65];
    ret->root = root_of(arena, to, is_file && tree && tree->count == 1, &file);
    ret->tree = file ? renamed(arena, tree, file) : tree;
    digest_sha256_hex(to, strlen(to), hex);
    ret->name = arena_printf(arena, "files-%.16s", hex);
}
