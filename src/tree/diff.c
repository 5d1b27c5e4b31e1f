/* The differences between two stored trees, in the form of `git diff`. Each tree has its own store. */
#include "internal.h"

#include <git2.h>
#include <stdlib.h>
#include <string.h>

/* ---- which files ---- */

void tree_changes(const struct tree *before, const struct tree *after, struct arena *arena, struct tree_change **ret,
                  size_t *ret_count)
{
    struct tree_change *list = arena_array(arena, before->count + after->count, sizeof *list);
    size_t count = 0;
    for (size_t i = 0, k = 0; i < before->count || k < after->count;) {
        const struct tree_file *a = i < before->count ? &before->files[i] : NULL;
        const struct tree_file *b = k < after->count ? &after->files[k] : NULL;
        const int order = !a ? 1 : !b ? -1 : strcmp(a->path, b->path);
        if (order > 0)
            a = NULL;
        if (order < 0)
            b = NULL;
        i += a != NULL;
        k += b != NULL;
        if (a && b && a->mode == b->mode && memcmp(a->oid, b->oid, TREE_OID_SIZE) == 0)
            continue;
        list[count++] = (struct tree_change){a ? a->path : b->path, a, b};
    }
    *ret = list;
    *ret_count = count;
}

/* ---- lines ---- */

static int put_line(const git_diff_delta *delta, const git_diff_hunk *hunk, const git_diff_line *line, void *arg)
{
    struct buf *out = arg;
    (void)delta, (void)hunk;
    if (line->origin == GIT_DIFF_LINE_FILE_HDR || line->origin == GIT_DIFF_LINE_BINARY)
        return 0;
    if (line->origin == GIT_DIFF_LINE_CONTEXT || line->origin == GIT_DIFF_LINE_ADDITION ||
        line->origin == GIT_DIFF_LINE_DELETION)
        buf_putc(out, line->origin);
    buf_append(out, line->content, line->content_len);
    return 0;
}

int tree_diff_text(const void *before, size_t before_len, const void *after, size_t after_len, struct buf *ret,
                   struct error *err)
{
    git_diff_options options;
    git_patch *patch = NULL;
    if (git_libgit2_init() < 0 || git_diff_options_init(&options, GIT_DIFF_OPTIONS_VERSION) < 0)
        return tree_git_error(err, ERROR_IO, "could not start libgit2");
    options.flags = GIT_DIFF_FORCE_TEXT;
    /* without bytes there is still a text, an empty one */
    int rc = git_patch_from_buffers(&patch, before_len ? before : "", before_len, "a", after_len ? after : "",
                                    after_len, "a", &options);
    if (rc == 0 && patch)
        rc = git_patch_print(patch, put_line, ret);
    if (rc < 0)
        tree_git_error(err, ERROR_IO, "could not compare the lines");
    git_patch_free(patch);
    git_libgit2_shutdown();
    if (ret->len > 0 && ret->data[ret->len - 1] != '\n')
        buf_putc(ret, '\n');
    return rc < 0 ? -1 : 0;
}

/* ---- one file ---- */

/* A path, in quotes as git writes them if it has characters that a line should not have. */
static void put_path(struct buf *b, const char *folder, const char *path)
{
    bool plain = true;
    for (const char *p = path; *p && plain; p++)
        plain = (unsigned char)*p >= 0x20 && *p != 0x7f && *p != '"' && *p != '\\';
    if (plain) {
        buf_printf(b, "%s%s", folder, path);
        return;
    }
    buf_printf(b, "\"%s", folder);
    for (const char *p = path; *p; p++) {
        if (*p == '"' || *p == '\\')
            buf_printf(b, "\\%c", *p);
        else if ((unsigned char)*p < 0x20 || *p == 0x7f)
            buf_printf(b, "\\%03o", (unsigned)(unsigned char)*p);
        else
            buf_putc(b, *p);
    }
    buf_putc(b, '"');
}

