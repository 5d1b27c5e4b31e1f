/* The files in the sources of a plan: the list of `plan --files`, and warnings before anything is sent. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum { LARGEST = 5, LARGEST_WARNED = 3, DOMINANT_PERCENT = 80 };

struct part { /* a file, or a folder with all below it */
    const char *path;
    size_t len; /* of the path that is meant */
    bool folder;
    uint64_t bytes;
};

void cli_size(uint64_t bytes, char ret[32])
{
    static const char *const units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
    double value = (double)bytes / 1000;
    size_t i = 0;
    if (bytes < 1000) {
        snprintf(ret, 32, "%u byte%s", (unsigned)bytes, bytes == 1 ? "" : "s");
        return;
    }
    for (; value >= 999.95 && i + 1 < ARRAY_LEN(units); i++)
        value /= 1000;
    snprintf(ret, 32, "%.1f %s", value, units[i]);
}

/* "1 file", "9,204 files" */
static void put_files(struct buf *b, size_t count)
{
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%zu", count);
    for (int i = 0; i < len; i++)
        buf_printf(b, "%s%c", i > 0 && (len - i) % 3 == 0 ? "," : "", digits[i]);
    buf_puts(b, count == 1 ? " file" : " files");
}

void cli_put_path(struct buf *b, const char *path)
{
    size_t len = strlen(path), step;
    bool odd = len == 0 || path[0] == ' ' || path[len - 1] == ' ' || path[0] == '"';
    for (size_t i = 0; i < len && !odd; i += step) {
        step = utf8_length((const unsigned char *)path + i, len - i);
        unsigned char first = (unsigned char)path[i], second = (unsigned char)path[i + 1];
        odd = step == 0 || first < 0x20 || first == 0x7f || (first == 0xc2 && second < 0xa0);
    }
    if (!odd) {
        buf_puts(b, path);
        return;
    }
    buf_putc(b, '"');
    for (size_t i = 0; i < len; i++) {
        unsigned char ch = (unsigned char)path[i];
        if (ch == '"' || ch == '\\')
            buf_printf(b, "\\%c", ch);
        else if (ch < 0x20 || ch >= 0x7f)
            buf_printf(b, "\\%03o", ch);
        else
            buf_putc(b, (char)ch);
    }
    buf_putc(b, '"');
}

/* ---- the largest parts ---- */

static int largest_first(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : strcmp(x->path, y->path);
}

/* The files and folders directly in a folder ("" or "a/b/"), the largest first; files are sorted, so each of them is
 * one run. */
static size_t parts_below(const struct tree *t, const char *folder, size_t folder_len, struct part **ret)
{
    struct part *parts = NULL;
    size_t count = 0;
    for (size_t i = 0; i < t->count; i++) {
        const char *path = t->files[i].path;
        if (strncmp(path, folder, folder_len) != 0)
            continue;
        size_t name = strcspn(path + folder_len, "/");
        bool is_folder = path[folder_len + name] == '/';
        size_t len = folder_len + name + is_folder;
        struct part *last = count ? &parts[count - 1] : NULL;
        if (!last || last->len != len || strncmp(last->path, path, len) != 0) {
            parts = xreallocarray(parts, count + 1, sizeof *parts);
            last = &parts[count++];
            *last = (struct part){path, len, is_folder, 0};
        }
        last->bytes += t->files[i].size;
    }
    if (count)
        qsort(parts, count, sizeof *parts, largest_first);
    *ret = parts;
    return count;
}

/* Goes down to the place that takes the space: a folder that has most of it is not listed itself. */
static size_t largest_parts(const struct tree *t, struct part **ret)
{
    const char *folder = "";
    size_t len = 0, count;
    while ((count = parts_below(t, folder, len, ret)) > 0) {
        struct part top = (*ret)[0];
        struct part *below;
        if (!top.folder || top.bytes * 100 < t->bytes * DOMINANT_PERCENT)
            break;
        size_t inside = parts_below(t, top.path, top.len, &below);
        bool deeper = inside > 0 && below[0].folder && below[0].bytes * 100 >= t->bytes * DOMINANT_PERCENT;
        free(below);
        if (!deeper)
            break;
        free(*ret);
        folder = top.path;
        len = top.len;
    }
    return count;
}

static void put_part(struct buf *b, const struct part *p)
{
    CLEANUP(cleanup_free) char *path = xstrndup(p->path, p->len);
    cli_put_path(b, path);
}

/* As an item of a list that a person copies into a spec. */
static void put_as_yaml(struct buf *b, const struct part *part)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";
    CLEANUP(cleanup_free) char *path = xstrndup(part->path, part->len);
    if (*path != '-' && strspn(path, plain) == part->len)
        buf_puts(b, path);
    else
        buf_json_string(b, path, part->len);
}

/* ---- warnings ---- */

static void warn_size(const struct source_tree *s)
{
    char size[32];
    struct buf b = {0};
    struct part *parts;
    size_t count = largest_parts(s->tree, &parts);
    cli_size(s->tree->bytes, size);
    buf_printf(&b, "rhrun: warning: the workdir has %s in ", size);
    put_files(&b, s->tree->count);
    buf_puts(&b, "; the largest:");
    for (size_t i = 0; i < count && i < LARGEST_WARNED; i++) {
        if (i > 0 && parts[i].bytes * 100 < s->tree->bytes)
            break;
        cli_size(parts[i].bytes, size);
        buf_puts(&b, i ? ", " : " ");
        put_part(&b, &parts[i]);
        buf_printf(&b, " (%s)", size);
    }
    buf_puts(&b, "\n  hint: leave out what the job does not need: workdir: {exclude: [");
    if (count)
        put_as_yaml(&b, &parts[0]);
    buf_puts(&b, "]}\n");
    fwrite(b.data, 1, b.len, stderr);
    buf_free(&b);
    free(parts);
}

