/*
 * Masking of secrets in a byte stream. Any read may cut a secret, so bytes that could begin one are held back until
 * more arrive. Overlapping secrets are masked as their union: after a match the scan goes on inside it, and a match
 * that reaches further extends the covered range.
 */
#include "super.h"

#include <stdlib.h>
#include <string.h>

enum { LINE_MIN = 4 }; /* a shorter line of a multi-line secret would mask too much */

static void pattern_add(struct mask *m, const char *text, size_t len)
{
    if (len == 0)
        return;
    for (size_t i = 0; i < m->count; i++)
        if (m->patterns[i].len == len && memcmp(m->patterns[i].text, text, len) == 0)
            return;
    m->patterns = xreallocarray(m->patterns, m->count + 1, sizeof *m->patterns);
    m->patterns[m->count++] = (struct mask_pattern){text, len};
    m->first[(unsigned char)*text] = true;
    if (len > m->longest)
        m->longest = len;
}

static int longest_first(const void *a, const void *b)
{
    size_t x = ((const struct mask_pattern *)a)->len, y = ((const struct mask_pattern *)b)->len;
    return (x < y) - (x > y);
}

void mask_init(struct mask *m, const struct wire_strings *secrets)
{
    *m = (struct mask){0};
    for (uint32_t i = 0; i < secrets->count; i++) {
        const char *value = strchr(secrets->items[i], '=');
        if (!value)
            continue;
        pattern_add(m, value + 1, strlen(value + 1));
        for (const char *line = value + 1; strchr(value + 1, '\n') && *line;) {
            size_t len = strcspn(line, "\r\n");
            if (len >= LINE_MIN)
                pattern_add(m, line, len);
            line += len + (line[len] != 0);
        }
    }
    if (m->count)
        qsort(m->patterns, m->count, sizeof *m->patterns, longest_first);
}

bool mask_contains(const struct mask *m, const char *text)
{
    for (size_t i = 0; i < m->count; i++)
        if (m->patterns[i].len >= LINE_MIN && memmem(text, strlen(text), m->patterns[i].text, m->patterns[i].len))
            return true;
    return false;
}

/* Length of the longest secret at p, or 0; *ret_open: a longer one may begin here, but the end cuts it. */
static size_t match_at(const struct mask *m, const uint8_t *p, size_t left, bool *ret_open)
{
    *ret_open = false;
    for (size_t i = 0; i < m->count; i++) {
        const struct mask_pattern *pattern = &m->patterns[i];
        if (pattern->len > left) {
            if (memcmp(p, pattern->text, left) == 0)
                *ret_open = true;
        } else if (memcmp(p, pattern->text, pattern->len) == 0) {
            return pattern->len;
        }
    }
    return 0;
}

void mask_feed(const struct mask *m, struct mask_stream *s, const uint8_t *data, size_t len, bool flush,
               struct buf *out)
{
    struct buf joined = {0};
    buf_clear(out);
    if (s->held_len) {
        buf_append(&joined, s->held, s->held_len);
        buf_append(&joined, data, len);
        data = (const uint8_t *)joined.data;
        len = joined.len;
    }
    size_t i = 0, covered = s->covered;
    while (i < len) {
        if (!covered) { /* most bytes begin no secret: take them in one go */
            size_t plain = i;
            while (plain < len && !m->first[data[plain]])
                plain++;
            buf_append(out, data + i, plain - i);
            i = plain;
            if (i == len)
                break;
        }
        bool open = false;
        size_t match = m->first[data[i]] ? match_at(m, data + i, len - i, &open) : 0;
        if (open && !flush)
            break;
        if (match > covered) {
            if (!covered)
                buf_puts(out, "***");
            covered = match;
        }
        if (covered)
            covered--;
        else
            buf_putc(out, (char)data[i]);
        i++;
    }
    s->covered = flush ? 0 : covered;
    s->held_len = len - i;
    if (s->held_len) {
        if (!s->held)
            s->held = xmalloc(m->longest);
        memmove(s->held, data + i, s->held_len);
    }
    buf_free(&joined);
}