static void put_oid(struct buf *b, const struct tree_file *f)
{
    char hex[TREE_ID_LEN + 1] = "0000000";
    if (f)
        tree_hex(f->oid, hex);
    buf_printf(b, "%.7s", hex);
}

static void put_head(struct buf *b, const struct tree_change *c)
{
    buf_puts(b, "diff --git ");
    put_path(b, "a/", c->path);
    buf_putc(b, ' ');
    put_path(b, "b/", c->path);
    buf_putc(b, '\n');
    if (!c->before)
        buf_printf(b, "new file mode %06o\n", c->after->mode);
    else if (!c->after)
        buf_printf(b, "deleted file mode %06o\n", c->before->mode);
    else if (c->before->mode != c->after->mode)
        buf_printf(b, "old mode %06o\nnew mode %06o\n", c->before->mode, c->after->mode);
}

static void put_index(struct buf *b, const struct tree_change *c)
{
    buf_puts(b, "index ");
    put_oid(b, c->before);
    buf_puts(b, "..");
    put_oid(b, c->after);
    if (c->before && c->after && c->before->mode == c->after->mode)
        buf_printf(b, " %06o", c->after->mode);
    buf_putc(b, '\n');
}

static void put_side(struct buf *b, bool there, const char *folder, const char *path)
{
    if (there)
        put_path(b, folder, path);
    else
        buf_puts(b, "/dev/null");
}

/* A name with a blank is followed by a tab, so that readers of patches know where it ends. */
static void put_names(struct buf *b, const struct tree_change *c)
{
    const char *tab = strchr(c->path, ' ') ? "\t" : "";
    buf_puts(b, "--- ");
    put_side(b, c->before, "a/", c->path);
    buf_printf(b, "%s\n+++ ", c->before ? tab : "");
    put_side(b, c->after, "b/", c->path);
    buf_printf(b, "%s\n", c->after ? tab : "");
}

static void put_binary(struct buf *b, const struct tree_change *c)
{
    buf_puts(b, "Binary files ");
    put_side(b, c->before, "a/", c->path);
    buf_puts(b, " and ");
    put_side(b, c->after, "b/", c->path);
    buf_puts(b, " differ\n");
}

static bool is_text(const struct tree_reader *r)
{
    return r->size == 0 || (r->data && !memchr(r->data, 0, r->size < 8000 ? (size_t)r->size : 8000));
}

static int open_side(struct tree_store *s, const struct tree_file *f, struct tree_reader *ret, struct error *err)
{
    if (!f || f->size == 0)
        return 0;
    if (!s)
        return error_set(err, ERROR_IO, "the content of \"%s\" is not in the store", f->path);
    return tree_open(s, f, ret, err);
}

int tree_change_text(struct tree_store *before, struct tree_store *after, const struct tree_change *c, struct buf *ret,
                     struct error *err)
{
    const bool same = c->before && c->after && memcmp(c->before->oid, c->after->oid, TREE_OID_SIZE) == 0;
    const bool large = (c->before && c->before->size > TREE_DIFF_MAX) || (c->after && c->after->size > TREE_DIFF_MAX);
    struct tree_reader a = {.fd = -1}, b = {.fd = -1};
    put_head(ret, c);
    if (same)
        return 0;
    put_index(ret, c);
    /* libgit2 stays initialised as long as the store is open: starting it takes longer than comparing a file */
    int rc = before || after ? tree_store_git(after ? after : before, err) : 0;
    if (rc < 0)
        return rc;
    if (!large && (open_side(before, c->before, &a, err) < 0 || open_side(after, c->after, &b, err) < 0)) {
        rc = -1;
    } else if (large || !is_text(&a) || !is_text(&b)) {
        put_binary(ret, c);
    } else {
        struct buf lines = {0};
        rc = tree_diff_text(a.data, (size_t)a.size, b.data, (size_t)b.size, &lines, err);
        if (rc == 0 && lines.len > 0)
            put_names(ret, c);
        buf_append(ret, lines.data ? lines.data : "", lines.len);
        buf_free(&lines);
    }
    tree_done(&a);
    tree_done(&b);
    return rc;
}
