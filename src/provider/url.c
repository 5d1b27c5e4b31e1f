/*
 * Addresses. A value in the host may have only letters, digits and "-"; in a path it is a segment or part of one, never
 * empty, never "." or "..". So DELETE /servers/$id deletes one server, whatever the id.
 */
#include "internal.h"

#include <string.h>

static int refuse(const struct filling *f, const char *name, const char *why)
{
    return error_set(f->err, ERROR_SPEC, "%s: \"%s\" %s", f->provider->facts.name, name, why);
}

static bool host_text(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= '0' && text[i] <= '9') || (text[i] == '-' && i)))
            return false;
    return len > 0 && len <= 63;
}

const char *url_base(const struct filling *f)
{
    struct buf out = {0};
    struct piece piece;
    char fault[160];
    const char *text = f->provider->base ? f->provider->base : "http://localhost";
    const char *at = text, *end = text + strlen(text), *base = NULL;
    int rc = f->provider->override ? 0 : piece_next(&at, end, &piece, fault);
    for (; rc > 0; rc = piece_next(&at, end, &piece, fault)) {
        size_t before = out.len;
        if (piece_text(f, &piece, &out) != 0)
            goto out;
        if (piece.name[0] && !host_text(out.data + before, out.len - before)) {
            refuse(f, piece.name, "has no place in an address: letters a-z, digits and \"-\" have");
            goto out;
        }
    }
    if (f->provider->override)
        buf_puts(&out, text);
    while (out.len && out.data[out.len - 1] == '/')
        out.data[--out.len] = 0;
    base = arena_strndup(f->arena, out.data, out.len);
out:
    buf_free(&out);
    return base;
}

static int put_path_piece(const struct filling *f, const struct piece *piece, struct buf *url)
{
    struct buf text = {0};
    if (!piece->name[0]) {
        buf_append(url, piece->text, piece->len);
        return 0;
    }
    int rc = piece_text(f, piece, &text);
    if (rc == 0 && text.len == 0)
        rc = refuse(f, piece->name, "is empty, and is part of a path");
    else if (rc == 0 && memchr(text.data, 0, text.len))
        rc = refuse(f, piece->name, "has a NUL byte, and is part of a path");
    else if (rc == 1)
        rc = refuse(f, piece->name, "is not given, and is part of a path");
    if (rc == 0)
        encode_percent(url, text.data, text.len);
    buf_free(&text);
    return rc;
}

static bool has_dots(const char *path)
{
    for (const char *at = path; (at = strchr(at, '/')); at++) {
        size_t len = strcspn(at + 1, "/?");
        if ((len == 1 || len == 2) && strncmp(at + 1, "..", len) == 0)
            return true;
    }
    return false;
}

int url_build(const struct filling *f, const struct step *step, const struct doc_node *query, struct buf *url)
{
    const char *base = url_base(f);
    struct piece piece;
    char fault[160];
    struct buf pairs = {0};
    if (!base)
        return -1;
    buf_puts(url, base);
    size_t path_at = url->len;
    const char *at = step->path->text, *end = at + step->path->text_len;
    while (piece_next(&at, end, &piece, fault) > 0)
        if (put_path_piece(f, &piece, url) < 0)
            return -1;
    if (has_dots(url->data + path_at))
        return error_set(f->err, ERROR_SPEC, "%s: the path \"%.200s\" has a segment \".\" or \"..\"",
                         f->provider->facts.name, url->data + path_at);
    if (url->len == path_at && !strchr(strstr(base, "://") + 3, '/'))
        buf_putc(url, '/');
    if (query && encode_query(query, &pairs, f->err) < 0) {
        buf_free(&pairs);
        return -1;
    }
    if (pairs.len)
        buf_printf(url, "%c%s", strchr(url->data, '?') ? '&' : '?', pairs.data);
    buf_free(&pairs);
    return url->len > URL_MAX
               ? error_set(f->err, ERROR_SPEC, "%s: an address of more than %u bytes", f->provider->facts.name, URL_MAX)
               : 0;
}

bool url_same_origin(const char *base, const char *url)
{
    const char *host = strstr(base, "://");
    if (!host)
        return false;
    size_t len = (size_t)(host - base) + 3 + strcspn(host + 3, "/?#");
    return strncmp(base, url, len) == 0 && (url[len] == '/' || url[len] == '?') && str_is_printable(url) &&
           !strchr(url, ' ') && strlen(url) <= URL_MAX;
}
