/* URI references as RFC 3986, 5.2 resolves them; what a schema's $id, $ref and $dynamicRef need. */
#include "internal.h"

#include <string.h>

struct parts { /* each a range of the text; absent: NULL */
    const char *scheme, *authority, *path, *query, *fragment;
    size_t scheme_len, authority_len, path_len, query_len;
};

static bool is_alpha(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static struct parts split(const char *uri)
{
    struct parts parts = {0};
    size_t n = 0;
    while (is_alpha(uri[n]) || (n > 0 && uri[n] && strchr("0123456789+-.", uri[n])))
        n++;
    if (n > 0 && uri[n] == ':') {
        parts.scheme = uri;
        parts.scheme_len = n;
        uri += n + 1;
    }
    if (uri[0] == '/' && uri[1] == '/') {
        parts.authority = uri + 2;
        parts.authority_len = strcspn(uri + 2, "/?#");
        uri += 2 + parts.authority_len;
    }
    parts.path = uri;
    parts.path_len = strcspn(uri, "?#");
    uri += parts.path_len;
    if (*uri == '?') {
        parts.query = uri + 1;
        parts.query_len = strcspn(uri + 1, "#");
        uri += 1 + parts.query_len;
    }
    if (*uri == '#')
        parts.fragment = uri + 1;
    return parts;
}

/* remove_dot_segments (5.2.4), segment by segment; out holds only the path. */
static void put_normal_path(struct buf *out, const char *path, size_t len)
{
    struct buf normal = {0};
    bool absolute = len > 0 && *path == '/';
    const char *p = path + absolute, *end = path + len;
    buf_puts(&normal, absolute ? "/" : "");
    while (p < end) {
        const char *slash = memchr(p, '/', (size_t)(end - p));
        size_t n = (size_t)((slash ? slash : end) - p);
        bool here = n == 1 && *p == '.', up = n == 2 && p[0] == '.' && p[1] == '.';
        if (up && normal.len > absolute) {
            do
                normal.len--;
            while (normal.len > absolute && normal.data[normal.len - 1] != '/');
        }
        if (!here && !up) {
            buf_append(&normal, p, n);
            if (slash)
                buf_putc(&normal, '/');
        }
        p += n + (slash ? 1 : 0);
    }
    if (normal.len > 0)
        buf_append(out, normal.data, normal.len);
    buf_free(&normal);
}

static void put_authority(struct buf *out, const struct parts *from)
{
    if (!from->authority)
        return;
    buf_puts(out, "//");
    buf_append(out, from->authority, from->authority_len);
}

static void put_query(struct buf *out, const struct parts *from)
{
    if (!from->query)
        return;
    buf_putc(out, '?');
    buf_append(out, from->query, from->query_len);
}

char *uri_resolve(struct arena *arena, const char *base, const char *reference)
{
    struct parts b = split(base), r = split(reference);
    const struct parts *scheme = r.scheme ? &r : &b;
    struct buf out = {0};
    buf_puts(&out, "");
    if (scheme->scheme) {
        buf_append(&out, scheme->scheme, scheme->scheme_len);
        buf_putc(&out, ':');
    }
    if (r.scheme || r.authority) {
        put_authority(&out, &r);
        put_normal_path(&out, r.path, r.path_len);
        put_query(&out, &r);
    } else if (r.path_len == 0) {
        put_authority(&out, &b);
        buf_append(&out, b.path, b.path_len);
        put_query(&out, r.query ? &r : &b);
    } else {
        struct buf path = {0};
        put_authority(&out, &b);
        if (*r.path != '/') { /* merge: the base's path up to its last slash */
            size_t n = b.path_len;
            while (n > 0 && b.path[n - 1] != '/')
                n--;
            if (b.authority && b.path_len == 0)
                buf_putc(&path, '/');
            buf_append(&path, b.path, n);
        }
        buf_append(&path, r.path, r.path_len);
        put_normal_path(&out, path.data, path.len);
        buf_free(&path);
        put_query(&out, &r);
    }
    if (r.fragment) {
        buf_putc(&out, '#');
        buf_puts(&out, r.fragment);
    }
    char *result = arena_strdup(arena, out.data ? out.data : "");
    buf_free(&out);
    return result;
}

static int hex_value(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

char *uri_percent_decode(struct arena *arena, const char *text)
{
    char *out = arena_strdup(arena, text), *to = out;
    for (const char *p = out; *p; p++) {
        int high = *p == '%' ? hex_value(p[1]) : -1, low = high >= 0 ? hex_value(p[2]) : -1;
        if (low >= 0 && high * 16 + low > 0) {
            *to++ = (char)(high * 16 + low);
            p += 2;
        } else {
            *to++ = *p;
        }
    }
    *to = 0;
    return out;
}