void cli_warn_sources(const struct cli *c, const struct sources *s)
{
    if (c->given[OPT_QUIET] || c->given[OPT_JSON] || c->given[OPT_DETACHED_FD])
        return;
    if (s->inward)
        fprintf(
            stderr,
            "rhrun: warning: %s fetches files into the workdir itself: the next run sends what one run has fetched\n"
            "  hint: give it a folder of its own: to: results/\n",
            s->inward);
    for (size_t i = 0; i < s->count; i++) {
        const struct source_tree *item = &s->items[i];
        for (const char *p = item->notes ? item->notes : ""; *p;) {
            size_t len = strcspn(p, "\n");
            fprintf(stderr, "rhrun: warning: %s: %.*s\n", item->name, (int)len, p);
            p += len + (p[len] == '\n');
        }
        if (item->tree == s->plan.workdir && item->tree->bytes > TREE_WARN_SIZE)
            warn_size(item);
    }
}

/* ---- plan --files ---- */

static void put_json_source(struct buf *b, const struct source_tree *s)
{
    const struct tree *t = s->tree;
    struct part *parts;
    size_t count = largest_parts(t, &parts);
    buf_putc(b, '{');
    cli_json_string(b, "name", s->name);
    cli_json_string(b, "from", s->from);
    if (s->commit)
        buf_printf(b, ",\"commit\":\"%s\"", s->commit);
    if (s->to)
        cli_json_string(b, "to", s->to);
    buf_printf(b, ",\"tree\":\"%s\",\"file_count\":%zu,\"bytes\":%llu,\"largest\":[", t->id, t->count,
               (unsigned long long)t->bytes);
    for (size_t i = 0; i < count && i < LARGEST; i++) {
        buf_puts(b, i ? ",{" : "{");
        cli_json_text(b, "path", parts[i].path, parts[i].len);
        buf_printf(b, ",\"bytes\":%llu}", (unsigned long long)parts[i].bytes);
    }
    buf_puts(b, "],\"files\":[");
    for (size_t i = 0; i < t->count; i++) {
        const struct tree_file *f = &t->files[i];
        buf_puts(b, i ? ",\n{" : "\n{");
        cli_json_string(b, "path", f->path);
        buf_printf(b, ",\"mode\":\"%06o\",\"bytes\":%llu,\"id\":\"", f->mode, (unsigned long long)f->size);
        for (size_t k = 0; k < TREE_OID_SIZE; k++)
            buf_printf(b, "%02x", f->oid[k]);
        buf_puts(b, "\"}");
    }
    buf_puts(b, "]}");
    free(parts);
}

static void put_source(struct buf *b, const struct source_tree *s)
{
    const struct tree *t = s->tree;
    char size[32];
    struct part *parts;
    size_t count = largest_parts(t, &parts);
    cli_size(t->bytes, size);
    buf_printf(b, "\n%s: ", s->name);
    cli_put_path(b, s->from);
    if (s->commit)
        buf_printf(b, " at %.12s", s->commit);
    if (s->to)
        buf_printf(b, " to %s", s->to);
    buf_puts(b, ", ");
    put_files(b, t->count);
    buf_printf(b, ", %s\n", size);
    for (size_t i = 0; i < count && i < LARGEST && t->count > LARGEST; i++) {
        cli_size(parts[i].bytes, size);
        buf_puts(b, i ? ", " : "  largest: ");
        put_part(b, &parts[i]);
        buf_printf(b, " (%s)", size);
    }
    if (count && t->count > LARGEST)
        buf_putc(b, '\n');
    for (size_t i = 0; i < t->count; i++) {
        cli_size(t->files[i].size, size);
        buf_printf(b, "  %10s  ", size);
        cli_put_path(b, t->files[i].path);
        buf_puts(b, t->files[i].mode == TREE_MODE_LINK ? " (link)\n" : "\n");
    }
    free(parts);
}

void cli_format_files(const struct sources *s, bool json, struct buf *ret)
{
    const struct spec *spec = s->spec;
    uint64_t bytes = 0;
    size_t count = 0;
    char size[32];
    for (size_t i = 0; i < s->count; i++) {
        bytes += s->items[i].tree->bytes;
        count += s->items[i].tree->count;
    }
    if (json) {
        buf_putc(ret, '{');
        cli_json_string(ret, "job", spec->name);
        buf_printf(ret, ",\"file_count\":%zu,\"bytes\":%llu,\"sources\":[", count, (unsigned long long)bytes);
        for (size_t i = 0; i < s->count; i++) {
            buf_puts(ret, i ? "," : "");
            put_json_source(ret, &s->items[i]);
        }
        buf_puts(ret, "]}\n");
        return;
    }
    cli_size(bytes, size);
    buf_printf(ret, "%s (%s): ", spec->name, spec->path);
    if (s->count == 0) {
        buf_puts(ret, "no files are sent; `workdir` and `files` say which to send\n");
        return;
    }
    put_files(ret, count);
    buf_printf(ret, ", %s; each node gets only what it does not have\n", size);
    for (size_t i = 0; i < s->count; i++)
        put_source(ret, &s->items[i]);
}
